"""Differences between conditions: paired within participants, or between groups of participants."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtr, stdtrit

from haptic_study.analysis import Group, Measure, power_of_t
from haptic_study.psychophysics.effects import cohen_d, cohen_dz, holm


@dataclass(frozen=True)
class Comparison:
    """The difference of a measure between two conditions.

    Attributes:
        task, name: of what.
        first, second: labels of the conditions; the difference is that of the second less the first.
        count: participants who have both, or of both groups together.
        difference: mean with its 95 % interval.
        effect: Cohen's d_z of paired differences, d of groups.
        p: of the two-sided t test; Welch's for groups.
        corrected: p by Holm's procedure over all comparisons of a study.
        power: of as many participants for the effect that was found; NaN for groups.
    """

    task: str
    name: str
    first: str
    second: str
    count: int
    difference: Measure
    effect: float
    p: float
    corrected: float
    power: float


def comparisons(found: Sequence[Group]) -> list[Comparison]:
    """All pairs of conditions that differ in one factor, of each measure but the lapse rate."""
    result = []
    for task, name in dict.fromkeys((one.task, one.name) for one in found if one.name != "lapse"):
        own = [one for one in found if (one.task, one.name) == (task, name)]
        for first, second in itertools.combinations(own, 2):
            pair = (first.condition.split(","), second.condition.split(","))
            if sum(a != b for a, b in zip(*pair, strict=True)) == 1:
                common = sorted(first.values.keys() & second.values.keys())
                made = _paired(first, second, common) if len(common) > 1 else _groups(first, second)
                if made is not None:
                    result.append(made)
    corrected = holm([one.p for one in result]) if result else ()
    return [replace(one, corrected=float(p)) for one, p in zip(result, corrected, strict=True)]


def _paired(first: Group, second: Group, common: Sequence[str]) -> Comparison | None:
    change = np.array([second.values[code] - first.values[code] for code in common])
    n, mean, deviation = len(change), float(change.mean()), float(change.std(ddof=1))
    if deviation == 0.0:
        return None
    error = deviation / math.sqrt(n)
    half = float(stdtrit(n - 1, 0.975)) * error
    p = 2.0 * float(stdtr(n - 1, -abs(mean) / error))
    effect = cohen_dz([second.values[code] for code in common], [first.values[code] for code in common])
    measured = Measure(mean, mean - half, mean + half)
    names = (first.task, first.name, first.condition, second.condition)
    return Comparison(*names, n, measured, effect, p, p, power_of_t(effect, n))


def _groups(first: Group, second: Group) -> Comparison | None:
    """Welch's test (Welch 1947) of two groups of participants."""
    a, b = (np.array(list(one.values.values())) for one in (first, second))
    if len(a) < 2 or len(b) < 2:
        return None
    parts = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    if sum(parts) == 0.0:
        return None
    error = math.sqrt(sum(parts))
    degrees = sum(parts) ** 2 / (parts[0] ** 2 / (len(a) - 1) + parts[1] ** 2 / (len(b) - 1))
    mean = float(b.mean() - a.mean())
    half = float(stdtrit(degrees, 0.975)) * error
    p = 2.0 * float(stdtr(degrees, -abs(mean) / error))
    names = (first.task, first.name, first.condition, second.condition)
    measured = Measure(mean, mean - half, mean + half)
    return Comparison(*names, len(a) + len(b), measured, cohen_d(b, a), p, p, math.nan)
