"""Contact manifolds: the points at which two shapes touch, from coal's normal and nearest points.

 - A shape with a field: `field_contacts`.
 - Half-space: the normal is known, and every vertex, end or rim point within the margin is a contact.
 - A cylinder (`rims`): above a face or cap, and at coal's nearest points, in proportions that are continuous in the
   pose. A face or cap has its whole manifold up to half of what it may miss the separation of the shapes by, and none
   beyond. Two of them share in these parts, and the nearest points have what is missing to the weight of one point.
 - A face or cap within SNAP of coal's normal: it is the reference, its normal the contact normal (coal's own is
   accurate to its tolerance, 1e-6 m; the face's to rounding), and `regions` finds the contacts above it. If these do
   not include the deepest point that coal finds, coal's nearest points are a contact as well. Where shapes just touch,
   coal's normal may have any direction (for the corner of a cube on an equal cube the shortest way out is sideways):
   then a face that is as good a separating plane to within 1e-3 of the shapes is the reference.
 - Two parallel lines (axes of capsules, sides of cylinders, edges): both ends of their common part (`edges`). Parallel
   edges that are each within the other shape come before faces.
 - All other pairs, spheres among them: one contact at coal's nearest points.

Where both shapes have a face along the normal, that of the larger shape is the reference (of equal shapes that with the
lower number), unless the other face is aligned better by more than about 0.1 degree. This choice does not change from
step to step, nor with the order of the pair. Where coal gives no normal, as for two spheres about one centre, the
normal is an axis of the first shape. Where shapes just touch and it gives one along which they would be deep in each
other, it is turned back if it is the opposite one, else that of the face along which they are farthest apart is taken.
"""

from __future__ import annotations

import math

from haptic_sim.geometry.collision.edges import ROUNDING, WITNESS, axis_end, edges_meet, edges_near, side_by_side
from haptic_sim.geometry.collision.features import (
    CAPSULE,
    CYLINDER,
    EDGE,
    FACE,
    FIELD,
    HALFSPACE,
    POLYTOPE,
    SPHERE,
    VERTEX,
)
from haptic_sim.geometry.collision.field_contacts import end_tick, field_contacts
from haptic_sim.geometry.collision.regions import (
    BORDER,
    CAP,
    DISC,
    POLYGON,
    RIM,
    Region,
    corners_of,
    face_on_face,
    facing,
    segment_on,
    sides_of,
)
from haptic_sim.geometry.collision.rims import cap_facing, cylinder_above, face_and_cap, rim_on_plane, shown
from haptic_sim.geometry.collision.sink import Query, put
from haptic_sim.kernels import kernel
from haptic_sim.vectors import act, along, column, dot, length, minus, times, triple, turn, turn_back

SNAP = math.cos(math.radians(2.0))  # between coal's normal and that of a face
BETTER = 1e-6  # by which the cosine of the smaller shape's face must be larger: 0.08 degrees
GRAZING = 5.0  # tolerances by which a face may miss the separation of shapes that just touch
SHALLOWER = 0.1  # part by which the contacts of a face may miss the separation of the shapes


@kernel(error_model="numpy")
def fill_contacts(scene, count, margin):
    """Fill `found` of a scene with the contacts of the first `count` pairs in `near`.

    Args:
        scene: `DetectorArrays`.
        count: number of near pairs.
        margin: [m].
    """
    sink, shapes, objects = scene.found, scene.shapes, scene.pairs.objects
    sink.used[0] = sink.dropped[0] = 0
    for i in range(count):
        pair = scene.near[i]
        a, b = objects[pair, 0], objects[pair, 1]
        sink.begin[0] = sink.used[0]
        if shapes.kind[a] == FIELD or shapes.kind[b] == FIELD:
            field_contacts(scene, pair, margin)
        elif shapes.kind[a] == HALFSPACE:
            _on_halfspace(scene, Query(pair, margin, False, 0.0), a, b)
        elif shapes.kind[b] == HALFSPACE:
            _on_halfspace(scene, Query(pair, margin, True, 0.0), b, a)
        else:
            _solids(scene, pair, margin, a, b)
    end_tick(scene)


