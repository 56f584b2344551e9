"""The admittance display: controller and device apart and together, against closed forms and independent formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.spatial.transform import Rotation

from haptic_control.admittance import Admittance, AdmittanceParameters, admittance_loop
from haptic_control.stability import CoupledInertias, growth
from haptic_drivers.admittance import AdmittanceDevice, AdmittanceDeviceParameters, gaussian
from haptic_drivers.driver import Driver, build_driver
from haptic_drivers.operators import ConstantParameters, SineParameters
from haptic_drivers.parameters import HandParameters
from haptic_sim.messages import (
    FORCE,
    MOTION,
    DeviceCommand,
    DeviceState,
    ToolCommand,
    ToolSizes,
    ToolState,
    tick_time,
)
from haptic_sim.worlds.scenes import NoToolParameters

RATE = 1000.0  # [Hz]
T = 1.0 / RATE
MASS, INERTIA = 60.0, 0.6  # [kg], [kg m^2]
PERFECT: dict[str, Any] = {"inertia_error": 0, "friction_error": 0, "friction_speed": [0, 0], "noise": [0, 0]}
NOTHING: dict[str, Any] = PERFECT | {"viscous_friction": [0, 0], "coulomb_friction": [0, 0], "handle_mass": 0}
NO_FEEDBACK: dict[str, Any] = {"proportional": [0] * 6, "integral": [0] * 6, "derivative": [0] * 6}
WRENCH = (1.0, -2.0, 3.0, 0.05, -0.02, 0.03)
GENERIC = tuple(Rotation.from_rotvec([0.4, -0.7, 0.3]).as_quat())


def device_parameters(**keys: Any) -> AdmittanceDeviceParameters:
    return AdmittanceDeviceParameters.model_validate(keys)


def driver(operator: Any = (0.0,) * 6, seed: int = 0, pose: Any = (0, 0, 0, 0, 0, 0, 1), **keys: Any) -> Driver:
    if not isinstance(operator, SineParameters):
        operator = ConstantParameters(wrench=operator)
    hand = HandParameters(pose=pose, planar=False)
    return build_driver(device_parameters(**keys), operator, NoToolParameters(), RATE, None, hand, seed)


def sensed(one: Driver, tick: int) -> DeviceState:
    state = DeviceState()
    one.sense(tick, state)
    return state


def command(tick: int, acceleration: Any = (0,) * 6, mode: int = MOTION) -> DeviceCommand:
    message = DeviceCommand()
    message.stamp(tick, 0)
    message.mode, message.acceleration[:] = mode, acceleration
    message.pose[6] = 1.0
    return message


def follow(one: Driver, tick: int, acceleration: Any, mode: int = MOTION) -> DeviceState:
    """Execute a tick; the state after it."""
    sensed(one, tick)
    one.actuate(command(tick, acceleration, mode))
    return sensed(one, tick + 1)


class Reference:
    """A tool that moves along a given path: position and rotation vector about a fixed axis are functions of time."""

    def __init__(self, seed: int = 7):
        rng = np.random.default_rng(seed)
        self._amplitude, self._phase = rng.normal(scale=0.02, size=3), rng.uniform(0, 6, 3)
        self._axis = rng.normal(size=3)
        self._axis /= np.linalg.norm(self._axis)
        self.state = ToolSizes(0, 0).tool_state()
        self.state.pose[:3] = self._amplitude * np.sin(self._phase)
        self.state.pose[3:] = GENERIC
        self.set(-1)

    def set(self, tick: int) -> ToolState:
        """The state after a tick: the twist of a smooth motion, and the pose of semi-implicit Euler with it."""
        time, state = (tick + 1) * T, self.state
        state.stamp(tick, tick_time(tick + 1, RATE))
        state.twist[:3] = self._amplitude * 9.0 * np.cos(9.0 * time + self._phase)
        state.twist[3:] = 0.8 * np.sin(5.0 * time) * self._axis
        if tick < 0:
            state.twist[:] = 0.0
        state.pose[:3] += T * state.twist[:3]
        turn = Rotation.from_rotvec(T * state.twist[3:]) * Rotation.from_quat(state.pose[3:])
        state.pose[3:] = turn.as_quat()
        return state


class Resting(Reference):
    """A tool at rest."""

    def set(self, tick: int) -> ToolState:
        """See Reference."""
        self.state.stamp(tick, tick_time(tick + 1, RATE))
        return self.state


class Display:
    """Controller, device and a tool that moves by itself."""

    def __init__(self, gains: Any = None, operator: Any = (0.0,) * 6, **device: Any):
        self.tool = Reference()
        self.controller = Admittance(AdmittanceParameters.model_validate(gains or {}), RATE)
        self.driver = driver(operator, pose=tuple(self.tool.state.pose), **device)
        self.device, self.to_tool, self.to_device = DeviceState(), ToolCommand(), DeviceCommand()

    def run(self, ticks: int) -> np.ndarray:
        """Errors of pose and twist at each t_k, (ticks, 12)."""
        errors = []
        for k in range(ticks):
            self.driver.sense(k, self.device)
            device, tool = self.device, self.tool.state
            turn = Rotation.from_quat(tool.pose[3:]) * Rotation.from_quat(device.pose[3:]).inv()
            errors.append([*(tool.pose[:3] - device.pose[:3]), *turn.as_rotvec(), *(tool.twist - device.twist)])
            self.controller.coordinate(self.device, tool, self.to_tool)
            self.controller.command(self.tool.set(k), self.to_device)
            self.driver.actuate(self.to_device)
        return np.array(errors)


# The controller


def states(seed: int) -> tuple[DeviceState, ToolState]:
    rng = np.random.default_rng(seed)
    device, tool = DeviceState(), ToolSizes(3, 3).tool_state()
    for state in (device, tool):
        state.pose[:3], state.pose[3:] = rng.normal(size=3), Rotation.random(rng=rng).as_quat()
        state.twist[:] = rng.normal(size=6)
    device.operator_wrench[:] = rng.normal(size=6)
    device.stamp(7, tick_time(7, RATE))
    tool.stamp(6, tick_time(7, RATE))
    device.command_tick = 6
    return device, tool


GAINS: dict[str, Any] = {
    "proportional": (100.0, 110.0, 120.0, 130.0, 140.0, 150.0),
    "integral": (40.0, 41.0, 42.0, 43.0, 44.0, 45.0),
    "derivative": (10.0, 11.0, 12.0, 13.0, 14.0, 15.0),
    "integral_limit": (1e3,) * 6,
}


@pytest.mark.parametrize("seed", range(20))
def test_acceleration_is_feedforward_and_pid(seed: int) -> None:
    """Against SciPy's logarithm, over two ticks; the second has the integral of both."""
    core = Admittance(AdmittanceParameters(**GAINS), RATE)
    device, tool = states(seed)
    to_tool, to_device = ToolCommand(), DeviceCommand()
    K = {name: np.array(values) for name, values in GAINS.items()}
    integral = np.zeros(6)
    for k in (7, 8):
        device.stamp(k, tick_time(k, RATE))
        turn = Rotation.from_quat(tool.pose[3:]) * Rotation.from_quat(device.pose[3:]).inv()
        e = np.concatenate([tool.pose[:3] - device.pose[:3], turn.as_rotvec()])
        w = tool.twist - device.twist
        core.coordinate(device, tool, to_tool)
        np.testing.assert_array_equal(to_tool.wrench, device.operator_wrench)
        assert (to_tool.tick, to_tool.tool_tick, to_tool.nanoseconds) == (k, k - 1, device.nanoseconds)
        before = tool.twist.copy()
        tool.twist[:] += 0.01 * np.arange(6)
        tool.stamp(k, tick_time(k + 1, RATE))
        core.command(tool, to_device)
        integral += K["integral"] * e * (T if k == 8 else 7 * T)  # at first since the start of the trial
        expected = (tool.twist - before) / T + K["proportional"] * e + integral + K["derivative"] * w
        np.testing.assert_allclose(to_device.acceleration, expected, rtol=1e-12, atol=1e-9)
        np.testing.assert_array_equal(to_device.pose, tool.pose)
        np.testing.assert_array_equal(to_device.twist, tool.twist)
        assert (to_device.mode, to_device.tick, to_device.device_tick) == (MOTION, k, k)


