"""Worlds: any number of free bodies, linkages and fixed bodies, as parameters and as a Pinocchio model.

A body has axes of its own, in which its shapes, its centre of mass and its hold point are given. The model has one
joint for each body that moves:

 - free: translation in world axes, then a spherical joint; its frame is at the centre of mass and has the body's axes.
   The coordinates are (x, y, z, quaternion x y z w), the velocities that of the centre of mass in world axes and the
   angular one in the body's axes: the inertia is constant, and any step keeps linear momentum exactly.
 - planar: x, y and the angle about z in world axes, its frame at the centre of mass.
 - revolute and prismatic: the body's axes, turned or moved along an axis of the parent.

Fixed bodies belong to joint 0. A tree is the set of all bodies connected to the world by one joint; it has consecutive
coordinates, and the inertia matrix is block diagonal over trees. Friction and restitution belong to pairs of bodies: if
neither body has its own value, that of the experiment is used; if one has, its value; if both have, the greater
restitution and the geometric mean of each coefficient of friction, be it of sliding, rolling or torsion.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import coal
import numpy as np
import pinocchio as pin

from haptic_sim.constraints.bodies import ConstrainedMultibody
from haptic_sim.constraints.errors import ConstraintError
from haptic_sim.constraints.in_worlds import WorldConstraint
from haptic_sim.constraints.parameters import AnyWorldConstraintParameters, JointCouplingParameters
from haptic_sim.contact_rows import ContactRows
from haptic_sim.dynamics.gravity import balance
from haptic_sim.dynamics.joints import JointLaw, free_joint_laws
from haptic_sim.dynamics.loose import PINOCCHIO_COORDINATES, joint_placements, part_of
from haptic_sim.dynamics.multibody import Multibody, SurveyedMultibody, coordinate_names, free_joint, planar_joint
from haptic_sim.fields.acting import Field
from haptic_sim.geometry.collision import CollisionDetector
from haptic_sim.geometry.collision.field_contacts import MOST_SLOPE
from haptic_sim.geometry.fields.distances import FieldError
from haptic_sim.geometry.fields.field import CELLS, SolidField, fields_for
from haptic_sim.geometry.mesh_files import MeshError
from haptic_sim.geometry.meshes import Taken
from haptic_sim.geometry.shapes import (
    PlaneParameters,
    Solid,
    Vector,
    coordinates_of,
    locate,
    placement,
    solid,
    surface_of,
    uniform,
)
from haptic_sim.geometry.textures import Surface, SurfaceParameters, TextureError, TextureParameters
from haptic_sim.hand.held import unholdable
from haptic_sim.messages import ToolSizes
from haptic_sim.motions.motion import Motion, Pull
from haptic_sim.parameters import ParameterError, did_you_mean
from haptic_sim.random_numbers import displaced
from haptic_sim.rotations import from_roll_pitch_yaw
from haptic_sim.spatial import planar_angle, quat_from_matrix
from haptic_sim.worlds.constraints import build_constraints
from haptic_sim.worlds.fields import build_fields
from haptic_sim.worlds.file_joints import listed
from haptic_sim.worlds.file_trees import FileTree, ModelFileError
from haptic_sim.worlds.model_files import load_trees
from haptic_sim.worlds.motions import build_motions, build_pulls, without_friction
from haptic_sim.worlds.parameters import (
    WORLD,
    BallBodyParameters,
    FileParameters,
    FixedBodyParameters,
    FreeBodyParameters,
    HoldParameters,
    Material,
    PlanarBodyParameters,
    PrismaticBodyParameters,
    RevoluteBodyParameters,
    WorldParameters,
    tensor,
)

MOST_DRAWS = 100  # of a start at random in which bodies overlap
HUGE = 1.0  # [m] of an overlap, more than of bodies that are only placed wrongly
SHOWN = 5  # pairs of bodies that overlap
QUATERNION_TOLERANCE = 1e-3  # of the length of a given one
ROWS_OF_A_PAIR = 2 * CELLS  # of shapes with fields, at most
MAX_COORDINATES = 6000  # velocities: solvers have tables of their square, 0.3 GB each for so many


@dataclass(frozen=True)
class MeshOfBody:
    """A mesh of a body or of a link of a file, and which shapes of the world's geometry stand for it.

    Attributes:
        body: its name.
        first, count: the shapes, which have the pose of the mesh.
        taken: the mesh, and what was chosen.
        source: where it is from, as messages name it.
    """

    body: str
    first: int
    count: int
    taken: Taken
    source: str


MATERIAL = ("restitution", "friction_static", "friction_kinetic", "friction_rolling", "friction_torsional")
"""Coefficients of a pair of bodies, by the keys of a body."""


class Materials(NamedTuple):
    """Coefficients of the collision pairs.

    Attributes:
        restitution: (P,).
        friction: static and kinetic, (P, 2).
        resistance: of rolling and torsional friction [m], (P, 2).
    """

    restitution: np.ndarray
    friction: np.ndarray
    resistance: np.ndarray


@dataclass(frozen=True)
class WorldSetup:
    """A multibody world at its start.

    Attributes (P: collision pairs, F: free bodies, T: trees):
        model, hand: Pinocchio model, and in it the frame at the hold point with the axes of the held body.
        further: such frames of further hands.
        geometry: coal shapes, convex or meshes of triangles. Of each collision pair the second moves, and is the tool's
            if one is.
        q, v: configuration and velocity at the start.
        planar: whether everything moves in the plane of x and y.
        own: coefficients of each collision pair in the order of `MATERIAL`, NaN where it has none of its own, (P, 5).
        tree_start, tree_size: first coordinate and number of coordinates of each tree, (T,) int64.
        free_joints: joints of free bodies that nothing hangs on, (F,) int64; their last three velocities are angular.
        free_inertia: their inertia about the centre of mass, in the body's axes [kg m^2], (F, 3, 3).
        body_names: of each joint; that of joint 0 is "world".
        shape_bodies: body of each shape of `geometry`.
        rank_tolerance, rank_fade: when the hand is blocked in a direction, see `haptic_sim.hand`.
        constraints: exact ones, which q and v meet.
        laws: limits, damping, friction and springs of joints, which q meets.
        meshes: of bodies, with what they collide as.
        notes: what meshes collide as, what files say that is not simulated, and what was changed to use them; one line
            a file.
        elsewhere: names of bodies that move and that surroundings alone simulate; their frames are on joint 0.
        pairs: names of the two bodies of each pair of shapes, the tool's the second, as surroundings number them; left
            out: the collision pairs of `geometry`.
        motions: trajectories that bodies follow; pulls: springs from the hand to bodies.
        solid_fields: of the meshes of triangles and of the shapes that they may touch, by the names of these.
        force_fields: fields of force that act on its bodies.
        textures: of shapes of `geometry`, by their names.
        balanced: what gravity does not pull at, mass and centre of mass of each joint in its axes; none where it pulls
            at everything, or at nothing.
    """

    model: pin.Model
    hand: int
    geometry: pin.GeometryModel
    q: np.ndarray
    v: np.ndarray
    planar: bool
    own: np.ndarray
    tree_start: np.ndarray
    tree_size: np.ndarray
    free_joints: np.ndarray
    free_inertia: np.ndarray
    body_names: tuple[str, ...]
    shape_bodies: tuple[str, ...]
    rank_tolerance: float = 1e-3
    rank_fade: float = 0.0
    constraints: tuple[WorldConstraint, ...] = ()
    laws: tuple[JointLaw, ...] = ()
    meshes: tuple[MeshOfBody, ...] = ()
    notes: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] | None = None
    further: tuple[int, ...] = ()
    motions: tuple[Motion, ...] = ()
    pulls: tuple[Pull, ...] = ()
    force_fields: tuple[Field, ...] = ()
    balanced: tuple[pin.Inertia, ...] = ()
    solid_fields: Mapping[str, SolidField] = field(default_factory=dict)
    textures: Mapping[str, TextureParameters] = field(default_factory=dict)

    def __repr__(self) -> str:
        """One line that says what is in it."""
        moving = sum(self.moving.values())
        shapes = len(self.shape_bodies)
        return f"WorldSetup({moving} moving bodies, {self.model.nv} degrees of freedom, {shapes} shapes)"

    @property
    def world(self) -> WorldSetup:
        """The virtual world: this one."""
        return self

    def held_at(self, frame: int) -> WorldSetup:
        """The same world with one of the further hands as its first, and the first among the further ones."""
        return replace(self, hand=frame, further=tuple(self.hand if one == frame else one for one in self.further))

    @property
    def hands_of_tree(self) -> int:
        """How many hands hold the tree of the first, itself included."""
        model = self.model
        roots = [model.supports[model.frames[frame].parentJoint].tolist()[1:2] for frame in (self.hand, *self.further)]
        return roots.count(roots[0])

    @property
    def body_frames(self) -> tuple[int, ...]:
        """Frames of the axes of all bodies, in the order of world states."""
        frames = self.model.frames
        return tuple(i for i, frame in enumerate(frames) if frame.type == pin.FrameType.BODY)

    @property
    def moving(self) -> dict[str, bool]:
        """Whether each body moves in the model, by its name in the order of world states."""
        frames = [self.model.frames[i] for i in self.body_frames]
        return {frame.name: frame.parentJoint > 0 for frame in frames}

    def fixed_poses(self) -> dict[str, np.ndarray]:
        """Poses (7,) of the axes of the bodies that never move, by name."""
        frames = [self.model.frames[i] for i in self.body_frames]
        return {
            frame.name: pin.SE3ToXYZQUAT(frame.placement)
            for frame in frames
            if frame.parentJoint == 0 and frame.name not in self.elsewhere
        }

    @property
    def touching(self) -> tuple[tuple[str, str], ...]:
        """Names of the two bodies of each pair of shapes that may touch."""
        if self.pairs is not None:
            return self.pairs
        names = self.shape_bodies
        return tuple((names[pair.first], names[pair.second]) for pair in self.geometry.collisionPairs)

    def tool_sizes(self) -> ToolSizes:
        """Of the tool's state."""
        return ToolSizes(self.model.nq, self.model.nv, sum(constraint.rows for constraint in self.constraints))

    def bodies(self, period: float, *, surveyed: bool = False, planes: int = 0) -> Multibody:
        """The bodies at their start, to be advanced by steps of `period` [s].

        Args:
            period: [s].
            surveyed: see `SurveyedMultibody`.
            planes: that move as masses, see `Multibody`.

        Raises:
            ConstraintError: q or v does not meet the constraints.
            ParameterError: they have constraints, and are to be surveyed or to have planes.
        """
        if not self.constraints:
            kind = SurveyedMultibody if surveyed else Multibody
            return kind(
                self.model,
                self.hand,
                self.q,
                self.v,
                laws=self.laws,
                period=period,
                planes=planes,
                balanced=self.balanced,
            )
        problem = "dynamics = surveyed" if surveyed else "constraints = dynamic" if planes else ""
        if problem:
            raise ParameterError([f"local_model.{problem}: supports only tools without exact constraints"])
        return ConstrainedMultibody(
            self.model, self.hand, self.q, self.v, self.constraints, period, self.laws, self.balanced
        )

    def hand_pose(self) -> np.ndarray:
        """Position and quaternion x y z w of the hand at the start (7,)."""
        pose, hand = np.zeros(7), self.model.frames[self.hand]
        placement = joint_placements(self.model, self.q)[hand.parentJoint] * hand.placement
        pose[:3] = placement.translation
        quat_from_matrix(placement.rotation, pose[3:])
        return pose

    def hand_dynamics(self) -> tuple[np.ndarray, np.ndarray]:
        """Jacobian of the hand's twist in world axes (6, n), and inertia (n, n), at the start, without loose bodies."""
        part = part_of(self.model)
        data, q = part.createData(), self.q[: part.nq]
        pin.crba(part, data, q)
        M = np.triu(data.M.reshape(part.nv, -1))  # only the upper triangle is filled
        J = pin.computeFrameJacobian(part, data, q, self.hand, pin.LOCAL_WORLD_ALIGNED)
        return J.reshape(6, -1), M + np.triu(M, 1).T

    def hand_mobility(self) -> np.ndarray:
        """Inverse inertia at the hand at the start, J D^-1 J^T (6, 6), under the constraints that always hold.

        Constraints that are switched leave more of it while they are off, and never more than this.
        """
        permanent = tuple(one for one in self.constraints if one.active is None)
        if permanent:
            return replace(self, constraints=permanent).bodies(1e-3).inverse_inertia.reshape(6, 6)
        J, D = self.hand_dynamics()
        mobility: np.ndarray = J @ np.linalg.solve(D, J.T)
        return mobility

    def materials(
        self, restitution: float, friction: tuple[float, float], resistance: tuple[float, float] = (0.0, 0.0)
    ) -> Materials:
        """What each pair is like; the arguments hold where it has no own coefficient."""
        table = np.where(np.isnan(self.own), (restitution, *friction, *resistance), self.own)
        return Materials(*map(np.ascontiguousarray, (table[:, 0], table[:, 1:3], table[:, 3:])))


