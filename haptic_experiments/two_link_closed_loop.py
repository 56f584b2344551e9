"""Two links whose joint and circle are constraints (YUN V-B): does the loop close, and swing as one pendulum?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from haptic_bench.analysis import tracking
from haptic_bench.analysis.base import Analysis, scene_as
from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.analysis.figures import Curve, energy_figure
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments.common import exact_tools
from haptic_experiments.common.exact_tools import CALLED, DEVICE_ANGLE, DEVICE_POSITION, felt_bodies, has_device
from haptic_experiments.common.held_ticks import ticks_held
from haptic_sim.constraints.scenes import TwoLinkClosedLoopParameters
from haptic_sim.spatial import planar_angle
from haptic_view.figures import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    VERMILION,
    Axis,
    Figure,
    Line,
    Style,
    draw,
    shown,
    style_of,
    thin,
)

CONVERGED = 0.01  # of what the constraints were off at the start
TIMES = 5.0  # YUN V-B: converged after about so many time constants 1 / gamma
RIGID = 15.0  # time constants after which the links are compared with a pendulum: 3e-7 of the start is left
FOLLOWS = 1e-6  # of a constraint at the start: how near to the exponential
PENDULUM = 1e-5  # [rad] how near to the pendulum
FLOOR = 1e-14  # of rounding; below it a constraint is drawn as this
TOLERANCES = {"tool": 1e-10, "hand": DEVICE_POSITION}  # [m, m^2] below it a constraint counts as met
SHOWN = 1.5  # [s] of the links in the plane, as in the source
NAMES = ("c1", "c2", "c3")

METRICS = {
    "residual_start": Quantity("Norm of the constraints at the start", "m, m²"),
    "convergence_time": Quantity("Time until 1 % of every constraint's value at the start is left", "s"),
    "left_after_1s": Quantity("Largest part of a constraint's value at the start that is left after 1 s", "%", 100.0),
    "residual_end": Quantity("Norm of the constraints at the end", "m, m²"),
    "decay_error": Quantity("Largest distance of a constraint from its exponential", "m, m²"),
    "fold_drift": Quantity("Largest change of the angle between the links after convergence", "mrad", 1e3),
    "pendulum_error": Quantity("Largest distance from the rigid pendulum", "µrad", 1e6),
    "ticks_held": Quantity(
        "Ticks in which the solver could not meet the constraints and kept the links where they were"
    ),
    "energy_drift": Quantity(
        "Largest change of the energy of the rigid links, relative to the kinetic energy", "ppm", 1e6
    ),
}
ERROR_DECAYS = Statement(
    "error_decays",
    "Each constraint follows exp(-gamma t); of a device that renders link 2, which then decides, within 1e-4 m and m²",
    "YUN (17); what is allowed to a device is chosen",
    Quantity("largest distance from the exponential, and the largest value", "m, m²"),
)
CONVERGED_IN_TIME = Statement(
    "converged",
    "The constraints are enforced after five time constants (with gamma 5: 1 s): less than 1 % is left, while the "
    "links move on: the solver never keeps them where they were (a device that renders link 2 decides, and has met a "
    "constraint below 1e-4 m or m²)",
    "YUN V-B, figure 5",
    Quantity("share that is left; ticks"),
)
RIGID_PENDULUM = Statement(
    "rigid_pendulum",
    "From then on the two links are one rigid pendulum: after fifteen time constants within 10 µrad of it; of a device "
    "that renders link 2, which then decides, its angle and the direction of its joint from the hinge, within 1 mrad",
    "errata of YUN, 6; pendulum of the same inertia, integrated from there",
    Quantity("largest difference of the angles", "µrad", 1e6),
)
CLAIMS = (ERROR_DECAYS, CONVERGED_IN_TIME, RIGID_PENDULUM)
scene_of = partial(scene_as, kind=TwoLinkClosedLoopParameters)


def constraints(scene: TwoLinkClosedLoopParameters, q: np.ndarray) -> np.ndarray:
    """c1, c2 [m] and c3 [m^2] of YUN (53), (rows, 3), at configurations (rows, 4)."""
    theta1, x2, y2, theta2 = q.T
    cosine = np.cos(math.pi + theta1 - theta2)
    return np.stack(
        [
            x2 - scene.L1 * np.cos(theta1) - scene.Lc2 * np.cos(theta2),
            y2 - scene.L1 * np.sin(theta1) - scene.Lc2 * np.sin(theta2),
            scene.l3**2 - scene.L1**2 - scene.L2**2 + 2.0 * scene.L1 * scene.L2 * cosine,
        ],
        axis=-1,
    )


def pendulum(
    scene: TwoLinkClosedLoopParameters, fold: float, angle: float, rate: float, steps: int, period: float
) -> np.ndarray:
    """Angles (steps + 1,) of link 1 [rad] where link 2 is fixed to it at `fold` = theta2 - theta1.

    I theta1'' = -g (m1 Lc1 cos theta1 + m2 (L1 cos theta1 + Lc2 cos(theta1 + fold))) about the hinge, by Runge-Kutta
    with a quarter of the period.
    """
    pivot = scene.I1 + (scene.m1 * scene.Lc1**2 if scene.I1_about == "centroid" else 0.0)
    square = scene.L1**2 + scene.Lc2**2 + 2.0 * scene.L1 * scene.Lc2 * math.cos(fold)
    inertia = pivot + scene.I2 + scene.m2 * square
    weight1 = scene.gravity * (scene.m1 * scene.Lc1 + scene.m2 * scene.L1)
    weight2 = scene.gravity * scene.m2 * scene.Lc2

    def acceleration(theta: float) -> float:
        return -(weight1 * math.cos(theta) + weight2 * math.cos(theta + fold)) / inertia

    angles = np.empty(steps + 1)
    angles[0] = angle
    h = 0.25 * period
    for k in range(1, steps + 1):
        for _ in range(4):
            a1 = acceleration(angle)
            a2 = acceleration(angle + 0.5 * h * rate)
            a3 = acceleration(angle + 0.5 * h * (rate + 0.5 * h * a1))
            a4 = acceleration(angle + h * (rate + 0.5 * h * a2))
            angle += h * (rate + h / 6.0 * (a1 + a2 + a3))
            rate += h / 6.0 * (a1 + 2.0 * a2 + 2.0 * a3 + a4)
        angles[k] = angle
    return angles


@dataclass(frozen=True)
class Motion:
    """Motion of the links; of a device that renders link 2, its motion as link 2, with link 1 of the tool.

    Attributes:
        time: [s], (rows,). q: (rows, 4). c: c1, c2, c3, (rows, 3).
        first: angle of link 1 [rad]; of a device the direction of its joint from the hinge, (rows,).
        tolerance: below it a constraint counts as met [m, m^2].
        gamma: [1/s]; None where the position is returned to the constraints.
        rigid: first row that is compared with the pendulum; `rows` if there is none.
        pendulum: its angles from there, as link 1 and as link 2 [rad], (rows - rigid, 2).
    """

    time: np.ndarray
    q: np.ndarray
    c: np.ndarray
    first: np.ndarray
    tolerance: float
    gamma: float | None
    rigid: int
    pendulum: np.ndarray

    @classmethod
    def of(cls, trial: Trial, samples: Samples, body: str = "tool") -> Motion:
        """Motion from the samples of a trial, of the `tool` or of the `hand` of a device that renders link 2."""
        experiment = trial.experiment
        scene, constraint = scene_of(experiment), experiment.constraint
        gamma = constraint.gamma if constraint.solver == "stabilised" else None
        q, time = np.stack([samples[f"q{i}"] for i in range(4)], axis=-1), samples["time"]
        rigid = _from(time, RIGID, gamma)
        angles = np.zeros((0, 2))
        # an admittance device's samples have what its sensor tells, with noise
        tracked = tracking.is_tracked(experiment)
        wrench = tracking.operator_wrench(trial, samples) if tracked else samples.wrench("operator")
        if rigid < len(time) and wrench is not None and not wrench.any():
            fold, rate = float(q[rigid, 3] - q[rigid, 0]), float(samples["v0"][rigid])
            single = pendulum(scene, fold, float(q[rigid, 0]), rate, len(time) - 1 - rigid, 1.0 / experiment.rate)
            angles = np.stack([single, single + fold], axis=-1)
        first = q[:, 0]
        if body == "hand":
            q[:, 1:3], q[:, 3] = samples.group("hand", "px", "py"), _near(planar_angle(samples.pose("hand")), q[:, 3])
            x, y = q[:, 1] - scene.Lc2 * np.cos(q[:, 3]), q[:, 2] - scene.Lc2 * np.sin(q[:, 3])
            first = _near(np.arctan2(y, x), first)
        return cls(time, q, constraints(scene, q), first, TOLERANCES[body], gamma, rigid, angles)

    @property
    def exponential(self) -> np.ndarray | None:
        """Values of the constraints by YUN (17), (rows, 3)."""
        if self.gamma is None:
            return None
        return self.c[0] * np.exp(-self.gamma * (self.time - self.time[0]))[:, None]

    @property
    def deviation(self) -> float | None:
        """Largest distance of a constraint from its exponential."""
        expected = self.exponential
        return None if expected is None else float(np.abs(self.c - expected).max())

    @property
    def share(self) -> np.ndarray:
        """Largest part of a constraint that is left, (rows,); it is CONVERGED where a constraint counts as met."""
        return np.max(np.abs(self.c) / np.maximum(np.abs(self.c[0]), self.tolerance / CONVERGED), axis=1)

    def left(self, after: float) -> float | None:
        """Part of the constraints that is left `after` [s]; None if the run was shorter."""
        row = int(np.searchsorted(self.time, self.time[0] + after - 1e-9))
        return float(self.share[row]) if row < len(self.time) else None

    @property
    def convergence(self) -> float | None:
        """Time from which on less than CONVERGED is left [s]."""
        away = np.flatnonzero(self.share > CONVERGED)
        if not away.size:
            return 0.0
        after = int(away[-1]) + 1
        return float(self.time[after] - self.time[0]) if after < len(self.time) else None

    @property
    def fold(self) -> np.ndarray:
        """Angle between the links [rad], (rows,)."""
        return self.q[:, 3] - self.q[:, 0]

    @property
    def fold_drift(self) -> float | None:
        """Largest change of the angle between the links after TIMES time constants [rad]."""
        after = self.fold[_from(self.time, TIMES, self.gamma) :]
        return float(np.ptp(after)) if after.size > 1 else None

    @property
    def pendulum_error(self) -> float | None:
        """Largest distance of either link from the pendulum [rad]."""
        return float(np.abs(self.from_pendulum).max()) if len(self.pendulum) > 1 else None

    @property
    def from_pendulum(self) -> np.ndarray:
        """Difference of the links' angles from the pendulum's, from the row `rigid` on [rad], (rows - rigid, 2)."""
        links = np.stack([self.first, self.q[:, 3]], axis=-1)
        return links[self.rigid :] - self.pendulum


def _near(angles: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The same angles, within half a turn of others [rad]."""
    turn = 2.0 * math.pi
    return angles + turn * np.round((others - angles) / turn)


