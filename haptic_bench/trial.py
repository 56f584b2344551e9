"""A trial from its experiment to its report: run, record, sample, analyse."""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from haptic_bench import bag, runner
from haptic_bench.experiment import Trial, write_resolved
from haptic_bench.runner import Interruption, Outcome
from haptic_bench.samples import Samples
from haptic_bench.studies import Analysis, study_of
from haptic_bench.trial_bag import TrialBag, read_messages, versions
from haptic_sim.parameters import ParameterError

MODES = ("offline", "lockstep", "realtime")


def new_directory(out: str | None, name: str) -> Path:
    """The directory of a trial, made and empty; without `out` a new one under ./trials/.

    Raises:
        ParameterError: `out` is a file, is not empty or cannot be made.
    """
    if out is None:
        stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
        for suffix in ("", *(f"-{i}" for i in range(2, 1000))):
            path = Path("trials") / f"{name}-{stamp}{suffix}"
            with contextlib.suppress(FileExistsError):
                _make(path, exist_ok=False)
                return path
        raise ParameterError([f"trials/{name}-{stamp}: is taken, up to -999"])
    path = Path(out)
    if path.exists() and not path.is_dir():
        raise ParameterError([f"--out {out}: is a file; must be a new or empty directory"])
    _make(path, exist_ok=True)
    if any(path.iterdir()):
        raise ParameterError([f"--out {out}: is not empty; must be a new or empty directory"])
    return path


def _make(path: Path, exist_ok: bool) -> None:
    try:
        path.mkdir(parents=True, exist_ok=exist_ok)
    except FileExistsError:
        raise
    except OSError as error:
        raise ParameterError([f"--out {path}: cannot be made: {error.strerror}"]) from error


def run_trial(
    trial: Trial,
    mode: str,
    directory: Path,
    interruption: Interruption,
    show: Callable[[int], object] | None = None,
    *,
    composed: bool = False,
) -> dict[str, Any]:
    """Run a trial in an empty directory and leave everything of it there; returns the summary.

    Args:
        trial: what to run.
        mode: one of MODES.
        directory: exists and is empty.
        interruption: ends the trial early; what was recorded is kept and summarised.
        show: called with the number of ticks done.
        composed: run the servo path of the graph in one process.
    """
    directory = directory.resolve()
    if mode != "offline" and study_of(trial.experiment).OFFLINE_ONLY:
        raise ParameterError([f"--mode {mode}: {trial.experiment.name} is no trial in time; it runs offline only"])
    if mode == "offline":
        outcome = run_offline(trial, directory, interruption, show)
    else:
        outcome = run_graph(trial, mode, directory, interruption, show, composed=composed)
    return conclude(trial, mode, directory, outcome)


def run_graph(
    trial: Trial,
    mode: str,
    directory: Path,
    interruption: Interruption,
    show: Callable[[int], object] | None,
    *,
    composed: bool = False,
) -> Outcome:
    """Run and record a trial as the ROS graph; arguments as for `run_trial`."""
    from haptic_bench.graph import node_specs

    experiment = write_resolved(trial, directory)
    specs = node_specs(experiment, directory, mode=mode, composed=composed, progress=True)
    return runner.run(specs, directory, experiment.namespace, interruption, show)


def run_offline(
    trial: Trial, directory: Path, interruption: Interruption, show: Callable[[int], object] | None
) -> Outcome:
    """Run and record a trial in this process; arguments as for `run_trial`."""
    experiment = write_resolved(trial, directory)
    schedule = experiment.environment.schedule(experiment.rate) if experiment.asynchronous else None
    study = study_of(experiment)
    called = time.monotonic()
    book = TrialBag(directory, experiment.namespace, experiment.rate, schedule, alone=experiment.alone)
    started = time.monotonic()
    finished = False
    try:
        done = study.simulate(trial, book.add, show, lambda: bool(interruption))
        finished = done > study.last_tick(experiment)
    finally:
        book.close("finished" if finished else "interrupted", book.complete)
    status = "done" if finished else "interrupted"
    return Outcome(status, "", started - called, time.monotonic() - started)


