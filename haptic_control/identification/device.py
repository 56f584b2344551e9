"""Identification of a device from a motion without a hand and one with: along each direction, and as its data.

A direction is identified where the device rendered a wrench in it, over the ticks in which that was more than a part
ACTIVE of its largest. Rotations are the sum of the rotations from tick to tick, whose rate is the angular velocity in
world axes; their directions are independent of each other for a device with the same inertia about all axes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from haptic_control.identification.fit import CONFIDENT, Estimate, Identified, identify
from haptic_sim.parameters import ParameterError

DIRECTIONS = ("x", "y", "z", "rx", "ry", "rz")
ACTIVE = 0.05
SATURATED = 0.05  # part of the ticks in which the device may be at its limit
MISSED = 0.02  # part of the ticks that may be missing
TOUCHED = 0.05  # largest wrench of a hand where there is none, over that of the device
NONE = 1e-12  # of any quantity: less is rounding, of an ideal device that is simulated, and no file can have it
AT_ONCE = 1e-6  # [s] the same of a delay
DISAGREE = 2.0  # standard deviations of the scatter of directions, over those of their intervals


class Motion(NamedTuple):
    """A recorded motion, a row for each tick from 0 on.

    A tick that was not recorded is NaN in `position`, and between its neighbours in the wrenches.

    Attributes:
        position: displacement from the start and sum of rotations (n, 6) [m, rad].
        rendered, operator: wrenches (n, 6) [N, N m].
        limit: of what is rendered (6,) [N, N m].
        rate: [Hz].
    """

    position: np.ndarray
    rendered: np.ndarray
    operator: np.ndarray
    limit: np.ndarray
    rate: float


def motion_of(
    ticks: np.ndarray,
    poses: np.ndarray,
    rendered: np.ndarray,
    operator: np.ndarray,
    limit: np.ndarray,
    rate: float,
) -> Motion:
    """The motion of the hand in the ticks that were recorded, of which some may be missing.

    Args:
        ticks: their numbers, ascending, (k,).
        poses: positions and quaternions x y z w of the hand (k, 7) [m].
        rendered, operator: wrenches (k, 6) [N, N m].
        limit: of what is rendered (6,) [N, N m].
        rate: [Hz].

    Raises:
        ParameterError: too many ticks are missing.
    """
    ticks = ticks.astype(np.int64)
    count = int(ticks[-1]) + 1 if len(ticks) else 0
    if not count or len(ticks) < (1.0 - MISSED) * count:
        raise ParameterError([f"{count - len(ticks)} of {count} ticks were not recorded, at most {MISSED:.0%} may be"])
    position = np.full((count, 6), math.nan)
    position[ticks, :3] = poses[:, :3] - poses[0, :3]
    position[ticks, 3:] = _turned(poses[:, 3:])
    return Motion(position, _filled(ticks, rendered), _filled(ticks, operator), limit, rate)


def _filled(ticks: np.ndarray, wrench: np.ndarray) -> np.ndarray:
    """The wrench of every tick; one that is missing lies between its neighbours, as a force of up to 40 Hz does."""
    return np.stack([np.interp(np.arange(ticks[-1] + 1), ticks, column) for column in wrench.T], axis=1)


def _turned(quats: np.ndarray) -> np.ndarray:
    """Sum of the rotation vectors from row to row, in world axes (n, 3) [rad], of orientations x y z w (n, 4)."""
    a, b = quats[:-1], quats[1:]
    vector = a[:, 3:] * b[:, :3] - b[:, 3:] * a[:, :3] + np.cross(a[:, :3], b[:, :3])  # b a^-1
    scalar = np.sum(a * b, axis=1, keepdims=True)
    vector, scalar = np.where(scalar < 0.0, -vector, vector), np.abs(scalar)
    sine = np.linalg.norm(vector, axis=1, keepdims=True)
    angle = 2.0 * np.arctan2(sine, scalar)
    turns = vector * np.divide(angle, sine, out=np.full_like(sine, 2.0), where=sine > 0.0)
    return np.concatenate([np.zeros((1, 3)), np.cumsum(turns, axis=0)])


def identify_motion(motion: Motion, *, held: bool) -> dict[str, Identified]:
    """Moved inertia and damping by direction; `held` with a hand.

    Raises:
        ParameterError: a line that names the direction, and says why and what to do.
    """
    largest = np.abs(motion.rendered).max(axis=0)
    if not largest.any():
        raise ParameterError(["the device rendered no wrench: excite it, as controller.type=excitation does"])
    found = {}
    for i in map(int, np.flatnonzero(largest)):
        window = _window(motion, i)
        _check(motion, i, window, held)
        try:
            found[DIRECTIONS[i]] = identify(
                motion.position[:, i], motion.rendered[:, i], motion.rate, held=held, window=window
            )
        except ParameterError as error:
            raise ParameterError(f"{DIRECTIONS[i]}: {problem}" for problem in error.problems) from error
    return found


def _window(motion: Motion, i: int) -> tuple[int, int]:
    """The ticks in which a direction was excited."""
    size = np.abs(motion.rendered[:, i])
    active = np.flatnonzero(size > ACTIVE * size.max())
    return int(active[0]), int(active[-1]) + 1


def _check(motion: Motion, i: int, window: tuple[int, int], held: bool) -> None:
    """Refuse a device at its limits, and a hand where there is to be none."""
    rendered, operator = motion.rendered[slice(*window), i], motion.operator[slice(*window), i]
    limited = float(np.mean(np.abs(rendered) >= (1.0 - 1e-9) * motion.limit[i]))
    if limited > SATURATED:
        raise ParameterError(
            [
                f"{DIRECTIONS[i]}: the device was at its limit of {motion.limit[i]:g} {'N' if i < 3 else 'N m'} in "
                f"{limited:.0%} of the ticks, at most {SATURATED:.0%} may be: lower controller.force"
            ]
        )
    # the noise of a force sensor has no share in the product of neighbouring ticks
    touch = math.sqrt(max(float(np.mean(operator[1:] * operator[:-1])), 0.0))
    if not held and touch > TOUCHED * float(np.sqrt(np.mean(rendered**2))):
        raise ParameterError(
            [
                f"{DIRECTIONS[i]}: an operator acts with {touch:.3g} {'N' if i < 3 else 'N m'} in the trial without a "
                "hand: let the device alone"
            ]
        )


ROUNDING = 1e-12  # in SI units: directions that differ by less agree


class Combined(NamedTuple):
    """One value for several directions.

    Attributes:
        estimate: the value and its interval.
        differs: whether the directions differ by more than their intervals explain.
    """

    estimate: Estimate
    differs: bool


def combine(estimates: Iterable[Estimate], pick: str = "mean") -> Combined:
    """The mean of directions, weighted by their intervals; where they differ, `pick` mean, least or largest of them.

    The interval of the mean is no shorter than those of the directions: they were excited alike, so that rounding
    errors of their encoders are alike, too.
    """
    listed = list(estimates)
    values, widths = (np.array(column) for column in zip(*listed, strict=True))
    weights = 1.0 / np.maximum(widths, 1e-12 * np.abs(values).max() + ROUNDING) ** 2
    mean = float(np.sum(weights * values) / np.sum(weights))
    width = float(np.mean(widths))
    scatter = CONFIDENT * math.sqrt(float(np.sum(weights * (values - mean) ** 2)) / max(len(listed) - 1, 1))
    if scatter <= DISAGREE:
        return Combined(Estimate(mean, width * max(1.0, scatter)), False)
    if pick == "mean":
        middle = float(np.mean(values))
        return Combined(Estimate(middle, float(np.abs(values - middle).max() + widths.max())), True)
    return Combined((min if pick == "least" else max)(listed), True)


class Quantity(NamedTuple):
    """A key of the data that is identified.

    Attributes:
        key: its name; field: of `Identified`; rotation: whether it is of rotations, None: of both, as a pair.
        units: of translation and rotation; pick: which of directions that differ is on the safe side.
    """

    key: str
    field: str
    rotation: bool | None
    units: tuple[str, str]
    pick: str


QUANTITIES = (
    Quantity("mass", "mass", False, ("kg", ""), "mean"),
    Quantity("inertia", "mass", True, ("", "kg m^2"), "mean"),
    Quantity("damping", "damping", None, ("N s/m", "N m s/rad"), "least"),
    Quantity("friction", "friction", None, ("N", "N m"), "least"),
    Quantity("noise", "noise", None, ("m", "rad"), "largest"),
)


NOTHING = Estimate(0.0, 0.0)
TAKEN = {"mean": "their mean", "least": "the least", "largest": "the largest"}


class Result(NamedTuple):
    """A device as its data has it.

    Attributes:
        values: of the keys that were identified, as they are written.
        intervals: 95 % intervals of each value, low and high, one or two.
        units: of each key.
        notes: what is to be known of them.
    """

    values: dict[str, Any]
    intervals: dict[str, list[tuple[float, float]]]
    units: dict[str, str]
    notes: list[str]


def result_of(free: Mapping[str, Identified]) -> Result:
    """The data of a device from what was found in each direction without a hand."""
    parts = [[one for name, one in free.items() if name.startswith("r") == turns] for turns in (False, True)]
    values: dict[str, Any] = {}
    intervals: dict[str, list[tuple[float, float]]] = {}
    units: dict[str, str] = {}
    notes: list[str] = []
    for key, field, rotation, names, pick in QUANTITIES:
        found: list[Estimate] = []
        for turns in (False, True) if rotation is None else (rotation,):
            of = "rotations" if turns else "directions"
            if not parts[turns]:
                found.append(NOTHING)
                if rotation is None:
                    notes.append(f"{key}: no {of} were excited; 0 is taken for them")
                continue
            combined = combine((getattr(one, field) for one in parts[turns]), pick)
            found.append(combined.estimate)
            if combined.differs:
                notes.append(f"{key}: the {of} differ by more than their intervals; {TAKEN[pick]} is taken")
        if found == [NOTHING]:
            continue
        numbers = [rounded(one) for one in found]
        values[key] = numbers if rotation is None else numbers[0]
        intervals[key] = [interval(one) for one in found]
        units[key] = ", ".join(names) if rotation is None else names[rotation]
    delay = combine((one.delay for one in free.values()), "largest")
    if delay.differs:
        notes.append("delay: the directions differ by more than their intervals; the largest is taken")
    if delay.estimate.high < 0.0:
        notes.append(
            f"delay: {1e3 * delay.estimate.value:.3g} ms, the device is ahead of a held force, as one that is "
            "simulated by semi-implicit Euler is; 0 is taken"
        )
    shown = rounded(delay.estimate)
    values["delay"], intervals["delay"], units["delay"] = (
        shown if shown >= AT_ONCE else 0.0,
        [interval(delay.estimate)],
        "s",
    )
    return Result(values, intervals, units, notes)


def rounded(estimate: Estimate) -> float:
    """The value, not below zero, to the digits that its interval leaves, and one more."""
    return _round(max(estimate.value, 0.0), estimate.half_width)


def interval(estimate: Estimate) -> tuple[float, float]:
    """Both ends of the interval, not below zero, as `rounded`."""
    width = estimate.half_width
    return _round(max(estimate.low, 0.0), width), _round(max(estimate.high, 0.0), width)


def _round(value: float, half_width: float) -> float:
    if value < NONE:
        return 0.0
    if half_width <= 0.0:
        return value
    return round(value, min(max(1 - math.floor(math.log10(half_width)), -300), 300))


def hand_of(free: Identified, held: Identified) -> dict[str, Estimate]:
    """Mass, damping and stiffness of the hand in one direction: what is there with it, less what is without."""
    hand = {}
    for name in ("mass", "damping"):
        whole, own = getattr(held, name), getattr(free, name)
        hand[name] = Estimate(whole.value - own.value, math.hypot(whole.half_width, own.half_width))
    return {**hand, "stiffness": held.stiffness}
