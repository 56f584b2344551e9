"""Linear mixed models of measures over participants and conditions, by statsmodels where it is installed.

A measure y of participant i in a condition of levels x is taken for

    y = x' b + u_i + e,    u_i ~ N(0, tau^2),    e ~ N(0, sigma^2),

with a random intercept u_i for each participant, fitted by restricted maximum likelihood. Unlike the analysis of
variance it takes participants who have no value in some conditions. Where nobody lacks one, its tests of a factor of
two levels are those of paired t tests, but for the normal distribution in place of Student's.
"""

from __future__ import annotations

import importlib
import itertools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from haptic_sim.errors import HapticsError
from haptic_study.analysis import Group, Measure


class NoStatsmodels(HapticsError):
    """statsmodels is not installed; the text says how to get it."""


@dataclass(frozen=True)
class Coefficient:
    """A coefficient of a model.

    Attributes:
        name: levels that it is of, FACTOR=LEVEL, joined by `:` for an interaction; empty: the mean at the first levels.
        value: with its 95 % interval by Wald.
        p: of the two-sided test by Wald.
    """

    name: str
    value: Measure
    p: float


@dataclass(frozen=True)
class MixedModel:
    """A model of a measure.

    Attributes:
        task, name: of what.
        participants, values: how many.
        coefficients: differences from the first level of each factor, and interactions.
        between, within: standard deviations tau among participants and sigma of the residuals.
    """

    task: str
    name: str
    participants: int
    values: int
    coefficients: tuple[Coefficient, ...]
    between: float
    within: float


def mixed_model(found: Sequence[Group]) -> MixedModel | None:
    """The model of a measure in its conditions; None where its values do not determine one.

    Args:
        found: the conditions of one measure of one task, two at least.

    Raises:
        NoStatsmodels: see above.
    """
    try:
        models: Any = importlib.import_module("statsmodels.regression.mixed_linear_model")
    except ImportError as error:
        raise NoStatsmodels("mixed models: need statsmodels: pip install statsmodels") from error
    rows = [(one, code, value) for one in found for code, value in one.values.items()]
    X, names = _design([one for one, _, _ in rows])
    y, codes = np.array([value for *_, value in rows]), [code for _, code, _ in rows]
    people = len(set(codes))
    if people < 3 or len(y) <= X.shape[1] + people or np.linalg.matrix_rank(X) < X.shape[1]:
        return None
    scale = float(y.std())
    if scale == 0.0:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a variance at its bound, 0, which the table shows
        fitted = models.MixedLM(y / scale, X, groups=np.array(codes)).fit(reml=True)
    value, half = scale * np.asarray(fitted.fe_params), 1.959963984540054 * scale * np.asarray(fitted.bse_fe)
    p = np.asarray(fitted.pvalues)[: len(names)]
    coefficients = tuple(
        Coefficient(name, Measure(float(b), float(b - h), float(b + h)), float(q))
        for name, b, h, q in zip(names, value, half, p, strict=True)
    )
    tau = scale * float(np.sqrt(max(float(np.asarray(fitted.cov_re).item()), 0.0)))
    sigma = scale * float(np.sqrt(fitted.scale))
    return MixedModel(found[0].task, found[0].name, people, len(y), coefficients, tau, sigma)


def _design(found: Sequence[Group]) -> tuple[np.ndarray, list[str]]:
    """Columns of the mean, of levels but the first of each factor, and of their products, and the names of these."""
    factors = [name for name in found[0].factors if len({one.factors[name] for one in found}) > 1]
    columns, names = [np.ones(len(found))], [""]
    for size in range(1, len(factors) + 1):
        for chosen in itertools.combinations(factors, size):
            levels = [list(dict.fromkeys(one.factors[name] for one in found))[1:] for name in chosen]
            for some in itertools.product(*levels):
                wanted = dict(zip(chosen, some, strict=True))
                columns.append(np.array([all(one.factors[k] == v for k, v in wanted.items()) for one in found], float))
                names.append(":".join(f"{name}={level}" for name, level in wanted.items()))
    return np.column_stack(columns), names
