"""Reception of serialised messages on an rcl wait set, beside an executor that must not take them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.guard_condition import GuardCondition
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy

from haptic_ros.sender import Taker
from haptic_ros.trial import EVENTS, OPERATOR

ASK_AGAIN = 0.05  # [s] between two looks whether a publisher has become known
MOST_WAITING = 1000  # messages


class ServoGroup(CallbackGroup):
    """A callback group whose entities no executor touches."""

    def can_execute(self, entity: Any) -> bool:
        return False

    def beginning_execution(self, entity: Any) -> bool:
        return False

    def ending_execution(self, entity: Any) -> None:
        return None


class Inbox:
    """Blocks on subscriptions until one has a message; gives serialised messages by topic.

    A servo topic has one publisher. While there is another, none of its messages is given: what waits for them goes to
    zero force. Messages of topics that are told apart are given or not by who published them instead.

    Args:
        context: of rclpy.
        subscriptions: by topic.
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
        self._take = Taker().take if accept is not None else None
        self._waiting: list[tuple[str, bytes, bytes]] = []  # topic, message and GID of publishers not known yet
        self._asked = 0.0  # when it was last asked who they are of
        self._guard = GuardCondition(callback=None, callback_group=None, context=context)
        self._in_use = ExitStack()  # of the handles, from now until `close`: entering them at each wait costs 4 us
        self._in_use.enter_context(self._guard.handle)
        for subscription in subscriptions.values():
            self._in_use.enter_context(subscription.handle)
        self._subscriptions = [
            (topic, sub.handle, sub.msg_type, sub.handle.pointer, sub.qos_profile.depth > 1)
            for topic, sub in subscriptions.items()
        ]
        self._wait_set = _rclpy.WaitSet(len(subscriptions), 1, 0, 0, 0, 0, context.handle)
        self.contested: dict[str, int] = {}  # messages refused, by topic, because of a foreign publisher
        # Messages of deep queues that were sent after the first that came, but did not come themselves, by topic;
        # None if the middleware does not number messages.
        self.lost: dict[str, int] | None = {}
        self._next = dict.fromkeys(counted, 1)  # number of the message that is to come

    @property
    def unknown(self) -> int:
        """Messages that wait until their publishers are known."""
        return len(self._waiting)

    def close(self) -> None:
        """Let go of the subscriptions, which can only then be destroyed."""
        self._in_use.close()

    def wake(self) -> None:
        """End a wait from another thread."""
        self._guard.trigger()

    def wait(self, timeout: float | None) -> Iterator[tuple[str, bytes]]:
        """Wait up to `timeout` [s] (None: for ever) and give all messages that are there.

        One by one: a message can be answered before it is known whether a deep queue holds another.
        """
        yield from self._of_those_known_now()
        if self._waiting:
            timeout = ASK_AGAIN if timeout is None else min(timeout, ASK_AGAIN)
        wait_set = self._wait_set
        wait_set.clear_entities()
        for _, handle, _, _, _ in self._subscriptions:
            wait_set.add_subscription(handle)
        wait_set.add_guard_condition(self._guard.handle)
        wait_set.wait(-1 if timeout is None else round(timeout * 1e9))
        ready = wait_set.get_ready_entities("subscription")
        for topic, handle, kind, pointer, deep in self._subscriptions:
            more = pointer in ready
            while more and (taken := self._next_of(topic, handle, kind)) is not None:
                data, number, gid = taken
                ours = self._is_ours(topic, handle, gid)
                if ours:
                    yield topic, data
                    if deep and topic not in (EVENTS, OPERATOR):
                        self._count(topic, number)
                elif ours is None and len(self._waiting) < MOST_WAITING:
                    self._waiting.append((topic, data, gid))
                else:
                    self._refuse(topic)
                more = deep

    def _of_those_known_now(self) -> Iterator[tuple[str, bytes]]:
        """The messages whose publishers have become known since they came."""
        now = time.monotonic()
        if not self._waiting or now < self._asked + ASK_AGAIN:
            return
        self._asked = now
        waiting, self._waiting = self._waiting, []
        for topic, data, gid in waiting:
            ours = self._is_ours(topic, None, gid)
            if ours:
                yield topic, data
            elif ours is None:
                self._waiting.append((topic, data, gid))
            else:
                self._refuse(topic)

    def _refuse(self, topic: str) -> None:
        self.contested[topic] = self.contested.get(topic, 0) + 1

    def _next_of(self, topic: str, handle: Any, kind: Any) -> tuple[bytes, int | None, bytes] | None:
        """A message, its number, and its publisher's GID (empty if nobody asks)."""
        if self._take is not None and topic in self.checked_publishers:
            return self._take(handle)
        taken = handle.take_message(kind, True)
        return None if taken is None else (taken[0], taken[1]["publication_sequence_number"], b"")

    def _is_ours(self, topic: str, handle: Any, gid: bytes) -> bool | None:
        """Whether a message is of the trial; None if it is not known yet."""
        if self._accept is not None and topic in self.checked_publishers:
            return self._accept(topic, gid)
        return topic in (EVENTS, OPERATOR) or bool(handle.get_publisher_count() <= 1)

    def _count(self, topic: str, number: int | None) -> None:
        """Count the messages that are missing before the one that came."""
        if number is None or self.lost is None:
            self.lost = None
            return
        missing = number - self._next.get(topic, number)
        self._next[topic] = number + 1
        if missing > 0:
            self.lost[topic] = self.lost.get(topic, 0) + missing
