"""A rod among many objects that MuJoCo simulates: the hand does the work of moving them."""

from __future__ import annotations

from haptic_bench.analysis.claims import Findings
from haptic_bench.analysis.figures import Curve
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments.common.mujoco_worlds import (
    PASSIVE,
    MujocoAnalysis,
    paid,
    work_figure,
)
from haptic_view.figures import Figure, Style

PART = 0.3  # of MuJoCo's work that the hand may do more or less
PAID = paid(PART)


class MujocoClutter(MujocoAnalysis):
    CLAIMS = (PAID, PASSIVE)

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        return [work_figure([Curve("this run", trial, samples, Style())]), *super().figures(trial, samples, findings)]


ANALYSIS = MujocoClutter()