def test_feedback_turns_with_the_world() -> None:
    """Frame covariance at a generic angle, with equal gains in all directions."""
    R = Rotation.from_rotvec([0.3, -0.5, 0.7])
    accelerations = []
    for turned in (False, True):
        device, tool = states(3)
        if turned:
            for state in (device, tool):
                state.pose[:3], state.pose[3:] = (
                    R.apply(state.pose[:3]),
                    (R * Rotation.from_quat(state.pose[3:])).as_quat(),
                )
                state.twist[:] = R.apply(state.twist.reshape(2, 3)).ravel()
        core, to_device = Admittance(AdmittanceParameters(integral_limit=(1e6,) * 6), RATE), DeviceCommand()
        core.coordinate(device, tool, ToolCommand())
        core.command(tool, to_device)
        accelerations.append(to_device.acceleration.copy())
    np.testing.assert_allclose(accelerations[1], R.apply(accelerations[0].reshape(2, 3)).ravel(), rtol=1e-10)


def test_a_late_tool_state_is_carried_on_and_a_lost_one_shared_out() -> None:
    """Device at t_8, tool at t_6 moving on steadily: no error. The answer is three ticks later: a third of the rate."""
    core = Admittance(AdmittanceParameters(integral_limit=(0,) * 6), RATE)
    device, tool = states(1)
    device.twist[:], tool.twist[3:] = 0.0, 0.0
    device.twist[:3] = tool.twist[:3]
    device.pose[:] = tool.pose
    device.pose[:3] += 2 * T * tool.twist[:3]
    device.stamp(8, tick_time(8, RATE))
    tool.stamp(5, tick_time(6, RATE))
    to_device = DeviceCommand()
    core.coordinate(device, tool, ToolCommand())
    tool.twist[0] += 0.3
    tool.stamp(8, tick_time(9, RATE))
    core.command(tool, to_device)
    np.testing.assert_allclose(to_device.acceleration, [0.3 / (3 * T), 0, 0, 0, 0, 0], rtol=1e-9, atol=1e-8)


