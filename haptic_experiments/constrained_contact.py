"""A tool under exact constraints that are switched on and off during the trial, and that strikes a wall.

Beyond the sources. Switching a constraint must not cause a jump of the force or the energy. A force without a jump is
recognised by its rate of change: with shorter ticks, the largest change in a tick divided by the tick tends to the
steepest slope if the force is continuous, and doubles with the rate if the force jumps. So the references are the trial
at twice and at four times the rate, and the trial with constraints that are switched at once, with a `fade` of a
millisecond. (Comparing two rates alone is fragile: at a kink of the force the change in a tick depends on the tick in
which the kink lies, and the end of a fade is only a few ticks long at 1 kHz.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from haptic_bench.analysis.base import Analysis, scene_as
from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.analysis.figures import Curve, energy_figure
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_drivers.admittance import AdmittanceDeviceParameters
from haptic_experiments.common.exact_tools import held_to
from haptic_experiments.common.held_ticks import ticks_held
from haptic_sim.constraints.in_worlds import AXIS_ALONG, FRAME_ON_FRAME, WorldConstraint
from haptic_sim.worlds.overlaps import find_overlaps
from haptic_sim.worlds.parameters import WorldParameters
from haptic_sim.worlds.world_setup import WorldSetup
from haptic_view.figures import BLACK, BLUE, GREEN, ORANGE, VERMILION, Axis, Figure, Line, Style, draw, shown, thin

RESIDUAL = 1e-10  # [m, rad] of a rigid constraint
OVERLAP = 1e-6  # [m] of contacts of the methods in which they do not overlap
STEEPER = 1.1  # what the steepest slope is at most of that at half the rate; 2 where the force jumps
NUMERICAL = 0.02  # discretisation error, of the injected energy
_AFTER = 1.5  # of `fade`: until a constraint has been switched
ABRUPT, FINE, FINER = "at once", "twice the rate", "four times the rate"
_RATES = {FINE: 2.0, FINER: 4.0}
_UNITS = {True: "N", False: "N m"}

METRICS = {
    "residual": Quantity("Largest residual of a constraint that holds (m, rad)"),
    "ticks_held": Quantity("Ticks in which the tool was kept where it was, as its constraints could not be met"),
    "overlap": Quantity("Deepest overlap with the wall", "µm", 1e6),
    "force_slope": Quantity("Steepest slope of a force of constraint while switched", "N/s"),
    "torque_slope": Quantity("Steepest slope of a torque of constraint while switched", "N m/s"),
    "collisions": Quantity("Ticks with a collision"),
    "injected": Quantity("Energy supplied by the hand and by switching", "mJ", 1e3),
    "numerical": Quantity("Largest energy added or taken by the discretisation", "mJ", 1e3),
}
CONSTRAINTS_HOLD = Statement(
    "constraints_hold",
    f"Constraints that hold do so to {RESIDUAL:g} m (rad), also while the tool strikes the wall, and the tool moves on "
    "in every tick: where they cannot be met it is kept where it was, which counts against this",
    "projection, as FAULRING II",
    Quantity("largest residual [m, rad]; ticks"),
)
NO_JUMP = Statement(
    "no_jump",
    "Switching lets no force jump: with the rate, the steepest slope of forces of constraint goes to a limit",
    "continuity",
    Quantity("steepest slope, of that at half the rate", "%", 1e2),
)
WOULD_JUMP = Statement(
    "would_jump",
    "Constraints that are switched at once let forces jump",
    "for comparison",
    Quantity("steepest slope, of that in this run"),
)
BALANCE = Statement(
    "balance",
    f"The energy balance closes: the discretisation error is at most {100 * NUMERICAL:g} % of the injected energy",
    "energy balance",
    Quantity("largest discretisation error, of the injected energy", "%", 1e2),
)
RESTITUTION = Statement(
    "restitution",
    "Under the constraints a collision returns e of the velocity",
    "Newton's law along the path that the constraints leave",
    Quantity("speed after the first collision, of that before"),
)
NO_OVERLAP = Statement(
    "no_overlap",
    f"The tool does not go into the wall by more than {1e6 * OVERLAP:g} µm",
    "complementarity",
    Quantity("deepest overlap", "µm", 1e6),
)
CLAIMS = (CONSTRAINTS_HOLD, NO_JUMP, WOULD_JUMP, BALANCE, RESTITUTION, NO_OVERLAP)
scene_of = partial(scene_as, kind=WorldParameters)


@dataclass(frozen=True)
class Row:
    """One row of a constraint in the samples, but for those that vanish in the plane."""

    constraint: WorldConstraint
    column: str
    force: bool  # or torque

    @property
    def label(self) -> str:
        """Label of the row in figures."""
        return self.constraint.name


def rows_of(world: WorldSetup, samples: Samples) -> list[Row]:
    """The rows that ever had a multiplier."""
    rows, column = [], 0
    for constraint in world.constraints:
        for i in range(constraint.rows):
            column += 1
            name = f"lambda{column}"
            if np.any(samples[name]):
                rows.append(Row(constraint, name, not _is_turn(constraint, i)))
    return rows


def _is_turn(constraint: WorldConstraint, row: int) -> bool:
    return constraint.kind == AXIS_ALONG or (constraint.kind == FRAME_ON_FRAME and row >= 3)


def switched(constraint: WorldConstraint, time: np.ndarray, period: float) -> np.ndarray:
    """Whether a constraint is being switched, (rows,); at the very start there is nothing to switch."""
    mask = np.zeros(time.size, np.bool_)
    for on, off in constraint.active or ():
        for at in (on, off):
            if at is not None and at > 0.0:
                mask |= (time >= at - 2.5 * period) & (time <= at + _AFTER * constraint.fade + 2.5 * period)
    return mask


def slopes(experiment: Experiment, world: WorldSetup, samples: Samples) -> dict[bool, float | None]:
    """Steepest slope of a force (True) and of a torque (False) of constraint [N/s, N m/s], while switched.

    Ticks with a collision, and those after them, do not count: there forces are impulses.
    """
    found: dict[bool, float | None] = {True: None, False: None}
    time = samples["time"]
    struck = samples["colliding"] > 0
    regular = ~(struck[1:] | struck[:-1])
    for row in rows_of(world, samples):
        values = np.abs(np.diff(samples[row.column]))
        counts = regular & switched(row.constraint, time, 1.0 / experiment.rate)[1:]
        if counts.any():
            found[row.force] = max(found[row.force] or 0.0, experiment.rate * float(values[counts].max()))
    return found


def overlap(world: WorldSetup, samples: Samples) -> float:
    """Deepest overlap [m]."""
    q = np.stack([samples[f"q{i}"] for i in range(world.model.nq)], axis=-1)
    touching = (find_overlaps(replace(world, q=x)) for x in q[samples["contacts"] > 0])
    return max((overlaps[0][0] for overlaps in touching if overlaps), default=0.0)


def rebound(samples: Samples) -> tuple[float, float] | None:
    """Speed after the first collision by that before, and how far other forces may change it in that tick."""
    ticks = np.flatnonzero(samples["colliding"] > 0)
    if not ticks.size or not 0 < ticks[0] < len(samples) - 2:
        return None
    k = int(ticks[0])
    v = np.stack([samples[f"v{i}"] for i in range(sum(name.startswith("v") for name in samples.names))], axis=-1)
    before, after = v[k], v[k + 1]
    square = float(before @ before)
    if not square > 0.0:
        return None
    usual = max(float(np.abs(v[k] - v[k - 1]).max()), float(np.abs(v[k + 2] - v[k + 1]).max()))
    return -float(after @ before) / square, 4.0 * usual / square**0.5


def _metrics(trial: Trial, world: WorldSetup, samples: Samples) -> dict[str, float | None]:
    found = slopes(trial.experiment, world, samples)
    return {
        "residual": float(samples["residual_holonomic"].max()),
        "ticks_held": ticks_held(trial, samples),
        "overlap": overlap(world, samples),
        "force_slope": found[True],
        "torque_slope": found[False],
        "collisions": int(np.count_nonzero(samples["colliding"])),
        "injected": float(np.ptp(samples["energy_injected"])),
        "numerical": float(np.abs(samples["energy_numerical"]).max()),
    }


def _ratios(a: Mapping[bool, float | None], b: Mapping[bool, float | None]) -> dict[str, float | None]:
    names = {True: "force", False: "torque"}
    return {
        names[kind]: x / y
        for kind in (True, False)
        if (x := a[kind]) is not None and (y := b[kind]) is not None and y > 0.0
    }


def _claims(
    trial: Trial, samples: Samples, metrics: Mapping[str, float | None], references: Mapping[str, Samples]
) -> list[Claim]:
    experiment = trial.experiment
    steepest = {"": {True: metrics["force_slope"], False: metrics["torque_slope"]}}
    for name, of in references.items():
        other = variant(trial, name)
        steepest[name] = slopes(other.experiment, other.world, of)
    finer: dict[str, float | None] = {}
    if FINER in steepest:
        for word, a, b in (("twice", "", FINE), ("four times", FINE, FINER)):
            finer |= {f"{key}, {word}": x for key, x in _ratios(steepest[b], steepest[a]).items()}
    abrupt = _ratios(steepest[ABRUPT], steepest[""]) if ABRUPT in steepest else {}
    bounce, e = rebound(samples), experiment.contact.restitution
    noisy = isinstance(experiment.device, AdmittanceDeviceParameters) and any(experiment.device.noise)
    injected, numerical = metrics["injected"] or 0.0, metrics["numerical"] or 0.0
    claims = [
        held_to(CONSTRAINTS_HOLD, trial, samples, RESIDUAL),
        NO_JUMP.judged(
            finer or {"force": None},
            all(x is not None and x <= STEEPER for x in finer.values()) if finer and not noisy else None,
            "noise of the force sensor changes forces in every tick, and more steeply at a higher rate"
            if noisy
            else "",
        ),
        WOULD_JUMP.judged(
            abrupt or {"force": None},
            any(x is not None and x > 2.0 for x in abrupt.values()) if abrupt else None,
        ),
        BALANCE.judged(
            {"this run": numerical / injected if injected > 0.0 else None},
            numerical <= NUMERICAL * injected if injected > 0.0 else None,
        ),
        RESTITUTION.judged(
            {"this run": None if bounce is None else bounce[0], "e": e},
            None if bounce is None else abs(bounce[0] - e) <= bounce[1],
        ),
    ]
    if experiment.environment.method.RIGID:
        deepest = metrics["overlap"] or 0.0
        claims.append(NO_OVERLAP.judged({"this run": deepest}, deepest <= OVERLAP))
    return claims


def variant(trial: Trial, name: str) -> Trial:
    """The trial of a reference."""
    experiment = trial.experiment
    if name in _RATES:
        return replace(trial, experiment=experiment.model_copy(update={"rate": _RATES[name] * experiment.rate}))
    scene = scene_of(experiment)
    constraints = {key: each.model_copy(update={"fade": 1e-3}) for key, each in scene.constraints.items()}
    scene = scene.model_copy(update={"constraints": constraints})
    return replace(trial, experiment=experiment.model_copy(update={"scene": scene}))


class ConstrainedContact(Analysis):
    SCENES = ("world",)
    METRICS = METRICS
    CLAIMS = CLAIMS

    def lacking(self, experiment: Experiment) -> Iterator[str]:
        if not scene_of(experiment).constraints:
            yield "scene.constraints, and there are none"

    def variants(self, trial: Trial, samples: Samples) -> dict[str, Trial]:
        """The trial at higher rates, and with constraints switched at once."""
        lasted = float(samples["time"][-1]) + 1.0 / trial.experiment.rate
        short = replace(trial, experiment=trial.experiment.model_copy(update={"duration": lasted}))
        return {name: variant(short, name) for name in (FINE, FINER, ABRUPT)}

    def judge(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> Findings:
        metrics = _metrics(trial, trial.world, samples)
        return Findings(metrics, _claims(trial, samples, metrics, references), references)

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        curve = Curve("this run", trial, samples, Style(BLUE))
        abrupt = findings.references.get(ABRUPT)
        beside = [Curve("switched at once", variant(trial, ABRUPT), abrupt, Style(VERMILION))] if abrupt else []
        finer = [
            Curve(name, variant(trial, name), findings.references[name], Style(GREEN))
            for name in _RATES
            if name in findings.references
        ]
        return shown(_path(trial, samples), _switching(curve, beside, finer), energy_figure([curve]))

    def sweep_figures(self, curves: Sequence[Curve]) -> list[Figure]:
        return shown(_sweep(curves), energy_figure(curves))


def _path(trial: Trial, samples: Samples) -> Figure:
    """Figure of the paths of tool and hand, and of the tool's motion over time."""
    held = np.zeros(len(samples), np.bool_)
    time = samples["time"]
    for constraint in trial.world.constraints:
        for on, off in constraint.active or ((0.0, None),):
            if not _turns_only(constraint):
                held |= (time >= on + constraint.fade) & (time < (np.inf if off is None else off))
    x, y = 1e3 * samples["tool_px"], 1e3 * samples["tool_py"]
    lines = [
        Line(np.where(held, x, np.nan), np.where(held, y, np.nan), "tool, bound", Style(VERMILION, width=2.4)),
        Line(x, y, "tool", Style(BLUE)),
    ]
    if "hand_px" in samples.names:
        lines.append(Line(1e3 * samples["hand_px"], 1e3 * samples["hand_py"], "hand", Style(BLACK, (3, 2), 1.0)))
    struck = samples["colliding"] > 0
    marks = Line(x[struck], y[struck], "collisions", Style(GREEN))
    panels = [
        draw("path", "(a) path of the tool", lines, "x [mm]", Axis("y [mm]", least=1.0), equal=True, marks=marks),
        draw(
            "motion",
            "(b) coordinates of the tool",
            [Line(time, x, "x", Style(BLUE)), Line(time, y, "y", Style(ORANGE, (5, 1.8)))],
            "time [s]",
            Axis("position [mm]", least=1.0),
            marks=Line(time[struck], x[struck], "collisions", Style(GREEN)),
        ),
    ]
    caption = (
        "A constraint that is switched on draws the tool to where it is met, and then holds it there; contacts act "
        "along what the constraints leave free."
    )
    return Figure("Motion", caption, panels)


