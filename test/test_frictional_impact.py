"""Impacts with friction in the plane: the closed form against steps of the same equations, and the experiment."""

import math
from dataclasses import replace

import numpy as np
import pytest

from haptic_bench import experiment
from haptic_bench.recording.samples import Samples
from haptic_experiments import frictional_impact
from haptic_experiments.frictional_impact import REVERSED, SLIDES, STICKS, routh
from haptic_sim.contact.solvers import mirtich
from haptic_sim.parameters import ParameterError
from haptic_sim.records import allocate

ANALYSIS = frictional_impact.ANALYSIS
# as summaries and reports have them
METRICS = [
    "ball_slip_state",
    "ball_slip_after",
    "ball_velocity_after",
    "ball_rebound",
    "ball_spin_after",
    "ball_impulse_ratio",
    "ball_energy_lost",
    "rod_slip_state",
    "rod_slip_after",
    "rod_velocity_after",
    "rod_rebound",
    "rod_spin_after",
    "rod_impulse_ratio",
    "rod_energy_lost",
]
CLAIMS = [
    "ball_rolls_or_slides",
    "ball_rebounds_backwards",
    "rod_slip_state",
    "follows_routh",
    "within_friction_cone",
    "loses_energy",
]


def trial(*settings):
    (only,) = experiment.load("frictional_impact", settings)
    return only


def run(chosen):
    return ANALYSIS.run_unrecorded(chosen)


def holds(findings):
    return {claim.name: claim.holds for claim in findings.claims}


@pytest.fixture(scope="module")
def default():
    chosen = trial()
    samples = run(chosen)
    return chosen, samples, ANALYSIS.analyse(chosen, samples)


def by_small_steps(A_nn, A_nt, A_tt, c_n, c_t, e, mu, steps=20000):
    """Slip and rebound: Euler's method over the normal impulse; friction stops slip within a step where it can."""
    p = 2.5 * abs(c_n) / (A_nn - A_nt**2 / A_tt) / steps
    work = least = 0.0
    compressed = False
    for _ in range(10 * steps):
        stop = -(c_t + A_nt * p) / A_tt  # tangential impulse after which slip is zero
        tangential = max(-mu * p, min(mu * p, stop))
        before = c_n
        c_n += A_nn * p + A_nt * tangential
        c_t += A_nt * p + A_tt * tangential
        work += 0.5 * (before + c_n) * p
        compressed = compressed or c_n >= 0.0
        least = min(least, work)
        if compressed and work >= (1 - e * e) * least:
            return c_t, c_n
    raise AssertionError("does not end")


CASES = [  # A_nn, A_nt, A_tt, c_n, c_t, e, mu
    (2.0, 0.0, 7.0, -2.0, 4.0, 0.5, 0.4),
    (2.0, 0.0, 7.0, -2.0, 4.0, 0.5, 0.1),
    (5.0, -3.0, 5.0, -1.0, 1.0, 0.5, 0.4),
    (5.0, -3.0, 5.0, -1.0, 1.0, 0.5, 0.8),
    (5.0, -3.0, 5.0, -1.0, 1.0, 0.5, 0.05),
    (5.0, 3.0, 5.0, -1.0, 1.0, 0.0, 0.3),
    (5.0, 3.0, 5.0, -1.0, 0.0, 1.0, 0.3),
    (2.0, 3.0, 6.0, -1.0, 1.0, 0.5, 0.9),  # sliding presses it deeper: a jam
]


@pytest.mark.parametrize("case", CASES)
def test_closed_form_is_the_limit_of_small_steps(case):
    path = routh(*case)
    assert (path.slip[-1], path.rebound[-1]) == pytest.approx(by_small_steps(*case), abs=2e-3)


@pytest.mark.parametrize("case", CASES)
def test_closed_form_is_that_of_the_kernel(case):
    A_nn, A_nt, A_tt, c_n, c_t, e, mu = case
    A = np.array([[A_nn, A_nt, 0.0], [A_nt, A_tt, 0.0], [0.0, 0.0, A_tt]])
    p = np.zeros(3)
    mirtich.collide(A, np.array([c_n, c_t, 0.0]), e, mu, allocate(mirtich.MirtichMemory).series, p)
    path = routh(*case)
    assert (path.normal[-1], path.tangential[-1]) == pytest.approx(p[:2], rel=1e-6, abs=1e-9)


