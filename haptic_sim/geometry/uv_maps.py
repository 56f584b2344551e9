"""Textures from images by the coordinates of a mesh (UV): heights at nodes around the mesh, a function of the position.

A file of a mesh says for each corner of a triangle where in an image it is. The height at the nearest point of the
mesh would not do: that point jumps inside of the mesh and in front of concave edges, the coordinates jump at the seams
of the atlas, and their derivatives at all edges; so would the height, or its slope. Instead the nodes of a grid around
the mesh have, once, the height c_n at the point of the mesh that is nearest to them, and the texture is their quadratic
B-spline (`node_splines`),

    h(x) = sum_n B(x - x_n) c_n,   c_n: the image at u_n = sum_k b_k uv_k of the nearest point sum_k b_k x_k, b >= 0.

So h is one function of the position, whose gradient is continuous, on any surface and with any coordinates: contacts
have a potential, and along any closed path the integral of the gradient is 0. Where the heights of neighbouring nodes
differ, at a seam say, is a ramp over about two spacings d. The differences of the nodes bound slope and curvature,

    |grad h| <= D / d,   |dd h| <= E / d^2,

so that the check of slopes and stiffness knows about seams. h is exact where heights are linear along the axes. Of a
wave of the length L along an axis it has (3 + cos(2 pi d / L)) / 4 of the amplitude at the nodes: 93 % for 8 d, 75 %
for 4 d. Pixels that are finer than the spacing are averaged.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import PrivateAttr

from haptic_sim.geometry.height_maps import ImageFileParameters
from haptic_sim.geometry.node_splines import (
    derivative_bounds,
    first_node,
    nodes_around,
    spacing_for,
    spline_over,
)
from haptic_sim.geometry.textures import Coordinates, Surface, TextureError
from haptic_sim.kernels import kernel
from haptic_sim.parameters import quantity

MOST_NODES = 1 << 21  # 128 x 128 x 128: 16 MB of numbers
BLOCK = 16  # nodes along a side of the blocks that are left out first, where the mesh is far
NEAR = 4.0  # spacings from the mesh: farther nodes have the height of the nearest of the others, which fades out
FADES = 8.0  # spacings over which it does, to the mean: deep in a body, where many points are near, nothing jumps
_HEAD = 7  # numbers of the law before the heights


@kernel
def sampled(place, keys, answer):
    """Law: spacing, nodes (3), first node (3), heights at the nodes."""
    x, spacing = place.position, keys[0]
    if not math.isfinite(x[0] + x[1] + x[2]):
        return
    nodes = int(keys[1]), int(keys[2]), int(keys[3])
    p, q, r = (x[0] - keys[4]) / spacing, (x[1] - keys[5]) / spacing, (x[2] - keys[6]) / spacing
    height, g0, g1, g2 = spline_over(keys, _HEAD, 1, nodes, p, q, r)
    answer.height[0] = height
    answer.gradient[0], answer.gradient[1], answer.gradient[2] = g0 / spacing, g1 / spacing, g2 / spacing


def pixel_size(coordinates: Coordinates, pixels: tuple[int, int]) -> float:
    """Size of a pixel on a mesh on average [m]: by the areas of all triangles on the mesh and in the image.

    Raises:
        TextureError: all of the mesh has one point or one line of the image.
    """
    a, b, c = np.moveaxis(coordinates.corners, 1, 0)
    (u, v), (s, t) = ((coordinates.uv[:, i] - coordinates.uv[:, 0]).T for i in (1, 2))
    area = float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum())
    covered = float(np.abs(u * t - v * s).sum()) * pixels[0] * pixels[1]
    if not covered > 0.0:
        raise TextureError(
            ": the coordinates of the mesh cover no area of the image, so that its height is the same everywhere or "
            "along lines; unwrap the mesh again, or use type: triaxial, which needs none"
        )
    return math.sqrt(area / covered)


def nodes_near(
    first: np.ndarray, counts: np.ndarray, spacing: float, corners: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The nodes of a grid within NEAR spacings of a mesh; blocks of nodes that are farther are left out as a whole.

    Args:
        first: place of the first node [m], (3,).
        counts: numbers of nodes along the axes, (3,).
        spacing: of the nodes [m].
        corners: of the triangles [m], (n, 3, 3).

    Returns:
        Numbers of the nodes along the axes (N, 3), the triangles that are nearest to them (N,), and the nearest
        points [m] (N, 3).
    """
    import igl  # as in fields.distances

    vertices = np.ascontiguousarray(corners.reshape(-1, 3))
    triangles, side = np.arange(len(vertices), dtype=np.int64).reshape(-1, 3), BLOCK
    blocks = np.stack(np.meshgrid(*(np.arange(0, n, side) for n in counts), indexing="ij"), axis=-1).reshape(-1, 3)
    while True:
        centres = first + spacing * (blocks + 0.5 * (side - 1))
        squares, nearest, foot = igl.point_mesh_squared_distance(centres, vertices, triangles)
        kept = np.sqrt(squares) <= spacing * (NEAR + 0.5 * math.sqrt(3.0) * (side - 1))
        blocks = blocks[kept]
        if side == 1:
            return blocks, nearest[kept], foot[kept]
        side //= 2
        blocks = (blocks[:, None] + side * np.indices((2, 2, 2)).reshape(3, -1).T).reshape(-1, 3)
        blocks = blocks[(blocks < counts).all(axis=1)]


