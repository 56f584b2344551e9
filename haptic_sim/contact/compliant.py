"""Contacts with penalties and friction while they last, and with impulses when they begin (THESIS 4.1-4.4).

`penalty`: penalties only. `impulse_augmented`: the contacts of a *group* - bodies that hang together by overlapping
contacts - collide when one of them is new (it overlaps, did not in the step before, and its points approach), or when
impulses of the step before had to be scaled and shall be spread. While a group collides, impulses act at all its
contacts whose points approach, and no penalties; while it rests, penalties and friction act. `frictional_impulses`:
the same with impulses that obey Coulomb's law (beyond THESIS, which names it in 7.2).

Two groups that share no moving body do not feel each other's impulses, so that each is resolved alone.
"""

from __future__ import annotations

import numba
import numpy as np

from haptic_sim.contact.friction import (
    COULOMB,
    NONE,
    FrictionMemory,
    bond_energy,
    damp,
    friction_forces,
    tangential_mobility,
)
from haptic_sim.contact.frictional_impulses import STEPS, SWEEPS, FrictionalWorkspace, resolve_frictional_impacts
from haptic_sim.contact.impulses import NOT_CONVERGED, ImpulseWorkspace, resolve_collisions
from haptic_sim.contact.response import ContactParameters, ContactResponse, ImpulseRendering, Method
from haptic_sim.contact.rows import ContactRows
from haptic_sim.contact.scaled import ScaledContacts, apply_impulse, contact_velocity
from haptic_sim.messages import COLLIDING, FREE, RESTING
from haptic_sim.multibody import Multibody
from haptic_sim.parameters import ParameterError


