"""As `linkage_topology`, from a common start with stiffer penalties and an asynchronous environment (THESIS 5.4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from haptic_bench.samples import Samples
from haptic_bench.studies.linkage_topology import (
    SECOND,
    LinkageTopology,
    Variant,
    drift_at,
    missing_terms,
    unchanged,
)
from haptic_bench.studies.study import Claim, Quantity


class LinkageControlled(LinkageTopology):
    """See the module."""

    CLAIMS: ClassVar[Mapping[str, Quantity]] = dict.fromkeys(
        ("printed_distal", "printed_middle", "consistent_distal", "consistent_middle", "missing_terms"),
        Quantity("distance of the hand from the tool after 2 s", "mm", 1e3),
    )
    FIGURES: ClassVar[Mapping[str, str]] = {"distal": "figure 5.10", "middle": "figure 5.11"}
    LETTERS = "(a) stands for its (b), (b) for its (a)"
    START = "figure 5.9"

    def claims(self, runs: Mapping[Variant, Samples]) -> list[Claim]:
        """See LinkageTopology."""
        drifts = {variant: drift_at(run, SECOND) for variant, run in runs.items()}
        source = "THESIS 5.4.2"
        return [
            *self.printed(source, drifts),
            *(
                unchanged(
                    f"consistent_{hold}",
                    f"Held by its {hold} link, from a common start, the consistent law leaves nothing for penalties to "
                    "reduce",
                    f"{source}, corrected",
                    drifts,
                    hold,
                    "consistent",
                )
                for hold in self.HOLDS
            ),
            missing_terms("middle", drifts),
        ]


STUDY = LinkageControlled()
