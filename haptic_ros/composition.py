"""Several nodes in one process, which pass messages to each other by direct call."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from haptic_ros.graph import EVENTS, Graph
from haptic_sim.messages import Message

Taker = Callable[[str, "bytes | Message"], None]
"""Takes a message of a topic."""


class Member(Protocol):
    """A node, as a composition needs it."""

    transport: Any

    @property
    def servo_thread(self) -> threading.Thread | None: ...

    def get_name(self) -> str: ...

    def set_finished(self, exit_code: int) -> None: ...

    def take(self, topic: str, data: bytes | Message) -> None: ...

    def look_ahead(self) -> None: ...


class Composition:
    """Several nodes in one process: what one sends, the others take by direct call, in the order of the tick.

    They take the message itself, which needs no checks. The first node's thread does all the work; what is published
    goes out when its tick is over (`flush`).

    Attributes:
        waits: whether anything but the trial's events comes from other processes, for which it waits between ticks.
    """

    def __init__(self, nodes: Sequence[Member]):
        self.nodes = nodes
        self.waits = False
        self._takers: dict[str, list[Taker]] = {}
        self._outgoing: list[tuple[Callable[[bytes], None], bytes]] = []
        self._waiting: deque[threading.Event] = deque()  # for the next flush

    def open(self) -> None:
        """Open the connections, when all nodes are configured."""
        for node in self.nodes:
            for topic in node.transport.taken():
                self._takers.setdefault(topic, []).append(node.take)
        outside = {topic: sub for node in self.nodes for topic, sub in node.transport.subscriptions.items()}
        self.nodes[0].transport.open_inbox(outside)
        self.waits = bool(outside.keys() - {EVENTS})

    def published(self, graph: Graph) -> set[str]:
        """Topics that the nodes of this process publish, which may not be configured yet."""
        return {topic for node in self.nodes for topic in graph.published(graph.role(node.get_name()))}

    def takers(self, topic: str) -> Sequence[Taker]:
        """Receivers of a topic's messages in the nodes of this process."""
        return self._takers.get(topic, ())

    def send(self, publish: Callable[[bytes], None], topic: str, data: bytes, message: bytes | Message) -> None:
        """Hand a message to the nodes that take it, publish its bytes later."""
        self._outgoing.append((publish, data))
        for take in self._takers.get(topic, ()):
            take(topic, message)

    def look_ahead(self) -> None:
        """Prepare the next tick as far as possible, after one has been answered."""
        for node in self.nodes:
            node.look_ahead()

    def flush(self) -> None:
        """Publish the messages that were sent; the thread of the first node is in none of the other nodes then."""
        for publish, data in self._outgoing:
            publish(data)
        self._outgoing.clear()
        while self._waiting:
            self._waiting.popleft().set()

    def next_flush(self) -> threading.Event:
        """Event that is set once the messages sent until now, and those being sent, are published."""
        event = threading.Event()
        self._waiting.append(event)
        return event
