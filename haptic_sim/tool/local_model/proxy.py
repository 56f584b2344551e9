"""The proxy of the tool among the constraints of the last update (THESIS 6)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np
import pinocchio as pin

from haptic_sim.contact.response import ContactParameters, Method, Rendering
from haptic_sim.contact_rows import CAPACITY, RowArrays
from haptic_sim.dynamics.multibody import SEVERAL, SingleBody
from haptic_sim.messages import LocalGeometry, ToolCommand, ToolState
from haptic_sim.packed import Packed, bind
from haptic_sim.records import allocate, array, part, record, shared, value
from haptic_sim.tool.local_model.constraints import (
    INTERPOLATE,
    KEEP,
    RELEASE,
    Planes,
    Rules,
    coherence,
    continue_planes,
    locate,
    recover,
)
from haptic_sim.tool.local_model.model import LocalModel
from haptic_sim.tool.local_model.parameters import LocalModelParameters
from haptic_sim.tool.virtual_tool import VirtualTool
from haptic_sim.worlds.alone import tool_alone
from haptic_sim.worlds.building import World

PLANES = 32  # constraints that move as masses; further ones keep the velocity of the update
LONGEST_MOTION = 2.0  # periods after which a plane of which nothing new is known stands still
FULL = LocalModelParameters(type="full")


@record
class Neighbourhood(NamedTuple):
    """What a step reads to put the constraints where they are now; C: capacity, L: links."""

    planes: Planes = part(Planes, "constraints in use")
    rows: RowArrays = value("the same as contact rows")
    u: np.ndarray = shared("scaled velocity before a step: of bodies, and of planes that move as masses", "nu")
    u_after: np.ndarray = shared("the same after the last step", "nu")
    single: SingleBody = value("the body, if it is the only link: it says where link 1 is")
    R_WL: np.ndarray = array("orientation of the tool's links", "L", 3, 3)
    p_WL: np.ndarray = array("position of the tool's links", "L", 3, unit="m")


class Proxy(LocalModel):
    """The types `full` and `intermediate_representation`; takes the arguments of a synchronous environment.

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
        surveyed = parameters.dynamics == "surveyed"
        self._planes = PLANES if parameters.constraints == "dynamic" else 0
        alone = tool_alone(world)
        tool = VirtualTool(alone, contact, method, rendering, wrench_limit, rate, surveyed, self._planes)
        super().__init__(world, tool, parameters, period)
        # Updates that move constraints under a proxy in contact do work on it.
        tool.pushed |= interpolated or not parameters.deformation
        self._law = INTERPOLATE if interpolated else KEEP if parameters.release == "immediate" else RELEASE
        model, data = tool.body.model, tool.body.data
        self._surveyed = model.createData()
        # Pinocchio's Python arrays are views: they follow its data without being asked for again.
        self._placements = [(data.oMi[i].rotation, data.oMi[i].translation) for i in range(model.njoints)]
        self._links: list[int] = []  # of the constraints
        sizes = {"C": CAPACITY, "L": model.njoints}
        self._now, self._next = (
            allocate(
                Neighbourhood,
                sizes,
                rows=tool.rows.arrays,
                single=tool.body.arrays.single,
                u=tool.body.u,
                u_after=tool.contact.u,
            )
            for _ in range(2)
        )
        self._packed, self._packed_next = Packed(self._now), Packed(self._next)
        self._fill_rows = bind(fill_rows, self._packed, 0, tool.period, period, True, 0)
        self._count = 0
        self._tracks = np.zeros(1, np.int64)
        self._age = self._still = 0.0  # of the survey, and when planes stop [s]

    def configure(self, contact: ContactParameters) -> None:
        """See LocalModel; friction and restitution are those of the constraints from the next update on."""
        super().configure(contact)
        for planes in (self._now.planes, self._next.planes):
            planes.friction[:] = contact.friction.static, contact.friction.kinetic
            planes.restitution[:] = contact.restitution

    def _take(self, geometry: LocalGeometry, tick: int) -> None:
        """See LocalModel."""
        tool, planes, parameters, n = self._tool, self._next.planes, self._parameters, len(geometry)
        tool.survey(geometry)
        links = self._fill(geometry)
        self._age, period = (tick - geometry.tick) * tool.period, self._period.mean
        self._still = self._age + LONGEST_MOTION * period
        planes.way[:n] = planes.velocity[:n] * self._age
        self._place(self._now, self._links)
        self._place(self._next, links)
        rules = Rules(
            self._law,
            parameters.deformation,
            parameters.coherence == "identity",
            *coherence(period, parameters.max_speed, parameters.max_rotation, parameters.max_facet_angle),
            period,
        )
        self._count = update_planes(self._packed, self._count, self._packed_next, n, rules, self._tracks)
        self._now, self._next = self._next, self._now
        self._packed, self._packed_next = self._packed_next, self._packed
        self._links = np.unique(planes.link[: self._count]).tolist()

    def _fill(self, geometry: LocalGeometry) -> list[int]:
        """Fill in the next constraints; returns the links that they are on."""
        n, constraints, planes = len(geometry), geometry.constraints, self._next.planes
        for key in ("id", "body", "link", "restitution", "mobility"):
            getattr(planes, key)[:n] = constraints[key][:n]
        planes.c[:n], planes.n[:n] = constraints["position"][:n], constraints["normal"][:n]
        planes.velocity[:n] = constraints["normal_velocity"][:n] if self._parameters.constraints != "static" else 0.0
        planes.friction[:n, 0] = constraints["friction_static"][:n]
        planes.friction[:n, 1] = constraints["friction_kinetic"][:n]
        planes.offset[:n], planes.leaving[:n], planes.plane[:n], planes.weight[:n] = 0.0, False, -1, 1.0
        corner = constraints["position"][:n] + constraints["separation"][:n, None] * constraints["normal"][:n]
        links: list[int] = np.unique(planes.link[:n]).tolist()
        pin.forwardKinematics(self._tool.body.model, self._surveyed, geometry.q)
        for link in links:  # THESIS (6.1), in the surveyed configuration
            placement, its = self._surveyed.oMi[link], planes.link[:n] == link
            planes.p[:n][its] = (corner[its] - placement.translation) @ placement.rotation
        return links

    def _step(self, command: ToolCommand, state: ToolState) -> None:
        """See LocalModel."""
        tool = self._tool
        if not tool.body.single:
            self._place(self._now, self._links)
        moving = self._age < self._still
        self._count = tool.rows.count = self._fill_rows(
            self._packed, self._count, tool.period, self._period.mean, moving, self._planes
        )
        tool.step(command, state, self._geometry_tick)
        if self._planes:
            accelerate(self._packed, self._count, tool.period, self._planes)
        self._age += tool.period

    def _place(self, side: Neighbourhood, links: list[int]) -> None:
        """Say where the links are."""
        for link in links:
            side.R_WL[link], side.p_WL[link] = self._placements[link]


