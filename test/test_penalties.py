"""Penalties over a step: explicit bit by bit where that is stable, beyond it against a solver of its own and bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from conftest import sampled
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls
from world_builder import G, Response, Simulation, ball, box, plane

from haptic_sim.contact_rows import ContactRows
from haptic_sim.dynamics.energy import (
    DAMPING,
    ELASTIC,
    IMPACT,
    INJECTED,
    INJECTED_BEFORE,
    NUMERICAL,
    SUPPLIED,
    EnergyBalance,
    UnstableError,
    watch_balance,
)
from haptic_sim.dynamics.multibody import Multibody, free_joint

ROBOTS = Path(pin.__file__).parents[4] / "share" / "example-robot-data" / "robots"

DOWN = [0.0, 0.0, -G]
T = 1e-3  # [s]


def bodies_of(rng: np.random.Generator, masses: Any, speed: float = 1.0) -> Multibody:
    """Free bodies of given masses [kg] and random shapes of some centimetres, that move."""
    model = pin.Model()
    model.gravity.linear[:] = 0.0
    for i, mass in enumerate(masses):
        joint = model.addJoint(0, free_joint(), pin.SE3.Identity(), f"body{i}")
        sides = rng.uniform(1e-4, 1e-2, 3)  # [m^2]
        moments = mass * np.diag([sides[1] + sides[2], sides[0] + sides[2], sides[0] + sides[1]])
        model.appendBodyToJoint(joint, pin.Inertia(mass, np.zeros(3), moments), pin.SE3.Identity())
    hand = model.addFrame(pin.Frame("hand", 1, pin.SE3.Identity(), pin.FrameType.OP_FRAME))
    q = pin.integrate(model, pin.neutral(model), 0.3 * rng.normal(size=model.nv))
    return Multibody(model, hand, q, speed * rng.normal(size=model.nv))


def rows_of(rng: np.random.Generator, bodies: int, count: int, depth: float) -> ContactRows:
    """Overlapping contacts of bodies with each other and with what is fixed, of few walls."""
    rows = ContactRows()
    rows.count = count
    for i in range(count):
        b = int(rng.integers(1, bodies + 1))
        a = int(rng.integers(0, bodies + 1))
        rows.id[i], rows.wall[i], rows.body[i] = i, i % 3, (a if a != b else 0, b)
        n = rng.normal(size=3)
        rows.normal[i] = n / np.linalg.norm(n)
        rows.point[i] = 0.1 * rng.normal(size=3)
        rows.separation[i] = -depth * rng.uniform(0.0, 1.0)
    return rows


def shares(rows: ContactRows, per: str) -> np.ndarray:
    walls = rows.wall[: rows.count]
    return np.array([np.sum(walls == wall) if per == "wall" else 1 for wall in walls], float)


def explicit(W: np.ndarray, u: np.ndarray, s: np.ndarray, k: np.ndarray, b: np.ndarray, h: float) -> np.ndarray:
    """THESIS (4.5), clamped: as it always was."""
    return h * np.maximum(0.0, -(k * s + b * (W @ u)))


powers = st.floats(-4.0, 3.0)
cases = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32 - 1),
        "masses": st.lists(powers, min_size=1, max_size=5),  # of ten [kg]
        "count": st.integers(1, 12),
        "stiffness": st.floats(0.0, 7.0),
        "damping": st.floats(-2.0, 5.0),
        "rate": st.floats(1.5, 4.0),
        "depth": st.floats(-7.0, -2.0),
        "per": st.sampled_from(["point", "wall"]),
    }
)


class Case:
    """Random bodies with random contacts, and what a step of penalties does to them."""

    def __init__(self, case: dict[str, Any]):
        rng = np.random.default_rng(case["seed"])
        self.body = bodies_of(rng, [10.0**power for power in case["masses"]])
        self.rows = rows_of(rng, len(case["masses"]), case["count"], 10.0 ** case["depth"])
        self.h = 10.0 ** -case["rate"]
        n, parts = self.rows.count, shares(self.rows, case["per"])
        self.k, self.b = 10.0 ** case["stiffness"] / parts, 10.0 ** case["damping"] / parts
        material = {"stiffness": 10.0 ** case["stiffness"], "damping": 10.0 ** case["damping"], "per": case["per"]}
        self.response = Response(self.body, "penalty", **material)
        self.u = np.array(self.body.arrays.u)
        self.s = np.array(self.rows.separation[:n])

    def step(self, external: np.ndarray | None = None) -> np.ndarray:
        """Impulses along the normals."""
        self.du = self.response.respond(self.rows, self.h, external)
        self.W = self.response.dense(self.rows)[::3]
        return self.response.impulses(self.rows)[:, 0]

    def groups(self) -> list[list[int]]:
        """Contacts that hang together by moving bodies."""
        left, found = set(range(self.rows.count)), []
        while left:
            group, bodies = {left.pop()}, set()
            while True:
                bodies = {int(x) for i in group for x in self.rows.body[i] if x}
                more = {i for i in left if bodies & {int(x) for x in self.rows.body[i]}}
                if not more:
                    break
                group |= more
                left -= more
            found.append(sorted(group))
        return found

    def largest(self, group: list[int]) -> float:
        """Largest eigenvalue of h (b + h k / 2) W W^T of a group."""
        W = self.W[group] * np.sqrt(self.h * (self.b + 0.5 * self.h * self.k))[group, None]
        return float(np.linalg.norm(W, 2) ** 2)


@pytest.mark.long
@settings(max_examples=150, deadline=None, derandomize=True)
@given(cases)
def test_a_step_adds_no_more_than_the_elastic_energy_of_its_motion(case: dict[str, Any]) -> None:
    """At most 1/2 h^2 sum k v'^2, whatever the masses, gains, rate and contacts; nothing pulls, nothing is NaN.

    Energies are those of u and of springs along straight paths, s + h v'.
    """
    c = Case(case)
    p = c.step()
    assert np.isfinite(p).all() and (p >= 0.0).all()
    after = c.u + c.W.T @ p
    np.testing.assert_allclose(c.du, c.W.T @ p, rtol=0, atol=1e-12 * (1 + np.abs(c.du).max()))
    v = c.W @ after
    before = 0.5 * c.u @ c.u + 0.5 * c.k @ c.s**2
    now = 0.5 * after @ after + 0.5 * c.k @ np.minimum(c.s + c.h * v, 0.0) ** 2
    bound = 0.5 * c.h**2 * c.k @ v**2
    assert now - before <= bound + 1e-9 * before
    assert c.response.method.unresolved == 0


@pytest.mark.long
@settings(max_examples=80, deadline=None, derandomize=True)
@given(cases)
def test_without_springs_to_speak_of_no_step_adds_anything(case: dict[str, Any]) -> None:
    """Dampers alone only take, from light bodies and heavy ones together."""
    c = Case({**case, "stiffness": -6.0})
    p = c.step()
    after = c.u + c.W.T @ p
    before = 0.5 * c.u @ c.u + 0.5 * c.k @ c.s**2
    assert 0.5 * after @ after <= before * (1 + 1e-9)


@pytest.mark.long
@settings(max_examples=150, deadline=None, derandomize=True)
@given(cases, st.booleans())
def test_stable_steps_are_explicit_and_the_others_the_only_minimum(case: dict[str, Any], push: bool) -> None:
    """Group by group; beyond the limit against a non-negative least squares problem."""
    c = Case(case)
    rng = np.random.default_rng(case["seed"] + 1)
    external = np.abs(c.u).mean() * rng.normal(size=c.body.nv) if push else np.zeros(c.body.nv)
    p = c.step(external)
    plain = explicit(c.W, c.u, c.s, c.k, c.b, c.h)
    v = c.W @ c.u
    for group in c.groups():
        if c.largest(group) <= 2.0:
            np.testing.assert_allclose(p[group], plain[group], rtol=1e-12, atol=1e-15 * (1 + plain.max()))
        W, k, b, s = c.W[group], c.k[group], c.b[group], c.s[group]
        acts = plain[group] > 0.0
        taken = np.where(acts, b, -k * s / np.where(acts, 1.0, v[group]))
        g = c.h * (taken + 0.5 * c.h * k) * v[group]
        ratio = np.sum((W.T @ g) ** 2) / (g @ v[group])
        if ratio <= 2.0 * (1 - 1e-9):
            np.testing.assert_allclose(p[group], plain[group], rtol=1e-12, atol=1e-15 * (1 + plain.max()))
        elif ratio > 2.0 * (1 + 1e-9):
            theta = 1.0 - 2.0 / ratio
            p0 = np.where(acts, -c.h * (k * s + (1 - theta) * b * v[group]), -theta * c.h * k * s)
            gain = theta * c.h * (b + c.h * k)
            A = np.vstack([W.T, np.diag(gain**-0.5)])
            expected = nnls(A, np.concatenate([-(c.u + external), p0 * gain**-0.5]), maxiter=1000)[0]
            change, other = W.T @ p[group], W.T @ expected
            assert np.abs(change - other).max() <= 1e-5 * (np.abs(other).max() + np.abs(c.u).max())


def test_nothing_jumps_where_the_implicit_part_begins() -> None:
    """Just below and above the damping at which a group's ratio is 2."""
    met = 0
    for seed in range(12):
        rng = np.random.default_rng(20260 + seed)
        body, rows = bodies_of(rng, 10.0 ** rng.uniform(-3, 1, 3)), rows_of(rng, 3, 6, 1e-4)
        found: list[tuple[bool, np.ndarray]] = []
        response = Response(body, "penalty", stiffness=1.0)
        low, high = -3.0, 4.0  # powers of ten of the damping, explicit and not
        for _ in range(40):
            middle = 0.5 * (low + high)
            response.method.parameters = response.parameters.model_copy(update={"damping": 10.0**middle})
            response.respond(rows, T)
            W = response.dense(rows)[::3]
            plain = explicit(W, body.arrays.u, rows.separation[:6], np.ones(6), np.full(6, 10.0**middle), T)
            p = response.impulses(rows)[:, 0]
            same = np.allclose(p, plain, rtol=1e-13, atol=0.0)
            found.append((same, np.array(p)))
            low, high = (middle, high) if same else (low, middle)
        if not all(same for same, _ in found):
            met += 1
            stable = [p for same, p in found if same][-1]
            other = [p for same, p in found if not same][-1]
            np.testing.assert_allclose(other, stable, rtol=0, atol=1e-6 * stable.max())
    assert met > 10


