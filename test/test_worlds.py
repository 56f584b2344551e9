"""Worlds: dynamics against Pinocchio alone and MuJoCo, conventions by differences, collision pairs, bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import coal
import mujoco
import numpy as np
import pinocchio as pin
import pytest
import trimesh
import yaml
from pydantic import ValidationError
from scipy.spatial.transform import Rotation

from haptic_sim.parameters import ParameterError, explain
from haptic_sim.worlds.building import build
from haptic_sim.worlds.overlaps import find_overlaps
from haptic_sim.worlds.parameters import WorldParameters
from haptic_sim.worlds.world_setup import WorldSetup

HERE = Path(__file__).parent / "data"
ROBOTS = Path(pin.__file__).parents[4] / "share" / "example-robot-data" / "robots"
BALL = {"joint": "free", "mass": 2.0, "shapes": [{"type": "sphere", "radius": 0.1}]}
FLOOR = {"joint": "fixed", "shapes": [{"type": "plane"}]}


def world(folder: Path = HERE, contact: dict[str, Any] | None = None, **document: Any) -> WorldSetup:
    return build(WorldParameters.model_validate(document), folder, **(contact or {}))


def inertia_matrix(model: pin.Model, q: np.ndarray) -> np.ndarray:
    D = np.triu(pin.crba(model, model.createData(), q))
    return D + np.triu(D, 1).T


def energies(model: pin.Model, q: np.ndarray, v: np.ndarray) -> tuple[float, float]:
    data = model.createData()
    return pin.computeKineticEnergy(model, data, q, v), pin.computePotentialEnergy(model, data, q)


def frame(w: WorldSetup, name: str, q: np.ndarray | None = None) -> pin.SE3:
    """Pose of a body in the world."""
    data = w.model.createData()
    pin.framesForwardKinematics(w.model, data, w.q if q is None else q)
    return data.oMf[w.model.getFrameId(name, pin.FrameType.BODY)].copy()


def pairs(w: WorldSetup) -> set[tuple[str, str]]:
    return {(w.shape_bodies[p.first], w.shape_bodies[p.second]) for p in w.geometry.collisionPairs}


# Free bodies

FREE = {
    "joint": "free",
    "mass": 2.0,
    "inertia": [0.02, 0.03, 0.04, 0.001, -0.002, 0.003],
    "centre_of_mass": [0.1, -0.2, 0.3],
    "position": [1.0, 2.0, 3.0],
    "rotation": [0.7, -0.4, 1.1],
    "velocity": [0.3, -0.2, 0.5, 1.0, -2.0, 0.7],
}
TURN = Rotation.from_euler("xyz", FREE["rotation"]).as_matrix()  # type: ignore[arg-type]


def test_coordinates_of_a_free_body() -> None:
    w = world(bodies={"body": FREE}, tool="body")
    assert (w.model.nq, w.model.nv, list(w.free_joints)) == (7, 6, [1])
    centre = np.array([1.0, 2.0, 3.0]) + TURN @ [0.1, -0.2, 0.3]
    np.testing.assert_allclose(w.q[:3], centre, atol=1e-15)
    np.testing.assert_allclose(Rotation.from_quat(w.q[3:]).as_matrix(), TURN, atol=1e-15)
    X_WB = frame(w, "body")
    np.testing.assert_allclose(X_WB.translation, [1.0, 2.0, 3.0], atol=1e-15)
    np.testing.assert_allclose(X_WB.rotation, TURN, atol=1e-15)
    data = w.model.createData()
    pin.framesForwardKinematics(w.model, data, w.q)
    np.testing.assert_allclose(data.oMf[w.hand].translation, centre, atol=1e-15)  # held at its centre of mass


def test_velocities_of_a_free_body_by_differences() -> None:
    """Linear: of the centre of mass, in world axes. Angular: given in world axes, kept in the body's."""
    w = world(bodies={"body": FREE}, tool="body")
    h = 1e-6
    ahead, behind = (pin.integrate(w.model, w.q, sign * h * w.v) for sign in (1, -1))
    np.testing.assert_allclose((ahead[:3] - behind[:3]) / (2 * h), [0.3, -0.2, 0.5], atol=1e-9)
    turned = frame(w, "body", ahead).rotation @ frame(w, "body", behind).rotation.T
    np.testing.assert_allclose(Rotation.from_matrix(turned).as_rotvec() / (2 * h), [1.0, -2.0, 0.7], atol=1e-9)
    np.testing.assert_allclose(w.v[3:], TURN.T @ [1.0, -2.0, 0.7], atol=1e-15)


def test_inertia_of_a_free_body_is_constant_and_its_linear_momentum_kept() -> None:
    w = world(bodies={"body": FREE}, tool="body", gravity=[0, 0, 0])
    tensor = np.array([[0.02, 0.001, -0.002], [0.001, 0.03, 0.003], [-0.002, 0.003, 0.04]])
    expected = np.block([[2.0 * np.eye(3), np.zeros((3, 3))], [np.zeros((3, 3)), tensor]])
    np.testing.assert_allclose(w.free_inertia, [tensor], atol=1e-17)
    data, q, v = w.model.createData(), w.q, w.v
    for _ in range(50):
        np.testing.assert_allclose(inertia_matrix(w.model, q), expected, atol=1e-14)
        v = v + 1e-3 * pin.aba(w.model, data, q, v, np.zeros(6))
        q = pin.integrate(w.model, q, 1e-3 * v)
    np.testing.assert_allclose(v[:3], [0.3, -0.2, 0.5], atol=1e-14)
    np.testing.assert_allclose(q[:3], w.q[:3] + 0.05 * np.array([0.3, -0.2, 0.5]), atol=1e-13)


def test_free_fall_under_the_worlds_gravity() -> None:
    w = world(bodies={"body": FREE}, tool="body", gravity=[1.0, -2.0, 3.0])
    a = pin.aba(w.model, w.model.createData(), w.q, np.zeros(6), np.zeros(6))
    np.testing.assert_allclose(a, [1.0, -2.0, 3.0, 0, 0, 0], atol=1e-13)


def test_shapes_are_where_the_body_is() -> None:
    body = FREE | {"shapes": [{"type": "sphere", "radius": 0.1, "position": [0.4, 0.0, 0.2]}]}
    w = world(bodies={"body": body}, tool="body")
    data, geometry = w.model.createData(), w.geometry.createData()
    pin.updateGeometryPlacements(w.model, data, w.geometry, geometry, w.q)
    np.testing.assert_allclose(
        geometry.oMg[0].translation, np.array([1.0, 2.0, 3.0]) + TURN @ [0.4, 0.0, 0.2], atol=1e-14
    )


@pytest.mark.parametrize("by", ["mass", "density"])
def test_mass_and_inertia_from_the_shapes(by: str) -> None:
    box = {"type": "box", "size": [0.1, 0.2, 0.3], "position": [0.5, 0, 0]}
    value = 3.0 if by == "mass" else 500.0
    w = world(bodies={"body": {"joint": "free", by: value, "shapes": [box]}}, tool="body")
    m = 3.0 if by == "mass" else 500.0 * 0.006
    moments = m / 12 * np.array([0.13, 0.10, 0.05])
    np.testing.assert_allclose(inertia_matrix(w.model, w.q), np.diag([m, m, m, *moments]), atol=1e-15)
    np.testing.assert_allclose(w.q[:3], [0.5, 0, 0], atol=1e-15)


