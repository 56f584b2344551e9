"""Simulated worlds for programs: a `Model` is what a file or data say, a `World` of it is advanced in steps."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike
from pydantic import ValidationError

from haptic_sim import inputs
from haptic_sim.constraints.scenes import ConstraintParameters
from haptic_sim.contact.response import UNLIMITED, ContactParameters
from haptic_sim.errors import HapticsError
from haptic_sim.parameters import ParameterError, Parameters, did_you_mean, explain, quantity
from haptic_sim.rotations import matrices
from haptic_sim.scenes import AnySceneParameters, ModelSource
from haptic_sim.snapshots import Snapshot
from haptic_sim.tool.engines import ENGINES, EngineContext
from haptic_sim.tool.environment import Environment as Environment
from haptic_sim.tool.parameters import EnvironmentParameters
from haptic_sim.tool.protocol import Simulation, Simulator
from haptic_sim.tool.tool_side import fields_of, textures_of, world_of
from haptic_sim.tool.world_state import Contact as Contact
from haptic_sim.worlds.file_trees import ModelFileError
from haptic_sim.worlds.loads import carry
from haptic_sim.worlds.model_files import ROOTS, SUFFIXES, last_link
from haptic_sim.worlds.packages import described
from haptic_sim.worlds.parameters import NAME, WORLD, FileParameters, HoldParameters, MujocoParameters
from haptic_sim.worlds.scenes import AnyToolParameters, NoToolParameters, tools_of
from haptic_sim.worlds.world_setup import WorldSetup

IGNORED_SECTIONS = (
    "name",
    "title",
    "source",
    "description",
    "duration",
    "operator",
    "hands",
    "device",
    "controller",
    "guard",
    "relay",
    "local_model",
    "health",
    "standard_topics",
    "packages",
    "analysis",
)
"""Keys of an experiment's file that do not describe its world."""


class WorldDocument(Parameters):
    """Description of a world in the file of an experiment."""

    rate: float = quantity(1000.0, unit="Hz", description="Steps a second", gt=0.0, le=20000.0)
    seed: int = quantity(0, description="Seed of where bodies are that have jitter", ge=0)
    tool: AnyToolParameters = quantity(NoToolParameters(), description="The virtual tool, if the scene has none")
    scene: AnySceneParameters = quantity(description="The virtual world")
    contact: ContactParameters = quantity(ContactParameters(), description="Material of the contacts")
    environment: EnvironmentParameters = quantity(EnvironmentParameters(), description="Simulation of the world")
    constraint: ConstraintParameters = quantity(
        ConstraintParameters(), description="Method that keeps exact constraints"
    )

    @property
    def hands(self) -> tuple[HoldParameters, ...]:
        """Further hands: none, a program applies one wrench."""
        return ()


@dataclass(frozen=True)
class Body:
    """Pose and motion of a body, in the axes of the world.

    Attributes:
        name: as in the file; bodies of a model file have its name and a slash in front.
        position, quaternion: of the body's axes [m], x y z w, (3,), (4,).
        velocity, angular_velocity: of the origin of its axes [m/s, rad/s], (3,), (3,).
    """

    name: str
    position: np.ndarray
    quaternion: np.ndarray
    velocity: np.ndarray
    angular_velocity: np.ndarray


