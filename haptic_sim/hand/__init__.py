"""The hand on an articulated tool: its inertia, blocked directions, the felt wrench, and rendering on a device.

`held` computes all of it for a `Multibody` in every step; `mobility` has the theory and the kernels, `rendering` the
control laws of the device.
"""

from haptic_sim.hand.held import Hand
from haptic_sim.hand.mobility import Mobility, RankRule

__all__ = ["Hand", "Mobility", "RankRule"]