class CompliantContact(ContactResponse):
    """The methods `penalty`, `impulse_augmented` and `frictional_impulses`.

    Args:
        rendering: what is done about impulses that the device cannot render; `scaled` and `spread` are done here.
        wrench_limit: of the device, (6,) [N, N m].
    """

    def __init__(
        self,
        body: Multibody,
        parameters: ContactParameters,
        capacity: int,
        method: Method,
        rendering: ImpulseRendering,
        wrench_limit: np.ndarray,
    ):
        super().__init__(body, parameters, capacity)
        self.impulsive, self.frictional = method != "penalty", method == "frictional_impulses"
        self.limited, self.spread = rendering in ("scaled", "spread"), rendering == "spread"
        self.wrench_limit = np.array(wrench_limit, float)
        if self.limited and not self._rigid:
            raise ParameterError(
                [
                    f"device.impulse_rendering = {rendering}: is made for a tool of one body; a linkage needs full or "
                    "saturated"
                ]
            )
        self._pending = False
        self._old, self._old_count = np.zeros(capacity, np.int64), 0
        trees = body.trees.start.size
        self._group, self._colliding = np.zeros(max(trees, 1), np.int64), np.zeros(max(trees, 1), np.bool_)
        self._numbers = np.zeros((4, capacity))
        self._index, self._column = np.zeros(capacity, np.int64), np.zeros(max(trees, 1), np.int64)
        self._work = ImpulseWorkspace(capacity, body.nv)
        self._memory = FrictionMemory(capacity)
        self._normal_force, self._mobility = np.zeros(capacity), np.zeros(capacity)
        self._slip, self._friction = np.zeros((capacity, 3)), np.zeros((capacity, 3))
        self._viscosity, self._viscous_limit = np.zeros(capacity), np.zeros(capacity)
        self._viscous, self._blocks, self._u = np.zeros((capacity, 2)), np.zeros((capacity, 3)), np.zeros(body.nv)
        self._wrenches = np.zeros((3, 6))
        self._sums, self._energy = np.zeros(max(trees, 1)), np.zeros(capacity)
        if self.frictional:
            self._some = ScaledContacts.allocate(capacity, body.trees.start, body.trees.size)
            self._impact = FrictionalWorkspace.allocate(self._some, body.nv)
            self._p = np.zeros((capacity, 3))
            self._slip_state = np.zeros(capacity, np.int8)

    def _resolve(self, rows: ContactRows, body: Multibody, external: np.ndarray, period: float) -> None:
        n, w = rows.count, self._work
        collisions = self._penalize(rows, body, period, self.impulsive)
        self._pending = False
        if collisions:
            if self.frictional:
                self._collide_with_friction(rows, body)
            else:
                self.unresolved += _collide(
                    n,
                    rows.arrays,
                    self.scaled,
                    self._group,
                    self._numbers,
                    self._index,
                    self._column,
                    w.W,
                    w.c,
                    w.G,
                    w.H,
                    w.small,
                    w.vectors,
                    w.index,
                    self.impulses,
                )
            if self.limited:
                part = _limit(
                    n,
                    rows.arrays,
                    self.tangent,
                    self.impulses,
                    body.hand_joint,
                    body.p_WH,
                    period,
                    self.wrench_limit,
                    self._wrenches,
                )
                self._pending = self.spread and 0.0 < part < 1.0
                if part == 0.0:  # the device renders nothing in a direction that is needed
                    collisions = self._penalize(rows, body, period, False)
        self.state = (COLLIDING if collisions else RESTING) if self.contacts else FREE
        self._rub(rows, body, external, period)

    def _penalize(self, rows: ContactRows, body: Multibody, period: float, impulsive: bool) -> bool:
        """Fill in penalties, and whether there are collisions in whose groups they do not act."""
        material = self.parameters
        self.contacts, self._old_count, collisions, self.stored = _penalties(
            rows.count,
            rows.arrays,
            self.scaled,
            body.u,
            period,
            material.stiffness,
            material.damping,
            material.per == "wall",
            impulsive,
            self._pending,
            body.trees.of_joint[body.hand_joint],
            self._old,
            self._old_count,
            self._group,
            self._colliding,
            self._numbers,
            self._normal_force,
            self.impulses,
        )
        return bool(collisions)

    def _rub(self, rows: ContactRows, body: Multibody, external: np.ndarray, period: float) -> None:
        """Friction of the contacts with penalties."""
        friction, memory, n = self.parameters.friction, self._memory, rows.count
        self.sliding, self.bonded = 0, 0.0
        if friction.code == NONE:
            return
        before = bond_energy(memory.count, memory.bonds, self._energy)
        memory.carry_over(n, rows.id)
        _slip_velocities(n, rows.arrays, self.scaled, self.tangent, body.u, self._slip)
        tangential_mobility(self.scaled, n, self._normal_force, self._sums, self._mobility)
        friction_forces(
            friction.code,
            n,
            rows.normal,
            self._slip,
            self._normal_force,
            rows.friction,
            self._mobility,
            friction.breakaway,
            friction.deadband,
            friction.damping,
            period,
            memory.bonds,
            self._friction,
            self._viscosity,
            self._viscous_limit,
        )
        self.sliding = _add_friction(
            n,
            rows.arrays,
            self.tangent,
            self._friction,
            memory.bonds.sliding,
            self._normal_force,
            period,
            self.impulses.p,
        )
        if friction.damping > 0.0 or friction.code == COULOMB:
            np.add(body.u, external, out=self._u)
            _damp(
                n,
                self.scaled,
                self._viscosity,
                self._viscous_limit,
                period,
                self._u,
                self._viscous,
                self._blocks,
                self.impulses.p,
            )
        self.stored += before
        self.bonded = bond_energy(n, memory.bonds, self._energy) - before

    def _collide_with_friction(self, rows: ContactRows, body: Multibody) -> None:
        m = _select(rows.count, self.scaled, self._numbers, self._some, self._index)
        self._u[:] = body.u
        e, mu = self._numbers[2], self._numbers[3]
        _materials(m, rows.arrays, self._index, self.parameters.friction.code != NONE, e, mu)
        code = resolve_frictional_impacts(
            m, self._some, self._u, e, mu, STEPS, SWEEPS, self._impact, self._p, self._slip_state
        )
        self.unresolved += code == 2
        _scatter(m, self._index, self._p, self.impulses)


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
def _is_new(id, old, count, hint):
    """Whether an identity is not among the old ones; looks first where it would be had nothing changed."""
    found = False
    for m in range(count):
        if old[(m + hint) % count] == id:
            found = True
            break
    return not found


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
    impulsive,
    pending,
    hand_tree,
    old,
    old_count,
    group,
    colliding,
    numbers,
    normal_force,
    impulses,
):
    """Say which groups collide, and fill in the penalties of the others.

    numbers[0]: normal velocity of each contact; numbers[1]: 1 where it collides.
    """
    p, spring, impact = impulses.p, impulses.spring, impulses.impact
    v_n, collides = numbers[0], numbers[1]
    for tree in range(group.shape[0]):
        group[tree] = tree
        colliding[tree] = False
    touching = 0
    for i in range(count):
        p[i, 0] = p[i, 1] = p[i, 2] = spring[i] = normal_force[i] = collides[i] = 0.0
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
        for i in range(count):
            if rows.separation[i] < 0.0 and v_n[i] < 0.0:
                g = _group_of(contacts, i, group)
                if g >= 0 and not colliding[g] and _is_new(rows.id[i], old, old_count, i):
                    colliding[g] = True
        for i in range(count):
            if rows.separation[i] < 0.0 and v_n[i] < 0.0:
                g = _group_of(contacts, i, group)
                if g >= 0 and colliding[g]:
                    collides[i] = 1.0
                    collisions = True
        for tree in range(group.shape[0]):
            colliding[tree] = False
        for i in range(count):
            if collides[i] > 0.0:
                colliding[_group_of(contacts, i, group)] = True
    stored = 0.0
    share = 1.0
    m = 0
    for i in range(count):
        s = rows.separation[i]
        if not s < 0.0:
            continue
        old[m] = rows.id[i]
        m += 1
        if per_wall:
            share = 0.0
            for k in range(count):
                if rows.separation[k] < 0.0 and rows.wall[k] == rows.wall[i]:
                    share += 1.0
        stored += 0.5 * stiffness / share * s * s
        g = _group_of(contacts, i, group)
        if collisions and g >= 0 and colliding[g]:
            continue
        # THESIS (4.5) has no clamp, so a point that leaves quickly would be pulled back (errata 7)
        push = -(stiffness * s + damping * v_n[i]) / share
        if push > 0.0:
            normal_force[i] = push
            p[i, 0] = push * period
            spring[i] = -stiffness / share * s * period
    return touching, m, collisions, stored


