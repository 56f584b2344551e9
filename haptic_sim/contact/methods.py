"""Contact methods as parts: how the impulses at the contacts of a step are found.

A method of another package is a kernel (`ContactMethodParameters.KERNEL`), which is called by its address, so that no
kernel of this package is compiled anew for it:

    @kernel
    def method(contacts, count, period):
        ...

It gets `contacts`, a `foreign_method.MethodContacts` of which the first `count` are in use, and the period h [s], and
fills in `contacts.impulses`, `contacts.stored` and `contacts.outcome`. All are zero before the call. Whatever it
gives is finite (`foreign_method`), and its work is in the energy balance as that of any method.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from haptic_sim.contact.compliant import CompliantContact
from haptic_sim.contact.foreign_method import ForeignContact
from haptic_sim.contact.response import ContactParameters, ContactResponse, Rendering
from haptic_sim.contact.rigid import RigidContact
from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.hand import Hand
from haptic_sim.parameters import ParameterError
from haptic_sim.parts import Kind, Part


class ContactMethodContext(NamedTuple):
    """Context that a contact method is built from.

    Attributes:
        body: whose contacts it shall resolve.
        contact: material.
        rendering: what is done about impulses that the device cannot render.
        wrench_limit: of the device, (6,) [N, N m].
        capacity: contacts at most.
        hand: of the body; needed for a linkage, where what the device renders of its impulses is limited.
    """

    body: Multibody
    contact: ContactParameters
    rendering: Rendering
    wrench_limit: np.ndarray
    capacity: int
    hand: Hand | None = None


class ContactMethodParameters(Part):
    """Parameters of a contact method."""

    KERNEL: ClassVar[Any] = None
    """The kernel of a method of another package, see the module."""
    RIGID: ClassVar[bool] = False
    """Whether contacts do not overlap, and have no stiffness and damping: a scene starts without overlap."""
    IMPULSIVE: ClassVar[bool] = False
    """Whether contacts that begin have impulses, by their restitution; limits of joints are contacts, too."""
    AHEAD: ClassVar[bool] = False
    """Whether contacts matter before they touch, from `contact.margin` on."""
    SPREADS: ClassVar[bool] = False
    """Whether the method scales impulses that the device cannot render, and spreads them over steps."""
    BONDS: ClassVar[bool] = False
    """Whether friction is that of `contact.friction.model`; else its coefficients alone are used."""
    PRINTED_SELF_COLLISION: ClassVar[bool] = False
    """Whether the method supports `contact.self_collision: printed`."""

    def keys(self) -> tuple[float, ...]:
        """Numbers that the kernel gets; by default all numbers among the keys, in their order."""
        values = [getattr(self, name) for name in type(self).model_fields]
        return tuple(float(one) for one in values if not isinstance(one, str))

    @property
    def label(self) -> str:
        """Name of the method in texts."""
        return self.type.replace("_", " ")

    def used(self, contact: ContactParameters) -> set[str]:
        """Live keys of the section `contact` that it uses."""
        friction = contact.friction.model.USES
        found = {f"friction.{name}" for name in (friction if self.BONDS else friction & {"static", "kinetic"})}
        found |= set() if self.RIGID else {"stiffness", "damping"}
        return found | ({"restitution"} if self.IMPULSIVE else set())

    def without_effect(self, experiment: Any) -> Iterator[tuple[str, set[str] | None, str]]:
        """Keys of an experiment that it leaves unused."""
        if not (self.IMPULSIVE or experiment.local_model.ABSENT):
            yield "local_model.transient", None, f"environment.method = {self.type} has no impacts"

    def problems(self, contact: ContactParameters) -> list[str]:
        """Why it cannot do what the material asks for, one line each, which begins with a key."""
        if contact.self_collision == "printed" and not self.PRINTED_SELF_COLLISION:
            return [
                "contact.self_collision = printed: supports only environment.method = impulse_augmented, not "
                f"{self.type}; use consistent"
            ]
        return []

    def build(self, context: ContactMethodContext) -> ContactResponse:
        """The contact response of a body.

        Raises:
            ParameterError: the method cannot do what the context asks for.
        """
        if type(self).KERNEL is None:
            raise TypeError(f"{type(self).__name__}: has no KERNEL")
        keys = np.array(self.keys())
        name = CONTACT_METHODS.name_of(type(self))
        return ForeignContact(
            context.body, context.contact, context.capacity, type(self).KERNEL, keys, ahead=self.AHEAD, name=name
        )


CONTACT_METHODS = Kind("contact_methods", ContactMethodParameters, by_name=True)
AnyContactMethodParameters = Annotated[ContactMethodParameters, CONTACT_METHODS]
Method = ContactMethodParameters | str
"""A contact method, or the name of one with its defaults."""


def contact_method(method: Method) -> ContactMethodParameters:
    """A contact method, of its parameters or of its name.

    Raises:
        ParameterError: there is none of that name.
    """
    return CONTACT_METHODS.part(method)


class _CompliantParameters(ContactMethodParameters):
    """A method with penalties; the classes derived from it are its forms."""

    BONDS: ClassVar[bool] = True
    FRICTIONAL: ClassVar[bool] = False
    """Whether impulses obey Coulomb's law, too."""

    def build(self, context: ContactMethodContext) -> CompliantContact:
        """The contact response of a body."""
        return CompliantContact(
            context.body,
            context.contact,
            context.capacity,
            context.rendering,
            context.wrench_limit,
            context.hand,
            impulsive=self.IMPULSIVE,
            frictional=self.FRICTIONAL,
        )


