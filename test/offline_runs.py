"""Offline runs in memory."""

from __future__ import annotations

from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_bench.studies import study_of


def run_unrecorded(trial: Trial) -> Samples:
    """The samples of an offline run, with the columns of the study that the experiment names."""
    return study_of(trial.experiment).run_unrecorded(trial)
