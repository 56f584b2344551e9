"""Environment node of a trial without a device: it applies the operator's wrench to the tool, and leads the trial."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, ClassVar

from haptic_drivers.nodes.driver import is_live, table_of
from haptic_drivers.operators import (
    AnyOperatorParameters,
    PointerParameters,
    build_operator,
    dragged,
    events_of,
)
from haptic_ros.leader import LeaderNode, LeaderTrialParameters
from haptic_ros.process import run
from haptic_ros.standard_topics import WorldTopics
from haptic_ros.trial import EVENTS, OPERATOR
from haptic_sim.contact.response import UNLIMITED
from haptic_sim.messages import Message, OperatorEvent, ToolCommand
from haptic_sim.nodes.tool import WorldTrialParameters, world_topics
from haptic_sim.parameters import quantity
from haptic_sim.tool.tool_side import build_start, build_tool_side
from haptic_sim.tool.world_state import WorldStates


class AloneTrialParameters(LeaderTrialParameters, WorldTrialParameters):
    """What the environment needs to know of a trial without a device."""

    operator: AnyOperatorParameters = quantity(description="The simulated hand")


class AloneNode(LeaderNode):
    """The environment and the operator as one node; there is nothing to wait for in a tick."""

    NAME: ClassVar[str] = "environment"
    Config: ClassVar[Any] = AloneTrialParameters
    config: AloneTrialParameters

    def subscribed(self) -> tuple[str, ...]:
        """See ServoNode."""
        return (EVENTS, OPERATOR) if is_live(self.config.operator) else (EVENTS,)

    def published(self) -> tuple[str, ...]:
        """See ServoNode."""
        shown = ("world_state",) if self.config.environment.publish is not None else ()
        pointed = ("operator_events",) if isinstance(self.config.operator, PointerParameters) else ()
        return (*pointed, "tool_command", "tool_state", *shown)

    def standard_topics(self, rate: float, reliable: bool) -> WorldTopics | None:
        """See ServoNode."""
        return world_topics(self, self._start, rate) if "world_state" in self.published() else None

    def build(self) -> None:
        """See ServoNode."""
        config = self.config
        self._start = start = build_start(config)
        build_tool_side(config, UNLIMITED, config.rate, start=start).rehearse()
        self._core = build_tool_side(config, UNLIMITED, config.rate, start=start)
        self._command, self._state = ToolCommand(), self._core.tool_state()
        table = table_of(config.operator)
        self._events, self._event = events_of(config.operator, table), OperatorEvent()
        mobility = dragged(config.operator, self._state, planar=start.planar)
        self._operator = build_operator(config.operator, table, config.seed, self._events, mobility)
        self._begun = -1
        every = config.environment.publish_every(config.rate)
        self._worlds = WorldStates(self._core.observer, every, config.rate, partial(self.send, "world_state"))
        self._worlds.rehearse()
        self.open_trial()

    def reconfigure(self) -> None:
        """See ServoNode."""
        self._core.configure(self.config.contact)

    def next_tick(self) -> int:
        """See ServoNode."""
        return self._begun + 1

    def receive(self, topic: str, data: bytes | Message) -> None:
        """See ServoNode."""
        if topic == OPERATOR:
            assert self._events is not None
            self._event.load(data)
            self._events.offer(self._event)
        else:
            self.receive_event(data)

    def idle(self) -> bool:
        """Repeat the initial state until the first tick."""
        if self._begun < 0:
            self._state.stamp(-1, self.time_of(0))
            self.send("tool_state", self._state)
        return self._begun >= 0

    def begin(self, tick: int) -> int:
        """See LeaderNode."""
        self.apply_changes()
        if self._events is not None and self._events.live:
            self.listen(0.0)
        rate, command = self.config.rate, self._command
        started = time.monotonic_ns()
        command.stamp(tick, self.time_of(tick))
        command.tool_tick = tick - 1
        self._operator.wrench(tick / rate, self._state.pose, self._state.twist, command.wrench)
        if self._events is not None and (event := self._events.event_of(tick, tick / rate)) is not None:
            event.stamp(tick, command.nanoseconds)
            self.send("operator_events", event)
        self.send("tool_command", command)
        self._core.step(command, self._state)
        self._begun = tick
        self.send("tool_state", self._state)
        return started

    def complete(self) -> None:
        """See LeaderNode."""
        self._worlds.conclude(self._state)
        self._core.prepare()

    def answered(self) -> int:
        """See LeaderNode."""
        return self._begun


def main() -> None:
    """Entry point of the process."""
    run(AloneNode)


if __name__ == "__main__":
    main()
