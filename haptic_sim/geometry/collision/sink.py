"""Output of the collision detection: a list of contacts of limited size, which keeps the deepest, and their rows."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from haptic_sim.geometry.collision.features import FEATURE_BITS
from haptic_sim.vectors import dot, times

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
    """A list of contacts for kernels.

    Few arrays: reference counts of nine made `put` three times as slow.

    Attributes:
        id: identity and pair of each, (C, 2) int64.
        value: point of B [m], normal, separation [m], (C, 7).
        counts: contacts in use, contacts dropped, first contact of the pair at work, (3,) int64.
    """

    id: np.ndarray
    value: np.ndarray
    counts: np.ndarray

    @classmethod
    def allocate(cls, capacity: int) -> Sink:
        """Room for so many contacts."""
        return cls(np.zeros((capacity, 2), np.int64), np.zeros((capacity, 7)), np.zeros(3, np.int64))


@numba.njit(cache=True, nogil=True, error_model="numpy")
def free_place(sink, separation):
    """A place for a contact of that separation: a new one, or that of the shallowest contact; -1 if this is it."""
    count = sink.counts[0]
    if count < sink.id.shape[0]:
        sink.counts[0] = count + 1
        return count
    sink.counts[1] += 1
    shallowest = -1
    most = separation
    for i in range(count):
        if sink.value[i, 6] > most:
            most = sink.value[i, 6]
            shallowest = i
    return shallowest


@numba.njit(cache=True, nogil=True, error_model="numpy")
def put(sink, pair, planar, margin, swap, n, x, s, reference, incident):
    """Add a contact between a reference plane and a point of an incident shape, if nearer than the margin.

    Args:
        sink: a `Sink`.
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
    ids, value = sink.id, sink.value
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
                ids[i, 1] == pair
                and abs(value[i, 0] - point[0]) < COINCIDENT
                and abs(value[i, 1] - point[1]) < COINCIDENT
            ):
                ids[i, 0] = min(ids[i, 0], identity)
                value[i, 6] = min(value[i, 6], s)
                return 1
    i = free_place(sink, s)
    if i >= 0:
        ids[i, 0], ids[i, 1] = identity, pair
        value[i, 0], value[i, 1], value[i, 2] = point
        value[i, 3], value[i, 4], value[i, 5] = normal
        value[i, 6] = s
    return 1


@numba.njit(cache=True, nogil=True, error_model="numpy")
def write_rows(sink, pairs, rows):
    """Copy the contacts of a sink into the arrays of rows; returns how many."""
    count = sink.counts[0]
    for i in range(count):
        pair = sink.id[i, 1]
        rows.id[i] = sink.id[i, 0]
        rows.wall[i] = pair
        rows.separation[i] = sink.value[i, 6]
        rows.velocity[i] = 0.0
        rows.restitution[i] = pairs.restitution[pair]
        for k in range(2):
            rows.body[i, k] = pairs.body[pair, k]
            rows.friction[i, k] = pairs.friction[pair, k]
        for k in range(3):
            rows.point[i, k] = sink.value[i, k]
            rows.normal[i, k] = sink.value[i, 3 + k]
    return count
