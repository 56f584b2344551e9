"""Contacts with penalties and friction while they last, and with impulses when they begin (THESIS 4.1-4.4).

`penalty`: penalties only. `impulse_augmented`: the contacts of a *group* (bodies connected by overlapping contacts)
collide when one of them is new (it overlaps, did not in the step before, and its points approach), or when impulses of
the step before were scaled and are to be spread. While a group collides, impulses and no penalties act at all its
contacts whose points approach or are at rest, so that a body struck against a wall does not enter it. While the group
rests, penalties and friction act; with springs that begin without a force (`springs`) these act beside impulses, too,
and another point of a manifold that overlapped before is no new contact. `frictional_impulses`: the same with impulses
that obey Coulomb's law (beyond THESIS, which names it in 7.2).

The parts: `groups` finds the groups; `impacts` resolves those that collide; `spread` handles impulses that a device
cannot render (THESIS 4.5.2); `friction` and `penalties` have laws and limits. This module decides which contacts
collide, and applies penalties and friction.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from haptic_sim.contact.foreign_friction import foreign_forces
from haptic_sim.contact.friction import (
    Bonds,
    Rubbing,
    bond_energy,
    carry_over,
    damp,
    friction_forces,
    table_size,
    tangential_mobility,
    tangential_norms,
)
from haptic_sim.contact.friction_models import COULOMB, FOREIGN, NONE, STICKS
from haptic_sim.contact.groups import find_among, find_groups, find_place, find_root
from haptic_sim.contact.impacts import (
    Impacts,
    collide_with_friction,
    collide_without_friction,
    gather,
    number_columns,
)
from haptic_sim.contact.passivity import (
    energy_after,
    find_gains,
    foresee_bonds,
    keep_friction_passive,
    record_final_storage,
)
from haptic_sim.contact.penalties import (
    RIGID,
    STABLE,
    ImplicitPenalties,
    find_ratio_of,
    find_ratios,
    push_implicitly,
)
from haptic_sim.contact.rebounds import close_rebounds, open_rebounds
from haptic_sim.contact.response import (
    BONDS,
    CONTACTS,
    KEPT,
    LIMITED,
    NOW,
    OF_HAND,
    PENDING,
    RELEASED,
    REMEMBERED,
    SLIDING,
    STATE,
    STORED,
    UNRESOLVED,
    ContactParameters,
    ContactResponse,
    Keeper,
    Rendering,
    add_up,
    build_step,
    damp_early,
    fill_scaled,
    foresee,
    resist_impacts,
    set_up,
)
from haptic_sim.contact.sequential import Sequence, collide_in_sequence, collide_in_sequence_with_friction
from haptic_sim.contact.solvers.impulses import ImpulseMemory
from haptic_sim.contact.spread import limit_impulses, owed_energy
from haptic_sim.contact.springs import Springs, find_strains, reduce_offsets, remember, replaces
from haptic_sim.dynamics.energy import DAMPING, FRICTION, IMPACT
from haptic_sim.dynamics.joints import find_laws, settle_joints
from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.dynamics.scaled import apply_impulse, contact_velocity, tangential_norms_of
from haptic_sim.hand import Hand
from haptic_sim.kernels import kernel
from haptic_sim.messages import COLLIDING, FREE, RESTING
from haptic_sim.packed import Packed
from haptic_sim.parameters import ParameterError
from haptic_sim.records import allocate, array, numbers, part, record, shared, value

# [m/s] a contact that separates slower is at rest: what rounding leaves of zero must not decide whether it takes part
# in an impact. THESIS (4.2) has v_n >= 0 for separating.
_STILL = 1e-9


@record
class CompliantArrays(NamedTuple):
    """Memory of these methods, for kernels. A group of contacts is known by the root of its trees."""

    impulsive: bool = value("whether there are impulses")
    frictional: bool = value("whether impulses obey Coulomb's law")
    limited: bool = value("whether impulses beyond wrench_limit are scaled")
    spread: bool = value("whether what impulses lack by scaling is given in the following steps")
    consistent: bool = value("whether springs act beside impulses, and restitution is remembered")
    wrench_limit: np.ndarray = shared("what the device can render", 6, unit="N, N m")
    single_body: bool = value("whether the tool is one body, so that only contacts of its own come to the hand")
    hand: Packed = value("arrays of the hand, `HandArrays`")

    old_id: np.ndarray = array("contacts that overlapped in the step before", "contacts", dtype=np.int64)
    springs: Springs = part(Springs, "springs of the contacts")
    old_owed: np.ndarray = array("velocity that these contacts owe, see owed", "contacts", unit="m/s")
    account: np.ndarray = array("energy that impulses of a spread have taken, and the whole ones take", 2, unit="J")
    bonds: tuple[Bonds, Bonds] = part(Bonds, "bonds of this step and of the one before, in turn", copies=2)

    group: np.ndarray = array("union-find forest of the trees", "trees", dtype=np.int64)
    root: np.ndarray = array("group of each contact, see `find_groups`", "contacts", dtype=np.int64)
    colliding: np.ndarray = array("whether the group of a root collides", "trees", dtype=np.bool_)
    ratios: np.ndarray = array("two sums of each group, see `find_ratios`", 2, "trees")
    gains: np.ndarray = array("what contacts gain in a step, by group, see `find_gains`", 2, "trees", unit="J")
    elastic: np.ndarray = array("elastic energy before the step by group", "trees", unit="J")
    laws: np.ndarray = array("work of the laws of joints by group", "trees", unit="J")
    late: np.ndarray = array("work of other forces on the path less that at the mean velocity", "trees", unit="J")
    ahead: np.ndarray = array("energy less storage of the bonds after the step, by group", "trees", unit="J")
    behind: np.ndarray = array("storage less energy of the bonds before the step, by group", "trees", unit="J")
    moved: np.ndarray = array("storage of the bonds that no step has left in them, by group", "trees", unit="J")
    implicitly: np.ndarray = array("whether penalties of the group act implicitly", "trees", dtype=np.bool_)
    again: np.ndarray = array("whether they do so without friction beside them", "trees", dtype=np.bool_)
    whole: np.ndarray = array("what the group gains with its whole friction", "trees", unit="J")
    acting: np.ndarray = array("part of the friction of each group that is among its impulses", "trees")
    left: np.ndarray = array("part that is left of it", "trees")
    rubbed: np.ndarray = array("friction along the tangents", "contacts", 2, unit="N s")
    sums: np.ndarray = array("memory of `tangential_mobility`", "trees")
    norms: np.ndarray = array("memory of `tangential_mobility`", "contacts", 2)

    v_n: np.ndarray = array("normal velocity", "contacts", unit="m/s")
    collides: np.ndarray = array("whether the contact collides", "contacts", dtype=np.bool_)
    share: np.ndarray = array("contacts that share the stiffness of one, 0: it has no spring", "contacts")
    penalty_sharers: np.ndarray = array("contacts that share the stiffness of one with a penalty, else 0", "contacts")
    spring_sharers: np.ndarray = array("the same where springs act beside impulses", "contacts")
    owed: np.ndarray = array(
        "velocity of separation that impulses of a spread still owe; negative: it is not of one", "contacts", unit="m/s"
    )
    gain: np.ndarray = array("h (b + h k / 2), see `find_ratios`", "contacts", unit="kg")
    rubbing: Rubbing = part(Rubbing, "friction and what it depends on")
    viscous: np.ndarray = array("viscous friction along the tangents", "contacts", 2, unit="N")
    blocks: np.ndarray = array("memory of `damp`", "contacts", 3)
    energy: np.ndarray = array("energy of the bonds before the step", "contacts", unit="J")
    stored: np.ndarray = array("their storage, see `passivity`", "contacts", unit="J")
    held: np.ndarray = array("impulses of bonds if they stick", "contacts", 2, unit="N s")
    table: np.ndarray = array("memory of `carry_over`", "table", dtype=np.int64)

    chosen: np.ndarray = array("contacts that are resolved together", "contacts", dtype=np.int64)
    chosen_v_n: np.ndarray = array("normal velocity of the chosen contacts", "contacts", unit="m/s")
    chosen_restitution: np.ndarray = array("coefficient of restitution of the chosen contacts", "contacts")
    chosen_friction: np.ndarray = array("kinetic coefficient of friction of the chosen contacts", "contacts")
    chosen_p: np.ndarray = array("normal impulse of the chosen contacts", "contacts", unit="N s")
    W: np.ndarray = array(
        "normal rows, then those of laws of joints, with the columns of their group", "rows * nv", unit="kg^-1/2"
    )
    column: np.ndarray = array("first column of each tree in W", "trees", dtype=np.int64)
    impulse: ImpulseMemory = part(ImpulseMemory, "memory of `resolve_freely` and `resolve_non_pulling`")
    implicit: ImplicitPenalties = part(ImplicitPenalties, "penalties that act after the impulses")
    impacts: Impacts = value("impulses with friction, or in a sequence; of no contacts where there are none")
    sequence: Sequence = value("memory of impacts in a sequence; of no contacts where they are simultaneous")

    u: np.ndarray = array("a scaled velocity", "nv", unit="kg^1/2 m/s")
    wrench: np.ndarray = array("wrench of the impulses at the hand", 6, unit="N, N m")
    gross: np.ndarray = array("sums of the magnitudes of the terms of that wrench", 6, unit="N, N m")
    pushed: np.ndarray = array("wrench of the springs beside impulses at the hand", 6, unit="N, N m")
    force: np.ndarray = array("force of one impulse", 3, unit="N")
    one: np.ndarray = array("wrench of one contact at the hand of a linkage", 6, unit="N, N m")


class CompliantContact(ContactResponse):
    """The methods `penalty`, `impulse_augmented` and `frictional_impulses`.

    Args:
        rendering: what is done about impulses that the device cannot render; those of LIMITED are done here.
        wrench_limit: of the device, (6,) [N, N m].
        hand: of the body; needed for a linkage, where what the device renders of its impulses is limited.
        impulsive: whether contacts that begin have impulses; frictional: whether these obey Coulomb's law.
    """

    SPRUNG = True

    def __init__(
        self,
        body: Multibody,
        parameters: ContactParameters,
        capacity: int,
        rendering: Rendering,
        wrench_limit: np.ndarray,
        hand: Hand | None = None,
        *,
        impulsive: bool,
        frictional: bool,
    ):
        super().__init__(body, parameters, capacity)
        limited = rendering in LIMITED
        law = parameters.multiple_impacts if impulsive else "simultaneous"
        sequential = law != "simultaneous"
        self._respond, self.step_kernel = _RESPONSES[frictional, sequential]
        if limited and len(body.arrays.Q) > 0:
            raise ParameterError(
                [
                    f"device.impulse_rendering = {rendering.removeprefix('printed_')}: is not made for a tool under "
                    "exact constraints, which needs full or saturated"
                ]
            )
        sizes = {
            "contacts": capacity,
            "rows": capacity + 3 * len(body.arrays.joints.velocity),
            "nv": body.nu,
            "trees": max(body.contact_trees[0].size, 1),
            "table": table_size(capacity),
        }
        moments = self._arrays.moments
        self._method = allocate(
            CompliantArrays,
            sizes,
            springs=allocate(Springs, sizes, stiffness=moments.stiffness, strain=moments.strain),
            wrench_limit=np.array(wrench_limit, float),
            single_body=body.held_single,
            hand=(hand or Hand(body, metric="length", free=True)).packed,
            impulsive=impulsive,
            frictional=frictional,
            limited=limited,
            spread=rendering in ("spread", "printed_spread"),
            consistent=impulsive
            and (rendering == "spread" or (rendering != "printed_spread" and parameters.penalty == "consistent")),
            impacts=Impacts.allocate(capacity if frictional or sequential else 0, body),
            sequence=Sequence.allocate(capacity, body, law),
        )

    @property
    def keeper(self) -> Keeper | None:
        """Keeper of the contact memory while bodies sleep; printed self-collisions have further rows in it."""
        return None if self.parameters.self_collision == "printed" else _KEEPER

    @property
    def remedy(self) -> str:
        """Remedy for overlaps that grow while impulses replace penalties; empty if there are no such impulses."""
        if not self._method.impulsive or self._method.consistent:
            return ""
        if self._method.limited:
            consistent = "device.spread = consistent, " if self._method.spread else ""
            return (
                f"impulses beyond device.wrench_limit take many steps; choose {consistent}a larger "
                "device.wrench_limit, device.impulse_rendering = saturated, or environment.method = penalty or "
                "constraint"
            )
        return (
            "choose contact.penalty = consistent, environment.method = penalty or constraint, or a smaller "
            "contact.stiffness"
        )


@kernel
def _settle(packed, count, period, collide):
    """Limit the impulses, and all that follows from them."""
    a = packed.arrays
    counts = a.counts
    if collide and a.method.limited:
        collide = limit_impulses(packed, count, period)
        if not collide:  # the device renders nothing in a direction that is needed
            _penalize(packed, count, period, False)
    if collide:
        _resist_impacts(packed, count, period)
    if collide and a.method.consistent:
        counts[UNRESOLVED] += _push_beside_impulses(packed, count, period)
    if counts[PENDING] == 1:
        a.amounts[KEPT] += owed_energy(a.method.account)
    counts[STATE] = FREE if counts[CONTACTS] == 0 else COLLIDING if collide else RESTING
    if a.material.begins_free and count > 0:
        _act_passively(packed, count, period)
    else:
        _apply_friction(packed, count, period)
    if open_rebounds(packed, count, period, True):
        _count_bonds(packed, count, period)
        close_rebounds(packed, count, True)
    if _stores_bonds(a) and count > 0:
        record_final_storage(count, a.method.bonds[counts[NOW]], a, period)
    add_up(packed, count, period)


@kernel
def _stores_bonds(a):
    """Whether bonds of friction count with their storage, see `passivity`, at the beginning and the end of a step."""
    law = a.material.friction
    return a.material.begins_free and law.model != NONE and not law.printed


@kernel
def _count_bonds(packed, count, period):
    """Enter what bonds of friction take in the budgets of `rebounds`: the smaller of their energy and storage.

    Where their points have moved, it is the lower storage from which a step starts.
    """
    a = packed.arrays
    if a.material.friction.model == NONE:
        return
    m, moments, free = a.method, a.moments, a.body.joints.stopped
    bonds, lasts = m.bonds[a.counts[NOW]], _stores_bonds(a)
    for i in range(count):
        g = find_root(moments.group, max(a.scaled.tree[i, 0], a.scaled.tree[i, 1]))
        before = min(m.stored[i], bonds.final_storage[i]) if lasts else m.stored[i]
        energy, growth = energy_after(i, bonds, a, period, free)
        moments.budget[g, 0] -= max(0.0, energy_after(i, bonds, a, period, a.u)[1] - growth)
        moments.budget[g, 2] += min(before - energy - growth, m.energy[i] - energy)


@kernel
def _resist_impacts(packed, count, period):
    """Let rolling and torsional friction be part of the impacts."""
    a = packed.arrays
    m, rubs = a.method, a.method.frictional and a.material.friction.model != NONE
    resist_impacts(packed, count, period, rubs, not m.consistent)


@kernel
def _act_passively(packed, count, period):
    """Let penalties that would add energy act implicitly, and apply friction that adds none, see `passivity`."""
    a = packed.arrays
    m, counts, law = a.method, a.counts, a.material.friction
    rubs = law.model != NONE and not law.printed
    if not rubs and not a.body.joints.nonsmooth and not _any_penalty(count, m.penalty_sharers):
        _apply_friction(packed, count, period)  # nothing here can gain
        return
    start = (counts[NOW], counts[BONDS], a.amounts[STORED])
    _friction_and_gains(packed, count, period, rubs)
    some = False
    for g in range(m.implicitly.shape[0]):
        m.implicitly[g], m.again[g] = m.gains[0, g] > 0.0, False
        some = some or m.implicitly[g]
    if some:
        _act_implicitly(packed, count, period, start, m.implicitly, rubs)
        _friction_and_gains(packed, count, period, rubs)
    damps = False  # not `max() > 0`: of that Numba's own code is kept, which imports SciPy to be loaded
    for g in range(m.gains.shape[1]):
        damps = damps or m.gains[1, g] > 0.0
    if rubs and damps and not keep_friction_passive(packed, count, period):
        _act_implicitly(packed, count, period, start, m.again, False)
        _friction_and_gains(packed, count, period, rubs)
        keep_friction_passive(packed, count, period)
    if some:
        _divide_implicit_impulses(packed, count, period)


@kernel
def _any_penalty(count, sharers):
    """Whether some contact has a penalty, and not impulses only."""
    some = False
    for i in range(count):
        some = some or sharers[i] > 0.0
    return some


@kernel
def _divide_implicit_impulses(packed, count, period):
    """Enter which part of implicit penalties springs give at the velocities after the step."""
    a = packed.arrays
    m, spring = a.method, a.impulses.spring
    for i in range(count):
        if spring[i] != 0.0 and m.share[i] > 0.0 and m.implicitly[m.root[i]]:
            left = max(0.0, m.springs.strain[i] - period * a.after[i, 0])
            spring[i] = period * a.material.stiffness / m.share[i] * left


@kernel
def _friction_and_gains(packed, count, period, rubs):
    """Apply friction, keep it in `rubbed`, and find the gains."""
    m = packed.arrays.method
    p, rubbed = packed.arrays.impulses.p, m.rubbed
    for i in range(count):
        rubbed[i, 0], rubbed[i, 1] = -p[i, 1], -p[i, 2]
    _apply_friction(packed, count, period)
    for i in range(count):
        rubbed[i, 0], rubbed[i, 1] = rubbed[i, 0] + p[i, 1], rubbed[i, 1] + p[i, 2]
    foresee(packed, count, period)
    for g in range(m.acting.shape[0]):
        m.acting[g] = 1.0
    find_gains(packed, count, period, rubs)


@kernel
def _act_implicitly(packed, count, period, start, groups, beside):
    """Take friction back, and let penalties of some groups act implicitly, `beside` bonds that stick or alone."""
    a = packed.arrays
    m, p, rubbed, held, counts = a.method, a.impulses.p, a.method.rubbed, a.method.held, a.counts
    counts[NOW], counts[BONDS], a.amounts[STORED] = start
    for i in range(count):
        for d in range(2):
            p[i, 1 + d] -= rubbed[i, d]
            if beside and not a.impulses.impact[i]:
                p[i, 1 + d] = held[i, d]
    for g in range(m.group.shape[0]):
        if groups[g] and not m.colliding[g]:
            counts[UNRESOLVED] += not _penalize_implicitly(
                packed, g, count, period, m.penalty_sharers, a.material.damping, 0.0
            )
    if beside:
        for i in range(count):
            if not a.impulses.impact[i]:
                p[i, 1] = p[i, 2] = 0.0


@kernel
def _add_kick(packed, u):
    """Add to u what rolling and torsional friction do in impacts."""
    moments = packed.arrays.moments
    if moments.acts[1]:
        for j in range(u.shape[0]):
            u[j] += moments.kick[j]


@kernel
def _slow_joints(packed, count, period):
    """Let damping of the joints of groups that collide act before the impacts."""
    a = packed.arrays
    m, joints = a.method, a.body.joints
    for k in range(joints.early.shape[0]):
        joints.early[k] = m.colliding[find_root(m.group, joints.rows.tree[k, 1])]
    damp_early(packed, count, period)
    for i in range(count):
        m.v_n[i] = a.before[i, 0]


@kernel
def _penalize(packed, count, period, impulsive):
    """Fill in penalties where there are no collisions; whether some contacts collide."""
    a = packed.arrays
    m, counts = a.method, a.counts
    if impulsive and counts[PENDING] == 0:
        m.account[0] = m.account[1] = 0.0
    a.amounts[KEPT] = -owed_energy(m.account)
    collide = _find_colliding(packed, count, period, impulsive)
    _find_springs(packed, count, period)
    _fill_penalties(packed, count, period, collide)
    a.amounts[STORED] += owed_energy(m.account)
    counts[PENDING] = 0
    judged = a.material.pulls or a.material.begins_free  # or will be, see `_act_passively`
    if not judged and _exceeds_limit(packed, count, period):
        for g in range(m.group.shape[0]):
            if m.ratios[0, g] > STABLE * m.ratios[1, g]:
                explicit = STABLE * m.ratios[1, g] / m.ratios[0, g]
                counts[UNRESOLVED] += not _penalize_implicitly(
                    packed, g, count, period, m.penalty_sharers, a.material.damping, explicit
                )
    return collide


@kernel
def _find_colliding(packed, count, period, impulsive):
    """Clear what the step before left, and say which contacts and groups collide; whether some do."""
    a = packed.arrays
    rows, contacts, impulses, counts, m = a.rows, a.scaled, a.impulses, a.counts, a.method
    p, group, colliding, old, old_count = impulses.p, m.group, m.colliding, m.old_id, counts[REMEMBERED]
    v_n, collides, owed, before, root = m.v_n, m.collides, m.owed, a.before, m.root
    for tree in range(group.shape[0]):
        group[tree] = tree
        colliding[tree] = False
    touching = 0
    separation, tree_of, id = rows.separation, contacts.tree, rows.id
    spring, bond, loosened, impact = impulses.spring, impulses.bond, impulses.loosened, impulses.impact
    normal_force, penalty_sharers, spring_sharers = m.rubbing.normal_force, m.penalty_sharers, m.spring_sharers
    for i in range(count):
        p[i, 0] = p[i, 1] = p[i, 2] = spring[i] = 0.0
        normal_force[i] = penalty_sharers[i] = spring_sharers[i] = 0.0
        bond[i, 0] = bond[i, 1] = loosened[i] = 0.0
        collides[i] = impact[i] = False
        owed[i], v_n[i] = -1.0, before[i, 0]
        if separation[i] < 0.0:
            touching += 1
            one, other = tree_of[i, 0], tree_of[i, 1]
            if one >= 0 and other >= 0:
                group[find_root(group, one)] = find_root(group, other)
    counts[CONTACTS] = touching
    find_groups(count, tree_of, group, root)
    if not impulsive:
        return False
    if counts[PENDING] != 0 and a.body.hand_tree >= 0:
        spread = find_root(group, a.body.hand_tree)
        colliding[spread] = True
        if m.consistent:  # what has left the group is owed nothing: nothing bounds what impulses give there
            for i in range(count):
                own = rows.separation[i] < 0.0 and root[i] == spread
                k = find_place(rows.id[i], old, old_count, i) if own else -1
                if k >= 0:
                    owed[i] = m.old_owed[k]
    for i in range(count):
        if separation[i] < 0.0 and v_n[i] < 0.0:
            g = root[i]
            if g >= 0 and not colliding[g] and find_place(id[i], old, old_count, i) < 0:
                free = a.material.begins_free
                colliding[g] = not free or not replaces(i, rows, v_n[i], m.springs, old_count, period)
    some = False
    for i in range(count):
        if rows.separation[i] < 0.0 and v_n[i] < max(owed[i], 0.0):
            g = root[i]
            if g >= 0 and colliding[g]:
                collides[i] = some = True
    for tree in range(group.shape[0]):
        colliding[tree] = False
    for i in range(count):
        if collides[i]:
            colliding[root[i]] = True
    if some:
        for i in range(count):
            if rows.separation[i] < 0.0 and 0.0 <= v_n[i] - max(owed[i], 0.0) <= _STILL:
                g = root[i]
                if g >= 0 and colliding[g]:
                    collides[i] = True
        for i in range(count):
            if rows.half_of[i] >= 0:
                collides[i] = collides[rows.half_of[i]]
        for i in range(count):
            if rows.half_of[i] >= 0:
                collides[rows.half_of[i]] = False
    return some


@kernel
def _find_springs(packed, count, period):
    """Find stiffness and strain of the springs of all contacts that overlap, and remember them."""
    a = packed.arrays
    rows, material, m = a.rows, a.material, a.method
    separation, weight, share_of = rows.separation, rows.weight, m.share
    strain, stiffness = m.springs.strain, m.springs.stiffness
    for i in range(count):
        strain[i] = stiffness[i] = share_of[i] = 0.0
        if not separation[i] < 0.0 or rows.coordinate[i] >= 0:
            continue  # a limit that rests is a law of its joint, see `haptic_sim.dynamics.joints`
        share = 1.0
        if material.shared:
            share = 0.0
            for k in range(count):
                if separation[k] < 0.0 and rows.wall[k] == rows.wall[i]:
                    share += weight[k]
        share_of[i] = share / weight[i]
        strain[i], stiffness[i] = -separation[i], material.stiffness / share_of[i]
    if material.begins_free:
        old_count = a.counts[REMEMBERED]
        find_strains(count, rows, m.root, m.group, m.springs, m.old_id, old_count, a.after, period)
        reduce_offsets(count, m.springs, period, a.flows[DAMPING] + a.flows[FRICTION] + a.flows[IMPACT])
        a.counts[REMEMBERED] = remember(count, rows, a.scaled, m.springs, m.old_id)
        return
    n = 0
    for i in range(count):
        if separation[i] < 0.0:
            m.old_id[n] = rows.id[i]
            n += 1
    a.counts[REMEMBERED] = n


@kernel
def _fill_penalties(packed, count, period, collide):
    """Fill in the penalties of the contacts whose group does not collide."""
    a = packed.arrays
    material, impulses, m = a.material, a.impulses, a.method
    stored = 0.0
    share_of, strain, v_n = m.share, m.springs.strain, m.v_n
    stiffness, damping, pulls = material.stiffness, material.damping, material.pulls
    spring, p, normal_force, penalty_sharers = impulses.spring, impulses.p, m.rubbing.normal_force, m.penalty_sharers
    for i in range(count):
        share = share_of[i]
        if not share > 0.0:
            continue
        s = -strain[i]
        stored += 0.5 * stiffness / share * s * s
        g = m.root[i] if collide else -1
        if g >= 0 and m.colliding[g]:
            m.spring_sharers[i] = share
            if m.consistent:
                m.rubbing.normal_force[i] = -material.stiffness * s / share
            continue
        penalty_sharers[i] = share
        # THESIS (4.5) has no clamp, so that a point that leaves quickly is pulled back (errata 7)
        push = -(stiffness * s + damping * v_n[i]) / share
        # clamped, its damper takes all that its spring gives
        spring[i] = -stiffness / share * s * period
        if push > 0.0 or pulls:
            normal_force[i] = max(push, 0.0)
            p[i, 0] = push * period
    a.amounts[STORED] = stored


@kernel
def _push_beside_impulses(packed, count, period):
    """Let springs act after the impulses of the groups that collide; returns how many groups did not converge."""
    a = packed.arrays
    m = a.method
    failures = 0
    explicit = 0.0 if a.material.begins_free else 0.5  # at the end of the step they take energy, in its middle none
    for g in range(m.group.shape[0]):
        if m.group[g] == g and m.colliding[g]:
            failures += not _penalize_implicitly(packed, g, count, period, m.spring_sharers, 0.0, explicit)
    return failures


@kernel
def _exceeds_limit(packed, count, period):
    """Whether the ratio of some group is beyond the limit of explicit penalties; fills the ratios of all."""
    a = packed.arrays
    m, gain = a.method, a.method.gain
    some = False
    strain, v_n, normal_force, penalty_sharers = m.springs.strain, m.v_n, m.rubbing.normal_force, m.penalty_sharers
    stiffness = a.material.stiffness
    for i in range(count):
        gain[i] = 0.0
        if penalty_sharers[i] > 0.0:
            damping = a.material.damping
            if not normal_force[i] > 0.0:  # its damper takes no more than its spring gives
                damping = stiffness * strain[i] / v_n[i] if strain[i] > 0.0 else 0.0
            gain[i] = period * (damping + 0.5 * period * stiffness) / penalty_sharers[i]
            some = True
    if not some:
        return False
    for tree in range(m.group.shape[0]):
        m.group[tree] = find_root(m.group, tree)
    if a.counts[OF_HAND]:
        return find_ratio_of(count, a.rows, a.body.p_WH, a.body.inverse_inertia, gain, a.before, m.ratios, STABLE)
    return find_ratios(count, a.scaled, gain, m.group, a.before, m.u, m.ratios, STABLE)


@kernel
def _penalize_implicitly(packed, g, count, period, share, damper, explicit):
    """Replace the penalties of a group by some that act after its impulses; whether they converged.

    Args:
        share: how many contacts share the stiffness of one, 0 for those that have no penalty, (C,).
        damper: damping that the contacts share [N s/m].
        explicit: part of the penalties that is explicit.
    """
    fill_scaled(packed)
    a = packed.arrays
    m, p, spring, impact = a.method, a.impulses.p, a.impulses.spring, a.impulses.impact
    problem = m.implicit
    v_free, p0, v, q = problem.v_free, problem.p0, problem.v, problem.p
    for j in range(m.u.shape[0]):
        m.u[j] = a.u_before[j] + a.external[j]
    for i in range(count):
        for d in range(0 if impact[i] else 1, 3):
            if p[i, d] != 0.0:
                apply_impulse(a.scaled, i, d, p[i, d], m.u)
    _add_kick(packed, m.u)
    n, some = 0, False
    for i in range(count):
        if share[i] > 0.0 and m.root[i] == g:
            stiffness, damping = a.material.stiffness / share[i], damper / share[i]
            m.chosen[n] = i
            v_free[n] = contact_velocity(a.scaled, i, 0, m.u)
            p0[n] = period * stiffness * m.springs.strain[i]
            if m.rubbing.normal_force[i] > 0.0:
                p0[n] -= period * explicit * damping * m.v_n[i]
            else:
                p0[n] *= 1.0 - explicit
            problem.c[n] = period * (1.0 - explicit) * (damping + period * stiffness)
            problem.least[n], problem.most[n] = 0.0, np.inf
            some = some or p0[n] > problem.c[n] * v_free[n]
            q[n] = 0.0
            n += 1
    ended = True
    nonsmooth = n > 0 and a.body.joints.nonsmooth
    if some or nonsmooth:  # as a rule no spring pushes after impulses at contacts that have just begun
        columns = number_columns(packed, g)
        gather(packed, n, m.W[: n * columns].reshape((n, -1)))
        laws = _fill_laws(packed, g, n, columns, period) if nonsmooth else 0
        W = m.W[: (n + laws) * columns].reshape((n + laws, -1))
        ended = push_implicitly(n + laws, laws, W, problem)
    for k in range(n):
        i = m.chosen[k]
        p[i, 0], m.rubbing.normal_force[i], spring[i] = (p[i, 0] if impact[i] else 0.0) + q[k], q[k] / period, 0.0
        if q[k] > 0.0:
            end = (1.0 - explicit) * period * v[k] - m.springs.strain[i]
            spring[i] = -a.material.stiffness / share[i] * min(end, 0.0) * period
    return ended


@kernel
def _fill_laws(packed, g, n, columns, period):
    """Fill in the laws of joints of a group as rows after the first n of the implicit problem; returns how many.

    With `CompliantArrays.u` without these laws, see `penalties`.
    """
    a = packed.arrays
    m, problem, joints = a.method, a.method.implicit, a.body.joints
    rows = joints.rows
    held = find_laws(joints, a.body, period, m.u)
    first = n
    for k in range(joints.velocity.shape[0]):
        tree = rows.tree[k, 1]
        if find_root(m.group, tree) != g or not joints.mobility[k] > held:
            continue
        rigid = 1.0 / joints.mobility[k]
        for i in range(first):
            along = 0.0
            for j in range(rows.size[tree]):
                along += m.W[i * columns + m.column[tree] + j] * rows.W[k, 0, 1, j]
            along /= joints.mobility[k]
            rigid += problem.c[i] * along * along
        rigid *= RIGID
        for kind in range(3):
            bound = joints.low[k] if kind == 0 else joints.high[k] if kind == 1 else 0.0
            friction = joints.friction_impulse[k]
            if not abs(bound) < np.inf or (kind == 2 and not friction > 0.0):
                continue
            problem.least[n] = 0.0 if kind == 0 else -np.inf if kind == 1 else -friction
            problem.most[n] = np.inf if kind == 0 else 0.0 if kind == 1 else friction
            problem.c[n], problem.p0[n] = rigid, rigid * bound
            v = 0.0
            for j in range(n * columns, (n + 1) * columns):
                m.W[j] = 0.0
            for j in range(rows.size[tree]):
                m.W[n * columns + m.column[tree] + j] = rows.W[k, 0, 1, j]
                v += rows.W[k, 0, 1, j] * m.u[rows.start[tree] + j]
            problem.v_free[n] = v
            n += 1
    return n - first


@kernel
def _apply_friction(packed, count, period):
    """Add friction to the impulses of the contacts with penalties."""
    a = packed.arrays
    material, counts = a.material, a.counts
    counts[SLIDING] = 0
    a.amounts[RELEASED] = 0.0
    if material.friction.model == NONE:
        counts[BONDS] = 0
        return
    before, count_before = counts[NOW], counts[BONDS]
    law = material.friction
    m = a.method
    bonds, old_bonds = m.bonds[1 - before], m.bonds[before]
    stored = bond_energy(count_before, old_bonds, m.energy)
    same = carry_over(count, a.rows.id, count_before, old_bonds, bonds, m.table)
    for i in range(count):  # without springs beside impulses nothing presses the contacts of a group that collides
        bonds.held[i] = m.spring_sharers[i] > 0.0 and not m.consistent
    a.amounts[RELEASED] = 0.0 if same else max(0.0, stored - bond_energy(count, bonds, m.energy))
    if material.begins_free or a.body.joints.bounces:
        foresee_bonds(count, bonds, a, period, m.stored, m.held)
    p, u, r = a.impulses.p, m.u, m.rubbing
    _slip_velocities(count, a.rows.normal, a.before, a.tangent, r.slip)
    if a.counts[OF_HAND]:
        tangential_norms_of(count, a.rows, a.body.p_WH, a.tangent, a.body.inverse_inertia, m.norms)
    else:
        tangential_norms(a.scaled, count, m.norms)
    tangential_mobility(a.scaled, count, r.normal_force, m.norms, m.sums, r.mobility)
    if law.model == FOREIGN:
        foreign_forces(law, count, a.rows.normal, a.rows.friction, period, bonds, r)
    else:
        friction_forces(law, count, a.rows.normal, a.rows.friction, period, bonds, r)
    for i in range(count):  # of collisions
        a.impulses.bond[i, 0], a.impulses.bond[i, 1] = p[i, 1], p[i, 2]
    counts[SLIDING] = _add_friction(count, a.rows.normal, a.tangent, r.force, bonds.sliding, r.normal_force, period, p)
    _loosen(count, bonds, r.slip, m.energy, period, a.impulses)
    damps = law.damping > 0.0 or law.model == COULOMB or law.model == FOREIGN
    if law.printed or damps:
        fill_scaled(packed)
    if law.printed:
        _damp_explicitly(count, a.scaled, r.viscosity, period, a.u_before, p)
    elif damps:
        for j in range(u.shape[0]):
            u[j] = a.u_before[j] + a.external[j]
        _damp(packed, count, period, p)
    counts[NOW], counts[BONDS] = 1 - before, count
    a.amounts[STORED] += stored


@kernel
def _slip_velocities(count, normal, before, tangent, slip):
    """Fill `slip` (C, 3) with the tangential velocities of B relative to A in world axes [m/s]."""
    for i in range(count):
        a, b = before[i, 1], before[i, 2]
        nx, ny, nz = normal[i, 0], normal[i, 1], normal[i, 2]
        tx, ty, tz = tangent[i, 0], tangent[i, 1], tangent[i, 2]
        slip[i, 0] = a * tx + b * (ny * tz - nz * ty)
        slip[i, 1] = a * ty + b * (nz * tx - nx * tz)
        slip[i, 2] = a * tz + b * (nx * ty - ny * tx)


@kernel
def _add_friction(count, normal, tangent, force, slides, normal_force, period, p):
    """Enter friction forces (C, 3) [N] as impulses along the tangents; returns how many contacts slide."""
    sliding = 0
    for i in range(count):
        if not normal_force[i] > 0.0:
            continue
        nx, ny, nz = normal[i, 0], normal[i, 1], normal[i, 2]
        tx, ty, tz = tangent[i, 0], tangent[i, 1], tangent[i, 2]
        fx, fy, fz = force[i, 0], force[i, 1], force[i, 2]
        p[i, 1] += period * (fx * tx + fy * ty + fz * tz)
        p[i, 2] += period * (fx * (ny * tz - nz * ty) + fy * (nz * tx - nx * tz) + fz * (nx * ty - ny * tx))
        if slides[i] != 0:
            sliding += 1
    return sliding


@kernel
def _loosen(count, bonds, slip, energy, period, impulses):
    """Say which impulses are of bonds that stick, and what bonds lost besides; `energy` (C,): before the step [J].

    A bond that sticks was stretched by the slip, and lost what it had stored less what it held without that. One that
    slides gives all that it does not store. `bond` of `impulses` has the tangential impulses of collisions.
    """
    strain, stiffness, sliding = bonds.strain, bonds.stiffness, bonds.sliding
    loosened, bond, p = impulses.loosened, impulses.bond, impulses.p
    for i in range(count):
        sticks = stiffness[i] > 0.0 and sliding[i] == STICKS
        s = 0.0
        for d in range(3):
            z = strain[i, d] - (period * slip[i, d] if sticks else 0.0)
            s += z * z
        lost = energy[i] - 0.5 * stiffness[i] * s
        loosened[i] = max(0.0, lost) if sticks else lost
        bond[i, 0], bond[i, 1] = (p[i, 1] - bond[i, 0], p[i, 2] - bond[i, 1]) if sticks else (0.0, 0.0)


@kernel
def _damp(packed, count, period, p):
    """Add the viscous part of friction to `p`; it sees all other impulses, and laws of joints as they are with these.

    `CompliantArrays.u` is that without contacts.
    """
    a = packed.arrays
    m, u, force = a.method, a.method.u, a.method.viscous
    for i in range(count):
        for d in range(3):
            if p[i, d] != 0.0:
                apply_impulse(a.scaled, i, d, p[i, d], u)
    _add_kick(packed, u)
    settle_joints(a.body.joints, a.body, period, u)
    damp(a.scaled, count, m.rubbing.viscosity, m.rubbing.viscous_limit, period, u, force, m.blocks)
    for i in range(count):
        p[i, 1] += period * force[i, 0]
        p[i, 2] += period * force[i, 1]


@kernel
def _damp_explicitly(count, contacts, viscosity, period, u, p):
    """Add the viscous part of friction at the velocities before the step to `p`, without a limit (THESIS 4.6)."""
    for i in range(count):
        if viscosity[i] > 0.0:
            for d in range(1, 3):
                p[i, d] -= period * viscosity[i] * contact_velocity(contacts, i, d, u)


SLEPT = numbers("lasts", "offset", "stiffness", "strain", "bonded", "x", "y", "z", "bond", "sliding")
"""Fields of the memory of a contact between bodies that sleep.

