"""Waiting for serialised messages on an rcl wait set, beside an executor that must not take them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.guard_condition import GuardCondition
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy

from haptic_sim.nodes.trial import EVENTS


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

    A servo topic has one publisher. While there is another, nobody can tell whose a message is, so none is given:
    what waits for them goes to zero force.
    """

    def __init__(self, context: Any, subscriptions: dict[str, Any]):
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
        self.contested: dict[str, int] = {}  # messages refused on topics with a publisher too many
        # Messages of deep queues that were sent after the first that came, but did not come themselves, by topic;
        # None if the middleware does not number messages.
        self.lost: dict[str, int] | None = {}
        self._next: dict[str, int] = {}  # number of the message that is to come

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
        wait_set = self._wait_set
        wait_set.clear_entities()
        for _, handle, _, _, _ in self._subscriptions:
            wait_set.add_subscription(handle)
        wait_set.add_guard_condition(self._guard.handle)
        wait_set.wait(-1 if timeout is None else round(timeout * 1e9))
        ready = wait_set.get_ready_entities("subscription")
        for topic, handle, kind, pointer, deep in self._subscriptions:
            more = pointer in ready
            while more and (taken := handle.take_message(kind, True)) is not None:
                if topic == EVENTS or handle.get_publisher_count() <= 1:
                    yield topic, taken[0]
                    if deep and topic != EVENTS:
                        self._count(topic, taken[1]["publication_sequence_number"])
                else:
                    self.contested[topic] = self.contested.get(topic, 0) + 1
                more = deep

    def _count(self, topic: str, number: int | None) -> None:
        """Count the messages that are missing before the one that came."""
        if number is None or self.lost is None:
            self.lost = None
            return
        missing = number - self._next.get(topic, number)
        self._next[topic] = number + 1
        if missing > 0:
            self.lost[topic] = self.lost.get(topic, 0) + missing
