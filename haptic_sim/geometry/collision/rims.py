"""Cylinders on faces, caps and half-spaces: contacts along a rim, with weights that are continuous in the pose.

A rim that lies on a plane touches with four points, a quarter of a turn apart, of the weight 1. At the border of a face
a part of the rim is above nothing, and points that came or went with a whole spring would make the wrench jump. So each
contact of a cap has a *weight*, the part of a spring and damper that it has. It follows from the *common region* K of
face and cap, seen along the contact normal. K is convex, and the separation is linear over it.

**Face and cap.** The border of K consists of parts of the polygon's edges within the rim, and of arcs of the rim.
 - An edge gives half of min(1, (c / l)^2) to both ends of its part within the rim, corners of the face or crossings of
   the rim. The part has the length c, and l is the length of the edge, but at most LONG radii. So a corner far within
   the rim has the weight 1, a crossing a half. An edge that the rim reaches beyond by x has a chord with c^2 = 8 r x:
   its ends come and go with the weight 0, linearly in x. A corner at the rim is replaced by two crossings there.
 - A point of the rim has the part of its *segment* that is above the face: what the chord of its quarter of a turn cuts
   off the disc. Its area is by Green's theorem a sum over the edges.
 - A point of the rim that is not above the face is moved to the nearest point of K, so that it keeps its identity.

**Two caps.** K is the common part of two discs. The four points of the smaller one (of equal ones of the incident one)
have the weights
    int_K (1 + d.x / r)^2 dA / (5/4 pi r^2) = 4 / (15 pi r^2) oint_K r (1 + d.x / r)^3 dy,    y square to d,
with the unit direction d of the point from the centre: 1 where K is the disc. A point outside K is moved to the point
of K that is farthest along d, so that the lowest point of K is always a contact.

**Tilt.** A cylinder that is tilted more than FLAT begins to lie on its side, on the line from the lowest point of one
rim to that of the other. Beyond LEANING it does so alone. Between these the weights of cap and line are shared in
proportion to the cosine. Ends of a part of the line have the weight c / l of its length c.

**Other contacts.** Where the weights of a manifold sum up to less than one point has, the nearest points have what is
missing, and so they have where other normals separate the shapes better (`haptic_sim.geometry.collision.manifold`).

A weight below FAINT is 0, and one that lacks less is 1, so that shapes of equal size have no contacts of rounding
errors; between these it is scaled to remain continuous.

Springs follow a weight that changes as any change of stiffness (`haptic_sim.contact.springs`): one that gets stiffer
has no more energy than it had and others of its group have lost. For rigid contacts a weight has no meaning. Each
contact is a point of both bodies, and the impulses follow from the balance.
"""

from __future__ import annotations

import math

from haptic_sim.geometry.collision.features import EDGE, FACE
from haptic_sim.geometry.collision.regions import (
    CAP,
    CROSSING,
    LONG,
    POLYGON,
    RIM,
    SIDE,
    corners_of,
    crossings,
    part_above,
    size_of_part,
)
from haptic_sim.geometry.collision.sink import put
from haptic_sim.kernels import kernel
from haptic_sim.vectors import along, column, corner, cross, dot, length, minus, times, triple, turn

POINTS = 4  # contact points of a rim
FLAT, LEANING = math.cos(math.radians(15.0)), math.cos(math.radians(30.0))
STEEP = 0.1  # cosine between the normals of a cap and of a face below which points of the rim are not above the face
LEVEL = 1e-4  # sine of the tilt below which the points of a rim are fixed to it
BACK = 64  # what features are distinguished by where the reference is the second shape
FAINT = 0.01  # weight that counts as none
ROUNDING = 1e-12  # of squares of radii
HALVINGS = 30  # by which a crossing of two rims is found to 1e-9 of a turn
HALF_CHORD = math.sqrt(0.5)  # of a quarter turn, and its distance from the centre, in radii
SEGMENT, _DISC = 0.25 * (math.pi - 2.0), 1.25 * math.pi  # area beyond that chord; int (1 + x)^2 dA over the disc


