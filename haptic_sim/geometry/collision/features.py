"""Features of the shapes: the geometry of coal's objects as flat arrays for kernels.

A polytope (box or convex mesh) has vertices, faces and edges, each with a constant number; coplanar triangles of a mesh
are one face. Spheres, capsules and cylinders are given by their kind, a radius and half a length along z. A triangle
mesh has only its bounding box here: its contacts come from its field (`field_contacts`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import coal
import numpy as np
import pinocchio as pin

from haptic_sim.records import record, shared
from haptic_sim.vectors import cross

HALFSPACE, POLYTOPE, SPHERE, CAPSULE, CYLINDER, FIELD = range(6)
COPLANAR = 1e-4  # [rad] between triangles that are one face
MOST_HULLS = 256  # that are kept (`_hull`): 0.1 MB each with the most corners of `convex_shape`

# An identity is pair, feature of the first shape, feature of the second: 22, 20 and 20 bits. A feature is a sort (2
# bits) and a number.
FEATURE_BITS = 20
SORT_BITS = 2
PAIRS, FEATURES = 1 << 22, 1 << (FEATURE_BITS - SORT_BITS)
VERTEX, EDGE, FACE, OTHER = (sort * FEATURES for sort in range(4))


@record
class Shapes(NamedTuple):
    """Features of shapes, each in the axes of its own geometry object."""

    kind: np.ndarray = shared("HALFSPACE, POLYTOPE, SPHERE, CAPSULE, CYLINDER or FIELD", "shapes", dtype=np.int64)
    body: np.ndarray = shared("joint number of the body that it belongs to", "shapes", dtype=np.int64)
    first: np.ndarray = shared(
        "first vertex, face and edge of each, and behind the last", "shapes + 1", 3, dtype=np.int64
    )
    size: np.ndarray = shared(
        "radius, half length without caps, half diagonal of the bounding box", "shapes", 3, unit="m"
    )
    box: np.ndarray = shared(
        "centre and half extents of the bounding box; of a half-space outward normal and offset", "shapes", 6, unit="m"
    )
    vertices: np.ndarray = shared("vertices of all shapes", "vertices", 3, unit="m")
    faces: np.ndarray = shared("outward normal and offset of the faces of all shapes", "faces", 4)
    loop: np.ndarray = shared("first place in `loops` of each face, and behind the last", "faces + 1", dtype=np.int64)
    loops: np.ndarray = shared(
        "vertices of the faces anticlockwise seen from outside, each with the edge to the next vertex",
        "corners",
        2,
        dtype=np.int64,
    )
    edges: np.ndarray = shared("two vertices of the edges of all shapes", "edges", 2, dtype=np.int64)
    sides: np.ndarray = shared("the two faces that meet at these edges", "edges", 2, dtype=np.int64)


def box_vertices(half: np.ndarray) -> np.ndarray:
    """Corners of a box (8, 3): anticlockwise about z from (+, -), the lower four first."""
    ring = [(1, -1), (1, 1), (-1, 1), (-1, -1)]
    return np.array([(x * half[0], y * half[1], z * half[2]) for z in (-1, 1) for x, y in ring])


BOX_FACES = ((2, 1, 0, 3), (4, 0, 1, 5), (7, 3, 0, 4), (5, 1, 2, 6), (6, 2, 3, 7), (7, 4, 5, 6))
"""Faces of a box as loops of the numbers in `box_vertices`, anticlockwise seen from outside.