@dataclass
class _Link:
    """A joint to be and what it carries; poses are in its axes."""

    name: str
    joint_name: str
    joint: pin.JointModel
    parent: _Link | None
    pose: pin.SE3  # in the parent's joint axes
    inertia: pin.Inertia
    q: np.ndarray
    v: np.ndarray
    free: bool = False
    planar: bool = False  # a body that moves freely in the plane
    parent_body: str | None = None  # the fixed body it is fastened to
    source: tuple[pin.Model, int] | None = None  # where its armature is
    laws: tuple[JointLaw, ...] = ()  # places in v and q are counted from the joint's first
    balanced: pin.Inertia = field(default_factory=pin.Inertia.Zero)  # what gravity does not pull at
    bare: bool = False  # between two joints of one body
    armature: float = 0.0
    number: int = 0  # of the joint, once there

    @property
    def carrier(self) -> _Link | None:
        """The link with a body that it hangs on."""
        above = self.parent
        while above is not None and above.bare:
            above = above.parent
        return above


@dataclass
class _Place:
    """Where a body is: with which joint (None: fixed), and its pose and centre of mass in the joint's axes."""

    link: _Link | None
    pose: pin.SE3
    centre: np.ndarray
    material: Material
    file: str = ""
    tree: FileTree | None = None


@dataclass
class _Shape:
    body: str
    name: str
    pose: pin.SE3  # in the joint's axes
    geometry: coal.CollisionGeometry
    field: SolidField | None = None
    texture: TextureParameters | None = None


@dataclass
class _Plan:
    """What the world will be, before there is a model."""

    places: dict[str, _Place] = field(default_factory=dict)
    links: list[_Link] = field(default_factory=list)
    shapes: list[_Shape] = field(default_factory=list)
    meshes: list[MeshOfBody] = field(default_factory=list)
    constraints: dict[str, AnyWorldConstraintParameters] = field(default_factory=dict)  # of files
    notes: list[str] = field(default_factory=list)


