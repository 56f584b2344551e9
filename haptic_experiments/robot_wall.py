"""A robot arm that presses a wall: which stiffness the hand feels, and what the lag of the arm costs.

The arm is led by a body in the virtual world (haptic_robot/engine.py). Pressed on a wall, arm and wall are springs
in series at rest. In motion the arm lags behind what it is commanded, the force that it feels is late, and a late
spring gives energy. For small motions with the frequency w along the normal n of the wall the felt force for a
displacement of the leading body is

    F(jw) = (k + jw b) n^T (K + jw D - w^2 L + (k + jw b) n n^T)^-1 K n

with stiffness K and damping D of the arm's impedance, its inertia L at the tool, and stiffness k and damping b of
the wall.
-Im F(jw) / w is the damping that the contact takes from the hand. A leading body with more damping than its maximum
makes up for it: the display is then passive, and the price is drag in free motion (Lawrence 1993: transparency against
stability). With four channels between masses that are alike, device and leading body share it, each half.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from haptic_bench.analysis.base import Analysis, Case
from haptic_bench.analysis.claims import Quantity, Statement
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_control.matrices import matrix_of
from haptic_control.virtual_coupling import VirtualCouplingParameters
from haptic_drivers.operators import ArmParameters
from haptic_experiments.delayed_wall import (
    DELAYS,
    GUARDED,
    LONGEST,
    ROUNDING,
    STIFFNESS,
    label,
    least_energy,
    line_compliance,
    measured,
)
from haptic_robot.compliance import damping_of, inertia_at_tool
from haptic_robot.engine import RobotParameters
from haptic_robot.simulated import SimulatedArm
from haptic_view.figures import Axis, Figure, Line, draw, style_of, thin

STIFFNESSES = (1000.0, 2000.0, 4000.0)  # [N/m] of the arm along the normal
MARGIN = 1.15  # of the damping that is required
EXACT = 0.01  # of the stiffness in series
HELD = 0.25  # of the time on the wall, at its end: where the hand is measured
NOTHING = 1e-5  # [J] below zero that is no energy: rounding of the books at the port is below 1e-9
ACTIVE = 1e-2  # [J] that a display which is active gives
COUPLING = VirtualCouplingParameters(
    stiffness=(1000.0, 1000.0, 1000.0, 1.0, 1.0, 1.0), damping=(10.0, 10.0, 10.0, 0.01, 0.01, 0.01)
)
FREQUENCIES = np.linspace(0.1, 300.0, 3000)  # [rad/s]


def robot_of(experiment: Experiment) -> RobotParameters:
    """The engine of an experiment that `lacking` has accepted."""
    engine = experiment.environment.engine
    assert isinstance(engine, RobotParameters)
    return engine


def normal_of(robot: RobotParameters) -> np.ndarray:
    """Normal of the wall in the axes of the arm's base (3,)."""
    return np.array(robot.arm.wall.normal)


def series_stiffness(robot: RobotParameters) -> float:
    """Stiffness of arm and wall in series along the normal of the wall [N/m]."""
    compliance = np.linalg.inv(matrix_of(robot.arm.impedance.stiffness))[:3, :3]
    n = normal_of(robot)
    return float(1.0 / (n @ compliance @ n + 1.0 / robot.arm.wall.stiffness))


def taken_damping(robot: RobotParameters, rate: float, frequencies: np.ndarray) -> np.ndarray:
    """Damping that the contact takes from the hand by the lag of the arm [N s/m], -Im F(jw) / w of the module.

    Args:
        robot: with a wall.
        rate: of the servo [Hz].
        frequencies: w (N,) [rad/s].
    """
    wall = robot.arm.wall
    arm = SimulatedArm(robot.arm, robot.adapter, rate).arm
    n = np.concatenate([normal_of(robot), np.zeros(3)])
    K, D = matrix_of(robot.arm.impedance.stiffness), damping_of(robot.arm.impedance, arm)
    w = frequencies[:, None, None]
    touched = wall.stiffness + 1j * frequencies * wall.damping
    dynamic = K + 1j * w * D - w * w * inertia_at_tool(arm.mobility()) + touched[:, None, None] * np.outer(n, n)
    led = np.linalg.solve(dynamic, np.broadcast_to((K @ n)[:, None], (len(frequencies), 6, 1)))[..., 0]
    return np.asarray(-(touched * (led @ n)).imag / frequencies)