class Model:
    """Model of a world from a file or data: bodies, joints, shapes, material, method and rate. It does not change.

        model = haptic_sim.load("arm.urdf", tool="hand")
        world, other = World(model), World(model)

    Args:
        scene: content of the section `scene` of an experiment; `type: world` is taken for granted where it is left out.
        contact, environment, tool: content of those sections, where the defaults will not do.
        rate: steps a second [Hz].
        folder: where the paths of files in the scene start from.
        seed: of where bodies are with `jitter`.

    Raises:
        ParameterError: one line for each problem, with key, value and what is allowed.
    """

    def __init__(
        self,
        scene: Mapping[str, Any],
        *,
        contact: Mapping[str, Any] | None = None,
        environment: Mapping[str, Any] | None = None,
        tool: Mapping[str, Any] | None = None,
        rate: float = 1000.0,
        folder: str | os.PathLike[str] = ".",
        seed: int = 0,
    ):
        sections = {"contact": contact, "environment": environment, "tool": tool}
        inputs.require_mapping("scene", scene)
        for name, section in sections.items():
            if section is not None:
                inputs.require_mapping(name, section)
        inputs.require_path("folder", folder)
        given = {name: dict(section) for name, section in sections.items() if section is not None}
        self._build({"rate": rate, "seed": seed, "scene": {"type": "world", **scene}, **given}, Path(folder))

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str]) -> Model:
        """The world of an experiment's file; its operator, device and controller are left out.

        Raises:
            ParameterError: as above, or it cannot be read.
        """
        inputs.require_path("path", path)
        document = inputs.read_mapping(path)
        model = cls.__new__(cls)
        model._build({key: value for key, value in document.items() if key not in IGNORED_SECTIONS}, Path(path).parent)
        return model

    def _build(self, document: dict[str, Any], folder: Path) -> None:
        try:
            sections = WorldDocument.model_validate(document)
        except ValidationError as error:
            raise ParameterError(explain(error, WorldDocument)) from error
        if sections.tool.type not in tools_of(sections.scene):
            allowed = " or ".join(tools_of(sections.scene))
            raise ParameterError([f"tool.type = {sections.tool.type}: the scene {sections.scene.type} takes {allowed}"])
        scene, engine = sections.scene, sections.environment.engine
        if scene.ENGINE and engine.type != scene.ENGINE:
            engine = ENGINES.find(scene.ENGINE)()
        if not engine.PROGRAMS:
            reason = "does not simulate worlds for programs; leave it out, or take haptic_bench.Loop"
            raise ParameterError([f"environment.engine = {engine.type}: {reason}"])
        if fields_of(scene) and not engine.FIELDS:
            raise ParameterError(
                [f"scene.fields: environment.engine = {engine.type} lets no fields act; leave them out"]
            )
        if not engine.TEXTURES and (textures := textures_of(scene)):
            reason = f"environment.engine = {engine.type} has no textures; leave it out"
            raise ParameterError(f"scene.{key}.texture: {reason}" for key in textures)
        scene = scene.placed(folder)
        environment = sections.environment.model_copy(update={"engine": engine})
        sections = sections.model_copy(update={"scene": scene, "environment": environment})
        self._start = world_of(sections)
        if not scene.ENGINE:
            contact = carry(sections.contact, self._start, sections.rate, rigid=environment.method.RIGID)
            sections = sections.model_copy(update={"contact": contact})
        self._sections = sections
        method, integrator = sections.environment.method, sections.environment.integrator
        context = EngineContext(
            self._start,
            sections.contact,
            method,
            integrator,
            sections.constraint,
            UNLIMITED,
            sections.rate,
            sections.environment.sleep,
        )
        self._simulator: Simulator = engine.simulator(context, scene)

    def __repr__(self) -> str:
        if not hasattr(self, "_start"):  # its construction failed: debuggers show it
            return f"{type(self).__name__}(not built)"
        return f"{type(self).__name__}{str(self._start)[len('WorldSetup') :]}"

    @property
    def rate(self) -> float:
        """Steps a second [Hz]."""
        return self._sections.rate

    @property
    def model(self) -> Model:
        """The model: this one, as that of a `World`."""
        return self

    @property
    def start(self) -> WorldSetup:
        """Bodies and shapes of the model at the start, to make an `Environment` of."""
        return self._start

    @property
    def sections(self) -> WorldDocument:
        """Sections that the model was made from, as parameters, with the defaults and with absolute paths of files."""
        return self._sections

    @property
    def pinocchio(self) -> pin.Model:
        """A copy of the model of its joints and inertias for Pinocchio, with the hand as the frame `hand`.

        Of a MuJoCo scene, it has the tool's linkage alone.
        """
        return self._start.model.copy()

    @property
    def bodies(self) -> tuple[str, ...]:
        """Names of all bodies, also of those that do not move."""
        return tuple(self._start.moving)

    @property
    def coordinates(self) -> dict[str, float]:
        """Configuration at the start by the names of its coordinates [m, rad], in the order of its engine.

        That is Pinocchio's, or MuJoCo's. A free body is given by its centre of mass here, by its origin in MuJoCo.
        """
        return dict(zip(self._simulator.q_names, self._simulator.q.tolist(), strict=True))

    @property
    def velocities(self) -> dict[str, float]:
        """Velocities at the start by their names, in the order of its engine [m/s, rad/s]."""
        return dict(zip(self._simulator.v_names, self._simulator.v.tolist(), strict=True))

    def simulation(
        self, coordinates: Mapping[str, float] | None = None, velocities: Mapping[str, float] | None = None
    ) -> Simulation:
        """A simulation of its own state, with some other coordinates [m, rad] and velocities [m/s, rad/s] at the start.

        Raises:
            ParameterError: a name is unknown, a value is no finite number or outside of its limits, or they do not
                meet the constraints.
        """
        simulator = self._simulator
        q = _replaced("coordinates", simulator.q_names, simulator.q, coordinates)
        for name in coordinates or ():
            i = simulator.q_names.index(name)
            lower, upper = simulator.q_limits[i]
            if not lower <= q[i] <= upper:
                raise ParameterError([f"coordinates.{name} = {q[i]:g}: must be in [{lower:g}, {upper:g}], its limits"])
        v = _replaced("velocities", simulator.v_names, simulator.v, velocities)
        return simulator.simulation(q, v)

    def generalised(self, forces: Mapping[str, float] | None) -> np.ndarray:
        """Forces and torques of joints [N, N m] by the names of the velocities as an array (nv,), zero where left out.

        Raises:
            ParameterError: a name is unknown, or a value is no finite number.
        """
        return _replaced("forces", self._simulator.v_names, np.zeros(len(self._simulator.v_names)), forces)


