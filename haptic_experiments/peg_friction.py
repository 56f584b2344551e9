"""A peg that sticks and slips in a slot (THESIS 4.3.1): metrics, published claims, and figures beside 4.7 to 4.10.

Each friction model runs in both forms: published claims are judged on the printed form, our own on the consistent one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from haptic_bench.analysis.base import Analysis
from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.analysis.figures import Curve, energy_figure, trial_figures
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_drivers.operators import FileParameters, Operator, SineParameters, build_operator, wrench_at_rest
from haptic_sim.contact.friction_models import FRICTION_MODELS, NONE
from haptic_sim.worlds.scenes import PegParameters, SlotParameters
from haptic_view.figures import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
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

CONTACTS = 2  # one at each wall of the slot
LOAD, RAMP = 0.05, 1.0  # [N], [s]: of the static load, and how long it rises
DRIFT_FROM, DRIFT_TO = 2.0, 10.0  # [s]
EXPERIMENT_FORCE, EXPERIMENT_FREQUENCY = -1.0, 0.5 / math.pi  # [N], [Hz]: of figure 4.10, -(1 + sin t) N
EXPERIMENT_NORMAL_FORCE = 3.0  # [N] chosen: the peg sticks and slips in each period from 2.5 to 4 N
EXPERIMENT_DURATION = 12.0  # [s]: it comes to rest twice
HORIZON = 30.0  # [s] of a trial that is compared
STICTION = 1.5  # [s] that is shown of the first stiction
SUPPRESSED = 0.01  # part of an oscillation's energy
COMPLIANT = 0.1  # part of another compliance below which there is none
LAG = 0.05  # part of a load that grows which dampers of bonds carry at most, and that of a stretch in a step
SAME = 1e-9  # [m] between two motions that are one

Form = Literal["consistent", "printed"]


class Variant(NamedTuple):
    """Model, damping [N s/m] (only the reset integrator has one) and form of `contact.friction`."""

    model: str
    damping: float = 0.0
    form: Form = "consistent"


PRINTED = "printed "
"""Prefix of the variants whose law is the printed one."""
CONSISTENT_VARIANTS = {
    "undamped": Variant("reset_integrator"),
    "critical": Variant("reset_integrator", 118.0),
    "overdamped": Variant("reset_integrator", 1180.0),
    "karnopp": Variant("karnopp"),
    "dahl": Variant("dahl"),
    "coulomb": Variant("coulomb"),
}
VARIANTS = CONSISTENT_VARIANTS | {
    PRINTED + name: setting._replace(form="printed") for name, setting in CONSISTENT_VARIANTS.items()
}
DAMPINGS = ("undamped", "critical", "overdamped")
BONDED = ("critical", "karnopp", "dahl")
MODELS = (*BONDED, "coulomb")
LOADED, EXPERIMENT = "loaded ", "experiment "
"""Prefixes of the runs under the static load, and under the force of figure 4.10; LOADED + THIS is the trial's own."""
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
    "missed_transitions": Quantity("Reversals of friction from one tick to the next in which the peg never sticks"),
    "stiction_compliance": Quantity(
        "Displacement by load, means over the last natural period in which the static load grows", "µm/N", 1e6
    ),
}
_STICK = Quantity("longest time without slip between two slips", "s")
_DRIFT = Quantity("displacement from 2 s to 10 s under a static load of 0.05 N", "µm", 1e6)
_ENERGY = Quantity("kinetic energy of the oscillation after the first slip", "nJ", 1e9)
_MISSED = Quantity("reversals of friction from one tick to the next in which the peg never sticks")
_COMPLIANCE = Quantity("displacement by static load", "µm/N", 1e6)
_THESIS, _OURS = "THESIS 4.3.1", "ours, of the consistent form"

