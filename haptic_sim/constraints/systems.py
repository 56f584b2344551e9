"""Systems of the examples: inertia, velocity terms, own forces and the operator's wrench in configuration coordinates.

rigid_body      FAULRING III-A, B: (x1, x2, x3, x4, x5, x6), R = Rz(x4) Rx(x6) Rz(x5); singular at sin x6 = 0
two_link        FAULRING III-C: joint angles (q1, q2), q2 relative, two uniform links
rolling_sphere  YUN V-A: (distance, latitude below the equator, longitude, psi, theta, phi), z-x-z Euler angles
link_and_body   YUN V-B: (theta1, x2, y2, theta2), a hinged link and a free one; theta2 absolute
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np

from haptic_sim.constraints.errors import ConstraintError
from haptic_sim.spatial import quat_from_matrix, rotation_difference

RIGID_BODY, TWO_LINK, ROLLING_SPHERE, LINK_AND_BODY = 0, 1, 2, 3


@dataclass(frozen=True)
class System:
    """What moves, without its constraints."""

    name: str
    kind: int
    params: np.ndarray
    coordinates: tuple[str, ...]
    angular: tuple[bool, ...]


def _number(name: str, value: float, unit: str, least: float = -math.inf, strict: bool = False) -> float:
    accepted = math.isfinite(value) and (value > least if strict else value >= least)
    if not accepted:
        rule = "finite" if least == -math.inf else f"finite and {'>' if strict else '>='} {least:g}"
        raise ConstraintError(f"{name} = {value} {unit}: must be {rule}")
    return float(value)


def vector(name: str, value: Sequence[float] | np.ndarray, size: int) -> np.ndarray:
    """`value` as a finite vector of `size` entries."""
    array = np.asarray(value, float)
    if array.shape != (size,):
        raise ConstraintError(f"{name} has the shape {array.shape}: must be ({size},)")
    if not np.all(np.isfinite(array)):
        raise ConstraintError(f"{name} = {array.tolist()}: must be finite")
    return array


def rigid_body(
    mass: float,
    inertia: Sequence[float],
    damping: float = 0.0,
    rotational_damping: float = 0.0,
    stiffness: float = 0.0,
    rotational_stiffness: float = 0.0,
    spring_origin: Sequence[float] = (0.0, 0.0, 0.0),
    spring_quat_xyzw: Sequence[float] = (0.0, 0.0, 0.0, 1.0),
    gravity: Sequence[float] = (0.0, 0.0, 0.0),
) -> System:
    """A body with the frame at its centre of mass, along its principal axes.

    Args:
        mass: [kg].
        inertia: principal moments about the centre [kg m^2], (3,).
        damping, rotational_damping: FAULRING appendix I [N s/m], [N m s/rad].
        stiffness, rotational_stiffness: FAULRING appendix II [N/m], [N m/rad], to the frame of `spring_origin` [m]
            and `spring_quat_xyzw` in the world; the energy is 1/2 k_t d^2 + 1/2 k_r angle^2.
        gravity: acceleration in the world [m/s^2].
    """
    moments = vector("rigid_body.inertia", inertia, 3)
    if not (np.all(moments > 0.0) and 2.0 * moments.max() <= moments.sum() * (1.0 + 1e-9)):
        raise ConstraintError(
            f"rigid_body.inertia = {moments.tolist()} kg m^2: must be > 0, none above the sum of the others"
        )
    quat = vector("rigid_body.spring_quat_xyzw", spring_quat_xyzw, 4)
    if not abs(np.linalg.norm(quat) - 1.0) < 1e-6:
        raise ConstraintError(f"rigid_body.spring_quat_xyzw = {quat.tolist()}: must have length 1")
    params = np.concatenate(
        [
            [_number("rigid_body.mass", mass, "kg", 0.0, strict=True)],
            moments,
            [
                _number("rigid_body.damping", damping, "N s/m", 0.0),
                _number("rigid_body.rotational_damping", rotational_damping, "N m s/rad", 0.0),
                _number("rigid_body.stiffness", stiffness, "N/m", 0.0),
                _number("rigid_body.rotational_stiffness", rotational_stiffness, "N m/rad", 0.0),
            ],
            vector("rigid_body.spring_origin", spring_origin, 3),
            quat / np.linalg.norm(quat),
            vector("rigid_body.gravity", gravity, 3),
        ]
    )
    names = ("x1", "x2", "x3", "x4", "x5", "x6")
    return System("rigid_body", RIGID_BODY, params, names, (False,) * 3 + (True,) * 3)


def two_link(length: float, mass: float, damping: float = 0.0, base: Sequence[float] = (0.0, 0.0)) -> System:
    """Two uniform links [m], [kg] in the plane, joint damping on the relative rates [N m s/rad], base [m]."""
    params = np.array(
        [
            _number("two_link.length", length, "m", 0.0, strict=True),
            _number("two_link.mass", mass, "kg", 0.0, strict=True),
            _number("two_link.damping", damping, "N m s/rad", 0.0),
            *vector("two_link.base", base, 2),
        ]
    )
    return System("two_link", TWO_LINK, params, ("q1", "q2"), (True, True))


def rolling_sphere(mass: float, radius: float) -> System:
    """A uniform sphere [kg], [m] in the polar coordinates of the large one's centre."""
    params = np.array(
        [
            _number("rolling_sphere.mass", mass, "kg", 0.0, strict=True),
            _number("rolling_sphere.radius", radius, "m", 0.0, strict=True),
        ]
    )
    names = ("distance", "latitude", "longitude", "psi", "theta", "phi")
    return System("rolling_sphere", ROLLING_SPHERE, params, names, (False,) + (True,) * 5)


