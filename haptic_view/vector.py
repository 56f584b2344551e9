"""Drawings as PDF and PNG: of the few elements of SVG that drawings of scenes consist of.

matplotlib is imported when a drawing is made, as for all figures.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from typing import IO, Any

KINDS = ("svg", "pdf", "png")
DOTS = 300  # per inch, of PNG
WITHOUT_DATES: Mapping[str, dict[str, Any]] = {  # so that the same data give the same bytes
    "svg": {"metadata": {"Date": None, "Creator": None, "Format": None, "Type": None}},
    "pdf": {"metadata": {"CreationDate": None, "Creator": None, "Producer": None}},
    "png": {"metadata": {"Software": None}, "dpi": DOTS},
}
_SVG = "{http://www.w3.org/2000/svg}"
_STEP = re.compile(r"([MLaZ])([^MLaZ]*)")
_SHIFT = re.compile(r"translate\((\S+) (\S+)\)")
_UNSEEN = ("title", "desc", "style")


def save_as(svg: str, file: IO[bytes], kind: str) -> None:
    """Write the drawing of a scene as PDF or PNG; of an animation, what stands still at the end."""
    import matplotlib
    from matplotlib.figure import Figure

    root = ElementTree.fromstring(svg)
    _, _, width, height = map(float, root.get("viewBox", "0 0 480 330").split())
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"pdf.fonttype": 42, "font.family": ["DejaVu Sans"], "text.parse_math": False})
        drawing = Figure(figsize=(width / 72, height / 72))
        axes = drawing.add_axes((0.0, 0.0, 1.0, 1.0), xlim=(0.0, width), ylim=(height, 0.0))
        axes.set_axis_off()
        _add(axes, root, 0.0, None)
        drawing.savefig(file, format=kind, **WITHOUT_DATES[kind])


def _add(axes: Any, parent: ElementTree.Element, shift: float, within: Any) -> None:
    """Draw the elements in an element, moved to the right, within a clipping rectangle."""
    from matplotlib.patches import Rectangle

    for element in parent:
        tag = element.tag.removeprefix(_SVG)
        if tag in _UNSEEN or element.get("class") == "moving":
            continue
        if tag == "g":
            moved = _SHIFT.fullmatch(element.get("transform", ""))
            _add(axes, element, shift + (float(moved[1]) if moved else 0.0), within)
        elif tag == "svg":
            x, y, width, height = (float(element.get(key, 0.0)) for key in ("x", "y", "width", "height"))
            _add(axes, element, shift, Rectangle((x, y), width, height, transform=axes.transData))
        elif tag == "text":
            x, y, size = (float(element.get(key, 0.0)) for key in ("x", "y", "font-size"))
            axes.text(x + shift, y, element.text or "", fontsize=size, color=element.get("fill"), zorder=5.0)
        else:
            patch = _patch(element, tag, shift)
            axes.add_patch(patch)
            if within is not None:
                patch.set_clip_path(within)


def _patch(element: ElementTree.Element, tag: str, shift: float) -> Any:
    """A filled or drawn outline."""
    from matplotlib.patches import Circle, PathPatch, Rectangle
    from matplotlib.path import Path

    def number(key: str, default: float = 0.0) -> float:
        return float(element.get(key, default))

    dashes = [float(part) for part in element.get("stroke-dasharray", "").split()]
    how: dict[str, Any] = {
        "facecolor": element.get("fill", "none"),
        "edgecolor": element.get("stroke", "none"),
        "linewidth": number("stroke-width", 1.0),
        "linestyle": (0.0, [part / number("stroke-width", 1.0) for part in dashes]) if dashes else "solid",
        "alpha": number("opacity", number("fill-opacity", 1.0)),
        "joinstyle": "round",
    }
    if tag == "circle":
        return Circle((number("cx") + shift, number("cy")), number("r"), **how)
    if tag == "rect":
        return Rectangle((number("x") + shift, number("y")), number("width"), number("height"), **how)
    if tag == "polyline":
        points = [tuple(map(float, point.split(","))) for point in element.get("points", "").split()]
        return PathPatch(Path([(x + shift, y) for x, y in points]), **how)
    vertices: list[tuple[float, float]] = []
    codes: list[int] = []
    for step, numbers in _STEP.findall(element.get("d", "")):
        values = [float(value) for value in numbers.split()]
        if step == "a":  # a circle: half of it each time
            (x, y), radius = vertices[-1], values[0]
            return Circle((x + radius, y), radius, **how)
        if step == "Z":
            vertices.append(vertices[-1])
            codes.append(int(Path.CLOSEPOLY))
        else:
            vertices.append((values[0] + shift, values[1]))
            codes.append(int(Path.MOVETO if step == "M" else Path.LINETO))
    return PathPatch(Path(vertices, codes), **how)
