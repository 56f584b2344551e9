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
    SPHERE,
)
from haptic_sim.geometry.textures import TextureAnswer, TextureParameters, TexturePlace
from haptic_sim.kernels import call_at, kernel
from haptic_sim.laws import address_of
from haptic_sim.packed import Packed
from haptic_sim.records import allocate, record, shared, value
from haptic_sim.vectors import along, column, dot, minus, times, triple, turn, turn_back

FLAT = math.inf


@record
class Textures(NamedTuple):
    """Textures of shapes, for kernels."""

    some: bool = value("whether there are any")
    of: np.ndarray = shared("number of the texture of each shape, -1: it is smooth", "shapes", dtype=np.int64)
    address: np.ndarray = shared("where the compiled laws are", "textures", dtype=np.int64)
    keys: np.ndarray = shared("numbers that each law gets", "textures", "keys")
    planar: bool = value("whether everything moves in the plane of x and y")
    place: Packed = value("`TexturePlace`")
    answer: Packed = value("`TextureAnswer`")


def build_textures(names: Sequence[str], given: Mapping[str, TextureParameters], planar: bool) -> Textures:
    """The textures of shapes of these names."""
    place, answer = Packed(allocate(TexturePlace)), Packed(allocate(TextureAnswer))
    textured = [name for name in names if name in given]
    numbers = [np.asarray(given[name].numbers(), float) for name in textured]
    keys = np.zeros((len(textured), max(map(len, numbers), default=0)))
    for row, one in zip(keys, numbers, strict=True):
        row[: len(one)] = one
    address = [address_of(type(given[name]).LAW, place, answer) for name in textured]
    return Textures(
        some=bool(textured),
        of=np.array([textured.index(name) if name in given else -1 for name in names], np.int64),
        address=np.array(address, np.int64),
        keys=keys,
        planar=planar,
        place=place,
        answer=answer,
    )


@kernel(error_model="numpy")
def apply_textures(scene):
    """Add the textures of shapes to the contacts in `sink`; `scene`: `DetectorArrays`."""
    sink, objects, of = scene.sink, scene.pairs.objects, scene.textures.of
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
        h_A, g_A = _height(scene, a, along(x, -s, n), n, 1.0)
        h_B, g_B = _height(scene, b, x, n, -1.0)
        to_A, to_B, at_A, at_B = _shares(r_A, r_B, s)
        s -= h_A + h_B
        tangent = along(times(-to_A, g_A), to_B, g_B)
        q = along(times(at_A, g_A), at_B, g_B)
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
