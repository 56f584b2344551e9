"""Rigid contacts: fixed-step time-stepping with complementarity, after collisions where contacts bounce.

A step of length T has two parts. First, where a contact that is closed, or closes within the step, approaches faster
than `contact.bounce`, impacts are resolved: all at once with friction (`constraint`, where there is restitution), by
`contact.multiple_impacts: sequential` one pair of bodies after the other (`sequential`), or one contact at a time after
Mirtich (`hybrid`; IGMS figure 6: impulses while it bounces, the complementarity problem once it is steady).
Then all contacts obey, with the velocity c after the step,
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
from typing import Any, NamedTuple

import numpy as np

from haptic_sim.contact.friction_models import NONE
from haptic_sim.contact.groups import find_among, find_place
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
    Keeper,
    add_up,
    build_step,
    damp_early,
    fill_scaled,
    set_up,
)
from haptic_sim.contact.sequential import Sequence, resolve_several
from haptic_sim.contact.solvers.frictional_impulses import choose_effort, resolve_frictional_impacts
from haptic_sim.contact.solvers.gauss_seidel import MAX_SWEEPS, GaussSeidelMemory, gauss_seidel
from haptic_sim.contact.solvers.mirtich import MirtichMemory, resolve_one_at_a_time
from haptic_sim.contact.solvers.outcomes import NOT_CONVERGED, SOLVED
from haptic_sim.contact.solvers.stewart_trinkle import ContactProblem, stewart_trinkle
from haptic_sim.dynamics.joints import correct_guess, expect_friction, settle_joints, speed_of
from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.dynamics.scaled import contact_velocity
from haptic_sim.kernels import kernel
from haptic_sim.messages import COLLIDING, FREE, RESTING
from haptic_sim.records import allocate, array, numbers, part, record, value

RECOVERY = 0.2  # part of an overlap to recover in a step
SLOP = 1e-5  # [m] overlap that is left alone
FASTEST_RECOVERY = 0.1  # [m/s]
_TOUCHING = 1e-6  # [m] separation of a contact through which an impact is handed on
_ROUNDS = 8  # of impacts in a step: one may drive other contacts together that had been at rest or apart
_TURNS = 10  # in which contacts and the laws of joints are solved one after the other
_MOST_TURNS = 200  # where the step would gain energy after these, as of links far lighter than what rests on them
_SLIDES = 1e-7  # [m/s] slip of a contact that slides


@record
class Remembered(NamedTuple):
    """Values that a step keeps for the next one, for kernels."""

    id: np.ndarray = array("identity of the contact", "contacts", dtype=np.int64)
    world: np.ndarray = array("impulse in world axes", "contacts", 3, unit="N s")
    slides: np.ndarray = array("whether the contact slides", "contacts", dtype=np.bool_)


@record
class RigidArrays(NamedTuple):
    """Memory of these methods, for kernels."""

    steps: tuple[Remembered, Remembered] = part(Remembered, "of this step and of the one before, in turn", copies=2)
    u: np.ndarray = array("scaled velocity after impacts", "nv", unit="kg^1/2 m/s")
    after: np.ndarray = array("scaled velocity after the step", "nv", unit="kg^1/2 m/s")

    impacts: Impacts = value("contacts that take part in an impact, and their impulses")
    chosen: np.ndarray = array("numbers of the contacts in an impact", "contacts", dtype=np.int64)
    e: np.ndarray = array("coefficient of restitution of the contacts in an impact", "contacts")
    mirtich: MirtichMemory = part(MirtichMemory, "memory of `resolve_one_at_a_time`")
    sequence: Sequence = value("memory of `resolve_several`; of no contacts where impacts are simultaneous")

    mu: np.ndarray = array("coefficient of friction of the contacts in an impact, then of all", "contacts")
    bias: np.ndarray = array("what is added to the normal velocity that must not be negative", "contacts", unit="m/s")
    start: np.ndarray = array("impulses to start from", "contacts", 3, unit="N s")
    p: np.ndarray = array("impulses of the complementarity problem", "contacts", 3, unit="N s")
    problem: ContactProblem = value("problem for Lemke's method")
    gauss_seidel: GaussSeidelMemory = part(GaussSeidelMemory, "memory of `gauss_seidel`")


class RigidContact(ContactResponse):
    """The methods `constraint` and, where contacts bounce `one_at_a_time`, `hybrid`."""

    def __init__(self, body: Multibody, parameters: ContactParameters, capacity: int, *, one_at_a_time: bool):
        super().__init__(body, parameters, capacity)
        law = "simultaneous" if one_at_a_time else parameters.multiple_impacts
        self._respond, self.step_kernel = (
            (_respond_one_at_a_time, _step_one_at_a_time)
            if one_at_a_time
            else (_respond_in_sequence, _step_in_sequence)
            if law != "simultaneous"
            else (_respond, _step)
        )
        planar = not np.any(body.J_W[:, 2:5])  # nothing moves along z or turns about x or y
        self._method = allocate(
            RigidArrays,
            self.scaled.sizes,
            impacts=Impacts.allocate(capacity, body),
            sequence=Sequence.allocate(capacity, body, law),
            problem=ContactProblem.allocate(max(parameters.most_lemke, 1), 2 if planar else parameters.facets),
        )

    @property
    def margin(self) -> float:
        """Up to which separation contacts matter [m]."""
        return self.parameters.margin

    @property
    def keeper(self) -> Keeper:
        """Object that keeps the contact memory while bodies sleep."""
        return _KEEPER


@kernel
def _resolve_together(packed, n):
    """Resolve the first n contacts of `impacts` at once; returns 1 if that did not converge, else 0."""
    m = packed.arrays.method
    f = m.impacts
    steps, sweeps = choose_effort(n)
    code = resolve_frictional_impacts(n, f.some, m.u, m.e, m.mu, steps, sweeps, f.memory, f.p, f.state)
    return int(code == NOT_CONVERGED)


@kernel
def _resolve_one_at_a_time(packed, n):
    """Resolve the first n contacts of `impacts` one after the other; returns 0."""
    a = packed.arrays
    m = a.method
    resolve_one_at_a_time(n, m.impacts.some, m.u, m.e, m.mu, a.material.bounce, 20 * n, m.mirtich, m.impacts.p)
    return 0


@kernel
def _resolve_in_sequence(packed, n):
    """Resolve the first n contacts of `impacts`, one pair of bodies after the other; returns as `_resolve_together`."""
    a = packed.arrays
    m = a.method
    f = m.impacts
    return int(not resolve_several(n, f.some, m.u, m.e, m.mu, a.material.bounce, m.sequence, f.p))


def _build_response(resolve: Any, always: bool) -> Any:
    """The kernel of a method whose impacts are resolved by the kernel `resolve`; `always`: see `_bounce`."""

    @kernel
    def respond(packed, count, period):
        _begin(packed, count, period)
        n = _bounce(packed, count, period, always)
        collide = n > 0
        for _ in range(_ROUNDS):
            if n == 0:
                break
            packed.arrays.counts[UNRESOLVED] += resolve(packed, n)
            _take_over(packed, n)
            n = _bounce(packed, count, period, always)
        _end(packed, count, period, collide)

    return respond


@kernel
def _begin(packed, count, period):
    """Set up the contacts, without impulses."""
    a = packed.arrays
    set_up(packed, count, period)
    fill_scaled(packed)
    u, p, joints = a.method.u, a.impulses.p, a.body.joints
    if count > 0 and joints.damped:
        for k in range(joints.early.shape[0]):
            joints.early[k] = True
        damp_early(packed, count, period)
    for j in range(u.shape[0]):
        u[j] = a.u_before[j]
    for i in range(count):
        p[i, 0] = p[i, 1] = p[i, 2] = 0.0


@kernel
def _bounce(packed, count, period, always):
    """Copy the contacts that take part in an impact to `impacts`; returns how many, 0 if nothing bounces.

    Something bounces if a contact with restitution that is closed by the end of the step approaches faster than
    `bounce`; without restitution the complementarity problem closes it, and closes the gap too. With `always`, all
    contacts that take part have their restitution, not only those that approach faster than `bounce`.
    """
    a = packed.arrays
    m, rows, bounce, rubs = a.method, a.rows, a.material.bounce, a.material.friction.model != NONE
    bounces = False
    for i in range(count):
        if not bounces and rows.restitution[i] > 0.0:
            v = contact_velocity(a.scaled, i, 0, m.u)
            bounces = v < -bounce and rows.separation[i] + period * v < 0.0
    n = 0
    if bounces:
        for i in range(count):
            v = contact_velocity(a.scaled, i, 0, m.u)
            if rows.separation[i] < _TOUCHING or rows.separation[i] + period * v < 0.0:
                m.chosen[n] = i
                # one at a time, a contact that rests now may be struck; it bounces if it is then fast enough
                m.e[n] = rows.restitution[i] if always or v < -bounce else 0.0
                m.mu[n] = rows.friction[i, 1] if rubs else 0.0
                copy_contact(a.scaled, i, m.impacts.some, n)
                n += 1
    return n


@kernel
def _take_over(packed, n):
    """Add the impulses of the first n contacts of `impacts` to those of the step."""
    a = packed.arrays
    m = a.method
    for k in range(n):
        for d in range(3):
            a.impulses.p[m.chosen[k], d] += m.impacts.p[k, d]


@kernel
def _end(packed, count, period, collide):
    """The complementarity problem, and what all impulses do."""
    a = packed.arrays
    counts, material = a.counts, a.material
    joints = a.body.joints
    lemke = count <= min(material.lemke, a.method.problem.scale.shape[0])
    if not collide and count > 0:
        expect_friction(joints, a.body, period, a.external)
    failures = 0
    for turn in range(_MOST_TURNS):
        overlapping = _prepare(packed, count, period)
        failures = _solve(packed, count, lemke)
        if overlapping and _adds_energy(packed, count):
            failures += _solve(packed, count, lemke)
        _make_passive(packed, count)
        if count == 0 or not joints.nonsmooth:
            break
        for j in range(a.u.shape[0]):
            a.u[j] = a.method.after[j]
        settle_joints(joints, a.body, period, a.u)
        if turn >= _TURNS - 1 and not _laws_add_energy(a, count):
            break
        if not correct_guess(joints, a.external):
            break
    counts[NOW] = 1 - counts[NOW]
    counts[REMEMBERED] = count
    counts[CONTACTS], counts[SLIDING] = _remember(packed, count)
    counts[UNRESOLVED] += failures
    counts[STATE] = FREE if counts[CONTACTS] == 0 else COLLIDING if collide else RESTING
    a.amounts[STORED] = a.amounts[RELEASED] = 0.0
    add_up(packed, count, period)


@kernel
def _prepare(packed, count, period):
    """Fill bias, friction and where to start from; whether an overlap wants to be recovered."""
    a = packed.arrays
    m, rows, tangent = a.method, a.rows, a.tangent
    rubs = a.material.friction.model != NONE
    before, count_before = m.steps[a.counts[NOW]], a.counts[REMEMBERED]
    overlapping = False
    for i in range(count):
        s = rows.separation[i]
        if s >= 0.0:
            m.bias[i] = s / period
        else:
            deep = -s - SLOP
            m.bias[i] = 0.0
            if deep > 0.0:
                m.bias[i] = -min(RECOVERY * deep / period, FASTEST_RECOVERY)
                overlapping = True
        m.mu[i] = rows.friction[i, 0] if rubs else 0.0
        m.start[i, 0] = m.start[i, 1] = m.start[i, 2] = 0.0
        k = find_place(rows.id[i], before.id, count_before, i)
        if k >= 0:
            if before.slides[k] and rubs:
                m.mu[i] = rows.friction[i, 1]
            n, t, f = rows.normal[i], tangent[i], before.world[k]
            m.start[i, 0] = f[0] * n[0] + f[1] * n[1] + f[2] * n[2]
            m.start[i, 1] = f[0] * t[0] + f[1] * t[1] + f[2] * t[2]
            m.start[i, 2] = (
                f[0] * (n[1] * t[2] - n[2] * t[1])
                + f[1] * (n[2] * t[0] - n[0] * t[2])
                + f[2] * (n[0] * t[1] - n[1] * t[0])
            )
    return overlapping


@kernel
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


@kernel
def _adds_energy(packed, count):
    """Whether the step adds energy beyond the work of the external forces; if so, no overlap is recovered."""
    a = packed.arrays
    m, external = a.method, a.external
    energy = scale = 0.0
    for j in range(m.u.shape[0]):
        energy += 0.5 * (m.after[j] * m.after[j] - m.u[j] * m.u[j]) - external[j] * m.after[j]
        scale += m.u[j] * m.u[j] + external[j] * external[j]
    adds = energy > 1e-13 * scale
    if adds:
        for i in range(count):
            m.bias[i] = max(m.bias[i], 0.0)
    return adds


@kernel
def _laws_add_energy(a, count):
    """Whether contacts and laws of joints, which do not agree yet, add energy together; not told where walls move."""
    joints, u, external = a.body.joints, a.method.u, a.external
    for i in range(count):
        if a.scaled.offset[i, 0] != 0.0:
            return False
    energy = scale = 0.0
    for j in range(u.shape[0]):
        energy += 0.5 * (a.u[j] * a.u[j] - u[j] * u[j]) - external[j] * a.u[j]
        scale += u[j] * u[j] + external[j] * external[j]
    for k in range(joints.guess.shape[0]):
        if joints.guess[k] != 0.0:
            energy += joints.guess[k] * speed_of(joints, k, a.u)
    return energy > 1e-9 * scale


@kernel
def _make_passive(packed, count):
    """Take back from the impulses what the tolerance of a solver leaves of energy from nowhere.

    With the impulses times x, w = W^T p and du of the other forces, a step gains x^2 |w|^2 / 2 + x w . u - |du|^2 / 2
    beyond their work: convex, and not positive at x = 0. (At rest, 1e-9 m/s too much upwards were 1e-11 J a step.)
    """
    a = packed.arrays
    m, external = a.method, a.external
    u, after, p = m.u, m.after, m.p
    for i in range(count):
        if a.scaled.offset[i, 0] != 0.0:  # walls that move do work
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


@kernel
def _remember(packed, count):
    """Add the impulses to those of impacts, keep what the next step needs; numbers of contacts and of sliding ones."""
    a = packed.arrays
    m, rows, impulses = a.method, a.rows, a.impulses
    p, now = m.p, m.steps[a.counts[NOW]]
    closed = sliding = 0
    for i in range(count):
        now.id[i] = rows.id[i]
        nx, ny, nz = rows.normal[i, 0], rows.normal[i, 1], rows.normal[i, 2]
        tx, ty, tz = a.tangent[i, 0], a.tangent[i, 1], a.tangent[i, 2]
        p0, p1, p2 = p[i, 0], p[i, 1], p[i, 2]
        now.world[i, 0] = p0 * nx + p1 * tx + p2 * (ny * tz - nz * ty)
        now.world[i, 1] = p0 * ny + p1 * ty + p2 * (nz * tx - nx * tz)
        now.world[i, 2] = p0 * nz + p1 * tz + p2 * (nx * ty - ny * tx)
        now.slides[i] = False
        a.moments.mu[i] = m.mu[i]
        if p[i, 0] > 0.0:
            x, y = contact_velocity(a.scaled, i, 1, m.after), contact_velocity(a.scaled, i, 2, m.after)
            now.slides[i] = x * x + y * y > _SLIDES * _SLIDES
        if now.slides[i]:
            sliding += 1
        for d in range(3):
            impulses.p[i, d] += p[i, d]
        impulses.spring[i] = 0.0
        impulses.impact[i] = True
        if impulses.p[i, 0] > 0.0:
            closed += 1
    return closed, sliding


SLEPT = numbers("x", "y", "z", "slides")
"""Memory of a contact between bodies that sleep: impulse in world axes [N s], whether it slid."""


@kernel
def _lay_aside(packed, sleep, begin, end):
    """Take the memory of contacts of what falls asleep out of that of the step before (`Keeper.lay_aside`)."""
    a = packed.arrays
    before = a.method.steps[a.counts[NOW]]
    n = 0
    for k in range(a.counts[REMEMBERED]):
        s = find_among(before.id[k], sleep.id, begin, end)
        if s >= 0:
            memory = sleep.memory[s]
            memory.x, memory.y, memory.z = before.world[k, 0], before.world[k, 1], before.world[k, 2]
            memory.slides = 1.0 if before.slides[k] else 0.0
        else:
            before.id[n], before.slides[n] = before.id[k], before.slides[k]
            for d in range(3):
                before.world[n, d] = before.world[k, d]
            n += 1
    a.counts[REMEMBERED] = n


@kernel
def _take_up(packed, sleep, s, row):
    """Give the memory of a contact of what wakes to a row (`Keeper.take_up`)."""
    a = packed.arrays
    before, n, memory = a.method.steps[a.counts[NOW]], a.counts[REMEMBERED], sleep.memory[s]
    if n < before.id.shape[0]:
        before.id[n], before.slides[n] = sleep.id[s], memory.slides != 0.0
        before.world[n, 0], before.world[n, 1], before.world[n, 2] = memory.x, memory.y, memory.z
        a.counts[REMEMBERED] = n + 1


_KEEPER = Keeper(SLEPT, _lay_aside, _take_up)

_respond = _build_response(_resolve_together, always=False)
_respond_one_at_a_time = _build_response(_resolve_one_at_a_time, always=True)
_respond_in_sequence = _build_response(_resolve_in_sequence, always=True)
_step, _step_one_at_a_time = build_step(_respond), build_step(_respond_one_at_a_time)
_step_in_sequence = build_step(_respond_in_sequence)
