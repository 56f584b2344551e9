"""A block on a slope: does it stick and slide by Coulomb's law with every contact method?

With penalties the friction model runs in both forms (`contact.friction.form`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from haptic_bench.analysis.base import Analysis
from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.analysis.figures import Curve, energy_figure, trial_figures
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_sim.contact.friction_models import NONE
from haptic_sim.worlds.scenes import SlopeParameters
from haptic_view.figures import BLACK, BLUE, GREEN, PURPLE, VERMILION, Axis, Figure, Line, Style, draw, shown, style_of

Form = Literal["consistent", "printed"]


class Resolution(NamedTuple):
    """Contact method of the block, with the form of the friction model, which matters with penalties."""

    method: str
    form: Form = "consistent"

    @classmethod
    def of(cls, experiment: Experiment) -> Resolution:
        method = experiment.environment.method
        return cls(method.type, "consistent" if method.RIGID else experiment.contact.friction.form)

    @property
    def name(self) -> str:
        return self.method + (" as printed" if self.form == "printed" else "")


RESOLUTIONS = (Resolution("penalty"), Resolution("constraint"), Resolution("penalty", "printed"))
OTHER_SIDE = 0.1  # how far the tangent of the slope that is compared is from that of the angle of friction, relative
SETTLED = 0.2  # [s] a shorter run does not say whether the block sticks: bonds and penalties settle within 0.05 s
AT_REST = 1e-6  # [m/s]
ACCURACY = 1e-3  # of the acceleration, relative
MOST_CURVES = 8  # over time in the figures of a sweep of angles; more cannot be distinguished
HORIZON = 10.0  # [s] of a trial that is compared

METRICS = {
    "first_slip_time": Quantity("First tick in which a contact of the block slides", "s"),
    "final_speed": Quantity("Speed along the slope at the last tick, downhill positive", "m/s"),
    "displacement": Quantity("Way along the slope since the start, downhill positive", "mm", 1e3),
    "acceleration": Quantity(
        "Mean acceleration along the slope over the later half of the last time in which all contacts slide", "m/s²"
    ),
    "friction_angle": Quantity("Angle of friction, whose tangent is the static coefficient", "deg", 180.0 / math.pi),
}
_SPEED = Quantity("speed at the end", "µm/s", 1e6)
_ACCELERATION = Quantity("acceleration along the slope", "m/s²")
STICKS = Statement(
    "sticks_below",
    "On a slope below the angle of friction the block sticks: no contact slides, and it is at rest in the end",
    "Coulomb's law",
    _SPEED,
)
SLIDES = Statement(
    "slides_above",
    "On a slope above the angle of friction the block slides, with the acceleration g (sin a - µ cos a) of kinetic "
    "friction",
    "Coulomb's law",
    _ACCELERATION,
)
SAME = Statement(
    "method_independent",
    "Penalties and complementarity agree whether the block slides, and how fast",
    "Coulomb's law",
    Quantity("acceleration along the slope of this experiment, 0 for a block at rest", "m/s²"),
)
STICKS_PRINTED = Statement(
    "sticks_below_printed",
    "With the friction model as printed the block sticks on a slope below the angle of friction",
    "THESIS (4.6) to (4.12)",
    _SPEED,
)
SLIDES_PRINTED = Statement(
    "slides_above_printed",
    "With the friction model as printed the block slides on a slope above the angle of friction, with the acceleration "
    "of kinetic friction",
    "THESIS (4.6) to (4.12)",
    _ACCELERATION,
)
CLAIMS = (STICKS, SLIDES, SAME, STICKS_PRINTED, SLIDES_PRINTED)


@dataclass(frozen=True)
class Law:
    """Coulomb's law for a block on a slope.

    Attributes:
        angle: of the slope [rad].
        static, kinetic: coefficients.
        gravity: [m/s^2].
    """

    angle: float
    static: float
    kinetic: float
    gravity: float

    @classmethod
    def of(cls, experiment: Experiment) -> Law | None:
        """None where there is no slope, or more than the weight acts along it."""
        if not isinstance(experiment.scene, SlopeParameters):
            return None
        friction, scene = experiment.contact.friction, experiment.scene
        static, kinetic = (0.0, 0.0) if friction.code == NONE else (friction.static, friction.kinetic)
        return cls(math.radians(scene.angle), static, kinetic, scene.gravity)

    @property
    def friction_angle(self) -> float:
        """[rad]"""
        return math.atan(self.static)

    @property
    def slides(self) -> bool:
        """Whether the block does not stay at rest."""
        return math.tan(self.angle) > self.static

    @property
    def acceleration(self) -> float:
        """Acceleration of the block from rest [m/s^2]."""
        return self.sliding if self.slides else 0.0

    @property
    def sliding(self) -> float:
        """Acceleration of a block that slides down [m/s^2]."""
        return self.gravity * (math.sin(self.angle) - self.kinetic * math.cos(self.angle))


def _scene(trial: Trial) -> SlopeParameters:
    """The slope; of trials that have one."""
    scene = trial.experiment.scene
    if not isinstance(scene, SlopeParameters):
        raise TypeError(f"scene.type = {scene.type}: is not a slope")
    return scene


def _displacement(trial: Trial, samples: Samples) -> np.ndarray:
    """Along the slope since the start, downhill [m]."""
    angle = math.radians(_scene(trial).angle)
    x, z = samples["tool_px"] - samples["tool_px"][0], samples["tool_pz"] - samples["tool_pz"][0]
    return x * math.cos(angle) - z * math.sin(angle)


def _friction_ratio(trial: Trial, samples: Samples) -> np.ndarray:
    """Friction over normal force, of all contacts together; not a number where there is no normal force."""
    angle = math.radians(_scene(trial).angle)
    fx, fz = samples["env_fx"], samples["env_fz"]
    normal = fx * math.sin(angle) + fz * math.cos(angle)
    uphill = fz * math.sin(angle) - fx * math.cos(angle)
    return np.where(normal > 0.0, uphill / np.where(normal > 0.0, normal, 1.0), np.nan)


def acceleration(samples: Samples) -> float | None:
    """Mean acceleration over the later half of the last stretch in which all contacts slide [m/s^2].

    None if that is shorter than 10 ticks. A tick counts whose state and whose next state are both of the stretch.
    """
    slides = (samples["sliding_contacts"] > 0) & (samples["sliding_contacts"] == samples["contacts"])
    last = np.flatnonzero(slides)
    if not last.size:
        return None
    stop = int(last[-1])
    sticks = np.flatnonzero(~slides[:stop])
    start = int(sticks[-1]) + 1 if sticks.size else 0
    if stop - start < 10:
        return None
    middle = (start + stop) // 2
    time, speed = samples["time"], samples["speed"]
    return float((speed[stop] - speed[middle]) / (time[stop] - time[middle]))


def _outcome(samples: Samples) -> float | None:
    """The acceleration, 0 for a block that is at rest in the end; None for what is neither."""
    if not samples["sliding"][-1]:
        settled = samples["time"][-1] >= SETTLED
        return 0.0 if settled and abs(samples["speed"][-1]) <= AT_REST else None
    return acceleration(samples)


def _metrics(trial: Trial, samples: Samples) -> dict[str, float | None]:
    metrics: dict[str, float | None] = dict.fromkeys(METRICS)
    law = Law.of(trial.experiment)
    if law is None:
        return metrics
    metrics["friction_angle"] = law.friction_angle
    if len(samples):
        slips = np.flatnonzero(samples["sliding"])
        metrics["first_slip_time"] = float(samples["time"][slips[0]]) if slips.size else None
        metrics["final_speed"] = float(samples["speed"][-1])
        metrics["displacement"] = float(_displacement(trial, samples)[-1])
        metrics["acceleration"] = acceleration(samples)
    return metrics


def _pushed(samples: Samples) -> bool:
    """Whether the operator does anything."""
    return bool(np.any(samples.wrench("operator")))


def _other_side(law: Law) -> float | None:
    """Angle of a slope on the other side of the angle of friction [deg]; None if there is none."""
    if law.static == 0.0 and law.slides:
        return None
    return math.degrees(math.atan((1.0 - OTHER_SIDE if law.slides else 1.0 + OTHER_SIDE) * law.static))


def _variant(trial: Trial, resolution: Resolution, angle: float, duration: float) -> Trial:
    experiment, friction = trial.experiment, trial.experiment.contact.friction
    settings = {
        "scene": _scene(trial).model_copy(update={"angle": angle}),
        "environment": experiment.environment.with_method(resolution.method),
        "contact": experiment.contact.model_copy(
            update={"friction": friction.model_copy(update={"form": resolution.form})}
        ),
        "duration": duration,
    }
    return replace(trial, experiment=experiment.model_copy(update=settings))


def _resolutions(experiment: Experiment) -> list[Resolution]:
    """Resolutions that are compared, that of the experiment first."""
    return list(dict.fromkeys((Resolution.of(experiment), *RESOLUTIONS)))


def _name(resolution: Resolution, angle: float) -> str:
    return f"{resolution.name} at {angle:.4g}°"


def _variants(trial: Trial, duration: float) -> dict[str, Trial]:
    """Trials to compare, by name: RESOLUTIONS and the trial's own, on its slope and on the other side; itself first."""
    law = Law.of(trial.experiment)
    if law is None:
        return {}
    angles = [_scene(trial).angle]
    other = _other_side(law)
    if other is not None:
        angles.append(other)
    return {
        _name(resolution, angle): _variant(trial, resolution, angle, duration)
        for angle in angles
        for resolution in _resolutions(trial.experiment)
    }


