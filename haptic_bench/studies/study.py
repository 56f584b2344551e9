"""What all studies offer, with what serves where an experiment has nothing of its own."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from haptic_bench.analysis.figures import Curve, Figure, Style, trial_figures
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import MessageStore, Samples, of_trial
from haptic_bench.running.offline import Sink, simulate
from haptic_sim.dynamics.energy import UnstableError
from haptic_sim.parameters import ParameterError, Parameters


@dataclass(frozen=True)
class Quantity:
    """How a number is shown: what it is, and its unit, of which there are `scale` in the SI unit."""

    text: str
    unit: str = ""
    scale: float = 1.0


@dataclass(frozen=True)
class Statement:
    """A statement that a study judges, declared once: its name, its text, where it is published, what decides.

    `measured` says what the numbers are that decide.
    """

    name: str
    text: str
    source: str
    measured: Quantity

    def judged(self, measured: Mapping[str, float | None], holds: bool | None, reason: str = "") -> Claim:
        """What a trial says about it; `reason`: why it is undecided although it was measured."""
        return Claim(self.name, self.text, self.source, dict(measured), holds, reason if holds is None else "")


@dataclass(frozen=True)
class Claim:
    """A statement and what this trial says about it.

    `measured` are the numbers that decide; `holds` is None where they are not there (a trial too short, say), or where
    they are and do not decide: then `reason` says why.
    """

    name: str
    statement: str
    source: str
    measured: dict[str, float | None]
    holds: bool | None
    reason: str = ""

    def summary(self) -> dict[str, Any]:
        """As in summary.json, which has a reason where there is one."""
        return {name: value for name, value in asdict(self).items() if name != "reason" or value}


@dataclass(frozen=True)
class Analysis:
    """Metrics and claims of a trial.

    `references` are what the trial is compared with, by label: other variants of the experiment, simulated offline.
    """

    metrics: dict[str, float | None]
    claims: list[Claim] = field(default_factory=list)
    references: dict[str, Samples] = field(default_factory=dict)

    def summary(self) -> dict[str, Any]:
        """As in summary.json."""
        return {"metrics": self.metrics, "claims": [claim.summary() for claim in self.claims]}


Scene = TypeVar("Scene", bound=Parameters)


def scene_as(experiment: Experiment, kind: type[Scene]) -> Scene:
    """The scene of an experiment that `Study.check` has accepted, as what it is.

    Raises:
        ParameterError: it is another.
    """
    scene = experiment.scene
    if not isinstance(scene, kind):
        raise ParameterError([f"scene.type = {scene.type}: is not what analysis = {experiment.analysis} is about"])
    return scene


class Study:
    """What all studies have: no metrics, no claims, the figures of any trial."""

    METRICS: ClassVar[Mapping[str, Quantity]] = {}
    CLAIMS: ClassVar[Mapping[str, Quantity] | Sequence[Statement]] = ()
    OFFLINE_ONLY: ClassVar[bool] = False
    SCENES: ClassVar[tuple[str, ...]] = ()
    """Types of the scenes that it is about; empty: any."""

    def check(self, experiment: Experiment) -> list[str]:
        """What of an experiment this study cannot do, one line for each problem."""
        kind = experiment.scene.type
        if not self.SCENES or kind in self.SCENES:
            return []
        return [
            f"analysis = {experiment.analysis}: is about the scene {' or '.join(self.SCENES)}, not about scene.type = "
            f"{kind}; set analysis=trial"
        ]

    def last_tick(self, experiment: Experiment) -> int:
        """N: ticks 0 to N are executed."""
        return experiment.last_tick

    def world_every(self, experiment: Experiment) -> int:
        """Ticks from one world state to the next; 0: there are none, as of what is no trial in time."""
        return 0 if self.OFFLINE_ONLY else experiment.environment.publish_every(experiment.rate)

    def simulate(
        self,
        trial: Trial,
        sink: Sink,
        progress: Callable[[int], object] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> int:
        """Run a trial offline, as `haptic_bench.running.offline.simulate`."""
        return simulate(trial, sink, progress, stop)

    def run_unrecorded(self, trial: Trial) -> Samples:
        """The samples of an offline run in memory; of an unstable one, until it was found to be (see `attempt`)."""
        return self.attempt(trial)[0]

    def attempt(self, trial: Trial) -> tuple[Samples, str]:
        """The same, and why the run ended before its last tick: what `UnstableError` says, empty of one that did not.

        So a variant that is unstable ends its comparison early, as a trial that is cut short would, and no other.
        """
        store, reason = MessageStore(), ""
        try:
            self.simulate(trial, store)
        except UnstableError as error:
            reason = str(error)
        return self.samples(trial, store.messages), reason

    def samples(self, trial: Trial, messages: Mapping[str, Sequence[bytes]]) -> Samples:
        """The samples of a trial from its messages by topic, with the columns of this study."""
        samples = of_trial(trial, messages)
        return samples.with_columns(self.columns(trial, samples))

    def columns(self, trial: Trial, samples: Samples) -> Mapping[str, np.ndarray]:
        """What is added to the samples, by name."""
        return {}

    def analyse(self, trial: Trial, samples: Samples, *, compare: bool = True) -> Analysis:
        """Metrics and claims of a trial.

        Args:
            trial: what was run.
            samples: what came out, with the columns of this study; at least one row, may be shorter than planned.
            compare: simulate the references that claims need; without, claims are undecided.
        """
        return Analysis({})

    def figures(self, trial: Trial, samples: Samples, analysis: Analysis) -> list[Figure]:
        """The figures of a trial of at least two rows, beside its references."""
        made = trial_figures([Curve("this run", trial, samples, Style())])
        from haptic_bench.studies.common import tracking  # is made of what is declared here

        return [*made, tracking.figure(trial, samples)] if tracking.is_tracked(trial.experiment) else made

    def sweep_figures(self, curves: Sequence[Curve]) -> list[Figure]:
        """The figures of several trials."""
        return trial_figures(curves)

    def quantity(self, name: str) -> Quantity | None:
        """What a metric is; None if it is none of this study."""
        return self.METRICS.get(name)

    def claimed(self, name: str) -> Quantity | None:
        """What the numbers are that decide a claim; None if it is none of this study."""
        if isinstance(self.CLAIMS, Mapping):
            return self.CLAIMS.get(name)
        return next((statement.measured for statement in self.CLAIMS if statement.name == name), None)

    def expected(self, trial: Trial, analysis: Analysis) -> Mapping[str, tuple[float, str]]:
        """What theory says of metrics: the value and where it is from, by name."""
        return {}


def names() -> list[str]:
    """All studies; `trial` is for any experiment, and comes first."""
    modules = {path.stem for path in Path(__file__).parent.glob("*.py")} - {"__init__", "study", "trial"}
    return ["trial", *sorted(modules)]


def study_of(experiment: Experiment) -> Study:
    """The study that an experiment names.

    Raises:
        ParameterError: there is none of that name.
    """
    name = experiment.analysis
    if name not in names():
        raise ParameterError([f"analysis = {name}: must be one of {', '.join(names())}"])
    study: Study = importlib.import_module(f"haptic_bench.studies.{name}").STUDY
    return study
