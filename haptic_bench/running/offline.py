"""Offline: all cores in one process, without ROS, as fast as possible.

The cores exchange the same messages as the nodes, so the results are those of the ROS graph in lockstep, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    ToolCommand,
    ToolState,
    WorldState,
    tick_time,
    topic_of,
)
from haptic_sim.tool.omissions import invalid_steps_of, omissions_of
from haptic_sim.tool.protocol import LocalModelCore, ToolSide
from haptic_sim.tool.surroundings import Surroundings
from haptic_sim.tool.tool_side import build_surroundings
from haptic_sim.tool.world_state import WorldStates

Sink = Callable[[int, Mapping[str, bytes]], object]
"""Takes a tick and the bytes of its messages by topic, in the order in which they were made, when the tick is over."""


class Loop(Protocol):
    """The closed loop of a trial, tick by tick, with the same bits as in every mode.

    Attributes:
        ticks: done so far.
        tool_state: of the tool that the first hand holds, after the last tick.
        hands: the messages of each hand that holds a device, the first one first.
        events: of an operator that is a pointer, None of other operators.
        omissions: leaves of signed distance fields that ticks have left out so far.
        invalid_steps: steps in which a contact had no impulse, because its method gave a number that is not finite.
    """

    ticks: int
    tool_state: ToolState
    hands: list[HandLoop]
    events: Events | None

    @property
    def omissions(self) -> int: ...

    @property
    def invalid_steps(self) -> int: ...

    def step(self) -> None:
        """Advance by a tick.

        Raises:
            UnstableError, DeviceError: the trial cannot go on.
        """

    def conclude(self) -> None:
        """Give the sink what comes after the last tick."""


def build_loop(trial: Trial, sink: Sink, source: Source | None = None) -> Loop:
    """The loop of a trial; `sink` takes every message, `source` is of hardware's readings."""
    return _StandaloneLoop(trial, sink) if trial.experiment.standalone else LoopOfHands(trial, sink, source)


def simulate(
    trial: Trial,
    sink: Sink,
    progress: Callable[[int], object] | None = None,
    stop: Callable[[], bool] | None = None,
    left_out: Callable[[int, int], object] | None = None,
) -> int:
    """Run a trial; returns the number of ticks done.

    Args:
        trial: what to run.
        sink: takes every message.
        progress: called with the number of ticks done every 64 ticks.
        stop: asked every 64 ticks; True ends the trial early.
        left_out: called at the end with `Loop.omissions` and `Loop.invalid_steps`.

    Raises:
        UnstableError, DeviceError: the trial cannot go on.
    """
    loop = build_loop(trial, sink)
    try:
        for done in range(1, trial.experiment.last_tick + 2):
            loop.step()
            if not done & 63:
                if progress is not None:
                    progress(done)
                if stop is not None and stop():
                    break
        loop.conclude()
    finally:
        if left_out is not None:
            left_out(loop.omissions, loop.invalid_steps)
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
        self._tool_side, self._sink = tool_side, sink
        self._made: dict[str, bytes] = {}  # messages of the tick
        self.hands = [HandLoop(name, each, None if name else source) for name, each in trial.hands.items()]
        first, *others = self.hands
        self.events = first.driver.events
        first.tool_command, first.tool_state = ToolCommand(), tool_side.tool_state()
        for hand, held in zip(others, tool_side.hands, strict=True):
            hand.tool_command, hand.tool_state = held.command, held.state
        self._worlds = _world_states(tool_side, experiment, self._show)
        self.tool_state = first.tool_state
        sink(-1, {hand.topics["tool_state"]: hand.tool_state.to_bytes() for hand in self.hands})

    def _show(self, state: WorldState) -> None:
        self._made["world_state"] = state.to_bytes()

    @property
    def omissions(self) -> int:
        """Leaves of signed distance fields that ticks, or surveys, have left out."""
        return omissions_of(self._tool_side if self._surveys is None else self._surveys.surroundings) or 0

    @property
    def invalid_steps(self) -> int:
        """Steps in which a contact had no impulse, because its method gave a number that is not finite."""
        return invalid_steps_of(self._tool_side)

    def step(self) -> None:
        """Advance by a tick."""
        tick, hands = self.ticks, self.hands
        first = hands[0]
        made: dict[str, bytes] = {}
        self._made = made
        try:
            for hand in hands:
                hand.ask(tick, made)
            if self._surveys is not None:
                self._surveys.before(tick, first.tool_state)
            self._tool_side.step(first.tool_command, first.tool_state)
            for hand in hands:
                hand.follow(made)
            self._worlds.conclude(first.tool_state)
            self.ticks = tick + 1
        finally:  # what was made of a tick that cannot be ended is kept, too
            self._sink(tick, made)

    def conclude(self) -> None:
        """Give the sink what comes after the last tick."""
        made: dict[str, bytes] = {}
        try:
            for hand in self.hands:
                hand.sense(self.ticks, made)
        finally:
            self._sink(self.ticks, made)


