"""The end of a process that has used the middleware, and what Python lacks of Linux for it.

- `os._exit`. Reason: destructors of rmw_fastrtps and Fast DDS 2.14 (tested: ROS 2 Jazzy) may wait for ever for a lock
  in shared memory that a killed peer holds, and Python's own teardown of all modules outlasts the grace of a launch on
  a busy machine. Superfluous with a shutdown of rclpy that has a time limit.
- `prctl`, by ctypes. Reason: Python has no function for it. Superfluous with one in its module `os`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import NoReturn

from haptic_ros.middleware import fast_dds

_PR_SET_PDEATHSIG, _PR_SET_TIMERSLACK = 1, 29
_LINUX = sys.platform.startswith("linux")


def leave(status: int) -> NoReturn:
    """End this process at once, without any destructor; what they would remove is removed."""
    fast_dds.remove(fast_dds.segments("self"))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def die_with_parent() -> None:
    """Be ended by the kernel when the process that started this one is killed, if it asked for that."""
    parent = os.environ.get("HAPTICS_PARENT")
    if parent is None or not _LINUX:
        return
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if str(os.getppid()) != parent:
        sys.exit(1)


def sharpen_timers() -> bool:
    """Let the waits of the calling thread end within 1 ns of their time instead of 50 us; whether this system can."""
    if _LINUX:
        _prctl(_PR_SET_TIMERSLACK, 1)
    return _LINUX


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
