"""The graph of a trial as data: each node says here, once, what it publishes and takes, and where it runs.

Publishers, subscriptions and their queues, whom a node waits for before the start, whose messages are foreign, what is
recorded, and the processes on each side of a relay follow from this table. No ROS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from haptic_sim.messages import TOPICS, split_topic, topic_of

EVENTS = "trial_events"
OPERATOR = "operator_events_in"  # anybody may publish it, or nobody
LEADING = "/device_state"  # of the first hand, as a node of another calls it
SURVEYS = "local_geometry"  # the topic that not every tick has
EVERYTHING = "*"  # that is published by the nodes of the trial
RELIABLE = ("world_state", "operator_events", OPERATOR)
"""Topics that reach whoever looks on, whatever they ask for; trial_events are kept for who comes later, too.

All others are best effort: no subscriber can delay another.
"""
OF_HAND = ("device_state", "tool_command", "tool_state", "device_command")
"""Servo topics that each hand has, in the order of the tick; the first hand's have these names."""


@dataclass(frozen=True)
class Role:
    """Role of a node in a trial.

    Attributes:
        node: MODULE:CLASS of the node, whose module's main() is an executable of the package.
        arguments: of the executable.
        name: of the node in a trial, where that is not the role's.
        publishes, takes: its topics. What arrives by a relay, if there is one, is taken by the name that it has there.
        optional: those of them that it has only where its parameters say so (`ServoNode.has`).
        every_hand: whether it has these topics of each hand.
        depth: of its queues: 1 where only the latest message counts.
        holds: time whose messages the queues hold in realtime at least, whatever the rate [s].
        rank: how near to the device: in realtime a node interrupts those of a lower rank.
        beyond: whether it is on the world's side of a relay.
        composed: whether it may be in one process with the driver.
    """

    node: str = ""
    arguments: tuple[str, ...] = ()
    name: str = ""
    publishes: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    every_hand: bool = False
    depth: int = 1
    holds: float = 0.0
    rank: int = 0
    beyond: bool = True
    composed: bool = True

    @property
    def module(self) -> str:
        """The Python module of the node."""
        return self.node.partition(":")[0]


_DRIVER = Role(
    "haptic_drivers.nodes.driver:DriverNode",
    publishes=("operator_events", "device_reading", "device_state"),
    takes=("device_command", EVENTS, OPERATOR),
    optional=("operator_events", "device_reading", OPERATOR),
    rank=2,
    beyond=False,
)
_ENVIRONMENT = "haptic_sim.nodes.environment:EnvironmentNode"
_ANSWERED = ("tool_state", "world_state")
ROLES = {
    "driver": _DRIVER,
    "further_driver": replace(_DRIVER, name="driver", takes=("device_command", LEADING, OPERATOR), composed=False),
    "device_relay": Role(
        "haptic_control.nodes.relay:DeviceRelayNode",
        ("device",),
        publishes=("relay_forward", "relayed_device_command"),
        takes=("device_state", "relay_backward"),
        depth=64,  # in realtime, too, each packet has its answer, and its energy is accounted for
        rank=1,
        beyond=False,
    ),
    "world_relay": Role(
        "haptic_control.nodes.relay:WorldRelayNode",
        ("world",),
        publishes=("relayed_device_state", "relay_backward"),
        takes=("relay_forward", "device_command", EVENTS),
        optional=(EVENTS,),
        depth=64,
        rank=1,
    ),
    "controller": Role(
        "haptic_control.nodes.controller:ControllerNode",
        publishes=("tool_command", "device_command"),
        takes=("device_state", "tool_state"),
        rank=1,
    ),
    "crtk": Role(
        "haptic_control.nodes.crtk:CrtkNode",
        name="controller",
        publishes=("device_command",),
        takes=("device_state",),
        rank=1,
        composed=False,
    ),
    "local_model": Role(
        "haptic_sim.nodes.local_model:LocalModelNode",
        publishes=_ANSWERED,
        takes=("tool_command", SURVEYS),
        optional=("world_state",),
        depth=64,  # several surveys may be in transit
    ),
    "environment": Role(
        _ENVIRONMENT,
        publishes=_ANSWERED,
        takes=("tool_command",),
        optional=("world_state",),
        every_hand=True,
        depth=64,
    ),
    "surveyor": Role(
        _ENVIRONMENT,
        name="environment",
        publishes=(SURVEYS,),
        takes=("tool_state",),
        depth=64,  # a slow environment shall still see the states that it has to survey
        composed=False,
    ),
    "standalone": Role(
        "haptic_bench.nodes.standalone:StandaloneNode",
        name="environment",
        publishes=("operator_events", "tool_command", *_ANSWERED),
        takes=(EVENTS, OPERATOR),
        optional=("operator_events", "world_state", OPERATOR),
        rank=2,
        composed=False,
    ),
    "recorder": Role(
        "haptic_bench.nodes.recorder:RecorderNode",
        takes=(EVERYTHING, EVENTS),
        optional=("operator_events", "device_reading", "world_state"),
        depth=1000,
        holds=2.0,
        beyond=False,
        composed=False,
    ),
}
"""A node's role has its name, but for some (`Graph.role`)."""

