"""The peg pushed into a corner (THESIS 4.5): metrics, published claims, and figures beside 4.15 to 4.24.

Most published claims are comparisons: of two ways to simulate or to render the contact, one has less of a quantity.
Where the two differ by less than TIE the comparison is a tie, and the claim is undecided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from haptic_bench.analysis.base import Analysis
from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.analysis.figures import Curve, energy_figure
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_bench.running import forks
from haptic_control.four_channel import FourChannelParameters
from haptic_control.unilateral import UnilateralParameters
from haptic_drivers.inertial import InertialParameters
from haptic_drivers.operators import ConstantParameters, build_operator, wrench_at_rest
from haptic_drivers.pantograph import PantographParameters
from haptic_experiments.references import ideal
from haptic_sim.contact.response import Rendering
from haptic_sim.parameters import ParameterError
from haptic_sim.spatial import planar_angle
from haptic_sim.worlds.scenes import EnclosureParameters, PegParameters, enclosure_walls
from haptic_view.figures import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, Axis, Figure, Line, Style, draw

SETTLED_DISTANCE = 1e-4  # [m]
SETTLED_SPEED = 2e-3  # [m/s]
AFTER_IMPACT = 0.06  # [s]
RESTS = 0.5  # [s] at the end in which a hand that has settled does not move
TIE = 0.01  # of the larger value: what differs by less does not order two runs
ROUNDING = 1e-9  # of the work of an impulse, relative


@dataclass(frozen=True)
class Variant:
    """Settings of a run that is compared; the controller is unilateral if `coupled`, else four-channel."""

    method: str
    rendering: Rendering = "full"
    coupled: bool = False


# Penalties and rigid contacts are those of a device that renders any force. `spread` is as printed, `spread_consistent`
# as mended (errata 14). `constraint` is what THESIS calls ideal, in discrete time; `coupled` is its CBuc.
VARIANTS = {
    "penalty": Variant("penalty"),
    "full": Variant("impulse_augmented"),
    "saturated": Variant("impulse_augmented", "saturated"),
    "scaled": Variant("impulse_augmented", "scaled"),
    "spread": Variant("impulse_augmented", "printed_spread"),
    "spread_consistent": Variant("impulse_augmented", "spread"),
    "constraint": Variant("constraint"),
    "coupled": Variant("constraint", coupled=True),
}
RENDERINGS = ("full", "saturated", "scaled", "spread")


class Setup(NamedTuple):
    """Parts of an experiment of this analysis: a peg on a device among walls."""

    tool: PegParameters
    scene: EnclosureParameters
    device: InertialParameters | PantographParameters


def setup(experiment: Experiment) -> Setup:
    """The parts of an experiment.

    Raises:
        ParameterError: they are others.
    """
    tool, scene, device = experiment.tool, experiment.scene, experiment.device
    if not (
        isinstance(tool, PegParameters)
        and isinstance(scene, EnclosureParameters)
        and isinstance(device, InertialParameters | PantographParameters)
    ):
        raise ParameterError(["analysis = corner_peg: needs a peg on a device in an enclosure; set analysis=trial"])
    return Setup(tool, scene, device)


METRICS = {
    "max_penetration_x": Quantity("Largest penetration of the right wall, at the hand's pose", "mm", 1e3),
    "max_penetration_y": Quantity("Largest penetration of the lower wall, at the hand's pose", "mm", 1e3),
    "settling_time": Quantity(
        "Time from which the hand is within 0.1 mm of its final position and slower than 2 mm/s", "s"
    ),
    "kinetic_energy_after_first_impact": Quantity(
        "Kinetic energy of the hand 60 ms after the ideal first impact", "mJ", 1e3
    ),
    "peak_force": Quantity("Largest rendered force", "N"),
    "ideal_first_impact_time": Quantity("Time of the first impact on rigid walls", "s"),
    "ideal_second_impact_time": Quantity("Time of the second impact on rigid walls", "s"),
}
HORIZON = 30.0  # [s] of a trial that is compared: impacts are over long before, and a day's trial shall be reported


@forks.Ahead
def rigid(trial: Trial, duration: float = HORIZON) -> Samples:
    """The ideal: the tool as a rigid body among rigid walls, under the trial's operator and without ticks.

    Hand and tool are one. Rows are the trial's ticks, and the moments before and at each impact; at it,
    `colliding` is 1. An impulse is rendered within its tick, as the trial's own would be (THESIS 4.45).
    """
    experiment, rate = trial.experiment, trial.experiment.rate
    tool, scene, _ = setup(experiment)
    last = max(min(experiment.last_tick, round(min(duration, HORIZON) * rate)), 1)
    operator, wrench = build_operator(experiment.operator, trial.table), np.zeros(6)

    def planar_wrench(time: float) -> list[float]:
        wrench_at_rest(operator, time, wrench)
        return wrench[[0, 1, 5]].tolist()

    release = experiment.operator.release
    motion = ideal.simulate(
        ideal.PlanarBody(tool.mass, tool.inertia, 0.5 * np.array(tool.size) * [[1, 1], [-1, 1], [-1, -1], [1, -1]]),
        [ideal.Wall(np.array(wall.normal[:2]), wall.offset) for wall in enclosure_walls(tool, scene)],
        planar_wrench,
        last / rate,
        experiment.contact.restitution,
        breakpoints=[
            *([] if release is None else [release]),
            *([] if trial.table is None else trial.table[:, 0]),
        ],
    )
    impacts = np.array([impact.time for impact in motion.impacts])
    impulses = np.array([impact.impulse for impact in motion.impacts]).reshape(-1, 3)
    times = np.unique(np.concatenate([np.arange(last + 1) / rate, impacts, np.nextafter(impacts, 0.0)]))
    ticks, struck = _ticks(times, rate), _ticks(impacts, rate)
    pose, velocity = motion.sample(times)
    rendered = motion.contact_wrench(ticks / rate)
    for tick, impulse in zip(struck, impulses, strict=True):
        rendered[ticks == tick] += impulse * rate

    zero = np.zeros(times.size)
    half = 0.5 * pose[:, 2]
    table = {
        "tick": ticks,
        "time": times,
        **_columns("hand", "px py pz qx qy qz qw", *pose[:, :2].T, *[zero] * 3, np.sin(half), np.cos(half)),
        **_columns("hand", "vx vy vz wx wy wz", *velocity[:, :2].T, *[zero] * 3, velocity[:, 2]),
        **_columns("rendered", "fx fy fz tx ty tz", *rendered[:, :2].T, *[zero] * 3, rendered[:, 2]),
        "colliding": np.isin(times, impacts).astype(np.int64),
    }
    return Samples(table)


def _ticks(times: np.ndarray, rate: float) -> np.ndarray:
    """The ticks within which times are; that of k / rate is k whatever the rounding."""
    return np.floor(times * rate * (1.0 + 1e-12)).astype(np.int64)


def _columns(prefix: str, suffixes: str, *values: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip((f"{prefix}_{suffix}" for suffix in suffixes.split()), values, strict=True))


def impact_times(reference: Samples) -> list[float]:
    """Times at which the ideal peg strikes a wall [s]."""
    return reference["time"][reference["colliding"] > 0].tolist()


def variant(experiment: Experiment) -> str | None:
    """Name of the variant of an experiment; None for others, as penalties on a limited device, or direct coupling."""
    rendering = setup(experiment).device.rendering
    if not isinstance(experiment.controller, FourChannelParameters | UnilateralParameters):
        return None
    own = Variant(
        experiment.environment.method.type, rendering, isinstance(experiment.controller, UnilateralParameters)
    )
    return next((name for name, of_variant in VARIANTS.items() if of_variant == own), None)


def _as_variant(trial: Trial, name: str, duration: float) -> Trial:
    experiment, wanted = trial.experiment, VARIANTS[name]
    controller = experiment.controller
    if wanted.coupled != isinstance(controller, UnilateralParameters):
        controller = UnilateralParameters() if wanted.coupled else FourChannelParameters()
    device = {"impulse_rendering": wanted.rendering.removeprefix("printed_")}
    if device["impulse_rendering"] == "spread":
        device["spread"] = "consistent" if wanted.rendering == "spread" else "printed"
    settings = {
        "environment": experiment.environment.with_method(wanted.method),
        "device": setup(experiment).device.model_copy(update=device),
        "controller": controller,
        "duration": duration,
    }
    return replace(trial, experiment=experiment.model_copy(update=settings))


def penetration(tool: PegParameters, normal: Sequence[float], offset: float, poses: np.ndarray) -> np.ndarray:
    """Penetration of the peg into a wall [m], (n,), never negative.

    Args:
        tool: the peg.
        normal, offset: of the wall [m], which is solid where normal . p < offset.
        poses: planar, (n, 7).
    """
    angle = planar_angle(poses)
    cosine, sine = np.cos(angle), np.sin(angle)
    along_x = np.abs(normal[0] * cosine + normal[1] * sine)
    along_y = np.abs(normal[1] * cosine - normal[0] * sine)
    nearest = poses[:, :2] @ np.array(normal[:2]) - 0.5 * (tool.size[0] * along_x + tool.size[1] * along_y)
    return np.maximum(offset - nearest, 0.0)


def _penetrations(experiment: Experiment, samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    """Penetrations of the peg at the hand's pose, into the right and the lower wall [m]."""
    tool, scene, _ = setup(experiment)
    right, lower, *_ = enclosure_walls(tool, scene)
    poses = samples.pose("hand")
    return penetration(tool, right.normal, right.offset, poses), penetration(tool, lower.normal, lower.offset, poses)


