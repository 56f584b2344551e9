"""Vectors of three numbers as tuples, for which kernels allocate no memory."""

from __future__ import annotations

import math

from haptic_sim.kernels import kernel


@kernel(error_model="numpy", inline="always")
def dot(a, b):
    """Scalar product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@kernel(error_model="numpy", inline="always")
def cross(a, b):
    """Vector product."""
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


@kernel(error_model="numpy", inline="always")
def minus(a, b):
    """a - b."""
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


@kernel(error_model="numpy", inline="always")
def along(a, s, b):
    """a + s b."""
    return (a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2])


@kernel(error_model="numpy", inline="always")
def times(s, a):
    """s a."""
    return (s * a[0], s * a[1], s * a[2])


@kernel(error_model="numpy", inline="always")
def length(a):
    """Euclidean norm."""
    return math.sqrt(dot(a, a))


@kernel(error_model="numpy", inline="always")
def triple(rows, i):
    """Row i of an array as a tuple."""
    return (rows[i, 0], rows[i, 1], rows[i, 2])


@kernel(error_model="numpy", inline="always")
def corner(polygons, which, k):
    """Corner k of one of several polygons."""
    return (polygons[which, k, 0], polygons[which, k, 1], polygons[which, k, 2])


@kernel(error_model="numpy", inline="always")
def act(placement, g, x):
    """Point x of geometry object g in the world; `placement` (G, 12): rotation by columns, position."""
    return (
        placement[g, 9] + placement[g, 0] * x[0] + placement[g, 3] * x[1] + placement[g, 6] * x[2],
        placement[g, 10] + placement[g, 1] * x[0] + placement[g, 4] * x[1] + placement[g, 7] * x[2],
        placement[g, 11] + placement[g, 2] * x[0] + placement[g, 5] * x[1] + placement[g, 8] * x[2],
    )


@kernel(error_model="numpy", inline="always")
def turn(placement, g, d):
    """Direction d of geometry object g in the world."""
    return (
        placement[g, 0] * d[0] + placement[g, 3] * d[1] + placement[g, 6] * d[2],
        placement[g, 1] * d[0] + placement[g, 4] * d[1] + placement[g, 7] * d[2],
        placement[g, 2] * d[0] + placement[g, 5] * d[1] + placement[g, 8] * d[2],
    )


@kernel(error_model="numpy")
def turn_back(placement, g, d):
    """Direction d of the world in the axes of geometry object g."""
    return (
        placement[g, 0] * d[0] + placement[g, 1] * d[1] + placement[g, 2] * d[2],
        placement[g, 3] * d[0] + placement[g, 4] * d[1] + placement[g, 5] * d[2],
        placement[g, 6] * d[0] + placement[g, 7] * d[1] + placement[g, 8] * d[2],
    )


@kernel(error_model="numpy")
def column(placement, g, k):
    """Axis k of geometry object g in the world; k = 3: its origin."""
    return (placement[g, 3 * k], placement[g, 3 * k + 1], placement[g, 3 * k + 2])
