"""Signed distances from shapes and nearest points of curves, as numbers that kernels read.

A shape is numbers: what it is, its position and orientation in the world (row by row), and its dimensions; of a convex
mesh its faces (normal and offset in its own axes), of another mesh samples of its distances (`sampled`). Of a mesh of
several convex pieces they are how many there are, and of each the count of its numbers and these.

Distances are negative inside. Those from primitive shapes are exact, and so are those within a convex mesh. Outside of
it, the distance from the face that is farthest is a lower bound: where distances outside count, it is sampled. The
distance from several pieces is the least of theirs; where pieces overlap, their union is deeper.

What comes with a distance is its gradient, so that forces along it have a potential: a unit vector, but for samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coal
import numpy as np

from haptic_sim.fields.sampled import sampled_distance, sampled_numbers
from haptic_sim.geometry.fields.distances import FieldError
from haptic_sim.geometry.fields.field import triangles_of
from haptic_sim.geometry.meshes import Taken
from haptic_sim.geometry.shapes import AnyShapeParameters, solid
from haptic_sim.kernels import kernel
from haptic_sim.parameters import ParameterError

SPHERE, CAPSULE, CYLINDER, BOX, PLANE, POLYTOPE, SAMPLED, UNION = range(8)
_HEAD = 13  # what it is, position, orientation


def shape_numbers(shape: AnyShapeParameters, folder: Path, key: str, *, outside: bool) -> np.ndarray:
    """The numbers of a shape that is placed in the world.

    Args:
        folder: where the path of a mesh starts from.
        key: of the shape, for messages.
        outside: whether distances outside of it count.

    Raises:
        ParameterError: a mesh cannot be used, or it would have too many samples.
    """
    try:
        found = solid(shape, folder)
    except ValueError as error:
        raise ParameterError([f"{key}{error}"]) from error
    if not shape.texture.ABSENT:
        raise ParameterError([f"{key}.texture = {shape.texture.type}: a region has no texture; leave it out"])
    try:
        kinds = list(_of_mesh(found.taken, shape, outside)) if found.taken else [_primitive(found.geometry[0])]
    except FieldError as error:
        raise ParameterError([f"{key}.{found.source}: {error}"]) from error
    R, p = found.pose.rotation, found.pose.translation
    parts = [np.concatenate([[kind], p, R.ravel(), numbers]) for kind, numbers in kinds]
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([[UNION, len(parts)], *(x for part in parts for x in ([len(part)], part))])


def _primitive(geometry: coal.CollisionGeometry) -> tuple[int, list[float]]:
    match geometry:
        case coal.Sphere():
            return SPHERE, [geometry.radius]
        case coal.Capsule():
            return CAPSULE, [geometry.radius, geometry.halfLength]
        case coal.Cylinder():
            return CYLINDER, [geometry.radius, geometry.halfLength]
        case coal.Box():
            return BOX, list(geometry.halfSide)
        case _:
            return PLANE, [*geometry.n, geometry.d]


def _of_mesh(taken: Taken, shape: Any, outside: bool) -> Iterator[tuple[int, Any]]:
    """Kind of a mesh and its numbers; several of a union.

    Raises:
        FieldError: it would have too many samples.
    """
    if taken.chosen in ("field", "pieces"):  # pieces of a decomposition touch: there the least of distances would be 0
        yield SAMPLED, sampled_numbers(taken.vertices, taken.faces, shape.error, outside=outside)
        return
    for geometry in taken.geometry:
        if outside:
            yield SAMPLED, sampled_numbers(*triangles_of(geometry, 0.0), shape.error, outside=True)
        else:
            yield POLYTOPE, _faces(geometry)


def _faces(geometry: coal.Convex) -> list[float]:
    """Number of faces of a convex shape, then outward normal and offset of each; coplanar triangles are one."""
    from scipy.spatial import ConvexHull  # takes long to import: only where a mesh is a field

    points = np.array([geometry.point(i) for i in range(geometry.num_points)])
    planes = np.unique(np.round(ConvexHull(points).equations, 12), axis=0)
    return [len(planes), *(number for row in planes for number in (*row[:3], -row[3]))]


@kernel
def signed_distance(keys, at, x, y, z):
    """Distance of a point from the shape whose numbers begin at keys[at], and its gradient, the outward normal there.

    Where the direction is not unique, it is one of the nearest.
    """
    if keys[at] != UNION:
        return _distance(keys, at, x, y, z)
    d, nx, ny, nz, part = math.inf, 0.0, 0.0, 0.0, at + 2
    for _ in range(int(keys[at + 1])):
        s, sx, sy, sz = _distance(keys, part + 1, x, y, z)
        if s < d:
            d, nx, ny, nz = s, sx, sy, sz
        part += 1 + int(keys[part])
    return d, nx, ny, nz


@kernel
def _distance(keys, at, x, y, z):
    """Signed distance, as `signed_distance`, from a single region, not from a union."""
    px, py, pz = x - keys[at + 1], y - keys[at + 2], z - keys[at + 3]
    a = keys[at + 4] * px + keys[at + 7] * py + keys[at + 10] * pz
    b = keys[at + 5] * px + keys[at + 8] * py + keys[at + 11] * pz
    c = keys[at + 6] * px + keys[at + 9] * py + keys[at + 12] * pz
    kind, k = int(keys[at]), at + 13
    if kind in (SPHERE, CAPSULE):
        half = keys[k + 1] if kind == CAPSULE else 0.0
        d, na, nb, nc = _from_ball(a, b, c - min(max(c, -half), half), keys[k])
    elif kind == CYLINDER:
        d, na, nb, nc = _from_cylinder(a, b, c, keys[k], keys[k + 1])
    elif kind == BOX:
        d, na, nb, nc = _from_box(a, b, c, keys[k], keys[k + 1], keys[k + 2])
    elif kind == PLANE:
        na, nb, nc = keys[k], keys[k + 1], keys[k + 2]
        d = na * a + nb * b + nc * c - keys[k + 3]
    elif kind == SAMPLED:
        d, na, nb, nc = sampled_distance(keys, k, a, b, c)
    else:
        d, na, nb, nc = -math.inf, 0.0, 0.0, 1.0
        for i in range(int(keys[k])):
            j = k + 1 + 4 * i
            s = keys[j] * a + keys[j + 1] * b + keys[j + 2] * c - keys[j + 3]
            if s > d:
                d, na, nb, nc = s, keys[j], keys[j + 1], keys[j + 2]
    return (
        d,
        keys[at + 4] * na + keys[at + 5] * nb + keys[at + 6] * nc,
        keys[at + 7] * na + keys[at + 8] * nb + keys[at + 9] * nc,
        keys[at + 10] * na + keys[at + 11] * nb + keys[at + 12] * nc,
    )


@kernel
def _from_ball(a, b, c, radius):
    r = math.sqrt(a * a + b * b + c * c)
    if r == 0.0:
        return -radius, 1.0, 0.0, 0.0
    return r - radius, a / r, b / r, c / r


@kernel
def _from_cylinder(a, b, c, radius, half):
    r = math.sqrt(a * a + b * b)
    ea, eb = (a / r, b / r) if r > 0.0 else (1.0, 0.0)
    up = 1.0 if c >= 0.0 else -1.0
    side, end = r - radius, abs(c) - half
    if side > 0.0 and end > 0.0:
        d = math.sqrt(side * side + end * end)
        return d, ea * side / d, eb * side / d, up * end / d
    if side > end:
        return side, ea, eb, 0.0
    return end, 0.0, 0.0, up


@kernel
def _from_box(a, b, c, ha, hb, hc):
    sa, sb, sc = 1.0 if a >= 0.0 else -1.0, 1.0 if b >= 0.0 else -1.0, 1.0 if c >= 0.0 else -1.0
    qa, qb, qc = abs(a) - ha, abs(b) - hb, abs(c) - hc
    if qa <= 0.0 and qb <= 0.0 and qc <= 0.0:
        if qa >= qb and qa >= qc:
            return qa, sa, 0.0, 0.0
        if qb >= qc:
            return qb, 0.0, sb, 0.0
        return qc, 0.0, 0.0, sc
    qa, qb, qc = max(qa, 0.0), max(qb, 0.0), max(qc, 0.0)
    d = math.sqrt(qa * qa + qb * qb + qc * qc)
    return d, sa * qa / d, sb * qb / d, sc * qc / d


@kernel
def nearest_on_curve(keys, at, x, y, z):
    """The nearest point of a polyline, keys[at] points from keys[at + 1] on, and the tangent there (6 numbers)."""
    count, best = int(keys[at]), math.inf
    fx = fy = fz = tx = ty = tz = 0.0
    for i in range(count - 1):
        j = at + 1 + 3 * i
        ax, ay, az = keys[j], keys[j + 1], keys[j + 2]
        ex, ey, ez = keys[j + 3] - ax, keys[j + 4] - ay, keys[j + 5] - az
        square = ex * ex + ey * ey + ez * ez
        part = ((x - ax) * ex + (y - ay) * ey + (z - az) * ez) / square
        part = min(max(part, 0.0), 1.0)
        cx, cy, cz = ax + part * ex, ay + part * ey, az + part * ez
        d = (x - cx) * (x - cx) + (y - cy) * (y - cy) + (z - cz) * (z - cz)
        if d < best:
            length = math.sqrt(square)
            best, fx, fy, fz = d, cx, cy, cz
            tx, ty, tz = ex / length, ey / length, ez / length
    return fx, fy, fz, tx, ty, tz
