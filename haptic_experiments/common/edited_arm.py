"""Common part of the analyses of pushed and pulled manipulators: an obstacle, a wall behind it, one motion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import coal
import numpy as np
import pinocchio as pin

from haptic_bench.analysis import motions
from haptic_bench.analysis.base import Analysis, scene_as
from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.analysis.motions import Touch
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_sim.motions.motion import Motion
from haptic_sim.worlds.parameters import WorldParameters
from haptic_view.figures import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    Axis,
    Figure,
    Line,
    Style,
    draw,
    thin,
)

WALL, OBSTACLE = "wall", "obstacle"
ARRIVED = 0.005  # [m] from the wall
EVERY = 0.005  # [s] from one check for collisions to the next
SPURIOUS = 0.02  # [N] what may be rendered between touches
_COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY)

NOMINAL_COLLIDES = Statement(
    "nominal_collides",
    "Followed as it is, the trajectory runs into the obstacle",
    "IGMS figure 9(b)",
    Quantity("overlap of arm and obstacle [m]"),
)
EDITED_CLEAR = Statement(
    "edited_clear",
    "The motion that the hand has changed does not touch the obstacle",
    "IGMS IV-A, figure 12",
    Quantity("overlap of arm and obstacle [m]"),
)
REACHES_WALL = Statement(
    "reaches_wall",
    "The changed motion still goes to the wall",
    "IGMS IV-A, figure 12",
    Quantity("smallest distance to the wall [m]"),
)
TOUCHES_FELT = Statement(
    "touches_felt",
    "The device renders each touch of the arm, and no force between them",
    "IGMS III-F-1",
    Quantity("touches, and largest force between them [N]"),
)
METRICS = {
    "touches": Quantity("Touches that the device renders"),
    "peak_force": Quantity("Largest force that the device renders", "N"),
    "felt_impulse": Quantity("Impulse of the size of the force that the device renders", "N s"),
    "nominal_depth": Quantity("Largest overlap of the arm with the obstacle along the trajectory", "mm", 1e3),
    "edited_depth": Quantity("Largest overlap of the arm with the obstacle in the changed motion", "mm", 1e3),
    "clearance": Quantity("Smallest distance of the arm from the obstacle in the changed motion", "mm", 1e3),
    "wall_distance": Quantity("Smallest distance of the arm from the wall", "mm", 1e3),
    "largest_change": Quantity("Largest difference of a coordinate from the trajectory", "rad"),
}


class EditedArmAnalysis(Analysis):
    """An analysis of a manipulator that is led around an obstacle."""

    METRICS = METRICS
    CLAIMS: ClassVar[Sequence[Statement]] = (NOMINAL_COLLIDES, EDITED_CLEAR, REACHES_WALL, TOUCHES_FELT)
    SCENES = ("world",)
    PULLED: ClassVar[bool] = False

    def lacking(self, experiment: Experiment) -> Iterator[str]:
        scene = scene_as(experiment, WorldParameters)
        missing = [name for name in (OBSTACLE, WALL) if name not in scene.bodies]
        if missing:
            yield f"bodies named {' and '.join(missing)}"
        elif len(scene.motions) != 1:
            yield "one motion in scene.motions"
        elif self.PULLED and not scene.pulls:
            yield "a pull in scene.pulls"
        elif experiment.standalone or experiment.asynchronous:
            yield "a device, and an environment without a local model"

    def analyse(self, trial: Trial, samples: Samples, *, compare: bool = True) -> Findings:
        (motion,) = trial.world.motions
        world, contact = trial.world, trial.experiment.contact
        found = motions.edited(trial, samples, motion)
        rows = found.q[:: max(1, round(EVERY * trial.experiment.rate))]
        nominal = motions.collisions(world, contact, motion, motions.configurations(world, motion), (WALL,))
        changed = motions.collisions(world, contact, motion, rows, (WALL,))
        depth, left = max(nominal.values(), default=0.0), max(changed.values(), default=0.0)
        wall = float(motions.nearest(world, motion, rows, WALL).min())
        felt = motions.touches(samples)
        between = quiet(samples, felt)
        metrics: dict[str, float | None] = {
            "touches": float(len(felt)),
            "peak_force": max((touch.peak for touch in felt), default=0.0),
            "felt_impulse": sum(touch.impulse for touch in felt),
            "nominal_depth": depth,
            "edited_depth": left,
            "clearance": float(motions.nearest(world, motion, rows, OBSTACLE).min()),
            "wall_distance": wall,
            "largest_change": float(np.abs(found.x - found.nominal).max()),
        }
        claims = [
            NOMINAL_COLLIDES.judged({"overlap": depth}, depth > 0.0),
            EDITED_CLEAR.judged({"overlap": left}, left == 0.0),
            REACHES_WALL.judged({"distance": wall}, wall <= ARRIVED if _is_whole(motion, found) else None),
            TOUCHES_FELT.judged(
                {"touches": float(len(felt)), "between": between}, len(felt) > 0 and between <= SPURIOUS
            ),
        ]
        return Findings(metrics, [*claims, *self.more_claims(felt, self.reference(trial) if compare else None)])

    def reference(self, trial: Trial) -> list[Touch] | None:
        """The touches of what a trial is compared with."""
        return None

    def more_claims(self, felt: list[Touch], reference: list[Touch] | None) -> list[Claim]:
        """Claims about the touches, beside those of another trial."""
        return []

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        (motion,) = trial.world.motions
        found = motions.edited(trial, samples, motion)
        text = (
            "Where the arm would go along its trajectory, and where it went. The hand's touches are where the device "
            "renders a force."
        )
        panels = [
            draw(
                "from_above",
                "(a) last link and obstacle from above",
                [*_outline(trial), *_paths(trial, motion, found)],
                "x [mm]",
                Axis("y [mm]", least=1.0),
                equal=True,
            ),
            draw("joints", "(b) joints; dashed: trajectory", _joints(motion, found), "time [s]", "angle [rad]"),
            draw(
                "felt",
                "(c) force that the device renders",
                [Line(*thin(found.time, np.linalg.norm(samples.wrench("rendered")[:, :3], axis=1)), "", Style(BLACK))],
                "time [s]",
                Axis("force [N]", least=0.1),
            ),
            draw(
                "accelerations",
                "(d) accelerations of the joints",
                _bends(motion, found),
                "time [s]",
                "acceleration [rad/s²]",
            ),
        ]
        return [Figure("The changed motion", text, panels), *super().figures(trial, samples, findings)]


def quiet(samples: Samples, felt: list[Touch]) -> float:
    """Largest force that the device renders outside of the touches [N]."""
    time, force = samples["time"], np.linalg.norm(samples.wrench("rendered")[:, :3], axis=1)
    outside = np.ones(time.size, bool)
    for touch in felt:
        outside &= (time < touch.begin - motions.PAUSE) | (time > touch.end + motions.PAUSE)
    return float(force[outside].max()) if outside.any() else 0.0


def _is_whole(motion: Motion, found: motions.Edited) -> bool:
    """Whether the trial lasts as long as the trajectory."""
    return bool(found.time[-1] >= motion.trajectory.duration)


def _paths(trial: Trial, motion: Motion, found: motions.Edited) -> list[Line]:
    world, last = trial.world, motions.bodies_of(trial.world, motion)[-1]
    lines = []
    for rows, label, style in (
        (motions.configurations(world, motion), "trajectory", Style(BLACK, (5, 1.8))),
        (found.q[:: max(1, len(found.q) // 500)], "changed", Style(VERMILION, width=2.0)),
    ):
        path = 1e3 * motions.path_of(world, last, rows)
        lines.append(Line(path[:, 0], path[:, 1], label, style))
    return lines


def _outline(trial: Trial) -> list[Line]:
    """The obstacle's shapes from above."""
    world, lines = trial.world, []
    data, geometry_data = world.model.createData(), world.geometry.createData()
    pin.updateGeometryPlacements(world.model, data, world.geometry, geometry_data, world.q)
    for i, shape in enumerate(world.geometry.geometryObjects):
        if world.shape_bodies[i] != OBSTACLE or isinstance(shape.geometry, coal.Halfspace):
            continue
        shape.geometry.computeLocalAABB()
        centre = geometry_data.oMg[i].act(shape.geometry.aabb_center)
        half = np.abs(geometry_data.oMg[i].rotation) @ (
            0.5 * (shape.geometry.aabb_local.max_ - shape.geometry.aabb_local.min_)
        )
        if hasattr(shape.geometry, "radius"):
            angle = np.linspace(0.0, 2.0 * np.pi, 60)
            x, y = np.cos(angle), np.sin(angle)
        else:
            x, y = np.array([-1.0, 1.0, 1.0, -1.0, -1.0]), np.array([-1.0, -1.0, 1.0, 1.0, -1.0])
        lines.append(Line(1e3 * (centre[0] + half[0] * x), 1e3 * (centre[1] + half[1] * y), "obstacle", Style(BLUE)))
    return lines


def _joints(motion: Motion, found: motions.Edited) -> list[Line]:
    lines = []
    for k, name in enumerate(motion.places.names):
        colour = _COLOURS[k % len(_COLOURS)]
        short = name.removeprefix(f"{motion.title}/")
        lines.append(Line(*thin(found.time, found.x[:, k]), short, Style(colour)))
        lines.append(Line(*thin(found.time, found.nominal[:, k]), "", Style(colour, (4, 2), 0.9)))
    return lines


def _bends(motion: Motion, found: motions.Edited) -> list[Line]:
    rate = 1.0 / (found.time[1] - found.time[0])
    bend = np.diff(found.v[:, motion.places.columns], axis=0) * rate
    return [
        Line(
            *thin(found.time[:-1], bend[:, k]), name.removeprefix(f"{motion.title}/"), Style(_COLOURS[k % 6], width=0.9)
        )
        for k, name in enumerate(motion.places.names[: bend.shape[1]])
    ]
