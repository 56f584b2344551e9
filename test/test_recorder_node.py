"""The recorder node: where messages are delivered to it, and how many its queues hold."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

from test_nodes import Bench, bench, configured  # noqa: F401

from haptic_bench.nodes import recorder
from haptic_bench.nodes.recorder import Delivery


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


@pytest.mark.parametrize(
    ("mode", "rate", "depth"), [("realtime", 4000, 8000), ("realtime", 100, 1000), ("lockstep", 4000, 1000)]
)
def test_queues_hold_two_seconds_in_realtime(bench: Bench, mode: str, rate: int, depth: int) -> None:  # noqa: F811
    node = configured(bench.node("recorder", f"rate={rate}", change={"mode": mode}))
    for topic in ("device_state", "tool_command", "tool_state", "device_command"):
        assert node.transport.subscriptions[topic].qos_profile.depth == depth
