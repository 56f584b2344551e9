"""Tight clearance with a larger force and contacts almost four times as stiff (THESIS 6.4.3, figure 6.22).

The source's directly coupled intermediate representation is unstable on these contacts; what becomes of it here is
found by the same run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from haptic_bench.analysis.base import each
from haptic_bench.analysis.claims import Quantity, Statement
from haptic_bench.recording.samples import Samples
from haptic_experiments.common.local_models import CLEARANCE
from haptic_experiments.tight_clearance import EXACT_HOLE, NARROWER, TURNS_MORE, TightClearance, felt

GROWS = 2.0  # times the motion of the first half of the time: what unstable means
FARTHER = (0.01, 0.03)  # [m] about 2 cm


def growth(samples: Samples) -> float:
    """Motion along x in the second half of the time over that in the first; infinite if the hand left the walls."""
    x = samples["hand_px"]
    first, second = x[: x.size // 2], x[x.size // 2 :]
    return float(np.ptp(second) / np.ptp(first)) if first.size and np.ptp(first) > 0.0 else np.inf


STABLE = Statement(
    "stable",
    "With either local model the hand does not move more and more: in the second half of the time less than "
    f"{GROWS:g} times as far along x as in the first",
    "THESIS 6.4.3, figure 6.22",
    Quantity("motion along x in the second half of the time over that in the first"),
    of=each(growth, "LM0", "LM5"),
    holds=lambda m: max(m.values()) < GROWS,
)
IR_UNSTABLE = Statement(
    "ir_unstable",
    "With the directly coupled intermediate representation the hand moves more and more: in the second half of "
    f"the time at least {GROWS:g} times as far along x as in the first",
    "THESIS 6.4.3, footnote 7",
    STABLE.measured,
    of_instability=True,
    of=each(growth, "IR"),
    holds=lambda m: m["IR"] >= GROWS,
)
TWO_CENTIMETRES = Statement(
    "two_centimetres",
    "With active constraints the hand moves about 2 cm farther along x than with those within 5 mm: "
    f"{1e3 * FARTHER[0]:g} to {1e3 * FARTHER[1]:g} mm",
    "THESIS 6.4.3, figure 6.22",
    CLEARANCE,
    of=felt("LM0", "LM5"),
    holds=lambda m: FARTHER[0] <= m["LM0"] - m["LM5"] <= FARTHER[1],
)


class ClearanceStiff(TightClearance):
    CLAIMS: ClassVar[Sequence[Statement]] = (NARROWER, EXACT_HOLE, TURNS_MORE, STABLE, IR_UNSTABLE, TWO_CENTIMETRES)
    FIGURE = "figure 6.22"


ANALYSIS = ClearanceStiff()
