"""Psychometric functions: closed forms, inverses, derivatives; their fits, against another optimiser and psignifit."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import psychometric_oracles as oracles
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from haptic_sim.inputs import ParameterError
from haptic_study.psychophysics import likelihood
from haptic_study.psychophysics.fitting import (
    PARAMETERS,
    Fit,
    bootstrap,
    fit,
    goodness_of_fit,
    jnd,
    likelihood_interval,
    point_of_subjective_equality,
    weber_fraction,
)
from haptic_study.psychophysics.functions import FUNCTIONS, customary_weibull, function_of, weibull_of_customary

RECORDED = json.loads(oracles.RECORDED.read_text(encoding="utf-8"))
NAMES = list(FUNCTIONS)


def table(name: str, seed: int, guess: float = 0.5, trials: int = 50) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    levels, total = np.linspace(1.0, 7.0, 7), np.full(7, trials)
    p = FUNCTIONS[name].probability(levels, 4.0, 0.35 if name == "weibull" else 1.3, guess, 0.02)
    return levels, np.random.default_rng(seed).binomial(total, p), total


# -- functions ---------------------------------------------------------------------------------------------------------


def test_functions_are_distributions_of_scipy() -> None:
    x = np.linspace(0.1, 9.0, 50)
    alpha, beta = customary_weibull(4.0, 0.4)
    known = {
        "cumulative_normal": stats.norm(4.0, 1.5).cdf(x),
        "logistic": stats.logistic(4.0, 1.5).cdf(x),
        "weibull": stats.weibull_min(beta, scale=alpha).cdf(x),
    }
    for name, F in known.items():
        found = FUNCTIONS[name].probability(x, 4.0, 0.4 if name == "weibull" else 1.5, 0.3, 0.05)
        assert found == pytest.approx(0.3 + 0.65 * F, abs=1e-14)
    assert weibull_of_customary(alpha, beta) == pytest.approx((4.0, 0.4))


@given(
    name=st.sampled_from(NAMES),
    threshold=st.floats(0.1, 50.0),
    spread=st.floats(0.05, 3.0),
    guess=st.floats(0.0, 0.6),
    lapse=st.floats(0.0, 0.2),
    share=st.floats(0.01, 0.99),
)
def test_inverses(name: str, threshold: float, spread: float, guess: float, lapse: float, share: float) -> None:
    function = FUNCTIONS[name]
    p = guess + (1.0 - guess - lapse) * share
    assert function.probability(
        function.inverse(p, threshold, spread, guess, lapse), threshold, spread, guess, lapse
    ) == pytest.approx(p, abs=1e-9)
    middle = guess + 0.5 * (1.0 - guess - lapse)
    assert function.inverse(middle, threshold, spread, guess, lapse) == pytest.approx(threshold)
    assert math.isnan(function.inverse(guess - 1e-6, threshold, spread, guess, lapse))
    assert math.isnan(function.inverse(1.0 - lapse + 1e-6, threshold, spread, guess, lapse))


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_are_those_by_differences(name: str) -> None:
    function, u = FUNCTIONS[name], np.array([-np.inf if name == "weibull" else -9.0, -1.0, 0.3, 0.8, 2.0])
    theta = np.array([[0.5, -0.4, 0.2, 0.03]])
    p, q, J = likelihood.predict(function, u, theta)
    assert p + q == pytest.approx(np.ones((1, 5)))
    for i in range(4):
        step = 1e-6 * np.eye(4)[i]
        sides = [likelihood.predict(function, u, theta + sign * step)[0] for sign in (1.0, -1.0)]
        assert J[..., i] == pytest.approx((sides[0] - sides[1]) / 2e-6, abs=1e-9)


def test_a_weibull_function_of_no_stimulus_is_the_guess_rate() -> None:
    assert FUNCTIONS["weibull"].probability([-1.0, 0.0], 2.0, 0.5, 0.25, 0.1) == pytest.approx([0.25, 0.25])


def test_unknown_functions() -> None:
    with pytest.raises(
        ParameterError, match=r"^function = gauss: must be one of cumulative_normal, weibull, logistic$"
    ):
        function_of("gauss")


# -- fits --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_fits_are_those_of_another_optimiser(name: str) -> None:
    """L-BFGS-B of SciPy, from several starts, with derivatives by differences."""
    x, c, n = table(name, seed=3)
    found = fit(x, c, n, name)

    def cost(t: np.ndarray) -> float:
        p = np.clip(FUNCTIONS[name].probability(x, math.exp(t[0]), math.exp(t[1]), 0.5, t[2]), 1e-12, 1.0 - 1e-12)
        return -float(np.sum(c * np.log(p) + (n - c) * np.log1p(-p)))

    starts = [(math.log(a), math.log(b), 0.02) for a in (3.0, 5.0) for b in (0.3, 1.5)]
    best = min(
        (
            optimize.minimize(cost, one, method="L-BFGS-B", bounds=[(-1.0, 2.5), (-3.0, 3.0), (0.0, 0.1)])
            for one in starts
        ),
        key=lambda result: result.fun,
    )
    assert -found.log_likelihood <= best.fun + 1e-9
    assert [found.threshold, found.spread, found.lapse] == pytest.approx(
        [math.exp(best.x[0]), math.exp(best.x[1]), best.x[2]], abs=2e-3
    )


@settings(max_examples=25)
@given(
    name=st.sampled_from(NAMES),
    c=st.lists(st.integers(0, 12), min_size=6, max_size=6),
    guess=st.sampled_from([0.0, 0.5, (0.0, 0.2)]),
)
@example(name="cumulative_normal", c=[10, 6, 0, 1, 12, 7], guess=(0.0, 0.2))  # no level is near the threshold
@example(name="weibull", c=[3, 6, 6, 3, 12, 11], guess=0.5)
@example(name="logistic", c=[1, 3, 2, 7, 12, 10], guess=0.0)  # scoring converges slowly
def test_no_neighbour_of_a_fit_is_more_likely(name: str, c: list[int], guess: Any) -> None:
    """Of any answers, those that no psychometric function explains included."""
    x, n = np.linspace(1.0, 6.0, 6), np.full(6, 12)
    found = fit(x, c, n, name, guess=guess)
    theta = np.array([found.function.coordinate(found.threshold), math.log(found.spread), found.guess, found.lapse])
    low = [found.function.coordinate(found.low[0]), math.log(found.low[1]), *found.low[2:]]
    high = [found.function.coordinate(found.high[0]), math.log(found.high[1]), *found.high[2:]]
    near = theta + np.random.default_rng(2).normal(0.0, 1e-3, (300, 4))
    p, q, _ = likelihood.predict(found.function, found.function.coordinate(x), np.clip(near, low, high))
    other = likelihood.log_likelihood(p, q, np.array(c), n - c)
    assert other.max() <= found.log_likelihood + 1e-7


@pytest.mark.parametrize("one", RECORDED["psignifit"], ids=lambda one: f"{one['function']}-{one['guess']}")
def test_fits_agree_with_psignifit(one: dict[str, Any]) -> None:
    """With flat priors, as the largest likelihood has none, to 1e-5; with its own ones as the priors decide."""
    found = fit(one["levels"], one["correct"], one["total"], one["function"], one["guess"])
    logarithmic = found.function.logarithmic
    threshold = math.log(found.threshold) if logarithmic else found.threshold
    width = found.spread * oracles.WIDTHS[one["function"]]
    assert threshold == pytest.approx(one["flat"]["threshold"], abs=2e-5)
    assert width == pytest.approx(one["flat"]["width"], rel=1e-4)
    assert found.lapse == pytest.approx(one["flat"]["lambda"], abs=1e-5)
    theirs = one["with_priors"]["threshold"]
    assert found.threshold == pytest.approx(math.exp(theirs) if logarithmic else theirs, rel=0.02)


def test_fits_agree_with_an_installed_psignifit() -> None:
    pytest.importorskip("psignifit")
    for one in RECORDED["psignifit"]:
        assert oracles.psignifit(one, True)["threshold"] == pytest.approx(one["flat"]["threshold"], abs=1e-4)


def test_trials_one_by_one_are_the_same_as_counts() -> None:
    x, c, n = table("logistic", seed=8)
    levels = np.repeat(x, n)
    correct = np.concatenate([np.arange(total) < count for count, total in zip(c, n, strict=True)])
    one, other = fit(x, c, n, "logistic"), fit(levels, correct, np.ones(len(levels)), "logistic")
    assert other.parameters == one.parameters and other.deviance == one.deviance


def test_a_shifted_and_scaled_stimulus_shifts_and_scales_the_fit() -> None:
    x, c, n = table("cumulative_normal", seed=5)
    one, other = fit(x, c, n), fit(100.0 + 30.0 * x, c, n)
    assert other.threshold == pytest.approx(100.0 + 30.0 * one.threshold, rel=1e-6)
    assert other.spread == pytest.approx(30.0 * one.spread, rel=1e-5)
    assert other.lapse == pytest.approx(one.lapse, abs=1e-6)


def test_covariance_is_the_inverse_of_the_curvature() -> None:
    """At expected counts observed and expected information agree; the Hessian by differences."""
    x, n, truth = np.linspace(1.0, 7.0, 9), np.full(9, 1000.0), np.array([4.0, 1.2, 0.5, 0.04])
    p = FUNCTIONS["weibull"].probability(x, 4.0, 0.4, 0.5, 0.04)
    found = fit(x, np.round(n * p), n, "weibull")

    def cost(t: np.ndarray) -> float:
        probability = FUNCTIONS["weibull"].probability(x, t[0], t[1], 0.5, t[2])
        return -float(np.sum(np.round(n * p) * np.log(probability) + (n - np.round(n * p)) * np.log1p(-probability)))

    at, h = np.array([found.threshold, found.spread, found.lapse]), 1e-4 * np.eye(3)
    hessian = np.array(
        [[(cost(at + a + b) - cost(at + a - b) - cost(at - a + b) + cost(at - a - b)) / 4e-8 for b in h] for a in h]
    )
    free = [PARAMETERS.index(name) for name in ("threshold", "spread", "lapse")]
    assert found.covariance[np.ix_(free, free)] == pytest.approx(np.linalg.inv(hessian), rel=0.03)
    assert found.covariance[2].tolist() == [0.0] * 4 and truth[2] == found.guess


def test_what_the_answers_do_not_determine_is_on_its_bounds() -> None:
    found = fit([1.0, 2.0, 3.0], [0, 0, 10], [10, 10, 10], guess=0.0, lapse=0.0)
    assert "spread" in found.at_bounds and 2.0 < found.threshold < 3.0
    always = fit([1.0, 2.0, 3.0], [10, 10, 10], [10, 10, 10], guess=0.0)
    assert always.threshold < 1.0 and always.at_bounds


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"levels": [1.0, 2.0]}, "must be lists of one length"),
        ({"levels": [1.0, math.nan, 3.0]}, r"levels\[1\] = nan: must be finite"),
        ({"correct": [1, 2.5, 3]}, r"correct\[1\] = 2.5: must be a whole number of trials"),
        ({"correct": [1, 2, 11]}, r"correct\[2\] = 11: must be at most total\[2\] = 10"),
        ({"total": [10, -1, 10]}, r"total\[1\] = -1: must be a whole number of trials"),
        ({"total": [10, 0, 0], "correct": [1, 0, 0]}, "levels: 1 with trials; must be two different levels at least"),
        ({"levels": [-1.0, 1.0, 2.0], "function": "weibull"}, r"levels\[0\] = -1: must be >= 0 for weibull"),
        ({"guess": -0.1}, "guess = -0.1: must be a rate, >= 0 and < 1"),
        ({"lapse": (0.2, 0.1)}, "lapse = .0.2, 0.1.: must be a number, or a lower and an upper bound"),
        ({"guess": 0.95}, "guess . lapse = 1.05 at most: must be < 1"),
        ({"spread": (0.0, 1.0)}, "spread = .0, 1.: must be > 0"),
    ],
)
def test_bad_answers_are_refused(changes: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"levels": [1.0, 2.0, 3.0], "correct": [5, 7, 10], "total": [10, 10, 10]}
    with pytest.raises(ParameterError, match=message):
        fit(**(good | changes))


# -- intervals and goodness --------------------------------------------------------------------------------------------


def test_intervals_of_many_trials_are_those_of_the_information() -> None:
    x, n = np.linspace(1.0, 7.0, 9), np.full(9, 2000)
    c = np.random.default_rng(4).binomial(n, FUNCTIONS["logistic"].probability(x, 4.0, 0.8, 0.0, 0.05))
    found = fit(x, c, n, "logistic", guess=0.0)
    errors = np.sqrt(np.diag(found.covariance))
    for method in ("bca", "percentile"):
        for parametric in (True, False):
            intervals = bootstrap(found, 600, 1, parametric, method=method)  # type: ignore[arg-type]
            for i, name in ((0, "threshold"), (1, "spread"), (3, "lapse")):
                low, high = getattr(intervals, name)
                assert low < getattr(found, name) < high
                assert (high - low) / (2 * 1.96 * errors[i]) == pytest.approx(1.0, abs=0.12)
    assert intervals.guess == (0.0, 0.0)
    assert intervals.threshold_at(0.25)[0] < found.threshold_at(0.25) < intervals.threshold_at(0.25)[1]


def test_acceleration_is_the_skewness_of_a_proportion() -> None:
    """Of a single rate, BCa has the known constant (1 - 2 p) / (6 sqrt(n p q)) (Efron 1987, section 4)."""
    n, p = 200.0, 0.1
    levels, correct = [0.0, 1.0], [n / 2 * p, n / 2 * p]
    found = fit(levels, correct, [n / 2, n / 2], guess=(0.0, 0.5), lapse=0.0, threshold=(50.0, 50.0), spread=(1.0, 1.0))
    assert found.guess == pytest.approx(p, abs=1e-6)
    acceleration = bootstrap(found, 40)._acceleration(lambda threshold, spread, guess, lapse: guess)
    assert acceleration == pytest.approx((1.0 - 2.0 * p) / (6.0 * math.sqrt(n * p * (1.0 - p))), rel=1e-4)


def test_simulated_experiments_depend_on_the_seed_alone() -> None:
    found = fit(*table("cumulative_normal", 6))
    one, same, other = (bootstrap(found, 100, seed).draws for seed in (1, 1, 2))
    assert np.array_equal(one, same) and not np.array_equal(one, other)


def test_deviance_of_a_wrong_model_is_large_and_of_a_right_one_is_not() -> None:
    x, c, n = table("cumulative_normal", 7)
    right = goodness_of_fit(fit(x, c, n), 200)
    assert right.p_value > 0.05 and right.degrees_of_freedom == 4
    assert right.p_value == pytest.approx(right.asymptotic_p_value, abs=0.2)
    wrong = goodness_of_fit(fit(x, [25, 45, 25, 45, 25, 45, 25], n), 200)
    assert wrong.p_value == pytest.approx(1.0 / 201.0) and wrong.asymptotic_p_value < 1e-6


def likely(found: Fit, name: str, value: float) -> bool:
    """Whether a value is in the likelihood interval of 95 %, by one further fit."""
    held: dict[str, Any] = {"guess": found.guess, name: (value, value)}
    other = fit(found.levels, found.correct, found.total, found.function, **held)
    return 2.0 * (found.log_likelihood - other.log_likelihood) <= stats.chi2(1).ppf(0.95)


@pytest.mark.parametrize("name", NAMES)
def test_the_likelihood_interval_is_where_the_ratio_is_that_of_chi_square(name: str) -> None:
    found = fit(*table(name, 12), name)
    for parameter in ("threshold", "spread"):
        low, high = likelihood_interval(found, parameter)
        margin = 0.002 * (high - low)
        assert likely(found, parameter, low + margin) and not likely(found, parameter, low - margin)
        assert likely(found, parameter, high - margin) and not likely(found, parameter, high + margin)
    assert likelihood_interval(found, "guess") == (0.5, 0.5)
    assert likelihood_interval(found, "lapse", 0.9999) == pytest.approx((0.0, 0.1))


def test_the_likelihood_interval_of_a_proportion_is_known() -> None:
    """Of a single rate: n p trials of n, and the likelihood ratio of the binomial distribution."""
    found = fit([0.0, 1.0], [3, 5], [40, 40], guess=(0.0, 0.5), lapse=0.0, threshold=(50.0, 50.0), spread=(1.0, 1.0))

    def ratio(p: float) -> float:
        return 2.0 * float(stats.binom(80, 0.1).logpmf(8) - stats.binom(80, p).logpmf(8)) - stats.chi2(1).ppf(0.95)

    known = optimize.brentq(ratio, 1e-6, 0.1), optimize.brentq(ratio, 0.1, 0.5)
    assert likelihood_interval(found, "guess") == pytest.approx(known, abs=1e-5)


TRUTH = 4.0


def likelihood_coverage(observers: int, name: str, guess: float, trials: int = 40) -> float:
    """Share of simulated observers whose threshold is in the likelihood interval of 95 % of their answers."""
    return float(
        np.mean(
            [
                likely(fit(*table(name, 1000 + one, guess, trials), name, guess), "threshold", TRUTH)
                for one in range(observers)
            ]
        )
    )


def test_intervals_of_some_observers_hold_the_truth() -> None:
    """A smaller test than the next one: of 60 observers, three standard deviations below 95 % are 52."""
    assert likelihood_coverage(60, "cumulative_normal", 0.0) >= 52 / 60


@pytest.mark.exhaustive
@pytest.mark.parametrize("guess", [0.0, 0.5])
@pytest.mark.parametrize("name", NAMES)
def test_intervals_hold_the_truth(name: str, guess: float) -> None:
    assert 0.92 <= likelihood_coverage(500, name, guess) <= 0.97


@pytest.mark.exhaustive
@pytest.mark.parametrize("parametric", [True, False])
@pytest.mark.parametrize("guess", [0.0, 0.5])
def test_bootstrap_intervals_hold_the_truth_a_little_less_often(guess: float, parametric: bool) -> None:
    """A lapse rate that is estimated at its bound makes simulated experiments too much alike (Andrews 2000)."""
    held = 0
    for one in range(500):
        found = fit(*table("cumulative_normal", 1000 + one, guess, 40), guess=guess)
        low, high = bootstrap(found, 400, one, parametric).threshold
        held += low <= TRUTH <= high
    assert 0.88 <= held / 500 <= 0.97


# -- discrimination ----------------------------------------------------------------------------------------------------


def test_jnd_and_weber_fraction_of_comparisons() -> None:
    x, n = np.linspace(240.0, 370.0, 9), np.full(9, 4000)  # stiffness [N/m], against 300 N/m
    found = fit(x, np.round(n * stats.norm(305.0, 20.0).cdf(x)), n, guess=0.0, lapse=0.0)
    assert point_of_subjective_equality(found) == pytest.approx(305.0, abs=0.1)
    assert jnd(found) == pytest.approx(20.0 * stats.norm.ppf(0.75), abs=0.1)
    assert weber_fraction(found) == pytest.approx(jnd(found) / found.threshold)
    assert weber_fraction(found, 300.0) == pytest.approx(jnd(found) / 300.0)


def test_jnd_and_weber_fraction_of_a_forced_choice() -> None:
    x, n = np.linspace(5.0, 60.0, 8), np.full(8, 4000)
    found = fit(x, np.round(n * (0.5 + 0.49 * stats.norm(25.0, 10.0).cdf(x))), n)
    assert jnd(found) == found.threshold == pytest.approx(25.0, abs=0.2)
    assert weber_fraction(found, 300.0) == pytest.approx(25.0 / 300.0, abs=1e-3)
    with pytest.raises(
        ParameterError, match=r"guess = 0.5: of a forced choice, without a point of subjective equality"
    ):
        weber_fraction(found)
    with pytest.raises(ParameterError, match=r"p = 0\.5: must be between guess = 0\.5"):
        found.threshold_at(0.5)
