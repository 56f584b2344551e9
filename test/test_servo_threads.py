"""Servo threads: what ends their waits, when they repeat a tick, and one that cannot be started."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from functools import partial
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
from rclpy.serialization import serialize_message  # noqa: E402

from haptic_ros.inbox import AT_ONCE, Inbox, ServoGroup, subscribe  # noqa: E402
from haptic_ros.leader import RESEND, LeaderNode  # noqa: E402
from haptic_ros.servo import ServoNode  # noqa: E402
from haptic_ros.trial import ServoError  # noqa: E402
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


def test_a_topic_with_a_backlog_leaves_the_others_their_turn(nodes: list[Any]) -> None:
    """Else a recorder without time would know of the end of a trial only when it has taken all that waits."""
    listener, other = nodes
    deep = QoSProfile(depth=2 * AT_ONCE, reliability=ReliabilityPolicy.RELIABLE)
    topics = ("ticks", "end")
    subscriptions = {topic: subscribe(listener, msg.TrialEvent, topic, deep, ServoGroup()) for topic in topics}
    inbox = Inbox(listener.context, subscriptions)
    try:
        ticks, end = (other.create_publisher(msg.TrialEvent, topic, deep) for topic in topics)
        for publisher in (ticks, end):
            wait_until(publisher.get_subscription_count, "the subscription")
        for _ in range(AT_ONCE + 9):
            ticks.publish(msg.TrialEvent())
        assert ticks.wait_for_all_acked()
        end.publish(msg.TrialEvent())
        assert end.wait_for_all_acked()
        assert [topic for topic, _ in inbox.wait(1.0)] == ["ticks"] * AT_ONCE + ["end"]
        assert [topic for topic, _ in inbox.wait(1.0)] == ["ticks"] * 9
    finally:
        inbox.close()


def awaited(monkeypatch: pytest.MonkeyPatch, reports: int) -> float:
    """How long a leader waits for a recorder that says so often, after 9 s each, how far it is [s]."""
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    leader: Any = SimpleNamespace(
        config=SimpleNamespace(patience=10.0, recorded=True, nodes=("driver", "recorder")),
        stopping=False,
        _contested=str,
        _reported_at=0.0,
        _absent="",
        _refusals={},
    )
    leader._receive_of_recorder = partial(LeaderNode._receive_of_recorder, leader)
    leader._given_up = partial(LeaderNode._given_up, leader)
    coming = [109.0 + 9.0 * number for number in range(reports)]

    def listen(timeout: float) -> bool:
        clock[0] += timeout
        if coming and clock[0] >= coming[0]:
            event = msg.TrialEvent(node="recorder", name="recorded", tick=round(coming.pop(0)))
            LeaderNode.receive_event(leader, serialize_message(event))
        return False

    leader.listen = listen
    with pytest.raises(ServoError, match=r"^recorder: the bag was not closed for 10 s$"):
        LeaderNode._await(leader, lambda: False, "recorder: the bag was not closed")
    return clock[0] - 100.0


@pytest.mark.parametrize("reports", [0, 3])
def test_the_leader_waits_as_long_as_the_recorder_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, reports: int
) -> None:
    """Of a recorder that shared its core with thirty programs, the bag was not closed 10 s after the last tick."""
    assert awaited(monkeypatch, reports) == pytest.approx(9.0 * reports + 10.0, abs=0.05)


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
    node._changing, node._ends, node._leave_composition = threading.Lock(), False, lambda: None
    with pytest.raises(RuntimeError, match="new thread"):
        ServoNode.on_activate(node, None)  # type: ignore[arg-type]
    ServoNode.stop_servo(node)  # type: ignore[arg-type]
    assert node._stopping


def test_what_a_servo_thread_uses_stays_open_until_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that hangs in the middleware still uses its handles: the transition fails, and the process ends."""
    monkeypatch.setattr("haptic_ros.servo.STOP", 0.05)
    go_on = threading.Event()
    released: list[str] = []

    class Hanging(ServoNode):
        def __init__(self) -> None:
            self.transport = SimpleNamespace(composition=None, inbox=None, close=partial(released.append, "topics"))  # type: ignore[assignment]
            self._thread = threading.Thread(target=go_on.wait, daemon=True)
            self._thread.start()
            self.live = SimpleNamespace(close=partial(released.append, "parameters"))  # type: ignore[assignment]
            self._standard = self._diagnosis = None
            self._changing = threading.Lock()

    node = Hanging()
    with pytest.raises(ServoError, match=r"has not ended 0\.05 s after it was told to"):
        node.on_cleanup(SimpleNamespace())  # type: ignore[arg-type]
    assert not released
    go_on.set()
    node.on_cleanup(SimpleNamespace())  # type: ignore[arg-type]
    assert released == ["parameters", "topics"]


def test_messages_that_cannot_be_used_are_counted_in_few_lines() -> None:
    said: list[str] = []
    log = SimpleNamespace(warning=said.append)
    told: list[tuple[str, int, str]] = []
    node: Any = SimpleNamespace(refused=5, _unusable=0, get_logger=lambda: log, next_tick=lambda: 7)
    node.publish_event = lambda *event: told.append(event)
    for _ in range(1000):
        ServoNode.refuse(node, MessageError("tick 7: nan"))
    assert (node.refused, len(said)) == (1005, 10)
    assert said[0] == "refused: tick 7: nan" and said[-1] == "refused: tick 7: nan (512 messages so far)"
