"""An arm on topics of ROS: messages of geometry_msgs, the link of the engine, and a simulated arm at its other end."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import rclpy
from conftest import DEADLINE, sampled
from geometry_msgs.msg import PoseStamped, TwistStamped
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.serialization import deserialize_message, serialize_message
from test_robot_engine import RATE, side

from haptic_bench.experiment import load
from haptic_robot.adapters import ADAPTERS, Place, Quantity, Sent, Topic
from haptic_robot.following import Following
from haptic_robot.nodes.link import RobotLink
from haptic_robot.nodes.topics import RELIABLE, TYPES, Layout, Reader, Topics, message_of, values_of
from haptic_robot.simulated import SimulatedArm, SimulatedArmParameters
from haptic_ros.trial import ServoError
from haptic_sim.parameters import ParameterError

pytestmark = pytest.mark.graph


@pytest.fixture
def ros() -> Iterator[SimpleNamespace]:
    """A context of its own with an executor; `node(name)` makes a node in it, `until(condition)` serves them."""
    context = rclpy.Context()
    rclpy.init(context=context)
    remote = rclpy.Context()  # as of another process: in one, a topic has one type
    rclpy.init(context=remote)
    executor, nodes = SingleThreadedExecutor(context=context), []

    def node(name: str, elsewhere: bool = False) -> Node:
        nodes.append(made := Node(name, context=remote if elsewhere else context))
        if elsewhere:
            return made
        made.realtime = True
        executor.add_node(made)
        return made

    def until(condition: Callable[[], Any]) -> None:
        end = time.monotonic() + DEADLINE
        while not condition():
            executor.spin_once(timeout_sec=0.05)
            assert time.monotonic() < end, "nothing has come"

    yield SimpleNamespace(node=node, until=until)
    executor.shutdown()
    for one in nodes:
        one.destroy_node()
    rclpy.try_shutdown(context=context)
    rclpy.try_shutdown(context=remote)


def test_values_are_those_of_the_message() -> None:
    stamp = message_of(Sent("a", Quantity.POSE, "", np.zeros(7)), PoseStamped().header.stamp).header.stamp
    for kind, count in ((Quantity.POSE, 7), (Quantity.TWIST, 6), (Quantity.WRENCH, 6)):
        values = np.arange(1.0, 1.0 + count)
        message = message_of(Sent("a", kind, "base", values), stamp)
        assert type(message).__name__ == kind.value and message.header.frame_id == "base"
        np.testing.assert_array_equal(values_of(kind, message), values)
    pose = message_of(Sent("a", Quantity.POSE, "", np.arange(7.0)), stamp).pose
    assert (pose.position.x, pose.orientation.x, pose.orientation.w) == (0.0, 3.0, 6.0)
    wrench = message_of(Sent("a", Quantity.WRENCH, "", np.arange(6.0)), stamp).wrench
    assert (wrench.force.z, wrench.torque.x) == (2.0, 3.0)


def heard(led: Any) -> list[str]:
    """The topics of the messages that a side receives from now on."""
    came: list[str] = []
    receive = led.receive
    led.receive = lambda topic, *rest: came.append(topic) or receive(topic, *rest)
    return came


def kind(topic: str) -> str:
    """Whether a topic has a pose or a wrench."""
    return "pose" if topic.endswith(("pose", "cp", "joint_states")) else "wrench"


@pytest.mark.parametrize("adapter", sampled(["fzi", "crtk", "crisp", "moveit_servo", "joint_trajectory"], "fzi"))
def test_an_arm_on_topics_is_led_as_one_in_this_process_and_stays_when_ticks_end(
    ros: SimpleNamespace, adapter: str
) -> None:
    """Tick by tick, each when the messages of the one before have come: the same poses, to rounding."""
    parameters = ADAPTERS.find(adapter)(namespace=adapter)
    engine = {"damping": [20.0, 0.1], "orientation": [0.3, -0.2, 0.5]}
    led, state, command = side(type="ros_robot", adapter={"type": adapter, "namespace": adapter}, **engine)
    alone, expected, other = side(adapter={"type": adapter, "namespace": adapter}, **engine)
    arm, topics = SimulatedArm(SimulatedArmParameters(), parameters, RATE), parameters.build()
    opened = Topics(ros.node("arm"), topics, topics.feedback, topics.commands)
    link = RobotLink(ros.node("environment"), led)
    led.clock = None  # a stalled machine makes nothing old here
    came, inbox = heard(led), []
    ros.until(lambda: not link._topics.lacking() and not opened.lacking())
    link._report()
    for timer in link._timers:
        timer.cancel()  # a stalled machine is no missing tick here
    for tick in range(40):
        for one in arm.report():
            opened.send(one)
        ros.until(lambda: link._listen() or {"pose", "wrench"} <= {kind(one) for one in came})
        came.clear()
        for built, of, asked in ((led, state, command), (alone, expected, other)):
            asked.stamp(tick, 0)
            asked.wrench[:3] = 2.0, -1.0, 0.5
            built.step(asked, of)
        ros.until(lambda: inbox.extend(opened.take()) or len(inbox) >= len(topics.commands))
        for message in inbox:
            arm.take(*message)
        inbox.clear()
        arm.step()
    assert led.following == Following.FOLLOWING and led.refused == 0 and arm.refused == 0
    np.testing.assert_allclose(state.pose, expected.pose, atol=1e-12)
    np.testing.assert_allclose(arm.arm.pose, alone._arm.arm.pose, atol=1e-9)
    for timer in link._timers:
        timer.reset()
    # no tick comes: the timer commands it to stay
    ros.until(lambda: inbox.extend(opened.take()) or len(inbox) >= len(topics.commands))
    held, wrench = led._follower.command, np.zeros(6)
    for name, _, values in inbox:
        quantity = next(one.quantity for one in topics.commands if one.name == name)
        if quantity is Quantity.TRAJECTORY:
            arm.take(name, "", values)
            np.testing.assert_allclose(arm.target, held, atol=1e-9)
            continue
        np.testing.assert_allclose(values, held if quantity is Quantity.POSE else wrench, atol=1e-12)
    link.close()
    opened.close()


def test_a_second_master_and_another_type_are_named_and_nothing_is_sent(ros: SimpleNamespace) -> None:
    led, _, _ = side(type="ros_robot", adapter="crtk")
    link, node = RobotLink(ros.node("environment"), led), ros.node("other", elsewhere=True)
    node.create_publisher(TwistStamped, "/measured_cp", RELIABLE)
    ros.until(lambda: any("is of type geometry_msgs/msg/TwistStamped" in one for one in link._topics.lacking()))
    assert any("/measured_cf: has no publisher" in one for one in link._topics.lacking())
    taken: list[Any] = []
    ros.node("arm").create_subscription(PoseStamped, "/servo_cp", taken.append, RELIABLE)
    node.create_publisher(PoseStamped, "/servo_cp", RELIABLE)
    ros.until(lambda: link._topics.contested() == ["servo_cp"])
    link._report()
    for one in led.hold():
        link._send(one)
    link.stay()
    ros.until(lambda: True)
    assert not taken
    link.close()


def test_a_crtk_arm_that_does_not_know_its_pose_is_not_taken_to_be_at_the_origin(ros: SimpleNamespace) -> None:
    """CRTK: "for temporarily unavailable data, set the time header.stamp to 0"; the pose is then the identity."""
    led, _, _ = side(type="ros_robot", adapter="crtk")
    link, arm = RobotLink(ros.node("environment"), led), ros.node("arm")
    publisher = arm.create_publisher(PoseStamped, "/measured_cp", RELIABLE)
    message = message_of(Sent("", Quantity.POSE, "", np.array([0.0] * 6 + [1.0])), PoseStamped().header.stamp)

    came = heard(led)

    def publishes(said: bool) -> bool:
        publisher.publish(message)
        link._listen()
        return said == any("/measured_cp: its stamp is zero" in one for one in link._topics.lacking())

    ros.until(lambda: publishes(True))
    assert not came
    message.header.stamp = arm.get_clock().now().to_msg()
    ros.until(lambda: publishes(False) and came)
    link.close()


JOINTS = ("a", "b_long_name", "c")


@pytest.mark.parametrize("frame", ["", "b", "base", "base_link", "a_frame_of_seventeen"])
def test_bytes_laid_out_once_are_those_that_ros_makes_of_the_message_and_are_read_as_ros_reads_them(frame: str) -> None:
    """For each quantity, alignment of the doubles after frame_id, stamp and sign; big-endian bytes, too."""
    rng = np.random.default_rng(20260)
    sizes = {Quantity.POSE: 7, Quantity.TWIST: 6, Quantity.WRENCH: 6, Quantity.JOINTS: 10, Quantity.TRAJECTORY: 4}
    for quantity, count in sizes.items():
        topic = Topic("a", quantity, Place.BASE, joints=JOINTS if count in (4, 10) else ())
        sent = Sent("a", quantity, frame, np.full(count, 1.25))
        layout, reader = Layout(sent, topic.joints), Reader(topic, count)
        for nanoseconds in (0, 1_700_000_000_999_999_999, 5):
            sent.values[:] = rng.normal(scale=1e3, size=count)
            if quantity is Quantity.TRAJECTORY:
                nanoseconds, sent.values[0] = 0, 1.25  # it begins when it comes, and its time is laid out once
            stamp = PoseStamped().header.stamp
            stamp.sec, stamp.nanosec = divmod(nanoseconds, 1_000_000_000)
            message = message_of(sent, stamp, topic.joints)
            data = bytes(layout.fill(nanoseconds, sent.values))
            assert deserialize_message(data, TYPES[quantity]) == message
            assert len(data) == len(serialize_message(message))
            reader.read(data)
            assert reader.frame == frame and reader.stamp == stamp.sec + 1e-9 * stamp.nanosec
            np.testing.assert_array_equal(reader.values[1:], sent.values[1:])
            assert quantity is Quantity.JOINTS or reader.values[0] == sent.values[0]
    sent = Sent("a", Quantity.WRENCH, "base", np.arange(1.0, 7.0))
    big = b"\0\0\0\0" + struct.pack(">iII", 3, 4, 5) + b"base\0" + b"\0" * 7 + struct.pack(">6d", *sent.values)
    reader = Reader(Topic("a", Quantity.WRENCH, Place.BASE), 6)
    reader.read(big)
    assert (reader.stamp, reader.frame, reader.values.tolist()) == (3.0 + 4e-9, "base", sent.values.tolist())


def test_an_arm_on_topics_needs_a_clock(ros: SimpleNamespace) -> None:
    node = ros.node("environment")
    node.realtime = False
    with pytest.raises(ServoError, match="an arm moves in real time; use --mode realtime"):
        RobotLink(node, side(type="ros_robot")[0])
    (trial,) = load("robot_wall", ["environment.engine={type: ros_robot}", "analysis=trial"])
    for mode in ("offline", "lockstep"):
        with pytest.raises(ParameterError, match=f"--mode {mode}: environment.engine = ros_robot: the arm moves in"):
            trial.in_mode(mode)
