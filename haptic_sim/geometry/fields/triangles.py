"""Triangles: distance of a point, edges, and closed meshes from open ones."""

from __future__ import annotations

import numpy as np

from haptic_sim.kernels import kernel
from haptic_sim.vectors import along, dot, minus


@kernel(error_model="numpy")
def squared_distance(p, a, b, c):
    """Squared distance of a point from a triangle a, b, c (Ericson, Real-Time Collision Detection, 2005, 5.1.5)."""
    ab, ac, ap = minus(b, a), minus(c, a), minus(p, a)
    d1, d2 = dot(ab, ap), dot(ac, ap)
    if d1 <= 0.0 and d2 <= 0.0:
        return dot(ap, ap)
    bp = minus(p, b)
    d3, d4 = dot(ab, bp), dot(ac, bp)
    if d3 >= 0.0 and d4 <= d3:
        return dot(bp, bp)
    vc = d1 * d4 - d3 * d2
    if vc <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        away = along(ap, -(d1 / (d1 - d3)), ab)
        return dot(away, away)
    cp = minus(p, c)
    d5, d6 = dot(ab, cp), dot(ac, cp)
    if d6 >= 0.0 and d5 <= d6:
        return dot(cp, cp)
    vb = d5 * d2 - d1 * d6
    if vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        away = along(ap, -(d2 / (d2 - d6)), ac)
        return dot(away, away)
    va = d3 * d6 - d5 * d4
    if va <= 0.0 and d4 - d3 >= 0.0 and d5 - d6 >= 0.0:
        away = along(bp, -((d4 - d3) / ((d4 - d3) + (d5 - d6))), minus(c, b))
        return dot(away, away)
    total = va + vb + vc
    away = along(along(ap, -(vb / total), ab), -(vc / total), ac)
    return dot(away, away)


def edges_of(triangles: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The edges of triangles (m, 3).

    Returns:
        edges: two vertices each, ascending (e, 2).
        uses: how many triangles have each, (e,).
        of_side: edge of the sides 0-1, 1-2, 2-0 of each triangle, (m, 3).
    """
    sides = np.sort(np.stack([triangles, np.roll(triangles, -1, axis=1)], axis=-1), axis=-1).reshape(-1, 2)
    keys = sides[:, 0] * (int(triangles.max()) + 1) + sides[:, 1]
    _, first, of_side, uses = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    return sides[first], uses, of_side.reshape(-1, 3)


def close_holes(vertices: np.ndarray, triangles: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
    """Close each hole of a mesh by a fan of triangles about the mean of its border.

    Args:
        vertices: (n, 3) [m].
        triangles: (m, 3), anticlockwise seen from outside.

    Returns:
        vertices, triangles: with those of the fans at the end.
        closed: whether every edge has triangles on both sides now. Where more than two triangles have an edge, or
            neighbours do not agree about outside, it may not.
    """
    _edges, uses, of_side = edges_of(triangles)
    if np.all(uses == 2):
        return vertices, triangles, True
    t, side = np.nonzero((uses == 1)[of_side])
    following: dict[int, list[int]] = {}
    for u, v in zip(triangles[t, side].tolist(), triangles[t, (side + 1) % 3].tolist(), strict=True):
        following.setdefault(u, []).append(v)
    points, fans = [vertices], [triangles]
    count, closed = len(vertices), bool(np.all(uses <= 2))
    for start in list(following):
        while following.get(start):
            path, place = [start], {start: 0}
            while True:
                after = following.get(path[-1])
                if not after:
                    closed = closed and len(path) == 1
                    break
                vertex = after.pop()
                if vertex not in place:
                    place[vertex] = len(path)
                    path.append(vertex)
                    continue
                border = np.array(path[place[vertex] :])  # a loop; borders that touch are several
                points.append(vertices[border].mean(axis=0, keepdims=True))
                fans.append(np.stack([np.roll(border, -1), border, np.full(len(border), count)], axis=-1))
                count += 1
                for left in path[place[vertex] + 1 :]:
                    del place[left]
                del path[place[vertex] + 1 :]
    return np.concatenate(points), np.concatenate(fans), closed
