"""Updates of a local model: what they change is felt gradually, wrong ones are refused, and the baselines do as said.

Walls are soft, so that the wrench divided by the stiffness tells the depth; see test_local_model.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from world_builder import thesis_material

from haptic_sim.contact.response import ContactParameters
from haptic_sim.messages import COLLIDING, LocalGeometry, MessageError, ToolCommand, ToolState
from haptic_sim.parameters import ParameterError
from haptic_sim.tool.local_model import LOCAL_MODELS, FullParameters, HeldWrench, LocalModel, Proxy, ResolvedContacts
from haptic_sim.tool.local_model.baselines import HeldParameters, ResolveParameters
from haptic_sim.tool.surroundings import WorldSurroundings
from haptic_sim.worlds.parameters import WorldParameters
from haptic_sim.worlds.scenes import (
    EmptyParameters,
    EnclosureParameters,
    NoToolParameters,
    PegParameters,
    ThreeLinksParameters,
    build_world,
)
from haptic_sim.worlds.world_setup import WorldSetup

RATE = 500.0  # [Hz]
T = 1.0 / RATE
PERIOD = 10  # ticks from update to update
MASS = 2.0  # [kg]
SOFT = 1e-6  # [N/m]
BOX: Any = {"type": "box", "size": [0.04, 0.04, 0.04]}
HALF = 0.021  # [m] of the peg's length
UNLIMITED = np.full(6, np.inf)
MATERIAL = thesis_material(stiffness=SOFT, damping=0.0)


def peg() -> WorldSetup:
    return build_world(PegParameters(mass=MASS), EnclosureParameters(), thesis_material())


def proxy(method: Any = "penalty", contact: ContactParameters = MATERIAL, **keys: Any) -> Proxy:
    parameters: Any = LOCAL_MODELS.changed(FullParameters(), keys)
    return Proxy(peg(), contact, method, "full", UNLIMITED, RATE, parameters, PERIOD * T)


def survey(tick: int, separations: dict[int, float], velocity: float = 0.0, nv: int = 3, **keys: Any) -> LocalGeometry:
    """What is on the right of a peg at rest at the origin: planes by identity; keys: fields of the constraints."""
    geometry = LocalGeometry(q=nv, v=nv, inertia=nv * nv, gravity=nv, constraints=256)
    geometry.stamp(tick, 0)
    geometry.pose[6] = 1.0
    geometry.inertia[:] = np.eye(nv).ravel()
    geometry.resize(len(separations))
    for row, (id, separation) in zip(geometry.constraints, separations.items(), strict=False):
        row["id"], row["body"], row["link"] = id, 1, 1
        row["position"], row["normal"] = [HALF + separation, 0, 0], [-1, 0, 0]
        row["separation"], row["normal_velocity"] = separation, velocity
        for key, value in keys.items():
            row[key] = value
    return geometry


def run(model: LocalModel, ticks: int, state: ToolState, first: int, wrench: Any = (0.0,) * 6) -> np.ndarray:
    """Wrenches of the environment in the next ticks (ticks, 6)."""
    command, found = ToolCommand(), np.zeros((ticks, 6))
    for k in range(ticks):
        command.stamp(first + k, 0)
        command.wrench[:] = wrench
        model.step(command, state)
        found[k] = state.wrench
    return found


def touching(release: str, after: dict[int, float]) -> np.ndarray:
    """Depth of a peg 1 mm deep in a plane [m], from the tick before an update on that says otherwise."""
    model = proxy(release=release)
    state = model.tool_state()
    model.update(survey(0, {1: 0.0}), 0)
    run(model, 1, state, 0)
    model._now.planes.c[0, 0] -= 1e-3  # the plane is 1 mm deep in the peg
    before = run(model, PERIOD - 1, state, 1)[-1:]
    model.update(survey(PERIOD, after), PERIOD)
    return -np.concatenate([before, run(model, 2 * PERIOD, state, PERIOD)])[:, 0] / SOFT


@pytest.mark.parametrize("after", [{1: -0.4e-3}, {1: 1e-3}, {}, {2: -0.4e-3}], ids=str)
def test_what_an_update_lessens_is_released_during_a_period(after: dict[int, float]) -> None:
    """To the penetration that the update says, or to none where it says that nothing touches: no tick jumps."""
    depth = touching("gradual", after)
    end = 0.4e-3 if 1 in after and after[1] < 0 else 0.0
    if 2 in after:  # the same surface under another number: it is known by its place
        end = 0.4e-3
    step = (1e-3 - end) / PERIOD
    expected = np.maximum(1e-3 - step * np.arange(-1, 2 * PERIOD), end)
    np.testing.assert_allclose(depth[1:-1], expected[2:], rtol=1e-4, atol=1e-9)
    assert np.abs(np.diff(depth)).max() < 1.001 * step


def test_released_at_once_the_force_falls_in_a_tick() -> None:
    np.testing.assert_allclose(touching("immediate", {1: -0.4e-3})[:2], [1e-3, 0.4e-3], rtol=1e-6)
    np.testing.assert_allclose(touching("immediate", {})[:2], [1e-3, 0.0], atol=1e-12)


def test_without_deformation_an_update_acts_in_full() -> None:
    found = []
    for deformation in (True, False):
        model = proxy(deformation=deformation)
        model.update(survey(0, {1: -1e-3}), 0)
        found.append(-run(model, 1, model.tool_state(), 0)[0, 0] / SOFT)
    np.testing.assert_allclose(found, [0.0, 1e-3], rtol=1e-9, atol=1e-15)


def test_the_intermediate_representation_interpolates_what_it_did_not_know() -> None:
    """A plane that is 1 mm deep when first seen is felt after one period, growing in proportion to time."""
    model = proxy(type="intermediate_representation")
    model.update(survey(0, {1: -1e-3}), 0)
    depth = -run(model, 2 * PERIOD, model.tool_state(), 0)[:, 0] / SOFT
    expected = 1e-3 * np.minimum(np.arange(1, 2 * PERIOD + 1) / PERIOD, 1.0)
    np.testing.assert_allclose(depth, expected, rtol=1e-4)


@pytest.mark.parametrize("coherence", ["identity", "geometry"])
def test_a_constraint_keeps_its_deformation_though_it_is_numbered_anew(coherence: str) -> None:
    """An engine without identities: a deformation that is lost would let the force jump to 1 mm."""
    model = proxy(coherence=coherence)
    state = model.tool_state()
    for k in range(5):
        model.update(survey(k * PERIOD, {100 + k: -1e-3}), k * PERIOD)
        np.testing.assert_allclose(run(model, PERIOD, state, k * PERIOD), 0.0, atol=1e-18)
    assert model._now.planes.track[0] == 0


def test_constraints_far_from_each_other_are_not_the_same() -> None:
    """Farther than the fastest point moves in a period, THESIS (6.13)."""
    model = proxy(max_speed=0.1)  # 2 mm in a period of 20 ms
    state = model.tool_state()
    for k, y in enumerate((0.0, 1.9e-3, 4.0e-3)):
        geometry = survey(k * PERIOD, {k: 1e-3})
        geometry.constraints["position"][0, 1] = y
        model.update(geometry, k * PERIOD)
        run(model, PERIOD, state, k * PERIOD)
        assert model._now.planes.track[0] == (0, 0, 1)[k]


def test_planes_of_which_nothing_new_is_known_stop() -> None:
    """After two periods: 4 mm at 0.1 m/s and 20 ms, then no further, however long the environment is silent."""
    model = proxy()
    model.update(survey(0, {1: 2e-3}, velocity=0.1), 0)
    depth = -run(model, 20 * PERIOD, model.tool_state(), 0)[:, 0] / SOFT
    np.testing.assert_allclose(depth[-1], 2e-3, rtol=1e-3)
    np.testing.assert_allclose(depth[2 * PERIOD :], depth[-1], rtol=1e-6)
    assert proxy(constraints="static").parameters.constraints == "static"


def test_static_constraints_do_not_move() -> None:
    model = proxy(constraints="static")
    model.update(survey(0, {1: 1e-3}, velocity=0.1), 0)
    assert not run(model, 5 * PERIOD, model.tool_state(), 0).any()


def bad(change: str) -> LocalGeometry:
    geometry = survey(20, {1: 1e-3})
    row = geometry.constraints[0]
    if change == "past":
        geometry.tick = 5
    elif change == "nan":
        geometry.wrench[2] = np.nan
    elif change == "separation":
        row["separation"] = np.inf
    elif change == "normal":
        row["normal"] = [2.0, 0.0, 0.0]
    else:
        row["link"] = 9
    return geometry


def test_the_damper_follows_an_update_during_a_period() -> None:
    """A plane in contact whose velocity is another: the force of the damper goes over to it, tick by tick."""
    contact = thesis_material(stiffness=SOFT, damping=1e-6)
    model = proxy(contact=contact)
    state = model.tool_state()
    model.update(survey(0, {1: 0.0}), 0)
    run(model, 1, state, 0)
    model._now.planes.c[0, 0] -= 1e-3
    run(model, PERIOD - 1, state, 1)
    model.update(survey(PERIOD, {1: -1e-3}, velocity=0.05), PERIOD)
    force = -run(model, PERIOD + 3, state, PERIOD)[:, 0]
    damper = force - SOFT * 1e-3
    expected = 1e-6 * 0.05 * np.minimum(np.arange(1, PERIOD + 4) / PERIOD, 1.0)
    np.testing.assert_allclose(damper, expected, atol=2e-9)


@pytest.mark.parametrize("kind", [Proxy, HeldWrench, ResolvedContacts])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("past", "local_geometry 5: is of the past, after 10"),
        ("nan", "local_geometry 20: not finite"),
        ("separation", "local_geometry 20: not finite"),
        ("normal", r"\|normal\| = 2: must be 1"),
        ("link", "link = 9: must be 1 to 1"),
    ],
)
def test_a_bad_update_is_refused_and_changes_nothing(kind: Any, change: str, message: str) -> None:
    """Two models in the same motion, one of which is told nonsense in between: the same bits."""
    found = []
    for told in (False, True):
        model = proxy() if kind is Proxy else kind(peg(), MATERIAL, RATE, ResolveParameters(), PERIOD * T)
        state = model.tool_state()
        model.update(survey(10, {1: -1e-3}), 10)
        first = run(model, 5, state, 10, (0.1, 0, 0, 0, 0, 0))
        if told:
            with pytest.raises(MessageError, match=message):
                model.update(bad(change), 20)
        found.append([first, run(model, 5, state, 15, (0.1, 0, 0, 0, 0, 0)), state.q.copy()])
        model.update(survey(25, {1: 1.0}), 25)  # and a good one is taken
        assert np.isfinite(run(model, 1, state, 25)).all()
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


# Baselines


def test_held_applies_the_wrench_of_the_environment_until_the_next() -> None:
    model = HeldWrench(peg(), MATERIAL, RATE, HeldParameters(), PERIOD * T)
    state, geometry = model.tool_state(), survey(0, {1: -1e-3})
    geometry.wrench[:] = -3.0, 0, 0, 0, 0, 0
    model.update(geometry, 0)
    assert (run(model, PERIOD, state, 0)[:, 0] == -3.0).all()
    np.testing.assert_allclose(state.v[0], -3.0 / MASS * PERIOD * T, rtol=1e-12)
    assert state.contacts == 1
    model.update(survey(PERIOD, {}), PERIOD)
    assert not run(model, 1, state, PERIOD).any()


@pytest.mark.parametrize("coefficient", [1.0, 0.03])
def test_resolve_undoes_a_violation_within_a_step_of_the_environment(coefficient: float) -> None:
    """A f = d with A = h^2 / m: f = m d / h^2; and the displacement since the update is part of d."""
    parameters = ResolveParameters(force_coefficient=coefficient)
    model = ResolvedContacts(peg(), MATERIAL, RATE, parameters, PERIOD * T)
    state = model.tool_state()
    model.update(survey(0, {1: -1e-3}), 0)
    h = PERIOD * T
    first, second = run(model, 2, state, 0)[:, 0]
    np.testing.assert_allclose(first, -coefficient * MASS * 1e-3 / h**2, rtol=1e-6)
    moved = first / MASS * T**2
    np.testing.assert_allclose(second, -coefficient * MASS * (1e-3 + moved) / h**2, rtol=1e-6)


def test_resolve_shares_a_force_and_keeps_to_the_cone_of_friction() -> None:
    parameters = ResolveParameters(force_coefficient=1.0)
    model = ResolvedContacts(peg(), MATERIAL, RATE, parameters, PERIOD * T)
    state, geometry = model.tool_state(), survey(0, {1: -1e-3, 2: -1e-3}, friction_kinetic=0.3)
    geometry.constraints["position"][:2, 1] = 0.01, -0.01
    model.update(geometry, 0)
    state.twist[:] = 0.0
    first = run(model, 1, state, 0)[0]
    np.testing.assert_allclose(first[0], -MASS * 1e-3 / (PERIOD * T) ** 2, rtol=1e-4)
    assert abs(first[5]) < 1e-4 * abs(first[0])
    found = run(model, 3, state, 1, (0.0, 1000.0, 0, 0, 0, 0))  # dragged along the wall
    assert (np.abs(found[:, 1]) <= 0.3 * np.abs(found[:, 0]) * (1 + 1e-9)).all() and found[-1, 1] < -1.0


def test_resolve_is_refused_for_a_linkage() -> None:
    arm = build_world(ThreeLinksParameters(), EmptyParameters(), thesis_material())
    with pytest.raises(ParameterError, match="resolve: supports only tools of one body"):
        ResolvedContacts(arm, MATERIAL, RATE, ResolveParameters(), PERIOD * T)


# Transients


def test_an_impact_adds_a_decaying_sinusoid_to_what_is_rendered_and_not_to_the_motion() -> None:
    found = []
    for amplitude in (0.0, 40.0):
        transient = {"amplitude": amplitude, "frequency": 60.0, "decay": 30.0}
        model = proxy("impulse_augmented", thesis_material(stiffness=4000.0, damping=0.0), transient=transient)
        state = model.tool_state()
        model.update(survey(0, {1: 1e-3}), 0)
        wrenches, approach = [], 0.0
        for k in range(100):
            speed = state.twist[0]
            wrenches.append(run(model, 1, state, k, (2.0, 0, 0, 0, 0, 0))[0])
            if state.contact_state == COLLIDING and not approach:
                approach, at = speed, k
        found.append((np.array(wrenches), state.q.copy(), approach, at))
    (without, q, _, _), (with_it, again, approach, at) = found
    np.testing.assert_array_equal(q, again)
    t = T * np.arange(1, 100 - at + 1)
    expected = -40.0 * approach * np.exp(-30.0 * t) * np.sin(2 * np.pi * 60.0 * t)
    shown = (with_it - without)[at:, 0]
    np.testing.assert_allclose(shown[:20], expected[:20], rtol=1e-9)


# Dynamics of the last survey


def test_surveyed_dynamics_are_those_of_the_update() -> None:
    """The hand accelerates by J D^-1 J^T F with the inertia of the message, which here is not the arm's."""
    arm = build_world(ThreeLinksParameters(), EmptyParameters(), thesis_material())
    model = Proxy(arm, MATERIAL, "penalty", "full", UNLIMITED, RATE, FullParameters(dynamics="surveyed"))
    state, geometry = model.tool_state(), survey(0, {})
    geometry.q[:] = arm.q
    inertia = np.diag([0.5, 0.2, 0.1])
    geometry.inertia[:] = inertia.ravel()
    geometry.gravity[:] = 0.1, 0.2, 0.3
    model.update(geometry, 0)
    J = arm.hand_dynamics()[0]
    force = np.array([1.0, -2.0, 0, 0, 0, 0.3])
    run(model, 1, state, 0, force)
    np.testing.assert_allclose(state.v, T * np.linalg.solve(inertia, J.T @ force - [0.1, 0.2, 0.3]), rtol=1e-12)
    for _ in range(50):  # it moves: the inertia stays, and there are no Coriolis forces
        v = state.v.copy()
        body = model.tool.body
        J = body.J_H.copy()
        run(model, 1, state, 1, force)
        np.testing.assert_allclose(
            state.v - v, T * np.linalg.solve(inertia, J.T @ force - [0.1, 0.2, 0.3]), rtol=1e-9, atol=1e-15
        )


