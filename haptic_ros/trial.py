"""What all nodes of a trial know of it: its topics, their subscribers, its parameters."""

from __future__ import annotations

from typing import Literal

from haptic_sim.errors import HapticsError
from haptic_sim.messages import OF_HAND, TOPICS, split_topic, topic_of
from haptic_sim.parameters import Parameters, quantity

EVENTS = "trial_events"
OPERATOR = "operator_events_in"  # anybody may publish it, or nobody
DEACTIVATED = "deactivated"  # the event that a node says when it is deactivated in the course of a trial
POLL = 0.01  # [s] between two looks at what has been discovered, before the trial starts
GAP = 0.1  # [s]
QUIET = 0.05  # [s] without a message after which a node of an endless graph sends again what a new peer has to know
COMPILING = "compiling"  # the event that a node says before and after each kernel that it compiles
READY_TIMEOUT = 300.0  # [s] without a sign of a node that is missing, after which a trial is given up before it starts

SUBSCRIBERS: dict[str, tuple[str, ...]] = {
    "device_state": ("controller", "recorder"),
    "tool_command": ("tool", "recorder"),
    "tool_state": ("controller", "environment", "recorder"),
    "device_command": ("driver", "recorder"),
    "local_geometry": ("local_model", "recorder"),
    "world_state": ("recorder",),
    "operator_events": ("recorder",),
    "device_reading": ("recorder",),
}
"""Who of a trial listens to a topic; `tool` is the local model if there is one, else the environment.

Controller and driver are those of the topic's hand. Further drivers listen to the first one's `device_state`, too.
"""

RELAYED: dict[str, tuple[str, ...]] = {
    "device_state": ("device_relay", "recorder"),
    "relay_forward": ("world_relay", "recorder"),
    "relayed_device_state": ("controller", "recorder"),
    "device_command": ("world_relay", "recorder"),
    "relay_backward": ("device_relay", "recorder"),
    "relayed_device_command": ("driver", "recorder"),
}
"""The same with a relay between driver and controller."""


class StandardTopicParameters(Parameters):
    """Topics of standard messages beside the servo topics."""

    rate: float | None = quantity(
        60.0,
        unit="Hz",
        description="Rate of the standard topics, as far as there is anything new; null: there are none",
        gt=0.0,
        le=1e3,
    )
    reliable: bool = quantity(
        False, description="Whether measured_cp, measured_cv and measured_cf are reliable; else best effort"
    )


class TrialParameters(Parameters):
    """What every node of a trial knows of it."""

    rate: float = quantity(unit="Hz", description="Servo rate", gt=0.0)
    last_tick: int = quantity(description="Ticks 0 to this one are executed", ge=0)
    mode: Literal["lockstep", "realtime"] = quantity(
        "lockstep",
        description="lockstep: each tick waits for its answer; realtime: on the wall clock, latest message",
    )
    nodes: tuple[str, ...] = quantity(
        description="Names of all nodes of the trial; those of a further hand as HAND/NAME, in a namespace of that name"
    )
    of_hand: str = quantity(
        "", description="Name of the further hand that the node is of; empty: of the first, or of all"
    )
    standard_topics: StandardTopicParameters = quantity(
        StandardTopicParameters(), description="Topics of standard messages beside the servo topics"
    )
    patience: float = quantity(
        10.0, unit="s", description="A peer that is silent for longer ends the trial", gt=0.0, le=3600.0
    )

    @property
    def realtime(self) -> bool:
        """Whether the trial runs on the wall clock."""
        return self.mode == "realtime"

    @property
    def endless(self) -> bool:
        """Whether nodes may go and come back: on the wall clock, in a graph that only runs."""
        return self.realtime and not self.recorded

    @property
    def gap(self) -> int:
        """Ticks without a command after which an endless graph goes on with the present one, and makes up for none."""
        return max(1, round(GAP * self.rate))

    @property
    def recorded(self) -> bool:
        """Whether this is a trial that is recorded, and not only a graph that runs."""
        return "recorder" in self.nodes

    @property
    def relayed(self) -> bool:
        """Whether there is a relay between driver and controller."""
        return "device_relay" in self.nodes

    def loop_of(self, name: str) -> int:
        """Which servo loop a node works in: 0, or 1 behind a relay."""
        return int(self.relayed and name not in ("driver", "device_relay"))

    def arriving(self, topic: str) -> str:
        """Where a topic that crosses a relay, if there is one, arrives."""
        return f"relayed_{topic}" if self.relayed else topic

    @property
    def all_hands(self) -> tuple[str, ...]:
        """Names of all hands with a device; that of the first is empty."""
        return tuple(split_topic(name)[0] for name in self.nodes if split_topic(name)[1] == "driver")

    @property
    def topics(self) -> tuple[str, ...]:
        """All servo topics in the trial's namespace."""
        of_hand = ("device_reading", *OF_HAND)
        return (*TOPICS, *(topic_of(hand, topic) for hand in self.all_hands if hand for topic in of_hand))

    def in_trial(self, topic: str) -> str:
        """The name in the trial's namespace of a topic as a node calls it: by its own hand, or /NAME."""
        return topic.removeprefix("/") if topic == EVENTS or topic.startswith("/") else topic_of(self.of_hand, topic)

    def listeners(self, topic: str) -> int:
        """How many of the trial's nodes listen to a topic."""
        tool = "local_model" if "local_model" in self.nodes else "environment"
        asynchronous = "local_model" in self.nodes
        hand, kind = split_topic(self.in_trial(topic))
        count = len(self.all_hands) - 1 if kind == "device_state" and not hand and self.all_hands else 0
        subscribers = SUBSCRIBERS | RELAYED if self.relayed else SUBSCRIBERS
        for name in subscribers[kind] if "driver" in self.nodes else ("recorder",):
            if name == "environment" and not asynchronous:
                continue
            own = topic_of(hand, name) if name in ("driver", "controller") else name
            count += (tool if name == "tool" else own) in self.nodes
        return count

    def publishers(self, topic: str) -> tuple[str, ...]:
        """The nodes of the trial that may publish a topic: one of a servo topic, all of others."""
        names = self.nodes
        tool = "local_model" if "local_model" in names else "environment"
        hand, kind = split_topic(self.in_trial(topic))
        commands = topic_of(hand, "controller") if "driver" in names else "environment"
        one = {
            "operator_events": topic_of(hand, "driver") if "driver" in names else "environment",
            "device_reading": topic_of(hand, "driver"),
            "device_state": topic_of(hand, "driver"),
            "tool_command": commands,
            "tool_state": tool,
            "device_command": commands,
            "local_geometry": "environment",
            "world_state": tool,
            "relay_forward": "device_relay",
            "relayed_device_state": "world_relay",
            "relay_backward": "world_relay",
            "relayed_device_command": "device_relay",
        }.get(kind)
        return names if one is None else (one,)


class ServoError(HapticsError, RuntimeError):
    """The trial cannot go on; the text is the reason."""