def required_damping(robot: RobotParameters, rate: float) -> float:
    """The largest `taken_damping` [N s/m]."""
    return float(taken_damping(robot, rate, FREQUENCIES).max())


def with_robot(trial: Trial, robot: RobotParameters, **update: Any) -> Trial:
    """The same trial with another robot, and other sections."""
    environment = trial.experiment.environment.model_copy(update={"engine": robot})
    return replace(trial, experiment=trial.experiment.model_copy(update={"environment": environment, **update}))


def arm_variant(trial: Trial, stiffness: float, margin: float, **update: Any) -> Trial:
    """The trial with another stiffness of the arm [N/m], and so many times the required damping of the leading body."""
    robot = robot_of(trial.experiment)
    turning = np.diag(matrix_of(robot.arm.impedance.stiffness))[3:]
    impedance = robot.arm.impedance.model_copy(update={"stiffness": (*[stiffness] * 3, *map(float, turning))})
    stiff = robot.model_copy(update={"arm": robot.arm.model_copy(update={"impedance": impedance})})
    damping = 2.0 * margin * required_damping(stiff, trial.experiment.rate)
    return with_robot(trial, stiff.model_copy(update={"damping": (damping, robot.damping[1])}), **update)


def relayed(trial: Trial, guard: str, delay: float) -> Trial:
    """The trial behind a relay with a delay each way [s], a guard, and the coupling that such a relay needs."""
    experiment, following = trial.experiment, robot_of(trial.experiment).following
    watchdog = following.model_copy(update={"hand_watchdog": following.hand_watchdog + delay})
    return arm_variant(
        with_robot(trial, robot_of(experiment).model_copy(update={"following": watchdog})),
        STIFFNESSES[1],
        MARGIN,
        controller=COUPLING,
        guard=experiment.guard.model_copy(update={"type": guard, "at_device": guard == "passivity"}),
        relay=experiment.relay.model_copy(update={"delay": delay}),
    )


def own_label(stiffness: float) -> str:
    """Name of a variant."""
    return f"arm of {stiffness:g} N/m"


UNDAMPED = "without damping"


def path_of(experiment: Experiment) -> list[tuple[float, float]]:
    """Times [s] and displacements into the wall [m] of the operator's arm."""
    assert isinstance(experiment.operator, ArmParameters)
    into = -normal_of(robot_of(experiment))  # the arm's base has the axes of the world
    return [(row[0], float(np.dot(row[1:4], into))) for row in experiment.operator.path]


def on_the_wall(experiment: Experiment, samples: Samples) -> np.ndarray:
    """Rows at the end of the time that the operator's arm stays in the wall."""
    path = path_of(experiment)
    deepest = max(depth for _, depth in path)
    stay = [time for time, depth in path if depth == deepest]
    first = stay[0] + (1.0 - HELD) * (stay[-1] - stay[0])
    return np.asarray((samples["time"] >= first) & (samples["time"] <= stay[-1]))


def displayed_stiffness(experiment: Experiment, samples: Samples) -> float | None:
    """Force over depth of the hand at the end of its time on the wall [N/m]; None if it is not in the wall."""
    rows = on_the_wall(experiment, samples)
    if not rows.any():
        return None
    robot = robot_of(experiment)
    wall, n = robot.arm.wall, normal_of(robot)
    start = SimulatedArm(robot.arm, robot.adapter, experiment.rate).arm.pose[:3]
    hand, force = (
        np.array([float(samples[f"{name}{axis}"][rows].mean()) for axis in "xyz"]) for name in ("hand_p", "rendered_f")
    )
    begun = np.array([float(samples[f"hand_p{axis}"][0]) for axis in "xyz"])
    depth = (np.array(wall.position) - start - (hand - begun)) @ n
    return float(force @ n) / float(depth) if depth > 0.0 else None


def energy_given(samples: Samples) -> float:
    """Largest energy that the display has given to the hand beyond what it had received [J]."""
    received = samples["port_energy_translation"] + samples["port_energy_rotation"]
    return float(max(0.0, -received.min()))


ENERGY_GIVEN = Quantity(
    "Largest energy that the display has given to the hand", "mJ", 1e3, of=lambda case: energy_given(case.samples)
)
IMPEDANCE_IN_WORLD = "an arm under impedance control in the axes of its base, which are those of the world"
"""Condition under which the closed forms of robots hold; see `is_impedance_in_world`."""


