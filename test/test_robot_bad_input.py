"""Faults of an arm on topics are reported before the arm is commanded."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from test_robot_engine import run, side
from test_robot_topics import heard, ros

from haptic_robot.adapters import CrispParameters, CrtkArmParameters, Quantity, Sent
from haptic_robot.engine import RobotSide
from haptic_robot.following import Following
from haptic_robot.nodes import link as links
from haptic_robot.nodes.link import RobotLink
from haptic_robot.nodes.topics import RELIABLE, message_of
from haptic_sim.messages import MessageError

__all__ = ["ros"]
pytestmark = pytest.mark.graph
AT = np.array([0.5, 0.1, 0.4, 0.0, 0.0, 0.0, 1.0])
NONE = np.zeros(6)


class Warned:
    """A node's logger whose lines are kept."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def warning(self, line: str, **_: Any) -> None:
        self.lines.append(line)

    error = warning


class Bench:
    """The link of an arm with the topics of CRTK, and somebody who publishes what an arm would."""

    def __init__(self, ros: SimpleNamespace, **engine: Any):
        self.side, self.state, self.command = side(type="ros_robot", adapter="crtk", **engine)
        node, self.other, self.ros = ros.node("environment"), ros.node("other", elsewhere=True), ros
        self.logger = Warned()
        node.get_logger = lambda: self.logger
        self.link = RobotLink(node, self.side)
        for timer in self.link._timers:
            timer.cancel()
        self.side.clock = None  # a stalled machine makes nothing old here
        self.came = heard(self.side)
        self.sent: list[Any] = []
        self.link._topics.send = self.sent.append  # type: ignore[method-assign]
        self.pose = self.other.create_publisher(PoseStamped, "/measured_cp", RELIABLE)
        self.wrench = self.other.create_publisher(WrenchStamped, "/measured_cf", RELIABLE)
        publishers = self.pose, self.wrench
        ros.until(lambda: not self.link._topics.lacking() and all(one.get_subscription_count() for one in publishers))

    def says(self, pose: np.ndarray, wrench: np.ndarray = NONE, frame: str = "base_link", shift: float = 0.0) -> None:
        """The arm says so, with a clock that is `shift` [s] ahead."""
        self.came.clear()
        stamp = self.other.get_clock().now().to_msg()
        stamp.sec += round(shift)
        said = {
            self.pose: message_of(Sent("measured_cp", Quantity.POSE, frame, pose), stamp),
            self.wrench: message_of(Sent("measured_cf", Quantity.WRENCH, frame, wrench), stamp),
        }
        for publisher, message in said.items():
            publisher.publish(message)
        self.ros.until(lambda: self.link._listen() or len(self.came) >= 2)

    def named(self, part: str) -> bool:
        """Whether a look at what is there names it."""
        self.link._report()
        return any(part in line for line in self.logger.lines)

    def tick(self) -> Following:
        run(self.side, self.state, self.command, 1)
        return self.side.following


def test_an_arm_without_faults_is_commanded_only_after_a_look_at_who_is_there(ros: SimpleNamespace) -> None:
    bench = Bench(ros)
    bench.says(AT)
    assert bench.tick() == Following.WAITING and not bench.sent
    bench.link._report()
    elsewhere = AT + np.array([0.03, 0, 0, 0, 0, 0, 0])  # the command begins where the arm is when it may be commanded
    bench.says(elsewhere)
    assert bench.tick() == Following.FOLLOWING
    assert [one.topic for one in bench.sent] == ["servo_cp"] and not bench.logger.lines
    np.testing.assert_allclose(bench.sent[0].values, elsewhere, atol=1e-12)
    bench.link.close()


