"""The driver of a device: reads its state, enforces its limits, applies commands."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from pydantic import AfterValidator, Field

from haptic_control.guard import GuardParameters, Port, count_wrench, guard_wrench, observe_port, reset_port
from haptic_control.parameters import KnownDevice
from haptic_drivers.admittance import AdmittanceDevice, AdmittanceDeviceParameters
from haptic_drivers.bound import (
    JUMP,
    Bound,
    BoundParameters,
    bound_passive,
    bound_quantity,
    bound_wrench,
    shrink_wrench,
    soft_start_quantity,
    start_softly,
    watchdog_quantity,
)
from haptic_drivers.devices.hardware import HardwareDevice, limits_of
from haptic_drivers.devices.link import Source, Still
from haptic_drivers.devices.parameters import HardwareParameters
from haptic_drivers.encoder import Encoder, EncoderParameters
from haptic_drivers.events import Events
from haptic_drivers.inertial import ORIGIN, InertialDevice
from haptic_drivers.motor_encoders import MotorEncoders
from haptic_drivers.noise import SensorNoise, noise_quantity
from haptic_drivers.operators import (
    AnyOperatorParameters,
    ConstantParameters,
    Operator,
    PointerParameters,
    build_operator,
    events_of,
)
from haptic_drivers.pantograph import Pantograph, PantographParameters
from haptic_drivers.pointer import mobility_of
from haptic_drivers.readings import JUMPED, NO_ORIENTATION, NOT_FINITE, TOO_FAST, judge_alone
from haptic_sim.contact.response import DeviceLimits
from haptic_sim.kernels import kernel
from haptic_sim.messages import (
    ENABLED,
    FAULT,
    FORCE,
    MOTION,
    NOTHING,
    DeviceCommand,
    DeviceReading,
    DeviceState,
    OperatorEvent,
    Reason,
    tick_time,
)
from haptic_sim.packed import Packed
from haptic_sim.parameters import NotNegativePair, Parameters, quantity
from haptic_sim.random_numbers import displaced
from haptic_sim.records import allocate, array, record, shared, value
from haptic_sim.spatial import rotation_difference
from haptic_sim.worlds.scenes import AnyToolParameters, PegParameters


class HandParameters(Parameters):
    """Where the virtual tool is held at the start: a simulated device starts there, and moves as the tool may."""

    pose: tuple[float, float, float, float, float, float, float] = quantity(
        ORIGIN, unit="m", description="Position, and quaternion x y z w"
    )
    planar: bool = quantity(True, description="Whether everything moves in the plane of x and y")


def _two_or_three(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(values) not in (2, 3):
        raise ValueError(f"has {len(values)} values: must have 2 (x, y) or 3")
    return values


Offset = Annotated[tuple[float, ...], AfterValidator(_two_or_three)]


class InertialParameters(DeviceLimits, EncoderParameters):
    """A simulated impedance device with purely inertial dynamics, kinematically equal to the tool."""

    type: Literal["inertial"] = "inertial"
    watchdog: float = watchdog_quantity()
    noise: NotNegativePair = noise_quantity()
    soft_start: float | None = soft_start_quantity()
    bound: BoundParameters = bound_quantity()
    mass: float | None = quantity(
        None,
        unit="kg",
        description="Mass of the device; null: that of the tool at the hand, the mean of all directions",
        gt=0.0,
        le=1e3,
    )
    inertia: float | None = quantity(
        None,
        unit="kg m^2",
        description="Inertia of the device about any axis through the hand point; null: that of the tool, the mean of "
        "all axes",
        gt=0.0,
        le=1e3,
    )
    damping: NotNegativePair | None = quantity(
        None,
        unit="N s/m, N m s/rad",
        description="Viscous damping of the device in translation and in rotation, with which its motion is integrated "
        "exactly; null: an ideal device, which is integrated as the tool is",
    )
    offset: Offset = quantity(
        (0.0, 0.0), unit="m", description="Offset from the tool's hand point to that of the device at the start"
    )

    def inertia_with(self, tool: AnyToolParameters) -> tuple[float | None, float | None]:
        """Mass [kg] and inertia [kg m^2], the tool's where it has none of its own; None if neither has one."""
        if isinstance(tool, PegParameters):
            return self.mass or tool.mass, self.inertia or tool.inertia
        return self.mass, self.inertia

    def known(self) -> KnownDevice:
        """What it says of itself to a controller."""
        return KnownDevice(self.type, self.mass, self.inertia, True, self.damping)