def build(
    parameters: WorldParameters,
    folder: Path,
    *,
    restitution: float = 0.0,
    friction: tuple[float, float] = (0.0, 0.0),
    prefix: str = "",
    seed: int = 0,
    hands: Sequence[HoldParameters] = (),
) -> WorldSetup:
    """The world that `parameters` describe.

    Args:
        folder: where the paths of files start from, unless they are there as given.
        restitution, friction: of contacts between bodies without own values; static and kinetic.
        prefix: what goes before the keys in messages, "scene." for example.
        seed: of where bodies are with `jitter`.
        hands: further ones, beside that of `parameters`.

    Raises:
        ParameterError: one line for each problem, with key, value and reason.
    """
    plan = _Plan()
    problems = [*_add_files(plan, parameters, folder), *_add_bodies(plan, parameters, folder)]
    if not problems:
        problems = list(_name_problems(plan, parameters, hands))
    if problems:
        raise ParameterError(prefix + problem for problem in problems)
    if problems := [problem for i, one in enumerate(hands) for problem in _hold_problems(plan, one, f"hands[{i}].")]:
        raise ParameterError(problems)
    if sum(len(link.v) for link in plan.links) > PINOCCHIO_COORDINATES:  # loose bodies come last
        plan.links.sort(key=lambda link: _may_be_loose(plan, link, parameters, hands))
    model, q, v, laws, ordered = _assemble(plan, parameters.gravity)
    balanced = balance(model, _balanced(plan, ordered, parameters))
    hand = _add_hand(model, plan, "hand", parameters)
    further = tuple(_add_hand(model, plan, f"hand_{one.name}", one) for one in hands)
    for i, (one, frame) in enumerate(zip(hands, further, strict=True)):
        if problem := unholdable(model.inertias[model.frames[frame].parentJoint], parameters.planar):
            raise ParameterError([f"hands[{i}].tool = {one.tool}: cannot be held: its link {problem}"])
    geometry, pairs = _add_geometry(plan, parameters, ())
    try:
        fields = fields_for(geometry, {shape.name: shape.field for shape in plan.shapes if shape.field is not None})
    except FieldError as error:
        raise ParameterError([f"{prefix}bodies: {error}"]) from error
    shape_bodies = tuple(shape.body for shape in plan.shapes)
    overlaps = _overlaps(model, geometry, q, shape_bodies, parameters.allowed_overlap, fields)
    if left_out := _overlapping_links(plan, overlaps):
        geometry, pairs = _add_geometry(plan, parameters, left_out)
    held = int(model.frames[hand].parentJoint)
    motions = build_motions(
        model, q, v, laws, parameters.motions, files=tuple(parameters.files), tool=held, folder=folder, prefix=prefix
    )
    laws = without_friction(laws, motions)
    pulls = build_pulls(model, parameters.pulls, tool=held, prefix=prefix)
    force_fields = build_fields(
        model,
        parameters.fields,
        hand=hand,
        tool=parameters.tool,
        centre=lambda name: plan.places[name].centre,
        folder=folder,
        prefix=prefix,
    )
    constraints = {**plan.constraints, **parameters.constraints}
    if constraints and (motions or pulls or force_fields):
        key = "motions" if motions else "pulls" if pulls else "fields"
        where = "leave out constraints" if parameters.constraints else f"{next(iter(constraints))} is one, of a file"
        raise ParameterError([f"{prefix}{key}: support only worlds without exact constraints; {where}"])
    problems = list(_plane_problems(model, plan, ordered, q, parameters)) if parameters.planar else []
    problem = unholdable(model.inertias[model.frames[hand].parentJoint], parameters.planar)
    if problem:
        problems.append(f"tool = {parameters.tool}: cannot be held: its link {problem}")
    values = _materials(plan, pairs, (restitution, *friction, 0.0, 0.0))
    for pair, (_, static, kinetic, _, _) in zip(pairs, values, strict=True):
        if static < kinetic:
            bodies = " and ".join(plan.shapes[i].body for i in pair)
            problem = f"friction of {bodies}: static = {static:g}: must be >= kinetic = {kinetic:g}"
            if f"bodies: {problem}" not in problems:
                problems.append(f"bodies: {problem}")
    if problems:
        raise ParameterError(prefix + problem for problem in problems)
    roots = [link for link in ordered if link.parent is None]
    parents = {id(link.parent) for link in ordered}
    free = [link for link in ordered if link.free and id(link) not in parents]
    own = _materials(plan, pairs, (np.nan,) * len(MATERIAL))
    sizes = [sum(model.nvs[i] for i in model.subtrees[link.number]) for link in roots]
    world = WorldSetup(
        model=model,
        hand=hand,
        geometry=geometry,
        q=q,
        v=v,
        planar=parameters.planar,
        own=np.array(own, float).reshape(-1, len(MATERIAL)),
        tree_start=np.array([model.idx_vs[link.number] for link in roots], np.int64),
        tree_size=np.array(sizes, np.int64),
        free_joints=np.array([link.number for link in free], np.int64),
        free_inertia=np.array([link.inertia.inertia for link in free], float).reshape(-1, 3, 3),
        body_names=(WORLD, *(link.name for link in ordered)),
        shape_bodies=shape_bodies,
        rank_tolerance=parameters.rank_tolerance,
        rank_fade=parameters.rank_fade,
        constraints=build_constraints(model, constraints, prefix),
        laws=laws,
        meshes=tuple(plan.meshes),
        notes=tuple(prefix + note for note in plan.notes),
        further=further,
        motions=motions,
        pulls=pulls,
        force_fields=force_fields,
        balanced=balanced,
        solid_fields=fields,
        textures={shape.name: shape.texture for shape in plan.shapes if shape.texture is not None},
    )
    if any(parameters.jitter):
        world = _jittered(world, plan, parameters, seed, prefix)
    if world.constraints:
        world = _on_manifold(world, prefix)
    if in_vain := list(_textures_on_fields(world, prefix)):
        raise ParameterError(in_vain)
    overlaps = find_overlaps(world, parameters.allowed_overlap)
    if overlaps:
        raise ParameterError(prefix + line for line in _describe_overlaps(overlaps, parameters, plan.meshes))
    return world


def _textures_on_fields(world: WorldSetup, prefix: str) -> Iterator[str]:
    """A sentence for each body with a texture that is too steep for a contact by a signed distance field."""
    shapes, refused = world.geometry.geometryObjects, set()
    for pair in world.geometry.collisionPairs:
        both = (pair.first, pair.second)
        if not any(isinstance(shapes[one].geometry, coal.BVHModelBase) for one in both):
            continue
        for one, other in (both, both[::-1]):
            body, opposite = world.shape_bodies[one], world.shape_bodies[other]
            texture = world.textures.get(shapes[one].name)
            if texture is None or body in refused or texture.largest_slope <= MOST_SLOPE:
                continue
            refused.add(body)
            is_field = isinstance(shapes[one].geometry, coal.BVHModelBase)
            what = "it collides" if is_field else f"it meets {opposite}, which collides"
            would = texture.amplitude * MOST_SLOPE / texture.largest_slope
            yield (
                f"{prefix}bodies.{body}: texture.amplitude = {texture.amplitude:g} m: must be at most {would:.3g} m, "
                f"as {what} as a signed distance field, and its slope is up to {texture.largest_slope:.3g}"
            )


def _jittered(world: WorldSetup, plan: _Plan, parameters: WorldParameters, seed: int, prefix: str) -> WorldSetup:
    """The same world, its free and planar bodies displaced at random; where some overlap, these are drawn again.

    Raises:
        ParameterError: they overlap in every start that was drawn.
    """
    draws = {link.name: 0 for link in plan.links if link.free or link.planar}
    for _ in range(MOST_DRAWS):
        start = replace(world, q=_displaced_start(world, plan, parameters, seed, draws))
        overlaps = find_overlaps(start, parameters.allowed_overlap)
        roots = [{_root_of(plan, name) for name in names} for _, *names in overlaps]
        redrawn = {root for pair in roots if len(pair) > 1 for root in pair if root in draws}
        if not redrawn:
            return start  # what still overlaps does so without jitter
        for name in redrawn:
            draws[name] += 1
    (depth, a, b), pair = next(
        (o, pair) for o, pair in zip(overlaps, roots, strict=True) if not pair.isdisjoint(redrawn)
    )
    jitter = ", ".join(f"{size:g}" for size in parameters.jitter)
    raise ParameterError(
        [
            f"{prefix}jitter = [{jitter}]: with seed = {seed}, {a} and {b} overlap by {depth:.4g} m in the last of "
            f"{MOST_DRAWS} starts drawn: choose less, or place {min(pair & redrawn)} farther away"
        ]
    )


