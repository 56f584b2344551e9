"""Processes that are killed, stopped and interrupted: the summary is true, the bag readable, and nothing is left."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

import numpy as np

from campaign.cases import DEADLINE, Outcome, faults_of, finish, left_over, processes, start, summary_of

TRIALS = (
    ("corner_peg", "offline"),
    ("corner_peg", "lockstep"),
    ("corner_peg", "realtime"),
    ("corner_peg", "realtime", "--composed"),
    ("tight_hole", "lockstep"),
    ("tight_hole", "realtime"),
    ("delayed_wall", "lockstep"),
    ("two_hands", "realtime"),
    ("robot_wall", "lockstep"),
    ("robot_wall", "realtime"),
)
ENDING = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP)
NO_MEMORY = 0.15  # part of the cases in which a process gets no more memory, instead of a signal
LATEST = 8.0  # [s] from the start of the program to the signal
SETTINGS = ("--set", "analysis=trial", "--quiet")  # without the references of an analysis


def case(number: int, folder: Path) -> Outcome:
    """A signal to a process of a trial at a random instant."""
    rng = np.random.default_rng([1, number])
    name, mode, *options = TRIALS[int(rng.integers(len(TRIALS)))]
    kind = ENDING[int(rng.integers(len(ENDING)))]
    duration = 1.0 if kind == signal.SIGSTOP else 3000.0
    at, pause = rng.uniform(0.0, LATEST), rng.uniform(0.05, 5.0)
    program = start(
        folder, "run", name, "--mode", mode, *options, "--duration", f"{duration:g}", *SETTINGS, "--out", "trial"
    )
    time.sleep(at)
    others = sorted(processes().keys() - {program.pid})
    starved = rng.uniform() < NO_MEMORY
    to_node = bool(others) and (starved or kind in (signal.SIGKILL, signal.SIGSTOP)) and rng.uniform() < 0.7
    target = others[int(rng.integers(len(others)))] if to_node else program.pid
    line = processes().get(target, "the program")
    what = "no more memory" if starved else kind.name
    tried = f"{name} {mode} {' '.join(options)}: {what} after {at:.2f} s to {line[:160] if to_node else 'the program'}"
    if starved:
        return Outcome(tried, _starve(target, program, folder))
    try:
        os.kill(target, kind)
        if kind == signal.SIGSTOP:
            time.sleep(pause)
            os.kill(target, signal.SIGCONT)
    except ProcessLookupError:
        tried += ", which had ended"
    if kind == signal.SIGKILL and to_node:
        return Outcome(tried, _of_node(program, folder))
    ended = finish(program, folder)
    allowed = {0, 1} if kind == signal.SIGSTOP else {-kind, 128 + kind}
    faults = [*faults_of(ended, allowed), *left_over(), *_of_directory(folder / "trial", whole=kind != signal.SIGKILL)]
    return Outcome(tried, faults)


def _starve(target: int, program: subprocess.Popen[str], folder: Path) -> list[str]:
    """Faults after a process could get no more memory: whatever it needs next fails, which ends it with a message.

    One that needs none goes on, as nothing is allocated in a servo step; the trial is then interrupted.
    """
    try:
        pages = int((Path("/proc") / str(target) / "statm").read_text().split()[0])
        size = pages * os.sysconf("SC_PAGE_SIZE")
        resource.prlimit(target, resource.RLIMIT_AS, (size, size))
    except (OSError, ProcessLookupError):
        return _of_node(program, folder)  # it has ended
    return _of_node(program, folder, {0, 1, 130})


def _of_node(program: subprocess.Popen[str], folder: Path, allowed: Collection[int] = ()) -> list[str]:
    """Faults after a process of a trial was killed: the trial must end by itself, and report it.

    Its exit status is one of `allowed`, where these are given.

    A process that only helps (a resource tracker) may end with no harm to the trial, which is then interrupted.
    """
    limit = time.monotonic() + 30.0
    while program.poll() is None and time.monotonic() < limit:
        time.sleep(0.1)
    goes_on = program.poll() is None
    if goes_on:
        program.send_signal(signal.SIGINT)
    ended = finish(program, folder)
    faults = [
        *faults_of(ended, set(allowed) or ({130} if goes_on else {1, 0})),
        *left_over(),
        *_of_directory(folder / "trial", whole=True),
    ]
    return faults


def _of_directory(directory: Path, *, whole: bool) -> list[str]:
    """Faults of the directory of a trial that has ended; one that is not `whole` is repaired first."""
    if not directory.is_dir() or not any(directory.iterdir()):
        return []
    summary, faults = summary_of(directory)
    if not whole and (directory / "experiment.yaml").is_file():
        repair = start(directory.parent, "repair", str(directory))
        faults += faults_of(finish(repair, directory.parent), {0, 1})
        summary, more = summary_of(directory)
        faults += more
    if summary.get("ticks") and summary.get("complete", True):
        faults += _unreadable(directory)
    return faults


def _unreadable(directory: Path) -> list[str]:
    """Faults of a program that loads a trial that was completed."""
    code = f"from haptic_bench import load_trial; print(len(load_trial({str(directory)!r}).samples))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=DEADLINE)
    return [] if done.returncode == 0 else [f"the trial cannot be loaded: {done.stderr[-500:].strip()}"]
