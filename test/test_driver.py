"""The driver and its simulated device: closed forms, limits, and what it does not render."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pydantic import ValidationError
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

from haptic_drivers.bound import BoundParameters, count_bounded
from haptic_drivers.driver import Driver, build_driver
from haptic_drivers.inertial import InertialDevice, InertialParameters
from haptic_drivers.operators import ConstantParameters, SineParameters
from haptic_drivers.parameters import HandParameters
from haptic_sim.messages import ENABLED, FAULT, FORCE, MOTION, NOTHING, DeviceCommand, DeviceState, Reason
from haptic_sim.worlds.scenes import NoToolParameters, PegParameters

RATE = 512.0  # [Hz]
T = 1.0 / RATE
MASS, INERTIA = 2.0, 0.005  # [kg], [kg m^2]
LIMIT = np.array([15.0, 15.0, 15.0, 1.0, 1.0, 1.0])  # [N, N m], unless given
WRENCH = (0.32, -0.4, 0.0, 0.0, 0.0, 0.003)


def driver(operator: Any = None, **keys: Any) -> Driver:
    operator = ConstantParameters(wrench=WRENCH) if operator is None else operator
    return build_driver(InertialParameters.model_validate(keys), operator, PegParameters(), RATE)


def sensed(one: Driver, tick: int) -> DeviceState:
    state = DeviceState()
    one.sense(tick, state)
    return state


def command(tick: int, wrench: Any = (0,) * 6, mode: int = FORCE) -> DeviceCommand:
    message = DeviceCommand()
    message.stamp(tick, 0)
    message.mode = mode
    message.wrench[:] = wrench
    return message


def render(one: Driver, tick: int, wrench: Any, mode: int = FORCE) -> np.ndarray:
    """What is rendered of a command, as the next state tells."""
    sensed(one, tick)
    one.actuate(command(tick, wrench, mode))
    return sensed(one, tick + 1).rendered_wrench.copy()


def test_a_state_has_the_stamp_that_it_is_given() -> None:
    """Of a clock; the operator acts at the time of the tick all the same."""
    states = DeviceState(), DeviceState()
    one = driver()
    one.sense(3, states[0])
    one.sense(3, states[1], 1_790_000_000_123_456_789)
    assert [state.nanoseconds for state in states] == [3 * 1_953_125, 1_790_000_000_123_456_789]
    np.testing.assert_array_equal(states[0].operator_wrench, states[1].operator_wrench)


def test_device_under_a_constant_wrench_follows_the_closed_form() -> None:
    """Semi-implicit Euler: v_k = a T k, x_k = a T^2 k (k + 1) / 2; the state is that before the step."""
    one = driver()
    rendered = np.array([0.5, 0.1, 0, 0, 0, -0.001])
    a = (np.array(WRENCH) + rendered)[[0, 1, 5]] / [MASS, MASS, INERTIA]
    for k in range(600):
        state = sensed(one, k)
        assert (state.tick, state.nanoseconds) == (k, k * 1_953_125)
        np.testing.assert_allclose(state.twist[[0, 1, 5]], a * T * k, rtol=1e-12)
        x = a * T**2 * (k * (k + 1) / 2)
        expected = [*x[:2], 0, 0, 0, np.sin(x[2] / 2), np.cos(x[2] / 2)]
        np.testing.assert_allclose(state.pose, expected, rtol=1e-12, atol=1e-15)
        np.testing.assert_array_equal(state.twist[2:5], np.zeros(3))
        one.actuate(command(k, rendered))


def test_operator_is_asked_for_the_time_of_the_tick() -> None:
    one = driver(SineParameters(amplitude=(1, 2, 3, 4, 5, 6), frequency=3.0))
    for k in (0, 1, 100, 7):
        expected = np.arange(1, 7) * np.sin(2 * np.pi * 3.0 * k / RATE)
        np.testing.assert_allclose(sensed(one, k).operator_wrench, expected, rtol=1e-13)


def test_operator_acts_during_the_tick_with_the_wrench_of_its_beginning() -> None:
    one = driver(SineParameters(amplitude=(1, 0, 0, 0, 0, 0), frequency=3.0))
    v = 0.0
    for k in range(50):
        state = sensed(one, k)
        assert state.twist[0] == pytest.approx(v, rel=1e-12, abs=1e-15)
        one.actuate(command(k))
        v += T / MASS * np.sin(2 * np.pi * 3.0 * k / RATE)


def test_rendered_wrench_is_that_of_the_tick_before() -> None:
    one = driver()
    first = sensed(one, 0)
    np.testing.assert_array_equal(first.rendered_wrench, np.zeros(6))
    assert first.command_tick == -1
    for k in range(5):
        one.actuate(command(k, [k + 1.0, 0, 0, 0, 0, 0.1 * k]))
        state = sensed(one, k + 1)
        np.testing.assert_array_equal(state.rendered_wrench, [k + 1.0, 0, 0, 0, 0, 0.1 * k])
        assert state.command_tick == k


def test_a_command_of_nothing_is_zero_force_and_counts_as_expired() -> None:
    one = driver()
    render(one, 0, [1.0, 0, 0, 0, 0, 0])
    nothing = command(1, [1.0, 0, 0, 0, 0, 0])
    nothing.mode = NOTHING
    sensed(one, 1)
    one.actuate(nothing)
    state = sensed(one, 2)
    assert (state.command_tick, one.expired, one.refused) == (-1, 1, 0) and not state.rendered_wrench.any()


@given(st.lists(st.floats(0.0, 0.03), min_size=1, max_size=40), st.data())
def test_by_a_clock_a_command_is_followed_for_as_long_as_the_watchdog_says(ticks: list[float], data: Any) -> None:
    """However late ticks come; and in ticks that are made up for, for no more of them than without a clock."""
    one, now, begun, last = driver(watchdog=0.02), 50.0, list[float](), 0
    one.clock = lambda: now
    for tick, elapsed in enumerate(ticks):
        now += elapsed
        begun.append(now)
        sensed(one, tick)
        last = tick if data.draw(st.booleans()) else last
        one.actuate(command(last, [1.0, 0, 0, 0, 0, 0]))
        in_time = tick - last <= 10 and now - begun[last] <= 10.5 * T  # 0.02 s at 512 Hz
        assert (one.reason == Reason.WATCHDOG) != in_time


def test_a_stale_command_ends_by_the_clock_where_ticks_are_slow() -> None:
    """One tick each 10 ms at 512 Hz: by ticks it would act for 0.1 s."""
    one, now = driver(watchdog=0.02), 0.0
    one.clock = lambda: now
    followed = []
    for tick in range(5):
        sensed(one, tick)
        one.actuate(command(0, [1.0, 0, 0, 0, 0, 0]))
        followed.append(one.reason != Reason.WATCHDOG)
        now += 0.01
    assert followed == [True, True, True, False, False]


@pytest.mark.parametrize("direction", [0, 1, 5])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_each_direction_is_clipped_to_its_own_limit(direction: int, sign: float) -> None:
    limit = np.array([15.0, 12.0, 0.0, 0.0, 0.0, 1.0])
    one = driver(impulse_rendering="saturated", wrench_limit=(15, 12, 1))
    wrench = 0.5 * limit
    wrench[direction] = sign * limit[direction] * 1.5
    expected = wrench.copy()
    expected[direction] = sign * limit[direction]
    np.testing.assert_array_equal(render(one, 0, wrench), expected)
    assert one.saturations == 1
    np.testing.assert_array_equal(render(one, 1, sign * limit), sign * limit)  # the limit itself is rendered
    assert (one.saturations, one.refused) == (1, 0)


def test_saturations_are_counted_by_ticks_and_move_the_device_by_what_is_rendered() -> None:
    one = driver(ConstantParameters(wrench=(0,) * 6), impulse_rendering="saturated", wrench_limit=(15, 15, 1))
    for k in range(3):
        render(one, k, [100.0, -100.0, 0, 0, 0, 50.0])
    assert one.saturations == 3
    np.testing.assert_allclose(sensed(one, 3).twist, 3 * T * np.array([7.5, -7.5, 0, 0, 0, 200.0]), rtol=1e-14)


def test_a_planar_device_renders_nothing_out_of_its_plane() -> None:
    one = driver(impulse_rendering="scaled", wrench_limit=(15, 15, 1))
    np.testing.assert_array_equal(render(one, 0, [1, 2, 3, 4, 5, 0.6]), [1, 2, 0, 0, 0, 0.6])
    assert one.saturations == 1


def test_full_rendering_has_no_limit() -> None:
    one = driver(impulse_rendering="full", wrench_limit=(15, 15, 1))
    np.testing.assert_array_equal(render(one, 0, [1e6, -1e6, 1, 1, 1, 1e6]), [1e6, -1e6, 1, 1, 1, 1e6])
    assert one.saturations == 0


@pytest.mark.parametrize("direction", range(6))
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_commands_that_are_not_finite_are_not_rendered(bad: float, direction: int) -> None:
    """Zero force in every direction, counted; the operator still moves the device; the next command acts."""
    one = driver()
    wrench = np.ones(6)
    wrench[direction] = bad
    np.testing.assert_array_equal(render(one, 0, wrench), np.zeros(6))
    assert (one.refused, one.saturations) == (1, 0)
    np.testing.assert_allclose(sensed(one, 1).twist[:2], T * np.array(WRENCH[:2]) / MASS, rtol=1e-14)
    assert sensed(one, 1).command_tick == -1
    np.testing.assert_array_equal(render(one, 1, np.ones(6)), np.ones(6))
    assert one.refused == 1


@pytest.mark.parametrize("mode", [MOTION, 3, 255])
def test_other_modes_are_not_rendered(mode: int) -> None:
    one = driver()
    np.testing.assert_array_equal(render(one, 0, np.ones(6), mode), np.zeros(6))
    assert one.refused == 1


def test_old_commands_are_not_rendered() -> None:
    """Watchdog: 0.02 s are 10 ticks; one of 10 ticks ago is rendered, of 11 not; tick -1 is none yet."""
    one = driver(watchdog=0.02)
    for age, rendered in ((0, 1.0), (10, 1.0), (11, 0.0), (100, 0.0)):
        sensed(one, 200)
        one.actuate(command(200 - age, np.ones(6)))
        np.testing.assert_array_equal(sensed(one, 201).rendered_wrench, rendered * np.ones(6))
        assert sensed(one, 201).command_tick == (200 - age if rendered else -1)
    assert one.expired == 2
    sensed(one, 0)
    one.actuate(command(-1, np.ones(6)))
    np.testing.assert_array_equal(sensed(one, 1).rendered_wrench, np.zeros(6))
    assert (one.expired, one.refused) == (3, 0)


def test_commands_of_ticks_to_come_are_not_rendered() -> None:
    """An age below zero is no age: a driver that starts again at an earlier tick does not follow its last command."""
    one = driver()
    np.testing.assert_array_equal(render(one, 2561, np.ones(6)), np.ones(6))
    for tick in (512, 2560):
        sensed(one, tick)
        one.actuate(command(2561, np.ones(6)))
        np.testing.assert_array_equal(sensed(one, tick + 1).rendered_wrench, np.zeros(6))
    assert one.expired == 2


def test_an_activation_starts_from_zero_force_and_grows_to_the_whole() -> None:
    """0.5 s are 256 ticks; the part that is rendered is the time since the activation over these."""
    one = driver(bound={"rate": (1e4, 1e4, 1e4)})
    assert render(one, 5, np.ones(6))[0] == 1.0  # the start of a trial has none
    one.activate(7)
    np.testing.assert_array_equal(sensed(one, 7).rendered_wrench, np.zeros(6))
    one.actuate(command(6, np.ones(6)))  # of the activation before, however fresh
    np.testing.assert_array_equal(sensed(one, 8).rendered_wrench, np.zeros(6))
    assert one.expired == 1
    for tick in (7, 8, 7 + 128, 7 + 255, 7 + 256, 1000):
        part = min(1.0, (tick - 7) / 256)
        np.testing.assert_array_equal(render(one, tick, np.ones(6))[[0, 1, 5]], np.full(3, part))
    given = driver(soft_start=0.25)
    for tick in (0, 64, 128):
        np.testing.assert_array_equal(render(given, tick, np.ones(6)), np.full(6, tick / 128))


@pytest.mark.long
@given(
    wrenches=arrays(float, (20, 6), elements=st.floats(-1e3, 1e3) | st.sampled_from([np.nan, np.inf, -np.inf])),
    wrench=arrays(float, 6, elements=st.just(0.0) | st.floats(1e-3, 100.0)),
    rate=arrays(float, 6, elements=st.floats(1.0, 1e5)),
    old=arrays(bool, 20),
    rendering=st.sampled_from(["full", "saturated", "scaled", "spread"]),
)
@settings(max_examples=60, deadline=None)
def test_nothing_passes_the_last_bound(
    wrenches: np.ndarray, wrench: np.ndarray, rate: np.ndarray, old: np.ndarray, rendering: str
) -> None:
    """Whatever is commanded and however it is rendered; zero force for want of a command comes at once."""
    one = driver(impulse_rendering=rendering, bound={"wrench": tuple(wrench), "rate": tuple(rate)})
    before = np.zeros(6)
    for k, wanted in enumerate(wrenches):
        sensed(one, k)
        bounded = one.bounded
        one.actuate(command(-1 if old[k] else k, wanted))
        rendered = sensed(one, k + 1).rendered_wrench.copy()
        assert (np.abs(rendered) <= wrench).all()
        if old[k] or not np.isfinite(wanted).all():
            np.testing.assert_array_equal(rendered, np.zeros(6))
            assert one.bounded == bounded
        else:
            assert (np.abs(rendered - before) <= rate * T * (1 + 1e-12) + 1e-12).all()
            asked = np.clip(wanted, *((-np.inf, np.inf) if rendering == "full" else (-LIMIT, LIMIT)))
            assert one.bounded - bounded == (rendered != asked).any()
        before = rendered


def test_ticks_at_the_bound_are_counted_in_what_was_recorded() -> None:
    parameters = BoundParameters(wrench=(5.0, 4.0, 1.0), rate=(512.0, 1e9, 1e9))
    rendered = np.zeros((6, 6))
    rendered[:, 0] = (1.0, 2.0, 2.5, 2.5, 3.5, 3.5)  # at most 1 N a tick: reached in the first, second and fifth
    rendered[3, 1] = -4.0
    assert count_bounded(parameters, rendered, T) == 4
    assert count_bounded(BoundParameters(), rendered, T) == 0


def test_device_has_the_inertia_of_the_tool_unless_it_has_its_own() -> None:
    tool = PegParameters(mass=3.0, inertia=0.007)
    push = ConstantParameters(wrench=(1, 0, 0, 0, 0, 1))
    for keys, mass, inertia in (
        ({}, 3.0, 0.007),
        ({"mass": 0.5}, 0.5, 0.007),
        ({"inertia": 0.02}, 3.0, 0.02),
        ({"mass": 0.5, "inertia": 0.02}, 0.5, 0.02),
    ):
        one = build_driver(InertialParameters.model_validate(keys), push, tool, RATE)
        sensed(one, 0)
        one.actuate(command(0))
        np.testing.assert_allclose(sensed(one, 1).twist[[0, 5]], [T / mass, T / inertia], rtol=1e-14)


def test_sensing_again_changes_nothing() -> None:
    one = driver()
    render(one, 0, np.ones(6))
    assert sensed(one, 1).to_bytes() == sensed(one, 1).to_bytes()


def test_device_starts_at_the_hand_and_its_offset_and_stays_there_without_force() -> None:
    hand = HandParameters(pose=(0.1, -0.2, 0.3, 0, 0, np.sin(0.35), np.cos(0.35)), planar=True)
    for offset, position in (((0.005, 0.003), (0.105, -0.197, 0.3)), ((0.005, 0.003, -0.1), (0.105, -0.197, 0.2))):
        parameters = InertialParameters(mass=MASS, inertia=INERTIA, offset=offset)
        still = ConstantParameters(wrench=(0,) * 6)
        one = build_driver(parameters, still, NoToolParameters(), RATE, hand=hand)
        for k in range(3):
            state = sensed(one, k)
            np.testing.assert_allclose(state.pose, [*position, *hand.pose[3:]], rtol=0, atol=1e-16)
            np.testing.assert_array_equal(state.twist, np.zeros(6))
            one.actuate(command(k))


def test_a_device_in_space_follows_the_closed_form_of_a_turn_about_a_fixed_axis() -> None:
    """Semi-implicit Euler: w_k = a T k along the torque, and the angle is a T^2 k (k + 1) / 2 (Rodrigues)."""
    wrench = np.array([0.3, -0.4, 0.5, 0.02, -0.01, 0.03])
    start = Rotation.from_rotvec([0.4, -0.9, 0.2])
    device = InertialDevice(MASS, INERTIA, [0.1, 0.2, 0.3, *start.as_quat()], planar=False)
    n = 700
    for _ in range(n):
        device.step(wrench, np.zeros(6), T)
    np.testing.assert_allclose(device.twist, n * T * wrench / [*(3 * [MASS]), *(3 * [INERTIA])], rtol=1e-12)
    way = T**2 * n * (n + 1) / 2 * wrench / [*(3 * [MASS]), *(3 * [INERTIA])]
    np.testing.assert_allclose(device.pose[:3], [0.1, 0.2, 0.3] + way[:3], rtol=1e-12)
    turned = Rotation.from_quat(device.pose[3:]) * start.inv()
    np.testing.assert_allclose((turned * Rotation.from_rotvec(-way[3:])).magnitude(), 0.0, atol=1e-12)


def exact_motion(mass: float, damping: float, forces: np.ndarray, period: float) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities of m x'' = F - b x' under held forces (n,), by the exponential of a matrix."""
    A = np.array([[0.0, 1.0, 0.0], [0.0, -damping / mass, 1.0 / mass], [0.0, 0.0, 0.0]])
    step = expm(A * period)
    rows = [np.zeros(2)]
    for force in forces:
        rows.append((step @ [*rows[-1], force])[:2])
    return np.array(rows)[:, 0], np.array(rows)[:, 1]


