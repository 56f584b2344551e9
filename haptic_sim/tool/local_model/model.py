"""Common part of all local models: a tool at the servo rate, updates that are checked, and a view of the world."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import numpy as np
import pinocchio as pin

from haptic_sim.contact.response import ContactParameters
from haptic_sim.messages import LocalGeometry, MessageError, ToolCommand, ToolState, WorldState
from haptic_sim.tool.local_model.parameters import LocalModelParameters
from haptic_sim.tool.local_model.transients import ImpactTransients
from haptic_sim.tool.virtual_tool import VirtualTool
from haptic_sim.tool.world_state import WorldObserver
from haptic_sim.worlds.isolated import fill_bodies, other_bodies
from haptic_sim.worlds.world_setup import WorldSetup

AVERAGED = 5  # periods of which the mean is taken, THESIS (6.13)


class UpdatePeriod:
    """The period of the updates [s]: the mean of the last five, THESIS (6.13); `expected` before there are two."""

    def __init__(self, expected: float):
        self._periods: deque[float] = deque(maxlen=AVERAGED)
        self._last = -1
        self.mean = expected  # [s]

    def add(self, tick: int, rate: float) -> float:
        """Take the tick of a survey; returns the period."""
        if self._last >= 0 and tick > self._last:
            self._periods.append((tick - self._last) / rate)
            self.mean = sum(self._periods) / len(self._periods)
        self._last = tick
        return self.mean


class SeenWorld:
    """The observer of a local model: its tool as it is, and what else moves as the last update had it."""

    def __init__(self, tool: WorldObserver, world: WorldSetup):
        self._tool = tool
        model, others = world.model, other_bodies(world)
        bodies = [i for i, frame in enumerate(model.frames) if frame.type == pin.FrameType.BODY]
        self._others = np.array([k for k, i in enumerate(bodies) if i in set(others)], int)
        data = model.createData()
        pin.forwardKinematics(model, data, world.q, world.v)
        pin.updateFramePlacements(model, data)
        self._poses, self._twists = np.zeros((self._others.size, 7)), np.zeros((self._others.size, 6))
        fill_bodies(model, data, others, self._poses, self._twists)
        self.others = self._others.size
        self.world_state, self.observe_contacts = tool.world_state, tool.observe_contacts

    def update(self, geometry: LocalGeometry) -> None:
        """Take the bodies of an update."""
        self._poses[:], self._twists[:] = geometry.poses, geometry.twists

    def observe_bodies(self, state: WorldState) -> None:
        """Fill in where everything is, and how it moves."""
        self._tool.observe_bodies(state)
        state.poses[self._others], state.twists[self._others] = self._poses, self._twists


class LocalModel:
    """Answers the controller at the servo rate, with what updates of an environment say of the surroundings.

    Args:
        world: what the tool is part of; what else moves in it is known from updates alone.
        tool: the tool without it.
        parameters: of the local model.
        period: expected of the updates [s].

    A derived class has `take` and `answer`. It is called in the servo thread.

    Attributes:
        tool, parameters: as given.
        geometry_tick: of the last survey, -1 before the first.
    """

    hands: tuple[()] = ()
    observe_body: None = None
    omissions: None = None

    def __init__(self, world: WorldSetup, tool: VirtualTool, parameters: LocalModelParameters, period: float):
        self.tool, self.parameters = tool, parameters
        self.tool_state, self.observer = tool.tool_state, SeenWorld(tool.observer, world)
        self._period = UpdatePeriod(period)
        transient = parameters.transient
        self._transients = ImpactTransients(transient, tool.rate) if transient.amplitude else None
        self.geometry_tick, self._tick = -1, 0  # of the next step

    def warm_up(self) -> None:
        """Call every kernel once, so that none is loaded during a trial; the state is of no use afterwards."""
        state, others = self.tool_state(), self.observer.others
        nq, nv = state.q.size, state.v.size
        geometry = LocalGeometry(q=nq, v=nv, inertia=nv * nv, gravity=nv, poses=others, twists=others, constraints=1)
        geometry.resize(1)
        geometry.q[:], geometry.pose[:] = state.q, state.pose
        geometry.inertia[:] = np.eye(nv).ravel()
        geometry.constraints["link"][0], geometry.constraints["normal"][0] = self.tool.body.hand_joint, (1, 0, 0)
        for _ in range(2):
            self.update(geometry, 0)
            self.step(ToolCommand(), state)
        self.tool.warm_up()

    def configure(self, contact: ContactParameters) -> None:
        """Take another material, from the next step on."""
        self.tool.configure(contact)

    def set_levels(self, strengths: Mapping[str, float]) -> None:
        """Let fields on the tool fade to a part of their strength, by name."""
        self.tool.set_levels(strengths)

    def update(self, geometry: LocalGeometry, tick: int) -> None:
        """Take the surroundings of an update; to be called before `step` of `tick`.

        Raises:
            MessageError: a number is not finite, a constraint is on no link of the tool, a normal is no unit vector, or
                the survey is older than the last one; the surroundings stay as they were.
        """
        self._check(geometry)
        self._period.add(geometry.tick, self.tool.rate)
        self.take(geometry, tick)
        self.geometry_tick, self._tick = geometry.tick, tick
        self.observer.update(geometry)

    @property
    def age(self) -> float:
        """Age of the surroundings [s]."""
        return (self._tick - max(self.geometry_tick, 0)) * self.tool.period

    @property
    def update_period(self) -> float:
        """Mean period of the last updates [s]."""
        return self._period.mean

    @property
    def invalid_steps(self) -> int:
        """Steps in which a contact had no impulse, because its method gave a number that is not finite."""
        return self.tool.contact.invalid_steps

    def prepare(self) -> None:
        """Do nothing ahead, unlike `Environment.prepare`: an update may come in between."""

    def step(self, command: ToolCommand, state: ToolState) -> None:
        """Answer the command of a tick with the state after it."""
        self._tick += 1
        if self._transients is None:
            self.answer(command, state)
            return
        approach = self._transients.approach(state)
        self.answer(command, state)
        self._transients.add(approach, state)

    def take(self, geometry: LocalGeometry, tick: int) -> None:
        """Take an update that is sound, from the step of `tick` on."""
        raise NotImplementedError

    def answer(self, command: ToolCommand, state: ToolState) -> None:
        """Turn the state before a tick into the state after it, under a command; as `step`, without transients."""
        raise NotImplementedError

    def _check(self, geometry: LocalGeometry) -> None:
        """Refuse what cannot be used."""
        where, constraints = f"local_geometry {geometry.tick}", geometry.constraints[: len(geometry)]
        if not geometry.is_finite():
            raise MessageError(f"{where}: not finite")
        if geometry.tick < self.geometry_tick:
            raise MessageError(f"{where}: is of the past, after {self.geometry_tick}")
        last = self.tool.body.model.njoints - 1
        for link in constraints["link"]:
            if not 0 < link <= last:
                raise MessageError(f"{where}: link = {link}: must be 1 to {last}")
        lengths = np.linalg.norm(constraints["normal"], axis=1)
        if (wrong := lengths[~(np.abs(lengths - 1.0) < 1e-6)]).size:
            raise MessageError(f"{where}: |normal| = {wrong[0]:g}: must be 1")
