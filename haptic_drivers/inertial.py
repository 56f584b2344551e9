"""A simulated impedance device with purely inertial dynamics, in the plane (THESIS 4.5, 5.4) or in space.

Its hand point has the same inertia in all directions, M_d = diag(m, m, m, I, I, I), so that C_d v = 0 in (5.20). The
local controller of the device is not modelled: the commanded wrench is rendered exactly.

Without a damping the device is ideal and integrated by semi-implicit Euler, as the tool is. With a damping b, of which
0 is one too, it is the device of the passivity analysis (BROWN, figure 2): m dv/dt = F - b v is integrated exactly
under a wrench F that is held over the tick. With z = b T/m

    v' = exp(-z) v + T/m p F,   dx = T p v + T^2/m r F,   p = (1 - exp(-z))/z,   r = (1 - p)/z

The rotation is exact about one axis, and so in the plane. In space the device turns by the integral of its angular
velocity, which leaves out what rotations about different axes within a tick do to each other, of the order of T^3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from haptic_control.parameters import KnownDevice
from haptic_drivers.encoder import Encoder, EncoderParameters
from haptic_drivers.force_device import HEAVIEST, Body, SimulatedForceDeviceParameters, with_inertia_of_tool
from haptic_drivers.parameters import ORIGIN, DeviceContext, DeviceParameters, DeviceStart, Encoders
from haptic_sim.dynamics.held_motion import held_motion
from haptic_sim.inputs import LARGEST
from haptic_sim.kernels import bind, kernel
from haptic_sim.packed import Packed
from haptic_sim.parameters import NotNegativePair, quantity
from haptic_sim.records import allocate, array, record, shared
from haptic_sim.spatial import advance_pose
from haptic_sim.worlds.scenes import AnyToolParameters, PegParameters


class InertialParameters(EncoderParameters, SimulatedForceDeviceParameters):
    """A simulated impedance device with purely inertial dynamics, kinematically equal to the tool."""

    type: Literal["inertial"] = "inertial"
    mass: float | None = quantity(
        None,
        unit="kg",
        description="Mass of the device; null: that of the tool at the hand, the mean of all directions, and at most "
        "that of its linkage",
        gt=0.0,
        le=HEAVIEST,
    )
    inertia: float | None = quantity(
        None,
        unit="kg m^2",
        description="Inertia of the device about any axis through the hand point; null: that of the tool, the mean of "
        "all axes, and at most that of its linkage as one rigid body",
        gt=0.0,
        le=HEAVIEST,
    )
    damping: NotNegativePair | None = quantity(
        None,
        unit="N s/m, N m s/rad",
        description="Viscous damping of the device in translation and in rotation, with which its motion is integrated "
        "exactly; null: an ideal device, which is integrated as the tool is",
    )

    def inertia_with(self, tool: AnyToolParameters) -> tuple[float | None, float | None]:
        """Mass [kg] and inertia [kg m^2], the tool's where it has none of its own; None if neither has one."""
        if isinstance(tool, PegParameters):
            return self.mass or tool.mass, self.inertia or tool.inertia
        return self.mass, self.inertia

    def known(self) -> KnownDevice:
        """Properties of the device that a controller may know."""
        return KnownDevice(self.type, self.mass, self.inertia, True, self.damping)

    def completed(self, start: DeviceStart) -> DeviceParameters:
        """Copy with the mass and the inertia of the tool where the device has none of its own."""
        return with_inertia_of_tool(self, start).limited(start)

    def inertia_at_hand(self, start: DeviceStart) -> tuple[float, float] | None:
        """Mass [kg] and inertia [kg m^2] that a hand moves at the start, once it is completed; None: not known."""
        return None if self.mass is None or self.inertia is None else (self.mass, self.inertia)

    def coupled(self, start: DeviceStart) -> dict[str, Any]:
        """The keys of `haptic_control.stability.CoupledInertias` that are about the device; empty: nothing is known."""
        known = [float(one is not None) for one in (self.mass, self.inertia)]
        if not any(known):
            return {}
        return {
            "device": (self.mass or LARGEST, self.inertia or LARGEST),
            "driven": tuple(np.diag(np.repeat(known, 3)).ravel().tolist()),
            "damping": self.damping,
            "difference": self.difference_part(start.rate),
        }

    def body(self, context: DeviceContext) -> tuple[Body, tuple[float, float]]:
        """The body at rest at its start (`start_pose`), and the mass and inertia that the guard takes it to have."""
        mass, inertia = self.inertia_with(context.tool)
        if mass is None or inertia is None:
            raise TypeError("a device with the tool's inertia needs a tool that has one")
        pose = self.start_pose(context.hand, context.seed)
        return InertialDevice(mass, inertia, pose, planar=context.hand.planar, damping=self.damping), (mass, inertia)

    def encoders(self, context: DeviceContext, body: Body) -> Encoders | None:
        """Encoders of the body's motion; None: it is measured exactly, but for the noise."""
        measured = any(self.resolution) or self.differentiates
        return Encoder(self, body.pose, context.rate) if measured else None


