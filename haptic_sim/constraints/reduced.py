"""FAULRING's three tools in independent coordinates: references that share no code with the constraint solvers.

Each has its own equations of motion, without multipliers, and is advanced by Runge-Kutta steps that are `parts` times
as short as the servo's. The operator's wrench is held over a servo period as it is for the tool. The equations use no
constraint rows, no projections, and no inertia matrices of Euler angles.
"""

from __future__ import annotations

import math

import numpy as np

from haptic_sim.kernels import kernel

PARTS = 8  # steps in a servo period: at 1 kHz the error of the reference is below 1e-12 m and rad
DISK, SPHERE, CIRCLE = 0, 1, 2


def rolling_disk(
    radius: float,
    mass: float,
    inertia: np.ndarray,
    damping: tuple[float, float],
    gravity: np.ndarray,
    start: np.ndarray,
    wrenches: np.ndarray,
    period: float,
    parts: int = PARTS,
) -> np.ndarray:
    """An upright disk that rolls on the plane: states (x1, x2, x4, x5, x4', x5') of heading and spin.

    The reaction of the plane acts at the contact point, so for the spin the disk has the inertia Jzz + m r^2 and the
    force the lever r; across the heading it does no work.

    Args:
        radius: [m].
        mass: [kg].
        inertia: principal moments [kg m^2], (3,); the last about the axis of the disk.
        damping: of translation [N s/m] and rotation [N m s/rad].
        gravity: [m/s^2], (3,).
        start: first state (6,).
        wrenches: force and torque of the operator at the centre in world axes in each period, (ticks, 6).
        period: [s].
        parts: steps in a period.

    Returns:
        Pose of the disk [m, quat_xyzw] at the beginning of each period, (ticks, 7).
    """
    params = np.array([radius, mass, *inertia, *damping, *gravity])
    states = _follow(DISK, params, np.asarray(start, float), np.ascontiguousarray(wrenches), period, parts)
    poses = np.zeros((len(states), 7))
    poses[:, :2], poses[:, 2] = states[:, :2], radius
    heading, spin = 0.5 * states[:, 2], 0.5 * states[:, 3]
    quarter = math.sqrt(0.5)
    # Rz(x4) Rx(pi / 2) Rz(x5)
    poses[:, 3], poses[:, 4] = quarter * np.cos(heading - spin), quarter * np.sin(heading - spin)
    poses[:, 5], poses[:, 6] = quarter * np.sin(heading + spin), quarter * np.cos(heading + spin)
    return poses


def disk_on_sphere(
    radius: float,
    centre: np.ndarray,
    mass: float,
    inertia: np.ndarray,
    damping: tuple[float, float],
    gravity: np.ndarray,
    start: np.ndarray,
    wrenches: np.ndarray,
    period: float,
    parts: int = PARTS,
) -> np.ndarray:
    """A disk that slides on a sphere, its axis along the normal: a body that turns about the sphere's centre.

    Its state is its orientation and angular velocity, without singularities; about the centre its inertia is that of
    the disk and m r^2 across the axis.

    Args:
        radius: of the sphere [m].
        centre: of the sphere [m], (3,).
        mass: [kg].
        inertia: principal moments about the disk's centre [kg m^2], (3,).
        damping: of translation [N s/m] and rotation [N m s/rad].
        gravity: [m/s^2], (3,).
        start: orientation (quat_xyzw) and angular velocity in the body's axes [rad/s], (7,).
        wrenches, period, parts: as of `rolling_disk`.

    Returns:
        Pose of the disk [m, quat_xyzw] at the beginning of each period, (ticks, 7).
    """
    params = np.array([radius, mass, *inertia, *damping, *gravity])
    states = _follow(SPHERE, params, np.asarray(start, float), np.ascontiguousarray(wrenches), period, parts)
    x, y, z, w = states[:, :4].T
    axis = np.stack([2 * (x * z + y * w), 2 * (y * z - x * w), w * w + z * z - x * x - y * y], axis=-1)
    return np.concatenate([np.asarray(centre) + radius * axis, states[:, :4]], axis=1)


