"""Rows of constraints in the metric of the inertia: factors, ranks, corrections.

With M = L L^T and y = L^T qd the rows become W = A L^-T, whose lengths and angles do not depend on the units of
coordinates or rows. W, each row scaled to unit length, is factored as W = T Q by Gram-Schmidt with pivoting, each
row orthogonalised twice. A row whose remainder is less than `linalg.RANK_TOLERANCE` after projection on the rows before
it depends on them: it is left out, and is reported. The correction of least kinetic energy that makes W y = r is Q^T z
with T z = r.
"""

from __future__ import annotations

from haptic_sim.kernels import kernel
from haptic_sim.linalg import cholesky, cholesky_solve, find_span, forward

_VANISHED = 1e-14  # a row that is shorter by this part than another is zero: units do not differ so far
# of each diagonal entry: keeps the factor of M where coordinates are singular, as Euler angles at the pole
INERTIA_FLOOR = 1e-12


@kernel
def factor_inertia(w, n):
    """Fill w.L with the factor of M; False where M is not positive (semi)definite or not finite."""
    for i in range(n):
        for j in range(i):
            w.gram[i, j] = w.M[i, j]
        w.gram[i, i] = (1.0 + INERTIA_FLOOR) * w.M[i, i]
    return cholesky(w.gram, n, w.L)


@kernel
def factor(w, n, rows):
    """Fill W, scale, T, Q, pivot and dependent for the first `rows` rows of A; returns the rank. Needs w.L."""
    for i in range(rows):
        for k in range(n):
            w.W[i, k] = w.A[i, k]
        forward(w.L, n, w.W[i])
    return find_span(rows, _VANISHED, w.W, w.scale, w.T, w.Q, w.pivot, w.dependent, w.r)


@kernel
def correct(w, n, rank, target, y):
    """Add to y the least change with which A L^-T y = target in the independent rows; w.z holds it along Q."""
    for i in range(rank):
        row = w.pivot[i]
        s = target[row] / w.scale[row]
        for k in range(n):
            s -= w.W[row, k] * y[k]
        for j in range(i):
            s -= w.T[row, j] * w.z[j]
        w.z[i] = s / w.T[row, i]
    for i in range(rank):
        for k in range(n):
            y[k] += w.Q[i, k] * w.z[i]


@kernel
def multipliers(w, rows, rank):
    """Fill w.multipliers with the lambda of least norm (in scaled rows) whose A^T lambda is the correction w.z."""
    for i in range(rows):
        w.multipliers[i] = 0.0
    dependent = False
    for i in range(rows):
        dependent = dependent or w.dependent[i]
    if not dependent:
        for i in range(rank - 1, -1, -1):  # the rows in order of pivots are lower triangular
            row = w.pivot[i]
            s = w.z[i]
            for j in range(i + 1, rank):
                s -= w.T[w.pivot[j], i] * w.multipliers[w.pivot[j]]
            w.multipliers[row] = s / w.T[row, i]
    else:  # T (T^T T)^-1 z
        for i in range(rank):
            for j in range(i + 1):
                s = 0.0
                for row in range(rows):
                    if w.scale[row] > 0.0:
                        s += w.T[row, i] * w.T[row, j]
                w.gram[i, j] = s
        cholesky(w.gram, rank, w.gram)
        cholesky_solve(w.gram, rank, w.z)
        for row in range(rows):
            for i in range(rank):
                w.multipliers[row] += w.T[row, i] * w.z[i]
    for i in range(rows):
        if w.scale[i] > 0.0:
            w.multipliers[i] /= w.scale[i]
