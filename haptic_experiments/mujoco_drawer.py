"""A drawer that MuJoCo simulates is pushed shut: the hand feels its friction and its damping."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from haptic_bench.analysis.base import Case
from haptic_bench.analysis.claims import Findings, Quantity, Statement
from haptic_bench.analysis.figures import Curve
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments.common.mujoco_worlds import (
    PASSIVE,
    MujocoAnalysis,
    paid,
    scene_of,
    work_figure,
)
from haptic_sim.worlds.mujoco_files import load
from haptic_view.figures import BLACK, BLUE, Figure, Line, Style, draw, thin

JOINT = "drawer"  # name of the joint in the file, a slide along x
SLIDES = 0.02  # [m/s] the hand's speed from which on the drawer slides
PART = 0.15  # of the resistance, and of the work, that the hand may feel more or less
PAID = paid(PART)
RESISTANCE = Statement(
    "resistance",
    f"While the drawer slides, the hand feels its dry friction and its damping, to {100 * PART:g} % on average",
    "F + c v of the model; what is allowed is chosen",
    Quantity("mean force along the drawer", "N"),
    of=lambda case: {"hand": felt(case.samples), "drawer": mean_resistance(case)},
    holds=lambda m: abs(m["hand"] - m["drawer"]) <= PART * m["drawer"],
)


def law(experiment: Experiment) -> tuple[float, float]:
    """Dry friction [N] and damping [N s/m] of the drawer.

    Raises:
        KeyError: there is no joint of that name.
    """
    joint = load(scene_of(experiment))[0].joint(JOINT)
    return float(joint.frictionloss[0]), float(joint.damping[0])


class MujocoDrawer(MujocoAnalysis):
    METRICS = MujocoAnalysis.METRICS | {
        "felt_resistance": Quantity(
            "Mean force of the hand along the drawer while it slides", "N", of=lambda case: felt(case.samples)
        )
    }
    CLAIMS = (RESISTANCE, PAID, PASSIVE)

    def lacking(self, experiment: Experiment) -> Iterator[str]:
        yield from super().lacking(experiment)
        try:
            law(experiment)
        except KeyError:
            yield f"a joint {JOINT} in {scene_of(experiment).file}"

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        time = samples["time"]
        expected = np.where(slides(samples), resistance(trial, samples), np.nan)
        lines = [
            Line(*thin(time, samples["operator_fx"]), "hand", Style(BLUE)),
            Line(time, expected, "drawer", Style(BLACK, (4, 2))),
        ]
        panel = draw("resistance", "force along the drawer", lines, "time [s]", "force [N]")
        figure = Figure("The drawer", "Force of the hand, and what the drawer resists with where it slides.", [panel])
        return [
            figure,
            work_figure([Curve("this run", trial, samples, Style())]),
            *super().figures(trial, samples, findings),
        ]


def slides(samples: Samples) -> np.ndarray:
    """The rows in which the hand pushes the drawer (rows,) bool."""
    return (samples["hand_vx"] > SLIDES) & (samples["contacts"] > 0)


def felt(samples: Samples) -> float | None:
    """Mean force of the hand while the drawer slides [N]; None if it does not."""
    rows = slides(samples)
    return float(samples["operator_fx"][rows].mean()) if rows.any() else None


def mean_resistance(case: Case) -> float | None:
    """Mean of `resistance` while the drawer slides [N]; None if it does not."""
    rows = slides(case.samples)
    return float(resistance(case.trial, case.samples)[rows].mean()) if rows.any() else None


def resistance(trial: Trial, samples: Samples) -> np.ndarray:
    """Resistance of a drawer that moves as the hand [N] (rows,)."""
    friction, damping = law(trial.experiment)
    force: np.ndarray = friction + damping * samples["hand_vx"]
    return force


ANALYSIS = MujocoDrawer()
