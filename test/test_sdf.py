"""Worlds and models of SDF: frames by hand, the same arm as URDF, loops, includes, and what is refused."""

from __future__ import annotations

from pathlib import Path

import coal
import numpy as np
import pinocchio as pin
import pytest

import haptic_sim
from haptic_sim.rotations import from_roll_pitch_yaw
from haptic_sim.scenes import ModelSource
from haptic_sim.worlds.file_trees import FileTree
from haptic_sim.worlds.model_files import ModelFileError, last_link, load_trees

INERTIAL = (
    "<inertial><pose>0.1 0.02 0 0.3 0 0.1</pose><mass>2</mass><inertia><ixx>0.1</ixx><iyy>0.2</iyy><izz>0.15</izz>"
    "<ixy>0.01</ixy></inertia></inertial>"
)


def model(content: str, *, version: str = "1.12", name: str = "m") -> str:
    return f'<sdf version="{version}"><model name="{name}">{content}</model></sdf>'


def link(name: str, content: str = "") -> str:
    return f'<link name="{name}">{content}{INERTIAL}</link>'


def trees_of(folder: Path, text: str, name: str = "x.sdf") -> list[FileTree]:
    path = folder / name
    path.write_text(text)
    return load_trees(path, "hull")[0]


def poses(trees: list[FileTree]) -> dict[str, pin.SE3]:
    """Poses of links in the file where it shows them."""
    found = {}
    for tree in trees:
        data = tree.model.createData()
        pin.forwardKinematics(tree.model, data, pin.neutral(tree.model))
        found |= {name: data.oMi[joint] * pose for name, joint, pose in tree.bodies()}
    return found


def at(x: float, y: float, z: float, roll: float, pitch: float, yaw: float) -> pin.SE3:
    return pin.XYZQUATToSE3(np.array([x, y, z, *from_roll_pitch_yaw(roll, pitch, yaw)]))


def test_poses_are_in_the_frames_that_they_name(tmp_path: Path) -> None:
    """Against products of poses, written by hand from the specification."""
    text = model(
        "<pose>1 2 3 0.1 0.2 0.3</pose>"
        '<frame name="F"><pose>0.5 0 0 0 0 0.4</pose></frame>'
        '<frame name="G" attached_to="F"><pose>0 0.5 0 0.7 0 0</pose></frame>'
        + link("a")
        + link("b", '<pose relative_to="G">0.1 0 0 0 0.3 0</pose>')
        + link("c", '<pose relative_to="j">0 0 0.2 0 0 0.1</pose>')
        + '<joint name="j" type="revolute"><pose relative_to="a">0.3 0 0 0.2 0 0</pose><parent>a</parent>'
        "<child>b</child><axis><xyz expressed_in='F'>0 1 0</xyz></axis></joint>"
        '<model name="inner"><pose relative_to="b">0 0 1 0 0 0.5</pose>' + link("d") + "</model>"
    )
    found, X = poses(trees_of(tmp_path, text)), at(1, 2, 3, 0.1, 0.2, 0.3)
    F = at(0.5, 0, 0, 0, 0, 0.4)
    G, J = F * at(0, 0.5, 0, 0.7, 0, 0), at(0.3, 0, 0, 0.2, 0, 0)
    b = G * at(0.1, 0, 0, 0, 0.3, 0)
    expected = {"a": X, "b": X * b, "c": X * J * at(0, 0, 0.2, 0, 0, 0.1), "inner::d": X * b * at(0, 0, 1, 0, 0, 0.5)}
    assert found.keys() == expected.keys()
    for name, pose in expected.items():
        assert found[name].isApprox(pose, 1e-12), name


def test_the_axis_is_in_the_frame_of_its_version(tmp_path: Path) -> None:
    """Up to 1.4 in the model's frame, from 1.5 in the joint's, from 1.7 in the one it names."""
    joint = (
        '<joint name="j" type="revolute"><parent>a</parent><child>b</child><pose>0 0 0 0 0 0.5</pose>'
        "<axis><xyz{}>1 0 0</xyz>{}</axis></joint>"
    )
    bodies = link("a") + link("b", "<pose>0.2 0 0 0.4 0.3 0</pose>")
    of_joint = at(0.2, 0, 0, 0.4, 0.3, 0).rotation @ at(0, 0, 0, 0, 0, 0.5).rotation[:, 0]
    for version, attribute, child, expected in (
        ("1.4", "", "", np.array([1.0, 0.0, 0.0])),
        ("1.6", "", "", of_joint),
        ("1.6", "", "<use_parent_model_frame>1</use_parent_model_frame>", np.array([1.0, 0.0, 0.0])),
        ("1.9", ' expressed_in="__model__"', "", np.array([1.0, 0.0, 0.0])),
        ("1.12", ' expressed_in="b"', "", at(0.2, 0, 0, 0.4, 0.3, 0).rotation[:, 0]),
    ):
        (tree,) = trees_of(tmp_path, model(bodies + joint.format(attribute, child), version=version))
        data = tree.model.createData()
        pin.computeJointJacobians(tree.model, data, np.zeros(1))
        assert data.J.reshape(6, 1)[3:, 0] == pytest.approx(expected, abs=1e-12)


