"""What all stand-ins for controllers of robots share: parameters of the robot, counts, messages, and the loop."""

from __future__ import annotations

import json
import math
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from typing import Any

import numpy as np
import rclpy
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_system_default
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import String

from stand_ins.robots.body import Body, quaternion_of, rotation_of, rotation_of_quaternion

SYSTEM_DEFAULTS = qos_profile_system_default
COUNTED = "stand_in/counted"  # topic of the names of all counts, which no published controller has
MOST_CYCLES = 50  # after which a robot that was stopped goes on, without making up for it


class Arm(Node, ABC):
    """A node with the name of the published one, and the robot behind it.

    Parameters of the robot, of all stand-ins: `robot.position` [m] and `robot.rotation` (rotation vector [rad]) of the
    tool at the start, `robot.wall` (outward normal in the base, then its offset along that [m]), `robot.wall_stiffness`
    [N/m], `robot.rate` of its control and `robot.publish_rate` [Hz], `robot.active` (whether the controller is).

    Attributes:
        counts: how many messages were accepted, and how many refused or ignored for which reason.
        f: force of the wall on the tool in the base (3,) [N], of this step.
    """

    def __init__(self, name: str, rate: float = 500.0):
        super().__init__(name)
        self.counts: Counter[str] = Counter()
        position = np.array(self.parameter("robot.position", [0.4, 0.1, 0.3]))
        rotation = rotation_of(np.array(self.parameter("robot.rotation", [0.3, -0.5, 0.7])))
        *normal, offset = self.parameter("robot.wall", [0.0, 0.0, 1.0, -10.0])
        unit = np.array(normal) / np.linalg.norm(normal)
        self.body = Body(position, rotation, unit, offset, self.parameter("robot.wall_stiffness", 2000.0))
        self.active = bool(self.parameter("robot.active", True))
        self.period = 1.0 / self.parameter("robot.rate", rate)
        self.f = self.body.wall_force()
        self._stepped, self._counted = time.monotonic(), 0
        kept = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._counts = self.create_publisher(String, COUNTED, kept)
        self.create_timer(1.0 / self.parameter("robot.publish_rate", 125.0), self._step)

    def parameter(self, name: str, default: Any) -> Any:
        """Declare a ROS parameter and return its value."""
        return self.declare_parameter(name, default).value

    @abstractmethod
    def control(self) -> None:
        """Set the twist of the body for one period, or its pose; `f` is what the sensor has."""

    @abstractmethod
    def publish(self) -> None:
        """Publish what the controller and its broadcasters publish in each cycle."""

    def refuse(self, reason: str) -> None:
        """Count a message that the real controller refuses or ignores."""
        self.counts[reason] += 1

    def _step(self) -> None:
        # where the processor is late, several cycles: the robot's time is the clock's
        cycles = min(int((time.monotonic() - self._stepped) / self.period), MOST_CYCLES)
        self._stepped = self._stepped + cycles * self.period if cycles < MOST_CYCLES else time.monotonic()
        for _ in range(cycles):
            self.f = self.body.wall_force()
            if self.active:
                self.control()
        if cycles:
            self.publish()
        if len(self.counts) > self._counted:
            self._counted = len(self.counts)
            self._counts.publish(String(data=json.dumps(list(self.counts))))

    def close(self) -> None:
        """Print what was counted, where the body is and the force of the wall on it, in the base, as a line of JSON."""
        print(
            json.dumps(
                {
                    "counts": dict(self.counts),
                    "position": self.body.p.tolist(),
                    "quaternion": quaternion_of(self.body.R),
                    "force": self.f.tolist(),
                    "deepest": self.body.deepest,
                    "finite": self.body.finite(),
                }
            ),
            flush=True,
        )


