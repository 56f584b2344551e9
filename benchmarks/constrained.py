"""Benchmark of exact constraints and of held linkages: their residuals, energy errors and step times.

 - residual: the largest norm of the holonomic residuals over a minute at 1 kHz of every experiment with an exactly
   constrained tool, solved by `projection`. YUN's two start on their constraints for it.
 - energy: the largest relative error over 10 s of systems without damping, forces and gravity, from random velocities
   that satisfy the constraints, scaled so that the fastest angle turns at the given speed.
 - steps: time of the solver alone, and of the whole tool as the environment steps it (message, hand, energy balance).
 - hand quantities: time of `Hand.refresh` (rank, directions, metric, inverse inertia, accelerations at the hand), and
   with it the parts of `Multibody.refresh` that it needs (Pinocchio's terms, factor of the inertia, hand Jacobian), in
   a new random configuration at every step. The arm held by its forearm has directions of topological constraint, for
   which the Jacobian is decomposed; the others have none in almost every configuration.

   Peaucellier's linkage and the bicycle, systems of the gallery, are among them. The former stands beside Pinocchio's
   constrained forward dynamics of the same rods (`closed_linkage.py`): one acceleration, called from Python. A step of
   `explicit` has one acceleration and the return to the constraints, that of `rk4` four accelerations. The kernels by
   hand that formulas have replaced are no longer there to be compared with: docs/formulas.md has their times.

Steps alternate with `pin.computeAllTerms` of the same model (for constrained tools: of an arm of six joints), whose
time depends on the machine in the same way. Ratios are relative to that time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pinocchio as pin

from benchmarks.closed_linkage import ClosedLinkage
from benchmarks.turns import Contestant, Figures, take_turns
from haptic_bench import experiment
from haptic_bench.experiment import Trial
from haptic_drivers.operators import build_operator
from haptic_sim.constraints.projection import ProjectionSolver
from haptic_sim.constraints.scenes import build_setup, build_solver
from haptic_sim.constraints.system import System
from haptic_sim.constraints.tool import ConstrainedTool
from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.hand.held import Hand
from haptic_sim.messages import ToolCommand
from haptic_sim.worlds.linkages import robots

RATE = 1000.0  # [Hz]
MINUTE, TEN = 60.0, 10.0  # [s] of the residuals, of the energies
SPEEDS = (1.0, 3.0, 10.0)  # [rad/s]
ROUNDS, TURN, SETTLE = 20, 60, 300  # turns of each contestant, steps of a turn, steps before any is measured
RESIDUAL, ENERGY = 1e-10, 1e-6
STEP = 50.0  # [us], median once a millisecond
ARM, ARM_TAIL, TREE = 15.0, 50.0, 60.0  # [us] of hand quantities: median and 99th percentile, median
YARDSTICK = "computeAllTerms"
FAULRING = ("rolling_disk", "disk_on_sphere", "two_link_circle")
LINKAGE, BICYCLE = "peaucellier", "bicycle"
BICYCLE_STEP = 150.0  # [us]
PINOCCHIO = "peaucellier: Pinocchio, one acceleration"
EXPERIMENTS = (*FAULRING, "rolling_spheres", "two_link_closed_loop")
LOPSIDED = "scene.inertia=[0.0025,0.0030,0.0041]"
WITHOUT_DEVICE = ("device.type=none", "controller.type=none")
Row = Callable[[str, float, str, str, bool | None], dict[str, Any]]


class Table:
    """Rows of the benchmark, as they come."""

    def __init__(self, row: Row):
        self._row = row
        self.rows: list[dict[str, Any]] = []

    def add(self, name: str, value: float, unit: str, most: float | None = None, below: bool = False) -> None:
        """A row with the most that is aimed at, if something is; with `below` that itself is too much."""
        if most is None:
            self.rows.append(self._row(name, value, unit, "", None))
        else:
            reached = value < most if below else value <= most
            self.rows.append(self._row(name, value, unit, f"{'<' if below else '<='} {most:g}", reached))

    def figures(self, name: str, one: Figures) -> None:
        """All figures of a contestant, printed as they were measured."""
        ratios = f"{one['tight_ratio']:5.2f} {one['paced_ratio']:5.2f}"
        print(f"    {name:32}{_pair(one, 'tight')}{_pair(one, 'paced')} us  {ratios}", flush=True)
        self.rows.append({**self._row(name, one["paced_p50"], "us", "", None), "figures": one})


def _pair(one: Figures, kind: str) -> str:
    wall, cpu = (f"{one[kind + what + '_p50']:.1f} / {one[kind + what + '_p99']:.1f}" for what in ("", "_cpu"))
    return f"  {wall:>15} (CPU {cpu:>15})"


# How exactly constraints and energy are kept


def on_its_constraints(name: str, *settings: str) -> Trial:
    """An experiment with an exactly constrained tool and `projection`; YUN's two start where that has to.

    The spheres touch, and forces roll the small one from rest; the links are put together and fall.
    """
    chosen = ["analysis=trial", "constraint.solver=projection"]
    if name == "rolling_spheres":
        chosen += [
            "scene.start=[0.6,0.2,0.1,0.3,0.9,0.2]",
            "scene.velocity=[0,0,0,0,0,0]",
            "scene.disturbance=0",
            "operator.type=sine",
            "operator.amplitude=[0.3,0.2,0.1,0.01,0.02,0.01]",
            "operator.frequency=0.7",
        ]
    elif name == "two_link_closed_loop":
        # l3^2 = L1^2 + L2^2 - 2 L1 L2 cos(pi + theta1 - theta2)
        theta1, theta2 = 0.3, 0.3 + math.pi - math.acos(-0.3125)
        x2 = 2.0 * math.cos(theta1) + 0.5 * math.cos(theta2)
        y2 = 2.0 * math.sin(theta1) + 0.5 * math.sin(theta2)
        chosen.append(f"scene.start=[{theta1!r},{x2!r},{y2!r},{theta2!r}]")
    (trial,) = experiment.load(name, [*chosen, *settings])
    return trial


def tool_of(trial: Trial) -> ConstrainedTool:
    """The constrained tool of a trial."""
    one = trial.experiment
    return ConstrainedTool(build_setup(one.scene, one.constraint), one.constraint, one.rate)


def largest_residual(trial: Trial, duration: float) -> float:
    """Largest residual of the holonomic constraints under the operator, without a device: norm in any tick [m, rad]."""
    tool, operator = tool_of(trial), build_operator(trial.experiment.operator, trial.table)
    command, state = ToolCommand(), tool.tool_state()
    largest = 0.0
    for k in range(round(duration * tool.rate)):
        operator.wrench(k / tool.rate, state.pose, state.twist, command.wrench)
        tool.step(command, state)
        if not state.residual[0] <= largest:  # what is not a number is the largest
            largest = float(state.residual[0])
    return largest


def allowed_velocity(system: System, q: np.ndarray, rng: np.random.Generator, speed: float) -> np.ndarray:
    """A random velocity that the constraints allow, of which the fastest angle turns at `speed` [rad/s]."""
    A = system.A(q)
    wish = rng.normal(size=system.n)
    v = wish - np.linalg.pinv(A) @ (A @ wish)
    return v * speed / np.abs(v[system.model.angular > 0.0]).max()


def energy_error(trial: Trial, speed: float, duration: float, seed: int) -> float:
    """Largest relative error of the energy of a tool that nothing drives or damps."""
    one = trial.experiment
    setup = build_setup(one.scene, one.constraint)
    v = allowed_velocity(setup.system, setup.q, np.random.default_rng(seed), speed)
    solver = ProjectionSolver(setup.system, setup.q, v, 1.0 / one.rate)
    start, largest = solver.energy, 0.0
    for _ in range(round(duration * one.rate / 10.0)):
        for _ in range(10):
            solver.advance()
        error = abs(solver.energy / start - 1.0)
        if not error <= largest:
            largest = error
    return largest


UNDRIVEN: dict[str, tuple[str, tuple[str, ...]]] = {
    "rolling_disk": ("rolling_disk", ("scene.damping=0", "scene.rotational_damping=0")),
    "rolling_disk, lopsided": ("rolling_disk", ("scene.damping=0", "scene.rotational_damping=0", LOPSIDED)),
    "disk_on_sphere": ("disk_on_sphere", ("scene.damping=0", "scene.rotational_damping=0")),
    "disk_on_sphere, lopsided": ("disk_on_sphere", ("scene.damping=0", "scene.rotational_damping=0", LOPSIDED)),
    "two_link_circle": ("two_link_circle", ("scene.damping=0",)),
    "rolling_spheres": ("rolling_spheres", ()),
    "two_link_closed_loop": ("two_link_closed_loop", ("scene.gravity=0",)),
}


# What steps cost


def step_contestants() -> dict[str, Contestant]:
    """Solver and tool of every experiment, YUN's stabilised as they are, and the yardstick."""
    contestants = {YARDSTICK: _all_terms(*arm())}
    for name in EXPERIMENTS:
        trial = on_its_constraints(name, *WITHOUT_DEVICE) if name in FAULRING else _as_published(name)
        one = trial.experiment
        solver = build_solver(build_setup(one.scene, one.constraint), one.constraint, RATE)
        solver.wrench[:] = 0.01
        contestants[f"{name}: solver"] = Contestant(solver.advance)
        contestants[f"{name}: tool"] = _tool_contestant(trial)
    for name in (LINKAGE, BICYCLE):
        trial = _as_published(name)
        system = tool_of(trial).setup.system
        for integrator in ("rk4", "explicit"):
            of_gallery = ProjectionSolver(system, system.q, system.v, 1.0 / RATE, integrator)
            contestants[f"{name}: {integrator}"] = Contestant(of_gallery.advance)
        contestants[f"{name}: tool"] = _tool_contestant(trial)
        if name == LINKAGE:
            contestants[PINOCCHIO] = Contestant(ClosedLinkage(system).accelerate)
    return contestants


