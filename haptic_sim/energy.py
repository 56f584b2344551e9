"""Where the energy of a simulated world is, and where it went."""

from __future__ import annotations

import math

import numba
import numpy as np

KINETIC, POTENTIAL, ELASTIC, INJECTED, DAMPING, FRICTION, IMPACT, NUMERICAL = range(8)
TERMS = ("kinetic", "potential", "elastic", "injected", "damping", "friction", "impact", "numerical")


class EnergyBalance:
    """Energies at the beginning of a step, and what flowed since the start of the trial [J].

    kinetic + potential + elastic = their sum at the start + injected - damping - friction - impact + numerical

    Attributes:
        values: (8,) in the order of TERMS. kinetic; potential, of gravity; elastic, in penalty springs and bonds of
            friction; injected by the hand and by surroundings that move; dissipated by the damping of penalties, by
            friction, and by collisions and rigid contacts; numerical: what discrete time has added, so that the
            balance closes (penalties held over a step add energy, semi-implicit Euler in free fall takes 1/2 m g^2 T^2
            a step). Friction and impact are booked at the mean velocity of the step: each alone may fall, where slip
            reverses in an impact or the hand pushes during one, but not their sum without other forces.
        start: kinetic + potential + elastic at the start, NaN before it, (1,).
    """

    def __init__(self) -> None:
        self.values = np.zeros(8)
        self.start = np.full(1, np.nan)

    def open(self, kinetic: float, potential: float, elastic: float) -> None:
        """State of the world at the beginning of a step."""
        open_balance(self.values, self.start, kinetic, potential, elastic)


@numba.njit(cache=True, nogil=True)
def open_balance(values, start, kinetic, potential, elastic):
    """As `EnergyBalance.open`."""
    total = kinetic + potential + elastic
    if math.isnan(start[0]):
        start[0] = total
    v = values
    v[KINETIC], v[POTENTIAL], v[ELASTIC] = kinetic, potential, elastic
    v[NUMERICAL] = total - start[0] - v[INJECTED] + v[DAMPING] + v[FRICTION] + v[IMPACT]
