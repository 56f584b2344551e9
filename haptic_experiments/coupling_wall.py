"""A virtual wall and a point mass on the boundary of passivity, for each integrator (BROWN 3.3).

The device is 5 % more and 5 % less damped than BROWN (8) requires, and a hand holds it that does its worst: with forces
held over each tick, the largest eigenvalue of a quadratic form says what it can gain (`worst_forces`). The condition
holds for every hand, and its boundary is reached by one that moves with a constant velocity within a tick. A hand whose
force is held does so only if the device has next to no mass; the condition does not depend on that mass.

The energy at the port is the exact work of the held forces, sum of f(k) . dx(k), with the displacements of the device
itself, which are found from the recorded forces: what encoders tell is another matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from haptic_bench.analysis.base import Analysis
from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.analysis.figures import Curve, trial_figures
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_control.passivity.zwidth import ZWidthParameters, required_map, worst_forces
from haptic_control.virtual_coupling import VirtualCouplingParameters
from haptic_drivers.inertial import InertialDevice, InertialParameters
from haptic_drivers.operators import FileParameters
from haptic_sim.worlds.parameters import WorldParameters
from haptic_sim.worlds.scenes import NoToolParameters, PegParameters
from haptic_view.figures import Figure, Line, Style, draw, style_of

BESIDE = 0.05  # of the required damping: what just inside and just outside are
SIDES = {"inside": 1.0 + BESIDE, "outside": 1.0 - BESIDE}
WORLDS = ("wall", "integrator 1", "integrator 2", "integrator 3")
LONGEST = 1000  # ticks of the worst hand at most: the matrix of its quadratic form has so many rows and columns
FORCE = 0.05  # [N] root of the sum of squares of the hand's forces
ROUNDING = 1e-12  # [J] a gain that is none
AS_PREDICTED = 1e-3  # relative difference to the energy of the linear analysis

GAINED = Quantity("largest energy that the hand has gained", "J")
INSIDE = Statement(
    "inside_gives_nothing",
    f"With {100 * BESIDE:g} % more damping than required the worst hand never has gained energy",
    "BROWN (8), (13), A3 to A6",
    GAINED,
)
OUTSIDE = Statement(
    "outside_gives_energy",
    f"With {100 * BESIDE:g} % less it gains energy",
    "BROWN (8), (13), A3 to A6",
    GAINED,
)
PREDICTED = Statement(
    "as_predicted",
    f"At the end it has gained what the linear analysis of the loop predicts, within {100 * AS_PREDICTED:g} %",
    "ours",
    Quantity("difference to the prediction, relative", "%", 100.0),
)


def parameters_of(experiment: Experiment, damping: float, world: str) -> ZWidthParameters:
    """The device of an experiment with another damping [N s/m], before one of WORLDS, for the analysis."""
    device, tool = experiment.device, experiment.tool
    assert isinstance(device, InertialParameters) and isinstance(tool, PegParameters) and device.mass is not None
    return ZWidthParameters(
        rate=experiment.rate,
        device_mass=device.mass,
        device_damping=damping,
        mass=None if world == "wall" else tool.mass,
        integrator=3 if world == "wall" else int(world[-1]),
    )


def coupling_of(experiment: Experiment) -> tuple[float, float]:
    """Stiffness [N/m] and damping [N s/m] of the coupling along x."""
    controller = experiment.controller
    assert isinstance(controller, VirtualCouplingParameters)
    return controller.stiffness[0], controller.damping[0]


def required_damping(experiment: Experiment, world: str) -> float:
    """Damping of the device that passivity requires, by BROWN (8) [N s/m]; infinite if the loop is not stable."""
    K, B = coupling_of(experiment)
    return float(required_map(parameters_of(experiment, 1.0, world), np.array([K]), np.array([B]))[0, 0])


def worst_hand(experiment: Experiment, damping: float, world: str) -> tuple[np.ndarray, float]:
    """Rows of the worst hand (see `haptic_drivers.operators.read_table`), and the energy that it should gain [J].

    It acts as long as the trial lasts, or for LONGEST ticks.
    """
    ticks = min(experiment.last_tick + 1, LONGEST)
    forces, gain = worst_forces(parameters_of(experiment, damping, world), *coupling_of(experiment), ticks)
    table = np.zeros((ticks, 7))
    table[:, 0], table[:, 1] = np.arange(ticks) / experiment.rate, FORCE * forces
    return table, FORCE**2 * gain


def variant(trial: Trial, damping: float, world: str, table: np.ndarray) -> Trial:
    """The trial with another damping of the device [N s/m], world and hand, for as long as that acts.

    A wall is a tool on a rail across the push: it does not move along x.
    """
    experiment = trial.experiment
    device = experiment.device
    assert isinstance(device, InertialParameters) and device.damping is not None
    sensed = {"damping": (damping, device.damping[1]), "resolution": (0.0, 0.0), "velocity": "difference"}
    update: dict[str, Any] = {
        "device": device.model_copy(update=sensed),
        "operator": FileParameters(path="the worst hand"),
    }
    if len(table) <= experiment.last_tick:
        update["duration"] = (len(table) - 1) / experiment.rate
    if world == "wall":
        rail = {"joint": "prismatic", "axis": [0, 1, 0], "mass": 1.0, "inertia": [1e-3] * 3,
                "shapes": [{"type": "sphere", "radius": 0.01}]}  # fmt: skip
        scene = {"type": "world", "planar": True, "gravity": [0, 0, 0], "bodies": {"rail": rail}, "tool": "rail"}
        update |= {"tool": NoToolParameters(), "scene": WorldParameters.model_validate(scene)}
        integrator = 2
    else:
        integrator = int(world[-1])
    update["environment"] = experiment.environment.model_copy(update={"integrator": integrator})
    return replace(trial, experiment=experiment.model_copy(update=update), table=table)


def gained(trial: Trial, samples: Samples, damping: float | None = None) -> np.ndarray:
    """Energy that the hand's force has gained by the end of each tick (rows,) [J]; `damping`: of another device."""
    device = trial.experiment.device
    assert isinstance(device, InertialParameters) and device.mass is not None and device.inertia is not None
    assert device.damping is not None
    pair = device.damping if damping is None else (damping, device.damping[1])
    body = InertialDevice(device.mass, device.inertia, trial.hand.pose, planar=trial.hand.planar, damping=pair)
    operator, rendered = samples.wrench("operator"), samples.wrench("rendered")
    places = [body.pose[:3].copy()]
    for one, other in zip(operator, rendered, strict=True):
        body.step(one, other, 1.0 / trial.experiment.rate)
        places.append(body.pose[:3].copy())
    return np.asarray(-np.cumsum(np.sum(operator[:, :3] * np.diff(places, axis=0), axis=1)))


