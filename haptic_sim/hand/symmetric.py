"""Eigenvalues of small symmetric matrices, without allocation."""

from __future__ import annotations

import math

import numba

_CONVERGED = 1e-36  # squares off the diagonal, as a part of those on it; convergence is quadratic
_SWEEPS = 40  # a 6x6 matrix takes 4 to 7


@numba.njit(cache=True, nogil=True)
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
