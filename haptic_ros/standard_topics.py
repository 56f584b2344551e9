"""Topics of standard messages beside the servo topics, for RViz, Foxglove and programs of others.

A timer of the executor makes them from the last message that the servo thread has sent, at a rate of their own: the
servo thread keeps a reference to the bytes that it publishes anyway, and does no more. Nothing is made for a topic that
nobody subscribes to, and the timer runs only while there is a subscription: a turn of rclpy's executor takes longer
than a tick of the servo thread. Each node publishes what is its own: a driver the device, the tool's side the world.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from geometry_msgs.msg import Point, PoseStamped, TransformStamped, TwistStamped, WrenchStamped
from rclpy.event_handler import PublisherEventCallbacks
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState, Joy
from std_msgs.msg import ColorRGBA, Header, String
from visualization_msgs.msg import Marker, MarkerArray

from haptic_sim.dynamics.pantograph import MOTORS, Motors
from haptic_sim.messages import DeviceState, Message, WorldState

try:
    from tf2_msgs.msg import TFMessage
except ImportError:  # of ROS 2's own packages; the wheels have none
    TFMessage = None

FRAME = "world"
LATCHED = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)
RELIABLE = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
"""Reaches whoever asks for less, too; listeners of `/tf` and RViz ask for it."""
FORCE_LENGTH = 0.01  # [m/N] of an arrow
NORMAL_LENGTH = 0.02  # [m]
CONTACT_SIZE = 0.004  # [m]
MOST_CONTACTS = 1024


class StandardTopics:
    """Common part of the standard topics of all nodes.

    Args:
        node: which publishes them.
        source: topic whose last message they show.
        rate: [Hz].
    """

    def __init__(self, node: Any, source: str, rate: float):
        self._node, self._source, self._shown = node, source, None
        self._publishers: dict[str, Any] = {}
        self._timer = node.create_timer(1.0 / rate, self._show, autostart=False)
        self._prefix = f"{node.root.strip('/')}/"

    def open(self, name: str, kind: Any, qos: QoSProfile) -> None:
        """Make the publisher of a topic; one whose type is not installed is left out."""
        if kind is not None:
            callbacks = PublisherEventCallbacks(matched=self._follow_subscriptions)
            self._publishers[name] = self._node.create_publisher(kind, name, qos, event_callbacks=callbacks)

    def wanted(self, name: str) -> bool:
        """Whether somebody subscribes to a topic."""
        publisher = self._publishers.get(name)
        return publisher is not None and publisher.get_subscription_count() > 0

    def publish(self, name: str, message: Any) -> None:
        """Publish a message, if the topic is there."""
        if name in self._publishers:
            self._publishers[name].publish(message)

    def show(self, data: bytes) -> None:
        """Publish what a message of the source says."""
        raise NotImplementedError

    def _follow_subscriptions(self, _: object) -> None:
        """Called when a subscription has come or gone: run the timer while there is one."""
        if not any(map(self.wanted, self._publishers)):
            self._timer.cancel()
        elif self._timer.is_canceled():
            self._timer.reset()

    def _show(self) -> None:
        data = self._node.last_sent.get(self._source)
        if data is not None and data is not self._shown and any(map(self.wanted, self._publishers)):
            self._shown = data
            self.show(data)

    def close(self) -> None:
        """Take publishers and timer away."""
        for publisher in self._publishers.values():
            self._node.destroy_publisher(publisher)
        self._publishers.clear()
        self._node.destroy_timer(self._timer)

    def _header(self, message: Message, frame: str) -> Header:
        header = Header(frame_id=frame)
        header.stamp.sec, header.stamp.nanosec = divmod(message.nanoseconds, 1_000_000_000)
        return header


class DeviceTopics(StandardTopics):
    """The device, in CRTK's names: `measured_cp`, `measured_cv`, `measured_cf`, its frames, and its `buttons`.

    All are of the hand point, in the axes of the device's base, which is the world. `measured_cf` is the wrench of the
    operator on the device. `buttons` comes when one of them changes. `measured_js` has the motors of a linkage, with
    angles and rates as they are at the measured hand.

    Args:
        node: a driver, or what answers one.
        rate: [Hz].
        reliable: whether CRTK's topics are; else best effort, as servo topics are.
        linkage: that the device is, as of `LinkageParameters.numbers`; None: it has no joints that are known.
    """

    def __init__(self, node: Any, rate: float, reliable: bool, linkage: tuple[float, ...] | None = None):
        super().__init__(node, "device_state", rate)
        reliability = ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT
        qos = QoSProfile(depth=10 if reliable else 1, reliability=reliability)
        for name, kind in (("cp", PoseStamped), ("cv", TwistStamped), ("cf", WrenchStamped)):
            self.open(f"measured_{name}", kind, qos)
        self._motors = None if linkage is None else Motors(linkage)
        if self._motors is not None:
            self.open("measured_js", JointState, qos)
        self.open("buttons", Joy, LATCHED)
        self.open("/tf", TFMessage, RELIABLE)
        self.open("/tf_static", TFMessage, LATCHED)
        self._base = base_frame(node)
        self._end = f"{self._base.removesuffix('_base')}_ee"
        self._state = DeviceState()
        self._buttons: list[int] = []
        if TFMessage is not None:
            fixed = TransformStamped(header=Header(frame_id=FRAME), child_frame_id=self._base)
            self.publish("/tf_static", TFMessage(transforms=[fixed]))

    def show(self, data: bytes) -> None:
        """Publish what a message of the source says."""
        state = self._state
        state.load(data)
        header = self._header(state, self._base)
        if self.wanted("measured_cp"):
            pose = PoseStamped(header=header)
            _fill_pose(pose.pose.position, pose.pose.orientation, state.pose)
            self.publish("measured_cp", pose)
        if self.wanted("measured_cv"):
            twist = TwistStamped(header=header)
            _fill(twist.twist.linear, twist.twist.angular, state.twist)
            self.publish("measured_cv", twist)
        if self.wanted("measured_cf"):
            wrench = WrenchStamped(header=header)
            _fill(wrench.wrench.force, wrench.wrench.torque, state.operator_wrench)
            self.publish("measured_cf", wrench)
        motors = self._motors
        if motors is not None and self.wanted("measured_js") and motors.follow(state.pose, state.twist):
            joints = JointState(header=self._header(state, ""), name=list(MOTORS))
            joints.position, joints.velocity = motors.angles.tolist(), motors.rates.tolist()
            self.publish("measured_js", joints)
        if self.wanted("/tf"):
            self.publish("/tf", TFMessage(transforms=[_transform(header, self._end, state.pose)]))
        if (buttons := state.buttons[: len(state)].tolist()) != self._buttons:
            self._buttons = buttons
            self.publish("buttons", Joy(header=header, buttons=buttons))


def base_frame(node: Any) -> str:
    """Frame of the base of a node's device."""
    return f"{node.root.strip('/')}/{node.config.of_hand or 'device'}_base"


