"""A trial that is run to be seen: it waits for its start on a page, and can be begun anew there."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from haptic_bench.experiment import Trial, write_resolved
from haptic_bench.running import namespaces, runner
from haptic_bench.running.graph import node_specs
from haptic_bench.running.runner import Interruption
from haptic_bench.running.viewing import Viewer, Viewing
from haptic_bench.trials.trial import conclude, new_directory
from haptic_sim.parameters import ParameterError

POLL = 0.2  # [s]


class _Wishes:
    """Requests of the page."""

    def __init__(self, interruption: Interruption):
        self._interruption = interruption
        self.reset, self.record = False, False

    def receive(self, line: str) -> None:
        """Take a line of the viewer."""
        if line == "reset":
            self.reset = True
            self._interruption.event.set()
        else:
            self.record = line == "record yes"


class _Run(Interruption):
    """The interruption of one run: by a signal to the program, or by a reset on the page."""

    def __init__(self, program: Interruption, wishes: _Wishes):
        super().__init__()
        self.event, self._program, self._wishes = program.event, program, wishes

    @property
    def count(self) -> int:
        """Signals, a reset being one."""
        return self._program.count + self._wishes.reset

    @count.setter
    def count(self, value: int) -> None:
        """Ignore the count."""


def run_viewed(
    trial: Trial,
    mode: str,
    interruption: Interruption,
    viewing: Viewing,
    *,
    composed: bool = False,
    namespace: str = "",
) -> int:
    """Run a trial under the control of its page until interrupted; returns the exit status.

    Args:
        trial: what to run.
        mode: lockstep or realtime.
        interruption: ends it.
        viewing: where the page is.
        composed, namespace: see `run_trial`.
    """
    trial = trial.in_mode(mode)
    experiment = trial.experiment
    wishes = _Wishes(interruption)
    with (
        namespaces.claim(
            namespace or experiment.namespace, exactly=bool(namespace), inside=experiment.hand_names
        ) as claimed,
        tempfile.TemporaryDirectory(prefix="haptics-view-") as scratch,
    ):
        write_resolved(trial, Path(scratch))
        with Viewer(viewing, Path(scratch), claimed, wishes.receive) as viewer:
            if problem := viewer.wait(interruption.event):
                raise ParameterError([f"the page cannot be shown: {problem}"])
            print(f"{viewer.address}  {experiment.name}, {mode}; Ctrl-C ends it", flush=True)
            while not interruption and not viewer.ended:
                _run_once(trial, mode, claimed, Path(scratch) / "trial", interruption, wishes, viewer, composed)
                while not interruption and not wishes.reset and not viewer.ended:
                    interruption.event.wait(POLL)
                    if not interruption:
                        interruption.event.clear()
                if wishes.reset:
                    wishes.reset = False
                    viewer.send_line(f"restart {'yes' if viewing.paused else 'no'}")
    return interruption.status if interruption else 1


def _run_once(
    trial: Trial,
    mode: str,
    claimed: str,
    directory: Path,
    interruption: Interruption,
    wishes: _Wishes,
    viewer: Viewer,
    composed: bool,
) -> None:
    """One run, which is kept if it has begun and that is asked for until its end."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    written = write_resolved(trial, directory)
    specs = node_specs(
        written,
        directory,
        mode=mode,
        composed=composed,
        progress=True,
        namespace=claimed.removeprefix("/"),
        paused=True,
    )
    outcome = runner.run(specs, directory, claimed, _Run(interruption, wishes))
    viewer.send_line("ended")
    if outcome.status == "failed":
        print(f"haptics: {outcome.reason}", file=sys.stderr, flush=True)
        viewer.send_line(f"state failed: {outcome.reason.splitlines()[0]}")
    begun = outcome.start_up is not None
    if not wishes.record or not begun or not (directory / "bag").is_dir():
        return
    kept = new_directory(None, trial.experiment.namespace)
    kept.rmdir()
    shutil.move(directory, kept)
    viewer.send_line(f"state writing {kept}")
    summary = conclude(written, mode, kept.resolve(), outcome, interruption)
    viewer.send_line(f"state {summary['status']}: {kept / 'report.html'}")
    print(f"{kept}: {summary['status']}, {summary['ticks']} ticks", flush=True)
