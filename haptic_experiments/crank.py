"""A crank turned by a knob: at a dead point a force through the axle cannot turn it, and its flywheel carries it on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from haptic_bench.analysis.base import scene_as
from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.analysis.figures import Curve
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments.common.exact_tools import pose_errors
from haptic_experiments.common.linkage_motion import (
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
from haptic_sim.worlds.linkages import CrankParameters
from haptic_view.figures import BLACK, BLUE, ORANGE, VERMILION, Axis, Figure, Line, Panel, Style, draw, thin

UPRIGHT = 1e-6  # [rad] how little the knob turns
TORQUE = 1e-9  # [N m] about it, without which it is not to turn
scene_of = partial(scene_as, kind=CrankParameters)


def tangent(angle: np.ndarray) -> np.ndarray:
    """Direction in which the knob goes where the angle grows (n, 3)."""
    return np.stack([-np.sin(angle), np.zeros_like(angle), np.cos(angle)], axis=-1)


def torque(scene: CrankParameters, angle: np.ndarray, wrench: np.ndarray) -> np.ndarray:
    """Torque about the axle, of a wrench on the knob and of gravity [N m] (n,); a torque on the knob only spins it."""
    of_hand = scene.radius * np.einsum("ni,ni->n", tangent(angle), wrench[:, :3])
    return of_hand - scene.load * np.cos(angle)


def knob_turn(samples: Samples) -> np.ndarray:
    """Angle by which the knob is turned [rad] (n,)."""
    return samples["q0"] + samples["q1"] - samples["q0"][0] - samples["q1"][0]


def turns(samples: Samples, held: Held) -> dict[str, float]:
    """Largest turn of the knob, and before it of a device [rad], by what it is called."""
    found = {"tool": float(np.abs(knob_turn(samples)).max())}
    if not held.device:
        return found
    pose = samples.pose("hand")
    return {"device": float(pose_errors(pose, np.broadcast_to(pose[:1], pose.shape))[1].max())} | found


def dead_points(samples: Samples) -> np.ndarray:
    """Rows after which the force of the hand on the tool passes through the axle."""
    along = np.einsum("ni,ni->n", tangent(samples["q0"]), samples.wrench("pull")[:, :3])
    return np.flatnonzero(along[:-1] * along[1:] < 0.0)


LAW = obeys("of the axle", "torque over moment of inertia about the axle, I + m r²")
DEAD_POINTS = Statement(
    "dead_points",
    "Where the hand's force passes through the axle it turns nothing, and the flywheel goes on",
    "geometry",
    Quantity("part of the force; angular velocity [rad/s]; angle [rad]"),
)
WORK_IS_SPEED = Statement(
    "work_is_speed",
    "Work of the hand and of gravity becomes kinetic energy, 1/2 (I + m r²) ω²",
    "energy",
    Quantity("kinetic energy", "mJ", 1e3),
)
KNOB_STAYS_UPRIGHT = Statement(
    "knob_stays_upright",
    "The knob, whose bearing has no friction, does not turn with the crank, nor does a device in the hand, which then "
    "decides",
    "moment of momentum of the knob",
    Quantity("largest turn", "µrad", 1e6),
)


class Crank(LinkageAnalysis):
    SCENES = ("crank",)
    METRICS = METRICS | {
        "turns": Quantity("Turns of the crank in the end"),
        "dead_points": Quantity("How often the hand's force passes through the axle"),
        "least_speed": Quantity("Smallest angular velocity", "rad/s"),
        "largest_speed": Quantity("Largest angular velocity", "rad/s"),
        "knob_turn": Quantity("Largest turn of the knob", "µrad", 1e6),
    }
    CLAIMS = declared(
        blocks("four of six directions: the knob goes round and turns in the hand"),
        DEAD_POINTS,
        WORK_IS_SPEED,
        KNOB_STAYS_UPRIGHT,
        law=LAW,
    )
    BLOCKED = 4
    PLANES = ((0, 2),)

    def law(self, trial: Trial, samples: Samples) -> Law:
        """Torque about the axle over the moment of inertia about it, with the knob as a point."""
        scene, rows = scene_of(trial.experiment), free_ticks(samples)
        expected = torque(scene, samples["q0"][rows], samples.wrench("pull")[rows]) / scene.inertia_with_knob
        found = accelerations(trial, samples, rows, 1)[:, 0]
        return Law("rad/s²", samples["time"][rows], found, expected, LAW.source)

    def more_metrics(self, trial: Trial, samples: Samples, held: Held) -> dict[str, float | None]:
        return {
            "turns": float(samples["q0"][-1] - samples["q0"][0]) / (2.0 * math.pi),
            "dead_points": float(dead_points(samples).size),
            "least_speed": float(samples["v0"].min()),
            "largest_speed": float(samples["v0"].max()),
            "knob_turn": float(np.abs(knob_turn(samples)).max()),
        }

    def more_claims(self, trial: Trial, samples: Samples, held: Held, references: Mapping[str, Samples]) -> list[Claim]:
        """Dead points, the balance of work and speed, and the knob's orientation."""
        rows, leverage = dead_points(samples), _leverage(samples)
        nearest = np.where(leverage[rows] <= leverage[rows + 1], rows, rows + 1)
        taken = float(leverage[nearest].max()) if nearest.size else None
        # the crank and the force both turn within a tick, the latter by a sensor's noise
        step = float(np.abs(samples["v0"]).max()) / trial.experiment.rate
        swing = float(_swing(samples)[rows].max()) if rows.size else 0.0
        found, expected, bound = work_and_speed(trial, samples)
        turned = turns(samples, held)
        twisted = bool(np.nanmax(np.abs(samples.wrench("pull")[:, 4])) > TORQUE)
        slowest = float(np.abs(samples["v0"][nearest]).min()) if nearest.size else None
        return [
            DEAD_POINTS.judged(
                {
                    "part of the force that turns": taken,
                    "slowest there [rad/s]": slowest,
                    "turn in a tick [rad]": step,
                    "turn of the force in a tick [rad]": swing,
                },
                None if taken is None or slowest is None else taken <= step + swing and slowest > 0.0,
            ),
            WORK_IS_SPEED.judged(
                {"gained": found, "work": expected, "steps explain": bound}, abs(found - expected) <= bound
            ),
            KNOB_STAYS_UPRIGHT.judged(dict(turned), None if twisted else turned[CALLED[held.bodies[0]]] <= UPRIGHT),
        ]

    def more_figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        """Angular velocity over time and over the angle."""
        time, rows = samples["time"], dead_points(samples)
        turns, rate = samples["q0"] / (2.0 * math.pi), samples["v0"]
        lines = [Line(*thin(time, rate), "this run", Style(BLUE))]
        over = [Line(*thin(turns, rate), "this run", Style(BLUE, width=2.2))]
        for name, run in findings.references.items():
            lines.append(Line(*thin(run["time"], run["v0"]), name, Style(ORANGE, (5, 1.8))))
            over.append(Line(*thin(run["q0"] / (2.0 * math.pi), run["v0"]), name, Style(ORANGE, (5, 1.8))))
        theory = rate_by_energy(trial, samples)
        if theory is not None:
            over.append(Line(*thin(turns, theory), "by energy", Style(BLACK, (1.2, 2.2), 1.3)))
        panels = [
            draw(
                "rate",
                "(a) angular velocity",
                lines,
                "time [s]",
                Axis("angular velocity [rad/s]", least=1e-3),
                marks=Line(time[rows], rate[rows], "dead points", Style(VERMILION)),
            ),
            draw("rate_over_angle", "(b) over the angle", over, "turns", Axis("angular velocity [rad/s]", least=1e-3)),
            draw(
                "leverage",
                "(c) part of the hand's force that turns the crank",
                [Line(*thin(time, _leverage(samples)), "this run", Style(BLUE))],
                "time [s]",
                Axis("part of the force", span=(-0.02, 1.02)),
            ),
        ]
        text = (
            "At the dead points (marks) the force of the hand passes through the axle. By energy: from the work of a "
            "constant force and of gravity alone."
        )
        return [Figure("The crank", text, panels)]

    def sweep_figures(self, curves: Sequence[Curve]) -> list[Figure]:
        """Angular velocities, then as of all linkages."""
        lines = [c.over_time(c.samples["v0"]) for c in curves]
        panel: Panel = draw("rate", "Angular velocity", lines, "time [s]", Axis("angular velocity [rad/s]", least=1e-3))
        return [Figure("The crank", "Angular velocity of the crank.", [panel]), *super().sweep_figures(curves)]


