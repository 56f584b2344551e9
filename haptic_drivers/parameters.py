"""Devices as parts: what the parameters of each of them say, and what they build."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from haptic_control.guard import GuardParameters, Port
from haptic_control.parameters import KnownDevice
from haptic_drivers.bound import Bound, BoundParameters, bound_quantity, soft_start_quantity, watchdog_quantity
from haptic_drivers.devices.hardware import HardwareDevice
from haptic_drivers.devices.link import Link, Source, Still
from haptic_drivers.noise import SensorNoise
from haptic_sim.contact.response import DeviceLimits
from haptic_sim.messages import FORCE, MOTION, DeviceCommand, DeviceState
from haptic_sim.parameters import Parameters, in_space, quantity
from haptic_sim.parts import Kind, Part
from haptic_sim.worlds.scenes import AnyToolParameters, NoToolParameters

ORIGIN = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


class HandParameters(Parameters):
    """Pose of the virtual tool's hand at the start: a simulated device starts there, and moves as the tool may."""

    pose: tuple[float, float, float, float, float, float, float] = quantity(
        ORIGIN, unit="m", description="Position, and quaternion x y z w"
    )
    planar: bool = quantity(True, description="Whether everything moves in the plane of x and y")


class Device(Protocol):
    """A device under the operator's wrench and what is commanded, simulated or hardware.

    In each tick the driver calls `measure`, then one of `apply_command` and `idle`, all in the servo thread. Nothing
    may be allocated there, and a simulated device knows of no clock: the same commands give the same bits.

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
        """Fill `sensed` (6,) with the device's estimate of the operator's wrench `operator` (6,) [N, N m] in a tick."""

    def apply_command(self, command: DeviceCommand, operator: np.ndarray, period: float) -> int:
        """Advance by `period` [s] as commanded; whether a limit was reached, -1 (and nothing done) if not finite."""

    def idle(self, operator: np.ndarray, period: float) -> None:
        """Advance by `period` [s] without a command, passively."""

    def release(self) -> None:
        """Leave the drive passive: nothing will be commanded any more."""


class Encoders(Protocol):
    """Encoders: turn the true pose and twist of a state into the measured ones, once in each tick."""

    def read(self, state: DeviceState) -> None:
        """Change pose and twist of a state."""

    def forget(self) -> None:
        """Begin again: in the next tick the velocity is zero."""


class BuiltDevice(NamedTuple):
    """Result of `DeviceParameters.build`.

    Attributes:
        device: the core, which integrates its own dynamics, or is hardware.
        noise: of its sensors; encoders: of its position; None: what they measure is exact.
        hardware: the device, where it is hardware.
    """

    device: Device
    noise: SensorNoise | None = None
    encoders: Encoders | None = None
    hardware: HardwareDevice | None = None


class DeviceContext(NamedTuple):
    """Context that a device is built in.

    Attributes:
        rate: of the servo [Hz].
        hand: where the virtual tool is held at the start.
        seed: of the experiment.
        guard: of the device's port.
        tool: the section `tool` of the experiment.
        source: of the readings of hardware; `Still`: it stands still, without a device.
    """

    rate: float
    hand: HandParameters = HandParameters()
    seed: int = 0
    guard: GuardParameters = GuardParameters()
    tool: AnyToolParameters = NoToolParameters()
    source: Source = Still()


class DeviceStart(NamedTuple):
    """The start of the trial that a device takes part in.

    Attributes:
        rate: of the servo [Hz].
        hand: where the virtual tool is held.
        seed: of the experiment.
        tool_inertia: the mass [kg] and inertia [kg m^2] of a device like the tool; raises ParameterError where there
            are none.
        limits_impulses: whether impulses can be limited to what the device renders where they arise.
    """

    rate: float
    hand: HandParameters
    seed: int
    tool_inertia: Callable[[], tuple[float, float]]
    limits_impulses: Callable[[], bool]


class Tracking(NamedTuple):
    """Tracking of a device that follows its tool, for the errors that a report explains.

    Attributes:
        limit: of its drive, (6,) [N, N m].
        text: what it is and how it follows, as whole sentences.
    """

    limit: np.ndarray
    text: str


class DeviceParameters(Part):
    """Parameters of a device."""

    COMMANDS: ClassVar[int] = FORCE
    """Mode of its commands: FORCE or MOTION, which the controller has to command."""
    HARDWARE: ClassVar[bool] = False
    """Whether the motion is measured: hardware, in real time only, or a node of the user's own."""
    PLANAR: ClassVar[bool] = False
    """Whether the device moves in the plane of x and y only."""
    RANDOM: ClassVar[tuple[str, ...]] = ()
    """Names of keys whose values, where they are not 0, make a trial random by its seed."""

    @classmethod
    def usual_controller(cls) -> str:
        """Type of the controller that it gets in an experiment that names none; empty: it has none."""
        if cls.ABSENT:
            return ""
        return "admittance" if cls.COMMANDS == MOTION else "virtual_coupling"

    def build(self, context: DeviceContext) -> BuiltDevice:
        """The device, at rest."""
        raise TypeError(f"{type(self).__name__}: is not a device")

    def connect(self, rate: float, notify: Callable[[str], None]) -> Link | None:
        """The open connection to hardware at a servo rate [Hz], for `DeviceContext.source`; None: it is simulated.

        Raises:
            ParameterError: it cannot be opened.
        """
        return None

    def check_driver(self) -> None:
        """Make sure that everything is installed which the device needs.

        Raises:
            ParameterError: something is missing.
        """

    def problems(self, start: DeviceStart) -> list[str]:
        """Reasons why it cannot take part in a trial, before keys are completed; lines that begin with a key."""
        return []

    def completed(self, start: DeviceStart) -> DeviceParameters:
        """Copy with the omitted keys that depend on the virtual world.

        Raises:
            ParameterError: the world does not say what is needed.
        """
        return self

    def known(self) -> KnownDevice:
        """Properties of the device that a controller may know, once the parameters are completed."""
        return KnownDevice(self.type)

    def inertia_at_hand(self, start: DeviceStart) -> tuple[float, float] | None:
        """Mass [kg] and inertia [kg m^2] that a hand moves at the start, once it is completed; None: not known."""
        return None

    def coupled(self, start: DeviceStart) -> dict[str, Any]:
        """The keys of `haptic_control.stability.CoupledInertias` that are about the device; empty: nothing is known."""
        inertia = self.inertia_at_hand(start)
        return {} if inertia is None else {"device": inertia}

    @property
    def limits(self) -> DeviceLimits | None:
        """Limits of the rendered wrench, and the rule for impulses beyond them; None: impulses are not limited."""
        return None

    @property
    def largest_age(self) -> float:
        """Age beyond which a command is not followed [s]."""
        return math.inf

    @property
    def tracking(self) -> Tracking | None:
        """Tracking of the tool by the device; None: the device is not moved as its tool moves."""
        return None

    def idealised(self, inertia: Callable[[], tuple[float, float] | None]) -> DeviceParameters | None:
        """Copy without motors, friction and encoders, for comparison in a report; None: the device has none of these.

        Args:
            inertia: returns mass [kg] and inertia [kg m^2] at the hand; None: they are not known.
        """
        return None

    def motor_currents(self, poses: np.ndarray, wrenches: np.ndarray) -> tuple[np.ndarray, float] | None:
        """Currents of its motors (N, motors) and their limit [A], by poses (N, 7) and wrenches (N, 6) of the hand.

        None: it has no motors.
        """
        return None

    @property
    def last_bound(self) -> BoundParameters:
        """The last bound of what it renders."""
        return BoundParameters()

    @property
    def label(self) -> str:
        """Name of the device in a report."""
        return self.type

    def unused(self) -> Iterator[tuple[set[str], str]]:
        """Names of keys that have no effect because of other keys of the device, and why."""
        yield from ()

    def without_effect(self, experiment: Any) -> Iterator[tuple[str, set[str] | None, str]]:
        """Keys of an experiment that it leaves unused."""
        for names, why in self.unused():
            yield "device", names, why

    def unchecked(self) -> str:
        """Reason why the stability of a controller's gains cannot be checked with the device; empty if it can."""
        return ""