def test_the_time_of_the_trial_is_that_of_the_ticks_whatever_the_stamps_say() -> None:
    """A clock that stands still, jumps and goes back does not change a command."""
    commands = []
    for stamps in (None, [10**18, 10**18, 5, 10**18 + 10**12]):
        core, to_device = Admittance(AdmittanceParameters(**GAINS), RATE), DeviceCommand()
        device, tool = states(4)
        for k in range(7, 11):
            device.stamp(k, tick_time(k, RATE) if stamps is None else stamps[k - 7])
            core.coordinate(device, tool, ToolCommand())
            tool.twist[:] += 0.01 * np.arange(6)
            tool.stamp(k, tick_time(k + 1, RATE) if stamps is None else stamps[k - 8])
            core.command(tool, to_device)
            commands.append(to_device.acceleration.copy())
            assert to_device.nanoseconds == device.nanoseconds
    np.testing.assert_array_equal(commands[:4], commands[4:])


def test_the_integral_does_not_wind_up_and_rests_while_the_device_does_not_follow() -> None:
    gains = {
        "proportional": [0] * 6,
        "derivative": [0] * 6,
        "integral": [1e4] * 6,
        "integral_limit": [0.5, 1, 2, 3, 4, 5],
    }
    core = Admittance(AdmittanceParameters.model_validate(gains), RATE)
    device, tool, to_device = DeviceState(), ToolSizes(0, 0).tool_state(), DeviceCommand()
    for state in (device, tool):
        state.pose[6] = 1.0
    device.pose[:3] = 1.0, -1.0, 1.0

    def accelerate(k: int, command_tick: int) -> np.ndarray:
        device.stamp(k, tick_time(k, RATE))
        device.command_tick = command_tick
        tool.stamp(k - 1, tick_time(k, RATE))
        core.coordinate(device, tool, ToolCommand())
        core.command(tool, to_device)
        return to_device.acceleration[:3].copy()

    for k in range(100):
        np.testing.assert_array_equal(accelerate(k, -1), np.zeros(3))
    for k in range(100, 1100):
        held = accelerate(k, k - 1)
    np.testing.assert_allclose(held, [-0.5, 1.0, -2.0], rtol=1e-12)
    device.pose[:3] *= -1.0  # it comes off its limit at once: 1e4 / s^3 x 1 m x 1 ms = 10 m/s^2 in a tick
    np.testing.assert_allclose(accelerate(1100, 1099), [0.5, -1.0, 2.0], rtol=1e-12)


def test_new_gains_do_not_make_the_integral_jump() -> None:
    core = Admittance(AdmittanceParameters(), RATE)
    device, tool, to_device = DeviceState(), ToolSizes(0, 0).tool_state(), DeviceCommand()
    device.pose[6] = tool.pose[6] = 1.0
    tool.pose[0] = 1e-5
    for k in range(1, 200):
        device.stamp(k, tick_time(k, RATE))
        tool.stamp(k - 1, tick_time(k, RATE))
        device.command_tick = k - 1
        core.coordinate(device, tool, ToolCommand())
    core.command(tool, to_device)
    before = to_device.acceleration[0]
    core.configure(AdmittanceParameters(integral=(0.0,) * 6))
    core.coordinate(device, tool, ToolCommand())
    core.command(tool, to_device)
    assert to_device.acceleration[0] == before > 1e4 * 1e-5