# Surroundings in which other bodies move


def pushed(size: float) -> WorldSetup:
    scene: Any = {
        "planar": True,
        "gravity": [0, 0, 0],
        "tool": "peg",
        "bodies": {
            "block": {
                "joint": "planar",
                "mass": 0.5,
                "position": [0.04, 0],
                "velocity": [-0.2, 0, 0],
                "shapes": [{"type": "box", "size": [0.04, size, 0.04]}],
            },
            "peg": {"joint": "planar", "mass": 1.0, "shapes": [{"type": "box", "size": [0.038, 0.02, 0.04]}]},
        },
    }
    return build_world(NoToolParameters(), WorldParameters.model_validate(scene), thesis_material())


@pytest.mark.parametrize("size", [0.02, 0.03])
def test_a_constraint_on_a_body_tells_its_velocity_and_how_easily_it_moves(size: float) -> None:
    """Two contacts on one face share the load: each moves as if its body had half the mass."""
    surroundings = WorldSurroundings(pushed(size), thesis_material(), epsilon=0.005, rate=RATE)
    geometry = surroundings.local_geometry()
    model = Proxy(pushed(size), thesis_material(), "penalty", "full", UNLIMITED, RATE)
    surroundings.survey(model.tool_state(), 0, geometry)
    constraints = geometry.constraints[: len(geometry)]
    assert len(constraints) == 2
    np.testing.assert_allclose(constraints["normal"], [[-1, 0, 0]] * 2, atol=1e-12)
    np.testing.assert_allclose(constraints["separation"], 1e-3, rtol=1e-9)
    np.testing.assert_allclose(constraints["normal_velocity"], 0.2, rtol=1e-9)
    np.testing.assert_allclose(constraints["mobility"], 2 / 0.5, rtol=1e-9)
    np.testing.assert_allclose(geometry.poses, [[0.04, 0, 0, 0, 0, 0, 1]], atol=1e-12)
    np.testing.assert_allclose(geometry.twists, [[-0.2, 0, 0, 0, 0, 0]], atol=1e-12)


