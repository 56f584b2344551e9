"""A peg that sticks and slips in a slot (THESIS 4.3.1): metrics, published claims, and figures beside 4.7 to 4.9."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from haptic_bench.analysis.claims import Analysis, Claim, Quantity
from haptic_bench.analysis.figures import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    Curve,
    Figure,
    Line,
    Panel,
    Style,
    draw,
    energy_figure,
    thin,
    trial_figures,
)
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_bench.running.offline import simulated
from haptic_bench.studies.study import Study
from haptic_drivers.operators import FileParameters, Operator, build_operator, wrench_at_rest
from haptic_sim.contact.friction import NONE, FrictionModel
from haptic_sim.contact.response import RIGID
from haptic_sim.worlds.scenes import PegParameters, SlotParameters

CONTACTS = 2  # one at each wall of the slot
LOAD, RAMP = 0.05, 1.0  # [N], [s]: of the static load, and how long it rises
DRIFT_FROM, DRIFT_TO = 2.0, 10.0  # [s]
HORIZON = 30.0  # [s] of a trial that is compared
STICTION = 1.5  # [s] that is shown of the first stiction
SUPPRESSED = 0.01  # part of an oscillation's energy

# contact.friction.model and contact.friction.damping; only the reset integrator has one
VARIANTS: dict[str, tuple[FrictionModel, float]] = {
    "undamped": ("reset_integrator", 0.0),
    "critical": ("reset_integrator", 118.0),
    "overdamped": ("reset_integrator", 1180.0),
    "karnopp": ("karnopp", 0.0),
    "dahl": ("dahl", 0.0),
    "coulomb": ("coulomb", 0.0),
}
DAMPINGS = ("undamped", "critical", "overdamped")
MODELS = ("critical", "karnopp", "dahl", "coulomb")
LOADED = "loaded "
"""Prefix of the runs under the static load; LOADED + THIS is the trial's own setting."""
THIS = "this run"

METRICS = {
    "first_slip_time": Quantity("First tick in which the friction model is in its slip state", "s"),
    "stick_intervals": Quantity("Stretches of time in which no contact slips, that from the start included"),
    "drift_under_static_load": Quantity(
        "Displacement from 2 s to 10 s under 0.05 N, put on over 1 s: a run of its own, always simulated offline",
        "µm",
        1e6,
    ),
    "oscillation_energy": Quantity(
        "Largest kinetic energy of the peg's motion about its mean over a natural period of the bonds, from a period "
        "after its first slip on, as long as the operator's force stays below the kinetic friction",
        "nJ",
        1e9,
    ),
}
_ENERGY = Quantity("kinetic energy of the oscillation after the first slip", "nJ", 1e9)
CLAIMS = {
    "slip_and_stick": Quantity("longest time without slip between two slips", "s"),
    "no_creep": Quantity("displacement from 2 s to 10 s under a static load of 0.05 N", "µm", 1e6),
    "damping_suppresses_oscillation": _ENERGY,
    "oscillation_by_model": _ENERGY,
}


@dataclass(frozen=True)
class Slot:
    """What can be said of the peg in its slot beforehand.

    Attributes:
        static, kinetic: friction of both contacts together [N].
        breakaway: z0 [m].
        period: natural period of the peg on its unbroken bonds [s], of which each has the stiffness mu_s N / z0.
        mass: of the peg [kg].
        creep: speed per load of the classical model at rest [m/(N s)].
    """

    static: float
    kinetic: float
    breakaway: float
    period: float
    mass: float
    creep: float

    @classmethod
    def of(cls, experiment: Experiment) -> Slot | None:
        """None where there is no slot, no friction, or a method that has no bonds."""
        scene, tool, friction = experiment.scene, experiment.tool, experiment.contact.friction
        if not isinstance(scene, SlotParameters) or not isinstance(tool, PegParameters):
            return None
        if friction.code == NONE or experiment.environment.method in RIGID or friction.static == 0.0:
            return None
        static, kinetic = (CONTACTS * mu * scene.normal_force for mu in (friction.static, friction.kinetic))
        period = 2.0 * math.pi * math.sqrt(tool.mass * friction.breakaway / static)
        # the dead band is at least what kinetic friction does to the peg's velocity in a step
        band = max(friction.deadband, kinetic / (tool.mass * experiment.rate))
        return cls(static, kinetic, friction.breakaway, period, tool.mass, band / static)


