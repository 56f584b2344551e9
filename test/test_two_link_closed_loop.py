"""Two links in a closed loop: claims on the experiment, and what is measured on motions with known answers."""

import math

import numpy as np
import pytest
from offline_runs import run_unrecorded
from scipy.integrate import solve_ivp

from haptic_bench import experiment
from haptic_bench.recording.samples import Samples
from haptic_experiments import two_link_closed_loop as loop
from haptic_sim.parameters import ParameterError

ANALYSIS = loop.ANALYSIS
# as summaries and reports have them
METRICS = [
    "residual_start",
    "convergence_time",
    "left_after_1s",
    "residual_end",
    "decay_error",
    "fold_drift",
    "pendulum_error",
    "ticks_held",
    "energy_drift",
]
NAMES = ["error_decays", "converged", "rigid_pendulum"]


def trial(*settings):
    (only,) = experiment.load("two_link_closed_loop", settings)
    return only


def run(*settings):
    chosen = trial(*settings)
    samples = run_unrecorded(chosen)
    assert {"c1", "c2", "c3", "lambda3", "residual_holonomic", "energy"} <= set(samples.names)
    return chosen, samples, ANALYSIS.analyse(chosen, samples)


def holds(findings):
    return {claim.name: claim.holds for claim in findings.claims}


@pytest.fixture(scope="module")
def default():
    return run()


def test_the_claims_hold_and_numbers_are_those_of_the_exponential(default):
    _, samples, findings = default
    assert holds(findings) == dict.fromkeys(NAMES, True)
    assert list(findings.metrics) == METRICS
    assert findings.metrics["left_after_1s"] == pytest.approx(math.exp(-5.0), rel=1e-6)
    assert findings.metrics["convergence_time"] == pytest.approx(math.log(100.0) / 5.0, abs=1e-3)
    first = [samples[name][0] for name in loop.NAMES]
    # c of [0.3, 2.0, 1.2, 1.3] by hand
    assert first[0] == pytest.approx(2.0 - 2.0 * math.cos(0.3) - 0.5 * math.cos(1.3))
    assert first[1] == pytest.approx(1.2 - 2.0 * math.sin(0.3) - 0.5 * math.sin(1.3))
    assert first[2] == pytest.approx(6.25 - 5.0 - 4.0 * math.cos(1.0))


def test_the_first_velocity_is_the_nearest_that_the_constraints_allow(default):
    """YUN's step 3, unweighted, for the given velocity zero: J^+ (-gamma c)."""
    _, samples, _ = default
    slope = 4.0 * math.sin(0.3 - 1.3)
    J = np.array(
        [
            [2.0 * math.sin(0.3), 1.0, 0.0, 0.5 * math.sin(1.3)],
            [-2.0 * math.cos(0.3), 0.0, 1.0, -0.5 * math.cos(1.3)],
            [slope, 0.0, 0.0, -slope],
        ]
    )
    c = np.array([samples[name][0] for name in loop.NAMES])
    v = [samples[f"v{i}"][0] for i in range(4)]
    assert v == pytest.approx(np.linalg.pinv(J) @ (-5.0 * c), abs=1e-12)


def test_the_pendulum_of_the_comparison_is_that_of_scipy():
    scene = loop.scene_of(trial("scene.I1_about=centroid").experiment)
    angles = loop.pendulum(scene, 1.2, 0.3, -0.7, 2000, 1e-3)
    inertia = 3.0 + 10.0 + 2.0 + 6.0 * (4.0 + 0.25 + 2.0 * math.cos(1.2))

    def rates(_, y):
        moment = 10.0 * math.cos(y[0]) + 6.0 * (2.0 * math.cos(y[0]) + 0.5 * math.cos(y[0] + 1.2))
        return [y[1], -9.81 * moment / inertia]

    exact = solve_ivp(rates, (0, 2), [0.3, -0.7], "DOP853", rtol=1e-12, atol=1e-13).y[0, -1]
    assert angles[-1] == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("about", ["pivot", "centroid"])
