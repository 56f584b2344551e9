"""Rotations and poses as kernels: quaternions are x y z w, poses are [position, quaternion], all in float64."""

from __future__ import annotations

import math

import numpy as np

from haptic_sim.kernels import kernel


@kernel
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


@kernel
def quat_product(first, then):
    """x, y, z, w of the rotation `then` in the axes of `first`, both indexable as x y z w."""
    x, y, z, w = first[0], first[1], first[2], first[3]
    return (
        w * then[0] + x * then[3] + y * then[2] - z * then[1],
        w * then[1] - x * then[2] + y * then[3] + z * then[0],
        w * then[2] + x * then[1] - y * then[0] + z * then[3],
        w * then[3] - x * then[0] - y * then[1] - z * then[2],
    )


@kernel
def rotation_difference(quat_WB, quat_WA, rotvec_W):
    """Fill `rotvec_W` (3,) [rad] with the rotation that takes A to B, in world axes: log(R_WB R_WA^T).

    The shorter way round, so the angle is at most pi; without singularity at zero.
    """
    x, y, z, w = quat_product(quat_WB, (-quat_WA[0], -quat_WA[1], -quat_WA[2], quat_WA[3]))
    if w < 0.0:
        x, y, z, w = -x, -y, -z, -w
    sine = math.sqrt(x * x + y * y + z * z)
    # angle / sin(angle / 2) tends to 2; the quotient is exact to rounding down to the smallest sines
    scale = 2.0 * math.atan2(sine, w) / sine if sine > 0.0 else 2.0
    rotvec_W[0] = scale * x
    rotvec_W[1] = scale * y
    rotvec_W[2] = scale * z


@kernel
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
    pose[3], pose[4], pose[5], pose[6] = quat_product((scale * x, scale * y, scale * z, w), pose[3:])
    length = math.sqrt(pose[3] ** 2 + pose[4] ** 2 + pose[5] ** 2 + pose[6] ** 2)
    for i in range(3, 7):
        pose[i] /= length  # rounding only


def planar_angle(pose: np.ndarray) -> np.ndarray:
    """Angle about z [rad], from -pi to pi, of planar poses (..., 7)."""
    half = np.arctan2(pose[..., 5], pose[..., 6])
    return 2.0 * (half - np.pi * np.round(half / np.pi))
