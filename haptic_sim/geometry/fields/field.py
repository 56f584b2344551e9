"""The field of a solid: signed distances from its surface, and a shell of points on it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import coal
import numpy as np
import pinocchio as pin

from haptic_sim.geometry.fields.distances import (
    FieldError,
    Grid,
    Grids,
    affordable_spacing,
    build_grid,
    distance_at,
    gather_grids,
)
from haptic_sim.geometry.fields.shells import CLOSE, Shell, group_points, spread_points, tree_of
from haptic_sim.kernels import kernel
from haptic_sim.records import record, shared, value
from haptic_sim.vectors import triple

SPACING = 2.0  # of samples, in units of the accuracy
FACE_SPACING, EDGE_SPACING = 8.0, 3.0  # of points on faces and along sharp edges, in units of the accuracy
CELLS = 64
FORMAT = 2  # of fields that are kept: counts up with whatever changes a field of the same mesh
MEMORY = 400_000_000  # [bytes]
MOST_POINTS = 500_000
PARTS = 300  # of the diagonal: the accuracy where none is given, with which flat faces on each other keep 1 kHz
COARSEST = 0.05  # of the diagonal: a coarser accuracy than this is refused
FINEST = 1000  # of the diagonal: for boxes, cylinders and convex meshes, however fine that of the mesh beside them


@record
class SolidField(NamedTuple):
    """Data that contacts of a solid with any other are found from; all in its own axes."""

    grid: Grid = value("signed distances")
    shell: Shell = value("points on the surface")
    accuracy: float = value("what the spacing of samples and points is chosen for", unit="m")
    error: float = value("largest distance from the surface at points where it is 0", unit="m")
    everywhere: bool = value("whether faces have points, too; else they are found by those of the other solid")


def build_field(
    vertices: np.ndarray,
    triangles: np.ndarray,
    accuracy: float | None = None,
    *,
    cells: int = CELLS,
    memory: int = MEMORY,
    everywhere: bool = True,
) -> SolidField:
    """The field of a solid from its triangles. Holes are closed.

    Args:
        vertices: (n, 3) [m].
        triangles: (m, 3), anticlockwise seen from outside.
        accuracy: largest error of a distance in the middle of a smooth part [m]: samples are SPACING times this apart,
            points FACE_SPACING times. Left out: 1 / PARTS of the diagonal.
        cells: largest number of contacts that points of this solid have with another one.
        memory: largest size [bytes].
        everywhere: whether flat parts have points, too (see `standing_out`).

    Raises:
        FieldError: it would have more samples or points than are allowed, or no points.
    """
    vertices, triangles = np.ascontiguousarray(vertices, float), np.ascontiguousarray(triangles, np.int64)
    diagonal = float(np.linalg.norm(np.ptp(vertices[triangles.ravel()], axis=0)))
    accuracy = diagonal / PARTS if accuracy is None else accuracy
    if not 0.0 < accuracy <= COARSEST * diagonal:
        raise FieldError(f"error = {accuracy:g} m: must be > 0 and at most {COARSEST * diagonal:.3g} m for its size")
    corners = vertices[triangles]
    area = 0.5 * float(
        np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1).sum()
    )
    wanted = area / (0.7 * (FACE_SPACING * accuracy) ** 2)
    if not wanted <= MOST_POINTS:
        would = _affordable(vertices, triangles, accuracy * math.sqrt(wanted / MOST_POINTS), memory)
        raise FieldError(
            f"error = {accuracy:g} m: its surface of {area:.3g} m^2 needs {wanted:.2g} points: must be at most "
            f"{MOST_POINTS}; allow an error of {would} m"
        )
    used, numbers = np.unique(triangles, return_inverse=True)
    vertices, triangles = vertices[used], numbers.reshape(-1, 3)
    try:
        grid = build_grid(vertices, triangles, SPACING * accuracy, memory)
    except FieldError as error:
        raise FieldError(
            f"{error}; allow an error of {_affordable(vertices, triangles, accuracy, memory)} m"
        ) from error
    points, normals, sharp = spread_points(vertices, triangles, FACE_SPACING * accuracy, EDGE_SPACING * accuracy)
    if not everywhere:
        needed = standing_out(grid, points, normals, sharp, accuracy)
        if not needed.any():
            raise FieldError("has no sharp edges, and is nowhere strongly curved: leave out points: sharp")
        points, normals = points[needed], normals[needed]
    shell = group_points(points, normals, cells)
    distances, _ = _sampled(grid, shell.points)
    return SolidField(grid, shell, float(accuracy), float(np.abs(distances).max()), everywhere)


def _affordable(vertices: np.ndarray, triangles: np.ndarray, accuracy: float, memory: int) -> str:
    """The least accuracy [m] from a given one on of which a field fits in the memory, rounded up to two digits."""
    return rounded_up(affordable_spacing(vertices, triangles, SPACING * accuracy, memory) / SPACING)


def rounded_up(number: float) -> str:
    """A number above 0, rounded up to two digits."""
    digit = 10.0 ** (math.floor(math.log10(number)) - 1)
    return f"{math.ceil(number / digit) * digit:.2g}"


def standing_out(grid: Grid, points: np.ndarray, normals: np.ndarray, sharp: int, accuracy: float) -> np.ndarray:
    """Mask of the shell points that find contacts which the full shell of another solid misses, (n,) bool.

    Let the other solid be flat where it touches point x, with normal n. Some point of its own lies within the radius r
    of x, as points on faces are that close together. It finds the depth at x less the distance of the tangent plane
    from this solid there; so x is not needed where this distance is at most the accuracy all around. Nor is it beside a
    sharp edge, where the plane rests on the points along the edge to within the accuracy.

    Args:
        grid: distances from this solid.
        points: (n, 3) [m]; normals: (n, 3); sharp: how many of these, the first, are on sharp features: all are needed.
        accuracy: of both solids [m].
    """
    from scipy.spatial import cKDTree

    r = CLOSE * FACE_SPACING * accuracy
    x, n = points[sharp:], normals[sharp:]
    flat = np.ones(len(x), bool)
    across = np.cross(n, np.eye(3)[np.abs(n).argmin(axis=1)])
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    for angle in 0.25 * np.pi * np.arange(8):
        around = x + r * (np.cos(angle) * across + np.sin(angle) * np.cross(n, across))
        flat &= _sampled(grid, around)[0] <= accuracy
    if sharp:
        edges = cKDTree(points[:sharp])
        for i in np.flatnonzero(~flat).tolist():
            close = points[edges.query_ball_point(x[i], r)]
            flat[i] = bool((np.abs((close - x[i]) @ n[i]) <= accuracy).any())
    return np.concatenate([np.ones(sharp, bool), ~flat])


def _sampled(grid: Grid, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances of points (n, 3) [m] from a solid, (n,), and the gradients of these (n, 3)."""
    distances, gradients = np.empty(len(points)), np.empty((len(points), 3))
    sample(gather_grids([grid]), np.ascontiguousarray(points), distances, gradients)
    return distances, gradients


