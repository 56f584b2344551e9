"""Psychometric functions: the probability of a positive answer as a function of the level of a stimulus.

    psi(x) = guess + (1 - guess - lapse) F(x; threshold, spread)                        (Wichmann and Hill 2001a, eq. 1)

`guess` is the probability of a positive answer without a stimulus (1/m in a forced choice of m alternatives), `lapse`
that of a negative answer however strong the stimulus is. F rises from 0 to 1 and depends on z alone:

| name                | F(z)                  | z                          | spread                              |
| `cumulative_normal` | Phi(z)                | (x - threshold) / spread   | standard deviation, in units of x   |
| `logistic`          | 1 / (1 + exp(-z))     | (x - threshold) / spread   | scale of the distribution, likewise |
| `weibull`           | 1 - exp(-ln 2 exp(z)) | ln(x / threshold) / spread | 1/beta, of ln x, without a unit     |

so that in each the threshold is where F = 1/2, and a larger spread is a shallower curve. In the customary form of the
Weibull function, 1 - exp(-(x/alpha)^beta), alpha is where F = 1 - 1/e; `customary_weibull` converts.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from scipy import special

from haptic_sim.inputs import ParameterError, shown

LN_2 = math.log(2.0)


class PsychometricFunction(Protocol):
    """A family of psychometric functions with the two parameters of F, threshold and spread."""

    name: str
    logarithmic: bool
    """Whether F is a function of ln x."""

    def coordinate(self, x: Any) -> np.ndarray:
        """Argument of F: x, or ln x; minus infinity where x is at most 0."""

    def level(self, coordinate: Any) -> np.ndarray:
        """The inverse of `coordinate`."""

    def core(self, z: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """F, 1 - F (without cancellation) and dF/dz."""

    def core_inverse(self, F: Any) -> np.ndarray:
        """z of a value of F."""

    def probability(self, x: Any, threshold: Any, spread: Any, guess: Any = 0.0, lapse: Any = 0.0) -> np.ndarray:
        """psi(x); all arguments are broadcast against each other."""

    def inverse(self, p: Any, threshold: Any, spread: Any, guess: Any = 0.0, lapse: Any = 0.0) -> np.ndarray:
        """The level at which psi = p; NaN where p is not between guess and 1 - lapse."""


class _Family:
    """Common part of the families: they differ in F and in its coordinate."""

    name = ""
    logarithmic = False

    def coordinate(self, x: Any) -> np.ndarray:
        x = np.asarray(x, float)
        if not self.logarithmic:
            return x
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(x, 0.0))

    def level(self, coordinate: Any) -> np.ndarray:
        return np.exp(coordinate) if self.logarithmic else np.asarray(coordinate, float)

    def core(self, z: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        raise NotImplementedError

    def core_inverse(self, F: Any) -> np.ndarray:
        raise NotImplementedError

    def probability(self, x: Any, threshold: Any, spread: Any, guess: Any = 0.0, lapse: Any = 0.0) -> np.ndarray:
        F = self.core((self.coordinate(x) - self.coordinate(threshold)) / spread)[0]
        return guess + (1.0 - guess - lapse) * F

    def inverse(self, p: Any, threshold: Any, spread: Any, guess: Any = 0.0, lapse: Any = 0.0) -> np.ndarray:
        F = (np.asarray(p, float) - guess) / (1.0 - np.asarray(guess, float) - lapse)
        z = self.core_inverse(np.where((F > 0.0) & (F < 1.0), F, np.nan))
        return self.level(self.coordinate(threshold) + spread * z)


class CumulativeNormal(_Family):
    """F = Phi(z): equal-variance noise on a sensation that grows linearly with the level (Thurstone 1927)."""

    name = "cumulative_normal"

    def core(self, z: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        z = np.asarray(z, float)
        return special.ndtr(z), special.ndtr(-z), np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)

    def core_inverse(self, F: Any) -> np.ndarray:
        return special.ndtri(F)


class Logistic(_Family):
    """F = 1 / (1 + exp(-z))."""

    name = "logistic"

    def core(self, z: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        z = np.asarray(z, float)
        F, complement = special.expit(z), special.expit(-z)
        return F, complement, F * complement

    def core_inverse(self, F: Any) -> np.ndarray:
        return special.logit(F)


class Weibull(_Family):
    """F = 1 - exp(-ln 2 exp(z)) = 1 - 2^(-(x/threshold)^(1/spread)), of a level that is not negative."""

    name = "weibull"
    logarithmic = True

    def core(self, z: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rate = LN_2 * np.exp(np.minimum(z, 700.0))  # beyond that 1 - F is 0
        complement = np.exp(-rate)
        return -np.expm1(-rate), complement, rate * complement

    def core_inverse(self, F: Any) -> np.ndarray:
        return np.log(-np.log1p(-np.asarray(F, float)) / LN_2)


FUNCTIONS: dict[str, PsychometricFunction] = {one.name: one for one in (CumulativeNormal(), Weibull(), Logistic())}
"""The families of this module, by name."""


def function_of(function: str | PsychometricFunction) -> PsychometricFunction:
    """A family by its name; an object with the methods of `PsychometricFunction` is returned as it is.

    Raises:
        ParameterError: there is none of that name.
    """
    if not isinstance(function, str):
        return function
    if function not in FUNCTIONS:
        raise ParameterError([f"function = {shown(function)}: must be one of {', '.join(FUNCTIONS)}"])
    return FUNCTIONS[function]


def customary_weibull(threshold: float, spread: float) -> tuple[float, float]:
    """alpha and beta of 1 - exp(-(x/alpha)^beta), from the threshold at F = 1/2 and the spread."""
    return threshold * LN_2**-spread, 1.0 / spread


def weibull_of_customary(alpha: float, beta: float) -> tuple[float, float]:
    """Threshold at F = 1/2 and spread of 1 - exp(-(x/alpha)^beta)."""
    return alpha * LN_2 ** (1.0 / beta), 1.0 / beta