def kinetic_energy(experiment: Experiment, samples: Samples) -> np.ndarray:
    """Kinetic energy of the hand, that is of the device [J]."""
    tool, _, device = setup(experiment)
    mass = tool.mass if device.mass is None else device.mass
    inertia = tool.inertia if device.inertia is None else device.inertia
    twist = samples.twist("hand")
    return 0.5 * mass * (twist[:, 0] ** 2 + twist[:, 1] ** 2) + 0.5 * inertia * twist[:, 5] ** 2


def _metrics(trial: Trial, samples: Samples, impacts: Sequence[float]) -> dict[str, float | None]:
    metrics: dict[str, float | None] = dict.fromkeys(METRICS)
    if len(samples):
        x, y = _penetrations(trial.experiment, samples)
        metrics["max_penetration_x"], metrics["max_penetration_y"] = float(x.max()), float(y.max())
        metrics["settling_time"] = _settling_time(samples)
        metrics["kinetic_energy_after_first_impact"] = _energy_after_impact(trial.experiment, samples, impacts)
        metrics["peak_force"] = _peak_force(samples)
    for name, time in zip(("ideal_first_impact_time", "ideal_second_impact_time"), impacts, strict=False):
        metrics[name] = time
    return metrics


def _peak_force(samples: Samples) -> float:
    return float(np.linalg.norm(samples.group("rendered", "fx", "fy", "fz"), axis=1).max())


