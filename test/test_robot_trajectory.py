"""The adapter of arms that follow joints: what is sent, when the arm follows, and what cannot be used."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from geometry_msgs.msg import PoseStamped
from rclpy.serialization import deserialize_message
from test_robot_ages import FORCE, Clocked, T
from test_robot_bad_input import Warned
from test_robot_engine import run, side
from test_robot_topics import ros
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from haptic_bench.experiment import load
from haptic_robot.adapters import ArmState, JointSample, Quantity
from haptic_robot.following import Following
from haptic_robot.joint_trajectory import JointTrajectoryParameters
from haptic_robot.models import ARMS, READY, serial_arm
from haptic_robot.nodes.link import RobotLink
from haptic_robot.nodes.topics import RELIABLE, Layout, trajectory_values
from haptic_robot.simulated import SimulatedArm, SimulatedArmParameters
from haptic_sim.messages import ABSENT, HELD, RELEASED, MessageError
from haptic_sim.parameters import ParameterError

__all__ = ["ros"]
NAMES = tuple(f"joint_{i}" for i in range(1, 7))
HOME = np.array(READY["six_axes"])
ARM = serial_arm(ARMS["six_axes"])
DATA = ARM.model.createData()
TOPIC = "joint_trajectory_controller/joint_trajectory"


def place(q: np.ndarray) -> pin.SE3:
    """Pose of the tool, by Pinocchio."""
    pin.forwardKinematics(ARM.model, DATA, q)
    return pin.updateFramePlacement(ARM.model, DATA, ARM.tool).copy()


class Arm(Clocked):
    """A side whose arm takes its joints at once, with a clock of the test."""

    def __init__(self, adapter: dict[str, Any] | None = None, **engine: Any):
        super().__init__(**{"adapter": {"type": "joint_trajectory"} | (adapter or {})} | engine)
        self.q, self.force, self.held = HOME.copy(), FORCE.copy(), False

    def say(self) -> None:
        """See Clocked."""
        self.side.receive("joint_states", "", np.concatenate([[self.now], self.q, np.full(12, np.nan)]), self.looked)
        self.side.receive("force_torque_sensor_broadcaster/wrench", "sensor_link", self.force, self.looked)

    def take(self, sent: Any) -> None:
        """See Clocked."""
        assert (sent.topic, sent.values[0]) == (TOPIC, 0.002)
        self.sent.append(sent.values[1:].copy())
        if not self.held:
            self.q[:] = self.sent[-1]

    def ticks(self, count: int) -> Following:
        for _ in range(count):
            self.tick()
        return self.side.following


def test_a_trajectory_is_one_point_of_positions_that_begins_when_it_comes() -> None:
    adapter = JointTrajectoryParameters(controller="scaled_joint_trajectory_controller", time_from_start=0.25).build()
    (sent,) = adapter.command(pin.SE3ToXYZQUAT(place(HOME)), np.zeros(6), np.zeros(6), np.zeros(7))
    assert sent.topic == "scaled_joint_trajectory_controller/joint_trajectory"
    message = deserialize_message(bytes(Layout(sent, NAMES).fill(10**18, sent.values)), JointTrajectory)
    assert (message.header.stamp.sec, message.header.stamp.nanosec) == (0, 0)
    assert tuple(message.joint_names) == NAMES
    (point,) = message.points
    assert (point.time_from_start.sec, point.time_from_start.nanosec) == (0, 250_000_000)
    np.testing.assert_allclose(point.positions, HOME, atol=1e-9)
    assert not point.velocities and not point.accelerations and not point.effort


def test_trajectories_of_others_may_have_any_order_and_nothing_else() -> None:
    def made(names: tuple[str, ...] = NAMES[::-1], points: int = 1, **fields: Any) -> np.ndarray:
        point = JointTrajectoryPoint(**{"positions": [0.1 * int(name[-1]) for name in names]} | fields)
        return trajectory_values(JointTrajectory(joint_names=list(names), points=[point] * points), NAMES)

    np.testing.assert_allclose(made(), [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    adapter = JointTrajectoryParameters().build()
    for values in (made(NAMES[1:]), made((*NAMES, "joint_9")), made(points=2), made(velocities=[0.0] * 6)):
        with pytest.raises(MessageError, match=f"{TOPIC}: not finite: needs position of joint_1"):
            adapter.checked(TOPIC, "any", values)
    with pytest.raises(MessageError, match=r"joint_2 at 57\.3 rad or m: must be from -2\.8 to 2\.8"):
        adapter.checked(TOPIC, "", np.array([0.002, 0.0, 57.3, 0.0, 0.0, 0.0, 0.0]))


def test_the_pose_needs_positions_alone_and_the_observer_the_rest() -> None:
    values = np.concatenate([[1.0], HOME, np.full(12, np.nan)])
    adapter, state = JointTrajectoryParameters().build(), ArmState()
    assert adapter.take("joint_states", "", values, state) == (Quantity.POSE,)
    np.testing.assert_allclose(state.pose[:3], place(HOME).translation, atol=1e-14)
    adapter = JointTrajectoryParameters(wrench="observer").build()
    assert [one.name for one in adapter.feedback] == ["joint_states"]
    with pytest.raises(MessageError, match="needs position, velocity and effort of joint_1, joint_2"):
        adapter.take("joint_states", "", values, state)
    whole = JointSample(1.0, np.array([HOME, np.zeros(6), pin.rnea(ARM.model, DATA, HOME, np.zeros(6), np.zeros(6))]))
    for time in (1.0, 1.001, 1.5):
        (said,) = adapter.report(state.pose, np.zeros(6), np.zeros(6), whole._replace(time=time))
        assert adapter.take("joint_states", "", said.values, state) == (Quantity.POSE, Quantity.WRENCH)
        np.testing.assert_allclose(state.wrench, 0.0, atol=1e-9)  # the motors hold gravity, and nothing else acts


@pytest.mark.parametrize("model", ARMS)
def test_a_simulated_arm_of_six_or_seven_joints_goes_where_the_hand_goes(model: str) -> None:
    adapter = {"type": "joint_trajectory", "observer": {"model": model}, "joint_speed": 2.0}
    built, state, command = side(adapter=adapter, arm={"model": model}, damping=[20.0, 0.1])
    begun, start = state.pose[:3].copy(), built._arm.arm.pose[:3].copy()
    command.wrench[:3] = 2.0, -1.0, 0.5
    run(built, state, command, 300)
    command.wrench[:] = 0.0
    run(built, state, command, 600)
    assert built.following == Following.FOLLOWING and built.refused == built._arm.refused == 0 and not built.limited
    moved = built._R_WB @ (built._arm.arm.pose[:3] - start)
    assert np.linalg.norm(moved) > 0.01
    np.testing.assert_allclose(moved, state.pose[:3] - begun, atol=2e-5)


def test_the_first_command_is_where_the_arm_is_and_nothing_is_sent_before() -> None:
    arm = Arm()
    arm.says = False
    assert arm.ticks(5) == Following.WAITING and not arm.sent
    arm.says = True
    arm.q[:] = HOME + 0.1
    assert arm.tick() == Following.FOLLOWING
    np.testing.assert_allclose(arm.sent[0], HOME + 0.1, atol=1e-6)


def test_after_another_master_the_first_command_is_where_that_has_left_the_joints() -> None:
    """An elbow may have another posture while the tool is in its place: what was commanded before is forgotten."""
    arm = Arm()
    arm.command.wrench[:3] = 1.0, 0.5, -0.5
    arm.ticks(50)
    arm.side.permitted, count = False, len(arm.sent)
    assert arm.tick() == Following.WAITING and len(arm.sent) == count
    arm.q[:] = HOME + np.array([0.3, -0.2, 0.1, 0.4, -0.1, 0.2])
    arm.ticks(3)
    arm.side.permitted = True
    assert arm.tick() == Following.FOLLOWING
    np.testing.assert_allclose(arm.sent[count], HOME + np.array([0.3, -0.2, 0.1, 0.4, -0.1, 0.2]), atol=1e-4)


@pytest.mark.parametrize("state", [Following.ABSENT, Following.RELEASED, Following.STALE])
def test_joints_stay_when_the_hand_or_the_arm_is_not_there(state: Following) -> None:
    arm = Arm(damping=[0.0, 0.0])
    arm.side._led.twist[0] = 0.1
    arm.ticks(100)
    if state is Following.STALE:
        arm.says = False
        arm.ticks(51)
    else:
        arm.command.hand = {Following.ABSENT: ABSENT, Following.RELEASED: RELEASED}[state]
    arm.tick()
    assert arm.side.following == state and not arm.state.wrench.any()
    count = len(arm.sent)
    if state is Following.STALE:
        arm.ticks(50)
    else:
        for _ in range(50):
            arm.tick()
            assert not arm.state.wrench.any()
    assert len(arm.sent) == count + 50
    np.testing.assert_allclose(np.array(arm.sent[count:]), np.tile(arm.sent[count - 1], (50, 1)), atol=1e-9)
    if state is not Following.STALE:
        arm.command.hand = HELD
        arm.tick()
        np.testing.assert_allclose(arm.sent[-1], arm.sent[-2], atol=0.1 * T / 0.1)


def test_the_tool_stays_in_its_box_and_below_its_speed_and_joints_below_theirs() -> None:
    upper = place(HOME).translation + np.array([0.02, 1.0, 1.0])
    arm = Arm(following={"upper": upper.tolist(), "speed": [0.1, 1.0]}, adapter={"joint_speed": 0.3})
    arm.command.wrench[:3] = 20.0, 3.0, 1.0
    before = HOME
    for _ in range(600):
        arm.tick()
        q = arm.sent[-1]
        assert np.abs(q - before).max() <= 0.3 * T * (1.0 + 1e-12)
        step = np.linalg.norm(place(q).translation - place(before).translation)
        assert step <= 0.1 * T * 1.01
        assert place(q).translation[0] <= upper[0] + 1e-9
        before = q.copy()
    assert place(before).translation[0] > upper[0] - 0.003


def test_ticks_that_are_made_up_for_do_not_move_the_joints_by_more_than_the_time_allows() -> None:
    """200 ticks within 2 ms, of joints that have fallen behind their tool."""
    arm = Arm(damping=[0.0, 0.0], adapter={"joint_speed": 0.05})
    arm.side._led.twist[0] = 0.2
    arm.ticks(100)
    assert "a joint would be faster" in arm.side.limited
    last = arm.state.tick + 200
    arm.command.stamp(last, 0)
    arm.tick(0.2, commanded=False)
    first = arm.sent[-1]
    while arm.state.tick < last:
        arm.tick(1e-5, commanded=False)
    assert np.abs(np.array(arm.sent[-199:]) - first).max() <= 0.05 * 2.0e-3 * (1.0 + 1e-9)


def test_an_arm_that_is_moved_by_somebody_else_is_followed_and_the_hand_feels_nothing() -> None:
    arm = Arm()
    arm.ticks(300)
    assert np.linalg.norm(arm.state.wrench[:3]) == pytest.approx(4.0)
    arm.held, shift = True, np.array([0.3, 0.0, 0.0, 0.0, 0.0, 0.0])
    arm.q[:] = arm.q + shift
    assert arm.tick() == Following.DISPLACED and not arm.state.wrench.any()
    arm.command.hand = RELEASED
    for _ in range(2000):
        arm.tick()
        assert np.abs(arm.sent[-1] - arm.sent[-2]).max() <= 1.0 * T * (1.0 + 1e-12)
    assert arm.side.following == Following.RELEASED
    np.testing.assert_allclose(arm.sent[-1], arm.q, atol=1e-4)


def test_a_hand_beyond_the_reach_of_the_arm_is_followed_as_far_as_that_goes_which_is_said() -> None:
    """And the arm comes back with the hand, at no more than its speed."""
    arm = Arm(adapter={"joint_speed": 5.0}, damping=[0.0, 0.0])
    arm.force[:], begun = 0.0, arm.state.pose[:3].copy()
    last = place(HOME).translation
    for speed in (1.0, -1.0):
        arm.side._led.twist[0] = speed
        for _ in range(1000):
            arm.tick()
            now = place(arm.sent[-1]).translation
            assert np.linalg.norm(now - last) <= 2.0 * 0.25 * T
            last = now
        assert arm.side.following == Following.FOLLOWING
        if speed > 0.0:
            assert "nearly singular" in arm.side.limited and np.linalg.norm(last) < 1.3 < np.linalg.norm(
                arm.state.pose[:3] - begun + place(HOME).translation
            )
    arm.side._led.twist[0] = 0.0
    arm.ticks(4000)
    assert not arm.side.limited
    np.testing.assert_allclose(
        place(arm.sent[-1]).translation - place(HOME).translation, arm.state.pose[:3] - begun, atol=1e-5
    )


@pytest.mark.graph
def test_a_second_master_and_what_limits_the_joints_are_named(ros: SimpleNamespace) -> None:
    led, _, _ = side(type="ros_robot", adapter="joint_trajectory")
    node, other, logger = ros.node("environment"), ros.node("other", elsewhere=True), Warned()
    node.get_logger = lambda: logger
    link = RobotLink(node, led)
    for timer in link._timers:
        timer.cancel()
    other.create_publisher(JointTrajectory, f"/{TOPIC}", RELIABLE)
    other.create_publisher(PoseStamped, "/joint_states", RELIABLE)
    ros.until(lambda: link._topics.contested() == [TOPIC])
    ros.until(lambda: any("must be sensor_msgs/msg/JointState" in one for one in link._topics.lacking()))
    far = np.array([9.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    led.adapter.command(far, np.zeros(6), np.zeros(6), far)
    link._report()
    assert any("another publisher commands the arm, too; nothing is sent" in one for one in logger.lines)
    assert any("from the commanded pose: a joint would be faster" in one for one in logger.lines)
    link.close()


def test_an_adapter_of_other_joints_than_the_arm_is_named() -> None:
    with pytest.raises(
        ParameterError, match=r"engine\.adapter\.observer: joints joint_1, .*joint_7: the simulated arm has"
    ):
        load("robot_wall", ["environment.engine.adapter={type: joint_trajectory, observer: {model: seven_axes}}"])
    with pytest.raises(ParameterError, match=r"arm\.file\.path"):
        JointTrajectoryParameters(observer={"file": {"path": "nothing.urdf"}}).build()
    seven = JointTrajectoryParameters(observer={"model": "seven_axes"})
    with pytest.raises(ParameterError, match="give both the same model"):
        SimulatedArm(SimulatedArmParameters(), seven, 1000.0)
