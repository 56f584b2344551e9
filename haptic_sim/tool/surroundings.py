"""Surroundings: a world simulated elsewhere, slower than the servo loop, in which a local model feels its way.

A local model (`haptic_sim.tool.local_model`) moves the tool at the servo rate among a few planes. Surroundings tell it
which: they bring the world up to the time of a tool state, with the tool following that state, and list what is near
the tool as a LocalGeometry (THESIS 6.2). Nothing in the local model knows what simulates the world: our own engine
(`WorldSurroundings`), MuJoCo, or an application.
"""

from __future__ import annotations

from typing import Protocol

import numba
import numpy as np
import pinocchio as pin

from haptic_sim.contact.methods import build_response
from haptic_sim.contact.response import UNLIMITED, ContactParameters, Method
from haptic_sim.contact_rows import CAPACITY, ContactRows
from haptic_sim.dynamics.energy import UnstableError
from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.dynamics.scaled import ScaledContacts, apply_impulse, assemble, contact_velocity, coupling
from haptic_sim.messages import LocalGeometry, ToolCommand, ToolState
from haptic_sim.tool.environment import detector
from haptic_sim.tool.virtual_tool import VirtualTool
from haptic_sim.worlds.alone import fill_bodies, held_joints, other_bodies, tool_alone, tool_coordinates
from haptic_sim.worlds.building import World

LOADED = 1e-4  # [m] contacts of a body within so much of its deepest one share the load, see `WorldSurroundings`
SWEEPS = 50  # at most, of Gauss-Seidel, for what other contacts do to a body that is pushed


class Surroundings(Protocol):
    """What a local model is fed by."""

    def local_geometry(self) -> LocalGeometry:
        """A message for this world."""

    def rehearse(self) -> None:
        """Call every kernel once, so that none is loaded during a trial; the state is of no use afterwards."""

    def survey(self, tool: ToolState, step: int, geometry: LocalGeometry) -> None:
        """Advance the world to the time of a tool state, and fill `geometry` with what surrounds the tool.

        Args:
            tool: the state after `tool.tick`, with pose, twist, q and v; its ticks grow from call to call.
            step: number of the survey.
            geometry: as of `local_geometry`.
        """