def _settling_time(samples: Samples) -> float | None:
    """Last time at which the hand is away from its final position or fast [s].

    None if it is fast at the end, or never was either: it has not settled.
    """
    position, velocity = samples.group("hand", "px", "py", "pz"), samples.group("hand", "vx", "vy", "vz")
    away = np.linalg.norm(position - position[-1], axis=1) > SETTLED_DISTANCE
    moving = np.flatnonzero(away | (np.linalg.norm(velocity, axis=1) > SETTLED_SPEED))
    if not moving.size or moving[-1] == len(samples) - 1:
        return None
    return float(samples["time"][moving[-1]])


def _energy_after_impact(experiment: Experiment, samples: Samples, impacts: Sequence[float]) -> float | None:
    """Kinetic energy of the hand at the tick nearest to 60 ms after the first impact [J]; None if later."""
    if not impacts:
        return None
    tick = round((impacts[0] + AFTER_IMPACT) * experiment.rate)
    if samples["tick"][-1] < tick:
        return None
    return float(kinetic_energy(experiment, samples)[np.argmin(np.abs(samples["tick"] - tick))])


def _claims(trial: Trial, samples: Samples, references: Mapping[str, Samples], impacts: Sequence[float]) -> list[Claim]:
    runs = {name: references[name] for name in VARIANTS if name in references}
    own = variant(trial.experiment)
    if own is not None and len(samples):
        runs[own] = samples
    work, passive = _impulse_work(trial, samples, runs)
    return [
        *(_compare(comparison, trial.experiment, runs, impacts) for comparison in COMPARISONS),
        PASSIVE.judged(work, passive),
    ]


def _compare(
    comparison: Comparison, experiment: Experiment, runs: Mapping[str, Samples], impacts: Sequence[float]
) -> Claim:
    """Whether of each pair the first has less; undecided if one is not known, or in a tie."""
    statement, measure, pairs = comparison
    names = dict.fromkeys(name for pair in pairs for name in pair)
    measured = {name: measure(experiment, runs[name], impacts) if name in runs else None for name in names}
    known = {name: value for name, value in measured.items() if value is not None}
    if len(known) < len(names):
        return statement.judged(measured, None)
    ties = [pair for pair in pairs if _tied(known[pair[0]], known[pair[1]])]
    holds = all(known[low] < known[high] for low, high in pairs if (low, high) not in ties)
    reason = "; ".join(f"a tie: {low} and {high} differ by less than {100 * TIE:g} %" for low, high in ties)
    return statement.judged(measured, None if holds and ties else holds, reason)


def _tied(a: float, b: float) -> bool:
    """Whether two values are too near to each other to be ordered; counts are tied if they are the same."""
    return abs(a - b) <= TIE * max(abs(a), abs(b))


def _passed_peak(depth: np.ndarray) -> float | None:
    """The largest value, None if it is zero or still grows at the end: no contact yet, or not yet the whole of it."""
    largest = float(depth.max())
    grows = depth[-1] == largest and (depth.size == 1 or depth[-2] < (1.0 - 1e-6) * largest)
    return None if largest == 0.0 or grows else largest


