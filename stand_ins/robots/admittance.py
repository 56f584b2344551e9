"""A stand-in for the admittance_controller of ros2_controllers, with the broadcasters of pose and force.

Lines are those of `admittance_controller` at 94e74de. `~/joint_references` is not here, as trajectory_msgs is in no
package here: the reference stays where the robot starts, and so is ~/status, of control_msgs. The robot takes the
controller's position at once; without joints, the damping of joints acts on the twist.
"""

from __future__ import annotations

import numpy as np
from geometry_msgs.msg import PoseStamped, WrenchStamped

from stand_ins.robots.body import rotation_of, vector_of
from stand_ins.robots.program import SYSTEM_DEFAULTS, Arm, holds_nan, pose_stamped, run, sensor_of, wrench_of


class AdmittanceController(Arm):
    """The controller; the sensor's frame turns with the tool, the control frame is that of the base."""

    def __init__(self) -> None:
        super().__init__("admittance_controller")
        self._base = self.parameter("kinematics.base", "base_link")
        self._mass = np.array(self.parameter("admittance.mass", [5.0] * 3 + [0.5] * 3))
        self._stiffness = np.array(self.parameter("admittance.stiffness", [200.0] * 3 + [20.0] * 3))
        ratio = np.array(self.parameter("admittance.damping_ratio", [1.0] * 6))
        self._damping = 2.0 * ratio * np.sqrt(self._mass * self._stiffness)  # admittance_rule_impl.hpp:137-139
        self._joints = self.parameter("admittance.joint_damping", 5.0)
        self._coefficient = self.parameter("ft_sensor.filter_coefficient", 0.05)
        self.create_subscription(WrenchStamped, "~/wrench_reference", self._receive, SYSTEM_DEFAULTS)  # :339-341
        self._sensor = sensor_of(self, "/force_torque_sensor_broadcaster/wrench", "ft_frame")
        self._frame = self.get_parameter("sensor.frame_id").value
        self._R_TS = rotation_of(np.array(self.get_parameter("sensor.rotation").value))
        self._poses = self.create_publisher(PoseStamped, "/pose_broadcaster/pose", SYSTEM_DEFAULTS)
        self._reference, self._filtered = np.zeros(6), np.zeros(6)
        self._start = (self.body.p, self.body.R)

    def _receive(self, message: WrenchStamped) -> None:  # admittance_controller.cpp:342-356
        if message.header.frame_id not in ("", self._frame):
            self.refuse(f"wrench_reference: in {message.header.frame_id!r}")
            return
        self.counts["wrench_reference"] += 1  # its stamp is not looked at, and it holds until the next
        if holds_nan(message):
            self.counts["wrench_reference: NaN, taken as it is"] += 1
        self._reference = wrench_of(message)

    def control(self) -> None:
        """See Arm; admittance_rule_impl.hpp:144-306."""
        body = self.body
        if not (body.finite() and np.isfinite(self._filtered).all()):
            return  # NaN stays in the filter: the controller does not recover
        total = self._sensor.wrench() + self._reference  # admittance_controller.cpp:479
        R = body.R @ self._R_TS
        F = np.concatenate([R @ total[:3], R @ total[3:]])  # rotated alone: :322
        self._filtered = self._coefficient * F + (1.0 - self._coefficient) * self._filtered  # :331
        X = np.concatenate([body.p - self._start[0], vector_of(body.R @ self._start[1].T)])  # :252-264
        twist = np.concatenate([body.v, body.w])
        acceleration = (self._filtered - self._damping * twist - self._stiffness * X) / self._mass  # :279-281
        twist = twist + self.period * (acceleration - self._joints * twist)  # :287-294
        body.v, body.w = twist[:3], twist[3:]
        body.move(self.period)

    def publish(self) -> None:
        """See Arm."""
        stamp = self.get_clock().now().to_msg()
        self._poses.publish(pose_stamped(stamp, self._base, self.body.p, self.body.R))
        self._sensor.publish(stamp)


if __name__ == "__main__":
    run(AdmittanceController)