def round_field(radius: float, half_length: float, accuracy: float, cells: int = CELLS) -> SolidField:
    """The shell of a sphere or, along z, a capsule; its distances have a closed form, so it has no samples.

    Points between which a sphere rises by no more than the accuracy are 4 sqrt(radius accuracy) apart.
    """
    spacing = min(3.0 * math.sqrt(radius * accuracy), 0.5 * radius)
    rings = []
    arc = max(math.ceil(0.5 * math.pi * radius / spacing), 2)
    heights = [(radius * math.sin(0.5 * math.pi * i / arc), half_length) for i in range(arc + 1)]
    levels = [(z, h) for z, h in heights] + [(-z, -h) for z, h in heights]
    inner = max(math.ceil(2.0 * half_length / spacing), 1)
    levels += [(0.0, half_length * (2.0 * i / inner - 1.0)) for i in range(1, inner)]
    for k, (z, centre) in enumerate(sorted(set(levels), key=lambda level: (level[1], level[0]))):
        across = math.sqrt(max(radius * radius - z * z, 0.0))
        count = max(math.ceil(2.0 * math.pi * across / spacing), 1)
        angle = 2.0 * math.pi * (np.arange(count) + 0.5 * (k % 2)) / count
        normal = np.stack([across * np.cos(angle), across * np.sin(angle), np.full(count, z)], axis=-1) / radius
        rings.append((radius * normal + np.array([0.0, 0.0, centre]), normal))
    shell = group_points(np.concatenate([x for x, _ in rings]), np.concatenate([n for _, n in rings]), cells)
    empty = Grid(
        np.zeros(3),
        1.0,
        np.full((0, 0, 0), -1, np.int32),
        np.zeros((0, 10, 10, 10), np.float32),
        np.zeros((0, 0, 0), np.float32),
    )
    return SolidField(empty, shell, accuracy, 0.0, True)


@kernel(error_model="numpy")
def sample(grids, points, distances, gradients):
    """Fill in the signed distances of points (n, 3) from the first solid, (n,), and the gradients of these (n, 3)."""
    for i in range(points.shape[0]):
        distances[i], g = distance_at(grids, 0, triple(points, i))
        for k in range(3):
            gradients[i, k] = g[k]


