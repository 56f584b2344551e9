"""Impulses of groups of colliding contacts (THESIS 4.4): without friction, and with friction (beyond THESIS, 7.2).

Two groups that share no moving body do not influence each other's impulses, so each is resolved alone. The kernels take
the arrays that `compliant` has packed, and fill its impulses.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from haptic_sim.contact.friction_models import NONE
from haptic_sim.contact.groups import find_root
from haptic_sim.contact.solvers.frictional_impulses import (
    FrictionalMemory,
    choose_effort,
    resolve_frictional_impacts,
)
from haptic_sim.contact.solvers.impulses import resolve_freely, resolve_non_pulling
from haptic_sim.contact.solvers.outcomes import NOT_CONVERGED, SOLVED
from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.dynamics.scaled import ScaledContacts, apply_impulse, coupling
from haptic_sim.kernels import kernel
from haptic_sim.records import allocate, array, part, record, value

ACTIVE_SET = 32  # rank beyond which sweeps resolve a group without friction: with 100 the active set takes 60 ms
SWEEPS, RELAXATION = 60, 1.5  # of such a group: at most; for a wall of boxes 10 times as exact as with 1
RESIDUAL = 1e-5  # of the largest approach velocity: less approach than that is none


@record
class Impacts(NamedTuple):
    """Memory of impulses with friction, for kernels."""

    some: ScaledContacts = value("contacts that collide")
    memory: FrictionalMemory = part(FrictionalMemory, "memory of `resolve_frictional_impacts`")
    p: np.ndarray = array("impulses of these contacts", "contacts", 3, unit="N s")
    state: np.ndarray = array("whether they slip, see SEPARATED", "contacts", dtype=np.int8)

    @classmethod
    def allocate(cls, capacity: int, body: Multibody) -> Impacts:
        """Memory for so many contacts of a model."""
        some = ScaledContacts.allocate(capacity, *body.contact_trees)
        return allocate(cls, some.sizes, some=some)


@kernel
def collide_without_friction(packed, count):
    """Frictionless impulses, group by group; returns how many groups did not converge."""
    a = packed.arrays
    m = a.method
    group, index = m.group, m.chosen
    failures = 0
    for g in range(group.shape[0]):
        if group[g] != g:
            continue
        n = 0
        for i in range(count):
            if m.collides[i] and m.root[i] == g:
                index[n] = i
                m.chosen_v_n[n], m.chosen_restitution[n] = m.v_n[i], a.rows.restitution[i]
                if m.owed[i] >= 0.0:  # a wall that recedes with what is owed
                    m.chosen_v_n[n], m.chosen_restitution[n] = m.v_n[i] - m.owed[i], 0.0
                n += 1
        if n > 0 and not _resolve_group(packed, g, n):
            failures += 1
    return failures


@kernel
def _resolve_group(packed, g, n):
    """Impulses of a group's n contacts that collide; whether they converged."""
    a = packed.arrays
    m = a.method
    v_n, p = m.chosen_v_n, m.chosen_p
    columns = number_columns(packed, g)
    if min(n, columns) > ACTIVE_SET:
        code = _sweep(packed, n, p)
    else:
        W = m.W[: n * columns].reshape((n, -1))
        gather(packed, n, W)
        code = SOLVED
        if not resolve_freely(n, W, v_n, m.chosen_restitution, m.impulse, p):
            code = resolve_non_pulling(n, W, v_n, m.impulse, p)
    for k in range(n):
        i = m.chosen[k]
        a.impulses.p[i, 0] = p[k]
        a.impulses.impact[i] = True
    return code != NOT_CONVERGED


@kernel
def number_columns(packed, g):
    """Say in which columns of W the trees of a group come; returns how many columns there are."""
    a = packed.arrays
    group, column = a.method.group, a.method.column
    width = 0
    for tree in range(group.shape[0]):
        if find_root(group, tree) == g:
            column[tree] = width
            width += a.scaled.size[tree]
    return width


@kernel
def gather(packed, n, W):
    """Fill W with the normal rows of the first n contacts that are chosen."""
    a = packed.arrays
    rows, tree, size, column, chosen = a.scaled.W, a.scaled.tree, a.scaled.size, a.method.column, a.method.chosen
    W[:, :] = 0.0
    for k in range(n):
        i = chosen[k]
        for side in range(2):
            t = tree[i, side]
            if t >= 0:
                for j in range(size[t]):
                    W[k, column[t] + j] = rows[i, 0, side, j]


