"""As `linkage_topology`, from a common start with stiffer penalties and an asynchronous environment (THESIS 5.4.2).

With `local_model.dynamics: surveyed` the local model holds the inertia and the directions of the last update, as in the
source (5.25, 5.26; 6.15 to 6.22). Nothing is near the arm: updates tell of nothing else. The source's hand is at the
boundary of the device's workspace after about 0.7 s; here it is less than a millimetre from the arm then, with the
dynamics of the last update and with exact ones, so that these do not explain it. With exact dynamics it is not the
experiment of the source, and its claims are undecided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments.linkage_topology import (
    HORIZON,
    SECOND,
    Hold,
    LinkageTopology,
    Variant,
    drift_at,
    missing_statement,
    missing_terms,
    reduced,
    reduced_statement,
    spared,
    spared_statement,
)
from haptic_sim.tool.local_model import FullParameters

NOT_THE_SOURCES = (
    "not the experiment of the source, which holds inertia and directions between updates of the environment (5.25, "
    "5.26): set local_model.dynamics=surveyed and local_model.type=full"
)
BOUNDARY_TIME = 0.7  # [s]
BOUNDARY = 0.01  # [m] the boundary of a workspace is at least so far from where the hand should be
EXPLAINS = 2.0  # times the drift with exact dynamics
EARLY = Quantity("distance of the hand from the tool after 0.7 s", "mm", 1e3)
EXACT = "exact dynamics"


def boundary_statement(hold: Hold, figure: str) -> Statement:
    """The statement that a hand without penalties is soon at the boundary of its workspace."""
    text = (
        f"Held by its {hold} link, without penalties the hand is at the boundary of its workspace after about "
        f"{BOUNDARY_TIME:g} s: at least {1e3 * BOUNDARY:g} mm from the tool"
    )
    return Statement(f"boundary_{hold}", text, f"THESIS 5.4.2, {figure}", EARLY)


class LinkageControlled(LinkageTopology):
    PRINTED: ClassVar[Mapping[Hold, Statement]] = {
        "distal": reduced_statement("distal", "printed", "THESIS 5.4.2, figure 5.10"),
        "middle": reduced_statement("middle", "printed", "THESIS 5.4.2, figure 5.11"),
    }
    CONSISTENT: ClassVar[Mapping[Hold, Statement]] = {
        "distal": spared_statement("distal"),
        "middle": spared_statement("middle"),
    }
    MISSING_TERMS = missing_statement("middle")
    AT_BOUNDARY: ClassVar[Mapping[Hold, Statement]] = {
        "distal": boundary_statement("distal", "figure 5.10"),
        "middle": boundary_statement("middle", "figure 5.11"),
    }
    EXPLAINED = Statement(
        "surveyed_explains",
        "Dynamics of the last update explain the drift of the distal link without penalties: it is at least "
        f"{EXPLAINS:g} times that with exact dynamics",
        "THESIS 5.4.2, errata 15",
        EARLY,
    )
    CLAIMS: ClassVar[Sequence[Statement]] = (
        *PRINTED.values(),
        *AT_BOUNDARY.values(),
        EXPLAINED,
        *CONSISTENT.values(),
        MISSING_TERMS,
    )
    FIGURES: ClassVar[Mapping[str, str]] = {"distal": "figure 5.10", "middle": "figure 5.11"}
    LETTERS = "(a) stands for its (b), (b) for its (a)"
    START = "figure 5.9"

    def analyse(self, trial: Trial, samples: Samples, *, compare: bool = True) -> Findings:
        """Published claims are undecided if the experiment is not that of the source."""
        findings = super().analyse(trial, samples, compare=compare)
        free = Variant("distal", "printed", False)
        references = dict(findings.references)
        if compare and of_source(trial):
            local_model = trial.experiment.local_model.model_copy(update={"dynamics": "current"})
            exact = replace(trial, experiment=trial.experiment.model_copy(update={"local_model": local_model}))
            references[EXACT] = self.run_unrecorded(free.trial(exact, min(float(samples["time"][-1]), HORIZON)))
        runs = {"dynamics of the last update": str(free), EXACT: EXACT}
        own = {str(Variant.of(trial)): samples}
        measured = {name: _early((references | own).get(run)) for name, run in runs.items()}
        surveyed, exactly = measured.values()
        holds = None if surveyed is None or exactly is None else surveyed >= EXPLAINS * exactly
        published = {statement.name for statement in (*self.PRINTED.values(), *self.AT_BOUNDARY.values())}
        claims = [
            replace(claim, holds=None, reason=NOT_THE_SOURCES)
            if claim.name in published and not of_source(trial)
            else claim
            for claim in findings.claims
        ]
        claims.append(self.EXPLAINED.judged(measured, holds))
        order = [statement.name for statement in self.CLAIMS]
        claims.sort(key=lambda claim: order.index(claim.name))
        return Findings(findings.metrics, claims, references)

    def claims(self, runs: Mapping[Variant, Samples]) -> list[Claim]:
        drifts = {variant: drift_at(run, SECOND) for variant, run in runs.items()}
        early = {hold: _early(runs.get(Variant(hold, "printed", False))) for hold in self.AT_BOUNDARY}
        return [
            *(reduced(statement, drifts, hold, "printed") for hold, statement in self.PRINTED.items()),
            *(
                statement.judged(
                    {"without penalties": early[hold]}, None if (d := early[hold]) is None else d >= BOUNDARY
                )
                for hold, statement in self.AT_BOUNDARY.items()
            ),
            *(spared(statement, drifts, hold) for hold, statement in self.CONSISTENT.items()),
            missing_terms(self.MISSING_TERMS, drifts, "middle"),
        ]


def of_source(trial: Trial) -> bool:
    """Whether a trial has the dynamics of the last update, as the source."""
    local_model = trial.experiment.local_model
    return isinstance(local_model, FullParameters) and local_model.dynamics == "surveyed"


def _early(samples: Samples | None) -> float | None:
    """Distance of hand and tool after BOUNDARY_TIME [m]."""
    return None if samples is None else drift_at(samples, BOUNDARY_TIME)


ANALYSIS = LinkageControlled()
