"""Offline: all cores in one process, without ROS, as fast as possible.

The cores exchange the same messages as the nodes, so the results are those of the ROS graph in lockstep, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from haptic_bench.experiment import Experiment, Trial
from haptic_control.relay.ends import DeviceEnd, WorldEnd
from haptic_drivers.devices.interface import DeviceError
from haptic_drivers.devices.link import Source
from haptic_drivers.events import Events
from haptic_drivers.tool_operator import ToolOperator
from haptic_sim.messages import (
    TOPICS,
    BackwardPacket,
    DeviceCommand,
    DeviceState,
    ForwardPacket,
    Message,
    ToolCommand,
    ToolState,
    tick_time,
    topic_of,
)
from haptic_sim.tool.protocol import LocalModelCore, ToolSide
from haptic_sim.tool.surroundings import Surroundings
from haptic_sim.tool.tool_side import build_surroundings
from haptic_sim.tool.world_state import WorldStates

Sink = Callable[[str, int, bytes], object]


class Loop(Protocol):
    """The closed loop of a trial, tick by tick, with the same bits as in every mode.

    Attributes:
        ticks: done so far.
        tool_state: of the tool that the first hand holds, after the last tick.
        hands: the messages of each hand that holds a device, the first one first.
        events: of an operator that is a pointer, None of other operators.
    """

    ticks: int
    tool_state: ToolState
    hands: list[HandLoop]
    events: Events | None

    def step(self) -> None:
        """Advance by a tick.

        Raises:
            UnstableError, DeviceError: the trial cannot go on.
        """

    def conclude(self) -> None:
        """Give the sink what comes after the last tick."""


def build_loop(trial: Trial, sink: Sink, source: Source | None = None) -> Loop:
    """The loop of a trial; `sink` takes (topic, tick, bytes) of every message, `source` is of hardware's readings."""
    return _StandaloneLoop(trial, sink) if trial.experiment.standalone else LoopOfHands(trial, sink, source)


def simulate(
    trial: Trial,
    sink: Sink,
    progress: Callable[[int], object] | None = None,
    stop: Callable[[], bool] | None = None,
) -> int:
    """Run a trial; returns the number of ticks done.

    Args:
        trial: what to run.
        sink: takes (topic, tick, bytes) of every message.
        progress: called with the number of ticks done every 64 ticks.
        stop: asked every 64 ticks; True ends the trial early.

    Raises:
        UnstableError, DeviceError: the trial cannot go on.
    """
    loop = build_loop(trial, sink)
    for done in range(1, trial.experiment.last_tick + 2):
        loop.step()
        if not done & 63:
            if progress is not None:
                progress(done)
            if stop is not None and stop():
                break
    loop.conclude()
    return loop.ticks


class LoopOfHands:
    """The loop of devices, controllers and the tool's side; see `Loop`."""

    def __init__(self, trial: Trial, sink: Sink, source: Source | None = None):
        experiment = trial.experiment
        self.ticks = 0
        tool_side: ToolSide
        self._surveys = None
        if experiment.asynchronous:
            tool_side = local_model = trial.local_model()
            surroundings = build_surroundings(trial.world, experiment, experiment.rate)
            self._surveys = _Surveys(surroundings, local_model, experiment, sink)
        else:
            tool_side = trial.tool_side()
        self._tool_side = tool_side
        self.hands = [HandLoop(name, each, sink, None if name else source) for name, each in trial.hands.items()]
        first, *others = self.hands
        self.events = first.driver.events
        first.tool_command, first.tool_state = ToolCommand(), tool_side.tool_state()
        for hand, held in zip(others, tool_side.hands, strict=True):
            hand.tool_command, hand.tool_state = held.command, held.state
        self._worlds = _world_states(tool_side, experiment, sink)
        self.tool_state = first.tool_state
        for hand in self.hands:
            hand.put("tool_state", -1, hand.tool_state)

    def step(self) -> None:
        """Advance by a tick."""
        tick, first = self.ticks, self.hands[0]
        for hand in self.hands:
            hand.ask(tick)
        if self._surveys is not None:
            self._surveys.before(tick, first.tool_state)
        self._tool_side.step(first.tool_command, first.tool_state)
        for hand in self.hands:
            hand.follow(tick)
        self._worlds.conclude(first.tool_state)
        self.ticks = tick + 1

    def conclude(self) -> None:
        """Give the sink what comes after the last tick."""
        for hand in self.hands:
            hand.sense(self.ticks)