def variant(experiment: Experiment) -> str | None:
    """Which of the variants an experiment is."""
    friction = experiment.contact.friction
    damping = friction.damping if friction.model == "reset_integrator" else 0.0
    return next((name for name, settings in VARIANTS.items() if settings == (friction.model, damping)), None)


def _as_variant(trial: Trial, name: str) -> Trial:
    model, damping = VARIANTS[name]
    contact = trial.experiment.contact
    friction = contact.friction.model_copy(update={"model": model, "damping": damping})
    contact = contact.model_copy(update={"friction": friction})
    return replace(trial, experiment=trial.experiment.model_copy(update={"contact": contact}))


def _lasting(trial: Trial, duration: float) -> Trial:
    return replace(trial, experiment=trial.experiment.model_copy(update={"duration": duration}))


def under_static_load(trial: Trial) -> Trial:
    """The trial with a load along the slot that rises to LOAD within RAMP and stays."""
    rows = np.zeros((3, 7))
    rows[:, 0] = 0.0, RAMP, DRIFT_TO + 1.0
    rows[1:, 1] = LOAD
    operator = FileParameters(path="static load")
    experiment = trial.experiment.model_copy(update={"operator": operator, "duration": DRIFT_TO})
    return replace(trial, experiment=experiment, wrenches=rows)


