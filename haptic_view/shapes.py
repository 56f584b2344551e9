"""Shapes of bodies as triangles: primitives, those of Coal that collide, and MuJoCo's geoms."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import coal
import numpy as np
import pinocchio as pin

from haptic_sim.geometry.textures import TextureParameters
from haptic_sim.rotations import matrices
from haptic_sim.spatial import quat_from_matrix


class Relief(NamedTuple):
    """A texture of a shape, and the pose of the shape's axes in those of the body, (4, 4)."""

    texture: TextureParameters
    X_BS: np.ndarray


@dataclass(frozen=True)
class Shape:
    """A part of a body: triangles in the body's axes.

    Attributes:
        body: number of the body in the scene.
        vertices: (V, 3) [m].
        faces: vertices of each triangle, counter-clockwise from outside (F, 3).
        convex: whether it is the convex hull of its vertices.
        smooth: whether its surface is curved.
        ground: a plane, of which only a part is drawn.
        hollow: a ring, through which one sees.
        relief: its texture; None: it is smooth.
    """

    body: int
    vertices: np.ndarray
    faces: np.ndarray
    convex: bool = True
    smooth: bool = False
    ground: bool = False
    hollow: bool = False
    relief: Relief | None = None


def at(pose: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Points (N, 3) of axes that have a pose [m, quat_xyzw], in the world."""
    moved: np.ndarray = points @ matrices(pose[None, 3:])[0].T + pose[:3]
    return moved


def pose_of(X: np.ndarray) -> np.ndarray:
    """Pose [m, quat_xyzw] (7,) of a homogeneous matrix (4, 4)."""
    pose = np.zeros(7)
    pose[:3] = X[:3, 3]
    quat_from_matrix(np.ascontiguousarray(X[:3, :3]), pose[3:])
    return pose


def matrix_of(pose: np.ndarray) -> np.ndarray:
    """Homogeneous matrix (4, 4) of a pose [m, quat_xyzw]."""
    X = np.eye(4)
    X[:3, :3], X[:3, 3] = matrices(pose[None, 3:])[0], pose[:3]
    return X


def moved(shape: Shape, X: np.ndarray) -> Shape:
    """The same shape, placed by a homogeneous matrix."""
    vertices = shape.vertices @ X[:3, :3].T + X[:3, 3]
    return replace(shape, vertices=vertices)


def box(body: int, half: np.ndarray) -> Shape:
    top = np.array([[1.0, 1.0, 1.0], [-1.0, 1.0, 1.0], [-1.0, -1.0, 1.0], [1.0, -1.0, 1.0]]) * half
    return prism(body, top, top * (1.0, 1.0, -1.0))


def prism(body: int, top: np.ndarray, below: np.ndarray) -> Shape:
    """A convex solid between two polygons (N, 3), counter-clockwise as they are seen from the top."""
    n = len(top)
    faces = [[0, i, i + 1] for i in range(1, n - 1)] + [[n, n + i + 1, n + i] for i in range(1, n - 1)]
    for i, k in ((i, (i + 1) % n) for i in range(n)):
        faces += [[i, n + i, n + k], [i, n + k, k]]
    return Shape(body, np.concatenate([top, below]), np.array(faces))


def ball(body: int, radii: Any) -> Shape:
    unit = _turned_shape(body, *_arc(0.5 * math.pi, -0.5 * math.pi), smooth=True)
    return replace(unit, vertices=unit.vertices * np.asarray(radii))


def cylinder(body: int, radius: float, half: float) -> Shape:
    return _turned_shape(body, np.array([0.0, radius, radius, 0.0]), np.array([half, half, -half, -half]))


def capsule(body: int, radius: float, half: float) -> Shape:
    r, z = _arc(0.5 * math.pi, -0.5 * math.pi)
    z = radius * z + np.where(np.arange(len(z)) < len(z) // 2, half, -half)
    return _turned_shape(body, radius * r, z, smooth=True)


def stick(body: int, start: np.ndarray, end: np.ndarray, radius: float) -> Shape:
    """A capsule between two points."""
    along = np.asarray(end, float) - start
    length = float(np.linalg.norm(along))
    X = np.eye(4)
    X[:3, :3] = pin.Quaternion.FromTwoVectors(np.array([0.0, 0.0, 1.0]), along / length).matrix()
    X[:3, 3] = 0.5 * (np.asarray(start, float) + end)
    return moved(capsule(body, radius, 0.5 * length), X)


def ring(body: int, radius: float, thickness: float) -> Shape:
    """A circle about z."""
    r, z = _arc(math.pi, -math.pi, 9)
    return _turned_shape(body, radius + thickness * r, thickness * z, 96, convex=False, smooth=True, hollow=True)


def _arc(first: float, last: float, count: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Distance from the axis and height of points on a unit circle, between two angles from the plane."""
    angle = np.linspace(first, last, count)
    return np.cos(angle), np.sin(angle)


def _turned_shape(body: int, r: np.ndarray, z: np.ndarray, sections: int = 32, **how: Any) -> Shape:
    """Solid of revolution of a line with the distances r from the axis z at the heights z (N,).

    The line goes down where it is outside.
    """
    angle = np.linspace(0.0, 2.0 * math.pi, sections, endpoint=False)
    vertices = np.stack([np.outer(r, np.cos(angle)), np.outer(r, np.sin(angle)), np.outer(z, np.ones(sections))], -1)
    upper = (np.arange(len(r) - 1)[:, None] * sections + np.arange(sections)).ravel()
    beside = upper - upper % sections + (upper + 1) % sections
    quads = np.stack([upper, upper + sections, beside + sections, beside], axis=-1)
    faces, points = np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]]), vertices.reshape(-1, 3)
    sides = points[faces[:, 1:]] - points[faces[:, :1]]
    areas = np.linalg.norm(np.cross(sides[:, 0], sides[:, 1]), axis=1)
    return Shape(body, points, faces[areas > 1e-9 * areas.max()], **how)  # none where a side is a point of the axis


