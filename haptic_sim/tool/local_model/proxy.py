"""The proxy of the tool among the constraints of the last update (THESIS 6)."""

from __future__ import annotations

import math
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import pinocchio as pin
from numpy.lib.stride_tricks import as_strided

from haptic_sim.contact.methods import Method
from haptic_sim.contact.response import ContactParameters, Rendering
from haptic_sim.contact_rows import CAPACITY, RowArrays
from haptic_sim.kernels import kernel
from haptic_sim.messages import LocalGeometry, ToolCommand, ToolState
from haptic_sim.packed import Packed
from haptic_sim.parameters import quantity
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
from haptic_sim.tool.local_model.parameters import LocalModelContext, LocalModelParameters
from haptic_sim.tool.local_model.sprung import warn_of_sprung_objects
from haptic_sim.tool.virtual_tool import VirtualTool
from haptic_sim.worlds.isolated import isolate_tool
from haptic_sim.worlds.world_setup import WorldSetup

PLANES = 32  # constraints that move as masses; further ones keep the velocity of the update
LONGEST_MOTION = 2.0  # periods after which a plane of which nothing new is known stands still


class ProxyParameters(LocalModelParameters):
    """Parameters of a proxy: what constraints are, and what becomes of them when they are updated."""

    INTERPOLATED: ClassVar[bool] = False
    """Whether constraints are interpolated between updates, and felt as penalties alone."""

    deformation: bool = quantity(
        True,
        description="The proxy is deformed where an update would deepen its penetration (THESIS 6.4 to 6.7), so that "
        "the force does not jump",
    )
    release: Literal["gradual", "immediate"] = quantity(
        "gradual",
        description="Release of a penetration that an update lessens or ends. gradual: it fades during one period "
        "of the updates; immediate: it ends at once, as the source has it, and the force falls in one tick",
    )
    constraints: Literal["static", "kinematic", "dynamic"] = quantity(
        "kinematic",
        description="Motion of the constraints between updates. static: none; kinematic: the normal velocity of the "
        "update (THESIS 6.2); dynamic: the same, and contact accelerates a constraint on a body that moves as the mass "
        "that the environment reports for it (THESIS 7.2)",
    )
    dynamics: Literal["surveyed", "current"] = quantity(
        "current",
        description="Inertia, gravity and singular directions of a linkage. surveyed: as of the last update, without "
        "Coriolis forces (THESIS 6.15 to 6.22); current: of its present configuration",
    )
    coherence: Literal["identity", "geometry"] = quantity(
        "identity",
        description="Matching of the constraints of two updates. identity: those with the same number, and others "
        "by geometry; geometry: those whose points and normals are near each other (THESIS 6.11, 6.12)",
    )
    max_speed: float = quantity(
        0.5, unit="m/s", description="Fastest motion of a contact point, for coherence (THESIS 6.13)", gt=0.0, le=100.0
    )
    max_rotation: float = quantity(
        2.0, unit="rad/s", description="Fastest rotation of a normal, for coherence (THESIS 6.14)", gt=0.0, le=1e3
    )
    max_facet_angle: float = quantity(
        0.5,
        unit="rad",
        description="Largest angle between neighbouring facets that approximate one round surface (THESIS 6.14)",
        ge=0.0,
        le=1.5,
    )

    def build(self, context: LocalModelContext) -> Proxy:
        """The local model."""
        world, contact, method, device, rate, period, _ = context
        return Proxy(world, contact, method, device.rendering, device.limit(), rate, self, period)

    def notes(self, context: LocalModelContext) -> tuple[str, ...]:
        """Warnings that are listed at the start of a trial."""
        if self.constraints != "kinematic":
            return ()
        return warn_of_sprung_objects(context.world, context.period + context.delay)


class FullParameters(ProxyParameters):
    """A proxy with impulses, penalties and friction at the constraints (THESIS 6)."""

    type: Literal["full"] = "full"


class IntermediateParameters(ProxyParameters):
    """Penalties at the constraints of the update, which are interpolated."""

    INTERPOLATED: ClassVar[bool] = True

    type: Literal["intermediate_representation"] = "intermediate_representation"


FULL = FullParameters()