class HandLoop:
    """Driver and controller of a hand; its messages, with the values of the last tick.

    What it does in a tick adds the bytes of the messages to those that were `made` in the tick, by topic.

    Attributes:
        topics: the names of its topics, by the names of those of the first hand.
    """

    tool_command: ToolCommand
    tool_state: ToolState
    device_state: DeviceState
    device_command: DeviceCommand

    def __init__(self, name: str, trial: Trial, source: Source | None = None):
        experiment = trial.experiment
        self.topics = topics = {topic: topic_of(name, topic) for topic in TOPICS}
        self._of_state, self._of_answer = topics["device_state"], topics["tool_state"]
        self._of_commands = topics["tool_command"], topics["device_command"]
        self.driver = trial.driver(source)
        self._reads = source is not None
        self._controller = experiment.controller.build(experiment.rate)
        self.device_state, self.device_command = DeviceState(), DeviceCommand()
        self._relay = _Relay(trial) if experiment.relayed else None

    def sense(self, tick: int, made: dict[str, bytes]) -> None:
        """The device at the beginning of a tick."""
        driver, state = self.driver, self.device_state
        driver.sense(tick, state)
        if driver.events is not None and (event := driver.event(tick)) is not None:
            event.stamp(tick, state.nanoseconds)
            made[self.topics["operator_events"]] = event.to_bytes()
        made[self._of_state] = state.to_bytes()
        if self._reads:
            made[self.topics["device_reading"]] = driver.reading.to_bytes()

    def ask(self, tick: int, made: dict[str, bytes]) -> None:
        """Begin a tick: find the command to the tool."""
        self.sense(tick, made)
        if self.driver.fault:
            raise DeviceError(self.driver.fault)
        arrived = self.device_state if self._relay is None else self._relay.forward(self.device_state, made)
        command = self.tool_command
        self._controller.coordinate(arrived, self.tool_state, command)
        command.set_hand(arrived)
        made[self._of_commands[0]] = command.to_bytes()

    def follow(self, made: dict[str, bytes]) -> None:
        """End a tick with the tool's answer."""
        answer, command = self.tool_state, self.device_command
        made[self._of_answer] = answer.to_bytes()
        self._controller.command(answer, command)
        made[self._of_commands[1]] = command.to_bytes()
        if self._relay is not None:
            command = self._relay.back(command, made)
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
        self._made: dict[str, bytes] = {}  # messages of the tick
        self._worlds = _world_states(environment, experiment, self._show)
        sink(-1, {"tool_state": self.tool_state.to_bytes()})

    def _show(self, state: WorldState) -> None:
        self._made["world_state"] = state.to_bytes()

    @property
    def omissions(self) -> int:
        """Leaves of signed distance fields that ticks have left out."""
        return omissions_of(self._environment) or 0

    @property
    def invalid_steps(self) -> int:
        """Steps in which a contact had no impulse, because its method gave a number that is not finite."""
        return invalid_steps_of(self._environment)

    def step(self) -> None:
        """Advance by a tick."""
        tick, command, state = self.ticks, self._operator.command, self.tool_state
        made: dict[str, bytes] = {}
        self._made = made
        try:
            if (event := self._operator.begin(tick, tick_time(tick, self._rate))) is not None:
                made["operator_events"] = event.to_bytes()
            made["tool_command"] = command.to_bytes()
            self._environment.step(command, state)
            made["tool_state"] = state.to_bytes()
            self._worlds.conclude(state)
            self.ticks = tick + 1
        finally:  # what was made of a tick that cannot be ended is kept, too
            self._sink(tick, made)

    def conclude(self) -> None:
        """Give the sink what comes after the last tick."""


class _Relay:
    """Both ends of a relay."""

    def __init__(self, trial: Trial):
        experiment = trial.experiment
        arguments = experiment.relay, experiment.relay_guard, experiment.rate
        self._device_end = DeviceEnd(*arguments, trial.coupled_inertias)
        self._world_end = WorldEnd(*arguments, trial.hand.pose)
        self._forward, self._backward = ForwardPacket(), BackwardPacket()
        self._state, self._command = DeviceState(), DeviceCommand()

    def forward(self, state: DeviceState, made: dict[str, bytes]) -> DeviceState:
        """Device state as the controller gets it."""
        self._device_end.forward(state, self._forward)
        made["relay_forward"] = self._forward.to_bytes()
        self._world_end.state(self._forward, self._state)
        made["relayed_device_state"] = self._state.to_bytes()
        return self._state

    def back(self, command: DeviceCommand, made: dict[str, bytes]) -> DeviceCommand:
        """Device command as the driver gets it."""
        self._world_end.backward(command, self._backward)
        made["relay_backward"] = self._backward.to_bytes()
        self._device_end.command(self._backward, self._command)
        made["relayed_device_command"] = self._command.to_bytes()
        return self._command


def _world_states(tool_side: ToolSide, experiment: Experiment, send: Callable[[WorldState], object]) -> WorldStates:
    """The world states of a trial."""
    every = experiment.environment.publish_every(experiment.rate)
    return WorldStates(tool_side.observer, every, experiment.rate, send)


class _Surveys:
    """The asynchronous environment: makes the surveys, and passes each to the local model after its delay."""

    def __init__(self, surroundings: Surroundings, local_model: LocalModelCore, experiment: Experiment, sink: Sink):
        self.surroundings, self._local_model, self._sink = surroundings, local_model, sink
        self._schedule = experiment.environment.schedule(experiment.rate)
        self._geometry = surroundings.local_geometry()
        self._known: dict[int, bytes] = {}
        self._step = 0

    def before(self, tick: int, tool_state: ToolState) -> None:
        """Survey, and pass on the survey that is due, before the local model steps `tick`."""
        if self._schedule.surveys(tick):
            self.surroundings.survey(tool_state, self._step, self._geometry)
            self._step += 1
            self._known[tick] = self._geometry.to_bytes()
        due = self._schedule.due(tick)
        if due is not None:
            data = self._known.pop(due)
            self._sink(due, {"local_geometry": data})
            self._geometry.load(data)
            self._local_model.update(self._geometry, tick)
