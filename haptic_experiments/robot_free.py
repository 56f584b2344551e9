"""A robot arm in free motion: which impedance the hand feels, and how far the arm lags behind it.

The operator pushes with a sum of sines, and the impedance that is felt is the quotient of the transforms of force and
velocity at its frequencies, over one whole period. With V_d and V_t the velocities of device and leading body, F the
operator's force, G what the arm's sensor measures, z = exp(jwT) and the coupling kappa = K T z / (z - 1) + B of the
position channels, each integrated by semi-implicit Euler,

    m (z - 1)/T V_d = F + G + kappa (V_t - V_d)                     device
    (M (z - 1)/T + D z) V_t = F + G - kappa (V_t - V_d)             leading body
    (L (z - 1)^2/(T^2 z) + (D_a + b n n^T)(z - 1)/(T z) + K_a + k n n^T) X_a = K_a n X_t      arm with a wall k, b
    G = -(k + b (z - 1)/(T z)) n^T X_a / z

With equal masses, a stiff coupling and no wall this is F / V_d = m jw + D / 2: what the hand feels of the arm is the
damping of the leading body, and its inertia, of 10 kg, is hidden (Hannaford 1989: h_11 of the hybrid matrix, 0 if
it were ideal). Without force channels the masses of both sides are felt (Lawrence 1993: no two channels are
transparent). D / 2 comes through the coupling, which takes D^2 / (4 K) from the felt inertia; in contact the lag of the
arm requires a large D (`robot_wall`), so the run on a wall has another. There F / V_d is arm and wall in series.
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
from haptic_control.four_channel import FourChannelParameters
from haptic_control.matrices import matrix_of
from haptic_drivers.inertial import InertialParameters
from haptic_experiments.robot_wall import (
    IMPEDANCE_IN_WORLD,
    is_impedance_in_world,
    normal_of,
    robot_of,
    series_stiffness,
    with_robot,
)
from haptic_robot.compliance import damping_of, inertia_at_tool
from haptic_robot.engine import RobotParameters
from haptic_robot.simulated import SimulatedArm
from haptic_sim.parameters import six
from haptic_view.figures import Axis, Figure, Line, draw, style_of

PERIOD = 4.0  # [s] of the operator's force, whose last whole one is measured
LINES = np.array([0.25, 0.5, 1.0, 1.5, 2.25, 3.25, 4.75, 6.75, 9.75, 14.0, 20.0])  # [Hz], whole numbers of periods
SLOW = 3.25  # [Hz] where the felt inertia is taken: far below the resonance of the coupling, and above the drag
KNOTS = 100.0  # [Hz] of the rows of the operator's file, between which the force is linear
FORCE = 0.1  # [N] root mean square of the operator's force: it moves the hand by some 20 mm
PRESS = 6.0  # [N] with which the operator presses on a wall besides
WALL = 4000.0  # [N/m]
EXACT = 0.01  # of the size of an impedance
DAMPED = 100.0  # [N s/m] of the leading body on the wall: the lag of the arm takes 87
HIDDEN = 0.02  # of the device's mass, by which the felt inertia may differ from it
HEAVY = 1.9  # times the device's mass, which are felt at least without force channels
PRESSED, POSITION = "pressed on a wall", "position channels alone"


def excitation() -> np.ndarray:
    """Rows of the operator's file for two periods: time [s], force along x [N], zeros (N, 7); phases of Schroeder."""
    t = np.arange(round(2.0 * PERIOD * KNOTS) + 1) / KNOTS
    n = np.arange(len(LINES))
    phases = -np.pi * n * (n - 1) / len(LINES)
    rows = np.zeros((len(t), 7))
    rows[:, 0] = t
    rows[:, 1] = FORCE * np.sqrt(2.0 / len(LINES)) * np.sin(2.0 * np.pi * np.outer(t, LINES) + phases).sum(1)
    return rows


def transforms(values: np.ndarray, rate: float) -> np.ndarray | None:
    """Values at LINES over the last whole period (len(LINES),); None if there is none after a first one."""
    count = round(PERIOD * rate)
    if len(values) < 2 * count:
        return None
    k = np.arange(len(values) - count, len(values))
    return np.asarray(np.exp(-2j * np.pi * np.outer(LINES / rate, k)) @ values[-count:] * 2.0 / count)


