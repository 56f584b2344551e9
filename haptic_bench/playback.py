"""Playing a recorded trial back on ROS 2: the recorded messages on their topics, in their time."""

from __future__ import annotations

import heapq
import importlib
import time
from pathlib import Path
from typing import Any

from haptic_bench import bag
from haptic_bench.runner import Interruption


def play(directory: Path, interruption: Interruption) -> int:
    """Publish the messages of a trial's bag at the times at which they were recorded; returns how many."""
    import rclpy
    from rclpy.qos import QoSProfile, ReliabilityPolicy
    from rclpy.signals import SignalHandlerOptions

    topics = bag.read(directory / "bag")
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    try:
        node = rclpy.create_node("playback")
        qos = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
        publishers: dict[str, Any] = {
            name: node.create_publisher(_message_type(topic.type), name, qos) for name, topic in topics.items()
        }
        streams = [[(int(at), i, name) for i, at in enumerate(topic.log_times)] for name, topic in topics.items()]
        sent = 0
        begun, first = time.monotonic(), None
        for at, i, name in heapq.merge(*streams):
            first = at if first is None else first
            wait = begun + (at - first) * 1e-9 - time.monotonic()
            if (wait > 0.0 and interruption.event.wait(wait)) or interruption:
                break
            publishers[name].publish(topics[name].messages[i])
            sent += 1
        node.destroy_node()
        return sent
    finally:
        rclpy.try_shutdown()


def _message_type(name: str) -> Any:
    """The class of a message type such as haptics/msg/ToolState."""
    package, _, kind = name.split("/")
    return getattr(importlib.import_module(f"{package}.msg"), kind)
