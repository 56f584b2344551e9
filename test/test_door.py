"""A door in the hand: its arc, its law, its slam."""

import math

import numpy as np
import pytest
from linkage_checks import CLAIMS, METRICS, check_figures, load, run, run_alone
from scipy.integrate import solve_ivp

from haptic_experiments import door
from haptic_sim.parameters import ParameterError

FREE = ("operator.release=null", "duration=0.8")


NAMES = [*CLAIMS, "arc", "slam_speed"]


@pytest.fixture(scope="module")
def alone():
    return run_alone("door")


@pytest.fixture(scope="module")
def with_device():
    return run("door", compare=True)


def test_names_are_those_of_the_contract(alone):
    own = ["slams", "slam_time", "slam_speed", "slam_force", "arc_error", "final_angle"]
    assert list(alone.metrics) == [*METRICS, *own]
    assert list(alone.holds) == NAMES
    assert [statement.name for statement in door.ANALYSIS.CLAIMS] == NAMES


def test_door_alone_shows_what_it_claims(alone):
    assert alone.holds == {**dict.fromkeys(NAMES, True), "together": None}
    assert alone.metrics["slams"] >= 1
    assert alone.metrics["law_error"] < 1e-10
    assert set(alone.samples["constraint_directions"]) == {5.0}


def test_door_with_a_device_shows_what_it_claims(with_device):
    assert with_device.holds == dict.fromkeys(NAMES, True)
    assert set(with_device.findings.references) == {"tool without a device"}


def test_angle_is_that_of_an_independent_integration():
    force = np.array([0.5, -1.0, -4.0])
    found = run_alone("door", *FREE)

    def rate(_, x):
        tangent = [
            -0.36 * math.sin(x[0]) - 0.04 * math.cos(x[0]),
            0.36 * math.cos(x[0]) - 0.04 * math.sin(x[0]),
            0.0,
        ]
        return [x[1], force @ tangent / (2.5 * (0.4**2 / 3 + 0.018**2 / 12))]

    time = found.samples["time"]
    exact = solve_ivp(rate, (0.0, time[-1]), [math.radians(60.0), 0.0], "DOP853", time, rtol=1e-12, atol=1e-12).y[0]
    errors = []
    for hertz in (1000, 4000):
        angle = run_alone("door", *FREE, f"rate={hertz}").samples["q0"][:: hertz // 1000]
        errors.append(np.abs(angle[: exact.size] - exact).max())
    assert errors[0] < 2e-3
    assert errors[1] == pytest.approx(0.25 * errors[0], rel=0.02)  # first order


def test_force_along_the_hinge_or_through_it_moves_nothing():
    for wrench in ("[0,0,-50,0,0,0]", "[0,0,0,3,-2,0]"):
        found = run_alone("door", f"operator.wrench={wrench}", "duration=0.2", "operator.release=null")
        assert np.abs(found.samples["v0"]).max() < 1e-12
        assert found.held.across == pytest.approx(found.held.felt, abs=1e-12)


def test_force_along_the_arc_is_not_blocked():
    found = run_alone("door", "operator.wrench=[0,0,0,0,0,0.3]", "duration=0.1", "operator.release=null")
    # a torque about the hinge: all of it moves the door, though not as a wrench of the metric of the leaf
    power = np.einsum("ni,ni->n", found.held.felt - found.held.across, found.held.twist)
    whole = np.einsum("ni,ni->n", found.held.felt, found.held.twist)
    assert power == pytest.approx(whole, abs=1e-14)


def test_a_leaning_hinge_closes_the_door():
    settings = ("scene.lean=10", "operator.wrench=[0,0,0,0,0,0]")
    found = run_alone("door", *settings)
    assert found.metrics["slams"] >= 1
    assert found.holds["law"] and found.holds["slam_speed"]
    m, g, w, inertia = 2.5, 9.81, 0.4, 2.5 * (0.4**2 / 3 + 0.018**2 / 12)
    gained = m * g * math.sin(math.radians(10)) * 0.5 * w * (1 - math.cos(math.radians(60)))
    assert found.measured("slam_speed")["tool"] == pytest.approx(-math.sqrt(2 * gained / inertia), rel=5e-3)


def test_a_door_that_stays_open_leaves_the_slam_undecided():
    found = run_alone("door", "operator.wrench=[0,0,0,0,0,0]", "duration=0.1")
    assert found.metrics["slam_time"] is None and found.metrics["slams"] == 0
    assert found.holds["slam_speed"] is None and found.holds["law"] is None and found.holds["no_work"] is None


def test_another_inertia_is_noticed(alone):
    scene = alone.trial.experiment.scene.model_copy(update={"mass": 2.6})
    wrong = alone.trial.experiment.model_copy(update={"scene": scene})
    law = door.ANALYSIS.law(type(alone.trial)(wrong), alone.samples)
    assert law.error > 0.03


@pytest.mark.exhaustive
@pytest.mark.drawn
def test_figures(with_device):
    check_figures(with_device)


def test_other_scenes_are_refused():
    with pytest.raises(ParameterError, match="needs the scene door"):
        load("crank", "analysis=door")