class WorldSurroundings:
    """A world of our own engine as surroundings.

    Where nothing but the tool moves, the tool is placed at the state that is surveyed. Where other bodies move, the
    world is advanced by servo steps, and its tool follows the surveyed states along the line between them with a
    critically damped spring in its coordinates, D (w^2 dq + 2 w dv), w = `following`. So the tool pushes other bodies
    by its contacts, and is surveyed where it got.

    A constraint on a body that moves carries the mobility of that body along the normal: how fast it goes for a unit
    impulse at each of its contacts that touch about as deep as its deepest (LOADED), because a body that n contacts
    push together moves as if each pushed a body n times as light. What it rests against, and what it pushes in turn,
    counts: the mobility of a block at a wall is zero.

    Args:
        world: at its start.
        contact: material, and how contacts are clustered.
        method: by which the bodies of the world touch.
        epsilon: contacts up to this separation are listed [m] (THESIS 6.2.3); 0 lists those that overlap.
        horizon: contacts that the present velocities close by more than epsilon in this time are listed too [s].
        rate: of the servo [Hz].
        period: from one survey to the next [s].
        following: w, the rate at which the tool follows [1/s]; at most half the servo rate.
    """

    def __init__(
        self,
        world: World,
        contact: ContactParameters,
        method: Method = "penalty",
        *,
        epsilon: float,
        horizon: float = 0.0,
        rate: float = 1000.0,
        period: float = 1.0 / 60.0,
        following: float = 200.0,
    ):
        self._epsilon, self._horizon, self._rate, self._period = max(epsilon, 0.0), horizon, rate, period
        self._q, self._v = tool_coordinates(world)
        self._sizes = tool_alone(world).tool_sizes()
        self._detector = detector(world, contact)
        self._rows = ContactRows()
        self._world: VirtualTool | None = None
        if len(world.tree_start) > 1:
            tool = VirtualTool(world, contact, method, UNLIMITED.rendering, UNLIMITED.limit(), rate)
            self._world, self._body = tool, tool.body
            tool.pushed = True
            self._state, self._command = tool.tool_state(), ToolCommand()
        else:
            self._body = Multibody(world.model, world.hand, world.q, world.v)
            self._response = build_response(
                method, self._body, contact, UNLIMITED.rendering, UNLIMITED.limit(), self._rows.id.size
            )
            self._no_force = np.zeros(self._body.nv)
        self._following = min(following, 0.5 * rate)
        self._before, self._now = world.q.copy(), world.q.copy()  # with the tool as of the last survey, and of this one
        self._last = -1  # tick of the last survey's state
        self._wrench = np.zeros(6)
        trees, capacity = self._body.trees, self._rows.capacity
        self._contacts = ScaledContacts.allocate(capacity, trees.start, trees.size)
        self._tangent, self._response_u = np.zeros((capacity, 3)), np.zeros(self._body.nv)
        self._closing, self._velocity, self._mobility = np.zeros(capacity), np.zeros(capacity), np.zeros(capacity)
        held = held_joints(world)
        # number of a joint in the model of the tool alone, 0 for a joint that is not of the tool
        self._link = np.array([j - held[0] + 1 if j in held else 0 for j in range(world.model.njoints)])
        self._radius = _radius(world)
        self._others = other_bodies(world)

    def local_geometry(self) -> LocalGeometry:
        """See Surroundings."""
        nq, nv, others = self._sizes.q, self._sizes.v, len(self._others)
        return LocalGeometry(q=nq, v=nv, inertia=nv * nv, gravity=nv, poses=others, twists=others, constraints=CAPACITY)

    def rehearse(self) -> None:
        """See Surroundings."""
        state, geometry = self._sizes.tool_state(), self.local_geometry()
        state.q[:], state.v[:], state.tick = self._now[self._q], self._body.v[self._v], 0
        if self._world is not None:
            self._world.rehearse()
        self._detector.detect(self._body.data, 1e3, self._rows)
        self._measure()
        self.survey(state, 0, geometry)

    def survey(self, tool: ToolState, step: int, geometry: LocalGeometry) -> None:
        """See Surroundings."""
        body = self._body
        if self._world is not None:
            self._advance(self._world, tool)
        else:
            body.q[:], body.v[:] = tool.q, tool.v
            body.refresh()
        geometry.stamp(tool.tick + 1, tool.nanoseconds)
        geometry.step, geometry.epsilon = step, self._epsilon
        geometry.pose[:] = body.pose
        geometry.q[:], geometry.v[:] = body.q[self._q], body.v[self._v]
        geometry.inertia[:] = body.D[self._v, self._v].ravel()
        geometry.gravity[:] = body.data.g[self._v]
        pin.updateFramePlacements(body.model, body.data)
        fill_bodies(body.model, body.data, self._others, geometry.poses, geometry.twists)
        reach = self._horizon * (self._speed(body.twist[None]) + self._speed(geometry.twists))
        self._detector.detect(body.data, self._epsilon + reach, self._rows)
        self._measure()
        if self._world is None:
            self._response.respond(self._rows, body, self._no_force, self._period)
            self._wrench[:] = self._response.wrench
        geometry.wrench[:] = self._wrench
        self._list(geometry)

    def _advance(self, world: VirtualTool, tool: ToolState) -> None:
        """Step the world to the time of a tool state, the tool following it."""
        body, model, period, w = world.body, world.body.model, 1.0 / self._rate, self._following
        ticks = tool.tick - self._last
        if ticks < 1:
            return
        self._now[self._q] = tool.q
        way = pin.difference(model, self._before, self._now)
        velocity = way[self._v] / (ticks * period)
        goal = np.zeros(model.nq)
        self._wrench[:] = 0.0
        for k in range(ticks):
            goal[:] = pin.integrate(model, self._before, (k + 1) / ticks * way)
            lag = pin.difference(model, body.q, goal)[self._v]
            push = w * w * lag + 2.0 * w * (velocity - body.v[self._v])
            # The tool's weight and Coriolis forces are those of the local model's tool; they are not felt twice.
            body.bias[self._v] = -body.D[self._v, self._v] @ push
            self._detector.detect(body.data, world.contact.margin, world.rows)
            self._command.stamp(self._state.tick + 1, 0)
            world.step(self._command, self._state)
            self._wrench += self._state.wrench / ticks
        self._before[self._q] = tool.q
        self._last = tool.tick
        if not np.isfinite(body.q).all():
            raise UnstableError(
                "unstable: the environment's bodies are nowhere; choose a higher rate or softer contacts"
            )

    def _speed(self, twists: np.ndarray) -> float:
        """An upper bound of the speed of points of bodies with these twists (N, 6) [m/s]."""
        speeds = np.linalg.norm(twists[:, :3], axis=1) + self._radius * np.linalg.norm(twists[:, 3:], axis=1)
        return float(speeds.max(initial=0.0))

    def _measure(self) -> None:
        """Find how fast each contact closes, and the velocity and mobility of what the tool touches there."""
        body, rows = self._body.arrays, self._rows
        assemble(
            rows.count, rows.arrays, body.J_W, body.support, body.tree_of, body.L, body.u, self._contacts, self._tangent
        )
        measure(
            rows.count,
            rows.separation,
            self._contacts,
            body.hand_tree,
            body.u,
            self._response_u,
            self._closing,
            self._velocity,
            self._mobility,
        )

    def _list(self, geometry: LocalGeometry) -> None:
        """Fill in the constraints on the tool."""
        rows, n = self._rows, self._rows.count
        reach = self._epsilon - self._horizon * np.minimum(self._closing[:n], 0.0)
        (listed,) = np.nonzero((self._link[rows.body[:n, 1]] > 0) & (rows.separation[:n] < reach))
        geometry.resize(listed.size)
        constraints = geometry.constraints[: listed.size]
        constraints["id"] = rows.id[listed]
        constraints["body"] = rows.wall[listed]
        constraints["link"] = self._link[rows.body[listed, 1]]
        constraints["position"] = rows.point[listed] - rows.separation[listed, None] * rows.normal[listed]
        constraints["normal"] = rows.normal[listed]
        constraints["separation"] = rows.separation[listed]
        constraints["normal_velocity"] = rows.velocity[listed] + self._velocity[listed]
        constraints["friction_static"], constraints["friction_kinetic"] = rows.friction[listed].T
        constraints["restitution"] = rows.restitution[listed]
        constraints["mobility"] = self._mobility[listed]


