"""Arms from files: they move as the arms of the tables that the files were written from, and no other is taken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from haptic_robot.adapters import CrtkArmParameters
from haptic_robot.arm import Arm
from haptic_robot.models import ARMATURE, ARMS, RADIUS, RANGE, READY, SPEED, ArmFileParameters, Joint, serial_arm
from haptic_robot.nodes import arm as node
from haptic_robot.simulated import SimulatedArm, SimulatedArmParameters
from haptic_sim.parameters import ParameterError

ROBOTS = Path(pin.__file__).parents[4] / "share/example-robot-data/robots"
AXES = {"y": "0 1 0", "z": "0 0 1"}


def inertia(across: float, along: float) -> str:
    return f'<inertia ixx="{across}" iyy="{across}" izz="{along}" ixy="0" ixz="0" iyz="0"/>'


def joint(name: str, kind: str, ends: tuple[str, str], axis: str, limit: str, height: float = 0.0) -> str:
    return (
        f'<joint name="{name}" type="{kind}"><origin xyz="0 0 {height}"/><parent link="{ends[0]}"/>'
        f'<child link="{ends[1]}"/><axis xyz="{axis}"/><limit {limit}/></joint>'
    )


def urdf(
    joints: tuple[Joint, ...],
    limits: str = f'lower="{-RANGE}" upper="{RANGE}"',
    kind: str = "revolute",
    behind: str = "",
) -> str:
    """The arm of a table, and what is behind its tool: a gripper, or other elements."""
    parts, height, above = ['<robot name="arm"><link name="base"/>'], 0.0, "base"
    for i, (axis, length, mass, effort) in enumerate(joints, 1):
        body = inertia(mass * (3 * RADIUS**2 + length**2) / 12, 0.5 * mass * RADIUS**2)
        held = f'<inertial><origin xyz="0 0 {length / 2}"/><mass value="{mass}"/>{body}</inertial>'
        ends = above, f"link_{i}"
        limit = f'{limits} effort="{effort}" velocity="{SPEED}"'
        hinge = joint(f"joint_{i}", kind, ends, AXES[axis], limit, height)
        parts.append(f'<link name="{ends[1]}">{held}</link>{hinge}')
        height, above = length, ends[1]
    light = f'<inertial><mass value="1e-9"/>{inertia(1e-12, 1e-12)}</inertial>'
    grip = 'lower="0" upper="0.04" effort="1" velocity="1"'
    parts += [
        f'<link name="tool"/><joint name="flange" type="fixed"><origin xyz="0 0 {height}"/><parent link="{above}"/>',
        '<child link="tool"/></joint>',
        behind or f'<link name="finger">{light}</link>' + joint("grip", "prismatic", ("tool", "finger"), "1 0 0", grip),
        "</robot>",
    ]
    return "".join(parts)


def mjcf(joints: tuple[Joint, ...]) -> str:
    """The same as MJCF, without the gripper."""
    text = ""
    heights = [0.0, *(joint.length for joint in joints)]
    for i in reversed(range(len(joints))):
        axis, length, mass, effort = joints[i]
        across, along = mass * (3 * RADIUS**2 + length**2) / 12, 0.5 * mass * RADIUS**2
        height = heights[i]
        tip = f'<body name="tool" pos="0 0 {length}"/>' if i == len(joints) - 1 else ""
        text = (
            f'<body name="link_{i + 1}" pos="0 0 {height}"><inertial pos="0 0 {length / 2}" mass="{mass}" '
            f'diaginertia="{across} {across} {along}"/><joint name="joint_{i + 1}" axis="{AXES[axis]}" '
            f'range="{-RANGE} {RANGE}" actuatorfrcrange="{-effort} {effort}"/>{tip}{text}</body>'
        )
    return f'<mujoco><compiler angle="radian"/><worldbody>{text}</worldbody></mujoco>'


def write(folder: Path, text: str, name: str = "arm.urdf") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(("name", "form"), [("six_axes", "urdf"), ("seven_axes", "urdf"), ("seven_axes", "mjcf")])
def test_the_arm_of_a_file_is_that_of_its_table(name: str, form: str, tmp_path: Path) -> None:
    """Inertia, gravity and Jacobian at random postures, and the limits; the gripper is held."""
    joints = ARMS[name]
    path = write(
        tmp_path, urdf(joints) if form == "urdf" else mjcf(joints), "arm.urdf" if form == "urdf" else "arm.xml"
    )
    model, q = ArmFileParameters(path=path, tool="tool", home=READY[name]).load()
    np.testing.assert_array_equal(q, READY[name])
    rng, table = np.random.default_rng(32), serial_arm(joints)
    for limit in ("lowerPositionLimit", "upperPositionLimit", "velocityLimit", "effortLimit", "armature"):
        if form == "urdf" or limit not in ("velocityLimit", "effortLimit"):  # MJCF has no speed limits
            np.testing.assert_allclose(getattr(model.model, limit), getattr(table.model, limit))
    for _ in range(3):
        at = rng.uniform(-2.0, 2.0, len(joints))
        found, expected = Arm(model, at, 1000.0), Arm(table, at, 1000.0)
        np.testing.assert_allclose(found.M, expected.M, atol=1e-7)
        np.testing.assert_allclose(found.h, expected.h, atol=1e-6)
        np.testing.assert_allclose(found.J, expected.J, atol=1e-12)
        np.testing.assert_allclose(found.pose, expected.pose, atol=1e-12)


def test_arguments_of_a_xacro_file_reach_the_arm(tmp_path: Path) -> None:
    header = '<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:arg name="mass" default="2.5"/>'
    text = urdf(ARMS["six_axes"]).replace('<robot name="arm">', header).replace('value="0.3"', 'value="$(arg mass)"')
    given = {"path": write(tmp_path, text, "arm.urdf.xacro"), "tool": "tool", "home": READY["six_axes"]}
    for mass in ("0.3", "0.7"):
        model, _ = ArmFileParameters(**given, args={"mass": mass}).load()
        assert model.model.inertias[6].mass == pytest.approx(float(mass), abs=1e-6)


def refused(**given: object) -> str:
    with pytest.raises(ParameterError) as caught:
        SimulatedArm(SimulatedArmParameters.model_validate({"file": given}), CrtkArmParameters(), 1000.0)
    return "\n".join(caught.value.problems)


def test_what_is_no_arm_is_refused_with_what_to_do(tmp_path: Path) -> None:
    six, home = ARMS["six_axes"], READY["six_axes"]
    path = write(tmp_path, urdf(six))
    assert "tool = tol: is not a frame of this arm; did you mean tool?" in refused(path=path, tool="tol")
    assert "is singular" in refused(path=path, tool="tool")
    assert "home: has 3 values: must have 6 finite ones" in refused(path=path, tool="tool", home=home[:3])
    far = (*home[:5], 3.0)
    assert "home[5] = 3: joint joint_6 must be from -2.8 to 2.8" in refused(path=path, tool="tool", home=far)
    assert "joint joint_1: turns without end" in refused(path=write(tmp_path, urdf(six, "", "continuous"), "c.urdf"))
    wide = write(tmp_path, urdf(six, 'lower="-1e9" upper="1e9"'), "w.urdf")
    assert "joint joint_1: limits of position" in refused(path=wide, tool="tool", home=home)
    three = write(tmp_path, urdf(six[:3]), "three.urdf")
    said = refused(path=three, tool="tool")
    assert "3 joints move the tool (joint_1, joint_2, joint_3): must be 6 or 7" in said
    assert "arm.file.path" in refused(path=str(tmp_path / "none.urdf"))
    assert "arm.file.path" in refused(path=write(tmp_path, "<robot", "half.urdf"))
    two = write(tmp_path, "<mujoco><worldbody/></mujoco>", "empty.xml")
    assert "has 0 trees of moving links" in refused(path=two)


def test_the_node_takes_a_file_in_place_of_a_name() -> None:
    options = node.options_of(["crtk", "--model", "arm.urdf", "--tool", "tool", "--home", "0", "0.6", "1.4"])
    assert (options.model, options.tool, options.home) == ("arm.urdf", "tool", [0.0, 0.6, 1.4])


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("file", "tool", "home"),
    [
        ("ur_description/urdf/ur5_joint_limited_robot.urdf", "tool0", (0.0, -1.2, 1.6, -1.9, -1.5, 0.0)),
        ("panda_description/urdf/panda.urdf", "panda_hand_tcp", (0.0, -0.4, 0.0, -2.0, 0.0, 1.6, 0.8)),
    ],
)
def test_arms_of_makers_follow_a_target(file: str, tool: str, home: tuple[float, ...]) -> None:
    given = {"path": str(ROBOTS / file), "tool": tool, "home": home}
    arm = SimulatedArm(SimulatedArmParameters.model_validate({"file": given}), CrtkArmParameters(), 1000.0)
    assert arm.arm.model.armature == pytest.approx(ARMATURE)
    goal = arm.arm.pose.copy()
    goal[:3] += 0.02, -0.01, 0.01
    for _ in range(1500):
        arm.take("servo_cp", "", goal)
        arm.step()
    np.testing.assert_allclose(arm.arm.pose[:3], goal[:3], atol=1e-6)
