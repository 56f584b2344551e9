"""As `tight_clearance`, with a larger force and contacts almost four times as stiff (THESIS 6.4.3, figure 6.22).

The source's directly coupled intermediate representation is unstable on these contacts; what becomes of it here is
found by the same run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from haptic_bench.analysis.claims import Claim, Quantity, Statement
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments.common.local_models import CLEARANCE, compared, felt_clearance
from haptic_experiments.tight_clearance import EXACT_HOLE, NARROWER, TURNS_MORE, TightClearance

GROWS = 2.0  # times the motion of the first half of the time: what unstable means
FARTHER = (0.01, 0.03)  # [m] about 2 cm
STABLE = Statement(
    "stable",
    "With either local model the hand does not move more and more: in the second half of the time less than "
    f"{GROWS:g} times as far along x as in the first",
    "THESIS 6.4.3, figure 6.22",
    Quantity("motion along x in the second half of the time over that in the first"),
)
IR_UNSTABLE = Statement(
    "ir_unstable",
    "With the directly coupled intermediate representation the hand moves more and more: in the second half of "
    f"the time at least {GROWS:g} times as far along x as in the first",
    "THESIS 6.4.3, footnote 7",
    STABLE.measured,
    of_instability=True,
)
TWO_CENTIMETRES = Statement(
    "two_centimetres",
    "With active constraints the hand moves about 2 cm farther along x than with those within 5 mm: "
    f"{1e3 * FARTHER[0]:g} to {1e3 * FARTHER[1]:g} mm",
    "THESIS 6.4.3, figure 6.22",
    CLEARANCE,
)


def growth(samples: Samples) -> float:
    """Motion along x in the second half of the time over that in the first; infinite if the hand left the walls."""
    x = samples["hand_px"]
    first, second = x[: x.size // 2], x[x.size // 2 :]
    return float(np.ptp(second) / np.ptp(first)) if first.size and np.ptp(first) > 0.0 else np.inf


class ClearanceStiff(TightClearance):
    CLAIMS: ClassVar[Sequence[Statement]] = (NARROWER, EXACT_HOLE, TURNS_MORE, STABLE, IR_UNSTABLE, TWO_CENTIMETRES)
    FIGURE = "figure 6.22"

    def claims(self, trial: Trial, runs: Mapping[str, Samples]) -> list[Claim]:
        grown = {name: growth(runs[name]) if name in runs else None for name in ("IR", "LM0", "LM5")}
        felt = {name: felt_clearance(runs[name], "x") if name in runs else None for name in ("LM0", "LM5")}
        return [
            *super().claims(trial, runs),
            compared(STABLE, {name: grown[name] for name in ("LM0", "LM5")}, lambda m: max(m.values()) < GROWS),
            compared(IR_UNSTABLE, {"IR": grown["IR"]}, lambda m: m["IR"] >= GROWS),
            compared(TWO_CENTIMETRES, felt, lambda m: FARTHER[0] <= m["LM0"] - m["LM5"] <= FARTHER[1]),
        ]


ANALYSIS = ClearanceStiff()
