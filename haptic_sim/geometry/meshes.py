"""Meshes: read, checked, and split into convex pieces, because collision detection takes only convex shapes.

trimesh and scipy.spatial take a third of a second to import, so they are imported only for worlds with meshes.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import coal
import numpy as np

from haptic_sim.errors import HapticsError
from haptic_sim.geometry.fields.triangles import close_holes
from haptic_sim.inputs import DATA

if TYPE_CHECKING:
    import trimesh
    from scipy.spatial import ConvexHull

CONVEX_TOLERANCE = 1e-4  # of the diagonal: how far the surface may lie inside the hull
MOST_TRIANGLES = 50_000  # to be looked at for convexity, which takes some seconds then
MOST_TRIANGLES_OF_HULL = 2_000_000
FLAT = 1e-9  # of the cube of the diagonal: less volume is none

MOST_CORNERS = 500  # of a convex shape: contacts look at all of them in each step
MOST_NEIGHBOURS = 200  # of a corner; coal counts to 255

Taken = Literal["convex", "pieces", "hull"]
"""A mesh as a whole, which must be convex; as connected pieces that must be; or its hull, whatever it is like."""


class MeshError(HapticsError, ValueError):
    """A mesh that cannot be used; the text gives the reason and goes after the name of the mesh."""


def hull_would_do(error: Exception) -> bool:
    """Whether a mesh that was refused has a hull that would not be."""
    return re.search("not closed|not convex|must have at most .* triangles", str(error)) is not None


def read_mesh(path: Path, scale: tuple[float, float, float] = (1.0, 1.0, 1.0)) -> trimesh.Trimesh:
    """A triangle mesh, its equal vertices merged.

    Args:
        path: STL, OBJ, PLY, OFF or what else trimesh reads.
        scale: factors along x, y and z; to metres.

    Raises:
        MeshError: missing, not a mesh, empty or not finite.
    """
    import trimesh

    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise MeshError(f"cannot be read: {reason}") from error
    if not stat.S_ISREG(found.st_mode):
        raise MeshError("cannot be read: must be a file")
    if found.st_size > DATA:
        raise MeshError(f"has {found.st_size} bytes: must have at most {DATA}")
    try:
        mesh = trimesh.load_mesh(path, process=False)
    except Exception as error:  # the parsers of trimesh's formats raise whatever they stumble over
        raise MeshError(f"cannot be read as a mesh: {str(error).splitlines()[0] if str(error) else error!r}") from error
    if not isinstance(mesh, trimesh.Trimesh) or len(mesh.faces) == 0:
        raise MeshError("cannot be read as a mesh: it has no triangles")
    return merged(mesh.vertices * np.asarray(scale), mesh.faces)


def merged(vertices: np.ndarray, faces: np.ndarray) -> trimesh.Trimesh:
    """A mesh from vertices (n, 3) [m] and triangles (m, 3), equal vertices merged.

    Raises:
        MeshError: not finite.
    """
    import trimesh

    if not np.all(np.isfinite(vertices)):
        raise MeshError("has vertices that are not finite")
    mesh = trimesh.Trimesh(vertices, faces, process=False)
    mesh.merge_vertices(merge_tex=True, merge_norm=True)
    mesh.update_faces(mesh.nondegenerate_faces(height=0.0))
    return mesh


def check_size(triangles: int, taken: Taken) -> None:
    """Refuse a mesh that would take minutes.

    Raises:
        MeshError: it has too many triangles.
    """
    most = MOST_TRIANGLES_OF_HULL if taken == "hull" else MOST_TRIANGLES
    if triangles > most:
        raise MeshError(f"has {triangles} triangles: must have at most {most} triangles")


def convex_pieces(mesh: trimesh.Trimesh, taken: Taken) -> list[np.ndarray]:
    """Vertices [m] of each convex piece of a mesh.

    The mesh must be closed, unless its hull is asked for. Pieces are what hangs together by edges. A piece counts as
    convex if its surface lies on its hull to within CONVEX_TOLERANCE of its diagonal.

    Raises:
        MeshError: not closed, without volume, or not convex as `taken` demands.
    """
    check_size(len(mesh.faces), taken)
    if taken == "hull":
        return [mesh.vertices[_hull(mesh.vertices).vertices]]
    edges, uses = np.unique(mesh.edges_sorted, axis=0, return_counts=True)
    wrong = int(np.count_nonzero(uses != 2))
    if wrong or len(edges) == 0:
        raise MeshError(f"is not closed: {wrong} of its {len(edges)} edges do not have a triangle on both sides")
    pieces = mesh.split(only_watertight=False)
    if taken == "convex" and len(pieces) > 1:
        raise MeshError(
            f"is not convex: it has {len(pieces)} separate pieces; set convex: false to take each by itself"
        )
    corners = []
    for i, piece in enumerate(pieces):
        which = f"piece {i} of {len(pieces)} " if len(pieces) > 1 else ""
        try:
            hull = _hull(piece.vertices)
        except MeshError as error:
            raise MeshError(f"{which}{error}") from error
        dent = _dent(hull, piece.triangles_center)
        if dent > CONVEX_TOLERANCE * _diagonal(piece.vertices):
            raise MeshError(f"{which}is not convex: its surface lies up to {dent:.3g} m inside its hull")
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
    """How deep the surface with triangles around these centroids lies inside the hull at most [m].

    Depth under the hull is the least of the depths under its planes: concave, and nowhere negative. Such a function is
    on a triangle nowhere more than three times what it is at the centroid, so looking there is enough.
    """
    normals, offsets = hull.equations[:, :3], hull.equations[:, 3]
    deepest = 0.0
    for some in np.array_split(centroids, 1 + len(centroids) * len(normals) // 10_000_000):
        if len(some):
            deepest = max(deepest, float(np.min(-(some @ normals.T + offsets), axis=1).max()))
    return 3.0 * deepest


def convex_shape(vertices: np.ndarray) -> coal.Convex:
    """The convex hull of points [m] as a shape for collision detection.

    It has at most MOST_CORNERS corners, those that are the farthest in directions spread evenly. It has fewer where a
    corner would have more neighbours than coal can count.
    """
    corners = fewer_corners(np.asarray(vertices, float), MOST_CORNERS)
    try:
        return _convex(corners)
    except (RuntimeError, ValueError) as error:
        if "Too many neighbors" not in str(error):
            raise
        return _convex(fewer_corners(corners, MOST_NEIGHBOURS))


def _convex(corners: np.ndarray) -> coal.Convex:
    points = coal.StdVec_Vec3s()
    for corner in corners:
        points.append(corner)
    return coal.Convex.convexHull(points, True, "Qt")  # Qt: triangles, also of faces with more corners


def fewer_corners(vertices: np.ndarray, most: int) -> np.ndarray:
    """At most so many of the points (n, 3): all, or the farthest ones in directions spread over their bounding box."""
    if len(vertices) <= most:
        return vertices
    extent = np.maximum(np.ptp(vertices, axis=0), 1e-12)
    heights = (vertices / extent) @ on_sphere(most).T
    return vertices[np.unique(np.argmax(heights, axis=0))]


def on_sphere(count: int) -> np.ndarray:
    """Points spread evenly over the unit sphere (count, 3), along a spiral."""
    k = np.arange(count) + 0.5
    height, turn = 1.0 - 2.0 * k / count, np.pi * (1.0 + np.sqrt(5.0)) * k
    radius = np.sqrt(1.0 - height**2)
    return np.stack([radius * np.cos(turn), radius * np.sin(turn), height], axis=1)


def mesh_mass(mesh: trimesh.Trimesh) -> tuple[float, np.ndarray, np.ndarray]:
    """Volume [m^3], centroid [m] and inertia about it for unit density [m^5] of a mesh, its holes closed.

    Raises:
        MeshError: it has no volume, or is inside out.
    """
    import trimesh

    vertices, triangles, _ = close_holes(mesh.vertices, mesh.faces)
    properties = trimesh.Trimesh(vertices, triangles, process=False).mass_properties
    if not properties.volume > FLAT * _diagonal(mesh.vertices) ** 3:
        raise MeshError("has no volume, or its triangles face inwards")
    return float(properties.volume), np.array(properties.center_mass), np.array(properties.inertia)


def hull_mass(vertices: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Volume [m^3], centroid [m] and inertia about it for unit density [m^5] of the convex hull of points."""
    import trimesh

    properties = trimesh.convex.convex_hull(vertices).mass_properties
    return float(properties.volume), np.array(properties.center_mass), np.array(properties.inertia)
