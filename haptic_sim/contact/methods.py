"""The contact methods by name, and how the response of each is built."""

from __future__ import annotations

import numpy as np

from haptic_sim.contact.compliant import CompliantContact
from haptic_sim.contact.response import RIGID, ContactParameters, ContactResponse, Method, Rendering
from haptic_sim.contact.rigid import RigidContact
from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.hand import Hand
from haptic_sim.parameters import ParameterError


def build_response(
    method: Method,
    body: Multibody,
    parameters: ContactParameters,
    rendering: Rendering,
    wrench_limit: np.ndarray,
    capacity: int,
    hand: Hand | None = None,
) -> ContactResponse:
    """The contact method of an experiment.

    Args:
        method: see `compliant` and `rigid`.
        body: whose contacts it shall resolve.
        parameters: material.
        rendering: what is done about impulses that the device cannot render; LIMITED ones are for methods with
            penalties.
        wrench_limit: of the device, (6,) [N, N m].
        capacity: contacts at most.
        hand: of the body; needed for a linkage, where what the device renders of its impulses is limited.

    Raises:
        ParameterError: the method cannot do what the parameters ask for.
    """
    if parameters.self_collision == "printed" and method != "impulse_augmented":
        raise ParameterError(
            [
                "contact.self_collision = printed: is made for environment.method = impulse_augmented, not for "
                f"{method}; use consistent"
            ]
        )
    if parameters.self_collision == "printed" and parameters.multiple_impacts != "simultaneous":
        raise ParameterError(
            [
                f"contact.multiple_impacts = {parameters.multiple_impacts}: is of pairs of bodies, which "
                "contact.self_collision = printed splits; use consistent, or simultaneous"
            ]
        )
    if method in RIGID:
        return RigidContact(body, parameters, capacity, method)
    return CompliantContact(body, parameters, capacity, method, rendering, wrench_limit, hand)
