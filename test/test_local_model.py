"""The local model: as good as the whole world while its planes hold, and gentle when they change.

Where the motion has to be known, walls are of next to no stiffness: the tool coasts, and the wrench divided by the
stiffness tells the depth of each constraint.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from conftest import sampled
from offline_runs import run_unrecorded, simulated_once
from world_builder import thesis_material

from haptic_bench import experiment
from haptic_sim.messages import COLLIDING, FREE, RESTING, LocalGeometry, MessageError, ToolCommand
from haptic_sim.tool.local_model import FullParameters
from haptic_sim.tool.local_model import Proxy as LocalModel
from haptic_sim.worlds.scenes import (
    EmptyParameters,
    EnclosureParameters,
    PegParameters,
    ThreeLinksParameters,
    build_world,
)

RATE = 512.0  # [Hz]
T = 1.0 / RATE
MASS, INERTIA = 2.0, 0.005  # [kg], [kg m^2]
SOFT = 1e-6  # [N/m]
WORLD = build_world(PegParameters(mass=MASS, inertia=INERTIA), EnclosureParameters(), thesis_material())


@pytest.fixture(scope="module", autouse=True)
def each_trial_once() -> Iterator[None]:
    with simulated_once():
        yield


def rotation(angle: float) -> np.ndarray:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


IMMEDIATE = FullParameters(release="immediate")


class Proxy:
    """A local model, and the state after its last tick."""

    def __init__(
        self,
        q: Any = (0, 0, 0),
        v: Any = (0, 0, 0),
        method: Any = "penalty",
        local: Any = IMMEDIATE,
        period: float = 1.0,
        **material: Any,
    ) -> None:
        world = dataclasses.replace(WORLD, q=np.array(q, float), v=np.array(v, float))
        parameters = thesis_material(**({"stiffness": SOFT, "damping": 0.0} | material))
        self.model = LocalModel(world, parameters, method, "full", np.full(6, np.inf), RATE, local, period)
        self.state, self.command, self.tick = self.model.tool_state(), ToolCommand(), 0

    def step(self, ticks: int = 1, wrench: Any = (0,) * 6) -> np.ndarray:
        """Wrench (fx, fy, tz) of the last of some ticks."""
        for _ in range(ticks):
            self.command.stamp(self.tick, 0)
            self.command.wrench[:] = wrench
            self.model.step(self.command, self.state)
            self.tick += 1
        return self.state.wrench[[0, 1, 5]].copy()


@dataclasses.dataclass
class Plane:
    """What a constraint says: a point of the tool (in its axes), a plane's normal, how far when surveyed."""

    id: int
    point: Any
    normal: Any
    separation: float
    velocity: float = 0.0
    position: Any = None
    restitution: float = 0.0

    def separation_at(self, q: np.ndarray, age: float) -> float:
        """Of the point from the plane, that much later [s]; `position` as surveyed."""
        corner = q[:2] + rotation(q[2]) @ np.array(self.point)
        return float(np.array(self.normal) @ (corner - self.position) - self.velocity * age)


def survey(tick: int, q: Any, planes: list[Plane]) -> LocalGeometry:
    """A geometry surveyed at a tick, when the tool was at q."""
    geometry = LocalGeometry(q=3, v=3, inertia=9, gravity=3, constraints=256)
    geometry.stamp(tick, 0)
    geometry.pose[:] = q[0], q[1], 0, 0, 0, np.sin(q[2] / 2), np.cos(q[2] / 2)
    geometry.q[:] = q
    geometry.resize(len(planes))
    for row, plane in zip(geometry.constraints, planes, strict=False):
        corner = np.array(q[:2]) + rotation(q[2]) @ np.array(plane.point)
        plane.position = corner - plane.separation * np.array(plane.normal)
        row["id"], row["body"], row["link"] = plane.id, plane.id, 1
        row["position"], row["normal"] = [*plane.position, 0.0], [*plane.normal, 0.0]
        row["separation"], row["normal_velocity"] = plane.separation, plane.velocity
        row["restitution"] = plane.restitution
    return geometry


def right(separation: float, velocity: float = 0.0, id: int = 1) -> Plane:
    """A wall on the right of the middle of the right face."""
    return Plane(id, (0.021, 0.0), (-1.0, 0.0), separation, velocity)


