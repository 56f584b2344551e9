"""Collision geometry of a mesh: itself where it is convex, its convex pieces, a decomposition, its hull, or a field.

`take` chooses it. trimesh and scipy.spatial take a third of a second to import, so they are imported only for worlds
with meshes.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import coal
import numpy as np

from haptic_sim.geometry import decomposition, soundness
from haptic_sim.geometry.convex import MOST_CORNERS, convex_shape, usable_corners
from haptic_sim.geometry.fields.field import (
    COARSEST,
    PARTS,
    SolidField,
    arrays_of,
    build_field,
    field_of,
    triangle_mesh,
)
from haptic_sim.geometry.fields.field import FORMAT as FIELD_FORMAT
from haptic_sim.geometry.fields.triangles import close_holes
from haptic_sim.geometry.mesh_files import MeshError, check_count
from haptic_sim.kept import digest_of, kept

if TYPE_CHECKING:
    import trimesh
    from scipy.spatial import ConvexHull

CONVEX_TOLERANCE = 1e-4  # of the diagonal: how far the surface may lie inside the hull
MOST_TRIANGLES = 50_000  # to be looked at for convexity, which takes some seconds then
FLAT = 1e-9  # of the cube of the diagonal: less volume is none

LEAST_SAMPLES = 10  # least number of the MASS_SAMPLES inside a mesh that has a volume
MASS_SAMPLES = 200_000  # in the box of a mesh whose triangles intersect: overlaps are found to some 0.1 % of its volume
COARSE = 0.01  # of the diagonal: of convex pieces with more error than this it is said that a field is finer
LARGE = 10.0  # [m]; of a mesh that is larger it is asked whether it is in millimetres

As = Literal["automatic", "hull", "pieces", "field"]
"""Kinds of collision geometry of a mesh: see `take`."""
Points = Literal["all", "sharp"]
"""Points of a mesh that collides by a field: everywhere, or at sharp features only; see `take`."""
Mass = tuple[float, np.ndarray, np.ndarray]
"""Volume [m^3], centroid (3,) [m] and inertia about it (3, 3) for unit density [m^5]."""


@dataclass(frozen=True)
class Taken:
    """Collision geometry of a mesh.

    Attributes:
        chosen: itself, connected pieces, hull, pieces or field.
        corners: of each convex piece [m], (C, 3); of a field none.
        mass: volume, centroid and inertia.
        vertices, faces: the mesh itself [m], (V, 3) and (F, 3), turned the right way.
        error: largest distance of the surface of the hull or the pieces from that of the mesh, either way, or of the
            points of the field's shell from where its distance is zero [m]; None: less than CONVEX_TOLERANCE of the
            diagonal.
        seconds: that decomposition, field or error of the hull took; 0: none was needed.
        kept: whether it was kept from before.
        notes: what was changed of the mesh, and questions about it.
        field: signed distances and points; None: it collides by convex shapes.
    """

    chosen: Literal["itself", "connected pieces", "hull", "pieces", "field"]
    corners: tuple[np.ndarray, ...]
    mass: Mass
    vertices: np.ndarray
    faces: np.ndarray
    error: float | None = None
    seconds: float = 0.0
    kept: bool = False
    notes: tuple[str, ...] = ()
    field: SolidField | None = None

    @property
    def geometry(self) -> tuple[coal.CollisionGeometry, ...]:
        """Collision geometries of the mesh: convex ones, or its triangles where it has a field."""
        if self.field is not None:
            return (triangle_mesh(self.vertices, self.faces),)
        return tuple(map(convex_shape, self.corners))

    @property
    def question(self) -> str:
        """Question about the size of the mesh; empty where it may be in metres."""
        return "".join(_questions(float(np.ptp(self.vertices, axis=0).max())))

    @property
    def summary(self) -> str:
        """Summary of the choice in one line; empty where the mesh is its own shape."""
        found = []
        if self.field is not None:
            where = "" if self.field.everywhere else " on sharp parts"
            found.append(f"signed distance field of {len(self.field.shell.points)} points{where}")
        elif self.chosen != "itself":
            count = len(self.corners)
            found.append("its hull" if self.chosen == "hull" else f"{count} convex piece{'s' * (count > 1)}")
        if self.error is not None:
            found.append(f"largest error {self.error:.2g} m")
        if self.seconds:
            found.append("kept from before" if self.kept else f"{self.seconds:.1f} s, kept for later")
        return "; ".join(filter(None, [", ".join(found), *self.notes]))


def remedy(error: Exception, key: str = "as") -> str:
    """Remedy by a key of the user's: how the mesh that was refused can collide; empty where nothing would do."""
    if found := re.search(r"has a hole of (\S+) m", str(error)):
        bound = f" set largest_hole: {found[1]} to have it closed by a flat fan," if key == "as" else ""
        return f"; close it,{bound} or set {key}: hull to take its convex hull"
    if re.search(r"piece \d+ of \d+ has no volume", str(error)):
        return f"; take it out, or set {key}: hull or {key}: field"
    if re.search("its hull is", str(error)):
        return f", or set {key}: pieces or {key}: field"
    if re.search("face inwards", str(error)):
        return f"; turn them outwards, or set {key}: hull to take its convex hull"
    if re.search("one side only|not convex|must have at most .* triangles|cannot be met", str(error)):
        return f"; set {key}: hull to take its convex hull"
    if re.search("not closed|shell", str(error)):
        return f"; set {key}: field, which needs no closed surface, or {key}: hull to take its convex hull"
    return ""


