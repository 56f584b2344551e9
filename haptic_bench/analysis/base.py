"""The interface of all analyses, with defaults for experiments that have nothing of their own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from haptic_bench.analysis import ideal_device, tracking
from haptic_bench.analysis.claims import Findings, Quantity, Statement
from haptic_bench.analysis.figures import Curve, trial_figures
from haptic_bench.experiment import Experiment, Trial, analyses
from haptic_bench.recording.samples import MessageStore, Samples, of_trial
from haptic_bench.running import forks
from haptic_bench.running.offline import Sink, simulate
from haptic_drivers.devices.interface import DeviceError
from haptic_sim.contact.methods import Method
from haptic_sim.dynamics.energy import UnstableError
from haptic_sim.messages import MessageError
from haptic_sim.parameters import ParameterError, Parameters
from haptic_view.figures import Figure, Style

Scene = TypeVar("Scene", bound=Parameters)
Name = TypeVar("Name", bound=Hashable)


def scene_as(experiment: Experiment, kind: type[Scene]) -> Scene:
    """The scene of an experiment that `Analysis.check` has accepted, with its type.

    Raises:
        ParameterError: it is another.
    """
    scene = experiment.scene
    if not isinstance(scene, kind):
        raise ParameterError([f"scene.type = {scene.type}: is not a scene of analysis = {experiment.analysis}"])
    return scene


class Case(NamedTuple):
    """A trial, its samples, and those of its references by label."""

    trial: Trial
    samples: Samples
    references: Mapping[str, Samples]

    @property
    def run(self) -> tuple[Experiment, Samples]:
        """The experiment and its samples."""
        return self.trial.experiment, self.samples


def each(measure: Callable[[Samples], float | None], *runs: str) -> Callable[[Any], dict[str, float | None]]:
    """A `Statement.of` that measures some runs of a case, by name; None where one is missing."""

    def of(case: Any) -> dict[str, float | None]:
        known = case.references
        return {name: measure(known[name]) if name in known else None for name in runs}

    return of


class Analysis:
    """Defaults of all analyses: no metrics, no claims, the figures of any trial."""

    METRICS: ClassVar[Mapping[str, Quantity]] = {}
    CLAIMS: ClassVar[Sequence[Statement]] = ()
    OFFLINE_ONLY: ClassVar[bool] = False
    TAKES_POINTER: ClassVar[bool] = False
    """Whether the claims are about what a pointer does; else a trial with one is analysed as any trial."""
    SCENES: ClassVar[tuple[str, ...]] = ()
    """Types of the scenes that it is about; empty: any."""
    NEEDS: ClassVar[Mapping[str, str]] = {}
    """The type that it needs of other sections of an experiment, by their names."""
    METHODS: ClassVar[tuple[Method, ...]] = ()
    """Contact methods of what a trial is compared with."""

    def check(self, experiment: Experiment) -> list[str]:
        """Reasons why the analysis does not fit an experiment, one line each; empty if it does."""
        kind = experiment.scene.type
        fits = not self.SCENES or kind in self.SCENES
        lacking = [] if fits else [f"the scene {' or '.join(self.SCENES)}, not scene.type = {kind}"]
        for name, needed in self.NEEDS.items():
            given = getattr(experiment, name).type
            if given != needed:
                lacking.append(f"{name}.type = {needed}, not {given}")
        if fits:
            lacking += self.lacking(experiment)
        return [f"analysis = {experiment.analysis}: needs {one}; set analysis=trial" for one in lacking]

    def lacking(self, experiment: Experiment) -> Iterable[str]:
        """Conditions of the analysis that an experiment with its scene does not meet."""
        return ()

    def last_tick(self, experiment: Experiment) -> int:
        """N: ticks 0 to N are executed."""
        return experiment.last_tick

    def world_every(self, experiment: Experiment) -> int:
        """Number of ticks from one world state to the next; 0: there are none, as in an analysis without time."""
        return 0 if self.OFFLINE_ONLY else experiment.environment.publish_every(experiment.rate)

    def simulate(
        self,
        trial: Trial,
        sink: Sink,
        progress: Callable[[int], object] | None = None,
        stop: Callable[[], bool] | None = None,
        left_out: Callable[[int, int], object] | None = None,
    ) -> int:
        """Run a trial offline, as `haptic_bench.running.offline.simulate`."""
        return simulate(trial, sink, progress, stop, left_out)

    def beginning(self, trial: Trial) -> AbstractContextManager[None]:
        """Context of an offline trial, beside which the analysis computes what needs no samples; by default nothing."""
        return nullcontext()

    def run_unrecorded(self, trial: Trial) -> Samples:
        """The samples of an offline run in memory; an unstable run ends where it is detected (see `attempt`)."""
        return self.attempt(trial)[0]

    def run_all(self, trials: Mapping[Name, Trial]) -> dict[Name, Samples]:
        """The samples as of `run_unrecorded` of several trials by name, which run on all cores."""
        return dict(zip(trials, forks.on_cores(self.run_unrecorded, list(trials.values())), strict=True))

    def attempt(self, trial: Trial) -> tuple[Samples, str]:
        """The samples as of `run_unrecorded`, and why the run is unstable, empty if it is stable.

        An unstable variant thus ends only its own comparison early, as a trial that is cut short would. A local model
        raises `MessageError` at values that are not finite.
        """
        store, reason = MessageStore(), ""
        try:
            self.simulate(trial, store)
        except (UnstableError, DeviceError, MessageError) as error:
            reason = str(error)
        return self.samples(trial, store.messages), reason

    def samples(self, trial: Trial, messages: Mapping[str, Sequence[bytes]]) -> Samples:
        """The samples of a trial from its messages by topic, with the columns of this analysis."""
        samples = of_trial(trial, messages)
        return samples.with_columns(self.columns(trial, samples))

    def columns(self, trial: Trial, samples: Samples) -> Mapping[str, np.ndarray]:
        """Columns that the analysis adds to the samples, by name."""
        return {}

    def analyse(self, trial: Trial, samples: Samples, *, compare: bool = True) -> Findings:
        """Metrics and claims of a trial.

        Args:
            trial: what was run.
            samples: what came out, with the columns of this analysis; at least one row, may be shorter than planned.
            compare: simulate the references that claims need; without, claims are undecided.
        """
        variants, own = self.variants(trial, samples) if compare else {}, self.label(trial)
        simulated = self.run_all({name: one for name, one in variants.items() if name != own})
        return self.judge(trial, samples, {name: samples if name == own else simulated[name] for name in variants})

    def variants(self, trial: Trial, samples: Samples) -> Mapping[str, Trial]:
        """Trials that a trial is compared with, by label: simulated offline, but for its own (see `label`)."""
        return {}

    def judge(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> Findings:
        """Metrics and claims of a trial beside its references: the samples of `variants`, none without comparison."""
        case = self.case(trial, samples, references)
        metrics = {name: one.of(case) for name, one in self.METRICS.items() if one.of is not None}
        claims = [one.claim(case) for one in self.CLAIMS if one.of is not None]
        return Findings(metrics, claims, references)

    def case(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> Any:
        """Case that metrics and claims are computed from (`Quantity.of`, `Statement.of`)."""
        return Case(trial, samples, references)

    def label(self, trial: Trial) -> str | None:
        """Name in `Analysis.references` of the run that a trial is; None: it is none of those that are compared."""
        return None

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        """The figures of a trial of at least two rows, beside its references."""
        made = trial_figures([Curve("this run", trial, samples, Style())])
        return [*made, tracking.figure(trial, samples)] if tracking.is_tracked(trial.experiment) else made

    def sweep_figures(self, curves: Sequence[Curve]) -> list[Figure]:
        """The figures of several trials."""
        return trial_figures(curves)

    def quantity(self, name: str) -> Quantity | None:
        """Description and unit of a metric; None if the analysis has no such metric."""
        return self.METRICS.get(name)

    def claimed(self, name: str) -> Statement | None:
        """The statement of a claim; None if the analysis has no such claim."""
        return next((statement for statement in self.CLAIMS if statement.name == name), None)

    def expected(self, trial: Trial, findings: Findings) -> Mapping[str, tuple[float, str]]:
        """Theoretical values of metrics and their sources, by name."""
        return {}


def analysis_of(experiment: Experiment) -> Analysis:
    """The analysis that an experiment names.

    Raises:
        ParameterError: there is none of that name.
    """
    analysis: Analysis = analyses.find(experiment.analysis)
    return analysis


def analyse(trial: Trial, samples: Samples, *, compare: bool = True) -> Findings:
    """Analyse a trial, and with `compare` the effect of the trial's device: see `Analysis`."""
    analysis = analysis_of(trial.experiment)
    findings = analysis.analyse(trial, samples, compare=compare)
    own = analysis.label(trial)
    findings = replace(findings, claims=[claim.beside(findings.references, own) for claim in findings.claims])
    ideal = ideal_device.on_ideal_device(trial, samples) if compare and not analysis.OFFLINE_ONLY else None
    if ideal is None:
        return findings
    run = analysis.run_unrecorded(ideal).finite()
    if not len(run):
        return findings
    found = ideal_device.compare(trial, samples, findings, run, analysis.analyse(ideal, run))
    return replace(findings, device=found)
