"""Sweeps: the trials of an experiment over lists of values, one after the other or in parallel on workers.

The directory of a sweep holds a directory for each run, `summary.json`, `sweep.csv` and one report over all runs.
Summary and table are written again after every run, so that an interrupted sweep can be resumed.
"""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from haptic_bench.analysis.base import analysis_of
from haptic_bench.experiment import Trial, resolved
from haptic_bench.recording import trial_bag
from haptic_bench.recording.summary import is_complete, read_summary, runs_of, write_summary
from haptic_bench.report import pages
from haptic_bench.running.runner import Interruption
from haptic_bench.running.viewing import Viewing
from haptic_bench.trials import workers
from haptic_bench.trials.trial import progress_bar, run_trial
from haptic_sim.parameters import ParameterError

Summaries = dict[str, dict[str, Any]]
"""Summaries of the runs that have ended, by label."""


def run_all(
    trials: Sequence[Trial],
    mode: str,
    directory: Path,
    interruption: Interruption,
    quiet: bool,
    *,
    composed: bool = False,
    namespace: str = "",
    jobs: int = 1,
    scheduler: str = "",
    resume: bool = False,
    side: str = "",
    viewing: Viewing | None = None,
) -> list[dict[str, Any]]:
    """Run one trial, or each of a sweep in its own directory, and report; returns the summaries in their order.

    Args:
        trials: what to run; those of a sweep have labels.
        mode: see `run_trial`, also for `composed`, `namespace`, and for `side` and `viewing`, which are for one trial.
        directory: exists.
        interruption: ends it early; what is finished is kept.
        quiet: no progress.
        jobs: how many run side by side on this machine.
        scheduler: of Dask workers elsewhere, its address or its file; empty: there are none.
        resume: what is finished in the directory is kept.
    """
    ticks = {one.label: analysis_of(one.experiment).last_tick(one.experiment) + 1 for one in trials}
    first = trials[0]
    if not first.label:
        with progress_bar(ticks[""], first.experiment.name, quiet) as show:
            made = run_trial(
                first,
                mode,
                directory,
                interruption,
                show,
                composed=composed,
                namespace=namespace,
                side=side,
                viewing=viewing,
            )
            return [made]

    summaries = finished(trials, mode, directory) if resume else {}
    due = [one for one in trials if one.label not in summaries]
    _clear(directory, due)
    _write(directory, trials, mode, summaries, "interrupted")
    with progress_bar(sum(ticks.values()), first.experiment.name, quiet) as show:
        count = _Count(show, ticks, summaries)
        if jobs > 1 or scheduler:
            runs = workers.run(due, mode, directory, interruption, jobs=jobs, scheduler=scheduler)
        else:
            runs = _one_by_one(due, mode, directory, interruption, count, composed=composed, namespace=namespace)
        for label, summary in runs:
            summaries[label] = summary
            count.ended(label)
            _write(directory, trials, mode, summaries, "interrupted")
    offer = f"{directory}: writing the page of the sweep (Ctrl-C again to leave that to `./haptics report {directory}`)"
    interruption.run_interruptibly(lambda: write_report(directory, trials, mode, summaries), offer)
    return [summaries[one.label] for one in trials if one.label in summaries]


class _Count:
    """The ticks that are done of all runs together."""

    def __init__(self, show: Callable[[int], object] | None, ticks: Mapping[str, int], finished: Summaries):
        self._show, self._ticks = show, ticks
        self._done = sum(ticks[label] for label in finished)
        self(0)

    def __call__(self, ticks: int) -> None:
        """Show ticks of the present run."""
        if self._show is not None:
            self._show(self._done + ticks)

    def ended(self, label: str) -> None:
        """Count a run as done."""
        self._done += self._ticks[label]
        self(0)


