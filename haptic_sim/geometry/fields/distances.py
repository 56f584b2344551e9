"""Signed distance fields: distance of a point from the surface of a solid, negative inside, with its gradient.

**Where samples are.** A fine grid of spacing h has samples only near the surface, in blocks of 8^3 nodes that a grid of
numbers finds. A coarse grid of spacing 4 h has samples everywhere in the box around the solid. Each block has one layer
of its neighbours' nodes as well, so that a value needs one block.

**Samples.** A fine sample is the exact distance from the triangles: each triangle visits the nodes within BAND h of it.
Coarse samples near the surface are too, and their nearest triangles are passed on to the others from node to node. The
sign of a sample is that of the winding number (Barill et al., Fast winding numbers for soups and clouds, 2018; Jacobson
et al., 2013). It is computed once for each set of nodes that the surface does not separate: where the distances of two
neighbours add up to more than h, the surface does not pass between them.

**Values** between samples are a quadratic B-spline, with coefficients c = f - (1/8) (second differences along the
axes): exact for quadratic functions (de Boor, quasi-interpolation), local, and with a continuous gradient. The gradient
is that of the spline itself, so that forces along it have a potential. That of a trilinear interpolation jumps at the
borders of cells by up to the curvature times h, which is felt as a ripple. With f the fine and c the coarse value,
    phi = w(|f|) f + (1 - w) c,   w from 1 at FADE h to 0 at FAR h,
and c where there is no block, which is continuous, too, with its gradient. At a distance d from the box, with phi at
the nearest point of the box, the value is the root of phi^2 + d^2, which is at most the distance.

**Limits.** Sharp edges are rounded over about h; the value there is wrong by up to 0.3 h. Signed distance is not a
convex function: in the middle of a thin part the gradient turns round within h.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from haptic_sim.errors import HapticsError
from haptic_sim.geometry.fields.triangles import close_holes, squared_distance
from haptic_sim.kernels import kernel, prefetch
from haptic_sim.records import record, shared, value
from haptic_sim.vectors import cross, dot, length, minus, times, triple

SIDE, PADDED, RATIO = 8, 10, 4  # nodes along a block, with its neighbours' layers, fine ones to a coarse one
BAND, FAR, FADE = 4.5, 2.0, 1.0  # [h] exact samples, where only coarse ones count, where only fine ones do
ABSENT = 2.0 * FAR  # [h] value of a fine grid where it has no block
BLOCK_BYTES = 4 * PADDED**3
LANES = 8  # points that `distances_at` takes together: numbers of doubles in the longest vectors of processors
FEW = 2  # points from which on that is faster than one after the other
_POINT, _INSIDE, _OFFSET, _VALUE, _GRADIENT, _SAMPLE = 0, 3, 6, 9, 10, 13  # first rows of its memory
ROWS = _SAMPLE + 27


class FieldError(HapticsError, ValueError):
    """A mesh that no field can be made of; the text gives the reason and goes after the name of the mesh."""


@record
class Grid(NamedTuple):
    """Distances from one solid, in its own axes."""

    origin: np.ndarray = shared("position of the first fine node", 3, unit="m")
    spacing: float = value("distance of fine nodes", unit="m")
    number: np.ndarray = shared(
        "number of the block at each place, -1: none", "blocks_x", "blocks_y", "blocks_z", dtype=np.int32
    )
    blocks: np.ndarray = shared("coefficients", "blocks", 10, 10, 10, unit="m", dtype=np.float32)
    coarse: np.ndarray = shared(
        "coefficients, one coarse node beyond the box on each side", "x", "y", "z", unit="m", dtype=np.float32
    )


def build_grid(vertices: np.ndarray, triangles: np.ndarray, spacing: float, memory: int) -> Grid:
    """Distances from a solid.

    Args:
        vertices: (n, 3) [m].
        triangles: (m, 3), anticlockwise seen from outside; holes are closed.
        spacing: h [m].
        memory: largest size of the field [bytes].

    Raises:
        FieldError: it needs more memory.
    """
    vertices, triangles, closed = close_holes(vertices, triangles)
    origin, number, count, needed = _laid_out(vertices, triangles, spacing, memory)
    if needed > memory:
        raise FieldError(
            f"its field with samples {spacing:.3g} m apart needs {needed / 1e6:.0f} MB: must be at most "
            f"{memory / 1e6:.0f} MB"
        )
    distance = np.full((count, SIDE, SIDE, SIDE), BAND * spacing, np.float32)
    _scan(vertices, triangles, origin, spacing, number, distance)
    at = np.argwhere(number >= 0)
    at = at[np.argsort(number[tuple(at.T)])]
    winding = _Winding(vertices, triangles)
    sets = np.full((count, SIDE, SIDE, SIDE), -1, np.int64)
    if closed:
        seeds = np.empty(distance.size, np.int64)
        n = _find_sets(number, at, distance, spacing, sets, seeds, np.empty(distance.size, np.int64))
        seeds = seeds[:n]
    else:  # where the surface is missing nothing separates inside and outside
        seeds = np.arange(distance.size)
        sets.ravel()[:] = seeds
    block, node = np.divmod(seeds, SIDE**3)
    nodes = SIDE * at[block] + np.stack(np.unravel_index(node, (SIDE,) * 3), axis=-1)
    inside = winding.inside(origin + spacing * nodes)
    distance *= np.where(inside, np.float32(-1.0), np.float32(1.0))[sets]
    coarse = _coarse_samples(vertices, triangles, origin, spacing, number.shape, winding)
    blocks = np.empty((count, PADDED, PADDED, PADDED), np.float32)
    _fill_blocks(number, at, distance, BAND * spacing, np.empty((PADDED + 2,) * 3), blocks)
    return Grid(origin, float(spacing), number, blocks, _coefficients(coarse))


def _laid_out(
    vertices: np.ndarray, triangles: np.ndarray, spacing: float, memory: int
) -> tuple[np.ndarray, np.ndarray, int, int]:
    """First node, the number of the block at each place, their count, and the memory of all [bytes].

    Where the places alone need more than `memory`, they are not looked at.
    """
    low, high = vertices.min(axis=0) - BAND * spacing, vertices.max(axis=0) + BAND * spacing
    places = np.ceil((high - low) / (SIDE * spacing)).astype(np.int64) + 1
    origin = 0.5 * (low + high) - 0.5 * spacing * (SIDE * places - 1)
    needed = math.prod(places.tolist()) * (4 + 4 * (SIDE // RATIO) ** 3)
    if needed > memory:
        return origin, np.zeros((0, 0, 0), np.int32), 0, needed
    number = np.full(tuple(places), -1, np.int32)
    count = _mark_blocks(vertices, triangles, origin, spacing, number)
    return origin, number, count, count * BLOCK_BYTES + number.size * 36


def affordable_spacing(vertices: np.ndarray, triangles: np.ndarray, spacing: float, memory: int) -> float:
    """The least spacing from a given one on, to within 2 %, at which a field fits in the memory [bytes]."""
    vertices, triangles, _ = close_holes(vertices, triangles)
    while (needed := _laid_out(vertices, triangles, spacing, memory)[3]) > memory:
        # places are as 1 / spacing^3, and blocks along the surface as 1 / spacing^2: a step does not go too far
        spacing *= max(1.02, (needed / memory) ** (1.0 / 3.0))
    return spacing


class _Winding:
    """Winding numbers of a mesh: which points are inside of it."""

    def __init__(self, vertices: np.ndarray, triangles: np.ndarray):
        self._mesh = np.ascontiguousarray(vertices), np.ascontiguousarray(triangles, np.int64)

    def inside(self, points: np.ndarray) -> np.ndarray:
        """Mask of the points inside of the mesh, (n,) bool, for `points` (n, 3) [m]."""
        import igl  # takes a while to import, and is needed only where a field is built

        if not len(points):
            return np.zeros(0, bool)
        inside: np.ndarray = igl.fast_winding_number(*self._mesh, np.ascontiguousarray(points)) > 0.5
        return inside


def _coefficients(samples: np.ndarray) -> np.ndarray:
    """Coefficients of the spline (x, y, z) from samples with one more layer on each side."""
    inner = samples[1:-1, 1:-1, 1:-1]
    around = (
        samples[2:, 1:-1, 1:-1]
        + samples[:-2, 1:-1, 1:-1]
        + samples[1:-1, 2:, 1:-1]
        + samples[1:-1, :-2, 1:-1]
        + samples[1:-1, 1:-1, 2:]
        + samples[1:-1, 1:-1, :-2]
    )
    return np.ascontiguousarray((inner - 0.125 * (around - 6.0 * inner)).astype(np.float32))


@kernel(error_model="numpy")
def _reach_of(vertices, triangles, t, origin, spacing, reach):
    """The nodes within `reach` of the box around triangle t: first and last along each axis; its centre and radius."""
    a, b, c = triple(vertices, triangles[t, 0]), triple(vertices, triangles[t, 1]), triple(vertices, triangles[t, 2])
    centre = ((a[0] + b[0] + c[0]) / 3.0, (a[1] + b[1] + c[1]) / 3.0, (a[2] + b[2] + c[2]) / 3.0)
    square = 0.0
    for x in (a, b, c):
        away = minus(x, centre)
        square = max(square, dot(away, away))
    first = (
        math.ceil((min(a[0], b[0], c[0]) - reach - origin[0]) / spacing),
        math.ceil((min(a[1], b[1], c[1]) - reach - origin[1]) / spacing),
        math.ceil((min(a[2], b[2], c[2]) - reach - origin[2]) / spacing),
    )
    last = (
        math.floor((max(a[0], b[0], c[0]) + reach - origin[0]) / spacing),
        math.floor((max(a[1], b[1], c[1]) + reach - origin[1]) / spacing),
        math.floor((max(a[2], b[2], c[2]) + reach - origin[2]) / spacing),
    )
    return first, last, centre, math.sqrt(square), (a, b, c)


@kernel(error_model="numpy")
def _mark_blocks(vertices, triangles, origin, spacing, number):
    """Number the blocks that a triangle comes within the band of; returns how many."""
    reach = BAND * spacing
    half = 0.5 * (SIDE - 1) * spacing
    limit = reach + math.sqrt(3.0) * half
    for t in range(triangles.shape[0]):
        first, last, _, _, (a, b, c) = _reach_of(vertices, triangles, t, origin, spacing, reach)
        for i in range(max(first[0], 0) // SIDE, min(last[0] // SIDE, number.shape[0] - 1) + 1):
            for j in range(max(first[1], 0) // SIDE, min(last[1] // SIDE, number.shape[1] - 1) + 1):
                for k in range(max(first[2], 0) // SIDE, min(last[2] // SIDE, number.shape[2] - 1) + 1):
                    if number[i, j, k] < 0:
                        x = (
                            origin[0] + SIDE * i * spacing + half,
                            origin[1] + SIDE * j * spacing + half,
                            origin[2] + SIDE * k * spacing + half,
                        )
                        if squared_distance(x, a, b, c) <= limit * limit:
                            number[i, j, k] = 0
    count = 0
    for i in range(number.shape[0]):
        for j in range(number.shape[1]):
            for k in range(number.shape[2]):
                if number[i, j, k] == 0:
                    number[i, j, k] = count
                    count += 1
    return count


@kernel(error_model="numpy")
def _scan(vertices, triangles, origin, spacing, number, distance):
    """Distances of the nodes of all blocks, up to the band."""
    reach = BAND * spacing
    for t in range(triangles.shape[0]):
        first, last, centre, radius, (a, b, c) = _reach_of(vertices, triangles, t, origin, spacing, reach)
        limit = (radius + reach) * (radius + reach)
        normal = cross(minus(b, a), minus(c, a))
        size = length(normal)
        normal = times(1.0 / size, normal) if size > 0.0 else (0.0, 0.0, 0.0)
        for i in range(max(first[0], 0), min(last[0], SIDE * number.shape[0] - 1) + 1):
            x = origin[0] + i * spacing
            xx = (x - centre[0]) * (x - centre[0])
            for j in range(max(first[1], 0), min(last[1], SIDE * number.shape[1] - 1) + 1):
                y = origin[1] + j * spacing
                yy = xx + (y - centre[1]) * (y - centre[1])
                if yy > limit:
                    continue
                # the part of the line that is near the triangle's ball, and near its plane
                span = math.sqrt(limit - yy)
                low, high = centre[2] - span, centre[2] + span
                if abs(normal[2]) > 0.01:
                    height = ((x - a[0]) * normal[0] + (y - a[1]) * normal[1]) / normal[2]
                    low = max(low, a[2] - height - reach / abs(normal[2]))
                    high = min(high, a[2] - height + reach / abs(normal[2]))
                begin = max(first[2], math.ceil((low - origin[2]) / spacing), 0)
                end = min(last[2], math.floor((high - origin[2]) / spacing), SIDE * number.shape[2] - 1)
                for k in range(begin, end + 1):
                    block = number[i // SIDE, j // SIDE, k // SIDE]
                    if block < 0:
                        continue
                    square = squared_distance((x, y, origin[2] + k * spacing), a, b, c)
                    known = distance[block, i % SIDE, j % SIDE, k % SIDE]
                    if square < known * known:
                        distance[block, i % SIDE, j % SIDE, k % SIDE] = math.sqrt(square)


@kernel(error_model="numpy")
def _find_sets(number, at, distance, spacing, sets, seeds, stack):
    """Number the sets of nodes that the surface does not separate.

    Args:
        number, at: number of the block at each place, place of each block.
        distance: of the nodes without sign.
        sets: filled with the number of the set of each node; -1 before.
        seeds: filled with a node of each set, that with the largest distance.
        stack: memory of as many elements.

    Returns:
        The number of sets.
    """
    nodes = SIDE * SIDE * SIDE
    flat, member = distance.reshape(-1), sets.reshape(-1)
    count = 0
    for start in range(flat.shape[0]):
        if member[start] >= 0:
            continue
        member[start] = count
        best = start
        stack[0] = start
        top = 1
        while top > 0:
            top -= 1
            node = stack[top]
            if flat[node] > flat[best]:
                best = node
            block = node // nodes
            local = node % nodes
            here = (local // (SIDE * SIDE), (local // SIDE) % SIDE, local % SIDE)
            for axis in range(3):
                for step in (-1, 1):
                    i = here[0] + (step if axis == 0 else 0)
                    j = here[1] + (step if axis == 1 else 0)
                    k = here[2] + (step if axis == 2 else 0)
                    other = block
                    if min(i, j, k) < 0 or max(i, j, k) >= SIDE:
                        u = at[block, 0] + (step if axis == 0 else 0)
                        v = at[block, 1] + (step if axis == 1 else 0)
                        w = at[block, 2] + (step if axis == 2 else 0)
                        other = _block_at(number, u, v, w)
                        if other < 0:
                            continue
                        i, j, k = i % SIDE, j % SIDE, k % SIDE
                    neighbour = other * nodes + (i * SIDE + j) * SIDE + k
                    if member[neighbour] < 0 and flat[node] + flat[neighbour] > 1.0001 * spacing:
                        member[neighbour] = count
                        stack[top] = neighbour
                        top += 1
        seeds[count] = best
        count += 1
    return count


@kernel(error_model="numpy")
def _fill_blocks(number, at, distance, band, padded, blocks):
    """Fill in the coefficients of the blocks; where a neighbour has no block, samples are the band with the own sign.

    Args:
        number, at: number of the block at each place, place of each block.
        distance: signed samples.
        padded: memory for a block with two layers of its neighbours' samples.
    """
    for b in range(distance.shape[0]):
        for i in range(-2, SIDE + 2):
            for j in range(-2, SIDE + 2):
                for k in range(-2, SIDE + 2):
                    inner = min(i, j, k) >= 0 and max(i, j, k) < SIDE
                    other = (
                        b
                        if inner
                        else _block_at(number, at[b, 0] + i // SIDE, at[b, 1] + j // SIDE, at[b, 2] + k // SIDE)
                    )
                    if other >= 0:
                        padded[i + 2, j + 2, k + 2] = distance[other, i % SIDE, j % SIDE, k % SIDE]
                    else:
                        near = distance[b, min(max(i, 0), SIDE - 1), min(max(j, 0), SIDE - 1), min(max(k, 0), SIDE - 1)]
                        padded[i + 2, j + 2, k + 2] = band if near > 0.0 else -band
        for i in range(1, PADDED + 1):
            for j in range(1, PADDED + 1):
                for k in range(1, PADDED + 1):
                    around = (
                        padded[i + 1, j, k]
                        + padded[i - 1, j, k]
                        + padded[i, j + 1, k]
                        + padded[i, j - 1, k]
                        + padded[i, j, k + 1]
                        + padded[i, j, k - 1]
                    )
                    blocks[b, i - 1, j - 1, k - 1] = padded[i, j, k] - 0.125 * (around - 6.0 * padded[i, j, k])


@kernel(error_model="numpy")
def _block_at(number, i, j, k):
    """Number of the block at a place, -1: none."""
    if min(i, j, k) < 0 or i >= number.shape[0] or j >= number.shape[1] or k >= number.shape[2]:
        return -1
    return number[i, j, k]


def _coarse_samples(
    vertices: np.ndarray,
    triangles: np.ndarray,
    origin: np.ndarray,
    spacing: float,
    places: tuple[int, ...],
    winding: _Winding,
) -> np.ndarray:
    """Signed distances at every fourth node, from two such nodes before the first to two behind the last, (x, y, z)."""
    spacing = RATIO * spacing
    shape = tuple(SIDE // RATIO * n + 5 for n in places)
    return _samples_everywhere(vertices, triangles, origin - 2.0 * spacing, spacing, shape, winding)


def distances_everywhere(
    vertices: np.ndarray, triangles: np.ndarray, origin: np.ndarray, spacing: float, shape: tuple[int, ...]
) -> np.ndarray:
    """Signed distances of the nodes of a grid from a solid [m], (x, y, z).

    Args:
        vertices: (n, 3) [m].
        triangles: (m, 3), anticlockwise seen from outside; holes are closed.
        origin: position of the first node [m], (3,); shape: nodes along the axes.
        spacing: of the nodes [m].
    """
    vertices, triangles, _ = close_holes(vertices, triangles)
    return _samples_everywhere(vertices, triangles, origin, spacing, shape, _Winding(vertices, triangles))


def _samples_everywhere(
    vertices: np.ndarray,
    triangles: np.ndarray,
    origin: np.ndarray,
    spacing: float,
    shape: tuple[int, ...],
    winding: _Winding,
) -> np.ndarray:
    """Signed distances of the nodes, as `distances_everywhere`, from a mesh without holes."""
    from scipy.ndimage import label

    squares, owner = np.full(shape, np.inf), np.full(shape, -1)
    _scan_owners(vertices, triangles, origin, spacing, squares, owner)
    for _ in range(2):
        _sweep_owners(vertices, triangles, origin, spacing, squares, owner)
    samples = np.sqrt(squares)
    # nodes farther from the surface than half of an edge of the grid are on one side with their neighbours of this kind
    far = samples > 0.501 * spacing
    marks, count = label(far)
    nodes = np.argwhere(~far)
    inside = np.zeros(shape, bool)
    inside[tuple(nodes.T)] = winding.inside(origin + spacing * nodes)
    _, first = np.unique(marks, return_index=True)
    first = first[len(first) - count :]
    seeds = np.stack(np.unravel_index(first, shape), axis=-1)
    of_set = np.concatenate([[False], winding.inside(origin + spacing * seeds)])
    inside |= of_set[marks]
    samples[inside] *= -1.0
    return samples


@kernel(error_model="numpy")
def _scan_owners(vertices, triangles, origin, spacing, squares, owner):
    """Squared distances of nodes within 1.2 spacings of the surface, and the triangles that they are from."""
    reach = 1.2 * spacing
    for t in range(triangles.shape[0]):
        first, last, _, _, (a, b, c) = _reach_of(vertices, triangles, t, origin, spacing, reach)
        for i in range(max(first[0], 0), min(last[0], squares.shape[0] - 1) + 1):
            for j in range(max(first[1], 0), min(last[1], squares.shape[1] - 1) + 1):
                for k in range(max(first[2], 0), min(last[2], squares.shape[2] - 1) + 1):
                    x = (origin[0] + i * spacing, origin[1] + j * spacing, origin[2] + k * spacing)
                    square = squared_distance(x, a, b, c)
                    if square < squares[i, j, k]:
                        squares[i, j, k] = square
                        owner[i, j, k] = t


@kernel(error_model="numpy")
def _sweep_owners(vertices, triangles, origin, spacing, squares, owner):
    """Pass nearest triangles on from node to node, in eight sweeps (Tsai, 2002); errors are small to the spacing."""
    n0, n1, n2 = squares.shape
    for direction in range(8):
        d0, d1, d2 = 1 - 2 * (direction & 1), 1 - (direction & 2), 1 - (direction & 4) // 2
        for i0 in range(n0):
            i = i0 if d0 > 0 else n0 - 1 - i0
            for j0 in range(n1):
                j = j0 if d1 > 0 else n1 - 1 - j0
                for k0 in range(n2):
                    k = k0 if d2 > 0 else n2 - 1 - k0
                    x = (origin[0] + i * spacing, origin[1] + j * spacing, origin[2] + k * spacing)
                    before = owner[i, j, k]
                    for m in range(1, 8):
                        u, v, w = i - d0 * (m & 1), j - d1 * ((m >> 1) & 1), k - d2 * (m >> 2)
                        if min(u, v, w) < 0 or u >= n0 or v >= n1 or w >= n2:
                            continue
                        t = owner[u, v, w]
                        if t < 0 or t == before or t == owner[i, j, k]:
                            continue
                        square = squared_distance(
                            x,
                            triple(vertices, triangles[t, 0]),
                            triple(vertices, triangles[t, 1]),
                            triple(vertices, triangles[t, 2]),
                        )
                        if square < squares[i, j, k]:
                            squares[i, j, k] = square
                            owner[i, j, k] = t


# Values


@record
class Grids(NamedTuple):
    """Distances from several solids, each in its own axes, for kernels."""

    origin: np.ndarray = shared("position of the first fine node of each", "fields", 3, unit="m")
    spacing: np.ndarray = shared("distance of its fine nodes", "fields", unit="m")
    places: np.ndarray = shared("places of blocks along each axis", "fields", 3, dtype=np.int64)
    first: np.ndarray = shared("where each begins in `number` and `coarse`", "fields", 2, dtype=np.int64)
    number: np.ndarray = shared("number of the block at each place, -1: none", "places", dtype=np.int32)
    blocks: np.ndarray = shared("coefficients of the blocks", "1000 * blocks", unit="m", dtype=np.float32)
    coarse: np.ndarray = shared("coarse coefficients", "coarse", unit="m", dtype=np.float32)


def gather_grids(grids: Sequence[Grid]) -> Grids:
    """The grids of several solids in one record."""
    places = np.array([grid.number.shape for grid in grids], np.int64).reshape(-1, 3)
    before = np.cumsum([0, *(len(grid.blocks) for grid in grids)])
    number = [np.where(grid.number >= 0, grid.number + np.int32(n), -1) for grid, n in zip(grids, before, strict=False)]
    first = np.stack(
        [np.cumsum([0, *(x.size for x in number)]), np.cumsum([0, *(grid.coarse.size for grid in grids)])], axis=-1
    )
    blocks = [grid.blocks.ravel() for grid in grids]
    return Grids(
        np.array([grid.origin for grid in grids]).reshape(-1, 3),
        np.array([grid.spacing for grid in grids], float),
        places,
        np.ascontiguousarray(first[:-1]),
        np.concatenate([np.zeros(0, np.int32), *(x.ravel() for x in number)]),
        blocks[0] if len(blocks) == 1 else np.concatenate([np.zeros(0, np.float32), *blocks]),
        np.concatenate([np.zeros(0, np.float32), *(grid.coarse.ravel() for grid in grids)]),
    )


@kernel(error_model="numpy", inline="always")
def _sheet(samples, at, column, step, y, z):
    """Value of the spline of the nine coefficients around one, and its derivatives along the second and third axis."""
    z0, z1, z2 = 0.5 * (0.5 - z) * (0.5 - z), 0.75 - z * z, 0.5 * (0.5 + z) * (0.5 + z)
    y0, y1, y2 = 0.5 * (0.5 - y) * (0.5 - y), 0.75 - y * y, 0.5 * (0.5 + y) * (0.5 + y)
    c0, c1, c2 = samples[at - column - step], samples[at - column], samples[at - column + step]
    r0, s0 = z0 * c0 + z1 * c1 + z2 * c2, (z - 0.5) * c0 - 2.0 * z * c1 + (z + 0.5) * c2
    c0, c1, c2 = samples[at - step], samples[at], samples[at + step]
    r1, s1 = z0 * c0 + z1 * c1 + z2 * c2, (z - 0.5) * c0 - 2.0 * z * c1 + (z + 0.5) * c2
    c0, c1, c2 = samples[at + column - step], samples[at + column], samples[at + column + step]
    r2, s2 = z0 * c0 + z1 * c1 + z2 * c2, (z - 0.5) * c0 - 2.0 * z * c1 + (z + 0.5) * c2
    f, fy, fz = y0 * r0 + y1 * r1 + y2 * r2, (y - 0.5) * r0 - 2.0 * y * r1 + (y + 0.5) * r2, y0 * s0 + y1 * s1 + y2 * s2
    return f, fy, fz


@kernel(error_model="numpy", inline="always")
def _spline(samples, at, row, column, step, x, y, z):
    """Value of the quadratic B-spline and its derivatives per node.

    Args:
        samples: coefficients, flat.
        at: the node nearest to the point.
        row, column, step: elements from one node to the next along the first, the second and the third axis.
        x, y, z: place of the point from this node, in [-1/2, 1/2] nodes.
    """
    f0, y0, z0 = _sheet(samples, at - row, column, step, y, z)
    f1, y1, z1 = _sheet(samples, at, column, step, y, z)
    f2, y2, z2 = _sheet(samples, at + row, column, step, y, z)
    x0, x1, x2 = 0.5 * (0.5 - x) * (0.5 - x), 0.75 - x * x, 0.5 * (0.5 + x) * (0.5 + x)
    f, fx = x0 * f0 + x1 * f1 + x2 * f2, (x - 0.5) * f0 - 2.0 * x * f1 + (x + 0.5) * f2
    return f, fx, x0 * y0 + x1 * y1 + x2 * y2, x0 * z0 + x1 * z1 + x2 * z2


@kernel(error_model="numpy", inline="always")
def _clamp(place, last):
    """The nearest place of the box along an axis, in fine nodes."""
    return min(max(place, 0.0), last)


@kernel(error_model="numpy", inline="always")
def _find_node(grids, n, i, j, k):
    """Index in `blocks` of the coefficient of a fine node, below 0: there is none."""
    block = grids.number[
        grids.first[n, 0] + (i // SIDE * grids.places[n, 1] + j // SIDE) * grids.places[n, 2] + k // SIDE
    ]
    at = ((block * PADDED + i % SIDE + 1) * PADDED + j % SIDE + 1) * PADDED + k % SIDE + 1
    return at if block >= 0 else -1


@kernel(error_model="numpy")
def distance_at(grids, n, p):
    """Signed distance of a point from solid n, in its axes [m], and the gradient of this distance."""
    h, places = grids.spacing[n], grids.places
    u0, u1, u2 = (p[0] - grids.origin[n, 0]) / h, (p[1] - grids.origin[n, 1]) / h, (p[2] - grids.origin[n, 2]) / h
    c0 = _clamp(u0, SIDE * places[n, 0] - 1.0)
    c1 = _clamp(u1, SIDE * places[n, 1] - 1.0)
    c2 = _clamp(u2, SIDE * places[n, 2] - 1.0)
    i, j, k = int(c0 + 0.5), int(c1 + 0.5), int(c2 + 0.5)
    at = _find_node(grids, n, i, j, k)
    f, g = ABSENT * h, (0.0, 0.0, 0.0)
    if at >= 0:
        f, fx, fy, fz = _spline(grids.blocks, at, PADDED * PADDED, PADDED, 1, c0 - i, c1 - j, c2 - k)
        g = (fx / h, fy / h, fz / h)
    if abs(f) / h > FADE:
        f, g = _fade(grids, n, (c0, c1, c2), f, g)
    if c0 != u0 or c1 != u1 or c2 != u2:
        f, g = _outside((h * (u0 - c0), h * (u1 - c1), h * (u2 - c2)), f, g)
    return f, g


@kernel(error_model="numpy")
def distances_at(grids, n, points, count, found, lanes):
    """`distance_at` of many points, bit for bit, in a fraction of the time.

    LANES points at a time go through loops without branches, which the compiler turns into instructions for vectors:
    for that each row of `lanes` has one number of all these points, and all rows are parts of one flat array.

    Args:
        points: (at least `count`, 3) [m].
        found: filled with the distance [m] and the gradient of each (at least `count`, 4).
        lanes: memory (ROWS * LANES,).
    """
    h, origin, places, blocks = grids.spacing[n], grids.origin, grids.places, grids.blocks
    for begin in range(0, count, LANES):
        size = min(LANES, count - begin)
        if size < FEW:
            for m in range(begin, count):
                f, g = distance_at(grids, n, triple(points, m))
                found[m, 0], found[m, 1], found[m, 2], found[m, 3] = f, g[0], g[1], g[2]
            return
        _fetch_samples(grids, n, points, begin + LANES, min(begin + 2 * LANES, count))
        for d in range(3):
            for m in range(size):
                lanes[(_POINT + d) * LANES + m] = points[begin + m, d]
            _scale(lanes, d * LANES, origin[n, d], h, SIDE * places[n, d] - 1.0)
        for m in range(size):
            c0, c1, c2 = _column(lanes, _INSIDE, m)
            i, j, k = int(c0 + 0.5), int(c1 + 0.5), int(c2 + 0.5)
            lanes[_OFFSET * LANES + m] = c0 - i
            lanes[(_OFFSET + 1) * LANES + m] = c1 - j
            lanes[(_OFFSET + 2) * LANES + m] = c2 - k
            at = _find_node(grids, n, i, j, k)
            for a in range(3):
                for b in range(3):
                    first, to = at + (a - 1) * PADDED * PADDED + (b - 1) * PADDED - 1, _SAMPLE + 9 * a + 3 * b
                    for c in range(3):
                        lanes[(to + c) * LANES + m] = blocks[first + c] if at >= 0 else ABSENT * h
        _splines(lanes, h)
        for m in range(size):
            f, g = lanes[_VALUE * LANES + m], _column(lanes, _GRADIENT, m)
            u, c = _column(lanes, _POINT, m), _column(lanes, _INSIDE, m)
            if abs(f) / h > FADE:
                f, g = _fade(grids, n, c, f, g)
            if c[0] != u[0] or c[1] != u[1] or c[2] != u[2]:
                f, g = _outside((h * (u[0] - c[0]), h * (u[1] - c[1]), h * (u[2] - c[2])), f, g)
            found[begin + m, 0], found[begin + m, 1], found[begin + m, 2], found[begin + m, 3] = f, g[0], g[1], g[2]


@kernel(error_model="numpy")
def _fetch_samples(grids, n, points, begin, end):
    """Have the samples of points from `begin` to before `end` fetched into the cache.

    Rounded otherwise than in `distance_at`, so of a point between two nodes perhaps the samples around the other one.
    """
    scale, places = 1.0 / grids.spacing[n], grids.places
    for m in range(begin, end):
        i = int((points[m, 0] - grids.origin[n, 0]) * scale + 0.5)
        j = int((points[m, 1] - grids.origin[n, 1]) * scale + 0.5)
        k = int((points[m, 2] - grids.origin[n, 2]) * scale + 0.5)
        if min(i, j, k) >= 0 and i < SIDE * places[n, 0] and j < SIDE * places[n, 1] and k < SIDE * places[n, 2]:
            at = _find_node(grids, n, i, j, k)
            if at >= 0:
                for a in range(-1, 2):
                    for b in range(-1, 2):
                        prefetch(grids.blocks, at + a * PADDED * PADDED + b * PADDED)


@kernel(error_model="numpy")
def _scale(lanes, row, origin, h, last):
    """Turn a row of positions [m] into places in fine nodes, and fill in those in the box."""
    for m in range(LANES):
        u = (lanes[row + _POINT * LANES + m] - origin) / h
        lanes[row + _POINT * LANES + m] = u
        lanes[row + _INSIDE * LANES + m] = _clamp(u, last)


@kernel(error_model="numpy")
def _splines(lanes, h):
    """Fill in the values [m] and gradients of the splines with the coefficients of each point."""
    for m in range(LANES):
        x, y, z = _column(lanes, _OFFSET, m)
        f, fx, fy, fz = _spline(lanes, (_SAMPLE + 13) * LANES + m, 9 * LANES, 3 * LANES, LANES, x, y, z)
        lanes[_VALUE * LANES + m] = f
        lanes[_GRADIENT * LANES + m] = fx / h
        lanes[(_GRADIENT + 1) * LANES + m] = fy / h
        lanes[(_GRADIENT + 2) * LANES + m] = fz / h


@kernel(error_model="numpy", inline="always")
def _column(lanes, row, m):
    """Three rows of `lanes` of a point."""
    return (lanes[row * LANES + m], lanes[(row + 1) * LANES + m], lanes[(row + 2) * LANES + m])


@kernel(error_model="numpy", inline="always")
def _fade(grids, n, c, f, g):
    """Distance and gradient where the coarse grid has a part of them, from those of the fine one.

    c: the point in the box, in fine nodes.
    """
    h, places = grids.spacing[n], grids.places
    weight = slope = 0.0
    size = abs(f) / h
    if size < FAR:
        t = (size - FADE) / (FAR - FADE)
        weight = 1.0 - t * t * (3.0 - 2.0 * t)
        slope = -6.0 * t * (1.0 - t) / (FAR - FADE)
        if f < 0.0:
            slope = -slope
    x, y, z = c[0] / RATIO + 1.0, c[1] / RATIO + 1.0, c[2] / RATIO + 1.0
    i, j, k = int(x + 0.5), int(y + 0.5), int(z + 0.5)
    column = SIDE // RATIO * places[n, 2] + 3
    row = (SIDE // RATIO * places[n, 1] + 3) * column
    at = grids.first[n, 1] + i * row + j * column + k
    e, ex, ey, ez = _spline(grids.coarse, at, row, column, 1, x - i, y - j, z - k)
    back = (1.0 - weight) / (RATIO * h)
    forth = weight + slope * (f - e) / h
    g = (forth * g[0] + back * ex, forth * g[1] + back * ey, forth * g[2] + back * ez)
    return weight * f + (1.0 - weight) * e, g


@kernel(error_model="numpy")
def _outside(away, f, g):
    """Distance and gradient at a point `away` from the box [m], from those at the nearest point of the box."""
    total = math.sqrt(dot(away, away) + f * f)
    part = f / total
    g = (
        part * g[0] if away[0] == 0.0 else away[0] / total,
        part * g[1] if away[1] == 0.0 else away[1] / total,
        part * g[2] if away[2] == 0.0 else away[2] / total,
    )
    return total, g