def _leverage(samples: Samples) -> np.ndarray:
    """Part of the hand's force that turns the crank (n,); 0 without force."""
    force = samples.wrench("pull")[:, :3]
    size = np.linalg.norm(force, axis=1)
    along = np.abs(np.einsum("ni,ni->n", tangent(samples["q0"]), force))
    return np.divide(along, size, out=np.zeros_like(size), where=size > 0.0)


def _swing(samples: Samples) -> np.ndarray:
    """Angle by which the hand's force turns in a tick [rad] (n - 1,); 0 without force."""
    force = samples.wrench("pull")[:, :3]
    size = np.linalg.norm(force, axis=1, keepdims=True)
    along = np.divide(force, size, out=np.zeros_like(force), where=size > 0.0)
    return 2.0 * np.arcsin(np.minimum(0.5 * np.linalg.norm(np.diff(along, axis=0), axis=1), 1.0))


def work_and_speed(trial: Trial, samples: Samples) -> tuple[float, float, float]:
    """Kinetic energy gained, work of hand and gravity by the trapezoidal rule, and what the steps explain [J].

    Semi-implicit steps of the length T keep an energy that differs from the true one by 1/2 T ω times the torque.
    """
    scene = scene_of(trial.experiment)
    known = ~np.isnan(samples["pull_fx"])
    stop = int(np.flatnonzero(known)[-1]) + 1 if known.any() else 0
    angle, rate = samples["q0"][:stop], samples["v0"][:stop]
    moments = torque(scene, angle, samples.wrench("pull")[:stop])
    work = float(np.sum(0.5 * (moments[1:] + moments[:-1]) * np.diff(angle)))
    gained = 0.5 * scene.inertia_with_knob * float(rate[-1] ** 2 - rate[0] ** 2)
    bound = 2.0 * float(np.abs(rate).max() * np.abs(moments).max()) / trial.experiment.rate
    return gained, work, bound


def rate_by_energy(trial: Trial, samples: Samples) -> np.ndarray | None:
    """Angular velocity at the angles of a run under a constant force, by energy (n,); None for other forces.

    1/2 (I + m r²) ω² = 1/2 (I + m r²) ω0² + F . (p - p0) - load (sin a - sin a0)
    """
    scene, force = scene_of(trial.experiment), samples.wrench("pull")[:, :3]
    if np.isnan(force).any() or np.ptp(force, axis=0).max() > 1e-9:
        return None
    angle = samples["q0"]
    p = scene.radius * np.stack([np.cos(angle), np.zeros_like(angle), np.sin(angle)], axis=-1)
    work = (p - p[0]) @ force[0] - scene.load * (np.sin(angle) - math.sin(angle[0]))
    square = samples["v0"][0] ** 2 + 2.0 * work / scene.inertia_with_knob
    return np.sign(samples["v0"]) * np.sqrt(np.maximum(square, 0.0))


ANALYSIS = Crank()