@numba.njit(cache=True, nogil=True)
def _collide(count, rows, contacts, group, numbers, index, column, flat, c, G, H, small, vectors, order, impulses):
    """Frictionless impulses, group by group; returns how many groups did not converge."""
    v_n, collides, approach, restitution = numbers[0], numbers[1], numbers[2], numbers[3]
    failures = 0
    for g in range(group.shape[0]):
        if group[g] != g:
            continue
        n = width = 0
        for tree in range(group.shape[0]):
            if _root(group, tree) == g:
                column[tree] = width
                width += contacts.size[tree]
        for i in range(count):
            if collides[i] > 0.0 and _group_of(contacts, i, group) == g:
                index[n] = i
                approach[n] = v_n[i]
                restitution[n] = rows.restitution[i]
                n += 1
        if n == 0:
            continue
        W = flat[: n * width].reshape((n, width))
        W[:, :] = 0.0
        for m in range(n):
            i = index[m]
            for side in range(2):
                tree = contacts.tree[i, side]
                if tree >= 0:
                    for k in range(contacts.size[tree]):
                        W[m, column[tree] + k] = contacts.W[i, 0, side, k]
        p = vectors[3]
        code = resolve_collisions(n, W, approach, restitution, c, G, H, small, vectors, order, p)
        if code == NOT_CONVERGED:
            failures += 1
        for m in range(n):
            impulses.p[index[m], 0] = p[m]
            impulses.impact[index[m]] = True
    return failures


@numba.njit(cache=True, nogil=True)
def _limit(count, rows, tangent, impulses, hand, p_WH, period, limit, work):
    """Scale all impulses so that the device can render them (THESIS 4.5.2); returns by how much.

    Scaling keeps them passive: the change of energy is convex in the factor and zero at 0.
    """
    p = impulses.p
    wrench, gross, f = work[0], work[1], work[2]  # gross: sums of magnitudes of the components
    for j in range(6):
        wrench[j] = gross[j] = 0.0
    for i in range(count):
        if not impulses.impact[i]:
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
        if abs(wrench[j]) > 1e-12 * gross[j] and abs(wrench[j]) * part > limit[j]:
            part = limit[j] / abs(wrench[j])
    if part < 1.0:
        for i in range(count):
            if impulses.impact[i]:
                for d in range(3):
                    p[i, d] *= part
    return part


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
        p[i, 1] = period * (f[0] * t[0] + f[1] * t[1] + f[2] * t[2])
        p[i, 2] = period * (
            f[0] * (n[1] * t[2] - n[2] * t[1]) + f[1] * (n[2] * t[0] - n[0] * t[2]) + f[2] * (n[0] * t[1] - n[1] * t[0])
        )
        if slides[i] != 0:
            sliding += 1
    return sliding


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
def _select(count, contacts, numbers, some, index):
    """Copy the contacts that collide to the front of `some`; returns how many."""
    m = 0
    for i in range(count):
        if numbers[1, i] > 0.0:
            index[m] = i
            copy_contact(contacts, i, some, m)
            m += 1
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


@numba.njit(cache=True, nogil=True)
def _materials(m, rows, index, rubs, restitution, friction):
    """Restitution and kinetic friction of selected contacts."""
    for k in range(m):
        restitution[k] = rows.restitution[index[k]]
        friction[k] = rows.friction[index[k], 1] if rubs else 0.0


@numba.njit(cache=True, nogil=True)
def _scatter(m, index, p, impulses):
    """Put the impulses of selected contacts where they belong."""
    for k in range(m):
        for d in range(3):
            impulses.p[index[k], d] = p[k, d]
        impulses.impact[index[k]] = True
