"""Rows of exact constraints between the bodies of a world, and their span in scaled coordinates.

A constraint binds a body B to a body A (or to the world). It depends on their relative pose alone, so that the rate of
each of its rows is
    rate = f . (v_B(x) - v_A(x)) + m . (w_B - w_A) = w . (V_B - V_A),    w = (f, x x f + m):
a wrench w about the world's origin times the difference of the bodies' twists there, which are rows of J_W
(`BodyArrays`). So a row of A is J_W w over the coordinates that move B, less that over those that move A, and only w
depends on the kind of constraint. The part of the rate's change that depends on the velocity,
    gamma = df/dt . (v_B - v_A)(x) + f . (b_B(x) - b_A(x) + (w_B - w_A) x dx/dt)
            + dm/dt . (w_B - w_A) + m . (e_B - e_A),
with the spatial accelerations (b, e) of the bodies at constant generalised velocity v, is dA/dt v.

In scaled coordinates (u = L^T v, see `haptic_sim.dynamics.scaled`) the rows are W = A L^-T. Their span has the
orthonormal basis Q, W = T Q, by Gram-Schmidt with pivoting, each row orthogonalised twice; rows are first scaled to
length 1. A row whose remainder is less than `linalg.RANK_TOLERANCE` after projection on the rows before it depends on
them: it is left out. P = 1 - Q^T Q projects on velocities that satisfy all constraints; the constraint forces are in
the span of Q and do no work there.

A coupling of joints is a row of coordinates instead: with f and t the factors of two sums of positions,
    c = f . q - p(t . q),    A = f - p'(t . q) t,    gamma = -p''(t . q) (t . v)^2.

Residuals are in m or rad; of circle and sphere (d^2 - r^2) / (2 r), the distance to first order. Those of `axis_along`
are sines: it can be switched on from less than 90 degrees. Those of `frame_on_frame` are a rotation vector, in whose
row rates its own rate of change is left out: gamma is exact where the constraint is met.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from haptic_sim.kernels import kernel
from haptic_sim.linalg import cholesky, cholesky_solve, find_span
from haptic_sim.records import allocate, array, record, shared
from haptic_sim.vectors import dot

(
    POINT_ON_PLANE,
    POINT_ON_SPHERE,
    POINT_FIXED,
    POINT_ON_LINE,
    POINT_ON_CIRCLE,
    AXIS_ALONG,
    FRAME_ON_FRAME,
    AXIS_THROUGH_POINT,
    KNIFE_EDGE,
    ROLLING_BALL,
    JOINT_COUPLING,
) = range(11)
ROWS = {  # number of rows, and how many of them come first and are of positions
    POINT_ON_PLANE: (1, 1),
    POINT_ON_SPHERE: (1, 1),
    POINT_FIXED: (3, 3),
    POINT_ON_LINE: (2, 2),
    POINT_ON_CIRCLE: (2, 2),
    AXIS_ALONG: (2, 2),
    FRAME_ON_FRAME: (6, 6),
    AXIS_THROUGH_POINT: (2, 2),
    KNIFE_EDGE: (1, 0),
    ROLLING_BALL: (3, 1),
    JOINT_COUPLING: (1, 1),
}
TERMS = 5  # of the polynomial of a coupling of joints
MOST_ROWS = 6  # of a constraint
# A row that is shorter by this part than the longest has vanished: in a planar world, those that leave the plane.
_VANISHED = 1e-12


@dataclass(frozen=True)
class WorldConstraint:
    """One constraint between two joints of a model.

    Attributes:
        name, kind: see ROWS.
        joints: of A and of B; 0 is the world.
        p_A, p_B: a point of each, in the joint's axes [m].
        R_A, R_B: axes of each in the joint's axes, one a row: the first two span what the last one is normal to.
        radius: [m].
        active: intervals [s] in which it holds, None always; an end of None never comes.
        fade: how long it takes to switch [s].
        sums: of a coupling: factors of the positions of joints by number, of the sum that follows and of the other one.
        polynomial: of a coupling, the constant coefficient first.
    """

    name: str
    kind: int
    joints: tuple[int, int]
    p_A: np.ndarray
    p_B: np.ndarray
    R_A: np.ndarray
    R_B: np.ndarray
    radius: float = 1.0
    active: tuple[tuple[float, float | None], ...] | None = None
    fade: float = 0.3
    sums: tuple[dict[int, float], dict[int, float]] = field(default_factory=lambda: ({}, {}))
    polynomial: tuple[float, ...] = ()

    @property
    def bound(self) -> tuple[tuple[int, int], ...]:
        """Pairs of joints that move together by it."""
        coupled = [joint for part in self.sums for joint in part]
        return (self.joints, *itertools.pairwise(coupled))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return ROWS[self.kind][0]


@record
class RowsOfConstraints(NamedTuple):
    """Constraints and their rows, for kernels; made by `build_rows`."""

    kind: np.ndarray = shared("kind of each constraint, see ROWS", "constraints", dtype=np.int64)
    first: np.ndarray = shared("first row of each constraint", "constraints", dtype=np.int64)
    joints: np.ndarray = shared("joints of A and of B", "constraints", 2, dtype=np.int64)
    points: np.ndarray = shared("p_A and p_B in the joints' axes", "constraints", 2, 3, unit="m")
    axes: np.ndarray = shared("R_A and R_B, an axis a row", "constraints", 2, 3, 3)
    radius: np.ndarray = shared("radius of each constraint", "constraints", unit="m")
    sums: np.ndarray = shared("factors of positions in the two sums of a coupling", "constraints", 2, "nv")
    polynomial: np.ndarray = shared("coefficients of the polynomial of a coupling", "constraints", TERMS)
    holonomic: np.ndarray = shared("whether a row is of positions", "rows", dtype=np.bool_)
    owner: np.ndarray = shared("constraint of each row", "rows", dtype=np.int64)
    position: np.ndarray = array("position of joints with one coordinate, of which couplings are", "nv", unit="m, rad")
    placement: np.ndarray = array("pose of each joint in the world: rotation by rows, position", "joints", 12)
    acceleration: np.ndarray = array(
        "spatial [linear, angular], own axes, constant velocity of coordinates", "joints", 6
    )
    c: np.ndarray = array("residuals, 0 of rows of velocities", "rows", unit="m, rad")
    gamma: np.ndarray = array("change of the rows' rates by the velocity, dA/dt v", "rows", unit="m/s^2, rad/s^2")
    wrench: np.ndarray = array("wrench of a unit multiplier on B about the world's origin", "rows", 6)
    A: np.ndarray = array("rows over the coordinates", "rows", "nv")
    motion: np.ndarray = array("twists of A and of B, and their accelerations, at the world's origin", 4, 6)
    frames: np.ndarray = array("points of A and of B, then axes of A and of B, in the world", 8, 3)
    R_AB: np.ndarray = array("orientation of B in A", 3, 3)
    rotation_rate: np.ndarray = array("see `_rotation_rate`", 3, 3)
    of_force: np.ndarray = array("vectors of `_force`", 6, 3)
    of_constraint: np.ndarray = array("vectors of `_rows_of`", 4, 3)
    of_sphere: np.ndarray = array("vectors of `_sphere`", 4, 3)


def build_rows(constraints: Sequence[WorldConstraint], joints: int, first: Sequence[int], nv: int) -> RowsOfConstraints:
    """Rows of these constraints of a model with so many joints, whose first velocities are given, and velocities."""
    counts = [constraint.rows for constraint in constraints]
    sums, polynomial = np.zeros((len(constraints), 2, nv)), np.zeros((len(constraints), TERMS))
    for k, constraint in enumerate(constraints):
        polynomial[k, : len(constraint.polynomial)] = constraint.polynomial
        for side, factors in enumerate(constraint.sums):
            for joint, factor in factors.items():
                sums[k, side, first[joint]] = factor
    rows = allocate(
        RowsOfConstraints,
        {"rows": sum(counts), "joints": joints, "nv": nv},
        kind=np.array([constraint.kind for constraint in constraints], np.int64),
        first=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)[:-1].copy(),
        joints=np.array([constraint.joints for constraint in constraints], np.int64),
        points=np.array([(constraint.p_A, constraint.p_B) for constraint in constraints], float),
        axes=np.array([(constraint.R_A, constraint.R_B) for constraint in constraints], float),
        radius=np.array([constraint.radius for constraint in constraints], float),
        sums=sums,
        polynomial=polynomial,
        holonomic=np.array([i < ROWS[one.kind][1] for one in constraints for i in range(one.rows)], np.bool_),
        owner=np.repeat(np.arange(len(constraints)), counts).astype(np.int64),
    )
    rows.placement[:, :9] = np.eye(3).ravel()
    return rows


@record
class Span(NamedTuple):
    """The span of some rows in scaled coordinates, W = T Q, for kernels."""

    W: np.ndarray = array("rows, each of length 1", "rows", "nv")
    scale: np.ndarray = array("lengths of the rows before; 0 of those that take no part", "rows")
    T: np.ndarray = array("factor of the rows", "rows", "rows")
    Q: np.ndarray = array("orthonormal basis of the rows, of which the first `rank` count", "rows", "nv")
    rank: np.ndarray = array("dimension of the span", 1, dtype=np.int64)
    pivot: np.ndarray = array("row that each row of Q was made of", "rows", dtype=np.int64)
    dependent: np.ndarray = array("whether a row takes no part", "rows", dtype=np.bool_, fill=True)
    remainder: np.ndarray = array("squares of what is left of the rows, and work space", "rows")
    z: np.ndarray = array("coordinates along Q", "rows")
    per_row: np.ndarray = array("values or multipliers of the rows", "rows")
    gram: np.ndarray = array("a Gram matrix", "rows", "rows")


@kernel
def _cross(a, b, out):
    out[0] = a[1] * b[2] - a[2] * b[1]
    out[1] = a[2] * b[0] - a[0] * b[2]
    out[2] = a[0] * b[1] - a[1] * b[0]


@kernel
def _rotation_rate(R, c, out):
    """Fill c with the rotation vector of R (3, 3), and `out` with J for which dc/dt = J w, w in the axes of A.

    J = 1 - [c]/2 + (1 - (a/2) cot(a/2)) / a^2 [c]^2 with a = |c|, without singularity at zero.
    """
    x, y, z = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    sine = 0.5 * math.sqrt(x * x + y * y + z * z)
    angle = math.atan2(sine, 0.5 * (R[0, 0] + R[1, 1] + R[2, 2] - 1.0))
    s = 0.5 * angle / sine if sine > 1e-9 else 0.5
    c[0], c[1], c[2] = s * x, s * y, s * z
    if angle > 1e-3:
        k = (1.0 - 0.5 * angle / math.tan(0.5 * angle)) / (angle * angle)
    else:
        k = 1.0 / 12.0 + angle * angle / 720.0
    square = c[0] * c[0] + c[1] * c[1] + c[2] * c[2]
    for i in range(3):
        for j in range(3):
            out[i, j] = k * c[i] * c[j]
        out[i, i] += 1.0 - k * square
    out[0, 1] += 0.5 * c[2]
    out[1, 0] -= 0.5 * c[2]
    out[1, 2] += 0.5 * c[0]
    out[2, 1] -= 0.5 * c[0]
    out[2, 0] += 0.5 * c[1]
    out[0, 2] -= 0.5 * c[1]


@kernel
def evaluate(rows, J_W, support, v, rates):
    """Fill c, wrench, A and, if `rates`, gamma from the placements (and accelerations) of the joints.

    Args:
        rows: RowsOfConstraints.
        J_W, support: transposed Jacobian of the joints at the world's origin (nv, 6), and what moves them (J, nv).
        v: velocity (nv,), for gamma.
    """
    for i in range(rows.c.shape[0]):
        rows.c[i] = rows.gamma[i] = 0.0
    g, motion = rows.frames, rows.motion  # g: x_A, x_B, then axes of A and of B
    for k in range(rows.kind.shape[0]):
        if rows.kind[k] == JOINT_COUPLING:
            continue
        for side in range(2):
            joint = rows.joints[k, side]
            place = rows.placement[joint]
            for i in range(3):
                g[side, i] = place[9 + i]
                for j in range(3):
                    g[side, i] += place[3 * i + j] * rows.points[k, side, j]
                for axis in range(3):
                    s = 0.0
                    for j in range(3):
                        s += place[3 * i + j] * rows.axes[k, side, axis, j]
                    g[2 + 3 * side + axis, i] = s
            if rates:
                _motion(joint, place, rows.acceleration[joint], J_W, support, v, motion[side], motion[2 + side])
        _rows_of(rows, k, g, motion, rates)
    for i in range(rows.c.shape[0]):
        a, b = rows.joints[rows.owner[i], 0], rows.joints[rows.owner[i], 1]
        for j in range(J_W.shape[0]):
            s = 0.0
            if support[a, j] != support[b, j]:
                for d in range(6):
                    s += rows.wrench[i, d] * J_W[j, d]
                if support[a, j]:
                    s = -s
            rows.A[i, j] = s
    for k in range(rows.kind.shape[0]):
        if rows.kind[k] == JOINT_COUPLING:
            _couple(rows, k, v, rates)


@kernel
def _couple(rows, k, v, rates):
    """Residual, row and gamma of a coupling of joints."""
    i, p = rows.first[k], rows.polynomial[k]
    left = right = rate = 0.0
    for j in range(v.shape[0]):
        left += rows.sums[k, 0, j] * rows.position[j]
        right += rows.sums[k, 1, j] * rows.position[j]
        rate += rows.sums[k, 1, j] * v[j]
    value = slope = curvature = 0.0  # of the polynomial, by Horner's rule
    for n in range(p.shape[0] - 1, -1, -1):
        curvature = curvature * right + 2.0 * slope
        slope = slope * right + value
        value = value * right + p[n]
    rows.c[i] = left - value
    for j in range(v.shape[0]):
        rows.A[i, j] = rows.sums[k, 0, j] - slope * rows.sums[k, 1, j]
    if rates:
        rows.gamma[i] = -curvature * rate * rate


@kernel
def _motion(joint, place, a, J_W, support, v, twist, acceleration):
    """Twist of a joint at the world's origin and, at constant v, its spatial acceleration there."""
    for d in range(6):
        s = 0.0
        for j in range(v.shape[0]):
            if support[joint, j]:
                s += J_W[j, d] * v[j]
        twist[d] = s
    for i in range(3):
        s = t = 0.0
        for j in range(3):
            s += place[3 * i + j] * a[j]
            t += place[3 * i + j] * a[3 + j]
        acceleration[i], acceleration[3 + i] = s, t
    p, b = place[9:12], acceleration[3:]
    acceleration[0] += p[1] * b[2] - p[2] * b[1]  # of what is at the origin: a_0 = a_p + p x alpha
    acceleration[1] += p[2] * b[0] - p[0] * b[2]
    acceleration[2] += p[0] * b[1] - p[1] * b[0]


