"""The proxy of the tool at the servo rate, among the constraints of the last update (THESIS 6)."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numba
import numpy as np
import pinocchio as pin

from haptic_sim.contact.response import ContactParameters, Method, Rendering
from haptic_sim.contact_rows import CAPACITY, RowArrays
from haptic_sim.messages import LocalGeometry, MessageError, ToolCommand, ToolState, WorldState
from haptic_sim.packed import Packed
from haptic_sim.records import allocate, array, part, record, shared
from haptic_sim.tool.local_model.constraints import (
    INTERPOLATE,
    KEEP,
    RELEASE,
    Planes,
    Rules,
    coherence,
    hand_over,
    locate,
    recover,
)
from haptic_sim.tool.local_model.parameters import LocalModelParameters
from haptic_sim.tool.virtual_tool import VirtualTool
from haptic_sim.tool.world_state import WorldObserver
from haptic_sim.worlds.alone import fill_bodies, held_joints, other_bodies, tool_alone
from haptic_sim.worlds.building import World

AVERAGED = 5  # periods of which the mean is taken, THESIS (6.13)
LONGEST_MOTION = 2.0  # periods after which a plane of which nothing new is known stands still
FULL = LocalModelParameters(type="full")


@record
class Neighbourhood(NamedTuple):
    """What a step reads to put the constraints where they are now; C: capacity, L: links."""

    planes: Planes = part(Planes, "constraints in use")
    rows: RowArrays = shared("the same as contact rows")
    R_WL: np.ndarray = array("orientation of the tool's links", "L", 3, 3)
    p_WL: np.ndarray = array("position of the tool's links", "L", 3, unit="m")


class UpdatePeriod:
    """The period of the updates [s]: the mean of the last five, THESIS (6.13); `expected` before there are two."""

    def __init__(self, expected: float):
        self._periods: deque[float] = deque(maxlen=AVERAGED)
        self._expected, self._last = expected, -1

    def add(self, tick: int, rate: float) -> float:
        """Take the tick of a survey; returns the period."""
        if self._last >= 0 and tick > self._last:
            self._periods.append((tick - self._last) / rate)
        self._last = tick
        return self.mean

    @property
    def mean(self) -> float:
        """[s]."""
        return sum(self._periods) / len(self._periods) if self._periods else self._expected


class SeenWorld:
    """The observer of a local model: its tool as it is, and what else moves as the last update had it."""

    def __init__(self, tool: WorldObserver, world: World):
        self._tool = tool
        model, held = world.model, held_joints(world)
        frames = [frame for frame in model.frames if frame.type == pin.FrameType.BODY]
        self._others = np.array([i for i, f in enumerate(frames) if f.parentJoint and f.parentJoint not in held], int)
        data = model.createData()
        pin.forwardKinematics(model, data, world.q, world.v)
        pin.updateFramePlacements(model, data)
        self._poses, self._twists = np.zeros((self._others.size, 7)), np.zeros((self._others.size, 6))
        fill_bodies(model, data, other_bodies(world), self._poses, self._twists)
        self.world_state, self.observe_contacts = tool.world_state, tool.observe_contacts

    def update(self, geometry: LocalGeometry) -> None:
        """Take the bodies of an update."""
        self._poses[:], self._twists[:] = geometry.poses, geometry.twists

    def observe_bodies(self, state: WorldState) -> None:
        """See Observer."""
        self._tool.observe_bodies(state)
        state.poses[self._others], state.twists[self._others] = self._poses, self._twists


class LocalModel:
    """The proxy at the servo rate; takes the arguments of a synchronous environment.

    Args:
        world: what the tool is part of; what else moves in it is known from updates alone.
        contact: material of the contacts; friction and restitution are those of the constraints.
        method: by which the proxy touches them; the intermediate representation has penalties alone.
        rendering, wrench_limit: of the device, as for an `Environment`.
        rate: of the servo [Hz].
        parameters: of the local model.
        period: expected of the updates [s].
    """

    def __init__(
        self,
        world: World,
        contact: ContactParameters,
        method: Method,
        rendering: Rendering,
        wrench_limit: np.ndarray,
        rate: float,
        parameters: LocalModelParameters = FULL,
        period: float = 1.0 / 60.0,
    ):
        interpolated = parameters.type == "intermediate_representation"
        if interpolated:
            method = "penalty"
        self._tool = VirtualTool(tool_alone(world), contact, method, rendering, wrench_limit, rate)
        self.tool_state, self.observer = self._tool.tool_state, SeenWorld(self._tool.observer, world)
        self._parameters = parameters
        self._law = INTERPOLATE if interpolated else KEEP if parameters.release == "immediate" else RELEASE
        model, data = self._tool.body.model, self._tool.body.data
        self._surveyed = model.createData()
        # Pinocchio's Python arrays are views: they follow its data without being asked for again.
        self._placements = [(data.oMi[i].rotation, data.oMi[i].translation) for i in range(model.njoints)]
        self._links: list[int] = []  # of the constraints
        sizes = {"C": CAPACITY, "L": model.njoints}
        self._now, self._next = (allocate(Neighbourhood, sizes, rows=self._tool.rows.arrays) for _ in range(2))
        self._packed, self._packed_next = Packed(self._now), Packed(self._next)
        self._count = 0
        self._tracks = np.zeros(1, np.int64)
        self._period = UpdatePeriod(period)
        self._age = self._still = 0.0  # of the survey, and when planes stop [s]
        self._geometry_tick = -1

    def rehearse(self) -> None:
        """Call every kernel once, so that none is loaded during a trial; the state is of no use afterwards."""
        state = self.tool_state()
        geometry = LocalGeometry(q=state.q.size, v=state.v.size, constraints=1)
        geometry.resize(1)
        geometry.q[:] = state.q
        geometry.constraints["link"][0], geometry.constraints["normal"][0] = self._tool.body.hand_joint, (1, 0, 0)
        self.update(geometry, 0)
        self.step(ToolCommand(), state)
        self._tool.rehearse()

    def configure(self, contact: ContactParameters) -> None:
        """Take another material, from the next step on; friction and restitution until the next update."""
        self._tool.configure(contact)
        for planes in (self._now.planes, self._next.planes):
            planes.friction[:] = contact.friction.static, contact.friction.kinetic
            planes.restitution[:] = contact.restitution

    def update(self, geometry: LocalGeometry, tick: int) -> None:
        """Take the surroundings of an update; to be called before `step` of `tick`.

        Raises:
            MessageError: a constraint is on no link of the tool, a normal is no unit vector, a number is not finite,
                or the survey is older than the last one; the surroundings stay as they were.
        """
        self._check(geometry)
        tool, planes = self._tool, self._next.planes
        links = self._take(geometry)
        self._age = (tick - geometry.tick) * tool.period
        period = self._period.add(geometry.tick, tool.rate)
        self._still = self._age + LONGEST_MOTION * period
        n = len(geometry)
        planes.way[:n] = planes.velocity[:n] * self._age
        self._place(self._now, self._links)
        self._place(self._next, links)
        parameters = self._parameters
        rules = Rules(
            self._law,
            parameters.deformation,
            parameters.coherence == "identity",
            *coherence(period, parameters.max_speed, parameters.max_rotation, parameters.max_facet_angle),
            period,
        )
        self._count = go_over(self._packed, self._count, self._packed_next, n, rules, self._tracks)
        self._now, self._next = self._next, self._now
        self._packed, self._packed_next = self._packed_next, self._packed
        self._links = np.unique(planes.link[: self._count]).tolist()
        self._geometry_tick = geometry.tick
        self.observer.update(geometry)

    def _check(self, geometry: LocalGeometry) -> None:
        """Refuse what cannot be used."""
        where, constraints = f"local_geometry {geometry.tick}", geometry.constraints[: len(geometry)]
        if not geometry.is_finite():
            raise MessageError(f"{where}: not finite")
        if geometry.tick < self._geometry_tick:
            raise MessageError(f"{where}: is of the past, after {self._geometry_tick}")
        last = self._tool.body.model.njoints - 1
        for link in constraints["link"]:
            if not 0 < link <= last:
                raise MessageError(f"{where}: link = {link}: must be 1 to {last}")
        lengths = np.linalg.norm(constraints["normal"], axis=1)
        if (wrong := lengths[~(np.abs(lengths - 1.0) < 1e-6)]).size:
            raise MessageError(f"{where}: |normal| = {wrong[0]:g}: must be 1")

    def _take(self, geometry: LocalGeometry) -> list[int]:
        """Fill in the next constraints; returns the links that they are on."""
        n, constraints, planes = len(geometry), geometry.constraints, self._next.planes
        for key in ("id", "body", "link", "restitution", "mobility"):
            getattr(planes, key)[:n] = constraints[key][:n]
        planes.c[:n], planes.n[:n] = constraints["position"][:n], constraints["normal"][:n]
        planes.velocity[:n] = constraints["normal_velocity"][:n] if self._parameters.constraints != "static" else 0.0
        planes.friction[:n, 0], planes.friction[:n, 1] = (
            constraints["friction_static"][:n],
            constraints["friction_kinetic"][:n],
        )
        planes.offset[:n], planes.leaving[:n] = 0.0, False
        corner = constraints["position"][:n] + constraints["separation"][:n, None] * constraints["normal"][:n]
        links: list[int] = np.unique(planes.link[:n]).tolist()
        pin.forwardKinematics(self._tool.body.model, self._surveyed, geometry.q)
        for link in links:  # THESIS (6.1), in the surveyed configuration
            placement, its = self._surveyed.oMi[link], planes.link[:n] == link
            planes.p[:n][its] = (corner[its] - placement.translation) @ placement.rotation
        return links

    def prepare(self) -> None:
        """As `Environment.prepare`: an update may come in between, so that nothing is done ahead."""

    def step(self, command: ToolCommand, state: ToolState) -> None:
        """Answer the command of a tick with the state after it."""
        tool = self._tool
        self._place(self._now, self._links)
        self._count = tool.rows.count = put(self._packed, self._count, tool.period, self._age < self._still)
        tool.step(command, state, self._geometry_tick)
        self._age += tool.period

    def _place(self, side: Neighbourhood, links: list[int]) -> None:
        """Say where the links are."""
        for link in links:
            side.R_WL[link], side.p_WL[link] = self._placements[link]


@numba.njit(cache=True, nogil=True)
def go_over(packed, count, packed_next, count_next, rules, tracks):
    """Go over to the constraints of an update, see `hand_over`; returns how many there are."""
    old, new = packed.arrays, packed_next.arrays
    locate(count, old.planes, old.R_WL, old.p_WL)
    locate(count_next, new.planes, new.R_WL, new.p_WL)
    return hand_over(old.planes, count, new.planes, count_next, rules, tracks)


@numba.njit(cache=True, nogil=True)
def put(packed, count, period, moving):
    """Put the constraints where they are in a tick, as contact rows; returns how many are left.

    Args:
        packed: of `Neighbourhood`.
        moving: whether planes move on after this tick.
    """
    a = packed.arrays
    planes, rows = a.planes, a.rows
    locate(count, planes, a.R_WL, a.p_WL)
    count = recover(count, planes, period)
    for m in range(count):
        velocity = planes.velocity[m] if moving else 0.0
        rows.id[m], rows.wall[m], rows.coordinate[m] = planes.track[m], planes.body[m], -1
        rows.body[m, 0], rows.body[m, 1] = 0, planes.link[m]
        for j in range(3):
            rows.point[m, j], rows.normal[m, j] = planes.point[m, j], planes.n[m, j]
        rows.separation[m], rows.velocity[m] = planes.separation[m], velocity
        rows.friction[m, 0], rows.friction[m, 1] = planes.friction[m, 0], planes.friction[m, 1]
        rows.restitution[m] = planes.restitution[m]
        planes.way[m] += velocity * period
    return count
