"""A linkage held by its distal and by its middle link: does the device stay with the tool (THESIS 5.4.1)?

The device is made to accelerate as the held link does. Four controllers are compared for each held link: the printed
law and the consistent law, which includes the terms of velocity and gravity that the printed law leaves out, each
without and with penalties along the directions in which the linkage blocks the hand.

THESIS says that penalties reduce the drift substantially. Here this means: to at most half.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple, get_args

import numpy as np

from haptic_bench.analysis.base import Analysis
from haptic_bench.analysis.claims import Findings, Quantity, Statement
from haptic_bench.analysis.figures import Curve, energy_figure, trial_figures
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_control.shaping import ShapingParameters
from haptic_experiments.common.linkage_motion import held_columns
from haptic_sim.worlds.scenes import ThreeLinksParameters
from haptic_view.figures import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    VERMILION,
    Axis,
    Figure,
    Line,
    Panel,
    Style,
    draw,
    shown,
    thin,
)

Hold = Literal["proximal", "middle", "distal"]
Dynamics = Literal["printed", "consistent"]

HORIZON = 10.0  # [s] of a trial that is compared
FIRST, SECOND = 1.0, 2.0  # [s] when the drift is reported
SUBSTANTIAL = 0.5  # part of a drift that is left at most where it is reduced substantially
NEGLIGIBLE = 0.01  # of the drift of the printed law: less than that is nothing to reduce
COLUMNS = ("constraint_directions", "singular_value_0", "drift", "turn")
METRICS = {
    "drift_1s": Quantity("Distance of the hand from the tool after 1 s", "mm", 1e3),
    "drift_2s": Quantity("Distance of the hand from the tool after 2 s", "mm", 1e3),
    "drift_largest": Quantity("Largest distance of the hand from the tool", "mm", 1e3),
    "turn_largest": Quantity("Largest angle between the hand and the tool", "deg", 180.0 / np.pi),
    "blocked_part": Quantity("Part of the time in which the linkage blocks the hand in a direction", "%", 1e2),
}


DRIFT = Quantity("distance of the hand from the tool after 2 s", "mm", 1e3)


def reduced_statement(hold: Hold, dynamics: Dynamics, source: str) -> Statement:
    """The statement that penalties substantially reduce the drift of a held link under a law."""
    law = {"printed": "the law as printed", "consistent": "the consistent law"}[dynamics]
    text = f"Held by its {hold} link, penalties reduce the drift of {law} substantially: to at most a half"
    return Statement(
        f"{dynamics}_{hold}",
        text,
        source,
        DRIFT,
        of=lambda case: case.pair(hold, dynamics),
        holds=lambda m: m["with penalties"] <= SUBSTANTIAL * m["without penalties"],
    )


def spared_statement(hold: Hold) -> Statement:
    """The statement that the consistent law leaves no drift for penalties to reduce."""
    text = (
        f"Held by its {hold} link, the consistent law leaves nothing for penalties to reduce: with or without them it "
        f"drifts at most {100 * NEGLIGIBLE:g} % as far as the printed law without"
    )
    return Statement(
        f"consistent_{hold}",
        text,
        "errata of THESIS, 9",
        DRIFT,
        of=lambda case: {"printed law": case.drift(hold, "printed"), **case.pair(hold, "consistent")},
        holds=lambda m: max(m["without penalties"], m["with penalties"]) <= NEGLIGIBLE * m["printed law"],
    )


def missing_statement(hold: Hold) -> Statement:
    """The statement that the printed law drifts because of its missing terms."""
    text = f"Held by its {hold} link, most of the drift without penalties is of the terms missing in (5.15)"
    return Statement(
        "missing_terms",
        text,
        "errata of THESIS, 9",
        DRIFT,
        of=lambda case: {f"{law} law": case.drift(hold, law) for law in get_args(Dynamics)},
        holds=lambda m: m["consistent law"] < 0.5 * m["printed law"],
    )


@dataclass(frozen=True)
class Variant:
    """Held link of a trial, and settings of its controller."""

    hold: Hold
    dynamics: Dynamics
    penalty: bool

    @classmethod
    def of(cls, trial: Trial) -> Variant:
        """The variant of a trial."""
        tool, controller = parts_of(trial.experiment)
        return cls(tool.hold, controller.dynamics, controller.topology_penalty)

    @property
    def key(self) -> tuple[Dynamics, bool]:
        """The controller, as in CONTROLS."""
        return self.dynamics, self.penalty

    @property
    def control(self) -> str:
        """The controller in words."""
        return f"{self.dynamics} law, {'with' if self.penalty else 'without'} penalties"

    def __str__(self) -> str:
        return f"{self.hold} link, {self.control}"

    def trial(self, trial: Trial, duration: float) -> Trial:
        """The trial with this variant's settings."""
        tool, controller = parts_of(trial.experiment)
        update = {"dynamics": self.dynamics, "topology_penalty": self.penalty}
        sections = {
            "tool": tool.model_copy(update={"hold": self.hold}),
            "controller": controller.model_copy(update=update),
            "duration": duration,
        }
        return replace(trial, experiment=trial.experiment.model_copy(update=sections))