@pytest.mark.parametrize("damping", [0.0, 1e-9, 1e-3, 0.3, 20.0, 3e4])
def test_a_device_with_damping_moves_exactly_under_held_wrenches(damping: float) -> None:
    """From no damping at all to one that stops it within a tick; along each axis and about one."""
    rng = np.random.default_rng(3)
    for planar, axes in ((True, (0, 1, 5)), (False, (0, 2, 4))):
        wrenches = np.zeros((300, 6))
        wrenches[:, axes] = rng.normal(size=(300, 3)) * [1.0, 1.0, 1e-3]
        device = InertialDevice(MASS, INERTIA, planar=planar, damping=(damping, 1e-3 * damping))
        for wrench in wrenches:
            device.step(0.25 * wrench, 0.75 * wrench, T)
        for axis in axes:
            pair = (MASS, damping) if axis < 3 else (INERTIA, 1e-3 * damping)
            x, v = exact_motion(*pair, wrenches[:, axis], T)
            place = device.pose[axis] if axis < 3 else Rotation.from_quat(device.pose[3:]).as_rotvec()[axis - 3]
            np.testing.assert_allclose([place, device.twist[axis]], [x[-1], v[-1]], rtol=1e-9, atol=1e-12)


def test_the_energy_of_a_device_with_damping_is_what_the_wrenches_do_less_what_it_dissipates() -> None:
    """In closed form over a tick: the integral of b v^2, with v from the solution at fine steps."""
    m, b, n = 0.4, 3.0, 2000
    device, fine = (InertialDevice(m, 1.0, damping=(b, 0.0)) for _ in range(2))
    forces = np.random.default_rng(8).normal(size=40)
    work = dissipated = 0.0
    for force in forces:
        wrench = np.array([force, 0, 0, 0, 0, 0])
        before = device.pose[0]
        device.step(wrench, np.zeros(6), T)
        work += force * (device.pose[0] - before)
        for _ in range(n):
            v = fine.twist[0]
            fine.step(wrench, np.zeros(6), T / n)
            dissipated += T / n * b * 0.5 * (v**2 + fine.twist[0] ** 2)
    kinetic = 0.5 * m * device.twist[0] ** 2
    np.testing.assert_allclose(work - dissipated, kinetic, rtol=1e-6)
    np.testing.assert_allclose(fine.pose[0], device.pose[0], rtol=1e-9)