@kernel(error_model="numpy")
def _lowest(placement, g, n):
    """Unit direction across the axis of cylinder g in which its rim is farthest along -n."""
    axis = column(placement, g, 2)
    down = along(times(dot(n, axis), axis), -1.0, n)
    sine = length(down)
    return times(1.0 / sine, down) if sine > LEVEL else column(placement, g, 0)


@kernel(error_model="numpy")
def rim_point(shapes, placement, g, end, n, j=0):
    """A point of a cylinder's rim (end 0: that at +z), j quarter turns from the one that is farthest along -n.

    The four points move continuously with the pose. On springs they are as a potential: the lowest and the highest
    point do not change height along the rim, and the two beside them, which are equally high, change it oppositely. At
    no tilt they have no direction, but then the wrench of all four does not depend on it.
    """
    axis = column(placement, g, 2)
    half = shapes.size[g, 1] if end == 0 else -shapes.size[g, 1]
    down = _lowest(placement, g, n)
    if j % 2 == 1:
        down = cross(axis, down)
    r = shapes.size[g, 0] if j < 2 else -shapes.size[g, 0]
    return along(along(column(placement, g, 3), half, axis), r, down)


@kernel(error_model="numpy")
def rim_code(query, end, j):
    """Feature of that point. What is found above one shape has other features than what is found above the other."""
    return _distinguished(query, RIM + end if j == 0 else SIDE + POINTS * end + j)


@kernel(error_model="numpy")
def _distinguished(query, code):
    """A feature of a manifold whose reference is the first shape of a pair, or the second one (`query.swap`)."""
    return code + BACK if query.swap else code


@kernel(error_model="numpy")
def cap_facing(placement, g, d):
    """End of a cylinder whose cap faces direction d best, and the cosine between its normal and d."""
    cosine = dot(column(placement, g, 2), d)
    return (0, cosine) if cosine >= 0.0 else (1, -cosine)


@kernel(error_model="numpy")
def _cap_plane(shapes, placement, g, end):
    """Centre and outward normal of a cap."""
    normal = times(1.0 if end == 0 else -1.0, column(placement, g, 2))
    return along(column(placement, g, 3), shapes.size[g, 1], normal), normal


@kernel(error_model="numpy")
def rim_on_plane(scene, query, n, offset, g):
    """Contacts of cylinder g on a half-space: the rim of the cap that faces it, and the lowest point of the other."""
    shapes, placement = scene.shapes, scene.placement
    end, _ = cap_facing(placement, g, times(-1.0, n))
    for j in range(POINTS):
        x = rim_point(shapes, placement, g, end, n, j)
        put(scene, query, n, x, dot(n, x) - offset, FACE, rim_code(query, end, j))
    x = rim_point(shapes, placement, g, 1 - end, n)
    put(scene, query, n, x, dot(n, x) - offset, FACE, RIM + 1 - end)


@kernel(error_model="numpy")
def shown(weight):
    """A weight, where what differs from 0 or 1 by less than FAINT does not."""
    return min(max((weight - FAINT) / (1.0 - 2.0 * FAINT), 0.0), 1.0)


@kernel(error_model="numpy")
def _quarter(u, j):
    """Plane vector u in axes that are turned by j quarters: its part along point j of a rim, and across it."""
    if j == 0:
        return u
    if j == 1:
        return u[1], -u[0]
    if j == 2:
        return -u[0], -u[1]
    return -u[1], u[0]


@kernel(error_model="numpy")
def _arc_end(p, r, u):
    """1/3 int (1 + x)^3 dy on a circle of radius r about x = p - 1 up to unit vector u, but for `_of_angle`."""
    c, s = u
    linear = p * (p * p + 1.5 * p * r * c + r * r * (3.0 - s * s))
    return r * s * (linear + r * r * r * c * (0.25 * c * c + 0.375)) / 3.0


