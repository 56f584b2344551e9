"""Scenes: worlds of experiments, as a few parameters each.

A scene is turned into `WorldParameters`, which `worlds.build` turns into a model. `type: world` is that description
itself: any bodies, linkages and files.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np
from pydantic import AfterValidator, Field, ValidationError, model_validator

from haptic_sim.contact.methods import Method, contact_method
from haptic_sim.contact.response import ContactParameters
from haptic_sim.dynamics.arms import HOLDS, INERTIAS, LENGTHS, MASSES
from haptic_sim.parameters import ParameterError, Parameters, PositivePair, PositiveTriple, explain, quantity
from haptic_sim.scenes import SceneContext, SceneParameters, SceneTool
from haptic_sim.worlds.building import build
from haptic_sim.worlds.mujoco_files import build_mujoco_world
from haptic_sim.worlds.parameters import (
    HoldParameters,
    MujocoParameters,
    WorldParameters,
    rank_fade_quantity,
    rank_tolerance_quantity,
)
from haptic_sim.worlds.world_setup import WorldSetup

GRAVITY = 9.81  # [m/s^2]


class NoToolParameters(Parameters):
    """The scene says which of its bodies is held."""

    type: Literal["none"] = "none"

    def parts(self) -> dict[str, Any]:
        """Empty mapping: all bodies are those of the scene."""
        return {}

    def bounds(self) -> tuple[float, float, float, float]:
        """Bounding box of no extent, at the origin."""
        return 0.0, 0.0, 0.0, 0.0


class PegParameters(Parameters):
    """A rectangular planar peg, held at its centre of mass."""

    type: Literal["peg"] = "peg"
    size: PositivePair = quantity((0.042, 0.021), unit="m", description="Extent of the peg along its axes x and y")
    mass: float = quantity(2.0, unit="kg", description="Mass of the peg", gt=0.0, le=1e3)
    inertia: float = quantity(
        0.005, unit="kg m^2", description="Inertia of the peg about its centre of mass", gt=0.0, le=1e3
    )

    def parts(self) -> dict[str, Any]:
        """Parts that the tool adds to a planar world: bodies, and which is held and how."""
        return {
            "bodies": {"tool": _planar(self, {"type": "box", "size": [*self.size, min(self.size)]})},
            "tool": "tool",
        }

    def bounds(self) -> tuple[float, float, float, float]:
        """Left, lower, right and upper end at the start [m]."""
        half_x, half_y = 0.5 * self.size[0], 0.5 * self.size[1]
        return -half_x, -half_y, half_x, half_y


class ThreeLinksParameters(Parameters):
    """A planar arm of three links on revolute joints, held at the centre of mass of one (THESIS Table 5.1)."""

    type: Literal["three_links"] = "three_links"
    lengths: PositiveTriple = quantity(LENGTHS, unit="m", description="Lengths of the links, from the base on")
    masses: PositiveTriple = quantity(
        MASSES, unit="kg", description="Masses of the links; their centres are at mid-link"
    )
    inertias: PositiveTriple = quantity(
        INERTIAS, unit="kg m^2", description="Inertias of the links, about their centres of mass"
    )
    angles: tuple[float, float, float] = quantity(
        (math.pi / 4, math.pi / 6, -math.pi / 6),
        unit="rad",
        description="Angle of each joint at the start, from the link before",
    )
    rates: tuple[float, float, float] = quantity(
        (0.0,) * 3, unit="rad/s", description="Rates of the joints at the start"
    )
    hold: Literal["proximal", "middle", "distal"] = quantity("distal", description="Link that is held")
    base: tuple[float, float] = quantity((0.0, 0.0), unit="m", description="Position of the first joint")
    width: float = quantity(0.01, unit="m", description="Width of the links, for collisions", gt=0.0, le=1.0)
    rank_tolerance: float = rank_tolerance_quantity()
    rank_fade: float = rank_fade_quantity()

    def parts(self) -> dict[str, Any]:
        """Bodies and joints, as `PegParameters.parts`; the links do not touch each other."""
        bodies: dict[str, Any] = {}
        parent, where = "world", [*self.base, 0.0]
        for i, name in enumerate(HOLDS):
            length = self.lengths[i]
            bodies[name] = {
                "joint": "revolute",
                "parent": parent,
                "position": where,
                "axis": [0, 0, 1],
                "angle": self.angles[i],
                "velocity": self.rates[i],
                "mass": self.masses[i],
                "centre_of_mass": [0.5 * length, 0, 0],
                # The other two moments do not matter in the plane; equal ones are those of a possible body.
                "inertia": [self.inertias[i]] * 3,
                "shapes": [{"type": "box", "size": [length, self.width, self.width], "position": [0.5 * length, 0, 0]}],
            }
            parent, where = name, [length, 0.0, 0.0]
        return {
            "bodies": bodies,
            "tool": self.hold,
            "ignore": [[HOLDS[0], HOLDS[2]]],
            "rank_tolerance": self.rank_tolerance,
            "rank_fade": self.rank_fade,
        }

    def bounds(self) -> tuple[float, float, float, float]:
        """Bounding box of the links; see `PegParameters.bounds`."""
        angles = np.cumsum(self.angles)
        steps = np.stack([np.cos(angles), np.sin(angles)], axis=1) * np.array(self.lengths)[:, None]
        points = np.array(self.base) + np.concatenate([np.zeros((1, 2)), np.cumsum(steps, axis=0)])
        low, high = points.min(axis=0) - 0.5 * self.width, points.max(axis=0) + 0.5 * self.width
        return float(low[0]), float(low[1]), float(high[0]), float(high[1])


PlanarTool = PegParameters | ThreeLinksParameters
AnyToolParameters = Annotated[PegParameters | ThreeLinksParameters | NoToolParameters, Field(discriminator="type")]


def _outside_the_peg(gaps: tuple[float, float]) -> tuple[float, float]:
    for i, gap in enumerate(gaps):
        if not gap > 0.0:
            raise ValueError(f"[{i}] = {gap:g} m: the wall would be inside the peg; must be > 0")
    return gaps


Gaps = Annotated[tuple[float, float], AfterValidator(_outside_the_peg)]


@dataclass(frozen=True)
class Wall:
    """A fixed half-space: solid where normal . p < offset."""

    name: str
    normal: tuple[float, float, float]
    offset: float  # [m]


class EmptyParameters(SceneParameters):
    """A plane with nothing in it but the tool."""

    TOOLS: ClassVar[Any] = PlanarTool
    type: Literal["empty"] = "empty"
    gravity: tuple[float, float] = quantity(
        (0.0, 0.0), unit="m/s^2", description="Acceleration of free fall, along x and y"
    )

    def world(self, context: SceneContext) -> dict[str, Any]:
        """The keys of this world, as `scene.type: world` has them, but for its type."""
        return {"planar": True, "gravity": [*self.gravity, 0], **context.tool.parts()}


class EnclosureParameters(SceneParameters):
    """Four fixed walls around the tool as it starts; a peg does so at the origin, aligned."""

    TOOLS: ClassVar[Any] = PlanarTool

    type: Literal["enclosure"] = "enclosure"
    gap: Gaps = quantity(
        (0.03, 0.06), unit="m", description="Gap from the tool to the right wall, and to the lower wall"
    )
    far_gap: Gaps = quantity(
        (0.1, 0.1), unit="m", description="Gap from the tool to the left wall, and to the upper wall"
    )

    def world(self, context: SceneContext) -> dict[str, Any]:
        """The keys of this world, as `scene.type: world` has them, but for its type."""
        walls = {wall.name: _plane(wall.normal, wall.offset) for wall in enclosure_walls(context.tool, self)}
        parts = context.tool.parts()
        return {"planar": True, "gravity": [0, 0, 0], **parts, "bodies": {**walls, **parts["bodies"]}}


def enclosure_walls(tool: SceneTool, scene: EnclosureParameters) -> tuple[Wall, ...]:
    """Right, lower, left and upper wall around the tool at its start."""
    left, lower, right, upper = tool.bounds()
    return (
        Wall("right_wall", (-1.0, 0.0, 0.0), -(right + scene.gap[0])),
        Wall("lower_wall", (0.0, 1.0, 0.0), lower - scene.gap[1]),
        Wall("left_wall", (1.0, 0.0, 0.0), left - scene.far_gap[0]),
        Wall("upper_wall", (0.0, -1.0, 0.0), -(upper + scene.far_gap[1])),
    )


def _from_to(values: tuple[float, float]) -> tuple[float, float]:
    if not values[0] < values[1]:
        raise ValueError(f"= [{values[0]:g}, {values[1]:g}] m: the first wall must be before the second")
    return values


Walls = Annotated[tuple[float, float], AfterValidator(_from_to)]


class NoArmParameters(Parameters):
    """Nothing moves beside the tool."""

    type: Literal["none"] = "none"


class SlottedEnclosureParameters(SceneParameters):
    """Four fixed walls, the lower one with a slot in it, and possibly an arm of three links (THESIS figure 3.3)."""

    TOOLS: ClassVar[Any] = PlanarTool
    type: Literal["slotted_enclosure"] = "slotted_enclosure"
    x: Walls = quantity((-0.1, 0.1), unit="m", description="Positions of the left and of the right wall")
    y: Walls = quantity((0.1055, 0.1915), unit="m", description="Positions of the lower and of the upper wall")
    slot_centre: float = quantity(0.05, unit="m", description="Position of the middle of the slot along x")
    slot_width: float = quantity(0.021, unit="m", description="Width of the slot", gt=0.0, le=10.0)
    slot_depth: float = quantity(0.042, unit="m", description="Depth of the slot; 0: there is none", ge=0.0, le=10.0)
    start: tuple[float, float] = quantity(
        (-0.04, 0.15), unit="m", description="Position of a peg's centre of mass at the start"
    )
    start_angle: float = quantity(0.0, unit="rad", description="Angle of a peg at the start")
    arm: Annotated[ThreeLinksParameters | NoArmParameters, Field(discriminator="type")] = quantity(
        NoArmParameters(), description="An arm that moves in the enclosure beside the tool"
    )

    @model_validator(mode="after")
    def _slot_is_between_the_walls(self) -> SlottedEnclosureParameters:
        left, right = self.slot
        if self.slot_depth > 0.0 and not (self.x[0] <= left and right <= self.x[1]):
            raise ValueError(
                f".slot_centre = {self.slot_centre:g} m: the slot is from {left:g} to {right:g} m, and must be between "
                f"the walls at {self.x[0]:g} and {self.x[1]:g} m"
            )
        return self

    @property
    def slot(self) -> tuple[float, float]:
        """Left and right side of the slot along x [m]."""
        return self.slot_centre - 0.5 * self.slot_width, self.slot_centre + 0.5 * self.slot_width

    def world(self, context: SceneContext) -> dict[str, Any]:
        """The keys of this world, as `scene.type: world` has them, but for its type.

        A slotted wall is three boxes, so thick that a tool is pushed out of them upwards.
        """
        (left, right), (lower, upper) = self.x, self.y
        bodies: dict[str, Any] = {
            "left_wall": _plane((1, 0, 0), left),
            "right_wall": _plane((-1, 0, 0), -right),
            "upper_wall": _plane((0, -1, 0), -upper),
        }
        if self.slot_depth == 0.0:
            bodies["lower_wall"] = _plane((0, 1, 0), lower)
        else:
            thick = 2.0 * max(right - left, upper - lower, self.slot_depth)
            first, last = self.slot
            bodies["lower_wall_left"] = _block(first - thick, first, lower, thick)
            bodies["lower_wall_right"] = _block(last, last + thick, lower, thick)
            bodies["slot_bottom"] = _block(first, last, lower - self.slot_depth, thick)
        parts = context.tool.parts()
        ignore = list(parts.get("ignore", ()))
        if isinstance(context.tool, PegParameters):
            parts["bodies"]["tool"] |= {"position": list(self.start), "angle": self.start_angle}
        if isinstance(self.arm, ThreeLinksParameters):
            arm = self.arm.parts()
            name = {link: f"arm_{link}" for link in arm["bodies"]}
            ignore += [[name[a], name[b]] for a, b in arm["ignore"]]
            for link, body in arm["bodies"].items():
                bodies[name[link]] = body | {"parent": name.get(body["parent"], body["parent"])}
        return {
            "planar": True,
            "gravity": [0, 0, 0],
            **parts,
            "bodies": {**bodies, **parts["bodies"]},
            "ignore": ignore,
        }


class SlotParameters(SceneParameters):
    """A peg in a slot along x that squeezes it: one contact at each wall, in the middle of the peg's rounded side."""

    TOOLS: ClassVar[Any] = PegParameters
    type: Literal["slot"] = "slot"
    normal_force: float = quantity(0.175, unit="N", description="Normal force of each wall on the peg", gt=0.0, le=1e3)

    def world(self, context: SceneContext) -> dict[str, Any]:
        """The keys of this world, as `scene.type: world` has them, but for its type.

        The walls overlap the peg by as much as their stiffness makes the normal force.
        """
        tool = context.tool
        assert isinstance(tool, PegParameters)  # by TOOLS
        radius = 0.25 * tool.size[1]
        reach = 0.5 * tool.size[1] - self.normal_force / context.contact.stiffness
        capsule = {"type": "capsule", "radius": radius, "length": 2.0 * radius, "rotation": [0.5 * math.pi, 0, 0]}
        peg = {
            "joint": "prismatic",
            "axis": [1, 0, 0],
            "mass": tool.mass,
            "inertia": [tool.inertia] * 3,
            "shapes": [capsule],
        }
        bodies = {"lower_wall": _plane((0, 1, 0), -reach), "upper_wall": _plane((0, -1, 0), -reach), "tool": peg}
        return {"planar": True, "gravity": [0, 0, 0], "bodies": bodies, "tool": "tool"}


