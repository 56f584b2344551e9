"""A ball and a cube that bounce and come to rest (IGMS III-E, figure 6).

The published figure is a diagram: collisions while a contact bounces, complementarity once it is steady, and a
tolerance (`contact.bounce`) that separates both cases. Here this method is compared with the closed form of a bouncing
ball and with the other contact methods. A central impact without friction has the same restitution by Newton's and by
Stronge's law. The ball also falls on the wall of THESIS (4.5), as printed and clamped.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from haptic_bench.analysis.base import Analysis, scene_as
from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.analysis.figures import Curve, energy_figure
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_sim.rotations import matrices
from haptic_sim.worlds.scenes import GRAVITY, DropParameters
from haptic_view.figures import BLACK, BLUE, ORANGE, VERMILION, Axis, Figure, Line, Style, draw, shown, style_of

STEADY = 0.02  # [s] without collision, after which a body that is near the floor rests: no hop below NEAR lasts longer
NEAR = 1e-4  # [m]
FLOOR = 1e-5  # [m] how exactly a body is to lie on it
ROUNDING = 1e-9  # of the energy at the start
RESTITUTION_ERROR = 1e-6
_APPROACH = 1e-6  # [m/s] of a collision, in methods that have no tolerance of their own
HORIZON = 10.0  # [s] of a trial that is compared

Penalty = Literal["consistent", "printed"]
METHODS = {
    "hybrid": "one at a time, then complementarity",
    "constraint": "all at once, then complementarity",
    "frictional_impulses": "all at once, then penalties",
}

WALLS: dict[Penalty, str] = {"consistent": "wall", "printed": "wall as printed"}
"""Runs in which the ball falls on a penalty of each form."""

METRICS = {
    "bounces": Quantity("Number of collisions of ball and cube with the floor"),
    "switch_time": Quantity("Time of the last collision, from which on all contacts are steady", "s"),
    "rest_height_error": Quantity("Height at rest: larger error of ball and cube", "µm", 1e6),
    "ball_bounces": Quantity("Collisions of the ball"),
    "ball_switch_time": Quantity("Last collision of the ball", "s"),
    "cube_bounces": Quantity("Collisions of the cube"),
    "cube_switch_time": Quantity("Last collision of the cube", "s"),
    "bounce_height_error": Quantity("Largest error of the heights to which the ball bounces", "mm", 1e3),
}
RESTITUTION = Statement(
    "restitution",
    "Every collision of the ball returns e of its velocity",
    "Newton's and Stronge's law of a central impact",
    Quantity("velocity after a bounce of the ball by that before: least and largest"),
)
HEIGHTS = Statement(
    "bounce_heights",
    "The ball bounces to e\N{SUPERSCRIPT TWO} of the height before, but for what it falls in the step of each "
    "collision",
    "closed form",
    Quantity("largest error of a height, and how much the length of the steps explains", "mm", 1e3),
)
SWITCHES = Statement(
    "switches",
    "Bouncing contacts become steady, each at its time and by itself, and stay so: ball and cube before twice the time "
    "that the ball takes by theory",
    "IGMS III-E, figure 6",
    Quantity("last collision", "s"),
)
LIES = Statement(
    "lies_on_the_floor",
    f"At rest ball and cube lie on the floor, to {1e6 * FLOOR:g} µm",
    "IGMS III-E: steady contact by complementarity",
    Quantity("error of the height at rest", "µm", 1e6),
)
PASSIVE = Statement(
    "energy_never_grows",
    "No step adds energy",
    "Mirtich 1996; Stewart and Trinkle 1996",
    Quantity("largest gain of energy in a step", "nJ", 1e9),
)
PULLS = Statement(
    "printed_wall_pulls",
    "As printed, a penalty's damper pulls the ball back as it leaves; the clamped one never does",
    "THESIS (4.5)",
    Quantity("least force of the floor on the ball, upward positive", "N"),
)
CLAIMS = (RESTITUTION, HEIGHTS, SWITCHES, LIES, PASSIVE, PULLS)
scene_of = partial(scene_as, kind=DropParameters)


@dataclass(frozen=True)
class Bounces:
    """The bounces of the ball by theory, without steps.

    Attributes:
        times: of the collisions that are faster than the tolerance, the first ones.
        heights: reached after each [m].
        settles: whether there are no more.
    """

    times: np.ndarray
    heights: np.ndarray
    settles: bool

    @classmethod
    def of(cls, height: float, restitution: float, tolerance: float, until: float) -> Bounces:
        """Bounces of a ball that falls from `height` [m], until a time [s]."""
        speed = math.sqrt(2.0 * GRAVITY * height)
        time = speed / GRAVITY
        times: list[float] = []
        heights: list[float] = []
        while speed > tolerance and time <= until and len(times) < 10_000:
            speed *= restitution
            times.append(time)
            heights.append(speed**2 / (2.0 * GRAVITY))
            time += 2.0 * speed / GRAVITY
        return cls(np.array(times), np.array(heights), not speed > tolerance)

    def at(self, time: np.ndarray, height: float) -> np.ndarray:
        """Height of the ball over time [m]."""
        above = height - 0.5 * GRAVITY * time**2
        for start, peak in zip(self.times, self.heights, strict=True):
            after = time - start
            above = np.where(after >= 0.0, math.sqrt(2.0 * GRAVITY * peak) * after - 0.5 * GRAVITY * after**2, above)
        return np.maximum(above, 0.0)


@dataclass(frozen=True)
class Motion:
    """Motion of ball and cube in a trial.

    Attributes:
        ball, cube: height of the lowest point [m], (rows,).
        ball_speed: of the ball, upward [m/s], (rows,).
        ball_struck, cube_struck: ticks in which each collides.
        tilt: of the cube: angle of its nearest axis to the vertical [rad], (rows,).
        energy: kinetic, potential and elastic [J], (rows,).
        settled: whether both rest at the end.
    """

    time: np.ndarray
    ball: np.ndarray
    cube: np.ndarray
    ball_speed: np.ndarray
    ball_struck: np.ndarray
    cube_struck: np.ndarray
    tilt: np.ndarray
    energy: np.ndarray
    settled: bool

    @classmethod
    def of(cls, trial: Trial, samples: Samples) -> Motion:
        """Motion from the samples of a trial."""
        experiment = trial.experiment
        scene, period = scene_of(experiment), 1.0 / experiment.rate
        q = np.stack([samples[f"q{i}"] for i in range(14)], axis=-1)
        v = np.stack([samples[f"v{i}"] for i in range(12)], axis=-1)
        ball, ball_speed = q[:, 2] - scene.radius, v[:, 2]
        up = matrices(q[:, 10:14])[:, 2]  # in cube's axes
        signs = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)])
        corners = 0.5 * scene.side * signs
        heights = q[:, 9, None] + up @ corners.T
        # of each corner: v + up . (omega x corner), both in the cube's axes
        speeds = v[:, 8, None] + np.einsum("ni,nci->nc", up, np.cross(v[:, None, 9:12], corners[None]))
        least = experiment.contact.bounce if experiment.environment.method.RIGID else _APPROACH
        colliding = samples["colliding"] > 0

        def struck(height: np.ndarray, speed: np.ndarray) -> np.ndarray:
            return np.flatnonzero(colliding & ((speed < -least) & (height + period * speed < 1e-9)).any(axis=-1))

        low = (ball < NEAR) & (heights.min(axis=-1) < NEAR) & ~colliding
        last = round(STEADY / period) + 1
        names = ("kinetic", "potential", "elastic")
        return cls(
            time=samples["time"],
            ball=ball,
            cube=heights.min(axis=-1),
            ball_speed=ball_speed,
            ball_struck=struck(ball[:, None], ball_speed[:, None]),
            cube_struck=struck(heights, speeds),
            tilt=np.arccos(np.minimum(np.abs(up).max(axis=-1), 1.0)),
            energy=np.sum([samples[f"energy_{name}"] for name in names], axis=0),
            settled=len(samples) > last and bool(low[-last:].all()),
        )

    def peaks(self) -> np.ndarray:
        """Heights that the ball reaches between its collisions [m]."""
        peaks = []
        for start, end in itertools.pairwise([*self.ball_struck, self.ball.size]):
            flight = self.ball[start + 1 : end]
            if flight.size and flight.argmax() < flight.size - 1:
                peaks.append(float(flight.max()))
        return np.array(peaks)

    def ratios(self, period: float) -> np.ndarray:
        """Ratios of the ball's velocities after and before its collisions, without what gravity adds in the step."""
        before = self.ball_struck[self.ball_struck < self.ball.size - 1]
        return (self.ball_speed[before + 1] + GRAVITY * period) / -self.ball_speed[before]

    def rest_errors(self, experiment: Experiment) -> dict[str, float | None]:
        """Errors of the heights of ball and cube at the end [m]; none if they do not rest.

        The cube lies on a side: the error is that of its middle.
        """
        if not self.settled:
            return {"ball": None, "cube": None}
        half = 0.5 * scene_of(experiment).side
        lean = half * (math.cos(self.tilt[-1]) + math.sin(self.tilt[-1]) - 1.0)  # of a middle above a tilted side
        return {"ball": abs(float(self.ball[-1])), "cube": abs(float(self.cube[-1]) + lean)}


