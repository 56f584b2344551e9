"""Judgement of what a device reads while a person moves it as asked: axes, signs, units, zero, noise and rate.

Readings of a device whose axes are those of its base B, up to a signed permutation P and a factor s, are

    d_B = s P^T d_W,

so P and s follow from as many motions as there are axes. A rotation P is corrected by `mount` (R_WB = P); a reflection
(det P = -1) and a factor are faults of the driver, which no mount corrects. For a turn the axis of rotation is read
likewise; as an axial vector it turns with P where P is a rotation. The turn is the sum of the small turns between
readings, since the angle of one rotation is at most pi: an angle in degrees gives 180 / pi times too many.

A velocity is judged by its integral, which is the displacement: int v dt = d. A filter of it delays the integral, and
leaves its value, for a motion from rest to rest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from haptic_drivers.bound import JUMP
from haptic_drivers.bring_up.steps import FACTOR, Motion, Step
from haptic_drivers.readings import SOON, UNIT
from haptic_sim.spatial import quat_from_matrix, rotation_difference

ANGLE = 0.5 * math.pi  # [rad] by which the person turns the handle
OBLIQUE = 0.5  # displacement along another axis, as a part of that along the largest
STILL = 0.02  # [m] that a hand which holds the handle still may move
NOISE = 1e-3  # [m] standard deviation of a position that is read at rest
RETURN = 0.5  # part of a displacement by which the return may differ from it
RARE = 0.01  # part of the intervals between readings that may be longer than `reading_watchdog`
UNITS = ((1e3, "mm"), (1e2, "cm"), (1e-3, "km"))
DEGREES = 180.0 / math.pi


class Readings(NamedTuple):
    """Readings in the order in which they came, in the axes of the base; none twice.

    Attributes:
        time: when they were taken (rows,) [s].
        pose: of the hand point (rows, 7) [m, quat_xyzw]; twist: (rows, 6) [m/s, rad/s].
        buttons: 1 pressed, 0 released (rows, buttons).
    """

    time: np.ndarray
    pose: np.ndarray
    twist: np.ndarray
    buttons: np.ndarray


class Axes(NamedTuple):
    """R_WB (3, 3), by which readings are turned into the world, and the step that found it."""

    step: Step
    R_WB: np.ndarray


def _nearest_unit(ratio: float, units: Sequence[tuple[float, str]]) -> tuple[float, str] | None:
    """The unit whose factor is within FACTOR of a ratio."""
    near = [(abs(math.log(ratio / factor)), factor, name) for factor, name in units if ratio > 0.0]
    near = [one for one in near if one[0] <= math.log(FACTOR)]
    return min(near)[1:] if near else None


def judge_rate(readings: Readings, longest: float) -> Step:
    """Rate and form of the readings of a handle that is held still.

    Args:
        readings: see there.
        longest: interval between readings, `reading_watchdog` [s].
    """
    asked = "hold the handle still"
    expected = f"finite readings, at most {longest:g} s apart"

    def wrong(found: str, remedy: str) -> Step:
        return Step("rate", asked, expected, found, remedy, False)

    if not (np.isfinite(readings.pose).all() and np.isfinite(readings.twist).all()):
        return wrong("a reading that is not finite", "correct the conversion of readings in the driver")
    if not (np.abs(np.linalg.norm(readings.pose[:, 3:], axis=1) - 1.0) <= UNIT).all():
        return wrong(
            "an orientation that is not a unit quaternion", "correct the conversion of orientations in the driver"
        )
    if len(readings.time) < 3:
        return wrong(f"{len(readings.time)} readings", "check that the device is on, and that no other program uses it")
    intervals = np.diff(readings.time)
    rate = len(intervals) / (readings.time[-1] - readings.time[0])
    found = f"{rate:.4g} readings a second, the longest interval {intervals.max():.3g} s"
    if np.quantile(intervals, 1.0 - RARE) > longest:
        return wrong(found, "raise reading_watchdog, or remove what delays the device: haptics doctor")
    return Step("rate", asked, expected, found, "", True)


def judge_axes(displacements: np.ndarray, motions: Sequence[Motion], distance: float) -> Axes:
    """Axes, signs and unit of the position, from displacements along each of the motions.

    Args:
        displacements: as the device reads them, a row for each of the motions (n, 3) [m].
        motions: in space or in the plane.
        distance: that was asked for [m].

    Returns:
        The step, and R_WB that corrects the axes; the identity if nothing does.
    """
    asked = f"move the handle {distance:g} m: {', '.join(motion.name for motion in motions)}"
    expected = f"{distance:g} m along one axis each, within a factor of {FACTOR:g}, right-handed"
    count = len(motions)

    def wrong(found: str, remedy: str) -> Axes:
        return Axes(Step("position", asked, expected, found, remedy, False), np.eye(3))

    if not np.isfinite(displacements).all():
        return wrong("a reading that is not finite", "correct the conversion of readings in the driver")
    size = np.abs(displacements)
    axes = size.argmax(axis=1)
    length = size[np.arange(count), axes]
    if not (length > 0.0).all():
        name = motions[int(length.argmin())].name
        return wrong(f"no motion: {name}", "check that the device is calibrated, and that the driver reads this axis")
    for row, motion in enumerate(motions):
        if np.delete(size[row], axes[row]).max() > OBLIQUE * length[row]:
            return wrong(f"{motion.name}: a displacement along several axes", "repeat the motion along one axis only")
    if len(set(axes.tolist())) < count:
        return wrong("two motions along the same axis", "repeat the motions; else the driver reads an axis twice")
    if count < 3 and axes.max() >= count:
        return wrong(f"a motion along {'xyz'[axes.max()]}", "read the plane as x and y in the driver")
    ratios = length / distance
    if unit := _nearest_unit(float(np.exp(np.log(ratios).mean())), UNITS):
        factor, name = unit
        return wrong(f"{length.mean():.3g}: {name}, where m is expected", f"multiply positions by {1 / factor:g}")
    if not (np.abs(np.log(ratios)) <= math.log(FACTOR)).all():
        found = ", ".join(f"{motion.name} {one:.3g} m" for motion, one in zip(motions, length, strict=True))
        return wrong(found, f"repeat the motions over {distance:g} m; else the scale of the positions is wrong")
    R_WB = np.zeros((3, 3))
    R_WB[2, 2] = 1.0 if count < 3 else 0.0
    for row, motion in enumerate(motions):
        R_WB[:, axes[row]] = np.sign(displacements[row, axes[row]]) * np.array(motion.direction)
    if np.linalg.det(R_WB) < 0.0:
        read = ", ".join(
            f"{motion.name} is {'-' if displacements[row, axes[row]] < 0.0 else '+'}{'xyz'[axes[row]]}"
            for row, motion in enumerate(motions)
        )
        return wrong(f"left-handed axes: {read}", "change the sign of an axis, or exchange two, in the driver")
    if np.array_equal(R_WB, np.eye(3)):
        return Axes(Step("position", asked, expected, "as expected", "", True), R_WB)
    mount = " ".join(f"{value:.4g}" for value in mount_of(R_WB))
    return Axes(Step("position", asked, expected, "axes turned", f"mount: {mount}", True), R_WB)


def mount_of(R_WB: np.ndarray) -> np.ndarray:
    """The pose `mount` (7,) of a base at the origin: position [m], quaternion x y z w."""
    pose = np.zeros(7)
    quat_from_matrix(np.ascontiguousarray(R_WB, dtype=float), pose[3:])
    return pose


def judge_return(displacements: np.ndarray, returns: np.ndarray, motions: Sequence[Motion]) -> Step:
    """Whether the handle is read where it was, after each motion there and back; both arrays (n, 3) [m]."""
    asked = "move the handle back to the middle"
    expected = f"within {RETURN:g} of the displacement of where it was"
    size = np.linalg.norm(displacements, axis=1)
    rest = np.linalg.norm(displacements + returns, axis=1)
    worst = int((rest / np.maximum(size, 1e-12)).argmax())
    found = f"{rest[worst]:.3g} m beside it after {size[worst]:.3g} m to and fro: {motions[worst].name}"
    if rest[worst] > RETURN * size[worst]:
        return Step("return", asked, expected, found, "repeat the motions; else the position drifts or jumps", False)
    return Step("return", asked, expected, found, "", True)


def judge_zero(position: np.ndarray, workspace: tuple[float, ...] | None, count: int) -> Step:
    """Whether a handle in the middle of the workspace is read within its box; `position` (3,) in the base [m]."""
    asked = "hold the handle in the middle of its workspace"
    found = f"({', '.join(f'{value:.3g}' for value in position[:count])}) m"
    if workspace is None:
        return Step("zero", asked, "any position: the data has no workspace", found, "", True)
    low, high = np.array(workspace[:count]), np.array(workspace[3 : 3 + count])
    expected = f"between ({', '.join(f'{x:g}' for x in low)}) and ({', '.join(f'{x:g}' for x in high)}) m"
    if ((position[:count] < low) | (position[:count] > high)).any():
        remedy = "calibrate or home the device as its vendor says; else correct `workspace` in its data"
        return Step("zero", asked, expected, found, remedy, False)
    return Step("zero", asked, expected, found, "", True)


def judge_noise(still: Readings, all_readings: Sequence[Readings], speed: float) -> Step:
    """Noise of the position at rest, and jumps in any of the motions.

    A white noise of standard deviation s makes differences of sqrt(2) s, in which the motion of a hand is not seen.

    Args:
        still: readings of a handle that is held still.
        all_readings: those between which nothing may jump.
        speed: limit of speed, `bound.velocity` [m/s].
    """
    asked = "hold the handle still"
    expected = f"noise below {NOISE:g} m, no step that needs {JUMP * speed:.3g} m/s"

    def step(found: str, remedy: str = "") -> Step:
        return Step("noise", asked, expected, found, remedy, not remedy)

    for readings in all_readings:
        lengths = np.linalg.norm(np.diff(readings.pose[:, :3], axis=0), axis=1)
        allowed = JUMP * speed * np.maximum(np.diff(readings.time), SOON)
        if (lengths > allowed).any():
            worst = int((lengths / allowed).argmax())
            found = f"a jump of {lengths[worst]:.3g} m within {readings.time[worst + 1] - readings.time[worst]:.3g} s"
            return step(found, "check cable and encoders; move more slowly and repeat")
    noise = float(np.diff(still.pose[:, :3], axis=0).std(axis=0).max() / math.sqrt(2.0))
    if noise > NOISE:
        return step(f"noise of {noise:.2g} m", "check cable, power supply and encoders; hold the handle still")
    moved = float(np.ptp(still.pose[:, :3], axis=0).max())
    if moved > STILL:
        return step(f"a motion of {moved:.2g} m", "hold the handle still; else the position drifts")
    return step(f"noise of {noise:.2g} m")


def judge_velocity(motions: Sequence[Readings], angular: bool = False) -> Step:
    """Sign, axes and unit of the velocity, from its integral over motions of the hand, from rest to rest.

    Args:
        motions: readings of each motion.
        angular: whether the angular velocity is judged, by the turns, instead of the velocity by the displacements.
    """
    name, of, unit = ("angular velocity", "turn", "rad") if angular else ("velocity", "displacement", "m")
    part = slice(3, 6) if angular else slice(0, 3)
    units = ((DEGREES, "degrees/s"),) if angular else tuple((factor, f"{name}/s") for factor, name in UNITS)
    asked, expected = "from the same motions", f"its integral is the {of}, within a factor of {FACTOR:g}"

    def step(found: str, remedy: str = "") -> Step:
        return Step(name, asked, expected, found, remedy, not remedy)

    judged = []
    for readings in motions:
        moved = turn_of(readings.pose[:, 3:]) if angular else readings.pose[-1, :3] - readings.pose[0, :3]
        rates = readings.twist[:, part]
        integral = 0.5 * np.diff(readings.time) @ (rates[1:] + rates[:-1])
        axis = int(np.abs(moved).argmax())
        found = f"an integral of {integral[axis]:.3g} along {'xyz'[axis]}, where the {of} is {moved[axis]:.3g} {unit}"
        ratio = float(integral[axis] / moved[axis]) if moved[axis] else math.nan
        if not math.isfinite(ratio) or not np.isfinite(integral).all():
            return step(found, f"correct the conversion of the {name} in the driver")
        if np.abs(integral).max() > FACTOR * abs(integral[axis]):
            return step(found, f"give the {name} in the same axes as the {'orientation' if angular else 'position'}")
        judged.append((found, ratio))
    for found, ratio in judged:
        if ratio < 0.0:
            return step(found, f"change the sign of the {name} in the driver")
        if near := _nearest_unit(ratio, units):
            return step(f"{found}: {near[1]}", f"multiply the {name} by {1 / near[0]:.4g}")
        if not 1.0 / FACTOR <= ratio <= FACTOR:
            return step(found, f"correct unit and filter of the {name} in the driver; repeat the motions")
    return step("as expected")


def turn_of(quats: np.ndarray) -> np.ndarray:
    """The sum of the small rotations between orientations x y z w (rows, 4): a rotation vector (3,) [rad]."""
    total, part = np.zeros(3), np.zeros(3)
    for before, after in itertools.pairwise(quats):
        rotation_difference(after, before, part)
        total += part
    return total


def judge_turn(quats: np.ndarray, R_WB: np.ndarray, turn: Motion) -> Step:
    """Axis, sign and unit of the orientation, from a quarter turn.

    Args:
        quats: orientations x y z w in the axes of the base, in the order in which they were read (rows, 4).
        R_WB: what corrects the axes of the position (3, 3).
        turn: that was asked for; its axis is in the world.
    """
    expected_axis = int(np.abs(turn.direction).argmax())
    asked = f"{turn.name}, by a quarter turn"
    expected = f"{ANGLE:.3g} rad about +{'xyz'[expected_axis]}, within a factor of {FACTOR:g}"

    def step(found: str, remedy: str = "") -> Step:
        return Step("orientation", asked, expected, found, remedy, not remedy)

    if not (np.isfinite(quats).all() and (np.abs(np.linalg.norm(quats, axis=1) - 1.0) <= UNIT).all()):
        return step("no unit quaternion", "correct the conversion of orientations in the driver")
    found_turn = R_WB @ turn_of(quats)
    axis = int(np.abs(found_turn).argmax())
    found = f"{found_turn[axis]:.3g} rad about {'xyz'[axis]}"
    ratio = abs(found_turn[axis]) / ANGLE
    if _nearest_unit(ratio, ((DEGREES, "degrees"),)):
        return step(f"{found}: degrees, where rad is expected", f"multiply angles by {1.0 / DEGREES:.4g}")
    if not 1.0 / FACTOR <= ratio <= FACTOR:
        return step(found, "repeat the turn; else the unit of the angles is wrong")
    if axis != expected_axis:
        return step(found, "give the orientation in the axes of the position, not inverted, in the driver")
    if found_turn[axis] < 0.0:
        return step(found, "invert the orientation in the driver: R_BH turns the hand's axes into those of the base")
    return step(found)


def judge_button(buttons: np.ndarray, names: Sequence[str], name: str) -> Step:
    """Whether a button, and no other, was read as pressed and released; `buttons` is (rows, buttons)."""
    asked, expected = f"press and release the button {name}", f"{name} is 1, then 0"
    pressed = [other for i, other in enumerate(names) if buttons[:, i].any()]
    found = f"pressed: {', '.join(pressed) or 'none'}"
    if pressed != [name]:
        return Step("button", asked, expected, found, "correct the order of `buttons` in the device's data", False)
    if buttons[-1, list(names).index(name)] or buttons[0, list(names).index(name)]:
        return Step("button", asked, expected, f"{name} is not released", "release it; else invert it", False)
    return Step("button", asked, expected, found, "", True)