class TwoLinksParameters(SceneParameters):
    """A planar arm of two uniform rods whose left side touches an obstacle (THESIS figure 4.11)."""

    type: Literal["two_links"] = "two_links"
    lengths: PositivePair = quantity((1.0, 1.0), unit="m", description="Lengths of the base and of the distal link")
    masses: PositivePair = quantity((1.0, 1.0), unit="kg", description="Masses of the base and of the distal link")
    angles: tuple[float, float] = quantity((0.5 * math.pi, 0.0), unit="rad", description="Angles of the joints")
    rates: tuple[float, float] = quantity(
        (1.0, 1.0), unit="rad/s", description="Rates of the joints, before the collision"
    )
    contact_height: float = quantity(
        0.7, unit="m", description="Height of the obstacle above the base of the upright arm", gt=0.0
    )
    obstacle_mass: float | None = quantity(
        None, unit="kg", description="Mass of the obstacle, which moves in the plane; null: it is fixed", gt=0.0
    )
    restitutions: tuple[Annotated[float, Field(ge=0.0, le=1.0)], ...] = quantity(
        tuple(i / 20 for i in range(21)),
        description="Coefficients of restitution, with one collision each",
        min_length=1,
    )

    @model_validator(mode="after")
    def _obstacle_is_at_the_arm(self) -> TwoLinksParameters:
        if self.contact_height > sum(self.lengths):
            length = sum(self.lengths)
            raise ValueError(f".contact_height = {self.contact_height:g} m: must be at most the arm's {length:g} m")
        return self

    @property
    def struck(self) -> int:
        """Index of the link that the obstacle touches: 0 the base, 1 the distal one."""
        return int(self.contact_height > self.lengths[0])

    def world(self, context: SceneContext) -> dict[str, Any]:
        """The keys of this world, as `scene.type: world` has them, but for its type.

        The obstacle is a small ball. Where it moves, its coordinates are after the arm's.
        """
        thick, ball = 0.02, 0.01  # [m]
        links: dict[str, Any] = {}
        parent, where = "world", 0.0
        for i, name in enumerate(("base_link", "distal_link")):
            length, mass = self.lengths[i], self.masses[i]
            links[name] = {
                "joint": "revolute",
                "parent": parent,
                "position": [where, 0, 0],
                "axis": [0, 0, 1],
                "angle": self.angles[i],
                "velocity": self.rates[i],
                "mass": mass,
                "centre_of_mass": [0.5 * length, 0, 0],
                # of a rod about its middle; about its own axis it has to have something
                "inertia": [1e-3 * mass * length**2 / 12, mass * length**2 / 12, mass * length**2 / 12],
                "shapes": [{"type": "box", "size": [length, thick, thick], "position": [0.5 * length, 0, 0]}],
            }
            parent, where = name, length
        angle = sum(self.angles[: self.struck + 1])  # of the link that is struck
        at = (self.contact_height - self.struck * self.lengths[0]) * _direction(angle)
        at += self.struck * self.lengths[0] * _direction(self.angles[0])
        at += (0.5 * thick + ball - 1e-9) * _direction(angle + 0.5 * math.pi)  # it just touches
        shapes = [{"type": "sphere", "radius": ball}]
        obstacle: dict[str, Any]
        if self.obstacle_mass is None:
            obstacle = {"joint": "fixed", "position": [*at.tolist(), 0], "shapes": shapes}
            bodies = {"obstacle": obstacle, **links}
        else:
            mass, inertia = self.obstacle_mass, 0.4 * self.obstacle_mass * ball**2
            obstacle = {"joint": "planar", "position": at.tolist(), "mass": mass, "inertia": inertia, "shapes": shapes}
            bodies = {**links, "obstacle": obstacle}
        return {"planar": True, "gravity": [0, 0, 0], "bodies": bodies, "tool": "distal_link"}


