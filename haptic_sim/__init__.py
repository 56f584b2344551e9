"""Simulated worlds: scenes, articulated dynamics, contact, the local model; pure cores that know nothing of ROS.

For programs: `World` is a world that is advanced step by step; an `Environment` advances the tool of one at the servo
rate, with messages. They are imported at their first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from haptic_sim.simulation import Body as Body
    from haptic_sim.simulation import Contact as Contact
    from haptic_sim.simulation import Environment as Environment
    from haptic_sim.simulation import World as World

__all__ = ["Body", "Contact", "Environment", "World"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from haptic_sim import simulation  # imported when it is first used

        return getattr(simulation, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