# Planar worlds

PEG = {
    "joint": "planar",
    "mass": 2.0,
    "inertia": 0.005,
    "centre_of_mass": [0.01, 0.02],
    "position": [0.3, -0.1],
    "angle": 0.7,
    "velocity": [0.1, 0.2, 3.0],
    "shapes": [{"type": "box", "size": [0.042, 0.021, 0.021]}],
}


def test_a_planar_body() -> None:
    w = world(planar=True, gravity=[0, -9.81, 0], bodies={"peg": PEG}, tool="peg")
    c, s = np.cos(0.7), np.sin(0.7)
    np.testing.assert_allclose(w.q, [0.3 + c * 0.01 - s * 0.02, -0.1 + s * 0.01 + c * 0.02, 0.7], atol=1e-15)
    np.testing.assert_allclose(w.v, [0.1, 0.2, 3.0])
    np.testing.assert_allclose(inertia_matrix(w.model, w.q), np.diag([2.0, 2.0, 0.005]), atol=1e-15)
    a = pin.aba(w.model, w.model.createData(), w.q, w.v, np.zeros(3))
    np.testing.assert_allclose(a, [0, -9.81, 0], atol=1e-12)
    np.testing.assert_allclose(frame(w, "peg").translation, [0.3, -0.1, 0], atol=1e-15)
    assert w.planar and len(w.free_joints) == 0


def test_a_planar_linkage_of_uniform_rods_has_the_textbook_inertia() -> None:
    """Two rods of length 1 m and mass 1 kg, D of a double pendulum in relative angles."""
    rod = {"mass": 1.0, "inertia": [1 / 12, 1 / 12, 1 / 12], "centre_of_mass": [0.5, 0, 0], "axis": [0, 0, 1]}
    bodies = {
        "base": {"joint": "revolute", "angle": np.pi / 2, "velocity": 1.0, **rod},
        "distal": {"joint": "revolute", "parent": "base", "position": [1, 0, 0], "angle": 0.4, "velocity": -1.0, **rod},
    }
    w = world(planar=True, gravity=[0, 0, 0], bodies=bodies, tool="distal", hold=[1, 0, 0])
    c = np.cos(0.4)
    expected = [[5 / 3 + c, 1 / 3 + c / 2], [1 / 3 + c / 2, 1 / 3]]
    np.testing.assert_allclose(inertia_matrix(w.model, w.q), expected, atol=1e-14)
    np.testing.assert_allclose([*w.q, *w.v], [np.pi / 2, 0.4, 1.0, -1.0])
    data = w.model.createData()
    pin.framesForwardKinematics(w.model, data, w.q)
    tip = [np.cos(np.pi / 2 + 0.4), 1 + np.sin(np.pi / 2 + 0.4), 0]
    np.testing.assert_allclose(data.oMf[w.hand].translation, tip, atol=1e-14)
    assert (list(w.tree_start), list(w.tree_size)) == ([0], [2])


def test_a_body_on_a_slide_on_a_free_body() -> None:
    """Positions of the child follow from poses alone, whatever frame the parent's joint has."""
    slide = {
        "joint": "prismatic",
        "parent": "body",
        "position": [0.2, 0.1, 0.0],
        "rotation": [0.0, 0.5, 0.0],
        "axis": [0, 3, 4],
        "travel": 0.25,
        "velocity": 0.5,
        "mass": 1.0,
        "inertia": [0.01, 0.01, 0.01],
    }
    w = world(bodies={"slider": slide, "body": FREE}, tool="slider")
    R = Rotation.from_euler("y", 0.5).as_matrix()
    p = np.array([1.0, 2.0, 3.0]) + TURN @ (np.array([0.2, 0.1, 0.0]) + R @ (0.25 * np.array([0, 0.6, 0.8])))
    X = frame(w, "slider")
    np.testing.assert_allclose(X.translation, p, atol=1e-14)
    np.testing.assert_allclose(X.rotation, TURN @ R, atol=1e-14)
    assert w.body_names == ("world", "body", "slider")
    # the free body carries something: its inertia about its own centre of mass is not all that turns
    assert (list(w.tree_start), list(w.tree_size), len(w.free_joints)) == ([0], [7], 0)


# Files