SLIP_AND_STICK = Statement(
    "slip_and_stick",
    "As printed, all four friction models render slip and stick: they slip, stick for longer than half a natural "
    "period of their bonds, and slip again",
    f"{_THESIS}, figures 4.9 and 4.10",
    _STICK,
)
ANY_DAMPING = Statement(
    "slip_and_stick_any_damping",
    "As printed, the reset integrator renders slip and stick regardless of damping",
    f"{_THESIS}, figure 4.7",
    _STICK,
)
NO_CREEP = Statement(
    "no_creep",
    "As printed, under a load below the static friction the reset integrator does not drift, by more than the strain "
    "of a bond; the classical model does",
    f"{_THESIS}, figure 4.8",
    _DRIFT,
)
BONDS_DO_NOT_DRIFT = Statement(
    "bonds_do_not_drift",
    "As printed, the finger-pad and Dahl models do not drift either",
    f"{_THESIS}, beside figure 4.8",
    _DRIFT,
)
DAMPING = Statement(
    "damping_suppresses_oscillation",
    "As printed, the reset integrator oscillates on entering stiction without damping, but not with the damping 118, "
    f"which is nearly critical: less than {100 * SUPPRESSED:g} % of the energy is left",
    f"{_THESIS}, figure 4.7",
    _ENERGY,
)
OVERDAMPING = Statement(
    "overdamping_suppresses_oscillation",
    "As printed, it does not with the damping 1180 either (of a run that ends as unstable, the kinetic energy at its "
    "end)",
    f"{_THESIS}, figure 4.7",
    _ENERGY,
)
OSCILLATION = Statement(
    "oscillation_by_model",
    "As printed, the finger-pad and Dahl models oscillate on entering stiction; the critically damped reset integrator "
    "and the classical model do not",
    f"{_THESIS}, figures 4.9 and 4.10",
    _ENERGY,
)
MISSED = Statement(
    "finger_pad_misses_transitions",
    "As printed, under the force of figure 4.10 the finger pad misses transitions from slip to stick, which the reset "
    "integrator and the Dahl model do not",
    f"{_THESIS}, figure 4.10(c)",
    _MISSED,
)
COMPLIANCE = Statement(
    "damping_ends_compliance",
    "As printed, the finger-pad and Dahl models yield during stiction; the critically damped reset integrator does "
    f"not: by less than {100 * COMPLIANT:g} % of the others at the same load",
    f"{_THESIS}, beside figure 4.10",
    _COMPLIANCE,
)
ALL_SLIP_AND_STICK = Statement(
    "slip_and_stick_consistent",
    "All four models, with any damping, slip, stick for longer than a natural period of their bonds, and slip again",
    _OURS,
    _STICK,
)
ALL_BREAK = Statement(
    "breaks_at_static_friction",
    f"No model without a damper exceeds the static friction, and all come within {100 * LAG:g} % of it",
    _OURS,
    Quantity("largest friction on the peg", "N"),
)
NO_BOND_DRIFTS = Statement(
    "no_creep_consistent",
    "Under a load below the static friction no bond drifts by more than its strain; the classical model creeps as its "
    f"dead band says, to {100 * LAG:g} %",
    _OURS,
    _DRIFT,
)
ALL_DAMPED = Statement(
    "damping_suppresses_oscillation_consistent",
    f"The dampings 118 and 1180 leave less than {100 * SUPPRESSED:g} % of the oscillation's energy",
    _OURS,
    _ENERGY,
)
NONE_MISSED = Statement(
    "no_missed_transitions", "Under the force of figure 4.10 no model misses a transition to stiction", _OURS, _MISSED
)
SAME_COMPLIANCE = Statement(
    "compliance_consistent",
    "At rest all bonds yield by the breakaway distance by the static friction, whatever the model and its damping, to "
    f"{100 * LAG:g} %",
    _OURS,
    _COMPLIANCE,
)
SAME_MOTION = Statement(
    "finger_pad_is_undamped_bond",
    "Along a line the finger pad and the undamped reset integrator are one model; as printed they are two",
    _OURS,
    Quantity("largest distance of the two", "µm", 1e6),
)
CLAIMS = (
    SLIP_AND_STICK,
    ANY_DAMPING,
    NO_CREEP,
    BONDS_DO_NOT_DRIFT,
    DAMPING,
    OVERDAMPING,
    OSCILLATION,
    MISSED,
    COMPLIANCE,
    ALL_SLIP_AND_STICK,
    ALL_BREAK,
    NO_BOND_DRIFTS,
    ALL_DAMPED,
    NONE_MISSED,
    SAME_COMPLIANCE,
    SAME_MOTION,
)


