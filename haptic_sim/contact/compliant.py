"""Contacts with penalties and friction while they last, and with impulses when they begin (THESIS 4.1-4.4).

`penalty`: penalties only. `impulse_augmented`: the contacts of a *group* - bodies that hang together by overlapping
contacts - collide when one of them is new (it overlaps, did not in the step before, and its points approach), or when
impulses of the step before had to be scaled and shall be spread. While a group collides, impulses act at all its
contacts whose points approach or are at rest, so that a body struck against a wall does not go into it, and no
penalties; while it rests, penalties and friction act. `frictional_impulses`: the same with impulses that obey Coulomb's
law (beyond THESIS, which names it in 7.2).

Two groups that share no moving body do not feel each other's impulses, so that each is resolved alone.

**Impulses that a device cannot render** (THESIS 4.5.2) are scaled, all those of the hand's group by one part c in
[0, 1], and with `spread` the group collides again in the next step, until c = 1.

*Printed*: in these steps impulses replace the penalties (4.45), as they do in any step with impulses. Overlaps grow
meanwhile by h v' a step without a spring that resists, and store h k v' (s + h v' / 2) each that nobody has paid for: a
push as strong as the limit drives a body in without end, and a lighter one hops on what the springs give back. With a
restitution e the impulses are solved anew each step from what is left of the approach, so that the rebound is that of
the last step, some e F h / (m (1 + e)) (errata 14).

*Consistent* (device.spread, the default): the impulses act first, then all other forces, then the springs of all
contacts of the group, and no dampers, as the impulses are the dampers. A spring pushes with its force in the middle of
the step's motion, so that it never gives more than it has stored:
    u1 = u + c W^T p,   u' = u1 + external + W^T q,   0 <= q = max(0, -h k (s + h v' / 2)),   v' = W u'.
c is the largest part for which impulses and springs together are within the limit, so that the device can render their
sum; 0 where the springs leave nothing.
  - Energy. With E(c) = -(c p.v + 1/2 c^2 |W^T p|^2) >= 0 the energy that the impulses take (4.40, with 1/2: errata 1),
    x the path of the step and f the other forces, held over it (W u and s on straight paths),
        change of (1/2 |u|^2 + sum 1/2 k s^2) - f.x = -E(c) - 1/2 |external + W^T q|^2 <= 0:
    for q.v' + h k s v' + 1/2 h^2 k v'^2 = 0 for each contact that pushes, and those that do not push stretch nothing
    (their terms are not positive, as then s + h v' / 2 >= 0 and s < 0). So whatever masses, stiffness, period and part,
    such a step adds nothing; what a contact that begins has entered, 1/2 k (h v')^2, is all there is.
  - Restitution. A contact that begins to collide owes its body the velocity e |v|, and takes part in the spread as long
    as it is slower: it collides without restitution with a wall that recedes at this velocity. Impulses that speed
    bodies up give energy, E < 0: at most what earlier ones of the spread have taken beyond what the whole impulses
    take (4.40). So the sum of E over a spread is never negative, and where nothing else acts it becomes that of the
    whole impulses while the springs still hold a part of the rebound, which they give back without dampers: the body
    leaves with e |v|.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np

from haptic_sim.contact.friction import (
    COULOMB,
    HELD,
    NONE,
    STICKS,
    Bonds,
    FrictionMemory,
    bond_energy,
    carry_over,
    damp,
    friction_forces,
    tangential_mobility,
)
from haptic_sim.contact.penalties import LIMIT, find_ratios, push_implicitly
from haptic_sim.contact.response import (
    BONDS,
    CONTACTS,
    KEPT,
    LIMITED,
    NOW,
    PENDING,
    RELEASED,
    REMEMBERED,
    SLIDING,
    STATE,
    STORED,
    UNRESOLVED,
    ContactParameters,
    ContactResponse,
    Method,
    Rendering,
    add_up,
    begin_step,
    end_step,
    set_up,
)
from haptic_sim.contact.solvers.frictional_impulses import (
    STEPS,
    SWEEPS,
    FrictionalWorkspace,
    resolve_frictional_impacts,
)
from haptic_sim.contact.solvers.gauss_seidel import MAX_SWEEPS, SOLVED, TOLERANCE, GaussSeidelMemory, gauss_seidel
from haptic_sim.contact.solvers.impulses import (
    NOT_CONVERGED,
    ImpulseWorkspace,
    resolve_freely,
    resolve_non_pulling,
    take_back,
)
from haptic_sim.dynamics.joints import after_impact
from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.dynamics.scaled import ScaledContacts, apply_impulse, contact_velocity
from haptic_sim.messages import COLLIDING, FREE, RESTING
from haptic_sim.parameters import ParameterError

# [m/s] a contact that separates slower is at rest: what rounding leaves of zero must not decide whether it takes part
# in an impact. THESIS (4.2) has v_n >= 0 for separating.
_STILL = 1e-9
ACTIVE_SET = 32  # colliding contacts of a group beyond which sweeps resolve it: with 100 the active set takes 60 ms


class Impacts(NamedTuple):
    """Memory of impulses with friction, for kernels (C: capacity).

    Attributes:
        some: contacts that collide.
        work, sweeps: of `resolve_frictional_impacts`.
        p: their impulses, (C, 3); state: whether they slip, (C,) int8.
    """

    some: ScaledContacts
    work: FrictionalWorkspace
    p: np.ndarray
    state: np.ndarray
    sweeps: int

    @classmethod
    def allocate(cls, capacity: int, body: Multibody) -> Impacts:
        some = ScaledContacts.allocate(capacity, body.trees.start, body.trees.size)
        work = FrictionalWorkspace.allocate(some, body.nv)
        return cls(some, work, np.zeros((capacity, 3)), np.zeros(capacity, np.int8), SWEEPS)


class Sweeps(NamedTuple):
    """Memory of impulses without friction at many contacts, for kernels (C: capacity).

    Attributes:
        some: contacts that collide.
        memory: of `gauss_seidel`.
        u: scaled velocity, (nv,); p: their impulses, (C, 3).
        bias: least velocities of separation, negative, (C,) [m/s]; friction: none, (C,).
    """

    some: ScaledContacts
    memory: GaussSeidelMemory
    u: np.ndarray
    p: np.ndarray
    bias: np.ndarray
    friction: np.ndarray

    @classmethod
    def allocate(cls, capacity: int, body: Multibody) -> Sweeps:
        some = ScaledContacts.allocate(capacity, body.trees.start, body.trees.size)
        memory = GaussSeidelMemory.allocate(some)
        return cls(some, memory, np.zeros(body.nv), np.zeros((capacity, 3)), np.zeros(capacity), np.zeros(capacity))


class OfEach(NamedTuple):
    """Numbers of each contact, (C,), and of those that are chosen to collide, in the order of `chosen`.

    Attributes:
        v_n: normal velocity [m/s].
        collides: whether it does, bool.
        sharing: how many contacts share the stiffness of one with a penalty, else 0.
        beside: the same of a contact whose group collides.
        owes: velocity of separation that it owes its bodies from the spread so far [m/s], negative if it is not of one.
        gain: see `_are_beyond`.
        chosen_v_n, chosen_restitution, chosen_friction: of those that are chosen.
    """

    v_n: np.ndarray
    collides: np.ndarray
    sharing: np.ndarray
    beside: np.ndarray
    owes: np.ndarray
    gain: np.ndarray
    chosen_v_n: np.ndarray
    chosen_restitution: np.ndarray
    chosen_friction: np.ndarray

    @classmethod
    def allocate(cls, capacity: int) -> OfEach:
        """For `capacity` contacts."""
        return cls(np.zeros(capacity), np.zeros(capacity, bool), *(np.zeros(capacity) for _ in range(7)))


class CompliantArrays(NamedTuple):
    """Memory of these methods, for kernels (C: capacity).

    Attributes:
        old: identities of the contacts that overlapped in the step before, (C,) int64.
        group: union-find forest of the trees, (trees,) int64; colliding: of its roots, (trees,) bool.
        owed: velocities of separation that contacts of the step before owe their bodies, in the order of `old`;
            negative where nothing is known, (C,) [m/s].
        account: energy that the impulses of a spread have taken, and what the whole ones take, (2,) [J].
        each: numbers of each contact.
        ratios: see `find_ratios`, (2, trees).
        chosen, column: work space, (C,) and (trees,) int64.
        W, c, G, H, small, vectors, order: of an `ImpulseWorkspace`.
        wrench_limit: (6,); wrenches: work space, (4, 6).
        bonds, table: of a `FrictionMemory`.
        normal_force, mobility, slip, friction, viscosity, viscous_limit: see `friction_forces`.
        viscous, blocks: see `damp`; sums: see `tangential_mobility`; energy: see `bond_energy`.
        u: work space, (nv,).
        impulsive, limited, spread: whether there are impulses, and what is done about those beyond `wrench_limit`.
        consistent: whether springs act beside impulses, and restitution is remembered.
        impacts, sweeps: for impulses with friction, and for those of many contacts without; of no contact where there
            are none.
    """

    old: np.ndarray
    owed: np.ndarray
    account: np.ndarray
    group: np.ndarray
    colliding: np.ndarray
    each: OfEach
    ratios: np.ndarray
    chosen: np.ndarray
    column: np.ndarray
    W: np.ndarray
    c: np.ndarray
    G: np.ndarray
    H: np.ndarray
    small: np.ndarray
    vectors: np.ndarray
    order: np.ndarray
    wrench_limit: np.ndarray
    wrenches: np.ndarray
    bonds: tuple[Bonds, Bonds]
    table: np.ndarray
    normal_force: np.ndarray
    mobility: np.ndarray
    slip: np.ndarray
    friction: np.ndarray
    viscosity: np.ndarray
    viscous_limit: np.ndarray
    viscous: np.ndarray
    blocks: np.ndarray
    sums: np.ndarray
    energy: np.ndarray
    u: np.ndarray
    impulsive: bool
    limited: bool
    spread: bool
    consistent: bool
    impacts: Impacts
    sweeps: Sweeps


class CompliantContact(ContactResponse):
    """The methods `penalty`, `impulse_augmented` and `frictional_impulses`.

    Args:
        rendering: what is done about impulses that the device cannot render; those of LIMITED are done here.
        wrench_limit: of the device, (6,) [N, N m].
    """

    def __init__(
        self,
        body: Multibody,
        parameters: ContactParameters,
        capacity: int,
        method: Method,
        rendering: Rendering,
        wrench_limit: np.ndarray,
    ):
        super().__init__(body, parameters, capacity)
        frictional, limited = method == "frictional_impulses", rendering in LIMITED
        self._respond, self._step = (_respond_with_friction, _step_with_friction) if frictional else (_respond, _step)
        if limited and not body.held_alone:
            raise ParameterError(
                [
                    f"device.impulse_rendering = {rendering.removeprefix('printed_')}: is made for a tool of one body; "
                    "a linkage needs full or saturated"
                ]
            )
        trees, work = max(body.trees.start.size, 1), ImpulseWorkspace(capacity, body.nv)
        bonds = FrictionMemory(capacity)
        self._arrays = CompliantArrays(
            old=np.zeros(capacity, np.int64),
            owed=np.zeros(capacity),
            account=np.zeros(2),
            group=np.zeros(trees, np.int64),
            colliding=np.zeros(trees, np.bool_),
            each=OfEach.allocate(capacity),
            ratios=np.zeros((2, trees)),
            chosen=np.zeros(capacity, np.int64),
            column=np.zeros(trees, np.int64),
            W=work.W,
            c=work.c,
            G=work.G,
            H=work.H,
            small=work.small,
            vectors=work.vectors,
            order=work.index,
            wrench_limit=np.array(wrench_limit, float),
            wrenches=np.zeros((4, 6)),
            bonds=bonds.both,
            table=bonds.table,
            normal_force=np.zeros(capacity),
            mobility=np.zeros(capacity),
            slip=np.zeros((capacity, 3)),
            friction=np.zeros((capacity, 3)),
            viscosity=np.zeros(capacity),
            viscous_limit=np.zeros(capacity),
            viscous=np.zeros((capacity, 2)),
            blocks=np.zeros((capacity, 3)),
            sums=np.zeros(trees),
            energy=np.zeros(capacity),
            u=np.zeros(body.nv),
            impulsive=method != "penalty",
            limited=limited,
            spread=rendering in ("spread", "printed_spread"),
            consistent=method != "penalty" and rendering == "spread",
            impacts=Impacts.allocate(capacity if frictional else 0, body),
            sweeps=Sweeps.allocate(capacity if method == "impulse_augmented" else 0, body),
        )

    @property
    def remedy(self) -> str:
        """See ContactResponse."""
        if not self._arrays.impulsive or self._arrays.consistent:
            return ""
        if self._arrays.limited:
            consistent = "device.spread = consistent, " if self._arrays.spread else ""
            return (
                f"impulses beyond device.wrench_limit take many steps; choose {consistent}a larger "
                "device.wrench_limit, device.impulse_rendering = saturated, or environment.method = penalty or "
                "constraint"
            )
        return "choose environment.method = penalty or constraint, or a smaller contact.stiffness"

    def _memory(self) -> CompliantArrays:
        return self._arrays


@numba.njit(cache=True, nogil=True)
def _step(packed, count, wrench, potential, period):
    """See ContactResponse."""
    begin_step(packed, wrench, period)
    _respond(packed, count, period)
    end_step(packed, count, wrench, potential, period)


@numba.njit(cache=True, nogil=True)
def _step_with_friction(packed, count, wrench, potential, period):
    """See ContactResponse."""
    begin_step(packed, wrench, period)
    _respond_with_friction(packed, count, period)
    end_step(packed, count, wrench, potential, period)


@numba.njit(cache=True, nogil=True)
def _respond(packed, count, period):
    """See ContactResponse."""
    set_up(packed, count, period)
    collide = _penalize(packed, count, period, packed.arrays.method.impulsive)
    if collide:
        packed.arrays.counts[UNRESOLVED] += _collide_without_friction(packed, count)
    _settle(packed, count, period, collide)


@numba.njit(cache=True, nogil=True)
def _respond_with_friction(packed, count, period):
    """See ContactResponse."""
    set_up(packed, count, period)
    collide = _penalize(packed, count, period, True)
    if collide:
        packed.arrays.counts[UNRESOLVED] += _collide_with_friction(packed, count)
    _settle(packed, count, period, collide)


@numba.njit(cache=True, nogil=True)
def _settle(packed, count, period, collide):
    """Limit the impulses, and all that follows from them."""
    a = packed.arrays
    counts = a.counts
    if collide and a.method.limited:
        collide = _limit_all(packed, count, period)
    if collide and a.body.joints.damped:
        _damp_joints(packed, count, period)
    if collide and a.method.consistent:
        counts[UNRESOLVED] += _push_beside_impulses(packed, count, period)
    if counts[PENDING] == 1:
        a.amounts[KEPT] += _owed(a.method.account)
    counts[STATE] = FREE if counts[CONTACTS] == 0 else COLLIDING if collide else RESTING
    counts[SLIDING] = 0
    a.amounts[RELEASED] = 0.0
    if a.material.friction.model != NONE:
        _apply_friction(packed, count, period)
    else:
        counts[BONDS] = 0
    add_up(packed, count, period)


@numba.njit(cache=True, nogil=True)
def _damp_joints(packed, count, period):
    """Let damping of joints begin after the impacts."""
    a = packed.arrays
    u, impulses = a.method.u, a.impulses
    for j in range(u.shape[0]):
        u[j] = a.body.u[j]
    for i in range(count):
        if impulses.impact[i]:
            for d in range(3):
                apply_impulse(a.scaled, i, d, impulses.p[i, d], u)
    after_impact(a.body.joints, a.body, u, period, a.external)


@numba.njit(cache=True, nogil=True)
def _penalize(packed, count, period, impulsive):
    """Fill in penalties where there are no collisions; whether some contacts collide."""
    a = packed.arrays
    m, material, counts = a.method, a.material, a.counts
    if impulsive and counts[PENDING] == 0:
        m.account[0] = m.account[1] = 0.0
    a.amounts[KEPT] = -_owed(m.account)
    counts[CONTACTS], counts[REMEMBERED], collide, a.amounts[STORED] = _penalties(
        count,
        a.rows,
        a.scaled,
        a.body.u,
        period,
        material.stiffness,
        material.damping,
        material.shared,
        material.pulls,
        impulsive,
        impulsive and counts[PENDING] != 0,
        m.consistent,
        a.body.hand_tree,
        m.old,
        counts[REMEMBERED],
        m.owed,
        m.group,
        m.colliding,
        m.each,
        m.normal_force,
        a.impulses,
    )
    a.amounts[STORED] += _owed(m.account)
    counts[PENDING] = 0
    if not material.pulls and _are_beyond(packed, count, period):
        for g in range(m.group.shape[0]):
            if m.ratios[0, g] > LIMIT * m.ratios[1, g]:
                explicit = LIMIT * m.ratios[1, g] / m.ratios[0, g]
                counts[UNRESOLVED] += not _penalize_implicitly(
                    packed, g, count, period, m.each.sharing, a.material.damping, explicit
                )
    return collide


@numba.njit(cache=True, nogil=True)
def _push_beside_impulses(packed, count, period):
    """Let springs act after the impulses of the groups that collide; returns how many groups did not converge."""
    a = packed.arrays
    m = a.method
    failures = 0
    for g in range(m.group.shape[0]):
        if m.group[g] == g and m.colliding[g]:
            failures += not _penalize_implicitly(packed, g, count, period, m.each.beside, 0.0, 0.5)
    return failures


@numba.njit(cache=True, nogil=True)
def _are_beyond(packed, count, period):
    """Whether the explicit penalties of some group are beyond what is stable; fills the ratios of all."""
    a = packed.arrays
    m, each, gain = a.method, a.method.each, a.method.each.gain
    some = False
    for i in range(count):
        gain[i] = 0.0
        if each.sharing[i] > 0.0:
            damping = a.material.damping
            if not m.normal_force[i] > 0.0:  # its damper takes no more than its spring gives
                damping = -a.material.stiffness * a.rows.separation[i] / each.v_n[i]
            gain[i] = period * (damping + 0.5 * period * a.material.stiffness) / each.sharing[i]
            some = True
    if not some:
        return False
    for tree in range(m.group.shape[0]):
        m.group[tree] = _root(m.group, tree)
    return find_ratios(count, a.scaled, gain, m.group, a.body.u, m.u, m.ratios)


@numba.njit(cache=True, nogil=True)
def _penalize_implicitly(packed, g, count, period, share, damper, explicit):
    """Replace the penalties of a group by some that act after its impulses; whether they converged.

    Args:
        share: how many contacts share the stiffness of one, 0 for those that have no penalty, (C,).
        damper: damping that the contacts share [N s/m].
        explicit: part of the penalties that is explicit.
    """
    a = packed.arrays
    m, p, spring, impact = a.method, a.impulses.p, a.impulses.spring, a.impulses.impact
    v_free, p0, v, q = m.vectors[0], m.vectors[1], m.vectors[2], m.vectors[3]
    for j in range(m.u.shape[0]):
        m.u[j] = a.body.u[j] + a.external[j]
    for i in range(count):
        if impact[i]:
            for d in range(3):
                apply_impulse(a.scaled, i, d, p[i, d], m.u)
    n = 0
    for i in range(count):
        if share[i] > 0.0 and _group_of(a.scaled, i, m.group) == g:
            stiffness, damping = a.material.stiffness / share[i], damper / share[i]
            m.chosen[n] = i
            v_free[n] = contact_velocity(a.scaled, i, 0, m.u)
            p0[n] = -period * stiffness * a.rows.separation[i]
            if m.normal_force[i] > 0.0:
                p0[n] -= period * explicit * damping * m.each.v_n[i]
            else:
                p0[n] *= 1.0 - explicit
            m.c[n] = period * (1.0 - explicit) * (damping + period * stiffness)
            n += 1
    W = m.W[: n * _number_columns(packed, g)].reshape((n, -1))
    _gather(packed, n, W)
    ended = push_implicitly(n, W, v_free, p0, m.c, m.H, m.small[0], m.small[1], v, m.each.gain, m.order[0], q)
    for k in range(n):
        i = m.chosen[k]
        p[i, 0], m.normal_force[i], spring[i] = (p[i, 0] if impact[i] else 0.0) + q[k], q[k] / period, 0.0
        if q[k] > 0.0:
            end = a.rows.separation[i] + (1.0 - explicit) * period * v[k]
            spring[i] = -a.material.stiffness / share[i] * min(end, 0.0) * period
    return ended


@numba.njit(cache=True, nogil=True)
def _collide_without_friction(packed, count):
    """Frictionless impulses, group by group; returns how many groups did not converge."""
    a = packed.arrays
    group, each, index = a.method.group, a.method.each, a.method.chosen
    failures = 0
    for g in range(group.shape[0]):
        if group[g] != g:
            continue
        n = 0
        for i in range(count):
            if each.collides[i] and _group_of(a.scaled, i, group) == g:
                index[n] = i
                each.chosen_v_n[n], each.chosen_restitution[n] = each.v_n[i], a.rows.restitution[i]
                if each.owes[i] >= 0.0:  # a wall that recedes with what is owed
                    each.chosen_v_n[n], each.chosen_restitution[n] = each.v_n[i] - each.owes[i], 0.0
                n += 1
        if n > 0 and not _resolve_group(packed, g, n):
            failures += 1
    return failures


@numba.njit(cache=True, nogil=True)
def _resolve_group(packed, g, n):
    """Impulses of a group's n contacts that collide; whether they converged."""
    a = packed.arrays
    m = a.method
    v_n, restitution, p = m.each.chosen_v_n, m.each.chosen_restitution, m.vectors[3]
    W = m.W[: n * _number_columns(packed, g)].reshape((n, -1))
    _gather(packed, n, W)
    code = SOLVED
    if not resolve_freely(n, W, v_n, restitution, m.c, m.G, m.H, m.small, m.order, p):
        if n <= ACTIVE_SET:
            code = resolve_non_pulling(n, W, v_n, m.c, m.G, m.H, m.small, m.vectors, m.order, p)
        else:
            code = _sweep(packed, n, p)
            take_back(W, n, v_n, m.small, p)
    for k in range(n):
        i = m.chosen[k]
        a.impulses.p[i, 0] = p[k]
        a.impulses.impact[i] = True
    return code != NOT_CONVERGED


