"""Velocity-level stabilisation of constraints from any initial state (YUN IV).

Holonomic constraints are replaced by J qd = -gamma c (YUN 17), so that c(t) = c(0) exp(-gamma t), beside the
nonholonomic rows: A qd = a. With an orthonormal basis S of the null space of A and xi = A^+ a, qd = S eta + xi. The
state is (q, eta, S):
    qdd   = S w + A^+ (adot - Adot qd),  S^T M qdd = S^T (tau - C qd),     w = S^T qdd
    Sdot  = -A^+ Adot S                  (then A S = 0 and S^T Sdot = 0 hold along the motion)
    etadot = w - S^T xidot,              S^T xidot = S^T Adot^T (A A^T)^+ a
YUN (39) leaves out -S^T xidot (errata 3): the constraints still decay, but the motion differs. The first S is from a
singular value decomposition. After each Runge-Kutta step the transported S is replaced by the nearest orthonormal basis
of the null space (the polar factor of its projection, which equals a new decomposition rotated by the orthogonal
Procrustes problem); this keeps sign and basis continuous (errata 4). eta is the unweighted orthogonal projection of the
velocity on it, as in YUN's step 3 for the first one. If the rank changes, a new decomposition is rotated in the same
way, as far as the two spaces have directions in common.

A^+ is computed from the factors W = T Q of `linear` in the Euclidean metric of the coordinates, without dependent rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from haptic_sim.constraints.equations import Equations
from haptic_sim.constraints.errors import ConstraintError, vector
from haptic_sim.constraints.linear import correct, factor, multipliers
from haptic_sim.constraints.model import Model, Workspace, allocate_workspace, apply_external, evaluate
from haptic_sim.constraints.projection import ADVANCED, HELD, INERTIA, NOTHING, VALUE, Refusal, finite, refuse
from haptic_sim.kernels import kernel
from haptic_sim.linalg import cholesky, cholesky_solve
from haptic_sim.packed import Packed
from haptic_sim.records import allocate, array, part, record, value

_STRAY = 0.5  # largest entry of S^T S - 1 from which S is turned by iteration; it converges below 1


@record
class _Memory(NamedTuple):
    """All that a step works on, as one argument. A state is the rows q, eta and then those of S, (2 + n, n)."""

    model: Model = value("the system and its constraints")
    workspace: Workspace = part(Workspace, "nothing in it has to last from step to step")
    time: np.ndarray = array("time at the beginning of the step", 1, unit="s")
    q: np.ndarray = array("configuration, advanced in place", "coordinates")
    v: np.ndarray = array("its velocity", "coordinates")
    refused: Refusal = part(Refusal, "where the step could not go on")
    y: np.ndarray = array("state; of eta and S the columns of free directions count", "2 + coordinates", "coordinates")
    start: np.ndarray = array("state at the beginning of a step", "2 + coordinates", "coordinates")
    rate: np.ndarray = array("rate of the state", "2 + coordinates", "coordinates")
    total: np.ndarray = array("weighted sum of the rates of a step", "2 + coordinates", "coordinates")
    wrench: np.ndarray = array("spatial wrench during the step", 6, unit="N, N m")
    generalised: np.ndarray = array("generalised forces during the step", "coordinates")
    a: np.ndarray = array("acceleration at the beginning of the step", "coordinates")
    multipliers: np.ndarray = array("multipliers at the beginning of the step", "rows")
    qdd: np.ndarray = array("acceleration", "coordinates")
    xi: np.ndarray = array("least velocity that the rows ask for, A^+ a", "coordinates")
    forced: np.ndarray = array("least acceleration that the rows ask for, A^+ (adot - Adot qd)", "coordinates")
    drift: np.ndarray = array("Adot^T (A A^T)^+ a", "coordinates")
    transport: np.ndarray = array("rate of a column of S", "coordinates")
    zero: np.ndarray = array("zeros", "coordinates")
    free: np.ndarray = array("number of free directions, the columns of S", 1, dtype=np.int64)


@kernel
def _factor_plain(s):
    """Factor the rows of A in the plain metric; returns the rank."""
    n, w = s.model.n, s.workspace
    for i in range(n):
        for j in range(n):
            w.L[i, j] = 0.0
        w.L[i, i] = 1.0
    return factor(w, n, s.model.m)


@kernel
def _least(s, rank, target, x):
    """Fill x with A^+ target; w.z holds it along Q."""
    for j in range(s.model.n):
        x[j] = 0.0
    correct(s.workspace, s.model.n, rank, target, x)


@kernel
def _wanted(s, gamma):
    """Fill w.r with the a of A qd = a."""
    for i in range(s.model.m):
        s.workspace.r[i] = s.workspace.b[i]
        if i < s.model.k:
            s.workspace.r[i] -= gamma * s.workspace.c[i]


@kernel
def _rates(s, gamma, t, y):
    """Fill s.rate and s.qdd at the state y at t, and w.z for `multipliers`; returns the rank, -1 if singular."""
    model, w, n, m, free = s.model, s.workspace, s.model.n, s.model.m, s.free[0]
    q, eta, S = y[0], y[1], y[2:]
    v, xi, forced, drift = s.rate[0], s.xi, s.forced, s.drift
    evaluate(model, t, q, s.zero, w)
    rank = _factor_plain(s)
    _wanted(s, gamma)
    _least(s, rank, w.r, xi)
    for i in range(n):
        v[i] = xi[i]
        for j in range(free):
            v[i] += S[i, j] * eta[j]
    multipliers(w, m, rank)  # (A A^T)^+ a
    evaluate(model, t, q, v, w)  # the velocity terms; A and c are those of before
    for j in range(n):
        drift[j] = 0.0
        for i in range(m):
            drift[j] += w.Adot[i, j] * w.multipliers[i]
    for i in range(m):
        w.r[i] = w.bdot[i]
        for j in range(n):
            w.r[i] -= (w.Adot[i, j] + (gamma * w.A[i, j] if i < model.k else 0.0)) * v[j]
        if i < model.k:  # the rate of c is A v - b
            w.r[i] += gamma * w.b[i]
    _least(s, rank, w.r, forced)
    apply_external(s.wrench, s.generalised, w)
    for i in range(n):
        w.a[i] = w.external[i] + w.passive[i] - w.bias[i]
        w.y[i] = w.a[i]
        for j in range(n):
            w.y[i] -= w.M[i, j] * forced[j]
    if not _accelerate_free(s, S):
        return refuse(s.refused, INERTIA, t, q, v)
    for i in range(n):
        s.qdd[i] = forced[i]
        for j in range(free):
            s.qdd[i] += S[i, j] * s.rate[1, j]
    for j in range(free):
        for i in range(n):
            s.rate[1, j] -= S[i, j] * drift[i]
    _transport(s, S, rank)
    for r in range(rank):  # the constraint forces along Q
        w.z[r] = 0.0
        for i in range(n):
            force = -w.a[i]
            for j in range(n):
                force += w.M[i, j] * s.qdd[j]
            w.z[r] += w.Q[r, i] * force
    return rank if finite(s.qdd) else refuse(s.refused, VALUE, t, q, v)


@kernel
def _accelerate_free(s, S):
    """Fill s.rate[1] with the u of S^T M S u = S^T y; False where that has no solution."""
    w, n, free = s.workspace, s.model.n, s.free[0]
    for j in range(free):
        u = 0.0
        for i in range(n):
            u += S[i, j] * w.y[i]
            s.transport[i] = 0.0  # scratch here: M S_j
            for k in range(n):
                s.transport[i] += w.M[i, k] * S[k, j]
        s.rate[1, j] = u
        for k in range(j, free):
            entry = 0.0
            for i in range(n):
                entry += S[i, k] * s.transport[i]
            w.gram[k, j] = entry
    if not cholesky(w.gram, free, w.gram):
        return False
    cholesky_solve(w.gram, free, s.rate[1])
    return True


@kernel
def _transport(s, S, rank):
    """Fill s.rate[2:] with -A^+ Adot S."""
    w, n = s.workspace, s.model.n
    for j in range(s.free[0]):
        for i in range(s.model.m):
            w.r[i] = 0.0
            for k in range(n):
                w.r[i] -= w.Adot[i, k] * S[k, j]
        _least(s, rank, w.r, s.transport)
        for i in range(n):
            s.rate[2 + i, j] = s.transport[i]


@kernel
def _new_basis(s, rank):
    """Replace S by a decomposition of the null space, turned to the old S as far as they have a space in common."""
    w, n, old, free = s.workspace, s.model.n, s.free[0], s.model.n - rank
    projector = np.zeros((n, n))
    for i in range(n):
        projector[i, i] = 1.0
        for j in range(n):
            for r in range(rank):
                projector[i, j] -= w.Q[r, i] * w.Q[r, j]
    U, _, _ = np.linalg.svd(projector)
    N = np.ascontiguousarray(U[:, :free])
    if old > 0 and free > 0:
        before = np.ascontiguousarray(s.y[2:, :old])
        U, _, Vt = np.linalg.svd(np.dot(np.ascontiguousarray(N.T), before))
        smaller = min(free, old)
        common = np.dot(np.ascontiguousarray(U[:, :smaller]), np.ascontiguousarray(Vt[:smaller]))
        if old <= free:  # what the two have in common first, then the rest
            U[:, :old] = common
            N = np.dot(N, U)
        else:
            N = np.dot(N, U)
    s.y[2:, :] = 0.0
    for i in range(n):
        for j in range(free):
            s.y[2 + i, j] = N[i, j]
    s.free[0] = free


@kernel
def _nearest_basis(s, rank):
    """Replace S by the nearest orthonormal basis of the null space; False where it is too far from one."""
    w, n, free = s.workspace, s.model.n, s.free[0]
    S, gram = s.y[2:], w.gram
    for _ in range(2):
        for r in range(rank):
            for j in range(free):
                along = 0.0
                for i in range(n):
                    along += w.Q[r, i] * S[i, j]
                for i in range(n):
                    S[i, j] -= along * w.Q[r, i]
    for _ in range(60):  # Newton-Schulz for the polar factor: S <- S (3 - S^T S) / 2
        stray = 0.0
        for i in range(free):
            for j in range(free):
                entry = 0.0
                for k in range(n):
                    entry -= S[k, i] * S[k, j]
                gram[i, j] = 0.5 * entry
                off = abs(entry + 1.0) if i == j else abs(entry)
                if not off <= stray:
                    stray = off
            gram[i, i] += 1.5
        if not stray < _STRAY:
            return False
        if stray < 1e-15:
            break
        for i in range(n):
            for j in range(free):
                w.y[j] = 0.0
                for k in range(free):
                    w.y[j] += S[i, k] * gram[k, j]
            for j in range(free):
                S[i, j] = w.y[j]
        if stray < 1e-9:  # the next is exact
            break
    return True


@kernel
def _align(s, gamma, t):
    """The basis at s.q nearest to the old one, eta of s.v, v = S eta + xi; returns the rank and largest residual."""
    model, w, n = s.model, s.workspace, s.model.n
    evaluate(model, t, s.q, s.zero, w)
    rank = _factor_plain(s)
    if n - rank != s.free[0] or not _nearest_basis(s, rank):
        _new_basis(s, rank)
    _wanted(s, gamma)
    _least(s, rank, w.r, s.xi)
    for j in range(n):
        s.y[0, j] = s.q[j]
        s.y[1, j] = 0.0
    for j in range(s.free[0]):
        for i in range(n):
            s.y[1, j] += s.y[2 + i, j] * (s.v[i] - s.xi[i])
    residual = 0.0
    for i in range(n):
        s.v[i] = s.xi[i]
        for j in range(s.free[0]):
            s.v[i] += s.y[2 + i, j] * s.y[1, j]
    for i in range(model.k):
        if not abs(w.c[i]) <= residual:
            residual = abs(w.c[i])
    return rank, residual


@kernel
def _runge_kutta(s, gamma, h):
    """Advance s.y; fill acceleration and multipliers of the beginning. False where a stage is singular."""
    model, n = s.model, s.model.n
    s.refused.kind[0] = NOTHING
    for i in range(2 + n):
        for j in range(n):
            s.start[i, j], s.total[i, j] = s.y[i, j], 0.0
            s.rate[i, j] = 0.0
    for stage in range(4):
        t = s.time[0] + (0.0 if stage == 0 else h if stage == 3 else 0.5 * h)
        rank = _rates(s, gamma, t, s.y)
        if rank < 0:
            return False
        if stage == 0:
            multipliers(s.workspace, model.m, rank)
            for j in range(n):
                s.a[j] = s.qdd[j]
            for i in range(model.m):
                s.multipliers[i] = s.workspace.multipliers[i]
        weight = 1.0 if stage == 0 or stage == 3 else 2.0
        ahead = h if stage == 2 else 0.5 * h
        for i in range(2 + n):
            for j in range(n):
                s.total[i, j] += weight * s.rate[i, j]
                if stage < 3:
                    s.y[i, j] = s.start[i, j] + ahead * s.rate[i, j]
                else:
                    s.y[i, j] = s.start[i, j] + h / 6.0 * s.total[i, j]
    for i in range(2 + n):
        for j in range(n):
            if not math.isfinite(s.y[i, j]):
                return False
    return True


@kernel
def _step(s, gamma, h):
    """Advance in place by h; returns (status, rank, largest holonomic residual)."""
    n = s.model.n
    status = ADVANCED
    if not _runge_kutta(s, gamma, h):
        status = HELD
        s.y[:, :] = s.start
    for i in range(n):
        s.q[i] = s.y[0, i]
    if status == ADVANCED:  # the velocity is that of the transported state; else it is what it was
        evaluate(s.model, s.time[0] + h, s.q, s.zero, s.workspace)
        rank = _factor_plain(s)
        _wanted(s, gamma)
        _least(s, rank, s.workspace.r, s.v)
        for i in range(n):
            for j in range(s.free[0]):
                s.v[i] += s.y[2 + i, j] * s.y[1, j]
    rank, residual = _align(s, gamma, s.time[0] + h)
    return status, rank, residual


@kernel
def step_stabilised(packed, gamma, h):
    """Advance by h; returns (status, rank, largest holonomic residual)."""
    return _step(packed.arrays, gamma, h)


@kernel
def _align_kernel(packed, gamma):
    s = packed.arrays
    return _align(s, gamma, s.time[0])


class StabilisedSolver:
    """A constrained tool advanced by steps of `period` [s]; its holonomic residuals decay as exp(-gamma t).

    Args:
        system: the system and its constraints.
        q, v: any initial state; the velocity is projected orthogonally on A qd = a.
        gamma: rate [1/s], >= 0; with 0 the residuals stay as they are.
        period: step [s].

    Attributes:
        q, v: state after the last step, in memory that stays. a, multipliers: at its beginning, with its wrench.
        wrench, generalised: of the last step, (6,) and (n,); a servo fills them and calls `advance`.
        time: at which the next step begins [s], (1,).
        rank: of the rows, which with unit lengths count as dependent below `linalg.RANK_TOLERANCE`.
        residual: largest holonomic residual after it. status: ADVANCED or HELD.
        refused: where in the last step there was no acceleration, if the tool was HELD for that.
        workspace: of which nothing has to last from step to step. memory: for `step_stabilised`, which a kernel may
            call in place of `advance`.

    Raises:
        ConstraintError: the velocity constraints contradict each other.
    """

    def __init__(
        self,
        system: Equations,
        q: Sequence[float] | np.ndarray,
        v: Sequence[float] | np.ndarray,
        gamma: float,
        period: float = 1e-3,
    ):
        if not 0.0 < period < math.inf:
            raise ConstraintError(f"period = {period} s: must be finite and > 0")
        if not 0.0 <= gamma * period < 2.5:  # Runge-Kutta of xd = -gamma x is stable to 2.78
            raise ConstraintError(f"gamma = {gamma} 1/s: must be from 0 to {2.5 / period:g} with this period")
        self.system = system
        self.period, self.gamma = float(period), float(gamma)
        memory = allocate(_Memory, system.sizes, model=system.model, workspace=allocate_workspace(system.sizes))
        self.workspace, self.q, self.v = memory.workspace, memory.q, memory.v
        self.a, self.multipliers = memory.a, memory.multipliers
        self.wrench, self.generalised, self.time = memory.wrench, memory.generalised, memory.time
        self._y, self._free, self.refused = memory.y, memory.free, memory.refused
        self.status = ADVANCED
        self.memory = Packed(memory)
        self.restart(q, v)

    @property
    def S(self) -> np.ndarray:
        """Basis of the null space, (n, n - rank): v = S eta + xi."""
        return self._y[2:, : self._free[0]]

    @property
    def eta(self) -> np.ndarray:
        """Velocities along the columns of S, (n - rank,)."""
        return self._y[1, : self._free[0]]

    def restart(self, q: Sequence[float] | np.ndarray, v: Sequence[float] | np.ndarray) -> None:
        """Begin at another state, as after a disturbance; v is projected."""
        self.q[:], self.v[:] = self.system.state(q, v)
        self.rank, self.residual = _align_kernel(self.memory, self.gamma)
        w = self.workspace
        wanted = w.b.copy()
        wanted[: self.system.k] -= self.gamma * w.c
        slack = w.A @ self.v - wanted
        if not np.all(np.abs(slack) <= 1e-8 * (1.0 + np.abs(wanted))):
            i = int(np.argmax(np.abs(slack)))
            label = self.system.labels[i]
            raise ConstraintError(f"{label} contradicts the others: its rate is off by {slack[i]:.3g}")

    def step(self, wrench: np.ndarray | None = None, generalised: np.ndarray | None = None) -> int:
        """Advance by a period with a spatial wrench [N, N m] (6,) and generalised forces (n,), held.

        Returns:
            ADVANCED, or HELD where the rows or the inertia are singular: the tool stays, with the velocity it had.
        """
        self.wrench[:] = 0.0 if wrench is None else vector("wrench", wrench, 6)
        self.generalised[:] = 0.0 if generalised is None else vector("generalised", generalised, len(self.q))
        return self.advance()

    def advance(self) -> int:
        """`step` with what is in `wrench` and `generalised`, unchecked: not finite, they leave the tool HELD."""
        self.status, self.rank, self.residual = step_stabilised(self.memory, self.gamma, self.period)
        self.time[0] += self.period
        return self.status

    @property
    def residuals(self) -> tuple[float, float]:
        """Norms of the holonomic and nonholonomic residuals."""
        return self.system.residuals(self.q, self.v)

    @property
    def energy(self) -> float:
        """Kinetic and potential energy [J]."""
        return self.system.energy(self.q, self.v)
