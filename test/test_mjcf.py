"""MJCF files against MuJoCo: inertia and bias in random states, and the poses of bodies that the file shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

import haptic_sim
from haptic_sim.dynamics.gravity import BalancedWeights
from haptic_sim.worlds.building import build
from haptic_sim.worlds.model_files import ModelFileError, load_trees
from haptic_sim.worlds.parameters import WorldParameters
from haptic_sim.worlds.world_setup import WorldSetup

mujoco = pytest.importorskip("mujoco")

CUBE = """v 0 0 0
v .1 0 0
v 0 .2 0
v 0 0 .3
f 1 3 2
f 1 2 4
f 2 3 4
f 3 1 4
"""
MODELS = {
    # the class of a joint stands alone, whatever the childclass of its body is
    "class and childclass": """<default><default class="a"><joint type="slide" axis="1 0 0" damping="3"/></default>
        <default class="b"><joint type="hinge" armature="0.2"/></default></default>
        <worldbody><body name="tool" childclass="a"><joint name="j" class="b" axis="0 1 0"/><joint name="k"/>
        <geom size="0.1" pos="0.3 0 0"/></body></worldbody>""",
    "ref": """<worldbody><body name="base" pos="0 0 1.2"><joint type="slide" axis="0 0 1" ref="1.2"/><geom size="0.1"/>
        <body name="tool" pos="0.3 0 0"><joint axis="0 1 0" ref="40"/><geom size="0.1" pos="0.2 0 0"/></body></body>
        </worldbody>""",
    "second sections": """<default><joint damping="1"/></default><default><geom density="500"/></default>
        <asset><mesh name="m" file="m.obj"/></asset><asset><mesh name="n" file="m.obj" scale="2 2 2"/></asset>
        <worldbody><body name="tool"><joint axis="1 1 0"/><geom type="mesh" mesh="m"/>
        <geom type="mesh" mesh="n" pos="1 0 0"/></body></worldbody>""",
    "default tendon": """<default><tendon width="0.1"/></default><worldbody><body name="tool"><joint/>
        <geom size="0.1" pos="1 0 0"/></body></worldbody>""",
    "zero masses": """<worldbody><body name="tool"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>
        <joint axis="0 1 0"/><geom size="0.1" pos="0.2 0 0"/><body name="camera" pos="0 0 1"/></body></worldbody>""",
    "masses of meshes": """<asset><mesh name="m" file="m.obj"/></asset><worldbody><body name="tool" euler="20 0 10">
        <joint axis="1 0 1"/><joint type="ball"/><geom type="mesh" mesh="m" pos=".1 .2 .3"/></body></worldbody>""",
    "gravcomp": """<worldbody><body name="base" gravcomp="0.4"><joint axis="1 0 0"/><geom size="0.1" pos="0 0.2 0"/>
        <body name="rigid" gravcomp="1" pos="0 0.3 0"><geom size="0.1"/></body>
        <body name="tool" pos="0 0.5 0"><joint axis="0 0 1"/><geom size="0.1" pos="0.1 0 0"/></body></body>
        </worldbody>""",
    "frames and replicas": """<worldbody><frame pos="0 0 1" euler="0 30 0"><body name="tool"><joint axis="0 1 0"/>
        <geom size="0.1" pos="0.3 0 0"/></body></frame><replicate count="2" offset="0 0.5 0"><body name="b">
        <joint axis="1 0 0"/><geom type="capsule" size=".05 .1" pos="0 0 .2"/></body></replicate></worldbody>""",
}


def written(folder: Path, content: str) -> Path:
    (folder / "m.obj").write_text(CUBE)
    (folder / "x.xml").write_text(f"<mujoco>{content}</mujoco>")
    return folder / "x.xml"


def world(folder: Path, content: str, **keys: object) -> WorldSetup:
    written(folder, content)
    document = {"files": {"f": {"path": "x.xml"}}, "tool": "f/tool", "ignore": [["f", "f"]], **keys}
    return build(WorldParameters.model_validate(document), folder)


def quaternions_first(model: pin.Model, qpos: np.ndarray) -> np.ndarray:
    """MuJoCo's configuration in Pinocchio's order of quaternions."""
    q = qpos.copy()
    for joint in model.joints[1:]:
        if joint.nq == 4:
            q[joint.idx_q : joint.idx_q + 4] = np.roll(q[joint.idx_q : joint.idx_q + 4], -1)
    return q


@pytest.mark.parametrize("name", MODELS)
def test_inertia_bias_and_poses_are_mujocos(tmp_path: Path, name: str) -> None:
    w = world(tmp_path, MODELS[name])
    oracle = mujoco.MjModel.from_xml_path(str(tmp_path / "x.xml"))
    state, rng, model = mujoco.MjData(oracle), np.random.default_rng(20263), w.model
    np.testing.assert_allclose(w.q, quaternions_first(model, oracle.qpos0), atol=1e-15)
    weights = BalancedWeights(model, w.balanced) if w.balanced else None
    for kick in range(3):
        mujoco.mj_integratePos(oracle, state.qpos, rng.normal(size=oracle.nv) * (kick > 0), 0.3)
        state.qvel[:] = rng.normal(size=oracle.nv)
        mujoco.mj_forward(oracle, state)
        q, v, data = quaternions_first(model, state.qpos), state.qvel.copy(), model.createData()
        pin.computeAllTerms(model, data, q, v)
        pin.updateFramePlacements(model, data)
        if weights is not None:
            weights.take_from(data, q)
        full = np.zeros((oracle.nv, oracle.nv))
        for row, unit in zip(full, np.eye(oracle.nv), strict=True):
            mujoco.mj_mulM(oracle, state, row, unit)
        np.testing.assert_allclose(np.triu(data.M), np.triu(full), atol=1e-12)
        np.testing.assert_allclose(data.nle, state.qfrc_bias - state.qfrc_gravcomp, atol=1e-11)
        for body in range(1, oracle.nbody):
            place = data.oMf[model.getFrameId(f"f/{oracle.body(body).name}", pin.FrameType.BODY)]
            np.testing.assert_allclose(place.translation, state.xpos[body], atol=1e-12)


def test_shapes_are_mujocos(tmp_path: Path) -> None:
    """Of a mesh its hull in the axes of the body, and of an ellipsoid a polytope in it that nearly fills it."""
    content = """<asset><mesh name="m" file="m.obj"/></asset><worldbody><body name="tool"><freejoint/>
        <geom type="mesh" mesh="m" pos=".1 .2 .3" euler="0 0 30"/>
        <geom type="ellipsoid" size=".1 .2 .3" contype="0"/><geom size="1" contype="0" conaffinity="0"/></body>
        </worldbody>"""
    w = world(tmp_path, content)
    oracle = mujoco.MjModel.from_xml_path(str(tmp_path / "x.xml"))
    mesh, ellipsoid = w.geometry.geometryObjects
    centre = w.model.inertias[1].lever, oracle.body_ipos[1]
    assert not np.any(centre[0])  # a free body is in axes at its centre of mass
    corners = np.array([mesh.placement.act(point) for point in mesh.geometry.points()]) + centre[1]
    turn = pin.exp3(np.array([0.0, 0.0, np.pi / 6]))
    expected = np.array([[0, 0, 0], [0.1, 0, 0], [0, 0.2, 0], [0, 0, 0.3]]) @ turn.T + [0.1, 0.2, 0.3]
    assert all(np.abs(corners - point).max(axis=1).min() < 1e-6 for point in expected)
    points = np.array(ellipsoid.geometry.points()) / [0.1, 0.2, 0.3]
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0, atol=1e-12)
    assert "collisions of ellipsoids but as polytopes of 200 corners (1)" in w.notes[0]


def test_two_bodies_on_joints_in_a_row_do_not_collide(tmp_path: Path) -> None:
    """A body with two joints hangs on its parent as one with a single joint does."""
    content = """<worldbody><body name="base"><joint/><geom size="0.1"/><body name="tool">
        <joint axis="1 0 0"/><joint axis="0 1 0"/><geom size="0.1"/></body></body></worldbody>"""
    assert len(world(tmp_path, content, ignore=[]).geometry.collisionPairs) == 0


def test_without_mujoco_the_command_that_installs_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, MODELS["ref"])
    monkeypatch.setitem(__import__("sys").modules, "mujoco", None)
    with pytest.raises(ModelFileError) as caught:
        load_trees(path, "hull")
    assert str(caught.value) == ": is MJCF: MuJoCo is needed and not there: python3 -m pip install 'mujoco>=3.5'"


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (
            '<tendon><spatial name="t"><site site="a"/><site site="b"/></spatial></tendon>'
            '<equality><tendon name="e" tendon1="t"/></equality>',
            ": <equality> e: its tendon must be a fixed one",
        ),
        (
            '<tendon><fixed name="t" stiffness="2"><joint joint="j" coef="1"/></fixed></tendon>',
            ": <tendon> t: worlds have no tendons with forces of their own",
        ),
    ],
)
def test_what_worlds_do_not_have_is_refused_with_what_to_do(tmp_path: Path, extra: str, said: str) -> None:
    sites = '<site name="a"/><body name="tool"><site name="b"/>'
    body = f'<worldbody>{sites}<joint name="j"/><geom size="1"/></body></worldbody>'
    with pytest.raises(ModelFileError) as caught:
        load_trees(written(tmp_path, body + extra), "hull")
    assert str(caught.value) == f"{said}; take it out, or let MuJoCo simulate the world (scene.type = mujoco)"
    harmless = extra.replace('<tendon name="e"', '<tendon active="false" name="e"').replace(' stiffness="2"', "")
    assert len(load_trees(written(tmp_path, body + harmless), "hull")[0]) == 1


DAMPED = """<worldbody><body name="tool" pos="0 0 1" euler="10 20 0"><joint name="j" type="free" damping=".01"
    {joint}/><geom type="box" size=".1 .05 .02" pos="{x} 0 0"/></body></worldbody>"""


def test_a_damped_free_body_falls_as_in_mujoco_in_the_limit_of_small_steps(tmp_path: Path) -> None:
    """It tumbles: the difference of positions and velocities, of the first order in the step, is extrapolated to 0."""
    path = written(tmp_path, DAMPED.format(joint="", x=0))
    kick = np.array([0.3, -0.2, 0.5, 3.0, -4.0, 2.0])
    differences = []
    for rate in (4e3, 8e3, 16e3):
        oracle = mujoco.MjModel.from_xml_path(str(path))
        oracle.opt.timestep = 1.0 / rate
        state = mujoco.MjData(oracle)
        state.qvel[:] = kick
        ours = haptic_sim.World(haptic_sim.load(path, rate=rate))
        ours.reset(velocities=dict(zip(ours.velocities, kick, strict=True)))
        for _ in range(int(0.25 * rate)):
            mujoco.mj_step(oracle, state)
            ours.step()
        q, (body,) = state.qpos, ours.bodies.values()
        quat_xyzw = np.roll(q[3:], -1)
        turned = body.quaternion * np.sign(body.quaternion @ quat_xyzw)
        found = [*body.position, *turned, *ours.velocities.values()]
        differences.append(found - np.concatenate([q[:3], quat_xyzw, state.qvel]))
    coarse, middle, fine = differences
    assert np.abs(coarse).max() > 1e-5, "or there is nothing to extrapolate"
    limit = coarse / 3.0 - 2.0 * middle + 8.0 / 3.0 * fine  # of a T + b T^2
    np.testing.assert_allclose(limit, 0.0, atol=1e-6)


def test_the_damping_of_a_free_joint_whose_centre_of_mass_is_elsewhere_is_listed(tmp_path: Path) -> None:
    """MuJoCo's force acts at the origin of the body."""
    path = written(tmp_path, DAMPED.format(joint='armature=".1"', x=0.01))
    assert load_trees(path, "hull")[1] == ["armature, damping of j"]
    assert load_trees(written(tmp_path, DAMPED.format(joint="", x=0)), "hull")[1] == []