@numba.njit(cache=True, nogil=True)
def _number_columns(packed, g):
    """Say in which columns of W the trees of a group come; returns how many columns there are."""
    a = packed.arrays
    group, column = a.method.group, a.method.column
    width = 0
    for tree in range(group.shape[0]):
        if _root(group, tree) == g:
            column[tree] = width
            width += a.scaled.size[tree]
    return width


@numba.njit(cache=True, nogil=True)
def _gather(packed, n, W):
    """Fill W with the normal rows of the first n contacts that are chosen."""
    a = packed.arrays
    contacts, column = a.scaled, a.method.column
    W[:, :] = 0.0
    for k in range(n):
        i = a.method.chosen[k]
        for side in range(2):
            tree = contacts.tree[i, side]
            if tree >= 0:
                for j in range(contacts.size[tree]):
                    W[k, column[tree] + j] = contacts.W[i, 0, side, j]


@numba.njit(cache=True, nogil=True)
def _sweep(packed, n, p):
    """Fill p[:n] with impulses of the first n contacts that are chosen, as `resolve_non_pulling`, by Gauss-Seidel.

    The law of contacts without friction whose velocity of separation has the bound -e v_n is that of these impulses,
    and the cost of a sweep grows with the number of contacts only.
    """
    a = packed.arrays
    m = a.method
    s = m.sweeps
    for k in range(n):
        copy_contact(a.scaled, m.chosen[k], s.some, k)
        s.some.offset[k, 0] -= max(m.each.owes[m.chosen[k]], 0.0)
        s.bias[k] = m.each.chosen_restitution[k] * min(m.each.chosen_v_n[k], 0.0)
        s.p[k, 0] = max(p[k], 0.0)
        s.p[k, 1] = s.p[k, 2] = 0.0
    for j in range(s.u.shape[0]):
        s.u[j] = a.body.u[j]
    code, _, _, _ = gauss_seidel(n, s.some, s.friction, s.bias, s.u, s.p, s.memory, TOLERANCE, MAX_SWEEPS)
    for k in range(n):
        p[k] = s.p[k, 0]
    return NOT_CONVERGED if code != SOLVED else SOLVED


