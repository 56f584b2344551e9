"""A controller of one's own: a spring whose force saturates smoothly, and a damper, between hand and tool.

    f = F tanh(k d / F) + b (v_tool - v_hand),   d = x_tool - x_hand

on the hand, and the opposite on the tool, in the directions x, y, z: never more than F of spring, however far hand and
tool are apart. Rotations are not coupled.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from haptic_control.parameters import ControllerParameters
from haptic_control.stability import CoupledInertias
from haptic_sim.messages import FORCE, DeviceCommand, DeviceState, ToolCommand, ToolSizes, ToolState
from haptic_sim.parameters import quantity


class SaturatingSpringParameters(ControllerParameters):
    """A spring whose force saturates, and a damper."""

    type: Literal["saturating_spring"] = "saturating_spring"
    stiffness: float = quantity(400.0, unit="N/m", description="Stiffness for small displacements", gt=0.0, live=True)
    damping: float = quantity(20.0, unit="N s/m", description="Damping of the coupling", ge=0.0, live=True)
    largest_force: float = quantity(5.0, unit="N", description="Largest force of the spring", gt=0.0, live=True)

    def build(self, rate: float) -> SaturatingSpring:
        """See ControllerParameters."""
        return SaturatingSpring(self)

    def loop_problem(self, inertias: CoupledInertias, rate: float) -> str:
        """Semi-implicit Euler of a damped spring on the reduced mass m is stable if k T^2 + 2 b T < 4 m."""
        device_mass = (inertias.device or (np.inf, np.inf))[0]
        mobility = 1.0 / device_mass + max(np.diag(np.reshape(inertias.tool, (6, 6)))[:3])
        size = (self.stiffness / rate**2 + 2.0 * self.damping / rate) * mobility
        if size < 4.0:
            return ""
        return (
            f"controller.stiffness = {self.stiffness:g} N/m, controller.damping = {self.damping:g} N s/m: the sampled "
            f"loop at rate = {rate:g} Hz diverges; {3.9 / size:.2g} of both would do; lower them, or raise the rate"
        )


class SaturatingSpring:
    """See the module."""

    remembers = False  # what it commands depends on the states of the tick alone

    def __init__(self, parameters: SaturatingSpringParameters):
        self._on_hand, self._rate_of_change = np.zeros(3), np.zeros(3)
        self._tick = self._time = 0
        self.configure(parameters)

    def configure(self, parameters: SaturatingSpringParameters) -> None:
        """Take new gains."""
        self._gains = parameters

    def warm_up(self, sizes: ToolSizes) -> None:
        """Call everything once."""
        tool = sizes.tool_state()
        self.coordinate(DeviceState(), tool, ToolCommand())
        self.command(tool, DeviceCommand())

    def coordinate(self, device: DeviceState, tool: ToolState, command: ToolCommand) -> None:
        """Fill the command of the tool."""
        gains, force, change = self._gains, self._on_hand, self._rate_of_change
        np.subtract(tool.pose[:3], device.pose[:3], out=force)
        force *= gains.stiffness / gains.largest_force
        np.tanh(force, out=force)
        force *= gains.largest_force
        np.subtract(tool.twist[:3], device.twist[:3], out=change)
        change *= gains.damping
        force += change
        command.wrench[:] = 0.0
        np.negative(force, out=command.wrench[:3])
        self._tick, self._time = device.tick, device.nanoseconds
        command.stamp(self._tick, self._time)
        command.tool_tick = tool.tick

    def command(self, tool: ToolState, command: DeviceCommand) -> None:
        """Fill the command of the device."""
        command.stamp(tool.tick, self._time)
        command.device_tick = self._tick
        command.mode = FORCE
        command.wrench[:] = 0.0
        command.wrench[:3] = self._on_hand