def stretches(flags: np.ndarray) -> np.ndarray:
    """First index of each stretch of True, and that after its last, (n, 2)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return edges.reshape(-1, 2)


def _slips(samples: Samples) -> np.ndarray:
    return stretches(samples["sliding_contacts"] > 0)


def _stiction(samples: Samples) -> int | None:
    """The row in which the first slip has ended; None if none has."""
    slips = _slips(samples)
    return int(slips[0, 1]) if len(slips) and slips[0, 1] < len(samples) else None


def _quiet(slot: Slot, samples: Samples) -> tuple[int, int] | None:
    """Rows from the end of the first slip until the force would let the peg slide again: [first, after the last)."""
    first = _stiction(samples)
    if first is None:
        return None
    strong = np.flatnonzero(np.abs(samples["operator_fx"][first:]) >= slot.kinetic)
    return first, first + int(strong[0]) if strong.size else len(samples)


def oscillation_energy(trial: Trial, samples: Samples) -> float | None:
    """See METRICS [J]; None unless a whole period of it is there."""
    slot = Slot.of(trial.experiment)
    quiet = None if slot is None else _quiet(slot, samples)
    if slot is None or quiet is None:
        return None
    time, position, half = samples["time"], samples["tool_px"], 0.5 * slot.period
    begin, end = time[quiet[0]] + slot.period, time[quiet[1] - 1] - half
    shown = time[(time >= begin) & (time <= end)]
    if end < begin + slot.period or not shown.size:
        return None
    # the mean velocity over a period is that of the slow motion: under a growing load bonds stretch, and coulomb creeps
    mean = (np.interp(shown + half, time, position) - np.interp(shown - half, time, position)) / slot.period
    return float(0.5 * slot.mass * np.max((np.interp(shown, time, samples["tool_vx"]) - mean) ** 2))


def _drift(samples: Samples | None) -> float | None:
    if samples is None or samples["time"][-1] < DRIFT_TO - 0.5 / _rate(samples):
        return None
    before, after = np.interp([DRIFT_FROM, DRIFT_TO], samples["time"], samples["tool_px"])
    return float(after - before)


def _rate(samples: Samples) -> float:
    return float(samples["tick"][-1] / samples["time"][-1])


def _longest_stick(samples: Samples) -> float:
    """Longest time without slip between two slips [s]; 0 if there are no two."""
    slips = _slips(samples)
    if len(slips) < 2:
        return 0.0
    return float(np.max(samples["time"][slips[1:, 0]] - samples["time"][slips[:-1, 1]]))


def _metrics(trial: Trial, samples: Samples, loaded: Samples | None) -> dict[str, float | None]:
    metrics: dict[str, float | None] = dict.fromkeys(METRICS)
    if not len(samples) or Slot.of(trial.experiment) is None:
        return metrics
    slips = _slips(samples)
    metrics["first_slip_time"] = float(samples["time"][slips[0, 0]]) if len(slips) else None
    metrics["stick_intervals"] = len(stretches(samples["sliding_contacts"] == 0))
    metrics["drift_under_static_load"] = _drift(loaded)
    metrics["oscillation_energy"] = oscillation_energy(trial, samples)
    return metrics


def _claims(trial: Trial, runs: Mapping[str, Samples], loaded: Mapping[str, Samples]) -> list[Claim]:
    slot = Slot.of(trial.experiment)
    energy = {name: oscillation_energy(trial, runs[name]) if name in runs else None for name in VARIANTS}
    stuck = {name: _longest_stick(runs[name]) if name in runs else None for name in MODELS}
    drift = {name: _drift(loaded.get(name)) for name in MODELS}
    # Before the force has been able to move the peg both ways there need not be anything between two slips.
    reversed_ = slot is not None and all(
        run["operator_fx"].max() > slot.static and run["operator_fx"].min() < -slot.static for run in runs.values()
    )
    return [
        _decided(
            "slip_and_stick",
            "All four friction models render slip and stick: they slip, stick for longer than a natural period of "
            "their bonds, and slip again",
            "figures 4.9 and 4.10",
            _of_models(stuck),
            lambda: slot is not None and all(time > slot.period for time in _known(stuck)),
            decidable=reversed_,
        ),
        _decided(
            "no_creep",
            "Under a load below the static friction the models with bonds do not drift, by more than the strain of a "
            "bond; the classical model does",
            "figure 4.8",
            _of_models(drift),
            lambda: slot is not None and [abs(d) > slot.breakaway for d in _known(drift)] == [False] * 3 + [True],
            decidable=slot is not None and slot.static > LOAD,
        ),
        _decided(
            "damping_suppresses_oscillation",
            "The reset integrator oscillates on entering stiction without damping, but not with the damping 118, "
            f"which is nearly critical, nor with 1180: less than {100 * SUPPRESSED:g} % of the energy is left",
            "figure 4.7",
            {f"damping {VARIANTS[name][1]:g}": energy[name] for name in DAMPINGS},
            lambda: max(_known(energy, "critical", "overdamped")) < SUPPRESSED * _known(energy, "undamped")[0],
        ),
        _decided(
            "oscillation_by_model",
            "On entering stiction the finger-pad and Dahl models oscillate; the critically damped reset integrator and "
            "the classical model do not",
            "figures 4.9 and 4.10",
            _of_models({name: energy[name] for name in MODELS}),
            lambda: max(_known(energy, "critical", "coulomb")) < SUPPRESSED * min(_known(energy, "karnopp", "dahl")),
        ),
    ]


def _of_models(values: Mapping[str, float | None]) -> dict[str, float | None]:
    return {VARIANTS[name][0]: value for name, value in values.items()}


def _known(values: Mapping[str, float | None], *names: str) -> list[float]:
    return [value for name in names or values if (value := values[name]) is not None]


def _decided(
    name: str,
    statement: str,
    section: str,
    measured: dict[str, float | None],
    holds: Callable[[], bool],
    *,
    decidable: bool = True,
) -> Claim:
    """The claim, undecided while a number is missing."""
    decided = bool(holds()) if decidable and None not in measured.values() else None
    return Claim(name, statement, f"THESIS 4.3.1, {section}", measured, decided)


def analyse(trial: Trial, samples: Samples, *, compare: bool = True) -> Analysis:
    """Metrics and claims of a trial, and what it is compared with.

    References, with `compare` only: the VARIANTS that the trial is not itself, in its other settings and over the time
    that it lasted, up to HORIZON; and the runs under the static load, of the trial's own setting and of MODELS.
    """
    own = variant(trial.experiment)
    references: dict[str, Samples] = {}
    if compare and len(samples) and Slot.of(trial.experiment) is not None:
        compared = _lasting(trial, min(float(samples["time"][-1]), HORIZON))
        for name in VARIANTS:
            if name != own:
                references[name] = simulated(_as_variant(compared, name))
        references[LOADED + THIS] = simulated(under_static_load(trial))
        for name in MODELS:
            if name != own:
                references[LOADED + name] = simulated(under_static_load(_as_variant(trial, name)))
    runs, loaded = _runs(references, own, samples.until(HORIZON))
    return Analysis(_metrics(trial, samples, references.get(LOADED + THIS)), _claims(trial, runs, loaded), references)


def _runs(
    references: Mapping[str, Samples], own: str | None, samples: Samples
) -> tuple[dict[str, Samples], dict[str, Samples]]:
    """The variants by name, under the trial's operator and under the static load; the trial itself as its variant."""
    runs = {name: run for name, run in references.items() if not name.startswith(LOADED)}
    loaded = {name.removeprefix(LOADED): run for name, run in references.items() if name.startswith(LOADED)}
    if own is not None:
        if len(samples):
            runs[own] = samples
        if THIS in loaded:
            loaded[own] = loaded.pop(THIS)
    return runs, loaded