@numba.njit(cache=True, nogil=True)
def _collide_with_friction(packed, count):
    """Impulses with friction; returns 1 if they did not converge, else 0."""
    a = packed.arrays
    m, each = a.method, a.method.each
    f = m.impacts
    n = _select(packed, count)
    code = resolve_frictional_impacts(
        n, f.some, m.u, each.chosen_restitution, each.chosen_friction, STEPS, f.sweeps, f.work, f.p, f.state
    )
    for k in range(n):
        i = m.chosen[k]
        for d in range(3):
            a.impulses.p[i, d] = f.p[k, d]
        a.impulses.impact[i] = True
    return 1 if code == 2 else 0


@numba.njit(cache=True, nogil=True)
def _limit_all(packed, count, period):
    """Scale the impulses of the hand's group, or let it rest if nothing is left of them; whether some are."""
    a = packed.arrays
    m, counts = a.method, a.counts
    if m.consistent:
        _foresee_springs(packed, count, period)
    within = _limit(
        count,
        a.rows,
        a.scaled,
        a.tangent,
        a.impulses,
        a.body.hand,
        a.body.hand_tree,
        a.body.J_W,
        a.body.p_WH,
        period,
        m.consistent,
        m.wrench_limit,
        m.wrenches,
    )
    part = within
    if m.consistent:
        part = _bound_restitution(packed, count, within)
        _remember_restitution(packed, count)
    elif part == 0.0:  # the device renders nothing in a direction that is needed
        _penalize(packed, count, period, False)
        return False
    counts[PENDING] = 1 if m.spread and within < 1.0 else 0
    _scale(packed, count, part)
    return True


