"""Bodies of a world under exact constraints, among contacts.

With Q, an orthonormal basis of the constraints' rows in scaled coordinates, and P = 1 - Q^T Q:

 - velocities are kept in the range of P; the changes of u by external forces, and the rows of contacts and of the hand,
   are projected by P. So every contact method works unchanged under constraints, and the hand feels a constraint as it
   feels the topology of a linkage (`haptic_sim.hand`). Constraint forces do no work.
 - a step is that of SHAKE and RATTLE (Ryckaert, Ciccotti and Berendsen 1977; Andersen 1983) around the semi-implicit
   step of `Multibody`: the velocity that moves q is u + Q^T z, with z such that positions meet the constraints after
   the step, and nonholonomic rows are satisfied in the middle of it; then the part along the new Q is removed. On a
   circle both changes cancel, so that the speed is constant; a step that only projected would lose half of |du|^2.
 - the projection never adds energy: if z adds more energy than is removed afterwards, u is shortened accordingly.

The error of a step is that of semi-implicit Euler, of second order in the period; constraints add a term of third
order. The energy that they remove is counted as `numerical`, with the other discretisation errors.

Where positions cannot meet the constraints (a linkage at the end of its reach), the bodies stop where they are: no
NaN, no jump. `held` counts such steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pinocchio as pin

from haptic_sim.constraints.errors import ConstraintError
from haptic_sim.constraints.in_worlds import (
    MOST_ROWS,
    RowsOfConstraints,
    Span,
    WorldConstraint,
    along,
    build_rows,
    evaluate,
    multipliers,
    project,
    scaled_row,
    span_rows,
)
from haptic_sim.constraints.switching import (
    OFF,
    RIGID,
    Schedule,
    Switches,
    advance,
    change,
    conclude,
    load,
    stage,
    unload,
)
from haptic_sim.dynamics.energy import DAMPING, INJECTED
from haptic_sim.dynamics.joints import JointLaw
from haptic_sim.dynamics.multibody import BodyArrays, Multibody, find_velocity
from haptic_sim.kernels import kernel
from haptic_sim.linalg import to_velocity
from haptic_sim.packed import Packed
from haptic_sim.records import allocate, array, part, record, value

TOLERANCE = 1e-13  # [m, rad] residual at which the return ends; rounding may stop it before
ACCEPTED = 1e-11  # [m, rad] residual with which a step is accepted
ON_MANIFOLD = 1e-4  # [m, rad; m/s, rad/s] what an initial state may be off; it is projected then
_NEWTON = 12


@record
class ConstrainedArrays(NamedTuple):
    """Arrays that the kernels of constrained bodies read and write."""

    body: BodyArrays = value("arrays of the bodies")
    rows: RowsOfConstraints = value("rows of the constraints")
    switches: Switches = value("state of the switched constraints")
    rigid: Span = value("span of the rigid rows")
    switching: Span = value("span of the rows of one constraint that switches")
    whole: Span = part(Span, "span of the rigid rows of positions, of a step to the manifold")
    taken: np.ndarray = array("taken along Q by the projection from external forces, and from contacts", 2, "rows")
    projected: np.ndarray = array("impulses of the rows by the projection of the velocity before the step", "rows")
    added: np.ndarray = array("|z|^2 of the last step, which the next projection has to remove", 1)
    z: np.ndarray = array("change of the scaled velocity along Q", "rows")
    residual: np.ndarray = array("residuals of the return to the manifold", "rows", unit="m/s, rad/s")
    newton: np.ndarray = array("derivative of these residuals by z", "rows", "rows")
    hand_along: np.ndarray = array("part of the hand's rows along Q", 6, "rows")
    undone: np.ndarray = array("scaled accelerations along Q that undo gamma", "rows")
    moving: np.ndarray = array("scaled velocity that moves q", "nv")
    gyroscopic: np.ndarray = array("rate of u by the gyroscopic terms of free bodies", "nv")
    before: np.ndarray = array("scaled velocity before a step without a wrench", "nv")
    ahead: np.ndarray = array("scaled velocity after it", "nv")
    multipliers: np.ndarray = array("forces of the rows in the last step", "rows", unit="N, N m")
    drift: np.ndarray = array("acceleration of the hand that is due to the constraints", 6, unit="m/s^2, rad/s^2")


class ConstrainedMultibody(Multibody):
    """Bodies of a world under exact constraints, among contacts.

    Args:
        model, hand, q, v: see `Multibody`.
        constraints: between joints of the model.
        period: of a step [s].
        laws: of joints.
        balanced: see `Multibody`.

    Attributes:
        constraints: as given.
        multipliers: forces of constraint in the last step, the sum of its impulses over the period, (m,) [N, N m].
        residual: norms of the residuals of rigid rows of positions, and of rates of rigid rows of velocities, (2,).
        drift: what constraints add to the hand's acceleration without any wrench, (6,).
        held: number of steps in which the constraints could not be met.

    Raises:
        ConstraintError: the initial state does not meet the constraints, or they contradict each other.
    """

    def __init__(
        self,
        model: pin.Model,
        hand: int,
        q: np.ndarray,
        v: np.ndarray,
        constraints: Sequence[WorldConstraint],
        period: float,
        laws: Sequence[JointLaw] = (),
        balanced: Sequence[pin.Inertia] = (),
    ):
        self._ready = False
        self.constraints, self.period = tuple(constraints), period
        m = sum(constraint.rows for constraint in self.constraints)
        coupled = [pair for c in self.constraints for pair in c.bound]
        super().__init__(model, hand, q, v, laws=laws, period=period, rows=m, coupled=coupled, balanced=balanced)
        self.held_single = False  # contacts come to the hand by way of the constraints
        nv = self.nv
        self._rows = build_rows(self.constraints, model.njoints, model.idx_vs.tolist(), nv)
        self._schedule = Schedule(self.constraints, period)
        sizes = {"constraints": len(self.constraints), "rows": m, "nv": nv}
        fade = np.array([constraint.fade for constraint in self.constraints], float)
        self._switches = allocate(Switches, sizes, ticks=self._schedule.ticks, fade=fade)
        self._tick, self.held = 0, 0
        self._nothing = np.zeros(6)
        self._rigid = allocate(Span, sizes, Q=self.arrays.Q, rank=self.arrays.rank)
        arrays = allocate(
            ConstrainedArrays,
            sizes,
            body=self.arrays,
            rows=self._rows,
            switches=self._switches,
            rigid=self._rigid,
            switching=allocate(Span, {"rows": MOST_ROWS, "nv": nv}),
        )
        self.multipliers, self.drift, self.residual = arrays.multipliers, arrays.drift, np.zeros(2)
        self._constrained = Packed(arrays)
        joints = sorted({joint for constraint in self.constraints for joint in constraint.joints} - {0})
        # Pinocchio's Python arrays are views: they follow its data without being asked for again.
        self._placements = [
            (
                self._rows.placement[j, :9].reshape(3, 3),
                self.data.oMi[j].rotation,
                self._rows.placement[j, 9:],
                self.data.oMi[j].translation,
            )
            for j in joints
        ]
        coupled_joints = sorted({joint for c in self.constraints for part in c.sums for joint in part})
        self._coupled_v = [model.idx_vs[j] for j in coupled_joints]
        self._coupled_q = [model.idx_qs[j] for j in coupled_joints]
        self._accelerations = [
            (
                self._rows.acceleration[j, :3],
                self.data.a[j].linear,
                self._rows.acceleration[j, 3:],
                self.data.a[j].angular,
            )
            for j in joints
        ]
        self._velocity_rows = not bool(self._rows.holonomic.all())
        for k in self._schedule.switches:
            self._switches.mode[k] = RIGID if self._schedule.holds(k, 0) else OFF
        self._given = self.v.copy()
        self._ready = True
        self._start()

    @property
    def dependent(self) -> tuple[str, ...]:
        """Names of constraints, with the number of the row, whose row takes no part: others imply it, or it is 0."""
        rows, mode = self._rows, self._switches.mode
        return tuple(
            f"{self.constraints[k].name}[{i - rows.first[k]}]"
            for i, k in enumerate(rows.owner)
            if mode[k] == RIGID and self._rigid.dependent[i]
        )

    @property
    def modes(self) -> np.ndarray:
        """OFF, ENGAGING, RIGID or RELEASING of each constraint, (C,)."""
        return self._switches.mode

    def refresh(self) -> None:
        """Bring all that depends on q and v up to date, and take the velocity that breaks constraints out of v."""
        self.J_H[:] = 0.0  # what it was made into by constraints
        super().refresh()
        if not self._ready:
            return
        self._place()
        if project_velocity(self._constrained):
            # terms of v, with v as it is now
            self.J_H[:] = 0.0
            super().refresh()
        for linear, a, angular, b in self._accelerations:
            linear[:], angular[:] = a, b
        prepare_step(self._constrained, self._tick, self.period)

    def push(self, wrench: np.ndarray, period: float, du: np.ndarray) -> None:
        """Fill `du` (nv,) as `Multibody.push` does, under the constraints.

        With constraints that switch, `u` is in their coordinates until `book`."""
        super().push(self._nothing, period, du)
        apply_external(self._constrained, wrench, period, du)

    def book(self, impulses: np.ndarray, count: int, u: np.ndarray, flows: np.ndarray) -> None:
        """Enter what switching constraints did in a step into `flows` (`EnergyBalance.values`).

        Args:
            impulses: of the contacts, (C, 3); count: how many count.
            u: scaled velocity after the step; it is brought back to its own coordinates.
        """
        enter_energy(self._constrained, impulses, count, u, flows)

    def move(self, u: np.ndarray, period: float) -> None:
        """Go on with the scaled velocity `u` for `period` [s] (semi-implicit Euler: the new velocity moves q)."""
        if not self._return(u, period):
            self.v[:] = 0.0
            self.held += 1
        self._tick += 1
        find_multipliers(self._constrained, period)
        self.refresh()
        measure_residuals(self._constrained, self.residual)  # of what was rigid in the step
        self._switch()

    def _return(self, u: np.ndarray, period: float) -> bool:
        """Find v, and move q by it so that the constraints are met; False where they cannot be, and q stayed."""
        packed, model, q = self._constrained, self.model, self.q
        clear_correction(packed)
        before = math.inf
        for _ in range(_NEWTON):
            find_trial_velocity(packed, u, period)
            if self._velocity_rows:
                self._place(pin.integrate(model, q, 0.5 * self._step))
                find_rate_residuals(packed, period)
            there = pin.integrate(model, q, self._step)
            self._place(there)
            worst, dependent = find_residuals(packed, period)
            if worst <= TOLERANCE or (worst <= ACCEPTED and worst > 0.5 * before):
                if not dependent <= ACCEPTED:
                    there, dependent = self._approach(there)
                break
            before = worst
            if not (math.isfinite(worst) and correct_velocity(packed)):
                break
        if not (worst <= ACCEPTED and dependent <= ACCEPTED and np.isfinite(self.v).all()):
            clear_correction(packed)
            return False
        q[:] = there
        return True

    def _approach(self, q: np.ndarray) -> tuple[np.ndarray, float]:
        """The nearest configuration that meets the constraints, and what remains [m, rad]."""
        residual = before = math.inf
        for _ in range(_NEWTON):
            self._place(q)
            residual = step_to_manifold(self._constrained)
            if residual <= TOLERANCE or (residual <= ACCEPTED and residual > 0.5 * before):
                break
            if not math.isfinite(residual):
                break
            before = residual
            q = pin.integrate(self.model, q, self._step)
        return q, residual

    def _place(self, q: np.ndarray | None = None) -> None:
        """Take the placements of the joints, of `q` if given."""
        if q is not None:
            pin.computeJointJacobians(self.model, self.data, q)
        for R, rotation, p, translation in self._placements:
            R[:], p[:] = rotation, translation
        if self._coupled_v:
            self._rows.position[self._coupled_v] = (self.q if q is None else q)[self._coupled_q]

    def _switch(self) -> None:
        """Go on to the next modes."""
        changed = False
        for k in self._schedule.switches:
            before = self._switches.mode[k]
            change_mode(self._constrained, k, self._schedule.holds(k, self._tick), self._tick, self.period)
            changed = changed or bool(before != self._switches.mode[k])
        if changed:
            self.refresh()

    def _start(self) -> None:
        """Bring the initial state to the manifold.

        Raises:
            ConstraintError: it is too far from it, or constraints contradict each other.
        """
        self._place(self.q)
        step_to_manifold(self._constrained)
        self._refuse(self._rows.c, "is not met at the start", "", ON_MANIFOLD)
        self.q[:], _ = self._approach(self.q)
        self._refuse(self._rows.c, "contradicts the others at the start", "", ACCEPTED)
        self.refresh()
        self._refuse(self._rows.A @ self._given, "is not met by the velocity at the start", "/s", ON_MANIFOLD)
        clear_multipliers(self._constrained)
        measure_residuals(self._constrained, self.residual)

    def _refuse(self, residual: np.ndarray, reason: str, per: str, most: float) -> None:
        size = np.abs(residual) * (self._switches.mode[self._rows.owner] == RIGID)
        if np.all(size <= most):
            return
        i = int(np.argmax(np.where(np.isfinite(size), size, np.inf)))
        unit = "m" if np.any(self._rows.wrench[i, :3]) else "rad"
        name = self.constraints[self._rows.owner[i]].name
        raise ConstraintError(f"{name}: {reason}: residual {size[i]:.3g} {unit}{per}: must be at most {most:g}")


@kernel
def project_velocity(packed):
    """Find the span of the rigid rows and take the velocity along it out of u and v; False if there is none."""
    a = packed.arrays
    body, rows, rigid = a.body, a.rows, a.rigid
    evaluate(rows, body.J_W, body.support, body.v, False)
    m, n = rows.A.shape
    for i in range(m):
        if a.switches.mode[rows.owner[i]] == RIGID:
            scaled_row(rows.A[i], body, rigid.W[i])
        else:
            for j in range(n):
                rigid.W[i, j] = 0.0
    span_rows(rigid, m)
    if rigid.rank[0] == 0:
        a.added[0] = 0.0
        return False
    z, u = a.z, body.u
    project(rigid.Q, rigid.rank[0], u, z)
    gain, square = a.added[0], 0.0
    for r in range(rigid.rank[0]):
        gain -= z[r] * z[r]
        z[r] = -z[r]
    for j in range(n):
        square += u[j] * u[j]
    if gain > 0.0 and square > 0.0:
        part = math.sqrt(max(0.0, 1.0 - gain / square))
        for j in range(n):
            u[j] *= part
    a.added[0] = 0.0
    multipliers(rigid, m, z, rigid.per_row)
    for i in range(m):
        a.projected[i] += rigid.per_row[i]
    to_velocity(body.L, body.start, body.size, u, body.v)
    return True


@kernel
def prepare_step(packed, tick, period):
    """Find gamma and the stages of constraints that switch, and take what is along Q out of the hand's rows."""
    a = packed.arrays
    body, rigid = a.body, a.rigid
    evaluate(a.rows, body.J_W, body.support, body.v, True)
    along(rigid, a.rows.gamma, a.undone)
    for r in range(rigid.rank[0]):
        a.undone[r] = -a.undone[r]
        body.part[r] = 1.0
    body.rank[1] = body.rank[0]
    _find_gyroscopic(a)
    for k in range(a.rows.kind.shape[0]):
        stage(a.switches, k, tick, period, a.rows, body, a.undone, a.gyroscopic, a.switching)
    for i in range(6):
        a.drift[i] = 0.0
        for r in range(a.hand_along.shape[1]):
            a.hand_along[i, r] = 0.0
    if body.rank[1] > 0 and body.hand_tree >= 0:
        _constrain_hand(a)
        if body.rank[1] > body.rank[0]:
            _drift_of_stages(a, period)


