"""A remote wall: what a delay makes of it without a guard, and what each guard costs.

The energy that has entered the relay through both its ports is never negative where the relay is passive: nothing that
is passive itself can then be made to diverge by it. The price is transparency: the wall that the hand feels at rest is
softer than the wall that is there. For waves it is known: the line is a spring of its own, b over its delay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np

from haptic_bench.analysis.base import Analysis, Case, scene_as
from haptic_bench.analysis.claims import Findings, Quantity, Statement
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_control.virtual_coupling import VirtualCouplingParameters
from haptic_drivers.operators import ArmParameters
from haptic_sim.worlds.scenes import EnclosureParameters
from haptic_view.figures import Axis, Figure, Line, draw, style_of, thin

GUARDS = ("none", "passivity", "wave", "tank")
FREE, GUARDED = GUARDS[:1], GUARDS[1:]
DELAYS = (0.0, 0.01, 0.025, 0.05, 0.1)  # [s] each way: round trips of 0 to 200 ms
ROUNDING = 1e-9  # [J] below zero that is no energy
ACTIVE = 1e-3  # [J] that a relay which is active gives
REST = 0.01  # [m/s] slower than this the hand is at rest on the wall
NEAR = 0.01  # [m] that the hand may leave the path of the arm by
EXACT = 0.1  # of the stiffness of wall and line together
LONGEST = 0.05  # [s] each way, with which the waves are at rest by the end of the time on the wall
SHORT = tuple(delay for delay in DELAYS if delay <= LONGEST)
HELD = 0.25  # of the time on the wall, at its end: where the hand is measured

ENERGY = Quantity("least energy that has entered the relay", "mJ", 1e3)
SPEED = Quantity("largest speed of the hand at the end of its time on the wall", "mm/s", 1e3)
EXCURSION = Quantity("largest distance of the hand from the path of the arm, before and behind its ends", "mm", 1e3)
STIFFNESS = Quantity("stiffness that the hand feels at rest on the wall", "N/m")

BECOMES_ACTIVE = Statement(
    "becomes_active",
    f"Without a guard the relay gives more than {1e3 * ACTIVE:g} mJ with every delay from {2e3 * DELAYS[1]:g} ms of "
    "round trip on, and none without a delay",
    "Anderson and Spong 1989; round trips chosen",
    ENERGY,
    f"with a delay below \N{MINUS SIGN}{1e3 * ACTIVE:g} mJ",
    of_instability=True,
    of=lambda case: measured(case, least_energy, FREE),
    holds=lambda m: m.pop(TOGETHER) >= -ROUNDING and max(m.values()) < -ACTIVE,
)
BECOMES_UNSTABLE = Statement(
    "becomes_unstable",
    f"Without a guard the hand does not come to rest on the wall from {2e3 * DELAYS[1]:g} ms of round trip on; without "
    f"a delay it is slower than {1e3 * REST:g} mm/s",
    "Anderson and Spong 1989; round trips chosen",
    SPEED,
    f"with a delay above {1e3 * REST:g} mm/s",
    of_instability=True,
    of=lambda case: measured(case, partial(speed_on_the_wall, case.trial.experiment), FREE),
    holds=lambda m: m.pop(TOGETHER) < REST and min(m.values()) > REST,
)
STAYS_PASSIVE = Statement(
    "stays_passive",
    f"With each guard, and each delay up to {2e3 * DELAYS[-1]:g} ms of round trip, the energy that has entered the "
    "relay is never negative",
    "Niemeyer and Slotine 1991; Ryu, Artigas and Preusche 2010; Franken et al. 2011",
    ENERGY,
    f"at least \N{MINUS SIGN}{1e9 * ROUNDING:g} nJ",
    of=lambda case: measured(case, least_energy, GUARDED),
    holds=lambda m: min(m.values()) >= -ROUNDING,
)
STAYS_BOUNDED = Statement(
    "stays_bounded",
    f"With each guard and each delay the hand is never farther than {1e3 * NEAR:g} mm beyond the path of the arm",
    "passivity; distance chosen",
    EXCURSION,
    f"at most {1e3 * NEAR:g} mm",
    of=lambda case: measured(case, partial(excursion, case.trial.experiment), GUARDED),
    holds=lambda m: max(m.values()) <= NEAR,
)
FEELS_THE_LINE = Statement(
    "feels_the_line",
    "Behind waves the hand feels wall, coupling and line as springs in series, the line with b over its delay, to "
    f"{100 * EXACT:g} % up to {2e3 * LONGEST:g} ms of round trip",
    "Niemeyer and Slotine 1991; with the delay of filter and hold",
    Quantity("stiffness at rest beside that of the springs in series", "%", 100.0),
    f"within {100 * EXACT:g} %",
    of=lambda case: beside_springs(case),
    holds=lambda m: max(map(abs, m.values())) <= EXACT,
)
FEELS_SOFTER = Statement(
    "feels_softer",
    f"With each guard the wall feels softer with every longer delay, up to {2e3 * LONGEST:g} ms of round trip",
    "Lawrence 1993: transparency is lost for stability",
    STIFFNESS,
    "falls with the delay",
    of=lambda case: measured(case, partial(displayed_stiffness, case.trial.experiment), GUARDED, LONGEST),
    holds=lambda m: all(np.all(np.diff([m[label(guard, delay)] for delay in SHORT]) < 0.0) for guard in GUARDED),
)


def energy(samples: Samples) -> np.ndarray:
    """Net energy that has entered the relay through both ports, in translation and rotation [J] (rows,)."""
    entered = np.zeros(len(samples))
    for end in ("device", "world"):
        for part in ("translation", "rotation"):
            entered += samples[f"relay_{end}_absorbed_{part}"] - samples[f"relay_{end}_delivered_{part}"]
    return entered


def least_energy(samples: Samples) -> float:
    """Minimum of `energy` [J]."""
    return float(energy(samples).min())


def on_the_wall(experiment: Experiment, samples: Samples) -> np.ndarray:
    """Rows at the end of the time that the arm keeps the hand on the wall."""
    path = _arm(experiment).path
    times = [row[0] for row in path]
    furthest = max(row[1] for row in path)
    stay = [time for time, row in zip(times, path, strict=True) if row[1] == furthest]
    first = stay[0] + (1.0 - HELD) * (stay[-1] - stay[0])
    return np.asarray((samples["time"] >= first) & (samples["time"] <= stay[-1]))


def speed_on_the_wall(experiment: Experiment, samples: Samples) -> float | None:
    """Largest speed there [m/s]; None if the run is shorter."""
    rows = on_the_wall(experiment, samples)
    return float(np.abs(samples["hand_vx"][rows]).max()) if rows.any() else None


def excursion(experiment: Experiment, samples: Samples) -> float:
    """Largest excursion of the hand beyond the ends of the arm's path [m]."""
    path = [row[1] for row in _arm(experiment).path]
    x = samples["hand_px"]
    return float(max(x.max() - max(path), min(path) - x.min()))