@numba.njit(cache=True, nogil=True)
def _foresee_springs(packed, count, period):
    """Fill `Impulses.spring` with what springs beside impulses give at most [N s], for the limits."""
    a = packed.arrays
    m = a.method
    for j in range(m.u.shape[0]):
        m.u[j] = a.body.u[j] + a.external[j]
    for i in range(count):
        if m.each.beside[i] > 0.0:
            middle = a.rows.separation[i] + 0.5 * period * contact_velocity(a.scaled, i, 0, m.u)
            a.impulses.spring[i] = max(0.0, -period * a.material.stiffness / m.each.beside[i] * middle)


@numba.njit(cache=True, nogil=True)
def _owed(account):
    """Energy that the impulses of a spread have taken beyond what the whole ones take [J]."""
    return max(0.0, account[0] - account[1])


@numba.njit(cache=True, nogil=True)
def _bound_restitution(packed, count, part):
    """Part of the impulses of the hand's group, at most `part`, of which a spread as a whole is passive; books it."""
    a = packed.arrays
    m, p, account = a.method, a.impulses.p, a.method.account
    for j in range(m.u.shape[0]):
        m.u[j] = 0.0
    work = square = 0.0
    begins = False
    for i in range(count):
        if a.impulses.impact[i] and _group_of(a.scaled, i, m.group) == _root(m.group, a.body.hand_tree):
            begins = begins or m.each.owes[i] < 0.0
            for d in range(3):
                work += p[i, d] * contact_velocity(a.scaled, i, d, a.body.u)
                apply_impulse(a.scaled, i, d, p[i, d], m.u)
    for j in range(m.u.shape[0]):
        square += m.u[j] * m.u[j]
    if begins:
        account[1] = max(account[1], account[0] - work - 0.5 * square)
    spare = _owed(account)
    if part * (work + 0.5 * part * square) > spare:
        part = min(part, (math.sqrt(work * work + 2.0 * square * spare) - work) / square)
    account[0] -= part * (work + 0.5 * part * square)
    return part


