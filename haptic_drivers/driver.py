"""The driver of a device: reads its state, enforces its limits, applies what is asked of it."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal, Protocol

import numba
import numpy as np
from pydantic import AfterValidator, Field

from haptic_drivers.admittance import AdmittanceDevice, AdmittanceDeviceParameters
from haptic_drivers.inertial import ORIGIN, InertialDevice
from haptic_drivers.operators import AnyOperatorParameters, Operator, build_operator
from haptic_sim.contact.response import DeviceLimits
from haptic_sim.messages import FORCE, DeviceCommand, DeviceState, tick_time
from haptic_sim.parameters import Parameters, quantity
from haptic_sim.scene import AnyToolParameters, PegParameters


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


class InertialParameters(DeviceLimits):
    """A simulated impedance device with purely inertial dynamics, kinematically equal to the tool."""

    type: Literal["inertial"] = "inertial"
    watchdog: float = quantity(
        0.02,
        unit="s",
        description="A command older than this is not rendered: the force is zero",
        gt=0.0,
        le=1.0,
    )
    mass: float | None = quantity(None, unit="kg", description="Mass; null: the tool's", gt=0.0, le=1e3)
    inertia: float | None = quantity(
        None, unit="kg m^2", description="Inertia about the hand point; null: the tool's", gt=0.0, le=1e3
    )
    offset: Offset = quantity((0.0, 0.0), unit="m", description="From the tool's hand to the device's at the start")

    def inertia_with(self, tool: AnyToolParameters) -> tuple[float | None, float | None]:
        """Mass [kg] and inertia [kg m^2], the tool's where it has none of its own; None if neither has one."""
        if isinstance(tool, PegParameters):
            return self.mass or tool.mass, self.inertia or tool.inertia
        return self.mass, self.inertia


class NoDeviceParameters(Parameters):
    """No device: the operator's wrench acts on the tool."""

    type: Literal["none"] = "none"


SimulatedParameters = InertialParameters | AdmittanceDeviceParameters
SimulatedDeviceParameters = Annotated[SimulatedParameters, Field(discriminator="type")]
AnyDeviceParameters = Annotated[SimulatedParameters | NoDeviceParameters, Field(discriminator="type")]


class Device(Protocol):
    """A simulated device under the operator's wrench and what is commanded.

    Attributes:
        MODE: of the commands that it takes, FORCE or MOTION.
        pose: of the hand point (7,) [m, quat_xyzw]; twist: (6,) [m/s, rad/s]; in world axes.
        rendered: wrench of its drive in the last step, after limits (6,) [N, N m].
    """

    MODE: ClassVar[int]
    pose: np.ndarray
    twist: np.ndarray
    rendered: np.ndarray

    def measure(self, tick: int, operator: np.ndarray, sensed: np.ndarray) -> None:
        """Fill `sensed` (6,) with what the device knows of the operator's wrench `operator` (6,) [N, N m] in a tick."""

    def obey(self, command: DeviceCommand, operator: np.ndarray, period: float) -> int:
        """Advance by `period` [s] as commanded; whether a limit was reached, -1 (and nothing done) if not finite."""

    def idle(self, operator: np.ndarray, period: float) -> None:
        """Advance by `period` [s] without a command, passively."""


class ForceDevice:
    """A body that renders the commanded wrench within its limit (6,) [N, N m], and knows the operator's."""

    MODE: ClassVar[int] = FORCE

    def __init__(self, body: InertialDevice, limit: np.ndarray):
        self._body, self._limit = body, np.array(limit, float)
        self.pose, self.twist, self.rendered = body.pose, body.twist, np.zeros(6)

    def measure(self, tick: int, operator: np.ndarray, sensed: np.ndarray) -> None:
        """See Device."""
        sensed[:] = operator

    def obey(self, command: DeviceCommand, operator: np.ndarray, period: float) -> int:
        """See Device."""
        clipped: int = _clip(command.wrench, self._limit, self.rendered)
        if clipped >= 0:
            self._body.step(operator, self.rendered, period)
        return clipped

    def idle(self, operator: np.ndarray, period: float) -> None:
        """See Device: zero force."""
        self.rendered[:] = 0.0
        self._body.step(operator, self.rendered, period)