NODES = tuple(dict.fromkeys(role.name or name for name, role in ROLES.items()))
"""Names that nodes have in a trial."""
_BEYOND = {topic: role.beyond for role in ROLES.values() for topic in role.publishes}


class Graph:
    """The roles of a trial's nodes, and their topics.

    A node calls topics by its own hand: without a prefix, or /NAME where another hand's.

    Args:
        nodes: their names; those of a further hand are HAND/NAME.

    Attributes:
        hands: names of all hands with a device; that of the first is empty.
        relayed: whether there is a relay between driver and controller.
        asynchronous: whether a local model answers the controller.
        standalone: whether there is no device.
        bridged: whether clients of CRTK are the controller, so that there is no environment.
    """

    def __init__(self, nodes: tuple[str, ...]):
        self.nodes = nodes
        self.hands = tuple(hand for hand, kind in map(split_topic, nodes) if kind == "driver")
        self.relayed, self.asynchronous = "device_relay" in nodes, "local_model" in nodes
        self.standalone = "driver" not in nodes
        self.bridged = not self.standalone and "environment" not in nodes
        self._published = {name: self._in_trial(name, self.published) for name in nodes}
        self._taken = {name: self._in_trial(name, self.taken) for name in nodes}

    def role(self, name: str) -> Role:
        """The role of a node, by its name in the trial."""
        hand, kind = split_topic(name)
        if kind == "environment":
            kind = "standalone" if self.standalone else "surveyor" if self.asynchronous else kind
        elif kind == "controller" and self.bridged:
            kind = "crtk"
        elif kind == "driver" and hand:
            kind = "further_driver"
        return ROLES.get(kind, Role())

    def published(self, role: Role) -> tuple[str, ...]:
        """Topics that a node publishes in a role."""
        return self._of_hands(role, role.publishes)

    def taken(self, role: Role) -> tuple[str, ...]:
        """Topics that a node takes in a role."""
        if EVERYTHING in role.takes:
            published = {topic for topics in self._published.values() for topic in topics}
            return (*(topic for topic in self.topics if topic in published), EVENTS)
        return self._of_hands(role, tuple(self._arriving(role, topic) for topic in role.takes))

    def _in_trial(self, name: str, topics: Callable[[Role], tuple[str, ...]]) -> set[str]:
        """Topics of a node, by their names in the trial."""
        return {in_trial(split_topic(name)[0], topic) for topic in topics(self.role(name))}

    def _arriving(self, role: Role, topic: str) -> str:
        """A topic as it arrives at a role: by a relay, if that is between it and who publishes the topic."""
        relayed = f"relayed_{topic}"
        return relayed if self.relayed and relayed in TOPICS and _BEYOND[topic] != role.beyond else topic

    def _of_hands(self, role: Role, topics: tuple[str, ...]) -> tuple[str, ...]:
        others = filter(None, self.hands) if role.every_hand else ()
        return (*topics, *(topic_of(hand, topic) for hand in others for topic in topics if topic in OF_HAND))

    @property
    def topics(self) -> tuple[str, ...]:
        """All servo topics that a trial may have, in the order of the tick, hand by hand."""
        of_hand = ("device_reading", *OF_HAND)
        return (*TOPICS, *(topic_of(hand, topic) for hand in self.hands if hand for topic in of_hand))

    @property
    def row(self) -> tuple[str, ...]:
        """Topics that have a message in each tick."""
        optional = {topic for role in ROLES.values() for topic in role.optional} | {SURVEYS}
        return tuple(topic for topic in self.topics if split_topic(topic)[1] not in optional and self.publishers(topic))

    def loop_of(self, role: Role) -> int:
        """Index of the servo loop that a node works in: 0, or 1 behind a relay."""
        return int(self.relayed and role.beyond)

    def publishers(self, topic: str) -> tuple[str, ...]:
        """The nodes that may publish a topic of the trial: of a servo topic one, of others all."""
        if split_topic(topic)[1] not in TOPICS:
            return self.nodes
        return tuple(name for name in self.nodes if topic in self._published[name])

    def listeners(self, topic: str) -> int:
        """Number of nodes that take a topic of the trial."""
        return sum(topic in taken for taken in self._taken.values())


def in_trial(hand: str, topic: str) -> str:
    """The name in the trial's namespace of a topic as a node of a hand calls it."""
    return topic.removeprefix("/") if topic == EVENTS or topic.startswith("/") else topic_of(hand, topic)


@cache
def graph_of(nodes: tuple[str, ...]) -> Graph:
    """The graph of some nodes."""
    return Graph(nodes)