class HandLoop:
    """Driver and controller of a hand; its messages, on topics of its name, with the values of the last tick."""

    tool_command: ToolCommand
    tool_state: ToolState
    device_state: DeviceState
    device_command: DeviceCommand

    def __init__(self, name: str, trial: Trial, sink: Sink, source: Source | None = None):
        experiment = trial.experiment
        self._sink = sink
        self._topics = {topic: topic_of(name, topic) for topic in TOPICS}
        self.driver = trial.driver(source)
        self._reads = source is not None
        self._controller = experiment.controller.build(experiment.rate)
        self.device_state, self.device_command = DeviceState(), DeviceCommand()
        self._relay = _Relay(trial, sink) if experiment.relayed else None

    def put(self, topic: str, tick: int, message: Message) -> None:
        """Give a message to the sink."""
        self._sink(self._topics[topic], tick, message.to_bytes())

    def sense(self, tick: int) -> None:
        """The device at the beginning of a tick."""
        self.driver.sense(tick, self.device_state)
        if (event := self.driver.event(tick)) is not None:
            event.stamp(tick, self.device_state.nanoseconds)
            self.put("operator_events", tick, event)
        self.put("device_state", tick, self.device_state)
        if self._reads:
            self.put("device_reading", tick, self.driver.reading)

    def ask(self, tick: int) -> None:
        """Begin a tick: find the command to the tool."""
        self.sense(tick)
        if self.driver.fault:
            raise DeviceError(self.driver.fault)
        arrived = self.device_state if self._relay is None else self._relay.forward(self.device_state)
        self._controller.coordinate(arrived, self.tool_state, self.tool_command)
        self.tool_command.set_hand(arrived)
        self.put("tool_command", tick, self.tool_command)

    def follow(self, tick: int) -> None:
        """End a tick with the tool's answer."""
        self.put("tool_state", tick, self.tool_state)
        self._controller.command(self.tool_state, self.device_command)
        self.put("device_command", tick, self.device_command)
        command = self.device_command if self._relay is None else self._relay.back(self.device_command)
        if self._reads:  # hardware has the clock of the world: a command after a gap begins softly
            self.driver.follow(command)
        else:
            self.driver.actuate(command)


class _StandaloneLoop:
    """The loop without a device: the operator's wrench acts on the tool; see `Loop`."""

    def __init__(self, trial: Trial, sink: Sink):
        experiment = trial.experiment
        self.ticks, self._rate, self._sink = 0, experiment.rate, sink
        self.hands: list[HandLoop] = []
        self._environment = environment = trial.tool_side()
        self._operator = ToolOperator(
            experiment.operator, trial.table, experiment.seed, experiment.rate, trial.start, environment
        )
        self.tool_state, self.events = self._operator.state, self._operator.events
        self._worlds = _world_states(environment, experiment, sink)
        sink("tool_state", -1, self.tool_state.to_bytes())

    def step(self) -> None:
        """Advance by a tick."""
        tick, sink, command, state = self.ticks, self._sink, self._operator.command, self.tool_state
        if (event := self._operator.begin(tick, tick_time(tick, self._rate))) is not None:
            sink("operator_events", tick, event.to_bytes())
        sink("tool_command", tick, command.to_bytes())
        self._environment.step(command, state)
        sink("tool_state", tick, state.to_bytes())
        self._worlds.conclude(state)
        self.ticks = tick + 1

    def conclude(self) -> None:
        """Give the sink what comes after the last tick."""


class _Relay:
    """Both ends of a relay."""

    def __init__(self, trial: Trial, sink: Sink):
        experiment, self._sink = trial.experiment, sink
        arguments = experiment.relay, experiment.relay_guard, experiment.rate
        self._device_end = DeviceEnd(*arguments, trial.coupled_inertias)
        self._world_end = WorldEnd(*arguments, trial.hand.pose)
        self._forward, self._backward = ForwardPacket(), BackwardPacket()
        self._state, self._command = DeviceState(), DeviceCommand()

    def forward(self, state: DeviceState) -> DeviceState:
        """What the controller gets of a device's state."""
        self._device_end.forward(state, self._forward)
        self._sink("relay_forward", state.tick, self._forward.to_bytes())
        self._world_end.state(self._forward, self._state)
        self._sink("relayed_device_state", state.tick, self._state.to_bytes())
        return self._state

    def back(self, command: DeviceCommand) -> DeviceCommand:
        """What the driver gets of a device's command."""
        self._world_end.backward(command, self._backward)
        self._sink("relay_backward", command.tick, self._backward.to_bytes())
        self._device_end.command(self._backward, self._command)
        self._sink("relayed_device_command", command.tick, self._command.to_bytes())
        return self._command


def _world_states(tool_side: ToolSide, experiment: Experiment, sink: Sink) -> WorldStates:
    """The world states of a trial, into the sink."""
    every = experiment.environment.publish_every(experiment.rate)
    return WorldStates(
        tool_side.observer, every, experiment.rate, lambda state: sink("world_state", state.tick, state.to_bytes())
    )


class _Surveys:
    """The asynchronous environment: makes the surveys, and passes each to the local model after its delay."""

    def __init__(self, surroundings: Surroundings, local_model: LocalModelCore, experiment: Experiment, sink: Sink):
        self._surroundings, self._local_model, self._sink = surroundings, local_model, sink
        self._schedule = experiment.environment.schedule(experiment.rate)
        self._geometry = surroundings.local_geometry()
        self._known: dict[int, bytes] = {}
        self._step = 0

    def before(self, tick: int, tool_state: ToolState) -> None:
        """Survey, and pass on the survey that is due, before the local model steps `tick`."""
        if self._schedule.surveys(tick):
            self._surroundings.survey(tool_state, self._step, self._geometry)
            self._step += 1
            self._known[tick] = self._geometry.to_bytes()
        due = self._schedule.due(tick)
        if due is not None:
            data = self._known.pop(due)
            self._sink("local_geometry", due, data)
            self._geometry.load(data)
            self._local_model.update(self._geometry, tick)
