"""rolling_balls: balls and a top against closed forms; and that each claim can fail."""

from __future__ import annotations

import numpy as np
import pytest
from claim_checks import Run, load, names

from haptic_experiments import rolling_balls


@pytest.fixture(scope="module")
def run() -> Run:
    return Run("rolling_balls")


def test_balls_and_top_stop_as_the_closed_forms_say(run: Run) -> None:
    assert run.holds() == dict.fromkeys(names(rolling_balls.ANALYSIS.CLAIMS), True)


def test_claims_fail_for_other_motions(run: Run) -> None:
    samples, model = run.samples, run.trial.world.model

    def column(kind: str, body: str, number: int) -> str:
        joint = model.getJointId(body)
        return f"{kind}{(model.idx_qs if kind == 'q' else model.idx_vs)[joint] + number}"

    def failed(**other: np.ndarray) -> set[str]:
        return {name for name, holds in run.holds(samples.with_columns(other)).items() if holds is False}

    x, w = column("q", "felt", 0), column("v", "top", 5)
    assert failed(**{x: 1.02 * samples[x]}) == {"rolls_as_far", "as_coefficients"}
    assert failed(**{w: np.maximum(1.02 * samples[w] - 0.4, 0.0)}) == {"top_slows"}
    assert failed(**{w: samples[w] + 0.001}) == {"rests"}
    assert failed(energy_friction=0.98 * samples["energy_friction"]) == {"energy"}


def test_without_friction_of_their_own_they_have_that_of_all_contacts() -> None:
    keys = [f"scene.bodies.{name}.friction_rolling=null" for name in ("rubber", "felt")]
    holds = Run("rolling_balls", *keys, "contact.friction.rolling=0.002").holds()
    assert holds == dict.fromkeys(names(rolling_balls.ANALYSIS.CLAIMS), True)


def test_balls_that_do_not_stop_are_undecided() -> None:
    keys = ["scene.bodies.rubber.friction_rolling=0.0", "duration=0.1"]
    holds = Run("rolling_balls", *keys).holds()
    assert holds["rolls_as_far"] is None and holds["as_coefficients"] is None and holds["rests"] is False


def test_analysis_needs_its_balls() -> None:
    with pytest.raises(ValueError, match=r"analysis = rolling_balls: needs free balls rubber, felt and top, a table"):
        load("rolling_touch", "analysis=rolling_balls")
