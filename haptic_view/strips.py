"""Curves of strip charts from frames: a frame shows one tick, and its curves keep the extremes of those before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from haptic_view.frame import Chart, CurveKey, Frame


class Extremes:
    """The least and the greatest value of curves since it was asked last."""

    def __init__(self) -> None:
        self._found: dict[CurveKey, tuple[float, float]] = {}

    def note(self, values: Mapping[CurveKey, float]) -> None:
        """Take the values of an instant."""
        for key, value in values.items():
            low, high = self._found.get(key, (value, value))
            self._found[key] = min(low, value), max(high, value)

    def take(self) -> dict[CurveKey, tuple[float, float]]:
        """Return the result, and forget it."""
        found, self._found = self._found, {}
        return found


def strip(frames: Sequence[Frame], chart: Chart) -> tuple[np.ndarray, list[np.ndarray]]:
    """Times (N,) of a chart, and its curves (N,) in SI units; what is not known is NaN.

    A frame is a point. Where a curve was higher or lower since the frame before than at both, two points between them
    have its extremes.
    """
    keys = [(chart.name, curve) for curve in chart.curves]
    shape = len(frames), len(keys)
    times = np.array([frame.time for frame in frames])
    values = np.array([[frame.values.get(key, np.nan) for key in keys] for frame in frames]).reshape(shape)
    none = np.nan, np.nan
    found = np.array([[frame.extremes.get(key, none) for key in keys] for frame in frames]).reshape(*shape, 2)
    before = np.concatenate([values[:1], values[:-1]])
    low, high = np.fmin(found[..., 0], values), np.fmax(found[..., 1], values)
    beyond = (low < np.fmin(values, before)) | (high > np.fmax(values, before))
    beyond[:1] = False
    wanted = beyond.any(axis=1)
    step = np.diff(times, prepend=times[:1])
    places, points = [times], [values]
    for part, extreme in (1.0 / 3.0, low), (2.0 / 3.0, high):
        straight = before + part * (values - before)
        places.append((times - (1.0 - part) * step)[wanted])
        points.append(np.where(beyond, extreme, straight)[wanted])
    order = np.argsort(np.concatenate(places), kind="stable")
    return np.concatenate(places)[order], list(np.concatenate(points)[order].T)
