"""Simulated observers: they feel what the simulated device renders, and a study finds again what they are."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import sys
import typing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from conftest import ROOT, answer
from scipy.special import ndtr
from study_sessions import BY, document, run, small

from haptic_bench.recording.samples import Samples
from haptic_sim.parameters import ParameterError
from haptic_study import commands, load_study, sharing, simulation
from haptic_study.analysis import data_of, detectable_effect, fit_of, power_of_t, true_jnd
from haptic_study.dataset import Dataset
from haptic_study.design import stable
from haptic_study.file import StudyParameters, load, study_of
from haptic_study.observers import (
    PERCEPTS,
    Z_75,
    Observer,
    ObserverParameters,
    friction,
    observer_of,
    probability_larger,
)
from haptic_study.presenting import present
from haptic_study.psychophysics.fitting import jnd
from haptic_study.session import End, Session, Trial
from haptic_study.simulation import SimulatedParticipant
from haptic_study.tasks import AnyTask, ForcedChoiceParameters

MOTION = {"operator.type": "arm", "operator.path": [[0, 0, 0, 0], [0.35, 0, 0, -0.03], [0.7, 0, 0, 0]]}
PRESS = {**MOTION, "operator.stiffness": 400.0, "operator.damping": 8.0}


def observer(**keys: Any) -> Observer:
    return Observer(ObserverParameters(**keys), lambda *labels: stable.generator(*labels))


@pytest.mark.parametrize("value", [200.0, 450.0])
def test_an_observer_feels_the_stiffness_that_is_rendered(value: float) -> None:
    found = present(small(), {**PRESS, "contact.stiffness": value})
    assert observer(weber=0.0).feel(found.samples, {}, 1) == pytest.approx(value, rel=1e-3)
    noisy = [observer(weber=0.0, force_noise=0.2).feel(found.samples, {}, i) for i in range(200)]
    # of a slope from n forces with noise s over depths of deviation d: s / (d sqrt(n))
    touching = found.samples.wrench("rendered")[:, 2] > 0.02 * found.samples.wrench("rendered")[:, 2].max()
    depth = found.samples["hand_pz"][touching]
    expected = 0.2 / (depth.std() * math.sqrt(len(depth)))
    assert np.mean(noisy) == pytest.approx(value, abs=4 * expected / math.sqrt(200))
    assert np.std(noisy) == pytest.approx(expected, rel=0.2)


def test_friction_is_felt_as_a_coefficient() -> None:
    """A force of 0.3 N against the motion and 2 N normal to it, and before that no contact."""
    rows = 50
    zeros = {f"hand_{name}": np.zeros(rows) for name in ("px", "py", "pz", "vx", "vy", "vz", "wx", "wy", "wz")}
    zeros |= {f"hand_q{name}": np.zeros(rows) for name in "xyzw"}
    force = {f"rendered_{name}": np.zeros(rows) for name in ("fx", "fy", "fz", "tx", "ty", "tz")}
    force["rendered_fz"][10:], force["rendered_fx"][10:] = 2.0, -0.3
    samples = Samples({"tick": np.arange(rows), **zeros, **force, "hand_vx": np.full(rows, 0.1)})
    assert friction(samples, np.zeros((rows, 3))) == pytest.approx(0.15)
    back = samples.with_columns({"hand_vx": np.full(rows, -0.1)})
    assert friction(back, np.zeros((rows, 3))) == pytest.approx(-0.15)


def test_answers_follow_thurstone() -> None:
    task = small().parameters.tasks["discrimination"]
    assert isinstance(task, ForcedChoiceParameters)
    one = observer(weber=0.12, lapse=0.1)
    sigma = one.parameters.sigma
    assert sigma(300.0) == pytest.approx(0.12 * 300.0 / (Z_75 * math.sqrt(2.0)))
    random, n = np.random.default_rng(3), 4000
    for value in (250.0, 330.0, 400.0):
        chosen = 0
        for i in range(n):
            percepts = [
                300.0 + sigma(300.0) * random.standard_normal(),
                value + sigma(value) * random.standard_normal(),
            ]
            chosen += one.answer(task, percepts, value, i) == "2"
        p = 0.9 * ndtr((value - 300.0) / math.hypot(sigma(300.0), sigma(value))) + 0.05
        assert p == pytest.approx(probability_larger(one.parameters, value, 300.0))
        assert chosen / n == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / n))


def test_the_weber_fraction_is_that_of_three_quarters() -> None:
    parameters = ObserverParameters(weber=0.08)
    assert probability_larger(parameters, 300.0 * 1.08, 300.0) == pytest.approx(0.75, abs=0.01)
    assert true_jnd(parameters, 300.0) == pytest.approx(24.0, rel=0.01)
    constant = ObserverParameters(weber=0.0, noise=10.0)
    assert true_jnd(constant, 300.0) == pytest.approx(Z_75 * 10.0 * math.sqrt(2.0), rel=1e-6)


def test_thresholds_are_found_again() -> None:
    """Of 20 observers the mean is where theory has it, within four standard errors of the fits' own covariances.

    Guess and lapse rates that are estimated take up to a sixth off the Weber fraction (docs/studies.md).
    """
    method = {"type": "constant_stimuli", "levels": [200.0, 240.0, 270.0, 330.0, 360.0, 400.0], "repetitions": 40}
    study = small(tasks__discrimination__method=method)
    parameters = ObserverParameters(weber=0.12)
    found = []
    for number in range(1, 21):
        session = Session(study, f"{number:02d}")
        random = stable.generator("recovery", number)

        def sensed(trial: Trial, random: np.random.Generator = random) -> str:
            percepts = [one + parameters.sigma(one) * random.standard_normal() for one in trial.values]
            return str(1 + int(np.argmax(percepts)))

        run(session, sensed)
        task = study.parameters.tasks["discrimination"]
        found.append(fit_of(task, data_of(task, session.rows)))
    errors = np.array([math.sqrt(one.covariance[0, 0]) for one in found])
    centres = np.array([one.threshold for one in found])
    assert centres.mean() == pytest.approx(300.0, abs=4 * math.sqrt(np.mean(errors**2) / 20) + 1.0)
    assert centres.std() == pytest.approx(math.sqrt(np.mean(errors**2)), rel=0.5)
    weber = np.array([jnd(one) / 300.0 for one in found])
    expected, error = true_jnd(parameters, 300.0) / 300.0, 4 * weber.std() / math.sqrt(20)
    assert 5 / 6 * expected - error < weber.mean() < expected + error


def test_power_is_that_of_tables() -> None:
    """Paired t tests at 5 %, two-sided: G*Power 3.1 and Cohen (1988, table 2.3.5)."""
    assert power_of_t(0.5, 34) == pytest.approx(0.8078, abs=1e-4)
    assert power_of_t(0.0, 20) == pytest.approx(0.05, abs=1e-9)
    assert [power_of_t(effect, 24) for effect in (-6.12, 2.0, 5.49, 8.0)] == pytest.approx([1.0] * 4, abs=1e-9)
    assert power_of_t(detectable_effect(24), 24) == pytest.approx(0.8, abs=1e-9)


def test_a_wrong_observer_is_refused() -> None:
    base = ObserverParameters()
    assert observer_of("weber=0.08,lapse=0.02", base).lapse == 0.02
    for text, said in (
        ("webr=0.1", "--observer webr=0.1: must be KEY=VALUE; did you mean weber?"),
        ("lapse=2", "--observer lapse = 2: must be <= 1"),
        ("weber", "--observer weber: must be KEY=VALUE"),
    ):
        with pytest.raises(ParameterError) as raised:
            observer_of(text, base)
        assert str(raised.value).startswith(said)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small study with two simulated participants, as the command leaves it."""
    folder = tmp_path_factory.mktemp("study")
    method = {"type": "constant_stimuli", "levels": [200.0, 400.0], "repetitions": 2}
    found = document(tasks__discrimination__method=method)
    (folder / "small.yaml").write_text(yaml.safe_dump(found))
    done = answer("study", "simulate", str(folder / "small.yaml"), "--participants", "2", "--out", str(folder / "out"))
    assert done.status == 0, done.err
    return folder / "out"


