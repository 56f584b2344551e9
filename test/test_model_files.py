"""Model files as others write them, and as they must not be: URDF, MJCF and their meshes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

from haptic_sim.dynamics.joints import JointLaw
from haptic_sim.inputs import ParameterError
from haptic_sim.worlds import model_files
from haptic_sim.worlds.building import build
from haptic_sim.worlds.model_files import ModelFileError, load_trees
from haptic_sim.worlds.parameters import WorldParameters
from haptic_sim.worlds.world_setup import WorldSetup

INERTIAL = '<inertial pos="0 0 0.1" mass="1" diaginertia="0.1 0.1 0.1"/>'
LINK = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'


def urdf(joint: str, *, kind: str = "revolute", link: str = LINK, more: str = "") -> str:
    """A URDF file of one joint."""
    return (
        f'<robot name="r"><link name="base"/><link name="arm">{link}</link>{more}<joint name="j" type="{kind}">'
        f'<parent link="base"/><child link="arm"/><axis xyz="0 0 1"/>{joint}</joint></robot>'
    )


def mjcf(content: str, *, head: str = '<compiler angle="radian"/>', tail: str = "") -> str:
    """An MJCF file of one body."""
    return f'<mujoco>{head}<worldbody><body name="b">{content}{INERTIAL}</body></worldbody>{tail}</mujoco>'


def laws(folder: Path, text: str) -> dict[str, JointLaw]:
    """The laws of a file, by joint."""
    path = folder / ("x.urdf" if text.startswith("<robot") else "x.xml")
    path.write_text(text)
    trees, _ = load_trees(path, "hull")
    return {law.name: law for tree in trees for law in tree.laws}


def notes(folder: Path, text: str) -> list[str]:
    path = folder / ("x.urdf" if text.startswith("<robot") else "x.xml")
    path.write_text(text)
    return load_trees(path, "hull")[1]


def refused(folder: Path, text: str, name: str = "") -> str:
    """What is said of a file, after its name."""
    path = folder / (name or ("x.urdf" if text.startswith("<robot") else "x.xml"))
    path.write_text(text)
    with pytest.raises(ModelFileError) as caught:
        load_trees(path, "hull")
    return str(caught.value).replace(str(folder), "{folder}")


def world(folder: Path, **file: Any) -> WorldSetup:
    document = {"type": "world", "files": {"f": file}, "tool": f"f/{'arm' if file['path'].endswith('urdf') else 'b'}"}
    return build(WorldParameters.model_validate(document), folder)


# What files say of their joints


def test_a_urdf_gives_limits_damping_and_friction(tmp_path: Path) -> None:
    limit, dynamics = (
        '<limit lower="-1" upper="0.5" velocity="2" effort="3"/>',
        '<dynamics damping="0.7" friction="0.2"/>',
    )
    law = laws(tmp_path, urdf(limit + dynamics))["j"]
    assert law == JointLaw("j", 0, 0, lower=-1.0, upper=0.5, speed=2.0, damping=0.7, friction=0.2)
    law = laws(tmp_path, urdf(limit + dynamics, kind="continuous"))["j"]
    assert law == JointLaw("j", 0, -1, speed=2.0, damping=0.7, friction=0.2)
    assert laws(tmp_path, urdf('<limit effort="1" velocity="0"/>'))["j"] == JointLaw("j", 0, 0, lower=0.0, upper=0.0)
    endless = laws(tmp_path, urdf('<limit lower="-1e16" upper="1e+16" effort="1" velocity="1e20"/>'))
    assert endless == {}


@pytest.mark.parametrize(
    ("head", "joint", "expected"),
    [
        ("", 'range="-30 60"', (-np.pi / 6, np.pi / 3)),
        ("", 'type="slide" range="-0.1 0.2"', (-0.1, 0.2)),
        ('<compiler angle="radian"/>', 'range="-1 2"', (-1.0, 2.0)),
        ("", 'range="-30 60" limited="false"', None),
        ('<compiler autolimits="false"/>', 'range="-30 60" limited="true"', (-np.pi / 6, np.pi / 3)),
        ('<default><joint range="-30 60"/></default>', "", (-np.pi / 6, np.pi / 3)),
        ('<default><default class="c"><joint range="-30 60"/></default></default>', "", None),
        (
            '<default><default class="c"><joint range="-30 60"/></default></default>',
            'class="c"',
            (-np.pi / 6, np.pi / 3),
        ),
    ],
)
def test_ranges_of_mjcf_are_those_of_mujoco(
    tmp_path: Path, head: str, joint: str, expected: tuple[float, float] | None
) -> None:
    import mujoco

    text = mjcf(f'<joint name="j" damping="1" {joint}/>', head=head)
    law, oracle = laws(tmp_path, text)["j"], mujoco.MjModel.from_xml_string(text)
    found = (law.lower, law.upper) if law.limited else None
    assert found == (pytest.approx(expected) if expected else None)
    assert bool(oracle.jnt_limited[0]) == (expected is not None)
    if expected:
        np.testing.assert_allclose(oracle.jnt_range[0], expected, atol=1e-15)


def test_defaults_of_mjcf_joints_are_those_of_mujoco(tmp_path: Path) -> None:
    """Classes in each other, childclass of a body above, several joints of a body, and a class of the joint's own."""
    import mujoco

    text = f"""<mujoco><default><joint damping="0.5" armature="0.02"/>
        <default class="a"><joint frictionloss="0.3" stiffness="2"/>
            <default class="b"><joint damping="0.7" springref="20"/></default></default></default>
        <worldbody><body name="one" childclass="a">{INERTIAL}<joint name="p"/><joint name="q" type="slide" class="b"/>
            <body name="two">{INERTIAL}<joint name="r" axis="1 0 0"/>
                <body name="three" childclass="b">{INERTIAL}<joint name="s" damping="3" axis="0 1 0"/></body>
            </body></body></worldbody></mujoco>"""
    oracle, found = mujoco.MjModel.from_xml_string(text), laws(tmp_path, text)
    for i, name in enumerate("pqrs"):
        law, j = found[name], int(oracle.jnt_dofadr[i])
        assert (law.velocity, law.position) == (j, int(oracle.jnt_qposadr[i]))
        ours = law.damping, law.friction, law.stiffness, law.reference
        theirs = oracle.dof_damping[j], oracle.dof_frictionloss[j], oracle.jnt_stiffness[i], oracle.qpos_spring[j]
        np.testing.assert_allclose(ours, theirs, err_msg=name, atol=1e-15)
    path = tmp_path / "x.xml"
    np.testing.assert_allclose(load_trees(path, "hull")[0][0].model.armature, oracle.dof_armature)


