"""The journal of a session: what was answered is on the disk; damage is found, and nothing is overwritten."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from study_sessions import BY, event_of, small

from haptic_sim.parameters import ParameterError
from haptic_study import journal
from haptic_study.dataset import Dataset, Recording
from haptic_study.journal import Journal, JournalError
from haptic_study.session import End, Session, Trial

STAIRCASE = {"type": "staircase", "start": 400.0, "steps": [40.0, 20.0], "down": 2, "reversals": 6, "low": 301.0}


def written(path: Path, count: int = 5) -> list[dict[str, Any]]:
    with Journal(path) as book:
        for i in range(count):
            book.append({"event": "answer", "trial": i, "text": "ä\n\u2028"})
        return list(book.entries)


def test_a_journal_cut_anywhere_has_the_entries_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # which takes most of the time
    path = tmp_path / "journal.jsonl"
    entries = written(path, 3)
    content = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(content) if byte == 10]
    for size in range(len(content) + 1):
        path.write_bytes(content[:size])
        with Journal(path) as book:
            complete = sum(end <= size for end in ends)
            assert book.entries == entries[:complete] and book.torn == (size not in [0, *ends])
            book.append({"event": "continue"})
        assert journal.read(path)[0] == [*entries[:complete], {"event": "continue"}]
    assert b'"entry"' in path.with_name("journal.jsonl.torn").read_bytes()


def test_a_changed_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    written(path)
    lines = path.read_bytes().splitlines(keepends=True)
    swapped = [lines[0], lines[2], lines[1], *lines[3:]]
    changed = [*lines[:4], lines[4].replace(b'"trial":4', b'"trial":5')]
    for found, number in ((swapped, 2), ([*lines[:1], *lines[2:]], 2), (changed, 5)):
        path.write_bytes(b"".join(found))
        with pytest.raises(
            JournalError, match=f"line {number} is damaged: restore the file from a copy; nothing was changed$"
        ):
            Journal(path)
        assert path.read_bytes() == b"".join(found)


def test_a_full_disk_leaves_the_journal_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.jsonl"
    entries = written(path)
    room = path.stat().st_size + 30
    real = os.pwrite

    def full(handle: int, data: bytes, offset: int) -> int:
        if offset >= room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(handle, data[: room - offset], offset)

    with Journal(path) as book:
        monkeypatch.setattr(os, "pwrite", full)
        with pytest.raises(JournalError, match="No space left on device; what was recorded is safe: make room, then"):
            book.append({"event": "answer", "trial": 6})
        monkeypatch.undo()
        assert journal.read(path)[0] == entries
        book.append({"event": "answer", "trial": 6})
    assert journal.read(path)[0] == [*entries, {"event": "answer", "trial": 6}]


def begun(folder: Path, **changes: Any) -> Dataset:
    folder.mkdir(exist_ok=True)
    return Dataset.create(folder, small(**changes))


def step_to(recording: Recording, stop: Callable[[Session], bool]) -> None:
    while not recording.ended and not stop(recording.session):
        recording.apply(event_of(recording.session))


def test_a_participant_who_exists_is_not_overwritten(tmp_path: Path) -> None:
    dataset = begun(tmp_path)
    with dataset.begin("01", 1, BY):
        pass
    before = (dataset.folder("01", 1) / "journal.jsonl").read_bytes()
    with pytest.raises(ParameterError, match=r"^participant 01: session 1 exists in .*: choose another code"):
        dataset.begin("01", 1, BY)
    assert (dataset.folder("01", 1) / "journal.jsonl").read_bytes() == before
    with dataset.begin("01", 2, BY), dataset.begin("A2", 1, BY):
        assert dataset.sessions() == [("01", 1), ("01", 2), ("A2", 1)]
    with pytest.raises(ParameterError, match=r"^participant a2: A2 exists, which some disks do not distinguish$"):
        dataset.begin("a2", 1, BY)
    with pytest.raises(ParameterError, match=r"^participant \.\./x1: must be a code of 1 to 32 letters and digits"):
        dataset.begin("../x1", 1, BY)


def test_two_experimenters_at_once_are_refused(tmp_path: Path) -> None:
    dataset = begun(tmp_path)
    with dataset.held():
        said = f"is in use by another experimenter .process {os.getpid()}.: end that one first, or record into another"
        with pytest.raises(JournalError, match=said), Dataset.open(tmp_path).held():
            pass
    with dataset.held():
        pass


def test_a_study_that_changed_is_refused(tmp_path: Path) -> None:
    dataset = begun(tmp_path)
    dataset.check_same(small())
    said = (
        "has changed since it began in .*: experiment.contact.damping, tasks.discrimination.reference; restore the file"
    )
    with pytest.raises(ParameterError, match=said):
        dataset.check_same(small(tasks__discrimination__reference=310.0, experiment__contact__damping=0.6))
    copy = tmp_path / "sourcedata" / "study.yaml"
    copy.write_text(copy.read_text().replace("reference: 300.0", "reference: 310.0"))
    with pytest.raises(ParameterError, match=r"study.yaml: was changed after the study began \(digest"):
        Dataset.open(tmp_path)
    with pytest.raises(ParameterError, match="is not the directory of a study"):
        Dataset.open(tmp_path / "nothing")


def test_a_study_that_began_before_there_was_a_key_goes_on(tmp_path: Path) -> None:
    dataset = begun(tmp_path)
    with dataset.begin("01", 1, BY):
        pass
    digest, source = dataset.study.digest, tmp_path / "sourcedata"
    document = yaml.safe_load((source / "study.yaml").read_text())
    del document["codes"]
    text = yaml.safe_dump(document)
    (source / "study.yaml").write_text(text)
    about = json.loads((source / "study.json").read_text())
    (source / "study.json").write_text(json.dumps(about | {"file_digest": hashlib.sha256(text.encode()).hexdigest()}))
    again = Dataset.open(tmp_path)
    assert again.study.digest == digest
    again.check_same(small())
    with again.resume("01", 1) as recording:
        assert recording.session.number == 1


def test_a_session_that_was_cut_goes_on_with_the_same_trial(tmp_path: Path) -> None:
    dataset = begun(tmp_path, tasks__discrimination__method=STAIRCASE)
    with dataset.begin("01", 1, BY) as recording:
        step_to(recording, lambda session: len(session.rows) == 7)
        recording.apply(event_of(recording.session))
        trial = recording.session.step
    with dataset.resume("01", 1) as resumed:
        assert isinstance(trial, Trial) and resumed.cut == trial and resumed.session.step == trial
        assert resumed.session.rows == recording.session.rows
        resumed.apply({"event": "repeat", "trial": trial.number, "reason": "interrupted"})
        step_to(resumed, lambda session: False)
    uncut = Session(dataset.study, "01")
    while not isinstance(uncut.step, End):
        uncut.apply(event_of(uncut))
    found = [(row.trial.number, row.trial.values, row.answer) for row in resumed.session.rows]
    assert found == [(row.trial.number, row.trial.values, row.answer) for row in uncut.rows]


def test_a_journal_of_another_participant_is_refused(tmp_path: Path) -> None:
    dataset = begun(tmp_path)
    with dataset.begin("01", 1, BY):
        pass
    other = dataset.folder("02", 1)
    other.mkdir(parents=True)
    (other / "journal.jsonl").write_bytes((dataset.folder("01", 1) / "journal.jsonl").read_bytes())
    with pytest.raises(ParameterError, match=r"^journal of participant 02: participant = 01: must be 02$"):
        dataset.resume("02", 1)


# Kills

CHILD = """
import sys, time
sys.path.insert(0, {tests!r})
from pathlib import Path
from study_sessions import BY, event_of
from haptic_study.dataset import Dataset
dataset = Dataset.open(Path(sys.argv[1]))
with dataset.held():
    there = (dataset.folder("01", 1) / "journal.jsonl").exists()
    recording = dataset.resume("01", 1) if there else dataset.begin("01", 1, BY)
    if recording.cut:
        recording.apply(dict(event="repeat", trial=recording.cut.number, reason="interrupted"))
    print("ready", flush=True)
    while not recording.ended:
        event = event_of(recording.session)
        recording.apply(event)
        if event["event"] == "answer":
            print(event["trial"], event["answer"], flush=True)