def dropped(
    mass: float, stiffness: float, damping: float, rotation: Any = (0, 0, 0), penalty: str = "explicit"
) -> Simulation:
    """A box of 3 cm that falls 6 cm onto a plane."""
    body = {**box((0, 0, 0.1), (0.03,) * 3, mass=mass), "rotation": list(rotation)}
    contact = {"stiffness": stiffness, "damping": damping, "penalty": penalty}
    return Simulation({"floor": plane(), "box": body}, "penalty", 1000.0, contact, gravity=DOWN)


@pytest.mark.parametrize("rotation", [(0, 0, 0), (0.3, 0.2, 0.1), (0.8, 0.6, 0.1)])
@pytest.mark.parametrize("damping", [60.0, 1000.0, 1e5])
def test_a_light_box_comes_to_rest_on_hard_dampers(rotation: tuple[float, ...], damping: float) -> None:
    """15 g on 4000 N/m and 60 N s/m at 1 kHz, of which eight times the stable damping: it flew to 3.7 m.

    It never rises above its fall again, dampers only take, and less than what the fall supplied is numerical.
    """
    sim = dropped(0.015, 4000.0, damping, rotation)
    start, taken, landed = sim.q("box")[2], 0.0, False
    for _ in range(1500):
        sim.step()
        landed = landed or sim.state.contacts > 0
        assert sim.state.energy[DAMPING] >= taken
        taken = sim.state.energy[DAMPING]
        assert sim.q("box")[2] < start - 0.04 if landed and sim.touched > 3 else True
    assert landed
    assert abs(sim.v("box")).max() < 0.02  # creeps out of the floor where it is overdamped most
    assert sim.state.energy[NUMERICAL] < 0.1 * 0.015 * G * 0.085
    assert sim.tool.contact.unresolved == 0