# What they say besides


def test_what_is_not_simulated_is_listed(tmp_path: Path) -> None:
    limit = '<limit lower="-1" upper="0.5" velocity="2" effort="3"/>'
    more = '<transmission name="t"/><transmission name="u"/><gazebo/><material name="m"/>'
    found = notes(tmp_path, urdf(f"{limit}<safety_controller k_velocity='0'/>", more=more))
    assert found == ["<gazebo>", "<transmission> (2)", "<safety_controller> of j"]
    assert notes(tmp_path, urdf(limit)) == []
    found = notes(
        tmp_path,
        mjcf(
            '<joint name="j" range="-1 1" solreflimit="0.01 1"/><geom size="1" friction="1" mass="1"/><site/>',
            head='<compiler angle="radian"/><option timestep="0.001" gravity="0 0 -1"/>',
            tail='<actuator><motor joint="j"/></actuator><keyframe><key/><key/></keyframe><sensor/><visual/>',
        ),
    )
    assert found == [
        "<option gravity>",
        "<actuator>",
        "<keyframe> (2)",
        "<sensor>",
        "friction of geoms",
        "solreflimit of joints",
    ]


def test_a_world_says_it_once_a_file(tmp_path: Path) -> None:
    limit = '<limit lower="0.2" upper="0.5" velocity="2" effort="3"/>'
    (tmp_path / "x.urdf").write_text(urdf(limit, more="<gazebo/>"))
    w = world(tmp_path, path="x.urdf")
    assert w.notes == (f"files.f.path = {tmp_path / 'x.urdf'}: not simulated: <gazebo>; starts at the limits of j",)
    assert list(w.q) == [0.2]
    with pytest.raises(
        ParameterError, match=r"files\.f\.q: joint j = 0\.1 rad: must be in its range, 0\.2 to 0\.5 rad"
    ):
        world(tmp_path, path="x.urdf", q=[0.1])
    assert list(world(tmp_path, path="x.urdf", q=[0.1], limits="none").q) == [0.1]
    assert world(tmp_path, path="x.urdf", limits="position").laws[0].speed == np.inf


# Bad and hostile files

MUJOCO = ", line 1: MuJoCo:"


