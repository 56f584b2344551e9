"""The peg among its walls: impacts, rest and energy against closed forms; what a survey says, and when."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from conftest import sampled
from numba.core.registry import CPUDispatcher
from world_builder import thesis_material

from haptic_sim.contact import compliant, impacts, response, rigid, spread
from haptic_sim.dynamics.energy import UnstableError
from haptic_sim.messages import COLLIDING, FREE, RESTING, ToolCommand, ToolState, tick_time
from haptic_sim.tool.environment import Environment
from haptic_sim.tool.parameters import EnvironmentParameters, SurveySchedule
from haptic_sim.tool.surroundings import WorldSurroundings
from haptic_sim.worlds.scenes import EnclosureParameters, PegParameters, WorldSetup, build_world

RATE = 512.0  # [Hz]
T = 1.0 / RATE
TOOL, SCENE = PegParameters(), EnclosureParameters()
MASS, INERTIA, K = TOOL.mass, TOOL.inertia, 4000.0
HALF = 0.5 * np.array(TOOL.size)


def world(q: Any = (0, 0, 0), v: Any = (0, 0, 0)) -> WorldSetup:
    whole = build_world(TOOL, SCENE, thesis_material())
    return dataclasses.replace(whole, q=np.array(q, float), v=np.array(v, float))


def environment(world: WorldSetup, method: Any = "impulse_augmented", **material: Any) -> Environment:
    parameters = thesis_material(**{"stiffness": K, **material})
    return Environment(world, parameters, method, "full", np.full(6, np.inf), RATE)


def run(env: Environment, ticks: int, wrench: Any = (0,) * 6) -> Iterator[ToolState]:
    """The state after each tick; always the same message."""
    state, command = env.tool_state(), ToolCommand()
    command.wrench[:] = wrench
    for k in range(ticks):
        command.stamp(k, tick_time(k, RATE))
        env.step(command, state)
        yield state


def until_impact(env: Environment, ticks: int = 2000) -> ToolState:
    """The state after the first colliding tick."""
    for state in run(env, ticks):
        if state.contact_state == COLLIDING:
            return state
    raise AssertionError("no impact")


def test_initial_state_is_tick_minus_one() -> None:
    state = environment(world((0.001, 0.002, 0.3), (0.1, 0.2, 0.3))).tool_state()
    assert (state.tick, state.nanoseconds, state.contact_state, state.contacts) == (-1, 0, FREE, 0)
    np.testing.assert_array_equal(state.wrench, np.zeros(6))
    np.testing.assert_array_equal(state.q, [0.001, 0.002, 0.3])
    np.testing.assert_array_equal(state.v, [0.1, 0.2, 0.3])
    np.testing.assert_allclose(state.pose, [0.001, 0.002, 0, 0, 0, np.sin(0.15), np.cos(0.15)], rtol=0, atol=1e-16)
    np.testing.assert_allclose(state.twist, [0.1, 0.2, 0, 0, 0, 0.3], rtol=0, atol=1e-16)
    assert state.kinetic_energy == pytest.approx(0.5 * MASS * 0.05 + 0.5 * INERTIA * 0.09, rel=1e-14)
    inverse = np.diag([1 / MASS, 1 / MASS, 0, 0, 0, 1 / INERTIA])
    np.testing.assert_allclose(state.inverse_inertia.reshape(6, 6), inverse, rtol=0, atol=1e-12)
    assert len(state) == 0


def test_states_carry_the_tick_of_their_command_and_the_time_after_it() -> None:
    for k, state in enumerate(run(environment(world()), 5)):
        assert (state.tick, state.nanoseconds) == (k, (k + 1) * 1_953_125)


def test_states_are_stamped_from_the_stamp_of_their_command() -> None:
    """A clock's, whatever it says; a command that stands for one that was lost is of a later tick."""
    env = environment(world())
    state, command = env.tool_state(), ToolCommand()
    for tick, time, expected in ((0, 10**18, 10**18 + 1_953_125), (2, 10**18 + 7, 10**18 + 7), (2, 5, 1_953_130)):
        command.stamp(tick, time)
        env.step(command, state)
        assert state.nanoseconds == expected


