"""Rotations and poses as kernels: quaternions are x y z w, poses are [position, quaternion], all in float64."""

from __future__ import annotations

import math

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def quat_from_matrix(R, quat_xyzw):
    """Fill `quat_xyzw` (4,) from a rotation matrix (3, 3); valid for every rotation, w >= 0.

    The largest of the four components is computed first (Shepperd's method), so that none is divided by a
    number near zero.
    """
    trace = R[0, 0] + R[1, 1] + R[2, 2]
    i = 3
    largest = trace
    for j in range(3):
        if R[j, j] > largest:
            largest = R[j, j]
            i = j
    if i == 3:
        s = 2.0 * math.sqrt(1.0 + trace)
        quat_xyzw[3] = 0.25 * s
        quat_xyzw[0] = (R[2, 1] - R[1, 2]) / s
        quat_xyzw[1] = (R[0, 2] - R[2, 0]) / s
        quat_xyzw[2] = (R[1, 0] - R[0, 1]) / s
    else:
        j = (i + 1) % 3
        k = (i + 2) % 3
        s = 2.0 * math.sqrt(1.0 + R[i, i] - R[j, j] - R[k, k])
        quat_xyzw[i] = 0.25 * s
        quat_xyzw[j] = (R[j, i] + R[i, j]) / s
        quat_xyzw[k] = (R[k, i] + R[i, k]) / s
        quat_xyzw[3] = (R[k, j] - R[j, k]) / s
    if quat_xyzw[3] < 0.0:
        for j in range(4):
            quat_xyzw[j] = -quat_xyzw[j]


@numba.njit(cache=True, nogil=True)
def rotation_difference(quat_WB, quat_WA, rotvec_W):
    """Fill `rotvec_W` (3,) [rad] with the rotation that takes A to B, in world axes: log(R_WB R_WA^T).

    The shorter way round, so the angle is at most pi; without singularity at zero.
    """
    bx, by, bz, bw = quat_WB[0], quat_WB[1], quat_WB[2], quat_WB[3]
    ax, ay, az, aw = -quat_WA[0], -quat_WA[1], -quat_WA[2], quat_WA[3]
    x = bw * ax + bx * aw + by * az - bz * ay
    y = bw * ay - bx * az + by * aw + bz * ax
    z = bw * az + bx * ay - by * ax + bz * aw
    w = bw * aw - bx * ax - by * ay - bz * az
    if w < 0.0:
        x, y, z, w = -x, -y, -z, -w
    sine = math.sqrt(x * x + y * y + z * z)
    # angle / sin(angle / 2) tends to 2; the quotient is exact to rounding down to the smallest sines
    scale = 2.0 * math.atan2(sine, w) / sine if sine > 0.0 else 2.0
    rotvec_W[0] = scale * x
    rotvec_W[1] = scale * y
    rotvec_W[2] = scale * z


@numba.njit(cache=True, nogil=True)
def advance_pose(twist, period, pose):
    """Move `pose` (7,) by a constant `twist` (6,) [m/s, rad/s] in world axes for `period` [s].

    The point moves along its velocity, the axes turn by the exponential map about the angular velocity.
    """
    for i in range(3):
        pose[i] += period * twist[i]
    x, y, z = 0.5 * period * twist[3], 0.5 * period * twist[4], 0.5 * period * twist[5]
    half = math.sqrt(x * x + y * y + z * z)
    w = math.cos(half)
    scale = math.sin(half) / half if half > 0.0 else 1.0
    x, y, z = scale * x, scale * y, scale * z
    a, b, c, d = pose[3], pose[4], pose[5], pose[6]
    pose[3] = w * a + x * d + y * c - z * b
    pose[4] = w * b - x * c + y * d + z * a
    pose[5] = w * c + x * b - y * a + z * d
    pose[6] = w * d - x * a - y * b - z * c
    length = math.sqrt(pose[3] ** 2 + pose[4] ** 2 + pose[5] ** 2 + pose[6] ** 2)
    for i in range(3, 7):
        pose[i] /= length  # rounding only


def planar_angle(pose: np.ndarray) -> np.ndarray:
    """Angle about z [rad], from -pi to pi, of planar poses (..., 7)."""
    half = np.arctan2(pose[..., 5], pose[..., 6])
    return 2.0 * (half - np.pi * np.round(half / np.pi))
