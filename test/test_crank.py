"""A crank in the hand: its law, its dead points, and its knob."""

import math

import numpy as np
import pytest
from linkage_checks import CLAIMS, METRICS, check_figures, run, run_alone
from scipy.integrate import solve_ivp

from haptic_experiments import crank

NAMES = [*CLAIMS, "dead_points", "work_is_speed", "knob_stays_upright"]


@pytest.fixture(scope="module")
def alone():
    return run_alone("crank")


@pytest.fixture(scope="module")
def with_device():
    return run("crank", compare=True)


def test_names_are_those_of_the_contract(alone):
    own = ["turns", "dead_points", "least_speed", "largest_speed", "knob_turn"]
    assert list(alone.metrics) == [*METRICS, *own]
    assert list(alone.holds) == NAMES
    assert [statement.name for statement in crank.ANALYSIS.CLAIMS] == NAMES


def test_crank_alone_shows_what_it_claims(alone):
    assert alone.holds == {**dict.fromkeys(NAMES, True), "together": None}
    assert alone.metrics["law_error"] < 1e-10
    assert set(alone.samples["constraint_directions"]) == {4.0}


def test_crank_with_a_device_shows_what_it_claims(with_device):
    assert with_device.holds == dict.fromkeys(NAMES, True)


def test_a_fast_crank_turns_over_its_dead_points():
    found = run_alone("crank", "scene.speed=11", "duration=2.0")
    assert found.metrics["turns"] > 2.0
    assert found.metrics["dead_points"] == pytest.approx(2.0 * found.metrics["turns"], abs=1.01)
    assert found.metrics["least_speed"] > 0.0
    assert found.holds["dead_points"] and found.holds["work_is_speed"]
    assert found.samples["v0"] == pytest.approx(crank.rate_by_energy(found.trial, found.samples), rel=2e-2)


def test_angle_is_that_of_an_independent_integration():
    r, inertia = 0.12, 0.01 + 0.1 * 0.12**2
    load = 9.81 * (1.5 * 0.01 + 0.1 * 0.12)

    def rate(_, x):
        torque = r * (-2.0 * math.sin(x[0]) + 1.5 * math.cos(x[0])) - load * math.cos(x[0])
        return [x[1], torque / inertia]

    errors = []
    for hertz in (1000, 4000):
        samples = run_alone("crank", f"rate={hertz}", "duration=1.0").samples
        time = samples["time"]
        start = [math.radians(150.0), 0.0]
        exact = solve_ivp(rate, (0.0, time[-1]), start, "DOP853", time, rtol=1e-12, atol=1e-12).y[0]
        errors.append(np.abs(samples["q0"] - exact).max())
    assert errors[0] < 2e-2
    assert errors[1] == pytest.approx(0.25 * errors[0], rel=0.05)  # first order


def test_a_torque_spins_the_knob_only():
    wrench = "operator.wrench=[0,0,0,0,-0.0001,0]"
    found = run_alone("crank", wrench, "duration=0.3", "scene.gravity=0", "operator.release=null")
    assert np.abs(found.samples["v0"]).max() < 1e-12
    spin = 0.3 * 1e-4 / (0.4 * 0.1 * 0.02**2)
    assert found.samples["v1"][-1] == pytest.approx(spin, rel=1e-9)
    assert found.holds["knob_stays_upright"] is None


def test_force_along_the_axle_is_blocked():
    found = run_alone("crank", "operator.wrench=[0,20,0,0,0,0]", "duration=0.2", "scene.gravity=0")
    assert np.abs(found.samples["v0"]).max() < 1e-12
    assert found.held.across == pytest.approx(found.held.felt, abs=1e-12)


def test_gravity_alone_swings_it_as_a_pendulum():
    found = run_alone("crank", "operator.wrench=[0,0,0,0,0,0]", "scene.angle=-80", "duration=3.0")
    assert found.holds["law"] and found.holds["work_is_speed"]
    crossings = np.flatnonzero(np.diff(np.sign(found.samples["v0"])))
    period = 2.0 * np.diff(found.samples["time"][crossings]).mean()
    scene = found.trial.experiment.scene
    small = 2.0 * math.pi * math.sqrt(scene.inertia_with_knob / scene.load)
    assert period == pytest.approx(small * (1.0 + math.radians(10.0) ** 2 / 16.0), rel=2e-3)


def test_a_crank_without_load_or_force_keeps_its_speed():
    found = run_alone("crank", "operator.wrench=[0,0,0,0,0,0]", "scene.gravity=0", "scene.speed=20", "duration=1.0")
    assert found.samples["v0"] == pytest.approx(20.0, rel=1e-10)
    assert found.holds["law"] is None and found.holds["dead_points"] is None


def test_another_inertia_is_noticed(alone):
    scene = alone.trial.experiment.scene.model_copy(update={"inertia": 0.0105})
    wrong = alone.trial.experiment.model_copy(update={"scene": scene})
    assert crank.ANALYSIS.law(type(alone.trial)(wrong), alone.samples).error > 0.03


@pytest.mark.exhaustive
@pytest.mark.drawn
def test_figures(with_device):
    check_figures(with_device)
