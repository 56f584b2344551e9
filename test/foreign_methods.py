"""Contact methods as another package would have them."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from haptic_sim.contact.methods import ContactMethodParameters
from haptic_sim.kernels import kernel
from haptic_sim.parameters import quantity


@kernel
def own_penalty(contacts, count, period):
    """THESIS (4.5), clamped: a spring and a damper, held over the step."""
    impulses = contacts.impulses
    for i in range(count):
        k, s = contacts.stiffness[i], contacts.separation[i]
        if s < 0.0:
            impulses.p[i, 0] = max(0.0, -(k * s + contacts.damping[i] * contacts.before[i, 0])) * period
            impulses.spring[i] = -k * s * period
            contacts.stored[i] = 0.5 * k * s * s


class OwnPenaltyParameters(ContactMethodParameters):
    """Penalties, once more."""

    KERNEL: ClassVar = own_penalty

    type: Literal["own_penalty"] = "own_penalty"


@kernel
def driving(contacts, count, period):
    """A spring that gives more than it stores: stiffer while it is released."""
    for i in range(count):
        s = contacts.separation[i]
        if s < 0.0:
            k = contacts.stiffness[i] * (contacts.keys[0] if contacts.before[i, 0] > 0.0 else 1.0)
            contacts.impulses.p[i, 0] = -k * s * period
            contacts.impulses.spring[i] = contacts.impulses.p[i, 0]
            contacts.stored[i] = contacts.keys[1] * 0.5 * k * s * s


class DrivingMethodParameters(ContactMethodParameters):
    """Contacts that give energy; `claimed` is what they say that they store, as a part of what a spring does."""

    KERNEL: ClassVar = driving

    type: Literal["driving"] = "driving"
    gain: float = quantity(3.0, description="Stiffness of the release, relative")
    claimed: float = quantity(1.0, description="Stored energy, relative")


@kernel
def answer(contacts, count, period):
    """The keys, and whether the memory is that of the step before."""
    for i in range(count):
        contacts.impulses.p[i, 0], contacts.impulses.p[i, 1] = contacts.keys[0], contacts.keys[1]
        contacts.stored[i] = contacts.keys[2]
        contacts.impulses.loosened[i] = contacts.keys[3]
        contacts.impulses.impact[i] = True
        contacts.memory[i, 0] += 1.0


class AnswerMethodParameters(ContactMethodParameters):
    """Any answer."""

    KERNEL: ClassVar = answer

    type: Literal["answer"] = "answer"
    normal: float = quantity(0.0, description="Normal impulse")
    tangent: float = quantity(0.0, description="Impulse along the first tangent")
    stored: float = quantity(0.0, description="Stored energy")
    loosened: float = quantity(0.0, description="Energy that a bond lost")


@kernel
def undefined(contacts, count, period):
    """No number."""
    for i in range(count):
        contacts.impulses.p[i, 0] = math.nan


class UndefinedMethodParameters(ContactMethodParameters):
    """Contacts whose impulse is NaN."""

    KERNEL: ClassVar = undefined

    type: Literal["undefined"] = "undefined"


@kernel
def pulling(contacts, count, period):
    """The penalty with the wrong sign, which pulls what overlaps further in."""
    for i in range(count):
        s = contacts.separation[i]
        if s < 0.0:
            contacts.impulses.p[i, 0] = contacts.stiffness[i] * s * period


class PullingMethodParameters(ContactMethodParameters):
    """Penalties with the wrong sign."""

    KERNEL: ClassVar = pulling

    type: Literal["pulling"] = "pulling"
