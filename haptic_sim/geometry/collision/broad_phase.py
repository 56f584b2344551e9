"""Broad phase: pairs of shapes that may have a contact within the margin.

Each shape has a bounding box aligned with the world. Of the solids, those are compared whose boxes overlap along one
axis, the one along which they are spread most ("sweep and prune": Baraff, 1992; Cohen et al., I-COLLIDE, 1995): their
lower ends are kept in order from step to step, so that sorting takes about n operations where bodies move little, and
n log n at most. Half-spaces are compared with each shape that may touch them. What is found, and its order, is what the
comparison of all pairs gives. (coal's own broad-phase managers call a callback for each pair, in Python a microsecond
each, or only answer whether anything collides.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haptic_sim.geometry.collision.features import FIELD, HALFSPACE
from haptic_sim.kernels import kernel
from haptic_sim.records import allocate, array, record, shared

MOVES = 4  # for each shape, that keep the order up to date; where it takes more, it is sorted anew
ROUNDING = 1e-14  # of the ends of boxes, relative to the largest


@record
class BroadPhase(NamedTuple):
    """The pairs by their shapes, and what is kept from step to step, for kernels."""

    planes: np.ndarray = shared("pairs with a half-space, ascending", "plane_pairs", dtype=np.int64)
    first: np.ndarray = shared(
        "first partner of each shape in pairs of two solids; the last: their number", "shapes + 1", dtype=np.int64
    )
    partner: np.ndarray = shared(
        "the shape with the larger number of such a pair, ascending for each of the others",
        "solid_pairs",
        dtype=np.int64,
    )
    pair: np.ndarray = shared("number of this pair", "solid_pairs", dtype=np.int64)
    number: np.ndarray = shared("0, 1, ...: keys of pairs that are in the order of their numbers", "pairs")
    order: np.ndarray = shared("solids by their lower ends", "solids", dtype=np.int64)
    low: np.ndarray = array("lower end of each shape along the axis", "shapes", unit="m")
    axis: np.ndarray = array("axis of the world along which solids are sorted", 1, dtype=np.int64)
    before: np.ndarray = array("pairs of solids that were near in the step before", "solid_pairs", dtype=np.int64)
    remembered: np.ndarray = array("number of these", 1, dtype=np.int64)
    still: np.ndarray = array("whether a pair is near in this step, too", "pairs", dtype=np.bool_)


def build_broad_phase(kind: np.ndarray, objects: np.ndarray) -> BroadPhase:
    """Build the broad phase for shapes of these kinds (G,), of which the pairs `objects` (P, 2) may touch."""
    flat = (kind[objects] == HALFSPACE).any(axis=1)
    solid = np.flatnonzero(~flat)
    ends = np.sort(objects[solid], axis=1)
    ordered = np.lexsort((ends[:, 1], ends[:, 0]))
    ends, solid = ends[ordered], solid[ordered]
    return allocate(
        BroadPhase,
        {"shapes": len(kind), "pairs": len(objects), "solid_pairs": len(solid)},
        planes=np.flatnonzero(flat),
        first=np.searchsorted(ends[:, 0], np.arange(len(kind) + 1)),
        partner=np.ascontiguousarray(ends[:, 1]),
        pair=solid,
        number=np.arange(len(objects), dtype=float),
        order=np.unique(ends),
    )


@kernel(error_model="numpy")
def find_near(scene, margin):
    """List the pairs that may be nearer than `margin` [m].

    Args:
        scene: `DetectorArrays`. Fills `near` with these pairs in ascending order, brings `active` up to date, and fills
            `changed` with the pairs whose `active` changed.
        margin: [m].

    Returns:
        How many pairs are near, how many changed, how many are active. Pairs with a half-space or a field never are.
    """
    placement, shapes, pairs, bounds = scene.placement, scene.shapes, scene.pairs.objects, scene.bounds
    active, near, changed, broad = scene.active, scene.near, scene.changed, scene.broad
    rests, bounded = scene.rests, scene.bounded
    for g in range(placement.shape[0]):
        if rests[g] and bounded[g]:
            continue
        bounded[g] = rests[g]
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
    for k in range(broad.planes.shape[0]):
        p = broad.planes[k]
        a, b = pairs[p, 0], pairs[p, 1]
        if rests[a] and rests[b]:
            continue
        plane, g = (a, b) if shapes.kind[a] == HALFSPACE else (b, a)
        if _nearer_to_plane(placement, shapes, bounds, plane, g, margin):
            near[count] = p
            count += 1
    planes = count
    if broad.order.shape[0] > 0:
        _sort_solids(broad, bounds)
        count = _sweep(broad, bounds, rests, margin, near, count)
        if planes > 0 or count > 1:
            sort_by(near, count, broad.number)
    measured = changes = 0
    for k in range(count):
        p = near[k]
        a, b = pairs[p, 0], pairs[p, 1]
        if shapes.kind[a] == HALFSPACE or shapes.kind[b] == HALFSPACE:
            continue
        if shapes.kind[a] == FIELD or shapes.kind[b] == FIELD:
            continue
        measured += 1
        broad.still[p] = True
        if not active[p]:
            active[p] = True
            changed[changes] = p
            changes += 1
    for k in range(broad.remembered[0]):
        p = broad.before[k]
        if not broad.still[p]:
            active[p] = False
            changed[changes] = p
            changes += 1
    broad.remembered[0] = 0
    for k in range(count):
        p = near[k]
        if broad.still[p]:
            broad.still[p] = False
            broad.before[broad.remembered[0]] = p
            broad.remembered[0] += 1
    return count, changes, measured


@kernel(error_model="numpy")
def _sort_solids(broad, bounds):
    """Sort the solids along the axis of the world along which their centres are spread most."""
    order, low = broad.order, broad.low
    n = order.shape[0]
    first = order[0]
    x0, y0, z0 = bounds[first, 0], bounds[first, 1], bounds[first, 2]
    sx = sy = sz = xx = yy = zz = 0.0
    for k in range(n):
        g = order[k]
        x, y, z = bounds[g, 0] - x0, bounds[g, 1] - y0, bounds[g, 2] - z0
        sx, sy, sz = sx + x, sy + y, sz + z
        xx, yy, zz = xx + x * x, yy + y * y, zz + z * z
    xx, yy, zz = xx - sx * sx / n, yy - sy * sy / n, zz - sz * sz / n  # n times the variances
    axis = 0 if xx >= yy and xx >= zz else 1 if yy >= zz else 2
    broad.axis[0] = axis
    for k in range(n):
        g = order[k]
        low[g] = bounds[g, axis] - bounds[g, 3 + axis]
    sort_by(order, n, low)


@kernel(error_model="numpy")
def _sweep(broad, bounds, rests, margin, near, count):
    """Append the pairs of solids whose bounding boxes are nearer than `margin` to the first `count` of `near`.

    But for pairs of two that rest.
    """
    order, low, axis = broad.order, broad.low, broad.axis[0]
    n = order.shape[0]
    rounding = ROUNDING * (abs(low[order[0]]) + abs(low[order[n - 1]]) + margin)
    for k in range(n):
        g = order[k]
        end = bounds[g, axis] + bounds[g, 3 + axis] + margin
        end += rounding + ROUNDING * abs(end)
        for m in range(k + 1, n):
            h = order[m]
            if low[h] > end:
                break
            if rests[g] and rests[h]:
                continue
            if (
                abs(bounds[g, 0] - bounds[h, 0]) <= bounds[g, 3] + bounds[h, 3] + margin
                and abs(bounds[g, 1] - bounds[h, 1]) <= bounds[g, 4] + bounds[h, 4] + margin
                and abs(bounds[g, 2] - bounds[h, 2]) <= bounds[g, 5] + bounds[h, 5] + margin
            ):
                p = _pair_of(broad, g, h)
                if p >= 0:
                    near[count] = p
                    count += 1
    return count


@kernel(error_model="numpy")
def _pair_of(broad, g, h):
    """Number of the pair of two solids, -1 if they pass through each other."""
    a, b = min(g, h), max(g, h)
    begin, end = broad.first[a], broad.first[a + 1]
    while begin < end:
        middle = (begin + end) // 2
        if broad.partner[middle] < b:
            begin = middle + 1
        else:
            end = middle
    if begin < broad.first[a + 1] and broad.partner[begin] == b:
        return broad.pair[begin]
    return -1


@kernel(error_model="numpy")
def sort_by(items, n, key):
    """Sort the first n items by key[item]: by insertion where they are nearly in order, else in a heap."""
    moves = MOVES * n
    for i in range(1, n):
        item = items[i]
        x = key[item]
        k = i
        while k > 0 and key[items[k - 1]] > x:
            items[k] = items[k - 1]
            k -= 1
        items[k] = item
        moves -= i - k
        if moves < 0:
            _heap_sort(items, n, key)
            return


@kernel(error_model="numpy")
def _heap_sort(items, n, key):
    """Sort the first n items by key[item] in a heap (Williams, Algorithm 232, CACM 1964)."""
    for i in range(n // 2 - 1, -1, -1):
        _sift(items, i, n, key)
    for end in range(n - 1, 0, -1):
        items[0], items[end] = items[end], items[0]
        _sift(items, 0, end, key)


@kernel(error_model="numpy")
def _sift(items, i, n, key):
    """Let item i sink in the heap of the first n."""
    item = items[i]
    x = key[item]
    while 2 * i + 1 < n:
        child = 2 * i + 1
        if child + 1 < n and key[items[child + 1]] > key[items[child]]:
            child += 1
        if not key[items[child]] > x:
            break
        items[i] = items[child]
        i = child
    items[i] = item


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
