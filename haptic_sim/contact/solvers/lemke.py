"""The linear complementarity problem, solved by Lemke's complementary pivoting.

Find z with
    w = M z + q,  w >= 0,  z >= 0,  z^T w = 0.
Lemke (1965) adds one variable z0 to all rows, w = M z + q + z0 >= 0, which has an obvious solution when z0 is large,
and follows the path of solutions along which z0 falls: each time a variable reaches zero, its complement enters. At
z0 = 0 the problem is solved. If no variable reaches zero any more, the path is a ray, and no solution was found.

Guarantees (Cottle, Pang and Stone 1992, section 4.4), with exact numbers: the path never returns to a basis, whatever
the degeneracy, because ties are broken by the lexicographic order (q + (eps, eps^2, ...) in place of q). If M is
copositive (z^T M z >= 0 for z >= 0) and q^T z >= 0 for each z >= 0 with M z >= 0 and z^T M z = 0, there is a
solution and it is found; for M positive semidefinite (copositive plus), a ray proves that there is none. For other
matrices a ray proves nothing. With floating-point numbers the answer is checked against M and q themselves before it
is called solved, and a cap on the number of pivots ends everything.

Work per pivot is that of the tableau, n^2, and about n/2 to n pivots are usual: n^3 in all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haptic_sim.contact.solvers.outcomes import INACCURATE, ITERATIONS, MEANING, RAY, SOLVED
from haptic_sim.errors import HapticsError
from haptic_sim.kernels import kernel
from haptic_sim.records import allocate, array, record

PIVOTS_PER_ROW = 5  # cap on the pivots; contacts take 0.6 a row, at most 2.2 of 10,000 random problems
_PIVOT = 1e-10  # an entry of the entering column below this part of the largest one, or of 1, is rounding
_TIE = 1e-11  # basic variables that fall below this part reach zero together
_ACCURACY = 1e-9  # by how much w may miss its conditions, relative to the largest |q|
_ROUNDING = 1e-16  # of the terms of a row
_LEAST = 1e-140  # numbers whose largest is below this, or above its inverse, are not scaled: products could overflow


class LcpError(HapticsError, ArithmeticError):
    """No solution was found; `code` is RAY, ITERATIONS or INACCURATE."""

    def __init__(self, code: int, n: int):
        self.code = code
        super().__init__(f"Lemke's method on {n} rows {MEANING[code]}")


@record
class LemkeMemory(NamedTuple):
    """Memory of `solve_lcp`. Variables: w is 0..n-1, z is n..2n-1, z0 is 2n."""

    T: np.ndarray = array("tableau, x_B + T[:, :n+1] x_N = T[:, n+1]", "rows", "rows + 2")
    label: np.ndarray = array("variable of each row and of each column", 2, "rows + 1", dtype=np.int64)
    place: np.ndarray = array(
        "column of each variable if it is nonbasic, else -1 - its row", "2 * rows + 1", dtype=np.int64
    )
    w: np.ndarray = array("slack variables", "rows")
    line: np.ndarray = array("copy of a row of the tableau", "rows + 2")
    pivots: np.ndarray = array("number of pivots that were done", 1, dtype=np.int64)


@kernel
def _exchange(n, T, label, place, line, row, column):
    """Let the variable of `column` become basic in the place of that of `row`."""
    width = n + 2
    inverse = 1.0 / T[row, column]
    T[row, column] = 1.0
    for k in range(width):
        T[row, k] *= inverse
        line[k] = T[
            row, k
        ]  # a copy cannot overlap with T: 3 times as fast at 100 rows, as the loop below is vectorized
    for i in range(n):
        factor = T[i, column]
        if i != row and factor != 0.0:
            T[i, column] = 0.0
            for k in range(width):
                T[i, k] -= factor * line[k]
    leaving, entering = label[0, row], label[1, column]
    label[0, row] = entering
    label[1, column] = leaving
    place[entering] = -1 - row
    place[leaving] = column


@kernel
def _comes_first(n, T, place, column, i, k):
    """Whether row i comes before row k in the lexicographic order of rows of the inverse basis over T[:, column].

    The inverse basis has the columns that belong to w: that of a basic w is a unit vector.
    """
    for j in range(n):
        if place[j] >= 0:
            a = T[i, place[j]]
            b = T[k, place[j]]
        else:
            a = 1.0 if place[j] == -1 - i else 0.0
            b = 1.0 if place[j] == -1 - k else 0.0
        a *= T[k, column]
        b *= T[i, column]
        if abs(a - b) > _TIE * (1.0 + abs(a) + abs(b)):
            return a < b
    return i < k


@kernel
def _leaving_row(n, T, label, place, column):
    """Row whose variable first reaches zero when that of the column grows from zero; -1 if none does."""
    largest = 1.0
    for i in range(n):
        largest = max(largest, abs(T[i, column]))
    least = np.inf
    for i in range(n):
        if T[i, column] > _PIVOT * largest:
            least = min(least, max(T[i, n + 1], 0.0) / T[i, column])
    if least == np.inf:
        return -1
    row = -1
    for i in range(n):
        if T[i, column] > _PIVOT * largest:
            value = max(T[i, n + 1], 0.0)
            if value - least * T[i, column] <= _TIE * (1.0 + value):
                if label[0, i] == 2 * n:
                    return i  # z0 is among them: solved
                if row < 0 or _comes_first(n, T, place, column, i, row):
                    row = i
    return row


@kernel
def _path(n, T, label, place, line, most):
    """Follow Lemke's path from the initial tableau, with negative entries in its last column."""
    row = 0
    for i in range(n):
        if T[i, n + 1] <= T[row, n + 1]:  # of equal ones the last: lexicographically least
            row = i
    column = n
    pivots = 0
    while True:
        leaving = label[0, row]
        _exchange(n, T, label, place, line, row, column)
        pivots += 1
        if leaving == 2 * n:
            return SOLVED, pivots
        if pivots >= most:
            return ITERATIONS, pivots
        column = place[leaving + n if leaving < n else leaving - n]
        row = _leaving_row(n, T, label, place, column)
        if row < 0:
            return RAY, pivots