def test_a_pile_of_light_and_heavy_boxes_only_loses_energy() -> None:
    """10 g between 1 kg and 5 g, on dampers far beyond the stable ones."""
    bodies = {"floor": plane()}
    for i, mass in enumerate((1.0, 0.01, 2.0, 0.005, 0.1)):
        bodies[f"box{i}"] = box((0.002 * i, 0.001 * i, 0.021 + 0.041 * i), (0.04,) * 3, mass=mass)
    contact = {"stiffness": 4000.0, "damping": 300.0, "friction": {"model": "coulomb"}}
    sim = Simulation(bodies, "penalty", 1000.0, contact, gravity=DOWN)
    top = sim.energy()
    for _ in range(600):
        sim.step()
        assert sim.energy() + sim.state.energy[ELASTIC] < top + 0.02 * sim.tool.energy.watch[SUPPLIED] + 1e-4
    assert sim.kinetic_energy() < 1e-3
    assert sim.state.energy[NUMERICAL] < 0.5 * sim.tool.energy.watch[SUPPLIED]


def robot(stiffness: float, damping: float, method: str = "penalty", rate: float = 1000.0) -> Simulation:
    """A Panda arm without gravity, held at its hand, whose fingers are some millimetres above a table."""
    path = ROBOTS / "panda_description" / "urdf" / "panda.urdf"
    q = [0.0, 0.4, 0.0, -2.0, 0.0, 2.4, 0.8, 0.02, 0.02]
    file = {"path": str(path), "q": q, "meshes": "hull"}
    world: dict[str, Any] = {"files": {"arm": file}, "tool": "arm/panda_hand", "ignore": [["arm", "arm"]]}
    model = pin.buildModelFromUrdf(str(path))
    data = model.createData()
    pin.framesForwardKinematics(model, data, np.array(q))
    height = data.oMf[model.getFrameId("panda_leftfinger", pin.FrameType.BODY)].translation[2]
    table = plane(offset=height - 0.1)
    return Simulation(
        {"table": table, "ball": ball((5, 5, 5))}, method, rate, {"stiffness": stiffness, "damping": damping}, **world
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("damping", sampled([60.0, 600.0], 600.0))
def test_a_robot_pushed_onto_a_table_by_its_hand_gains_nothing(damping: float) -> None:
    """Its fingers weigh 15 g: the damping is far beyond what is stable at 1 kHz, and gave it 16 J in a tick.

    It never has more energy than the hand's work so far, but for what springs of the overlaps of a step make of it.
    """
    sim = robot(4000.0, damping)
    most = 0.0
    for k in range(400):
        sim.step(wrench=[5.0, 0, -20.0 if k < 300 else 10.0, 0, 0, 0])
        balance = sim.tool.energy
        most = max(most, sim.kinetic_energy())
        supplied = balance.watch[SUPPLIED] + max(0.0, balance.values[INJECTED] - balance.watch[INJECTED_BEFORE])
        assert sim.kinetic_energy() <= 1.1 * supplied
        assert not balance.exceeded
    assert sim.touched > 50
    assert most < 2.0
    assert sim.tool.contact.unresolved == 0


def test_an_unstable_trial_ends_and_names_what_would_do() -> None:
    """A box of 15 g stores more in springs, within a step, than its fall supplied, and dampers keep it there."""
    sim = dropped(0.015, 1e7, 1e5)
    with pytest.raises(UnstableError) as error:
        sim.step(2000)
    balance = sim.tool.energy
    assert balance.values[NUMERICAL] > balance.watch[SUPPLIED] > 0.008
    text = str(error.value)
    assert text.startswith("unstable: springs of penalties, held over a step, added ")
    assert "contact.stiffness = 1e+07 N/m is too large for these bodies at rate = 1000 Hz" in text
    assert "; choose a smaller stiffness, a higher rate, or environment.method = constraint" in text
    # Four corners: 4 / m along the normal, 6 / m in each tilt; a step adds no more than there is with h^2 k a <= 1.
    most = 0.015 / 6 / T**2
    dropped(0.015, most, 1e5 * most / 1e7).step(2000)
    dropped(0.015, 1e7, 1e5, penalty="consistent").step(2000)  # a contact that begins without energy has no limit


def test_a_stiffness_that_is_changed_under_load_is_supplied_and_free_fall_is_no_instability() -> None:
    sim = dropped(0.015, 400.0, 1.0).step(600)
    sim.environment.configure(sim.material.model_copy(update={"stiffness": 1e6}))
    sim.step(300)
    falling = Simulation({"ball": box((0, 0, 0), (0.1,) * 3)}, "penalty", gravity=DOWN).step(1000)
    assert not falling.tool.energy.exceeded and falling.state.energy[NUMERICAL] < 0.0


def test_a_world_that_lives_on_numerical_energy_is_unstable_whatever_hand_and_gravity_give_and_take() -> None:
    """Each hop is paid for by discrete time and lost again, while a steady hand takes 1 J and gives it back."""
    balance, watch = EnergyBalance(), None
    for hops, fine in ((20, False), (20, True)):
        balance = EnergyBalance()
        watch = balance.watch
        balance.open(1.0, 0.0, 0.0)
        watch_balance(balance.values, watch, 0.0)
        for k in range(hops):
            balance.values[INJECTED] += 1.0 if k % 2 else -1.0
            balance.values[IMPACT] += 0.0 if fine else 1.0
            balance.open(1.0 if not fine or k % 2 else 0.0, 0.0, 0.0)
            watch_balance(balance.values, watch, 0.0)
        assert balance.exceeded is not fine
