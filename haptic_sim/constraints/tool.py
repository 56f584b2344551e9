"""A tool under exact constraints alone that answers wrench commands: no world, no contacts (FAULRING II, YUN IV)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from haptic_sim.constraints.linear import correct, factor, factor_inertia, multipliers
from haptic_sim.constraints.model import Model, Workspace, evaluate, find_power, observe
from haptic_sim.constraints.projection import HELD, NOTHING, step_explicit, step_parametrised, step_rk4
from haptic_sim.constraints.scenes import ConstrainedSetup, ConstraintParameters, Solver, build_setup, build_solver
from haptic_sim.constraints.stabilised import StabilisedSolver, step_stabilised
from haptic_sim.contact.response import ContactParameters
from haptic_sim.definitions import ToolStateArrays
from haptic_sim.dynamics.energy import DAMPING, INJECTED, EnergyBalance, UnstableError, open_balance
from haptic_sim.kernels import kernel
from haptic_sim.linalg import backward, forward, symmetric_eigen
from haptic_sim.messages import FREE, ToolCommand, ToolSizes, ToolState, WorldState, time_between
from haptic_sim.packed import Packed
from haptic_sim.records import allocate, array, record, shared, value
from haptic_sim.spatial import quat_from_matrix

_BEYOND = 1e9  # [m, rad; m/s, rad/s] a state that no formula has to have values for
_RANK = 1e-12  # eigenvalue of J J^T, relative to the largest, below which a direction at the hand counts as lost


@record
class _Arrays(NamedTuple):
    """Arrays of the kernels; those from `J` to `residual` are brought up to date by `_refresh`."""

    model: Model = value("the system and its constraints")
    workspace: Workspace = value("that of the solver: a step finds its memory in the caches")
    period: float = value("time step", "s")
    time: np.ndarray = shared("time at the beginning of the step, for the solver", 1, unit="s")
    q: np.ndarray = shared("configuration, that of the solver", "coordinates")
    v: np.ndarray = shared("its velocity", "coordinates")
    wrench: np.ndarray = shared("spatial wrench during the step, for the solver", 6, unit="N, N m")
    multipliers: np.ndarray = shared("multipliers at the beginning of the step, by the solver", "rows")
    gamma: float = value("rate of decay of holonomic residuals; 0: the position is returned to the manifold", "1/s")
    J: np.ndarray = array("Jacobian of the hand", 6, "coordinates")
    Jdot: np.ndarray = array("rate of J", 6, "coordinates")
    W_H: np.ndarray = array("rows J L^-T without their part along the constraints", 6, "coordinates")
    a: np.ndarray = array("acceleration of the coordinates without any wrench", "coordinates")
    pose: np.ndarray = array("pose of the hand: position, quaternion x y z w", 7, unit="m")
    twist: np.ndarray = array("twist of the hand", 6, unit="m/s, rad/s")
    inverse_inertia: np.ndarray = array("inverse inertia at the hand", 6, 6)
    drift: np.ndarray = array("acceleration of the hand without any wrench", 6, unit="m/s^2, rad/s^2")
    stored: np.ndarray = array("kinetic and potential energy", 2, unit="J")
    residual: np.ndarray = array("norms of the holonomic and nonholonomic residuals", 2)
    A: np.ndarray = array("rows of the constraints at the beginning of a tick", "rows", "coordinates")
    power: np.ndarray = array("see `_find_power`, at the beginning and at the end of a tick", 2, 4, unit="W, W/s")
    driven: np.ndarray = array("power of rows that prescribe a motion, at these times", 2, unit="W")
    energy: np.ndarray = shared("values of the `EnergyBalance`", 8, unit="J")
    energy_start: np.ndarray = shared("start of the `EnergyBalance`", 1, unit="J")
    rank: np.ndarray = array("rank of the rows that are factored in the workspace", 1, dtype=np.int64)
    acceleration: np.ndarray = array("acceleration of the coordinates", "coordinates")
    unexplained: np.ndarray = array("forces of constraint that no wrench at the hand explains yet", "coordinates")
    gram: np.ndarray = array("J J^T of forces or of torques", 3, 3)
    eigenvalues: np.ndarray = array("eigenvalues of `gram`", 3)
    eigenvectors: np.ndarray = array("eigenvectors of `gram`, one a row", 3, 3)
    target: np.ndarray = array("J times the forces to explain", 3)


@record
class _StepArrays(NamedTuple):
    """Arrays of a step."""

    tool: Packed = value("`_Arrays`")
    solver: Packed = value("memory of the solver")
    state: ToolStateArrays = value("the message that holds the state after the step")


class ToolObserver:
    """The observer of a tool alone: one body, `tool`, with its axes at the hand point; there are no contacts."""

    def __init__(self, coordinates: tuple[str, ...], arrays: _Arrays):
        self._q_names, self._arrays = coordinates, arrays

    def world_state(self) -> WorldState:
        """A message for this world."""
        names = self._q_names
        return WorldState(bodies=("tool",), poses=1, twists=1, q_names=names, q=len(names), v_names=names, v=len(names))

    def observe_bodies(self, state: WorldState) -> None:
        """Fill in where everything is, and how it moves."""
        a = self._arrays
        state.poses[0], state.twists[0] = a.pose, a.twist
        state.q[:], state.v[:] = a.q, a.v

    def observe_contacts(self, state: WorldState) -> None:
        """Leave the contacts of the state empty: a tool under exact constraints alone has none."""


class ConstrainedTool:
    """A `ToolSide` that takes one step of a constraint solver in a tick.

    The state after a tick holds, beside pose, twist (world axes, at the hand point), q and v:
        multipliers: of the rows, in their order (holonomic ones first), at the beginning of the tick with its wrench;
        wrench: what the constraints apply to the held body, at the hand point: from J^T F = A^T lambda, force first,
            torque for what no force explains; generalised forces that do not act on that body are left out;
        residual: norms of c(q) and of the nonholonomic A(q) qd - b after the tick;
        inverse_inertia: J P M^-1 J^T, with P the projection on what the constraints allow; free_acceleration: of the
            hand without any wrench, so that a wrench F accelerates it by free_acceleration + inverse_inertia F;
        energy: as all tools; work of rows that prescribe a motion is injected, what stabilisation and returning to
            the manifold add is in `numerical`.
    There are no contacts: the contact state is FREE. Where the constraints cannot be met, the tool stays where it is.

    Args:
        setup: the tool at its start.
        constraint: the solver.
        rate: of the servo [Hz].

    Raises:
        ParameterError: as `build_solver`.
    """

    hands: tuple[()] = ()
    observe_body: None = None
    omissions: None = None

    def __init__(self, setup: ConstrainedSetup, constraint: ConstraintParameters, rate: float):
        self.setup, self.rate, self.period = setup, rate, 1.0 / rate
        self.solver: Solver = build_solver(setup, constraint, rate)
        system, solver, self.energy = setup.system, self.solver, EnergyBalance()
        kind, gamma = ("stabilised", solver.gamma) if isinstance(solver, StabilisedSolver) else (solver.integrator, 0.0)
        self._advance: Callable[..., tuple[int, int, float]] = _STEPS[kind]
        self._arrays = allocate(
            _Arrays,
            system.sizes,
            model=system.model,
            workspace=solver.workspace,
            period=solver.period,
            time=solver.time,
            q=solver.q,
            v=solver.v,
            wrench=solver.wrench,
            multipliers=solver.multipliers,
            gamma=gamma,
            energy=self.energy.values,
            energy_start=self.energy.start,
        )
        self._arrays.pose[6] = 1.0
        self._packed = Packed(self._arrays)
        self._packed_step: Packed | None = None
        self._packed_state: ToolState | None = None
        self._disturbed = round(setup.disturbance_time * rate) if setup.disturbance is not None else -1
        self.sizes = ToolSizes(system.n, system.n, system.m)
        self.observer = ToolObserver(system.coordinates, self._arrays)
        _refresh_tool(self._packed)

    def set_levels(self, strengths: Mapping[str, float]) -> None:
        """Ignore the strengths: this tool has no force fields."""

    def configure(self, contact: ContactParameters) -> None:
        """Ignore the contact parameters: this tool has no contacts."""

    def warm_up(self) -> None:
        """Call every kernel once, so that none is loaded during a trial; the state is of no use afterwards."""
        command, state = ToolCommand(), self.tool_state()
        command.wrench[:] = 1e-3
        for _ in range(3):
            self.step(command, state)

    def tool_state(self) -> ToolState:
        """A message for this tool, holding the initial state (tick -1)."""
        state = self.sizes.tool_state()
        state.stamp(-1, 0)
        state.contact_state, state.contacts = FREE, 0
        state.command_tick = state.geometry_tick = -1
        state.resize(0)
        _fill(self._pack(state))
        return state

    def prepare(self) -> None:
        """Do nothing: the end of a step has prepared the next."""

    def step(self, command: ToolCommand, state: ToolState) -> None:
        """Advance by one tick under `command`; `state` is that before and after.

        Raises:
            UnstableError: the system has come to where its formulas have no value, or its inertia is none.
        """
        tick = state.tick + 1
        if tick == self._disturbed:
            self._disturb()
        solver = self.solver
        solver.time[0] = tick * self.period
        solver.status, solver.rank, solver.residual = self._advance(self._pack(state), command.wrench)
        if solver.status == HELD and solver.refused.kind[0] != NOTHING:
            self._judge(tick)
        state.command_tick = command.tick
        state.stamp(tick, command.nanoseconds + time_between(command.tick, tick + 1, self.rate))
        if len(state):
            state.resize(0)

    def _judge(self, tick: int) -> None:
        """Raise where the formulas give no motion, or no bounded one, though the wrench is finite."""
        at, names = self.solver.refused, self.setup.system.coordinates
        if not (np.abs(at.q).max() < _BEYOND and np.abs(at.v).max() < _BEYOND):
            return
        fault = self.setup.system.fault(at.q, at.v, float(at.time[0]))
        if fault:
            place = ", ".join(f"{name} = {value:.6g}" for name, value in zip(names, at.q, strict=True))
            raise UnstableError(f"tick {tick}: no motion at {place}: {fault}")

    def _disturb(self) -> None:
        """Displace the tool; the energy that it takes is injected."""
        before = self._arrays.stored.sum()
        solver, jump = self.solver, self.setup.disturbance
        assert jump is not None
        if isinstance(solver, StabilisedSolver):
            solver.restart(solver.q + jump, solver.v)
        else:
            solver.q += jump  # the step returns to the manifold
        _refresh_tool(self._packed)
        self.energy.values[INJECTED] += self._arrays.stored.sum() - before

    def _pack(self, state: ToolState) -> Packed:
        """Pack the arrays with which kernels step this tool and fill `state`."""
        packed = self._packed_step
        if packed is None or state is not self._packed_state:
            packed = Packed(allocate(_StepArrays, tool=self._packed, solver=self.solver.memory, state=state.arrays()))
            self._packed_step, self._packed_state = packed, state
        return packed


def build_constrained_tool(scene: Any, constraint: ConstraintParameters, rate: float) -> ConstrainedTool:
    """The tool of one of the `CONSTRAINED` scenes at the servo rate [Hz].

    Raises:
        ParameterError: as `build_setup` and `build_solver`.
    """
    return ConstrainedTool(build_setup(scene, constraint), constraint, rate)


def initial_hand_pose(setup: ConstrainedSetup) -> np.ndarray:
    """Pose of the hand [m, quat_xyzw] (7,) at the start, as given."""
    w = setup.system.evaluate(setup.q, setup.v)
    pose = np.zeros(7)
    pose[:3] = w.p
    quat_from_matrix(w.R, pose[3:])
    return pose


# A step is one kernel, with all that lies around the solver's: parts that Python calls one by one take twice the time
# where a step is taken once a millisecond, and its code and memory have gone cold.


@kernel
def _step_rk4(packed, wrench):
    """Advance by a tick under a wrench and fill the state; returns what the solver's kernel does."""
    step = packed.arrays
    a = step.tool.arrays
    _begin(a, wrench, step.state)
    result = step_rk4(step.solver, a.period)
    _end(a, step.state)
    return result