def _deepest_right(experiment: Experiment, run: Samples, impacts: Sequence[float]) -> float | None:
    return _passed_peak(_penetrations(experiment, run)[0])


def _deepest_lower(experiment: Experiment, run: Samples, impacts: Sequence[float]) -> float | None:
    return _passed_peak(_penetrations(experiment, run)[1])


def _touched_both(experiment: Experiment, run: Samples) -> bool:
    """Whether both walls were met, and penetrated as deep as they will be."""
    return all(_passed_peak(depth) is not None for depth in _penetrations(experiment, run))


def _force_at_contacts(experiment: Experiment, run: Samples, impacts: Sequence[float]) -> float | None:
    return _peak_force(run) if _touched_both(experiment, run) else None


def _force_at_right(experiment: Experiment, run: Samples, impacts: Sequence[float]) -> float | None:
    return float(np.abs(run["rendered_fx"]).max()) if _touched_both(experiment, run) else None


def _force_at_lower(experiment: Experiment, run: Samples, impacts: Sequence[float]) -> float | None:
    return float(np.abs(run["rendered_fy"]).max()) if _touched_both(experiment, run) else None


def _settled(experiment: Experiment, run: Samples, impacts: Sequence[float]) -> float | None:
    """The settling time; None if the run ends less than RESTS later, as its end may then not be where it settles."""
    time = _settling_time(run) if _touched_both(experiment, run) else None
    return None if time is None or run["time"][-1] - time < RESTS else time


def _departures(experiment: Experiment, run: Samples, impacts: Sequence[float]) -> float | None:
    """Number of times that the hand leaves a wall."""
    if not _touched_both(experiment, run):
        return None
    return float(sum((np.diff((depth > 0.0).astype(int)) < 0).sum() for depth in _penetrations(experiment, run)))


def _impulse_work(
    trial: Trial, samples: Samples, runs: Mapping[str, Samples]
) -> tuple[dict[str, float | None], bool | None]:
    """Largest work of an impact on the tool by variant [J], and whether none is positive.

    With penalties these are the impulses of colliding ticks. An impulse p on a tool of twist v does the work
    p^T v + 1/2 p^T M^-1 p (THESIS 4.40, with the factor 1/2 restored: see errata), which is zero up to rounding at
    restitution 1. With rigid contacts every tick has an impulse, beside which the other forces act; these do their work
    at the velocity v' after the tick, so that the impulse alone does p^T v' - 1/2 (v' - v)^T M (v' - v): the same where
    there are no other forces.
    """
    tool, method = setup(trial.experiment).tool, trial.experiment.environment.method
    inertia = np.array([tool.mass, tool.mass, tool.inertia])
    checked = {name: runs.get(name) for name in RENDERINGS}
    if variant(trial.experiment) not in RENDERINGS and method.IMPULSIVE and len(samples):
        checked["this run"] = samples
    largest: dict[str, float | None] = {}
    passive = None
    for name, run in checked.items():
        largest[name] = None
        if run is None:
            continue
        impulse = run.group("env", "fx", "fy", "tz") / trial.experiment.rate
        twist = run.group("tool", "vx", "vy", "wz")
        if name == "this run" and method.RIGID:
            at = np.flatnonzero((run["contacts"][:-1] > 0) & (np.diff(run["tick"]) == 1))
            taken = np.sum(impulse[at] * twist[at + 1], axis=1)
            given = -0.5 * np.sum(inertia * (twist[at + 1] - twist[at]) ** 2, axis=1)
        else:
            at = np.flatnonzero(run["colliding"] > 0)
            taken = np.sum(impulse[at] * twist[at], axis=1)
            given = 0.5 * np.sum(impulse[at] ** 2 / inertia, axis=1)
        if not at.size:
            continue
        largest[name] = float((taken + given).max())
        passive = passive is not False and bool(np.all(taken + given <= ROUNDING * (np.abs(taken) + np.abs(given))))
    return largest, passive


Measure = Callable[[Experiment, Samples, Sequence[float]], float | None]
"""A quantity of a run, given the times of the ideal impacts [s]; None if the run is too short for it."""


class Comparison(NamedTuple):
    """A statement that of each pair of variants the first has less of a quantity."""

    statement: Statement
    measure: Measure
    pairs: tuple[tuple[str, str], ...]