def test_about_the_centroid_the_pendulum_is_slower(about, default):
    """The claim about the pendulum does not depend on it, but the motion does (errata of YUN, 6)."""
    _, samples, findings = run(f"scene.I1_about={about}")
    assert holds(findings)["rigid_pendulum"] is True
    lowest = samples["time"][samples["q0"].argmin()]
    pivot = default[1]["time"][default[1]["q0"].argmin()]
    assert (lowest == pivot) if about == "pivot" else (lowest > pivot)


def hand_made(rows=6001, gamma=5.0, **changes):
    """Links that converge as exponentials; theta1 = 0.3 and at rest, without gravity."""
    time = np.arange(rows) / 1000.0
    decay = np.exp(-gamma * time)
    theta2 = 0.3 + math.pi - math.acos(-0.3125) + np.zeros(rows)
    q = [
        np.full(rows, 0.3),
        2.0 * math.cos(0.3) + 0.5 * np.cos(theta2) + 0.1 * decay,
        2.0 * math.sin(0.3) + 0.5 * np.sin(theta2) - 0.2 * decay,
        theta2,
    ]
    table = {"tick": np.arange(rows), "time": time, **{f"q{i}": x for i, x in enumerate(q)}}
    table |= {f"v{i}": np.zeros(rows) for i in range(4)} | {f"operator_{c}": np.zeros(rows) for c in FORCES}
    table |= {"energy_kinetic": np.ones(rows), "energy_potential": np.zeros(rows)}
    for name, values in changes.items():
        table[name] = table[name] + values
    return Samples(table)


FORCES = ("fx", "fy", "fz", "tx", "ty", "tz")


def analysed(samples, *settings):
    return ANALYSIS.analyse(trial("scene.gravity=0", *settings), samples)


def test_exponentials_are_recognised_and_what_departs_from_them_is_found():
    good = analysed(hand_made())
    assert holds(good) == dict.fromkeys(NAMES, True)
    assert good.metrics["decay_error"] < 1e-14
    late = analysed(hand_made(gamma=4.0))
    assert (holds(late)["error_decays"], holds(late)["converged"]) == (False, False)
    assert late.metrics["left_after_1s"] == pytest.approx(math.exp(-4.0))
    creeping = analysed(hand_made(q0=1e-4 * np.linspace(0, 1, 6001)))
    assert holds(creeping)["rigid_pendulum"] is False


def test_a_short_run_and_one_that_is_pushed_decide_nothing_of_the_pendulum():
    short = analysed(hand_made(rows=900))
    assert (holds(short)["converged"], holds(short)["rigid_pendulum"]) == (None, None)
    assert holds(analysed(hand_made(operator_fy=1.0)))["rigid_pendulum"] is None
    one = analysed(hand_made(rows=1))
    assert holds(one) == {"error_decays": True, "converged": None, "rigid_pendulum": None}


def test_without_a_rate_the_links_stay_apart():
    _, _, findings = run("constraint.gamma=0", "duration=1")
    assert findings.metrics["left_after_1s"] == pytest.approx(1.0, abs=1e-6)
    assert holds(findings) == {"error_decays": True, "converged": None, "rigid_pendulum": None}


def test_projection_needs_links_that_are_together():
    settings = ("constraint.solver=projection", "duration=1")
    with pytest.raises(ParameterError, match=r"positions\[\d\] .* is not met.*stabilised starts anywhere"):
        run(*settings)
    theta2 = 0.3 + math.pi - math.acos(-0.3125)
    x, y = 2 * math.cos(0.3) + 0.5 * math.cos(theta2), 2 * math.sin(0.3) + 0.5 * math.sin(theta2)
    _, _, findings = run(*settings, f"scene.start=[0.3,{x!r},{y!r},{theta2!r}]")
    assert holds(findings) == {"error_decays": None, "converged": None, "rigid_pendulum": True}
    assert findings.metrics["residual_end"] < 1e-12


@pytest.mark.drawn
def test_figures_are_drawn(default):
    chosen, samples, findings = default
    figures = ANALYSIS.figures(chosen, samples, findings)
    assert [figure.title for figure in figures] == ["Motion", "Constraints", "A rigid pendulum", "Energy"]
    short = samples.until(0.5)
    assert len(ANALYSIS.figures(chosen, short, ANALYSIS.analyse(chosen, short))) == 3
