"""Collisions of the two-link arm, beside the closed form derived here from momentum, and their samples."""

import itertools
import math

import numpy as np
import pytest
from conftest import sampled
from offline_runs import simulated_once

from haptic_bench import experiment
from haptic_bench.recording.samples import MessageStore, Samples
from haptic_bench.report import pages
from haptic_bench.running.runner import Interruption
from haptic_bench.trials.trial import run_trial
from haptic_experiments import linkage_impact
from haptic_sim.parameters import ParameterError

ANALYSIS = linkage_impact.ANALYSIS
# as summaries and reports have them
METRICS = ["energy_left_plastic", "energy_left_elastic", "closed_form_error"]
CLAIMS = [
    "closed_form",
    "printed_form",
    "elastic_keeps_energy",
    "base_loses_part",
    "distal_loses_all",
    "distal_loses_all_along",
    "relative_velocity_keeps_momentum",
    "bodies_alone_keep_momentum",
]
COLUMNS = ["restitution", "kinetic_energy_before", "kinetic_energy_after", "v0", "v1"]


@pytest.fixture(scope="module", autouse=True)
def each_trial_once():
    with simulated_once():
        yield


def trial(*settings):
    (only,) = experiment.load("linkage_impact", settings)
    return only


def run(chosen, **how):
    store = MessageStore()
    assert ANALYSIS.simulate(chosen, store, **how) == ANALYSIS.last_tick(chosen.experiment) + 1
    return ANALYSIS.samples(chosen, store.messages)


def claims(findings):
    return {claim.name: claim for claim in findings.claims}


@pytest.fixture(scope="module")
def default():
    chosen = trial("scene.restitutions=[0, 0.5, 1]")
    samples = run(chosen)
    return chosen, samples, ANALYSIS.analyse(chosen, samples)


def two_rods(heights, rates, lengths, masses, bend):
    """Energies before and after a plastic impact, from positions of points along the rods instead of D."""
    fractions = (np.arange(20000) + 0.5) / 20000
    base, distal = np.array([0.0, 1.0]), np.array([-math.sin(bend), math.cos(bend)])
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    # velocity of each point by joint velocity, (points, 2 joints, 2)
    first = fractions[:, None] * lengths[0] * base
    second = lengths[0] * base + fractions[:, None] * lengths[1] * distal
    zero = np.zeros_like(first)
    moves = [
        np.stack([first @ turn.T, zero], axis=1),
        np.stack([second @ turn.T, (second - lengths[0] * base) @ turn.T], axis=1),
    ]
    D = sum(m / len(fractions) * np.einsum("nij,nkj->ik", move, move) for m, move in zip(masses, moves, strict=True))
    link = int(heights > lengths[0])
    at = heights * base if not link else lengths[0] * base + (heights - lengths[0]) * distal
    J = np.stack([turn @ at, turn @ (at - lengths[0] * base) if link else np.zeros(2)])
    J = J @ (turn @ (distal if link else base))
    rates = np.array(rates)
    after = rates - np.linalg.solve(D, J) * (J @ rates) / (J @ np.linalg.solve(D, J))
    return 0.5 * rates @ D @ rates, 0.5 * after @ D @ after


@pytest.mark.parametrize(
    "height, rates, lengths, masses, bend",
    [
        (0.7, (1.0, 1.0), (1.0, 1.0), (1.0, 1.0), 0.0),
        (1.5, (1.0, 1.0), (1.0, 1.0), (1.0, 1.0), 0.0),
        (0.3, (1.0, -0.5), (0.8, 0.6), (2.0, 0.5), 0.7),
        (1.1, (0.4, 1.5), (0.8, 0.6), (2.0, 0.5), -0.4),
    ],
)
def test_closed_form_is_that_of_rods_made_of_points(height, rates, lengths, masses, bend):
    chosen = trial(
        f"scene.contact_height={height}",
        f"scene.rates={list(rates)}",
        f"scene.lengths={list(lengths)}",
        f"scene.masses={list(masses)}",
        f"scene.angles=[{math.pi / 2}, {bend}]",
        "scene.restitutions=[0, 0.6]",
    )
    before, plastic = two_rods(height, rates, lengths, masses, bend)
    expected = [plastic, before - (1 - 0.36) * (before - plastic)]
    theory = linkage_impact.energy_left(chosen.experiment, np.array([0.0, 0.6]))
    assert theory == pytest.approx(expected, rel=1e-8, abs=1e-8)
    assert run(chosen)["kinetic_energy_after"] == pytest.approx(expected, rel=1e-8, abs=1e-8)


