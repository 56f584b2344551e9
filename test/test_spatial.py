"""Rotations against SciPy, at generic angles and at those where formulas break down."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from haptic_sim.spatial import (
    advance_pose,
    planar_angle,
    quat_from_matrix,
    rotation_difference,
)


def quat(R: np.ndarray) -> np.ndarray:
    out = np.full(4, np.nan)
    quat_from_matrix(np.ascontiguousarray(R), out)
    return out


def matrix(q: np.ndarray) -> np.ndarray:
    return Rotation.from_quat(q).as_matrix()


def difference(q_B: np.ndarray, q_A: np.ndarray) -> np.ndarray:
    out = np.full(3, np.nan)
    rotation_difference(np.array(q_B), np.array(q_A), out)
    return out


def rotations() -> Rotation:
    """Random ones, tiny and nearly half turns about random axes, and generic turns about the axes."""
    rng = np.random.default_rng(20260)
    axes = rng.normal(size=(60, 3))
    axes /= np.linalg.norm(axes, axis=1)[:, None]
    angles = np.array([0.0, 1e-12, 1e-8, 1e-5, 1e-3, 0.7, 1.9, np.pi - 1e-3, np.pi - 1e-7, np.pi - 1e-12, np.pi])
    about_random = (axes[:, None, :] * angles[:, None]).reshape(-1, 3)
    about_axes = (np.vstack([np.eye(3), -np.eye(3)])[:, None, :] * angles[:, None]).reshape(-1, 3)
    return Rotation.concatenate(
        [Rotation.random(200, rng=rng), Rotation.from_rotvec(np.vstack([about_random, about_axes]))]
    )


def test_matrix_from_quat_is_scipys() -> None:
    for rotation in rotations():
        q = rotation.as_quat()
        np.testing.assert_allclose(matrix(q), rotation.as_matrix(), rtol=0, atol=1e-15)
        np.testing.assert_array_equal(matrix(-q), matrix(q))


def test_quat_from_matrix_is_scipys() -> None:
    for rotation in rotations():
        expected, found = rotation.as_quat(), quat(rotation.as_matrix())
        expected = expected if expected @ found > 0 else -expected
        np.testing.assert_allclose(found, expected, rtol=0, atol=4e-16)
        assert found[3] >= 0.0
        assert np.linalg.norm(found) == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("largest", range(4))
def test_quat_from_matrix_in_each_branch(largest: int) -> None:
    """The largest component is x, y, z or w, and each of the others takes both signs."""
    rng = np.random.default_rng(20261)
    seen = set()
    for _ in range(200):
        q = rng.normal(size=4)
        q[largest] = np.sign(q[largest]) * (1.0 + np.abs(q).max())
        q /= np.linalg.norm(q)
        expected = q if q[3] >= 0 else -q
        np.testing.assert_allclose(quat(Rotation.from_quat(q).as_matrix()), expected, rtol=0, atol=4e-16)
        seen.add(tuple(np.sign(expected)))
    assert len(seen) == 8  # w is positive


@pytest.mark.parametrize("axis", range(3))
def test_half_turns_about_the_axes_are_exact(axis: int) -> None:
    R = -np.eye(3)
    R[axis, axis] = 1.0
    np.testing.assert_array_equal(np.abs(quat(R)), np.eye(4)[axis])


def test_difference_is_scipys_logarithm() -> None:
    """Within rounding, however small the angle; the sign of a quaternion does not matter."""
    rng = np.random.default_rng(20262)
    for by in rotations():
        if by.magnitude() > np.pi - 1e-9:
            continue  # the sign of the axis is rounding there: see below
        A = Rotation.random(rng=rng)
        B = by * A  # a turn about world axes
        expected = (B * A.inv()).as_rotvec()
        q_A, q_B = A.as_quat(), B.as_quat()
        for sign in (1.0, -1.0):
            np.testing.assert_allclose(difference(sign * q_B, q_A), expected, rtol=0, atol=3e-15)
            np.testing.assert_array_equal(difference(-sign * q_B, q_A), difference(sign * q_B, q_A))
            np.testing.assert_array_equal(difference(q_B, -sign * q_A), difference(q_B, sign * q_A))
            np.testing.assert_allclose(difference(q_A, q_B), -expected, rtol=0, atol=3e-15)


def test_difference_takes_world_axes() -> None:
    """B = exp([r]) A with r in world axes; with body axes it would be R_WA^T r."""
    A = Rotation.from_rotvec([0.3, -1.1, 0.7])
    r = np.array([0.2, 0.5, -0.4])
    found = difference((Rotation.from_rotvec(r) * A).as_quat(), A.as_quat())
    np.testing.assert_allclose(found, r, rtol=0, atol=1e-15)
    assert np.linalg.norm(A.inv().apply(r) - r) > 0.1


def test_difference_of_half_turns() -> None:
    """At pi both signs of the axis are right; the angle is pi, and finite beyond doubt."""
    rng = np.random.default_rng(20263)
    for _ in range(100):
        axis = rng.normal(size=3)
        axis /= np.linalg.norm(axis)
        A = Rotation.random(rng=rng)
        found = difference((Rotation.from_rotvec(np.pi * axis) * A).as_quat(), A.as_quat())
        found *= np.sign(found @ axis)
        np.testing.assert_allclose(found, np.pi * axis, rtol=0, atol=2e-15)


def test_difference_goes_the_shorter_way() -> None:
    for angle, expected in (
        (np.pi - 1e-6, np.pi - 1e-6),
        (np.pi + 1e-6, -np.pi + 1e-6),
        (5.0, 5.0 - 2 * np.pi),
    ):
        found = difference([0, 0, np.sin(angle / 2), np.cos(angle / 2)], [0, 0, 0, 1.0])
        np.testing.assert_allclose(found, [0, 0, expected], rtol=0, atol=1e-15)


def test_difference_of_equal_rotations_is_zero() -> None:
    for rotation in rotations():
        q = rotation.as_quat()
        assert np.abs(difference(q, q)).max() < 1e-15
    np.testing.assert_array_equal(difference([0, 0, 0, 1.0], [0, 0, 0, 1.0]), np.zeros(3))


@pytest.mark.parametrize("tiny", [1e-8, 1e-20, 1e-100, 1e-160, 1e-200, 1e-300])
def test_smallest_differences_are_exact(tiny: float) -> None:
    """Where the square of the sine underflows, too: log is twice the vector part there."""
    found = difference([tiny, -2 * tiny, 3 * tiny, 1.0], [0, 0, 0, 1.0])
    np.testing.assert_allclose(found, [2 * tiny, -4 * tiny, 6 * tiny], rtol=1e-15, atol=0)


def test_planar_angle() -> None:
    rng = np.random.default_rng(20264)
    for angle in [0.0, 0.7, -0.7, np.pi, -3.0, 9.0, *rng.uniform(-20, 20, 50)]:
        pose = np.array([0.25, -1.5, 0.0, 0.0, 0.0, np.sin(0.5 * angle), np.cos(0.5 * angle)])
        wrapped = (angle + np.pi) % (2 * np.pi) - np.pi
        difference_to_turn = (planar_angle(pose) - wrapped + np.pi) % (2 * np.pi) - np.pi
        assert abs(difference_to_turn) < 4e-15
        assert abs(planar_angle(pose)) <= np.pi
        assert planar_angle(-pose) == pytest.approx(planar_angle(pose), abs=1e-15)


def test_planar_angles_of_many_poses() -> None:
    angles = np.linspace(-3.1, 3.1, 12).reshape(3, 4)
    poses = np.zeros((3, 4, 7))
    poses[..., 5], poses[..., 6] = np.sin(angles / 2), np.cos(angles / 2)
    np.testing.assert_allclose(planar_angle(poses), angles, rtol=0, atol=1e-15)


def test_advancing_a_pose_is_the_exponential_map_at_any_rate() -> None:
    rng = np.random.default_rng(20260)
    for rate in (0.0, 1e-12, 1e-3, 1.0, 500.0):
        axis = rng.normal(size=3)
        twist = np.concatenate([rng.normal(size=3), rate * axis / np.linalg.norm(axis)])
        start = Rotation.random(random_state=rng)
        pose = np.array([*rng.normal(size=3), *start.as_quat()])
        expected = np.array(
            [*(pose[:3] + 0.01 * twist[:3]), *(Rotation.from_rotvec(0.01 * twist[3:]) * start).as_quat()]
        )
        advance_pose(twist, 0.01, pose)
        expected[3:] *= np.sign(expected[3:] @ pose[3:])
        np.testing.assert_allclose(pose, expected, rtol=0, atol=1e-14)


def test_advancing_a_pose_ends_where_the_difference_says() -> None:
    """`rotation_difference` undoes it, about world axes."""
    rng = np.random.default_rng(7)
    for _ in range(20):
        before = np.array([0.0, 0, 0, *Rotation.random(random_state=rng).as_quat()])
        after, twist = before.copy(), rng.normal(size=6)
        advance_pose(twist, 1.0, after)
        np.testing.assert_allclose(difference(after[3:], before[3:]), twist[3:], rtol=0, atol=1e-13)
