"""Variants of a sweep over seeds: their means with intervals, their differences, and box plots."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from haptic_bench.analysis.claims import Quantity
from haptic_bench.report import html
from haptic_view import units
from haptic_view.figures import BLACK, Axis, Figure, Line, Panel, Style, draw, style_of

CONFIDENCE = 0.95
INTERVALS = (
    "Mean of the runs of each variant, with its 95 % interval by Student's t distribution: of independent, normally "
    "distributed runs, 95 % of such intervals hold the true mean. Differences are of runs with the same seeds."
)
BOXES = "Boxes: quartiles and median of the runs of a variant; whiskers: least and greatest; dots: the runs."
HALF = 0.3  # of a box, its height


@dataclass(frozen=True)
class Variant:
    """Runs of a sweep that differ by their seeds alone: those seeds, and numbers of the runs in the sweep."""

    label: str
    runs: dict[str, int]


def variants(labels: Sequence[str], keys: Sequence[str]) -> list[Variant]:
    """The variants of a sweep; empty if none has runs that differ by a seed alone.

    Args:
        labels: KEY=VALUE,KEY=VALUE of each run.
        keys: that were varied.
    """
    seeds = [key for key in keys if key.rpartition(".")[2] == "seed"]
    form = re.compile(",".join(f"{re.escape(key)}=(.*)" for key in keys))
    found: dict[str, dict[str, int]] = {}
    for number, label in enumerate(labels):
        match = form.fullmatch(label)
        if not seeds or match is None:
            return []
        values = dict(zip(keys, match.groups(), strict=True))
        name = ", ".join(f"{key}={value}" for key, value in values.items() if key not in seeds)
        found.setdefault(name or "all runs", {})[",".join(values[key] for key in seeds)] = number
    return [Variant(*one) for one in found.items()] if any(len(runs) > 1 for runs in found.values()) else []


def mean_and_interval(values: np.ndarray) -> tuple[float, float | None]:
    """Mean, and half its interval by the t distribution, None of a single value."""
    from scipy.special import stdtrit  # takes a while to import, for sweeps over seeds alone

    if len(values) < 2:
        return float(values.mean()), None
    factor = float(stdtrit(len(values) - 1, 0.5 + CONFIDENCE / 2))
    return float(values.mean()), factor * float(values.std(ddof=1)) / math.sqrt(len(values))


def table(
    found: Sequence[Variant], metrics: Mapping[str, Sequence[float | None]], shown: Mapping[str, Quantity]
) -> str:
    """A row for each metric and variant.

    Args:
        found: the variants.
        metrics: values of each run, by the metric's name.
        shown: how a metric is shown.
    """
    rows = []
    for name, values in metrics.items():
        if any(value is not None for value in values):
            quantity = shown[name]
            unit = f" [{quantity.unit}]" if quantity.unit else ""
            rows.append(f'<th scope="rowgroup" colspan="4">{escape(quantity.text + unit)}</th>')
            rows += [_row(variant, found[0], values, quantity) for variant in found]
    heads = ["Variant", "Runs", "Mean, 95 % interval", f"Difference from {_breaking(found[0].label)}"]
    return f'<p class="soft">{INTERVALS}</p>\n{html.table(heads, rows, numbers=3)}'


def _row(variant: Variant, base: Variant, values: Sequence[float | None], quantity: Quantity) -> str:
    """The cells of a metric of one variant."""
    own, others = _known(values, variant), _known(values, base)
    change = np.array([own[seed] - others[seed] for seed in own if seed in others])
    numbers = [
        str(len(own)),
        _estimate(np.array(list(own.values())), quantity),
        "" if variant is base else _estimate(change, quantity),
    ]
    return f"<td>{_breaking(variant.label)}</td>" + "".join(f'<td class="number">{number}</td>' for number in numbers)


def _breaking(label: str) -> str:
    """A label as HTML, which may go on in the next line after each key."""
    return escape(label).replace("=", "=<wbr>").replace(".", ".<wbr>")


def _known(values: Sequence[float | None], variant: Variant) -> dict[str, float]:
    """Values of a variant's runs by seed, where they have one."""
    return {
        seed: float(value) for seed, number in variant.runs.items() if isinstance(value := values[number], int | float)
    }


def _estimate(values: np.ndarray, quantity: Quantity) -> str:
    """A mean and its interval."""
    if not len(values):
        return "\N{EN DASH}"
    mean, half = mean_and_interval(values * quantity.scale)
    interval = "" if half is None else f" \N{PLUS-MINUS SIGN} {units.text(half, 2)}"
    return f"{units.text(mean, 4)}{interval}"


def boxes(
    found: Sequence[Variant], metrics: Mapping[str, Sequence[float | None]], shown: Mapping[str, Quantity]
) -> list[Figure]:
    """Box plots of the metrics that differ within a variant."""
    panels = []
    for name, values in metrics.items():
        groups = [np.array(list(_known(values, variant).values())) * shown[name].scale for variant in found]
        if any(len(group) > 2 and np.ptp(group) > 0.0 for group in groups):
            panels.append(_panel(name, shown[name], [variant.label for variant in found], groups))
    return [Figure("Variants", BOXES, panels)] if panels else []


def _panel(name: str, quantity: Quantity, labels: Sequence[str], groups: Sequence[np.ndarray]) -> Panel:
    """The box plot of a metric."""
    lines = []
    for i, group in enumerate(groups):
        if len(group):
            colour = style_of(i).colour
            lines.append(Line(group, np.full(len(group), float(i)), "_runs", Style(colour), points=True))
            lines.append(Line(*_box(group, float(i)), "_box", Style(BLACK, width=1.0)))
    x = f"{quantity.text} [{quantity.unit}]" if quantity.unit else quantity.text
    y = Axis("", span=(len(labels) - 0.5, -0.5), names=tuple(labels))
    safe = re.sub(r"[^A-Za-z0-9_]+", "_", name)
    return draw(f"variants_{safe}", quantity.text, lines, Axis(x), y)


def _box(values: np.ndarray, y: float) -> tuple[np.ndarray, np.ndarray]:
    """The outline of a box, its median and its whiskers, at a height."""
    least, first, median, third, greatest = np.percentile(values, [0, 25, 50, 75, 100])
    gap = (math.nan, math.nan)
    low, high = y - HALF, y + HALF
    outline = [(first, low), (third, low), (third, high), (first, high), (first, low), gap]
    inside = [(median, low), (median, high), gap, (least, y), (first, y), gap, (third, y), (greatest, y)]
    points = np.array(outline + inside)
    return points[:, 0], points[:, 1]
