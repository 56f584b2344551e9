"""Shared memory that Fast DDS leaves, and the names of its threads; standard library only.

Tested: Fast DDS 2.14 (ROS 2 Jazzy). With another middleware nothing is found, and nothing is done.

- Files in shared memory. Reason: only a destructor removes the segment of a process, so one that is killed, or that
  ends without destructors, leaves half a MB until the next start of the system. Superfluous when Fast DDS removes the
  segments of processes that have ended.
- Ports in shared memory. Reason: a process that is killed while it makes one leaves a file for which each later process
  waits for ever when it makes a node. Superfluous when Fast DDS does not wait for a process that has ended.
- Names of threads. Reason: a message waits for the thread that delivers it before any node sees it, and ROS 2 cannot
  give that thread a priority or a core. Superfluous when ROS 2 offers settings of these threads.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path

SHARED = Path("/dev/shm")
DELIVERS = re.compile(r"dds\.(shm|udp|tcp)\.\d")
"""Names of threads that deliver; not `dds.shm.wdog`, which looks after shared memory once a second."""
_LOCK = re.compile(rf"({SHARED}/fastrtps_[0-9a-f]+)_el")  # not those of ports, whose numbers are used again
_PORT = re.compile(r"fastrtps_port\d+")
_MADE = 2  # first word of a segment that boost has made; before, it is less
MAKING = 2.0  # [s] that making one takes at most; it takes less than a millisecond
_SEGMENT = re.compile(r"(fastrtps_[0-9a-f]+)(_el)?")  # nor here


def segments(pid: int | str) -> set[str]:
    """Segments that a process has made: it holds their locks open."""
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


def remove_unfinished_ports() -> list[str]:
    """Remove the ports that a process has begun to make and not finished, before it was killed; their names."""
    unfinished = []
    with contextlib.suppress(OSError):  # a system without such a folder
        for entry in os.scandir(SHARED):
            if _PORT.fullmatch(entry.name):
                with contextlib.suppress(OSError):  # removed meanwhile, or another user's
                    with open(entry.path, "rb") as file:
                        state = int.from_bytes(file.read(4), sys.byteorder)
                    if state < _MADE and abs(time.time() - entry.stat().st_mtime) > MAKING:
                        os.unlink(entry.path)
                        unfinished.append(entry.name)
    return unfinished


def stale_segments() -> list[str]:
    """Names of files of segments whose process has ended.

    A segment is in use as long as its lock file is locked, and the other files as long as a process has them mapped.
    """
    locked = set()
    with contextlib.suppress(OSError):
        locked = set(re.findall(r"\b[0-9a-f]+:[0-9a-f]+:(\d+)\b", Path("/proc/locks").read_text(errors="replace")))
    used = _mapped()
    stale = []
    for entry in os.scandir(SHARED):
        if found := _SEGMENT.fullmatch(entry.name):
            try:
                is_used = str(os.stat(SHARED / f"{found[1]}_el").st_ino) in locked
            except OSError:
                is_used = False
            if not is_used and str(entry.inode()) not in used:
                stale.append(entry.name)
    return sorted(stale)


def _mapped() -> set[str]:
    """Inodes of segments that processes have mapped, as far as they may be seen."""
    inodes: set[str] = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            with open(folder / "maps", encoding="utf-8", errors="replace") as file:
                inodes |= {line.split()[4] for line in file if "/dev/shm/fastrtps_" in line}
        except OSError:  # it has ended, or is another user's
            continue
    return inodes
