"""A simulated impedance device with purely inertial dynamics, in the plane (THESIS 4.5, 5.4) or in space.

Its hand point has the same inertia in all directions, M_d = diag(m, m, m, I, I, I), so that C_d v = 0 in (5.20). The
local controller of the device is not modelled: the commanded wrench is rendered exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

import numba
import numpy as np

from haptic_sim.spatial import advance_pose

ORIGIN = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


class InertialDevice:
    """A body moved by the operator's and the rendered wrench.

    Args:
        mass: [kg]; inertia: about every axis through the hand point [kg m^2].
        pose: at the start (7,); the device is at rest.
        planar: moves in x and y and turns about z only; otherwise in all six directions.

    Attributes:
        pose: of the hand point, position and quaternion x y z w (7,); twist: [m/s, rad/s] (6,); in world axes.
    """

    def __init__(self, mass: float, inertia: float, pose: Sequence[float] = ORIGIN, *, planar: bool = True):
        self._axes = np.array((0, 1, 5) if planar else range(6), np.int64)
        self._inertia = np.array([*(3 * [mass]), *(3 * [inertia])])
        self.pose, self.twist = np.array(pose, float), np.zeros(6)

    def step(self, operator: np.ndarray, rendered: np.ndarray, period: float) -> None:
        """Advance by `period` [s] under two wrenches (6,) [N, N m], by semi-implicit Euler."""
        _step(self._axes, self._inertia, operator, rendered, period, self.pose, self.twist)


@numba.njit(cache=True, nogil=True)
def _step(axes, inertia, operator, rendered, period, pose, twist):
    for axis in axes:
        twist[axis] += period * ((operator[axis] + rendered[axis]) / inertia[axis])
    advance_pose(twist, period, pose)
