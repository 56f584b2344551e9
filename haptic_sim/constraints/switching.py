"""Constraints that are switched on and off without a jump in force or energy.

A constraint is off, engaging, rigid or releasing. While it changes, it acts through its rows, less the part of them
that other, rigid constraints take (Q: orthonormal rows in scaled coordinates, s = Q u the rates along them):

 - **engaging**: a damper between the body and a carriage that drives to where the constraint is met,
       f = -d(t) (s - s_c),    s_c = -3 c / (time left), no faster than bound.
   d grows from 0, so that the force begins at 0, to infinity, so that in the end the rates are the carriage's. What is
   left, c, then falls like the cube of the time left: rate and acceleration end at 0, and the force is that of the
   rigid constraint when this takes over. That waits until c < CLOSE T^2: until the correction that it makes is less
   than CLOSE [m/s^2] of acceleration, that is until nothing keeps the body from the carriage's path.
 - **releasing**: the force at the end of the rigid constraint fades out, beside a damper that fades from infinity,
       f = x f_0 - d(t) s,    x from 1 to 0.
   A constraint that is switched off while it engages keeps its damper and carriage, which fade likewise.

d = (x / (1 - x)) / (DAMPING fade) times the mass that the constraint feels, x = 3 r^2 - 2 r^3 in the part r of `fade`
that has gone (is left). All of it is implicit in the rates at the end of the step, so that any d is stable: with
g = T x / ((1 - x) DAMPING fade) and h = g / (1 + g) the impulse is
    y = (1 - h) T x f_0 - h (s_free - s_c).

**Energy.** The work of the carriage, y . s_c, and of the fading force, (1 - h) y_0 . s, is booked as injected, what the
damper takes as damping. Both are bounded beforehand: x f_0 . s - d s^2 <= x^2 f_0^2 / (4 d) integrates to at most
    W = DAMPING fade^2 |f_0|^2 / 31
for the force of release (|f_0|^2 = f . M^-1 f of the force of constraint; 1/31: the integral of x (1 - x) / 4),
and the carriage moves by no more than it has to.

Within a step the rows turn, by gamma = dA/dt v a second. Carriages move by -T gamma / 2 more, so that c follows its
plan to third order in T, and forces meet those of the rigid constraint.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numba
import numpy as np

from haptic_sim.constraints.in_worlds import MOST_ROWS, WorldConstraint, along, find_span, multipliers, scaled_row

OFF, ENGAGING, RIGID, RELEASING = range(4)
DAMPING = 0.1  # of `fade`: time constant of the damper in the middle
CLOSE = 0.05  # [m/s^2, rad/s^2] that a constraint may jump by when it becomes rigid
_LAST = 0.02  # of `fade`: the least time left that the carriage reckons with
_SHORTEST = 3.0  # [periods] likewise
_LOST = 1e-8  # of a row that rigid constraints take: what is left of it is rounding


class Switches(NamedTuple):
    """What constraints do at present, for kernels (C: constraints, m: rows of all).

    Attributes:
        mode: OFF and so on, (C,) int64; begun: tick of its beginning (C,) int64; ticks: of `fade`, (C,) int64.
        fade: (C,) [s]; start: x at the beginning of a release (C,); fastest: bound of the carriage's rates (C,).
        force: multipliers at the beginning of a release (m,); carriage: its rates, at the beginning of one, (m,).
        Q: orthonormal rows of each constraint that is switching, from its first row on, (m, nv); rank: (C,) int64.
        target, impulse, drive: s_c, y and (1 - h) y_0 along these, (m,).
        multipliers: impulses of the rows of constraints that are switching [N s, N m s] (m,).
    """

    mode: np.ndarray
    begun: np.ndarray
    ticks: np.ndarray
    fade: np.ndarray
    start: np.ndarray
    fastest: np.ndarray
    force: np.ndarray
    carriage: np.ndarray
    Q: np.ndarray
    rank: np.ndarray
    target: np.ndarray
    impulse: np.ndarray
    drive: np.ndarray
    multipliers: np.ndarray

    @classmethod
    def allocate(cls, constraints: Sequence[WorldConstraint], m: int, nv: int) -> Switches:
        """All rigid."""
        count = len(constraints)
        return cls(
            mode=np.full(count, RIGID, np.int64),
            begun=np.zeros(count, np.int64),
            ticks=np.ones(count, np.int64),
            fade=np.array([constraint.fade for constraint in constraints], float),
            start=np.ones(count),
            fastest=np.zeros(count),
            force=np.zeros(m),
            carriage=np.zeros(m),
            Q=np.zeros((m, nv)),
            rank=np.zeros(count, np.int64),
            target=np.zeros(m),
            impulse=np.zeros(m),
            drive=np.zeros(m),
            multipliers=np.zeros(m),
        )


class Schedule:
    """When the constraints of a world hold, in ticks of a period [s]."""

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


@numba.njit(cache=True, nogil=True)
def strength(part):
    """x: 0 to 1 as `part` is, without a corner at its ends."""
    r = min(max(part, 0.0), 1.0)
    return r * r * (3.0 - 2.0 * r)


@numba.njit(cache=True, nogil=True)
def change(switches, k, wanted, tick, period, rows, v, held):
    """Go on to the next mode of constraint k if it is time; `held`: multipliers of the last regular step (m,)."""
    mode, first = switches.mode, rows.first[k]
    count = 0
    while first + count < rows.owner.shape[0] and rows.owner[first + count] == k:
        count += 1
    before, gone = mode[k], tick - switches.begun[k]
    if before == OFF and wanted:
        mode[k] = ENGAGING
        size = 0.0
        for i in range(first, first + count):
            rate = 0.0
            for j in range(v.shape[0]):
                rate += rows.A[i, j] * v[j]
            size += abs(rows.c[i]) + switches.fade[k] * abs(rate)
        switches.fastest[k] = 3.0 * size / switches.fade[k]
    elif before == ENGAGING and not wanted:
        mode[k] = RELEASING
        switches.start[k] = strength(gone / switches.ticks[k])
        find_carriage(switches, k, count, gone, period, rows)
        for i in range(first, first + count):
            switches.force[i] = 0.0
    elif before == ENGAGING and gone >= switches.ticks[k] and _met(rows, first, count, v, period):
        mode[k] = RIGID
    elif before == RIGID and not wanted:
        mode[k] = RELEASING
        switches.start[k] = 1.0
        for i in range(first, first + count):
            switches.force[i] = held[i]
            switches.carriage[i] = 0.0
    elif before == RELEASING and gone >= switches.ticks[k]:
        mode[k] = OFF
    if mode[k] != before:
        switches.begun[k] = tick


@numba.njit(cache=True, nogil=True)
def _met(rows, first, count, v, period):
    """Whether becoming rigid changes the body's acceleration by less than CLOSE."""
    for i in range(first, first + count):
        rate = 0.0
        for j in range(v.shape[0]):
            rate += rows.A[i, j] * v[j]
        if abs(rows.c[i]) > CLOSE * period * period:
            return False
        if not abs(rate) <= period * (CLOSE + abs(rows.gamma[i])):
            return False
    return True


