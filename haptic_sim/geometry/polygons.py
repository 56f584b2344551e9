"""Polygons with holes, divided into convex ones: by triangles (ears), then without the edges that are not needed.

A hole is joined to the outline around it by a bridge, an edge that is passed in both directions, so that one outline is
left; both ends of a bridge keep their numbers, by which its two sides are joined again.

Hertel and Mehlhorn (1983): an edge between two parts is left out where the angles at both of its ends stay convex. At
most four times as many parts are left as the fewest that do.
"""

from __future__ import annotations

import numpy as np

from haptic_sim.errors import HapticsError

MOST_CORNERS = 500  # the search for ears takes a time that grows with the cube


class PolygonError(HapticsError, ValueError):
    """A polygon is not accepted; the text follows its name."""


def convex_parts(*outlines: np.ndarray) -> list[np.ndarray]:
    """Convex polygons, counter-clockwise, that fill what an odd number of outlines goes around.

    Args:
        outlines: corners in order of each, either way round, (N, 2) [m]; the last may be the first again.

    Raises:
        PolygonError: fewer than three corners, too many, without area, or edges that cross or touch.
    """
    count = sum(map(len, outlines))
    if count > MOST_CORNERS:
        raise PolygonError(f"has {count} points: must have at most {MOST_CORNERS}; make it a mesh")
    loops, first = list[list[int]](), 0
    corners = np.zeros((0, 2))
    for points in outlines:
        points = np.asarray(points, float).reshape(-1, 2)
        found = points[np.any(points != np.roll(points, 1, axis=0), axis=1)]
        if len(found) < 3:
            raise PolygonError(f"has {len(found)} different points: must have 3 or more")
        size, area = float(np.ptp(found, axis=0).max()), _area(found)
        if not abs(area) > 1e-12 * size * size:
            raise PolygonError("has no area")
        corners = np.vstack([corners, found])
        order = list(range(first, first + len(found)))
        loops.append(order if area > 0.0 else order[::-1])
        first += len(found)
    edges = np.array([(loop[i - 1], loop[i]) for loop in loops for i in range(len(loop))])
    if _cross_themselves(corners, edges):
        one = "a simple polygon" if len(loops) == 1 else "simple polygons that do not meet"
        raise PolygonError(f"has edges that cross or touch each other: must be {one}")
    around = [{k for k, other in enumerate(loops) if k != n and _inside(corners[other], corners[loop[0]])}
              for n, loop in enumerate(loops)]  # fmt: skip
    parts = []
    for n, loop in enumerate(loops):
        if len(around[n]) % 2 == 0:
            holes = [loops[k] for k in range(len(loops)) if n in around[k] and len(around[k]) == len(around[n]) + 1]
            triangles = _ears(corners, _bridged(corners, loop, [hole[::-1] for hole in holes]))
            wanted = _area(corners[loop]) - sum(_area(corners[hole]) for hole in holes)
            if not abs(sum(_area(corners[one]) for one in triangles) - wanted) <= 1e-9 * _area(corners[loop]):
                raise PolygonError("has edges that nearly touch: must be a simple polygon")
            parts += [corners[part] for part in _joined(corners, triangles)]
    return parts


def _area(corners: np.ndarray) -> float:
    """Area of a polygon, positive counter-clockwise."""
    return 0.5 * float(_cross(corners, np.roll(corners, -1, axis=0)).sum())


def _inside(corners: np.ndarray, point: np.ndarray) -> bool:
    """Whether a point that is on no edge is inside of a polygon: a ray along x crosses an odd number of them."""
    start, end = corners - point, np.roll(corners, -1, axis=0) - point
    passes = (start[:, 1] > 0.0) != (end[:, 1] > 0.0)
    beyond = _cross(start, end) * np.sign(end[:, 1] - start[:, 1]) > 0.0
    return bool(np.count_nonzero(passes & beyond) % 2)


def _bridged(corners: np.ndarray, outer: list[int], holes: list[list[int]]) -> list[int]:
    """One outline of a polygon and its holes (clockwise), each joined to it by the shortest bridge that is free."""
    outer, holes = list(outer), list(holes)
    edges = [(loop[i - 1], loop[i]) for loop in (outer, *holes) for i in range(len(loop))]
    while holes:
        pairs = [(i, n, k) for i in range(len(outer)) for n, hole in enumerate(holes) for k in range(len(hole))]
        far = [float(np.sum((corners[outer[i]] - corners[holes[n][k]]) ** 2)) for i, n, k in pairs]
        for at in np.argsort(far, kind="stable"):
            i, n, k = pairs[at]
            one, other = outer[i], holes[n][k]
            before, after = outer[i - 1], outer[(i + 1) % len(outer)]
            if _opens(corners, before, one, after, other) and not _meets(corners, one, other, edges):
                break
        else:
            raise PolygonError("has edges that nearly touch: must be a simple polygon")
        hole = holes.pop(n)
        outer = [*outer[: i + 1], *hole[k:], *hole[: k + 1], *outer[i:]]
        edges.append((one, other))
    return outer


def _opens(corners: np.ndarray, before: int, at: int, after: int, to: int) -> bool:
    """Whether the direction from a corner to another one is between its edges, on the left of both."""
    left = _turn(corners, before, at, to) > 0.0, _turn(corners, at, after, to) > 0.0
    return all(left) if _turn(corners, before, at, after) >= 0.0 else any(left)


def _meets(corners: np.ndarray, a: int, b: int, edges: list[tuple[int, int]]) -> bool:
    """Whether the line between two corners touches an edge, apart from edges that end in one of them."""
    start, end = corners[[edge[0] for edge in edges]], corners[[edge[1] for edge in edges]]
    separate = np.array([not {a, b} & set(edge) for edge in edges])
    one, other = corners[a], corners[b]
    meet = _cross(other - one, start - one) * _cross(other - one, end - one) <= 0.0
    meet &= _cross(end - start, one - start) * _cross(end - start, other - start) <= 0.0
    low, high = np.minimum(start, end), np.maximum(start, end)
    meet &= np.all((low <= np.maximum(one, other)) & (np.minimum(one, other) <= high), axis=1)  # of those in one line
    return bool(np.any(meet & separate))


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Component along z of cross products."""
    return np.asarray(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0])


def _turn(corners: np.ndarray, i: int, k: int, m: int) -> float:
    """Twice the area of the triangle i k m, positive counter-clockwise."""
    return float(_cross(corners[k] - corners[i], corners[m] - corners[i]))


def _cross_themselves(corners: np.ndarray, edges: np.ndarray) -> bool:
    """Whether two edges (E, 2), numbers of corners, that are not neighbours have a point in common."""
    start, end = corners[edges[:, 0]], corners[edges[:, 1]]

    def side(points: np.ndarray) -> np.ndarray:  # [i, k]: of points[k] beside edge i
        return np.sign(_cross((end - start)[:, None], points[None] - start[:, None]))

    sides = side(start) * side(end)
    meet = (sides <= 0.0) & (sides.T <= 0.0)
    for one in edges.T:
        for other in edges.T:
            meet[np.equal.outer(one, other)] = False
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