def _as_published(name: str) -> Trial:
    (trial,) = experiment.load(name, ["analysis=trial"])
    return trial


def _tool_contestant(trial: Trial) -> Contestant:
    tool, operator = tool_of(trial), build_operator(trial.experiment.operator, trial.table)
    command, state = ToolCommand(), tool.tool_state()

    def step() -> None:
        tool.step(command, state)

    def decide() -> None:
        operator.wrench((state.tick + 1) / RATE, state.pose, state.twist, command.wrench)

    return Contestant(step, decide)


def arm() -> tuple[pin.Model, int]:
    """A UR5, held by its last link."""
    model = pin.buildModelFromUrdf(str(robots() / "ur_description" / "urdf" / "ur5_robot.urdf"))
    return model, model.getFrameId("wrist_3_link")


def blocked_arm() -> tuple[pin.Model, int]:
    """The same arm held by its forearm: three directions of topological constraint."""
    model, _ = arm()
    return model, model.getFrameId("forearm_link")


def tree() -> tuple[pin.Model, int]:
    """Pinocchio's humanoid of 34 degrees of freedom, held by a hand."""
    model = pin.buildSampleModelHumanoid()
    return model, model.getFrameId("larm_effector_body")


class _Moves:
    """Puts a model to another random configuration and velocity each time it is called."""

    def __init__(self, model: pin.Model, q: np.ndarray, v: np.ndarray, seed: int = 5):
        rng = np.random.default_rng(seed)
        low, high = np.full(model.nq, -math.pi), np.full(model.nq, math.pi)
        model.lowerPositionLimit, model.upperPositionLimit = low, high
        pin.seed(seed)
        self._states: Iterator[tuple[np.ndarray, np.ndarray]] = itertools.cycle(
            [(pin.randomConfiguration(model), rng.normal(size=model.nv)) for _ in range(200)]
        )
        self._q, self._v = q, v

    def __call__(self) -> None:
        self._q[:], self._v[:] = next(self._states)


