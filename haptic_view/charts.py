"""Display of values in strip charts: ranges with a least span, readable units, numbers, coinciding curves."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from haptic_view.frame import Chart

SAME = 0.004  # of the span: curves that are nearer to each other look like one
NEGLIGIBLE = 1e-3  # of the least span: a value that is less far below zero is drawn at zero
DASHES: tuple[tuple[int, ...], ...] = ((), (7, 3), (2, 2), (9, 3, 2, 3))  # of the curves of a chart


def scale_of(chart: Chart, largest: float) -> tuple[str, float]:
    """Unit of a chart, and how many of it are one in SI: a thousandth where its values are far below the usual unit.

    Args:
        chart: of which `unit` is the usual one.
        largest: absolute value that it shows, in SI.
    """
    if chart.unit == "J" and largest < 0.1:
        return "mJ", 1e3
    return chart.unit, chart.scale


def span_of(curves: Sequence[np.ndarray], least: float) -> tuple[float, float]:
    """Range of a chart from round numbers, with zero in it, at least so large; unknown values are NaN."""
    values = np.concatenate([curve[np.isfinite(curve)] for curve in curves]) if curves else np.zeros(0)
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
    high = _round_above(max(high, least if low > -least else 0.0))
    return (0.0 if low > -NEGLIGIBLE * least else -_round_above(-low)), high


def _round_above(value: float) -> float:
    """The least of 1, 2, 3 and 5 times a power of ten that is not below a value; 0 for what is not positive."""
    if value <= 0.0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(value))
    return float(next(power * step for step in (1.0, 2.0, 3.0, 5.0, 10.0) if power * step >= value * (1.0 - 1e-9)))


def covered(curves: Sequence[np.ndarray], span: tuple[float, float]) -> list[int | None]:
    """Index, for each curve (N,), of the first other one that looks the same in the chart, None if there is none."""
    near = SAME * (span[1] - span[0])
    found: list[int | None] = []
    for i, curve in enumerate(curves):
        known = np.isfinite(curve)
        same = (
            j
            for j, other in enumerate(curves[:i])
            if known.any()
            and np.array_equal(known, np.isfinite(other))
            and np.ptp(curve[known] - other[known]) <= near
            and abs(curve[known][0] - other[known][0]) <= near
        )
        found.append(next(same, None))
    return found


def numbers(chart: Chart, curves: Sequence[np.ndarray], span: tuple[float, float], unit: str) -> list[str]:
    """Present value of each curve, in words; of a curve that another hides also the name of that."""
    found = []
    for name, curve, other in zip(chart.curves, curves, covered(curves, span), strict=True):
        now = curve[-1] if len(curve) else math.nan
        value = f"{_plain(float(now), span)} {unit}" if math.isfinite(now) else "\N{EN DASH}"
        found.append(f"{name} {value}" + ("" if other is None else f" (drawn over {chart.curves[other]})"))
    return found


def _plain(value: float, span: tuple[float, float]) -> str:
    """A number to a thousandth of the range of its chart."""
    digits = max(0, 3 - math.ceil(math.log10(max(span[1] - span[0], 1e-9))))
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0.0 else text.replace("-", "\N{MINUS SIGN}")
