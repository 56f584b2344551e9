"""A peg that pushes an arm known from slow updates: what the hand feels of it, and what decides the claims."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import graph_checks as graph
import numpy as np
import pytest
from claim_checks import changed, names, scaled
from conftest import Haptics

from haptic_bench import experiment
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_bench.studies.common.local_models import contact_losses, force_step
from haptic_bench.studies.dynamic_contact import STUDY
from haptic_sim.dynamics.arms import INERTIAS, LENGTHS, MASSES
from haptic_sim.parameters import ParameterError
from haptic_sim.spatial import planar_angle

Runs = tuple[Trial, dict[str, Samples]]


def trial(*settings: str) -> Trial:
    (only,) = experiment.load("dynamic_contact", settings)
    return only


@pytest.fixture(scope="module")
def runs() -> Runs:
    own = trial()
    return own, STUDY.runs(own, STUDY.run_unrecorded(own))


def verdicts(own: Trial, runs: dict[str, Samples]) -> dict[str, bool | None]:
    return {claim.name: claim.holds for claim in STUDY.claims(own, runs)}


def test_it_is_the_experiment_of_the_source(runs: Runs) -> None:
    of, samples = runs[0].experiment, runs[1]["DC"]
    arm = of.scene.arm  # type: ignore[union-attr]
    assert (arm.masses, arm.lengths, arm.inertias) == (MASSES, LENGTHS, INERTIAS)
    assert (of.contact.stiffness, of.contact.damping, of.environment.rate) == (4000.0, 30.0, 60.0)
    np.testing.assert_array_equal(samples.wrench("operator")[5], [0.0, 0.1, 0.0, 0.0, 0.0, 0.0])
    assert STUDY.own(runs[0]) == "DC"


def test_the_arm_is_in_the_environment_and_moves_there(runs: Runs) -> None:
    """Its last link, as the updates tell of it, rises with the peg up to the upper wall; the tool is the peg alone."""
    samples = runs[1]["DC"]
    world = samples.world
    assert world is not None and runs[0].world.model.nq > runs[0].tool_sizes.q
    poses = world.poses[:, world.bodies.index("arm_distal")]
    angle = planar_angle(poses)
    ends = np.stack([poses[:, 1], poses[:, 1] + LENGTHS[2] * np.sin(angle)])
    top = ends.max(axis=0) + 0.5 * 0.01 * np.cos(angle)
    assert top[0] < 0.165
    assert 0.188 < top.max() < 0.1915 + 2e-3


def test_published_claims_and_ours_hold(runs: Runs) -> None:
    assert verdicts(*runs) == dict.fromkeys(names(STUDY.CLAIMS), True)


def keeps_contact(samples: Samples) -> Samples:
    """From the first contact on."""
    return changed(samples, contacts=np.maximum.accumulate(samples["contacts"]) - samples["contacts"])


def still(samples: Samples) -> Samples:
    """A hand that never moves back."""
    return changed(samples, hand_vy=np.abs(samples["hand_vy"]) - samples["hand_vy"])


def hopping(samples: Samples) -> Samples:
    """A hand that moves back every tenth of a second, and touches nothing."""
    free = scaled(samples, 0.0, "contacts")
    return free.with_columns({"hand_vy": np.where(np.floor(20 * samples["time"]) % 2 > 0, 0.1, -0.1)})


def farther(by: float):  # type: ignore[no-untyped-def]
    """A hand that goes farther by a factor."""
    return lambda samples: changed(samples, hand_py=(by - 1.0) * (samples["hand_py"] - samples["hand_py"][0]))


@pytest.mark.parametrize(
    ("claim", "run", "wrong"),
    [
        ("loses_contact", "KC", keeps_contact),
        ("loses_contact", "IR", keeps_contact),
        ("bounces_more", "IR", still),
        ("bounces_more", "SC", hopping),
        ("kinematic_alike", "KC", hopping),
        ("held_back", "SC", farther(6.0)),
        ("dynamic", "DC", farther(0.5)),
        ("dynamic", "DC", farther(1.6)),
    ],
)
def test_a_hand_that_moves_otherwise_fails(claim: str, run: str, wrong, runs: Runs) -> None:  # type: ignore[no-untyped-def]
    own, found = runs
    assert verdicts(own, found | {run: wrong(found[run])})[claim] is False


def test_a_tick_with_an_update_in_which_the_force_jumps_is_found(runs: Runs) -> None:
    samples = runs[1]["DC"]
    before = force_step(samples)
    arrives = np.flatnonzero(np.diff(samples["geometry_tick"]) > 0)[30] + 1
    for row, found in ((arrives, True), (arrives + 2, False)):
        quiet = scaled(samples, 0.0, "colliding")
        jump = changed(quiet, env_fx=np.where(np.arange(len(samples)) >= row, 50.0, 0.0))
        assert (force_step(jump) > 49.0) is found  # type: ignore[operator]
    assert before is not None and before < 5.0
    assert force_step(runs[1]["synchronous"]) is None
    assert contact_losses(keeps_contact(samples)) == 0.0


def test_a_force_that_changes_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"needs operator\.type = constant"):
        trial("operator.type=sine", "operator.amplitude=[1,0,0,0,0,0]", "operator.frequency=1")


def test_lockstep_and_offline_give_the_same_bits(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    """The environment's node has the arm, too."""
    settings = ("--set", "analysis=trial", "--duration", "0.5")
    graph.check_lockstep_is_offline(haptics, tmp_path, "dynamic_contact", *settings)
