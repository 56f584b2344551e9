"""A simulated impedance device with purely inertial planar dynamics (THESIS 4.5).

Kinematically equal to a planar tool: position of the hand point and an angle about z. The local device controller is
not modelled; what it is told to render, it renders.
"""

from __future__ import annotations

import numba
import numpy as np

from haptic_sim.spatial import planar_pose


class InertialDevice:
    """A planar body moved by the operator's and the rendered wrench.

    Args:
        mass: [kg]; inertia: about z at the hand point [kg m^2].
        position: initial (x, y) [m]; angle: initial [rad].

    Attributes:
        pose: of the hand point, position and quaternion x y z w (7,); twist: [m/s, rad/s] (6,).
    """

    def __init__(self, mass: float, inertia: float, position: tuple[float, float] = (0.0, 0.0), angle: float = 0.0):
        self._inertia = np.array([mass, mass, inertia])
        self._x = np.array([*position, angle], float)
        self.pose, self.twist = np.zeros(7), np.zeros(6)
        planar_pose(self._x[0], self._x[1], self._x[2], self.pose)

    def step(self, operator: np.ndarray, rendered: np.ndarray, period: float) -> None:
        """Advance by `period` [s] under two wrenches (6,) [N, N m], by semi-implicit Euler."""
        _step(self._inertia, operator, rendered, period, self._x, self.pose, self.twist)


@numba.njit(cache=True, nogil=True)
def _step(inertia, operator, rendered, period, x, pose, twist):
    for i in range(3):
        axis = 5 if i == 2 else i  # x, y, rotation about z
        twist[axis] += period * ((operator[axis] + rendered[axis]) / inertia[i])
        x[i] += period * twist[axis]
    planar_pose(x[0], x[1], x[2], pose)