def _displaced_start(
    world: WorldSetup, plan: _Plan, parameters: WorldParameters, seed: int, draws: dict[str, int]
) -> np.ndarray:
    """Configuration with each body of `draws` displaced by as many draws of its own."""
    q = world.q.copy()
    for link in plan.links:
        if link.name in draws:
            place = q[world.model.idx_qs[link.number] :][: link.q.size]
            pose = place if link.free else np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
            source, planar = f"scene.jitter.{link.name}", link.planar or parameters.planar
            pose = displaced(pose, parameters.jitter, seed, planar, source, draws[link.name])
            if link.free:
                place[:] = pose
            else:
                place += pose[0], pose[1], planar_angle(pose)
    return q


def _balanced(plan: _Plan, ordered: list[_Link], parameters: WorldParameters) -> list[pin.Inertia]:
    """What of each joint's link gravity does not pull at."""
    tool = _root(plan.places[parameters.tool].link) if parameters.gravity_compensation else None
    return [pin.Inertia.Zero()] + [
        link.inertia if _root(link) is tool and tool is not None else link.balanced for link in ordered
    ]


def _root_of(plan: _Plan, name: str) -> str:
    """Name of the first moving body of the tree that a body belongs to; empty if it does not move."""
    link = _root(plan.places[name].link)
    return "" if link is None else link.name


def _root(link: _Link | None) -> _Link | None:
    """The first link of its tree."""
    while link is not None and link.parent is not None:
        link = link.parent
    return link


def _describe_overlaps(
    overlaps: list[tuple[float, str, str]], parameters: WorldParameters, meshes: Sequence[MeshOfBody]
) -> Iterator[str]:
    """A line for each pair of bodies that overlap too deep; `meshes` are those of all bodies."""
    for depth, a, b in overlaps[:SHOWN]:
        yield (
            f"bodies: {a} and {b} overlap by {depth:.4g} m at the start: must be at most allowed_overlap = "
            f"{parameters.allowed_overlap:g} m; move one of them, or name the pair in ignore"
        )
    if len(overlaps) > SHOWN:
        yield f"bodies: number of other pairs that overlap: {len(overlaps) - SHOWN}"
    together = {name for _, *names in overlaps for name in names}
    questions = [f"{one.source}: {why}" for one in meshes if one.body in together and (why := one.taken.question)]
    yield from questions
    from_files = {one.body for one in meshes}
    if not questions and any(depth > HUGE and from_files & set(names) for depth, *names in overlaps):
        yield f"bodies: an overlap of more than {HUGE:g} m: lengths are in metres, not in millimetres (meshes: scale)"
    files = sorted({tuple(sorted(name.partition("/")[0] for name in names)) for _, *names in overlaps})
    for a, b in files if len(overlaps) > 1 else ():
        if {a, b} & parameters.files.keys():
            pair = f"ignore = [[{a}, {b}]] is for all bodies of {a} and {b}"
            yield f"bodies: if they are to pass through each other: {pair}"


def _on_manifold(world: WorldSetup, prefix: str) -> WorldSetup:
    """The same world with a start that meets its constraints.

    Raises:
        ParameterError: it is too far from them, or they contradict each other.
    """
    try:
        bodies = world.bodies(1e-3)
    except ConstraintError as error:
        raise ParameterError([f"{prefix}constraints.{error}"]) from error
    return replace(world, q=bodies.q, v=bodies.v)


def find_overlaps(world: WorldSetup, allowed: float = 0.0) -> list[tuple[float, str, str]]:
    """Depth [m] and names of each two bodies that overlap by more than `allowed` at the start, the deepest first."""
    return _overlaps(world.model, world.geometry, world.q, world.shape_bodies, allowed, world.solid_fields)


def _overlaps(
    model: pin.Model,
    geometry: pin.GeometryModel,
    q: np.ndarray,
    bodies: Sequence[str],
    allowed: float,
    fields: Mapping[str, SolidField],
) -> list[tuple[float, str, str]]:
    """As `find_overlaps`, of shapes of these bodies."""
    pairs = np.array([(pair.first, pair.second) for pair in geometry.collisionPairs], np.int64).reshape(-1, 2)
    shapes, placements = geometry.geometryObjects, joint_placements(model, q)
    poses = [placements[shape.parentJoint] * shape.placement for shape in shapes]
    low, high = _bounds(shapes, poses)
    near = ((low[pairs[:, 0]] <= high[pairs[:, 1]]) & (low[pairs[:, 1]] <= high[pairs[:, 0]])).all(axis=1)
    request, deepest = coal.DistanceRequest(), dict[tuple[str, str], float]()
    meshes = np.array([isinstance(shape.geometry, coal.BVHModelBase) for shape in shapes], bool)
    by_field = near & meshes[pairs].any(axis=1)
    for first, second, depth in _overlaps_of_fields(shapes, poses, pairs[by_field], fields):
        names = bodies[second], bodies[first]
        if depth > max(allowed, deepest.get(names, 0.0)):
            deepest[names] = depth
    for first, second in pairs[near & ~by_field].tolist():
        result = coal.DistanceResult()
        at = [coal.Transform3s(poses[i].rotation, poses[i].translation) for i in (first, second)]
        coal.distance(shapes[first].geometry, at[0], shapes[second].geometry, at[1], request, result)
        names = bodies[second], bodies[first]
        if -result.min_distance > max(allowed, deepest.get(names, 0.0)):
            deepest[names] = -float(result.min_distance)
    return sorted(((depth, *names) for names, depth in deepest.items()), key=lambda overlap: -overlap[0])


def _overlaps_of_fields(
    shapes: Sequence[pin.GeometryObject], poses: Sequence[pin.SE3], pairs: np.ndarray, fields: Mapping[str, SolidField]
) -> Iterator[tuple[int, int, float]]:
    """The pairs (P, 2) of shapes at these poses that overlap, and how deep [m]; in each, one has a field."""
    if not len(pairs):
        return
    geometry = pin.GeometryModel()
    for shape, pose in zip(shapes, poses, strict=True):
        geometry.addGeometryObject(pin.GeometryObject(shape.name, 0, 0, pose, shape.geometry))
    for first, second in pairs.tolist():
        geometry.collisionPairs.append(pin.CollisionPair(first, second))
    model, rows = pin.Model(), ContactRows(ROWS_OF_A_PAIR * len(pairs))
    found = CollisionDetector(model, geometry, np.zeros(len(pairs)), np.zeros((len(pairs), 2)), fields=fields)
    data = model.createData()
    pin.forwardKinematics(model, data, np.zeros(0))
    found.detect(data, 0.0, rows)
    for pair in np.unique(rows.wall[: rows.count]).tolist():
        depth = -float(rows.separation[: rows.count][rows.wall[: rows.count] == pair].min())
        yield int(pairs[pair, 0]), int(pairs[pair, 1]), depth


