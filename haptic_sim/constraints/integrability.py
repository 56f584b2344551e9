"""Which velocity constraints are integrable (YUN remark 1): the involutive closure of their distribution.

Fields that span the null space of A(q) are expanded as truncated Taylor series about a point, exactly: A is a
function of q built from arithmetic and NumPy functions, evaluated on series instead of numbers. Brackets of the
fields are added until their span does not grow (each takes one order of the series, and at most m steps can grow).
n - dim(closure) combinations of the rows are integrable: those coefficients x for which x^T A annihilates the
closure. This holds at a regular point: a few points near the given one are tried, and the largest closure counts,
because brackets may vanish on sets of measure zero.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from haptic_sim.constraints.errors import ConstraintError

RANK_TOLERANCE = 1e-9  # singular value of fields of unit length


@lru_cache(maxsize=16)
def _monomials(n: int, order: int) -> tuple[list[tuple[int, ...]], np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Exponents by degree, the table of products (left, right, result), and each exponent's degree."""
    exponents = [e for d in range(order + 1) for e in _of_degree(n, d)]
    place = {e: i for i, e in enumerate(exponents)}
    degrees = np.array([sum(e) for e in exponents])
    left, right, result = [], [], []
    for i, a in enumerate(exponents):
        for j, b in enumerate(exponents):
            if degrees[i] + degrees[j] > order:
                break  # by degree: all later ones are too high as well
            left.append(i)
            right.append(j)
            result.append(place[tuple(x + y for x, y in zip(a, b, strict=True))])
    return exponents, np.array(left), np.array(right), np.array(result), degrees


def _of_degree(n: int, degree: int) -> list[tuple[int, ...]]:
    found = []
    for bars in itertools.combinations(range(degree + n - 1), n - 1):
        edges = (-1, *bars, degree + n - 1)
        found.append(tuple(edges[i + 1] - edges[i] - 1 for i in range(n)))
    return found


class Series:
    """A Taylor polynomial in n variables up to an order; arithmetic and the usual functions are exact in it."""

    def __init__(self, coefficients: np.ndarray, n: int, order: int):
        self.x, self.n, self.order = coefficients, n, order

    @classmethod
    def variables(cls, q: np.ndarray, order: int) -> np.ndarray:
        """The coordinates about the point q as an object array of series."""
        n = len(q)
        exponents = _monomials(n, order)[0]
        place = {e: i for i, e in enumerate(exponents)}
        found = np.empty(n, object)
        for i in range(n):
            x = np.zeros(len(exponents))
            x[0] = q[i]
            if order > 0:
                x[place[tuple(int(j == i) for j in range(n))]] = 1.0
            found[i] = cls(x, n, order)
        return found

    def _like(self, x: np.ndarray) -> Series:
        return Series(x, self.n, self.order)

    def constant(self, value: float) -> Series:
        """A constant of the same kind."""
        x = np.zeros_like(self.x)
        x[0] = value
        return self._like(x)

    def _other(self, other: Any) -> Series:
        return other if isinstance(other, Series) else self.constant(float(other))

    def __add__(self, other: Any) -> Series:
        if isinstance(other, np.ndarray):
            return NotImplemented  # entry by entry
        return self._like(self.x + self._other(other).x)

    __radd__ = __add__

    def __neg__(self) -> Series:
        return self._like(-self.x)

    def __pos__(self) -> Series:
        return self

    def __sub__(self, other: Any) -> Series:
        if isinstance(other, np.ndarray):
            return NotImplemented  # entry by entry
        return self._like(self.x - self._other(other).x)

    def __rsub__(self, other: Any) -> Series:
        return self._like(self._other(other).x - self.x)

    def __mul__(self, other: Any) -> Series:
        if isinstance(other, np.ndarray):
            return NotImplemented  # entry by entry
        if not isinstance(other, Series):
            return self._like(self.x * float(other))
        _, left, right, result, _ = _monomials(self.n, self.order)
        return self._like(np.bincount(result, self.x[left] * other.x[right], len(self.x)))

    __rmul__ = __mul__

    def _compose(self, derivatives: Sequence[float]) -> Series:
        """f(self) from f and its derivatives at the constant term."""
        rest = self._like(self.x.copy())
        rest.x[0] = 0.0
        total = self.constant(derivatives[self.order] / math.factorial(self.order))
        for k in range(self.order - 1, -1, -1):
            total = total * rest + derivatives[k] / math.factorial(k)
        return total

    def sin(self) -> Series:
        """Sine; called by numpy.sin on object arrays."""
        return self._compose([math.sin(self.x[0] + 0.5 * math.pi * k) for k in range(self.order + 1)])

    def cos(self) -> Series:
        """Cosine."""
        return self._compose([math.cos(self.x[0] + 0.5 * math.pi * k) for k in range(self.order + 1)])

    def tan(self) -> Series:
        """Tangent."""
        return self.sin() / self.cos()

    def exp(self) -> Series:
        """Exponential."""
        return self._compose([math.exp(self.x[0])] * (self.order + 1))

    def log(self) -> Series:
        """Natural logarithm."""
        x = self.x[0]
        tail = [(-1.0) ** (k - 1) * math.factorial(k - 1) / x**k for k in range(1, self.order + 1)]
        return self._compose([math.log(x), *tail])

    def __pow__(self, power: float) -> Series:
        if isinstance(power, int) and power >= 0:
            total = self.constant(1.0)
            for _ in range(power):
                total = total * self
            return total
        x, values, factor = self.x[0], [], 1.0
        for k in range(self.order + 1):
            values.append(factor * x ** (power - k))
            factor *= power - k
        return self._compose(values)

    def sqrt(self) -> Series:
        """Square root."""
        return self**0.5

    def __truediv__(self, other: Any) -> Series:
        if isinstance(other, np.ndarray):
            return NotImplemented  # entry by entry
        return self * (other**-1.0 if isinstance(other, Series) else 1.0 / float(other))

    def __rtruediv__(self, other: Any) -> Series:
        return self**-1.0 * other

    def derivative(self, i: int) -> Series:
        """Partial derivative; its highest order is lost, and zero here."""
        exponents = _monomials(self.n, self.order)[0]
        place = {e: j for j, e in enumerate(exponents)}
        x = np.zeros_like(self.x)
        for j, e in enumerate(exponents):
            if e[i] > 0:
                x[place[tuple(a - int(b == i) for b, a in enumerate(e))]] = e[i] * self.x[j]
        return self._like(x)


