"""Content of a model file: trees of links with their joints, shapes and laws."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import coal
import numpy as np
import pinocchio as pin

from haptic_sim.constraints.parameters import AnyWorldConstraintParameters, JointCouplingParameters
from haptic_sim.dynamics.joints import JointLaw
from haptic_sim.errors import HapticsError
from haptic_sim.geometry.meshes import Taken


class ModelFileError(HapticsError, ValueError):
    """A file that cannot be used; `problems` holds one reason a line, each to go after the name of the file."""

    def __init__(self, *problems: str):
        self.problems = problems
        super().__init__("\n".join(problems))


FOLLOWERS = 10  # of joints that follow joints that follow others, of which the start is found
Meshes = Literal["either", "automatic", "hull", "pieces", "field"]
"""Collision geometry of the meshes of a file: see `files.NAME.meshes`."""


@dataclass(frozen=True)
class FileShape:
    """A shape of a link: convex, or a mesh of triangles with a field.

    Attributes:
        body: the link.
        joint: number of the joint that carries it, 0 for what is fixed.
        pose: in the axes of the joint.
        taken: what the mesh that it is of collides as, the same object for all shapes of a mesh, which follow one
            another; None: it is of no mesh.
        mesh: name of that mesh in the file.
    """

    body: str
    joint: int
    pose: pin.SE3
    geometry: coal.CollisionGeometry
    taken: Taken | None = None
    mesh: str = ""


@dataclass(frozen=True)
class FileTree:
    """Part of a file: what hangs on one root.

    Attributes:
        model: joints and inertias; what is fixed to the root belongs to joint 0.
        free: whether the root is a free body; else it is fixed.
        shapes: for collisions.
        laws: limits, damping, friction and springs of its joints.
        root_damping: of a free root, of its centre of mass [N s/m] and by the same number of its rotation [N m s/rad].
        start: configuration that the file shows; empty: the neutral one.
        balanced: what gravity does not pull at, mass and centre of mass of each joint in its axes; empty: nothing.
        constraints: exact constraints that the file has, by name, between its links and joints by their names in it.
        materials: restitution and friction of links by name; None: the file does not say it.
    """

    model: pin.Model
    free: bool
    shapes: tuple[FileShape, ...]
    laws: tuple[JointLaw, ...] = ()
    start: tuple[float, ...] = ()
    balanced: tuple[pin.Inertia, ...] = ()
    constraints: dict[str, AnyWorldConstraintParameters] = field(default_factory=dict)
    materials: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)
    root_damping: float = 0.0

    def single_joints(self) -> dict[str, int]:
        """Numbers of the hinges and slides, by name."""
        model = self.model
        return {model.names[i]: i for i in range(1, model.njoints) if model.joints[i].nv == 1}

    def unit_of(self, name: str) -> str:
        """Unit of the position of a hinge or slide."""
        slides = self.model.joints[self.single_joints()[name]].shortname().startswith("JointModelP")
        return "m" if slides else "rad"

    def set_joints(self, q: np.ndarray, positions: Mapping[str, float]) -> None:
        """Set the coordinates (nq,) of hinges and slides to the positions [rad, m] that are given by name."""
        for name, number in self.single_joints().items():
            if name in positions:
                joint, position = self.model.joints[number], positions[name]
                whole = joint.nq == 1
                q[joint.idx_q : joint.idx_q + joint.nq] = (
                    position if whole else (math.cos(position), math.sin(position))
                )

    def follow(self, q: np.ndarray) -> None:
        """Set the coordinates (nq,) of joints that follow others of this tree alone to what the others have."""
        singles, model = self.single_joints(), self.model
        couplings = [one for one in self.constraints.values() if isinstance(one, JointCouplingParameters)]
        for given in couplings * min(len(couplings), FOLLOWERS):  # those of followers, too
            if len(given.joints) != 1:
                continue
            ((name, factor),) = given.joints.items()
            if {name, *given.to} <= singles.keys() and given.active is None:
                total = sum(part * q[model.idx_qs[singles[joint]]] for joint, part in given.to.items())
                value = np.polynomial.polynomial.polyval(total, given.polynomial)
                q[model.idx_qs[singles[name]]] = value / factor

    def configuration(self) -> np.ndarray:
        """The configuration that the file shows (nq,)."""
        return np.array(self.start, float) if self.start else np.array(pin.neutral(self.model))

    def bodies(self) -> Iterator[tuple[str, int, pin.SE3]]:
        """Name, number of the joint and pose in the joint's axes of each link."""
        for frame in self.model.frames:
            if frame.type == pin.FrameType.BODY:
                yield frame.name, frame.parentJoint, frame.placement

    def root_pose(self) -> pin.SE3:
        """Pose of the root's first link in the file."""
        return next((pose for _, joint, pose in self.bodies() if joint == 0), pin.SE3.Identity())

    def parent_body(self, joint: int) -> str | None:
        """The link that joint number `joint` is fastened to."""
        for frame in self.model.frames:
            if frame.type == pin.FrameType.JOINT and frame.parentJoint == joint:
                above = self.model.frames[frame.parentFrame]
                while above.type != pin.FrameType.BODY and above.parentFrame != 0:
                    above = self.model.frames[above.parentFrame]
                return above.name if above.type == pin.FrameType.BODY else None
        return None


def attach(trees: Sequence[FileTree], constraints: Mapping[str, AnyWorldConstraintParameters]) -> None:
    """Give constraints to the trees of a file: to that which has the joint that follows others, or to the first."""
    for name, given in constraints.items():
        joint = next(iter(given.joints)) if isinstance(given, JointCouplingParameters) else None
        owner = next((tree for tree in trees if joint is not None and joint in tree.single_joints()), trees[0])
        owner.constraints[name] = given
