"""Each wrong axis, sign and unit of what is read is named, with what would make it right."""

from __future__ import annotations

import math

import numpy as np
import pytest
from bring_up_person import PERMUTATIONS, ROTATIONS

from haptic_drivers.bring_up.readings import (
    ANGLE,
    Readings,
    judge_axes,
    judge_button,
    judge_noise,
    judge_rate,
    judge_return,
    judge_turn,
    judge_velocity,
    judge_zero,
    mount_of,
    turn_of,
)
from haptic_drivers.bring_up.steps import DISTANCE, PLANE, SPACE, TURNS, distance_of, motions_of
from haptic_sim.rotations import matrix

ASKED = DISTANCE * np.array([motion.direction for motion in SPACE])
UNITS = ((1e3, "mm"), (1e2, "cm"), (1e-3, "km"))


def turned(angle: float, axis: np.ndarray, rows: int = 400) -> np.ndarray:
    """Quaternions of a turn from zero to that angle."""
    half = np.linspace(0.0, angle, rows)[:, None] / 2.0
    return np.hstack((np.sin(half) * axis, np.cos(half)))


def motion(along: np.ndarray, rows: int = 500, seconds: float = 1.0) -> Readings:
    """From rest to rest along a vector (3,) [m]."""
    s = np.linspace(0.0, 1.0, rows)[:, None]
    pose, twist = np.zeros((rows, 7)), np.zeros((rows, 6))
    pose[:, :3], pose[:, 6] = (3.0 * s**2 - 2.0 * s**3) * along, 1.0
    twist[:, :3] = 6.0 * s * (1.0 - s) * along / seconds
    return Readings(seconds * s[:, 0], pose, twist, np.zeros((rows, 2), int))


@pytest.mark.parametrize("case", range(len(PERMUTATIONS)))
def test_a_signed_permutation_is_corrected_or_named(case: int) -> None:
    R_WB, generator = PERMUTATIONS[case], np.random.default_rng(20260 + case)
    moved = ASKED * generator.uniform(0.7, 1.4, (3, 1)) + generator.normal(0.0, 0.01, (3, 3))  # a person is inexact
    step, found = judge_axes(moved @ R_WB, SPACE, DISTANCE)
    if np.linalg.det(R_WB) > 0.0:
        assert step.passed
        assert np.array_equal(found, R_WB)
        assert np.allclose(matrix(mount_of(found)[3:]), R_WB, atol=1e-12)
        assert ("mount" in step.remedy) == (not np.array_equal(R_WB, np.eye(3)))
    else:
        assert not step.passed
        assert step.found.startswith("left-handed axes: right is ")
    for factor, unit in UNITS:
        step, _ = judge_axes(factor * moved @ R_WB, SPACE, DISTANCE)
        assert not step.passed
        assert f": {unit}, where m is expected" in step.found
        assert f"by {1 / factor:g}" in step.remedy


@pytest.mark.parametrize("quarter", range(4))
def test_the_plane_has_four_rotations_and_a_reflection_is_named(quarter: int) -> None:
    angle = quarter * math.pi / 2.0
    R_WB = np.array([[math.cos(angle), -math.sin(angle), 0], [math.sin(angle), math.cos(angle), 0], [0, 0, 1]]).round()
    moved = DISTANCE * np.array([one.direction for one in PLANE]) @ R_WB
    step, found = judge_axes(moved, PLANE, DISTANCE)
    assert step.passed
    assert np.array_equal(found, R_WB)
    assert "left-handed" in judge_axes(moved * (1, -1, 1), PLANE, DISTANCE).step.found
    assert judge_axes(moved[:, [0, 2, 1]], PLANE, DISTANCE).step.found == "a motion along z"


def test_motions_that_say_nothing_are_named() -> None:
    oblique, twice, still, strange = ASKED.copy(), ASKED.copy(), ASKED.copy(), 7.0 * ASKED
    oblique[0, 0], twice[1], still[2] = 0.09, twice[0], 0.0
    for motions, found in (
        (oblique, "right: a displacement along several axes"),
        (twice, "two motions along the same axis"),
        (still, "no motion: up"),
        (strange, "right 0.7 m, away 0.7 m, up 0.7 m"),
        (math.nan * ASKED, "a reading that is not finite"),
    ):
        step, R_WB = judge_axes(motions, SPACE, DISTANCE)
        assert not step.passed
        assert step.found == found
        assert np.array_equal(R_WB, np.eye(3))


@pytest.mark.parametrize("case", range(24))
def test_a_turn_is_judged_in_the_axes_of_the_position(case: int) -> None:
    R_WB = ROTATIONS[case]
    for turn in TURNS:
        axis = R_WB.T @ np.array(turn.direction)
        assert turn_of(turned(3.0 * math.pi, axis)) == pytest.approx(3.0 * math.pi * axis, abs=1e-9)
        assert judge_turn(turned(ANGLE, axis), R_WB, turn).passed
        for quats, words in (
            (turned(-ANGLE, axis), "invert the orientation"),
            (turned(np.degrees(ANGLE), axis, 2000), "multiply angles by 0.01745"),
            (turned(ANGLE, np.roll(axis, 1)), "in the axes of the position"),
            (2.0 * turned(ANGLE, axis), "conversion of orientations"),
            (turned(0.0, axis), "repeat the turn"),
        ):
            step = judge_turn(quats, R_WB, turn)
            assert not step.passed
            assert words in step.remedy


