"""A stack of boxes without external force: how far it creeps, and whether it gains energy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from haptic_bench.analysis.base import Analysis, scene_as
from haptic_bench.analysis.claims import Findings, Quantity, Statement
from haptic_bench.analysis.figures import Curve, energy_figure
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_sim.worlds.scenes import GRAVITY, StackParameters
from haptic_view.figures import BLUE, VERMILION, Axis, Figure, Line, Style, draw, shown, style_of

DRIFT = 1e-4  # [m] up to which a stack stands
GAIN = 1e-10  # of the potential energy above the floor: what the tolerance of the solver may leave in a step
FORCE_ERROR = 1e-3  # of the weight
DRAWN = 6  # boxes, the lowest and the uppermost among them

METRICS = {
    "max_drift": Quantity("Largest displacement of a box from its start", "µm", 1e6, lambda case: case.largest),
    "max_tilt": Quantity("Largest rotation of a box from its start", "µrad", 1e6, lambda case: float(case.tilt.max())),
    "final_drift": Quantity(
        "Largest displacement of a box at the end", "µm", 1e6, lambda case: float(case.total[-1].max())
    ),
    "energy_gain": Quantity("Largest gain of energy in a step", "nJ", 1e9, lambda case: case.gain),
    "top_support": Quantity(
        "Force that carries the uppermost box, mean of the last half", "N", of=lambda case: case.support
    ),
}
STANDS = Statement(
    "stands",
    f"No box moves by more than {1e3 * DRIFT:g} mm",
    "ours",
    Quantity("displacement and how much is allowed", "µm", 1e6),
    of=lambda case: {"drift": case.largest, "allowed": DRIFT},
    holds=lambda m: m["drift"] <= m["allowed"],
    when=lambda case: case.gain is not None,
)
PASSIVE = Statement(
    "energy_never_grows",
    "No step adds energy",
    "Stewart and Trinkle 1996",
    Quantity("largest gain of energy in a step, and what the solver's tolerance allows", "nJ", 1e9),
    of=lambda case: {"gain": case.gain, "allowed": GAIN * case.stored},
    holds=lambda m: m["gain"] <= m["allowed"],
    when=lambda case: case.unloaded,
)
CARRIED = Statement(
    "carries_its_weight",
    f"The force on the uppermost box is its weight, to {100 * FORCE_ERROR:g} %",
    "equilibrium",
    Quantity("on the uppermost box", "N"),
    of=lambda case: {"force": case.support, "weight": case.weight},
    holds=lambda m: abs(m["force"] - m["weight"]) <= FORCE_ERROR * m["weight"],
    when=lambda case: case.unloaded,
)
CLAIMS = (STANDS, PASSIVE, CARRIED)
scene_of = partial(scene_as, kind=StackParameters)


@dataclass(frozen=True)
class Drift:
    """Motion of a stack.

    Attributes:
        time: [s], (rows,).
        across, along: displacement of each box from its start, horizontal and upward [m], (rows, boxes).
        tilt: rotation of each from its start [rad], (rows, boxes).
        energy: of the stack [J], (rows,).
        support: mean force on the uppermost box in the last half [N]; None of one row.
        weight: of a box [N].
        stored: potential energy of the stack above the floor [J].
        unloaded: whether nobody pushes.
    """

    time: np.ndarray
    across: np.ndarray
    along: np.ndarray
    tilt: np.ndarray
    energy: np.ndarray
    support: float | None
    weight: float
    stored: float
    unloaded: bool

    @classmethod
    def of(cls, trial: Trial, samples: Samples) -> Drift:
        """Drift from the samples of a trial."""
        scene = scene_of(trial.experiment)
        boxes, weight = scene.boxes, scene.mass * GRAVITY
        q = np.stack([samples[f"q{i}"] for i in range(7 * boxes)], axis=-1).reshape(-1, boxes, 7)
        moved = q[:, :, :3] - q[0, :, :3]
        # Between two quaternions that differ little the angle is that of their difference; the arc cosine sees none.
        turned = np.minimum(
            np.linalg.norm(q[:, :, 3:] - q[0, :, 3:], axis=-1), np.linalg.norm(q[:, :, 3:] + q[0, :, 3:], axis=-1)
        )
        names = ("kinetic", "potential", "elastic")
        half = samples["env_fz"][len(samples) // 2 :]
        return cls(
            time=samples["time"],
            across=np.hypot(moved[:, :, 0], moved[:, :, 1]),
            along=moved[:, :, 2],
            tilt=4.0 * np.arcsin(np.minimum(0.5 * turned, 1.0)),
            energy=np.sum([samples[f"energy_{name}"] for name in names], axis=0),
            support=float(half.mean()) if len(samples) > 1 else None,
            weight=weight,
            stored=weight * scene.side * boxes**2 / 2,  # of n boxes, whose middles are at (i + 1/2) side
            unloaded=not any(getattr(trial.experiment.operator, "wrench", (1.0,))),
        )

    @property
    def total(self) -> np.ndarray:
        """Displacement of each box from its start [m], (rows, boxes)."""
        return np.hypot(self.across, self.along)

    @property
    def largest(self) -> float:
        """Largest drift of all boxes and rows [m]."""
        return float(self.total.max())

    @property
    def gain(self) -> float | None:
        """Largest gain of energy in a step [J]."""
        return float(np.diff(self.energy).max()) if self.energy.size > 1 else None


class Stack(Analysis):
    SCENES = ("stack",)
    METRICS = METRICS
    CLAIMS = CLAIMS

    def case(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> Drift:
        return Drift.of(trial, samples)

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        own = Curve("this run", trial, samples, Style(BLUE))
        return shown(_boxes(own), energy_figure([own]))

    def sweep_figures(self, curves: Sequence[Curve]) -> list[Figure]:
        return shown(_runs(curves), energy_figure(curves))

    def expected(self, trial: Trial, findings: Findings) -> Mapping[str, tuple[float, str]]:
        """The weight of the uppermost box."""
        return {"top_support": (scene_of(trial.experiment).mass * GRAVITY, "its weight")}


def _unit(largest: float) -> tuple[str, float]:
    """Unit for lengths up to `largest` [m], and the number of these units in a metre."""
    units = (("mm", 1e3), ("µm", 1e6), ("nm", 1e9))
    return next(((unit, scale) for unit, scale in units if largest * scale >= 0.1), ("pm", 1e12))


def _boxes(curve: Curve) -> Figure:
    """The drift of some boxes over time, and of all at the end."""
    drift = Drift.of(curve.trial, curve.samples)
    boxes = drift.total.shape[1]
    unit, scale = _unit(float(drift.total.max()))
    chosen = np.unique(np.linspace(0, boxes - 1, min(DRAWN, boxes)).round().astype(int))[::-1]
    styles = [style_of(i) for i in range(chosen.size)]
    number = np.arange(1, boxes + 1, dtype=float)
    panels = []
    for letter, name, values in (("a", "sideways", drift.across), ("b", "upward", drift.along)):
        lines = [
            Line(drift.time, scale * values[:, i], f"box {i + 1}", style)
            for i, style in zip(chosen, styles, strict=True)
        ]
        axis = f"displacement {name} [{unit}]"
        panels.append(draw(f"drift_{name}", f"({letter}) {name}", lines, "time [s]", Axis(axis, least=1e-3)))
    profile = [
        Line(scale * drift.across[-1], number, "sideways", Style(BLUE), points=True),
        Line(scale * drift.along[-1], number, "upward", Style(VERMILION), points=True),
    ]
    axes = (f"displacement [{unit}]", Axis("box, from below", counts=True))
    panels.append(draw("profile", "(c) all boxes at the end", profile, *axes))
    tilts = [
        Line(drift.time, 1e6 * drift.tilt[:, i], f"box {i + 1}", style) for i, style in zip(chosen, styles, strict=True)
    ]
    panels.append(draw("tilt", "(d) rotation", tilts, "time [s]", Axis("rotation [µrad]", least=1e-6)))
    text = "Displacement of the boxes from where they started. Box 1 stands on the floor."
    return Figure("Drift", text, panels)


def _runs(curves: Sequence[Curve]) -> Figure:
    drifts = [Drift.of(curve.trial, curve.samples) for curve in curves]
    unit, scale = _unit(max(float(drift.total.max()) for drift in drifts))
    over_time = [
        Line(drift.time, scale * drift.total.max(axis=1), curve.label, curve.style)
        for drift, curve in zip(drifts, curves, strict=True)
    ]
    top = [
        Line(drift.time, scale * drift.along[:, -1], curve.label, curve.style)
        for drift, curve in zip(drifts, curves, strict=True)
    ]
    panels = [
        draw("drift", "(a) box that moved most", over_time, "time [s]", Axis(f"displacement [{unit}]", least=1e-3)),
        draw("top", "(b) uppermost box", top, "time [s]", Axis(f"displacement upward [{unit}]", least=1e-3)),
    ]
    table = [["", "largest drift [µm]", "largest rotation [µrad]", "gain in a step [nJ]"]]
    for drift, curve in zip(drifts, curves, strict=True):
        numbers = (1e6 * drift.total.max(), 1e6 * drift.tilt.max(), 1e9 * (drift.gain or 0.0))
        table.append([curve.label, *(f"{x:.4g}" for x in numbers)])
    return Figure("Drift", "Displacement of the boxes from where they started.", panels, table)


ANALYSIS = Stack()
