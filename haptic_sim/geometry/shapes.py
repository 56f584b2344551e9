"""Shapes of bodies as parameters, with their collision geometry and their inertia."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import coal
import numpy as np
import pinocchio as pin
from pydantic import AfterValidator, Field, create_model, model_validator

from haptic_sim.geometry.fields.distances import FieldError
from haptic_sim.geometry.fields.field import SolidField, triangles_of
from haptic_sim.geometry.generate import SHAPES, numbers_of
from haptic_sim.geometry.mesh_files import MeshError, merged, read_coordinates, read_mesh
from haptic_sim.geometry.meshes import As, Points, Taken, remedy, take
from haptic_sim.geometry.sampling import on_sphere, spread
from haptic_sim.geometry.textures import AnyTextureParameters, Coordinates, NoTextureParameters, TextureError
from haptic_sim.parameters import Parameters, _positive, did_you_mean, quantity
from haptic_sim.rotations import from_roll_pitch_yaw

Vector = tuple[float, float, float]
PositiveVector = Annotated[Vector, AfterValidator(_positive)]
ORIGIN: Vector = (0.0, 0.0, 0.0)


SHORTEST = 1e-9  # of a direction, and of a factor
SAMPLES = 20_000  # points on a surface
ROUND = 1e-3  # of a radius: accuracy of such points


def _direction(values: Vector) -> Vector:
    if max(map(abs, values)) < SHORTEST:
        raise ValueError(f"must not be {'shorter than ' + format(SHORTEST, 'g') if any(values) else 'zero'}")
    return values


Direction = Annotated[Vector, AfterValidator(_direction)]
"""A vector of any length but zero."""


def _not_flat(values: Vector) -> Vector:
    for i, value in enumerate(values):
        if abs(value) < SHORTEST:
            raise ValueError(f"[{i}] = {value:g}: must not be zero, nor smaller than {SHORTEST:g}")
    return values


Scale = Annotated[Vector, AfterValidator(_not_flat)]


class Placed(Parameters):
    """A pose in the axes of a body, or of the world."""

    position: Vector = quantity(
        ORIGIN,
        unit="m",
        description="Position: of a shape in its body, of a linked body in its parent, else in the world",
    )
    rotation: Vector = quantity(ORIGIN, unit="rad", description="Roll, pitch and yaw: about fixed x, then y, then z")

    @property
    def pose(self) -> pin.SE3:
        """Position and rotation as a placement."""
        return placement(self.position, self.rotation)


def placement(position: Vector, rotation: Vector) -> pin.SE3:
    """A placement from a position [m] and roll, pitch, yaw [rad]: R = Rz(yaw) Ry(pitch) Rx(roll)."""
    return pin.XYZQUATToSE3(np.array([*position, *from_roll_pitch_yaw(*rotation)]))


class Textured(Placed):
    """A shape with a surface."""

    texture: AnyTextureParameters = quantity(
        NoTextureParameters(), description="Height of the surface over that of the shape (docs/textures.md)"
    )


class BoxParameters(Textured):
    """A box, centred."""

    type: Literal["box"] = "box"
    size: PositiveVector = quantity(unit="m", description="Extent of the box along x, y and z")


class SphereParameters(Textured):
    """A sphere."""

    type: Literal["sphere"] = "sphere"
    radius: float = quantity(unit="m", description="Radius of the sphere", gt=0.0)


class CylinderParameters(Textured):
    """A cylinder along z, centred."""

    type: Literal["cylinder"] = "cylinder"
    radius: float = quantity(unit="m", description="Radius of the cylinder", gt=0.0)
    length: float = quantity(unit="m", description="Length of the cylinder", gt=0.0)


class CapsuleParameters(Textured):
    """A cylinder along z with a half ball on each end, centred."""

    type: Literal["capsule"] = "capsule"
    radius: float = quantity(unit="m", description="Radius of the capsule", gt=0.0)
    length: float = quantity(unit="m", description="Length of the capsule without its half balls", gt=0.0)


class PlaneParameters(Textured):
    """A half-space, solid where normal . p < offset; only for fixed bodies."""

    type: Literal["plane"] = "plane"
    normal: Direction = quantity((0.0, 0.0, 1.0), description="Outward normal of the plane, of any length")
    offset: float = quantity(0.0, unit="m", description="Distance of the plane from the origin along its normal")


class _Surface(Textured):
    """A surface of triangles."""

    error: float | None = quantity(
        None,
        unit="m",
        description="Largest error that is wanted: distance of the surface of the hull or the convex pieces of a mesh "
        "from its own, or accuracy of its signed distance field; left out: that of the hull, of the coarsest pieces, "
        "or 1/300 of the diagonal",
        gt=0.0,
    )

    points: Points = quantity(
        "all",
        description="Points of a mesh that collides by a signed distance field. all: everywhere; sharp: on "
        "sharp edges, corners and strongly curved parts, where the shapes that it touches have points everywhere, "
        "which find its faces",
    )
    largest_hole: float | None = quantity(
        None,
        unit="m^2",
        description="Area of the largest hole of a mesh that is closed where it collides by a signed distance field; "
        "left out: that of a circle of a tenth of its diagonal",
        gt=0.0,
    )

    @model_validator(mode="before")
    @classmethod
    def _replaced(cls, given: Any) -> Any:
        """Name the key that has replaced others."""
        for key, now in _REPLACED.items():
            if isinstance(given, dict) and key in given:
                raise ValueError(f".{key}: {now}")
        return given

    @property
    def how(self) -> As:
        """The key `as`, which is a word of Python."""
        found: As = getattr(self, "as")
        return found


_REPLACED = {
    "hull": "is replaced by as; for the convex hull, set as: hull",
    "field": "is replaced by as and error; for a signed distance field, set as: field, error: its accuracy",
    "convex": "is replaced by as; automatic takes a mesh, or each of its pieces, as it is where that is convex",
}
# A class body cannot declare a field that is named by a word of Python.
_AS: dict[str, Any] = {
    "as": (
        As,
        quantity(
            "automatic",
            description="Collision geometry of the mesh. automatic: itself where it is convex, its connected pieces "
            "where these are, else a field, as also where it has more than 50,000 triangles; pieces: a decomposition "
            "into convex pieces where it is not convex; hull: its convex hull; field: a signed distance field, which "
            "any shape can have",
        ),
    )
}
_Mesh: Any = create_model("_Mesh", __base__=_Surface, **_AS)


class MeshParameters(_Mesh):
    """A closed mesh from a file."""

    type: Literal["mesh"] = "mesh"
    path: str = quantity(
        description="Mesh file (STL, OBJ, PLY, OFF, glTF or DAE), in the working directory or in the experiment's "
        "folder"
    )
    scale: Scale = quantity((1.0, 1.0, 1.0), description="Factors of the mesh along x, y and z, to metres")

    def triangles(self, folder: Path) -> Any:
        """The mesh; `folder` is where its path starts from.

        Raises:
            MeshError: it cannot be read; the text goes after `named`.
        """
        return read_mesh(locate(self.path, folder), self.scale)

    def named(self, folder: Path) -> str:
        """Origin of the mesh, as messages name it."""
        return f"path = {locate(self.path, folder)}"


class GeneratedParameters(_Mesh):
    """A closed mesh that is generated from a few numbers (docs/shapes.md)."""

    type: Literal["generated"] = "generated"
    shape: Literal["mug", "hook", "gear", "bolt", "nut", "bone"] = quantity(description="Shape that is generated")
    numbers: dict[str, float] = quantity(
        {}, description="Numbers of the shape that differ from its defaults, as {teeth: 18}; lengths in metres"
    )

    @model_validator(mode="after")
    def _known(self) -> Any:
        known = numbers_of(self.shape)
        for key, value in self.numbers.items():
            if key not in known:
                raise ValueError(f".numbers.{key}: unknown number of {self.shape}{did_you_mean(key, known)}")
            if isinstance(known[key], int) and value != int(value):
                raise ValueError(f".numbers.{key} = {value:g}: must be a whole number")
        return self

    def triangles(self, folder: Path) -> Any:
        """The mesh.

        Raises:
            MeshError: its numbers contradict each other; the text goes after `named`.
        """
        numbers = {key: type(known)(self.numbers.get(key, known)) for key, known in numbers_of(self.shape).items()}
        return merged(*SHAPES[self.shape](**numbers))

    def named(self, folder: Path) -> str:
        """Origin of the mesh, as messages name it."""
        return f"shape = {self.shape}"


AnyShapeParameters = Annotated[
    BoxParameters
    | SphereParameters
    | CylinderParameters
    | CapsuleParameters
    | PlaneParameters
    | MeshParameters
    | GeneratedParameters,
    Field(discriminator="type"),
]


@dataclass(frozen=True)
class Solid:
    """A shape of a body, as geometry that collides: convex, or with a field.

    Attributes:
        geometry: coal shapes; all together are the shape.
        pose: of the shape in the body's axes.
        inertia: for a density of 1 kg/m^3, in the shape's axes; None for a half-space.
        taken: what was made of a mesh; None for other shapes.
        source: of a mesh: where it is from.
    """

    geometry: tuple[coal.CollisionGeometry, ...]
    pose: pin.SE3
    inertia: pin.Inertia | None
    taken: Taken | None = None
    source: str = ""

    @property
    def field(self) -> SolidField | None:
        """Field of a geometry that is not convex, a mesh of triangles, from which its contacts are found."""
        return None if self.taken is None else self.taken.field


def solid(shape: AnyShapeParameters, folder: Path) -> Solid:
    """A shape as geometry that collides; `folder` is where paths of meshes start from.

    Raises:
        MeshError: the mesh cannot be used; the text goes after the key of the shape.
    """
    pose = shape.pose
    if isinstance(shape, BoxParameters):
        return Solid((coal.Box(*shape.size),), pose, pin.Inertia.FromBox(float(np.prod(shape.size)), *shape.size))
    if isinstance(shape, SphereParameters):
        volume = 4.0 / 3.0 * np.pi * shape.radius**3
        return Solid((coal.Sphere(shape.radius),), pose, pin.Inertia.FromSphere(volume, shape.radius))
    if isinstance(shape, CylinderParameters):
        volume = np.pi * shape.radius**2 * shape.length
        inertia = pin.Inertia.FromCylinder(volume, shape.radius, shape.length)
        return Solid((coal.Cylinder(shape.radius, shape.length),), pose, inertia)
    if isinstance(shape, CapsuleParameters):
        volume = np.pi * shape.radius**2 * (shape.length + 4.0 / 3.0 * shape.radius)
        inertia = pin.Inertia.FromCapsule(volume, shape.radius, shape.length)
        return Solid((coal.Capsule(shape.radius, shape.length),), pose, inertia)
    if isinstance(shape, PlaneParameters):
        normal = np.array(shape.normal) / np.linalg.norm(shape.normal)
        return Solid((coal.Halfspace(normal, shape.offset),), pose, None)
    source = shape.named(folder)
    try:
        taken = take(shape.triangles(folder), shape.how, shape.error, shape.points, shape.largest_hole)
    except (MeshError, FieldError) as error:
        raise MeshError(f".{source}: {error}{remedy(error)}") from error
    return Solid(taken.geometry, pose, pin.Inertia(*taken.mass), taken, source)


def surface_of(one: Solid) -> tuple[np.ndarray, np.ndarray]:
    """Points spread over the surface of a shape, or of its convex pieces [m], and outward unit normals, (n, 3) each."""
    points, normals = zip(*map(_surface_of, one.geometry), strict=True)
    return np.concatenate(points), np.concatenate(normals)


def _surface_of(geometry: coal.CollisionGeometry) -> tuple[np.ndarray, np.ndarray]:
    """Points and normals on the surface of one geometry; one point of a half-space. See `surface_of`."""
    if isinstance(geometry, coal.Halfspace):
        normal = np.array(geometry.n, float).reshape(1, 3)
        return geometry.d * normal, normal
    if isinstance(geometry, coal.Sphere | coal.Capsule):
        n = on_sphere(SAMPLES)
        half = getattr(geometry, "halfLength", 0.0)
        side = n * [1.0, 1.0, 0.0] / np.linalg.norm(n[:, :2], axis=1, keepdims=True)
        ends, sides = geometry.radius * n + half * np.sign(n) * [0, 0, 1], geometry.radius * side + half * n * [0, 0, 1]
        return (np.concatenate([ends, sides]), np.concatenate([n, side])) if half > 0.0 else (ends, n)
    vertices, triangles = triangles_of(geometry, ROUND * getattr(geometry, "radius", 0.0))
    points, chosen = spread(vertices, triangles, SAMPLES)
    a, b, c = np.moveaxis(vertices[triangles[chosen]], 1, 0)
    normals = np.cross(b - a, c - a)
    return points, normals / np.linalg.norm(normals, axis=1, keepdims=True)


def coordinates_of(shape: AnyShapeParameters, folder: Path) -> Coordinates:
    """Coordinates of an image (UV) of a mesh; `folder` is where its path starts from.

    Raises:
        TextureError: it has none, or they cannot be used; the text goes after the key of the texture.
    """
    if not isinstance(shape, MeshParameters):
        raise TextureError(
            f": a shape of the type {shape.type} has no coordinates of an image, which only meshes from files have; "
            "use type: triaxial, which needs none"
        )
    try:
        return Coordinates(*read_coordinates(locate(shape.path, folder), shape.scale))
    except MeshError as error:
        raise TextureError(f": {locate(shape.path, folder)} {error}") from error


def locate(path: str, folder: Path) -> Path:
    """A file named in an experiment: relative to where the user is, else to the experiment's folder."""
    file = Path(path)
    return file if file.is_absolute() or os.path.exists(file) else folder / file


def uniform(pieces: list[Solid]) -> pin.Inertia | None:
    """Inertia of all shapes together for 1 kg/m^3, in the body's axes; None without volume. Overlaps count twice."""
    parts = [piece.pose.act(piece.inertia) for piece in pieces if piece.inertia is not None]
    if not parts:
        return None
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def impossible(inertia: np.ndarray) -> str:
    """Reason why no body can have this inertia (3, 3) about its center of mass [kg m^2]; empty if one can."""
    if not np.all(np.isfinite(inertia)):
        return "it is not finite"
    moments = np.linalg.eigvalsh(inertia)
    shown = ", ".join(f"{moment:.4g}" for moment in moments)
    if not moments[0] > 0.0:
        return f"its principal moments ({shown} kg m^2) must be > 0"
    # Integrals of y^2 + z^2, x^2 + z^2 and x^2 + y^2: none can exceed the sum of the others. Equal to it is a flat
    # body, which files give with rounded numbers.
    if not moments[2] <= (moments[0] + moments[1]) * (1.0 + 1e-6):
        return f"the greatest of its principal moments ({shown} kg m^2) must be at most the sum of the other two"
    return ""