def _claims(trial: Trial, variants: Mapping[str, Trial], runs: Mapping[str, Samples]) -> list[Claim]:
    below: dict[Form, dict[str, float | None]] = {"consistent": {}, "printed": {}}
    above: dict[Form, dict[str, float | None]] = {"consistent": {}, "printed": {}}
    same: dict[str, float | None] = {}
    true_below: dict[Form, list[bool]] = {"consistent": [], "printed": []}
    true_above: dict[Form, list[bool]] = {"consistent": [], "printed": []}
    for name, of in variants.items():
        law, run, form = Law.of(of.experiment), runs.get(name), Resolution.of(of.experiment).form
        assert law is not None  # each is a slope
        if law.slides:
            above[form].setdefault(f"law at {_scene(of).angle:.4g}°", law.acceleration)
            found = above[form][name] = None if run is None else acceleration(run)
            true_above[form].append(_near(found, law.acceleration))
        else:
            long_enough = run is not None and run["time"][-1] >= SETTLED
            speed = below[form][name] = None if run is None or not long_enough else float(run["speed"][-1])
            slid = run is not None and bool(run["sliding"].any())
            true_below[form].append(not slid and _near(speed, 0.0))
        if form == "consistent" and _scene(of).angle == _scene(trial).angle:
            same[name] = None if run is None else _outcome(run)
    outcomes = [value for value in same.values() if value is not None]
    return [
        STICKS.decided(below["consistent"], lambda _: all(true_below["consistent"])),
        SLIDES.decided(above["consistent"], lambda _: all(true_above["consistent"])),
        SAME.decided(same, lambda _: bool(outcomes) and all(_near(value, outcomes[0]) for value in outcomes)),
        STICKS_PRINTED.decided(below["printed"], lambda _: all(true_below["printed"])),
        SLIDES_PRINTED.decided(above["printed"], lambda _: all(true_above["printed"])),
    ]


