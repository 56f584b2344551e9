"""An arm on topics of ROS: messages of geometry_msgs, the link of the engine, and a simulated arm at its other end."""

from __future__ import annotations

import time
from collections import deque
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
from test_robot_engine import RATE, side

from haptic_bench.experiment import load
from haptic_robot.adapters import ADAPTERS, Quantity, Sent
from haptic_robot.following import Following
from haptic_robot.nodes.link import RobotLink
from haptic_robot.nodes.topics import RELIABLE, Topics, message_of, values_of
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


@pytest.mark.parametrize("adapter", sampled(["fzi", "crtk", "crisp", "moveit_servo"], "fzi"))
def test_an_arm_on_topics_is_led_as_one_in_this_process_and_stays_when_ticks_end(
    ros: SimpleNamespace, adapter: str
) -> None:
    """Tick by tick, each when the messages of the one before have come: the same poses, to rounding."""
    parameters = ADAPTERS.find(adapter)(namespace=adapter)
    engine = {"damping": [20.0, 0.1], "orientation": [0.3, -0.2, 0.5]}
    led, state, command = side(type="ros_robot", adapter={"type": adapter, "namespace": adapter}, **engine)
    alone, expected, other = side(adapter={"type": adapter, "namespace": adapter}, **engine)
    arm, topics = SimulatedArm(SimulatedArmParameters(), parameters, RATE), parameters.build()
    inbox: deque[tuple[str, str, np.ndarray]] = deque()
    opened = Topics(ros.node("arm"), topics.feedback, topics.commands, lambda *message: inbox.append(message))
    link = RobotLink(ros.node("environment"), led)
    ros.until(lambda: not link._topics.lacking() and not opened.lacking())
    link._report()
    for timer in link._timers:
        timer.cancel()  # a stalled machine is no missing tick here
    for tick in range(40):
        for one in arm.report():
            opened.send(one)
        ros.until(lambda: len(led.incoming) >= len(topics.feedback))
        for built, of, asked in ((led, state, command), (alone, expected, other)):
            asked.stamp(tick, 0)
            asked.wrench[:3] = 2.0, -1.0, 0.5
            built.step(asked, of)
        ros.until(lambda: len(inbox) >= len(topics.commands))
        while inbox:
            arm.take(*inbox.popleft())
        arm.step()
    assert led.following == Following.FOLLOWING and led.refused == 0 and arm.refused == 0
    np.testing.assert_allclose(state.pose, expected.pose, atol=1e-12)
    np.testing.assert_allclose(arm.arm.pose, alone._arm.arm.pose, atol=1e-9)
    for timer in link._timers:
        timer.reset()
    ros.until(lambda: len(inbox) >= len(topics.commands))  # no tick comes: the timer commands it to stay
    held, wrench = led._follower.command, np.zeros(6)
    for name, _, values in inbox:
        quantity = next(one.quantity for one in topics.commands if one.name == name)
        np.testing.assert_allclose(values, held if quantity is Quantity.POSE else wrench, atol=1e-12)
    link.close()
    opened.close()


def test_a_second_master_and_another_type_are_named_and_nothing_is_sent(ros: SimpleNamespace) -> None:
    led, _, _ = side(type="ros_robot", adapter="crtk")
    link, node = RobotLink(ros.node("environment"), led), ros.node("other", elsewhere=True)
    node.create_publisher(TwistStamped, "/measured_cp", RELIABLE)
    ros.until(lambda: any("is of type geometry_msgs/msg/TwistStamped" in one for one in link._topics.lacking()))
    assert any("/measured_cf: nobody publishes it" in one for one in link._topics.lacking())
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


def test_an_arm_on_topics_needs_a_clock(ros: SimpleNamespace) -> None:
    node = ros.node("environment")
    node.realtime = False
    with pytest.raises(ServoError, match="an arm moves in real time; use --mode realtime"):
        RobotLink(node, side(type="ros_robot")[0])
    (trial,) = load("robot_wall", ["environment.engine={type: ros_robot}", "analysis=trial"])
    for mode in ("offline", "lockstep"):
        with pytest.raises(ParameterError, match=f"--mode {mode}: environment.engine = ros_robot: the arm moves in"):
            trial.in_mode(mode)
