"""A device of one's own: a stage with three axes, which are not equally heavy, and a handle that does not turn.

Along each axis m dv/dt = F - b v, with implicit damping: v' = (v + T F / m) / (1 + T b / m), x' = x + T v'.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from haptic_control.parameters import KnownDevice
from haptic_drivers.force_device import SimulatedForceDeviceParameters
from haptic_drivers.parameters import DeviceContext, DeviceStart
from haptic_sim.parameters import PositiveTriple, quantity

HEAVY = 1e3  # [kg m^2] of a handle that does not turn


class StageParameters(SimulatedForceDeviceParameters):
    """A stage with three axes, whose handle does not turn."""

    type: Literal["stage"] = "stage"
    mass: PositiveTriple = quantity((0.6, 0.5, 0.4), unit="kg", description="Mass that moves along x, y and z")
    damping: float = quantity(1.0, unit="N s/m", description="Viscous damping of each axis", ge=0.0, le=1e3)

    def body(self, context: DeviceContext) -> tuple[Stage, tuple[float, float]]:
        """See SimulatedForceDeviceParameters."""
        return Stage(self, self.start_pose(context.hand, context.seed)), (min(self.mass), HEAVY)

    def known(self) -> KnownDevice:
        """See DeviceParameters."""
        return KnownDevice(self.type, min(self.mass), HEAVY)

    def inertia_at_hand(self, start: DeviceStart) -> tuple[float, float]:
        """See DeviceParameters: the lightest axis is the least stable one."""
        return min(self.mass), HEAVY

    def coupled(self, start: DeviceStart) -> dict[str, Any]:
        """See DeviceParameters: a torque moves nothing."""
        driven = np.diag([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
        return {"device": self.inertia_at_hand(start), "driven": tuple(driven.ravel().tolist())}


class Stage:
    """See the module."""

    fault = ""
    drive = np.zeros((0, 6))

    def __init__(self, parameters: StageParameters, pose: np.ndarray):
        self.pose, self.twist = pose.copy(), np.zeros(6)
        self._mass, self._damping, self._work = np.array(parameters.mass), parameters.damping, np.zeros(3)

    def step(self, operator: np.ndarray, rendered: np.ndarray, period: float) -> None:
        """Advance under both wrenches."""
        velocity, force = self.twist[:3], self._work
        np.add(operator[:3], rendered[:3], out=force)
        self._accelerate(velocity, force, period)
        np.multiply(velocity, period, out=force)
        self.pose[:3] += force

    def _accelerate(self, velocity: np.ndarray, force: np.ndarray, period: float) -> None:
        """Turn a velocity into that after a period, in place; `force` is overwritten."""
        np.multiply(velocity, self._mass, out=velocity)
        np.multiply(force, period, out=force)
        velocity += force
        np.add(self._mass, period * self._damping, out=force)
        velocity /= force

    def drive_wrench(self, wrench: np.ndarray, operator: np.ndarray, twist: np.ndarray, period: float) -> np.ndarray:
        """The command itself."""
        return wrench

    def predict(
        self, twist: np.ndarray, operator: np.ndarray, period: float, free: np.ndarray, compliance: np.ndarray
    ) -> None:
        """Fill in the next displacement without a rendered force, and by a unit of one."""
        free[:] = compliance[:] = 0.0
        free[:3], self._work[:] = twist[:3], operator[:3]
        self._accelerate(free[:3], self._work, period)
        free[:3] *= period
        np.add(self._mass, period * self._damping, out=compliance[:3])
        np.divide(period * period, compliance[:3], out=compliance[:3])
