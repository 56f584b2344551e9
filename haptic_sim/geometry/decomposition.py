"""Convex decomposition of closed meshes by CoACD (Wei et al. 2022), with the error of the result.

CoACD runs in a process of its own, `python -m haptic_sim.geometry.decomposition`: it is a library of C++, which ends
the process for what it does not expect. The same mesh always gives the same pieces. The error is measured: the largest
distance between the surface of all pieces together and that of the mesh, either way.
"""

from __future__ import annotations

import contextlib
import io
import os
import resource
import signal
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import coal
import numpy as np

from haptic_sim.geometry.convex import convex_shape
from haptic_sim.geometry.mesh_files import MeshError
from haptic_sim.geometry.sampling import on_sphere, spread
from haptic_sim.geometry.soundness import triangles_of

CONCAVITIES = (0.05, 0.02, 0.01)
"""Bounds of the concavity of a piece, in CoACD's unit, that are tried one after the other until the error is met."""
SAMPLES = 8000  # points on each surface, beside the corners, where the error is measured
SEAM = 1e-3  # of the diagonal: surfaces of pieces that are closer face each other within the shape
PATIENCE = 900  # [s] of a core that one decomposition may take
_DIRECTIONS = np.concatenate([on_sphere(200), np.eye(3), -np.eye(3)])  # of rays out of the pieces
_SETTINGS = {"mcts_nodes": 6, "mcts_iterations": 20, "seed": 0}  # twice as fast as its own, and as good
FORMAT = 1  # of what is kept


@dataclass(frozen=True)
class Decomposition:
    """Convex pieces of a mesh.

    Attributes:
        pieces: corners of each [m], (C, 3).
        error: largest distance of their surface from that of the mesh, either way [m].
    """

    pieces: tuple[np.ndarray, ...]
    error: float


def version() -> tuple[str, int, tuple[float, ...], int]:
    """Version of everything that determines a decomposition beside the mesh."""
    try:
        return metadata.version("coacd"), FORMAT, CONCAVITIES, SAMPLES
    except metadata.PackageNotFoundError as error:
        raise MeshError(
            "is not convex, and CoACD, which takes such meshes apart, is not installed; run pip install coacd"
        ) from error


def decompose(vertices: np.ndarray, faces: np.ndarray, error: float | None) -> Decomposition:
    """Convex pieces of a closed mesh: the coarsest that meet the error.

    Args:
        vertices: [m], (V, 3).
        faces: triangles (F, 3).
        error: that is wanted [m]; None: the coarsest.

    Raises:
        MeshError: CoACD fails, takes too long, or no decomposition meets the error.
    """
    tried = []
    for concavity in CONCAVITIES if error is not None else CONCAVITIES[:1]:
        pieces = _run(vertices, faces, concavity)
        tried.append(Decomposition(pieces, surface_error(vertices, faces, pieces)))
        if error is None or tried[-1].error <= error:
            return tried[-1]
    best = min(tried, key=lambda one: one.error)
    raise MeshError(
        f"error = {error:g} m cannot be met: {len(best.pieces)} pieces reach {best.error:.2g} m; ask for more, or "
        "leave it out"
    )


def surface_error(vertices: np.ndarray, faces: np.ndarray, pieces: tuple[np.ndarray, ...]) -> float:
    """Largest distance between the surfaces of a mesh and of the union of convex pieces, either way [m].

    It is measured at SAMPLES points spread over each surface and at all corners, so that it may be exceeded between
    them by the distance of two points. Seams of pieces are no part of their surface. Points that are nearer by another
    bound than the largest distance so far are not measured.
    """
    from scipy.spatial import ConvexHull, cKDTree

    hulls = [ConvexHull(piece) for piece in pieces]
    planes = [hull.equations for hull in hulls]
    areas = np.array([hull.area for hull in hulls])
    counts = np.ceil(SAMPLES * areas / areas.sum()).astype(int)
    scale = float(np.linalg.norm(np.ptp(vertices, axis=0)))
    surface = []
    for i, (hull, count) in enumerate(zip(hulls, counts, strict=True)):
        points = np.concatenate([spread(hull.points, hull.simplices, count)[0], hull.points[hull.vertices]])
        for k, one in enumerate(planes):
            if k != i:
                points = points[_height(points, one) > SEAM * scale]
        surface.append(points)
    union = np.concatenate(surface)
    points, triangles = spread(vertices, faces, SAMPLES)
    a, b, c = np.moveaxis(vertices[faces], 1, 0)
    normals, of_corners = np.cross(b - a, c - a), np.zeros((len(vertices), 3))
    for k in range(3):
        np.add.at(of_corners, faces[:, k], normals)
    used = np.unique(faces)
    points = np.concatenate([points, vertices[used]])
    tree, point, largest = triangles_of(vertices, faces), coal.Sphere(1e-9 * scale), 0.0
    bounds, _ = cKDTree(points).query(union)
    for i in np.argsort(-bounds):
        if bounds[i] <= largest:
            break
        largest = max(largest, _distance(tree, point, union[i]))
    normals = np.concatenate([normals[triangles], of_corners[used]])
    normals = normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)
    heights = np.stack([_height(points, one) for one in planes])
    within = heights.min(axis=0) < 0.0
    found, _ = cKDTree(union).query(points)
    if len(planes) == 1:  # the distance is that of the nearest plane
        found[within] = -heights[0, within]
        largest = max(largest, float(found[within].max(initial=0.0)))
    else:
        for rays in (normals[within], -normals[within]):
            found[within] = np.minimum(found[within], _exit_distance(points[within], rays, planes, SEAM * scale))
    for i in np.flatnonzero(within)[np.argsort(-found[within])]:
        if found[i] <= largest:
            break
        ways = _exit_distance(np.repeat(points[i][None], len(_DIRECTIONS), axis=0), _DIRECTIONS, planes, SEAM * scale)
        largest = max(largest, min(float(found[i]), float(ways.min())))
    shapes = [convex_shape(piece) for piece in pieces]
    for i in np.flatnonzero(~within)[np.argsort(-found[~within])]:
        if found[i] <= largest:
            break
        closer = [k for k in np.argsort(heights[:, i]) if heights[k, i] < found[i]]
        largest = max(largest, min([found[i], *(_distance(shapes[k], point, points[i]) for k in closer)]))
    return float(largest)