def _all_terms(model: pin.Model, _: int) -> Contestant:
    data, q, v = model.createData(), pin.neutral(model), np.zeros(model.nv)
    return Contestant(lambda: pin.computeAllTerms(model, data, q, v), _Moves(model, q, v))


def hand_contestants(model: pin.Model, hand: int) -> dict[str, Contestant]:
    """The hand's quantities, these with those of the body, and the yardstick on the same model."""
    bodies = [Multibody(model, hand, pin.neutral(model), np.zeros(model.nv)) for _ in range(2)]
    (free, hand_free), (both, hand_both) = ((body, Hand(body)) for body in bodies)
    moves = [_Moves(model, body.q, body.v) for body in bodies]

    def move() -> None:
        moves[0]()
        free.refresh()

    def refresh() -> None:
        both.refresh()
        hand_both.refresh()

    return {
        YARDSTICK: _all_terms(model, hand),
        "hand": Contestant(hand_free.refresh, move),
        "body and hand": Contestant(refresh, moves[1]),
    }


def race(contestants: dict[str, Contestant]) -> dict[str, Figures]:
    """Figures of contestants by name, with their ratios to the yardstick."""
    for one in contestants.values():
        for _ in range(SETTLE):
            if one.before is not None:
                one.before()
            one.step()
    times = take_turns(contestants, ROUNDS, TURN, 1.0 / RATE)
    figures = {name: one.figures() for name, one in times.items()}
    for found in figures.values():
        for kind in ("tight", "paced"):
            found[f"{kind}_ratio"] = found[f"{kind}_p50"] / figures[YARDSTICK][f"{kind}_p50"]
    return figures


