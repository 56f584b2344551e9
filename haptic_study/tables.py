"""The tables of a study in the layout of BIDS, made of its journals; and one table of all trials for programs.

    DIR/dataset_description.json
    DIR/participants.tsv, participants.json
    DIR/sub-01/ses-01/beh/sub-01_ses-01_task-NAME_events.tsv, .json      a row a trial
    DIR/sub-01/ses-01/beh/sub-01_ses-01_task-session_events.tsv, .json   a row an event of the session, with its code
    DIR/sub-01/ses-01/beh/sub-01_ses-01_task-NAME_beh.tsv, .json         a row an answered questionnaire

They are written anew from the journals, each as a whole, and can be deleted. The layout is that of the Brain Imaging
Data Structure 1.9 for behavioural experiments without imaging; report and figures are named in `.bidsignore`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from haptic_study.codes import Mark, code_of
from haptic_study.dataset import Dataset
from haptic_study.file import SESSION, ItemParameters
from haptic_study.journal import write_durably
from haptic_study.outlets import mark_of
from haptic_study.session import End, Row, Session

NONE = "n/a"
COLUMNS: dict[str, dict[str, Any]] = {
    "onset": {"Description": "Time from the beginning of the session to that of the trial", "Units": "s"},
    "duration": {"Description": "Time for which the intervals of the trial were presented", "Units": "s"},
    "trial": {"Description": "Number of the trial in the session, practice and dropped trials counted"},
    "attempt": {"Description": "Number of the presentation that was answered, where the trial was repeated"},
    "block": {"Description": "Number of the block; 0: practice"},
    "task": {"Description": "Name of the task"},
    "level": {"Description": "Level that the method chose"},
    "comparison": {"Description": "Interval with the comparison, from 1 on; 0: none, a catch trial"},
    "answer": {"Description": "Answer of the participant"},
    "outcome": {"Description": "What the answer counts as: 1 or 0, or the number that was given or set"},
    "response_time": {"Description": "Time from the end of the last interval to the answer", "Units": "s"},
    "presentations": {"Description": "How often the intervals were presented in a trial of adjustment"},
    "status": {
        "Description": "Whether the trial counts",
        "Levels": {
            "answered": "it counts",
            "practice": "it was for practice",
            "dropped": "it has no answer; another trial took its place",
            "excluded": "it was answered and is left out of the analysis",
        },
    },
    "reason": {"Description": "Why the trial was dropped or excluded"},
    "begin_code": {"Description": "Code of the trial's begin for other recorders; 0: not sent"},
    "end_code": {"Description": "Code of the answer, or of the drop, for other recorders; 0: not sent"},
    "directories": {"Description": "Directories of the recorded trials of the intervals, separated by blanks"},
}


EVENT_COLUMNS: dict[str, dict[str, Any]] = {
    "onset": {"Description": "Time of the event from the beginning of the session", "Units": "s"},
    "duration": {"Description": "An event has none", "Units": "s"},
    "event": {"Description": "Name of the event, with what was answered"},
    "code": {"Description": "Code of the event for other recorders, one byte; 0: not sent"},
    "trial": {"Description": "Number of the trial in the session"},
}


def events(session: Session) -> list[dict[str, Any]]:
    """A row for each trial of a session that has ended, by the names of the columns; missing values are None."""
    return [_row(session, row) for row in session.rows]


def _row(session: Session, row: Row) -> dict[str, Any]:
    trial, event = row.trial, row.event
    found: dict[str, Any] = {
        "onset": trial.onset,
        "duration": event.get("presented"),
        "trial": trial.number,
        "attempt": trial.attempt,
        "block": trial.block,
        "task": trial.task,
        **trial.condition.levels,
        "level": trial.level,
        "comparison": trial.comparison + 1,
        "answer": row.answer,
        "outcome": row.outcome,
        "response_time": event.get("response_time"),
        "presentations": trial.presentation,
        "status": "practice" if trial.practice and row.status == "answered" else row.status,
        "reason": row.reason or None,
        "begin_code": mark_of(session.study, trial, trial.beginning).code,
        "end_code": mark_of(session.study, trial, event).code,
        "directories": " ".join(event.get("directories", ())) or None,
    }
    for i, settings in enumerate(session.settings(trial), 1):
        for key, value in settings.items():
            found[f"interval{i}.{key}"] = value
    for name, value in event.get("metrics", {}).items():
        found[f"metric.{name}"] = value
    return found


def write(dataset: Dataset) -> None:
    """Write all tables of a study from its journals.

    Raises:
        JournalError: a journal is damaged, or a table cannot be written.
    """
    directory, study = dataset.directory, dataset.study
    description = {
        "Name": study.parameters.title or study.name,
        "BIDSVersion": "1.9.0",
        "DatasetType": "raw",
        "GeneratedBy": [{"Name": "haptics", "Description": "haptic_study"}],
        "StudyDigest": study.digest,
    }
    write_durably(directory / "dataset_description.json", json.dumps(description, indent=2) + "\n")
    write_durably(directory / ".bidsignore", "report.html\nfigures/\nsourcedata/\n.lock\n")
    write_durably(directory / "README", f"{study.parameters.title or study.name}\n\n{study.parameters.description}\n")
    people: dict[str, dict[str, Any]] = {}
    for participant, number in dataset.sessions():
        session, first, marks = marked(dataset, participant, number)
        person = people.setdefault(participant, {"participant_id": f"sub-{participant}", "sessions": 0})
        person["sessions"] += 1
        person["kind"] = (first.get("by") or {}).get("kind", "person")
        person |= between(session) | asked(session)
        _write_session(dataset, session, marks)
    items = {name: item for one in study.parameters.questionnaires.values() for name, item in one.items.items()}
    columns: dict[str, Any] = {
        "participant_id": {"Description": "Code of the participant"},
        "sessions": {"Description": "Number of sessions that have begun"},
        "kind": {"Description": "Who answered", "Levels": {"person": "a person", "simulated": "a simulated observer"}},
        **{name: {"Description": f"Level of the factor {name}"} for name in study.parameters.factors},
        **{name: _described(item) for name, item in items.items()},
    }
    _write_table(directory / "participants", list(people.values()), columns)


def between(session: Session) -> dict[str, str]:
    """Levels of the factors between participants."""
    factors = [name for name, one in session.study.parameters.factors.items() if one.between]
    levels = session.blocks[0].conditions[0].levels if session.blocks else {}
    return {name: levels[name] for name in factors if name in levels}


def asked(session: Session) -> dict[str, Any]:
    """Answers to the questionnaires that are not of a block."""
    return {name: value for form, answers in session.forms if form.block is None for name, value in answers.items()}


def marked(dataset: Dataset, participant: str, number: int) -> tuple[Session, dict[str, Any], list[Mark]]:
    """A session, replayed, the first entry of its journal, and its events as other recorders have them."""
    study = dataset.study
    marks = [Mark(0.0, code_of(study.parameters.codes, "open"), "open")]
    session, first = dataset.replayed(
        participant, number, lambda step, event: marks.append(mark_of(study, step, event))
    )
    if isinstance(session.step, End):  # after which a trial may have been excluded
        last = max(i for i, mark in enumerate(marks) if mark.name != "exclude")
        marks.insert(last + 1, mark_of(study, session.step, {"event": "end", "time": marks[last].time}))
    return session, first, marks


def _write_session(dataset: Dataset, session: Session, marks: Sequence[Mark]) -> None:
    folder = dataset.directory / f"sub-{session.participant}" / f"ses-{session.number:02d}" / "beh"
    folder.mkdir(parents=True, exist_ok=True)
    parameters = session.study.parameters
    stem = f"sub-{session.participant}_ses-{session.number:02d}_task-"
    rows = events(session)
    for name in parameters.tasks:
        own = [row for row in rows if row["task"] == name]
        _write_table(folder / f"{stem}{name}_events", own, _columns(session, name))
    happened = [
        {"onset": mark.time, "duration": 0.0, "event": mark.name, "code": mark.code, "trial": mark.trial or None}
        for mark in marks
    ]
    _write_table(folder / f"{stem}{SESSION}_events", happened, EVENT_COLUMNS)
    for name, questionnaire in parameters.questionnaires.items():
        answered = [{"block": form.block, **answers} for form, answers in session.forms if form.name == name]
        described = {"block": COLUMNS["block"], **{key: _described(one) for key, one in questionnaire.items.items()}}
        if answered:
            _write_table(folder / f"{stem}{name}_beh", answered, described)


def _columns(session: Session, task: str) -> dict[str, Any]:
    """Descriptions of the columns of a task's table."""
    parameters = session.study.parameters
    one = parameters.tasks[task]
    unit = {"Units": one.unit} if getattr(one, "unit", "") else {}
    found = dict(COLUMNS)
    for name, factor in parameters.factors.items():
        levels = {level: json.dumps(settings) for level, settings in factor.settings.items()}
        found[name] = {"Description": f"Level of the factor {name}", "Levels": levels}
    keys = dict.fromkeys(
        key for factor in parameters.factors.values() for one in factor.settings.values() for key in one
    )
    stimulus = tuple(getattr(one, "stimulus", ()))
    for i in range(one.intervals):
        for key in (*keys, *stimulus):
            text = f"Value of {key} in interval {i + 1}"
            found[f"interval{i + 1}.{key}"] = {"Description": text, **(unit if key in stimulus else {})}
    return found