def test_growth_is_that_of_a_simulated_loop() -> None:
    """Below and above the bound of the derivative gain, 2 / T less what the spring takes."""
    device = CoupledInertias(planar=False, device=(1.0, 1.0))

    def factor(rate: float, *gains: float) -> float:
        return growth(admittance_loop(np.outer(gains, np.ones(6)), 1.0, device, rate))

    for derivative in (200.0, 1990.0, 2050.0):
        found, e, w = factor(RATE, 1e4, 0.0, derivative), 1.0, 0.0
        sizes = []
        for _ in range(400):
            w -= T * (1e4 * e + derivative * w)
            e += T * w
            sizes.append(abs(w))
        late = np.log(max(sizes[-20:]) / max(sizes[-220:-200])) / 200
        assert np.log(found) == pytest.approx(late, abs=2e-3)
        assert (found > 1.0) == (derivative > 2.0 / T - 1e4 * T / 2)
    assert factor(RATE, 0.0, 0.0, 0.0) == pytest.approx(1.0)
    assert factor(RATE, 1e4, 1e5, 2e2) < 1.0 < factor(90.0, 1e4, 1e5, 2e2)


@pytest.mark.parametrize("name", ["proportional", "integral", "derivative", "integral_limit"])
@pytest.mark.parametrize("bad", [(1.0,) * 5, (-1.0,) * 6, (float("nan"),) * 3, (True, 1.0, 1.0)])
def test_bad_gains_are_refused(name: str, bad: Any) -> None:
    with pytest.raises(ValidationError, match=name):
        AdmittanceParameters.model_validate({name: bad})


# Both together


def test_feedforward_alone_tracks_without_error_on_a_device_without_errors() -> None:
    """Friction, handle and the operator's push are there, but known: what is left is rounding."""
    display = Display(NO_FEEDBACK, operator=WRENCH, **PERFECT | {"drive_limit": [1e6] * 6})
    errors = display.run(1500)
    speed = np.abs(display.tool.state.twist)
    assert speed[:3].max() > 0.04 and speed[3:].max() > 0.1
    assert np.abs(errors[:, :6]).max() < 1e-12
    assert np.abs(errors[:, 6:]).max() < 1e-11


def test_without_its_feedforward_a_tick_would_be_lost() -> None:
    """The same with the acceleration of the tick before: the velocity lags by T a. So the test above can fail."""
    display = Display(NO_FEEDBACK, **NOTHING)
    late = np.zeros(6)
    errors = []
    for k in range(500):
        display.driver.sense(k, display.device)
        errors.append(display.tool.state.twist - display.device.twist)
        display.controller.coordinate(display.device, display.tool.state, display.to_tool)
        display.controller.command(display.tool.set(k), display.to_device)
        now = display.to_device.acceleration.copy()
        display.to_device.acceleration[:] = late
        late = now
        display.driver.actuate(display.to_device)
    assert np.abs(errors).max() > 1e-4


@pytest.mark.long
def test_feedback_rejects_friction_and_the_operator() -> None:
    """A push that the sensor does not tell (bias), and friction that is half known: e stays below a / Kp of both."""
    keys: dict[str, Any] = {"friction_error": -0.5, "noise": [0, 0], "bias": [-0.5, 0, 0, 0, 0, 0]}
    loose = Display(NO_FEEDBACK, operator=WRENCH, **keys).run(1500)
    held = Display({}, operator=WRENCH, **keys).run(1500)
    acceleration = (0.5 * 7.2 + 0.5 * 20 * 0.4 + 0.5) / MASS + 0.02 * 2.0  # of friction, bias and wrong inertia [m/s^2]
    assert np.abs(loose[:, :3]).max() > 5e-3
    assert np.abs(held[:, :3]).max() < 2 * acceleration / 1.2e5
    turning = (0.5 * 0.072 + 0.5 * 0.2 * 0.8) / INERTIA + 0.02 * 4.0
    assert np.abs(held[:, 3:6]).max() < 2 * turning / 1.2e5


def test_the_gains_bear_a_delay_of_one_more_tick() -> None:
    """At 1 kHz without it errors shrink by (1 - p T) a tick or so; with it they still shrink, with two they grow."""
    p = AdmittanceParameters()
    Kp, Ki, Kd = (gain[0] for gain in (p.proportional, p.integral, p.derivative))
    assert (Kp, Ki, Kd) == pytest.approx((3 * 200.0**2, 200.0**3, 3 * 200.0))
    shrink = []
    for delay in (0, 1, 2):
        one = np.eye(3 + delay)
        asked = Kp * one[0] + Kd * one[1] + one[2] + Ki * T * one[0]
        loop = np.roll(one, 1, axis=0)  # what was asked moves on by a tick
        loop[1] = one[1] - T * (one[-1] if delay else asked)
        loop[0] = one[0] + T * loop[1]
        loop[2] = one[2] + Ki * T * one[0]
        if delay:
            loop[3] = asked
        shrink.append(np.abs(np.linalg.eigvals(loop)).max())
    assert shrink[0] < 0.9 and shrink[1] < 0.9 and shrink[2] > 1.0