def displayed_stiffness(experiment: Experiment, samples: Samples) -> float | None:
    """Ratio of force to penetration depth of the hand at the end of its contact [N/m]; None without penetration."""
    rows = on_the_wall(experiment, samples)
    if not rows.any():
        return None
    depth = float(samples["hand_px"][rows].mean()) - scene_as(experiment, EnclosureParameters).gap[0]
    return -float(samples["rendered_fx"][rows].mean()) / depth if depth > 0.0 else None


def line_compliance(experiment: Experiment) -> float:
    """Compliance of a line of wave variables as a spring at rest [m/N]: delay over b, with those of filter and hold."""
    relay, period = experiment.relay, 1.0 / experiment.rate
    assert relay.delay is not None
    cutoff = relay.wave.cutoff
    filtered = 0.0 if cutoff is None else 1.0 / math.expm1(2.0 * math.pi * cutoff * period)
    return (relay.delay + (filtered + 0.5) * period) / relay.wave.impedance[0]


def series_stiffness(trial: Trial) -> float:
    """Stiffness of wall, coupling and line in series [N/m]; the wall touches the peg in two points."""
    experiment = trial.experiment
    assert isinstance(experiment.controller, VirtualCouplingParameters)
    compliance = 1.0 / (2.0 * experiment.contact.stiffness) + 1.0 / experiment.controller.stiffness[0]
    return 1.0 / (compliance + line_compliance(experiment))


def variant(trial: Trial, guard: str, delay: float, duration: float) -> Trial:
    """The same trial with another delay [s] and another guard, as an offline run of that guard has it."""
    experiment = trial.experiment
    update = {
        "guard": experiment.guard.model_copy(update={"type": guard, "at_device": guard == "passivity"}),
        "relay": experiment.relay.model_copy(update={"delay": delay}),
        "duration": duration,
    }
    return replace(trial, experiment=experiment.model_copy(update=update))


def label(guard: str, delay: float) -> str:
    """Name of a variant, with its round trip."""
    return f"{guard}, {2e3 * delay:g} ms"


def _arm(experiment: Experiment) -> ArmParameters:
    assert isinstance(experiment.operator, ArmParameters)
    return experiment.operator


