"""The tool's side of a trial, built from its sections: environment, local model, or a constrained tool alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pinocchio as pin

from haptic_sim.constraints.scenes import ConstraintParameters, build_setup
from haptic_sim.constraints.tool import ConstrainedTool, initial_hand_pose
from haptic_sim.contact.response import ContactParameters, DeviceLimits
from haptic_sim.dynamics.loose import joint_placements
from haptic_sim.fields.acting import switch_problems
from haptic_sim.messages import ToolSizes
from haptic_sim.parameters import ParameterError
from haptic_sim.scenes import SceneParameters
from haptic_sim.tool.engines import EngineContext, Start, SurroundingsContext
from haptic_sim.tool.environment import Environment
from haptic_sim.tool.local_model import LocalModelContext, LocalModelParameters
from haptic_sim.tool.parameters import EnvironmentParameters
from haptic_sim.tool.protocol import LocalModelCore, ToolSide
from haptic_sim.tool.surroundings import Surroundings
from haptic_sim.worlds.isolated import held_joints
from haptic_sim.worlds.parameters import HoldParameters
from haptic_sim.worlds.scenes import AnyToolParameters, build_world
from haptic_sim.worlds.world_setup import WorldSetup


class ToolSections(Protocol):
    """The sections of an experiment that describe the tool's side; nodes have them as parameters of the same names."""

    @property
    def seed(self) -> int: ...

    @property
    def hands(self) -> Sequence[HoldParameters]: ...

    @property
    def tool(self) -> AnyToolParameters: ...

    @property
    def scene(self) -> SceneParameters: ...

    @property
    def contact(self) -> ContactParameters: ...

    @property
    def environment(self) -> EnvironmentParameters: ...

    @property
    def constraint(self) -> ConstraintParameters: ...


class LocalSections(ToolSections, Protocol):
    """Sections of an experiment with a local model."""

    @property
    def local_model(self) -> LocalModelParameters: ...


def is_constrained(sections: ToolSections) -> bool:
    """Whether the scene is a tool under exact constraints alone, without a world."""
    return bool(sections.scene.CONSTRAINED)


def build_start(sections: ToolSections) -> Start:
    """Build the start of the tool's side.

    Raises:
        ParameterError: it cannot be built.
    """
    if is_constrained(sections):
        return build_setup(sections.scene, sections.constraint)
    method = sections.environment.method
    hands = sections.hands
    world = build_world(sections.tool, sections.scene, sections.contact, method, seed=sections.seed, hands=hands)
    return with_strengths(world, sections.environment.fields)


def fields_of(scene: Any) -> Mapping[str, Any]:
    """The fields that a scene has among its keys, by name."""
    fields: Mapping[str, Any] = getattr(scene, "fields", {})
    return fields


def textures_of(scene: Any) -> dict[str, Any]:
    """The textures that the shapes of a scene have, by the keys of their shapes below `scene`."""
    return {
        f"bodies.{name}.shapes[{i}]": shape.texture
        for name, body in getattr(scene, "bodies", {}).items()
        for i, shape in enumerate(getattr(body, "shapes", ()))
        if not shape.texture.ABSENT
    }


def with_strengths(world: WorldSetup, strengths: Mapping[str, float]) -> WorldSetup:
    """The same world, its fields of some strengths at the start, by name.

    Raises:
        ParameterError: there is no such field.
    """
    if problems := list(switch_problems(strengths, [one.name for one in world.force_fields])):
        raise ParameterError(problems)
    if not strengths:
        return world
    return replace(
        world, force_fields=tuple(replace(one, level=strengths.get(one.name, 1.0)) for one in world.force_fields)
    )


def world_of(sections: ToolSections, start: Start | None = None) -> WorldSetup:
    """The virtual world at its start.

    Args:
        sections: of the experiment.
        start: what they start from, where it is built already.

    Raises:
        ParameterError: it cannot be built, or there is none.
    """
    world = build_start(sections) if start is None else start
    if not isinstance(world, WorldSetup):
        raise ParameterError(
            [f"scene.type = {sections.scene.type}: is a tool under exact constraints, without a world"]
        )
    return world


def build_tool_side(
    sections: ToolSections, device: DeviceLimits, rate: float, *, start: Start | None = None
) -> ToolSide:
    """Build the part that answers the controller at the servo rate [Hz], without a local model.

    Args:
        sections: of the experiment.
        device: what it can render.
        rate: of the servo.
        start: what the sections start from, where it is built already.

    Raises:
        ParameterError: it cannot be built; names what is wrong.
    """
    start = build_start(sections) if start is None else start
    environment = sections.environment
    method, integrator = environment.method, environment.integrator
    context = EngineContext(
        start, sections.contact, method, integrator, sections.constraint, device, rate, environment.sleep
    )
    return environment.engine.build(context)


def tool_sizes(start: Start) -> ToolSizes:
    """Sizes of the state of the virtual tool."""
    if isinstance(start, WorldSetup):
        return start.tool_sizes()
    constrained = start.system
    return ToolSizes(constrained.n, constrained.n, constrained.m)


def hand_pose(start: Start) -> np.ndarray:
    """Pose [m, quat_xyzw] (7,) in which the virtual tool is held at the start."""
    return start.hand_pose() if isinstance(start, WorldSetup) else initial_hand_pose(start)


