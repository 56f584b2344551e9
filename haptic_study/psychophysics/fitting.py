"""Psychometric functions fitted to answers by maximum likelihood, with bootstrap intervals and goodness of fit.

The likelihood is that of independent answers (`likelihood`); guess and lapse rates are fixed, or free between bounds: a
lapse rate that is fixed at 0 biases threshold and spread when the participant lapses at all (Wichmann and Hill 2001a).
Intervals are those of the profile likelihood, or of a bootstrap (Wichmann and Hill 2001b; Efron 1987). The goodness of
fit is the deviance, compared with the deviances of simulated experiments (Wichmann and Hill 2001a).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from scipy import optimize, special

from haptic_sim.inputs import ParameterError, shown
from haptic_study.psychophysics import likelihood
from haptic_study.psychophysics.functions import PsychometricFunction, function_of

PARAMETERS = ("threshold", "spread", "guess", "lapse")
Bounds = tuple[float, float]
Statistic = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""A quantity of thresholds, spreads, guess rates and lapse rates, arrays of one shape."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A psychometric function fitted to answers.

    Attributes:
        function: the family.
        levels: different levels (K,), in ascending order.
        correct, total: positive answers and trials at each (K,).
        threshold, spread, guess, lapse: parameters of largest likelihood (see `functions` for their meaning).
        log_likelihood: of the answers, without the binomial coefficients.
        deviance: twice the logarithm of the ratio of likelihoods, of a model with a probability for each level to this.
        covariance: of the four parameters (4, 4), the inverse of the expected information; 0 for a parameter that is
            fixed or on its bound, NaN where the answers do not determine the others.
        at_bounds: names of free parameters that are on a bound: the answers do not determine them.
        low, high: bounds of the four parameters; equal for one that is fixed.
    """

    function: PsychometricFunction
    levels: np.ndarray
    correct: np.ndarray
    total: np.ndarray
    threshold: float
    spread: float
    guess: float
    lapse: float
    log_likelihood: float
    deviance: float
    covariance: np.ndarray = field(repr=False)
    at_bounds: tuple[str, ...]
    low: np.ndarray = field(repr=False)
    high: np.ndarray = field(repr=False)

    @property
    def parameters(self) -> tuple[float, float, float, float]:
        """Threshold, spread, guess and lapse."""
        return self.threshold, self.spread, self.guess, self.lapse

    def probability(self, x: Any) -> np.ndarray:
        """Probability of a positive answer at levels x."""
        return self.function.probability(x, *self.parameters)

    def threshold_at(self, p: float) -> float:
        """The level at which a positive answer has probability p, guesses and lapses included.

        Raises:
            ParameterError: no level has that probability.
        """
        if not self.guess < p < 1.0 - self.lapse:
            allowed = f"must be between guess = {self.guess:g} and 1 - lapse = {1.0 - self.lapse:g}, without these"
            raise ParameterError([f"p = {shown(p)}: {allowed}"])
        return float(self.function.inverse(p, *self.parameters))


def fit(
    levels: Any,
    correct: Any,
    total: Any,
    function: str | PsychometricFunction = "cumulative_normal",
    guess: float | Bounds = 0.5,
    lapse: float | Bounds = (0.0, 0.1),
    threshold: Bounds | None = None,
    spread: Bounds | None = None,
) -> Fit:
    """Fit a psychometric function by maximum likelihood.

    Args:
        levels: of the stimulus (N,); repeated ones are counted together.
        correct: positive answers at each (N,): correct ones in a forced choice, else those that say yes.
        total: trials at each (N,).
        function: name of the family, or an object of one.
        guess, lapse: rate, or its bounds where it is free.
        threshold: bounds; by default the range of the levels and once more that range on both sides.
        spread: bounds; by default from a tenth of the smallest difference of levels to ten times their range. For a
            function of ln x both defaults are those of ln x.

    Returns:
        The fit of largest likelihood; three starts are taken from a grid of the bounds.

    Raises:
        ParameterError: answers or bounds that are not acceptable.
    """
    family = function_of(function)
    x, c, n = _answers(levels, correct, total, family)
    u = family.coordinate(x)
    finite = u[np.isfinite(u)]
    width = float(np.ptp(finite)) or 1.0
    gap = float(np.min(np.diff(finite))) if len(finite) > 1 else width
    low, high = np.empty(4), np.empty(4)
    limits: list[float | Bounds] = [
        threshold or _pair(family.level(np.array([finite[0] - width, finite[-1] + width]))),
        spread or (0.1 * gap, 10.0 * width),
        guess,
        lapse,
    ]
    for i, (name, limit) in enumerate(zip(PARAMETERS, limits, strict=True)):
        low[i], high[i] = _bounds(
            name, limit, positive=name == "spread" or (name == "threshold" and family.logarithmic)
        )
    if not high[2] + high[3] < 1.0:
        raise ParameterError([f"guess + lapse = {high[2] + high[3]:g} at most: must be < 1"])
    return _fit(family, x, c, n, low, high)