@kernel(error_model="numpy")
def _on_halfspace(scene, query, plane, g):
    """Contacts of shape g on a half-space."""
    shapes, placement = scene.shapes, scene.placement
    n = turn(placement, plane, triple(shapes.box, plane))
    offset = shapes.box[plane, 3] + dot(n, column(placement, plane, 3))
    kind = shapes.kind[g]
    r, half = shapes.size[g, 0], shapes.size[g, 1]
    if kind == POLYTOPE:
        first = shapes.first[g, 0]
        for v in range(first, shapes.first[g + 1, 0]):
            x = act(placement, g, triple(shapes.vertices, v))
            put(scene, query, n, x, dot(n, x) - offset, FACE, VERTEX + v - first)
    elif kind == SPHERE:
        x = along(column(placement, g, 3), -r, n)
        put(scene, query, n, x, dot(n, x) - offset, FACE, RIM)
    elif kind == CAPSULE:
        for end in range(2):
            x = act(placement, g, (0.0, 0.0, half if end == 0 else -half))
            x = along(x, -r, n)
            put(scene, query, n, x, dot(n, x) - offset, FACE, RIM + end)
    elif kind == CYLINDER:
        rim_on_plane(scene, query, n, offset, g)


@kernel(error_model="numpy")
def _farthest(placement, shapes, g, n):
    """The largest n . x over the points x of shape g."""
    s = dot(n, column(placement, g, 3))
    kind = shapes.kind[g]
    if kind == POLYTOPE:
        e = turn_back(placement, g, n)
        best = -math.inf
        for v in range(shapes.first[g, 0], shapes.first[g + 1, 0]):
            best = max(best, dot(e, triple(shapes.vertices, v)))
        return s + best
    cosine = abs(dot(n, column(placement, g, 2)))
    s += shapes.size[g, 1] * cosine
    if kind == CYLINDER:
        return s + shapes.size[g, 0] * math.sqrt(max(1.0 - cosine * cosine, 0.0))
    return s + shapes.size[g, 0]


@kernel(error_model="numpy")
def _separation(placement, shapes, a, b, n):
    """Separation of shapes a and b along n, from a to b."""
    return -_farthest(placement, shapes, b, times(-1.0, n)) - _farthest(placement, shapes, a, n)


@kernel(error_model="numpy")
def _nearest(scene, pair, a, b):
    """Normal from a to b and their nearest points, from coal; where it has none, along an axis of a."""
    shapes, placement, witness, at = scene.shapes, scene.placement, scene.witness, scene.column
    row = scene.slot[pair]
    n = (witness[row, at], witness[row, at + 1], witness[row, at + 2])
    p = (witness[row, at + 3], witness[row, at + 4], witness[row, at + 5])
    q = (witness[row, at + 6], witness[row, at + 7], witness[row, at + 8])
    size = length(n)
    middle_a, middle_b = act(placement, a, triple(shapes.box, a)), act(placement, b, triple(shapes.box, b))
    between = minus(middle_b, middle_a)
    distance = length(between)
    if abs(size - 1.0) < 1e-3:
        n = times(1.0 / size, n)
        # numbers near the largest there is are coal's way of saying that it failed
        reach = 8.0 * (shapes.size[a, 2] + shapes.size[b, 2] + distance)
        u, v = minus(p, middle_a), minus(q, middle_a)
        if max(abs(u[0]), abs(u[1]), abs(u[2])) < reach and max(abs(v[0]), abs(v[1]), abs(v[2])) < reach:
            return n, p, q
    elif distance > 1e-6 * shapes.size[a, 2]:
        n = times(1.0 / distance, between)
    else:
        n = column(placement, a, 0)  # of a round shape across its axis
    x = middle_b
    p = along(x, _farthest(placement, shapes, a, n) - dot(n, x), n)
    q = along(x, -_farthest(placement, shapes, b, times(-1.0, n)) - dot(n, x), n)
    return n, p, q


@kernel(error_model="numpy")
def _flat(placement, shapes, g, d):
    """The face or cap of shape g that faces direction d, and the cosine of the angle between; -2 if it has none."""
    kind = shapes.kind[g]
    if kind == POLYTOPE:
        return facing(shapes, placement, g, d)
    if kind == CYLINDER:
        return cap_facing(placement, g, d)
    return -1, -2.0


@kernel(error_model="numpy")
def _flattest(placement, shapes, a, b, n, face, cosine):
    """The face or cap of shape a above which b is highest, of those that face n at all, and how high b is there."""
    best = -math.inf
    if shapes.kind[a] == CYLINDER and cosine > 0.1:
        up = times(1.0 if face == 0 else -1.0, column(placement, a, 2))
        offset = shapes.size[a, 1] + dot(up, column(placement, a, 3))
        return face, -_farthest(placement, shapes, b, times(-1.0, up)) - offset
    if shapes.kind[a] == POLYTOPE:
        for f in range(shapes.first[a, 1], shapes.first[a + 1, 1]):
            up = turn(placement, a, triple(shapes.faces, f))
            if dot(up, n) > 0.1:
                offset = shapes.faces[f, 3] + dot(up, column(placement, a, 3))
                height = -_farthest(placement, shapes, b, times(-1.0, up)) - offset
                if height > best:
                    best = height
                    face = f
    return face, best


