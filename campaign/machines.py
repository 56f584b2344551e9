"""A machine that misbehaves: suspended, overloaded, its clocks set, its disk slow, or full at any write."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from campaign.cases import Outcome, end, faults_of, finish, left_over, processes, start, summary_of, undisturbed

KINDS = ("suspended", "overloaded", "wall clock", "ROS clock", "slow disk", "full disk")
TRIALS = ("corner_peg", "tight_hole", "delayed_wall")
MODES = (("lockstep",), ("lockstep",), ("realtime",), ("realtime", "--composed"))
SETTINGS = ("--duration", "3", "--set", "analysis=trial", "--quiet")
SPIN = "while True: pass"


def case(number: int, folder: Path) -> Outcome:
    """A trial on a machine that misbehaves from a random instant on."""
    rng = np.random.default_rng([7, number])
    kind = KINDS[int(rng.integers(len(KINDS)))]
    name, (mode, *options) = TRIALS[int(rng.integers(len(TRIALS)))], MODES[int(rng.integers(len(MODES)))]
    variables, tried = _variables(kind, rng)
    command = ("run", name, "--mode", mode, *options, *SETTINGS, "--out", "trial")
    if variables:
        variables |= {"LD_PRELOAD": str(_library(folder))}
    program = start(folder, *command, variables=variables)
    with _disturbance(kind, rng):
        ended = finish(program, folder)
    faults = [*faults_of(ended, {0, 1, 2} if kind == "full disk" else {0, 1}), *left_over()]
    summary, more = summary_of(folder / "trial")
    faults += more if kind != "full disk" else []  # it may be cut off
    if ended is not None and summary and (ended.status == 0) != (summary.get("status") == "done"):
        faults.append(f"exit status {ended.status} of a trial that is {summary.get('status')}")
    if mode == "lockstep" and kind != "full disk":
        if summary.get("status") != "done":
            faults.append(f"a lockstep trial is {summary.get('status')}: {summary.get('reason')}")
        elif (folder / "trial" / "samples.csv").read_bytes() != undisturbed(folder, name, *SETTINGS):
            faults.append("samples.csv differs from that of the same trial on a machine that behaves")
    if kind == "full disk" and (folder / "trial" / "bag").is_dir():
        faults += faults_of(finish(start(folder, "repair", "trial"), folder), {0, 1})
    return Outcome(f"{name} {mode} {' '.join(options)}: {kind}{tried}, {summary.get('status')}", faults)


def _variables(kind: str, rng: np.random.Generator) -> tuple[dict[str, str], str]:
    """Variables that `faults.c` gets, and the same in words."""
    if kind == "wall clock":
        at, step = rng.uniform(0.0, 6.0), float(rng.choice([-3600.0, -2.0, 2.0, 3600.0, 1e8]))
        return {"FAULT_CLOCK": f"{at:.3f} {step:g}"}, f" steps by {step:g} s after {at:.2f} s"
    if kind == "slow disk":
        delay = int(rng.integers(1, 200))
        return {"FAULT_SLOW": str(delay)}, f" takes {delay} ms for a write"
    if kind == "full disk":
        count = int(1000 ** rng.uniform())
        # Compiled modules are files, too, and would be cut off in the checkout.
        return {"FAULT_FULL": str(count), "PYTHONDONTWRITEBYTECODE": "1"}, f" from write {count} on"
    return {}, ""


def _library(folder: Path) -> Path:
    """`faults.c`, compiled."""
    made = folder / "faults.so"
    source = Path(__file__).with_name("faults.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(made), str(source), "-ldl"], check=True)
    return made


@contextlib.contextmanager
def _disturbance(kind: str, rng: np.random.Generator) -> Iterator[None]:
    """Disturbance beside the trial."""
    beside: list[subprocess.Popen[bytes]] = []
    try:
        if kind == "overloaded":
            beside += [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(2 * (os.cpu_count() or 1))]
        elif kind == "ROS clock":
            beside.append(subprocess.Popen([sys.executable, "-m", "campaign.leaps", str(int(rng.integers(1 << 30)))]))
        elif kind == "suspended":
            time.sleep(rng.uniform(0.0, 6.0))
            _suspend(rng.uniform(0.2, 4.0))
        yield
    finally:
        for process in beside:
            end(process)


def _suspend(pause: float) -> None:
    """Stop all processes of the case for a time [s]."""
    stopped = list(processes())
    for order in (signal.SIGSTOP, signal.SIGCONT):
        for number in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, order)
        if order == signal.SIGSTOP:
            time.sleep(pause)