The order of faces, and where each begins, decide the last bits of contacts. It is that which Qhull finds for a cube of
0.1 m; with other sizes it depends on rounding.
"""


def convex_faces(points: np.ndarray) -> list[np.ndarray]:
    """Faces of the convex hull of `points` as loops of their numbers, anticlockwise seen from outside.

    Raises:
        ValueError: the hull has no volume.
    """
    from scipy.spatial import ConvexHull, QhullError  # takes a while to import: not for nodes without polytopes

    try:
        hull = ConvexHull(points)
    except QhullError as error:
        raise ValueError("has no volume") from error
    normals = hull.equations[:, :3]
    face = np.full(len(hull.simplices), -1)
    loops = []
    for seed in range(len(face)):
        if face[seed] >= 0:
            continue
        face[seed] = seed
        members, n = [seed], normals[seed]
        for triangle in members:  # grows while it is walked
            for neighbour in hull.neighbors[triangle]:
                other = normals[neighbour]
                # the cosine spares most triangles the cross product
                if face[neighbour] < 0 and n @ other > 0.99 and np.linalg.norm(_cross(n, other)) < COPLANAR:
                    face[neighbour] = seed
                    members.append(neighbour)
        around = np.array(sorted(set(hull.simplices[members].ravel().tolist())))
        rest = points[around] - points[around].sum(axis=0) / len(around)
        x = rest[np.argmax((rest**2).sum(axis=1))]
        x = x / np.linalg.norm(x)
        angle = np.arctan2(rest @ _cross(n, x), rest @ x)
        loops.append(around[np.argsort(angle)])
    return loops


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a x b of vectors (..., 3), with the bits of `np.cross`, which takes longer for one or a few."""
    return np.stack(cross.py_func(a.T, b.T), axis=-1)


class _Polytope(NamedTuple):
    """Features of a box or a hull, numbered from 0; not to be written to: shapes of several worlds are made of it."""

    vertices: np.ndarray = np.empty((0, 3))
    faces: np.ndarray = np.empty((0, 4))
    corners: np.ndarray = np.empty(0, np.int64)  # of each face
    loops: np.ndarray = np.empty((0, 2), np.int64)
    edges: np.ndarray = np.empty((0, 2), np.int64)
    sides: np.ndarray = np.empty((0, 2), np.int64)


@lru_cache(MOST_HULLS)
def _hull(points: bytes) -> _Polytope:
    """That of points (n, 3). It takes 1 ms, and a world is built anew to be checked, to be run and in each node."""
    given = np.frombuffer(points).reshape(-1, 3)
    found = _polytope(given, convex_faces(given))
    for array in found:
        array.flags.writeable = False
    return found


def _polytope(points: np.ndarray, loops: list[np.ndarray]) -> _Polytope:
    """That whose faces have these loops of points (n, 3)."""
    used = np.unique(np.concatenate(loops))  # points inside the hull are no vertices
    number = {int(point): k for k, point in enumerate(used)}
    faces, ends = [], list[tuple[int, int]]()  # ends: number of a vertex, and of the edge to the next
    edges: dict[tuple[int, int], int] = {}
    sides: list[tuple[int, int]] = []
    for face, loop in enumerate(loops):
        following = np.concatenate([loop[1:], loop[:1]])
        corners = points[loop]
        centre = corners.sum(axis=0) / len(corners)
        normal = _cross(corners - centre, points[following] - centre).sum(axis=0)
        normal /= np.linalg.norm(normal)
        faces.append([*normal, (corners @ normal).max()])
        for u, v in zip(loop.tolist(), following.tolist(), strict=True):
            edge = edges.setdefault((number[min(u, v)], number[max(u, v)]), len(edges))
            if edge == len(sides):
                sides.append((face, face))
            # of nearly coplanar triangles more than two faces, or only one, can have an edge
            sides[edge] = (sides[edge][0], face)
            ends.append((number[u], edge))
    counts = np.array([*map(len, loops)])
    return _Polytope(points[used], np.array(faces), counts, np.array(ends), np.array([*edges]), np.array(sides))


def build_shapes(geometry: pin.GeometryModel) -> Shapes:
    """Features of all objects of a geometry model.

    Raises:
        ValueError: an object has a shape that there are no contacts for; the message says which and why.
    """
    tables = _Tables()
    for item in geometry.geometryObjects:
        tables.add(item)
    return tables.shapes()


