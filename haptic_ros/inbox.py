"""Reception of serialised messages by a servo thread, beside an executor that must not take them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.qos import QoSProfile

from haptic_ros.graph import EVENTS, OPERATOR
from haptic_ros.middleware.reception import Source, Taker, Waiting

ASK_AGAIN = 0.05  # [s] between two looks whether a publisher has become known
MOST_WAITING = 1000  # messages
AT_ONCE = 512  # messages of a topic, before those of the next: else a backlog would keep the end of a trial from sight


class ServoGroup(CallbackGroup):
    """A callback group whose entities no executor touches."""

    def can_execute(self, entity: Any) -> bool:
        return False

    def beginning_execution(self, entity: Any) -> bool:
        return False

    def ending_execution(self, entity: Any) -> None:
        return None


def subscribe(node: Any, kind: Any, topic: str, qos: QoSProfile, group: ServoGroup) -> Any:
    """A subscription of a node whose messages an inbox takes.

    It has no events, as of a publisher with other qualities of service: an event that no executor takes would end each
    wait for messages at once.
    """
    none = SubscriptionEventCallbacks(use_default_callbacks=False)
    return node.create_subscription(
        kind, topic, _taken_by_inbox, qos, callback_group=group, event_callbacks=none, raw=True
    )


def _taken_by_inbox(message: Any) -> None:
    """Never called: the inbox takes these messages."""


class Inbox:
    """Blocks on subscriptions until one has a message; gives serialised messages by topic.

    A servo topic has one publisher. While there is another, none of its messages is given: what waits for them goes to
    zero force. Messages of `checked_publishers` are given or not by who published them instead.

    Args:
        context: of rclpy.
        subscriptions: by topic, made by `subscribe`.
        accept: whether a topic's message is of the trial, by the identity (GID) of its publisher; None: it is not known
            yet, and the message waits until it is. In the graph, names of nodes may come after their first messages.
        checked_publishers: the topics for which `accept` is asked.
        counted: topics that are received from their first message on: what is missing before the first that comes
            counts as lost.
    """

    def __init__(
        self,
        context: Any,
        subscriptions: dict[str, Any],
        accept: Callable[[str, bytes], bool | None] | None = None,
        checked_publishers: Collection[str] = (),
        counted: Collection[str] = (),
    ):
        self._accept = accept
        self.checked_publishers = frozenset(checked_publishers)
        self._waiting: list[tuple[Source, bytes, bytes]] = []  # message and GID of publishers not known yet
        self._asked = 0.0  # when it was last asked who they are of
        taker = Taker() if accept is not None else None
        self._sources = [
            Source(topic, one, taker if topic in self.checked_publishers else None)
            for topic, one in subscriptions.items()
        ]
        self._wait = Waiting(context, self._sources)
        self.close, self.wake = self._wait.close, self._wait.wake
        self.contested: dict[str, int] = {}  # messages refused, by topic, because of a foreign publisher
        # Messages of deep queues that were sent after the first that came, but did not come themselves, by topic;
        # None if the middleware does not number messages.
        self.lost: dict[str, int] | None = {}
        self._next = dict.fromkeys(counted, 1)  # number of the message that is to come

    @property
    def unknown(self) -> int:
        """Messages that wait until their publishers are known."""
        return len(self._waiting)

    def wait(self, timeout: float | None) -> Iterator[tuple[str, bytes]]:
        """Wait up to `timeout` [s] (None: for ever) and give what is there, AT_ONCE messages of a topic at most.

        One by one: a message can be answered before it is known whether a deep queue holds another.
        """
        if self._waiting:
            yield from self._of_those_known_now()
        if self._waiting:
            timeout = ASK_AGAIN if timeout is None else min(timeout, ASK_AGAIN)
        ready = self._wait.wait(timeout)
        for source in self._sources:
            topic, deep = source.topic, source.deep
            more = (AT_ONCE if deep else 1) if source.pointer in ready else 0
            while more and (taken := source.take()) is not None:
                data, number, gid = taken
                more -= 1
                # in their order: none before one of the same publisher that waits
                behind = bool(self._waiting) and any(gid == before for _, _, before in self._waiting)
                ours = None if behind else self._is_ours(source, gid)
                if ours:
                    yield topic, data
                    if deep and topic not in (EVENTS, OPERATOR):
                        self._count(topic, number)
                elif ours is None and len(self._waiting) < MOST_WAITING:
                    self._waiting.append((source, data, gid))
                else:
                    self._refuse(topic)

    def _of_those_known_now(self) -> Iterator[tuple[str, bytes]]:
        """The messages whose publishers have become known since they came."""
        now = time.monotonic()
        if now < self._asked + ASK_AGAIN:
            return
        self._asked = now
        waiting, self._waiting = self._waiting, []
        for source, data, gid in waiting:
            ours = self._is_ours(source, gid)
            if ours:
                yield source.topic, data
            elif ours is None:
                self._waiting.append((source, data, gid))
            else:
                self._refuse(source.topic)

    def _refuse(self, topic: str) -> None:
        self.contested[topic] = self.contested.get(topic, 0) + 1

    def _is_ours(self, source: Source, gid: bytes) -> bool | None:
        """Whether a message is of the trial; None if it is not known yet."""
        topic = source.topic
        if self._accept is not None and topic in self.checked_publishers:
            return self._accept(topic, gid)
        return topic in (EVENTS, OPERATOR) or source.publishers() <= 1

    def _count(self, topic: str, number: int | None) -> None:
        """Count the messages that are missing before the one that came."""
        if number is None or self.lost is None:
            self.lost = None
            return
        missing = number - self._next.get(topic, number)
        self._next[topic] = number + 1
        if missing > 0:
            self.lost[topic] = self.lost.get(topic, 0) + missing
