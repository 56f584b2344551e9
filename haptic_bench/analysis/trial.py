"""The analysis of any trial: forces, depths of overlap, sticking and sliding of contacts, and the work of the hand.

All metrics cover every tick. Depths are computed from the recorded configurations and take no time during a trial.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pinocchio as pin

from haptic_bench.analysis import tracking
from haptic_bench.analysis.base import Analysis
from haptic_bench.analysis.claims import Findings, Quantity
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_sim.messages import HAND
from haptic_sim.tool.environment import DepthGauge
from haptic_sim.tool.tool_side import is_constrained
from haptic_sim.worlds.isolated import model_of, other_bodies

DEPTH = "max_depth"
METRICS = {
    "max_force": Quantity("Largest force of contacts on the tool, not known where another hand holds it, too", "N"),
    "rms_force": Quantity("Root mean square of the force of contacts on the tool", "N"),
    "max_torque": Quantity("Largest torque of contacts on the tool, about the hand point", "N m"),
    "rms_torque": Quantity("Root mean square of the torque of contacts on the tool, about the hand point", "N m"),
    "max_rendered_force": Quantity("Largest force rendered by the device", "N"),
    "rms_rendered_force": Quantity("Root mean square of the force rendered by the device", "N"),
    "contacts": Quantity("Largest number of simultaneous contacts, limits of joints included"),
    "contact_time": Quantity("Time in contact, or with a joint at its limit", "s"),
    "stick_time": Quantity("Time of that in which no contact slides", "s"),
    "slip_time": Quantity("Time in which a contact slides", "s"),
    "impulses": Quantity("Ticks with impulses"),
    "hand_work": Quantity("Work of the operator's hand", "J"),
    "max_hand_tool_distance": Quantity("Largest distance between hand and tool", "m"),
    DEPTH: Quantity("Largest overlap of two bodies", "m"),
}


class TrialAnalysis(Analysis):
    """The analysis of any trial: forces [N], depths of overlap [m], sticking and sliding [s], work of the hand [J]."""

    METRICS = METRICS

    def quantity(self, name: str) -> Quantity | None:
        if name.startswith(f"{DEPTH}["):
            return Quantity(f"Largest overlap of {name[len(DEPTH) + 1 : -1]}", "m")
        return super().quantity(name)

    def columns(self, trial: Trial, samples: Samples) -> Mapping[str, np.ndarray]:
        """`energy` of a tool under exact constraints alone: kinetic and potential [J]."""
        total = samples["energy_kinetic"] + samples["energy_potential"]
        return {"energy": total} if is_constrained(trial.experiment) else {}

    def judge(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> Findings:
        return Findings(dict(_measure(trial, samples)) | dict(_depths(trial, samples)))


def _measure(trial: Trial, samples: Samples) -> Iterator[tuple[str, float | None]]:
    """Metrics of forces, contacts and work, by name."""
    experiment = trial.experiment
    period = 1.0 / experiment.rate
    force, torque = (np.linalg.norm(part, axis=1) for part in np.split(samples.wrench("env"), 2, axis=1))
    shared = bool(experiment.hands) and trial.world.hands_of_tree > 1  # then they contain what the other hand does
    yield from _size("force", None if shared else force)
    yield from _size("torque", None if shared else torque)
    if not experiment.standalone:
        yield from _size("rendered_force", np.linalg.norm(samples.wrench("rendered")[:, :3], axis=1))
    touching, sliding = samples["contacts"] > 0, samples["sliding_contacts"] > 0
    yield "contacts", float(samples["contacts"].max())
    yield "contact_time", period * float(touching.sum())
    yield "stick_time", period * float((touching & ~sliding).sum()) if _has_friction(trial) else None
    yield "slip_time", period * float(sliding.sum()) if _has_friction(trial) else None
    yield "impulses", float(samples["colliding"].sum())
    yield "hand_work", _work(trial, samples, period)
    if not experiment.standalone:
        distance = samples.pose("hand")[:, :3] - samples.pose("tool")[:, :3]
        yield "max_hand_tool_distance", float(np.linalg.norm(distance, axis=1).max())


def _size(name: str, values: np.ndarray | None) -> Iterator[tuple[str, float | None]]:
    yield f"max_{name}", None if values is None else float(values.max())
    yield f"rms_{name}", None if values is None else float(np.sqrt(np.mean(values**2)))


def _has_friction(trial: Trial) -> bool:
    """Whether contacts have friction, so that they can stick."""
    return trial.experiment.contact.friction.model.type != "none"


def _work(trial: Trial, samples: Samples, period: float) -> float | None:
    """Work of the operator on the device, or without one on tool and bodies [J]; None where ticks are missing.

    The wrench is held over a tick, in which the velocity changes from one row to the next. At the mean of the two, the
    work of all wrenches on a body is exactly the change of its kinetic energy.
    """
    ticks = samples["tick"]
    if len(ticks) < 2 or ticks[-1] - ticks[0] != len(ticks) - 1:
        return None
    standalone = trial.experiment.standalone
    wrench = samples.wrench("operator")
    if tracking.is_tracked(trial.experiment):
        applied = tracking.operator_wrench(trial, samples)  # the samples have what the sensor tells
        if applied is None:
            return None
        wrench = applied
    dragged = samples["operator_body"] if "operator_body" in samples.names else np.full(len(ticks), HAND)
    work = 0.0
    for body in np.unique(dragged[:-1]):
        rows = np.flatnonzero(dragged[:-1] == body)
        if body == HAND:
            twist = samples.twist("tool" if standalone else "hand")
            mean = 0.5 * (twist[rows] + twist[rows + 1])
        else:
            mean = 0.5 * (_twists(trial, samples, int(body), rows) + _twists(trial, samples, int(body), rows + 1))
        work += float(np.sum(wrench[rows] * mean))
    return period * work


def _twists(trial: Trial, samples: Samples, body: int, rows: np.ndarray) -> np.ndarray:
    """Twists [m/s, rad/s] of a body of the world at the origin of its axes, in some rows, (rows, 6)."""
    world = trial.world
    name = world.model.frames[world.body_frames[body]].name
    joint = world.model.frames[world.body_frames[body]].parentJoint
    joints = world.model.subtrees[world.model.supports[joint].tolist()[1]].tolist()
    model, _ = model_of(world.model, joints, world.q)  # its tree alone
    frame, data = model.getFrameId(name, pin.FrameType.BODY), model.createData()
    q, v = (
        np.stack([samples[f"{letter}{first + i}"][rows] for i in range(size)], axis=-1)
        for letter, first, size in (
            ("q", world.model.idx_qs[joints[0]], model.nq),
            ("v", world.model.idx_vs[joints[0]], model.nv),
        )
    )
    found = np.zeros((len(rows), 6))
    for i in range(len(rows)):
        pin.forwardKinematics(model, data, q[i], v[i])
        found[i] = pin.getFrameVelocity(model, data, frame, pin.LOCAL_WORLD_ALIGNED).vector
    return found


def _depths(trial: Trial, samples: Samples) -> Iterator[tuple[str, float | None]]:
    """Largest overlap of all, and of each pair of bodies that overlap at some time, in the ticks with contacts."""
    experiment = trial.experiment
    # A local model's samples have the tool's coordinates alone: where others move, they do not say how deep it is.
    unknown = experiment.asynchronous and (other_bodies(trial.world) or trial.world.pairs is not None)
    if is_constrained(experiment) or unknown:
        yield DEPTH, None
        return
    world = trial.world
    gauge = DepthGauge(world, trial.experiment.contact)
    deepest: dict[tuple[str, str], float] = {}
    configurations = np.stack([samples[f"q{i}"] for i in range(world.model.nq)], axis=-1)
    for q in configurations[samples["contacts"] > 0]:
        for names, depth in gauge.overlaps(q).items():
            deepest[names] = max(depth, deepest.get(names, 0.0))
    yield DEPTH, max(deepest.values(), default=0.0)
    for (a, b), depth in sorted(deepest.items()):
        yield f"{DEPTH}[{a}/{b}]", depth


ANALYSIS: Analysis = TrialAnalysis()