class WorldTopics(StandardTopics):
    """The world: `joint_states`, `/tf`, `/tf_static`, `robot_description` and `markers` of its contacts.

    Args:
        node: which publishes world states.
        rate: [Hz].
        description: of the world as URDF, and its joints; empty where there is none.
        fixed: poses (7,) of the bodies that never move, which `/tf_static` has once; all others are on `/tf`.
    """

    def __init__(
        self, node: Any, rate: float, description: str, joints: Sequence[str], fixed: Mapping[str, np.ndarray]
    ):
        super().__init__(node, "world_state", rate)
        self._joints, self._fixed = joints, frozenset(fixed)
        self._state: WorldState | None = None
        self.open("joint_states", JointState, RELIABLE)
        self.open("markers", MarkerArray, RELIABLE)
        self.open("/tf", TFMessage, RELIABLE)
        self.open("/tf_static", TFMessage, LATCHED)
        self.open("robot_description", String, LATCHED)
        if TFMessage is not None and fixed:
            header = Header(frame_id=FRAME)
            frames = [_transform(header, self._prefix + name, pose) for name, pose in fixed.items()]
            self.publish("/tf_static", TFMessage(transforms=frames))
        if description:
            self.publish("robot_description", String(data=description))

    def show(self, data: bytes) -> None:
        """Publish what a message of the source says."""
        if self._state is None:
            self._state = WorldState.of_layout(data, MOST_CONTACTS)
            names = [name for name in self._state.q_names if name in self._joints]
            q_names, v_names = list(self._state.q_names), list(self._state.v_names)
            self._moving = [(name, q_names.index(name), v_names.index(name)) for name in names]
        state = self._state
        state.load(data)
        header = self._header(state, FRAME)
        if self.wanted("joint_states"):
            message = JointState(header=self._header(state, ""))
            message.name = [name for name, _, _ in self._moving]
            message.position = [float(state.q[at]) for _, at, _ in self._moving]
            message.velocity = [float(state.v[at]) for _, _, at in self._moving]
            self.publish("joint_states", message)
        if self.wanted("/tf"):
            poses = zip(state.bodies, state.poses, strict=True)
            moving = [(name, pose) for name, pose in poses if name not in self._fixed]
            frames = [_transform(header, self._prefix + name, pose) for name, pose in moving]
            self.publish("/tf", TFMessage(transforms=frames))
        if self.wanted("markers"):
            self.publish("markers", MarkerArray(markers=_markers(header, state)))


def _markers(header: Header, state: WorldState) -> list[Marker]:
    """The contacts of a world state: points, normals, and forces on the second body."""
    contacts = state.contacts[: len(state)]
    points = contacts["point"]
    force = points + FORCE_LENGTH * contacts["force"]
    normal = points + NORMAL_LENGTH * contacts["normal"]
    return [
        _marker(header, "contacts", Marker.SPHERE_LIST, CONTACT_SIZE, (0.9, 0.1, 0.1), points),
        _marker(header, "normals", Marker.LINE_LIST, 0.25 * CONTACT_SIZE, (0.5, 0.5, 0.5), _lines(points, normal)),
        _marker(header, "forces", Marker.LINE_LIST, 0.5 * CONTACT_SIZE, (0.1, 0.4, 0.9), _lines(points, force)),
    ]


def _lines(begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    return np.stack([begin, end], axis=1).reshape(-1, 3)


def _marker(
    header: Header, name: str, kind: int, size: float, colour: tuple[float, float, float], points: np.ndarray
) -> Marker:
    marker = Marker(header=header, ns=name, type=kind, action=Marker.ADD)
    marker.scale.x = marker.scale.y = marker.scale.z = size
    marker.color = ColorRGBA(r=colour[0], g=colour[1], b=colour[2], a=1.0)
    marker.pose.orientation.w = 1.0
    marker.points = [Point(x=x, y=y, z=z) for x, y, z in points.tolist()]
    if not marker.points:
        marker.action = Marker.DELETE
    return marker


def _transform(header: Header, child: str, pose: np.ndarray) -> TransformStamped:
    found = TransformStamped(header=header, child_frame_id=child)
    _fill_pose(found.transform.translation, found.transform.rotation, pose)
    return found


def _fill_pose(position: Any, orientation: Any, values: np.ndarray) -> None:
    position.x, position.y, position.z, *rest = values.tolist()
    orientation.x, orientation.y, orientation.z, orientation.w = rest


def _fill(first: Any, second: Any, values: np.ndarray) -> None:
    first.x, first.y, first.z, second.x, second.y, second.z = values.tolist()
