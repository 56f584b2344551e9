"""Vectors of three numbers as tuples: kernels need no memory for them."""

from __future__ import annotations

import math

import numba


@numba.njit(cache=True, nogil=True)
def dot(a, b):
    """Scalar product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@numba.njit(cache=True, nogil=True)
def cross(a, b):
    """Vector product."""
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


@numba.njit(cache=True, nogil=True)
def minus(a, b):
    """a - b."""
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


@numba.njit(cache=True, nogil=True)
def along(a, s, b):
    """a + s b."""
    return (a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2])


@numba.njit(cache=True, nogil=True)
def times(s, a):
    """s a."""
    return (s * a[0], s * a[1], s * a[2])


@numba.njit(cache=True, nogil=True)
def length(a):
    """Euclidean norm."""
    return math.sqrt(dot(a, a))


@numba.njit(cache=True, nogil=True)
def triple(rows, i):
    """Row i of an array as a tuple."""
    return (rows[i, 0], rows[i, 1], rows[i, 2])


@numba.njit(cache=True, nogil=True)
def act(placement, g, x):
    """Point x of geometry object g in the world; `placement` (G, 12): rotation by columns, position."""
    X = placement[g]
    return (
        X[9] + X[0] * x[0] + X[3] * x[1] + X[6] * x[2],
        X[10] + X[1] * x[0] + X[4] * x[1] + X[7] * x[2],
        X[11] + X[2] * x[0] + X[5] * x[1] + X[8] * x[2],
    )


@numba.njit(cache=True, nogil=True)
def turn(placement, g, d):
    """Direction d of geometry object g in the world."""
    X = placement[g]
    return (
        X[0] * d[0] + X[3] * d[1] + X[6] * d[2],
        X[1] * d[0] + X[4] * d[1] + X[7] * d[2],
        X[2] * d[0] + X[5] * d[1] + X[8] * d[2],
    )


@numba.njit(cache=True, nogil=True)
def turn_back(placement, g, d):
    """Direction d of the world in the axes of geometry object g."""
    X = placement[g]
    return (
        X[0] * d[0] + X[1] * d[1] + X[2] * d[2],
        X[3] * d[0] + X[4] * d[1] + X[5] * d[2],
        X[6] * d[0] + X[7] * d[1] + X[8] * d[2],
    )


@numba.njit(cache=True, nogil=True)
def column(placement, g, k):
    """Axis k of geometry object g in the world; k = 3: its origin."""
    X = placement[g]
    return (X[3 * k], X[3 * k + 1], X[3 * k + 2])
