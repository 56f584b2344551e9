"""Controller node: couples device and virtual tool.

device_state of tick k is answered by tool_command k, tool_state k by device_command k. A repeated message gets the
same answer.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar

from haptic_control.four_channel import FourChannel, FourChannelParameters
from haptic_sim.messages import DeviceCommand, DeviceState, MessageError, ToolCommand, ToolState
from haptic_sim.nodes.process import run
from haptic_sim.nodes.servo import ServoNode
from haptic_sim.nodes.trial import TrialParameters
from haptic_sim.parameters import quantity


class ControllerTrialParameters(TrialParameters):
    """What the controller needs to know of a trial."""

    controller: FourChannelParameters = quantity(description="Controller between device and tool")
    tool_dof: tuple[int, int] = quantity(description="Sizes of the tool's configuration and velocity")


class ControllerNode(ServoNode):
    """A controller as a node."""

    NAME: ClassVar[str] = "controller"
    Config: ClassVar[Any] = ControllerTrialParameters
    SUBSCRIBES: ClassVar[tuple[str, ...]] = ("device_state", "tool_state")
    PUBLISHES: ClassVar[tuple[str, ...]] = ("tool_command", "device_command")
    config: ControllerTrialParameters

    def build(self) -> None:
        """See ServoNode."""
        nq, nv = self.config.tool_dof
        FourChannel(self.config.controller).rehearse(nq, nv)
        self._core = FourChannel(self.config.controller)
        self._device, self._tool = DeviceState(), ToolState(q=nq, v=nv, constraint_directions=36)
        self._tool_command, self._device_command = ToolCommand(), DeviceCommand()
        self._device.tick = self._device_command.tick = -1
        self._tool.tick = -2  # no state yet
        self._received, self._answered = DeviceState(), ToolState(q=nq, v=nv, constraint_directions=36)

    def reconfigure(self) -> None:
        """See ServoNode."""
        self._core.configure(self.config.controller)

    def prepared(self) -> bool:
        """See ServoNode."""
        return self._tool.tick >= -1

    def receive(self, topic: str, data: bytes) -> None:
        """See ServoNode."""
        if topic == "device_state":
            self._coordinate(data)
        else:
            self._command(data)

    def _coordinate(self, data: bytes) -> None:
        received = self._received
        received.load(data)
        if received.tick > self.config.last_tick:
            return  # the device's state after the trial
        if not self.config.realtime and received.tick == self._device.tick and received.tick >= 0:
            if self._device_command.tick == received.tick:
                self.send("device_command", self._device_command.to_bytes())
            else:
                self.send("tool_command", self._tool_command.to_bytes())
            return
        if received.tick <= self._device.tick or (not self.config.realtime and received.tick != self._device.tick + 1):
            raise MessageError(f"device_state {received.tick}: must be {self._device.tick + 1}")
        if not received.is_finite():
            raise MessageError(f"device_state {received.tick}: not finite")
        if self._tool.tick < -1 or (not self.config.realtime and self._tool.tick != received.tick - 1):
            return  # the tool's state has not arrived: the driver will ask again
        self._device.copy_from(received)
        self._core.coordinate(self._device, self._tool, self._tool_command)
        self.send("tool_command", self._tool_command.to_bytes())

    def _command(self, data: bytes) -> None:
        answered = self._answered
        answered.load(data)
        if answered.tick == self._tool.tick:
            return  # an answer that was sent again
        if not self._tool.tick < answered.tick <= self._device.tick and answered.tick >= 0:
            raise MessageError(f"tool_state {answered.tick}: must be {self._device.tick}")
        if not answered.is_finite():
            raise MessageError(f"tool_state {answered.tick}: not finite")
        self._tool.copy_from(answered)
        if answered.tick < 0:
            return
        self._core.command(self._tool, self._device_command)
        self.send("device_command", self._device_command.to_bytes())


def main() -> None:
    """Entry point of the process."""
    sys.exit(run(ControllerNode))


if __name__ == "__main__":
    main()
