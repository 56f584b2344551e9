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
from rclpy.serialization import deserialize_message, serialize_message  # noqa: E402

from haptic_ros.inbox import AT_ONCE, Inbox, ServoGroup, subscribe  # noqa: E402
from haptic_ros.leader import RESEND, LeaderNode  # noqa: E402
from haptic_ros.peers import Peers  # noqa: E402
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


@pytest.mark.parametrize("traffic", [True, False])
def test_a_tick_without_an_answer_ends_the_trial_however_much_else_comes(
    monkeypatch: pytest.MonkeyPatch, traffic: bool
) -> None:
    """A node of the user's own that repeats an old answer, or publishes events, 10000 times a second."""
    clock, again = [100.0], []
    monkeypatch.setattr("time.monotonic", lambda: clock[0])

    def listen(timeout: float) -> bool:
        assert clock[0] < 200.0, "the leader waits for ever"
        clock[0] += 1e-3 if traffic else timeout
        return traffic

    leader: Any = SimpleNamespace(
        begin=lambda tick: None,
        answered=lambda: -1,
        stopping=False,
        listen=listen,
        config=SimpleNamespace(patience=10.0),
        again=lambda: again.append(clock[0]),
        _absent="tool_command 0 of controller",
        _refusals={"environment": "tool_command 5: must be 0"},
        _contested=str,
    )
    leader._given_up = partial(LeaderNode._given_up, leader)
    text = (
        r"^tick 0: no command within 10 s: tool_command 0 of controller has not come; "
        r"environment has refused tool_command 5: must be 0$"
    )
    with pytest.raises(ServoError, match=text):
        LeaderNode._tick(leader, 0)
    assert clock[0] == pytest.approx(110.0, abs=0.11) and len(again) == pytest.approx(199, abs=6)


