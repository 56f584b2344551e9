"""Defects of a closed surface of triangles, and the repair of those that need no guess.

Mended, and said: triangles that are there twice, triangles that are turned the wrong way, a mesh that is inside out,
small holes. Refused: large holes, surfaces with one side. Left to winding numbers (UnclearError): edges with three
triangles, a shell within another one that is turned as if it was solid. Taken as they are: edges along which solids
touch, with four triangles or more. Triangles that intersect are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import coal
import numpy as np

from haptic_sim.geometry.fields.triangles import close_holes
from haptic_sim.geometry.mesh_files import MeshError

if TYPE_CHECKING:
    import trimesh

HOLE = 0.1  # of the diagonal: how large a hole is closed
MOST_HOLES = 1000


class UnclearError(MeshError):
    """A surface that is not closed, or whose shells contradict each other: only winding numbers say what is solid."""


class HoleError(MeshError):
    """A surface with a hole that is larger than may be closed."""


def mended(mesh: trimesh.Trimesh) -> tuple[trimesh.Trimesh, tuple[str, ...]]:
    """A closed mesh, turned the right way, and what was changed.

    Raises:
        UnclearError: it is not closed, or has shells of which it is not clear what is solid.
        HoleError: it has a large hole.
        MeshError: it has one side only.
    """
    import trimesh

    notes = []
    faces = np.asarray(mesh.faces)
    least = np.take_along_axis(faces, (np.argmin(faces, axis=1)[:, None] + np.arange(3)) % 3, axis=1)
    _, first = np.unique(least, axis=0, return_index=True)
    if len(first) < len(faces):
        notes.append(f"{len(faces) - len(first)} triangles that it has twice are left out")
        mesh = trimesh.Trimesh(mesh.vertices, faces[np.sort(first)], process=False)
    edges, uses = np.unique(mesh.edges_sorted, axis=0, return_counts=True)
    if odd := int(np.count_nonzero((uses > 2) & (uses % 2 == 1))):
        raise UnclearError(
            f"is not closed: {odd} of its {len(edges)} edges {'has' if odd == 1 else 'have'} an odd number of "
            "triangles, more than two"
        )
    wrong = int(np.count_nonzero(uses == 1))
    if wrong and (closed := _closed(mesh)) is not None:
        mesh, holes, width = closed
        notes.append(
            f"{holes} hole{'s' * (holes > 1)} of at most {width:.2g} m across {'are' if holes > 1 else 'is'} closed"
        )
    elif len(edges) == 0 or wrong:
        holes_of(mesh)
        raise UnclearError(f"is not closed: {wrong} of its {len(edges)} edges do not have a triangle on both sides")
    if (wrong_way := _turned_wrong(np.asarray(mesh.faces))).any():
        faces = np.where(wrong_way[:, None], mesh.faces[:, ::-1], mesh.faces)
        mesh = trimesh.Trimesh(mesh.vertices, faces, process=False)
        notes.append("triangles that were turned the wrong way are turned")
    mesh, turned = _outward(mesh)
    if turned:
        notes.append("it was inside out, and is turned")
    return mesh, tuple(notes)


def holes_of(mesh: trimesh.Trimesh, largest: float | None = None) -> tuple[str, ...]:
    """Text about the holes that a field closes by fans (`close_holes`): as many as there are, of a small area.

    A gap between triangles that do not meet at their corners has no area, however long it is.

    Args:
        largest: area of the largest that may be closed [m^2]; None: that of a circle of HOLE of the diagonal.

    Raises:
        HoleError: one is too large to tell what is solid.
    """
    vertices, faces, _ = close_holes(np.asarray(mesh.vertices), np.asarray(mesh.faces))
    fans = faces[len(mesh.faces) :]
    if not len(fans):
        return ()
    a, b, c = np.moveaxis(vertices[fans], 1, 0)
    areas = np.bincount(fans[:, 2] - len(mesh.vertices), 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1))
    circle = 0.25 * np.pi * (HOLE * float(np.linalg.norm(np.ptp(mesh.vertices, axis=0)))) ** 2
    if areas.max() > (circle if largest is None else largest):
        limit = f"{circle:.2g} m^2, as a circle of a tenth of its diagonal is"
        if largest is not None:
            limit = f"largest_hole = {largest:g} m^2"
        raise HoleError(f"has a hole of {_rounded_up(areas.max()):g} m^2: must be at most {limit}, to be closed")
    several = len(areas) > 1
    return (f"{len(areas)} hole{'s' * several} of at most {areas.max():.2g} m^2 {'are' if several else 'is'} closed",)


def _rounded_up(value: float) -> float:
    """A positive number as the next one of two digits, which can be given as a bound."""
    digit = 10.0 ** (np.floor(np.log10(value)) - 1.0)
    return float(np.ceil(value / digit) * digit)


def shells(mesh: trimesh.Trimesh) -> list[trimesh.Trimesh]:
    """The closed pieces of a closed surface, in the order of their first triangles.

    Triangles are neighbours by edges that only two of them have. Where more meet, solids touch, and stay apart, but
    for those parts that are open there without each other.
    """
    import trimesh

    faces = np.asarray(mesh.faces)
    first, second, _ = _neighbours(faces)
    labels = _labels(first, second, len(faces))
    directed = _directed(faces)
    edges, edge = np.unique(np.sort(directed, axis=1), axis=0, return_inverse=True)
    sides, side = np.unique(np.column_stack([edge.ravel(), np.tile(labels, 3)]), axis=0, return_inverse=True)
    is_open = np.bincount(side.ravel(), _ways(directed)) != 0.0
    if is_open.any():  # parts that are open at an edge, joined by it
        count = labels.max() + 1
        labels = _labels(sides[is_open, 1], count + sides[is_open, 0], count + len(edges))[labels]
        labels = np.unique(labels, return_inverse=True)[1].ravel()
    found = []
    for label in range(labels.max() + 1):
        vertices, faces = np.unique(mesh.faces[labels == label], return_inverse=True)
        found.append(trimesh.Trimesh(mesh.vertices[vertices], faces.reshape(-1, 3), process=False))
    return found


def open_edges(faces: np.ndarray) -> int:
    """The number of edges that more triangles go along one way than the other: 0 of a closed surface."""
    directed = _directed(faces)
    _, edge = np.unique(np.sort(directed, axis=1), axis=0, return_inverse=True)
    return int(np.count_nonzero(np.bincount(edge.ravel(), _ways(directed))))


def _neighbours(faces: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of triangles (N,), (N,) at the edges that two have; whether both go along it the same way (N,)."""
    directed = _directed(faces)
    _, edge, uses = np.unique(np.sort(directed, axis=1), axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(edge.ravel(), kind="stable")
    order = order[uses[edge.ravel()[order]] == 2]  # the two triangles of an edge come one after the other
    against = directed[order[::2], 0] == directed[order[1::2], 0]
    return order[::2] % len(faces), order[1::2] % len(faces), against


def _directed(faces: np.ndarray) -> np.ndarray:
    """The sides of triangles, each from its first corner to its second (3 F, 2)."""
    return np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])


