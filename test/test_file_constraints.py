"""Mimic joints of URDF and equality constraints of MJCF, which are exact constraints: against independent solutions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from numpy.polynomial import Polynomial

import haptic_sim
from haptic_sim.constraints.in_worlds import build_rows, evaluate
from haptic_sim.packed import Packed
from haptic_sim.parameters import ParameterError
from haptic_sim.worlds.model_files import ModelFileError, load_trees

LINK = (
    '<link name="{0}"><inertial><origin xyz="{1}"/><mass value="{2}"/>'
    '<inertia ixx=".01" iyy=".02" izz=".015" ixy=".001" ixz="0" iyz="0"/></inertial></link>'
)
GRIPPER = (
    '<robot name="r"><link name="base"/>'
    + LINK.format("a", "0.1 0 0.05", 1.0)
    + LINK.format("b", "0 0.1 0", 0.5)
    + '<joint name="ja" type="revolute"><parent link="base"/><child link="a"/><axis xyz="0 1 0"/>'
    '<limit lower="-3" upper="3" effort="10" velocity="100"/></joint>'
    '<joint name="jb" type="{kind}"><parent link="a"/><child link="b"/><origin xyz="0.2 0 0"/><axis xyz="1 0 0"/>'
    '{limit}<mimic joint="ja" multiplier="-2" offset="0.3"/></joint></robot>'
)


def reduced(path: Path, q: float, v: float, period: float, steps: int) -> np.ndarray:
    """Positions of the leader at each step, by reduction to one coordinate: q = (s, 0.3 - 2 s), in semi-implicit Euler.

    With G = dq/ds constant: G^T M G s'' + G^T h(q, G s') = 0.
    """
    text = (
        path.read_text().replace("continuous", "revolute").replace("<mimic", '<limit effort="0" velocity="0"/><mimic')
    )
    model = pin.buildModelFromXML(text)
    data, G, found = model.createData(), np.array([1.0, -2.0]), []
    for _ in range(steps):
        there = np.array([q, 0.3 - 2.0 * q])
        M = pin.crba(model, data, there)
        M = np.triu(M) + np.triu(M, 1).T
        v -= period * (G @ pin.nonLinearEffects(model, data, there, G * v)) / (G @ M @ G)
        q += period * v
        found.append(q)
    return np.array(found)


@pytest.mark.parametrize("kind", ["continuous", "prismatic"])
def test_a_mimic_joint_follows_exactly_and_moves_as_one_coordinate_does(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "gripper.urdf"
    limit = '<limit lower="-9" upper="9" effort="1" velocity="100"/>' * (kind == "prismatic")
    path.write_text(GRIPPER.format(kind=kind, limit=limit))
    world = haptic_sim.World(haptic_sim.load(path, tool="a"))
    leader = []
    for _ in range(500):
        world.step()
        at = world.coordinates
        assert abs(at["gripper/jb"] - (0.3 - 2.0 * at["gripper/ja"])) < 1e-9
        leader.append(at["gripper/ja"])
    path.write_text(GRIPPER.format(kind=kind, limit=""))
    expected = reduced(path, 0.0, 0.0, 1e-3, 500)
    assert np.abs(expected).max() > 0.1
    assert np.abs(np.array(leader) - expected).max() < 1e-9


def test_a_mimic_joint_starts_where_its_leader_is_and_can_be_left_free(tmp_path: Path) -> None:
    path = tmp_path / "gripper.urdf"
    path.write_text(GRIPPER.format(kind="continuous", limit=""))
    model = haptic_sim.load(path, tool="a", joints={"ja": 0.7})
    assert model.coordinates["gripper/jb"] == pytest.approx(0.3 - 1.4, abs=1e-15)
    model = haptic_sim.load(path, tool="a", constraints="none")
    assert "not simulated: constraints jb_mimic" in model.start.notes[0] and not model.start.constraints


SDF_JOINT = (
    '<joint name="{0}" type="revolute"><parent>world</parent><child>{1}</child><axis><xyz>0 0 1</xyz>{2}</axis></joint>'
)


@pytest.mark.parametrize("suffix", ["urdf", "sdf"])
@pytest.mark.parametrize(
    ("leaders", "said"),
    [
        ({"jb": "jb"}, "joint jb: <mimic> joint = jb: is the joint itself: must be another hinge or slide (known: ja)"),
        (
            {"ja": "jb", "jb": "ja"},
            "joint ja: <mimic> joint = jb: follows ja in turn: take out <mimic> of one of ja, jb",
        ),
        ({"jb": "jx"}, "joint jb: <mimic> joint = jx: must be a hinge or slide of the file (known: ja)"),
    ],
)
def test_a_joint_must_follow_another_one_that_does_not_follow_it(
    tmp_path: Path, suffix: str, leaders: dict[str, str], said: str
) -> None:
    """Of two rows q_b = 2 q_a and q_a = 2 q_b, or one q_b = q_b, the joints would not move, or not follow."""
    path = tmp_path / f"gripper.{suffix}"
    mimics = [f'<mimic joint="{leaders[joint]}"/>' if joint in leaders else "" for joint in ("ja", "jb")]
    if suffix == "urdf":
        text = GRIPPER.format(kind="continuous", limit="").replace(
            '<mimic joint="ja" multiplier="-2" offset="0.3"/>', mimics[1]
        )
        path.write_text(text.replace('velocity="100"/>', f'velocity="100"/>{mimics[0]}'))
    else:
        joints = "".join(map(SDF_JOINT.format, ("ja", "jb"), "ab", mimics))
        path.write_text(f'<sdf version="1.12"><model name="m"><link name="a"/><link name="b"/>{joints}</model></sdf>')
    if suffix == "urdf" and "jx" in leaders.values():  # as in files put together from parts
        assert "<mimic> of jb, as no joint of the file is jx" in load_trees(path, None)[1]
        return
    with pytest.raises(ModelFileError) as caught:
        load_trees(path, None)
    assert said in str(caught.value)


# MJCF

BODIES = """<mujoco><compiler angle="radian"/><worldbody>
<body name="a" pos="0 0 1"><joint name="j" axis="0 1 0"/><geom type="box" size=".2 .02 .03" pos=".2 0 0"/>
<body name="b" pos=".4 0 0"><joint name="k" axis="0 1 0"/>
<geom type="box" size=".15 .02 .02" pos=".15 0 0"/></body></body>
<body name="c" pos=".3 0 .6"><joint name="l" axis="0 1 0"/><joint name="m" type="slide" axis="0 0 1"/>
<geom type="box" size=".1 .03 .02" pos=".1 0 .02"/></body></worldbody>
<tendon><fixed name="t"><joint joint="j" coef="0.5"/><joint joint="k" coef="-1"/></fixed></tendon>
<equality>{}</equality><option gravity="1 0 -9.81"/></mujoco>"""
EQUALITIES = {
    "connect": '<connect name="e" body1="b" anchor=".3 0 0"/>',
    "connect_bodies": '<connect name="e" body1="b" body2="c" anchor=".1 0 0"/>',
    "weld": '<weld name="e" body1="a" body2="c"/>',
    "joint": '<joint name="e" joint1="k" joint2="j" polycoef="0 -1.5 0.4"/>',
    "constant": '<joint name="e" joint1="m" polycoef="0"/>',
    "tendon": '<tendon name="e" tendon1="t" polycoef="0"/>',
}


def as_stiff(path: Path, period: float, steps: int) -> tuple[dict[str, float], np.ndarray]:
    """Coordinates at the end, of MuJoCo with its equality constraints as stiff as it has them, and their residuals."""
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_path(str(path))
    model.opt.timestep, model.opt.iterations, model.opt.tolerance = period, 500, 1e-15
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    model.eq_solref[:], model.eq_solimp[:] = (2.0 * period, 1.0), (0.9999, 0.9999, 0.001, 0.5, 2.0)
    data = mujoco.MjData(model)
    for _ in range(steps):
        mujoco.mj_step(model, data)
    return {model.joint(i).name: float(data.qpos[model.jnt_qposadr[i]]) for i in range(model.njnt)}, data


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", list(EQUALITIES))
def test_equality_constraints_are_exact_and_move_as_stiff_ones_of_mujoco(tmp_path: Path, name: str) -> None:
    """MuJoCo's stiff constraints differ from rigid ones in proportion to the step; the difference halves with it."""
    path = tmp_path / "x.xml"
    path.write_text(BODIES.format(EQUALITIES[name]))
    differences = []
    for rate in (2000, 8000):
        model = haptic_sim.load(path, tool="a", rate=float(rate), limits="none")
        scene = {**model.sections.scene.model_dump(), "gravity": (1.0, 0.0, -9.81), "ignore": [["x", "x"]]}
        world = haptic_sim.World(scene, rate=float(rate))
        start = world.coordinates
        for _ in range(rate // 5):
            world.step()
        found, (expected, _) = world.coordinates, as_stiff(path, 1.0 / rate, rate // 5)
        moved = max(abs(found[key] - start[key]) for key in start)
        differences.append(max(abs(found[f"x/{key}"] - value) for key, value in expected.items()))
        assert moved > 0.02
        assert residual(name, found, world.bodies) < 1e-9
    assert differences[0] < 0.05 * moved
    assert differences[1] < 0.6 * differences[0] or differences[1] < 1e-6


def residual(name: str, q: dict[str, float], bodies: Any) -> float:
    """How far a constraint of EQUALITIES is from being met [m, rad], by its definition."""
    a, b, c = (bodies[f"x/{one}"] for one in "abc")

    def point(body: Any, at: tuple[float, float, float]) -> np.ndarray:
        return body.position + pin.Quaternion(body.quaternion).matrix() @ np.array(at)

    match name:
        case "connect":
            return float(np.linalg.norm(point(b, (0.3, 0.0, 0.0)) - (0.7, 0.0, 1.0)))
        case "connect_bodies":
            return float(np.linalg.norm(point(b, (0.1, 0.0, 0.0)) - point(c, (0.2, 0.0, 0.4))))
        case "weld":
            turn = pin.Quaternion(a.quaternion).inverse() * pin.Quaternion(c.quaternion)
            return float(np.linalg.norm(point(a, (0.3, 0.0, -0.4)) - c.position) + np.linalg.norm(turn.coeffs()[:3]))
        case "joint":
            return abs(q["x/k"] - Polynomial([0.0, -1.5, 0.4])(q["x/j"]))
        case "constant":
            return abs(q["x/m"])
    return abs(0.5 * q["x/j"] - q["x/k"])


def test_references_of_joints_and_inactive_constraints_count_as_in_mujoco(tmp_path: Path) -> None:
    """A coupling of joints is between their displacements from where the file shows them."""
    path = tmp_path / "x.xml"
    text = BODIES.format('<joint joint1="k" joint2="j" polycoef="0 2"/><weld body1="a" body2="c" active="false"/>')
    path.write_text(text.replace('name="k"', 'name="k" ref="0.4"').replace('name="j"', 'name="j" ref="-0.1"'))
    trees, unread = load_trees(path, "hull")
    (coupling,) = trees[0].constraints.values()
    assert coupling.polynomial == pytest.approx((0.4 + 0.2, 2.0), abs=1e-15)
    assert "equality constraints that are not active (1)" in unread


def test_couplings_are_refused_with_the_joint_that_is_none() -> None:
    hinge = {"joint": "revolute", "axis": [0, 0, 1], "mass": 1.0, "inertia": [0.1, 0.1, 0.1]}
    scene = {
        "bodies": {"left": hinge, "right": {**hinge, "position": [1, 0, 0]}},
        "tool": "left",
        "constraints": {"gear": {"type": "joint_coupling", "joints": {"left": 1.0}, "to": {"rigth": -2.0}}},
    }
    with pytest.raises(ParameterError, match=r"scene.constraints.gear.to.rigth: must be a hinge .*did you mean right"):
        haptic_sim.Model(scene)
    scene["constraints"]["gear"]["to"] = {"right": 0.0}
    with pytest.raises(ParameterError, match=r"gear.to.right = 0: must not be 0"):
        haptic_sim.Model(scene)


def test_a_gear_of_a_file_of_ours_conserves_energy_and_its_ratio() -> None:
    """I1 w1' = t / r, with I1 + I2 / r^2 the inertia at the first wheel."""
    hinge = {"joint": "revolute", "axis": [0, 0, 1], "mass": 1.0, "inertia": [0.1, 0.1, 0.1]}
    scene = {
        "bodies": {"left": hinge, "right": {**hinge, "position": [1, 0, 0]}},
        "tool": "left",
        "gravity": [0, 0, 0],
        "constraints": {"gear": {"type": "joint_coupling", "joints": {"left": 1.0}, "to": {"right": -2.0}}},
    }
    world = haptic_sim.World(scene)
    for _ in range(100):
        world.step(forces={"left": 0.5})
    rate = 0.5 * 0.1 / (0.1 + 0.1 / 4.0)
    assert world.velocities["left"] == pytest.approx(rate, rel=1e-12)
    assert world.velocities["right"] == pytest.approx(-rate / 2.0, rel=1e-12)


def test_the_row_of_a_coupling_is_the_rate_of_its_residual_and_gamma_its_change() -> None:
    """By central differences along a motion of constant velocity."""
    slide = {"joint": "prismatic", "axis": [1, 0, 0], "mass": 1.0, "inertia": [0.1, 0.1, 0.1]}
    coupling = {"joints": {"a": 1.5, "b": -0.4}, "to": {"c": 0.7, "b": 0.2}, "polynomial": [0.1, -2.0, 0.5, 0.3, -0.2]}
    given = {"type": "joint_coupling", "active": [[1e6, None]], **coupling}
    scene = {"bodies": {"a": slide, "b": slide, "c": slide}, "tool": "a", "constraints": {"it": given}}
    start = haptic_sim.Model(scene).start
    rows = build_rows(start.constraints, 4, [0, 0, 1, 2], 3)
    q, v = np.array([0.3, -0.5, 0.8]), np.array([1.1, 0.4, -0.9])
    support = np.vstack([np.zeros(3), np.eye(3)]).astype(bool)

    def at(time: float) -> tuple[float, float, float]:
        rows.position[:] = q + time * v
        evaluate(Packed(rows).arrays, np.zeros((3, 6)), support, v, True)
        return float(rows.c[0]), float(rows.A[0] @ v), float(rows.gamma[0])

    h = 1e-5
    (before, slower, _), (after, faster, _), (_, rate, gamma) = at(-h), at(h), at(0.0)
    assert rate == pytest.approx((after - before) / (2 * h), rel=1e-8)
    assert gamma == pytest.approx((faster - slower) / (2 * h), rel=1e-8)