def _bounds(shapes: Sequence[pin.GeometryObject], poses: Sequence[pin.SE3]) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends of boxes around the shapes, world axes, (G, 3) [m]; half-spaces are everywhere."""
    low, high = np.full((len(poses), 3), -np.inf), np.full((len(poses), 3), np.inf)
    for i, (shape, pose) in enumerate(zip(shapes, poses, strict=True)):
        if not isinstance(shape.geometry, coal.Halfspace):
            shape.geometry.computeLocalAABB()
            box = shape.geometry.aabb_local
            centre, half = 0.5 * (box.min_ + box.max_), 0.5 * (box.max_ - box.min_)
            centre, half = pose.act(centre), np.abs(pose.rotation) @ half
            low[i], high[i] = centre - half, centre + half
    return low, high


# Files


def _add_files(plan: _Plan, parameters: WorldParameters, folder: Path) -> Iterator[str]:
    for name, file in parameters.files.items():
        path: str | Path = file.path
        try:
            source = file.source(folder)
            path = source.path
            trees, unread = load_trees(source, file.meshes, file.error, free=file.base == "free")
            trees = [replace(tree, laws=_counted(tree.laws, file)) for tree in trees]
            if file.constraints == "none":
                names = [one for tree in trees for one in tree.constraints]
                unread = [*unread, f"constraints {listed(names)}"] if names else unread
                trees = [replace(tree, constraints={}) for tree in trees]
            for tree in trees if file.limits != "all" else ():
                tree.model.lowerEffortLimit[:], tree.model.upperEffortLimit[:] = -np.inf, np.inf
            states, moved = _file_states(file, trees)
            for tree, (_, q, _) in zip(trees, states, strict=True):
                tree.follow(q)
        except ModelFileError as error:
            yield from (f"files.{name}.path = {path}{problem}" for problem in error.problems)
        except ValueError as error:
            yield f"files.{name}{error}"
        else:
            for tree, (X_FB, q, v) in zip(trees, states, strict=True):
                _add_tree(plan, name, file, tree, file.pose * X_FB, q, v)
            notes = [f"not simulated: {', '.join(unread)}"] if unread else []
            notes += [f"starts at the limits of {', '.join(moved)}"] if moved else []
            if notes:
                plan.notes.append(f"files.{name}.path = {path}: {'; '.join(notes)}")


def _counted(laws: tuple[JointLaw, ...], file: FileParameters) -> tuple[JointLaw, ...]:
    """The laws of a file with the limits that its parameters let count."""
    changed = []
    for law in laws:
        if file.limits == "none":
            law = replace(law, lower=-np.inf, upper=np.inf)
        if file.limits != "all":
            law = replace(law, speed=np.inf)
        changed.append(replace(law, restitution=file.limit_restitution))
    return tuple(changed)


def _file_states(
    file: FileParameters, trees: list[FileTree]
) -> tuple[list[tuple[pin.SE3, np.ndarray, np.ndarray]], list[str]]:
    """Of each tree: where its root is instead of where the file has it, coordinates of its joints, all velocities.

    Besides, the joints that start at a limit, because the file shows them beyond it.

    Raises:
        ValueError: wrong numbers; the text goes after the key of the file.
    """
    nq = sum(tree.model.nq + 7 * tree.free for tree in trees)
    nv = sum(tree.model.nv + 6 * tree.free for tree in trees)
    for key, values, count in (("q", file.q, nq), ("v", file.v, nv)):
        if values is not None and len(values) != count:
            names = ", ".join(name for tree in trees for name in _coordinates_of(tree, key == "v"))
            raise ValueError(f".{key} has {len(values)} values: must have {count}: {names}")
    _check_names(file, trees)
    q, v = np.array(file.q or (), float), np.array(file.v or (0.0,) * nv)
    states, moved = [], []
    for tree in trees:
        X_FB, joints = pin.SE3.Identity(), tree.configuration()
        tree.set_joints(joints, file.joints)
        if file.q is not None:
            if tree.free:
                root, q = q[:7], q[7:]
                if not abs(np.linalg.norm(root[3:]) - 1.0) < QUATERNION_TOLERANCE:
                    raise ValueError(".q: a quaternion in it must have length 1")
                root[3:] /= np.linalg.norm(root[3:])
                X_FB = pin.XYZQUATToSE3(root) * tree.root_pose().inverse()
            joints, q = q[: tree.model.nq], q[tree.model.nq :]
            if not pin.isNormalized(tree.model, joints, QUATERNION_TOLERANCE):
                raise ValueError(".q: a quaternion in it must have length 1")
            joints = pin.normalize(tree.model, joints)
        for law in tree.laws:
            if law.limited and not law.lower <= joints[law.position] <= law.upper:
                if file.q is not None or law.name in file.joints:
                    key = "q" if file.joints == {} else "joints"
                    unit = tree.unit_of(law.name)
                    raise ValueError(
                        f".{key}: joint {law.name} = {joints[law.position]:g} {unit}: must be in its range, "
                        f"{law.lower:g} to {law.upper:g} {unit}"
                    )
                joints[law.position] = min(max(joints[law.position], law.lower), law.upper)
                moved.append(law.name)
        count = tree.model.nv + 6 * tree.free
        states.append((X_FB, joints, v[:count]))
        v = v[count:]
    return states, moved


def _check_names(file: FileParameters, trees: list[FileTree]) -> None:
    """Raise a ValueError unless all names of `files.NAME.joints` are of joints with one coordinate."""
    known = [name for tree in trees for name in tree.single_joints()]
    for name in file.joints:
        if name not in known:
            raise ValueError(f".joints.{name}: unknown joint{did_you_mean(name, known)}")
    if file.joints and file.q is not None:
        raise ValueError(".joints: must be left out where q gives all coordinates")


def _coordinates_of(tree: FileTree, velocities: bool) -> list[str]:
    """Names of the coordinates of a tree, or of its velocities, in the order of `files.NAME.q`."""
    base = ("vx", "vy", "vz", "wx", "wy", "wz") if velocities else ("x", "y", "z", "qx", "qy", "qz", "qw")
    return [f"base.{part}" for part in base if tree.free] + list(coordinate_names(tree.model)[velocities])


def _add_tree(
    plan: _Plan, name: str, file: FileParameters, tree: FileTree, X_WF: pin.SE3, q: np.ndarray, v: np.ndarray
) -> None:
    """Links and shapes of one tree of a file; X_WF: pose of what it has fixed in the world."""
    model = tree.model
    full = {body: f"{name}/{body}" for body, _, _ in tree.bodies()}
    full.setdefault(WORLD, f"{name}/{WORLD}")
    first = {joint: full[body] for body, joint, _ in reversed(list(tree.bodies()))}
    # Joint axes J of the file become axes C of the model: those at the centre of mass for free bodies, which take other
    # coordinates; the others stay. What the file fixes goes with joint 0.
    weights = model.inertias if file.gravity_compensation else tree.balanced or [pin.Inertia.Zero()] * model.njoints
    links: list[_Link | None] = [None]
    X_CJ = [X_WF]
    if tree.free:
        X_FB = tree.root_pose()
        inertia = X_FB.actInv(model.inertias[0])
        laws = free_joint_laws(first[0], tree.root_damping, tree.root_damping)
        links[0] = _free_link(first[0], inertia, X_WF * X_FB, v[:6], X_FB.actInv(weights[0]), laws)
        X_CJ[0] = _to_centre(inertia) * X_FB.inverse()
        v = v[6:]
    for joint in range(1, model.njoints):
        above = tree.parent_body(joint)
        parent, inertia = model.parents[joint], model.inertias[joint].copy()
        i, j = model.idx_qs[joint], model.idx_vs[joint]
        q_J, v_J = q[i : i + model.nqs[joint]], v[j : j + model.nvs[joint]]
        pose = X_CJ[parent] * model.jointPlacements[joint]
        link_name = first.get(joint, f"{name}/{model.names[joint]}")
        if links[parent] is None and model.joints[joint].shortname() == "JointModelFreeFlyer":
            links.append(_free_link(link_name, inertia, pose * pin.XYZQUATToSE3(q_J), v_J, weights[joint].copy()))
            X_CJ.append(_to_centre(inertia))
            continue
        link = _Link(
            name=link_name,
            joint_name=f"{name}/{model.names[joint]}",
            joint=model.joints[joint],
            parent=links[parent],
            pose=pose,
            inertia=inertia,
            q=q_J,
            v=v_J,
            parent_body=None if above is None else full[above],
            source=(model, joint),
            balanced=weights[joint].copy(),
            bare=joint not in first,
            laws=tuple(
                replace(
                    law,
                    velocity=law.velocity - model.idx_vs[joint],
                    position=law.position - model.idx_qs[joint] if law.position >= 0 else -1,
                )
                for law in tree.laws
                if 0 <= law.velocity - model.idx_vs[joint] < model.nvs[joint]
            ),
        )
        links.append(link)
        X_CJ.append(pin.SE3.Identity())
    plan.links += [link for link in links if link is not None]
    for body, joint, pose in tree.bodies():
        carrier = links[joint]
        X_CB = X_CJ[joint] * pose
        centre = X_CB.translation.copy()
        if carrier is not None and first[joint] == full[body]:
            centre = carrier.inertia.lever.copy()
        plan.places[full[body]] = _Place(carrier, X_CB, centre, _material(file, tree, body), name, tree)
    plan.constraints |= {f"{name}/{one}": _of_file(name, given) for one, given in tree.constraints.items()}
    bound = any(getattr(given, "to", "") == WORLD for given in tree.constraints.values())
    if full[WORLD] not in plan.places and (bound or any(shape.body == WORLD for shape in tree.shapes)):
        plan.places[full[WORLD]] = _Place(None, X_WF, X_WF.translation.copy(), file, name)
    last: Taken | None = None
    hulls = [
        (one.taken.error, one) for one in tree.shapes if one.taken and one.taken.chosen == "hull" and one.taken.error
    ]
    if hulls:
        error, worst = max(hulls, key=lambda pair: pair[0])
        of = f"mesh {worst.mesh} of {worst.body}"
        plan.notes.append(f"files.{name}.path = {file.path}: hulls collide, largest error {error:.2g} m: {of}")
    for i, shape in enumerate(tree.shapes):
        full_name, taken = full[shape.body], shape.taken
        if taken is not None and taken is not last:
            source = f"files.{name}.path = {file.path}: mesh {shape.mesh} of {shape.body}"
            plan.meshes.append(MeshOfBody(full_name, len(plan.shapes), len(taken.geometry), taken, source))
            if taken.chosen in ("pieces", "field"):
                plan.notes.append(f"{source}: {taken.summary}")
        last = taken
        field = None if taken is None else taken.field
        pose = X_CJ[shape.joint] * shape.pose
        plan.shapes.append(_Shape(full_name, f"{full_name}.{i}", pose, shape.geometry, field))


def _of_file(file: str, given: AnyWorldConstraintParameters) -> AnyWorldConstraintParameters:
    """A constraint of a file with the names that its bodies and joints have in the world."""
    if isinstance(given, JointCouplingParameters):
        sums = {
            key: {f"{file}/{joint}": factor for joint, factor in getattr(given, key).items()}
            for key in ("joints", "to")
        }
        return given.model_copy(update=sums)
    return given.model_copy(update={"body": f"{file}/{given.body}", "to": f"{file}/{given.to}"})


def _material(file: FileParameters, tree: FileTree, body: str) -> Material:
    """What the surface of a link is like: as the keys of the file say, else as the file itself does."""
    restitution, friction = tree.materials.get(body, (None, None))
    own = {"restitution": restitution, "friction_static": friction, "friction_kinetic": friction}
    given = {key: value for key in MATERIAL if (value := getattr(file, key)) is not None}
    return Material(**own | given) if tree.materials else file


def _to_centre(inertia: pin.Inertia) -> pin.SE3:
    """Pose of a body in axes at its centre of mass, parallel to its own."""
    return pin.SE3(np.eye(3), -np.array(inertia.lever))


def _free_link(
    name: str,
    inertia: pin.Inertia,
    X_WB: pin.SE3,
    velocity: np.ndarray,
    balanced: pin.Inertia,
    laws: tuple[JointLaw, ...] = (),
) -> _Link:
    """The joint of a free body with its axes at X_WB; inertias in these, `velocity` in world axes."""
    return _Link(
        name=name,
        joint_name=name,
        joint=free_joint(),
        parent=None,
        pose=pin.SE3.Identity(),
        inertia=pin.Inertia(inertia.mass, np.zeros(3), inertia.inertia),
        q=np.concatenate([X_WB.act(np.array(inertia.lever)), pin.Quaternion(X_WB.rotation).coeffs()]),
        v=np.concatenate([velocity[:3], X_WB.rotation.T @ velocity[3:]]),
        free=True,
        laws=laws,
        balanced=_to_centre(inertia).act(balanced),
    )


# Bodies


def _add_bodies(plan: _Plan, parameters: WorldParameters, folder: Path) -> Iterator[str]:
    solids: dict[str, list[Solid]] = {}
    textures: dict[str, list[SurfaceParameters]] = {}
    for name, body in parameters.bodies.items():
        solids[name], textures[name] = [], []
        for i, shape in enumerate(body.shapes):
            try:
                solids[name].append(found := solid(shape, folder))
            except MeshError as error:
                yield f"bodies.{name}.shapes[{i}]{error}"
                continue
            try:
                loaded = shape.texture.loaded(partial(locate, folder=folder))
                on = Surface(partial(surface_of, found), partial(coordinates_of, shape, folder))
                textures[name].append(loaded.fitted(on))
            except TextureError as error:
                yield f"bodies.{name}.shapes[{i}].texture{error}"
            if found.taken is not None and (summary := found.taken.summary):
                plan.notes.append(f"bodies.{name}.shapes[{i}].{found.source}: {summary}")
        if name in parameters.files:
            yield f"bodies.{name}: a file has this name too"
    broken = {name for name, body in parameters.bodies.items() if len(body.shapes) > len(textures[name])}
    order, problems = _parents_first(plan, parameters)
    yield from problems
    if broken or problems:
        return
    for name in order:
        body = parameters.bodies[name]
        X_JB = pin.SE3.Identity()  # body in its joint
        link = None
        if isinstance(body, FixedBodyParameters):
            link, X_JB = _fixed(plan, body)
        else:
            inertia = _inertia(body, solids[name])
            link, X_JB = _link(plan, name, body, inertia)
            plan.links.append(link)
        moves = link is not None and not isinstance(body, FixedBodyParameters)
        centre = link.inertia.lever.copy() if link is not None and moves else X_JB.translation.copy()
        plan.places[name] = _Place(link, X_JB, centre, body)
        if link is not None and not moves and any(isinstance(shape, PlaneParameters) for shape in body.shapes):
            yield f"bodies.{name}.shapes: a plane must be of a body that does not move, and its parent does"
    # Shapes in the order of the experiment, whatever hangs on what.
    for name, of_body in solids.items():
        numbers = itertools.count()
        for i, (one, surface) in enumerate(zip(of_body, textures[name], strict=True)):
            if one.taken is not None:
                source = f"bodies.{name}.shapes[{i}].{one.source}"
                plan.meshes.append(MeshOfBody(name, len(plan.shapes), len(one.geometry), one.taken, source))
            pose = plan.places[name].pose * one.pose
            texture: Any = None if surface.ABSENT else surface
            plan.shapes += [
                _Shape(name, f"{name}.{next(numbers)}", pose, geometry, one.field, texture) for geometry in one.geometry
            ]


def _fixed(plan: _Plan, body: FixedBodyParameters) -> tuple[_Link | None, pin.SE3]:
    """The joint that a body is fixed to, and its pose in the joint's axes; none: the world."""
    if body.parent == WORLD:
        return None, body.pose
    place = plan.places[body.parent]
    return place.link, place.pose * body.pose


