"""A contact method of one's own: springs and dampers that act implicitly, and Coulomb friction.

At each contact, with the overlap d before the step and the velocity v after it along normal n and tangents t,

    p_n = max(0, h (k (d - h v_n) - b v_n)),    p_t = -lambda v_t,    |p_t| <= mu p_n,    lambda >= 0

which are solved for all contacts together, one contact after the other in turns (Gauss-Seidel).
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from haptic_sim.contact.methods import ContactMethodParameters
from haptic_sim.dynamics.scaled import apply_impulse, contact_velocity
from haptic_sim.kernels import kernel
from haptic_sim.parameters import quantity


@kernel
def soft_contact(contacts, count, period):
    """Fill in the impulses of a step, see `haptic_sim.contact.methods`."""
    p, u = contacts.impulses.p, contacts.u
    for _ in range(int(contacts.keys[0])):
        for i in range(count):
            k, b, d = contacts.stiffness[i], contacts.damping[i], -contacts.separation[i]
            c, w = period * (b + period * k), contacts.mobility[i, 0]
            v = contact_velocity(contacts.scaled, i, 0, u)
            normal = max(0.0, p[i, 0] + (period * k * d - c * v - p[i, 0]) / (1.0 + c * w))
            apply_impulse(contacts.scaled, i, 0, normal - p[i, 0], u)
            p[i, 0] = normal
            w = max(contacts.mobility[i, 1], contacts.mobility[i, 2])
            if w > 0.0:
                x = p[i, 1] - contact_velocity(contacts.scaled, i, 1, u) / w
                y = p[i, 2] - contact_velocity(contacts.scaled, i, 2, u) / w
                size, most = math.sqrt(x * x + y * y), contacts.friction[i, 1] * normal
                part = most / size if size > most else 1.0
                apply_impulse(contacts.scaled, i, 1, part * x - p[i, 1], u)
                apply_impulse(contacts.scaled, i, 2, part * y - p[i, 2], u)
                p[i, 1], p[i, 2] = part * x, part * y
    for i in range(count):
        k, d = contacts.stiffness[i], -contacts.separation[i]
        left = max(0.0, d - period * contact_velocity(contacts.scaled, i, 0, u))
        contacts.impulses.spring[i] = min(p[i, 0], period * k * left)
        contacts.stored[i] = 0.5 * k * max(0.0, d) ** 2


class SoftContactParameters(ContactMethodParameters):
    """Springs and dampers that act implicitly, and Coulomb friction."""

    KERNEL: ClassVar = soft_contact
    AHEAD: ClassVar = True

    type: Literal["soft_contact"] = "soft_contact"
    turns: int = quantity(20, description="Turns of the solver in a step", ge=1, le=1000)
