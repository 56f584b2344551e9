"""gears: one gear drives the other by contact alone, by the ratio of their teeth."""

from __future__ import annotations

import numpy as np
import pytest
from claim_checks import Run, load, names

from haptic_experiments import gears


@pytest.fixture(scope="module")
def run() -> Run:
    return Run("gears")


@pytest.mark.exhaustive
def test_the_claims_hold(run: Run) -> None:
    assert run.holds() == dict.fromkeys(names(gears.ANALYSIS.CLAIMS), True)


@pytest.mark.exhaustive
def test_claims_fail_for_other_trials(run: Run) -> None:
    samples = run.samples
    slipping = samples.with_columns({"q1": samples["q1"] + 0.05 * np.maximum(samples["time"] - 1.0, 0.0)})
    assert run.holds(slipping)["ratio"] is False
    tooth = np.where(samples["time"] > 1.5, 2.0 * np.pi / 12, 0.0)
    assert run.holds(samples.with_columns({"q1": samples["q1"] + tooth}))["smooth"] is False
    assert run.holds(samples.with_columns({"env_tz": 0.9 * samples["env_tz"]}))["torque"] is False


def test_it_needs_gears() -> None:
    with pytest.raises(
        ValueError, match="analysis = gears: needs a revolute body driver with the generated shape gear"
    ):
        load(
            "rolling_touch",
            "analysis=gears",
            "scene.bodies.driver={joint: fixed}",
            "scene.bodies.driven={joint: fixed}",
        )


@pytest.mark.exhaustive
def test_figures_are_drawn() -> None:
    run = Run("gears", "duration=0.1")
    findings = run.analysis.analyse(run.trial, run.samples)
    figure = run.analysis.figures(run.trial, run.samples, findings)[0]
    assert [panel.name for panel in figure.panels] == ["angles", "transmission"]
    assert not any(panel.empty for panel in figure.panels)