def take(
    mesh: trimesh.Trimesh,
    how: As | Literal["connected"] = "automatic",
    error: float | None = None,
    points: Points = "all",
    largest_hole: float | None = None,
) -> Taken:
    """Collision geometry of a mesh.

    Args:
        mesh: with merged vertices.
        how: automatic: itself where it is convex, its connected pieces where these are, else a field, as also where it
            has more than MOST_TRIANGLES triangles, or only winding numbers say what is solid; hull: its convex hull,
            whatever it is like; pieces: as automatic, but a decomposition instead of a field; connected: as automatic,
            but refused instead of a field; field: a signed distance field, whatever it is like.
        error: that is wanted [m]; None: whatever the hull has, that of the coarsest pieces, or 1/300 of the diagonal
            for a field.
        points: of a field: all over the surface, or sharp: only where those of another solid do not find all contacts
            (`fields.field.standing_out`).
        largest_hole: area of the largest hole that a field closes [m^2]; None: that of a circle of a tenth of the
            diagonal.

    Raises:
        MeshError: flat, not closed, without volume, too large; or the error cannot be met.
        FieldError: the field would be too large.
    """
    _check_thickness(mesh.vertices)
    if how == "field" or (how == "automatic" and len(mesh.faces) > MOST_TRIANGLES):
        return _with_field(mesh, error, points, largest_hole)
    if points != "all":
        raise MeshError(f"points: {points}: only a field has points; set as: field")
    if how != "automatic" and largest_hole is not None:
        raise MeshError(f"largest_hole: {largest_hole:g}: only a field closes holes of a given area; set as: field")
    if how == "hull":
        return _with_hull(mesh, error)
    if len(mesh.faces) > MOST_TRIANGLES:
        raise MeshError(f"has {len(mesh.faces)} triangles: must have at most {MOST_TRIANGLES} triangles; simplify it")
    try:
        sound, notes = soundness.mended(mesh)
    except soundness.UnclearError as unclear:
        if how != "automatic":
            raise
        found = _with_field(mesh, error, points, largest_hole)
        return replace(found, notes=(f"winding numbers say what is solid, as it {unclear}", *found.notes))
    except soundness.HoleError:
        if how != "automatic" or largest_hole is None:
            raise
        return _with_field(mesh, error, points, largest_hole)
    notes = (*notes, *_questions(float(np.ptp(sound.vertices, axis=0).max())))
    try:
        pieces = convex_pieces(sound)
    except NotConvexError:
        if how == "connected":
            raise
        if how == "automatic":
            return _with_field(mesh, error, points, largest_hole)
        found = _decomposed(sound, error)
        return replace(found, notes=(*notes, *found.notes))
    mass = sum_of_masses([hull_mass(piece) for piece in pieces])
    crossing: tuple[str, ...] = ()
    if len(pieces) > 1:
        mass, crossing = _of_inside(sound, mass)
    return Taken(
        "itself" if len(pieces) == 1 else "connected pieces",
        tuple(pieces),
        mass,
        *_arrays(sound),
        notes=(*notes, *crossing),
    )


