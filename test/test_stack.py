"""A stack of boxes stands: what is measured of it, on samples with known answers and on the experiment itself."""

import math

import numpy as np
import pytest
from offline_runs import run_unrecorded

from haptic_bench import experiment
from haptic_bench.recording.samples import Samples
from haptic_experiments import stack
from haptic_sim.parameters import ParameterError
from haptic_sim.worlds.scenes import GRAVITY

ANALYSIS = stack.ANALYSIS
NAMES = [statement.name for statement in stack.CLAIMS]


def trial(*settings):
    (only,) = experiment.load("stack", settings)
    return only


def hand_made(boxes=3, rows=50, **columns):
    """Samples of boxes at rest but for some columns."""
    table = {"tick": np.arange(rows), "time": np.arange(rows) / 500}
    for box in range(boxes):
        table |= {f"q{7 * box + i}": np.full(rows, (box + 0.5) * 0.1 if i == 2 else float(i == 6)) for i in range(7)}
    table |= {f"energy_{name}": np.zeros(rows) for name in ("kinetic", "potential", "elastic")}
    table["env_fz"] = np.full(rows, GRAVITY)
    for name, values in columns.items():
        table[name] = table[name] + np.asarray(values, float)
    return Samples(table)


def analysed(samples, *settings):
    return ANALYSIS.analyse(trial("scene.boxes=3", *settings), samples)


def holds(findings):
    return {claim.name: claim.holds for claim in findings.claims}


@pytest.fixture(scope="module")
def default():
    chosen = trial("duration=0.5")
    samples = run_unrecorded(chosen)
    return chosen, samples, ANALYSIS.analyse(chosen, samples)


def test_a_stack_at_rest_has_not_moved():
    findings = analysed(hand_made())
    assert findings.metrics == {
        "max_drift": 0.0,
        "max_tilt": 0.0,
        "final_drift": 0.0,
        "energy_gain": 0.0,
        "top_support": pytest.approx(GRAVITY),
    }
    assert set(holds(findings).values()) == {True}


def test_drift_is_the_largest_of_any_box_at_any_time():
    there_and_back = np.sin(np.linspace(0.0, math.pi, 50))
    samples = hand_made(q7=3e-5 * there_and_back, q9=4e-5 * there_and_back, q14=2e-5 * np.linspace(0, 1, 50))
    findings = analysed(samples)
    assert findings.metrics["max_drift"] == pytest.approx(5e-5, rel=2e-3)
    assert findings.metrics["final_drift"] == pytest.approx(2e-5)
    assert holds(findings)["stands"] is True
    assert holds(analysed(hand_made(q7=np.linspace(0.0, 1.01e-4, 50))))["stands"] is False


@pytest.mark.parametrize("angle", [1e-9, 0.3, 3.0])
def test_rotation_is_measured_down_to_rounding(angle):
    growing = np.linspace(0.0, angle, 50)
    samples = hand_made(q11=np.sin(0.5 * growing), q13=np.cos(0.5 * growing) - 1.0)
    assert analysed(samples).metrics["max_tilt"] == pytest.approx(angle, rel=1e-6)


def test_energy_that_grows_in_a_step_is_found_out():
    jump = np.where(np.arange(50) < 25, 0.0, 1e-6)
    assert holds(analysed(hand_made(energy_kinetic=jump)))["energy_never_grows"] is False
    assert holds(analysed(hand_made(energy_kinetic=-jump)))["energy_never_grows"] is True
    # where somebody pushes, energy may grow
    assert (
        holds(analysed(hand_made(energy_kinetic=jump), "operator.wrench=[1,0,0,0,0,0]"))["energy_never_grows"] is None
    )


def test_a_box_that_is_not_carried_is_found_out():
    assert holds(analysed(hand_made(env_fz=-0.02)))["carries_its_weight"] is False


def test_twenty_boxes_stand(default):
    chosen, _, findings = default
    assert stack.scene_of(chosen.experiment).boxes == 20
    assert list(findings.metrics) == list(stack.METRICS)
    assert holds(findings) == dict.fromkeys(NAMES, True)
    assert findings.metrics["max_drift"] < 1e-6
    assert ANALYSIS.expected(chosen, findings)["top_support"][0] == pytest.approx(9.81)


@pytest.mark.parametrize("method", ["hybrid", "impulse_augmented"])
def test_fewer_boxes_by_other_methods(method):
    chosen = trial("scene.boxes=3", "duration=2", f"environment.method={method}", "contact.stiffness=20000")
    findings = ANALYSIS.analyse(chosen, run_unrecorded(chosen))
    if method == "hybrid":
        assert holds(findings) == dict.fromkeys(NAMES, True)
    else:
        # by penalties box i sinks by the weights on each of the joints below it, each on four springs
        sunk = sum(weights * GRAVITY / (4 * 20000) for weights in (3, 2, 1))
        assert findings.metrics["final_drift"] == pytest.approx(sunk, rel=0.05)
        assert holds(findings)["stands"] is False


def test_one_box_and_one_row():
    chosen = trial("scene.boxes=1", "duration=0.1")
    samples = run_unrecorded(chosen)
    assert holds(ANALYSIS.analyse(chosen, samples)) == dict.fromkeys(NAMES, True)
    one = ANALYSIS.analyse(chosen, samples.until(0.0))
    assert one.metrics["energy_gain"] is None
    assert set(holds(one).values()) == {None}


@pytest.mark.drawn
def test_figures(default):
    chosen, samples, findings = default
    drift, energy = ANALYSIS.figures(chosen, samples, findings)
    assert [panel.name for panel in drift.panels] == ["drift_sideways", "drift_upward", "profile", "tilt"]
    assert energy.panels
    curve = stack.Curve("a", chosen, samples, stack.Style())
    (runs, _) = ANALYSIS.sweep_figures([curve, curve])
    assert len(runs.table) == 3


def test_hostile_values_are_refused():
    with pytest.raises(ParameterError, match=r"scene\.boxes = 41: must be <= 40"):
        trial("scene.boxes=41")
    with pytest.raises(ParameterError, match=r"scene\.boxes = 0: must be >= 1"):
        trial("scene.boxes=0")
    with pytest.raises(ParameterError, match="analysis = stack: needs the scene stack, not scene"):
        experiment.load("bounce_settle", ["analysis=stack"])
