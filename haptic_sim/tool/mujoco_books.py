"""The energy balance of bodies that MuJoCo simulates, in the terms of our own worlds (`EnergyBalance`).

Work is booked at the mean velocity of a step, v = (v_0 + v_1) / 2, of the forces that MuJoCo had in it: T f . v.

 - kinetic, potential: of the bodies; without gravity where `gravcomp` balances it.
 - elastic: in springs of joints and tendons (`mj_energyPos`, less the potential energy of gravity in it).
 - injected: work of actuators, of applied forces, and of what is not in the books but touches the bodies.
 - damping: dissipated by dampers of joints and tendons, and by a medium.
 - friction: dissipated by the dry friction of joints and tendons.
 - impact: dissipated by contacts, limits and equality constraints together, with the friction of contacts. MuJoCo's are
   soft, and none of them says what it stores: so the largest sum so far counts, and what they give back is numerical.
 - numerical: the rest, by which the balance closes: what soft constraints gave back, and what discrete time has added.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from haptic_sim.dynamics.energy import DAMPING, ELASTIC, FRICTION, IMPACT, INJECTED, KINETIC, NUMERICAL, POTENTIAL
from haptic_sim.worlds.compiled import library

PROBE = 20265  # seed of a velocity of what is left out, that no row of a constraint is orthogonal to


class MujocoBooks:
    """Energy balance of a model's bodies since the start, of all or all but some.

    Args:
        model, data: MuJoCo's, which computes energies from now on (`mjENBL_ENERGY`); its motion keeps its bits.
        left_out: whether a body is not in the books, (N,); what couples it with others injects energy into them.

    Attributes:
        values: at the beginning of the last step, in the order of `haptic_sim.dynamics.energy.TERMS` [J], (8,).
        start: the same at the beginning of the first step.
        supplied: the part of `injected` that is the work of actuators [J].
    """

    def __init__(self, model: Any, data: Any, left_out: np.ndarray | None = None):
        mujoco = library()
        self._mujoco, self._model, self._data = mujoco, model, data
        model.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_ENERGY)
        out = np.zeros(model.nbody, bool) if left_out is None else left_out
        of_out = out[model.dof_bodyid]
        self._kept = (~of_out).astype(float)
        self._probe = of_out * np.random.default_rng(PROBE).uniform(1.0, 2.0, model.nv) if of_out.any() else None
        gravity = np.array(model.opt.gravity)
        if model.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_GRAVITY):
            gravity[:] = 0.0
        self._weights = -model.body_mass[:, None] * gravity  # of all bodies, as MuJoCo's potential energy has them
        self._own_weights = self._weights * (~out * (1.0 - model.body_gravcomp))[:, None]
        self._friction = [int(mujoco.mjtConstraint.mjCNSTR_FRICTION_DOF)]
        self._friction += [int(mujoco.mjtConstraint.mjCNSTR_FRICTION_TENDON)]
        self.values, self.start, self.supplied = np.zeros(8), np.full(8, np.nan), 0.0
        self._absorbed = 0.0  # by contacts, limits and equality constraints, less what they gave back
        self._flows = np.zeros(8)  # up to the end of the last step
        self._supplied = 0.0
        self._v, self._momentum = np.zeros(model.nv), np.zeros(model.nv)

    def begin(self) -> None:
        """Keep the velocity before a step of MuJoCo's."""
        self._v[:] = self._data.qvel

    def end(self) -> None:
        """Book a step of MuJoCo's, before anything is computed of the state after it."""
        mujoco, model, data, flows, values = self._mujoco, self._model, self._data, self._flows, self.values
        values[:], self.supplied = flows, self._supplied
        v = self._v * self._kept
        mujoco.mj_mulM(model, data, self._momentum, v)
        values[KINETIC] = 0.5 * v @ self._momentum
        values[POTENTIAL] = np.einsum("ij,ij", self._own_weights, data.xipos)
        values[ELASTIC] = data.energy[0] - np.einsum("ij,ij", self._weights, data.xipos)
        if np.isnan(self.start[0]):
            self.start[:] = values
        gained = values[:INJECTED].sum() - self.start[:INJECTED].sum()
        values[NUMERICAL] = gained - values[INJECTED] + values[DAMPING] + values[FRICTION] + values[IMPACT]
        period = float(model.opt.timestep)
        v = 0.5 * (self._v + data.qvel) * self._kept
        actuated = period * float(data.qfrc_actuator @ v)
        self._supplied += actuated
        flows[INJECTED] += actuated + period * float(data.qfrc_applied @ v)
        flows[DAMPING] += max(0.0, -period * float((data.qfrc_damper + data.qfrc_fluid) @ v))
        if data.nefc:
            self._book_constraints(v, period)

    @property
    def state(self) -> np.ndarray:
        """All that the books go on from, to be given back, (27,)."""
        return np.array([*self.values, *self.start, *self._flows, self.supplied, self._supplied, self._absorbed])

    @state.setter
    def state(self, state: np.ndarray) -> None:
        self.values[:], self.start[:], self._flows[:] = state[:8], state[8:16], state[16:24]
        self.supplied, self._supplied, self._absorbed = state[24:].tolist()

    def _book_constraints(self, v: np.ndarray, period: float) -> None:
        """Book the work of constraints at a velocity (nv,)."""
        data, flows = self._data, self._flows
        work = period * data.efc_force * self._along_rows(v)
        outer = np.zeros(data.nefc, bool) if self._probe is None else self._along_rows(self._probe) != 0.0
        friction = np.isin(data.efc_type, self._friction) & ~outer
        flows[INJECTED] += float(work[outer].sum())
        flows[FRICTION] += max(0.0, -float(work[friction].sum()))
        self._absorbed -= float(work[~(friction | outer)].sum())
        flows[IMPACT] = max(flows[IMPACT], self._absorbed)

    def _along_rows(self, v: np.ndarray) -> np.ndarray:
        """Velocities of the rows of constraints (nefc,)."""
        found = np.zeros(self._data.nefc)
        self._mujoco.mj_mulJacVec(self._model, self._data, found, v)
        return found
