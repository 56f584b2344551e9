"""Model files as worlds that can be edited: they move as the files do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_file_constraints import BODIES, EQUALITIES, GRIPPER
from test_sdf import INERTIAL, WORLD, link, model

import haptic_sim
from haptic_bench import experiment
from haptic_bench.commands import command_line
from haptic_bench.experiment.conversion import convert_file
from haptic_bench.experiment.system import is_world_file, load_viewed
from haptic_sim.parameters import ParameterError
from haptic_sim.worlds.conversion import convert
from haptic_sim.worlds.model_files import ModelFileError, load_trees

MJCF = """<mujoco><compiler angle="radian"/><worldbody><body name="a" pos="0 0 1" euler="0.2 0.4 0.1">
<joint name="j" axis="0 1 1" damping=".1" pos="0.02 0 0.05" range="-0.5 1" ref="0.2"/><geom size=".05" pos=".2 0 0"/>
<body name="b" pos=".4 0 0" gravcomp="1"><joint name="k" type="slide" axis="1 0 1" stiffness="5" springref=".1"/>
<joint name="l" axis="0 1 0" armature=".01" frictionloss=".01"/><geom type="box" size=".1 .05 .02" pos=".1 .05 0"/>
<body name="tip" pos="0 0 0.2" gravcomp="1"><geom type="ellipsoid" size=".05 .02 .03"/></body></body>
<body name="c" pos="-.3 0 .1"><joint name="ball" type="ball"/>
<geom type="capsule" size=".02 .1" pos=".1 0 0"/></body></body>
<body name="free" pos="1 0 1" euler="0.3 0.1 0.5"><freejoint/><geom type="cylinder" size=".05 .1" pos=".02 0 0"/>
<body name="d" pos="0 0 .2"><joint name="m"/><geom size=".03" pos=".1 0 0"/></body></body>
<body name="damped" pos="2 0 1" euler="0.3 0.1 0.5"><joint type="free" damping="3"/><geom type="box" size=".1 .05 .02"/>
</body></worldbody></mujoco>"""
XACRO = """<robot xmlns:xacro="http://wiki.ros.org/xacro" name="r">
<xacro:arg name="mass" default="1"/><link name="base"/>
<xacro:macro name="part" params="name above *origin"><link name="${name}"><inertial><origin xyz="0.1 0.01 0"/>
<mass value="$(arg mass)"/><inertia ixx="0.1" iyy="0.12" izz="0.15" ixy="0.01" ixz="0" iyz="0"/></inertial>
<collision><origin xyz="0.1 0 0" rpy="0.1 0 0.3"/><geometry><box size="0.1 0.02 0.03"/></geometry></collision></link>
<joint name="${name}_joint" type="continuous"><xacro:insert_block name="origin"/><parent link="${above}"/>
<child link="${name}"/><axis xyz="0 ${1/2} ${sqrt(3)/2}"/></joint></xacro:macro>
<xacro:part name="one" above="base"><origin xyz="0 0 0.5" rpy="${pi/6} 0 0.3"/></xacro:part>
<xacro:part name="two" above="one"><origin xyz="0.3 0 0"/></xacro:part>
<link name="tool"/><joint name="fix" type="fixed"><origin xyz="0.2 0 0" rpy="0 0 1"/><parent link="two"/>
<child link="tool"/></joint></robot>"""
SDF = model(
    "<pose>0 0 1 0.1 0 0</pose>"
    + link("a", "<pose>0.1 0 0 0 0.2 0</pose>")
    + link("b", "<pose>0.4 0 0 0 0 0.3</pose><gravity>0</gravity>")
    + '<joint name="j" type="universal"><pose>0.05 0 0 0 0 0.1</pose><parent>a</parent><child>b</child>'
    "<axis><xyz>1 0 0</xyz></axis><axis2><xyz>0 1 0</xyz></axis2></joint>"
)
FILES = {
    "arm.urdf": Path(__file__).parents[1].joinpath("examples", "arm.urdf").read_text(),
    "gripper.urdf": GRIPPER.format(kind="continuous", limit=""),
    "all.xml": MJCF,
    "loop.xml": BODIES.format(EQUALITIES["connect"] + EQUALITIES["tendon"].replace('"e"', '"f"')),
    "r.urdf.xacro": XACRO,
    "pair.sdf": SDF,
    "room.world": WORLD,
}


@pytest.mark.parametrize("name", list(FILES))
def test_what_a_file_is_converted_to_moves_as_the_file(tmp_path: Path, name: str) -> None:
    """From the same velocities for 0.2 s, to 1e-9 m in all links."""
    path, out = tmp_path / name, tmp_path / "out" / "world.yaml"
    path.write_text(FILES[name])
    found = convert_file(str(path), out)
    write(found, out)
    names = convert(load_trees(path, "either")[0], "world_meshes").names
    scene = {**found.document["scene"], "gravity_compensation": False}
    sections = {key: found.document[key] for key in ("contact", "environment")}
    ours = haptic_sim.World(haptic_sim.Model(scene, folder=out.parent, **sections))
    theirs = haptic_sim.World(haptic_sim.load(path, **sections))
    rng, prefix = np.random.default_rng(20269), next(iter(theirs.bodies)).partition("/")[0]
    for link_name, body in names.items():  # momentum, as coordinates may differ
        if body != "world" and f"{prefix}/{link_name}" in theirs.bodies:
            kick = rng.normal(size=6) * 20.0
            moving = {
                "moves": ours.model.start.moving[body],
                "moved": theirs.model.start.moving[f"{prefix}/{link_name}"],
            }
            assert moving["moves"] == moving["moved"]
            if moving["moves"]:
                at = theirs.bodies[f"{prefix}/{link_name}"].position
                push(ours, body, kick, at)
                push(theirs, f"{prefix}/{link_name}", kick, at)
    moved = 0.0
    start = {key: body.position for key, body in theirs.bodies.items()}
    for _ in range(200):
        ours.step()
        theirs.step()
    for link_name, body in names.items():
        if f"{prefix}/{link_name}" in theirs.bodies:
            one, other = ours.bodies[body], theirs.bodies[f"{prefix}/{link_name}"]
            assert one.position == pytest.approx(other.position, abs=1e-9)
            assert abs(one.quaternion @ other.quaternion) == pytest.approx(1.0, abs=1e-9)
            moved = max(moved, float(np.linalg.norm(other.position - start[f"{prefix}/{link_name}"])))
    assert moved > 2e-3


def push(world: haptic_sim.World, body: str, wrench: np.ndarray, at: np.ndarray) -> None:
    """One step under a wrench at a point, which is the origin of one of two worlds' bodies."""
    arm = at - world.bodies[body].position
    world.step(wrenches={body: [*wrench[:3], *(wrench[3:] + np.cross(arm, wrench[:3]))]})


