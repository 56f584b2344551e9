"""Connects the engine `ros_robot`, in the environment's node, with the topics of a real arm's controller.

What the arm sends is taken in the servo thread at the beginning of a tick; that it had not come yet at the last one
bounds its age, also on a machine that stalls. When no tick has come for the hand's watchdog, a timer of the executor
commands the arm to stay, without a wrench.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from std_msgs.msg import String

from haptic_robot.adapters import Quantity, Sent
from haptic_robot.engine import RobotSide
from haptic_robot.following import Following
from haptic_robot.nodes.topics import Topics
from haptic_ros.trial import ServoError

LATCHED = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)
WATCHED = 0.01  # [s] between two looks whether ticks come
REPORTED = 1.0  # [s] between two looks at who is there
AWAITED = 5.0  # [s] for which a trial waits for an arm before it begins without: the arm is then WAITING
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
        side.permitted = False  # nobody has looked yet
        adapter = side.adapter
        needed = [one for one in adapter.feedback if one.quantity is not Quantity.TWIST]
        self._topics = Topics(node, adapter, adapter.commands, needed)
        self._state = node.create_publisher(String, "robot_state", LATCHED)
        self._shown: Following | None = None
        self._opened = self._looked = time.monotonic()
        self._timers = [node.create_timer(WATCHED, self._watch), node.create_timer(REPORTED, self._report)]
        side.lock = threading.Lock()
        side.send, side.listen, side.clock = self._send, self._listen, time.monotonic

    def prepared(self) -> bool:
        """Whether a trial may begin: the arm may be commanded and says how it is, or it has been awaited for long."""
        self._listen()
        return (self._side.permitted and not self._topics.silent) or time.monotonic() > self._opened + AWAITED

    def _listen(self) -> None:
        """Take what has come of the arm, in the servo thread."""
        now = time.monotonic()
        for topic, frame, values in self._topics.take():
            self._side.receive(topic, frame, values, self._looked)
        self._looked = now

    def _send(self, sent: Sent) -> None:
        """Publish what the arm is commanded, in the servo thread.

        Nothing before the first look at who is there, nor while another commands the arm, too: the side then waits,
        and begins anew where the arm is. Nor what comes later after the beginning of its tick than the hand's watchdog
        allows: this thread was stopped, and the arm was commanded to stay.
        """
        now = time.monotonic()
        if self._side.permitted and now - self._looked <= self._side.parameters.following.hand_watchdog:
            self._sent = now
            self._topics.send(sent)

    def _watch(self) -> None:
        """Let the arm stay when no tick comes, and publish a changed state."""
        self.stay(self._side.parameters.following.hand_watchdog)
        if self._side.following is not self._shown:
            self._shown = self._side.following
            self._state.publish(String(data=self._shown.name))

    def _report(self) -> None:
        """Say what is wrong with the topics."""
        contested = self._topics.contested()
        self._side.permitted = not contested
        if contested:
            self._sent = 0.0  # where the arm is to stay is not known any more
        for name in contested:
            self._node.get_logger().error(f"/{name}: another publisher commands the arm, too; nothing is sent")
        if self._shown in (None, Following.WAITING, Following.STALE):
            for line in self._topics.lacking():
                self._node.get_logger().warning(line)
        for name, late in list(self._topics.apart.items()):  # which the servo thread adds to
            if abs(late) > CLOCKS:
                self._node.get_logger().warning(
                    f"/{name}: its stamps are {abs(late):.3g} s {'behind' if late > 0.0 else 'ahead of'} this clock: "
                    f"ages are counted from arrival, but a controller may refuse our commands; synchronise the clocks"
                )
        if self._side.waits_for:
            self._node.get_logger().warning(self._side.waits_for)
        if self._side.limited:
            self._node.get_logger().warning(self._side.limited)
        if self._side.problem:
            self._node.get_logger().warning(f"refused {self._side.refused} messages of the arm: {self._side.problem}")
            self._side.problem = ""

    def stay(self, silence: float = 0.0) -> None:
        """Command the arm to stay, without a wrench, if it was commanded anything, but nothing for `silence` [s]."""
        with self._side.lock:  # in which no tick commands it
            if self._sent and self._side.permitted and time.monotonic() - self._sent >= silence:
                for one in self._side.hold():
                    self._topics.send(one)

    def close(self) -> None:
        """Let the arm stay, and close the topics."""
        for timer in self._timers:
            self._node.destroy_timer(timer)
        self.stay()
        self._topics.close()
        self._node.destroy_publisher(self._state)