@kernel
def _velocity_at(twist, x, out):
    out[0] = twist[0] + twist[4] * x[2] - twist[5] * x[1]
    out[1] = twist[1] + twist[5] * x[0] - twist[3] * x[2]
    out[2] = twist[2] + twist[3] * x[1] - twist[4] * x[0]


@kernel
def _force(rows, i, f, x, motion, f_of, x_of, more, rates):
    """Row i: a force f at x.

    Args:
        f_of, x_of: whether f and x move with A (0) or B (1); f_of 2: df/dt is (v_B - v_A)(x) times `more`, and x is
            fixed to B.
        more: how fast x moves besides, with the third axis of A: see `ROLLING_BALL`; or see `f_of`.
    """
    w = rows.wrench[i]
    for d in range(3):
        w[d] = f[d]
    _cross(x, f, w[3:])
    if not rates:
        return
    h = rows.of_force
    v_A, v_B, fdot, turn, xdot, part = h[0], h[1], h[2], h[3], h[4], h[5]
    V_A, V_B, a_A, a_B = motion[0], motion[1], motion[2], motion[3]
    _velocity_at(V_A, x, v_A)
    _velocity_at(V_B, x, v_B)
    if f_of < 2:
        _cross(motion[f_of, 3:], f, fdot)
    for d in range(3):
        turn[d] = V_B[3 + d] - V_A[3 + d]
        xdot[d] = v_B[d] if x_of == 1 else v_A[d]
        if f_of == 2:
            fdot[d] = more * (v_B[d] - v_A[d])
    gamma = 0.0
    # d/dt v_B(x(t)) = a_B0 + alpha_B x x + w_B x dx/dt: the classical acceleration of what is at x, where x is of B
    _velocity_at(a_B, x, part)
    for d in range(3):
        gamma += fdot[d] * (v_B[d] - v_A[d]) + f[d] * part[d]
    _velocity_at(a_A, x, part)
    for d in range(3):
        gamma -= f[d] * part[d]
    _cross(turn, xdot, part)
    for d in range(3):
        gamma += f[d] * part[d]
    rows.gamma[i] = gamma


