"""A long trial: memory, files and threads of its processes stay as they are."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from campaign.cases import Outcome, faults_of, finish, left_over, processes, start

TRIALS = ("corner_peg", "tight_hole", "delayed_wall", "two_hands")
SETTLED, LONG = 25.0, 60.0  # [s] after the start: when they are first looked at, and last
GROWTH = 4e6  # [B] that a process may grow meanwhile
RECORDER = 40e6  # [B] for the index of what it has recorded


class Use(NamedTuple):
    """What a process has: resident memory [B], open files, threads."""

    memory: int
    files: int
    threads: int


def case(number: int, folder: Path) -> Outcome:
    """A minute of lockstep, which is far more ticks than any trial of the catalogue."""
    rng = np.random.default_rng([6, number])
    name = TRIALS[int(rng.integers(len(TRIALS)))]
    settings = ("--duration", "3000", "--set", "analysis=trial", "--quiet", "--out", "trial")
    program = start(folder, "run", name, "--mode", "lockstep", *settings)
    time.sleep(SETTLED)
    lines = processes()
    before = _uses(lines)
    time.sleep(LONG - SETTLED)
    after = _uses(lines)
    program.send_signal(signal.SIGINT)
    time.sleep(2.0)
    if program.poll() is None:
        program.send_signal(signal.SIGINT)  # leaves samples and page to `haptics report`
    faults = [*faults_of(finish(program, folder), {130}), *left_over()]
    for process, use in before.items():
        line = lines[process][-120:]
        if process not in after:
            faults.append(f"has ended: {line}")
            continue
        grown, allowed = after[process].memory - use.memory, RECORDER if "recorder" in line else GROWTH
        if grown > allowed:
            faults.append(
                f"grew by {grown / 1e6:.1f} MB in {LONG - SETTLED:g} s, allowed are {allowed / 1e6:g}: {line}"
            )
        if after[process].files > use.files + 2 or after[process].threads > use.threads + 2:
            faults.append(f"files and threads went from {use[1:]} to {after[process][1:]}: {line}")
    return Outcome(f"{name} lockstep, {LONG:g} s: {len(before)} processes", faults)


def _uses(numbers: dict[int, str]) -> dict[int, Use]:
    """What some processes have; without those that have ended."""
    found = {}
    for number in numbers:
        place = Path("/proc") / str(number)
        try:
            memory = int((place / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            found[number] = Use(memory, len(list((place / "fd").iterdir())), len(list((place / "task").iterdir())))
        except OSError:
            continue
    return found
