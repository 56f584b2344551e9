"""What a trial showed: metrics, and the published claims beside what was measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from haptic_bench.experiment import Trial
from haptic_bench.samples import Samples


@dataclass(frozen=True)
class Claim:
    """A published statement and what this trial says about it.

    `measured` are the numbers that decide; `holds` is None where they are not there (a trial too short, say).
    """

    name: str
    statement: str
    source: str
    measured: dict[str, float | None]
    holds: bool | None


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
        return {"metrics": self.metrics, "claims": [asdict(claim) for claim in self.claims]}


def analyse(trial: Trial, samples: Samples, *, compare: bool = True) -> Analysis:
    """Metrics and claims of a trial by the analysis that its experiment names.

    Args:
        trial: what was run.
        samples: what came out; may be shorter than planned.
        compare: simulate the references that claims need; without, claims are undecided.
    """
    if trial.experiment.analysis == "corner_peg":
        from haptic_bench import corner_peg

        return corner_peg.analyse(trial, samples, compare=compare)
    return Analysis({})