@kernel
def _rows_of(rows, k, g, motion, rates):
    """Residuals, wrenches and gammas of constraint k."""
    kind, i, c = rows.kind[k], rows.first[k], rows.c
    x_A, x_B, e, f = g[0], g[1], g[2:5], g[5:8]
    h = rows.of_constraint
    d = h[0]
    for j in range(3):
        d[j] = x_B[j] - x_A[j]
    if kind == POINT_ON_PLANE:
        c[i] = dot(e[2], d)
        _force(rows, i, e[2], x_B, motion, 0, 1, 0.0, rates)
    elif kind == POINT_ON_SPHERE:
        _sphere(rows, i, d, rows.radius[k], x_B, motion, rates)
    elif kind in (POINT_FIXED, POINT_ON_LINE):
        for j in range(3 if kind == POINT_FIXED else 2):
            c[i + j] = dot(e[j], d)
            _force(rows, i + j, e[j], x_B, motion, 0, 1, 0.0, rates)
    elif kind == POINT_ON_CIRCLE:
        c[i] = dot(e[2], d)
        _force(rows, i, e[2], x_B, motion, 0, 1, 0.0, rates)
        _sphere(rows, i + 1, d, rows.radius[k], x_B, motion, rates)
    elif kind == AXIS_ALONG:
        for j in range(2):
            c[i + j] = dot(e[j], f[2])
            _cross(f[2], e[j], h[1])
            _cross(motion[1, 3:], f[2], h[2])
            _cross(h[2], e[j], h[3])
            _cross(motion[0, 3:], e[j], h[2])
            _cross(f[2], h[2], d)
            for a in range(3):
                h[3, a] += d[a]
            _moment(rows, i + j, h[1], h[3], motion, rates)
    elif kind == FRAME_ON_FRAME:
        for j in range(3):
            c[i + j] = dot(e[j], d)
            _force(rows, i + j, e[j], x_B, motion, 0, 1, 0.0, rates)
        R, J = rows.R_AB, rows.rotation_rate
        for a in range(3):
            for b in range(3):
                R[a, b] = dot(e[a], f[b])
        _rotation_rate(R, c[i + 3 : i + 6], J)
        for j in range(3):
            for a in range(3):
                h[1, a] = J[j, 0] * e[0, a] + J[j, 1] * e[1, a] + J[j, 2] * e[2, a]
            _cross(motion[0, 3:], h[1], h[2])
            _moment(rows, i + 3 + j, h[1], h[2], motion, rates)
    elif kind == AXIS_THROUGH_POINT:
        for j in range(2):
            c[i + j] = -dot(f[j], d)
            for a in range(3):
                h[1, a] = -f[j, a]
            _force(rows, i + j, h[1], x_A, motion, 1, 0, 0.0, rates)
    elif kind == KNIFE_EDGE:
        _force(rows, i, f[2], x_B, motion, 1, 1, 0.0, rates)
    else:  # ROLLING_BALL
        r = rows.radius[k]
        c[i] = dot(e[2], d) - r
        _force(rows, i, e[2], x_B, motion, 0, 1, 0.0, rates)
        for a in range(3):
            h[1, a] = x_B[a] - r * e[2, a]
        for j in range(2):
            _force(rows, i + 1 + j, e[j], h[1], motion, 0, 1, 0.0, rates)
            if rates:
                # The point of contact moves with the centre of the ball, less r w_A x n, and not with the ball.
                _velocity_at(motion[1], x_B, h[2])
                _cross(motion[0, 3:], e[2], h[3])
                for a in range(3):
                    h[2, a] -= r * h[3, a]
                _velocity_at(motion[1], h[1], h[3])
                for a in range(3):
                    h[2, a] -= h[3, a]
                    h[3, a] = motion[1, 3 + a] - motion[0, 3 + a]
                _cross(h[3], h[2], d)
                rows.gamma[i + 1 + j] += dot(e[j], d)


