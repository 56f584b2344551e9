"""The middleware's segments in shared memory, which remain when their process is killed: found and removed."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

_LOCK = re.compile(r"(/dev/shm/fastrtps_[0-9a-f]+)_el")  # not those of ports, whose numbers are used again


def segments(pid: int | str) -> set[str]:
    """Segments of Fast DDS that a process has made: it holds their locks open."""
    found = set()
    with contextlib.suppress(OSError):  # it has ended
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                if lock := _LOCK.fullmatch(os.readlink(descriptor)):
                    found.add(lock[1])
    return found


def remove(paths: Iterable[str]) -> None:
    """Remove segments whose process has ended or is about to, and their locks."""
    for path in paths:
        for file in (f"{path}_el", path):
            with contextlib.suppress(OSError):  # removed already
                os.unlink(file)
