"""Local models whose contacts are one wrench on the tool."""

from __future__ import annotations

import numpy as np

from haptic_sim.contact.response import UNLIMITED, ContactParameters
from haptic_sim.messages import FREE, RESTING, ToolCommand, ToolState
from haptic_sim.tool.local_model.model import LocalModel
from haptic_sim.tool.local_model.parameters import LocalModelParameters
from haptic_sim.tool.virtual_tool import VirtualTool
from haptic_sim.worlds.isolated import isolate_tool
from haptic_sim.worlds.world_setup import WorldSetup


class AppliedWrench(LocalModel):
    """The tool moves freely under the command and under `wrench`, which `take` or `answer` of a derived class fills in.

    What the wrench does is work on the tool from outside, in the energy balance as that of the command.

    Args:
        world, contact, rate, parameters, period: as of a `LocalModelContext`, and of the part.

    Attributes:
        wrench: of the contacts on the tool at the hand point, in world axes (6,) [N, N m].
        contacts: their number, as the tool's state reports it.
    """

    def __init__(
        self,
        world: WorldSetup,
        contact: ContactParameters,
        rate: float,
        parameters: LocalModelParameters,
        period: float,
    ):
        tool = VirtualTool(isolate_tool(world), contact, "penalty", UNLIMITED.rendering, UNLIMITED.limit(), rate)
        super().__init__(world, tool, parameters, period)
        tool.pushed = True  # by a wrench that no contact at the servo rate explains
        self.contacts, self.wrench = 0, np.zeros(6)
        self._command = ToolCommand()

    def answer(self, command: ToolCommand, state: ToolState) -> None:
        """Turn the state before a tick into the state after it, under a command; as `step`, without transients."""
        total = self._command
        total.stamp(command.tick, command.nanoseconds)
        total.wrench[:] = command.wrench + self.wrench
        self.tool.step(total, state, self.geometry_tick)
        state.wrench[:] = self.wrench
        if self.tool.fields is not None:
            state.wrench[:] += self.tool.fields.felt[0]
        state.impulse += self.tool.period * self.wrench
        state.contacts, state.contact_state = self.contacts, RESTING if self.contacts else FREE