RIGHT = Quantity("largest penetration of the right wall", "mm", 1e3)
LOWER = Quantity("largest penetration of the lower wall", "mm", 1e3)
LEFT = Quantity("kinetic energy left 60 ms after the ideal impact", "mJ", 1e3)
FORCE = Quantity("largest force rendered to the hand", "N")
SETTLED = Quantity("settling time", "s")
COMPARISONS = (
    Comparison(
        Statement(
            "penetration_x",
            "The right wall is penetrated least with full impulses, more with spread, most with penalties",
            "THESIS 4.5.1 and 4.5.2, figures 4.15 and 4.19",
            RIGHT,
        ),
        _deepest_right,
        (("full", "spread"), ("spread", "penalty")),
    ),
    Comparison(
        Statement(
            "penetration_y",
            "The lower wall is penetrated less with full impulses than with penalties alone",
            "THESIS 4.5.1, figure 4.15",
            LOWER,
        ),
        _deepest_lower,
        (("full", "penalty"),),
    ),
    Comparison(
        Statement(
            "spread_penetration_y",
            "The lower wall is penetrated less with spread impulses than with penalties (nearly the same)",
            "THESIS 4.5.2, figure 4.19",
            LOWER,
        ),
        _deepest_lower,
        (("spread", "penalty"),),
    ),
    Comparison(
        Statement(
            "saturated_worst",
            "Of the four renderings of impulses, saturating them on the device degrades the trajectory most",
            "THESIS 4.5.2, figure 4.18",
            RIGHT,
        ),
        _deepest_right,
        (("full", "saturated"), ("scaled", "saturated"), ("spread", "saturated")),
    ),
    Comparison(
        Statement(
            "spread_least_degraded",
            "Where the device limits impulses, spreading them over steps degrades the trajectory least",
            "THESIS 4.5.2, figure 4.18",
            RIGHT,
        ),
        _deepest_right,
        (("spread", "scaled"), ("spread", "saturated")),
    ),
    Comparison(
        Statement(
            "saturated_settles_last",
            "Of the four renderings of impulses, the hand settles last where they are saturated on the device",
            "THESIS 4.5.2, figure 4.18",
            SETTLED,
        ),
        _settled,
        (("full", "saturated"), ("scaled", "saturated"), ("spread", "saturated")),
    ),
    Comparison(
        Statement(
            "impulses_settle_faster",
            "The hand settles into the corner faster with impulses, full or spread, than with penalties alone",
            "THESIS 4.5.3, figures 4.22 and 4.24",
            SETTLED,
        ),
        _settled,
        (("full", "penalty"), ("spread", "penalty")),
    ),
    Comparison(
        Statement(
            "impulses_bounce_less",
            "The hand bounces less with impulses, full or spread, than with penalties alone",
            "THESIS 4.5.3, figures 4.22 and 4.24",
            Quantity("how often the hand leaves a wall"),
        ),
        _departures,
        (("full", "penalty"), ("spread", "penalty")),
    ),
    Comparison(
        Statement(
            "energy_lost_at_first_contact",
            "At the first contact the hand loses more kinetic energy with impulses than with penalties alone",
            "THESIS 4.5.1, figure 4.17",
            LEFT,
        ),
        _energy_after_impact,
        (("full", "penalty"),),
    ),
    Comparison(
        Statement(
            "spread_energy",
            "At the first contact the hand loses more kinetic energy with spread impulses than with penalties alone",
            "THESIS 4.5.2, figure 4.21",
            LEFT,
        ),
        _energy_after_impact,
        (("spread", "penalty"),),
    ),
    Comparison(
        Statement(
            "coupled_penetration_x",
            "The right wall is penetrated less with full impulses than with rigid contact through the unilateral "
            "coupling",
            "THESIS 4.5.1, figure 4.15",
            RIGHT,
        ),
        _deepest_right,
        (("full", "coupled"),),
    ),
    Comparison(
        Statement(
            "coupled_penetration_y",
            "The lower wall is penetrated less with full impulses than with rigid contact through the unilateral "
            "coupling",
            "THESIS 4.5.1, figure 4.15",
            LOWER,
        ),
        _deepest_lower,
        (("full", "coupled"),),
    ),
    Comparison(
        Statement(
            "coupled_energy",
            "At the first contact the hand loses more kinetic energy with impulses than with rigid contact through the "
            "unilateral coupling",
            "THESIS 4.5.1, figure 4.17",
            LEFT,
        ),
        _energy_after_impact,
        (("full", "coupled"),),
    ),
    Comparison(
        Statement(
            "forces_at_contact",
            "New contacts are felt as larger forces with impulses than with penalties alone, and than with rigid "
            "contact through the unilateral coupling",
            "THESIS 4.5.1, figure 4.16",
            FORCE,
        ),
        _force_at_contacts,
        (("penalty", "full"), ("coupled", "full")),
    ),
    Comparison(
        Statement(
            "spread_forces_right",
            "The right wall, met first, is felt as a larger force with spread impulses than with penalties alone",
            "THESIS 4.5.2, figure 4.20",
            FORCE,
        ),
        _force_at_right,
        (("penalty", "spread"),),
    ),
    Comparison(
        Statement(
            "spread_forces_lower",
            "The lower wall, met second, is felt as a larger force with spread impulses than with penalties alone",
            "THESIS 4.5.2, figure 4.20",
            FORCE,
        ),
        _force_at_lower,
        (("penalty", "spread"),),
    ),
)
PASSIVE = Statement(
    "impacts_passive",
    "No impact increases the kinetic energy of the tool",
    "THESIS 4.4.1, equation 4.40",
    Quantity("largest work of an impulse on the tool", "mJ", 1e3),
)
CLAIMS = (*(comparison.statement for comparison in COMPARISONS), PASSIVE)