@kernel(error_model="numpy")
def _separating_face(placement, shapes, a, b, n, along_n, s):
    """The face's normal along which a and b are farthest apart, and how far: n and s if none is better than n.

    Args:
        n, along_n: a normal from a to b and the separation along it.
        s: what coal takes for that separation.
    """
    best = along_n
    for k in range(2):
        g, other, sign = (a, b, 1.0) if k == 0 else (b, a, -1.0)
        if shapes.kind[g] != POLYTOPE:
            continue
        for f in range(shapes.first[g, 1], shapes.first[g + 1, 1]):
            up = turn(placement, g, triple(shapes.faces, f))
            offset = shapes.faces[f, 3] + dot(up, column(placement, g, 3))
            height = -_farthest(placement, shapes, other, times(-1.0, up)) - offset
            if height > best:
                best, s = height, height
                n = times(sign, up)
    return n, s


@kernel(error_model="numpy")
def _solids(scene, pair, margin, a, b):
    """Contacts of two shapes that are no half-spaces."""
    shapes, placement, edges = scene.shapes, scene.placement, scene.manifold.edges
    n, p, q = _nearest(scene, pair, a, b)
    s = dot(n, minus(q, p))
    if not s < margin:
        return
    tolerance = BORDER * min(shapes.size[a, 2], shapes.size[b, 2])
    slop = GRAZING * tolerance
    # of boxes a few um apart or in each other, nearly parallel, coal's normal is wrong in 1 of 200 poses
    along_n = _separation(placement, shapes, a, b, n)
    if along_n < s - slop:
        if _separation(placement, shapes, a, b, times(-1.0, n)) > s - slop:
            n, s = times(-1.0, n), -s
        else:
            n, s = _separating_face(placement, shapes, a, b, n, along_n, s)
    query = Query(pair, margin, False, tolerance)
    if shapes.kind[a] == SPHERE or shapes.kind[b] == SPHERE:
        put(scene, query, n, q, s, WITNESS, WITNESS)
        return
    face_a, cosine_a = _flat(placement, shapes, a, n)
    face_b, cosine_b = _flat(placement, shapes, b, times(-1.0, n))
    sharp = shapes.kind[a] == shapes.kind[b] == POLYTOPE and min(cosine_a, cosine_b) < SNAP
    if sharp and s < ROUNDING and edges_meet(scene, query, a, face_a, b, face_b, n, s, min(ROUNDING, slop)):
        return
    larger = shapes.size[a, 2] > shapes.size[b, 2] or (shapes.size[a, 2] == shapes.size[b, 2] and a < b)
    weight = 1.0
    if shapes.kind[a] == CYLINDER or shapes.kind[b] == CYLINDER:
        weight = _on_rims(scene, query, a, face_a, cosine_a, b, face_b, cosine_b, n, s, larger)
        if not weight > 0.0:
            return
    elif _on_flats(scene, query, a, face_a, cosine_a, b, face_b, cosine_b, n, q, s, larger):
        return
    lines_a = edges_near(placement, shapes, a, p, tolerance, edges, 0)
    lines_b = edges_near(placement, shapes, b, q, tolerance, edges, 1)
    if side_by_side(scene, query, a, b, n, lines_a, lines_b, weight):
        return
    code_a = code_b = WITNESS
    if shapes.kind[a] == POLYTOPE and shapes.kind[b] == POLYTOPE:
        code_a, code_b = EDGE + edges[0, 0] - shapes.first[a, 2], EDGE + edges[1, 0] - shapes.first[b, 2]
    put(scene, query, n, q, s, code_a, code_b, weight)


@kernel(error_model="numpy")
def _on_flats(scene, query, a, face_a, cosine_a, b, face_b, cosine_b, n, q, s, larger):
    """Contacts of two shapes, neither of which is a cylinder, above a face; whether there are any.

    Args:
        face_a, cosine_a, face_b, cosine_b: face of each that faces the other, and its cosine with n.
        n, q, s: normal, nearest point of b and separation of the shapes.
        larger: whether a is the larger shape.
    """
    shapes, placement, sink = scene.shapes, scene.placement, scene.found
    slop = GRAZING * query.tolerance
    flat = max(cosine_a, cosine_b) > SNAP
    of_a = cosine_a > cosine_b - BETTER if larger else not cosine_b > cosine_a - BETTER
    if not flat and abs(s) < slop:
        back = times(-1.0, n)
        grazed_a, least_a = _flattest(placement, shapes, a, b, n, face_a, cosine_a)
        grazed_b, least_b = _flattest(placement, shapes, b, a, back, face_b, cosine_b)
        good_a, good_b = least_a > s - slop, least_b > s - slop
        flat = good_a or good_b
        of_a = good_a and (larger or not good_b)
        if flat:
            face_a, face_b = grazed_a, grazed_b
    if not flat:
        return False
    before = sink.used[0]
    if of_a:
        found = _above(scene, query, a, face_a, b, 1.0)
    else:
        found = _above(scene, Query(query.pair, query.margin, True, query.tolerance), b, face_b, a, 1.0)
    if found == 0:
        return False
    # deep in each other, the face that lies opposite need not be where the shapes overlap most
    deepest = math.inf
    for i in range(before, sink.used[0]):
        deepest = min(deepest, sink.separation[i])
    if before < sink.used[0] and deepest > s + SHALLOWER * abs(s) + query.tolerance:
        put(scene, query, n, q, s, WITNESS, WITNESS)
    return True