def test_a_device_without_a_stated_damping_is_the_ideal_one() -> None:
    """The same bits as ever; a damping of zero is another device, integrated exactly."""
    wrench, none = np.array([0.3, 0.1, 0, 0, 0, 0.01]), np.zeros(6)
    ideal, undamped = InertialDevice(MASS, INERTIA), InertialDevice(MASS, INERTIA, damping=(0.0, 0.0))
    for device in (ideal, undamped):
        for _ in range(10):
            device.step(wrench, none, T)
    np.testing.assert_allclose(ideal.pose[0], 0.3 / MASS * T**2 * 55, rtol=1e-13)
    np.testing.assert_allclose(undamped.pose[0], 0.3 / MASS * T**2 * 50, rtol=1e-13)


def test_a_turn_with_damping_about_changing_axes_is_of_third_order() -> None:
    """The error of a turn that Magnus' first term leaves: an eighth, and less, in a tick of half the length."""
    turned = []
    for parts in (1, 2, 64):
        device = InertialDevice(MASS, INERTIA, planar=False, damping=(1.0, 0.1))
        for k in range(2):
            torque = [[0, 0, 0, 0.4, 0, 0], [0, 0, 0, 0, 0.3, 0.1]][k]
            for _ in range(parts):
                device.step(np.array(torque, float), np.zeros(6), 0.05 / parts)
        turned.append(Rotation.from_quat(device.pose[3:]))
    errors = [(turn * turned[2].inv()).magnitude() for turn in turned[:2]]
    assert 0.0 < errors[1] < errors[0] / 3.0  # two ticks of a half: a quarter


