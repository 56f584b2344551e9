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
        self._subscriptions = [
            (topic, sub, sub.handle.pointer, sub.qos_profile.depth > 1) for topic, sub in subscriptions.items()
        ]
        self.contested: dict[str, int] = {}  # messages refused on topics with a publisher too many
        self._guard = GuardCondition(callback=None, callback_group=None, context=context)
        self._wait_set = _rclpy.WaitSet(len(subscriptions), 1, 0, 0, 0, 0, context.handle)

    def wake(self) -> None:
        """End a wait from another thread."""
        self._guard.trigger()

    def wait(self, timeout: float | None) -> Iterator[tuple[str, bytes]]:
        """Wait up to `timeout` [s] (None: for ever) and give all messages that are there."""
        wait_set = self._wait_set
        with ExitStack() as stack:
            wait_set.clear_entities()
            for _, sub, _, _ in self._subscriptions:
                stack.enter_context(sub.handle)
                wait_set.add_subscription(sub.handle)
            stack.enter_context(self._guard.handle)
            wait_set.add_guard_condition(self._guard.handle)
            wait_set.wait(-1 if timeout is None else round(timeout * 1e9))
            ready = wait_set.get_ready_entities("subscription")
        for topic, sub, pointer, deep in self._subscriptions:
            more = pointer in ready
            while more:
                with sub.handle:
                    taken = sub.handle.take_message(sub.msg_type, True)
                    publishers = sub.handle.get_publisher_count()
                if taken is None:
                    break
                if publishers > 1 and topic != EVENTS:
                    self.contested[topic] = self.contested.get(topic, 0) + 1
                    break
                yield topic, taken[0]
                more = deep
