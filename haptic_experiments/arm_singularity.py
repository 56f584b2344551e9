"""The arm of a robot, held by its wrist or elbow and moved through a singularity, where blocked directions appear."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from haptic_bench.analysis.base import scene_as
from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments.common.linkage_motion import METRICS, Held, LinkageAnalysis, blocks, declared
from haptic_sim.worlds.linkages import RobotArmParameters
from haptic_view.figures import BLUE, ORANGE, Axis, Figure, Line, Panel, Style, draw, style_of, thin

JOINTS = ("shoulder pan", "shoulder lift", "elbow", "wrist 1", "wrist 2", "wrist 3")
SMOOTH = 0.1  # of the largest force: what a blocked force may change in a tick
ABRUPT = "without fading"
scene_of = partial(scene_as, kind=RobotArmParameters)


def passes(samples: Samples) -> np.ndarray:
    """Rows after which the elbow is straight, or comes to the other side of it."""
    return np.flatnonzero(samples["q2"][:-1] * samples["q2"][1:] <= 0.0)


THROUGH = Statement(
    "through",
    "Where the elbow goes through its stretched position, the number of blocked directions changes; held by the elbow, "
    "where that is no singularity, it does not",
    "rank of the hand Jacobian",
    Quantity("how often"),
)
NO_JUMP = Statement(
    "no_jump",
    f"Neither what the hand feels nor its blocked part changes by more than {100 * SMOOTH:g} % of the largest force in "
    "a tick",
    "rank_fade",
    Quantity("largest change of a force in a tick, of the largest force"),
)
FINITE = Statement("finite", "Nothing is infinite or not a number", "", Quantity("values that are not finite"))


class ArmSingularity(LinkageAnalysis):
    SCENES = ("robot_arm",)
    METRICS = METRICS | {
        "passes": Quantity("How often the elbow goes through its stretched position"),
        "rank_changes": Quantity("How often the number of blocked directions changes"),
        "time_singular": Quantity("Time with more blocked directions than at the start", "ms", 1e3),
        "largest_rate": Quantity("Largest angular velocity of a joint", "rad/s"),
    }
    CLAIMS = declared(
        blocks("nothing but in a singularity, where it blocks one direction (held by the elbow: always three)"),
        THROUGH,
        NO_JUMP,
        FINITE,
    )
    PLANES = ((0, 2), (0, 1))

    def blocked(self, trial: Trial) -> tuple[int, int]:
        """Numbers of blocked directions: six joints move the hand by the wrist, by the elbow three, never aligned."""
        return (0, 1) if scene_of(trial.experiment).hold == "wrist" else (3, 3)

    def variants(self, trial: Trial, samples: Samples) -> dict[str, Trial]:
        """The variants of all linkages, and the trial without fading."""
        scene = scene_of(trial.experiment)
        found = super().variants(trial, samples)
        if scene.rank_fade > 0.0:
            abrupt = trial.experiment.model_copy(update={"scene": scene.model_copy(update={"rank_fade": 0.0})})
            found[ABRUPT] = replace(trial, experiment=abrupt)
        return found

    def more_metrics(self, trial: Trial, samples: Samples, held: Held) -> dict[str, float | None]:
        directions = held.directions
        return {
            "passes": float(passes(samples).size),
            "rank_changes": float(np.count_nonzero(np.diff(directions))),
            "time_singular": float(np.count_nonzero(directions > directions[0])) / trial.experiment.rate,
            "largest_rate": float(max(np.abs(samples[f"v{i}"]).max() for i in range(6))),
        }

    def more_claims(self, trial: Trial, samples: Samples, held: Held, references: Mapping[str, Samples]) -> list[Claim]:
        """Claims about the passage, about jumps, and about finite values."""
        wrist = scene_of(trial.experiment).hold == "wrist"
        crossed, changes = passes(samples).size, int(np.count_nonzero(np.diff(held.directions)))
        jumps: dict[str, float | None] = {"blocked": _jump(held, held.across), "all": _jump(held, held.felt)}
        if ABRUPT in references:
            other = Held.of(references[ABRUPT])
            jumps |= {f"blocked, {ABRUPT}": _jump(other, other.across), f"all, {ABRUPT}": _jump(other, other.felt)}
        own = [jumps["blocked"], jumps["all"]]
        bad = sum(int(np.count_nonzero(~np.isfinite(samples[name]))) for name in samples.names)
        return [
            THROUGH.judged(
                {"through": crossed, "changes of the number": changes}, (changes > 0) == wrist if crossed else None
            ),
            NO_JUMP.judged(jumps, None if None in own else all(jump is not None and jump <= SMOOTH for jump in own)),
            FINITE.judged({"values": float(bad)}, bad == 0),
        ]

    def more_figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        """Joints, and the blocked force where it jumps without fading."""
        time = samples["time"]
        joints = [Line(*thin(time, np.degrees(samples[f"q{i}"])), name, style_of(i)) for i, name in enumerate(JOINTS)]
        rates = [Line(*thin(time, samples[f"v{i}"]), name, style_of(i)) for i, name in enumerate(JOINTS)]
        panels = [
            draw("joints", "(a) angles of the joints", joints, "time [s]", Axis("angle [deg]", least=1.0)),
            draw("rates", "(b) angular velocities", rates, "time [s]", Axis("angular velocity [rad/s]", least=0.1)),
        ]
        held = Held.of(samples)
        singular = np.flatnonzero(np.diff(held.directions))
        if singular.size:
            panels.append(_closely(samples, findings, int(singular[0])))
        text = "The elbow is straight where its angle is 0."
        return [Figure("The arm", text, panels)]


def _jump(held: Held, wrench: np.ndarray) -> float | None:
    """Largest change of a force in a tick, of the largest force that the hand feels; None without force."""
    steps, force = held.steps(wrench), np.linalg.norm(held.felt[:, :3], axis=1)
    return float(steps.max() / force.max()) if steps.size and force.max() > 0.0 else None


def _closely(samples: Samples, findings: Findings, row: int) -> Panel:
    """The blocked force around a change of rank."""
    time = samples["time"]
    first, last = float(time[row]) - 0.15, float(time[row]) + 0.15
    lines = []
    runs = itertools.chain([("this run", samples)], findings.references.items())
    for (name, run), style in zip(runs, (Style(BLUE, width=2.2), Style(ORANGE, (5, 1.8)), style_of(3)), strict=False):
        force = np.linalg.norm(Held.of(run).across[:, :3], axis=1)
        lines.append(Line(run["time"], force, name, style, steps=True))
    return draw(
        "closely",
        "(c) blocked force, around a change of rank",
        lines,
        Axis("time [s]", span=(first, last)),
        "force [N]",
    )


ANALYSIS = ArmSingularity()
