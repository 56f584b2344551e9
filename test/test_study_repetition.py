"""Simulated observers in conditions, their response times, studies of the system, and the power of a design."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from conftest import answer
from scipy import stats
from study_sessions import document, small

from haptic_bench.trials import workers
from haptic_sim.parameters import ParameterError
from haptic_study.analysis import Data, Measure, estimate, fit_of, true_jnd
from haptic_study.comparisons import Comparison
from haptic_study.design import stable
from haptic_study.file import study_of
from haptic_study.observers import Observer, ObserverParameters, ResponseParameters, probability_larger
from haptic_study.plan import check_felt, plan
from haptic_study.psychophysics.fitting import jnd
from haptic_study.repetition import powers, run_once
from haptic_study.session import Session
from haptic_study.simulation import SimulatedParticipant, Unrecorded
from haptic_study.tasks import FreeParameters, SameDifferentParameters, YesNoParameters

STIMULUS: dict[str, Any] = {"stimulus": "contact.stiffness", "reference": 300.0, "question": "?"}
METHOD = {"type": "constant_stimuli", "levels": [240.0, 360.0], "repetitions": 8}


@pytest.mark.parametrize("margin", [0.0, 0.4, 2.0, math.inf])
def test_response_times_have_mean_and_variance_of_the_model(margin: float) -> None:
    """E = mu + m and Var = sigma^2 + m^2, with m = tau tanh(d) / d; within four standard errors of 4000 times."""
    model = ResponseParameters(residual=0.4, deviation=0.05, decision=0.6)
    rng = np.random.default_rng(2)
    times = np.array([model.time(margin, rng) for _ in range(4000)])
    mean = 0.6 * (1.0 if margin == 0.0 else math.tanh(margin) / margin)
    deviation = math.hypot(0.05, mean)
    assert times.mean() == pytest.approx(0.4 + mean, abs=4.0 * deviation / math.sqrt(4000))
    assert times.std() == pytest.approx(deviation, rel=0.12)
    assert times.min() >= 0.0


def test_margins_are_distances_in_standard_deviations() -> None:
    senses = ObserverParameters(weber=0.0, noise=2.0, criterion=1.5)
    task = small().parameters.tasks["discrimination"]
    assert task.margin([310.0, 304.0], senses) == pytest.approx(6.0 / math.hypot(2.0, 2.0))
    yes = YesNoParameters(**STIMULUS, method=METHOD)
    assert yes.margin([305.0], senses) == pytest.approx(abs(305.0 - 303.0) / 2.0)
    same = SameDifferentParameters(**STIMULUS, method=METHOD)
    spread = math.hypot(2.0, 2.0)
    assert same.margin([300.0, 310.0], senses) == pytest.approx(abs(10.0 - 1.5 * spread) / spread)
    sure = ObserverParameters(weber=0.0, noise=0.0)
    assert task.margin([310.0, 304.0], sure) == math.inf and task.margin([300.0, 300.0], sure) == 0.0
    assert same.decide([300.0, 300.0 + 1.6 * spread], senses) == "different"


def test_an_observer_may_differ_among_conditions() -> None:
    base = ObserverParameters(weber=0.1, between=0.5, conditions={"a=1": {"weber": 0.2, "lapse": 0.3}})
    one = base.of_person(np.random.default_rng(3))
    there = one.within({"a": "1", "b": "x"})
    assert there.lapse == 0.3 and one.within({"a": "2"}) is one
    assert there.weber / one.weber == pytest.approx(2.0)  # the person's factor is in both
    for conditions, said in (
        ({"a=1": {"webber": 1.0}}, "a=1.webber: must be one of weber"),
        ({"a=1": {"lapse": 2.0}}, "<= 1"),
    ):
        with pytest.raises(ValueError, match=said):
            ObserverParameters(conditions=conditions)
    wrong = document(observer__conditions={"mass=3": {"weber": 0.2}})
    with pytest.raises(ParameterError, match=r"observer.conditions: mass=3: is not a level"):
        plan(study_of(wrong, Path()))


def two_conditions(**changes: Any) -> Any:
    return small(
        factors={"mass": {"key": "device.mass", "levels": [0.1, 0.2]}},
        tasks__discrimination__method={"type": "constant_stimuli", "levels": [200, 260, 340, 400], "repetitions": 10},
        **changes,
    )


def by(study: Any, seed: int) -> dict[str, Any]:
    return {"observer": study.parameters.observer.model_dump(mode="json"), "seed": seed, "device": False}


def test_a_stimulus_that_is_felt_as_it_is_needs_no_device() -> None:
    study = two_conditions(observer__weber=0.0, observer__lapse=0.0)
    recording = Unrecorded(Session(study, "01"), {"by": by(study, 0)})
    SimulatedParticipant(recording).run()
    rows = recording.session.rows
    assert len(rows) == 80 and all(row.event["percepts"] == list(row.trial.values) for row in rows)
    assert all(row.outcome == float(row.trial.values[row.trial.comparison] > 300.0) for row in rows)
    assert all(0.0 <= row.event["response_time"] < 2.0 for row in rows)
    free = small(tasks={"t": {"type": "free", "question": "?", "metrics": ["x"], "method": METHOD}})
    with pytest.raises(ParameterError, match=r"--percepts stimulus: tasks.t is measured in trials"):
        check_felt(free)


def test_a_difference_is_found_again_and_the_same_run_has_the_same_bits() -> None:
    """Of Weber fractions of 0.05 and 0.15 (15 and 45.6 N/m), by seven observers in two runs."""
    study = two_conditions(observer__weber=0.05, observer__conditions={"mass=0.2": {"weber": 0.15}})
    people = [f"{i + 1:02d}" for i in range(7)]
    runs = [run_once(study, people, by(study, seed), lambda: False) for seed in (0, 1)]
    found = {one.name: one for one in powers(runs)}
    assert set(found) == {"pse", "jnd", "response_time"} and all(one.runs == 2 for one in found.values())
    assert found["jnd"].share.value == 1.0 and found["jnd"].difference.value > 15.0
    # whatever condition a participant has first
    assert (found["jnd"].first, found["jnd"].second) == ("mass=0.1", "mass=0.2")
    assert run_once(study, people, by(study, 0), lambda: False) == runs[0]


def test_the_share_of_runs_has_wilsons_interval() -> None:
    p = [0.01] * 30 + [0.2] * 10
    runs = [[Comparison("t", "jnd", "a", "b", 9, Measure(1.0), 0.8, one, one, 0.5)] for one in p]
    (found,) = powers(runs)
    expected = stats.binomtest(30, 40).proportion_ci(method="wilson")
    assert (found.runs, found.share.value) == (40, 0.75)
    assert (found.share.low, found.share.high) == pytest.approx((expected.low, expected.high))


@pytest.mark.exhaustive
def test_the_power_without_a_difference_is_the_level() -> None:
    """Without a difference it is the level of the tests: of 200 studies, within four standard errors."""
    study = two_conditions(observer__weber=0.12, observer__between=0.3)
    people = [f"{i + 1:02d}" for i in range(8)]
    runs = [run_once(study, people, by(study, seed), lambda: False) for seed in range(200)]
    found = {one.name: one for one in powers(runs)}
    assert found["pse"].share.value == pytest.approx(0.05, abs=4.0 * math.sqrt(0.05 * 0.95 / 200))


LEVELS = np.array([180.0, 220.0, 260.0, 290.0, 310.0, 340.0, 380.0, 420.0])


@pytest.mark.exhaustive
@pytest.mark.parametrize(("lapses", "low", "high"), [(0.02, 0.95, 1.03), ((0.0, 0.06), 0.80, 0.92)])
def test_fixed_lapses_bias_the_jnd_less_than_free_ones(lapses: Any, low: float, high: float) -> None:
    """Of 500 observers who lapse in 2 % of 96 trials; the standard error of the mean is 1 %."""
    senses = ObserverParameters(weber=0.12, lapse=0.02)
    p = [probability_larger(senses, level, 300.0) for level in LEVELS]
    task = small(tasks__discrimination__lapses=lapses).parameters.tasks["discrimination"]
    rng, found = np.random.default_rng(17), []
    for _ in range(500):
        outcomes = [(level, float(one)) for level, q in zip(LEVELS, p, strict=True) for one in rng.random(12) < q]
        data = Data(*np.array(outcomes).T, "comparison")
        found.append(jnd(fit_of(task, data)))
    assert low < np.mean(found) / true_jnd(senses, 300.0) < high


# Studies of the system


def system(**changes: Any) -> Any:
    """Peaks of force of the simulated hand on a wall, in two conditions."""
    task = {"type": "free", "question": "?", "metrics": ["a", "b"], "seeds": True, "method": METHOD, **changes}
    return small(
        tasks={"press": task}, questionnaires={}, factors={"mass": {"key": "device.mass", "levels": [0.1, 0.2]}}
    )


def test_metrics_of_trials_are_measures() -> None:
    """Means of the metrics with Student's interval; those that a trial lacks are left out."""
    session = Session(system(), "01")
    number = 0
    while not hasattr(session.step, "reason"):
        trial: Any = session.step
        session.apply({"event": "continue"} if not hasattr(trial, "beginning") else trial.beginning)
        if hasattr(trial, "beginning"):
            metrics = {"a": float(number % 4), "b": None if number % 2 else 5.0}
            session.apply({"event": "answer", "trial": trial.number, "answer": "measured", "metrics": metrics})
            number += 1
    found = estimate(session)
    assert len(found) == 2 and all(set(one.measures) == {"a", "b"} for one in found)
    values = np.array([0.0, 1.0, 2.0, 3.0] * 4)
    low, high = stats.t.interval(0.95, 15, values.mean(), values.std(ddof=1) / 4.0)
    measure = found[0].measures["a"]
    assert (measure.value, measure.low, measure.high) == pytest.approx((1.5, low, high))
    assert found[0].measures["b"].value == 5.0


