"""The robot behind each stand-in: a rigid body at its tool centre point, which a plane pushes back.

Everything is expressed in the base frame of the robot; rotations are matrices, a wrench is force, then torque.
"""

from __future__ import annotations

import math

import numpy as np


def rotation_of(vector: np.ndarray) -> np.ndarray:
    """Rotation matrix (3, 3) of a rotation vector [rad], by Rodrigues' formula."""
    angle = math.sqrt(float(vector @ vector))
    if angle < 1e-12:
        return np.eye(3) + cross(vector)
    K = cross(vector / angle)
    return np.eye(3) + math.sin(angle) * K + (1.0 - math.cos(angle)) * (K @ K)


def vector_of(R: np.ndarray) -> np.ndarray:
    """Rotation vector [rad] of a rotation matrix, with an angle in [0, pi]."""
    x, y, z, w = quaternion_of(R)
    sine = math.sqrt(x * x + y * y + z * z)
    if sine < 1e-12:
        return np.array([2.0 * x, 2.0 * y, 2.0 * z])
    return np.array([x, y, z]) * (2.0 * math.atan2(sine, w) / sine)


def quaternion_of(R: np.ndarray) -> tuple[float, float, float, float]:
    """Unit quaternion x, y, z, w of a rotation matrix, with w >= 0 (Shepperd's method: divides by the largest)."""
    squares = np.array([1.0 + 2.0 * R[i, i] - np.trace(R) for i in range(3)] + [1.0 + np.trace(R)])
    largest = int(np.argmax(squares))
    q = np.empty(4)
    q[largest] = math.sqrt(squares[largest]) / 2.0
    scale = 1.0 / (4.0 * q[largest])
    if largest == 3:
        q[:3] = scale * np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    else:
        i, j, k = largest, (largest + 1) % 3, (largest + 2) % 3
        q[j], q[k], q[3] = scale * (R[i, j] + R[j, i]), scale * (R[i, k] + R[k, i]), scale * (R[k, j] - R[j, k])
    x, y, z, w = (float(value) for value in (q if q[3] >= 0.0 else -q))
    return x, y, z, w


def rotation_of_quaternion(x: float, y: float, z: float, w: float) -> np.ndarray:
    """Rotation matrix (3, 3) of a quaternion of any length; of the zero quaternion the identity, as Eigen has it."""
    length = math.sqrt(x * x + y * y + z * z + w * w)
    if length == 0.0:
        return np.eye(3)
    x, y, z, w = x / length, y / length, z / length, w / length
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def cross(v: np.ndarray) -> np.ndarray:
    """Matrix (3, 3) of the cross product with a vector from the left."""
    return np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])


class Body:
    """Pose and twist of the tool centre point in the base, and the wall.

    Attributes:
        p, R: position (3,) [m] and rotation (3, 3) of the tool.
        v, w: velocity of the tool's origin (3,) [m/s] and angular velocity (3,) [rad/s].
        normal, offset: the wall's outward unit normal (3,), and where it is along that [m]: the body is free as long as
            normal @ p > offset.
        stiffness: of the wall [N/m].
        deepest: the largest depth that the tool has had in the wall [m].
    """

    def __init__(self, p: np.ndarray, R: np.ndarray, normal: np.ndarray, offset: float, stiffness: float):
        self.p, self.R = np.array(p, float), np.array(R, float)
        self.v, self.w = np.zeros(3), np.zeros(3)
        self.normal, self.offset, self.stiffness = np.array(normal, float), offset, stiffness
        self.deepest = 0.0

    def wall_force(self) -> np.ndarray:
        """Force (3,) [N] that the wall exerts on the tool, at its origin and without torque; along the normal."""
        depth = max(0.0, self.offset - float(self.normal @ self.p))
        self.deepest = max(self.deepest, depth)
        return self.stiffness * depth * self.normal

    def move(self, dt: float) -> None:
        """Integrate the twist over dt [s]."""
        self.p = self.p + dt * self.v
        self.R = rotation_of(dt * self.w) @ self.R

    def finite(self) -> bool:
        """Whether pose and twist are finite."""
        return bool(np.isfinite(self.p).all() and np.isfinite(self.R).all() and np.isfinite(self.v).all())
