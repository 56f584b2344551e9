"""Re-simulation of a recorded trial message by message, with the inputs that each core had.

Each message names the messages that it answers. So this also works for realtime trials, in which the inputs of a core
at a tick depend on the clock: every core gets its recorded inputs, and must give the recorded output, bit by bit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from haptic_bench.experiment import Trial
from haptic_bench.recording.bag import own_types
from haptic_control.relay.ends import DeviceEnd, WorldEnd
from haptic_control.soft_return import SoftReturn
from haptic_drivers.devices.link import RecordedReadings
from haptic_sim.contact.response import ContactParameters
from haptic_sim.messages import (
    TOPICS,
    BackwardPacket,
    DeviceCommand,
    DeviceState,
    ForwardPacket,
    LocalGeometry,
    Message,
    Reason,
    ToolCommand,
    ToolState,
    WorldState,
    stamp_of,
    topic_of,
)
from haptic_sim.parameters import Parameters
from haptic_sim.tool.parameters import EnvironmentParameters
from haptic_sim.tool.protocol import ToolSide
from haptic_sim.tool.tool_side import build_surroundings
from haptic_sim.tool.world_state import WorldStates


@dataclass
class Verdict:
    """Number of messages that were simulated again, first difference, and messages whose inputs were not recorded."""

    compared: int = 0
    difference: str = ""
    unverified: list[str] = field(default_factory=list)

    def compare(self, again: Message, recorded: bytes) -> None:
        """Note whether a message is what was recorded."""
        self.compared += 1
        if not self.difference and again.to_bytes() != recorded:
            self.difference = (
                f"{again.TYPE.rpartition('/')[2]} of tick {again.tick}: {_first_difference(again, recorded)}"
            )


def resimulate(trial: Trial, messages: Mapping[str, Sequence[bytes]], *, whole: bool = False) -> Verdict:
    """Simulate driver, controller and the tool's side of a recorded trial again.

    Args:
        trial: with its guards as they were.
        messages: by topic.
        whole: every message that was sent is there. Else one that is not there may have been used by an end of a relay,
            and what differs after it is not verifiable.
    """
    experiment = trial.experiment
    tool_state = trial.tool_sizes.tool_state

    layouts: dict[str, Message] = {
        topic: kind() for topic, kind in TOPICS.items() if topic not in ("tool_state", "local_geometry")
    }
    layouts["tool_state"] = tool_state()
    if experiment.asynchronous:
        layouts["local_geometry"] = _local_geometry(trial)
    tick_at = {topic: 4 + layout.offsets["tick"][0] for topic, layout in layouts.items()}

    def by_tick(hand: str) -> Recorded:
        return {
            topic: {
                int.from_bytes(data[at : at + 8], "little", signed=True): data
                for data in messages.get(topic_of(hand, topic), ())
            }
            for topic, at in tick_at.items()
        }

    of_hands = {hand: (each, by_tick(hand)) for hand, each in trial.hands.items()}
    recorded = of_hands[""][1]
    tool_side = "local_model" if experiment.asynchronous else "environment"
    events = messages.get("trial_events", ())
    verdict = Verdict()
    arrived = "relayed_" if experiment.relayed else ""
    for each, own in of_hands.values():
        if not each.experiment.standalone:
            _driver(each, own, f"{arrived}device_command", verdict)
    others = {hand: own for hand, (_, own) in of_hands.items() if hand}
    if not experiment.environment.engine.OFFLINE:
        of = "is a node of the user's own" if experiment.environment.engine.EXTERNAL else "moves a real robot"
        verdict.unverified.append(f"environment: {of}")
    else:
        live = (
            Live(experiment.contact, tool_side, "contact", events),
            Live(experiment.environment, tool_side, "environment", events),
        )
        _tool_side(trial, recorded, others, live, verdict)
    if not experiment.standalone:
        for hand, (each, own) in of_hands.items():
            if each.experiment.controller.EXTERNAL:
                verdict.unverified.append(f"{topic_of(hand, 'controller')}: is a node of the user's own")
                continue
            gains = Live(each.experiment.controller, topic_of(hand, "controller"), "controller", events)
            _controller(each, own, own[f"{arrived}device_state"], gains, tool_state(), verdict)
    if experiment.relayed:
        _relay(trial, recorded, whole, verdict)
    return verdict


Section = TypeVar("Section", bound=Parameters)


class Live(Generic[Section]):
    """A section of an experiment as a node's parameters were changed in the course of a trial.

    Args:
        parameters: at the beginning.
        node: whose they are; section: what their names begin with.
        events: serialised TrialEvents.
    """

    def __init__(self, parameters: Section, node: str, section: str, events: Sequence[bytes]):
        self.parameters = parameters
        changes: list[tuple[int, list[str], Any]] = []  # from which tick on, where below the section, value
        for data in events:
            event: Any = own_types().deserialize_cdr(data, "haptics/msg/TrialEvent")
            name, _, value = event.detail.partition("=")
            first, *path = name.split(".")
            if (event.name, event.node, first) == ("changed", node, section):
                changes.append((event.tick, path, json.loads(value)))
        self._changes = sorted(changes, key=lambda change: change[0])

    def changed(self, tick: int) -> bool:
        """Bring `parameters` up to what acts in a tick, later than that of the last call; whether they changed."""
        due = [change for change in self._changes if change[0] <= tick]
        if due:
            del self._changes[: len(due)]
            values = self.parameters.model_dump()
            for _, path, value in due:
                place = values
                for key in path[:-1]:
                    place = place[key]
                is_text = isinstance(place[path[-1]], dict) and isinstance(value, str)
                place[path[-1]] = json.loads(value) if is_text else value
            self.parameters = self.parameters.model_validate(values)
        return bool(due)


Recorded = Mapping[str, Mapping[int, bytes]]


def _local_geometry(trial: Trial) -> LocalGeometry:
    """A message of an asynchronous trial."""
    return build_surroundings(trial.world, trial.experiment, trial.experiment.rate).local_geometry()


def _driver(
    trial: Trial,
    recorded: Recorded,
    topic: str,
    verdict: Verdict,
) -> None:
    """The device from its commands, which are on a topic, and hardware also from its readings."""
    states, commands, readings = recorded["device_state"], recorded[topic], recorded["device_reading"]
    hardware = trial.experiment.device.HARDWARE
    driver = trial.driver(RecordedReadings(readings) if hardware else None)
    state, after, command = DeviceState(), DeviceState(), DeviceCommand()
    for tick in sorted(states):
        if hardware and tick not in readings:
            verdict.unverified.append(f"device_state from tick {tick} on: its device_reading is lost")
            return
        driver.sense(tick, state, stamp_of(states[tick]))  # in realtime a clock's
        verdict.compare(state, states[tick])
        if hardware:
            verdict.compare(driver.reading, readings[tick])
        following = states.get(tick + 1)
        if following is None:
            if tick + 1 < max(states):
                verdict.unverified.append(f"device_state from tick {tick + 1} on: it was not recorded")
            return
        after.load(following)
        command.tick = -1  # nothing was rendered
        if after.command_tick >= 0:
            used = commands.get(after.command_tick)
            if used is None:
                verdict.unverified.append(f"device_state from {tick + 1} on: {topic} {after.command_tick} is lost")
                return
            command.load(used)
        driver.follow(command)
        if after.command_tick < 0:
            driver.reason = Reason(after.reason)  # it depends on the clock


def _tool_side(
    trial: Trial,
    recorded: Recorded,
    others: Mapping[str, Recorded],
    live: tuple[Live[ContactParameters], Live[EnvironmentParameters]],
    verdict: Verdict,
) -> None:
    """The tool from its commands and its surroundings; `others` is what was recorded of further hands."""
    experiment, (contact, environment) = trial.experiment, live
    local_model = trial.local_model() if experiment.asynchronous else None
    core: ToolSide = trial.tool_side() if local_model is None else local_model
    geometry = None if local_model is None else _local_geometry(trial)
    state, then, command = core.tool_state(), core.tool_state(), ToolCommand()
    hands = [
        (recorded, command, state),
        *((own, h.command, h.state) for own, h in zip(others.values(), core.hands, strict=True)),
    ]
    worlds, shown = recorded["world_state"], experiment.environment.publish_every(experiment.rate)

    def compare_world(again: WorldState) -> None:
        if again.tick in worlds:
            verdict.compare(again, worlds[again.tick])

    world_states = WorldStates(core.observer, shown if worlds else 0, experiment.rate, compare_world)
    for tick in range(-1, max(recorded["tool_state"], default=-2) + 1):
        for own, wanted, _ in reversed(hands):  # at last the first hand's, which also names the surroundings
            data = own["tool_state"].get(tick)
            if data is None:
                verdict.unverified.append(f"tool_state from tick {tick} on: it was not recorded")
                return
            if tick < 0:
                continue
            then.load(data)
            used = own["tool_command"].get(then.command_tick)
            if used is not None:
                wanted.load(used)
            elif then.command_tick >= 0:
                verdict.unverified.append(f"tool_state from tick {tick} on: tool_command {then.command_tick} is lost")
                return
        if tick >= 0:
            if local_model is not None and geometry is not None and then.geometry_tick != state.geometry_tick:
                surroundings = recorded["local_geometry"].get(then.geometry_tick)
                if surroundings is None:
                    verdict.unverified.append(f"tool_state from {tick} on: local_geometry {then.geometry_tick} is lost")
                    return
                geometry.load(surroundings)
                local_model.update(geometry, tick)
            if contact.changed(tick):
                core.configure(contact.parameters)
            if environment.changed(tick):
                core.set_levels(environment.parameters.fields)
            core.step(command, state)
        for own, _, again in hands:
            if tick < 0:
                again.stamp(tick, stamp_of(own["tool_state"][tick]))
            verdict.compare(again, own["tool_state"][tick])
        if tick >= 0:
            world_states.conclude(state)


def _controller(
    trial: Trial,
    recorded: Recorded,
    device_states: Mapping[int, bytes],
    gains: Live[Any],
    tool: ToolState,
    verdict: Verdict,
) -> None:
    """The controller of a hand from the states of device and tool."""
    experiment = trial.experiment
    controller = SoftReturn(gains.parameters.build(experiment.rate), experiment.limits.wrench_limit, experiment.rate)
    device, tool_command, device_command = DeviceState(), ToolCommand(), DeviceCommand()
    answers: dict[int, list[int]] = {}  # ticks of device commands by the device state that they used
    for tick, data in recorded["device_command"].items():
        device_command.load(data)
        answers.setdefault(device_command.device_tick, []).append(tick)
    gap, before = False, -1
    for tick, data in sorted(recorded["tool_command"].items()):
        tool_command.load(data)
        gap, before = gap or tick != before + 1, tick  # a tick that was skipped, or one whose command is lost
        states = device_states.get(tick), recorded["tool_state"].get(tool_command.tool_tick)
        if states[0] is None or states[1] is None:
            verdict.unverified.append(f"tool_command {tick}: a state that it used is lost")
            if controller.remembers:
                verdict.unverified.append(f"device_command from {tick} on: the controller remembers that state")
                return
            continue
        device.load(states[0])
        tool.load(states[1])
        if gains.changed(tick):
            controller.configure(gains.parameters)
        controller.coordinate(device, tool, tool_command)
        tool_command.set_hand(device)
        verdict.compare(tool_command, data)
        for answered in sorted(answers.get(tick, ())):
            answer = recorded["tool_state"].get(answered)
            if answer is None:
                verdict.unverified.append(f"device_command {answered}: tool_state {answered} is lost")
                continue
            tool.load(answer)
            controller.command(tool, device_command)
            command = recorded["device_command"][answered]
            if controller.remembers and gap and device_command.to_bytes() != command:
                verdict.unverified.append(f"device_command from {answered} on: the controller remembers a lost state")
                return
            verdict.compare(device_command, command)


def _relay(trial: Trial, recorded: Recorded, whole: bool, verdict: Verdict) -> None:
    """Both ends of a relay, each from what came in, in the order in which it came."""
    experiment = trial.experiment
    arguments = experiment.relay, experiment.relay_guard, experiment.rate
    of_device = DeviceEnd(*arguments, trial.coupled_inertias, realtime=True, watchdog=experiment.device.largest_age)
    _device_end(of_device, _Steps(recorded, whole, verdict))
    _world_end(WorldEnd(*arguments, trial.hand.pose, realtime=True), _Steps(recorded, whole, verdict))


class _Steps:
    """The steps of an end of a relay, in each of which it took a message and sent others of the same tick."""

    def __init__(self, recorded: Recorded, whole: bool, verdict: Verdict):
        self._recorded, self._whole, self._verdict = recorded, whole, verdict
        self._certain = True  # nothing can have been used that is not recorded

    def find(self, tick: int, taken: str, *sent: str) -> tuple[bytes, ...] | None:
        """Inputs of a step and its recorded message; None if the message did not come.

        Raises:
            _Lost: only a part is there.
        """
        found = [self._recorded[topic].get(tick) for topic in (taken, *sent)]
        if not any(found[1:]):
            self._certain &= self._whole  # else it may have come, and the answers are lost
            return None
        if None in found:
            raise _Lost(f"{sent[-1]} from {tick} on: {(taken, *sent)[found.index(None)]} {tick} is lost")
        return tuple(data for data in found if data is not None)

    def used(self, topic: str, tick: int, by: str) -> bytes:
        """A message that a step has used.

        Raises:
            _Lost: it is not there.
        """
        data = self._recorded[topic].get(tick)
        if data is None:
            raise _Lost(f"{by} on: {topic} {tick} is lost")
        return data

    def compare(self, topic: str, again: Message, recorded: bytes) -> None:
        """Compare what was sent.

        Raises:
            _Lost: it differs, perhaps because of something that is not recorded.
        """
        if not self._certain and again.to_bytes() != recorded:
            raise _Lost(f"{topic} from {again.tick} on: what came before may be lost")
        self._verdict.compare(again, recorded)

    def ticks(self, *topics: str) -> range:
        """The ticks up to the last of which there is a message; all messages of one may be lost."""
        return range(1 + max((tick for topic in topics for tick in self._recorded[topic]), default=-1))

    def run(self, end: Callable[[], None]) -> None:
        """Simulate an end again, as far as that can be done."""
        try:
            end()
        except _Lost as lost:
            self._verdict.unverified.append(str(lost))


class _Lost(Exception):
    """Signal that an end of a relay cannot be simulated from here on; the text names the reason."""


def _device_end(core: DeviceEnd, steps: _Steps) -> None:
    """The device's end, whose messages name the packets of the other end that it had."""
    state, packet, command = DeviceState(), ForwardPacket(), DeviceCommand()
    sent, answer, content = ForwardPacket(), DeviceCommand(), BackwardPacket()
    content.tick = -1

    def simulate() -> None:
        for tick in steps.ticks("device_state", "relay_forward", "relayed_device_command"):
            found = steps.find(tick, "device_state", "relay_forward", "relayed_device_command")
            if found is None:
                continue
            for message, data in zip((state, sent, answer), found, strict=True):
                message.load(data)
            if sent.content_tick != content.tick:
                content.load(steps.used("relay_backward", sent.content_tick, f"relay_forward from {tick}"))
                core.take_packet(content)
            core.received_tick = answer.device_tick
            core.answer(state, packet, command)
            steps.compare("relay_forward", packet, found[1])
            steps.compare("relayed_device_command", command, found[2])

    steps.run(simulate)