def felt(experiment: Experiment, samples: Samples) -> np.ndarray | None:
    """Impedance that the operator feels along x at LINES [N s/m]."""
    force, speed = (transforms(samples[name], experiment.rate) for name in ("operator_fx", "hand_vx"))
    return None if force is None or speed is None else force / speed


def followed(experiment: Experiment, samples: Samples) -> np.ndarray | None:
    """Motion of the arm's tool along x for that of the leading body, at LINES."""
    arm, lead = (transforms(samples[name], experiment.rate) for name in ("arm_px", "tool_px"))
    return None if arm is None or lead is None else arm / lead


def arm_response(robot: RobotParameters, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Response of the arm at LINES: motion along the normal for that of its command, and its force on a wall [N/m]."""
    T, z = 1.0 / rate, np.exp(2j * np.pi * LINES / rate)
    arm, wall = SimulatedArm(robot.arm, robot.adapter, rate).arm, robot.arm.wall
    n = np.concatenate([normal_of(robot), np.zeros(3)])
    K, D = matrix_of(robot.arm.impedance.stiffness), damping_of(robot.arm.impedance, arm)
    rates, squares = (z - 1.0) / (T * z), (z - 1.0) ** 2 / (T * T * z)
    touched = (wall.stiffness + wall.damping * rates) * (wall.stiffness > 0.0)
    left = (
        K
        + rates[:, None, None] * D
        + squares[:, None, None] * inertia_at_tool(arm.mobility())
        + touched[:, None, None] * np.outer(n, n)
    )
    moved = np.linalg.solve(left, np.broadcast_to((K @ n)[:, None], (len(z), 6, 1)))[..., 0] @ n
    return moved, touched * moved / z


def expected(experiment: Experiment) -> np.ndarray:
    """The closed form of `felt` (the module)."""
    robot, control, device = robot_of(experiment), experiment.controller, experiment.device
    assert isinstance(control, FourChannelParameters) and isinstance(device, InertialParameters)
    T, z = 1.0 / experiment.rate, np.exp(2j * np.pi * LINES / experiment.rate)
    place = T * z / (z - 1.0)  # from a velocity to a position
    kappa = six(control.stiffness)[0] * place + six(control.damping)[0]
    mass = experiment.scene.bodies["tool"].mass  # type: ignore[attr-defined]  # of the scene that the analysis needs
    m, M, D = float(device.mass or mass), float(mass), robot.damping[0]
    fed = arm_response(robot, experiment.rate)[1] * place  # what G takes from V_t
    c, e = control.force_scale, control.environment_scale
    # (device) a V_d - b V_t = F, (leading body) -kappa V_d + d V_t = c F
    a, b = m * (z - 1.0) / T + kappa, kappa - e * fed
    d = M * (z - 1.0) / T + D * z + kappa + fed
    return np.asarray((a * d - b * kappa) / (d + b * c))


def pressed(trial: Trial) -> Trial:
    """The trial with a wall where the arm's tool starts, on which the operator presses."""
    assert trial.table is not None
    robot, rate = robot_of(trial.experiment), trial.experiment.rate
    at = tuple(map(float, SimulatedArm(robot.arm, robot.adapter, rate).arm.pose[:3]))
    wall = robot.arm.wall.model_copy(update={"position": at, "stiffness": WALL, "damping": 20.0})
    table = trial.table.copy()
    table[:, 1] -= PRESS * normal_of(robot)[0]
    arm = robot.arm.model_copy(update={"wall": wall})
    damping = (DAMPED, robot.damping[1])
    return replace(with_robot(trial, robot.model_copy(update={"arm": arm, "damping": damping})), table=table)


def without_forces(trial: Trial) -> Trial:
    """The trial with position channels alone: neither force goes to the other side."""
    experiment = trial.experiment
    control = experiment.controller.model_copy(update={"force_scale": 0.0, "environment_scale": 0.0})
    return replace(trial, experiment=experiment.model_copy(update={"controller": control}))


def runs(case: Case) -> dict[str, tuple[Experiment, Samples | None]]:
    """Experiments and samples of the trial and its variants, by name."""
    made = {PRESSED: pressed(case.trial), POSITION: without_forces(case.trial)}
    return {"free": case.run} | {name: (one.experiment, case.references.get(name)) for name, one in made.items()}


def beside_closed_form(case: Case) -> dict[str, float | None]:
    """Largest difference of each run's impedance from its closed form, of its size."""
    found: dict[str, float | None] = {}
    for name, (experiment, samples) in runs(case).items():
        measured = None if samples is None else felt(experiment, samples)
        exact = expected(experiment)
        found[name] = None if measured is None else float(np.abs(measured / exact - 1.0).max())
    return found


def felt_inertia(experiment: Experiment, samples: Samples | None) -> float | None:
    """Im Z / w [kg] at the frequency SLOW."""
    measured, i = None if samples is None else felt(experiment, samples), int(np.searchsorted(LINES, SLOW))
    return None if measured is None else float(measured[i].imag / (2.0 * np.pi * LINES[i]))


def inertia_over_device(case: Case, *names: str) -> dict[str, float | None]:
    """The felt inertia of runs over the mass of the device."""
    device = case.trial.experiment.device
    assert isinstance(device, InertialParameters) and device.mass is not None
    found = {name: felt_inertia(*runs(case)[name]) for name in names}
    return {name: None if value is None else value / device.mass for name, value in found.items()}


def stiffness_on_wall(case: Case) -> dict[str, float | None]:
    """Stiffness that is felt on the wall at the lowest frequency over that of arm and wall in series, less 1."""
    experiment, samples = runs(case)[PRESSED]
    measured = None if samples is None else felt(experiment, samples)
    if measured is None:
        return {PRESSED: None}
    shown = -float(measured[0].imag * 2.0 * np.pi * LINES[0])
    return {PRESSED: shown / series_stiffness(robot_of(experiment)) - 1.0}


def lag(case: Case) -> dict[str, float | None]:
    """Difference of the arm's motion for its command from its closed form, at LINES."""
    measured = followed(*case.run)
    exact = arm_response(robot_of(case.trial.experiment), case.trial.experiment.rate)[0]
    return {
        f"{line:g} Hz": None if measured is None else float(abs(measured[i] - exact[i]))
        for i, line in enumerate(LINES)
    }  # fmt: skip


AS_CLOSED = Statement(
    "felt_as_the_channels_say",
    f"The felt impedance is that of the four channels with the arm's compliance, to {100 * EXACT:g} % from "
    f"{LINES[0]:g} to {LINES[-1]:g} Hz: in free motion, on a wall, and without force channels",
    "Lawrence 1993; closed form of haptic_experiments/robot_free.py",
    Quantity("largest difference of the felt impedance from the closed form", "%", 100.0),
    f"at most {100 * EXACT:g} %",
    of=beside_closed_form,
    holds=lambda m: max(m.values()) <= EXACT,
)
ARM_IS_HIDDEN = Statement(
    "arm_is_hidden",
    f"In free motion the hand feels the mass of its own device, to {100 * HIDDEN:g} %, and not that of the arm",
    "Hannaford 1989: h_11; Lawrence 1993",
    Quantity("felt inertia over the mass of the device"),
    f"within {100 * HIDDEN:g} % of 1",
    of=lambda case: inertia_over_device(case, "free"),
    holds=lambda m: abs(m["free"] - 1.0) <= HIDDEN,
)
BOTH_ARE_FELT = Statement(
    "position_channels_show_both_masses",
    "Without force channels it feels the masses of device and leading body together",
    "Lawrence 1993: two channels are not transparent",
    Quantity("felt inertia over the mass of the device"),
    f"at least {HEAVY:g}",
    of=lambda case: inertia_over_device(case, POSITION),
    holds=lambda m: m[POSITION] >= HEAVY,
)
WALL_IN_SERIES = Statement(
    "wall_is_transmitted_in_series",
    f"On a wall it feels arm and wall in series at {LINES[0]:g} Hz, to {100 * HIDDEN:g} %",
    "Lawrence 1993; springs in series",
    Quantity("felt stiffness beside that of the springs in series", "%", 100.0),
    f"within {100 * HIDDEN:g} %",
    of=stiffness_on_wall,
    holds=lambda m: abs(m[PRESSED]) <= HIDDEN,
)
ARM_FOLLOWS = Statement(
    "arm_follows_as_a_spring",
    f"The arm follows its command as its impedance says, to {100 * EXACT:g} % of the command's motion",
    "closed form of haptic_experiments/robot_free.py",
    Quantity("difference of the arm's motion from the closed form, of its command", "%", 100.0),
    f"at most {100 * EXACT:g} %",
    of=lag,
    holds=lambda m: max(m.values()) <= EXACT,
)


def tracking_error(case: Case) -> float | None:
    """Largest distance of the arm's tool from the leading body along x, in the last period [m]."""
    count = round(PERIOD * case.trial.experiment.rate)
    if len(case.samples) < 2 * count:
        return None
    return float(np.abs(case.samples["tool_px"] - case.samples["arm_px"])[-count:].max())


class RobotFree(Analysis):
    SCENES = ("world",)
    NEEDS: ClassVar = {"operator": "file", "device": "inertial", "controller": "four_channel"}
    METRICS: ClassVar = {
        "felt_inertia": Quantity(
            f"Inertia that the hand feels in free motion at {SLOW:g} Hz", "kg", of=lambda c: felt_inertia(*c.run)
        ),
        "felt_damping": Quantity(
            f"Damping that the hand feels in free motion at {LINES[0]:g} Hz",
            "N s/m",
            of=lambda case: None if (found := felt(*case.run)) is None else float(found[0].real),
        ),
        "tracking_error": Quantity(
            "Largest distance of the arm's tool from what it is commanded", "mm", 1e3, of=tracking_error
        ),
    }
    CLAIMS = (AS_CLOSED, ARM_IS_HIDDEN, BOTH_ARE_FELT, WALL_IN_SERIES, ARM_FOLLOWS)

    def lacking(self, experiment: Experiment) -> Iterator[str]:
        engine = experiment.environment.engine
        if not isinstance(engine, RobotParameters):
            yield f"environment.engine = robot, not {engine.type}"
        elif not is_impedance_in_world(engine):
            yield IMPEDANCE_IN_WORLD

    def columns(self, trial: Trial, samples: Samples) -> Mapping[str, np.ndarray]:
        """Position of the arm's tool in the world, `arm_px` to `arm_pz` [m], as commanded by the leading body."""
        robot, tool = robot_of(trial.experiment), samples.pose("tool")[:, :3]
        simulated, places = SimulatedArm(robot.arm, robot.adapter, trial.experiment.rate), np.empty_like(tool)
        start = simulated.target[:3].copy()
        for k, place in enumerate(tool):
            places[k] = simulated.arm.pose[:3] - start + tool[0]
            simulated.target[:3] = start + place - tool[0]
            simulated.step()
        return {f"arm_p{axis}": np.ascontiguousarray(places[:, i]) for i, axis in enumerate("xyz")}

    def variants(self, trial: Trial, samples: Samples) -> dict[str, Trial]:
        """Trials on a wall, and without force channels."""
        return {PRESSED: pressed(trial), POSITION: without_forces(trial)}

    def figures(self, trial: Trial, samples: Samples, findings: Any) -> list[Figure]:
        """The felt impedance over frequency, with its closed form, and how the arm follows."""
        made = super().figures(trial, samples, findings)
        of = runs(Case(trial, samples, findings.references))
        sizes, rows = [], [["frequency [Hz]", *of]]
        known = {name: felt(one, run) for name, (one, run) in of.items() if run is not None}
        for i, (name, measured) in enumerate(known.items()):
            if measured is None:
                continue
            sizes.append(Line(LINES, np.abs(expected(of[name][0])), f"{name}, closed form", style_of(i)))
            sizes.append(Line(LINES, np.abs(measured), name, style_of(i), points=True))
        moved = followed(trial.experiment, samples)
        if not sizes or moved is None:
            return made
        for k, line in enumerate(LINES):
            cells = ["" if (z := known.get(name)) is None else f"{z[k].real:.1f} {z[k].imag:+.1f}j" for name in of]
            rows.append([f"{line:g}", *cells])
        exact = arm_response(robot_of(trial.experiment), trial.experiment.rate)[0]
        follows = [
            Line(LINES, 100.0 * np.abs(1.0 - exact), "closed form", style_of(0)),
            Line(LINES, 100.0 * np.abs(1.0 - moved), "measured", style_of(0), points=True),
        ]
        frequency = Axis("frequency [Hz]", log=True)
        panels = [
            draw("impedance", "(a) felt impedance", sizes, frequency, Axis("|Z| [N s/m]", log=True)),
            draw("lag", "(b) distance of the arm", follows, frequency, Axis("of its command [%]", least=1.0)),
        ]
        caption = "Impedances [N s/m] that the hand feels; lines: closed form. The arm lags more, the faster it is led."
        return [Figure("What the hand feels of the arm", caption, panels, rows), *made]


ANALYSIS = RobotFree()
