"""The laws of joints: limits of position and speed, damping, dry friction and springs.

Each is the law of one coordinate q_j with the velocity v_j; together they make one problem in the velocities after a
step, which is the last part of every contact method. With the inertia D, the period T and the velocity v_free without
these laws,

    D (v - v_free) = p_damping + p_spring + p,   p_j in -d(T F_j |v_j|) - N(v_j; low_j, high_j)

 - Damping b_j is implicit, p = -T b_j v_j: it dissipates for any b_j and any T. With D + T b on the diagonal and -T b v
   among the forces, the other laws need no change. (Todorov, Erez and Tassa, MuJoCo, 2012, do the same.)
   In a step with impacts, which see D + T b, the force -T b v acts before them: with w = (D + T b)^-1 D v they begin
   with 1/2 w.(D + T b) w = 1/2 v.D (D + T b)^-1 D v <= 1/2 v.D v. Impacts do not raise that, and what moves has no
   more than it after them: they pass on no energy that there was not. If the force acted after them, they would begin
   with 1/2 v.(D + T b) v, and could pass on 1/2 T b v^2 that the joint never had.
 - A spring k_j (q_j - r_j) is taken at the middle of the step: D + T^2 k / 4 on the diagonal makes the semi-implicit
   step the average-acceleration method of Newmark (1959), without dissipation. Its amplitude is 1 / cos(w T / 2) times
   the true one; so a spring with w T > STIFF is taken at the end of the step, as if it had the damping T k in addition:
   an oscillation too fast for the period is damped.
 - Dry friction F_j holds the joint, or opposes its motion with F_j: |p_j| <= T F_j, and = -T F_j sign(v_j) in motion.
 - Limits bound v_j so that q_j stays in its range after the step: low_j = -(q_j - lower) / T, likewise high_j. N is
   their normal cone: they push inwards only. A limit of speed bounds v_j itself; the removed energy is dissipated.

Restitution comes last in a step (`bounce`), as bounds that do not hold 0 may add energy beside other laws and springs.
A joint that arrives faster than `BOUNCE` with a restitution e leaves with at least e times its velocity of arrival, if
its range is wide enough for that in one step, and if the step has taken the energy for it
(`haptic_sim.contact.rebounds`). Where contacts are rigid, limits with restitution are among their impacts instead.

The last two are min over v of 1/2 |v - v_free|^2_D + sum_j T F_j |v_j| in a box that holds 0: the solution is never
faster, in the metric D, than v_free. In scaled coordinates (`haptic_sim.dynamics.scaled`) it is found over the impulses
p, with the rows W_j = e_j^T L^-T of the coordinates, by Gauss-Seidel; in between, the impulses of the coordinates whose
velocity is given (at rest, or at a bound) are solved for together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from haptic_sim.contact_rows import RowArrays
from haptic_sim.dynamics.scaled import ScaledContacts, constrain_contacts
from haptic_sim.kernels import kernel
from haptic_sim.linalg import cholesky, cholesky_solve, to_scaled, to_velocity
from haptic_sim.records import allocate, array, record, shared, value

REACH = 0.02  # [m, rad] a limit nearer than this, and than two steps, is among the rows of rigid contacts
STIFF = 0.5  # w T of a spring, with its natural frequency w
CLOSED = 1e-9  # [m, rad] a joint so near to its limit is at it
LIMIT = 1 << 62  # identities of limits begin here
BOUNCE = 0.02  # [m/s, rad/s] a joint that arrives slower stops
_ROUNDS = 50  # of sweeps and steps for all
_SWEEPS = 4
_CLOSE = 1e-13  # of the velocities: change in a sweep of what has converged
_IMMOBILE = 1e-14  # of the largest mobility: what exact constraints leave of a coordinate that they hold

BY_DAMPING, BY_FRICTION, BY_LIMITS = range(3)
"""Places in `JointArrays.work`."""


@dataclass(frozen=True)
class JointLaw:
    """Law of one coordinate of a joint; in rad for revolute joints.

    Attributes:
        name: of the joint.
        velocity, position: its place in v and q; position is -1 for a coordinate that is no single number.
        lower, upper: limits of position [m]; speed: of velocity [m/s].
        damping: [N s/m]; friction: [N].
        stiffness, reference: of a spring [N/m], and where it is at rest [m].
        restitution: of the limits of position.
    """

    name: str
    velocity: int
    position: int = -1
    lower: float = -math.inf
    upper: float = math.inf
    speed: float = math.inf
    damping: float = 0.0
    friction: float = 0.0
    stiffness: float = 0.0
    reference: float = 0.0
    restitution: float = 0.0

    @property
    def limited(self) -> bool:
        """Whether the position is limited."""
        return self.position >= 0 and (self.lower > -math.inf or self.upper < math.inf)

    @property
    def idle(self) -> bool:
        """Whether the law has no effect."""
        springy = self.position >= 0 and self.stiffness > 0.0
        return not (self.limited or springy or self.speed < math.inf or self.damping > 0.0 or self.friction > 0.0)


def free_joint_laws(name: str, damping: float, turn_damping: float) -> tuple[JointLaw, ...]:
    """Damping of a free body: of its centre of mass [N s/m], and of its rotation [N m s/rad].

    The force -damping v at the centre of mass and the torque -turn_damping w do not depend on the axes in which v and w
    are expressed: so each is the law of the single coordinates of `multibody.free_joint`, none where it is zero.
    """
    values = 3 * [damping] + 3 * [turn_damping]
    return tuple(JointLaw(name, velocity=k, damping=b) for k, b in enumerate(values) if b > 0.0)


@record
class JointArrays(NamedTuple):
    """Laws of the joints of a `Multibody` and the memory to apply them, for kernels; made by `build_joints`.

    Units are those of joints that slide; of joints that turn it is rad for m and N m for N.
    """

    q: np.ndarray = shared("configuration of the bodies", "nq")
    velocity: np.ndarray = shared("place of the coordinate in v", "laws", dtype=np.int64)
    position: np.ndarray = shared("place in q, -1 of one that is no single number", "laws", dtype=np.int64)
    lower: np.ndarray = shared("lower limit of position", "laws", unit="m")
    upper: np.ndarray = shared("upper limit of position", "laws", unit="m")
    speed: np.ndarray = shared("limit of velocity", "laws", unit="m/s")
    damping: np.ndarray = shared("coefficient of damping, with that of stiff springs", "laws", unit="N s/m")
    friction: np.ndarray = shared("dry friction", "laws", unit="N")
    stiffness: np.ndarray = shared("stiffness of the spring", "laws", unit="N/m")
    reference: np.ndarray = shared("position in which the spring is at rest", "laws", unit="m")
    restitution: np.ndarray = shared("restitution of the limits of position", "laws")
    added: np.ndarray = shared("what damping and springs add to the diagonal of the inertia", "nv", unit="kg")
    damped: bool = value("whether there are damping or springs")
    nonsmooth: bool = value("whether there are friction or limits")
    bounces: bool = value("whether there are limits with restitution")
    stiff: np.ndarray = shared("whether the spring is taken at the end of the step", "laws", dtype=np.bool_)
    rows: ScaledContacts = value("rows W_j of the laws")
    stored: np.ndarray = array("energy of the springs", 1, unit="J")
    force: np.ndarray = array("impulses of damping and springs in this step", "nv", unit="N s")
    reaction: np.ndarray = array("what exact constraints take from the rows", "laws", 3, "rows")
    p: np.ndarray = array("impulses of friction and limits in the last step", "laws", unit="N s")
    stopping: np.ndarray = array("impulses of friction and limits without restitution", "laws", unit="N s")
    stopped: np.ndarray = array("scaled velocity after the step without restitution", "nv")
    guess: np.ndarray = array("impulses that are part of the external forces already", "laws", unit="N s")
    early: np.ndarray = array("whether damping acted before the impacts of this step", "laws", dtype=np.bool_)
    assembled: np.ndarray = array("whether the rows are those of this step", 1, dtype=np.bool_)
    mobility: np.ndarray = array("|W_j|^2", "laws", unit="1/kg")
    low: np.ndarray = array("lower bound of v_j", "laws", unit="m/s")
    high: np.ndarray = array("upper bound of v_j", "laws", unit="m/s")
    friction_impulse: np.ndarray = array("impulse of friction at most, T F_j", "laws", unit="N s")
    v: np.ndarray = array("a velocity of the coordinates", "nv")
    u: np.ndarray = array("a scaled velocity, or a change of it", "nv")
    active: np.ndarray = array("laws whose velocity is given, at rest or at a bound", "laws", dtype=np.int64)
    delassus: np.ndarray = array("W_i . W_j of the active laws", "laws", "laws", unit="1/kg")
    change: np.ndarray = array("change of the velocities of the active laws, then of their impulses", "laws")
    work: np.ndarray = array("energy that damping, friction and limits took in the last step", 3, unit="J")


def build_joints(
    laws: Sequence[JointLaw],
    q: np.ndarray,
    nv: int,
    start: np.ndarray,
    size: np.ndarray,
    period: float,
    constraints: int,
    mobility: np.ndarray,
) -> JointArrays:
    """Memory for these laws, of bodies with the configuration `q` whose trees begin at `start`.

    `constraints` is the number of their rows; `mobility` is the diagonal of the inverse inertia at the start, (nv,).

    Raises:
        ValueError: damping or springs without a period.
    """
    laws = [law for law in laws if not law.idle]
    m = len(laws)

    def values(name: str) -> np.ndarray:
        return np.array([getattr(law, name) for law in laws], float)

    position = np.array([law.position for law in laws], np.int64)
    placed = position >= 0
    damping, stiffness = values("damping"), np.where(placed, values("stiffness"), 0.0)
    lower = np.where(placed, values("lower"), -np.inf)
    upper = np.where(placed, values("upper"), np.inf)
    speed, friction = values("speed"), values("friction")
    if m and not period > 0.0:
        raise ValueError(f"period = {period}: must be > 0 where joints have limits, damping, friction or springs")
    velocity = np.array([law.velocity for law in laws], np.int64)
    added = np.zeros(nv)
    ratio = period * np.sqrt(stiffness * mobility[velocity])
    stiff = ratio > STIFF
    damping = damping + np.where(stiff, period * stiffness, 0.0)
    np.add.at(added, velocity, period * damping + np.where(stiff, 0.0, 0.25) * period**2 * stiffness)
    restitution = values("restitution")
    limited = np.isfinite(lower) | np.isfinite(upper)
    rows = ScaledContacts.allocate(m, start, size)
    for k, j in enumerate(velocity):
        rows.tree[k, 1] = np.searchsorted(start, j, side="right") - 1
    return allocate(
        JointArrays,
        {"laws": m, "nv": nv, "rows": constraints},
        q=q,
        velocity=velocity,
        position=position,
        lower=lower,
        upper=upper,
        speed=speed,
        damping=damping,
        friction=friction,
        stiffness=stiffness,
        reference=values("reference"),
        restitution=restitution,
        added=added,
        damped=bool(np.any(added)),
        nonsmooth=bool(np.any(limited | np.isfinite(speed) | (friction > 0.0))),
        bounces=bool(np.any(limited & (restitution > 0.0))),
        stiff=stiff,
        rows=rows,
    )


@record
class LimitArrays(NamedTuple):
    """Arrays that `append_limits` reads and writes."""

    joints: JointArrays = value("laws of the joints")
    rows: RowArrays = value("rows of the contacts, and of limits after them")
    v: np.ndarray = shared("velocity of the bodies", "nv")


@kernel
def append_limits(packed, count, period, rigid):
    """Append to `count` contacts the limits of position that the step can meet; returns how many rows there are.

    Contacts that do not overlap (`rigid`) have limits with their distance, so that both are resolved together. Among
    others, a limit that is met within the step, or at which the joint is, overlaps by next to nothing: an impact
    against it is resolved with those of the contacts.
    """
    a = packed.arrays
    joints, rows = a.joints, a.rows
    for i in range(count):
        rows.coordinate[i] = -1
    n = count
    for k in range(joints.velocity.shape[0]):
        if joints.position[k] < 0:
            continue
        j, q = joints.velocity[k], joints.q[joints.position[k]]
        for side in range(2):
            gap = q - joints.lower[k] if side == 0 else joints.upper[k] - q
            direction = 1.0 if side == 0 else -1.0
            rate = direction * a.v[j]
            near = gap < REACH + 2.0 * period * abs(rate) if rigid else gap + period * min(rate, 0.0) <= CLOSED
            if near and n < rows.id.shape[0]:
                rows.id[n] = LIMIT + 2 * k + side
                rows.coordinate[n], rows.direction[n] = j, direction
                rows.separation[n], rows.weight[n] = gap if rigid else -CLOSED, 1.0
                rows.restitution[n], rows.velocity[n], rows.wall[n] = joints.restitution[k], 0.0, -1
                for d in range(2):
                    rows.body[n, d] = 0
                    rows.friction[n, d] = rows.resistance[n, d] = 0.0
                for d in range(3):
                    rows.point[n, d] = 0.0
                    rows.normal[n, d] = 1.0 if d == 0 else 0.0
                n += 1
    return n


@kernel
def add_springs(joints, v, bias):
    """Add damping and springs to `bias`, the forces that are on the other side of the equations of motion."""
    joints.stored[0] = 0.0
    for k in range(joints.velocity.shape[0]):
        j = joints.velocity[k]
        bias[j] += joints.damping[k] * v[j]
        if joints.stiffness[k] > 0.0:
            stretch = joints.q[joints.position[k]] - joints.reference[k]
            bias[j] += joints.stiffness[k] * stretch
            joints.stored[0] += 0.5 * joints.stiffness[k] * stretch * stretch


@kernel
def begin_joints(joints, v, period):
    """Note what damping and springs do as `add_springs` has them; no impulse of friction or limits is given yet."""
    joints.assembled[0] = False
    for j in range(joints.force.shape[0]):
        joints.force[j] = 0.0
    for k in range(joints.velocity.shape[0]):
        j = joints.velocity[k]
        joints.force[j] -= period * joints.damping[k] * v[j]
        if joints.stiffness[k] > 0.0:
            stretch = joints.q[joints.position[k]] - joints.reference[k]
            joints.force[j] -= period * joints.stiffness[k] * stretch
        joints.guess[k] = 0.0
        joints.early[k] = False


@kernel
def assemble_joints(joints, body):
    """Find the rows of the laws, once in a step."""
    if joints.assembled[0]:
        return
    joints.assembled[0] = True
    rows, L = joints.rows, body.L
    for k in range(joints.velocity.shape[0]):
        tree = rows.tree[k, 1]
        first = rows.start[tree]
        own = joints.velocity[k] - first
        for i in range(rows.size[tree]):
            s = 1.0 if i == own else 0.0
            if i >= own:
                for m in range(own, i):
                    s -= L[first + i, m] * rows.W[k, 0, 1, m]
                s /= L[first + i, i]
            rows.W[k, 0, 1, i] = s
    if body.rank[1] > 0:
        constrain_contacts(joints.velocity.shape[0], rows, body.Q, body.part, body.rank, joints.reaction)
    for k in range(joints.velocity.shape[0]):
        tree = rows.tree[k, 1]
        s = 0.0
        for i in range(rows.size[tree]):
            s += rows.W[k, 0, 1, i] * rows.W[k, 0, 1, i]
        joints.mobility[k] = s


@kernel
def find_early_damping(joints, body, period, du):
    """Fill du with what damping of the joints that are `early` does to the scaled velocity (nv,), see the module."""
    for j in range(du.shape[0]):
        du[j] = 0.0
    for k in range(joints.velocity.shape[0]):
        if joints.early[k]:
            j = joints.velocity[k]
            du[j] -= period * joints.damping[k] * body.v[j]
    to_scaled(body.L, body.start, body.size, du)
    for i in range(body.rank[0]):
        s = 0.0
        for j in range(du.shape[0]):
            s += body.Q[i, j] * du[j]
        for j in range(du.shape[0]):
            du[j] -= s * body.Q[i, j]


@kernel
def expect_friction(joints, body, period, external):
    """Take the friction of the step before as a guess, so that contacts are resolved among the forces that will act."""
    if not joints.nonsmooth:
        return
    assemble_joints(joints, body)
    for k in range(joints.velocity.shape[0]):
        most = period * joints.friction[k]
        joints.guess[k] = min(max(joints.p[k], -most), most) if joints.mobility[k] > 0.0 else 0.0
        push_joint(joints, k, joints.guess[k], external)


@kernel
def correct_guess(joints, external):
    """Take the impulses that `settle_joints` found as the guess; whether they changed by what matters."""
    largest = change = 0.0
    for k in range(joints.velocity.shape[0]):
        difference = joints.p[k] - joints.guess[k]
        largest = max(largest, abs(joints.p[k]) * math.sqrt(joints.mobility[k]))
        change = max(change, abs(difference) * math.sqrt(joints.mobility[k]))
        push_joint(joints, k, difference, external)
        joints.guess[k] = joints.p[k]
    return change > 1e-9 * largest


@kernel
def push_joint(joints, k, p, u):
    """Change u by an impulse along coordinate k."""
    if p != 0.0:
        rows = joints.rows
        tree = rows.tree[k, 1]
        first = rows.start[tree]
        for i in range(rows.size[tree]):
            u[first + i] += rows.W[k, 0, 1, i] * p


@kernel
def speed_of(joints, k, u):
    """Velocity of the coordinate of law k, of the scaled velocity u."""
    rows = joints.rows
    tree = rows.tree[k, 1]
    first = rows.start[tree]
    s = 0.0
    for i in range(rows.size[tree]):
        s += rows.W[k, 0, 1, i] * u[first + i]
    return s


@kernel
def _find_bounds(joints, v, period):
    """Fill the bounds for the velocities v without the laws; whether any law has something to do."""
    busy = False
    for k in range(joints.velocity.shape[0]):
        free = v[joints.velocity[k]]
        low, high = -joints.speed[k], joints.speed[k]
        friction = period * joints.friction[k]
        if joints.position[k] >= 0:
            q = joints.q[joints.position[k]]
            below, above = max(q - joints.lower[k], 0.0) / period, max(joints.upper[k] - q, 0.0) / period
            low, high = max(low, -below), min(high, above)
        joints.low[k], joints.high[k], joints.friction_impulse[k] = low, high, friction
        if friction > 0.0 or joints.p[k] != 0.0 or free < low or free > high:
            busy = True
    return busy


@kernel
def _find_rebounds(joints, before, v):
    """Replace bounds of `_find_bounds` by those of joints that return; whether there are some.

    A joint returns with e times the velocity `before` the step: what forces of the step do to a joint at its limit is
    no arrival. It does not go beyond its other limit in the step.
    """
    some = False
    for k in range(joints.velocity.shape[0]):
        free, first = v[joints.velocity[k]], before[joints.velocity[k]]
        if joints.position[k] < 0 or not free * first > 0.0:
            continue
        low, high = joints.low[k], joints.high[k]
        arrival = min(abs(free), abs(first))
        rebound = joints.restitution[k] * arrival
        if not (rebound > 0.0 and arrival > BOUNCE):
            continue
        if free < low and low > -joints.speed[k]:
            joints.low[k], joints.friction_impulse[k], some = min(rebound, high), 0.0, True
        elif free > high and high < joints.speed[k]:
            joints.high[k], joints.friction_impulse[k], some = max(-rebound, low), 0.0, True
    return some


@kernel
def find_laws(joints, body, period, u):
    """Find rows and bounds of the laws for scaled velocities u without them, of a step that `begin_joints` began.

    Returns:
        Mobility below which exact constraints hold a coordinate [1/kg].
    """
    assemble_joints(joints, body)
    to_velocity(body.L, body.start, body.size, u, joints.v)
    _find_bounds(joints, joints.v, period)
    largest = 0.0
    for k in range(joints.mobility.shape[0]):  # of `max()` Numba's own code is kept, which imports SciPy to be loaded
        largest = max(largest, joints.mobility[k])
    return _IMMOBILE * largest


@kernel
def work_of_laws(joints, body, k, u):
    """Work of law k at the mean velocity of a step after which the scaled velocity is u [J]."""
    return 0.5 * joints.p[k] * (body.v[joints.velocity[k]] + speed_of(joints, k, u))


@kernel
def _law(joints, k, free, a):
    """Velocity of a coordinate of mobility a whose velocity is `free` without its own impulse."""
    friction = joints.friction_impulse[k] * a
    v = free - friction if free > friction else free + friction if free < -friction else 0.0
    return min(max(v, joints.low[k]), joints.high[k])


@kernel
def _sweep(joints, u, backwards):
    """Solve each law in turn; returns the largest change, as a scaled velocity."""
    worst = 0.0
    m = joints.velocity.shape[0]
    for i in range(m):
        k = m - 1 - i if backwards else i
        a = joints.mobility[k]
        if not a > 0.0:
            continue
        v = speed_of(joints, k, u)
        change = (_law(joints, k, v - a * joints.p[k], a) - v) / a
        if change != 0.0:
            joints.p[k] += change
            push_joint(joints, k, change, u)
            worst = max(worst, abs(change) * math.sqrt(a))
    return worst


@kernel
def _objective(joints, u):
    """Objective that the impulses minimize: 1/2 |u|^2 and the conjugates of the laws."""
    total = 0.0
    for j in range(u.shape[0]):
        total += 0.5 * u[j] * u[j]
    least = 1e-12 * math.sqrt(2.0 * total)  # less than that is rounding, and an infinite bound would make much of it
    for k in range(joints.velocity.shape[0]):
        excess = abs(joints.p[k]) - joints.friction_impulse[k]
        if excess * math.sqrt(joints.mobility[k]) > least:
            if joints.p[k] > 0.0:
                total -= excess * joints.low[k]
            else:
                total += excess * joints.high[k]
    return total


@kernel
def _step_for_all(joints, u):
    """Solve for the impulses of all coordinates whose velocity is given now, at rest or at a bound.

    Kept only where it lowers the objective; u and p are as before where it does not.
    """
    m = joints.velocity.shape[0]
    n = 0
    largest = 0.0
    for k in range(m):
        largest = max(largest, joints.mobility[k])
    for k in range(m):
        a = joints.mobility[k]
        if not a > _IMMOBILE * largest:
            continue
        v = speed_of(joints, k, u)
        free = v - a * joints.p[k]
        aim = _law(joints, k, free, a)
        friction = joints.friction_impulse[k] * a
        if aim == joints.low[k] or aim == joints.high[k] or (friction > 0.0 and aim == 0.0):
            joints.active[n] = k
            joints.change[n] = aim - v
            n += 1
    if n < 2:
        return
    A, rows = joints.delassus, joints.rows
    for a in range(n):
        i = joints.active[a]
        for b in range(a + 1):
            k = joints.active[b]
            s = 0.0
            if rows.tree[i, 1] == rows.tree[k, 1]:
                for c in range(rows.size[rows.tree[i, 1]]):
                    s += rows.W[i, 0, 1, c] * rows.W[k, 0, 1, c]
            A[a, b] = s
        A[a, a] *= 1.0 + 1e-14
    if not cholesky(A, n, A):  # in place: entry (i, j) is read before it is written
        return
    cholesky_solve(A, n, joints.change)
    before = _objective(joints, u)
    for a in range(n):
        k = joints.active[a]
        joints.p[k] += joints.change[a]
        push_joint(joints, k, joints.change[a], u)
    if not _objective(joints, u) <= before:
        for a in range(n):
            k = joints.active[a]
            joints.p[k] -= joints.change[a]
            push_joint(joints, k, -joints.change[a], u)


@kernel
def settle_joints(joints, body, period, u):
    """Let friction and limits act on u, which is otherwise that after the step; fills p with all that they do.

    Joints do not return from their limits, see `bounce`.
    """
    if not joints.nonsmooth:
        return
    for k in range(joints.velocity.shape[0]):
        joints.p[k] = joints.guess[k]
    if _find_free(joints, body, period, u):
        _solve_laws(joints, body, u)


@kernel
def bounce(joints, body, period, u):
    """Let joints return from their limits, after `settle_joints`, with the whole restitution; whether some do.

    `stopping` and `stopped` are then p and u without that.
    """
    if not joints.bounces:
        return False
    _find_free(joints, body, period, u)
    if not _find_rebounds(joints, body.v, joints.v):
        return False
    for k in range(joints.p.shape[0]):
        joints.stopping[k] = joints.p[k]
    for j in range(u.shape[0]):
        joints.stopped[j] = u[j]
    _solve_laws(joints, body, u)
    return True


@kernel
def _find_free(joints, body, period, u):
    """Fill `u` and `v` of joints with the velocities without the impulses p, which are part of u, and the bounds.

    Returns as `_find_bounds`.
    """
    x = joints.u
    for j in range(x.shape[0]):
        x[j] = u[j]
    for k in range(joints.p.shape[0]):
        push_joint(joints, k, -joints.p[k], x)
    to_velocity(body.L, body.start, body.size, x, joints.v)
    return _find_bounds(joints, joints.v, period)


@kernel
def _solve_laws(joints, body, u):
    """Find the impulses p with which u obeys the bounds, from those on that it has; after `_find_free`."""
    assemble_joints(joints, body)
    scale = 0.0
    for j in range(u.shape[0]):
        scale += joints.u[j] * joints.u[j]
    scale = _CLOSE * math.sqrt(scale)
    for _ in range(_ROUNDS):
        change = 0.0
        for i in range(_SWEEPS):
            change = _sweep(joints, u, i % 2 == 1)
            if change <= scale:
                break
        if change <= scale:
            break
        _step_for_all(joints, u)


@kernel
def end_joints(joints, body, period, u, du):
    """Add what the laws do to `du`, and find the energy that they took, negative where they gave; u: after the step."""
    if not (joints.damped or joints.nonsmooth):
        return
    x, v, work = joints.u, joints.v, joints.work
    for j in range(x.shape[0]):
        x[j] = joints.force[j]
    to_scaled(body.L, body.start, body.size, x)
    for j in range(x.shape[0]):
        du[j] += x[j]
    to_velocity(body.L, body.start, body.size, u, v)
    for i in range(work.shape[0]):
        work[i] = 0.0
    for k in range(joints.velocity.shape[0]):
        j = joints.velocity[k]
        mean = 0.5 * (v[j] + body.v[j])
        p = joints.p[k]
        push_joint(joints, k, p, du)
        friction = min(max(p, -joints.friction_impulse[k]), joints.friction_impulse[k])
        work[BY_FRICTION] -= friction * mean
        work[BY_LIMITS] -= (p - friction) * mean
    if joints.damped:
        # with T b on the diagonal and -T b v_before among the forces, damping gives -T b v, early or not
        for k in range(joints.velocity.shape[0]):
            j = joints.velocity[k]
            force = joints.force[j]
            if joints.stiffness[k] > 0.0:
                force += period * joints.stiffness[k] * (joints.q[joints.position[k]] - joints.reference[k])
            impulse = force - period * joints.damping[k] * (v[j] - body.v[j])
            work[BY_DAMPING] -= impulse * 0.5 * (v[j] + body.v[j])