def expected(trial: Trial) -> dict[str, tuple[float, str]]:
    """What theory gives for the metrics: value in SI units, and how it is known."""
    experiment, slot = trial.experiment, Slot.of(trial.experiment)
    if slot is None or not experiment.alone:
        return {}
    known = {}
    slip = _first_time(build_operator(experiment.operator, trial.wrenches), slot.static, experiment)
    if slip is not None:
        known["first_slip_time"] = (slip, "slow force: reaches the static friction")
    if slot.static > LOAD:
        if experiment.contact.friction.model == "coulomb":
            creep = slot.creep * LOAD * (DRIFT_TO - DRIFT_FROM)
            known["drift_under_static_load"] = (creep, "dead band · load / static friction · 8 s")
        else:
            known["drift_under_static_load"] = (0.0, "bonds do not drift")
    return known


def _first_time(operator: Operator, limit: float, experiment: Experiment) -> float | None:
    """First tick in which the force along the slot reaches a limit [s]."""
    wrench = np.zeros(6)
    for tick in range(min(experiment.last_tick, round(HORIZON * experiment.rate)) + 1):
        wrench_at_rest(operator, tick / experiment.rate, wrench)
        if abs(wrench[0]) >= limit:
            return tick / experiment.rate
    return None


STYLES = {
    "undamped": Style(VERMILION, (5, 1.8)),
    "critical": Style(BLUE),
    "overdamped": Style(SKY, (8, 2)),
    "karnopp": Style(PURPLE, (5, 1.6, 1.2, 1.6)),
    "dahl": Style(GREEN, (2.2, 1.3)),
    "coulomb": Style(ORANGE, (8, 2)),
}
LABELS = {
    "undamped": "reset integrator, damping 0",
    "critical": "reset integrator, damping 118",
    "overdamped": "reset integrator, damping 1180",
    "karnopp": "finger pad (karnopp)",
    "dahl": "driftless Dahl",
    "coulomb": "classical (coulomb)",
}
_FORCE = (
    "The force of figure 4.6 is not known; here it is chosen, see the parameters. (The force of the experiment behind "
    "figure 4.10, -(1 + sin t) N, exceeds the friction nearly all the time and cannot make the peg stick each period.)"
)


