"""Impulses of groups of colliding contacts (THESIS 4.4): without friction, and with friction (beyond THESIS, 7.2).

Two groups that share no moving body do not influence each other's impulses, so each is resolved alone. The kernels take
the arrays that `compliant` has packed, and fill its impulses.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from haptic_sim.contact.friction import NONE
from haptic_sim.contact.groups import find_root, group_of
from haptic_sim.contact.solvers.frictional_impulses import (
    STEPS,
    SWEEPS,
    FrictionalMemory,
    resolve_frictional_impacts,
)
from haptic_sim.contact.solvers.gauss_seidel import MAX_SWEEPS, TOLERANCE, GaussSeidelMemory, gauss_seidel
from haptic_sim.contact.solvers.impulses import resolve_freely, resolve_non_pulling, take_back
from haptic_sim.contact.solvers.outcomes import NOT_CONVERGED, SOLVED
from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.dynamics.scaled import ScaledContacts
from haptic_sim.records import allocate, array, part, record, value

ACTIVE_SET = 32  # colliding contacts of a group beyond which sweeps resolve it: with 100 the active set takes 60 ms


@record
class Impacts(NamedTuple):
    """Memory of impulses with friction, for kernels."""

    some: ScaledContacts = value("contacts that collide")
    memory: FrictionalMemory = part(FrictionalMemory, "memory of `resolve_frictional_impacts`")
    p: np.ndarray = array("impulses of these contacts", "contacts", 3, unit="N s")
    state: np.ndarray = array("whether they slip, see SEPARATED", "contacts", dtype=np.int8)
    sweeps: int = value("most sweeps of `resolve_frictional_impacts`")

    @classmethod
    def allocate(cls, capacity: int, body: Multibody) -> Impacts:
        """Memory for so many contacts of a model."""
        some = ScaledContacts.allocate(capacity, *body.contact_trees)
        return allocate(cls, some.sizes, some=some, sweeps=SWEEPS)


@record
class Sweeps(NamedTuple):
    """Memory of impulses without friction at many contacts, for kernels."""

    some: ScaledContacts = value("contacts that collide")
    memory: GaussSeidelMemory = part(GaussSeidelMemory, "memory of `gauss_seidel`")
    u: np.ndarray = array("scaled velocity", "nv", unit="kg^1/2 m/s")
    p: np.ndarray = array("impulses of these contacts", "contacts", 3, unit="N s")
    bias: np.ndarray = array("least velocities of separation, negative", "contacts", unit="m/s")
    friction: np.ndarray = array("coefficients of friction: none", "contacts")

    @classmethod
    def allocate(cls, capacity: int, body: Multibody) -> Sweeps:
        """Memory for so many contacts of a model."""
        some = ScaledContacts.allocate(capacity, *body.contact_trees)
        return allocate(cls, some.sizes, some=some)


@numba.njit(cache=True, nogil=True)
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
            if m.collides[i] and group_of(a.scaled, i, group) == g:
                index[n] = i
                m.chosen_v_n[n], m.chosen_restitution[n] = m.v_n[i], a.rows.restitution[i]
                if m.owed[i] >= 0.0:  # a wall that recedes with what is owed
                    m.chosen_v_n[n], m.chosen_restitution[n] = m.v_n[i] - m.owed[i], 0.0
                n += 1
        if n > 0 and not _resolve_group(packed, g, n):
            failures += 1
    return failures


@numba.njit(cache=True, nogil=True)
def _resolve_group(packed, g, n):
    """Impulses of a group's n contacts that collide; whether they converged."""
    a = packed.arrays
    m = a.method
    v_n, p = m.chosen_v_n, m.chosen_p
    W = m.W[: n * number_columns(packed, g)].reshape((n, -1))
    gather(packed, n, W)
    code = SOLVED
    if not resolve_freely(n, W, v_n, m.chosen_restitution, m.impulse, p):
        if n <= ACTIVE_SET:
            code = resolve_non_pulling(n, W, v_n, m.impulse, p)
        else:
            code = _sweep(packed, n, p)
            take_back(W, n, v_n, m.impulse.u, p)
    for k in range(n):
        i = m.chosen[k]
        a.impulses.p[i, 0] = p[k]
        a.impulses.impact[i] = True
    return code != NOT_CONVERGED


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
def gather(packed, n, W):
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
        s.some.offset[k, 0] -= max(m.owed[m.chosen[k]], 0.0)
        s.bias[k] = m.chosen_restitution[k] * min(m.chosen_v_n[k], 0.0)
        s.p[k, 0] = max(p[k], 0.0)
        s.p[k, 1] = s.p[k, 2] = 0.0
    for j in range(s.u.shape[0]):
        s.u[j] = a.body.u[j]
    code, _, _, _ = gauss_seidel(n, s.some, s.friction, s.bias, s.u, s.p, s.memory, TOLERANCE, MAX_SWEEPS)
    for k in range(n):
        p[k] = s.p[k, 0]
    return code


@numba.njit(cache=True, nogil=True)
def collide_with_friction(packed, count):
    """Impulses with friction; returns 1 if they did not converge, else 0."""
    a = packed.arrays
    m = a.method
    f = m.impacts
    n = _select(packed, count)
    code = resolve_frictional_impacts(
        n, f.some, m.u, m.chosen_restitution, m.chosen_friction, STEPS, f.sweeps, f.memory, f.p, f.state
    )
    for k in range(n):
        i = m.chosen[k]
        for d in range(3):
            a.impulses.p[i, d] = f.p[k, d]
        a.impulses.impact[i] = True
    return int(code == NOT_CONVERGED)


@numba.njit(cache=True, nogil=True)
def _select(packed, count):
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
        m.u[j] = a.body.u[j]
    return n


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
