"""Engines as parts: how a world is simulated, at the servo rate or behind a local model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import pinocchio as pin

from haptic_sim.constraints.errors import ConstraintError
from haptic_sim.constraints.scenes import ConstrainedSetup, ConstraintParameters
from haptic_sim.constraints.tool import ConstrainedTool
from haptic_sim.contact.methods import Method
from haptic_sim.contact.response import ContactParameters, DeviceLimits
from haptic_sim.contact.sleeping import NEVER, Sleep
from haptic_sim.dynamics.multibody import coordinate_names
from haptic_sim.parameters import ParameterError
from haptic_sim.parts import Kind, Part
from haptic_sim.scenes import ModelSource, SceneParameters
from haptic_sim.tool.environment import Environment
from haptic_sim.tool.mujoco_simulation import MujocoSimulator
from haptic_sim.tool.mujoco_surroundings import MujocoSurroundings
from haptic_sim.tool.protocol import Simulator, ToolSide
from haptic_sim.tool.surroundings import Surroundings, WorldSurroundings
from haptic_sim.worlds.mujoco_files import find_tool, load, load_meshes
from haptic_sim.worlds.mujoco_meshes import sampled_meshes
from haptic_sim.worlds.parameters import MujocoParameters
from haptic_sim.worlds.world_setup import WorldSetup

Start = WorldSetup | ConstrainedSetup
"""Start of the tool's side: the virtual world, or a tool under exact constraints alone.