@pytest.mark.long
@pytest.mark.parametrize(
    ("method", "rendering"),
    sampled(
        itertools.product(("penalty", "impulse_augmented"), ("full", "spread")),
        ("penalty", "full"),
        ("impulse_augmented", "spread"),
    ),
)
@pytest.mark.parametrize(
    "keys",
    [
        ("environment.rate=60",),
        ("environment.rate=60", "environment.delay=0.05"),
        ("environment.rate=512", "environment.delay=0"),
        ("environment.rate=5",),
    ],
    ids=" ".join,
)
def test_with_walls_in_sight_it_is_the_synchronous_world(keys: tuple[str, ...], method: str, rendering: str) -> None:
    """Fixed walls, and an epsilon beyond all travel between updates: the same planes, but for rounding."""
    # it rests at both walls after 1.5 s
    settings = [f"environment.method={method}", f"device.impulse_rendering={rendering}", "duration=2"]
    expected = run_unrecorded(experiment.load("corner_peg", settings)[0])
    settings += ["local_model.type=full", "local_model.epsilon=0.5", *keys]
    found = run_unrecorded(experiment.load("corner_peg", settings)[0])
    assert found.names == expected.names
    assert expected["contacts"].max() == 4
    for name in found.names:
        # a wall of 8000 N/m makes 1e-11 N and more of a rounding of 1e-15 m
        is_wrench = name.partition("_")[0] in ("command", "rendered", "env")
        tolerance = 1e-11 * max(1.0, np.abs(expected[name]).max()) if is_wrench else 1e-12
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=tolerance, err_msg=name)


def test_without_surroundings_the_proxy_is_free() -> None:
    proxy = Proxy(v=(0.1, -0.2, 3.0))
    proxy.step(10)
    assert (proxy.state.contact_state, proxy.state.contacts, proxy.state.geometry_tick) == (FREE, 0, -1)
    np.testing.assert_allclose(proxy.state.q, 10 * T * np.array([0.1, -0.2, 3.0]), rtol=1e-13)


def test_states_say_which_geometry_they_are_from() -> None:
    proxy = Proxy()
    proxy.model.update(survey(0, (0, 0, 0), [right(1.0)]), 0)
    proxy.step(5)
    assert proxy.state.geometry_tick == 0
    proxy.model.update(survey(3, (0, 0, 0), [right(1.0)]), 5)
    proxy.step()
    assert (proxy.state.tick, proxy.state.geometry_tick) == (5, 3)


def test_a_plane_stands_still_while_the_proxy_moves() -> None:
    """THESIS (6.3): separation of the proxy's point, 1 mm away when surveyed, while it coasts and turns."""
    v = np.array([0.1, 0.05, 2.0])
    plane = Plane(1, (0.02, -0.01), (-0.8, 0.6), 1e-3)
    proxy = Proxy(v=v)
    proxy.model.update(survey(0, (0, 0, 0), [plane]), 0)
    touched = 0
    for k in range(60):
        q = k * T * v
        expected = max(0.0, -plane.separation_at(q, 0.0))
        f = proxy.step()
        np.testing.assert_allclose(f[:2], SOFT * expected * np.array(plane.normal), rtol=1e-6, atol=1e-18)
        touched += expected > 0
    assert touched > 20


@pytest.mark.parametrize("late", [0, 5])
def test_a_plane_moves_with_its_normal_velocity(late: int) -> None:
    """At 0.1 m/s towards a resting tool: s = 1 mm - 0.1 k T since the survey, however late that is known."""
    proxy = Proxy(damping=3e-6)
    proxy.step(late)
    proxy.model.update(survey(0, (0, 0, 0), [right(1e-3, velocity=0.1)]), late)
    for k in range(late, 30):
        depth = 0.1 * k * T - 1e-3
        expected = SOFT * depth + 3e-6 * 0.1 if depth > 0 else 0.0
        np.testing.assert_allclose(proxy.step(), [-expected, 0, 0], rtol=1e-4, atol=1e-12)
        assert proxy.state.contact_state == (RESTING if depth > 0 else FREE)


@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
def test_a_moving_plane_strikes_a_resting_proxy(e: float) -> None:
    proxy = Proxy(method="impulse_augmented")
    plane = dataclasses.replace(right(1e-3, velocity=0.1), restitution=e)
    proxy.model.update(survey(0, (0, 0, 0), [plane]), 0)
    states = []
    for _ in range(8):
        proxy.step()
        states.append(proxy.state.contact_state)
        if states[-1] == COLLIDING:
            break
    assert states == [FREE] * 6 + [COLLIDING]  # 1 mm at 0.1 m/s are 5.12 ticks
    np.testing.assert_allclose(proxy.state.v, [-(1 + e) * 0.1, 0, 0], rtol=1e-13, atol=1e-16)


def random_planes(rng: np.random.Generator, ids: Any) -> list[Plane]:
    planes = []
    for id in ids:
        angle = rng.uniform(-np.pi, np.pi)
        normal, point = (np.cos(angle), np.sin(angle)), rng.uniform(-0.02, 0.02, 2)
        planes.append(Plane(int(id), point, normal, rng.uniform(-2e-3, 2e-3), rng.choice([0.0, rng.normal() * 0.02])))
    return planes