@record
class MotionArrays(NamedTuple):
    """Arrays that the kernels of an `InertialDevice` work on."""

    axes: np.ndarray = shared("directions that move", "axes", dtype=np.int64)
    inertia: np.ndarray = shared("mass and inertia", 6, unit="kg, kg m^2")
    held: np.ndarray = array("coefficients of a step under a held wrench, as of `held_motion`", 4, 6)
    pose: np.ndarray = shared("pose of the hand point: position, quaternion x y z w", 7, unit="m")
    twist: np.ndarray = array("its twist", 6, unit="m/s, rad/s")


class InertialDevice:
    """A body moved by the operator's and the rendered wrench.

    Args:
        mass: [kg]; inertia: about every axis through the hand point [kg m^2].
        pose: at the start (7,); the device is at rest.
        planar: moves in x and y and turns about z only; otherwise in all six directions.
        damping: viscous, of translation and of rotation [N s/m, N m s/rad]; None: an ideal device.

    Attributes:
        pose: of the hand point, position and quaternion x y z w (7,); twist: [m/s, rad/s] (6,); in world axes.
        drive: of no motors (0, 6): any wrench is rendered.
        fault: empty, see Device.
    """

    fault = ""

    def __init__(
        self,
        mass: float,
        inertia: float,
        pose: Sequence[float] | np.ndarray = ORIGIN,
        *,
        planar: bool = True,
        damping: tuple[float, float] | None = None,
    ):
        self._pairs, self._period = ((mass, inertia), damping), math.nan
        self._arrays = arrays = allocate(
            MotionArrays,
            axes=np.array((0, 1, 5) if planar else range(6), np.int64),
            inertia=np.array([*(3 * [mass]), *(3 * [inertia])], float),
            pose=np.array(pose, float),
        )
        self._packed = Packed(arrays)
        self._advance: Callable[..., object] | None = None  # compiled for the wrenches that come
        self._foresee: Callable[..., object] | None = None
        self.pose, self.twist = arrays.pose, arrays.twist
        self.drive = np.zeros((0, 6))

    def step(self, operator: np.ndarray, rendered: np.ndarray, period: float) -> None:
        """Advance by `period` [s] under two wrenches (6,) [N, N m] that are held."""
        self._prepare(period)
        if self._advance is None:
            advance = move if self._pairs[1] is None else move_exactly
            self._advance = bind(advance, self._packed, operator, rendered, period)
        self._advance(self._packed, operator, rendered, period)

    def drive_wrench(self, wrench: np.ndarray, operator: np.ndarray, twist: np.ndarray, period: float) -> np.ndarray:
        """The commanded wrench (6,) itself: there is nothing to shape."""
        return wrench

    def predict(
        self, twist: np.ndarray, operator: np.ndarray, period: float, free: np.ndarray, compliance: np.ndarray
    ) -> None:
        """Fill in how the next step will move the body (6,): without a rendered wrench, and by a unit of one.

        Args:
            twist: of the body before the step [m/s, rad/s]; operator: wrench that will be held [N, N m].
            period: [s].
            free: to fill [m, rad]; compliance: to fill, 0 in directions that cannot move [m/N, rad/(N m)].
        """
        self._prepare(period)
        given = self._packed, twist, operator, free, compliance
        if self._foresee is None:
            self._foresee = bind(predict_move, *given)
        self._foresee(*given)

    def _prepare(self, period: float) -> None:
        """The coefficients of a step of this period."""
        if period == self._period:
            return
        inertias, damping = self._pairs
        if damping is None:
            pairs = [(1.0, period / m, period, period**2 / m) for m in inertias]
        else:
            pairs = [held_motion(m, b, period) for m, b in zip(inertias, damping, strict=True)]
        self._arrays.held[:], self._period = np.repeat(np.array(pairs).T, 3, axis=1), period


@kernel
def move(packed, operator, rendered, period):
    a, twist = packed.arrays, packed.arrays.twist
    for axis in a.axes:
        twist[axis] += period * ((operator[axis] + rendered[axis]) / a.inertia[axis])
    advance_pose(twist, period, a.pose)


@kernel
def predict_move(packed, twist, operator, free, compliance):
    held = packed.arrays.held
    for axis in packed.arrays.axes:
        free[axis] = held[2, axis] * twist[axis] + held[3, axis] * operator[axis]
        compliance[axis] = held[3, axis]


@kernel
def move_exactly(packed, operator, rendered, period):
    a, held, twist = packed.arrays, packed.arrays.held, packed.arrays.twist
    mean = np.zeros(6)
    for axis in a.axes:
        wrench = operator[axis] + rendered[axis]
        mean[axis] = (held[2, axis] * twist[axis] + held[3, axis] * wrench) / period
        twist[axis] = held[0, axis] * twist[axis] + held[1, axis] * wrench
    advance_pose(mean, period, a.pose)
