"""The references in independent coordinates, against other forms of the equations integrated by SciPy's DOP853."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from haptic_sim.constraints import reduced

INERTIA = np.array([0.0025, 0.0030, 0.0041])
GRAVITY = np.array([0.3, -0.4, -1.0])
WRENCH = np.array([1.1, -0.7, 2.0, 0.02, 0.03, -0.05])
PERIOD, TICKS = 1e-3, 2001
EXACT = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-14}
HELD = np.tile(WRENCH, (TICKS, 1))


def hat(w):
    return np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])


def test_rolling_disk():
    """Newton and Euler in the world, with the reaction at the contact from the rolling condition."""
    r, m, bt, br = 0.03, 0.25, 1.0, 0.1
    up = np.array([0.0, 0.0, 1.0])

    def rates(_, y):
        R, w = y[3:12].reshape(3, 3), y[12:15]
        lever = -r * up  # from the centre to the contact
        J = R @ np.diag(INERTIA) @ R.T
        v = -np.cross(w, lever)  # the contact does not move
        # unknown: angular acceleration (3), reaction (3), moment about the line of the track that keeps it upright
        axis = R[:, 2]
        track = np.cross(up, axis)
        A, b = np.zeros((7, 7)), np.zeros(7)
        A[:3, :3] = m * hat(lever)  # dv/dt = -dw/dt x lever = lever x dw/dt
        A[:3, 3:6] = -np.eye(3)
        b[:3] = WRENCH[:3] + m * GRAVITY - bt * v
        A[3:6, :3] = J
        A[3:6, 3:6] = -hat(lever)
        A[3:6, 6] = -track
        b[3:6] = WRENCH[3:] - br * w - np.cross(w, J @ w)
        A[6, :3] = track  # no tilt: track . w = 0 always, and track turns with the heading
        b[6] = -np.cross(up, np.cross(w, axis)) @ w
        return np.concatenate([v, (hat(w) @ R).ravel(), np.linalg.solve(A, b)[:3]])

    heading, spin, w4, w5 = 0.3, 0.4, 3.0, -5.0
    R = (Rotation.from_euler("ZXZ", [heading, math.pi / 2, spin])).as_matrix()
    start = np.concatenate([[0.01, 0.02, r], R.ravel(), w4 * up + w5 * R[:, 2]])
    end = solve_ivp(rates, (0, (TICKS - 1) * PERIOD), start, **EXACT).y[:, -1]
    first = np.array([0.01, 0.02, heading, spin, w4, w5])
    pose = reduced.rolling_disk(r, m, INERTIA, (bt, br), GRAVITY, first, HELD, PERIOD)[-1]
    assert pose[:3] == pytest.approx(end[:3], abs=1e-10)
    assert Rotation.from_quat(pose[3:]).as_matrix() == pytest.approx(end[3:12].reshape(3, 3), abs=1e-9)


def test_disk_on_sphere():
    """A body about a fixed point, in world axes: dL/dt is the moment."""
    r, m, bt, br = 0.05, 0.25, 1.0, 0.1
    centre = np.array([0.1, -0.2, 0.3])

    def inertia(R):
        n = R[:, 2]
        return R @ np.diag(INERTIA) @ R.T + m * r * r * (np.eye(3) - np.outer(n, n))

    def rates(_, y):
        R, L = y[:9].reshape(3, 3), y[9:]
        w = np.linalg.solve(inertia(R), L)
        force = WRENCH[:3] + m * GRAVITY - bt * np.cross(w, r * R[:, 2])
        return np.concatenate([(hat(w) @ R).ravel(), np.cross(r * R[:, 2], force) + WRENCH[3:] - br * w])

    start = Rotation.from_euler("ZXZ", [0.3, 0.9, 0.2])
    R, w = start.as_matrix(), np.array([2.0, -3.0, 6.0])  # in the body's axes
    first = np.concatenate([R.ravel(), inertia(R) @ R @ w])
    end = solve_ivp(rates, (0, (TICKS - 1) * PERIOD), first, **EXACT).y[:9, -1].reshape(3, 3)
    begin = np.concatenate([start.as_quat(), w])
    pose = reduced.disk_on_sphere(r, centre, m, INERTIA, (bt, br), GRAVITY, begin, HELD, PERIOD)[-1]
    assert Rotation.from_quat(pose[3:]).as_matrix() == pytest.approx(end, abs=1e-9)
    assert pose[:3] == pytest.approx(centre + r * end[:, 2], abs=1e-10)


@pytest.mark.parametrize("elbow", [-1.0, 1.0])
def test_two_link_circle(elbow):
    """The same angle from the energy alone: E' = power, z' = sqrt(2 E / m(z)), while it moves forward."""
    length, m, b, base, centre, r = 0.15, 2.0, 0.01, (-0.21, 0.01), (0.0, 0.02), 0.05

    def links(z):
        x, y = centre[0] + r * math.cos(z) - base[0], centre[1] + r * math.sin(z) - base[1]
        half = elbow * math.acos(0.5 * math.hypot(x, y) / length)
        return math.atan2(y, x) - half, math.atan2(y, x) + half

    def slopes(z):  # of the angles of the links
        first, second = links(z)
        A = length * np.array([[-math.sin(first), -math.sin(second)], [math.cos(first), math.cos(second)]])
        return np.linalg.solve(A, r * np.array([-math.sin(z), math.cos(z)]))

    def seen(z):
        (first, second), s = links(z), slopes(z)
        u, w = (np.array([-math.sin(a), math.cos(a)]) for a in (first, second))
        centres = (0.5 * length * s[0] * u, length * s[0] * u + 0.5 * length * s[1] * w)
        return m * sum(c @ c for c in centres) + m * length**2 / 12 * s @ s

    def rates(_, y):
        z, s = y[0], slopes(y[0])
        speed = math.sqrt(2.0 * y[1] / seen(z))
        push = r * (-math.sin(z) * WRENCH[0] + math.cos(z) * WRENCH[1]) + s[1] * WRENCH[5]
        return [speed, push * speed - b * speed**2 * (s[0] ** 2 + (s[1] - s[0]) ** 2)]

    z, rate = 0.2, 14.0
    end = solve_ivp(rates, (0, 1.0), [z, 0.5 * seen(z) * rate**2], **EXACT).y[:, -1]
    poses = reduced.two_link_circle(length, m, b, base, centre, r, elbow, np.array([z, rate]), HELD[:1001], PERIOD)
    pose = poses[-1]
    assert end[0] > 4.0
    assert pose[:2] == pytest.approx([centre[0] + r * math.cos(end[0]), centre[1] + r * math.sin(end[0])], abs=1e-9)
    angle = 2.0 * math.atan2(pose[5], pose[6])
    assert math.remainder(angle - links(end[0])[1], 2.0 * math.pi) == pytest.approx(0.0, abs=1e-8)


def test_a_straight_linkage_is_not_a_number():
    straight = np.array([0.0, 1.0])
    poses = reduced.two_link_circle(0.15, 2.0, 0.0, (-0.25, 0.0), (0, 0), 0.06, 1.0, straight, HELD[:50], PERIOD)
    assert np.isnan(poses[-1]).any()


def test_shorter_steps_change_nothing():
    first = np.array([0.0, 0.0, 0.3, 0.0, 3.0, 5.0])
    coarse, fine = (
        reduced.rolling_disk(0.03, 0.25, INERTIA, (1.0, 0.1), GRAVITY, first, HELD, PERIOD, parts)
        for parts in (reduced.PARTS, 4 * reduced.PARTS)
    )
    assert coarse == pytest.approx(fine, abs=1e-12)