SOFT_START = 0.5  # [s] after an activation in the course of a trial, and of hardware
REJECTED = 5  # readings in a row that are rejected, after which the device is stopped


WRONG = {
    NOT_FINITE: "not finite; a simulated device has diverged: lower the gains of operator or controller, or raise the "
    "rate",
    JUMPED: "further from the last one than the device moves",
    NO_ORIENTATION: "no orientation: its quaternion must have the length 1",
    TOO_FAST: f"too fast: at most {JUMP:g} times device.bound.velocity",
}  # of simulated devices


class NoDeviceParameters(Parameters):
    """No device: the operator's wrench acts on the tool."""

    type: Literal["none"] = "none"


SimulatedParameters = InertialParameters | AdmittanceDeviceParameters | PantographParameters
RealDeviceParameters = SimulatedParameters | HardwareParameters
DriverDeviceParameters = Annotated[RealDeviceParameters, Field(discriminator="type")]
AnyDeviceParameters = Annotated[RealDeviceParameters | NoDeviceParameters, Field(discriminator="type")]


class Device(Protocol):
    """A device under the operator's wrench and what is commanded, simulated or hardware.

    Attributes:
        MODE: of the commands that it takes, FORCE or MOTION.
        pose: of the hand point (7,) [m, quat_xyzw]; twist: (6,) [m/s, rad/s]; in world axes.
        rendered: wrench of its drive in the last step, after limits (6,) [N, N m].
        bound: the last bound of that, which nothing passes.
        port: where the hand holds it: what was measured, and the guard.
        fault: why it cannot be used any more; empty as long as it can.
    """

    MODE: ClassVar[int]
    pose: np.ndarray
    twist: np.ndarray
    rendered: np.ndarray
    bound: Bound
    port: Port

    @property
    def fault(self) -> str: ...

    def measure(self, tick: int, operator: np.ndarray, sensed: np.ndarray) -> None:
        """Fill `sensed` (6,) with what the device knows of the operator's wrench `operator` (6,) [N, N m] in a tick."""

    def apply_command(self, command: DeviceCommand, operator: np.ndarray, period: float) -> int:
        """Advance by `period` [s] as commanded; whether a limit was reached, -1 (and nothing done) if not finite."""

    def idle(self, operator: np.ndarray, period: float) -> None:
        """Advance by `period` [s] without a command, passively."""

    def release(self) -> None:
        """Leave the drive passive: nothing will be commanded any more."""


class Body(Protocol):
    """What a `ForceDevice` moves; see `InertialDevice`.

    Attributes:
        drive: how much of each motor a wrench takes (n, 6), 1 at its limit [1/N, 1/(N m)]; of no motors: any wrench.
    """

    pose: np.ndarray
    twist: np.ndarray
    drive: np.ndarray

    @property
    def fault(self) -> str: ...

    def step(self, operator: np.ndarray, rendered: np.ndarray, period: float) -> None: ...

    def drive_wrench(
        self, wrench: np.ndarray, operator: np.ndarray, twist: np.ndarray, period: float
    ) -> np.ndarray: ...

    def predict(
        self, twist: np.ndarray, operator: np.ndarray, period: float, free: np.ndarray, compliance: np.ndarray
    ) -> None: ...


@record
class ForceArrays(NamedTuple):
    """What the kernels of a `ForceDevice` work on."""

    limit: np.ndarray = shared("largest wrench that is rendered", 6, unit="N, N m")
    drive: np.ndarray = shared("how much of each motor a wrench takes", "motors", 6, unit="1/N, 1/(N m)")
    rendered: np.ndarray = array("wrench of the drive in the last step", 6, unit="N, N m")
    bound: Bound = value("last bound of what is rendered")
    port: Port = value("the port and its guard")