Whether it overlapped; offset [m], stiffness [N/m] and strain [m] of its spring; whether it has a bond; strain [m],
stiffness [N/m] and state of that.
"""


@kernel
def _lay_aside(packed, sleep, begin, end):
    """Take the memory of contacts of what falls asleep out of that of the step before (`Keeper.lay_aside`)."""
    a = packed.arrays
    m, springs = a.method, a.method.springs
    for s in range(begin, end):
        sleep.memory[s].lasts = sleep.memory[s].bonded = 0.0
    n = 0
    for k in range(a.counts[REMEMBERED]):
        s = find_among(m.old_id[k], sleep.id, begin, end)
        if s < 0:
            m.old_id[n], m.old_owed[n] = m.old_id[k], m.old_owed[k]
            springs.old_strain[n], springs.old_offset[n] = springs.old_strain[k], springs.old_offset[k]
            springs.old_stiffness[n], springs.old_row[n] = springs.old_stiffness[k], springs.old_row[k]
            springs.old_wall[n], springs.old_tree[n] = springs.old_wall[k], springs.old_tree[k]
            n += 1
            continue
        memory, overlap = sleep.memory[s], -sleep.separation[s]
        memory.lasts = 1.0
        memory.stiffness = springs.stiffness[sleep.row[s]] if sleep.row[s] >= 0 else 0.0
        memory.offset = min(springs.old_offset[k], overlap) if a.material.begins_free else 0.0
        memory.strain = max(0.0, overlap - memory.offset)
        sleep.elastic[s] += 0.5 * memory.stiffness * memory.strain * memory.strain
    a.counts[REMEMBERED] = n
    bonds = m.bonds[a.counts[NOW]]
    n = 0
    for k in range(a.counts[BONDS]):
        s = find_among(bonds.id[k], sleep.id, begin, end)
        x, y, z, stiffness, sliding = (
            bonds.strain[k, 0],
            bonds.strain[k, 1],
            bonds.strain[k, 2],
            bonds.stiffness[k],
            bonds.sliding[k],
        )
        if s < 0:
            bonds.id[n], bonds.stiffness[n], bonds.sliding[n] = bonds.id[k], stiffness, sliding
            bonds.strain[n, 0], bonds.strain[n, 1], bonds.strain[n, 2] = x, y, z
            bonds.final_storage[n] = bonds.final_storage[k]
            n += 1
            continue
        memory = sleep.memory[s]
        memory.bonded, memory.bond, memory.sliding = 1.0, stiffness, sliding
        memory.x, memory.y, memory.z = x, y, z
        sleep.elastic[s] += 0.5 * stiffness * (x * x + y * y + z * z)
    a.counts[BONDS] = n


@kernel
def _take_up(packed, sleep, s, row):
    """Give the memory of a contact of what wakes to a row (`Keeper.take_up`)."""
    a = packed.arrays
    m, springs, memory = a.method, a.method.springs, sleep.memory[s]
    n = a.counts[REMEMBERED]
    if memory.lasts != 0.0 and n < m.old_id.shape[0]:
        m.old_id[n], m.old_owed[n] = sleep.id[s], -1.0
        springs.old_strain[n], springs.old_offset[n] = memory.strain, memory.offset
        springs.old_stiffness[n], springs.old_row[n] = memory.stiffness, row
        springs.old_wall[n], springs.old_tree[n] = sleep.wall[s], sleep.tree[s]
        a.after[row, 0] = a.after[row, 1] = a.after[row, 2] = 0.0
        a.counts[REMEMBERED] = n + 1
    bonds, n = m.bonds[a.counts[NOW]], a.counts[BONDS]
    if memory.bonded != 0.0 and n < bonds.id.shape[0]:
        bonds.id[n], bonds.stiffness[n], bonds.sliding[n] = sleep.id[s], memory.bond, int(memory.sliding)
        x, y, z = memory.x, memory.y, memory.z
        bonds.strain[n, 0], bonds.strain[n, 1], bonds.strain[n, 2] = x, y, z
        bonds.final_storage[n] = 0.5 * memory.bond * (x * x + y * y + z * z)  # that of a bond at rest
        a.counts[BONDS] = n + 1


_KEEPER = Keeper(SLEPT, _lay_aside, _take_up)


def _build_response(collide: Any) -> Any:
    """The kernel of a method whose impulses the kernel `collide` finds, which returns how many did not converge."""

    @kernel
    def respond(packed, count, period):
        set_up(packed, count, period)
        collides = _penalize(packed, count, period, packed.arrays.method.impulsive)
        if collides:
            fill_scaled(packed)
            if packed.arrays.body.joints.damped:
                _slow_joints(packed, count, period)
            packed.arrays.counts[UNRESOLVED] += collide(packed, count)
        _settle(packed, count, period, collides)

    return respond


_KERNELS = {
    (False, False): _build_response(collide_without_friction),
    (True, False): _build_response(collide_with_friction),
    (False, True): _build_response(collide_in_sequence),
    (True, True): _build_response(collide_in_sequence_with_friction),
}
"""Kernels of the step, by whether impulses have friction, and whether they come in a sequence."""
_RESPONSES = {key: (kernel, build_step(kernel)) for key, kernel in _KERNELS.items()}
