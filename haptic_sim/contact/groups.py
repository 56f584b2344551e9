"""Groups of contacts: sets of bodies connected by overlapping contacts, as a forest over their kinematic trees."""

from __future__ import annotations

from haptic_sim.kernels import kernel


@kernel
def find_root(group, tree):
    """The tree that stands for the group of a tree; `group`: union-find forest, (trees,) int64."""
    while group[tree] != tree:
        tree = group[tree]
    return tree


@kernel
def group_of(contacts, i, group):
    """Group of a contact: of the tree on its side B, else on its side A; -1 if neither moves."""
    if contacts.tree[i, 1] >= 0:
        return find_root(group, contacts.tree[i, 1])
    if contacts.tree[i, 0] >= 0:
        return find_root(group, contacts.tree[i, 0])
    return -1


@kernel
def find_place(id, old, count, hint):
    """Place of an identity among the old ones, or -1; looks first where it would be had nothing changed."""
    if hint < count and old[hint] == id:
        return hint
    for m in range(count):
        if old[(m + hint) % count] == id:
            return (m + hint) % count
    return -1