class _Tables:
    """Growing lists behind `build_shapes`, of all shapes."""

    def __init__(self) -> None:
        self.kind: list[int] = []
        self.body: list[int] = []
        self.size: list[tuple[float, float, float]] = []
        self.box: list[np.ndarray] = []
        self.polytopes: list[_Polytope] = []

    def add(self, item: pin.GeometryObject) -> None:
        shape, polytope = item.geometry, _Polytope()
        self.body.append(int(item.parentJoint))
        if shape.getNodeType() != coal.GEOM_HALFSPACE and getattr(shape, "getSweptSphereRadius", float)() != 0.0:
            raise ValueError(f"geometry {item.name!r} has a swept-sphere radius, which is not supported")
        if isinstance(shape, coal.Halfspace):
            self.kind.append(HALFSPACE)
            self.size.append((0.0, 0.0, 0.0))
            self.box.append(np.array([*shape.n, shape.d, 0.0, 0.0]))
        elif isinstance(shape, coal.Box):
            corners = box_vertices(np.array(shape.halfSide))
            polytope = _polytope(corners, [np.array(loop) for loop in BOX_FACES])
            self._bounded(POLYTOPE, polytope.vertices)
        elif isinstance(shape, coal.ConvexBase):
            points = np.array(shape.points(), float)
            try:
                polytope = _hull(points.tobytes())
            except ValueError as error:
                raise ValueError(f"geometry {item.name!r}: its convex mesh has no volume") from error
            self._bounded(POLYTOPE, polytope.vertices)
        elif isinstance(shape, coal.Sphere):
            self._round(SPHERE, shape.radius, 0.0, np.full(3, shape.radius))
        elif isinstance(shape, coal.Capsule | coal.Cylinder):
            r, h = shape.radius, shape.halfLength
            capsule = isinstance(shape, coal.Capsule)
            self._round(CAPSULE if capsule else CYLINDER, r, h, np.array([r, r, h + r if capsule else h]))
        elif isinstance(shape, coal.BVHModelBase):
            self._bounded(FIELD, np.array(shape.vertices(), float))
        else:
            raise ValueError(
                f"geometry {item.name!r} is a {type(shape).__name__}: must be one of Box, Sphere, Cylinder, Capsule, "
                "Halfspace, Convex, BVHModel (a mesh with a field)"
            )
        if len(polytope.edges) > FEATURES // 2:
            raise ValueError(f"geometry {item.name!r} has {len(polytope.edges)} edges: must be at most {FEATURES // 2}")
        self.polytopes.append(polytope)

    def _round(self, kind: int, radius: float, half_length: float, half: np.ndarray) -> None:
        self.kind.append(kind)
        self.size.append((radius, half_length, float(np.linalg.norm(half))))
        self.box.append(np.concatenate([np.zeros(3), half]))

    def _bounded(self, kind: int, points: np.ndarray) -> None:
        low, high = points.min(axis=0), points.max(axis=0)
        self.kind.append(kind)
        self.size.append((0.0, 0.0, float(np.linalg.norm(high - low)) / 2))
        self.box.append(np.concatenate([(low + high) / 2, (high - low) / 2]))

    def shapes(self) -> Shapes:
        every = [_Polytope(), *self.polytopes]
        counts = [(len(one.vertices), len(one.faces), len(one.edges)) for one in every]
        first = np.cumsum(counts, axis=0, dtype=np.int64)
        before = [*zip(every, [first[0], *first[:-1]], strict=True)]
        corners = np.concatenate([one.corners for one in every])
        return Shapes(
            np.array(self.kind, np.int64),
            np.array(self.body, np.int64),
            first,
            np.array(self.size, float).reshape(-1, 3),
            np.array(self.box, float).reshape(-1, 6),
            np.concatenate([one.vertices for one in every]),
            np.concatenate([one.faces for one in every]),
            np.concatenate([[0], np.cumsum(corners)]),
            np.concatenate([one.loops + at[[0, 2]] for one, at in before]),
            np.concatenate([one.edges + at[0] for one, at in before]),
            np.concatenate([one.sides + at[1] for one, at in before]),
        )
