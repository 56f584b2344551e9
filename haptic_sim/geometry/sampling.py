"""Points spread evenly over a sphere, and over a surface of triangles."""

from __future__ import annotations

import numpy as np


def on_sphere(count: int) -> np.ndarray:
    """Points spread evenly over the unit sphere (count, 3), along a spiral."""
    k = np.arange(count) + 0.5
    height, turn = 1.0 - 2.0 * k / count, np.pi * (1.0 + np.sqrt(5.0)) * k
    radius = np.sqrt(1.0 - height**2)
    return np.stack([radius * np.cos(turn), radius * np.sin(turn), height], axis=1)


def spread(vertices: np.ndarray, faces: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points on a surface (count, 3), as many per area everywhere, always the same; and their triangles (count,)."""
    rng = np.random.default_rng(0)
    a, b, c = np.moveaxis(np.asarray(vertices)[faces], 1, 0)
    areas = np.cumsum(np.linalg.norm(np.cross(b - a, c - a), axis=1))
    chosen = np.searchsorted(areas, (np.arange(count) + 0.5) / max(count, 1) * areas[-1])
    chosen = np.minimum(chosen, len(areas) - 1)
    u, v = rng.random((2, count, 1))
    over = u + v > 1.0
    u, v = np.where(over, 1.0 - u, u), np.where(over, 1.0 - v, v)
    points: np.ndarray = a[chosen] + u * (b - a)[chosen] + v * (c - a)[chosen]
    return points, chosen