What is built from it advances a state of its own.
"""


class EngineContext(NamedTuple):
    """Context that an engine which answers a controller is built from.

    Attributes:
        start: what the scene describes: a Pinocchio model, shapes, and the state at the start. Several engines may
            share it: it is not to be changed.
        contact: material of the contacts.
        method, integrator: of contact, and of the tool's position, `environment.method` and `.integrator`.
        constraint: how exact constraints are kept.
        device: what the device can render.
        rate: of the servo [Hz].
        sleep: when bodies fall asleep.
    """

    start: Start
    contact: ContactParameters
    method: Method
    integrator: int
    constraint: ConstraintParameters
    device: DeviceLimits
    rate: float
    sleep: Sleep = NEVER


class SurroundingsContext(NamedTuple):
    """Context that an engine behind a local model is built from.

    Attributes:
        world: at its start.
        scene: parameters of the scene.
        contact: material of the contacts.
        method: of contact, `environment.method`.
        following: `environment.following` [1/s].
        epsilon: distance below which a constraint is to be reported [m].
        horizon: constraints that the present velocities reach in this time are to be reported, too [s].
        rate: of the servo [Hz].
        period: of the surveys [s].
        wrench: whether updates have to carry the wrench of the contacts.
    """

    world: WorldSetup
    scene: SceneParameters
    contact: ContactParameters
    method: Method
    following: float
    epsilon: float
    horizon: float
    rate: float
    period: float
    wrench: bool


class Link(NamedTuple):
    """A body that an engine has beside those of the scene, for a view.

    Attributes:
        name: in a world state.
        pose: in the world at the start (7,) [m, quat_xyzw].
        origin, ends: points that a stick connects each, in its axes (3,), (N, 3) [m].
        radius: of these sticks [m].
        frames: axes of the links of the engine's file that it carries, in its own (4, 4), by their names.
    """

    name: str
    pose: np.ndarray
    origin: np.ndarray
    ends: np.ndarray
    radius: float
    frames: Mapping[str, np.ndarray]


class EngineParameters(Part):
    """Parameters of an engine that simulates a world."""

    LABEL: ClassVar[str] = ""
    """Name of the engine in texts; empty: its type."""
    SCENES: ClassVar[bool] = True
    """Whether the engine simulates every scene that names no engine itself (`SceneParameters.ENGINE`)."""
    SERVO: ClassVar[bool] = True
    """Whether the engine answers a controller at the servo rate: it has `build`."""
    SURVEYS: ClassVar[bool] = False
    """Whether the engine can be behind a local model: it has `surroundings`."""
    PROGRAMS: ClassVar[bool] = False
    """Whether a program can advance the worlds that it simulates: it has `simulator`."""
    ONE_HAND: ClassVar[bool] = True
    """Whether the tool is all that can be held: there are no further hands, and a pointer drags no other body."""
    CONTACT: ClassVar[bool] = True
    """Whether `environment.method` decides what contacts do."""
    FIELDS: ClassVar[bool] = False
    """Whether the fields of a scene act in the worlds that it simulates."""
    TEXTURES: ClassVar[bool] = False
    """Whether the textures of shapes are felt in the worlds that it simulates."""

    BOOKS: ClassVar[bool] = False
    """Whether the surroundings can keep an energy balance of the bodies around the tool: they have `keep_books`."""

    LINK: ClassVar[str] = ""
    """MODULE:CLASS of what connects that with other programs, made by the environment's node and closed with it."""

    def build(self, context: EngineContext) -> ToolSide:
        """The tool among its surroundings, at the servo rate."""
        raise TypeError(f"{type(self).__name__}: does not answer at the servo rate")

    def simulator(self, context: EngineContext, scene: SceneParameters) -> Simulator:
        """Simulator of a `haptic_sim.World`, from the parameters of its scene."""
        raise TypeError(f"{type(self).__name__}: does not simulate worlds for programs")

    def surroundings(self, context: SurroundingsContext) -> Surroundings:
        """Surroundings that update a local model."""
        raise TypeError(f"{type(self).__name__}: does not survey for a local model")

    def links(self) -> tuple[Link, ...]:
        """Bodies that its world states have beside those of the scene, after them.

        Raises:
            ParameterError: a file is no longer there.
        """
        return ()

    def link_files(self) -> Mapping[str, ModelSource]:
        """Files in which these bodies may have visual meshes."""
        return {}

    def compiled(self, scene: SceneParameters) -> tuple[Any, Any] | None:
        """MuJoCo's model and data of a scene at its start, which a view draws; None: the view draws the world.

        Raises:
            ParameterError: a file is no longer there.
        """
        return None

    def check(self, experiment: Any) -> list[str]:
        """Conflicts with the other sections of an experiment."""
        scene = experiment.scene
        wanted = scene.ENGINE or ("" if self.SCENES else "haptics")
        if wanted not in ("", self.type):
            return [
                f"environment.engine = {self.type}: the scene {scene.type} is simulated by {wanted}; "
                f"set environment.engine={wanted}"
            ]
        problems = []
        if self.EXTERNAL and experiment.standalone:
            problems.append("device.type = none: environment.engine = external answers a controller; give a device")
        if experiment.hands and self.ONE_HAND:
            problems.append(f"environment.engine = {self.type}: supports one hand only; leave hands out")
        if experiment.asynchronous and not self.SURVEYS:
            problems.append(
                f"local_model.type = {experiment.local_model.type}: environment.engine = {self.type} answers at the "
                "servo rate, and feeds no local model; set local_model.type=none"
            )
        if not self.SERVO and not experiment.asynchronous:
            problems.append(
                f"local_model.type = {experiment.local_model.type}: what {self.LABEL or self.type} simulates is felt "
                "through a local model; set local_model.type=full"
            )
        elif not self.SERVO and experiment.environment.rate is None:
            problems.append(
                f"environment.rate = null: {self.LABEL or self.type}'s world needs one; set environment.rate=60"
            )
        return problems


ENGINES = Kind("engines", EngineParameters, by_name=True)
AnyEngineParameters = Annotated[EngineParameters, ENGINES]