def link_and_body(
    m1: float = 10.0,
    I1: float = 3.0,
    Lc1: float = 1.0,
    m2: float = 6.0,
    I2: float = 2.0,
    gravity: float = 9.81,
    I1_about: str = "pivot",
) -> System:
    """A hinged link (mass [kg], inertia [kg m^2] about the pivot or the centroid) and a free one, under gravity."""
    if I1_about not in ("pivot", "centroid"):
        raise ConstraintError(f"link_and_body.I1_about = {I1_about!r}: must be 'pivot' or 'centroid'")
    m1 = _number("link_and_body.m1", m1, "kg", 0.0, strict=True)
    Lc1 = _number("link_and_body.Lc1", Lc1, "m", 0.0)
    pivot = _number("link_and_body.I1", I1, "kg m^2", 0.0, strict=True)
    if I1_about == "centroid":  # YUN errata 6: 3 kg m^2 cannot be about the pivot, where m1 Lc1^2 is 10 already
        pivot += m1 * Lc1**2
    params = np.array(
        [
            pivot,
            _number("link_and_body.m2", m2, "kg", 0.0, strict=True),
            _number("link_and_body.I2", I2, "kg m^2", 0.0, strict=True),
            m1 * Lc1,
            _number("link_and_body.gravity", gravity, "m/s^2"),
        ]
    )
    return System("link_and_body", LINK_AND_BODY, params, ("theta1", "x2", "y2", "theta2"), (True, False, False, True))


@numba.njit(cache=True, nogil=True)
def _euler_axes(psi, theta, phi, psid, thetad, i, j, k, w):
    """Axes (world) of the z-x-z angles in the columns i (psi), j (theta), k (phi) of E, their rates, and R."""
    cp, sp = math.cos(psi), math.sin(psi)
    ct, st = math.cos(theta), math.sin(theta)
    cf, sf = math.cos(phi), math.sin(phi)
    w.E[2, i] = 1.0
    w.E[0, j], w.E[1, j] = cp, sp
    w.E[0, k], w.E[1, k], w.E[2, k] = sp * st, -cp * st, ct
    w.Edot[0, j], w.Edot[1, j] = -sp * psid, cp * psid
    w.Edot[0, k] = cp * st * psid + sp * ct * thetad
    w.Edot[1, k] = sp * st * psid - cp * ct * thetad
    w.Edot[2, k] = -st * thetad
    w.R[0, 0], w.R[0, 1], w.R[0, 2] = cp * cf - sp * ct * sf, -cp * sf - sp * ct * cf, sp * st
    w.R[1, 0], w.R[1, 1], w.R[1, 2] = sp * cf + cp * ct * sf, -sp * sf + cp * ct * cf, -cp * st
    w.R[2, 0], w.R[2, 1], w.R[2, 2] = st * sf, st * cf, ct


@numba.njit(cache=True, nogil=True)
def _planar_rotation(angle, R):
    c, s = math.cos(angle), math.sin(angle)
    for i in range(3):
        for j in range(3):
            R[i, j] = 0.0
    R[0, 0], R[0, 1], R[1, 0], R[1, 1], R[2, 2] = c, -s, s, c, 1.0