def randomised(model: pin.Model, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return pin.integrate(model, pin.neutral(model), rng.uniform(-1, 1, model.nv)), rng.normal(size=model.nv)


def same_dynamics(w: WorldSetup, alone: pin.Model, q: np.ndarray, v: np.ndarray) -> None:
    np.testing.assert_allclose(inertia_matrix(w.model, q), inertia_matrix(alone, q), rtol=1e-11, atol=1e-13)
    ours = pin.nonLinearEffects(w.model, w.model.createData(), q, v)
    np.testing.assert_allclose(ours, pin.nonLinearEffects(alone, alone.createData(), q, v), rtol=1e-10, atol=1e-12)


def test_a_urdf_has_the_dynamics_that_pinocchio_gives_it() -> None:
    alone = pin.buildModelFromUrdf(str(HERE / "arm.urdf"))
    for seed in range(3):
        q, v = randomised(alone, seed)
        w = world(files={"arm": {"path": "arm.urdf", "q": list(q), "v": list(v), "limits": "none"}}, tool="arm/lower")
        np.testing.assert_array_equal([*w.q, *w.v], [*q, *v])
        same_dynamics(w, alone, w.q, w.v)
    for name in ("lowerPositionLimit", "upperPositionLimit", "upperVelocityLimit", "damping"):
        np.testing.assert_array_equal(getattr(w.model, name), getattr(alone, name))
    assert np.isinf(w.model.upperEffortLimit).all()  # as no limit is used
    limited = world(files={"arm": {"path": "arm.urdf"}}, tool="arm/lower")
    np.testing.assert_array_equal(limited.model.upperEffortLimit, alone.upperEffortLimit)
    np.testing.assert_array_equal(w.model.upperDryFrictionLimit, alone.upperDryFrictionLimit)
    assert w.body_names == ("world", "arm/upper", "arm/lower")
    kinds = [type(item.geometry) for item in w.geometry.geometryObjects]
    assert kinds == [coal.Cylinder, coal.Box, coal.Convex]


def test_shapes_of_a_urdf_are_where_pinocchio_has_them() -> None:
    alone = pin.buildModelFromUrdf(str(HERE / "arm.urdf"))
    geometry = pin.buildGeomFromUrdf(
        alone, str(HERE / "arm.urdf"), pin.GeometryType.COLLISION, package_dirs=[str(HERE.parent)]
    )
    q, _ = randomised(alone, 5)
    pose = {"position": [0.4, 0.5, -0.2], "rotation": [0.3, 0.2, 0.9]}
    w = world(files={"arm": {"path": "arm.urdf", "q": list(q), "limits": "none", **pose}}, tool="arm/lower")
    X_WF = pin.SE3(Rotation.from_euler("xyz", pose["rotation"]).as_matrix(), np.array(pose["position"]))
    theirs, ours = geometry.createData(), w.geometry.createData()
    pin.updateGeometryPlacements(alone, alone.createData(), geometry, theirs, q)
    pin.updateGeometryPlacements(w.model, w.model.createData(), w.geometry, ours, w.q)
    for mine, reference in zip(ours.oMg, theirs.oMg, strict=True):
        np.testing.assert_allclose(mine.homogeneous, (X_WF * reference).homogeneous, atol=1e-13)


def test_a_robot_of_the_library_has_its_dynamics_and_hold_point() -> None:
    path = ROBOTS / "panda_description" / "urdf" / "panda.urdf"
    alone = pin.buildModelFromUrdf(str(path))
    q, v = randomised(alone, 7)
    file = {"path": str(path), "q": list(q), "v": list(v), "meshes": "hull", "limits": "none"}
    file["constraints"] = "none"  # any velocity, also of the fingers
    w = world(files={"panda": file}, tool="panda/panda_hand", hold=[0, 0, 0.1], ignore=[["panda", "panda"]])
    same_dynamics(w, alone, w.q, w.v)
    data = alone.createData()
    pin.framesForwardKinematics(alone, data, q)
    ours = w.model.createData()
    pin.framesForwardKinematics(w.model, ours, w.q)
    X_WB = data.oMf[alone.getFrameId("panda_hand", pin.FrameType.BODY)]
    np.testing.assert_allclose(ours.oMf[w.hand].translation, X_WB.act(np.array([0, 0, 0.1])), atol=1e-13)
    np.testing.assert_allclose(ours.oMf[w.hand].rotation, X_WB.rotation, atol=1e-13)


def test_a_free_base_moves_as_pinocchios_free_flyer() -> None:
    """Other coordinates, same motion: kinetic and potential energy, and the rate of change of the hand's pose."""
    alone = pin.buildModelFromUrdf(str(HERE / "arm.urdf"), pin.JointModelFreeFlyer())
    q, v = randomised(alone, 11)
    X_WB = pin.XYZQUATToSE3(q[:7])
    twist = np.concatenate([X_WB.rotation @ v[:3], X_WB.rotation @ v[3:6]])  # of the base's origin, world axes
    lever = X_WB.rotation @ np.array([0.01, 0, 0.05])
    centre_velocity = twist[:3] + np.cross(twist[3:], lever)
    given = {"path": "arm.urdf", "base": "free", "limits": "none", "q": list(q)}
    given["v"] = [*centre_velocity, *twist[3:], *v[6:]]
    w = world(files={"arm": given}, tool="arm/tip")
    np.testing.assert_allclose(energies(w.model, w.q, w.v), energies(alone, q, v), rtol=1e-12)
    np.testing.assert_allclose(frame(w, "arm/base").homogeneous, X_WB.homogeneous, atol=1e-14)
    theirs, ours = alone.createData(), w.model.createData()
    pin.forwardKinematics(alone, theirs, q, v)
    pin.forwardKinematics(w.model, ours, w.q, w.v)
    tip = alone.getFrameId("tip", pin.FrameType.BODY)
    mine = w.model.getFrameId("arm/tip", pin.FrameType.BODY)
    np.testing.assert_allclose(
        pin.getFrameVelocity(w.model, ours, mine, pin.LOCAL_WORLD_ALIGNED).vector,
        pin.getFrameVelocity(alone, theirs, tip, pin.LOCAL_WORLD_ALIGNED).vector,
        atol=1e-13,
    )
    assert (list(w.tree_start), list(w.tree_size), len(w.free_joints)) == ([0], [8], 0)


def test_a_floating_joint_of_a_urdf_makes_a_free_body(tmp_path: Path) -> None:
    joint = '<parent link="ground"/><child link="base"/><origin xyz="1 2 3" rpy="0.3 0.2 0.1"/>'
    start = f'<robot name="arm"><link name="ground"/><joint name="f" type="floating">{joint}</joint>'
    text = URDF.replace('<robot name="arm">', start)
    (tmp_path / "arm.urdf").write_text(text.replace("package://data", str(HERE)))
    alone = pin.buildModelFromUrdf(str(tmp_path / "arm.urdf"))
    q, _ = randomised(alone, 3)
    v = np.array([0.1, 0.2, 0.3, 0, 0, 0, 0, 0])
    w = world(
        tmp_path, files={"arm": {"path": "arm.urdf", "q": list(q), "v": list(v), "limits": "none"}}, tool="arm/lower"
    )
    assert w.body_names == ("world", "arm/base", "arm/upper", "arm/lower")
    np.testing.assert_allclose(w.v, v)
    theirs, ours = alone.createData(), w.model.createData()
    pin.framesForwardKinematics(alone, theirs, q)
    pin.framesForwardKinematics(w.model, ours, w.q)
    for name in ("base", "upper", "lower", "tip"):
        np.testing.assert_allclose(
            ours.oMf[w.model.getFrameId(f"arm/{name}", pin.FrameType.BODY)].homogeneous,
            theirs.oMf[alone.getFrameId(name, pin.FrameType.BODY)].homogeneous,
            atol=1e-13,
        )
    geometry = w.geometry.createData()
    pin.updateGeometryPlacements(w.model, ours, w.geometry, geometry)
    base = theirs.oMf[alone.getFrameId("base", pin.FrameType.BODY)]
    np.testing.assert_allclose(geometry.oMg[0].translation, base.act(np.array([0, 0, 0.05])), atol=1e-13)
    np.testing.assert_array_equal(w.model.lowerPositionLimit[-2:], alone.lowerPositionLimit[-2:])


def test_an_mjcf_with_several_bodies_has_the_dynamics_that_mujoco_gives_it() -> None:
    """Masses from geoms, poses of bodies with and without joints, a body with two joints, an unnamed body."""
    oracle = mujoco.MjModel.from_xml_path(str(HERE / "table.xml"))
    state = mujoco.MjData(oracle)
    rng = np.random.default_rng(20260)
    w = world(files={"t": {"path": "table.xml"}}, tool="t/ball")
    for kick in range(3):
        state.qpos[:] = oracle.qpos0
        joints = np.zeros(3) if kick == 0 else rng.uniform(-1, 1, 3)
        state.qpos[:3] += joints
        state.qvel[:3] = rng.normal(size=3)
        mujoco.mj_forward(oracle, state)
        full = np.zeros((oracle.nv, oracle.nv))
        mujoco.mj_fullM(oracle, state, full)
        q = w.q.copy()
        q[:3] += joints
        D = inertia_matrix(w.model, q)
        np.testing.assert_allclose(D[:3, :3], full[:3, :3], rtol=1e-9, atol=1e-12)
        v = np.concatenate([state.qvel[:3], np.zeros(6)])
        oracle.opt.gravity[:] = w.model.gravity.linear
        mujoco.mj_forward(oracle, state)
        np.testing.assert_allclose(
            pin.nonLinearEffects(w.model, w.model.createData(), q, v)[:3], state.qfrc_bias[:3], rtol=1e-9, atol=1e-9
        )
        for name in ("post", "crank", "ball"):
            X = frame(w, f"t/{name}", q)
            np.testing.assert_allclose(X.translation, state.body(name).xpos, atol=1e-10)
            np.testing.assert_allclose(X.rotation.ravel(), state.body(name).xmat, atol=1e-10)
    # the ball about its centre of mass
    np.testing.assert_allclose(w.q[3:6], state.body("ball").xipos, atol=1e-10)
    principal = np.linalg.eigvalsh(w.free_inertia[0])
    np.testing.assert_allclose(principal, np.sort(oracle.body("ball").inertia), rtol=1e-9)
    assert D[3, 3] == pytest.approx(oracle.body("ball").mass[0], rel=1e-12)
    np.testing.assert_array_equal(w.model.armature, [0.01, 0, 0, 0, 0, 0, 0, 0, 0])
    assert (list(w.tree_start), list(w.tree_size), list(w.free_joints)) == ([0, 3], [3, 6], [4])


def test_shapes_of_an_mjcf_are_where_mujoco_has_them() -> None:
    oracle = mujoco.MjModel.from_xml_path(str(HERE / "table.xml"))
    state = mujoco.MjData(oracle)
    mujoco.mj_forward(oracle, state)
    w = world(files={"t": {"path": "table.xml"}}, tool="t/ball")
    geometry = w.geometry.createData()
    pin.updateGeometryPlacements(w.model, w.model.createData(), w.geometry, geometry, w.q)
    seen = [i for i in range(oracle.ngeom) if oracle.geom_contype[i]]
    assert len(seen) == len(geometry.oMg)
    for i, pose in zip(seen, geometry.oMg, strict=True):
        np.testing.assert_allclose(pose.translation, state.geom_xpos[i], atol=1e-10)
        np.testing.assert_allclose(pose.rotation.ravel(), state.geom_xmat[i], atol=1e-10)


@pytest.mark.parametrize("compiler", ["", '<compiler inertiafromgeom="false"/>', '<compiler boundmass="0.5"/>'])
def test_a_body_of_an_mjcf_that_hangs_on_the_world(tmp_path: Path, compiler: str) -> None:
    (tmp_path / "door.xml").write_text(
        f"""<mujoco>{compiler}<worldbody>
          <geom type="box" size="0.1 0.1 0.1" pos="0 0 -5"/>
          <body name="door" pos="0 1 0" euler="0 0 90"><joint axis="0 0 1"/>
            <inertial pos="0.3 0 0" mass="2" diaginertia="1 1 1"/><geom size="0.1" pos="0.5 0 0"/></body>
          <body name="puck" pos="0 0 9"><freejoint/><inertial pos="0 0 0.2" mass="3" diaginertia="1 2 3"/></body>
        </worldbody></mujoco>"""
    )
    w = world(tmp_path, files={"f": {"path": "door.xml"}}, tool="f/door")
    np.testing.assert_allclose(inertia_matrix(w.model, w.q), np.diag([1 + 2 * 0.09, 3, 3, 3, 1, 2, 3]), atol=1e-12)
    np.testing.assert_allclose(frame(w, "f/door").homogeneous[:3, [0, 3]], [[0, 0], [1, 1], [0, 0]], atol=1e-12)
    data = w.model.createData()
    pin.framesForwardKinematics(w.model, data, w.q)
    np.testing.assert_allclose(data.oMf[w.hand].translation, [0, 1.3, 0], atol=1e-12)  # its centre of mass
    assert pairs(w) == {("f/world", "f/door")}


def test_the_configuration_of_an_mjcf_with_a_free_body_is_absolute() -> None:
    turn = Rotation.from_euler("xyz", [0.4, 0.3, -0.8])
    q = [0.2, 0.05, -0.3, 1.0, -2.0, 0.7, *turn.as_quat()]
    w = world(files={"t": {"path": "table.xml", "q": q, "v": [0, 0, 0, 1, 2, 3, 4, 5, 6]}}, tool="t/ball")
    X = frame(w, "t/ball")
    np.testing.assert_allclose(X.translation, [1.0, -2.0, 0.7], atol=1e-13)
    np.testing.assert_allclose(X.rotation, turn.as_matrix(), atol=1e-13)
    np.testing.assert_allclose(w.v[3:6], [1, 2, 3])
    np.testing.assert_allclose(turn.as_matrix() @ w.v[6:], [4, 5, 6], atol=1e-13)


def everything() -> WorldSetup:
    return world(
        bodies={
            "ball": BALL | {"position": [0, 3, 1]},
            "floor": FLOOR | {"shapes": [{"type": "plane", "offset": -5.0}]},
            "block": BALL | {"position": [0, -3, 1], "velocity": [1, 0, 0, 0, 0, 2]},
        },
        files={
            "left": {"path": "arm.urdf", "q": [0.3, 0.05], "position": [2, 0, 1], "rotation": [0, 0, 0.8]},
            "right": {"path": "arm.urdf", "q": [-0.6, 0.1], "position": [-2, 0, 1], "base": "fixed"},
        },
        tool="right/lower",
    )


def test_inertia_is_block_diagonal_over_trees() -> None:
    w = everything()
    assert (list(w.tree_start), list(w.tree_size)) == ([0, 2, 4, 10], [2, 2, 6, 6])
    assert [w.body_names[i] for i in w.free_joints] == ["ball", "block"]
    D = inertia_matrix(w.model, w.q)
    mask = np.zeros_like(D, dtype=bool)
    for start, size in zip(w.tree_start, w.tree_size, strict=True):
        mask[start : start + size, start : start + size] = True
    assert not D[~mask].any() and np.linalg.eigvalsh(D).min() > 0
    alone = pin.buildModelFromUrdf(str(HERE / "arm.urdf"))
    for start, q in ((0, [0.3, 0.05]), (2, [-0.6, 0.1])):
        block = D[start : start + 2, start : start + 2]
        np.testing.assert_allclose(block, inertia_matrix(alone, np.array(q)), atol=1e-14)


def test_appended_files_are_what_pinocchio_appends() -> None:
    arm = pin.buildModelFromUrdf(str(HERE / "arm.urdf"))
    both = pin.Model()
    for prefix, pose in (
        ("left", pin.SE3(pin.rpy.rpyToMatrix(0, 0, 0.8), np.array([2.0, 0, 1]))),
        ("right", pin.SE3(np.eye(3), np.array([-2.0, 0, 1]))),
    ):
        named = arm.copy()
        for i in range(1, named.njoints):
            named.names[i] = prefix + named.names[i]
        for i in range(1, named.nframes):
            named.frames[i].name = prefix + named.frames[i].name
        both = pin.appendModel(both, named, 0, pose)
    q = np.array([0.3, 0.05, -0.6, 0.1])
    w = everything()
    np.testing.assert_allclose(w.q[:4], q)
    np.testing.assert_allclose(inertia_matrix(w.model, w.q)[:4, :4], inertia_matrix(both, q), atol=1e-14)
    bias = pin.nonLinearEffects(w.model, w.model.createData(), w.q, w.v)
    np.testing.assert_allclose(bias[:4], pin.nonLinearEffects(both, both.createData(), q, np.zeros(4)), atol=1e-12)


# Collision pairs and materials


def test_what_collides() -> None:
    w = everything()
    found = pairs(w)
    fixed = ["floor", "left/base", "right/base"]
    moving = ["left/upper", "left/lower", "right/upper", "right/lower", "ball", "block"]
    everyone = {frozenset((a, b)) for a in fixed + moving for b in moving if a != b}
    for side in ("left", "right"):
        everyone -= {frozenset((f"{side}/base", f"{side}/upper")), frozenset((f"{side}/upper", f"{side}/lower"))}
    assert {frozenset(pair) for pair in found} == everyone and len(found) == len(everyone)
    for first, second in found:
        assert second in moving and first != "right/lower"  # the tool comes second, as does whatever moves


def test_what_is_ignored() -> None:
    bodies = {"a": BALL, "b": BALL | {"position": [0.05, 0, 0]}, "c": BALL | {"position": [0, 9, 0]}}
    assert pairs(world(bodies=bodies, tool="a", ignore=[["b", "a"]])) == {("c", "a"), ("b", "c")}
    w = world(files={"arm": {"path": "arm.urdf"}}, bodies={"floor": FLOOR}, tool="arm/lower", ignore=[["arm", "floor"]])
    assert pairs(w) == {("arm/base", "arm/lower")}
    w = world(files={"arm": {"path": "arm.urdf"}}, tool="arm/lower", ignore=[["arm", "arm"]])
    assert pairs(w) == set()


def test_a_jointed_body_does_not_collide_with_the_fixed_one_that_it_hangs_on() -> None:
    door = {
        "joint": "revolute",
        "parent": "frame",
        "axis": [0, 0, 1],
        "mass": 1,
        "shapes": [{"type": "box", "size": [1, 0.1, 2]}],
    }
    post = {"joint": "fixed", "shapes": [{"type": "box", "size": [0.1, 0.1, 2]}]}
    w = world(bodies={"door": door, "frame": post, "wall": post | {"position": [9, 0, 0]}}, tool="door")
    assert pairs(w) == {("wall", "door")}


def test_materials_of_pairs() -> None:
    bodies = {
        "floor": FLOOR
        | {"restitution": 0.2, "friction_static": 0.4, "friction_kinetic": 0.1, "friction_rolling": 0.01},
        "own": BALL
        | {
            "position": [0, 0, 1],
            "restitution": 0.1,
            "friction_static": 0.9,
            "friction_kinetic": 0.4,
            "friction_rolling": 0.04,
        },
        "plain": BALL | {"position": [0, 1, 1]},
        "default": BALL | {"position": [1, 1, 1]},
    }
    w = world(bodies=bodies, tool="own", contact={"restitution": 0.7, "friction": (0.3, 0.25)})
    values = {}
    restitution, friction, resistance = w.materials(0.7, (0.3, 0.25), (0.02, 0.03))
    for i, pair in enumerate(w.geometry.collisionPairs):
        names = (w.shape_bodies[pair.first], w.shape_bodies[pair.second])
        values[frozenset(names)] = (restitution[i], *friction[i], *resistance[i])
    assert values[frozenset(("floor", "own"))] == pytest.approx(
        (0.2, 0.6, 0.2, 0.02, 0.03)
    )  # the greater; geometric means
    assert values[frozenset(("floor", "plain"))] == pytest.approx((0.2, 0.4, 0.1, 0.01, 0.03))  # the only own one
    assert values[frozenset(("own", "plain"))] == pytest.approx((0.1, 0.9, 0.4, 0.04, 0.03))
    assert values[frozenset(("default", "plain"))] == pytest.approx((0.7, 0.3, 0.25, 0.02, 0.03))  # the experiment's


def test_overlaps_are_measured() -> None:
    bodies = {"floor": FLOOR, "a": BALL | {"position": [0, 0, 0.0996]}, "b": BALL | {"position": [0, 0, 0.2993]}}
    (deepest, *_) = find_overlaps(world(bodies=bodies, tool="a"))
    assert (deepest[0], set(deepest[1:])) == (pytest.approx(0.0004, abs=1e-9), {"a", "floor"})
    apart = {"a": BALL, "b": BALL | {"position": [0, 0, 0.21]}}
    assert find_overlaps(world(bodies=apart, tool="a")) == []


def row_of_links(folder: Path) -> None:
    """A URDF file x.urdf of five balls at one place, each on a joint of the one before."""
    mass = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    ball = '<collision><geometry><sphere radius="0.1"/></geometry></collision>'
    links = "".join(f'<link name="l{i}">{mass}{ball}</link>' for i in range(5))
    joints = "".join(
        f'<joint name="j{i}" type="continuous"><parent link="l{i}"/><child link="l{i + 1}"/><axis xyz="0 0 1"/></joint>'
        for i in range(4)
    )
    (folder / "x.urdf").write_text(f'<robot name="r">{links}{joints}</robot>')


def test_links_of_a_linkage_that_overlap_at_the_start_do_not_collide(tmp_path: Path) -> None:
    row_of_links(tmp_path)
    w = world(tmp_path, files={"f": {"path": "x.urdf"}}, tool="f/l4")
    assert len(w.geometry.collisionPairs) == 0
    (note,) = w.notes
    assert note.startswith("files.f: overlap at the start, and do not collide with each other: f/")
    assert note.endswith("; number of other pairs: 1")
    free = {"ball": BALL | {"position": [0.0, 0.0, 1.0]}}
    assert len(world(tmp_path, files={"f": {"path": "x.urdf"}}, bodies=free, tool="f/l4").geometry.collisionPairs) == 5


def test_all_overlaps_are_said_and_what_to_do_about_those_of_two_files(tmp_path: Path) -> None:
    row_of_links(tmp_path)
    document: dict[str, Any] = {
        "type": "world",
        "files": {"f": {"path": "x.urdf"}, "g": {"path": "x.urdf", "base": "free"}},
        "tool": "f/l4",
    }
    with pytest.raises(ParameterError) as raised:
        build(WorldParameters.model_validate(document), tmp_path)
    lines = str(raised.value).splitlines()
    assert all("overlap by 0.2 m" in line for line in lines[:5])
    assert lines[5:] == [
        "bodies: number of other pairs that overlap: 20",
        "bodies: if they are to pass through each other: ignore = [[f, g]] is for all bodies of f and g",
    ]
    build(WorldParameters.model_validate({**document, "ignore": [["f", "g"]]}), tmp_path)


# Files of parameters


def test_parameters_survive_being_written_and_read() -> None:
    document: dict[str, Any] = {
        "bodies": {
            "peg": FREE | {"shapes": [{"type": "mesh", "path": "wedge.obj", "position": [0, 0, 1]}]},
            "floor": FLOOR,
            "arm": {"joint": "revolute", "axis": [0, 0, 1], "mass": 1, "inertia": [1, 1, 1], "position": [5, 5, 5]},
        },
        "files": {"robot": {"path": "arm.urdf", "q": [0.1, 0.2], "restitution": 0.5, "position": [0, 5, 0]}},
        "tool": "peg",
        "ignore": [["peg", "robot"]],
    }
    parameters = WorldParameters.model_validate(document)
    text = yaml.safe_dump(parameters.model_dump(mode="json"), sort_keys=False)
    again = WorldParameters.model_validate(yaml.safe_load(text))
    assert again == parameters
    one, other = build(parameters, HERE), build(again.placed(HERE), Path("/nowhere"))
    np.testing.assert_array_equal(inertia_matrix(one.model, one.q), inertia_matrix(other.model, other.q))
    assert [pair for pair in pairs(one)] and pairs(one) == pairs(other)


# Bad input


def key_problem(**document: Any) -> str:
    """What is said of parameters that are wrong by themselves."""
    with pytest.raises(ValidationError) as caught:
        WorldParameters.model_validate({"tool": "ball", **document})
    (line,) = explain(caught.value, WorldParameters, "scene.")
    return line


def test_joints_of_a_file_start_where_they_are_told_by_name(tmp_path: Path) -> None:
    named = world(files={"arm": {"path": "arm.urdf", "joints": {"slide": 0.05, "shoulder": -0.3}}}, tool="arm/lower")
    listed = world(files={"arm": {"path": "arm.urdf", "q": [-0.3, 0.05]}}, tool="arm/lower")
    assert named.q.tobytes() == listed.q.tobytes()
    (tmp_path / "turns.urdf").write_text(
        URDF.replace('type="revolute"', 'type="continuous"').replace("package://data", str(HERE))
    )
    turned = build(
        WorldParameters.model_validate(
            {"files": {"arm": {"path": "turns.urdf", "joints": {"shoulder": 0.7}}}, "tool": "arm/lower"}
        ),
        tmp_path,
    )
    assert turned.q[:2] == pytest.approx([np.cos(0.7), np.sin(0.7)], abs=1e-15)


def test_lengths_in_millimetres_are_suspected_of_meshes(tmp_path: Path) -> None:
    shape = {"type": "mesh", "path": "wedge.obj", "scale": [1e3] * 3, "position": [0, 0, -20]}
    assert problem(bodies={"ball": BALL | {"shapes": [shape]}, "floor": FLOOR}).splitlines()[1] == (
        f"scene.bodies.ball.shapes[0].path = {HERE / 'wedge.obj'}: it is 100 m long: if it is in millimetres, set "
        "scale: [0.001, 0.001, 0.001]"
    )
    shape |= {"scale": [50.0] * 3, "position": [0, 0, -2]}
    said = "an overlap of more than 1 m: lengths are in metres, not in millimetres (meshes: scale)"
    assert said in problem(bodies={"ball": BALL | {"shapes": [shape]}, "floor": FLOOR})
    big = BALL | {"shapes": [{"type": "box", "size": [80.0] * 3}]}
    assert problem(bodies={"ball": big, "floor": FLOOR}) == (
        "scene.bodies: ball and floor overlap by 40 m at the start: must be at most allowed_overlap = 0.001 m; move "
        "one of them, or name the pair in ignore"
    )


def test_a_file_of_which_nothing_moves_is_answered_by_a_free_base(tmp_path: Path) -> None:
    (tmp_path / "copter.urdf").write_text(
        """<robot name="c"><link name="body"><inertial><mass value="1"/>
        <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link></robot>"""
    )
    files = {"c": {"path": "copter.urdf"}}
    assert problem(tmp_path, files=files, tool="c/body").splitlines() == [
        "scene.tool = c/body: must be a body that moves; set files.c.base=free to let the whole of it move",
        "scene.bodies: none of them moves; set files.c.base=free to let the whole of the file move",
    ]
    files["c"]["base"] = "free"
    assert build(WorldParameters.model_validate({"files": files, "tool": "c/body"}), tmp_path).model.nv == 6


def problem(folder: Path = HERE, **document: Any) -> str:
    """What is said of a world that cannot be built."""
    with pytest.raises(ParameterError) as caught:
        build(WorldParameters.model_validate({"tool": "ball"} | document), folder, prefix="scene.")
    return str(caught.value)


def ball(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in (BALL | changes).items() if value is not None}


NOT_A_BODY = "the greatest of its principal moments (1, 1, 3 kg m^2) must be at most the sum of the other two"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (ball(mass=-1), "scene.bodies.ball.mass = -1 kg: must be > 0 kg"),
        (ball(mass=float("nan")), "scene.bodies.ball.mass = nan kg: must be finite"),
        (ball(mass=None), "scene.bodies.ball.mass: give either the mass or the density"),
        (ball(density=1000), "scene.bodies.ball.mass: give either the mass or the density"),
        (ball(shapes=[]), "scene.bodies.ball.inertia: missing: a body without shapes has none of its own"),
        (
            ball(mass=None, density=1000, inertia=[1, 1, 1]),
            "scene.bodies.ball.density: gives the inertia as well; give the mass, or leave out the inertia",
        ),
        (
            ball(centre_of_mass=[0, 0, 0]),
            "scene.bodies.ball.centre_of_mass: follows from the shapes; give the inertia too, or leave it out",
        ),
        (ball(inertia=[1, 1, 3]), f"scene.bodies.ball.inertia = [1, 1, 3]: no body has this inertia: {NOT_A_BODY}"),
        (
            ball(inertia=[1, 1]),
            "scene.bodies.ball.inertia = [1, 1]: has 2 values: must have 3 (principal moments) or 6 "
            "(xx, yy, zz, xy, xz, yz)",
        ),
        (
            ball(velocity=[1, 2, 3, 4, 5, 6, 7]),
            "scene.bodies.ball.velocity = [1, 2, 3, 4, 5, 6, 7]: must have 6 values",
        ),
        (ball(position=[1, float("inf"), 3]), "scene.bodies.ball.position[1] = inf m: must be finite"),
        (ball(restitution=1.5), "scene.bodies.ball.restitution = 1.5: must be <= 1"),
        (ball(friction_static=-0.1), "scene.bodies.ball.friction_static = -0.1: must be >= 0"),
        (
            ball(joint="hinge"),
            "scene.bodies.ball.joint = hinge: must be one of 'fixed', 'free', 'planar', 'revolute', 'prismatic', "
            "'ball'",
        ),
        (ball(joint=None), "scene.bodies.ball: missing the key 'joint'"),
        (
            ball(masss=1),
            "scene.bodies.ball.masss: unknown key; did you mean mass? (known: restitution, friction_static, "
            "friction_kinetic, friction_rolling, friction_torsional, shapes, mass, density, gravity_compensation, "
            "inertia, centre_of_mass, position, rotation, joint, velocity, damping, turn_damping)",
        ),
        (
            ball(shapes=[{"type": "plane"}]),
            "scene.bodies.ball.shapes[0].type = plane: only a fixed body can have a plane",
        ),
        (ball(shapes=[{"type": "sphere", "radius": 0}]), "scene.bodies.ball.shapes[0].radius = 0 m: must be > 0 m"),
        (
            ball(shapes=[{"type": "box", "size": [1, -1, 1]}]),
            "scene.bodies.ball.shapes[0].size[1] = -1: must be > 0",
        ),
        (
            ball(shapes=[{"type": "cone"}]),
            "scene.bodies.ball.shapes[0].type = cone: must be one of 'box', 'sphere', 'cylinder', 'capsule', 'plane', "
            "'mesh', 'generated'",
        ),
        (
            {"joint": "revolute", "axis": [0, 0, 0], "mass": 1, "inertia": [1, 1, 1]},
            "scene.bodies.ball.axis = [0, 0, 0]: must not be zero",
        ),
        (
            {"joint": "revolute", "mass": 1, "inertia": [1, 1, 1]},
            "scene.bodies.ball.axis: missing (Axis of the joint, of any length, in the axes of the body)",
        ),
    ],
)
def test_keys_that_are_wrong_by_themselves(body: dict[str, Any], said: str) -> None:
    assert key_problem(bodies={"ball": body}) == said


