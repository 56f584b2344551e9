"""Rendering of shapes: at a point of a drawing the nearest of the triangles, whatever body it belongs to.

A surface consists of patches, between whose triangles there is no edge that is sharper than CREASE. Triangles are
drawn into a depth buffer that is finer than the drawing, with the light that falls on their patch there in some steps.
Of the buffer, outlines are taken: of what is seen of each patch, and of each step of light on it. So the size of a
drawing depends on what it shows, and not on the number of triangles, none of which is left out.

A plane may cut shapes open. What is seen behind it from within a closed surface is the section.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from haptic_sim.kernels import kernel
from haptic_sim.rotations import matrices
from haptic_view.shapes import Shape

CREASE = math.cos(math.radians(46.0))  # between the normals of triangles on both sides of an edge that is seen
STEPS = 16  # of light
NEARER = 0.5  # [px] that a shape must be nearer than one before it: surfaces that coincide are those of the first
NOTHING = -1, 0, -math.inf  # of patch, step and depth
STRAIGHT = 0.8  # pixels from which an outline is taken, by which a line may miss it


class Surface(NamedTuple):
    """A shape as it is shaded.

    Attributes:
        corners: of the triangles in the body's axes [m], (F, 3, 3).
        normals: of the surface at these, (F, 3, 3).
        patch: to which each triangle belongs (F,).
        patches: number of them.
    """

    corners: np.ndarray
    normals: np.ndarray
    patch: np.ndarray
    patches: int


class Image(NamedTuple):
    """Rendered image: content of each pixel of the buffer.

    Attributes:
        finer: pixels of the buffer along one of the drawing.
        patch: its number, those of all shapes counted one after the other; -1: nothing; -2 - k: section of shape k.
        step: of the light there, from 0 (turned away) to STEPS - 1.
        depth: towards the eye, in pixels of the buffer; -inf: nothing.
    """

    finer: int
    patch: np.ndarray
    step: np.ndarray
    depth: np.ndarray

    def copy(self) -> Image:
        return Image(self.finer, self.patch.copy(), self.step.copy(), self.depth.copy())


def surface_of(shape: Shape) -> Surface:
    """The patches of a shape, and its normals, which are smooth within a patch."""
    from scipy.sparse import coo_array  # takes long to import: only where a picture is drawn
    from scipy.sparse.csgraph import connected_components

    grain = 1e-7 * float(np.ptp(shape.vertices, axis=0).max())
    _, joined = np.unique(np.round(shape.vertices / max(grain, 1e-30)), axis=0, return_inverse=True)
    faces = joined.ravel()[shape.faces]
    corners = np.ascontiguousarray(shape.vertices[shape.faces])
    areas = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    units = areas / np.maximum(np.linalg.norm(areas, axis=1, keepdims=True), 1e-300)
    count = len(faces)
    start = np.arange(3 * count)  # a corner of a triangle, and the edge from there to the next corner
    end = np.roll(start.reshape(-1, 3), -1, axis=1).ravel()
    tail, head = faces.ravel(), faces.ravel()[end]
    order = np.lexsort((np.maximum(tail, head), np.minimum(tail, head)))
    same = np.minimum(tail, head)[order], np.maximum(tail, head)[order]
    both = np.flatnonzero((same[0][1:] == same[0][:-1]) & (same[1][1:] == same[1][:-1]))
    one, other = order[both], order[both + 1]
    smooth = np.einsum("ij,ij->i", units[one // 3], units[other // 3]) > CREASE
    one, other = one[smooth], other[smooth]

    def joint(first: np.ndarray, second: np.ndarray, number: int) -> tuple[int, np.ndarray]:
        links = coo_array((np.ones(len(first), np.int8), (first, second)), shape=(number, number))
        parts, part = connected_components(links, directed=False)
        return int(parts), part

    patches, patch = joint(one // 3, other // 3, count)
    against = tail[one] == head[other]  # as both triangles are turned the same way
    first = np.concatenate([start[one], end[one]])
    second = np.concatenate([np.where(against, end[other], start[other]), np.where(against, start[other], end[other])])
    _, around = joint(first, second, 3 * count)  # corners at a vertex, between which no edge is sharp
    sums = np.stack([np.bincount(around, np.repeat(areas[:, k], 3)) for k in range(3)], axis=-1)
    normals = sums[around].reshape(-1, 3, 3)
    normals /= np.maximum(np.linalg.norm(normals, axis=2, keepdims=True), 1e-300)
    return Surface(corners, normals, patch, patches)


def empty(size: tuple[float, float], finer: int) -> Image:
    """An image without anything, for a drawing of a width and a height [px]."""
    shape = math.ceil(finer * size[1]), math.ceil(finer * size[0])
    kinds = np.int32, np.uint8, np.float64
    return Image(finer, *(np.full(shape, what, kind) for what, kind in zip(NOTHING, kinds, strict=True)))


def silhouette(triangles: np.ndarray, size: tuple[float, float], finer: int) -> np.ndarray:
    """Silhouette of triangles (N, 3, 2) in a drawing of a size, all [px]: pixels of a finer buffer, a mask."""
    image, count = empty(size, finer), len(triangles)
    places = np.concatenate([finer * triangles, np.zeros((count, 3, 1))], axis=2)
    _fill(places, np.zeros((count, 3)), np.zeros(count, np.int32), 0, 1, np.zeros(4), 0.0, *image[1:])
    return np.asarray(image.patch >= 0)


def draw(
    image: Image,
    placed: Iterable[tuple[int, int, Surface, np.ndarray]],
    project: np.ndarray,
    light: np.ndarray,
    cut: np.ndarray,
) -> None:
    """Draw surfaces into an image, with what is there already.

    Args:
        image: of the drawing.
        placed: of each shape its number, that of its first patch, its surface, and its body's pose, (7,).
        project: affine map of a point to its place in the drawing, right and down, and towards the eye [px], (3, 4).
        light: direction towards the light (3,).
        cut: half space n.p > d that is left out: n, and d [m], (4,); zeros: nothing is.
    """
    project = image.finer * project
    plane = project[:, :3] @ cut[:3] / (project[0, :3] @ project[0, :3])  # in the axes of the buffer
    plane = np.array([*plane, cut[3] + plane @ project[:, 3]])
    for number, first, surface, pose in placed:
        R = matrices(pose[None, 3:])[0]
        places = (surface.corners @ R.T + pose[:3]) @ project[:, :3].T + project[:, 3]
        bright, end = surface.normals @ (R.T @ light), first + surface.patches
        if not cut.any():
            _fill(places, bright, surface.patch, first, end, plane, NEARER * image.finer, *image[1:])
            continue
        # What is within a closed surface where the plane is shows its inside behind the plane: that is its section,
        # which lies in the plane. Each surface is drawn by itself, as bodies that touch may overlap.
        own = Image(image.finer, *(np.full_like(of_all, what) for of_all, what in zip(image[1:], NOTHING, strict=True)))
        _fill(places, bright, surface.patch, first, end, plane, 0.0, *own[1:])
        _merge(*own[1:], -2 - number, plane, NEARER * image.finer, *image[1:])


@kernel
def _fill(places, bright, patch, first, end, plane, nearer, found, step, depth):
    """Draw triangles (F, 3, 3): x, y and the depth towards the eye are in pixels of the buffer; -2: an inside."""
    height, width = depth.shape
    for f in range(places.shape[0]):
        x0, y0, z0 = places[f, 0]
        x1, y1, z1 = places[f, 1]
        x2, y2, z2 = places[f, 2]
        area = (x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0)
        if area == 0.0:
            continue
        left = max(0, math.ceil(min(x0, x1, x2) - 0.5))
        right = min(width - 1, math.floor(max(x0, x1, x2) - 0.5))
        top = max(0, math.ceil(min(y0, y1, y2) - 0.5))
        bottom = min(height - 1, math.floor(max(y0, y1, y2) - 0.5))
        inside = area > 0.0 and plane[2] != 0.0  # y goes down: the outside of a triangle goes around clockwise
        for i in range(top, bottom + 1):
            y = i + 0.5
            for k in range(left, right + 1):
                x = k + 0.5
                a = ((x1 - x) * (y2 - y) - (x2 - x) * (y1 - y)) / area
                b = ((x2 - x) * (y0 - y) - (x0 - x) * (y2 - y)) / area
                c = 1.0 - a - b
                if a < 0.0 or b < 0.0 or c < 0.0:
                    continue
                z = a * z0 + b * z1 + c * z2
                least = depth[i, k] + (0.0 if first <= found[i, k] < end else nearer)
                if z <= least or plane[0] * x + plane[1] * y + plane[2] * z > plane[3]:
                    continue
                depth[i, k] = z
                light = a * bright[f, 0] + b * bright[f, 1] + c * bright[f, 2]
                found[i, k] = -2 if inside else first + patch[f]
                step[i, k] = 0 if inside else min(max(int(0.5 * (1.0 + light) * STEPS), 0), STEPS - 1)


@kernel
def _merge(found, step, depth, section, plane, nearer, of_all, all_steps, all_depths):
    """Add the image of a shape to that of all, in which its inside is the section by a plane."""
    for i in range(depth.shape[0]):
        for k in range(depth.shape[1]):
            z, number = depth[i, k], found[i, k]
            if number == -2:
                z, number = (plane[3] - plane[0] * (k + 0.5) - plane[1] * (i + 0.5)) / plane[2], section
            if z > all_depths[i, k] + nearer:
                of_all[i, k], all_steps[i, k], all_depths[i, k] = number, step[i, k], z


def outlines(mask: np.ndarray, finer: int, joined: int) -> list[np.ndarray]:
    """Closed outlines of a region of the buffer, holes the other way round, in the drawing [px], (N, 2) each.

    Args:
        mask: the region.
        finer: pixels of the buffer along one of the drawing.
        joined: pixels of the buffer along one of those from which outlines are taken; divides both sides of the buffer.
    """
    import contourpy  # take a tenth of a second, and are for these drawings only
    from matplotlib.path import Path

    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return []
    top, left, bottom, right = (int(one) // joined for one in (rows[0], columns[0], rows[-1], columns[-1]))
    part = mask[top * joined : (bottom + 1) * joined, left * joined : (right + 1) * joined]
    shares = part.reshape(bottom + 1 - top, joined, right + 1 - left, joined).mean(axis=(1, 3))
    found = []
    for line in contourpy.contour_generator(z=np.pad(shares, 1)).lines(0.5):
        rough = Path(np.asarray(line, float))
        rough.simplify_threshold, rough.should_simplify = STRAIGHT, True
        points = np.asarray(rough.cleaned(simplify=True).vertices)[:-1]
        if len(points) > 2:
            found.append((points + [left - 0.5, top - 0.5]) * joined / finer)
    return found
