"""Scales of a panel: least ranges, equal units, logarithms, whole numbers, and labels of ticks that differ."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from haptic_view import units

PLAIN = 1e-4, 1e6  # numbers in between need no power of ten
PART = 1e-6  # of the largest number: a smaller span would show how numbers are rounded
LEASTS = {  # smallest spans of what is measured in a unit: what is below is no motion, force or energy
    **{"m": 1e-6, "mm": 1e-3, "µm": 1e-3, "rad": 1e-6, "mrad": 1e-3, "µrad": 1e-3, "deg": 1e-4},
    **{"m/s": 1e-6, "mm/s": 1e-3, "rad/s": 1e-6, "N": 1e-2, "N m": 1e-3, "N s": 1e-6},
    **{"J": 1e-9, "mJ": 1e-6, "uJ": 1e-3, "µJ": 1e-3, "nJ": 1.0},
}


def least_of(label: str) -> float:
    """The smallest span of an axis by the unit in its label; 0 for any other unit."""
    unit = re.search(r"\[([^\[\]]*)\]$", label)
    return 0.0 if unit is None else LEASTS.get(unit[1], 0.0)


def at_least(axes: Any, least: float) -> None:
    low, high = axes.get_ylim()
    least = max(least, PART * max(abs(low), abs(high)))
    if high - low < least:
        middle = round(0.5 * (low + high) / least) * least
        axes.set_ylim(middle - 0.5 * least, middle + 0.5 * least)


def equal(axes: Any, shape: float, least: float) -> None:
    """Extend the limits until a unit is as long on both axes of a box `shape` times as wide as high."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    high = max(top - bottom, (right - left) / shape, least)
    wide = shape * high
    axes.set_xlim(0.5 * (left + right - wide), 0.5 * (left + right + wide))
    axes.set_ylim(0.5 * (bottom + top - high), 0.5 * (bottom + top + high))


def symmetric_log(axes: Any, linear: float) -> None:
    """A scale that is linear up to `linear`, with a tick at each power of ten."""
    axes.set_yscale("symlog", linthresh=linear, linscale=1.0)
    low, high = axes.dataLim.intervaly
    largest = max(abs(low), abs(high), linear)
    powers = linear * 10.0 ** np.arange(0, np.ceil(np.log10(largest / linear)) + 1)
    ticks = [*(-powers[::-1] if low < 0 else []), 0.0, *(powers if high > 0 else [])]
    axes.set_yticks(ticks, [units.typeset(f"{tick:g}") for tick in ticks])
    axes.set_yticks([], minor=True)
    axes.set_ylim(1.25 * low if low < -linear else -1.25 * linear, 1.25 * high if high > linear else 1.25 * linear)


def log(axes: Any, name: str) -> None:
    """A logarithmic scale whose ticks are plain numbers, also at 2 and 5 where it spans few powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis = getattr(axes, f"{name}axis")
    low, high = sorted(axis.get_data_interval())
    if not high > 0.0:  # nothing that it could show
        return
    axes.set(**{f"{name}scale": "log"})
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 1e3 * low else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: units.typeset(f"{value:g}")))
    axis.set_minor_formatter(NullFormatter())


def plain(axis: Any) -> None:
    """Powers of ten beside each number of a linear axis that needs them, with so many digits that all differ."""
    from matplotlib.ticker import FuncFormatter

    low, high = axis.get_view_interval()
    largest, span = float(max(abs(low), abs(high))), float(abs(high - low))
    if axis.get_scale() != "linear" or not largest > 0.0 or PLAIN[0] <= largest < PLAIN[1]:
        return
    digits = int(np.clip(np.ceil(np.log10(largest / span)) + 2, 6, 17)) if span > 0.0 else 6

    def label(value: float, _: Any) -> str:
        return units.typeset(f"{0.0 if abs(value) < 1e-9 * span else value:.{digits}g}")

    axis.set_major_formatter(FuncFormatter(label))


def count(axes: Any) -> None:
    """A y axis of whole numbers from 0 on."""
    from matplotlib.ticker import MaxNLocator

    largest = float(axes.dataLim.ymax)
    axes.set_ylim(0.0, max(3.0, 1.1 * largest) if np.isfinite(largest) else 3.0)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))


def shade(axes: Any, right: float, lower: float) -> None:
    """Shade what is inside the walls; the border is where penetration begins."""
    (left, most), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    if most > right:
        axes.axvspan(right, most, color="#f1ece4", zorder=0.5, linewidth=0)
        axes.axvline(right, color="#8a7f70", linewidth=0.9, zorder=0.9)
    if bottom < lower:
        axes.axhspan(bottom, lower, color="#f1ece4", zorder=0.5, linewidth=0)
        axes.axhline(lower, color="#8a7f70", linewidth=0.9, zorder=0.9)
    axes.set_xlim(left, most)
    axes.set_ylim(bottom, top)
