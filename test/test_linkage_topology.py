"""Linkages held by a link: what is measured of a trial, on samples with known answers and on the experiments.

Both experiments are the same analysis with other numbers: this file is about what they share, and about the first.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import graph_checks as graph
import numpy as np
import pytest
from conftest import Haptics, answer

from haptic_bench import experiment
from haptic_bench.analysis.claims import Findings
from haptic_bench.analysis.figures import Curve
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments.linkage_topology import ANALYSIS, SUBSTANTIAL, Variant, drift_at
from haptic_sim.dynamics.arms import three_links
from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.hand import Hand
from haptic_sim.parameters import ParameterError
from haptic_view.figures import Style


def trial(*settings: str, name: str = "linkage_topology") -> Trial:
    (only,) = experiment.load(name, settings)
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
    assert of.tool.model_dump(include={"lengths", "masses", "inertias", "hold", "rank_tolerance"}) == {
        "lengths": (0.042, 0.042, 0.03),
        "masses": (3.0, 3.0, 1.0),
        "inertias": (0.015, 0.015, 0.005),
        "hold": "distal",
        "rank_tolerance": 1e-3,
    }
    assert of.rate >= 512 and of.duration == 2.0 and len(samples) == of.last_tick + 1
    np.testing.assert_array_equal([samples[f"q{i}"][0] for i in range(3)], [np.pi / 4, np.pi / 6, -np.pi / 6])
    np.testing.assert_array_equal([samples[f"v{i}"][0] for i in range(3)], 0.0)
    np.testing.assert_allclose(samples["hand_px"][0] - samples["tool_px"][0], 0.005, atol=1e-15)
    np.testing.assert_allclose(samples["hand_py"][0] - samples["tool_py"][0], 0.003, atol=1e-15)
    np.testing.assert_array_equal(samples.wrench("operator")[0], [1, 0, 0, 0, 0, 0])


def test_columns_are_the_distance_and_the_rank_of_each_row(default: tuple[Trial, Samples, Findings]) -> None:
    """Directions are counted from NumPy's singular values of a Jacobian written by hand: THESIS (5.19) for any q2."""
    _, samples, findings = default
    away = samples.pose("hand")[:, :3] - samples.pose("tool")[:, :3]
    np.testing.assert_allclose(samples["drift"], np.linalg.norm(away, axis=1), rtol=0, atol=1e-15)
    a = np.cumsum([samples[f"q{i}"] for i in range(3)], axis=0)
    arms = np.array([0.042, 0.042, 0.015])[:, None]
    x, y = -arms * np.sin(a), arms * np.cos(a)
    J = np.array([[x[i:].sum(axis=0), y[i:].sum(axis=0), np.ones(len(samples))] for i in range(3)]).transpose(2, 1, 0)
    least = np.linalg.svd(J, compute_uv=False)[:, -1]
    np.testing.assert_allclose(samples["singular_value_0"], least, rtol=0, atol=1e-7)
    clear = np.abs(least - 1e-3) > 1e-6
    np.testing.assert_array_equal(samples["constraint_directions"][clear], (least < 1e-3)[clear])
    assert set(samples["constraint_directions"].tolist()) == {0, 1}  # intermittent, as published
    assert findings.metrics["blocked_part"] == pytest.approx((least < 1e-3).mean(), abs=2e-3)


@pytest.mark.parametrize(("hold", "count"), [("middle", 1), ("proximal", 2)])
def test_links_nearer_to_the_base_are_always_blocked(hold: str, count: int) -> None:
    samples = run(trial(f"tool.hold={hold}", "duration=0.2"))
    np.testing.assert_array_equal(samples["constraint_directions"], count)


def test_metrics_are_those_of_the_columns(default: tuple[Trial, Samples, Findings]) -> None:
    _, samples, findings = default
    assert findings.metrics["drift_1s"] == samples["drift"][1000]
    assert findings.metrics["drift_2s"] == samples["drift"][2000]
    assert findings.metrics["drift_largest"] == samples["drift"].max()
    assert drift_at(samples.until(0.5), 1.0) is None


def test_the_published_statements_and_what_became_of_them(default: tuple[Trial, Samples, Findings]) -> None:
    _, _, findings = default
    assert {claim.name: claim.holds for claim in findings.claims} == {
        "printed_distal": False,
        "printed_middle": True,
        "consistent_middle": True,
        "consistent_distal": True,
        "missing_terms": True,
    }
    drifts = {claim.name: list(claim.measured.values()) for claim in findings.claims}
    assert drifts["printed_distal"][1] / drifts["printed_distal"][0] == pytest.approx(0.575, abs=5e-3)  # type: ignore[operator]
    assert drifts["printed_middle"][0] > 5 * drifts["printed_middle"][1]  # type: ignore[operator]
    assert drifts["consistent_middle"][0] > 5 * drifts["consistent_middle"][1]  # type: ignore[operator]
    assert max(drifts["consistent_distal"][1:]) < 0.001 < 0.02 < drifts["consistent_distal"][0]  # type: ignore[type-var,operator]


