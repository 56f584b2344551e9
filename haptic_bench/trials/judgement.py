"""Judgement of a trial's samples, wherever they are: status, verdict, metrics and claims."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from haptic_bench.analysis.base import analyse
from haptic_bench.analysis.claims import Findings
from haptic_bench.analysis.verdict import Verdict, verdict_of
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples


@dataclass(frozen=True)
class Judgement:
    """Result of a trial.

    Attributes:
        status: `done`, `interrupted` or `failed`.
        reason: why it has failed; empty if it has not.
        verdict: on its display.
        findings: metrics, claims and curves.
    """

    status: str
    reason: str
    verdict: Verdict
    findings: Findings

    def summary(self, between: dict[str, Any]) -> dict[str, Any]:
        """Entries of the judgement in summary.json, with keys of the caller between the reason and the display."""
        return {
            "status": self.status,
            **({"reason": self.reason} if self.reason else {}),
            **between,
            "display": self.verdict.summary(),
            **self.findings.summary(),
        }


def judge(trial: Trial, samples: Samples, status: str, reason: str, *, undecided: bool = False) -> Judgement:
    """Judge a trial by its samples.

    Args:
        trial: what was run.
        samples: what was recorded; from where they are not finite on, they are left out.
        status: as the run ended.
        reason: why it has failed; empty if it has not.
        undecided: whether too many ticks were missed for any claim to be decided.
    """
    diverged = samples.not_finite()
    # Of what diverges, the last numbers may be too large for any figure.
    overflow: Literal["ignore"] | None = None if diverged is None else "ignore"
    if diverged is not None:
        name, row = diverged
        status = "failed"
        reason = reason or f"diverged: {name} is not finite from tick {samples['tick'][row]} on"
    finite = samples.finite()
    verdict = verdict_of(trial, finite, reason)
    if verdict.failure and status == "done":
        status, reason = "failed", verdict.failure
    findings = Findings({})
    if len(finite):
        try:
            with np.errstate(all=overflow):
                findings = analyse(trial, finite, compare=status == "done")
        except RuntimeError as error:  # the ideal reference gave up
            reason = reason or f"not analysed: {error}"
    if undecided:
        findings = replace(findings, claims=[replace(claim, holds=None) for claim in findings.claims])
    if status == "failed":
        findings = replace(findings, claims=[claim.of_failed(reason) for claim in findings.claims])
    return Judgement(status, reason, verdict, findings)
