"""Servo threads: what ends their waits, when they repeat a tick, and one that cannot be started."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import wait_until

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

from graph_checks import destroy  # noqa: E402
from haptics import msg  # noqa: E402
from rclpy.event_handler import PublisherEventCallbacks  # noqa: E402
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy  # noqa: E402

from haptic_ros.inbox import Inbox, ServoGroup, subscribe  # noqa: E402
from haptic_ros.leader import RESEND, LeaderNode  # noqa: E402
from haptic_ros.servo import ServoNode  # noqa: E402
from haptic_sim.messages import MessageError  # noqa: E402

EFFORT = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
KEPT = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)


@pytest.fixture
def nodes() -> Iterator[list[Any]]:
    """Two nodes of this process."""
    rclpy.init()
    made = [rclpy.create_node(name, namespace="inbox_test") for name in ("listener", "other")]
    yield made
    destroy(made)


def test_a_publisher_of_another_quality_does_not_end_waits(nodes: list[Any]) -> None:
    """Found by the campaign: an event that nobody took ended each wait at once, so that ticks were sent in a storm."""
    listener, other = nodes
    inbox = Inbox(listener.context, {"text": subscribe(listener, msg.TrialEvent, "text", KEPT, ServoGroup())})
    try:
        compared: list[Any] = []
        callbacks = PublisherEventCallbacks(incompatible_qos=compared.append)
        other.create_publisher(msg.TrialEvent, "text", EFFORT, event_callbacks=callbacks)

        def has_compared() -> bool:
            rclpy.spin_once(other, timeout_sec=0.01)
            return bool(compared)

        wait_until(has_compared, "the qualities to be compared")
        wait_until(lambda: listener.count_publishers("text"), "the publisher")
        for _ in range(5):
            begun = time.monotonic()
            assert not list(inbox.wait(0.05))
            assert time.monotonic() > begun + 0.045
    finally:
        inbox.close()


def test_a_tick_is_repeated_by_the_clock_and_not_by_messages_that_are_refused() -> None:
    """Whoever sends refused messages would else multiply the trial's own."""
    heard: list[float | None] = []
    sent: list[float] = []

    def listen(timeout: float | None) -> bool:
        heard.append(timeout)
        time.sleep(1e-3)
        return False

    leader = SimpleNamespace(
        begin=lambda tick: None,
        answered=lambda: 0 if len(heard) >= 200 else -1,
        stopping=False,
        listen=listen,
        config=SimpleNamespace(patience=1e9),
        again=lambda: sent.append(time.monotonic()),
        complete=lambda: None,
        rest=lambda: None,
    )
    assert LeaderNode._tick(leader, 0)  # type: ignore[arg-type]
    assert sent and all(b - a >= RESEND for a, b in itertools.pairwise(sent))


def test_a_servo_thread_that_cannot_be_started_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by the campaign, without memory: the wait for it hid why it had failed."""

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    transport = SimpleNamespace(composition=None, inbox=None)
    node = SimpleNamespace(_stopping=False, _thread=None, _serve=lambda: None, transport=transport)
    with pytest.raises(RuntimeError, match="new thread"):
        ServoNode.on_activate(node, None)  # type: ignore[arg-type]
    ServoNode.stop_servo(node)  # type: ignore[arg-type]
    assert node._stopping


def test_messages_that_cannot_be_used_are_counted_in_few_lines() -> None:
    said: list[str] = []
    node: Any = SimpleNamespace(refused=5, _unusable=0, get_logger=lambda: SimpleNamespace(warning=said.append))
    for _ in range(1000):
        ServoNode.refuse(node, MessageError("tick 7: nan"))
    assert (node.refused, len(said)) == (1005, 10)
    assert said[0] == "refused: tick 7: nan" and said[-1] == "refused: tick 7: nan (512 messages so far)"
