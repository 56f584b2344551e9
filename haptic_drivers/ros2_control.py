"""A haptic device as controllers of ros2_control expect one: joints with positions, velocities and efforts.

The hand point of a device is the end of a chain of three slides x, y, z and, where it senses rotations, three hinges
yaw, pitch, roll: p = (x, y, z) and R = Rz(yaw) Ry(pitch) Rx(roll). Then, with the Jacobian J of the chain,

    twist = J qd        efforts = J^T wrench

so both carry the same power. `urdf` describes the chain with a <ros2_control> element; `joint_state` and `hand_wrench`
are the mapping between its interfaces and the CRTK names measured_cp, measured_cv and servo_cf (docs/crtk.md).

J is singular where the pitch is +-90 degrees: efforts about yaw and roll are about one axis there.

This is a description. A hardware component of ros2_control is a plugin in C++, which this package does not have.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from typing import NamedTuple

import numpy as np

from haptic_drivers.devices.parameters import MeasuredDeviceParameters
from haptic_sim.rotations import matrix

PLUGIN = "haptics/CrtkDevice"
"""Name of the plugin that would read and write the topics; there is none in this package."""
REACH = 1.0  # [m] to both sides, of a device whose workspace is not known
SINGULAR = 1e-6  # of the cosine of the pitch, below which there is no mapping
_STATES = ("position", "velocity")
_TOPICS = {"measured_cp": "PoseStamped", "measured_cv": "TwistStamped", "servo_cf": "WrenchStamped"}


class ChainJoint(NamedTuple):
    """A joint of the chain: its name, the direction of the device, its kind, and its axis."""

    name: str
    direction: str
    kind: str
    axis: tuple[int, int, int]


SLIDES = (
    ChainJoint("x", "x", "prismatic", (1, 0, 0)),
    ChainJoint("y", "y", "prismatic", (0, 1, 0)),
    ChainJoint("z", "z", "prismatic", (0, 0, 1)),
)
HINGES = (  # in the order of the chain
    ChainJoint("yaw", "rz", "revolute", (0, 0, 1)),
    ChainJoint("pitch", "ry", "revolute", (0, 1, 0)),
    ChainJoint("roll", "rx", "revolute", (1, 0, 0)),
)


def joints_of(device: MeasuredDeviceParameters) -> tuple[ChainJoint, ...]:
    """The joints of a device: those of the directions that it senses; rotations only where it senses all three."""
    slides = tuple(one for one in SLIDES if one.direction in device.sensed)
    turns = all(one.direction in device.sensed for one in HINGES)
    return slides + (HINGES if turns else ())


def urdf(device: MeasuredDeviceParameters, namespace: str = "") -> str:
    """A URDF with the chain of a device and its <ros2_control> element.

    Args:
        device: its data: workspace, limits, what it senses and renders.
        namespace: in front of its CRTK topics.
    """
    robot = ElementTree.Element("robot", name=device.name)
    ElementTree.SubElement(robot, "link", name=f"{device.name}_base")
    control = ElementTree.Element("ros2_control", name=device.name, type="system")
    hardware = ElementTree.SubElement(control, "hardware")
    ElementTree.SubElement(hardware, "plugin").text = PLUGIN
    for topic in _TOPICS:
        parameter = ElementTree.SubElement(hardware, "param", name=topic)
        parameter.text = "/".join(filter(None, (namespace, topic)))
    above = f"{device.name}_base"
    for one in joints_of(device):
        name, link = f"{device.name}_{one.name}", f"{device.name}_{one.name}_link"
        ElementTree.SubElement(robot, "link", name=link)
        joint = ElementTree.SubElement(robot, "joint", name=name, type=one.kind)
        ElementTree.SubElement(joint, "parent", link=above)
        ElementTree.SubElement(joint, "child", link=link)
        ElementTree.SubElement(joint, "axis", xyz=" ".join(map(str, one.axis)))
        limits = dict(zip(("lower", "upper", "effort", "velocity"), map(repr, _limits(device, one)), strict=True))
        ElementTree.SubElement(joint, "limit", limits)
        controlled = ElementTree.SubElement(control, "joint", name=name)
        if one.direction in device.actuated:
            ElementTree.SubElement(controlled, "command_interface", name="effort")
        for state in _STATES:
            ElementTree.SubElement(controlled, "state_interface", name=state)
        above = link
    robot.append(control)
    ElementTree.indent(robot)
    return ElementTree.tostring(robot, encoding="unicode") + "\n"


def _limits(device: MeasuredDeviceParameters, joint: ChainJoint) -> tuple[float, float, float, float]:
    """Lower and upper position [m, rad], effort [N, N m] and velocity [m/s, rad/s] of a joint."""
    i = ("x", "y", "z", "rx", "ry", "rz").index(joint.direction)
    slides = joint.kind == "prismatic"
    lower, upper = -REACH, REACH
    if not slides:
        half = 0.5 * math.pi if joint.name == "pitch" else math.pi
        lower, upper = -half, half
    elif device.workspace is not None:
        lower, upper = device.workspace[i], device.workspace[3 + i]
    speeds = device.bound.velocity or (0.0, 0.0)
    return float(lower), float(upper), float(device.limit()[i]), float(speeds[0 if slides else 1])


def chain_jacobian(angles: np.ndarray) -> np.ndarray:
    """J (6, 6) of the whole chain, twist [linear, angular] = J qd, at the angles yaw, pitch, roll (3,) [rad]."""
    yaw, pitch, _ = angles
    J = np.eye(6)
    cy, sy, cp, sp = math.cos(yaw), math.sin(yaw), math.cos(pitch), math.sin(pitch)
    J[3:, 3:] = np.array([[0.0, -sy, cy * cp], [0.0, cy, sy * cp], [1.0, 0.0, -sp]])
    return J


def joint_state(pose: np.ndarray, twist: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities (6,) of x, y, z, yaw, pitch, roll, of measured_cp (7,) and measured_cv (6,).

    Raises:
        ValueError: the pitch is +-90 degrees.
    """
    R = matrix(np.asarray(pose[3:], float))
    cosine = math.hypot(R[2, 1], R[2, 2])
    if cosine < SINGULAR:
        raise ValueError("pitch is +-90 degrees: yaw and roll are about one axis; turn the base of the device")
    angles = np.array([math.atan2(R[1, 0], R[0, 0]), math.atan2(-R[2, 0], cosine), math.atan2(R[2, 1], R[2, 2])])
    return np.concatenate([pose[:3], angles]), np.linalg.solve(chain_jacobian(angles), twist)


def hand_wrench(efforts: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Wrench (6,) [N, N m] of servo_cf for efforts (6,) [N, N m] of the joints at their positions (6,) [m, rad]."""
    return np.asarray(np.linalg.solve(chain_jacobian(positions[3:]).T, efforts))