@pytest.mark.long
def test_the_integral_takes_a_lasting_error_away() -> None:
    """A device at rest against a bias of the sensor: Kp e = bias / M without an integral, 0 with one."""
    for integral, expected in ((0.0, 0.5 / (1.02 * MASS) / 1.2e5), (8e6, 0.0)):
        keys: dict[str, Any] = {"coulomb_friction": [0, 0], "noise": [0, 0], "bias": [0.5, 0, 0, 0, 0, 0]}
        display = Display({"integral": [integral] * 6}, **keys)
        display.tool = Resting()
        errors = display.run(4000)
        assert errors[-1, 0] == pytest.approx(expected, rel=1e-3, abs=1e-12)


def held_tool(mass: float, stiffness: float, push: float, ticks: int, **device: Any) -> np.ndarray:
    """Largest speed so far of a free tool on the display, at each tick.

    A hand that is a spring at the origin, beside a push [N], holds the device.
    """
    one, core = driver(**device), Admittance(AdmittanceParameters(), RATE)
    simulated = one._device
    one._operator = type("Spring", (), {"wrench": staticmethod(lambda time, pose, twist, out: np.copyto(
        out, [push - stiffness * pose[0], 0, 0, 0, 0, 0]))})()  # fmt: skip
    tool, state, to_tool, to_device = Resting().state, DeviceState(), ToolCommand(), DeviceCommand()
    tool.pose[:] = simulated.pose
    speeds = []
    for k in range(ticks):
        one.sense(k, state)
        core.coordinate(state, tool, to_tool)
        tool.twist[0] += T * to_tool.wrench[0] / mass
        tool.pose[0] += T * tool.twist[0]
        tool.stamp(k, tick_time(k + 1, RATE))
        core.command(tool, to_device)
        one.actuate(to_device)
        speeds.append(abs(tool.twist[0]))
    return np.maximum.accumulate(speeds)


@pytest.mark.parametrize(("part", "stable"), [(0.9, True), (1.1, False)])
def test_a_stiff_hand_is_held_up_to_the_bound_of_sampling(part: float, stable: bool) -> None:
    """K < 4 m / T^2 is that of semi-implicit Euler: the display itself takes nothing away from it."""
    mass = 0.25
    speeds = held_tool(mass, part * 4.0 * mass / T**2, 1e-3, 400, **NOTHING | {"drive_limit": [1e12] * 6})
    assert bool(speeds[-1] < 1.5 * speeds[100]) is stable


def test_a_hand_that_holds_on_is_stable_on_a_device_with_errors() -> None:
    """As it comes, with noise, friction and a hand of 5 kN/m: after a second it has its largest speed behind it."""
    speeds = held_tool(0.25, 5e3, 2.0, 4000)
    assert speeds[-1] < 1.2 * speeds[1000]


@pytest.mark.parametrize(("part", "stable"), [(0.9, True), (1.1, False)])
def test_no_tool_is_lighter_than_the_mass_that_is_compensated_too_much(part: float, stable: bool) -> None:
    """The error of the handle's inertia, handle_error m, adds to the push: above the tool's mass it diverges."""
    mass = 0.2
    keys = NOTHING | {"handle_mass": 0.1, "handle_error": part * mass / 0.1, "handle_inertia": 0, "gravity": [0, 0, 0]}
    keys |= {"handle_centre": [0, 0, 0], "drive_limit": [1e12] * 6}
    speeds = held_tool(mass, 0.0, 0.1, 400, **keys)
    expected = 0.1 / (mass - part * mass) * 400 * T  # the tool feels as light as what is left
    assert (speeds[-1] == pytest.approx(expected, rel=0.1)) if stable else speeds[-1] > 1e3 * abs(expected)


# The device