@record
class Neighbourhood(NamedTuple):
    """Inputs of the step that moves the constraints to the present instant; C: capacity, L: links, with the world."""

    planes: Planes = part(Planes, "constraints in use")
    rows: RowArrays = value("the same as contact rows")
    u: np.ndarray = shared("scaled velocity before a step: of bodies, and of planes that move as masses", "nu")
    u_after: np.ndarray = shared("the same after the last step", "nu")
    R_WL: np.ndarray = shared("orientation of the tool's links", "L", 3, 3)
    p_WL: np.ndarray = shared("position of the tool's links", "L", 3, unit="m")
    times: np.ndarray = array("age of the survey, when planes stop, period of the updates", 3, unit="s")
    period: float = value("period of the servo", unit="s")
    masses: int = value("number of constraints that may move as masses")


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
        world: WorldSetup,
        contact: ContactParameters,
        method: Method,
        rendering: Rendering,
        wrench_limit: np.ndarray,
        rate: float,
        parameters: ProxyParameters = FULL,
        period: float = 1.0 / 60.0,
    ):
        interpolated = parameters.INTERPOLATED
        if interpolated:
            method = "penalty"
        surveyed = parameters.dynamics == "surveyed"
        self._masses = PLANES if parameters.constraints == "dynamic" else 0
        isolated = isolate_tool(world)
        tool = VirtualTool(
            isolated, contact, method, rendering, wrench_limit, rate, surveyed, self._masses, find_rows=fill_rows
        )
        super().__init__(world, tool, parameters, period)
        self.parameters: ProxyParameters = parameters
        # Updates that move constraints under a proxy in contact do work on it.
        tool.pushed |= interpolated or not parameters.deformation
        self._law = INTERPOLATE if interpolated else KEEP if parameters.release == "immediate" else RELEASE
        model, data = tool.body.model, tool.body.data
        self._surveyed = model.createData()
        # Pinocchio's Python arrays are views: they follow its data without being asked for again.
        placements = [data.oMi[i] for i in range(model.njoints)]
        self._now, self._next = (
            allocate(
                Neighbourhood,
                {"C": CAPACITY},
                rows=tool.rows.arrays,
                u=tool.body.u,
                u_after=tool.contact.u,
                R_WL=_stack([one.rotation for one in placements]),
                p_WL=_stack([one.translation for one in placements]),
                period=tool.period,
                masses=self._masses,
            )
            for _ in range(2)
        )
        self._packed, self._packed_next = Packed(self._now), Packed(self._next)
        tool.surroundings = self._packed
        self._tracks = np.zeros(1, np.int64)

    def configure(self, contact: ContactParameters) -> None:
        """Take another material; friction and restitution are those of the constraints from the next update on."""
        super().configure(contact)
        for planes in (self._now.planes, self._next.planes):
            planes.friction[:] = contact.friction.static, contact.friction.kinetic
            planes.resistance[:] = contact.friction.rolling, contact.friction.torsional
            planes.restitution[:] = contact.restitution

    def take(self, geometry: LocalGeometry, tick: int) -> None:
        """Take an update that is sound, from the step of `tick` on."""
        tool, planes, parameters, n = self.tool, self._next.planes, self.parameters, len(geometry)
        tool.survey(geometry)
        self._fill(geometry)
        age, period = (tick - geometry.tick) * tool.period, self._period.mean
        self._next.times[:] = age, age + LONGEST_MOTION * period, period
        planes.displacement[:n] = planes.velocity[:n] * age
        rules = Rules(
            self._law,
            parameters.deformation,
            parameters.coherence == "identity",
            *coherence(period, parameters.max_speed, parameters.max_rotation, parameters.max_facet_angle),
            period,
        )
        tool.rows.count = update_planes(self._packed, tool.rows.count, self._packed_next, n, rules, self._tracks)
        self._now, self._next = self._next, self._now
        self._packed, self._packed_next = self._packed_next, self._packed
        tool.surroundings = self._packed

    def _fill(self, geometry: LocalGeometry) -> None:
        """Fill in the next constraints."""
        n, constraints, planes = len(geometry), geometry.constraints, self._next.planes
        for key in ("id", "body", "link", "restitution", "mobility"):
            getattr(planes, key)[:n] = constraints[key][:n]
        planes.c[:n], planes.n[:n] = constraints["position"][:n], constraints["normal"][:n]
        planes.velocity[:n] = constraints["normal_velocity"][:n] if self.parameters.constraints != "static" else 0.0
        planes.friction[:n, 0] = constraints["friction_static"][:n]
        planes.friction[:n, 1] = constraints["friction_kinetic"][:n]
        planes.resistance[:n, 0] = constraints["friction_rolling"][:n]
        planes.resistance[:n, 1] = constraints["friction_torsional"][:n]
        planes.rotation[:n] = constraints["angular_velocity"][:n] if self.parameters.constraints != "static" else 0.0
        planes.offset[:n], planes.leaving[:n], planes.plane[:n], planes.weight[:n] = 0.0, False, -1, 1.0
        corner = constraints["position"][:n] + constraints["separation"][:n, None] * constraints["normal"][:n]
        pin.forwardKinematics(self.tool.body.model, self._surveyed, geometry.q)
        for link in np.unique(planes.link[:n]).tolist():  # THESIS (6.1), in the surveyed configuration
            placement, its = self._surveyed.oMi[link], planes.link[:n] == link
            planes.p[:n][its] = (corner[its] - placement.translation) @ placement.rotation

    def answer(self, command: ToolCommand, state: ToolState) -> None:
        """Turn the state before a tick into the state after it, under a command; as `step`, without transients."""
        tool = self.tool
        tool.step(command, state, self.geometry_tick)
        if self._masses:
            accelerate(self._packed, tool.rows.count)