def _fit(family: PsychometricFunction, x: Any, c: Any, n: Any, low: np.ndarray, high: np.ndarray) -> Fit:
    u, inner_low, inner_high = family.coordinate(x), _inner(family, low), _inner(family, high)
    start = likelihood.starts(family, u, c[None], n[None], inner_low, inner_high)[0]
    rows = len(start)
    theta, reached = likelihood.maximise(
        family, u, np.tile(c, (rows, 1)), np.tile(n, (rows, 1)), start, inner_low, inner_high
    )
    chosen = theta[int(np.argmax(reached))]
    values = np.clip(_outer(family, chosen), low, high)
    p, q, J = likelihood.predict(family, u, chosen[None])
    free = (chosen > inner_low) & (chosen < inner_high)
    touched = tuple(name for i, name in enumerate(PARAMETERS) if not free[i] and low[i] < high[i])
    scale = np.array([values[0] if family.logarithmic else 1.0, values[1], 1.0, 1.0])  # d(parameters)/d(theta)
    covariance = np.zeros((4, 4))
    inner = likelihood.information(p, q, J, n[None])[0][np.ix_(free, free)]
    determined = bool(free.any()) and np.linalg.cond(inner) < 1e12
    covariance[np.ix_(free, free)] = np.linalg.inv(inner) if determined else np.nan
    threshold, spread, guess, lapse = map(float, values)
    return Fit(
        function=family,
        levels=x,
        correct=c,
        total=n,
        threshold=threshold,
        spread=spread,
        guess=guess,
        lapse=lapse,
        log_likelihood=float(np.max(reached)),
        deviance=float(_deviance(p, q, c[None], n[None])[0]),
        covariance=covariance * scale[:, None] * scale,
        at_bounds=touched,
        low=low,
        high=high,
    )


def _pair(values: np.ndarray) -> Bounds:
    return float(values[0]), float(values[1])


def _answers(levels: Any, correct: Any, total: Any, family: PsychometricFunction) -> tuple[np.ndarray, ...]:
    """Levels in ascending order, each once and with trials, with the counts of answers."""
    columns = {"levels": levels, "correct": correct, "total": total}
    arrays = {name: np.atleast_1d(np.asarray(one, float)) for name, one in columns.items()}
    shapes = {one.shape for one in arrays.values()}
    if len(shapes) > 1 or len(next(iter(shapes))) != 1:
        raise ParameterError([f"levels, correct, total: {shapes} values; must be lists of one length"])
    x, c, n = arrays.values()
    for name, one in arrays.items():
        wrong = ~np.isfinite(one)
        if name != "levels":
            wrong |= (one < 0.0) | (one != np.round(one))
        if wrong.any():
            i = int(np.argmax(wrong))
            rule = "must be finite" if name == "levels" else "must be a whole number of trials"
            raise ParameterError([f"{name}[{i}] = {one[i]:g}: {rule}"])
    if (c > n).any():
        i = int(np.argmax(c > n))
        raise ParameterError([f"correct[{i}] = {c[i]:g}: must be at most total[{i}] = {n[i]:g}"])
    if family.logarithmic and (x < 0.0).any():
        i = int(np.argmax(x < 0.0))
        raise ParameterError([f"levels[{i}] = {x[i]:g}: must be >= 0 for {family.name}, a function of ln x"])
    x, c, n = x[n > 0.0], c[n > 0.0], n[n > 0.0]
    different, where = np.unique(x, return_inverse=True)
    if np.isfinite(family.coordinate(different)).sum() < 2:
        needed = "different levels above 0" if family.logarithmic else "different levels"
        raise ParameterError([f"levels: {len(different)} with trials; must be two {needed} at least"])
    return different, np.bincount(where, c), np.bincount(where, n)