def test_velocities_are_those_of_the_impulses_and_never_gain_energy():
    for A_nn, A_nt, A_tt, c_n, c_t, e, mu in CASES:
        path = routh(A_nn, A_nt, A_tt, c_n, c_t, e, mu)
        p = path.normal, path.tangential
        assert path.rebound == pytest.approx(c_n + A_nn * p[0] + A_nt * p[1], abs=1e-12)
        assert path.slip == pytest.approx(c_t + A_nt * p[0] + A_tt * p[1], abs=1e-12)
        work = 0.5 * (p[0][-1] * (c_n + path.rebound[-1]) + p[1][-1] * (c_t + path.slip[-1]))
        assert work <= 1e-12
        assert np.all(np.abs(path.tangential) <= mu * path.normal + 1e-12)


@pytest.mark.parametrize(
    "mu, state, forward",
    [(0.4, STICKS, 1.0 - 8 / 7), (0.3, SLIDES, 1.0 - 0.3 * 3.0), (0.0, SLIDES, 1.0)],
)
def test_ball_rolls_where_friction_suffices(mu, state, forward):
    # 2/7 of the slip of 1 + 0.05 * 60 = 4 m/s are needed, mu (1 + 0.5) 2 m/s are there
    chosen = trial(f"contact.friction.kinetic={mu}")
    findings = ANALYSIS.analyse(chosen, run(chosen), compare=False)
    assert findings.metrics["ball_slip_state"] == state
    assert findings.metrics["ball_velocity_after"] == pytest.approx(forward, abs=1e-9)
    assert findings.metrics["ball_rebound"] == pytest.approx(1.0, abs=1e-9)
    assert findings.metrics["ball_spin_after"] == pytest.approx(60.0 + (forward - 1.0) * 0.05 / (0.4 * 0.05**2))
    assert holds(findings) == dict.fromkeys(CLAIMS, True)


@pytest.mark.parametrize("mu, state", [(0.0, SLIDES), (0.3, REVERSED), (0.8, STICKS)])
@pytest.mark.parametrize("method", ["frictional_impulses", "hybrid", "constraint"])
def test_rod_slides_on_back_or_sticks(method, mu, state):
    chosen = trial(f"contact.friction.kinetic={mu}", f"environment.method={method}")
    findings = ANALYSIS.analyse(chosen, run(chosen), compare=False)
    assert findings.metrics["rod_slip_state"] == state
    assert holds(findings) == dict.fromkeys(CLAIMS, True)


def test_default_shows_rolling_back_and_a_reversal(default):
    chosen, _, findings = default
    assert holds(findings) == dict.fromkeys(CLAIMS, True)
    assert findings.metrics["ball_slip_state"] == STICKS
    assert findings.metrics["ball_velocity_after"] == pytest.approx(-1 / 7, abs=1e-9)
    assert findings.metrics["rod_slip_state"] == REVERSED
    assert list(findings.metrics) == METRICS
    theory = ANALYSIS.expected(chosen, findings)
    for name, (value, _) in theory.items():
        assert findings.metrics[name] == pytest.approx(value, abs=5e-3), name


def test_one_contact_at_a_time_is_routh_s_to_rounding():
    chosen = trial("environment.method=hybrid")
    findings = ANALYSIS.analyse(chosen, run(chosen))
    assert findings.references == {}
    for name, (value, _) in ANALYSIS.expected(chosen, findings).items():
        # the rod is met up to a step above the floor, never across it
        assert findings.metrics[name] == pytest.approx(value, abs=1e-9), name