class PenaltyParameters(_CompliantParameters):
    """Penalties: a spring and a damper at each contact (THESIS 4.5)."""

    type: Literal["penalty"] = "penalty"


class ImpulseAugmentedParameters(_CompliantParameters):
    """Penalties while contacts last, and impulses when they begin (THESIS 4.1 to 4.4)."""

    IMPULSIVE: ClassVar[bool] = True
    SPREADS: ClassVar[bool] = True
    PRINTED_SELF_COLLISION: ClassVar[bool] = True

    type: Literal["impulse_augmented"] = "impulse_augmented"

    def problems(self, contact: ContactParameters) -> list[str]:
        """Why it cannot do what the material asks for."""
        if contact.self_collision == "printed" and contact.multiple_impacts != "simultaneous":
            return [
                f"contact.multiple_impacts = {contact.multiple_impacts}: is of pairs of bodies, which "
                "contact.self_collision = printed splits; use consistent, or simultaneous"
            ]
        return []


class FrictionalImpulsesParameters(_CompliantParameters):
    """Penalties while contacts last, and impulses with friction when they begin."""

    IMPULSIVE: ClassVar[bool] = True
    SPREADS: ClassVar[bool] = True
    FRICTIONAL: ClassVar[bool] = True

    type: Literal["frictional_impulses"] = "frictional_impulses"


class _RigidParameters(ContactMethodParameters):
    """A method without overlap; the classes derived from it are its forms."""

    RIGID: ClassVar[bool] = True
    IMPULSIVE: ClassVar[bool] = True
    AHEAD: ClassVar[bool] = True
    ONE_AT_A_TIME: ClassVar[bool] = False
    """Whether contacts bounce one after the other."""

    def build(self, context: ContactMethodContext) -> RigidContact:
        """The contact response of a body."""
        return RigidContact(context.body, context.contact, context.capacity, one_at_a_time=self.ONE_AT_A_TIME)


class ConstraintMethodParameters(_RigidParameters):
    """Rigid contacts: time-stepping with complementarity."""

    type: Literal["constraint"] = "constraint"


class HybridParameters(_RigidParameters):
    """Rigid contacts that bounce one after the other (Mirtich), and are then steady."""

    ONE_AT_A_TIME: ClassVar[bool] = True

    type: Literal["hybrid"] = "hybrid"


def build_response(
    method: Method,
    body: Multibody,
    parameters: ContactParameters,
    rendering: Rendering,
    wrench_limit: np.ndarray,
    capacity: int,
    hand: Hand | None = None,
) -> ContactResponse:
    """The contact response of a method, or of its name; the other arguments are those of `ContactMethodContext`.

    Raises:
        ParameterError: the method cannot do what the parameters ask for.
    """
    part = contact_method(method)
    if problems := part.problems(parameters):
        raise ParameterError(problems)
    return part.build(ContactMethodContext(body, parameters, rendering, wrench_limit, capacity, hand))