def take_of_file(mesh: trimesh.Trimesh, how: As | Literal["connected"], error: float | None) -> Taken:
    """Collision geometry of one of the meshes of a model file, see `take`; they have one `error` in common [m].

    That of a field is at most COARSEST of the diagonal, which an error for the large meshes of the file can exceed.

    Raises:
        MeshError, FieldError: as `take`.
    """
    if error is not None and how in ("field", "automatic"):  # of which only a field has an error
        error = min(error, COARSEST * _diagonal(mesh.vertices))
    return take(mesh, how, error)


def _check_thickness(vertices: np.ndarray) -> None:
    """Refuse points (n, 3) [m] in a plane or on a line.

    Raises:
        MeshError: a box around them, along their principal axes, has no volume.
    """
    centred = vertices - vertices.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    if not np.prod(np.ptp(centred @ axes, axis=0)) > FLAT * _diagonal(vertices) ** 3:
        raise MeshError("is flat, without volume: give it a thickness, or take a shape of type box in its place")


class NotConvexError(MeshError):
    """A closed mesh that is not convex, or has a piece that is not."""


def _arrays(mesh: trimesh.Trimesh) -> tuple[np.ndarray, np.ndarray]:
    return np.array(mesh.vertices, float), np.array(mesh.faces, np.int64)


def _questions(size: float) -> tuple[str, ...]:
    if not size > LARGE:
        return ()
    return (f"it is {size:.3g} m long: if it is in millimetres, set scale: [0.001, 0.001, 0.001]",)


def _with_hull(mesh: trimesh.Trimesh, error: float | None) -> Taken:
    """A mesh as its convex hull, whose error is kept."""
    check_count(len(mesh.faces))
    corners = mesh.vertices[_hull(mesh.vertices).vertices]
    vertices, faces = _arrays(mesh)

    def build() -> Mapping[str, np.ndarray]:
        start = time.perf_counter()
        found = decomposition.surface_error(vertices, faces, (usable_corners(corners),))
        return {"error": np.array(found), "seconds": np.array(time.perf_counter() - start)}

    measures = MOST_CORNERS, decomposition.SAMPLES, decomposition.FORMAT
    found, was_kept = kept("hulls", digest_of(vertices, faces, measures), build)
    away, seconds = float(found["error"]), float(found["seconds"])
    if error is not None and away > error:
        raise MeshError(
            f"its hull is up to {away:.2g} m away from it: must be at most error = {error:g} m; ask for more"
        )
    hull = Taken(
        "hull", (corners,), hull_mass(corners), vertices, faces, notes=_questions(float(np.ptp(corners, axis=0).max()))
    )
    if away <= CONVEX_TOLERANCE * _diagonal(corners):
        return hull
    return replace(hull, error=away, seconds=seconds, kept=was_kept)


