"""Contacts along parallel lines: axes of capsules, sides of cylinders, edges of polytopes.

Lines side by side touch at both ends of their common part. The normal of two edges that cross is perpendicular to both.
That of parallel edges may have any direction across them which is in the normal cones of both: an arc between two
directions, each of which is the normal of a face. Where the two overlap, the shortest way out is one of these, and
which one it is changes as the edges slide past each other: of two cards that lean against each other either face would
do, and with less friction than the tangent of their angle they would slide along it. So where edges meet the normal
turns continuously, from that of the one face to that of the other. With the depth along the mean direction and the
distance of the edges across it, it is turned from the mean by the part TURNING * distance / depth of half the arc;
where that is more than all of it, an edge is on a face. A depth below ROUNDING counts as that, as if edges were
rounded: a bond of friction that yields hardly turns the normal.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from haptic_sim.geometry.collision.features import EDGE, FEATURES, OTHER, POLYTOPE
from haptic_sim.geometry.collision.sink import put
from haptic_sim.kernels import kernel
from haptic_sim.vectors import act, along, column, cross, dot, length, minus, times, triple, turn, turn_back

PARALLEL = 1e-2  # sine of the angle between lines that are parallel
ACROSS = 5e-2  # cosine of the angle between a line and the normal to which it is square
ARC = math.radians(2.0)  # least angle between the faces' normals of edges that meet
ROUNDING = 5e-5  # [m]
TURNING = 1.25  # for arcs of up to a right angle; wider ones turn faster, as an edge that touches a face has its normal
DEEPER = 0.1  # part by which edges that meet may miss the separation of the shapes
WITNESS = OTHER + FEATURES - 1  # nearest point of a shape


@kernel(error_model="numpy")
def edges_near(placement, shapes, g, p, tolerance, edges, which):
    """List the edges of a polytope nearest to p, within a tolerance; returns how many.

    A round shape has one line, its axis.
    """
    edges[which, 0] = 0
    if shapes.kind[g] != POLYTOPE:
        return 1
    x = turn_back(placement, g, minus(p, column(placement, g, 3)))
    nearest = math.inf
    count = 0
    for again in range(2):
        for e in range(shapes.first[g, 2], shapes.first[g + 1, 2]):
            u, v = triple(shapes.vertices, shapes.edges[e, 0]), triple(shapes.vertices, shapes.edges[e, 1])
            d, w = minus(v, u), minus(x, u)
            t = min(max(dot(d, w) / dot(d, d), 0.0), 1.0)
            distance = length(along(w, -t, d))
            if again == 0:
                nearest = min(nearest, distance)
            elif distance <= nearest + tolerance and count < edges.shape[1]:
                edges[which, count] = e
                count += 1
    return count


@kernel(error_model="numpy")
def axis_end(placement, shapes, g, end):
    """An end of the axis of a capsule or cylinder."""
    return act(placement, g, (0.0, 0.0, shapes.size[g, 1] if end == 0 else -shapes.size[g, 1]))


@kernel(error_model="numpy")
def _line(placement, shapes, g, edge):
    """Ends and thickness of a line on shape g: an edge, or an axis."""
    if shapes.kind[g] == POLYTOPE:
        u, v = shapes.edges[edge, 0], shapes.edges[edge, 1]
        return act(placement, g, triple(shapes.vertices, u)), act(placement, g, triple(shapes.vertices, v)), 0.0
    return axis_end(placement, shapes, g, 0), axis_end(placement, shapes, g, 1), shapes.size[g, 0]


class Lines(NamedTuple):
    """Two lines beside each other, in registers of kernels."""

    code_a: int
    code_b: int
    start_a: tuple[float, float, float]  # [m]
    start_b: tuple[float, float, float]  # [m]
    u: tuple[float, float, float]  # unit direction of the line of a
    v: tuple[float, float, float]  # from one end of the line of b to the other [m]
    t0: float  # where the line of b begins, along u from start_a [m]
    t1: float  # where it ends [m]
    low: float  # where the common part begins [m]
    high: float  # where it ends; behind `low` only if the lines are parallel [m]
    r_a: float  # radius around the line of a [m]
    r_b: float  # [m]


@kernel(error_model="numpy")
def _lines(placement, shapes, a, edge_a, b, edge_b):
    """The lines of two shapes; without a common part if they are not parallel."""
    a0, a1, r_a = _line(placement, shapes, a, edge_a)
    b0, b1, r_b = _line(placement, shapes, b, edge_b)
    code_a = code_b = WITNESS
    if shapes.kind[a] == POLYTOPE:
        code_a = EDGE + edge_a - shapes.first[a, 2]
    if shapes.kind[b] == POLYTOPE:
        code_b = EDGE + edge_b - shapes.first[b, 2]
    u, v = minus(a1, a0), minus(b1, b0)
    size = length(u)
    if size > 0.0:
        u = times(1.0 / size, u)
    t0, t1 = dot(u, minus(b0, a0)), dot(u, minus(b1, a0))
    low, high = max(0.0, min(t0, t1)), min(size, max(t0, t1))
    if not size > 0.0 or length(cross(u, v)) > PARALLEL * length(v):
        high = low
    return Lines(code_a, code_b, a0, b0, u, v, t0, t1, low, high, r_a, r_b)


@kernel(error_model="numpy")
def _between(lines, t):
    """Vector from the line of a to that of b at place t, across the line of a, and the point of b."""
    x = along(lines.start_b, (t - lines.t0) / (lines.t1 - lines.t0), lines.v)
    w = minus(x, along(lines.start_a, t, lines.u))
    return w, x


@kernel(error_model="numpy")
def _put_ends(scene, query, lines, n, weight):
    """Contacts at both ends of the common part along n; returns how many."""
    found = 0
    for end in range(2):
        w, x = _between(lines, lines.low if end == 0 else lines.high)
        # the far end of the line of a has the edge's second number
        code = lines.code_a + end * (FEATURES // 2) if lines.code_a != WITNESS else WITNESS - 1 + end
        found += put(
            scene, query, n, along(x, -lines.r_b, n), dot(n, w) - lines.r_a - lines.r_b, code, lines.code_b, weight
        )
    return found


@kernel(error_model="numpy")
def side_by_side(scene, query, a, b, n, lines_a, lines_b, weight):
    """Contacts at both ends of where two parallel lines square to n lie side by side; whether there are any."""
    shapes, placement, edges, tolerance = scene.shapes, scene.placement, scene.manifold.edges, query.tolerance
    for i in range(lines_a):
        for j in range(lines_b):
            lines = _lines(placement, shapes, a, edges[0, i], b, edges[1, j])
            if abs(dot(n, lines.u)) > ACROSS or abs(dot(n, lines.v)) > ACROSS * length(lines.v):
                continue
            if not lines.high - lines.low > 10.0 * tolerance:
                continue
            # the normal between parallel lines is theirs; coal's overlap of round shapes is right to 1e-6 m only
            across = along(n, -dot(n, lines.u), lines.u)
            across = times(1.0 / length(across), across)
            w, _ = _between(lines, 0.5 * (lines.low + lines.high))
            w = along(w, -dot(lines.u, w), lines.u)
            gap = length(w)
            if gap > tolerance and abs(dot(w, across)) > 0.99 * gap:
                across = times((1.0 if dot(w, across) > 0.0 else -1.0) / gap, w)
            if _put_ends(scene, query, lines, across, weight) > 0:
                return True
    return False


@kernel(error_model="numpy")
def _angle(x, y, n):
    """Angle of n from x towards y, which are square to each other."""
    return math.atan2(dot(n, y), dot(n, x))


@kernel(error_model="numpy")
def _arc(placement, shapes, a, edge_a, b, edge_b, u):
    """Normals that two parallel edges may have: a direction x, one y square to it, and the range of angles from x to y.

    The normal cone of an edge is the arc between the normals of its two faces; that of b is turned round.
    """
    x = turn(placement, a, triple(shapes.faces, shapes.sides[edge_a, 0]))
    x = along(x, -dot(x, u), u)
    x = times(1.0 / length(x), x)
    y = cross(u, x)
    until = _angle(x, y, turn(placement, a, triple(shapes.faces, shapes.sides[edge_a, 1])))
    if until < 0.0:
        y, until = times(-1.0, y), -until
    first = _angle(x, y, turn(placement, b, times(-1.0, triple(shapes.faces, shapes.sides[edge_b, 0]))))
    second = _angle(x, y, turn(placement, b, times(-1.0, triple(shapes.faces, shapes.sides[edge_b, 1]))))
    if first > second:
        first, second = second, first
    if second - first > math.pi:
        first, second = second, first + 2.0 * math.pi
    if 0.5 * (first + second) - 0.5 * until > math.pi:
        first, second = first - 2.0 * math.pi, second - 2.0 * math.pi
    return x, y, max(0.0, first), min(until, second)


@kernel(error_model="numpy")
def edges_meet(scene, query, a, face_a, b, face_b, n, separation, rounding):
    """Contacts where an edge of a face of polytope a meets a parallel one of a face of b; whether there are any.

    Such edges are within the other shape or nearer than `rounding`, and their separation is that of the shapes, along
    coal's normal n, too.
    """
    shapes, placement, tolerance = scene.shapes, scene.placement, query.tolerance
    slack = DEEPER * abs(separation) + rounding
    for i in range(shapes.loop[face_a], shapes.loop[face_a + 1]):
        edge_a = shapes.loops[i, 1]
        for j in range(shapes.loop[face_b], shapes.loop[face_b + 1]):
            edge_b = shapes.loops[j, 1]
            lines = _lines(placement, shapes, a, edge_a, b, edge_b)
            if not lines.high - lines.low > 10.0 * tolerance:
                continue
            w0, _ = _between(lines, lines.low)
            w1, _ = _between(lines, lines.high)
            if min(dot(n, w0), dot(n, w1)) > separation + slack:
                continue
            x, y, first, last = _arc(placement, shapes, a, edge_a, b, edge_b, lines.u)
            if not last - first > ARC:
                continue
            one = along(times(math.cos(first), x), math.sin(first), y)
            other = along(times(math.cos(last), x), math.sin(last), y)
            d0, d1 = -max(dot(w0, one), dot(w0, other)), -max(dot(w1, one), dot(w1, other))
            if abs(max(d0, d1) + separation) > slack:
                continue
            w = w0 if d0 > d1 else w1
            middle, half = 0.5 * (first + last), 0.5 * (last - first)
            depth = -dot(w, along(times(math.cos(middle), x), math.sin(middle), y))
            aside = dot(w, along(times(-math.sin(middle), x), math.cos(middle), y))
            part = TURNING * max(1.0, math.tan(half)) * aside / max(depth, rounding)
            if abs(part) < 1.0:
                angle = middle + part * half
                if _put_ends(scene, query, lines, along(times(math.cos(angle), x), math.sin(angle), y), 1.0) > 0:
                    return True
    return False
