"""The ball's closed form, what is seen of bouncing bodies, and the experiment with its claims."""

import math

import numpy as np
import pytest
from offline_runs import run_unrecorded

from haptic_bench import experiment
from haptic_experiments import bounce_settle
from haptic_experiments.bounce_settle import Bounces, Motion
from haptic_sim.parameters import ParameterError
from haptic_sim.worlds.scenes import GRAVITY

ANALYSIS = bounce_settle.ANALYSIS
NAMES = [statement.name for statement in bounce_settle.CLAIMS]


def trial(*settings):
    (only,) = experiment.load("bounce_settle", settings)
    return only


def analysed(*settings):
    chosen = trial(*settings)
    return ANALYSIS.analyse(chosen, run_unrecorded(chosen), compare=False)


def holds(findings):
    return {claim.name: claim.holds for claim in findings.claims}


@pytest.fixture(scope="module")
def default():
    chosen = trial("duration=1.65")  # twice the time that the ball takes by theory, and a little
    samples = run_unrecorded(chosen)
    return chosen, samples, ANALYSIS.analyse(chosen, samples)


def test_bounces_of_a_ball_by_theory():
    h, e = 0.2, 0.6
    bounces = Bounces.of(h, e, 0.02, 10.0)
    speed = math.sqrt(2 * GRAVITY * h)
    # the collision of speed e^n v is the last faster than 0.02 m/s; sum of flights 2 e^i v / g
    n = math.floor(math.log(0.02 / speed) / math.log(e))
    assert bounces.times.size == n + 1
    assert bounces.times[-1] == pytest.approx(speed / GRAVITY * (1 + 2 * sum(e**i for i in range(1, n + 1))))
    assert bounces.heights == pytest.approx([h * e ** (2 * i) for i in range(1, n + 2)])
    assert bounces.settles


def test_a_ball_that_loses_nothing_never_settles():
    bounces = Bounces.of(0.2, 1.0, 0.02, 3.0)
    assert not bounces.settles
    assert bounces.heights == pytest.approx(0.2)
    assert not Bounces.of(0.2, 0.6, 0.0, 3.0).settles
    assert Bounces.of(0.0, 0.6, 0.02, 3.0).times.size == 0


def test_height_by_theory_is_that_of_free_flights():
    bounces = Bounces.of(0.2, 0.5, 0.02, 10.0)
    time = np.linspace(0.0, 1.0, 100001)
    height = bounces.at(time, 0.2)
    inside = np.diff(height, 2)[np.diff(height, 2) < 0] / 1e-10
    assert inside == pytest.approx(-GRAVITY, rel=1e-3)  # in flight
    assert height[np.searchsorted(time, bounces.times[0])] == pytest.approx(0.0, abs=2e-5)
    assert height[(time > bounces.times[0]) & (time < bounces.times[1])].max() == pytest.approx(0.05, rel=1e-6)


def test_names_are_those_of_the_contract(default):
    assert list(default[2].metrics) == list(bounce_settle.METRICS)
    assert list(default[2].metrics)[:3] == ["bounces", "switch_time", "rest_height_error"]
    assert list(holds(default[2])) == NAMES


def test_default_shows_what_it_claims(default):
    _, _, findings = default
    assert holds(findings) == dict.fromkeys(NAMES, True)
    assert 0.5 < findings.metrics["switch_time"] < 1.0
    assert findings.metrics["rest_height_error"] < 1e-6
    assert set(findings.references) == {"constraint", "frictional_impulses", "wall", "wall as printed"}


def test_every_collision_is_of_the_ball_or_of_the_cube(default):
    chosen, samples, findings = default
    motion = Motion.of(chosen, samples)
    struck = np.union1d(motion.ball_struck, motion.cube_struck)
    assert struck.tolist() == np.flatnonzero(samples["colliding"]).tolist()
    assert findings.metrics["bounces"] == motion.ball_struck.size + motion.cube_struck.size
    assert findings.metrics["switch_time"] == samples["time"][struck[-1]]


def test_smaller_steps_come_nearer_to_the_ball_of_theory():
    fine = analysed("rate=8000", "duration=0.9")
    coarse = analysed("duration=0.9")
    theory = Bounces.of(0.2, 0.6, 0.02, 10.0)
    assert fine.metrics["ball_bounces"] == theory.times.size
    assert fine.metrics["ball_switch_time"] == pytest.approx(theory.times[-1], abs=5e-3)
    assert fine.metrics["bounce_height_error"] < 0.5 * coarse.metrics["bounce_height_error"]


