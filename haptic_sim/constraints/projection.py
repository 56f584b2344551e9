"""Exactly constrained dynamics by acceleration projection and return to the manifold (FAULRING II).

The acceleration is FAULRING (13) with algorithm 1 as corrected (errata 1),
    qdd = Abar (bdot - Adot qd) + M^-1 Pu (tau - C qd),   Abar = M^-1 A^T (A M^-1 A^T)^-1,
and the multipliers are (11), both from one factorisation of the rows in the metric of M (`linear`), which leaves out
dependent rows. A step ends with the least-energy (mass-weighted) Newton projection of the position on c = 0 and of
the velocity on A qd = b, so nothing drifts. The projection of the velocity never adds energy if b = 0.

    rk4       classical Runge-Kutta on (q, qd), wrench held over the step; in at most MAX_PARTS parts where the path
              bends by more than BEND in a step or an angle turns by more than TURN (near the pole of Euler angles)
    explicit  FAULRING's algorithm 1, for comparison: Euler's step with h^2/2 qdd; `parametrised` in the independent
              coordinates z of a parametrisation x = psi(z)

Where the position does not return (a constraint that cannot be satisfied from there, a singular configuration), the
tool stays at the last configuration with its projected velocity: finite, without a jump. `status` says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from haptic_sim.constraints.equations import Equations
from haptic_sim.constraints.errors import ConstraintError, vector
from haptic_sim.constraints.linear import correct, factor, factor_inertia, multipliers
from haptic_sim.constraints.model import Model, Workspace, allocate_workspace, apply_external, evaluate
from haptic_sim.kernels import call_at, kernel
from haptic_sim.linalg import backward, cholesky, cholesky_solve, forward
from haptic_sim.packed import Packed
from haptic_sim.records import allocate, array, part, record, shared, value

POSITION_TOLERANCE = 1e-13  # [m, rad] residual at which the return ends; rounding may stop it at 1e-12
ACCEPTED = 1e-11  # [m, rad] residual with which a step is accepted
ON_MANIFOLD = 1e-8  # [m, rad; m/s, rad/s] what an initial state may be off; it is projected then
TURN = 0.05  # [rad] change of an angle in a part of the step, at most
BEND = 0.01  # [rad] bend of the path in the metric of M in a part: 1e-6 of the energy in 10 s at 10 rad/s needs it
MAX_PARTS = 256
_NEWTON = 12

ADVANCED, HELD = 0, 1
NOTHING, INERTIA, VALUE = 0, 1, 2  # refused: nothing, an inertia that has no factor, an acceleration that is no number
INTEGRATORS = ("rk4", "explicit", "parametrised")


@record
class Refusal(NamedTuple):
    """A state in a step from which the equations of motion give no acceleration."""

    kind: np.ndarray = array("NOTHING, INERTIA or VALUE", 1, dtype=np.int64)
    time: np.ndarray = array("time", 1, unit="s")
    q: np.ndarray = array("configuration", "coordinates")
    v: np.ndarray = array("velocity", "coordinates")


@kernel
def refuse(refused, kind, t, q, v):
    """Keep the first state of a step that is refused, and return the rank that says so, -1."""
    if refused.kind[0] == NOTHING:
        refused.kind[0], refused.time[0] = kind, t
        for j in range(len(q)):
            refused.q[j], refused.v[j] = q[j], v[j]
    return -1


@record
class _Memory(NamedTuple):
    """All that a step works on, as one argument."""

    model: Model = value("the system and its constraints")
    workspace: Workspace = part(Workspace, "nothing in it has to last from step to step")
    time: np.ndarray = array("time at the beginning of the step", 1, unit="s")
    q: np.ndarray = shared("configuration, advanced in place", "coordinates")
    v: np.ndarray = shared("its velocity, advanced in place", "coordinates")
    wrench: np.ndarray = array("spatial wrench during the step", 6, unit="N, N m")
    generalised: np.ndarray = array("generalised forces during the step", "coordinates")
    a: np.ndarray = array("acceleration at the beginning of the step", "coordinates")
    multipliers: np.ndarray = array("multipliers at the beginning of the step", "rows")
    q_before: np.ndarray = array("configuration before the step, to which a step that fails returns", "coordinates")
    v_before: np.ndarray = array("its velocity", "coordinates")
    q_start: np.ndarray = array("configuration at the beginning of a part of the step", "coordinates")
    v_start: np.ndarray = array("its velocity", "coordinates")
    q_stage: np.ndarray = array("configuration of a stage of the Runge-Kutta method", "coordinates")
    v_stage: np.ndarray = array("its velocity", "coordinates")
    v_sum: np.ndarray = array("weighted sum of the velocities of the stages", "coordinates")
    a_sum: np.ndarray = array("weighted sum of their accelerations", "coordinates")
    refused: Refusal = part(Refusal, "where the step could not go on")
    z: np.ndarray = shared("independent coordinates of the parametrisation", "parameters")
    z_rate: np.ndarray = array("their rates", "parameters")
    z_second: np.ndarray = array("their accelerations", "parameters")
    z_before: np.ndarray = array("the coordinates before the step", "parameters")
    psi: np.ndarray = array(
        "psi, its derivatives, and their rates: see `derivation`", "coordinates * (1 + 2 * parameters)"
    )
    z_gram: np.ndarray = array("Gram matrix of the derivatives", "parameters", "parameters")


@kernel
def finite(x):
    """Whether all entries of x are finite."""
    for i in range(len(x)):  # noqa: SIM110 (no generators in kernels)
        if not math.isfinite(x[i]):
            return False
    return True


@kernel
def _largest_residual(w, rows):
    worst = 0.0
    for i in range(rows):
        if not abs(w.c[i]) <= worst:  # a NaN is the worst
            worst = abs(w.c[i])
    return worst


@kernel
def _accelerate(s, t, q, v):
    """Fill w.a and the parts of w that `multipliers` needs; returns the rank, -1 where there is no acceleration."""
    model, w = s.model, s.workspace
    evaluate(model, t, q, v, w)
    if not factor_inertia(w, model.n):
        return refuse(s.refused, INERTIA, t, q, v)
    rank = factor(w, model.n, model.m)
    apply_external(s.wrench, s.generalised, w)
    for i in range(model.n):
        w.a[i] = w.external[i] + w.passive[i] - w.bias[i]
    forward(w.L, model.n, w.a)
    for i in range(model.m):
        w.r[i] = w.bdot[i]
        for j in range(model.n):
            w.r[i] -= w.Adot[i, j] * v[j]
    correct(w, model.n, rank, w.r, w.a)
    backward(w.L, model.n, w.a)
    return rank if finite(w.a) else refuse(s.refused, VALUE, t, q, v)


@kernel
def _project_velocity(s):
    """v to A v = b with the least kinetic energy of the change; w evaluated at q. Returns the rank."""
    model, v, w = s.model, s.v, s.workspace
    if not factor_inertia(w, model.n):
        return -1
    rank = factor(w, model.n, model.m)
    for i in range(model.m):
        w.r[i] = w.b[i]
        for j in range(model.n):
            w.r[i] -= w.A[i, j] * v[j]
    for j in range(model.n):
        w.y[j] = 0.0
    # the rows in the order of `correct` ask for W y = r
    correct(w, model.n, rank, w.r, w.y)
    backward(w.L, model.n, w.y)
    for j in range(model.n):
        v[j] += w.y[j]
    return rank


@kernel
def _return_to_manifold(s, t):
    """q to c(q) = 0 by Newton steps of least kinetic energy, then v to A v = b; returns (rank, largest residual)."""
    model, q, w = s.model, s.q, s.workspace
    worst = math.inf
    for _ in range(_NEWTON):
        evaluate(model, t, q, s.v, w)
        before, worst = worst, _largest_residual(w, model.k)
        if not worst > POSITION_TOLERANCE or (worst < ACCEPTED and worst > 0.5 * before) or not math.isfinite(worst):
            break
        if not factor_inertia(w, model.n):
            return refuse(s.refused, INERTIA, t, q, s.v), math.inf
        rank = factor(w, model.n, model.k)
        for j in range(model.n):
            w.y[j] = 0.0
        for i in range(model.k):
            w.r[i] = -w.c[i]
        correct(w, model.n, rank, w.r, w.y)
        backward(w.L, model.n, w.y)
        for j in range(model.n):
            q[j] += w.y[j]
    if not math.isfinite(worst):
        return refuse(s.refused, VALUE, t, q, s.v), worst
    rank = _project_velocity(s)
    return rank if rank >= 0 else refuse(s.refused, INERTIA, t, q, s.v), worst


@kernel
def _rk4_part(s, t, h, first):
    """One Runge-Kutta step of (q, v) from t in place; w.a is the acceleration of the first stage, of rank `first`."""
    w, n, q, v = s.workspace, s.model.n, s.q_stage, s.v_stage
    for j in range(n):
        s.q_start[j], s.v_start[j], s.v_sum[j], s.a_sum[j], q[j], v[j] = s.q[j], s.v[j], 0.0, 0.0, s.q[j], s.v[j]
    for stage in range(4):
        rank = first if stage == 0 else _accelerate(s, t + (h if stage == 3 else 0.5 * h), q, v)
        if rank < 0:
            return False
        weight = 1.0 if stage == 0 or stage == 3 else 2.0
        ahead = h if stage == 2 else 0.5 * h
        for j in range(n):
            s.v_sum[j] += weight * v[j]
            s.a_sum[j] += weight * w.a[j]
            q[j] = s.q_start[j] + ahead * v[j]
            v[j] = s.v_start[j] + ahead * w.a[j]
    for j in range(n):
        s.q[j] = s.q_start[j] + h / 6.0 * s.v_sum[j]
        s.v[j] = s.v_start[j] + h / 6.0 * s.a_sum[j]
    return True


@kernel
def _start(s):
    """Fill acceleration and multipliers at the beginning of a step; returns the rank."""
    model, w = s.model, s.workspace
    rank = _accelerate(s, s.time[0], s.q, s.v)
    if rank < 0:
        return rank
    multipliers(w, model.m, rank)
    for j in range(model.n):
        s.a[j] = w.a[j]
    for i in range(model.m):
        s.multipliers[i] = w.multipliers[i]
    return rank


@kernel
def _finish(s, t):
    """Return to the manifold, or hold the state before the step if that fails. Returns (status, rank, residual)."""
    rank, residual = -1, math.inf
    if finite(s.q) and finite(s.v):
        rank, residual = _return_to_manifold(s, t)
    if rank >= 0 and residual <= ACCEPTED and finite(s.q) and finite(s.v):
        return ADVANCED, rank, residual
    return _hold(s)


@kernel
def _hold(s):
    """Restore the state that `_remember` has kept; returns as `_finish`."""
    for j in range(s.model.n):
        s.q[j], s.v[j] = s.q_before[j], s.v_before[j]
    evaluate(s.model, s.time[0], s.q, s.v, s.workspace)
    return HELD, _project_velocity(s), _largest_residual(s.workspace, s.model.k)


@kernel
def _fastest(model, v):
    """Largest rate of an angle [rad/s]."""
    fastest = 0.0
    for j in range(model.n):
        fastest = max(fastest, model.angular[j] * abs(v[j]))
    return fastest


@kernel
def _parts(s, h, rank):
    """Number of parts of the rest h: from the rates of angles, and from the curvature of the path by its velocity."""
    model, v, w = s.model, s.v, s.workspace
    fastest = speed = bend = 0.0
    for j in range(model.n):
        fastest = max(fastest, model.angular[j] * (abs(v[j]) + h * abs(w.a[j])))
        w.y[j] = -w.bias[j]
        rate = 0.0
        for i in range(j, model.n):
            rate += w.L[i, j] * v[i]
        speed += rate * rate
    forward(w.L, model.n, w.y)
    for i in range(model.m):
        w.r[i] = w.bdot[i]
        for j in range(model.n):
            w.r[i] -= w.Adot[i, j] * v[j]
    correct(w, model.n, rank, w.r, w.y)
    for j in range(model.n):
        bend += w.y[j] * w.y[j]
    needed = h * fastest / TURN
    if bend > 0.0 and speed > 0.0:
        needed = max(needed, h * math.sqrt(bend / speed) / BEND)
    return int(min(max(math.ceil(needed), 1.0), MAX_PARTS))


@kernel
def _remember(s):
    s.refused.kind[0] = NOTHING
    for j in range(s.model.n):
        s.q_before[j], s.v_before[j] = s.q[j], s.v[j]


@kernel
def _step_rk4(s, h):
    """Advance (q, v) in place by h; fills acceleration and multipliers of its beginning."""
    model, q, v = s.model, s.q, s.v
    _remember(s)
    rank = _start(s)
    left, count, longest, t = h, 0, h, s.time[0]
    while rank >= 0 and left > 0.0:
        count += 1
        parts = _parts(s, left, rank) if count < MAX_PARTS else 1
        part = min(left / parts, longest)
        if count >= MAX_PARTS:
            part = left
        if not _rk4_part(s, t, part, rank):
            return _hold(s)
        if count < MAX_PARTS and part * _fastest(model, v) > 2.0 * TURN:  # it went into the pole unawares
            for j in range(model.n):
                q[j], v[j] = s.q_start[j], s.v_start[j]
            longest = 0.5 * part
        else:
            longest = 2.0 * part
            left -= part
            t = s.time[0] + h - left
            if not left > 1e-9 * h:
                break
            _return_to_manifold(s, t)
        rank = _accelerate(s, t, q, v)
    return _finish(s, s.time[0] + h) if rank >= 0 else _hold(s)


@kernel
def _step_explicit(s, h):
    """FAULRING algorithm 1, lines 8-14 as corrected, in all coordinates: Euler's step, then the return."""
    q, v, a = s.q, s.v, s.a
    _remember(s)
    if _start(s) < 0:
        return _hold(s)
    for j in range(s.model.n):
        q[j] += h * v[j] + 0.5 * h * h * a[j]
        v[j] += h * a[j]
    return _finish(s, s.time[0] + h)