@kernel
def _find_gyroscopic(a):
    """Fill in what gyroscopic terms, which `bias` leaves out, do to u."""
    body = a.body
    for j in range(a.gyroscopic.shape[0]):
        a.gyroscopic[j] = 0.0
    for i in range(body.free.shape[0]):
        for j in range(body.free[i], body.free[i] + 3):
            a.gyroscopic[j] = -body.nle[j]
    _solve(body, a.gyroscopic)


@kernel
def _solve(body, x):
    """x = L^-1 x."""
    for tree in range(body.start.shape[0]):
        first = body.start[tree]
        for j in range(first, first + body.size[tree]):
            for k in range(first, j):
                x[j] -= body.L[j, k - first] * x[k]
            x[j] /= body.L[j, j - first]


@kernel
def _constrain_hand(a):
    """Take what constraints take out of the hand's rows, and find its drift along rigid ones."""
    body = a.body
    W, J, L, Q = body.W_H, body.J_H, body.L, body.Q
    first = body.start[body.hand_tree]
    end = first + body.size[body.hand_tree]
    for i in range(6):
        for r in range(body.rank[1]):
            s = 0.0
            for j in range(first, end):
                s += W[i, j] * Q[r, j]
            a.hand_along[i, r] = s
            if r < body.rank[0]:
                a.drift[i] += s * a.undone[r]
            for j in range(first, end):
                W[i, j] -= body.part[r] * s * Q[r, j]
        for j in range(first, end):
            s = 0.0
            for k in range(first, j + 1):
                s += W[i, k] * L[j, k - first]
            J[i, j] = s
    for i in range(6):
        for k in range(i + 1):
            s = 0.0
            for j in range(first, end):
                s += W[i, j] * W[k, j]
            body.inverse_inertia[6 * i + k] = body.inverse_inertia[6 * k + i] = s