class Driver:
    """Owns a simulated device and the operator's hand on it.

    Args:
        device: integrates its own dynamics.
        operator: applies a wrench to it.
        rate: of the servo [Hz].
        watchdog: age beyond which a command is not followed [s].

    Attributes:
        saturations: ticks in which the device was at a limit; refused: commands that were not finite, or not of the
        device's mode; expired: ticks without a command because the last one was too old.
    """

    def __init__(self, device: Device, operator: Operator, rate: float, watchdog: float = 0.02):
        self._device, self._operator = device, operator
        self._rate, self._period = rate, 1.0 / rate
        self._wrench = np.zeros(6)
        self._command_tick = -1
        self._patience = max(1, round(watchdog * rate))
        self._tick = -1
        self.saturations = self.refused = self.expired = 0

    def rehearse(self) -> None:
        """Call every kernel once, so that none is loaded during a trial; the state is of no use afterwards."""
        command = DeviceCommand()
        command.mode = self._device.MODE
        for tick in (0, -1):
            command.tick = tick
            self.sense(0, DeviceState())
            self.actuate(command)

    def sense(self, tick: int, state: DeviceState) -> None:
        """Fill the state at t_k, and what the device knows of what the operator applies."""
        device = self._device
        self._tick = tick
        self._operator.wrench(tick / self._rate, device.pose, device.twist, self._wrench)
        state.stamp(tick, tick_time(tick, self._rate))
        state.pose[:] = device.pose
        state.twist[:] = device.twist
        device.measure(tick, self._wrench, state.operator_wrench)
        state.rendered_wrench[:] = device.rendered
        state.command_tick = self._command_tick

    def actuate(self, command: DeviceCommand) -> None:
        """Follow the command within the limits during the tick of the last `sense`.

        None (zero force, or brakes) if it is not finite, of another mode, or older than the watchdog allows (tick -1:
        there is none yet).
        """
        device = self._device
        if command.tick < 0 or self._tick - command.tick > self._patience:
            self.expired += 1
        elif command.mode != device.MODE or (limited := device.obey(command, self._wrench, self._period)) < 0:
            self.refused += 1
        else:
            self.saturations += limited
            self._command_tick = command.tick
            return
        self._command_tick = -1
        device.idle(self._wrench, self._period)


def build_driver(
    device: SimulatedParameters,
    operator: AnyOperatorParameters,
    tool: AnyToolParameters,
    rate: float,
    table: np.ndarray | None = None,
    hand: HandParameters | None = None,
    seed: int = 0,
) -> Driver:
    """The driver of a simulated device.

    Args:
        device, operator: what to simulate.
        tool: whose inertia a device may share.
        rate: of the servo [Hz].
        table: rows of a `file` operator.
        hand: where the device starts.
        seed: of the experiment.
    """
    hand = hand or HandParameters()
    simulated = (
        AdmittanceDevice(device, hand.pose, seed)
        if isinstance(device, AdmittanceDeviceParameters)
        else _inertial(device, tool, hand)
    )
    return Driver(simulated, build_operator(operator, table), rate, device.watchdog)


def _inertial(device: InertialParameters, tool: AnyToolParameters, hand: HandParameters) -> ForceDevice:
    mass, inertia = device.inertia_with(tool)
    if mass is None or inertia is None:
        raise TypeError("a device with the tool's inertia needs a tool that has one")
    pose = list(hand.pose)
    for i, offset in enumerate(device.offset):
        pose[i] += offset
    return ForceDevice(InertialDevice(mass, inertia, pose, planar=hand.planar), device.limit())


@numba.njit(cache=True, nogil=True)
def _clip(wrench, limit, rendered):
    """Clip each direction to its limit; returns 1 if any was, 0 if none, -1 if the wrench is not finite."""
    clipped = 0
    for i in range(6):
        if not math.isfinite(wrench[i]):
            return -1
        rendered[i] = min(max(wrench[i], -limit[i]), limit[i])
        if rendered[i] != wrench[i]:
            clipped = 1
    return clipped