@kernel(error_model="numpy")
def _of_angle(p, r):
    """The part of that integral that is proportional to the angle, for each radian."""
    return r * r * (0.5 * p * p + 0.125 * r * r)


@kernel(error_model="numpy")
def _between(u, t, v):
    """The point at t between u and v."""
    return u[0] + t * (v[0] - u[0]), u[1] + t * (v[1] - u[1])


@kernel(error_model="numpy")
def _square(u):
    """Square of the length of a plane vector."""
    return u[0] * u[0] + u[1] * u[1]


@kernel(error_model="numpy")
def _within(u, v):
    """Range of the part of an edge from u to v (1) that is within the unit disc; empty (1, 0) if there is none."""
    starts, ends = _square(u) <= 1.0, _square(v) <= 1.0
    if starts and ends:
        return 0.0, 1.0
    low, high = crossings((u[0], u[1], 0.0), (v[0] - u[0], v[1] - u[1], 0.0), 1.0)
    if starts:
        return 0.0, min(max(high, 0.0), 1.0)
    if ends:
        return min(max(low, 0.0), 1.0), 1.0
    return (low, high) if 0.0 < low < high < 1.0 else (1.0, 0.0)


@kernel(error_model="numpy")
def _corner(work, m, k):
    """Corner k of the face, seen from the centre of the cap, in radii."""
    k = k if k < m else 0
    return work.polygon[1, k, 0], work.polygon[1, k, 1]


@kernel(error_model="numpy")
def _below_arc(y):
    """Integral of the distance between the arc and the chord of a segment, from 0 to y."""
    return 0.5 * (y * math.sqrt(1.0 - y * y) + math.asin(y)) - HALF_CHORD * y


@kernel(error_model="numpy")
def _beside(u, v, low, high):
    """Area of the segment of the unit disc with x >= HALF_CHORD between an edge from u to v and the chord, signed.

    low, high: range of the part of the edge that is within the disc.
    """
    e = (v[0] - u[0], v[1] - u[1])
    first, last = 0.0, 1.0
    for side in range(3):  # x >= HALF_CHORD, y <= HALF_CHORD, y >= -HALF_CHORD
        x, rate = (u[0], e[0]) if side == 0 else (-u[1], -e[1]) if side == 1 else (u[1], e[1])
        gap = x - HALF_CHORD if side == 0 else x + HALF_CHORD
        if gap < 0.0 and gap + rate < 0.0:
            return 0.0
        if gap < 0.0:
            first = max(first, -gap / rate)
        elif gap + rate < 0.0:
            last = min(last, -gap / rate)
    if not first < last:
        return 0.0
    low, high = (max(low, first), min(high, last)) if low <= high else (last, last)
    if low > high:
        low = high = last
    area = _below_arc(_on_chord(u[1] + low * e[1])) - _below_arc(_on_chord(u[1] + first * e[1]))
    area += _below_arc(_on_chord(u[1] + last * e[1])) - _below_arc(_on_chord(u[1] + high * e[1]))
    return area + (high - low) * e[1] * (u[0] + 0.5 * (low + high) * e[0] - HALF_CHORD)


@kernel(error_model="numpy")
def _on_chord(y):
    """Part of a point along the chord of a segment, within its ends."""
    return min(max(y, -HALF_CHORD), HALF_CHORD)


@kernel(error_model="numpy")
def _cut(work, m):
    """Fill `part` of the m edges and `weight` of the points of the rim; whether a part of an edge is within it."""
    some = False
    for j in range(POINTS):
        work.weight[j] = 0.0
    for k in range(m):
        u, v = _corner(work, m, k), _corner(work, m, k + 1)
        low, high = _within(u, v)
        square = _square((v[0] - u[0], v[1] - u[1]))
        least = min(square, LONG * LONG)
        work.part[k, 0], work.part[k, 1], work.part[k, 2] = low, high, 0.0
        if low <= high:
            some = True
            work.part[k, 2] = min(1.0, (high - low) * (high - low) * square / least) if least > 0.0 else 1.0
        for j in range(POINTS):
            work.weight[j] += _beside(_quarter(u, j), _quarter(v, j), low, high)
    for j in range(POINTS):
        work.weight[j] = shown(abs(work.weight[j]) / SEGMENT)
    return some


