"""Environment node of a trial without a device: it applies the operator's wrench to the tool, and leads the trial."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, ClassVar

from haptic_drivers.nodes.driver import is_live, table_of
from haptic_drivers.operators import AnyOperatorParameters
from haptic_drivers.tool_operator import ToolOperator
from haptic_ros.graph import OPERATOR
from haptic_ros.leader import LeaderNode, LeaderTrialParameters
from haptic_ros.process import run
from haptic_ros.standard_topics import WorldTopics
from haptic_sim.contact.response import UNLIMITED
from haptic_sim.messages import Message, OperatorEvent
from haptic_sim.nodes.field_switch import FieldSwitch
from haptic_sim.nodes.tool import WorldTrialParameters, world_topics
from haptic_sim.parameters import quantity
from haptic_sim.tool.omissions import invalid_steps_of, omissions_of, write_omissions
from haptic_sim.tool.tool_side import build_start, build_tool_side, fields_of
from haptic_sim.tool.world_state import WorldStates


class StandaloneTrialParameters(LeaderTrialParameters, WorldTrialParameters):
    """Parameters that the environment needs of a trial without a device."""

    operator: AnyOperatorParameters = quantity(description="The simulated hand")


class StandaloneNode(FieldSwitch, LeaderNode):
    """The environment and the operator as one node; there is nothing to wait for in a tick."""

    NAME: ClassVar[str] = "environment"
    Config: ClassVar[Any] = StandaloneTrialParameters
    config: StandaloneTrialParameters

    def has(self, topic: str) -> bool:
        if topic == "world_state":
            return self.config.environment.publish is not None
        return is_live(self.config.operator) if topic == OPERATOR else self.config.operator.EVENTS

    def standard_topics(self, rate: float, reliable: bool) -> WorldTopics | None:
        return world_topics(self, self._start, rate) if "world_state" in self.transport.published() else None

    def build(self) -> None:
        config = self.config
        self._start = start = build_start(config)
        build_tool_side(config, UNLIMITED, config.rate, start=start).warm_up()
        self._core = build_tool_side(config, UNLIMITED, config.rate, start=start)
        table = table_of(config.operator)
        self._operator = ToolOperator(config.operator, table, config.seed, config.rate, start, self._core)
        self._command, self._state, self._event = self._operator.command, self._operator.state, OperatorEvent()
        self._begun = -1
        every = config.environment.publish_every(config.rate)
        self._worlds = WorldStates(self._core.observer, every, config.rate, partial(self.send, "world_state"))
        self._worlds.warm_up()
        self.open_trial()

    def finish(self) -> None:
        write_omissions(self.config.directory, omissions_of(self._core), invalid_steps_of(self._core))

    def reconfigure(self) -> None:
        self._core.configure(self.config.contact)
        if fields_of(self.config.scene):
            self._core.set_levels(self.config.environment.fields)

    def next_tick(self) -> int:
        return self._begun + 1

    def receive(self, topic: str, data: bytes | Message) -> None:
        if topic == OPERATOR:
            assert self._operator.events is not None
            self._event.load(data)
            self._operator.events.offer(self._event)
        else:
            self.receive_event(data)

    def idle(self) -> bool:
        """Repeat the initial state until the first tick."""
        if self._begun < 0:
            self._state.stamp(-1, self.time_of(0))
            self.send("tool_state", self._state)
        return self._begun >= 0

    def begin(self, tick: int) -> int:
        self.apply_changes()
        events = self._operator.events
        if events is not None and events.live:
            self.listen(0.0)
        started = time.monotonic_ns()
        if (event := self._operator.begin(tick, self.time_of(tick))) is not None:
            self.send("operator_events", event)
        self.send("tool_command", self._command)
        self._core.step(self._command, self._state)
        self._begun = tick
        self.send("tool_state", self._state)
        return started

    def complete(self) -> None:
        self._worlds.conclude(self._state)
        self._core.prepare()

    def answered(self) -> int:
        return self._begun


def main() -> None:
    """Entry point of the process."""
    run(StandaloneNode)


if __name__ == "__main__":
    main()
