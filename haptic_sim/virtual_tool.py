"""The virtual tool during a servo step: contact response, integration, and what it tells the controller."""

from __future__ import annotations

import numpy as np

from haptic_sim.contact.methods import build_response
from haptic_sim.contact.response import ContactParameters, ImpulseRendering, Method
from haptic_sim.contact.rows import ContactRows
from haptic_sim.energy import EnergyBalance
from haptic_sim.messages import FREE, ToolCommand, ToolState, tick_time
from haptic_sim.multibody import Multibody
from haptic_sim.worlds import World


class VirtualTool:
    """A tool that answers wrench commands at the servo rate; where its contacts come from is its owner's affair."""

    def __init__(
        self,
        world: World,
        contact: ContactParameters,
        method: Method,
        rendering: ImpulseRendering,
        wrench_limit: np.ndarray,
        rate: float,
    ):
        self.body = Multibody(world.model, world.hand, world.q, world.v)
        self.rate, self.period = rate, 1.0 / rate
        self.rows = ContactRows()
        self.contact = build_response(method, self.body, contact, rendering, wrench_limit, self.rows.capacity)
        self.energy = EnergyBalance(self.period)
        self.configure(contact)
        self._external = np.zeros(self.body.nv)

    def configure(self, contact: ContactParameters) -> None:
        """Take another material, from the next step on."""
        self.contact.parameters = contact
        self.rows.restitution[:] = contact.restitution
        self.rows.friction[:] = contact.friction.static, contact.friction.kinetic

    def tool_state(self) -> ToolState:
        """A message for this tool, holding the initial state (tick -1)."""
        state = ToolState(q=self.body.q.size, v=self.body.v.size, constraint_directions=36)
        state.stamp(-1, 0)
        state.contact_state, state.contacts = FREE, 0
        state.command_tick = state.geometry_tick = -1
        self._fill(state)
        return state

    def rehearse(self) -> None:
        """Step with contacts that overlap and approach, and again with the same ones: whatever a trial calls, it calls.

        The state is of no use afterwards.
        """
        rows, body = self.rows, self.body
        if not rows.count:
            rows.count = 1
            rows.body[0], rows.point[0], rows.normal[0] = (0, body.hand_joint), body.p_WH, (1.0, 0.0, 0.0)
        n = rows.count
        rows.separation[:n], rows.velocity[:n], rows.restitution[:n] = -1e-6, 1.0, 0.5
        state = self.tool_state()
        for _ in range(2):
            self.step(ToolCommand(), state)

    def step(self, command: ToolCommand, state: ToolState, geometry_tick: int = -1) -> None:
        """Advance by one tick under `command` and the contacts in `self.rows`; `state` is that before and after.

        `geometry_tick` says from which LocalGeometry the contacts are, if from one.
        """
        body, contact = self.body, self.contact
        body.push(command.wrench, self.period, self._external)
        contact.respond(self.rows, body, self._external, self.period)
        self.energy.open(body.kinetic_energy[0], body.potential_energy, contact.stored)
        state.contact_state, state.contacts, state.sliding = contact.state, contact.contacts, contact.sliding
        state.command_tick, state.geometry_tick = command.tick, geometry_tick
        state.wrench[:] = contact.wrench
        state.energy[:] = self.energy.values
        contact.book(self.rows, command.wrench, self.energy)
        body.move(contact.u, self.period)
        tick = state.tick + 1
        state.stamp(tick, tick_time(tick + 1, self.rate))
        self._fill(state)

    def _fill(self, state: ToolState) -> None:
        body = self.body
        state.pose[:] = body.pose
        state.twist[:] = body.twist
        state.q[:] = body.q
        state.v[:] = body.v
        state.inverse_inertia[:] = body.inverse_inertia
        state.kinetic_energy = body.hand_energy[0]
