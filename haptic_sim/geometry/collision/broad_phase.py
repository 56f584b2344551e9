"""Broad phase: pairs of shapes that may have a contact within the margin.

Each shape has a bounding box aligned with the world, and every pair of the list is tested. At 1 ns a pair, this is
cheaper than sorted axes below some hundred shapes. (coal's own broad-phase managers call a callback for each pair, in
Python a microsecond each, or only answer whether anything collides.)
"""

from __future__ import annotations

from haptic_sim.geometry.collision.features import HALFSPACE
from haptic_sim.kernels import kernel


@kernel(error_model="numpy")
def find_near(scene, margin):
    """List the pairs that may be nearer than `margin` [m].

    Args:
        scene: `DetectorArrays`. Fills `near` with these pairs in ascending order, brings `active` up to date, and fills
            `changed` with the pairs whose `active` changed.
        margin: [m].

    Returns:
        How many pairs are near, how many changed, how many are active.
    """
    placement, shapes, pairs, bounds = scene.placement, scene.shapes, scene.pairs.objects, scene.bounds
    active, near, changed = scene.active, scene.near, scene.changed
    for g in range(placement.shape[0]):
        if shapes.kind[g] == HALFSPACE:
            d = shapes.box[g, 3]
            for i in range(3):
                n = 0.0
                for j in range(3):
                    n += placement[g, 3 * j + i] * shapes.box[g, j]
                bounds[g, i] = n
                d += n * placement[g, 9 + i]
            bounds[g, 3] = d
            continue
        for i in range(3):
            centre = placement[g, 9 + i]
            half = 0.0
            for j in range(3):
                r = placement[g, 3 * j + i]
                centre += r * shapes.box[g, j]
                half += abs(r) * shapes.box[g, 3 + j]
            bounds[g, i] = centre
            bounds[g, 3 + i] = half
    count = 0
    changes = 0
    measured = 0
    for p in range(pairs.shape[0]):
        a, b = pairs[p, 0], pairs[p, 1]
        solid = False
        if shapes.kind[a] == HALFSPACE:
            close = _nearer_to_plane(placement, shapes, bounds, a, b, margin)
        elif shapes.kind[b] == HALFSPACE:
            close = _nearer_to_plane(placement, shapes, bounds, b, a, margin)
        else:
            solid = close = (
                abs(bounds[a, 0] - bounds[b, 0]) <= bounds[a, 3] + bounds[b, 3] + margin
                and abs(bounds[a, 1] - bounds[b, 1]) <= bounds[a, 4] + bounds[b, 4] + margin
                and abs(bounds[a, 2] - bounds[b, 2]) <= bounds[a, 5] + bounds[b, 5] + margin
            )
        if close:
            near[count] = p
            count += 1
        if solid != active[p]:
            active[p] = solid
            changed[changes] = p
            changes += 1
        if solid:
            measured += 1
    return count, changes, measured


@kernel(error_model="numpy")
def _nearer_to_plane(placement, shapes, bounds, plane, g, margin):
    """Whether the bounding box of shape g, in its own axes, comes within `margin` of a half-space."""
    s = -bounds[plane, 3]
    for i in range(3):
        s += bounds[plane, i] * bounds[g, i]
    for j in range(3):
        n = 0.0
        for i in range(3):
            n += bounds[plane, i] * placement[g, 3 * j + i]
        s -= abs(n) * shapes.box[g, 3 + j]
    return s < margin
