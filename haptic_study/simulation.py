"""Sessions with simulated observers: each trial runs the experiment, and the observer answers to what it felt."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from typing import Any

from haptic_study.dataset import Dataset, Recording
from haptic_study.design import stable
from haptic_study.file import ItemParameters
from haptic_study.journal import sync_folder
from haptic_study.observers import Observer, ObserverParameters
from haptic_study.presenting import present
from haptic_study.session import Form, Page, Paused, Rest, Trial
from haptic_study.tasks import FreeParameters


def observer_of_session(parameters: ObserverParameters, *labels: Any) -> Observer:
    """The observer of a session; its random numbers depend on the labels alone, not on when a trial is presented."""
    person = parameters.of_person(stable.generator("person", *labels))
    return Observer(person, partial(stable.generator, "observer", *labels))


class SimulatedParticipant:
    """A participant who is simulated.

    Args:
        dataset: where the session is recorded.
        recording: of the session, new or resumed; its first entry has the observer under `by`.
        record: whether the trial of each interval is recorded.
    """

    def __init__(self, dataset: Dataset, recording: Recording, *, record: bool = False):
        self._dataset, self._recording, self._record = dataset, recording, record
        session = recording.session
        parameters = ObserverParameters.model_validate(recording.first["by"]["observer"])
        self._observer = observer_of_session(
            parameters, recording.first["by"]["seed"], session.study.name, session.participant, session.number
        )

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
        is_free = isinstance(task, FreeParameters)
        metrics: dict[str, Any] = {}
        for i, settings in enumerate(session.settings(trial)):
            labels = (trial.number, trial.presentation, i)
            folder = None
            if self._record:
                name = f"{trial.number:04d}-{trial.attempt}-{trial.presentation}-{i + 1}"
                folder = recording.folder / "trials" / name
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
            needs = is_free or self._observer.parameters.percept.startswith("metric:")
            found = present(session.study, {**settings, **self._observer.motion(*labels)}, folder, metrics=needs)
            if folder is not None:
                sync_folder(folder)
                directories.append(str(folder.relative_to(self._dataset.directory)))
            took += found.duration + (times.between if i else 0.0)
            metrics = dict(found.metrics)
            percepts.append(0.0 if is_free else self._observer.feel(found.samples, metrics, *labels))
        if isinstance(task, FreeParameters):
            answer: Any = "success" if task.success.holds(metrics) else "failure"
        else:
            answer = self._observer.answer(task, percepts, trial.number, trial.presentation)
        event: dict[str, Any] = {"event": "answer", "trial": trial.number, "answer": answer}
        event |= {"percepts": percepts, "presented": took, **({"directories": directories} if directories else {})}
        if is_free:
            event["metrics"] = metrics
        self._apply(event, took + times.answer)


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
