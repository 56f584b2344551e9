"""Description in a report of a device that is not the ideal one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from haptic_bench import experiment, run
from haptic_bench.analysis import ideal_device
from haptic_bench.analysis.claims import DeviceComparison, Findings, Quantity, Statement
from haptic_bench.analysis.trial import ANALYSIS
from haptic_bench.recording.summary import read_summary
from haptic_drivers.pantograph import PantographParameters, motor_torques

PANTOGRAPH = {"device.type": "pantograph", "analysis": "trial"}


def test_a_trial_on_the_ideal_device_is_compared_with_nothing() -> None:
    assert "ideal_device" not in run("corner_peg", {"analysis": "trial"}, duration=0.05).summary


@pytest.mark.exhaustive
def test_without_motors_limits_friction_and_encoders_nothing_changes_but_the_integration() -> None:
    exact = {"device.counts": 0, "device.viscous_friction": 0.0, "device.coulomb_friction": 0.0}
    found = run("corner_peg", PANTOGRAPH | exact, duration=0.3).summary["ideal_device"]["metrics"]
    # semi-implicit Euler is ahead of the exact motion by half a tick of the speed that is reached, 0.077 m/s
    speed = np.hypot(0.32, 0.4) / 2.0 * 0.3
    assert found["away"]["device"] == pytest.approx(0.5 * speed / 512.0, rel=0.3)
    assert found["at_limit"] == {"device": 0.0, "ideal": None}


@pytest.mark.exhaustive
def test_the_report_shows_what_the_device_changes(tmp_path: Path) -> None:
    trial = run("corner_peg", PANTOGRAPH, duration=0.3, out=tmp_path / "trial")
    found = read_summary(tmp_path / "trial")["ideal_device"]
    assert found["metrics"]["hand_work"]["device"] == trial.metrics["hand_work"]
    assert found["metrics"]["hand_work"]["ideal"] != trial.metrics["hand_work"]
    assert found["metrics"]["hand_tool_distance"]["ideal"] < 1e-9 < found["metrics"]["hand_tool_distance"]["device"]
    assert found["claims"] == {}
    page = (tmp_path / "trial" / "report.html").read_text(encoding="utf-8")
    assert "What the device changes" in page and "Largest current of a motor [A]" in page
    assert (tmp_path / "trial" / "figures" / "device_path.svg").exists()


@pytest.mark.exhaustive
def test_claims_that_are_judged_otherwise_are_listed() -> None:
    trial = run("corner_peg", {"device.type": "pantograph", "analysis": "trial"}, duration=0.02)
    statement = Statement("bounces", "The hand bounces", "THESIS", Quantity("bounces"))
    force = ("peak_force", Quantity("Largest rendered force", "N"))
    found = DeviceComparison(
        {force[0]: (force[1], 3.0, 4.0)},
        {"peak_force": (3.0, 4.0), "hand_work": (1.0, 2.0)},
        {"bounces": (True, None), "stays": (False, False)},
        trial.samples,
    )
    findings = Findings({}, [statement.judged({}, True)], {}, found)
    first, second = ideal_device.figures(findings, trial.samples, ANALYSIS.quantity)
    assert first.table[1:] == [
        ["Largest rendered force [N]", "3.000", "4.000"],
        ["Work of the operator's hand [J]", "1.000", "2.000"],
    ]
    assert "Of 2 claims, 1 are judged otherwise" in first.caption
    assert second.table == [["", "this device", "ideal device"], ["The hand bounces", "holds", "undecided"]]


def test_the_current_is_that_of_the_torques_that_make_the_rendered_wrench() -> None:
    trial = experiment.load("corner_peg", ["device.type=pantograph"])[0]
    device = trial.experiment.device
    assert isinstance(device, PantographParameters)
    poses, wrenches = np.zeros((2, 7)), np.zeros((2, 6))
    poses[:, 6], wrenches[1, 1] = 1.0, 23.0
    torques = motor_torques(device, poses, wrenches)
    assert not torques[0].any()
    np.testing.assert_allclose(np.abs(torques[1]) / device.torque_constant, 16.4, rtol=2e-3)


def test_the_ideal_device_keeps_what_is_not_of_the_linkage() -> None:
    trial = experiment.load("linkage_topology", ["device.type=pantograph"])[0]
    samples = run("linkage_topology", {"device.type": "pantograph", "analysis": "trial"}, duration=0.01).samples
    ideal = ideal_device.on_ideal_device(trial, samples)
    assert ideal is not None
    device = ideal.experiment.device
    assert (device.type, device.mass, device.inertia, device.offset) == ("inertial", 1.0, 1.0, (0.005, 0.003))
    assert ideal.experiment.last_tick == samples["tick"][-1]
    assert ideal_device.on_ideal_device(ideal, samples) is None
