"""What answers the controller: the environment itself, the local model that it feeds, or a constrained tool."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from haptic_sim.constrained_scene import CONSTRAINED, ConstraintParameters, build_setup
from haptic_sim.constrained_tool import build_constrained_tool, initial_hand_pose
from haptic_sim.contact.response import ContactParameters, DeviceLimits
from haptic_sim.environment import Environment, EnvironmentParameters
from haptic_sim.local_model import LocalModel
from haptic_sim.messages import ToolCommand, ToolSizes, ToolState
from haptic_sim.parameters import ParameterError
from haptic_sim.scene import build_world
from haptic_sim.worlds import World


class ToolSide(Protocol):
    """Environment, LocalModel or ConstrainedTool; the controller cannot tell which."""

    def rehearse(self) -> None: ...

    def configure(self, contact: ContactParameters) -> None: ...

    def tool_state(self) -> ToolState: ...

    def prepare(self) -> None: ...

    def step(self, command: ToolCommand, state: ToolState) -> None: ...


class ToolSections(Protocol):
    """The sections of an experiment that describe the tool's side; nodes have them as parameters of the same names."""

    @property
    def tool(self) -> Any: ...

    @property
    def scene(self) -> Any: ...

    @property
    def contact(self) -> ContactParameters: ...

    @property
    def environment(self) -> EnvironmentParameters: ...

    @property
    def constraint(self) -> ConstraintParameters: ...


def is_constrained(sections: ToolSections) -> bool:
    """Whether the scene is a tool under exact constraints alone, without a world."""
    return isinstance(sections.scene, CONSTRAINED)


def world_of(sections: ToolSections) -> World:
    """The virtual world at its start.

    Raises:
        ParameterError: it cannot be built, or there is none.
    """
    if is_constrained(sections):
        raise ParameterError(
            [f"scene.type = {sections.scene.type}: is a tool under exact constraints, without a world"]
        )
    return build_world(sections.tool, sections.scene, sections.contact, sections.environment.method)


def build_tool_side(
    sections: ToolSections, device: DeviceLimits, rate: float, *, local: bool = False, world: World | None = None
) -> ToolSide:
    """What answers the controller at the servo rate [Hz].

    Args:
        sections: of the experiment.
        device: what it can render.
        rate: of the servo.
        local: whether it is a local model, fed by an environment elsewhere.
        world: that of the sections, where it is built already.

    Raises:
        ParameterError: it cannot be built; names what is wrong.
    """
    if is_constrained(sections):
        return build_constrained_tool(sections.scene, sections.constraint, rate)
    build = build_local_model if local else build_environment
    return build(world or world_of(sections), sections.contact, sections.environment, device, rate)


def tool_sizes(sections: ToolSections) -> ToolSizes:
    """Of the virtual tool.

    Raises:
        ParameterError: it cannot be built.
    """
    if is_constrained(sections):
        constrained = build_setup(sections.scene, sections.constraint).constrained
        return ToolSizes(constrained.n, constrained.n, constrained.m)
    return world_of(sections).tool_sizes()


def hand_of(sections: ToolSections) -> tuple[np.ndarray, bool]:
    """Pose [m, quat_xyzw] (7,) in which the virtual tool is held at the start, and whether it moves in the plane z = 0.

    Raises:
        ParameterError: it cannot be built.
    """
    if is_constrained(sections):
        setup = build_setup(sections.scene, sections.constraint)
        return initial_hand_pose(setup), setup.planar
    world = world_of(sections)
    return world.hand_pose(), world.planar


def build_environment(
    world: World, contact: ContactParameters, environment: EnvironmentParameters, device: DeviceLimits, rate: float
) -> Environment:
    """A synchronous environment at the servo rate [Hz]."""
    return Environment(world, contact, environment.method, device.impulse_rendering, device.limit(), rate)


def build_local_model(
    world: World, contact: ContactParameters, environment: EnvironmentParameters, device: DeviceLimits, rate: float
) -> LocalModel:
    """A local model at the servo rate [Hz], with the environment's contact method."""
    return LocalModel(world, contact, environment.method, device.impulse_rendering, device.limit(), rate)
