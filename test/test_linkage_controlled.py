"""Linkages in an asynchronous environment; what it shares with `linkage_topology` is tested there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import graph_checks as graph
import numpy as np
import pytest
from conftest import Haptics

from haptic_bench import experiment
from haptic_bench.analysis.claims import Findings
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import MessageStore, Samples
from haptic_bench.running.offline import simulate
from haptic_experiments.linkage_controlled import ANALYSIS, NOT_THE_SOURCES


def trial(*settings: str) -> Trial:
    (only,) = experiment.load("linkage_controlled", settings)
    return only


def run(chosen: Trial) -> Samples:
    return ANALYSIS.run_unrecorded(chosen)


@pytest.fixture(scope="module")
def default() -> tuple[Trial, Samples, Findings]:
    chosen = trial()
    samples = run(chosen)
    return chosen, samples, ANALYSIS.analyse(chosen, samples)


def test_the_experiment_is_that_of_the_contract(default: tuple[Trial, Samples, Findings]) -> None:
    of, samples, _ = default[0].experiment, *default[1:]
    assert of.asynchronous
    np.testing.assert_array_equal([samples[f"q{i}"][0] for i in range(3)], [0.0, np.pi / 6, -np.pi / 3])
    np.testing.assert_array_equal(samples.wrench("operator")[0], [0.4, 0, 0, 0, 0, 0])
    assert samples["drift"][0] == 0.0
    assert of.controller.model_dump(include={"topology_stiffness", "topology_damping"}) == {
        "topology_stiffness": 200.0,
        "topology_damping": 50.0,
    }


def test_the_published_statements_and_what_became_of_them(default: tuple[Trial, Samples, Findings]) -> None:
    """Penalties do what is published; the drift without them is much smaller, whatever dynamics are held."""
    _, _, findings = default
    assert {claim.name: claim.holds for claim in findings.claims} == {
        "printed_distal": True,
        "printed_middle": True,
        "boundary_distal": False,
        "boundary_middle": False,
        "surveyed_explains": False,
        "consistent_distal": True,
        "consistent_middle": True,
        "missing_terms": True,
    }
    drifts = {claim.name: list(claim.measured.values()) for claim in findings.claims}
    np.testing.assert_allclose(drifts["surveyed_explains"], [0.212e-3, 0.208e-3], rtol=5e-3)  # type: ignore[arg-type]
    np.testing.assert_allclose(drifts["printed_distal"], [10.98e-3, 0.48e-3], rtol=5e-3)  # type: ignore[arg-type]
    for hold in ("distal", "middle"):
        assert max(drifts[f"consistent_{hold}"][1:]) < 2e-5  # type: ignore[type-var,operator]  # of discrete time
    assert all("reason" not in claim for claim in findings.summary()["claims"])


def test_with_exact_dynamics_it_is_not_the_experiment_of_the_source() -> None:
    chosen = trial("local_model.dynamics=current", "duration=0.8")
    claims = ANALYSIS.analyse(chosen, run(chosen)).claims
    for claim in claims:
        published = claim.name.startswith(("printed_", "boundary_"))
        assert claim.reason == (NOT_THE_SOURCES if published else "")
        assert claim.holds is None or not published


@pytest.mark.parametrize(
    "settings",
    [("environment.rate=10",), ("environment.rate=256",), ("local_model.type=none", "environment.rate=null")],
)
def test_with_exact_dynamics_the_rate_of_the_environment_changes_no_bit(settings: tuple[str, ...]) -> None:
    """The local model has the whole arm: only walls would tell."""
    current = "local_model.dynamics=current"
    samples = run(trial(current))
    other = run(trial(*(() if "local_model.type=none" in settings else (current,)), *settings))
    for name in ("drift", "tool_px", "tool_py", "hand_px", "hand_py", "q0", "q1", "q2"):
        np.testing.assert_array_equal(samples[name], other[name])


def test_with_the_dynamics_of_updates_their_rate_changes_the_motion(default: tuple[Trial, Samples, Findings]) -> None:
    """They leave out Coriolis forces, so that not even an update in each tick moves it as exact dynamics do."""
    settings = (("environment.rate=10",), ("environment.rate=512",), ("local_model.dynamics=current",))
    ends = [default[1]["q0"][-1], *(run(trial(*one))["q0"][-1] for one in settings)]
    assert np.diff(np.sort(ends)).min() > 1e-4  # [rad]


def test_local_geometry_comes_at_the_environments_rate() -> None:
    store = MessageStore()
    simulate(trial("duration=0.5"), store)
    assert len(store.messages["local_geometry"]) == pytest.approx(0.5 * 60, abs=2)


@pytest.mark.exhaustive
def test_lockstep_and_offline_give_the_same_bits(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    settings = ("--set", "tool.hold=middle", "--duration", "0.8", "--set", "analysis=trial")
    graph.check_lockstep_is_offline(haptics, tmp_path, "linkage_controlled", *settings)
