"""End of a program of haptics: its exit statuses, the end by a signal, and the end by an error.

Standard library only, because it is imported first.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import resource
import signal
import sys
from typing import Any, NoReturn

DONE, FAILED, BAD_INPUT = 0, 1, 2
"""Exit statuses of a program; one that a signal ends has 128 and the number of that."""
ENDING = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "terminal closed"}
"""The signals that end a program, whose exit status is then 128 and their number, and how that is said."""

groups: set[int] = set()
"""Process groups that end with this program."""

LEAST_MEMORY = 680
"""Address space that the imports of a command take [MiB]; with less, libraries end the process in their own words."""


def end_at_signals() -> None:
    """Let the ending signals end this process at once from now on, whatever it does.

    For a program that has not begun anything. What was held back until now counts too.
    """
    _open_streams()
    for number in heeded():
        signal.signal(number, _end)
    release_signals()


def heeded() -> list[signal.Signals]:
    """The ending signals that end this program: after nohup not that of the terminal."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [number for number in ENDING if not (ignored and number == signal.SIGHUP)]


def leave(status: int) -> NoReturn:
    """End this program when all is done, without Python's teardown of what was imported and compiled: 0.4 s of a run.

    What is registered for the end is called. Python ends the program in its own way where that does more: it waits for
    other threads, destroys what the middleware has open, and lets a profiler write its results.
    """
    import atexit
    import threading

    waits = any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread())
    if waits or "rclpy" in sys.modules or sys.getprofile() is not None or sys.gettrace() is not None:
        sys.exit(status)
    atexit._run_exitfuncs()
    unwritable()
    os._exit(status)


def hold_signals() -> None:
    """Let the ending signals wait until this program releases them, or the one that it becomes."""
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)


def release_signals() -> None:
    """Let the ending signals come, those that were held back first."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def _end(number: int, frame: object) -> NoReturn:
    """End the process, without an exception: an import that one cuts short may look like a broken package."""
    with contextlib.suppress(Exception):  # a second signal within it, or a stream that is closed
        sys.stdout.flush()
    for group in groups:
        with contextlib.suppress(OSError):  # which has ended
            os.killpg(group, signal.SIGKILL)
    with contextlib.suppress(OSError):
        line = "\n" if groups else ""  # of progress
        os.write(2, f"{line}haptics: {ENDING[signal.Signals(number)]}\n".encode())
    os._exit(128 + number)


def _open_streams() -> None:
    """Open standard streams that are closed, so that no file of ours takes their number; writing to one fails."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_RDWR), number)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))
    raw = _Unfailing(2, "w", closefd=False)
    raw.under = sys.stderr  # which closes the file when nobody has it any more
    sys.stderr = io.TextIOWrapper(io.BufferedWriter(raw), sys.stderr.encoding, "backslashreplace", line_buffering=True)


class _Unfailing(io.FileIO):
    """Standard error: what cannot be written there is dropped, as nothing that is done depends on it."""

    under: object = None

    def write(self, data: Any, /) -> int:
        """Write bytes; returns their number, also of those that were dropped."""
        try:
            return super().write(data)
        except OSError:
            return len(data)


def unwritable(text: str = "") -> str:
    """Write `text` to standard output and flush it; the error if that fails, after which all output is dropped."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python would fail with it when it ends
        return str(error.strerror)
    return ""


def notify(text: str) -> None:
    """Write a line for the user to standard error."""
    print(f"haptics: {text}", file=sys.stderr, flush=True)


def memory_limit(below: float = math.inf) -> str:
    """The limit on the memory of this process, if it is `below` so many MiB, in words; empty if there is none."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY or limit >= below * 2**20:
        return ""
    return f"memory is limited to {limit / 2**20:.0f} MiB (ulimit -v)"


def report(error: BaseException, arguments: Any = ()) -> str:
    """Write the details of an error that should not have been to a file; the line that tells the user."""
    kind = type(error).__name__
    reason = " ".join(f"{kind}: {error}".rstrip(": ").split())[:300]
    reason = "".join(c if c.isprintable() else "?" for c in reason).encode("utf-8", "replace").decode()
    try:
        path = _write_details(error, arguments)
    except OSError as full:
        last = error.__traceback__
        while last is not None and last.tb_next is not None:
            last = last.tb_next
        place = "" if last is None else f" in {last.tb_frame.f_code.co_filename}, line {last.tb_lineno}"
        return f"{reason}{place}; no file of details could be written: {full.strerror}"
    except Exception:  # without memory no module can be imported, and what fails then may be anything
        return f"{reason}; {memory_limit() or 'no memory is left'}; no details could be written"
    return f"{reason}; {memory_limit() or 'an error of haptics, not of yours'}; details: {path}"


def _write_details(error: BaseException, arguments: Any) -> str:
    """Write a file with the details of an error; its path."""
    import platform
    import tempfile
    import time
    import traceback

    try:
        frames = traceback.format_exception(type(error), error, error.__traceback__, limit=-40)
    except MemoryError:  # it reads the sources
        frames = []
    details = [
        f"time: {time.strftime('%Y-%m-%d %H:%M:%S %z')}",
        f"arguments: {[str(argument)[:1000] for argument in list(arguments)[:100]]!r}",
        f"python: {sys.version} ({sys.executable})",
        f"system: {platform.platform()}",
        "",
        *(frame.rstrip()[:4000] for frame in frames),
        "",
    ]
    handle, path = tempfile.mkstemp(prefix="haptics-error-", suffix=".txt")
    with open(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write("\n".join(details))
    return path