class CouplingWall(Analysis):
    METRICS: ClassVar = {
        "required_damping": Quantity("Damping that the coupling requires of the device (BROWN 8)", "N s/m"),
        "margin": Quantity("Damping of the device less what is required", "N s/m"),
        "gained_energy": Quantity("Energy that the hand has gained in the end", "J"),
        "largest_gain": Quantity("Largest energy that the hand has gained at any time", "J"),
    }
    CLAIMS = (INSIDE, OUTSIDE, PREDICTED)
    SCENES = ("empty",)
    NEEDS: ClassVar = {"device": "inertial", "controller": "virtual_coupling", "tool": "peg"}

    def lacking(self, experiment: Experiment) -> Iterator[str]:
        device = experiment.device
        if isinstance(device, InertialParameters) and (device.damping is None or not device.damping[0] > 0.0):
            found = "null" if device.damping is None else f"{list(device.damping)}"
            yield f"a device with damping, not device.damping = {found}"

    def runs(self, trial: Trial) -> dict[str, tuple[Samples, float, float]]:
        """Samples, damping of the device [N s/m] and predicted gain [J] of each world on each side of its boundary.

        A world whose loop is not stable has none, and is left out.
        """
        found = {}
        for world in WORLDS:
            required = required_damping(trial.experiment, world)
            for side, part in SIDES.items():
                if np.isfinite(required) and required > 0.0:
                    table, gain = worst_hand(trial.experiment, part * required, world)
                    run = self.run_unrecorded(variant(trial, part * required, world, table))
                    found[f"{world}, {side}"] = run, part * required, gain
        return found

    def analyse(self, trial: Trial, samples: Samples, *, compare: bool = True) -> Findings:
        experiment, own = trial.experiment, gained(trial, samples)
        device = experiment.device
        assert isinstance(device, InertialParameters) and device.damping is not None
        required = required_damping(experiment, f"integrator {experiment.environment.integrator}")
        known = np.isfinite(required)
        metrics = {
            "required_damping": required if known else None,
            "margin": device.damping[0] - required if known else None,
            "gained_energy": float(own[-1]),
            "largest_gain": float(max(0.0, own.max())),
        }
        runs = self.runs(trial) if compare else {}
        measured = {name: (gained(trial, run, damping), gain) for name, (run, damping, gain) in runs.items()}
        return Findings(metrics, self.claims(measured), {name: run for name, (run, _, _) in runs.items()})

    def claims(self, measured: Mapping[str, tuple[np.ndarray, float]]) -> list[Claim]:
        """The claims, from the energy that the hand has gained over time (rows,), and what it should gain, by name."""
        most: dict[str, dict[str, float | None]] = {
            side: dict.fromkeys(f"{world}, {side}" for world in WORLDS) for side in SIDES
        }
        deviations: dict[str, float | None] = {name: None for side in SIDES for name in most[side]}
        for name, (energy, gain) in measured.items():
            most[name.rpartition(" ")[2]][name] = float(energy.max())
            deviations[name] = float(abs(energy[-1] - gain) / abs(gain))

        return [
            INSIDE.decided(most["inside"], lambda m: max(m.values()) <= ROUNDING),
            OUTSIDE.decided(most["outside"], lambda m: min(m.values()) > ROUNDING),
            PREDICTED.decided(deviations, lambda m: max(m.values()) <= AS_PREDICTED),
        ]

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        """Energy that the worst hand gains, then wrenches."""
        panels = []
        for side, part in SIDES.items():
            lines = []
            for i, world in enumerate(WORLDS):
                run = findings.references.get(f"{world}, {side}")
                if run is not None:
                    energy = gained(trial, run, part * required_damping(trial.experiment, world))
                    lines.append(Line(run["time"], 1e6 * energy, world, style_of(i)))
            if lines:
                title = f"energy that the worst hand has gained, just {side}"
                panels.append(draw(f"gained_{side}", title, lines, "time [s]", "energy [uJ]"))
        own = [Line(samples["time"], 1e6 * gained(trial, samples), "this run", Style())]
        panels.append(draw("gained", "energy that the hand of this run has gained", own, "time [s]", "energy [uJ]"))
        caption = (
            f"Energy of the hand at the port of a device with {100 * BESIDE:g} % more and less damping than BROWN (8) "
            "requires of it with a wall, and with a mass by each integrator."
        )
        shown = [panel for panel in panels if not panel.empty]
        return [
            Figure("Energy at the port", caption, shown),
            *trial_figures([Curve("this run", trial, samples, Style())]),
        ]


ANALYSIS = CouplingWall()