def _stack(arrays: list[np.ndarray]) -> np.ndarray:
    """One view of arrays that lie in memory at equal distances."""
    places = np.array([one.ctypes.data for one in arrays])
    stride = int(places[-1] - places[0]) // max(len(places) - 1, 1)
    if np.any(places != places[0] + stride * np.arange(len(places))):
        raise RuntimeError("the placements of a model are not beside each other in memory")
    first = arrays[0]
    return as_strided(first, (len(arrays), *first.shape), (stride, *first.strides))


@kernel
def update_planes(packed, count, packed_next, count_next, rules, tracks):
    """Replace the constraints by those of an update, see `continue_planes`; returns how many there are."""
    old, new = packed.arrays, packed_next.arrays
    locate(count, old.planes, old.R_WL, old.p_WL)
    locate(count_next, new.planes, new.R_WL, new.p_WL)
    return continue_planes(old.planes, count, new.planes, count_next, rules, tracks)


@kernel
def accelerate(packed, count):
    """Give the constraints that move as masses the velocity that they have after a tick."""
    a = packed.arrays
    planes = a.planes
    first = a.u.shape[0] - a.masses
    for m in range(count):
        if planes.plane[m] >= 0:
            gain = a.u_after[first + planes.plane[m]] * math.sqrt(planes.mobility[m]) - planes.velocity[m]
            planes.velocity[m] += gain
            planes.displacement[m] += gain * a.period


@kernel
def fill_rows(packed, count):
    """Fill the contact rows with the constraints where they are in a tick; returns how many are left.

    Args:
        packed: of `Neighbourhood`.
        count: constraints.
    """
    a = packed.arrays
    planes, rows, masses, period = a.planes, a.rows, a.masses, a.period
    age, still, update_period = a.times[0], a.times[1], a.times[2]
    moving = age < still
    a.times[0] = age + period
    first = a.u.shape[0] - masses
    locate(count, planes, a.R_WL, a.p_WL)
    count = recover(count, planes, period, update_period)
    used = 0
    velocities, displacement, plane, mobility = planes.velocity, planes.displacement, planes.plane, planes.mobility
    row_velocity, row_plane, row_mobility = rows.velocity, rows.plane, rows.mobility
    _copy_rows(count, planes, moving, rows)
    for m in range(count):
        velocity = velocities[m] if moving else 0.0
        row_velocity[m] = velocity
        plane[m] = -1
        if moving and used < masses and mobility[m] > 0.0:
            plane[m] = used
            a.u[first + used] = velocity / math.sqrt(mobility[m])
            used += 1
        row_plane[m], row_mobility[m] = plane[m], mobility[m]
        displacement[m] += velocity * period
    for k in range(used, masses):
        a.u[first + k] = 0.0
    return count


@kernel
def _copy_rows(count, planes, moving, rows):
    """Fill in all but how planes move along their normals."""
    track, body, link, point, n = planes.track, planes.body, planes.link, planes.point, planes.n
    separation, friction, restitution, weight = planes.separation, planes.friction, planes.restitution, planes.weight
    row_id, row_wall, row_coordinate, row_body = rows.id, rows.wall, rows.coordinate, rows.body
    row_point, row_normal, row_separation = rows.point, rows.normal, rows.separation
    row_friction, row_restitution, row_weight = rows.friction, rows.restitution, rows.weight
    resistance, rotation, row_resistance, row_rotation = (
        planes.resistance,
        planes.rotation,
        rows.resistance,
        rows.rotation,
    )
    for m in range(count):
        row_resistance[m, 0], row_resistance[m, 1] = resistance[m, 0], resistance[m, 1]
        for j in range(3):
            row_rotation[m, j] = rotation[m, j] if moving else 0.0
        row_id[m], row_wall[m], row_coordinate[m] = track[m], body[m], -1
        row_body[m, 0], row_body[m, 1] = 0, link[m]
        row_point[m, 0], row_point[m, 1], row_point[m, 2] = point[m, 0], point[m, 1], point[m, 2]
        row_normal[m, 0], row_normal[m, 1], row_normal[m, 2] = n[m, 0], n[m, 1], n[m, 2]
        row_separation[m], row_restitution[m], row_weight[m] = separation[m], restitution[m], weight[m]
        row_friction[m, 0], row_friction[m, 1] = friction[m, 0], friction[m, 1]
