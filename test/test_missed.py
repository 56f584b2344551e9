"""Realtime trials that missed ticks, or whose topics somebody else publishes on: what is said, and what is recorded."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import Haptics, processes_of, wait_until

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

from graph_checks import started, ticks_of, topics  # noqa: E402
from haptics import msg  # noqa: E402
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy  # noqa: E402
from test_graph import observer, settings  # noqa: E402, F401

from haptic_bench.analysis.health import Missed  # noqa: E402
from haptic_bench.experiment import HealthParameters  # noqa: E402

EVENT_QOS = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)
SERVO_QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)


@pytest.mark.parametrize(
    ("missed", "samples", "failed", "undecided"),
    [
        (0, 1000, False, False),
        (20, 1000, False, False),  # the limit itself is allowed
        (21, 1000, False, True),
        (0, 979, False, True),  # what is not recorded was not measured
        (200, 1000, False, True),
        (201, 800, True, True),
        (0, 0, True, True),
    ],
)
def test_what_was_missed_decides_about_the_trial(missed: int, samples: int, failed: bool, undecided: bool) -> None:
    found = Missed.of(HealthParameters(), {"executed": 1000, "missed": missed}, samples)
    assert found is not None
    assert (found.too_many, found.undecides) == (failed, undecided)
    assert Missed.of(HealthParameters(), {}, samples) is None
    assert found.notice(claims=True) == f"{found.notice(claims=False)}, so its claims are undecided"


def test_a_foreign_publisher_is_named_in_the_reason() -> None:
    """While it is there nobody is heard, so that ticks have no answer: found by the campaign."""
    timing = {"executed": 1000, "missed": 990, "foreign_messages": 465}
    found = Missed.of(HealthParameters(), timing, 1000)
    assert found is not None
    assert found.reason.endswith("of them; its topics had a foreign publisher (465 messages refused)")


@pytest.mark.exhaustive
def test_a_trial_whose_controller_stood_still_has_failed(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    """Of 10 s it stands until 3 s of ticks have had no answer: more than the fifth that is allowed."""
    out = tmp_path / "out"
    arguments = ("--mode", "realtime", "--duration", "10", *settings("rate=200"))
    run = haptics("run", "corner_peg", *arguments, "--out", str(out))
    wait_until(started(out), "the first chunk")
    (controller,) = [pid for pid in processes_of(str(out)) if pid in processes_of("__node:=controller ")]
    os.kill(controller, signal.SIGSTOP)
    try:
        assert run.wait() == 1, run.out
    finally:
        with_controller = processes_of("__node:=controller ")
        if controller in with_controller:
            os.kill(controller, signal.SIGCONT)
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "failed" and "health.missed_share = 0.2" in summary["reason"]
    assert 0.2 < summary["missed_share"] <= 1.0
    assert {claim["holds"] for claim in summary["claims"]} == {None}
    assert "had no answer in time" in run.err and "undecided" in run.err
    assert "undecided" in (out / "report.html").read_text()


@contextmanager
def flooding(node: Any, namespace: str, rate: float = 500.0, **kinds: Any) -> Iterator[None]:
    """A foreign publisher on some topics of a trial, `rate` times a second."""
    publishers = []
    for topic, kind in kinds.items():
        message = kind()
        message.header.frame_id = "world"
        message.tick = 2**40
        publishers.append((node.create_publisher(kind, f"{namespace}/{topic}", SERVO_QOS), message))

    def publish() -> None:
        for publisher, message in publishers:
            publisher.publish(message)

    timer = node.create_timer(1.0 / rate, publish)
    try:
        yield
    finally:
        timer.cancel()  # the publishers end with their node: its executor spins


@pytest.mark.exhaustive
def test_what_the_driver_says_is_recorded_whatever_else_is_published(
    haptics: Callable[..., Haptics],
    tmp_path: Path,
    observer: Any,  # noqa: F811
) -> None:
    out = tmp_path / "out"
    arguments = (
        "--mode",
        "realtime",
        "--duration",
        "8",
        *settings("rate=200", "analysis=trial"),
        "--namespace",
        "flooded",
    )
    run = haptics("run", "corner_peg", *arguments, "--out", str(out))
    wait_until(started(out), "the first chunk")
    with flooding(observer, "/flooded", device_state=msg.DeviceState, device_command=msg.DeviceCommand):
        assert run.wait() == 1, run.out
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "failed" and "health.missed_share" in summary["reason"]
    assert summary["timing"]["foreign_messages"] > 100
    assert "messages of a foreign publisher" in run.err
    ticks = ticks_of(topics(out), "device_state")
    assert max(ticks) <= 1601 and len(ticks) + summary["timing"]["lost_messages"] >= 1601


@pytest.mark.exhaustive
def test_a_foreign_publisher_before_the_start_is_said_and_waited_for(
    haptics: Callable[..., Haptics],
    tmp_path: Path,
    observer: Any,  # noqa: F811
) -> None:
    out = tmp_path / "out"
    arguments = (
        "--mode",
        "realtime",
        "--duration",
        "0.5",
        *settings("rate=200", "analysis=trial"),
        "--namespace",
        "taken",
    )
    with flooding(observer, "/taken", 50.0, device_command=msg.DeviceCommand):
        run = haptics("run", "corner_peg", *arguments, "--out", str(out))
        assert run.wait() == 1, run.out
    assert "haptics: device_command has a foreign publisher (/observer)" in run.err
    assert "not started: device_command has a foreign publisher" in run.err


@pytest.mark.exhaustive
def test_a_foreign_publisher_in_the_course_of_a_trial_is_said_at_once(
    haptics: Callable[..., Haptics],
    tmp_path: Path,
    observer: Any,  # noqa: F811
) -> None:
    out = tmp_path / "out"
    arguments = (
        "--mode",
        "realtime",
        "--duration",
        "3000",
        *settings("rate=200", "analysis=trial"),
        "--namespace",
        "late",
    )
    run = haptics("run", "corner_peg", *arguments, "--out", str(out))
    wait_until(started(out), "the first chunk")
    said = "device_command has a foreign publisher (/observer): while it is there, messages of this topic are refused"
    with flooding(observer, "/late", 50.0, device_command=msg.DeviceCommand):
        wait_until(lambda: said in (out / "log" / "driver.log").read_text(), "that it is said")
        assert run.process.is_alive()
        run.interrupt()
        assert run.wait() == 130, run.err
    assert run.err.count(f"haptics: {said}\n") == 1


@pytest.mark.parametrize(
    "flags",
    [["lockstep"], pytest.param(["realtime", "--composed"], marks=pytest.mark.exhaustive)],
    ids=["lockstep", "composed"],
)
def test_events_that_another_publishes_are_no_events_of_the_trial(
    haptics: Callable[..., Haptics],
    tmp_path: Path,
    observer: Any,  # noqa: F811
    flags: list[str],
) -> None:
    """They can neither end it nor its recording, nor change what the bag says."""
    out = tmp_path / "out"
    arguments = (
        "--mode",
        *flags,
        "--duration",
        "3000",
        *settings("rate=200", "analysis=trial"),
        "--namespace",
        "forged",
    )
    run = haptics("run", "corner_peg", *arguments, "--out", str(out))
    wait_until(started(out), "the first chunk")
    publisher = observer.create_publisher(msg.TrialEvent, "/forged/trial_events", EVENT_QOS)
    for node in ("driver", "recorder"):
        for name in ("deactivated", "finished", "changed", "closed"):
            publisher.publish(msg.TrialEvent(node=node, name=name, tick=7, detail="{}"))
    refused = "refused: trial_events has a foreign publisher"
    for node in ("driver", "recorder"):
        wait_until(lambda node=node: refused in (out / "log" / f"{node}.log").read_text(), f"{node} to refuse")
    size = (out / "bag" / "bag_0.mcap").stat().st_size
    wait_until(lambda: (out / "bag" / "bag_0.mcap").stat().st_size > size + 200_000, "that it goes on")
    run.interrupt()
    assert run.wait() == 130, run.err
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "interrupted", summary
    (event,) = topics(out)["trial_events"].messages
    assert b"interrupted" in event
