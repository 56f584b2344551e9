"""Figures: curves in panels, as SVG.

A panel is drawn when its document is first asked for. matplotlib is imported then, so that other commands start without
it; no global state (pyplot) is used. The same data give the same bytes.
"""

from __future__ import annotations

import importlib
import io
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from html import escape
from pathlib import Path
from typing import IO, Any

import numpy as np

from haptic_view import scales, vector

# Colours after Okabe and Ito, which colour-blind readers distinguish, and dashes for those who see none.
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

BUCKETS = 700  # of a curve over time: about two in a point (1/72 in) of a panel's width

_SIZE = {False: (480.0, 330.0), True: (480.0, 676.0)}  # [pt], of a panel and of a tall one
_LETTER, _HANDLE = 5.0, 48.0  # [pt], width of a letter of a legend, and of the line and the gaps beside it
_EDGE = 3.0  # [pt] between a panel's edge and the labels of its axes
_TICK = 6.5  # [pt] from an axis to the labels of its ticks
_ROWS = 5  # of a legend; a panel grows with more
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "pdf.fonttype": 42,  # TrueType, which publishers want
    "hatch.linewidth": 0.5,
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
    "axes.formatter.useoffset": False,
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


LARGEST = 1e30  # in any unit: what is beyond is left out of a drawing


@dataclass(frozen=True)
class Style:
    """Colour, dashes and width of the curve of a run, the same in every panel."""

    colour: str = BLUE
    dashes: tuple[float, ...] = SOLID  # on, off, ... in line widths
    width: float = 1.4  # [pt]


@dataclass(frozen=True)
class Line:
    """A line of a panel; `steps` where values are held until the next (wrenches over their tick).

    An `area` is filled from the line to 0, and hides the areas after it: sums that grow are a stack. `points` are
    drawn as such, without a line between them. `hatch`: of an area, as matplotlib names them.
    """

    x: np.ndarray
    y: np.ndarray
    label: str
    style: Style
    steps: bool = False
    area: bool = False
    points: bool = False
    hatch: str = ""

    def __post_init__(self) -> None:
        for name in ("x", "y"):  # of a trial that diverged: axes cannot be made for such values
            values = np.asarray(getattr(self, name), dtype=float)
            with np.errstate(invalid="ignore"):
                object.__setattr__(self, name, np.where(np.abs(values) < LARGEST, values, np.nan))


@dataclass(frozen=True)
class Axis:
    """An axis of a panel.

    Attributes:
        label: with its unit.
        span: what is shown; all of it if None.
        least: smallest span of a y axis, so that rounding errors are not magnified; None: as its unit says.
        linear: a y axis is linear up to this value and logarithmic from there; None: linear everywhere.
        log: whether it is logarithmic.
        counts: whether a y axis begins at 0 and has whole numbers only.
        names: of the values 0, 1, ... of a y axis, in place of numbers.
    """

    label: str
    span: tuple[float, float] | None = None
    least: float | None = None
    linear: float | None = None
    log: bool = False
    counts: bool = False
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.least is None:
            object.__setattr__(self, "least", scales.least_of(self.label))


@dataclass(frozen=True)
class Panel:
    """One drawing.

    Attributes:
        name: of its file.
        title: what it shows.
        make: draws the document.
        tall: twice as high.
        empty: it shows nothing.
        save: draws it into a file that is open, as a kind of `KINDS`; None: from the document.
    """

    name: str
    title: str
    make: Callable[[], str]
    tall: bool = False
    empty: bool = False
    save: Callable[[IO[bytes], str], None] | None = None

    @cached_property
    def svg(self) -> str:
        """The document."""
        return self.make()

    @property
    def moves(self) -> bool:
        """Whether the panel is an animation."""
        return 'class="moving"' in self.svg

    def document(self, kind: str) -> bytes:
        """The drawing as a document of one of `KINDS`; the same each time."""
        if kind == "svg":
            return self.svg.encode()
        buffer = io.BytesIO()
        (self.save or partial(vector.save_as, self.svg))(buffer, kind)
        return buffer.getvalue()


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
    x: Axis | str,
    y: Axis | str,
    *,
    equal: bool = False,
    corner: tuple[float, float] | None = None,
    marks: Line | None = None,
    tall: bool = False,
) -> Panel:
    """Draw a panel.

    Args:
        name: of its file, without ending.
        title: what it shows.
        lines: the curves, the first on top.
        x, y: its axes, or their labels alone.
        equal: one unit is as long on both axes.
        corner: position of a right and a lower wall, which are shaded.
        marks: points to mark; None or empty: none.
        tall: draw it twice as high.
    """
    x, y = (Axis(axis) if isinstance(axis, str) else axis for axis in (x, y))
    if marks is not None and not marks.x.size:
        marks = None
    empty = marks is None and not any(_shows(line, equal, y.least or 0.0) for line in lines)
    lines = _noted(lines, y)
    shown = (name, title, lines, (x, y), equal, corner, marks, tall)
    return Panel(name, title, partial(_svg, *shown), tall, empty, partial(_save, shown))