@pytest.mark.parametrize("damping", [(-1.0, 0.0), (np.inf, 0.0), (1.0,), "much"])
def test_a_damping_that_is_none_is_refused(damping: Any) -> None:
    with pytest.raises(ValidationError):
        InertialParameters(damping=damping)


@pytest.mark.parametrize("offset", [(0.1,), (0.1, 0.2, 0.3, 0.4), (np.nan, 0.0)])
def test_an_offset_is_two_or_three_numbers(offset: tuple[float, ...]) -> None:
    with pytest.raises(ValidationError):
        InertialParameters(offset=offset)


def test_device_turns_through_many_turns() -> None:
    """The angle is not wrapped inside: its quaternion stays a rotation by it."""
    device = InertialDevice(MASS, INERTIA)
    device.step(np.array([0, 0, 0, 0, 0, 100 * INERTIA / T]), np.zeros(6), T)
    for _ in range(999):
        device.step(np.zeros(6), np.zeros(6), T)
    angle = 100.0 * 1000 * T
    np.testing.assert_allclose(device.pose[5:], [np.sin(angle / 2), np.cos(angle / 2)], rtol=0, atol=1e-10)


def test_a_state_says_why_nothing_was_rendered() -> None:
    """Each reason once, of a device that lets x and y through and no torque."""
    one = driver(wrench_limit=[5.0, 5.0, 0.0], impulse_rendering="saturated")
    found = [Reason(sensed(one, 0).reason)]
    told = [
        (0, [1.0, 0, 0, 0, 0, 0], FORCE),
        (1, [0] * 6, FORCE),
        (2, [0, 0, 0, 0, 0, 1.0], FORCE),
        (3, [1.0, 0, 0, 0, 0, 0], NOTHING),
        (4, [1.0, 0, 0, 0, 0, 0], MOTION),
        (5, [np.nan] * 6, FORCE),
        (-1, [1.0, 0, 0, 0, 0, 0], FORCE),
    ]
    for tick, (of, wrench, mode) in enumerate(told):
        sensed(one, tick)
        one.actuate(command(of, wrench, mode))
        found.append(Reason(sensed(one, tick + 1).reason))
    nothing = Reason.NO_COMMAND
    assert found == [nothing, Reason.NONE, Reason.NO_CONTACT, Reason.SATURATED, nothing, nothing, nothing, nothing]
    sensed(one, 100)
    one.actuate(command(5, [1.0, 0, 0, 0, 0, 0]))
    state = sensed(one, 101)
    assert (state.reason, state.state, state.reading_age) == (Reason.WATCHDOG, ENABLED, 0.0)


