"""A simulated world for programs: made from a file or from data, and advanced step by step."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from pydantic import ValidationError

from haptic_sim import inputs
from haptic_sim.constraints.scenes import ConstraintParameters
from haptic_sim.contact.response import UNLIMITED, ContactParameters
from haptic_sim.parameters import ParameterError, Parameters, explain, quantity
from haptic_sim.scenes import AnySceneParameters
from haptic_sim.tool.environment import Environment as Environment
from haptic_sim.tool.environment import EnvironmentParameters
from haptic_sim.tool.tool_side import build_environment, world_of
from haptic_sim.tool.world_state import Contact as Contact
from haptic_sim.worlds import building
from haptic_sim.worlds.building import with_absolute_paths
from haptic_sim.worlds.parameters import HoldParameters, MujocoParameters, WorldParameters
from haptic_sim.worlds.scenes import AnyToolParameters, NoToolParameters, tools_of

ELSEWHERE = (
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
    """What describes a world in the file of an experiment."""

    rate: float = quantity(1000.0, unit="Hz", description="Steps a second", gt=0.0, le=20000.0)
    seed: int = quantity(0, description="Seed of where bodies are that have jitter", ge=0)
    tool: AnyToolParameters = quantity(NoToolParameters(), description="The virtual tool, if the scene has none")
    scene: AnySceneParameters = quantity(description="The virtual world")
    contact: ContactParameters = quantity(ContactParameters(), description="Material of the contacts")
    environment: EnvironmentParameters = quantity(EnvironmentParameters(), description="How the world is simulated")
    constraint: ConstraintParameters = quantity(ConstraintParameters(), description="How exact constraints are kept")

    @property
    def hands(self) -> tuple[HoldParameters, ...]:
        """Further hands: none, a program applies one wrench."""
        return ()


@dataclass(frozen=True)
class Body:
    """Where a body is and how it moves, in the axes of the world.

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


class World:
    """A world of rigid bodies that is advanced step by step under a wrench on its tool.

    What its properties return are copies: they stay as they are when the world moves on.

        world = World.from_yaml("my_peg.yaml")
        for _ in range(1000):
            world.step([0.0, 0.0, -2.0, 0.0, 0.0, 0.0])
        print(world.time, world.bodies["peg"].position, [contact.force for contact in world.contacts])

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
        given = {name: dict(section) for name, section in sections.items() if section is not None}
        self._build({"rate": rate, "seed": seed, "scene": {"type": "world", **scene}, **given}, Path(folder))

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str]) -> World:
        """The world of an experiment's file; its operator, device and controller are left out.

        Raises:
            ParameterError: as above, or it cannot be read.
        """
        document = inputs.read_mapping(path)
        world = cls.__new__(cls)
        world._build({key: value for key, value in document.items() if key not in ELSEWHERE}, Path(path).parent)
        return world

    def _build(self, document: dict[str, Any], folder: Path) -> None:
        try:
            sections = WorldDocument.model_validate(document)
        except ValidationError as error:
            raise ParameterError(explain(error, WorldDocument)) from error
        if sections.tool.type not in tools_of(sections.scene):
            allowed = " or ".join(tools_of(sections.scene))
            raise ParameterError([f"tool.type = {sections.tool.type}: the scene {sections.scene.type} takes {allowed}"])
        if isinstance(sections.scene, MujocoParameters):
            reason = "MuJoCo simulates it; in a program, take haptic_sim.tool.haptic_tool.HapticTool"
            raise ParameterError([f"scene.type = mujoco: {reason}"])
        if isinstance(sections.scene, WorldParameters):
            scene = with_absolute_paths(sections.scene, folder)
            sections = sections.model_copy(update={"scene": scene})
        self.rate = sections.rate
        self._start = world_of(sections)
        self._core = build_environment(self._start, sections.contact, sections.environment, UNLIMITED, sections.rate)
        self._tool = self._core.state
        self._state = self._core.observer.world_state()
        self._observed = -1

    def step(self, wrench: ArrayLike | None = None) -> None:
        """Advance by 1/rate.

        Args:
            wrench: force and torque on the tool at the point where it is held, in the axes of the world [N, N m], (6,);
                none if left out.

        Raises:
            ParameterError: it is not six finite numbers.
        """
        self._core.advance(wrench)

    @property
    def start(self) -> building.World:
        """Its bodies and shapes at the start, to make an `Environment` of."""
        return self._start

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
    def contacts(self) -> list[Contact]:
        """What touched in the last step; empty before the first."""
        return self._core.contacts

    @property
    def wrench(self) -> np.ndarray:
        """Of the world on the tool in the last step, where it is held [N, N m], (6,)."""
        return self._tool.wrench.copy()

    @property
    def pose(self) -> np.ndarray:
        """Of the tool where it is held: position [m], quaternion x y z w, (7,)."""
        return self._tool.pose.copy()

    @property
    def twist(self) -> np.ndarray:
        """Of the tool where it is held [m/s, rad/s], (6,)."""
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
        """Where the energy is at the beginning of the last step, and where it went since the start [J].

        kinetic + potential + elastic = their sum at the start + injected - damping - friction - impact + numerical
        """
        return self._core.energy

    def _observe(self) -> Any:
        """The state with the bodies as they are."""
        if self._observed != self._tool.tick or self._tool.tick < 0:
            self._core.observer.observe_bodies(self._state)
            self._observed = self._tool.tick
        return self._state