def test_names_that_cannot_be_used_in_keys() -> None:
    for name in ("my.ball", "world", "2nd"):
        assert key_problem(bodies={name: BALL}) == (
            f"scene.bodies.{name}: must be named by letters, digits, _ and -, a letter first, and not world"
        )


HINGED = {"joint": "revolute", "axis": [0, 0, 1], "mass": 1, "inertia": [1, 1, 1]}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"bodies": {"a": BALL}}, "scene.tool = ball: unknown body (known: a)"),
        ({"bodies": {"ball": FLOOR}}, "scene.tool = ball: must be a body that moves\nscene.bodies: none of them moves"),
        (
            {"bodies": {"ball": HINGED | {"parent": "bal"}}},
            "scene.bodies.ball.parent = bal: unknown body; did you mean ball? (known: world, ball)",
        ),
        (
            {
                "bodies": {
                    "ball": BALL,
                    "a": HINGED | {"parent": "b"},
                    "b": HINGED | {"parent": "c"},
                    "c": HINGED | {"parent": "a"},
                }
            },
            "scene.bodies.a.parent = b: cyclic parent chain (a, b, c)",
        ),
        (
            {"bodies": {"ball": BALL}, "ignore": [["ball", "bat"]]},
            "scene.ignore[0][1] = bat: unknown body (known: ball)",
        ),
        (
            {"bodies": {"ball": BALL, "floor": FLOOR}},
            "scene.bodies: ball and floor overlap by 0.1 m at the start: must be at most allowed_overlap = 0.001 m; "
            "move one of them, or name the pair in ignore",
        ),
        (
            {
                "bodies": {
                    "ball": BALL | {"position": [0, 0, 1], "friction_static": 0.1, "friction_kinetic": 0.2},
                    "floor": FLOOR,
                }
            },
            "scene.bodies: friction of floor and ball: static = 0.1: must be >= kinetic = 0.2",
        ),
        (
            {"planar": True, "bodies": {"ball": BALL}},
            "scene.gravity[2] = -9.81 m/s^2: must be 0 in a planar world (y is up)\n"
            "scene.bodies.ball: leaves the plane of x and y; must not in a planar world",
        ),
        (
            {"planar": True, "gravity": [0, 0, 0], "bodies": {"ball": PEG, "floor": FLOOR | {"position": [0, 0, -1]}}},
            "scene.bodies.floor: its plane must stand upright on the plane of x and y in a planar world",
        ),
        (
            {"bodies": {"ball": BALL, "arm": BALL}, "files": {"arm": {"path": "arm.urdf"}}},
            "scene.bodies.arm: a file has this name too",
        ),
        (
            {"bodies": {"ball": BALL}, "files": {"arm": {"path": "arm.urdf", "q": [1, 2, 3]}}},
            "scene.files.arm.q has 3 values: must have 2: shoulder, slide",
        ),
        (
            {"bodies": {"ball": BALL}, "files": {"arm": {"path": "arm.urdf", "joints": {"sholder": 1}}}},
            "scene.files.arm.joints.sholder: unknown joint; did you mean shoulder? (known: shoulder, slide)",
        ),
        (
            {"bodies": {"ball": BALL}, "files": {"arm": {"path": "arm.urdf", "joints": {"slide": 0}, "q": [0, 0]}}},
            "scene.files.arm.joints: must be left out where q gives all coordinates",
        ),
        (
            {"bodies": {"ball": BALL}, "files": {"arm": {"path": "arm.urdf", "v": [1]}}},
            "scene.files.arm.v has 1 values: must have 2: shoulder, slide",
        ),
        (
            {"bodies": {"ball": BALL}, "files": {"arm": {"path": "arm.urdf", "base": "free", "q": [0] * 9}}},
            "scene.files.arm.q: a quaternion in it must have length 1",
        ),
    ],
)
def test_worlds_that_cannot_be(document: dict[str, Any], said: str) -> None:
    assert problem(**document) == said


