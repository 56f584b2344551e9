"""Where contacts go: rows, the deepest of them when there are more than rows."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from haptic_sim.collide.features import FEATURE_BITS
from haptic_sim.collide.vectors import dot, times
from haptic_sim.contact.rows import ContactRows

COINCIDENT = 1e-8  # [m] points of a pair that are one in the plane


class Pairs(NamedTuple):
    """The pairs of shapes.

    Attributes:
        objects: first (A) and second (B) geometry object, (P, 2) int64.
        body: their joints, (P, 2) int64.
        restitution: coefficient, (P,).
        friction: static and kinetic coefficient, (P, 2).
    """

    objects: np.ndarray
    body: np.ndarray
    restitution: np.ndarray
    friction: np.ndarray


class Sink(NamedTuple):
    """The arrays of `ContactRows` for kernels; counts: rows in use, contacts dropped, first row of the pair at work."""

    id: np.ndarray
    body: np.ndarray
    point: np.ndarray
    normal: np.ndarray
    separation: np.ndarray
    velocity: np.ndarray
    wall: np.ndarray
    restitution: np.ndarray
    friction: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, rows: ContactRows) -> Sink:
        """A sink into `rows`, whose count is the caller's to set."""
        return cls(
            rows.id,
            rows.body,
            rows.point,
            rows.normal,
            rows.separation,
            rows.velocity,
            rows.wall,
            rows.restitution,
            rows.friction,
            np.zeros(3, np.int64),
        )


@numba.njit(cache=True, nogil=True)
def free_row(sink, separation):
    """A row for a contact of that separation: a new one, or that of the shallowest contact; -1 if this is it."""
    count = sink.counts[0]
    if count < sink.id.shape[0]:
        sink.counts[0] = count + 1
        return count
    sink.counts[1] += 1
    shallowest = -1
    for i in range(count):
        if sink.separation[i] > separation and (
            shallowest < 0 or sink.separation[i] > sink.separation[shallowest]
        ):
            shallowest = i
    return shallowest


@numba.njit(cache=True, nogil=True)
def put(sink, pairs, pair, planar, margin, swap, n, x, s, reference, incident):
    """Add a contact between a reference plane and a point of an incident shape, if nearer than the margin.

    Args:
        sink, pairs: of type `Sink` and `Pairs`.
        pair: number of the pair.
        planar: whether to put the contact into the x-y plane.
        margin: [m].
        swap: whether the reference is the pair's second shape.
        n: unit normal from the reference to the incident shape.
        x: point of the incident shape [m].
        s: separation of x from the reference plane [m].
        reference, incident: features.

    Returns:
        1 if it is nearer than the margin, else 0.
    """
    if not s < margin:
        return 0
    first, second = reference, incident
    point, normal = x, n
    if swap:
        first, second = incident, reference
        point = (x[0] - s * n[0], x[1] - s * n[1], x[2] - s * n[2])
        normal = (-n[0], -n[1], -n[2])
    identity = (pair << (2 * FEATURE_BITS)) | (first << FEATURE_BITS) | second
    if planar:
        point = (point[0], point[1], 0.0)
        normal = (normal[0], normal[1], 0.0)
        square = dot(normal, normal)
        if not square > 1e-6:
            return 0  # one lies on top of the other
        normal = times(1.0 / np.sqrt(square), normal)
        begin = sink.counts[2] if sink.counts[1] == 0 else 0
        for i in range(begin, sink.counts[0]):
            if (
                sink.wall[i] == pair
                and abs(sink.point[i, 0] - point[0]) < COINCIDENT
                and abs(sink.point[i, 1] - point[1]) < COINCIDENT
            ):
                sink.id[i] = min(sink.id[i], identity)
                sink.separation[i] = min(sink.separation[i], s)
                return 1
    row = free_row(sink, s)
    if row < 0:
        return 1
    sink.id[row] = identity
    sink.separation[row] = s
    sink.velocity[row] = 0.0
    sink.wall[row] = pair
    sink.restitution[row] = pairs.restitution[pair]
    for k in range(2):
        sink.body[row, k] = pairs.body[pair, k]
        sink.friction[row, k] = pairs.friction[pair, k]
    for k in range(3):
        sink.point[row, k] = point[k]
        sink.normal[row, k] = normal[k]
    return 1
