"""A robot's arm in the hand, through a singularity."""

import numpy as np
import pinocchio as pin
import pytest
from linkage_checks import CLAIMS, METRICS, check_figures, load, run, run_alone
from scipy.integrate import solve_ivp

from haptic_drivers.operators import Arm
from haptic_experiments import arm_singularity
from haptic_experiments.arm_singularity import ABRUPT
from haptic_experiments.common.linkage_motion import HORIZON

THROUGH = "operator.path=[[[0.2,0,0,0],[2.5,0.1,0,-0.62],[4.8,0,0,0]]]"  # the elbow, over where it is straight


NAMES = [*CLAIMS, "through", "no_jump", "finite"]


@pytest.fixture(scope="module")
def wrist():
    return run_alone("arm_singularity", compare=True)


@pytest.fixture(scope="module")
def with_device():
    return run("arm_singularity")


def test_names_are_those_of_the_contract(wrist):
    own = ["passes", "rank_changes", "time_singular", "largest_rate"]
    assert list(wrist.metrics) == [*METRICS, *own]
    assert list(wrist.holds) == NAMES
    assert [statement.name for statement in arm_singularity.ANALYSIS.CLAIMS] == NAMES
    assert wrist.trial.experiment.duration <= HORIZON


def test_wrist_alone_shows_what_it_claims(wrist):
    assert wrist.holds == {**dict.fromkeys(NAMES, True), "together": None}
    assert wrist.metrics["passes"] >= 1
    assert wrist.metrics["law_error"] < 1e-9


def test_wrist_with_a_device_shows_what_it_claims(with_device):
    holds = with_device.holds
    assert holds == dict.fromkeys(NAMES, True)


def test_without_fading_the_force_jumps(wrist):
    jumps = wrist.measured("no_jump")
    assert jumps[f"blocked, {ABRUPT}"] > 10.0 * jumps["blocked"]
    abrupt = run_alone("arm_singularity", "scene.rank_fade=0")
    assert abrupt.holds["no_jump"] is False
    # the tool itself does not know of fading
    assert abrupt.samples["q2"].tolist() == wrist.samples["q2"].tolist()


def test_elbow_is_blocked_in_three_directions_wherever_it_is():
    found = run_alone("arm_singularity", "scene.hold=elbow", THROUGH)
    assert found.metrics["passes"] >= 1
    assert found.holds["through"] is True and found.holds["blocked_directions"] is True
    assert found.holds["law"] is True and found.holds["finite"] is True
    assert set(found.samples["constraint_directions"]) == {3.0}


def test_elbow_that_never_is_straight_says_nothing():
    found = run_alone("arm_singularity", "scene.hold=elbow", "duration=0.3")
    assert found.holds["through"] is None


def test_motion_through_the_singularity_is_that_of_an_independent_integration():
    trial = load("arm_singularity", "device.type=none", "controller.type=none", "duration=3.0")
    world, operator = trial.world, Arm(trial.experiment.operator)
    model, data, wrench = world.model, world.model.createData(), np.zeros(6)
    pin.framesForwardKinematics(model, data, world.q)
    pose = np.concatenate([data.oMf[world.hand].translation, pin.SE3ToXYZQUAT(data.oMf[world.hand])[3:]])
    operator.wrench(0.0, pose, np.zeros(6), wrench)  # takes hold

    def rate(time, x):
        q, v = x[:6], x[6:]
        J = pin.computeFrameJacobian(model, data, q, world.hand, pin.LOCAL_WORLD_ALIGNED)
        pin.framesForwardKinematics(model, data, q)
        at = pin.SE3ToXYZQUAT(data.oMf[world.hand])
        operator.wrench(time, at, J @ v, wrench)
        return np.concatenate([v, pin.aba(model, data, q, v, J.T @ wrench)])

    exact = solve_ivp(rate, (0.0, 3.0), np.concatenate([world.q, world.v]), "DOP853", rtol=1e-7, atol=1e-9).y[:6, -1]
    errors = []
    for hertz in (1000, 4000):
        samples = run_alone("arm_singularity", f"rate={hertz}", "duration=3.0").samples
        assert samples["q2"].min() < 0.0 < samples["q2"].max()
        errors.append(max(abs(samples[f"q{i}"][-1] - exact[i]) for i in range(6)))
    assert errors[1] < 0.5 * errors[0] < 0.05


@pytest.mark.parametrize("q2", ["0.0", "1.0e-12", "1.0e-9", "-1.0e-6"])
def test_start_in_the_singularity_is_finite(q2):
    found = run_alone("arm_singularity", f"scene.q=[0,-0.9,{q2},-0.6,-1.5,0]", "duration=0.2")
    assert found.holds["finite"] is True
    assert found.samples["constraint_directions"][0] == 1.0


def test_sweep_over_holds_makes_two_trials():
    from haptic_bench import experiment

    trials = experiment.load("arm_singularity", ["scene.hold=[wrist,elbow]"])
    assert [trial.label for trial in trials] == ["scene.hold=wrist", "scene.hold=elbow"]


@pytest.mark.exhaustive
@pytest.mark.drawn
def test_figures(wrist):
    check_figures(wrist)
