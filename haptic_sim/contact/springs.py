"""Springs of penalties that gain energy by the motion of the bodies alone.

A discrete step finds a contact when bodies overlap already, by up to h |v|. A spring that is relaxed where they touch
would then have the energy 1/2 k s^2 that no work was done for. It is independent of the mass, so that bodies of a few
grams are thrown away by it. The same happens wherever the points of a manifold change under load. So the spring of
contact i has an *offset* o >= 0, the overlap at which it has no force, and the *strain*
    d = max(0, -s - o),     energy 1/2 k d^2,     force k d.

**Begin.** While a contact lasts, o changes only where the spring is relaxed: o <- min(o, -s), which costs nothing, and
where the overlap grows by more than TOUCHING steps of motion, as where the shortest way out jumps to another side.
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

from haptic_sim.contact.groups import find_place, find_root
from haptic_sim.kernels import kernel
from haptic_sim.records import array, record

RETURN = 0.1  # [s]
SHARE = 0.005  # of the dissipated energy: cost of the reduction of offsets, at most
TOUCHING = 2.0  # steps of motion by which points may overlap that have just met


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
    paid: np.ndarray = array("energies that the motion of that step left in them", "contacts", unit="J")
    lasts: np.ndarray = array("whether such a contact lasts", "contacts", dtype=np.bool_)
    place: np.ndarray = array("place of a contact among them, -1: it is new", "contacts", dtype=np.int64)
    freed: np.ndarray = array("energy that springs have less than was paid for, by group", "trees", unit="J")
    wanted: np.ndarray = array("energy that the others would have beyond it, by group", "trees", unit="J")
    steps: np.ndarray = array("1 after the first step", 1, dtype=np.int64)
    returned: np.ndarray = array("energy that was spent on giving overlaps back", 1, unit="J")


@kernel
def find_strains(count, rows, root, group, springs, old_id, old_count, after, period):
    """Fill strain and offset of the contacts with a stiffness.

    Args:
        rows: `RowArrays`.
        root: groups of the contacts, see `find_groups`, (C,).
        group: union-find forest of the trees.
        springs: `Springs`, with the stiffness of this step.
        old_id, old_count: identities of the contacts of the step before.
        after: velocities of these contacts at the end of that step, (C, 3) [m/s].
    """
    strain, offset, stiffness, separation = springs.strain, springs.offset, springs.stiffness, rows.separation
    paid, place, lasts, freed, wanted = springs.paid, springs.place, springs.lasts, springs.freed, springs.wanted
    old_strain, old_offset, old_stiffness = springs.old_strain, springs.old_offset, springs.old_stiffness
    old_row, old_tree, id = springs.old_row, springs.old_tree, rows.id
    first = springs.steps[0] == 0
    springs.steps[0] = 1
    for g in range(freed.shape[0]):
        freed[g] = wanted[g] = 0.0
    for k in range(old_count):
        moved = max(0.0, old_strain[k] - period * after[old_row[k], 0])
        paid[k] = 0.5 * old_stiffness[k] * moved * moved
        lasts[k] = False
    n = kept = 0
    for i in range(count):
        strain[i] = offset[i] = 0.0
        if not separation[i] < 0.0:
            continue
        k = find_place(id[i], old_id, old_count, n)
        n += 1
        o = min(old_offset[k], -separation[i]) if k >= 0 else 0.0
        d = -separation[i] - o
        place[i], offset[i], strain[i] = k, o, d
        gain = 0.5 * stiffness[i] * d * d
        if k >= 0:
            lasts[k] = True
            kept += 1
            gain -= paid[k]
        g = root[i]
        if g < 0:
            continue
        if gain > 0.0:
            wanted[g] += gain
        else:
            freed[g] -= gain
    if first:
        return
    if kept < old_count:
        for k in range(old_count):
            if not lasts[k] and old_tree[k] >= 0:
                freed[find_root(group, old_tree[k])] += paid[k]
    _exchange(count, separation, root, springs)


@kernel
def _exchange(count, separation, root, springs):
    """Give springs what has been paid for, and what others of their group have left of theirs."""
    strain, stiffness, freed, wanted = springs.strain, springs.stiffness, springs.freed, springs.wanted
    place, paid, offset = springs.place, springs.paid, springs.offset
    left, lacks = 0.0, False
    for g in range(freed.shape[0]):
        left += max(0.0, freed[g] - wanted[g])
        lacks = lacks or wanted[g] > freed[g]
        wanted[g] = freed[g] / wanted[g] if wanted[g] > freed[g] else 1.0
    springs.returned[0] = max(0.0, springs.returned[0] - left)
    if not lacks:
        return
    for i in range(count):
        g = root[i]
        if not stiffness[i] > 0.0 or g < 0:
            continue
        part = wanted[g]
        if part < 1.0:
            k = place[i]
            before = paid[k] if k >= 0 else 0.0
            gain = 0.5 * stiffness[i] * strain[i] * strain[i] - before
            if gain > 0.0:
                strain[i] = min(strain[i], math.sqrt(2.0 * (before + part * gain) / stiffness[i]))
                offset[i] = -separation[i] - strain[i]


@kernel
def replaces(i, rows, v_n, springs, old_count, period):
    """Whether new contact i, with normal velocity v_n, is another point of a manifold that overlapped there before.

    It does not begin with a collision: one step before, its points had overlapped already.
    """
    if -rows.separation[i] <= TOUCHING * period * abs(v_n):
        return False
    overlapped = False
    for k in range(old_count):
        overlapped = overlapped or springs.old_wall[k] == rows.wall[i]
    return overlapped


@kernel
def reduce_offsets(count, springs, period, dissipated):
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
    returned = springs.returned[0]
    for i in range(count):
        if offset[i] > 0.0:
            x = part * offset[i]
            returned += stiffness[i] * (strain[i] + 0.5 * x) * x
            strain[i] += x
            offset[i] -= x
    springs.returned[0] = returned


@kernel
def remember(count, rows, contacts, springs, old_id):
    """Keep identities and springs of the contacts that overlap for the next step; returns how many there are."""
    n = 0
    separation, id, wall, tree = rows.separation, rows.id, rows.wall, contacts.tree
    strain, offset, stiffness = springs.strain, springs.offset, springs.stiffness
    old_strain, old_offset, old_stiffness = springs.old_strain, springs.old_offset, springs.old_stiffness
    old_row, old_wall, old_tree = springs.old_row, springs.old_wall, springs.old_tree
    for i in range(count):
        if separation[i] < 0.0:
            old_id[n] = id[i]
            old_strain[n], old_offset[n], old_stiffness[n] = strain[i], offset[i], stiffness[i]
            old_row[n], old_wall[n] = i, wall[i]
            old_tree[n] = tree[i, 1] if tree[i, 1] >= 0 else tree[i, 0]
            n += 1
    return n