def depths(wrench: np.ndarray, planes: list[Plane], q: np.ndarray) -> np.ndarray | None:
    """Depth of each constraint from the wrench of their soft springs; None where that is not to be told."""
    J = []
    for plane in planes:
        r = rotation(q[2]) @ np.array(plane.point)
        n = plane.normal
        J.append([n[0], n[1], 10 * (r[0] * n[1] - r[1] * n[0])])
    if np.linalg.cond(J) > 1e3:
        return None
    return np.linalg.lstsq(np.array(J).T, wrench * [1, 1, 10] / SOFT, rcond=None)[0]


@pytest.mark.long
@pytest.mark.parametrize("cases", [110, pytest.param(330, marks=pytest.mark.exhaustive)])
def test_an_update_never_deepens_a_penetration(cases: int) -> None:
    """Random surroundings that arrive late, in a turning proxy that has others: of each constraint the depth is the
    lesser of what the new plane says and of what it was before; of one that was not there, nothing."""
    rng = np.random.default_rng(20260)
    seen = dict.fromkeys(("kept", "lessened", "new", "taken"), 0)
    for _ in range(cases):
        v = rng.normal(size=3) * [0.02, 0.02, 1.0]
        first, second = (
            random_planes(rng, [1, 2, 3]),
            random_planes(rng, rng.permutation([1, 2, 3, 4, 5])[:3]),
        )
        late, k = int(rng.integers(0, 8)), int(rng.integers(8, 20))
        found = []
        for update in (False, True):
            proxy = Proxy(v=v)
            proxy.model.update(survey(0, (0, 0, 0), first), 0)
            proxy.step(k)
            if update:
                proxy.model.update(survey(k - late, (k - late) * T * v, second), k)
            found.append(proxy.step())
        q = k * T * v
        before, after = depths(found[0], first, q), depths(found[1], second, q)
        if before is None or after is None:
            continue
        was = {plane.id: depth for plane, depth in zip(first, before, strict=True)}
        for plane, depth in zip(second, after, strict=True):
            says = max(0.0, -plane.separation_at(q, late * T))
            expected = min(says, max(0.0, was.get(plane.id, 0.0)))
            assert depth == pytest.approx(expected, abs=1e-8)
            kind = "new" if plane.id not in was else "taken" if says < was[plane.id] else "kept"
            seen["lessened" if kind == "taken" and says == 0 else kind] += says > 0 or kind == "taken"
    assert min(seen.values()) > cases // 16, seen


def test_a_wall_that_appears_inside_the_proxy_does_not_push_it_out() -> None:
    """1 mm deep when first seen: no force; 0.2 mm further the force of 0.2 mm."""
    proxy = Proxy(v=(0.1, 0, 0))
    proxy.model.update(survey(0, (0, 0, 0), [right(-1e-3)]), 0)
    np.testing.assert_array_equal(proxy.step(), np.zeros(3))
    for k in range(1, 10):
        np.testing.assert_allclose(proxy.step(), [-SOFT * 0.1 * k * T, 0, 0], rtol=1e-6, atol=1e-18)


def test_offset_is_kept_by_updates_that_say_the_same() -> None:
    """An environment that goes on to see 1 mm does not bring it back while the proxy touches."""
    proxy = Proxy()
    for k in range(0, 30, 3):
        proxy.model.update(survey(k, (0, 0, 0), [right(-1e-3)]), k)
        for _ in range(3):
            np.testing.assert_array_equal(proxy.step(), np.zeros(3))


@pytest.mark.parametrize("away", [2, 4, 8])
def test_offset_is_given_back_while_the_proxy_leaves(away: int) -> None:
    """Seen 1 mm deep; leaves by d, then comes back: the surface is min(d, 1 mm) nearer than before, never nearer."""
    speed = 0.1  # [m/s]: 0.195 mm a tick
    proxy = Proxy(v=(-speed, 0, 0))
    proxy.model.update(survey(0, (0, 0, 0), [right(-1e-3)]), 0)
    proxy.step(away)
    proxy.step(wrench=(2 * MASS * speed / T, 0, 0, 0, 0, 0))  # turns round within the tick
    left = away * speed * T  # farthest, at the beginning of that tick
    surface = max(1e-3 - left, 0.0)  # inside the wall
    touched = 0
    for k in range(15):
        x = -left + (k + 1) * speed * T
        depth = x + 1e-3 - surface
        expected = SOFT * depth if depth > 1e-12 else 0.0
        np.testing.assert_allclose(proxy.step(), [-expected, 0, 0], rtol=1e-4, atol=1e-14)
        touched += depth > 1e-12
    assert touched > 5