def _bounds(name: str, limit: float | Sequence[float], positive: bool) -> Bounds:
    values = [float(one) for one in np.atleast_1d(np.asarray(limit, float))]
    if len(values) > 2 or not all(map(math.isfinite, values)) or not values[0] <= values[-1]:
        raise ParameterError([f"{name} = {shown(limit)}: must be a number, or a lower and an upper bound"])
    if positive and not values[0] > 0.0:
        raise ParameterError([f"{name} = {shown(limit)}: must be > 0"])
    if name in ("guess", "lapse") and not 0.0 <= values[0] <= values[-1] < 1.0:
        raise ParameterError([f"{name} = {shown(limit)}: must be a rate, >= 0 and < 1"])
    return values[0], values[-1]


def _inner(family: PsychometricFunction, parameters: np.ndarray) -> np.ndarray:
    """theta of parameters (4,)."""
    return np.array([family.coordinate(parameters[0]), math.log(parameters[1]), parameters[2], parameters[3]])


def _outer(family: PsychometricFunction, theta: np.ndarray) -> np.ndarray:
    """Parameters of theta (..., 4)."""
    return np.stack([family.level(theta[..., 0]), np.exp(theta[..., 1]), theta[..., 2], theta[..., 3]], axis=-1)


def _deviance(p: np.ndarray, q: np.ndarray, c: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Deviance (B,) of tables (B, K) (Wichmann and Hill 2001a); an empty cell adds nothing."""
    w = n - c
    terms = special.xlogy(c, c / (n * np.maximum(p, likelihood.SMALLEST)))
    return 2.0 * (terms + special.xlogy(w, w / (n * np.maximum(q, likelihood.SMALLEST)))).sum(axis=-1)


# -- intervals ---------------------------------------------------------------------------------------------------------


def likelihood_interval(fit: Fit, parameter: str = "threshold", confidence: float = 0.95) -> Bounds:
    """Confidence interval of a parameter by its profile likelihood.

    It holds the values v with 2 (l - max l(theta; parameter = v)) <= chi^2_1, where l is the largest likelihood and the
    maximum is over all other free parameters (Wilks 1938; Venzon and Moolgavkar 1988).

    Args:
        fit: of the answers.
        parameter: `threshold`, `spread`, `guess` or `lapse`.
        confidence: of the interval.

    Returns:
        Lower and upper end; a bound of the fit where the likelihood is not low enough within the bounds.

    Raises:
        ParameterError: an argument that is not acceptable.
    """
    if parameter not in PARAMETERS:
        raise ParameterError([f"parameter = {shown(parameter)}: must be one of {', '.join(PARAMETERS)}"])
    _check_confidence(confidence)
    i, limit = PARAMETERS.index(parameter), float(special.chdtri(1.0, 1.0 - confidence))
    best = fit.parameters[i]

    def excess(value: float) -> float:
        low, high = fit.low.copy(), fit.high.copy()
        low[i] = high[i] = value
        other = _fit(fit.function, fit.levels, fit.correct, fit.total, low, high)
        return 2.0 * (fit.log_likelihood - other.log_likelihood) - limit

    ends = []
    for bound in (float(fit.low[i]), float(fit.high[i])):
        beyond = bound != best and excess(bound) > 0.0
        ends.append(optimize.brentq(excess, bound, best, xtol=1e-6 * abs(bound - best)) if beyond else bound)
    return ends[0], ends[1]


def _check_confidence(confidence: float) -> None:
    if not 0.0 < confidence < 1.0:
        raise ParameterError([f"confidence = {shown(confidence)}: must be between 0 and 1"])


# -- bootstrap ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Intervals:
    """Confidence intervals of a fit, from fits to simulated experiments.

    Attributes:
        fit: whose intervals these are.
        confidence: the probability that an interval holds the true value.
        method: `bca` (bias-corrected and accelerated) or `percentile`.
        draws: threshold, spread, guess and lapse of each simulated experiment (B, 4).
        threshold, spread, guess, lapse: lower and upper end; of a parameter that is fixed, its value twice.
    """

    fit: Fit
    confidence: float
    method: str
    draws: np.ndarray = field(repr=False)

    @property
    def threshold(self) -> Bounds:
        """Interval of the threshold."""
        return self.of(lambda threshold, spread, guess, lapse: threshold)

    @property
    def spread(self) -> Bounds:
        """Interval of the spread."""
        return self.of(lambda threshold, spread, guess, lapse: spread)

    @property
    def guess(self) -> Bounds:
        """Interval of the guess rate."""
        return self.of(lambda threshold, spread, guess, lapse: guess)

    @property
    def lapse(self) -> Bounds:
        """Interval of the lapse rate."""
        return self.of(lambda threshold, spread, guess, lapse: lapse)

    def threshold_at(self, p: float) -> Bounds:
        """Interval of the level at which a positive answer has probability p."""
        return self.of(lambda *parameters: self.fit.function.inverse(p, *parameters))

    def of(self, statistic: Statistic) -> Bounds:
        """Interval of any quantity of the parameters; simulated experiments in which it is not defined are left out.

        Raises:
            ParameterError: it is defined in fewer than half of the simulated experiments.
        """
        values = np.asarray(statistic(*self.draws.T), float)
        values = np.sort(values[np.isfinite(values)])
        if 2 * len(values) < len(self.draws):
            found = f"{len(values)} of {len(self.draws)} simulated experiments"
            raise ParameterError([f"statistic: defined in {found}; must be so in half of them: take a lower p"])
        tails = np.array([0.5 * (1.0 - self.confidence), 0.5 * (1.0 + self.confidence)])
        if self.method == "bca" and np.ptp(values) > 0.0:
            tails = self._corrected(tails, statistic, values)
        low, high = np.quantile(values, tails)
        return float(low), float(high)

    def _corrected(self, tails: np.ndarray, statistic: Statistic, values: np.ndarray) -> np.ndarray:
        """Quantiles of the bootstrap distribution that bound the interval (Efron 1987).

        The bias is that of the median; ties (a parameter on its bound) count half. The acceleration is a sixth of the
        skewness of the score in the least favourable direction, I^-1 grad(statistic) (Efron 1987), where the
        third cumulant of a binomial count is n p q (1 - 2 p).
        """
        estimate = float(statistic(*(np.array([one]) for one in self.fit.parameters))[0])
        below = np.mean(values < estimate) + 0.5 * np.mean(values == estimate)
        bias = special.ndtri(np.clip(below, 0.5 / len(values), 1.0 - 0.5 / len(values)))
        acceleration = self._acceleration(statistic)
        shifted = bias + special.ndtri(tails)
        return special.ndtr(bias + shifted / np.maximum(1.0 - acceleration * shifted, 1e-3))

    def _acceleration(self, statistic: Statistic) -> float:
        one = self.fit
        theta = _inner(one.function, np.array(one.parameters))
        free = (theta > _inner(one.function, one.low)) & (theta < _inner(one.function, one.high))
        if not free.any():
            return 0.0
        step = 1e-6
        sides = _outer(one.function, theta + step * np.concatenate([np.eye(4), -np.eye(4)]))
        along = np.asarray(statistic(*sides.T), float)
        gradient = (along[:4] - along[4:])[free] / (2.0 * step)
        p, q, J = likelihood.predict(one.function, one.function.coordinate(one.levels), theta[None])
        information = likelihood.information(p, q, J, one.total[None])[0][np.ix_(free, free)]
        direction = np.linalg.pinv(information, hermitian=True) @ gradient
        p, q = np.maximum(p[0], likelihood.SMALLEST), np.maximum(q[0], likelihood.SMALLEST)
        score = J[0][:, free] @ direction / (p * q)
        variance = np.sum(score**2 * one.total * p * q)
        third = np.sum(score**3 * one.total * p * q * (1.0 - 2.0 * p))
        return float(third / (6.0 * variance**1.5)) if variance > 0.0 else 0.0


def bootstrap(
    fit: Fit,
    samples: int = 2000,
    seed: int = 0,
    parametric: bool = True,
    confidence: float = 0.95,
    method: Literal["bca", "percentile"] = "bca",
) -> Intervals:
    """Confidence intervals of the parameters of a fit.

    Args:
        fit: of the answers.
        samples: number of simulated experiments, each with the levels and numbers of trials of the fit.
        seed: of their answers.
        parametric: whether answers have the probabilities of the fitted function, or the observed proportions.
        confidence: of the intervals.
        method: which quantiles bound them.

    Raises:
        ParameterError: an argument that is not acceptable.
    """
    if not samples >= 40:
        raise ParameterError([f"samples = {shown(samples)}: must be at least 40"])
    _check_confidence(confidence)
    if method not in ("bca", "percentile"):
        raise ParameterError([f"method = {shown(method)}: must be bca or percentile"])
    p = fit.probability(fit.levels) if parametric else fit.correct / fit.total
    return Intervals(fit, confidence, method, _simulated(fit, p, samples, seed)[0])


@dataclass(frozen=True)
class GoodnessOfFit:
    """Whether the deviance of a fit is one of the model.

    Attributes:
        deviance: of the fit.
        degrees_of_freedom: number of levels less the number of free parameters.
        p_value: share of experiments simulated with the fitted function whose deviance is at least as large; both the
            simulated ones and the fit itself are counted.
        asymptotic_p_value: the same by the chi-square distribution, which the deviance approaches with many trials for
            each level, but not with few (Wichmann and Hill 2001a); NaN without degrees of freedom.
    """

    deviance: float
    degrees_of_freedom: int
    p_value: float
    asymptotic_p_value: float


def goodness_of_fit(fit: Fit, samples: int = 2000, seed: int = 0) -> GoodnessOfFit:
    """Compare the deviance of a fit with those of experiments that are simulated with its function and fitted."""
    if not samples >= 40:
        raise ParameterError([f"samples = {shown(samples)}: must be at least 40"])
    deviances = _simulated(fit, fit.probability(fit.levels), samples, seed)[1]
    degrees = len(fit.levels) - int(np.sum(fit.low < fit.high))
    larger = int(np.sum(deviances >= fit.deviance * (1.0 - 1e-9)))
    by_chi_square = float(special.chdtrc(degrees, fit.deviance)) if degrees > 0 else math.nan
    return GoodnessOfFit(fit.deviance, degrees, (larger + 1) / (samples + 1), by_chi_square)


def _simulated(fit: Fit, p: np.ndarray, samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Parameters (B, 4) and deviances (B,) of fits to simulated experiments, started at the fit and on the grid."""
    n = np.tile(fit.total, (samples, 1))
    c = np.random.default_rng(seed).binomial(n.astype(int), np.clip(p, 0.0, 1.0)).astype(float)
    family, u = fit.function, fit.function.coordinate(fit.levels)
    low, high = _inner(family, fit.low), _inner(family, fit.high)
    here = np.broadcast_to(_inner(family, np.array(fit.parameters)), (samples, 1, 4))
    begin = np.concatenate([here, likelihood.starts(family, u, c, n, low, high)[:, :2]], axis=1)
    rows = begin.shape[1]
    theta, reached = likelihood.maximise(
        family, u, np.repeat(c, rows, axis=0), np.repeat(n, rows, axis=0), begin.reshape(-1, 4), low, high
    )
    best = np.argmax(reached.reshape(samples, rows), axis=1)
    theta = theta.reshape(samples, rows, 4)[np.arange(samples), best]
    p_hat, q_hat, _ = likelihood.predict(family, u, theta)
    return _outer(family, theta), _deviance(p_hat, q_hat, c, n)


# -- discrimination ----------------------------------------------------------------------------------------------------


def point_of_subjective_equality(fit: Fit) -> float:
    """The level that is judged larger than the reference half of the time, without lapses: the threshold.

    `fit` is that of "comparison is larger" answers to comparison levels, without the guess rate of a forced choice.

    Raises:
        ParameterError: the fit is one of correct answers in a forced choice, which says nothing of a bias.
    """
    _refuse_forced_choice(fit)
    return fit.threshold


def jnd(fit: Fit) -> float:
    """Just noticeable difference, in the unit of the levels.

    Of correct answers in a forced choice of two (guess rate 1/2) against the difference of the two stimuli, it is the
    level at F = 1/2: 75 % correct without lapses. Of "comparison is larger" answers against comparison levels, it is
    half of the distance between F = 1/4 and F = 3/4, 0.674 standard deviations of a cumulative normal function
    (Jones and Tan 2013). Both are of F: lapses are taken out.
    """
    if _forced_choice(fit):
        return fit.threshold
    quarter, three_quarters = fit.function.inverse([0.25, 0.75], fit.threshold, fit.spread)
    return float(0.5 * (three_quarters - quarter))


def weber_fraction(fit: Fit, reference: float | None = None) -> float:
    """Just noticeable difference over the level of the reference.

    Args:
        fit: as in `jnd`.
        reference: its level; by default the point of subjective equality, where the fit has one.

    Raises:
        ParameterError: the reference is not positive, or it is needed and not given.
    """
    level = point_of_subjective_equality(fit) if reference is None else reference
    if not 0.0 < level < math.inf:
        raise ParameterError([f"reference = {shown(level)}: must be > 0"])
    return jnd(fit) / level


def _forced_choice(fit: Fit) -> bool:
    return bool(fit.low[2] == fit.high[2] and fit.guess > 0.3)


def _refuse_forced_choice(fit: Fit) -> None:
    if _forced_choice(fit):
        raise ParameterError(
            [f"guess = {fit.guess:g}: of a forced choice, without a point of subjective equality; give the reference"]
        )