def test_a_task_that_measures_nothing_is_refused() -> None:
    with pytest.raises(ParameterError, match="success, metrics: both are missing"):
        system(metrics=[])
    with pytest.raises(ParameterError, match="metrics: time: is the name of another measure"):
        system(metrics=["time"])
    task = system(success={"metric": "a", "at_least": 1.0}).parameters.tasks["press"]
    assert isinstance(task, FreeParameters) and task.measures == ("success", "time", "a", "b")
    assert task.answer_to({"a": 2.0}) == "success" and task.answer_to({}) == "failure"


def test_each_trial_of_a_seeded_task_has_its_seed() -> None:
    study = system()
    seeds = set()
    for code in ("01", "02"):
        participant = SimulatedParticipant(Unrecorded(Session(study, code), {"by": by(study, 0)}))
        task = study.parameters.tasks["press"]
        seeds |= {participant._seeded(task, trial, 1, 0)["seed"] for trial in range(20)}
    assert len(seeds) == 40 and all(0 <= one < 2**31 for one in seeds)
    assert Observer(study.parameters.observer, stable.generator).sense(3.0, 1) != 3.0


@pytest.mark.long
def test_a_study_of_the_system_compares_metrics_of_its_trials() -> None:
    """Three simulated hands press on a soft and on a stiff wall, twice each: the stiff one pushes back more.

    The hand's spring K and the wall's k are in series, so that the force grows with k as k K / (k + K).
    """
    task = {"type": "free", "question": "?", "metrics": ["max_rendered_force"], "seeds": True}
    method = {
        "type": "constant_stimuli",
        "levels": [1, 2],
        "repetitions": 1,
    }  # numbers of the trials, without a stimulus
    factor = {"key": "contact.stiffness", "levels": [200.0, 600.0]}
    asked = {"measure": "max_rendered_force", "conditions": ["wall=200.0", "wall=600.0"]}
    study = small(
        tasks={"press": {**task, "method": method}},
        factors={"wall": factor},
        questionnaires={},
        comparisons={"stiffer": asked},
    )
    assert plan(study).trials == (4, 4)
    (found,) = run_once(study, ["01", "02", "03"], {**by(study, 0), "device": True}, lambda: False)
    assert found.name == "max_rendered_force" and found.count == 3 and found.difference.value > 1.0
    assert found.corrected == found.p < 0.05