def _described(item: ItemParameters) -> dict[str, Any]:
    found: dict[str, Any] = {"Description": item.question}
    if item.unit:
        found["Units"] = item.unit
    if item.type == "choice":
        found["Levels"] = {choice: choice for choice in item.choices}
    if item.type == "scale":
        ends = f": {item.choices[0]} to {item.choices[-1]}" if item.choices else ""
        found["Description"] += f" (1 to {item.points}{ends})"
    return found


def _write_table(stem: Path, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, Any]) -> None:
    """A table with its description: `.tsv` and `.json`."""
    present = dict.fromkeys(name for row in rows for name in row)
    names = [name for name in columns if name in present] + [name for name in present if name not in columns]
    if not rows:
        names = list(columns)
    lines = ["\t".join(names), *("\t".join(_cell(row.get(name)) for name in names) for row in rows)]
    write_durably(stem.with_name(stem.name + ".tsv"), "\n".join(lines) + "\n")
    described = {name: columns.get(name, {"Description": name}) for name in names}
    write_durably(stem.with_name(stem.name + ".json"), json.dumps(described, indent=2, ensure_ascii=False) + "\n")


def _cell(value: Any) -> str:
    match value:
        case None:
            return NONE
        case bool():
            return "true" if value else "false"
        case float():
            return NONE if math.isnan(value) else repr(value)
        case list() | dict():
            return json.dumps(value, ensure_ascii=False)
    text = str(value).replace("\t", " ").replace("\r", " ").replace("\n", " ")
    return text or NONE