class ForceDevice:
    """A body that renders the commanded wrench within its limit (6,) [N, N m] and bound, and knows the operator's."""

    MODE: ClassVar[int] = FORCE

    def __init__(self, body: Body, limit: np.ndarray, bound: Bound, port: Port):
        self._body = body
        arrays = allocate(ForceArrays, limit=np.array(limit, float), drive=body.drive, bound=bound, port=port)
        self.pose, self.twist, self.rendered, self.bound = body.pose, body.twist, arrays.rendered, bound
        self.port, self._packed = port, Packed(arrays)

    @property
    def fault(self) -> str:
        """See Device."""
        return self._body.fault

    def measure(self, tick: int, operator: np.ndarray, sensed: np.ndarray) -> None:
        """See Device."""
        sensed[:] = operator

    def apply_command(self, command: DeviceCommand, operator: np.ndarray, period: float) -> int:
        """See Device."""
        port = self.port
        if port.acts[0]:
            self._body.predict(port.twist, port.operator, period, port.free, port.compliance)
        wrench = self._body.drive_wrench(command.wrench, port.operator, port.twist, period)
        clipped: int = _render(self._packed, wrench, period)
        if clipped >= 0:
            self._body.step(operator, self.rendered, period)
        return clipped

    def idle(self, operator: np.ndarray, period: float) -> None:
        """See Device: zero force."""
        _release(self._packed)
        self._body.step(operator, self.rendered, period)

    def release(self) -> None:
        """See Device: zero force."""
        _release(self._packed)