# Processes


def options(folder: Path, *more: str) -> list[str]:
    method = {"type": "constant_stimuli", "levels": [200.0, 400.0], "repetitions": 2}
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump(document(tasks__discrimination__method=method)))
    return ["study", "simulate", str(path), "--participants", "3", *more]


@pytest.mark.exhaustive
def test_workers_leave_the_files_of_one_process(tmp_path: Path) -> None:
    try:
        workers.require()
    except ParameterError as error:
        pytest.skip(f"Dask is not there and cannot be installed: {error}")
    for name, more in (("serial", ["--jobs", "1"]), ("dask", ["--jobs", "2"])):
        done = answer(*options(tmp_path, *more, "--out", str(tmp_path / name)))
        assert done.status == 0, done.err
    texts = [
        {
            path.relative_to(tmp_path / name).as_posix(): path.read_bytes()
            for path in (tmp_path / name).rglob("*")
            if path.suffix in (".tsv", ".jsonl", ".json") or path.name == "study.yaml"
        }
        for name in ("serial", "dask")
    ]
    assert len(texts[0]) > 10 and texts[0] == texts[1]


@pytest.mark.exhaustive
def test_the_power_of_a_study_is_printed(tmp_path: Path) -> None:
    found = document(
        factors={"mass": {"key": "device.mass", "levels": [0.1, 0.2]}},
        observer__conditions={"mass=0.2": {"weber": 0.5}},
    )
    (tmp_path / "two.yaml").write_text(yaml.safe_dump(found))
    asked = ["study", "simulate", str(tmp_path / "two.yaml"), "--participants", "4", "--repeat", "3"]
    done = answer(*asked, "--percepts", "stimulus", "--out", str(tmp_path / "out"))
    assert done.status == 0, done.err
    assert "Just noticeable difference, mass=0.2 less mass=0.1: found in " in done.out
    rows = (tmp_path / "out" / "power.tsv").read_text().splitlines()
    assert rows[0].startswith("run\ttask\tmeasure") and {row.split("\t")[0] for row in rows[1:]} == {"1", "2", "3"}
    assert (tmp_path / "out" / "report.html").is_file()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--repeat", "0"], "--repeat 0: must be at least 1"),
        (["--repeat", "2"], "--repeat: small has no conditions to be compared; give it factors"),
        (["--repeat", "2", "--record"], "--record, --repeat: runs for the power of a study are not recorded"),
        (["--jobs", "0"], "--jobs 0: must be at least 1"),
        (["--jobs", "2", "--scheduler", "x"], "--jobs, --scheduler: a scheduler has its own workers"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path: Path, more: list[str], said: str) -> None:
    done = answer(*options(tmp_path, *more, "--out", str(tmp_path / "out")))
    assert done.status == 2 and said in done.err and not (tmp_path / "out").exists()
