"""The function of the command export: recorded trials in the formats of other tools (docs/export.md)."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from haptic_bench.commands.command_line import DONE
from haptic_bench.recording.exports import FORMATS
from haptic_bench.recording.summary import read_summary
from haptic_bench.recording.tables import TrialTable, read_events, table_of
from haptic_bench.trials.recorded import load_trial
from haptic_bench.trials.trial import new_directory
from haptic_sim.parameters import ParameterError


def exported_table(directory: Path) -> TrialTable:
    """The table of a recorded trial.

    Raises:
        ParameterError: there is none, or it has no samples.
    """
    trial = load_trial(directory)
    if not len(trial.samples):
        raise ParameterError([f"{directory}: has no samples: nothing to export"])
    experiment, summary = trial.experiment, trial.summary
    metadata = {
        "experiment": experiment.name,
        "title": experiment.title or experiment.name,
        "rate": experiment.rate,
        **{key: summary.get(key) for key in ("mode", "status", "metrics", "versions")},
        "keys": experiment.model_dump(mode="json"),
    }
    return table_of(trial.samples, read_events(directory, experiment.rate), metadata)


def export(options: argparse.Namespace) -> int:
    """`haptics export DIR --format FORMAT --out OUT`."""
    given = Path(options.directory)
    summary = read_summary(given)
    runs = [given / run["directory"] for run in summary["sweep"]["runs"]] if "sweep" in summary else [given]
    tables = [exported_table(run) for run in runs]
    out = new_directory(options.out, f"{summary['experiment']}-{options.format}")
    try:
        FORMATS[options.format](tables, out)
    except BaseException:  # nothing half written is left behind
        shutil.rmtree(out, ignore_errors=True)
        raise
    print(out)
    return DONE
