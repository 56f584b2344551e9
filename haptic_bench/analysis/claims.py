"""Results of an analysis: metrics and claims, with the texts by which they are shown.

An analysis declares each metric as a `Quantity` and each claim as a `Statement`, once. `Statement.judged` makes the
`Claim` of a trial, and `Findings` hold the metrics and claims of one trial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from haptic_bench.recording.samples import Samples


def _plain(value: Any) -> Any:
    """A number of NumPy as one of Python, which JSON takes."""
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class Quantity:
    """A number: its description, its unit, `scale` of which are the SI unit, and how it is measured.

    Attributes:
        of: the number of a case (see `Analysis.case`), None where it is not known; without, `Analysis.judge` has it.
    """

    text: str
    unit: str = ""
    scale: float = 1.0
    of: Callable[[Any], float | None] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Statement:
    """A statement that an analysis judges, declared once: its name, its text, its source, the quantity that decides it.

    Attributes:
        measured: what the numbers are that decide. Numbers that are all named "row, column" are shown as a table.
        criterion: what they must be, in short, which the report shows beside the verdict.
        of_instability: whether it is about a trial that diverges: then it is judged although the trial has failed.
        of: the numbers of a case (see `Analysis.case`) that decide, by name; without, `Analysis.judge` has the claim.
        holds: whether it holds, by these numbers, if all are known.
        when: whether a case can decide it.
        unless: why a case does not decide it although it was measured; empty: it does.
        runs: names of the runs that decide it, where the numbers have other names than their runs.
    """

    name: str
    text: str
    source: str
    measured: Quantity
    criterion: str = ""
    of_instability: bool = False
    of: Callable[[Any], Mapping[str, float | None]] | None = field(default=None, repr=False, compare=False)
    holds: Callable[[dict[str, float]], bool] = field(default=bool, repr=False, compare=False)
    when: Callable[[Any], bool] = field(default=lambda case: True, repr=False, compare=False)
    unless: Callable[[Any], str] = field(default=lambda case: "", repr=False, compare=False)
    runs: Sequence[str] = ()

    def claim(self, case: Any) -> Claim:
        """The claim of a case, by `of`, `holds`, `when` and `unless`; undecided while a number is missing."""
        assert self.of is not None
        measured, reason = self.of(case), self.unless(case)
        known = {name: value for name, value in measured.items() if value is not None}
        complete = bool(measured) and len(known) == len(measured) and not reason and self.when(case)
        return self.judged(measured, bool(self.holds(known)) if complete else None, reason, self.runs)

    def judged(
        self, measured: Mapping[str, float | None], holds: bool | None, reason: str = "", decided_by: Iterable[str] = ()
    ) -> Claim:
        """The claim of a trial.

        Args:
            measured: see Claim.
            holds: see Claim.
            reason: why it is undecided although it was measured.
            decided_by: see Claim; empty: the names of `measured`.
        """
        reason, names = reason if holds is None else "", frozenset(decided_by or measured)
        found = {name: _plain(one) for name, one in measured.items()}
        return Claim(self.name, self.text, self.source, found, _plain(holds), reason, names, self.of_instability)

    def decided(
        self, measured: Mapping[str, float | None], holds: Callable[[dict[str, float]], bool], decidable: bool = True
    ) -> Claim:
        """The claim of a trial that all of `measured` decide together; undecided while one of them is missing."""
        known = {name: value for name, value in measured.items() if value is not None}
        complete = decidable and bool(measured) and len(known) == len(measured)
        return self.judged(measured, bool(holds(known)) if complete else None)


@dataclass(frozen=True)
class Claim:
    """A statement, and whether it holds for a trial.

    Attributes:
        measured: the numbers that decide.
        holds: None where they are not there (a trial too short, say), or where they are and do not decide.
        reason: why they do not.
        decided_by: names of the numbers that decide; where runs are compared, those of the runs.
        of_instability: see `Statement`.
        reference: whether only other runs decide it, of which the trial is none: it says nothing of this trial.
    """

    name: str
    statement: str
    source: str
    measured: dict[str, float | None]
    holds: bool | None
    reason: str = ""
    decided_by: frozenset[str] = frozenset()
    of_instability: bool = False
    reference: bool = False

    def summary(self) -> dict[str, Any]:
        """Entry of the claim in summary.json, which has a reason where there is one."""
        left_out = {"decided_by", "of_instability", "reference", *(() if self.reason else ("reason",))}
        return {name: value for name, value in asdict(self).items() if name not in left_out}

    def beside(self, runs: Iterable[str], own: str | None) -> Claim:
        """The same, which is a reference if only `runs` decide it, by name, of which the trial is `own`, or none."""
        only_runs = bool(self.decided_by) and self.decided_by <= {*runs, own}
        return replace(self, reference=only_runs and own not in self.decided_by)

    def undecided(self, reason: str) -> Claim:
        """The same, undecided for a reason."""
        return replace(self, holds=None, reason=reason)

    def of_failed(self, reason: str) -> Claim:
        """The claim of a trial that has failed: undecided, unless it is about that, or about other runs."""
        if self.of_instability or self.reference:
            return self
        return self.undecided(f"the trial failed: {reason}")


@dataclass(frozen=True)
class DeviceComparison:
    """A trial beside the same one on the ideal device; pairs are of the trial's device and of the ideal one.

    Attributes:
        quantities: what is measured of every such trial, by name: its description, and a pair of values.
        metrics, claims: pairs of the analysis's, by name.
        ideal: samples of the trial on the ideal device.
    """

    quantities: dict[str, tuple[Quantity, float | None, float | None]]
    metrics: dict[str, tuple[float | None, float | None]]
    claims: dict[str, tuple[bool | None, bool | None]]
    ideal: Samples

    def summary(self) -> dict[str, Any]:
        """Entry of the comparison in summary.json."""

        def named(pair: tuple[Any, Any]) -> dict[str, Any]:
            return dict(zip(("device", "ideal"), pair, strict=True))

        values = {name: (own, other) for name, (_, own, other) in self.quantities.items()} | self.metrics
        return {
            "metrics": {name: named(pair) for name, pair in values.items()},
            "claims": {name: named(pair) for name, pair in self.claims.items()},
        }


@dataclass(frozen=True)
class Findings:
    """Metrics and claims of a trial.

    `references` are what the trial is compared with, by label: other variants of the experiment, simulated offline. A
    claim that these alone decide is listed under `references` in summary.json.
    `device` is what its device changes, None if that is the ideal one.
    """

    metrics: dict[str, float | None]
    claims: list[Claim] = field(default_factory=list)
    references: Mapping[str, Samples] = field(default_factory=dict)
    device: DeviceComparison | None = None

    def summary(self) -> dict[str, Any]:
        """Entries of the findings in summary.json."""
        found: dict[str, Any] = {
            "metrics": {name: _plain(one) for name, one in self.metrics.items()},
            "claims": [claim.summary() for claim in self.claims if not claim.reference],
            "references": [claim.summary() for claim in self.claims if claim.reference],
        }
        return found if self.device is None else {**found, "ideal_device": self.device.summary()}