def write(found: Any, out: Path) -> None:
    for name, text in {**found.meshes, out.name: found.text("x")}.items():
        place = out.parent / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


def test_the_command_writes_an_experiment_that_can_be_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "r.urdf.xacro", tmp_path / "world.yaml"
    path.write_text(XACRO)
    assert command_line.main(["convert", str(path), "--arg", "mass=3", "--out", str(out)]) == 0
    (trial,) = experiment.load(str(out))
    assert trial.experiment.scene.bodies["one"].mass == 3.0
    assert trial.experiment.scene.tool == "tool" and trial.experiment.operator.type == "pointer"
    for arguments, said in (
        ([str(path), "--out", str(out)], "the file exists; name another one, or add --force"),
        ([str(path), "--out", str(tmp_path / "x.txt")], "must end in .yaml"),
        ([str(path), "--out", str(tmp_path / "y.yaml"), "--arg", "mas=3"], "args.mas: unknown; did you mean mass"),
        ([str(path), "--out", str(tmp_path / "y.yaml"), "--arg", "mass"], "--arg mass: must be NAME=VALUE"),
        (["nowhere.urdf", "--out", str(tmp_path / "y.yaml")], "there is no such file"),
    ):
        capsys.readouterr()
        assert command_line.main(["convert", *arguments]) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "y.yaml").exists()