@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
def test_one_impact_reverses_the_velocity_by_the_restitution(e: float) -> None:
    """A face that meets the right wall: v' = -e v, E' = e^2 E, in the first tick that begins with overlap."""
    v = 0.07
    ticks = int(np.floor(SCENE.gap[0] / (v * T)))  # of free flight up to the wall
    env = environment(world(v=(v, 0, 0)), restitution=e)
    states = [(s.contact_state, s.contacts, s.twist.copy(), s.kinetic_energy) for s in run(env, ticks + 2)]
    assert [state for state, *_ in states[: ticks + 1]] == [FREE] * (ticks + 1)
    state, contacts, twist, energy = states[ticks + 1]
    assert (state, contacts) == (COLLIDING, 2)
    np.testing.assert_allclose(twist, [-e * v, 0, 0, 0, 0, 0], rtol=0, atol=1e-14)
    assert energy == pytest.approx(e**2 * 0.5 * MASS * v**2, rel=1e-12, abs=1e-28)


@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
def test_an_impact_in_the_corner_obeys_both_walls(e: float) -> None:
    """Four contacts on three degrees of freedom at once, THESIS 4.4.1.2."""
    env = environment(world((0.0299, -0.0599, 0), (0.1, -0.1, 0)), restitution=e)
    state = until_impact(env)
    assert state.contacts == 4
    np.testing.assert_allclose(state.twist, [-e * 0.1, e * 0.1, 0, 0, 0, 0], rtol=0, atol=1e-13)
    assert state.kinetic_energy == pytest.approx(e**2 * 0.5 * MASS * 0.02, rel=1e-11, abs=1e-26)


