"""Serial arms as Pinocchio models, with the frame of the tool: two of this package, or one from a file.

The arms of this package stand for no maker's. Their joints are revolute; at q = 0 all links stand on each other
along z. Each link is a solid cylinder along z, and each joint has the reflected inertia of its motor.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pinocchio as pin

from haptic_sim.constraints.parameters import JointCouplingParameters
from haptic_sim.inputs import shown
from haptic_sim.parameters import ParameterError, Parameters, did_you_mean, quantity
from haptic_sim.scenes import ModelSource
from haptic_sim.worlds.file_trees import FileTree, ModelFileError
from haptic_sim.worlds.model_files import load_trees
from haptic_sim.worlds.packages import described

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


AXES = (6, 7)
"""Numbers of axes that an arm from a file may have: fewer do not reach every pose of the tool."""
BEYOND = 1e-9  # [rad, m] by which a home posture may be beyond a limit
WIDEST = 100.0  # [rad, m] limits beyond this are none
SINGULAR = 1e-2  # least singular value of the tool's Jacobian at the start, of the largest


class ArmFileParameters(Parameters):
    """A serial arm from a file, its tool, and where its joints are at the start."""

    path: str = quantity(
        "",
        description="File of the arm (.urdf, .xacro, .sdf, or .xml of MJCF), from the working directory, or "
        "robot://NAME of the package robot_descriptions; empty: the arm `model` of this package is simulated",
    )
    args: dict[str, str] = quantity({}, description="Arguments of a xacro file, by name")
    packages: tuple[str, ...] = quantity((), description="Folders in which packages of ROS are looked for first")
    tool: str = quantity("", description="Frame of the tool: a link or a joint of the file; empty: its last link")
    home: tuple[float, ...] = quantity(
        (),
        unit="rad, m",
        description="Positions at the start of the joints that move the tool, from the base on; empty: as the file "
        "shows them",
    )
    armature: float = quantity(
        ARMATURE,
        unit="kg m^2, kg",
        description="Reflected inertia of the motor of each joint, of which a URDF says nothing; is added",
        ge=0.0,
    )

    def source(self) -> ModelSource:
        """The file with its arguments.

        Raises:
            ModelFileError: no such package of descriptions is there.
        """
        path = described(self.path) or Path(os.path.abspath(self.path))
        return ModelSource(path, self.args, tuple(map(Path, self.packages)))

    def load(self) -> tuple[ArmModel, np.ndarray]:
        """The arm, and its configuration at the start (nv,).

        Raises:
            ParameterError: the file cannot be used, or is of no such arm; one line for each problem.
        """
        try:
            trees, _ = load_trees(self.source(), None)
        except ModelFileError as error:
            raise ParameterError([f"arm.file.path = {shown(self.path)}{line}" for line in error.problems]) from error
        found, q = arm_from_trees(trees, self.tool, self.home)
        found.model.armature = found.model.armature + self.armature
        return found, q


def named_arm(model: str, file: ArmFileParameters) -> tuple[ArmModel, np.ndarray]:
    """The arm of a file, or where that has no path an arm of this package, and its configuration at the start (nv,).

    Raises:
        ParameterError: that of the file cannot be.
    """
    return file.load() if file.path else (serial_arm(ARMS[model]), np.array(READY[model]))


def arm_from_trees(trees: list[FileTree], tool: str, home: tuple[float, ...] = ()) -> tuple[ArmModel, np.ndarray]:
    """The arm of a file that has been read, and its configuration at the start (nv,).

    Joints that do not move the tool, as those of a gripper, are held where they are at the start.

    Args:
        trees: what the file describes; the arm is the one that moves.
        tool: name of a frame; empty: the last link that moves.
        home: positions of the joints that move the tool [rad, m]; empty: as the file shows them.

    Raises:
        ParameterError: it is no such arm.
    """
    moving = [tree for tree in trees if tree.model.nv]
    if len(moving) != 1 or moving[0].free:
        raise ParameterError([f"arm.file: has {len(moving)} trees of moving links: must have one, on a fixed base"])
    tree, q = moving[0], moving[0].configuration()
    model, frames = tree.model.copy(), [frame.name for frame in tree.model.frames if frame.name != "universe"]
    links = [frame.name for frame in model.frames if frame.type == pin.FrameType.BODY and frame.parentJoint]
    tool = tool or links[-1]
    if not model.existFrame(tool):
        known = did_you_mean(tool, frames, 40)
        raise ParameterError([f"arm.file.tool = {shown(tool)}: is not a frame of this arm{known}"])
    for law in tree.laws:
        if law.position >= 0:
            i, j = law.position, law.velocity
            model.lowerPositionLimit[i] = max(model.lowerPositionLimit[i], law.lower)
            model.upperPositionLimit[i] = min(model.upperPositionLimit[i], law.upper)
            model.velocityLimit[j] = min(model.velocityLimit[j] or np.inf, law.speed)
    path = [int(i) for i in model.supports[model.frames[model.getFrameId(tool)].parentJoint]][1:]
    if problems := list(_problems(tree, model, path)):
        raise ParameterError(problems)
    model = pin.buildReducedModel(model, [i for i in range(1, model.njoints) if i not in path], q)
    start = np.array(home or [q[tree.model.idx_qs[i]] for i in path], float)
    found = ArmModel(model, model.getFrameId(tool))
    if problems := list(_home_problems(found, start)):
        raise ParameterError(problems)
    return found, start


def _problems(tree: FileTree, model: pin.Model, path: list[int]) -> Iterator[str]:
    """Reasons why the joints that move a tool do not form an arm, one line each; `path`: their indices."""
    for i in path:
        joint, name = model.joints[i], model.names[i]
        if joint.nq != 1:
            kind = "turns without end" if joint.nv == 1 else f"has {joint.nv} degrees of freedom"
            yield f"arm.file: joint {name}: {kind}: must be a hinge or a slide with limits (URDF: type=revolute)"
            continue
        low, high = model.lowerPositionLimit[joint.idx_q], model.upperPositionLimit[joint.idx_q]
        if not (-WIDEST < low < high < WIDEST):
            yield (
                f"arm.file: joint {name}: limits of position [{low:g}, {high:g}]: must be a range within "
                f"{WIDEST:g} rad or m, lower < upper"
            )
    if len(path) not in AXES:
        names = ", ".join(model.names[i] for i in path) or "(none)"
        yield f"arm.file: {len(path)} joints move the tool ({names}): must be {' or '.join(map(str, AXES))}"
    own = {model.names[i] for i in path}
    for name, one in tree.constraints.items():
        if not isinstance(one, JointCouplingParameters) or own & {*one.joints, *one.to}:
            yield f"arm.file: constraint {name}: acts on the joints that move the tool: an arm must have none"


def _home_problems(arm: ArmModel, q: np.ndarray) -> Iterator[str]:
    """Reasons why an arm cannot start at a posture (nv,)."""
    model = arm.model
    if q.size != model.nv or not np.isfinite(q).all():
        yield f"arm.file.home: has {q.size} values: must have {model.nv} finite ones, one for each joint"
        return
    inside = True
    for i, name in enumerate(list(model.names)[1:]):
        low, high = model.lowerPositionLimit[i], model.upperPositionLimit[i]
        if not low - BEYOND <= q[i] <= high + BEYOND:
            inside = False
            yield f"arm.file.home[{i}] = {q[i]:g}: joint {name} must be from {low:g} to {high:g}"
    if inside:
        data = model.createData()
        pin.computeJointJacobians(model, data, q)
        pin.updateFramePlacements(model, data)
        values = np.linalg.svd(pin.getFrameJacobian(model, data, arm.tool, pin.LOCAL_WORLD_ALIGNED), compute_uv=False)
        if not values[-1] > SINGULAR * values[0]:
            yield (
                f"arm.file.home: is singular (singular values of the Jacobian: {values[-1]:.1e}, {values[0]:.1e}): "
                "the tool cannot be moved in each direction; bend the arm, as by home: [0, -1.2, 1.6, -1.9, -1.5, 0]"
            )
