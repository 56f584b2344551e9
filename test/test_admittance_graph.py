"""The admittance display as a ROS 2 graph: the bits of an offline run in lockstep, and what holds on the clock."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Haptics, sampled

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

import graph_checks as graph

from haptic_bench import experiment
from haptic_bench.analysis import tracking
from haptic_bench.recording.samples import MessageStore, of_trial
from haptic_bench.recording.trial_bag import read_messages
from haptic_bench.replay.resimulation import Verdict, resimulate
from haptic_bench.running.offline import simulate

DISPLAY = ("--set", "device.type=admittance")


def run(haptics: Callable[..., Haptics], name: str, out: Path, *arguments: str) -> dict[str, object]:
    """The summary of a run on the display."""
    one = haptics("run", name, *DISPLAY, "--out", str(out), *arguments)
    assert one.wait() == 0, one.err
    summary: dict[str, object] = json.loads((out / "summary.json").read_text())
    return summary


@pytest.mark.parametrize("name", sampled(["rolling_disk", "two_link_circle", "disk_on_sphere"], "rolling_disk"))
@pytest.mark.exhaustive
def test_lockstep_and_offline_give_the_same_bits(haptics: Callable[..., Haptics], tmp_path: Path, name: str) -> None:
    graph.check_lockstep_is_offline(haptics, tmp_path, name, *DISPLAY, "--duration", "0.25")


@pytest.mark.exhaustive
@pytest.mark.parametrize("flags", [(), ("--composed",)], ids=["graph", "composed"])
def test_on_the_clock_the_device_follows_and_the_trial_simulates_again(
    haptics: Callable[..., Haptics], tmp_path: Path, flags: tuple[str, ...]
) -> None:
    """At 200 Hz; each core's recorded inputs give its recorded outputs, though ticks may have been missed."""
    out = tmp_path / "out"
    slow = ("--duration", "1", "--set", "rate=200", "--set", "analysis=trial", "--set", "health.missed_share=1")
    # poles at 50/s: those of 200/s, as it comes, are too fast for this rate
    gains = {"proportional": 7500, "integral": 125000, "derivative": 150}
    slow += tuple(each for name, gain in gains.items() for each in ("--set", f"controller.{name}={[gain] * 6}"))
    run(haptics, "rolling_disk", out, "--mode", "realtime", *flags, *slow)
    trial, recorded = experiment.read_resolved(out / "experiment.yaml"), read_messages(out)
    verdict = resimulate(trial, recorded)
    graph.check_simulated_again(recorded, verdict)
    position, _ = tracking.errors(of_trial(trial, recorded))
    assert np.abs(position).max() < 5e-3  # whatever the clock did


def test_a_verdict_that_left_something_out_is_found() -> None:
    """What `check_simulated_again` is for: whole trials, one with a lost message, and verdicts that say too little."""
    (trial,) = experiment.load("rolling_disk", ["device.type=admittance", "analysis=trial"], 0.2)
    store = MessageStore()
    simulate(trial, store)
    graph.check_simulated_again(store.messages, resimulate(trial, store.messages))
    with pytest.raises(AssertionError):
        graph.check_simulated_again(store.messages, Verdict(400))
    with pytest.raises(AssertionError, match="device_command 7 is lost"):
        graph.check_simulated_again(
            store.messages, Verdict(2000, "", ["device_state from 8: device_command 7 is lost"])
        )
    del store.messages["tool_command"][50]
    verdict = resimulate(trial, store.messages)
    graph.check_simulated_again(store.messages, verdict)
    with pytest.raises(AssertionError):
        graph.check_simulated_again(store.messages, Verdict(verdict.compared))