def is_impedance_in_world(engine: RobotParameters) -> bool:
    """Whether the arm is under impedance control in the axes of its base, and these are those of the world."""
    return not any(engine.orientation) and engine.arm.control == "impedance" and engine.arm.impedance.axes == "base"


def beside_series(case: Case) -> dict[str, float | None]:
    """The stiffness that the hand feels over that of arm and wall in series, less 1."""
    found: dict[str, float | None] = {}
    for stiffness in STIFFNESSES:
        name = own_label(stiffness)
        one = arm_variant(case.trial, stiffness, MARGIN).experiment
        felt = displayed_stiffness(one, case.references[name]) if name in case.references else None
        found[name] = None if felt is None else felt / series_stiffness(robot_of(one)) - 1.0
    return found


def relayed_stiffness(trial: Trial, references: Mapping[str, Samples]) -> dict[str, float | None]:
    """The stiffness that the hand feels behind a relay, with each guard and delay [N/m]."""
    return {
        label(guard, delay): displayed_stiffness(trial.experiment, references[label(guard, delay)])
        if label(guard, delay) in references
        else None
        for guard in GUARDED
        for delay in DELAYS
    }


def beside_line(case: Case) -> dict[str, float | None]:
    """The stiffness that is felt behind waves over that of all springs in series, less 1."""
    felt, found = relayed_stiffness(case.trial, case.references), {}
    for delay in DELAYS:
        if delay <= LONGEST:
            one = relayed(case.trial, "wave", delay).experiment
            springs = 1.0 / series_stiffness(robot_of(one)) + 1.0 / COUPLING.stiffness[0] + line_compliance(one)
            value = felt[label("wave", delay)]
            found[label("wave", delay)] = None if value is None else value * springs - 1.0
    return found


GIVEN = Quantity("largest energy that the display has given to the hand", "mJ", 1e3)
FEELS_THE_SERIES = Statement(
    "feels_the_series",
    f"At rest the hand feels arm and wall as springs in series, to {100 * EXACT:g} %, with each stiffness of the arm",
    "Hannaford 1989, Lawrence 1993; springs in series",
    Quantity("stiffness at rest beside that of the springs in series", "%", 100.0),
    f"within {100 * EXACT:g} %",
    of=beside_series,
    holds=lambda m: max(map(abs, m.values())) <= EXACT,
)
GIVES_NOTHING = Statement(
    "gives_nothing",
    f"With {MARGIN:g} times the damping that the lag of the arm requires the display gives the hand no energy",
    "passivity; F(jw) of haptic_experiments/robot_wall.py",
    GIVEN,
    f"at most {1e3 * NOTHING:g} mJ",
    of=lambda case: {
        name: energy_given(case.references[name]) if name in case.references else None
        for name in map(own_label, STIFFNESSES)
    },
    holds=lambda m: max(m.values()) <= NOTHING,
)
LAG_GIVES_ENERGY = Statement(
    "lag_gives_energy",
    f"Without that damping it gives the hand more than {1e3 * ACTIVE:g} mJ",
    "Lawrence 1993: transparency is lost for stability",
    GIVEN,
    f"above {1e3 * ACTIVE:g} mJ",
    of_instability=True,
    of=lambda case: {UNDAMPED: energy_given(case.references[UNDAMPED]) if UNDAMPED in case.references else None},
    holds=lambda m: min(m.values()) > ACTIVE,
)
STAYS_PASSIVE = Statement(
    "relay_stays_passive",
    f"With each guard of a relay and round trips up to {2e3 * DELAYS[-1]:g} ms the energy that has entered it is never "
    "negative",
    "Niemeyer and Slotine 1991; Ryu, Artigas and Preusche 2010; Franken et al. 2011",
    Quantity("least energy that has entered the relay", "mJ", 1e3),
    f"at least \N{MINUS SIGN}{1e9 * ROUNDING:g} nJ",
    of=lambda case: measured(case, least_energy, GUARDED),
    holds=lambda m: min(m.values()) >= -ROUNDING,
)
FEELS_THE_LINE = Statement(
    "feels_the_line",
    "Behind waves the hand feels arm, wall, coupling and line as springs in series, the line with b over its delay, to "
    f"{100 * EXACT:g} % up to {2e3 * LONGEST:g} ms of round trip",
    "Niemeyer and Slotine 1991; with the delay of filter and hold",
    Quantity("stiffness at rest beside that of the springs in series", "%", 100.0),
    f"within {100 * EXACT:g} %",
    of=lambda case: beside_line(case),
    holds=lambda m: max(map(abs, m.values())) <= EXACT,
)
FEELS_SOFTER = Statement(
    "feels_softer",
    "With each guard the wall feels softer with every longer delay",
    "Lawrence 1993: transparency is lost for stability",
    STIFFNESS,
    "falls with the delay",
    of=lambda case: relayed_stiffness(case.trial, case.references),
    holds=lambda m: all(np.all(np.diff([m[label(guard, delay)] for delay in DELAYS]) < 0.0) for guard in GUARDED),
)


