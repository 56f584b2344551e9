"""Results of an analysis: metrics and claims, with the texts by which they are shown.

A study declares each metric as a `Quantity` and each claim as a `Statement`, once. `Statement.judged` makes the `Claim`
of a trial, and an `Analysis` holds the metrics and claims of one trial.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from haptic_bench.recording.samples import Samples


@dataclass(frozen=True)
class Quantity:
    """How a number is shown: its description, and its unit, `scale` of which are the SI unit."""

    text: str
    unit: str = ""
    scale: float = 1.0


@dataclass(frozen=True)
class Statement:
    """A statement that a study judges, declared once: its name, its text, its source, the quantity that decides it.

    `measured` says what the numbers are that decide.
    """

    name: str
    text: str
    source: str
    measured: Quantity

    def judged(self, measured: Mapping[str, float | None], holds: bool | None, reason: str = "") -> Claim:
        """The claim of a trial; `reason`: why it is undecided although it was measured."""
        return Claim(self.name, self.text, self.source, dict(measured), holds, reason if holds is None else "")


@dataclass(frozen=True)
class Claim:
    """A statement, and whether it holds for a trial.

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