def test_device_without_errors_accelerates_as_commanded() -> None:
    """v_k = k T a, x_k = T^2 k (k + 1) / 2 a, about a fixed axis the angle likewise; whatever the operator does."""
    a = np.array([0.3, -0.2, 0.1, 0.5, -0.4, 0.2])
    one = driver(WRENCH, pose=(1, 2, 3, *GENERIC), **PERFECT)
    for k in range(300):
        state = sensed(one, k)
        np.testing.assert_allclose(state.twist, a * T * k, rtol=1e-11, atol=1e-14)
        way = a * T**2 * (k * (k + 1) / 2)
        np.testing.assert_allclose(state.pose[:3], np.array([1, 2, 3]) + way[:3], rtol=1e-13)
        turn = Rotation.from_quat(state.pose[3:]) * Rotation.from_quat(GENERIC).inv()
        np.testing.assert_allclose(turn.as_rotvec(), way[3:], rtol=0, atol=1e-12)
        np.testing.assert_allclose(state.operator_wrench, WRENCH, rtol=1e-14)
        one.actuate(command(k, a))
    assert (one.saturations, one.refused, one.expired) == (0, 0, 0)


def test_drive_gives_what_the_law_says() -> None:
    """u = M' a - F_sensed + f'(v + T a), on the first tick from rest."""
    keys: dict[str, Any] = {
        "inertia_error": 0.1,
        "friction_error": -0.25,
        "noise": [0, 0],
        "friction_speed": [1e-5, 1e-5],
    }
    a = np.array([0.3, -0.4, 0.0, 0.0, 0.0, 2.0])
    state = follow(driver(WRENCH, **keys), 0, a)
    v = T * a
    force = 1.1 * MASS * a[:3] - WRENCH[:3] + 0.75 * (20 * v[:3] + 7.2 * a[:3] / 0.5)
    torque = 1.1 * INERTIA * a[3:] - WRENCH[3:] + 0.75 * (0.2 * v[3:] + 0.072 * np.array([0, 0, 1]))
    np.testing.assert_allclose(state.rendered_wrench, [*force, *torque], rtol=1e-12, atol=1e-14)
    assert state.command_tick == 0


def test_friction_stops_the_device_and_holds_it() -> None:
    """Coasting it comes as far as c / M says, within the way of a tick; a push below c moves nothing."""
    keys = NOTHING | {"coulomb_friction": [6.0, 0.06], "friction_error": -0.999999999}
    one = driver((0.0,) * 6, **keys)
    follow(one, 0, [0.1 / T, 0, 0, 0, 0, 0.1 / T])
    v = sensed(one, 1).twist.copy()
    x = sensed(one, 1).pose[0]
    for k in range(1, 1500):
        state = follow(one, k, np.zeros(6))
    np.testing.assert_array_equal(state.twist, np.zeros(6))
    assert state.pose[0] - x == pytest.approx(v[0] ** 2 / (2 * 0.1), abs=T * v[0])
    for push, moves in ((5.9, False), (6.1, True)):
        blind = driver((push, 0, 0, 0, 0, 0), **keys | {"bias": [-push, 0, 0, 0, 0, 0]})  # nothing is compensated
        for k in range(10):
            state = follow(blind, k, np.zeros(6))
        assert bool(state.twist[0] > 0.0) is moves


@pytest.mark.parametrize("seed", range(5))
def test_friction_only_takes_energy(seed: int) -> None:
    """Power of friction, from the motion and what else acts: never positive, in any tick of a random excitation."""
    rng = np.random.default_rng(seed)
    device = AdmittanceDevice(device_parameters(noise=[0, 0]), (0, 0, 0, 0, 0, 0, 1))
    inertia = np.array([MASS] * 3 + [INERTIA] * 3)
    for k in range(400):
        push, before = rng.normal(scale=4.0, size=6) * [1, 1, 1, 0.01, 0.01, 0.01], device.twist.copy()
        device.measure(k, push, np.zeros(6))
        device.apply_command(command(k, rng.normal(scale=0.05, size=6)), push, T)
        friction = inertia * (device.twist - before) / T - device.rendered - push
        assert friction[:3] @ device.twist[:3] <= 1e-12
        assert friction[3:] @ device.twist[3:] <= 1e-12


@pytest.mark.parametrize("direction", range(6))
def test_the_drive_has_limits(direction: int) -> None:
    a = np.zeros(6)
    a[direction] = 1e4
    one = driver(**NOTHING | {"drive_limit": [100, 110, 120, 3, 4, 5]})
    state = follow(one, 0, a)
    limit = np.array([100, 110, 120, 3, 4, 5.0])[direction]
    assert state.rendered_wrench[direction] == limit
    assert state.twist[direction] == pytest.approx(T * limit / (MASS if direction < 3 else INERTIA), rel=1e-14)
    assert (one.saturations, one.refused) == (1, 0)
    assert np.isfinite(follow(one, 1, [-1.7e308] * 6).twist).all()


def braked(one: Driver, tick: int, spoil: Any) -> DeviceState:
    sensed(one, tick)
    message = command(tick, [5.0] * 6)
    spoil(message)
    one.actuate(message)
    return sensed(one, tick + 1)


