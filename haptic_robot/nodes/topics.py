"""Topics of an adapter in ROS: publishers and subscriptions of geometry_msgs, and their values as arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from rclpy.qos import QoSProfile, ReliabilityPolicy

from haptic_robot.adapters import Quantity, Sent, Topic

RELIABLE = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
"""Of what is published: what all the controllers ask for; of commands the last one counts."""
ANY = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Of what is taken: from publishers of both kinds."""
TYPES = {Quantity.POSE: PoseStamped, Quantity.TWIST: TwistStamped, Quantity.WRENCH: WrenchStamped}


def message_of(sent: Sent, stamp: Any) -> Any:
    """The message of what is sent; its stamp is a builtin_interfaces/Time."""
    message = TYPES[sent.quantity]()
    message.header.frame_id, message.header.stamp = sent.frame, stamp
    values = sent.values.tolist()
    if sent.quantity is Quantity.POSE:
        first, rest = message.pose.position, message.pose.orientation
        rest.x, rest.y, rest.z, rest.w = values[3:]
    elif sent.quantity is Quantity.TWIST:
        first, rest = message.twist.linear, message.twist.angular
        rest.x, rest.y, rest.z = values[3:]
    else:
        first, rest = message.wrench.force, message.wrench.torque
        rest.x, rest.y, rest.z = values[3:]
    first.x, first.y, first.z = values[:3]
    return message


def values_of(quantity: Quantity, message: Any) -> np.ndarray:
    """The values of a message: a pose (7,) [m, quat_xyzw], or a twist or wrench (6,)."""
    if quantity is Quantity.POSE:
        p, q = message.pose.position, message.pose.orientation
        return np.array([p.x, p.y, p.z, q.x, q.y, q.z, q.w])
    if quantity is Quantity.TWIST:
        first, rest = message.twist.linear, message.twist.angular
    else:
        first, rest = message.wrench.force, message.wrench.torque
    return np.array([first.x, first.y, first.z, rest.x, rest.y, rest.z])


class Topics:
    """Publishers of some topics, and subscriptions of others; names are absolute.

    Attributes:
        apart: time of the node's clock less the stamp of the last message [s], of each topic that has stamps.

    Args:
        node: that has them.
        published, taken: the topics.
        receive: takes topic, frame_id and values of each message, in the executor's thread.
    """

    def __init__(
        self,
        node: Any,
        published: tuple[Topic, ...],
        taken: tuple[Topic, ...],
        receive: Callable[[str, str, np.ndarray], object],
    ):
        self._node, self._given = node, receive
        self.apart: dict[str, float] = {}
        self._publishers = {
            one.name: node.create_publisher(TYPES[one.quantity], f"/{one.name}", RELIABLE) for one in published
        }
        self._subscriptions = [
            node.create_subscription(
                TYPES[one.quantity],
                f"/{one.name}",
                lambda message, one=one: self._receive(one, message),
                ANY,
            )
            for one in taken
        ]
        self._taken = {one.name: TYPES[one.quantity] for one in taken}

    def _receive(self, topic: Topic, message: Any) -> None:
        stamp = message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec
        if stamp > 0.0:
            self.apart[topic.name] = 1e-9 * self._node.get_clock().now().nanoseconds - stamp
        self._given(topic.name, message.header.frame_id, values_of(topic.quantity, message))

    def send(self, sent: Sent) -> None:
        """Publish a message, with the present time of the node's clock."""
        stamp = self._node.get_clock().now().to_msg()
        self._publishers[sent.topic].publish(message_of(sent, stamp))

    def contested(self) -> list[str]:
        """Published topics that somebody else publishes, too."""
        return [name for name in self._publishers if self._node.count_publishers(f"/{name}") > 1]

    def lacking(self) -> list[str]:
        """Why nothing can come on the topics that are taken; one line each, with the type that somebody publishes."""
        found = []
        for name, kind in self._taken.items():
            wanted = f"geometry_msgs/msg/{kind.__name__}"
            types = {one.topic_type for one in self._node.get_publishers_info_by_topic(f"/{name}")}
            if not types:
                found.append(f"/{name}: nobody publishes it; {wanted} is needed")
            elif wanted not in types:
                found.append(f"/{name}: is of type {', '.join(sorted(types))}; must be {wanted}")
        return found

    def close(self) -> None:
        """Take publishers and subscriptions away."""
        for publisher in self._publishers.values():
            self._node.destroy_publisher(publisher)
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)
