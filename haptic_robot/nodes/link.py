"""Connects the engine `ros_robot`, in the environment's node, with the topics of a real arm's controller.

What the arm sends is taken in the executor's thread, and read in the servo thread at the beginning of a tick. When
no tick has come for the hand's watchdog, a timer of the executor commands the arm to stay, without a wrench.
"""

from __future__ import annotations

import time
from typing import Any

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from std_msgs.msg import String

from haptic_robot.adapters import Sent
from haptic_robot.engine import RobotSide
from haptic_robot.following import Following
from haptic_robot.nodes.topics import Topics
from haptic_ros.trial import ServoError

LATCHED = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)
WATCHED = 0.01  # [s] between two looks whether ticks come
REPORTED = 1.0  # [s] between two looks at who is there
CLOCKS = 0.1  # [s] by which clocks may differ: commands that are older are refused by some controllers


class RobotLink:
    """Topics of an arm for a tool side that leads it.

    Args:
        node: the environment's.
        side: that leads the arm.

    Raises:
        ServoError: the trial has no clock of its own: an arm moves in real time.
    """

    def __init__(self, node: Any, side: RobotSide):
        if not node.realtime:
            raise ServoError("environment.engine = ros_robot: an arm moves in real time; use --mode realtime")
        self._node, self._side, self._sent = node, side, 0.0
        self._contested: list[str] | None = None  # nobody has looked yet
        adapter = side.adapter
        self._topics = Topics(node, adapter.commands, adapter.feedback, lambda *message: side.incoming.append(message))
        self._state = node.create_publisher(String, "robot_state", LATCHED)
        self._shown: Following | None = None
        self._timers = [node.create_timer(WATCHED, self._watch), node.create_timer(REPORTED, self._report)]
        side.send = self._send

    def _send(self, sent: Sent) -> None:
        """Publish what the arm is commanded, in the servo thread.

        Nothing before the first look at who is there, nor while another commands the arm, too.
        """
        if self._contested == []:
            self._sent = time.monotonic()
            self._topics.send(sent)

    def _watch(self) -> None:
        """Let the arm stay when no tick comes, and publish a changed state."""
        if time.monotonic() - self._sent > self._side.parameters.following.hand_watchdog:
            self.stay()
        if self._side.following is not self._shown:
            self._shown = self._side.following
            self._state.publish(String(data=self._shown.name))

    def _report(self) -> None:
        """Say what is wrong with the topics."""
        self._contested = self._topics.contested()
        for name in self._contested:
            self._node.get_logger().error(f"/{name}: another publisher commands the arm, too; nothing is sent")
        if self._shown in (None, Following.WAITING, Following.STALE):
            for line in self._topics.lacking():
                self._node.get_logger().warning(line)
        for name, late in self._topics.apart.items():
            if abs(late) > CLOCKS:
                self._node.get_logger().warning(
                    f"/{name}: its stamps are {abs(late):.3g} s {'behind' if late > 0.0 else 'ahead of'} this clock: "
                    f"ages are counted from arrival, but a controller may refuse our commands; synchronise the clocks"
                )
        if self._side.waits_for:
            self._node.get_logger().warning(self._side.waits_for)
        if self._side.problem:
            self._node.get_logger().warning(f"refused {self._side.refused} messages of the arm: {self._side.problem}")
            self._side.problem = ""

    def stay(self) -> None:
        """Command the arm to stay, without a wrench, if it was commanded anything."""
        if self._sent and self._contested == []:
            for one in self._side.hold():
                self._topics.send(one)

    def close(self) -> None:
        """Let the arm stay, and close the topics."""
        for timer in self._timers:
            self._node.destroy_timer(timer)
        self.stay()
        self._topics.close()
        self._node.destroy_publisher(self._state)
