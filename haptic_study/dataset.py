"""The directory of a study that is recorded: the study as it began, and the sessions with their journals.

    DIR/sourcedata/study.yaml                  everything that the study's file and its experiment say
    DIR/sourcedata/study.json                  digest of that, name of the file, versions
    DIR/sourcedata/sub-01/ses-01/journal.jsonl events of a session (`journal`)
    DIR/sourcedata/sub-01/ses-01/trials/       directories of the intervals, where they are recorded

The tables beside `sourcedata` follow from these (`tables`). One program at a time writes (`Dataset.held`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from haptic_bench.recording.trial_bag import versions
from haptic_sim import inputs
from haptic_sim.libyaml import DUMPER
from haptic_sim.parameters import ParameterError, listed
from haptic_study import journal
from haptic_study.file import Study, study_of
from haptic_study.journal import Journal
from haptic_study.session import End, Event, Session, SessionError, Step, Trial

CODE = re.compile(r"[A-Za-z0-9]{1,32}")
SOURCE = "sourcedata"


@dataclass(frozen=True)
class Dataset:
    """A study's directory.

    Attributes:
        directory: where it is.
        study: as it began.
    """

    directory: Path
    study: Study

    @classmethod
    def create(cls, directory: Path, study: Study, file: Path | None = None) -> Dataset:
        """Begin a study in a directory that exists and is empty.

        Args:
            directory: of the study.
            study: a valid study.
            file: of the study, which is named where it changes later.
        """
        source = directory / SOURCE
        source.mkdir()
        text = yaml.dump(study.document, Dumper=DUMPER, sort_keys=False, allow_unicode=True, width=100)
        journal.write_durably(source / "study.yaml", text)
        about = {
            "digest": study.digest,
            "file_digest": _digest(text),
            "folder": str(study.folder),
            "file": None if file is None else str(file.resolve()),
            "versions": versions(),
        }
        journal.write_durably(source / "study.json", json.dumps(about, indent=2) + "\n")
        return cls.open(directory)

    @classmethod
    def open(cls, directory: Path) -> Dataset:
        """The study that has begun in a directory.

        Raises:
            ParameterError: none has, or its study was changed there.
        """
        source = directory / SOURCE
        try:
            about = inputs.read_json(inputs.read_text(source / "study.json"))
            digest, written, folder = about["digest"], about["file_digest"], Path(about["folder"])
            text = inputs.read_text(source / "study.yaml")
        except (inputs.InputError, KeyError, TypeError) as error:
            problem = f"{directory}: is not the directory of a study (files in {SOURCE} are missing or damaged)"
            raise ParameterError([problem]) from error
        if (found := _digest(text)) != written:
            raise ParameterError(
                [
                    f"{source / 'study.yaml'}: was changed after the study began (digest {found[:12]}, "
                    f"{written[:12]} expected): restore it, or begin another study with --out"
                ]
            )
        study = study_of(inputs.read_mapping(source / "study.yaml"), folder)
        return cls(directory, replace(study, begun=digest))  # keys that came later have their defaults

    def check_same(self, study: Study) -> None:
        """Refuse to continue with a study whose file has changed since it began.

        Raises:
            ParameterError: it has; the text names the keys.
        """
        before, now = self.study.document, study.document
        if before != now:
            changed = list(_changed(before, now))
            problem = f"study {study.name}: has changed since it began in {self.directory}: {listed(changed, 5)}"
            raise ParameterError([f"{problem}; restore the file, or begin another study with --out"])

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Be the one program that records here.

        Raises:
            JournalError: another one does.
        """
        with journal.locked(self.directory):
            yield

    def folder(self, participant: str, session: int) -> Path:
        """Folder of a session."""
        return self.directory / SOURCE / f"sub-{participant}" / f"ses-{session:02d}"

    def sessions(self) -> list[tuple[str, int]]:
        """Participant and number of each session that has begun, in the order of their codes."""
        found = (self.directory / SOURCE).glob("sub-*/ses-*/journal.jsonl")
        pairs = [(path.parts[-3].removeprefix("sub-"), int(path.parts[-2].removeprefix("ses-"))) for path in found]
        return sorted(pairs, key=lambda pair: (len(pair[0]), pair))

    def begin(self, participant: str, session: int, by: Mapping[str, Any]) -> Recording:
        """Begin a session.

        Args:
            participant: code of letters and digits.
            session: its number, from 1 on.
            by: who answers, for example a simulated observer.

        Raises:
            ParameterError: the code is none, or the session exists.
        """
        if not CODE.fullmatch(participant):
            shown = inputs.shown(participant)
            raise ParameterError([f"participant {shown}: must be a code of 1 to 32 letters and digits, and no name"])
        taken = {one.lower(): one for one, _ in self.sessions()}
        other = taken.get(participant.lower(), participant)
        if other != participant:
            raise ParameterError([f"participant {participant}: {other} exists, which some disks do not distinguish"])
        folder = self.folder(participant, session)
        if (folder / "journal.jsonl").exists():
            raise ParameterError(
                [
                    f"participant {participant}: session {session} exists in {self.directory}: choose another code or "
                    f"another session; `haptics study resume {self.directory}` continues a session that was cut"
                ]
            )
        folder.mkdir(parents=True, exist_ok=True)
        for made in (folder, folder.parent, folder.parent.parent):
            journal.sync_folder(made)
        first = {
            "event": "open",
            "study": self.study.name,
            "digest": self.study.digest,
            "participant": participant,
            "session": session,
            "by": dict(by),
        }
        return Recording(Journal(folder / "journal.jsonl"), Session(self.study, participant, session), first)

    def resume(self, participant: str, session: int) -> Recording:
        """Continue a session from its journal.

        Raises:
            ParameterError: it is of another study, or does not fit it.
            JournalError: it is damaged.
        """
        return Recording(
            Journal(self.folder(participant, session) / "journal.jsonl"), Session(self.study, participant, session)
        )

    def answerer(self, participant: str, session: int) -> dict[str, Any]:
        """Entry of `begin` about who answers in a session, without a replay of the session."""
        entries = journal.read(self.folder(participant, session) / "journal.jsonl")[0]
        return dict(entries[0].get("by") or {}) if entries else {}

    def replayed(
        self, participant: str, session: int, seen: Callable[[Step, Event], object] = lambda step, event: None
    ) -> tuple[Session, dict[str, Any]]:
        """A session as its journal has it, for reading; and the journal's first entry. `seen`: see `replay`."""
        entries = journal.read(self.folder(participant, session) / "journal.jsonl")[0]
        replayed = Session(self.study, participant, session)
        first = replay(entries, replayed, seen)
        return replayed, first