def _turns_only(constraint: WorldConstraint) -> bool:
    return all(_is_turn(constraint, i) for i in range(constraint.rows))


def _switching(curve: Curve, beside: Sequence[Curve], finer: Sequence[Curve]) -> Figure:
    """Forces of constraint over time, the first time it is switched on, and off; residuals."""
    trial, samples = curve.trial, curve.samples
    world = trial.world
    rows = rows_of(world, samples)
    panels = []
    letters = iter("abcdefghijkl")
    for force in (True, False):
        own = [row for row in rows if row.force is force]
        for row in own[:2]:
            unit, kind = _UNITS[force], "force" if force else "torque"
            struck = samples["colliding"] > 0
            usual = np.where(struck, np.nan, samples[row.column])
            lines = [Line(*thin(samples["time"], usual), curve.label, curve.style)]
            for other in beside:
                values = np.where(other.samples["colliding"] > 0, np.nan, other.samples[row.column])
                lines.append(Line(*thin(other.samples["time"], values), other.label, replace(other.style, width=0.9)))
            low, high = np.nanmin(usual), np.nanmax(usual)
            margin = 0.25 * max(float(high - low), 1e-9)
            panels.append(
                draw(
                    f"{kind}_{row.column}",
                    f"({next(letters)}) {kind} of {row.label}, collisions left out",
                    lines,
                    "time [s]",
                    Axis(f"{kind} [{unit}]", span=(float(low) - margin, float(high) + margin)),
                )
            )
    for row in [row for row in rows if row.force][:1]:
        for at, word in _instants(row.constraint):
            fade = row.constraint.fade
            if at + fade > samples["time"][-1]:
                continue  # the trial ended before
            lines = []
            for each in (curve, *beside):
                shown = (each.samples["time"] >= at - 0.1 * fade) & (each.samples["time"] <= at + 1.2 * fade)
                lines.append(Line(each.samples["time"][shown], each.samples[row.column][shown], each.label, each.style))
            inside = lines[0].y
            margin = 0.3 * max(float(np.ptp(inside)), 1e-9)
            panels.append(
                draw(
                    f"{word}_{row.column}",
                    f"({next(letters)}) {row.label} is switched {word}",
                    lines,
                    "time [s]",
                    Axis("force [N]", span=(float(inside.min()) - margin, float(inside.max()) + margin)),
                )
            )
    residual = Line(samples["time"], np.maximum(samples["residual_holonomic"], 1e-18), "this run", Style(BLUE))
    panels.append(
        draw(
            "residual",
            f"({next(letters)}) residual of the constraints that hold",
            [residual],
            "time [s]",
            Axis("residual [m, rad]", log=True),
        )
    )
    table = [["steepest slope while switched", "force [N/s]", "torque [N m/s]"]]
    for each in (curve, *beside, *finer):
        found = slopes(each.trial.experiment, each.trial.world, each.samples)
        largest = ["\N{EN DASH}" if found[kind] is None else f"{found[kind]:.3g}" for kind in (True, False)]
        table.append([each.label, *largest])
    caption = (
        "Of a constraint that is switched on, a virtual mass along the constraint ramps from zero to infinity, while "
        "its position is led to where the constraint is met; switched off, it ramps back to zero. The force begins at "
        "zero, ends as that of the rigid constraint, and has no jump between. Switched at once, the constraint pulls "
        "the tool with all the force that it takes."
    )
    return Figure("Forces of constraint", caption, panels, table)