@kernel
def _step_explicit(packed, wrench):
    """Step of the tool with `step_explicit`; arguments and result as of `_step_rk4`."""
    step = packed.arrays
    a = step.tool.arrays
    _begin(a, wrench, step.state)
    result = step_explicit(step.solver, a.period)
    _end(a, step.state)
    return result


@kernel
def _step_parametrised(packed, wrench):
    """Step of the tool with `step_parametrised`; arguments and result as of `_step_rk4`."""
    step = packed.arrays
    a = step.tool.arrays
    _begin(a, wrench, step.state)
    result = step_parametrised(step.solver, a.period)
    _end(a, step.state)
    return result


@kernel
def _step_stabilised(packed, wrench):
    """Step of the tool with `step_stabilised`; arguments and result as of `_step_rk4`."""
    step = packed.arrays
    a = step.tool.arrays
    _begin(a, wrench, step.state)
    result = step_stabilised(step.solver, a.gamma, a.period)
    _end(a, step.state)
    return result


_STEPS = {
    "rk4": _step_rk4,
    "explicit": _step_explicit,
    "parametrised": _step_parametrised,
    "stabilised": _step_stabilised,
}


@kernel
def _begin(a, wrench, state):
    """Take the wrench, and note what the end of the tick needs of its beginning."""
    open_balance(a.energy, a.energy_start, a.stored[0], a.stored[1], 0.0)
    _copy(a.energy, state.energy)
    _copy(wrench, a.wrench)
    for i in range(a.model.m):
        for j in range(a.model.n):
            a.A[i, j] = a.workspace.A[i, j]
    _find_power(a, a.power[0])
    a.driven[0] = _driving_power(a)