def _radius(world: World) -> float:
    """An upper bound of how far a body that moves reaches from the origin of its axes, or a tool from its hand [m]."""
    radius = 0.0
    for shape in world.geometry.geometryObjects:
        if shape.parentJoint:
            shape.geometry.computeLocalAABB()
            centre = shape.placement.act(shape.geometry.aabb_center)
            radius = max(radius, float(np.linalg.norm(centre)) + shape.geometry.aabb_radius)
    links = sum(float(np.linalg.norm(placement.translation)) for placement in list(world.model.jointPlacements)[1:])
    return radius + links


@numba.njit(cache=True, nogil=True)
def measure(count, separation, contacts, tool, u, response, closing, velocity, mobility):
    """Fill in of each contact its normal velocity, and velocity and mobility of what the tool touches there.

    The mobility is the normal velocity for a unit impulse at each of the contacts that share the load, on bodies that
    other contacts do not let pass: of all changes of u that these allow, the nearest to the free one (Gauss-Seidel).

    Args:
        count, separation, contacts: of the contacts, assembled.
        tool: tree of the tool.
        u: scaled velocity (nv,).
        response: memory, (nv,).
        closing, velocity, mobility: filled in (C,) [m/s, m/s, 1/kg].
    """
    pushes = np.zeros(count)
    for i in range(count):
        closing[i] = contact_velocity(contacts, i, 0, u)
        velocity[i] = mobility[i] = 0.0
        tree = contacts.tree[i, 0]
        if contacts.tree[i, 1] != tool or tree < 0:
            continue
        velocity[i] = -_side_velocity(contacts, i, 0, u)
        deepest = separation[i]
        for j in range(count):
            if contacts.tree[j, 0] == tree and contacts.tree[j, 1] == tool:
                deepest = min(deepest, separation[j])
        response[:] = 0.0
        for j in range(count):
            shares = contacts.tree[j, 0] == tree and contacts.tree[j, 1] == tool and separation[j] <= deepest + LOADED
            if j == i or (shares and separation[i] <= deepest + LOADED):
                _push_side(contacts, j, 0, 1.0, response)
        pushes[:] = 0.0
        for _ in range(SWEEPS):
            changed = False
            for j in range(count):
                if contacts.tree[j, 1] == tool or contacts.tree[j, 0] == tool or separation[j] > LOADED:
                    continue
                square = coupling(contacts, j, 0, j, 0)
                if square > 0.0:
                    v = _side_velocity(contacts, j, 0, response) + _side_velocity(contacts, j, 1, response)
                    push = max(0.0, pushes[j] - v / square)
                    if push != pushes[j]:
                        apply_impulse(contacts, j, 0, push - pushes[j], response)
                        pushes[j] = push
                        changed = True
            if not changed:
                break
        mobility[i] = max(0.0, _side_velocity(contacts, i, 0, response))


@numba.njit(cache=True, nogil=True)
def _side_velocity(contacts, i, side, u):
    """The part of the normal velocity of contact i that one of its sides has."""
    s, tree = 0.0, contacts.tree[i, side]
    if tree >= 0:
        for k in range(contacts.size[tree]):
            s += contacts.W[i, 0, side, k] * u[contacts.start[tree] + k]
    return s


@numba.njit(cache=True, nogil=True)
def _push_side(contacts, i, side, p, u):
    """Change u by a normal impulse of contact i on one of its sides."""
    tree = contacts.tree[i, side]
    if tree >= 0:
        for k in range(contacts.size[tree]):
            u[contacts.start[tree] + k] += contacts.W[i, 0, side, k] * p
