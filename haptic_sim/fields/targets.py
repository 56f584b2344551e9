"""Targets of attraction: points, curves and surfaces, their parameters and the distance of a point from them."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field

from haptic_sim.fields.distances import nearest_on_curve, shape_numbers, signed_distance
from haptic_sim.fields.law import Drawn
from haptic_sim.geometry.shapes import AnyShapeParameters, Vector
from haptic_sim.kernels import kernel
from haptic_sim.parameters import Parameters, quantity

POINT, CURVE, SURFACE = range(3)
CHORD = 1e-5  # [m] by which the straight lines that stand for a spline may miss it
_MOST = 2000  # number of straight lines of a spline, at most


class PointTargetParameters(Parameters):
    """A point."""

    type: Literal["point"] = "point"
    point: Vector = quantity(unit="m", description="Position of the point")

    def numbers(self, folder: Path, key: str) -> np.ndarray:
        """Numbers of the target for kernels."""
        return np.array([POINT, *self.point], float)

    def drawn(self) -> Drawn:
        """Shapes that a view draws of the target."""
        return Drawn(points=np.array([self.point]))


def _distinct(points: tuple[Vector, ...]) -> tuple[Vector, ...]:
    if len(points) < 2:
        raise ValueError(f"has {len(points)} points: must have 2 at least")
    for i, (a, b) in enumerate(pairwise(points)):
        if not math.dist(a, b) > 1e-6:
            raise ValueError(f"[{i + 1}]: must be farther than 1e-06 m from the point before")
    return points


class CurveTargetParameters(Parameters):
    """A curve through points."""

    type: Literal["curve"] = "curve"
    points: Annotated[tuple[Vector, ...], AfterValidator(_distinct)] = quantity(
        unit="m", description="Points of the curve, in their order"
    )
    between: Literal["lines", "spline"] = quantity(
        "spline", description="Curve between the points: straight lines, or a cubic spline"
    )
    closed: bool = quantity(False, description="Whether the last point is joined to the first one")

    def polyline(self) -> np.ndarray:
        """Points of the straight lines that stand for the curve (N, 3) [m]: of a spline they miss it by `CHORD`."""
        points = np.array(self.points, float)
        if self.closed:
            points = np.concatenate([points, points[:1]])
        if self.between == "lines":
            return points
        from scipy.interpolate import CubicSpline  # takes long to import: only where there is a spline

        lengths = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
        spline = CubicSpline(lengths, points, bc_type="periodic" if self.closed else "natural")
        # a chord of the length h misses a curve of the second derivative c by c h^2 / 8
        bend = np.linalg.norm(spline(np.linspace(0.0, lengths[-1], 50 * len(points)), 2), axis=1).max()
        parts = int(np.ceil(lengths[-1] * np.sqrt(bend / (8.0 * CHORD)))) if bend > 0.0 else 1
        found: np.ndarray = spline(np.linspace(0.0, lengths[-1], min(max(parts, 2), _MOST) + 1))
        return found

    def numbers(self, folder: Path, key: str) -> np.ndarray:
        """Numbers of the target for kernels."""
        line = self.polyline()
        return np.array([CURVE, len(line), *line.ravel()], float)

    def drawn(self) -> Drawn:
        """Shapes that a view draws of the target."""
        return Drawn(points=self.polyline())


class SurfaceTargetParameters(Parameters):
    """The surface of a shape."""

    type: Literal["surface"] = "surface"
    shape: AnyShapeParameters = quantity(description="The shape, placed in the world")

    def numbers(self, folder: Path, key: str) -> np.ndarray:
        """Numbers of the target for kernels."""
        return np.concatenate([[SURFACE], shape_numbers(self.shape, folder, f"{key}.shape", outside=True)])

    def drawn(self) -> Drawn:
        """Shapes that a view draws of the target."""
        return Drawn(shapes=(self.shape,))


AnyTargetParameters = Annotated[
    PointTargetParameters | CurveTargetParameters | SurfaceTargetParameters, Field(discriminator="type")
]

AnyPathParameters = Annotated[CurveTargetParameters | SurfaceTargetParameters, Field(discriminator="type")]


@kernel
def find_distance(keys, at, p):
    """Distance of a point p from the target whose numbers begin at keys[at].

    Returns:
        distance [m], negative inside of a shape; unit vector along which it grows, 0 where there is none; tangent of a
        curve, 0 of others.
    """
    if keys[at] == SURFACE:
        d, nx, ny, nz = signed_distance(keys, at + 1, p[0], p[1], p[2])
        return d, nx, ny, nz, 0.0, 0.0, 0.0
    cx, cy, cz, tx, ty, tz = keys[at + 1], keys[at + 2], keys[at + 3], 0.0, 0.0, 0.0
    if keys[at] == CURVE:
        cx, cy, cz, tx, ty, tz = nearest_on_curve(keys, at + 1, p[0], p[1], p[2])
    x, y, z = p[0] - cx, p[1] - cy, p[2] - cz
    d = math.sqrt(x * x + y * y + z * z)
    if d > 0.0:
        x, y, z = x / d, y / d, z / d
    return d, x, y, z, tx, ty, tz
