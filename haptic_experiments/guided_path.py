"""A hand that is guided along a curve, through oil and past a forbidden ball: what fields do, and their energy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np

from haptic_bench.analysis.base import Analysis, scene_as
from haptic_bench.analysis.claims import Findings, Quantity, Statement
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_sim.fields.acting import Field
from haptic_sim.fields.distances import signed_distance
from haptic_sim.fields.kinds import ForbiddenParameters, GuideParameters, ViscousParameters
from haptic_sim.fields.targets import find_distance
from haptic_sim.worlds.parameters import WorldParameters
from haptic_view.figures import BLUE, GREEN, ORANGE, VERMILION, Axis, Figure, Line, Style, draw, thin

KINDS = {"guide": GuideParameters, "oil": ViscousParameters, "ball": ForbiddenParameters}
UNGUIDED, FREE = "without the guide", "without fixtures"
LESS = 0.5  # of the deviation without the guide
DEEP = 0.3  # of the depth without the forbidden ball
OIL = 0.02  # part of the energy in which what is dissipated may differ from the closed form
NUMERICAL = 0.02  # of the energy that the hand has given
_HEAD = 10  # numbers of the guide's law before those of its curve

GUIDES = Statement(
    "guides",
    "With the guide the tool stays at less than half of the distance from the curve that it has without it",
    "Rosenberg 1993",
    Quantity("largest distance from the curve [m]"),
)
KEEPS_OUT = Statement(
    "keeps_out",
    "Without the guide the tool enters the forbidden ball by less than 0.3 of what it does without fixtures",
    "Rosenberg 1993",
    Quantity("largest depth [m]"),
)
DISSIPATES = Statement(
    "oil_dissipates",
    "What is dissipated is b |v|^2 integrated over the path in the oil: to 2 %",
    "closed form",
    Quantity("energy [J]"),
)
CONSERVES = Statement(
    "fixtures_conserve",
    "Guide and forbidden ball add no energy: discrete time changes it by less than 2 % of what the hand gave",
    "closed form",
    Quantity("largest numerical energy, and energy that the hand gave [J]"),
)


class GuidedPath(Analysis):
    METRICS: ClassVar = {
        "deviation": Quantity("Largest distance of the tool from the curve", "mm", 1e3),
        "depth": Quantity("Largest depth of the tool in the forbidden ball", "mm", 1e3),
        "dissipated": Quantity("Energy that the oil dissipated", "mJ", 1e3),
        "largest_guidance": Quantity("Largest force of the fields on the tool", "N"),
    }
    CLAIMS = (GUIDES, KEEPS_OUT, DISSIPATES, CONSERVES)
    SCENES = ("world",)

    def lacking(self, experiment: Experiment) -> Iterator[str]:
        fields = scene_as(experiment, WorldParameters).fields
        if any(not isinstance(fields.get(name), kind) for name, kind in KINDS.items()) or experiment.asynchronous:
            yield "the fields guide, oil and ball, and an environment without a local model"

    def variants(self, trial: Trial, samples: Samples) -> dict[str, Trial]:
        """The same hand without the guide, and without the forbidden ball, too."""
        return {UNGUIDED: _without(trial, "guide"), FREE: _without(trial, "guide", "ball")}

    def judge(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> Findings:
        guide, oil, ball = (_field(trial, name) for name in KINDS)
        own = _path(samples)
        deviation, depth = _deviation(guide, own), _depth(ball, own)
        dissipated = float(samples["energy_damping"][-1])
        expected = _dissipated(trial, oil, samples)
        unguided, free = references.get(UNGUIDED), references.get(FREE)
        strengths = trial.experiment.environment.fields
        whole = all(strengths.get(name, 1.0) == 1.0 for name in KINDS)
        without = None if unguided is None else _deviation(guide, _path(unguided))
        kept = None if unguided is None else _depth(ball, _path(unguided))
        deep = None if free is None else _depth(ball, _path(free))
        runs = [samples, *(run for run in (unguided, free) if run is not None)]
        numerical = max(float(np.abs(run["energy_numerical"]).max()) for run in runs)
        given = float(samples["energy_injected"].max())
        metrics: dict[str, float | None] = {
            "deviation": deviation,
            "depth": depth,
            "dissipated": dissipated,
            "largest_guidance": float(np.linalg.norm(_forces(samples), axis=1).max()),
        }
        claims = [
            GUIDES.judged(
                {"guided": deviation, "without": without},
                deviation < LESS * without if whole and without is not None else None,
            ),
            KEEPS_OUT.judged(
                {"with the ball": kept, "without": deep},
                kept < DEEP * deep if kept is not None and deep else None,
            ),
            DISSIPATES.judged(
                {"dissipated": dissipated, "closed form": expected},
                abs(dissipated - expected) <= OIL * expected if whole and expected > 0.0 else None,
            ),
            CONSERVES.judged(
                {"numerical": numerical, "given": given}, numerical <= NUMERICAL * given if given > 0.0 else None
            ),
        ]
        return Findings(metrics, claims)

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        curve = _field(trial, "guide").drawn.points
        (ball,) = _field(trial, "ball").drawn.shapes
        turn = np.linspace(0.0, 2.0 * np.pi, 97)
        paths = [Line(curve[:, 0], curve[:, 1], "curve of the guide", Style("#8a8f98", (5, 1.8), 2.0))]
        if ball.type == "sphere":
            x, y = ball.position[0] + ball.radius * np.cos(turn), ball.position[1] + ball.radius * np.sin(turn)
            paths.append(Line(x, y, "forbidden ball", Style(VERMILION)))
        shown = {
            "this run": (samples, BLUE),
            **{
                label: (findings.references[label], colour)
                for label, colour in ((UNGUIDED, GREEN), (FREE, ORANGE))
                if label in findings.references
            },
        }
        for label, (run, colour) in shown.items():
            path = _path(run)
            paths.append(Line(*thin(path[:, 0], path[:, 1]), label, Style(colour, width=1.8)))
        time, force = samples["time"], _forces(samples)
        energies = [
            Line(*thin(time, samples[f"energy_{name}"]), text, Style(colour))
            for name, text, colour in (
                ("elastic", "stored by the fields", BLUE),
                ("damping", "dissipated by the oil", GREEN),
                ("injected", "given by the hand", ORANGE),
            )
        ]
        panels = [
            draw("paths", "(a) tool, from above", paths, "x [m]", Axis("y [m]", least=0.05), equal=True),
            draw(
                "forces",
                "(b) force of the fields",
                [
                    Line(*thin(time, force[:, i]), name, Style(colour))
                    for i, (name, colour) in enumerate((("x", BLUE), ("y", VERMILION), ("z", GREEN)))
                ],
                "time [s]",
                Axis("force [N]", least=0.1),
            ),
            draw("energies", "(c) energy", energies, "time [s]", Axis("energy [J]", least=0.01)),
        ]
        text = "The hand moves straight; the guide leads the tool along the curve around the forbidden ball."
        return [Figure("Guided path", text, panels), *super().figures(trial, samples, findings)]


def _without(trial: Trial, *names: str) -> Trial:
    """The same trial with some fields off."""
    environment = trial.experiment.environment
    fields = {**environment.fields, **dict.fromkeys(names, 0.0)}
    changed = environment.model_copy(update={"fields": fields})
    return replace(trial, experiment=trial.experiment.model_copy(update={"environment": changed}))


def _field(trial: Trial, name: str) -> Field:
    return next(one for one in trial.world.force_fields if one.name == name)


def _path(samples: Samples) -> np.ndarray:
    """Positions of the tool (rows, 3) [m]."""
    return np.stack([samples[f"tool_p{axis}"] for axis in "xyz"], axis=-1)


def _forces(samples: Samples) -> np.ndarray:
    """Forces on the tool (rows, 3) [N]; the world has no contacts."""
    return np.stack([samples[f"env_f{axis}"] for axis in "xyz"], axis=-1)


def _deviation(guide: Field, path: np.ndarray) -> float:
    """Largest distance from the curve of the guide [m]."""
    return max(float(find_distance(guide.keys, _HEAD, p)[0]) for p in path)


def _depth(ball: Field, path: np.ndarray) -> float:
    """Largest depth in the forbidden shape [m]."""
    return max(0.0, *(-float(signed_distance(ball.keys, _HEAD + 1, *p.tolist())[0]) for p in path))


def _dissipated(trial: Trial, oil: Field, samples: Samples) -> float:
    """b |v|^2 integrated over time, with the part of the field that acts at each depth [J]."""
    path, velocity = _path(samples), np.stack([samples[f"tool_v{axis}"] for axis in "xyz"], axis=-1)
    depth = np.array([-signed_distance(oil.region, 0, *p.tolist())[0] if oil.region.size else oil.edge for p in path])
    z = np.clip(depth / oil.edge, 0.0, 1.0)
    power = oil.keys[0] * z * z * (3.0 - 2.0 * z) * np.sum(velocity * velocity, axis=1)
    return float(power.sum() / trial.experiment.rate)


ANALYSIS = GuidedPath()
