"""Offline runs in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from haptic_bench.analysis.base import Analysis, analysis_of
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples


def run_unrecorded(trial: Trial) -> Samples:
    """The samples of an offline run, with the columns of the analysis that the experiment names."""
    return analysis_of(trial.experiment).run_unrecorded(trial)


@contextmanager
def simulated_once(*functions: tuple[Any, str]) -> Iterator[None]:
    """Let analyses simulate equal trials once, and give the same samples, which are then read-only, each time.

    Args:
        functions: others that make samples of a trial, each as the module or class that has it and its name.
    """
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in ((Analysis, "run_unrecorded"), *functions):
            patch.setattr(owner, name, _remembered(getattr(owner, name)))
        yield


def _remembered(function: Callable[..., Samples]) -> Callable[..., Samples]:
    known: dict[tuple[Any, ...], Samples] = {}

    def remembered(*arguments: Any) -> Samples:
        key = tuple(_content(one) if isinstance(one, Trial) else one for one in arguments)
        if key not in known:
            known[key] = samples = function(*arguments)
            for name in samples.names:
                samples[name].flags.writeable = False
        return known[key]

    return remembered


def _content(trial: Trial) -> tuple[str, bytes]:
    """What a trial's samples depend on."""
    return trial.experiment.model_dump_json(), b"" if trial.table is None else trial.table.tobytes()
