"""What all nodes of a trial know of it: its topics, their subscribers, its parameters."""

from __future__ import annotations

from typing import Literal

from haptic_sim.parameters import Parameters, quantity

EVENTS = "trial_events"
DEACTIVATED = "deactivated"  # the event that a node says when it is deactivated in the course of a trial
POLL = 0.01  # [s] between two looks at what has been discovered, before the trial starts
COMPILING = "compiling"  # the event that a node says before and after each kernel that it compiles
READY_TIMEOUT = 300.0  # [s] without a sign of a node that is missing, after which a trial is given up before it starts

SUBSCRIBERS: dict[str, tuple[str, ...]] = {
    "device_state": ("controller", "recorder"),
    "tool_command": ("tool", "recorder"),
    "tool_state": ("controller", "environment", "recorder"),
    "device_command": ("driver", "recorder"),
    "local_geometry": ("local_model", "recorder"),
    "world_state": ("recorder",),
}
"""Who of a trial listens to a topic; `tool` is the local model if there is one, else the environment."""

RELAYED: dict[str, tuple[str, ...]] = {
    "device_state": ("device_relay", "recorder"),
    "relay_forward": ("world_relay", "recorder"),
    "relayed_device_state": ("controller", "recorder"),
    "device_command": ("world_relay", "recorder"),
    "relay_backward": ("device_relay", "recorder"),
    "relayed_device_command": ("driver", "recorder"),
}
"""The same with a relay between driver and controller."""


class TrialParameters(Parameters):
    """What every node of a trial knows of it."""

    rate: float = quantity(unit="Hz", description="Servo rate", gt=0.0)
    last_tick: int = quantity(description="Ticks 0 to this one are executed", ge=0)
    mode: Literal["lockstep", "realtime"] = quantity(
        "lockstep",
        description="lockstep: each tick waits for its answer; realtime: on the wall clock, latest message",
    )
    nodes: tuple[str, ...] = quantity(description="Names of all nodes of the trial")
    patience: float = quantity(
        10.0, unit="s", description="A peer that is silent for longer ends the trial", gt=0.0, le=3600.0
    )

    @property
    def realtime(self) -> bool:
        """Whether the trial runs on the wall clock."""
        return self.mode == "realtime"

    @property
    def recorded(self) -> bool:
        """Whether this is a trial that is recorded, and not only a graph that runs."""
        return "recorder" in self.nodes

    @property
    def relayed(self) -> bool:
        """Whether there is a relay between driver and controller."""
        return "device_relay" in self.nodes

    def arriving(self, topic: str) -> str:
        """Where a topic that crosses a relay, if there is one, arrives."""
        return f"relayed_{topic}" if self.relayed else topic

    def listeners(self, topic: str) -> int:
        """How many of the trial's nodes listen to a topic."""
        tool = "local_model" if "local_model" in self.nodes else "environment"
        asynchronous = "local_model" in self.nodes
        count = 0
        subscribers = SUBSCRIBERS | RELAYED if self.relayed else SUBSCRIBERS
        for name in subscribers[topic] if "driver" in self.nodes else ("recorder",):
            if name == "environment" and not asynchronous:
                continue
            count += (tool if name == "tool" else name) in self.nodes
        return count

    def publishers(self, topic: str) -> tuple[str, ...]:
        """The nodes of the trial that may publish a topic: one of a servo topic, all of others."""
        names = self.nodes
        tool = "local_model" if "local_model" in names else "environment"
        commands = "controller" if "driver" in names else "environment"
        one = {
            "device_state": "driver",
            "tool_command": commands,
            "tool_state": tool,
            "device_command": commands,
            "local_geometry": "environment",
            "world_state": tool,
            "relay_forward": "device_relay",
            "relayed_device_state": "world_relay",
            "relay_backward": "world_relay",
            "relayed_device_command": "device_relay",
        }.get(topic)
        return names if one is None else (one,)


class ServoError(RuntimeError):
    """The trial cannot go on; the text is the reason."""
