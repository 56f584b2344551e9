"""Height maps as solids: two triangles for each four pixels, walls, and a flat bottom."""

from __future__ import annotations

import numpy as np

MOST_PIXELS = 513 * 513  # some 540,000 triangles


def terrain(heights: np.ndarray, size: tuple[float, float], depth: float) -> tuple[np.ndarray, np.ndarray]:
    """The closed surface of a height map about the origin; its outermost pixels are on its walls.

    Args:
        heights: of the pixels [m], all above -depth, (rows, columns), 2 or more of each; the first row has the largest
            y, the first column the least x.
        size: lengths along x and y [m].
        depth: of the bottom below zero [m].

    Returns:
        Vertices (V, 3) [m], the pixels first in their order, and triangles (T, 3), which face outwards.
    """
    rows, columns = heights.shape
    x = np.linspace(-0.5 * size[0], 0.5 * size[0], columns)
    y = np.linspace(0.5 * size[1], -0.5 * size[1], rows)
    top = np.stack([*np.meshgrid(x, y), heights], axis=2).reshape(-1, 3)
    number = np.arange(rows * columns).reshape(rows, columns)
    a, b, c, d = number[:-1, :-1], number[:-1, 1:], number[1:, :-1], number[1:, 1:]
    # counter-clockwise from above, as is the ring of outermost pixels
    ring = np.concatenate([number[-1, :-1], number[:0:-1, -1], number[0, :0:-1], number[:-1, 0]])
    following = np.roll(ring, -1)
    low = len(top) + np.arange(len(ring))
    after, centre = np.roll(low, -1), len(top) + len(ring)
    bottom = np.column_stack([top[ring, :2], np.full(len(ring), -depth)])
    quads = [(a, c, d), (a, d, b), (low, after, following), (low, following, ring)]
    quads.append((np.full(len(ring), centre), after, low))
    faces = np.vstack([np.stack([corner.ravel() for corner in one], axis=1) for one in quads])
    return np.vstack([top, bottom, [[0.0, 0.0, -depth]]]), faces
