"""Textures from images on shapes that are round on all sides: three projections, blended as a function of the position.

A height map is projected along each axis i of the shape, and the three heights h_i are blended,

    h(x) = sum_i w_i(x) h_i(x),   w_i >= 0,   sum_i w_i = 1.

With weights by the normal of a contact (triaxial mapping) there is no potential where the normal turns: h would depend
on the way there. Here the weights are functions of the position alone: quadratic B-splines over a grid of nodes around
the shape, whose coefficients are made once, of the surface as it is at the start,

    w_i(x) = sum_n B(x - x_n) c_ni,   c_ni = |n_i|^4 / sum_j |n_j|^4,

with the normal n of the surface at the point that is nearest to node n. They sum up to 1 at each node, and so
everywhere, as B-splines do. So h is between the lowest and the highest pixel, and

    grad h = sum_i w_i grad h_i + sum_i h_i grad w_i

is exactly that of one function of the position: along any closed path its integral is 0, on any surface. Slope and
curvature are bounded: as the grad w_i sum up to 0, |h_i + A| <= A gives

    |grad h| <= S + A W1,   |dd h| <= C + 2 S W1 + A W2,

with the bounds S and C of the spline of the pixels, and W1 = max sum_i |grad w_i| and W2 = max sum_i |dd w_i|, which
differences of the coefficients bound. The gradient is continuous, the curvature is not.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import PrivateAttr

from haptic_sim.geometry.height_maps import HeightMapParameters, spline
from haptic_sim.geometry.node_splines import (
    derivative_bounds,
    first_node,
    nodes_around,
    spacing_for,
    spline_over,
)
from haptic_sim.geometry.textures import Surface, TextureError
from haptic_sim.kernels import kernel
from haptic_sim.parameters import quantity

PARTS = 16  # of the extent of a shape, over which weights are blended if nothing else is said
MOST_NODES = 1 << 18
POWER = 4  # exponent of the components of a normal in the weights
_HEAD = 11  # numbers of the law before the weights


@kernel
def blended(place, keys, answer):
    """Law: size of a pixel, whether it repeats, rows, columns, spacing, nodes (3), first node (3), weights, heights."""
    rows, columns = int(keys[2]), int(keys[3])
    x, pixel, repeats, spacing = place.position, keys[0], keys[1] > 0.0, keys[4]
    if not math.isfinite(x[0] + x[1] + x[2]):
        return
    nodes = int(keys[5]), int(keys[6]), int(keys[7])
    p, q, r = (x[0] - keys[8]) / spacing, (x[1] - keys[9]) / spacing, (x[2] - keys[10]) / spacing
    first = _HEAD + 3 * nodes[0] * nodes[1] * nodes[2]
    height = g0 = g1 = g2 = 0.0
    for axis in range(3):
        w, w0, w1, w2 = spline_over(keys, _HEAD + axis, 3, nodes, p, q, r)
        if w == 0.0 and w0 == 0.0 and w1 == 0.0 and w2 == 0.0:
            continue
        right, up = 1 if axis == 0 else 0, 1 if axis == 2 else 2
        u = x[right] / pixel + 0.5 * (columns - 1)
        v = 0.5 * (rows - 1) - x[up] / pixel
        h, slope_u, slope_v = spline(keys, first, rows, columns, repeats, u, v)
        height += w * h
        g0, g1, g2 = g0 + h * w0 / spacing, g1 + h * w1 / spacing, g2 + h * w2 / spacing
        to_right, to_up = w * slope_u / pixel, -w * slope_v / pixel
        g0 += to_right if right == 0 else 0.0
        g1 += (to_right if right == 1 else 0.0) + (to_up if up == 1 else 0.0)
        g2 += to_up if up == 2 else 0.0
    answer.height[0] = height
    answer.gradient[0], answer.gradient[1], answer.gradient[2] = g0, g1, g2


class TriaxialParameters(HeightMapParameters):
    """A height map from a gray image, projected along all three axes of the shape, which fade into each other."""

    LAW: ClassVar[Any] = blended
    type: Literal["triaxial"] = "triaxial"
    blend: float | None = quantity(
        None,
        unit="m",
        description="Distance over which two projections fade into each other, about; left out: a sixteenth of the "
        "largest extent of the shape",
        gt=0.0,
        le=10.0,
    )
    _weights: np.ndarray | None = PrivateAttr(None)  # (nodes along x, y, z, 3)
    _first: np.ndarray = PrivateAttr(np.zeros(3))  # place of the first node [m]
    _spacing: float = PrivateAttr(1.0)  # [m]

    def fitted(self, surface: Surface) -> TriaxialParameters:
        """Copy of the texture with weights for a surface.

        Raises:
            TextureError: it would need too many nodes.
        """
        from scipy.spatial import cKDTree

        points, normals = surface.points()
        low, high = points.min(axis=0), points.max(axis=0)
        largest = float((high - low).max())
        spacing = self.blend if self.blend is not None else largest / PARTS or 1.0
        counts = nodes_around(high - low, spacing)
        if not counts.prod() <= MOST_NODES:
            would = spacing_for(high - low, spacing, MOST_NODES)
            raise TextureError(
                f".blend = {spacing:g} m: needs {counts.prod():.3g} nodes around the shape, and may need {MOST_NODES} "
                f"at most; set it to {1.1 * would:.2g} m"
            )
        taken = self.model_copy()
        taken._spacing = float(spacing)
        taken._first = first_node(low, high, spacing)
        axes = [taken._first[i] + spacing * np.arange(int(counts[i])) for i in range(3)]
        places = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
        nearest = cKDTree(points).query(places.reshape(-1, 3))[1]
        parts = np.abs(normals[nearest]) ** POWER
        taken._weights = (parts / parts.sum(axis=1, keepdims=True)).reshape(places.shape)
        return taken

    @property
    def weights(self) -> np.ndarray:
        """Coefficients of the three weights at the nodes, (nodes along x, y, z, 3).

        Raises:
            TypeError: it is on no shape (see `fitted`).
        """
        if self._weights is None:
            raise TypeError("a triaxial texture needs its shape: see `fitted`")
        return self._weights

    def numbers(self) -> np.ndarray:
        """Numbers of `blended`."""
        pixels, weights = self.pixels, self.weights
        head = [self.pixel, float(self.repeats), *pixels.shape, self._spacing, *weights.shape[:3], *self._first]
        return np.concatenate([head, weights.ravel(), pixels.ravel()])

    @property
    def largest_slope(self) -> float:
        """Bound S + A W1 of the length of the gradient."""
        return super().largest_slope + self.amplitude * self._bounds()[0]

    @property
    def largest_curvature(self) -> float:
        """Bound C + 2 S W1 + A W2 of the second derivative [1/m]."""
        first, second = self._bounds()
        return super().largest_curvature + 2.0 * super().largest_slope * first + self.amplitude * second

    def _bounds(self) -> tuple[float, float]:
        """W1 [1/m] and W2 [1/m^2] at most."""
        bounds = [derivative_bounds(self.weights[..., axis]) for axis in range(3)]
        first, second = (sum(each) for each in zip(*bounds, strict=True))
        return first / self._spacing, second / self._spacing**2
