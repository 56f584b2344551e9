"""Transfer functions of sampled systems, alone or many at a time, and the poles of the loops that they close.

Polynomials are in d = 1 - z^-1, the backward difference, in ascending powers: [a, b] is a + b d. A delay z^-1 is 1 - d.
Slow motion is d near 0, where the same polynomial in z^-1 would lose its small value in the rounding errors of its
coefficients: d^2 is 1 - 2 z^-1 + z^-2.

A pole z is kept as y = 1/d = z/(z - 1). This maps the unit circle to the line Re y = 1/2 and its inside to Re y < 1/2;
the frequency theta = omega T in (0, pi] is y = 1/2 - j/2 cot(theta/2).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import NamedTuple

import numpy as np

from haptic_sim.parameters import ParameterError

DELAY = np.array([1.0, -1.0])  # z^-1
_COEFFICIENTS = 24  # of z^-1, whose differences lose half of their digits
_MARGIN = 1e-12  # rounding errors of a pole y, per its size: what is closer to Re y = 1/2 counts as on the unit circle


class TransferFunction(NamedTuple):
    """numerator / denominator z^-delay, of one system or of many.

    Attributes:
        numerator, denominator: coefficients (..., n) of ascending powers of d = 1 - z^-1.
        delay: [ticks]
    """

    numerator: np.ndarray
    denominator: np.ndarray
    delay: int = 0

    def at(self, theta: np.ndarray) -> np.ndarray:
        """Values (..., n) at the frequencies theta = omega T (..., n) [rad] of each system, in (0, pi]."""
        d = difference(theta)
        values = _evaluate(self.numerator, d) / _evaluate(self.denominator, d)
        return values * np.exp(-1j * self.delay * theta) if self.delay else values


def from_delays(numerator: Sequence[float], denominator: Sequence[float], name: str) -> TransferFunction:
    """A transfer function from coefficients of z^0, z^-1, z^-2, ...

    Args:
        name: of the transfer function in errors.

    Raises:
        ParameterError: a coefficient is not finite, the denominator is zero, or the function is not proper.
    """
    parts = []
    for part, given in (("numerator", numerator), ("denominator", denominator)):
        values = np.array(given, float)
        if values.ndim != 1 or not values.size or not np.isfinite(values).all():
            raise ParameterError([f"{name}: {part} {list(given)}: must be one or more finite numbers"])
        if values.size > _COEFFICIENTS:
            raise ParameterError([f"{name}: {part}: has {values.size} coefficients: must have at most {_COEFFICIENTS}"])
        parts.append(values)
    if not parts[1].any():
        raise ParameterError([f"{name}: denominator {list(denominator)}: must not be zero"])
    while parts[0].size > 1 and parts[0][0] == 0.0 == parts[1][0] and parts[1].size > 1:
        parts = [part[1:] for part in parts]
    if parts[1][0] == 0.0:
        raise ParameterError(
            [f"{name}: denominator {list(denominator)}: is not proper (its output precedes its input): the coefficient "
             "of z^0 must not be 0"]
        )  # fmt: skip
    return TransferFunction(exchange(parts[0]), exchange(parts[1]))


def exchange(coefficients: np.ndarray) -> np.ndarray:
    """Coefficients of powers of d from those of powers of z^-1 = 1 - d, and as d = 1 - z^-1 the other way round."""
    n = coefficients.size
    powers = np.array([[(-1) ** i * comb(k, i) for i in range(n)] for k in range(n)], float)
    return coefficients @ powers


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Products (..., n + m - 1) of polynomials (..., n) and (..., m)."""
    shape = np.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    product = np.zeros((*shape, a.shape[-1] + b.shape[-1] - 1))
    for i in range(b.shape[-1]):
        product[..., i : i + a.shape[-1]] += a * b[..., i : i + 1]
    return product


def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Sums of polynomials."""
    shape = np.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    total = np.zeros((*shape, max(a.shape[-1], b.shape[-1])))
    total[..., : a.shape[-1]] += a
    total[..., : b.shape[-1]] += b
    return total


def feedback(coupling: TransferFunction, environment: TransferFunction, delay: int = 0) -> TransferFunction:
    """H = C / (1 + C E) z^-delay (BROWN 14); neither C nor E has a delay of its own.

    A difference in the numerator of C and an integrator in E cancel: a coupling without a spring does not see where the
    mass is.
    """
    C, E = coupling.numerator, environment.denominator
    while C.shape[-1] > 1 and E.shape[-1] > 1 and not C[..., 0].any() and not E[..., 0].any():
        C, E = C[..., 1:], E[..., 1:]
    closed = add(multiply(coupling.denominator, E), multiply(C, environment.numerator))
    return TransferFunction(multiply(coupling.numerator, E), closed, delay)


def difference(theta: np.ndarray) -> np.ndarray:
    """d = 1 - exp(-j theta), without cancellation."""
    return 2.0 * np.sin(0.5 * theta) ** 2 + 1j * np.sin(theta)


def _evaluate(polynomial: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Values (..., n) of polynomials (..., k) at (..., n)."""
    value = np.zeros_like(d) + polynomial[..., -1:]
    for k in range(polynomial.shape[-1] - 2, -1, -1):
        value = value * d + polynomial[..., k : k + 1]
    return value


def poles(polynomial: np.ndarray) -> np.ndarray:
    """Roots of polynomials in d, as y = 1/d (..., n - 1); infinite in those with a root at d = 0 (z = 1)."""
    lead = polynomial[..., :1]
    n = polynomial.shape[-1] - 1
    companion = np.zeros((*polynomial.shape[:-1], n, n))
    companion[..., 1:, :-1] = np.eye(max(n - 1, 0))
    if n:
        companion[..., 0, :] = -polynomial[..., 1:] / np.where(lead == 0.0, 1.0, lead)
    y = np.linalg.eigvals(companion).astype(complex)
    return np.where(lead == 0.0, np.inf, y)


def is_stable(y: np.ndarray) -> np.ndarray:
    """Whether all poles y (..., n) are inside the unit circle."""
    return np.all(y.real < 0.5 - _MARGIN * np.abs(y), axis=-1)