def figures(trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> list[Figure]:
    """The figures of a trial beside its references."""
    slot = Slot.of(trial.experiment)
    own = variant(trial.experiment) or THIS
    if slot is None:
        return trial_figures([Curve(THIS, trial, samples, Style())])
    runs, loaded = _runs(references, own, samples)
    runs[own] = samples

    def curves(of: Mapping[str, Samples], *names: str) -> list[Curve]:
        return [_curve(trial, name, of[name], name == own) for name in dict.fromkeys(names) if name in of]

    made = []
    if own in (THIS, *DAMPINGS):
        made.append(
            _motion(
                "damping",
                "Damping of the reset integrator",
                "Beside figure 4.7 of THESIS: without damping the peg oscillates on its bonds when it enters stiction, "
                "here so much that they break again; the dampings 118 and 1180 end that. Damping also carries a part "
                f"of the load, so that bonds break later. {_FORCE}",
                curves(runs, own, *DAMPINGS),
            )
        )
    models = curves(runs, own, *MODELS)
    made.append(
        _motion(
            "models",
            "Friction models",
            "Beside figure 4.9 of THESIS, whose simulation is the critically damped reset integrator, the finger pad, "
            "the driftless Dahl model and the classical approximation. Here a bond that begins to stick keeps its "
            "force (in THESIS it jumps by the ratio of static to kinetic friction), and the finger pad's transitions "
            "across the dead band are not missed; along a line it then moves like the undamped reset integrator.",
            models,
        )
    )
    made.append(_characteristics(curves(runs, "critical", "coulomb")))
    if loaded:
        made.append(_creep(slot, curves(loaded, own, *MODELS)))
    energies = energy_figure(curves(runs, own), [curve for curve in models if not curve.label.startswith(THIS)])
    return made + ([energies] if energies is not None else [])


def sweep_figures(curves: Sequence[Curve]) -> list[Figure]:
    """The figures of several trials."""
    if any(Slot.of(curve.trial.experiment) is None for curve in curves):
        return trial_figures(curves)
    made = [
        _motion("runs", "Motion and friction", f"Beside figures 4.7 and 4.9 of THESIS. {_FORCE}", curves),
    ]
    classical = [curve for curve in curves if curve.trial.experiment.contact.friction.model == "coulomb"]
    if classical:
        made.append(_characteristics(classical))
    energies = energy_figure(curves)
    return made + ([energies] if energies is not None else [])


def _curve(trial: Trial, name: str, samples: Samples, own: bool) -> Curve:
    label, style = LABELS.get(name), STYLES.get(name, Style(BLACK))
    if own:
        label, style = f"{THIS}: {label}" if label else THIS, replace(style, width=2.2)
    return Curve(label or name, trial, samples, style)


def _motion(name: str, title: str, caption: str, curves: Sequence[Curve]) -> Figure:
    """Position, velocity and friction over the whole run, and from the end of the first slip on."""
    panels: list[Panel] = []
    zoom = _Zoom.of(curves)
    quantities = (
        ("position", "tool_px", "position of the centre of mass", "mm", 1e3, "µm", 1e6),
        ("velocity", "tool_vx", "sliding velocity", "mm/s", 1e3, "mm/s", 1e3),
        ("friction", "env_fx", "friction on the peg", "N", 1.0, "N", 1.0),
    )
    for i, (key, column, text, unit, scale, fine_unit, fine) in enumerate(quantities):
        steps = key == "friction"  # held over a tick
        whole = [Line(*thin(c.samples["time"], scale * c.samples[column]), c.label, c.style, steps) for c in curves]
        letter = "abcdef"[2 * i]
        panels.append(draw(f"{name}_{key}", f"({letter}) {text}", whole, "time [s]", f"{text} [{unit}]", least=1e-3))
        if zoom is not None:
            panels.append(zoom.draw(f"{name}_{key}_stiction", "abcdef"[2 * i + 1], column, text, fine_unit, fine))
    if zoom is not None:
        caption += " On the right, from where the first slip of each run ends; the position counts from there."
    table = [["", "first slip [s]", "stick intervals", "oscillation energy [nJ]"]]
    for curve in curves:
        found = _metrics(curve.trial, curve.samples, None)
        # a reference has the trial's settings but for its friction, on which none of these depends
        row = [_cell(found["first_slip_time"], 1.0), _cell(found["stick_intervals"], 1.0)]
        table.append([curve.label, *row, _cell(found["oscillation_energy"], 1e9)])
    return Figure(title, caption, panels, table)


def _cell(value: float | None, scale: float) -> str:
    return "\N{EN DASH}" if value is None else f"{scale * value:.4g}".replace("-", "\N{MINUS SIGN}")


@dataclass(frozen=True)
class _Zoom:
    """The first stiction of each of the runs that have one, on one time axis."""

    curves: list[Curve]
    rows: list[tuple[int, int]]  # from the end of the first slip to where the force may let it slide again
    duration: float  # [s]

    @classmethod
    def of(cls, curves: Sequence[Curve]) -> _Zoom | None:
        shown: list[Curve] = []
        rows: list[tuple[int, int]] = []
        for curve in curves:
            slot = Slot.of(curve.trial.experiment)
            quiet = None if slot is None else _quiet(slot, curve.samples)
            if quiet is not None and quiet[1] - quiet[0] > 2:
                shown.append(curve)
                rows.append(quiet)
        if not shown:
            return None
        longest = max(
            float(np.ptp(curve.samples["time"][slice(*quiet)])) for curve, quiet in zip(shown, rows, strict=True)
        )
        return cls(shown, rows, min(longest, STICTION))

    def draw(self, name: str, letter: str, column: str, text: str, unit: str, scale: float) -> Panel:
        lines, inside = [], []
        before = 0.08 * self.duration
        for curve, (start, stop) in zip(self.curves, self.rows, strict=True):
            time = curve.samples["time"] - curve.samples["time"][start]
            value = scale * curve.samples[column]
            if column == "tool_px":
                value = value - value[start]
            shown = (time >= -before) & (time <= self.duration)
            lines.append(Line(time[shown], value[shown], curve.label, curve.style, column == "env_fx"))
            inside.append(value[start:stop][time[start:stop] <= self.duration])
        low, high = min(v.min() for v in inside), max(v.max() for v in inside)
        margin = 0.15 * max(high - low, 1e-9)
        return draw(
            name,
            f"({letter}) {text}, first stiction",
            lines,
            "time since the end of the first slip [s]",
            f"{text} [{unit}]",
            x_range=(-before, self.duration),
            y_range=(float(low - margin), float(high + margin)),
        )


def _characteristics(curves: Sequence[Curve]) -> Figure:
    """Friction over sliding velocity, near rest."""
    band = max(curve.trial.experiment.contact.friction.deadband for curve in curves) or 1e-4
    lines = []
    for curve in curves:
        # that of the end of the step, at which viscous friction acts: row k has the force of the step that follows it
        velocity, force = curve.samples["tool_vx"][1:], curve.samples["env_fx"][:-1]
        near = np.abs(velocity) <= 6.0 * band
        lines.append(Line(1e3 * np.where(near, velocity, np.nan), force, curve.label, curve.style))
    panel = draw(
        "characteristic",
        "Friction on the peg over its sliding velocity",
        lines,
        "sliding velocity [mm/s]",
        "friction on the peg [N]",
        x_range=(-5e3 * band, 5e3 * band),
    )
    return Figure(
        "Friction near rest",
        "Beside figure 4.8(b) of THESIS: the classical model is a steep line within the dead band, on which it creeps, "
        "and constant outside. The force of a bond depends on how far it is strained, not on the velocity.",
        [panel],
    )


def _creep(slot: Slot, curves: Sequence[Curve]) -> Figure:
    lines = [Line(*thin(c.samples["time"], 1e6 * c.samples["tool_px"]), c.label, c.style) for c in curves]
    if slot.static > LOAD:
        time = np.linspace(0.0, DRIFT_TO, 201)
        path = slot.creep * LOAD * np.where(time < RAMP, time**2 / (2.0 * RAMP), time - 0.5 * RAMP)
        lines.append(Line(time, 1e6 * path, "theory of the classical model", Style(BLACK, (1.2, 2.2), 1.3)))
    axes = ("time [s]", "displacement [µm]")
    panels = [
        draw("creep", "(a) under a static load", lines, *axes),
        draw(
            "creep_bonds", "(b) up to twice the breakaway distance", lines, *axes, y_range=(0.0, 2e6 * slot.breakaway)
        ),
    ]
    table = [["", "displacement from 2 s to 10 s [µm]"]]
    table += [[curve.label, _cell(_drift(curve.samples), 1e6)] for curve in curves]
    return Figure(
        "Creep under a static load",
        f"A run of its own: {LOAD:g} N, less than the static friction, put on over {RAMP:g} s and held. Bonds are "
        "strained and stay; the classical model moves on. Beside 4.3.1 and figure 4.8 of THESIS.",
        panels,
        table,
    )


class PegFriction(Study):
    """See the module."""

    SCENES = ("slot",)
    METRICS = METRICS
    CLAIMS = CLAIMS

    def analyse(self, trial: Trial, samples: Samples, *, compare: bool = True) -> Analysis:
        """See Study."""
        return analyse(trial, samples, compare=compare)

    def figures(self, trial: Trial, samples: Samples, analysis: Analysis) -> list[Figure]:
        """See Study."""
        return figures(trial, samples, analysis.references)

    def sweep_figures(self, curves: Sequence[Curve]) -> list[Figure]:
        """See Study."""
        return sweep_figures(curves)

    def expected(self, trial: Trial, analysis: Analysis) -> Mapping[str, tuple[float, str]]:
        """See Study."""
        return expected(trial)


STUDY = PegFriction()