@kernel
def _step_parametrised(s, h):
    """Euler's step, as `_step_explicit`, in independent coordinates z: x = psi(z), xd = dpsi/dz zd; no Newton step.

    zd and zdd are those of least squares for the velocity and the acceleration, which is exact on the constraints. Only
    the rows of velocities correct the velocity then (errata 8).
    """
    model, w, q, v, n, r = s.model, s.workspace, s.q, s.v, s.model.n, s.model.z
    _remember(s)
    if _start(s) < 0:
        return _hold(s)
    derivative, rate = s.psi[n : n + n * r], s.psi[n + n * r :]
    for i in range(r):
        s.z_rate[i], s.z_before[i] = 0.0, s.z[i]
    _place(s)
    for j in range(n):
        w.y[j] = v[j]
    if not _least_squares(s, derivative, w.y, s.z_rate):
        return _hold(s)
    _place(s)
    for j in range(n):
        w.y[j] = s.a[j]
        for i in range(r):
            w.y[j] -= rate[j * r + i] * s.z_rate[i]
    _least_squares(s, derivative, w.y, s.z_second)
    for i in range(r):
        s.z[i] += h * s.z_rate[i] + 0.5 * h * h * s.z_second[i]
        s.z_rate[i] += h * s.z_second[i]
    _place(s)
    for j in range(n):
        turn = 2.0 * math.pi * model.angular[j]
        q[j] = s.psi[j] + (turn * round((q[j] - s.psi[j]) / turn) if turn > 0.0 else 0.0)
        v[j] = 0.0
        for i in range(r):
            v[j] += derivative[j * r + i] * s.z_rate[i]
    after = s.time[0] + h
    if finite(q) and finite(v):
        evaluate(model, after, q, v, w)
        rank, residual = _project_velocity(s), _largest_residual(w, model.k)
        if rank >= 0 and residual <= ACCEPTED and finite(v):
            return ADVANCED, rank, residual
    for i in range(r):
        s.z[i] = s.z_before[i]
    return _hold(s)


