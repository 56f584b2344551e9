"""Point shells: points spread evenly over the surface of a solid, in cells that are fixed to it.

Points are the sharp vertices, points along sharp convex edges, and points on the faces (McNeely, Puterbaugh and Troy,
Six degree-of-freedom haptic rendering using voxel sampling, 1999; Barbic and James, 2008). They are taken from dense
candidates in a fixed order: a candidate is left out where a point of about the same direction is nearer than the
spacing.

A **cell** is a patch of the surface whose points lie close together and whose normals have about one direction; each
gives one contact at most. A **leaf** is a part of a cell with few points, within a sphere. Cells and leaves are halves
of halves: the set that extends farthest, in position or in the direction of its normals, is cut at its median.
"""

from __future__ import annotations

import heapq
import math
from typing import NamedTuple

import numpy as np

from haptic_sim.geometry.fields.triangles import edges_of
from haptic_sim.kernels import kernel
from haptic_sim.records import record, shared

SHARP = math.cos(math.radians(20.0))  # between the normals of two triangles at an edge that has points of its own
DENSITY = 6.0  # candidates on faces for each square of the spacing
CLOSE = 0.75  # of the spacing: least distance of two points
ALIKE = 0.5  # cosine between the normals of points that stand for each other
LEAF = 16  # points of a leaf at most
TURN = 0.25  # of the extent of the solid: what counts as much as an extent of 1 of the normals of a cell


@record
class Shell(NamedTuple):
    """Points on the surface of one solid, in its own axes, in the order of leaves and cells."""

    points: np.ndarray = shared("points", "points", 3, unit="m")
    normals: np.ndarray = shared("outward normals of the surface at the points", "points", 3)
    leaf: np.ndarray = shared("first point of each leaf, and behind the last", "leaves + 1", dtype=np.int64)
    cell: np.ndarray = shared("first leaf of each cell, and behind the last", "cells + 1", dtype=np.int64)
    leaf_ball: np.ndarray = shared("centre and radius of the points of each leaf", "leaves", 4, unit="m")
    cell_ball: np.ndarray = shared("centre and radius of the points of each cell", "cells", 4, unit="m")


def build_shell(vertices: np.ndarray, triangles: np.ndarray, spacing: float, edge_spacing: float, cells: int) -> Shell:
    """Points on a solid.

    Args:
        vertices: (n, 3) [m].
        triangles: (m, 3), anticlockwise seen from outside.
        spacing, edge_spacing: distance of points on faces, and along sharp edges [m].
        cells: largest number of cells.
    """
    points, normals, _ = spread_points(vertices, triangles, spacing, edge_spacing)
    return group_points(points, normals, cells)


def group_points(points: np.ndarray, normals: np.ndarray, cells: int) -> Shell:
    """Cells and leaves of points (n, 3) [m] with unit normals (n, 3)."""
    extent = float(np.linalg.norm(np.ptp(points, axis=0)))
    features = np.concatenate([points, TURN * extent * normals], axis=1)
    groups = _halve(features, np.arange(len(points)), lambda parts: len(parts) < cells)
    order, leaf, cell = [], [0], [0]
    for group in groups:
        parts = _halve(points, group, lambda parts: len(parts[0]) > LEAF, by_count=True)
        for part in parts:
            order.append(part)
            leaf.append(leaf[-1] + len(part))
        cell.append(cell[-1] + len(parts))
    numbers = np.concatenate(order)
    points, normals = np.ascontiguousarray(points[numbers]), np.ascontiguousarray(normals[numbers])
    of_leaf, of_cell = np.array(leaf, np.int64), np.array(cell, np.int64)
    ranges = [np.stack([first[:-1], first[1:]], axis=-1) for first in (of_leaf, of_leaf[of_cell])]
    return Shell(points, normals, of_leaf, of_cell, *(_balls(points, each) for each in ranges))