def _parents_first(plan: _Plan, parameters: WorldParameters) -> tuple[list[str], list[str]]:
    """Names of bodies, parents before children, and what is wrong with parents."""
    order: list[str] = []
    problems: list[str] = []
    for start in parameters.bodies:
        chain: list[str] = []
        name = start
        while name in parameters.bodies and name not in order:
            if name in chain:
                loop = ", ".join(chain[chain.index(name) :])
                problems.append(f"bodies.{name}.parent = {_parent(parameters, name)}: cyclic parent chain ({loop})")
                return [], problems
            chain.append(name)
            name = _parent(parameters, name)
        if name not in (WORLD, *parameters.bodies, *plan.places):
            hint = did_you_mean(name, (WORLD, *parameters.bodies, *plan.places))
            problems.append(f"bodies.{chain[-1]}.parent = {name}: unknown body{hint}")
        order += reversed(chain)
    return order, problems


def _parent(parameters: WorldParameters, name: str) -> str:
    return getattr(parameters.bodies[name], "parent", WORLD)


def _inertia(body: Any, pieces: list[Solid]) -> pin.Inertia:
    """Inertia of a moving body in its axes."""
    if getattr(body, "bare", False):
        return pin.Inertia.Zero()
    shapes = uniform(pieces)
    planar = isinstance(body, PlanarBodyParameters)
    if body.inertia is not None:
        centre = np.zeros(3) if shapes is None else np.array(shapes.lever)
        if body.centre_of_mass is not None:
            centre = np.array([*body.centre_of_mass, 0.0][:3])
        # The other two moments do not matter in the plane; equal ones are those of a possible body.
        moments = body.inertia * np.eye(3) if planar else tensor(body.inertia)
        total = pin.Inertia(body.mass, centre, moments)
    else:
        assert shapes is not None  # moving bodies without inertia have shapes with volume
        scale = body.density if body.mass is None else body.mass / shapes.mass
        moments = np.array(shapes.inertia) * scale
        total = pin.Inertia(
            shapes.mass * scale, np.array(shapes.lever), moments[2, 2] * np.eye(3) if planar else moments
        )
    if planar:
        total.lever = np.array([total.lever[0], total.lever[1], 0.0])
    return total


