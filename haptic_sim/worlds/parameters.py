"""Parameters of worlds: bodies, linkages and files by name, the held body, and the pairs that collide."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from haptic_sim.constraints.parameters import AnyWorldConstraintParameters
from haptic_sim.fields.law import AnyFieldParameters
from haptic_sim.geometry.shapes import (
    ORIGIN,
    AnyShapeParameters,
    Direction,
    MeshParameters,
    Placed,
    PlaneParameters,
    Vector,
    impossible,
    locate,
)
from haptic_sim.motions.parameters import FileTrajectoryParameters, MotionParameters, PullParameters
from haptic_sim.parameters import NotNegativePair, Parameters, quantity
from haptic_sim.scenes import ModelSource, SceneParameters
from haptic_sim.worlds.file_trees import Meshes
from haptic_sim.worlds.packages import ROBOT, described

WORLD = "world"  # the parent of bodies that hang on nothing else; no body has this name


class Material(Parameters):
    """Material of a body's surface, where it differs from the experiment's `contact`."""

    restitution: float | None = quantity(None, description="Coefficient of restitution of the body", ge=0.0, le=1.0)
    friction_static: float | None = quantity(None, description="Coefficient of static friction of the body", ge=0.0)
    friction_kinetic: float | None = quantity(None, description="Coefficient of kinetic friction of the body", ge=0.0)
    friction_rolling: float | None = quantity(
        None, unit="m", description="Coefficient of rolling friction of the body", ge=0.0, le=1.0
    )
    friction_torsional: float | None = quantity(
        None, unit="m", description="Coefficient of torsional friction of the body", ge=0.0, le=1.0
    )


class _Body(Material):
    shapes: tuple[AnyShapeParameters, ...] = quantity((), description="Shapes of the body for collisions")


class FixedBodyParameters(Placed, _Body):
    """A body that is fixed to the world, or to another one, of which it is a part."""

    joint: Literal["fixed"] = "fixed"
    parent: str = quantity(
        WORLD,
        description="Body to which this one is fixed, whose mass includes that of this one: NAME, or FILE/LINK; world: "
        "it never moves",
    )


class _MovingBody(_Body):
    """A body with mass: given, or from its shapes, filled uniformly."""

    mass: float | None = quantity(None, unit="kg", description="Mass of the body", gt=0.0, le=1e6)
    density: float | None = quantity(
        None, unit="kg/m^3", description="Density of the body, instead of its mass", gt=0.0, le=1e6
    )
    gravity_compensation: bool = quantity(
        False, description="Whether the body's weight is balanced, so that it does not fall"
    )

    @model_validator(mode="after")
    def _enough_and_not_too_much(self) -> Any:
        if getattr(self, "bare", False):
            if given := [
                key for key in ("mass", "density", "inertia", "centre_of_mass") if getattr(self, key) is not None
            ]:
                raise ValueError(f".{given[0]}: a bare body has none; leave it out, or leave out bare")
            if self.shapes:
                raise ValueError(".shapes: a bare body has none; leave them out, or leave out bare")
            return self
        inertia = getattr(self, "inertia", None)
        centre = getattr(self, "centre_of_mass", None)
        if any(isinstance(shape, PlaneParameters) for shape in self.shapes):
            i = next(i for i, shape in enumerate(self.shapes) if isinstance(shape, PlaneParameters))
            raise ValueError(f".shapes[{i}].type = plane: only a fixed body can have a plane")
        if (self.mass is None) == (self.density is None):
            raise ValueError(".mass: give either the mass or the density")
        if inertia is None and not self.shapes:
            raise ValueError(".inertia: missing: a body without shapes has none of its own")
        if inertia is not None and self.mass is None:
            raise ValueError(".density: gives the inertia as well; give the mass, or leave out the inertia")
        if centre is not None and inertia is None:
            raise ValueError(".centre_of_mass: follows from the shapes; give the inertia too, or leave it out")
        return self


def tensor(values: tuple[float, ...]) -> np.ndarray:
    """Three principal moments, or xx, yy, zz, xy, xz, yz, as a matrix."""
    xx, yy, zz, xy, xz, yz = (*values, 0.0, 0.0, 0.0)[:6]
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def _possible(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(values) not in (3, 6):
        raise ValueError(f"has {len(values)} values: must have 3 (principal moments) or 6 (xx, yy, zz, xy, xz, yz)")
    reason = impossible(tensor(values))
    if reason:
        raise ValueError(f"no body has this inertia: {reason}")
    return values


class _SpatialBody(_MovingBody):
    inertia: Annotated[tuple[float, ...], AfterValidator(_possible)] | None = quantity(
        None,
        unit="kg m^2",
        description="Inertia of the body about its centre of mass, in its axes: 3 principal moments or xx, yy, zz, xy, "
        "xz, yz",
    )
    centre_of_mass: Vector | None = quantity(
        None,
        unit="m",
        description="Centre of mass in the axes of the body; left out: that of the shapes, or the origin",
    )


class FreeBodyParameters(Placed, _SpatialBody):
    """A body that moves freely."""

    joint: Literal["free"] = "free"
    velocity: tuple[float, float, float, float, float, float] = quantity(
        (0.0,) * 6,
        unit="m/s, rad/s",
        description="Velocity of the body's centre of mass, and its angular velocity, in world axes, at the start",
    )
    damping: float = quantity(
        0.0, unit="N s/m", description="Viscous damping of the body's centre of mass", ge=0.0, le=1e9
    )
    turn_damping: float = quantity(
        0.0, unit="N m s/rad", description="Viscous damping of the body's rotation", ge=0.0, le=1e9
    )


class PlanarBodyParameters(_MovingBody):
    """A body that moves freely in the plane of x and y."""

    joint: Literal["planar"] = "planar"
    inertia: float | None = quantity(
        None,
        unit="kg m^2",
        description="Inertia of the body about z at its centre of mass; left out: from the shapes",
        gt=0.0,
    )
    centre_of_mass: tuple[float, float] | None = quantity(
        None,
        unit="m",
        description="Centre of mass in the axes of the body; left out: that of the shapes, or the origin",
    )
    position: tuple[float, float] = quantity(
        (0.0, 0.0), unit="m", description="Position of the body's origin at the start"
    )
    angle: float = quantity(0.0, unit="rad", description="Angle of the body about z at the start")
    velocity: Vector = quantity(
        ORIGIN,
        unit="m/s, rad/s",
        description="Velocity of the body's centre of mass, and its angular velocity, at the start",
    )


def _ordered(values: tuple[float, float] | None) -> tuple[float, float] | None:
    if values is not None and not values[0] <= values[1]:
        raise ValueError(f"= [{values[0]:g}, {values[1]:g}]: the lower limit must not be above the upper one")
    return values


Range = Annotated[tuple[float, float], AfterValidator(_ordered)]


def _in_range(body: Any, key: str, unit: str) -> Any:
    value = getattr(body, key)
    if body.range is not None and not body.range[0] <= value <= body.range[1]:
        limits = f"{body.range[0]:g} to {body.range[1]:g} {unit}"
        raise ValueError(f".{key} = {value:g} {unit}: must be in range, {limits}")
    return body


class _LinkedBody(Placed, _SpatialBody):
    """A body on a joint, whose pose (position, rotation) is in the parent's axes."""

    parent: str = quantity(WORLD, description="Body to which the joint attaches this body: NAME, or FILE/LINK")
    axis: Direction = quantity(description="Axis of the joint, of any length, in the axes of the body")
    limit_restitution: float = quantity(
        0.0, description="Coefficient of restitution at the limits of the joint", ge=0.0, le=1.0
    )
    bare: bool = quantity(
        False,
        description="Whether the body has no mass and no shapes, and is there for its joint alone, between its parent "
        "and the bodies that hang on it",
    )