def test_a_soft_start_and_a_fault_say_so() -> None:
    one = driver(soft_start=1.0)
    sensed(one, 0)
    one.actuate(command(0, [1.0, 0, 0, 0, 0, 0]))
    assert sensed(one, 1).reason == Reason.SCALED_TO_ZERO
    one._device.pose[0] = np.nan
    for tick in range(2, 8):
        state = sensed(one, tick)
        one.actuate(command(tick, [1.0, 0, 0, 0, 0, 0]))
    assert (state.state, sensed(one, 8).reason) == (FAULT, Reason.FAILED)
    assert state.reading_age == pytest.approx((7 - state.reading_tick) * T)


def test_limits_are_said_with_units() -> None:
    planar = InertialParameters(impulse_rendering="saturated", wrench_limit=(15, 12.5, 1))
    assert planar.facts()[0] == "renders up to (15, 12.5) N, 1 N m"
    bound = BoundParameters(wrench=(15, 15, 15, 1, 1, 1), rate=(100, 100, 100, 5, 6, 7))
    space = InertialParameters(wrench_limit=(15,) * 3 + (1,) * 3, bound=bound)
    assert space.facts() == [
        "renders up to 15 N, 1 N m",
        "bounded at 15 N, 1 N m",
        "changing by at most 100 N/s, (5, 6, 7) N m/s",
    ]