@numba.njit(cache=True, nogil=True)
def update_planes(packed, count, packed_next, count_next, rules, tracks):
    """Replace the constraints by those of an update, see `continue_planes`; returns how many there are."""
    old, new = packed.arrays, packed_next.arrays
    locate(count, old.planes, old.R_WL, old.p_WL)
    locate(count_next, new.planes, new.R_WL, new.p_WL)
    return continue_planes(old.planes, count, new.planes, count_next, rules, tracks)


@numba.njit(cache=True, nogil=True)
def accelerate(packed, count, period, masses):
    """Give the constraints that move as masses the velocity that they have after a tick."""
    a = packed.arrays
    planes = a.planes
    first = a.u.shape[0] - masses
    for m in range(count):
        if planes.plane[m] >= 0:
            gain = a.u_after[first + planes.plane[m]] * math.sqrt(planes.mobility[m]) - planes.velocity[m]
            planes.velocity[m] += gain
            planes.way[m] += gain * period


@numba.njit(cache=True, nogil=True)
def fill_rows(packed, count, period, update_period, moving, masses):
    """Fill the contact rows with the constraints where they are in a tick; returns how many are left.

    Args:
        packed: of `Neighbourhood`.
        count: constraints.
        period, update_period: of the servo, and of the updates [s].
        moving: whether planes move on after this tick.
        masses: how many constraints may move as masses.
    """
    a = packed.arrays
    planes, rows = a.planes, a.rows
    if a.single.kind != SEVERAL:
        for i in range(3):
            a.p_WL[1, i] = a.single.p_WB[i]
            for j in range(3):
                a.R_WL[1, i, j] = a.single.R_WB[i, j]
    first = a.u.shape[0] - masses
    locate(count, planes, a.R_WL, a.p_WL)
    count = recover(count, planes, period, update_period)
    used = 0
    velocities, way, plane, mobility = planes.velocity, planes.way, planes.plane, planes.mobility
    row_velocity, row_plane, row_mobility = rows.velocity, rows.plane, rows.mobility
    _copy_rows(count, planes, rows)
    for m in range(count):
        velocity = velocities[m] if moving else 0.0
        row_velocity[m] = velocity
        plane[m] = -1
        if moving and used < masses and mobility[m] > 0.0:
            plane[m] = used
            a.u[first + used] = velocity / math.sqrt(mobility[m])
            used += 1
        row_plane[m], row_mobility[m] = plane[m], mobility[m]
        way[m] += velocity * period
    for k in range(used, masses):
        a.u[first + k] = 0.0
    return count


@numba.njit(cache=True, nogil=True)
def _copy_rows(count, planes, rows):
    """Fill in what does not depend on how planes move."""
    track, body, link, point, n = planes.track, planes.body, planes.link, planes.point, planes.n
    separation, friction, restitution, weight = planes.separation, planes.friction, planes.restitution, planes.weight
    row_id, row_wall, row_coordinate, row_body = rows.id, rows.wall, rows.coordinate, rows.body
    row_point, row_normal, row_separation = rows.point, rows.normal, rows.separation
    row_friction, row_restitution, row_weight = rows.friction, rows.restitution, rows.weight
    for m in range(count):
        row_id[m], row_wall[m], row_coordinate[m] = track[m], body[m], -1
        row_body[m, 0], row_body[m, 1] = 0, link[m]
        row_point[m, 0], row_point[m, 1], row_point[m, 2] = point[m, 0], point[m, 1], point[m, 2]
        row_normal[m, 0], row_normal[m, 1], row_normal[m, 2] = n[m, 0], n[m, 1], n[m, 2]
        row_separation[m], row_restitution[m], row_weight[m] = separation[m], restitution[m], weight[m]
        row_friction[m, 0], row_friction[m, 1] = friction[m, 0], friction[m, 1]