@kernel(error_model="numpy")
def _nearest_above(work, m, j):
    """Whether point j of the rim is not above the face, and the nearest point of the edges within the rim, in radii."""
    y = _quarter((1.0, 0.0), (POINTS - j) % POINTS)
    turned = 0.0
    for k in range(m):
        u, v = _corner(work, m, k), _corner(work, m, k + 1)
        turned += u[0] * v[1] - u[1] * v[0]
    outside = False
    least, nearest = math.inf, y
    for k in range(m):
        u, v = _corner(work, m, k), _corner(work, m, k + 1)
        e, x = (v[0] - u[0], v[1] - u[1]), (y[0] - u[0], y[1] - u[1])
        outside = outside or (e[0] * x[1] - e[1] * x[0]) * turned < 0.0
        low, high = work.part[k, 0], work.part[k, 1]
        if low > high:
            continue
        square = _square(e)
        t = (e[0] * x[0] + e[1] * x[1]) / square if square > 0.0 else low
        z = _between(u, min(max(t, low), high), v)
        distance = _square((y[0] - z[0], y[1] - z[1]))
        if distance < least:
            least, nearest = distance, z
    return outside, nearest


@kernel(error_model="numpy")
def face_and_cap(scene, query, g, face, c, end, cap_is_reference, n, part, more):
    """Contacts where the face of polytope g and the cap of cylinder c lie above each other along n.

    Corners of the face above the cap, crossings of its edges with the rim, and points of the rim.

    Args:
        n: from the reference to the other.
        part: factor of all weights.
        more: what is added to the weight of the lowest point of the rim.
    """
    shapes, placement, work = scene.shapes, scene.placement, scene.manifold
    m = corners_of(shapes, placement, g, face, work)
    up = turn(placement, g, triple(shapes.faces, face))
    axis = column(placement, c, 2)
    centre, cap = _cap_plane(shapes, placement, c, end)
    radius = shapes.size[c, 0]
    slope = 1.0 / dot(n, cap)
    across = _lowest(placement, c, up if cap_is_reference else n)
    aside = cross(axis, across)
    for k in range(m):
        # x on the face, x + h n on the plane of the cap
        x = minus(corner(work.polygon, 0, k), centre)
        u = along(x, -slope * dot(x, cap), n)
        work.polygon[1, k, 0], work.polygon[1, k, 1] = dot(u, across) / radius, dot(u, aside) / radius
    cut = _cut(work, m)
    found = 0
    before = work.part[m - 1, 2]
    for k in range(m):
        x, e = corner(work.polygon, 0, k), minus(corner(work.polygon, 0, (k + 1) % m), corner(work.polygon, 0, k))
        h, rise = -slope * dot(minus(x, centre), cap), -slope * dot(e, cap)
        low, high, weight = work.part[k, 0], work.part[k, 1], work.part[k, 2]
        starts, ends = _square(_corner(work, m, k)) <= 1.0, _square(_corner(work, m, k + 1)) <= 1.0
        for which in range(2):
            if which == 0 and starts:
                t, whole = 0.0, 0.5 * (before + weight)
                face_code, cap_code = work.code[0, k, 1], _distinguished(query, CAP + end)
            else:
                t, whole = low if which == 0 else high, 0.5 * weight
                if low > high or (which == 1 and ends):
                    continue
                face_code = EDGE + work.code[0, k, 2]
                cap_code = _distinguished(query, CROSSING + 2 * end + which)
            whole = part * shown(whole)
            if not whole > 0.0:
                continue
            z = along(x, t, e)
            s = h + t * rise
            if cap_is_reference:
                found += put(scene, query, n, z, -s, cap_code, face_code, whole)
            else:
                found += put(scene, query, n, along(z, s, n), s, face_code, cap_code, whole)
        before = weight
    steep = dot(n, up)
    if abs(steep) < STEEP:
        return found
    for j in range(POINTS):
        whole = part * work.weight[j] + (more if j == 0 else 0.0)
        if not whole > 0.0:
            continue
        y = rim_point(shapes, placement, c, end, up if cap_is_reference else n, j)
        outside, u = _nearest_above(work, m, j) if cut else (False, (0.0, 0.0))
        if outside:
            y = along(along(centre, radius * u[0], across), radius * u[1], aside)
        h = -dot(minus(y, corner(work.polygon, 0, 0)), up) / steep  # y + h n on the face
        reference, incident = FACE + face - shapes.first[g, 1], rim_code(query, end, j)
        if cap_is_reference:
            found += put(scene, query, n, along(y, h, n), h, incident, reference, whole)
        else:
            found += put(scene, query, n, y, -h, reference, incident, whole)
    return found


