"""Figures of a report: curves of several runs side by side, as SVG.

matplotlib is imported where a panel is drawn, so that nothing else pays for it; there is no pyplot state. The
same data give the same bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from haptic_bench.experiment import Trial
from haptic_bench.samples import Samples

# Colours after Okabe and Ito, which colour-blind readers tell apart, and dashes for those who see none.
BLACK, BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = (
    "#222222",
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#b8578f",
    "#c98a00",
    "#3d9bd1",
)
SOLID: tuple[float, ...] = ()
_COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
_DASHES = (SOLID, (5, 1.8), (5, 1.6, 1.2, 1.6), (1.3, 1.3), (8, 2), (3, 1.5, 1, 1.5, 1, 1.5), (2.5, 1.5))

_SIZE = {False: (480.0, 330.0), True: (480.0, 676.0)}  # [pt], of a panel and of a tall one
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.edgecolor": "#666666",
    "axes.labelcolor": "#222222",
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "xtick.major.size": 3.0,
    "ytick.major.size": 3.0,
    "lines.dash_capstyle": "butt",
    "lines.scale_dashes": True,
    # Points are left out of a path where it stays within 1/9 pt of them: no peak is lost.
    "path.simplify": True,
    "path.simplify_threshold": 1 / 9,
}


@dataclass(frozen=True)
class Style:
    """How the curve of a run looks, in every panel."""

    colour: str = BLUE
    dashes: tuple[float, ...] = SOLID  # on, off, ... in line widths
    width: float = 1.4  # [pt]


@dataclass(frozen=True)
class Curve:
    """A run in a figure."""

    label: str
    trial: Trial
    samples: Samples
    style: Style


@dataclass(frozen=True)
class Line:
    """A line of a panel; `steps` where values are held until the next (wrenches over their tick)."""

    x: np.ndarray
    y: np.ndarray
    label: str
    style: Style
    steps: bool = False


@dataclass(frozen=True)
class Panel:
    """One drawing: the name of its file, what it shows, and the SVG document."""

    name: str
    title: str
    svg: str
    tall: bool = False


@dataclass(frozen=True)
class Figure:
    """Panels that belong together, and a table under them whose first row is its head. Texts are plain."""

    title: str
    caption: str
    panels: list[Panel]
    table: list[list[str]] = field(default_factory=list)


def style_of(index: int) -> Style:
    """The style of run `index` of a sweep; 42 differ from each other."""
    return Style(_COLOURS[index % len(_COLOURS)], _DASHES[index % len(_DASHES)])


def draw(
    name: str,
    title: str,
    lines: Sequence[Line],
    x_label: str,
    y_label: str,
    *,
    x_range: tuple[float, float] | None = None,
    y_range: tuple[float, float] | None = None,
    linear: float | None = None,
    least: float = 0.0,
    equal: bool = False,
    corner: tuple[float, float] | None = None,
    tall: bool = False,
) -> Panel:
    """Draw a panel.

    Args:
        name: of its file, without ending.
        title: what it shows.
        lines: the curves, the first on top.
        x_label, y_label: of the axes, with units.
        x_range, y_range: what is shown; all of it if None.
        linear: the y axis is linear up to this value and logarithmic from there; None: linear everywhere.
        least: smallest height of the y axis, so that rounding errors are not magnified.
        equal: one unit is as long on both axes.
        corner: position of a right and a lower wall, which are shaded.
        tall: draw it twice as high.
    """
    import matplotlib
    from matplotlib.figure import Figure as Drawing

    width, height = _SIZE[tall]
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # not those of the user: a report looks the same everywhere
        matplotlib.rcParams.update(_SETTINGS | {"svg.hashsalt": name})
        drawing = Drawing(figsize=(width / 72, height / 72))
        columns = 2 if len(lines) > 1 else 1
        rows = -(-len(lines) // columns)
        top = height - 26.0 - 14.0 * rows
        axes = drawing.add_axes((58 / width, 40 / height, (width - 70) / width, (top - 40) / height))
        for depth, line in enumerate(lines):
            _plot(axes, line, x_range, 3.0 - depth / len(lines))
        if equal:
            _equal(axes, (width - 70) / (top - 40))
        if x_range is not None:
            axes.set_xlim(*x_range)
        if linear is not None:
            _symmetric_log(axes, linear)
        if y_range is not None:
            axes.set_ylim(*y_range)
        elif linear is None and not equal:
            _at_least(axes, least)
        if corner is not None:
            _shade(axes, *corner)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        drawing.text(8 / width, 1 - 15 / height, title, fontsize=9.5, fontweight="bold", color="#222222")
        drawing.legend(
            *axes.get_legend_handles_labels(),
            loc="upper left",
            bbox_to_anchor=(50 / width, 1 - 18 / height),
            ncols=columns,
            frameon=False,
            handlelength=3.4,
            columnspacing=1.6,
            labelspacing=0.25,
            borderpad=0.2,
        )
        buffer = io.StringIO()
        drawing.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return Panel(name, title, _tidy(buffer.getvalue(), name, title), tall)


def _plot(axes: Any, line: Line, x_range: tuple[float, float] | None, order: float) -> None:
    x, y = line.x, line.y
    if x_range is not None and line.steps:  # what is far outside would only make the file larger
        inside = np.flatnonzero((x >= x_range[0]) & (x <= x_range[1]))
        if inside.size:
            shown = slice(max(inside[0] - 1, 0), inside[-1] + 2)
            x, y = x[shown], y[shown]
    axes.plot(
        x,
        y,
        label=line.label,
        color=line.style.colour,
        linewidth=line.style.width,
        zorder=order,
        drawstyle="steps-post" if line.steps else "default",
        **({"dashes": line.style.dashes} if line.style.dashes else {}),
    )


def _at_least(axes: Any, least: float) -> None:
    low, high = axes.get_ylim()
    if high - low < least:
        middle = round(0.5 * (low + high) / least) * least
        axes.set_ylim(middle - 0.5 * least, middle + 0.5 * least)


def _equal(axes: Any, shape: float) -> None:
    """Extend the limits until a unit is as long on both axes of a box `shape` times as wide as high."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    wide, high = max(right - left, shape * (top - bottom)), max(top - bottom, (right - left) / shape)
    axes.set_xlim(0.5 * (left + right - wide), 0.5 * (left + right + wide))
    axes.set_ylim(0.5 * (bottom + top - high), 0.5 * (bottom + top + high))