@numba.njit(cache=True, nogil=True)
def _remember_restitution(packed, count):
    """Note what the contacts of the hand's group owe, in the order in which `old` has them."""
    a = packed.arrays
    m = a.method
    n = 0
    for i in range(count):
        if a.rows.separation[i] < 0.0:
            owed = m.each.owes[i]
            collides = m.each.collides[i] and _group_of(a.scaled, i, m.group) == _root(m.group, a.body.hand_tree)
            if owed < 0.0 and collides:
                owed = a.rows.restitution[i] * max(-m.each.v_n[i], 0.0)
            m.owed[n] = owed
            n += 1


@numba.njit(cache=True, nogil=True)
def _scale(packed, count, part):
    """Scale all impulses of the hand's group."""
    a = packed.arrays
    if part < 1.0:
        for i in range(count):
            if a.impulses.impact[i] and _group_of(a.scaled, i, a.method.group) == _root(
                a.method.group, a.body.hand_tree
            ):
                for d in range(3):
                    a.impulses.p[i, d] *= part


@numba.njit(cache=True, nogil=True)
def _apply_friction(packed, count, period):
    """Add friction to the impulses of the contacts with penalties."""
    a = packed.arrays
    material, counts = a.material, a.counts
    before, count_before = counts[NOW], counts[BONDS]
    law = material.friction
    m = a.method
    bonds, old_bonds = m.bonds[1 - before], m.bonds[before]
    stored = bond_energy(count_before, old_bonds, m.energy)
    carry_over(count, a.rows.id, count_before, old_bonds, bonds, m.table)
    a.amounts[RELEASED] = max(0.0, stored - bond_energy(count, bonds, m.energy))
    p, u = a.impulses.p, m.u
    _slip_velocities(count, a.rows, a.scaled, a.tangent, a.body.u, m.slip)
    tangential_mobility(a.scaled, count, m.normal_force, m.sums, m.mobility)
    friction_forces(
        law,
        count,
        a.rows.normal,
        m.slip,
        m.normal_force,
        a.rows.friction,
        m.mobility,
        period,
        bonds,
        m.friction,
        m.viscosity,
        m.viscous_limit,
    )
    counts[SLIDING] = _add_friction(count, a.rows, a.tangent, m.friction, bonds.sliding, m.normal_force, period, p)
    _loosen(count, bonds, m.slip, m.energy, period, a.impulses)
    if law.printed:
        _damp_explicitly(count, a.scaled, m.viscosity, period, a.body.u, p)
    elif law.damping > 0.0 or law.model == COULOMB:
        for j in range(u.shape[0]):
            u[j] = a.body.u[j] + a.external[j]
        _damp(count, a.scaled, m.viscosity, m.viscous_limit, period, u, m.viscous, m.blocks, p)
    counts[NOW], counts[BONDS] = 1 - before, count
    a.amounts[STORED] += stored