def test_bad_meshes_name_the_body(tmp_path: Path) -> None:
    box = trimesh.creation.box(extents=[1, 1, 1])
    trimesh.Trimesh(box.vertices, box.faces[:-1]).export(tmp_path / "open.stl")
    body = BALL | {"shapes": [{"type": "sphere", "radius": 1}, {"type": "mesh", "path": "open.stl"}]}
    assert problem(tmp_path, bodies={"ball": body}) == (
        f"scene.bodies.ball.shapes[1].path = {tmp_path / 'open.stl'}: has a hole of 0.5 m^2: must be at most "
        "0.024 m^2, as a circle of a tenth of its diagonal is, to be closed; close it, set largest_hole: 0.5 to have "
        "it closed by a flat fan, or set as: hull to take its convex hull"
    )


URDF = (HERE / "arm.urdf").read_text()
MJCF = (HERE / "table.xml").read_text()
MASS = '<mass value="1.5"/>'
MOVES = "mass = 0 kg: must be > 0, the link moves; give it an <inertial>, or make its joint fixed"
FLAT = "the greatest of its principal moments (0.012, 0.012, 0.03 kg m^2) must be at most the sum of the other two"


MUJOCO = ", line 1: MuJoCo:"


def one(content: str) -> str:
    """An MJCF file of one body."""
    return f"<mujoco><worldbody><body>{content}</body></worldbody></mujoco>"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<robot>\n<link>\n</robot>", ", line 3: not XML: mismatched tag: line 3, column 2"),
        (MJCF, ": must have the root element <robot>, has <mujoco>"),
        (
            URDF.replace('<child link="lower"/>', '<child link="upper"/>'),
            ", line 22: joint slide: its child upper is already the child of another joint\n"
            ": has 2 links without a parent (base, lower): must have one, its root",
        ),
        (URDF.replace(MASS, '<mass value="-1.5"/>'), ", line 8: link upper: mass = -1.5 kg: must be >= 0"),
        (URDF.replace(MASS, '<mass value="x"/>'), ", line 8: <mass> value = x: must be finite numbers"),
        (URDF.replace(MASS, '<mass value="nan"/>'), ", line 8: <mass> value = nan: must be finite numbers"),
        (URDF.replace('izz="0.002"', 'izz="0.03"'), f": link upper: no body has this inertia: {FLAT}"),
        (
            URDF.replace("<inertial>", "<!--").replace("</inertial>", "-->"),
            f": link upper: {MOVES}\n: link lower: {MOVES}",
        ),
        (URDF.replace("0 0.6 0.8", "0 0 0"), ", line 22: joint slide: axis = 0 0 0: must not be zero"),
        (URDF.replace('lower="-2"', 'lower="x"'), ": joint shoulder: lower = x: must be a number"),
        (
            URDF.replace("wedge.obj", "none.obj"),
            ", line 15: mesh package://data/none.obj: is not in {folder}/data",
        ),
    ],
)
def test_bad_urdf_files(tmp_path: Path, text: str, said: str) -> None:
    assert file_problem(tmp_path, "x.urdf", text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (URDF, ": must have the root element <mujoco>, has <robot>"),
        ("<mujoco/>", ": has no <worldbody>"),
        (
            one('<freejoint/><geom type="plane" size="1 1 1"/><geom size="1"/>'),
            f"{MUJOCO} Error: plane only allowed in static bodies Element name '', id 0",
        ),
        (
            one('<joint/><geom size="1" mass="0"/>'),
            f"{MUJOCO} Error: mass and inertia of moving bodies must be larger than mjMINVAL Element name '', id 1",
        ),
        (
            one('<joint/><geom size="0" mass="1"/><geom size="1"/>'),
            f"{MUJOCO} Error: size 0 must be positive in geom Element name '', id 0",
        ),
        (
            one('<joint name="j" axis="0 0.0 0"/><geom size="1"/>'),
            ", line 1: joint j: axis = 0 0.0 0: must not be zero",
        ),
        (one('<joint/><geom size="1" pos="a b"/>'), ", line 1: <geom> pos = a b: must be finite numbers"),
        (one('<joint type="x"/><geom size="1"/>'), f"{MUJOCO} invalid keyword: 'x' Element 'joint'"),
        ('<?xml version="1.0" encoding="x"?><mujoco/>', ": not XML: unknown encoding: x"),
        (
            one('<joint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 3"/>'),
            f"{MUJOCO} Error: inertia must satisfy A + B >= C; use 'balanceinertia' to fix Element name '', id 1",
        ),
        (one('<body name="a"/><body name="a"/>'), f"{MUJOCO} Error: repeated name 'a' in body Element 'body'"),
        (
            MJCF.replace("<worldbody>", '<include file="none.xml"/><worldbody>'),
            ": <include> {folder}/none.xml: cannot be read: No such file or directory",
        ),
    ],
)
def test_bad_mjcf_files(tmp_path: Path, text: str, said: str) -> None:
    assert file_problem(tmp_path, "x.xml", text) == said