def _decomposed(mesh: trimesh.Trimesh, error: float | None) -> Taken:
    """A closed mesh as the pieces of its decomposition, which are kept."""
    vertices, faces = _arrays(mesh)

    def build() -> Mapping[str, np.ndarray]:
        start = time.perf_counter()
        found = decomposition.decompose(vertices, faces, error)
        pieces = [usable_corners(piece) for piece in found.pieces]
        return {
            "corners": np.concatenate(pieces),
            "counts": np.array([len(piece) for piece in pieces]),
            "error": np.array(found.error),
            "seconds": np.array(time.perf_counter() - start),
        }

    found, was_kept = kept("pieces", digest_of(vertices, faces, error, decomposition.version()), build)
    pieces = np.split(found["corners"], np.cumsum(found["counts"])[:-1])
    notes: tuple[str, ...] = ()
    if (share := float(found["error"]) / _diagonal(vertices)) > COARSE:
        notes = (f"this is {100.0 * share:.1f} % of its diagonal: a field is finer, and so are pieces with an error",)
    mass, crossing = _of_inside(mesh, _mass_of(mesh))
    return Taken(
        "pieces",
        tuple(pieces),
        mass,
        vertices,
        faces,
        float(found["error"]),
        float(found["seconds"]),
        was_kept,
        (*notes, *crossing),
    )


def _with_field(mesh: trimesh.Trimesh, error: float | None, points: Points, largest_hole: float | None = None) -> Taken:
    """A mesh as its signed distance field, which is kept; its small holes are closed."""
    check_count(len(mesh.faces))
    holes = soundness.holes_of(mesh, largest_hole)
    with np.errstate(divide="ignore", invalid="ignore"):  # trimesh divides by a volume of 0, which `mesh_mass` refuses
        mesh, turned = _turned(mesh)
        mass = mesh_mass(mesh)
    crossing: tuple[str, ...] = ()
    if mesh.is_watertight and len(mesh.faces) <= MOST_TRIANGLES:
        mass, crossing = _of_inside(mesh, mass)
    vertices, faces = _arrays(mesh)
    accuracy = _diagonal(vertices) / PARTS if error is None else error

    def build() -> Mapping[str, np.ndarray]:
        start = time.perf_counter()
        found = arrays_of(build_field(vertices, faces, accuracy, everywhere=points == "all"))
        return {**found, "seconds": np.array(time.perf_counter() - start)}

    found, was_kept = kept("fields", digest_of(vertices, faces, accuracy, points, FIELD_FORMAT), build)
    field = field_of(found)
    notes = (*turned, *holes, *crossing, *_questions(float(np.ptp(vertices, axis=0).max())))
    return Taken("field", (), mass, vertices, faces, field.error, float(found["seconds"]), was_kept, notes, field)


def _turned(mesh: trimesh.Trimesh) -> tuple[trimesh.Trimesh, tuple[str, ...]]:
    """A mesh, its triangles turned outwards if it is closed, and what was changed; of an open one this is not known."""
    if not mesh.is_watertight or (mesh.is_winding_consistent and mesh.volume > 0.0):
        return mesh, ()
    with contextlib.suppress(MeshError):  # shells of which it is not clear what is solid: winding numbers tell
        return soundness.mended(mesh)
    return mesh, ()


def _mass_of(mesh: trimesh.Trimesh) -> Mass:
    """Volume [m^3], centre of mass [m] and inertia for unit density [m^5] of a closed mesh."""
    properties = mesh.mass_properties
    return float(properties.volume), np.array(properties.center_mass), np.array(properties.inertia)


def mass_of_inside(mesh: trimesh.Trimesh, mass: Mass) -> tuple[Mass, float]:
    """Mass of what a closed mesh encloses, where its triangles intersect, and the change of the volume as a part of it.

    Integrals over triangles count each point as often as the surface goes around it, by its winding number w (Jacobson
    et al., Robust inside-outside segmentation using generalized winding numbers, 2013): twice where two solids overlap,
    -1 times where a part is inside out. Inside is where w > 1/2, as for fields. The difference is summed up over one
    random point in each cell of a grid, so its error is that of the volume for which w is not 0 or 1: triangles that
    cross by rounding leave the integrals as they are.

    Args:
        mesh: closed, turned outwards.
        mass: its volume, centroid and inertia by integrals over triangles.
    """
    points, cell, w = _winding_numbers(mesh)
    extra = np.rint(w) - (w > 0.5)
    if not extra.any():
        return mass, 0.0
    points, extra = points[extra != 0.0], extra[extra != 0.0] * cell
    volume, centre, inertia = mass
    second = 0.5 * np.trace(inertia) * np.eye(3) - inertia + volume * np.outer(centre, centre)
    inside = volume - float(extra.sum())
    at = (volume * centre - extra @ points) / inside
    second = second - (extra[:, None] * points).T @ points - inside * np.outer(at, at)
    return (inside, at, np.trace(second) * np.eye(3) - second), inside / volume - 1.0