@kernel
def _drift_of_stages(a, period):
    """Add to the drift what a step without a wrench does besides -W_H L^-1 nle, which `Hand` knows of."""
    body, y = a.body, a.moving
    before, ahead = a.before, a.ahead
    for j in range(y.shape[0]):
        y[j] = body.nle[j]
    _solve(body, y)
    for j in range(y.shape[0]):
        before[j] = body.u[j]
        ahead[j] = body.u[j] - period * (y[j] + a.gyroscopic[j])
    load(a.switches, body, before, ahead)
    for i in range(6):
        for j in range(y.shape[0]):
            a.drift[i] += body.W_H[i, j] * ((ahead[j] - before[j]) / period + y[j] + a.gyroscopic[j])
        for r in range(body.rank[0], body.rank[1]):
            s = 0.0
            for j in range(y.shape[0]):
                s += body.Q[r, j] * a.gyroscopic[j]
            a.drift[i] += body.part[r] * a.hand_along[i, r] * s


@kernel
def apply_external(packed, wrench, period, du):
    """Project `du`, what gravity and bias do to u, let constraints that switch act, and add the wrench."""
    a = packed.arrays
    body, switches, n = a.body, a.switches, du.shape[0]
    rigid, both = body.rank[0], body.rank[1]
    project(body.Q, rigid, du, a.taken[0])
    if both > rigid:
        for j in range(n):
            switches.before[j] = body.u[j]
            du[j] += body.u[j]
        load(switches, body, body.u, du)
        for j in range(n):
            du[j] -= body.u[j]
    for i in range(6):
        for j in range(n):
            du[j] += period * body.W_H[i, j] * wrench[i]
        for r in range(both):
            s = period * a.hand_along[i, r] * wrench[i]
            if r < rigid:
                a.taken[0, r] += s
            else:
                switches.impulse[r] -= (1.0 - switches.root[r] ** 2) * s
    if both > rigid:
        for j in range(n):
            body.ahead[j] = body.u[j] + du[j]
        unload(body, body.ahead)


