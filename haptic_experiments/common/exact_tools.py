"""Common parts of the analyses of exactly constrained tools: columns, references, metrics, and figures of integration.

Where a device renders the tool, a person feels the device: claims are decided on the device, and the tool is shown
beside it. FAULRING reports the errors of its device only in figures 9, 11 and 12, and calls them negligible and of the
order of its position resolution. The tolerances here are chosen, in contrast to impedance displays of "a few kN/m":
DEVICE_POSITION is a tenth of the deflection of 10 kN/m under 10 N, DEVICE_ANGLE the same at a lever of 0.1 m.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from haptic_bench.analysis import tracking
from haptic_bench.analysis.base import Analysis
from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.analysis.figures import Curve, energy_figure
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments.common.held_ticks import ticks_held, tool_wrenches
from haptic_sim.constraints.scenes import ConstraintParameters
from haptic_view.figures import BLUE, VERMILION, Axis, Figure, Line, Panel, Style, draw, shown, thin

HOLONOMIC = 1e-10  # [m, rad] residual of a tool that does not drift
POSITION, ANGLE = 1e-7, 1e-6  # [m], [rad] how near a tool comes to its reference
DEVICE_POSITION, DEVICE_ANGLE = 1e-4, 1e-3  # [m], [rad] of a device from where it is to be
HORIZON = 20.0  # [s] of a trial that is compared
EXPLICIT = "explicit (algorithm 1)"
RK4 = "Runge-Kutta"

METRICS = {
    "residual_holonomic": Quantity("Largest norm of the holonomic residuals", "m, rad"),
    "residual_nonholonomic": Quantity("Largest norm of the nonholonomic residuals", "m/s"),
    "ticks_held": Quantity("Ticks in which the solver could not meet the constraints and kept the tool where it was"),
    "reference_error": Quantity(
        "Largest distance from the reference, of the device if there is one, else of the tool", "µm", 1e6
    ),
    "reference_angle": Quantity(
        "Largest rotation from the reference, of the device if there is one, else of the tool", "µrad", 1e6
    ),
    "energy_error": Quantity(
        "Largest energy added or taken by the discretisation, relative to the supplied energy", "ppm", 1e6
    ),
    **tracking.METRICS,
}
CONSTRAINTS_HOLD = Statement(
    "constraints_hold",
    f"The tool meets its holonomic constraints after every tick (residual below {HOLONOMIC:g}), and moves on in every "
    "tick: where the solver cannot meet them, it keeps the tool where it was, which counts against this",
    "acceleration projection and return to the manifold",
    Quantity("largest residual [m, rad]; ticks"),
)
FOLLOWS_REFERENCE = Statement(
    "follows_reference",
    "The tool moves as its equations in independent coordinates say: within 0.1 µm and 1 µrad; a device that renders "
    "it, under the wrench that it senses, within 0.1 mm and 1 mrad",
    "independent equations, Runge-Kutta with an eighth of the step",
    Quantity("distance, rotation"),
)
EXPLICIT_ENERGY = Statement(
    "explicit_energy",
    "Algorithm 1 as published (corrected) errs in energy at least ten times as much as Runge-Kutta steps",
    "FAULRING algorithm 1",
    Quantity("energy added or taken, of what was supplied", "ppm", 1e6),
)
CLAIMS: tuple[Statement, ...] = (CONSTRAINTS_HOLD, FOLLOWS_REFERENCE, EXPLICIT_ENERGY, *tracking.CLAIMS)
CALLED = {"hand": "device", "tool": "tool"}
SHOWN = 2.0  # [nm, nrad] an exact quantity's panel shows at least this much, twice what is claimed of it
TOOL, DEVICE = Style(BLUE, width=1.6), Style(VERMILION, (5, 1.8), 1.2)


def body_columns(samples: Samples) -> dict[str, np.ndarray]:
    """`x1..x6`, `xd1..xd6` of a rigid body and `energy` [J] (FAULRING's coordinates are its configuration)."""
    table = {f"x{i + 1}": samples[f"q{i}"] for i in range(6)}
    return table | {f"xd{i + 1}": samples[f"v{i}"] for i in range(6)} | {"energy": energy(samples)}


def energy(samples: Samples) -> np.ndarray:
    """Sum of the kinetic and potential energy [J]."""
    return samples["energy_kinetic"] + samples["energy_potential"]


def has_device(samples: Samples) -> bool:
    """Whether a device renders the tool."""
    return "hand_px" in samples.names


def felt_bodies(samples: Samples) -> tuple[str, ...]:
    """The bodies of the samples that are judged and shown: first the one that is felt, which decides."""
    return ("hand", "tool") if has_device(samples) else ("tool",)


def pose_errors(poses: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distance [m] and angle [rad] between two poses, of each row."""
    a, b = poses[:, 3:], others[:, 3:]
    cross = np.cross(a[:, :3], b[:, :3])
    vector = a[:, 3:] * b[:, :3] - b[:, 3:] * a[:, :3] - cross
    angle = 2.0 * np.arctan2(np.linalg.norm(vector, axis=1), np.abs(np.sum(a * b, axis=1)))
    return np.linalg.norm(poses[:, :3] - others[:, :3], axis=1), angle


def energy_error(samples: Samples) -> float:
    """Largest energy added or taken by discrete time, relative to the largest that was stored or supplied."""
    supplied = max(float(np.abs(samples[f"energy_{name}"]).max()) for name in ("kinetic", "injected"))
    return float(np.abs(samples["energy_numerical"]).max()) / supplied if supplied > 0.0 else 0.0


def held_to(statement: Statement, trial: Trial, samples: Samples, residual: float = HOLONOMIC) -> Claim:
    """The claim that the tool meets its constraints to `residual` [m, rad], without ticks in which it is held."""
    largest, held = float(samples["residual_holonomic"].max()), ticks_held(trial, samples)
    return statement.judged({"largest residual": largest, "ticks held": held}, largest < residual and held == 0)


@dataclass(frozen=True)
class Deviation:
    """Deviation from the reference in independent coordinates over time [m], [rad]."""

    position: np.ndarray
    angle: np.ndarray


class ConstrainedAnalysis(Analysis):
    """An exactly constrained tool, alone or on a device; an analysis adds its part in the methods `own_...`."""

    METRICS = METRICS
    CLAIMS = CLAIMS

    def own_metrics(self, trial: Trial, samples: Samples) -> dict[str, float | None]:
        """Metrics beside the common ones."""
        return {}

    def own_claims(self, trial: Trial, samples: Samples) -> list[Claim]:
        """Published statements."""
        return []

    def own_figures(self, trial: Trial, samples: Samples) -> list[Figure]:
        """Figures before those of integration and energy."""
        return []

    def reference(self, trial: Trial, samples: Samples, wrenches: np.ndarray) -> np.ndarray:
        """Poses of the tool (rows, 7) under the wrenches (rows, 6), from its first row: see `reduced`.

        Not a number where the independent coordinates do not tell the motion.
        """
        raise NotImplementedError

    def deviation(self, trial: Trial, samples: Samples) -> Deviation | None:
        """Deviation of the felt body from the reference; None if the wrench on the tool is not known."""
        ticks, wrenches = samples["tick"], tool_wrenches(trial, samples)
        if wrenches is None or not ticks.size or ticks[0] != 0 or ticks[-1] != ticks.size - 1:
            return None
        poses = self.reference(trial, samples, wrenches)
        if not np.isfinite(poses).all():
            return None
        return Deviation(*pose_errors(samples.pose(felt_bodies(samples)[0]), poses))

    def variants(self, trial: Trial, samples: Samples) -> dict[str, Trial]:
        """The same trial with the integrators that it does not use, without a device only."""
        lasted = float(samples["time"][-1]) + 1.0 / trial.experiment.rate
        return self._variants(trial, lasted) if not has_device(samples) and lasted <= HORIZON else {}

    def judge(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> Findings:
        deviation = self.deviation(trial, samples)
        metrics: dict[str, float | None] = {
            "residual_holonomic": float(samples["residual_holonomic"].max()),
            "residual_nonholonomic": float(samples["residual_nonholonomic"].max()),
            "ticks_held": ticks_held(trial, samples),
            "reference_error": None if deviation is None else float(deviation.position.max()),
            "reference_angle": None if deviation is None else float(deviation.angle.max()),
            "energy_error": energy_error(samples),
            **(tracking.metrics(trial, samples) if tracking.is_tracked(trial.experiment) else {}),
        }
        claims = [*self.own_claims(trial, samples), *self._claims(trial, samples, metrics, references)]
        if tracking.is_tracked(trial.experiment):
            claims += tracking.claims(trial, samples, metrics)
        return Findings(self.own_metrics(trial, samples) | metrics, claims, references)

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        own = Curve(f"this run: {_integrator(trial)}", trial, samples, Style(BLUE, width=1.6))
        lasted = float(samples["time"][-1]) + 1.0 / trial.experiment.rate
        variants = self._variants(trial, lasted)
        beside = [
            Curve(label, variants[label], run, Style(VERMILION, (5, 1.8)))
            for label, run in findings.references.items()
            if label in variants
        ]
        made = [*self.own_figures(trial, samples), self._integration([own, *beside]), energy_figure([own], beside)]
        if tracking.is_tracked(trial.experiment):
            made.insert(-2, tracking.figure(trial, samples))
        return shown(*made)

    def sweep_figures(self, curves: Sequence[Curve]) -> list[Figure]:
        return shown(_paths(curves), self._integration(curves), energy_figure(curves))

    def expected(self, trial: Trial, findings: Findings) -> Mapping[str, tuple[float, str]]:
        return {}

    def _variants(self, trial: Trial, lasted: float) -> dict[str, Trial]:
        """The same trial with the integrators that it does not use."""
        chosen, experiment = trial.experiment.constraint, trial.experiment
        others = {
            RK4: ConstraintParameters(),
            EXPLICIT: ConstraintParameters(integrator="explicit", parametrised=chosen.parametrised),
        }
        others.pop(_integrator(trial), None)
        return {
            label: replace(
                trial,
                experiment=experiment.model_copy(
                    update={"constraint": other, "duration": min(lasted, experiment.duration)}
                ),
            )
            for label, other in others.items()
        }

    def _claims(
        self,
        trial: Trial,
        samples: Samples,
        metrics: Mapping[str, float | None],
        references: Mapping[str, Samples],
    ) -> list[Claim]:
        far, turned = metrics["reference_error"], metrics["reference_angle"]
        energies: dict[str, float | None] = {_integrator(trial): energy_error(samples)}
        energies |= {label: energy_error(run) for label, run in references.items()}
        explicit, rk4 = energies.get(EXPLICIT), energies.get(RK4)
        word = CALLED[felt_bodies(samples)[0]]
        position, angle = (DEVICE_POSITION, DEVICE_ANGLE) if has_device(samples) else (POSITION, ANGLE)
        return [
            held_to(CONSTRAINTS_HOLD, trial, samples),
            FOLLOWS_REFERENCE.judged(
                {f"{word} [m]": far, f"{word} [rad]": turned},
                None if far is None or turned is None else far < position and turned < angle,
            ),
            EXPLICIT_ENERGY.judged(
                energies, explicit > 10.0 * rk4 if explicit is not None and rk4 is not None else None
            ),
        ]

    def _integration(self, curves: Sequence[Curve]) -> Figure | None:
        """Figure of the distance from the reference, and of the energy that the discretisation adds."""
        deviations = {curve.label: self.deviation(curve.trial, curve.samples) for curve in curves}
        head = ["", "distance from reference [m]", "rotation [rad]", "energy error, relative", "holonomic residual"]
        table = [head]
        lines: dict[str, list[Line]] = {"position": [], "numerical": []}
        for curve in curves:
            time, deviation = curve.samples["time"], deviations[curve.label]
            if deviation is not None:
                lines["position"].append(Line(*_log_line(time, deviation.position), curve.label, curve.style))
            numerical = np.abs(curve.samples["energy_numerical"])
            lines["numerical"].append(Line(*_log_line(time, numerical), curve.label, curve.style))
            table.append(
                [
                    curve.label,
                    "" if deviation is None else f"{deviation.position.max():.2g}",
                    "" if deviation is None else f"{deviation.angle.max():.2g}",
                    f"{energy_error(curve.samples):.2g}",
                    f"{curve.samples['residual_holonomic'].max():.2g}",
                ]
            )
        panels: list[Panel] = []
        axes = ("time [s]", Axis("distance [m]", log=True))
        if lines["position"]:
            panels.append(draw("reference_error", "Distance from the reference", lines["position"], *axes))
        title = "Energy added or taken by discrete time"
        panels.append(draw("numerical_energy", title, lines["numerical"], "time [s]", Axis("|energy| [J]", log=True)))
        caption = (
            "Two integrators under the same wrenches. The reference are the tool's equations in independent "
            "coordinates, which know no multipliers and no projection, advanced with an eighth of the step. FAULRING's "
            "algorithm 1 (corrected) is Euler's step in the source's parametrisation: it keeps the constraints too, "
            "but not the energy."
        )
        if len(curves) == 1 and has_device(curves[0].samples):
            caption = (
                "The device, from the equations of the tool in independent coordinates under the wrench that it "
                "senses; and what discrete time adds to the energy of the tool."
            )
        if not lines["position"]:
            caption = "What discrete time adds to the energy of the tool, which a device renders."
        return Figure("Integration", caption, panels, table)


def _log_line(time: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A curve of few points for a logarithmic axis; what is zero is drawn at 1e-18."""
    return thin(time, np.maximum(values, 1e-18), 300)


def _integrator(trial: Trial) -> str:
    constraint = trial.experiment.constraint
    if constraint.solver == "stabilised":
        return f"stabilised, gamma {constraint.gamma:g}"
    return EXPLICIT if constraint.integrator == "explicit" else RK4


def _paths(curves: Sequence[Curve]) -> Figure:
    """Figure of the tool's path in several runs."""
    lines = [Line(1e3 * curve.samples["x1"], 1e3 * curve.samples["x2"], curve.label, curve.style) for curve in curves]
    panel = draw("paths", "Path of the tool", lines, "x1 [mm]", Axis("x2 [mm]", least=1.0), equal=True)
    return Figure("Paths", "Position of the tool, seen from above.", [panel])