@kernel(error_model="numpy")
def _fill_common_weights(work, d, r):
    """Fill `weight` of the points of the unit circle, for its common region with a circle of radius r >= 1 about d."""
    distance = math.sqrt(_square(d))
    within = distance + 1.0 <= r
    for j in range(POINTS):
        work.weight[j] = 1.0 if within else 0.0
    if within or distance >= 1.0 + r or distance + r <= 1.0:
        return
    x = 0.5 * (distance * distance + 1.0 - r * r) / distance
    y = math.sqrt(max(1.0 - x * x, 0.0))
    e = (d[0] / distance, d[1] / distance)
    first, last = (x * e[0] + y * e[1], x * e[1] - y * e[0]), (x * e[0] - y * e[1], x * e[1] + y * e[0])
    own, other = 2.0 * math.atan2(y, x), 2.0 * math.atan2(y, distance - x)
    back_first, back_last = (
        ((first[0] - d[0]) / r, (first[1] - d[1]) / r),
        ((last[0] - d[0]) / r, (last[1] - d[1]) / r),
    )
    for j in range(POINTS):
        p = 1.0 + _quarter(d, j)[0]
        total = _arc_end(1.0, 1.0, _quarter(last, j)) - _arc_end(1.0, 1.0, _quarter(first, j))
        total += _arc_end(p, r, _quarter(back_first, j)) - _arc_end(p, r, _quarter(back_last, j))
        total += own * _of_angle(1.0, 1.0) + other * _of_angle(p, r)
        work.weight[j] = shown(total / _DISC)


@kernel(error_model="numpy")
def _is_within(d, r, stretch, x):
    """Whether x is within an ellipse about d with half axes of r stretch and r."""
    return _square(((x[0] - d[0]) / stretch, x[1] - d[1])) <= r * r + ROUNDING


@kernel(error_model="numpy")
def _farthest_within(d, r, stretch, j):
    """The common point of the unit disc and that ellipse which is farthest along point j of the rim.

    Where it is neither the farthest point of the one nor that of the other, it is a crossing of both, towards the other
    centre from there.
    """
    u = _quarter((1.0, 0.0), (POINTS - j) % POINTS)
    if _is_within(d, r, stretch, u):
        return u
    x = (d[0] + r * stretch * u[0], d[1] + r * u[1])
    if _square(x) <= 1.0 + ROUNDING:
        return x
    first, last = 0.0, math.atan2(u[0] * d[1] - u[1] * d[0], u[0] * d[0] + u[1] * d[1])
    for _ in range(HALVINGS):
        middle = 0.5 * (first + last)
        c, s = math.cos(middle), math.sin(middle)
        x = (c * u[0] - s * u[1], s * u[0] + c * u[1])
        if _is_within(d, r, stretch, x):
            last = middle
        else:
            first = middle
    return x


