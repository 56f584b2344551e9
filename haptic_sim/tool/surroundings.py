"""Surroundings: a world simulated elsewhere, slower than the servo loop, in which a local model feels its way.

A local model (`haptic_sim.tool.local_model`) moves the tool at the servo rate among a few planes. Surroundings
say which: they bring the world up to the time of a tool state, with the tool following that state, and list what is
near the tool as a LocalGeometry (THESIS 6.2). Nothing in the local model knows what simulates the world: our own engine
(`WorldSurroundings`), MuJoCo, or an application.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pinocchio as pin

from haptic_sim.contact.methods import Method, build_response
from haptic_sim.contact.response import UNLIMITED, ContactParameters, ContactResponse
from haptic_sim.contact_rows import CAPACITY, ContactRows
from haptic_sim.dynamics.energy import UnstableError
from haptic_sim.dynamics.loose import PINOCCHIO_COORDINATES, first_loose
from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.dynamics.scaled import ScaledContacts, assemble, assemble_rotations
from haptic_sim.messages import LocalGeometry, ToolCommand, ToolState
from haptic_sim.packed import Packed
from haptic_sim.parameters import ParameterError
from haptic_sim.records import allocate
from haptic_sim.tool.environment import detector
from haptic_sim.tool.following import Follower
from haptic_sim.tool.mobility import Touched, measure, measure_rotations
from haptic_sim.tool.virtual_tool import VirtualTool
from haptic_sim.worlds.isolated import fill_bodies, held_joints, isolate_tool, other_bodies, tool_coordinates
from haptic_sim.worlds.world_setup import WorldSetup


class Surroundings(Protocol):
    """Surroundings that update a local model."""

    @property
    def omissions(self) -> int | None:
        """Leaves of signed distance fields that surveys and steps have left out; None: no fields.

        An engine of another package may be without it (`omissions_of`).
        """

    def local_geometry(self) -> LocalGeometry:
        """A message for this world."""

    def warm_up(self) -> None:
        """Call every kernel once, so that none is loaded during a trial; the state is of no use afterwards."""

    def set_levels(self, strengths: Mapping[str, float]) -> None:
        """Let fields fade to a part of their strength, by name; called where the scene has fields."""

    def survey(self, tool: ToolState, step: int, geometry: LocalGeometry) -> None:
        """Advance the world to the time of a tool state, and fill `geometry` with what surrounds the tool.

        Args:
            tool: the state after `tool.tick`, with pose, twist, impulse, q and v; its ticks grow from call to call.
            step: number of the survey.
            geometry: as of `local_geometry`.
        """


class SimulatedSurroundings:
    """Common part of the surroundings of all engines.

    An engine simulates the tool among the other bodies, and the tool follows the surveyed states (`Follower`), so that
    it pushes the others by its contacts, and is surveyed where it got. The engine's contacts are `rows` with the tool
    as the second body; those nearer than `epsilon` are listed, with velocity and mobility of what the tool touches
    (`haptic_sim.tool.mobility`). Where there are more than a message takes, the nearest are.

    Args:
        tool: the tool alone, at its start.
        others: number of bodies that are reported.
        epsilon: contacts up to this separation are listed [m] (THESIS 6.2.3); 0 lists those that overlap.
        horizon: contacts that the present velocities close by more than epsilon in this time are listed too [s].
        radius: an upper bound of how far a body reaches from the origin of its axes, and the tool from its hand [m].
        rate, step, period, following: as of a `Follower`.
    """

    _bodies: Any  # of the engine: J_W, support, tree_of, L, u and hand_tree as of `BodyArrays`
    _link: np.ndarray  # link of the tool that a body of the engine is, 0 for one that is not of the tool
    rows: ContactRows

    def __init__(
        self,
        tool: WorldSetup,
        others: int,
        *,
        epsilon: float,
        horizon: float,
        radius: float,
        rate: float,
        step: float,
        period: float,
        following: float,
    ):
        self._epsilon, self._horizon, self._radius = max(epsilon, 0.0), horizon, radius
        self._body = Multibody(tool.model, tool.hand, tool.q, tool.v, balanced=tool.balanced)
        self._follower = Follower(self._body, rate=rate, step=step, period=period, following=following)
        self._catching_up = min(following, 0.5 / period)  # [1/s]
        self._surveyed = tool.model.createData()
        self._sizes, self._others = tool.tool_sizes(), others
        self._wrench = np.zeros(6)  # of the contacts on the engine's tool, the mean since the last survey

    @property
    def omissions(self) -> int | None:
        """Leaves of signed distance fields that surveys and steps have left out; None: no fields."""
        return None

    def local_geometry(self) -> LocalGeometry:
        """A message for this world."""
        nq, nv, others = self._sizes.q, self._sizes.v, self._others
        return LocalGeometry(q=nq, v=nv, inertia=nv * nv, gravity=nv, poses=others, twists=others, constraints=CAPACITY)

    def warm_up(self) -> None:
        """Call every kernel once, so that none is loaded during a trial; the state is of no use afterwards."""
        state = self._sizes.tool_state()
        state.q[:], state.v[:], state.tick = self._body.q, self._body.v, 0
        self.survey(state, 0, self.local_geometry())

    def survey(self, tool: ToolState, step: int, geometry: LocalGeometry) -> None:
        """Advance the world to the time of a tool state, and fill `geometry` with what surrounds the tool."""
        self._advance(tool)
        self.report(geometry, self._wrench)
        self._slow_surveyed_turning(tool, geometry)
        geometry.stamp(tool.tick + 1, tool.nanoseconds)
        geometry.step = step

    def report(self, geometry: LocalGeometry, wrench: np.ndarray) -> None:
        """Fill in what surrounds the tool as it is, and the wrench of its contacts (6,); not stamp and step."""
        body = self._body
        self._refresh()
        geometry.epsilon = self._epsilon
        geometry.pose[:] = body.pose
        geometry.q[:], geometry.v[:] = body.q, body.v
        geometry.inertia[:] = body.D.ravel()
        geometry.gravity[:] = body.data.g
        geometry.wrench[:] = wrench
        self._fill_others(geometry.poses, geometry.twists)
        reach = self._horizon * (self._speed(body.twist[None]) + self._speed(geometry.twists))
        self._find_contacts(self._epsilon + reach)
        self._list(geometry)

    def _slow_surveyed_turning(self, tool: ToolState, geometry: LocalGeometry) -> None:
        """Let the surveyed tool wait for the engine's where both stick to a body that turns.

        A tool that sticks by rolling and torsional friction turns as it is told that the body does. Where it is ahead
        of the engine's by the angle a, the spring of the `Follower` drives both, the more so the longer that lasts. So
        the body is said to turn slower by a w, with the rate w of that spring: a falls to 0 in 1/w.
        """
        constraints = geometry.constraints[: len(geometry)]
        turning = (constraints["friction_rolling"] > 0.0) | (constraints["friction_torsional"] > 0.0)
        if not turning.any() or np.array_equal(tool.q, geometry.q):
            return
        body, surveyed = self._body, self._surveyed
        pin.forwardKinematics(body.model, surveyed, tool.q)
        for link in np.unique(constraints["link"][turning]).tolist():
            ahead = pin.log3(surveyed.oMi[link].rotation @ body.data.oMi[link].rotation.T)
            constraints["angular_velocity"][turning & (constraints["link"] == link)] -= self._catching_up * ahead

    def set_levels(self, strengths: Mapping[str, float]) -> None:
        """Let fields fade to a part of their strength, by name; of an engine without fields there are none."""

    def _advance(self, tool: ToolState) -> None:
        """Bring the world to the time of a tool state, the tool following it, and fill in `_wrench`."""
        raise NotImplementedError

    def _refresh(self) -> None:
        """Bring the tool's body up to date with the engine's."""
        raise NotImplementedError

    def _fill_others(self, poses: np.ndarray, twists: np.ndarray) -> None:
        """Fill in where the other bodies are, as of `LocalGeometry`."""
        raise NotImplementedError

    def _find_contacts(self, reach: float) -> None:
        """Fill `rows` with the contacts of the tool nearer than `reach` [m], and with those of what it touches."""
        raise NotImplementedError

    def _identities(self, listed: np.ndarray) -> np.ndarray:
        """Identities of rows from survey to survey (n,)."""
        return self.rows.id[listed]

    def _allocate(self, rows: ContactRows, start: np.ndarray, size: np.ndarray) -> None:
        """Take rows, between trees that begin at `start` and have `size` coordinates each."""
        self.rows, capacity = rows, rows.capacity
        contacts, turning = (ScaledContacts.allocate(capacity, start, size) for _ in range(2))
        self._tangent = np.zeros((capacity, 3))
        touched = allocate(Touched, contacts.sizes)
        # of the types that contact methods have: the same kernels serve
        arrays = (rows.arrays, contacts, turning, touched)
        self._rows, self._contacts, self._turning, self._touched = (Packed(one).arrays for one in arrays)

    def _speed(self, twists: np.ndarray) -> float:
        """An upper bound of the speed of points of bodies with these twists (N, 6) [m/s]."""
        speeds = np.linalg.norm(twists[:, :3], axis=1) + self._radius * np.linalg.norm(twists[:, 3:], axis=1)
        return float(speeds.max(initial=0.0))

    def _list(self, geometry: LocalGeometry) -> None:
        """Fill in the constraints on the tool."""
        rows, n, bodies, contacts, touched = self.rows, self.rows.count, self._bodies, self._contacts, self._touched
        assemble(n, self._rows, bodies.J_W, bodies.support, bodies.tree_of, bodies.L, bodies.u, contacts, self._tangent)
        measure(n, rows.separation, contacts, bodies.hand_tree, bodies.u, touched)
        resistance = rows.arrays.resistance[:n]
        if resistance.any():
            turning, tangent = self._turning, self._tangent
            assemble_rotations(
                n, self._rows, bodies.J_W, bodies.support, bodies.tree_of, bodies.L, bodies.u, turning, tangent
            )
            measure_rotations(n, self._rows, turning, tangent, bodies.u, touched.rotation)
        link, separation = self._link[rows.body[:n, 1]], rows.separation[:n]
        reach = self._epsilon - self._horizon * np.minimum(touched.closing[:n], 0.0)
        (listed,) = np.nonzero((link > 0) & (separation < reach))
        if listed.size > CAPACITY:
            listed = np.sort(listed[np.argsort(separation[listed], kind="stable")[:CAPACITY]])
        geometry.resize(listed.size)
        constraints = geometry.constraints[: listed.size]
        constraints["id"] = self._identities(listed)
        constraints["body"] = rows.wall[listed]
        constraints["link"] = link[listed]
        constraints["position"] = rows.point[listed] - separation[listed, None] * rows.normal[listed]
        constraints["normal"] = rows.normal[listed]
        constraints["separation"] = separation[listed]
        constraints["normal_velocity"] = rows.velocity[listed] + touched.velocity[listed]
        constraints["friction_static"], constraints["friction_kinetic"] = rows.friction[listed].T
        constraints["friction_rolling"], constraints["friction_torsional"] = resistance[listed].T
        constraints["angular_velocity"] = touched.rotation[listed] if resistance.any() else 0.0
        constraints["restitution"] = rows.restitution[listed]
        constraints["mobility"] = touched.mobility[listed]


class WorldSurroundings(SimulatedSurroundings):
    """A world of our own engine as surroundings.

    Where nothing but the tool moves, the tool is placed at the state that is surveyed. Where other bodies move, the
    world is advanced by servo steps under the forces of a `Follower`, with neither weight, Coriolis forces, damping,
    springs nor dry friction of the tool: those of the local model's tool are felt, and not twice.

    Args:
        world: at its start.
        contact: material, and how contacts are clustered.
        method: by which the bodies of the world touch.
        epsilon, horizon: as of `SimulatedSurroundings`.
        rate, period, following: as of a `Follower`; the rate is also that of the world's steps.
        wrench: whether the wrench of the contacts is found where nothing but the tool moves; else it is zero.
    """

    def __init__(
        self,
        world: WorldSetup,
        contact: ContactParameters,
        method: Method = "penalty",
        *,
        epsilon: float,
        horizon: float = 0.0,
        rate: float = 1000.0,
        period: float = 1.0 / 60.0,
        following: float = 20.0,
        wrench: bool = False,
    ):
        if first_loose(world.model) < world.model.njoints:
            raise ParameterError(
                [
                    f"scene: has {world.model.nv} velocities: must be at most {PINOCCHIO_COORDINATES} with a local "
                    "model; leave bodies out, or set local_model.type=none"
                ]
            )
        self._frames = other_bodies(world)
        super().__init__(
            isolate_tool(world),
            len(self._frames),
            epsilon=epsilon,
            horizon=horizon,
            radius=_radius(world),
            rate=rate,
            step=1.0 / rate,
            period=period,
            following=following,
        )
        self._q, self._v = tool_coordinates(world)
        self._with_fields = bool(world.solid_fields)
        self._detector, rows = detector(world, contact), ContactRows()
        self._tool: VirtualTool | None = None
        self._response: ContactResponse | None = None
        self._whole = self._body
        if len(world.tree_start) > 1:
            self._tool = VirtualTool(
                _without_forces(world, self._v, held_joints(world)),
                contact,
                method,
                UNLIMITED.rendering,
                UNLIMITED.limit(),
                rate,
            )
            self._whole, self._tool.pushed = self._tool.body, True
            self._state, self._command = self._tool.tool_state(), ToolCommand()
            self._stepping = detector(world, contact)  # a detector keeps memory for the rows that it fills
        elif wrench:
            if contact.penalty == "consistent":  # what a survey reports follows from its state alone
                contact = contact.model_copy(update={"penalty": "explicit"})
            self._response = build_response(
                method, self._body, contact, UNLIMITED.rendering, UNLIMITED.limit(), rows.id.size
            )
            self._no_force, self._period = np.zeros(self._body.nv), period
        self._bodies = self._whole.arrays
        self._allocate(rows, self._whole.trees.start, self._whole.trees.size)
        held = held_joints(world)
        self._link = np.array([j - held[0] + 1 if j in held else 0 for j in range(world.model.njoints)])

    @property
    def omissions(self) -> int | None:
        """Leaves of signed distance fields that surveys and steps have left out; None: no fields."""
        if not self._with_fields:
            return None
        return self._detector.omissions + (0 if self._tool is None else self._stepping.omissions)

    def warm_up(self) -> None:
        """Call every kernel once, so that none is loaded during a trial; the state is of no use afterwards."""
        if self._tool is not None:
            self._stepping.detect(self._whole.data, 1e3, self._tool.rows)
            self._tool.warm_up()
        self._find_contacts(1e3)
        self._list(self.local_geometry())
        super().warm_up()

    def set_levels(self, strengths: Mapping[str, float]) -> None:
        """Let fields fade to a part of their strength, by name, those of other bodies than the tool."""
        if self._tool is not None:
            self._tool.set_levels(strengths)

    def report(self, geometry: LocalGeometry, wrench: np.ndarray) -> None:
        """Fill in what surrounds the tool as it is, and the wrench of its contacts (6,); not stamp and step."""
        super().report(geometry, wrench)
        if self._response is not None:
            self._response.respond(self.rows, self._body, self._no_force, self._period)
            geometry.wrench[:] = self._response.wrench

    def _advance(self, tool: ToolState) -> None:
        """Bring the world to the time of a tool state, the tool following it, and fill in `_wrench`."""
        world, whole = self._tool, self._whole
        if world is None:
            whole.q[:], whole.v[:] = tool.q, tool.v
            return
        self._wrench[:], steps = 0.0, 0
        for force in self._follower.follow(tool):
            whole.bias[self._v] = -force
            self._stepping.detect(whole.data, world.contact.margin, world.rows)
            self._command.stamp(self._state.tick + 1, 0)
            world.step(self._command, self._state)
            self._wrench += self._state.wrench
            steps += 1
            self._refresh()
        self._wrench /= max(steps, 1)
        if not np.isfinite(whole.q).all():
            raise UnstableError(
                "unstable: the environment's bodies are nowhere; choose a higher rate or softer contacts"
            )

    def _refresh(self) -> None:
        """Bring the tool's body up to date with the engine's."""
        body, whole = self._body, self._whole
        if whole is not body:
            body.q[:], body.v[:] = whole.q[self._q], whole.v[self._v]
        body.refresh()

    def _fill_others(self, poses: np.ndarray, twists: np.ndarray) -> None:
        """Fill in where the other bodies are, as of `LocalGeometry`."""
        model, data = self._whole.model, self._whole.data
        if self._frames:
            pin.updateFramePlacements(model, data)
            fill_bodies(model, data, self._frames, poses, twists)

    def _find_contacts(self, reach: float) -> None:
        """Fill `rows` with the contacts of the tool nearer than `reach` [m], and with those of what it touches."""
        self._detector.detect(self._whole.data, reach, self.rows)


def _without_forces(world: WorldSetup, tool: slice, joints: list[int]) -> WorldSetup:
    """A world whose `joints` of the tool, at `tool` in v, have no damping, dry friction, springs and fields."""
    return replace(
        world,
        force_fields=tuple(one for one in world.force_fields if one.joint not in joints),
        laws=tuple(
            replace(law, damping=0.0, friction=0.0, stiffness=0.0) if tool.start <= law.velocity < tool.stop else law
            for law in world.laws
        ),
    )


def _radius(world: WorldSetup) -> float:
    """An upper bound of how far a body that moves reaches from the origin of its axes, or a tool from its hand [m]."""
    radius = 0.0
    for shape in world.geometry.geometryObjects:
        if shape.parentJoint:
            shape.geometry.computeLocalAABB()
            centre = shape.placement.act(shape.geometry.aabb_center)
            radius = max(radius, float(np.linalg.norm(centre)) + shape.geometry.aabb_radius)
    links = sum(float(np.linalg.norm(placement.translation)) for placement in list(world.model.jointPlacements)[1:])
    return radius + links