class DropParameters(SceneParameters):
    """A ball and a cube dropped on the floor."""

    type: Literal["drop"] = "drop"
    height: float = quantity(
        0.2, unit="m", description="Height of the lowest point of each body above the floor", ge=0.0, le=100.0
    )
    radius: float = quantity(0.03, unit="m", description="Radius of the ball", gt=0.0, le=1.0)
    side: float = quantity(0.05, unit="m", description="Side length of the cube", gt=0.0, le=1.0)
    mass: float = quantity(0.2, unit="kg", description="Mass of each body", gt=0.0, le=1e3)
    tilt: float = quantity(
        0.3, unit="rad", description="Tilt of the cube, about an edge of its lower side", ge=-1.6, le=1.6
    )

    def world(self, context: SceneContext) -> dict[str, Any]:
        """The keys of this world, as `scene.type: world` has them, but for its type."""
        half = 0.5 * self.side * (abs(math.cos(self.tilt)) + abs(math.sin(self.tilt)))
        ball = {
            "joint": "free",
            "position": [0, 0, self.height + self.radius],
            "mass": self.mass,
            "shapes": [{"type": "sphere", "radius": self.radius}],
        }
        cube = {
            "joint": "free",
            "position": [4.0 * (self.radius + self.side), 0, self.height + half],
            "rotation": [0, self.tilt, 0],
            "mass": self.mass,
            "shapes": [{"type": "box", "size": [self.side] * 3}],
        }
        return {"bodies": {"floor": _plane((0, 0, 1), 0.0), "ball": ball, "cube": cube}, "tool": "ball"}


