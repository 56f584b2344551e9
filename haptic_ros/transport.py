"""The servo topics of a node: publishers, subscriptions, and the messages that go through them.

Subscriptions are in a callback group that no executor may run, because it would take their messages: the servo thread
takes them from an inbox.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from haptics import msg
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message

from haptic_ros.composition import Composition
from haptic_ros.graph import EVENTS, EVERYTHING, OPERATOR, RELIABLE, in_trial
from haptic_ros.inbox import Inbox, ServoGroup, subscribe
from haptic_ros.middleware.reception import raw_publish
from haptic_ros.peers import Peers
from haptic_sim.messages import INPUTS, TOPICS, Message, MessageError, split_topic

_WORLD_QOS = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE)
"""Reaches whoever looks on, whatever they ask for; deeper than the leader is ahead of the recorder in lockstep."""
KEPT = 128  # messages of a topic, in lockstep: of more ticks than the leader is ahead of the recorder
LONGEST_EVENT = 65536  # bytes; longer ones displace messages of the ticks from the middleware's shared memory
_EVENT_QOS = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class Transport:
    """The servo topics of a node.

    Args:
        node: a ServoNode; its topics are those of its role.

    Attributes:
        composition: the nodes of its process, if there are several.
        inbox: gives what arrives, for all nodes of the process.
        last_sent: the last message of each topic; bytes are never changed.
        contested: messages that were refused because of a foreign publisher.
    """

    def __init__(self, node: Any):
        self._node, self.peers = node, Peers(node)
        self.composition: Composition | None = None
        self.inbox: Inbox | None = None
        self.publishers: dict[str, Any] = {}
        self.subscriptions: dict[str, Any] = {}
        # Without the checks of Publisher.publish: the servo thread ends before the publishers do.
        self._publish: dict[str, Callable[[bytes], None]] = {}
        self.last_sent: dict[str, bytes] = {}
        self.contested = 0

    def open_events(self) -> None:
        """Make the publisher of the trial's events, before all else."""
        node = self._node
        self.publishers[EVENTS] = node.create_publisher(msg.TrialEvent, node.place(EVENTS), _EVENT_QOS)

    def open(self) -> None:
        """Make publishers, subscriptions, and what takes the messages."""
        node, role = self._node, self._node.role
        held = math.ceil(role.holds * node.config.rate) if node.realtime else 0
        sent_qos, taken_qos = self._qos(max(role.depth, held))
        for topic in self.published():
            qos = _WORLD_QOS if topic in RELIABLE else sent_qos
            publisher = self.publishers[topic] = node.create_publisher(_type(topic), node.place(topic), qos)
            self._publish[topic] = raw_publish(publisher)
        group = ServoGroup()
        inside = set() if self.composition is None else self.composition.published(node.config.graph)
        for topic in self.taken():
            if topic not in inside:
                qos = {EVENTS: _EVENT_QOS, **dict.fromkeys(RELIABLE, _WORLD_QOS)}.get(topic, taken_qos)
                self.subscriptions[topic] = subscribe(node, _type(topic), node.place(topic), qos, group)
        if self.composition is None:
            self.open_inbox(self.subscriptions)

    def _qos(self, depth: int) -> tuple[QoSProfile, QoSProfile]:
        """Quality of service of what the node publishes in each tick, and of what it takes, with a queue of this depth.

        In lockstep a tick is repeated until it is answered, but who only listens would lack what a network lost on its
        way: there the recorder asks for it again. Within a host nothing is lost, and ticks would take twice as long.
        """
        sent = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        taken = QoSProfile(depth=depth, reliability=ReliabilityPolicy.BEST_EFFORT)
        if self._node.config.networked and not self._node.realtime:
            sent = QoSProfile(depth=KEPT, reliability=ReliabilityPolicy.RELIABLE)
            if EVERYTHING in self._node.role.takes:
                taken.reliability = ReliabilityPolicy.RELIABLE
        return sent, taken

    def taken(self) -> tuple[str, ...]:
        """The topics that the node takes with its present parameters, as it calls them."""
        return tuple(filter(self._has, self._node.config.graph.taken(self._node.role)))

    def published(self) -> tuple[str, ...]:
        """The topics that it publishes."""
        return tuple(filter(self._has, self._node.config.graph.published(self._node.role)))

    def _has(self, topic: str) -> bool:
        return split_topic(topic)[1] not in self._node.role.optional or self._node.has(topic)

    def open_inbox(self, subscriptions: dict[str, Any]) -> None:
        """Take the messages of subscriptions; of checked publishers those of the trial's nodes only."""
        node = self._node
        self.peers.forget()
        checked = [topic for topic in node.checked_publishers() if topic in subscriptions]
        if checked:
            try:
                self.inbox = Inbox(node.context, subscriptions, self.peers.accept, checked, node.counted())
                return
            except (OSError, AttributeError) as error:
                node.get_logger().warning(f"messages cannot be distinguished by their publisher: {error}")
        self.inbox = Inbox(node.context, subscriptions)

    def close_inbox(self) -> None:
        """Let go of the subscriptions; the servo thread has ended."""
        if self.inbox is not None:
            self.inbox.close()
            self.inbox = None

    def close(self) -> None:
        """Close what is open."""
        self.close_inbox()
        for publisher in self.publishers.values():
            self._node.destroy_publisher(publisher)
        for subscription in self.subscriptions.values():
            self._node.destroy_subscription(subscription)
        self.publishers.clear()
        self._publish.clear()
        self.subscriptions.clear()

    def send(self, topic: str, message: bytes | Message) -> None:
        """Publish a message, or its bytes; in a composition, hand it to its nodes first."""
        data = self.last_sent[topic] = message if isinstance(message, bytes) else message.to_bytes()
        if self.composition is None:
            self._publish[topic](data)
        else:
            self.composition.send(self._publish[topic], topic, data, message)

    def publish_event(self, name: str, tick: int = -1, detail: str = "") -> None:
        """Publish a TrialEvent; none before the topics are open."""
        if EVENTS in self.publishers:
            event = msg.TrialEvent(tick=tick, node=self._node.member, name=name, detail=detail)
            self.publishers[EVENTS].publish(event)

    def listen(self, timeout: float | None) -> bool:
        """Take what arrives within `timeout` [s] (None: for ever), for all nodes of the process; whether it did."""
        assert self.inbox is not None
        if self.composition is not None:
            self.composition.flush()
        received = False
        for topic, data in self.inbox.wait(timeout):
            received = True
            if self.composition is None:
                self._node.take(topic, data)
            else:
                for take in self.composition.takers(topic):
                    take(topic, data)
        if self.inbox.contested:
            self._refuse_contested(self.inbox.contested)
        return received

    def _refuse_contested(self, contested: dict[str, int]) -> None:
        """Say and count that messages were refused because a topic has a foreign publisher."""
        self._node.refused += sum(contested.values())
        self.contested += sum(contested.values())
        self._node.get_logger().error(
            f"refused: {', '.join(contested)} has a foreign publisher; find it with `ros2 topic info --verbose`",
            throttle_duration_sec=1.0,
        )
        contested.clear()