@dataclass(frozen=True)
class Integrability:
    """What the closure says. `combinations` (k, m): orthonormal coefficients of integrable combinations of rows."""

    rows: int
    rank: int
    growth: tuple[int, ...]  # dimensions of the distribution and of its successive closures
    combinations: np.ndarray

    @property
    def holonomic(self) -> int:
        """Number k of integrable constraints."""
        return len(self.combinations)

    @property
    def kind(self) -> str:
        """'integrable', 'nonholonomic' or 'mixed': YUN's three cases."""
        if self.holonomic == self.rank:
            return "integrable"
        return "mixed" if self.holonomic else "nonholonomic"

    @property
    def integrable_rows(self) -> tuple[bool, ...]:
        """Of each row by itself, whether it is an integrable one, given the others."""
        inside = self.combinations.T @ self.combinations
        return tuple(bool(inside[i, i] > 1.0 - 1e-9) for i in range(self.rows))


def integrability(
    rows: Callable[[np.ndarray], Any],
    q: Sequence[float] | np.ndarray,
    rate: Callable[[np.ndarray], Any] | None = None,
    spread: float = 0.3,
    points: int = 3,
) -> Integrability:
    """Decide how many and which of the velocity constraints rows(q) qd = rate(q) are integrable near q.

    Args:
        rows: A(q), (m, n), of arithmetic, powers and numpy's sin, cos, tan, exp, log, sqrt: it is called with an
            object array. Independent rows, up to points of measure zero.
        q: a configuration, (n,).
        rate: b(q), (m,), of acatastatic constraints; time is a further coordinate then.
        spread: distance from q of the other points tried [units of q].
        points: how many points are tried.

    Raises:
        ConstraintError: A has not the shape (m, n), or more rows than coordinates.
    """
    centre = np.asarray(q, float)
    if centre.ndim != 1 or not np.all(np.isfinite(centre)):
        raise ConstraintError(f"q = {centre.tolist()}: must be a finite vector")
    rng = np.random.default_rng(0)
    best: Integrability | None = None
    for i in range(max(points, 1)):
        at = centre if i == 0 else centre + spread * rng.uniform(-1.0, 1.0, len(centre))
        found = _at_point(rows, rate, at)
        if best is None or (found.rank, found.growth[-1] - found.growth[0]) > (
            best.rank,
            best.growth[-1] - best.growth[0],
        ):
            best = found
    assert best is not None
    return best


def _series_rows(rows: Callable, rate: Callable | None, at: np.ndarray, order: int) -> np.ndarray:
    variables = Series.variables(np.append(at, 0.0) if rate else at, order)
    x = variables[: len(at)]
    A = np.array(rows(x), dtype=object)
    if A.ndim != 2 or A.shape[1] != len(at) or not 0 < A.shape[0] <= len(at):
        raise ConstraintError(f"rows(q) has the shape {A.shape}: must be (m, {len(at)}) with 0 < m <= {len(at)}")
    if rate:
        b = np.array(rate(x), dtype=object)
        if b.shape != (A.shape[0],):
            raise ConstraintError(f"rate(q) has the shape {b.shape}: must be ({A.shape[0]},)")
        A = np.column_stack([A, -b])
    for index in np.ndindex(A.shape):
        A[index] = variables[0]._other(A[index])
    return A


