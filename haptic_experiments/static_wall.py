"""A peg pushed against a wall (THESIS 6.4.2, figures 6.18 and 6.19): where is the wall felt?

A wall that is known only when the tool is in it is felt where the hand has got by then. The source's hand felt it 29 mm
(IR) and 36 mm (LM0) too far: its environment was late by about 0.27 s, if the hand was as fast as the force makes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from haptic_bench.analysis.base import each, scene_as
from haptic_bench.analysis.claims import Quantity, Statement
from haptic_bench.experiment import Experiment
from haptic_bench.recording.samples import Samples
from haptic_experiments.common.local_models import (
    COMPARED,
    Compared,
    LocalModelAnalysis,
    along_push,
    declared,
    perceived_wall,
    rebounds,
)
from haptic_sim.worlds.scenes import PegParameters, SlottedEnclosureParameters

NEAR = 5e-4  # [m] a wall that is felt so near to its place is felt there
FAR = 1e-3  # [m] and one that is farther than this is not
SOURCE = (0.02, 0.05)  # [m] how far the source's walls are from their place, from and to
REST = 2e-3  # [m/s] slower than this a hand has come to rest


def wall_position(experiment: Experiment) -> float:
    """Coordinate y of the peg's center at contact with the wall [m]."""
    scene, tool = scene_as(experiment, SlottedEnclosureParameters), experiment.tool
    assert isinstance(tool, PegParameters)
    half = 0.5 * np.abs([tool.size[0] * np.sin(scene.start_angle), tool.size[1] * np.cos(scene.start_angle)]).sum()
    return float(scene.y[0] + half)


def last_speed(samples: Samples, until: float) -> float:
    """Largest speed of the hand in the last quarter of `until` [m/s].

    It is infinite for a hand that has passed through a wall, which ends the run earlier.
    """
    if not len(samples) or samples["time"][-1] < until - 1e-9:
        return np.inf
    late = samples["time"] > 0.75 * until
    return float(np.abs(along_push(samples)[late]).max())


def beyond(*names: str) -> Callable[[Compared], dict[str, float | None]]:
    """Distances from the wall at which it is felt in runs, by name [m]."""

    def of(case: Compared) -> dict[str, float | None]:
        felt, place = each(perceived_wall, *names)(case), wall_position(case.trial.experiment)
        return {name: None if y is None else place - y for name, y in felt.items()}

    return of


def last_speeds(case: Compared) -> dict[str, float | None]:
    """Largest speeds in the end of the longest run, by run [m/s]."""
    end = max((float(run["time"][-1]) for run in case.references.values() if len(run)), default=0.0)
    return each(lambda run: last_speed(run, end), *COMPARED)(case)


BEYOND = Quantity("distance from the wall to where it is felt", "mm", 1e3)
AT_THE_WALL = Statement(
    "at_the_wall",
    f"With constraints within 5 mm the wall is felt where it is, to {1e3 * NEAR:g} mm",
    "THESIS 6.4.2, figure 6.19",
    BEYOND,
    of=beyond("LM5"),
    holds=lambda m: abs(m["LM5"]) <= NEAR,
)
BEYOND_THE_WALL = Statement(
    "beyond_the_wall",
    f"With active constraints, and in the intermediate representation, it is felt more than {1e3 * FAR:g} mm too far",
    "THESIS 6.4.2, figure 6.19",
    BEYOND,
    of=beyond("IR", "LM0"),
    holds=lambda m: min(m.values()) > FAR,
)
AS_FAR = Statement(
    "as_far",
    f"They are felt as far as in the source, which has 29 and 36 mm: {1e3 * SOURCE[0]:g} to {1e3 * SOURCE[1]:g} mm",
    "THESIS 6.4.2, figure 6.19",
    BEYOND,
    of=beyond("IR", "LM0"),
    holds=lambda m: all(SOURCE[0] <= value <= SOURCE[1] for value in m.values()),
)
BOUNCES_MORE = Statement(
    "bounces_more",
    "The hand rebounds more often in the intermediate representation than in either local model, which has impacts",
    "THESIS 6.4.2 and 6.4.4, figure 6.19",
    Quantity("how often the hand rebounds"),
    of=each(rebounds, *COMPARED),
    holds=lambda m: m["IR"] > max(m["LM0"], m["LM5"]),
)
STAYS = Statement(
    "stays",
    f"In the end the hand is at rest, slower than {1e3 * REST:g} mm/s, in each of them: 4000 N/m is the stiffest "
    "contact with which the source's intermediate representation was stable",
    "THESIS 6.4.2",
    Quantity("largest speed of the hand in the last quarter of the time", "mm/s", 1e3),
    of=last_speeds,
    holds=lambda m: max(m.values()) < REST,
)


class StaticWall(LocalModelAnalysis):
    NEEDS: ClassVar = {"tool": "peg", "operator": "constant"}
    METRICS = declared("perceived_wall_position", "rebounds", "contact_losses", "max_force_step")
    CLAIMS = (AT_THE_WALL, BEYOND_THE_WALL, AS_FAR, BOUNCES_MORE, STAYS)
    VARIANTS = COMPARED
    FIGURE = "figure 6.19"
    OVER_TIME = ("y",)
    PATH = False


ANALYSIS = StaticWall()
