"""A stand-in for an arm with CRTK's names: one of the dVRK, or one whose driver has a plain measured_cf.

Lines of mtsIntuitiveResearchKitArm.cpp are those of sawIntuitiveResearchKit at ab54da2, there by function; those of the
bridge to ROS of cisst-ros at 73aca61; CRTK's pages are those of its documentation at df103a4. crtk_msgs, with the
states of an arm, is in no package here: the parameters `enabled` and `homed` stand for operating_state.
"""

from __future__ import annotations

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped

from stand_ins.robots.body import vector_of
from stand_ins.robots.program import (
    Arm,
    holds_nan,
    pose_of,
    pose_stamped,
    run,
    twist_stamped,
    wrench_of,
    wrench_stamped,
)

MASS, INERTIA = 1.0, 0.02  # [kg, kg m^2]
POSITION, EFFORT = "position", "effort"


class DvrkArm(Arm):
    """An arm of the dVRK in its namespace, e.g. PSM1.

    measured_cp, measured_cv and servo_cp are in the frame of `set_base_frame`, and the spatial wrench in that of the
    kinematic chain: here the two are the same.
    """

    def __init__(self) -> None:
        super().__init__("dvrk")
        arm = self.parameter("arm", "PSM1")
        self._base, self._tool = f"{arm}_base", arm  # Init(): SetReferenceFrame(GetName() + "_base")
        self._enabled, self._homed = self.parameter("enabled", True), self.parameter("homed", True)
        # the PID's measured_setpoint_tolerance, of joints; past it the arm's state is FAULT (ErrorEventHandler)
        self._tolerance = self.parameter("measured_setpoint_tolerance", 0.05)
        self._plain = self.parameter("plain_measured_cf", "")  # "" none, "environment" or "arm": whose wrench it is
        # subscriptions of depth 1 (mtsROSBridge.h:300-304), publishers of depth 5 (:85), all reliable
        self.create_subscription(PoseStamped, f"/{arm}/servo_cp", self._servo_cp, 1)
        for kind in ("body", "spatial"):
            handler = {"body": self._body_servo_cf, "spatial": self._spatial_servo_cf}[kind]
            self.create_subscription(WrenchStamped, f"/{arm}/{kind}/servo_cf", handler, 1)
        self._cp = self.create_publisher(PoseStamped, f"/{arm}/measured_cp", 5)
        self._setpoint = self.create_publisher(PoseStamped, f"/{arm}/setpoint_cp", 5)
        self._cv = self.create_publisher(TwistStamped, f"/{arm}/measured_cv", 5)
        self._body_cf = self.create_publisher(WrenchStamped, f"/{arm}/body/measured_cf", 5)
        self._spatial_cf = self.create_publisher(WrenchStamped, f"/{arm}/spatial/measured_cf", 5)
        self._plain_cf = self.create_publisher(WrenchStamped, f"/{arm}/measured_cf", 5) if self._plain else None
        self._mode, self._goal = "", (self.body.p, self.body.R)
        self._effort, self._motors = np.zeros(6), np.zeros(6)

    def _ready(self, command: str) -> bool:  # ArmIsReady(): enabled, and homed for Cartesian commands
        if self._enabled and self._homed:
            return True
        self.refuse(f"{command}: arm not ready")
        return False

    def _set_mode(self, mode: str) -> None:  # SetControlSpaceAndMode(): the last command decides
        if mode != self._mode:
            self.counts[f"mode {mode}"] += 1
            self._mode = mode

    def _servo_cp(self, message: PoseStamped) -> None:  # servo_cp(), control_servo_cp()
        if not self._ready("servo_cp"):
            return
        self.counts["servo_cp"] += 1
        if message.header.frame_id not in ("", self._base):  # kept, and looked at nowhere (mtsROSToCISST.h:149)
            self.counts[f"servo_cp: says {message.header.frame_id!r}, taken as it is"] += 1
        self._set_mode(POSITION)
        p, R = pose_of(message)  # normalised: mtsROSToCISST.h:239
        jump = float(np.linalg.norm(p - self.body.p))
        if holds_nan(message) or not jump <= self._tolerance:
            self.refuse("servo_cp: FAULT, too far from where it is")
            self._enabled = False  # powers off
            return
        self._goal = p, R

    def _body_servo_cf(self, message: WrenchStamped) -> None:  # body_servo_cf()
        if self._ready("servo_cf"):
            self.counts["body/servo_cf"] += 1
            self._set_mode(EFFORT)
            wrench = wrench_of(message)
            self._effort = np.concatenate([self.body.R @ wrench[:3], self.body.R @ wrench[3:]])

    def _spatial_servo_cf(self, message: WrenchStamped) -> None:  # spatial_servo_cf(): about the base's origin
        if self._ready("servo_cf"):
            self.counts["spatial/servo_cf"] += 1
            self._set_mode(EFFORT)
            wrench = wrench_of(message)
            self._effort = np.concatenate([wrench[:3], wrench[3:] - np.cross(self.body.p, wrench[:3])])

    def control(self) -> None:
        """See Arm: the motors give what the controller of positions asks, or the commanded wrench."""
        body = self.body
        if not (self._enabled and self._homed) or not self._mode:
            body.v, body.w = np.zeros(3), np.zeros(3)  # brakes, or the position of before
            self._motors = np.concatenate([-self.f, np.zeros(3)])
            return
        if self._mode == POSITION:
            p, R = self._goal
            force = 4000.0 * (p - body.p) - 120.0 * body.v
            torque = 80.0 * vector_of(R @ body.R.T) - 2.0 * body.w
        else:
            force, torque = self._effort[:3] - 5.0 * body.v, self._effort[3:] - 0.5 * body.w
        self._motors = np.concatenate([force, torque])
        body.v = body.v + self.period / MASS * (force + self.f)
        body.w = body.w + self.period / INERTIA * torque
        body.move(self.period)

    def publish(self) -> None:
        """See Arm; get_robot_data()."""
        valid = self._homed
        # what is not known has stamp 0, and is published (mtsCISSTToROS.h:131-134; CRTK, motion, "Other notes")
        stamp = self.get_clock().now().to_msg() if valid else Time()
        body = self.body
        unknown = np.zeros(3), np.eye(3)
        self._cp.publish(pose_stamped(stamp, self._base, *((body.p, body.R) if valid else unknown)))
        self._setpoint.publish(pose_stamped(stamp, self._base, *(self._goal if valid else unknown)))
        self._cv.publish(twist_stamped(stamp, self._base, body.v, body.w))  # of the tool's origin, in the base
        # J^T^+ of the efforts of the motors: what the arm exerts on its environment. The frame has no name.
        force, torque = self._motors[:3], self._motors[3:]
        self._body_cf.publish(wrench_stamped(stamp, "", np.concatenate([body.R.T @ force, body.R.T @ torque])))
        spatial = np.concatenate([force, torque + np.cross(body.p, force)])
        self._spatial_cf.publish(wrench_stamped(stamp, "", spatial))
        if self._plain_cf is not None:
            # of a Universal Robot: TCP_force, what acts on the tool, in the base (mtsUniversalRobotScriptRT.cpp:711)
            wrench = np.concatenate([self.f, np.zeros(3)]) if self._plain == "environment" else self._motors
            self._plain_cf.publish(wrench_stamped(stamp, "", wrench))


if __name__ == "__main__":
    run(DvrkArm)
