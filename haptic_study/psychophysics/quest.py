"""QUEST+: the next stimulus is the one whose answer is expected to leave the least entropy (Watson 2017).

With the posterior w(theta) on a grid of parameters, and P(o | x, theta) the probability of outcome o of stimulus x, the
expected entropy after an answer to x is

    H(x) = sum_o P(o | x) H(o, x),      P(o | x) = sum_theta P(o | x, theta) w(theta)
         = -sum_o [sum_theta P w ln(P w) - P(o | x) ln P(o | x)]

(Watson 2017). As ln(P w) = ln P + ln w, the inner sum is (P ln P) w + P (w ln w): two products of a
matrix that is computed once with a vector, for each outcome. With threshold and slope as the only parameters it is the
psi method of Kontsevich and Tyler (1999).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from pydantic import model_validator
from scipy import special

from haptic_sim.inputs import ParameterError, shown
from haptic_sim.parameters import Parameters, listed, quantity
from haptic_study.psychophysics.adaptive import AdaptiveMethod, Level, Method, MethodParameters
from haptic_study.psychophysics.functions import FUNCTIONS

Model = Callable[[Mapping[str, np.ndarray], Mapping[str, np.ndarray]], np.ndarray]
"""Probabilities of the outcomes (O, X, T), of stimuli (X, 1) and parameters (1, T) by name."""
LARGEST_TABLE = 5_000_000  # pairs of stimulus and parameters: 160 MB for two outcomes
TIE = 1e-10  # of entropies [nat], below which the first stimulus is taken: rounding must not decide
PARAMETERS = ("threshold", "spread", "guess", "lapse")


class QuestPlus(Method):
    """QUEST+ for any model with discrete outcomes.

    Args:
        model: probabilities of the outcomes.
        stimuli: values of each variable of the stimulus, by name; all combinations are candidates.
        parameters: values of each parameter, by name; all combinations are considered.
        prior: probability of each value of each parameter, by name; those that are missing are uniform.
        trials: number of answers after which it ends.
        deviation: standard deviation of the posterior of `measured` at which it ends; None: trials decide.
        statistic: whether the estimate is the `mean` of the posterior or its `mode`.
        measured: name of the parameter that the estimate calls the threshold.

    Attributes:
        posterior: probability of each combination of parameters (T,), the last parameter varying fastest.

    Raises:
        ParameterError: grids that are too large, or probabilities that are none.
    """

    def __init__(
        self,
        model: Model,
        stimuli: Mapping[str, Any],
        parameters: Mapping[str, Any],
        prior: Mapping[str, Any] | None = None,
        *,
        trials: int,
        deviation: float | None = None,
        statistic: str = "mean",
        measured: str = "threshold",
    ):
        super().__init__()
        self.stimuli = {name: np.asarray(values, float) for name, values in stimuli.items()}
        self.parameters = {name: np.asarray(values, float) for name, values in parameters.items()}
        self._model, self._trials, self._deviation = model, trials, deviation
        self._statistic, self._measured = statistic, measured
        candidates, combinations = (
            np.prod([len(one) for one in grid.values()], dtype=float) for grid in (self.stimuli, self.parameters)
        )
        if candidates * combinations > LARGEST_TABLE:
            found = f"{candidates:g} stimuli and {combinations:g} combinations of parameters"
            raise ParameterError([f"{found}: must be {LARGEST_TABLE:g} pairs at most; use coarser grids"])
        self._candidates = _combinations(self.stimuli)
        self._combinations = _combinations(self.parameters)
        self._table = self._probabilities({name: one[:, None] for name, one in self._candidates.items()})
        if not (np.all(self._table >= 0.0) and np.allclose(self._table.sum(axis=0), 1.0)):
            raise ParameterError(["model: probabilities of the outcomes must be >= 0, with the sum 1"])
        self.OUTCOMES = len(self._table)
        self._information = special.xlogy(self._table, self._table)
        self.posterior = np.ones(1)
        for name, values in self.parameters.items():
            weights = np.asarray((prior or {}).get(name, np.ones(len(values))), float)
            self.posterior = np.outer(self.posterior, weights / weights.sum()).ravel()
        self._chosen: Level | None = None

    @property
    def finished(self) -> bool:
        """Whether the trials are there, or the threshold is as precise as it has to be."""
        precise = self._deviation is not None and len(self.answers) > 0
        return len(self.answers) >= self._trials or (precise and self._spread_of_measured() <= (self._deviation or 0.0))

    @property
    def entropy(self) -> float:
        """Entropy of the posterior [nat]."""
        return float(-special.xlogy(self.posterior, self.posterior).sum())

    @property
    def estimate(self) -> dict[str, Any]:
        """Threshold with the interval that holds it with probability 0.95, all parameters, and the entropy [nat]."""
        if self._statistic == "mode":
            best = int(np.argmax(self.posterior))
            values = {name: float(one[best]) for name, one in self._combinations.items()}
        else:
            values = {name: float(one @ self.posterior) for name, one in self._combinations.items()}
        return {
            "threshold": values[self._measured],
            "interval": self.interval(self._measured),
            "parameters": values,
            "entropy": self.entropy,
        }

    def marginal(self, name: str) -> np.ndarray:
        """Posterior of one parameter, of each of its values."""
        axes = tuple(i for i, other in enumerate(self.parameters) if other != name)
        return self.posterior.reshape([len(one) for one in self.parameters.values()]).sum(axis=axes)

    def interval(self, name: str, probability: float = 0.95) -> tuple[float, float]:
        """Central interval of a parameter; the probability of a value is uniform in its cell of the grid."""
        values, weights = self.parameters[name], self.marginal(name)
        if len(values) == 1:
            return float(values[0]), float(values[0])
        edges = np.concatenate([values[:1], 0.5 * (values[1:] + values[:-1]), values[-1:]])
        cumulated = np.concatenate([[0.0], np.cumsum(weights)])
        tails = 0.5 - 0.5 * probability, 0.5 + 0.5 * probability
        low, high = np.interp(tails, cumulated / cumulated[-1], edges)
        return float(low), float(high)

    def expected_entropies(self) -> np.ndarray:
        """Expected entropy of the posterior after an answer to each candidate (X,) [nat]."""
        inner = special.xlogy(self.posterior, self.posterior)
        total = np.zeros(self._table.shape[1])
        for probabilities, information in zip(self._table, self._information, strict=True):
            predicted = probabilities @ self.posterior
            total += special.xlogy(predicted, predicted) - information @ self.posterior - probabilities @ inner
        return total

    def _probabilities(self, stimuli: Mapping[str, np.ndarray]) -> np.ndarray:
        return self._model(stimuli, {name: one[None, :] for name, one in self._combinations.items()})

    def _spread_of_measured(self) -> float:
        values, weights = self.parameters[self._measured], self.marginal(self._measured)
        return float(np.sqrt(max(weights @ values**2 - (weights @ values) ** 2, 0.0)))

    def _next(self) -> Any:
        if self._chosen is None:
            entropies = self.expected_entropies()
            best = int(np.argmax(entropies <= entropies.min() + TIE))
            values = {name: float(one[best]) for name, one in self._candidates.items()}
            self._chosen = values if len(values) > 1 else next(iter(values.values()))
        return self._chosen

    def _check(self, level: Level) -> None:
        """Any level is taken, as what was rendered may differ from what was asked for."""
        values = level if isinstance(level, dict) else {next(iter(self.stimuli)): level}
        if values.keys() != self.stimuli.keys() or not all(_is_finite(one) for one in values.values()):
            raise ParameterError([f"level = {shown(level)}: must be a finite number for {listed(self.stimuli)}"])

    def _take(self, level: Any, outcome: int) -> None:
        values = level if isinstance(level, dict) else {next(iter(self.stimuli)): level}
        likelihood = self._probabilities({name: np.array([[float(one)]]) for name, one in values.items()})[outcome, 0]
        posterior = self.posterior * likelihood
        total = posterior.sum()
        if not total > 0.0:
            raise ParameterError(
                [f"outcome = {outcome} at level {shown(level)}: impossible with all parameters; allow lapses"]
            )
        self.posterior = posterior / total
        self._chosen = None


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and bool(np.isfinite(value))


def _combinations(grid: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All combinations of the values of a grid, by name."""
    axes = np.meshgrid(*grid.values(), indexing="ij")
    return {name: axis.ravel() for name, axis in zip(grid, axes, strict=True)}


