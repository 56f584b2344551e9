"""A constrained system as flat arrays for the kernels: M(q) qdd + bias(q, qd) = tau + A(q)^T lambda, A(q) qd = b(q).

The rows of A are those of the holonomic constraints, c(q) = 0 with A = dc/dq and b = 0, and then the nonholonomic
ones. `evaluate` fills a workspace, which is all that the solvers use of a system.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

DATA_WIDTH = 15  # parameters of one constraint


class Model(NamedTuple):
    """A system and its constraints, for the kernels. Built by `library.constrain`."""

    system: int  # kind, see systems.py
    params: np.ndarray  # (p,) of the system
    angular: np.ndarray  # (n,) 1.0 where the coordinate is an angle
    kinds: np.ndarray  # (constraints,) int64, see library.py; holonomic ones first
    data: np.ndarray  # (constraints, DATA_WIDTH)
    n: int  # coordinates
    k: int  # holonomic rows
    m: int  # rows


class Workspace(NamedTuple):
    """Memory of one solver; `evaluate` fills the first group, `linear.factor` the second."""

    M: np.ndarray  # (n, n) inertia
    bias: np.ndarray  # (n,) C(q, qd) qd
    passive: np.ndarray  # (n,) generalised forces of gravity, dampers and springs
    external: np.ndarray  # (n,) generalised forces of the operator
    c: np.ndarray  # (k,) holonomic residuals
    A: np.ndarray  # (m, n)
    Adot: np.ndarray  # (m, n) along qd
    b: np.ndarray  # (m,) right-hand sides of A qd = b
    bdot: np.ndarray  # (m,)
    p: np.ndarray  # (3,) a point, then scratch
    J: np.ndarray  # (3, n)
    Jdot: np.ndarray  # (3, n)
    E: np.ndarray  # (3, n) angular velocity = E qd
    Edot: np.ndarray  # (3, n)
    R: np.ndarray  # (3, 3) rotation of the body
    quat: np.ndarray  # (2, 4)

    L: np.ndarray  # (n, n) Cholesky factor of M
    W: np.ndarray  # (m, n) rows A L^-T of unit length
    scale: np.ndarray  # (m,) their lengths
    Q: np.ndarray  # (n, n) orthonormal rows
    T: np.ndarray  # (m, n) W = T Q
    G: np.ndarray  # (n, n) scratch
    pivot: np.ndarray  # (m,) int64, row of each column of T; -1 marks a dependent row in `dependent`
    dependent: np.ndarray  # (m,) int64, 1 where the row depends on others
    r: np.ndarray  # (m,) right-hand side
    z: np.ndarray  # (n,)
    y: np.ndarray  # (n,)
    a: np.ndarray  # (n,) acceleration
    multipliers: np.ndarray  # (m,)
    stage: np.ndarray  # (12, n) states and rates of the integrators


def workspace(n: int, k: int, m: int) -> Workspace:
    """Memory for `n` coordinates and `m` rows, `k` of them holonomic."""
    integers = np.int64
    return Workspace(
        M=np.zeros((n, n)),
        bias=np.zeros(n),
        passive=np.zeros(n),
        external=np.zeros(n),
        c=np.zeros(k),
        A=np.zeros((m, n)),
        Adot=np.zeros((m, n)),
        b=np.zeros(m),
        bdot=np.zeros(m),
        p=np.zeros(3),
        J=np.zeros((3, n)),
        Jdot=np.zeros((3, n)),
        E=np.zeros((3, n)),
        Edot=np.zeros((3, n)),
        R=np.zeros((3, 3)),
        quat=np.zeros((2, 4)),
        L=np.zeros((n, n)),
        W=np.zeros((m, n)),
        scale=np.zeros(m),
        Q=np.zeros((n, n)),
        T=np.zeros((m, n)),
        G=np.zeros((n, n)),
        pivot=np.zeros(m, integers),
        dependent=np.zeros(m, integers),
        r=np.zeros(m),
        z=np.zeros(n),
        y=np.zeros(n),
        a=np.zeros(n),
        multipliers=np.zeros(m),
        stage=np.zeros((12, n)),
    )
