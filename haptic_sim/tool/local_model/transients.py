"""Event-based transients: an impact adds a decaying sinusoid to the rendered force (THESIS 7.2).

What a hand feels of a material is the high-frequency transient of an impact more than its stiffness. Each impact that
the hand takes part in adds A v exp(-d t) sin(2 pi f t) along its wrench, where v is the speed at which the hand
approached. It is rendered, and does not act on the proxy.
"""

from __future__ import annotations

import math

import numpy as np

from haptic_sim.messages import COLLIDING, ToolState
from haptic_sim.tool.local_model.parameters import TransientParameters

LEAST = 1e-3  # [N] a transient with a smaller amplitude has ended
MOST = 16  # transients at once; a further one takes the place of the oldest


class ImpactTransients:
    """The transients of the impacts so far.

    Args:
        parameters: of the material.
        rate: of the servo [Hz].
    """

    def __init__(self, parameters: TransientParameters, rate: float):
        self._parameters, self._period = parameters, 1.0 / rate
        self._directions, self._amplitudes, self._ages = np.zeros((MOST, 6)), np.zeros(MOST), np.zeros(MOST)
        self._twist = np.zeros(6)
        self._next = 0
        self._colliding = False

    def approach(self, state: ToolState) -> np.ndarray:
        """The twist of the hand before a step (6,), to be given to `add`."""
        self._twist[:] = state.twist
        return self._twist

    def add(self, twist: np.ndarray, state: ToolState) -> None:
        """Add the transients to the wrench of a step."""
        p = self._parameters
        colliding = state.contact_state == COLLIDING
        if colliding and not self._colliding:
            size = math.sqrt(float(state.wrench[:3] @ state.wrench[:3]))
            speed = -float(state.wrench @ twist) / size if size > 0.0 else 0.0
            if speed > 0.0:
                k = self._next
                self._directions[k] = state.wrench / size
                self._amplitudes[k], self._ages[k] = p.amplitude * speed, 0.0
                self._next = (k + 1) % MOST
        self._colliding = colliding
        for k in range(MOST):
            if self._amplitudes[k] == 0.0:
                continue
            self._ages[k] += self._period
            amplitude = self._amplitudes[k] * math.exp(-p.decay * self._ages[k])
            if amplitude < LEAST:
                self._amplitudes[k] = 0.0
                continue
            state.wrench += amplitude * math.sin(2.0 * math.pi * p.frequency * self._ages[k]) * self._directions[k]