def test_model_files_that_are_none(tmp_path: Path) -> None:
    assert file_problem(tmp_path, "x.urdf", None) == ": cannot be read: No such file or directory"
    assert file_problem(tmp_path, "x.sdf", URDF) == ": must have the root element <sdf>, has <robot>"
    assert file_problem(tmp_path, "x.obj", URDF) == (
        ": must be a .urdf (URDF), .xml (MJCF), .xacro, .sdf or .world (SDF) file"
    )
    (tmp_path / "x.xml").write_text(MJCF)
    document: dict[str, Any] = {"bodies": {"ball": BALL}, "files": {"f": {"path": "x.xml", "base": "free"}}}
    assert problem(tmp_path, **document) == (
        f"scene.files.f.path = {tmp_path / 'x.xml'}: has 3 roots: must have one, and no shapes in the world, for "
        "base = free"
    )


def file_problem(folder: Path, name: str, text: str | None) -> str:
    """What is said of a model file with this text, after its name."""
    path = folder / name
    if text is not None:
        path.write_text(text)
    (folder / "data").mkdir(exist_ok=True)
    for place in (folder, folder / "data"):
        (place / "wedge.obj").write_text((HERE / "wedge.obj").read_text())
    said = problem(folder, bodies={"ball": BALL}, files={"robot": {"path": name}})
    return said.replace(f"scene.files.robot.path = {path}", "").replace(str(folder), "{folder}")


