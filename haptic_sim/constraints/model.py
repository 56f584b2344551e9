"""A constrained system for the kernels: M(q) qdd + bias(q, qd) = tau + A(q)^T lambda, A(q) qd = b(q, t).

The rows of A are those of the holonomic constraints, c(q, t) = 0 with A = dc/dq and b = -dc/dt, and then the
nonholonomic ones. `evaluate` and `observe` fill a workspace, which is all that the solvers use of a system.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haptic_sim.kernels import call_at, kernel
from haptic_sim.records import allocate, array, record, shared, value
from haptic_sim.spatial import quat_from_matrix, rotation_difference


@record
class Model(NamedTuple):
    """A system and its constraints, for the kernels. Built by `System`."""

    evaluate: int = value("address of the kernel that fills the terms of the equations of motion")
    observe: int = value("address of the kernel that fills what the held frame and the energies need")
    place: int = value("address of the kernel of the parametrisation, 0 if there is none")
    parameters: np.ndarray = shared("values of the parameters", "parameters")
    angular: np.ndarray = shared("1 where the coordinate is an angle, else 0", "coordinates")
    n: int = value("number of coordinates")
    k: int = value("number of holonomic rows")
    m: int = value("number of rows")
    z: int = value("number of independent coordinates of the parametrisation")
    spring: np.ndarray = shared("stiffness of the spring at the held frame, of translation and rotation", 2)
    rest: np.ndarray = shared("frame to which the spring draws: position, quaternion x y z w", 7, unit="m")


def sizes(n: int, k: int, m: int) -> dict[str, int]:
    """Sizes of the records of a system with `n` coordinates and `m` rows, `k` of them holonomic."""
    return {"coordinates": n, "holonomic": k, "rows": m}


@record
class Workspace(NamedTuple):
    """Memory of one solver; `evaluate` fills what comes before L, `linear.factor` fills L to `dependent`."""

    terms: np.ndarray = shared("what is generated from formulas, M to power_gradient, in one piece", "terms")
    M: np.ndarray = array("inertia", "coordinates", "coordinates")
    bias: np.ndarray = array("Coriolis and centrifugal forces", "coordinates")
    passive: np.ndarray = array("generalised forces of the system: of the potential, and its `forces`", "coordinates")
    c: np.ndarray = array("holonomic residuals", "holonomic", unit="m, rad")
    A: np.ndarray = array("rows of the constraints, A qd = b", "rows", "coordinates")
    Adot: np.ndarray = array("rate of A along qd", "rows", "coordinates")
    b: np.ndarray = array("right-hand sides of A qd = b", "rows")
    bdot: np.ndarray = array("rate of b", "rows")
    J: np.ndarray = array("Jacobian of the hand point", 3, "coordinates")
    E: np.ndarray = array("angular velocity of the held frame is E qd, world axes", 3, "coordinates")
    p: np.ndarray = array("position of the hand point in the world", 3, unit="m")
    R: np.ndarray = array("orientation of the held frame", 3, 3)
    Jdot: np.ndarray = array("rate of J", 3, "coordinates")
    Edot: np.ndarray = array("rate of E", 3, "coordinates")
    potential: np.ndarray = array("potential energy", 1, unit="J")
    power: np.ndarray = array("power of the system's `forces`", 1, unit="W")
    power_rate: np.ndarray = array("its rate without acceleration", 1, unit="W/s")
    power_gradient: np.ndarray = array("its derivatives by the rates", "coordinates")
    external: np.ndarray = array("generalised forces of the operator", "coordinates")
    quat: np.ndarray = array("orientation as a quaternion x y z w", 4)
    spring: np.ndarray = array("force and moment of the spring at the held frame, world axes", 6, unit="N, N m")

    L: np.ndarray = array("Cholesky factor of M, lower triangle", "coordinates", "coordinates")
    W: np.ndarray = array("rows A L^-T, scaled to length 1", "rows", "coordinates")
    scale: np.ndarray = array("their lengths before", "rows")
    Q: np.ndarray = array("orthonormal basis of the rows", "coordinates", "coordinates")
    T: np.ndarray = array("factor of the rows, W = T Q", "rows", "coordinates")
    pivot: np.ndarray = array("row that each column of T was made of", "rows", dtype=np.int64)
    dependent: np.ndarray = array("whether a row depends on others", "rows", dtype=np.bool_)
    gram: np.ndarray = array("a Gram matrix", "coordinates", "coordinates")
    r: np.ndarray = array("values that rows are to have", "rows")
    z: np.ndarray = array("coordinates along Q of the last correction", "coordinates")
    y: np.ndarray = array("a scaled velocity, L^T qd, or a change of it", "coordinates")
    a: np.ndarray = array("acceleration of the coordinates", "coordinates")
    multipliers: np.ndarray = array("forces of the rows, lambda", "rows")


_GENERATED = Workspace._fields[Workspace._fields.index("M") : Workspace._fields.index("external")]


def allocate_workspace(of: dict[str, int]) -> Workspace:
    """A workspace for a system of these `sizes`; what is generated from formulas lies in one piece."""
    w = allocate(Workspace, of, terms=np.zeros(0))
    counts = [getattr(w, name).size for name in _GENERATED]
    terms = np.zeros(sum(counts))
    pieces = zip(_GENERATED, np.split(terms, np.cumsum(counts)[:-1]), strict=True)
    return w._replace(terms=terms, **{name: piece.reshape(getattr(w, name).shape) for name, piece in pieces})


@kernel
def evaluate(model, t, q, v, w):
    """Fill M to E: the terms of the equations of motion."""
    sprung = model.spring[0] > 0.0 or model.spring[1] > 0.0
    if sprung:
        for j in range(model.n):  # what is always zero is not written
            w.passive[j] = 0.0
    call_at(model.evaluate, t, q, v, model.parameters, w.terms)
    if sprung:
        call_at(model.observe, t, q, v, model.parameters, w.terms)
        _stretch_spring(model, w)
        for j in range(model.n):
            for i in range(3):
                w.passive[j] += w.J[i, j] * w.spring[i] + w.E[i, j] * w.spring[3 + i]


@kernel
def observe(model, t, q, v, w):
    """Fill p to power_gradient: the held frame, and what the energies need."""
    call_at(model.observe, t, q, v, model.parameters, w.terms)
    translation, rotation = model.spring[0], model.spring[1]
    if translation > 0.0 or rotation > 0.0:
        _stretch_spring(model, w)
        w.potential[0] += spring_energy(w.spring[:3], translation) + spring_energy(w.spring[3:], rotation)


@kernel
def spring_energy(force, stiffness):
    """Energy of a spring with a force or moment (3,) [J]."""
    if not stiffness > 0.0:
        return 0.0
    return 0.5 * (force[0] ** 2 + force[1] ** 2 + force[2] ** 2) / stiffness


@kernel
def _stretch_spring(model, w):
    """Fill w.spring (FAULRING 43-44): k_t times the distance to the rest, k_r times the rotation to it.

    FAULRING (45-46) divide by the sine of the angle; the quaternion's logarithm is regular at zero, and at pi it
    takes one of the two shortest ways.
    """
    quat_from_matrix(w.R, w.quat)
    rotation_difference(model.rest[3:], w.quat, w.spring[3:])
    for i in range(3):
        w.spring[i] = model.spring[0] * (model.rest[i] - w.p[i])
        w.spring[3 + i] *= model.spring[1]


@kernel
def apply_external(wrench, generalised, w):
    """Fill external: generalised forces, and a spatial wrench at the hand point; after `evaluate`."""
    for j in range(generalised.shape[0]):
        s = generalised[j]
        for i in range(3):
            s += w.J[i, j] * wrench[i] + w.E[i, j] * wrench[3 + i]
        w.external[j] = s


@kernel
def find_power(v, a, w):
    """Power of the system's `forces`, and its rate with the acceleration a [W, W/s]; after `observe`."""
    rate = w.power_rate[0]
    for j in range(v.shape[0]):
        rate += w.power_gradient[j] * a[j]
    return w.power[0], rate