def test_an_arm_is_that_of_its_urdf(tmp_path: Path) -> None:
    """Inertia matrix, bias and limits at random configurations; the URDF is read by Pinocchio."""
    sdf = model(
        link("base")
        + link("upper", "<pose>0 0 0.3 0 0 0</pose>")
        + link("lower", '<pose relative_to="upper">0.4 0 0 0 0 0.2</pose>')
        + '<joint name="fix" type="fixed"><parent>world</parent><child>base</child></joint>'
        '<joint name="j" type="revolute"><parent>base</parent><child>upper</child><axis><xyz>0 0.6 0.8</xyz><limit>'
        "<lower>-1</lower><upper>2</upper><effort>30</effort><velocity>3</velocity></limit><dynamics>"
        "<damping>0.5</damping><friction>0.1</friction></dynamics></axis></joint>"
        '<joint name="k" type="prismatic"><parent>upper</parent><child>lower</child><axis><xyz>1 0 0</xyz><limit>'
        "<lower>-1e16</lower><upper>inf</upper></limit></axis></joint>"
    )
    moments = '<inertia ixx="0.1" iyy="0.2" izz="0.15" ixy="0.01" ixz="0" iyz="0"/>'
    inertial = f'<inertial><origin xyz="0.1 0.02 0" rpy="0.3 0 0.1"/><mass value="2"/>{moments}</inertial>'
    urdf = (
        "<robot name='r'>"
        + "".join(f'<link name="{name}">{inertial}</link>' for name in ("base", "upper", "lower"))
        + '<joint name="j" type="revolute"><origin xyz="0 0 0.3"/><parent link="base"/><child link="upper"/>'
        '<axis xyz="0 0.6 0.8"/><limit lower="-1" upper="2" effort="30" velocity="3"/>'
        '<dynamics damping="0.5" friction="0.1"/></joint>'
        '<joint name="k" type="prismatic"><origin xyz="0.4 0 0" rpy="0 0 0.2"/><parent link="upper"/>'
        '<child link="lower"/><axis xyz="1 0 0"/><limit lower="-1e16" upper="1e16" effort="0" velocity="0"/>'
        "</joint></robot>"
    )
    (one,), (other,) = trees_of(tmp_path, sdf), trees_of(tmp_path, urdf, "x.urdf")
    assert not one.free and one.laws == other.laws[:1] and len(other.laws) == 1
    assert one.model.upperEffortLimit[0] == 30.0
    rng = np.random.default_rng(20268)
    for _ in range(5):
        q, v = rng.normal(size=2), rng.normal(size=2)
        matrices = [pin.crba(tree.model, tree.model.createData(), q) for tree in (one, other)]
        assert np.triu(matrices[0]) == pytest.approx(np.triu(matrices[1]), abs=1e-12)
        bias = [pin.nonLinearEffects(tree.model, tree.model.createData(), q, v) for tree in (one, other)]
        assert bias[0] == pytest.approx(bias[1], abs=1e-12)
    assert last_link(tmp_path / "x.sdf") == "lower"


WORLD = """<sdf version="1.9"><world name="w"><gravity>0 0 -9.8</gravity><physics type="ode"/><plugin name="p"/>
<model name="ground"><static>true</static><link name="link"><collision name="c"><geometry><plane><normal>0 0 1</normal>
</plane></geometry><surface><friction><ode><mu>0.5</mu></ode></friction></surface></collision></link></model>
<model name="box"><pose>0 0 0.5 0 0 0</pose><link name="link"><inertial auto="true"><density>500</density></inertial>
<collision name="c"><geometry><box><size>0.2 0.3 0.4</size></box></geometry><surface><bounce>
<restitution_coefficient>0.3</restitution_coefficient></bounce></surface></collision></link></model></world></sdf>"""


def test_a_world_has_its_bodies_materials_and_list_of_what_is_not_simulated(tmp_path: Path) -> None:
    (tmp_path / "w.world").write_text(WORLD)
    model = haptic_sim.load(tmp_path / "w.world", environment={"method": "constraint"})
    assert set(model.bodies) == {"w/ground::link", "w/box::link"}
    assert model.pinocchio.inertias[1].mass == pytest.approx(500 * 0.2 * 0.3 * 0.4, rel=1e-12)
    assert np.diag(model.pinocchio.inertias[1].inertia) == pytest.approx(12.0 / 12.0 * np.array([0.25, 0.2, 0.13]))
    assert model.start.own[:, :3].tolist() == [[0.3, 0.5, 0.5]]
    assert model.start.notes[0].endswith("not simulated: <physics>, <plugin>")
    world = haptic_sim.World(model)
    for _ in range(2000):
        world.step()
    assert world.bodies["w/box::link"].position[2] == pytest.approx(0.2, abs=2e-3)


