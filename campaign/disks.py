"""A disk that is full at a random byte: one line that says so, and what was recorded can be read."""

from __future__ import annotations

import resource
import signal
from pathlib import Path

import numpy as np

from campaign.cases import Outcome, faults_of, finish, left_over, start, summary_of

MOST = 2e6  # [B] that a file may have
TRIALS = (("corner_peg", "offline"), ("corner_peg", "lockstep"), ("delayed_wall", "offline"), ("crank", "offline"))


def case(number: int, folder: Path) -> Outcome:
    """A trial whose files may not grow beyond a random size."""
    rng = np.random.default_rng([2, number])
    name, mode = TRIALS[int(rng.integers(len(TRIALS)))]
    size = int(100.0 * (MOST / 100.0) ** rng.uniform())

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write then fails, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    settings = ("--set", "analysis=trial", "--quiet", "--duration", "1", "--out", "trial")
    # Compiled modules are files, too, and would be cut off in the checkout.
    variables = {"PYTHONDONTWRITEBYTECODE": "1"}
    ended = finish(start(folder, "run", name, "--mode", mode, *settings, before=limit, variables=variables), folder)
    faults = [*faults_of(ended, {0, 1, 2}), *left_over()]
    directory = folder / "trial"
    summary, _ = summary_of(directory)  # may be cut off by the limit
    if summary.get("status") == "done" and ended is not None and ended.status != 0:
        faults.append(f"exit status {ended.status} of a trial that is done")
    if (directory / "bag").is_dir() and ended is not None and ended.status == 1:
        faults += faults_of(finish(start(folder, "repair", "trial"), folder), {0, 1})
    return Outcome(f"{name} {mode}: files of at most {size} B", faults)
