"""The driver of a device: reads its state, enforces its limits, applies commands."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from haptic_control.guard import GuardParameters, bridge_port, observe_port, reset_port
from haptic_drivers.bound import JUMP
from haptic_drivers.devices.link import Source, Still
from haptic_drivers.events import Events
from haptic_drivers.operators import (
    AnyOperatorParameters,
    ConstantParameters,
    Operator,
    PointerParameters,
    build_operator,
    events_of,
)
from haptic_drivers.parameters import (
    BuiltDevice,
    CommandedDeviceParameters,
    DeviceContext,
    DeviceParameters,
    HandParameters,
)
from haptic_drivers.pointer import mobility_of
from haptic_drivers.readings import JUMPED, NO_ORIENTATION, NOT_FINITE, TOO_FAST, judge_reading
from haptic_sim.kernels import bind, kernel
from haptic_sim.messages import (
    ENABLED,
    FAULT,
    FORCE,
    NOTHING,
    DeviceCommand,
    DeviceReading,
    DeviceState,
    OperatorEvent,
    Reason,
    tick_time,
)
from haptic_sim.packed import Packed
from haptic_sim.parameters import ParameterError
from haptic_sim.spatial import rotation_difference
from haptic_sim.worlds.scenes import AnyToolParameters

SOFT_START = 0.5  # [s] after an activation in the course of a trial, and of hardware
REJECTED = 5  # readings in a row that are rejected, after which the device is stopped


WRONG = {
    NOT_FINITE: "not finite; a simulated device has diverged: lower the gains of operator or controller, or raise the "
    "rate",
    JUMPED: "further from the last one than the device moves",
    NO_ORIENTATION: "no orientation: its quaternion must have the length 1",
    TOO_FAST: f"too fast: at most {JUMP:g} times device.bound.velocity",
}  # of simulated devices


class Driver:
    """Owns a device and the operator's hand on it.

    Args:
        built: the device, with its sensors.
        operator: applies a wrench to it, if it is simulated.
        rate: of the servo [Hz].
        watchdog: age beyond which a command is not followed [s].
        soft_start: time over which what is rendered grows from zero after an activation [s]; None: SOFT_START, but none
            at the start of a trial.
        events: of an operator that is a pointer.

    Attributes:
        saturations: ticks in which the device was at a limit; bounded: in which its last bound cut what was about to be
        rendered; refused: commands that were not finite, or not of the device's mode; expired: ticks without a command
        because the last one was too old, or said so; rejected: readings that the device cannot have measured.
        fault: why the device cannot be used any more; empty as long as it can. It is idle then.
        reason: why it rendered nothing in the last tick.
        clock: of a trial on the wall clock [s], by which commands grow old, however late its ticks come; None: their
            age is that of their ticks alone.
    """

    def __init__(
        self,
        built: BuiltDevice,
        operator: Operator,
        rate: float,
        watchdog: float = 0.02,
        soft_start: float | None = None,
        events: Events | None = None,
    ):
        device, self._noise, self._encoders, self._hardware = built
        self.events, hardware = events, built.hardware
        self._device, self._operator, self._port = device, operator, Packed(device.port)
        self._rendered, self._cut = device.rendered.data, device.bound.cut.data
        self._motion = Packed(Motion(device.pose, device.twist, device.rendered))
        self._fill: Callable[..., object] | None = None  # compiled for the messages that come
        self._accept: Callable[..., int] | None = None
        self._rate, self._period = rate, 1.0 / rate
        self._wrench = np.zeros(6)
        self._command_tick = -1
        self._patience = max(1, round(watchdog * rate))
        self.clock: Callable[[], float] | None = None
        self._sensed_at = [math.nan] * (self._patience + 1)  # when the last ticks began, by the clock [s]
        self._oldest = (self._patience + 0.5) / rate  # [s]; half a period for ticks that are not quite in time
        self._tick = -1
        self.saturations = self.bounded = self.refused = self.expired = self.rejected = 0
        self.fault = ""
        self.reason = Reason.NO_COMMAND
        # of hardware the readings themselves are judged, whatever scale they are shown at
        self._fastest = np.full(2, np.inf) if hardware is not None else JUMP * device.bound.velocity
        self._soft_start = soft_start
        self.activate(0)

    def activate(self, tick: int, now: int | None = None) -> None:
        """Begin from zero force; commands of ticks before `tick` are of another activation.

        The soft start begins in the tick `now`; None: in `tick`.
        """
        self._start_softly(tick if now is None else now, SOFT_START if tick > 0 else 0.0)
        self._first, self._has_followed = tick, False
        self._command_tick, self._reading_tick, self._doubtful = -1, tick - 1, 0
        if self._encoders is not None:
            self._encoders.forget()
        self._device.rendered[:] = self._device.bound.before[:] = 0.0
        reset_port(self._device.port)

    def _start_softly(self, tick: int, default: float) -> None:
        """Let what is rendered grow from zero from a tick on; over `default` [s] if the device says nothing of it."""
        self._begun, self._ramp = tick, self._rate * (default if self._soft_start is None else self._soft_start)
        self._starting = True
        self._device.bound.starting[0] = self._ramp > 0.0

    @property
    def guarded(self) -> int:
        """Ticks since the activation in which the guard has changed the command, of translation or of rotation."""
        return int(self._device.port.acted.max())

    @property
    def guard_acts(self) -> bool:
        """Whether the guard changes commands."""
        return bool(self._device.port.acts[0])

    @property
    def reading(self) -> DeviceReading:
        """Device reading of this tick: what the hardware reported, and what was written to it."""
        assert self._hardware is not None
        return self._hardware.reading

    def enable(self) -> None:
        """An activation begins: hardware is enabled."""
        if self._hardware is not None:
            self._hardware.enable()

    def release(self) -> None:
        """Leave the device passive: nothing will be commanded any more."""
        self._device.release()

    def warm_up(self) -> None:
        """Call every kernel once, so that none is loaded during a trial; the state is of no use afterwards."""
        command = DeviceCommand()
        command.mode = self._device.MODE
        for tick in (0, -1):
            command.tick = tick
            self.sense(0, DeviceState())
            self.actuate(command)

    def event(self, tick: int) -> OperatorEvent | None:
        """The event of the pointer that took effect in the tick of the last `sense`; None if there was none."""
        return None if self.events is None else self.events.event_of(tick, tick / self._rate)

    def sense(self, tick: int, state: DeviceState, time: int | None = None) -> None:
        """Fill the state at t_k, stamped with `time` [ns] (None: k T), and what the device knows of the operator's.

        Of a reading that the device cannot have measured (`haptic_drivers.readings`) the last good one is taken in
        place. After REJECTED in a row there is a `fault`, and of hardware where the last good one is too old.
        """
        device, hardware = self._device, self._hardware
        self._tick = tick
        if self.clock is not None:
            self._sensed_at[tick % len(self._sensed_at)] = self.clock()
        stamp = tick_time(tick, self._rate) if time is None else time
        if hardware is not None and hardware.take(tick, stamp):
            self.activate(tick)  # from zero force
        self._operator.wrench(tick / self._rate, device.pose, device.twist, self._wrench)
        given = self._motion, tick, stamp, state.packed
        if self._fill is None:
            self._fill = bind(fill_state, *given)
        self._fill(*given)
        device.measure(tick, self._wrench, state.operator_wrench)
        if self._noise is not None:
            self._noise.add(tick, state)
        if self._encoders is not None:
            self._encoders.read(state)
        self._check_reading(tick, state)
        self.fault = self.fault or device.fault
        state.state, state.reason = FAULT if self.fault else ENABLED, self.reason
        if hardware is not None:
            hardware.fill_state(state)
            if not hardware.lets_through:
                reset_port(device.port)  # the last tick with force has been counted
                hardware.forget()

    def _check_reading(self, tick: int, state: DeviceState) -> None:
        """Reject what the sensors cannot have measured; else observe the port. Fill in which reading the state has."""
        good = self._reading_tick
        wrong = 0 if self._hardware is None else self._hardware.wrong
        elapsed = (self._doubtful + 1) * self._period
        given = self._port, state.packed, wrong, self._fastest, elapsed, self._period, good, self._command_tick
        if self._accept is None:
            self._accept = bind(accept_state, *given)
        wrong = self._accept(*given)
        if not wrong:
            self._reading_tick, self._doubtful = tick, 0
            if self._hardware is not None:
                self._hardware.accept()
            return
        self.rejected += 1
        self._doubtful += 1
        late = self._hardware is not None and self._hardware.has_old_reading
        if late or self._doubtful >= REJECTED or not self._device.port.observed[0]:
            fault = f"device: readings rejected from tick {good + 1} to {tick}, the last was "
            if self._hardware is None:
                self.fault = fault + WRONG[wrong]
            elif self._hardware.lets_through:
                self._hardware.fail(fault + self._hardware.problem())

    def follow(self, command: DeviceCommand) -> None:
        """Actuate in realtime, as `actuate`; a command after a gap of commands begins softly."""
        if self._has_followed and self.resumes(command):
            self._start_softly(self._tick, SOFT_START)
        self.actuate(command)

    def actuate(self, command: DeviceCommand) -> None:
        """Follow the command within the limits during the tick of the last `sense`.

        None (zero force, or brakes) if it is not finite, of another mode, of a tick before the activation (-1: there is
        none yet), of a tick to come, older than the watchdog allows, or says so; or if the device has a fault.
        """
        device, bound = self._device, self._device.bound
        if self._starting:
            since = self._tick - self._begun
            self._starting = since < self._ramp
            bound.scale[0] = max(0.0, since / self._ramp) if self._starting else 1.0
        hardware, tick, mode = self._hardware, command.tick, command.mode
        if hardware is not None and not hardware.lets_through:
            self.reason = hardware.reason
        elif not self._is_current(tick, mode):
            self.expired += 1
            self.reason = self._reason_without(tick, mode)
        elif mode != device.MODE or (limited := device.apply_command(command, self._wrench, self._period)) < 0:
            self.refused += 1
            self.reason = Reason.NO_COMMAND
        else:
            self.reason = self._reason_with(command, limited > 0)
            self.saturations += limited
            self.bounded += self._cut[0]
            self._command_tick, self._has_followed = tick, True
            return
        self._command_tick = -1
        device.idle(self._wrench, self._period)
        self.bounded += self._cut[0]

    def _reason_without(self, tick: int, mode: int) -> Reason:
        """Reason why a command of a tick and a mode that is not current is not followed."""
        if self.fault:
            return Reason.FAILED
        commanded = mode != NOTHING and tick >= self._first
        return Reason.WATCHDOG if commanded and tick < self._tick else Reason.NO_COMMAND

    def _reason_with(self, command: DeviceCommand, limited: bool) -> Reason:
        """Reason why a command that is followed renders no wrench; NONE if it renders one."""
        device = self._device
        if device.MODE != FORCE or any(self._rendered):
            return Reason.NONE
        if not any(command.wrench.data):
            return Reason.NO_CONTACT
        if not device.bound.scale[0] or (self._hardware is not None and not self.reading.force_scale):
            return Reason.SCALED_TO_ZERO
        return Reason.SATURATED if limited or device.bound.cut[0] else Reason.PASSIVE

    def resumes(self, command: DeviceCommand) -> bool:
        """Whether a command comes after a tick in which none was followed."""
        return self._command_tick < 0 and self._is_current(command.tick, command.mode)

    def _is_current(self, tick: int, mode: int) -> bool:
        """Whether a command is of this activation, and no older than the watchdog allows; of a device without fault."""
        now = self._tick
        in_time = tick >= self._first and 0 <= now - tick <= self._patience
        if in_time and self.clock is not None:
            began, ticks = self._sensed_at, len(self._sensed_at)
            in_time = began[now % ticks] - began[tick % ticks] <= self._oldest
        return in_time and mode != NOTHING and not self.fault


def build_driver(
    device: DeviceParameters,
    operator: AnyOperatorParameters,
    tool: AnyToolParameters,
    rate: float,
    table: np.ndarray | None = None,
    hand: HandParameters | None = None,
    seed: int = 0,
    guard: GuardParameters | None = None,
    source: Source | None = None,
) -> Driver:
    """The driver of a device.

    Args:
        device, operator: what to simulate; hardware is held by a person, and has no simulated operator.
        tool: whose inertia a device may share.
        rate: of the servo [Hz].
        table: rows of the operator's file, if it has one.
        hand: where the device starts.
        seed: of the experiment.
        guard: of the device's port.
        source: of the readings of hardware; None: it stands still, without a device.

    Raises:
        ParameterError: there is no device.
    """
    if not isinstance(device, CommandedDeviceParameters):
        raise ParameterError([f"device.type = {device.type}: a driver needs a device; choose another type"])
    hand = hand or HandParameters()
    built = device.build(DeviceContext(rate, hand, seed, guard or GuardParameters(), tool, source or Still()))
    operator = ConstantParameters(wrench=(0.0,) * 6) if device.HARDWARE else operator
    events, mobility = events_of(operator, table), None
    if isinstance(operator, PointerParameters):
        if operator.mass is None or operator.inertia is None:
            raise TypeError("a pointer on a device needs the mass and the inertia that it is damped for")
        mobility = mobility_of(operator.mass, operator.inertia, hand.planar)
    held_by = build_operator(operator, table, seed, events, mobility)
    return Driver(built, held_by, rate, device.watchdog, device.soft_start, events)


class Motion(NamedTuple):
    """Motion of a device at the beginning of a tick, as it measures it; see `Device`."""

    pose: np.ndarray
    twist: np.ndarray
    rendered: np.ndarray


@kernel
def fill_state(motion, tick, time, state):
    """Fill in tick, stamp [ns], pose, twist and rendered wrench of a DeviceState; `motion` and `state` are packed."""
    motion, state = motion.arrays, state.arrays
    state.tick[0], state.sec[0], state.nanosec[0] = tick, time // 1_000_000_000, time % 1_000_000_000
    state.pose[:], state.twist[:], state.rendered_wrench[:] = motion.pose, motion.twist, motion.rendered


@kernel
def accept_state(packed_port, packed_state, wrong, fastest, elapsed, period, good, followed):
    """Observe the port in a state that was read, or put the last good reading in its place.

    Fills in the energies, and of which ticks the reading and the command are.

    Args:
        packed_port: a Port, packed; packed_state: a DeviceState, packed.
        wrong: what is already known to be wrong with the reading; 0: nothing.
        fastest: largest speed that is believed (2,) [m/s, rad/s].
        elapsed: time since the last good reading [s].
        period: of the servo [s].
        good: tick of the last good reading; that of the state, if it is read again.
        followed: tick of the command that is followed; -1: none.

    Returns:
        What is wrong with the reading; 0: nothing.
    """
    port, state = packed_port.arrays, packed_state.arrays
    tick = state.tick[0]
    wrong = wrong or _judge(port, state, fastest, elapsed)
    if wrong:
        state.pose[:] = port.pose
        state.twist[:] = port.twist
        state.operator_wrench[:] = port.operator
        if tick != good:
            bridge_port(port, state.rendered_wrench)
    elif tick != good:
        observe_port(port, state.pose, state.twist, state.operator_wrench, state.rendered_wrench)
    state.port_energy[:] = port.energy
    state.port_dissipated[:] = port.dissipated
    state.command_tick[0] = followed
    state.reading_tick[0] = good if wrong else tick
    state.reading_age[0] = (tick - state.reading_tick[0]) * period
    return wrong


@kernel
def _judge(port, state, fastest, elapsed):
    wrong = judge_reading(state.pose, state.twist, fastest)
    if wrong:
        return wrong
    for i in range(6):
        if not math.isfinite(state.operator_wrench[i]):
            return NOT_FINITE
    if not port.observed[0]:
        return 0
    moved, turned = 0.0, 0.0
    rotation_difference(state.pose[3:], port.pose[3:], port.turned)
    for i in range(3):
        moved += (state.pose[i] - port.pose[i]) ** 2
        turned += port.turned[i] ** 2
    if math.sqrt(moved) > elapsed * fastest[0] or math.sqrt(turned) > elapsed * fastest[1]:
        return JUMPED
    return 0
