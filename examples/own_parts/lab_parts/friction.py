"""A friction law of one's own: friction that falls from static to kinetic as the sliding gets faster (Stribeck).

    f = -(mu_k N + (mu_s N - mu_k N) exp(-|v| / v_s)) v / |v|

outside of the dead band, and viscous in it, where it rises to the static friction.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from haptic_sim.contact.friction_models import FrictionModelParameters
from haptic_sim.kernels import kernel
from haptic_sim.parameters import quantity


@kernel
def stribeck(touch, keys, bond, friction):
    """Fill in the force on the body, see `haptic_sim.contact.friction_models`."""
    band = max(touch.deadband, touch.period * touch.mobility * touch.static)
    if touch.speed <= band:
        friction[3] = touch.static / band
        return
    size = touch.kinetic + (touch.static - touch.kinetic) * math.exp(-touch.speed / keys[0])
    scale = -size / touch.speed
    friction[0], friction[1], friction[2] = scale * touch.vx, scale * touch.vy, scale * touch.vz
    bond[4] = 1.0


class StribeckParameters(FrictionModelParameters):
    """Friction that falls as the sliding gets faster."""

    LAW: ClassVar = stribeck

    type: Literal["stribeck"] = "stribeck"
    velocity: float = quantity(0.01, unit="m/s", description="Speed at which it has fallen by 63 %", gt=0.0, le=1.0)
