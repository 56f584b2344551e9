"""Stand-in for the joint_trajectory_controller: its interpolation of trajectories, by the source, and their end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from rclpy.node import Node
from test_robot_stand_ins import HOME, OF_JOINTS, START, Graph, Lead, graph
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from haptic_robot.following import Following

__all__ = ["graph"]
pytestmark = [pytest.mark.graph, pytest.mark.exhaustive]
NAMES = [f"joint_{i}" for i in range(1, 7)]
TOPIC = "/joint_trajectory_controller/joint_trajectory"
Change = Callable[[JointTrajectory], Any]


def trajectory(q: Any = HOME, seconds: float = 0.05, **fields: Any) -> JointTrajectory:
    point = JointTrajectoryPoint(positions=list(q), **fields)
    point.time_from_start.sec, point.time_from_start.nanosec = divmod(round(1e9 * seconds), 1_000_000_000)
    return JointTrajectory(joint_names=list(NAMES), points=[point])


def send(graph: Graph, node: Node, messages: list[JointTrajectory], during: float) -> None:
    """Publish messages one after another for a time [s]."""
    publisher = node.create_publisher(JointTrajectory, TOPIC, 1)
    graph.until(lambda: publisher.get_subscription_count() > 0, "nobody subscribes")
    end = time.monotonic() + during
    while time.monotonic() < end:
        for message in messages:
            publisher.publish(message)
            graph.until(lambda: True, "")
            time.sleep(0.02)


MOVED = [q + 0.1 for q in HOME]
REFUSED: dict[str, tuple[Change, dict[str, Any], str]] = {
    "a joint is missing": (lambda m: m.joint_names.pop(), {}, "joints don't match the controller joints"),
    "no joints": (lambda m: m.joint_names.clear(), {"allow_partial_joints_goal": True}, "empty joint names"),
    "no points": (lambda m: m.points.clear(), {}, "empty trajectory"),
    "another joint": (lambda m: m.joint_names.__setitem__(0, "gripper"), {}, "joint gripper doesn't match"),
    "an end that moves": (
        lambda m: setattr(m.points[0], "velocities", [0.1] * 6),
        {},
        "velocity of last point is not zero",
    ),
    "in the past": (lambda m: setattr(m.header.stamp, "sec", 5), {}, "ends in the past"),
    "times that stand still": (lambda m: m.points.append(m.points[0]), {}, "time is not strictly increasing"),
    "no positions": (lambda m: m.points[0].positions.pop(), {}, "mismatch between joint_names and positions"),
    "accelerations of some": (
        lambda m: setattr(m.points[0], "accelerations", [0.0]),
        {},
        "mismatch between joint_names and accelerations",
    ),
    "efforts": (lambda m: setattr(m.points[0], "effort", [1.0] * 6), {}, "effort"),
    "an inactive controller": (lambda m: None, {"robot.active": False}, "inactive"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_refuses_what_its_source_refuses(graph: Graph, case: str) -> None:
    change, parameters, said = REFUSED[case]
    robot, node = graph.robot("joint_trajectory", **parameters), graph.node("client")
    message = trajectory(MOVED)
    change(message)
    send(graph, node, [message], 1.0)
    found = robot.end()
    assert set(found["counts"]) == {f"joint_trajectory: {said}"}
    np.testing.assert_allclose(found["position"], START, atol=1e-9)


@pytest.mark.parametrize("parameters", [{}, {"interpolate_from_desired_state": True}], ids=str)
def test_joints_in_any_order_come_where_they_are_sent(graph: Graph, parameters: dict[str, Any]) -> None:
    robot, node = graph.robot("joint_trajectory", **parameters), graph.node("client")
    message = trajectory(MOVED, seconds=0.2)
    message.joint_names, message.points[0].positions = NAMES[::-1], MOVED[::-1]
    send(graph, node, [message], 0.4)  # the first may come before the other side knows of this writer
    time.sleep(1.0)
    found = robot.end()
    model = pin.buildModelFromUrdf("arm.urdf")
    data = model.createData()
    pin.framesForwardKinematics(model, data, np.array(MOVED))
    place = data.oMf[model.getFrameId("tool0")].translation
    assert set(found["counts"]) == {"joint_trajectory"} and np.linalg.norm(place - START) > 0.02
    np.testing.assert_allclose(found["position"], place, atol=1e-9)


def test_without_a_new_point_it_stays_and_says_so_after_its_timeout(graph: Graph) -> None:
    """As after kill -9 of whoever leads it."""
    robot = graph.robot("joint_trajectory", cmd_timeout=0.05)
    lead = Lead(graph, adapter=OF_JOINTS)
    lead.until(lambda: lead.side.following is Following.FOLLOWING, f"it does not follow: {lead.side.problem}")
    lead.wrench[0] = 2.0
    lead.ticks(500)
    for timer in lead.link._timers:
        timer.cancel()
    last = lead.side.adapter._kinematics.pose[:3].copy()
    time.sleep(0.5)
    found = robot.end()
    assert found["counts"].pop("aborted due to command timeout") >= 1 and set(found["counts"]) == {"joint_trajectory"}
    np.testing.assert_allclose(found["position"], last, atol=1e-3)
    assert np.linalg.norm(last - START) > 1e-3


def test_two_masters_are_seen_and_nothing_is_sent_then(graph: Graph) -> None:
    """The controller takes what comes last, of whomever; so the arm is left to the other."""
    robot, other = graph.robot("joint_trajectory"), graph.node("other")
    lead = Lead(graph, adapter=OF_JOINTS)
    publisher = other.create_publisher(JointTrajectory, TOPIC, 1)
    lead.until(lambda: lead.link._topics.contested() == [TOPIC[1:]], "nobody sees the other master")
    lead.wrench[0] = 2.0

    def left() -> bool:
        publisher.publish(trajectory(HOME))
        return lead.side.following is Following.WAITING and lead.state.tick > 2500

    lead.until(left, "it does not wait")
    found = robot.end()
    np.testing.assert_allclose(found["position"], START, atol=1e-9)
    assert json.dumps(found["counts"]).startswith('{"joint_trajectory": ')
