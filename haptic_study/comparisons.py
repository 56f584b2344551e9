"""Differences between conditions: paired within participants, or between groups; the analysis of variance.

Each measure of a task is a question of its own, of which the tests are corrected together (Holm 1979). Measures that
follow from another one (`SAME_QUESTION`) are shown, and not tested again. Where the study declares comparisons, these
and no others are tested.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtr, stdtrit

from haptic_sim.parameters import ParameterError
from haptic_study.analysis import Group, Measure, power_of_groups, power_of_t
from haptic_study.file import ComparisonParameters
from haptic_study.psychophysics.effects import Effect, cohen_d, cohen_dz, holm, mixed_anova

UNTESTED = ("lapse",)
SAME_QUESTION = {"weber": ("jnd",), "method": ("jnd", "threshold")}
"""Measures that say the same as others of the same task: the difference over the reference, another estimate of it."""


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
        corrected: p by Holm's procedure over the comparisons of this measure of the task.
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


def comparisons(found: Sequence[Group], declared: Mapping[str, ComparisonParameters] | None = None) -> list[Comparison]:
    """Pairs of conditions: those that are declared, or without any all that differ in one factor, of each question.

    Args:
        found: measures over all participants.
        declared: by the study's file. One of which a condition has too few values is left out.
    """
    result = []
    if declared:
        by = {(one.task, one.name, one.condition): one for one in found}
        for asked in declared.values():
            pair = [by.get((asked.task, asked.measure, label)) for label in asked.conditions]
            made = _compared(pair[0], pair[1]) if pair[0] is not None and pair[1] is not None else None
            if made is not None:
                result.append(made)
    else:
        for own in questions(found):
            for first, second in itertools.combinations(own, 2):
                if sum(first.factors[name] != second.factors[name] for name in first.factors) == 1:
                    made = _compared(first, second)
                    if made is not None:
                        result.append(made)
    corrected: dict[int, float] = {}
    for question in dict.fromkeys((one.task, one.name) for one in result):
        family = [i for i, one in enumerate(result) if (one.task, one.name) == question]
        corrected |= dict(zip(family, holm([result[i].p for i in family]), strict=True))
    return [replace(one, corrected=float(corrected[i])) for i, one in enumerate(result)]


def questions(found: Sequence[Group]) -> list[list[Group]]:
    """The conditions of each measure that is tested."""
    known = dict.fromkeys((one.task, one.name) for one in found)
    tested = [
        (task, name)
        for task, name in known
        if name not in UNTESTED and not any((task, other) in known for other in SAME_QUESTION.get(name, ()))
    ]
    return [[one for one in found if (one.task, one.name) == question] for question in tested]


def _compared(first: Group, second: Group) -> Comparison | None:
    """The difference of two conditions; None where it has no test."""
    common = sorted(first.values.keys() & second.values.keys())
    return _paired(first, second, common) if len(common) > 1 else _groups(first, second)


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
    """An analysis of variance of a measure.

    Attributes:
        task, name: of what.
        count: participants who have a value in each condition.
        effects: of the factors within participants and between groups, and their interactions.
    """

    task: str
    name: str
    count: int
    effects: tuple[Effect, ...]


def variances(found: Sequence[Group], between: Collection[str] = ()) -> list[Variance]:
    """The analysis of variance of each question with three conditions at least, those of groups counted.

    Of two conditions it is the t test of `comparisons`. Participants without a value in a condition are left out; where
    too few are left, or all differences are equal, there is none.
    """
    made = (_variance(own, between) for own in questions(found))
    return [one for one in made if one is not None]


def _variance(found: Sequence[Group], between: Collection[str]) -> Variance | None:
    """The analysis of the conditions of a measure."""
    varied = [name for name in found[0].factors if len({one.factors[name] for one in found}) > 1]
    within = [name for name in varied if name not in between]
    groups = [name for name in varied if name in between]
    if len(found) < 3:
        return None
    levels = [list(dict.fromkeys(one.factors[name] for one in found)) for name in within]
    conditions = list(itertools.product(*levels))
    values: dict[str, dict[tuple[str, ...], float]] = {}
    of: dict[str, tuple[str, ...]] = {}
    for one in found:
        for code, value in one.values.items():
            values.setdefault(code, {})[tuple(one.factors[name] for name in within)] = value
            of[code] = tuple(one.factors[name] for name in groups)
    whole = [code for code, own in values.items() if len(own) == len(conditions)]
    table = np.array([[values[code][condition] for condition in conditions] for code in whole])
    if len(whole) < 3:
        return None
    try:
        effects = mixed_anova(
            table.reshape(len(whole), *(len(some) for some in levels)),
            within,
            {name: [of[code][i] for code in whole] for i, name in enumerate(groups)},
        )
    except ParameterError:  # too few participants for so many groups
        return None
    if not all(math.isfinite(one.F) for one in effects):
        return None
    return Variance(found[0].task, found[0].name, len(whole), tuple(effects))
