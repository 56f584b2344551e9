"""Velocity-level stabilisation of constraints from any initial state (YUN IV).

Holonomic constraints are replaced by J qd = -gamma c (YUN 17), so that c(t) = c(0) exp(-gamma t), beside the
nonholonomic rows: A qd = a. With an orthonormal basis S of the null space of A and xi = A^+ a, qd = S eta + xi. The
state is (q, eta, S):
    qdd   = S w + A^+ (adot - Adot qd),  S^T M qdd = S^T (tau - C qd),     w = S^T qdd
    Sdot  = -A^+ Adot S                  (then A S = 0 and S^T Sdot = 0 hold along the motion)
    etadot = w - S^T xidot,              S^T xidot = S^T Adot^T (A A^T)^+ a
YUN (39) leaves out -S^T xidot (errata 3): the constraints still decay, the motion is another. After each Runge-Kutta
step S is computed anew from the singular value decomposition of A and turned, within the null space, as near to the
transported one as possible (orthogonal Procrustes problem), which keeps sign and basis continuous (errata 4); eta is
the orthogonal projection of the velocity on it, unweighted, as is YUN's step 3 for the first one. If the rank
changes, the same holds with the new number of columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numba
import numpy as np
from numba.extending import register_jitable

from haptic_sim.constraints.errors import ConstraintError
from haptic_sim.constraints.library import Constrained, apply_external, evaluate
from haptic_sim.constraints.model import Model, workspace
from haptic_sim.constraints.systems import vector

RANK_TOLERANCE = 1e-8  # singular value of the rows of unit length, relative to the largest


@register_jitable
def _decompose(model, w):
    """Pseudo-inverse of A (n, m), its null space N (n, n - rank), the rank, and a; w evaluated."""
    n, m = model.n, model.m
    rows = np.zeros((m, n))
    lengths = np.zeros(m)
    for i in range(m):
        lengths[i] = math.sqrt(np.sum(w.A[i] * w.A[i]))
        if lengths[i] > 0.0:
            rows[i] = w.A[i] / lengths[i]
    U, s, Vt = np.linalg.svd(rows)
    rank = 0
    while rank < min(m, n) and s[rank] > RANK_TOLERANCE * max(s[0], 1e-300):
        rank += 1
    inverse = np.zeros((n, m))
    for i in range(m):
        if lengths[i] > 0.0:
            for r in range(rank):
                for j in range(n):
                    inverse[j, i] += Vt[r, j] * U[i, r] / (s[r] * lengths[i])
    return inverse, np.ascontiguousarray(Vt[rank:].T), rank


@register_jitable
def _right_hand_side(model, gamma, v, w):
    """a of A qd = a and its rate along v."""
    a, adot = w.b.copy(), w.bdot.copy()
    for i in range(model.k):
        a[i] -= gamma * w.c[i]
        adot[i] -= gamma * np.sum(w.A[i] * v)
    return a, adot


@register_jitable
def _rates(model, gamma, q, eta, S, wrench, generalised, w):
    """qd, etadot, Sdot, qdd and the multipliers at a state."""
    zero = np.zeros(model.n)
    evaluate(model, q, zero, w)
    inverse, _, _ = _decompose(model, w)
    a, _ = _right_hand_side(model, gamma, zero, w)
    v = np.dot(S, eta) + np.dot(inverse, a)
    evaluate(model, q, v, w)  # the velocity terms; A and c are those of before
    _, adot = _right_hand_side(model, gamma, v, w)
    forced = np.dot(inverse, adot - np.dot(w.Adot, v))
    apply_external(model, q, v, wrench, generalised, w)
    tau = w.external + w.passive - w.bias
    St = np.ascontiguousarray(S.T)
    if S.shape[1] > 0:
        MS = np.dot(w.M, S)
        u = np.linalg.solve(np.dot(St, MS), np.dot(St, tau - np.dot(w.M, forced)))
    else:
        u = np.zeros(0)
    acceleration = np.dot(S, u) + forced
    inverse_t = np.ascontiguousarray(inverse.T)
    lam = np.dot(inverse_t, np.dot(w.M, acceleration) - tau)
    drift = np.dot(np.ascontiguousarray(w.Adot.T), np.dot(inverse_t, np.dot(inverse, a)))
    etadot = u - np.dot(St, drift)
    Sdot = -np.dot(inverse, np.dot(w.Adot, S))
    return v, etadot, Sdot, acceleration, lam


@register_jitable
def _align(model, gamma, q, v, S, w):
    """(S, eta, v, rank): the basis at q nearest to the given S, eta of v, and v = S eta + xi."""
    zero = np.zeros(model.n)
    evaluate(model, q, zero, w)
    inverse, N, rank = _decompose(model, w)
    if N.shape[1] > 0 and S.shape[1] > 0:
        U, _, Vt = np.linalg.svd(np.dot(np.ascontiguousarray(N.T), S))
        smaller = min(N.shape[1], S.shape[1])
        turn = np.zeros((N.shape[1], N.shape[1]))
        if N.shape[1] == S.shape[1]:
            turn = np.dot(U, Vt)
        else:  # after a change of rank: what the two have in common first, then the rest
            turn[:, :] = U
            common = np.dot(np.ascontiguousarray(U[:, :smaller]), np.ascontiguousarray(Vt[:smaller]))
            if S.shape[1] < N.shape[1]:
                turn[:, : S.shape[1]] = common
        N = np.dot(N, turn)
    a, _ = _right_hand_side(model, gamma, zero, w)
    xi = np.dot(inverse, a)
    eta = np.dot(np.ascontiguousarray(N.T), v - xi)
    return N, eta, np.dot(N, eta) + xi, rank


@numba.njit(cache=True, nogil=True)
def _begin(model, gamma, q, v, w):
    return _align(model, gamma, q, v, np.zeros((model.n, 0)), w)


@numba.njit(cache=True, nogil=True)
def _step(model, gamma, h, q, eta, S, wrench, generalised, w):
    """One Runge-Kutta step; returns (q, eta, S, v, acceleration and multipliers of the beginning, rank)."""
    v1, e1, s1, acceleration, lam = _rates(model, gamma, q, eta, S, wrench, generalised, w)
    h2 = 0.5 * h
    v2, e2, s2, _, _ = _rates(model, gamma, q + h2 * v1, eta + h2 * e1, S + h2 * s1, wrench, generalised, w)
    v3, e3, s3, _, _ = _rates(model, gamma, q + h2 * v2, eta + h2 * e2, S + h2 * s2, wrench, generalised, w)
    v4, e4, s4, _, _ = _rates(model, gamma, q + h * v3, eta + h * e3, S + h * s3, wrench, generalised, w)
    q = q + h / 6.0 * (v1 + 2.0 * v2 + 2.0 * v3 + v4)
    eta = eta + h / 6.0 * (e1 + 2.0 * e2 + 2.0 * e3 + e4)
    S = S + h / 6.0 * (s1 + 2.0 * s2 + 2.0 * s3 + s4)
    zero = np.zeros(model.n)
    evaluate(model, q, zero, w)
    inverse, _, _ = _decompose(model, w)
    a, _ = _right_hand_side(model, gamma, zero, w)
    S, eta, v, rank = _align(model, gamma, q, np.dot(S, eta) + np.dot(inverse, a), S, w)
    return q, eta, S, v, acceleration, lam, rank


class StabilisedSolver:
    """A constrained tool advanced by steps of `period` [s]; its holonomic residuals decay as exp(-gamma t).

    Args:
        constrained: the system and its constraints.
        q, v: any initial state; the velocity is projected orthogonally on A qd = a.
        gamma: rate [1/s], >= 0; with 0 the residuals stay as they are.
        period: step [s].

    Attributes:
        q, v: state after the last step. S, eta: v = S eta + xi. a, multipliers: at its beginning.
        rank: of the rows, which with unit lengths count as dependent below RANK_TOLERANCE.

    Raises:
        ConstraintError: the velocity constraints contradict each other, or the step has become singular.
    """

    def __init__(
        self,
        constrained: Constrained,
        q: Sequence[float] | np.ndarray,
        v: Sequence[float] | np.ndarray,
        gamma: float,
        period: float = 1e-3,
    ):
        if not 0.0 < period < math.inf:
            raise ConstraintError(f"period = {period} s: must be finite and > 0")
        if not 0.0 <= gamma * period < 2.5:  # Runge-Kutta of xd = -gamma x is stable to 2.78
            raise ConstraintError(f"gamma = {gamma} 1/s: must be from 0 to {2.5 / period:g} with this period")
        self.constrained = constrained
        self.period, self.gamma = float(period), float(gamma)
        model = self._model = constrained.model
        self._w = workspace(constrained.n, constrained.k, constrained.m)
        self._begin = _begin if isinstance(model, Model) else _begin.py_func
        self._step = _step if isinstance(model, Model) else _step.py_func
        self.q = np.zeros(constrained.n)
        self.a, self.multipliers = np.zeros(constrained.n), np.zeros(constrained.m)
        self._nothing = np.zeros(6), np.zeros(constrained.n)
        self.restart(q, v)

    def restart(self, q: Sequence[float] | np.ndarray, v: Sequence[float] | np.ndarray) -> None:
        """Begin at another state, as after a disturbance; v is projected."""
        self.q, v = self.constrained.state(q, v)
        self.S, self.eta, self.v, self.rank = self._begin(self._model, self.gamma, self.q, v, self._w)
        w = self._w
        wanted = w.b.copy()
        wanted[: self.constrained.k] -= self.gamma * w.c
        slack = w.A @ self.v - wanted
        if not np.all(np.abs(slack) <= 1e-8 * (1.0 + np.abs(wanted))):
            i = int(np.argmax(np.abs(slack)))
            name = self.constrained.row_names[i]
            raise ConstraintError(f"constraint {name} contradicts the others: its rate is off by {slack[i]:.3g}")

    def step(self, wrench: np.ndarray | None = None, generalised: np.ndarray | None = None) -> None:
        """Advance by a period with a spatial wrench [N, N m] (6,) and generalised forces (n,), held."""
        wrench = self._nothing[0] if wrench is None else vector("wrench", wrench, 6)
        generalised = self._nothing[1] if generalised is None else vector("generalised", generalised, len(self.q))
        q, eta, S, v, a, multipliers, rank = self._step(
            self._model, self.gamma, self.period, self.q, self.eta, self.S, wrench, generalised, self._w
        )
        if not (np.all(np.isfinite(q)) and np.all(np.isfinite(v))):
            raise ConstraintError("the stabilised step is not finite: the rows or the inertia are singular here")
        self.q, self.eta, self.S, self.v, self.a, self.multipliers, self.rank = q, eta, S, v, a, multipliers, rank

    @property
    def residuals(self) -> tuple[float, float]:
        """Norms of the holonomic and nonholonomic residuals."""
        return self.constrained.residuals(self.q, self.v)

    @property
    def energy(self) -> float:
        """Kinetic and potential energy [J]."""
        return self.constrained.energy(self.q, self.v)
