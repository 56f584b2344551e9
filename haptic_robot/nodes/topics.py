"""Topics of an adapter in ROS: publishers and subscriptions, and the values of their messages as arrays."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from haptic_robot.adapters import Adapter, Quantity, Sent, Topic
from haptic_ros.inbox import ServoGroup, subscribe
from haptic_ros.middleware.reception import Source, raw_publish, raw_time

RELIABLE = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
"""Quality of service of what is published: what all the controllers ask for; of commands the last one counts."""
ANY = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Quality of service of what is taken: from publishers of both kinds."""
TYPES = {
    Quantity.POSE: PoseStamped,
    Quantity.TWIST: TwistStamped,
    Quantity.WRENCH: WrenchStamped,
    Quantity.JOINTS: JointState,
    Quantity.TRAJECTORY: JointTrajectory,
}
LITTLE_ENDIAN = b"\x00\x01\x00\x00"
"""Header of serialised messages: CDR of this byte order."""
HEADER = len(LITTLE_ENDIAN)
_BEGINNING = struct.Struct("<iII")  # sec, nanosec, length of frame_id with its zero


def message_of(sent: Sent, stamp: Any, joints: tuple[str, ...] = ()) -> Any:
    """The message of what is sent, of these joints; its stamp is a builtin_interfaces/Time.

    A trajectory has none: it begins when it comes, however clocks differ.
    """
    message = TYPES[sent.quantity]()
    message.header.frame_id, message.header.stamp = sent.frame, stamp
    values = sent.values.tolist()
    if sent.quantity is Quantity.JOINTS:
        n = len(joints)
        message.name = list(joints)
        message.position, message.velocity, message.effort = values[1 : 1 + n], values[1 + n : 1 + 2 * n], values[-n:]
        return message
    if sent.quantity is Quantity.TRAJECTORY:
        message.header.stamp = JointTrajectory().header.stamp
        message.joint_names, point = list(joints), JointTrajectoryPoint(positions=values[1:])
        point.time_from_start.sec, point.time_from_start.nanosec = divmod(round(1e9 * values[0]), 1_000_000_000)
        message.points = [point]
        return message
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


def values_of(quantity: Quantity, message: Any, joints: tuple[str, ...] = ()) -> np.ndarray:
    """The values of a message as in `Sent`; NaN for what it does not say of these joints."""
    if quantity is Quantity.JOINTS:
        return joint_values(message, joints)
    if quantity is Quantity.TRAJECTORY:
        return trajectory_values(message, joints)
    if quantity is Quantity.POSE:
        p, q = message.pose.position, message.pose.orientation
        return np.array([p.x, p.y, p.z, q.x, q.y, q.z, q.w])
    if quantity is Quantity.TWIST:
        first, rest = message.twist.linear, message.twist.angular
    else:
        first, rest = message.wrench.force, message.wrench.torque
    return np.array([first.x, first.y, first.z, rest.x, rest.y, rest.z])


def joint_values(message: Any, joints: tuple[str, ...]) -> np.ndarray:
    """Time, positions, velocities and torques (1 + 3 n,) of these joints, in whatever order a message has them."""
    places = {name: i for i, name in enumerate(message.name)}
    values = np.full((3, len(joints)), np.nan)
    for row, given in zip(values, (message.position, message.velocity, message.effort), strict=True):
        for j, name in enumerate(joints):
            if places.get(name, len(given)) < len(given):
                row[j] = given[places[name]]
    stamp = message.header.stamp
    return np.concatenate([[stamp.sec + 1e-9 * stamp.nanosec], values.ravel()])


def trajectory_values(message: Any, joints: tuple[str, ...]) -> np.ndarray:
    """Time and positions (1 + n,) of these joints, in whatever order a trajectory has them.

    NaN for each joint of one that has not one point, other joints, or something beside their positions.
    """
    values, places = np.full(1 + len(joints), np.nan), {name: i for i, name in enumerate(message.joint_names)}
    if len(message.points) != 1 or set(places) != set(joints):
        return values
    (point,) = message.points
    time = point.time_from_start
    values[0] = time.sec + 1e-9 * time.nanosec
    if len(point.positions) == len(message.joint_names) and not (
        point.velocities or point.accelerations or point.effort
    ):
        values[1:] = [point.positions[places[name]] for name in joints]
    return values