def test_columns_say_when_and_how(default):
    _, samples, _ = default
    for body, state in (("ball", STICKS), ("rod", REVERSED)):
        codes = samples[f"{body}_slip"]
        first = int(np.argmax(codes > 0))
        assert samples["colliding"][first - 1] == 1
        assert codes[:first].tolist() == [0] * first
        assert set(codes[first:].tolist()) == {state}
    assert samples["ball_slip_velocity"][0] == pytest.approx(4.0)
    assert samples["ball_slip_velocity"][-1] == pytest.approx(0.0, abs=1e-9)
    assert samples["rod_slip_velocity"][0] == pytest.approx(1.0)


def test_contact_velocity_of_a_turned_rod():
    """By differences of where its end is."""
    chosen = trial()
    scene = frictional_impact.scene_of(chosen.experiment)
    rng = np.random.default_rng(20260)
    quaternion, omega = rng.normal(size=4), rng.normal(size=3)  # x y z w; in the body's axes
    quaternion /= np.linalg.norm(quaternion)

    def product(a, b):
        return np.array([*(a[3] * b[:3] + b[3] * a[:3] + np.cross(a[:3], b[:3])), a[3] * b[3] - a[:3] @ b[:3]])

    def end(time):
        half = 0.5 * time * np.linalg.norm(omega)
        turn = np.array([*(np.sin(half) * omega / np.linalg.norm(omega)), np.cos(half)])
        q = product(quaternion, turn)
        rod = product(product(q, np.array([0.0, 0.0, -0.5 * scene.length, 0.0])), q * [-1, -1, -1, 1])[:3]
        return time * np.array([0.3, -0.2, 0.1]) + rod

    table = {f"q{i}": np.zeros(1) for i in range(14)} | {f"v{i}": np.zeros(1) for i in range(12)}
    for i in range(4):
        table[f"q{10 + i}"][0] = quaternion[i]
    for i in range(3):
        table[f"v{6 + i}"][0], table[f"v{9 + i}"][0] = (0.3, -0.2, 0.1)[i], omega[i]
    axis = np.array([0.0, 0.0, -frictional_impact.ROD_END])
    table["q6"][0] = 1.0
    found = frictional_impact.contact_velocity(scene, "rod", Samples(table))[0]
    spin = product(product(quaternion, np.array([*omega, 0.0])), quaternion * [-1, -1, -1, 1])[:3]
    assert found == pytest.approx((end(1e-6) - end(-1e-6)) / 2e-6 + np.cross(spin, axis), abs=1e-8)


def test_frictionless_collisions_are_found_out():
    chosen = trial("environment.method=impulse_augmented")
    found = holds(ANALYSIS.analyse(chosen, run(chosen), compare=False))
    assert found["ball_rolls_or_slides"] is False
    assert found["follows_routh"] is False
    assert found["within_friction_cone"] is True


@pytest.mark.drawn
def test_trial_that_ends_before_the_impacts():
    chosen = trial("duration=0.003")
    samples = run(chosen)
    findings = ANALYSIS.analyse(chosen, samples)
    assert set(findings.metrics.values()) == {None}
    assert set(holds(findings).values()) == {None}
    assert ANALYSIS.expected(chosen, findings) == {}
    assert not samples["ball_slip"].any()
    assert ANALYSIS.figures(chosen, samples, findings)


def test_between_the_impacts_the_rod_is_undecided():
    chosen = trial("duration=0.007")
    findings = ANALYSIS.analyse(chosen, run(chosen), compare=False)
    assert findings.metrics["rod_slip_state"] is None
    assert holds(findings)["ball_rolls_or_slides"] is True
    assert holds(findings)["loses_energy"] is None


@pytest.mark.parametrize("angle, state", [(30, REVERSED), (60, STICKS), (90, STICKS)])
def test_angle_of_the_rod_decides_too(angle, state):
    chosen = trial(f"scene.angle={angle}", "scene.rod_speed=[0.2, 1]", "contact.friction.kinetic=0.5")
    findings = ANALYSIS.analyse(chosen, run(chosen), compare=False)
    assert findings.metrics["rod_slip_state"] == state
    assert holds(findings)["follows_routh"] is True


