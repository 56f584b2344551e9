"""Simulated devices that render a force: a body of any dynamics, with the limits, the bound and the guard of all."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np
from pydantic import AfterValidator, ValidationError

from haptic_control.guard import Port, count_wrench, guard_wrench, keeps_passive
from haptic_drivers.bound import Bound, bound_passive, bound_wrench, shrink_wrench, start_softly
from haptic_drivers.noise import SensorNoise, SensorParameters, noise_quantity
from haptic_drivers.parameters import (
    BuiltDevice,
    DeviceContext,
    DeviceStart,
    Encoders,
    ForceDeviceParameters,
    HandParameters,
)
from haptic_sim.kernels import bind, kernel
from haptic_sim.messages import FORCE, DeviceCommand
from haptic_sim.packed import Packed
from haptic_sim.parameters import NotNegativePair, ParameterError, explain, quantity
from haptic_sim.random_numbers import displaced
from haptic_sim.records import allocate, array, record, shared, value

D = TypeVar("D", bound=ForceDeviceParameters)


class Body(Protocol):
    """Body that a `ForceDevice` moves. All is called in the servo thread, where nothing may be allocated.

    Attributes:
        pose: of the hand point (7,) [m, quat_xyzw]; twist: (6,) [m/s, rad/s]; in world axes, changed in place.
        drive: how much of each motor a wrench takes (n, 6), 1 at its limit [1/N, 1/(N m)]; of no motors: any wrench.
        fault: why it cannot be moved on; empty as long as it can.
    """

    pose: np.ndarray
    twist: np.ndarray
    drive: np.ndarray

    @property
    def fault(self) -> str: ...

    def step(self, operator: np.ndarray, rendered: np.ndarray, period: float) -> None:
        """Advance by `period` [s] under two wrenches at the hand point (6,) [N, N m], which are held."""

    def drive_wrench(self, wrench: np.ndarray, operator: np.ndarray, twist: np.ndarray, period: float) -> np.ndarray:
        """The wrench of the drive (6,) that renders a commanded one, as a controller in the device shapes it.

        Args:
            wrench: commanded (6,); operator: as the device knows it (6,) [N, N m].
            twist: as measured (6,) [m/s, rad/s]; period: [s].
        """

    def predict(
        self, twist: np.ndarray, operator: np.ndarray, period: float, free: np.ndarray, compliance: np.ndarray
    ) -> None:
        """Fill in for the guard how the next step moves the body: without a rendered wrench, and by a unit of one.

        Args:
            twist: of the body before the step [m/s, rad/s]; operator: wrench that will be held [N, N m].
            period: [s].
            free: to fill [m, rad]; compliance: to fill, 0 in directions that cannot move [m/N, rad/(N m)].
        """


@record
class ForceArrays(NamedTuple):
    """Arrays that the kernels of a `ForceDevice` work on."""

    limit: np.ndarray = shared("largest wrench that is rendered", 6, unit="N, N m")
    drive: np.ndarray = shared("part of the torque of each motor, per wrench", "motors", 6, unit="1/N, 1/(N m)")
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
        self._render: Callable[..., int] | None = None  # compiled for the wrenches that come

    @property
    def fault(self) -> str:
        """Reason why the device cannot be used any more; empty as long as it can."""
        return self._body.fault

    def measure(self, tick: int, operator: np.ndarray, sensed: np.ndarray) -> None:
        """Fill `sensed` (6,) with the device's estimate of the operator's wrench `operator` (6,) [N, N m] in a tick."""
        sensed[:] = operator

    def apply_command(self, command: DeviceCommand, operator: np.ndarray, period: float) -> int:
        """Advance by `period` [s] as commanded; whether a limit was reached, -1 (and nothing done) if not finite."""
        port = self.port
        if port.acts[0]:
            self._body.predict(port.twist, port.operator, period, port.free, port.compliance)
        wrench = self._body.drive_wrench(command.wrench, port.operator, port.twist, period)
        if self._render is None:
            self._render = bind(render_wrench, self._packed, wrench, period)
        clipped = self._render(self._packed, wrench, period)
        if clipped >= 0:
            self._body.step(operator, self.rendered, period)
        return clipped

    def idle(self, operator: np.ndarray, period: float) -> None:
        """Advance by `period` [s] without a command: the drive renders no force."""
        release_wrench(self._packed)
        self._body.step(operator, self.rendered, period)

    def release(self) -> None:
        """Let the drive render no force: nothing will be commanded any more."""
        release_wrench(self._packed)


def _two_or_three(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(values) not in (2, 3):
        raise ValueError(f"has {len(values)} values: must have 2 (x, y) or 3")
    return values


Offset = Annotated[tuple[float, ...], AfterValidator(_two_or_three)]


class SimulatedForceDeviceParameters(SensorParameters, ForceDeviceParameters):
    """Parameters of a simulated device that renders a force: it has a body, and a sensor of the operator's wrench."""

    RANDOM: ClassVar[tuple[str, ...]] = ("noise", "pose_noise", "twist_noise", "jitter")

    noise: NotNegativePair = noise_quantity()
    offset: Offset = quantity(
        (0.0, 0.0), unit="m", description="Offset from the tool's hand point to that of the device at the start"
    )

    def body(self, context: DeviceContext) -> tuple[Body, tuple[float, float]]:
        """The body at rest at its start (`start_pose`), and the mass and inertia that the guard takes it to have."""
        raise NotImplementedError

    def encoders(self, context: DeviceContext, body: Body) -> Encoders | None:
        """Encoders of the body's motion; None: it is measured exactly, but for the noise."""
        return None

    def build(self, context: DeviceContext) -> BuiltDevice:
        """The device, at rest."""
        body, inertias = self.body(context)
        guard, planar = context.guard, context.hand.planar
        port = Port.of(guard, FORCE, 1.0 / context.rate, inertias, acts=guard.acts)
        device = ForceDevice(body, self.limit(), Bound.of(self.bound, self.wrench_limit), port)
        noisy = any((*self.pose_noise, *self.twist_noise, *self.noise))
        noise = SensorNoise(self, self.noise, context.seed, planar) if noisy else None
        return BuiltDevice(device, noise, self.encoders(context, body))

    def start_pose(self, hand: HandParameters, seed: int) -> np.ndarray:
        """Pose of the device's hand at the start (7,)."""
        pose = displaced(np.array(hand.pose), self.jitter, seed, hand.planar)
        pose[: len(self.offset)] += self.offset
        return pose

    def problems(self, start: DeviceStart) -> list[str]:
        """Reasons why it cannot take part in a trial, before keys are completed; lines that begin with a key."""
        if start.hand.planar and any(self.offset[2:]):
            return [f"device.offset[2] = {self.offset[2]:g} m: must be 0 in the plane of x and y"]
        return []


