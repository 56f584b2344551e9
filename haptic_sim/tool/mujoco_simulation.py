"""A world that MuJoCo simulates as a whole, advanced step by step by a program."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from haptic_sim.dynamics.energy import TERMS, UnstableError
from haptic_sim.fields.acting import switch_problems
from haptic_sim.messages import CONTACT, ToolState, WorldState, tick_time
from haptic_sim.parameters import ParameterError
from haptic_sim.snapshots import Snapshot
from haptic_sim.tool.mujoco_books import MujocoBooks
from haptic_sim.tool.world_state import Contact, contacts_of
from haptic_sim.worlds.compiled import SLIDE, body_names, coordinate_names, library
from haptic_sim.worlds.mujoco_files import find_tool, load
from haptic_sim.worlds.parameters import MujocoParameters

XYZW = np.array([1, 2, 3, 0])  # indices of x y z w in MuJoCo's order w x y z


class MujocoSimulator:
    """Makes simulations of a MuJoCo scene, which share its model; see `Simulator`.

    Each step is one of MuJoCo's, or as many equal ones as keep to the time step of the file. Contacts, constraints,
    springs, dampers and actuators are MuJoCo's for all bodies, the tool included; actuators are at the control of the
    keyframe, and those of the tool exert no force with `scene.actuators: none`.

    Args:
        scene: its parameters.
        rate: steps a second [Hz].

    Attributes:
        model: MuJoCo's, which does not change.
        tool: what of it is held.
        q, v: configuration and velocity at the start, in the order of MuJoCo's qpos and qvel.
        q_names, v_names: their names.
        q_limits: smallest and largest value of each coordinate [m, rad], infinite where there is none, (nq, 2).
        substeps: steps of MuJoCo in each step.

    Raises:
        ParameterError: the scene cannot be loaded, or its tool is not there.
    """

    def __init__(self, scene: MujocoParameters, rate: float):
        self.rate = rate
        self.model, self._start = load(scene)
        self.tool = find_tool(self.model, self._start, scene)
        model = self.model
        if scene.actuators == "none":
            for table in (model.actuator_gainprm, model.actuator_biasprm, model.actuator_gear):
                table[self.tool.actuators] = 0.0
        self.substeps = max(1, math.ceil(1.0 / (rate * model.opt.timestep) - 1e-9))
        model.opt.timestep = 1.0 / (rate * self.substeps)
        self.q, self.v = self._start.qpos.copy(), self._start.qvel.copy()
        self.q_names, self.v_names = coordinate_names(model)
        self.q_limits = np.tile((-math.inf, math.inf), (model.nq, 1))
        limited = np.flatnonzero(model.jnt_limited & (np.asarray(model.jnt_type) >= SLIDE))
        self.q_limits[model.jnt_qposadr[limited]] = model.jnt_range[limited]

    def simulation(self, q: np.ndarray, v: np.ndarray) -> MujocoSimulation:
        """Simulation that begins with a configuration (nq,) and a velocity (nv,)."""
        mujoco = library()
        data = mujoco.MjData(self.model)
        mujoco.mj_copyData(data, self.model, self._start)
        data.qpos[:], data.qvel[:] = q, v
        mujoco.mj_normalizeQuat(self.model, data.qpos)
        return MujocoSimulation(self, data)


class MujocoSimulation:
    """A world that MuJoCo simulates; see `Simulation`.

    Contacts and energies are those of MuJoCo's last step (`MujocoBooks`). The wrench on the tool is what MuJoCo's
    contacts and constraints do to the acceleration of the hand, times the inertia there.

    Args:
        simulator: which has its model.
        data: MuJoCo's, at the start.
    """

    def __init__(self, simulator: MujocoSimulator, data: Any):
        self._mujoco, self._simulator = library(), simulator
        self._model, self._data, self._tool = simulator.model, data, simulator.tool
        model, all_names = self._model, body_names(self._model)
        self._names = tuple(self._tool.world.moving)
        self._bodies = np.array([all_names.index(name) for name in self._names])
        self._number = np.zeros(model.nbody, np.int64)
        self._number[self._bodies] = np.arange(len(self._names))
        self._kind = int(self._mujoco.mjtState.mjSTATE_INTEGRATION)
        self._size = self._mujoco.mj_stateSize(model, self._kind)
        self._pulls: list[tuple[int, np.ndarray]] = []
        self._forces = np.zeros(model.nv)
        self._books = MujocoBooks(model, data)
        self._contacts: np.ndarray | None = np.zeros(0, CONTACT)  # None: those in `data`
        self.observer = self
        self.state: ToolState = self._tool.world.tool_sizes().tool_state()
        self.state.stamp(-1, 0)
        self._refresh()

    @property
    def fields(self) -> dict[str, dict[str, float]]:
        """None: MuJoCo's worlds have no fields of ours."""
        return {}

    def switch(self, strengths: Mapping[str, float]) -> None:
        """Reject strengths of force fields: MuJoCo's simulation has none.

        Raises:
            ParameterError: one is named.
        """
        if problems := list(switch_problems(strengths, ())):
            raise ParameterError(problems)

    def pull(self, number: int, wrench: np.ndarray) -> None:
        """Let a wrench act on a body that moves in the next step; as `DraggedBodies.pull`."""
        self._pulls.append((int(self._bodies[number]), wrench))

    def load(self, forces: np.ndarray) -> None:
        """Let generalised forces act in the next step [N, N m], (nv,)."""
        self._forces[:] = forces

    def advance(self, wrench: ArrayLike | None = None) -> ToolState:
        """Advance by 1/rate; as `Environment.advance`."""
        given = np.zeros(6) if wrench is None else np.asarray(wrench, float)
        if given.shape != (6,) or not np.isfinite(given).all():
            raise ParameterError([f"wrench = {given.tolist()}: must be six finite numbers: force [N], torque [N m]"])
        mujoco, model, data, state = self._mujoco, self._model, self._data, self.state
        total, substeps = np.zeros(6), self._simulator.substeps
        for _ in range(substeps):
            data.qfrc_applied[:] = self._forces
            self._apply(self._tool.held, self._hand(), given)
            for body, one in self._pulls:
                self._apply(body, data.xpos[body], one)
            self._books.begin()
            mujoco.mj_step(model, data)
            self._books.end()
            total += self._felt()
            self._refresh()
        self._pulls.clear()
        self._forces[:] = 0.0
        self._contacts = None
        tick = state.tick + 1
        state.stamp(tick, tick_time(tick + 1, self._simulator.rate))
        state.wrench[:] = total / substeps
        state.impulse[:] += state.wrench / self._simulator.rate
        self._check()
        return state

    def _apply(self, body: int, point: np.ndarray, wrench: np.ndarray) -> None:
        """Add a wrench on a body at a point, world axes, to what acts in MuJoCo's next step."""
        data = self._data
        if wrench.any():
            self._mujoco.mj_applyFT(self._model, data, wrench[:3], wrench[3:], point, body, data.qfrc_applied)

    def _hand(self) -> np.ndarray:
        """Position of the hand point of the tool [m], (3,)."""
        held, data = self._tool.held, self._data
        point: np.ndarray = data.xpos[held] + data.xmat[held].reshape(3, 3) @ self._tool.hold
        return point

    def _felt(self) -> np.ndarray:
        """The wrench of what held the tool back in MuJoCo's last step, before `_refresh`, (6,)."""
        if not self._data.qfrc_constraint.any():
            return np.zeros(6)
        J = self._jacobian_at(self._tool.held, self._hand())
        W, acceleration = J @ self._solve(J).T, J @ self._solve(self._data.qfrc_constraint[None])[0]
        values, axes = np.linalg.eigh(W)
        moves = values > 1e-9 * values[-1]  # a linkage may block some directions of the hand
        values, axes = values[moves], axes[:, moves]
        wrench: np.ndarray = axes @ ((axes.T @ acceleration) / values)
        return wrench

    def _refresh(self) -> None:
        """Bring what MuJoCo derives of the bodies, and the tool's state, up to date with its configuration."""
        mujoco, model, data, state, tool = self._mujoco, self._model, self._data, self.state, self._tool
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        state.pose[:3], state.pose[3:] = self._hand(), data.xquat[tool.held][XYZW]
        state.twist[:] = self._jacobian_at(tool.held, state.pose[:3]) @ data.qvel
        tool.configuration(data.qpos, state.q)
        tool.velocity(state.q, data.qvel, state.v)

    def _check(self) -> None:
        """Raise UnstableError where MuJoCo has given up; it would go on from its start."""
        kinds = self._mujoco.mjtWarning
        for kind in (kinds.mjWARN_BADQPOS, kinds.mjWARN_BADQVEL, kinds.mjWARN_BADQACC):
            if self._data.warning[kind].number:
                raise UnstableError(
                    f"unstable: MuJoCo's simulation at {self.time:.4g} s; choose a higher rate, or a shorter timestep "
                    "in its file"
                )

    def _jacobian_at(self, body: int, point: np.ndarray) -> np.ndarray:
        """Jacobian of the twist of a body at a point, world axes, (6, nv)."""
        J = np.zeros((6, self._model.nv))
        self._mujoco.mj_jac(self._model, self._data, J[:3], J[3:], point, body)
        return J

    def _solve(self, forces: np.ndarray) -> np.ndarray:
        """Accelerations (N, nv) by generalised forces (N, nv), with the inertia that MuJoCo has factorised last."""
        result = np.zeros_like(forces)
        self._mujoco.mj_solveM(self._model, self._data, result, np.ascontiguousarray(forces))
        return result

    def jacobian(self, number: int) -> np.ndarray:
        """Jacobian of the twist of a body at the origin of its axes, world axes, by the velocities, (6, nv)."""
        body = int(self._bodies[number])
        return self._jacobian_at(body, self._data.xpos[body])

    def mobility(self, number: int) -> np.ndarray:
        """Inverse inertia there, world axes, (6, 6) [1/kg, 1/(kg m), 1/(kg m^2)]; MuJoCo's constraints are soft."""
        mujoco, model, data = self._mujoco, self._model, self._data
        mujoco.mj_makeM(model, data)
        mujoco.mj_factorM(model, data)
        J = self.jacobian(number)
        mobility: np.ndarray = J @ self._solve(J).T
        return mobility

    @property
    def time(self) -> float:
        """Time since the start [s]."""
        return (self.state.tick + 1) / self._simulator.rate

    @property
    def energy(self) -> dict[str, float]:
        """Energies at the beginning of MuJoCo's last step, and what flowed since the start [J]; see `MujocoBooks`."""
        return dict(zip(TERMS, self._books.values.tolist(), strict=True))

    @property
    def contacts(self) -> list[Contact]:
        """The points at which bodies touched in MuJoCo's last step; empty before the first."""
        state = self.world_state()
        self.observe_contacts(state)
        return contacts_of(state)

    def world_state(self) -> WorldState:
        """A message for this world."""
        simulator, count = self._simulator, len(self._names)
        return WorldState(
            bodies=self._names,
            poses=count,
            twists=count,
            q_names=simulator.q_names,
            q=self._model.nq,
            v_names=simulator.v_names,
            v=self._model.nv,
            contacts=max(len(self._touching()), 1),
        )

    def observe_bodies(self, state: WorldState) -> None:
        """Fill in where everything is, and how it moves."""
        data = self._data
        for i, body in enumerate(self._bodies.tolist()):
            state.poses[i, :3], state.poses[i, 3:] = data.xpos[body], data.xquat[body][XYZW]
            state.twists[i] = self._jacobian_at(body, data.xpos[body]) @ data.qvel
        state.q[:], state.v[:] = data.qpos, data.qvel

    def observe_contacts(self, state: WorldState) -> None:
        """Fill in the contacts of MuJoCo's last step."""
        touching = self._touching()
        state.resize(len(touching))
        state.contacts[: len(touching)] = touching

    def _touching(self) -> np.ndarray:
        """Contacts of the last step as records `CONTACT`; of a contact of the tool, the tool is the second body."""
        if self._contacts is not None:
            return self._contacts
        data, held, force = self._data, self._tool.link > 0, np.zeros(6)
        found = np.zeros(data.ncon, CONTACT)
        n = 0
        for i in range(data.ncon):
            contact = data.contact[i]
            self._mujoco.mj_contactForce(self._model, data, i, force)
            if not (contact.dist < 0.0 or force.any()) or contact.geom[0] < 0 or contact.geom[1] < 0:
                continue
            a, b = (int(self._model.geom_bodyid[geom]) for geom in contact.geom)
            axes, one = contact.frame.reshape(3, 3), found[n]  # rows: the normal from a to b, and two tangents
            turned = -1.0 if held[a] and not held[b] else 1.0
            one["body_a"], one["body_b"] = self._number[[a, b] if turned > 0.0 else [b, a]]
            one["normal"], one["force"] = turned * axes[0], turned * (force[:3] @ axes)
            one["point"], one["depth"] = contact.pos + turned * 0.5 * contact.dist * axes[0], -contact.dist
            n += 1
        self._contacts = found[:n]
        return self._contacts

    def snapshot(self) -> Snapshot:
        """All that decides how it goes on, and what it says of its last step."""
        integration = np.zeros(self._size)
        self._mujoco.mj_getState(self._model, self._data, integration, self._kind)
        arrays = {"integration": integration, "books": self._books.state, "contacts": self._touching().copy()}
        return Snapshot(arrays, {"tool": self.state.to_bytes()})

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a state of this simulation, or of another one of the same model.

        Raises:
            ValueError: it is of something else.
        """
        integration = snapshot.arrays.get("integration")
        if integration is None or integration.shape != (self._size,):
            raise ValueError("the state is of something that was built otherwise")
        self._mujoco.mj_setState(self._model, self._data, integration, self._kind)
        for warning in self._data.warning:
            warning.number = 0
        self._books.state, self._contacts = snapshot.arrays["books"], snapshot.arrays["contacts"].copy()
        self.state.load(snapshot.atoms["tool"])
        self._refresh()
