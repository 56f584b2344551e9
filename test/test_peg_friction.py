"""Metrics and claims of the peg in the slot, on samples with known answers and on the experiment itself."""

import math
from dataclasses import replace

import numpy as np
import pytest
from offline_runs import run_unrecorded, simulated_once

from haptic_bench import experiment
from haptic_bench.analysis.claims import Findings
from haptic_bench.analysis.figures import Curve
from haptic_bench.recording.samples import Samples
from haptic_experiments import peg_friction
from haptic_view.figures import style_of

ANALYSIS = peg_friction.ANALYSIS
RATE = 512.0  # [Hz]
SLOW = "rate=64"  # [Hz] where numbers do not matter
STATIC, KINETIC = 2 * 0.25 * 0.175, 2 * 0.2 * 0.175  # [N]
NAMES = [statement.name for statement in peg_friction.CLAIMS]
NOT_REPRODUCED = {
    "slip_and_stick_any_damping",
    "bonds_do_not_drift",
    "overdamping_suppresses_oscillation",
    "damping_ends_compliance",
}
"""As printed, at 512 Hz: forward Euler makes Dahl slip, 1180 is unstable, and at rest damping carries nothing."""
PERIOD = 2 * math.pi * math.sqrt(2.0 * 1e-5 / STATIC)  # [s] of 2 kg on two bonds of mu_s N / z0 each


@pytest.fixture(scope="module", autouse=True)
def each_trial_once():
    with simulated_once():
        yield


def trial(*settings):
    (only,) = experiment.load("peg_friction", settings)
    return only


def hand_made(ticks, sliding=(), force=0.0, velocity=0.0, position=0.0, friction=0.0):
    """Samples of a peg; `sliding` are rows [first, after the last) in which both contacts slide."""
    slides = np.zeros(ticks, int)
    for first, stop in sliding:
        slides[first:stop] = 2
    table = {"tick": np.arange(ticks), "time": np.arange(ticks) / RATE, "sliding_contacts": slides}
    for name, values in (("operator_fx", force), ("tool_vx", velocity), ("tool_px", position), ("env_fx", friction)):
        table[name] = np.broadcast_to(np.asarray(values, float), (ticks,)).copy()
    return Samples(table)


def metrics(samples, *settings):
    return ANALYSIS.analyse(trial(*settings), samples, compare=False).metrics


def holds(findings):
    return {claim.name: claim.holds for claim in findings.claims}


def measured(findings, name):
    return next(claim.measured for claim in findings.claims if claim.name == name)


@pytest.fixture(scope="module")
def default():
    """The force passes the static friction both ways within 4 s; the rest repeats that."""
    chosen = trial("duration=4")
    samples = run_unrecorded(chosen)
    return chosen, samples, ANALYSIS.analyse(chosen, samples)


@pytest.mark.exhaustive
def test_names_are_those_of_the_contract(default):
    findings = default[2]
    contract = ["first_slip_time", "stick_intervals", "drift_under_static_load", "oscillation_energy"]
    assert list(findings.metrics) == [*contract, "missed_transitions", "stiction_compliance"]
    assert [claim.name for claim in findings.claims] == NAMES
    assert trial().experiment.analysis == "peg_friction"


def test_slips_and_sticks_are_counted():
    found = metrics(hand_made(100, [(20, 30), (40, 41), (60, 100)]))
    assert found["first_slip_time"] == 20 / RATE
    assert found["stick_intervals"] == 3
    assert metrics(hand_made(100, [(0, 50)]))["first_slip_time"] == 0.0
    assert metrics(hand_made(100, [(0, 50)]))["stick_intervals"] == 1
    assert metrics(hand_made(100))["first_slip_time"] is None
    assert metrics(hand_made(100))["stick_intervals"] == 1


@pytest.mark.parametrize("drift", [0.0, 3e-4])
def test_oscillation_energy_is_that_about_the_mean(drift):
    time = np.arange(400) / RATE
    speed, rate = 1e-3, 2 * math.pi / PERIOD  # [m/s], [1/s]
    samples = hand_made(
        400,
        [(10, 50)],
        velocity=speed * np.cos(rate * time) + drift,
        position=speed / rate * np.sin(rate * time) + drift * time,
    )
    # whether there is a row at a maximum of the speed: within half a tick
    assert metrics(samples)["oscillation_energy"] == pytest.approx(0.5 * 2.0 * speed**2, rel=(0.5 * rate / RATE) ** 2)


