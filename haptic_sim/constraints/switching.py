"""Constraints that are switched on and off without a jump of the force and, where satisfied, without adding energy.

A constraint is off, engaging, rigid or releasing. During a transition the body has an additional virtual mass along the
rows of the constraint. It is mu = w / (1 - w) times the effective mass along these rows (s: their rates, in coordinates
in which the effective mass is 1). The virtual mass has no weight, and is at rest where the constraint is satisfied.
With w = 0 the body is free, with w = 1 the constraint is rigid.

 - **engaging**: the virtual mass grows, and the added mass has to be accelerated from a prescribed rate s_c,
       (1 + mu) ds/dt = a - dmu/dt (s - s_c),   s_c = -2 c / (time left),
   with the acceleration a of the body by all other forces. With 1 - w = W(r) = r^6 (7 - 6 r), where r is the remaining
   part of `fade`, the force on the body is
       y = -w a - d (s + 2 c / (r fade)),   d = (dmu/dt) / (1 + mu) = 42 (1 - r) / (r fade (7 - 6 r)),
   the sum of the rigid constraint's force times w, a damper and a spring. It is 0 at the start (w = d = 0). At the end
   d -> 6 / (time left), and c falls as its third and fourth powers do, the solutions of
       d2c/dt2 = -(6 / t) (dc/dt + 2 c / t),   t: time left;
   so c, s and ds/dt end at 0 and y at -a: at the force of the rigid constraint, for any load.
 - **releasing**: the virtual mass decreases at the body's own velocity: (1 + mu) ds/dt = a, y = -w a. The force fades
   from that of the rigid constraint to 0. If the constraint was not rigid yet, the forces of damper and spring fade
   too.

**Continuity.** y is a continuous function of time if a, the load, is; so is the acceleration of the body.

**Energy.** With the energy mu s^2 / 2 of the virtual mass the power of the force on the body is
    y s = -d(mu s^2 / 2)/dt - |dmu/dt| s^2 / 2 + dmu/dt s s_c:
mass that is added at rest or removed only dissipates energy. So a constraint that is satisfied when it is switched on
(s_c = 0), a nonholonomic one, and every one that is switched off add no energy to the body at any time, for any load:
the sum of y s is never above 0. Where c != 0 the body has to be moved, which takes energy. This energy is in the
balance: 1.85 c^2 / fade^2 times the mass for a body at rest without load, and the work of moving c against a load.

**Contacts and the hand** act on the body with its virtual mass: each of their rows loses the part 1 - sqrt(1 - w) of
its component along Q, in coordinates u' = s / sqrt(1 - w), of which the square is (1 + mu) s^2. So they are resolved as
without the constraint at the start, as under the rigid constraint at the end, and continuously between. Of constraints
that switch at the same time each adds its virtual mass to the body itself,
(1 + sum mu_k Q_k^T Q_k) du/dt = a - sum dmu_k/dt ...:
in principal axes the mass of one is mu_k times the mobility that those before leave (`stage`). So their order has no
influence, nearly rigid constraints dominate, and a constraint that others imply carries no load. The force on the body
is continuous; only its distribution over redundant rows is not determined.

**Obstacles.** Without an obstacle, c falls at 3 to 4 c / (time left). Where a contact opposes the prescribed rate, or
rigid constraints remove a row, and c does not fall at a third of that, the clock of the transition slows down and runs
back (`_pace`), to a remaining time of 0.6 `fade`, where a blocked body is pushed with 172 c / fade^2 times its mass.
When the obstacle is gone the clock runs forward again, and the constraint becomes rigid later. The clock does not enter
the force, so this causes no jump. Mass that is removed, or grows more slowly than damper and spring assume, only
dissipates more energy.

**Discrete time.** Over a step from w to w+ with impulses I: s+ = (1 - h) s + h s_c + (1 - w+) I with
1 - h = (1 - w+) / (1 - w), which is the growing mass's balance of momentum; released, h = 0. With n steps of length T
left, r^6 is n (n + 1)^2 (n + 2)^2 (n + 3) and s_c = -2 c / ((n + 1) T): then n (n + 1) (n + 2), and that times n + 3,
are solutions for c at the end, which reach 0 exactly while y tends linearly to the rigid constraint's force. The last
step is already that of the rigid constraint. s is the rate in the middle of steps: rows change by gamma = dA/dt v per
second, and by half of the change of a step in half a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from haptic_sim.constraints.in_worlds import MOST_ROWS, WorldConstraint, along, multipliers, scaled_row, span_rows
from haptic_sim.kernels import kernel
from haptic_sim.linalg import symmetric_eigen
from haptic_sim.records import array, record, shared

OFF, ENGAGING, RIGID, RELEASING = range(4)
CLOSE = 0.05  # [m/s^2, rad/s^2] acceleration that a rigid constraint may begin with
_NEAR = 0.05  # of the largest residual, likewise, where `fade` is few steps long
_WAITS, _RUNS = 0.45, 0.75  # of `fade`: with less left the clock waits for progress, with more not at all
_LIGHTEST = 1e-7  # sqrt(1 - w) in the rows of contacts and of the hand
_LOST = 1e-8  # of a direction that rigid constraints take: what is left of it is rounding


@record
class Switches(NamedTuple):
    """State of the switched constraints, for kernels; a stage is a row of `BodyArrays.Q` beyond the rigid ones."""

    mode: np.ndarray = array("OFF, ENGAGING, RIGID or RELEASING", "constraints", dtype=np.int64, fill=RIGID)
    begun: np.ndarray = array("tick at which the mode began", "constraints", dtype=np.int64)
    ticks: np.ndarray = shared("`fade` in ticks", "constraints", dtype=np.int64)
    fade: np.ndarray = shared("duration of a transition", "constraints", unit="s")
    left: np.ndarray = array("time left of an engagement", "constraints", unit="s")
    left_after: np.ndarray = array("time left of an engagement after the step", "constraints", unit="s")
    released_w: np.ndarray = array("w at the beginning of a release", "constraints", fill=1)
    released_ratio: np.ndarray = array("h / (1 - h) of the engagement that a release ended", "constraints")
    largest: np.ndarray = array("largest residual since the engagement began", "constraints", unit="m, rad")
    opposed: np.ndarray = array("whether contacts opposed the prescribed rate", "constraints", dtype=np.bool_)
    implied: np.ndarray = array("whether rigid constraints keep a row from being met", "constraints", dtype=np.bool_)
    projected: np.ndarray = array("whether a projection made the rates 0 at this tick", "constraints", dtype=np.bool_)
    first: np.ndarray = array("first stage of each constraint", "constraints", dtype=np.int64)
    rank: np.ndarray = array("number of stages of each constraint", "constraints", dtype=np.int64)
    w: np.ndarray = array("w of each stage at the end of the step", "rows")
    h: np.ndarray = array("h of each stage", "rows")
    root: np.ndarray = array("sqrt(1 - w) of each stage", "rows", fill=1)
    prescribed: np.ndarray = array("prescribed rate s_c of each stage", "rows")
    constant: np.ndarray = array("what the rate after the step has besides", "rows")
    impulse: np.ndarray = array("impulse of each stage", "rows")
    rate: np.ndarray = array("rate s before the step, then its mean in it", "rows")
    rows: np.ndarray = array("scaled rows of constraints that are switching", "rows", "nv")
    shares: np.ndarray = array("multipliers of a row for unit impulses of its stages", "rows", MOST_ROWS)
    principal: np.ndarray = array("principal axes of the stages of a constraint, one a row", MOST_ROWS, MOST_ROWS)
    remaining: np.ndarray = array("part of the mobility along them that the stages before leave", MOST_ROWS)
    multipliers: np.ndarray = array("impulses of the rows that are switching", "rows", unit="N s, N m s")
    before: np.ndarray = array("u, while `BodyArrays.u` is in the stages' coordinates", "nv")
    change: np.ndarray = array("what the impulse of a constraint does to u", "nv")


class Schedule:
    """Intervals of time in which the constraints of a world are enforced, in ticks of a period [s]."""

    def __init__(self, constraints: Sequence[WorldConstraint], period: float):
        self._intervals: list[list[tuple[float, float]] | None] = [
            None
            if constraint.active is None
            else [(round(on / period), np.inf if off is None else round(off / period)) for on, off in constraint.active]
            for constraint in constraints
        ]
        self.ticks = np.array([max(1, round(constraint.fade / period)) for constraint in constraints], np.int64)
        self.switches = [k for k, intervals in enumerate(self._intervals) if intervals is not None]

    def holds(self, k: int, tick: int) -> bool:
        """Whether constraint k shall hold at a tick."""
        intervals = self._intervals[k]
        return intervals is None or any(on <= tick < off for on, off in intervals)


@kernel
def lightness(left, fade, period):
    """1 - w of an engaging constraint with this time left, 1 to 0: W of steps of `period` [s], or of 0."""
    left = min(max(left, 0.0), fade)
    return _sixth(left, period) / _sixth(fade, period) * (7.0 - 6.0 * left / fade)


@kernel
def _sixth(t, period):
    return t * (t + period) ** 2 * (t + 2.0 * period) ** 2 * (t + 3.0 * period)


@kernel
def fading(part):
    """1 to 0 as `part` is, without a corner at its ends."""
    r = min(max(part, 0.0), 1.0)
    return r * r * (3.0 - 2.0 * r)


@kernel
def count_rows(rows, k):
    """Number of rows of constraint k."""
    first = rows.first[k]
    end = rows.first[k + 1] if k + 1 < rows.first.shape[0] else rows.owner.shape[0]
    return end - first


@kernel
def _residual(rows, k):
    """The largest of constraint k [m, rad]."""
    largest = 0.0
    for i in range(rows.first[k], rows.first[k] + count_rows(rows, k)):
        largest = max(largest, abs(rows.c[i]))
    return largest


@kernel
def _pace(switches, rows, k, v, period):
    """Rate of the clock of engaging constraint k, -1 to 1."""
    if not (switches.opposed[k] or switches.implied[k]):
        return 1.0
    left, small = switches.left[k], (CLOSE * period * period) ** 2
    square, falls = small, small
    for i in range(rows.first[k], rows.first[k] + count_rows(rows, k)):
        rate = 0.0
        for j in range(v.shape[0]):
            rate += rows.A[i, j] * v[j]
        square += rows.c[i] * rows.c[i]
        falls -= rows.c[i] * rate * left
    progress = min(max(falls / square, 0.0), 1.0)
    waits = fading((_RUNS - left / switches.fade[k]) / (_RUNS - _WAITS))
    return 1.0 - 2.0 * waits * (1.0 - progress)


@kernel
def advance(switches):
    """Let the clocks of engaging constraints go on, at the end of a step."""
    for k in range(switches.mode.shape[0]):
        switches.left[k] = switches.left_after[k]
        switches.projected[k] = False


@kernel
def change(switches, k, wanted, tick, period, rows):
    """Go on to the next mode of constraint k if it is time."""
    mode, left = switches.mode, switches.left
    before, gone = mode[k], tick - switches.begun[k]
    if before == OFF and wanted:
        mode[k] = ENGAGING
        left[k] = switches.fade[k]
        switches.largest[k], switches.opposed[k], switches.implied[k] = 0.0, False, False
    elif before == ENGAGING and not wanted:
        mode[k] = RELEASING
        switches.released_w[k] = 1.0 - lightness(left[k], switches.fade[k], period)
        h = _hold(switches, k, period)
        switches.released_ratio[k] = h / max(1.0 - h, 1e-12)
    elif before == ENGAGING and left[k] <= period * (1.0 + 1e-6):
        if _residual(rows, k) <= max(CLOSE * period * period, _NEAR * switches.largest[k]):
            mode[k] = RIGID
    elif before == RIGID and not wanted:
        mode[k] = RELEASING
        switches.released_w[k], switches.released_ratio[k] = 1.0, 0.0
        switches.projected[k] = True
    elif before == RELEASING and gone >= switches.ticks[k]:
        mode[k] = OFF
    if mode[k] != before:
        switches.begun[k] = tick


@kernel
def _hold(switches, k, period):
    """h of an engaging constraint."""
    left, fade = switches.left[k], switches.fade[k]
    if left <= period * (1.0 + 1e-6):
        return 1.0
    return 1.0 - lightness(left - period, fade, period) / lightness(left, fade, period)


@kernel
def _law(switches, k, tick, period, rows, v):
    """w and h of the next step of constraint k, which is switching, and the 1 - w that h ends at; sets its clock."""
    fade = switches.fade[k]
    if switches.mode[k] == RELEASING:
        gone = tick - switches.begun[k]
        g = switches.released_ratio[k] * fading(1.0 - gone / switches.ticks[k])
        w = switches.released_w[k] * fading(1.0 - (gone + 1) / switches.ticks[k])
        return w, g / (1.0 + g), 1.0 - w
    switches.largest[k] = max(switches.largest[k], _residual(rows, k))
    pace = _pace(switches, rows, k, v, period)
    after = switches.left[k] - pace * period
    if pace == 1.0:  # the end is met exactly in whole steps
        after = period * np.ceil(after / period - 1e-6)
    switches.left_after[k] = min(max(after, 0.0), fade)
    w, h = 1.0 - lightness(switches.left_after[k], fade, period), _hold(switches, k, period)
    return w, h, (1.0 - h) * lightness(switches.left[k], fade, period)


@kernel
def _out_of(x, q, part):
    """Take a part of what is along q out of x; returns what was."""
    s = 0.0
    for j in range(x.shape[0]):
        s += q[j] * x[j]
    for j in range(x.shape[0]):
        x[j] -= part * s * q[j]
    return s


@kernel
def stage(switches, k, tick, period, rows, body, undone, gyroscopic, span):
    """Append the stages of constraint k to Q and `part` if it is switching, and find its law for the next step.

    Args:
        body: `BodyArrays`.
        undone: scaled accelerations along the rigid constraints' Q that undo their gamma, (rank,).
        gyroscopic: what gyroscopic terms of free bodies do to u in a second, within the step as gamma does, (nv,).
        span: work space for MOST_ROWS rows.
    """
    Q, part, ranks = body.Q, body.part, body.rank
    first, count, n, rigid, end = rows.first[k], count_rows(rows, k), Q.shape[1], ranks[0], ranks[1]
    switches.first[k], switches.rank[k] = end, 0
    mode = switches.mode[k]
    if mode != ENGAGING and mode != RELEASING:
        return
    w, h, light = _law(switches, k, tick, period, rows, body.v)
    lag = 0.0 if switches.projected[k] else 0.5 * period
    soon = 2.0 / (max(switches.left[k], period) + period)
    W, target, z, V, share = span.W, span.per_row, span.z, switches.principal, switches.remaining
    for i in range(MOST_ROWS):
        target[i] = 0.0
        for j in range(n):
            W[i, j] = 0.0
    for i in range(count):
        row = W[i]
        scaled_row(rows.A[first + i], body, row)
        gamma = rows.gamma[first + i]
        for j in range(n):
            switches.rows[first + i, j] = row[j]
        for r in range(rigid):
            gamma += _out_of(row, Q[r], 1.0) * undone[r]
        for j in range(n):
            gamma += row[j] * gyroscopic[j]
            row[j] = switches.rows[first + i, j]
        target[i] = gamma
    span_rows(span, MOST_ROWS)
    rank = span.rank[0]
    skip = _find_directions(span, rank, Q, part, end, V, share)
    switches.implied[k] = skip > 0 and _residual(rows, k) > CLOSE * period * period
    end -= skip  # directions that rigid constraints take come first
    along(span, target, z)
    for d in range(skip, rank):
        gamma = 0.0
        for i in range(rank):
            gamma += V[d, i] * z[i]
        of = share[d]
        root = np.sqrt(of)
        light_d = (1.0 - w) / (1.0 - w + w * of)
        h_d = of * h / (light + (1.0 - light) * of)
        switches.w[end + d], switches.h[end + d] = 1.0 - light_d, h_d
        switches.constant[end + d] = (light_d * period - (1.0 - h_d) * lag - 0.5 * period) * gamma / root
        switches.root[end + d] = max(np.sqrt(light_d), _LIGHTEST)
        part[end + d] = 1.0 - switches.root[end + d]
        for j in range(n):
            q = 0.0
            for i in range(rank):
                q += V[d, i] * span.Q[i, j]
            Q[end + d, j] = q / root
    for i in range(count):
        target[i] = -soon * rows.c[first + i]
    along(span, target, z)
    for d in range(skip, rank):
        rate = 0.0
        for i in range(rank):
            rate += V[d, i] * z[i]
        switches.prescribed[end + d] = rate / np.sqrt(share[d])
    for d in range(skip, rank):
        for i in range(rank):
            z[i] = V[d, i] / np.sqrt(share[d])
        multipliers(span, MOST_ROWS, z, span.per_row)
        for i in range(count):
            switches.shares[first + i, d - skip] = span.per_row[i]
    switches.rank[k] = rank - skip
    ranks[1] = end + rank


@kernel
def _find_directions(span, rank, Q, part, end, V, share):
    """Bring the orthonormal rows of `span` into the coordinates of the stages before, and find their principal axes.

    The rows of V (rank, rank) combine them to orthogonal ones, of the squares `share` (rank,): how much of the body's
    mobility along the constraint those before leave. Returns how many, the first ones, are of rigid constraints.
    """
    gram, n = span.gram, span.Q.shape[1]
    for i in range(rank):
        for r in range(end):
            _out_of(span.Q[i], Q[r], part[r])
    for i in range(rank):
        for j in range(i + 1):
            s = 0.0
            for m in range(n):
                s += span.Q[i, m] * span.Q[j, m]
            gram[i, j] = gram[j, i] = s
    symmetric_eigen(gram, rank, share, V)
    for d in range(rank):
        s = 0.0
        for m in range(n):
            q = 0.0
            for i in range(rank):
                q += V[d, i] * span.Q[i, m]
            s += q * q
        share[d] = s  # small ones more exactly than by their matrix
    skip = 0
    while skip < rank and not share[skip] > _LOST * _LOST:
        skip += 1
    return skip


@kernel
def load(switches, body, before, ahead):
    """Let the stages act on `ahead`, what u would become from `before`; both are in their coordinates then."""
    n, Q, ranks = before.shape[0], body.Q, body.rank
    for r in range(ranks[0], ranks[1]):
        s = f = 0.0
        for j in range(n):
            s += Q[r, j] * before[j]
            f += Q[r, j] * ahead[j]
        h = switches.h[r]
        goal = (1.0 - h) * s + h * switches.prescribed[r] + (1.0 - switches.w[r]) * (f - s) + switches.constant[r]
        switches.impulse[r], switches.rate[r] = goal - f, s
        root = switches.root[r]
        for j in range(n):
            ahead[j] += (goal / root - f) * Q[r, j]
            before[j] += (s / root - s) * Q[r, j]


@kernel
def unload(body, u):
    """Bring u back from the stages' coordinates."""
    Q, part, ranks = body.Q, body.part, body.rank
    for r in range(ranks[1] - 1, ranks[0] - 1, -1):
        _out_of(u, Q[r], part[r])