def heights_at(
    triangles: np.ndarray, points: np.ndarray, coordinates: Coordinates, pixels: np.ndarray, repeats: bool
) -> np.ndarray:
    """Heights of an image (rows, columns), linear between pixels, at points [m] (n, 3) on triangles (n,) of a mesh."""
    from scipy.ndimage import map_coordinates

    a, b, c = np.moveaxis(coordinates.corners[triangles], 1, 0)
    u, v = np.einsum("ni,nik->kn", _barycentric(points, a, b, c), coordinates.uv[triangles])
    rows, columns = pixels.shape
    at = (1.0 - v) * rows - 0.5, u * columns - 0.5  # the centre of the first pixel is half a pixel from the corner
    found = map_coordinates(pixels, at, order=1, mode="grid-wrap" if repeats else "nearest")
    return np.asarray(np.clip(found, 0.0, 1.0))


def _barycentric(x: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Coordinates of points of triangles, (n, 3); where a triangle is a line or a point, those of a point of it."""
    to_b, to_c, to_x = b - a, c - a, x - a
    bb, bc, cc = (np.einsum("ni,ni->n", p, q) for p, q in ((to_b, to_b), (to_b, to_c), (to_c, to_c)))
    xb, xc = (np.einsum("ni,ni->n", p, q) for p, q in ((to_x, to_b), (to_x, to_c)))
    det = bb * cc - bc * bc
    flat = det <= 1e-18 * bb * cc
    det = np.where(flat, 1.0, det)
    shares = np.stack([(cc * xb - bc * xc) / det, (bb * xc - bc * xb) / det], axis=-1)
    shares = np.clip(np.where(flat[:, None], 0.0, shares), 0.0, 1.0)
    shares /= np.maximum(1.0, shares.sum(axis=1, keepdims=True))
    return np.concatenate([1.0 - shares.sum(axis=1, keepdims=True), shares], axis=1)


def _faded(nodes: np.ndarray, heights: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Heights at all nodes (x, y, z) from those at the nodes near a mesh (N, 3), (N,): see FADES."""
    from scipy.ndimage import distance_transform_edt

    far, found = np.ones(counts, bool), np.zeros(counts)
    far[tuple(nodes.T)], found[tuple(nodes.T)] = False, heights
    distance, nearest = distance_transform_edt(far, return_indices=True)
    left, mean = np.clip(1.0 - distance / FADES, 0.0, 1.0), heights.mean()
    return np.asarray(mean + left * left * (3.0 - 2.0 * left) * (found[tuple(nearest)] - mean))


class UVParameters(ImageFileParameters):
    """A height map from a gray image by the coordinates of a mesh (UV): black is 2 A deep, white is the surface."""

    LAW: ClassVar[Any] = sampled
    type: Literal["uv"] = "uv"
    repeats: bool = quantity(
        True,
        description="Whether the image is repeated where coordinates are outside of 0 to 1; otherwise its edge goes on",
    )
    spacing: float | None = quantity(
        None,
        unit="m",
        description="Distance of the nodes around the mesh at which the height is taken; left out: the size of a pixel "
        "on the mesh, or the smallest that can be had",
        gt=0.0,
        le=10.0,
    )
    _parts: np.ndarray | None = PrivateAttr(None)  # of the height over the ground, 0 to 1, (nodes along x, y, z)
    _first: np.ndarray = PrivateAttr(np.zeros(3))  # place of the first node [m]
    _spacing: float = PrivateAttr(1.0)  # [m]
    _bounds: tuple[float, float] = PrivateAttr((0.0, 0.0))  # of the derivatives of the parts

    def fitted(self, surface: Surface) -> UVParameters:
        """Copy of the texture with the heights around a mesh.

        Raises:
            TextureError: it has no coordinates, or would need too many nodes.
        """
        from scipy.ndimage import gaussian_filter

        coordinates, gray = surface.coordinates(), self.pixels / self.depth + 1.0
        corners = coordinates.corners.reshape(-1, 3)
        low, high = corners.min(axis=0), corners.max(axis=0)
        pixel = pixel_size(coordinates, gray.shape)
        spacing = spacing_for(high - low, pixel, MOST_NODES) if self.spacing is None else self.spacing
        needed = nodes_around(high - low, spacing).prod()
        if not needed <= MOST_NODES:
            would = 1.1 * spacing_for(high - low, spacing, MOST_NODES)
            raise TextureError(
                f".spacing = {spacing:g} m: needs {needed:.3g} nodes around the mesh, and may need {MOST_NODES} at "
                f"most; set it to {would:.2g} m"
            )
        if spacing > pixel:
            gray = gaussian_filter(gray, 0.5 * spacing / pixel, mode="wrap" if self.repeats else "nearest")
        taken, counts = self.model_copy(), nodes_around(high - low, spacing).astype(int)
        taken._spacing, taken._first = float(spacing), first_node(low, high, spacing)
        nodes, triangles, points = nodes_near(taken._first, counts, spacing, coordinates.corners)
        heights = heights_at(triangles, points, coordinates, gray, self.repeats)
        taken._parts = _faded(nodes, heights, counts)
        taken._bounds = derivative_bounds(taken._parts)
        return taken

    @property
    def nodes(self) -> np.ndarray:
        """Heights at the nodes [m], (nodes along x, y, z), from -2 A to 0.

        Raises:
            TypeError: it is on no mesh (see `fitted`).
        """
        if self._parts is None:
            raise TypeError("a texture by coordinates needs its mesh: see `fitted`")
        return np.asarray(self.depth * (self._parts - 1.0))

    def numbers(self) -> np.ndarray:
        """Numbers of `sampled`."""
        nodes = self.nodes
        return np.concatenate([[self._spacing, *nodes.shape, *self._first], nodes.ravel()])

    @property
    def largest_slope(self) -> float:
        """Bound D / d of the length of the gradient."""
        return self.depth * self._bounds[0] / self._spacing

    @property
    def largest_curvature(self) -> float:
        """Bound E / d^2 of the second derivative [1/m]."""
        return self.depth * self._bounds[1] / self._spacing**2