@dataclass(frozen=True)
class Slot:
    """Properties of the peg in its slot that are known before the trial.

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
        if friction.code == NONE or not experiment.environment.method.BONDS or friction.static == 0.0:
            return None
        static, kinetic = (CONTACTS * mu * scene.normal_force for mu in (friction.static, friction.kinetic))
        period = 2.0 * math.pi * math.sqrt(tool.mass * friction.breakaway / static)
        # the dead band is at least what kinetic friction does to the peg's velocity in a step
        band = max(friction.deadband, kinetic / (tool.mass * experiment.rate))
        return cls(static, kinetic, friction.breakaway, period, tool.mass, band / static)


def variant(experiment: Experiment) -> str | None:
    """Name of the variant that an experiment is."""
    friction = experiment.contact.friction
    damping = friction.damping if friction.model.type == "reset_integrator" else 0.0
    own = (friction.model.type, damping, friction.form)
    return next((name for name, setting in VARIANTS.items() if setting == own), None)


def _as_variant(trial: Trial, name: str) -> Trial:
    model, damping, form = VARIANTS[name]
    return _with_friction(trial, model=FRICTION_MODELS.find(model)(), damping=damping, form=form)


def _with_friction(trial: Trial, **settings: object) -> Trial:
    contact = trial.experiment.contact
    contact = contact.model_copy(update={"friction": contact.friction.model_copy(update=settings)})
    return replace(trial, experiment=trial.experiment.model_copy(update={"contact": contact}))


def _with_duration(trial: Trial, duration: float) -> Trial:
    return replace(trial, experiment=trial.experiment.model_copy(update={"duration": duration}))


def under_static_load(trial: Trial) -> Trial:
    """The trial with a load along the slot that rises to LOAD within RAMP and stays."""
    rows = np.zeros((3, 7))
    rows[:, 0] = 0.0, RAMP, DRIFT_TO + 1.0
    rows[1:, 1] = LOAD
    operator = FileParameters(path="static load")
    experiment = trial.experiment.model_copy(update={"operator": operator, "duration": DRIFT_TO})
    return replace(trial, experiment=experiment, table=rows)


def under_experiment_force(trial: Trial, name: str) -> Trial:
    """A variant under the force of figure 4.10, with EXPERIMENT_NORMAL_FORCE and a damping as near to critical."""
    scene, experiment = trial.experiment.scene, trial.experiment
    assert isinstance(scene, SlotParameters)
    force = (EXPERIMENT_FORCE, 0.0, 0.0, 0.0, 0.0, 0.0)
    operator = SineParameters(amplitude=force, offset=force, frequency=EXPERIMENT_FREQUENCY)
    settings = {
        "operator": operator,
        "duration": EXPERIMENT_DURATION,
        "scene": scene.model_copy(update={"normal_force": EXPERIMENT_NORMAL_FORCE}),
    }
    pressed = replace(trial, experiment=experiment.model_copy(update=settings), table=None)
    damping = VARIANTS[name].damping * math.sqrt(EXPERIMENT_NORMAL_FORCE / scene.normal_force)  # of 2 (m mu N / z0)^1/2
    return _with_friction(_as_variant(pressed, name), damping=damping)


def stretches(flags: np.ndarray) -> np.ndarray:
    """First index of each stretch of True, and that after its last, (n, 2)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return edges.reshape(-1, 2)


