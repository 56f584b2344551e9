"""The layout of a recorded study beside the rules of the Brain Imaging Data Structure (specification 1.9).

The rules are those of the chapters "Common principles", "Modality agnostic files" and "Behavioral experiments (with no
neural recordings)". Where the package bids-validator is installed, names of files are compared with its rules, too.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from study_sessions import document, event_of

from haptic_study import tables
from haptic_study.dataset import Dataset
from haptic_study.file import study_of
from haptic_study.session import Trial

IGNORED = ("sourcedata", "report.html", "figures", ".lock", ".bidsignore")
FILE = re.compile(
    r"(?P<sub>sub-[0-9a-zA-Z]+)/(?P<ses>ses-[0-9a-zA-Z]+)/beh/"
    r"(?P=sub)_(?P=ses)_task-[0-9a-zA-Z]+(_acq-[0-9a-zA-Z]+)?(_run-[0-9]+)?_(events|beh)\.(tsv|json)"
)
"""Entities in the order of the specification; those of the folders are repeated in the name."""
TOP = ("dataset_description.json", "participants.tsv", "participants.json", "README")


def problems(directory: Path) -> Iterator[str]:
    """What is against the rules."""
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        if path.is_dir() or name.split("/")[0] in IGNORED:
            continue
        if name not in TOP and not FILE.fullmatch(name):
            yield f"{name}: no name of a file"
        if name.endswith(".tsv"):
            yield from (f"{name}: {problem}" for problem in table_problems(path))
    about = json.loads((directory / "dataset_description.json").read_text(encoding="utf-8"))
    for key in ("Name", "BIDSVersion"):
        if not isinstance(about.get(key), str) or not about[key]:
            yield f"dataset_description.json: {key} is required"
    if about.get("DatasetType") not in ("raw", "derivative"):
        yield "dataset_description.json: DatasetType"
    if not all("Name" in one for one in about.get("GeneratedBy", [])):
        yield "dataset_description.json: GeneratedBy needs a Name"
    people = set(column(directory / "participants.tsv", "participant_id"))
    folders = {path.name for path in directory.glob("sub-*")}
    if people != folders:
        yield f"participants.tsv: {people} instead of {folders}"


def column(path: Path, name: str) -> list[str]:
    with path.open(encoding="utf-8", newline="") as file:
        return [row[name] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


def is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def table_problems(path: Path) -> Iterator[str]:
    """Of a table: tabs, a header, no empty cells, n/a for what is missing, the columns that are required."""
    lines = path.read_text(encoding="utf-8").split("\n")
    rows = [line.split("\t") for line in lines[:-1]]
    if lines[-1] or not rows:
        yield "does not end with a line"
    head = rows[0]
    if len(set(head)) < len(head):
        yield "has a column twice"
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(head):
            yield f"line {number}: {len(row)} cells, {len(head)} columns"
        if any(cell != cell.strip() or cell.lower() in ("", "nan", "none") for cell in row):
            yield f"line {number}: a cell that is empty, or not n/a"
    is_person = [re.fullmatch("sub-[0-9a-zA-Z]+", row[0]) for row in rows[1:]]
    if path.name == "participants.tsv" and (head[0] != "participant_id" or not all(is_person)):
        yield "participant_id: must be the first column, and sub-LABEL"
    if path.name.endswith("_events.tsv"):
        if head[:2] != ["onset", "duration"]:
            yield "must begin with onset and duration"
        if not all(is_number(row[0]) for row in rows[1:]):
            yield "onset: must be numbers"
        if not all(row[1] == "n/a" or (is_number(row[1]) and float(row[1]) >= 0.0) for row in rows[1:]):
            yield "duration: must be numbers >= 0, or n/a"
        times = [float(row[0]) for row in rows[1:]]
        if times != sorted(times):
            yield "onset: must not decrease"
    described = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    if set(described) != set(head):
        yield f"columns without a description: {set(head) ^ set(described)}"
    for name, one in described.items():
        allowed = {"LongName", "Description", "Levels", "Units", "TermURL", "HED"}
        if not isinstance(one.get("Description"), str) or not set(one) <= allowed:
            yield f"{name}: must have a description, and no keys but {allowed}"
        values = set(column(path, name)) - {"n/a"}
        if "Levels" in one and not values <= set(one["Levels"]):
            yield f"{name}: {values - set(one['Levels'])} are no levels"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Two people, one of them with two sessions, with repeated, dropped and excluded trials, and a stop."""
    found = document(
        factors={"mass": {"key": "device.mass", "levels": [0.1, 0.2]}, "group": GROUP},
        title='A "study" of\ttabs',
    )
    made = Dataset.create(tmp_path_factory.mktemp("bids"), study_of(found, Path()))
    for code, number in (("01", 1), ("P2", 1), ("01", 2)):
        with made.begin(code, number, {"kind": "person"}) as recording:
            done: list[Any] = []
            while not recording.ended:
                session, time = recording.session, recording.time + 0.5
                step, event = session.step, event_of(session)
                if isinstance(step, Trial) and step.begun and step.number in (2, 4) and step.number not in done:
                    done.append(step.number)
                    event = {"event": "repeat" if step.number == 2 else "drop", "trial": step.number}
                    event["reason"] = "line\nbreak\tand tab"
                elif number == 2 and len(session.rows) > 5:
                    event = {"event": "stop", "reason": "tired"}
                recording.apply({**event, "time": time})
            last = next(row for row in recording.session.rows if row.status == "answered")
            excluded = {"event": "exclude", "trial": last.trial.number, "reason": "noise", "time": recording.time}
            recording.apply(excluded)
    tables.write(made)
    return made


GROUP = {"levels": {"a": {"device.inertia": 1e-4}, "b": {"device.inertia": 2e-4}}, "between": True}


def test_a_recorded_study_keeps_to_the_rules(dataset: Dataset) -> None:
    assert list(problems(dataset.directory)) == []
    names = [path.name for path in dataset.directory.rglob("*_events.tsv")]
    assert len(names) == 6 and "sub-P2_ses-01_task-session_events.tsv" in names


@pytest.mark.parametrize(
    ("name", "before", "after", "said"),
    [
        ("participants.tsv", "participant_id", "participant", "participant_id"),
        ("sub-01/ses-01/beh/sub-01_ses-01_task-session_events.tsv", "onset\tduration", "duration\tonset", "must begin"),
        ("sub-01/ses-01/beh/sub-01_ses-01_task-session_events.tsv", "open", "nan", "not n/a"),
        ("dataset_description.json", "BIDSVersion", "Version", "BIDSVersion is required"),
    ],
)
def test_broken_layouts_are_found(dataset: Dataset, name: str, before: str, after: str, said: str) -> None:
    path = dataset.directory / name
    text = path.read_text(encoding="utf-8")
    try:
        path.write_text(text.replace(before, after, 1), encoding="utf-8")
        if said == "participant_id":
            with pytest.raises(KeyError, match=said):
                list(problems(dataset.directory))
        else:
            assert any(said in problem for problem in problems(dataset.directory))
    finally:
        path.write_text(text, encoding="utf-8")


def test_names_are_those_of_the_validator(dataset: Dataset) -> None:
    validator = pytest.importorskip("bids_validator").BIDSValidator()
    for path in dataset.directory.rglob("*"):
        name = path.relative_to(dataset.directory).as_posix()
        if path.is_file() and name.split("/")[0] not in IGNORED:
            assert validator.is_bids(f"/{name}"), name
