"""Several impacts at once, shared out as between springs: `contact.multiple_impacts: springs`.

All contacts that collide are springs of one stiffness, which are compressed and released together while bodies stay
where they are (Stronge 2000; Liu, Zhao and Brogliato 2008, with contacts of equal linear stiffness). The stiffness does
not matter, only that it is the same. A spring is released with the part e^2 of the force with which it was compressed,
so that it returns the part e^2 of the energy that it has taken: e is Stronge's coefficient of restitution, of each
contact by itself. What is symmetric stays so, and an impulse needs time to pass through a row of bodies: of a cradle
with e = 1 most balls move at last, those at both ends fastest.

The time of the springs is divided into steps of leapfrog's method, whose error in the energy is of the order STEP^2.
Where a spring turns from compression to release within a step, the step's impulse is that of both parts. Friction
slides: its impulse is mu times that of the normal in each step, and never more than stops the slip, so that it only
takes energy. If the impulses together add energy, all are scaled to where they do not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haptic_sim.dynamics.scaled import apply_impulse, contact_velocity, coupling
from haptic_sim.kernels import kernel
from haptic_sim.records import array, record, value

STEP = 0.1  # of the time in which the fastest mode of the springs turns by a radian
STEPS = 4000  # number of steps, at most


@record
class ImpactSprings(NamedTuple):
    """Memory of `resolve_as_springs`, for kernels."""

    used: bool = value("whether contacts collide as springs")
    strain: np.ndarray = array("compression of each spring, in units of its own", "contacts")
    longest: np.ndarray = array("its largest compression so far", "contacts")
    push: np.ndarray = array("normal impulse of a step", "contacts", unit="N s")
    approach: np.ndarray = array("speed of compression, then impulse that is too much", "contacts")
    slides: np.ndarray = array("bound of the tangential velocity per impulse", "contacts", unit="1/kg")
    before: np.ndarray = array("velocity before the impacts", "contacts", 3, unit="m/s")


@kernel
def resolve_as_springs(n, contacts, u, restitution, friction, slowest, memory, p):
    """Let contacts collide as springs; allocates and raises nothing.

    Args:
        n: number of contacts.
        contacts: ScaledContacts.
        u: scaled velocities before; after on return, (nv,).
        restitution: Stronge's coefficients in [0, 1], (C,).
        friction: kinetic coefficients, >= 0, (C,).
        slowest: approach that does not count [m/s].
        memory: ImpactSprings.
        p: impulses [N s] in (normal, tangent 1, tangent 2), zero, to fill, (C, 3).
    """
    strain, longest, push, slides = memory.strain, memory.longest, memory.push, memory.slides
    stiffness = 0.0
    for i in range(n):
        strain[i] = longest[i] = row = 0.0
        for j in range(n):
            row += abs(coupling(contacts, i, 0, j, 0))
        stiffness = max(stiffness, row)
        slides[i] = coupling(contacts, i, 1, i, 1) + coupling(contacts, i, 2, i, 2)
        for d in range(3):
            memory.before[i, d] = contact_velocity(contacts, i, d, u)
    if not stiffness > 0.0:
        return
    stiffness = 1.0 / stiffness
    for step in range(STEPS):
        acts = False
        for i in range(n):
            v = contact_velocity(contacts, i, 0, u)
            strain[i] -= (0.5 if step == 0 else 1.0) * STEP * v
            part = 1.0 if strain[i] > longest[i] else restitution[i] * restitution[i]
            longest[i] = max(longest[i], strain[i])
            push[i] = STEP * stiffness * part * max(strain[i], 0.0)
            acts = acts or push[i] > 0.0 or v < -slowest
        if not acts:
            break
        _push(n, contacts, u, restitution, memory, p)
        for i in range(n):
            if push[i] > 0.0 and friction[i] * slides[i] > 0.0:
                _slide(i, contacts, u, friction[i] * push[i], 1.0 / slides[i], p)
    _keep_energy(n, contacts, u, memory.before, p)


@kernel
def _push(n, contacts, u, restitution, memory, p):
    """Apply the normal impulses of a step, reduced where a spring turns from compression to release in it."""
    push, approach = memory.push, memory.approach
    for i in range(n):
        pressed = push[i] > 0.0 and memory.strain[i] == memory.longest[i]
        approach[i] = -contact_velocity(contacts, i, 0, u) if pressed else 0.0
    for i in range(n):
        if push[i] > 0.0:
            apply_impulse(contacts, i, 0, push[i], u)
    for i in range(n):
        after = contact_velocity(contacts, i, 0, u) if approach[i] > 0.0 else 0.0
        released = after / (after + approach[i]) if after > 0.0 else 0.0
        approach[i] = released * (1.0 - restitution[i] * restitution[i]) * push[i]
    for i in range(n):
        if approach[i] > 0.0:
            push[i] -= approach[i]
            apply_impulse(contacts, i, 0, -approach[i], u)
        p[i, 0] += push[i]


@kernel
def _slide(i, contacts, u, most, mobility, p):
    """Apply an impulse against the slip of a contact, of at most so much [N s]; the inverse of its mobility [kg]."""
    v_1, v_2 = contact_velocity(contacts, i, 1, u), contact_velocity(contacts, i, 2, u)
    speed = np.sqrt(v_1 * v_1 + v_2 * v_2)
    if speed > 0.0:
        part = min(most / speed, mobility)
        apply_impulse(contacts, i, 1, -part * v_1, u)
        apply_impulse(contacts, i, 2, -part * v_2, u)
        p[i, 1] -= part * v_1
        p[i, 2] -= part * v_2


@kernel
def _keep_energy(n, contacts, u, before, p):
    """Scale impulses that add energy to where they add none."""
    work = square = 0.0
    for i in range(n):
        for d in range(3):
            work += p[i, d] * before[i, d]
            square += p[i, d] * (contact_velocity(contacts, i, d, u) - before[i, d])
    if work + 0.5 * square > 0.0:
        scale = max(-2.0 * work / square, 0.0)
        for i in range(n):
            for d in range(3):
                apply_impulse(contacts, i, d, (scale - 1.0) * p[i, d], u)
                p[i, d] *= scale