class RevoluteBodyParameters(_LinkedBody):
    """A body on a hinge at its origin."""

    joint: Literal["revolute"] = "revolute"
    angle: float = quantity(0.0, unit="rad", description="Angle of the joint at the start")
    velocity: float = quantity(0.0, unit="rad/s", description="Angular velocity of the joint at the start")
    range: Range | None = quantity(
        None, unit="rad", description="Lower and upper limit of the joint's angle; left out: no limits"
    )
    damping: float = quantity(0.0, unit="N m s/rad", description="Viscous damping of the joint", ge=0.0, le=1e9)
    friction: float = quantity(0.0, unit="N m", description="Dry friction of the joint", ge=0.0, le=1e9)
    stiffness: float = quantity(0.0, unit="N m/rad", description="Stiffness of a spring in the joint", ge=0.0, le=1e9)
    rest: float = quantity(0.0, unit="rad", description="Angle at which the spring in the joint is at rest")
    armature: float = quantity(
        0.0, unit="kg m^2", description="Inertia of the drive at the joint, beside that of the bodies", ge=0.0, le=1e6
    )
    speed_limit: float | None = quantity(
        None, unit="rad/s", description="Limit of the joint's angular velocity; left out: none", gt=0.0
    )

    @model_validator(mode="after")
    def _starts_in_range(self) -> Any:
        return _in_range(self, "angle", "rad")


