"""Pointing node: a person moves the hand of a running trial by keyboard, gamepad or SpaceMouse, or a file does.

It is no part of the trial. What it sends are the events of the operator `pointer`; when it ends, or is killed, the hand
is let go.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import rclpy
from haptics import msg
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy

from haptic_drivers.pointing import REPEATED, Answers, Sender
from haptic_drivers.sticks import (
    GAMEPAD_HELP,
    KEYS_HELP,
    SPACEMOUSE_HELP,
    Gamepad,
    Keyboard,
    Source,
    SourceError,
    SpaceMouse,
    find_gamepad,
    raw_terminal,
)
from haptic_ros.graph import OPERATOR
from haptic_ros.middleware.context import initialise
from haptic_sim.messages import GRAB, RELEASE
from haptic_sim.spatial import advance_pose

PERIOD = 0.02  # [s] between two readings
SOURCES = ("keyboard", "gamepad", "spacemouse")
FOUND = 10.0  # [s] for the trial to be found, by default
PROMPT = 1.0  # [s] without a trial before the user is told that one is waited for
PERSISTENT = 0.3  # [s] for which a condition persists before it is reported


def point(source: str, device: str, namespace: str, stop: threading.Event, wait: float = FOUND) -> None:
    """Send what a person does with a source until they leave, or `stop` is set.

    Args:
        source: one of SOURCES.
        device: path of a gamepad; empty: the first.
        namespace: of the trial's topics, with the slash in front.
        stop: ends it.
        wait: for the trial [s].

    Raises:
        SourceError: there is no such source, it is gone, or nobody takes its events.
    """
    with _opened(source, device) as (reading, text), _sender(namespace, stop, wait) as (sender, state):
        print(text, file=sys.stderr, flush=True)
        follow(reading, sender, stop, StateReport(state))


def play_events(table: np.ndarray, namespace: str, stop: threading.Event, wait: float = FOUND) -> None:
    """Send the events of a table at its times, as somebody would who does them; arguments as of `point`."""
    with _sender(namespace, stop, wait) as (sender, state):
        begun, report = time.monotonic(), StateReport(state)
        for row in table:
            while (left := begun + row[0] - time.monotonic()) > 0.0 and not stop.wait(min(left, REPEATED)):
                sender.repeat()
                report.update()
            if stop.is_set():
                break
            if row[1] == GRAB:
                sender.grab(row[4:7], oriented=bool(row[2]), body=int(row[3]))
            elif row[1] == RELEASE:
                sender.release()
            else:
                sender.move(row[7:])


class StateReport:
    """Writes on the standard error what is the case, once that has been so for PERSISTENT seconds.

    Args:
        state: returns what is the case, as text.
    """

    def __init__(self, state: Callable[[], str]):
        self._state, self._last, self._reported, self._since = state, "", "", 0.0

    def update(self) -> None:
        """Report the state if it has changed; to be called often."""
        now, text = time.monotonic(), self._state()
        if text != self._last:
            self._last, self._since = text, now
        elif text != self._reported and now > self._since + PERSISTENT:
            self._reported = text
            print(text, file=sys.stderr, flush=True)


def follow(source: Source, sender: Sender, stop: threading.Event, report: StateReport) -> None:
    """Send the motion of a source as events: the first motion takes hold."""
    pose = np.array([0.0, 0, 0, 0, 0, 0, 1])
    before = sent = time.monotonic()
    while not stop.wait(PERIOD):
        report.update()
        now = time.monotonic()
        motion = source.read(now - before)
        before = now
        if motion.leaves:
            return
        if motion.releases:
            sender.release()
        elif motion.displacement.any():
            if not sender.holds:
                pose[:] = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0
                sender.grab()
            advance_pose(motion.displacement, 1.0, pose)
            sender.move(pose)
            sent = now
        elif now > sent + REPEATED:
            sender.repeat()
            sent = now


@contextlib.contextmanager
def _opened(source: str, device: str) -> Iterator[tuple[Source, str]]:
    """A source, and how it is used."""
    if source == "keyboard":
        with raw_terminal(sys.stdin.fileno()):
            yield Keyboard(sys.stdin.fileno()), KEYS_HELP
    elif source == "gamepad":
        yield Gamepad(find_gamepad(device)), GAMEPAD_HELP
    else:
        yield SpaceMouse(), SPACEMOUSE_HELP


@contextlib.contextmanager
def _sender(namespace: str, stop: threading.Event, wait: float) -> Iterator[tuple[Sender, Callable[[], str]]]:
    """A sender whose trial is there, and a function that returns whether it holds; it lets go at the end."""
    initialise([])
    try:
        node = Node("pointing", namespace=namespace)
        qos = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE)
        publisher = node.create_publisher(msg.OperatorEvent, OPERATOR, qos)
        sender = Sender(publisher.publish)
        answers = Answers(sender)
        latest = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
        node.create_subscription(msg.OperatorEvent, "operator_events", answers.take, latest, raw=True)
        _find(publisher, f"{namespace}/{OPERATOR}", stop, wait)

        def state() -> str:
            rclpy.spin_once(node, timeout_sec=0.0)
            found = node.get_subscriptions_info_by_topic(publisher.topic_name)
            return answers.text(sorted({f"{one.node_namespace.rstrip('/')}/{one.node_name}" for one in found}))

        try:
            yield sender, state
        finally:
            sender.release()
            time.sleep(0.05)  # for the middleware to send it
        node.destroy_node()
    finally:
        rclpy.try_shutdown()


def _find(publisher: Any, topic: str, stop: threading.Event, wait: float) -> None:
    """Wait for somebody who takes events, and say so where that takes long.

    Raises:
        SourceError: nobody does within `wait` [s].
    """
    begun, notified = time.monotonic(), False
    while not publisher.get_subscription_count() and not stop.wait(0.05):
        waited = time.monotonic() - begun
        if waited > wait:
            raise SourceError(
                f"{topic}: no node has received events within {wait:g} s; start a trial with operator.type = pointer, "
                "wait for it longer with --wait SECONDS, or name that of another with --namespace"
            )
        if waited > PROMPT and not notified:
            notified = True
            print(f"haptics: waiting for a trial at {topic}, for {wait:g} s (--wait)", file=sys.stderr, flush=True)
