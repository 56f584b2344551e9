"""Serial arms as Pinocchio models, with the frame of the tool: two of this package, or one from a description.

The arms of this package stand for no maker's. Their joints are revolute; at q = 0 all links stand on each other
along z. Each link is a solid cylinder along z, and each joint has the reflected inertia of its motor.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pinocchio as pin

from haptic_sim.parameters import ParameterError

TOOL = "tool"  # frame at the end of the arms of this package
ARMATURE = 0.1  # [kg m^2] of a joint: reflected inertia of its motor
RADIUS = 0.05  # [m] of a link
RANGE = 2.8  # [rad] of a joint, to both sides
SPEED = 2.5  # [rad/s] of a joint


class Joint(NamedTuple):
    """A joint of an arm, and the link that it moves."""

    axis: str  # y or z, in the axes of the link before
    length: float  # [m] of the link, up to the next joint
    mass: float  # [kg] of the link
    effort: float  # [N m] largest torque of the motor


# anthropomorphic arms of 10 and 12 kg with a reach of 0.9 and 1.1 m; the last three axes are those of a wrist
SIX_AXES = (
    Joint("z", 0.30, 2.5, 150.0),
    Joint("y", 0.40, 3.0, 150.0),
    Joint("y", 0.20, 2.0, 100.0),
    Joint("z", 0.20, 1.5, 50.0),
    Joint("y", 0.08, 0.7, 50.0),
    Joint("z", 0.10, 0.3, 30.0),
)
SEVEN_AXES = (
    Joint("z", 0.34, 2.5, 150.0),
    Joint("y", 0.20, 2.5, 150.0),
    Joint("z", 0.20, 2.0, 100.0),
    Joint("y", 0.20, 2.0, 100.0),
    Joint("z", 0.20, 1.5, 50.0),
    Joint("y", 0.08, 0.9, 50.0),
    Joint("z", 0.10, 0.3, 30.0),
)
ARMS = {"six_axes": SIX_AXES, "seven_axes": SEVEN_AXES}
READY = {
    "six_axes": (0.0, 0.6, 1.4, 0.0, 1.1416, 0.0),
    "seven_axes": (0.0, 0.6, 0.0, 1.4, 0.0, 1.1416, 0.0),
}
"""Configurations [rad] far from singularities, in which the tool points down."""


class ArmModel(NamedTuple):
    """An arm: its Pinocchio model, and the number of its tool's frame."""

    model: pin.Model
    tool: int


def serial_arm(joints: tuple[Joint, ...]) -> ArmModel:
    """The arm of a table of joints, on a base at the origin with z up."""
    model, parent, height = pin.Model(), 0, 0.0
    for i, (axis, length, mass, effort) in enumerate(joints, 1):
        kind = {"y": pin.JointModelRY, "z": pin.JointModelRZ}[axis]()
        placement = pin.SE3(np.eye(3), np.array([0.0, 0.0, height]))
        limits = (np.array([value]) for value in (effort, SPEED, -RANGE, RANGE))
        parent = model.addJoint(parent, kind, placement, f"joint_{i}", *limits)
        link = pin.Inertia.FromCylinder(mass, RADIUS, length)
        model.appendBodyToJoint(parent, link, pin.SE3(np.eye(3), np.array([0.0, 0.0, 0.5 * length])))
        height = length
    model.armature = np.full(model.nv, ARMATURE)
    end = pin.SE3(np.eye(3), np.array([0.0, 0.0, height]))
    return ArmModel(model, model.addFrame(pin.Frame(TOOL, parent, end, pin.FrameType.OP_FRAME)))


def described_arm(urdf: str, tool: str) -> ArmModel:
    """The arm of a URDF, whose joints must have one degree of freedom and a bounded range each.

    Args:
        urdf: the document.
        tool: name of a frame (a link or a joint).

    Raises:
        ParameterError: it is no such arm; names what differs.
    """
    try:
        model = pin.buildModelFromXML(urdf)
    except (ValueError, RuntimeError) as error:
        raise ParameterError([f"arm: not a URDF that Pinocchio reads: {error}"]) from error
    if not model.existFrame(tool):
        names = ", ".join(sorted({frame.name for frame in model.frames} - {"universe"}))
        raise ParameterError([f"arm.tool = {tool}: is no frame of this arm; its frames are {names}"])
    wide = [name for name, joint in zip(model.names, model.joints, strict=True) if joint.id and joint.nq != 1]
    if wide or not model.nv:
        raise ParameterError([f"arm: joints {', '.join(wide) or '(none)'}: must have one degree of freedom each"])
    return ArmModel(model, model.getFrameId(tool))
