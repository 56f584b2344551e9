"""The user's cache of generated code: compiled kernels, and sources derived from formulas.

What is kept there is executed by later processes. So a file is used only if no other user can have written it: the
file, its folder, and each folder and symbolic link on the path to it belong to the user or to root, and nobody else may
write to them. A folder with the sticky bit, as /tmp, may be passed, as nobody can replace the entries of others in it.
The user's private group, which has the user's name and no other members, counts as the user.

Standard library only, as the report on the machine (`haptics doctor`) needs it before anything is installed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import grp
import os
import pwd
import stat
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

from haptic_sim.errors import HapticsError

MOST_LINKS = 40  # symbolic links on a path, as Linux has it


class UntrustedError(HapticsError, PermissionError):
    """Another user can have written what would be executed; `strerror` is the reason."""

    def __init__(self, path: Path, reason: str):
        super().__init__(errno.EPERM, reason, str(path))


def cache_folder(name: str) -> Path:
    """A folder of the user's cache: below HAPTICS_CACHE_DIR, or `haptics` in XDG_CACHE_HOME or ~/.cache."""
    given = os.environ.get("HAPTICS_CACHE_DIR")
    users = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return (Path(given) if given else Path(users, "haptics")) / name


def make(folder: Path) -> None:
    """Make a folder that only the user may write to, if it does not exist.

    Raises:
        UntrustedError: others can replace it, or what is in it.
        OSError: it cannot be made.
    """
    _check(folder)
    for place in (*reversed(folder.parents), folder):
        if not place.exists():
            with contextlib.suppress(FileExistsError):  # another process was faster
                place.mkdir(0o700)
    _check(folder)


def read(path: Path) -> bytes:
    """Content of a file that is to be executed.

    Raises:
        UntrustedError: others can have written it.
        OSError: it cannot be read.
    """
    _check(path.parent)
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        reason = _objection(path, os.fstat(file.fileno()))
        if reason:
            warnings.warn(f"{reason}: it is not used, and made again", RuntimeWarning, stacklevel=2)
            raise UntrustedError(path, reason)
        return file.read()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """While no other process has a file locked, which is removed in the end.

    Who has it may remove it while this waits for it, and a third make it anew: then this waits for that one.

    Raises:
        UntrustedError: as `make`.
        OSError: it cannot be made, or locked.
    """
    make(path.parent)
    while True:
        with open(path, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                is_there = os.path.samestat(os.fstat(file.fileno()), os.stat(path))
            except FileNotFoundError:
                is_there = False
            if is_there:
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                return


def write(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all.

    Raises:
        OSError: as `make`, or the file cannot be written.
    """
    make(path.parent)
    descriptor, draft = tempfile.mkstemp(dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise


def objection(folder: Path) -> str:
    """Reason why a folder cannot be trusted, as far as it exists; empty if it can."""
    try:
        *above, end = _passed(Path.cwd() / folder)
        for place in (*above, end):
            found = os.lstat(place)
            sticky = bool(found.st_mode & stat.S_ISVTX) and place != end
            if reason := _objection(place, found, shared=sticky or stat.S_ISLNK(found.st_mode)):
                return reason
    except FileNotFoundError:  # from here on it does not exist
        return ""
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return ""


_judged: dict[Path, str] = {}  # the objection to a folder that exists, looked for once in a process


def _check(folder: Path) -> None:
    reason = _judged.get(folder)
    if reason is None:
        reason = objection(folder)
        if folder.exists():
            _judged[folder] = reason
    if reason:
        raise UntrustedError(folder, reason)


def _passed(path: Path) -> Iterator[Path]:
    """The folders and symbolic links that the system passes on an absolute path, and its end."""
    place, waiting, links = Path("/"), list(reversed(path.parts[1:])), 0
    yield place
    while waiting:
        part = waiting.pop()
        if part == "..":
            place = place.parent
            continue
        yield place / part
        if not (place / part).is_symlink():
            place = place / part
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = Path(os.readlink(place / part))
        place = Path("/") if target.is_absolute() else place
        waiting += reversed(target.parts[1:] if target.is_absolute() else target.parts)


def _objection(path: Path, found: os.stat_result, shared: bool = False) -> str:
    """Reason why a file or folder cannot be trusted; empty if it can. `shared`: its mode does not matter."""
    if found.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to {_name(found.st_uid)}, not to {_name(os.geteuid())}"
    others = found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and not _is_private(found.st_gid))
    if others and not shared:
        return f"{path} can be written by others than {_name(os.geteuid())} (mode {stat.S_IMODE(found.st_mode):03o})"
    return ""


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def _is_private(group: int) -> bool:
    """Whether a group is the user's own."""
    name = _name(os.geteuid())
    try:
        found = grp.getgrgid(group)
    except KeyError:
        return False
    return found.gr_name == name and not set(found.gr_mem) - {name}
