"""Groups of contacts: sets of bodies connected by overlapping contacts, as a forest over their kinematic trees."""

from __future__ import annotations

from haptic_sim.kernels import kernel


@kernel(inline="always")
def find_root(group, tree):
    """The tree that stands for the group of a tree; `group`: union-find forest, (trees,) int64."""
    while group[tree] != tree:
        tree = group[tree]
    return tree


@kernel
def find_groups(count, tree, group, root):
    """Fill `root` (C,) with the groups of the contacts: of the tree on side B, else on side A; -1 if neither moves."""
    for i in range(count):
        t = tree[i, 1] if tree[i, 1] >= 0 else tree[i, 0]
        root[i] = find_root(group, t) if t >= 0 else -1


@kernel(inline="always")
def find_among(id, known, begin, end):
    """Place of an identity among those from `begin` to before `end`, or -1."""
    for m in range(begin, end):
        if known[m] == id:
            return m
    return -1


@kernel(inline="always")
def find_place(id, old, count, hint):
    """Place of an identity among the old ones, or -1; looks first where it would be had nothing changed."""
    return hint if hint < count and old[hint] == id else _search(id, old, count, hint)


@kernel
def _search(id, old, count, hint):
    """Linear search for `id` in `old`, (count,), from `hint` on; result as of `find_place`."""
    for m in range(count):
        if old[(m + hint) % count] == id:
            return (m + hint) % count
    return -1