def _near(value: float | None, truth: float) -> bool:
    return value is not None and abs(value - truth) <= max(ACCURACY * abs(truth), AT_REST)


STYLES = {
    "penalty": Style(VERMILION, (5, 1.8)),
    "constraint": Style(BLUE),
    "penalty as printed": Style(PURPLE, (2.2, 1.3)),
}
LABELS = {
    "penalty": "penalties and friction model",
    "constraint": "complementarity",
    "penalty as printed": "penalties and friction model, as printed",
}
_LAW = Style(BLACK, (1.2, 2.2), 1.3)


def _curve(trial: Trial, samples: Samples, own: bool) -> Curve:
    name = Resolution.of(trial.experiment).name
    style, label = STYLES.get(name, Style(GREEN, (8, 2))), LABELS.get(name, name.replace("_", " "))
    if own:
        style, label = replace(style, width=2.2), f"this run: {label}"
    return Curve(label, trial, samples, style)


def _slide(name: str, title: str, curves: Sequence[Curve]) -> Figure:
    """Speed, friction and way of runs on one slope."""
    trial = curves[0].trial
    law = Law.of(trial.experiment)
    assert law is not None
    lines = [c.over_time(c.samples["speed"]) for c in curves]
    time = curves[0].samples["time"]
    lines.append(Line(time, law.acceleration * time, "Coulomb's law", _LAW))
    ratios = [c.over_time(_friction_ratio(c.trial, c.samples), steps=True) for c in curves]
    ends = time[[0, -1]]
    ratios.append(Line(ends, np.full(2, law.static), f"static, {law.static:g}", Style(BLACK, (5, 1.8), 0.9)))
    ratios.append(Line(ends, np.full(2, law.kinetic), f"kinetic, {law.kinetic:g}", _LAW))
    first = _beginning(curves)
    displacements = [Line(c.samples["time"], 1e6 * _displacement(c.trial, c.samples), c.label, c.style) for c in curves]
    visible = [line.y[line.x <= first] for line in displacements]
    low, high = min(y.min() for y in visible), max(y.max() for y in visible)
    panels = [
        draw(f"{name}_speed", "(a) speed along the slope", lines, "time [s]", Axis("speed downhill [m/s]", least=1e-4)),
        draw(
            f"{name}_ratio",
            "(b) friction over normal force",
            ratios,
            "time [s]",
            "friction / normal force",
        ),
        draw(
            f"{name}_way",
            "(c) way along the slope, at the beginning",
            displacements,
            Axis("time [s]", span=(0.0, first)),
            Axis(
                "way downhill [µm]", span=(float(low - 0.05 * (high - low)), float(high + 0.05 * (high - low)) or 1.0)
            ),
        ),
    ]
    sliding = [Line(c.samples["time"], c.samples["sliding_contacts"], c.label, c.style, steps=True) for c in curves]
    panels.append(
        draw(
            f"{name}_sliding",
            "(d) contacts that slide, at the beginning",
            sliding,
            Axis("time [s]", span=(0.0, first)),
            Axis("contacts", counts=True),
        )
    )
    angle, limit = _scene(trial).angle, math.degrees(law.friction_angle)
    rule = f"slides with {law.acceleration:.4g} m/s²" if law.slides else "sticks"
    caption = f"At {angle:.4g}°; the angle of friction is {limit:.4g}°, so by Coulomb's law the block {rule}. "
    caption += (
        "With penalties the weight first strains the bonds of friction, by less than their breakaway distance if they "
        "hold; their damping acts beside the friction they carry, which can be more than the static one for a moment. "
        "As printed the bond of a reset integrator stays as long as it was when it broke, up to a step late."
    )
    return Figure(title, caption, panels)


