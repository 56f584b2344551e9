"""Common parameters of all nodes of a trial: its graph and its parameters."""

from __future__ import annotations

from typing import Literal

from haptic_ros.graph import Graph, graph_of
from haptic_sim.errors import HapticsError
from haptic_sim.parameters import Parameters, quantity

DEACTIVATED = "deactivated"  # the event that a node says when it is deactivated in the course of a trial
POLL = 0.01  # [s] between two looks at what has been discovered, before the trial starts
GAP = 0.1  # [s]
QUIET = 0.05  # [s] without a message after which a node of an endless graph sends again what a new peer has to know
COMPILING = "compiling"  # the event that a node says before and after each kernel that it compiles
REFUSED = "refused"  # the event of a node that could not use a message, with the reason
ABSENT = "absent"  # the event of the recorder when a tick does not go on, with the message of it that has not come
RECORDER = "recorder"  # the node that records a trial
READY_TIMEOUT = 300.0  # [s] without a sign of a node that is missing, after which a trial is given up before it starts


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
    """Parameters of a trial that every node of it needs."""

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
    networked: bool = quantity(
        False,
        description="Whether the nodes are on two hosts: in lockstep, messages that the recorder lost are sent again",
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
        return RECORDER in self.nodes

    @property
    def leader(self) -> str:
        """Name of the node that leads the trial."""
        return self.nodes[0]

    @property
    def graph(self) -> Graph:
        """Graph of the topics that the nodes of the trial publish and take."""
        return graph_of(self.nodes)


class ServoError(HapticsError, RuntimeError):
    """The trial cannot go on; the text is the reason."""
