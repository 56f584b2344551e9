"""Exactly constrained dynamics by acceleration projection and return to the manifold (FAULRING II).

The acceleration is FAULRING (13) with algorithm 1 as corrected (errata 1),
    qdd = Abar (bdot - Adot qd) + M^-1 Pu (tau - C qd),   Abar = M^-1 A^T (A M^-1 A^T)^-1,
and the multipliers are (11), both from one factorisation of the rows in the metric of M (`linear`), which leaves out
dependent rows. A step ends with the least-energy (mass-weighted) Newton projection of the position on c = 0 and of
the velocity on A qd = b, so nothing drifts. The projection of the velocity never adds energy if b = 0.

    rk4       classical Runge-Kutta on (q, qd), wrench held over the step; in at most MAX_PARTS parts where the path
              bends by more than BEND in a step or an angle turns by more than TURN (near the pole of Euler angles)
    explicit  FAULRING's algorithm 1, for comparison: Euler's step with h^2/2 qdd. Through a parametrisation x = psi(z)
              it integrates z; z are independent coordinates, or the angle on the circle of `two_link`

Where the position does not return (a constraint that cannot be satisfied from there, a singular configuration), the
tool stays at the last configuration with its projected velocity: finite, without a jump. `status` says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numba
import numpy as np
from numba.extending import overload, register_jitable

from haptic_sim.constraints.errors import ConstraintError
from haptic_sim.constraints.library import POINT_ON_SPHERE, Constrained, UserModel, apply_external, evaluate
from haptic_sim.constraints.linear import correct, factor, factor_inertia, multipliers
from haptic_sim.constraints.model import FormulaModel, Model, Workspace, allocate_workspace
from haptic_sim.constraints.system import System
from haptic_sim.constraints.systems import TWO_LINK, vector
from haptic_sim.linalg import backward, forward
from haptic_sim.packed import Packed
from haptic_sim.records import allocate, array, part, record, shared, value

POSITION_TOLERANCE = 1e-13  # [m, rad] residual at which the return ends; rounding may stop it at 1e-12
ACCEPTED = 1e-11  # [m, rad] residual with which a step is accepted
ON_MANIFOLD = 1e-8  # [m, rad; m/s, rad/s] what an initial state may be off; it is projected then
TURN = 0.05  # [rad] of a coordinate in a part of the step
BEND = 0.01  # [rad] of the path in the metric of M in a part: 1e-6 of the energy in 10 s at 10 rad/s needs it
MAX_PARTS = 256
_NEWTON = 12

ADVANCED, HELD = 0, 1
INDEPENDENT_COORDINATES, CIRCLE_ANGLE = 0, 1


@record
class _Memory(NamedTuple):
    """All that a step works on, as one argument."""

    model: Model | UserModel | FormulaModel = value("the system and its constraints")
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
    independent: np.ndarray = array(
        "whether a coordinate is one of the parametrisation", "coordinates", dtype=np.bool_, fill=True
    )


@register_jitable
def _largest_residual(w, rows):
    worst = 0.0
    for i in range(rows):
        if not abs(w.c[i]) <= worst:  # a NaN is the worst
            worst = abs(w.c[i])
    return worst


@register_jitable
def _accelerate(s, t, q, v):
    """Fill w.a and the parts of w that `multipliers` needs; returns the rank, -1 where M has no factor."""
    model, w = s.model, s.workspace
    evaluate(model, t, q, v, w)
    if not factor_inertia(w, model.n):
        return -1
    rank = factor(w, model.n, model.m)
    apply_external(model, q, v, s.wrench, s.generalised, w)
    for i in range(model.n):
        w.a[i] = w.external[i] + w.passive[i] - w.bias[i]
    forward(w.L, model.n, w.a)
    for i in range(model.m):
        w.r[i] = w.bdot[i]
        for j in range(model.n):
            w.r[i] -= w.Adot[i, j] * v[j]
    correct(w, model.n, rank, w.r, w.a)
    backward(w.L, model.n, w.a)
    return rank


@register_jitable
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


@register_jitable
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
            return -1, math.inf
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
        return -1, worst
    return _project_velocity(s), worst


@register_jitable
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


@register_jitable
def _finite(x):
    for i in range(len(x)):  # noqa: SIM110 (no generators in kernels)
        if not math.isfinite(x[i]):
            return False
    return True


@register_jitable
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


@register_jitable
def _finish(s, t):
    """Return to the manifold, or hold the state before the step if that fails. Returns (status, rank, residual)."""
    rank, residual = -1, math.inf
    if _finite(s.q) and _finite(s.v):
        rank, residual = _return_to_manifold(s, t)
    if rank >= 0 and residual <= ACCEPTED and _finite(s.q) and _finite(s.v):
        return ADVANCED, rank, residual
    return _hold(s)


@register_jitable
def _hold(s):
    """Restore the state that `_remember` has kept; returns as `_finish`."""
    for j in range(s.model.n):
        s.q[j], s.v[j] = s.q_before[j], s.v_before[j]
    evaluate(s.model, s.time[0], s.q, s.v, s.workspace)
    return HELD, _project_velocity(s), _largest_residual(s.workspace, s.model.k)


@register_jitable
def _fastest(model, v):
    """Largest rate of an angle [rad/s]."""
    fastest = 0.0
    for j in range(model.n):
        fastest = max(fastest, model.angular[j] * abs(v[j]))
    return fastest


@register_jitable
def _parts(s, h, rank):
    """How many parts the rest h needs: from the rates of angles, and from how fast its velocity bends the path."""
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


@register_jitable
def _remember(s):
    for j in range(s.model.n):
        s.q_before[j], s.v_before[j] = s.q[j], s.v[j]


@register_jitable
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
    return _finish(s, s.time[0] + h)


@register_jitable
def _step_explicit(s, h, chart, elbow):
    """FAULRING algorithm 1, lines 8-14 as corrected; its coordinates z are `independent`."""
    model, w, q, v, a, independent = s.model, s.workspace, s.q, s.v, s.a, s.independent
    n, after = model.n, s.time[0] + h
    _remember(s)
    rank = _start(s)
    if rank < 0:
        return _finish(s, after)
    if chart == CIRCLE_ANGLE:
        if not _advance_on_circle(model, h, q, v, a, elbow, w):
            return _hold(s)
        return _finish(s, after)
    for j in range(n):
        q[j] += h * v[j] + 0.5 * h * h * a[j]
        v[j] += h * a[j]
    for _ in range(_NEWTON):  # psi(z): the dependent coordinates, from c = 0
        evaluate(model, after, q, v, w)
        if not _largest_residual(w, model.k) > POSITION_TOLERANCE:
            break
        if not _solve_dependent(model, independent, w.c, q, w):
            break
    for i in range(model.k):  # qd = dpsi/dz zd
        w.r[i] = -w.b[i]
        for j in range(n):
            w.r[i] += w.A[i, j] * v[j]
    _solve_dependent(model, independent, w.r, v, w)
    return _finish(s, after)


@register_jitable
def _solve_dependent(model, independent, target, x, w):
    """Change the dependent coordinates of x by -(A_dep)^-1 target; False where that is not unique."""
    n, k = model.n, model.k
    gram = w.gram
    # normal equations of the k rows and k dependent coordinates; repeated, so that their error does not stay
    i = 0
    for a in range(n):
        if independent[a]:
            continue
        j = 0
        for b in range(a + 1):
            if independent[b]:
                continue
            gram[i, j] = 0.0
            for row in range(k):
                gram[i, j] += w.A[row, a] * w.A[row, b]
            j += 1
        w.y[i] = 0.0
        for row in range(k):
            w.y[i] -= w.A[row, a] * target[row]
        i += 1
    for a in range(i):  # Cholesky in place
        for b in range(a + 1):
            s = gram[a, b]
            for c in range(b):
                s -= gram[a, c] * gram[b, c]
            if a == b:
                if not s > 1e-14 * max(gram[a, a], 1e-300):
                    return False
                gram[a, a] = math.sqrt(s)
            else:
                gram[a, b] = s / gram[b, b]
    forward(gram, i, w.y)
    backward(gram, i, w.y)
    i = 0
    for a in range(n):
        if not independent[a]:
            x[a] += w.y[i]
            i += 1
    return True


@register_jitable
def _advance_circle(model, h, q, v, a, elbow, w):
    """FAULRING (40): the angle z on the circle, from (14-16), and back by the inverse kinematics of the links.

    The circle is the model's first constraint, of the end point of `two_link`. False where that is out of reach.
    """
    length, sx, sy = model.params[0], model.params[3], model.params[4]
    cx, cy, radius = model.data[0, 3], model.data[0, 4], model.data[0, 6]
    c1, s1 = math.cos(q[0]), math.sin(q[0])
    c12, s12 = math.cos(q[0] + q[1]), math.sin(q[0] + q[1])
    v12, a12 = v[0] + v[1], a[0] + a[1]
    x, y = sx + length * (c1 + c12) - cx, sy + length * (s1 + s12) - cy
    xd, yd = -length * (s1 * v[0] + s12 * v12), length * (c1 * v[0] + c12 * v12)
    xdd = -length * (s1 * a[0] + s12 * a12 + c1 * v[0] * v[0] + c12 * v12 * v12)
    ydd = length * (c1 * a[0] + c12 * a12 - s1 * v[0] * v[0] - s12 * v12 * v12)
    z, r = math.atan2(y, x), math.hypot(x, y)
    tx, ty = -y / r, x / r
    zd, zdd = (tx * xd + ty * yd) / radius, (tx * xdd + ty * ydd) / radius
    z += h * zd + 0.5 * h * h * zdd
    zd += h * zdd
    px, py = cx + radius * math.cos(z) - sx, cy + radius * math.sin(z) - sy
    cosine = (px * px + py * py) / (2.0 * length * length) - 1.0
    if abs(cosine) > 1.0:
        return False
    bend = elbow * math.acos(cosine)
    q0 = math.atan2(py, px) - 0.5 * bend  # equal links: half the bend to each side
    turns = 2.0 * math.pi * round((q[0] - q0) / (2.0 * math.pi))
    q[0], q[1] = q0 + turns, bend + 2.0 * math.pi * round((q[1] - bend) / (2.0 * math.pi))
    c1, s1 = math.cos(q[0]), math.sin(q[0])
    c12, s12 = math.cos(q[0] + q[1]), math.sin(q[0] + q[1])
    vx, vy = -radius * math.sin(z) * zd, radius * math.cos(z) * zd
    determinant = length * math.sin(q[1])
    if abs(determinant) > 0.0:
        v[0] = (c12 * vx + s12 * vy) / determinant
        v[1] = -((c1 + c12) * vx + (s1 + s12) * vy) / determinant
    return True


def _advance_on_circle(model, h, q, v, a, elbow, w):
    return _advance_circle(model, h, q, v, a, elbow, w)


@overload(_advance_on_circle)
def _overload_advance_on_circle(model, h, q, v, a, elbow, w):
    if getattr(model, "kind", model).instance_class is FormulaModel:
        return lambda model, h, q, v, a, elbow, w: False
    return lambda model, h, q, v, a, elbow, w: _advance_circle(model, h, q, v, a, elbow, w)


@register_jitable
def _settle(s):
    return _return_to_manifold(s, s.time[0])


@numba.njit(cache=True, nogil=True)
def step_rk4(packed, h):
    """Advance by h; returns (status, rank, largest holonomic residual)."""
    return _step_rk4(packed.arrays, h)


@numba.njit(cache=True, nogil=True)
def step_explicit(packed, h, chart, elbow):
    """As `step_rk4`."""
    return _step_explicit(packed.arrays, h, chart, elbow)


@numba.njit(cache=True, nogil=True)
def _settle_kernel(packed):
    return _settle(packed.arrays)


class ProjectionSolver:
    """A constrained tool advanced by steps of `period` [s].

    Args:
        constrained: the system and its constraints.
        q, v: initial state, at most ON_MANIFOLD off the constraints; it is projected.
        period: step [s].
        integrator: "rk4" or "explicit".
        parameters: for "explicit", the names of the coordinates z of a parametrisation, or "circle" for the angle
            on the circle of `two_link`; None integrates q and returns to the manifold.

    Attributes:
        q, v: state after the last step, in memory that stays. a, multipliers: at its beginning, with its wrench.
        wrench, generalised: of the last step, (6,) and (n,); a servo fills them and calls `advance`.
        time: at which the next step begins [s], (1,).
        rank: independent rows, dependent: names of the others. status: ADVANCED or HELD.
        workspace: of which nothing has to last from step to step. memory: for `step_rk4` or `step_explicit`, which
            a kernel may call in place of `advance`; chart, elbow: for the latter.

    Raises:
        ConstraintError: the initial state is off the manifold, or constraints contradict each other there.
    """

    def __init__(
        self,
        constrained: Constrained | System,
        q: Sequence[float] | np.ndarray,
        v: Sequence[float] | np.ndarray,
        period: float = 1e-3,
        integrator: str = "rk4",
        parameters: Sequence[str] | str | None = None,
    ):
        if integrator not in ("rk4", "explicit"):
            raise ConstraintError(f"integrator {integrator!r}: must be 'rk4' or 'explicit'")
        if not 0.0 < period < math.inf:
            raise ConstraintError(f"period = {period} s: must be finite and > 0")
        self.constrained = constrained
        self.period = float(period)
        self.integrator = integrator
        self._model = constrained.model
        self.q, self.v = constrained.state(q, v)
        self._check_start()
        workspace = allocate_workspace(constrained.sizes)
        memory = allocate(_Memory, constrained.sizes, model=self._model, workspace=workspace, q=self.q, v=self.v)
        self.chart, self.elbow = INDEPENDENT_COORDINATES, 1.0
        if integrator == "explicit" and parameters is not None:
            self._set_parameters(parameters, memory.independent)
        elif parameters is not None:
            raise ConstraintError("parameters: for the integrator 'explicit' only")
        self.workspace, self.a, self.multipliers = memory.workspace, memory.a, memory.multipliers
        self.wrench, self.generalised, self.time = memory.wrench, memory.generalised, memory.time
        # kernels for a library's model, their Python for one with a user's constraints
        compiled = isinstance(self._model, Model | FormulaModel)
        self.memory = Packed(memory) if compiled else memory
        self._rk4 = step_rk4 if compiled else _step_rk4
        self._explicit = step_explicit if compiled else _step_explicit
        self.status = ADVANCED
        self.rank, self.residual = (_settle_kernel if compiled else _settle)(self.memory)
        if not (self.rank >= 0 and self.residual <= ACCEPTED):
            self._refuse(self.workspace.c, "contradicts the others")
        slack = np.abs(self.workspace.A @ self.v - self.workspace.b)
        if not np.all(slack <= ON_MANIFOLD):
            name, worst = constrained.row_names[int(np.argmax(slack))], slack.max()
            raise ConstraintError(f"constraint {name} contradicts the others: its rate is off by {worst:.3g}")

    def _refuse(self, residual: np.ndarray, reason: str) -> None:
        i = int(np.argmax(np.abs(residual)))
        name = self.constrained.row_names[i]
        raise ConstraintError(f"constraint {name} {reason}: residual {residual[i]:.3g}")

    def _check_start(self) -> None:
        w = self.constrained.evaluate(self.q, self.v)
        if not np.all(np.abs(w.c) <= ON_MANIFOLD):
            self._refuse(w.c, f"is not met by the initial configuration (at most {ON_MANIFOLD:g})")
        slack = w.A @ self.v - w.b
        if not np.all(np.abs(slack) <= ON_MANIFOLD):
            self._refuse(slack, f"is not met by the initial velocity (at most {ON_MANIFOLD:g})")

    def _set_parameters(self, parameters: Sequence[str] | str, independent: np.ndarray) -> None:
        system, model = self.constrained.system, self._model
        if parameters == "circle":
            kinds = model.kinds.tolist() if isinstance(model, Model) else []
            if isinstance(system, System) or system.kind != TWO_LINK or model.k != 1 or kinds[:1] != [POINT_ON_SPHERE]:
                raise ConstraintError("parameters 'circle': for two_link with point_on_sphere only")
            self.chart, self.elbow = CIRCLE_ANGLE, math.copysign(1.0, math.sin(self.q[1]))
            return
        unknown = [name for name in parameters if name not in system.coordinates]
        if unknown or isinstance(parameters, str):
            raise ConstraintError(f"parameters {parameters!r}: {system.name} has {', '.join(system.coordinates)}")
        if len(parameters) != model.n - model.k:
            raise ConstraintError(f"parameters {parameters!r}: must be {model.n - model.k} coordinates")
        independent[:] = [name in parameters for name in system.coordinates]

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
        if self.integrator == "rk4":
            result = self._rk4(self.memory, self.period)
        else:
            result = self._explicit(self.memory, self.period, self.chart, self.elbow)
        self.status, self.rank, self.residual = result
        self.time[0] += self.period
        return self.status

    @property
    def dependent(self) -> tuple[str, ...]:
        """Names of the rows that depended on others after the last step."""
        return tuple(name for name, d in zip(self.constrained.row_names, self.workspace.dependent, strict=True) if d)

    @property
    def residuals(self) -> tuple[float, float]:
        """Norms of the holonomic and nonholonomic residuals."""
        return self.constrained.residuals(self.q, self.v)

    @property
    def energy(self) -> float:
        """Kinetic and potential energy [J]."""
        return self.constrained.energy(self.q, self.v)
