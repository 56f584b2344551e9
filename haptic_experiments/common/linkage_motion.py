"""Common parts of the analyses of held linkages: the action of the linkage on the hand during a trial.

In every tick the wrench that the hand feels is divided by the present configuration of the linkage: the part
F = J^#T J^T F moves the tool (`along`). The rest lies in directions of topological constraint (`across`): it moves
nothing, and does no work on a hand that follows the tool.

A person feels the device. Claims on where the linkage lets the hand move are decided on the device, where there is one,
with the tool beside it. Laws of mechanics (accelerations, energy) are tested on the tool. The tolerances of a device
are chosen.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pinocchio as pin

from haptic_bench.analysis import tracking
from haptic_bench.analysis.base import Analysis
from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.analysis.figures import Curve, energy_figure
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples, of_trial
from haptic_control.parameters import NoControllerParameters
from haptic_drivers.parameters import NoDeviceParameters
from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.hand import Hand
from haptic_sim.messages import ToolCommand
from haptic_sim.messages import columns as message_columns
from haptic_sim.spatial import rotation_difference
from haptic_view.figures import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
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

WITHOUT_DEVICE = "tool without a device"
HORIZON = 20.0  # [s] of a trial that is compared
NO_WORK = 1e-9  # of the operator's work, without a device
LEAK = 0.05  # the same with a device, which leaves the tool a little
LAW = 1e-6  # of the largest acceleration
BALANCE = 0.05  # of the energy that the tool exchanges
DRIFT = 2e-3  # [m]
ACROSS = 5e-4  # [m] of a device across what the linkage allows
BESIDE = (Style(ORANGE, (5, 1.8)), Style(PURPLE, (1.3, 1.3)), Style(GREEN, (5, 1.6, 1.2, 1.6)))  # of references

CALLED = {"hand": "device", "tool": "tool"}
METRICS = {
    "fewest_directions": Quantity("Fewest directions in which the linkage blocks the hand"),
    "most_directions": Quantity("Most directions in which the linkage blocks the hand"),
    "least_singular_value": Quantity("Smallest singular value of a direction that is not always blocked", "mm", 1e3),
    "largest_step": Quantity("Largest change of the blocked force in a tick", "N"),
    "felt_step": Quantity("Largest change of the force that the hand feels in a tick", "N"),
    "blocked_force": Quantity("Largest force that the linkage takes", "N"),
    "constraint_work": Quantity("Sum of the absolute work of the blocked part of the hand's wrench", "mJ", 1e3),
    "operator_work": Quantity("Sum of the absolute work of the operator", "mJ", 1e3),
    "law_error": Quantity("Largest error of an acceleration without contact, of the largest one", "ppm", 1e6),
    "numerical_energy": Quantity("Largest energy that discrete time has added or taken", "mJ", 1e3),
    "drift_max": Quantity("Largest distance of the device from the tool", "mm", 1e3),
    "turn_max": Quantity("Largest angle between device and tool", "deg", 180.0 / math.pi),
}
NO_WORK_IS_DONE = Statement(
    "no_work",
    f"What the linkage blocks does no work on the hand (on a device: less than {100 * LEAK:g} % of the operator's)",
    "J\N{MODIFIER LETTER CAPITAL T} n = 0",
    Quantity("sum of the absolute work", "mJ", 1e3),
)
ENERGY_IS_KEPT = Statement(
    "energy",
    f"The discretisation error is less than {100 * BALANCE:g} % of the energy that the tool exchanges",
    "energy balance",
    Quantity("energy", "mJ", 1e3),
)
TOGETHER = Statement(
    "together",
    f"Device and tool stay within {1e3 * DRIFT:g} mm of each other",
    "THESIS 5.3, 5.4: impedance shaping and topology penalties; what is allowed is chosen",
    Quantity("largest distance of the device from the tool", "mm", 1e3),
)


def blocks(what: str) -> Statement:
    """The statement that a linkage blocks `what`."""
    return Statement(
        "blocked_directions",
        f"The linkage blocks {what}",
        "rank of the hand Jacobian",
        Quantity("number of directions"),
    )


def obeys(of: str, law: str) -> Statement:
    """The statement that accelerations are those of a law."""
    return Statement(
        "law",
        f"Without contact, accelerations {of} are those of the {law}",
        law,
        Quantity("largest error of an acceleration, of the largest one", "ppm", 1e6),
    )


ABA = obeys("of the joints", "articulated-body algorithm")


def declared(blocked: Statement, *own: Statement, law: Statement = ABA) -> tuple[Statement, ...]:
    """The statements of an analysis of a linkage."""
    return (blocked, NO_WORK_IS_DONE, law, ENERGY_IS_KEPT, TOGETHER, *own)


_WRENCH = ("fx", "fy", "fz", "tx", "ty", "tz")


def held_columns(trial: Trial, samples: Samples) -> dict[str, np.ndarray]:
    """Columns of the wrench and the motion that the linkage gives the hand.

    `constraint_directions`: their number; `fading_directions`: how many are about to be; `singular_value_i`: of the
    hand Jacobian, turns times 1 m, ascending;
    `felt_` and `across_` (wrenches): on the hand, and its part in blocked directions; with a device `drift` [m] and
    `turn` [rad] of it from the tool. Felt is what the device renders, or the reaction to the operator: of the tool
    without a device, of an admittance device as its sensor tells.
    """
    world = trial.world
    body = Multibody(world.model, world.hand, world.q, world.v, balanced=world.balanced)
    hand = Hand(body, planar=world.planar, tolerance=world.rank_tolerance, fade=world.rank_fade)
    device = "hand_px" in samples.names
    # the drive of an admittance device moves its mass: the hand feels what the force sensor between them tells
    rendered = device and not tracking.is_tracked(trial.experiment)
    felt = samples.wrench("rendered") if rendered else -samples.wrench("operator")
    rows, n = len(samples), hand.dimension
    q = _coordinates(samples, "q", body.q.size)
    directions, fading = np.zeros(rows), np.zeros(rows)
    along, singular = np.zeros((rows, 6)), np.zeros((rows, n))
    for k in range(rows):
        body.q[:] = q[k]
        body.refresh()
        hand.refresh()
        directions[k], fading[k] = hand.constraints, hand.listed - hand.constraints
        singular[k] = hand.singular_values[:n]
        hand.wrench(body.W_H.T @ felt[k], 1.0, along[k])
    table = {"constraint_directions": directions, "fading_directions": fading}
    table |= {f"singular_value_{i}": np.ascontiguousarray(singular[:, i]) for i in range(n)}
    for i, name in enumerate(_WRENCH):
        table[f"felt_{name}"] = np.ascontiguousarray(felt[:, i])
        table[f"across_{name}"] = felt[:, i] - along[:, i]
    if device:
        away = samples.group("hand", "px", "py", "pz") - samples.group("tool", "px", "py", "pz")
        turns = zip(samples.pose("hand")[:, 3:], samples.pose("tool")[:, 3:], strict=True)
        table |= {"drift": np.linalg.norm(away, axis=1), "turn": np.array([_angle(a, b) for a, b in turns])}
    return table


def _coordinates(samples: Samples, prefix: str, count: int) -> np.ndarray:
    return np.stack([samples[f"{prefix}{i}"] for i in range(count)], axis=-1)


def _angle(quat_B: np.ndarray, quat_A: np.ndarray) -> float:
    turn = np.zeros(3)
    rotation_difference(quat_B, quat_A, turn)
    return float(np.linalg.norm(turn))


def pull_columns(trial: Trial, samples: Samples, messages: Mapping[str, Sequence[bytes]]) -> dict[str, np.ndarray]:
    """`pull_` (wrench): on the tool in each tick, the command that its state answers."""
    states = message_columns(trial.tool_sizes.tool_state(), messages.get("tool_state", ()))
    asked = message_columns(ToolCommand(), messages.get("tool_command", ()))
    wrench = {int(tick): value for tick, value in zip(asked["tick"], asked["wrench"], strict=True)}
    answered = {int(k): int(c) for k, c in zip(states["tick"], states["command_tick"], strict=True)}
    nothing = np.full(6, np.nan)
    pulls = np.array([wrench.get(answered[int(k)], nothing) for k in samples["tick"]]).reshape(-1, 6)
    return {f"pull_{name}": np.ascontiguousarray(pulls[:, i]) for i, name in enumerate(_WRENCH)}


@dataclass(frozen=True)
class Held:
    """A trial seen from the hand, from its columns; n rows.

    Attributes:
        device: whether there is one.
        singular_values: (n, dimension of the hand's space); twist: of the hand on the device, or on the tool (n, 6).
        felt, across: wrench on the hand, and its part in blocked directions (n, 6).
    """

    samples: Samples
    device: bool
    singular_values: np.ndarray
    twist: np.ndarray
    felt: np.ndarray
    across: np.ndarray

    @classmethod
    def of(cls, samples: Samples) -> Held:
        """The columns of `held_columns` in samples."""
        names = [name for name in samples.names if name.startswith("singular_value_")]
        device = "drift" in samples.names
        return cls(
            samples=samples,
            device=device,
            singular_values=np.stack([samples[name] for name in names], axis=-1),
            twist=samples.twist("hand" if device else "tool"),
            felt=samples.wrench("felt"),
            across=samples.wrench("across"),
        )

    @property
    def bodies(self) -> tuple[str, ...]:
        """The bodies that are judged and shown: first the one that is felt, which decides."""
        return ("hand", "tool") if self.device else ("tool",)

    @property
    def time(self) -> np.ndarray:
        """[s] (n,)"""
        return self.samples["time"]

    @property
    def directions(self) -> np.ndarray:
        """Number of blocked directions (n,)."""
        return self.samples["constraint_directions"]

    @property
    def least(self) -> np.ndarray:
        """Smallest singular value of the directions that are not always blocked (n,); infinite where there is none."""
        always = int(self.directions.min())
        if always == self.singular_values.shape[1]:
            return np.full(self.time.size, np.inf)
        return self.singular_values[:, always]

    def steps(self, wrench: np.ndarray) -> np.ndarray:
        """Change of the force of a wrench from one tick to the next [N] (n - 1,)."""
        return np.linalg.norm(np.diff(wrench[:, :3], axis=0), axis=1)

    @property
    def period(self) -> float:
        """[s]"""
        return float(self.time[1] - self.time[0]) if self.time.size > 1 else 0.0

    def work(self, wrench: np.ndarray) -> float:
        """Sum of the absolute work of a wrench on the hand [J]."""
        return float(np.abs(np.einsum("ni,ni->n", wrench, self.twist)).sum() * self.period)

    def blocked_work(self) -> float:
        """Sum of the absolute work of the blocked part of the felt wrench, in ticks without a fading direction [J]."""
        settled = self.samples["fading_directions"] == 0.0
        return self.work(np.where(settled[:, None], self.across, 0.0))

    def tolerated_work(self, tolerance: float) -> float:
        """Largest work of the blocked part that a tolerance of the rank permits [J].

        In a direction n that counts as blocked the hand still moves by n . J v, at most the tolerance times |v|.
        """
        names = [name for name in self.samples.names if re.fullmatch(r"v\d+", name)]
        speed = np.linalg.norm(np.stack([self.samples[name] for name in names], axis=-1), axis=1)
        return float((np.linalg.norm(self.across, axis=1) * speed).sum() * tolerance * self.period)


@dataclass(frozen=True)
class Law:
    """Accelerations of a coordinate in ticks without contact: as they were, and by a law.

    Attributes:
        unit: of the acceleration.
        time: of the ticks [s] (m,); found, expected: (m,) or (m, coordinates).
        source: how it is known.
    """

    unit: str
    time: np.ndarray
    found: np.ndarray
    expected: np.ndarray
    source: str

    @property
    def error(self) -> float | None:
        """Largest error, relative to the largest acceleration; None where nothing accelerates."""
        largest = float(np.abs(self.expected).max()) if self.expected.size else 0.0
        return float(np.abs(self.found - self.expected).max()) / largest if largest > 0.0 else None


def free_ticks(samples: Samples) -> np.ndarray:
    """Rows of ticks without contact that have a next row and a known wrench."""
    known = (samples["contacts"] == 0) & ~np.isnan(samples["pull_fx"])
    ticks = samples["tick"]
    return np.flatnonzero(known[:-1] & (np.diff(ticks) == 1))


def accelerations(trial: Trial, samples: Samples, rows: np.ndarray, coordinates: int) -> np.ndarray:
    """Accelerations of the first coordinates in the ticks of `rows`, (rows, coordinates)."""
    v = _coordinates(samples, "v", coordinates)
    return (v[rows + 1] - v[rows]) * trial.experiment.rate


def model_law(trial: Trial, samples: Samples) -> Law:
    """Accelerations of all joints by Pinocchio's articulated-body algorithm, which factors no inertia."""
    world = trial.world
    model, data = world.model, world.model.createData()
    rows = free_ticks(samples)
    q, v, pull = (_coordinates(samples, "q", model.nq), _coordinates(samples, "v", model.nv), samples.wrench("pull"))
    expected = np.zeros((rows.size, model.nv))
    for i, k in enumerate(rows):
        J = pin.computeFrameJacobian(model, data, q[k], world.hand, pin.LOCAL_WORLD_ALIGNED)
        expected[i] = pin.aba(model, data, q[k], v[k], J.T @ pull[k])
    found = accelerations(trial, samples, rows, model.nv)
    return Law("rad/s², m/s²", samples["time"][rows], found, expected, ABA.source)


class LinkageAnalysis(Analysis):
    """Analysis of held linkages; each subclass adds its law, metrics, claims and figures."""

    METRICS = METRICS
    CLAIMS: ClassVar[Sequence[Statement]] = ()
    """Claims of the analysis; see `declared`."""
    BLOCKED = 0
    """Directions that the linkage always blocks."""
    PLANES: tuple[tuple[int, int], ...] = ((0, 1), (0, 2))
    """Axes of the projections in which the motion is shown."""

    def samples(self, trial: Trial, messages: Mapping[str, Sequence[bytes]]) -> Samples:
        samples = of_trial(trial, messages)
        if not len(samples):
            return samples
        samples = samples.with_columns(pull_columns(trial, samples, messages))
        return samples.with_columns(self.columns(trial, samples))

    def columns(self, trial: Trial, samples: Samples) -> Mapping[str, np.ndarray]:
        """Columns of the wrench and the motion that the linkage gives the hand, as of `held_columns`."""
        return held_columns(trial, samples) if len(samples) else {}

    def law(self, trial: Trial, samples: Samples) -> Law:
        """Law of the linkage's acceleration."""
        return model_law(trial, samples)

    def blocked(self, trial: Trial) -> tuple[int, int]:
        """Smallest and largest number of directions that the linkage blocks."""
        return self.BLOCKED, self.BLOCKED

    def variants(self, trial: Trial, samples: Samples) -> dict[str, Trial]:
        experiment = trial.experiment
        if experiment.standalone:
            return {}
        duration = max(min(float(samples["time"][-1]), HORIZON), 1.0 / experiment.rate)
        standalone = {"device": NoDeviceParameters(), "controller": NoControllerParameters(), "duration": duration}
        return {WITHOUT_DEVICE: replace(trial, experiment=experiment.model_copy(update=standalone))}

    def judge(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> Findings:
        held = Held.of(samples)
        law = self.law(trial, samples)
        metrics = {**_metrics(held, law), **self.more_metrics(trial, samples, held)}
        claims = [*self._claims(trial, held, law, metrics), *self.more_claims(trial, samples, held, references)]
        return Findings({name: metrics.get(name) for name in self.METRICS}, claims, references)

    def more_metrics(self, trial: Trial, samples: Samples, held: Held) -> dict[str, float | None]:
        """Metrics of the experiment itself."""
        return {}

    def more_claims(self, trial: Trial, samples: Samples, held: Held, references: Mapping[str, Samples]) -> list[Claim]:
        """Claims of the experiment itself."""
        return []

    def _claims(self, trial: Trial, held: Held, law: Law, metrics: Mapping[str, float | None]) -> list[Claim]:
        least, most = self.blocked(trial)
        share = NO_WORK if trial.experiment.standalone else LEAK
        done, operator = metrics["constraint_work"], metrics["operator_work"]
        singular = least != most
        tolerated = held.tolerated_work(trial.world.rank_tolerance) if singular else 0.0
        works = {"blocked part": done, "operator": operator}
        if singular:
            works["allowed by the tolerance of the rank"] = tolerated
        turned, numerical, drift = _turnover(held.samples), metrics["numerical_energy"], metrics["drift_max"]
        blocked, _, obeyed, *_ = self.CLAIMS
        return [
            blocked.judged(
                {"fewest": metrics["fewest_directions"], "most": metrics["most_directions"]},
                bool(least <= held.directions.min() and held.directions.max() <= most),
            ),
            NO_WORK_IS_DONE.judged(
                works, None if done is None or not operator else bool(done <= share * operator + tolerated)
            ),
            obeyed.judged({"error": law.error}, None if law.error is None else bool(law.error <= LAW)),
            ENERGY_IS_KEPT.judged(
                {"discretisation error": numerical, "exchanged": turned},
                None if numerical is None or not turned > 0.0 else bool(numerical <= BALANCE * turned),
            ),
            TOGETHER.judged({"drift": drift}, None if drift is None else bool(drift <= DRIFT)),
        ]

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        own = Curve("this run", trial, samples, Style(BLUE))
        beside = [
            Curve(name, trial, run, style)
            for (name, run), style in zip(findings.references.items(), itertools.cycle(BESIDE), strict=False)
        ]
        return shown(
            self.motion(trial, samples, findings),
            *self.more_figures(trial, samples, findings),
            blocked_figure([own], beside),
            law_figure(self.law(trial, samples)),
            energy_figure([own], beside),
        )

    def motion(self, trial: Trial, samples: Samples, findings: Findings) -> Figure:
        """Figure of the motion of hand and tool."""
        paths = [("tool", samples.group("tool", "px", "py", "pz"), Style(BLUE))]
        if "hand_px" in samples.names:
            paths.append(("device", samples.group("hand", "px", "py", "pz"), Style(VERMILION, (5, 1.8))))
        for (name, run), style in zip(findings.references.items(), itertools.cycle(BESIDE), strict=False):
            paths.append((name, run.group("tool", "px", "py", "pz"), style))
        panels = []
        for letter, (a, b) in zip("abc", self.PLANES, strict=False):
            lines = [Line(1e3 * p[:, a], 1e3 * p[:, b], name, style) for name, p, style in paths]
            axes = f"{'xyz'[a]} [mm]", Axis(f"{'xyz'[b]} [mm]", least=1.0)
            title = f"({letter}) hand point in {'xyz'[a]} and {'xyz'[b]}"
            panels.append(draw(f"path_{'xyz'[a]}{'xyz'[b]}", title, lines, *axes, equal=True))
        if "drift" in samples.names:
            away = Line(*thin(samples["time"], 1e3 * samples["drift"]), "device from tool", Style(VERMILION))
            panels.append(
                draw("drift", "distance of device and tool", [away], "time [s]", Axis("distance [mm]", least=1e-3))
            )
        return Figure("Motion of the hand", "Path of the hand point, in projections.", panels)

    def more_figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        """Figures of the experiment itself."""
        return []

    def sweep_figures(self, curves: Sequence[Curve]) -> list[Figure]:
        panels = []
        for a, b in self.PLANES:
            lines = []
            for curve in curves:
                p = 1e3 * curve.samples.group("tool", "px", "py", "pz")
                lines.append(Line(p[:, a], p[:, b], curve.label, curve.style))
            x, y = "xyz"[a], "xyz"[b]
            title = f"Hand point of the tool in {x} and {y}"
            panels.append(draw(f"path_{x}{y}", title, lines, f"{x} [mm]", Axis(f"{y} [mm]", least=1.0), equal=True))
        moved = Figure("Motion of the hand", "Path of the tool's hand point, in projections.", panels)
        return shown(moved, blocked_figure(curves, ()), energy_figure(curves))


def _metrics(held: Held, law: Law) -> dict[str, float | None]:
    samples = held.samples
    steps, least = held.steps(held.across), held.least
    return {
        "fewest_directions": float(held.directions.min()),
        "most_directions": float(held.directions.max()),
        "least_singular_value": float(least.min()) if np.isfinite(least).all() else None,
        "largest_step": float(steps.max()) if steps.size else None,
        "felt_step": float(held.steps(held.felt).max()) if steps.size else None,
        "blocked_force": float(np.linalg.norm(held.across[:, :3], axis=1).max()),
        "constraint_work": held.blocked_work(),
        "operator_work": held.work(samples.wrench("operator")),
        "law_error": law.error,
        "numerical_energy": float(np.abs(samples["energy_numerical"]).max()),
        "drift_max": float(samples["drift"].max()) if held.device else None,
        "turn_max": float(samples["turn"].max()) if held.device else None,
    }


def _turnover(samples: Samples) -> float:
    """Sum of the absolute changes of the kinetic or the injected energy, the larger one [J]."""
    changes = [np.abs(np.diff(samples[f"energy_{name}"])).sum() for name in ("kinetic", "injected")]
    return float(max(changes))


_SINGULAR = (BLUE, VERMILION, GREEN, ORANGE, BLACK, "#b8578f")


def blocked_figure(curves: Sequence[Curve], beside: Sequence[Curve]) -> Figure:
    """Directions that are blocked, singular values, and what the hand feels along and across."""
    one = len(curves) == 1
    all_held = [(curve, Held.of(curve.samples)) for curve in curves]
    number = [Line(held.time, held.directions, curve.label, curve.style, steps=True) for curve, held in all_held]
    panels = [draw("directions", "(a) blocked directions", number, "time [s]", Axis("directions", counts=True))]
    world = curves[0].trial.world
    lines = []
    for curve, held in all_held:
        always = int(held.directions.min())
        if one:
            shown = range(always, held.singular_values.shape[1])
            styles = [Style(_SINGULAR[i % len(_SINGULAR)]) for i in range(len(shown))]
            lines += [
                Line(*thin(held.time, held.singular_values[:, i]), f"number {i + 1}", style)
                for i, style in zip(shown, styles, strict=True)
            ]
        elif np.isfinite(held.least).all():
            lines.append(Line(*thin(held.time, np.maximum(held.least, 1e-9)), curve.label, curve.style))
    ends = curves[0].samples["time"][[0, -1]]
    tolerance = Style(BLACK, (1.2, 2.2), 1.1)
    if world.rank_tolerance > 0.0:
        lines.append(Line(ends, np.full(2, world.rank_tolerance), "tolerance of the rank", tolerance))
        if world.rank_fade > 0.0:
            above = world.rank_tolerance * (1.0 + world.rank_fade)
            lines.append(Line(ends, np.full(2, above), "begins to fade in", Style(BLACK, (5, 1.8), 0.9)))
    title = "(b) singular values that are not always 0" if one else "(b) smallest singular value that is not always 0"
    panels.append(draw("singular_values", title, lines, "time [s]", Axis("singular value [m]", log=True)))
    panels += _felt(curves, beside) if one else _across(curves)
    text = (
        "A direction is blocked where a singular value of the hand Jacobian (metres, and turns times 1 m) is below the "
        "tolerance. What the hand feels has a part across, which the linkage takes and which does no work, and a part "
        "along the directions in which the tool moves."
    )
    return Figure("What the linkage blocks", text, panels)


def _felt(curves: Sequence[Curve], beside: Sequence[Curve]) -> list[Panel]:
    (curve,) = curves
    held = Held.of(curve.samples)
    panels = []
    for letter, first, kind, unit in (("c", 0, "force", "N"), ("d", 3, "torque", "N m")):
        part = slice(first, first + 3)
        across, along = held.across[:, part], (held.felt - held.across)[:, part]
        lines = [
            Line(*thin(held.time, np.linalg.norm(across, axis=1)), "across: blocked", Style(VERMILION)),
            Line(*thin(held.time, np.linalg.norm(along, axis=1)), "along: moves the tool", Style(BLUE)),
        ]
        for other in beside:
            values = np.linalg.norm(Held.of(other.samples).across[:, part], axis=1)
            lines.append(Line(*thin(other.samples["time"], values), f"across, {other.label}", other.style))
        title = f"({letter}) {kind} that the hand feels"
        panels.append(draw(f"felt_{kind}", title, lines, "time [s]", Axis(f"{kind} [{unit}]", least=0.1)))
    return panels


def _across(curves: Sequence[Curve]) -> list[Panel]:
    lines = []
    for curve in curves:
        force = np.linalg.norm(Held.of(curve.samples).across[:, :3], axis=1)
        lines.append(curve.over_time(force))
    return [draw("across", "(c) blocked force", lines, "time [s]", Axis("force [N]", least=0.1))]


def _with_gaps(x: np.ndarray, y: np.ndarray, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A curve that is interrupted where ticks are missing from the times of which it is a part."""
    step = np.diff(time)
    after = time[1:][step > 1.5 * np.median(step)] if step.size else time[:0]
    places = np.searchsorted(x, after)
    return np.insert(x, places, np.nan), np.insert(y, places, np.nan)


def law_figure(law: Law) -> Figure | None:
    """Accelerations beside the law; None where there are none."""
    if not law.time.size:
        return None
    found, expected = (values.reshape(law.time.size, -1) for values in (law.found, law.expected))
    gaps = np.abs(found - expected).max(axis=1)
    by = int(np.abs(expected).max(axis=0).argmax())

    def line(values: np.ndarray, label: str, style: Style) -> Line:
        return Line(*_with_gaps(*thin(law.time, values), law.time), label, style)

    lines = [
        line(found[:, by], "simulated", Style(BLUE, width=2.2)),
        line(expected[:, by], law.source, Style(ORANGE, (5, 1.8))),
    ]
    error = [line(np.maximum(gaps, 1e-16), "difference", Style(VERMILION))]
    panels = [
        draw("law", "(a) acceleration", lines, "time [s]", Axis(f"acceleration [{law.unit}]", least=1e-3)),
        draw("law_error", "(b) difference", error, "time [s]", Axis(f"difference [{law.unit}]", log=True)),
    ]
    several = "" if expected.shape[1] == 1 else ", of the joint that accelerates most; (b) is the largest of all joints"
    text = f"Change of velocity in each tick without contact, beside the {law.source} under the same wrench{several}."
    return Figure("Acceleration beside the law", text, panels)