DEVICES = Kind("devices", DeviceParameters)
AnyDeviceParameters = Annotated[DeviceParameters, DEVICES]


class NoDeviceParameters(DeviceParameters):
    """No device: the operator's wrench acts on the tool."""

    ABSENT: ClassVar[bool] = True
    OFFLINE: ClassVar[bool] = False

    type: Literal["none"] = "none"


C = TypeVar("C", bound="CommandedDeviceParameters")


class CommandedDeviceParameters(DeviceParameters):
    """Parameters of a device that renders what it is commanded, within a last bound."""

    watchdog: float = watchdog_quantity()
    soft_start: float | None = soft_start_quantity()
    bound: BoundParameters = bound_quantity()

    @property
    def largest_age(self) -> float:
        """Age beyond which a command is not followed [s]."""
        return self.watchdog

    @property
    def last_bound(self) -> BoundParameters:
        """The last bound of what it renders."""
        return self.bound

    def completed(self, start: DeviceStart) -> DeviceParameters:
        """Copy with the omitted keys that depend on the virtual world."""
        return self.limited(start)

    def limited(self: C, start: DeviceStart) -> C:
        """The same, with what it renders said in full: for this tool, in this many directions."""
        if start.hand.planar:
            return self
        given = {name: getattr(self.bound, name) for name in ("wrench", "rate")}
        bound = {name: in_space(values) for name, values in given.items() if values is not None}
        return self.model_copy(update={"bound": self.bound.model_copy(update=bound)})

    def facts(self) -> list[str]:
        """Text of a report about what the device renders."""
        bound = self.bound
        limits = [] if bound.wrench is None else [f"bounded at {_with_units(bound.wrench)}"]
        return limits if bound.rate is None else [*limits, f"changing by at most {_with_units(bound.rate, '/s')}"]


