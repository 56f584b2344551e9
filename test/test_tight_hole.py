"""A peg in a tight hole: what the hand feels with constraints known early and late, and what decides the claims."""

from __future__ import annotations

import numpy as np
import pytest
from claim_checks import Compared, load, names, scaled

from haptic_bench import experiment
from haptic_experiments.common.local_models import felt_clearance
from haptic_experiments.tight_hole import ANALYSIS
from haptic_sim.parameters import ParameterError

FORCE, STIFFNESS, FREQUENCY = 5.0, 2 * 10000.0, 10.0  # of two points at each wall [N, N/m, Hz]


@pytest.fixture(scope="module")
def compared() -> Compared:
    return Compared("tight_hole")


def test_it_is_the_experiment_of_the_contract(compared: Compared) -> None:
    of, samples = compared.trial.experiment, compared.runs["LM5"]
    assert (of.environment.delay, of.environment.method.type, of.controller.type) == (0.02, "penalty", "direct")
    assert (of.contact.stiffness, of.contact.damping, of.local_model.epsilon) == (10000.0, 15.0, 0.005)
    assert samples["contacts"][0] == 0 and samples["contacts"].max() == 2  # one wall at a time
    np.testing.assert_allclose(samples["operator_fx"], 5.0 * np.sin(2 * np.pi * 10.0 * samples["time"]), atol=1e-12)
    for name in ("hand_py", "hand_qz"):  # one degree of freedom in effect
        np.testing.assert_allclose(samples[name], 0.0, atol=1e-12)


def test_published_claims_hold(compared: Compared) -> None:
    """With the chosen frequency; with that of the force as printed there is no drift to be seen."""
    printed = {"narrower_printed": False, "drifts_printed": False}
    assert compared.holds() == dict.fromkeys(names(ANALYSIS.CLAIMS), True) | printed


def test_the_hand_moves_as_far_as_the_stiffness_allows(compared: Compared) -> None:
    """The steady motion at one wall is less than F / |K - m w^2 + i B w|, and the clearance less than that of both."""
    w = 2 * np.pi * FREQUENCY
    depth = FORCE / abs(STIFFNESS - w**2 + 30j * w)
    steady = compared.runs["LM5"]
    late = steady["hand_px"][len(steady) // 2 :]
    assert depth < np.ptp(late) < 2.0 * 1.3 * depth  # impacts at the walls add to it
    assert felt_clearance(compared.runs["LM0"], "x") > 10.0 * np.ptp(late)


@pytest.mark.parametrize(
    ("claim", "run", "factor"),
    [("narrower", "LM5", 20.0), ("drifts", "LM0", 0.05), ("no_drift", "LM5", 1.02), ("no_drift", "LM5", 0.98)],
)
def test_a_hand_that_moves_otherwise_fails(claim: str, run: str, factor: float, compared: Compared) -> None:
    assert compared.holds(**{run: scaled(compared.runs[run], factor, "hand_px")})[claim] is False


@pytest.mark.parametrize(("claim", "factor"), [("narrower_printed", 2.0), ("drifts_printed", 2.0)])
def test_a_slow_force_that_makes_the_hand_drift_holds(claim: str, factor: float, compared: Compared) -> None:
    run = "LM0, 0.1 Hz"
    assert compared.holds(**{run: scaled(compared.runs[run], factor, "hand_px")})[claim] is True


def test_claims_are_open_without_the_variants() -> None:
    own = load("tight_hole", "duration=0.2")
    findings = ANALYSIS.analyse(own, ANALYSIS.run_unrecorded(own), compare=False)
    assert [claim.holds for claim in findings.claims] == [None] * 5
    assert findings.references == {}


def test_constraints_that_are_all_known_are_the_synchronous_world(compared: Compared) -> None:
    """Both walls are known from the start and never change."""
    for name in ("hand_px", "env_fx"):
        np.testing.assert_allclose(
            compared.runs["LM5"][name], compared.runs["synchronous"][name], rtol=1e-9, atol=1e-12
        )


def test_a_study_without_a_device_is_refused() -> None:
    settings = ["device.type=none", "controller.type=none", "local_model.type=none"]
    with pytest.raises(ParameterError, match="needs a device"):
        experiment.load("tight_hole", [*settings, "environment.rate=null", "environment.delay=null"])
