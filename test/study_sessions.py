"""Small studies for tests, and sessions that are answered without running an experiment."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

from haptic_sim import inputs
from haptic_study.design import stable
from haptic_study.file import Study, known_studies, study_of
from haptic_study.plan import simulated_answers
from haptic_study.session import End, Form, Page, Paused, Rest, Session, Trial

BY = {"kind": "simulated", "seed": 0}
SMALL = {"type": "constant_stimuli", "levels": [200.0, 280.0, 320.0, 400.0], "repetitions": 3}


def document(**changes: Any) -> dict[str, Any]:
    """The study stiffness_discrimination with few trials; `tasks__discrimination__ask` names a key below others."""
    found = inputs.read_mapping(known_studies()["stiffness_discrimination"])
    found |= {"name": "small"}
    found["tasks"]["discrimination"] |= {"method": dict(SMALL), "practice": []}
    for key, value in changes.items():
        *parents, last = key.split("__")
        target: Any = found
        for name in parents:
            target = target.setdefault(name, {})
        target[last] = value
    return copy.deepcopy(found)


def small(**changes: Any) -> Study:
    """The study of `document`."""
    return study_of(document(**changes), Path())


def event_of(session: Session, answer: Callable[[Trial], Any] | None = None) -> dict[str, Any]:
    """An event that fits the step of a session; answers are random without a function."""
    match session.step:
        case Page() | Rest():
            return {"event": "continue"}
        case Form() as form:
            return {"event": "form", "answers": simulated_answers(form, session.participant)}
        case Paused():
            return {"event": "resume"}
        case Trial(begun=False) as trial:
            return trial.beginning
        case Trial() as trial:
            return {"event": "answer", "trial": trial.number, "answer": (answer or random_answer)(trial)}
    raise AssertionError("the session has ended")


def random_answer(trial: Trial) -> str:
    """An answer that depends on the trial alone."""
    return trial.answers[stable.choice(len(trial.answers), "test", trial.number, trial.presentation)]


def run(session: Session, answer: Callable[[Trial], Any] | None = None) -> list[dict[str, Any]]:
    """Answer a session to its end; the events."""
    events = []
    while not isinstance(session.step, End):
        events.append(event_of(session, answer))
        session.apply(events[-1])
    return events
