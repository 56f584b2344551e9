"""Linear algebra of small matrices in kernels: nothing allocates, all factors are lower triangular.

Matrices of a world have blocks, one for each tree of bodies, which begin at `start` and are `size` wide. They are kept
by trees: row j (of nv) has the columns of its own block, the first one in column 0.
"""

from __future__ import annotations

import math

from haptic_sim.kernels import kernel

RANK_TOLERANCE = 1e-8  # what must be left of a row of unit length beside the others
_TIE = 1.0 + 1e-9  # of rows that are equal the first is taken, whatever rounding says
_CONVERGED = 1e-36  # squares off the diagonal, as a part of those on it; convergence is quadratic
_SWEEPS = 40  # a 6x6 matrix takes 4 to 7


@kernel
def cholesky(A, n, L):
    """Fill the lower triangle of `L` (n, n) with the factor of a symmetric positive definite A; False if it is not."""
    return _factor(A, 6, L) if n == 6 else _factor(A, n, L)  # of six rows, the compiler unrolls the loops


@kernel(inline="always")
def _factor(A, n, L):
    """Cholesky factor L of A (n, n); see `cholesky`."""
    for i in range(n):
        for j in range(i + 1):
            s = A[i, j]
            for k in range(j):
                s -= L[i, k] * L[j, k]
            if i == j:
                if not s > 0.0:
                    return False
                L[i, i] = math.sqrt(s)
            else:
                L[i, j] = s / L[j, j]
    return True


@kernel
def cholesky_solve(L, n, x):
    """Solve L L^T y = x in place."""
    forward(L, n, x)
    backward(L, n, x)


@kernel
def forward(L, n, x):
    """Solve L y = x in place."""
    for i in range(n):
        for k in range(i):
            x[i] -= L[i, k] * x[k]
        x[i] /= L[i, i]


@kernel
def backward(L, n, x):
    """Solve L^T y = x in place."""
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            x[i] -= L[k, i] * x[k]
        x[i] /= L[i, i]


@kernel
def cholesky_within(L, envelope, n):
    """Cholesky factor in place, bits as of `cholesky`, of a matrix whose row i is zero up to column envelope[i]."""
    for i in range(n):
        for j in range(envelope[i], i + 1):
            s = L[i, j]
            for k in range(max(envelope[i], envelope[j]), j):
                s -= L[i, k] * L[j, k]
            if i == j:
                if not s > 0.0:
                    return False
                L[i, i] = math.sqrt(s)
            else:
                L[i, j] = s / L[j, j]
    return True


@kernel
def solve_within(L, envelope, n, x):
    """Solve L L^T y = x in place, with a factor of `cholesky_within`."""
    for i in range(n):
        s = x[i]
        for k in range(envelope[i], i):
            s -= L[i, k] * x[k]
        x[i] = s / L[i, i]
    for i in range(n - 1, -1, -1):
        s = x[i]
        for k in range(i + 1, n):
            if envelope[k] <= i:
                s -= L[k, i] * x[k]
        x[i] = s / L[i, i]


@kernel
def to_velocity(L, start, size, u, v):
    """Fill v with L^-T u."""
    for tree in range(start.shape[0]):
        if start[tree] == 0 and size[tree] == 6:  # the compiler unrolls the loops
            _solve_transposed(L, 0, 6, u, v)
        else:
            _solve_transposed(L, start[tree], start[tree] + size[tree], u, v)


@kernel(inline="always")
def _solve_transposed(L, first, end, u, v):
    """Solve with the transposed factor for the coordinates of one tree; see `to_velocity`."""
    for j in range(end - 1, first - 1, -1):
        s = u[j]
        for k in range(j + 1, end):
            s -= L[k, j - first] * v[k]
        v[j] = s / L[j, j - first]


@kernel
def to_scaled(L, start, size, x):
    """x = L^-1 x."""
    for tree in range(start.shape[0]):
        first = start[tree]
        for j in range(first, first + size[tree]):
            s = x[j]
            for k in range(first, j):
                s -= L[j, k - first] * x[k]
            x[j] = s / L[j, j - first]