def test_a_velocity_is_judged_by_its_integral() -> None:
    along = np.array((0.02, -0.1, 0.01))
    good = motion(along)
    assert judge_velocity([good]).passed
    lagging = good.twist.copy()  # by a filter of first order, over 20 ms
    for i in range(1, len(lagging)):
        lagging[i] = lagging[i - 1] + (good.time[i] - good.time[i - 1]) / 0.02 * (good.twist[i] - lagging[i - 1])
    assert judge_velocity([good._replace(twist=lagging)]).passed
    for twist, words in (
        (-good.twist, "change the sign"),
        (1e3 * good.twist, "multiply the velocity by 0.001"),
        (1e-3 * good.twist, "multiply the velocity by 1000"),
        (good.twist[:, [1, 2, 0, 3, 4, 5]], "same axes as the position"),
        (0.0 * good.twist, "correct unit and filter"),
        (math.nan * good.twist, "correct the conversion"),
    ):
        step = judge_velocity([good, good._replace(twist=twist)])
        assert not step.passed
        assert words in step.remedy
    rows = 500
    turning = good._replace(pose=np.hstack((np.zeros((rows, 3)), turned(ANGLE, np.array((0, 0, 1.0)), rows))))
    turning.twist[:, 5] = ANGLE
    assert judge_velocity([turning], angular=True).passed
    turning.twist[:, 5] = math.degrees(ANGLE)
    assert "by 0.01745" in judge_velocity([turning], angular=True).remedy


def test_rate_noise_jumps_zero_and_return_are_judged() -> None:
    generator = np.random.default_rng(20260)
    still = motion(np.zeros(3), 2000, 2.0)
    still.pose[:, :3] += generator.normal(0.0, 1e-4, (2000, 3))
    noise = judge_noise(still, [still], 1.0)
    assert noise.passed
    assert float(noise.found.split()[2]) == pytest.approx(1e-4, rel=0.1)
    assert judge_rate(still, 0.005).found == "999.5 readings a second, the longest interval 0.001 s"
    slow = Readings(*(one[::20] for one in still))
    assert "reading_watchdog" in judge_rate(slow, 0.005).remedy
    assert judge_rate(Readings(*(one[:2] for one in still)), 0.005).found == "2 readings"
    for column, value, found in ((0, math.nan, "not finite"), (6, 2.0, "not a unit quaternion")):
        pose = still.pose.copy()
        pose[5, column] = value
        step = judge_rate(still._replace(pose=pose), 0.005)
        assert not step.passed
        assert found in step.found
    jumping = motion(np.array((0.1, 0.0, 0.0)))
    jumping.pose[250:, 1] += 0.02
    for found, readings, others in (
        ("a jump of 0.02 m", still, [still, jumping]),
        ("noise of 0.0099 m", still._replace(pose=still.pose + generator.normal(0.0, 0.01, still.pose.shape)), []),
        ("a motion of 0.05 m", motion(np.array((0.05, 0.0, 0.0))), []),
    ):
        step = judge_noise(readings, others, 1.0)
        assert not step.passed
        assert step.found.startswith(found)
    box = (-0.1, -0.1, 0.0, 0.1, 0.1, 0.2)
    assert judge_zero(np.array((0.0, 0.0, 0.1)), box, 3).passed
    assert judge_zero(np.array((0.0, 0.0, 9.0)), None, 3).passed
    assert not judge_zero(np.array((0.0, 0.0, -0.1)), box, 3).passed
    assert judge_zero(np.array((0.0, 0.0, -0.1)), box, 2).passed
    assert judge_return(ASKED, -0.8 * ASKED, SPACE).passed
    drifted = judge_return(ASKED, np.array([[1, 1, 0.2]]).T * -ASKED, SPACE)
    assert not drifted.passed
    assert drifted.found.endswith(": up")


def test_buttons_are_told_from_each_other() -> None:
    names, pressed = ("a", "b"), np.zeros((9, 2), int)
    pressed[3:6, 1] = 1
    assert judge_button(pressed, names, "b").passed
    for buttons, name, found in (
        (pressed, "a", "pressed: b"),
        (0 * pressed, "a", "pressed: none"),
        (pressed | 1, "b", "pressed: a, b"),
        (pressed[:5], "b", "b is not released"),
    ):
        step = judge_button(buttons, names, name)
        assert not step.passed
        assert step.found == found


def test_motions_follow_from_what_is_measured_and_fit_the_workspace() -> None:
    assert motions_of(("x", "y", "z", "rx")) == SPACE
    assert motions_of(("x", "y", "rz")) == PLANE
    assert motions_of(("x", "rz")) == motions_of(("x", "z")) == ()
    assert distance_of(None, SPACE) == DISTANCE
    assert distance_of((-0.05, -0.13, -0.01, 0.05, -0.03, 0.01), PLANE) == 0.04
    assert distance_of((-1, -1, -1, 1, 1, 1), SPACE) == DISTANCE
