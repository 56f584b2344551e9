"""Quadratic B-splines over a grid of nodes around a shape, and bounds of their derivatives.

With the coefficients c_n of nodes that are d apart,

    c(x) = sum_n B(x - x_n) c_n,   B: quadratic, with the support (-3/2 d, 3/2 d) along each axis,

which has a continuous gradient and lies between the lowest and the highest coefficient. Its derivatives are B-splines
of a lower degree over the differences of the coefficients (de Boor 1978), so that these bound them. Outside of the grid
the outermost nodes go on.
"""

from __future__ import annotations

import math

import numpy as np

from haptic_sim.kernels import kernel

AROUND = 2  # nodes beyond the shape


def nodes_around(extent: np.ndarray, spacing: float) -> np.ndarray:
    """Numbers of nodes along the axes around a box of this extent [m], (3,)."""
    found: np.ndarray = np.ceil(extent / spacing) + 1.0 + 2.0 * AROUND
    return found


def spacing_for(extent: np.ndarray, spacing: float, most: int) -> float:
    """The spacing, or about the next larger one with at most so many nodes around a box of this extent [m]."""
    while not nodes_around(extent, spacing).prod() <= most:
        spacing *= 1.1
    return spacing


def first_node(low: np.ndarray, high: np.ndarray, spacing: float) -> np.ndarray:
    """Place of the first node of a grid in whose middle is a box from `low` to `high` [m], (3,)."""
    return np.asarray(0.5 * (low + high) - 0.5 * (nodes_around(high - low, spacing) - 1.0) * spacing)


def derivative_bounds(coefficients: np.ndarray) -> tuple[float, float]:
    """Upper bounds of the first and the second derivative, per node and per node squared; coefficients (x, y, z)."""
    steps = [np.diff(coefficients, axis=k) for k in range(3)]
    largest = [float(np.abs(one).max(initial=0.0)) for one in steps]
    straight = max(float(np.abs(np.diff(one, axis=k)).max(initial=0.0)) for k, one in enumerate(steps))
    mixed = [float(np.abs(np.diff(steps[k], axis=m)).max(initial=0.0)) for k, m in ((0, 1), (0, 2), (1, 2))]
    return math.hypot(*largest), straight + max(mixed[0] + mixed[1], mixed[0] + mixed[2], mixed[1] + mixed[2])


@kernel
def within(p, nodes):
    """A place in nodes, not so far outside that it would not be a number of a node; there nothing changes."""
    return min(max(p, -2.0), nodes + 1.0)


@kernel
def node_at(i, count):
    """The node that stands for number i along an axis."""
    return min(max(i, 0), count - 1)


@kernel
def node_weights(t):
    """Quadratic B-splines of the three nodes around a place, t from -1/2 to 1/2 behind the second."""
    return 0.5 * (0.5 - t) * (0.5 - t), 0.75 - t * t, 0.5 * (0.5 + t) * (0.5 + t)


@kernel
def node_slopes(t):
    """Derivatives of the node weights by t."""
    return t - 0.5, -2.0 * t, t + 0.5


@kernel
def spline_over(keys, first, stride, nodes, p, q, r):
    """Value at a place in nodes, and slopes per node, of a spline of coefficients from `first` on, `stride` apart."""
    p, q, r = within(p, nodes[0]), within(q, nodes[1]), within(r, nodes[2])
    i, j, k = math.floor(p + 0.5), math.floor(q + 0.5), math.floor(r + 0.5)
    b, c, d = node_weights(p - i), node_weights(q - j), node_weights(r - k)
    db, dc, dd = node_slopes(p - i), node_slopes(q - j), node_slopes(r - k)
    whole = g0 = g1 = g2 = 0.0
    for a in range(3):
        for m in range(3):
            at = (node_at(i + a - 1, nodes[0]) * nodes[1] + node_at(j + m - 1, nodes[1])) * nodes[2]
            value = slope = 0.0
            for n in range(3):
                of_node = keys[first + stride * (at + node_at(k + n - 1, nodes[2]))]
                value += d[n] * of_node
                slope += dd[n] * of_node
            whole += b[a] * c[m] * value
            g0 += db[a] * c[m] * value
            g1 += b[a] * dc[m] * value
            g2 += b[a] * c[m] * slope
    return whole, g0, g1, g2
