"""Sessions with simulated observers: each trial runs the experiment, and the observer answers to what it felt."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from haptic_study.dataset import Dataset
from haptic_study.design import stable
from haptic_study.file import ItemParameters
from haptic_study.journal import sync_folder
from haptic_study.observers import Observer, ObserverParameters
from haptic_study.presenting import present
from haptic_study.session import End, Form, Page, Paused, Rest, Session, Trial
from haptic_study.tasks import FreeParameters


def observer_of_session(parameters: ObserverParameters, *labels: Any) -> Observer:
    """The observer of a session; its random numbers depend on the labels alone, not on when a trial is presented."""
    person = parameters.of_person(stable.generator("person", *labels))
    return Observer(person, partial(stable.generator, "observer", *labels))


class Recorded(Protocol):
    """A session whose events are kept: `dataset.Recording`, or `Unrecorded`."""

    session: Session
    first: dict[str, Any]

    @property
    def time(self) -> float:
        """Time of the last event [s], from the beginning of the session."""

    @property
    def folder(self) -> Path:
        """Folder of the session."""

    @property
    def ended(self) -> bool:
        """Whether the session has ended."""

    def apply(self, event: Mapping[str, Any]) -> None:
        """Apply an event to the session."""


@dataclass
class Unrecorded:
    """A session that is not on the disk, as one of many that are simulated for the power of a study."""

    session: Session
    first: dict[str, Any]
    time: float = 0.0

    @property
    def folder(self) -> Path:
        """Folder of the session: there is none."""
        raise NotADirectoryError("the session is not recorded")

    @property
    def ended(self) -> bool:
        """Whether the session has ended."""
        return isinstance(self.session.step, End)

    def apply(self, event: Mapping[str, Any]) -> None:
        """Apply an event to the session."""
        self.session.apply(event)
        self.time = float(event.get("time", self.time))


class SimulatedParticipant:
    """A participant who is simulated.

    What is presented and felt follows from the study, the observer, its seed, participant and session alone.

    Args:
        recording: of the session, new or resumed; its first entry has the observer under `by`. Without `device` there
            the stimulus is felt as it is, and no experiment is run.
        record: whether the trial of each interval is recorded.
    """

    def __init__(self, recording: Recorded, *, record: bool = False):
        self._recording, self._record = recording, record
        session, by = recording.session, recording.first["by"]
        self._device = bool(by.get("device", True))
        self._labels = (by["seed"], session.study.name, session.participant, session.number)
        self._observer = observer_of_session(ObserverParameters.model_validate(by["observer"]), *self._labels)

    def run(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Go on until the session ends, or `stop` says so between two events."""
        while not self._recording.ended and not stop():
            self.step()

    def step(self) -> None:
        """Do what the present step asks for."""
        recording = self._recording
        times = recording.session.study.parameters.times
        match recording.session.step:
            case Page():
                self._apply({"event": "continue"}, times.page)
            case Rest(duration=duration):
                self._apply({"event": "continue"}, duration)
            case Form() as form:
                answers = simulated_answers(form, recording.session.participant)
                self._apply({"event": "form", "answers": answers}, times.page)
            case Paused():
                self._apply({"event": "resume"}, 0.0)
            case Trial(begun=True, number=number):  # it was cut
                self._apply({"event": "repeat", "trial": number, "reason": "interrupted"}, 0.0)
            case Trial() as trial:
                self._trial(trial)

    def _apply(self, event: dict[str, Any], duration: float) -> None:
        """Apply an event after some time [s] of the participant's."""
        self._recording.apply({**event, "time": round(self._recording.time + duration, 6)})

    def _trial(self, trial: Trial) -> None:
        recording, session = self._recording, self._recording.session
        times, task = session.study.parameters.times, session.study.parameters.tasks[trial.task]
        self._apply(trial.beginning, 0.0)
        percepts, directories, took = [], [], 0.0
        is_free, levels = isinstance(task, FreeParameters), trial.condition.levels
        metrics: dict[str, Any] = {}
        for i, settings in enumerate(session.settings(trial)):
            labels = (trial.number, trial.presentation, i)
            took += times.between if i else 0.0
            if not self._device:
                percepts.append(self._observer.sense(trial.values[i], *labels, levels=levels))
                continue
            folder = None
            if self._record:
                name = f"{trial.number:04d}-{trial.attempt}-{trial.presentation}-{i + 1}"
                folder = recording.folder / "trials" / name
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
            needs = is_free or self._observer.parameters.percept.startswith("metric:")
            shown = {**settings, **self._observer.motion(*labels), **self._seeded(task, *labels)}
            found = present(session.study, shown, folder, metrics=needs)
            if folder is not None:
                sync_folder(folder)
                directories.append(str(folder.relative_to(recording.folder.parents[2])))
            took += found.duration
            metrics = dict(found.metrics)
            percepts.append(0.0 if is_free else self._observer.feel(found.samples, metrics, *labels, levels=levels))
        event: dict[str, Any] = {"event": "answer", "trial": trial.number}
        if isinstance(task, FreeParameters):
            event["answer"], waited = task.answer_to(metrics), times.answer
        else:
            shown_as = (trial.number, trial.presentation)
            event["answer"] = self._observer.answer(task, percepts, *shown_as, levels=levels)
            waited = round(self._observer.response_time(task, percepts, *shown_as, levels=levels), 6)
            event["response_time"] = waited
        event |= {"percepts": percepts, "presented": took, **({"directories": directories} if directories else {})}
        if is_free:
            event["metrics"] = metrics
        self._apply(event, took + waited)

    def _seeded(self, task: Any, *labels: Any) -> dict[str, Any]:
        """The seed of the experiment in a trial of a task that has seeds."""
        if not getattr(task, "seeds", False):
            return {}
        return {"seed": stable.seed("experiment", *self._labels, *labels) % 2**31}


def run_session(
    dataset: Dataset, participant: str, by: Mapping[str, Any], record: bool, stop: Callable[[], bool]
) -> None:
    """Begin or continue a session of a simulated participant in a study's directory, and go on until it ends.

    Args:
        dataset: of the study.
        participant: code.
        by: the observer, its seed, and whether it has a device; see `SimulatedParticipant`.
        record: whether the trial of each interval is recorded.
        stop: whether to leave off between two events.
    """
    begun = (participant, 1) in dataset.sessions()  # also where a process has ended in the middle of it
    opened = dataset.resume(participant, 1) if begun else dataset.begin(participant, 1, by)
    with opened as recording:
        SimulatedParticipant(recording, record=record).run(stop)


def simulated_answers(form: Form, participant: str) -> dict[str, Any]:
    """Random answers to a questionnaire."""
    items = form.questionnaire.items
    return {key: _filled(item, form.name, key, participant, form.block) for key, item in items.items()}


def _filled(item: ItemParameters, *labels: Any) -> Any:
    """A random answer to a question."""
    match item.type:
        case "number":
            return 18.0 + stable.choice(50, "form", *labels)
        case "scale":
            return 1 + stable.choice(item.points, "form", *labels)
        case "choice":
            return item.choices[stable.choice(len(item.choices), "form", *labels)]
    return "simulated"
