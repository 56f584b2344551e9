"""A peg shaken between two walls that it fits exactly (THESIS 6.2.3, figures 6.10 and 6.11).

Active geometry (LM0) reports a wall when the tool is in it already, and the proxy is deformed so that no force jumps:
the walls recede. Geometry within 5 mm (LM5) is known before the tool is there.

The printed force, 5 sin(2 pi / 10) N, lacks the time. The experiment takes 10 Hz; read as 5 sin(2 pi t / 10) N it has
0.1 Hz, and such runs stand beside: so slow a force gives no drift.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from haptic_bench.analysis.base import each
from haptic_bench.analysis.claims import Statement
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_drivers.operators import SineParameters
from haptic_experiments.common.local_models import (
    CLEARANCE,
    COMPARED,
    SERVO_RATE,
    LocalModelAnalysis,
    declared,
    felt_clearance,
    inside,
)

AT_MOST = 0.5  # of the clearance with active geometry: what narrower means
SIGNIFICANT = 2.0  # times the motion that the stiffness of the walls allows: what significant drift means
EXACT = 0.01  # of the motion that the stiffness of the walls allows: what no drift means

PRINTED = 0.1  # [Hz] of the printed force, if only the time is missing


def printed(name: str) -> str:
    """Name of a variant under the force as printed."""
    return f"{name}, {PRINTED:g} Hz"


NAMES = ("LM0", "LM5", "synchronous")


def felt(*names: str) -> Callable[[Any], dict[str, float | None]]:
    """Clearances that are felt in runs, by name [m]."""
    return each(lambda run: felt_clearance(run, "x"), *names)


NARROWER = Statement(
    "narrower",
    f"With constraints within 5 mm the hand feels at most {100 * AT_MOST:g} % of the clearance with active ones",
    "THESIS 6.2.3, figure 6.11",
    CLEARANCE,
    of=felt(*NAMES),
    holds=lambda m: m["LM5"] <= AT_MOST * m["LM0"],
    runs=("LM0", "LM5"),
)
DRIFTS = Statement(
    "drifts",
    "With active constraints the drift is significant: the hand moves at least twice as far as in an environment at "
    "the servo rate",
    "THESIS 6.2.3, figure 6.11(a)",
    CLEARANCE,
    of=felt(*NAMES),
    holds=lambda m: m["LM0"] >= SIGNIFICANT * m["synchronous"],
    runs=("LM0", "synchronous"),
)
NARROWER_PRINTED = replace(
    NARROWER,
    name="narrower_printed",
    text=f"{NARROWER.text}, with a force of {PRINTED:g} Hz, as printed",
    of=felt(*map(printed, NAMES)),
    holds=lambda m: m[printed("LM5")] <= AT_MOST * m[printed("LM0")],
    runs=(printed("LM0"), printed("LM5")),
)
DRIFTS_PRINTED = replace(
    DRIFTS,
    name="drifts_printed",
    text=f"{DRIFTS.text}, with a force of {PRINTED:g} Hz, as printed",
    of=felt(*map(printed, NAMES)),
    holds=lambda m: m[printed("LM0")] >= SIGNIFICANT * m[printed("synchronous")],
    runs=(printed("LM0"), printed("synchronous")),
)
NO_DRIFT = Statement(
    "no_drift",
    "With constraints within 5 mm the hand moves only as far as their stiffness allows: as in an environment at the "
    f"servo rate, within {100 * EXACT:g} %",
    "THESIS 6.2.3, figure 6.11(b)",
    CLEARANCE,
    of=felt(*NAMES),
    holds=lambda m: abs(m["LM5"] - m["synchronous"]) <= EXACT * m["synchronous"],
    runs=("LM5", "synchronous"),
)


class TightHole(LocalModelAnalysis):
    METRICS = declared("felt_clearance", "max_force_step")
    CLAIMS = (NARROWER, DRIFTS, NO_DRIFT, NARROWER_PRINTED, DRIFTS_PRINTED)
    VARIANTS: ClassVar = {
        "LM0": replace(COMPARED["LM0"], direct=None),
        "LM5": replace(COMPARED["LM5"], direct=None),
        "synchronous": replace(SERVO_RATE, direct=None),
    }
    FIGURE = "figure 6.11"
    OVER_TIME = ("x",)
    PATH = False

    def runs(self, trial: Trial, samples: Samples, compare: bool = True) -> dict[str, Samples]:
        """Samples of the runs, with the variants under the force as printed, over one of its periods."""
        found = super().runs(trial, samples, compare)
        operator = trial.experiment.operator
        if compare and isinstance(operator, SineParameters):
            slow = operator.model_copy(update={"frequency": PRINTED})
            settings = {"operator": slow, "duration": 1.0 / PRINTED}
            slowly = {
                printed(name): replace(trial, experiment=one.of(trial.experiment).model_copy(update=settings))
                for name, one in self.VARIANTS.items()
            }
            found |= {name: inside(trial.experiment, run) for name, run in self.run_all(slowly).items()}
        return found


ANALYSIS = TightHole()
