"""Signal detection theory: sensitivity and criterion from the answers to two kinds of trials.

With z = Phi^-1, hit rate H (yes to a signal) and false-alarm rate F (yes to noise), and normal sensations of equal
variance (Macmillan and Creelman, Detection Theory, 2nd edition, 2005):

    yes/no          d' = z(H) - z(F),   c = -(z(H) + z(F)) / 2                                       (chapters 1, 2)
    2AFC            d' = (z(H) - z(F)) / sqrt 2, where H is "first" if it is the first, F "first" if it is the second
                                                                                                     (chapter 7)
    mAFC            proportion correct = integral of phi(x - d') Phi(x)^(m-1) dx, without a bias     (chapter 10)
    same/different  H: "different" to different pairs, F: "different" to same ones
      independent observations   Phi((z(H) - z(F)) / 2) = Phi(d'/2)^2 + Phi(-d'/2)^2                 (chapter 9)
      differencing               F = 2 Phi(-k / sqrt 2),  H = Phi((d' - k) / sqrt 2) + Phi((-d' - k) / sqrt 2)

A rate of 0 or 1 has no z: the log-linear correction adds 1/2 to each count and 1 to each number of trials, of all
participants and conditions alike (Hautus 1995).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from scipy import optimize, special

from haptic_sim.inputs import ParameterError, shown

LARGEST = 30.0  # d' within which that of any proportion of trials is
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(120)


class Counts(NamedTuple):
    """Answers to two kinds of trials.

    Attributes:
        hits: "yes" (or "different", or "first") to trials with the signal (different pairs, signal first).
        signals: number of these trials.
        false_alarms: the same answer to the other trials.
        noises: number of the other trials.
    """

    hits: int
    signals: int
    false_alarms: int
    noises: int

    def rates(self, corrected: bool = True) -> tuple[float, float]:
        """Hit rate and false-alarm rate, with the log-linear correction or without.

        Raises:
            ParameterError: counts that are none, or no trials of a kind.
        """
        for name, count in self._asdict().items():
            if isinstance(count, bool) or not (0 <= count < math.inf and count == int(count)):
                raise ParameterError([f"{name} = {shown(count)}: must be a whole number >= 0"])
        for count, total in (("hits", "signals"), ("false_alarms", "noises")):
            found, of = getattr(self, count), getattr(self, total)
            if of < 1:
                raise ParameterError([f"{total} = {of}: must be >= 1"])
            if found > of:
                raise ParameterError([f"{count} = {found}: must be at most {total} = {of}"])
        more = 0.5 if corrected else 0.0
        return (self.hits + more) / (self.signals + 2 * more), (self.false_alarms + more) / (self.noises + 2 * more)


class Sensitivity(NamedTuple):
    """Sensitivity and bias.

    Attributes:
        d_prime: sensitivity, in standard deviations of the sensation; infinite for rates of 0 or 1 without correction.
        criterion: c; 0 without a bias, positive for few positive answers; NaN where the model has none.
        error: standard error of d_prime (Gourevitch and Galanter 1967); NaN where it is not known.
    """

    d_prime: float
    criterion: float
    error: float


def yes_no(counts: Counts, corrected: bool = True) -> Sensitivity:
    """Sensitivity and criterion of yes/no answers."""
    H, F = counts.rates(corrected)
    zH, zF = float(special.ndtri(H)), float(special.ndtri(F))
    return Sensitivity(zH - zF, -0.5 * (zH + zF), _error(counts, H, F))


def yes_no_levels(counts: Sequence[Counts], corrected: bool = True) -> Sensitivity:
    """Sensitivity and criterion of yes/no answers to several levels of the signal, as means over the levels.

    Args:
        counts: of each level, all with the same false alarms and noises, which are those of one set of trials.
        corrected: whether rates have the log-linear correction.

    Raises:
        ParameterError: no levels, or false alarms that differ.
    """
    if len({(one.false_alarms, one.noises) for one in counts}) != 1:
        raise ParameterError(["counts: must be of one level at least, all with the same false_alarms and noises"])
    found = [yes_no(one, corrected) for one in counts]
    rates = [one.rates(corrected) for one in counts]
    # d' = mean z(H_i) - z(F): the hits are independent, and the false alarms common to all levels
    of_hits = sum(_variance(H, one.signals) for (H, _), one in zip(rates, counts, strict=True)) / len(counts) ** 2
    error = math.sqrt(of_hits + _variance(rates[0][1], counts[0].noises))
    d_prime, criterion = (float(np.mean([one[i] for one in found])) for i in (0, 1))
    return Sensitivity(d_prime, criterion, error)


def two_alternatives(counts: Counts, corrected: bool = True) -> Sensitivity:
    """Sensitivity and bias to an interval, of answers in a forced choice of two.

    `hits` are answers "first" to trials with the signal in the first interval, `false_alarms` the same answer to the
    other trials. A positive criterion is a bias to the second interval.
    """
    H, F = counts.rates(corrected)
    zH, zF = float(special.ndtri(H)), float(special.ndtri(F))
    return Sensitivity((zH - zF) / math.sqrt(2.0), -0.5 * (zH + zF), _error(counts, H, F) / math.sqrt(2.0))


def proportion_correct(d_prime: float, alternatives: int = 2) -> float:
    """Proportion correct of a forced choice without a bias."""
    if alternatives == 2:
        return float(special.ndtr(d_prime / math.sqrt(2.0)))
    # E[Phi(x + d')^(m-1)] over a standard normal x; Gauss-Hermite
    return float(_WEIGHTS @ special.ndtr(_NODES + d_prime) ** (alternatives - 1) / math.sqrt(2.0 * math.pi))


def forced_choice(correct: int, total: int, alternatives: int = 2, corrected: bool = True) -> float:
    """d' of the number of correct answers in a forced choice of m alternatives, without a bias.

    The correction adds 1/m to the correct answers and 1 to the trials, so that chance stays chance; a proportion below
    chance has a negative d'.

    Raises:
        ParameterError: counts that are none.
    """
    if isinstance(alternatives, bool) or alternatives not in range(2, 1001):
        raise ParameterError([f"alternatives = {shown(alternatives)}: must be a whole number from 2 to 1000"])
    rate = Counts(correct, total, 0, 1).rates(False)[0]
    if corrected:
        rate = (correct + 1.0 / alternatives) / (total + 1.0)
    if alternatives == 2:
        return math.sqrt(2.0) * float(special.ndtri(rate))
    if rate in (0.0, 1.0):
        return math.copysign(math.inf, rate - 0.5)
    return float(optimize.brentq(lambda d: proportion_correct(d, alternatives) - rate, -LARGEST, LARGEST))


def same_different(
    counts: Counts, model: Literal["independent", "differencing"], corrected: bool = True
) -> Sensitivity:
    """Sensitivity of same/different answers; `hits` are answers "different" to different pairs.

    Args:
        counts: of different pairs (signals) and same pairs (noises).
        model: `independent` where the stimuli of all trials are two fixed ones, which are classified one by one;
            `differencing` where they rove, so that only their difference says something.
        corrected: whether rates have the log-linear correction.

    Returns:
        d_prime, which is 0 where H <= F; criterion: of differencing the smallest difference k that is called different,
        of independent observations -(z(H) + z(F)) / 2; error: NaN.
    """
    H, F = counts.rates(corrected)
    zH, zF = float(special.ndtri(H)), float(special.ndtri(F))
    if model == "independent":
        best = float(special.ndtr(0.5 * (zH - zF)))  # proportion correct without a bias
        d = 2.0 * float(special.ndtri(0.5 * (1.0 + math.sqrt(max(2.0 * best - 1.0, 0.0)))))
        return Sensitivity(d, -0.5 * (zH + zF), math.nan)
    if model != "differencing":
        raise ParameterError([f"model = {shown(model)}: must be independent or differencing"])
    k = -math.sqrt(2.0) * float(special.ndtri(0.5 * F))
    if H <= F:
        return Sensitivity(0.0, k, math.nan)
    if H == 1.0 or F == 0.0:
        return Sensitivity(math.inf, k, math.nan)

    def excess(d: float) -> float:
        return float(special.ndtr((d - k) / math.sqrt(2.0)) + special.ndtr((-d - k) / math.sqrt(2.0))) - H

    return Sensitivity(float(optimize.brentq(excess, 0.0, k + LARGEST, xtol=1e-12)), k, math.nan)


def a_prime(counts: Counts) -> float:
    """A', an estimate of the area below the curve of hits against false alarms, from one point of it.

    Grier (1971); for rates below chance as Aaronson and Watts (1987). It is called non-parametric, but is consistent
    with normal or logistic sensations only near chance (Macmillan and Creelman 2005, section 4.4).
    """
    H, F = counts.rates(False)
    if H == F:
        return 0.5
    high, low = max(H, F), min(H, F)
    half = (high - low) * (1.0 + high - low) / (4.0 * high * (1.0 - low))
    return 0.5 + math.copysign(half, H - F)


def _error(counts: Counts, H: float, F: float) -> float:
    """Standard error of z(H) - z(F)."""
    return math.sqrt(_variance(H, counts.signals) + _variance(F, counts.noises))


def _variance(rate: float, total: int) -> float:
    """Variance of z(rate): that of the rate over the square of the normal density at its z; NaN at 0 and 1."""
    if not 0.0 < rate < 1.0:
        return math.nan
    density = math.exp(-0.5 * float(special.ndtri(rate)) ** 2) / math.sqrt(2.0 * math.pi)
    return rate * (1.0 - rate) / (total * density * density)