def test_numbers_of_the_published_arm():
    # D = ((8/3, 5/6), (5/6, 1/3)), so KE = 7/3; the base link loses v^2 / (2 J D^-1 J^T) = 7/24
    at = np.array([0.0, 1.0])
    base, distal = trial().experiment, trial("scene.contact_height=1.5").experiment
    assert linkage_impact.energy_left(base, at) == pytest.approx([7 / 3 - 7 / 24, 7 / 3], rel=1e-14)
    assert linkage_impact.energy_left(distal, at) == pytest.approx([0.0, 7 / 3], abs=1e-14)


def test_samples_are_those_of_the_contract(default):
    _, samples, _ = default
    assert samples.names == COLUMNS
    assert samples["restitution"].tolist() == [0.0, 0.5, 1.0]
    assert samples["kinetic_energy_before"] == pytest.approx(7 / 3, rel=1e-14)
    # base link at rest after a plastic impact; the obstacle returns e of its velocity
    assert samples["v0"] == pytest.approx([0.0, -0.5, -1.0], abs=1e-12)


def test_samples_survive_their_file(default, tmp_path):
    _, samples, _ = default
    samples.write_csv(tmp_path / "samples.csv")
    again = Samples.read_csv(tmp_path / "samples.csv")
    assert again.names == COLUMNS
    assert all(np.array_equal(again[name], samples[name]) for name in COLUMNS)


def test_default_restitutions_are_those_of_the_contract():
    assert linkage_impact.scene_of(trial().experiment).restitutions == tuple(i / 20 for i in range(21))


@pytest.mark.parametrize(
    ("method", "height"),
    sampled(
        itertools.product(("impulse_augmented", "frictional_impulses", "constraint", "hybrid"), (0.7, 1.5)),
        ("impulse_augmented", 0.7),
        ("constraint", 1.5),
    ),
)
def test_what_is_published_holds_or_fails_whatever_resolves_the_collision(method, height):
    chosen = trial(f"environment.method={method}", f"scene.contact_height={height}", "scene.restitutions=[0, 0.35, 1]")
    findings = ANALYSIS.analyse(chosen, run(chosen))
    expected = dict.fromkeys(CLAIMS, True)
    expected |= {"printed_form": False, "distal_loses_all_along": False}
    expected["bodies_alone_keep_momentum"] = False if method == "impulse_augmented" else None
    assert {claim.name: claim.holds for claim in findings.claims} == expected
    assert list(findings.metrics) == METRICS


def test_a_plastic_collision_takes_all_in_one_place_of_the_distal_link_only(default):
    """Where J is along D qd, that is at 1.5 m; the base link loses v^2 / (2 J D^-1 J^T) = 7/24 of 7/3 everywhere."""
    found = claims(default[2])
    assert found["distal_loses_all_along"].measured["least"] == pytest.approx(0.0, abs=1e-12)
    J = np.array([1.1, 0.1])
    D = np.array([[8 / 3, 5 / 6], [5 / 6, 1 / 3]])
    left = 7 / 3 - 0.5 * J.sum() ** 2 / (J @ np.linalg.solve(D, J))
    assert found["distal_loses_all_along"].measured["most"] == pytest.approx(left / (7 / 3), rel=1e-12)
    assert list(found["base_loses_part"].measured.values()) == pytest.approx([7 / 8, 7 / 8], rel=1e-12)


@pytest.mark.parametrize("rule", ["consistent", "printed"])
@pytest.mark.parametrize("e", [0.0, 0.6])
def test_an_obstacle_that_moves(rule, e):
    """By momentum: p = (1 + e) J qd / (J D^-1 J^T + 1/m), or as against a wall, the obstacle at rest."""
    m, settings = 0.4, ("scene.contact_height=1.3", f"scene.restitutions=[{e}]", "scene.obstacle_mass=0.4")
    samples = run(trial(*settings, f"contact.self_collision={rule}"))
    D, J, rates = np.array([[8 / 3, 5 / 6], [5 / 6, 1 / 3]]), np.array([1.3, 0.3]), np.ones(2)
    mobility = J @ np.linalg.solve(D, J) + (1 / m if rule == "consistent" else 0.0)
    p = (1 + e) * (J @ rates) / mobility
    after = rates - np.linalg.solve(D, J) * p
    assert [samples["v0"][0], samples["v1"][0]] == pytest.approx(after, rel=1e-9)
    speed = p / m if rule == "consistent" else 0.0
    assert [samples["v2"][0], samples["v3"][0]] == pytest.approx([-speed, 0.0], abs=1e-9)
    assert samples["momentum_before"][0] == pytest.approx(3.5, rel=1e-12)
    lost = 0.0 if rule == "consistent" else 1.3 * p  # the wall's impulse at its lever
    assert samples["momentum_before"][0] - samples["momentum_after"][0] == pytest.approx(lost, abs=1e-9)
    energy = 0.5 * after @ D @ after + 0.5 * m * speed**2
    assert samples["kinetic_energy_after"][0] == pytest.approx(energy, rel=1e-9)