def test_damping_of_a_free_body_decays_as_the_implicit_step_has_it_and_dissipates_what_is_lost() -> None:
    """A sphere: v_n = v_0 / (1 + T b / m)^n, and likewise the angular velocity."""
    m, radius, b, c, rate, n = 0.3, 0.05, 2.0, 1e-3, 1000.0, 200
    shape = {"type": "sphere", "radius": radius}
    body = {"joint": "free", "mass": m, "shapes": [shape], "velocity": [1, 2, 3, 4, 5, 6], "rotation": [0.3, 0.5, 0.7]}
    scene = {"bodies": {"ball": body | {"damping": b, "turn_damping": c}}, "tool": "ball", "gravity": [0, 0, 0]}
    ours = haptic_sim.World(scene, rate=rate)
    for _ in range(n):
        ours.step()
    moment = 0.4 * m * radius**2
    before = 0.5 * m * (1 + 4 + 9) + 0.5 * moment * (16 + 25 + 36)
    left = np.repeat([(1.0 + b / rate / m) ** -n, (1.0 + c / rate / moment) ** -n], 3)
    ball = ours.bodies["ball"]
    np.testing.assert_allclose([*ball.velocity, *ball.angular_velocity], left * [1, 2, 3, 4, 5, 6], rtol=1e-9)
    energy = ours.energy
    assert energy["damping"] == pytest.approx(before - energy["kinetic"], rel=1e-9)
    assert abs(energy["numerical"]) < 1e-9 * before