def test_shapes_are_those_of_the_file(tmp_path: Path) -> None:
    geometries = {
        "box": ("<size>1 2 3</size>", coal.Box),
        "sphere": ("<radius>0.3</radius>", coal.Sphere),
        "cylinder": ("<radius>0.3</radius><length>2</length>", coal.Cylinder),
        "capsule": ("<radius>0.3</radius><length>2</length>", coal.Capsule),
        "ellipsoid": ("<radii>1 2 3</radii>", coal.Convex),
        "cone": ("<radius>0.3</radius><length>2</length>", coal.Convex),
        "plane": ("<normal>0 0 2</normal>", coal.Halfspace),
    }
    shapes = "".join(
        f'<collision name="{kind}"><pose>0 0 {k} 0 0 0.1</pose><geometry><{kind}>{text}</{kind}></geometry></collision>'
        for k, (kind, (text, _)) in enumerate(geometries.items())
    )
    (tree,) = trees_of(tmp_path, model(f"<static>1</static>{link('a', shapes)}"))
    assert [type(shape.geometry) for shape in tree.shapes] == [kind for _, kind in geometries.values()]
    assert [shape.pose.translation[2] for shape in tree.shapes] == list(range(7))
    assert tree.shapes[0].geometry.halfSide == pytest.approx([0.5, 1.0, 1.5])
    assert tree.shapes[3].geometry.halfLength == 1.0
    points = np.array(tree.shapes[4].geometry.points())
    assert np.abs(points).max(axis=0) == pytest.approx([1.0, 2.0, 3.0], rel=0.02)


def test_a_loop_is_closed_exactly(tmp_path: Path) -> None:
    """A four-bar linkage, whose coupler keeps its length; its energy is that of a pendulum of one coordinate."""
    hinge = '<joint name="{0}" type="revolute"><pose relative_to="{1}">{2}</pose><parent>{1}</parent><child>{3}</child>'
    axis = "<axis><xyz>0 1 0</xyz></axis></joint>"
    text = model(
        link("base")
        + link("left", "<pose>0 0 1 0 0 0</pose>")
        + link("right", "<pose>1 0 1 0 0 0</pose>")
        + link("coupler", "<pose>0 0 0.5 0 0 0</pose>")
        + '<joint name="fix" type="fixed"><parent>world</parent><child>base</child></joint>'
        + hinge.format("a", "base", "0 0 1 0 0 0", "left") + axis
        + hinge.format("b", "base", "1 0 1 0 0 0", "right") + axis
        + hinge.format("c", "left", "0 0 -0.5 0 0 0", "coupler") + axis
        + hinge.format("d", "right", "0 0 -0.5 0 0 0", "coupler") + axis
    )  # fmt: skip
    (tmp_path / "bar.sdf").write_text(text)
    world = haptic_sim.World(haptic_sim.load(tmp_path / "bar.sdf", tool="coupler", rate=4000.0))
    start = world.bodies["bar/coupler"].position
    for _ in range(2000):
        world.step()
    ends = [world.bodies[f"bar/{name}"] for name in ("left", "right", "coupler")]
    points = [one.position + pin.Quaternion(one.quaternion).matrix() @ p for one, p in zip(
        ends, ([0, 0, -0.5], [0, 0, -0.5], [1, 0, 0]), strict=True)]  # fmt: skip
    assert np.linalg.norm(points[1] - points[2]) < 1e-9
    assert np.linalg.norm(points[0] - ends[2].position) < 1e-9
    assert np.linalg.norm(ends[2].position - start) > 0.05
    q = world.coordinates
    assert q["bar/a"] == pytest.approx(q["bar/b"], abs=1e-9)  # a parallelogram