def test_a_joint_that_no_body_of_a_world_has_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "x.sdf"
    joint = '<joint name="s" type="screw"><parent>world</parent><child>a</child></joint>'
    path.write_text(model(f'<link name="a">{INERTIAL}</link>{joint}'))
    with pytest.raises(ModelFileError, match=r"joint s: convert knows hinges, slides"):
        convert(load_trees(path, "hull")[0], "meshes")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"joint": "revolute", "axis": [0, 0, 1], "bare": True}, "bodies.x.bare: no body with mass is connected to it"),
        ({"joint": "revolute", "axis": [0, 0, 1], "bare": True, "mass": 1.0}, "mass: a bare body has none"),
        ({"joint": "fixed", "parent": "box", "shapes": [{"type": "plane"}]}, "a plane must be of a body that does not"),
        ({"joint": "fixed", "parent": "bux"}, "bodies.x.parent = bux: unknown body; did you mean box"),
    ],
)
def test_parts_of_bodies_are_refused_where_they_cannot_be(body: dict[str, Any], said: str) -> None:
    box = {"joint": "free", "mass": 1.0, "shapes": [{"type": "sphere", "radius": 0.1}]}
    with pytest.raises(ParameterError, match=said):
        haptic_sim.Model({"bodies": {"box": box, "x": body}, "tool": "box"})


def test_a_body_that_is_fixed_to_another_is_a_part_of_it() -> None:
    """Its shape collides, it moves along, and can be held."""
    box = {"joint": "free", "mass": 1.0, "inertia": [0.01] * 3, "position": [0, 0, 1]}
    foot = {"joint": "fixed", "parent": "box", "position": [0, 0, -0.3], "shapes": [{"type": "sphere", "radius": 0.1}]}
    floor = {"joint": "fixed", "shapes": [{"type": "plane"}]}
    scene = {"bodies": {"floor": floor, "box": box, "foot": foot}, "tool": "foot"}
    world = haptic_sim.World(haptic_sim.Model(scene, environment={"method": "constraint"}))
    for _ in range(1500):
        world.step()
    assert world.bodies["box"].position[2] == pytest.approx(0.4, abs=2e-3)
    assert world.bodies["foot"].position[2] == pytest.approx(0.1, abs=2e-3)


def test_a_file_is_viewed_without_a_device_and_its_bodies_are_dragged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "r.urdf.xacro"
    path.write_text(XACRO)
    trial = load_viewed(str(path), ["scene.gravity=[0,0,-1]"], {"mass": "2"})
    assert (trial.experiment.device.type, trial.experiment.operator.type) == ("none", "pointer")
    assert trial.experiment.scene.tool == "model/tool" and trial.start.world.model.inertias[1].mass == 2.0
    assert is_world_file(str(path)) and is_world_file("robot://ur5e") and not is_world_file("corner_peg")
    for arguments, said in (
        ([str(path), "--arg", "mass=two"], "<mass> value = two: must be finite numbers"),
        (["corner_peg", "--arg", "mass=2"], "--arg mass: is an argument of a xacro file; leave it out"),
        (["nowhere.sdf"], "world nowhere.sdf: there is no such file"),
    ):
        assert command_line.main(["view", *arguments]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("effort", "said"), [("", False), ("<effort>30</effort>", True), ("<effort>inf</effort>", False)]
)
def test_limits_of_forces_are_reported_where_a_file_has_them(tmp_path: Path, effort: str, said: bool) -> None:
    """Of a joint without one, Pinocchio has the largest number, which is finite."""
    inertial = "<inertial><mass>1</mass></inertial>"
    path = tmp_path / "x.sdf"
    path.write_text(
        f'<sdf version="1.9"><model name="m"><link name="a">{inertial}</link><joint name="j" type="revolute">'
        "<parent>world</parent><child>a</child><axis><xyz>0 0 1</xyz><limit><lower>-1</lower><upper>1</upper>"
        f"{effort}</limit></axis></joint></model></sdf>"
    )
    found = convert_file(str(path), tmp_path / "x.yaml")
    assert ("limits of the forces of drives" in found.notes) is said
