"""Signed distance of a point from any solid, as numbers that the kernels of fields of force read.

The distances from the triangles are sampled at the nodes of a grid, and the samples f are the coefficients of a
quadratic B-spline: phi(x) = sum_n B(x - x_n) f_n (`geometry.node_splines`), which has a continuous gradient. Forces are
those of this phi and of its gradient, so that they have a potential. The spline is a mean of the distances around the
point. Distances of neighbours differ by at most that of the neighbours, so the gradient is hardly longer than 1 (1.02
at most on the meshes of the tests), and no force is larger than its bound by more than that. The signed distance fields
of contacts interpolate more accurately, and pass from fine to coarse samples within one spacing: there their gradient
is up to 2.6 long, which would be a force of 2.6 times its bound.

**Limits**, with the spacing h. A smooth surface lies h^2 / 8 (1/r_1 + 1/r_2) within that of the mesh where it is
convex, with its radii of curvature r; sharp edges are rounded over about h. In the middle of a thin part the gradient
turns round within h, and a wall of up to 1.2 h may be open, where the mean of the distances is not negative.

At a distance a from the box of the grid, with phi at the nearest point of the box, the value is the root of
phi^2 + phi a + a^2. The distance is at least the root of phi^2 + a^2 and at most phi + a, so that the value is 14 % too
low and 23 % too high at most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from haptic_sim.geometry.fields.distances import FieldError, distances_everywhere
from haptic_sim.geometry.fields.field import PARTS, SPACING, rounded_up
from haptic_sim.geometry.node_splines import first_node, nodes_around, spacing_for, spline_over
from haptic_sim.kept import digest_of, kept
from haptic_sim.kernels import kernel

MOST_NODES = 10_000_000  # 80 MB, in some 15 s
COARSEST = 0.05  # of the diagonal: accuracy
MARGIN = 0.125  # of the diagonal: how far the grid goes beyond the shape where distances outside count
_FORMAT = 1  # of numbers that are kept: counts up with whatever changes those of the same mesh
_HEAD = 7  # first node, spacing, numbers of nodes


def sampled_numbers(
    vertices: np.ndarray, triangles: np.ndarray, accuracy: float | None, *, outside: bool, most: int = MOST_NODES
) -> np.ndarray:
    """The numbers of a solid in its own axes, which are kept for later.

    Args:
        vertices: (n, 3) [m].
        triangles: (m, 3), anticlockwise seen from outside; holes are closed.
        accuracy: half of the spacing of the samples [m], 1/20 of the diagonal at most; None: 1 / PARTS of it.
        outside: whether distances outside count.
        most: samples that are allowed.

    Raises:
        FieldError: it would have more samples than are allowed, and the text names the accuracy that would do; or it
            is too thin for them.
    """
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    diagonal = float(np.linalg.norm(high - low))
    accuracy = diagonal / PARTS if accuracy is None else min(accuracy, COARSEST * diagonal)
    margin = MARGIN * diagonal if outside else 0.0
    low, high, spacing = low - margin, high + margin, SPACING * accuracy
    nodes = nodes_around(high - low, spacing)
    if not nodes.prod() <= most:
        would = rounded_up(spacing_for(high - low, spacing, most) / SPACING)
        raise FieldError(
            f"error = {accuracy:g} m: its distances would have {nodes.prod():.2g} samples: must be at most {most:.2g}; "
            f"allow an error of {would} m"
        )

    def build() -> Mapping[str, np.ndarray]:
        from scipy.ndimage import correlate1d  # takes long to import: only where samples are made

        first, shape = first_node(low, high, spacing), tuple(nodes.astype(int).tolist())
        samples = distances_everywhere(vertices, triangles, first, spacing, shape)
        at_nodes = samples
        for axis in range(3):
            at_nodes = correlate1d(at_nodes, [0.125, 0.75, 0.125], axis)
        if not at_nodes.min() < 0.0:
            raise FieldError(
                f"error = {accuracy:g} m: it is too thin for samples {spacing:.3g} m apart, and nothing would be "
                "inside; set error to at most a quarter of its thickness"
            )
        return {"numbers": np.concatenate([first, [spacing], nodes, samples.ravel()])}

    return kept("regions", digest_of(vertices, triangles, spacing, margin, _FORMAT), build)[0]["numbers"]


@kernel(error_model="numpy")
def sampled_distance(keys, at, x, y, z):
    """Distance of a point from the solid whose numbers begin at keys[at], and its gradient."""
    h, nodes = keys[at + 3], (int(keys[at + 4]), int(keys[at + 5]), int(keys[at + 6]))
    p, q, r = (x - keys[at]) / h, (y - keys[at + 1]) / h, (z - keys[at + 2]) / h
    # the box in which all nodes of the spline are their own
    i, j, k = min(max(p, 1.0), nodes[0] - 2.0), min(max(q, 1.0), nodes[1] - 2.0), min(max(r, 1.0), nodes[2] - 2.0)
    d, gx, gy, gz = spline_over(keys, at + _HEAD, 1, nodes, i, j, k)
    gx, gy, gz = gx / h, gy / h, gz / h
    u, v, w = h * (p - i), h * (q - j), h * (r - k)
    if u == 0.0 and v == 0.0 and w == 0.0:
        return d, gx, gy, gz
    away = math.sqrt(u * u + v * v + w * w)
    total = math.sqrt(d * d + d * away + away * away)
    along, out = (d + 0.5 * away) / total, (away + 0.5 * d) / (total * away)
    return (
        total,
        along * gx if u == 0.0 else out * u,
        along * gy if v == 0.0 else out * v,
        along * gz if w == 0.0 else out * w,
    )
