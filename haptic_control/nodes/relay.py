"""Relay nodes: the two ends of the communication link between the device's side and the world's.

    relay device|world --ros-args ...

The device's end answers device_state k with relay_forward k, and relay_backward k with relayed_device_command k, which
the driver takes; in realtime it sends both at once, with what has arrived by then. The world's end answers
relay_forward k with relayed_device_state k, which the controller takes, and device_command k with relay_backward k. In
lockstep a repeated message gets the same answer.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, ClassVar

from haptic_control.relay.ends import DeviceEnd, Guard, WorldEnd
from haptic_control.relay.parameters import RelayParameters
from haptic_control.stability import CoupledInertias
from haptic_ros.graph import EVENTS
from haptic_ros.process import answer_help, run
from haptic_ros.servo import ServoNode
from haptic_ros.transport import load_event
from haptic_ros.trial import RECORDER, ServoError, TrialParameters
from haptic_sim.messages import BackwardPacket, DeviceCommand, DeviceState, ForwardPacket, Message, MessageError
from haptic_sim.parameters import quantity


class RelayTrialParameters(TrialParameters):
    """Parameters of a trial that an end of a relay needs."""

    relay: RelayParameters = quantity(description="The communication link between the device's side and the world's")
    guard: Guard = quantity("none", description="Guard of the relay's ports")
    inertias: CoupledInertias = quantity(CoupledInertias(), description="Inertias of tool and device, at the start")
    pose: tuple[float, float, float, float, float, float, float] = quantity(
        unit="m", description="Pose of the hand that the controller gets until one arrives, quaternion x y z w"
    )


Direction = tuple[Callable[..., None], Any, dict[str, Any]]
"""A function of a core, the message that it takes, and the messages that it fills, by their topics."""


class RelayNode(ServoNode):
    """An end of a relay as a node: two messages come in each tick, and each has its answer."""

    Config: ClassVar[Any] = RelayTrialParameters
    config: RelayTrialParameters

    def directions(self) -> tuple[Direction, Direction]:
        """The two directions through a new core, in the order of the tick; every kernel has been called."""
        raise NotImplementedError

    def build(self) -> None:
        """Make the core from `self.config`."""
        self._directions = self.directions()
        self._begun = self._ended = -1  # last ticks of both directions
        self._last_received = 0.0  # when something came last

    def next_tick(self) -> int:
        """The first tick whose computation is yet to come."""
        return self._begun + 1

    def receive(self, topic: str, data: bytes | Message) -> None:
        """Answer a message: its bytes, or in a composition the message itself; MessageError refuses it."""
        if topic in ("device_state", "relay_forward"):
            self._begin_tick(topic, data)
        else:
            self._end_tick(topic, data)

    def _begin_tick(self, topic: str, data: bytes | Message) -> None:
        """Pass on what a tick begins with."""
        core, received, answers = self._directions[0]
        received.load(data)
        tick, last, realtime = received.tick, self._begun, self.realtime
        if tick > self.config.last_tick:
            return  # the device's state after the trial
        if not realtime and tick == last and tick >= 0:
            self._send_again()
            return
        if tick <= last or (not realtime and tick != last + 1):
            raise MessageError(f"{topic} {tick}: must be {last + 1}")
        if not received.is_finite():
            raise MessageError(f"{topic} {tick}: not finite")
        self._begun = tick
        core(received, *answers.values())
        self._send(answers)

    def _end_tick(self, topic: str, data: bytes | Message) -> None:
        """Pass on what a tick ends with."""
        core, received, answers = self._directions[1]
        received.load(data)
        tick = received.tick
        if tick <= self._ended and not self.realtime:
            return  # an answer that was sent again, for whoever may have lost it
        if not self._ended < tick <= self._begun:
            raise MessageError(f"{topic} {tick}: must be {self._begun}")
        if not received.is_finite():
            raise MessageError(f"{topic} {tick}: not finite")
        self._ended = tick
        core(received, *answers.values())
        self._send(answers)

    def _send_again(self) -> None:
        self._send(self._directions[1 if self._ended == self._begun else 0][2])

    def _send(self, answers: dict[str, Any]) -> None:
        for topic, answer in answers.items():
            self.send(topic, answer)


class DeviceRelayTrialParameters(RelayTrialParameters):
    """Parameters of a trial that the device's end needs."""

    watchdog: float = quantity(
        0.02, unit="s", description="Silence of the world's end after which the force is zero, in realtime", gt=0.0
    )