def test_lowest_corner_and_tilt_of_the_cube(default):
    chosen, samples, _ = default
    motion = Motion.of(chosen, samples)
    assert motion.cube[0] == pytest.approx(0.2)
    assert motion.tilt[0] == pytest.approx(0.3)
    assert motion.tilt[-1] == pytest.approx(0.0, abs=1e-4)
    # the cube's corners stop nothing and are never below the floor
    assert motion.cube.min() > -1e-5


@pytest.mark.parametrize("e", [0.3, 0.9, 1.0])
def test_any_restitution_bounces_by_its_law(e):
    findings = analysed(f"contact.restitution={e}", "duration=1.0")
    found = holds(findings)
    assert found["restitution"] is True
    assert found["energy_never_grows"] is True
    assert found["bounce_heights"] is True


def test_without_restitution_nothing_bounces():
    """The complementarity problem closes the contacts; the ball is at rest on the floor, not above it."""
    findings = analysed("contact.restitution=0", "duration=1.0")
    assert findings.metrics["bounces"] == 0
    assert findings.metrics["rest_height_error"] < 1e-6
    assert holds(findings)["energy_never_grows"] is True


def test_what_still_bounces_is_undecided():
    findings = analysed("duration=0.5")
    assert findings.metrics["switch_time"] is None
    assert findings.metrics["rest_height_error"] is None
    assert findings.metrics["ball_bounces"] == 2
    assert holds(findings)["switches"] is None
    assert holds(findings)["lies_on_the_floor"] is None
    assert holds(findings)["restitution"] is True


@pytest.mark.drawn
def test_trial_that_ends_in_the_air():
    chosen = trial("duration=0.01")
    samples = run_unrecorded(chosen)
    findings = ANALYSIS.analyse(chosen, samples)
    assert findings.metrics["bounces"] == 0
    decided = {"energy_never_grows", "printed_wall_pulls"}  # the latter has runs of its own
    assert {name for name, held in holds(findings).items() if held is not None} == decided
    assert ANALYSIS.figures(chosen, samples, findings)
    one = trial("duration=1e-6")
    assert ANALYSIS.analyse(one, run_unrecorded(one).until(0.0)).metrics["switch_time"] is None


def test_apex_of_a_small_hop_is_not_rest():
    # dropped from 0.09 mm, in the air for 4 ms: near the floor and slow, but not for STEADY
    findings = analysed("scene.height=9e-5", "scene.tilt=0", "duration=0.003")
    assert findings.metrics["switch_time"] is None


def test_penalties_sink_in_and_gain_energy():
    findings = analysed("environment.method=frictional_impulses", "duration=1.2")
    found = holds(findings)
    assert found["lies_on_the_floor"] is False
    assert found["energy_never_grows"] is False
    # at rest a spring carries the ball's weight: m g / K
    assert findings.metrics["rest_height_error"] == pytest.approx(0.2 * GRAVITY / 4000, rel=1e-3)


@pytest.mark.drawn
def test_figures_and_theory(default):
    chosen, samples, findings = default
    bouncing, *_ = ANALYSIS.figures(chosen, samples, findings)
    assert [panel.name for panel in bouncing.panels] == ["height_ball", "height_cube", "tilt", "bounce_heights"]
    assert len(bouncing.table) == 4
    assert ANALYSIS.expected(chosen, findings)["ball_bounces"][0] == 9
    curve = bounce_settle.Curve("a", chosen, samples, bounce_settle.Style())
    assert len(ANALYSIS.sweep_figures([curve, curve])) == 3


@pytest.mark.parametrize(
    "setting, problem",
    [
        ("scene.height=-1", "scene.height = -1 m: must be >= 0 m"),
        ("scene.radius=0", "scene.radius = 0 m: must be > 0 m"),
        ("contact.restitution=1.5", "contact.restitution = 1.5: must be <= 1"),
        ("scene.tilt=.nan", "scene.tilt = nan rad: must be finite"),
    ],
)
def test_hostile_values_are_refused(setting, problem):
    with pytest.raises(ParameterError, match=problem):
        trial(setting)


def test_another_scene_is_refused():
    with pytest.raises(ParameterError, match="analysis = bounce_settle: needs the scene drop, not scene"):
        experiment.load("stack", ["analysis=bounce_settle"])
