"""A robot from a checkout is felt as docs/worlds.md has it: xacro with arguments, packages, meshes in STL and DAE."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import trimesh
from documents import write_documented

from haptic_bench import experiment
from haptic_bench.analysis.base import analysis_of
from haptic_bench.commands import command_line
from haptic_bench.experiment.system import load_system, load_viewed
from haptic_bench.recording.samples import Samples
from haptic_sim.worlds.packages import Packages

DOCUMENT = Path(__file__).parents[1] / "docs" / "worlds.md"
CHECKOUT = "Universal_Robots_ROS2_Description"
UPPER, FORE, HEIGHT = 0.425, 0.392, 0.1625  # lengths of a UR5e's links, and height of its shoulder [m]
RADIUS, BALL = 0.05, 0.02  # of the links and of the ball [m]
ROBOT = """<robot name="$(arg name)" xmlns:xacro="http://wiki.ros.org/xacro">
<xacro:arg name="name" default="ur"/><xacro:arg name="ur_type" default="ur3"/>
<xacro:property name="sizes" value="${xacro.load_yaml('$(find arm_stand_in)/config/$(arg ur_type)/sizes.yaml')}"/>
<xacro:macro name="arm" params="link mesh joint parent axis *origin"><link name="${link}"><inertial>
<origin xyz="0.2 0 0"/><mass value="4"/><inertia ixx="0.01" iyy="0.06" izz="0.06" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><geometry><mesh filename="package://arm_stand_in/meshes/$(arg ur_type)/${mesh}"/></geometry></collision>
</link><joint name="${joint}" type="revolute"><parent link="${parent}"/><child link="${link}"/>
<xacro:insert_block name="origin"/><axis xyz="${axis}"/><limit lower="-6.28" upper="6.28" velocity="3.14" effort="150"/>
</joint></xacro:macro>
<link name="base_link"/>
<xacro:arm link="shoulder_link" mesh="base.stl" joint="shoulder_pan_joint" parent="base_link" axis="0 0 1">
<origin xyz="0 0 ${sizes['shoulder']}"/></xacro:arm>
<xacro:arm link="upper_arm_link" mesh="upperarm.dae" joint="shoulder_lift_joint" parent="shoulder_link" axis="0 1 0">
<origin xyz="0 0 0"/></xacro:arm>
<xacro:arm link="forearm_link" mesh="forearm.stl" joint="elbow_joint" parent="upper_arm_link" axis="0 1 0">
<origin xyz="${sizes['upper_arm']} 0 0"/></xacro:arm>
<link name="flange"/><joint name="wrist" type="fixed"><parent link="forearm_link"/><child link="flange"/>
<origin xyz="${sizes['forearm']} 0 0"/></joint></robot>"""


@pytest.fixture(scope="module")
def felt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The experiment of the documentation, beside a checkout with an arm of a UR5e's lengths."""
    folder = tmp_path_factory.mktemp("stranger")
    write_documented(DOCUMENT, "felt", folder)
    checkout = folder / CHECKOUT
    for name in ("urdf", "config/ur5e", "meshes/ur5e"):
        (checkout / name).mkdir(parents=True)
    (checkout / "package.xml").write_text("<package><name>arm_stand_in</name></package>")
    (checkout / "urdf" / "ur.urdf.xacro").write_text(ROBOT)
    sizes = {"shoulder": HEIGHT, "upper_arm": UPPER, "forearm": FORE}
    (checkout / "config/ur5e/sizes.yaml").write_text("".join(f"{key}: {size}\n" for key, size in sizes.items()))
    for name, length in (("base.stl", 0.0), ("upperarm.dae", UPPER), ("forearm.stl", FORE)):
        made = trimesh.creation.capsule(length, RADIUS, count=[16, 32])
        made.apply_transform(trimesh.transformations.rotation_matrix(0.5 * np.pi, [0.0, 1.0, 0.0]))
        middle = np.mean(made.bounds, axis=0)
        made.apply_translation([0.5 * length, 0.0, 0.0] - middle)
        made.export(checkout / "meshes/ur5e" / name)
    return folder / "felt.yaml"