class PrismaticBodyParameters(_LinkedBody):
    """A body on a slide."""

    joint: Literal["prismatic"] = "prismatic"
    travel: float = quantity(0.0, unit="m", description="Travel of the joint at the start")
    velocity: float = quantity(0.0, unit="m/s", description="Velocity of the joint at the start")
    range: Range | None = quantity(
        None, unit="m", description="Lower and upper limit of the joint's travel; left out: no limits"
    )
    damping: float = quantity(0.0, unit="N s/m", description="Viscous damping of the joint", ge=0.0, le=1e9)
    friction: float = quantity(0.0, unit="N", description="Dry friction of the joint", ge=0.0, le=1e9)
    stiffness: float = quantity(0.0, unit="N/m", description="Stiffness of a spring in the joint", ge=0.0, le=1e9)
    rest: float = quantity(0.0, unit="m", description="Travel at which the spring in the joint is at rest")
    armature: float = quantity(
        0.0, unit="kg", description="Inertia of the drive at the joint, beside that of the bodies", ge=0.0, le=1e6
    )
    speed_limit: float | None = quantity(
        None, unit="m/s", description="Limit of the joint's velocity; left out: none", gt=0.0
    )

    @model_validator(mode="after")
    def _starts_in_range(self) -> Any:
        return _in_range(self, "travel", "m")


class BallBodyParameters(Placed, _SpatialBody):
    """A body on a ball joint at its origin."""

    joint: Literal["ball"] = "ball"
    parent: str = quantity(WORLD, description="Body to which the joint attaches this body: NAME, or FILE/LINK")
    turn: Vector = quantity(ORIGIN, unit="rad", description="Roll, pitch and yaw of the joint at the start")
    velocity: Vector = quantity(
        ORIGIN, unit="rad/s", description="Angular velocity of the joint at the start, in the axes of the body"
    )
    damping: float = quantity(0.0, unit="N m s/rad", description="Viscous damping of the joint", ge=0.0, le=1e9)


AnyBodyParameters = Annotated[
    FixedBodyParameters
    | FreeBodyParameters
    | PlanarBodyParameters
    | RevoluteBodyParameters
    | PrismaticBodyParameters
    | BallBodyParameters,
    Field(discriminator="joint"),
]


class FileParameters(Placed, Material):
    """Bodies and joints from a URDF, MJCF, SDF or xacro file; its links are bodies named FILE/LINK."""

    path: str = quantity(
        description="Model file, .urdf (URDF), .xml (MJCF), .xacro, .sdf or .world (SDF), in the working directory or "
        "in the experiment's folder; or robot://NAME, a robot of the package robot_descriptions"
    )
    args: dict[str, bool | int | float | str] = quantity(
        {}, description="Values of the arguments of a xacro file by name, as {ur_type: ur5e}"
    )
    packages: tuple[str, ...] = quantity(
        (),
        description="Folders in which the packages and models that the file names (package://, model://, $(find)) are "
        "looked for first: those that hold them, or they themselves",
    )
    base: Literal["fixed", "free"] = quantity(
        "fixed", description="Whether the root of the file's model is fixed, or free to move"
    )
    meshes: Meshes = quantity(
        "either",
        description="Collision shape of a mesh. either: itself or its connected pieces where these are convex, else "
        "its convex hull, which is said at the start, and of MJCF the hull, as MuJoCo takes it; automatic, pieces, "
        "hull and field: as the key `as` of a mesh of a body",
    )
    error: float | None = quantity(
        None,
        unit="m",
        description="Largest error that is wanted of hulls, convex pieces and signed distance fields of the file's "
        "meshes, as the key `error` of a mesh of a body; a field of a small mesh is finer where it must be",
        gt=0.0,
    )
    limits: Literal["all", "position", "none"] = quantity(
        "all",
        description="Limits of the file's joints that are used: all (position, speed, force of drives), position, or "
        "none",
    )
    limit_restitution: float = quantity(
        0.0, description="Coefficient of restitution at the position limits of the file's joints", ge=0.0, le=1.0
    )
    constraints: Literal["exact", "none"] = quantity(
        "exact",
        description="Whether joints that follow others (mimic), closed loops and equality constraints of the file are "
        "exact constraints, or left out",
    )
    joints: dict[str, float] = quantity(
        {},
        unit="rad, m",
        description="Positions of hinges and slides at the start by name, as {elbow: 1.2}; the others are as the file "
        "shows them; in place of q",
    )
    q: tuple[float, ...] | None = quantity(
        None,
        description="Coordinates at the start, in Pinocchio's order of the file, the pose of a free root (x, y, z, "
        "quaternion x y z w) before those of its joints; left out: the pose that the file shows, with joints that it "
        "shows beyond their limits at these",
    )
    v: tuple[float, ...] | None = quantity(
        None,
        description="Velocities at the start, in the order of q; of a free root: velocity of its centre of mass, and "
        "angular velocity, in world axes",
    )
    gravity_compensation: bool = quantity(
        False, description="Whether the weight of all links of the file is balanced, so that they do not fall"
    )

    def source(self, folder: Path) -> ModelSource:
        """The file and what it is read with; `folder` is where paths start from.

        Raises:
            ModelFileError: a robot by name cannot be provided.
        """
        path = described(self.path) or locate(self.path, folder)
        return ModelSource(path, self.args, tuple(locate(one, folder) for one in self.packages))