def nan_in(field: str) -> Any:
    def spoil(message: DeviceCommand) -> None:
        getattr(message, field)[2] = np.nan

    return spoil


def mode(value: int) -> Any:
    def spoil(message: DeviceCommand) -> None:
        message.mode = value

    return spoil


def old(message: DeviceCommand) -> None:
    message.tick -= 21


def missing(message: DeviceCommand) -> None:
    message.tick = -1


SPOILED = {
    "nan acceleration": nan_in("acceleration"),
    "nan pose": nan_in("pose"),
    "nan twist": nan_in("twist"),
    "force": mode(FORCE),
    "unknown mode": mode(200),
    "old": old,
    "missing": missing,
}


@pytest.mark.parametrize("name", SPOILED)
def test_without_a_proper_command_the_drive_brakes(name: str) -> None:
    """It decelerates by `braking` per speed, pushes never, and not at all at rest; the next proper command counts."""
    bias = {"bias": [3.0, 3.0, 3.0, 0.1, 0.1, 0.1]}
    one = driver((0.0,) * 6, **NOTHING | bias)
    for k in range(30):
        state = braked(one, k, SPOILED[name])
        np.testing.assert_array_equal(state.twist, np.zeros(6))  # whatever the sensor says
        np.testing.assert_array_equal(state.rendered_wrench, np.zeros(6))
    one = driver((0.0,) * 6, **NOTHING | {"drive_limit": [1e9] * 6})
    start = follow(one, 99, [200.0] * 6).twist.copy()
    for k in range(100, 150):
        before = sensed(one, k).twist.copy()
        state = braked(one, k, SPOILED[name])
        np.testing.assert_allclose(state.twist, (1 - 20 * T) * before, rtol=1e-12)
        assert (state.rendered_wrench * before < 0.0).all()
        assert state.command_tick == -1
    assert one.refused + one.expired == 50
    assert (one.expired > 0) == (name in ("old", "missing"))
    follow(one, 150, np.zeros(6))
    assert sensed(one, 151).command_tick == 150
    assert start[0] > 0.1


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("braking", [0.0, 20.0, 1e4])
def test_brakes_are_passive(seed: int, braking: float) -> None:
    """The drive takes energy in every tick, however the operator pushes and whatever it has wrong."""
    rng = np.random.default_rng(seed)
    parameters = device_parameters(braking=braking, inertia_error=0.3, bias=[5, 5, 5, 1, 1, 1])
    device = AdmittanceDevice(parameters, (0, 0, 0, *GENERIC))
    device.twist[:] = rng.normal(size=6)
    for k in range(300):
        push, before = rng.normal(scale=20.0, size=6), device.twist.copy()
        device.measure(k, push, np.zeros(6))
        device.idle(push, T)
        assert (device.rendered * before <= 0.0).all()
        assert np.abs(T * device.rendered / ([MASS] * 3 + [INERTIA] * 3)) @ np.ones(6) <= 2 * np.abs(before).sum()


def test_a_force_device_takes_no_motion() -> None:
    """The other way round is in test_driver.py; here the modes are not taken for each other."""
    assert AdmittanceDevice.MODE == MOTION != FORCE


# The sensor


def measured(device: AdmittanceDevice, tick: int, push: Any = (0.0,) * 6) -> np.ndarray:
    out = np.zeros(6)
    device.measure(tick, np.array(push, float), out)
    return out


def test_sensor_feels_weight_and_inertia_of_the_handle_as_a_body_would() -> None:
    """Newton and Euler of the handle, at a generic motion, by SciPy and finite differences.

    With handle_error = -0.999... nearly nothing is taken off: the sensor tells the push less what moves and carries the
    handle.
    """
    m, inertia, centre, gravity = 0.4, 0.003, np.array([0.02, -0.05, 0.08]), np.array([1.0, 2.0, -9.0])
    keys = NOTHING | {
        "handle_mass": m, "handle_inertia": inertia, "handle_centre": centre.tolist(),
        "gravity": gravity.tolist(), "handle_error": -0.9999999999,
    }  # fmt: skip
    device = AdmittanceDevice(device_parameters(**keys), (0, 0, 0, *GENERIC))
    h, a = 1e-6, np.array([3.0, -2.0, 1.0, 4.0, 5.0, -6.0])
    device.twist[:] = [0.5, -0.3, 0.2, 2.0, -1.0, 3.0]
    measured(device, 0)
    v0 = device.twist.copy()
    nothing = -measured(device, 0)
    message = command(0, a + 0.0)
    device._sensed[:] = 0.0
    device.apply_command(message, np.zeros(6), h)
    np.testing.assert_allclose(device.twist, v0 + h * a, rtol=1e-9)

    def place(time: float) -> np.ndarray:
        """Centre of mass of the handle around the end of the tick, with the acceleration held."""
        turn = Rotation.from_quat(device.pose[3:])
        omega, alpha = device.twist[3:], a[3:]
        r = turn.apply(centre)
        velocity = device.twist[:3] + np.cross(omega, r)
        accelerated = a[:3] + np.cross(alpha, r) + np.cross(omega, np.cross(omega, r))
        return r + time * velocity + 0.5 * time**2 * accelerated

    step = 1e-3
    acceleration = (place(step) - 2 * place(0.0) + place(-step)) / step**2
    weight = m * (gravity - acceleration)
    r = Rotation.from_quat(device.pose[3:]).apply(centre)
    expected = [*weight, *(np.cross(r, weight) - inertia * a[3:])]
    np.testing.assert_allclose(measured(device, 1, WRENCH) - WRENCH, expected, rtol=1e-6, atol=1e-7)
    assert np.abs(nothing).max() > 1.0


