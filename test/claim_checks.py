"""Samples altered so that a person would feel it wrong, for tests of what makes a claim fail."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from haptic_bench import experiment
from haptic_bench.analysis.base import analysis_of
from haptic_bench.analysis.claims import Statement
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments.common.local_models import LocalModelAnalysis

POSE = ("px", "py", "pz", "qx", "qy", "qz", "qw")
TWIST = ("vx", "vy", "vz", "wx", "wy", "wz")
COORDINATES = r"[qv]\d+"  # of the tool


def load(name: str, *settings: str) -> Trial:
    """The only trial of an experiment."""
    (trial,) = experiment.load(name, settings)
    return trial


class Run:
    """A trial that was simulated in memory."""

    def __init__(self, name: str, *settings: str):
        self.trial = load(name, *settings)
        self.analysis = analysis_of(self.trial.experiment)
        self.samples = self.analysis.run_unrecorded(self.trial)

    def holds(self, samples: Samples | None = None, *, compare: bool = False) -> dict[str, bool | None]:
        """What the analysis says of its claims, by name, of samples that were altered."""
        return holds(self.trial, self.samples if samples is None else samples, compare=compare)


class Compared:
    """A trial of a local model and the runs that its analysis compares it with, simulated in memory."""

    def __init__(self, name: str, *settings: str):
        self.trial = load(name, *settings)
        analysis = analysis_of(self.trial.experiment)
        assert isinstance(analysis, LocalModelAnalysis)
        self.analysis, self.runs = analysis, analysis.runs(self.trial, analysis.run_unrecorded(self.trial))

    def holds(self, **other: Samples) -> dict[str, bool | None]:
        """What the analysis says of its claims, by name, with other samples of some of the runs."""
        return {claim.name: claim.holds for claim in self.analysis.claims(self.trial, self.runs | other)}


def holds(trial: Trial, samples: Samples, *, compare: bool = False) -> dict[str, bool | None]:
    """What an analysis says of its claims, by name, with its columns made from the samples as they are."""
    analysis = analysis_of(trial.experiment)
    samples = samples.with_columns(analysis.columns(trial, samples))
    return {claim.name: claim.holds for claim in analysis.analyse(trial, samples, compare=compare).claims}


def names(statements: Iterable[Statement]) -> list[str]:
    """Of the claims that an analysis declares."""
    return [statement.name for statement in statements]


def columns_of(samples: Samples, body: str) -> list[str]:
    """State of `tool` or `hand`; the tool's coordinates are of its state."""
    state = [f"{body}_{name}" for name in (*POSE, *TWIST)]
    return state + [name for name in samples.names if body == "tool" and re.fullmatch(COORDINATES, name)]


def lagging(samples: Samples, body: str, ticks: int) -> Samples:
    """A body whose state comes so many ticks late."""
    late = {name: np.concatenate([[samples[name][0]] * ticks, samples[name][:-ticks]])
            for name in columns_of(samples, body)}  # fmt: skip
    return samples.with_columns(late)


def frozen(samples: Samples, body: str, time: float, ticks: int = 1) -> Samples:
    """A body that stays in its state for some ticks, from `time` [s] on, and then goes on from where it was."""
    row = int(np.searchsorted(samples["time"], time))
    stay = np.concatenate([np.arange(row), np.full(ticks, row), np.arange(row, len(samples) - ticks)])
    return samples.with_columns({name: samples[name][stay] for name in columns_of(samples, body)})


def changed(samples: Samples, **by: np.ndarray | float) -> Samples:
    """With something added to columns."""
    return samples.with_columns({name: samples[name] + more for name, more in by.items()})


def scaled(samples: Samples, factor: np.ndarray | float, *names: str) -> Samples:
    """With columns multiplied."""
    return samples.with_columns({name: samples[name] * factor for name in names})
