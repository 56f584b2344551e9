"""The recorder node: where messages are delivered to it, and how many its queues hold."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from conftest import ROOT

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

from haptics.msg import TrialEvent
from rclpy.serialization import serialize_message
from test_nodes import Bench, bench, configured, device_state, tool_command, tool_state  # noqa: F401

from haptic_bench.catalogue import config_folder
from haptic_bench.nodes import recorder
from haptic_bench.nodes.recorder import Delivery
from haptic_bench.recording.trial_bag import read_messages
from haptic_ros.trial import ServoError
from haptic_sim.messages import DeviceCommand, DeviceState, MessageError, ToolCommand, ToolSizes, ToolState, columns


@pytest.fixture
def placed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The cores that delivery was given, one call after the other, on a machine of which it may use three."""
    found: list[tuple[int, ...]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2, 5})
    monkeypatch.setattr(recorder, "prioritise_delivery", lambda _, cores: found.append(tuple(sorted(cores))))
    return found


def test_delivery_shares_the_servo_threads_core_and_leaves_it_while_nothing_comes(
    placed: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    delivery = Delivery(1000.0)
    delivery.place(True)
    assert placed == [(5,)]
    assert delivery.patience(3.0) == pytest.approx(0.032)  # of the 128 ticks that the middleware's queue holds
    assert delivery.patience(0.01) == 0.01
    delivery.place(False)
    assert placed[1:] == [(0, 2, 5)]
    assert delivery.patience(3.0) == 3.0
    for clock[0] in (100.1, 101.0):
        delivery.place(True)
        delivery.place(False)
    assert placed[2:] == []
    clock[0] = 101.01
    delivery.place(False)
    assert placed[2:] == [(5,)]


def test_on_a_single_core_there_is_nothing_to_choose(
    placed: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    delivery = Delivery(500.0)
    delivery.place(False)
    assert placed == [(), (3,)]


def recorded_late(node: Any, monkeypatch: pytest.MonkeyPatch, late: float) -> tuple[int, str]:
    """Record two ticks, of which the last command comes so long after the end [s]; complete ticks, and what is lost."""
    clock, begun = [100.0], []
    rest = DeviceCommand()

    def send(tick: int) -> None:
        rest.stamp(tick, 0)
        node.receive("device_command", rest.to_bytes())

    def listen(timeout: float) -> bool:
        if not begun:
            begun.append(clock[0])
            node.receive("tool_state", tool_state(-1))
            for tick in (0, 1):
                for topic, message in (("device_state", device_state), ("tool_command", tool_command)):
                    node.receive(topic, message(tick))
                node.receive("tool_state", tool_state(tick))
            send(0)
            node.receive("device_state", device_state(2))
            node.receive("trial_events", serialize_message(TrialEvent(node="driver", name="finished", tick=2)))
            return True
        clock[0] += timeout
        assert clock[0] < begun[0] + 60.0, "the recorder waits for ever"
        if not node.realtime:
            node.receive("device_state", device_state(2))  # which the driver repeats until the bag is closed
            node.receive("tool_state", tool_state(0))  # as a local model does with one of which no survey has come
        send(0)  # as a controller of the user's own may
        if clock[0] > begun[0] + late:
            send(1)
        return True

    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr(node, "listen", listen)
    try:
        node._record()
    except ServoError as error:
        return node._bag.complete, str(error)
    finally:
        monkeypatch.undo()
    return node._bag.complete, ""


@pytest.mark.parametrize("mode", ["lockstep", "realtime"])
def test_a_backlog_is_recorded_however_long_it_takes_and_the_leader_knows_how_far(
    bench: Bench,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
) -> None:
    """A recorder with a small share of its core takes 2 s for each tick here, of which it has heard of the end before.

    In lockstep 6 ticks come in longer than what was lost is waited for.
    """
    node = configured(bench.node("recorder", "environment.publish=null", change={"mode": mode}))
    clock, coming, said = [100.0], list(range(6)), []
    rest = DeviceCommand()

    def listen(timeout: float) -> bool:
        if not coming:
            clock[0] += timeout
            return False
        clock[0] += 2.0
        tick = coming.pop(0)
        if tick == 0:
            node.receive("trial_events", serialize_message(TrialEvent(node="driver", name="finished", tick=6)))
            node.receive("tool_state", tool_state(-1))
        node.receive("device_state", device_state(tick))
        node.receive("tool_command", tool_command(tick))
        node.receive("tool_state", tool_state(tick))
        rest.stamp(tick, 0)
        node.receive("device_command", rest.to_bytes())
        if not coming:
            node.receive("device_state", device_state(6))
        return True

    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr(node, "listen", listen)
    monkeypatch.setattr(node, "publish_event", lambda name, tick=-1, detail="": said.append((name, tick)))
    node._record()
    monkeypatch.undo()
    assert said == [*(("recorded", done) for done in range(2, 7)), ("closed", 6)]


@pytest.mark.parametrize(("last", "tick"), [(1, 2), (5, 2)], ids=["finished", "interrupted"])
def test_an_answer_to_the_state_after_the_trial_keeps_no_recorder_from_its_end(
    bench: Bench,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    last: int,
    tick: int,
) -> None:
    """A controller of the user's own does not know which tick is the last; the driver repeats its state to the end."""
    change = {"last_tick": last}
    node = configured(bench.node("recorder", "environment.publish=null", change=change))
    said, rest = [], DeviceCommand()

    def listen(timeout: float) -> bool:
        assert len(said) < 20, "the recorder waits for ever"
        if node._end is None:
            node.receive("tool_state", tool_state(-1))
            for k in range(tick + 1):
                node.receive("device_state", device_state(k))
                node.receive("tool_command", tool_command(k))
                node.receive("tool_state", tool_state(k))
                rest.stamp(k, 0)
                node.receive("device_command", rest.to_bytes())
            name = "finished" if tick > last else "interrupted"
            node.receive("trial_events", serialize_message(TrialEvent(node="driver", name=name, tick=tick)))
        node.receive("device_state", device_state(tick))
        return True

    monkeypatch.setattr(node, "listen", listen)
    monkeypatch.setattr(node, "publish_event", lambda name, tick=-1, detail="": said.append((name, tick)))
    node._record()
    complete = min(tick + 1, last + 1)
    assert said == [("closed", complete)]
    (messages,) = (one for name, one in read_messages(Path(node.config.directory)).items() if name == "tool_state")
    assert len(messages) == 1 + complete


@pytest.mark.parametrize("name", ["finished", "interrupted"])
def test_events_keep_no_recorder_from_its_end(bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str) -> None:  # noqa: F811
    """A message is lost, and each event that the recorder publishes comes back to it: it waits no longer for that."""
    node = configured(bench.node("recorder", "environment.publish=null", change={"mode": "realtime"}))
    clock, said = [100.0], []

    def listen(timeout: float) -> bool:
        clock[0] += 0.001
        assert clock[0] < 200.0
        if node._end is None:
            node.receive("tool_state", tool_state(-1))
            node.receive("device_state", device_state(0))
            node.receive("trial_events", serialize_message(TrialEvent(node="driver", name=name, tick=6)))
        else:
            node.receive("trial_events", serialize_message(TrialEvent(node="recorder", name="recorded", tick=0)))
        return True

    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr(node, "listen", listen)
    monkeypatch.setattr(node, "publish_event", lambda event, tick=-1, detail="": said.append(event))
    node._record()
    monkeypatch.undo()
    assert said[-1] == "closed" and len(said) <= 2


@pytest.mark.parametrize(
    ("mode", "late", "complete", "said"),
    [
        ("lockstep", 6.5, 2, ""),
        ("lockstep", 8.5, 1, "the bag is incomplete from tick 1 on: device_command 1 was lost"),
        ("realtime", 0.3, 2, ""),
        ("realtime", 0.7, 1, ""),
    ],
)
def test_what_was_lost_of_the_last_tick_is_waited_for_as_long_as_it_takes_to_be_sent_again(
    bench: Bench,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    late: float,
    complete: int,
    said: str,
) -> None:
    """In lockstep two heartbeats of the middleware, of 3 s each; in realtime, where a message may be lost, 0.5 s."""
    node = configured(bench.node("recorder", "environment.publish=null", change={"mode": mode}))
    assert recorded_late(node, monkeypatch, late) == (complete, said)


@pytest.mark.parametrize(
    ("mode", "rate", "depth"), [("realtime", 4000, 8000), ("realtime", 100, 1000), ("lockstep", 4000, 1000)]
)
def test_queues_hold_two_seconds_in_realtime(bench: Bench, mode: str, rate: int, depth: int) -> None:  # noqa: F811
    node = configured(bench.node("recorder", f"rate={rate}", change={"mode": mode}))
    for topic in ("device_state", "tool_command", "tool_state", "device_command"):
        assert node.transport.subscriptions[topic].qos_profile.depth == depth


def test_the_profile_for_a_recorder_that_stands_still_holds_two_seconds_of_messages_at_1_khz() -> None:
    """Each process has room for what it sends (the controller two messages), the recorder's queue for all four."""
    root = ElementTree.parse(config_folder() / "fastdds_recording.xml").getroot()
    values = {element.tag.rpartition("}")[2]: element.text for element in root.iter()}
    ticks, overhead = 2000, 256  # [B] of RTPS and of shared memory for a message
    states = ToolState(q=64, v=64), ToolCommand(), DeviceState(), DeviceCommand()
    assert int(values["port_queue_capacity"] or 0) >= ticks * len(states)
    assert int(values["segment_size"] or 0) >= ticks * max(len(one.to_bytes()) + overhead for one in states)


def test_only_the_leader_ends_the_recording(bench: Bench) -> None:  # noqa: F811
    node = configured(bench.node("recorder"))
    for name in ("finished", "interrupted"):
        node.receive("trial_events", serialize_message(TrialEvent(node="controller", name=name, tick=2)))
        assert node._end is None
        node.receive("trial_events", serialize_message(TrialEvent(node="driver", name=name, tick=2)))
        assert node._end.name == name
        node._end = None


def test_what_came_too_early_in_lockstep_is_not_what_was_used(bench: Bench) -> None:  # noqa: F811
    """A controller of the user's own sends commands of later ticks, which are refused, before the right ones."""
    node = configured(bench.node("recorder", "environment.publish=null"))
    rest = DeviceCommand()
    with pytest.raises(MessageError, match="tool_command -5: must be at least -1"):
        node.receive("tool_command", tool_command(-5))
    node.receive("tool_state", tool_state(-1))
    for tick in range(3):
        node.receive("device_state", device_state(tick))
        node.receive("tool_command", tool_command(tick, force=0.5))
        node.receive("tool_command", tool_command(tick + 2, force=7.0))
        node.receive("tool_state", tool_state(tick))
        rest.stamp(tick, 0)
        node.receive("device_command", rest.to_bytes())
    assert node._bag.complete == 3
    node._bag.close("interrupted", 3)
    (commands,) = (one for name, one in read_messages(Path(node.config.directory)).items() if name == "tool_command")
    assert columns(ToolCommand(), commands)["wrench"][:, 0].tolist() == [0.5] * 3


def test_a_state_of_another_tool_is_not_recorded(bench: Bench) -> None:  # noqa: F811
    """An environment of the user's own changes the number of coordinates: the bag could not be read any more.

    Directions of constraints come and go with a linkage.
    """
    external = str(ROOT / "examples" / "external_environment" / "external_mass.yaml")
    node = configured(bench.node("recorder", of=external))
    state = ToolSizes(*node.config.tool_sizes).tool_state()
    state.stamp(-1, 0)
    node.receive("tool_state", state.to_bytes())
    state.stamp(0, 0)
    with pytest.raises(MessageError, match=r"ToolState: .* bytes: must be"):
        node.receive("tool_state", state.to_bytes()[:-8])
    other = ToolState(q=state.q.size + 1, v=state.v.size, constraint_directions=36)
    other.stamp(0, 0)
    with pytest.raises(MessageError, match=r"ToolState: .* bytes: must be"):
        node.receive("tool_state", other.to_bytes())
    assert not node._bag.holds("tool_state", 0)
    fewer = ToolState(q=state.q.size, v=state.v.size, constraint_directions=36)
    fewer.stamp(0, 0)
    fewer.resize(6)
    node.receive("tool_state", fewer.to_bytes())
    assert node._bag.holds("tool_state", 0)


def looks(node: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """What lets a recorder look for 3.5 s whether the trial goes on, by a clock of the test."""
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])

    def look() -> None:
        for _ in range(70):
            clock[0] += 0.05
            node._report_stall()

    return look


def test_the_leader_is_told_what_has_not_come_of_a_tick_that_does_not_go_on(
    bench: Bench,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = configured(bench.node("recorder", "environment.publish=null"))
    look, said = looks(node, monkeypatch), list[Any]()
    monkeypatch.setattr(node, "publish_event", lambda *event: said.append(event))
    node.receive("tool_state", tool_state(-1))
    look()
    node.receive("device_state", device_state(0))
    look()
    node.receive("tool_command", tool_command(0))
    look()
    monkeypatch.undo()
    assert said == [
        ("absent", 0, "device_state 0 of driver"),
        ("absent", 0, "tool_command 0 of controller"),
        ("absent", 0, "tool_state 0 of environment"),
    ]


def test_a_tick_without_which_others_go_on_is_logged_once(
    bench: Bench,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = configured(bench.node("recorder", "environment.publish=null"))
    look, said = looks(node, monkeypatch), list[Any]()
    monkeypatch.setattr(node, "get_logger", lambda: SimpleNamespace(error=said.append))
    node.receive("tool_state", tool_state(-1))
    look()
    assert not said  # the trial stands still
    for tick in range(recorder.ACKNOWLEDGE + 1):
        node.receive("device_state", device_state(tick))
    look()
    look()
    monkeypatch.undo()
    (text,) = said
    assert text.startswith(
        "tick 0 is not complete: tool_command 0, tool_state 0, device_command 0 has not come, "
        f"the newest message is of tick {recorder.ACKNOWLEDGE}; "
    )
