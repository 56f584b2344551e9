"""Linkages in an asynchronous environment; what it shares with `linkage_topology` is tested there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import graph_checks as graph
import numpy as np
import pytest
from conftest import Haptics

from haptic_bench import experiment
from haptic_bench.analysis.claims import Analysis
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import MessageStore, Samples
from haptic_bench.running.offline import simulate
from haptic_bench.studies.linkage_controlled import NOT_THE_SOURCES, STUDY


def trial(*settings: str) -> Trial:
    (only,) = experiment.load("linkage_controlled", settings)
    return only


def run(chosen: Trial) -> Samples:
    return STUDY.run_unrecorded(chosen)


@pytest.fixture(scope="module")
def default() -> tuple[Trial, Samples, Analysis]:
    chosen = trial()
    samples = run(chosen)
    return chosen, samples, STUDY.analyse(chosen, samples)


def test_the_experiment_is_that_of_the_contract(default: tuple[Trial, Samples, Analysis]) -> None:
    of, samples, _ = default[0].experiment, *default[1:]
    assert of.asynchronous
    np.testing.assert_array_equal([samples[f"q{i}"][0] for i in range(3)], [0.0, np.pi / 6, -np.pi / 3])
    np.testing.assert_array_equal(samples.wrench("operator")[0], [0.4, 0, 0, 0, 0, 0])
    assert samples["drift"][0] == 0.0
    assert of.controller.model_dump(include={"topology_stiffness", "topology_damping"}) == {
        "topology_stiffness": 200.0,
        "topology_damping": 50.0,
    }


def test_the_published_statements_and_what_became_of_them(default: tuple[Trial, Samples, Analysis]) -> None:
    _, _, analysis = default
    assert {claim.name: claim.holds for claim in analysis.claims} == {
        "printed_distal": None,
        "printed_middle": None,
        "consistent_distal": True,
        "consistent_middle": True,
        "missing_terms": True,
    }
    drifts = {claim.name: list(claim.measured.values()) for claim in analysis.claims}
    for hold in ("distal", "middle"):
        assert drifts[f"printed_{hold}"][0] > 5 * drifts[f"printed_{hold}"][1]  # type: ignore[operator]
        assert max(drifts[f"consistent_{hold}"][1:]) < 2e-5  # type: ignore[type-var,operator]  # of discrete time
    for claim in analysis.summary()["claims"]:
        assert claim.get("reason", "") == (NOT_THE_SOURCES if claim["name"].startswith("printed_") else "")


@pytest.mark.parametrize(
    "settings",
    [("environment.rate=10",), ("environment.rate=256",), ("local_model.type=none", "environment.rate=null")],
)
def test_the_rate_of_the_environment_changes_no_bit(
    default: tuple[Trial, Samples, Analysis], settings: tuple[str, ...]
) -> None:
    """The local model has the whole arm: only walls would tell, so that this is not the experiment of THESIS."""
    _, samples, _ = default
    other = run(trial(*settings))
    for name in ("drift", "tool_px", "tool_py", "hand_px", "hand_py", "q0", "q1", "q2"):
        np.testing.assert_array_equal(samples[name], other[name])


def test_local_geometry_comes_at_the_environments_rate() -> None:
    store = MessageStore()
    simulate(trial("duration=0.5"), store)
    assert len(store.messages["local_geometry"]) == pytest.approx(0.5 * 60, abs=2)


def test_lockstep_and_offline_give_the_same_bits(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    settings = ("--set", "tool.hold=middle", "--duration", "0.8", "--set", "analysis=trial")
    graph.check_lockstep_is_offline(haptics, tmp_path, "linkage_controlled", *settings)