class ForceTorqueSensorBroadcaster:
    """The broadcaster of ros2_controllers: topic ~/wrench, default QoS, frame_id as configured.

    force_torque_sensor_broadcaster.cpp:119-120 (topic, QoS), :137 (frame_id), :180 (stamp). The sign is that of the
    sensor; admittance_controller.cpp:479 adds a reference to it and accelerates along the sum
    (admittance_rule_impl.hpp:279), so it is the wrench that the environment exerts on the tool. FZI's controller has
    the same sign (cartesian_force_controller.cpp:158-159).

    Args:
        node: whose robot it is; the topic is named after the broadcaster.
        topic: absolute or relative to the node's namespace.
        frame: of the sensor.
        R_TS, p_TS: pose of the sensor in the tool frame, (3, 3) and (3,) [m].
        depth: of the publisher's queue, or None for the system's default.
    """

    def __init__(self, node: Arm, topic: str, frame: str, R_TS: np.ndarray, p_TS: np.ndarray, depth: int | None = None):
        self._node, self._frame, self._R_TS, self._p_TS = node, frame, R_TS, p_TS
        self._publisher = node.create_publisher(WrenchStamped, topic, SYSTEM_DEFAULTS if depth is None else depth)

    def wrench(self) -> np.ndarray:
        """Wrench of the environment on the tool (6,) in the sensor's axes, about the sensor's origin."""
        f_T = self._node.body.R.T @ self._node.f
        return np.concatenate([self._R_TS.T @ f_T, self._R_TS.T @ np.cross(-self._p_TS, f_T)])

    def publish(self, stamp: Any) -> None:
        """Publish it."""
        self._publisher.publish(wrench_stamped(stamp, self._frame, self.wrench()))


def sensor_of(node: Arm, topic: str, frame: str, depth: int | None = None) -> ForceTorqueSensorBroadcaster:
    """The broadcaster of a sensor; `sensor.rotation` and `sensor.position` are its pose in the tool frame."""
    R_TS = rotation_of(np.array(node.parameter("sensor.rotation", [0.0, 0.0, 0.0])))
    p_TS = np.array(node.parameter("sensor.position", [0.0, 0.0, 0.0]))
    topic, frame = node.parameter("sensor.topic", topic), node.parameter("sensor.frame_id", frame)
    return ForceTorqueSensorBroadcaster(node, topic, frame, R_TS, p_TS, depth)


def pose_stamped(stamp: Any, frame: str, p: np.ndarray, R: np.ndarray) -> PoseStamped:
    """Position (3,) and rotation (3, 3), in a frame that is named."""
    message = PoseStamped()
    message.header.stamp, message.header.frame_id = stamp, frame
    position, orientation = message.pose.position, message.pose.orientation
    position.x, position.y, position.z = p.tolist()
    orientation.x, orientation.y, orientation.z, orientation.w = quaternion_of(R)
    return message


def twist_stamped(stamp: Any, frame: str, v: np.ndarray, w: np.ndarray) -> TwistStamped:
    """Linear and angular velocity, in a frame that is named."""
    message = TwistStamped()
    message.header.stamp, message.header.frame_id = stamp, frame
    linear, angular = message.twist.linear, message.twist.angular
    linear.x, linear.y, linear.z = v.tolist()
    angular.x, angular.y, angular.z = w.tolist()
    return message


def wrench_stamped(stamp: Any, frame: str, wrench: np.ndarray) -> WrenchStamped:
    """Force and torque (6,), in a frame that is named."""
    message = WrenchStamped()
    message.header.stamp, message.header.frame_id = stamp, frame
    force, torque = message.wrench.force, message.wrench.torque
    force.x, force.y, force.z, torque.x, torque.y, torque.z = wrench.tolist()
    return message


def pose_of(message: PoseStamped) -> tuple[np.ndarray, np.ndarray]:
    """Position (3,) and rotation matrix (3, 3) in a message, whatever the length of its quaternion."""
    position, orientation = message.pose.position, message.pose.orientation
    R = rotation_of_quaternion(orientation.x, orientation.y, orientation.z, orientation.w)
    return np.array([position.x, position.y, position.z]), R


def wrench_of(message: WrenchStamped) -> np.ndarray:
    """Force and torque in a message (6,)."""
    force, torque = message.wrench.force, message.wrench.torque
    return np.array([force.x, force.y, force.z, torque.x, torque.y, torque.z])


def holds_nan(message: PoseStamped | WrenchStamped) -> bool:
    """Whether a number of the pose or wrench is not a number; infinity passes, as it does std::isnan."""
    if isinstance(message, WrenchStamped):
        return bool(np.isnan(wrench_of(message)).any())
    position, q = message.pose.position, message.pose.orientation
    return any(map(math.isnan, (position.x, position.y, position.z, q.x, q.y, q.z, q.w)))


def run(kind: type[Arm]) -> None:
    """Run a stand-in until SIGINT or SIGTERM."""
    ended: list[int] = []  # an exception of a handler would come in the middle of taking a message
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda number, _: ended.append(number))
    rclpy.init(args=sys.argv, signal_handler_options=SignalHandlerOptions.NO)
    node = kind()  # type: ignore[call-arg]
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    while not ended:
        executor.spin_once(timeout_sec=0.1)
    node.close()
    executor.shutdown()
    node.destroy_node()
    rclpy.try_shutdown()