class SlopeParameters(SceneParameters):
    """A block at rest on a slope that falls towards +x; with penalties it starts as deep as its weight presses it."""

    type: Literal["slope"] = "slope"
    angle: float = quantity(12.0, unit="deg", description="Angle of the slope", ge=0.0, lt=90.0)
    size: PositiveTriple = quantity((0.1, 0.1, 0.05), unit="m", description="Size of the block")
    mass: float = quantity(1.0, unit="kg", description="Mass of the block", gt=0.0, le=1e3)
    gravity: float = quantity(GRAVITY, unit="m/s^2", description="Acceleration of free fall", ge=0.0, le=100.0)

    def world(self, context: SceneContext) -> dict[str, Any]:
        """The keys of this world, as `scene.type: world` has them, but for its type."""
        angle = math.radians(self.angle)
        sine, cosine = math.sin(angle), math.cos(angle)
        contact, corners = context.contact, 4 if context.contact.per == "point" else 1
        rigid = context.method.RIGID
        depth = self.mass * self.gravity * cosine / (corners * contact.stiffness) if not rigid else 0.0
        middle = 0.5 * self.size[2] - depth
        block = {
            "joint": "free",
            "position": [middle * sine, 0, middle * cosine],
            "rotation": [0, angle, 0],
            "mass": self.mass,
            "shapes": [{"type": "box", "size": list(self.size)}],
        }
        bodies = {"slope": _plane((sine, 0, cosine), 0.0), "block": block}
        gravity = [0, 0, -self.gravity]
        return {"gravity": gravity, "bodies": bodies, "tool": "block", "allowed_overlap": max(1e-3, 2 * depth)}


