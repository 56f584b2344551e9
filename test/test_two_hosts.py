"""Haptics on one host, dynamics on another: what decides the claims, and what an extrapolation is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import starting
from claim_checks import load, names
from conftest import Haptics, wait_until
from world_builder import thesis_material

from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments.two_hosts import ANALYSIS, DELAYS, KINDS, SYNCHRONOUS, label
from haptic_sim.messages import LocalGeometry, ToolCommand
from haptic_sim.parameters import ParameterError
from haptic_sim.tool.local_model.baselines import ExtrapolatedParameters, ExtrapolatedWrench

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")
pytest.register_assert_rewrite("graph_checks")

from test_relay_hosts import ADDRESSES, hosts  # noqa: E402, F401

Runs = tuple[Trial, dict[str, Samples]]


@pytest.fixture(scope="module")
def runs() -> Runs:
    own = load("two_hosts")
    return own, dict(ANALYSIS.analyse(own, ANALYSIS.run_unrecorded(own)).references)


def verdicts(own: Trial, runs: dict[str, Samples]) -> dict[str, bool | None]:
    return {claim.name: claim.holds for claim in ANALYSIS.judge(own, next(iter(runs.values())), runs).claims}


@pytest.mark.exhaustive
def test_the_claims_hold(runs: Runs) -> None:
    own, found = runs
    assert len(found) == len(KINDS) * len(DELAYS) + 1
    assert verdicts(own, found) == dict.fromkeys(names(ANALYSIS.CLAIMS), True)


def moved(millimetres: float) -> Callable[[Samples], Samples]:
    return lambda samples: samples.with_columns({"hand_px": samples["hand_px"] + 1e-3 * millimetres})


def shaken(samples: Samples) -> Samples:
    return samples.with_columns({"hand_vx": samples["hand_vx"] + 0.01})


def wrong(newtons: float) -> Callable[[Samples], Samples]:
    return lambda samples: samples.with_columns({"surveyed_fx": samples["env_fx"] + newtons})


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("claim", "run", "altered"),
    [
        ("hold_is_unstable", label("held", 0.002), shaken),
        (
            "hold_is_unstable",
            label("held", 0.05),
            lambda run: run.with_columns({"hand_vx": 0.0 * run["hand_vx"], "hand_vy": 0.0 * run["hand_vy"]}),
        ),
        ("line_is_nearer", label("extrapolated", 0.002), moved(1.0)),
        ("line_is_farther", label("extrapolated", 0.02), wrong(0.0)),
        ("error_grows", label("extrapolated", 0.01), wrong(0.0)),
        ("model_is_near", label("full", 0.05), moved(0.2)),
        ("model_is_stable", label("full", 0.01), shaken),
    ],
)
def test_a_claim_fails(runs: Runs, claim: str, run: str, altered: Callable[[Samples], Samples]) -> None:
    own, found = runs
    assert verdicts(own, found | {run: altered(found[run])})[claim] is False


@pytest.mark.exhaustive
def test_without_its_runs_a_claim_is_undecided(runs: Runs) -> None:
    own, found = runs
    assert {claim.holds for claim in ANALYSIS.judge(own, found[SYNCHRONOUS], {}).claims} == {None}
    without = {name: run for name, run in found.items() if name != SYNCHRONOUS}
    assert verdicts(own, without)["model_is_near"] is None


@pytest.mark.parametrize("setting", ["operator={type: constant, wrench: [1,0,0,0,0,0]}", "local_model.type=resolve"])
def test_what_is_no_such_trial_is_refused(setting: str) -> None:
    with pytest.raises(ParameterError, match="set analysis=trial"):
        load("two_hosts", setting)


def test_an_extrapolation_is_the_line_through_the_last_two_wrenches() -> None:
    """Of a wrench that is a line in time it is exact, however late the surveys are."""
    trial = load("two_hosts", "local_model.type=extrapolated")
    world = trial.world
    model = ExtrapolatedWrench(world, thesis_material(), 1000.0, ExtrapolatedParameters(), 0.002)
    state, command = model.tool_state(), ToolCommand()
    line, slope = np.array([1.0, -2.0, 0.0, 0.0, 0.0, 0.1]), np.array([0.01, 0.02, 0.0, 0.0, 0.0, -0.001])
    geometry = LocalGeometry(
        q=3, v=3, inertia=9, gravity=3, poses=model.observer.others, twists=model.observer.others, constraints=1
    )
    geometry.pose[6], geometry.inertia[:] = 1.0, np.eye(3).ravel()
    late = 7
    for tick in range(40):
        surveyed = tick - late
        if surveyed >= 0 and not surveyed % 2:
            geometry.stamp(surveyed, 0)
            geometry.wrench[:] = line + surveyed * slope
            model.update(geometry, tick)
        command.stamp(tick, 0)
        model.step(command, state)
        if surveyed >= 2:
            np.testing.assert_allclose(state.wrench, line + tick * slope, atol=1e-12)


def test_two_network_namespaces_are_one_system(
    hosts: dict[str, str],  # noqa: F811
    tmp_path: Path,
) -> None:
    """It runs when the nodes of both have found each other, and each side ends when it is told to."""
    sides, said = {}, tmp_path / "haptics.txt"
    for host, side, peer in (("world", "dynamics", "device"), ("device", "haptics", "world")):
        before = partial(starting.move_to, hosts[host], ADDRESSES[peer], str(tmp_path / f"{side}.txt"))
        arguments = ("start", "two_hosts", "--side", side, "--out", str(tmp_path / side))
        sides[side] = Haptics(*arguments, cwd=tmp_path, before=before)
    try:
        alive = sides["haptics"].process.is_alive
        wait_until(lambda: not alive() or (said.exists() and "is running" in said.read_text()), "both sides")
        assert "is running" in said.read_text()
        for side, process in sides.items():
            process.interrupt()
            assert process.wait() == 0, (tmp_path / f"{side}.txt").read_text()
    finally:
        for process in sides.values():
            process.process.kill()