@numba.njit(cache=True, nogil=True)
def _root(group, tree):
    while group[tree] != tree:
        tree = group[tree]
    return tree


@numba.njit(cache=True, nogil=True)
def _group_of(contacts, i, group):
    """Group of a contact: of the tree on its side B, else on its side A; -1 if neither moves."""
    if contacts.tree[i, 1] >= 0:
        return _root(group, contacts.tree[i, 1])
    if contacts.tree[i, 0] >= 0:
        return _root(group, contacts.tree[i, 0])
    return -1


@numba.njit(cache=True, nogil=True)
def _place(id, old, count, hint):
    """Place of an identity among the old ones, or -1; looks first where it would be had nothing changed."""
    for m in range(count):
        if old[(m + hint) % count] == id:
            return (m + hint) % count
    return -1


@numba.njit(cache=True, nogil=True)
def _penalties(
    count,
    rows,
    contacts,
    u,
    period,
    stiffness,
    damping,
    per_wall,
    pulls,
    impulsive,
    pending,
    consistent,
    hand_tree,
    old,
    old_count,
    owed,
    group,
    colliding,
    each,
    normal_force,
    impulses,
):
    """Say which groups collide, and fill in the penalties of the others and `each`.

    Where there are no springs beside impulses, the bonds of a group that collides are held.
    """
    p, spring, impact, bond, loosened = impulses.p, impulses.spring, impulses.impact, impulses.bond, impulses.loosened
    v_n, collides, sharing, owes, beside = each.v_n, each.collides, each.sharing, each.owes, each.beside
    for tree in range(group.shape[0]):
        group[tree] = tree
        colliding[tree] = False
    touching = 0
    for i in range(count):
        p[i, 0] = p[i, 1] = p[i, 2] = spring[i] = normal_force[i] = sharing[i] = 0.0
        collides[i] = False
        bond[i, 0] = bond[i, 1] = loosened[i] = 0.0
        owes[i], beside[i] = -1.0, 0.0
        impact[i] = False
        v_n[i] = contact_velocity(contacts, i, 0, u)
        if rows.separation[i] < 0.0:
            touching += 1
            a, b = contacts.tree[i, 0], contacts.tree[i, 1]
            if a >= 0 and b >= 0:
                group[_root(group, a)] = _root(group, b)
    collisions = False
    if impulsive:
        if pending and hand_tree >= 0:
            colliding[_root(group, hand_tree)] = True
            if consistent:
                for i in range(count):
                    k = _place(rows.id[i], old, old_count, i) if rows.separation[i] < 0.0 else -1
                    if k >= 0:
                        owes[i] = owed[k]
        for i in range(count):
            if rows.separation[i] < 0.0 and v_n[i] < 0.0:
                g = _group_of(contacts, i, group)
                if g >= 0 and not colliding[g] and _place(rows.id[i], old, old_count, i) < 0:
                    colliding[g] = True
        for i in range(count):
            if rows.separation[i] < 0.0 and v_n[i] < max(owes[i], 0.0):
                g = _group_of(contacts, i, group)
                if g >= 0 and colliding[g]:
                    collides[i] = True
                    collisions = True
        for tree in range(group.shape[0]):
            colliding[tree] = False
        for i in range(count):
            if collides[i]:
                colliding[_group_of(contacts, i, group)] = True
        if collisions:
            for i in range(count):
                if rows.separation[i] < 0.0 and 0.0 <= v_n[i] - max(owes[i], 0.0) <= _STILL:
                    g = _group_of(contacts, i, group)
                    if g >= 0 and colliding[g]:
                        collides[i] = True
            for i in range(count):
                if rows.half_of[i] >= 0:
                    collides[i] = collides[rows.half_of[i]]
            for i in range(count):
                if rows.half_of[i] >= 0:
                    collides[rows.half_of[i]] = False
    stored = 0.0
    share = 1.0
    m = 0
    for i in range(count):
        s = rows.separation[i]
        if not s < 0.0:
            continue
        old[m] = rows.id[i]
        m += 1
        if rows.coordinate[i] >= 0:
            continue  # a limit that rests is a law of its joint, see `haptic_sim.dynamics.joints`
        if per_wall:
            share = 0.0
            for k in range(count):
                if rows.separation[k] < 0.0 and rows.wall[k] == rows.wall[i]:
                    share += 1.0
        stored += 0.5 * stiffness / share * s * s
        g = _group_of(contacts, i, group)
        if collisions and g >= 0 and colliding[g]:
            beside[i] = share
            normal_force[i] = -stiffness * s / share if consistent else HELD
            continue
        sharing[i] = share
        # THESIS (4.5) has no clamp, so that a point that leaves quickly is pulled back (errata 7)
        push = -(stiffness * s + damping * v_n[i]) / share
        spring[i] = -stiffness / share * s * period  # clamped, its damper takes all that its spring gives
        if push > 0.0 or pulls:
            normal_force[i] = max(push, 0.0)
            p[i, 0] = push * period
    return touching, m, collisions, stored