def hand_mobility(start: Start, constraint: ConstraintParameters, rate: float) -> np.ndarray:
    """Inverse inertia of the tool at the hand at the start, in world axes (6, 6) [1/kg, 1/(kg m), 1/(kg m^2)].

    Raises:
        ParameterError: the tool cannot be built.
    """
    if isinstance(start, WorldSetup):
        return start.hand_mobility()
    return ConstrainedTool(start, constraint, rate).tool_state().inverse_inertia.reshape(6, 6).copy()


def hand_inertia(start: Start) -> tuple[float, float]:
    """Mass [kg] and inertia [kg m^2] that the tool opposes to the hand at the start, the mean over the directions.

    That of (J D^-1 J^T)^-1, so that of all motions of one speed, and of all rotations of one rate, a body of this mass
    and inertia has the kinetic energy that the tool has on average. For a free body these are its mass, and the mean
    of its moments of inertia about the hand point.

    Raises:
        ParameterError: the tool opposes an infinite inertia, as it cannot move in every direction.
    """
    if not isinstance(start, WorldSetup):
        raise ParameterError(["exact constraints block it"])
    axes = [0, 1, 5] if start.planar else list(range(6))
    J, D = start.hand_dynamics()
    J = J[axes]
    free = int(np.count_nonzero(np.linalg.svd(J, compute_uv=False) > start.rank_tolerance))
    if free < len(axes):
        raise ParameterError([f"its linkage blocks {len(axes) - free} of the {len(axes)} directions"])
    if J.shape[0] == J.shape[1]:  # as of a free body, whose mass is not to be rounded
        inertia = np.linalg.solve(J.T, np.linalg.solve(J.T, D).T)
    else:
        inertia = np.linalg.inv(J @ np.linalg.solve(D, J.T))
    moments = np.diag(inertia)
    turns = moments[axes.index(5) if start.planar else 3 :]
    return _mean(moments[: len(axes) - len(turns)]), _mean(turns)


def device_inertia(start: Start) -> tuple[float, float]:
    """Mass [kg] and inertia [kg m^2] of a device that is to be like the tool: the same in every direction.

    Those that the tool opposes to the hand (`hand_inertia`), and at most those of its linkage as one rigid body: where
    joints hold the hand in a direction, or nearly so, the tool opposes an infinite or a huge inertia there.

    Raises:
        ParameterError: exact constraints block it.
    """
    rigid = _rigid_inertia(start) if isinstance(start, WorldSetup) else (math.inf, math.inf)
    try:
        found = hand_inertia(start)
    except ParameterError:
        if math.inf in rigid:
            raise
        return rigid
    # of a body alone both are the same, but for rounding
    mass, inertia = (a if a <= (1.0 + 1e-9) * b else b for a, b in zip(found, rigid, strict=True))
    return mass, inertia


def _rigid_inertia(start: WorldSetup) -> tuple[float, float]:
    """Mass [kg], and mean moment of inertia about the hand point [kg m^2], of the held tree with its joints fixed."""
    model, placements = start.model, joint_placements(start.model, start.q)
    held = model.frames[start.hand]
    hand = (placements[held.parentJoint] * held.placement).translation
    tree = sum((placements[joint].act(model.inertias[joint]) for joint in held_joints(start)), pin.Inertia.Zero())
    moments = np.diag(pin.Inertia(tree.mass, tree.lever - hand, tree.inertia).matrix())[3:]
    return float(tree.mass), float(moments[2] if start.planar else np.mean(moments))


def _mean(values: np.ndarray) -> float:
    """Mean of `values`, exact where they are equal."""
    return float(values[0] + np.mean(values - values[0]))


def build_environment(
    world: WorldSetup, contact: ContactParameters, environment: EnvironmentParameters, device: DeviceLimits, rate: float
) -> Environment:
    """A synchronous environment at the servo rate [Hz]."""
    method, integrator = environment.method, environment.integrator
    return Environment(world, contact, method, device.rendering, device.limit(), rate, integrator, environment.sleep)


def local_model_context(
    world: WorldSetup, sections: LocalSections, device: DeviceLimits, rate: float
) -> LocalModelContext:
    """Context that the local model of an experiment is built from, at the servo rate [Hz]."""
    environment = sections.environment
    schedule = environment.schedule(rate)
    period, delay = schedule.period / rate, schedule.delay / rate
    return LocalModelContext(world, sections.contact, environment.method, device, rate, period, delay)


def build_local_model(world: WorldSetup, sections: LocalSections, device: DeviceLimits, rate: float) -> LocalModelCore:
    """A local model at the servo rate [Hz], with the environment's contact method.

    Raises:
        ParameterError: it is not made for the tool.
    """
    return sections.local_model.build(local_model_context(world, sections, device, rate))


def build_surroundings(world: WorldSetup, sections: LocalSections, rate: float) -> Surroundings:
    """The asynchronous environment that feeds it; `rate` of the servo [Hz]."""
    environment, local_model = sections.environment, sections.local_model
    schedule = environment.schedule(rate)
    # what is surveyed now acts until the update after it is known
    ahead = (schedule.period + schedule.delay) / rate if local_model.prediction == "velocity" else 0.0
    context = SurroundingsContext(
        world,
        sections.scene,
        sections.contact,
        environment.method,
        environment.following,
        epsilon=local_model.epsilon,
        horizon=ahead,
        rate=rate,
        period=schedule.period / rate,
        wrench=local_model.WRENCH,
    )
    return environment.engine.surroundings(context)
