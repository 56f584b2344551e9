"""A door held by its handle: the hand feels an arc and nothing else, until the door slams."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import numpy as np

from haptic_bench.analysis.base import scene_as
from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments.common.linkage_motion import (
    ACROSS,
    CALLED,
    METRICS,
    Held,
    Law,
    LinkageAnalysis,
    accelerations,
    blocks,
    declared,
    free_ticks,
    obeys,
)
from haptic_sim.worlds.linkages import DoorParameters
from haptic_view.figures import BLACK, BLUE, ORANGE, VERMILION, Axis, Figure, Line, Style, draw, thin

ARC = 1e-9  # [m]
DEVICE_SPEED = 0.05  # of the angular velocity at the slam, of a device; chosen
scene_of = partial(scene_as, kind=DoorParameters)


def torque(scene: DoorParameters, angle: np.ndarray, handle: np.ndarray, wrench: np.ndarray) -> np.ndarray:
    """About the hinge, which is at the origin [N m] (n,).

    Args:
        angle: by which the door is open [rad] (n,).
        handle: where it is [m] (n, 3); wrench: on it (n, 6).
    """
    axis = scene.axis
    of_hand = np.cross(handle, wrench[:, :3]) @ axis + wrench[:, 3:] @ axis
    # the centre of mass is in the middle of the leaf, lowest where the leaf is along x
    return of_hand - scene.mass * scene.gravity * math.sin(math.radians(scene.lean)) * 0.5 * scene.width * np.sin(angle)


def slams(samples: Samples) -> list[int]:
    """First rows of the contacts with the frame, one for each time that the door comes to it."""
    touches = samples["contacts"] > 0
    return np.flatnonzero(touches & ~np.concatenate([[False], touches[:-1]])).tolist()


LAW = obeys("of the hinge", "torque over moment of inertia about the hinge, m (w²/3 + t²/12)")
ARC_IS_KEPT = Statement(
    "arc",
    f"The handle stays on its arc; a device that renders it, which then decides, to {1e3 * ACROSS:g} mm",
    "geometry; what is allowed to a device is chosen",
    Quantity("largest distance from the arc", "µm", 1e6),
)
SLAM_SPEED = Statement(
    "slam_speed",
    "The door slams with the angular velocity that the work of the hand and of gravity gives it; a device that renders "
    f"it, which then decides, to {100 * DEVICE_SPEED:g} %",
    "1/2 I ω² = work; what is allowed to a device is chosen",
    Quantity("angular velocity before the first slam", "rad/s"),
)


class Door(LinkageAnalysis):
    SCENES = ("door",)
    METRICS = METRICS | {
        "slams": Quantity("Number of times the door strikes its frame"),
        "slam_time": Quantity("Time at which the door first strikes its frame", "s"),
        "slam_speed": Quantity("Speed of the handle when the door first strikes its frame", "m/s"),
        "slam_force": Quantity("Largest force of the frame as the hand feels it", "N"),
        "arc_error": Quantity("Largest distance of the tool's handle from its arc", "nm", 1e9),
        "final_angle": Quantity("Angle by which the door is open at the end", "deg", 180.0 / math.pi),
    }
    CLAIMS = declared(blocks("all but one of six directions: the hand feels an arc"), ARC_IS_KEPT, SLAM_SPEED, law=LAW)
    BLOCKED = 5
    PLANES = ((0, 1), (0, 2))

    def law(self, trial: Trial, samples: Samples) -> Law:
        """Torque about the hinge over the moment of inertia about it."""
        scene, rows = scene_of(trial.experiment), free_ticks(samples)
        handle = samples.group("tool", "px", "py", "pz")[rows]
        expected = torque(scene, samples["q0"][rows], handle, samples.wrench("pull")[rows]) / scene.inertia
        found = accelerations(trial, samples, rows, 1)[:, 0]
        return Law("rad/s²", samples["time"][rows], found, expected, LAW.source)

    def more_metrics(self, trial: Trial, samples: Samples, held: Held) -> dict[str, float | None]:
        struck = slams(samples)
        first = struck[0] if struck else None
        return {
            "slams": float(len(struck)),
            "slam_time": None if first is None else float(samples["time"][first]),
            "slam_speed": None if first is None else float(np.linalg.norm(samples.twist("tool")[first, :3])),
            "slam_force": float(np.linalg.norm(samples.wrench("env")[:, :3], axis=1).max()) if struck else None,
            "arc_error": float(arc_error(scene_of(trial.experiment), samples).max()),
            "final_angle": float(samples["q0"][-1]),
        }

    def more_claims(self, trial: Trial, samples: Samples, held: Held, references: Mapping[str, Samples]) -> list[Claim]:
        """The arc, and the speed at the first slam by what was put in."""
        scene = scene_of(trial.experiment)
        off = {CALLED[body]: float(arc_error(scene, samples, body).max()) for body in held.bodies}
        felt = CALLED[held.bodies[0]]
        found, expected, bound = slam_rates(trial, samples)
        speeds: dict[str, float | None] = {"tool": found, "by the work": expected, "steps explain": bound}
        if held.device:
            struck = slams(samples)
            speeds = {"device": hinge_rate(scene, samples, struck[0]) if struck else None} | speeds
            bound += DEVICE_SPEED * abs(expected or 0.0)
        speed = speeds[felt]
        return [
            ARC_IS_KEPT.judged(dict(off), off[felt] <= (ACROSS if held.device else ARC)),
            SLAM_SPEED.judged(
                speeds, None if found is None or speed is None or expected is None else abs(speed - expected) <= bound
            ),
        ]

    def more_figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        """Angle and force of the frame."""
        time, struck = samples["time"], slams(samples)
        angle = np.degrees(samples["q0"])
        lines = [Line(*thin(time, angle), "this run", Style(BLUE))]
        for name, run in findings.references.items():
            lines.append(Line(*thin(run["time"], np.degrees(run["q0"])), name, Style(ORANGE, (5, 1.8))))
        frame = scene_of(trial.experiment).closing_angle
        lines.append(Line(time[[0, -1]], np.full(2, frame), "closed", Style(BLACK, (1.2, 2.2), 1.1)))
        marks = Line(time[struck], angle[struck], "comes to the frame", Style(VERMILION))
        force = np.linalg.norm(samples.wrench("env")[:, :3], axis=1)
        panels = [
            draw("angle", "(a) angle of the door", lines, "time [s]", "open by [deg]", marks=marks),
            draw(
                "frame",
                "(b) force of the frame at the handle",
                [Line(*thin(time, force), "frame", Style(VERMILION), steps=True)],
                "time [s]",
                Axis("force [N]", least=0.1),
            ),
        ]
        return [Figure("The door", "Angle of the door, and what its frame does to the hand.", panels)]


def hinge_rate(scene: DoorParameters, samples: Samples, row: int) -> float:
    """Angular velocity of a device about the hinge [rad/s], from the velocity of the hand."""
    around = np.cross(scene.axis, samples.pose("hand")[row, :3])
    return float(around @ samples.twist("hand")[row, :3] / (around @ around))


def arc_error(scene: DoorParameters, samples: Samples, body: str = "tool") -> np.ndarray:
    """Distance of the handle, or of a device's hand, from its arc about the hinge [m] (n,)."""
    axis = scene.axis
    p = samples.group(body, "px", "py", "pz")
    up = p @ axis
    out = np.linalg.norm(p - np.outer(up, axis), axis=1)
    x, y, z = scene.handle
    return np.hypot(out - math.hypot(x, y), up - z)


def slam_rates(trial: Trial, samples: Samples) -> tuple[float | None, float | None, float]:
    """Angular velocity at the first slam as it is, by the energy that was put in, and what the steps explain [rad/s].

    A step moves the door by its new velocity: as seen from the way it goes, the torque of each step acts too early by
    half of it, so that the velocity errs by what the largest torque gives in a step.
    """
    scene, struck = scene_of(trial.experiment), slams(samples)
    if not struck or struck[0] < 2 or np.isnan(samples["pull_fx"][: struck[0]]).any():
        return None, None, math.nan
    stop = struck[0]
    angle, rate = samples["q0"][: stop + 1], samples["v0"]
    moments = torque(
        scene, angle, samples.group("tool", "px", "py", "pz")[: stop + 1], samples.wrench("pull")[: stop + 1]
    )
    work = float(np.sum(0.5 * (moments[1:] + moments[:-1]) * np.diff(angle)))
    square = rate[0] ** 2 + 2.0 * work / scene.inertia
    bound = 2.0 * float(np.abs(moments).max()) / scene.inertia / trial.experiment.rate
    return float(rate[stop]), -math.sqrt(max(square, 0.0)), bound


ANALYSIS = Door()
