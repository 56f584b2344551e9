"""Offline: all cores in one process, without ROS, as fast as possible.

The cores exchange the same messages as the nodes, so the results are those of the ROS graph in lockstep, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable

from haptic_bench.experiment import Experiment, Trial
from haptic_control.relay.ends import DeviceEnd, WorldEnd
from haptic_drivers.devices.interface import DeviceError
from haptic_drivers.tool_operator import ToolOperator
from haptic_sim.messages import (
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
from haptic_sim.tool.environment import Environment
from haptic_sim.tool.local_model import LocalModel
from haptic_sim.tool.surroundings import Surroundings
from haptic_sim.tool.tool_side import ToolSide, build_surroundings
from haptic_sim.tool.world_state import WorldStates

Sink = Callable[[str, int, bytes], object]


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
    experiment = trial.experiment
    if experiment.alone:
        return _simulate_alone(trial, sink, progress, stop)
    tool_side = trial.tool_side()
    surveys = None
    if isinstance(tool_side, LocalModel):
        surveys = _Surveys(build_surroundings(trial.world, experiment, experiment.rate), tool_side, experiment, sink)
    first, *others = hands = [_Hand(name, each, sink) for name, each in trial.hands.items()]
    first.tool_command, first.tool_state = ToolCommand(), tool_side.tool_state()
    if isinstance(tool_side, Environment):
        for hand, held in zip(others, tool_side.hands, strict=True):
            hand.tool_command, hand.tool_state = held.command, held.state
    worlds = _world_states(tool_side, experiment, sink)
    for hand in hands:
        hand.put("tool_state", -1, hand.tool_state)

    last = experiment.last_tick
    done = 0
    for k in range(last + 1):
        for hand in hands:
            hand.ask(k)
        if surveys is not None:
            surveys.before(k, first.tool_state)
        tool_side.step(first.tool_command, first.tool_state)
        for hand in hands:
            hand.follow(k)
        worlds.conclude(first.tool_state)
        done = k + 1
        if not done & 63:
            if progress is not None:
                progress(done)
            if stop is not None and stop():
                break
    for hand in hands:
        hand.sense(done)
    return done


class _Hand:
    """Driver and controller of a hand; its messages, on topics of its name."""

    tool_command: ToolCommand
    tool_state: ToolState

    def __init__(self, name: str, trial: Trial, sink: Sink):
        experiment = trial.experiment
        self._name, self._sink = name, sink
        self._driver = trial.driver()
        self._controller = experiment.controller.build(experiment.rate)
        self._device_state, self._device_command = DeviceState(), DeviceCommand()
        self._relay = _Relay(trial, sink) if experiment.relayed else None

    def put(self, topic: str, tick: int, message: Message) -> None:
        """Give a message to the sink."""
        self._sink(topic_of(self._name, topic), tick, message.to_bytes())

    def sense(self, tick: int) -> None:
        """The device at the beginning of a tick."""
        self._driver.sense(tick, self._device_state)
        if (event := self._driver.event(tick)) is not None:
            event.stamp(tick, self._device_state.nanoseconds)
            self.put("operator_events", tick, event)
        self.put("device_state", tick, self._device_state)

    def ask(self, tick: int) -> None:
        """Begin a tick: find the command to the tool."""
        self.sense(tick)
        if self._driver.fault:
            raise DeviceError(self._driver.fault)
        arrived = self._device_state if self._relay is None else self._relay.forward(self._device_state)
        self._controller.coordinate(arrived, self.tool_state, self.tool_command)
        self.put("tool_command", tick, self.tool_command)

    def follow(self, tick: int) -> None:
        """End a tick with the tool's answer."""
        self.put("tool_state", tick, self.tool_state)
        self._controller.command(self.tool_state, self._device_command)
        self.put("device_command", tick, self._device_command)
        self._driver.actuate(self._device_command if self._relay is None else self._relay.back(self._device_command))


def _simulate_alone(
    trial: Trial, sink: Sink, progress: Callable[[int], object] | None, stop: Callable[[], bool] | None
) -> int:
    """Without a device: the operator's wrench acts on the tool."""
    experiment = trial.experiment
    rate = experiment.rate
    environment = trial.tool_side()
    operator = ToolOperator(experiment.operator, trial.table, experiment.seed, rate, trial.start, environment)
    command, state = operator.command, operator.state
    worlds = _world_states(environment, experiment, sink)
    sink("tool_state", -1, state.to_bytes())
    for k in range(experiment.last_tick + 1):
        if (event := operator.begin(k, tick_time(k, rate))) is not None:
            sink("operator_events", k, event.to_bytes())
        sink("tool_command", k, command.to_bytes())
        environment.step(command, state)
        sink("tool_state", k, state.to_bytes())
        worlds.conclude(state)
        if not (k + 1) & 63:
            if progress is not None:
                progress(k + 1)
            if stop is not None and stop():
                return k + 1
    return experiment.last_tick + 1


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

    def __init__(self, surroundings: Surroundings, local_model: LocalModel, experiment: Experiment, sink: Sink):
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