@numba.njit(cache=True, nogil=True)
def find_carriage(switches, k, count, gone, period, rows):
    """Fill in the rates of the carriage of an engaging constraint."""
    first, fade = rows.first[k], switches.fade[k]
    left = max(fade - gone * period, _LAST * fade, _SHORTEST * period)
    fastest = 0.0
    for i in range(first, first + count):
        switches.carriage[i] = -3.0 * rows.c[i] / left
        fastest = max(fastest, abs(switches.carriage[i]))
    if fastest > switches.fastest[k]:
        for i in range(first, first + count):
            switches.carriage[i] *= switches.fastest[k] / fastest


@numba.njit(cache=True, nogil=True)
def act(switches, k, tick, period, rows, turned, L, u, du, rigid, span):
    """Add what constraint k does in a step to `du`, if it is switching.

    Args:
        turned: velocities along the rigid constraints' Q that undo their gamma, for a second, (rank,).
        u, du: before the step, and what other forces do to it.
        rigid, span: the span of the rigid constraints; work space for that of these rows.
    """
    first, n = rows.first[k], u.shape[0]
    count = 0
    while first + count < rows.owner.shape[0] and rows.owner[first + count] == k:
        switches.multipliers[first + count] = 0.0
        count += 1
    switches.rank[k] = 0
    mode = switches.mode[k]
    if mode != ENGAGING and mode != RELEASING:
        return
    gone = tick - switches.begun[k]
    part = gone / switches.ticks[k]
    if mode == ENGAGING:
        x = strength(part)
        find_carriage(switches, k, count, gone, period, rows)
        keep = 1.0
    else:
        x = switches.start[k] * strength(1.0 - part)
        keep = strength(1.0 - part)
    target = span.rest  # free until `find_span`
    for i in range(count):
        W = span.W[i]
        scaled_row(rows.A[first + i], L, W)
        before = after = 0.0
        gamma = rows.gamma[first + i]
        for j in range(n):
            before += W[j] * W[j]
        for r in range(rigid.rank[0]):
            s = 0.0
            for j in range(n):
                s += rigid.Q[r, j] * W[j]
            gamma += s * turned[r]
            for j in range(n):
                W[j] -= s * rigid.Q[r, j]
        for j in range(n):
            after += W[j] * W[j]
        if not after > _LOST * _LOST * before:
            for j in range(n):
                W[j] = 0.0
        switches.target[first + i] = keep * switches.carriage[first + i] - 0.5 * period * gamma
    for i in range(count, MOST_ROWS):
        for j in range(n):
            span.W[i, j] = 0.0
    find_span(span, MOST_ROWS)
    rank = span.rank[0]
    for i in range(MOST_ROWS):
        target[i] = switches.target[first + i] if i < count else 0.0
    along(span, target, span.z)
    for r in range(rank):
        switches.target[first + r] = span.z[r]
    h = 1.0
    if x < 1.0:
        g = period * x / ((1.0 - x) * DAMPING * switches.fade[k])
        h = g / (1.0 + g)
    for r in range(rank):
        force = free = 0.0
        for i in range(count):
            force += span.T[i, r] * span.scale[i] * switches.force[first + i]
        for j in range(n):
            free += span.Q[r, j] * (u[j] + du[j])
            switches.Q[first + r, j] = span.Q[r, j]
        drive = (1.0 - h) * period * x * force if mode == RELEASING else 0.0
        y = drive - h * (free - switches.target[first + r])
        switches.drive[first + r], switches.impulse[first + r] = drive, y
        for j in range(n):
            du[j] += span.Q[r, j] * y
        span.z[r] = y
    switches.rank[k] = rank
    multipliers(span, MOST_ROWS, span.z, span.out)
    for i in range(count):
        switches.multipliers[first + i] = span.out[i]


@numba.njit(cache=True, nogil=True)
def work(switches, k, first, before, after):
    """What constraint k injected and what its damper took in a step from `before` to `after` (nv,), in J."""
    injected = damped = 0.0
    for r in range(switches.rank[k]):
        s = 0.0
        for j in range(before.shape[0]):
            s += 0.5 * switches.Q[first + r, j] * (before[j] + after[j])
        drive, damper = switches.drive[first + r], switches.impulse[first + r] - switches.drive[first + r]
        injected += drive * s + damper * switches.target[first + r]
        damped -= damper * (s - switches.target[first + r])
    return injected, damped
