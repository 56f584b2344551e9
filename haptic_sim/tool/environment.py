"""The environment: the full world, which answers the controller itself or surveys for a local model.

THESIS figure 3.2. *Synchronous*: it runs at the servo rate and answers each ToolCommand with a ToolState.
*Asynchronous*: a local model answers, and the environment, slower and delayed, sends it LocalGeometry.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from haptic_sim.contact.methods import Method
from haptic_sim.contact.response import UNLIMITED, ContactParameters, Rendering
from haptic_sim.contact.sleeping import NEVER, Sleep, SleepingBodies
from haptic_sim.contact_rows import ContactRows
from haptic_sim.dynamics.energy import TERMS
from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.geometry.collision import CollisionDetector
from haptic_sim.messages import HAND, ToolCommand, ToolState, WorldState, tick_time
from haptic_sim.parameters import ParameterError
from haptic_sim.snapshots import Memory, Snapshot
from haptic_sim.tool.virtual_tool import SEMI_IMPLICIT, VirtualTool
from haptic_sim.tool.world_state import Contact, contacts_of
from haptic_sim.worlds.world_setup import Materials, WorldSetup

NO_WRENCH = np.zeros(6)


def detector(world: WorldSetup, contact: ContactParameters) -> CollisionDetector:
    """The collision detector of a world."""
    return CollisionDetector(
        world.model,
        world.geometry,
        *_materials(world, contact),
        planar=world.planar,
        cluster=contact.cluster,
        fields=world.solid_fields,
        textures=world.textures,
    )


def _materials(world: WorldSetup, contact: ContactParameters) -> Materials:
    """Coefficients of the collision pairs of a world."""
    friction = contact.friction
    sliding, turning = (friction.static, friction.kinetic), (friction.rolling, friction.torsional)
    return world.materials(contact.restitution, sliding, turning)


class Environment:
    """A synchronous environment: the virtual tool among its surroundings, at the servo rate.

    A controller steps it with messages (`step`); a program applies a wrench, and reads the tool's state (`advance`):

        environment = Environment(WorldSetup(scene).start, method="penalty", rate=1000.0)
        for _ in range(1000):
            state = environment.advance([0.0, 0.0, -2.0, 0.0, 0.0, 0.0])
        print(state.pose, environment.contacts, environment.energy)

    With further hands (`world.further`), each loads its command into one of `hands` before a step, and reads its state
    there after it. The wrench of a command is on the tool, or at the origin of another body's axes; `observe_body`
    returns how that body, by its number in world states, is placed and moves.

    Args:
        world: at its start; environments can share one.
        contact: material of the contacts; the defaults of `ContactParameters` if left out.
        method: of contact.
        rendering: what is done about impulses beyond `wrench_limit`.
        wrench_limit: of the device [N, N m], (6,); none if left out.
        rate: steps a second [Hz].
        integrator: of the tool's position, see `EnvironmentParameters`.
        sleep: when bodies fall asleep (`haptic_sim.contact.sleeping`).

    Raises:
        ParameterError: the method cannot do what the parameters ask for.
    """

    DERIVED = ("_detector", "_world_state", "_memory")

    def __init__(
        self,
        world: WorldSetup,
        contact: ContactParameters | None = None,
        method: Method = "impulse_augmented",
        rendering: Rendering = "full",
        wrench_limit: np.ndarray | None = None,
        rate: float = 1000.0,
        integrator: int = SEMI_IMPLICIT,
        sleep: Sleep = NEVER,
    ):
        contact = ContactParameters() if contact is None else contact
        wrench_limit = UNLIMITED.limit() if wrench_limit is None else wrench_limit
        self._world, self._rate = world, rate
        self._tool = VirtualTool(world, contact, method, rendering, wrench_limit, rate, integrator=integrator)
        self._detector = detector(world, contact)
        self._held = self._detector.state
        self._detected = False
        self._sleeping = self._tool.enable_sleep(sleep, self._detector.body, self._detector.rests)
        self._command = ToolCommand()
        self.tool_state, self.observer, self.hands = self._tool.tool_state, self._tool.observer, self._tool.others
        dragged = self._tool.dragged
        self.observe_body, self.pull, self.load, self.jacobian = (
            dragged.observe_body,
            dragged.pull,
            dragged.load,
            dragged.jacobian,
        )

    def advance(self, wrench: ArrayLike | None = None) -> ToolState:
        """Advance by 1/rate; not together with `step`.

        Args:
            wrench: force and torque on the tool at the point where it is held, in the axes of the world [N, N m], (6,);
                none if left out.

        Returns:
            `state`, the same message in each step.

        Raises:
            ParameterError: the wrench is not six finite numbers.
            UnstableError: see `VirtualTool.step`.
        """
        given = np.zeros(6) if wrench is None else np.asarray(wrench, float)
        if given.shape != (6,) or not np.isfinite(given).all():
            raise ParameterError([f"wrench = {given.tolist()}: must be six finite numbers: force [N], torque [N m]"])
        tick = self.state.tick + 1
        self._command.stamp(tick, tick_time(tick, self._rate))
        self._command.wrench[:] = given
        self.step(self._command, self.state)
        return self.state

    @cached_property
    def state(self) -> ToolState:
        """The tool after the last `advance`."""
        return self.tool_state()

    @cached_property
    def _world_state(self) -> WorldState:
        return self.observer.world_state()

    @property
    def time(self) -> float:
        """Time since the start [s]."""
        return (self.state.tick + 1) / self._rate

    @property
    def contacts(self) -> list[Contact]:
        """The points at which bodies touched in the last step; empty before the first."""
        if self.state.tick < 0:
            return []
        self.observer.observe_contacts(self._world_state)
        return contacts_of(self._world_state)

    @property
    def energy(self) -> dict[str, float]:
        """Energies at the beginning of the last step, and what flowed since the start [J]; see `EnergyBalance`."""
        return dict(zip(TERMS, self.state.energy.tolist(), strict=True))

    def mobility(self, number: int) -> np.ndarray:
        """Inverse inertia of a body that moves, at its origin, world axes, under exact constraints, too, (6, 6)."""
        mobility: np.ndarray = self.observe_body(number).mobility
        return mobility

    def configure(self, contact: ContactParameters) -> None:
        """Take another material, from the next step on."""
        self._tool.configure(contact)
        self._detector.set_materials(*_materials(self._world, contact))
        if self._sleeping is not None:
            self._sleeping.wake_all()
        self._detected = False

    @property
    def omissions(self) -> int | None:
        """Leaves of fields that ticks have left out, see `CollisionDetector.omissions`; None: there are no fields."""
        return self._detector.omissions if self._world.solid_fields else None

    @property
    def invalid_steps(self) -> int:
        """Steps in which a contact had no impulse, because its method gave a number that is not finite."""
        return self._tool.contact.invalid_steps

    @property
    def fields(self) -> dict[str, dict[str, float]]:
        """Energy that each field stores, and that it dissipated, supplied and got by switching since the start [J]."""
        return {} if self._tool.fields is None else self._tool.fields.books

    def switch(self, strengths: Mapping[str, float]) -> None:
        """Let fields fade to a part of their strength, by name; those that are not named to all of it.

        Raises:
            ParameterError: there is no such field, or a strength is not from 0 to 1.
        """
        self._tool.switch(strengths)

    def set_levels(self, strengths: Mapping[str, float]) -> None:
        """Set strengths that have been checked; see `switch`."""
        self._tool.set_levels(strengths)

    def warm_up(self) -> None:
        """Call every kernel once, so that none is loaded during a trial; the state is of no use afterwards."""
        self._detector.detect(self._tool.body.data, self._detector.warming_margin, self._tool.rows, self._tool.body.q)
        self._tool.warm_up()
        if self._sleeping is not None:
            self._sleeping.warm_up(self._tool.tool_state().packed)

    @cached_property
    def _memory(self) -> Memory:
        assert self.state.tick >= -1  # the message is part of the state
        return Memory(self)

    def snapshot(self) -> Snapshot:
        """All that decides how it goes on, bit by bit."""
        return self._memory.take()

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a state of this environment, or of another one of the same world and parameters.

        Raises:
            ValueError: it is of something else.
        """
        tool = self._tool
        self._memory.give(snapshot, tool.body.q, tool.body.v)
        tool.refresh(self._command, self.state)  # what is Pinocchio's follows from q and v, and is not in the state
        self._detector.set_materials(*_materials(self._world, tool.contact.parameters))
        self._memory.give(snapshot)  # what has been found again is that of the state bit by bit
        self._detector.search()

    def prepare(self) -> None:
        """Find the contacts of the next step, which does so itself otherwise: they do not depend on its command."""
        if not self._detected:
            if self._sleeping is None:
                body, tool = self._tool.body, self._tool
                self._detector.detect(body.data, tool.contact.margin, tool.rows, body.q)
            else:
                self._find_awake(self._sleeping)
            self._detected = True

    def _find_awake(self, sleeping: SleepingBodies) -> None:
        """Find the contacts of what does not sleep, and wake what it touches."""
        body, tool = self._tool.body, self._tool
        if sleeping.all:
            tool.rows.count = 0
            return
        self._detector.detect(body.data, tool.contact.margin, tool.rows, body.q)
        while sleeping.wake_touched():
            self._detector.detect(body.data, tool.contact.margin, tool.rows, body.q)

    def step(self, command: ToolCommand, state: ToolState) -> None:
        """Answer the command of a tick with the state after it."""
        self.prepare()
        if self._sleeping is None:
            self._tool.step(command, state)
        else:
            self._step_sleeping(self._sleeping, command, state)
        self._detected = False

    def _step_sleeping(self, sleeping: SleepingBodies, command: ToolCommand, state: ToolState) -> None:
        """Answer the command, as `step`, where bodies may sleep."""
        tool = self._tool
        at_hand = command.wrench if command.body == HAND else NO_WRENCH
        if sleeping.wake_pushed(at_hand, tool.dragged.pushed_by(command)):
            self._find_awake(sleeping)
        sleeping.fall_asleep(state.wrench)
        tool.step(command, state)
        sleeping.observe(tool.rows.count, state.packed)


class DepthGauge:
    """Gauge of the depth at which bodies overlap in a configuration of a world."""

    def __init__(self, world: WorldSetup, contact: ContactParameters):
        self._body = Multibody(world.model, world.hand, world.q, world.v)
        self._detector = detector(world, contact)
        self._rows = ContactRows()
        self._names = world.touching

    def overlaps(self, q: np.ndarray) -> dict[tuple[str, str], float]:
        """Largest depth [m] of each two bodies that overlap."""
        body, rows = self._body, self._rows
        body.q[:] = q
        body.refresh()
        self._detector.forget()
        self._detector.detect(body.data, 0.0, rows, q)
        deepest: dict[tuple[str, str], float] = {}
        for i in range(rows.count):
            names = self._names[rows.wall[i]]
            depth = -float(rows.separation[i])
            if depth > deepest.get(names, 0.0):
                deepest[names] = depth
        return deepest