class Layout:
    """The bytes of a message of a topic, laid out once, whose stamp and values are filled in place.

    rclpy's own conversion makes a message, fills it field by field, and goes over it again.

    Args:
        sent: topic, frame_id and number of the values.
        joints: whose values they are.
    """

    def __init__(self, sent: Sent, joints: tuple[str, ...] = ()):
        self._dated = sent.quantity is not Quantity.TRAJECTORY
        marked = sent._replace(values=1.0 + np.arange(len(sent.values)))
        marked.values[0] = sent.values[0] if sent.quantity is Quantity.TRAJECTORY else 1.0
        # as CDR, little endian: a header of 4 bytes, sec, nanosec, and the rest, in which doubles are aligned
        self._data = bytearray(serialize_message(message_of(marked, PoseStamped().header.stamp, joints)))
        self._stamp = np.frombuffer(self._data, "<u4", 2, HEADER)
        self._values: list[tuple[np.ndarray, slice]] = []  # each: where it is, of which values
        n = len(joints)
        parts = [slice(1 + i * n, 1 + (i + 1) * n) for i in range((len(sent.values) - 1) // n)] if n else [slice(None)]
        for part in parts:
            at = self._data.index(marked.values[part].astype("<f8").tobytes())
            self._values.append((np.frombuffer(self._data, "<f8", len(marked.values[part]), at), part))

    def fill(self, nanoseconds: int, values: np.ndarray) -> bytearray:
        """The bytes of a message with a time [ns] and values as in `Sent`, until the next call."""
        if self._dated:
            self._stamp[0], self._stamp[1] = divmod(nanoseconds, 1_000_000_000)
        for where, part in self._values:
            where[:] = values[part]
        return self._data


class Reader:
    """Reads the bytes of messages of a topic into an array that is used again.

    Attributes:
        stamp: time of the last message [s]. frame: its frame_id. values: as in `Sent`.
    """

    def __init__(self, topic: Topic, count: int):
        self._topic, self.values = topic, np.zeros(count)
        self.stamp, self.frame, self._encoded = 0.0, "", b""

    def read(self, data: bytes) -> None:
        """Take a message."""
        if not self._topic.joints and data[:HEADER] == LITTLE_ENDIAN:
            sec, nanosec, length = _BEGINNING.unpack_from(data, HEADER)
            first = HEADER + _BEGINNING.size
            at, count = HEADER + -(-(_BEGINNING.size + length) // 8) * 8, len(self.values)
            if len(data) >= at + 8 * count:
                if (encoded := data[first : first + length - 1]) != self._encoded:
                    self._encoded, self.frame = encoded, encoded.decode(errors="replace")
                self.stamp = sec + 1e-9 * nanosec
                self.values[:] = np.frombuffer(data, "<f8", count, at)
                return
        message = deserialize_message(data, TYPES[self._topic.quantity])
        header = message.header
        self.stamp, self.frame = header.stamp.sec + 1e-9 * header.stamp.nanosec, header.frame_id
        self._encoded = self.frame.encode()
        self.values[:] = values_of(self._topic.quantity, message, self._topic.joints)


class Topics:
    """Publishers of some topics, and subscriptions of others; names are absolute.

    What comes is taken when it is asked for (`take`): no executor and no other thread holds up who commands an arm.

    Attributes:
        apart: time of the node's clock less the stamp of the last message [s], of each topic that has stamps.
        silent: topics on which no values have come yet.
        unknown: topics whose last message said, by a stamp of zero, that the arm does not know its values.

    Args:
        node: that has them.
        adapter: whose topics they are.
        published, taken: the topics.
    """

    def __init__(self, node: Any, adapter: Adapter, published: Iterable[Topic], taken: Iterable[Topic]):
        self._node, self._now = node, raw_time(node.get_clock())
        self._taken = {one.name: one for one in taken}
        self.apart: dict[str, float] = {}
        self.silent, self.unknown = set(self._taken), set[str]()
        self._publishers, self._publish, self._layouts = {}, {}, {}
        for one in published:
            publisher = node.create_publisher(TYPES[one.quantity], f"/{one.name}", RELIABLE)
            self._publishers[one.name], self._publish[one.name] = publisher, raw_publish(publisher)
            self._layouts[one.name] = Layout(adapter.blank(one), one.joints)
        group, self._subscriptions, self._sources = ServoGroup(), [], []
        for one in self._taken.values():
            subscription = subscribe(node, TYPES[one.quantity], f"/{one.name}", ANY, group)
            self._subscriptions.append(subscription)
            reader = Reader(one, len(adapter.blank(one).values))
            self._sources.append((one, Source(one.name, subscription), reader))

    def take(self) -> Iterator[tuple[str, str, np.ndarray]]:
        """Topic, frame_id and values of the last message of each topic that has come since; the values until the next.

        By one thread alone.
        """
        for topic, source, reader in self._sources:
            if (taken := source.take()) is None:
                continue
            reader.read(taken[0])
            if reader.stamp > 0.0:
                self.apart[topic.name] = 1e-9 * self._now() - reader.stamp
                self.unknown.discard(topic.name)
            elif topic.dated:
                self.unknown.add(topic.name)
                continue
            self.silent.discard(topic.name)
            yield topic.name, reader.frame, reader.values

    def send(self, sent: Sent) -> None:
        """Publish a message, with the present time of the node's clock."""
        self._publish[sent.topic](self._layouts[sent.topic].fill(self._now(), sent.values))

    def contested(self) -> list[str]:
        """Published topics that have another publisher, too."""
        return [name for name in self._publishers if self._node.count_publishers(f"/{name}") > 1]

    def lacking(self) -> list[str]:
        """Reasons why subscribed topics yield no usable messages; one line each, with the published type."""
        found = []
        for name, topic in self._taken.items():
            kind = TYPES[topic.quantity]
            wanted = f"{kind.__module__.partition('.')[0]}/msg/{kind.__name__}"
            types = {one.topic_type for one in self._node.get_publishers_info_by_topic(f"/{name}")}
            if not types:
                found.append(f"/{name}: has no publisher; {wanted} is needed")
            elif wanted not in types:
                found.append(f"/{name}: is of type {', '.join(sorted(types))}; must be {wanted}")
            elif name in self.unknown:
                found.append(f"/{name}: its stamp is zero, the arm does not know the values; is it powered and homed?")
        return found

    def close(self) -> None:
        """Destroy the publishers and subscriptions."""
        for publisher in self._publishers.values():
            self._node.destroy_publisher(publisher)
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)