HEAVIEST = 1e3  # [kg], [kg m^2] of a device


def with_inertia_of_tool(device: D, start: DeviceStart) -> D:
    """The same device, with the tool's mass and inertia, at most `HEAVIEST`, where its keys of these names are null.

    Raises:
        ParameterError: the tool has none, or not one that the device may have.
    """
    missing = [name for name in ("mass", "inertia") if getattr(device, name) is None]
    if not missing:
        return device
    keys = " and ".join(f"device.{name}" for name in missing)
    try:
        found = dict(zip(("mass", "inertia"), start.tool_inertia(), strict=True))
        taken = {name: min(found[name], HEAVIEST) for name in missing}
        type(device).model_validate(taken)
        return device.model_copy(update=taken)
    except ValidationError as error:
        raise ParameterError(
            f"{problem} (the tool's, as it is null); give {keys}" for problem in explain(error, type(device), "device.")
        ) from error
    except ParameterError as error:
        raise ParameterError(
            [f"{keys} = null: the tool at the hand has none to take over, {error}; give {keys}"]
        ) from error


@kernel
def render_wrench(packed, wrench, period):
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
    if bound_wrench(bound, rendered, port.twist, period):
        for first in (0, 3):
            shrink_wrench(rendered, first, limit)
    _keep_within(drive, rendered)
    if port.acts[0] and guard_wrench(port, rendered, period):
        cut = bound.cut[0]
        for first in (0, 3):
            shrink_wrench(rendered, first, limit)
            shrink_wrench(rendered, first, bound.wrench)
            if bound.starting[0]:
                shrink_wrench(rendered, first, bound.start)
        held_back = bound_wrench(bound, rendered, port.twist, period)
        bound.cut[0] |= cut
        if held_back:
            for first in (0, 3):
                shrink_wrench(rendered, first, limit)
            if not keeps_passive(port, rendered):
                rendered[:] = 0.0
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
def release_wrench(packed):
    """Zero force."""
    rendered, bound = packed.arrays.rendered, packed.arrays.bound
    for i in range(6):
        rendered[i] = 0.0
    bound_passive(bound, rendered)