@numba.njit(cache=True, nogil=True)
def kinematics(system, params, q, v, w):
    """Fill R, E and Edot of the body that constraints and wrenches refer to."""
    for i in range(3):
        for j in range(w.E.shape[1]):
            w.E[i, j] = 0.0
            w.Edot[i, j] = 0.0
    if system == RIGID_BODY:
        _euler_axes(q[3], q[5], q[4], v[3], v[5], 3, 5, 4, w)
    elif system == TWO_LINK:
        _planar_rotation(q[0] + q[1], w.R)
        w.E[2, 0], w.E[2, 1] = 1.0, 1.0
    elif system == ROLLING_SPHERE:
        _euler_axes(q[3], q[4], q[5], v[3], v[4], 3, 4, 5, w)
    else:
        _planar_rotation(q[3], w.R)
        w.E[2, 3] = 1.0


@numba.njit(cache=True, nogil=True)
def point(system, params, q, v, r, w):
    """Fill p, J and Jdot of the point `r` of the body [m]; needs `kinematics`.

    Bodies: the rigid body, the rolling sphere and the free link, from their centres; the distal link, from its end.
    """
    n = w.E.shape[1]
    for i in range(3):
        w.p[i] = w.R[i, 0] * r[0] + w.R[i, 1] * r[1] + w.R[i, 2] * r[2]
    d0, d1, d2 = w.p[0], w.p[1], w.p[2]
    o0 = o1 = o2 = 0.0
    for j in range(n):
        o0 += w.E[0, j] * v[j]
        o1 += w.E[1, j] * v[j]
        o2 += w.E[2, j] * v[j]
    e0, e1, e2 = o1 * d2 - o2 * d1, o2 * d0 - o0 * d2, o0 * d1 - o1 * d0  # rate of d
    for j in range(n):
        a0, a1, a2 = w.E[0, j], w.E[1, j], w.E[2, j]
        b0, b1, b2 = w.Edot[0, j], w.Edot[1, j], w.Edot[2, j]
        w.J[0, j] = a1 * d2 - a2 * d1
        w.J[1, j] = a2 * d0 - a0 * d2
        w.J[2, j] = a0 * d1 - a1 * d0
        w.Jdot[0, j] = b1 * d2 - b2 * d1 + a1 * e2 - a2 * e1
        w.Jdot[1, j] = b2 * d0 - b0 * d2 + a2 * e0 - a0 * e2
        w.Jdot[2, j] = b0 * d1 - b1 * d0 + a0 * e1 - a1 * e0
    if system == RIGID_BODY:
        for i in range(3):
            w.p[i] += q[i]
            w.J[i, i] += 1.0
    elif system == TWO_LINK:
        length = params[0]
        c1, s1 = math.cos(q[0]), math.sin(q[0])
        c12, s12 = math.cos(q[0] + q[1]), math.sin(q[0] + q[1])
        x, y = length * (c1 + c12), length * (s1 + s12)
        rate = v[0] + v[1]
        w.p[0] += params[3] + x
        w.p[1] += params[4] + y
        w.J[0, 0] -= y
        w.J[1, 0] += x
        w.J[0, 1] -= length * s12
        w.J[1, 1] += length * c12
        w.Jdot[0, 0] -= length * (c1 * v[0] + c12 * rate)
        w.Jdot[1, 0] -= length * (s1 * v[0] + s12 * rate)
        w.Jdot[0, 1] -= length * c12 * rate
        w.Jdot[1, 1] -= length * s12 * rate
    elif system == ROLLING_SPHERE:
        rho = q[0]
        ca, sa = math.cos(q[1]), math.sin(q[1])
        cb, sb = math.cos(q[2]), math.sin(q[2])
        rd, ad, bd = v[0], v[1], v[2]
        w.p[0] += rho * ca * cb
        w.p[1] += rho * ca * sb
        w.p[2] -= rho * sa
        w.J[0, 0] += ca * cb
        w.J[1, 0] += ca * sb
        w.J[2, 0] -= sa
        w.J[0, 1] -= rho * sa * cb
        w.J[1, 1] -= rho * sa * sb
        w.J[2, 1] -= rho * ca
        w.J[0, 2] -= rho * ca * sb
        w.J[1, 2] += rho * ca * cb
        w.Jdot[0, 0] += -sa * cb * ad - ca * sb * bd
        w.Jdot[1, 0] += -sa * sb * ad + ca * cb * bd
        w.Jdot[2, 0] -= ca * ad
        w.Jdot[0, 1] += -rd * sa * cb - rho * ca * cb * ad + rho * sa * sb * bd
        w.Jdot[1, 1] += -rd * sa * sb - rho * ca * sb * ad - rho * sa * cb * bd
        w.Jdot[2, 1] += -rd * ca + rho * sa * ad
        w.Jdot[0, 2] += -rd * ca * sb + rho * sa * sb * ad - rho * ca * cb * bd
        w.Jdot[1, 2] += rd * ca * cb - rho * sa * cb * ad - rho * ca * sb * bd
    else:
        w.p[0] += q[1]
        w.p[1] += q[2]
        w.J[0, 1] += 1.0
        w.J[1, 2] += 1.0