class StackParameters(SceneParameters):
    """Boxes on top of each other on the floor; the uppermost is the tool."""

    type: Literal["stack"] = "stack"
    boxes: int = quantity(20, description="Number of boxes", ge=1, le=40)
    side: float = quantity(0.1, unit="m", description="Side length of each body", gt=0.0, le=10.0)
    mass: float = quantity(1.0, unit="kg", description="Mass of each body", gt=0.0, le=1e3)

    def world(self, context: SceneContext) -> dict[str, Any]:
        """The keys of this world, as `scene.type: world` has them, but for its type."""
        bodies: dict[str, Any] = {"floor": _plane((0, 0, 1), 0.0)}
        for i in range(self.boxes):
            bodies[f"box_{i}"] = {
                "joint": "free",
                "position": [0, 0, (i + 0.5) * self.side],
                "mass": self.mass,
                "shapes": [{"type": "box", "size": [self.side] * 3}],
            }
        return {"bodies": bodies, "tool": f"box_{self.boxes - 1}"}


ROD_END = 0.002  # [m] radius


class StrikeParameters(SceneParameters):
    """A ball with back-spin that falls on the floor at a slant, and a rod that strikes it with its end.

    Without gravity, so that nothing but the impact changes velocities.
    """

    type: Literal["strike"] = "strike"
    radius: float = quantity(0.05, unit="m", description="Radius of the ball", gt=0.0, le=1.0)
    speed: tuple[float, float] = quantity((1.0, 2.0), unit="m/s", description="Speed of the ball: forward and downward")
    spin: float = quantity(60.0, unit="rad/s", description="Spin of the ball, backward")
    length: float = quantity(0.3, unit="m", description="Length of the rod", gt=0.0, le=10.0)
    angle: float = quantity(45.0, unit="deg", description="Angle of the rod to the floor", gt=0.0, le=90.0)
    rod_speed: tuple[float, float] = quantity(
        (1.0, 1.0), unit="m/s", description="Speed of the rod: forward (the way it leans) and downward"
    )
    mass: float = quantity(0.5, unit="kg", description="Mass of each body", gt=0.0, le=1e3)
    gap: float = quantity(0.01, unit="m", description="Gap of each body to the floor at the start", gt=0.0, le=1.0)

    def world(self, context: SceneContext) -> dict[str, Any]:
        """The keys of this world, as `scene.type: world` has them, but for its type.

        The rod touches with a small ball at its end.
        """
        angle = math.radians(self.angle)
        thick = ROD_END
        half, inertia = 0.5 * self.length, self.mass * self.length**2 / 12
        ball = {
            "joint": "free",
            "position": [0, 0, self.radius + self.gap],
            "velocity": [self.speed[0], 0, -self.speed[1], 0, -self.spin, 0],
            "mass": self.mass,
            "shapes": [{"type": "sphere", "radius": self.radius}],
        }
        rod = {
            "joint": "free",
            "position": [0.0, 4.0 * self.radius + self.length, half * math.sin(angle) + thick + self.gap],
            "rotation": [0, 0.5 * math.pi - angle, 0],
            "velocity": [self.rod_speed[0], 0, -self.rod_speed[1], 0, 0, 0],
            "mass": self.mass,
            "inertia": [inertia, inertia, 1e-3 * inertia],
            "centre_of_mass": [0, 0, 0],
            "shapes": [{"type": "sphere", "radius": thick, "position": [0, 0, -half]}],
        }
        bodies = {"floor": _plane((0, 0, 1), 0.0), "ball": ball, "rod": rod}
        return {"gravity": [0, 0, 0], "bodies": bodies, "tool": "ball"}