class Driver:
    """Owns a device and the operator's hand on it.

    Args:
        device: integrates its own dynamics, or is hardware.
        operator: applies a wrench to it, if it is simulated.
        rate: of the servo [Hz].
        watchdog: age beyond which a command is not followed [s].
        soft_start: time over which what is rendered grows from zero after an activation [s]; None: SOFT_START, but none
            at the start of a trial.
        noise: of its sensors; encoder: of its position; None: what they tell is true.
        events: of an operator that is a pointer.
        hardware: the device, where it is one.

    Attributes:
        saturations: ticks in which the device was at a limit; bounded: in which its last bound cut what was about to be
        rendered; refused: commands that were not finite, or not of the device's mode; expired: ticks without a command
        because the last one was too old, or said so; rejected: readings that the device cannot have measured.
        fault: why the device cannot be used any more; empty as long as it can. It is idle then.
        reason: why it rendered nothing in the last tick.
    """

    def __init__(
        self,
        device: Device,
        operator: Operator,
        rate: float,
        watchdog: float = 0.02,
        soft_start: float | None = None,
        noise: SensorNoise | None = None,
        encoder: Encoder | MotorEncoders | None = None,
        events: Events | None = None,
        hardware: HardwareDevice | None = None,
    ):
        self.events, self._hardware = events, hardware
        self._noise, self._encoder = noise, encoder
        self._device, self._operator, self._port = device, operator, Packed(device.port)
        self._rate, self._period = rate, 1.0 / rate
        self._wrench = np.zeros(6)
        self._command_tick = -1
        self._patience = max(1, round(watchdog * rate))
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
        if self._encoder is not None:
            self._encoder.forget()
        self._device.rendered[:] = self._device.bound.before[:] = 0.0
        reset_port(self._device.port)

    def _start_softly(self, tick: int, default: float) -> None:
        """Let what is rendered grow from zero from a tick on; over `default` [s] if the device says nothing of it."""
        self._begun, self._ramp = tick, self._rate * (default if self._soft_start is None else self._soft_start)
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
    def told(self) -> DeviceReading:
        """What hardware has told in this tick, and what was written."""
        assert self._hardware is not None
        return self._hardware.told

    def enable(self) -> None:
        """An activation begins: hardware is enabled."""
        if self._hardware is not None:
            self._hardware.enable()

    def release(self) -> None:
        """Leave the device passive: nothing will be commanded any more."""
        self._device.release()

    def rehearse(self) -> None:
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
        place. After REJECTED in a row there is a `fault`.
        """
        device, hardware = self._device, self._hardware
        self._tick = tick
        stamp = tick_time(tick, self._rate) if time is None else time
        if hardware is not None and hardware.take(tick, stamp):
            self.activate(tick)  # from zero force
        self._operator.wrench(tick / self._rate, device.pose, device.twist, self._wrench)
        state.stamp(tick, stamp)
        state.pose[:] = device.pose
        state.twist[:] = device.twist
        device.measure(tick, self._wrench, state.operator_wrench)
        state.rendered_wrench[:] = device.rendered
        if self._noise is not None:
            self._noise.add(tick, state)
        if self._encoder is not None:
            self._encoder.read(state)
        self._check_reading(tick, state)
        state.reading_tick, state.command_tick = self._reading_tick, self._command_tick
        self.fault = self.fault or device.fault
        state.reading_age = (tick - self._reading_tick) * self._period
        state.state, state.reason = FAULT if self.fault else ENABLED, self.reason
        if hardware is not None:
            hardware.tell(state)
            if not hardware.lets_through:
                reset_port(device.port)  # the last tick with force has been counted
                hardware.forget()

    def _check_reading(self, tick: int, state: DeviceState) -> None:
        """Reject what the sensors cannot have measured; else observe the port."""
        good = self._reading_tick
        wrong = 0 if self._hardware is None else self._hardware.wrong
        elapsed = (self._doubtful + 1) * self._period
        wrong = _accept(self._port, state.packed, wrong, self._fastest, elapsed, tick == good)
        if not wrong:
            self._reading_tick, self._doubtful = tick, 0
            if self._hardware is not None:
                self._hardware.accept()
            return
        self.rejected += 1
        self._doubtful += 1
        if self._doubtful >= REJECTED or not self._device.port.observed[0]:
            fault = f"device: readings rejected from tick {good + 1} to {tick}, the last was "
            if self._hardware is None:
                self.fault = fault + WRONG[wrong]
            elif self._hardware.lets_through:
                self._hardware.fail(fault + self._hardware.problem())

    def follow(self, command: DeviceCommand) -> None:
        """As `actuate`, in realtime: a command that comes after a gap of commands begins softly."""
        if self._has_followed and self.resumes(command):
            self._start_softly(self._tick, SOFT_START)
        self.actuate(command)

    def actuate(self, command: DeviceCommand) -> None:
        """Follow the command within the limits during the tick of the last `sense`.

        None (zero force, or brakes) if it is not finite, of another mode, of a tick before the activation (-1: there is
        none yet), of a tick to come, older than the watchdog allows, or says so; or if the device has a fault.
        """
        device, bound = self._device, self._device.bound
        since = self._tick - self._begun
        bound.scale[0] = 1.0 if since >= self._ramp else max(0.0, since / self._ramp)
        hardware = self._hardware
        if hardware is not None and not hardware.lets_through:
            self.reason = hardware.reason
        elif not self._is_current(command):
            self.expired += 1
            self.reason = self._reason_without(command)
        elif command.mode != device.MODE or (limited := device.apply_command(command, self._wrench, self._period)) < 0:
            self.refused += 1
            self.reason = Reason.NO_COMMAND
        else:
            self.reason = self._reason_with(command, limited > 0)
            self.saturations += limited
            self.bounded += int(bound.cut[0])
            self._command_tick, self._has_followed = command.tick, True
            return
        self._command_tick = -1
        device.idle(self._wrench, self._period)
        self.bounded += int(bound.cut[0])

    def _reason_without(self, command: DeviceCommand) -> Reason:
        """Why a command is not followed that is not current."""
        if self.fault:
            return Reason.FAILED
        told = command.mode != NOTHING and command.tick >= self._first
        return Reason.WATCHDOG if told and command.tick < self._tick else Reason.NO_COMMAND

    def _reason_with(self, command: DeviceCommand, limited: bool) -> Reason:
        """Why a command that is followed renders nothing; NONE: it renders something."""
        device = self._device
        if device.MODE != FORCE or device.rendered.any():
            return Reason.NONE
        if not command.wrench.any():
            return Reason.NO_CONTACT
        if not device.bound.scale[0] or (self._hardware is not None and not self.told.force_scale):
            return Reason.SCALED_TO_ZERO
        return Reason.SATURATED if limited or device.bound.cut[0] else Reason.PASSIVE

    def resumes(self, command: DeviceCommand) -> bool:
        """Whether a command comes after a tick in which none was followed."""
        return self._command_tick < 0 and self._is_current(command)

    def _is_current(self, command: DeviceCommand) -> bool:
        """Whether a command is of this activation, and no older than the watchdog allows; of a device without fault."""
        followed = command.mode != NOTHING and command.tick >= self._first
        return not self.fault and followed and 0 <= self._tick - command.tick <= self._patience


def build_driver(
    device: RealDeviceParameters,
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
    """
    hand, guard, period = hand or HandParameters(), guard or GuardParameters(), 1.0 / rate
    if isinstance(device, HardwareParameters):
        return _hardware_driver(device, rate, guard, source or Still(), np.array(hand.pose))
    simulated: Device
    if isinstance(device, AdmittanceDeviceParameters):
        port = Port.of(guard, MOTION, period, device.apparent_inertia, acts=guard.acts)
        start = displaced(np.array(hand.pose), device.jitter, seed, hand.planar)
        simulated = AdmittanceDevice(device, start, seed, port)
    else:
        if isinstance(device, PantographParameters):
            pose = start_of(device, hand, seed)
            device = device.mounted_at(np.array(hand.pose))
            body: Body = Pantograph(device, pose)
            inertias = device.least_inertia(pose)
        else:
            inertias = _inertias(device, tool)
            pose = start_of(device, hand, seed)
            body = InertialDevice(*inertias, pose, planar=hand.planar, damping=device.damping)
        port = Port.of(guard, FORCE, period, inertias, acts=guard.acts)
        simulated = ForceDevice(body, device.limit(), Bound.of(device.bound, device.wrench_limit), port)
    # the wrench of an admittance device is noisy where its sensor is
    wrench = (0.0, 0.0) if isinstance(device, AdmittanceDeviceParameters) else device.noise
    noisy = any((*device.pose_noise, *device.twist_noise, *wrench))
    noise = SensorNoise(device, wrench, seed, hand.planar) if noisy else None
    encoder: Encoder | MotorEncoders | None = None
    if isinstance(device, PantographParameters):
        encoder = MotorEncoders(device, rate)
    elif isinstance(device, InertialParameters) and (any(device.resolution) or device.differentiates):
        encoder = Encoder(device, simulated.pose, rate)
    events, mobility = events_of(operator, table), None
    if isinstance(operator, PointerParameters):
        if operator.mass is None or operator.inertia is None:
            raise TypeError("a pointer on a device needs the mass and the inertia that it is damped for")
        mobility = mobility_of(operator.mass, operator.inertia, hand.planar)
    return Driver(
        simulated,
        build_operator(operator, table, seed, events, mobility),
        rate,
        device.watchdog,
        device.soft_start,
        noise,
        encoder,
        events,
    )