@numba.njit(cache=True, nogil=True)
def _spring_rotation(params, w):
    """Fill w.p with the rotation (world axes) [rad] that takes the body to the spring's frame, at most pi long.

    FAULRING (45-46) divide by the sine of the angle; the quaternion's logarithm is regular at zero, and at pi it
    takes one of the two shortest ways.
    """
    quat_from_matrix(w.R, w.quat)
    rotation_difference(params[11:15], w.quat, w.p)


@numba.njit(cache=True, nogil=True)
def dynamics(system, params, q, v, w):
    """Fill M, bias and passive; needs `kinematics`."""
    n = w.E.shape[1]
    for i in range(n):
        w.bias[i] = 0.0
        w.passive[i] = 0.0
        for j in range(n):
            w.M[i, j] = 0.0
    if system == RIGID_BODY:
        _rigid_body_dynamics(params, q, v, w)
    elif system == TWO_LINK:  # FAULRING (34-35)
        length, mass = params[0], params[1]
        i0 = mass * length * length
        c2, s2 = math.cos(q[1]), math.sin(q[1])
        w.M[0, 0] = i0 / 3.0 * (5.0 + 3.0 * c2)
        w.M[0, 1] = i0 / 6.0 * (2.0 + 3.0 * c2)
        w.M[1, 0] = w.M[0, 1]
        w.M[1, 1] = i0 / 3.0
        w.bias[0] = -0.5 * i0 * s2 * (2.0 * v[0] * v[1] + v[1] * v[1])
        w.bias[1] = 0.5 * i0 * s2 * v[0] * v[0]
        w.passive[0] = -params[2] * v[0]
        w.passive[1] = -params[2] * v[1]
    elif system == ROLLING_SPHERE:
        mass, rho = params[0], q[0]
        i0 = 0.4 * mass * params[1] * params[1]
        ca, sa, ct, st = math.cos(q[1]), math.sin(q[1]), math.cos(q[4]), math.sin(q[4])
        w.M[0, 0] = mass
        w.M[1, 1] = mass * rho * rho
        w.M[2, 2] = mass * rho * rho * ca * ca
        w.bias[0] = -mass * rho * (v[1] * v[1] + ca * ca * v[2] * v[2])
        w.bias[1] = mass * rho * (2.0 * v[0] * v[1] + rho * ca * sa * v[2] * v[2])
        w.bias[2] = 2.0 * mass * rho * ca * v[2] * (ca * v[0] - rho * sa * v[1])
        w.M[3, 3] = w.M[4, 4] = w.M[5, 5] = i0
        w.M[3, 5] = w.M[5, 3] = i0 * ct
        w.bias[3] = -i0 * st * v[4] * v[5]
        w.bias[4] = i0 * st * v[3] * v[5]
        w.bias[5] = -i0 * st * v[4] * v[3]
    else:  # YUN (46-49)
        w.M[0, 0] = params[0]
        w.M[1, 1] = w.M[2, 2] = params[1]
        w.M[3, 3] = params[2]
        w.passive[0] = -params[3] * params[4] * math.cos(q[0])
        w.passive[2] = -params[1] * params[4]


