"""A world as a URDF document: its bodies with their shapes, for programs that draw robots (`robot_description`)."""

from __future__ import annotations

from typing import NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

import coal
import numpy as np
import pinocchio as pin

from haptic_sim.worlds.parameters import WORLD
from haptic_sim.worlds.world_setup import WorldSetup

PLANE = (2.0, 0.002)  # width and thickness with which a half-space is drawn [m]
SLIDE = 1e3  # [m] limit of a slide that has none: URDF asks for one


class Description(NamedTuple):
    """A URDF document, and the names of its joints that turn or slide."""

    text: str
    joints: tuple[str, ...]


def describe(world: WorldSetup, name: str) -> Description:
    """The world as a robot of this name, whose root is the link `world`.

    A link is a body in its axes. Hinges and slides are joints of their names; a body that moves otherwise, or that an
    engine of another kind simulates, is on a floating joint, whose place programs take from `/tf`. A half-space is a
    thin plate, a mesh or another convex shape is its bounding box.
    """
    model, robot, joints = world.model, Element("robot", name=name), []
    SubElement(robot, "link", name=WORLD)
    frames = [frame for frame in model.frames if frame.type == pin.FrameType.BODY and frame.name != WORLD]
    carriers: dict[int, pin.Frame] = {}  # the first body of each joint
    shapes: dict[str, list[int]] = {}
    for k, body in enumerate(world.shape_bodies):
        shapes.setdefault(body, []).append(k)
    for frame in frames:
        link, j = SubElement(robot, "link", name=frame.name), frame.parentJoint
        first = carriers.setdefault(j, frame) is frame
        if first and j and model.inertias[j].mass > 0.0:
            _add_inertia(link, frame.placement.actInv(model.inertias[j]))
        for k in shapes.get(frame.name, ()):
            shape = world.geometry.geometryObjects[k]
            for kind in ("visual", "collision"):
                _add_shape(link, kind, frame.placement.actInv(shape.placement), shape.geometry)
        kind, axis = "fixed", None
        origin, parent = frame.placement, WORLD
        if j and not first:
            carrier = carriers[j]
            origin, parent = carrier.placement.actInv(frame.placement), carrier.name
        elif j:
            kind, axis = _joint(model.joints[j]) if frame.placement.isIdentity(1e-12) else ("floating", None)
            above = carriers.get(model.parents[j])
            if above is not None:
                origin, parent = above.placement.actInv(model.jointPlacements[j]), above.name
            else:
                origin = model.jointPlacements[j]
        elif frame.name in world.elsewhere:
            kind = "floating"
        joint_name = model.names[j] if kind in ("continuous", "prismatic") else f"{parent}_to_{frame.name}"
        joint = SubElement(robot, "joint", name=joint_name, type=kind)
        SubElement(joint, "parent", link=parent)
        SubElement(joint, "child", link=frame.name)
        _add_origin(joint, origin)
        if axis is not None:
            joints.append(joint_name)
            SubElement(joint, "axis", xyz=_numbers(axis))
        if kind == "prismatic":
            SubElement(joint, "limit", lower=str(-SLIDE), upper=str(SLIDE), effort="0", velocity="0")
    ElementTree.indent(robot)
    return Description(ElementTree.tostring(robot, encoding="unicode"), tuple(joints))


def _joint(joint: pin.JointModel) -> tuple[str, np.ndarray | None]:
    """Type of a joint in URDF, and its axis if it turns or slides about one."""
    if (joint.nq, joint.nv) != (1, 1):
        return "floating", None
    moving = joint.createData() if hasattr(joint, "createData") else None
    if moving is None:
        return "floating", None
    joint.calc(moving, np.zeros(joint.idx_q + 1), np.zeros(joint.idx_v + 1))
    subspace = np.asarray(moving.S).reshape(6)
    turns = bool(np.linalg.norm(subspace[3:]) > 0.5)
    return ("continuous", subspace[3:]) if turns else ("prismatic", subspace[:3])


def _add_inertia(link: Element, inertia: pin.Inertia) -> None:
    inertial = SubElement(link, "inertial")
    _add_origin(inertial, pin.SE3(np.eye(3), inertia.lever))
    SubElement(inertial, "mass", value=repr(float(inertia.mass)))
    places = {"ixx": (0, 0), "ixy": (0, 1), "ixz": (0, 2), "iyy": (1, 1), "iyz": (1, 2), "izz": (2, 2)}
    SubElement(inertial, "inertia", {name: repr(float(inertia.inertia[at])) for name, at in places.items()})


def _add_shape(link: Element, kind: str, pose: pin.SE3, shape: coal.CollisionGeometry) -> None:
    """A shape, or what stands for it."""
    if isinstance(shape, coal.Capsule):
        for z in (-shape.halfLength, shape.halfLength):
            centre = pin.SE3(np.eye(3), np.array([0.0, 0.0, z]))
            _add_element(link, kind, pose * centre, "sphere", radius=shape.radius)
        _add_element(link, kind, pose, "cylinder", radius=shape.radius, length=2.0 * shape.halfLength)
    elif isinstance(shape, coal.Sphere):
        _add_element(link, kind, pose, "sphere", radius=shape.radius)
    elif isinstance(shape, coal.Cylinder):
        _add_element(link, kind, pose, "cylinder", radius=shape.radius, length=2.0 * shape.halfLength)
    elif isinstance(shape, coal.Box):
        _add_element(link, kind, pose, "box", size=2.0 * shape.halfSide)
    elif isinstance(shape, coal.Halfspace):
        width, thickness = PLANE
        turn = pin.Quaternion.FromTwoVectors(np.array([0.0, 0.0, 1.0]), shape.n).matrix()
        plate = pin.SE3(turn, shape.n * (shape.d - 0.5 * thickness))
        _add_element(link, kind, pose * plate, "box", size=np.array([width, width, thickness]))
    else:
        shape.computeLocalAABB()
        box = shape.aabb_local
        _add_element(link, kind, pose * pin.SE3(np.eye(3), box.center()), "box", size=box.max_ - box.min_)


def _add_element(link: Element, kind: str, pose: pin.SE3, name: str, **sizes: float | np.ndarray) -> None:
    element = SubElement(link, kind)
    _add_origin(element, pose)
    texts = {key: _numbers(np.atleast_1d(value)) for key, value in sizes.items()}
    SubElement(SubElement(element, "geometry"), name, texts)


def _add_origin(element: Element, pose: pin.SE3) -> None:
    SubElement(element, "origin", xyz=_numbers(pose.translation), rpy=_numbers(pin.rpy.matrixToRpy(pose.rotation)))


def _numbers(values: np.ndarray) -> str:
    return " ".join(repr(float(value)) for value in values)