@kernel
def _sphere(rows, i, d, radius, x_B, motion, rates):
    """Row i: (d^2 - r^2) / (2 r) for the distance vector d."""
    h = rows.of_sphere
    f, turned, v_A, v_B = h[0], h[1], h[2], h[3]
    for a in range(3):
        f[a] = d[a] / radius
    rows.c[i] = 0.5 * (dot(d, d) - radius * radius) / radius
    _force(rows, i, f, x_B, motion, 2, 1, 1.0 / radius, rates)
    if rates:
        # df/dt is (v_B(x_B) - v_A(x_A)) / r: what `_force` leaves out, w_A x d / r, turns f with A
        _cross(motion[0, 3:], f, turned)
        _velocity_at(motion[0], x_B, v_A)
        _velocity_at(motion[1], x_B, v_B)
        for a in range(3):
            rows.gamma[i] += turned[a] * (v_B[a] - v_A[a])


@kernel
def _moment(rows, i, m, mdot, motion, rates):
    """Row i: a moment m."""
    for d in range(3):
        rows.wrench[i, d] = 0.0
        rows.wrench[i, 3 + d] = m[d]
        if rates:
            rows.gamma[i] += mdot[d] * (motion[1, 3 + d] - motion[0, 3 + d])
            rows.gamma[i] += m[d] * (motion[3, 3 + d] - motion[2, 3 + d])