@kernel(error_model="numpy")
def _on_rims(scene, query, a, face_a, cosine_a, b, face_b, cosine_b, n, s, larger):
    """Contacts of two shapes, one of which is a cylinder, above faces and caps; returns the weight that they lack.

    Args:
        face_a, cosine_a, face_b, cosine_b: face or cap of each that faces the other, and its cosine with n.
        n, s: normal and separation of the shapes.
        larger: whether a is the larger shape.
    """
    shapes, placement, total = scene.shapes, scene.placement, scene.manifold.total
    back = times(-1.0, n)
    face_a, least_a = _flattest(placement, shapes, a, b, n, face_a, cosine_a)
    face_b, least_b = _flattest(placement, shapes, b, a, back, face_b, cosine_b)
    # coal's overlap of round shapes is right to 1e-6 m only
    s = max(_separation(placement, shapes, a, b, n), least_a, least_b)
    slack = 0.5 * (SHALLOWER * abs(s) + GRAZING * query.tolerance)
    of_a, of_b = shown((least_a - s) / slack + 2.0), shown((least_b - s) / slack + 2.0)
    most = max(of_a, of_b)
    if min(of_a, of_b) > 0.0:
        opposite = dot(_normal(shapes, placement, a, face_a), _normal(shapes, placement, b, face_b))
        if opposite < BETTER - 1.0:
            of_a, of_b = (most, 0.0) if larger else (0.0, most)
    both = of_a + of_b
    lacks = 1.0
    for k in range(2):
        part = (of_a if k == 0 else of_b) / both * most if both > 0.0 else 0.0
        if part > 0.0:
            total[0], total[1], total[2] = 0.0, math.inf, part
            if k == 0:
                _above(scene, query, a, face_a, b, part)
            else:
                _above(scene, Query(query.pair, query.margin, True, query.tolerance), b, face_b, a, part)
            # deep in each other, the face that lies opposite need not be where the shapes overlap most
            lacks -= min(part, total[0]) * shown((s - total[1]) / slack + 2.0)
    return shown(lacks)


@kernel(error_model="numpy")
def _normal(shapes, placement, g, face):
    """Outward normal of a face or cap."""
    if shapes.kind[g] == CYLINDER:
        return times(1.0 if face == 0 else -1.0, column(placement, g, 2))
    return turn(placement, g, triple(shapes.faces, face))


@kernel(error_model="numpy")
def _above(scene, query, a, face, b, part):
    """Contacts of shape b above a face or cap of shape a; returns how many.

    part: factor of their weights, 1 for polytopes.
    """
    shapes, placement, work = scene.shapes, scene.placement, scene.manifold
    kind = shapes.kind[b]
    if shapes.kind[a] == POLYTOPE:
        n = turn(placement, a, triple(shapes.faces, face))
        offset = shapes.faces[face, 3] + dot(n, column(placement, a, 3))
        if kind == POLYTOPE:
            return face_on_face(scene, query, a, face, n, offset, b)
        sides = corners_of(shapes, placement, a, face, work)
        sides_of(work, sides, n)
        region = Region(POLYGON, n, offset, FACE + face - shapes.first[a, 1], sides, n, 0.0)
    else:
        n = times(1.0 if face == 0 else -1.0, column(placement, a, 2))
        offset = shapes.size[a, 1] + dot(n, column(placement, a, 3))
        if kind == POLYTOPE:
            other, _ = facing(shapes, placement, b, times(-1.0, n))
            return face_and_cap(scene, query, b, other, a, face, True, n, part, 0.0)
        centre = along(column(placement, a, 3), shapes.size[a, 1], n)
        region = Region(DISC, n, offset, CAP + face, 0, centre, shapes.size[a, 0])
    if kind == CYLINDER:
        return cylinder_above(scene, query, region, a, face, b, part)
    x0, x1 = axis_end(placement, shapes, b, 0), axis_end(placement, shapes, b, 1)
    return segment_on(scene, query, region, x0, x1, shapes.size[b, 0], part)
