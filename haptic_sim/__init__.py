"""Simulated worlds: scenes, articulated dynamics, contact, the local model; pure cores that know nothing of ROS.

For programs: `load` reads a `Model` from a file, a `World` of it is advanced step by step; an `Environment` advances
the tool of one at the servo rate, with messages; `rollout` advances many worlds of a model. All errors are
`HapticsError`. They are imported at their first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from haptic_sim.errors import HapticsError as HapticsError
    from haptic_sim.rollouts import rollout as rollout
    from haptic_sim.simulation import Body as Body
    from haptic_sim.simulation import Contact as Contact
    from haptic_sim.simulation import Environment as Environment
    from haptic_sim.simulation import Model as Model
    from haptic_sim.simulation import World as World
    from haptic_sim.simulation import load as load

    __version__: str

__all__ = ["Body", "Contact", "Environment", "HapticsError", "Model", "World", "load", "rollout"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from haptic_sim import parts  # imported when it is first used

        return parts.own_version()
    if name == "HapticsError":
        from haptic_sim import errors  # imported when it is first used

        return errors.HapticsError
    if name in __all__:
        from haptic_sim import rollouts, simulation  # imported when they are first used

        return getattr(rollouts if name == "rollout" else simulation, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