def test_oscillation_energy_is_of_the_time_in_which_the_force_moves_nothing():
    weak = np.full(400, 0.9 * KINETIC)
    fast = np.zeros(400)
    fast[300:] = 1.0  # [m/s]
    held = hand_made(400, [(10, 50)], weak, fast)
    assert metrics(held)["oscillation_energy"] > 0.2
    weak[300 - 30 :] = 1.1 * KINETIC
    assert metrics(hand_made(400, [(10, 50)], weak, fast))["oscillation_energy"] == 0.0
    assert metrics(hand_made(400, [(10, 50)], -weak, fast))["oscillation_energy"] == 0.0


def test_oscillation_energy_needs_a_period_after_the_first_and_half_of_one_more():
    enough = 50 + math.ceil(2.5 * PERIOD * RATE) + 1
    assert metrics(hand_made(enough, [(10, 50)]))["oscillation_energy"] == 0.0
    assert metrics(hand_made(enough - 2, [(10, 50)]))["oscillation_energy"] is None
    assert metrics(hand_made(enough))["oscillation_energy"] is None  # never slipped
    assert metrics(hand_made(enough, [(10, enough)]))["oscillation_energy"] is None  # never stuck


def test_what_the_default_experiment_decides(default):
    findings = default[2]
    assert holds(findings) == {name: name not in NOT_REPRODUCED for name in NAMES}
    models = {"critical", "karnopp", "dahl", "coulomb"}
    printed = {f"printed {name}" for name in models}
    runs = {"undamped", "overdamped", "printed undamped", "printed overdamped"} | models | printed
    loaded = {f"loaded {name}" for name in {"this run"} | models | printed}
    pushed = {f"experiment {name}" for name in models | printed}
    assert set(findings.references) == (runs | loaded | pushed) - {"critical", "loaded critical"}
    assert {claim.source[:12] for claim in findings.claims} == {"THESIS 4.3.1", "ours, of the"}


def test_the_printed_form_can_be_the_trials_own(default):
    chosen = trial("contact.friction.form=printed", "duration=4")
    samples = run_unrecorded(chosen)
    assert peg_friction.variant(chosen.experiment) == "printed critical"
    findings = ANALYSIS.analyse(chosen, samples)
    assert holds(findings) == holds(default[2])
    assert "critical" in findings.references
    assert "printed critical" not in findings.references
    tables = [figure.table for figure in ANALYSIS.figures(chosen, samples, findings) if figure.table]
    assert any(
        row[0].startswith("this run: reset integrator, damping 118, as printed") for table in tables for row in table
    )


def test_default_metrics_are_near_theory(default):
    chosen, _, findings = default
    found, theory = findings.metrics, ANALYSIS.expected(chosen, Findings({}))
    reached = math.asin(STATIC / 0.1) / (2 * math.pi * 0.2)
    assert theory["first_slip_time"][0] == pytest.approx(reached, abs=1 / RATE)
    # a damping in parallel carries a part of the load; bonds break later, by less than a period
    assert theory["first_slip_time"][0] < found["first_slip_time"] < theory["first_slip_time"][0] + PERIOD
    assert abs(found["drift_under_static_load"]) < 1e-12
    critical = measured(findings, "damping_suppresses_oscillation_consistent")["critical"]
    assert found["oscillation_energy"] == critical
    assert found["missed_transitions"] == 0
    # z0 / (mu_s N), less what dampers carry of a load that grows
    assert 0.95 * 1e-5 / STATIC < found["stiction_compliance"] < 1e-5 / STATIC


def test_the_classical_model_creeps_at_the_speed_of_theory(default):
    creep = 1e-4 * 0.05 / STATIC * 8.0  # [m] v_min F / (mu_s N) for 8 s
    assert measured(default[2], "no_creep")["printed coulomb"] == pytest.approx(creep, rel=1e-6)
    assert measured(default[2], "no_creep_consistent")["coulomb"] == pytest.approx(creep, rel=1e-6)
    assert (
        ANALYSIS.expected(trial("contact.friction.model=coulomb"), Findings({}))["drift_under_static_load"][0] == creep
    )