def test_models_are_included_by_their_folder_and_placed_by_a_frame(tmp_path: Path) -> None:
    folder = tmp_path / "models" / "cup"
    folder.mkdir(parents=True)
    (folder / "model.config").write_text(
        '<model><sdf version="1.4">old.sdf</sdf><sdf version="1.9">new.sdf</sdf></model>'
    )
    (folder / "new.sdf").write_text(
        model("<pose>9 9 9 0 0 0</pose>" + link("body") + '<frame name="grip"><pose>0 0 0.1 0 0 0.3</pose></frame>')
    )
    include = (
        "<include><uri>model://cup</uri><name>mine</name><pose>1 0 0 0 0 0.5</pose>"
        "<placement_frame>grip</placement_frame></include>"
    )
    path = tmp_path / "x.sdf"
    path.write_text(f'<sdf version="1.9"><world name="w">{include}</world></sdf>')
    with pytest.raises(ModelFileError, match=r"<include> model://cup: there is no such model; name the folder"):
        load_trees(path, None)
    trees, _ = load_trees(ModelSource(path, {}, (tmp_path / "models",)), None)
    expected = at(1, 0, 0, 0, 0, 0.5) * at(0, 0, 0.1, 0, 0, 0.3).inverse()
    assert poses(trees)["mine::body"].isApprox(expected, 1e-12)
    (folder / "new.sdf").write_text(model("<include><uri>model://cup</uri></include>"))
    with pytest.raises(ModelFileError, match="files include each other"):
        load_trees(ModelSource(path, {}, (tmp_path / "models",)), None)


def test_screws_mimics_and_universal_joints(tmp_path: Path) -> None:
    text = model(
        link("a") + link("b") + link("c") + link("d")
        + '<joint name="s" type="screw"><parent>world</parent><child>a</child>'
        "<screw_thread_pitch>0.02</screw_thread_pitch><axis><xyz>0 0 1</xyz></axis></joint>"
        '<joint name="u" type="universal"><parent>a</parent><child>b</child><axis><xyz>1 0 0</xyz></axis>'
        "<axis2><xyz>0 1 0</xyz></axis2></joint>"
        '<joint name="l" type="revolute"><parent>world</parent><child>c</child><axis><xyz>0 0 1</xyz></axis></joint>'
        '<joint name="f" type="revolute"><parent>world</parent><child>d</child><axis><xyz>0 0 1</xyz><mimic joint="l">'
        "<multiplier>3</multiplier><offset>0.2</offset><reference>0.1</reference></mimic></axis></joint>"
    )  # fmt: skip
    trees = trees_of(tmp_path, text)
    screw = next(tree for tree in trees if "s" in tree.single_joints())
    data = screw.model.createData()
    pin.forwardKinematics(screw.model, data, np.array([2.0 * np.pi, 0.3, 0.4]))
    assert data.oMi[1].translation == pytest.approx([0, 0, 0.02], abs=1e-12)
    expected = at(0, 0, 0, 0.3, 0, 0).rotation @ at(0, 0, 0, 0, 0.4, 0).rotation
    assert data.oMi[3].rotation == pytest.approx(expected, abs=1e-12)
    ((name, coupling),) = [pair for tree in trees for pair in tree.constraints.items()]
    assert (name, coupling.joints, coupling.to) == ("f_mimic", {"f": 1.0}, {"l": 1.0})
    assert coupling.polynomial == pytest.approx((0.2 - 0.3, 3.0))


JOINT = '<joint name="j" type="{}"><parent>{}</parent><child>a</child></joint>'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (model(link("a", '<collision name="c"><geometry><image/></geometry></collision>')), "<image>: must be"),
        (model(link("a") + JOINT.format("hinge", "a")), "type = hinge: must be one of"),
        (model(link("a") + JOINT.format("fixed", "b")), "no frame b"),
        (model(link("a", '<pose relative_to="a">0 0 0 0 0 0</pose>')), "frames go around: a -> a"),
        (model(link("a", "<pose>0 0 0</pose>")), "<pose> 0 0 0: has 3 numbers: must have 6"),
        (model(link("a") + link("a")), "<link> a: must be a name without :: that nothing else has"),
        ('<!DOCTYPE sdf [<!ENTITY a "b">]><sdf version="1.9"/>', "line 1: declares the entity a"),
        ('<sdf version="1.9"/>', "has no <world> and no <model>"),
        (model(link("a")).replace("<mass>2", "<mass>-2"), "mass = -2 kg: must be >= 0"),
        (model(link("a")).replace("<ixx>0.1", "<ixx>-0.1"), "no body has this inertia"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ModelFileError) as caught:
        trees_of(tmp_path, text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (' version="1.4"', None),
        (' version="1.12"', None),
        ("", "differences of its version of SDF, which it does not give, from 1.12"),
        (' version="0.1"', "differences of its version of SDF, 0.1, from 1.4"),
        (' version="1.13"', "differences of its version of SDF, 1.13, from 1.12"),
        (' version="2.9"', "differences of its version of SDF, 2.9, from 1.12"),
    ],
)
def test_a_version_that_is_not_known_is_reported(tmp_path: Path, version: str, said: str | None) -> None:
    path = tmp_path / "x.sdf"
    path.write_text(f'<sdf{version}><model name="m">{link("a")}</model></sdf>')
    assert load_trees(path, None)[1] == ([] if said is None else [said])
