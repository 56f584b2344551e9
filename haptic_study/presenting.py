"""Presentation of an interval offline: the experiment with the interval's settings, and what came out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from haptic_bench.analysis.base import analyse, analysis_of
from haptic_bench.recording.samples import Samples
from haptic_bench.running.runner import Interruption
from haptic_bench.trials.recorded import load_trial
from haptic_bench.trials.trial import run_trial
from haptic_sim.errors import HapticsError
from haptic_study.file import Study


class PresentationError(HapticsError):
    """The trial of an interval has failed."""


class Presented(NamedTuple):
    """Result of an interval.

    Attributes:
        samples: of the trial.
        metrics: of its analysis; empty where none were asked for.
        duration: of the trial [s].
    """

    samples: Samples
    metrics: Mapping[str, Any]
    duration: float


def present(
    study: Study, settings: Mapping[str, Any], directory: Path | None = None, *, metrics: bool = False
) -> Presented:
    """Run an interval offline.

    Args:
        study: whose experiment is run.
        settings: of the interval.
        directory: that holds the trial afterwards, which exists and is empty; None: nothing is written.
        metrics: whether those of the analysis are needed.

    Raises:
        ParameterError: a setting is refused.
        PresentationError: the trial has failed.
    """
    trial = study.trial(settings).in_mode("offline")
    if directory is not None:
        summary = run_trial(trial, "offline", directory, Interruption())
        if summary["status"] != "done":
            raise PresentationError(f"{directory}: {summary.get('reason') or summary['status']}")
        recorded = load_trial(directory)
        return Presented(recorded.samples, recorded.metrics, trial.experiment.duration)
    samples, reason = analysis_of(trial.experiment).attempt(trial)
    if reason:
        raise PresentationError(f"experiment of study {study.name} with {dict(settings)}: {reason}")
    found = analyse(trial, samples.finite(), compare=False).metrics if metrics else {}
    return Presented(samples, found, trial.experiment.duration)