@kernel
def enter_energy(packed, p, count, u, flows):
    """Enter the energies of a step, as `ConstrainedMultibody.book`, and what the constraints took from the contacts."""
    a = packed.arrays
    body = a.body
    for r in range(body.rank[1]):
        s = body.turned[r]
        for i in range(count):
            for d in range(3):
                s += p[i, d] * body.reaction[i, d, r]
        for k in range(body.joints.p.shape[0]):
            s += body.joints.p[k] * body.joints.reaction[k, 0, r]
        a.taken[1, r] = s
    given, lost = conclude(a.switches, a.rows, body, a.taken[1], u)
    flows[INJECTED] += given
    flows[DAMPING] += lost
    if body.rank[1] > body.rank[0]:
        for j in range(u.shape[0]):
            body.u[j] = a.switches.before[j]


@kernel
def clear_correction(packed):
    a = packed.arrays
    for r in range(a.z.shape[0]):
        a.z[r] = 0.0


@kernel
def find_trial_velocity(packed, u, period):
    """Fill v and `step` with what u + Q^T z does."""
    a = packed.arrays
    body, rigid, w = a.body, a.rigid, a.moving
    for j in range(w.shape[0]):
        w[j] = u[j]
        for r in range(rigid.rank[0]):
            w[j] += rigid.Q[r, j] * a.z[r]
    find_velocity(body, w, period)