# -- parameters --------------------------------------------------------------------------------------------------------


class GridParameters(Parameters):
    """Values at equal distances, or at equal ratios."""

    low: float = quantity(description="First value")
    high: float = quantity(description="Last value")
    number: int = quantity(ge=2, le=10_000, description="Number of values")
    spacing: Literal["linear", "logarithmic"] = quantity("linear", description="Whether distances or ratios are equal")

    @model_validator(mode="after")
    def _check(self) -> GridParameters:
        if not self.low < self.high:
            raise ValueError(f".low = {self.low:g}: must be below high = {self.high:g}")
        if self.spacing == "logarithmic" and not self.low > 0.0:
            raise ValueError(f".low = {self.low:g}: must be > 0, as the spacing is logarithmic")
        return self

    @property
    def values(self) -> tuple[float, ...]:
        """The values."""
        space = np.geomspace if self.spacing == "logarithmic" else np.linspace
        return tuple(map(float, space(self.low, self.high, self.number)))


class PriorParameters(Parameters):
    """Normal distribution of a parameter, or of its logarithm, before the first answer."""

    mean: float = quantity(description="Mean; of a logarithmic prior, the median")
    deviation: float = quantity(gt=0, description="Standard deviation; of a logarithmic prior, that of ln of the value")
    logarithmic: bool = quantity(False, description="Whether the logarithm is normal")

    def weights(self, values: tuple[float, ...]) -> np.ndarray:
        """Probability of each value, up to a factor."""
        x = np.log(np.asarray(values) / self.mean) if self.logarithmic else np.asarray(values) - self.mean
        return np.exp(-0.5 * (x / self.deviation) ** 2 + 0.5 * np.min((x / self.deviation) ** 2))


