"""The rattleback: spun one way, it begins to rock and reverses its spin; spun the other way, it keeps it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from haptic_bench.analysis.base import scene_as
from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments.common import formula_systems
from haptic_experiments.common.formula_systems import FormulaAnalysis, Motion, claims_of, over_time, with_parameters
from haptic_sim.constraints.scenes import FormulasParameters
from haptic_view.figures import BLUE, GREEN, ORANGE, VERMILION, Axis, Figure, Line, Style, draw, thin

REVERSED, KEPT = -0.5, 0.8  # of the spin at the start
LEAN = math.radians(1.0)  # at the reversal
LASTS = 10.0  # [s] that a rattleback has for its reversal
OTHER = "spun the other way"

METRICS = {
    "spin_start": Quantity("Spin about the vertical at the start", "rad/s"),
    "spin_end": Quantity("Spin about the vertical at the end", "rad/s"),
    "reversal_time": Quantity("Time at which the spin reverses", "s"),
    "lean": Quantity("Largest angle of the axis from the vertical", "deg", 180.0 / math.pi),
    "least_spin_other": Quantity("Least spin of the one that is spun the other way, of that at the start"),
    **formula_systems.METRICS,
}
REVERSES_ONE_WAY = Statement(
    "reverses_one_way",
    "Spun one way, the rattleback reverses and gets to more than half of its spin the other way round; spun the other "
    "way, it keeps more than 80 % of its spin all the time",
    "Kane and Levinson 1982; Walker 1896",
    Quantity("least spin, of that at the start"),
)
ROCKS = Statement(
    "rocks",
    "At the reversal the energy of the spin is in the rocking: the axis leans by more than a degree",
    "Kane and Levinson 1982",
    Quantity("angle", "deg", 180.0 / math.pi),
)


class Rattleback(FormulaAnalysis):
    METRICS = METRICS
    CLAIMS = claims_of(REVERSES_ONE_WAY, ROCKS)
    COORDINATES = ("x", "y", "z", "psi", "alpha", "beta")
    PARAMETERS = ("spin",)

    def variants(self, trial: Trial, samples: Samples) -> dict[str, Trial]:
        """Trial of the stone spun the other way."""
        return {OTHER: with_parameters(trial, spin=-scene_as(trial.experiment, FormulasParameters).parameters["spin"])}

    def own(self, motion: Motion, references: Mapping[str, Samples]) -> tuple[dict[str, float | None], list[Claim]]:
        spin, lean = _spin(motion), _lean(motion)
        least = _least(spin)
        other = _least(_spin(Motion(motion.trial, references[OTHER]))) if OTHER in references else None
        reverses: bool | None = None
        if least is not None and other is not None and not motion.pushed:
            low, high = sorted((least, other))
            reverses = low < REVERSED and high > KEPT
            if not reverses and high > KEPT and motion.trial.experiment.duration < LASTS:
                reverses = None
        crossing = np.flatnonzero(spin[:-1] * spin[1:] < 0.0)
        first = int(crossing[0]) if crossing.size else None
        at_reversal = None if first is None else _leaning_at(motion, lean, first)
        metrics: dict[str, float | None] = {
            "spin_start": float(spin[0]),
            "spin_end": float(spin[-1]),
            "reversal_time": None if first is None else float(motion.time[first]),
            "lean": float(lean.max()),
            "least_spin_other": other,
        }
        return metrics, [
            REVERSES_ONE_WAY.judged(
                {"this one": least, "the other way": other},
                reverses,
                "the operator pushes it" if motion.pushed else f"it needs {LASTS:g} s",
            ),
            ROCKS.judged({"at the reversal": at_reversal}, None if at_reversal is None else at_reversal > LEAN),
        ]

    def own_figures(self, motion: Motion, findings: Findings) -> list[Figure]:
        """Spin of both, and the rocking."""
        spins = [Line(*thin(motion.time, _spin(motion)), "this run", Style(BLUE, width=1.8))]
        if OTHER in findings.references:
            other = Motion(motion.trial, findings.references[OTHER])
            spins.append(Line(*thin(other.time, _spin(other)), OTHER, Style(VERMILION, (5, 1.8))))
        degrees = 180.0 / math.pi
        panels = [
            draw("spin", "Spin about the vertical", spins, "time [s]", Axis("spin [rad/s]", least=1.0)),
            over_time(
                "rocking",
                "Rocking about the long axis (alpha) and the short axis (beta)",
                motion,
                "angle [deg]",
                alpha=(degrees * motion.q("alpha"), Style(GREEN)),
                beta=(degrees * motion.q("beta"), Style(ORANGE)),
            ),
        ]
        caption = (
            "The axes of inertia are turned against those of the shape, so spin and rocking are coupled. Spun one way, "
            "the smallest rocking grows, takes all of the energy, and gives it back to a spin the other way round. "
            "Nothing is lost: rolling does no work."
        )
        return [Figure("Motion", caption, panels)]


def _spin(motion: Motion) -> np.ndarray:
    """Angular velocity about the vertical [rad/s]."""
    return motion.v("psi") + motion.v("beta") * np.sin(motion.q("alpha"))


def _lean(motion: Motion) -> np.ndarray:
    """Angle of the body's third axis from the vertical [rad]."""
    return np.arccos(np.clip(np.cos(motion.q("alpha")) * np.cos(motion.q("beta")), -1.0, 1.0))


def _leaning_at(motion: Motion, lean: np.ndarray, row: int) -> float:
    """Largest lean within half a second of a row: a rocking is upright twice in a period."""
    return float(lean[np.abs(motion.time - motion.time[row]) < 0.5].max())


def _least(spin: np.ndarray) -> float | None:
    """Least spin in the sense of the start, of that at the start; None without any."""
    return float((spin / spin[0]).min()) if spin[0] != 0.0 else None


ANALYSIS = Rattleback()