def _from(time: np.ndarray, constants: float, gamma: float | None) -> int:
    """First row that many time constants after the start."""
    if gamma is None:
        return 0
    return int(np.searchsorted(time, time[0] + constants / gamma - 1e-9)) if gamma > 0.0 else len(time)


class TwoLinkClosedLoop(Analysis):
    SCENES = ("two_link_closed_loop",)
    METRICS = METRICS
    CLAIMS = CLAIMS

    def columns(self, trial: Trial, samples: Samples) -> Mapping[str, np.ndarray]:
        """`c1`, `c2` [m], `c3` [m^2], `energy` [J]."""
        q = np.stack([samples[f"q{i}"] for i in range(4)], axis=-1)
        values = constraints(scene_of(trial.experiment), q)
        return {**dict(zip(NAMES, values.T, strict=True)), "energy": exact_tools.energy(samples)}

    def judge(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> Findings:
        motion = Motion.of(trial, samples)
        metrics = _metrics(trial, samples, motion)
        return Findings(metrics, _claims(trial, samples, motion, metrics))

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        own = Curve("this run", trial, samples, Style(BLUE, width=1.6))
        motion = Motion.of(trial, samples)
        energy = energy_figure([own])
        if energy is not None:
            energy = replace(energy, caption=f"{energy.caption} {_WORK}")
        tracked = tracking.figure(trial, samples) if tracking.is_tracked(trial.experiment) else None
        return shown(_links(own, motion), _decay(motion), _as_pendulum(motion), tracked, energy)

    def sweep_figures(self, curves: Sequence[Curve]) -> list[Figure]:
        return shown(_runs(curves), energy_figure(curves))

    def expected(self, trial: Trial, findings: Findings) -> Mapping[str, tuple[float, str]]:
        """Part of the exponential that is left after 1 s, and the time at which 1 % is left."""
        constraint = trial.experiment.constraint
        if constraint.solver != "stabilised" or not constraint.gamma:
            return {}
        return {
            "convergence_time": (-math.log(CONVERGED) / constraint.gamma, "ln(100) / gamma"),
            "left_after_1s": (math.exp(-constraint.gamma), "exp(-gamma 1 s)"),
        }


_WORK = (
    "Here it is the work of the stabilised constraints: while they put the links together, they move against gravity "
    "and against their inertia."
)


def _metrics(trial: Trial, samples: Samples, motion: Motion) -> dict[str, float | None]:
    drift = None
    if len(motion.pendulum) > 1:
        total = exact_tools.energy(samples)[motion.rigid :]
        scale = float(samples["energy_kinetic"][motion.rigid :].max())
        drift = float(np.abs(total - total[0]).max()) / scale if scale > 0.0 else 0.0
    return {
        "residual_start": float(np.linalg.norm(motion.c[0])),
        "convergence_time": motion.convergence,
        "left_after_1s": motion.left(1.0),
        "residual_end": float(np.linalg.norm(motion.c[-1])),
        "decay_error": motion.deviation,
        "fold_drift": motion.fold_drift,
        "pendulum_error": motion.pendulum_error,
        "ticks_held": ticks_held(trial, samples),
        "energy_drift": drift,
    }


def _claims(trial: Trial, samples: Samples, motion: Motion, metrics: Mapping[str, float | None]) -> list[Claim]:
    motions = {body: motion if body == "tool" else Motion.of(trial, samples, body) for body in felt_bodies(samples)}
    felt, device = next(iter(motions.values())), has_device(samples)
    of = {body: f"{CALLED[body]}, " if device else "" for body in motions}
    gamma, deviation, error = motion.gamma, felt.deviation, felt.pendulum_error
    allowed = DEVICE_POSITION if device else FOLLOWS * float(np.abs(felt.c).max()) + FLOOR
    after = TIMES / gamma if gamma else None
    lefts = {body: one.left(after) if after is not None else None for body, one in motions.items()}
    left, held = lefts[next(iter(motions))], metrics["ticks_held"] or 0
    return [
        ERROR_DECAYS.judged(
            {f"{of[body]}deviation": one.deviation for body, one in motions.items()}
            | {"largest": float(np.abs(felt.c).max())},
            deviation <= allowed if deviation is not None else None,
        ),
        CONVERGED_IN_TIME.judged(
            {f"{of[body]}left": one for body, one in lefts.items()} | {"exp(-5)": math.exp(-TIMES), "ticks held": held},
            left < CONVERGED and held == 0 if left is not None else None,
        ),
        RIGID_PENDULUM.judged(
            {f"{of[body]}difference": one.pendulum_error for body, one in motions.items()},
            error < (DEVICE_ANGLE if device else PENDULUM) if error is not None else None,
        ),
    ]


def _links(curve: Curve, motion: Motion) -> Figure:
    """YUN figure 5, top: the links in the plane, and their angles."""
    scene, experiment = scene_of(curve.trial.experiment), curve.trial.experiment
    step = max(1, round(0.1 * experiment.rate))
    shown = motion.q[motion.time <= motion.time[0] + SHOWN][::step]
    c1, s1, c2, s2 = (f(shown[:, i]) for i in (0, 3) for f in (np.cos, np.sin))
    zero, gap = np.zeros(len(shown)), np.full(len(shown), np.nan)
    ends = np.stack([shown[:, 1], shown[:, 2]], axis=-1)
    base = ends - scene.Lc2 * np.stack([c2, s2], axis=-1)
    tip = base + scene.L2 * np.stack([c2, s2], axis=-1)
    turn = np.linspace(0.0, 2.0 * math.pi, 361)
    lines = [
        Line(
            np.stack([zero, scene.L1 * c1, gap], axis=-1).ravel(),
            np.stack([zero, scene.L1 * s1, gap], axis=-1).ravel(),
            "link 1",
            Style(BLUE, width=1.3),
        ),
        Line(
            np.stack([base[:, 0], tip[:, 0], gap], axis=-1).ravel(),
            np.stack([base[:, 1], tip[:, 1], gap], axis=-1).ravel(),
            "link 2",
            Style(VERMILION, width=1.3),
        ),
        Line(tip[:, 0], tip[:, 1], "end point", Style(GREEN), points=True),
        Line(scene.l3 * np.cos(turn), scene.l3 * np.sin(turn), "circle of the end point", Style("#8a8f98")),
    ]
    angles = [
        Line(*thin(motion.time, motion.q[:, 0]), "theta1", Style(BLUE)),
        Line(*thin(motion.time, motion.q[:, 3]), "theta2", Style(VERMILION, (5, 1.8))),
        Line(*thin(motion.time, motion.fold), "theta2 \N{MINUS SIGN} theta1", Style(GREEN, (8, 2))),
    ]
    names = ("joint, along x", "joint, along y", "circle, per m")
    forces = [
        Line(*thin(motion.time, curve.samples[f"lambda{i + 1}"]), name, style_of(i)) for i, name in enumerate(names)
    ]
    title = f"The links every 0.1 s, for {min(SHOWN, float(motion.time[-1])):g} s"
    panels = [
        draw("links", title, lines, "x [m]", "y [m]", equal=True, tall=True),
        draw("angles", "Angles of the links", angles, "time [s]", Axis("angle [rad]", least=0.1)),
        draw("forces", "Forces of the constraints", forces, "time [s]", Axis("multiplier [N]", least=1.0)),
    ]
    caption = (
        "YUN figure 5, top. The links start apart, with the end point off its circle; the constraints put them "
        "together while gravity lets them fall. The start is chosen, that of the source is lost."
    )
    return Figure("Motion", caption, panels)


def _decay(motion: Motion) -> Figure:
    """YUN figure 5, bottom: the constraints; and beside the exponential."""
    lines = [Line(*thin(motion.time, motion.c[:, i]), NAMES[i], style_of(i)) for i in range(3)]
    logarithmic = [
        Line(*thin(motion.time, np.maximum(np.abs(motion.c[:, i]), FLOOR)), f"|{NAMES[i]}|", style_of(i))
        for i in range(3)
    ]
    expected = motion.exponential
    table = [["", "c1 [m]", "c2 [m]", "c3 [m²]"]]
    rows = [("at the start", 0), ("after 1 s", int(np.searchsorted(motion.time, motion.time[0] + 1.0 - 1e-9)))]
    if expected is not None:
        dots = Style(BLACK, (1.3, 1.6), 1.0)
        for i in range(3):
            label = "c(0) exp(\N{MINUS SIGN}gamma t)" if i == 0 else "_"
            logarithmic.append(Line(*thin(motion.time, np.maximum(np.abs(expected[:, i]), FLOOR)), label, dots))
    table += [[name, *(f"{x:.4g}" for x in motion.c[row])] for name, row in rows if row < len(motion.time)]
    table.append(["at the end", *(f"{x:.4g}" for x in motion.c[-1])])
    panels = [
        draw("constraints", "Constraints", lines, "time [s]", Axis("c1, c2 [m], c3 [m²]", least=1e-3)),
        draw("constraints_log", "Constraints, logarithmic", logarithmic, "time [s]", Axis("|c| [m, m²]", log=True)),
    ]
    caption = (
        "YUN figure 5, bottom: not met at the start, enforced after about 1 s. They decay as "
        "exp(\N{MINUS SIGN}gamma t), so with gamma 5 exactly 0.67 % is left then."
    )
    return Figure("Constraints", caption, panels, table)


def _as_pendulum(motion: Motion) -> Figure | None:
    """Figure of the links and of the rigid pendulum."""
    if len(motion.pendulum) < 2:
        return None
    time, off = motion.time[motion.rigid :], 1e6 * motion.from_pendulum
    angles = [
        Line(*thin(motion.time, motion.q[:, 0]), "link 1", Style(BLUE)),
        Line(*thin(time, motion.pendulum[:, 0]), "rigid pendulum", Style(ORANGE, (1.3, 1.6), 2.4)),
    ]
    differences = [
        Line(*thin(time, off[:, 0]), "link 1", Style(BLUE)),
        Line(*thin(time, off[:, 1]), "link 2", Style(VERMILION, (5, 1.8))),
    ]
    panels = [
        draw("pendulum", "Angle of link 1", angles, "time [s]", Axis("theta1 [rad]", least=0.1)),
        draw(
            "pendulum_error", "Difference from the pendulum", differences, "time [s]", Axis("angle [µrad]", least=0.01)
        ),
    ]
    start = f"{float(time[0]):g} s"
    caption = (
        "The circle about the hinge fixes the angle between the links, so once the constraints are met, there is one "
        f"rigid pendulum. It is integrated alone from the state at {start}."
    )
    return Figure("A rigid pendulum", caption, panels)


def _runs(curves: Sequence[Curve]) -> Figure:
    motions = [Motion.of(curve.trial, curve.samples) for curve in curves]
    norms, angles = [], []
    table = [["", "1 % left after [s]", "left after 1 s [%]", "norm at the end", "from the pendulum [µrad]"]]
    for curve, motion in zip(curves, motions, strict=True):
        norm = np.maximum(np.linalg.norm(motion.c, axis=1), FLOOR)
        norms.append(Line(*thin(motion.time, norm), curve.label, curve.style))
        angles.append(Line(*thin(motion.time, motion.q[:, 0]), curve.label, curve.style))
        numbers = (motion.convergence, motion.left(1.0), float(norm[-1]), motion.pendulum_error)
        scaled = zip(numbers, (1.0, 100.0, 1.0, 1e6), strict=True)
        table.append([curve.label, *("" if x is None else f"{x * scale:.4g}" for x, scale in scaled)])
    panels = [
        draw("constraints_log", "Norm of the constraints", norms, "time [s]", Axis("|c| [m, m²]", log=True)),
        draw("angles", "Angle of link 1", angles, "time [s]", Axis("theta1 [rad]", least=0.1)),
    ]
    return Figure("Convergence", "How the links come together, and how they move.", panels, table)


ANALYSIS = TwoLinkClosedLoop()
