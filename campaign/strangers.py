"""Other programs on the network: foreign messages, wrong types and parameters leave a trial's bits as they are."""

from __future__ import annotations

import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np

from campaign.cases import Outcome, faults_of, finish, left_over, start, summary_of

TRIALS = ("corner_peg", "tight_hole", "delayed_wall")
SETTINGS = ("--mode", "lockstep", "--duration", "6", "--set", "analysis=trial", "--quiet")


def case(number: int, folder: Path) -> Outcome:
    """A trial in lockstep while a stranger publishes on its topics and sets its parameters."""
    rng = np.random.default_rng([4, number])
    name = TRIALS[int(rng.integers(len(TRIALS)))]
    expected = _undisturbed(name, folder)
    namespace = f"campaign_{number}"
    stranger = subprocess.Popen([sys.executable, "-m", "campaign.stranger", namespace, str(number)])
    try:
        program = start(folder, "run", name, *SETTINGS, "--namespace", namespace, "--out", "trial")
        ended = finish(program, folder)
    finally:
        stranger.send_signal(signal.SIGKILL)
        stranger.wait()
    faults = [*faults_of(ended, {0, 1}), *left_over()]
    summary, more = summary_of(folder / "trial")
    faults += more
    if summary.get("status") == "done" and (folder / "trial" / "samples.csv").read_bytes() != expected:
        faults.append("samples.csv differs from that of the same trial without a stranger")
    if summary.get("status") == "failed" and "foreign publisher" not in summary.get("reason", ""):
        faults.append(f"the reason does not name the stranger: {summary.get('reason')}")
    end = f"{summary.get('status')} {summary.get('reason', '')}"
    return Outcome(f"{name} lockstep beside a stranger: {end}", faults)


@cache
def _undisturbed(name: str, folder: Path) -> bytes:
    """The samples of a trial that nobody disturbs."""
    (folder / "alone").mkdir()
    ended = finish(start(folder / "alone", "run", name, *SETTINGS, "--out", "trial"), folder / "alone")
    if ended is None or ended.status != 0:
        raise RuntimeError(f"{name} alone: {ended}")
    return (folder / "alone" / "trial" / "samples.csv").read_bytes()