@pytest.mark.parametrize("error", [0.0, 0.1, -0.2])
def test_weight_is_compensated_as_far_as_the_handle_is_known(error: float) -> None:
    """At rest: what is left is -error m g at the centre of mass, turned with the hand."""
    keys: dict[str, Any] = {"noise": [0, 0], "handle_error": error}
    device = AdmittanceDevice(device_parameters(**keys), (0, 0, 0, *GENERIC))
    weight = 0.15 * np.array([0, 0, -9.81])
    lever = Rotation.from_quat(GENERIC).apply([0, 0, 0.03])
    left = -error * np.concatenate([weight, np.cross(lever, weight)])
    np.testing.assert_allclose(measured(device, 5, WRENCH), np.array(WRENCH) + left, rtol=1e-12, atol=1e-15)


def test_noise_has_the_statistics_that_it_is_given() -> None:
    """Mean, deviation, kurtosis, independence of directions and ticks, of 40000 samples: within 5 standard errors."""
    device = AdmittanceDevice(
        device_parameters(handle_mass=0.0, noise=[0.02, 5e-4], bias=WRENCH), (0, 0, 0, 0, 0, 0, 1), 3
    )
    n = 40_000
    x = (np.array([measured(device, k) for k in range(n)]) - WRENCH) / ([0.02] * 3 + [5e-4] * 3)
    error = 5 / np.sqrt(n)
    assert np.abs(x.mean(axis=0)).max() < error
    assert np.abs(x.var(axis=0) - 1).max() < error * np.sqrt(2)
    assert np.abs((x**4).mean(axis=0) - 3).max() < error * np.sqrt(96)
    assert np.abs(np.corrcoef(x.T) - np.eye(6)).max() < error
    assert max(abs((x[:-lag] * x[lag:]).mean(axis=0)).max() for lag in (1, 2, 3)) < error


def test_noise_depends_on_seed_and_tick_alone() -> None:
    device, again, other = (AdmittanceDevice(device_parameters(), (0, 0, 0, 0, 0, 0, 1), seed) for seed in (4, 4, 5))
    first = [measured(device, k) for k in range(20)]
    backwards = [measured(again, k) for k in reversed(range(20))][::-1]
    np.testing.assert_array_equal(first, backwards)
    assert not np.isclose(first, [measured(other, k) for k in range(20)]).any()
    assert gaussian(np.uint64(2**64 - 1), 0) != gaussian(np.uint64(0), 0)


def test_sensing_again_changes_nothing() -> None:
    one = driver(SineParameters(amplitude=(1, 2, 3, 4, 5, 6), frequency=3.0), seed=9)
    follow(one, 0, np.ones(6))
    assert sensed(one, 1).to_bytes() == sensed(one, 1).to_bytes()


def test_a_rehearsal_leaves_no_kernel_to_compile() -> None:
    driver().warm_up()
    Admittance(AdmittanceParameters(), RATE).warm_up(ToolSizes(2, 2))
    counts = len(gaussian.signatures)
    Display().run(3)
    assert len(gaussian.signatures) == counts


@pytest.mark.parametrize(
    "keys",
    [{"apparent_inertia": [0, 1]}, {"viscous_friction": [-1, 0]}, {"braking": -1}, {"noise": [-1, 0]},
     {"inertia_error": -1}, {"drive_limit": [1, 2]}, {"handle_mass": float("nan")}, {"mass": 3}],
    ids=lambda keys: next(iter(keys)),
)  # fmt: skip
def test_bad_devices_are_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(keys))):
        device_parameters(**keys)