CONTROLS: tuple[tuple[Dynamics, bool], ...] = tuple(
    (dynamics, penalty) for dynamics in get_args(Dynamics) for penalty in (False, True)
)
STYLES: dict[tuple[Dynamics, bool], Style] = {
    ("printed", False): Style(VERMILION, (5, 1.8)),
    ("printed", True): Style(ORANGE),
    ("consistent", False): Style(BLUE, (5, 1.8)),
    ("consistent", True): Style(GREEN),
}


def parts_of(experiment: Experiment) -> tuple[ThreeLinksParameters, ShapingParameters]:
    """Tool and controller of an experiment that the analysis has accepted."""
    tool, controller = experiment.tool, experiment.controller
    if not (isinstance(tool, ThreeLinksParameters) and isinstance(controller, ShapingParameters)):
        raise TypeError(f"{experiment.name}: is not an experiment of analysis = {experiment.analysis}")
    return tool, controller


def drift_at(samples: Samples, time: float) -> float | None:
    """Distance of the hand from the tool [m]; None if the run is shorter."""
    row = int(np.searchsorted(samples["time"], time - 1e-9))
    return float(samples["drift"][row]) if row < len(samples) else None


class Compared(NamedTuple):
    """The case of a claim: a trial, the variants, of which it is one, and what else it is compared with, by name."""

    trial: Trial
    runs: Mapping[Variant, Samples]
    others: Mapping[str, Samples]

    def drift(self, hold: Hold, dynamics: Dynamics, penalty: bool = False, time: float = SECOND) -> float | None:
        """Distance of the hand from the tool in a variant [m]; None if the run is missing or shorter."""
        run = self.runs.get(Variant(hold, dynamics, penalty))
        return None if run is None else drift_at(run, time)

    def pair(self, hold: Hold, dynamics: Dynamics) -> dict[str, float | None]:
        """Drifts of a law without and with penalties [m]."""
        return {"without penalties": self.drift(hold, dynamics), "with penalties": self.drift(hold, dynamics, True)}


