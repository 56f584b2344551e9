"""Trials for programs: run a trial, or load a recorded one, with its samples as arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from haptic_bench import experiment as experiments
from haptic_bench.analysis.base import analysis_of
from haptic_bench.experiment.settings import plain
from haptic_bench.recording.samples import Samples
from haptic_bench.recording.summary import is_complete, read_summary
from haptic_bench.running.runner import Interruption
from haptic_bench.trials import trial as trials
from haptic_bench.trials.judgement import judge
from haptic_sim import inputs
from haptic_sim.parameters import ParameterError


@dataclass(frozen=True)
class RecordedTrial:
    """A trial that was run.

    Attributes:
        experiment: all keys, as they were.
        summary: the content of summary.json: metrics, claims, and where it was run the timing and versions.
        samples: columns by name, a row a tick; `docs/architecture.md` says what a row is.
        directory: where it was left; None if it was run in memory.
    """

    experiment: experiments.Experiment
    summary: dict[str, Any]
    samples: Samples
    directory: Path | None = None

    def __repr__(self) -> str:
        """One line that says what was run, and where it was left."""
        place = "in memory" if self.directory is None else str(self.directory)
        return f"RecordedTrial({self.experiment.name}, {self.status}, {len(self.samples)} rows, {place})"

    @property
    def status(self) -> str:
        """`done`, `interrupted` or `failed`."""
        return str(self.summary["status"])

    @property
    def metrics(self) -> dict[str, float | None]:
        """Metrics by name; None where the trial was too short for one."""
        return dict(self.summary["metrics"])

    @property
    def claims(self) -> list[dict[str, Any]]:
        """Statements that the trial helps to decide, what was measured, and whether they hold."""
        return list(self.summary["claims"])

    @property
    def references(self) -> list[dict[str, Any]]:
        """Statements that other variants alone decide, as `claims`."""
        return list(self.summary["references"])

    def to_dataframe(self) -> Any:
        """The samples as a pandas DataFrame, with the time [s] as its index; needs pandas."""
        try:
            import pandas  # type: ignore[import-untyped]  # optional, and without types of its own
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "to_dataframe needs pandas, which is not installed: pip install pandas"
            ) from error

        return pandas.DataFrame({name: self.samples[name] for name in self.samples.names}).set_index("time")


def run(
    experiment: str | os.PathLike[str] | Mapping[str, Any],
    settings: Mapping[str, Any] | None = None,
    *,
    duration: float | None = None,
    mode: str = "offline",
    out: str | os.PathLike[str] | None = None,
) -> RecordedTrial:
    """Run one trial of an experiment.

    Args:
        experiment: name of one of the catalogue, path of a YAML file, or its content.
        settings: values by dotted key, as in {"contact.stiffness": 2000.0}.
        duration: length [s]; the experiment's if left out.
        mode: `offline`, or with ROS 2 `lockstep` or `realtime`.
        out: new or empty directory for bag, samples, summary and report; without it an offline trial is run in memory,
            and another leaves a directory under ./trials/.

    Returns:
        The trial; one that failed too: see its `status` and `summary["reason"]`.

    Raises:
        ParameterError: bad input, one line for each problem; nothing was started.
    """
    if mode not in trials.MODES:
        raise ParameterError([f"mode = {mode}: must be one of {', '.join(trials.MODES)}"])
    loaded = load_one(experiment, settings or {}, duration)
    if mode == "offline" and out is None:
        return _run_in_memory(loaded)
    directory = trials.new_directory(None if out is None else os.fspath(out), loaded.experiment.namespace)
    trials.run_trial(loaded, mode, directory, Interruption())  # not entered: signals are the program's own affair
    return load_trial(directory)


def load_one(
    experiment: str | os.PathLike[str] | Mapping[str, Any], settings: Mapping[str, Any], duration: float | None = None
) -> experiments.Trial:
    """The trial of an experiment; arguments and errors as of `run`."""
    if not isinstance(experiment, Mapping):
        inputs.require_path("experiment", experiment)
    inputs.require_mapping("settings", settings)
    loaded, *others = _load(experiment, settings, duration)
    if others:
        raise ParameterError(["settings: a list of values sweeps, one trial a value: that is for `haptics run`"])
    return loaded


def _load(
    experiment: str | os.PathLike[str] | Mapping[str, Any], settings: Mapping[str, Any], duration: float | None
) -> list[experiments.Trial]:
    pairs = dict(settings) if duration is None else {**settings, "duration": duration}
    if isinstance(experiment, Mapping):
        document = plain({"name": "experiment", **experiment})
        return experiments.load_document(document, Path("experiment.yaml"), pairs)
    return experiments.load(os.fspath(experiment), pairs)


def _run_in_memory(loaded: experiments.Trial) -> RecordedTrial:
    analysis = analysis_of(loaded.experiment)
    samples, reason = analysis.attempt(loaded)
    judged = judge(loaded, samples, "failed" if reason else "done", reason)
    summary = {
        "experiment": loaded.experiment.name,
        "mode": "offline",
        **judged.summary({"ticks": len(samples)}),
    }
    return RecordedTrial(loaded.experiment, summary, samples)


def load_trial(directory: str | os.PathLike[str]) -> RecordedTrial:
    """The trial in a directory that a run has left.

    Raises:
        ParameterError: there is none, or it is a sweep's.
    """
    inputs.require_path("directory", directory)
    folder = Path(directory)
    summary = read_summary(folder)
    if "sweep" in summary:
        runs = ", ".join(run["directory"] for run in summary["sweep"]["runs"])
        raise ParameterError([f"{folder}: is the directory of a sweep; load one of its trials: {runs}"])
    if not is_complete(summary):
        raise ParameterError([f"{folder}: was closed without samples; `haptics report {folder}` writes them"])
    loaded = experiments.read_resolved(folder / "experiment.yaml")
    try:
        samples = Samples.read_csv(folder / "samples.csv")
    except (OSError, ValueError) as error:
        raise ParameterError([f"{folder / 'samples.csv'}: cannot be read: {error}"]) from error
    return RecordedTrial(loaded.experiment, summary, samples, folder.resolve())
