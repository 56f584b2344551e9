"""Haptics on one host, dynamics on another: what a delay makes of the force between two answers of the dynamics.

IGMS III-F-4 holds the last result where the other host has not answered in time. That is compared with a straight line
through the last two, and with a local model, which simulates the tool at the servo rate among the last constraints; all
beside an environment that answers in each tick. Of hold and line the error is reported: what was applied in a tick, and
what the environment found for the same tick later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np

from haptic_bench.analysis.base import Analysis, Case
from haptic_bench.analysis.claims import Findings, Quantity, Statement
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_drivers.operators import ArmParameters
from haptic_sim.messages import LocalGeometry, columns
from haptic_sim.tool.local_model import LOCAL_MODELS
from haptic_view.figures import Axis, Figure, Line, draw, style_of, thin

KINDS = {"held": "constant hold", "extrapolated": "extrapolation", "full": "local model"}
DELAYS = (0.0, 0.002, 0.005, 0.01, 0.02, 0.05)  # [s]
SYNCHRONOUS = "no delay"
SHORT, SHOWN = DELAYS[1], DELAYS[3]  # [s] with which an extrapolation helps, and which the figure shows over time
SMALLEST = 1e-6  # [mm] a distance that is less is drawn as that
UNSTABLE = DELAYS[4]  # [s] from which on hold and extrapolation do not come to rest
REST = 0.001  # [m/s] slower than this the hand is at rest on the wall
NEAR = 1e-4  # [m] that the hand is nearer to where it is without a delay
HELD = 0.25  # of the time on the wall, at its end: where the hand is at rest

DISTANCE = Quantity("largest distance of the hand from where it is without a delay", "mm", 1e3)
SPEED = Quantity("largest speed of the hand at the end of its time on the wall", "mm/s", 1e3)
ERROR = Quantity("root mean square of the error of the force, as far as the device renders it", "N")

HOLD_IS_UNSTABLE = Statement(
    "hold_is_unstable",
    f"With a constant hold the hand is at rest on the wall (below {1e3 * REST:g} mm/s) with delays up to "
    f"{1e3 * DELAYS[2]:g} ms, and not from {1e3 * UNSTABLE:g} ms on",
    "IGMS III-F-4 holds; delays chosen",
    SPEED,
    of_instability=True,
    of=lambda case: measured(case, partial(speed_on_the_wall, case.trial.experiment), "held"),
    holds=lambda m: (
        all(m[label("held", delay)] < REST for delay in DELAYS if delay <= DELAYS[2])
        and all(m[label("held", delay)] > REST for delay in DELAYS if delay >= UNSTABLE)
    ),
)
LINE_IS_NEARER = Statement(
    "line_is_nearer",
    f"With a delay of {1e3 * SHORT:g} ms the hand is nearer to where it is without one where the force is extrapolated "
    "than where it is held",
    "IGMS III-F-3 asks for a sound interpolation; delay chosen",
    DISTANCE,
    of=lambda case: measured(case, partial(away, case), "held", "extrapolated"),
    holds=lambda m: not line_is_larger(m, SHORT),
)
LINE_IS_FARTHER = Statement(
    "line_is_farther",
    f"With {1e3 * DELAYS[2]:g} to {1e3 * UNSTABLE:g} ms the error of the extrapolated force is larger than that of the "
    "held one",
    "IGMS III-F-3: too large a delay cannot be compensated by a simple interpolation; delay chosen",
    ERROR,
    of=lambda case: measured(case, partial(force_error, case.trial.experiment), "held", "extrapolated"),
    holds=lambda m: all(line_is_larger(m, delay) for delay in DELAYS if DELAYS[2] <= delay <= UNSTABLE),
)
ERROR_GROWS = Statement(
    "error_grows",
    "The error of the extrapolated force grows with each longer delay",
    "a line through two points, continued",
    ERROR,
    of=lambda case: measured(case, partial(force_error, case.trial.experiment), "extrapolated"),
    holds=lambda m: bool(np.all(np.diff(list(m.values())) > 0.0)),
)
MODEL_IS_NEAR = Statement(
    "model_is_near",
    f"With a local model the hand is within {1e3 * NEAR:g} mm of where it is without a delay, with every delay",
    "THESIS 6; distance chosen",
    DISTANCE,
    of=lambda case: measured(case, partial(away, case), "full"),
    holds=lambda m: max(m.values()) <= NEAR,
)
MODEL_IS_STABLE = Statement(
    "model_is_stable",
    f"With a local model the hand is at rest on the wall (below {1e3 * REST:g} mm/s), with every delay",
    "THESIS 6; speed chosen",
    SPEED,
    of=lambda case: measured(case, partial(speed_on_the_wall, case.trial.experiment), "full"),
    holds=lambda m: max(m.values()) < REST,
)


def label(kind: str, delay: float) -> str:
    """Name of a run."""
    return f"{KINDS[kind]}, {1e3 * delay:g} ms"


def variant(trial: Trial, kind: str, delay: float | None, duration: float) -> Trial:
    """The same trial with another answer between updates and another delay [s]; None: with neither."""
    experiment = trial.experiment
    environment = {"delay": delay} if delay is not None else {"delay": None, "rate": None}
    update = {
        "environment": experiment.environment.model_copy(update=environment),
        "local_model": LOCAL_MODELS.changed(experiment.local_model, {"type": kind}),
        "duration": duration,
    }
    return replace(trial, experiment=experiment.model_copy(update=update), built=trial.start)


def distance(samples: Samples, beside: Samples) -> float:
    """Largest distance between the hands of two runs [m]."""
    rows = min(len(samples), len(beside))
    return max(float(np.abs(samples[f"hand_p{axis}"][:rows] - beside[f"hand_p{axis}"][:rows]).max()) for axis in "xy")


def speed_on_the_wall(experiment: Experiment, samples: Samples) -> float | None:
    """Largest speed at the end of the time that the arm presses [m/s]; None if the run is shorter."""
    assert isinstance(experiment.operator, ArmParameters)
    path = experiment.operator.path
    furthest = max(row[1] for row in path)
    stay = [row[0] for row in path if row[1] == furthest]
    rows = (samples["time"] >= stay[-1] - HELD * (stay[-1] - stay[0])) & (samples["time"] <= stay[-1])
    if not rows.any() or samples["time"][-1] < stay[-1]:
        return None
    return float(np.hypot(samples["hand_vx"][rows], samples["hand_vy"][rows]).max())


def force_error(experiment: Experiment, samples: Samples) -> float | None:
    """Root mean square of what was applied in a tick beside what was found for it later [N]; None without surveys.

    Both as far as the device renders them: a force that grows without bound has no error of meaning.
    """
    if "surveyed_fx" not in samples.names:
        return None
    limit = experiment.limits.limit()

    def rendered(name: str) -> np.ndarray:
        return np.stack([np.clip(samples[f"{name}_f{'xy'[i]}"], -limit[i], limit[i]) for i in range(2)])

    errors = np.linalg.norm(rendered("env") - rendered("surveyed"), axis=0)
    return float(np.sqrt(np.mean(errors**2)))


def away(case: Case, run: Samples) -> float | None:
    """`distance` of a run from that without a delay [m]; None without it."""
    return distance(run, case.references[SYNCHRONOUS]) if SYNCHRONOUS in case.references else None


def measured(case: Case, measure: Callable[[Samples], float | None], *kinds: str) -> dict[str, float | None]:
    """A number of each run with some answers."""
    names = [label(kind, delay) for kind in kinds for delay in DELAYS]
    return {name: measure(case.references[name]) if name in case.references else None for name in names}


def line_is_larger(values: Mapping[str, float], delay: float) -> bool:
    """Whether a number is larger with extrapolation than with hold."""
    return values[label("extrapolated", delay)] > values[label("held", delay)]


class TwoHosts(Analysis):
    SCENES = ("enclosure",)
    NEEDS: ClassVar = {"operator": "arm"}
    METRICS: ClassVar = {
        "hand_distance": Quantity(
            "Largest distance of the hand from where it is without a delay",
            "mm",
            1e3,
            lambda case: away(case, case.samples),
        ),
        "hand_speed": Quantity(
            "Largest speed of the hand at the end of its time on the wall",
            "mm/s",
            1e3,
            lambda case: speed_on_the_wall(*case.run),
        ),
        "force_error": Quantity(
            "Root mean square of the error of the applied force", "N", of=lambda case: force_error(*case.run)
        ),
    }
    CLAIMS = (HOLD_IS_UNSTABLE, LINE_IS_NEARER, LINE_IS_FARTHER, ERROR_GROWS, MODEL_IS_NEAR, MODEL_IS_STABLE)

    def lacking(self, experiment: Experiment) -> Iterator[str]:
        if experiment.relayed or experiment.local_model.type not in KINDS:
            given = "a relay" if experiment.relayed else f"local_model.type = {experiment.local_model.type}"
            yield f"local_model.type = {', '.join(KINDS)}, not {given}"

    def samples(self, trial: Trial, messages: Mapping[str, Sequence[bytes]]) -> Samples:
        """Samples with the force that the environment found for a tick, or between those of two that it surveyed."""
        samples = super().samples(trial, messages)
        surveys = messages.get("local_geometry", ())
        if not surveys or not len(samples) or trial.experiment.local_model.type not in ("held", "extrapolated"):
            return samples
        values = columns(LocalGeometry.of_layout(surveys[0]), surveys)
        ticks, wrench = values["tick"], values["wrench"]
        return samples.with_columns(
            {f"surveyed_f{axis}": np.interp(samples["tick"], ticks, wrench[:, i]) for i, axis in enumerate("xy")}
        )

    def variants(self, trial: Trial, samples: Samples) -> dict[str, Trial]:
        """All answers and delays, and the environment without a delay."""
        duration = float(samples["time"][-1]) if len(samples) else 0.0
        pairs = [(kind, delay) for kind in KINDS for delay in DELAYS]
        found = {SYNCHRONOUS: variant(trial, "none", None, duration)}
        return found | {label(kind, delay): variant(trial, kind, delay, duration) for kind, delay in pairs}

    def label(self, trial: Trial) -> str | None:
        kind, delay = trial.experiment.local_model.type, trial.experiment.environment.delay
        return label(kind, delay) if kind in KINDS and delay in DELAYS else None

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        """The hand over time, and what is measured over the delay."""
        made, runs = super().figures(trial, samples, findings), findings.references
        if not runs:
            return made
        beside, delays = runs[SYNCHRONOUS], 1e3 * np.array(DELAYS)
        hands, distances, errors = [], [], []
        for i, (kind, name) in enumerate(KINDS.items()):
            style = style_of(i)
            run = runs[label(kind, SHOWN)]
            hands.append(Line(*thin(run["time"], 1e3 * run["hand_px"]), name, style))
            of_kind = [runs[label(kind, delay)] for delay in DELAYS]
            differences = np.array([1e3 * distance(one, beside) for one in of_kind])
            distances.append(Line(delays, np.maximum(differences, SMALLEST), name, style))
            found = [force_error(trial.experiment, one) for one in of_kind]
            if None not in found:
                errors.append(Line(delays, np.array(found, float), name, style))
        panels = [
            draw("hand", f"(a) hand, delay {1e3 * SHOWN:g} ms", hands, "time [s]", Axis("x [mm]", least=1.0)),
            draw(
                "distance",
                "(b) largest distance of the hand from where it is without a delay",
                distances,
                "delay [ms]",
                Axis("distance [mm]", log=True),
            ),
            draw("error", "(c) error of the applied force", errors, "delay [ms]", Axis("error [N]", least=0.1)),
        ]
        caption = (
            "The hand presses against the wall at 10 mm and leaves it; the force of the wall comes from another host. "
            f"A local model has no such error: it finds its force itself, in each tick. Less than {SMALLEST:g} mm is "
            "drawn as that."
        )
        return [Figure("Haptics here, dynamics there", caption, panels), *made]


ANALYSIS = TwoHosts()
