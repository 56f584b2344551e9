"""Constraints ready to use, constraints of a user, and the model that connects them with a system.

Each has a residual c(q) or a row A(q) qd = b, with the exact A and Adot. Residuals are in m or rad. This also holds for
the circle and the sphere, whose residual (d^2 - r^2) / (2 r) is the distance to first order; FAULRING (38) is 2 r times
that row, and its multiplier is 1 / (2 r) times ours, which is the force in N.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numba
import numpy as np
from numba.extending import overload

from haptic_sim.constraints.errors import ConstraintError
from haptic_sim.constraints.generated import call_terms
from haptic_sim.constraints.model import DATA_WIDTH, FormulaModel, Model, Workspace, allocate_workspace, sizes
from haptic_sim.constraints.systems import (
    LINK_AND_BODY,
    RIGID_BODY,
    ROLLING_SPHERE,
    System,
    damping,
    dynamics,
    external_force,
    kinematics,
    point,
    potential,
    vector,
)

(
    COORDINATE,
    POINT_ON_PLANE,
    POINT_ON_SPHERE,
    POINT_FIXED,
    AXIS_ANGLE,
    DISC_HEIGHT,
    CLOSED_LOOP,
    ROLLING_UPRIGHT,
    ROLLING_DISC,
    ROLLING_TRUE,
    ROLLING_PRINTED,
    VELOCITY_ROW,
    POINT_ON_QUADRIC,
) = range(13)
_WIDEST_ROW = 7  # coefficients of a velocity row


@dataclass(frozen=True)
class Constraint:
    """One constraint of the library."""

    name: str
    kind: int
    rows: int
    holonomic: bool
    data: np.ndarray
    systems: tuple[int, ...] = ()  # kinds it is for; () for all


@dataclass(frozen=True)
class UserConstraint:
    """A constraint given by functions of (q, qd), which run in Python: about a millisecond a step.

    Args:
        name: shown in errors.
        rows: number of rows.
        holonomic: True if `value` is the residual c(q); False for rows A(q) qd = b(q).
        jacobian: A(q), (rows, n).
        jacobian_rate: Adot along qd, (rows, n).
        value: c(q) of a holonomic constraint, (rows,).
        rate: b(q) and its rate of change along qd, each (rows,), of an acatastatic one; None means zero.
    """

    name: str
    rows: int
    holonomic: bool
    jacobian: Callable[[np.ndarray], Any]
    jacobian_rate: Callable[[np.ndarray, np.ndarray], Any]
    value: Callable[[np.ndarray], Any] | None = None
    rate: Callable[[np.ndarray, np.ndarray], tuple[Any, Any]] | None = None


def _constraint(
    name: str, kind: int, rows: int, holonomic: bool, data: Sequence[float], systems: tuple[int, ...] = ()
) -> Constraint:
    values = vector(name, data, len(data))
    return Constraint(name, kind, rows, holonomic, np.pad(values, (0, DATA_WIDTH - len(values))), systems)


def _unit(name: str, direction: Sequence[float]) -> np.ndarray:
    d = vector(name, direction, 3)
    length = float(np.linalg.norm(d))
    if not length > 0.0:
        raise ConstraintError(f"{name} = {d.tolist()}: must have a length > 0")
    return d / length


def _across(unit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two unit vectors across one and each other."""
    first = np.cross(unit, np.eye(3)[np.argmin(np.abs(unit))])
    first /= np.linalg.norm(first)
    return first, np.cross(unit, first)


def _rotation(name: str, matrix: np.ndarray) -> np.ndarray:
    R = np.asarray(matrix, float)
    if R.shape != (3, 3) or not np.allclose(R @ R.T, np.eye(3), atol=1e-9):
        raise ConstraintError(f"{name} has the shape {R.shape}: must be a (3, 3) rotation")
    return R


def _positive(name: str, value: float) -> float:
    if not 0.0 < value < math.inf:
        raise ConstraintError(f"{name} = {value} m: must be finite and > 0")
    return float(value)


