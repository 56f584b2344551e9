"""A stand-in for the joint_trajectory_controller of ros2_controllers, with the broadcasters of joints and force.

Lines are those of `joint_trajectory_controller` at 94e74de: JTC is joint_trajectory_controller.cpp, T trajectory.cpp.
The arm is that of a URDF, whose places Pinocchio computes. It takes the controller's positions at once, as
ros2_control's mock hardware does; the controller has a command interface of positions, and state interfaces of
positions and velocities.

Not here: the action and ~/controller_state, of control_msgs; PID gains, velocities and efforts as commands; points with
accelerations, blending of trajectories with several points (a new one replaces the old), tolerances of the goal.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pinocchio as pin
from rclpy.time import Time
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from stand_ins.robots.program import SYSTEM_DEFAULTS, Arm, run, sensor_of

FLOAT_EPSILON = float(np.finfo(np.float32).eps)


class Point(NamedTuple):
    """Positions (n,) and, where they are given, velocities (n,) at a time [s] from the start of a trajectory."""

    time: float
    q: np.ndarray
    v: np.ndarray | None = None


class Trajectory:
    """Points in the order of the controller's joints; it starts at `start` [s], None: with the first sample."""

    def __init__(self, points: list[Point], start: float | None):
        self.points, self.start, self.sampled = points, start, False
        self.before = Point(0.0, np.zeros(0))

    def sample(self, time: float) -> tuple[Point, float, bool] | None:  # T:204-352
        """What is desired, when its segment began, and whether that is before the last point; None: nothing yet."""
        if not self.sampled:
            self.start, self.sampled = time if self.start is None else self.start, True
        assert self.start is not None
        if time < self.before.time:
            return None
        first = self.start + self.points[0].time
        if time < first:
            return _between(self.before, self.before.time, self.points[0], first, time), first, True
        for one, following in zip(self.points, self.points[1:], strict=False):
            t0, t1 = self.start + one.time, self.start + following.time
            if t0 <= time < t1:
                return _between(one, t0, following, t1, time), t0, True
        last = self.points[-1]
        return (
            Point(last.time, last.q, np.zeros(len(last.q)) if last.v is None else last.v),
            self.start + last.time,
            False,
        )


def _between(a: Point, t_a: float, b: Point, t_b: float, time: float) -> Point:  # T:354-459
    T, t = t_b - t_a, time - t_a
    if a.v is None or b.v is None or t > T:
        t, speed = min(t, T), (b.q - a.q) / T if T > 0.0 else np.zeros(len(a.q))
        return Point(b.time, a.q + t * speed, speed)
    c2 = (3.0 * (b.q - a.q) - (2.0 * a.v + b.v) * T) / (T * T)
    c3 = (2.0 * (a.q - b.q) + (a.v + b.v) * T) / (T * T * T)
    return Point(b.time, a.q + t * (a.v + t * (c2 + t * c3)), a.v + t * (2.0 * c2 + 3.0 * t * c3))