def _halve(features: np.ndarray, members: np.ndarray, goes_on, by_count: bool = False) -> list[np.ndarray]:
    """Cut a set at the median of its longest extent, then the part with the longest extent (or most members), ..."""

    def extent(some: np.ndarray) -> float:
        return -len(some) if by_count else -float(np.ptp(features[some], axis=0).max())

    parts = [members]
    heap = [(extent(members), 0)]
    while heap and goes_on([parts[heap[0][1]]] if by_count else parts):
        _, at = heapq.heappop(heap)
        some = parts[at]
        if len(some) < 2:
            continue
        values = features[some]
        axis = int(np.argmax(np.ptp(values, axis=0)))
        ordered = some[np.argsort(values[:, axis], kind="stable")]
        parts[at] = ordered[: len(some) // 2]
        parts.append(ordered[len(some) // 2 :])
        heapq.heappush(heap, (extent(parts[at]), at))
        heapq.heappush(heap, (extent(parts[-1]), len(parts) - 1))
    return parts


class Tree(NamedTuple):
    """Halves of halves of the leaves of each cell. Nodes are the leaves, by their numbers, then sets of them."""

    parts: np.ndarray  # the two nodes of each set, (sets, 2)
    ball: np.ndarray  # centre and radius of the points of each set, (sets, 4) [m]
    root: np.ndarray  # node of each cell, (cells,)


def tree_of(shell: Shell) -> Tree:
    """The tree of a shell: a set is cut at the median of its leaves along the longest extent of these."""
    leaves = len(shell.leaf) - 1
    centre = shell.leaf_ball[:, :3]
    order = np.arange(leaves)  # so that the leaves of each set follow each other
    parts: list[list[int]] = []
    ranges: list[tuple[int, int]] = []

    def node(begin: int, end: int) -> int:
        """Number of the node that has the leaves of this range of `order`."""
        if end - begin == 1:
            return int(order[begin])
        some = order[begin:end]
        middle = (end - begin) // 2
        axis = int(np.argmax(np.ptp(centre[some], axis=0)))
        order[begin:end] = some[np.argpartition(centre[some, axis], middle)]
        number = len(parts)
        ranges.append((begin, end))
        parts.append([])
        parts[number] = [node(begin, begin + middle), node(begin + middle, end)]
        return leaves + number

    root = [node(begin, end) for begin, end in zip(shell.cell[:-1].tolist(), shell.cell[1:].tolist(), strict=True)]
    count = np.diff(shell.leaf)[order]
    behind = np.concatenate([[0], np.cumsum(count)])
    points = shell.points[np.repeat(shell.leaf[:-1][order] - behind[:-1], count) + np.arange(behind[-1])]
    return Tree(
        np.array(parts, np.int64).reshape(-1, 2),
        _balls(points, behind[np.array(ranges, np.int64).reshape(-1, 2)]),
        np.array(root, np.int64),
    )


def _balls(points: np.ndarray, ranges: np.ndarray) -> np.ndarray:
    """Centre and radius of the points of each range (k, 2), (k, 4)."""
    balls = np.empty((len(ranges), 4))
    for i, (begin, end) in enumerate(ranges.tolist()):
        some = points[begin:end]
        balls[i, :3] = 0.5 * (some.min(axis=0) + some.max(axis=0))
        balls[i, 3] = np.sqrt(((some - balls[i, :3]) ** 2).sum(axis=1).max())
    return balls


def spread_points(
    vertices: np.ndarray, triangles: np.ndarray, spacing: float, edge_spacing: float
) -> tuple[np.ndarray, np.ndarray, int]:
    """Points on a surface (n, 3) [m], its normals there (n, 3), and how many of them, the first, are on sharp features.

    Arguments as of `build_shell`.
    """
    corners = vertices[triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    areas = np.linalg.norm(normals, axis=1)
    sound = areas > 0.0
    triangles, corners, normals, areas = triangles[sound], corners[sound], normals[sound], areas[sound]
    normals = normals / areas[:, None]
    edge_points, edge_normals, tips, tip_normals = _sharp_features(vertices, triangles, normals, edge_spacing)
    face_points, face_normals = _face_candidates(corners, normals, 0.5 * areas, spacing)
    points = np.concatenate([tips, edge_points, face_points])
    directions = np.concatenate([tip_normals, edge_normals, face_normals])
    radius = np.concatenate(
        [
            np.zeros(len(tips)),
            np.full(len(edge_points), CLOSE * edge_spacing),
            np.full(len(face_points), CLOSE * spacing),
        ]
    )
    kept = np.zeros(len(points), bool)
    low = points.min(axis=0)
    places = np.floor((points - low) / spacing).astype(np.int64)
    table = 1 << max(10, math.ceil(math.log2(len(points) + 1)))
    _thin_out(points, directions, radius, places, np.full(table, -1), np.full(len(points), -1), kept)
    return points[kept], directions[kept], int(np.count_nonzero(kept[: len(tips) + len(edge_points)]))


def _sharp_features(
    vertices: np.ndarray, triangles: np.ndarray, normals: np.ndarray, spacing: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Points along sharp convex edges with their normals, and the vertices where these end or meet with theirs."""
    edges, uses, of_side = edges_of(triangles)
    owner = np.full((len(edges), 2), -1)
    sides = of_side.ravel()
    order = np.argsort(sides, kind="stable")
    first = np.searchsorted(sides[order], np.arange(len(edges)))
    owner[:, 0] = order[first] // 3
    two = uses >= 2
    owner[two, 1] = order[first[two] + 1] // 3
    a, b = owner[:, 0], np.where(two, owner[:, 1], owner[:, 0])
    cosine = np.einsum("ij,ij->i", normals[a], normals[b])
    middle = vertices[triangles].mean(axis=1)
    convex = np.einsum("ij,ij->i", normals[a], middle[b] - vertices[edges[:, 0]]) <= 0.0
    sharp = np.flatnonzero(~two | ((cosine < SHARP) & convex))
    direction = normals[a] + normals[b]
    size = np.linalg.norm(direction, axis=1, keepdims=True)
    direction = np.where(size > 1e-6, direction / np.maximum(size, 1e-12), normals[a])
    begin, end = vertices[edges[sharp, 0]], vertices[edges[sharp, 1]]
    parts = np.maximum(np.ceil(np.linalg.norm(end - begin, axis=1) / spacing), 1.0).astype(np.int64)
    which = np.repeat(np.arange(len(sharp)), parts)
    step = np.arange(len(which)) - np.repeat(np.cumsum(parts) - parts, parts)
    along = (step + 0.5) / parts[which]
    points = begin[which] + along[:, None] * (end - begin)[which]
    total = np.zeros((len(vertices), 3))
    count = np.zeros(len(vertices), np.int64)
    unit = (end - begin) / np.maximum(np.linalg.norm(end - begin, axis=1, keepdims=True), 1e-300)
    turn = np.zeros((len(vertices), 3))
    for ends, sign in ((edges[sharp, 0], 1.0), (edges[sharp, 1], -1.0)):
        np.add.at(total, ends, direction[sharp])
        np.add.at(turn, ends, sign * unit)
        np.add.at(count, ends, 1)
    # an edge that goes straight on has no tip
    tips = np.flatnonzero((count > 0) & ((count != 2) | (np.linalg.norm(turn, axis=1) > math.sin(math.radians(20.0)))))
    size = np.linalg.norm(total[tips], axis=1, keepdims=True)
    upward = np.where(size > 1e-6, total[tips] / np.maximum(size, 1e-12), np.array([0.0, 0.0, 1.0]))
    return points, direction[sharp][which], vertices[tips], upward


def _face_candidates(
    corners: np.ndarray, normals: np.ndarray, areas: np.ndarray, spacing: float
) -> tuple[np.ndarray, np.ndarray]:
    """Points spread over triangles by area, DENSITY for each square of the spacing, in an order without a pattern."""
    count = math.ceil(DENSITY * float(areas.sum()) / spacing**2)
    k = np.arange(count)
    ends = np.cumsum(areas)
    at = np.minimum(np.searchsorted(ends, (k + 0.5) / count * ends[-1]), len(areas) - 1)
    # R2 sequence (Roberts 2018), folded into the triangle
    u, v = (0.5 + k * 0.7548776662466927) % 1.0, (0.5 + k * 0.5698402909980532) % 1.0
    over = u + v > 1.0
    u, v = np.where(over, 1.0 - u, u), np.where(over, 1.0 - v, v)
    a, b, c = corners[at, 0], corners[at, 1], corners[at, 2]
    return a + u[:, None] * (b - a) + v[:, None] * (c - a), normals[at]


@kernel(error_model="numpy")
def _thin_out(points, directions, radius, places, first, following, kept):
    """Mark the points to keep: each that has no kept point of about its direction within its radius.

    Args:
        places: cell of each point in a grid not finer than any radius, (n, 3).
        first: -1, of as many elements as a power of two; following: -1, (n,).
    """
    mask = first.shape[0] - 1
    for i in range(points.shape[0]):
        free = True
        square = radius[i] * radius[i]
        for dx in range(-1, 2):
            for dy in range(-1, 2):
                for dz in range(-1, 2):
                    x, y, z = places[i, 0] + dx, places[i, 1] + dy, places[i, 2] + dz
                    j = first[(x * 73856093 ^ y * 19349663 ^ z * 83492791) & mask]
                    while free and j >= 0:
                        d = 0.0
                        cosine = 0.0
                        for k in range(3):
                            d += (points[i, k] - points[j, k]) * (points[i, k] - points[j, k])
                            cosine += directions[i, k] * directions[j, k]
                        if d < square and cosine > ALIKE:
                            free = False
                        j = following[j]
        if free:
            kept[i] = True
            h = (places[i, 0] * 73856093 ^ places[i, 1] * 19349663 ^ places[i, 2] * 83492791) & mask
            following[i] = first[h]
            first[h] = i