@kernel
def _place(s):
    """Fill psi for z and its rate."""
    call_at(s.model.place, s.z, s.z_rate, s.model.parameters, s.psi)


@kernel
def _least_squares(s, derivative, wanted, x):
    """Fill x with what comes nearest to derivative x = wanted; False where that is not unique."""
    n, r, gram = s.model.n, s.model.z, s.z_gram
    for i in range(r):
        x[i] = 0.0
        for j in range(n):
            x[i] += derivative[j * r + i] * wanted[j]
        for k in range(i + 1):
            gram[i, k] = 0.0
            for j in range(n):
                gram[i, k] += derivative[j * r + i] * derivative[j * r + k]
    if not cholesky(gram, r, gram):
        return False
    cholesky_solve(gram, r, x)
    return True


@kernel
def step_rk4(packed, h):
    """Advance by h; returns (status, rank, largest holonomic residual)."""
    return _step_rk4(packed.arrays, h)


@kernel
def step_explicit(packed, h):
    """Advance by h [s]: Euler's step in all coordinates, then the return to the manifold; returns as `step_rk4`."""
    return _step_explicit(packed.arrays, h)


@kernel
def step_parametrised(packed, h):
    """Advance by h [s]: Euler's step in the independent coordinates; returns as `step_rk4`."""
    return _step_parametrised(packed.arrays, h)


