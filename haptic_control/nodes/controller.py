"""Controller node: couples device and virtual tool.

It answers device_state of tick k with tool_command k, and tool_state k with device_command k. A repeated message gets
the same answer.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from haptic_control.activation import passivity_problem
from haptic_control.parameters import AnyControllerParameters, Controller
from haptic_control.soft_return import SoftReturn
from haptic_control.stability import CoupledInertias
from haptic_ros.process import run
from haptic_ros.servo import ServoNode
from haptic_ros.trial import TrialParameters
from haptic_sim.messages import (
    DeviceCommand,
    DeviceState,
    Message,
    MessageError,
    ToolCommand,
    ToolSizes,
    ToolState,
    pack,
)
from haptic_sim.parameters import Gains, quantity


class ControllerTrialParameters(TrialParameters):
    """Parameters of a trial that the controller needs."""

    controller: AnyControllerParameters = quantity(description="Controller between device and tool")
    tool_sizes: tuple[int, int, int] = quantity(
        description="Sizes of the tool's configuration and velocity, and number of its exact constraints"
    )
    inertias: CoupledInertias = quantity(
        CoupledInertias(), description="Inertias that the controller couples, at the start"
    )
    wrench_limit: Gains = quantity(
        (15.0, 15.0, 15.0, 1.0, 1.0, 1.0), unit="N, N m", description="Largest wrench of the device, in each direction"
    )

    @model_validator(mode="after")
    def _is_stable_and_passive(self) -> ControllerTrialParameters:
        """Refuse gains, also changed ones, with which the sampled loop diverges or the device is active."""
        controller, inertias, rate = self.controller, self.inertias, self.rate
        problem = controller.stability_problem(inertias, rate) or passivity_problem(controller, inertias, rate)
        if problem:
            raise ValueError(f".{problem}")
        return self


class ControllerNode(ServoNode):
    """A controller as a node."""

    NAME: ClassVar[str] = "controller"
    Config: ClassVar[Any] = ControllerTrialParameters
    config: ControllerTrialParameters

    def build(self) -> None:
        """Make the core from `self.config`."""
        sizes = ToolSizes(*self.config.tool_sizes)
        self._build().warm_up(sizes)
        self._core = self._build()
        self._received = DeviceState()
        self._tool, self._answered = (sizes.tool_state() for _ in range(2))
        self._tool_command, self._device_command = ToolCommand(), DeviceCommand()
        self._device_tick = self._device_command.tick = -1
        self._tool_tick = -2  # no state yet
        pack(self._received, self._tool, self._answered, self._tool_command, self._device_command)
        self._tool_command.set_hand(self._received)  # loads its kernel

    def _build(self) -> Controller:
        config = self.config
        controller = config.controller.build(config.rate)
        return SoftReturn(controller, config.wrench_limit, config.rate, config.endless) if self.realtime else controller

    def reconfigure(self) -> None:
        """Take a changed `self.config`; called between two messages."""
        self._core.configure(self.config.controller)

    def prepared(self) -> bool:
        """Whether this node can start the trial."""
        return self._tool_tick >= -1

    def next_tick(self) -> int:
        """The first tick whose computation is yet to come."""
        return self._device_tick + 1

    def receive(self, topic: str, data: bytes | Message) -> None:
        """Answer a message: its bytes, or in a composition the message itself; MessageError refuses it."""
        if topic == "tool_state":
            self._command(data)
        else:
            self._coordinate(data)

    def _coordinate(self, data: bytes | Message) -> None:
        device = self._received
        device.load(data)
        tick, last, realtime = device.tick, self._device_tick, self.realtime
        if tick > self.config.last_tick:
            return  # the device's state after the trial
        if not realtime and tick == last and tick >= 0:
            if self._device_command.tick == tick:
                self.send("device_command", self._device_command)
            else:
                self.send("tool_command", self._tool_command)
            return
        if tick <= last and self.endless:  # of a driver that is new, and learns from this how late it is
            self._device_command.tick = last
            self.send("device_command", self._device_command)
            return
        if tick <= last or (not realtime and tick != last + 1):
            raise MessageError(f"device_state {tick}: must be {last + 1}")
        if not device.is_finite():
            raise MessageError(f"device_state {tick}: not finite")
        if self._tool_tick < -1 or (not realtime and self._tool_tick != tick - 1):
            return  # the tool's state has not arrived: the driver will ask again
        self._device_tick = tick
        self._core.coordinate(device, self._tool, self._tool_command)
        self._tool_command.set_hand(device)
        self.send("tool_command", self._tool_command)

    def _command(self, data: bytes | Message) -> None:
        tool = self._answered
        tool.load(data)
        tick, last = tool.tick, self._tool_tick
        if tick == last or (tick < last and not self.realtime):
            return  # an answer that was sent again, for whoever may have lost it
        if self.endless and (last < -1 or tool.command_tick < 0):
            self._adopt(tool)
            return
        if not last < tick <= self._device_tick:
            raise MessageError(f"tool_state {tick}: must be {self._device_tick}")
        if not tool.is_finite():
            raise MessageError(f"tool_state {tick}: not finite")
        self._tool, self._answered, self._tool_tick = tool, self._tool, tick
        if tick >= 0:
            self._core.command(tool, self._device_command)
            self.send("device_command", self._device_command)

    def _adopt(self, tool: ToolState) -> None:
        """Know a tool that has just come, or that was there before this controller."""
        if tool.is_finite():
            self._tool, self._answered = tool, self._tool
            self._tool_tick = max(self._tool_tick, tool.tick)
            self._device_tick = max(self._device_tick, tool.tick)


def main() -> None:
    """Entry point of the process."""
    run(ControllerNode)


if __name__ == "__main__":
    main()
