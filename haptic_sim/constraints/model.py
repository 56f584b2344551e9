"""A constrained system as flat arrays for the kernels: M(q) qdd + bias(q, qd) = tau + A(q)^T lambda, A(q) qd = b(q).

The rows of A are those of the holonomic constraints, c(q) = 0 with A = dc/dq and b = 0, and then the nonholonomic
ones. `evaluate` fills a workspace, which is all that the solvers use of a system.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haptic_sim.records import array, record, shared, value

DATA_WIDTH = 15  # parameters of one constraint


@record
class Model(NamedTuple):
    """A system and its constraints, for the kernels. Built by `library.constrain`."""

    system: int = value("kind of the system, see systems.py")
    params: np.ndarray = shared("parameters of the system", "parameters")
    angular: np.ndarray = shared("1 where the coordinate is an angle, else 0", "coordinates")
    kinds: np.ndarray = shared("kinds, see library.py; holonomic ones first", "constraints", dtype=np.int64)
    data: np.ndarray = shared("parameters of each constraint", "constraints", DATA_WIDTH)
    n: int = value("number of coordinates")
    k: int = value("number of holonomic rows")
    m: int = value("number of rows")


def sizes(n: int, k: int, m: int) -> dict[str, int]:
    """Sizes of the records of a system with `n` coordinates and `m` rows, `k` of them holonomic."""
    return {"coordinates": n, "holonomic": k, "rows": m}


@record
class Workspace(NamedTuple):
    """Memory of one solver; `evaluate` fills what comes before L, `linear.factor` fills L to `dependent`."""

    M: np.ndarray = array("inertia", "coordinates", "coordinates")
    bias: np.ndarray = array("Coriolis and centrifugal forces C(q, qd) qd", "coordinates")
    passive: np.ndarray = array("generalised forces of gravity, dampers and springs", "coordinates")
    external: np.ndarray = array("generalised forces of the operator", "coordinates")
    c: np.ndarray = array("holonomic residuals", "holonomic", unit="m, rad")
    A: np.ndarray = array("rows of the constraints, A qd = b", "rows", "coordinates")
    Adot: np.ndarray = array("rate of A along qd", "rows", "coordinates")
    b: np.ndarray = array("right-hand sides of A qd = b", "rows")
    bdot: np.ndarray = array("rate of b", "rows")
    p: np.ndarray = array("position of a point in the world", 3, unit="m")
    J: np.ndarray = array("Jacobian of the point", 3, "coordinates")
    Jdot: np.ndarray = array("rate of J", 3, "coordinates")
    E: np.ndarray = array("angular velocity of the body is E qd, world axes", 3, "coordinates")
    Edot: np.ndarray = array("rate of E", 3, "coordinates")
    R: np.ndarray = array("orientation of the body", 3, 3)
    quat: np.ndarray = array("the same as a quaternion x y z w", 4)
    origin: np.ndarray = array("centre of the body, zeros", 3, unit="m")

    L: np.ndarray = array("Cholesky factor of M, lower triangle", "coordinates", "coordinates")
    W: np.ndarray = array("rows A L^-T, scaled to length 1", "rows", "coordinates")
    scale: np.ndarray = array("their lengths before", "rows")
    Q: np.ndarray = array("orthonormal basis of the rows", "coordinates", "coordinates")
    T: np.ndarray = array("factor of the rows, W = T Q", "rows", "coordinates")
    pivot: np.ndarray = array("row that each column of T was made of", "rows", dtype=np.int64)
    dependent: np.ndarray = array("1 where the row depends on others, else 0", "rows", dtype=np.int64)
    gram: np.ndarray = array("a Gram matrix", "coordinates", "coordinates")
    r: np.ndarray = array("values that rows are to have", "rows")
    z: np.ndarray = array("coordinates along Q of the last correction", "coordinates")
    y: np.ndarray = array("a scaled velocity, L^T qd, or a change of it", "coordinates")
    a: np.ndarray = array("acceleration of the coordinates", "coordinates")
    multipliers: np.ndarray = array("forces of the rows, lambda", "rows")