class WorldSimulator:
    """Makes environments of a world; see `Simulator`."""

    def __init__(self, context: EngineContext):
        assert isinstance(context.start, WorldSetup)
        self._context, self._start = context, context.start
        self.q, self.v = self._start.q, self._start.v
        self.q_names, self.v_names = coordinate_names(self._start.model)
        self.q_limits = np.tile((-math.inf, math.inf), (len(self.q), 1))
        for law in self._start.laws:
            if law.limited:
                self.q_limits[law.position] = law.lower, law.upper

    def simulation(self, q: np.ndarray, v: np.ndarray) -> Environment:
        """Simulation that begins with a configuration and a velocity.

        Raises:
            ParameterError: they do not meet the constraints.
        """
        _, contact, method, integrator, _, device, rate, sleep = self._context
        start = replace(self._start, q=pin.normalize(self._start.model, q), v=v)
        try:
            return Environment(start, contact, method, device.rendering, device.limit(), rate, integrator, sleep)
        except ConstraintError as error:
            raise ParameterError([f"coordinates, velocities: {error}"]) from error


class HapticsParameters(EngineParameters):
    """The engine of this package; tools under exact constraints alone have solvers of their own."""

    SURVEYS: ClassVar[bool] = True
    PROGRAMS: ClassVar[bool] = True
    ONE_HAND: ClassVar[bool] = False
    FIELDS: ClassVar[bool] = True
    TEXTURES: ClassVar[bool] = True

    type: Literal["haptics"] = "haptics"

    def build(self, context: EngineContext) -> ToolSide:
        """The tool among its surroundings, at the servo rate."""
        start, contact, method, integrator, constraint, device, rate, sleep = context
        if not isinstance(start, WorldSetup):
            return ConstrainedTool(start, constraint, rate)
        return Environment(start, contact, method, device.rendering, device.limit(), rate, integrator, sleep)

    def simulator(self, context: EngineContext, scene: SceneParameters) -> WorldSimulator:
        """Simulator of a `haptic_sim.World`."""
        return WorldSimulator(context)

    def surroundings(self, context: SurroundingsContext) -> WorldSurroundings:
        """Surroundings that update a local model."""
        return WorldSurroundings(
            context.world,
            context.contact,
            context.method,
            epsilon=context.epsilon,
            horizon=context.horizon,
            rate=context.rate,
            period=context.period,
            following=context.following,
            wrench=context.wrench,
        )


def _of_mujoco(scene: SceneParameters) -> MujocoParameters:
    """The scene of the engine below, which simulates no other (`SCENES`)."""
    assert isinstance(scene, MujocoParameters)
    return scene


class MujocoEngineParameters(EngineParameters):
    """MuJoCo, for the scene of that type, felt through a local model; that scene needs and sets it."""

    LABEL: ClassVar[str] = "MuJoCo"
    SCENES: ClassVar[bool] = False
    SERVO: ClassVar[bool] = False
    SURVEYS: ClassVar[bool] = True
    PROGRAMS: ClassVar[bool] = True
    BOOKS: ClassVar[bool] = True

    type: Literal["mujoco"] = "mujoco"

    def compiled(self, scene: SceneParameters) -> tuple[Any, Any]:
        """MuJoCo's model and data of a scene at its start, with meshes as in its file: a view draws no pieces."""
        return load(_of_mujoco(scene).model_copy(update={"meshes": "hull"}))

    def simulator(self, context: EngineContext, scene: SceneParameters) -> MujocoSimulator:
        """Simulator of a `haptic_sim.World`: MuJoCo, which simulates the tool, too."""
        return MujocoSimulator(_of_mujoco(scene), context.rate)

    def surroundings(self, context: SurroundingsContext) -> MujocoSurroundings:
        """Surroundings that update a local model."""
        scene = _of_mujoco(context.scene)
        model, data, meshes = load_meshes(scene)
        return MujocoSurroundings(
            model,
            data,
            find_tool(model, data, scene),
            epsilon=context.epsilon,
            horizon=context.horizon,
            rate=context.rate,
            period=context.period,
            following=context.following,
            restitution=context.contact.restitution,
            meshes=(*meshes, *sampled_meshes(model)),
            wrench=context.wrench,
        )


class ExternalEngineParameters(EngineParameters):
    """A node of one's own, named environment, in place of ours; the scene says where its tool is at the start."""

    EXTERNAL: ClassVar[bool] = True
    OFFLINE: ClassVar[bool] = False

    type: Literal["external"] = "external"
