"""A peg against a wall that comes late: where the hand feels it, and what decides the claims."""

from __future__ import annotations

import numpy as np
import pytest
from claim_checks import Compared, changed, load, scaled

from haptic_bench.recording.samples import Samples
from haptic_experiments.common.local_models import COMPARED, inside, perceived_wall, rebounds
from haptic_experiments.static_wall import ANALYSIS, wall_position
from haptic_sim.parameters import ParameterError

WALL = 0.116  # [m] of the source


@pytest.fixture(scope="module")
def compared() -> Compared:
    return Compared("static_wall")


def test_it_is_the_experiment_of_the_source(compared: Compared) -> None:
    of = compared.trial.experiment
    assert (of.tool.mass, of.tool.inertia, of.tool.size) == (2.0, 0.005, (0.042, 0.021))  # type: ignore[union-attr]
    assert (of.contact.stiffness, of.contact.damping, of.contact.restitution) == (4000.0, 30.0, 0.0)
    assert (of.rate, of.environment.rate) == (512.0, 60.0)
    assert wall_position(of) == pytest.approx(WALL, abs=1e-12)
    assert ANALYSIS.own(compared.trial) == "LM5" and set(compared.runs) == set(COMPARED)
    kinds = {name: COMPARED[name].of(of).controller.type for name in COMPARED}
    assert kinds == {"IR": "direct", "LM0": "four_channel", "LM5": "four_channel"}


def test_what_is_published_and_what_is_found(compared: Compared) -> None:
    """The drift is there and is a tenth of the source's; the intermediate representation does not come to rest."""
    assert compared.holds() == {
        "at_the_wall": True,
        "beyond_the_wall": True,
        "as_far": False,
        "bounces_more": True,
        "stays": False,
    }


def test_contacts_that_begin_without_energy_rebound_as_often_and_come_to_rest() -> None:
    """That the intermediate representation does not come to rest is caused by springs that begin with their overlap."""
    found = Compared("static_wall", "contact.penalty=consistent")
    assert {name: rebounds(found.runs[name]) for name in COMPARED} == {"IR": 2, "LM0": 0, "LM5": 0}
    assert found.holds() == {
        "at_the_wall": True,
        "beyond_the_wall": True,
        "as_far": False,
        "bounces_more": True,
        "stays": True,
    }


def test_a_late_wall_is_felt_as_far_as_the_hand_gets_before_the_update(compared: Compared) -> None:
    """A survey of 60 Hz finds it within a period, and is known a period later: v T to 2 v T, with v^2 = 2 a h."""
    speed = np.sqrt(2.0 * 0.25 * (0.15 - WALL))
    period = 9 / 512.0
    late = WALL - perceived_wall(compared.runs["LM0"])  # type: ignore[operator]
    assert speed * period < late < 2.0 * speed * period * 1.05


def test_at_half_the_rate_five_millimetres_do_not_suffice() -> None:
    """2 v T is 8.6 mm; and prediction from the velocity is told of the wall in time."""
    for settings, holds in ((("environment.rate=30",), False), (("environment.rate=30", PREDICTED), True)):
        own = load("static_wall", *settings)
        samples = ANALYSIS.run_unrecorded(own)
        claims = ANALYSIS.claims(own, {"LM5": samples} if ANALYSIS.own(own) else ANALYSIS.runs(own, samples))
        assert next(claim.holds for claim in claims if claim.name == "at_the_wall") is holds


PREDICTED = "local_model.prediction=velocity"


def deeper(samples: Samples, by: float) -> Samples:
    """A wall that is felt farther away, by `by` [m] from the first contact on."""
    row = int(np.argmax(samples["contacts"] > 0))
    return changed(samples, hand_py=-by * (np.arange(len(samples)) >= row))


def back(samples: Samples) -> Samples:
    """A hand that comes back four times as fast as it went, and touches nothing."""
    turned = scaled(samples, np.where(samples["time"] > 1.0, 0.0, 1.0), "contacts")
    bounce = np.where((samples["time"] > 1.0) & (np.floor(20 * samples["time"]) % 2 > 0), 0.2, -0.2)
    return changed(turned, hand_vy=np.where(samples["time"] > 1.0, bounce, 0.0))


@pytest.mark.parametrize(
    ("claim", "run", "wrong"),
    [
        ("at_the_wall", "LM5", lambda samples: deeper(samples, 1e-3)),
        ("at_the_wall", "LM5", lambda samples: deeper(samples, -1e-3)),
        ("beyond_the_wall", "LM0", lambda samples: deeper(samples, -3e-3)),
        ("beyond_the_wall", "IR", lambda samples: deeper(samples, -3.5e-3)),
        ("bounces_more", "LM5", back),
    ],
)
def test_a_hand_that_moves_otherwise_fails(claim: str, run: str, wrong, compared: Compared) -> None:  # type: ignore[no-untyped-def]
    assert compared.holds(**{run: wrong(compared.runs[run])})[claim] is False


def test_claims_that_fail_can_hold(compared: Compared) -> None:
    far = {name: deeper(compared.runs[name], 0.028) for name in ("IR", "LM0")}
    assert compared.holds(**far)["as_far"] is True
    bounces = compared.runs["IR"]
    still = changed(bounces, hand_vy=-bounces["hand_vy"] * (bounces["time"] > 1.0))
    assert compared.holds(IR=still)["stays"] is True
    soft = load("static_wall", "contact.stiffness=500", "duration=4")
    holds = {claim.name: claim.holds for claim in ANALYSIS.analyse(soft, ANALYSIS.run_unrecorded(soft)).claims}
    assert holds["stays"] is True  # that stiff it comes to rest


def test_a_hand_that_leaves_the_enclosure_is_not_followed(compared: Compared) -> None:
    gone = changed(compared.runs["IR"], hand_py=-np.where(compared.runs["IR"]["time"] > 1.0, 1.0, 0.0))
    cut = inside(compared.trial.experiment, gone)
    assert cut["time"][-1] == pytest.approx(1.0, abs=5e-3)
    assert compared.holds(IR=cut)["stays"] is False


def test_a_rebound_is_a_hand_that_comes_back_and_touches_nothing(compared: Compared) -> None:
    samples = compared.runs["LM5"]
    assert samples["hand_vy"].max() > 1e-3 and rebounds(samples) == 0.0  # the wall pushes the overlap out
    assert rebounds(back(samples)) > 5.0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            ["operator.type=sine", "operator.amplitude=[1,0,0,0,0,0]", "operator.frequency=1"],
            "needs operator.type = co",
        ),
        (["scene.type=empty"], "needs the scene slotted_enclosure, not scene.type = empty"),
    ],
)
def test_other_experiments_are_refused(settings: list[str], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        load("static_wall", *settings)