def two_link_circle(
    length: float,
    mass: float,
    damping: float,
    base: tuple[float, float],
    centre: tuple[float, float],
    radius: float,
    elbow: float,
    start: np.ndarray,
    wrenches: np.ndarray,
    period: float,
) -> np.ndarray:
    """Two uniform links whose end point is on a circle, by its angle z alone: m(z) z'' + m'(z) z'^2 / 2 = Q.

    m(z) is the sum over the links of m |dc/dz|^2 + m l^2 / 12 (dphi/dz)^2, with the centre c and the angle phi of each.

    Args:
        length, mass: of each link [m], [kg].
        damping: of the relative rate in each joint [N m s/rad].
        base, centre: of the pivot and of the circle [m].
        radius: of the circle [m].
        elbow: sign of the relative angle q2.
        start: z and z' (2,).
        wrenches, period: as of `rolling_disk`, at the end point.

    Returns:
        Pose of the distal link's end [m, quat_xyzw] at the beginning of each period, (ticks, 7).
    """
    params = np.array([radius, mass, length, damping, *(np.subtract(centre, base)), elbow])
    states = _follow(CIRCLE, params, np.asarray(start, float), np.ascontiguousarray(wrenches), period, PARTS)
    poses = np.zeros((len(states), 7))
    _fill_circle_poses(params, centre[0], centre[1], states[:, 0], poses)
    return poses


@kernel
def _follow(kind, params, start, wrenches, period, parts):
    """States at the beginning of each period, by the classical Runge-Kutta method."""
    n = start.size
    states = np.zeros((wrenches.shape[0], n))
    y, rate, total, stage = start.copy(), np.zeros(n), np.zeros(n), np.zeros(n)
    h = period / parts
    for tick in range(wrenches.shape[0]):
        states[tick] = y
        for _ in range(parts):
            stage[:] = y
            total[:] = 0.0
            for i in range(4):
                _rates(kind, params, stage, wrenches[tick], rate)
                total += rate if i == 0 or i == 3 else 2.0 * rate
                stage[:] = y + (h if i == 2 else 0.5 * h) * rate
            y += h / 6.0 * total
            if kind == SPHERE:
                y[:4] /= math.sqrt(np.sum(y[:4] * y[:4]))
    return states


@kernel
def _rates(kind, params, y, wrench, rate):
    if kind == DISK:
        _disk_rates(params, y, wrench, rate)
    elif kind == SPHERE:
        _sphere_rates(params, y, wrench, rate)
    else:
        _circle_rates(params, y, wrench, rate)


@kernel
def _disk_rates(params, y, wrench, rate):
    r, m, translational, rotational = params[0], params[1], params[5], params[6]
    c, s = math.cos(y[2]), math.sin(y[2])
    c5, s5 = math.cos(y[3]), math.sin(y[3])
    turning = params[2] * s5 * s5 + params[3] * c5 * c5  # about the vertical
    change = 2.0 * (params[2] - params[3]) * s5 * c5  # of it with the spin
    along = c * (wrench[0] + m * params[7]) + s * (wrench[1] + m * params[8])
    spinning = s * wrench[3] - c * wrench[4] - r * along
    rate[0], rate[1] = -r * c * y[5], -r * s * y[5]
    rate[2], rate[3] = y[4], y[5]
    rate[4] = (wrench[5] - rotational * y[4] - change * y[5] * y[4]) / turning
    rate[5] = (spinning - (rotational + translational * r * r) * y[5] + 0.5 * change * y[4] * y[4]) / (
        params[4] + m * r * r
    )


