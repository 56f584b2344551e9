"""The motion of a mass with viscous damping under a force that is held, integrated exactly."""

from __future__ import annotations

import math


def held_motion(mass: float, damping: float, period: float) -> tuple[float, float, float, float]:
    """Exact motion of a mass [kg] with a viscous damping [N s/m] over `period` [s] under a held force.

    Returns:
        (a, b, c, d) of v' = a v + b F and dx = c v + d F [1, s/kg, s, s^2/kg].
    """
    z = damping * period / mass
    p = -math.expm1(-z) / z if z > 0.0 else 1.0
    # the series where the difference 1 - p would lose digits: it converges as z^n / (n + 2)!
    r = (1.0 - p) / z if z > 0.1 else sum((-z) ** n / math.factorial(n + 2) for n in range(10))
    return math.exp(-z), period / mass * p, period * p, period**2 / mass * r