def _slips(samples: Samples) -> np.ndarray:
    return stretches(samples["sliding_contacts"] > 0)


def _quiet(slot: Slot, samples: Samples) -> tuple[int, int] | None:
    """Rows of the first stiction, [first, last): from the end of a slip as long as the force is below the kinetic one.

    The first in which its oscillation can be seen, or if there is none, simply the first; None if no slip ended so.
    """
    strong = np.abs(samples["operator_fx"]) >= slot.kinetic
    found: list[tuple[int, int]] = []
    for _, first in _slips(samples):
        if first < len(samples) and not strong[first]:
            after = np.flatnonzero(strong[first:])
            last = int(first + after[0]) if after.size else len(samples)
            found.append((int(first), last))
            if samples["time"][last - 1] - samples["time"][first] >= 2.5 * slot.period:
                return found[-1]
    return found[0] if found else None


def oscillation_energy(trial: Trial, samples: Samples) -> float | None:
    """The largest kinetic energy of oscillation in a slip [J]; None unless a whole period of it is recorded."""
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


def _missed_transitions(samples: Samples) -> int:
    """Number of reversals of friction from one tick to the next while the peg slips in both."""
    force, slips = samples["env_fx"], samples["sliding_contacts"] > 0
    return int(np.count_nonzero((force[1:] * force[:-1] < 0.0) & slips[1:] & slips[:-1]))


def _compliance(slot: Slot, samples: Samples | None) -> float | None:
    """Compliance of the bonds, as of METRICS [m/N]."""
    if samples is None or samples["time"][-1] < RAMP:
        return None
    rows = (samples["time"] > RAMP - slot.period) & (samples["time"] <= RAMP)
    if not rows.any():
        return None
    return float(samples["tool_px"][rows].mean() / samples["operator_fx"][rows].mean())


def _metrics(trial: Trial, samples: Samples, loaded: Samples | None) -> dict[str, float | None]:
    metrics: dict[str, float | None] = dict.fromkeys(METRICS)
    slot = Slot.of(trial.experiment)
    if not len(samples) or slot is None:
        return metrics
    slips = _slips(samples)
    metrics["first_slip_time"] = float(samples["time"][slips[0, 0]]) if len(slips) else None
    metrics["stick_intervals"] = len(stretches(samples["sliding_contacts"] == 0))
    metrics["drift_under_static_load"] = _drift(loaded)
    metrics["oscillation_energy"] = oscillation_energy(trial, samples)
    metrics["missed_transitions"] = _missed_transitions(samples)
    metrics["stiction_compliance"] = _compliance(slot, loaded)
    return metrics


class Runs(NamedTuple):
    """The variants by name; the trial itself as its variant.

    Attributes:
        swung: under the trial's operator.
        loaded: under the static load.
        experiment: under the force of figure 4.10.
    """

    swung: dict[str, Samples]
    loaded: dict[str, Samples]
    experiment: dict[str, Samples]


Values = dict[str, float | None]
Known = Mapping[str, float]