@kernel
def _linearise(a, r, row):
    """Fill row r of `newton` with what z does to the rate of a row."""
    W = a.switching.W[0]
    scaled_row(a.rows.A[row], a.body, W)
    for k in range(a.rigid.rank[0]):
        s = 0.0
        for j in range(W.shape[0]):
            s += W[j] * a.rigid.Q[k, j]
        a.newton[r, k] = s


@kernel
def find_rate_residuals(packed, period):
    """Residuals of rows of velocities, of which the joints are where they are in the middle of the step."""
    a = packed.arrays
    rows, rigid = a.rows, a.rigid
    evaluate(rows, a.body.J_W, a.body.support, a.body.v, False)
    for r in range(rigid.rank[0]):
        row = rigid.pivot[r]
        if not rows.holonomic[row]:
            s = 0.0
            for j in range(rows.A.shape[1]):
                s += rows.A[row, j] * a.body.step[j]
            a.residual[r] = s / period
            _linearise(a, r, row)


@kernel
def find_residuals(packed, period):
    """Residuals after the step; the worst of independent rows, and of dependent rows of positions [m, rad]."""
    a = packed.arrays
    rows, rigid = a.rows, a.rigid
    evaluate(rows, a.body.J_W, a.body.support, a.body.v, False)
    worst = dependent = 0.0
    for r in range(rigid.rank[0]):
        row = rigid.pivot[r]
        if rows.holonomic[row]:
            a.residual[r] = rows.c[row] / period
            _linearise(a, r, row)
        size = period * abs(a.residual[r])
        if not size <= worst:
            worst = size
    for i in range(rows.c.shape[0]):
        if rigid.dependent[i] and a.switches.mode[rows.owner[i]] == RIGID and not abs(rows.c[i]) <= dependent:
            dependent = abs(rows.c[i])
    return worst, dependent


