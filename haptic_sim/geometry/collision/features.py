"""Features of the shapes: the geometry of coal's objects as flat arrays for kernels.

A polytope (box or convex mesh) has vertices, faces and edges, each with a constant number; coplanar triangles of a mesh
are one face. Spheres, capsules and cylinders are given by their kind, a radius and half a length along z. A triangle
mesh has only its bounding box here: its contacts come from its field (`field_contacts`).
"""

from __future__ import annotations

from typing import NamedTuple

import coal
import numpy as np
import pinocchio as pin

from haptic_sim.records import record, shared
from haptic_sim.vectors import cross

HALFSPACE, POLYTOPE, SPHERE, CAPSULE, CYLINDER, FIELD = range(6)
COPLANAR = 1e-4  # [rad] between triangles that are one face

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
    """Growing lists behind `build_shapes`."""

    def __init__(self) -> None:
        self.kind: list[int] = []
        self.body: list[int] = []
        self.first: list[tuple[int, int, int]] = []
        self.size: list[tuple[float, float, float]] = []
        self.box: list[np.ndarray] = []
        self.vertices: list[np.ndarray] = []
        self.faces: list[np.ndarray] = []
        self.loop: list[int] = [0]
        self.loops: list[tuple[int, int]] = []
        self.edges: list[tuple[int, int]] = []
        self.sides: list[tuple[int, int]] = []

    def add(self, item: pin.GeometryObject) -> None:
        shape = item.geometry
        self.first.append((len(self.vertices), len(self.faces), len(self.edges)))
        self.body.append(int(item.parentJoint))
        if shape.getNodeType() != coal.GEOM_HALFSPACE and getattr(shape, "getSweptSphereRadius", float)() != 0.0:
            raise ValueError(f"geometry {item.name!r} has a swept-sphere radius, which is not supported")
        if isinstance(shape, coal.Halfspace):
            self.kind.append(HALFSPACE)
            self.size.append((0.0, 0.0, 0.0))
            self.box.append(np.array([*shape.n, shape.d, 0.0, 0.0]))
        elif isinstance(shape, coal.Box):
            corners = box_vertices(np.array(shape.halfSide))
            self._polytope(item.name, corners, [np.array(loop) for loop in BOX_FACES])
        elif isinstance(shape, coal.ConvexBase):
            points = np.array(shape.points(), float)
            try:
                loops = convex_faces(points)
            except ValueError as error:
                raise ValueError(f"geometry {item.name!r}: its convex mesh has no volume") from error
            self._polytope(item.name, points, loops)
        elif isinstance(shape, coal.Sphere):
            self._round(SPHERE, shape.radius, 0.0, np.full(3, shape.radius))
        elif isinstance(shape, coal.Capsule | coal.Cylinder):
            r, h = shape.radius, shape.halfLength
            capsule = isinstance(shape, coal.Capsule)
            self._round(CAPSULE if capsule else CYLINDER, r, h, np.array([r, r, h + r if capsule else h]))
        elif isinstance(shape, coal.BVHModelBase):
            self._mesh(np.array(shape.vertices(), float))
        else:
            raise ValueError(
                f"geometry {item.name!r} is a {type(shape).__name__}: must be one of Box, Sphere, Cylinder, Capsule, "
                "Halfspace, Convex, BVHModel (a mesh with a field)"
            )

    def _round(self, kind: int, radius: float, half_length: float, half: np.ndarray) -> None:
        self.kind.append(kind)
        self.size.append((radius, half_length, float(np.linalg.norm(half))))
        self.box.append(np.concatenate([np.zeros(3), half]))

    def _mesh(self, points: np.ndarray) -> None:
        low, high = points.min(axis=0), points.max(axis=0)
        self.kind.append(FIELD)
        self.size.append((0.0, 0.0, float(np.linalg.norm(high - low)) / 2))
        self.box.append(np.concatenate([(low + high) / 2, (high - low) / 2]))

    def _polytope(self, name: str, points: np.ndarray, loops: list[np.ndarray]) -> None:
        self.kind.append(POLYTOPE)
        used = np.unique(np.concatenate(loops))  # points inside the hull are no vertices
        number = {int(point): len(self.vertices) + k for k, point in enumerate(used)}
        edges: dict[tuple[int, int], int] = {}
        for loop in loops:
            following = np.concatenate([loop[1:], loop[:1]])
            corners = points[loop]
            centre = corners.sum(axis=0) / len(corners)
            normal = _cross(corners - centre, points[following] - centre).sum(axis=0)
            normal /= np.linalg.norm(normal)
            self.faces.append(np.array([*normal, (corners @ normal).max()]))
            for u, v in zip(loop.tolist(), following.tolist(), strict=True):
                ends = (number[min(u, v)], number[max(u, v)])
                edge = edges.setdefault(ends, len(self.edges))
                if edge == len(self.edges):
                    self.edges.append(ends)
                    self.sides.append((len(self.faces) - 1, len(self.faces) - 1))
                # of nearly coplanar triangles more than two faces, or only one, can have an edge
                self.sides[edge] = (self.sides[edge][0], len(self.faces) - 1)
                self.loops.append((number[u], edge))
            self.loop.append(len(self.loops))
        if max(len(used), len(loops), len(edges)) > FEATURES // 2:
            raise ValueError(f"geometry {name!r} has {len(edges)} edges: must be at most {FEATURES // 2}")
        self.vertices.extend(points[used])
        low, high = points[used].min(axis=0), points[used].max(axis=0)
        self.size.append((0.0, 0.0, float(np.linalg.norm(high - low)) / 2))
        self.box.append(np.concatenate([(low + high) / 2, (high - low) / 2]))

    def shapes(self) -> Shapes:
        self.first.append((len(self.vertices), len(self.faces), len(self.edges)))
        return Shapes(
            np.array(self.kind, np.int64),
            np.array(self.body, np.int64),
            np.array(self.first, np.int64).reshape(-1, 3),
            np.array(self.size, float).reshape(-1, 3),
            np.array(self.box, float).reshape(-1, 6),
            np.array(self.vertices, float).reshape(-1, 3),
            np.array(self.faces, float).reshape(-1, 4),
            np.array(self.loop, np.int64),
            np.array(self.loops, np.int64).reshape(-1, 2),
            np.array(self.edges, np.int64).reshape(-1, 2),
            np.array(self.sides, np.int64).reshape(-1, 2),
        )