@pytest.mark.parametrize(("horizon", "listed"), [(0.0, 0), (0.004, 0), (0.005, 2)])
def test_what_the_velocity_reaches_is_listed_too(horizon: float, listed: int) -> None:
    """1 mm away, and the block comes at 0.2 m/s: it is within an epsilon of 0.1 mm in 4.5 ms."""
    world = pushed(0.02)
    surroundings = WorldSurroundings(world, thesis_material(), epsilon=1e-4, horizon=horizon, rate=RATE)
    geometry, state = (
        surroundings.local_geometry(),
        Proxy(world, thesis_material(), "penalty", "full", UNLIMITED, RATE),
    )
    surroundings.survey(state.tool_state(), 0, geometry)
    assert len(geometry) == listed


# Constraints that move as masses


def struck(method: Any, mobility: float, e: float = 0.0, **keys: Any) -> tuple[ToolState, Proxy]:
    """A peg at 0.1 m/s that has met a plane of a mobility [1/kg] at rest."""
    world = dataclasses.replace(peg(), v=np.array([0.1, 0.0, 0.0]))
    parameters = FullParameters.model_validate({"type": "full", "constraints": "dynamic"} | keys)
    contact = thesis_material(stiffness=4000.0, damping=0.0)
    model = Proxy(world, contact, method, "full", UNLIMITED, RATE, parameters, PERIOD * T)
    state = model.tool_state()
    model.update(survey(0, {1: 1e-4}, mobility=mobility, restitution=e), 0)
    run(model, 2, state, 0)
    return state, model