@numba.njit(cache=True, nogil=True)
def _limit(count, rows, contacts, tangent, impulses, hand, hand_tree, J_W, p_WH, period, consistent, limit, work):
    """Part of the impulses of the hand's group that the device can render, beside the springs (THESIS 4.5.2).

    Scaling keeps them passive: the change of energy is convex in the factor and zero at 0.
    """
    p = impulses.p
    wrench, gross, f, pushed = work[0], work[1], work[2], work[3]  # gross: sums of magnitudes of the components
    for j in range(6):
        wrench[j] = gross[j] = pushed[j] = 0.0
    for i in range(count):
        if consistent and impulses.spring[i] > 0.0:
            _add_push(rows, i, hand, impulses.spring[i] / period, p_WH, pushed)
        if not impulses.impact[i]:
            continue
        if rows.coordinate[i] >= 0:
            if contacts.tree[i, 1] == hand_tree:
                # a couple about the axis of a hinge, a force along that of a slide
                j, s = rows.coordinate[i], p[i, 0] * rows.direction[i] / period
                first = 3 if J_W[3, j] != 0.0 or J_W[4, j] != 0.0 or J_W[5, j] != 0.0 else 0
                for d in range(first, first + 3):
                    wrench[d] += s * J_W[d, j]
                    gross[d] += abs(s * J_W[d, j])
            continue
        sign = 0.0
        if rows.body[i, 1] == hand:
            sign += 1.0
        if rows.body[i, 0] == hand:
            sign -= 1.0
        n, t = rows.normal[i], tangent[i]
        f[0] = p[i, 0] * n[0] + p[i, 1] * t[0] + p[i, 2] * (n[1] * t[2] - n[2] * t[1])
        f[1] = p[i, 0] * n[1] + p[i, 1] * t[1] + p[i, 2] * (n[2] * t[0] - n[0] * t[2])
        f[2] = p[i, 0] * n[2] + p[i, 1] * t[2] + p[i, 2] * (n[0] * t[1] - n[1] * t[0])
        for j in range(3):
            f[j] *= sign / period
            a, b = (j + 1) % 3, (j + 2) % 3
            wrench[j] += f[j]
            gross[j] += abs(f[j])
            # f_j at r turns about a by r_b f_j and about b by -r_a f_j
            wrench[3 + a] += (rows.point[i, b] - p_WH[b]) * f[j]
            wrench[3 + b] -= (rows.point[i, a] - p_WH[a]) * f[j]
            gross[3 + a] += abs((rows.point[i, b] - p_WH[b]) * f[j])
            gross[3 + b] += abs((rows.point[i, a] - p_WH[a]) * f[j])
    part = 1.0
    for j in range(6):
        # what rounding leaves of a sum of zero needs no rendering
        room = max(0.0, limit[j] - math.copysign(pushed[j], pushed[j] * wrench[j]))
        if abs(wrench[j]) > 1e-12 * gross[j] and abs(wrench[j]) * part > room:
            part = room / abs(wrench[j])
    return part