def tools_of(scene: Any) -> tuple[str, ...]:
    """Types of the tools that a scene may be around; `none` if it has one of its own."""
    tools = getattr(scene, "TOOLS", NoToolParameters)
    return tuple(tool.model_fields["type"].default for tool in get_args(tools) or (tools,))


def build_world(
    tool: PlanarTool | NoToolParameters,
    scene: SceneParameters,
    contact: ContactParameters,
    method: Method = "penalty",
    folder: Path = Path(),
    seed: int = 0,
    hands: Sequence[HoldParameters] = (),
) -> WorldSetup:
    """The world of a scene.

    Args:
        tool: of a type that the scene takes, see `tools_of`.
        scene: one of AnySceneParameters.
        contact: material of what has no own.
        method: of contact, or its name; some scenes start in the equilibrium of its penalties.
        folder: where paths of files start from.
        seed: of where bodies are that have jitter.
        hands: further ones, beside the one that holds the tool.

    Raises:
        ParameterError: what cannot be built, one line for each problem.
    """
    if isinstance(scene, MujocoParameters):
        return build_mujoco_world(scene, folder)
    context = SceneContext(tool, contact, contact_method(method))
    try:
        parameters = (
            scene
            if isinstance(scene, WorldParameters)
            else WorldParameters.model_validate({"type": "world", **scene.world(context)})
        )
    except ValidationError as error:  # numbers of the scene that are allowed, and together give what is not
        raise ParameterError(explain(error, WorldParameters, f"scene.type = {scene.type}: its world: ")) from error
    friction = (contact.friction.static, contact.friction.kinetic)
    restitution = contact.restitution
    return build(
        parameters, folder, restitution=restitution, friction=friction, prefix="scene.", seed=seed, hands=hands
    )


def _direction(angle: float) -> np.ndarray:
    return np.array([math.cos(angle), math.sin(angle)])


def _plane(normal: tuple[float, float, float], offset: float) -> dict[str, Any]:
    return {"joint": "fixed", "shapes": [{"type": "plane", "normal": list(normal), "offset": offset}]}


def _block(left: float, right: float, top: float, thick: float) -> dict[str, Any]:
    """A fixed box in the plane, from its upper side downwards [m]."""
    where = [0.5 * (left + right), top - 0.5 * thick, 0.0]
    return {"joint": "fixed", "shapes": [{"type": "box", "size": [right - left, thick, thick], "position": where}]}


def _planar(tool: PegParameters, shape: dict[str, Any]) -> dict[str, Any]:
    return {"joint": "planar", "mass": tool.mass, "inertia": tool.inertia, "shapes": [shape]}