def _link(plan: _Plan, name: str, body: Any, inertia: pin.Inertia) -> tuple[_Link, pin.SE3]:
    """The joint of a moving body, and the body's pose in its axes."""
    centred = _to_centre(inertia)
    if isinstance(body, FreeBodyParameters):
        balanced = inertia if body.gravity_compensation else pin.Inertia.Zero()
        laws = free_joint_laws(name, body.damping, body.turn_damping)
        return _free_link(name, inertia, body.pose, np.array(body.velocity), balanced, laws), centred
    parent, pose, X_JB = None, pin.SE3.Identity(), pin.SE3.Identity()
    if isinstance(body, PlanarBodyParameters):
        joint, X_JB = planar_joint(), centred
        X_WB = placement((*body.position, 0.0), (0.0, 0.0, body.angle))
        q = [*X_WB.act(np.array(inertia.lever))[:2], body.angle]
        inertia = pin.Inertia(inertia.mass, np.zeros(3), inertia.inertia)
    else:
        pose = body.pose
        if body.parent != WORLD:
            place = plan.places[body.parent]
            parent, pose = place.link, place.pose * body.pose
        axis = np.array(getattr(body, "axis", (0.0, 0.0, 1.0)))
        axis = axis / np.linalg.norm(axis)
        if isinstance(body, BallBodyParameters):
            joint, q = pin.JointModelSpherical(), [*from_roll_pitch_yaw(*body.turn)]
        elif isinstance(body, RevoluteBodyParameters):
            joint, q = pin.JointModelRevoluteUnaligned(axis), [body.angle]
        else:
            joint, q = pin.JointModelPrismaticUnaligned(axis), [body.travel]
    link = _Link(
        name=name,
        joint_name=name,
        joint=joint,
        parent=parent,
        pose=pose,
        inertia=inertia,
        q=np.array(q, float),
        v=np.array(body.velocity, float).reshape(-1),
        planar=isinstance(body, PlanarBodyParameters),
        balanced=inertia if body.gravity_compensation else pin.Inertia.Zero(),
        parent_body=getattr(body, "parent", None),
        laws=() if isinstance(body, PlanarBodyParameters) else _laws(name, body),
        armature=getattr(body, "armature", 0.0),
        bare=getattr(body, "bare", False),
    )
    return link, X_JB


def _laws(
    name: str, body: RevoluteBodyParameters | PrismaticBodyParameters | BallBodyParameters
) -> tuple[JointLaw, ...]:
    if isinstance(body, BallBodyParameters):
        return tuple(JointLaw(name, velocity=k, damping=body.damping) for k in range(3))
    lower, upper = body.range or (-np.inf, np.inf)
    law = JointLaw(
        name,
        velocity=0,
        position=0,
        lower=lower,
        upper=upper,
        speed=body.speed_limit or np.inf,
        damping=body.damping,
        friction=body.friction,
        stiffness=body.stiffness,
        reference=body.rest,
        restitution=body.limit_restitution,
    )
    return (law,)


# Model


def _name_problems(plan: _Plan, parameters: WorldParameters, hands: Sequence[HoldParameters]) -> Iterator[str]:
    yield from _hold_problems(plan, parameters)
    for i, pair in enumerate(parameters.ignore):
        for j, name in enumerate(pair):
            if name not in plan.places and name not in parameters.files:
                yield f"ignore[{i}][{j}] = {name}: unknown body{did_you_mean(name, (*plan.places, *parameters.files))}"
    if not plan.links:
        free = " or ".join(f"files.{name}.base=free" for name in parameters.files)
        yield "bodies: none of them moves" + (f"; set {free} to let the whole of the file move" if free else "")
    parents = {id(link.parent) for link in plan.links}
    for link in plan.links:
        if link.bare and id(link) not in parents:
            yield f"bodies.{link.name}.bare: no body with mass hangs on it; give it mass, or name it as a parent"
    count = sum(len(link.v) for link in plan.links)
    if count > MAX_COORDINATES:
        yield f"bodies: they have {count} velocities together: must be at most {MAX_COORDINATES}"
    if count <= PINOCCHIO_COORDINATES:
        return
    first = sum(len(link.v) for link in plan.links if not _may_be_loose(plan, link, parameters, hands))
    if first > PINOCCHIO_COORDINATES:
        yield (
            f"bodies: linkages, planar bodies and those that are held have {first} velocities together: must be at "
            f"most {PINOCCHIO_COORDINATES}"
        )
    for key in ("constraints", "motions", "pulls", "fields"):
        if getattr(parameters, key) or (key == "constraints" and plan.constraints):
            yield (
                f"{key}: support only worlds with at most {PINOCCHIO_COORDINATES} velocities, and this one has "
                f"{count}; leave bodies out"
            )


def _may_be_loose(plan: _Plan, link: _Link, parameters: WorldParameters, hands: Sequence[HoldParameters]) -> bool:
    """Whether a link is a free body on which nothing hangs and which is not held."""
    names = [parameters.tool, *(one.tool for one in hands)]
    held = [plan.places[name].link for name in names if name in plan.places]
    return link.free and all(one is not link for one in held) and all(one.parent is not link for one in plan.links)


def _hold_problems(plan: _Plan, hold: WorldParameters | HoldParameters, prefix: str = "") -> Iterator[str]:
    place = plan.places.get(hold.tool)
    if place is None:
        yield f"{prefix}tool = {hold.tool}: unknown body{did_you_mean(hold.tool, plan.places)}"
    elif place.link is None:
        base = f"; set files.{place.file}.base=free to let the whole of it move" if place.file else ""
        yield f"{prefix}tool = {hold.tool}: must be a body that moves{base}"