def _world_end(core: WorldEnd, steps: _Steps) -> None:
    """The world's end, whose backward packets name the last state that it had passed on."""
    packet, state, command, sent = ForwardPacket(), DeviceState(), DeviceCommand(), BackwardPacket()
    again = BackwardPacket()
    states = list(steps.ticks("relay_forward", "relayed_device_state"))[::-1]

    def pass_on(last: float) -> None:
        while states and states[-1] <= last:
            found = steps.find(states.pop(), "relay_forward", "relayed_device_state")
            if found is not None:
                packet.load(found[0])
                core.state(packet, state)
                steps.compare("relayed_device_state", state, found[1])

    def simulate() -> None:
        for tick in steps.ticks("device_command", "relay_backward"):
            found = steps.find(tick, "device_command", "relay_backward")
            if found is None:
                continue
            command.load(found[0])
            sent.load(found[1])
            pass_on(sent.state_tick)
            core.backward(command, again)
            steps.compare("relay_backward", again, found[1])
        pass_on(math.inf)

    steps.run(simulate)


def _first_difference(again: Message, recorded: bytes) -> str:
    """Name and values of the first field that differs."""
    ours = again.to_bytes()
    at = next(
        (i for i, (a, b) in enumerate(zip(ours, recorded, strict=False)) if a != b), min(len(ours), len(recorded))
    )
    name = "header"
    for field_name, (start, _, _) in again.offsets.items():
        if 4 + start <= at:
            name = field_name
    return f"{name} differs"