class Barrier:
    """Barrier before a trial: each publisher of a node has found all its subscriptions, and vice versa.

    Args:
        node: a ServoNode.
        transport: its servo topics.
    """

    def __init__(self, node: Any, transport: Transport):
        self._node, self._transport = node, transport

    def unmatched(self) -> list[str]:
        """The servo topics on which not all peers of the trial have been found yet."""
        transport = self._transport
        missing = [
            topic
            for topic in transport.published()
            if transport.publishers[topic].get_subscription_count() < self._listeners(topic)
        ]
        missing += [
            topic
            for topic, subscription in transport.subscriptions.items()
            if topic not in (EVENTS, OPERATOR) and subscription.get_publisher_count() < 1
        ]
        if not missing and transport.inbox is not None:
            # Their names come by another channel than their messages, which would have to wait for them.
            checked = sorted(transport.inbox.checked_publishers)
            missing = [topic for topic in checked if not transport.peers.is_named(topic)]
        return missing

    def _listeners(self, topic: str) -> int:
        """Number of subscriptions of other processes that a topic must find."""
        config, composition = self._node.config, self._transport.composition
        inside = 0 if composition is None else len(composition.takers(topic))
        return int(config.graph.listeners(in_trial(config.of_hand, topic))) - inside

    def announce_if_ready(self) -> bool:
        """Publish the event `ready` if all peers are found and the node is prepared; whether they are and it is."""
        if self.unmatched() or not self._node.prepared():
            return False
        self._node.publish_event("ready")
        return True


def load_event(data: bytes | Message) -> msg.TrialEvent:
    """A TrialEvent from its bytes.

    Raises:
        MessageError: it is too long.
    """
    assert isinstance(data, bytes)  # it comes from outside
    event: msg.TrialEvent = deserialize_message(data, msg.TrialEvent)
    if len(data) > LONGEST_EVENT:
        raise MessageError(
            f"{EVENTS}: {event.name[:40]} of {event.node[:40]}: {len(data)} bytes: must be at most {LONGEST_EVENT}"
        )
    return event


def type_name(topic: str) -> str:
    """The type of a topic's messages, as in `haptics/msg/ToolState`."""
    return "haptics/msg/TrialEvent" if topic == EVENTS else (TOPICS | INPUTS)[split_topic(topic)[1]].TYPE


def _type(topic: str) -> Any:
    return getattr(msg, type_name(topic).rpartition("/")[2])
