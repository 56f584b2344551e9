"""rolling_touch: a ball on the floor that is pushed, against closed forms; and that each claim can fail."""

from __future__ import annotations

import numpy as np
import pytest
from claim_checks import Run, load, names

from haptic_experiments import rolling_touch


@pytest.fixture(scope="module")
def run() -> Run:
    return Run("rolling_touch")


def test_hand_feels_what_the_closed_forms_say(run):
    assert run.holds() == dict.fromkeys(names(rolling_touch.ANALYSIS.CLAIMS), True)


@pytest.mark.parametrize(
    ("mass", "radius", "friction"),
    [(0.8, 0.05, 0.02), (0.5, 0.05, 0.012), (0.5, 0.08, 0.02)],
)
def test_other_balls_and_floors(mass, radius, friction):
    place = f"scene.bodies.ball.position=[[{0.0202 + radius},0,{radius}]]"
    shapes = f"scene.bodies.ball.shapes=[[{{type: sphere, radius: {radius}}}]]"
    tip = f"scene.bodies.tip.position=[[0,0,{radius}]]"
    friction_of = [f"contact.friction.{kind}={friction}" for kind in ("static", "kinetic")]
    holds = Run("rolling_touch", place, shapes, tip, f"scene.bodies.ball.mass={mass}", *friction_of).holds()
    # of the heavy ball the push is too weak for it to slide
    assert all(value is not False for value in holds.values())
    assert holds["rolling_mass"] is True


def test_claims_fail_for_other_trials(run):
    samples = run.samples
    lighter = samples.with_columns({"rendered_fx": 0.9 * samples["rendered_fx"]})
    holds = run.holds(lighter)
    assert holds["rolling_mass"] is False and holds["sliding_mass"] is False and holds["slip_begins"] is False
    without_friction = Run("rolling_touch", "contact.friction.static=0.0", "contact.friction.kinetic=0.0").holds()
    assert without_friction["rolling_mass"] is None  # it never rolls
    column = f"v{run.trial.world.model.idx_vs[run.trial.world.model.getJointId('ball')]}"
    late = samples["time"] > 2.0
    slower = samples.with_columns({column: np.where(late, 0.95 * samples[column], samples[column])})
    assert run.holds(slower)["rolls_again"] is False


def test_penalties_creep_where_rigid_contacts_stick():
    # which is why the experiment takes rigid contacts
    holds = Run("rolling_touch", "environment.method=penalty").holds()
    assert holds["rolling_mass"] is True and holds["slip_begins"] is False


def test_figures_are_drawn(run):
    findings = run.analysis.analyse(run.trial, run.samples)
    figure = run.analysis.figures(run.trial, run.samples, findings)[0]
    assert [panel.name for panel in figure.panels] == ["felt_force", "ball_speed"]
    assert not any(panel.empty for panel in figure.panels)


def test_study_needs_a_ball():
    with pytest.raises(ValueError, match=r"analysis = rolling_touch: needs a free ball, a floor, a device"):
        load("two_hands", "analysis=rolling_touch", "hands=[[]]")
