"""Simple polygons, divided into convex ones: by triangles (ears), then without the edges that are not needed.

Hertel and Mehlhorn (1983): an edge between two parts is left out where the angles at both of its ends stay convex. At
most four times as many parts are left as the fewest that do.
"""

from __future__ import annotations

import numpy as np

from haptic_sim.errors import HapticsError

MOST_CORNERS = 500  # the search for ears takes a time that grows with the cube


class PolygonError(HapticsError, ValueError):
    """Why a polygon is not taken; goes after its name."""


def convex_parts(points: np.ndarray) -> list[np.ndarray]:
    """Convex polygons, counter-clockwise, that fill a simple polygon.

    Args:
        points: its corners in order, either way round, (N, 2) [m]; the last may be the first again.

    Raises:
        PolygonError: fewer than three corners, too many, without area, or its edges cross or touch.
    """
    points = np.asarray(points, float)
    if len(points) > MOST_CORNERS:
        raise PolygonError(f"has {len(points)} points: must have at most {MOST_CORNERS}; make it a mesh")
    corners = points[np.any(points != np.roll(points, 1, axis=0), axis=1)]
    if len(corners) < 3:
        raise PolygonError(f"has {len(corners)} different points: must have 3 or more")
    size = float(np.ptp(corners, axis=0).max())
    area = 0.5 * float(_cross(corners, np.roll(corners, -1, axis=0)).sum())
    if not abs(area) > 1e-12 * size * size:
        raise PolygonError("has no area")
    if _cross_themselves(corners):
        raise PolygonError("has edges that cross or touch each other: must be a simple polygon")
    order = list(range(len(corners)))
    return [corners[part] for part in _joined(corners, _ears(corners, order if area > 0.0 else order[::-1]))]


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Component along z of cross products."""
    return np.asarray(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0])


def _turn(corners: np.ndarray, i: int, k: int, m: int) -> float:
    """Twice the area of the triangle i k m, positive counter-clockwise."""
    return float(_cross(corners[k] - corners[i], corners[m] - corners[i]))


def _cross_themselves(corners: np.ndarray) -> bool:
    """Whether two edges that are not neighbours have a point in common."""
    start, end = corners, np.roll(corners, -1, axis=0)

    def side(points: np.ndarray) -> np.ndarray:  # [i, k]: of points[k] beside edge i
        return np.sign(_cross((end - start)[:, None], points[None] - start[:, None]))

    sides = side(start) * side(end)
    meet = (sides <= 0.0) & (sides.T <= 0.0)
    near = np.abs(np.subtract.outer(np.arange(len(corners)), np.arange(len(corners))))
    meet[(near <= 1) | (near == len(corners) - 1)] = False
    low, high = np.minimum(start, end), np.maximum(start, end)
    boxes = np.all((low[:, None] <= high[None]) & (low[None] <= high[:, None]), axis=2)  # of edges in one line
    return bool(np.any(meet & boxes))


def _ears(corners: np.ndarray, order: list[int]) -> list[list[int]]:
    """Triangles that fill a polygon whose corners go counter-clockwise in this order."""
    order, found = list(order), []
    while len(order) > 3:
        for i in range(len(order)):
            a, b, c = order[i - 1], order[i], order[(i + 1) % len(order)]
            turn = _turn(corners, a, b, c)
            if turn < 0.0:
                continue
            others = corners[[k for k in order if k not in (a, b, c)]]
            inside = np.ones(len(others), bool)
            for k, m in ((a, b), (b, c), (c, a)):
                inside &= _cross(corners[m] - corners[k], others - corners[k]) >= 0.0
            if not np.any(inside) or turn == 0.0:  # a corner on a straight edge is left out
                break
        else:
            raise PolygonError("has edges that nearly touch: must be a simple polygon")
        if turn > 0.0:
            found.append([a, b, c])
        order.pop(i)
    return [*found, order] if _turn(corners, order[0], order[1], order[2]) > 0.0 else found


def _joined(corners: np.ndarray, parts: list[list[int]]) -> list[list[int]]:
    """The parts, two joined by an edge as long as the angles at its ends stay convex."""
    merged = True
    while merged:
        merged = False
        edges = {(part[i - 1], part[i]): n for n, part in enumerate(parts) for i in range(len(part))}
        for (a, b), n in edges.items():
            other = edges.get((b, a))
            if other is None:
                continue
            one, two = _from(parts[n], b), _from(parts[other], a)  # b ... a, and a ... b
            joined = [*one, *two[1:-1]]
            if _turn(corners, one[-2], a, two[1]) >= 0.0 and _turn(corners, two[-2], b, one[1]) >= 0.0:
                parts = [part for k, part in enumerate(parts) if k not in (n, other)] + [joined]
                merged = True
                break
    return parts


def _from(part: list[int], first: int) -> list[int]:
    at = part.index(first)
    return part[at:] + part[:at]