def _at_point(rows: Callable, rate: Callable | None, at: np.ndarray) -> Integrability:
    probe = _series_rows(rows, rate, at, 0)
    m, n = probe.shape
    A0 = np.array([[x.x[0] for x in row] for row in probe])
    lengths = np.linalg.norm(A0, axis=1)
    if not np.all(np.isfinite(A0)):
        raise ConstraintError(f"rows(q) is not finite at q = {at.tolist()}")
    # independent rows and columns by full pivoting
    work = A0 / np.where(lengths > 0.0, lengths, 1.0)[:, None]
    chosen: list[tuple[int, int]] = []
    for _ in range(min(m, n)):
        i, j = np.unravel_index(int(np.argmax(np.abs(work))), work.shape)
        if abs(work[i, j]) <= RANK_TOLERANCE:
            break
        chosen.append((int(i), int(j)))
        work = work - np.outer(work[:, j], work[i]) / work[i, j]
        work[i] = 0.0
    rank = len(chosen)
    A = _series_rows(rows, rate, at, rank)
    fields = _null_fields(A, chosen, n)
    values = _values(fields)
    growth = [n - rank]
    while fields and growth[-1] < n and len(growth) <= rank:
        new = [_bracket(f, g) for f, g in itertools.combinations(fields, 2)]
        kept = _independent(_values(new), values)
        if not kept:
            break
        fields = fields + [new[i] for i in kept]
        values = _values(fields)
        growth.append(len(fields))
    basis = np.linalg.qr(values.T)[0] if fields else np.zeros((n, 0))
    # x^T A annihilates the closure: the left null space of A0 basis, among independent rows
    independent = [i for i, _ in chosen]
    combinations = np.zeros((n - len(fields), m))
    if len(combinations):
        scaled = A0[independent] / lengths[independent, None]
        U = np.linalg.svd(scaled @ basis)[0] if fields else np.eye(rank)
        combinations[:, independent] = U[:, rank - len(combinations) :].T / lengths[independent]
        combinations = np.linalg.qr(combinations.T)[0].T
    return Integrability(m, rank, tuple(growth), combinations)


def _null_fields(A: np.ndarray, chosen: list[tuple[int, int]], n: int) -> list[np.ndarray]:
    """e_j - A_B^-1 A_j for the columns j outside the chosen ones B, by Gauss-Jordan elimination on series."""
    A = A.copy()
    for i, j in chosen:
        A[i] = A[i] / A[i, j]
        for other, _ in chosen:
            if other != i:
                A[other] = A[other] - A[other, j] * A[i]
    pivots = [j for _, j in chosen]
    fields = []
    for j in range(n):
        if j not in pivots:
            f = np.array([A[0, 0].constant(0.0) for _ in range(n)], object)
            f[j] = A[0, 0].constant(1.0)
            for i, pivot in chosen:
                f[pivot] = -A[i, j]
            fields.append(f)
    return fields


def _bracket(f: np.ndarray, g: np.ndarray) -> np.ndarray:
    n = len(f)
    found = np.empty(n, object)
    for i in range(n):
        total = f[0].constant(0.0)
        for j in range(n):
            if np.any(f[j].x):
                total = total + g[i].derivative(j) * f[j]
            if np.any(g[j].x):
                total = total - f[i].derivative(j) * g[j]
        found[i] = total
    return found


def _values(fields: list[np.ndarray]) -> np.ndarray:
    return np.array([[x.x[0] for x in f] for f in fields])


def _independent(new: np.ndarray, old: np.ndarray) -> list[int]:
    """Which of the new vectors enlarge the span of the old ones, largest first."""
    if not len(new):
        return []
    basis = list(np.linalg.qr(old.T)[0].T)
    kept: list[int] = []
    rest = new.copy()
    for _ in range(2):
        for b in basis:
            rest = rest - np.outer(rest @ b, b)
    lengths = np.maximum(np.linalg.norm(new, axis=1), 1.0)
    while True:
        sizes = np.linalg.norm(rest, axis=1) / lengths
        i = int(np.argmax(sizes))
        if not sizes[i] > RANK_TOLERANCE:
            return kept
        b = rest[i] / np.linalg.norm(rest[i])
        kept.append(i)
        rest = rest - np.outer(rest @ b, b)
        rest[i] = 0.0
