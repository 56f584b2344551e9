"""Plan of a world, before there is a model: joints with what they carry, bodies, shapes."""

from __future__ import annotations

from dataclasses import dataclass, field

import coal
import numpy as np
import pinocchio as pin

from haptic_sim.constraints.parameters import AnyWorldConstraintParameters
from haptic_sim.dynamics.joints import JointLaw
from haptic_sim.dynamics.multibody import free_joint
from haptic_sim.geometry.fields.field import SolidField
from haptic_sim.geometry.textures import TextureParameters
from haptic_sim.worlds.file_trees import FileTree
from haptic_sim.worlds.parameters import Material
from haptic_sim.worlds.world_setup import MeshOfBody


@dataclass
class Link:
    """A joint to be and what it carries; poses are in its axes."""

    name: str
    joint_name: str
    joint: pin.JointModel
    parent: Link | None
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
    def carrier(self) -> Link | None:
        """The link with a body that it hangs on."""
        above = self.parent
        while above is not None and above.bare:
            above = above.parent
        return above


@dataclass
class Place:
    """Place of a body: its joint (None: fixed), and its pose and centre of mass in the joint's axes."""

    link: Link | None
    pose: pin.SE3
    centre: np.ndarray
    material: Material
    file: str = ""
    tree: FileTree | None = None


@dataclass
class Shape:
    body: str
    name: str
    pose: pin.SE3  # in the joint's axes
    geometry: coal.CollisionGeometry
    field: SolidField | None = None
    texture: TextureParameters | None = None


@dataclass
class Plan:
    """Plan of a world, before there is a model."""

    places: dict[str, Place] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)
    meshes: list[MeshOfBody] = field(default_factory=list)
    constraints: dict[str, AnyWorldConstraintParameters] = field(default_factory=dict)  # of files
    notes: list[str] = field(default_factory=list)


def free_link(
    name: str,
    inertia: pin.Inertia,
    X_WB: pin.SE3,
    velocity: np.ndarray,
    balanced: pin.Inertia,
    laws: tuple[JointLaw, ...] = (),
) -> Link:
    """The joint of a free body with its axes at X_WB; inertias in these, `velocity` in world axes."""
    return Link(
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
        balanced=to_centre(inertia).act(balanced),
    )


def to_centre(inertia: pin.Inertia) -> pin.SE3:
    """Pose of a body in axes at its centre of mass, parallel to its own."""
    return pin.SE3(np.eye(3), -np.array(inertia.lever))


def root(link: Link | None) -> Link | None:
    """The first link of its tree."""
    while link is not None and link.parent is not None:
        link = link.parent
    return link