@kernel
def correct_velocity(packed):
    """A Newton step for z; False where the rows have become dependent. Gaussian elimination with pivoting."""
    a = packed.arrays
    N, b, n = a.newton, a.residual, a.rigid.rank[0]
    for k in range(n):
        best = k
        for i in range(k + 1, n):
            if abs(N[i, k]) > abs(N[best, k]):
                best = i
        if not abs(N[best, k]) > 0.0:
            return False
        for j in range(n):
            N[k, j], N[best, j] = N[best, j], N[k, j]
        b[k], b[best] = b[best], b[k]
        for i in range(k + 1, n):
            s = N[i, k] / N[k, k]
            for j in range(k, n):
                N[i, j] -= s * N[k, j]
            b[i] -= s * b[k]
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            b[i] -= N[i, j] * b[j]
        b[i] /= N[i, i]
        a.z[i] -= b[i]
    return True


@kernel
def step_to_manifold(packed):
    """Fill `step` with the least movement that meets rigid rows of positions; the worst residual before it."""
    a = packed.arrays
    body, rows, span = a.body, a.rows, a.whole
    evaluate(rows, body.J_W, body.support, body.v, False)
    m, n = rows.A.shape
    worst = 0.0
    for i in range(m):
        if rows.holonomic[i] and a.switches.mode[rows.owner[i]] == RIGID:
            scaled_row(rows.A[i], body, span.W[i])
            if not abs(rows.c[i]) <= worst:
                worst = abs(rows.c[i])
        else:
            for j in range(n):
                span.W[i, j] = 0.0
    span_rows(span, m)
    along(span, rows.c, span.z)
    for j in range(n):
        a.moving[j] = 0.0
        for r in range(span.rank[0]):
            a.moving[j] -= span.Q[r, j] * span.z[r]
    to_velocity(body.L, body.start, body.size, a.moving, body.step)
    return worst


@kernel
def find_multipliers(packed, period):
    """Find the multipliers of the step."""
    a = packed.arrays
    a.added[0] = 0.0
    for r in range(a.rigid.rank[0]):
        a.added[0] += a.z[r] * a.z[r]
        a.z[r] -= a.taken[0, r] + a.taken[1, r]
    multipliers(a.rigid, a.multipliers.shape[0], a.z, a.multipliers)
    for i in range(a.multipliers.shape[0]):
        a.multipliers[i] = (a.multipliers[i] + a.projected[i] + a.switches.multipliers[i]) / period
        a.projected[i] = 0.0
    for r in range(a.z.shape[0]):
        a.taken[0, r] = a.taken[1, r] = 0.0
    advance(a.switches)


@kernel
def change_mode(packed, k, wanted, tick, period):
    """Go on to the next mode of constraint k, if it is time: `haptic_sim.constraints.switching.change`."""
    a = packed.arrays
    change(a.switches, k, wanted, tick, period, a.rows)


@kernel
def clear_multipliers(packed):
    """Set the multipliers to zero: the projection of the initial state exerts no force."""
    a = packed.arrays
    for i in range(a.projected.shape[0]):
        a.projected[i] = 0.0


@kernel
def measure_residuals(packed, residual):
    """Norms of the residuals of rigid rows: of positions, and of the rates of rows of velocities."""
    a = packed.arrays
    rows, v = a.rows, a.body.v
    residual[0] = residual[1] = 0.0
    for i in range(rows.c.shape[0]):
        if a.switches.mode[rows.owner[i]] == RIGID:
            if rows.holonomic[i]:
                residual[0] += rows.c[i] * rows.c[i]
            else:
                s = 0.0
                for j in range(v.shape[0]):
                    s += rows.A[i, j] * v[j]
                residual[1] += s * s
    residual[0], residual[1] = math.sqrt(residual[0]), math.sqrt(residual[1])
