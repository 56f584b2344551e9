"""Start of a multibody world: its model, geometry and materials, and what else it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pinocchio as pin

from haptic_sim.constraints.bodies import ConstrainedMultibody
from haptic_sim.constraints.in_worlds import WorldConstraint
from haptic_sim.dynamics.joints import JointLaw
from haptic_sim.dynamics.loose import joint_placements, part_of
from haptic_sim.dynamics.multibody import Multibody, SurveyedMultibody
from haptic_sim.fields.acting import Field
from haptic_sim.geometry.fields.field import SolidField
from haptic_sim.geometry.meshes import Taken
from haptic_sim.geometry.textures import TextureParameters
from haptic_sim.messages import ToolSizes
from haptic_sim.motions.motion import Motion, Pull
from haptic_sim.parameters import ParameterError
from haptic_sim.spatial import quat_from_matrix

MATERIAL = ("restitution", "friction_static", "friction_kinetic", "friction_rolling", "friction_torsional")
"""Coefficients of a pair of bodies, by the keys of a body."""


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
        """Number of hands that hold the tree of the first, itself included."""
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
        """Sizes of the tool's state."""
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
        """Materials of each pair; the arguments hold where it has no own coefficient."""
        table = np.where(np.isnan(self.own), (restitution, *friction, *resistance), self.own)
        return Materials(*map(np.ascontiguousarray, (table[:, 0], table[:, 1:3], table[:, 3:])))
