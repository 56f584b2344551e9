"""Sizes of effects, corrections for many comparisons, and the analysis of variance of repeated measures."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, special

from haptic_sim.inputs import ParameterError, shown


def cohen_d(first: Any, second: Any) -> float:
    """Difference of the means of two groups over their pooled standard deviation (Cohen 1988, chapter 2)."""
    a, b = _sample("first", first), _sample("second", second)
    pooled = ((len(a) - 1) * a.var(ddof=1) + (len(b) - 1) * b.var(ddof=1)) / (len(a) + len(b) - 2)
    return _over(a.mean() - b.mean(), math.sqrt(pooled))


def cohen_dz(first: Any, second: Any) -> float:
    """Mean difference of pairs over the standard deviation of the differences (Cohen 1988, chapter 2)."""
    a, b = _sample("first", first), _sample("second", second)
    if len(a) != len(b):
        raise ParameterError([f"second: {len(b)} values; must be {len(a)}, one for each of first"])
    difference = a - b
    return _over(difference.mean(), difference.std(ddof=1))


def partial_eta_squared(F: float, effect: float, error: float) -> float:
    """SS_effect / (SS_effect + SS_error), from F and its degrees of freedom of effect and error (Cohen 1973)."""
    return F * effect / (F * effect + error)


def _sample(name: str, values: Any) -> np.ndarray:
    sample = np.asarray(values, float)
    if sample.ndim != 1 or len(sample) < 2 or not np.isfinite(sample).all():
        raise ParameterError([f"{name} = {shown(np.asarray(values).tolist())}: must be two finite numbers at least"])
    return sample


def _over(difference: float, deviation: float) -> float:
    if deviation > 0.0:
        return float(difference / deviation)
    return math.copysign(math.inf, difference) if difference else 0.0


# -- many comparisons --------------------------------------------------------------------------------------------------


def bonferroni(p_values: Any) -> np.ndarray:
    """p-values times their number, 1 at most: the probability of any false rejection is bounded."""
    p = _p_values(p_values)
    return np.minimum(p * len(p), 1.0)


def holm(p_values: Any) -> np.ndarray:
    """Adjusted p-values of the step-down procedure of Holm (1979), which bounds the same and rejects no less."""
    p = _p_values(p_values)
    order = np.argsort(p)
    adjusted = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return _back(np.minimum(adjusted, 1.0), order)


def benjamini_hochberg(p_values: Any) -> np.ndarray:
    """Adjusted p-values of Benjamini and Hochberg (1995): the expected share of false rejections is bounded."""
    p = _p_values(p_values)
    order = np.argsort(p)
    adjusted = np.minimum.accumulate((p[order] * len(p) / np.arange(1, len(p) + 1))[::-1])[::-1]
    return _back(np.minimum(adjusted, 1.0), order)


def _back(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    result = np.empty(len(order))
    result[order] = values
    return result


def _p_values(values: Any) -> np.ndarray:
    p = np.asarray(values, float)
    if p.ndim != 1 or not ((p >= 0.0) & (p <= 1.0)).all():
        raise ParameterError([f"p_values = {shown(p.tolist())}: must be a list of numbers from 0 to 1"])
    return p


# -- repeated measures -------------------------------------------------------------------------------------------------


class Effect(NamedTuple):
    """An effect of an analysis of variance.

    Attributes:
        name: factors of the effect, joined by `:` for an interaction.
        F: mean square of the effect over that of its error.
        effect, error: degrees of freedom.
        p_value: of F, if all differences of conditions have the same variance (sphericity).
        epsilon: by which the degrees of freedom are multiplied where they have not (Greenhouse and Geisser 1959).
        corrected_p_value: with these degrees of freedom.
        partial_eta_squared: size of the effect.
    """

    name: str
    F: float
    effect: int
    error: int
    p_value: float
    epsilon: float
    corrected_p_value: float
    partial_eta_squared: float


def repeated_measures_anova(values: Any, factors: Sequence[str]) -> list[Effect]:
    """Analysis of variance of factors within participants: `mixed_anova` without groups."""
    return mixed_anova(values, factors)


def mixed_anova(values: Any, within: Sequence[str], groups: Mapping[str, Sequence[Any]] | None = None) -> list[Effect]:
    """Analysis of variance of factors within participants and between groups of them.

    Orthonormal contrasts C of an effect within participants give each participant's scores y = C x, as many (d) as that
    effect has degrees of freedom; of effects between groups alone, C is the mean over the conditions (d = 1). The
    scores of n participants are a linear model of the groups, Y = X B + E, where the columns of X code the factors
    between participants by effects (1, 0, -1) and products of these. A term of this model, of the k columns L, has
    (Maxwell and Delaney 2004, chapters 11 to 14; sums of squares of type III: levels count alike whatever the sizes of
    the groups)

        SS_effect = tr (L B)' (L (X'X)^-1 L')^-1 (L B),      degrees of freedom k d,
        SS_error = tr E'E,                                   (n - rank X) d,
        epsilon = (tr S)^2 / (d tr S^2),    S = E'E / (n - rank X)          (Greenhouse and Geisser 1959).

    Without groups X is a column of ones, and its term is the effect within participants: SS_effect = n |m|^2 with the
    mean m of the scores.

    Args:
        values: mean of each participant in each condition, (participants, levels of the first factor, ...).
        within: name of each factor within participants.
        groups: the level of each participant, by the name of the factor between participants.

    Returns:
        The effects: of groups first, then those within participants, single factors before interactions, each
        followed by its interactions with the groups.

    Raises:
        ParameterError: values that are missing, not finite, or of too few participants or levels.
    """
    x, between = np.asarray(values, float), dict(groups or {})
    _check_design(x, within, between)
    X, terms = _between(len(x), between)
    inverse = np.linalg.inv(X.T @ X)
    degrees = len(x) - X.shape[1]
    result = []
    for size in range(len(within) + 1):
        for chosen in itertools.combinations(range(len(within)), size):
            contrasts = np.ones((1, 1))
            for i, levels in enumerate(x.shape[1:]):
                orthonormal = linalg.helmert(levels) if i in chosen else np.full((1, levels), levels**-0.5)
                contrasts = np.kron(contrasts, orthonormal)
            Y = x.reshape(len(x), -1) @ contrasts.T
            B = inverse @ X.T @ Y
            S = (Y - X @ B).T @ (Y - X @ B) / degrees
            d, trace = len(contrasts), float(np.trace(S))
            epsilon = trace**2 / (d * float(np.sum(S * S))) if trace > 0.0 else 1.0
            for names, columns in terms.items():
                if not chosen and not names:
                    continue  # the grand mean
                LB = B[columns]
                H = LB.T @ np.linalg.solve(inverse[np.ix_(columns, columns)], LB)
                df, error = len(columns) * d, degrees * d
                ratio = _over(float(np.trace(H)) / len(columns), trace)  # (SS / (k d)) / (SS_error / (degrees d))
                eta = partial_eta_squared(ratio, df, error) if math.isfinite(ratio) else 1.0
                p, corrected = (float(special.fdtrc(k * df, k * error, ratio)) for k in (1.0, epsilon))
                name = ":".join([*(within[i] for i in chosen), *names])
                result.append(Effect(name, ratio, df, error, p, epsilon, corrected, eta))
    return result


def _check_design(x: np.ndarray, within: Sequence[str], between: Mapping[str, Sequence[Any]]) -> None:
    """Refuse values that have no analysis of variance."""
    if x.ndim != len(within) + 1 or not (within or between):
        raise ParameterError(
            [f"values: {x.ndim} dimensions; must be {len(within) + 1}, of participants and {len(within)} factors"]
        )
    if len(x) < 2 or min(x.shape[1:], default=2) < 2:
        raise ParameterError(
            [f"values: shape {list(x.shape)}; must have two participants, and two levels of each factor, at least"]
        )
    if not np.isfinite(x).all():
        where = [int(i) for i in np.argwhere(~np.isfinite(x))[0]]
        raise ParameterError([f"values{where}: not finite; must be the mean of that participant in that condition"])
    for name, levels in between.items():
        if len(levels) != len(x) or len(set(levels)) < 2:
            found = f"{len(levels)} levels, {len(set(levels))} of them different"
            raise ParameterError([f"groups.{name}: {found}; must be {len(x)}, two different ones at least"])
    cells = set(zip(*between.values(), strict=True)) if between else {()}
    wanted = math.prod(len(set(levels)) for levels in between.values())
    if len(cells) < wanted or len(x) <= wanted:
        found = f"{len(x)} participants in {len(cells)} of {wanted} groups"
        raise ParameterError([f"groups: {found}; must be one in each group, and one more"])


def _between(n: int, groups: Mapping[str, Sequence[Any]]) -> tuple[np.ndarray, dict[tuple[str, ...], list[int]]]:
    """The design between participants, (n, columns), and the columns of each term by the names of its factors."""
    codes = []
    for levels in groups.values():
        different = list(dict.fromkeys(levels))
        effects = np.vstack([np.eye(len(different) - 1), -np.ones(len(different) - 1)])
        codes.append(effects[[different.index(level) for level in levels]])
    columns = [np.ones((n, 1))]
    terms: dict[tuple[str, ...], list[int]] = {(): [0]}
    for size in range(1, len(codes) + 1):
        for chosen in itertools.combinations(range(len(codes)), size):
            block = np.ones((n, 1))
            for i in chosen:
                block = (block[:, :, None] * codes[i][:, None, :]).reshape(n, -1)
            first = sum(one.shape[1] for one in columns)
            names = list(groups)
            terms[tuple(names[i] for i in chosen)] = list(range(first, first + block.shape[1]))
            columns.append(block)
    return np.hstack(columns), terms


def pairwise(groups: Mapping[str, Any]) -> list[tuple[str, str, float, float, float]]:
    """Paired t tests between all conditions: both names, t, p-value after Holm's correction, and dz.

    Args:
        groups: values of the participants, in the same order, by condition.
    """
    names = list(groups)
    pairs = list(itertools.combinations(names, 2))
    dz = [cohen_dz(groups[a], groups[b]) for a, b in pairs]
    n = [len(np.asarray(groups[a])) for a, _ in pairs]
    t = [size * math.sqrt(count) for size, count in zip(dz, n, strict=True)]
    p = [2.0 * float(special.stdtr(count - 1, -abs(one))) for one, count in zip(t, n, strict=True)]
    return [(a, b, *rest) for (a, b), *rest in zip(pairs, t, holm(p).tolist(), dz, strict=True)]