def _exit_distance(points: np.ndarray, rays: np.ndarray, planes: list[np.ndarray], seam: float) -> np.ndarray:
    """Length of a ray from each point (N, 3) through pieces, across gaps of at most `seam` between them [m] (N,)."""
    enter, leave = np.empty((len(planes), len(points))), np.empty((len(planes), len(points)))
    for k, one in enumerate(planes):
        height, rate = points @ one[:, :3].T + one[:, 3], rays @ one[:, :3].T
        with np.errstate(divide="ignore", invalid="ignore"):
            crossing = -height / rate
        leave[k] = np.where(rate > 1e-12, crossing, np.inf).min(axis=1)
        enter[k] = np.where(rate < -1e-12, crossing, -np.inf).max(axis=1)
        beside = ((np.abs(rate) <= 1e-12) & (height > 0.0)).any(axis=1)
        leave[k, beside] = -np.inf
    leave[enter > leave] = -np.inf  # not met
    way = np.zeros(len(points))
    for _ in planes:
        farther = np.where(enter <= way + seam, leave, -np.inf).max(axis=0)
        if not np.any(farther > way):
            break
        way = np.maximum(way, farther)
    return way


def _height(points: np.ndarray, planes: np.ndarray) -> np.ndarray:
    """Height over the highest plane of a convex piece [m] (N,): outside at most its distance, within less its depth."""
    parts = np.array_split(points, 1 + len(points) * len(planes) // 10_000_000)
    return np.concatenate([(part @ planes[:, :3].T + planes[:, 3]).max(axis=1) for part in parts])


def _distance(shape: coal.CollisionGeometry, point: coal.Sphere, where: np.ndarray) -> float:
    result = coal.DistanceResult()
    at = coal.Transform3s(np.eye(3), where)
    found = coal.distance(shape, coal.Transform3s(), point, at, coal.DistanceRequest(), result)
    return max(float(found) + float(point.radius), 0.0)


def _run(vertices: np.ndarray, faces: np.ndarray, concavity: float) -> tuple[np.ndarray, ...]:
    """Corners of the pieces that CoACD finds.

    Raises:
        MeshError: it fails, or takes too long.
    """
    given = io.BytesIO()
    np.savez(given, vertices=vertices, faces=faces, concavity=concavity)
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-m", "haptic_sim.geometry.decomposition"],
        input=given.getvalue(),
        capture_output=True,
        env=os.environ | {"PYTHONPATH": path},
        preexec_fn=_bounded,  # sets a limit, and nothing else
        check=False,
    )
    if done.returncode == -signal.SIGXCPU:
        raise MeshError(f"is not convex, and its decomposition takes longer than {PATIENCE} s; simplify it")
    with (
        contextlib.suppress(ValueError, OSError, EOFError),
        np.load(io.BytesIO(done.stdout), allow_pickle=False) as found,
    ):
        if len(found["counts"]):
            return tuple(np.split(found["corners"], np.cumsum(found["counts"])[:-1]))
    raise MeshError(f"is not convex, and CoACD fails with it (status {done.returncode}); repair or simplify it")


def _bounded() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE, PATIENCE + 10))


def main() -> None:
    """Read a mesh from standard input, write its pieces to standard output."""
    import coacd

    result = os.dup(1)
    os.dup2(2, 1)  # whatever CoACD prints is not the result
    with np.load(io.BytesIO(sys.stdin.buffer.read()), allow_pickle=False) as given:
        vertices, faces, concavity = given["vertices"], given["faces"], float(given["concavity"])
    coacd.set_log_level("error")
    found = coacd.run_coacd(coacd.Mesh(vertices, faces.astype(np.int32)), threshold=concavity, **_SETTINGS)
    pieces = [np.asarray(corners, float) for corners, _ in found]
    written = io.BytesIO()
    np.savez(written, corners=np.concatenate(pieces), counts=np.array([len(piece) for piece in pieces]))
    with open(result, "wb") as file:
        file.write(written.getvalue())


if __name__ == "__main__":
    main()
