"""Delays that a simulated observer feels, and the studies of delays and of a peg, from percept to session."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from haptic_bench.recording.samples import Samples
from haptic_sim import inputs
from haptic_sim.parameters import ParameterError
from haptic_study.analysis import Estimate, estimate, recoveries, true_threshold
from haptic_study.dataset import Dataset
from haptic_study.design import stable
from haptic_study.file import Study, known_studies, load, study_of
from haptic_study.observers import Observer, delay
from haptic_study.plan import plan
from haptic_study.presenting import present
from haptic_study.session import Session
from haptic_study.simulation import SimulatedParticipant

RATE, STIFFNESS, SURFACE = 1000.0, 200.0, -0.004  # [Hz], [N/m], [m]


def spring(lag: int, seed: int) -> Samples:
    """A hand that presses a spring at random, which answers `lag` samples late, as an arm that has waited before."""
    rows, random = 900, np.random.default_rng(seed)
    t = np.arange(rows) / RATE
    amplitudes, phases = random.uniform(0.0, 1.0, 4), random.uniform(0.0, 2 * math.pi, 4)
    wave = sum(
        a * np.sin(2 * math.pi * (k + 1) * t + p) for k, (a, p) in enumerate(zip(amplitudes, phases, strict=True))
    )
    height = -0.01 * np.sin(math.pi * t / t[-1]) ** 2 * (1.0 + 0.2 * wave)
    earlier = height[np.maximum(np.arange(rows) - lag, 0)]
    zeros = {f"hand_{name}": np.zeros(rows) for name in ("px", "py", "vx", "vy", "vz", "wx", "wy", "wz")}
    zeros |= {f"hand_q{name}": np.zeros(rows) for name in "xyzw"}
    zeros |= {f"rendered_{name}": np.zeros(rows) for name in ("fx", "fy", "tx", "ty", "tz")}
    force = np.maximum(STIFFNESS * (SURFACE - earlier), 0.0)
    return Samples({"tick": np.arange(rows), "time": t, "hand_pz": height, "rendered_fz": force, **zeros})


@pytest.mark.parametrize("lag", [0, 1, 30, 200])
def test_a_delayed_spring_is_felt_with_its_delay(lag: int) -> None:
    for seed in range(5):
        samples = spring(lag, seed)
        felt = delay(samples, np.zeros((len(samples), 3)))
        assert 2.0 * felt == pytest.approx(lag / RATE, abs=0.05 / RATE)


def test_noise_of_the_force_blurs_the_delay_and_nothing_is_felt_without_contact() -> None:
    samples, random = spring(40, 1), np.random.default_rng(2)
    felt = [delay(samples, 0.1 * random.standard_normal((len(samples), 3))) for _ in range(100)]
    assert np.mean(felt) == pytest.approx(0.02, abs=4 * np.std(felt) / 10 + 2e-4) and 1e-5 < np.std(felt) < 5e-3
    free = samples.with_columns({"rendered_fz": np.zeros(len(samples))})
    assert delay(free, np.zeros((len(samples), 3))) == 0.0


def observer(study: Study) -> Observer:
    senses = study.parameters.observer.model_copy(update={"weber": 0.0, "noise": 0.0, "force_noise": 0.0})
    return Observer(senses, lambda *labels: stable.generator(*labels))


@pytest.mark.parametrize("value", [0.0, 0.012, 0.06])
def test_the_delay_of_a_link_is_felt(value: float) -> None:
    """That of the link each way; what coupling and tool add is below half a millisecond."""
    study = load("delay_perception")
    one = observer(study)
    found = present(study, {"relay.delay": value, **one.motion(1)})
    assert one.feel(found.samples, {}, 1) == pytest.approx(value, abs=5e-4)


def changed(name: str, **task: Any) -> Study:
    """A study that comes with haptics, with other keys of its task."""
    document = {"name": name, **inputs.read_mapping(known_studies()[name])}
    (own,) = document["tasks"].values()
    own.update(task)
    return study_of(document, known_studies()[name].parent)


def simulated(study: Study, dataset: Dataset, participant: str, **senses: Any) -> Session:
    """The session of a simulated observer with other keys."""
    parameters = study.parameters.observer.model_copy(update=senses)
    by = {"kind": "simulated", "observer": parameters.model_dump(mode="json"), "seed": 0}
    with dataset.begin(participant, 1, by) as recording:
        SimulatedParticipant(recording).run()
    return dataset.replayed(participant, 1)[0]


@pytest.mark.long
def test_an_observer_without_noise_is_right_about_every_delay(tmp_path: Any) -> None:
    method = dict(load("delay_perception").parameters.tasks["detection"].method) | {"trials": 5}
    study = changed("delay_perception", method=method, practice=[])
    session = simulated(study, Dataset.create(tmp_path, study), "01", weber=0.0, noise=0.0, lapse=0.0, force_noise=0.0)
    assert [row.outcome for row in session.rows] == [1.0] * 5
    for row in session.rows:
        assert row.event["percepts"] == pytest.approx(row.trial.values, abs=5e-4)


@pytest.mark.long
def test_only_impulses_of_an_ideal_device_find_the_hole(tmp_path: Any) -> None:
    """At the speed of the study, without its variation; a device that renders 15 N at most is as without impulses."""
    study = changed("peg_insertion", method={"type": "constant_stimuli", "levels": [0.0203, 0.0206], "repetitions": 1})
    motor = study.parameters.observer.motor
    assert motor is not None
    steady = motor.model_copy(update={"variation": 0.0})
    found = estimate(simulated(study, Dataset.create(tmp_path, study), "01", motor=steady))
    assert len(found) == 4 and all(one.trials == 2 for one in found)
    for one in found:
        is_found = one.factors == {"contacts": "impulses", "device": "ideal"}
        assert one.measures["success"].value == float(is_found), one.condition
        assert ("time" in one.measures) == is_found
        if is_found:
            assert 0.35 < one.measures["time"].value < 0.7  # [s] while the hand slides


def test_a_time_that_is_no_metric_is_refused() -> None:
    with pytest.raises(
        ParameterError, match=r"tasks\.insertion\.time = insertion_tim: is not a metric .* insertion_time\?"
    ):
        plan(changed("peg_insertion", time="insertion_tim"))


@pytest.mark.exhaustive
def test_thresholds_of_delays_are_found_again(tmp_path: Any) -> None:
    """Of 6 observers at 60 trials the mean of QUEST+ is within four standard errors of the observers' threshold."""
    study = load("delay_perception")
    dataset = Dataset.create(tmp_path, study)
    found: list[Estimate] = []
    for number in range(1, 7):
        found += estimate(simulated(study, dataset, f"{number:02d}"))
    truth = true_threshold(study.parameters.observer, 0.0)
    assert truth == pytest.approx(0.0191, abs=5e-4)
    (of_method,) = [one for one in recoveries(dataset, found) if one.name == "method"]
    values = np.array([one.measures["method"].value for one in found])
    assert of_method.truth == pytest.approx(truth)
    assert values.mean() == pytest.approx(truth, abs=4 * values.std(ddof=1) / math.sqrt(6))
    assert of_method.held >= 4
