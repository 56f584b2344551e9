"""Collisions of an arm in a local model: kinetic energies, and what decides the claims."""

from __future__ import annotations

import numpy as np
import pytest
from claim_checks import Compared, changed, load, names, scaled

from haptic_bench.recording.samples import Samples
from haptic_experiments.local_impacts import ANALYSIS, collisions, energy_changes


@pytest.fixture(scope="module")
def compared() -> Compared:
    return Compared("local_impacts")


def test_it_is_the_experiment_of_the_source(compared: Compared) -> None:
    of = compared.trial.experiment
    assert (of.contact.stiffness, of.contact.damping, of.environment.rate) == (15000.0, 100.0, 60.0)
    assert (of.local_model.dynamics, of.tool.hold) == ("surveyed", "distal")  # type: ignore[union-attr]
    assert ANALYSIS.own(compared.trial) == "plastic"


def test_published_claims_hold(compared: Compared) -> None:
    assert compared.holds() == dict.fromkeys(names(ANALYSIS.CLAIMS), True)


def test_the_device_goes_with_the_held_link(compared: Compared) -> None:
    """To 4 mm: the printed law leaves out terms of velocity (errata 9)."""
    for samples in compared.runs.values():
        apart = samples.pose("hand")[:, :3] - samples.pose("tool")[:, :3]
        assert np.linalg.norm(apart, axis=1).max() < 4e-3


def test_what_an_elastic_collision_loses_is_of_the_tick(compared: Compared) -> None:
    """The operator's force during the tick, which the impulse undoes: half of it at twice the rate."""
    lost = []
    for rate in (512, 2048):
        own = load("local_impacts", "contact.restitution=1", f"rate={rate}", "duration=1.0")
        lost.append(np.abs(energy_changes(ANALYSIS.run_unrecorded(own))).max())
    assert lost[1] < 0.5 * lost[0]


def gains(samples: Samples, by: float) -> Samples:
    """The second collision adds a part of the kinetic energy."""
    row = collisions(samples)[1]
    later = np.arange(len(samples)) > row
    return changed(samples, energy_kinetic=by * samples["energy_kinetic"][row] * later)


@pytest.mark.parametrize(
    ("claim", "run", "wrong"),
    [
        ("plastic_takes", "plastic", lambda samples: gains(samples, 1.2)),
        ("plastic_takes", "plastic", lambda samples: scaled(samples, 0.0, "energy_kinetic", "energy_injected")),
        ("elastic_keeps", "elastic", lambda samples: gains(samples, 0.1)),
        ("elastic_keeps", "elastic", lambda samples: gains(samples, -0.1)),
        ("larger", "plastic", lambda samples: scaled(samples, 1.0 - 0.99 * (samples["colliding"] > 0), "env_fy")),
    ],
)
def test_a_trial_that_is_wrong_fails(claim: str, run: str, wrong, compared: Compared) -> None:  # type: ignore[no-untyped-def]
    samples = compared.runs[run]
    if claim == "larger":
        samples = scaled(samples, 1.0 - 0.99 * (samples["colliding"] > 0), "env_fx")
    assert compared.holds(**{run: wrong(samples)})[claim] is False


def test_single_collisions_alone_do_not_show_simultaneous_ones(compared: Compared) -> None:
    single = {
        name: samples.with_columns({"contacts": np.minimum(samples["contacts"], 1)})
        for name, samples in compared.runs.items()
    }
    assert compared.holds(**single)["simultaneous"] is False
