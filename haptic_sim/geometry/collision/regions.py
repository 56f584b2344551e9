"""Flat regions of a reference shape, and the parts of an incident shape that lie above them.

A contact manifold has a reference: a flat piece of one shape (a face, the cap of a cylinder, a half-space) whose
normal is the contact normal. Above it lies the incident shape: a face clipped against the planes through the
reference's edges (Sutherland and Hodgman 1974), the axis of a capsule, the lowest points of a cylinder. The points of
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
    column,
    corner,
    cross,
    dot,
    length,
    minus,
    times,
    triple,
    turn,
    turn_back,
)

BORDER = 2e-4  # tolerance at the border of a region, relative to the smaller shape
FLAT_CAP = math.cos(math.radians(15.0))  # up to this tilt a cap and a face have a common region, beyond it a line
STEEP = 0.1  # cosine between the normals of a cap and of a face that still have a common region
LEVEL = 1e-4  # sine of the tilt below which the points of a rim are fixed to it

# Features of cylinders and capsules, of sort OTHER: the end of a capsule or lowest point of a rim; the other points of
# a rim; a cap that an incident point is above; crossings of a rim.
RIM, SIDE, CAP, CROSSING = OTHER, OTHER + 2, OTHER + 16, OTHER + 32
POINTS = 4  # of a rim

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
def segment_on(scene, query, region, x0, x1, r):
    """Contacts of a segment of thickness r above a region."""
    work, n, tolerance = scene.manifold, region.n, query.tolerance
    low, high = 0.0, 1.0
    if region.kind == POLYGON:
        for k in range(region.sides):
            side = triple(work.sides, k)
            d0, d1 = dot(side, x0) - work.sides[k, 3], dot(side, x1) - work.sides[k, 3]
            if d0 > tolerance and d1 > tolerance:
                return 0
            if d0 > tolerance:
                low = max(low, d0 / (d0 - d1))
            elif d1 > tolerance:
                high = min(high, max(d0 / (d0 - d1), 0.0))
    else:
        u, e = minus(x0, region.centre), minus(x1, x0)
        low, high = crossings(along(u, -dot(n, u), n), along(e, -dot(n, e), n), region.radius + tolerance)
        low, high = max(low, 0.0), min(high, 1.0)
    if not low <= high:
        return 0
    e = minus(x1, x0)
    found = 0
    for end in range(2):
        if end == 1 and (high - low) * length(e) <= tolerance:
            break  # one point
        x = along(along(x0, low if end == 0 else high, e), -r, n)
        found += put(scene, query, n, x, dot(n, x) - region.offset, region.feature, RIM + end)
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


@kernel(error_model="numpy")
def rim_point(shapes, placement, g, end, n, j=0):
    """A point of a cylinder's rim (end 0: that at +z), j quarter turns from the one that is farthest along -n.

    The four points move continuously with the pose. On springs they are as a potential: the lowest and the highest
    point do not change height along the rim, and the two beside them, which are equally high, change it oppositely. At
    no tilt they have no direction, but then the wrench of all four does not depend on it.
    """
    axis = column(placement, g, 2)
    half = shapes.size[g, 1] if end == 0 else -shapes.size[g, 1]
    down = along(times(dot(n, axis), axis), -1.0, n)
    sine = length(down)
    down = times(1.0 / sine, down) if sine > LEVEL else column(placement, g, 0)
    if j % 2 == 1:
        down = cross(axis, down)
    r = shapes.size[g, 0] if j < 2 else -shapes.size[g, 0]
    return along(along(column(placement, g, 3), half, axis), r, down)


@kernel(error_model="numpy")
def rim_code(end, j):
    """Feature of that point."""
    return RIM + end if j == 0 else SIDE + POINTS * end + j


@kernel(error_model="numpy")
def cap_facing(placement, g, d):
    """End of a cylinder whose cap faces direction d best, and the cosine between its normal and d."""
    cosine = dot(column(placement, g, 2), d)
    return (0, cosine) if cosine >= 0.0 else (1, -cosine)


@kernel(error_model="numpy")
def rim_on(scene, query, region, g, end):
    """Contacts of the rim of a cap of cylinder g above a disc."""
    shapes, placement, n = scene.shapes, scene.placement, region.n
    found = 0
    for j in range(POINTS):
        x = rim_point(shapes, placement, g, end, n, j)
        u = minus(x, region.centre)
        if length(along(u, -dot(n, u), n)) <= region.radius + query.tolerance:
            found += put(scene, query, n, x, dot(n, x) - region.offset, region.feature, rim_code(end, j))
    return found


@kernel(error_model="numpy")
def polygon_and_cap(scene, query, g, face, c, end, cap_is_reference, n):
    """Contacts where the face of polytope g and the cap of cylinder c lie above each other along n.

    The corners of the common region: corners of the face above the cap, crossings of its edges with the rim, and
    four points of the rim that are above the face. n points from the reference to the other.
    """
    shapes, placement, work, tolerance = scene.shapes, scene.placement, scene.manifold, query.tolerance
    m = corners_of(shapes, placement, g, face, work)
    sides_of(work, m, n)
    axis = column(placement, c, 2)
    cap = times(1.0 if end == 0 else -1.0, axis)
    centre = along(column(placement, c, 3), shapes.size[c, 1], cap)
    radius = shapes.size[c, 0]
    slope = 1.0 / dot(n, cap)
    found = 0
    for k in range(m):
        # x on the face, y = x + h n on the plane of the cap
        x, e = corner(work.polygon, 0, k), minus(corner(work.polygon, 0, (k + 1) % m), corner(work.polygon, 0, k))
        h, rise = -slope * dot(minus(x, centre), cap), -slope * dot(e, cap)
        u, ue = minus(along(x, h, n), centre), along(e, rise, n)
        v = along(u, 1.0, ue)
        inside, next_inside = length(u) <= radius + tolerance, length(v) <= radius + tolerance
        low, high = crossings(u, ue, radius)
        for which in range(3):
            if which == 0:
                if not inside:
                    continue
                t = 0.0
                face_code, cap_code = work.code[0, k, 1], CAP + end
            else:
                t = low if which == 1 else high
                if (inside if which == 1 else next_inside) or not 0.0 < t < 1.0 or low >= high:
                    continue
                face_code, cap_code = EDGE + work.code[0, k, 2], CROSSING + 2 * end + which - 1
            z = along(x, t, e)
            s = h + t * rise
            if cap_is_reference:
                found += put(scene, query, n, z, -s, cap_code, face_code)
            else:
                found += put(scene, query, n, along(z, s, n), s, face_code, cap_code)
    up = turn(placement, g, triple(shapes.faces, face))
    steep = dot(n, up)
    if abs(steep) < STEEP:
        return found
    for j in range(POINTS):
        y = rim_point(shapes, placement, c, end, up if cap_is_reference else n, j)
        if above(work, m, y, tolerance):
            h = -dot(minus(y, corner(work.polygon, 0, 0)), up) / steep  # y + h n on the face
            reference, incident = FACE + face - shapes.first[g, 1], rim_code(end, j)
            if cap_is_reference:
                found += put(scene, query, n, along(y, h, n), h, incident, reference)
            else:
                found += put(scene, query, n, y, -h, reference, incident)
    return found


@kernel(error_model="numpy")
def cap_on_cap(scene, query, a, end_a, b, end_b, n, offset):
    """Contacts of two caps that lie above each other along n, the normal of the cap of a.

    Rim points of b above a; if part of b's rim is not above a, rim points of a below b, and where the rims cross.
    """
    shapes, placement, tolerance = scene.shapes, scene.placement, query.tolerance
    n_b = times(1.0 if end_b == 0 else -1.0, column(placement, b, 2))
    centre_a = along(column(placement, a, 3), shapes.size[a, 1], n)
    centre_b = along(column(placement, b, 3), shapes.size[b, 1], n_b)
    r_a, r_b = shapes.size[a, 0], shapes.size[b, 0]
    found = rim_on(scene, query, Region(DISC, n, offset, CAP + end_a, 0, centre_a, r_a), b, end_b)
    u = minus(centre_b, centre_a)
    u = along(u, -dot(n, u), n)
    e = length(u)
    if e + r_b <= r_a + tolerance:
        return found
    slope = 1.0 / dot(n, n_b)
    for j in range(6):
        if j < 4:
            x = rim_point(shapes, placement, a, end_a, n_b, j)
            code = rim_code(end_a, j)
        else:
            # rims of circles at distance e cross at (e^2 + r_a^2 - r_b^2) / 2e along u, and to both sides
            if not e > tolerance or not abs(r_a - r_b) < e < r_a + r_b:
                break
            d = 0.5 * (e * e + r_a * r_a - r_b * r_b) / e
            x = along(
                along(centre_a, d / e, u), (9.0 - 2.0 * j) * math.sqrt(max(r_a * r_a - d * d, 0.0)) / e, cross(n, u)
            )
            code = CROSSING + j
        h = -slope * dot(minus(x, centre_b), n_b)
        y = along(x, h, n)
        if j < 4 and length(minus(y, centre_b)) > r_b + tolerance:
            continue
        found += put(scene, query, n, y, h, code, CAP + end_b)
    return found