def _winding_numbers(mesh: trimesh.Trimesh) -> tuple[np.ndarray, float, np.ndarray]:
    """A random point in each cell of a grid over the box of a mesh [m], the volume of a cell [m^3], winding numbers."""
    import igl  # takes a while to import, and is needed only where triangles intersect, or are not closed

    low, high = np.array(mesh.bounds, float)
    cell = (float(np.prod(high - low)) / MASS_SAMPLES) ** (1.0 / 3.0)
    count = np.ceil((high - low) / cell).astype(int)
    grid = np.stack(np.meshgrid(*map(np.arange, count), indexing="ij"), -1).reshape(-1, 3)
    points = low + (grid + np.random.default_rng(0).random(grid.shape)) * ((high - low) / count)
    vertices, faces = _arrays(mesh)
    w = igl.fast_winding_number(np.ascontiguousarray(vertices), np.ascontiguousarray(faces), points)
    return points, float(np.prod((high - low) / count)), w


def _sampled_mass(mesh: trimesh.Trimesh) -> Mass:
    """Mass of what lies inside a mesh that is not closed, by winding numbers above 1/2 alone.

    An integral over its triangles would depend on the origin.

    Raises:
        MeshError: nothing lies inside.
    """
    vertices, faces = _arrays(mesh)

    def build() -> Mapping[str, np.ndarray]:
        points, cell, w = _winding_numbers(mesh)
        inside = points[w > 0.5]
        if len(inside) < LEAST_SAMPLES:
            raise MeshError("has no volume, or its triangles face inwards")
        centre = inside.mean(axis=0)
        second = cell * (inside - centre).T @ (inside - centre)
        return {
            "volume": np.array(cell * len(inside)),
            "centre": centre,
            "inertia": np.trace(second) * np.eye(3) - second,
        }

    found, _ = kept("insides", digest_of(vertices, faces, MASS_SAMPLES), build)
    return float(found["volume"]), found["centre"], found["inertia"]


def _of_inside(mesh: trimesh.Trimesh, mass: Mass) -> tuple[Mass, tuple[str, ...]]:
    """Mass of a closed mesh, of which triangles may intersect or shells lie in others, and what is said of it."""
    vertices, faces = _arrays(mesh)

    def build() -> Mapping[str, np.ndarray]:
        pairs = soundness.self_intersections(vertices, faces)
        several = pairs > 0 or len(soundness.shells(mesh)) > 1
        (volume, centre, inertia), changed = mass_of_inside(mesh, mass) if several else (mass, 0.0)
        found = {"pairs": pairs, "changed": changed, "volume": volume, "centre": centre, "inertia": inertia}
        return {key: np.array(value) for key, value in found.items()}

    found, _ = kept("insides", digest_of(vertices, faces, *mass, MASS_SAMPLES), build)
    pairs, changed = int(found["pairs"]), float(found["changed"])
    mass = float(found["volume"]), found["centre"], found["inertia"]
    what = f"{pairs} pair{'s' * (pairs != 1)} of its triangles intersect{'s' * (pairs == 1)}"
    what = what if pairs else "a part of it lies within another one"
    if changed == 0.0:
        return mass, (f"{what}, by too little to change its mass",) if pairs else ()
    more = f"what it encloses more than once or inside out changes its volume by {100.0 * changed:+.2g} %"
    return mass, (f"{what}: {more}",)


