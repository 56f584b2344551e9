"""Other programs on the network: foreign messages, wrong types and parameters leave a trial's bits as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from campaign.cases import Outcome, end, faults_of, finish, left_over, start, summary_of, undisturbed

TRIALS = ("corner_peg", "tight_hole", "delayed_wall")
MODES = (("lockstep",), ("lockstep",), ("realtime",), ("realtime", "--composed"))
SETTINGS = ("--duration", "6", "--set", "analysis=trial", "--quiet")


def case(number: int, folder: Path) -> Outcome:
    """A trial while a stranger publishes on its topics and sets its parameters, from before its start or later."""
    rng = np.random.default_rng([4, number])
    name, mode = TRIALS[int(rng.integers(len(TRIALS)))], MODES[int(rng.integers(len(MODES)))]
    namespace = f"campaign_{number}"
    stranger = subprocess.Popen([sys.executable, "-m", "campaign.stranger", namespace, str(number)])
    try:
        program = start(folder, "run", name, "--mode", *mode, *SETTINGS, "--namespace", namespace, "--out", "trial")
        ended = finish(program, folder)
    finally:
        end(stranger)
    faults = [*faults_of(ended, {0, 1}), *left_over()]
    summary, more = summary_of(folder / "trial")
    faults += more
    compared = summary.get("status") == "done" and mode[0] == "lockstep"
    if compared and (folder / "trial" / "samples.csv").read_bytes() != undisturbed(folder, name, *SETTINGS):
        faults.append("samples.csv differs from that of the same trial without a stranger")
    if summary.get("status") == "failed" and "foreign publisher" not in summary.get("reason", ""):
        faults.append(f"the reason does not name the stranger: {summary.get('reason')}")
    how = f"{summary.get('status')} {summary.get('reason', '')}"
    return Outcome(f"{name} {' '.join(mode)} beside a stranger: {how}", faults)
