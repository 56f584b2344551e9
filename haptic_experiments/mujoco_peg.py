"""A peg in a square hole that MuJoCo simulates: the hand feels the walls where they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from haptic_bench.analysis.claims import Findings, Quantity, Statement
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments.common.mujoco_worlds import PASSIVE, MujocoAnalysis, scene_of
from haptic_sim.worlds.compiled import library
from haptic_sim.worlds.mujoco_files import load
from haptic_view.figures import BLACK, BLUE, Figure, Line, Style, draw, thin

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
    of=lambda case: case.between_walls(),
    holds=lambda m: all(m[f"{axis} at least"] <= m[axis] <= m[f"{axis} at most"] for axis in SIDES),
)
FELT_BOTTOM = Statement(
    "bottom",
    f"The hand feels the bottom where it is, but for the depth F / K of the contact, to {1e3 * EXTRA:g} mm",
    "geometry; what is allowed is chosen",
    Quantity("way of the hand into the hole", "mm", 1e3),
    of=lambda case: {"hand": case.depth, "bottom": case.felt_bottom},
    holds=lambda m: abs(m["hand"] - m["bottom"]) <= EXTRA,
    when=lambda case: case.depth > case.hole.travel - EXTRA,
)


class Hole:
    """Dimensions of the hole and the peg along the axes of the world [m].

    Attributes:
        play: clearance of the peg between two opposite walls, by axis.
        half: half of the peg's length.
        travel: displacement of the peg from its start to the bottom; above: the part of it above the hole.
        depth: depth of the hole.

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
        self.travel = float(start[2]) - self.half - _face(model, BOTTOM, 2, 1.0)
        self.depth = _face(model, SIDES["x"][0], 2, 1.0) - _face(model, BOTTOM, 2, 1.0)
        self.above = self.travel - self.depth


def _face(model: Any, name: str, axis: int, side: float) -> float:
    """Coordinate of a face of a box along an axis [m]."""
    geom = model.geom(name)
    return float(model.body(int(geom.bodyid[0])).pos[axis] + geom.pos[axis] + side * geom.size[axis])


class MujocoPeg(MujocoAnalysis):
    METRICS = MujocoAnalysis.METRICS | {
        "felt_clearance_x": Quantity(
            "Motion of the hand along x in the hole", "mm", 1e3, lambda case: case.clearance("x")
        ),
        "felt_clearance_y": Quantity(
            "Motion of the hand along y in the hole", "mm", 1e3, lambda case: case.clearance("y")
        ),
        "felt_depth": Quantity("Largest way of the hand into the hole", "mm", 1e3, lambda case: case.depth),
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

    def case(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> InHole:
        return InHole(trial, samples)

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


def downward_travel(samples: Samples) -> np.ndarray:
    """Downward displacement of the hand from its start [m] (rows,)."""
    z = samples["hand_pz"]
    return np.asarray(z[0] - z)


def yielding(trial: Trial, samples: Samples, axis: str, rows: np.ndarray, lever: float) -> float:
    """Distance by which contacts and the tilt of the peg let the hand move farther than the walls [m].

    A force F at one end of the peg's part in the hole presses it in by F / K, and tilts the peg about the hand, by an
    angle that is known.
    """
    contact, force = trial.experiment.contact, np.abs(samples[f"env_f{axis}"][rows])
    about = samples["tool_q" + ("y" if axis == "x" else "x")][rows]
    tilt = 2.0 * np.arcsin(np.minimum(np.abs(about), 1.0))
    return 2.0 * float((force / contact.stiffness + lever * tilt).max())


class InHole:
    """A trial whose peg is in the hole in some rows."""

    def __init__(self, trial: Trial, samples: Samples):
        self.trial, self.samples, self.hole = trial, samples, Hole(trial.experiment)
        self.down = downward_travel(samples)
        self.depth = float(self.down.max())  # [m] of the hand
        self.rows = self.down > self.hole.above + INSIDE * self.hole.depth

    def clearance(self, axis: str) -> float | None:
        """Motion of the hand along an axis [m]; None outside of the hole."""
        return float(np.ptp(self.samples[f"hand_p{axis}"][self.rows])) if self.rows.any() else None

    def between_walls(self) -> dict[str, float | None]:
        """The motion along each axis, and how much is expected at least and at most [m]."""
        measured: dict[str, float | None] = {}
        for axis, play in self.hole.play.items():
            measured[axis] = self.clearance(axis)
            if self.rows.any():
                most = play + yielding(self.trial, self.samples, axis, self.rows, self.hole.half) + EXTRA
                measured |= {f"{axis} at least": play, f"{axis} at most": most}
        return measured

    @property
    def felt_bottom(self) -> float:
        """Downward displacement at which the bottom is felt, with its deflection under the force [m]."""
        force = float(self.samples["env_fz"][int(self.down.argmax())])
        return self.hole.travel + force / self.trial.experiment.contact.stiffness


ANALYSIS = MujocoPeg()