@pytest.mark.parametrize("jobs", [1, 2])
def test_who_waits_sees_each_session_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], jobs: int
) -> None:
    """Also one that had begun, and is continued here, while workers do the others."""
    for place in (commands, sharing):
        monkeypatch.setattr(place, "run_session", lambda *_: None)
    monkeypatch.setattr(commands, "_conclude", lambda _: 0)
    monkeypatch.setattr(sharing.workers, "share_out", lambda function, items, *_, **__: ((one, "") for one in items))
    study = SimpleNamespace(document={}, folder=tmp_path)
    dataset: Any = SimpleNamespace(sessions=lambda: [("01", 1)], directory=tmp_path, study=study)
    wanted = {"observer": {}, "seed": 0, "device": False, "participants": ["01", "02"], "record": False}
    assert commands._simulate(dataset, wanted, jobs) == 0
    said = [f"haptics: participant {code} has been simulated, 2 in all" for code in ("01", "02")]
    assert capsys.readouterr().err.splitlines() == said


@pytest.mark.long
def test_a_simulated_study_is_laid_out_as_bids_has_it(recorded: Path) -> None:
    assert json.loads((recorded / "dataset_description.json").read_text())["BIDSVersion"] == "1.9.0"
    people = list(csv.DictReader((recorded / "participants.tsv").open(), delimiter="\t"))
    assert [one["participant_id"] for one in people] == ["sub-01", "sub-02"] and people[0]["kind"] == "simulated"
    stem = recorded / "sub-02" / "ses-01" / "beh" / "sub-02_ses-01_task-discrimination_events"
    rows = list(csv.DictReader(stem.with_suffix(".tsv").open(), delimiter="\t"))
    columns = json.loads(stem.with_suffix(".json").read_text())
    assert list(rows[0]) == list(columns) and list(rows[0])[:2] == ["onset", "duration"]
    assert columns["interval1.contact.stiffness"]["Units"] == "N/m"
    for row in rows:
        values = [float(row["interval1.contact.stiffness"]), float(row["interval2.contact.stiffness"])]
        comparison = values.pop(int(row["comparison"]) - 1)
        assert values == [300.0] and comparison == float(row["level"])
    assert [float(row["onset"]) for row in rows] == sorted(float(row["onset"]) for row in rows)
    assert "Recovery of simulated observers" in (recorded / "report.html").read_text()
    assert list((recorded / "figures").glob("psychometric_*.svg"))


