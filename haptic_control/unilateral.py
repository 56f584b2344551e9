"""The unilateral coupling (THESIS figure 4.14a): the device feels a spring and a damper while the tool is in contact.

    Fc(k) = K (x_tool - x_device) + B (v_tool - v_device)
    ToolCommand(k) = s F_operator(k) - Fc(k)
    DeviceCommand(k) = Fc(k) if the tool was in contact during the tick, else 0

This is the god-object of Zilles and Salisbury and the virtual proxy of Ruspini, for a tool with a mass. In THESIS 4.5
it is inactive in free motion, where the tool moves by forward dynamics: with s = 1, and a tool that has the device's
inertia, hand and tool move alike there, and the spring is unstrained when a contact begins. With s = 0 the coupling
alone moves the tool, as where the hand's force is not measured: the tool lags behind by its mass times the hand's
acceleration over K, and while it is in contact the hand feels its inertia in every direction.

In equilibrium the hand is F / K beyond the tool, however rigid the wall is. The coupling is not passive: its work on
the tool in free motion is not taken from the hand, and the spring may be strained when the tool leaves a wall.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from haptic_control.coupled_loop import coupling_problem
from haptic_control.four_channel import FourChannel, as_four_channel, force_scale_quantity
from haptic_control.operator_wrench import OperatorWrenchParameters
from haptic_control.stability import CoupledInertias, Search, largest
from haptic_sim.messages import FREE, DeviceCommand, ToolState
from haptic_sim.parameters import Gains, quantity


class UnilateralParameters(OperatorWrenchParameters):
    """Gains of the unilateral coupling."""

    type: Literal["unilateral_coupling"] = "unilateral_coupling"
    stiffness: Gains = quantity(
        (1000.0, 1000.0, 2.5), unit="N/m, N m/rad", description="Stiffness of the coupling", live=True
    )
    damping: Gains = quantity(
        (50.0, 50.0, 0.125), unit="N s/m, N m s/rad", description="Damping of the coupling", live=True
    )
    force_scale: float = force_scale_quantity()

    LABEL: ClassVar[str] = "the unilateral coupling"
    GAINS: ClassVar[tuple[str, ...]] = ("stiffness", "damping")

    def build(self, rate: float) -> UnilateralCoupling:
        """The controller, at the servo rate [Hz]."""
        return UnilateralCoupling(self, rate)

    def loop_problem(self, inertias: CoupledInertias, rate: float, search: Search = largest) -> str:
        """Check the loop with a known device inertia; see `stability_problem`; `search` finds stable gains."""
        return coupling_problem(as_four_channel(self), inertias, rate, search)


class UnilateralCoupling(FourChannel):
    """Four-channel controller without the channel of the environment's force, only in contact; see `FourChannel`."""

    def command(self, tool: ToolState, command: DeviceCommand) -> None:
        """Fill the device's command of the tick that the tool has answered, with the same coordination wrench."""
        super().command(tool, command)
        command.wrench[:] = 0.0 if tool.contact_state == FREE else self._coordination