def _beginning(curves: Sequence[Curve]) -> float:
    """Duration of the beginning that is shown enlarged [s]."""
    return float(min(0.1, curves[0].samples["time"][-1]))


def _over_angle(curves: Sequence[Curve]) -> Figure:
    """The acceleration of each run over its angle, beside Coulomb's law."""
    groups: dict[str, list[Curve]] = {}
    for curve in curves:
        groups.setdefault(_without_angle(curve), []).append(curve)
    laws: dict[Law, None] = {}
    lines, found_at = [], []
    for i, (label, group) in enumerate(groups.items()):
        points = sorted((_scene(c.trial).angle, _outcome(c.samples)) for c in group)
        angle, found = (np.array(values, float) for values in zip(*points, strict=True))
        lines.append(Line(angle, found, label or "runs", style_of(i), points=True))
        found_at.append(dict(zip(angle.tolist(), found.tolist(), strict=True)))
        for curve in group:
            law = Law.of(curve.trial.experiment)
            if law is not None:
                laws[replace(law, angle=0.0)] = None
    largest = max(_scene(curve.trial).angle for curve in curves)
    for law in laws:
        text = "Coulomb's law" if len(laws) == 1 else f"Coulomb's law, µ {law.static:g} and {law.kinetic:g}"
        limit = math.degrees(law.friction_angle)
        shown = np.unique(np.concatenate([np.linspace(0.0, max(largest, 1.05 * limit), 300), [limit, limit + 1e-9]]))
        values = np.array([replace(law, angle=math.radians(angle)).acceleration for angle in shown])
        lines.append(Line(shown, values, text, _LAW))
    axes = Axis("angle of the slope [deg]"), Axis("acceleration downhill [m/s²]")
    panels = [draw("acceleration", "(a) acceleration of the block", lines, *axes)]
    limit = math.degrees(next(iter(laws)).friction_angle)
    near = [abs(_scene(curve.trial).angle - limit) for curve in curves]
    if limit > 0.0 and sum(distance < 0.15 * limit for distance in near) > 2:
        law = replace(next(iter(laws)), angle=math.radians(1.15 * limit))
        panels.append(
            draw(
                "acceleration_near",
                "(b) near the angle of friction",
                lines,
                replace(axes[0], span=(0.85 * limit, 1.15 * limit)),
                replace(axes[1], span=(-0.05 * law.sliding, 1.05 * law.sliding)),
            )
        )
    table = [["angle of the slope [deg]", "Coulomb's law [m/s²]", *(f"{label or 'found'} [m/s²]" for label in groups)]]
    for degrees in sorted({angle for found in found_at for angle in found}):
        truth = replace(next(iter(laws)), angle=math.radians(degrees)).acceleration
        table.append(
            [f"{degrees:g}", *(_cell(value) for value in (truth, *(found.get(degrees) for found in found_at)))]
        )
    if len(laws) > 1:
        table = []  # there is no one law to compare with
    return Figure(
        "Acceleration over the angle of the slope",
        "Each point is a run: its acceleration while it slides, 0 where it is at rest in the end. Runs that "
        f"agree hide each other. By Coulomb's law the block sticks up to the angle of friction ({limit:.4g}°) and "
        "slides with g (sin a - µ cos a) above. "
        "With penalties it may break away a little below: as friction begins to act, the block pitches and its weight "
        "shifts to the lower contacts, and bonds whose load grows get shorter.",
        panels,
        table,
    )


