"""An analysis of one's own: how far does a coupling with a limited force let the hand go beyond the wall?"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from haptic_bench.analysis.base import Analysis
from haptic_bench.analysis.claims import Findings, Quantity, Statement
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from lab_parts.controller import SaturatingSpringParameters
from lab_parts.scene import BallBeforeWallParameters

FORCE = Quantity("Largest force on the hand", "N")
LIMITED = Statement(
    "limited",
    "The hand feels no more than the largest forces of the spring and of its damper together",
    "|tanh| < 1",
    FORCE,
)


class WallAnalysis(Analysis):
    """See the module."""

    SCENES = ("ball_before_wall",)
    METRICS: ClassVar = {
        "felt_force": FORCE,
        "beyond": Quantity("Largest distance of the hand beyond the wall", "mm", 1e3),
    }
    CLAIMS = (LIMITED,)

    def analyse(self, trial: Trial, samples: Samples, *, compare: bool = True) -> Findings:
        """See Analysis."""
        scene, controller = trial.experiment.scene, trial.experiment.controller
        assert isinstance(scene, BallBeforeWallParameters)
        force = float(np.linalg.norm(samples.wrench("rendered")[:, :3], axis=1).max())
        beyond = float(samples.pose("hand")[:, 0].max()) - scene.gap
        speed = np.linalg.norm(samples.twist("tool")[:, :3] - samples.twist("hand")[:, :3], axis=1).max()
        claims = []
        if isinstance(controller, SaturatingSpringParameters):
            largest = np.sqrt(3.0) * controller.largest_force + controller.damping * float(speed)
            claims.append(LIMITED.judged({"this run": force}, force <= largest))
        return Findings({"felt_force": force, "beyond": beyond}, claims)


ANALYSIS = WallAnalysis()
