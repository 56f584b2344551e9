"""Trials with several hands as real processes: the bits of an offline run, their files, their end."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Haptics, answer, processes_of, wait_until

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

import graph_checks as graph
from graph_checks import started

from haptic_bench.experiment import read_resolved
from haptic_bench.recording import bag, trial_bag
from haptic_bench.replay.resimulation import resimulate
from haptic_bench.running import namespaces
from haptic_sim.parameters import ParameterError

OF_HAND = {"device_state", "tool_command", "tool_state", "device_command"}


@pytest.mark.exhaustive
def test_lockstep_gives_the_bits_of_an_offline_run(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    """Until the hands have lifted the box."""
    arguments = ("run", "two_hands", "--duration", "1.2")
    run = haptics(*arguments, "--mode", "lockstep", "--out", str(tmp_path / "lockstep"))
    done = answer(*arguments, "--mode", "offline", "--out", str(tmp_path / "offline"))
    assert (run.wait(), done.status) == (0, 0), run.err + done.err
    graph.check_same_bits(tmp_path / "lockstep", tmp_path / "offline")
    expected = {f"/two_hands/{topic}" for topic in (*OF_HAND, "world_state", "trial_events")}
    expected |= {f"/two_hands/left/{topic}" for topic in OF_HAND}
    assert set(bag.read(tmp_path / "lockstep" / "bag")) == expected
    with (tmp_path / "lockstep" / "samples.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 601
    assert {"left_hand_px", "left_operator_tz", "left_command_fx", "left_rendered_fx", "left_env_tz"} <= set(rows[0])
    assert (float(rows[0]["left_hand_px"]), float(rows[0]["hand_px"])) == (-0.07, 0.07)
    verified = answer("replay", str(tmp_path / "lockstep"), "--verify")
    assert (verified.status, "identical" in verified.out) == (0, True), verified.err


@pytest.mark.exhaustive
def test_in_realtime_each_core_has_the_messages_of_its_hand(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    out = tmp_path / "o"
    arguments = ("--set", "rate=250", "--set", "health.missed_share=1", "--set", "analysis=trial")
    run = haptics("run", "two_hands", "--duration", "1", *arguments, "--mode", "realtime", "--out", str(out))
    assert run.wait() == 0, run.err
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert summary["status"] == "done" and summary["ticks"] > 0
    messages = trial_bag.read_messages(out)
    verdict = resimulate(read_resolved(out / "experiment.yaml"), messages)
    assert verdict.difference == "" and verdict.compared > 100
    assert len(messages["left/device_state"]) > 10


@pytest.mark.exhaustive
def test_an_interrupted_trial_is_closed_and_leaves_no_process(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    out = tmp_path / "o"
    arguments = ("--duration", "20", "--mode", "lockstep", "--set", "analysis=trial", "--out", str(out))
    run = haptics("run", "two_hands", *arguments)
    wait_until(started(out), "a first chunk")
    run.interrupt()
    assert run.wait() == 130, run.err
    assert processes_of(str(out)) == []
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert summary["status"] == "interrupted" and summary["ticks"] > 10
    verified = answer("replay", str(out), "--verify")
    assert verified.status == 0, verified.err + verified.out
    # what a killed recorder leaves is repaired
    (out / "bag" / "metadata.yaml").unlink()
    repaired = answer("repair", str(out))
    assert repaired.status == 0 and "repaired" in repaired.out, repaired.err + repaired.out


def test_a_namespace_is_taken_with_those_of_its_hands() -> None:
    """A trial whose namespace is where another trial has a hand would share its topics."""
    with (
        namespaces.claim("hands_taken/left", exactly=True),
        namespaces.claim("hands_taken", inside=("left",)) as other,
    ):
        assert other == "/hands_taken_2"
        with (
            pytest.raises(ParameterError, match="namespace /hands_taken_2/left: is taken"),
            namespaces.claim("hands_taken_2/left", exactly=True),
        ):
            pass
        with (
            pytest.raises(ParameterError, match="namespace /hands_taken/left: is taken"),
            namespaces.claim("hands_taken", exactly=True, inside=("left",)),
        ):
            pass
    with namespaces.claim("hands_taken", exactly=True, inside=("left",)) as free:
        assert free == "/hands_taken"


def test_a_composition_is_refused(tmp_path: Path) -> None:
    refused = answer("run", "two_hands", "--mode", "lockstep", "--composed", "--out", str(tmp_path / "o"))
    assert refused.status == 2 and "--composed: supports one hand only" in refused.err
    assert refused.err.count("\n") == 1
