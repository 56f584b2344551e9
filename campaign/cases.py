"""A case: one thing that is tried, with the random numbers of its own number, and what was wrong with its end."""

from __future__ import annotations

import contextlib
import ctypes
import json
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from haptic_bench.set_up import failures
from haptic_bench.set_up.failures import hold_signals
from haptic_ros.middleware.fast_dds import SHARED, remove, segments, stale_segments

DEADLINE = 240.0  # [s] that a program may take: it decides nothing but a hang
GRACE = 10.0  # [s] in which what a case has started ends by itself
_PR_SET_CHILD_SUBREAPER = 36

COMMAND = (sys.executable, "-m", "haptic_bench")
STATUSES = {"done", "failed", "interrupted"}


class Outcome(NamedTuple):
    """Outcome of a case: what was tried, the faults, a line each, how many things were tried, and the measurements."""

    tried: str
    faults: list[str]
    things: int = 1
    figures: dict[str, float | str] = {}  # noqa: RUF012 (nobody writes into it)


Case = Callable[[int, Path], Outcome]
"""A case by its number, in an empty folder."""


class Ended(NamedTuple):
    """A program that has ended: its status (negative: the signal that killed it), and what it said."""

    status: int
    out: str
    err: str


def start(
    folder: Path,
    *arguments: str,
    before: Callable[[], object] | None = None,
    variables: Mapping[str, str] | None = None,
) -> subprocess.Popen[str]:
    """Start `haptics ARGUMENTS` in a folder, with more environment variables; `before` is called in the new process.

    Signals wait until the program takes them, as where ./haptics starts it.
    """

    def prepare() -> None:
        hold_signals()
        if before is not None:
            before()

    environment = {**os.environ, **(variables or {})}
    with (folder / "out.txt").open("w") as out, (folder / "err.txt").open("w") as err:
        return subprocess.Popen(
            [*COMMAND, *arguments], cwd=folder, env=environment, stdout=out, stderr=err, text=True, preexec_fn=prepare
        )


class Fork:
    """`python -m MODULE ARGUMENTS` in a folder, with its output in out.txt and err.txt, or in one file that is named.

    It is a process of its own, forked from this one, which has imported what the program needs and loaded its kernels:
    that takes most of the time of a case. To be made before any thread; its use is that of subprocess.Popen.

    Args:
        folder: where it works.
        output: name of the file there that takes all that it says; empty: the two above.
        session: whether it has a session of its own.
    """

    def __init__(self, folder: Path, module: str, *arguments: str, output: str = "", session: bool = False):
        outputs = (output, output) if output else ("out.txt", "err.txt")
        for name in outputs:
            (folder / name).touch()  # also of one that is killed before it does anything
        self._process = multiprocessing.get_context("fork").Process(
            target=_run_program, args=(folder, module, arguments, outputs, session)
        )
        before = signal.pthread_sigmask(signal.SIG_BLOCK, failures.ENDING)
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, when it has ended.

        Raises:
            TimeoutExpired: it has not ended in time [s].
        """
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, if it still runs."""
        self.send_signal(signal.SIGKILL)


def _run_program(folder: Path, module: str, arguments: Sequence[str], outputs: tuple[str, str], session: bool) -> None:
    """Become a program in a fork: signals reach it from now on as one that was started."""
    from setproctitle import setproctitle

    if session:
        os.setsid()
    os.chdir(folder)
    for descriptor, name in enumerate(outputs, 1):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, descriptor)
        os.close(file)
    # A fork of a fork drops these objects of its own, which must not close what takes their place.
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    sys.argv = [module, *arguments]
    setproctitle(" ".join([sys.executable, "-m", module, *arguments]))
    for number in failures.ENDING:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    failures.release_signals()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def finish(process: subprocess.Popen[str] | Fork, folder: Path) -> Ended | None:
    """Wait for the end of a program that `start` has started, or of a `Fork`; None if it does not end."""
    try:
        status = process.wait(DEADLINE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None
    return Ended(
        status, (folder / "out.txt").read_text(errors="replace"), (folder / "err.txt").read_text(errors="replace")
    )


def undisturbed(folder: Path, name: str, *settings: str) -> bytes:
    """samples.csv of a trial that nothing disturbs, whose bits are those of any lockstep trial.

    Raises:
        RuntimeError: it is not done.
    """
    own = folder / "undisturbed"
    own.mkdir()
    ended = finish(start(own, "run", name, "--mode", "offline", *settings, "--out", "trial"), own)
    if ended is None or ended.status != 0:
        raise RuntimeError(f"{name} undisturbed: {ended}")
    return (own / "trial" / "samples.csv").read_bytes()


def faults_of(ended: Ended | None, allowed: set[int]) -> Iterator[str]:
    """Faults of the end of a program that may have some statuses."""
    if ended is None:
        yield f"hangs: has not ended after {DEADLINE:g} s"
        return
    if ended.status not in allowed:
        yield f"exit status {ended.status}: must be one of {sorted(allowed)}: {ended.err[-300:].strip()}"
    if "Traceback" in ended.err or "an error of haptics" in ended.err:
        yield f"a traceback: {ended.err[-1500:].strip()}"


def summary_of(directory: Path) -> tuple[dict[str, Any], list[str]]:
    """The summary of a trial, empty if there is none, and what is wrong with it."""
    path = directory / "summary.json"
    if not path.exists():
        return {}, []
    try:
        summary = json.loads(path.read_text())
    except ValueError as error:
        return {}, [f"summary.json cannot be read: {error}"]
    faults = []
    if summary.get("status") not in STATUSES:
        faults.append(
            f"summary.json has status = {summary.get('status')}: must be one of {', '.join(sorted(STATUSES))}"
        )
    if summary.get("status") == "failed" and not summary.get("reason"):
        faults.append("summary.json has status = failed without a reason")
    return summary, faults


def adopt() -> None:
    """Become the parent of all that the processes of this case leave, whatever session they are in.

    From now on, segments in shared memory that they make are noted.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    threading.Thread(target=_note_segments, daemon=True).start()


_segments: set[str] = set()  # of processes of this case


def _note_segments() -> None:
    while True:
        for number in processes():
            _segments.update(segments(number))
        time.sleep(0.1)


def end(process: subprocess.Popen[Any]) -> None:
    """Kill a process that is no part of what is tried, and remove what it leaves in shared memory."""
    made = segments(process.pid)
    process.kill()
    process.wait()
    remove(made)
    _segments.difference_update(made)


def processes() -> dict[int, str]:
    """Processes that this one has started, or that they have: command lines by number."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            if entry.name.isdigit():
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if state != "Z":
                    parents[int(entry.name)] = int(parent)
    found: dict[int, str] = {}
    new = [os.getpid()]
    while new:
        new = [number for number, parent in parents.items() if parent in new]
        for number in new:
            with contextlib.suppress(OSError):
                found[number] = (
                    (Path("/proc") / str(number) / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                )
    return found


def left_over() -> Iterator[str]:
    """Processes that a case has left, which are ended, and files in shared memory."""
    limit = time.monotonic() + GRACE
    while (left := processes()) and time.monotonic() < limit:
        time.sleep(0.1)
    for number, line in left.items():
        yield f"process {number} is left: {line[:200]}"
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    for name in stale_segments():
        if str(SHARED / name).removesuffix("_el") in _segments:
            yield f"{SHARED / name} is left, of a process that has ended"
            with contextlib.suppress(OSError):
                (SHARED / name).unlink()
