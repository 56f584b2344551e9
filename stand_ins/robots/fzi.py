"""A stand-in for FZI's cartesian_compliance_controller.

Lines are those of `cartesian_controllers` at f53f798. Behind it is what the controller has: a body of 1 kg and 1 kg m^2
that forward dynamics move (ForwardDynamicsSolver.cpp:174-177), here without joints, whose pose the robot takes at once.
"""

from __future__ import annotations

import math

import numpy as np
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped

from stand_ins.robots.body import rotation_of, vector_of
from stand_ins.robots.program import (
    Arm,
    holds_nan,
    pose_of,
    pose_stamped,
    run,
    sensor_of,
    twist_stamped,
    wrench_of,
)

INTERNAL_PERIOD = 0.02  # [s] cartesian_compliance_controller.cpp:144, whatever the cycle of control
DAMPING = 0.9  # ForwardDynamicsSolver.cpp:95
LARGEST_ERROR = 1.0  # [m, rad] cartesian_motion_controller.cpp:152-155


class ComplianceController(Arm):
    """The controller, and the driver of a force sensor that publishes on its topic.

    Gains are those of the README's example; `hand_frame_control` is true as in cartesian_force_controller.cpp:64.
    """

    def __init__(self) -> None:
        super().__init__("cartesian_compliance_controller")
        name = self.get_name()
        self._base = self.parameter("robot_base_link", "base_link")
        self._tool = self.parameter("end_effector_link", "tool0")
        self._hand_frame = self.parameter("hand_frame_control", True)
        self._stiffness = np.array(self.parameter("stiffness", [500.0] * 3 + [20.0] * 3))
        self._p = np.array(self.parameter("pd_gains.p", [0.05] * 3 + [1.5] * 3))
        self._d = np.array(self.parameter("pd_gains.d", [0.005] * 3 + [0.0] * 3))
        self._scale = self.parameter("solver.error_scale", 0.5)
        # off by default: cartesian_controller_base.cpp:102; without it there is neither pose nor twist (:341)
        self._feedback = self.parameter("solver.publish_state_feedback", False)
        # reliable and volatile, depths 3, 10 and 10: cartesian_motion_controller.cpp:75-77,
        # cartesian_force_controller.cpp:92-99; names are relative to the namespace, after the controller's
        self.create_subscription(PoseStamped, f"{name}/target_frame", self._receive_frame, 3)
        self.create_subscription(WrenchStamped, f"{name}/target_wrench", self._receive_wrench, 10)
        self.create_subscription(WrenchStamped, f"{name}/ft_sensor_wrench", self._receive_sensor, 10)
        self._poses = self.create_publisher(PoseStamped, f"{name}/current_pose", 3)  # cartesian_controller_base.cpp:244
        self._twists = self.create_publisher(TwistStamped, f"{name}/current_twist", 3)  # :249
        # the sensor is not the controller's: its driver publishes there
        self._sensor = sensor_of(self, f"{name}/ft_sensor_wrench", "sensor_link", 10)
        self._R_TS = rotation_of(np.array(self.get_parameter("sensor.rotation").value))
        self._target = (self.body.p, self.body.R)  # "start where we are": cartesian_motion_controller.cpp:90-91
        self._target_wrench, self._felt, self._last = np.zeros(6), np.zeros(6), np.zeros(6)

    def _receive_frame(self, message: PoseStamped) -> None:  # cartesian_motion_controller.cpp:173-205
        if not self.active:
            self.refuse("target_frame: inactive")
        elif holds_nan(message):
            self.refuse("target_frame: NaN")
        elif message.header.frame_id != self._base:  # exactly; the stamp is not looked at
            self.refuse(f"target_frame: in {message.header.frame_id!r}")
        else:
            self.counts["target_frame"] += 1
            self._target = pose_of(message)

    def _receive_wrench(self, message: WrenchStamped) -> None:  # cartesian_force_controller.cpp:181-205
        if not self.active:
            self.refuse("target_wrench: inactive")
        elif holds_nan(message):
            self.refuse("target_wrench: NaN")
        else:  # neither frame nor stamp is looked at, and it holds until the next
            self.counts["target_wrench"] += 1
            if message.header.frame_id not in ("", self._tool if self._hand_frame else self._base):
                self.counts[f"target_wrench: says {message.header.frame_id!r}, taken as it is"] += 1
            self._target_wrench = wrench_of(message)

    def _receive_sensor(self, message: WrenchStamped) -> None:  # cartesian_force_controller.cpp:207-242
        if self.active and not holds_nan(message):
            wrench = wrench_of(message)
            p_TS = np.array(self.get_parameter("sensor.position").value)
            force = self._R_TS @ wrench[:3]  # moved to the compliance link, here the tool (:173-178, :234)
            self._felt = np.concatenate([force, self._R_TS @ wrench[3:] + np.cross(p_TS, force)])

    def _in_base(self, wrench: np.ndarray) -> np.ndarray:  # rotates only: cartesian_controller_base.cpp:400-424
        return np.concatenate([self.body.R @ wrench[:3], self.body.R @ wrench[3:]])

    def control(self) -> None:
        """See Arm; cartesian_compliance_controller.cpp:132-180."""
        p_goal, R_goal = self._target
        way, turn = p_goal - self.body.p, vector_of(R_goal @ self.body.R.T)
        error = np.concatenate([_clamp(way), _clamp(turn)])
        R = np.zeros((6, 6))
        R[:3, :3] = R[3:, 3:] = self.body.R
        target = self._in_base(self._target_wrench) if self._hand_frame else self._target_wrench
        net = R @ np.diag(self._stiffness) @ R.T @ error + self._in_base(self._felt) + target
        command = self._scale * (self._p * net + self._d * (net - self._last) / INTERNAL_PERIOD)  # PDController.cpp:79
        self._last = net
        v, w = self.body.v, self.body.w
        # positions with the velocities of before, then velocities (ForwardDynamicsSolver.cpp:92-95)
        self.body.move(INTERNAL_PERIOD)
        self.body.v = DAMPING * (v + INTERNAL_PERIOD * command[:3])
        self.body.w = DAMPING * (w + INTERNAL_PERIOD * command[3:])

    def publish(self) -> None:
        """See Arm; cartesian_controller_base.cpp:473-508."""
        stamp = self.get_clock().now().to_msg()
        self._sensor.publish(stamp)
        if self._feedback and self.active:
            self._poses.publish(pose_stamped(stamp, self._base, self.body.p, self.body.R))
            # of the model in its own time, as the controller has it: INTERNAL_PERIOD a cycle
            self._twists.publish(twist_stamped(stamp, self._base, self.body.v, self.body.w))


def _clamp(vector: np.ndarray) -> np.ndarray:
    length = math.sqrt(float(vector @ vector))
    return vector if length <= LARGEST_ERROR else vector * (LARGEST_ERROR / length)


if __name__ == "__main__":
    run(ComplianceController)