def test_meshes_of_model_files_are_checked(tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text(URDF.replace("package://data/wedge.obj", "mesh.obj"))
    files = {"robot": {"path": "arm.urdf", "meshes": "pieces"}}
    start = f"scene.files.robot.path = {tmp_path / 'arm.urdf'}: link lower: mesh {tmp_path / 'mesh.obj'} "
    wedge = (HERE / "wedge.obj").read_text()
    (tmp_path / "mesh.obj").write_text(wedge.replace("f 3 4 6\n", ""))
    assert problem(tmp_path, bodies={"ball": BALL}, files=files) == (
        start
        + "has a hole of 0.0012 m^2: must be at most 0.00012 m^2, as a circle of a tenth of its diagonal is, to be "
        "closed; close it, or set meshes: hull to take its convex hull"
    )
    # a corner pushed in along its diagonal is not a corner of the hull any more
    (tmp_path / "mesh.obj").write_text(wedge.replace("v 0 0 0.04", "v 0.02 0.02 0.02"))
    w = world(tmp_path, files={"robot": {"path": "arm.urdf", "meshes": "hull"}}, tool="robot/lower")
    assert w.geometry.geometryObjects[2].geometry.num_points == 5
    either = world(tmp_path, files={"robot": {"path": "arm.urdf"}}, tool="robot/lower")
    assert either.geometry.geometryObjects[2].geometry.num_points == 5
    assert "hulls collide, largest error 0.014 m: mesh mesh.obj of lower" in either.notes[0]
    assert any("dents of the meshes of lower, whose hulls collide" in note for note in either.notes)


def test_included_files_are_read(tmp_path: Path) -> None:
    inner = '<mujoco><worldbody><body name="ball"><freejoint/><geom size="0.1"/></body></worldbody></mujoco>'
    (tmp_path / "inner.xml").write_text(inner)
    (tmp_path / "outer.xml").write_text('<mujoco><include file="inner.xml"/></mujoco>')
    w = world(tmp_path, files={"f": {"path": "outer.xml"}}, tool="f/ball")
    assert w.body_names == ("world", "f/ball")
    (tmp_path / "inner.xml").write_text('<mujoco><include file="outer.xml"/></mujoco>')
    message = problem(tmp_path, bodies={"ball": BALL}, files={"f": {"path": "outer.xml"}})
    assert message.endswith(": <include>: files include each other")


_ARM_WITH_A_THIN_ROD = """<robot name="arm">
  <link name="base"/>
  <link name="upper"><inertial><mass value="1"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="rod"><inertial><mass value="1"/>
    <inertia ixx="1e-10" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="a" type="continuous"><parent link="base"/><child link="upper"/><axis xyz="0 0 1"/></joint>
  <joint name="b" type="continuous"><parent link="upper"/><child link="rod"/><axis xyz="0 0 1"/></joint>
</robot>"""


def test_a_link_that_is_no_metric_of_twists_cannot_be_held(tmp_path: Path) -> None:
    """One without an inertia about an axis, to all purposes; in the plane only the moment about z counts."""
    (tmp_path / "arm.urdf").write_text(_ARM_WITH_A_THIN_ROD)
    files = {"arm": {"path": "arm.urdf"}}
    with pytest.raises(ParameterError) as caught:
        world(tmp_path, files=files, tool="arm/rod")
    assert caught.value.problems == [
        "tool = arm/rod: cannot be held: its link has the moments of inertia 1e-10, 1, 1 kg m^2: all must be "
        "more than 1e-09 of the largest"
    ]
    assert world(tmp_path, files=files, tool="arm/upper").hand > 0
    assert world(tmp_path, files=files, tool="arm/rod", planar=True, gravity=[0, -9.81, 0]).planar


def test_a_hold_on_a_link_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text(_ARM_WITH_A_THIN_ROD)
    with pytest.raises(ParameterError, match=r"tool = arm/hand: unknown body.*arm/upper, arm/rod"):
        world(tmp_path, files={"arm": {"path": "arm.urdf"}}, tool="arm/hand")
    with pytest.raises(ParameterError, match="tool = arm/base: must be a body that moves"):
        world(tmp_path, files={"arm": {"path": "arm.urdf"}}, tool="arm/base")