def _claims(trial: Trial, runs: Runs) -> list[Claim]:
    slot = Slot.of(trial.experiment)
    if slot is None or not runs.swung:
        return [statement.judged({}, None) for statement in CLAIMS]
    lasted = max(float(run["time"][-1]) for run in runs.swung.values())
    swung, loaded, experiment = runs

    def energy(name: str) -> float | None:
        if name not in swung:
            return None
        if _is_unstable(swung[name], lasted):
            return 0.5 * slot.mass * float(swung[name]["tool_vx"][-1]) ** 2
        return oscillation_energy(trial, swung[name])

    def of(names: Sequence[str], runs: Mapping[str, Samples], measure: Callable[[Samples], float | None]) -> Values:
        return {name: measure(runs[name]) if name in runs else None for name in names}

    def drifts(*names: str) -> Values:
        return of(names, loaded, _drift)

    def energies(*names: str) -> Values:
        return {name: energy(name) for name in names}

    def stretched(values: Known, *names: str) -> bool:
        return all(abs(values[name]) > slot.breakaway for name in names)

    # Before the force has been able to move the peg both ways there need not be anything between two slips.
    reversed_ = all(
        run["operator_fx"].max() > slot.static and run["operator_fx"].min() < -slot.static
        for run in swung.values()
        if not _is_unstable(run, lasted)
    )
    held = slot.static > LOAD
    printed = [PRINTED + name for name in MODELS]
    undamped, critical, overdamped, pad, dahl, classical = (PRINTED + name for name in CONSISTENT_VARIANTS)
    creep = slot.creep * LOAD * (DRIFT_TO - DRIFT_FROM)
    compliance = slot.breakaway / slot.static
    distances = {
        "consistent": _distance(swung.get("karnopp"), swung.get("undamped")),
        "printed": _distance(swung.get(pad), swung.get(undamped)),
    }
    return [
        SLIP_AND_STICK.decided(
            of(printed, swung, _longest_stick),
            lambda known: all(time > 0.5 * slot.period for time in known.values()),
            reversed_,
        ),
        ANY_DAMPING.decided(
            of((undamped, critical, overdamped), swung, _longest_stick),
            lambda known: all(time > 0.5 * slot.period for time in known.values()),
            reversed_,
        ),
        NO_CREEP.decided(
            drifts(critical, classical),
            lambda known: not stretched(known, critical) and stretched(known, classical),
            held,
        ),
        BONDS_DO_NOT_DRIFT.decided(
            drifts(pad, dahl),
            lambda known: not stretched(known, pad) and not stretched(known, dahl),
            held,
        ),
        DAMPING.decided(energies(undamped, critical), lambda known: _least_of(known, undamped, critical)),
        OVERDAMPING.decided(energies(undamped, overdamped), lambda known: _least_of(known, undamped, overdamped)),
        OSCILLATION.decided(
            energies(*printed),
            lambda known: all(_least_of(known, name, critical, classical) for name in (pad, dahl)),
        ),
        MISSED.decided(
            of((critical, pad, dahl), experiment, _missed_transitions),
            lambda known: known[pad] > 0 and known[critical] == known[dahl] == 0,
        ),
        COMPLIANCE.decided(
            of((critical, pad, dahl), loaded, lambda run: _compliance(slot, run)),
            lambda known: known[critical] < COMPLIANT * min(known[pad], known[dahl]),
            held,
        ),
        ALL_SLIP_AND_STICK.decided(
            of((*DAMPINGS, *MODELS[1:]), swung, _longest_stick),
            lambda known: all(time > slot.period for time in known.values()),
            reversed_,
        ),
        ALL_BREAK.decided(
            of(("undamped", "karnopp", "dahl", "coulomb"), swung, lambda run: float(np.abs(run["env_fx"]).max())),
            lambda known: all((1.0 - LAG) * slot.static <= f <= (1.0 + 1e-9) * slot.static for f in known.values()),
            reversed_,
        ),
        NO_BOND_DRIFTS.decided(
            drifts(*MODELS),
            lambda known: (
                not any(stretched(known, name) for name in BONDED) and abs(known["coulomb"] - creep) <= LAG * creep
            ),
            held,
        ),
        ALL_DAMPED.decided(energies(*DAMPINGS), lambda known: _least_of(known, *DAMPINGS)),
        NONE_MISSED.decided(of(MODELS, experiment, _missed_transitions), lambda known: not any(known.values())),
        SAME_COMPLIANCE.decided(
            of(BONDED, loaded, lambda run: _compliance(slot, run)),
            lambda known: all(abs(value - compliance) <= LAG * compliance for value in known.values()),
            held,
        ),
        SAME_MOTION.decided(
            distances,
            lambda known: known["consistent"] <= SAME and known["printed"] > slot.breakaway,
            reversed_,
        ),
    ]