F = TypeVar("F", bound="ForceDeviceParameters")


class ForceDeviceParameters(DeviceLimits, CommandedDeviceParameters):
    """Parameters of a device that renders a force, within its limits."""

    @property
    def limits(self) -> DeviceLimits:
        """Limits of the rendered wrench, and the rule for impulses beyond them; None: impulses are not limited."""
        return self

    def limited(self: F, start: DeviceStart) -> F:
        """Copy with limits given in full; where impulses are not limited where they arise, the device clips them."""
        update: dict[str, Any] = {}
        if "impulse_rendering" not in self.model_fields_set and not start.limits_impulses():
            update["impulse_rendering"] = "saturated"
        if not start.hand.planar:
            update["wrench_limit"] = in_space(self.wrench_limit)
        return super().limited(start).model_copy(update=update)

    def facts(self) -> list[str]:
        """Text of a report about what the device renders."""
        if self.impulse_rendering == "full":
            return ["its limitations ignored (device.impulse_rendering: full)", *super().facts()]
        return [f"renders up to {_with_units(self.wrench_limit)}", *super().facts()]


def _with_units(values: tuple[float, ...], per: str = "") -> str:
    """Bounds of a wrench, (3,) in the plane or (6,) in space, as text: force and torque, each once if all are equal."""
    split = 2 if len(values) == 3 else 3
    parts = ((values[:split], f"N{per}"), (values[split:], f"N m{per}"))
    return ", ".join(
        f"{some[0]:.6g} {unit}" if len(set(some)) == 1 else f"({', '.join(f'{one:.6g}' for one in some)}) {unit}"
        for some, unit in parts
    )