def test_directions_that_fade_reduce_what_the_published_tolerance_does_not(
    default: tuple[Trial, Samples, Findings],
) -> None:
    """The published tolerance is a threshold; a direction that fades in above it acts longer."""
    abrupt, fading = default[1], run(trial("tool.rank_fade=1"))
    free = default[2].claims[0].measured["without penalties"]
    assert drift_at(abrupt, 2.0) == pytest.approx(0.0599, abs=5e-4)
    assert drift_at(fading, 2.0) == pytest.approx(0.0496, abs=5e-4)
    assert drift_at(fading, 2.0) < SUBSTANTIAL * free < drift_at(abrupt, 2.0)  # type: ignore[operator]


def test_references_are_all_variants_but_the_trial_itself(default: tuple[Trial, Samples, Findings]) -> None:
    chosen, _, findings = default
    own = Variant.of(chosen)
    assert own == Variant("distal", "printed", True)
    assert len(findings.references) == 7 and str(own) not in findings.references
    again = Variant("middle", "consistent", False)
    np.testing.assert_array_equal(
        findings.references[str(again)]["drift"],
        run(
            trial("tool.hold=middle", "controller.dynamics=consistent", "controller.topology_penalty=false")
        )["drift"],
    )  # fmt: skip
    assert len(ANALYSIS.combinations(trial("tool.hold=proximal"))) == 12


def test_short_trials_and_trials_without_references_decide_nothing() -> None:
    chosen = trial("duration=0.1")
    samples = run(chosen)
    for compare in (True, False):
        findings = ANALYSIS.analyse(chosen, samples, compare=compare)
        assert {claim.holds for claim in findings.claims} == {None}
    assert findings.metrics["drift_1s"] is None and findings.metrics["drift_largest"] is not None


@pytest.mark.parametrize("dynamics", ["printed", "consistent"])
def test_drift_does_not_hang_on_the_servo_rate(dynamics: str) -> None:
    settings = ("tool.hold=middle", f"controller.dynamics={dynamics}", "controller.topology_penalty=false")
    coarse, fine = (run(trial(f"rate={rate}", *settings))["drift"][-1] for rate in (1000, 4000))
    assert coarse == pytest.approx(fine, rel=0.02)


@pytest.mark.drawn
def test_figures_show_both_links_and_every_controller(default: tuple[Trial, Samples, Findings]) -> None:
    chosen, samples, findings = default
    figures = ANALYSIS.figures(chosen, samples, findings)
    names = [panel.name for figure in figures for panel in figure.panels]
    assert len(names) == len(set(names))
    for hold in ("distal", "middle"):
        for dynamics in ("printed", "consistent"):
            for penalty in ("penalties", "free"):
                assert f"path_{hold}_{dynamics}_{penalty}" in names
    drift = next(figure for figure in figures if figure.title == "Drift")
    assert len(drift.table) == 9
    assert [row[0] for row in drift.table if "(this run)" in row[0]] == [
        "distal link, printed law, with penalties (this run)"
    ]
    bare = ANALYSIS.figures(chosen, samples, ANALYSIS.analyse(chosen, samples, compare=False))
    assert len(bare) == len(figures) - 1  # without the other link
    assert ANALYSIS.sweep_figures([Curve("one", chosen, samples, Style()), Curve("two", chosen, samples, Style())])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("tool.type=peg",), "analysis = linkage_topology: needs tool.type = three_links, not peg"),
        (("controller.type=four_channel",), "needs controller.type = impedance_shaping, not four_channel"),
        (("scene.type=enclosure",), "analysis = linkage_topology: needs the scene empty"),
    ],
)
def test_other_experiments_are_refused(settings: tuple[str, ...], said: str) -> None:
    with pytest.raises(ParameterError, match=said.replace("(", r"\(")):
        trial(*settings)


def test_the_arm_of_the_scene_is_that_of_table_5_1() -> None:
    """Built as a world of bodies, and as a model of its own."""
    for hold in ("proximal", "middle", "distal"):
        world = trial(f"tool.hold={hold}").world
        model, frame = three_links(hold)  # type: ignore[arg-type]
        bodies = [Multibody(m, f, world.q, np.ones(3)) for m, f in ((world.model, world.hand), (model, frame))]
        hands = [Hand(body, planar=True) for body in bodies]
        for name in ("D", "bias", "J_H", "pose", "twist", "inverse_inertia"):
            np.testing.assert_allclose(*(getattr(body, name) for body in bodies), rtol=0, atol=1e-13)
        np.testing.assert_allclose(hands[0].drift, hands[1].drift, rtol=0, atol=1e-12)
        np.testing.assert_allclose(world.hand_pose(), bodies[0].pose, rtol=0, atol=0)
        assert (world.planar, world.rank_tolerance, world.rank_fade) == (True, 1e-3, 0.0)


@pytest.mark.exhaustive
def test_lockstep_and_offline_give_the_same_bits(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    graph.check_lockstep_is_offline(haptics, tmp_path, "linkage_topology", "--duration", "0.9")
    verified = answer("replay", str(tmp_path / "lockstep"), "--verify")
    assert verified.status == 0, verified.err


def test_a_bad_hold_ends_with_2_and_names_what_there_is(tmp_path: Path) -> None:
    done = answer("run", "linkage_topology", "--set", "tool.hold=elbow", "--out", str(tmp_path / "out"))
    assert done.status == 2
    assert "tool.hold = elbow: must be 'proximal', 'middle' or 'distal'" in done.err