@kernel
def conclude(switches, rows, body, taken, u):
    """Bring u after the step back; returns what constraints that switch gave to the bodies, and took, in J.

    Args:
        taken: impulses of contacts along Q, (m,); those of rigid constraints get what they have to bear besides.
    """
    Q, part, ranks = body.Q, body.part, body.rank
    n, v, rate = u.shape[0], switches.change, switches.rate
    for r in range(ranks[1] - 1, ranks[0] - 1, -1):
        after = switches.root[r] * _out_of(u, Q[r], part[r])
        rate[r] = 0.5 * (rate[r] + after)
        switches.impulse[r] -= (1.0 - switches.root[r] ** 2) * taken[r]
    for i in range(switches.multipliers.shape[0]):
        switches.multipliers[i] = 0.0
    given = lost = 0.0
    for k in range(switches.mode.shape[0] - 1, -1, -1):
        first, rank = switches.first[k], switches.rank[k]
        if rank == 0:
            continue
        power = against = 0.0
        for r in range(first, first + rank):
            power += switches.impulse[r] * rate[r]
            against -= taken[r] * switches.prescribed[r]
        switches.opposed[k] = against > 0.0
        given, lost = given + max(power, 0.0), lost + max(-power, 0.0)
        for j in range(n):
            v[j] = 0.0
        for i in range(rows.first[k], rows.first[k] + count_rows(rows, k)):
            s = 0.0
            for r in range(rank):
                s += switches.shares[i, r] * switches.impulse[first + r]
            switches.multipliers[i] = s
            for j in range(n):
                v[j] += s * switches.rows[i, j]
        for r in range(first):  # what those before it do about its impulse
            s = _out_of(v, Q[r], part[r])
            if r < ranks[0]:
                taken[r] += s
            else:
                switches.impulse[r] -= (1.0 - switches.root[r] ** 2) * s
    return given, lost