def test_constraints_that_are_gone_no_longer_act() -> None:
    proxy = Proxy(v=(0.1, 0, 0))
    proxy.model.update(survey(0, (0, 0, 0), [right(0.0)]), 0)
    proxy.step(5)
    assert proxy.state.contacts == 1
    proxy.model.update(survey(5, (5 * T * 0.1, 0, 0), []), 5)
    np.testing.assert_array_equal(proxy.step(), np.zeros(3))
    assert (proxy.state.contacts, proxy.state.contact_state) == (0, FREE)


def test_material_can_be_replaced_between_ticks() -> None:
    proxy = Proxy(v=(0.1, 0, 0))
    proxy.model.update(survey(0, (0, 0, 0), [right(0.0)]), 0)
    proxy.step(1)
    proxy.model.configure(thesis_material(stiffness=3 * SOFT, damping=0.0))
    np.testing.assert_allclose(proxy.step(), [-3 * SOFT * 0.1 * T, 0, 0], rtol=1e-6)


@pytest.mark.parametrize("link", [0, 2, 2**32 - 1])
def test_a_constraint_on_no_link_of_the_tool_is_refused(link: int) -> None:
    """It would be looked up beyond the model; the geometry before it stays."""
    proxy = Proxy()
    proxy.model.update(survey(0, [0, 0, 0], [right(-1e-3)]), 0)
    geometry = survey(1, [0, 0, 0], [right(-1e-3)])
    geometry.constraints["link"][0] = link
    with pytest.raises(MessageError, match=f"link = {link}: must be 1"):
        proxy.model.update(geometry, 1)
    proxy.step(2)
    assert proxy.state.geometry_tick == 0


@pytest.mark.parametrize("link", ["proximal", "middle", "distal"])
def test_constraints_follow_the_link_that_they_are_on(link: str) -> None:
    """A point of each link of an arm that is held by another one, in a configuration after the survey."""
    tool = ThreeLinksParameters(hold="middle", angles=(0.3, 0.4, -0.5))
    world = build_world(tool, EmptyParameters(), thesis_material())
    model = LocalModel(world, thesis_material(stiffness=SOFT, damping=0.0), "penalty", "full", np.full(6, np.inf), RATE)
    number, point = world.body_names.index(link), np.array([0.02, 0.004, 0.0])
    data = world.model.createData()

    def place(q: np.ndarray) -> np.ndarray:
        pin.forwardKinematics(world.model, data, q)
        return np.asarray(data.oMi[number].act(point))

    surveyed, normal = np.array([0.5, 0.1, 0.2]), np.array([0.6, 0.8, 0.0])
    geometry = LocalGeometry(q=3, v=3, inertia=9, gravity=3, constraints=256)
    geometry.stamp(0, 0)
    geometry.q[:] = surveyed
    geometry.pose[6] = 1.0
    geometry.resize(1)
    row = geometry.constraints[0]
    row["id"], row["body"], row["link"], row["normal"] = 1, 1, number, normal
    row["position"], row["separation"] = place(surveyed) - 0.02 * normal, 0.02
    model.update(geometry, 0)
    planes = model._now.planes
    assert planes.separation[0] == pytest.approx(0.02 + normal @ (place(world.q) - place(surveyed)), abs=1e-14)
    np.testing.assert_allclose(planes.point[0], place(world.q), rtol=0, atol=1e-14)


@pytest.mark.parametrize("hold", ["proximal", "distal"])
def test_an_arm_among_walls_moves_as_in_a_synchronous_environment_of_the_same_rate(hold: str) -> None:
    """Planes of walls are exact, and new in every tick: the arm strikes the wall with whatever link comes first."""
    settings = ["tool.type=three_links", f"tool.hold={hold}", "controller.type=impedance_shaping", "analysis=trial",
                "device.mass=1", "device.inertia=1", "scene.gap=[0.005,0.005]", "environment.method=penalty",
                "operator.wrench=[2,-1,0,0,0,0]", "duration=1"]  # fmt: skip
    local = ["local_model.type=full", "local_model.epsilon=0.01", "environment.rate=512", "environment.delay=0"]
    whole, proxy = (run_unrecorded(experiment.load("corner_peg", settings + more)[0]) for more in ([], local))
    assert whole["contacts"].max() > 0
    for name in ("q0", "q1", "q2"):
        assert np.isfinite(proxy[name]).all()
        np.testing.assert_allclose(proxy[name], whole[name], rtol=0, atol=2e-3)