@kernel
def _end(a, state):
    """Bring all up to date with the state of the solver, book the energies, and fill the state."""
    _copy(a.multipliers, state.multipliers)
    _constraint_wrench(a, state.wrench)
    _refresh(a, a.time[0] + a.period)
    _find_power(a, a.power[1])
    # the trapezoid with its end correction is exact to the fourth order in the period
    h, before, after = a.period, a.power[0], a.power[1]
    a.energy[INJECTED] += 0.5 * h * (before[0] + after[0]) + h * h / 12.0 * (before[1] - after[1])
    a.driven[1] = _driving_power(a)
    a.energy[INJECTED] += 0.5 * h * (a.driven[0] + a.driven[1])
    own = 0.5 * h * (before[2] + after[2]) + h * h / 12.0 * (before[3] - after[3])
    if own > 0.0:  # of a drive
        a.energy[INJECTED] += own
    else:
        a.energy[DAMPING] -= own
    _fill_state(a, state)


@kernel
def _fill(packed):
    """Fill the state with that of the tool."""
    step = packed.arrays
    _fill_state(step.tool.arrays, step.state)


@kernel
def _fill_state(a, state):
    _copy(a.pose, state.pose)
    _copy(a.twist, state.twist)
    _copy(a.q, state.q)
    _copy(a.v, state.v)
    for i in range(6):
        _copy(a.inverse_inertia[i], state.inverse_inertia[6 * i : 6 * i + 6])
    _copy(a.drift, state.free_acceleration)
    _copy(a.residual, state.residual)
    state.kinetic_energy[0] = a.stored[0]