@kernel
def _sweep(packed, n, p):
    """Fill p[:n] with impulses of the first n contacts that are chosen, as `resolve_non_pulling`, by relaxation.

    Projected successive over-relaxation (Cryer 1971) of p >= 0, A p + (1 + e) v_n >= 0, complementary. No visit raises
    1/2 p . A p + (1 + e) v_n . p; for e > 0 the impulses are scaled down to where they add no energy, if they add some.
    """
    a = packed.arrays
    m = a.method
    contacts, du, chosen, v_n = a.scaled, m.u, m.chosen, m.chosen_v_n
    c, rate = m.impulse.c, m.impulse.length
    for j in range(du.shape[0]):
        du[j] = 0.0
    largest = 0.0
    for k in range(n):
        mobility = coupling(contacts, chosen[k], 0, chosen[k], 0)
        p[k], rate[k] = 0.0, RELAXATION / mobility if mobility > 0.0 else 0.0
        c[k] = (1.0 + m.chosen_restitution[k]) * v_n[k]
        largest = max(largest, -c[k])
    change = math.inf
    for _ in range(SWEEPS):
        change = 0.0
        for k in range(n):
            i, v = chosen[k], c[k]
            for side in range(2):
                tree = contacts.tree[i, side]
                if tree >= 0:
                    first = contacts.start[tree]
                    for j in range(contacts.size[tree]):
                        v += contacts.W[i, 0, side, j] * du[first + j]
            more = max(-rate[k] * v, -p[k])
            if more != 0.0:
                p[k] += more
                apply_impulse(contacts, i, 0, more, du)
                change = max(change, abs(v))
        if change <= RESIDUAL * largest:
            break
    work = square = 0.0
    for k in range(n):
        work += p[k] * v_n[k]
    for j in range(du.shape[0]):
        square += du[j] * du[j]
    if work + 0.5 * square > 0.0:
        scale = max(-2.0 * work / square, 0.0)
        for k in range(n):
            p[k] *= scale
    return SOLVED if change <= RESIDUAL * largest else NOT_CONVERGED


@kernel
def collide_with_friction(packed, count):
    """Impulses with friction; returns 1 if they did not converge, else 0."""
    a = packed.arrays
    m = a.method
    f = m.impacts
    n = select_colliding(packed, count)
    steps, sweeps = choose_effort(n)
    code = resolve_frictional_impacts(
        n, f.some, m.u, m.chosen_restitution, m.chosen_friction, steps, sweeps, f.memory, f.p, f.state
    )
    for k in range(n):
        i = m.chosen[k]
        for d in range(3):
            a.impulses.p[i, d] = f.p[k, d]
        a.impulses.impact[i] = True
    return int(code == NOT_CONVERGED)


@kernel
def select_colliding(packed, count):
    """Copy the contacts that collide to the front of `some`, with restitution and friction; returns how many."""
    a = packed.arrays
    m = a.method
    rubs = a.material.friction.model != NONE
    n = 0
    for i in range(count):
        if m.collides[i]:
            m.chosen[n] = i
            m.chosen_restitution[n] = a.rows.restitution[i]
            m.chosen_friction[n] = a.rows.friction[i, 1] if rubs else 0.0
            copy_contact(a.scaled, i, m.impacts.some, n)
            if m.owed[i] >= 0.0:  # a wall that recedes with what is owed
                m.chosen_restitution[n] = 0.0
                m.impacts.some.offset[n, 0] -= m.owed[i]
            n += 1
    for j in range(m.u.shape[0]):
        m.u[j] = a.u_before[j]
    return n


@kernel
def copy_contact(contacts, i, some, m):
    """Make contact m of `some` the same as contact i of `contacts`."""
    W, target, tree_of, size = contacts.W, some.W, contacts.tree, contacts.size
    for side in range(2):
        tree = tree_of[i, side]
        some.tree[m, side] = tree
        if tree >= 0:
            if size[tree] == 6:  # the compiler unrolls the loops
                _copy_rows(W, i, target, m, side, 6)
            else:
                _copy_rows(W, i, target, m, side, size[tree])
    for d in range(3):
        some.offset[m, d] = contacts.offset[i, d]


@kernel(inline="always")
def _copy_rows(W, i, target, m, side, size):
    """Copy the rows of a side of contact i."""
    for d in range(3):
        for k in range(size):
            target[m, d, side, k] = W[i, d, side, k]
