"""Rigid contacts: fixed-step time-stepping with complementarity, after collisions where contacts bounce.

A step of length T has two parts. First, where a contact that is closed, or closes within the step, approaches faster
than `contact.bounce`, impacts are resolved: all at once with friction (`constraint`, where there is restitution), or
one contact at a time after Mirtich (`hybrid`; IGMS figure 6: impulses while it bounces, the complementarity problem
once it is steady). Then all contacts obey, with the velocity c after the step,
    0 <= p_n  complementary to  c_n + s / T >= 0   (s: separation, so that a gap may close but not be crossed)
and Coulomb's law (Stewart and Trinkle 1996; `stewart_trinkle` on facets, `gauss_seidel` on the round cone). A contact
has the static coefficient of friction until it slides, then the kinetic one until it sticks.

**Passive.** With u after the impacts, du of the other forces and u' after the step, the complementarity gives
    1/2 |u'|^2 - du . u' - 1/2 |u|^2 = p . c - 1/2 |u' - u|^2 <= 0:
a step adds energy only by the work of these forces (at the new velocity, by which the step moves). Energy that is added
within the tolerance of a solver is removed by reducing the impulses.

**Drift.** To first order in a step, s >= 0 is kept; where bodies turn, there is an error of second order. Bodies that
overlap then may separate by a part of the depth in each step, but only in steps in which the sum above stays negative:
drift is corrected with energy that the step dissipates, never by adding energy. At rest nothing drifts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np

from haptic_sim.contact.friction import NONE
from haptic_sim.contact.impacts import Impacts, copy_contact
from haptic_sim.contact.response import (
    CONTACTS,
    NOW,
    RELEASED,
    REMEMBERED,
    SLIDING,
    STATE,
    STORED,
    UNRESOLVED,
    ContactParameters,
    ContactResponse,
    Method,
    add_up,
    begin_step,
    end_step,
    set_up,
)
from haptic_sim.contact.solvers.frictional_impulses import STEPS, resolve_frictional_impacts
from haptic_sim.contact.solvers.gauss_seidel import MAX_SWEEPS, GaussSeidelMemory, gauss_seidel
from haptic_sim.contact.solvers.mirtich import MirtichWorkspace, resolve_one_at_a_time
from haptic_sim.contact.solvers.outcomes import NOT_CONVERGED, SOLVED
from haptic_sim.contact.solvers.stewart_trinkle import ContactProblem, stewart_trinkle
from haptic_sim.dynamics.joints import after_impact, correct_guess, expect_friction, settle_joints
from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.dynamics.scaled import contact_velocity
from haptic_sim.messages import COLLIDING, FREE, RESTING

RECOVERY = 0.2  # part of an overlap to recover in a step
SLOP = 1e-5  # [m] overlap that is left alone
FASTEST_RECOVERY = 0.1  # [m/s]
_TOUCHING = 1e-6  # [m] separation of a contact through which an impact is handed on
_ROUNDS = 8  # of impacts in a step: one may drive other contacts together that had been at rest or apart
_TURNS = 10  # in which contacts and the laws of joints are solved one after the other
_SLIDES = 1e-7  # [m/s] slip of a contact that slides


class Remembered(NamedTuple):
    """What a step leaves to the next, for kernels (C: capacity).

    Attributes:
        id: identities of its contacts, (C,) int64.
        world: their impulses in world axes [N s], (C, 3).
        slides: whether they slide, (C,) bool.
    """

    id: np.ndarray
    world: np.ndarray
    slides: np.ndarray

    @classmethod
    def allocate(cls, capacity: int) -> Remembered:
        return cls(np.zeros(capacity, np.int64), np.zeros((capacity, 3)), np.zeros(capacity, np.bool_))


class RigidArrays(NamedTuple):
    """Memory of these methods, for kernels (C: capacity).

    Attributes:
        problem, gauss_seidel: of the solvers.
        impacts: contacts that take part in an impact, and their impulses.
        chosen, e, mu: their numbers, restitution and friction; `mu` is then that of all contacts in the complementarity
            problem.
        A, vectors: of a `MirtichWorkspace`.
        bias, start: bounds of the normal velocities [m/s], (C,), and impulses to start from, (C, 3).
        p: impulses of the problem, (C, 3).
        u, after: scaled velocity after impacts, and after the step, (nv,).
        steps: of this step and of the one before, in turn.
    """

    problem: ContactProblem
    gauss_seidel: GaussSeidelMemory
    impacts: Impacts
    chosen: np.ndarray
    e: np.ndarray
    mu: np.ndarray
    bias: np.ndarray
    start: np.ndarray
    p: np.ndarray
    u: np.ndarray
    after: np.ndarray
    A: np.ndarray
    vectors: np.ndarray
    steps: tuple[Remembered, Remembered]


class RigidContact(ContactResponse):
    """The methods `constraint` and `hybrid`."""

    def __init__(self, body: Multibody, parameters: ContactParameters, capacity: int, method: Method):
        super().__init__(body, parameters, capacity)
        hybrid = method == "hybrid"
        self._respond, self._step = (_respond_one_by_one, _step_one_by_one) if hybrid else (_respond, _step)
        planar = not np.any(body.J_W[2:5])  # nothing moves along z or turns about x or y
        one = MirtichWorkspace()
        self._arrays = RigidArrays(
            problem=ContactProblem.allocate(max(parameters.most_lemke, 1), 2 if planar else parameters.facets),
            gauss_seidel=GaussSeidelMemory.allocate(self.scaled),
            impacts=Impacts.allocate(capacity, body),
            chosen=np.zeros(capacity, np.int64),
            e=np.zeros(capacity),
            mu=np.zeros(capacity),
            bias=np.zeros(capacity),
            start=np.zeros((capacity, 3)),
            p=np.zeros((capacity, 3)),
            u=np.zeros(body.nv),
            after=np.zeros(body.nv),
            A=one.A,
            vectors=one.vectors,
            steps=(Remembered.allocate(capacity), Remembered.allocate(capacity)),
        )

    @property
    def margin(self) -> float:
        """See ContactResponse."""
        return self.parameters.margin

    def _memory(self) -> RigidArrays:
        return self._arrays


@numba.njit(cache=True, nogil=True)
def _step(packed, count, wrench, potential, period):
    """See ContactResponse."""
    begin_step(packed, wrench, period)
    _respond(packed, count, period)
    end_step(packed, count, wrench, potential, period)


@numba.njit(cache=True, nogil=True)
def _step_one_by_one(packed, count, wrench, potential, period):
    """See ContactResponse."""
    begin_step(packed, wrench, period)
    _respond_one_by_one(packed, count, period)
    end_step(packed, count, wrench, potential, period)


@numba.njit(cache=True, nogil=True)
def _respond(packed, count, period):
    """See ContactResponse."""
    a = packed.arrays
    n = _begin(packed, count, period, False)
    collide = n > 0
    for _ in range(_ROUNDS):
        if n == 0:
            break
        m = a.method
        f = m.impacts
        code = resolve_frictional_impacts(n, f.some, m.u, m.e, m.mu, STEPS, f.sweeps, f.work, f.p, f.state)
        a.counts[UNRESOLVED] += code == NOT_CONVERGED
        n = _go_on(packed, count, period, n, False)
    _end(packed, count, period, collide)


@numba.njit(cache=True, nogil=True)
def _respond_one_by_one(packed, count, period):
    """See ContactResponse."""
    a = packed.arrays
    n = _begin(packed, count, period, True)
    collide = n > 0
    for _ in range(_ROUNDS):
        if n == 0:
            break
        m = a.method
        f = m.impacts
        resolve_one_at_a_time(n, f.some, m.u, m.e, m.mu, a.material.bounce, 20 * n, m.A, m.vectors, f.p)
        n = _go_on(packed, count, period, n, True)
    _end(packed, count, period, collide)


@numba.njit(cache=True, nogil=True)
def _begin(packed, count, period, always):
    """Set up the contacts; then as `_bounce`."""
    a = packed.arrays
    set_up(packed, count, period)
    u, p = a.method.u, a.impulses.p
    for j in range(u.shape[0]):
        u[j] = a.body.u[j]
    for i in range(count):
        p[i, 0] = p[i, 1] = p[i, 2] = 0.0
    return _bounce(packed, count, period, always)


@numba.njit(cache=True, nogil=True)
def _go_on(packed, count, period, n, always):
    """Take over the impulses of the first n contacts of `impacts`; then as `_bounce`."""
    a = packed.arrays
    m = a.method
    for k in range(n):
        for d in range(3):
            a.impulses.p[m.chosen[k], d] += m.impacts.p[k, d]
    return _bounce(packed, count, period, always)


@numba.njit(cache=True, nogil=True)
def _bounce(packed, count, period, always):
    """As `_bouncing`."""
    a = packed.arrays
    m = a.method
    bounce, rubs = a.material.bounce, a.material.friction.model != NONE
    return _bouncing(count, a.rows, a.scaled, m.u, period, bounce, always, rubs, m.impacts.some, m.chosen, m.e, m.mu)


@numba.njit(cache=True, nogil=True)
def _end(packed, count, period, collide):
    """The complementarity problem, and what all impulses do."""
    a = packed.arrays
    counts, material = a.counts, a.material
    joints = a.body.joints
    lemke = count <= min(material.lemke, a.method.problem.scale.shape[0])
    if collide:
        after_impact(joints, a.body, a.method.u, period, a.external)
    elif count > 0:
        expect_friction(joints, a.body, period, a.external)
    failures = 0
    for turn in range(_TURNS):
        overlapping = _pose(packed, count, period)
        failures = _solve(packed, count, lemke)
        if overlapping and _adds_energy(packed, count):
            failures += _solve(packed, count, lemke)
        _make_passive(packed, count)
        if count == 0 or not joints.nonsmooth or turn == _TURNS - 1:
            break
        for j in range(a.u.shape[0]):
            a.u[j] = a.method.after[j]
        settle_joints(joints, a.body, period, a.u)
        if not correct_guess(joints, a.external):
            break
    counts[NOW] = 1 - counts[NOW]
    counts[REMEMBERED] = count
    counts[CONTACTS], counts[SLIDING] = _take_over(packed, count)
    counts[UNRESOLVED] += failures
    counts[STATE] = FREE if counts[CONTACTS] == 0 else COLLIDING if collide else RESTING
    a.amounts[STORED] = a.amounts[RELEASED] = 0.0
    add_up(packed, count, period)


@numba.njit(cache=True, nogil=True)
def _pose(packed, count, period):
    """As `_prepare`."""
    a = packed.arrays
    m = a.method
    rubs = a.material.friction.model != NONE
    old = m.steps[a.counts[NOW]]
    return _prepare(
        count,
        a.rows,
        a.tangent,
        period,
        rubs,
        a.counts[REMEMBERED],
        old.id,
        old.world,
        old.slides,
        m.bias,
        m.mu,
        m.start,
    )


@numba.njit(cache=True, nogil=True)
def _solve(packed, count, lemke):
    """Solve the complementarity problem: Lemke where it is asked for, else or if it fails Gauss-Seidel.

    Returns 1 if it did not converge, else 0.
    """
    a = packed.arrays
    m = a.method
    for j in range(m.u.shape[0]):
        m.after[j] = m.u[j] + a.external[j]
    if lemke and stewart_trinkle(m.problem, a.scaled, count, m.after, m.bias, m.mu, m.p) == SOLVED:
        return 0
    for i in range(count):
        for d in range(3):
            m.p[i, d] = m.start[i, d]
    tolerance = a.material.tolerance
    code, _, _, _ = gauss_seidel(count, a.scaled, m.mu, m.bias, m.after, m.p, m.gauss_seidel, tolerance, MAX_SWEEPS)
    return int(code != SOLVED)


@numba.njit(cache=True, nogil=True)
def _adds_energy(packed, count):
    """As `_gains`; if so, no overlap is recovered."""
    a = packed.arrays
    m = a.method
    gains = _gains(m.u, a.external, m.after)
    if gains:
        for i in range(count):
            m.bias[i] = max(m.bias[i], 0.0)
    return gains


@numba.njit(cache=True, nogil=True)
def _make_passive(packed, count):
    """As `_limit_energy`."""
    a = packed.arrays
    m = a.method
    _limit_energy(count, a.scaled, m.u, a.external, m.after, m.p)


@numba.njit(cache=True, nogil=True)
def _take_over(packed, count):
    """As `_remember`."""
    a = packed.arrays
    m = a.method
    new = m.steps[a.counts[NOW]]
    return _remember(count, a.rows, a.scaled, a.tangent, m.after, m.p, a.impulses, new.id, new.world, new.slides)


@numba.njit(cache=True, nogil=True)
def _bouncing(count, rows, contacts, u, period, bounce, always, rubs, some, index, restitution, friction):
    """Copy the contacts that take part in an impact to `some`; returns how many, 0 if nothing bounces.

    Something bounces if a contact with restitution that is closed by the end of the step approaches faster than
    `bounce`; without restitution the complementarity problem closes it, and closes the gap too.
    """
    bounces = False
    for i in range(count):
        v = contact_velocity(contacts, i, 0, u)
        if v < -bounce and rows.separation[i] + period * v < 0.0 and rows.restitution[i] > 0.0:
            bounces = True
    m = 0
    if bounces:
        for i in range(count):
            v = contact_velocity(contacts, i, 0, u)
            if rows.separation[i] < _TOUCHING or rows.separation[i] + period * v < 0.0:
                index[m] = i
                # one at a time, a contact that rests now may be struck; it bounces if it is then fast enough
                restitution[m] = rows.restitution[i] if always or v < -bounce else 0.0
                friction[m] = rows.friction[i, 1] if rubs else 0.0
                copy_contact(contacts, i, some, m)
                m += 1
    return m


@numba.njit(cache=True, nogil=True)
def _prepare(count, rows, tangent, period, rubs, old_count, old, world, slid, bias, mu, start):
    """Fill bias, friction and where to start from; whether an overlap wants to be recovered."""
    overlapping = False
    for i in range(count):
        s = rows.separation[i]
        if s >= 0.0:
            bias[i] = s / period
        else:
            deep = -s - SLOP
            bias[i] = 0.0
            if deep > 0.0:
                bias[i] = -min(RECOVERY * deep / period, FASTEST_RECOVERY)
                overlapping = True
        mu[i] = rows.friction[i, 0] if rubs else 0.0
        start[i, 0] = start[i, 1] = start[i, 2] = 0.0
        for m in range(old_count):
            k = (m + i) % old_count
            if old[k] == rows.id[i]:
                if slid[k] and rubs:
                    mu[i] = rows.friction[i, 1]
                n, t, f = rows.normal[i], tangent[i], world[k]
                start[i, 0] = f[0] * n[0] + f[1] * n[1] + f[2] * n[2]
                start[i, 1] = f[0] * t[0] + f[1] * t[1] + f[2] * t[2]
                start[i, 2] = (
                    f[0] * (n[1] * t[2] - n[2] * t[1])
                    + f[1] * (n[2] * t[0] - n[0] * t[2])
                    + f[2] * (n[0] * t[1] - n[1] * t[0])
                )
                break
    return overlapping


@numba.njit(cache=True, nogil=True)
def _limit_energy(count, contacts, u, external, after, p):
    """Take back from the impulses what the tolerance of a solver leaves of energy from nowhere.

    With the impulses times x, w = W^T p and du of the other forces, a step gains x^2 |w|^2 / 2 + x w . u - |du|^2 / 2
    beyond their work: convex, and not positive at x = 0. (At rest, 1e-9 m/s too much upwards were 1e-11 J a step.)
    """
    for i in range(count):
        if contacts.offset[i, 0] != 0.0:  # walls that move do work
            return
    square = along = other = 0.0
    for j in range(u.shape[0]):
        w = after[j] - u[j] - external[j]
        square += w * w
        along += w * u[j]
        other += external[j] * external[j]
    if not 0.5 * square + along - 0.5 * other > 0.0:
        return
    part = max(0.0, min(1.0, (math.sqrt(along * along + square * other) - along) / square))
    for j in range(u.shape[0]):
        free = u[j] + external[j]
        after[j] = free + part * (after[j] - free)
    for i in range(count):
        for d in range(3):
            p[i, d] *= part


@numba.njit(cache=True, nogil=True)
def _gains(u, external, after):
    """Whether a step from u to `after` adds energy beyond the work of the external forces."""
    energy = scale = 0.0
    for j in range(u.shape[0]):
        energy += 0.5 * (after[j] * after[j] - u[j] * u[j]) - external[j] * after[j]
        scale += u[j] * u[j] + external[j] * external[j]
    return energy > 1e-13 * scale


@numba.njit(cache=True, nogil=True)
def _remember(count, rows, contacts, tangent, u, p, impulses, id, world, slides):
    """Add the impulses to those of impacts, keep what the next step needs; numbers of contacts and of sliding ones."""
    closed = sliding = 0
    for i in range(count):
        id[i] = rows.id[i]
        n, t = rows.normal[i], tangent[i]
        for d in range(3):
            a, b = (d + 1) % 3, (d + 2) % 3
            world[i, d] = p[i, 0] * n[d] + p[i, 1] * t[d] + p[i, 2] * (n[a] * t[b] - n[b] * t[a])
        slides[i] = False
        if p[i, 0] > 0.0:
            x, y = contact_velocity(contacts, i, 1, u), contact_velocity(contacts, i, 2, u)
            slides[i] = x * x + y * y > _SLIDES * _SLIDES
        if slides[i]:
            sliding += 1
        for d in range(3):
            impulses.p[i, d] += p[i, d]
        impulses.spring[i] = 0.0
        impulses.impact[i] = True
        if impulses.p[i, 0] > 0.0:
            closed += 1
    return closed, sliding
