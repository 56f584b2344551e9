"""Drawing of a system of formulas: named points by formulas, links between them, and circles about them.

A link keeps the length that it has at the start; a point that neither a link nor a circle uses is a ball.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from haptic_sim.constraints.description import Description, DescriptionError, check_name
from haptic_sim.constraints.formulas import FormulaError, Tree, evaluate, names_in, parse

SLENDER = 0.06  # radius of a link that has no shape, per its length


class Circle(NamedTuple):
    """A circle that is drawn: names of its parts, and where they are.

    Attributes:
        centre: name of its centre.
        axis: formulas of a vector along its axis, in the world.
        radius: formula [m].
    """

    centre: str
    axis: Sequence[str]
    radius: str


class Drawing:
    """Positions of the points of a drawing, from the configuration.

    Args:
        description: of the system, whose coordinates, parameters and definitions the formulas may hold.
        parameters: their values.
        points: formulas of the position in the world [m], by name.
        links: pairs of names of points.
        circles: see `Circle`.

    Raises:
        DescriptionError: a formula cannot be used, or a link or circle names no point.
    """

    def __init__(
        self,
        description: Description,
        parameters: Mapping[str, float],
        points: Mapping[str, Sequence[str]],
        links: Sequence[Sequence[str]],
        circles: Sequence[Circle],
    ):
        self._description, self._parameters = description, dict(parameters)
        self.links = tuple((first, second) for first, second in links)
        self.circles = tuple(circles)
        rates = set(description.rates)
        self._defined: dict[str, Tree] = {}
        for name, tree in description.defined.items():  # those without rates
            if not any(
                one in rates or (one in description.defined and one not in self._defined) for one in names_in(tree)
            ):
                self._defined[name] = tree
        self._names = {*description.coordinates, *description.parameters, *self._defined}
        self._points: dict[str, list[Tree]] = {}
        for name, formulas in points.items():
            check_name("drawing.points", name)
            self._points[name] = [self._parse(f"drawing.points.{name}[{i}]", text) for i, text in enumerate(formulas)]
        used = set()
        for i, link in enumerate(self.links):
            self._check(f"drawing.links[{i}]", link)
            used |= set(link)
        self._axes: list[tuple[list[Tree], Tree]] = []
        for i, circle in enumerate(self.circles):
            self._check(f"drawing.circles[{i}].centre", (circle.centre,))
            used.add(circle.centre)
            axis = [self._parse(f"drawing.circles[{i}].axis[{j}]", text) for j, text in enumerate(circle.axis)]
            self._axes.append((axis, self._parse(f"drawing.circles[{i}].radius", circle.radius)))
        self.balls = tuple(name for name in points if name not in used)
        needed = {name for tree in self._trees() for name in names_in(tree)}
        for name in reversed(self._defined):
            if name in needed:
                needed |= set(names_in(self._defined[name]))
        self._defined = {name: tree for name, tree in self._defined.items() if name in needed}

    def _parse(self, key: str, text: str) -> Tree:
        try:
            return parse(text, self._names)
        except FormulaError as error:
            raise DescriptionError(f"{key}: {error}") from error

    def _check(self, key: str, names: Sequence[str]) -> None:
        for name in names:
            if name not in self._points:
                known = ", ".join(self._points) or "none"
                raise DescriptionError(f"{key}: {name!r} is not a point: must be of {known}")

    def _trees(self) -> list[Tree]:
        trees = [tree for formulas in self._points.values() for tree in formulas]
        return trees + [tree for axis, radius in self._axes for tree in (*axis, radius)]

    def at(self, q: np.ndarray) -> tuple[dict[str, np.ndarray], list[tuple[np.ndarray, float]]]:
        """Points by name (3,) [m], and axis (3,) and radius [m] of each circle, at a configuration."""
        values = {**self._parameters, **dict(zip(self._description.coordinates, map(np.float64, q), strict=True))}
        for name, tree in self._defined.items():
            values[name] = evaluate(tree, values)

        def vector(formulas: list[Tree]) -> np.ndarray:
            return np.array([float(evaluate(tree, values)) for tree in formulas])

        points = {name: vector(formulas) for name, formulas in self._points.items()}
        return points, [(vector(axis), float(evaluate(radius, values))) for axis, radius in self._axes]