def plane(body: int, normal: np.ndarray, offset: float) -> Shape:
    """A square of side 2 in a plane; it is made as large as the scene needs."""
    normal = np.asarray(normal, float)
    across = np.cross(normal, np.eye(3)[int(np.argmin(np.abs(normal)))])
    across /= np.linalg.norm(across)
    other = np.cross(normal, across)
    corners = np.array([-across - other, across - other, across + other, -across + other])
    return Shape(body, corners + offset * normal, np.array([[0, 1, 2], [0, 2, 3]]), ground=True)


def _polytope(body: int, geometry: coal.Convex) -> Shape:
    """A convex shape of triangles."""
    points = np.array([geometry.point(i) for i in range(geometry.num_points)])
    triangles = map(geometry.polygons, range(geometry.num_polygons))
    faces = np.array([[int(triangle[i]) for i in range(3)] for triangle in triangles]).reshape(-1, 3)
    corners = points[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    outward = np.einsum("ij,ij->i", normals, corners[:, 0] - points.mean(axis=0)) > 0.0
    return Shape(body, points, np.where(outward[:, None], faces, faces[:, ::-1]))


def shape_of_coal(body: int, geometry: Any) -> Shape:
    """Triangles of a coal shape."""
    match geometry:
        case coal.Box():
            return box(body, geometry.halfSide)
        case coal.Sphere():
            return ball(body, (geometry.radius,) * 3)
        case coal.Cylinder():
            return cylinder(body, geometry.radius, geometry.halfLength)
        case coal.Capsule():
            return capsule(body, geometry.radius, geometry.halfLength)
        case coal.Halfspace() | coal.Plane():
            return plane(body, geometry.n, geometry.d)
        case coal.BVHModelBase():
            faces = np.array([[geometry.tri_indices(i)[k] for k in range(3)] for i in range(geometry.num_tris)], int)
            return Shape(body, np.array(geometry.vertices()), faces, convex=False)
    return _polytope(body, geometry)


def shape_of_geom(mujoco: Any, model: Any, geom: int, body: int) -> Shape | None:
    kinds, kind, size = mujoco.mjtGeom, model.geom_type[geom], model.geom_size[geom]
    if kind == kinds.mjGEOM_BOX:
        return box(body, size)
    if kind == kinds.mjGEOM_SPHERE:
        return ball(body, (size[0],) * 3)
    if kind == kinds.mjGEOM_ELLIPSOID:
        return ball(body, size)
    if kind == kinds.mjGEOM_CYLINDER:
        return cylinder(body, size[0], size[1])
    if kind == kinds.mjGEOM_CAPSULE:
        return capsule(body, size[0], size[1])
    if kind == kinds.mjGEOM_PLANE:
        return plane(body, np.array([0.0, 0.0, 1.0]), 0.0)
    if kind == kinds.mjGEOM_MESH:
        mesh = model.geom_dataid[geom]
        first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
        face, faces = model.mesh_faceadr[mesh], model.mesh_facenum[mesh]
        return Shape(body, model.mesh_vert[first : first + count], model.mesh_face[face : face + faces], convex=False)
    return None  # height fields
