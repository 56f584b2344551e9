"""The peg whose constraints are switched: the claims of the experiment, its references, and its bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import graph_checks as graph
import numpy as np
import pytest
from conftest import Haptics, answer
from offline_runs import run_unrecorded
from world_builder import thesis_material

from haptic_bench import experiment
from haptic_bench.analysis.claims import Findings
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments import constrained_contact as analysis
from haptic_sim.contact.response import Rendering
from haptic_sim.parameters import ParameterError
from haptic_sim.tool.environment import Environment


def trial(*settings: str) -> Trial:
    (only,) = experiment.load("constrained_contact", settings)
    return only


@pytest.fixture(scope="module")
def default() -> tuple[Trial, Samples, Findings]:
    chosen = trial()
    samples = run_unrecorded(chosen)
    return chosen, samples, analysis.ANALYSIS.analyse(chosen, samples)


@pytest.mark.exhaustive
def test_all_claims_hold(default: tuple[Trial, Samples, Findings]) -> None:
    names = ["constraints_hold", "no_jump", "would_jump", "balance", "restitution", "no_overlap"]
    assert {claim.name: claim.holds for claim in default[2].claims} == dict.fromkeys(names, True)
    assert [statement.name for statement in analysis.CLAIMS] == names


@pytest.mark.exhaustive
def test_the_steepest_slope_goes_to_a_limit(default: tuple[Trial, Samples, Findings]) -> None:
    (claim,) = [claim for claim in default[2].claims if claim.name == "no_jump"]
    assert set(claim.measured) == {
        f"{kind}, {rate}" for kind in ("force", "torque") for rate in ("twice", "four times")
    }
    for ratio in claim.measured.values():
        assert ratio == pytest.approx(1.0, abs=0.05)


@pytest.mark.exhaustive
def test_constraints_are_met_from_the_end_of_their_fade_on(default: tuple[Trial, Samples, Findings]) -> None:
    _, samples, _ = default
    time = samples["time"]
    angle, x, y = samples["q2"], samples["tool_px"], samples["tool_py"]
    upright = (time > 0.9) & (time < 5.2)
    circle = (time > 1.602) & (time < 4.6)
    assert np.abs(np.sin(angle[upright])).max() < 1e-11
    assert np.abs(np.hypot(x, y - 0.1)[circle] - 0.09).max() < 1e-11
    assert samples["residual_holonomic"].max() < 1e-12


@pytest.mark.exhaustive
def test_forces_begin_and_end_at_zero(default: tuple[Trial, Samples, Findings]) -> None:
    _, samples, _ = default
    time = samples["time"]
    for column, on, off, fade in (("lambda2", 0.6, 5.2, 0.3), ("lambda4", 1.2, 4.6, 0.4)):
        values = np.abs(samples[column])
        assert values[time < on].max() == 0.0
        assert values[(time > off + fade + 0.01)].max() == 0.0
        assert (
            values[np.searchsorted(time, on) + 2] < 1e-2 * np.median(values[(time > on + fade) & (time < off)]) + 0.02
        )


@pytest.mark.parametrize("method", ["penalty", "impulse_augmented", "frictional_impulses", "hybrid"])
@pytest.mark.exhaustive
def test_constraints_hold_with_every_method(method: str) -> None:
    chosen = trial(f"environment.method={method}", "duration=3.5")
    found = analysis.ANALYSIS.analyse(chosen, run_unrecorded(chosen), compare=False)
    assert found.metrics["residual"] < analysis.RESIDUAL
    assert {claim.name: claim.holds for claim in found.claims}["no_jump"] is None


@pytest.mark.exhaustive
def test_switched_at_once_it_jumps(default: tuple[Trial, Samples, Findings]) -> None:
    chosen, _, findings = default
    abrupt = analysis.variant(chosen, analysis.ABRUPT)
    assert all(each.fade == 1e-3 for each in analysis.scene_of(abrupt.experiment).constraints.values())
    assert np.abs(findings.references[analysis.ABRUPT]["lambda4"]).max() > 100.0


def test_a_scene_without_constraints_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"needs scene\.constraints, and there are none"):
        trial("scene.constraints={}")


@pytest.mark.exhaustive
def test_lockstep_and_offline_give_the_same_bits(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    graph.check_lockstep_is_offline(haptics, tmp_path, "constrained_contact", "--duration", "1.8")


def test_constraints_that_cannot_be_met_end_with_2_and_their_name() -> None:
    circle = "scene.constraints.circle"
    settings = ["--set", f"{circle}.active=null", "--set", f"{circle}.radius=0.05"]
    run = answer("run", "constrained_contact", "--mode", "offline", *settings)
    assert run.status == 2
    assert "scene.constraints.circle: is not met at the start: residual" in run.err
    run = answer("run", "constrained_contact", "--mode", "offline", "--set", "scene.constraints.circle.body=pog")
    assert run.status == 2
    assert "scene.constraints.circle.body = pog: unknown body; did you mean peg? (known: " in run.err


@pytest.mark.parametrize("rendering", ["scaled", "spread"])
def test_impulses_are_not_limited_under_exact_constraints(rendering: Rendering) -> None:
    one = trial()
    with pytest.raises(ParameterError, match=f"impulse_rendering = {rendering}: .* needs full or saturated"):
        Environment(one.world, thesis_material(), "impulse_augmented", rendering, np.full(6, 15.0), 1000.0)