def _is_unstable(run: Samples, lasted: float) -> bool:
    """Whether a run ended before the others that are as long."""
    return float(run["time"][-1]) < lasted - 0.5 / _rate(run)


def _least_of(energies: Known, oscillates: str, *others: str) -> bool:
    """Whether less than SUPPRESSED of the energy of one that oscillates is left in the others."""
    return all(energies[name] < SUPPRESSED * energies[oscillates] for name in others)


def _distance(a: Samples | None, b: Samples | None) -> float | None:
    """Largest distance of two runs that last equally long [m]."""
    if a is None or b is None or len(a) != len(b):
        return None
    return float(np.abs(a["tool_px"] - b["tool_px"]).max())


def _runs(references: Mapping[str, Samples], own: str | None, samples: Samples) -> Runs:
    """The references by what acts on the peg, and the trial itself, which is the variant `own`."""
    runs = Runs({}, {}, {})
    for label, run in references.items():
        for prefix, of in ((LOADED, runs.loaded), (EXPERIMENT, runs.experiment), ("", runs.swung)):
            if label.startswith(prefix):
                of[label.removeprefix(prefix)] = run
                break
    if own is not None:
        if len(samples):
            runs.swung[own] = samples
        if THIS in runs.loaded:
            runs.loaded[own] = runs.loaded.pop(THIS)
    return runs


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
STYLES |= {PRINTED + name: style for name, style in STYLES.items()}
LABELS = {
    "undamped": "reset integrator, damping 0",
    "critical": "reset integrator, damping 118",
    "overdamped": "reset integrator, damping 1180",
    "karnopp": "finger pad (karnopp)",
    "dahl": "driftless Dahl",
    "coulomb": "classical (coulomb)",
}
LABELS |= {PRINTED + name: f"{label}, as printed" for name, label in LABELS.items()}
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
    runs = _runs(references, own, samples)
    runs.swung[own] = samples

    def curves(of: Mapping[str, Samples], *names: str) -> list[Curve]:
        return [_curve(trial, name, of[name], name == own) for name in dict.fromkeys(names) if name in of]

    def both(*names: str) -> list[list[str]]:
        """The names of a figure of the consistent form, and of one of the printed form, with the trial's own."""
        forms = [list(names), [PRINTED + name for name in names]]
        mine = trial.experiment.contact.friction.form == "printed"
        return [[own, *of] if (of is forms[1]) == mine else of for of in forms]

    made = []
    consistent, printed = both(*DAMPINGS)
    if own in (THIS, *DAMPINGS, *(PRINTED + name for name in DAMPINGS)):
        made.append(
            _motion(
                "damping",
                "Damping of the reset integrator",
                "Beside figure 4.7 of THESIS: without damping the peg oscillates on its bonds when it enters stiction, "
                "here so much that they break again; the dampings 118 and 1180 end that. Damping also carries a part "
                f"of the load, so that bonds break later. {_FORCE}",
                curves(runs.swung, *consistent),
            )
        )
        made.append(
            _motion(
                "damping_printed",
                "Damping of the reset integrator, as printed",
                "The same by (4.6) and (4.8), explicit: without damping the oscillation grows until the bonds break, "
                "and the damping 1180, above the limit of 1024 N s/m, is unstable and ends the run.",
                curves(runs.swung, *printed),
            )
        )
    consistent, printed = both(*MODELS)
    models = curves(runs.swung, *consistent)
    made.append(
        _motion(
            "models",
            "Friction models",
            "Beside figure 4.9 of THESIS, whose simulation is the critically damped reset integrator, the finger pad, "
            "the driftless Dahl model and the classical approximation. Here a bond that begins to stick keeps its "
            "force, and along a line the finger pad moves like the undamped reset integrator.",
            models,
        )
    )
    made.append(
        _motion(
            "models_printed",
            "Friction models, as printed",
            "The same by (4.6) to (4.12): the reset integrator's force jumps by the ratio of static to kinetic "
            "friction as it begins to stick; the finger pad sticks anew where it is slow; Dahl's force is the kinetic "
            "friction at most, and its oscillation grows by forward Euler.",
            curves(runs.swung, *printed),
        )
    )
    made.append(_characteristics(curves(runs.swung, own, "critical", "coulomb")))
    if runs.experiment:
        made.append(_experiment(trial, runs.experiment))
    if runs.loaded:
        consistent, printed = both(*MODELS)
        made.append(_creep(slot, curves(runs.loaded, *consistent), curves(runs.loaded, *printed)))
    energies = energy_figure(curves(runs.swung, own), [curve for curve in models if not curve.label.startswith(THIS)])
    return shown(*made, energies)


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
        panels.append(
            draw(f"{name}_{key}", f"({letter}) {text}", whole, "time [s]", Axis(f"{text} [{unit}]", least=1e-3))
        )
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
            Axis("time since the end of the first slip [s]", span=(-before, self.duration)),
            Axis(f"{text} [{unit}]", span=(float(low - margin), float(high + margin))),
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
        Axis("sliding velocity [mm/s]", span=(-5e3 * band, 5e3 * band)),
        "friction on the peg [N]",
    )
    return Figure(
        "Friction near rest",
        "Beside figure 4.8(b) of THESIS: the classical model is a steep line within the dead band, on which it creeps, "
        "and constant outside. The force of a bond depends on how far it is strained, not on the velocity.",
        [panel],
    )


