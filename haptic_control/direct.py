"""Direct coupling (THESIS figure 6.10b): forces are exchanged, and nothing coordinates the positions.

    ToolCommand(k) = s F_operator(k)
    DeviceCommand(k) = F_environment(k)

This is the four-channel controller without its position channels. The device is where the tool is only as long as both
have the same dynamics and start together: an inertial device with the tool's inertia, s = 1, and no limit that acts.
Every other difference is integrated twice and never given back.
"""

from __future__ import annotations

from typing import Literal

from haptic_control.four_channel import FourChannel, force_scale_quantity
from haptic_control.operator_wrench import OperatorWrenchParameters
from haptic_sim.parameters import Gains


class DirectParameters(OperatorWrenchParameters):
    """Direct coupling: the force channels of the four-channel controller alone."""

    type: Literal["direct"] = "direct"
    force_scale: float = force_scale_quantity()

    def build(self, rate: float) -> FourChannel:
        """The controller, at the servo rate [Hz]."""
        return FourChannel(self, rate)

    @property
    def stiffness(self) -> Gains:
        """None [N/m, N m/rad]."""
        return (0.0, 0.0, 0.0)

    @property
    def damping(self) -> Gains:
        """None [N s/m, N m s/rad]."""
        return (0.0, 0.0, 0.0)
