"""The hand on an articulated tool: its inertia, the directions that are blocked, what it feels, how devices render it.

`held` refreshes all of it for a `Multibody`; `mobility` holds the theory and the kernels, `rendering` the device's
control laws.
"""

from haptic_sim.hand.held import Hand
from haptic_sim.hand.mobility import Mobility, RankRule

__all__ = ["Hand", "Mobility", "RankRule"]
