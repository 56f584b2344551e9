"""Experiments of local models as a graph: lockstep is offline, and recorded updates give the same forces again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Haptics, answer, sampled
from graph_checks import check_lockstep_is_offline, check_simulated_again, topics

from haptic_bench import experiment
from haptic_bench.replay.resimulation import resimulate
from haptic_sim.messages import LocalGeometry, ToolCommand
from haptic_sim.tool.local_model import LocalModel

TRIALS = {
    "tight_hole": ("local_model.epsilon=0", "duration=0.6"),  # with a delay of the environment
    "static_wall": ("duration=0.7",),  # the wall is met at 0.5 s
    "tight_clearance": ("duration=0.4",),
    "clearance_stiff": ("duration=0.4",),
    "dynamic_contact": ("duration=0.5",),  # the environment has an arm
    "local_impacts": ("duration=0.7",),  # the tool is a link of one; it collides at 0.4 s
}


def settings(name: str) -> list[str]:
    """Of a short trial, for the command line."""
    return [word for setting in ("analysis=trial", *TRIALS[name]) for word in ("--set", setting)]


@pytest.mark.parametrize("name", sampled(TRIALS, "local_impacts"))
def test_lockstep_and_offline_give_the_same_bits(haptics: Callable[..., Haptics], tmp_path: Path, name: str) -> None:
    check_lockstep_is_offline(haptics, tmp_path, name, *settings(name))
    check_felt_again(tmp_path / "lockstep")


def check_felt_again(out: Path) -> None:
    """The updates of a bag, with the commands, give a local model of its own the wrenches of the bag, bit for bit."""
    trial = experiment.read_resolved(out / "experiment.yaml")
    model = trial.tool_side()
    assert isinstance(model, LocalModel)
    recorded = {name: topic.messages for name, topic in topics(out).items()}
    state, command = model.tool_state(), ToolCommand()
    geometry = LocalGeometry.of_layout(recorded["local_geometry"][0], 256)
    updates: dict[int, bytes] = {}
    for data in recorded["local_geometry"]:
        geometry.load(data)
        updates[geometry.tick] = data
    told, touched = -1, 0
    expected = model.tool_state()
    for sent, answered in zip(recorded["tool_command"], recorded["tool_state"][1:], strict=False):
        command.load(sent)
        expected.load(answered)
        assert expected.tick == command.tick
        if expected.geometry_tick != told:
            told = expected.geometry_tick
            geometry.load(updates[told])
            model.update(geometry, command.tick)
        model.step(command, state)
        np.testing.assert_array_equal(state.wrench, expected.wrench)
        touched += state.contacts > 0
    assert told > 0 and touched > 0


@pytest.mark.parametrize("name", sampled(["dynamic_contact", "local_impacts"]))
def test_a_realtime_trial_is_felt_again(haptics: Callable[..., Haptics], tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    slow = ("--set", "rate=256", "--set", "health.missed_share=1")  # on a machine that may stall
    run = haptics("run", name, "--mode", "realtime", *settings(name), *slow, "--out", str(out))
    assert run.wait() == 0, run.err
    recorded = {topic: found.messages for topic, found in topics(out).items()}
    check_simulated_again(recorded, resimulate(experiment.read_resolved(out / "experiment.yaml"), recorded))
    verify = answer("replay", str(out), "--verify")
    assert verify.status == 0, verify.out