def measure(row: Row) -> list[dict[str, Any]]:
    """Run all of it; `row` makes a line of the table from name, value, unit, target and whether that is met."""
    table = Table(row)
    for name in EXPERIMENTS:
        worst = largest_residual(on_its_constraints(name, *WITHOUT_DEVICE), MINUTE)
        table.add(f"{name}: residual, {MINUTE:g} s", worst, "m, rad", RESIDUAL, below=True)
    for title, (name, settings) in UNDRIVEN.items():
        for speed in SPEEDS:
            error = energy_error(on_its_constraints(name, *WITHOUT_DEVICE, *settings), speed, TEN, 5)
            table.add(f"{title}: energy, {TEN:g} s at {speed:g} rad/s", error, "", ENERGY, below=True)
    steps = race(step_contestants())
    for name, one in steps.items():
        table.figures(name, one)
    for name in FAULRING:
        for part in ("solver", "tool"):
            table.add(f"{name}: {part}, 1 kHz", steps[f"{name}: {part}"]["paced_p50"], "us", STEP, below=True)
    for part in ("p50", "p99"):
        table.add(f"{BICYCLE}: tool, 1 kHz, {part}", steps[f"{BICYCLE}: tool"][f"paced_{part}"], "us", BICYCLE_STEP)
    for integrator in ("rk4", "explicit"):
        ratio = steps[f"{LINKAGE}: {integrator}"]["tight_p50"] / steps[PINOCCHIO]["tight_p50"]
        table.add(f"{LINKAGE}: {integrator}, of Pinocchio's acceleration", ratio, "")
    builders = (("arm", arm), ("arm held by its forearm", blocked_arm), ("tree", tree))
    hands = {title: race(hand_contestants(*build())) for title, build in builders}
    for title, figures in hands.items():
        for name, one in figures.items():
            table.figures(f"{title}: {name}", one)
    for part in ("hand", "body and hand"):
        six, many = hands["arm"][part], hands["tree"][part]
        table.add(f"arm of 6: {part}, 1 kHz", six["paced_p50"], "us", ARM)
        table.add(f"arm of 6: {part}, 1 kHz, p99", six["paced_p99"], "us", ARM_TAIL)
        table.add(f"tree of 34: {part}, 1 kHz", many["paced_p50"], "us", TREE)
    return table.rows