def _assemble(
    plan: _Plan, gravity: Vector
) -> tuple[pin.Model, np.ndarray, np.ndarray, tuple[JointLaw, ...], list[_Link]]:
    """The model, its configuration and velocity, the laws of its joints, and the links in the order of its joints."""
    model = pin.Model()
    model.name = WORLD
    model.gravity.linear = np.array(gravity)
    children: dict[int, list[_Link]] = {}
    for link in plan.links:
        children.setdefault(id(link.parent), []).append(link)
    ordered: list[_Link] = []
    laws: list[JointLaw] = []
    # Depth first, so that the coordinates of a tree are consecutive.
    stack = list(reversed(children.get(id(None), [])))
    while stack:
        link = stack.pop()
        parent = link.parent.number if link.parent is not None else 0
        link.number = model.addJoint(parent, link.joint, link.pose, link.joint_name)
        model.addJointFrame(link.number)
        model.appendBodyToJoint(link.number, link.inertia, pin.SE3.Identity())
        if link.source is not None:
            _copy_limits(*link.source, model, link.number)
        if link.armature > 0.0:
            model.armature[model.idx_vs[link.number]] = link.armature
        first_v, first_q = model.idx_vs[link.number], model.idx_qs[link.number]
        for law in link.laws:
            position = law.position + first_q if law.position >= 0 else -1
            laws.append(replace(law, velocity=law.velocity + first_v, position=position))
        ordered.append(link)
        stack += reversed(children.get(id(link), []))
    for name, place in plan.places.items():
        number = place.link.number if place.link is not None else 0
        model.addFrame(pin.Frame(name, number, place.pose, pin.FrameType.BODY))
    q = np.concatenate([link.q for link in ordered])
    v = np.concatenate([link.v for link in ordered])
    return model, q, v, tuple(law for law in laws if not law.idle), ordered


def _copy_limits(source: pin.Model, i: int, model: pin.Model, k: int) -> None:
    """What a model says of a joint in arrays beside it."""
    a, b, n = source.idx_vs[i], model.idx_vs[k], source.nvs[i]
    for name in (
        "armature",
        "damping",
        "rotorInertia",
        "rotorGearRatio",
        "lowerDryFrictionLimit",
        "upperDryFrictionLimit",
        "lowerEffortLimit",
        "upperEffortLimit",
        "lowerVelocityLimit",
        "upperVelocityLimit",
    ):
        getattr(model, name)[b : b + n] = getattr(source, name)[a : a + n]
    a, b, n = source.idx_qs[i], model.idx_qs[k], source.nqs[i]
    for name in ("lowerPositionLimit", "upperPositionLimit"):
        getattr(model, name)[b : b + n] = getattr(source, name)[a : a + n]


def _add_hand(model: pin.Model, plan: _Plan, name: str, hold: WorldParameters | HoldParameters) -> int:
    place = plan.places[hold.tool]
    assert place.link is not None  # checked by _hold_problems
    point = place.centre if hold.hold is None else place.pose.act(np.array(hold.hold))
    pose = pin.SE3(place.pose.rotation, point)
    return int(model.addFrame(pin.Frame(name, place.link.number, pose, pin.FrameType.OP_FRAME)))


def _overlapping_links(plan: _Plan, overlaps: list[tuple[float, str, str]]) -> list[tuple[str, str]]:
    """Links of one linkage of a file that overlap at the start, which a note says."""
    found: dict[str, list[tuple[str, str]]] = {}
    for _, a, b in overlaps:
        at_a, at_b = plan.places[a], plan.places[b]
        if at_a.tree is not None and at_a.tree is at_b.tree:
            found.setdefault(at_a.file, []).append((a, b))
    for file, pairs in found.items():
        shown = ", ".join(f"{a} and {b}" for a, b in pairs[:SHOWN])
        more = f" and {len(pairs) - SHOWN} other pairs" if len(pairs) > SHOWN else ""
        plan.notes.append(f"files.{file}: overlap at the start, and do not collide with each other: {shown}{more}")
    return [pair for pairs in found.values() for pair in pairs]


def _add_geometry(
    plan: _Plan, parameters: WorldParameters, left_out: Sequence[tuple[str, str]]
) -> tuple[pin.GeometryModel, list[tuple[int, int]]]:
    """Shapes and collision pairs, without pairs of bodies that are left out; the pairs also as numbers of shapes."""
    geometry = pin.GeometryModel()
    numbers = []
    for shape in plan.shapes:
        link = plan.places[shape.body].link
        numbers.append(link.number if link is not None else 0)
        geometry.addGeometryObject(pin.GeometryObject(shape.name, numbers[-1], 0, shape.pose, shape.geometry))
    ignored = {frozenset(pair) for pair in (*parameters.ignore, *left_out)}
    tool = plan.places[parameters.tool].link
    pairs = []
    for i, k in itertools.combinations(range(len(plan.shapes)), 2):
        if _collide(plan, parameters, ignored, plan.shapes[i].body, plan.shapes[k].body):
            # The second moves, and is the tool if one is.
            place_of_i = plan.places[plan.shapes[i].body]
            swap = numbers[k] == 0 or (place_of_i.link is tool and tool is not None)
            pairs.append((k, i) if swap else (i, k))
            # addCollisionPair would compare it with all others
            geometry.collisionPairs.append(pin.CollisionPair(*pairs[-1]))
    return geometry, pairs


def _collide(plan: _Plan, parameters: WorldParameters, ignored: set[frozenset[str]], a: str, b: str) -> bool:
    """Whether two bodies do: not if neither moves, one hangs on the other, or the experiment says so."""
    at_a, at_b = plan.places[a], plan.places[b]
    if at_a.link is at_b.link:
        return False
    for one, other, name_of_other in ((at_a, at_b, b), (at_b, at_a, a)):
        if one.link is None or one.link.carrier is not other.link:
            continue
        if other.link is not None or one.link.parent_body == name_of_other:
            return False
    return not any(frozenset((x, y)) in ignored for x in (a, at_a.file) for y in (b, at_b.file) if x and y)


def _materials(plan: _Plan, pairs: list[tuple[int, int]], defaults: tuple[float, ...]) -> list[tuple[float, ...]]:
    """Coefficients of pairs of shapes in the order of `MATERIAL`, by the rule above."""
    materials = [plan.places[shape.body].material for shape in plan.shapes]
    given = [tuple(getattr(material, name) for name in MATERIAL) for material in materials]

    @cache
    def combined(a: tuple[float | None, ...], b: tuple[float | None, ...]) -> tuple[float, ...]:
        found = []
        for name, x, y, default in zip(MATERIAL, a, b, defaults, strict=True):
            own = [value for value in (x, y) if value is not None]
            if len(own) < 2:
                found.append(float(own[0] if own else default))
            else:
                found.append(max(own) if name == "restitution" else float(np.sqrt(own[0] * own[1])))
        return tuple(found)

    return [combined(given[i], given[k]) for i, k in pairs]


def _plane_problems(
    model: pin.Model, plan: _Plan, ordered: list[_Link], q: np.ndarray, parameters: WorldParameters
) -> Iterator[str]:
    """What leaves the plane of x and y in a planar world."""
    if parameters.gravity[2] != 0.0:
        yield f"gravity[2] = {parameters.gravity[2]:g} m/s^2: must be 0 in a planar world (y is up)"
    part = part_of(model)
    data, out_of_plane = part.createData(), np.ones(model.nv)  # loose bodies move in space
    pin.computeJointJacobians(part, data, q[: part.nq])
    out_of_plane[: part.nv] = np.abs(data.J.reshape(6, part.nv)[2:5]).max(axis=0)
    for link in ordered:
        first = model.idx_vs[link.number]
        if out_of_plane[first : first + model.nvs[link.number]].max() > 1e-9:
            yield f"bodies.{link.name}: leaves the plane of x and y; must not in a planar world"
    for shape in plan.shapes:
        if isinstance(shape.geometry, coal.Halfspace):
            normal = shape.pose.rotation @ shape.geometry.n  # a plane is fixed: its pose is in the world
            if abs(normal[2]) > 1e-9:
                yield f"bodies.{shape.body}: its plane must stand upright on the plane of x and y in a planar world"


def _show(values: np.ndarray) -> str:
    return "[" + ", ".join(f"{value:g}" for value in values) + "]"