def _replaced(key: str, names: tuple[str, ...], values: np.ndarray, given: Mapping[str, float] | None) -> np.ndarray:
    """The values with those given by name.

    Raises:
        ParameterError: a name is unknown, or a value is no finite number.
    """
    result = values.copy()
    for name, value in (given or {}).items():
        if name not in names:
            raise ParameterError([f"{key}.{name}: unknown{did_you_mean(name, names)}"])
        result[names.index(name)] = _finite(f"{key}.{name}", value, ())
    return result


def _finite(name: str, value: ArrayLike, shape: tuple[int, ...], what: str = "a finite number") -> np.ndarray:
    """Finite numbers as an array of a shape.

    Raises:
        ParameterError: they are none, or have another shape.
    """
    try:
        array = np.array(value, float)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    if array.shape != shape or not np.isfinite(array).all():
        raise ParameterError([f"{name} = {value!s}: must be {what}"])
    return array


def load(
    path: str | os.PathLike[str],
    *,
    tool: str | None = None,
    base: Literal["fixed", "free"] | None = None,
    engine: str = "haptics",
    **keys: Any,
) -> Model:
    """The model of a file: an experiment (.yaml), or a robot or a scene (.urdf, .xml, .xacro, .sdf or .world).

        arm = haptic_sim.load("arm.urdf", tool="hand", gravity_compensation=True, rate=2000.0)
        arm = haptic_sim.load("ur.urdf.xacro", args={"ur_type": "ur5e"})

    Args:
        path: of the file, or `robot://NAME`, a robot of the package robot_descriptions. An experiment's operator,
            device and controller are left out.
        tool: the link that is held, not for experiments; left out: the last one of the file that moves.
        base: whether what the file fixes to the world is fixed, as it is if left out, or free, as a quadrotor.
        engine: what simulates the world of the file: `haptics`, or `mujoco`, whose files say what is fixed.
        keys: further arguments of `Model`, and keys of `scene.files.NAME` (`args`, `packages`, `gravity_compensation`,
            `position`, ...), or with MuJoCo those of its scene (`actuators`, ...).

    Raises:
        ParameterError: it cannot be read, or cannot be simulated; one line for each problem.
    """
    inputs.require_path("path", path)
    named = os.fspath(path)
    try:
        file = described(named) or Path(named)
    except ModelFileError as error:
        raise ParameterError([f"path = {named}{problem}" for problem in error.problems]) from error
    if file.suffix in (".yaml", ".yml"):
        given = {"tool": tool is not None, "base": base is not None, "engine": engine != "haptics"}
        if names := ", ".join([name for name, is_given in given.items() if is_given] + list(keys)):
            raise ParameterError([f"{names}: must be left out for an experiment, whose file gives them"])
        return Model.from_yaml(file)
    if file.suffix not in ROOTS:
        raise ParameterError([f"path = {file}: must end in .yaml (experiment), {SUFFIXES}"])
    if engine not in ("haptics", "mujoco"):
        raise ParameterError([f"engine = {engine}: must be haptics or mujoco"])
    if engine == "mujoco" and base is not None:
        raise ParameterError([f"base = {base}: must be left out with engine = mujoco: its file fixes the bodies"])
    of_scene: type[Parameters] = MujocoParameters if engine == "mujoco" else FileParameters
    known = [name for name in of_scene.model_fields if name not in ("type", "file", "path", "base", "tool")]
    for name in keys:
        if name not in known and name not in _OF_MODEL:
            raise ParameterError(
                [f"{name}: unknown{did_you_mean(name, ('tool', 'base', 'engine', *_OF_MODEL, *known))}"]
            )
    arguments = {name: value for name, value in keys.items() if name in _OF_MODEL}
    of_file = {name: value for name, value in keys.items() if name not in _OF_MODEL}
    of_file |= {"path": str(file.absolute())} | ({} if base is None or engine == "mujoco" else {"base": base})
    held = _last_link(of_file) if tool is None else tool
    if engine == "mujoco":
        of_file.pop("path")
        return Model({"type": "mujoco", "file": str(file.absolute()), "tool": held, **of_file}, **arguments)
    stem = file.stem.removesuffix(".urdf").removesuffix(".sdf") if file.suffix == ".xacro" else file.stem
    name = re.sub(r"[^A-Za-z0-9_-]", "_", stem)
    name = name if NAME.fullmatch(name) and name != WORLD else f"model_{name}"
    return Model({"files": {name: of_file}, "tool": f"{name}/{held}"}, **arguments)


