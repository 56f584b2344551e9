"""Flat regions of a reference shape, and the parts of an incident shape that lie above them.

A contact manifold has a reference: a flat piece of one shape (a face, the cap of a cylinder, a half-space) whose
normal is the contact normal. Above it lies the incident shape: a face clipped against the planes through the
reference's edges (Sutherland and Hodgman 1974), the axis of a capsule; of cylinders see `rims`. The points of
this part that are nearer to the reference plane than the margin are contacts.

An incident vertex within a tolerance of the border counts as above the region, so that equal boxes on top of each other
keep the identities of their corners despite rounding.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from haptic_sim.geometry.collision.features import EDGE, FACE, OTHER, VERTEX
from haptic_sim.geometry.collision.sink import put
from haptic_sim.kernels import kernel
from haptic_sim.records import array, record
from haptic_sim.vectors import (
    act,
    along,
    corner,
    cross,
    dot,
    length,
    minus,
    times,
    triple,
    turn_back,
)

BORDER = 2e-4  # tolerance at the border of a region, relative to the smaller shape
LONG = 0.5  # part of a radius from which on a part of a line or edge has its whole weight

# Features of cylinders and capsules, of sort OTHER: the end of a capsule or lowest point of a rim; the other points of
# a rim; a cap that an incident point is above; crossings of a rim.
RIM, SIDE, CAP, CROSSING = OTHER, OTHER + 2, OTHER + 16, OTHER + 32

POLYGON, DISC = 0, 1


@record
class ManifoldMemory(NamedTuple):
    """Memory for manifolds of shapes whose faces have up to so many corners.

    A corner of a polygon has as codes the feature of the reference, that of the incident shape, and the edge to the
    next corner: an edge of the incident shape, or -1 - i for side i of the reference.
    """

    polygon: np.ndarray = array("corners of two polygons", 2, "2 * corners + 4", 3, unit="m")
    code: np.ndarray = array("codes of these corners", 2, "2 * corners + 4", 3, dtype=np.int64)
    sides: np.ndarray = array("outward normal and offset of the planes through a region's edges", "max(corners, 1)", 4)
    part: np.ndarray = array(
        "part of each edge that is within a rim: where it begins and ends along the edge, and its weight",
        "max(corners, 1)",
        3,
    )
    weight: np.ndarray = array("weights of the points of a rim", 4)
    total: np.ndarray = array(
        "of the contacts of a manifold sum of the weights, least separation [m], and factor of the weights", 3, fill=1
    )
    edges: np.ndarray = array("edges near a witness point, of both shapes", 2, 8, dtype=np.int64)


class Region(NamedTuple):
    """A flat region in the plane n . x = offset, in registers of kernels: a POLYGON or a DISC."""

    kind: int
    n: tuple[float, float, float]  # unit normal
    offset: float  # [m]
    feature: int
    sides: int  # of a polygon, in `ManifoldMemory.sides`
    centre: tuple[float, float, float]  # of a disc [m]
    radius: float  # of a disc, infinite: the whole plane [m]


@kernel(error_model="numpy")
def facing(shapes, placement, g, d):
    """The face of a polytope that faces direction d (unit) best, and the cosine between its normal and d."""
    e = turn_back(placement, g, d)
    face = -1
    best = -2.0
    for f in range(shapes.first[g, 1], shapes.first[g + 1, 1]):
        cosine = shapes.faces[f, 0] * e[0] + shapes.faces[f, 1] * e[1] + shapes.faces[f, 2] * e[2]
        if cosine > best:
            best = cosine
            face = f
    return face, best


@kernel(error_model="numpy")
def corners_of(shapes, placement, g, face, work):
    """Put the corners of a face into the first polygon; returns how many."""
    begin = shapes.loop[face]
    m = shapes.loop[face + 1] - begin
    for k in range(m):
        vertex = shapes.loops[begin + k, 0]
        x = act(placement, g, triple(shapes.vertices, vertex))
        for i in range(3):
            work.polygon[0, k, i] = x[i]
        work.code[0, k, 0] = FACE  # of the reference; its number is added when the point is put
        work.code[0, k, 1] = VERTEX + vertex - shapes.first[g, 0]
        work.code[0, k, 2] = shapes.loops[begin + k, 1] - shapes.first[g, 2]
    return m


@kernel(error_model="numpy")
def sides_of(work, m, n):
    """Planes through the edges of the first polygon and along n; m corners, anticlockwise about n or clockwise."""
    turned = 0.0
    for k in range(1, m - 1):
        u = minus(corner(work.polygon, 0, k), corner(work.polygon, 0, 0))
        v = minus(corner(work.polygon, 0, k + 1), corner(work.polygon, 0, 0))
        turned += dot(cross(u, v), n)
    sign = 1.0 if turned >= 0.0 else -1.0
    for k in range(m):
        u = corner(work.polygon, 0, k)
        v = corner(work.polygon, 0, (k + 1) % m)
        side = times(sign, cross(minus(v, u), n))
        size = length(side)
        if size > 0.0:
            side = times(1.0 / size, side)
        for i in range(3):
            work.sides[k, i] = side[i]
        work.sides[k, 3] = dot(side, u)


@kernel(error_model="numpy")
def above(work, m, x, tolerance):
    """Whether x is within the m sides."""
    outside = 0
    for k in range(m):
        if dot(triple(work.sides, k), x) - work.sides[k, 3] > tolerance:
            outside += 1
    return outside == 0


@kernel(error_model="numpy")
def _clip(shapes, g, face, work, m, sides, tolerance):
    """Clip the first polygon (m corners) by the sides of a face of g; returns which polygon it is then, and m."""
    x, code, source = work.polygon, work.code, 0
    first_vertex, first_edge = shapes.first[g, 0], shapes.first[g, 2]
    begin = shapes.loop[face]
    for i in range(sides):
        side = triple(work.sides, i)
        offset = work.sides[i, 3]
        to = 1 - source
        count = 0
        for k in range(m):
            j = k + 1 if k + 1 < m else 0
            p, q = corner(x, source, k), corner(x, source, j)
            dp, dq = dot(side, p) - offset, dot(side, q) - offset
            if dp <= tolerance:
                for c in range(3):
                    x[to, count, c] = p[c]
                    code[to, count, c] = code[source, k, c]
                count += 1
            if (dp <= tolerance) == (dq <= tolerance):
                continue
            leaves = dp <= tolerance
            if leaves and dp > -tolerance:
                code[to, count - 1, 2] = -1 - i  # the corner itself is where the polygon crosses the side
                continue
            if not leaves and dq > -tolerance:
                continue
            z = along(p, dp / (dp - dq), minus(q, p))
            edge = code[source, k, 2]
            for c in range(3):
                x[to, count, c] = z[c]
            if edge >= 0:
                code[to, count, 0] = EDGE + shapes.loops[begin + i, 1] - first_edge
                code[to, count, 1] = EDGE + edge
            else:  # two sides of the reference meet: a vertex of it, below the incident face
                other = -1 - edge
                at = i
                if other == (i + 1) % sides:
                    at = other
                elif (other + 1) % sides != i:
                    at = -1
                if at >= 0:
                    code[to, count, 0] = VERTEX + shapes.loops[begin + at, 0] - first_vertex
                else:
                    code[to, count, 0] = OTHER + other * sides + i
                code[to, count, 1] = FACE
            code[to, count, 2] = -1 - i if leaves else edge
            count += 1
        source = to
        m = count
        if m == 0:
            break
    return source, m


@kernel(error_model="numpy")
def face_on_face(scene, query, a, face, n, offset, b):
    """Contacts of the face of polytope b that faces -n best, above `face` of polytope a, whose normal is n."""
    shapes, placement, work = scene.shapes, scene.placement, scene.manifold
    other, _ = facing(shapes, placement, b, times(-1.0, n))
    sides = corners_of(shapes, placement, a, face, work)
    sides_of(work, sides, n)
    m = corners_of(shapes, placement, b, other, work)
    source, m = _clip(shapes, a, face, work, m, sides, query.tolerance)
    found = 0
    for k in range(m):
        reference, incident = work.code[source, k, 0], work.code[source, k, 1]
        if reference == FACE:
            reference += face - shapes.first[a, 1]
        if incident == FACE:
            incident += other - shapes.first[b, 1]
        x = corner(work.polygon, source, k)
        found += put(scene, query, n, x, dot(n, x) - offset, reference, incident)
    return found


@kernel(error_model="numpy")
def part_above(work, region, x0, x1, tolerance):
    """Range of the part of the segment from x0 (0) to x1 (1) that is above a region; empty (1, 0) if there is none."""
    n = region.n
    low, high = 0.0, 1.0
    if region.kind == POLYGON:
        for k in range(region.sides):
            side = triple(work.sides, k)
            offset = work.sides[k, 3] + tolerance
            d0, d1 = dot(side, x0) - offset, dot(side, x1) - offset
            if d0 > 0.0 and d1 > 0.0:
                return 1.0, 0.0
            if d0 > 0.0:
                low = max(low, d0 / (d0 - d1))
            elif d1 > 0.0:
                high = min(high, d0 / (d0 - d1))
    else:
        u, e = minus(x0, region.centre), minus(x1, x0)
        low, high = crossings(along(u, -dot(n, u), n), along(e, -dot(n, e), n), region.radius + tolerance)
        low, high = max(low, 0.0), min(high, 1.0)
    return (low, high) if low <= high else (1.0, 0.0)


@kernel(error_model="numpy")
def size_of_part(n, x0, x1, low, high, r):
    """Size of a part of the segment from x0 to x1, of a shape of radius r, seen along n.

    It is 1 where the part is the whole segment or longer than LONG radii, else in proportion to the length.
    """
    e = minus(x1, x0)
    size = length(along(e, -dot(n, e), n))
    least = min(size, LONG * r)
    return 1.0 if (high - low) * size >= least else (high - low) * size / least


@kernel(error_model="numpy")
def segment_on(scene, query, region, x0, x1, r, part):
    """Contacts of the axis of a capsule, from x0 to x1, with radius r, above a region; part: factor of weights."""
    n, tolerance = region.n, query.tolerance
    low, high = part_above(scene.manifold, region, x0, x1, tolerance)
    if low > high:
        return 0
    e = minus(x1, x0)
    one = (high - low) * length(e) <= tolerance
    # both ends together have the weight of one point where the part is one, and of two where it is long
    weight = part * (1.0 if one else 0.5 + 0.5 * size_of_part(n, x0, x1, low, high, r))
    found = 0
    for end in range(1 if one else 2):
        x = along(along(x0, low if end == 0 else high, e), -r, n)
        found += put(scene, query, n, x, dot(n, x) - region.offset, region.feature, RIM + end, weight)
    return found


@kernel(error_model="numpy")
def crossings(u, e, radius):
    """Range of t in which |u + t e| <= radius; empty (1, 0) if there is none."""
    a, b, c = dot(e, e), dot(u, e), dot(u, u) - radius * radius
    if not a > 1e-30:
        return (0.0, 1.0) if c <= 0.0 else (1.0, 0.0)
    square = b * b - a * c
    if square < 0.0:
        return 1.0, 0.0
    root = math.sqrt(square)
    return (-b - root) / a, (-b + root) / a