def expected(trial: Trial, reference: Samples) -> dict[str, tuple[float, str]]:
    """Theoretical values of the metrics in SI units, and the source of each."""
    experiment, impacts = trial.experiment, impact_times(reference)
    known: dict[str, tuple[float | None, str]] = {
        "settling_time": (_settling_time(reference), "rigid walls"),
        "kinetic_energy_after_first_impact": (
            _energy_after_impact(experiment, reference, impacts),
            "rigid walls",
        ),
    }
    if variant(experiment) == "full":
        peak = np.linalg.norm(reference.group("rendered", "fx", "fy", "fz"), axis=1).max()
        known["peak_force"] = (float(peak), "rigid walls, impulse within one tick")
    tool, scene, _ = setup(experiment)
    operator, gap = experiment.operator, scene.gap
    if isinstance(operator, ConstantParameters) and operator.release is None and experiment.contact.restitution == 0.0:
        fx, fy, _, _, _, torque = operator.wrench
        if fx > 0.0 > fy and torque == 0.0:
            times = sorted((math.sqrt(2.0 * tool.mass * gap[0] / fx), math.sqrt(2.0 * tool.mass * gap[1] / -fy)))
            for name, time in zip(("ideal_first_impact_time", "ideal_second_impact_time"), times, strict=True):
                if time <= experiment.duration:
                    known[name] = (time, "closed form √(2 m gap / F)")
    return {name: (value, source) for name, (value, source) in known.items() if value is not None}


STYLES = {
    "ideal": Style(BLACK, (1.2, 2.2), 1.3),
    "penalty": Style(VERMILION, (5, 1.8)),
    "full": Style(BLUE),
    "saturated": Style(PURPLE, (5, 1.6, 1.2, 1.6)),
    "scaled": Style(ORANGE, (2.2, 1.3)),
    "spread": Style(GREEN, (8, 2)),
    "spread_consistent": Style(BLACK, (6, 2, 1, 2), 1.3),
    "constraint": Style(ORANGE, (3, 1.5, 1, 1.5, 1, 1.5)),
    "coupled": Style(SKY, (2.5, 1.5)),
}
LABELS = {
    "ideal": "ideal: rigid walls",
    "penalty": "penalties alone (PB)",
    "full": "impulses in full (IAPB)",
    "saturated": "impulses saturated",
    "scaled": "impulses scaled",
    "spread": "impulses spread (IAPB LM)",
    "spread_consistent": "impulses spread, consistent",
    "constraint": "rigid contact",
    "coupled": "rigid contact, coupled (CBuc)",
}
OTHERS = {
    "penalty": "penalties",
    "impulse_augmented": "impulses",
    "frictional_impulses": "impulses with friction",
    "constraint": "rigid contact",
    "hybrid": "collisions, then rigid contact",
}