def test_penalties_are_no_collisions_and_are_found_out():
    chosen = trial("environment.method=penalty", "scene.restitutions=[0, 1]")
    found = claims(ANALYSIS.analyse(chosen, run(chosen)))
    assert found["distal_loses_all"].holds is False
    assert found["closed_form"].holds is False


def test_claims_need_their_coefficient_and_the_other_link(default):
    chosen, samples, _ = default
    alone = ANALYSIS.analyse(chosen, samples, compare=False)
    assert {claim.holds for claim in alone.claims} == {None}
    middle = trial("scene.contact_height=1.5", "scene.restitutions=[0.5]")
    findings = ANALYSIS.analyse(middle, run(middle))
    assert claims(findings)["distal_loses_all"].holds is None
    assert findings.metrics["energy_left_plastic"] is None
    assert claims(findings)["closed_form"].holds is True


def test_arm_at_rest_or_leaving_does_not_collide():
    leaving = trial("scene.rates=[-1, -1]", "scene.restitutions=[0, 1]")
    samples = run(leaving)
    assert samples["kinetic_energy_after"] == pytest.approx(7 / 3, rel=1e-12)
    still = trial("scene.rates=[0, 0]", "scene.restitutions=[0, 1]")
    findings = ANALYSIS.analyse(still, run(still))
    assert findings.metrics["closed_form_error"] is None
    assert all(claim.holds is None for claim in findings.claims)


def test_interrupted_trial_has_the_collisions_so_far():
    chosen, store = trial(), MessageStore()
    asked = iter([False, False, True])
    assert ANALYSIS.simulate(chosen, store, stop=lambda: next(asked)) == 2
    samples = ANALYSIS.samples(chosen, store.messages)
    assert samples["restitution"].tolist() == [0.0, 0.05]
    assert len(ANALYSIS.samples(chosen, {})) == 0


@pytest.mark.drawn
def test_figures_and_theory(default):
    chosen, samples, findings = default
    energy, velocities, places, moving = ANALYSIS.figures(chosen, samples, findings)
    assert [panel.name for panel in energy.panels] == ["energy_base_link", "energy_distal_link"]
    assert energy.table[1][:3] == ["base link", "0", "2.3333"]
    assert energy.table[4] == ["distal link", "0", "2.3333", "0", "0", "100 %"]
    assert len(velocities.panels) == 2
    assert [panel.name for panel in (*places.panels, *moving.panels)] == ["places", "moving_energy", "moving_speed"]
    assert len(ANALYSIS.figures(chosen, samples, ANALYSIS.analyse(chosen, samples, compare=False))) == 2
    assert ANALYSIS.expected(chosen, findings)["energy_left_plastic"][0] == pytest.approx(49 / 24)


def test_recorded_reported_and_reported_again_without_ticks(tmp_path):
    chosen = trial("scene.restitutions=[0, 1]")
    with Interruption() as interruption:
        summary = run_trial(chosen, "offline", tmp_path, interruption)
        with pytest.raises(ParameterError, match="linkage_impact has no ticks; it runs offline only"):
            run_trial(chosen, "lockstep", tmp_path, interruption)
    assert (summary["status"], summary["ticks"]) == ("done", 2)
    assert (tmp_path / "samples.csv").read_text().splitlines()[0] == ",".join(COLUMNS)
    page = (tmp_path / "report.html").read_text()
    assert pages.write(tmp_path).read_text() == page
    assert "distal link struck at 1.5 m" in page


@pytest.mark.parametrize(
    "setting, problem",
    [
        ("scene.contact_height=2.1", "scene.contact_height = 2.1 m: must be at most the arm's 2 m"),
        ("scene.contact_height=0", "scene.contact_height = 0 m: must be > 0 m"),
        ("scene.restitutions=[1.2]", r"scene.restitutions\[0\] = 1.2: must be <= 1"),
        ("scene.restitutions=[]", "scene.restitutions"),
    ],
)
def test_hostile_values_are_refused(setting, problem):
    with pytest.raises(ParameterError, match=problem):
        trial(setting)


def test_another_scene_is_refused():
    with pytest.raises(ParameterError, match="analysis = linkage_impact: needs the scene two_links, not scene"):
        experiment.load("stack", ["analysis=linkage_impact"])
