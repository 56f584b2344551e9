"""In place of crtk_msgs, which is in no registry of packages: its two messages, and the bridge with text for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from std_msgs.msg import String

from haptic_control.nodes import crtk


class OperatingState(SimpleNamespace):
    """Has the fields of crtk_msgs/OperatingState."""

    def __init__(self, **values: Any):
        super().__init__(header=SimpleNamespace(stamp=SimpleNamespace()), **values)


class StringStamped(SimpleNamespace):
    """Has the field of crtk_msgs/StringStamped that counts."""


class TextBridge(crtk.CrtkNode):
    """The bridge with std_msgs/String on both topics: operating_state as JSON, state_command as it is."""

    def create_publisher(self, kind: Any, topic: str, qos: Any, **more: Any) -> Any:
        if kind is not OperatingState:
            return super().create_publisher(kind, topic, qos, **more)
        publisher = super().create_publisher(String, topic, qos, **more)
        publish = publisher.publish

        def publish_text(report: OperatingState) -> None:
            fields = {name: value for name, value in vars(report).items() if name != "header"}
            stamp = report.header.stamp.sec * 10**9 + report.header.stamp.nanosec
            publish(String(data=json.dumps(fields | {"stamp": stamp})))

        publisher.publish = publish_text
        return publisher

    def create_subscription(self, kind: Any, topic: str, take: Callable[[Any], Any], qos: Any, **more: Any) -> Any:
        if kind is not StringStamped:
            return super().create_subscription(kind, topic, take, qos, **more)
        return super().create_subscription(
            String, topic, lambda text: take(StringStamped(string=text.data)), qos, **more
        )


def install() -> None:
    """In a process before it starts a graph: its bridge shall be of this kind."""
    crtk.OperatingState, crtk.StringStamped = OperatingState, StringStamped
    crtk.CrtkNode = TextBridge  # type: ignore[misc]
