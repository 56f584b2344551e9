"""Shapes of SDF's links: primitives and extruded polylines as convex shapes, meshes, height maps; what they fill."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

import coal
import numpy as np
import pinocchio as pin

from haptic_sim.geometry.convex import convex_shape
from haptic_sim.geometry.fields.distances import FieldError
from haptic_sim.geometry.height_maps import read_pixels
from haptic_sim.geometry.mesh_files import MeshError, check_file, merged
from haptic_sim.geometry.meshes import Mass, Taken, mesh_mass, remedy, sum_of_masses, take_of_file
from haptic_sim.geometry.polygons import PolygonError, convex_parts
from haptic_sim.geometry.sampling import on_sphere
from haptic_sim.geometry.terrain import MOST_PIXELS, terrain
from haptic_sim.geometry.textures import TextureError
from haptic_sim.inputs import DATA, shown
from haptic_sim.worlds.file_trees import Meshes, ModelFileError
from haptic_sim.worlds.packages import Packages
from haptic_sim.worlds.sdf_frames import Scope, number_in, pose_of, values
from haptic_sim.worlds.urdf import mesh_arrays, take_mesh
from haptic_sim.worlds.xml_files import at

BOTTOM = 0.1  # of the longer side of a height map: depth of the solid below its zero
CORNERS = 200  # of the polytope in an ellipsoid, and of those in a cone's base


class Shapes:
    """Makes the shapes of links.

    Args:
        packages: where meshes are.
        meshes: how they are taken, see `FileParameters.meshes`; None: there are no shapes.
        allowed: error that is wanted of what they are taken as [m], see `FileParameters.error`.

    Attributes:
        hulls: links with a mesh whose hull stands for pieces that are not convex.
        unread: what was left out, and how often.
    """

    def __init__(self, packages: Packages, meshes: Meshes | None, allowed: float | None = None):
        self._packages, self._meshes, self._allowed = packages, meshes, allowed
        self.hulls: list[str] = []
        self.unread: Counter[str] = Counter()

    def of(
        self, link: Element, name: str, scope: Scope, X_FL: pin.SE3
    ) -> Iterator[tuple[pin.SE3, coal.CollisionGeometry, Taken | None, str]]:
        """Poses of the shapes of a link in its axes, the shapes, and of a mesh what it collides as, and its name.

        `X_FL`: pose of the link in the file.
        """
        if self._meshes is None:
            return
        for collision in link.findall("collision"):
            pose = collision.find("pose")
            relative = "" if pose is None else pose.get("relative_to", "")
            X_LS = pose_of(pose)
            if relative:
                X_LS = X_FL.inverse() * scope.in_file() * scope.pose(relative) * X_LS
            geometry = collision.find("geometry")
            mesh = collision.find("geometry/mesh")
            if mesh is not None:
                taken, hull = take_mesh(self._load(mesh, name, scope), self._meshes, self._allowed, name, _uri(mesh))
                if hull and name not in self.hulls:
                    self.hulls.append(name)
                for shape in taken.geometry:
                    yield X_LS, shape, taken, _uri(mesh).rpartition("/")[2]
                continue
            heights = collision.find("geometry/heightmap")
            if heights is not None:
                taken = self._terrain(heights, name, scope)
                for shape in taken.geometry:
                    yield X_LS, shape, taken, _uri(heights).rpartition("/")[2]
                continue
            for shape in (*_primitive(geometry, name), *_extruded(geometry, name)):
                yield X_LS, shape, None, ""

    def filled(self, link: Element, density: float, name: str, scope: Scope, given: Element) -> pin.Inertia:
        """The inertia of the shapes of a link, filled uniformly."""
        total = pin.Inertia.Zero()
        for collision in link.findall("collision"):
            rho = number_in(collision, "density", density)
            X = pose_of(collision.find("pose"))
            geometry = collision.find("geometry")
            for shape in _primitive(geometry, name):
                volume = shape.computeVolume()
                centre = np.array(shape.computeCOM())
                moments = np.array(shape.computeMomentofInertiaRelatedToCOM())
                total += X.act(pin.Inertia(rho * volume, centre, rho * moments))
            for volume, centre, moments in self._masses(geometry, name, scope):
                total += X.act(pin.Inertia(rho * volume, centre, rho * moments))
        if not total.mass > 0.0:
            raise ModelFileError(f"{at(given)}link {name}: auto: it has no shapes with volume; give mass")
        return total

    def _masses(self, geometry: Element | None, name: str, scope: Scope) -> Iterator[Mass]:
        """Volumes, centroids and inertias for unit density of a mesh, and of polylines."""
        mesh = None if geometry is None else geometry.find("mesh")
        if mesh is not None:
            try:
                yield mesh_mass(merged(*mesh_arrays(self._load(mesh, name, scope))))
            except MeshError as error:
                raise ModelFileError(f"{at(mesh)}link {name}: auto: mesh {_uri(mesh)} {error}; give mass") from error
        elif geometry is not None and (heights := geometry.find("heightmap")) is not None:
            raise ModelFileError(f"{at(heights)}link {name}: auto: a height map has no volume; give mass")
        elif parts := _extruded(geometry, name):
            yield sum_of_masses([_mass(part) for part in parts])

    def _terrain(self, heights: Element, name: str, scope: Scope) -> Taken:
        """Collision geometry of a height map: a field, unless pieces or hulls are wanted of all meshes.

        As in Gazebo, black is at zero, the brightest pixel as high as its size, and the first row at the largest y.

        Raises:
            ModelFileError: not found, no image of this kind, or without size.
        """
        where, path = self._locate(heights, f"{at(heights)}link {name}: height map", scope)
        size = values(heights.find("size"), 3, (1.0, 1.0, 1.0))
        if not min(size) > 0.0:
            raise ModelFileError(f"{where}: size = {' '.join(f'{side:g}' for side in size)} m: must be > 0")
        try:
            pixels = read_pixels(path)
        except TextureError as error:
            raise ModelFileError(f"{where}: {error}") from error
        rows, columns = pixels.shape
        if rows != columns or not 4 <= pixels.size <= MOST_PIXELS:
            most = math.isqrt(MOST_PIXELS)
            reason = f"must be square, of 2 to {most} pixels a side; crop it or scale it"
            raise ModelFileError(f"{where}: has {columns} x {rows} pixels: {reason}")
        bottom = BOTTOM * max(size[:2])  # below what is drawn: what is pushed in is pushed out upwards
        vertices, faces = terrain(pixels * (size[2] / (pixels.max() or 1.0)), (size[0], size[1]), bottom)
        mesh = merged(vertices + np.array(values(heights.find("pos"), 3, (0.0, 0.0, 0.0))), faces)
        given = self._meshes
        try:
            how = "field" if given is None or given == "either" or given == "automatic" else given
            return take_of_file(mesh, how, self._allowed)
        except (MeshError, FieldError) as error:
            raise ModelFileError(f"{where} {error}{remedy(error, 'meshes')}") from error

    def _locate(self, element: Element, what: str, scope: Scope) -> tuple[str, Path]:
        """Name of a file of a shape in errors, and its path.

        Raises:
            ModelFileError: not found, or too large.
        """
        uri = _uri(element)
        path = self._packages.locate(uri) or (scope.folder / uri if "://" not in uri else None)
        where = f"{what} {shown(uri)}"
        if path is None or not uri or not path.is_file():
            raise ModelFileError(f"{where}: not found; {self._packages.searched()}")
        if path.stat().st_size > DATA:
            raise ModelFileError(f"{where}: has {path.stat().st_size} bytes: must have at most {DATA}")
        return where, path

    def _load(self, mesh: Element, name: str, scope: Scope) -> coal.BVHModelBase:
        """The triangles of a mesh [m].

        Raises:
            ModelFileError: not found, too large, or no mesh.
        """
        where, path = self._locate(mesh, f"{at(mesh)}link {name}: mesh", scope)
        try:
            check_file(path)
        except MeshError as error:
            raise ModelFileError(f"{where}: {error}") from error
        if mesh.find("submesh") is not None:
            self.unread["submesh"] += 1
        scale = np.array(values(mesh.find("scale"), 3, (1.0, 1.0, 1.0)))
        try:
            return coal.MeshLoader().load(str(path), scale)
        except (ValueError, RuntimeError) as error:  # how exceptions of C++ arrive
            raise ModelFileError(f"{where}: cannot be read as a mesh; export it again, as STL, OBJ or DAE") from error


def _uri(mesh: Element) -> str:
    return (mesh.findtext("uri") or "").strip()


def _mass(shape: coal.Convex) -> Mass:
    return (
        float(shape.computeVolume()),
        np.array(shape.computeCOM()),
        np.array(shape.computeMomentofInertiaRelatedToCOM()),
    )


def _extruded(geometry: Element | None, link: str) -> list[coal.Convex]:
    """Prisms that fill polylines, which are extruded along +z from 0 to their height; one within another is a hole."""
    lines = [] if geometry is None else geometry.findall("polyline")
    if not lines:
        return []
    where = f"{at(lines[0])}link {link}: <polyline>"
    height = number_in(lines[0], "height", 1.0)
    if not height > 0.0:
        raise ModelFileError(f"{where} height = {height:g} m: must be > 0")
    for line in lines[1:]:
        if line.find("height") is not None and number_in(line, "height", height) != height:
            other = number_in(line, "height", height)
            raise ModelFileError(f"{where} height = {height:g} m and {other:g} m: outlines of a shape have one height")
    outlines = [np.array([values(point, 2, (0.0, 0.0)) for point in line.findall("point")]) for line in lines]
    try:
        parts = convex_parts(*outlines)
    except PolygonError as error:
        raise ModelFileError(f"{where} {error}") from error
    ends = np.array([[0.0], [height]])
    return [convex_shape(np.hstack([np.tile(part, (2, 1)), np.repeat(ends, len(part), axis=0)])) for part in parts]


def _primitive(geometry: Element | None, link: str) -> list[coal.CollisionGeometry]:
    """The convex shapes of a geometry; of a mesh and of polylines, none."""
    shapes = [] if geometry is None else [child for child in geometry if ":" not in str(child.tag)]
    if not shapes or shapes[0].tag in ("empty", "mesh", "polyline", "heightmap"):
        return []
    shape = shapes[0]
    where = f"{at(shape)}link {link}: <{shape.tag}>"

    def size(key: str, default: float) -> float:
        value = number_in(shape, key, default)
        if not value > 0.0:
            raise ModelFileError(f"{where} {key} = {value:g} m: must be > 0")
        return value

    match shape.tag:
        case "box":
            sides = values(shape.find("size"), 3, (1.0, 1.0, 1.0))
            if not min(sides) > 0.0:
                raise ModelFileError(f"{where} size = {' '.join(f'{side:g}' for side in sides)} m: must be > 0")
            return [coal.Box(*sides)]
        case "sphere":
            return [coal.Sphere(size("radius", 1.0))]
        case "cylinder":
            return [coal.Cylinder(size("radius", 1.0), size("length", 1.0))]
        case "capsule":
            return [coal.Capsule(size("radius", 0.5), size("length", 1.0))]
        case "ellipsoid":
            radii = values(shape.find("radii"), 3, (1.0, 1.0, 1.0))
            if not min(radii) > 0.0:
                raise ModelFileError(f"{where} radii = {' '.join(f'{one:g}' for one in radii)} m: must be > 0")
            return [convex_shape(on_sphere(CORNERS) * np.array(radii))]
        case "cone":
            radius, half = size("radius", 0.5), 0.5 * size("length", 1.0)
            turn = 2.0 * np.pi * np.arange(64) / 64
            base = np.stack([radius * np.cos(turn), radius * np.sin(turn), np.full(64, -half)], axis=1)
            return [convex_shape(np.vstack([base, [[0.0, 0.0, half]]]))]
        case "plane":
            normal = np.array(values(shape.find("normal"), 3, (0.0, 0.0, 1.0)))
            if not np.linalg.norm(normal) > 0.0:
                raise ModelFileError(f"{where} normal = 0 0 0: must not be zero")
            return [coal.Halfspace(normal / np.linalg.norm(normal), 0.0)]
    known = "box, sphere, cylinder, capsule, cone, ellipsoid, plane, polyline, heightmap or mesh"
    raise ModelFileError(f"{where}: must be a {known}; make it a mesh, or take its collision out")


def material(link: Element) -> tuple[float | None, float | None]:
    """Restitution and friction of a link: the greatest of its shapes; None where none has one."""
    restitution = [
        values(found, 1, (0.0,))[0] for found in link.findall("collision/surface/bounce/restitution_coefficient")
    ]
    friction = [values(found, 1, (1.0,))[0] for found in link.findall("collision/surface/friction/ode/mu")]
    return (
        min(1.0, max(restitution, default=0.0)) if restitution else None,
        max(0.0, *friction) if friction else None,
    )
