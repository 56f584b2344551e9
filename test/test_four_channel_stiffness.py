"""The stiffness that controllers render and the impedance that they transmit: what decides the claims."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from claim_checks import lagging, names

from haptic_bench import experiment
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments import four_channel_stiffness as analysis
from haptic_experiments.four_channel_stiffness import ANALYSIS, BASE, CONNECTIONS, FOUR, HARMONICS, SETTLING, WORLD
from haptic_sim.parameters import ParameterError

STIFF = dict.fromkeys(CONNECTIONS, 1e4) | {FOUR: 4e4}


def load(*settings: str) -> Trial:
    (only,) = experiment.load("four_channel_stiffness", settings)
    return only


@pytest.fixture(scope="module")
def trial() -> Trial:
    return load()


@pytest.fixture(scope="module")
def runs(trial: Trial) -> dict[str, Samples]:
    """The world, and what four channels transmit, under the sum of sines."""
    four = CONNECTIONS[FOUR].of(trial.experiment)
    return {
        WORLD: ANALYSIS.modulated(trial, analysis._without_device(trial.experiment)),
        FOUR: ANALYSIS.modulated(trial, four),
    }


def verdicts(trial: Trial, felt: dict[str, float | None], runs: dict[str, Samples]) -> dict[str, bool | None]:
    case = analysis.Felt(felt, analysis.deviation(trial, runs, FOUR))
    return {one.name: one.claim(case).holds for one in ANALYSIS.CLAIMS}


def test_every_claim_is_judged(trial: Trial, runs: dict[str, Samples]) -> None:
    assert (
        names(ANALYSIS.CLAIMS)
        == [*verdicts(trial, dict(STIFF), runs)]
        == [
            "stiffer",
            "as_direct",
            "four_times",
            "transparent",
        ]
    )


@pytest.mark.exhaustive
def test_what_is_felt_at_the_limit_of_stability(trial: Trial) -> None:
    short = replace(trial, experiment=trial.experiment.model_copy(update={"duration": 1.2}))
    felt = {
        name: ANALYSIS.stiffest(short, CONNECTIONS[name]) for name in (FOUR, analysis.INTERMEDIATE, analysis.UNILATERAL)
    }
    four, intermediate, unilateral = felt.values()
    assert four is not None and intermediate is not None and unilateral is not None
    # Two points touch. Penalties on both ends of the peg, sampled at T: the limit of the translation alone is
    # 2 (T² K + 2 T B)/m = 4, and that of the rotation lower by as much as the inertia about the centre is.
    assert 2e4 < four < 2.0 * 2.0 / (2.0 / 512.0**2)
    # The peg rests on 2 x 15 kN/m; both forces of the hand, that on the tool and that of the coupling, press it there.
    coupling = 1.0 / (1.0 / unilateral - 2.0 / 3e4)
    assert 1e4 < coupling < 1e6
    assert intermediate < 15.0 / 4.0 * 4e3
    others = {name: unilateral for name in CONNECTIONS}
    assert verdicts(trial, others | {FOUR: four, analysis.INTERMEDIATE: intermediate}, {}) == {
        "stiffer": True,
        "as_direct": True,
        "four_times": True,
        "transparent": None,
    }


def test_a_softer_hand_fails(trial: Trial, runs: dict[str, Samples]) -> None:
    assert verdicts(trial, dict(STIFF), runs)["stiffer"] is True
    assert verdicts(trial, STIFF | {FOUR: 0.9e4}, runs)["stiffer"] is False
    assert verdicts(trial, STIFF | {analysis.INTERMEDIATE: 1.1e4}, runs)["four_times"] is False
    assert verdicts(trial, STIFF | {FOUR: None}, runs)["stiffer"] is None


def test_a_hand_that_comes_late_is_not_transparent(trial: Trial, runs: dict[str, Samples]) -> None:
    assert verdicts(trial, dict(STIFF), runs)["transparent"] is True
    late = lagging(runs[FOUR], "hand", 1)
    assert verdicts(trial, dict(STIFF), runs | {FOUR: late})["transparent"] is False
    short = runs[FOUR].until(SETTLING)
    assert verdicts(trial, dict(STIFF), runs | {FOUR: short})["transparent"] is None


def test_a_device_of_another_mass_feels_the_world_where_frequencies_are_low(runs: dict[str, Samples]) -> None:
    """Direct coupling transmits the ratio of the masses at all frequencies, four channels at high ones only."""
    light = load("device.mass=1.0")
    felt = {name: ANALYSIS.modulated(light, CONNECTIONS[name].of(light.experiment)) for name in (FOUR, analysis.DIRECT)}
    four, direct = (analysis.ratio(light, runs | felt, name) for name in (FOUR, analysis.DIRECT))
    assert four is not None and direct is not None
    np.testing.assert_allclose(direct, 0.5, rtol=1e-9)
    slow, fast = HARMONICS * BASE <= 2.0, HARMONICS * BASE >= 20.0
    np.testing.assert_allclose(np.abs(four[slow]), 1.0, rtol=0.02)
    assert np.all(np.abs(four[fast]) < 0.7)


def test_a_hand_that_moves_by_itself_has_no_impedance(trial: Trial, runs: dict[str, Samples]) -> None:
    hand = runs[FOUR]["hand_vy"]
    shaken = hand + 0.2 * hand.std() * np.sin(2.0 * np.pi * 40.03 * runs[FOUR]["time"])
    assert analysis.ratio(trial, runs | {FOUR: runs[FOUR].with_columns({"hand_vy": shaken})}, FOUR) is None


def test_the_impedance_of_a_mass_on_a_spring_is_found() -> None:
    rate, time = 512.0, np.arange(round(512.0 / BASE)) / 512.0
    s = 2j * np.pi * BASE * HARMONICS
    true = 2.0 * s + 30.0 + 400.0 / s
    table = analysis.sum_of_sines(np.array([0.0, -3.0, 0, 0, 0, 0]), rate, 1.0 / BASE)[:-1]
    force = np.fft.rfft(table[:, 2])[HARMONICS]
    spectrum = np.zeros(time.size // 2 + 1, complex)
    spectrum[HARMONICS] = force / true
    samples = Samples({"operator_fy": table[:, 2], "hand_vy": np.fft.irfft(spectrum, time.size)})
    np.testing.assert_allclose(analysis.impedance(samples, rate, "hand"), true, rtol=1e-9)
    assert np.all(table[:, 2] < 0.0)  # it presses all the time


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("operator={type: constant, wrench: [1.0, -3.0, 0, 0, 0, 0]}", "operator.wrench"),
        ("operator={type: sine, amplitude: [0, 1, 0, 0, 0, 0], frequency: 1}", "operator.type"),
        ("contact.stiffness=0", "contact.stiffness"),
    ],
)
def test_what_is_not_that_experiment_is_refused(setting: str, named: str) -> None:
    with pytest.raises(ParameterError, match=named):
        load(setting)