@kernel
def _multiply(n, M, q, m, s, z, w):
    """Fill w with m M z + s q; returns whether w >= 0, and w = 0 where z > 0, within the accuracy.

    Within it has to be also what the rounding of M itself does to w, as far as terms cancel each other.
    """
    accurate = True
    for i in range(n):
        total = s * q[i]
        size = 1.0
        for j in range(n):
            term = m * M[i, j] * z[j]
            total += term
            size += abs(term)
        w[i] = total
        slack = _ACCURACY - _ROUNDING * size
        if not slack >= 0.0 or not total >= -slack or (z[i] > 0.0 and not total <= slack):
            accurate = False
    return accurate


@kernel
def solve_lcp(n, M, q, memory, most, z):
    """Fill z[:n] with a solution of the problem given by M[:n, :n] and q[:n]; returns a code.

    Entries of M, and those of q, should be of comparable size: tolerances are relative to the largest ones. With the
    final basis the solution is computed once more from M and q (one step of iterative refinement with the inverse
    basis that the tableau holds), so that it does not carry the rounding of all pivots.

    Args:
        n: number of rows.
        M: (N, N) with N >= n.
        q: (N,).
        memory: a `LemkeMemory` for at least n rows.
        most: cap on the pivots, at least 1; PIVOTS_PER_ROW * n + 10 is plenty.
        z: (N,).

    Returns:
        SOLVED; RAY (secondary ray); ITERATIONS (cap reached) or INACCURATE (what was found does not satisfy the
        problem within 1e-9 of the largest |q|, or numbers are not finite). If it is not SOLVED, z is zero.
    """
    T, label, place, w = memory.T, memory.label, memory.place, memory.w
    memory.pivots[0] = 0
    m = 0.0
    s = 0.0
    negative = False
    bounded = True
    for i in range(n):
        z[i] = 0.0
        negative = negative or q[i] < 0.0
        bounded = bounded and abs(q[i]) < 1.0 / _LEAST
        s = max(s, abs(q[i]))
        for j in range(n):
            bounded = bounded and abs(M[i, j]) < 1.0 / _LEAST
            m = max(m, abs(M[i, j]))
    if not bounded:
        return INACCURATE
    if not negative:
        return SOLVED
    if m == 0.0:
        return RAY  # no z changes a negative w
    if not (m > _LEAST and s > _LEAST):
        return INACCURATE
    m = 1.0 / m
    s = 1.0 / s
    for i in range(n):
        for j in range(n):
            T[i, j] = -m * M[i, j]
        T[i, n] = -1.0
        T[i, n + 1] = s * q[i]
        label[0, i] = i
        label[1, i] = n + i
        place[i] = -1 - i
        place[n + i] = i
    label[1, n] = 2 * n
    place[2 * n] = n
    code, pivots = _path(n, T, label, place, memory.line, most)
    memory.pivots[0] = pivots
    if code != SOLVED:
        return code
    for i in range(n):
        if label[0, i] >= n:
            z[label[0, i] - n] = max(T[i, n + 1], 0.0)
    _multiply(n, M, q, m, s, z, w)
    for i in range(n):
        if label[0, i] >= n:
            total = T[i, n + 1]
            for j in range(n):
                if place[j] >= 0:
                    total += T[i, place[j]] * w[j]  # a nonbasic w should be zero: the rest is error
            T[i, n + 1] = total
    for i in range(n):
        if label[0, i] >= n:
            z[label[0, i] - n] = max(T[i, n + 1], 0.0)
    accurate = _multiply(n, M, q, m, s, z, w)
    for i in range(n):
        z[i] *= m / s
        accurate = accurate and z[i] < np.inf
    if accurate:
        return SOLVED
    for i in range(n):
        z[i] = 0.0
    return INACCURATE


def lemke(M: np.ndarray, q: np.ndarray) -> np.ndarray:
    """A solution z (n,) of w = M z + q, w >= 0, z >= 0, z^T w = 0, by Lemke's method.

    Args:
        M: (n, n), finite.
        q: (n,), finite.

    Raises:
        ValueError: shapes do not fit, or a number is not finite.
        LcpError: no solution was found; its `code` says why.
    """
    M, q = np.ascontiguousarray(M, np.float64), np.ascontiguousarray(q, np.float64)
    if q.ndim != 1 or M.shape != (len(q), len(q)):
        raise ValueError(f"M and q have shapes {M.shape} and {q.shape}: must be (n, n) and (n,)")
    for name, value in (("M", M), ("q", q)):
        if not np.isfinite(value).all():
            raise ValueError(f"{name} has {value[~np.isfinite(value)].flat[0]}: must be finite")
    n = len(q)
    z = np.zeros(n)
    code = solve_lcp(n, M, q, allocate(LemkeMemory, {"rows": n}), PIVOTS_PER_ROW * n + 10, z)
    if code != SOLVED:
        raise LcpError(code, n)
    return z