class JointTrajectoryController(Arm):
    """The controller; defaults are those of joint_trajectory_controller_parameters.yaml.

    `robot.description` is the path of a URDF, `robot.tool` a frame of it, `robot.home` where its joints are.
    """

    def __init__(self) -> None:
        super().__init__("joint_trajectory_controller")
        self._model = pin.buildModelFromUrdf(self.parameter("robot.description", "arm.urdf"))
        self._data = self._model.createData()
        self._tool = self._model.getFrameId(self.parameter("robot.tool", "tool0"))
        self._q = np.array(self.parameter("robot.home", [0.0] * self._model.nq), float)
        self._joints = list(self._model.names)[1:]
        self._partial = self.parameter("allow_partial_joints_goal", False)
        self._from_desired = self.parameter("interpolate_from_desired_state", False)
        self._ends_moving = self.parameter("allow_nonzero_velocity_at_trajectory_end", False)
        self._timeout = self.parameter("cmd_timeout", 0.0)
        self._tolerance = self.parameter("constraints.trajectory", 0.0)  # the same of all joints
        self._scaling = self.parameter("speed_scaling.initial_scaling_factor", 1.0)
        self.create_subscription(JointTrajectory, "~/joint_trajectory", self._receive, SYSTEM_DEFAULTS)  # JTC:1027-1029
        self._states = self.create_publisher(
            JointState, "/joint_states", SYSTEM_DEFAULTS
        )  # joint_state_broadcaster:154
        self._sensor = sensor_of(self, "/force_torque_sensor_broadcaster/wrench", "sensor_link")
        self._begun = self.get_clock().now()
        self._time = self._traveled = 0.0  # [s] since then: of the control, and along the trajectory
        self._v = np.zeros(self._model.nv)
        self._new: Trajectory | None = None
        self._last = Point(0.0, self._q.copy(), self._v)
        self._last_time: float | None = None
        self._place()
        self._trajectory = self._hold()  # JTC:1254

    def _place(self) -> None:
        pin.framesForwardKinematics(self._model, self._data, self._q)
        placement = self._data.oMf[self._tool]
        self.body.p, self.body.R = placement.translation.copy(), placement.rotation.copy()

    def _hold(self) -> Trajectory:  # JTC:2134-2144
        self._holding = True
        return Trajectory([Point(0.0, self._q.copy())], None)

    def _receive(self, message: JointTrajectory) -> None:  # JTC:1479-1495
        if reason := self._problem(message):
            self.refuse(f"joint_trajectory: {reason}")
            return
        if not self.active:
            self.refuse("joint_trajectory: inactive")
            return
        self.counts["joint_trajectory"] += 1
        if not all(map(math.isfinite, (q for point in message.points for q in point.positions))):
            self.counts["joint_trajectory: NaN, taken as it is"] += 1
        places = {name: i for i, name in enumerate(message.joint_names)}
        points = []
        for point in message.points:  # JTC:1625-1704: joints that are not named stay at their command; JTC:1898-1945
            q = [
                point.positions[places[name]] if name in places else self._last.q[i]
                for i, name in enumerate(self._joints)
            ]
            v = [point.velocities[places[name]] if name in places else 0.0 for name in self._joints if point.velocities]
            points.append(Point(_seconds(point.time_from_start), np.array(q), np.array(v) if v else None))
        stamp = Time.from_msg(message.header.stamp, self._begun.clock_type)
        start = None if stamp.nanoseconds == 0 else 1e-9 * (stamp - self._begun).nanoseconds  # T:223-226
        self._new, self._holding = Trajectory(points, start), False

    def _problem(self, message: JointTrajectory) -> str:  # JTC:1966-2111
        names = message.joint_names
        if not self._partial and len(names) != len(self._joints):
            return "joints don't match the controller joints"
        if not names:
            return "empty joint names"
        if not message.points:
            return "empty trajectory"
        if unknown := [name for name in names if name not in self._joints]:
            return f"joint {unknown[0]} doesn't match"
        last = message.points[-1]
        if not self._ends_moving and any(abs(v) > FLOAT_EPSILON for v in last.velocities):
            return "velocity of last point is not zero"
        stamp = Time.from_msg(message.header.stamp)
        if stamp.nanoseconds and 1e-9 * stamp.nanoseconds + _seconds(last.time_from_start) < self._clock_time():
            return "ends in the past"
        before = 0.0
        for i, point in enumerate(message.points):
            time = _seconds(point.time_from_start)
            if i and time <= before:
                return "time is not strictly increasing"
            before = time
            for what, values, empty in (
                ("positions", point.positions, False),
                ("velocities", point.velocities, True),
                ("accelerations", point.accelerations, True),
            ):
                if len(values) != len(names) and not (empty and not len(values)):
                    return f"mismatch between joint_names and {what}"
            if point.effort:
                return "effort"
        return ""

    def _clock_time(self) -> float:
        return 1e-9 * float(self.get_clock().now().nanoseconds)

    def control(self) -> None:
        """See Arm; JTC:230-607."""
        self._time += self.period
        time, new = self._time, self._new
        if new is not None:  # JTC:278-299
            self._trajectory, self._new = new, None
        of = self._trajectory
        current = Point(0.0, self._q.copy(), self._v)
        if first := not of.sampled:  # JTC:312-333
            if self._from_desired:
                at = time if self._last_time is None else self._last_time
                of.before = self._last._replace(time=at)
            else:
                of.before = current._replace(time=time)
            self._traveled = time
        else:
            self._traveled += self.period * self._scaling
        desired = of.sample(self._traveled)
        found = of.sample(self._traveled + self.period)  # JTC:347-349: the setpoint of the next cycle
        if found is None:
            return
        point, begun, before_last = found
        if not before_last and not self._holding and 0.0 < self._timeout < self._traveled - begun:  # JTC:370-387
            self.refuse("aborted due to command timeout")
            self._new = self._hold()
        checked = desired is not None and (before_last or first) and not self._holding and self._tolerance > 0.0
        if checked and np.max(np.abs(desired[0].q - current.q)) > self._tolerance:  # type: ignore[index]
            self.refuse("holding position due to state tolerance violation")  # JTC:568-583
            self._new = self._hold()
            return
        self._v = (point.q - self._q) / self.period
        self._q = point.q.copy()
        self._last, self._last_time = point, time
        self._place()

    def publish(self) -> None:
        """See Arm; joints in an order of their own, beside another, without efforts (joint_state_broadcaster:310)."""
        message = JointState()
        message.header.stamp, message.header.frame_id = self.get_clock().now().to_msg(), "base_link"
        message.name = ["gripper", *reversed(self._joints)]
        message.position, message.velocity = [0.02, *self._q[::-1].tolist()], [0.0, *self._v[::-1].tolist()]
        message.effort = [math.nan] * len(message.name)
        self._states.publish(message)
        self._sensor.publish(message.header.stamp)


def _seconds(duration: object) -> float:
    return float(duration.sec + 1e-9 * duration.nanosec)  # type: ignore[attr-defined]


if __name__ == "__main__":
    run(JointTrajectoryController)
