"""A manipulator that is pushed around an obstacle while it follows its trajectory (IGMS IV-A)."""

from __future__ import annotations

from haptic_bench.analysis.claims import Claim, Quantity, Statement
from haptic_bench.analysis.motions import Touch
from haptic_experiments.common.edited_arm import EditedArmAnalysis

TWO_PUSHES = Statement(
    "two_pushes",
    "Two pushes change the motion: one aside, before the obstacle, and one that directs the arm to the wall",
    "IGMS IV-A, figure 11",
    Quantity("touches"),
)


class PushArm(EditedArmAnalysis):
    CLAIMS = (*EditedArmAnalysis.CLAIMS, TWO_PUSHES)

    def more_claims(self, felt: list[Touch], reference: list[Touch] | None) -> list[Claim]:
        return [TWO_PUSHES.judged({"touches": float(len(felt))}, len(felt) == 2)]


ANALYSIS = PushArm()