def figures(trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> list[Figure]:
    """The figures of a trial beside its references."""
    own = variant(trial.experiment) or "this run"
    runs = {**references, own: samples}

    def curves(*names: str) -> list[Curve]:
        return [_curve(trial, name, runs[name], name == own) for name in dict.fromkeys(names) if name in runs]

    impacts = impact_times(references["ideal"])
    compared = curves("ideal", "penalty", "full", "spread", "coupled", own)
    others = curves(*(name for name in VARIANTS if name != own))
    trajectory = _trajectories(
        "trajectory",
        "Hand trajectories",
        "Position of the hand, the peg's centre of mass, beside figures 4.15, 4.19 and 4.22 of THESIS.",
        compared,
    )
    made = [
        replace(trajectory, table=_table([*curves(own), *others])),
        _forces("Beside figures 4.16, 4.20 and 4.23 of THESIS.", compared, impacts),
        _energies("Beside figures 4.17, 4.21 and 4.24 of THESIS.", compared, impacts),
    ]
    if sum(name in runs for name in RENDERINGS) > 1:
        made.append(
            _trajectories(
                "renderings",
                "Hand trajectories by impulse rendering",
                "Impulses in full, saturated on the device, scaled in the simulation, or spread over several of "
                "its steps, beside figure 4.18 of THESIS. Consistent: with springs beside the impulses, which THESIS "
                "has not.",
                curves("ideal", *RENDERINGS, "spread_consistent", own),
            )
        )
    balance = energy_figure(curves(own), others)
    return made if balance is None else [*made, balance]


def sweep_figures(curves: Sequence[Curve]) -> list[Figure]:
    """The figures of several trials, with the rigid reference where it is the same for all."""
    ideals = [rigid(curve.trial) for curve in curves]
    common = all(
        np.array_equal(ideal[name], ideals[0][name])
        for ideal in ideals[1:]
        for name in ("time", "hand_px", "hand_py", "hand_qz")
    )
    impacts = impact_times(ideals[0]) if common else []
    if common:
        curves = [_curve(curves[0].trial, "ideal", ideals[0], False), *curves]
    runs = [curve for curve in curves if curve.samples is not ideals[0]]
    trajectory = _trajectories(
        "trajectory",
        "Hand trajectories",
        "Position of the hand, the peg's centre of mass, in each run, beside figures 4.15, 4.18 and 4.19 of THESIS.",
        curves,
    )
    made = [
        replace(trajectory, table=_table(runs)),
        _forces("Beside figures 4.16 and 4.20 of THESIS.", curves, impacts),
        _energies("Beside figures 4.17 and 4.21 of THESIS.", curves, impacts),
    ]
    balance = energy_figure(runs)
    return made if balance is None else [*made, balance]


def _table(curves: Sequence[Curve]) -> list[list[str]]:
    """Table of the quantities that claims compare, of each run."""
    table = [["At the hand", "right wall [mm]", "lower wall [mm]", "largest force [N]", "settled from [s]", "bounces"]]
    for curve in curves:
        experiment, run = curve.trial.experiment, curve.samples
        depths = [f"{1e3 * depth.max():.3f}" for depth in _penetrations(experiment, run)]
        settled, departures = _settled(experiment, run, ()), _departures(experiment, run, ())
        others = ["" if value is None else f"{value:{form}}" for value, form in ((settled, ".3f"), (departures, ".0f"))]
        table.append([curve.label, *depths, f"{_peak_force(run):.2f}", *others])
    return table


def _curve(trial: Trial, name: str, samples: Samples, own: bool) -> Curve:
    label, style = LABELS.get(name) or _described(trial.experiment), STYLES.get(name, Style(ORANGE))
    if own:
        label, style = f"this run: {label}", replace(style, width=2.2)
    return Curve(label, trial, samples, style)


def _described(experiment: Experiment) -> str:
    """Description of a run that is none of the variants."""
    method, rendering = experiment.environment.method, setup(experiment).device.rendering.replace("_", " ")
    text = OTHERS.get(method.type, method.label)
    if isinstance(experiment.controller, UnilateralParameters):
        text += ", coupled"
    return text if rendering == "full" else f"{text}, {rendering}"


def _corner(trial: Trial) -> tuple[float, float]:
    """Position of the hand where the aligned peg touches both walls [mm]."""
    gap = setup(trial.experiment).scene.gap
    return 1e3 * gap[0], -1e3 * gap[1]


def _trajectories(name: str, title: str, caption: str, curves: Sequence[Curve]) -> Figure:
    """Figure of the whole path, and two views of the corner: penetrations are a hundredth of the travel."""
    paths = [1e3 * curve.samples.group("hand", "px", "py") for curve in curves]
    corners = [_corner(curve.trial) for curve in curves]
    from_corner = [path - corner for path, corner in zip(paths, corners, strict=True)]

    def lines(of: Sequence[np.ndarray]) -> list[Line]:
        return [Line(path[:, 0], path[:, 1], c.label, c.style) for path, c in zip(of, curves, strict=True)]

    one_corner = corners[0] if all(corner == corners[0] for corner in corners) else None
    panels = [
        draw(
            f"{name}_a",
            "(a) whole run",
            lines(paths),
            "x [mm]",
            "y [mm]",
            equal=True,
            corner=one_corner,
            tall=True,
        )
    ]
    everywhere = np.concatenate(from_corner)
    depth_x, depth_y = everywhere[:, 0].max(), -everywhere[:, 1].min()
    if depth_x > 0.0:
        inside = everywhere[everywhere[:, 0] > 0.0, 1]
        panels.append(
            draw(
                f"{name}_b",
                "(b) along the right wall",
                lines(from_corner),
                Axis("x from the corner [mm]", span=(-0.4 * depth_x, 1.12 * depth_x)),
                Axis("y from the corner [mm]", span=_with_margin(inside)),
                corner=(0.0, 0.0),
            )
        )
    if depth_y > 0.0:
        inside = everywhere[everywhere[:, 1] < 0.0, 0]
        panels.append(
            draw(
                f"{name}_c",
                "(c) along the lower wall",
                lines(from_corner),
                Axis("x from the corner [mm]", span=_with_margin(inside)),
                Axis("y from the corner [mm]", span=(-1.12 * depth_y, 0.4 * depth_y)),
                corner=(0.0, 0.0),
            )
        )
    shaded = " Shaded: inside the walls of the aligned peg; penetration begins at their border."
    return Figure(title, caption + shaded, panels)


def _with_margin(values: np.ndarray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    margin = 0.1 * max(high - low, 0.01)
    return low - margin, high + margin


def _forces(caption: str, curves: Sequence[Curve], impacts: Sequence[float]) -> Figure:
    """Rendered force and torque; impulses are three hundred times the resting force, hence the scale."""

    def lines(component: str) -> list[Line]:
        return [
            Line(c.samples["time"], c.samples[f"rendered_{component}"], c.label, c.style, steps=True) for c in curves
        ]

    panels = [draw("force_x", "(a) force along x", lines("fx"), "time [s]", Axis("force along x [N]", linear=1.0))]
    for letter, component, time in zip("bc", ("fx", "fy"), impacts, strict=False):
        axis = component[1]
        panels.append(
            draw(
                f"force_impact_{letter}",
                f"({letter}) force along {axis} from the {'first' if letter == 'b' else 'second'} impact on",
                lines(component),
                Axis("time [s]", span=(time - 0.02, time + 0.13)),
                Axis(f"force along {axis} [N]", linear=1.0),
            )
        )
    title = f"({'abcd'[len(panels)]}) torque"
    panels.append(draw("torque", title, lines("tz"), "time [s]", Axis("torque [N m]", least=0.2)))
    text = "Wrench rendered to the hand, held over each tick; axes of force are linear up to 1 N. "
    return Figure("Forces and torque", text + caption, panels)


def _energies(caption: str, curves: Sequence[Curve], impacts: Sequence[float]) -> Figure:
    lines = [
        Line(c.samples["time"], 1e3 * kinetic_energy(c.trial.experiment, c.samples), c.label, c.style) for c in curves
    ]
    energy = "kinetic energy [mJ]"
    panels = [draw("kinetic_energy_a", "(a) whole run", lines, "time [s]", energy)]
    if impacts:
        shown = (impacts[0] - 0.06, impacts[min(1, len(impacts) - 1)] + 0.2)
        panels.append(draw("kinetic_energy_b", "(b) impacts", lines, Axis("time [s]", shown), energy))
    return Figure("Kinetic energy of the hand", caption, panels)


class CornerPeg(Analysis):
    SCENES = ("enclosure",)
    METRICS = METRICS
    CLAIMS = CLAIMS
    METHODS = tuple(dict.fromkeys(one.method for one in VARIANTS.values()))

    def label(self, trial: Trial) -> str | None:
        return variant(trial.experiment)

    def beginning(self, trial: Trial) -> AbstractContextManager[None]:
        return rigid.begun(trial, HORIZON)

    def analyse(self, trial: Trial, samples: Samples, *, compare: bool = True) -> Findings:
        """Samples may be empty.

        The references are `ideal`, the rigid peg among rigid walls, and, with `compare`, those of the VARIANTS that the
        trial is not itself, in the trial's other settings and over the time that it lasted; a controller that is not
        the trial's has the gains of Table 4.1. Comparisons end after HORIZON, metrics do not.
        """
        lasted = float(samples["tick"][-1] / trial.experiment.rate) if len(samples) else 0.0
        # A trial that was cut short is wanted at once: its ideal goes no further than the trial, or than both impacts.
        horizon = HORIZON if compare else max(lasted, 5.0)
        compared_with = [name for name in VARIANTS if compare and len(samples) and name != variant(trial.experiment)]

        def run(name: str) -> Samples:
            if name == "ideal":
                return rigid(trial, horizon)
            return self.run_unrecorded(_as_variant(trial, name, min(lasted, HORIZON)))

        names = ["ideal", *compared_with]
        references = dict(zip(names, forks.on_cores(run, names), strict=True))
        impacts = impact_times(references["ideal"])
        compared = samples.until(HORIZON)
        return Findings(_metrics(trial, samples, impacts), _claims(trial, compared, references, impacts), references)

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        return figures(trial, samples, findings.references)

    def sweep_figures(self, curves: Sequence[Curve]) -> list[Figure]:
        return sweep_figures(curves)

    def expected(self, trial: Trial, findings: Findings) -> Mapping[str, tuple[float, str]]:
        return expected(trial, findings.references["ideal"])


ANALYSIS = CornerPeg()