def simulated(path: Path, *settings: str) -> Samples:
    (trial,) = experiment.load(str(path), settings)
    return analysis_of(trial.experiment).run_unrecorded(trial)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("settings", "exact"), [((), 1e-3), (("scene.files.arm.meshes=field", "scene.files.arm.error=0.001"), 2e-3)]
)
def test_the_ball_touches_the_forearm_where_it_is_and_pushes_it_down(
    felt: Path, settings: tuple[str, ...], exact: float
) -> None:
    samples = simulated(felt, *settings)
    touching = np.flatnonzero(samples["contacts"])
    top = HEIGHT + UPPER * np.sin(0.5) + RADIUS + BALL
    assert samples["tool_pz"][touching[0]] == pytest.approx(top, abs=0.001 + exact)  # it comes at 0.2 m/s
    assert samples["env_fz"].max() > 1.0 and samples["env_fz"].min() > -1e-9  # up, on the ball
    assert samples["q1"][-1] > -0.5 + 0.1  # the shoulder gives way
    assert samples["tool_pz"][-1] == pytest.approx(0.27, abs=0.02)


@pytest.mark.exhaustive
def test_the_flange_is_led(felt: Path) -> None:
    samples = simulated(felt, "scene.tool=arm/flange")
    start = HEIGHT + UPPER * np.sin(0.5)
    assert samples["tool_pz"][0] == pytest.approx(start, abs=1e-3)
    assert samples["tool_pz"][-1] < start - 0.15  # the heavy arm swings about the hand's place, 0.25 m below the start
    for axis in "xyz":
        np.testing.assert_allclose(samples[f"tool_p{axis}"], samples[f"hand_p{axis}"], atol=0.01)


def test_a_file_is_validated_with_its_arguments_and_packages(
    felt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout = felt.parent / CHECKOUT
    robot = tmp_path / "mine.urdf.xacro"
    robot.write_text(ROBOT)
    assert command_line.main(["validate", str(robot), "--arg", "ur_type=ur5e"]) == 2
    said = capsys.readouterr().err
    assert "$(find arm_stand_in)" in said and said.rstrip().endswith("in `packages` (--packages)")
    for folder in (felt.parent, checkout):  # one that has the checkout in it, by another name; the checkout
        arguments = [str(robot), "--arg", "ur_type=ur5e", "--packages", str(folder)]
        assert command_line.main(["validate", *arguments]) == 0
        assert capsys.readouterr().out == "mine.urdf: valid, 3600001 ticks at 1000 Hz\n"
    given = {"ur_type": "ur5e"}, (str(checkout),)
    for trial in (load_viewed(str(robot), [], *given), load_system(str(robot), "", [], *given)):
        assert trial.experiment.scene.files["model"].packages == (str(checkout),)
        assert trial.experiment.scene.tool == "model/flange"
    for name, what in (("corner_peg", "corner_peg"), (str(tmp_path / "a.xml"), "MJCF")):
        (tmp_path / "a.xml").write_text("<mujoco/>")
        assert command_line.main(["validate", name, "--packages", "here"]) == 2, what
        assert "--packages here: is for files URDF, xacro and SDF; leave it out" in capsys.readouterr().err
    assert command_line.main(["validate", str(tmp_path / "no.urdf")]) == 2
    assert "there is no such file" in capsys.readouterr().err


def test_a_file_of_mujoco_is_seen_without_a_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mujoco")
    path = tmp_path / "two.xml"
    path.write_text(
        """<mujoco><worldbody><body name="upper"><joint axis="0 1 0"/><geom size=".1" mass="1"/>
        <body name="lower" pos="0 0 -1"><joint axis="0 1 0"/><geom size=".1" mass="1"/></body></body></worldbody>
        <actuator><motor joint="a"/></actuator></mujoco>""".replace("<joint", '<joint name="a"', 1)
    )
    assert command_line.main(["validate", str(path)]) == 0
    said = capsys.readouterr()
    assert said.out == "two: valid, 3600001 ticks at 1000 Hz\n"
    assert "not simulated: <actuator>" in said.err
    seen = load_viewed(str(path)).experiment
    assert (seen.scene.type, seen.scene.tool, seen.device.type) == ("world", "model/lower", "none")
    held = load_system(str(path)).experiment  # a device can feel what MuJoCo simulates
    assert (held.scene.type, held.scene.tool, held.device.type) == ("mujoco", "lower", "inertial")


def test_a_checkout_by_another_name_is_found_in_a_given_folder(felt: Path, tmp_path: Path) -> None:
    packages = Packages(tmp_path / "x.urdf", [felt.parent])
    assert packages.find("arm_stand_in") == felt.parent / CHECKOUT
    assert packages.find("nothing") is None
    assert Packages(tmp_path / "x.urdf", [tmp_path / "not_there"]).find("arm_stand_in") is None