def import_matplotlib() -> None:
    """Import what draws panels, before a process forks: its forks then need not import it each for themselves."""
    for name in ("matplotlib.figure", "matplotlib.backends.backend_svg"):
        importlib.import_module(name)


_Shown = tuple[str, str, Sequence[Line], tuple[Axis, Axis], bool, "tuple[float, float] | None", "Line | None", bool]
"""The arguments of `draw`: name, title, lines, both axes, equal, corner, marks, tall."""


def _svg(*shown: Any) -> str:
    """The document of a panel, as SVG; arguments as of `_Shown`."""
    name, title, lines, (x, y), *_ = shown
    buffer = io.StringIO()
    _save(shown, buffer, "svg")
    names = ", ".join(line.label for line in lines if not line.label.startswith("_"))
    return _tidy(buffer.getvalue(), name, title, f"{y.label} over {x.label}: {names}")


def _save(shown: _Shown, file: IO[Any], kind: str) -> None:
    """Draw a panel into a file."""
    name, title, lines, axes_of, equal, corner, marks, tall = shown
    import matplotlib

    x, y = axes_of
    width, height = _SIZE[tall]
    named = [line for line in (*lines, *([] if marks is None else [marks])) if not line.label.startswith("_")]
    longest = max((len(line.label) for line in named), default=0)
    columns = 2 if len(named) > 1 and 2 * (longest * _LETTER + _HANDLE) <= width - 50 else 1
    rows = -(-len(named) // columns)
    height += 14.0 * max(0, rows - _ROWS)
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # not those of the user: a report looks the same everywhere
        matplotlib.rcParams.update(_SETTINGS | {"svg.hashsalt": name})
        drawing, axes = _emptied()
        drawing.set_size_inches(width / 72, height / 72)
        top = height - 26.0 - 14.0 * rows
        axes.set_position((58 / width, 40 / height, (width - 70) / width, (top - 40) / height))
        for depth, line in enumerate(lines):
            _plot(axes, line, x.span, 3.0 - depth / len(lines))
        if marks is not None:
            how: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 5.0, "zorder": 4.0}
            how |= {"markerfacecolor": "none", "markeredgecolor": marks.style.colour}
            axes.plot(marks.x, marks.y, label=marks.label, **how)
        if equal:
            scales.equal(axes, (width - 70) / (top - 40), y.least or 0.0)
        if x.span is not None:
            axes.set_xlim(*x.span)
        if y.linear is not None:
            scales.symmetric_log(axes, y.linear)
        for name_of_axis, axis in (("x", x), ("y", y)):
            if axis.log:
                scales.log(axes, name_of_axis)
        if y.counts:
            scales.count(axes)
        if y.span is not None:
            axes.set_ylim(*y.span)
        elif y.linear is None and not (equal or y.log or y.counts):
            scales.at_least(axes, y.least or 0.0)
        if corner is not None:
            scales.shade(axes, *corner)
        scales.plain(axes.xaxis)
        scales.plain(axes.yaxis)
        if y.names:
            axes.set_yticks(range(len(y.names)), y.names)
        axes.set_xlabel(x.label)
        axes.set_ylabel(y.label)
        inside = _fit_labels(axes, width)
        if equal:
            scales.equal(axes, inside / (top - 40), y.least or 0.0)
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
        drawing.savefig(file, format=kind, **vector.WITHOUT_DATES[kind])


@cache
def _blank() -> Any:
    """Axes for every panel of this process: new axes, with new ticks, would take a third of a panel's time."""
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing()
    drawing.add_axes((0.0, 0.0, 1.0, 1.0))
    return drawing


