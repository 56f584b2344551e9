"""A peg in a square hole that MuJoCo simulates: the hand feels the walls where they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.analysis.figures import BLACK, BLUE, Figure, Line, Style, draw, thin
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments.common.mujoco_worlds import PASSIVE, MujocoAnalysis, judge_passive, scene_of
from haptic_sim.worlds.compiled import library
from haptic_sim.worlds.mujoco_files import load

SIDES = {"x": ("left", "right"), "y": ("front", "back")}  # names of the geoms in the file, boxes along the axes
BOTTOM, PEG = "bottom", "peg"
INSIDE = 0.5  # of the hole's depth, from which on the peg counts as in it
EXTRA = 1e-4  # [m] beyond what the stiffness explains
FELT_WALLS = Statement(
    "walls",
    "In the hole, the hand moves by the clearance, and by what contacts and hand yield under the force: at most "
    f"{1e3 * EXTRA:g} mm more",
    "geometry; what is allowed is chosen",
    Quantity("motion of the hand between two walls", "mm", 1e3),
)
FELT_BOTTOM = Statement(
    "bottom",
    f"The hand feels the bottom where it is, but for the depth F / K of the contact, to {1e3 * EXTRA:g} mm",
    "geometry; what is allowed is chosen",
    Quantity("way of the hand into the hole", "mm", 1e3),
)


class Hole:
    """Where the walls are, along the axes of the world [m].

    Attributes:
        play: between the peg and two walls, by axis.
        way: of the peg from its start to the bottom; half: half of its length.

    Raises:
        KeyError: a geom is not there.
    """

    def __init__(self, experiment: Experiment):
        model, data = load(scene_of(experiment))
        library().mj_kinematics(model, data)
        peg = model.geom(PEG)
        start = model.body(int(peg.bodyid[0])).pos
        size = np.abs(data.geom(PEG).xmat.reshape(3, 3)) @ model.geom_aabb[peg.id, 3:]  # half of it
        self.play = {}
        for axis, (low, high) in SIDES.items():
            k = "xyz".index(axis)
            self.play[axis] = _face(model, high, k, -1.0) - _face(model, low, k, 1.0) - 2.0 * float(size[k])
        self.half = float(size[2])
        self.way = float(start[2]) - self.half - _face(model, BOTTOM, 2, 1.0)
        self.depth = _face(model, SIDES["x"][0], 2, 1.0) - _face(model, BOTTOM, 2, 1.0)
        self.above = self.way - self.depth


def _face(model: Any, name: str, axis: int, side: float) -> float:
    """Where a face of a box is along an axis [m]."""
    geom = model.geom(name)
    return float(model.body(int(geom.bodyid[0])).pos[axis] + geom.pos[axis] + side * geom.size[axis])


class MujocoPeg(MujocoAnalysis):
    METRICS = MujocoAnalysis.METRICS | {
        "felt_clearance_x": Quantity("Motion of the hand along x in the hole", "mm", 1e3),
        "felt_clearance_y": Quantity("Motion of the hand along y in the hole", "mm", 1e3),
        "felt_depth": Quantity("Largest way of the hand into the hole", "mm", 1e3),
    }
    CLAIMS = (FELT_WALLS, FELT_BOTTOM, PASSIVE)

    def check(self, experiment: Experiment) -> list[str]:
        """The file has peg and walls."""
        problems = super().check(experiment)
        if not problems:
            try:
                Hole(experiment)
            except KeyError as error:
                problems.append(
                    f"analysis = {experiment.analysis}: {scene_of(experiment).file}: {error.args[0]}; "
                    "set analysis=trial"
                )
        return problems

    def judge(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> Findings:
        hole, down = Hole(trial.experiment), way_down(samples)
        rows = down > hole.above + INSIDE * hole.depth
        felt = {axis: float(np.ptp(samples[f"hand_p{axis}"][rows])) if rows.any() else None for axis in hole.play}
        metrics = {
            **self.metrics(samples),
            **{f"felt_clearance_{axis}": value for axis, value in felt.items()},
            "felt_depth": float(down.max()),
        }
        return Findings(
            metrics, [_walls(trial, samples, hole, rows), _bottom(trial, samples, hole), judge_passive(samples)]
        )

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        time, hole = samples["time"], Hole(trial.experiment)
        panels = []
        for axis, play in hole.play.items():
            hand = 1e3 * (samples[f"hand_p{axis}"] - samples[f"hand_p{axis}"][0])
            lines = [Line(*thin(time, hand), "hand", Style(BLUE))]
            lines += [
                Line(time[[0, -1]], np.full(2, side * 500.0 * play), "wall", Style(BLACK, (4, 2))) for side in (-1, 1)
            ]
            panels.append(draw(f"hole_{axis}", f"along {axis}", lines, "time [s]", f"{axis} [mm]"))
        return [
            Figure("The hole", "Motion of the hand between the walls.", panels),
            *super().figures(trial, samples, findings),
        ]


def way_down(samples: Samples) -> np.ndarray:
    """How far the hand has gone down [m] (rows,)."""
    z = samples["hand_pz"]
    return np.asarray(z[0] - z)


def yielding(trial: Trial, samples: Samples, axis: str, rows: np.ndarray, lever: float) -> float:
    """By how much contacts and the tilt of the peg let the hand move farther than the walls [m].

    A force F at one end of the peg's part in the hole presses it in by F / K, and tilts the peg about the hand, by an
    angle that is known.
    """
    contact, force = trial.experiment.contact, np.abs(samples[f"env_f{axis}"][rows])
    about = samples["tool_q" + ("y" if axis == "x" else "x")][rows]
    tilt = 2.0 * np.arcsin(np.minimum(np.abs(about), 1.0))
    return 2.0 * float((force / contact.stiffness + lever * tilt).max())


def _walls(trial: Trial, samples: Samples, hole: Hole, rows: np.ndarray) -> Claim:
    measured: dict[str, float | None] = {}
    holds: bool | None = True if rows.any() else None
    for axis, play in hole.play.items():
        if holds is None:
            measured[axis] = None
            continue
        found = float(np.ptp(samples[f"hand_p{axis}"][rows]))
        allowed = play + yielding(trial, samples, axis, rows, hole.half) + EXTRA
        measured |= {axis: found, f"{axis} at least": play, f"{axis} at most": allowed}
        holds = holds and play <= found <= allowed
    return FELT_WALLS.judged(measured, holds)


def _bottom(trial: Trial, samples: Samples, hole: Hole) -> Claim:
    down = way_down(samples)
    row = int(down.argmax())
    expected = hole.way + float(samples["env_fz"][row]) / trial.experiment.contact.stiffness
    reached = down[row] > hole.way - EXTRA
    measured = {"hand": float(down[row]), "bottom": expected}
    return FELT_BOTTOM.judged(measured, bool(abs(down[row] - expected) <= EXTRA) if reached else None)


ANALYSIS = MujocoPeg()
