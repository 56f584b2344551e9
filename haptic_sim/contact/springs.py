"""Springs of penalties that gain energy by the motion of the bodies alone.

A discrete step finds a contact when bodies overlap already, by up to h |v|. A spring that is relaxed where they touch
would then have the energy 1/2 k s^2 that no work was done for. It is independent of the mass, so that bodies of a few
grams are thrown away by it. The same happens wherever the points of a manifold change under load. So the spring of
contact i has an *offset* o >= 0, the overlap at which it has no force, and the *strain*
    d = max(0, -s - o),     energy 1/2 k d^2,     force k d.

**Begin.** While a contact lasts, o changes only where the spring is relaxed: o <- min(o, -s), which costs nothing, and
where the overlap grows by more than MET steps of motion, as where the shortest way out of a body jumps to another side.
So the strain changes by the motion of the bodies, whose work is that of its force. Where the set of contacts or the
stiffness of one changes, springs may take over from each other only: with the energies of the springs that ended or
became softer in a group of bodies, F, and those that the others would gain without an offset, G, each of the latter
gets the part min(1, F / G) of it. A point that replaces another of the same manifold thus takes over its load, a new
body begins without force, and the sum of elastic energy does not rise. What F has beyond G is lost.

**Return.** A body that stays keeps an overlap o. It is given back with the time constant RETURN, as far as the energy
that this costs, k (d x + x^2 / 2) for a return by x, is at most the part SHARE of what the world has dissipated. So the
sum of kinetic, potential and elastic energy never rises by more than that part of what was supplied.

The springs of the first step have no offset: their energy is that of the start.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from haptic_sim.contact.groups import find_place, find_root, group_of
from haptic_sim.kernels import kernel
from haptic_sim.records import array, record

RETURN = 0.1  # [s]
SHARE = 0.005  # of the dissipated energy
MET = 2.0  # steps of motion by which points may overlap that have just met
ROUNDING = 1e-9  # [m] of an overlap
_NEW = -1.0  # offset of a contact until it is known


@record
class Springs(NamedTuple):
    """Springs of the contacts that overlap, and what is remembered of those of the step before, for kernels."""

    strain: np.ndarray = array("compression d of the spring", "contacts", unit="m")
    offset: np.ndarray = array("overlap o at which the spring has no force", "contacts", unit="m")
    stiffness: np.ndarray = array("stiffness k, 0: the contact has no spring", "contacts", unit="N/m")
    old_strain: np.ndarray = array("strains of the step before, in the order of their identities", "contacts", unit="m")
    old_offset: np.ndarray = array("offsets", "contacts", unit="m")
    old_stiffness: np.ndarray = array("stiffnesses", "contacts", unit="N/m")
    old_row: np.ndarray = array("rows of that step", "contacts", dtype=np.int64)
    old_wall: np.ndarray = array("pairs of shapes that they are of", "contacts", dtype=np.int64)
    old_tree: np.ndarray = array("a tree that each of them moved, -1: none", "contacts", dtype=np.int64)
    lasts: np.ndarray = array("whether such a contact lasts", "contacts", dtype=np.bool_)
    freed: np.ndarray = array("energy of springs that ended or became softer, by group", "trees", unit="J")
    wanted: np.ndarray = array("energy that the others would gain without an offset, by group", "trees", unit="J")
    steps: np.ndarray = array("1 after the first step", 1, dtype=np.int64)
    returned: np.ndarray = array("energy that was spent on giving overlaps back", 1, unit="J")


@kernel
def find_strains(count, rows, contacts, group, springs, old_id, old_count, before, after, period):
    """Fill strain and offset of the contacts with a stiffness.

    Args:
        rows: `RowArrays`.
        contacts: `ScaledContacts` of the rows.
        group: union-find forest of the trees.
        springs: `Springs`, with the stiffness of this step.
        old_id, old_count: identities of the contacts of the step before.
        before, after: velocities of the contacts now, and by the rows of the step before at its end, (C, 3) [m/s].
    """
    strain, offset, stiffness, separation = springs.strain, springs.offset, springs.stiffness, rows.separation
    lasts, first = springs.lasts, springs.steps[0] == 0
    springs.steps[0] = 1
    for k in range(old_count):
        lasts[k] = False
    changes, n, kept = False, 0, 0
    for i in range(count):
        strain[i] = offset[i] = 0.0
        if not separation[i] < 0.0:
            continue
        k = find_place(rows.id[i], old_id, old_count, n)
        n += 1
        depth = -separation[i]
        if k >= 0:
            lasts[k] = True
            kept += 1
            speed = abs(before[i, 0]) + abs(before[i, 1]) + abs(before[i, 2])
            most = springs.old_strain[k] + MET * period * speed + ROUNDING
            offset[i] = max(min(springs.old_offset[k], depth), depth - most)
            changes = changes or stiffness[i] != springs.old_stiffness[k]
        elif not first:
            offset[i] = _NEW
            changes = True
        strain[i] = depth - max(offset[i], 0.0)
    if changes or kept < old_count:
        _exchange(count, rows, contacts, group, springs, old_id, old_count, after, period)


@kernel
def _exchange(count, rows, contacts, group, springs, old_id, old_count, after, period):
    """Let springs that begin or become stiffer take over the energy of those that end or become softer."""
    strain, offset, stiffness = springs.strain, springs.offset, springs.stiffness
    freed, wanted = springs.freed, springs.wanted
    for g in range(freed.shape[0]):
        freed[g] = wanted[g] = 0.0
    for k in range(old_count):
        tree = springs.old_tree[k]
        if not springs.lasts[k] and tree >= 0:
            left = max(0.0, springs.old_strain[k] - period * after[springs.old_row[k], 0])
            freed[find_root(group, tree)] += 0.5 * springs.old_stiffness[k] * left * left
    for again in range(2):
        n = 0
        for i in range(count):
            if not rows.separation[i] < 0.0:
                continue
            n += 1
            before = 0.0
            if offset[i] != _NEW:
                k = find_place(rows.id[i], old_id, old_count, n - 1)
                before = springs.old_stiffness[k] if k >= 0 else stiffness[i]
            g = group_of(contacts, i, group)
            if g < 0 or before == stiffness[i]:
                continue
            gain = 0.5 * (stiffness[i] - before) * strain[i] * strain[i]
            if again == 0:
                if gain > 0.0:
                    wanted[g] += gain
                else:
                    freed[g] -= gain
            elif gain > 0.0:
                energy = 0.5 * before * strain[i] * strain[i] + gain * min(1.0, freed[g] / wanted[g])
                strain[i] = min(strain[i], math.sqrt(2.0 * energy / stiffness[i]))
                offset[i] = -rows.separation[i] - strain[i]


@kernel
def replaces(i, rows, v_n, springs, old_count, period):
    """Whether new contact i, with normal velocity v_n, is another point of a manifold that overlapped there before.

    It does not begin with a collision: one step before, its points had overlapped already.
    """
    if -rows.separation[i] <= MET * period * abs(v_n):
        return False
    overlapped = False
    for k in range(old_count):
        overlapped = overlapped or springs.old_wall[k] == rows.wall[i]
    return overlapped


@kernel
def give_back(count, springs, period, dissipated):
    """Reduce the offsets, at the cost of at most a part of the energy that the world has dissipated [J]."""
    strain, offset, stiffness = springs.strain, springs.offset, springs.stiffness
    part = min(1.0, period / RETURN)
    cost = 0.0
    for i in range(count):
        if offset[i] > 0.0:
            x = part * offset[i]
            cost += stiffness[i] * (strain[i] + 0.5 * x) * x
    if not cost > 0.0:
        return
    spare = SHARE * dissipated - springs.returned[0]
    part *= max(0.0, min(1.0, spare / cost))
    for i in range(count):
        if offset[i] > 0.0:
            x = part * offset[i]
            springs.returned[0] += stiffness[i] * (strain[i] + 0.5 * x) * x
            strain[i] += x
            offset[i] -= x


@kernel
def remember(count, rows, contacts, springs, old_id):
    """Keep identities and springs of the contacts that overlap for the next step; returns how many there are."""
    n = 0
    for i in range(count):
        if rows.separation[i] < 0.0:
            old_id[n] = rows.id[i]
            springs.old_strain[n], springs.old_offset[n] = springs.strain[i], springs.offset[i]
            springs.old_stiffness[n], springs.old_row[n] = springs.stiffness[i], i
            springs.old_wall[n] = rows.wall[i]
            tree = contacts.tree[i, 1]
            springs.old_tree[n] = tree if tree >= 0 else contacts.tree[i, 0]
            n += 1
    return n
