"""As `linkage_topology`, from a common start with stiffer penalties and an asynchronous environment (THESIS 5.4.2).

It is not the experiment of THESIS. There a local model holds the inertia and the directions of the last update of the
environment (5.25, 5.26; 6.15 to 6.22); here it has the whole arm and computes both in each tick. The environment only
sends walls, and there are none, so that its rate does not change a bit of a trial. The published claims are therefore
undecided, with the measured numbers beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from haptic_bench.analysis.claims import Claim, Statement
from haptic_bench.recording.samples import Samples
from haptic_bench.studies.linkage_topology import (
    SECOND,
    Hold,
    LinkageTopology,
    Variant,
    drift_at,
    free_and_held,
    missing_statement,
    missing_terms,
    reduced_statement,
    spared,
    spared_statement,
)

NOT_THE_SOURCES = (
    "not reproduced: THESIS holds inertia and directions between updates of the environment (5.25, 5.26), here they "
    "are exact in each tick, whatever its rate"
)


class LinkageControlled(LinkageTopology):
    """See the module."""

    PRINTED: ClassVar[Mapping[Hold, Statement]] = {
        "distal": reduced_statement("distal", "printed", "THESIS 5.4.2, figure 5.10"),
        "middle": reduced_statement("middle", "printed", "THESIS 5.4.2, figure 5.11"),
    }
    CONSISTENT: ClassVar[Mapping[Hold, Statement]] = {
        "distal": spared_statement("distal"),
        "middle": spared_statement("middle"),
    }
    MISSING_TERMS = missing_statement("middle")
    CLAIMS: ClassVar[Sequence[Statement]] = (*PRINTED.values(), *CONSISTENT.values(), MISSING_TERMS)
    FIGURES: ClassVar[Mapping[str, str]] = {"distal": "figure 5.10", "middle": "figure 5.11"}
    LETTERS = "(a) stands for its (b), (b) for its (a)"
    START = "figure 5.9"

    def claims(self, runs: Mapping[Variant, Samples]) -> list[Claim]:
        """See LinkageTopology."""
        drifts = {variant: drift_at(run, SECOND) for variant, run in runs.items()}
        return [
            *(
                statement.judged(free_and_held(drifts, hold, "printed"), None, NOT_THE_SOURCES)
                for hold, statement in self.PRINTED.items()
            ),
            *(spared(statement, drifts, hold) for hold, statement in self.CONSISTENT.items()),
            missing_terms(self.MISSING_TERMS, drifts, "middle"),
        ]


STUDY = LinkageControlled()