@kernel(error_model="numpy")
def _caps(scene, query, region, a, end_a, b, end_b, part, more):
    """Contacts of two caps that lie above each other along the normal of the cap of a, `region`.

    Args:
        part: factor of all weights.
        more: what is added to the weight of the lowest point of the rim of b.
    """
    shapes, placement, work, n = scene.shapes, scene.placement, scene.manifold, region.n
    centre_a = region.centre
    centre_b, n_b = _cap_plane(shapes, placement, b, end_b)
    slope = 1.0 / dot(n, n_b)
    of_b = shapes.size[b, 0] <= shapes.size[a, 0]
    small, large, end, down = (b, a, end_b, n) if of_b else (a, b, end_a, n_b)
    # in the plane of the smaller cap, in its radii
    radius = shapes.size[small, 0]
    r = shapes.size[large, 0] / radius
    centre = centre_b if of_b else centre_a
    across = _lowest(placement, small, down)
    aside = cross(column(placement, small, 2), across)
    between = minus(centre_a, centre_b) if of_b else minus(centre_b, centre_a)
    between = along(between, -slope * dot(between, n_b), n) if of_b else along(between, -dot(n, between), n)
    d = (dot(between, across) / radius, dot(between, aside) / radius)
    # there the larger disc is an ellipse, of which the weights count the circle within
    stretch = abs(slope) if of_b else 1.0 / abs(slope)
    _fill_common_weights(work, d, r * min(stretch, 1.0))
    found = 0
    for j in range(POINTS):
        weight = part * work.weight[j] + (more if j == 0 else 0.0)
        if not weight > 0.0:
            continue
        x = rim_point(shapes, placement, small, end, down, j)
        y = _farthest_within(d, r, stretch, j)
        if y != _quarter((1.0, 0.0), (POINTS - j) % POINTS):
            x = along(along(centre, radius * y[0], across), radius * y[1], aside)
        if of_b:
            found += put(scene, query, n, x, dot(n, x) - region.offset, region.feature, rim_code(query, end, j), weight)
        else:
            h = -slope * dot(minus(x, centre_b), n_b)
            found += put(scene, query, n, along(x, h, n), h, rim_code(query, end, j), CAP + end_b, weight)
    return found


@kernel(error_model="numpy")
def cylinder_above(scene, query, region, a, face, b, part):
    """Contacts of cylinder b above `region`: a face of polytope a, or a cap of cylinder a; returns how many.

    part: factor of all weights.
    """
    shapes, placement, work, n = scene.shapes, scene.placement, scene.manifold, region.n
    end, cosine = cap_facing(placement, b, times(-1.0, n))
    leaning = min(max((FLAT - cosine) / (FLAT - LEANING), 0.0), 1.0)
    x0, x1 = rim_point(shapes, placement, b, 0, n), rim_point(shapes, placement, b, 1, n)
    low, high, weight = 1.0, 0.0, 0.0
    if leaning > 0.0:
        low, high = part_above(work, region, x0, x1, query.tolerance)
        if low <= high:
            weight = part * leaning * size_of_part(n, x0, x1, low, high, shapes.size[b, 0])
    starts = weight > 0.0 and leaning < 1.0 and (low == 0.0 if end == 0 else high == 1.0)
    found = 0
    if leaning < 1.0:
        more = weight if starts else 0.0
        if region.kind == POLYGON:
            found += face_and_cap(scene, query, a, face, b, end, False, n, part * (1.0 - leaning), more)
        else:
            found += _caps(scene, query, region, a, face, b, end, part * (1.0 - leaning), more)
    for side in range(2 if weight > 0.0 else 0):
        if starts and side == end:
            continue  # the lowest point of the rim has its weight
        x = along(x0, low if side == 0 else high, minus(x1, x0))
        whole = low == 0.0 if side == 0 else high == 1.0
        code = _distinguished(query, RIM + side if whole else SIDE + POINTS * side)
        found += put(scene, query, n, x, dot(n, x) - region.offset, region.feature, code, weight)
    return found
