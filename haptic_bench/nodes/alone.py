"""The environment of a trial without a device, with the operator's wrench on the tool: it leads the trial itself."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from haptic_drivers.nodes.driver import table_of
from haptic_drivers.operators import AnyOperatorParameters, build_operator
from haptic_sim.contact.response import DeviceLimits
from haptic_sim.messages import Message, ToolCommand, tick_time
from haptic_sim.nodes.leader import LeaderNode, LeaderTrialParameters
from haptic_sim.nodes.process import run
from haptic_sim.nodes.tool import WorldTrialParameters
from haptic_sim.nodes.trial import EVENTS
from haptic_sim.parameters import quantity
from haptic_sim.tool_side import build_tool_side


class AloneTrialParameters(LeaderTrialParameters, WorldTrialParameters):
    """What the environment needs to know of a trial without a device."""

    operator: AnyOperatorParameters = quantity(description="The simulated hand")


class AloneNode(LeaderNode):
    """The environment and the operator as one node; there is nothing to wait for in a tick."""

    NAME: ClassVar[str] = "environment"
    Config: ClassVar[Any] = AloneTrialParameters
    SUBSCRIBES: ClassVar[tuple[str, ...]] = (EVENTS,)
    PUBLISHES: ClassVar[tuple[str, ...]] = ("tool_command", "tool_state")
    config: AloneTrialParameters

    def build(self) -> None:
        """See ServoNode."""
        config = self.config
        table = table_of(config.operator)
        self._operator = build_operator(config.operator, table)
        build_tool_side(config, DeviceLimits(), config.rate).rehearse()
        self._core = build_tool_side(config, DeviceLimits(), config.rate)
        self._command, self._state = ToolCommand(), self._core.tool_state()
        self._begun = -1
        self.open_trial()

    def reconfigure(self) -> None:
        """See ServoNode."""
        self._core.configure(self.config.contact)

    def next_tick(self) -> int:
        """See ServoNode."""
        return self._begun + 1

    def receive(self, topic: str, data: bytes | Message) -> None:
        """See ServoNode."""
        self.hear(data)

    def idle(self) -> bool:
        """Repeat the initial state until the first tick."""
        if self._begun < 0:
            self.send("tool_state", self._state)
        return self._begun >= 0

    def begin(self, tick: int) -> int:
        """See LeaderNode."""
        self.apply_changes()
        rate, command = self.config.rate, self._command
        started = time.monotonic_ns()
        command.stamp(tick, tick_time(tick, rate))
        command.tool_tick = tick - 1
        self._operator.wrench(tick / rate, self._state.pose, self._state.twist, command.wrench)
        self.send("tool_command", command)
        self._core.step(command, self._state)
        self._begun = tick
        self.send("tool_state", self._state)
        return started

    def complete(self) -> None:
        """See LeaderNode."""
        self._core.prepare()

    def answered(self) -> int:
        """See LeaderNode."""
        return self._begun


def main() -> None:
    """Entry point of the process."""
    run(AloneNode)


if __name__ == "__main__":
    main()
