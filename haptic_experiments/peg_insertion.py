"""A peg that searches a hole by sliding over it: whether it enters, when, and with which forces.

Above the hole the peg sinks by less than a millimetre before its edge strikes the far side. An impulse stops it there.
A penalty of stiffness K stops a mass m after a distance of the order of v sqrt(m / K), 2 to 3 mm at 0.3 m/s: the edge
then overlaps the side by more than it is below the plate. The overlap is now shallowest along the normal of the plate,
and the penalty pushes the peg back onto it. A slower hand (0.25 m/s) enters with penalties, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np

from haptic_bench.analysis.base import Analysis, scene_as
from haptic_bench.analysis.claims import Quantity, Statement
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_sim.worlds.scenes import PegParameters, SlottedEnclosureParameters

INSIDE = 5e-3  # [m] below the plate from which on the peg counts as in the hole (chosen)


def depth(experiment: Experiment, samples: Samples) -> np.ndarray:
    """Depth of the peg's lowest point below the plate [m] (rows,); negative above it."""
    scene, peg = scene_as(experiment, SlottedEnclosureParameters), experiment.tool
    assert isinstance(peg, PegParameters)
    angle = 2.0 * np.arctan2(samples["tool_qz"], samples["tool_qw"])
    half = 0.5 * (peg.size[0] * np.abs(np.sin(angle)) + peg.size[1] * np.abs(np.cos(angle)))
    return np.asarray(scene.y[0] - (samples["tool_py"] - half))


def insertion_time(experiment: Experiment, samples: Samples) -> float | None:
    """Time at which the peg is in the hole first [s]; None if it never is."""
    inside = depth(experiment, samples) >= INSIDE
    return float(samples["time"][np.argmax(inside)]) if inside.any() else None


def largest_depth(experiment: Experiment, samples: Samples) -> float:
    """Largest depth of the peg below the plate [m]."""
    return float(depth(experiment, samples).max())


def largest_force(samples: Samples) -> float:
    """Largest rendered force [N]."""
    return float(np.linalg.norm(samples.wrench("rendered")[:, :3], axis=1).max())


COMPARED = ("penalty", "impulse_augmented")
"""Contact methods side by side."""
ENTERS = Statement(
    "enters_with_impulses",
    f"With impulses upon contact the peg enters the hole by {1e3 * INSIDE:g} mm at least; with penalties alone it "
    "slides over it",
    "THESIS 4.5: impulses upon contact make contacts rigid; set-up ours",
    Quantity("largest depth of the peg below the plate", "mm", 1e3),
    of=lambda case: {name: largest_depth(case.trial.experiment, run) for name, run in case.references.items()},
    holds=lambda m: m["impulse_augmented"] >= INSIDE > m["penalty"],
)
METRICS = {
    "insertion_time": Quantity(
        f"Time at which the peg is {1e3 * INSIDE:g} mm below the plate first",
        "s",
        of=lambda case: insertion_time(*case.run),
    ),
    "insertion_depth": Quantity(
        "Largest depth of the peg below the plate", "mm", 1e3, of=lambda case: largest_depth(*case.run)
    ),
    "peak_force": Quantity("Largest rendered force", "N", of=lambda case: largest_force(case.samples)),
    "impulses": Quantity("Ticks with impulses", of=lambda case: float(case.samples["colliding"].sum())),
}


class PegInsertion(Analysis):
    """A peg above a hole in a plate, beside the same one with the other contact method."""

    SCENES = ("slotted_enclosure",)
    NEEDS: ClassVar = {"tool": "peg"}
    METRICS = METRICS
    CLAIMS = (ENTERS,)
    METHODS = COMPARED

    def lacking(self, experiment: Experiment) -> Iterator[str]:
        if experiment.standalone:
            yield "a device, not device.type = none"
        if scene_as(experiment, SlottedEnclosureParameters).slot_depth < INSIDE:
            yield f"a hole of {INSIDE:g} m at least in scene.slot_depth"

    def label(self, trial: Trial) -> str:
        return trial.experiment.environment.method.type

    def variants(self, trial: Trial, samples: Samples) -> Mapping[str, Trial]:
        """Each of the contact methods, over the time that the trial lasted."""
        lasted = float(samples["time"][-1])
        return {name: _with_method(trial, name, lasted) for name in COMPARED}


def _with_method(trial: Trial, name: str, duration: float) -> Trial:
    environment = trial.experiment.environment.with_method(name)
    settings = {"environment": environment, "duration": duration}
    return replace(trial, experiment=trial.experiment.model_copy(update=settings))


ANALYSIS = PegInsertion()
