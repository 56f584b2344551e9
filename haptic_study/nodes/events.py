"""The events of a session on a ROS 2 topic."""

from __future__ import annotations

import rclpy
from haptics.msg import TrialEvent
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from haptic_ros.middleware.context import initialise

QOS = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""Reliable; who comes late gets the events from the beginning of the session."""


class RosTopic:
    """A topic of `haptics/TrialEvent`: `node` is "study", `name` that of the event, `detail` its code in digits.

    `header.stamp` is the time of the ROS clock when the event was sent; `tick` is -1, as an event is of no tick.

    Args:
        topic: its name.
    """

    def __init__(self, topic: str = "study_events"):
        self._initialised = not rclpy.ok()
        if self._initialised:
            initialise([])
        self.node = rclpy.create_node("study")
        self._publisher = self.node.create_publisher(TrialEvent, topic, QOS)

    def send(self, code: int, name: str, time: float) -> None:
        """Publish an event; see `outlets.Outlet`."""
        event = TrialEvent(tick=-1, node="study", name=name, detail=str(code))
        event.header.stamp = self.node.get_clock().now().to_msg()
        self._publisher.publish(event)

    def close(self) -> None:
        """End the node."""
        self.node.destroy_node()
        if self._initialised:
            rclpy.try_shutdown()
