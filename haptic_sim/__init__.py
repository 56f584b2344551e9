"""Worlds: scenes, articulated dynamics, contact, the local model; pure cores that know nothing of ROS.

For programs: `World` is a world that is advanced step by step. It is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from haptic_sim import kernel_cache

if TYPE_CHECKING:
    from haptic_sim.simulation import Body as Body
    from haptic_sim.simulation import Contact as Contact
    from haptic_sim.simulation import World as World

__all__ = ["Body", "Contact", "World"]

kernel_cache.register()


def __getattr__(name: str) -> Any:
    if name in __all__:
        from haptic_sim import simulation

        return getattr(simulation, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