@kernel
def find_span(m, vanished, W, scale, T, Q, pivot, dependent, rest):
    """Find an orthonormal basis of the rows of W, by Gram-Schmidt with pivoting; returns their rank.

    Args:
        m: number of rows.
        vanished: a row that is shorter than this part of the longest one is taken for zero.
        W: (m, n) in: the rows; out: each of length 1, or 0 if it has vanished beside the others.
        scale: (m,) out: their lengths before, 0 of those that have vanished.
        T, Q: (m, m), (m, n) out: W = T Q; Q has as many orthonormal rows as the rank says.
        pivot: (m,) out: the row that each of Q was made of.
        dependent: (m,) bool out: rows that Q does not need.
        rest: (m,) work space: square of what is left of each row.
    """
    n = W.shape[1]
    largest = 0.0
    for i in range(m):
        s = 0.0
        for k in range(n):
            s += W[i, k] * W[i, k]
        scale[i] = math.sqrt(s)
        largest = max(largest, scale[i])
    for i in range(m):
        dependent[i] = True
        rest[i] = 0.0
        if scale[i] > vanished * largest:
            rest[i] = 1.0
            for k in range(n):
                W[i, k] /= scale[i]
        else:
            scale[i] = 0.0
            for k in range(n):
                W[i, k] = 0.0
        for k in range(min(m, n)):
            T[i, k] = 0.0
    rank = 0
    while rank < min(m, n):
        best = 0
        for i in range(m):
            if rest[i] > rest[best] * _TIE:
                best = i
        if not rest[best] > 0.0:
            break
        q = Q[rank]
        for k in range(n):
            q[k] = W[best, k]
        for _ in range(2):  # twice, so that rounding leaves nothing
            for j in range(rank):
                s = 0.0
                for k in range(n):
                    s += Q[j, k] * q[k]
                for k in range(n):
                    q[k] -= s * Q[j, k]
        s = 0.0
        for k in range(n):
            s += q[k] * q[k]
        s = math.sqrt(s)
        rest[best] = 0.0
        if not s > RANK_TOLERANCE:
            continue
        for k in range(n):
            q[k] /= s
        pivot[rank] = best
        dependent[best] = False
        for i in range(m):
            t = 0.0
            for k in range(n):
                t += W[i, k] * q[k]
            T[i, rank] = t
            if dependent[i] and rest[i] > 0.0:
                rest[i] = max(rest[i] - t * t, 1e-300)
        rank += 1
    return rank


@kernel
def symmetric_eigen(A, n, values, vectors):
    """Fill values[:n], ascending, and the rows of vectors[:n, :n], orthonormal, of the symmetric A[:n, :n].

    Cyclic Jacobi rotations; A is overwritten. Eigenvalues are right to about 1e-15 of the largest, and vectors that
    belong to nearly equal ones are orthonormal all the same.
    """
    for i in range(n):
        for j in range(n):
            vectors[i, j] = 1.0 if i == j else 0.0
    for _ in range(_SWEEPS):
        on, off = 0.0, 0.0
        for i in range(n):
            on += A[i, i] * A[i, i]
            for j in range(i):
                off += A[i, j] * A[i, j]
        if not off > _CONVERGED * on:
            break
        for p in range(n - 1):
            for q in range(p + 1, n):
                if A[p, q] == 0.0:
                    continue
                theta = 0.5 * (A[q, q] - A[p, p]) / A[p, q]
                t = 1.0 / (abs(theta) + math.sqrt(theta * theta + 1.0))  # tangent of the smaller angle
                if theta < 0.0:
                    t = -t
                c = 1.0 / math.sqrt(t * t + 1.0)
                s = t * c
                A[p, p] -= t * A[p, q]
                A[q, q] += t * A[p, q]
                A[p, q] = A[q, p] = 0.0
                for k in range(n):
                    if k != p and k != q:
                        x, y = A[k, p], A[k, q]
                        A[k, p] = A[p, k] = c * x - s * y
                        A[k, q] = A[q, k] = s * x + c * y
                    x, y = vectors[p, k], vectors[q, k]
                    vectors[p, k] = c * x - s * y
                    vectors[q, k] = s * x + c * y
    for i in range(n):
        values[i] = A[i, i]
    for i in range(n - 1):
        least = i
        for j in range(i + 1, n):
            if values[j] < values[least]:
                least = j
        if least != i:
            values[i], values[least] = values[least], values[i]
            for k in range(n):
                vectors[i, k], vectors[least, k] = vectors[least, k], vectors[i, k]