def sum_of_masses(parts: list[Mass]) -> Mass:
    """Volume, centroid and inertia of several together; what overlaps counts twice."""
    if len(parts) == 1:
        return parts[0]
    volume = sum(part[0] for part in parts)
    centre = sum((part[0] * part[1] for part in parts), np.zeros(3)) / volume
    total = np.zeros((3, 3))
    for mass, at, inertia in parts:
        d = at - centre
        total += inertia + mass * (d @ d * np.eye(3) - np.outer(d, d))
    return volume, centre, total


def convex_pieces(mesh: trimesh.Trimesh) -> list[np.ndarray]:
    """Vertices [m] of each connected piece of a closed mesh, which must be convex.

    A piece counts as convex if its surface lies on its hull to within CONVEX_TOLERANCE of its diagonal.

    Raises:
        NotConvexError: one is not convex.
        MeshError: one has no volume.
    """
    pieces = soundness.shells(mesh)
    corners = []
    for i, piece in enumerate(pieces):
        which = f"piece {i} of {len(pieces)} " if len(pieces) > 1 else ""
        try:
            hull = _hull(piece.vertices)
        except MeshError as error:
            raise MeshError(f"{which}{error}") from error
        dent = _dent(hull, piece.triangles_center)
        if dent > CONVEX_TOLERANCE * _diagonal(piece.vertices):
            raise NotConvexError(f"{which}is not convex: its surface lies up to {dent:.3g} m inside its hull")
        if soundness.volume(piece) < 0.0:
            raise NotConvexError(f"{which}is not convex: it is a cavity")
        corners.append(piece.vertices[hull.vertices])
    return corners


def _diagonal(vertices: np.ndarray) -> float:
    return float(np.linalg.norm(np.ptp(vertices, axis=0)))


def _hull(vertices: np.ndarray) -> ConvexHull:
    """The hull of points in general position.

    Raises:
        MeshError: they are flat.
    """
    from scipy.spatial import ConvexHull, QhullError

    try:
        hull = ConvexHull(vertices)
    except (QhullError, ValueError) as error:  # flat, or too few
        raise MeshError("has no volume") from error
    if not hull.volume > FLAT * _diagonal(vertices) ** 3:
        raise MeshError("has no volume")
    return hull


def _dent(hull: ConvexHull, centroids: np.ndarray) -> float:
    """Largest depth [m] inside the hull of a surface with triangles around these centroids.

    Depth under the hull is the least of the depths under its planes: concave, and nowhere negative. Such a function is
    on a triangle nowhere more than three times what it is at the centroid, so looking there is enough.
    """
    normals, offsets = hull.equations[:, :3], hull.equations[:, 3]
    deepest = 0.0
    for some in np.array_split(centroids, 1 + len(centroids) * len(normals) // 10_000_000):
        if len(some):
            deepest = max(deepest, float(np.min(-(some @ normals.T + offsets), axis=1).max()))
    return 3.0 * deepest


def mesh_mass(mesh: trimesh.Trimesh) -> Mass:
    """Volume [m^3], centroid [m] and inertia about it for unit density [m^5] of a mesh, its holes closed.

    Raises:
        MeshError: it has no volume, or is inside out.
    """
    import trimesh

    vertices, triangles, _ = close_holes(mesh.vertices, mesh.faces)
    whole = trimesh.Trimesh(vertices, triangles, process=False)
    if soundness.open_edges(triangles):
        return _sampled_mass(whole)
    properties = whole.mass_properties
    if not properties.volume > FLAT * _diagonal(mesh.vertices) ** 3:
        raise MeshError("has no volume, or its triangles face inwards")
    if not np.linalg.eigvalsh(properties.inertia)[0] > 0.0:
        raise MeshError("has triangles that face inwards and others that face outwards: its inertia is not positive")
    return float(properties.volume), np.array(properties.center_mass), np.array(properties.inertia)


def hull_mass(vertices: np.ndarray) -> Mass:
    """Volume [m^3], centroid [m] and inertia about it for unit density [m^5] of the convex hull of points."""
    import trimesh

    properties = trimesh.convex.convex_hull(vertices).mass_properties
    return float(properties.volume), np.array(properties.center_mass), np.array(properties.inertia)
