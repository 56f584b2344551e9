"""Differences between conditions: paired within participants, or between groups; the analysis of variance."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtr, stdtrit

from haptic_study.analysis import Group, Measure, power_of_groups, power_of_t
from haptic_study.psychophysics.effects import Effect, cohen_d, cohen_dz, holm, repeated_measures_anova


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
        power: of as many participants for the effect that was found; of groups that of Student's test.
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
    for own in _measures(found):
        for first, second in itertools.combinations(own, 2):
            if sum(first.factors[name] != second.factors[name] for name in first.factors) == 1:
                common = sorted(first.values.keys() & second.values.keys())
                made = _paired(first, second, common) if len(common) > 1 else _groups(first, second)
                if made is not None:
                    result.append(made)
    corrected = holm([one.p for one in result]) if result else ()
    return [replace(one, corrected=float(p)) for one, p in zip(result, corrected, strict=True)]


def _measures(found: Sequence[Group]) -> list[list[Group]]:
    """The conditions of each measure but the lapse rate."""
    names = dict.fromkeys((one.task, one.name) for one in found if one.name != "lapse")
    return [[one for one in found if (one.task, one.name) == name] for name in names]


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
    effect = cohen_d(b, a)
    power = power_of_groups(effect, len(a), len(b))
    return Comparison(*names, len(a) + len(b), measured, effect, p, p, power)


@dataclass(frozen=True)
class Variance:
    """An analysis of variance of a measure, of factors within participants.

    Attributes:
        task, name: of what.
        group: levels of the factors between participants; empty without such factors.
        count: participants who have a value in each condition.
        effects: of the factors and their interactions.
    """

    task: str
    name: str
    group: str
    count: int
    effects: tuple[Effect, ...]


def variances(found: Sequence[Group], between: Collection[str] = ()) -> list[Variance]:
    """The analyses of variance of each measure, and each group, with three conditions within participants at least.

    Of two conditions it is the paired t test of `comparisons`. Participants without a value in a condition are left
    out; where fewer than three are left, or all differences are equal, there is none.
    """
    result = []
    for own in _measures(found):
        parts: dict[str, list[Group]] = {}
        for one in own:
            label = ",".join(f"{name}={level}" for name, level in one.factors.items() if name in between)
            parts.setdefault(label, []).append(one)
        for label, part in parts.items():
            made = _variance(part, [name for name in part[0].factors if name not in between])
            if made is not None:
                result.append(Variance(part[0].task, part[0].name, label, *made))
    return result


def _variance(found: Sequence[Group], within: Sequence[str]) -> tuple[int, tuple[Effect, ...]] | None:
    """Participants and effects; `found` are the conditions of a measure in one group."""
    levels = [list(dict.fromkeys(one.factors[name] for one in found)) for name in within]
    by = {tuple(one.factors[name] for name in within): one.values for one in found}
    conditions = list(itertools.product(*levels))
    if len(conditions) < 3 or any(condition not in by for condition in conditions):
        return None
    common = sorted(set.intersection(*(set(by[condition]) for condition in conditions)))
    if len(common) < 3:
        return None
    varied = [i for i, some in enumerate(levels) if len(some) > 1]
    values = np.array([[by[condition][code] for condition in conditions] for code in common])
    values = values.reshape(len(common), *(len(levels[i]) for i in varied))
    effects = repeated_measures_anova(values, [within[i] for i in varied])
    return (len(common), tuple(effects)) if all(math.isfinite(one.F) for one in effects) else None