def replay(
    entries: list[dict[str, Any]],
    session: Session,
    seen: Callable[[Step, Event], object] = lambda step, event: None,
) -> dict[str, Any]:
    """Apply the entries of a journal to a session that has not begun; returns the first one, empty without entries.

    `seen` is called with each event and the step before it.

    Raises:
        ParameterError: they are of another study, participant or session, or do not fit.
    """
    if not entries:
        return {}
    first, *events = entries
    expected = {
        "event": "open",
        "digest": session.study.digest,
        "participant": session.participant,
        "session": session.number,
    }
    for key, value in expected.items():
        if first.get(key) != value:
            found = inputs.shown(first.get(key))
            raise ParameterError([f"journal of participant {session.participant}: {key} = {found}: must be {value}"])
    for number, event in enumerate(events, 2):
        try:
            seen(session.step, event)
            session.apply(event)
        except SessionError as error:
            where = f"journal of participant {session.participant}, line {number}"
            raise ParameterError(f"{where}: {line}" for line in error.problems) from error
    return first


class Recording:
    """A session whose events are in a journal.

    Args:
        kept: the journal, which this closes.
        session: that has not begun; it replays the journal's entries.
        first: the entry that begins a new journal.

    Attributes:
        session: its state.
        first: the journal's first entry.
        cut: the trial that was being presented when the session was cut; None: none was.
    """

    def __init__(self, kept: Journal, session: Session, first: Mapping[str, Any] | None = None):
        self._journal, self.session = kept, session
        try:
            if first is not None:
                kept.append(first)
            self.first = replay(kept.entries, session)
        except BaseException:
            kept.close()
            raise
        step = session.step
        self.cut = step if isinstance(step, Trial) and step.begun and first is None else None

    @property
    def time(self) -> float:
        """Time of the last event [s], from the beginning of the session."""
        return float(self._journal.entries[-1].get("time", 0.0)) if self._journal.entries else 0.0

    @property
    def folder(self) -> Path:
        """Folder of the session."""
        return self._journal.path.parent

    @property
    def root(self) -> Path:
        """Directory of the study."""
        return self.folder.parents[2]

    @property
    def entries(self) -> list[dict[str, Any]]:
        """The journal's entries."""
        return self._journal.entries

    @property
    def ended(self) -> bool:
        """Whether the session has ended."""
        return isinstance(self.session.step, End)

    def apply(self, event: Mapping[str, Any]) -> None:
        """Apply an event to the session; it is on the disk when this returns.

        Raises:
            SessionError: it does not fit; nothing was recorded.
            JournalError: it cannot be recorded, and the session cannot go on.
        """
        self.session.apply(event)
        self._journal.append(event)

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _changed(before: Any, now: Any, key: str = "") -> Iterator[str]:
    """Keys whose values differ."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in dict.fromkeys([*before, *now]):
            yield from _changed(before.get(name), now.get(name), f"{key}.{name}" if key else name)
    elif before != now:
        yield key
