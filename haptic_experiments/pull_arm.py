"""A manipulator that is pulled around an obstacle while it follows its trajectory (IGMS IV-B), beside `push_arm`."""

from __future__ import annotations

from haptic_bench import experiment
from haptic_bench.analysis import motions
from haptic_bench.analysis.base import analysis_of
from haptic_bench.analysis.claims import Claim, Quantity, Statement
from haptic_bench.analysis.motions import Touch
from haptic_bench.experiment import Trial
from haptic_experiments.common.edited_arm import EditedArmAnalysis

MORE_FORCE = Statement(
    "more_force",
    "Pulling needs more force than pushing: the last link has to follow the hand",
    "IGMS IV-B",
    Quantity("largest force that the device renders [N]"),
)
FEWER_TOUCHES = Statement(
    "fewer_touches",
    "Pulling needs fewer touches than pushing, which is an indirect way to the motion that is wanted",
    "IGMS IV-B",
    Quantity("touches"),
)


class PullArm(EditedArmAnalysis):
    CLAIMS = (*EditedArmAnalysis.CLAIMS, MORE_FORCE, FEWER_TOUCHES)
    PULLED = True

    def reference(self, trial: Trial) -> list[Touch] | None:
        """The touches of `push_arm`, simulated offline."""
        (pushed,) = experiment.load("push_arm")
        return motions.touches(analysis_of(pushed.experiment).run_unrecorded(pushed))

    def more_claims(self, felt: list[Touch], reference: list[Touch] | None) -> list[Claim]:
        peak = max((touch.peak for touch in felt), default=0.0)
        pushed = None if reference is None else max((touch.peak for touch in reference), default=0.0)
        return [
            MORE_FORCE.judged({"pull": peak, "push": pushed}, None if pushed is None else peak > pushed),
            FEWER_TOUCHES.judged(
                {"pull": float(len(felt)), "push": None if reference is None else float(len(reference))},
                None if reference is None else 0 < len(felt) < len(reference),
            ),
        ]


ANALYSIS = PullArm()