def conclude(trial: Trial, mode: str, directory: Path, outcome: Outcome) -> dict[str, Any]:
    """Write samples.csv, summary.json and the report from a trial's bag; returns the summary."""
    from haptic_bench import report

    if outcome.status != "done" and (directory / "bag").is_dir():
        with contextlib.suppress(bag.BagError):  # nothing was recorded yet
            bag.repair(directory / "bag")
    samples = read_samples(trial, directory)
    samples.write_csv(directory / "samples.csv")
    analysis, status, reason = Analysis({}), outcome.status, outcome.reason
    diverged = samples.not_finite()
    # Of what diverges, the last numbers may be too large for any figure.
    overflow: Literal["ignore"] | None = None if diverged is None else "ignore"
    if diverged is not None:
        name, row = diverged
        status = "failed"
        reason = reason or f"diverged: {name} is not finite from tick {samples['tick'][row]} on"
    finite = samples.finite()
    if len(finite):
        try:
            with np.errstate(all=overflow):
                analysis = study_of(trial.experiment).analyse(trial, finite, compare=status == "done")
        except RuntimeError as error:  # the ideal reference gave up
            reason = reason or f"not analysed: {error}"
    summary: dict[str, Any] = {
        "experiment": trial.experiment.name,
        "mode": mode,
        "status": status,
        **({"reason": reason} if reason else {}),
        "ticks": len(samples),
        "wall_time": outcome.wall_time,
        **analysis.summary(),
        "timing": {"start_up": outcome.start_up, **_measured(directory)},
        "machine": machine(),
        "versions": versions(),
    }
    summary = _finite(summary)
    write_summary(directory, summary)
    with np.errstate(all=overflow):
        report.write(directory, analysis)
    return summary


def _measured(directory: Path) -> dict[str, Any]:
    """What the driver measured in realtime; nothing in the other modes."""
    try:
        return dict(json.loads((directory / "timing.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}


def read_samples(trial: Trial, directory: Path) -> Samples:
    """The samples of a trial from its bag; empty if there is none."""
    try:
        messages = read_messages(directory)
    except bag.BagError:
        messages = {}
    return study_of(trial.experiment).samples(trial, messages)


def read_summary(directory: Path) -> dict[str, Any]:
    """The summary of a trial or of a sweep.

    Raises:
        ParameterError: there is none, or it is not one.
    """
    path = directory / "summary.json"
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ParameterError([f"{path}: cannot be read: {error.strerror}; is this a trial's directory?"]) from error
    except ValueError as error:
        raise ParameterError([f"{path}: not JSON: {error}"]) from error
    if not isinstance(summary, dict):
        raise ParameterError([f"{path}: must be a mapping"])
    return summary


def write_summary(directory: Path, summary: dict[str, Any]) -> None:
    """Write summary.json."""
    text = json.dumps(summary, indent=2, allow_nan=False, ensure_ascii=False)
    (directory / "summary.json").write_text(text + "\n", encoding="utf-8")


def _finite(value: Any) -> Any:
    """A value with null in place of numbers that are not finite, which JSON does not know."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def machine() -> dict[str, Any]:
    """What a measurement was made on."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
    }


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@contextlib.contextmanager
def progress_bar(total: int, title: str, quiet: bool) -> Iterator[Callable[[int], object] | None]:
    """A function that shows the number of ticks done; None unless the error output is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm

    with tqdm(total=total, desc=title, unit=" ticks", leave=False, dynamic_ncols=True) as bar:
        yield lambda done: bar.update(min(done, total) - bar.n)


def run_all(
    trials: Sequence[Trial],
    mode: str,
    directory: Path,
    interruption: Interruption,
    quiet: bool,
    *,
    composed: bool = False,
) -> list[dict[str, Any]]:
    """Run one trial, or each of a sweep in its own directory, and report; returns the summaries."""
    from haptic_bench import report

    summaries = []
    for trial in trials:
        if interruption:
            break
        target = directory / trial.label if trial.label else directory
        target.mkdir(exist_ok=True)
        title = trial.label or trial.experiment.name
        with progress_bar(study_of(trial.experiment).last_tick(trial.experiment) + 1, title, quiet) as show:
            summaries.append(run_trial(trial, mode, target, interruption, show, composed=composed))
    if trials[0].label:
        runs = [{"label": trial.label, "directory": trial.label} for trial in trials[: len(summaries)]]
        keys = [part.partition("=")[0] for part in trials[0].label.split(",") if "=" in part]
        write_summary(
            directory,
            {
                "experiment": trials[0].experiment.name,
                "mode": mode,
                "status": "done" if len(summaries) == len(trials) else "interrupted",
                "sweep": {"keys": keys, "runs": runs},
            },
        )
        report.write(directory)
    return summaries
