"""An engine as another package would have it: a point mass, and a wall that is a spring."""

from __future__ import annotations

from typing import Literal

import numpy as np

from haptic_sim.contact.response import ContactParameters
from haptic_sim.dynamics.energy import DAMPING, ELASTIC, INJECTED, KINETIC, NUMERICAL
from haptic_sim.messages import FREE, RESTING, ToolCommand, ToolState, WorldState, stamp_next
from haptic_sim.parameters import quantity
from haptic_sim.tool.engines import EngineContext, EngineParameters
from haptic_sim.worlds.world_setup import WorldSetup


class PointMassParameters(EngineParameters):
    """A point mass with the tool's mass, and a wall across x."""

    type: Literal["point_mass"] = "point_mass"
    stiffness: float = quantity(500.0, unit="N/m", description="Stiffness of the wall", gt=0.0)
    damping: float = quantity(0.0, unit="N s/m", description="Damping of the wall", ge=0.0)
    wall: float = quantity(0.0, unit="m", description="Where it begins")

    def build(self, context: EngineContext) -> PointMass:
        """See EngineParameters."""
        assert isinstance(context.start, WorldSetup)
        return PointMass(self, context.start, context.rate)


class PointMass:
    """Semi-implicit Euler of m dv/dt = F - k d - b v, in the wall; it does not turn."""

    hands: tuple[()] = ()
    observe_body: None = None

    def __init__(self, parameters: PointMassParameters, world: WorldSetup, rate: float):
        self._of, self._rate, self._period = parameters, rate, 1.0 / rate
        self._sizes, self._names = world.tool_sizes(), tuple(world.moving)
        self._mass = 1.0 / world.hand_mobility()[0, 0]
        self._pose, self._velocity = world.hand_pose(), np.zeros(3)
        self._impulse, self._energy = np.zeros(6), np.zeros(8)
        self.observer = self

    def warm_up(self) -> None:
        """See ToolSide."""
        self.step(ToolCommand(), self.tool_state())

    def configure(self, contact: ContactParameters) -> None:
        """See ToolSide: the wall has a material of its own."""

    def prepare(self) -> None:
        """See ToolSide."""

    def tool_state(self) -> ToolState:
        """See ToolSide."""
        state = self._sizes.tool_state()
        state.stamp(-1, 0)
        state.command_tick = state.geometry_tick = -1
        state.inverse_inertia.reshape(6, 6)[np.arange(3), np.arange(3)] = 1.0 / self._mass
        self._fill(state)
        return state

    def step(self, command: ToolCommand, state: ToolState) -> None:
        """See ToolSide."""
        of, v, energy = self._of, self._velocity, self._energy
        depth = max(0.0, self._pose[0] - of.wall)
        pushed = min(0.0, -of.stiffness * depth - of.damping * v[0]) if depth > 0.0 else 0.0
        before = energy[KINETIC] + energy[ELASTIC]
        v += self._period / self._mass * command.wrench[:3]
        v[0] += self._period / self._mass * pushed
        self._pose[:3] += self._period * v
        self._impulse[0] += self._period * pushed
        deeper = max(0.0, self._pose[0] - of.wall)
        energy[KINETIC], energy[ELASTIC] = 0.5 * self._mass * (v @ v), 0.5 * of.stiffness * deeper**2
        worked = self._period * (command.wrench[:3] @ v)
        damped = self._period * of.damping * v[0] ** 2 if depth > 0.0 else 0.0
        energy[INJECTED] += worked
        energy[DAMPING] += damped
        energy[NUMERICAL] += energy[KINETIC] + energy[ELASTIC] - before - worked + damped
        state.wrench[:], state.wrench[0] = 0.0, pushed
        state.contacts, state.contact_state = int(pushed < 0.0), RESTING if pushed < 0.0 else FREE
        stamp_next(command.packed, state.packed, self._rate)
        self._fill(state)

    def _fill(self, state: ToolState) -> None:
        state.pose[:], state.twist[:3] = self._pose, self._velocity
        state.q[:], state.v[:3] = self._pose, self._velocity
        state.impulse[:], state.energy[:] = self._impulse, self._energy
        state.kinetic_energy = self._energy[KINETIC]

    def world_state(self) -> WorldState:
        """See Observer."""
        count = len(self._names)
        return WorldState(bodies=self._names, poses=count, twists=count, q_names=(), q=0, v_names=(), v=0)

    def observe_bodies(self, state: WorldState) -> None:
        """See Observer."""
        state.poses[0], state.twists[0, :3] = self._pose, self._velocity

    def observe_contacts(self, state: WorldState) -> None:
        """See Observer."""


class JumpingParameters(PointMassParameters):
    """A wall that pushes harder on the way out than on the way in."""

    type: Literal["jumping"] = "jumping"  # type: ignore[assignment]

    def build(self, context: EngineContext) -> Jumping:
        """See EngineParameters."""
        assert isinstance(context.start, WorldSetup)
        return Jumping(self, context.start, context.rate)


class Jumping(PointMass):
    """See JumpingParameters."""

    def step(self, command: ToolCommand, state: ToolState) -> None:
        """See ToolSide."""
        if self._pose[0] > self._of.wall:
            self._velocity[0] += 0.1 * self._velocity[0]
        super().step(command, state)
