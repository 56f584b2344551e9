"""Configurations near the start in which the rows of a system lose rank, or its inertia is singular.

One coordinate after the other is moved from the start, and the others follow as little as the positions demand: a
configuration that violates the positions is none of the system's. What only a motion of several coordinates reaches is
not found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from haptic_sim.linalg import RANK_TOLERANCE

_GRID = 32  # steps of a coordinate to each side
_SINGULAR = 1e-6  # least singular value, of the largest, at a configuration that is shown
_REGULAR = 1e-3  # what it must reach elsewhere on the path
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)
_PLACE = 1e-13  # [m, rad] to which a place is found
_KINDS = ("rows", "inertia")

Returned = Callable[[np.ndarray, int], np.ndarray | None]
Least = Callable[[np.ndarray], tuple[float, float]]


def find_singularities(
    names: Sequence[str], q: np.ndarray, reach: Sequence[float], returned: Returned, least: Least
) -> tuple[str, ...]:
    """Singularities that a system reaches, as texts; `possible` where the rank is not lost in numbers.

    Args:
        names: of the coordinates.
        q: configuration at the start, on the positions.
        reach: how far each coordinate goes from zero.
        returned: a configuration brought to the positions with one coordinate fixed; None where that fails.
        least: least singular values of rows and inertia at a configuration, of the largest.
    """
    found: list[str] = []
    for i, name in enumerate(names):
        path = _Path(q, i, reach[i], returned, least)
        for kind, what in enumerate(_KINDS):
            for place, value in path.singular(kind):
                sure = "" if value <= RANK_TOLERANCE else ", possible"
                found.append(f"{what}: {name} = {round(place, 6) + 0.0:g}{sure}")
    return tuple(dict.fromkeys(found))


class _Path:
    """Configurations with the coordinate i moved from the start to both sides, as far as the positions allow.

    A side ends where two in succession are singular: from there on the path is not the only one.
    """

    def __init__(self, q: np.ndarray, i: int, reach: float, returned: Returned, least: Least):
        self._i, self._returned, self._find_least = i, returned, least
        sides = []
        for step in (-reach / _GRID, reach / _GRID):
            side: list[tuple[np.ndarray, tuple[float, float]]] = []
            here: np.ndarray | None = q
            while here is not None and abs(here[i] + step) <= reach * (1.0 + 1e-9):
                here = self._moved(here, step)
                if here is not None:
                    side.append((here, least(here)))
                if len(side) > 1 and any(
                    max(side[-1][1][kind], side[-2][1][kind]) <= RANK_TOLERANCE for kind in (0, 1)
                ):
                    break
            sides.append(side)
        points = [*reversed(sides[0]), (q, least(q)), *sides[1]]
        self._points, self._values = [point for point, _ in points], np.array([values for _, values in points])

    def _moved(self, q: np.ndarray, offset: float) -> np.ndarray | None:
        moved = q.copy()
        moved[self._i] += offset
        return self._returned(moved, self._i)

    def _depth(self, q: np.ndarray, offset: float, kind: int) -> float:
        back = self._moved(q, offset)
        return 1.0 if back is None else self._find_least(back)[kind]

    def singular(self, kind: int) -> Iterator[tuple[float, float]]:
        """Values of the coordinate at which this is singular, and the least singular value there."""
        i, points, values, last = self._i, self._points, self._values[:, kind], len(self._points) - 1
        if not values.max() > _REGULAR:
            return
        lost = values <= RANK_TOLERANCE
        for j, q in enumerate(points):
            low, high = max(j - 1, 0), min(j + 1, last)
            inwards = 1 if j == 0 else -1
            if j in (0, last) and last > 1 and lost[j] and lost[j + inwards]:
                regular = points[j + 2 * inwards]
                yield self._onset(regular, points[j + inwards][i] - regular[i], kind)
            elif values[j] <= min(values[low], values[high]) and not (
                lost[j] and (lost[low] + lost[high] + lost[j]) > 1
            ):
                yield from self._minimum(q, points[low][i] - q[i], points[high][i] - q[i], kind)

    def _onset(self, q: np.ndarray, singular: float, kind: int) -> tuple[float, float]:
        """Coordinate at which a singularity begins, and its depth; by bisection between q and q + `singular`."""
        regular = 0.0
        while abs(singular - regular) > 1e-9:
            middle = 0.5 * (singular + regular)
            if self._depth(q, middle, kind) <= RANK_TOLERANCE:
                singular = middle
            else:
                regular = middle
        return q[self._i] + singular, self._depth(q, singular, kind)

    def _minimum(self, q: np.ndarray, low: float, high: float, kind: int) -> Iterator[tuple[float, float]]:
        def depth(offset: float) -> float:
            return self._depth(q, offset, kind)

        inner, outer = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        at_inner, at_outer = depth(inner), depth(outer)
        while high - low > _PLACE:
            if at_inner < at_outer:
                high, outer, at_outer = outer, inner, at_inner
                inner = high - _GOLDEN * (high - low)
                at_inner = depth(inner)
            else:
                low, inner, at_inner = inner, outer, at_outer
                outer = low + _GOLDEN * (high - low)
                at_outer = depth(outer)
        best = min((0.0, inner, outer), key=depth)
        value = depth(best)
        if value < _SINGULAR:
            yield q[self._i] + best, value