@pytest.mark.parametrize("angle", [0.2, -0.3, 0.7])
@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
def test_a_tilted_peg_hits_with_one_corner(e: float, angle: float) -> None:
    """p = -(1 + e) v_n / (1/m + r^2/I), r the corner's height over the centre; slides along freely."""
    R = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    corners = (HALF * np.array([[1, -1], [1, 1], [-1, 1], [-1, -1]])) @ R.T
    corner = corners[np.argmax(corners[:, 0])]
    v, reach = np.array([0.05, 0.02]), HALF[0] + SCENE.gap[0]
    env = environment(world((reach - corner[0] - 1e-5, 0.0, angle), (*v, 0.0)), restitution=e)
    state = until_impact(env)
    assert state.contacts == 1
    # normal (-1, 0): v_n = -v_x without spin, and the impulse turns the peg by r x p = corner_y p
    p = -(1 + e) * -v[0] / (1 / MASS + corner[1] ** 2 / INERTIA)
    expected = np.array([v[0] - p / MASS, v[1], corner[1] * p / INERTIA])
    np.testing.assert_allclose(state.v, expected, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(state.wrench, np.array([-p, 0, 0, 0, 0, corner[1] * p]) / T, rtol=1e-11, atol=1e-11)
    lost = 0.5 * (1 - e**2) * v[0] ** 2 / (1 / MASS + corner[1] ** 2 / INERTIA)
    energy = 0.5 * MASS * v @ v
    assert energy - state.kinetic_energy == pytest.approx(lost, rel=1e-9, abs=1e-12 * energy)


@pytest.mark.parametrize(("per", "springs"), [("point", 2), ("wall", 1)])
@pytest.mark.parametrize("method", ["penalty", "impulse_augmented"])
def test_a_pressed_peg_rests_where_its_springs_carry_it(method: str, per: str, springs: int) -> None:
    """F / (2 K) deep with a spring at each of two points, F / K where the wall's stiffness is shared."""
    force = 0.32
    env = environment(world((0.0299, 0, 0)), method, per=per)
    *_, state = run(env, 6000, (force, 0, 0, 0, 0, 0))
    assert (state.contact_state, state.contacts) == (RESTING, 2)
    depth = state.q[0] - SCENE.gap[0]
    assert depth == pytest.approx(force / (springs * K), rel=1e-9)
    np.testing.assert_allclose(state.wrench, [-force, 0, 0, 0, 0, 0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(state.v, np.zeros(3), rtol=0, atol=1e-12)


def test_a_pressed_peg_oscillates_with_the_frequency_of_its_springs() -> None:
    """Without damping, semi-implicit Euler keeps x_(k+1) - 2 x_k + x_(k-1) = -(w T)^2 x_k, w^2 = 2 K / m."""
    env = environment(world((0.0301, 0, 0)), "penalty", damping=0.0)
    depth = np.array([state.q[0] - SCENE.gap[0] for state in run(env, 400, (4.0, 0, 0, 0, 0, 0))])
    assert depth.min() > 0  # never leaves the wall: starts 0.1 mm deep, rests at 0.5 mm
    swing = depth - 4.0 / (2 * K)
    residual = swing[2:] - 2 * swing[1:-1] + swing[:-2] + (2 * K / MASS) * T**2 * swing[1:-1]
    assert np.abs(residual).max() < 1e-16
    assert np.abs(swing).max() == pytest.approx(4e-4, rel=0.02)


@pytest.mark.long
@pytest.mark.parametrize("e", sampled([0.0, 0.5, 1.0], 0.5))
def test_wrenches_account_for_momentum_and_impulses_add_no_energy(e: float) -> None:
    """No hand: m dv = T f in every tick, and no colliding tick ends with more energy than it began with."""
    rng = np.random.default_rng(20260)
    impacts = 0
    for _ in range(40):
        start = (*rng.uniform(-0.02, 0.02, 2), rng.uniform(-3, 3))
        env = environment(world(start, rng.normal(size=3) * [0.3, 0.3, 5.0]), restitution=e)
        before = env.tool_state()
        v, energy = before.v.copy(), before.kinetic_energy
        for state in run(env, 300):
            gained = np.array([MASS, MASS, INERTIA]) * (state.v - v)
            np.testing.assert_allclose(gained, T * state.wrench[[0, 1, 5]], rtol=1e-9, atol=1e-14)
            if state.contact_state == COLLIDING:
                impacts += 1
                assert state.kinetic_energy <= energy * (1 + 1e-12)
            if state.contact_state == FREE:
                assert state.kinetic_energy == pytest.approx(energy, rel=1e-12)
            v, energy = state.v.copy(), state.kinetic_energy
    assert impacts > 60


def test_material_can_be_replaced_between_ticks() -> None:
    env = environment(world((0.031, 0, 0)), "penalty", damping=0.0)
    state, command = env.tool_state(), ToolCommand()
    env.step(command, state)
    assert state.wrench[0] == pytest.approx(-2 * K * 1e-3, rel=1e-10)
    depth = state.q[0] - SCENE.gap[0]
    env.configure(thesis_material(stiffness=1000.0, damping=0.0))
    env.step(command, state)
    assert state.wrench[0] == pytest.approx(-2 * 1000.0 * depth, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 0.005, 0.04])
def test_a_survey_lists_what_is_near(epsilon: float) -> None:
    """Separations of the corners from the walls' planes; positions on the wall; the tool's own state."""
    rng = np.random.default_rng(20261)
    surveyor = WorldSurroundings(world(), thesis_material(), epsilon=epsilon)
    tool, geometry = environment(world()).tool_state(), surveyor.local_geometry()
    normals = np.array([[-1, 0], [0, 1], [1, 0], [0, -1]])
    reach = np.array([HALF[0] + SCENE.gap[0], HALF[1] + SCENE.gap[1], HALF[0] + SCENE.far_gap[0]])
    reach = np.append(reach, HALF[1] + SCENE.far_gap[1])
    total = 0
    for step in range(100):
        q, v = rng.uniform([-0.12, -0.12, -3], [0.05, 0.12, 3]), rng.normal(size=3)
        tool.stamp(step * 10, tick_time(step * 10 + 1, RATE))
        tool.q[:], tool.v[:] = q, v
        surveyor.survey(tool, step, geometry)
        assert (geometry.tick, geometry.nanoseconds) == (step * 10 + 1, (step * 10 + 1) * 1_953_125)
        assert (geometry.step, geometry.epsilon) == (step, epsilon)
        np.testing.assert_array_equal(geometry.q, q)
        np.testing.assert_array_equal(geometry.v, v)
        np.testing.assert_allclose(geometry.pose[:2], q[:2], rtol=0, atol=1e-16)
        np.testing.assert_allclose(geometry.inertia.reshape(3, 3), np.diag([MASS, MASS, INERTIA]), atol=1e-15)
        np.testing.assert_array_equal(geometry.gravity, np.zeros(3))
        R = np.array([[np.cos(q[2]), -np.sin(q[2])], [np.sin(q[2]), np.cos(q[2])]])
        corners = (HALF * np.array([[1, -1], [1, 1], [-1, 1], [-1, -1]])) @ R.T + q[:2]
        separations = normals @ corners.T + reach[:, None]
        near = list(zip(*np.nonzero(separations < epsilon), strict=True))
        constraints = geometry.constraints[: len(geometry)]
        assert constraints["body"].tolist() == [wall for wall, _ in near]
        for constraint, (wall, corner) in zip(constraints, near, strict=True):
            s, n = separations[wall, corner], normals[wall]
            assert constraint["separation"] == pytest.approx(s, abs=1e-14)
            np.testing.assert_allclose(constraint["normal"], [*n, 0], rtol=0, atol=1e-15)
            np.testing.assert_allclose(constraint["position"], [*(corners[corner] - s * n), 0], rtol=0, atol=1e-14)
            assert [constraint[name] for name in ("link", "normal_velocity")] == [1, 0.0]
            assert [constraint[name] for name in ("friction_static", "friction_kinetic")] == [0.25, 0.2]
        assert len(set(constraints["id"].tolist())) == len(near)
        total += len(near)
    assert total > 50


@pytest.mark.parametrize("period", [1, 2, 9, 50])
@pytest.mark.parametrize("delay", [0, 1, 4, 9, 20, 123])
def test_each_survey_is_taken_once_in_order_a_delay_later(period: int, delay: int) -> None:
    """The first, made before the trial, at tick 0; also when several are under way (delay > period)."""
    schedule, ticks = SurveySchedule(period, delay), 1000
    surveyed = [k for k in range(ticks) if schedule.surveys(k)]
    taken = {k: schedule.due(k) for k in range(ticks) if schedule.due(k) is not None}
    assert surveyed == list(range(0, ticks, period))
    assert taken == {0: 0} | {s + delay: s for s in surveyed[1:] if s + delay < ticks}
    assert list(taken.values()) == surveyed[: len(taken)]


@pytest.mark.parametrize(
    ("keys", "rate", "expected"),
    [
        ({}, 512.0, SurveySchedule(1, 1)),
        ({"rate": 60}, 512.0, SurveySchedule(9, 9)),  # 8.53 ticks
        ({"rate": 60, "delay": 0}, 512.0, SurveySchedule(9, 0)),
        ({"rate": 60, "delay": 0.02}, 512.0, SurveySchedule(9, 10)),  # 10.24 ticks
        ({"rate": 512}, 512.0, SurveySchedule(1, 1)),
        ({"rate": 2000}, 512.0, SurveySchedule(1, 1)),
        ({"rate": 30, "delay": 0.1}, 1000.0, SurveySchedule(33, 100)),
    ],
)
def test_schedules_are_counted_in_ticks(keys: dict[str, float], rate: float, expected: SurveySchedule) -> None:
    assert EnvironmentParameters.model_validate(keys).schedule(rate) == expected


@pytest.mark.parametrize("rendering", ["full", "spread", "printed_spread"])
@pytest.mark.parametrize("method", ["penalty", "impulse_augmented", "frictional_impulses", "constraint", "hybrid"])
def test_a_rehearsal_loads_all_that_a_trial_calls(method: Any, rendering: Any) -> None:
    """A kernel that is first called upon contact would stop a trial on the clock for as long as it takes to load it."""
    warmed = Environment(world(), thesis_material(), method, rendering, np.full(6, 1.0), RATE)
    warmed.warm_up()

    def signatures() -> dict[str, int]:
        return {
            f"{module.__name__}.{name}": len(kernel.signatures)
            for module in (compliant, impacts, response, rigid, spread)
            for name, kernel in vars(module).items()
            if isinstance(kernel, CPUDispatcher)
        }

    before = signatures()
    environment = Environment(world(v=(0.5, -0.5, 0.1)), thesis_material(), method, rendering, np.full(6, 1.0), RATE)
    state = environment.tool_state()
    contacts = 0
    with contextlib.suppress(UnstableError):  # as printed, a limit of 1 N lets overlaps grow
        for _ in range(200):
            environment.step(ToolCommand(), state)
            contacts += state.contacts
    assert contacts > 0
    assert signatures() == before


def test_overlaps_that_grow_while_impulses_are_spread_are_named() -> None:
    """With 1 N it takes hundreds of steps to stop the peg, which enters the wall without a spring meanwhile."""
    limit = np.full(6, 1.0)
    environment = Environment(
        world(v=(0.5, -0.5, 0.1)), thesis_material(), "impulse_augmented", "printed_spread", limit, RATE
    )
    state = environment.tool_state()
    with pytest.raises(UnstableError, match=r"unstable: overlaps that grew .* larger device\.wrench_limit"):
        for _ in range(2000):
            environment.step(ToolCommand(), state)
