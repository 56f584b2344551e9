"""servo_cost: that its claims can fail; costs themselves are not asserted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from claim_checks import Run, load, names

from haptic_experiments import servo_cost
from haptic_experiments.servo_cost import DEGREES, Cost

CHEAP = dict.fromkeys(DEGREES, Cost(3e-5, 5e-5, 6e-5, 1e-4, 1.2e-4))


@pytest.fixture(scope="module")
def run() -> Run:
    return Run("servo_cost", "duration=0.45")


def judged(run: Run, costs: dict[int, Cost], **columns: np.ndarray) -> dict[str, bool | None]:
    samples = run.samples.with_columns(columns)
    return {claim.name: claim.holds for claim in servo_cost.ANALYSIS.judge_costs(run.trial, samples, costs).claims}


def test_claims_hold_for_cheap_steps_and_fail_for_dear_ones(run):
    assert judged(run, CHEAP) == dict.fromkeys(names(servo_cost.ANALYSIS.CLAIMS), True)
    assert judged(run, CHEAP | {6: replace(CHEAP[6], tick_99=1.1e-3)})["at_servo_rate"] is False
    assert judged(run, CHEAP | {34: replace(CHEAP[34], step_99=6.1e-4)})["step_of_34"] is False
    assert judged(run, CHEAP | {3: replace(CHEAP[3], inverse_dynamics=0.8e-3)})["faster_than_source"] is False
    nothing = np.zeros(len(run.samples))
    assert judged(run, CHEAP, rendered_fx=nothing, rendered_fy=nothing)["felt"] is False
    assert judged(run, {})["at_servo_rate"] is None


def test_costs_are_measured_of_all_three_systems(run):
    costs = {degrees: servo_cost.measure(servo_cost.variant(run.trial, degrees)) for degrees in DEGREES}
    assert [cost.tick > cost.inverse_dynamics > 0.0 for cost in costs.values()] == [True] * 3
    for degrees in DEGREES:
        assert servo_cost.variant(run.trial, degrees).world.model.nv == degrees + 6
    findings = servo_cost.ANALYSIS.judge_costs(run.trial, run.samples, costs)
    figure = servo_cost.ANALYSIS.figures(run.trial, run.samples, findings)[0]
    assert not figure.panels[0].empty and figure.table[0][1:] == ["3", "6", "34"]


def test_study_needs_its_parts():
    with pytest.raises(ValueError, match=r"analysis = servo_cost: needs a motion, a pull, a device"):
        load("push_arm", "analysis=servo_cost")
