"""The unilateral coupling (THESIS figure 4.14a): the device feels a spring and a damper while the tool is in contact.

    Fc(k) = K (x_tool - x_device) + B (v_tool - v_device)
    ToolCommand(k) = s F_operator(k) - Fc(k)
    DeviceCommand(k) = Fc(k) if the tool was in contact during the tick, else 0

The tool follows the device by the same spring and damper at all times. In free motion the device does not feel it
(the god-object of Zilles and Salisbury and the virtual proxy of Ruspini, for a tool with a mass), so that the coupling
is not passive: what it does to the tool there is not taken from the hand.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from haptic_control.four_channel import FourChannel
from haptic_sim.messages import FREE, DeviceCommand, ToolState
from haptic_sim.parameters import Gains, Parameters, quantity


class UnilateralParameters(Parameters):
    """Gains of the unilateral coupling."""

    type: Literal["unilateral_coupling"] = "unilateral_coupling"
    stiffness: Gains = quantity(
        (1000.0, 1000.0, 2.5), unit="N/m, N m/rad", description="Stiffness of the coupling", live=True
    )
    damping: Gains = quantity(
        (50.0, 50.0, 0.125), unit="N s/m, N m s/rad", description="Damping of the coupling", live=True
    )
    force_scale: float = quantity(
        0.0,
        description="Part of the operator's wrench that acts on the virtual tool too",
        live=True,
        ge=0.0,
        le=100.0,
    )


class UnilateralCoupling(FourChannel):
    """As `FourChannel`, without the channel of the environment's force, and only in contact."""

    def command(self, tool: ToolState, command: DeviceCommand) -> None:
        """See FourChannel."""
        super().command(tool, command)
        command.wrench[:] = np.where(tool.contact_state == FREE, 0.0, self._coordination)