def coordinate(system: System, name: str, value: float, label: str | None = None) -> Constraint:
    """Coordinate `name` of the system keeps `value` [m or rad]: FAULRING (21-22), YUN (41)."""
    if name not in system.coordinates:
        near = difflib.get_close_matches(name, system.coordinates, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ConstraintError(f"coordinate {name!r}{hint}: {system.name} has {', '.join(system.coordinates)}")
    return _constraint(label or name, COORDINATE, 1, True, [float(system.coordinates.index(name)), value])


def point_on_plane(
    normal: Sequence[float], offset: float = 0.0, at: Sequence[float] = (0.0, 0.0, 0.0), label: str = "point_on_plane"
) -> Constraint:
    """The point `at` of the body [m] stays where normal . p = offset [m]; world normal."""
    n = _unit(f"{label}.normal", normal)
    return _constraint(label, POINT_ON_PLANE, 1, True, [*vector(f"{label}.at", at, 3), *n, offset])


def point_on_sphere(
    centre: Sequence[float], radius: float, at: Sequence[float] = (0.0, 0.0, 0.0), label: str = "point_on_sphere"
) -> Constraint:
    """The point `at` of the body [m] stays on a sphere; for planar systems the circle of FAULRING (37)."""
    data = [*vector(f"{label}.at", at, 3), *vector(f"{label}.centre", centre, 3), _positive(f"{label}.radius", radius)]
    return _constraint(label, POINT_ON_SPHERE, 1, True, data)


def point_on_circle(
    centre: Sequence[float],
    normal: Sequence[float],
    radius: float,
    at: Sequence[float] = (0.0, 0.0, 0.0),
    label: str = "point_on_circle",
) -> list[Constraint]:
    """The point `at` of a spatial body stays on the circle about `centre`, across `normal`."""
    n = _unit(f"{label}.normal", normal)
    c = vector(f"{label}.centre", centre, 3)
    plane = point_on_plane(n.tolist(), float(n @ c), at, f"{label}.plane")
    return [plane, point_on_sphere(c.tolist(), radius, at, f"{label}.sphere")]


def point_on_quadric(
    matrix: np.ndarray,
    centre: Sequence[float],
    level: float,
    scale: float,
    at: Sequence[float] = (0.0, 0.0, 0.0),
    label: str = "point_on_quadric",
) -> Constraint:
    """The point `at` of the body [m] stays on x . matrix x = level, x from `centre` [m].

    The residual is (x . matrix x - level) / scale: with the length of the gradient on the surface, 2 |matrix x|, for
    `scale` it is the distance to first order. A curve is where two surfaces meet: give both constraints. Where their
    gradients are parallel or vanish (two spheres that touch, the tip of a cone) the rank changes.
    """
    Q = np.asarray(matrix, float)
    if Q.shape != (3, 3) or not np.all(np.isfinite(Q)) or not np.allclose(Q, Q.T, atol=1e-12 * (1.0 + np.abs(Q).max())):
        raise ConstraintError(f"{label}.matrix has the shape {Q.shape}: must be (3, 3), symmetric and finite")
    if not np.any(Q):
        raise ConstraintError(f"{label}.matrix is zero: there is no surface")
    entries = [Q[0, 0], Q[1, 1], Q[2, 2], Q[0, 1], Q[0, 2], Q[1, 2]]
    data = [*vector(f"{label}.at", at, 3), *vector(f"{label}.centre", centre, 3), *entries, level]
    return _constraint(label, POINT_ON_QUADRIC, 1, True, [*data, _positive(f"{label}.scale", scale)])


def point_on_cylinder(
    centre: Sequence[float],
    axis: Sequence[float],
    radius: float,
    at: Sequence[float] = (0.0, 0.0, 0.0),
    label: str = "point_on_cylinder",
) -> Constraint:
    """The point `at` of the body [m] stays on a round cylinder about the line through `centre` along `axis`."""
    u, r = _unit(f"{label}.axis", axis), _positive(f"{label}.radius", radius)
    return point_on_quadric(np.eye(3) - np.outer(u, u), centre, r * r, 2.0 * r, at, label)


def point_on_ellipsoid(
    centre: Sequence[float],
    R_WE: np.ndarray,
    semi_axes: Sequence[float],
    at: Sequence[float] = (0.0, 0.0, 0.0),
    label: str = "point_on_ellipsoid",
) -> Constraint:
    """The point `at` of the body [m] stays on the ellipsoid with semi-axes [m] along the columns of R_WE.

    The residual is at most the distance from it times the ratio of the longest semi-axis to the shortest.
    """
    R, a = _rotation(f"{label}.R_WE", R_WE), vector(f"{label}.semi_axes", semi_axes, 3)
    longest = max(_positive(f"{label}.semi_axes", float(length)) for length in a)
    return point_on_quadric(R @ np.diag(1.0 / a**2) @ R.T, centre, 1.0, 2.0 / longest, at, label)


def point_on_line(
    through: Sequence[float],
    direction: Sequence[float],
    at: Sequence[float] = (0.0, 0.0, 0.0),
    label: str = "point_on_line",
) -> list[Constraint]:
    """The point `at` of a spatial body [m] stays on the line through a point [m]: two planes that cross there."""
    u, p = _unit(f"{label}.direction", direction), vector(f"{label}.through", through, 3)
    return [point_on_plane(n.tolist(), float(n @ p), at, f"{label}.{i}") for i, n in enumerate(_across(u))]


def point_fixed(
    target: Sequence[float], at: Sequence[float] = (0.0, 0.0, 0.0), label: str = "point_fixed"
) -> Constraint:
    """The point `at` of the body [m] stays at `target` in the world [m]: a ball joint."""
    return _constraint(label, POINT_FIXED, 3, True, [*vector(f"{label}.at", at, 3), *vector(label, target, 3)])


def tangent_to_sphere(centre: Sequence[float], radius: float, label: str = "tangent_to_sphere") -> Constraint:
    """A disc's centre touches a sphere and its axis z is the normal: FAULRING III-B as corrected (errata 3).

    With the body axis (sin x4 sin x6, -cos x4 sin x6, cos x6) the position is centre + radius * axis, so the point
    at -radius on the axis stays at the centre.
    """
    return point_fixed(centre, (0.0, 0.0, -_positive(f"{label}.radius", radius)), label)


def axis_angle(
    axis: Sequence[float], direction: Sequence[float], angle: float = math.pi / 2, label: str = "axis_angle"
) -> Constraint:
    """The body's `axis` keeps `angle` [rad] in (0, pi) to the world's `direction`."""
    if not 0.0 < angle < math.pi:
        raise ConstraintError(f"{label}.angle = {angle} rad: must be between 0 and pi; use `upright` to align axes")
    data = [*_unit(f"{label}.axis", axis), *_unit(f"{label}.direction", direction), math.cos(angle)]
    return _constraint(label, AXIS_ANGLE, 1, True, data)


def upright(axis: Sequence[float], direction: Sequence[float], label: str = "upright") -> list[Constraint]:
    """The body's `axis` stays along the world's `direction` (or against it, as it starts): two rows."""
    a = _unit(f"{label}.axis", axis)
    return [axis_angle(c.tolist(), direction, label=f"{label}.{i}") for i, c in enumerate(_across(a))]


def frame_on_frame(
    target: Sequence[float], R_WT: np.ndarray, at: Sequence[float] = (0.0, 0.0, 0.0), label: str = "frame_on_frame"
) -> list[Constraint]:
    """The body's frame at `at` keeps position and orientation of the frame T: six rows.

    The orientation's rows are (R_WB e_i) . (R_WT e_j), the components of the rotation between them to first order.
    """
    R = _rotation(f"{label}.R_WT", R_WT)
    rows = [axis_angle(np.eye(3)[i].tolist(), R[:, (i + 1) % 3].tolist(), label=f"{label}.{i}") for i in range(3)]
    return [point_fixed(target, at, f"{label}.position"), *rows]


def disc_on_plane(radius: float, label: str = "disc_on_plane") -> Constraint:
    """The lowest point of a disc of any tilt, axis z, is on the plane x3 = 0: x3 = radius sin x6; x6 in (0, pi)."""
    return _constraint(label, DISC_HEIGHT, 1, True, [_positive(f"{label}.radius", radius)], (RIGID_BODY,))


def rolling_upright(radius: float, label: str = "rolling", *, turning: float = 0.0) -> Constraint:
    """FAULRING (23-24): an upright disc rolls on the plane x3 = 0 without slip.

    The plane may turn about the world's z at `turning` [rad/s]; then the constraint is acatastatic, A(q) qd = b(q).
    """
    data = [_positive(f"{label}.radius", radius), turning]
    return _constraint(label, ROLLING_UPRIGHT, 2, False, data, (RIGID_BODY,))


def rolling_disc(radius: float, label: str = "rolling", *, turning: float = 0.0) -> Constraint:
    """A disc of any tilt, x6 in (0, pi), rolls on the plane without slip; upright it is `rolling_upright`.

    From the velocity of the lowest point, radius Rz(x4) (0, cos x6, sin x6) below the centre, which is that of the
    plane there.
    """
    data = [_positive(f"{label}.radius", radius), turning]
    return _constraint(label, ROLLING_DISC, 2, False, data, (RIGID_BODY,))


def rolling_on_sphere(large: float, small: float, printed: bool = False, label: str = "rolling") -> Constraint:
    """YUN V-A: a sphere rolls on a large one without slip, v = r omega x n; `printed`: as YUN (44-45), which slips.

    As printed the rates are of the body's frame and a cos(latitude) is missing (errata 2). Both use the radius
    large + small, not the current distance (errata 7).
    """
    data = [_positive(f"{label}.large", large), _positive(f"{label}.small", small)]
    return _constraint(label, ROLLING_PRINTED if printed else ROLLING_TRUE, 2, False, data, (ROLLING_SPHERE,))


def closed_loop(L1: float, Lc2: float, L2: float, l3: float, label: str = "closed_loop") -> Constraint:
    """YUN (53): the joint between the links, and the end on a circle of radius l3 about the pivot, in m and m^2."""
    data = [_positive(f"{label}.{name}", x) for name, x in (("L1", L1), ("Lc2", Lc2), ("L2", L2), ("l3", l3))]
    return _constraint(label, CLOSED_LOOP, 3, True, data, (LINK_AND_BODY,))


def velocity_row(
    coefficients: Sequence[float], rate: float = 0.0, label: str = "velocity_row", *, slope: Sequence[float] = ()
) -> Constraint:
    """coefficients . qd = rate + slope . q: acatastatic, as a driven coordinate; the rate may depend on others."""
    for name, row in (("coefficients", coefficients), ("slopes", slope)):
        if len(row) > _WIDEST_ROW:
            raise ConstraintError(f"{label} has {len(row)} {name}: at most {_WIDEST_ROW}")
    data = np.zeros(1 + 2 * _WIDEST_ROW)
    data[0] = rate
    data[1 : 1 + len(coefficients)] = vector(label, coefficients, len(coefficients))
    data[1 + _WIDEST_ROW : 1 + _WIDEST_ROW + len(slope)] = vector(f"{label}.slope", slope, len(slope))
    return _constraint(label, VELOCITY_ROW, 1, False, data.tolist())


@numba.njit(cache=True, nogil=True)
def _evaluate(model, q, v, w):
    kinematics(model.system, model.params, q, v, w)
    dynamics(model.system, model.params, q, v, w)
    n = model.n
    for i in range(model.m):
        w.b[i] = 0.0
        w.bdot[i] = 0.0
        for j in range(n):
            w.A[i, j] = 0.0
            w.Adot[i, j] = 0.0
    row = 0
    for e in range(len(model.kinds)):
        kind, d = model.kinds[e], model.data[e]
        A, Adot = w.A[row], w.Adot[row]
        if kind == COORDINATE:
            j = int(d[0])
            A[j] = 1.0
            w.c[row] = q[j] - d[1]
            row += 1
        elif kind == POINT_ON_PLANE:
            point(model.system, model.params, q, v, d, w)
            w.c[row] = d[3] * w.p[0] + d[4] * w.p[1] + d[5] * w.p[2] - d[6]
            for j in range(n):
                A[j] = d[3] * w.J[0, j] + d[4] * w.J[1, j] + d[5] * w.J[2, j]
                Adot[j] = d[3] * w.Jdot[0, j] + d[4] * w.Jdot[1, j] + d[5] * w.Jdot[2, j]
            row += 1
        elif kind == POINT_ON_SPHERE:
            point(model.system, model.params, q, v, d, w)
            s = 0.0
            for i in range(3):
                x = w.p[i] - d[3 + i]
                rate = 0.0
                for j in range(n):
                    rate += w.J[i, j] * v[j]
                for j in range(n):
                    A[j] += x * w.J[i, j] / d[6]
                    Adot[j] += (rate * w.J[i, j] + x * w.Jdot[i, j]) / d[6]
                s += x * x
            w.c[row] = 0.5 * (s / d[6] - d[6])
            row += 1
        elif kind == POINT_FIXED:
            point(model.system, model.params, q, v, d, w)
            for i in range(3):
                w.c[row] = w.p[i] - d[3 + i]
                for j in range(n):
                    w.A[row, j] = w.J[i, j]
                    w.Adot[row, j] = w.Jdot[i, j]
                row += 1
        elif kind == AXIS_ANGLE:
            _axis_row(d, v, w, row, n)
            row += 1
        elif kind == DISC_HEIGHT:
            c6, s6 = math.cos(q[5]), math.sin(q[5])
            w.c[row] = q[2] - d[0] * s6
            A[2] = 1.0
            A[5] = -d[0] * c6
            Adot[5] = d[0] * s6 * v[5]
            row += 1
        elif kind == CLOSED_LOOP:
            _closed_loop_rows(d, q, v, w, row)
            row += 3
        elif kind == ROLLING_UPRIGHT:
            c4, s4 = math.cos(q[3]), math.sin(q[3])
            w.A[row, 0] = 1.0
            w.A[row, 4] = d[0] * c4
            w.Adot[row, 4] = -d[0] * s4 * v[3]
            w.A[row + 1, 1] = 1.0
            w.A[row + 1, 4] = d[0] * s4
            w.Adot[row + 1, 4] = d[0] * c4 * v[3]
            w.b[row], w.b[row + 1] = -d[1] * q[1], d[1] * q[0]
            w.bdot[row], w.bdot[row + 1] = -d[1] * v[1], d[1] * v[0]
            row += 2
        elif kind == ROLLING_DISC:
            _rolling_disc_rows(d[0], d[1], q, v, w, row)
            row += 2
        elif kind == ROLLING_TRUE:
            _rolling_true_rows(d, q, v, w, row)
            row += 2
        elif kind == ROLLING_PRINTED:
            _rolling_printed_rows(d, q, v, w, row)
            row += 2
        elif kind == POINT_ON_QUADRIC:
            point(model.system, model.params, q, v, d, w)
            _quadric_row(d, v, w, row, n)
            row += 1
        else:  # VELOCITY_ROW
            w.b[row] = d[0]
            for j in range(n):
                A[j] = d[1 + j]
                w.b[row] += d[1 + _WIDEST_ROW + j] * q[j]
                w.bdot[row] += d[1 + _WIDEST_ROW + j] * v[j]
            row += 1


@numba.njit(cache=True, nogil=True)
def _quadric_row(d, v, w, row, n):
    x, y, z = w.p[0] - d[3], w.p[1] - d[4], w.p[2] - d[5]
    xd = yd = zd = 0.0
    for j in range(n):
        xd += w.J[0, j] * v[j]
        yd += w.J[1, j] * v[j]
        zd += w.J[2, j] * v[j]
    gx, gy, gz = d[6] * x + d[9] * y + d[10] * z, d[9] * x + d[7] * y + d[11] * z, d[10] * x + d[11] * y + d[8] * z
    hx, hy, hz = (
        d[6] * xd + d[9] * yd + d[10] * zd,
        d[9] * xd + d[7] * yd + d[11] * zd,
        d[10] * xd + d[11] * yd + d[8] * zd,
    )
    factor = 2.0 / d[13]
    w.c[row] = (gx * x + gy * y + gz * z - d[12]) / d[13]
    for j in range(n):
        w.A[row, j] = factor * (gx * w.J[0, j] + gy * w.J[1, j] + gz * w.J[2, j])
        w.Adot[row, j] = factor * (hx * w.J[0, j] + hy * w.J[1, j] + hz * w.J[2, j])
        w.Adot[row, j] += factor * (gx * w.Jdot[0, j] + gy * w.Jdot[1, j] + gz * w.Jdot[2, j])


@numba.njit(cache=True, nogil=True)
def _axis_row(d, v, w, row, n):
    """(R a) . u - cosine, whose rate is omega . ((R a) x u)."""
    for i in range(3):
        w.p[i] = w.R[i, 0] * d[0] + w.R[i, 1] * d[1] + w.R[i, 2] * d[2]
    x, y, z = w.p[0], w.p[1], w.p[2]
    w.c[row] = x * d[3] + y * d[4] + z * d[5] - d[6]
    o0 = o1 = o2 = 0.0
    for j in range(n):
        o0 += w.E[0, j] * v[j]
        o1 += w.E[1, j] * v[j]
        o2 += w.E[2, j] * v[j]
    xd, yd, zd = o1 * z - o2 * y, o2 * x - o0 * z, o0 * y - o1 * x
    m0, m1, m2 = y * d[5] - z * d[4], z * d[3] - x * d[5], x * d[4] - y * d[3]
    n0, n1, n2 = yd * d[5] - zd * d[4], zd * d[3] - xd * d[5], xd * d[4] - yd * d[3]
    for j in range(n):
        w.A[row, j] = m0 * w.E[0, j] + m1 * w.E[1, j] + m2 * w.E[2, j]
        w.Adot[row, j] = n0 * w.E[0, j] + n1 * w.E[1, j] + n2 * w.E[2, j]
        w.Adot[row, j] += m0 * w.Edot[0, j] + m1 * w.Edot[1, j] + m2 * w.Edot[2, j]


@numba.njit(cache=True, nogil=True)
def _closed_loop_rows(d, q, v, w, row):
    L1, Lc2, L2, l3 = d[0], d[1], d[2], d[3]
    c1, s1, c2, s2 = math.cos(q[0]), math.sin(q[0]), math.cos(q[3]), math.sin(q[3])
    # cos(pi + a) = -cos a
    ca, sa = math.cos(q[0] - q[3]), math.sin(q[0] - q[3])
    w.c[row] = q[1] - L1 * c1 - Lc2 * c2
    w.c[row + 1] = q[2] - L1 * s1 - Lc2 * s2
    w.c[row + 2] = l3 * l3 - L1 * L1 - L2 * L2 - 2.0 * L1 * L2 * ca
    w.A[row, 0], w.A[row, 1], w.A[row, 3] = L1 * s1, 1.0, Lc2 * s2
    w.Adot[row, 0], w.Adot[row, 3] = L1 * c1 * v[0], Lc2 * c2 * v[3]
    w.A[row + 1, 0], w.A[row + 1, 2], w.A[row + 1, 3] = -L1 * c1, 1.0, -Lc2 * c2
    w.Adot[row + 1, 0], w.Adot[row + 1, 3] = L1 * s1 * v[0], Lc2 * s2 * v[3]
    w.A[row + 2, 0], w.A[row + 2, 3] = 2.0 * L1 * L2 * sa, -2.0 * L1 * L2 * sa
    rate = 2.0 * L1 * L2 * ca * (v[0] - v[3])
    w.Adot[row + 2, 0], w.Adot[row + 2, 3] = rate, -rate


@numba.njit(cache=True, nogil=True)
def _rolling_disc_rows(r, turning, q, v, w, row):
    c4, s4, c6, s6 = math.cos(q[3]), math.sin(q[3]), math.cos(q[5]), math.sin(q[5])
    w.A[row, 0] = 1.0
    w.A[row, 3], w.A[row, 4], w.A[row, 5] = r * c6 * c4, r * c4, -r * s6 * s4
    w.Adot[row, 3] = -r * (s6 * c4 * v[5] + c6 * s4 * v[3])
    w.Adot[row, 4] = -r * s4 * v[3]
    w.Adot[row, 5] = -r * (c6 * s4 * v[5] + s6 * c4 * v[3])
    w.A[row + 1, 1] = 1.0
    w.A[row + 1, 3], w.A[row + 1, 4], w.A[row + 1, 5] = r * c6 * s4, r * s4, r * s6 * c4
    w.Adot[row + 1, 3] = r * (-s6 * s4 * v[5] + c6 * c4 * v[3])
    w.Adot[row + 1, 4] = r * c4 * v[3]
    w.Adot[row + 1, 5] = r * (c6 * c4 * v[5] - s6 * s4 * v[3])
    w.b[row], w.b[row + 1] = -turning * (q[1] - r * c4 * c6), turning * (q[0] + r * s4 * c6)
    w.bdot[row] = -turning * (v[1] + r * (s4 * c6 * v[3] + c4 * s6 * v[5]))
    w.bdot[row + 1] = turning * (v[0] + r * (c4 * c6 * v[3] - s4 * s6 * v[5]))


@numba.njit(cache=True, nogil=True)
def _rolling_true_rows(d, q, v, w, row):
    r, radius = d[1], d[0] + d[1]
    ca, sa, ct, st = math.cos(q[1]), math.sin(q[1]), math.cos(q[4]), math.sin(q[4])
    cd, sd = math.cos(q[3] - q[2]), math.sin(q[3] - q[2])
    ad, td, dd = v[1], v[4], v[3] - v[2]
    w.A[row, 1], w.A[row, 4], w.A[row, 5] = radius, -r * sd, r * st * cd
    w.Adot[row, 4], w.Adot[row, 5] = -r * cd * dd, r * (ct * cd * td - st * sd * dd)
    row += 1
    w.A[row, 2], w.A[row, 3] = radius * ca, -r * ca
    w.A[row, 4], w.A[row, 5] = -r * sa * cd, -r * (sa * st * sd + ca * ct)
    w.Adot[row, 2], w.Adot[row, 3] = -radius * sa * ad, r * sa * ad
    w.Adot[row, 4] = -r * (ca * cd * ad - sa * sd * dd)
    w.Adot[row, 5] = -r * (ca * st * sd * ad + sa * ct * sd * td + sa * st * cd * dd - sa * ct * ad - ca * st * td)


@numba.njit(cache=True, nogil=True)
def _rolling_printed_rows(d, q, v, w, row):
    r, radius = d[1], d[0] + d[1]
    ct, st, cf, sf = math.cos(q[4]), math.sin(q[4]), math.cos(q[5]), math.sin(q[5])
    td, fd = v[4], v[5]
    w.A[row, 1], w.A[row, 3], w.A[row, 4] = radius, -r * st * cf, r * sf
    w.Adot[row, 3], w.Adot[row, 4] = -r * (ct * cf * td - st * sf * fd), r * cf * fd
    row += 1
    # YUN (45) with the sign of thetadot that S(q) has (errata 2)
    w.A[row, 2], w.A[row, 3], w.A[row, 4] = radius, -r * st * sf, -r * cf
    w.Adot[row, 3], w.Adot[row, 4] = -r * (ct * sf * td + st * cf * fd), r * sf * fd


def _is_formula(model: Any) -> bool:
    return getattr(model, "kind", model).instance_class is FormulaModel


@numba.njit(cache=True, nogil=True)
def _terms(model, t, q, v, w):
    call_terms(model.evaluate, t, q, v, model.parameters, w.terms)  # type: ignore[call-arg]  # its first is of the compiler


@numba.njit(cache=True, nogil=True)
def _observed(model, t, q, v, w):
    call_terms(model.observe, t, q, v, model.parameters, w.terms)  # type: ignore[call-arg]  # its first is of the compiler


@numba.njit(cache=True, nogil=True)
def _fill(address, t, q, v, parameters, terms):
    call_terms(address, t, q, v, parameters, terms)  # type: ignore[call-arg]  # as above


@numba.njit(cache=True, nogil=True)
def _observed_by_hand(model, q, v, w):
    point(model.system, model.params, q, v, w.origin, w)
    w.potential[0] = potential(model.system, model.params, q, w)


def evaluate(model, t, q, v, w):
    """Fill the terms of the equations of motion."""
    if isinstance(model, UserModel):
        model.evaluate(q, v, w)
    elif isinstance(model, FormulaModel):
        _fill(model.evaluate, t, q, v, model.parameters, w.terms)
    else:
        _evaluate(model, q, v, w)


@overload(evaluate)
def _overload_evaluate(model, t, q, v, w):
    if _is_formula(model):
        return lambda model, t, q, v, w: _terms(model, t, q, v, w)
    return lambda model, t, q, v, w: _evaluate(model, q, v, w)


def observe(model, t, q, v, w):
    """Fill what the held frame and the energies need; needs `evaluate`."""
    if isinstance(model, FormulaModel):
        _fill(model.observe, t, q, v, model.parameters, w.terms)
    else:
        _observed_by_hand(getattr(model, "base", model), q, v, w)


@overload(observe)
def _overload_observe(model, t, q, v, w):
    if _is_formula(model):
        return lambda model, t, q, v, w: _observed(model, t, q, v, w)
    return lambda model, t, q, v, w: _observed_by_hand(model, q, v, w)


@numba.njit(cache=True, nogil=True)
def _external(system, params, q, v, wrench, generalised, w):
    kinematics(system, params, q, v, w)
    external_force(system, params, q, v, wrench, generalised, w)


@numba.njit(cache=True, nogil=True)
def _project_wrench(wrench, generalised, w):
    for j in range(generalised.shape[0]):
        s = generalised[j]
        for i in range(3):
            s += w.J[i, j] * wrench[i] + w.E[i, j] * wrench[3 + i]
        w.external[j] = s


def apply_external(model, q, v, wrench, generalised, w):
    """Fill w.external; see `systems.external_force`. Needs no `evaluate`."""
    if isinstance(model, FormulaModel):
        _project_wrench(wrench, generalised, w)
    else:
        _external(model.system, model.params, q, v, wrench, generalised, w)


@overload(apply_external)
def _overload_apply_external(model, q, v, wrench, generalised, w):
    if _is_formula(model):
        return lambda model, q, v, wrench, generalised, w: _project_wrench(wrench, generalised, w)

    def implementation(model, q, v, wrench, generalised, w):
        # after `evaluate`, which has filled E and R
        external_force(model.system, model.params, q, v, wrench, generalised, w)

    return implementation


def find_power(model, v, a, twist, twist_rate, w):
    """Power of the system's own forces without those of the potential, and its rate; needs `observe`."""


@overload(find_power)
def _overload_find_power(model, v, a, twist, twist_rate, w):
    if _is_formula(model):

        def of_formulas(model, v, a, twist, twist_rate, w):
            rate = w.power_rate[0]
            for j in range(v.shape[0]):
                rate += w.power_gradient[j] * a[j]
            return w.power[0], rate

        return of_formulas

    def by_hand(model, v, a, twist, twist_rate, w):
        power = -damping(model.system, model.params, v, v, twist, twist)
        return power, -2.0 * damping(model.system, model.params, v, a, twist, twist_rate)

    return by_hand


class UserModel:
    """A `Model` with a user's constraints after those of the library, rows in the same order of kinds."""

    def __init__(self, base: Model, users: Sequence[UserConstraint]):
        self.base = base
        self.users = [u for u in users if u.holonomic] + [u for u in users if not u.holonomic]
        self.system, self.params, self.angular, self.n = base.system, base.params, base.angular, base.n
        self.k = base.k + sum(u.rows for u in users if u.holonomic)
        self.m = base.m + sum(u.rows for u in users)
        self._w = allocate_workspace(sizes(base.n, base.k, base.m))

    def evaluate(self, q: np.ndarray, v: np.ndarray, w: Workspace) -> None:
        """Fill the workspace as the kernel does for the library."""
        base, own = self.base, self._w
        _evaluate(base, q, v, own)
        for name in ("M", "bias", "passive", "E", "Edot", "R"):
            getattr(w, name)[:] = getattr(own, name)
        first = self.k + base.m - base.k
        for target, source in ((w.A, own.A), (w.Adot, own.Adot), (w.b, own.b), (w.bdot, own.bdot)):
            target[: base.k] = source[: base.k]
            target[self.k : first] = source[base.k :]
        w.c[: base.k] = own.c
        row = base.k
        for u in self.users:
            if not u.holonomic and row < first:
                row = first
            rows = slice(row, row + u.rows)
            w.A[rows] = _shaped(u, "jacobian", u.jacobian(q), (u.rows, self.n))
            w.Adot[rows] = _shaped(u, "jacobian_rate", u.jacobian_rate(q, v), (u.rows, self.n))
            w.b[rows] = w.bdot[rows] = 0.0
            if u.value is not None:
                w.c[rows] = _shaped(u, "value", u.value(q), (u.rows,))
            if u.rate is not None:
                b, bdot = u.rate(q, v)
                w.b[rows] = _shaped(u, "rate", b, (u.rows,))
                w.bdot[rows] = _shaped(u, "rate", bdot, (u.rows,))
            row += u.rows


def _shaped(user: UserConstraint, what: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    array = np.asarray(value, float)
    if array.shape != shape:
        raise ConstraintError(f"constraint {user.name}: {what} has the shape {array.shape}, must be {shape}")
    return array


@dataclass(frozen=True)
class Constrained:
    """A system with its constraints, checked; what the solvers are made from."""

    system: System
    model: Model | UserModel | FormulaModel
    row_names: tuple[str, ...]  # in the order of the rows, holonomic ones first
    workspace: Workspace = field(repr=False)  # memory for the functions here

    @property
    def n(self) -> int:
        """Number of coordinates."""
        return self.model.n

    @property
    def k(self) -> int:
        """Number of holonomic rows."""
        return self.model.k

    @property
    def m(self) -> int:
        """Number of rows."""
        return self.model.m

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of the records of a solver."""
        return sizes(self.n, self.k, self.m)

    def state(self, q: Sequence[float] | np.ndarray, v: Sequence[float] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Copies of configuration and velocity, checked for shape and finiteness."""
        return vector("q", q, self.n).copy(), vector("qd", v, self.n).copy()

    def evaluate(self, q: Sequence[float] | np.ndarray, v: Sequence[float] | np.ndarray) -> Workspace:
        """The workspace at a state: M, bias, passive, c, A, Adot, b, bdot. Overwritten by the next call."""
        q, v = self.state(q, v)
        evaluate(self.model, 0.0, q, v, self.workspace)
        return self.workspace

    def energy(self, q: Sequence[float] | np.ndarray, v: Sequence[float] | np.ndarray) -> float:
        """Kinetic and potential energy [J]."""
        q, v = self.state(q, v)
        w = self.evaluate(q, v)
        kinetic = 0.5 * v @ w.M @ v
        observe(self.model, 0.0, q, v, w)
        return float(kinetic + w.potential[0])

    def residuals(self, q: Sequence[float] | np.ndarray, v: Sequence[float] | np.ndarray) -> tuple[float, float]:
        """Norms of the holonomic residuals c(q) and of the nonholonomic ones A(q) qd - b."""
        w = self.evaluate(q, v)
        rest = w.A[self.k :] @ np.asarray(v, float) - w.b[self.k :]
        return float(np.linalg.norm(w.c)), float(np.linalg.norm(rest))


def constrain(system: System, *parts: Constraint | UserConstraint | Sequence[Constraint]) -> Constrained:
    """A system under constraints; holonomic rows come first, otherwise in the order given.

    Raises:
        ConstraintError: a constraint that is not for this system, or has a wrong shape.
    """
    flat: list[Constraint | UserConstraint] = []
    for part in parts:
        flat.extend([part] if isinstance(part, Constraint | UserConstraint) else part)
    n = len(system.coordinates)
    for part in flat:
        if isinstance(part, UserConstraint):
            if part.rows < 1:
                raise ConstraintError(f"constraint {part.name}: rows = {part.rows}, must be > 0")
            if part.holonomic != (part.value is not None):
                rule = "needs `value`" if part.holonomic else "must have no `value`"
                raise ConstraintError(f"constraint {part.name}: {rule}, being holonomic = {part.holonomic}")
        elif part.systems and system.kind not in part.systems:
            raise ConstraintError(f"constraint {part.name}: not for the system {system.name}")
        elif part.kind == VELOCITY_ROW and np.any(part.data[1:].reshape(2, _WIDEST_ROW)[:, n:]):
            raise ConstraintError(f"constraint {part.name}: more coefficients than the {n} coordinates")
    own = [p for p in flat if isinstance(p, Constraint)]
    own = [p for p in own if p.holonomic] + [p for p in own if not p.holonomic]
    users = [p for p in flat if isinstance(p, UserConstraint)]
    base = Model(
        system.kind,
        system.params,
        np.array(system.angular, float),
        np.array([p.kind for p in own], np.int64),
        np.array([p.data for p in own]).reshape(len(own), DATA_WIDTH),
        n,
        sum(p.rows for p in own if p.holonomic),
        sum(p.rows for p in own),
    )
    model: Model | UserModel = UserModel(base, users) if users else base
    ordered: list[Constraint | UserConstraint] = []
    for holonomic in (True, False):
        for group in (own, users):
            ordered += [p for p in group if p.holonomic == holonomic]
    names: list[str] = []
    for p in ordered:
        names += [p.name] if p.rows == 1 else [f"{p.name}[{i}]" for i in range(p.rows)]
    return Constrained(system, model, tuple(names), allocate_workspace(sizes(n, model.k, model.m)))