def load_study(directory: str | Path) -> Any:
    """All trials of a study that has been recorded, one row a trial.

    Columns are those of the tables of events, before them `participant` and `session`, after them the factors between
    participants and the answers to questionnaires that are not of a block.

    Returns:
        A pandas DataFrame where pandas is installed; else a dict of columns by name, NumPy arrays of one length, with
        NaN or None for missing values.

    Raises:
        ParameterError: it is not the directory of a study.
        JournalError: a journal is damaged.
    """
    dataset = Dataset.open(Path(directory))
    rows = []
    for participant, number in dataset.sessions():
        session, _ = dataset.replayed(participant, number)
        more = between(session) | asked(session)
        rows += [{"participant": participant, "session": number, **row, **more} for row in events(session)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = {name: _column([row.get(name) for row in rows]) for name in names}
    try:
        import pandas  # type: ignore[import-untyped]  # optional, and without types of its own
    except ModuleNotFoundError:
        return table
    return pandas.DataFrame(table)


def _column(values: Iterable[Any]) -> np.ndarray:
    """An array of numbers where all values are numbers or missing, else of objects."""
    values = list(values)
    if all(value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in values):
        if values and all(isinstance(value, int) for value in values):
            return np.array(values)
        return np.array([np.nan if value is None else float(value) for value in values])
    found = np.empty(len(values), object)
    found[:] = values
    return found