def _cell(value: float | None) -> str:
    return "\N{EN DASH}" if value is None or math.isnan(value) else f"{value:.6g}"


def _without_angle(curve: Curve) -> str:
    """The label of a run without the angle of its slope."""
    angle = _scene(curve.trial).angle
    kept = [
        part for part in curve.label.split(",") if not re.fullmatch(rf"(angle=)?{re.escape(f'{angle:g}')}(\.0)?", part)
    ]
    return ", ".join(kept)


class Incline(Analysis):
    SCENES = ("slope",)
    METRICS = METRICS
    CLAIMS = CLAIMS
    METHODS = tuple(dict.fromkeys(one.method for one in RESOLUTIONS))

    def columns(self, trial: Trial, samples: Samples) -> Mapping[str, np.ndarray]:
        """`sliding`: whether a contact slides, 0 or 1; `speed`: of the block, downhill [m/s]."""
        if not isinstance(trial.experiment.scene, SlopeParameters):
            return {}
        angle = math.radians(_scene(trial).angle)
        return {
            "sliding": (samples["sliding_contacts"] > 0).astype(np.int64),
            "speed": samples["tool_vx"] * math.cos(angle) - samples["tool_vz"] * math.sin(angle),
        }

    def analyse(self, trial: Trial, samples: Samples, *, compare: bool = True) -> Findings:
        """Metrics and claims of a trial, and what it is compared with.

        References, with `compare` only: the RESOLUTIONS that the trial does not use, on its slope; and all of them on
        a slope on the other side of the angle of friction. They last as long as the trial did, up to HORIZON.
        """
        lasted = float(samples["time"][-1]) if len(samples) else 0.0
        variants = _variants(trial, min(lasted, HORIZON))
        runs: dict[str, Samples] = {}
        if len(samples) and variants and not _pushed(samples):
            own, *others = variants
            runs[own] = samples.until(HORIZON)
            runs |= self.run_all({name: variants[name] for name in others if compare})
        references = {name: run for name, run in runs.items() if name != next(iter(variants))}
        return Findings(_metrics(trial, samples), _claims(trial, variants, runs), references)

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        """The figures of a trial beside its references."""
        if Law.of(trial.experiment) is None:
            return trial_figures([Curve("this run", trial, samples, Style())])
        variants = _variants(trial, trial.experiment.duration)
        own = next(iter(variants))
        runs = {own: samples, **findings.references}
        here: list[Curve] = []
        there: list[Curve] = []
        for name, of in variants.items():
            if name in runs:
                same = _scene(of).angle == _scene(trial).angle
                (here if same else there).append(_curve(of, runs[name], name == own))
        made = [_slide("here", "On this slope", here)]
        if there:
            made.append(_slide("there", "On a slope on the other side of the angle of friction", there))
        energies = energy_figure(here[:1], here[1:])
        return shown(*made, energies)

    def sweep_figures(self, curves: Sequence[Curve]) -> list[Figure]:
        """The figures of several trials: over time, and the acceleration over the angle of the slope."""
        if any(Law.of(curve.trial.experiment) is None for curve in curves):
            return trial_figures(curves)
        made = []
        if len({_scene(curve.trial).angle for curve in curves}) > 1:
            made.append(_over_angle(curves))
        if len(curves) > MOST_CURVES and made:
            return made
        speeds = [c.over_time(c.samples["speed"]) for c in curves]
        panel = draw("speed", "Speed along the slope", speeds, "time [s]", Axis("speed downhill [m/s]", least=1e-4))
        made.append(Figure("Speed", "Speed of the block along the slope, downhill positive.", [panel]))
        energies = energy_figure(curves)
        return shown(*made, energies)

    def expected(self, trial: Trial, findings: Findings) -> Mapping[str, tuple[float, str]]:
        """Theoretical values of the metrics in SI units, and the source of each."""
        law = Law.of(trial.experiment)
        if law is None:
            return {}
        known = {"final_speed": (law.acceleration * trial.experiment.last_tick / trial.experiment.rate, "")}
        if law.slides:
            known["acceleration"] = (law.acceleration, "g (sin a - µ cos a), µ kinetic")
            known["final_speed"] = (known["final_speed"][0], "slides from the start")
            known["first_slip_time"] = (0.0, "rigid contact")
        else:
            known["final_speed"] = (0.0, "sticks")
        return known


ANALYSIS = Incline()