def test_the_dead_band_of_the_classical_model_is_what_friction_does_in_a_step():
    chosen = trial("contact.friction.model=coulomb", "contact.friction.deadband=0", "duration=0.05", SLOW)
    theory = ANALYSIS.expected(chosen, Findings({}))["drift_under_static_load"][0]
    assert theory == pytest.approx(KINETIC / (2.0 * 64.0) * 0.05 / STATIC * 8.0)
    found = ANALYSIS.analyse(chosen, run_unrecorded(chosen)).metrics["drift_under_static_load"]
    assert found == pytest.approx(theory, rel=1e-6)


def test_the_undamped_oscillation_has_the_energy_that_sticking_leaves(default):
    """Entering stiction the bonds carry the kinetic friction against a force that is nearly zero."""
    left = KINETIC**2 / (2 * STATIC / 1e-5)  # [J] 1/2 F^2 / K
    found = measured(default[2], "damping_suppresses_oscillation_consistent")["undamped"]
    assert 0.3 * left < found < 1.2 * left
    # forward Euler amplifies it, up to what breaks the bonds
    printed = measured(default[2], "damping_suppresses_oscillation")["printed undamped"]
    assert found < printed < 0.5 * STATIC * 1e-5


def test_the_static_load_is_a_ramp_that_is_held():
    loaded = run_unrecorded(peg_friction.under_static_load(trial("rate=100", "operator.amplitude=[9, 9, 0, 0, 0, 0]")))
    np.testing.assert_allclose(loaded["operator_fx"], 0.05 * np.minimum(loaded["time"], 1.0), rtol=1e-12)
    assert loaded["time"][-1] == 10.0
    assert not loaded["operator_fy"].any()


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ((), "critical"),
        (("contact.friction.damping=0",), "undamped"),
        (("contact.friction.damping=1180",), "overdamped"),
        (("contact.friction.damping=50",), None),
        (("contact.friction.form=printed",), "printed critical"),
        (("contact.friction.form=printed", "contact.friction.model=dahl"), "printed dahl"),
        (("contact.friction.model=coulomb",), "coulomb"),  # whatever damping it does not use
        (("contact.friction.model=none",), None),
    ],
)
def test_variants(settings, name):
    assert peg_friction.variant(trial(*settings).experiment) == name


def test_a_setting_between_the_variants_is_compared_with_all_of_them():
    chosen = trial("contact.friction.damping=50", "duration=0.1", SLOW)
    samples = run_unrecorded(chosen)
    findings = ANALYSIS.analyse(chosen, samples)
    assert set(peg_friction.VARIANTS) < set(findings.references)
    assert {"loaded this run", "loaded critical"} < set(findings.references)
    titles = [figure.title for figure in ANALYSIS.figures(chosen, samples, findings)]
    assert "Damping of the reset integrator" in titles
    assert "Creep and compliance under a static load" in titles


@pytest.mark.parametrize("duration", [0.01, 0.1])
def test_a_short_run_decides_nothing_of_its_own(duration):
    chosen = trial(f"duration={duration}", SLOW)
    samples = run_unrecorded(chosen)
    findings = ANALYSIS.analyse(chosen, samples)
    assert findings.metrics["first_slip_time"] is None
    assert findings.metrics["oscillation_energy"] is None
    found = holds(findings)
    of_their_own = [
        name for name in NAMES if "creep" in name or "drift" in name or "compl" in name or "transit" in name
    ]
    assert len(of_their_own) == 7
    assert None not in {found.pop(name) for name in of_their_own}
    assert set(found.values()) == {None}
    assert ANALYSIS.figures(chosen, samples, findings)


def test_without_comparison_claims_are_undecided(default):
    chosen, samples, _ = default
    findings = ANALYSIS.analyse(chosen, samples, compare=False)
    assert findings.references == {}
    assert set(holds(findings).values()) == {None}
    assert findings.metrics["drift_under_static_load"] is None
    assert ANALYSIS.figures(chosen, samples, findings)