def _one_by_one(
    trials: Sequence[Trial],
    mode: str,
    directory: Path,
    interruption: Interruption,
    show: Callable[[int], object],
    *,
    composed: bool,
    namespace: str,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run trials in this process; labels and summaries."""
    for one in trials:
        if interruption:
            return
        target = directory / one.folder
        target.mkdir()
        summary = run_trial(one, mode, target, interruption, show, composed=composed, namespace=namespace)
        yield one.label, summary
        if "results" in summary:  # the disk is full: the next would not fare better
            return


def finished(trials: Sequence[Trial], mode: str, directory: Path) -> Summaries:
    """Summaries of the trials that are done in a sweep's directory: the same experiment, the bag as it was recorded."""
    found = {}
    for one in trials:
        folder = directory / one.folder
        with suppress(ParameterError, OSError, UnicodeDecodeError):
            summary = read_summary(folder)
            same = all(
                (folder / name).read_text(encoding="utf-8") == text
                for name, text in resolved(one.in_mode(mode)).items()
            )
            bag = summary.get("bag")
            done = (summary["status"], summary["mode"]) == ("done", mode) and is_complete(summary)
            if done and same and isinstance(bag, dict) and bag and not trial_bag.damage(folder, bag):
                found[one.label] = summary
    return found


def check_resumable(directory: Path, trials: Sequence[Trial]) -> None:
    """Refuse to resume in a directory that is not that of a sweep of the same experiment.

    Raises:
        ParameterError: see above.
    """
    if not trials[0].label:
        raise ParameterError(["--resume: is for sweeps; give a list of values for a key, or leave --resume out"])
    if not directory.is_dir() or not any(directory.iterdir()):
        return
    summary = read_summary(directory)
    name = trials[0].experiment.name
    if "sweep" not in summary or summary.get("experiment") != name:
        raise ParameterError([f"--resume: {directory}: is not the directory of a sweep of {name}"])


def _clear(directory: Path, trials: Sequence[Trial]) -> None:
    """Remove what earlier attempts at these trials left."""
    for one in trials:
        folder = directory / one.folder
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise ParameterError([f"{folder}: is not the directory of a run; move it away"])
        if folder.exists():
            if any(folder.iterdir()) and not (folder / "experiment.yaml").is_file():
                raise ParameterError([f"{folder}: is not the directory of a run; move it away"])
            shutil.rmtree(folder)


def _write(directory: Path, trials: Sequence[Trial], mode: str, summaries: Summaries, status: str) -> None:
    """Write summary.json and sweep.csv of a sweep."""
    ended = [one for one in trials if one.label in summaries]
    failed = sum(summaries[one.label]["status"] == "failed" for one in ended)
    reason = f"{failed} of {len(trials)} runs failed" if failed else ""
    keys = [key for key, _ in trials[0].varied]
    runs = [{"label": one.label, "directory": one.folder} for one in ended]
    write_summary(
        directory,
        {
            "experiment": trials[0].experiment.name,
            "mode": mode,
            "status": status,
            **({"reason": reason} if reason else {}),
            "planned": len(trials),
            "sweep": {"keys": keys, "runs": runs},
        },
    )
    rows = [(dict(one.varied), summaries[one.label]) for one in ended]
    (directory / "sweep.csv").write_text(table(keys, rows), encoding="utf-8")


def write_table(directory: Path, summary: Mapping[str, Any]) -> None:
    """Write sweep.csv anew where there is one, as a run may have been completed since.

    Raises:
        ParameterError: it is not that of the sweep.
    """
    path, runs = directory / "sweep.csv", runs_of(directory, summary)
    if not path.is_file():
        return
    keys = [str(key) for key in summary["sweep"].get("keys", ())]
    with path.open(encoding="utf-8", newline="") as file:
        rows = [dict(zip(keys, row, strict=False)) for row in csv.reader(file)][1:]
    if len(rows) != len(runs) or any(len(row) != len(keys) for row in rows):
        raise ParameterError([f"{path}: has {len(rows)} rows of runs, summary.json names {len(runs)}; move it away"])
    found = [read_summary(folder) for folder in runs.values()]
    path.write_text(table(keys, list(zip(rows, found, strict=True))), encoding="utf-8")


def table(keys: Sequence[str], runs: Sequence[tuple[Mapping[str, str], Mapping[str, Any]]]) -> str:
    """A row a run as CSV: the values of the keys, `status`, metrics; empty where a run has none.

    Args:
        keys: that were varied.
        runs: values of the keys, as in the label, and the summary.
    """
    metrics = list(dict.fromkeys(name for _, summary in runs for name in summary.get("metrics", {})))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*keys, "status", *metrics])
    for values, summary in runs:
        found = summary.get("metrics", {})
        numbers = ["" if found.get(name) is None else found[name] for name in metrics]
        writer.writerow([*(values[key] for key in keys), summary["status"], *numbers])
    return text.getvalue()


def write_report(directory: Path, trials: Sequence[Trial], mode: str, summaries: Summaries) -> None:
    """Write the summary, the table and the report of a sweep."""
    states = [summary["status"] for summary in summaries.values()]
    whole = len(summaries) == len(trials) and "interrupted" not in states
    _write(directory, trials, mode, summaries, "failed" if "failed" in states else "done" if whole else "interrupted")
    if summaries:
        pages.write(directory)