@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("mobility", [0.0, 0.1, 2.0, 1e3])
def test_a_collision_with_a_constraint_that_is_a_mass_is_one_of_two_bodies(mobility: float, e: float) -> None:
    """v' = v - (1 + e) v / (1 + m / M): a heavy one is a wall, a light one hardly felt; momentum is kept."""
    state, model = struck("impulse_augmented", mobility, e)
    impulse = (1 + e) * 0.1 / (1 / MASS + mobility)
    np.testing.assert_allclose(state.v[0], 0.1 - impulse / MASS, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(model._now.planes.velocity[0], -impulse * mobility, rtol=1e-9, atol=1e-15)


def test_pushing_a_mass_accelerates_it_and_the_tool_together() -> None:
    """1 N on 2 kg that push 0.5 kg, after a plastic impact: momentum grows by the force alone, in every tick."""
    state, model = struck("impulse_augmented", 2.0)
    for k in range(8):
        run(model, 1, state, 2 + k, (1.0, 0, 0, 0, 0, 0))
        mass = -model._now.planes.velocity[0]
        np.testing.assert_allclose(MASS * state.v[0] + 0.5 * mass, MASS * 0.1 + T * (k + 1), rtol=1e-9)
    assert 0.0 > model._now.planes.separation[0] > -1e-3


def test_the_next_update_says_how_the_mass_moves() -> None:
    state, model = struck("impulse_augmented", 2.0)
    for k in range(3):  # the velocity of a constraint in contact goes over to it during a period
        model.update(survey(PERIOD * (k + 1), {1: -0.1e-3}, velocity=0.03), PERIOD * (k + 1))
        run(model, PERIOD, state, PERIOD * (k + 1), (3.0, 0, 0, 0, 0, 0))
    np.testing.assert_allclose(model._now.planes.velocity[0], 0.03, rtol=1e-9)
    static, _ = struck("impulse_augmented", 2.0, constraints="kinematic")
    np.testing.assert_allclose(static.v[0], 0.0, atol=1e-15)  # a wall, to a model that knows of no masses


def test_a_body_against_a_wall_is_one() -> None:
    """And of two blocks in a row the tool moves both."""
    from_wall: dict[float, np.ndarray] = {}
    for gap in (0.0, 0.02):
        scene: Any = {
            "planar": True,
            "gravity": [0, 0, 0],
            "tool": "peg",
            "bodies": {
                "wall": {"joint": "fixed", "shapes": [{"type": "plane", "normal": [-1, 0, 0], "offset": -0.1 - gap}]},
                "near": {"joint": "planar", "mass": 0.5, "position": [0.04, 0], "shapes": [BOX]},
                "far": {"joint": "planar", "mass": 1.5, "position": [0.08, 0], "shapes": [BOX]},
                "peg": {"joint": "planar", "mass": 1.0, "shapes": [BOX]},
            },
        }
        world = build_world(NoToolParameters(), WorldParameters.model_validate(scene), thesis_material())
        surroundings = WorldSurroundings(world, thesis_material(), epsilon=0.005, rate=RATE)
        geometry = surroundings.local_geometry()
        tool = Proxy(world, thesis_material(), "penalty", "full", UNLIMITED, RATE).tool_state()
        surroundings.survey(tool, 0, geometry)
        from_wall[gap] = geometry.constraints["mobility"][: len(geometry)].copy()
    np.testing.assert_allclose(from_wall[0.0], 0.0, atol=1e-6)
    np.testing.assert_allclose(from_wall[0.02], 2 / (0.5 + 1.5), rtol=1e-3)


@pytest.mark.parametrize("offset", [-1e-3, 0.0, 1e-3])
def test_corner_to_corner_there_is_one_normal(offset: float) -> None:
    """Two corners near each other (THESIS figure 6.9): one constraint, along the line between them."""
    scene: Any = {
        "planar": True,
        "gravity": [0, 0, 0],
        "tool": "peg",
        "bodies": {
            "wall": {"joint": "fixed", "position": [0.042, 0.042 + offset, 0], "shapes": [BOX]},
            "peg": {"joint": "planar", "mass": 1.0, "shapes": [BOX]},
        },
    }
    world = build_world(NoToolParameters(), WorldParameters.model_validate(scene), thesis_material())
    surroundings = WorldSurroundings(world, thesis_material(), epsilon=0.005, rate=RATE)
    geometry = surroundings.local_geometry()
    surroundings.survey(Proxy(world, MATERIAL, "penalty", "full", UNLIMITED, RATE).tool_state(), 0, geometry)
    assert len(geometry) == 1
    gap = np.array([0.002, 0.002 + offset, 0.0])
    np.testing.assert_allclose(geometry.constraints["normal"][0], -gap / np.linalg.norm(gap), atol=1e-9)
    np.testing.assert_allclose(geometry.constraints["separation"][0], np.linalg.norm(gap), rtol=1e-9)