@pytest.mark.drawn
def test_figures(default):
    chosen, samples, findings = default
    figures = ANALYSIS.figures(chosen, samples, findings)
    assert [panel.title for panel in figures[0].panels] == ["(a) ball: rolls", "(b) rod: slides back"]
    assert len(figures[0].table) == 7
    # m A of the rod, from the lever (x, z) of its end and I / m = l^2 / 12; e = 1/2, c_n = -1, c_t = 1
    x, z = -0.15 * math.sqrt(0.5), -0.15 * math.sqrt(0.5) - 0.002
    A_nn, A_nt, A_tt = 1 + x * x / 0.0075, -x * z / 0.0075, 1 + z * z / 0.0075
    stops = (1.5 * A_nt + A_nn) / (1.5 * A_tt + A_nt)  # 1 = (mu A_tt - A_nt) (1 + e) / (A_nn - mu A_nt)
    sticks = -A_nt / A_tt
    ranges = f"the rod slides on up to {stops:.3g}, slides back up to {sticks:.3g}, sticks beyond"
    assert "the ball slides on up to 0.381, rolls beyond" in figures[1].caption
    assert ranges in figures[1].caption


@pytest.mark.drawn
def test_sweep_over_friction_is_drawn_over_friction():
    curves = []
    for mu in (0.2, 0.7):
        one = trial(f"contact.friction.kinetic={mu}", "duration=0.02")
        curves.append(frictional_impact.Curve(f"{mu}", one, run(one), frictional_impact.Style()))
    titles = [figure.title for figure in ANALYSIS.sweep_figures(curves)]
    assert titles[0] == "Over the kinetic coefficient of friction"
    other = replace(curves[1], trial=trial("contact.friction.kinetic=0.7", "duration=0.02", "scene.gap=0.02"))
    assert ANALYSIS.sweep_figures([curves[0], other])[0].title == "Slip during the impact"


def test_limits_of_the_rolling_condition():
    # mu (1 + e) |v_n| = 2/7 |v_t|
    mu = 2 / 7 * 4.0 / (1.5 * 2.0)
    mobility = (2.0, 0.0, 7.0, -2.0, 4.0, 0.5)
    assert routh(*mobility, mu * (1 + 1e-9)).state == STICKS
    assert routh(*mobility, mu * (1 - 1e-6)).state == SLIDES
    assert math.isclose(routh(*mobility, mu).rebound[-1], 1.0)


@pytest.mark.drawn
@pytest.mark.parametrize(
    "settings",
    [
        ("scene.speed=[1, 0]", "scene.rod_speed=[1, -1]"),  # the ball does not fall, the rod leaves
        ("scene.speed=[0, 2]", "scene.spin=0", "scene.rod_speed=[0, 1]", "scene.angle=90"),  # no slip at all
        ("contact.restitution=1", "contact.friction.kinetic=0", "scene.mass=1e-3"),
        ("contact.restitution=0", "contact.friction.kinetic=1", "scene.speed=[-30, 10]", "duration=0.03"),
        ("contact.friction.model=none", "scene.angle=1"),
    ],
)
def test_unusual_settings(settings):
    chosen = trial(*settings)
    samples = run(chosen)
    findings = ANALYSIS.analyse(chosen, samples)
    assert False not in holds(findings).values()
    assert ANALYSIS.figures(chosen, samples, findings)
    ANALYSIS.expected(chosen, findings)


@pytest.mark.parametrize(
    "setting, problem",
    [
        ("scene.angle=0", "scene.angle = 0 deg: must be > 0 deg"),
        ("scene.mass=0", "scene.mass = 0 kg: must be > 0 kg"),
        ("scene.spin=.inf", "scene.spin = inf rad/s: must be finite"),
        ("contact.friction.kinetic=1.1", "contact.friction.kinetic = 1.1: must be <= static = 1"),
    ],
)
def test_hostile_values_are_refused(setting, problem):
    with pytest.raises(ParameterError, match=problem):
        trial(setting)


def test_another_scene_is_refused():
    with pytest.raises(ParameterError, match="analysis = frictional_impact: needs the scene strike, not scene"):
        experiment.load("stack", ["analysis=frictional_impact"])