_OF_MODEL = ("contact", "environment", "rate", "folder", "seed")


def _last_link(of_file: Mapping[str, Any]) -> str:
    """The link that is held where none is named, of a file with these keys.

    Raises:
        ParameterError: none moves.
    """
    try:
        packages = tuple(map(Path, of_file.get("packages", ())))
        source = ModelSource(Path(of_file["path"]), of_file.get("args", {}), packages)
        found = last_link(source, free=of_file.get("base") == "free")
    except (HapticsError, OSError, TypeError):
        return ""  # `Model` says what is wrong with the file
    if not found:
        raise ParameterError([f"path = {source.path}: none of its links moves; base='free' lets the whole of it move"])
    return found


class World:
    """A world of rigid bodies that is advanced step by step under a wrench on its tool, and forces on what else moves.

    What its properties return are copies: they stay as they are when the world moves on.

        world = World.from_yaml("my_peg.yaml")
        for _ in range(1000):
            world.step([0.0, 0.0, -2.0, 0.0, 0.0, 0.0])
        print(world.time, world.bodies["peg"].position, [contact.force for contact in world.contacts])

    Args:
        scene: a `Model`, or the first argument of one; the others are its further arguments, and left out with a model.

    Raises:
        ParameterError: one line for each problem, with key, value and what is allowed.
    """

    def __init__(
        self,
        scene: Mapping[str, Any] | Model,
        *,
        contact: Mapping[str, Any] | None = None,
        environment: Mapping[str, Any] | None = None,
        tool: Mapping[str, Any] | None = None,
        rate: float | None = None,
        folder: str | os.PathLike[str] | None = None,
        seed: int | None = None,
    ):
        sections = {"contact": contact, "environment": environment, "tool": tool}
        keys: dict[str, Any] = sections | {"rate": rate, "folder": folder, "seed": seed}
        keys = {name: value for name, value in keys.items() if value is not None}
        if isinstance(scene, Model) and keys:
            raise ParameterError(f"{name}: belongs to the model, which is given: give it to that" for name in keys)
        self.model = scene if isinstance(scene, Model) else Model(scene, **keys)
        self._begin(self.model.simulation())
        self._initial = self._core.snapshot()

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str]) -> World:
        """The world of an experiment's file; its operator, device and controller are left out.

        Raises:
            ParameterError: as above, or it cannot be read.
        """
        return cls(Model.from_yaml(path))

    def __repr__(self) -> str:
        if not hasattr(self, "_core"):  # as above
            return "World(not built)"
        return f"World({repr(self.model)[len('Model(') : -1]}, t = {self.time:g} s)"

    def _begin(self, core: Simulation) -> None:
        self._core = core
        self._tool = core.state
        self._state = core.observer.world_state()
        self._observed = -2

    def step(
        self,
        wrench: ArrayLike | None = None,
        *,
        wrenches: Mapping[str, ArrayLike] | None = None,
        forces: Mapping[str, float] | None = None,
    ) -> None:
        """Advance by 1/rate.

        Args:
            wrench: force and torque on the tool at the point where it is held, in the axes of the world [N, N m], (6,);
                none if left out.
            wrenches: the same on bodies by their names, at the origins of their axes.
            forces: generalised forces by the names of the velocities: forces and torques of joints [N, N m].

        Raises:
            ParameterError: a name is unknown, or does not move; a value is not (six) finite numbers.
            UnstableError: discrete time has added more energy than was supplied.
        """
        core = self._core
        named = {name: self._number(name) for name in wrenches or {}}
        acting = [
            (number, _finite(f"wrenches.{name}", wrenches[name], (6,), "six finite numbers: force [N], torque [N m]"))
            for name, number in named.items()
            if wrenches
        ]
        generalised = self.model.generalised(forces)
        if wrench is not None:
            wrench = _finite("wrench", wrench, (6,), "six finite numbers: force [N], torque [N m]")
        for number, one in acting:
            core.pull(number, one)
        if forces:
            core.load(generalised)
        core.advance(wrench)

    def _number(self, name: str) -> int:
        """Number of a body that moves.

        Raises:
            ParameterError: it is unknown, or does not move.
        """
        start = self.model.start
        moving = start.moving
        if name not in moving:
            raise ParameterError([f"body {name!r}: unknown{did_you_mean(name, moving)}"])
        if not (moving[name] or name in start.elsewhere):
            raise ParameterError([f"body {name!r}: does not move"])
        return list(moving).index(name)

    @property
    def state(self) -> Snapshot:
        """All that decides how it goes on: bodies, contacts, energies and time. Set it to go back, bit by bit.

            state = world.state
            ...
            world.state = state

        Raises:
            ParameterError: it is set to the state of a world of another model.
        """
        return self._core.snapshot()

    @state.setter
    def state(self, state: Snapshot) -> None:
        try:
            self._core.restore(state)
        except ValueError as error:
            raise ParameterError([f"state: {error}; it must be of a world of the same model"]) from error
        self._observed = -2

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled, and copied by the module `copy`, as its model and its state."""
        return _world_in, (self.model, self.state)

    def copy(self) -> World:
        """Another world of the same model in the same state, which goes on by itself."""
        return _world_in(self.model, self.state)

    def reset(
        self, coordinates: Mapping[str, float] | None = None, velocities: Mapping[str, float] | None = None
    ) -> None:
        """Go back to the start, at time 0; with some other coordinates [m, rad] and velocities [m/s, rad/s] by name.

        Raises:
            ParameterError: a name is unknown, a value is no finite number or outside of its limits, or they do not
                meet the constraints.
        """
        if coordinates or velocities:
            self._begin(self.model.simulation(coordinates, velocities))
        else:
            self.state = self._initial

    def jacobian(self, body: str, point: ArrayLike = (0.0, 0.0, 0.0)) -> np.ndarray:
        """Jacobian of the twist at a point of a body, by the velocities, (6, nv): linear, then angular, in world axes.

        Args:
            body: that moves.
            point: in the axes of the body [m], (3,).

        Raises:
            ParameterError: the body is unknown or does not move, or the point is not three finite numbers.
        """
        jacobian = self._core.jacobian(self._number(body))
        moved: np.ndarray = self._moved(body, point) @ jacobian
        return moved

    def mobility(self, body: str, point: ArrayLike = (0.0, 0.0, 0.0)) -> np.ndarray:
        """Inverse inertia of a body at a point of it, under exact constraints, too, (6, 6) [1/kg, 1/(kg m), ...].

        What a wrench there, in world axes, does to the acceleration of the twist there. Arguments as of `jacobian`.

        Raises:
            ParameterError: as of `jacobian`.
        """
        mobility = self._core.mobility(self._number(body))
        X = self._moved(body, point)
        mobility = X @ mobility @ X.T
        return mobility

    def _moved(self, body: str, point: ArrayLike) -> np.ndarray:
        """Matrix (6, 6) that takes a twist at the origin of a body's axes to one at a point of the body."""
        p_B = _finite("point", point, (3,), "three finite numbers [m]")
        R = matrices(self.bodies[body].quaternion[None])[0]
        x, y, z = R @ p_B
        X = np.eye(6)
        X[:3, 3:] = [[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]]
        return X

    @property
    def rate(self) -> float:
        """Steps a second [Hz]."""
        return self.model.rate

    @property
    def start(self) -> WorldSetup:
        """Bodies and shapes of the world at the start, to make an `Environment` of."""
        return self.model.start

    @property
    def time(self) -> float:
        """Since the start [s]."""
        return self._core.time

    @property
    def bodies(self) -> dict[str, Body]:
        """All bodies by name, also those that do not move."""
        state = self._observe()
        return {
            name: Body(name, pose[:3], pose[3:], twist[:3], twist[3:])
            for name, pose, twist in zip(state.bodies, state.poses.copy(), state.twists.copy(), strict=True)
        }

    @property
    def fields(self) -> dict[str, dict[str, float]]:
        """Energy that each field stores, and that it dissipated, supplied and got by switching since the start [J]."""
        return self._core.fields

    def switch(self, strengths: Mapping[str, float]) -> None:
        """Let fields fade to a part of their strength, from 0 to 1, by name; those that are not named to all of it.

        Raises:
            ParameterError: there is no such field, or a strength is not from 0 to 1.
        """
        self._core.switch(strengths)

    @property
    def contacts(self) -> list[Contact]:
        """Contacts in the last step; empty before the first."""
        return self._core.contacts

    @property
    def wrench(self) -> np.ndarray:
        """Wrench of the world on the tool in the last step, at the hand point [N, N m], (6,)."""
        return self._tool.wrench.copy()

    @property
    def pose(self) -> np.ndarray:
        """Pose of the tool at the hand point: position [m], quaternion x y z w, (7,)."""
        return self._tool.pose.copy()

    @property
    def twist(self) -> np.ndarray:
        """Twist of the tool at the hand point [m/s, rad/s], (6,)."""
        return self._tool.twist.copy()

    @property
    def coordinates(self) -> dict[str, float]:
        """Configuration by the names of its coordinates [m, rad]."""
        state = self._observe()
        return dict(zip(state.q_names, state.q.tolist(), strict=True))

    @property
    def velocities(self) -> dict[str, float]:
        """Velocities by their names [m/s, rad/s]."""
        state = self._observe()
        return dict(zip(state.v_names, state.v.tolist(), strict=True))

    @property
    def energy(self) -> dict[str, float]:
        """Energy of the world at the beginning of the last step, and its balance since the start [J].

        kinetic + potential + elastic = their sum at the start + injected - damping - friction - impact + numerical

        from the first step on; before it all are zero.

        Of a MuJoCo scene at the beginning of MuJoCo's last step; `haptic_sim.tool.mujoco_books` says what is in a term.
        """
        return self._core.energy

    def _observe(self) -> Any:
        """The state with the bodies as they are."""
        if self._observed != self._tool.tick:
            self._core.observer.observe_bodies(self._state)
            self._observed = self._tool.tick
        return self._state


def _world_in(model: Model, state: Snapshot) -> World:
    """A world of a model in a state."""
    world = World(model)
    world.state = state
    return world