@pytest.fixture
def leader(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a leader keeps of events, at 100 s."""
    made: Any = SimpleNamespace(
        config=SimpleNamespace(recorded=True, nodes=("driver", "controller", "recorder")),
        _ready=set(),
        _compiled=set(),
        _refusals={},
        _lacking={},
        _last_received=0.0,
        _recorded=0,
        _reported_at=0.0,
        _closed=False,
        _broken="",
        _absent="",
    )
    made._receive_of_recorder = partial(LeaderNode._receive_of_recorder, made)
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    return made


def told(leader: Any, node: str, name: str, tick: int = -1, detail: str = "") -> None:
    event = msg.TrialEvent(node=node, name=name, tick=tick, detail=detail)
    LeaderNode.receive_event(leader, serialize_message(event))


def test_only_the_recorder_says_what_is_recorded(leader: Any) -> None:
    told(leader, "controller", "recorded", 1000)
    told(leader, "controller", "closed", detail="no JSON")
    told(leader, "controller", "absent", 3, "tool_state 3 of environment")
    assert (leader._recorded, leader._reported_at, leader._closed, leader._absent) == (0, 0.0, False, "")
    told(leader, "recorder", "recorded", 16)
    told(leader, "recorder", "absent", 16, "tool_command 16 of controller")
    assert (leader._recorded, leader._reported_at) == (16, 100.0)
    assert leader._absent == "tool_command 16 of controller"
    told(leader, "recorder", "closed", detail='{"lost_messages": 2}')
    assert leader._closed and leader._lacking == {"lost_messages": 2}


@pytest.mark.parametrize(
    "event", [("controller", "ready"), ("controller", "compiling", -1, "wrench"), ("controller", "alive")]
)
def test_an_event_that_is_repeated_does_not_prolong_the_wait_for_a_start(leader: Any, event: tuple[Any, ...]) -> None:
    told(leader, *event)
    assert leader._last_received == (0.0 if event[1] == "alive" else 100.0)
    leader._last_received = 0.0
    told(leader, *event)
    assert leader._last_received == 0.0


def test_an_event_that_is_too_long_is_refused(leader: Any) -> None:
    """A megabyte in each tick displaces the messages of the ticks from the middleware's memory."""
    told(leader, "controller", "ready", detail="x" * 60_000)
    with pytest.raises(
        MessageError, match=r"trial_events: changed of controller: 10000\d\d bytes: must be at most 65536"
    ):
        told(leader, "controller", "changed", detail="x" * 1_000_000)


@pytest.mark.parametrize(
    ("missed", "answered", "said"),
    [
        (10, 99, []),
        (60, 99, ["environment has refused tool_command 7: not finite"]),
        (60, 49, ["no device_command has come after that of tick 49, of 100 ticks", "environment has refused"]),
        (100, -1, ["no device_command has come, of 100 ticks", "environment has refused"]),
    ],
)
def test_a_trial_in_realtime_says_why_many_ticks_had_no_answer(missed: int, answered: int, said: list[str]) -> None:
    texts: list[str] = []
    leader: Any = SimpleNamespace(
        _watch=SimpleNamespace(missed=lambda first, last: missed),
        answered=lambda: answered,
        notify=texts.append,
        _refusals={"environment": "tool_command 7: not finite"},
    )
    LeaderNode._explain(leader, 100)
    assert len(texts) == len(said) and all(text.startswith(one) for text, one in zip(texts, said, strict=True))


@pytest.mark.parametrize("endless", [False, True])
def test_a_leader_that_gives_up_tells_the_others_that_the_trial_has_ended(endless: bool) -> None:
    """A node of the user's own would wait for ever else; in a graph that only runs they wait for the next leader."""
    done: list[Any] = []

    def fail(tick: int) -> int:
        raise ServoError("tick 5: no command within 10 s")

    leader: Any = SimpleNamespace(
        raise_priority=lambda: None,
        resume=lambda tick: None,
        _first=0,
        _gather=lambda: True,
        _run=fail,
        release=lambda: done.append("released"),
        _done=5,
        endless=endless,
        publish_event=lambda *event: done.append(event),
        _closed=True,
    )
    leader._interrupt = partial(LeaderNode._interrupt, leader)
    with pytest.raises(ServoError, match="no command"):
        LeaderNode.serve(leader)
    said = [] if endless else [("interrupted", 5, "tick 5: no command within 10 s")]
    assert done == ["released", *said]


def test_a_node_that_cannot_be_heard_is_named_with_the_reason(nodes: list[Any]) -> None:
    """Of nodes of the trial: of another type, or with ROS 2's default quality of service, which is reliable."""
    listener, other = nodes
    node: Any = SimpleNamespace(config=SimpleNamespace(nodes=("listener", "left/other")), place=lambda topic: topic)
    for name in ("get_publishers_info_by_topic", "get_subscriptions_info_by_topic"):
        setattr(node, name, getattr(listener, name))
    peers = Peers(node)
    listener.create_publisher(msg.ToolState, "tool_state", EFFORT)
    other.create_subscription(msg.ToolState, "tool_state", print, EFFORT)
    other.create_subscription(msg.ToolState, "tool_state", print, 10)
    other.create_publisher(msg.DeviceState, "tool_command", EFFORT)
    wait_until(lambda: listener.count_subscribers("tool_state") == 2, "the subscriptions")
    wait_until(lambda: listener.count_publishers("tool_command"), "the publisher")
    expected = ["tool_state: other asks for reliable, volatile, listener offers best effort, volatile"]
    wait_until(
        lambda: peers.mismatched("tool_state", "haptics/msg/ToolState") == expected, "the one that asks for more"
    )
    assert peers.mismatched("tool_command", "haptics/msg/ToolCommand") == [
        "tool_command: other publishes haptics/msg/DeviceState: must be haptics/msg/ToolCommand"
    ]
    node.config.nodes = ("listener",)  # whoever only looks on may ask for what they like
    assert not peers.mismatched("tool_state", "haptics/msg/ToolState")


def test_messages_of_a_publisher_are_given_in_their_order(nodes: list[Any]) -> None:
    """Also where it becomes known between two of them."""
    listener, other = nodes
    deep = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
    known: list[bool | None] = [None]
    subscription = subscribe(listener, msg.TrialEvent, "ticks", deep, ServoGroup())
    inbox = Inbox(listener.context, {"ticks": subscription}, lambda topic, gid: known[0], ["ticks"])
    try:
        publisher = other.create_publisher(msg.TrialEvent, "ticks", deep)
        wait_until(publisher.get_subscription_count, "the subscription")
        given: list[int] = []

        def take() -> int:
            given.extend(deserialize_message(data, msg.TrialEvent).tick for _, data in inbox.wait(0.01))
            return len(given)

        publisher.publish(msg.TrialEvent(tick=0))
        wait_until(lambda: take() or inbox.unknown, "the first")
        inbox._asked = time.monotonic() + 1e3  # it is not asked again before the second has come
        known[0] = True
        publisher.publish(msg.TrialEvent(tick=1))
        wait_until(lambda: take() or inbox.unknown == 2, "the second")
        inbox._asked = 0.0
        wait_until(lambda: take() == 2, "both")
        assert given == [0, 1]
    finally:
        inbox.close()


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
    assert told[-1] == ("refused", 7, "tick 7: nan (512 messages so far)") and len(told) == 10
    assert said[0] == "refused: tick 7: nan" and said[-1] == "refused: tick 7: nan (512 messages so far)"
