"""Signal detection: simulated sensations and integrals of the models, known values, refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from haptic_sim.inputs import ParameterError
from haptic_study.psychophysics.detection import (
    Counts,
    a_prime,
    forced_choice,
    proportion_correct,
    same_different,
    two_alternatives,
    yes_no,
    yes_no_levels,
)

N = 10**9  # trials: rates without noise


def counts(H: float, F: float) -> Counts:
    return Counts(round(H * N), N, round(F * N), N)


def Phi(x: Any) -> Any:
    return stats.norm.cdf(x)


@given(d=st.floats(0.0, 4.0), c=st.floats(-1.0, 1.0))
def test_yes_no_of_two_normal_distributions(d: float, c: float) -> None:
    """Noise has the mean -d/2, signals d/2; yes above c."""
    found = yes_no(counts(1.0 - Phi(c - d / 2), 1.0 - Phi(c + d / 2)), corrected=False)
    assert found.d_prime == pytest.approx(d, abs=1e-4) and found.criterion == pytest.approx(c, abs=1e-4)


@given(d=st.floats(0.0, 2.5), c=st.floats(-1.0, 1.0))
def test_two_alternatives_of_a_difference(d: float, c: float) -> None:
    """The first interval is chosen where the difference of two sensations is above a criterion."""
    root = math.sqrt(2.0)
    H, F = 1.0 - Phi((c * root - d) / root), 1.0 - Phi((c * root + d) / root)
    found = two_alternatives(counts(H, F), corrected=False)
    assert found.d_prime == pytest.approx(d, abs=1e-4) and found.criterion == pytest.approx(c, abs=1e-4)


@pytest.mark.parametrize("m", [2, 3, 4, 10])
@pytest.mark.parametrize("d", [-1.0, 0.0, 0.7, 2.0, 4.0])
def test_forced_choice_is_the_largest_of_m(m: int, d: float) -> None:
    known = integrate.quad(lambda x: stats.norm.pdf(x - d) * Phi(x) ** (m - 1), -12.0, 16.0, epsabs=1e-12)[0]
    assert proportion_correct(d, m) == pytest.approx(known, abs=1e-9)
    assert forced_choice(round(known * N), N, m, corrected=False) == pytest.approx(d, abs=1e-4)
    assert forced_choice(round(N / m), N, m) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("d", [0.5, 1.5, 3.0])
def test_same_different_of_independent_observations(d: float) -> None:
    """Each of the two sensations is classified; "different" where the classes differ, without a bias."""
    p = Phi(d / 2.0)
    same, different = p * p + (1 - p) * (1 - p), p * p + (1 - p) * (1 - p)
    found = same_different(counts(different, 1.0 - same), "independent", corrected=False)
    assert found.d_prime == pytest.approx(d, abs=1e-4) and found.criterion == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("d", [0.5, 1.5, 3.0])
@pytest.mark.parametrize("k", [0.8, 1.5])
def test_same_different_of_differences(d: float, k: float) -> None:
    """By an integral over the first sensation; the second one differs by more than k."""

    def differs(shift: float) -> float:
        def given_first(x: float) -> float:
            return stats.norm.pdf(x) * (Phi(x - k - shift) + 1.0 - Phi(x + k - shift))

        return float(integrate.quad(given_first, -10.0, 10.0, epsabs=1e-12)[0])

    found = same_different(counts(differs(d), differs(0.0)), "differencing", corrected=False)
    assert found.d_prime == pytest.approx(d, abs=1e-3) and found.criterion == pytest.approx(k, abs=1e-4)
    assert same_different(Counts(2, 10, 5, 10), "differencing").d_prime == 0.0


def test_corrections() -> None:
    assert Counts(10, 10, 0, 10).rates() == (10.5 / 11, 0.5 / 11)
    assert yes_no(Counts(10, 10, 0, 10), corrected=False).d_prime == math.inf
    assert yes_no(Counts(10, 10, 0, 10)).d_prime == pytest.approx(2.0 * stats.norm.ppf(10.5 / 11))
    assert forced_choice(20, 20, 3, corrected=False) == forced_choice(20, 20, 2, corrected=False) == math.inf
    assert forced_choice(0, 20, 3, corrected=False) == -math.inf
    assert 2.0 < forced_choice(20, 20, 3) < 4.0


def test_the_standard_error_is_that_of_simulated_observers() -> None:
    rng, d, n = np.random.default_rng(2), 1.2, 400
    hits, false = rng.binomial(n, Phi(d / 2), 3000), rng.binomial(n, Phi(-d / 2), 3000)
    values = [yes_no(Counts(int(h), n, int(f), n)) for h, f in zip(hits[:400], false[:400], strict=True)]
    spread = np.std([one.d_prime for one in values])
    assert np.mean([one.error for one in values]) == pytest.approx(spread, rel=0.15)


def test_a_prime() -> None:
    """The mean of the areas below the least and the largest curves through a point (Pollack and Norman 1964)."""

    def mean_area(H: float, F: float) -> float:
        """Of the straight lines from (0, 0) and (1, 1) through the point, the largest and the least possible areas."""
        least = 0.5 * F * H + (1.0 - F) * H + 0.5 * (1.0 - F) * (1.0 - H)
        # the line from (1, 1) through the point meets F = 0 at a, the one from (0, 0) meets H = 1 at b
        a, b = H - F * (1.0 - H) / (1.0 - F), F / H
        largest = 1.0 - 0.5 * F * (H - a) - F * (1.0 - H) - 0.5 * (1.0 - H) * (b - F)
        return 0.5 * (least + largest)

    for H, F in ((0.8, 0.2), (0.9, 0.5), (0.6, 0.1)):
        assert a_prime(counts(H, F)) == pytest.approx(mean_area(H, F), abs=1e-6)
        assert a_prime(counts(F, H)) == pytest.approx(1.0 - a_prime(counts(H, F)))
    assert a_prime(counts(0.3, 0.3)) == 0.5 and a_prime(Counts(5, 5, 0, 5)) == 1.0


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ((6, 5, 0, 5), "hits = 6: must be at most signals = 5"),
        ((1, 5, 6, 5), "false_alarms = 6: must be at most noises = 5"),
        ((0, 0, 0, 5), "signals = 0: must be >= 1"),
        ((-1, 5, 0, 5), "hits = -1: must be a whole number >= 0"),
        ((1.5, 5, 0, 5), "hits = 1.5: must be a whole number >= 0"),
        ((math.nan, 5, 0, 5), "hits = nan: must be a whole number >= 0"),
    ],
)
def test_bad_counts_are_refused(given_: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        yes_no(Counts(*given_))


def test_bad_models_are_refused() -> None:
    with pytest.raises(ParameterError, match="model = x: must be independent or differencing"):
        same_different(Counts(1, 2, 1, 2), "x")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="alternatives = 1: must be a whole number from 2 to 1000"):
        forced_choice(1, 2, 1)


def test_d_prime_over_levels_and_its_error_are_those_of_simulated_answers() -> None:
    one = Counts(30, 40, 8, 40)
    assert yes_no_levels([one]) == pytest.approx(yes_no(one))
    rng, n, hits, false = np.random.default_rng(11), 80, (0.5, 0.8), 0.2
    drawn = [[Counts(int(rng.binomial(n, H)), n, int(F), n) for H in hits] for F in rng.binomial(n, false, 600)]
    found = [yes_no_levels(two) for two in drawn]
    values = np.array([one.d_prime for one in found])
    expected = float(np.mean(stats.norm.ppf(hits)) - stats.norm.ppf(false))
    assert values.mean() == pytest.approx(expected, abs=0.03)
    assert values.std() == pytest.approx(np.mean([one.error for one in found]), rel=0.12)
    with pytest.raises(ParameterError, match="same false_alarms"):
        yes_no_levels([one, one._replace(false_alarms=9)])
