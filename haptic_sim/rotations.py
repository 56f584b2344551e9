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
    """Rotation matrices (rows, 3, 3) of quaternions (rows, 4); the identity for a quaternion of length zero.

    The expression of transforms3d for all rows at once, so the numbers are those of `matrix`: 60 s of samples at 1 kHz
    take 10 ms, row by row 150 ms.
    """
    x, y, z, w = quats_xyzw.T
    square = w * w + x * x + y * y + z * z
    scale = np.divide(2.0, square, out=np.zeros_like(square), where=~(square < np.finfo(float).eps))
    X, Y, Z = x * scale, y * scale, z * scale
    wX, wY, wZ, xX, xY, xZ, yY, yZ, zZ = w * X, w * Y, w * Z, x * X, x * Y, x * Z, y * Y, y * Z, z * Z
    rows = [1.0 - (yY + zZ), xY - wZ, xZ + wY, xY + wZ, 1.0 - (xX + zZ), yZ - wX, xZ - wY, yZ + wX, 1.0 - (xX + yY)]
    return np.stack(rows, axis=-1).reshape(-1, 3, 3)
