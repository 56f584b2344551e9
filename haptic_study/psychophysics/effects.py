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
    """Analysis of variance of factors within participants.

    Orthonormal contrasts C of an effect give each participant's scores y = C x, as many as the effect has degrees of
    freedom. With n participants, mean m and covariance S of the scores, SS_effect = n |m|^2 with df, SS_error =
    (n - 1) tr S with df (n - 1), and epsilon = (tr S)^2 / (df tr S^2) (Maxwell and Delaney 2004, chapters 11 to 13).

    Args:
        values: mean of each participant in each condition, (participants, levels of the first factor, ...).
        factors: name of each factor.

    Returns:
        The effects: single factors first, then interactions.

    Raises:
        ParameterError: values that are missing, not finite, or of too few participants or levels.
    """
    x = np.asarray(values, float)
    if x.ndim != len(factors) + 1 or len(factors) < 1:
        raise ParameterError(
            [f"values: {x.ndim} dimensions; must be {len(factors) + 1}, of participants and {len(factors)} factors"]
        )
    if len(x) < 2 or min(x.shape[1:]) < 2:
        raise ParameterError(
            [f"values: shape {list(x.shape)}; must have two participants, and two levels of each factor, at least"]
        )
    if not np.isfinite(x).all():
        where = [int(i) for i in np.argwhere(~np.isfinite(x))[0]]
        raise ParameterError([f"values{where}: not finite; must be the mean of that participant in that condition"])
    n, result = len(x), []
    for size in range(1, len(factors) + 1):
        for chosen in itertools.combinations(range(len(factors)), size):
            contrasts = np.ones((1, 1))
            for i, levels in enumerate(x.shape[1:]):
                orthonormal = linalg.helmert(levels) if i in chosen else np.full((1, levels), levels**-0.5)
                contrasts = np.kron(contrasts, orthonormal)
            scores = x.reshape(n, -1) @ contrasts.T
            mean, S = scores.mean(axis=0), np.atleast_2d(np.cov(scores, rowvar=False))
            df, trace = len(contrasts), float(np.trace(S))
            ratio = _over(n * float(mean @ mean), trace)  # (n |m|^2 / df) / ((n - 1) tr S / (df (n - 1)))
            epsilon = trace**2 / (df * float(np.sum(S * S))) if trace > 0.0 else 1.0
            error = df * (n - 1)
            eta = partial_eta_squared(ratio, df, error) if math.isfinite(ratio) else 1.0
            p, corrected = (float(special.fdtrc(k * df, k * error, ratio)) for k in (1.0, epsilon))
            name = ":".join(factors[i] for i in chosen)
            result.append(Effect(name, ratio, df, error, p, epsilon, corrected, eta))
    return result


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