"""


def kill_again_and_again(folder: Path, kills: int) -> int:
    """Kill a program that records a session at random instants; number of the kills, each of which lost no answer."""
    dataset = begun(folder, tasks__discrimination__method__repetitions=2000)
    random, answered = np.random.default_rng(20260), dict[int, str]()
    code, killed = CHILD.format(tests=str(Path(__file__).parent)), 0
    while killed < kills:
        child = os.fork()  # without what the program has to import
        if child == 0:
            with open(folder / "said", "w") as said:
                os.dup2(said.fileno(), 1)
                sys.stdout = said
                sys.argv = ["child", str(folder)]
                try:
                    exec(compile(code, "child", "exec"), {"__name__": "child"})
                finally:
                    os._exit(1)
        limit = time.monotonic() + 60.0
        while not (folder / "said").exists() or not (folder / "said").read_text().startswith("ready"):
            assert time.monotonic() < limit
            time.sleep(0.001)
        time.sleep(float(random.uniform(0.0, 0.03)))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        killed += 1
        lines = (folder / "said").read_text().splitlines(keepends=True)
        (folder / "said").unlink()
        for line in lines[1:]:
            if line.endswith("\n"):  # what it has said, it has recorded
                number, answer = line.split()
                answered[int(number)] = answer
        session, _ = dataset.replayed("01", 1)
        recorded = {row.trial.number: row.answer for row in session.rows}
        assert answered.items() <= recorded.items()
        assert list(recorded) == list(range(1, len(recorded) + 1))
        answered = {number: str(answer) for number, answer in recorded.items()}
    uncut = Session(dataset.study, "01")
    while len(uncut.rows) < len(answered):
        uncut.apply(event_of(uncut))
    assert [(row.trial.number, row.answer) for row in uncut.rows] == list(answered.items())
    return killed


@pytest.mark.long
def test_kills_at_random_instants_lose_no_answer(tmp_path: Path) -> None:
    assert kill_again_and_again(tmp_path, 5) == 5


@pytest.mark.exhaustive
def test_a_hundred_kills_lose_no_answer(tmp_path: Path) -> None:
    assert kill_again_and_again(tmp_path, 100) == 100


def test_an_end_within_any_write_loses_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a kill at each instant of writing a line: after any number of its bytes."""

    class Killed(BaseException):
        pass

    dataset = begun(tmp_path)
    random, real, rows = np.random.default_rng(7), os.pwrite, 0
    with dataset.begin("01", 1, BY):
        pass
    for _ in range(60):
        with dataset.resume("01", 1) as recording:
            if recording.cut:
                recording.apply({"event": "repeat", "trial": recording.cut.number, "reason": "interrupted"})
            assert len(recording.session.rows) >= rows
            if recording.ended:
                break
            left = int(random.integers(0, 400))

            def dying(handle: int, data: bytes, offset: int) -> int:
                nonlocal left
                if left < len(data):
                    real(handle, data[:left], offset)
                    raise Killed
                left -= len(data)
                return real(handle, data, offset)

            monkeypatch.setattr(os, "pwrite", dying)
            try:
                step_to(recording, lambda session: False)
            except Killed:
                # the session in memory may be an event ahead, which the program has told nobody
                rows = len(dataset.replayed("01", 1)[0].rows)
            monkeypatch.undo()
    uncut = Session(dataset.study, "01")
    while not isinstance(uncut.step, End):
        uncut.apply(event_of(uncut))
    session, _ = dataset.replayed("01", 1)
    assert isinstance(session.step, End)
    assert [(row.trial.values, row.answer) for row in session.rows] == [(r.trial.values, r.answer) for r in uncut.rows]
