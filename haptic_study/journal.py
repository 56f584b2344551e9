"""The journal of a session: a file of lines of JSON, each on the disk before what follows from it begins.

A line is the digest of the line before and of its own entry, and the entry:

    {"digest": "5c0f...", "entry": {"event": "answer", "trial": 12, ...}}

The digest is that of the preceding digest and the entry's text, so that a line that is incomplete, changed, missing or
in another place is found. A program that is killed, or a full disk, leaves at most one incomplete line at the end: it
is moved to `NAME.torn` when the journal is opened again, as nothing that depends on it has happened. Any other damage
is refused, that of a complete last line too.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from haptic_sim.errors import HapticsError

FIRST = hashlib.sha256(b"haptics study").hexdigest()
"""The digest before the first line."""


class JournalError(HapticsError):
    """A journal cannot be read or written; the text says which, and what to do."""


def entry_line(previous: str, entry: Mapping[str, Any]) -> tuple[str, bytes]:
    """Digest and line of an entry that follows on a digest."""
    text = json.dumps(entry, allow_nan=False, separators=(",", ":"))
    digest = hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()
    return digest, f'{{"digest":"{digest}","entry":{text}}}\n'.encode()


def read(path: Path) -> tuple[list[dict[str, Any]], str, int, bytes]:
    """The entries of a journal.

    Returns:
        Entries, digest of the last one, number of bytes of the complete lines, and what follows: an incomplete line.

    Raises:
        JournalError: it cannot be read, or a line that is not the last is damaged.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise JournalError(f"{path}: cannot be read: {error.strerror}") from error
    entries: list[dict[str, Any]] = []
    digest, size = FIRST, 0
    for number, line in enumerate(content.splitlines(keepends=True), 1):
        found = _entry(digest, line)
        if found is None:
            if size + len(line) < len(content) or _is_complete(line):
                raise JournalError(
                    f"{path}: line {number} is damaged: restore the file from a copy; nothing was changed"
                )
            return entries, digest, size, line
        digest, entry = found
        entries.append(entry)
        size += len(line)
    return entries, digest, size, b""


def _entry(previous: str, line: bytes) -> tuple[str, dict[str, Any]] | None:
    """Digest and entry of a line; None if it is not complete."""
    try:
        found = json.loads(line)
        entry = found["entry"]
        digest, text = entry_line(previous, entry)
    except (ValueError, TypeError, KeyError):
        return None
    return (digest, entry) if text == line else None


def _is_complete(line: bytes) -> bool:
    """Whether a line was written to its end, whatever its digest says."""
    try:
        return line.endswith(b"\n") and isinstance(json.loads(line), dict)
    except ValueError:
        return False


class Journal:
    """A journal that is open to be continued.

    Args:
        path: of the file, which is made if it is not there.

    Attributes:
        entries: all, in their order.
        torn: whether an incomplete line was found at the end.

    Raises:
        JournalError: see `read`; or it cannot be written.
    """

    def __init__(self, path: Path):
        self.path, self.entries, self._digest = path, list[dict[str, Any]](), FIRST
        self._size, torn = 0, b""
        if path.exists():
            self.entries, self._digest, self._size, torn = read(path)
        self.torn = bool(torn)
        try:
            if torn:
                _append(path.with_name(f"{path.name}.torn"), torn + b"\n")
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            if torn:
                os.ftruncate(self._file, self._size)
            os.fsync(self._file)
            sync_folder(path.parent)
        except OSError as error:
            raise JournalError(_unwritable(path, error)) from error

    def append(self, entry: Mapping[str, Any]) -> None:
        """Add an entry; it is on the disk when this returns.

        Raises:
            JournalError: it cannot be written; the journal is as it was before.
        """
        digest, line = entry_line(self._digest, entry)
        try:
            written = 0
            while written < len(line):
                written += os.pwrite(self._file, line[written:], self._size + written)
            os.fsync(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):  # else the incomplete line is found when it is opened again
                os.ftruncate(self._file, self._size)
                os.fsync(self._file)
            raise JournalError(_unwritable(self.path, error)) from error
        self._size += len(line)
        self._digest = digest
        self.entries.append(dict(entry))

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _unwritable(path: Path, error: OSError) -> str:
    remedy = "what was recorded is safe: make room, then `haptics study resume`"
    return f"{path}: cannot be written: {error.strerror}; {remedy}"


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_durably(path: Path, text: str) -> None:
    """Write a file as a whole: after a kill or with a full disk it has its old content or the new one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise JournalError(_unwritable(path, error)) from error


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder of a study, of which one program at a time may record sessions. A program that ends releases it.

    Raises:
        JournalError: another program holds it.
    """
    path = folder / ".lock"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise JournalError(_unwritable(path, error)) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(handle, 100, 0).decode(errors="replace").strip()
            raise JournalError(
                f"{folder}: is in use by another experimenter (process {holder or 'unknown'}): end that one first, or "
                "record into another directory with --out"
            ) from error
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)
