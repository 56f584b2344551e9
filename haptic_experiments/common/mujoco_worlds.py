"""Common part of the analyses of MuJoCo's worlds: the work of MuJoCo's contacts beside that of the hand.

The hand feels the local model; MuJoCo's contacts push its tool, which follows that of the local model. Where the work
of both is the same, the hand pays for what it moves, and for nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import pinocchio as pin

from haptic_bench.analysis.base import Analysis, scene_as
from haptic_bench.analysis.claims import Quantity, Statement
from haptic_bench.analysis.figures import Curve, trial_figures
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments.common.local_models import force_step, with_geometry_tick
from haptic_sim.messages import LocalGeometry, columns
from haptic_sim.worlds.isolated import isolate_tool, other_bodies
from haptic_sim.worlds.parameters import MujocoParameters
from haptic_view.figures import Figure, Line, Style, draw, style_of, thin

ROUNDING = 1e-4  # [J]
ENGINE_WORK = "engine_work"  # column: work on MuJoCo's contacts until the update in use [J]
METRICS = {
    "max_force": Quantity(
        "Largest force on the tool",
        "N",
        of=lambda case: np.linalg.norm(case.samples.wrench("env")[:, :3], axis=1).max(),
    ),
    "max_force_step": Quantity(
        "Largest change of the force on the tool when an update arrives", "N", of=lambda case: force_step(case.samples)
    ),
    "felt_work": Quantity(
        "Work of the hand against the rendered force", "J", of=lambda case: felt_work(case.samples)[-1]
    ),
    "engine_work": Quantity(
        "Work of the tool against MuJoCo's contacts", "J", of=lambda case: case.samples[ENGINE_WORK][-1]
    ),
}


def largest_force(samples: Samples) -> float:
    """Largest force on the tool [N]."""
    return float(np.linalg.norm(samples.wrench("env")[:, :3], axis=1).max())


def felt_work(samples: Samples) -> np.ndarray:
    """Work that the hand has done against what the device renders [J] (rows,)."""
    rendered, twist = samples.wrench("rendered"), samples.twist("hand")
    mean = 0.5 * (twist[:-1] + twist[1:])  # a wrench is held over its tick
    steps = -np.einsum("ij,ij->i", rendered[:-1], mean) * np.diff(samples["time"])
    return np.concatenate([[0.0], np.cumsum(steps)])


def engine_work(trial: Trial, samples: Samples, messages: Sequence[bytes]) -> np.ndarray:
    """The column ENGINE_WORK (rows,), from the updates of a trial.

    The wrench of an update is the mean over the time since the one before, in which the tool went from pose to pose.
    """
    world, sizes = trial.world, isolate_tool(trial.world).tool_sizes()
    others = len(other_bodies(world))
    layout = LocalGeometry(
        q=sizes.q, v=sizes.v, inertia=sizes.v**2, gravity=sizes.v, poses=others, twists=others, constraints=0
    )
    if not messages:
        return np.zeros(len(samples))
    updates = columns(layout, messages)
    updates = updates[np.unique(updates["tick"], return_index=True)[1]]
    poses, wrenches = updates["pose"], updates["wrench"]
    turns = [pin.log3(_rotation(b) @ _rotation(a).T) for a, b in pairwise(poses)]
    displacement = np.concatenate([np.diff(poses[:, :3], axis=0), np.reshape(turns, (-1, 3))], axis=1)
    work = np.concatenate([[0.0], np.cumsum(-np.einsum("ij,ij->i", wrenches[1:], displacement))])
    place = np.searchsorted(updates["tick"], samples["tick"], side="right") - 1
    return np.where(place >= 0, work[np.maximum(place, 0)], 0.0)


def _rotation(pose: np.ndarray) -> np.ndarray:
    x, y, z, w = (float(value) for value in pose[3:])
    R: np.ndarray = pin.Quaternion(w, x, y, z).matrix()
    return R


def paid(part: float) -> Statement:
    """The hand does the work of MuJoCo's contacts, but for a part of it."""
    return Statement(
        "paid",
        f"The work of the hand is that of the tool against MuJoCo's contacts, to {100 * part:g} %",
        "conservation of energy; what is allowed is chosen",
        Quantity("work", "J"),
        of=lambda case: {"hand": felt_work(case.samples)[-1], "MuJoCo": case.samples[ENGINE_WORK][-1]},
        holds=lambda m: abs(m["hand"] - m["MuJoCo"]) <= part * m["MuJoCo"],
        when=lambda case: case.samples[ENGINE_WORK][-1] > 0.0,
    )


PASSIVE = Statement(
    "passive",
    "What the hand feels never gives it more work than it has done",
    "passivity",
    Quantity(
        "least work that the hand has done so far, translation and rotation together, and what rounding allows", "J"
    ),
    of=lambda case: {"least": felt_work(case.samples).min(), "allowed": -ROUNDING},
    holds=lambda m: m["least"] >= m["allowed"],
)


class MujocoAnalysis(Analysis):
    """An analysis of a world of MuJoCo."""

    SCENES = ("mujoco",)
    METRICS = METRICS

    def lacking(self, experiment: Experiment) -> Iterator[str]:
        if experiment.standalone:
            yield "a device"

    def samples(self, trial: Trial, messages: Mapping[str, Sequence[bytes]]) -> Samples:
        """Samples of the trial with the columns ENGINE_WORK and `geometry_tick`."""
        samples = with_geometry_tick(trial, super().samples(trial, messages), messages)
        return samples.with_columns({ENGINE_WORK: engine_work(trial, samples, messages.get("local_geometry", ()))})

    def sweep_figures(self, curves: Sequence[Curve]) -> list[Figure]:
        return [*trial_figures(curves), work_figure(curves)]


scene_of = partial(scene_as, kind=MujocoParameters)


def work_figure(curves: Sequence[Curve]) -> Figure:
    """The work of the hand, and of the tool on MuJoCo's contacts."""
    lines = []
    for i, curve in enumerate(curves):
        time, samples, style = curve.samples["time"], curve.samples, style_of(i)
        lines.append(Line(*thin(time, 1e3 * felt_work(samples)), f"{curve.label}: hand", style))
        dashed = Style(style.colour, (4, 2))
        lines.append(Line(*thin(time, 1e3 * samples[ENGINE_WORK]), f"{curve.label}: MuJoCo's contacts", dashed))
    panel = draw("work", "work", lines, "time [s]", "work [mJ]")
    return Figure("Work", "What the hand does, and what MuJoCo's contacts take up.", [panel])
