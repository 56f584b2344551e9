"""A stand-in for moveit_servo, with the pose and force broadcasters of ros2_controllers.

Lines are those of `moveit_ros/moveit_servo` of moveit2 at 8fcb5d2. Two of its types are in no package here:
moveit_msgs/srv/ServoCommandType is replaced by the parameter `command_type` (0 joints, 1 twist, 2 pose, as
datatypes.hpp:75-84; servo.hpp:228 starts at none or joints), and moveit_msgs/msg/ServoStatus on ~/status is counted.
The robot takes what servo publishes, without joints: neither singularities nor limits of joints.
"""

from __future__ import annotations

import math

import numpy as np
from geometry_msgs.msg import PoseStamped, TwistStamped
from rclpy.time import Time

from stand_ins.robots.body import cross, rotation_of, vector_of
from stand_ins.robots.program import SYSTEM_DEFAULTS, Arm, pose_of, pose_stamped, run, sensor_of

JOINTS, TWIST, POSE = 0, 1, 2


class ServoNode(Arm):
    """The node, and frames that it knows: that of planning, that of the tool, and one more.

    Defaults are those of servo_parameters.yaml; `other_frame` and its pose in the planning frame stand for TF.
    """

    def __init__(self) -> None:
        super().__init__("servo_node")
        self._planning = self.parameter("planning_frame", "base_link")  # base of the group's inverse kinematics
        self._tool = self.parameter("tool_frame", "tool0")
        self._other = self.parameter("other_frame", "")
        self._R_PO = rotation_of(np.array(self.parameter("other_rotation", [0.0, 0.0, 0.0])))
        self._p_PO = np.array(self.parameter("other_position", [0.0, 0.0, 0.0]))
        self._type = self.parameter("command_type", JOINTS)
        self._unitless = self.parameter("command_in_type", "unitless") == "unitless"
        self._linear, self._rotational = self.parameter("scale.linear", 0.4), self.parameter("scale.rotational", 0.8)
        self._timeout = self.parameter("incoming_command_timeout", 0.1)
        self._about_tool = self.parameter("apply_twist_commands_about_ee_frame", True)
        self._publish_period = self.parameter("publish_period", 0.01)
        self.create_subscription(TwistStamped, "~/delta_twist_cmds", self._receive_twist, SYSTEM_DEFAULTS)  # :120-122
        self.create_subscription(PoseStamped, "~/pose_target_cmds", self._receive_pose, SYSTEM_DEFAULTS)  # :125-127
        self._latest: TwistStamped | PoseStamped | None = None
        self._new: int | None = None
        # pose_broadcaster.cpp:21, :84, :108 of ros2_controllers
        self._poses = self.create_publisher(PoseStamped, "/pose_broadcaster/pose", SYSTEM_DEFAULTS)
        self._sensor = sensor_of(self, "/force_torque_sensor_broadcaster/wrench", "sensor_link")
        self.create_timer(self._publish_period, self._servo)

    def _receive_twist(self, message: TwistStamped) -> None:  # servo_node.cpp:217-221
        self._latest, self._new = message, TWIST

    def _receive_pose(self, message: PoseStamped) -> None:  # :223-227
        self._latest, self._new = message, POSE

    def _servo(self) -> None:  # :366-451
        self.body.v, self.body.w = np.zeros(3), np.zeros(3)
        if not self.active or self._new is None or self._latest is None:
            return
        message = self._latest
        if self._new != self._type:  # :412-416
            self.refuse("command type has not been set")
            self._new = None
            return
        age = (self.get_clock().now() - Time.from_msg(message.header.stamp)).nanoseconds * 1e-9
        if age >= self._timeout:  # :275-276, :311-312: by its stamp alone; it halts
            self.refuse("stale")
            self._new = None
            return
        frame = message.header.frame_id
        if isinstance(message, TwistStamped):
            delta = self._of_twist(message)
            kind = "delta_twist_cmds"
        else:
            delta = self._of_pose(message)
            kind = "pose_target_cmds"
        if delta is None:  # status INVALID: the message is dropped (:284-287, :317-320)
            self.refuse(f"{kind}: invalid, in {frame!r}")
            self._new = None
            return
        self.counts[kind] += 1
        self.body.v, self.body.w = delta[:3] / self._publish_period, delta[3:] / self._publish_period

    def _frame(self, name: str) -> tuple[np.ndarray, np.ndarray] | None:  # servo.cpp:551-573; none: not known to TF
        if name == self._planning:
            return np.zeros(3), np.eye(3)
        if name == self._tool:
            return self.body.p, self.body.R
        return (self._p_PO, self._R_PO) if name and name == self._other else None

    def _of_twist(self, message: TwistStamped) -> np.ndarray | None:
        linear, angular = message.twist.linear, message.twist.angular
        v = np.array([linear.x, linear.y, linear.z])
        w = np.array([angular.x, angular.y, angular.z])
        placement = self._frame(message.header.frame_id)
        if placement is None or not (np.isfinite(v).all() and np.isfinite(w).all()):  # common.cpp:87-91, :105-108
            return None
        p, R = placement
        v, w = R @ v, R @ w  # servo.cpp:589-602: the rotation alone, "about the end effector"
        if not self._about_tool and message.header.frame_id != self._planning:
            v = v + cross(p) @ w  # :604-626
        if self._unitless:  # command.cpp:176-180
            v, w = v * self._linear, w * self._rotational
        else:  # :181-198
            v, w = _shorten(v, self._linear), _shorten(w, self._rotational)
        return np.concatenate([v, w]) * self._publish_period

    def _of_pose(self, message: PoseStamped) -> np.ndarray | None:
        placement = self._frame(message.header.frame_id)
        p_C, R_C = pose_of(message)  # normalised: common.cpp:475
        if placement is None or not (np.isfinite(p_C).all() and np.isfinite(R_C).all()):
            return None
        p, R = placement
        way = p + R @ p_C - self.body.p  # command.cpp:253
        turn = vector_of(R @ R_C @ self.body.R.T)  # :276
        way = _shorten(way, self._linear * self._publish_period)  # :256-264
        turn = _shorten(turn, self._rotational * self._publish_period)  # :265-273
        return np.concatenate([way, turn])

    def control(self) -> None:
        """See Arm: the robot moves evenly from one command of servo to the next."""
        self.body.move(self.period)

    def publish(self) -> None:
        """See Arm."""
        stamp = self.get_clock().now().to_msg()
        self._poses.publish(pose_stamped(stamp, self._planning, self.body.p, self.body.R))
        self._sensor.publish(stamp)


def _shorten(vector: np.ndarray, most: float) -> np.ndarray:
    length = math.sqrt(float(vector @ vector))
    return vector * (most / length) if 0.0 < most < length else vector


if __name__ == "__main__":
    run(ServoNode)