def _instants(constraint: WorldConstraint) -> list[tuple[float, str]]:
    """The first time that a constraint is switched on, and off."""
    found: dict[str, float] = {}
    for on, off in constraint.active or ():
        for at, word in ((on, "on"), (off, "off")):
            if at is not None and at > 0.0:
                found.setdefault(word, at)
    return [(at, word) for word, at in found.items()]


def _sweep(curves: Sequence[Curve]) -> Figure:
    panels = []
    quantities: tuple[tuple[str, str, str, float], ...] = (
        ("tool_px", "position along x", "x [mm]", 1e3),
        ("tool_py", "position along y", "y [mm]", 1e3),
    )
    for letter, (column, title, label, scale) in zip("ab", quantities, strict=True):
        lines = [c.over_time(scale * c.samples[column]) for c in curves]
        panels.append(draw(column, f"({letter}) {title}", lines, "time [s]", Axis(label, least=1e-3)))
    table: list[list[Any]] = [["", "residual", "steepest slope of a force [N/s]", "collisions"]]
    for curve in curves:
        metrics = _metrics(curve.trial, curve.trial.world, curve.samples)
        change = metrics["force_slope"]
        table.append(
            [
                curve.label,
                f"{metrics['residual']:.2g}",
                "\N{EN DASH}" if change is None else f"{change:.3g}",
                str(metrics["collisions"]),
            ]
        )
    return Figure("Motion under constraints", "", panels, table)


ANALYSIS = ConstrainedContact()
