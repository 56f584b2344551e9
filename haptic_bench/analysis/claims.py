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
class DeviceComparison:
    """A trial beside the same one on the ideal device; pairs are of the trial's device and of the ideal one.

    Attributes:
        quantities: what is measured of every such trial, by name: its description, and a pair of values.
        metrics, claims: pairs of the study's, by name.
        ideal: samples of the trial on the ideal device.
    """

    quantities: dict[str, tuple[Quantity, float | None, float | None]]
    metrics: dict[str, tuple[float | None, float | None]]
    claims: dict[str, tuple[bool | None, bool | None]]
    ideal: Samples

    def summary(self) -> dict[str, Any]:
        """As in summary.json."""

        def named(pair: tuple[Any, Any]) -> dict[str, Any]:
            return dict(zip(("device", "ideal"), pair, strict=True))

        values = {name: (own, other) for name, (_, own, other) in self.quantities.items()} | self.metrics
        return {
            "metrics": {name: named(pair) for name, pair in values.items()},
            "claims": {name: named(pair) for name, pair in self.claims.items()},
        }


@dataclass(frozen=True)
class Analysis:
    """Metrics and claims of a trial.

    `references` are what the trial is compared with, by label: other variants of the experiment, simulated offline.
    `device` is what its device changes, None if that is the ideal one.
    """

    metrics: dict[str, float | None]
    claims: list[Claim] = field(default_factory=list)
    references: dict[str, Samples] = field(default_factory=dict)
    device: DeviceComparison | None = None

    def summary(self) -> dict[str, Any]:
        """As in summary.json."""
        found: dict[str, Any] = {"metrics": self.metrics, "claims": [claim.summary() for claim in self.claims]}
        return found if self.device is None else {**found, "ideal_device": self.device.summary()}