@kernel
def _copy(source, target):
    for i in range(source.shape[0]):
        target[i] = source[i]


@kernel
def _refresh_tool(packed):
    """Bring the tool up to date with the solver's state at its own time; see `_refresh`."""
    a = packed.arrays
    _refresh(a, a.time[0])


@kernel
def _refresh(a, t):
    """Bring all up to date with the solver's state at t; where the inertia has no factor, all but the pose stays."""
    q, v = a.q, a.v
    model, w, n, m = a.model, a.workspace, a.model.n, a.model.m
    evaluate(model, t, q, v, w)
    held = holonomic = 0.0
    for i in range(m):
        rate = -w.b[i]
        for j in range(n):
            rate += w.A[i, j] * v[j]
        if i < model.k:
            holonomic += w.c[i] * w.c[i]
        else:
            held += rate * rate
    a.residual[0], a.residual[1] = math.sqrt(holonomic), math.sqrt(held)
    kinetic = 0.0
    for i in range(n):
        for j in range(n):
            kinetic += 0.5 * v[i] * w.M[i, j] * v[j]
    if factor_inertia(w, n):
        a.rank[0] = factor(w, n, m)
        _free_motion(a, v)
    observe(model, t, q, v, w)
    a.stored[0], a.stored[1] = kinetic, w.potential[0]
    for i in range(3):
        a.pose[i] = w.p[i]
        for j in range(n):
            a.J[i, j], a.Jdot[i, j] = w.J[i, j], w.Jdot[i, j]
            a.J[3 + i, j], a.Jdot[3 + i, j] = w.E[i, j], w.Edot[i, j]
    quat_from_matrix(w.R, a.pose[3:])
    _hand(a, v)