Values = GridParameters | float | tuple[float, ...]
Prior = PriorParameters | tuple[float, ...]


class QuestPlusParameters(MethodParameters):
    """QUEST+ with one variable of the stimulus and a psychometric function."""

    type: Literal["quest_plus"] = "quest_plus"
    function: Literal["cumulative_normal", "weibull", "logistic"] = quantity(
        "cumulative_normal", description="Psychometric function"
    )
    levels: Values = quantity(description="Levels of the stimulus that may be presented")
    threshold: Values = quantity(description="Thresholds that are considered")
    spread: Values = quantity(description="Spreads that are considered")
    guess: Values = quantity(0.5, description="Guess rates that are considered")
    lapse: Values = quantity(0.02, description="Lapse rates that are considered")
    prior: dict[str, Prior] = quantity(
        {}, description="Prior of a parameter: one weight a value, or a normal distribution"
    )
    trials: int = quantity(ge=1, le=10_000, description="Answers after which it ends at the latest")
    deviation: float | None = quantity(
        None, gt=0, description="Standard deviation of the threshold's posterior at which it ends; null: trials decide"
    )
    statistic: Literal["mean", "mode"] = quantity("mean", description="Estimate: mean or mode of the posterior")

    @model_validator(mode="after")
    def _check(self) -> QuestPlusParameters:
        for key in ("levels", *PARAMETERS):
            values = _values(getattr(self, key))
            if not values:
                raise ValueError(f".{key}: must have one value at least")
            for i, value in enumerate(values):
                if i > 0 and not value > values[i - 1]:
                    raise ValueError(f".{key}[{i}] = {value:g}: must be above the value before it")
                positive = key == "spread" or (key == "threshold" and self.function == "weibull")
                if positive and not value > 0.0:
                    raise ValueError(f".{key}[{i}] = {value:g}: must be > 0")
                if key in ("guess", "lapse") and not 0.0 <= value < 1.0:
                    raise ValueError(f".{key}[{i}] = {value:g}: must be a rate, >= 0 and < 1")
        if not _values(self.guess)[-1] + _values(self.lapse)[-1] < 1.0:
            raise ValueError(f".lapse = {_values(self.lapse)[-1]:g}: guess + lapse must be < 1")
        for name, prior in self.prior.items():
            if name not in PARAMETERS:
                raise ValueError(f".prior.{name}: unknown parameter; must be one of {', '.join(PARAMETERS)}")
            values = _values(getattr(self, name))
            if isinstance(prior, PriorParameters):
                if prior.logarithmic and not (prior.mean > 0.0 and values[0] > 0.0):
                    raise ValueError(
                        f".prior.{name}.mean = {prior.mean:g}: must be > 0, and so must all values of {name}"
                    )
            elif len(prior) != len(values):
                raise ValueError(f".prior.{name}: {len(prior)} weights; must be {len(values)}, one a value of {name}")
            elif not (min(prior) >= 0.0 and sum(prior) > 0.0):
                raise ValueError(f".prior.{name}: must be weights >= 0, not all of them 0")
        size = float(np.prod([len(_values(getattr(self, key))) for key in ("levels", *PARAMETERS)], dtype=float))
        if size > LARGEST_TABLE:
            raise ValueError(f".levels: {size:g} values of levels and parameters; must be {LARGEST_TABLE:g} at most")
        return self

    def build(self, seed: int) -> AdaptiveMethod:
        """The method; the seed changes nothing."""
        grid = {name: _values(getattr(self, name)) for name in PARAMETERS}
        prior = {
            name: one.weights(grid[name]) if isinstance(one, PriorParameters) else one
            for name, one in self.prior.items()
        }
        return QuestPlus(
            psychometric_model(self.function),
            {"level": _values(self.levels)},
            grid,
            prior,
            trials=self.trials,
            deviation=self.deviation,
            statistic=self.statistic,
        )


class PsiParameters(QuestPlusParameters):
    """Psi method: threshold and spread are estimated, guess and lapse rate are known (Kontsevich and Tyler 1999)."""

    type: Literal["psi"] = "psi"  # type: ignore[assignment]

    @model_validator(mode="after")
    def _check_known(self) -> PsiParameters:
        for key in ("guess", "lapse"):
            if len(_values(getattr(self, key))) != 1:
                found = len(_values(getattr(self, key)))
                raise ValueError(
                    f".{key}: {found} values; must be one, as psi takes it for known; quest_plus takes more"
                )
        return self


def psychometric_model(function: str) -> Model:
    """Probabilities of a negative and a positive answer, of the stimulus `level` and the four parameters."""
    family = FUNCTIONS[function]

    def model(stimuli: Mapping[str, np.ndarray], parameters: Mapping[str, np.ndarray]) -> np.ndarray:
        p = family.probability(stimuli["level"], *(parameters[name] for name in PARAMETERS))
        return np.stack([1.0 - p, p])

    return model


def _values(given: Values) -> tuple[float, ...]:
    if isinstance(given, GridParameters):
        return given.values
    return given if isinstance(given, tuple) else (given,)