TOOL_BALANCED = (
    "Whether the weight of the tool, the held body and all that it is linked with by joints, is balanced, so that it "
    "does not fall and the hand does not carry it"
)
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


def _named(entries: dict[str, Any]) -> dict[str, Any]:
    for name in entries:
        if not NAME.fullmatch(name) or name == WORLD:
            raise ValueError(f".{name}: must be named by letters, digits, _ and -, a letter first, and not {WORLD}")
    return entries


def rank_tolerance_quantity() -> Any:
    """The key `rank_tolerance` of every world whose tool may be held by a link."""
    return quantity(
        1e-3,
        unit="m",
        description="Singular value of the hand Jacobian, turns times 1 m, up to which the linkage blocks the hand in "
        "a direction",
        ge=0.0,
        le=1.0,
    )


def rank_fade_quantity() -> Any:
    """The key `rank_fade` of every world whose tool may be held by a link."""
    return quantity(
        0.0, description="Part of rank_tolerance above it in which a blocked direction fades in", ge=0.0, le=100.0
    )


class HoldParameters(Parameters):
    """Pose at which a further hand holds the world."""

    name: str = quantity(
        description="Name of the hand, and of the namespace of its topics", pattern=r"^[a-z][a-z0-9_]*$", max_length=40
    )
    tool: str = quantity(
        description="Body that the hand holds: NAME, or FILE/LINK; one that another hand holds, too, is held by both"
    )
    hold: Vector | None = quantity(
        None,
        unit="m",
        description="Hold point in the axes of the held body; left out: its centre of mass, with all links that are "
        "fixed to it; of a link that is itself fixed to another, its origin",
    )


class MujocoParameters(SceneParameters):
    """A world that MuJoCo simulates, from its own file."""

    ENGINE: ClassVar[str] = "mujoco"

    type: Literal["mujoco"] = "mujoco"
    file: str = quantity(description=".xml (MJCF) or .urdf, here or in the experiment's folder, as MuJoCo loads it")
    tool: str = quantity(description="The held body: one that moves freely, or a link")
    hold: Vector | str | None = quantity(
        None,
        unit="m",
        description="Hold point in the body's axes, or the name of a site of the body; left out: its centre of mass",
    )
    keyframe: str | None = quantity(None, description="Keyframe of the file to start from; null: its reference pose")
    gravity_compensation: bool = quantity(False, description=TOOL_BALANCED)
    actuators: Literal["none", "control"] = quantity(
        "none",
        description="Actuators of the tool: none: they exert no force; control: servos of its joints hold it at their "
        "control, which is that of the keyframe, or 0. Actuators of other bodies always act at their control",
    )
    meshes: Literal["hull", "pieces", "field"] = quantity(
        "hull",
        description="Collision geometry of geoms of type mesh that are not convex. hull: their convex hull, as MuJoCo "
        "takes it; pieces: convex pieces, each a geom of its own; field: pieces for MuJoCo, and the mesh itself for "
        "the hand, by a signed distance field",
    )
    error: float | None = quantity(
        None,
        unit="m",
        description="Largest error of these pieces and fields; null: that of the coarsest pieces, and 1/300 of the "
        "diagonal for a field",
        gt=0.0,
    )
    rank_tolerance: float = rank_tolerance_quantity()
    rank_fade: float = rank_fade_quantity()

    def placed(self, folder: Path) -> MujocoParameters:
        """The same, with a path that holds everywhere; `folder` is where it starts from."""
        return self.model_copy(update={"file": os.path.realpath(locate(self.file, folder))})


