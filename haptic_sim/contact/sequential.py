"""Several impacts at once, one pair of bodies after the other: `contact.multiple_impacts: sequential`.

The rigid-body model does not determine how simultaneous impacts share the impulse (Brogliato 2016, chapters 5, 6).
THESIS (4.36) lets all contacts obey Newton's law at once: an impulse is everywhere at the same time, and of Newton's
cradle the first ball rebounds while the others leave together. Between balls that touch at a point an impulse travels
instead: each pair is done before it has reached the next one. So the pair of bodies with the contact that approaches
fastest collides as if it were alone, with all its contacts that take part, then the next such pair, until none
approaches (Ivanov 1995; Chatterjee and Ruina 1998). This is the limit of small gaps between stiff bodies.

Each collision of a pair is one of `resolve_frictional_impacts`: it conserves momentum and does not raise the energy, so
neither does their sequence. Its impulses lie within convex cones, in which their sums lie, too. With restitution below
1 a sequence may have no end (inelastic collapse): it ends where the approach has become a small part of the first one;
after MOST collisions for each contact all contacts stop what still approaches at once, without restitution.

The order matters: a body that lands on two others at the same speed strikes one of them first, so that what is
symmetric does not stay so. Contacts of one pair, as the corners of a box on the floor, are resolved at once, and do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haptic_sim.contact.impacts import Impacts, copy_contact, select_colliding
from haptic_sim.contact.solvers.frictional_impulses import choose_effort, resolve_frictional_impacts
from haptic_sim.contact.solvers.outcomes import NOT_CONVERGED
from haptic_sim.contact.spring_impacts import ImpactSprings, resolve_as_springs
from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.dynamics.scaled import contact_velocity, coupling
from haptic_sim.kernels import kernel
from haptic_sim.records import allocate, array, record, value

MOST = 20  # collisions for each contact
REMAINDER = 1e-6  # of the fastest approach at first: slower ones count as none


@record
class Sequence(NamedTuple):
    """Memory of `resolve_several`, for kernels."""

    pair: Impacts = value("contacts of the pair that collides, and their impulses")
    chosen: np.ndarray = array("numbers of these contacts", "contacts", dtype=np.int64)
    restitution: np.ndarray = array("coefficient of restitution of these contacts", "contacts")
    friction: np.ndarray = array("coefficient of friction of these contacts", "contacts")
    springs: ImpactSprings = value("memory of impacts as springs")

    @classmethod
    def allocate(cls, capacity: int, body: Multibody, law: str) -> Sequence:
        """Memory for so many contacts of a model; of none where all obey their restitution at once."""
        sizes = {"contacts": 0 if law == "simultaneous" else capacity}
        springs = allocate(ImpactSprings, sizes, used=law == "springs")
        return allocate(cls, sizes, pair=Impacts.allocate(sizes["contacts"], body), springs=springs)


@kernel
def resolve_several(n, contacts, u, restitution, friction, slowest, memory, p):
    """Let pairs of bodies collide one after the other, or all contacts as springs; allocates and raises nothing.

    Args:
        n: number of contacts.
        contacts: ScaledContacts.
        u: scaled velocities before; after on return, (nv,).
        restitution: Stronge's coefficients in [0, 1], (C,).
        friction: kinetic coefficients, >= 0, (C,).
        slowest: approach that does not count [m/s].
        memory: Sequence.
        p: impulses [N s] in (normal, tangent 1, tangent 2) to fill, (C, 3).

    Returns:
        Whether the impulses of all collisions converged.
    """
    for i in range(n):
        p[i, 0] = p[i, 1] = p[i, 2] = 0.0
    converged = True
    first, approach = _fastest(n, contacts, u)
    slowest = max(slowest, REMAINDER * approach)
    if memory.springs.used:
        resolve_as_springs(n, contacts, u, restitution, friction, slowest, memory.springs, p)
        first, approach = _fastest(n, contacts, u)
    for _ in range(0 if memory.springs.used else MOST * n):
        if not approach > slowest:
            break
        m = 0
        for i in range(n):
            if _same_pair(contacts.tree, first, i):
                memory.chosen[m], memory.restitution[m] = i, restitution[i]
                m += 1
        converged &= _collide(m, contacts, u, friction, memory, p)
        first, approach = _fastest(n, contacts, u)
    if approach > slowest:
        for i in range(n):
            memory.chosen[i], memory.restitution[i] = i, 0.0
        converged &= _collide(n, contacts, u, friction, memory, p)
    return converged


@kernel
def collide_in_sequence(packed, count):
    """Impulses of the contacts that collide, without friction; returns 1 if they did not converge, else 0."""
    return _collide_selected(packed, count, False)


@kernel
def collide_in_sequence_with_friction(packed, count):
    """Impulses of the contacts that collide, with friction; returns 1 if they did not converge, else 0."""
    return _collide_selected(packed, count, True)


@kernel
def _collide_selected(packed, count, rubs):
    a = packed.arrays
    m = a.method
    f = m.impacts
    n = select_colliding(packed, count)
    if not rubs:
        m.chosen_friction[:n] = 0.0
    restitution, friction = m.chosen_restitution, m.chosen_friction
    converged = resolve_several(n, f.some, m.u, restitution, friction, 0.0, m.sequence, f.p)
    for k in range(n):
        i = m.chosen[k]
        for d in range(3):
            a.impulses.p[i, d] = f.p[k, d]
        a.impulses.impact[i] = True
    return int(not converged)


@kernel
def _fastest(n, contacts, u):
    """The contact that approaches fastest, and how fast [m/s]; -1 and 0 if none does."""
    fastest, approach = -1, 0.0
    for i in range(n):
        v = contact_velocity(contacts, i, 0, u)
        if -v > approach and coupling(contacts, i, 0, i, 0) > 0.0:
            fastest, approach = i, -v
    return fastest, approach


@kernel
def _same_pair(tree, i, k):
    """Whether two contacts are between the same two trees."""
    a, b, c, d = tree[i, 0], tree[i, 1], tree[k, 0], tree[k, 1]
    return (a == c and b == d) or (a == d and b == c)


@kernel
def _collide(m, contacts, u, friction, memory, p):
    """Resolve the m contacts that are chosen at once, and add their impulses; whether they converged."""
    pair = memory.pair
    for k in range(m):
        copy_contact(contacts, memory.chosen[k], pair.some, k)
        memory.friction[k] = friction[memory.chosen[k]]
    steps, sweeps = choose_effort(m)
    code = resolve_frictional_impacts(
        m, pair.some, u, memory.restitution, memory.friction, steps, sweeps, pair.memory, pair.p, pair.state
    )
    for k in range(m):
        for d in range(3):
            p[memory.chosen[k], d] += pair.p[k, d]
    return code != NOT_CONVERGED