def arrays_of(field: SolidField) -> dict[str, np.ndarray]:
    """A field as named arrays, to be kept in a file."""
    return {
        **{f"grid.{name}": np.asarray(x) for name, x in field.grid._asdict().items()},
        **{f"shell.{name}": np.asarray(x) for name, x in field.shell._asdict().items()},
        "accuracy": np.array(field.accuracy),
        "error": np.array(field.error),
        "everywhere": np.array(field.everywhere),
    }


def field_of(arrays: Mapping[str, np.ndarray]) -> SolidField:
    """The field of these arrays."""
    grid = Grid(**{name: arrays[f"grid.{name}"] for name in Grid._fields})  # type: ignore[arg-type]
    shell = Shell(*(arrays[f"shell.{name}"] for name in Shell._fields))
    return SolidField(
        grid._replace(spacing=float(grid.spacing)),
        shell,
        float(arrays["accuracy"]),
        float(arrays["error"]),
        bool(arrays["everywhere"]),
    )


# Shapes


def triangle_mesh(vertices: np.ndarray, triangles: np.ndarray) -> coal.BVHModelBase:
    """Triangles (m, 3) of vertices (n, 3) [m] as a geometry."""
    mesh = coal.BVHModelOBBRSS()
    mesh.beginModel(len(triangles), len(vertices))
    mesh.addVertices(np.asarray(vertices, float))
    mesh.addTriangles(np.asarray(triangles, np.int64))
    mesh.endModel()
    return mesh