# Span


@kernel
def scaled_row(A, body, W):
    """Fill W with the row A L^-T (n,), L of `BodyArrays`."""
    L = body.L
    for j in range(A.shape[0]):
        first = body.first[j]
        s = A[j]
        for k in range(first, j):
            s -= L[j, k - first] * W[k]
        W[j] = s / L[j, j - first]


@kernel
def span_rows(span, m):
    """Make the first m rows of W (of any length) of length 1, and find all the rest of `Span`."""
    span.rank[0] = find_span(
        m, _VANISHED, span.W, span.scale, span.T, span.Q, span.pivot, span.dependent, span.remainder
    )


@kernel
def along(span, target, z):
    """Fill z with the coordinates along Q for which the independent rows, unscaled, have the values `target`."""
    for i in range(span.rank[0]):
        row = span.pivot[i]
        s = target[row] / span.scale[row]
        for j in range(i):
            s -= span.T[row, j] * z[j]
        z[i] = s / span.T[row, i]


@kernel
def multipliers(span, m, z, out):
    """Fill `out` (m,) with the multipliers of least norm (of rows of length 1) whose W^T out, unscaled, is Q^T z."""
    T, gram, rank, x = span.T, span.gram, span.rank[0], span.remainder
    for i in range(m):
        out[i] = 0.0
    if rank == 0:
        return
    for i in range(rank):  # out = T (T^T T)^-1 z
        for j in range(i + 1):
            s = 0.0
            for row in range(m):
                s += T[row, i] * T[row, j]
            gram[i, j] = s
        x[i] = z[i]
    cholesky(gram, rank, gram)
    cholesky_solve(gram, rank, x)
    for row in range(m):
        if span.scale[row] > 0.0:
            s = 0.0
            for i in range(rank):
                s += T[row, i] * x[i]
            out[row] = s / span.scale[row]


@kernel
def project(Q, rank, x, z):
    """Take the part along Q out of x (n,); fills z (rank,) with it. Twice, so that rounding leaves nothing."""
    for i in range(rank):
        z[i] = 0.0
    for _ in range(2):
        for i in range(rank):
            s = 0.0
            for k in range(x.shape[0]):
                s += Q[i, k] * x[k]
            z[i] += s
            for k in range(x.shape[0]):
                x[k] -= s * Q[i, k]
