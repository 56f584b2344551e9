"""Panels: each as if it were the only one, and labels of axes within it."""

from __future__ import annotations

import io
import itertools
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_svg import RendererSVG

from haptic_view import figures
from haptic_view.figures import Axis, Line, Panel, Style, draw

RANGE = np.linspace(0.1, 9.7, 40)
LINE = Line(RANGE, 1e3 * np.sin(RANGE), "line", Style(), steps=True)
NAMES = Axis("", span=(2.5, -0.5), names=("a", "a name that is longer", "c"))  # upside down
MARKS = Line(RANGE[:3], RANGE[:3], "marks", Style("#d55e00"))
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "span": {"x": Axis("time [s]", span=(2.0, 3.0)), "y": Axis("y", span=(-3.0, 8.0))},
    "large": {"x": "position along the rail [km]", "y": Axis("force [N]", span=(1.2345678e12, 1.2345679e12))},
    "symmetric": {"y": Axis("y", linear=1e-4), "marks": MARKS},
    "logarithmic": {"x": Axis("x", log=True), "y": Axis("y", log=True), "tall": True},
    "counts": {"y": Axis("y", counts=True)},
    "names": {"y": NAMES},
    "equal": {"equal": True, "corner": (2.0, 3.0)},
}


def panel(name: str) -> Panel:
    return draw(name, name, [LINE], **({"x": "time [s]", "y": "y [mm]"} | KINDS[name]))


@pytest.mark.drawn
def test_a_panel_does_not_depend_on_those_before() -> None:
    alone = {}
    for name in KINDS:
        figures._blank.cache_clear()
        alone[name] = panel(name).svg
    order = [*KINDS, *reversed(KINDS), *np.random.default_rng(20260).permutation(list(KINDS))]
    for before, name in itertools.pairwise(order):
        assert panel(name).svg == alone[name], f"{name} after {before}"


@pytest.mark.drawn
@pytest.mark.parametrize("name", KINDS)
def test_labels_are_within_the_panel_and_axes_as_wide_as_they_allow(name: str) -> None:
    """As matplotlib itself places them, with the sizes of letters that SVG has."""
    panel(name).document("svg")
    drawing = figures._blank()
    width, height = 72.0 * drawing.get_size_inches()
    (axes,) = drawing.axes
    drawing.set_dpi(72.0)
    boxes = [axis.get_tightbbox(RendererSVG(width, height, io.StringIO())) for axis in (axes.xaxis, axes.yaxis)]
    left, right = min(box.x0 for box in boxes), max(box.x1 for box in boxes)
    inside = axes.get_window_extent()
    assert left >= figures._EDGE - 0.5 and right <= width - figures._EDGE + 0.5
    assert inside.x0 == pytest.approx(58.0, abs=0.01) or left == pytest.approx(figures._EDGE, abs=0.5)
    assert inside.x1 == pytest.approx(width - 12.0, abs=0.01) or right == pytest.approx(width - figures._EDGE, abs=0.5)