@kernel
def _free_motion(a, v):
    """Fill the acceleration without a wrench; the rows are left factored in w."""
    model, w, rank = a.model, a.workspace, a.rank[0]
    n = model.n
    for j in range(n):
        a.a[j] = w.passive[j] - w.bias[j]
    forward(w.L, n, a.a)
    for i in range(model.m):
        w.r[i] = w.bdot[i]
        for j in range(n):
            # YUN (17): the rows of holonomic constraints have the right-hand side -gamma c
            w.r[i] -= (w.Adot[i, j] + (a.gamma * w.A[i, j] if i < model.k else 0.0)) * v[j]
        if i < model.k:
            w.r[i] += a.gamma * w.b[i]
    correct(w, n, rank, w.r, a.a)
    backward(w.L, n, a.a)


@kernel
def _hand(a, v):
    """Fill twist, drift and inverse inertia of the hand."""
    w, n, rank = a.workspace, a.model.n, a.rank[0]
    for i in range(6):
        a.twist[i] = a.drift[i] = 0.0
        for j in range(n):
            a.twist[i] += a.J[i, j] * v[j]
            a.drift[i] += a.J[i, j] * a.a[j] + a.Jdot[i, j] * v[j]
            a.W_H[i, j] = a.J[i, j]
        forward(w.L, n, a.W_H[i])
        for row in range(rank):
            s = 0.0
            for j in range(n):
                s += w.Q[row, j] * a.W_H[i, j]
            for j in range(n):
                a.W_H[i, j] -= s * w.Q[row, j]
        for k in range(i + 1):
            s = 0.0
            for j in range(n):
                s += a.W_H[i, j] * a.W_H[k, j]
            a.inverse_inertia[i, k] = a.inverse_inertia[k, i] = s


@kernel
def _find_power(a, power):
    """Fill the power of the wrench at the hand, its rate, that of the system's own forces, and its rate [W, W/s]."""
    w, n, v, wrench, acceleration = a.workspace, a.model.n, a.v, a.wrench, a.acceleration
    power[0] = power[1] = 0.0
    for j in range(n):
        acceleration[j] = 0.0
        for i in range(6):
            acceleration[j] += a.W_H[i, j] * wrench[i]
    backward(w.L, n, acceleration)
    for j in range(n):
        acceleration[j] += a.a[j]
    for i in range(6):
        power[0] += wrench[i] * a.twist[i]
        rate = a.drift[i]
        for k in range(6):
            rate += a.inverse_inertia[i, k] * wrench[k]
        power[1] += wrench[i] * rate
    power[2], power[3] = find_power(v, acceleration, w)


@kernel
def _driving_power(a):
    """Power lambda . b of the rows A v = b with the wrench at the hand [W], as `_refresh` has left the rows."""
    w, n, m = a.workspace, a.model.n, a.model.m
    prescribed = False
    for i in range(m):
        prescribed = prescribed or w.b[i] != 0.0
    if not prescribed:
        return 0.0
    for j in range(n):
        w.y[j] = w.passive[j] - w.bias[j]
        for i in range(6):
            w.y[j] += a.J[i, j] * a.wrench[i]
    forward(w.L, n, w.y)
    correct(w, n, a.rank[0], w.r, w.y)
    multipliers(w, m, a.rank[0])
    power = 0.0
    for i in range(m):
        power += w.multipliers[i] * w.b[i]
    return power


@kernel
def _constraint_wrench(a, wrench):
    """Fill the wrench at the hand whose generalised forces are A^T lambda: see `ConstrainedTool`."""
    n, rest = a.model.n, a.unexplained
    for j in range(n):
        rest[j] = 0.0
        for i in range(a.model.m):
            rest[j] += a.A[i, j] * a.multipliers[i]
    _explain(a, 0, rest, wrench)
    for j in range(n):
        for i in range(3):
            rest[j] -= a.J[i, j] * wrench[i]
    _explain(a, 3, rest, wrench)


@kernel
def _explain(a, first, forces, wrench):
    """Fill wrench[first : first + 3] with the least one whose generalised forces come nearest to `forces`."""
    n, gram, vectors, values, target = a.model.n, a.gram, a.eigenvectors, a.eigenvalues, a.target
    for i in range(3):
        wrench[first + i] = target[i] = 0.0
        for j in range(n):
            target[i] += a.J[first + i, j] * forces[j]
        for k in range(3):
            gram[i, k] = 0.0
            for j in range(n):
                gram[i, k] += a.J[first + i, j] * a.J[first + k, j]
    symmetric_eigen(gram, 3, values, vectors)
    for e in range(3):
        if values[e] > _RANK * values[2]:
            s = 0.0
            for i in range(3):
                s += vectors[e, i] * target[i]
            for i in range(3):
                wrench[first + i] += s / values[e] * vectors[e, i]