def _experiment(trial: Trial, runs: Mapping[str, Samples]) -> Figure:
    """Position and friction under the force of figure 4.10, and friction at the first stop."""
    half = 0.75 / EXPERIMENT_FREQUENCY  # the force is zero: the peg rests from a little before on
    panels, table = [], [["", "reversals without stiction", "slips"]]
    for letters, form, prefix in (("ab", "", ""), ("cd", ", as printed", PRINTED)):
        names = [prefix + name for name in MODELS if prefix + name in runs]
        lines, stops = [], []
        for name in names:
            run, label, style = runs[name], LABELS[name], STYLES[name]
            lines.append(Line(*thin(run["time"], run["tool_px"]), label, style))
            shown = np.abs(run["time"] - half) < 0.1
            stops.append(Line(run["time"][shown], run["env_fx"][shown], label, style, steps=True))
            table.append([label, str(_missed_transitions(run)), str(len(_slips(run)))])
        key = "experiment_printed" if prefix else "experiment"
        panels.append(draw(key, f"({letters[0]}) position{form}", lines, "time [s]", "position [m]"))
        title = f"({letters[1]}) friction where the peg stops{form}"
        panels.append(draw(f"{key}_stop", title, stops, "time [s]", "friction on the peg [N]"))
    return Figure(
        "Force of figure 4.10",
        f"The force -(1 + sin t) N on a peg that each wall presses with {EXPERIMENT_NORMAL_FORCE:g} N (chosen; with "
        "0.175 N it never sticks), the reset integrator damped as near to critically as in the trial. Friction "
        "changes the velocity by more in a step than the dead band is wide. As printed the finger pad and the "
        "classical model then miss the transition to stiction, and friction reverses each tick.",
        panels,
        table,
    )