def _emptied() -> tuple[Any, Any]:
    """A drawing and its axes, as if nothing had been drawn on them."""
    drawing = _blank()
    (axes,) = drawing.axes
    for artist in [*axes.lines, *axes.patches, *drawing.texts, *drawing.legends]:
        artist.remove()
    axes.set(xscale="linear", yscale="linear", xlim=(0.0, 1.0), ylim=(0.0, 1.0))  # no axis upside down
    axes.relim()
    axes.autoscale()
    return drawing, axes


_LONGEST = 76  # letters of a label with a note: longer ones would leave the panel
_SAME = 0.004  # of the height of what is shown: curves that are nearer to each other look like one


def _noted(lines: Sequence[Line], y: Axis) -> Sequence[Line]:
    """Lines whose legend says which curve lies on top of them."""
    values = [line.y[np.isfinite(line.y)] for line in lines if not (line.area or line.points)]
    ends = [end for some in values if some.size for end in (some.min(), some.max())]
    if not ends or y.log or y.linear is not None:
        return lines
    height = max(max(ends) - min(ends), y.least or 0.0) if y.span is None else y.span[1] - y.span[0]
    found: list[Line] = []
    for line in lines:
        over = next((other for other in found if _on_top(other, line, _SAME * height)), None)
        noted = line.label if over is None else f"{line.label} (as {over.label.partition(' (as ')[0]})"
        found.append(line if len(noted) > _LONGEST else replace(line, label=noted))
    return found


def _on_top(over: Line, line: Line, near: float) -> bool:
    """Whether a curve with a name hides another one all along it."""
    if any(one.label.startswith("_") or one.area or one.points for one in (over, line)):
        return False
    if over.x.shape == line.x.shape and np.array_equal(over.x, line.x, equal_nan=True):
        there = over.y
    elif over.x.size > 1 and line.x.size > 1 and np.all(np.diff(over.x) > 0.0):
        there = np.interp(line.x, over.x, over.y, np.nan, np.nan)
    else:
        return False
    known = np.isfinite(line.y)
    return bool(known.any() and np.all(np.abs(line.y[known] - there[known]) <= near))


def _fit_labels(axes: Any, width: float) -> float:
    """Narrow the axes of a panel, `width` points wide, as far as their labels need it; returns the width left [pt].

    matplotlib itself would place all labels to tell, and once more where it draws them, which takes most of the time.
    """
    left, bottom, right, top = axes.get_position().extents
    beside = _TICK + max((_size_of(text)[0] for _, text in _labels(axes.yaxis)), default=0.0)
    if axes.get_ylabel():
        beside += axes.yaxis.labelpad + _size_of(f"lp{axes.get_ylabel()}")[1]  # a line is as high as these letters
    left += max(0.0, _EDGE + beside - left * width) / width
    scaled, inside = axes.xaxis.get_transform().transform, (right - left) * width
    low, high = scaled(axes.get_xlim())
    ends = [
        inside * (scaled(value) - low) / (high - low) + 0.5 * _size_of(text)[0] for value, text in _labels(axes.xaxis)
    ]
    ends.append(0.5 * (inside + _size_of(axes.get_xlabel())[0]))
    right -= max(0.0, left * width + max(ends) + _EDGE - width) / width
    axes.set_position((left, bottom, right - left, top - bottom))
    return float((right - left) * width)


def _labels(axis: Any) -> list[tuple[float, str]]:
    """Values and labels of the ticks of an axis that are shown."""
    low, high = sorted(axis.get_view_interval())
    found = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
    return [(value, label.get_text()) for value, label in found if low <= value <= high]