class WorldParameters(SceneParameters):
    """Bodies by name, files by name, and what of them is held and collides."""

    type: Literal["world"] = "world"
    planar: bool = quantity(False, description="Whether everything moves in the plane of x and y")
    gravity: Vector = quantity((0.0, 0.0, -9.81), unit="m/s^2", description="Acceleration of free fall")
    bodies: Annotated[dict[str, AnyBodyParameters], AfterValidator(_named)] = quantity(
        {}, description="Bodies of the world by name"
    )
    files: Annotated[dict[str, FileParameters], AfterValidator(_named)] = quantity(
        {}, description="Model files of the world by name"
    )
    tool: str = quantity(description="Body that is held: NAME, or FILE/LINK")
    hold: Vector | None = quantity(
        None,
        unit="m",
        description="Hold point in the axes of the held body; left out: its centre of mass, with all links that are "
        "fixed to it; of a link that is itself fixed to another, its origin",
    )
    gravity_compensation: bool = quantity(False, description=TOOL_BALANCED)
    rank_tolerance: float = rank_tolerance_quantity()
    rank_fade: float = rank_fade_quantity()
    constraints: Annotated[dict[str, AnyWorldConstraintParameters], AfterValidator(_named)] = quantity(
        {}, description="Exact constraints of the world by name"
    )
    motions: Annotated[dict[str, MotionParameters], AfterValidator(_named)] = quantity(
        {}, description="Trajectories that bodies of the world follow, by name"
    )
    pulls: Annotated[dict[str, PullParameters], AfterValidator(_named)] = quantity(
        {}, description="Springs and dampers from the hand to bodies that it grabs, by name"
    )
    fields: Annotated[dict[str, AnyFieldParameters], AfterValidator(_named)] = quantity(
        {}, description="Fields of force that act on bodies, by name"
    )
    ignore: tuple[tuple[str, str], ...] = quantity(
        (), description="Pairs of bodies (NAME, FILE/LINK, or FILE for all of it) that do not collide"
    )
    allowed_overlap: float = quantity(
        1e-3, unit="m", description="Largest overlap of two bodies that is allowed at the start", ge=0.0
    )
    jitter: NotNegativePair = quantity(
        (0.0, 0.0),
        unit="m, rad",
        description="Standard deviation of the start of each free and each planar body, random by the seed: position, "
        "rotation; a start in which bodies overlap is drawn again",
    )

    def placed(self, folder: Path) -> WorldParameters:
        """The same, with paths of files that hold everywhere; `folder` is where they start from."""

        def absolute(path: str) -> str:
            return os.path.realpath(locate(path, folder))

        bodies = {}
        for name, body in self.bodies.items():
            shapes = []
            for shape in body.shapes:
                texture = shape.texture.placed(absolute)
                if texture is not shape.texture:  # else what was not given would be a key that was
                    shape = shape.model_copy(update={"texture": texture})
                if isinstance(shape, MeshParameters):
                    shape = shape.model_copy(update={"path": absolute(shape.path)})
                shapes.append(shape)
            bodies[name] = body.model_copy(update={"shapes": tuple(shapes)})
        files = {}
        for name, file in self.files.items():
            path = file.path if file.path.startswith(ROBOT) else absolute(file.path)
            packages = tuple(absolute(one) for one in file.packages)
            files[name] = file.model_copy(update={"path": path, "packages": packages})
        fields = {name: one.placed(folder) for name, one in self.fields.items()}
        return self.model_copy(update={"bodies": bodies, "files": files, "fields": fields}).with_files(absolute)

    def with_files(self, place: Callable[[str], str | Path]) -> WorldParameters:
        """The same, with another place for each file that has a trajectory of a motion."""
        motions = {}
        for name, motion in self.motions.items():
            path = motion.trajectory
            if isinstance(path, FileTrajectoryParameters):
                path = path.model_copy(update={"path": str(place(path.path))})
            motions[name] = motion.model_copy(update={"trajectory": path})
        return self.model_copy(update={"motions": motions}) if motions else self

    def model_files(self) -> dict[str, ModelSource]:
        """Model files whose links may have visual meshes, by name."""
        return {name: file.source(Path()) for name, file in self.files.items()}