class DeviceRelayNode(RelayNode):
    """The device's end as a node."""

    NAME: ClassVar[str] = "device_relay"
    Config: ClassVar[Any] = DeviceRelayTrialParameters
    config: DeviceRelayTrialParameters

    def directions(self) -> tuple[Direction, Direction]:
        """The two directions through a new core, in the order of the tick; every kernel has been called."""
        config, realtime = self.config, self.config.realtime
        watchdog = config.watchdog if realtime else None
        warmed, core = (
            DeviceEnd(config.relay, config.guard, config.rate, config.inertias, realtime, watchdog) for _ in range(2)
        )
        warmed.warm_up()
        forth = {"relay_forward": ForwardPacket()}
        back = {"relayed_device_command": DeviceCommand()}
        if realtime:
            return (core.answer, DeviceState(), forth | back), (core.take_packet, BackwardPacket(), {})
        return (core.forward, DeviceState(), forth), (core.command, BackwardPacket(), back)

    def _begin_tick(self, topic: str, data: bytes | Message) -> None:
        """Pass on what a tick begins with; in a trial on the wall clock the world may not be silent for ever."""
        super()._begin_tick(topic, data)
        if self.realtime and not self.endless:
            answered = self._directions[0][2]["relayed_device_command"].device_tick
            if self._begun - answered > self.config.patience * self.config.rate:
                raise ServoError(f"the world's side was silent for {self.config.patience:g} s, after tick {answered}")


class WorldRelayTrialParameters(RelayTrialParameters):
    """Parameters of a trial that the world's end needs."""

    leads_side: bool = quantity(
        False, description="Whether the node ends when the trial has ended, led by another host"
    )


class WorldRelayNode(RelayNode):
    """The world's end as a node."""

    NAME: ClassVar[str] = "world_relay"
    Config: ClassVar[Any] = WorldRelayTrialParameters
    config: WorldRelayTrialParameters

    def directions(self) -> tuple[Direction, Direction]:
        """The two directions through a new core, in the order of the tick; every kernel has been called."""
        config = self.config
        warmed, core = (
            WorldEnd(config.relay, config.guard, config.rate, config.pose, config.realtime) for _ in range(2)
        )
        warmed.warm_up()
        forth = {"relayed_device_state": DeviceState()}
        return (core.state, ForwardPacket(), forth), (
            core.backward,
            DeviceCommand(),
            {"relay_backward": BackwardPacket()},
        )

    def has(self, topic: str) -> bool:
        """Whether this node takes the events of the trial: where it leads its side of the relay."""
        return self.config.leads_side

    def idle(self) -> bool:
        """Watch whether the other side is still there, where this node leads its own; whether nothing is left to do."""
        silent = time.monotonic() - self._last_received if self._begun >= 0 else 0.0
        if self.config.leads_side and silent > self.config.patience:
            raise ServoError(f"the device's side was silent for {self.config.patience:g} s, after tick {self._begun}")
        return not self.config.leads_side

    def receive(self, topic: str, data: bytes | Message) -> None:
        """Answer a message: its bytes, or in a composition the message itself; MessageError refuses it."""
        if topic != EVENTS:
            if topic == "relay_forward":  # what else comes is of this node's own side
                self._last_received = time.monotonic()
            super().receive(topic, data)
            return
        event, config = load_event(data), self.config
        if event.node not in (config.leader, RECORDER):
            return
        self._last_received = time.monotonic()
        if event.name in (("closed",) if config.recorded else ("finished", "interrupted")):
            self.end()


ENDS: dict[str, type[RelayNode]] = {"device": DeviceRelayNode, "world": WorldRelayNode}


def main() -> None:
    """Entry point of the process."""
    answer_help(f"relay {'|'.join(ENDS)}", __doc__)
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in ENDS:
        sys.exit(f"relay: {name or 'nothing'}: must be one of {', '.join(ENDS)}")
    run(ENDS[name])


if __name__ == "__main__":
    main()
