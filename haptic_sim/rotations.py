"""Rotations outside servo steps: for parameters, reports and programs. Quaternions are x y z w.

The functions are those of tf_transformations, or where that is not installed those of transforms3d that it calls: the
results are the same numbers. Servo steps use the kernels of `spatial`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

try:
    from tf_transformations import quaternion_from_euler, quaternion_matrix
except ImportError:
    from transforms3d.euler import euler2quat
    from transforms3d.quaternions import quat2mat

    def quaternion_from_euler(ai: float, aj: float, ak: float, axes: str = "sxyz") -> np.ndarray:
        """Quaternion of three angles [rad]."""
        w, x, y, z = euler2quat(ai, aj, ak, axes)
        return np.array((x, y, z, w))

    def quaternion_matrix(quaternion: Sequence[float]) -> np.ndarray:
        """Rotation matrix of a quaternion, (3, 3); of tf_transformations it is part of a (4, 4)."""
        x, y, z, w = quaternion
        return np.asarray(quat2mat((w, x, y, z)))


def from_roll_pitch_yaw(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """Quaternion (4,) of angles [rad] about the fixed axes x, then y, then z, as in URDF."""
    return np.array(quaternion_from_euler(roll, pitch, yaw, "sxyz")) + 0.0  # no -0.0


def matrix(quat_xyzw: np.ndarray) -> np.ndarray:
    """Rotation matrix (3, 3) of a quaternion (4,)."""
    return np.array(quaternion_matrix(quat_xyzw)[:3, :3])


def matrices(quats_xyzw: np.ndarray) -> np.ndarray:
    """Rotation matrices (rows, 3, 3) of quaternions (rows, 4)."""
    return np.array([quaternion_matrix(quat)[:3, :3] for quat in quats_xyzw.tolist()]).reshape(-1, 3, 3)