@pytest.mark.parametrize(
    ("joint", "said"),
    [
        ('<limit lower="1" upper="0.5" effort="1" velocity="1"/>', "its lower limit, 1, is above its upper one, 0.5"),
        ('<limit lower="0" upper="1_0" effort="1" velocity="1"/>', "upper = 1_0: must be a number"),
        ('<limit lower="0" upper="1" effort="1" velocity="-1"/>', "velocity = -1: must be >= 0"),
        ('<limit effort="1" velocity="1"/><dynamics damping="-1"/>', "damping = -1: must be >= 0"),
        ('<limit effort="1" velocity="1"/><dynamics friction="\u0663"/>', "friction = \u0663: must be a number"),
    ],
)
def test_bad_numbers_of_urdf_joints(tmp_path: Path, joint: str, said: str) -> None:
    text = refused(tmp_path, urdf(joint))
    assert text == f": joint j: {said}"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('<joint name="j" range="1 0"/>', ": joint j: its lower limit, 1, is above its upper one, 0"),
        ('<joint name="j" range="1"/>', f"{MUJOCO} attribute 'range' does not have enough data Element 'joint'"),
        ('<joint name="j" damping="-1"/>', ": joint j: damping = -1: must be >= 0"),
        ('<joint name="j" damping="x"/>', f"{MUJOCO} bad format in attribute 'damping' Element 'joint'"),
        ('<joint name="j" limited="perhaps" range="0 1"/>', f"{MUJOCO} invalid keyword: 'perhaps' Element 'joint'"),
        (
            '<joint name="j" dampingg="1"/>',
            f"{MUJOCO} Schema violation: unrecognized attribute: 'dampingg' Element 'joint'",
        ),
        ('<joynt name="j"/>', f"{MUJOCO} Schema violation: unrecognized element Element 'joynt'"),
        ('<joint/><geom size="1_0"/>', ", line 1: <geom> size = 1_0: must be finite numbers"),
        ('<joint/><geom size="\u0661"/>', ", line 1: <geom> size = \u0661: must be finite numbers"),
        (
            '<joint/><geom size="1e-310"/>',
            ", line 1: <geom> size = 1e-310: is too small: must be 0 or at least 2.23e-308",
        ),
        ('<joint/><geom size="1" quat="0 0 0 0"/>', ", line 1: <geom> quat = 0 0 0 0: must not be zero"),
        ('<joint/><geom size="1" quat="1 0 0"/>', ", line 1: <geom> quat = 1 0 0: has 3 numbers: must have 4"),
        ('<joint axis="1 0"/>', ", line 1: <joint> axis = 1 0: has 2 numbers: must have 3"),
    ],
)
def test_bad_numbers_of_mjcf(tmp_path: Path, content: str, said: str) -> None:
    assert refused(tmp_path, mjcf(content)) == said


@pytest.mark.parametrize(
    ("scale", "reason"),
    [
        ("a b c", "must be finite numbers"),
        ("1", "has 1 numbers: must have 3"),
        ("1 0 1", "must not be zero"),
        ("1 1 nan", "must be finite numbers"),
    ],
)
def test_a_scale_that_is_none_is_refused(tmp_path: Path, scale: str, reason: str) -> None:
    """The loader would drop the shape."""
    mesh = f'<collision><geometry><mesh filename="m.stl" scale="{scale}"/></geometry></collision>'
    limit = '<limit lower="-1" upper="0.5" velocity="2" effort="3"/>'
    assert refused(tmp_path, urdf(limit, link=LINK + mesh)) == f", line 1: <mesh> scale = {scale}: {reason}"


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ('<collision><geometry><box size="1 1"/></geometry></collision>', "<box> size: has 2 numbers: must have 3"),
        ('<collision><geometry><cylinder radius="1"/></geometry></collision>', "<cylinder> length: missing"),
        ('<collision><geometry><sphere radius="-1"/></geometry></collision>', "<sphere> radius = -1: must be > 0"),
        (
            '<collision><geometry><capsule radius="1" length="1"/></geometry></collision>',
            "<collision> has the shapes <capsule>: must have one of <box>, <sphere>, <cylinder>, <mesh>",
        ),
        ("<collision/>", "<collision> has the shapes none: must have one of <box>, <sphere>, <cylinder>, <mesh>"),
        (LINK, "has 2 <inertial>: must have at most one"),
    ],
)
def test_what_the_loader_of_urdf_would_drop_is_refused_with_its_line(tmp_path: Path, link: str, said: str) -> None:
    limit = '<limit lower="-1" upper="0.5" velocity="2" effort="3"/>'
    text = urdf(limit, link=f"{LINK}\n{link}")
    line = text[: text.index(f"\n{link}")].count("\n") + 2
    assert refused(tmp_path, text) == f", line {line}: link arm: {said}"


@pytest.mark.parametrize(
    ("joint", "said"),
    [
        ("", ", line {line}: joint j: needs <limit> with lower, upper, effort and velocity"),
        (
            '<limit lower="-1" upper="1" effort="1" velocity="1"/><child link="other"/>',
            ", line {line}: joint j: its child is the link other, which is not in the file",
        ),
    ],
)
def test_joints_that_make_no_tree_are_named(tmp_path: Path, joint: str, said: str) -> None:
    text = urdf(joint)
    if "<child" in joint:
        text = text.replace(joint, joint.partition("<child")[0]).replace('<child link="arm"/>', '<child link="other"/>')
        said += "\n: has 2 links without a parent (base, arm): must have one, its root"
    assert refused(tmp_path, text) == said.format(line=text[: text.index("<joint")].count("\n") + 1)


