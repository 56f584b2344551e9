"""Contacts of shapes with textures: separation, normal and point of rows over heights (docs/textures.md).

With the heights h_A, h_B at the nearest points x_A, x_B of two shapes, the *textured separation* is

    s' = s - h_A(x_A) - h_B(x_B).

A row has the wrench of the potential 1/2 k s'^2 exactly, as far as the shapes are round or flat where they touch. Let
B move with the velocity v of its point x_B and the angular velocity w, A rest, and r_A, r_B be the radii of curvature
there: infinite on a face, 0 at a corner. With the tangential gradients g and R = r_A + r_B + s, the nearest points move
over their shapes by what the centres of curvature move across the line between them (Montana 1988), so that

    s'_t = f . v + m . w,   f = n - r_A/R g_A + r_B/R g_B,   m = -n x q,   q = r_A r_B/R g_A + r_B (r_A + s)/R g_B.

E.g. of a ball B on a plane A f = n - g_A, and the line of the wrench goes through the centre of the ball. A ball with
a texture of its own on a smooth plane has f = n: sliding does not move the point over the ball, rolling does.

Where a ball touches a shape whose radii differ in two directions (the side of a cylinder, an edge, a rim), both
components of the motion have the radius of their direction: these are principal directions of both surfaces.

The wrench -k s' (f, m) is that of a row along the unit normal n' = f / |f| through x' with (x' - x_B) x f = m. Along it
the separation is s' / |f|, whose rate is n' . v; the slope of a long texture is an inclined plane. With the *weight*
|f|^2 the spring of the row has the force |f|^2 k (s' / |f|) n' = k s' f and the energy 1/2 k s'^2. A moment along f,
which two textures of different directions may have, is left out.

Contacts by signed distance fields have their textures at each point of a shell (`field_contacts`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from haptic_sim.geometry.collision.features import (
    CAPSULE,
    CYLINDER,
    FACE,
    FEATURE_BITS,
    HALFSPACE,
    OTHER,
    POLYTOPE,
    SPHERE,
)
from haptic_sim.geometry.textures import TextureAnswer, TextureParameters, TexturePlace
from haptic_sim.kernels import call_at, kernel
from haptic_sim.laws import address_of
from haptic_sim.packed import Packed
from haptic_sim.records import allocate, record, shared, value
from haptic_sim.vectors import along, column, cross, dot, length, minus, times, triple, turn, turn_back

FLAT = math.inf
ON = 1e-6  # angle up to which a normal is that of a face, a side or an edge
NEAR = 1e-4  # of half a diagonal: what is on an edge, or at its end
CURVED_ONE_WAY = (CAPSULE, CYLINDER, POLYTOPE)


@record
class Textures(NamedTuple):
    """Textures of shapes, for kernels."""

    some: bool = value("whether there are any")
    of: np.ndarray = shared("number of the texture of each shape, -1: it is smooth", "shapes", dtype=np.int64)
    address: np.ndarray = shared("addresses of the compiled laws", "textures", dtype=np.int64)
    keys: np.ndarray = shared("numbers that each law gets", "textures", "keys")
    planar: bool = value("whether everything moves in the plane of x and y")
    place: Packed = value("`TexturePlace`")
    answer: Packed = value("`TextureAnswer`")


def build_textures(names: Sequence[str], given: Mapping[str, TextureParameters], planar: bool) -> Textures:
    """The textures of shapes of these names."""
    place, answer = Packed(allocate(TexturePlace)), Packed(allocate(TextureAnswer))
    textures = {id(given[name]): given[name] for name in names if name in given}  # the pieces of a mesh have one
    number = {one: i for i, one in enumerate(textures)}
    numbers = [np.asarray(one.numbers(), float) for one in textures.values()]
    keys = np.zeros((len(textures), max(map(len, numbers), default=0)))
    for row, one in zip(keys, numbers, strict=True):
        row[: len(one)] = one
    address = [address_of(type(one).LAW, place, answer) for one in textures.values()]
    return Textures(
        some=bool(textures),
        of=np.array([number[id(given[name])] if name in given else -1 for name in names], np.int64),
        address=np.array(address, np.int64),
        keys=keys,
        planar=planar,
        place=place,
        answer=answer,
    )


def heights_of(texture: TextureParameters, points: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """Heights of a texture [m], (n,), at points [m] with outward unit normals in the axes of its shape, (n, 3) each."""
    found = np.zeros(len(points))
    _fill_heights(build_textures(["it"], {"it": texture}, planar=False), points, normals, found)
    return found


@kernel(error_model="numpy")
def _fill_heights(textures, points, normals, heights):
    place, answer = textures.place.arrays, textures.answer.arrays
    for i in range(len(points)):
        for k in range(3):
            place.position[k], place.normal[k], answer.gradient[k] = points[i, k], normals[i, k], 0.0
        answer.height[0] = 0.0
        call_at(textures.address[0], place, textures.keys[0], answer)
        heights[i] = answer.height[0] if math.isfinite(answer.height[0]) else 0.0


@kernel(error_model="numpy")
def apply_textures(scene):
    """Add the textures of shapes to the contacts in `sink`; `scene`: `DetectorArrays`."""
    sink, objects, of, shapes = scene.sink, scene.pairs.objects, scene.textures.of, scene.shapes
    mask = (1 << FEATURE_BITS) - 1
    of_fields = scene.field_memory.first
    for i in range(sink.used[0]):
        pair = sink.pair[i]
        a, b = objects[pair, 0], objects[pair, 1]
        if (of[a] < 0 and of[b] < 0) or of_fields[pair + 1] > of_fields[pair]:
            continue
        n, x, s = triple(sink.normal, i), triple(sink.point, i), sink.separation[i]
        first, second = (sink.id[i] >> FEATURE_BITS) & mask, sink.id[i] & mask
        r_A = _radius(scene, a, first, b, n)
        r_B = _radius(scene, b, second, a, n)
        x_A = along(x, -s, n)
        h_A, g_A = _height(scene, a, x_A, n, 1.0)
        h_B, g_B = _height(scene, b, x, n, -1.0)
        line, l_A, l_B = (0.0, 0.0, 0.0), r_A, r_B
        if shapes.kind[b] == SPHERE and shapes.kind[a] in CURVED_ONE_WAY:
            r_A, l_A, line = _radii(scene, a, x_A, n)
        elif shapes.kind[a] == SPHERE and shapes.kind[b] in CURVED_ONE_WAY:
            r_B, l_B, line = _radii(scene, b, x, times(-1.0, n))
        to_A, to_B, at_A, at_B = _shares(r_A, r_B, s)
        tangent = along(times(-to_A, g_A), to_B, g_B)
        q = along(times(at_A, g_A), at_B, g_B)
        if l_A != r_A or l_B != r_B:
            line_to_A, line_to_B, line_at_A, line_at_B = _shares(l_A, l_B, s)
            of_A, of_B = dot(line, g_A), dot(line, g_B)
            tangent = along(tangent, (line_to_B - to_B) * of_B - (line_to_A - to_A) * of_A, line)
            q = along(q, (line_at_A - at_A) * of_A + (line_at_B - at_B) * of_B, line)
        s -= h_A + h_B
        square = 1.0 + dot(tangent, tangent)
        size = math.sqrt(square)
        f = along(n, 1.0, tangent)
        # of the line of the wrench, the point at which a ball of this radius has the new normal
        x = along(x, 1.0 / square, along(q, -dot(tangent, q), n))
        x = along(x, -at_A * (1.0 - 1.0 / size) / size, f)
        sink.separation[i] = s / size
        sink.weight[i] *= square
        for k in range(3):
            sink.normal[i, k] = f[k] / size
            sink.point[i, k] = x[k]


@kernel(error_model="numpy")
def _radius(scene, g, feature, other, n):
    """Radius of curvature of shape g at a feature that touches shape `other` along n [m]."""
    shapes = scene.shapes
    kind = shapes.kind[g]
    if kind in (SPHERE, CAPSULE):
        return shapes.size[g, 0]
    is_face = FACE <= feature < OTHER
    if kind == HALFSPACE or is_face:
        return FLAT
    if kind == CYLINDER:
        cosine = dot(column(scene.placement, g, 2), n)
        return shapes.size[g, 0] * max(0.0, 1.0 - cosine * cosine)
    if feature >= OTHER and shapes.kind[other] in (SPHERE, CAPSULE):
        return FLAT  # a ball on a face
    return 0.0


@kernel(error_model="numpy")
def _radii(scene, g, x, n):
    """Principal radii of curvature of shape g where a ball touches it at x [m] with the outward normal n.

    Returns:
        The radius across a line, that along it, and the direction of the line: of an edge, a rim or a side.
    """
    shapes, placement = scene.shapes, scene.placement
    nowhere = (0.0, 0.0, 0.0)
    if shapes.kind[g] == POLYTOPE:
        return _radii_of_polytope(scene, g, turn_back(placement, g, minus(x, column(placement, g, 3))), n)
    radius, axis = shapes.size[g, 0], column(placement, g, 2)
    cosine = dot(axis, n)
    if shapes.kind[g] == CAPSULE:
        z = dot(axis, minus(along(x, -radius, n), column(placement, g, 3)))
        return radius, (FLAT if abs(z) < (1.0 - ON) * shapes.size[g, 1] else radius), axis
    if abs(cosine) < ON:
        return radius, FLAT, axis
    sine = math.sqrt(max(0.0, 1.0 - cosine * cosine))
    if not sine > ON:
        return FLAT, FLAT, nowhere
    return 0.0, radius / sine, times(1.0 / sine, cross(axis, n))  # around the rim


@kernel(error_model="numpy")
def _radii_of_polytope(scene, g, x, n):
    """Radii, as `_radii`, of a polytope; x in the axes of the shape. Faces are flat, corners have no radius."""
    shapes, placement = scene.shapes, scene.placement
    nowhere = (0.0, 0.0, 0.0)
    n = turn_back(placement, g, n)
    for f in range(shapes.first[g, 1], shapes.first[g + 1, 1]):
        if length(cross(triple(shapes.faces, f), n)) < ON and dot(triple(shapes.faces, f), n) > 0.0:
            return FLAT, FLAT, nowhere
    least, line, ends = math.inf, nowhere, False
    near = NEAR * shapes.size[g, 2]
    for k in range(shapes.first[g, 2], shapes.first[g + 1, 2]):
        start = triple(shapes.vertices, shapes.edges[k, 0])
        d = minus(triple(shapes.vertices, shapes.edges[k, 1]), start)
        size = length(d)
        d = times(1.0 / size, d)
        t = min(max(dot(minus(x, start), d), 0.0), size)
        far = length(minus(x, along(start, t, d)))
        if far < least:
            least, line, ends = far, d, not near < t < size - near
    if not least < near:
        return FLAT, FLAT, nowhere
    if ends:
        return 0.0, 0.0, nowhere
    return 0.0, FLAT, turn(placement, g, line)


@kernel(error_model="numpy")
def _shares(r_A, r_B, s):
    """r_A/R, r_B/R, r_A r_B/R and r_B (r_A + s)/R, where radii may be infinite."""
    if r_A == FLAT and r_B == FLAT:
        return 1.0, 0.0, 0.0, 0.0
    if r_A == FLAT:
        return 1.0, 0.0, r_B, r_B
    if r_B == FLAT:
        return 0.0, 1.0, r_A, r_A + s
    total = r_A + r_B + s
    if not total > 0.0:
        return 0.0, 0.0, 0.0, 0.0
    return r_A / total, r_B / total, r_A * r_B / total, r_B * (r_A + s) / total


@kernel(error_model="numpy")
def _height(scene, g, x, n, side):
    """Height of the texture of shape g at x [m], and its gradient along the surface; side: of the outward normal."""
    if scene.textures.of[g] < 0:
        return 0.0, (0.0, 0.0, 0.0)
    local = turn_back(scene.placement, g, minus(x, column(scene.placement, g, 3)))
    h, d = height_at(scene, g, local, turn_back(scene.placement, g, times(side, n)))
    d = turn(scene.placement, g, d)
    return h, along(d, -dot(d, n), n)


@kernel(error_model="numpy")
def height_at(scene, g, x, n):
    """Height of the texture of shape g at x [m], where the outward normal is n, and its gradient, in its axes."""
    t = scene.textures
    k = t.of[g]
    nothing = (0.0, 0.0, 0.0)
    if k < 0:
        return 0.0, nothing
    place, answer = t.place.arrays, t.answer.arrays
    for i in range(3):
        place.position[i], place.normal[i] = x[i], n[i]
        answer.gradient[i] = 0.0
    answer.height[0] = 0.0
    call_at(t.address[k], place, t.keys[k], answer)
    h = answer.height[0]
    d = (answer.gradient[0], answer.gradient[1], answer.gradient[2])
    if t.planar:
        d = turn(scene.placement, g, d)
        d = turn_back(scene.placement, g, (d[0], d[1], 0.0))
    if not math.isfinite(h + d[0] + d[1] + d[2]):
        return 0.0, nothing
    return h, d
