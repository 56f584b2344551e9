"""A peg shaken in a hole that fits it exactly (THESIS 6.4.2, figures 6.20 and 6.21): how much free space is felt?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from haptic_bench.analysis.base import each
from haptic_bench.analysis.claims import Quantity, Statement
from haptic_bench.recording.samples import Samples
from haptic_experiments.common.local_models import (
    CLEARANCE,
    COMPARED,
    SERVO_RATE,
    Compared,
    LocalModelAnalysis,
    Variant,
    declared,
    felt_clearance,
)
from haptic_sim.spatial import planar_angle

AT_MOST = 0.5  # of the clearance with active geometry: what narrower means
EXACT = 0.01  # of the motion in an environment at the servo rate: what the exact hole means
NOTHING = 1e-6  # [m, rad] less motion than this is none

CENTRED = (
    "the force acts at the centre of the peg, and the hole holds both of its ends: nothing turns it; the source does "
    "not say what did"
)


def turn(samples: Samples) -> float:
    """Largest angle of the hand from its start [rad]."""
    angle = planar_angle(samples.pose("hand"))
    return float(np.abs(angle - angle[0]).max())


def felt(*names: str) -> Callable[[Any], dict[str, float | None]]:
    """Travel of the hand along x in runs, by name [m]."""
    return each(lambda run: felt_clearance(run, "x"), *names)


def still(case: Compared) -> str:
    """Reason why nothing turns the hand; empty if something does."""
    angles = each(turn, *COMPARED)(case).values()
    return CENTRED if all(angle is not None and angle < NOTHING for angle in angles) else ""


NARROWER = Statement(
    "narrower",
    f"With constraints within 5 mm the hand moves at most {100 * AT_MOST:g} % as far along x as with active ones, and "
    "less than in the intermediate representation",
    "THESIS 6.4.2, figure 6.21",
    CLEARANCE,
    of=felt(*COMPARED),
    holds=lambda m: m["LM5"] <= AT_MOST * m["LM0"] and m["LM5"] < m["IR"],
)
EXACT_HOLE = Statement(
    "exact_hole",
    "With constraints within 5 mm the hole is rendered exactly: the hand moves along x as in an environment at the "
    f"servo rate, within {100 * EXACT:g} %",
    "THESIS 6.4.2, figure 6.21",
    CLEARANCE,
    of=felt("LM5", "synchronous"),
    holds=lambda m: abs(m["LM5"] - m["synchronous"]) <= EXACT * m["synchronous"],
)
TURNS_MORE = Statement(
    "turns_more",
    "With active constraints, and in the intermediate representation, the hand turns more than with those within 5 mm",
    "THESIS 6.4.2, figure 6.21",
    Quantity("largest angle of the hand from its start", "deg", 180.0 / np.pi),
    of=each(turn, *COMPARED),
    holds=lambda m: min(m["IR"], m["LM0"]) > m["LM5"],
    unless=still,
)


class TightClearance(LocalModelAnalysis):
    METRICS = declared("felt_clearance_x", "felt_clearance_y", "contact_losses", "max_force_step")
    CLAIMS: ClassVar[Sequence[Statement]] = (NARROWER, EXACT_HOLE, TURNS_MORE)
    VARIANTS: ClassVar[Mapping[str, Variant]] = {**COMPARED, "synchronous": SERVO_RATE}
    FIGURE = "figure 6.21"


ANALYSIS: LocalModelAnalysis = TightClearance()
