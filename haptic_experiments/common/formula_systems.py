"""Common parts of the analyses of systems that are given by formulas: coordinates and parameters by their names.

The claims of a system are about the tool itself; that a device follows it is judged as of every constrained tool.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np

from haptic_bench.analysis import tracking
from haptic_bench.analysis.base import Analysis, scene_as
from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.analysis.figures import Curve, energy_figure
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments.common import exact_tools
from haptic_experiments.common.held_ticks import ticks_held
from haptic_sim.constraints.scenes import FormulasParameters
from haptic_view.figures import BLUE, Axis, Figure, Line, Panel, Style, draw, shown, thin

HOLONOMIC, NONHOLONOMIC = 1e-10, 1e-10  # [m], [m/s] residuals of a tool on its constraints
ENERGY = 1e-5  # error of the energy, of what was supplied: a millisecond is long for fast rocking

METRICS = {
    "residual_holonomic": exact_tools.METRICS["residual_holonomic"],
    "residual_nonholonomic": exact_tools.METRICS["residual_nonholonomic"],
    "ticks_held": exact_tools.METRICS["ticks_held"],
    "energy_error": exact_tools.METRICS["energy_error"],
    **tracking.METRICS,
}
CONSTRAINTS_HOLD = Statement(
    "constraints_hold",
    f"The constraints of positions and velocities are met after every tick (residuals below {HOLONOMIC:g}), and in "
    "every tick the tool moves on",
    "acceleration projection and return to the manifold",
    Quantity("largest residuals [m], [m/s]; ticks"),
)
ENERGY_KEPT = Statement(
    "energy_kept",
    f"Constraints do no work: the energy changes by what the operator supplies, to {ENERGY:g} of the supplied energy",
    "D'Alembert's principle",
    Quantity("energy added or taken, of what was supplied"),
)
NO_OPERATOR = "the closed form is that of the system alone, and the operator pushes it"
STABILISED = "a stabilised solver leads the residuals back to zero in time, and works on the tool meanwhile"


class Motion:
    """The motion of a system of formulas, with its coordinates and parameters by name."""

    def __init__(self, trial: Trial, samples: Samples):
        scene = scene_as(trial.experiment, FormulasParameters)
        self.trial, self.samples, self.time = trial, samples, samples["time"]
        self.parameters: Mapping[str, float] = scene.parameters
        self._places = {name: i for i, name in enumerate(scene.coordinates)}

    def q(self, *names: str) -> np.ndarray:
        """Coordinates, (rows,) of one, else (rows, names)."""
        return self._columns("q", names)

    def v(self, *names: str) -> np.ndarray:
        """Rates of coordinates, (rows,) of one, else (rows, names)."""
        return self._columns("v", names)

    @property
    def pushed(self) -> bool:
        """Whether the operator acts on the system."""
        return bool(self.samples.wrench("operator").any())

    def _columns(self, letter: str, names: tuple[str, ...]) -> np.ndarray:
        columns = [self.samples[f"{letter}{self._places[name]}"] for name in names]
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=-1)


class FormulaAnalysis(Analysis):
    """An analysis of a system that is given by formulas; an analysis adds its part in the methods `own_...`."""

    SCENES = ("formulas",)
    METRICS = METRICS
    COORDINATES: ClassVar[tuple[str, ...]] = ()
    PARAMETERS: ClassVar[tuple[str, ...]] = ()
    CONSERVATIVE: ClassVar[bool] = True
    """Whether only the operator supplies energy, no drive."""

    def own(self, motion: Motion, references: Mapping[str, Samples]) -> tuple[dict[str, float | None], list[Claim]]:
        """Metrics and claims beside the common ones."""
        return {}, []

    def own_figures(self, motion: Motion, findings: Findings) -> list[Figure]:
        """Figures before that of the energy."""
        return []

    def lacking(self, experiment: Experiment) -> Iterator[str]:
        scene = scene_as(experiment, FormulasParameters)
        for key, needed, given in (
            ("coordinates", self.COORDINATES, scene.coordinates),
            ("parameters", self.PARAMETERS, scene.parameters),
        ):
            for name in needed:
                if name not in given:
                    yield f"{name} among scene.{key}, as config/systems/{experiment.analysis}.yaml has it"

    def columns(self, trial: Trial, samples: Samples) -> Mapping[str, np.ndarray]:
        """`energy`: kinetic and potential [J]."""
        return {"energy": exact_tools.energy(samples)}

    def judge(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> Findings:
        metrics, claims = self.own(Motion(trial, samples), references)
        common: dict[str, float | None] = {
            "residual_holonomic": float(samples["residual_holonomic"].max()),
            "residual_nonholonomic": float(samples["residual_nonholonomic"].max()),
            "ticks_held": ticks_held(trial, samples),
            "energy_error": exact_tools.energy_error(samples) if self.CONSERVATIVE else None,
        }
        claims.append(_constraints_hold(trial, common))
        if self.CONSERVATIVE:
            error = common["energy_error"]
            kept = error is not None and error < ENERGY
            claims.append(ENERGY_KEPT.judged({"error": error}, None if _stabilised(trial) else kept, STABILISED))
        if tracking.is_tracked(trial.experiment):
            common |= tracking.metrics(trial, samples)
            claims += tracking.claims(trial, samples, common)
        return Findings(metrics | common, claims, references)

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        made: list[Figure | None] = [*self.own_figures(Motion(trial, samples), findings)]
        if tracking.is_tracked(trial.experiment):
            made.append(tracking.figure(trial, samples))
        made.append(energy_figure([Curve("this run", trial, samples, Style(BLUE, width=1.6))]))
        return shown(*made)


def _constraints_hold(trial: Trial, metrics: Mapping[str, float | None]) -> Claim:
    holonomic, rolling, held = (
        metrics[name] or 0.0 for name in ("residual_holonomic", "residual_nonholonomic", "ticks_held")
    )
    measured: dict[str, float | None] = {"positions [m]": holonomic, "velocities [m/s]": rolling, "ticks held": held}
    meets = holonomic < HOLONOMIC and rolling < NONHOLONOMIC and held == 0
    return CONSTRAINTS_HOLD.judged(measured, None if _stabilised(trial) else meets, STABILISED)


def _stabilised(trial: Trial) -> bool:
    return trial.experiment.constraint.solver == "stabilised"


def claims_of(*own: Statement, conservative: bool = True) -> tuple[Statement, ...]:
    """The claims of an analysis: its own, and the common ones."""
    return (*own, CONSTRAINTS_HOLD, *([ENERGY_KEPT] if conservative else []), *tracking.CLAIMS)


def with_parameters(trial: Trial, longest: float = math.inf, **values: float) -> Trial:
    """The same trial with other values of parameters, cut to at most `longest` seconds."""
    experiment = trial.experiment
    scene = scene_as(experiment, FormulasParameters)
    changed = scene.model_copy(update={"parameters": {**scene.parameters, **values}})
    lasts = min(longest, experiment.duration)
    return replace(trial, experiment=experiment.model_copy(update={"scene": changed, "duration": lasts}))


def over_time(name: str, title: str, motion: Motion, label: str, **curves: tuple[np.ndarray, Style]) -> Panel:
    """A panel of quantities over time, by the label of each, whose underscores are spaces."""
    lines = [Line(*thin(motion.time, y), text.replace("_", " "), style) for text, (y, style) in curves.items()]
    return draw(name, title, lines, "time [s]", Axis(label))


def thin_path(x: np.ndarray, y: np.ndarray, points: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    """A path of fewer points, evenly chosen, with its end."""
    step = max(1, x.size // points)
    kept = np.unique(np.append(np.arange(0, x.size, step), x.size - 1))
    return x[kept], y[kept]