@kernel
def _settle_kernel(packed):
    s = packed.arrays
    return _return_to_manifold(s, s.time[0])


class ProjectionSolver:
    """A constrained tool advanced by steps of `period` [s].

    Args:
        system: the system and its constraints.
        q, v: initial state, at most ON_MANIFOLD off the constraints; it is projected.
        period: step [s].
        integrator: "rk4", "explicit", or "parametrised", which is "explicit" in the independent coordinates of the
            system's parametrisation, and starts where that does.

    Attributes:
        q, v: state after the last step, in memory that stays. a, multipliers: at its beginning, with its wrench.
        wrench, generalised: of the last step, (6,) and (n,); a servo fills them and calls `advance`.
        time: at which the next step begins [s], (1,).
        rank: independent rows, dependent: names of the others. status: ADVANCED or HELD.
        refused: where in the last step there was no acceleration, if the tool was HELD for that.
        workspace: of which nothing has to last from step to step. memory: for the kernel `kernel`, which another kernel
            may call in place of `advance`.

    Raises:
        ConstraintError: the initial state is off the manifold, or constraints contradict each other there.
    """

    def __init__(
        self,
        system: Equations,
        q: Sequence[float] | np.ndarray,
        v: Sequence[float] | np.ndarray,
        period: float = 1e-3,
        integrator: str = "rk4",
    ):
        if integrator not in INTEGRATORS:
            raise ConstraintError(f"integrator {integrator!r}: must be of {', '.join(INTEGRATORS)}")
        if not 0.0 < period < math.inf:
            raise ConstraintError(f"period = {period} s: must be finite and > 0")
        self.system = system
        self.period = float(period)
        self.integrator = integrator
        self.q, self.v = system.state(q, v)
        self._check_start()
        z = self._parameters() if integrator == "parametrised" else np.zeros(0)
        workspace = allocate_workspace(system.sizes)
        memory = allocate(
            _Memory,
            system.sizes | {"parameters": z.size},
            model=system.model,
            workspace=workspace,
            q=self.q,
            v=self.v,
            z=z,
        )
        self.workspace, self.a, self.multipliers = memory.workspace, memory.a, memory.multipliers
        self.refused = memory.refused
        self.wrench, self.generalised, self.time = memory.wrench, memory.generalised, memory.time
        self.memory = Packed(memory)
        self.kernel: Callable[..., tuple[int, int, float]] = {
            "rk4": step_rk4,
            "explicit": step_explicit,
            "parametrised": step_parametrised,
        }[integrator]
        self.status = ADVANCED
        self.rank, self.residual = _settle_kernel(self.memory)
        if not (self.rank >= 0 and self.residual <= ACCEPTED):
            self._refuse(self.workspace.c, "contradicts the others")
        slack = np.abs(self.workspace.A @ self.v - self.workspace.b)
        if not np.all(slack <= ON_MANIFOLD):
            label, worst = system.labels[int(np.argmax(slack))], slack.max()
            raise ConstraintError(f"{label} contradicts the others: its rate is off by {worst:.3g}")

    def _refuse(self, residual: np.ndarray, reason: str) -> None:
        i = int(np.argmax(np.abs(residual)))
        raise ConstraintError(f"{self.system.labels[i]} {reason}: residual {residual[i]:.3g}")

    def _check_start(self) -> None:
        w = self.system.evaluate(self.q, self.v)
        if not np.all(np.abs(w.c) <= ON_MANIFOLD):
            self._refuse(w.c, f"is not met by the initial configuration (at most {ON_MANIFOLD:g})")
        slack = w.A @ self.v - w.b
        if not np.all(np.abs(slack) <= ON_MANIFOLD):
            self._refuse(slack, f"is not met by the initial velocity (at most {ON_MANIFOLD:g})")

    def _parameters(self) -> np.ndarray:
        """z at the start."""
        placed = self.system.placed()
        if placed is None:
            raise ConstraintError("integrator 'parametrised': the system has no parametrisation")
        z, psi = placed
        difference = psi - self.q
        turns = 2.0 * math.pi * self.system.model.angular
        difference -= turns * np.round(difference / np.where(turns > 0.0, turns, 1.0))
        if not np.all(np.abs(difference) <= ON_MANIFOLD):
            i = int(np.argmax(np.abs(difference)))
            raise ConstraintError(
                f"parametrisation: {self.system.coordinates[i]} is {psi[i]:.9g} at its start, and {self.q[i]:.9g} at "
                f"that of the system: must be the same to {ON_MANIFOLD:g}"
            )
        return z

    def step(self, wrench: np.ndarray | None = None, generalised: np.ndarray | None = None) -> int:
        """Advance by a period with a spatial wrench (force, torque) [N, N m] (6,) and generalised forces (n,), held.

        Returns:
            ADVANCED, or HELD where the tool stayed because its constraints could not be met.
        """
        self.wrench[:] = 0.0 if wrench is None else vector("wrench", wrench, 6)
        self.generalised[:] = 0.0 if generalised is None else vector("generalised", generalised, len(self.q))
        return self.advance()

    def advance(self) -> int:
        """`step` with what is in `wrench` and `generalised`, unchecked: not finite, they leave the tool HELD."""
        self.status, self.rank, self.residual = self.kernel(self.memory, self.period)
        self.time[0] += self.period
        return self.status

    @property
    def dependent(self) -> tuple[str, ...]:
        """Names of the rows that depended on others after the last step."""
        return tuple(name for name, d in zip(self.system.row_names, self.workspace.dependent, strict=True) if d)

    @property
    def residuals(self) -> tuple[float, float]:
        """Norms of the holonomic and nonholonomic residuals."""
        return self.system.residuals(self.q, self.v)

    @property
    def energy(self) -> float:
        """Kinetic and potential energy [J]."""
        return self.system.energy(self.q, self.v)
