"""Rows of constraints in the metric of the inertia: factors, ranks, corrections.

With M = L L^T and y = L^T qd the rows become W = A L^-T, whose lengths and angles do not depend on the units of
coordinates or rows. W, each row scaled to unit length, is factored as W = T Q by Gram-Schmidt with pivoting, each
row done twice. A row of which less than RANK_TOLERANCE is left beside those before it depends on them: it
takes no part, and is reported. The correction of least kinetic energy that makes W y = r is Q^T z with T z = r.
"""

from __future__ import annotations

import math

import numba

from haptic_sim.contact.impulses import cholesky, cholesky_solve

RANK_TOLERANCE = 1e-8  # what must be left of a row of unit length beside the others
# of each diagonal entry: keeps the factor of M where coordinates are singular, as Euler angles at the pole
INERTIA_FLOOR = 1e-12


@numba.njit(cache=True, nogil=True)
def factor_inertia(w, n):
    """Fill w.L with the factor of M; False where M is not positive (semi)definite or not finite."""
    for i in range(n):
        for j in range(i):
            w.G[i, j] = w.M[i, j]
        w.G[i, i] = (1.0 + INERTIA_FLOOR) * w.M[i, i]
    return cholesky(w.G, n, w.L)


@numba.njit(cache=True, nogil=True)
def forward(L, n, x):
    """Solve L y = x in place."""
    for i in range(n):
        for k in range(i):
            x[i] -= L[i, k] * x[k]
        x[i] /= L[i, i]


@numba.njit(cache=True, nogil=True)
def backward(L, n, x):
    """Solve L^T y = x in place."""
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            x[i] -= L[k, i] * x[k]
        x[i] /= L[i, i]


@numba.njit(cache=True, nogil=True)
def factor(w, n, rows):
    """Fill W, scale, T, Q, pivot and dependent for the first `rows` rows of A; returns the rank. Needs w.L."""
    largest = 0.0
    for i in range(rows):
        for k in range(n):
            w.W[i, k] = w.A[i, k]
        forward(w.L, n, w.W[i])
        s = 0.0
        for k in range(n):
            s += w.W[i, k] * w.W[i, k]
        w.scale[i] = math.sqrt(s)
        largest = max(largest, w.scale[i])
    for i in range(rows):
        w.dependent[i] = 1
        w.r[i] = 0.0
        # a row that is shorter by this much than another has vanished: units do not differ so far
        if w.scale[i] > 1e-14 * largest:
            w.r[i] = 1.0
            for k in range(n):
                w.W[i, k] /= w.scale[i]
        else:
            w.scale[i] = 0.0
            for k in range(n):
                w.W[i, k] = 0.0
        for k in range(n):
            w.T[i, k] = 0.0
    rank = 0
    while rank < min(n, rows):
        best = 0
        for i in range(rows):  # w.r: squared rest of each row
            if w.r[i] > w.r[best]:
                best = i
        if not w.r[best] > 0.0:
            break
        q = w.Q[rank]
        for k in range(n):
            q[k] = w.W[best, k]
        for _ in range(2):
            for j in range(rank):
                s = 0.0
                for k in range(n):
                    s += w.Q[j, k] * q[k]
                for k in range(n):
                    q[k] -= s * w.Q[j, k]
        s = 0.0
        for k in range(n):
            s += q[k] * q[k]
        s = math.sqrt(s)
        if not s > RANK_TOLERANCE:
            w.r[best] = 0.0
            continue
        for k in range(n):
            q[k] /= s
        w.pivot[rank] = best
        w.dependent[best] = 0
        w.r[best] = 0.0
        for i in range(rows):
            t = 0.0
            for k in range(n):
                t += w.W[i, k] * q[k]
            w.T[i, rank] = t
            if w.dependent[i] == 1 and w.r[i] > 0.0:
                w.r[i] = max(w.r[i] - t * t, 1e-300)
        rank += 1
    return rank


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
def multipliers(w, rows, rank):
    """Fill w.multipliers with the lambda of least norm (in scaled rows) whose A^T lambda is the correction w.z."""
    for i in range(rows):
        w.multipliers[i] = 0.0
    dependent = False
    for i in range(rows):
        dependent = dependent or w.dependent[i] == 1
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
                w.G[i, j] = s
        cholesky(w.G, rank, w.G)
        cholesky_solve(w.G, rank, w.z)
        for row in range(rows):
            for i in range(rank):
                w.multipliers[row] += w.T[row, i] * w.z[i]
    for i in range(rows):
        if w.scale[i] > 0.0:
            w.multipliers[i] /= w.scale[i]