def _hardware_driver(
    device: HardwareParameters, rate: float, guard: GuardParameters, source: Source, start: np.ndarray
) -> Driver:
    """The driver of hardware; a damper of the guard is as weak as its delay asks for."""
    inertia = None
    if device.mass is not None and device.inertia is not None:
        share = 1.0 / (1.0 + 2.0 * rate * (device.delay or 0.0))
        inertia = share * device.mass, share * device.inertia
    port = Port.of(guard, FORCE, 1.0 / rate, inertia, acts=guard.acts)
    held = HardwareDevice(device, limits_of(device), port, source, start, 1.0 / rate)
    nobody = build_operator(ConstantParameters(wrench=(0.0,) * 6))
    return Driver(held, nobody, rate, device.watchdog, device.soft_start, hardware=held)


def _inertias(device: InertialParameters, tool: AnyToolParameters) -> tuple[float, float]:
    """Mass [kg] and inertia [kg m^2] of a device, the tool's where it has none of its own."""
    mass, inertia = device.inertia_with(tool)
    if mass is None or inertia is None:
        raise TypeError("a device with the tool's inertia needs a tool that has one")
    return mass, inertia


def start_of(device: InertialParameters | PantographParameters, hand: HandParameters, seed: int) -> np.ndarray:
    """Pose of the hand at the start (7,)."""
    pose = displaced(np.array(hand.pose), device.jitter, seed, hand.planar)
    pose[: len(device.offset)] += device.offset
    return pose