@cache
def _size_of(text: str) -> tuple[float, float]:
    """Width and height of a label [pt]."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=_SETTINGS["font.family"], size=_SETTINGS["font.size"])
    width, height, _ = text_to_path.get_text_width_height_descent(text, font, False)
    return float(width), float(height)


_NOTHING = 1e-3  # of the smallest height of an axis: less cannot be distinguished from zero
_DOT = 0.05  # of the same: a shorter path cannot be distinguished from a point


def _shows(line: Line, equal: bool, least: float) -> bool:
    """Whether a line shows anything: not if it is zero throughout, or a single point of a path."""
    finite = np.isfinite(line.x) & np.isfinite(line.y)
    if not finite.any():
        return False
    if equal:
        return line.points or float(max(np.ptp(line.x[finite]), np.ptp(line.y[finite]))) > _DOT * least
    return float(np.abs(line.y[finite]).max()) > _NOTHING * least


def _plot(axes: Any, line: Line, x_range: tuple[float, float] | None, order: float) -> None:
    x, y = line.x, line.y
    if x_range is not None and line.steps:  # what is far outside would only make the file larger
        inside = np.flatnonzero((x >= x_range[0]) & (x <= x_range[1]))
        if inside.size:
            shown = slice(max(inside[0] - 1, 0), inside[-1] + 2)
            x, y = x[shown], y[shown]
    if line.area:
        _fill(axes, x, y, line, order)
        return
    if line.points:
        how = {
            "linestyle": "none",
            "marker": "o",
            "markersize": 4.5,
            "markeredgecolor": "white",
            "markeredgewidth": 0.5,
        }
        axes.plot(x, y, label=line.label, color=line.style.colour, zorder=order + 1.0, **how)
        return
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


def _fill(axes: Any, x: np.ndarray, y: np.ndarray, line: Line, order: float) -> None:
    from matplotlib.colors import to_rgb

    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    tint = tuple(0.45 + 0.55 * part for part in to_rgb(line.style.colour))
    outline = np.concatenate([x[:1], x, x[-1:]]), np.concatenate([0.0 * y[:1], y, 0.0 * y[-1:]])
    how = {"hatch": line.hatch, "edgecolor": line.style.colour} if line.hatch else {}
    axes.fill(*outline, facecolor=tint, linewidth=0.0, zorder=order, label=line.label, **how)
    axes.plot(x, y, color=line.style.colour, linewidth=0.6, zorder=order)


def save_figure(
    path: str | os.PathLike[str],
    title: str,
    curves: Mapping[str, tuple[Any, Any]],
    x_label: str,
    y_label: str,
    *,
    points: Collection[str] = (),
    equal: bool = False,
    log_x: bool = False,
    log_y: bool = False,
) -> Path:
    """Write one drawing in the style of the reports, as SVG.

    Args:
        path: of the file, which ends in .svg.
        title: what it shows.
        curves: x and y, (n,) each, by the label of the legend; the first is drawn on top.
        x_label, y_label: of the axes, with units.
        points: labels of what is drawn as points.
        equal: one unit is as long on both axes.
        log_x, log_y: the axis is logarithmic.

    Returns:
        The path.

    Raises:
        ValueError: the file does not end in .svg.
    """
    file = Path(path)
    if file.suffix != ".svg":
        raise ValueError(f"{file}: must end in .svg")
    lines = [
        Line(*thin(np.asarray(x, float), np.asarray(y, float)), label, style_of(i), points=label in points)
        for i, (label, (x, y)) in enumerate(curves.items())
    ]
    panel = draw(file.stem, title, lines, Axis(x_label, log=log_x), Axis(y_label, log=log_y), equal=equal)
    file.write_text(panel.svg, encoding="utf-8")
    return file


def thin(x: np.ndarray, y: np.ndarray, buckets: int = BUCKETS) -> tuple[np.ndarray, np.ndarray]:
    """A curve with at most `2 buckets + 2` points that keeps its ends and the extremes of each of its parts."""
    if x.size <= 2 * buckets + 2:
        return x, y
    least, longer = divmod(x.size, buckets)  # as many parts are longer by a point, the first ones
    between = longer * (least + 1)
    kept = [np.array([0, x.size - 1])]
    for parts, first in ((y[:between].reshape(-1, least + 1), 0), (y[between:].reshape(-1, least), between)):
        starts = first + parts.shape[1] * np.arange(len(parts))
        kept += [starts + parts.argmin(axis=1), starts + parts.argmax(axis=1)]
    chosen = np.unique(np.concatenate(kept))
    return x[chosen], y[chosen]


def _tidy(svg: str, name: str, title: str, description: str) -> str:
    """Coordinates to 0.01 pt, ids that are unique on a page of several panels, a name to read aloud."""
    svg = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), svg)
    svg = re.sub(r'(\bid="|href="#|url\(#)', lambda match: f"{match[1]}{name}.", svg)
    head, mark, rest = svg.partition("<svg ")
    opening, end, content = rest.partition(">")
    described = f"\n <desc>{escape(description)}</desc>" if content else ""
    return f'{head}{mark}role="img" aria-label="{escape(title)}" {opening}{end}{described}{content}'


def shown(*figures: Figure | None) -> list[Figure]:
    """The figures that there are: None is one of samples that have nothing for it."""
    return [figure for figure in figures if figure is not None]