@numba.njit(cache=True, nogil=True)
def _rigid_body_dynamics(params, q, v, w):
    mass = params[0]
    c5, s5, c6, s6 = math.cos(q[4]), math.sin(q[4]), math.cos(q[5]), math.sin(q[5])
    # omega = V qd_rot in body axes; columns for x4, x5, x6 in the rows of w.J, their rates in those of w.Jdot
    V, Vdot = w.J, w.Jdot
    V[0, 0], V[0, 1], V[0, 2] = s5 * s6, c5 * s6, c6
    V[1, 0], V[1, 1], V[1, 2] = 0.0, 0.0, 1.0
    V[2, 0], V[2, 1], V[2, 2] = c5, -s5, 0.0
    Vdot[0, 0] = c5 * s6 * v[4] + s5 * c6 * v[5]
    Vdot[0, 1] = -s5 * s6 * v[4] + c5 * c6 * v[5]
    Vdot[0, 2] = -s6 * v[5]
    Vdot[1, 0] = Vdot[1, 1] = Vdot[1, 2] = 0.0
    Vdot[2, 0], Vdot[2, 1], Vdot[2, 2] = -s5 * v[4], -c5 * v[4], 0.0
    o0 = V[0, 0] * v[3] + V[2, 0] * v[5]
    o1 = V[0, 1] * v[3] + V[2, 1] * v[5]
    o2 = V[0, 2] * v[3] + v[4]
    J0, J1, J2 = params[1], params[2], params[3]
    # moment of the velocity terms, body axes: J Vdot qd + omega x J omega
    t0 = J0 * (Vdot[0, 0] * v[3] + Vdot[2, 0] * v[5]) + (J2 - J1) * o1 * o2
    t1 = J1 * (Vdot[0, 1] * v[3] + Vdot[2, 1] * v[5]) + (J0 - J2) * o2 * o0
    t2 = J2 * Vdot[0, 2] * v[3] + (J1 - J0) * o0 * o1
    for i in range(3):
        w.M[i, i] = mass
        w.bias[3 + i] = V[i, 0] * t0 + V[i, 1] * t1 + V[i, 2] * t2
        for j in range(3):
            w.M[3 + i, 3 + j] = V[i, 0] * J0 * V[j, 0] + V[i, 1] * J1 * V[j, 1] + V[i, 2] * J2 * V[j, 2]
    # FAULRING (41), with the generalised forces [R f; V^T n] (errata 4)
    translational, rotational = params[4], params[5]
    for i in range(3):
        w.passive[i] = -translational * v[i] + params[6] * (params[8 + i] - q[i]) + mass * params[15 + i]
        w.passive[3 + i] = -rotational * (V[i, 0] * o0 + V[i, 1] * o1 + V[i, 2] * o2)
    if params[7] > 0.0:  # FAULRING (44), the restoring moment k_r angle axis in world axes
        _spring_rotation(params, w)
        for i in range(3, 6):
            w.passive[i] += params[7] * (w.E[0, i] * w.p[0] + w.E[1, i] * w.p[1] + w.E[2, i] * w.p[2])


@numba.njit(cache=True, nogil=True)
def external_force(system, params, q, v, wrench, generalised, w):
    """Fill external: a spatial force [N] at `point` zero and a spatial torque [N m], and generalised forces.

    Needs `kinematics`. A force at the large radius of the rolling sphere acts at its centre.
    """
    point(system, params, q, v, w.origin, w)
    for j in range(w.E.shape[1]):
        s = generalised[j]
        for i in range(3):
            s += w.J[i, j] * wrench[i] + w.E[i, j] * wrench[3 + i]
        w.external[j] = s


@numba.njit(cache=True, nogil=True)
def potential(system, params, q, w):
    """Potential energy of gravity and springs [J]; needs `kinematics`."""
    s = 0.0
    if system == RIGID_BODY:
        for i in range(3):
            s += 0.5 * params[6] * (params[8 + i] - q[i]) ** 2 - params[0] * params[15 + i] * q[i]
        if params[7] > 0.0:
            _spring_rotation(params, w)
            s += 0.5 * params[7] * (w.p[0] ** 2 + w.p[1] ** 2 + w.p[2] ** 2)
    elif system == LINK_AND_BODY:
        s = params[4] * (params[3] * math.sin(q[0]) + params[1] * q[2])
    return s


@numba.njit(cache=True, nogil=True)
def damping(system, params, v, u, twist_v, twist_u):
    """v . D u with the matrix D of viscous damping [W]; twists of the body at its centre for v and u, in world axes.

    With an acceleration for u and `twist_u` it is half the rate of v . D v.
    """
    s = 0.0
    if system == RIGID_BODY:
        for i in range(3):
            s += params[4] * v[i] * u[i] + params[5] * twist_v[3 + i] * twist_u[3 + i]
    elif system == TWO_LINK:
        s = params[2] * (v[0] * u[0] + v[1] * u[1])
    return s


def link_energies(system: System, q: np.ndarray, v: np.ndarray) -> tuple[float, float]:
    """Kinetic energies [J] of the two links of `two_link`; link 1 turns about its pivot."""
    if system.kind != TWO_LINK:
        raise ConstraintError(f"link_energies: {system.name} is no two_link")
    inertia = system.params[1] * system.params[0] ** 2
    first = inertia * v[0] ** 2 / 6.0
    rate, c2 = v[0] + v[1], math.cos(q[1])
    return float(first), float(inertia * (0.5 * v[0] ** 2 + rate**2 / 6.0 + 0.5 * c2 * v[0] * rate))