def test_a_trial_begins_when_the_arm_is_there_or_has_been_awaited(
    ros: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(ros)
    monkeypatch.setattr(links, "AWAITED", 3600.0)
    bench.says(AT)
    assert not bench.link.prepared()  # nobody has looked whether it may be commanded
    bench.link._report()
    assert bench.link.prepared()
    bench.side.permitted = False
    assert not bench.link.prepared()
    monkeypatch.setattr(links, "AWAITED", 0.0)
    assert bench.link.prepared()
    bench.link.close()


def test_an_arm_is_told_to_stay_only_between_two_commands(ros: SimpleNamespace) -> None:
    """By another thread, in arrays and bytes that a command fills, too."""
    bench = Bench(ros)
    bench.says(AT)
    bench.link._report()
    bench.says(AT)
    assert bench.tick() == Following.FOLLOWING
    bench.sent.clear()
    staying = threading.Thread(target=bench.link.stay)
    with bench.side.lock:
        staying.start()
        staying.join(0.05)
        assert staying.is_alive() and not bench.sent
    staying.join(60.0)
    assert [one.topic for one in bench.sent] == ["servo_cp"]
    bench.link.close()


def test_a_frame_that_nobody_publishes_is_named(ros: SimpleNamespace) -> None:
    bench = Bench(ros)
    bench.link._report()
    bench.says(AT, frame="world")
    assert bench.tick() == Following.WAITING and not bench.sent
    assert bench.named("measured_cf: frame_id is 'world': must be 'base_link'")
    bench.link.close()


def test_an_arm_that_starts_elsewhere_than_it_should_is_named_and_not_moved(ros: SimpleNamespace) -> None:
    bench = Bench(ros, following={"start": [0.5, 0.1, 0.9]})
    bench.link._report()
    bench.says(AT)
    assert bench.tick() == Following.WAITING and not bench.sent
    assert bench.named(
        "tool is at [0.5, 0.1, 0.4] m, 0.5 m from following.start = [0.5, 0.1, 0.9] m: must be within 0.1 m"
    )
    bench.says(np.array([0.5, 0.1, 0.85, 0.0, 0.0, 0.0, 1.0]))
    assert bench.tick() == Following.FOLLOWING and not bench.side.waits_for
    bench.link.close()


@pytest.mark.parametrize(
    ("pose", "wrench", "named"),
    [
        (
            AT * np.array([1e3] * 3 + [1.0] * 4),
            NONE,
            "measured_cp: tool 648.1 m from the base: must be at most reach = 5 m",
        ),
        (
            AT,
            np.array([0.0, 0.0, 981.0, 0, 0, 0]),
            "measured_cf: 981 N: must be at most 500 N (largest); is it in another",
        ),
        (AT, np.array([0.0, 0, 0, 0, 2e3, 0]), "measured_cf: 2000 N m: must be at most 100 N m (largest)"),
    ],
)
def test_feedback_in_another_unit_is_named(
    ros: SimpleNamespace, pose: np.ndarray, wrench: np.ndarray, named: str
) -> None:
    bench = Bench(ros)
    bench.link._report()
    bench.says(pose, wrench)
    assert bench.tick() == Following.WAITING and not bench.sent and not bench.state.wrench.any()
    assert bench.named(named)
    bench.link.close()


@pytest.mark.parametrize("shift", [3600.0, -3600.0])
def test_clocks_an_hour_apart_are_named_and_ages_are_counted_from_arrival(ros: SimpleNamespace, shift: float) -> None:
    bench = Bench(ros)
    bench.says(AT, shift=shift)
    assert bench.named(f"s {'ahead of' if shift > 0 else 'behind'} this clock") and not bench.sent
    assert "3.6e+03 s" in bench.logger.lines[0]
    for _ in range(40):
        assert bench.tick() == Following.FOLLOWING
    for _ in range(2):
        state = bench.tick()
    assert state == Following.STALE  # after 40 ms without a message
    bench.link.close()


def test_another_type_and_a_second_master_are_named(ros: SimpleNamespace) -> None:
    bench = Bench(ros)
    bench.other.create_publisher(PoseStamped, "/servo_cp", RELIABLE)
    ros.until(lambda: bench.link._topics.contested())
    assert bench.named("/servo_cp: another publisher commands the arm, too; nothing is sent")
    bench.says(AT)
    assert bench.tick() == Following.WAITING and not bench.sent
    bench.link.close()
    led, _, _ = side(type="ros_robot", adapter={"type": "crtk", "namespace": "typed"})
    assert isinstance(led, RobotSide)
    link = RobotLink(ros.node("second"), led)
    bench.other.create_publisher(TwistStamped, "/typed/measured_cp", RELIABLE)
    ros.until(
        lambda: any("is of type geometry_msgs/msg/TwistStamped; must be" in one for one in link._topics.lacking())
    )
    link.close()


def test_sizes_are_checked_in_any_axes() -> None:
    """A wrench about the origin of the base has the moment of its lever: that is no other unit, up to `largest`."""
    adapter = CrispParameters().build()
    with pytest.raises(MessageError, match=r"tool 6 m from the base: must be at most reach = 5 m"):
        adapter.checked("current_pose", "base_link", np.array([6.0, 0, 0, 0, 0, 0, 1.0]))
    assert CrtkArmParameters(reach=10.0).build().checked("measured_cp", "", np.array([6.0, 0, 0, 0, 0, 0, 1.0]))
