"""Convex shapes of points, for collision detection."""

from __future__ import annotations

import coal
import numpy as np

from haptic_sim.geometry.sampling import on_sphere

MOST_CORNERS = 500  # of a convex shape: contacts look at all of them in each step
MOST_NEIGHBOURS = 200  # of a corner; coal counts to 255


def convex_shape(vertices: np.ndarray) -> coal.Convex:
    """The convex hull of points [m] (n, 3) as a shape, with the corners that it can have (`usable_corners`)."""
    return _hull_of(vertices)[0]


def usable_corners(vertices: np.ndarray) -> np.ndarray:
    """The points of which `convex_shape` takes the hull [m] (n, 3).

    At most MOST_CORNERS, those that are the farthest in directions spread evenly; fewer where a corner would have more
    neighbours than coal can count.
    """
    return _hull_of(vertices)[1]


def _hull_of(vertices: np.ndarray) -> tuple[coal.Convex, np.ndarray]:
    corners = _fewer(np.asarray(vertices, float), MOST_CORNERS)
    try:
        return _convex(corners), corners
    except (RuntimeError, ValueError) as error:
        if "Too many neighbors" not in str(error):
            raise
        corners = _fewer(corners, MOST_NEIGHBOURS)
        return _convex(corners), corners


def _convex(corners: np.ndarray) -> coal.Convex:
    points = coal.StdVec_Vec3s()
    for corner in corners:
        points.append(corner)
    return coal.Convex.convexHull(points, True, "Qt")  # Qt: triangles, also of faces with more corners


def _fewer(vertices: np.ndarray, most: int) -> np.ndarray:
    """Subset of at most `most` of the points (n, 3): the farthest ones in directions spread over their bounding box."""
    if len(vertices) <= most:
        return vertices
    extent = np.maximum(np.ptp(vertices, axis=0), 1e-12)
    heights = (vertices / extent) @ on_sphere(most).T
    return vertices[np.unique(np.argmax(heights, axis=0))]