def triangles_of(geometry: coal.CollisionGeometry, accuracy: float) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (n, 3) [m] and triangles (m, 3) of a solid that is not round, to within an accuracy [m]."""
    if isinstance(geometry, coal.BVHModelBase):
        count = geometry.num_tris
        return np.array(geometry.vertices(), float), np.array(
            [[geometry.tri_indices(i)[k] for k in range(3)] for i in range(count)], np.int64
        )
    if isinstance(geometry, coal.Box):
        points = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * np.array(geometry.halfSide)
    elif isinstance(geometry, coal.Cylinder):
        sections = max(math.ceil(math.pi / math.acos(1.0 - min(accuracy / geometry.radius, 0.1))), 12)
        angle = 2.0 * math.pi * np.arange(sections) / sections
        ring = np.stack([geometry.radius * np.cos(angle), geometry.radius * np.sin(angle)], axis=-1)
        h = geometry.halfLength
        points = np.concatenate([np.column_stack([ring, np.full(sections, z)]) for z in (-h, h)])
    elif isinstance(geometry, coal.ConvexBase):
        points = np.array(geometry.points(), float)
    else:
        raise ValueError(f"a {type(geometry).__name__} has no field")
    return _hull_triangles(points)


def _hull_triangles(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Triangles of the convex hull of points, anticlockwise seen from outside."""
    from scipy.spatial import ConvexHull

    hull = ConvexHull(points)
    triangles = hull.simplices.astype(np.int64)
    corners = points[triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    back = np.einsum("ij,ij->i", normals, hull.equations[:, :3]) < 0.0
    triangles[back] = triangles[back][:, ::-1]
    return points, triangles


def field_of_shape(geometry: coal.CollisionGeometry, accuracy: float) -> SolidField:
    """The field of any solid, for contacts with another one that has a field.

    Raises:
        FieldError: it would be too large.
    """
    if isinstance(geometry, coal.Sphere):
        return round_field(geometry.radius, 0.0, accuracy)
    if isinstance(geometry, coal.Capsule):
        return round_field(geometry.radius, geometry.halfLength, accuracy)
    vertices, triangles = triangles_of(geometry, accuracy)
    diagonal = float(np.linalg.norm(np.ptp(vertices, axis=0)))
    return build_field(vertices, triangles, min(max(accuracy, diagonal / FINEST), COARSEST * diagonal))


@record
class Fields(NamedTuple):
    """The fields of several solids, for kernels."""

    grids: Grids = value("their distances")
    has_grid: np.ndarray = shared("whether each has samples", "fields", dtype=np.bool_)
    accuracy: np.ndarray = shared("accuracy of each", "fields", unit="m")
    ball: np.ndarray = shared("centre and radius of the points of each", "fields", 4, unit="m")
    nodes: np.ndarray = shared("first node of each, and behind the last", "fields + 1", dtype=np.int64)
    leaves: np.ndarray = shared("behind the last leaf of each; sets of leaves follow", "fields", dtype=np.int64)
    cells: np.ndarray = shared("first cell of each, and behind the last", "fields + 1", dtype=np.int64)
    root: np.ndarray = shared("node of each cell", "cells", dtype=np.int64)
    last: np.ndarray = shared("behind the last leaf of each cell", "cells", dtype=np.int64)
    parts: np.ndarray = shared(
        "first point of a leaf and behind its last; two nodes of a set", "nodes", 2, dtype=np.int64
    )
    node_ball: np.ndarray = shared("centre and radius of the points of each node", "nodes", 4, unit="m")
    node_arm: np.ndarray = shared("largest distance of these points from the centre of `ball`", "nodes", unit="m")
    points: np.ndarray = shared("points of all shells", "points", 3, unit="m")
    normals: np.ndarray = shared("outward normals there", "points", 3)


def gather(fields: Sequence[SolidField]) -> Fields:
    """Several fields in one record."""
    shells = [field.shell for field in fields]
    balls = []
    for shell in shells:
        centre = 0.5 * (shell.points.min(axis=0) + shell.points.max(axis=0))
        balls.append([*centre, np.linalg.norm(shell.points - centre, axis=1).max()])
    trees = [tree_of(shell) for shell in shells]
    node_balls = [np.concatenate([shell.leaf_ball, tree.ball]) for shell, tree in zip(shells, trees, strict=True)]
    nodes, points = [0], [0]
    for shell, tree in zip(shells, trees, strict=True):
        nodes.append(nodes[-1] + len(shell.leaf_ball) + len(tree.ball))
        points.append(points[-1] + len(shell.points))

    def joined(parts: Iterable[np.ndarray], *width: int, dtype: type = float) -> np.ndarray:
        return np.concatenate([np.zeros((0, *width), dtype), *parts])

    return Fields(
        gather_grids([field.grid for field in fields]),
        np.array([field.grid.coarse.size > 0 for field in fields], bool),
        np.array([field.accuracy for field in fields], float),
        np.array(balls, float).reshape(-1, 4),
        np.array(nodes, np.int64),
        np.array([n + len(shell.leaf_ball) for n, shell in zip(nodes, shells, strict=False)], np.int64),
        np.cumsum([0, *(len(tree.root) for tree in trees)]).astype(np.int64),
        joined((n + tree.root for n, tree in zip(nodes, trees, strict=False)), dtype=np.int64),
        joined((n + shell.cell[1:] for n, shell in zip(nodes, shells, strict=False)), dtype=np.int64),
        joined(
            (
                part
                for n, p, shell, tree in zip(nodes, points, shells, trees, strict=False)
                for part in (p + np.stack([shell.leaf[:-1], shell.leaf[1:]], axis=-1), n + tree.parts)
            ),
            2,
            dtype=np.int64,
        ),
        joined(node_balls, 4),
        joined(
            np.linalg.norm(nodes[:, :3] - ball[:3], axis=1) + nodes[:, 3]
            for nodes, ball in zip(node_balls, balls, strict=True)
        ),
        joined((shell.points for shell in shells), 3),
        joined((shell.normals for shell in shells), 3),
    )


def fields_for(geometry: pin.GeometryModel, given: Mapping[str, SolidField]) -> dict[str, SolidField]:
    """The fields that a detection of the collision pairs of a geometry model needs, by the names of its objects.

    Args:
        geometry: shapes and pairs.
        given: fields of its triangle meshes. Solids that may touch one get a field of the least accuracy of these.

    Raises:
        FieldError: a field would be too large, or neither of two shapes that may touch has points on its faces.
    """
    shapes = geometry.geometryObjects
    fields = {shape.name: given[shape.name] for shape in shapes if shape.name in given}
    wanted: dict[str, float] = {}
    for pair in geometry.collisionPairs:
        for a, b in ((pair.first, pair.second), (pair.second, pair.first)):
            one, other = shapes[a], shapes[b]
            if one.name in given and not given[one.name].everywhere:
                if isinstance(other.geometry, coal.Halfspace):
                    raise FieldError(
                        f"{one.name} has points: sharp and may touch {other.name}, a plane, which has no points: set "
                        f"points: all"
                    )
                if other.name in given and not given[other.name].everywhere:
                    raise FieldError(
                        f"{one.name} and {other.name} may touch, and both have points: sharp: one of them must have "
                        "points: all"
                    )
            if one.name in given and other.name not in given and not isinstance(other.geometry, coal.Halfspace):
                wanted[other.name] = min(given[one.name].accuracy, wanted.get(other.name, math.inf))
    for shape in shapes:
        if shape.name in wanted:
            fields[shape.name] = field_of_shape(shape.geometry, wanted[shape.name])
    return fields


def without_meshes(geometry: pin.GeometryModel) -> pin.GeometryModel:
    """A geometry whose triangle meshes are boxes around them; the same one where there are none."""
    meshes = [i for i, item in enumerate(geometry.geometryObjects) if isinstance(item.geometry, coal.BVHModelBase)]
    if meshes:
        geometry = geometry.copy()
        for i in meshes:
            points = np.array(geometry.geometryObjects[i].geometry.vertices(), float)
            geometry.geometryObjects[i].geometry = coal.Box(*np.maximum(np.ptp(points, axis=0), 1e-6))
    return geometry