@numba.njit(cache=True, nogil=True)
def _add_push(rows, i, hand, force, p_WH, wrench):
    """Add to `wrench` at the hand what a force along the normal of contact i does to the hand's body."""
    sign = 0.0
    if rows.body[i, 1] == hand:
        sign += 1.0
    if rows.body[i, 0] == hand:
        sign -= 1.0
    for j in range(3):
        a, b = (j + 1) % 3, (j + 2) % 3
        f = sign * force * rows.normal[i, j]
        wrench[j] += f
        wrench[3 + a] += (rows.point[i, b] - p_WH[b]) * f
        wrench[3 + b] -= (rows.point[i, a] - p_WH[a]) * f


@numba.njit(cache=True, nogil=True)
def _slip_velocities(count, rows, contacts, tangent, u, slip):
    """Fill `slip` (C, 3) with the tangential velocities of B relative to A in world axes [m/s]."""
    for i in range(count):
        a = contact_velocity(contacts, i, 1, u)
        b = contact_velocity(contacts, i, 2, u)
        n, t = rows.normal[i], tangent[i]
        slip[i, 0] = a * t[0] + b * (n[1] * t[2] - n[2] * t[1])
        slip[i, 1] = a * t[1] + b * (n[2] * t[0] - n[0] * t[2])
        slip[i, 2] = a * t[2] + b * (n[0] * t[1] - n[1] * t[0])


@numba.njit(cache=True, nogil=True)
def _add_friction(count, rows, tangent, force, slides, normal_force, period, p):
    """Enter friction forces (C, 3) [N] as impulses along the tangents; returns how many contacts slide."""
    sliding = 0
    for i in range(count):
        if not normal_force[i] > 0.0:
            continue
        n, t, f = rows.normal[i], tangent[i], force[i]
        p[i, 1] += period * (f[0] * t[0] + f[1] * t[1] + f[2] * t[2])
        p[i, 2] += period * (
            f[0] * (n[1] * t[2] - n[2] * t[1]) + f[1] * (n[2] * t[0] - n[0] * t[2]) + f[2] * (n[0] * t[1] - n[1] * t[0])
        )
        if slides[i] != 0:
            sliding += 1
    return sliding


@numba.njit(cache=True, nogil=True)
def _loosen(count, bonds, slip, energy, period, impulses):
    """Say which impulses are of bonds that stick, and what bonds lost besides; `energy` (C,): before the step [J].

    A bond that sticks was stretched by the slip, and lost what it had stored less what it held without that. One that
    slides gives all that it does not store.
    """
    for i in range(count):
        sticks = bonds.stiffness[i] > 0.0 and bonds.sliding[i] == STICKS
        s = 0.0
        for d in range(3):
            z = bonds.strain[i, d] - (period * slip[i, d] if sticks else 0.0)
            s += z * z
        lost = energy[i] - 0.5 * bonds.stiffness[i] * s
        impulses.loosened[i] = max(0.0, lost) if sticks else lost
        if sticks:
            impulses.bond[i, 0], impulses.bond[i, 1] = impulses.p[i, 1], impulses.p[i, 2]


@numba.njit(cache=True, nogil=True)
def _damp(count, contacts, viscosity, limit, period, u, force, blocks, p):
    """Add the viscous part of friction, which sees all other impulses, to `p`; `u`: as without contacts."""
    for i in range(count):
        for d in range(3):
            if p[i, d] != 0.0:
                apply_impulse(contacts, i, d, p[i, d], u)
    damp(contacts, count, viscosity, limit, period, u, force, blocks)
    for i in range(count):
        p[i, 1] += period * force[i, 0]
        p[i, 2] += period * force[i, 1]


@numba.njit(cache=True, nogil=True)
def _damp_explicitly(count, contacts, viscosity, period, u, p):
    """Add the viscous part of friction at the velocities before the step to `p`, without a limit (THESIS 4.6)."""
    for i in range(count):
        if viscosity[i] > 0.0:
            for d in range(1, 3):
                p[i, d] -= period * viscosity[i] * contact_velocity(contacts, i, d, u)


@numba.njit(cache=True, nogil=True)
def _select(packed, count):
    """Copy the contacts that collide to the front of `some`, with restitution and friction; returns how many."""
    a = packed.arrays
    w, each = a.method, a.method.each
    rubs = a.material.friction.model != NONE
    m = 0
    for i in range(count):
        if each.collides[i]:
            w.chosen[m] = i
            each.chosen_restitution[m] = a.rows.restitution[i]
            each.chosen_friction[m] = a.rows.friction[i, 1] if rubs else 0.0
            copy_contact(a.scaled, i, w.impacts.some, m)
            if each.owes[i] >= 0.0:  # a wall that recedes with what is owed
                each.chosen_restitution[m] = 0.0
                w.impacts.some.offset[m, 0] -= each.owes[i]
            m += 1
    for j in range(w.u.shape[0]):
        w.u[j] = a.body.u[j]
    return m


@numba.njit(cache=True, nogil=True)
def copy_contact(contacts, i, some, m):
    """Make contact m of `some` the same as contact i of `contacts`."""
    for side in range(2):
        tree = contacts.tree[i, side]
        some.tree[m, side] = tree
        if tree >= 0:
            for d in range(3):
                for k in range(contacts.size[tree]):
                    some.W[m, d, side, k] = contacts.W[i, d, side, k]
    for d in range(3):
        some.offset[m, d] = contacts.offset[i, d]