class LinkageTopology(Analysis):
    METRICS = METRICS
    CLAIMS: ClassVar[Sequence[Statement]] = (
        reduced_statement("distal", "printed", "THESIS 5.4.1, figure 5.7"),
        reduced_statement("middle", "printed", "THESIS 5.4.1, figure 5.8"),
        reduced_statement("middle", "consistent", "THESIS 5.4.1, corrected as of errata 9"),
        spared_statement("distal"),
        missing_statement("distal"),
    )
    SCENES = ("empty",)
    NEEDS: ClassVar = {"tool": "three_links", "controller": "impedance_shaping"}
    HOLDS: ClassVar[tuple[Hold, ...]] = ("distal", "middle")
    FIGURES: ClassVar[Mapping[str, str]] = {"distal": "figure 5.7", "middle": "figure 5.8"}
    """Published figure of each held link."""
    LETTERS = "(a) stands for its (a), (b) for its (b)"
    START = "figure 5.5"

    def columns(self, trial: Trial, samples: Samples) -> Mapping[str, np.ndarray]:
        """`drift` [m] and `turn` [rad] of the hand from the tool; number of directions of topological constraint."""
        if not len(samples):
            return {}
        table = held_columns(trial, samples)
        return {name: table[name] for name in COLUMNS}

    def combinations(self, trial: Trial) -> list[Variant]:
        """The variants that are compared, that of the trial first."""
        own = Variant.of(trial)
        holds = dict.fromkeys((own.hold, *self.HOLDS))
        return list(dict.fromkeys([own, *(Variant(hold, *control) for hold in holds for control in CONTROLS)]))

    def analyse(self, trial: Trial, samples: Samples, *, compare: bool = True) -> Findings:
        """References are the other controllers, and the other held link with all of them."""
        own, *others = self.combinations(trial)
        lasted = min(float(samples["time"][-1]), HORIZON)
        runs = {own: samples, **self.run_all({one: one.trial(trial, lasted) for one in others if compare})}
        beside = self.beside(trial, samples) if compare else {}
        metrics = {
            "drift_1s": drift_at(samples, FIRST),
            "drift_2s": drift_at(samples, SECOND),
            "drift_largest": float(samples["drift"].max()),
            "turn_largest": float(samples["turn"].max()),
            "blocked_part": float(np.mean(samples["constraint_directions"] > 0)),
        }
        claims = [one.claim(Compared(trial, runs, beside)) for one in self.CLAIMS]
        return Findings(metrics, claims, {str(name): runs[name] for name in others if name in runs} | beside)

    def beside(self, trial: Trial, samples: Samples) -> dict[str, Samples]:
        """Further runs with which a trial is compared, by name."""
        return {}

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        own, *others = self.combinations(trial)
        runs = {own: samples} | {v: findings.references[str(v)] for v in others if str(v) in findings.references}
        holds = list(dict.fromkeys(variant.hold for variant in runs))
        return shown(
            *(self._paths(trial, runs, hold, own) for hold in holds),
            self._drifts(runs, holds, own),
            self._arms(trial, runs, holds, own),
            *trial_figures([Curve("this run", trial, samples, Style())])[1:2],
            energy_figure([Curve("this run", trial, samples, Style())]),
        )

    def _paths(self, trial: Trial, runs: Mapping[Variant, Samples], hold: Hold, own: Variant) -> Figure:
        """Trajectories of the hand on the device and in the simulation, as figures 5.7, 5.8, 5.10, 5.11."""
        panels = []
        shown = [Variant(hold, *control) for control in CONTROLS if Variant(hold, *control) in runs]
        for letter, variant in zip("abcd", shown, strict=False):
            run = runs[variant]
            tool, hand = (1e3 * run.group(body, "px", "py") for body in ("tool", "hand"))
            start = np.array([tool[0], hand[0]])
            lines = [
                Line(start[:, 0], start[:, 1], "start", Style(BLACK), points=True),
                Line(hand[:, 0], hand[:, 1], "hand on the device", Style(VERMILION, (5, 1.8))),
                Line(tool[:, 0], tool[:, 1], "hand of the tool", Style(BLUE, width=2.6)),
            ]
            title = f"({letter}) {variant.control}" + (", this run" if variant == own else "")
            name = f"path_{hold}_{variant.dynamics}_{'penalties' if variant.penalty else 'free'}"
            panels.append(draw(name, title, lines, "x [mm]", Axis("y [mm]", least=10.0), equal=True))
        where = self.FIGURES.get(hold)
        caption = "Trajectories of the user's hand on the device and of the held link in the simulation"
        caption += f", beside {where} of THESIS: {self.LETTERS}." if where else "."
        return Figure(f"Held by the {hold} link", caption, panels)

    def _drifts(self, runs: Mapping[Variant, Samples], holds: Sequence[Hold], own: Variant) -> Figure:
        """Distance of hand and tool, and how many directions are blocked."""
        panels: list[Panel] = []
        for hold in holds:
            of = {variant: run for variant, run in runs.items() if variant.hold == hold}
            for name, title, column, label, scale in (
                ("drift", "distance of hand and tool", "drift", "distance [mm]", 1e3),
                ("directions", "directions of topological constraint", "constraint_directions", "number", 1.0),
            ):
                counts = scale == 1.0
                lines = [
                    Line(
                        *thin(run["time"], scale * run[column]),
                        variant.control,
                        STYLES[variant.key],
                        steps=counts,
                    )
                    for control in CONTROLS
                    for variant, run in of.items()
                    if variant.key == control
                ]
                letter = "abcdef"[len(panels)]
                title = f"({letter}) {hold} link: {title}"
                panels.append(
                    draw(
                        f"{name}_{hold}",
                        title,
                        lines,
                        "time [s]",
                        Axis(label, counts=counts, least=0.0 if counts else 1e-2),
                    )
                )
        ordered = sorted(runs.items(), key=lambda one: (holds.index(one[0].hold), CONTROLS.index(one[0].key)))
        head = ["Distance of hand and tool [mm]", "start", "1 s", "2 s", "largest"]
        rows = [
            [
                str(variant) + (" (this run)" if variant == own else ""),
                *(_millimetres(drift_at(run, time)) for time in (0.0, FIRST, SECOND)),
                _millimetres(float(run["drift"].max())),
            ]
            for variant, run in ordered
        ]
        caption = (
            "Without penalties nothing returns the device to the linkage's manifold along the directions in which the "
            "linkage blocks the hand; in the other directions the coordination does. The law as printed leaves the "
            "manifold also by itself, as it lacks the acceleration that the tool's hand has without force."
        )
        return Figure("Drift", caption, panels, [head, *rows])

    def _arms(self, trial: Trial, runs: Mapping[Variant, Samples], holds: Sequence[Hold], own: Variant) -> Figure:
        """The linkage at the start, and while it is moved."""
        tool, _ = parts_of(trial.experiment)
        panels = []
        for letter, hold in zip("abc", holds, strict=False):
            variant = own if own.hold == hold else replace(own, hold=hold)
            if variant not in runs:
                continue
            run = runs[variant]
            joints = 1e3 * _joints(tool, np.stack([run[f"q{i}"] for i in range(3)], axis=-1))
            lines = [Line(joints[0, :, 0], joints[0, :, 1], "at the start", Style(BLACK, width=2.4))]
            later = np.linspace(0, len(run) - 1, 9).astype(int)[1:]
            for i, row in enumerate(later):
                label = f"every {run['time'][later[0]]:.3g} s" if i == len(later) - 1 else "_"  # named once
                lines.append(
                    Line(joints[row, :, 0], joints[row, :, 1], label, Style(_grey(i / (len(later) - 1)), width=1.2))
                )
            path = 1e3 * run.group("tool", "px", "py")
            lines.append(Line(path[:, 0], path[:, 1], "hand of the tool", Style(BLUE)))
            title = f"({letter}) held by the {hold} link"
            panels.append(draw(f"arm_{hold}", title, lines, "x [mm]", Axis("y [mm]", least=10.0), equal=True))
        return Figure("The linkage", f"Positions of the linkage, {own.control}, beside {self.START} of THESIS.", panels)

    def sweep_figures(self, curves: Sequence[Curve]) -> list[Figure]:
        """Drift, directions and trajectories of all runs."""
        panels = []
        for name, title, column, label, scale in (
            ("drift", "(a) distance of hand and tool", "drift", "distance [mm]", 1e3),
            ("directions", "(b) directions of topological constraint", "constraint_directions", "number", 1.0),
        ):
            lines = [
                Line(*thin(c.samples["time"], scale * c.samples[column]), c.label, c.style, steps=scale == 1.0)
                for c in curves
            ]
            panels.append(draw(name, title, lines, "time [s]", Axis(label, counts=scale == 1.0)))
        return [Figure("Drift", "Distance of the hand from the tool.", panels), *trial_figures(curves)]


def _grey(part: float) -> str:
    """Grey for `part` from 0, light, to 1, dark."""
    return "#" + f"{round(205 - 85 * part):02x}" * 3


def _joints(tool: ThreeLinksParameters, q: np.ndarray) -> np.ndarray:
    """Positions of the base, the joints after it and the tip of each row of joint angles [m], (n, 4, 2)."""
    angles = np.cumsum(q, axis=1)
    steps = np.stack([np.cos(angles), np.sin(angles)], axis=-1) * np.array(tool.lengths)[:, None]
    points = np.concatenate([np.zeros((len(q), 1, 2)), np.cumsum(steps, axis=1)], axis=1)
    return np.asarray(points + np.array(tool.base))


def _millimetres(value: float | None) -> str:
    return "" if value is None else f"{1e3 * value:.3f}"


ANALYSIS = LinkageTopology()
