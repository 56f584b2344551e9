"""Plan of a study before anyone takes part: that its experiment accepts every level, its trials, its duration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from haptic_bench.analysis.base import analysis_of
from haptic_sim.parameters import ParameterError, did_you_mean
from haptic_study.design import stable
from haptic_study.file import Study
from haptic_study.observers import check_percept
from haptic_study.session import End, Form, Page, Paused, Rest, Session, Trial
from haptic_study.simulation import observer_of_session, simulated_answers
from haptic_study.tasks import FreeParameters, StimulusTask

FORESEEN = 12
"""Sessions from which the expected number of trials is taken."""
CHECKED = 400
"""Largest number of different settings that the experiment is asked for."""


@dataclass(frozen=True)
class Plan:
    """Plan of a session.

    Attributes:
        trials: least and greatest number of trials among some simulated sessions, practice included.
        intervals: the same of intervals.
        duration: mean duration of a session [s].
    """

    trials: tuple[int, int]
    intervals: tuple[int, int]
    duration: float

    def __str__(self) -> str:
        trials, intervals = (f"{a}" if a == b else f"{a} to {b}" for a, b in (self.trials, self.intervals))
        return f"{trials} trials of {intervals} intervals, about {self.duration / 60.0:.0f} min a session"


def plan(study: Study) -> Plan:
    """Check a study and foresee its sessions; nothing is run.

    The answers of these are those of its simulated observer, who is taken to feel the stimulus as it is.

    Raises:
        ParameterError: the experiment refuses a level, or something does not fit; one line for each problem.
    """
    check_percept(study.parameters.observer.percept)
    _check_conditions(study)
    _check_levels(study)
    problems = list(_metric_problems(study))
    if problems:
        raise ParameterError(problems)
    length = study.trial({}).experiment.duration
    trials, intervals, durations = [], [], []
    shown: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for number in range(FORESEEN):
        session = Session(study, f"{number + 1:02d}")
        durations.append(0.0)
        presented = 0
        for step, settings in _foreseen(session):
            times = study.parameters.times
            match step:
                case Page() | Form():
                    durations[-1] += times.page
                case Rest(duration=duration):
                    durations[-1] += duration
                case Trial():
                    presented += step.intervals
                    durations[-1] += step.intervals * length + (step.intervals - 1) * times.between + times.answer
            for asked in settings:
                if len(shown) < CHECKED:
                    label = f"tasks.{step.task}, level {step.level:g}" if isinstance(step, Trial) else ""
                    shown.setdefault(str(sorted(asked.items(), key=lambda item: item[0])), (label, asked))
        trials.append(len(session.rows))
        intervals.append(presented)
    motion = observer_of_session(study.parameters.observer, "plan").motion("plan")
    for label, presented_settings in shown.values():
        try:
            study.trial({**presented_settings, **motion})
        except ParameterError as error:
            raise ParameterError(f"{label}: {line}" for line in error.problems) from error
    mean = sum(durations) / len(durations)
    return Plan((min(trials), max(trials)), (min(intervals), max(intervals)), mean)


def _check_conditions(study: Study) -> None:
    """Refuse conditions of the observer that the study does not have."""
    levels = [f"{name}={level}" for name, one in study.parameters.factors.items() for level in one.settings]
    for label in study.parameters.observer.conditions:
        if label not in levels:
            raise ParameterError([f"observer.conditions: {label}: is not a level{did_you_mean(label, levels)}"])


def check_felt(study: Study) -> None:
    """Refuse to simulate a study without the device where a task needs it.

    Raises:
        ParameterError: it has a free manipulation.
    """
    free = [name for name, task in study.parameters.tasks.items() if isinstance(task, FreeParameters)]
    if free:
        raise ParameterError([f"--percepts stimulus: tasks.{free[0]} is measured in trials; use --percepts device"])


def _check_levels(study: Study) -> None:
    """Refuse settings that the experiment does not take without any trial's: of the study, of levels, of references."""
    study.trial({})
    settings = {
        f"factors.{name}, level {level}": one
        for name, factor in study.parameters.factors.items()
        for level, one in factor.settings.items()
    }
    for name, task in study.parameters.tasks.items():
        if isinstance(task, StimulusTask):
            settings[f"tasks.{name}, reference"] = task.settings(task.reference)
    problems = []
    for label, one in settings.items():
        try:
            study.trial(one)
        except ParameterError as error:
            problems += [f"{label}: {line}" for line in error.problems]
    if problems:
        raise ParameterError(problems)


def _foreseen(session: Session) -> Iterator[tuple[Any, list[dict[str, Any]]]]:
    """The steps of a session that is answered by an observer who feels the stimulus as it is, with their settings."""
    study = session.study
    observer = observer_of_session(study.parameters.observer, "plan", session.participant)
    while not isinstance(step := session.step, End):
        match step:
            case Page() | Rest():
                yield step, []
                session.apply({"event": "continue"})
            case Form():
                yield step, []
                session.apply({"event": "form", "answers": simulated_answers(step, session.participant)})
            case Paused():
                session.apply({"event": "resume"})
            case Trial() as trial:
                yield trial, session.settings(trial)
                task = study.parameters.tasks[trial.task]
                session.apply(trial.beginning)
                labels = (trial.number, trial.presentation)
                if isinstance(task, StimulusTask):
                    percepts = [observer.sense(value, *labels, i) for i, value in enumerate(trial.values)]
                    answer: Any = observer.answer(task, percepts, *labels)
                else:
                    allowed = ("success", "failure") if task.success is not None else ("measured",)
                    answer = allowed[stable.choice(len(allowed), "plan", *labels)]
                session.apply({"event": "answer", "trial": trial.number, "answer": answer})


def _metric_problems(study: Study) -> Iterator[str]:
    """Metrics that a free manipulation or the observer needs and that the experiment's analysis does not have."""
    metrics = analysis_of(study.trial({}).experiment).METRICS
    for name, task in study.parameters.tasks.items():
        if isinstance(task, FreeParameters):
            success = "" if task.success is None else task.success.metric
            named = [("success.metric", success), ("time", task.time), *(("metrics", one) for one in task.metrics)]
            for key, metric in named:
                if metric and metric not in metrics:
                    hint = did_you_mean(metric, metrics)
                    yield f"tasks.{name}.{key} = {metric}: is not a metric of the analysis{hint}"
    percept = study.parameters.observer.percept
    if percept.startswith("metric:") and (metric := percept.removeprefix("metric:")) not in metrics:
        yield f"observer.percept = {percept}: is not a metric of the analysis{did_you_mean(metric, metrics)}"