def measured(
    case: Case, measure: Callable[[Samples], float | None], guards: tuple[str, ...], longest: float = DELAYS[-1]
) -> dict[str, float | None]:
    """A number of each run with some guards, up to a delay."""
    wanted = [label(guard, delay) for guard in guards for delay in DELAYS if delay <= longest]
    return {name: measure(case.references[name]) if name in case.references else None for name in wanted}


def beside_springs(case: Case) -> dict[str, float | None]:
    """The stiffness that is felt behind waves over that of the springs in series, less 1."""
    trial = case.trial
    felt = measured(case, partial(displayed_stiffness, trial.experiment), ("wave",), LONGEST)
    springs = [series_stiffness(variant(trial, "wave", delay, trial.experiment.duration)) for delay in SHORT]
    return {name: None if one is None else one / k - 1.0 for (name, one), k in zip(felt.items(), springs, strict=True)}


TOGETHER: str = label("none", 0.0)


class DelayedWall(Analysis):
    SCENES = ("enclosure",)
    NEEDS: ClassVar = {"operator": "arm", "controller": "virtual_coupling", "tool": "peg"}
    METRICS: ClassVar = {
        "relay_energy": Quantity(
            "Least energy that has entered the relay through both ports",
            "mJ",
            1e3,
            of=lambda case: least_energy(case.samples),
        ),
        "hand_speed": Quantity(
            "Largest speed of the hand at the end of its time on the wall",
            "mm/s",
            1e3,
            of=lambda case: speed_on_the_wall(*case.run),
        ),
        "excursion": Quantity(
            "Largest distance of the hand beyond the path of the arm", "mm", 1e3, of=lambda case: excursion(*case.run)
        ),
        "displayed_stiffness": Quantity(
            "Stiffness that the hand feels at rest on the wall", "N/m", of=lambda case: displayed_stiffness(*case.run)
        ),
    }
    CLAIMS = (BECOMES_ACTIVE, BECOMES_UNSTABLE, STAYS_PASSIVE, STAYS_BOUNDED, FEELS_THE_LINE, FEELS_SOFTER)

    def lacking(self, experiment: Experiment) -> Iterator[str]:
        if not experiment.relayed:
            yield "a relay, and relay.delay = null has none"

    def variants(self, trial: Trial, samples: Samples) -> dict[str, Trial]:
        """All guards and delays."""
        duration = float(samples["time"][-1]) if len(samples) else 0.0
        pairs = [(guard, delay) for guard in GUARDS for delay in DELAYS]
        return {label(guard, delay): variant(trial, guard, delay, duration) for guard, delay in pairs}

    def label(self, trial: Trial) -> str | None:
        experiment = trial.experiment
        guard, delay = experiment.relay_guard, experiment.relay.delay
        return label(guard, delay) if delay in DELAYS else None

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        """The hand over time, and what is measured over the round trip."""
        made = super().figures(trial, samples, findings)
        runs, experiment = findings.references, trial.experiment
        if not runs:
            return made
        shown = min(DELAYS, key=lambda delay: abs(delay - (experiment.relay.delay or 0.0)))
        over_time, forces, stiffnesses, energies = [], [], [], []
        trips = 2e3 * np.array(DELAYS)
        for i, guard in enumerate(GUARDS):
            run, style = runs[label(guard, shown)], style_of(i)
            over_time.append(Line(*thin(run["time"], 1e3 * run["hand_px"]), guard, style))
            forces.append(Line(*thin(run["time"], -run["rendered_fx"]), guard, style))
            of_guard = [runs[label(guard, delay)] for delay in DELAYS]
            energies.append(Line(trips, np.array([least_energy(one) for one in of_guard]), guard, style))
            felt = [displayed_stiffness(experiment, one) for one in of_guard]
            if guard != "none":
                values = np.array([np.nan if value is None else value for value in felt])
                stiffnesses.append(Line(trips, values, guard, style))
        name = f"{2e3 * shown:g} ms of round trip"
        trip = "round trip [ms]"
        panels = [
            draw("hand", f"(a) hand, {name}", over_time, "time [s]", Axis("x [mm]", least=1.0)),
            draw("force", f"(b) force on the hand, {name}", forces, "time [s]", Axis("force [N]", least=1.0)),
            draw("stiffness", "(c) stiffness felt at rest", stiffnesses, trip, Axis("stiffness [N/m]", least=1.0)),
            draw("energy", "(d) least energy that has entered", energies, trip, Axis("energy [J]", least=1.0)),
        ]
        caption = (
            "The hand presses against the wall at 10 mm and leaves it. Without a guard the relay gives energy and the "
            "hand oscillates; its stiffness at rest is not shown, because it does not come to rest."
        )
        return [Figure("A remote wall", caption, panels), *made]


ANALYSIS = DelayedWall()
