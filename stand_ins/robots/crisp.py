"""A stand-in for CRISP's Cartesian controller and its pose broadcaster.

Lines are those of `crisp_controllers` at 8093548. Torques of joints are J^T F (cartesian_controller.cpp:158, :192), so
that on a free body F is a wrench about the origin of the frame that J is of: Pinocchio's WORLD, the base's origin,
unless `use_local_jacobian` (:123-127). The limit of the rate of torques (:197) has no counterpart without joints.
"""

from __future__ import annotations

import numpy as np
from geometry_msgs.msg import PoseStamped, WrenchStamped
from rclpy.qos import QoSProfile

from stand_ins.robots.body import rotation_of, vector_of
from stand_ins.robots.program import (
    SYSTEM_DEFAULTS,
    Arm,
    holds_nan,
    pose_of,
    pose_stamped,
    run,
    sensor_of,
    wrench_of,
)

MASS, INERTIA = 3.0, 0.1  # [kg, kg m^2] of the tool; the controller has no term for them
MOST_PUBLISHERS = 1  # cartesian_controller.cpp:334


class CartesianController(Arm):
    """The controller with its pose broadcaster, and a force sensor's broadcaster of ros2_controllers.

    Defaults are those of cartesian_impedance_controller.yaml.
    """

    def __init__(self) -> None:
        super().__init__("cartesian_controller")
        self._base = self.parameter("base_frame", "base")  # of the broadcaster: pose_broadcaster.yaml:9
        self._stiffness = np.array(self.parameter("task.k", [500.0] * 3 + [30.0] * 3))
        self._damping = 2.0 * np.sqrt(self._stiffness)  # d < 0: cartesian_controller.cpp:421-426
        self._clip = np.array(self.parameter("task.error_clip", [0.1] * 3 + [0.5] * 3))
        self._filter = self.parameter("filter.target_pose", 0.1)
        self._local = self.parameter("use_local_jacobian", False)
        # relative names without the controller's, depth 1, reliable and volatile: :372-379
        self.create_subscription(PoseStamped, "target_pose", self._receive_pose, QoSProfile(depth=1))
        self.create_subscription(WrenchStamped, "target_wrench", self._receive_wrench, QoSProfile(depth=1))
        self._poses = self.create_publisher(PoseStamped, "current_pose", SYSTEM_DEFAULTS)  # pose_broadcaster.cpp:156
        self._sensor = sensor_of(self, "force_torque_sensor_broadcaster/wrench", "sensor_link")
        self._goal = self._target = (self.body.p, self.body.R)  # :480-483
        self._wrench = np.zeros(6)
        self._look_at_publishers()
        self.create_timer(0.1, self._look_at_publishers)

    def _look_at_publishers(self) -> None:
        self._publisher_counts = {
            t: len(self.get_publishers_info_by_topic(t)) for t in ("target_pose", "target_wrench")
        }

    def _single(self, topic: str) -> bool:  # :641-668, there with each message, which rclpy has no time for
        if self._publisher_counts[topic] <= MOST_PUBLISHERS:
            return True
        self.refuse(f"{topic}: several publishers")
        return False

    def _receive_pose(self, message: PoseStamped) -> None:  # :336-346 and :495-502: no frame, stamp or NaN is looked at
        if self._single("target_pose"):
            self.counts["target_pose"] += 1
            self._note("target_pose", message)
            self._goal = pose_of(message)

    def _receive_wrench(self, message: WrenchStamped) -> None:  # :360-370 and :520-524
        if self._single("target_wrench"):
            self.counts["target_wrench"] += 1
            self._note("target_wrench", message)
            self._wrench = wrench_of(message)

    def _note(self, topic: str, message: PoseStamped | WrenchStamped) -> None:
        if holds_nan(message):
            self.counts[f"{topic}: NaN, taken as it is"] += 1
        if topic == "target_pose" and message.header.frame_id not in ("", self._base):
            self.counts[f"{topic}: says {message.header.frame_id!r}, taken as it is"] += 1

    def control(self) -> None:
        """See Arm; cartesian_controller.cpp:83-194."""
        body = self.body
        if not body.finite():
            return  # torques that are not numbers: a real robot stops with a fault
        p, R = self._goal
        alpha = self._filter  # fiters.hpp:14-17; exp6 and log6 of a target that moves little: the parts apart
        p_filtered = (1.0 - alpha) * p + alpha * self._target[0]
        R_filtered = self._target[1] @ rotation_of((1.0 - alpha) * vector_of(self._target[1].T @ R))
        self._target = p_filtered, R_filtered
        way, turn = p_filtered - body.p, vector_of(R_filtered @ body.R.T)  # :110-113
        error = np.concatenate([body.R.T @ way, body.R.T @ turn] if self._local else [way, turn])  # :104-108
        error = np.clip(error, -self._clip, self._clip)  # :116-120
        if self._local:
            twist = np.concatenate([body.R.T @ body.v, body.R.T @ body.w])
        else:  # of the point of the body that is at the base's origin
            twist = np.concatenate([body.v - np.cross(body.w, body.p), body.w])
        F = self._stiffness * error - self._damping * twist + self._wrench
        if self._local:
            force, torque = body.R @ F[:3], body.R @ F[3:]
        else:
            force, torque = F[:3], F[3:] - np.cross(body.p, F[:3])
        body.v = body.v + self.period / MASS * (force + self.f)
        body.w = body.w + self.period / INERTIA * torque
        body.move(self.period)

    def publish(self) -> None:
        """See Arm; pose_broadcaster.cpp:65-78."""
        stamp = self.get_clock().now().to_msg()
        self._poses.publish(pose_stamped(stamp, self._base, self.body.p, self.body.R))
        self._sensor.publish(stamp)


if __name__ == "__main__":
    run(CartesianController)