def test_no_samples_give_no_metrics():
    findings = ANALYSIS.analyse(trial(), hand_made(0))
    assert set(findings.metrics.values()) == {None}
    assert set(holds(findings).values()) == {None}


@pytest.mark.parametrize(
    "settings",
    [
        ("contact.friction.model=none",),
        ("contact.friction.static=0", "contact.friction.kinetic=0"),
        ("environment.method=constraint",),  # it knows no friction models
    ],
)
def test_without_friction_of_bonds_there_is_nothing_to_say(settings):
    chosen = trial("duration=0.1", *settings)
    samples = run_unrecorded(chosen)
    findings = ANALYSIS.analyse(chosen, samples)
    assert set(findings.metrics.values()) == {None}
    assert set(holds(findings).values()) == {None}
    assert findings.references == {}
    assert ANALYSIS.expected(chosen, findings) == {}
    assert ANALYSIS.figures(chosen, samples, findings)


def test_a_load_above_the_static_friction_is_no_static_load():
    chosen = trial("duration=0.05", SLOW, "contact.friction.static=0.1", "contact.friction.kinetic=0.1")
    findings = ANALYSIS.analyse(chosen, run_unrecorded(chosen))
    assert holds(findings)["no_creep"] is None
    assert "drift_under_static_load" not in ANALYSIS.expected(chosen, Findings({}))


@pytest.mark.parametrize(
    "settings",
    [
        ("contact.friction.breakaway=0.1",),
        ("operator.amplitude=[50, 0, 0, 0, 0, 0]", "operator.frequency=20"),
        *(
            pytest.param(settings, marks=pytest.mark.exhaustive)
            for settings in (
                ("contact.friction.kinetic=0",),
                ("contact.friction.deadband=0", "contact.friction.model=coulomb"),
                ("contact.friction.static=100", "contact.friction.kinetic=100"),
                ("rate=20",),
            )
        ),
    ],
)
def test_hostile_values_are_reported(settings):
    chosen = trial("duration=0.4", SLOW, *settings)
    samples = run_unrecorded(chosen)
    findings = ANALYSIS.analyse(chosen, samples)
    numbers = [*findings.metrics.values(), *(v for claim in findings.claims for v in claim.measured.values())]
    assert all(value is None or math.isfinite(value) for value in numbers)
    assert ANALYSIS.figures(chosen, samples, findings)


def test_a_force_that_never_lets_the_peg_rest_does_not_make_it_stick():
    """As the force of the experiment behind figure 4.10: far larger than friction."""
    chosen = trial("duration=2", SLOW, "operator.amplitude=[1, 0, 0, 0, 0, 0]", "operator.frequency=1")
    assert holds(ANALYSIS.analyse(chosen, run_unrecorded(chosen)))["slip_and_stick"] is False


@pytest.mark.drawn
def test_figures_and_their_captions(default):
    chosen, samples, findings = default
    figures = ANALYSIS.figures(chosen, samples, findings)
    assert [figure.title for figure in figures] == [
        "Damping of the reset integrator",
        "Damping of the reset integrator, as printed",
        "Friction models",
        "Friction models, as printed",
        "Friction near rest",
        "Force of figure 4.10",
        "Creep and compliance under a static load",
        "Energy",
    ]
    names = [panel.name for figure in figures for panel in figure.panels]
    assert len(set(names)) == len(names)
    assert {"damping_friction_stiction", "models_velocity_stiction", "creep", "characteristic"} < set(names)
    assert "figure 4.7" in figures[0].caption
    assert [row[0] for row in figures[0].table[1:]] == [
        "this run: reset integrator, damping 118",
        "reset integrator, damping 0",
        "reset integrator, damping 1180",
    ]


@pytest.mark.drawn
def test_figures_of_a_sweep(default):
    _, samples, findings = default
    models = {"reset_integrator": samples, "coulomb": findings.references["coulomb"]}
    curves = [
        Curve(name, replace(trial("duration=4", f"contact.friction.model={name}")), run, style_of(i))
        for i, (name, run) in enumerate(models.items())
    ]
    assert [figure.title for figure in ANALYSIS.sweep_figures(curves)] == [
        "Motion and friction",
        "Friction near rest",
        "Energy",
    ]
