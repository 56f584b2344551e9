"""What all nodes of a trial know of it: its topics, who listens to them, its parameters."""

from __future__ import annotations

from typing import Literal

from haptic_sim.parameters import Parameters, quantity

EVENTS = "trial_events"
POLL = 0.01  # [s] between two looks at what has been discovered, before the trial starts
READY_TIMEOUT = 300.0  # [s] for all nodes to find each other; kernels that were never compiled take minutes of it

SUBSCRIBERS: dict[str, tuple[str, ...]] = {
    "device_state": ("controller", "recorder"),
    "tool_command": ("tool", "recorder"),
    "tool_state": ("controller", "environment", "recorder"),
    "device_command": ("driver", "recorder"),
    "local_geometry": ("local_model", "recorder"),
}
"""Who listens to a servo topic; `tool` is the local model if there is one, else the environment."""


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

    def listeners(self, topic: str) -> int:
        """How many of the trial's nodes listen to a topic."""
        tool = "local_model" if "local_model" in self.nodes else "environment"
        asynchronous = "local_model" in self.nodes
        count = 0
        for name in SUBSCRIBERS[topic] if "driver" in self.nodes else ("recorder",):
            if name == "environment" and not asynchronous:
                continue
            count += (tool if name == "tool" else name) in self.nodes
        return count


class ServoError(RuntimeError):
    """The trial cannot go on; the text is the reason."""
