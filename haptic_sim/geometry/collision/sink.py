"""Output of the collision detection: a list of contacts of limited size, which keeps the deepest, and their rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haptic_sim.geometry.collision.features import FEATURE_BITS
from haptic_sim.kernels import kernel
from haptic_sim.records import array, record, shared
from haptic_sim.vectors import dot, times

COINCIDENT = 1e-8  # [m] points of a pair that are one in the plane


@record
class Pairs(NamedTuple):
    """The pairs of shapes that may touch."""

    objects: np.ndarray = shared("first (A) and second (B) geometry object", "pairs", 2, dtype=np.int64)
    body: np.ndarray = shared("joints of the two objects", "pairs", 2, dtype=np.int64)
    restitution: np.ndarray = shared("coefficient of restitution", "pairs")
    friction: np.ndarray = shared("static and kinetic coefficient of friction", "pairs", 2)
    resistance: np.ndarray = shared("coefficient of rolling and torsional friction", "pairs", 2, unit="m")


@record
class Sink(NamedTuple):
    """A list of contacts, for kernels; the first used[0] count."""

    id: np.ndarray = array("identity", "contacts", dtype=np.int64)
    pair: np.ndarray = array("pair of shapes", "contacts", dtype=np.int64)
    point: np.ndarray = array("contact point of B", "contacts", 3, unit="m")
    normal: np.ndarray = array("unit normal from A to B", "contacts", 3)
    separation: np.ndarray = array("distance along the normal, negative where they overlap", "contacts", unit="m")
    weight: np.ndarray = array("part of the stiffness and damping of a penalty that acts", "contacts")
    used: np.ndarray = array("contacts in use", 1, dtype=np.int64)
    dropped: np.ndarray = array("contacts that there was no room for", 1, dtype=np.int64)
    begin: np.ndarray = array("first contact of the pair at work", 1, dtype=np.int64)


class Query(NamedTuple):
    """Query for the contacts of a pair of shapes; numbers, which kernels pass in registers."""

    pair: int  # its number
    margin: float  # [m] contacts nearer than this are found
    swap: bool  # whether the reference is the pair's second shape
    tolerance: float  # [m] at borders


@kernel(error_model="numpy")
def free_place(sink, separation):
    """A place for a contact of that separation: a new one, or that of the shallowest contact; -1 if this is it."""
    count = sink.used[0]
    if count < sink.id.shape[0]:
        sink.used[0] = count + 1
        return count
    sink.dropped[0] += 1
    shallowest = -1
    most = separation
    for i in range(count):
        if sink.separation[i] > most:
            most = sink.separation[i]
            shallowest = i
    return shallowest


@kernel(error_model="numpy")
def put(scene, query, n, x, s, reference, incident, weight=1.0):
    """Add a contact between a reference plane and a point of an incident shape, if nearer than the margin.

    Args:
        scene: `DetectorArrays`; the contact goes to `found`, in a planar world into the x-y plane.
        query: `Query`.
        n: unit normal from the reference to the incident shape.
        x: point of the incident shape [m].
        s: separation of x from the reference plane [m].
        reference, incident: features.
        weight: part of the stiffness of a contact that this one has; added up in `total` of the manifold.

    Returns:
        1 if it is nearer than the margin, else 0.
    """
    total = scene.manifold.total
    total[0], total[1] = total[0] + weight, min(total[1], s * min(1.0, 4.0 * weight / total[2]) if s < 0.0 else s)
    if not s < query.margin:
        return 0
    sink, pair = scene.found, query.pair
    first, second = reference, incident
    point, normal = x, n
    if query.swap:
        first, second = incident, reference
        point = (x[0] - s * n[0], x[1] - s * n[1], x[2] - s * n[2])
        normal = (-n[0], -n[1], -n[2])
    identity = (pair << (2 * FEATURE_BITS)) | (first << FEATURE_BITS) | second
    if scene.planar:
        point = (point[0], point[1], 0.0)
        normal = (normal[0], normal[1], 0.0)
        square = dot(normal, normal)
        if not square > 1e-6:
            return 0  # one lies on top of the other
        normal = times(1.0 / np.sqrt(square), normal)
        begin = sink.begin[0] if sink.dropped[0] == 0 else 0
        for i in range(begin, sink.used[0]):
            if (
                sink.pair[i] == pair
                and abs(sink.point[i, 0] - point[0]) < COINCIDENT
                and abs(sink.point[i, 1] - point[1]) < COINCIDENT
            ):
                sink.id[i] = min(sink.id[i], identity)
                sink.separation[i] = min(sink.separation[i], s)
                sink.weight[i] = max(sink.weight[i], weight)
                return 1
    i = free_place(sink, s)
    if i >= 0:
        sink.id[i], sink.pair[i], sink.separation[i], sink.weight[i] = identity, pair, s, weight
        sink.point[i, 0], sink.point[i, 1], sink.point[i, 2] = point
        sink.normal[i, 0], sink.normal[i, 1], sink.normal[i, 2] = normal
    return 1


@kernel(error_model="numpy")
def write_rows(scene):
    """Copy the contacts in `sink` into `rows`; returns how many."""
    sink, pairs, rows = scene.sink, scene.pairs, scene.rows
    count = sink.used[0]
    for i in range(count):
        pair = sink.pair[i]
        rows.id[i] = sink.id[i]
        rows.wall[i] = pair
        rows.separation[i], rows.weight[i] = sink.separation[i], sink.weight[i]
        rows.velocity[i] = 0.0
        rows.restitution[i] = pairs.restitution[pair]
        for k in range(2):
            rows.body[i, k] = pairs.body[pair, k]
            rows.friction[i, k], rows.resistance[i, k] = pairs.friction[pair, k], pairs.resistance[pair, k]
        for k in range(3):
            rows.point[i, k] = sink.point[i, k]
            rows.normal[i, k] = sink.normal[i, k]
    return count