def test_an_include_bomb_is_refused(tmp_path: Path) -> None:
    for i in range(8):
        (tmp_path / f"{i}.xml").write_text(
            f"<mujoco>{''.join(10 * [f'<include file={chr(34)}{i + 1}.xml{chr(34)}/>'])}</mujoco>"
        )
    (tmp_path / "8.xml").write_text("<mujoco/>")
    assert refused(tmp_path, (tmp_path / "0.xml").read_text(), "x.xml") == (
        f": <include>: more than {model_files.MOST_FILES} files, or {model_files.MOST_ELEMENTS} elements in them"
    )


@pytest.mark.long
def test_a_chain_of_twenty_thousand_links_is_refused(tmp_path: Path) -> None:
    n = 20_000
    links = "".join(f'<link name="l{i}"/>' for i in range(n))
    joints = "".join(
        f'<joint name="j{i}" type="fixed"><parent link="l{i}"/><child link="l{i + 1}"/></joint>' for i in range(n - 1)
    )
    assert refused(tmp_path, f'<robot name="r">{links}{joints}</robot>') == ": has 20000 links: must have at most 1000"
    deep = "<body>" * n + "</body>" * n
    assert refused(tmp_path, mjcf(deep)) == ": has more than 1100 nested elements"
    # so many as are allowed can be loaded
    links, joints = links[: links.index('<link name="l999"/>')], joints[: joints.index('<joint name="j998"')]
    (tmp_path / "y.urdf").write_text(f'<robot name="r">{links}{joints}</robot>')
    ((tree,), _) = load_trees(tmp_path / "y.urdf", "hull")
    assert sum(1 for _ in tree.bodies()) == 999


@pytest.mark.parametrize("name", ["x.urdf", "x.xml"])
def test_a_pipe_or_a_device_is_no_model_file(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(ModelFileError) as caught:
        load_trees(tmp_path / name, "hull")
    assert str(caught.value) == ": cannot be read: is a pipe: must be a file"
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(ModelFileError) as caught:
        load_trees(tmp_path / name, "hull")
    assert str(caught.value) == ": cannot be read: is a device: must be a file"


def test_a_pipe_is_no_mesh(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.stl")
    mesh = '<collision><geometry><mesh filename="m.stl"/></geometry></collision>'
    limit = '<limit lower="-1" upper="0.5" velocity="2" effort="3"/>'
    assert refused(tmp_path, urdf(limit, link=LINK + mesh)) == ": mesh m.stl: must be a file"
    text = mjcf('<joint/><geom type="mesh" mesh="m"/>', head='<asset><mesh name="m" file="m.stl"/></asset>')
    assert refused(tmp_path, text) == ": mesh m.stl: must be a file"
    body = {"joint": "fixed", "shapes": [{"type": "mesh", "path": "m.stl"}]}
    ball = {"joint": "free", "mass": 1, "shapes": [{"type": "sphere", "radius": 1}]}
    document = {"type": "world", "bodies": {"wall": body, "ball": ball}, "tool": "ball"}
    with pytest.raises(ParameterError, match="must be a file"):
        build(WorldParameters.model_validate(document), tmp_path)


def test_a_text_stl_is_refused_where_mujoco_reads_it(tmp_path: Path) -> None:
    cube = trimesh.creation.box((0.1, 0.1, 0.1))
    head = '<asset><mesh name="m" file="m.stl"/></asset>'
    text = mjcf('<joint/><geom type="mesh" mesh="m"/>', head=head)
    cube.export(tmp_path / "m.stl", file_type="stl_ascii")
    said = ", line 1: mesh m.stl: is text STL, which MuJoCo does not read: export it as binary STL, or as OBJ"
    assert refused(tmp_path, text) == said
    cube.export(tmp_path / "m.stl", file_type="stl")
    assert not notes(tmp_path, text)


def test_a_mesh_of_too_many_triangles_is_refused(tmp_path: Path) -> None:
    trimesh.creation.icosphere(subdivisions=6).export(tmp_path / "m.stl")
    mesh = '<collision><geometry><mesh filename="m.stl"/></geometry></collision>'
    limit = '<limit lower="-1" upper="0.5" velocity="2" effort="3"/>'
    (tmp_path / "x.urdf").write_text(urdf(limit, link=LINK + mesh))
    with pytest.raises(ModelFileError) as caught:
        load_trees(tmp_path / "x.urdf", "pieces")
    assert str(caught.value) == (
        f": link arm: mesh {tmp_path / 'm.stl'} has 81920 triangles: must have at most 50000 triangles; "
        "simplify it; set meshes: hull to take its convex hull"
    )