def _theory(trial: Trial) -> Bounces:
    experiment = trial.experiment
    tolerance = experiment.contact.bounce if experiment.environment.method.RIGID else _APPROACH
    return Bounces.of(scene_of(experiment).height, experiment.contact.restitution, tolerance, experiment.duration)


class BounceSettle(Analysis):
    SCENES = ("drop",)
    METRICS = METRICS
    CLAIMS = CLAIMS
    METHODS = tuple(METHODS)

    def variants(self, trial: Trial, samples: Samples) -> dict[str, Trial]:
        """The other METHODS, over the time that the trial lasted, and WALLS."""
        lasted = min(float(samples["time"][-1]), HORIZON) + 1.0 / trial.experiment.rate
        others = [method for method in METHODS if method != trial.experiment.environment.method.type]
        found = {method: _with_method(trial, method, lasted) for method in others}
        return found | {name: _on_wall(trial, form) for form, name in WALLS.items()}

    def judge(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> Findings:
        motion = Motion.of(trial, samples)
        return Findings(_metrics(trial, motion), _claims(trial, motion, references), references)

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        own = Curve("this run", trial, samples, Style(BLUE))
        method = trial.experiment.environment.method
        beside = [
            Curve(METHODS[name], _with_method(trial, name, trial.experiment.duration), run, style_of(i + 1))
            for i, (name, run) in enumerate(findings.references.items())
            if name in METHODS
        ]
        named = replace(own, label=f"this run: {METHODS.get(method.type, method.label)}")
        heights, bounces = _heights(own), _bounce_heights([named, *beside], of_trial=True)
        together = replace(heights, panels=[*heights.panels, *bounces.panels], table=bounces.table)
        return shown(together, _walls(trial, findings.references), energy_figure([own], beside))

    def sweep_figures(self, curves: Sequence[Curve]) -> list[Figure]:
        return shown(_sweep_heights(curves), _bounce_heights(curves), energy_figure(curves))

    def expected(self, trial: Trial, findings: Findings) -> Mapping[str, tuple[float, str]]:
        """The ball's bounces in continuous time, where they end by a tolerance and within the trial."""
        bounces, source = _theory(trial), "ball in continuous time"
        if not (bounces.settles and bounces.times.size) or not trial.experiment.environment.method.RIGID:
            return {}
        return {
            "ball_bounces": (bounces.times.size, source),
            "ball_switch_time": (float(bounces.times[-1]), source),
        }


def _with_method(trial: Trial, method: str, duration: float) -> Trial:
    environment = trial.experiment.environment.with_method(method)
    settings = {"environment": environment, "duration": min(duration, trial.experiment.duration)}
    return replace(trial, experiment=trial.experiment.model_copy(update=settings))


def _on_wall(trial: Trial, form: Penalty) -> Trial:
    """The trial with penalties alone, from the fall to a little after the first contact."""
    contact = trial.experiment.contact.model_copy(update={"penalty": form})
    fall = math.sqrt(2.0 * scene_of(trial.experiment).height / GRAVITY)
    pressed = replace(trial, experiment=trial.experiment.model_copy(update={"contact": contact, "duration": 1e9}))
    return _with_method(pressed, "penalty", fall + 0.2)


def _height_errors(trial: Trial, motion: Motion) -> tuple[np.ndarray, np.ndarray]:
    """Differences of the heights that the ball reaches after its collisions to those by theory, and their bounds [m].

    A collision is resolved up to a step early, and a step adds the velocity that gravity gives at its end to all of
    its way: each bounce errs by what the ball falls in a step at most, v T, and e^2 of it is inherited by the next.
    """
    experiment = trial.experiment
    peaks, theory = motion.peaks(), _theory(trial).heights
    count = min(peaks.size, theory.size)
    bounds = np.zeros(count)
    bound, e, period = 0.0, experiment.contact.restitution, 1.0 / experiment.rate
    before = scene_of(experiment).height
    for k in range(count):
        bound = e * e * bound + period * math.sqrt(2.0 * GRAVITY * before) + GRAVITY * period**2
        bounds[k], before = bound, theory[k]
    return peaks[:count] - theory[:count], bounds


def _metrics(trial: Trial, motion: Motion) -> dict[str, float | None]:
    """Values of METRICS; times of a switch are not known before it."""
    errors_of_bounces, _ = _height_errors(trial, motion)
    errors = motion.rest_errors(trial.experiment)
    known = [error for error in errors.values() if error is not None]
    last = {
        name: float(motion.time[ticks[-1]]) if ticks.size and motion.settled else None
        for name, ticks in (("ball", motion.ball_struck), ("cube", motion.cube_struck))
    }
    times = [time for time in last.values() if time is not None]
    return {
        "bounces": motion.ball_struck.size + motion.cube_struck.size,
        "switch_time": max(times) if times else None,
        "rest_height_error": max(known) if known else None,
        "ball_bounces": motion.ball_struck.size,
        "ball_switch_time": last["ball"],
        "cube_bounces": motion.cube_struck.size,
        "cube_switch_time": last["cube"],
        "bounce_height_error": float(np.abs(errors_of_bounces).max()) if errors_of_bounces.size else None,
    }


def _claims(trial: Trial, motion: Motion, references: Mapping[str, Samples]) -> list[Claim]:
    experiment = trial.experiment
    e, period = experiment.contact.restitution, 1.0 / experiment.rate
    ratios = motion.ratios(period)
    errors, bounds = _height_errors(trial, motion)
    worst = int(np.argmax(np.abs(errors))) if errors.size else None
    metrics = _metrics(trial, motion)
    times = {name: metrics[f"{name}_switch_time"] for name in ("ball", "cube")}
    rest = motion.rest_errors(experiment)
    gain = float(np.diff(motion.energy).max()) if motion.energy.size > 1 else None
    pulls = {name: float(references[name]["env_fz"].min()) if name in references else None for name in WALLS.values()}
    touches = all(references[name]["env_fz"].max() > 0.0 for name in WALLS.values() if name in references)
    least, printed = pulls.values()
    return [
        RESTITUTION.judged(
            {
                "least": float(ratios.min()) if ratios.size else None,
                "largest": float(ratios.max()) if ratios.size else None,
                "e": e,
            },
            bool(np.abs(ratios - e).max() <= RESTITUTION_ERROR) if ratios.size else None,
        ),
        HEIGHTS.judged(
            {
                "error": None if worst is None else abs(float(errors[worst])),
                "steps explain": None if worst is None else float(bounds[worst]),
            },
            None if worst is None else bool(np.all(np.abs(errors) <= bounds)),
        ),
        _judge_switches(trial, motion, times),
        LIES.judged(rest, all(x <= FLOOR for x in rest.values() if x is not None) if motion.settled else None),
        PASSIVE.judged(
            {"this run": gain}, None if gain is None else gain <= ROUNDING * float(np.ptp(motion.energy) or 1.0)
        ),
        PULLS.judged(pulls, None if least is None or printed is None or not touches else printed < 0.0 <= least),
    ]


def _judge_switches(trial: Trial, motion: Motion, times: Mapping[str, float | None]) -> Claim:
    """Undecided where nothing collides, the ball never comes to rest by theory, or the trial ends too early."""
    theory = _theory(trial)
    struck = motion.ball_struck.size and motion.cube_struck.size
    if not (struck and theory.settles and theory.times.size):
        return SWITCHES.judged(times, None)
    limit = 2.0 * float(theory.times[-1])
    if motion.time[-1] < limit + STEADY:
        return SWITCHES.judged(times, None)
    last = max(int(motion.ball_struck[-1]), int(motion.cube_struck[-1]))
    return SWITCHES.judged(times, motion.settled and bool(motion.time[last] <= limit))


def _walls(trial: Trial, references: Mapping[str, Samples]) -> Figure | None:
    """Height and force of the ball where it first meets each wall."""
    radius = scene_of(trial.experiment).radius
    heights, forces = [], []
    for i, name in enumerate(WALLS.values()):
        if name in references:
            run = references[name]
            touched = np.flatnonzero(run["env_fz"] != 0.0)
            if not touched.size:
                continue
            first = run["time"][touched[0]]
            shown = (run["time"] >= first - 0.01) & (run["time"] <= first + 0.05)
            label, style = name.replace("wall", "wall of (4.5)") if i else "clamped wall", style_of(i)
            heights.append(Line(run["time"][shown], 1e3 * (run["tool_pz"][shown] - radius), label, style))
            forces.append(Line(run["time"][shown], run["env_fz"][shown], label, style, steps=True))
    if not heights:
        return None
    panels = [
        draw(
            "wall_height",
            "(a) height of the ball",
            heights,
            "time [s]",
            Axis("height above the floor [mm]", least=1e-3),
        ),
        draw("wall_force", "(b) force of the floor", forces, "time [s]", Axis("force on the ball [N]", least=1e-3)),
    ]
    text = (
        "The ball falls on a penalty, contact.stiffness and contact.damping, without an impulse. THESIS (4.5) has no "
        "clamp: as the ball leaves, the damper pulls it back, and it leaves more slowly."
    )
    return Figure("A wall that pulls", text, panels)


def _marks(motion: Motion, ticks: np.ndarray, height: np.ndarray) -> Line:
    return Line(motion.time[ticks], 1e3 * height[ticks], "collisions", Style(VERMILION))


def _heights(curve: Curve) -> Figure:
    """Heights over time, collisions marked, and the switch."""
    trial = curve.trial
    motion = Motion.of(trial, curve.samples)
    metrics = _metrics(trial, motion)
    end = metrics["switch_time"]
    shown = motion.time[-1] if end is None else min(motion.time[-1], 1.25 * end)
    height = scene_of(trial.experiment).height
    panels = []
    theory = Line(
        motion.time,
        1e3 * _theory(trial).at(motion.time, height),
        "ball in continuous time",
        Style(ORANGE, (5, 1.8), 1.1),
    )
    for letter, name in zip("ab", ("ball", "cube"), strict=True):
        at: np.ndarray = getattr(motion, name)
        lines = [Line(motion.time, 1e3 * at, f"lowest point of the {name}", Style(BLUE))]
        if name == "ball":
            lines.append(theory)
        switch = metrics[f"{name}_switch_time"]
        if switch is not None:
            x = np.full(2, switch)
            lines.append(Line(x, np.array([0.0, 1e3 * at.max()]), "steady from here on", Style(BLACK, (1.2, 2.2), 1.1)))
        panels.append(
            draw(
                f"height_{name}",
                f"({letter}) {name}",
                lines,
                Axis("time [s]", span=(0.0, shown)),
                Axis("height above the floor [mm]", least=1e-3),
                marks=_marks(motion, getattr(motion, f"{name}_struck"), at),
            )
        )
    tilt = Line(motion.time, np.degrees(motion.tilt), "tilt", Style(BLUE))
    panels.append(
        draw(
            "tilt",
            "(c) tilt of the cube",
            [tilt],
            Axis("time [s]", span=(0.0, shown)),
            Axis("angle to its nearest side [deg]", least=1e-3),
            marks=Line(
                motion.time[motion.cube_struck],
                np.degrees(motion.tilt[motion.cube_struck]),
                "collisions",
                Style(VERMILION),
            ),
        )
    )
    text = (
        "Height of the lowest point of each body. While a contact approaches faster than the tolerance, collisions are "
        "resolved (marks); slower ones are steady, as in figure 6 of IGMS."
    )
    return Figure("Bouncing, then steady", text, panels)


def _bounce_heights(curves: Sequence[Curve], *, of_trial: bool = False) -> Figure:
    """Heights of the ball's bounces beside e^(2n) h, and what each run came to."""
    lines = []
    for curve in curves:
        peaks = Motion.of(curve.trial, curve.samples).peaks()
        if peaks.size:
            x = np.arange(1, peaks.size + 1, dtype=float)
            lines.append(Line(x, 1e3 * peaks, curve.label, curve.style, points=True))
    settings = {
        (scene_of(c.trial.experiment).height, c.trial.experiment.contact.restitution, c.trial.experiment.contact.bounce)
        for c in curves
    }
    for height, e, bounce in sorted(settings):
        theory = Bounces.of(height, e, bounce, 1e9).heights[:40]
        if theory.size and theory.min() > 0.0:
            x = np.arange(1, theory.size + 1, dtype=float)
            label = "closed form" if len(settings) == 1 else f"closed form, h = {height:g} m, e = {e:g}"
            lines.append(Line(x, 1e3 * theory, label, Style(BLACK, (5, 1.8), 1.0)))
    panels = []
    if lines:
        axes = ("bounce", Axis("height reached [mm]", log=True))
        panels.append(
            draw(
                "bounce_heights",
                "(d) heights of the ball's bounces" if of_trial else "Heights of the ball's bounces",
                lines,
                *axes,
            )
        )
    head = [
        "",
        "bounces",
        "steady from [s]",
        "ball off its height [µm]",
        "cube off its height [µm]",
        "gain in a step [µJ]",
    ]
    table = [head]
    for curve in curves:
        motion = Motion.of(curve.trial, curve.samples)
        metrics, rest = _metrics(curve.trial, motion), motion.rest_errors(curve.trial.experiment)
        gain = max(float(np.diff(motion.energy).max()), 0.0) if motion.energy.size > 1 else 0.0
        numbers = (metrics["switch_time"], *(None if x is None else 1e6 * x for x in rest.values()), 1e6 * gain)
        shown = ["\N{EN DASH}" if x is None else f"{x:.4g}" for x in numbers]
        table.append([curve.label, str(metrics["bounces"]), *shown])
    text = (
        "Each bounce of the ball reaches e\N{SUPERSCRIPT TWO} of the height before. Where penalties hold the bodies at "
        "rest, they sink in, and gain energy in the step that finds them overlapping."
    )
    return Figure("Bounces and rest", text, panels, table)


def _sweep_heights(curves: Sequence[Curve]) -> Figure:
    motions = [Motion.of(curve.trial, curve.samples) for curve in curves]
    panels = []
    for letter, name in zip("ab", ("ball", "cube"), strict=True):
        lines = [
            Line(motion.time, 1e3 * getattr(motion, name), curve.label, curve.style)
            for motion, curve in zip(motions, curves, strict=True)
        ]
        axes = ("time [s]", Axis("height above the floor [mm]", least=1e-3))
        panels.append(draw(f"height_{name}", f"({letter}) {name}", lines, *axes))
    return Figure("Bouncing, then steady", "Height of the lowest point of each body.", panels)


ANALYSIS = BounceSettle()