class RobotWall(Analysis):
    SCENES = ("world",)
    NEEDS: ClassVar = {"operator": "arm", "device": "inertial", "controller": "four_channel"}
    METRICS: ClassVar = {
        "displayed_stiffness": Quantity(
            "Stiffness that the hand feels at rest on the wall", "N/m", of=lambda case: displayed_stiffness(*case.run)
        ),
        "series_stiffness": Quantity(
            "Stiffness of arm and wall in series", "N/m", of=lambda case: series_stiffness(robot_of(case.run[0]))
        ),
        "required_damping": Quantity(
            "Damping of the leading body that the lag of the arm requires",
            "N s/m",
            of=lambda case: 2.0 * required_damping(robot_of(case.run[0]), case.run[0].rate),
        ),
        "energy_given": ENERGY_GIVEN,
    }
    CLAIMS = (FEELS_THE_SERIES, GIVES_NOTHING, LAG_GIVES_ENERGY, STAYS_PASSIVE, FEELS_THE_LINE, FEELS_SOFTER)

    def lacking(self, experiment: Experiment) -> Iterator[str]:
        engine = experiment.environment.engine
        if not isinstance(engine, RobotParameters):
            yield f"environment.engine = robot, not {engine.type}"
        elif not engine.arm.wall.stiffness:
            yield "a wall, and environment.engine.arm.wall.stiffness = 0 is none"
        elif not is_impedance_in_world(engine):
            yield IMPEDANCE_IN_WORLD

    def variants(self, trial: Trial, samples: Samples) -> dict[str, Trial]:
        """Arms of other stiffnesses, one without damping, and relays."""
        found = {own_label(stiffness): arm_variant(trial, stiffness, MARGIN) for stiffness in STIFFNESSES}
        found[UNDAMPED] = arm_variant(trial, STIFFNESSES[1], 0.0)
        return found | {label(guard, delay): relayed(trial, guard, delay) for guard in GUARDED for delay in DELAYS}

    def figures(self, trial: Trial, samples: Samples, findings: Any) -> list[Figure]:
        """The hand and its force over time, with arms of several stiffnesses."""
        made = super().figures(trial, samples, findings)
        runs = {name: findings.references[name] for name in map(own_label, STIFFNESSES) if name in findings.references}
        if not runs:
            return made
        places, forces = [], []
        for i, (name, run) in enumerate(runs.items()):
            places.append(Line(*thin(run["time"], 1e3 * run["hand_px"]), name, style_of(i)))
            forces.append(Line(*thin(run["time"], -run["rendered_fx"]), name, style_of(i)))
        panels = [
            draw("hand", "(a) hand", places, "time [s]", Axis("x [mm]", least=1.0)),
            draw("force", "(b) force on the hand", forces, "time [s]", Axis("force [N]", least=1.0)),
        ]
        felt = relayed_stiffness(trial, findings.references)
        if all(value is not None for value in felt.values()):
            trips, curves = 2e3 * np.array(DELAYS), []
            for i, guard in enumerate(GUARDED):
                values = np.array([felt[label(guard, delay)] for delay in DELAYS], float)
                curves.append(Line(trips, values, guard, style_of(i)))
            title = "(c) stiffness felt at rest behind a relay"
            panels.append(draw("stiffness", title, curves, "round trip [ms]", Axis("stiffness [N/m]", least=1.0)))
        caption = (
            "The arm meets the wall at 20 mm. The stiffer it is, the more of the wall the hand feels; behind a relay, "
            "the longer the delay is, the less."
        )
        return [Figure("An arm at a wall", caption, panels), *made]


ANALYSIS = RobotWall()