def _ways(directed: np.ndarray) -> np.ndarray:
    """1 for a side that goes from the lower corner to the higher one, else -1; their sum at an edge is 0 if closed."""
    return np.where(directed[:, 0] < directed[:, 1], 1, -1)


def _labels(first: np.ndarray, second: np.ndarray, count: int) -> np.ndarray:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    return connected_components(coo_array((np.ones(len(first)), (first, second)), (count, count)), directed=False)[1]


def _turned_wrong(faces: np.ndarray) -> np.ndarray:
    """Mask of the triangles of a closed surface to be turned, so that each connected piece has one outside, (F,) bool.

    Raises:
        MeshError: a piece has one side only.
        UnclearError: the surface is open where more than two triangles meet.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order

    count = len(faces)
    first, second, against = _neighbours(faces)
    labels = _labels(first, second, count)
    turned = np.zeros(count, bool)
    if against.any():
        graph = coo_array((np.where(against, 2, 1), (first, second)), (count, count)).tocsr()
        graph = graph + graph.T
        for piece in range(labels.max() + 1):
            start = int(np.argmax(labels == piece))
            reached, before = breadth_first_order(graph, start, directed=False)
            for face in reached[1:]:
                turned[face] = turned[before[face]] ^ bool(graph[face, before[face]] == 2)
        if np.any(turned[first] ^ turned[second] ^ against):
            raise MeshError("is not closed: it has one side only, as a Moebius strip has")
    if wrong := open_edges(np.where(turned[:, None], faces[:, ::-1], faces)):
        raise UnclearError(f"is not closed: at {wrong} of its edges, where more than two triangles meet, it is open")
    return turned


def _closed(mesh: trimesh.Trimesh) -> tuple[trimesh.Trimesh, int, float] | None:
    """The mesh with its holes closed by fans, their number and largest width [m]; None if that cannot be done.

    A hole is a loop of edges that have one triangle; at each of its corners exactly two such edges meet.
    """
    import trimesh

    directed = _directed(np.asarray(mesh.faces))
    ordered = np.sort(directed, axis=1)
    _, place, uses = np.unique(ordered, axis=0, return_inverse=True, return_counts=True)
    rim = directed[uses[place.ravel()] == 1]
    following = dict(rim[:, ::-1].tolist())  # around the hole the other way than around its triangles
    if len(following) != len(rim) or set(following) != set(following.values()):
        return None
    vertices, faces = [np.asarray(mesh.vertices)], [np.asarray(mesh.faces)]
    limit, widest, holes = HOLE * float(np.linalg.norm(np.ptp(mesh.vertices, axis=0))), 0.0, 0
    while following:
        loop = [next(iter(following))]
        while (after := following.pop(loop[-1])) != loop[0]:
            loop.append(after)
        corners = mesh.vertices[loop]
        width, holes = float(np.linalg.norm(np.ptp(corners, axis=0))), holes + 1
        if width > limit or holes > MOST_HOLES or len(loop) < 3:
            return None
        widest = max(widest, width)
        if len(loop) == 3:
            faces.append(np.array([loop]))
            continue
        middle = sum(map(len, vertices))
        vertices.append(corners.mean(axis=0)[None])
        faces.append(np.array([[a, b, middle] for a, b in zip(loop, [*loop[1:], loop[0]], strict=True)]))
    return trimesh.Trimesh(np.concatenate(vertices), np.concatenate(faces), process=False), holes, widest


def _outward(mesh: trimesh.Trimesh) -> tuple[trimesh.Trimesh, bool]:
    """The mesh with its outer shells turned outwards, and whether any was turned.

    A shell is a connected piece. One that lies within another bounds a cavity of it, and has to be turned so.

    Raises:
        UnclearError: a shell within another one is turned as that is.
    """
    import trimesh

    parts = shells(mesh)
    signs = [volume(part) >= 0.0 for part in parts]
    bounds = np.array([part.bounds for part in parts])
    outer = [_holder(parts, bounds, i) for i in range(len(parts))]
    for i, around in enumerate(outer):
        if around is not None and signs[i] == signs[around]:
            raise UnclearError(
                f"has {len(parts)} shells, of which shell {i} lies within shell {around} and is turned as if both "
                "were solid: turn the inner one inside out if it is a cavity, else remove it"
            )
    outwards: dict[int, bool] = {}
    for i in sorted(range(len(parts)), key=lambda i: -abs(volume(parts[i]))):  # what holds others before them
        around = outer[i]
        outwards[i] = around is None or not outwards[around]
    flip = [sign != outwards[i] for i, sign in enumerate(signs)]
    if not any(flip):
        return mesh, False
    first = np.cumsum([0, *(len(part.vertices) for part in parts)])
    faces = [
        (part.faces[:, ::-1] if turn else part.faces) + start
        for part, turn, start in zip(parts, flip, first, strict=False)
    ]
    vertices = np.concatenate([part.vertices for part in parts])
    return trimesh.Trimesh(vertices, np.concatenate(faces), process=False), True


def _holder(shells: list[trimesh.Trimesh], bounds: np.ndarray, inner: int) -> int | None:
    """The smallest shell that a shell lies within; None if there is none. `bounds` are their boxes (S, 2, 3) [m]."""
    around = (bounds[:, 0] <= bounds[inner, 0]).all(axis=1) & (bounds[inner, 1] <= bounds[:, 1]).all(axis=1)
    found: list[tuple[float, int]] = []
    for i in np.flatnonzero(around).tolist():
        if i != inner:
            turns = winding_number(shells[i].vertices, shells[i].faces, shells[inner].vertices[0])
            if abs(turns) > 0.5:
                found.append((abs(volume(shells[i])), i))
    return min(found)[1] if found else None


def volume(mesh: trimesh.Trimesh) -> float:
    """Volume within a closed surface [m^3], negative if it is inside out."""
    a, b, c = np.moveaxis(np.asarray(mesh.triangles), 1, 0)
    return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6.0)


def winding_number(vertices: np.ndarray, faces: np.ndarray, point: np.ndarray) -> float:
    """Winding number of a surface about a point: 1 within a closed one that is turned outwards, 0 outside.

    The solid angle of a triangle is that of Van Oosterom and Strackee (1983).
    """
    a, b, c = np.moveaxis(np.asarray(vertices)[faces] - point, 1, 0)
    la, lb, lc = (np.linalg.norm(one, axis=1) for one in (a, b, c))
    triple = np.einsum("ij,ij->i", a, np.cross(b, c))
    dots = [np.einsum("ij,ij->i", *pair) for pair in ((a, b), (b, c), (c, a))]
    angle = 2.0 * np.arctan2(triple, la * lb * lc + dots[0] * lc + dots[1] * la + dots[2] * lb)
    return float(angle.sum() / (4.0 * np.pi))


def triangles_of(vertices: np.ndarray, faces: np.ndarray) -> coal.BVHModelOBBRSS:
    """A tree of the triangles of a mesh."""
    tree = coal.BVHModelOBBRSS()
    points, triangles = coal.StdVec_Vec3s(), coal.StdVec_Triangle()
    for point in np.asarray(vertices, float):
        points.append(point)
    for face in np.asarray(faces).tolist():
        triangles.append(coal.Triangle(*face))
    tree.beginModel(len(faces), len(vertices))
    tree.addSubModel(points, triangles)
    tree.endModel()
    return tree


def self_intersections(vertices: np.ndarray, faces: np.ndarray) -> int:
    """Number of intersecting pairs of triangles that have no corner in common."""
    tree, result, request = triangles_of(vertices, faces), coal.CollisionResult(), coal.CollisionRequest()
    request.num_max_contacts = 1000 * len(faces)
    coal.collide(tree, coal.Transform3s(), tree, coal.Transform3s(), request, result)
    pairs = np.array([(one.b1, one.b2) for one in result.getContacts()], np.int64).reshape(-1, 2)
    pairs = np.unique(np.sort(pairs, axis=1), axis=0)
    first, second = np.asarray(faces)[pairs[:, 0]], np.asarray(faces)[pairs[:, 1]]
    separate = ~(first[:, :, None] == second[:, None, :]).any(axis=(1, 2))
    return int(np.count_nonzero(separate))
