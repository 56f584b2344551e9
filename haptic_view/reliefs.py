"""Textures as a page draws them: a surface is darker in the grooves than on the ridges.

A height is far too small to be seen as such. Each triangle of a shape gets a rectangle of a picture around it, with the
heights at the places of its pixels as shades of the colour; the rectangles are put beside each other in rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from haptic_sim.geometry.collision.textured import heights_of
from haptic_view.shapes import Shape

if TYPE_CHECKING:
    import trimesh

MOST_PIXELS = 1 << 20  # of a shape; more take a browser long
MOST_TRIANGLES = 30_000
PER_WAVE = 8.0  # pixels on a wave
LEAST_PER_WAVE = 3.0  # with fewer, other waves than those of the texture would be seen
BORDER = 2  # pixels around a triangle, which neighbours of a pixel in a smaller picture are mixed with
DARKEST = 0.5  # brightness of the grooves, of that of the colour
LIGHTEST = 0.4  # part of white on the ridges
SHADES = 256


class _Cells(NamedTuple):
    """Rectangles around triangles, whose longest edges are their lower sides.

    Attributes:
        corners: of the triangles [m], the longest edge first, (n, 3, 3).
        right, up: unit vectors of the sides, (n, 3) each.
        size: of the sides [m], (n, 2).
        third: how far to the right the third corner is [m], (n,).
        turns: which corner of each triangle of the shape is its first here, (n,).
    """

    corners: np.ndarray
    right: np.ndarray
    up: np.ndarray
    size: np.ndarray
    third: np.ndarray
    turns: np.ndarray


def is_drawable(shape: Shape) -> bool:
    """Whether a picture of MOST_PIXELS shows the waves of the texture of a shape."""
    wave = wave_of(shape)
    return len(shape.faces) <= MOST_TRIANGLES and (wave == 0.0 or LEAST_PER_WAVE * pixel_of(shape) <= wave)


def wave_of(shape: Shape) -> float:
    """About the length of a wave of the texture of a shape [m]: 2 pi A / S, with its largest slope S; 0: unknown."""
    assert shape.relief is not None
    texture = shape.relief.texture
    return 2.0 * math.pi * texture.amplitude / texture.largest_slope if texture.largest_slope > 0.0 else 0.0


def pixel_of(shape: Shape) -> float:
    """Size of a pixel of the picture of a shape [m]."""
    size = _cells(shape).size
    pixel, most = wave_of(shape) / PER_WAVE, MOST_PIXELS
    pixel = max(pixel, math.sqrt(float(size.prod(axis=1).sum()) / most))
    while _pixels(size, pixel).prod(axis=1).sum() > most:
        pixel *= 1.1
        if pixel > size.max(initial=1e-9):
            break
    return pixel


def _pixels(size: np.ndarray, pixel: float) -> np.ndarray:
    """Numbers of pixels of rectangles of a size [m], with their borders, (n, 2)."""
    return np.asarray(np.ceil(size / pixel).astype(np.int64) + 1 + 2 * BORDER)


def _cells(shape: Shape) -> _Cells:
    corners = shape.vertices[shape.faces]
    turns = np.linalg.norm(np.roll(corners, -1, axis=1) - corners, axis=-1).argmax(axis=1)
    turned = np.take_along_axis(corners, ((turns[:, None] + np.arange(3)) % 3)[..., None], axis=1)
    to_b, to_c = turned[:, 1] - turned[:, 0], turned[:, 2] - turned[:, 0]
    length = np.maximum(np.linalg.norm(to_b, axis=1), 1e-300)
    right = to_b / length[:, None]
    third = np.einsum("ni,ni->n", to_c, right)
    up = to_c - third[:, None] * right
    height = np.linalg.norm(up, axis=1)
    up /= np.maximum(height, 1e-300)[:, None]
    return _Cells(turned, right, up, np.stack([length, height], axis=-1), third, turns)


def drawn(shape: Shape, colour: Sequence[int]) -> trimesh.Trimesh:
    """A shape with the picture of its texture, in the axes of its body; its triangles share no corners."""
    import trimesh
    from PIL import Image

    assert shape.relief is not None
    cells, pixel = _cells(shape), pixel_of(shape)
    pixels = _pixels(cells.size, pixel)
    first, extent = _in_rows(pixels)
    normals = np.cross(cells.right, cells.up)
    places, columns, rows = [], [], []
    for a, right, up, (across, high), (x, y) in zip(
        cells.corners[:, 0], cells.right, cells.up, pixels, first, strict=True
    ):
        i, j = np.meshgrid(np.arange(across), np.arange(high))
        places.append(a + pixel * ((i - BORDER)[..., None] * right + (j - BORDER)[..., None] * up).reshape(-1, 3))
        columns.append((x + i).ravel())
        rows.append((y + j).ravel())
    R, p = shape.relief.X_BS[:3, :3], shape.relief.X_BS[:3, 3]
    outward = np.repeat(normals, pixels.prod(axis=1), axis=0)
    heights = heights_of(shape.relief.texture, (np.concatenate(places) - p) @ R, outward @ R)
    parts = np.clip(1.0 + heights / shape.relief.texture.depth, 0.0, 1.0)
    numbers = np.full(extent[::-1], int(parts.mean() * (SHADES - 1)), np.uint8)
    numbers[np.concatenate(rows), np.concatenate(columns)] = np.rint(parts * (SHADES - 1)).astype(np.uint8)
    picture = Image.fromarray(shades(colour)[numbers])
    at = np.zeros((len(pixels), 3, 2))  # of the corners in the picture, in pixels
    at[:, 1, 0] = cells.size[:, 0] / pixel
    at[:, 2] = np.stack([cells.third, cells.size[:, 1]], axis=-1) / pixel
    uv = ((at + first[:, None] + BORDER + 0.5) / extent).reshape(-1, 2)
    uv[:, 1] = 1.0 - uv[:, 1]  # rows are counted from the top
    if shape.smooth:
        smooth = trimesh.Trimesh(shape.vertices, shape.faces, process=False).vertex_normals[shape.faces]
        order = (cells.turns[:, None] + np.arange(3)) % 3
        at_corners = np.take_along_axis(np.asarray(smooth), order[..., None], axis=1).reshape(-1, 3)
    else:
        at_corners = np.repeat(normals, 3, axis=0)
    material: Any = trimesh.visual.material.PBRMaterial(
        baseColorTexture=picture, metallicFactor=0.0, roughnessFactor=0.9, doubleSided=True
    )
    visual = trimesh.visual.TextureVisuals(uv=uv, material=material)
    vertices = cells.corners.reshape(-1, 3)
    return trimesh.Trimesh(
        vertices, np.arange(len(vertices)).reshape(-1, 3), vertex_normals=at_corners, visual=visual, process=False
    )


def _in_rows(pixels: np.ndarray) -> tuple[np.ndarray, tuple[int, int]]:
    """Positions of rectangles (n, 2) in a picture, (n, 2), the highest first, and its numbers of columns and rows."""
    width = max(int(pixels[:, 0].max(initial=1)), math.ceil(math.sqrt(1.1 * pixels.prod(axis=1).sum())))
    first, x, y, high = np.zeros_like(pixels), 0, 0, 0
    for i in np.argsort(-pixels[:, 1], kind="stable"):
        if x + pixels[i, 0] > width:
            x, y, high = 0, y + high, 0
        first[i] = x, y
        x, high = x + int(pixels[i, 0]), max(high, int(pixels[i, 1]))
    return first, (width, y + high)


def shades(colour: Sequence[int]) -> np.ndarray:
    """Colours from the grooves to the ridges, (SHADES, 3)."""
    part, base = np.linspace(0.0, 1.0, SHADES)[:, None], np.asarray(colour, float)
    dark, light = DARKEST * base, base + LIGHTEST * (255.0 - base)
    return np.asarray(np.rint(dark + part * (light - dark)).astype(np.uint8))