def _symmetric_log(axes: Any, linear: float) -> None:
    """A scale that is linear up to `linear`, with a tick at each power of ten."""
    axes.set_yscale("symlog", linthresh=linear, linscale=1.0)
    low, high = axes.dataLim.intervaly
    largest = max(abs(low), abs(high), linear)
    powers = linear * 10.0 ** np.arange(0, np.ceil(np.log10(largest / linear)) + 1)
    ticks = [*(-powers[::-1] if low < 0 else []), 0.0, *(powers if high > 0 else [])]
    axes.set_yticks(ticks, [f"{tick:g}".replace("-", "\N{MINUS SIGN}") for tick in ticks])
    axes.set_yticks([], minor=True)
    axes.set_ylim(1.25 * low if low < -linear else -1.25 * linear, 1.25 * high if high > linear else 1.25 * linear)


def _shade(axes: Any, right: float, lower: float) -> None:
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


def _tidy(svg: str, name: str, title: str) -> str:
    """Coordinates to 0.01 pt, ids that are unique on a page of several panels, a name to read aloud."""
    svg = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), svg)
    svg = re.sub(r'(\bid="|href="#|url\(#)', lambda match: f"{match[1]}{name}.", svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)


def trial_figures(curves: Sequence[Curve]) -> list[Figure]:
    """The figures of any trial: trajectories of hand and tool, wrenches, kinetic energy."""
    return [figure for figure in (_trajectories(curves), _wrenches(curves), _energy(curves)) if figure is not None]


def _has(curves: Sequence[Curve], column: str) -> bool:
    return all(column in curve.samples.names for curve in curves)


def _trajectories(curves: Sequence[Curve]) -> Figure | None:
    bodies = [body for body in ("hand", "tool") if _has(curves, f"{body}_px")]
    panels = []
    for body in bodies:
        positions = [1e3 * curve.samples.group(body, "px", "py", "pz") for curve in curves]
        planar = all(np.ptp(position[:, 2]) == 0.0 for position in positions)
        for axis in (1,) if planar else (1, 2):
            across = "xyz"[axis]
            lines = [
                Line(p[:, 0], p[:, axis], curve.label, curve.style) for p, curve in zip(positions, curves, strict=True)
            ]
            panels.append(
                draw(
                    f"trajectory_{body}_x{across}",
                    f"Trajectory of the {body}",
                    lines,
                    "x [mm]",
                    f"{across} [mm]",
                    equal=True,
                )
            )
    if not panels:
        return None
    return Figure("Trajectories", f"Position of the {' and of the '.join(bodies)}.", panels)


def _wrenches(curves: Sequence[Curve]) -> Figure | None:
    known = {"rendered": "rendered on the device", "env": "of the environment on the tool"}
    source = next((name for name in known if _has(curves, f"{name}_fx")), None)
    if source is None:
        return None
    panels = []
    for component in ("fx", "fy", "fz", "tx", "ty", "tz"):
        values = [curve.samples[f"{source}_{component}"] for curve in curves]
        if component not in ("fx", "fy", "tz") and not any(value.any() for value in values):
            continue  # out of the plane
        kind, unit = ("Force", "N") if component[0] == "f" else ("Torque", "N m")
        lines = [
            Line(curve.samples["time"], value, curve.label, curve.style, steps=True)
            for value, curve in zip(values, curves, strict=True)
        ]
        title = f"{kind} {'along' if kind == 'Force' else 'about'} {component[1]}"
        panels.append(draw(f"wrench_{component}", title, lines, "time [s]", f"{title.lower()} [{unit}]", least=0.2))
    return Figure("Forces and torques", f"Wrench {known[source]}, held over each tick.", panels)


def _energy(curves: Sequence[Curve]) -> Figure | None:
    if not _has(curves, "kinetic_energy"):
        return None
    lines = [
        Line(curve.samples["time"], 1e3 * curve.samples["kinetic_energy"], curve.label, curve.style) for curve in curves
    ]
    panel = draw("kinetic_energy", "Kinetic energy of the tool", lines, "time [s]", "kinetic energy [mJ]", least=1e-3)
    return Figure("Kinetic energy", "Kinetic energy of the tool.", [panel])