@kernel
def _sphere_rates(params, y, wrench, rate):
    r, m, translational, rotational = params[0], params[1], params[5], params[6]
    x, yy, z, w = y[0], y[1], y[2], y[3]
    R = np.array(
        [
            [1 - 2 * (yy * yy + z * z), 2 * (x * yy - z * w), 2 * (x * z + yy * w)],
            [2 * (x * yy + z * w), 1 - 2 * (x * x + z * z), 2 * (yy * z - x * w)],
            [2 * (x * z - yy * w), 2 * (yy * z + x * w), 1 - 2 * (x * x + yy * yy)],
        ]
    )
    o0, o1, o2 = y[4], y[5], y[6]
    # force and torque in the body's axes; the lever is r along the third
    f0 = f1 = t0 = t1 = t2 = 0.0
    for i in range(3):
        force = wrench[i] + m * params[7 + i]
        f0 += R[i, 0] * force
        f1 += R[i, 1] * force
        t0 += R[i, 0] * wrench[3 + i]
        t1 += R[i, 1] * wrench[3 + i]
        t2 += R[i, 2] * wrench[3 + i]
    across = m * r * r
    I0, I1, I2 = params[2] + across, params[3] + across, params[4]
    slowing = rotational + translational * r * r
    rate[0] = 0.5 * (w * o0 + yy * o2 - z * o1)
    rate[1] = 0.5 * (w * o1 + z * o0 - x * o2)
    rate[2] = 0.5 * (w * o2 + x * o1 - yy * o0)
    rate[3] = -0.5 * (x * o0 + yy * o1 + z * o2)
    rate[4] = (t0 - r * f1 - slowing * o0 + (I1 - I2) * o1 * o2) / I0
    rate[5] = (t1 + r * f0 - slowing * o1 + (I2 - I0) * o2 * o0) / I1
    rate[6] = (t2 - rotational * o2 + (I0 - I1) * o0 * o1) / I2


@kernel
def _link_angles(params, z):
    """Absolute angles of the links whose end point is at z."""
    r, length = params[0], params[2]
    x, y = params[4] + r * math.cos(z), params[5] + r * math.sin(z)
    half = params[6] * math.acos(0.5 * math.hypot(x, y) / length)
    middle = math.atan2(y, x)
    return middle - half, middle + half


@kernel
def _fill_circle_poses(params, centre_x, centre_y, angles, poses):
    """Fill the poses (n, 7) of the distal link's end at angles z (n,) on the circle."""
    for i in range(angles.size):
        z = angles[i]
        poses[i, 0], poses[i, 1] = centre_x + params[0] * math.cos(z), centre_y + params[0] * math.sin(z)
        _, angle = _link_angles(params, z)
        poses[i, 5], poses[i, 6] = math.sin(0.5 * angle), math.cos(0.5 * angle)


@kernel(error_model="numpy")  # a straight linkage has no rates: not a number
def _circle_rates(params, y, wrench, rate):
    r, m, length, b = params[0], params[1], params[2], params[3]
    first, second = _link_angles(params, y[0])
    u0, u1, w0, w1 = math.cos(first), math.sin(first), math.cos(second), math.sin(second)
    n0, n1 = math.cos(y[0]), math.sin(y[0])
    # length (a' (-u1, u0) + b' (-w1, w0)) = p' , p' = r (-n1, n0), and the same once more
    determinant = length * (u0 * w1 - u1 * w0)
    a1 = (-r * n1 * w0 + r * n0 * w1) / determinant
    b1 = (r * n1 * u0 - r * n0 * u1) / determinant
    g0 = -r * n0 + length * (a1 * a1 * u0 + b1 * b1 * w0)
    g1 = -r * n1 + length * (a1 * a1 * u1 + b1 * b1 * w1)
    a2 = (g0 * w0 + g1 * w1) / determinant
    b2 = -(g0 * u0 + g1 * u1) / determinant
    # centre of link 2: length u + length / 2 w; its derivatives along and across its parts
    cosine, sine = u0 * w0 + u1 * w1, u0 * w1 - u1 * w0
    inertia = m * length * length
    seen = inertia * (a1 * a1 / 3.0 + a1 * a1 + a1 * b1 * cosine + b1 * b1 / 3.0)
    half_change = inertia * (
        4.0 / 3.0 * a1 * a2 + 0.5 * (a2 * b1 + a1 * b2) * cosine - 0.5 * a1 * b1 * (b1 - a1) * sine + b1 * b2 / 3.0
    )
    along = r * (-n1 * wrench[0] + n0 * wrench[1]) + b1 * wrench[5]
    slowing = b * (a1 * a1 + (b1 - a1) * (b1 - a1))
    rate[0] = y[1]
    rate[1] = (along - slowing * y[1] - half_change * y[1] * y[1]) / seen