@pytest.mark.long
def test_all_trials_are_one_table(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = load_study(recorded)
    assert len(table["outcome"]) == 8 and set(table["participant"]) == {"01", "02"}
    assert set(table["outcome"]) <= {0.0, 1.0} and table["age"].min() >= 18.0
    pandas = pytest.importorskip("pandas") if "pandas" not in sys.modules else None
    assert pandas is None or list(pandas.DataFrame(table)) == list(table)


@pytest.mark.long
def test_a_trial_is_excluded_with_a_reason(recorded: Path) -> None:
    done = answer("study", "exclude", str(recorded), "02", "3", "--reason", "the cable was caught")
    assert done.status == 0, done.err
    table = load_study(recorded)
    excluded = [i for i, one in enumerate(table["status"]) if one == "excluded"]
    assert [(table["participant"][i], table["trial"][i], table["reason"][i]) for i in excluded] == [
        ("02", 3, "the cable was caught")
    ]
    done = answer("study", "exclude", str(recorded), "02", "3", "--reason", "again")
    assert done.status == 2 and "event exclude: trial 3 has no answer that counts" in done.err
    done = answer("study", "exclude", str(recorded), "09", "3", "--reason", "again")
    assert "participant 09, session 1: is not there (known: 01, session 1, 02, session 1)" in done.err


@pytest.mark.long
def test_a_session_that_is_cut_within_a_trial_has_the_same_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = {"type": "constant_stimuli", "levels": [200.0, 400.0], "repetitions": 2}
    study = small(tasks__discrimination__method=method)
    by = {**BY, "observer": study.parameters.observer.model_dump(mode="json")}
    found = []
    for name, presentations in (("whole", 1_000), ("cut", 3)):
        (tmp_path / name).mkdir()
        dataset = Dataset.create(tmp_path / name, study)
        dataset.begin("01", 1, by).close()
        for _ in range(10):  # each time it is killed in the presentation of an interval
            count = 0

            def dying(*arguments: Any, limit: int = presentations, **options: Any) -> Any:
                nonlocal count
                count += 1
                if count > limit:
                    raise KeyboardInterrupt
                return present(*arguments, **options)

            monkeypatch.setattr(simulation, "present", dying)
            with dataset.resume("01", 1) as recording, contextlib.suppress(KeyboardInterrupt):
                SimulatedParticipant(recording).run()
        session, _ = dataset.replayed("01", 1)
        assert isinstance(session.step, End)
        found.append([(row.trial.values, row.answer, row.event["percepts"]) for row in session.rows])
    assert len(found[0]) == 4 and found[0] == found[1]


@pytest.mark.long
def test_a_simulation_is_not_repeated_over_another(recorded: Path) -> None:
    study = str(recorded.parent / "small.yaml")
    done = answer("study", "simulate", study, "--out", str(recorded))
    assert done.status == 2 and f"{recorded}: has 2 sessions; `haptics study resume" in done.err
    done = answer("study", "resume", str(recorded))
    assert done.status == 0 and "answered" not in done.out


def test_the_expected_trials_are_said(tmp_path: Path) -> None:
    done = answer("study", "validate", "stiffness_discrimination")
    assert (done.status, done.out) == (
        0,
        "stiffness_discrimination: valid, 98 trials of 196 intervals, about 11 min a session\n",
    )


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"factors__f": {"key": "contact.dampin", "levels": [1, 2]}}, "factors.f, level 1: contact.dampin: unknown key"),
    ({"factors__f": {"key": "contact.damping", "levels": [1, -1]}}, "factors.f, level -1: contact.damping = -1 "),
    ({"factors__f": {"key": "rate", "levels": [1]}}, "factors.f = {key: rate, levels: [1]}: levels: has 1"),
    ({"factors__f": {"levels": [1, 2]}}, "factors.f = {levels: [1, 2]}: levels: must be a list of values with `key`"),
    ({"tasks__discrimination__stimulus": "contact.stiff"}, "tasks.discrimination, reference: contact.stiff: unknown"),
    ({"tasks__discrimination__method__levels": [-5.0, 1.0]}, "tasks.discrimination, level -5: contact.stiffness = -5"),
    ({"tasks__discrimination__method__levels": [5.0, 1.0]}, "tasks.discrimination.method.levels"),
    ({"tasks__discrimination__method__type": "stair"}, "tasks.discrimination.method.type = stair: unknown method"),
    ({"tasks__discrimination__ask": "odd"}, "tasks.discrimination"),
    ({"design__no_more": 2}, "design.no_more: unknown key"),
    ({"observer__percept": "warmth"}, "observer.percept = warmth: unknown"),
    ({"experiment": "static_wal"}, "experiment: experiment static_wal: unknown; did you mean static_wall?"),
    ({"questionnaires__more": {"items": {"age": {"question": "?"}}}}, "questionnaires: age is asked for twice"),
]


@pytest.mark.parametrize(("changes", "said"), WRONG)
def test_a_wrong_study_is_refused_before_anything_starts(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(yaml.safe_dump(document(**changes)))
    done = answer("study", "validate", str(path))
    assert done.status == 2 and done.err.startswith(f"haptics: {said}"), done.err


def test_a_study_knows_its_digest() -> None:
    study = load("stiffness_discrimination")
    again = study_of(study.document, study.folder)
    assert again.digest == study.digest != small().digest


def test_the_page_names_every_key() -> None:
    text = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    missing = [name for name in StudyParameters.model_fields if f"`{name}`" not in text]
    missing += [kind for kind in PERCEPTS if f"`{kind}`" not in text]
    for task in typing.get_args(typing.get_args(AnyTask)[0]):
        missing += [name for name in typing.get_args(task.model_fields["type"].annotation) if f"`{name}`" not in text]
    assert missing == []