def _creep(slot: Slot, curves: Sequence[Curve], printed: Sequence[Curve]) -> Figure:
    panels = []
    table = [["", "displacement from 2 s to 10 s [µm]", "displacement by load [µm/N]"]]
    for letters, form, of in (("ab", "", curves), ("cd", ", as printed", printed)):
        if not of:
            continue
        lines = [c.over_time(1e6 * c.samples["tool_px"]) for c in of]
        if slot.static > LOAD:
            time = np.linspace(0.0, DRIFT_TO, 201)
            path = slot.creep * LOAD * np.where(time < RAMP, time**2 / (2.0 * RAMP), time - 0.5 * RAMP)
            lines.append(Line(time, 1e6 * path, "theory of the classical model", Style(BLACK, (1.2, 2.2), 1.3)))
        axes, key = ("time [s]", "displacement [µm]"), "creep_printed" if form else "creep"
        closely = Axis(axes[1], (0.0, 2e6 * slot.breakaway))
        title = f"({letters[1]}) up to twice the breakaway distance{form}"
        panels.append(draw(key, f"({letters[0]}) under a static load{form}", lines, *axes))
        panels.append(draw(f"{key}_bonds", title, lines, axes[0], closely))
        table += [[c.label, _cell(_drift(c.samples), 1e6), _cell(_compliance(slot, c.samples), 1e6)] for c in of]
    return Figure(
        "Creep and compliance under a static load",
        f"A run of its own: {LOAD:g} N, less than the static friction, put on over {RAMP:g} s and held. Bonds are "
        "strained and stay, those of a damped model by as much as others; the classical model moves on. As printed "
        "Dahl's oscillation grows until it slips. Beside 4.3.1 and figure 4.8 of THESIS.",
        panels,
        table,
    )


class PegFriction(Analysis):
    SCENES = ("slot",)
    METRICS = METRICS
    CLAIMS = CLAIMS

    def label(self, trial: Trial) -> str | None:
        return variant(trial.experiment)

    def variants(self, trial: Trial, samples: Samples) -> dict[str, Trial]:
        """The VARIANTS that the trial is not itself, in its other settings and over the time that it lasted, up to
        HORIZON; and MODELS in both forms under the static load, beside the trial's own setting, and under the force of
        figure 4.10.
        """
        if not len(samples) or Slot.of(trial.experiment) is None:
            return {}
        own = variant(trial.experiment)
        compared = _with_duration(trial, min(float(samples["time"][-1]), HORIZON))
        found = {name: _as_variant(compared, name) for name in VARIANTS if name != own}
        found[LOADED + THIS] = under_static_load(trial)
        for name in (*MODELS, *(PRINTED + name for name in MODELS)):
            if name != own:
                found[LOADED + name] = under_static_load(_as_variant(trial, name))
            found[EXPERIMENT + name] = under_experiment_force(trial, name)
        return found

    def judge(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> Findings:
        runs = _runs(references, variant(trial.experiment), samples.until(HORIZON))
        return Findings(_metrics(trial, samples, references.get(LOADED + THIS)), _claims(trial, runs), references)

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        return figures(trial, samples, findings.references)

    def sweep_figures(self, curves: Sequence[Curve]) -> list[Figure]:
        """The figures of several trials."""
        if any(Slot.of(curve.trial.experiment) is None for curve in curves):
            return trial_figures(curves)
        made = [
            _motion("runs", "Motion and friction", f"Beside figures 4.7 and 4.9 of THESIS. {_FORCE}", curves),
        ]
        classical = [curve for curve in curves if curve.trial.experiment.contact.friction.model.type == "coulomb"]
        if classical:
            made.append(_characteristics(classical))
        energies = energy_figure(curves)
        return shown(*made, energies)

    def expected(self, trial: Trial, findings: Findings) -> Mapping[str, tuple[float, str]]:
        """Theoretical values of the metrics in SI units, and the source of each."""
        experiment, slot = trial.experiment, Slot.of(trial.experiment)
        if slot is None or not experiment.standalone:
            return {}
        known = {}
        slip = _first_time(build_operator(experiment.operator, trial.table), slot.static, experiment)
        if slip is not None:
            known["first_slip_time"] = (slip, "slow force: reaches the static friction")
        if slot.static > LOAD:
            if experiment.contact.friction.model.type == "coulomb":
                creep = slot.creep * LOAD * (DRIFT_TO - DRIFT_FROM)
                known["drift_under_static_load"] = (creep, "dead band · load / static friction · 8 s")
            else:
                known["drift_under_static_load"] = (0.0, "bonds do not drift")
        return known


ANALYSIS = PegFriction()