@kernel
def _render(packed, wrench, period):
    """Clip each direction to its limit, then bound it; returns 1 if any was clipped, 0 if none, -1 if not finite.

    Where that would not be passive the guard changes it, in proportion within the limits: what does no more work than
    is there, does none when it is scaled down. The bound is the last: what it cuts off, the guard misses later.
    """
    limit, rendered, bound, port = packed.arrays.limit, packed.arrays.rendered, packed.arrays.bound, packed.arrays.port
    drive, clipped = packed.arrays.drive, 0
    for i in range(6):
        if not math.isfinite(wrench[i]):
            return -1
        rendered[i] = min(max(wrench[i], -limit[i]), limit[i])
        if rendered[i] != wrench[i]:
            clipped = 1
    clipped |= _keep_within(drive, rendered)
    clipped |= start_softly(bound, rendered)
    bound_wrench(bound, rendered, port.twist, period)
    _keep_within(drive, rendered)
    if port.acts[0] and guard_wrench(port, rendered, period):
        cut = bound.cut[0]
        for first in (0, 3):
            shrink_wrench(rendered, first, limit)
            shrink_wrench(rendered, first, bound.wrench)
            if bound.starting[0]:
                shrink_wrench(rendered, first, bound.start)
        bound_wrench(bound, rendered, port.twist, period)
        bound.cut[0] |= cut
        _keep_within(drive, rendered)
        count_wrench(port, rendered)
    bound.before[:] = rendered
    return clipped


@kernel
def _keep_within(drive, wrench):
    """Scale a wrench down as a whole to what the motors can make; whether it was more."""
    most = 1.0
    for k in range(drive.shape[0]):
        part = 0.0
        for i in range(6):
            part += drive[k, i] * wrench[i]
        most = max(most, abs(part))
    if most == 1.0:
        return 0
    for i in range(6):
        wrench[i] /= most
    return 1


@kernel
def _accept(packed_port, packed_state, wrong, fastest, elapsed, again):
    """Observe the port in a state that was read, or put the last good reading in its place; fill in the energies.

    Args:
        packed_port: a Port, packed; packed_state: a DeviceState, packed.
        wrong: what is already known to be wrong with the reading; 0: nothing.
        fastest: largest speed that is believed (2,) [m/s, rad/s].
        elapsed: time since the last good reading [s].
        again: whether this tick has been read before.

    Returns:
        What is wrong with the reading; 0: nothing.
    """
    port, state = packed_port.arrays, packed_state.arrays
    wrong = wrong or _judge(port, state, fastest, elapsed)
    if wrong:
        state.pose[:] = port.pose
        state.twist[:] = port.twist
        state.operator_wrench[:] = port.operator
    elif not again:
        observe_port(port, state.pose, state.twist, state.operator_wrench, state.rendered_wrench)
    state.port_energy[:] = port.energy
    state.port_dissipated[:] = port.dissipated
    return wrong


@kernel
def _judge(port, state, fastest, elapsed):
    wrong = judge_alone(state.pose, state.twist, fastest)
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


@kernel
def _release(packed):
    """Zero force."""
    rendered, bound = packed.arrays.rendered, packed.arrays.bound
    for i in range(6):
        rendered[i] = 0.0
    bound_passive(bound, rendered)
