"""Trajectories and how bodies follow them; pushes and pulls; against Pinocchio's dynamics integrated apart."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from conftest import ROOT
from scipy.interpolate import BPoly
from world_builder import OLD

from haptic_sim import World
from haptic_sim.motions import trajectory as trajectories
from haptic_sim.motions.inverse_kinematics import reach
from haptic_sim.parameters import ParameterError
from haptic_sim.worlds.linkages import robots

FIGURE = str(ROOT / "config/worlds/human_figure.xml")
ARM = str(ROOT / "config/worlds/manipulator.xml")
RADIUS = 0.03  # [m] of the balls that touch


def tip(position: Any = (2.0, 2.0, 2.0), mass: float = 0.2) -> dict[str, Any]:
    """What the hand holds: a small ball."""
    return {
        "joint": "free",
        "position": list(position),
        "mass": mass,
        "shapes": [{"type": "sphere", "radius": RADIUS}],
    }


def chain(count: int = 3) -> dict[str, Any]:
    """An arm of links of 0.3 m along x, its first hinge upright, a ball at the end of the last."""
    bodies: dict[str, Any] = {}
    parent = "world"
    for i in range(count):
        bodies[f"link{i}"] = {
            "joint": "revolute",
            "parent": parent,
            "axis": [0, 1, 0] if i else [0, 0, 1],
            "position": [0.3 if i else 0.0, 0, 0],
            "angle": 0.2 * i,
            "mass": 1.0,
            "centre_of_mass": [0.15, 0, 0],
            "inertia": [0.002, 0.01, 0.01],
            "shapes": [{"type": "sphere", "radius": RADIUS, "position": [0.3, 0, 0]}] if i == count - 1 else [],
        }
        parent = f"link{i}"
    return bodies


def world(bodies: dict[str, Any], motion: dict[str, Any] | None = None, rate: float = 1000.0, **more: Any) -> World:
    scene = {"bodies": {**bodies, "tip": more.pop("tip", tip())}, "tool": "tip", "gravity": [0, 0, 0]}
    environment, contact = more.pop("environment", {"method": "penalty"}), OLD | more.pop("contact", {})
    scene |= more
    if motion is not None:
        scene["motions"] = {"way": motion}
    return World(scene, rate=rate, environment=environment, contact=contact)


def line(*to: float, of: str = "link0", duration: float = 0.5, **more: Any) -> dict[str, Any]:
    return {"of": of, "trajectory": {"type": "joint_line", "to": list(to), "duration": duration}, **more}


def error_after(one: World, steps: int) -> float:
    """Largest difference from the trajectory at any of some steps; of quaternions up to their sign and length."""
    (motion,) = one.start.motions
    worst = 0.0
    for _ in range(steps):
        one.step()
        x = motion.places.of(one._core.state.q)
        aim = motion.trajectory.evaluate(one.time)[0]
        for k in motion.places.x[motion.places.kind == 2]:
            aim[k : k + 4] *= np.sign(aim[k : k + 4] @ x[k : k + 4]) / np.linalg.norm(aim[k : k + 4])
        worst = max(worst, float(np.abs(x - aim).max()))
    return worst


# Trajectories


@pytest.mark.parametrize("degree", [1, 3, 5])
def test_trajectory_through_points_is_that_of_bernstein_polynomials(degree):
    rng = np.random.default_rng(20261)
    times = np.cumsum([0.0, 0.4, 0.7, 0.2])
    parts = [rng.normal(size=(4, 2)) for _ in range((degree + 1) // 2)]
    found = trajectories.through(("a", "b"), times, *parts)
    wanted = BPoly.from_derivatives(times, np.stack(parts, axis=1))
    at = np.linspace(0.0, times[-1], 50)
    for derivative in range(3):
        assert found.evaluate(at[:-1], derivative) == pytest.approx(wanted.derivative(derivative)(at[:-1]), abs=1e-9)


def test_trajectory_rests_before_and_after():
    found = trajectories.straight(("a",), [1.0], [3.0], 2.0, smooth=False)
    assert found.evaluate([-1.0, 0.5, 9.0]).ravel() == pytest.approx([1.0, 1.5, 3.0])
    assert found.evaluate([-1.0, 0.5, 9.0], 1).ravel() == pytest.approx([0.0, 1.0, 0.0])


def test_trajectory_file_holds_what_was_written(tmp_path):
    rng = np.random.default_rng(1)
    times, positions, rates = np.array([0.0, 0.1, 0.3]), rng.normal(size=(3, 2)), rng.normal(size=(3, 2))
    trajectories.write(tmp_path / "t.json", trajectories.document(("a", "b"), times, positions, rates))
    found = trajectories.read(tmp_path / "t.json")
    assert found.joint_names == ("a", "b")
    assert np.array([point.positions for point in found.points]).tolist() == positions.tolist()
    assert np.array([point.velocities for point in found.points]).tolist() == rates.tolist()


def test_trajectory_file_in_yaml_with_ros_durations(tmp_path):
    (tmp_path / "t.yaml").write_text(
        "joint_names: [link1, link0, link2]\npoints:\n"
        "- {positions: [0.2, 0.0, 0.4], time_from_start: {sec: 0, nanosec: 0}}\n"
        "- {positions: [0.4, 0.1, 0.5], time_from_start: {sec: 1, nanosec: 500000000}}\n"
    )
    one = world(chain(), {"of": "link0", "trajectory": {"type": "file", "path": str(tmp_path / "t.yaml")}})
    path = one.start.motions[0].trajectory
    assert path.duration == 1.5
    assert path.evaluate(1.5)[0] == pytest.approx([0.1, 0.4, 0.5])
    assert path.evaluate(0.7, 1)[0] == pytest.approx(np.array([0.1, 0.2, 0.1]) / 1.5)


def test_spline_begins_where_the_bodies_are_and_has_no_jump():
    points = [{"time_from_start": 0.3, "positions": [0.3, 0.1, 0.5]}, {"time_from_start": 0.6, "positions": [0.0] * 3}]
    one = world(chain(), {"of": "link1", "trajectory": {"type": "spline", "points": points}})
    path = one.start.motions[0].trajectory
    assert path.evaluate([0.0, 0.3, 0.6]) == pytest.approx(np.array([[0.0, 0.2, 0.4], [0.3, 0.1, 0.5], [0.0] * 3]))
    assert path.evaluate([0.0, 0.6], 1) == pytest.approx(np.zeros((2, 3)), abs=1e-12)
    for derivative in range(3):
        before, after = path.evaluate([0.3 - 1e-9, 0.3 + 1e-9], derivative)
        assert before == pytest.approx(after, abs=1e-5)
    assert error_after(one, 600) < 3e-4  # it starts with an acceleration of 20 rad/s^2: half a step of it is late


# Inverse kinematics


def test_inverse_kinematics_reaches_what_forward_kinematics_says():
    model = pin.buildModelFromMJCF(ARM)
    frame, rng = model.getFrameId("flange", pin.FrameType.BODY), np.random.default_rng(3)
    lower, upper = model.lowerPositionLimit, model.upperPositionLimit
    for _ in range(10):
        q = rng.uniform(0.6 * lower, 0.6 * upper)
        data = model.createData()
        pin.framesForwardKinematics(model, data, q)
        near = q + rng.uniform(-0.15, 0.15, 6)
        found = reach(model, frame, data.oMf[frame].copy(), near, np.arange(6), lower=lower, upper=upper)
        assert found.error < 1e-9 and found.angle < 1e-9
        assert np.all((found.q >= lower) & (found.q <= upper))


def test_inverse_kinematics_comes_as_near_as_it_can():
    model = pin.buildModelFromMJCF(ARM)
    frame = model.getFrameId("flange", pin.FrameType.BODY)
    goal = pin.SE3(np.eye(3), np.array([2.0, 0.0, 0.3]))  # the arm is 0.86 m long up to the flange
    q = np.array([0.3, -1.0, 1.5, 0.1, -0.3, 0.0])
    limit = np.full(6, 3.0)
    found = reach(model, frame, goal, q, np.arange(6), lower=-limit, upper=limit, rotation=False)
    assert found.error == pytest.approx(2.0 - 0.86, abs=1e-3)


def test_straight_line_in_space_is_straight():
    body = {"arm": {"path": ARM, "q": [0, -1.2, 2.0, 0, -0.8, 0]}}
    way = {"type": "cartesian_line", "body": "arm/flange", "by": [0.1, 0.15, -0.05], "duration": 0.4}
    one = world({}, {"of": "arm", "trajectory": way}, files=body, ignore=[["arm", "arm"]])
    start, places = one.bodies["arm/flange"], []
    for _ in range(400):
        one.step()
        places.append(one.bodies["arm/flange"].position)
    off = np.array(places) - start.position
    along = np.array([0.1, 0.15, -0.05])
    assert off[-1] == pytest.approx(along, abs=1e-5)
    across = off - np.outer(off @ along, along) / (along @ along)
    assert np.linalg.norm(across, axis=1).max() < 1e-4
    assert one.bodies["arm/flange"].quaternion == pytest.approx(start.quaternion, abs=1e-5)


def test_urdf_of_somebody_else_follows_a_straight_line():
    file = {"path": str(robots() / "ur_description/urdf/ur5_robot.urdf"), "meshes": "hull"}
    file |= {"q": [0.0, -0.9, 1.5, -0.6, -1.5, 0.0]}
    way = {"type": "cartesian_line", "body": "arm/wrist_3_link", "by": [0, 0.1, 0.1], "duration": 0.3}
    one = world(
        {}, {"of": "arm", "trajectory": way}, files={"arm": file}, ignore=[["arm", "arm"]], gravity=[0, 0, -9.81]
    )
    before = one.bodies["arm/wrist_3_link"].position
    assert error_after(one, 300) < 1e-5
    assert one.bodies["arm/wrist_3_link"].position - before == pytest.approx([0, 0.1, 0.1], abs=1e-4)


# The systems of IGMS Table II, and a cube

_LEG = (
    '<body pos="{x} {y} 0"><joint axis="0 1 0"/>'
    '<geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02" mass="0.3"/></body>'
)
_PENDULUM = '<body><joint axis="0 1 0"/><geom type="box" size=".05 .05 .1" mass="1"/></body>'
_WALKER = "".join(_LEG.format(x=x, y=y) for x in (-0.2, 0.2) for y in (-0.1, 0.1))
_FINGER = (
    '<body pos="0.05 {y} 0"><joint axis="0 1 0"/>'
    '<geom type="capsule" fromto="0 0 0 0.04 0 0" size="0.008" mass="0.03"/>'
    '<body pos="0.05 0 0"><joint axis="0 1 0"/>'
    '<geom type="capsule" fromto="0 0 0 0.03 0 0" size="0.007" mass="0.02"/>'
    "</body></body>"
)
_HAND = "".join(_FINGER.format(y=y) for y in (-0.03, 0.0, 0.03))
_BOX = '<geom type="box" size="{size}" mass="{mass}"/>'


def _file(tmp_path: Any, content: str, size: str, mass: float) -> str:
    path = tmp_path / "system.xml"
    box = _BOX.format(size=size, mass=mass)
    path.write_text(f'<mujoco><worldbody><body name="base">{box}{content}</body></worldbody></mujoco>')
    return str(path)


@pytest.mark.parametrize(
    ("system", "degrees", "fixed"),
    [
        ("human", 34, False),
        ("manipulator", 6, True),
        ("pendulum", 1, True),
        ("mobile_robot", 6, False),
        ("walking_robot", 10, False),
        ("robot_hand", 12, False),
        ("free_flying_robot", 7, False),
        ("cube", 6, False),
    ],
)
def test_systems_of_table_2_follow_and_are_touched(tmp_path, system, degrees, fixed):
    paths = {
        "human": lambda: FIGURE,
        "manipulator": lambda: ARM,
        "free_flying_robot": lambda: _file(tmp_path, _LEG.format(x=0, y=0), ".1 .1 .1", 4),
        "pendulum": lambda: _file(tmp_path, _PENDULUM, ".01 .01 .01", 1),
        "mobile_robot": lambda: _file(tmp_path, "", ".2 .1 .05", 5),
        "walking_robot": lambda: _file(tmp_path, _WALKER, ".25 .1 .05", 3),
        "robot_hand": lambda: _file(tmp_path, _HAND, ".04 .04 .01", 0.4),
        "cube": lambda: _file(tmp_path, "", ".05 .05 .05", 0.5),
    }  # fmt: skip
    file = {"path": paths[system](), "base": "fixed" if fixed else "free"}
    plain = world({}, files={"system": file}, ignore=[["system", "system"]])
    assert plain.start.model.nv == degrees + 6
    q = plain.start.q[: plain.start.model.nq - 7]
    to = q.copy()
    joints = slice(0 if fixed else 7, None)
    to[joints] = np.clip(q[joints] + 0.1, *_limits(plain, q.size)[:, joints])
    if not fixed:
        to[:3] += [0.05, -0.03, 0.08]
        to[3:7] = pin.Quaternion(pin.rpy.rpyToMatrix(0.1, -0.2, 0.3)).coeffs()
    motion = line(*to, of="system", duration=0.1)
    one = world({}, motion, files={"system": file}, ignore=[["system", "system"]], gravity=[0, 0, -9.81])
    assert error_after(one, 120) < 5e-4
    # the hand touches it, and feels the contact that moves it
    frames = [frame for frame in one.start.model.frames if frame.type == pin.FrameType.BODY and frame.parentJoint]
    body = [frame.name for frame in frames if frame.name.startswith("system/")][-1]
    touched = world(
        {},
        motion | {"after_touch": "keep"},
        files={"system": file},
        ignore=[["system", "system"], ["system", "tip"]],
        pulls={"grip": {"body": body, "grabs": [[0.0, 1.0]], "stiffness": 300, "damping": 5}},
    )
    for _ in range(60):
        touched.step([0.0, 0.0, 3.0, 0, 0, 0])
    assert np.linalg.norm(touched.wrench[:3]) > 0.05


def _limits(one: World, count: int) -> np.ndarray:
    limits = np.array([np.full(count, -np.inf), np.full(count, np.inf)])
    for law in one.start.laws:
        limits[:, law.position] = law.lower, law.upper
    return limits


def test_one_environment_has_what_table_1_asks_for(tmp_path):
    """Several kinds of bodies, described by data alone, that follow, fall, collide, and are felt by the hand."""
    scene = {
        "files": {
            "arm": {"path": ARM, "q": [0, -1.2, 2.0, 0, -0.8, 0]},
            "figure": {"path": FIGURE, "position": [3, 0, 0]},
        },
        "bodies": {
            "floor": {"joint": "fixed", "shapes": [{"type": "plane"}]},
            "cube": {
                "joint": "free",
                "position": [-1.0, 0, 0.06],
                "mass": 0.5,
                "shapes": [{"type": "box", "size": [0.1, 0.1, 0.1]}],
            },
            "flyer": {
                "joint": "free",
                "position": [0, 2, 1],
                "mass": 2.0,
                "shapes": [{"type": "box", "size": [0.2, 0.1, 0.1]}],
            },
            "tip": tip([-1.0, 0, 0.145]),
        },
        "tool": "tip",
        "ignore": [["arm", "arm"], ["figure", "figure"]],
        "motions": {
            "reach": line(0.1, -1.1, 1.9, 0, -0.8, 0.2, of="arm", duration=0.2),
            "fly": line(0.1, 2.0, 1.1, 0, 0, 0.0998334166, 0.9950041653, of="flyer", duration=0.2),
            "nod": {
                "of": "figure",
                "joints": ["left_elbow", "right_elbow"],
                "trajectory": {"type": "joint_line", "to": [-0.5, -0.5], "duration": 0.2},
            },
        },
    }
    one = World(scene, contact={"stiffness": 2000, "damping": 20}, environment={"method": "penalty"})
    felt = 0.0
    for _ in range(250):
        one.step([0, 0, -3.0, 0, 0, 0])
        felt = max(felt, one.wrench[2])
    assert felt > 3.0  # the cube, which the floor carries
    assert one.bodies["cube"].position[2] == pytest.approx(0.05, abs=5e-3)
    x = one.coordinates
    assert [x["arm/waist"], x["arm/elbow"], x["figure/left_elbow"]] == pytest.approx([0.1, 1.9, -0.5], abs=1e-3)
    assert one.bodies["flyer"].position == pytest.approx([0.1, 2.0, 1.1], abs=1e-4)


def test_joint_without_limits_follows_beyond_a_turn(tmp_path):
    (tmp_path / "wheel.urdf").write_text(
        '<robot name="r"><link name="a"/><link name="b"><inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" '
        'iyy="1" iyz="0" izz="1"/></inertial></link><joint name="axle" type="continuous"><parent link="a"/>'
        '<child link="b"/><axis xyz="0 0 1"/></joint></robot>'
    )
    file = {"path": str(tmp_path / "wheel.urdf")}
    one = world({}, line(8.0, of="wheel", duration=0.5), files={"wheel": file})
    assert one.start.motions[0].places.names == ("wheel/axle",)
    for _ in range(600):
        one.step()
    angle = one.start.motions[0].places.of(one._core.state.q)[0]
    assert angle == pytest.approx(8.0 - 2.0 * np.pi, abs=1e-5)
    assert one._core.state.v[0] == pytest.approx(0.0, abs=1e-3)


# Dynamics


def recursion(bodies: list[dict[str, Any]], base: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """IGMS' Newton-Euler recursion of a tree on a moving base, as corrected in the errata (IGMS 1 to 3).

    Each of `bodies` hangs on a hinge: parent (-1: the base), rotation R of it in the parent, position P, axis z, rate,
    acceleration, and mass, lever and inertia; of `base` R_WB, angular velocity and acceleration and linear acceleration
    less gravity of its centre of mass, in its axes, mass and inertia. Returns the hinges' torques, and the base's force
    and moment in its axes.
    """
    moved = []
    for one in bodies:
        up = base if one["parent"] < 0 else moved[one["parent"]]
        R, z = one["R"].T, one["axis"]
        w = R @ up["w"] + one["rate"] * z
        dw = R @ up["dw"] + np.cross(R @ up["w"], one["rate"] * z) + one["bend"] * z
        a = R @ (np.cross(up["dw"], one["P"]) + np.cross(up["w"], np.cross(up["w"], one["P"])) + up["a"])
        a_c = np.cross(dw, one["lever"]) + np.cross(w, np.cross(w, one["lever"])) + a
        F, N = one["mass"] * a_c, one["inertia"] @ dw + np.cross(w, one["inertia"] @ w)
        moved.append({"w": w, "dw": dw, "a": a, "f": F, "n": N + np.cross(one["lever"], F)})
    torques = np.zeros(len(bodies))
    base["f"] = base["mass"] * base["a"]
    base["n"] = base["inertia"] @ base["dw"] + np.cross(base["w"], base["inertia"] @ base["w"])
    for i in reversed(range(len(bodies))):
        one, own = bodies[i], moved[i]
        up = base if one["parent"] < 0 else moved[one["parent"]]
        torques[i] = own["n"] @ one["axis"]
        f = one["R"] @ own["f"]
        up["f"] = up["f"] + f
        up["n"] = up["n"] + one["R"] @ own["n"] + np.cross(one["P"], f)
    return torques, base["f"], base["n"]


def test_inverse_dynamics_of_34_degrees_of_freedom_is_the_corrected_recursion():
    # without feedback the drives give the acceleration of the trajectory: what they do is inverse dynamics
    rng = np.random.default_rng(5)
    gains = {"type": "computed_torque", "stiffness": 0.0, "damping": 0.0}
    file = {"path": FIGURE, "base": "free", "limits": "none"}
    q = np.concatenate(
        [[0.1, 0.2, 1.1], pin.Quaternion(pin.rpy.rpyToMatrix(0.4, -0.3, 0.8)).coeffs(), rng.normal(0, 0.4, 28)]
    )
    to = np.concatenate(
        [q[:3] + 0.2, pin.Quaternion(pin.rpy.rpyToMatrix(0.1, 0.2, 0.3)).coeffs(), rng.normal(0, 0.4, 28)]
    )
    v = rng.normal(0, 0.5, 34)
    motion = line(*to, of="figure", duration=1.0, tracking=gains)
    one = world({}, motion, files={"figure": file | {"q": q.tolist(), "v": v.tolist()}}, gravity=[0, 0, -9.81],
                ignore=[["figure", "figure"]])  # fmt: skip
    tool = one._core._tool
    drives = tool.drives
    assert drives is not None and tool.body.nv == 40
    model, nv = one.start.model, 34
    q, v = tool.body.q.copy(), tool.body.v.copy()
    drives.begin(300, np.zeros(6))
    wanted = drives.motions[0].acceleration[:nv].copy()  # what it was asked for, among it the trajectory's turn
    force = drives.force[:nv].copy()
    bodies, first = [], {}
    document = ElementTree.parse(FIGURE).getroot().find("worldbody/body")
    assert document is not None
    R_WB, centre = pin.Quaternion(q[3:7]).toRotationMatrix(), model.inertias[1].lever
    pelvis = np.array(
        one.start.model.frames[model.getFrameId("figure/pelvis", pin.FrameType.BODY)].placement.translation
    )

    def descend(element: ElementTree.Element, parent: int, offset: np.ndarray) -> None:
        for body in element.findall("body"):
            P, up = offset + np.array([float(x) for x in body.get("pos", "").split()]), parent
            hinges = body.findall("joint")
            for k, hinge in enumerate(hinges):
                axis = np.array([float(x) for x in hinge.get("axis", "").split()])
                j = column(str(hinge.get("name")))
                last = k == len(hinges) - 1
                inertia = model.inertias[joint_of[j]] if last else pin.Inertia.Zero()
                bodies.append({
                    "parent": up, "R": pin.exp3(axis * q[j + 1]), "P": P, "axis": axis, "rate": v[j], "bend": wanted[j],
                    "mass": inertia.mass, "lever": np.array(inertia.lever), "inertia": np.array(inertia.inertia),
                })  # fmt: skip
                first[len(bodies) - 1] = j
                up, P = len(bodies) - 1, np.zeros(3)
            descend(body, up, np.zeros(3))

    joint_of = {}
    for i in range(1, model.njoints):
        for k in range(model.nvs[i]):
            joint_of[model.idx_vs[i] + k] = i

    def column(name: str) -> int:
        """Place of a hinge in v."""
        return int(model.idx_vs[model.getJointId(f"figure/{name}")])

    descend(document, -1, pelvis)
    assert len(bodies) == 28
    link = model.inertias[1]
    base = {
        "w": v[3:6], "dw": wanted[3:6], "a": R_WB.T @ (wanted[:3] - np.array([0, 0, -9.81])),
        "mass": link.mass, "inertia": np.array(link.inertia),
    }  # fmt: skip
    torques, f, n = recursion(bodies, base)
    assert centre == pytest.approx(np.zeros(3), abs=1e-12)
    found = force[[first[i] for i in range(28)]]
    assert found == pytest.approx(torques, abs=1e-9 * np.abs(torques).max())
    assert force[:3] == pytest.approx(R_WB @ f, abs=1e-8)
    assert force[3:6] == pytest.approx(n, abs=1e-8)


def apart(one: World, steps: int, rate: float, wrench: np.ndarray, law: Any, gains: tuple[float, float]) -> Any:
    """The chain and its tool, integrated by Pinocchio's articulated-body algorithm under computed torque.

    `law` gives the force on the end of the chain from its position and velocity and those of the ball.
    """
    (motion,) = one.start.motions
    model, T = pin.Model(), 1.0 / rate
    parent = 0
    for i in range(1, 4):
        parent = model.addJoint(parent, one.start.model.joints[i], one.start.model.jointPlacements[i], f"j{i}")
        model.appendBodyToJoint(parent, one.start.model.inertias[i], pin.SE3.Identity())
    model.gravity = one.start.model.gravity
    end = model.addFrame(pin.Frame("end", parent, pin.SE3(np.eye(3), np.array([0.3, 0, 0])), pin.FrameType.OP_FRAME))
    data = model.createData()
    q, v, p, u = one.start.q[:3].copy(), np.zeros(3), one.start.q[3:6].copy(), np.zeros(3)
    forces = []
    for k in range(steps):
        t = k * T
        x, bend = motion.trajectory.evaluate(t)[0], motion.trajectory.evaluate(t, 2)[0]
        rates = motion.trajectory.evaluate(max(t - 0.5 * T, 0.0), 1)[0]
        a = bend + gains[0] * (x - q) + gains[1] * (rates - v)
        tau = pin.rnea(model, data, q, v, a)
        J = pin.computeFrameJacobian(model, data, q, end, pin.LOCAL_WORLD_ALIGNED)[:3]
        pin.updateFramePlacement(model, data, end)
        force = law(data.oMf[end].translation.copy(), J @ v, p, u)
        v = v + T * pin.aba(model, data, q, v, tau + J.T @ force)
        u = u + T * ((wrench[:3] - force) / 0.2 + np.array(model.gravity.linear))
        q, p = q + T * v, p + T * u
        forces.append(force)
    return q, v, p, u, np.array(forces)


def test_push_is_forward_dynamics_under_the_contact_force():
    K, B, rate = 2000.0, 8.0, 1000.0
    bodies = chain()
    end = np.array([0.3, 0, 0]) + 0.3 * np.array([np.cos(0.2) + np.cos(0.6), 0, -np.sin(0.2) - np.sin(0.6)])
    motion = line(0.4, 0.0, 0.2, duration=0.4, tracking={"type": "computed_torque", "stiffness": 100, "damping": 15})
    one = world(bodies, motion, rate=rate, tip=tip(end + [0, 0.07, 0]), contact={"stiffness": K, "damping": B})
    wrench = np.array([0.0, -2.0, 0.1, 0, 0, 0])

    def contact(at: np.ndarray, moves: np.ndarray, ball: np.ndarray, ball_moves: np.ndarray) -> np.ndarray:
        way = at - ball
        distance = np.linalg.norm(way)
        depth, n = 2 * RADIUS - distance, way / distance
        return max(0.0, K * depth - B * (moves - ball_moves) @ n) * n if depth > 0.0 else np.zeros(3)

    felt = []
    for _ in range(300):
        one.step(wrench)
        felt.append(-one.wrench[:3])
    q, v, p, u, forces = apart(one, 300, rate, wrench, contact, (100.0, 15.0))
    assert np.abs(forces).max() > 5.0
    assert one._core.state.q[:3] == pytest.approx(q, abs=1e-9)
    assert one._core.state.v[:3] == pytest.approx(v, abs=1e-8)
    assert one.pose[:3] == pytest.approx(p, abs=1e-9)
    assert one.twist[:3] == pytest.approx(u, abs=1e-8)
    assert np.array(felt) == pytest.approx(forces, abs=1e-6)


def pulled(rate: float) -> tuple[World, Any]:
    """A pull beside Pinocchio's dynamics with the law (4) as it is, explicit."""
    K, B = 400.0, 6.0
    end = np.array([0.3, 0, 0]) + 0.3 * np.array([np.cos(0.2) + np.cos(0.6), 0, -np.sin(0.2) - np.sin(0.6)])
    motion = line(0.4, 0.0, 0.2, duration=0.4, tracking={"type": "computed_torque", "stiffness": 25, "damping": 10})
    pulls = {"grip": {"body": "link2", "point": [0.3, 0, 0], "grabs": [[0.0, 9.0]], "stiffness": K, "damping": B}}
    one = world(chain(), motion, rate=rate, tip=tip(end + [0.01, 0.02, 0.03]), pulls=pulls, ignore=[["link2", "tip"]],
                gravity=[0, 0, -9.81])  # fmt: skip
    wrench = np.array([0.5, -1.0, 2.5, 0, 0, 0])
    steps = round(0.3 * rate)
    for _ in range(steps):
        one.step(wrench)
    # IGMS (4), with the sign of the damping corrected (errata)
    return one, apart(one, steps, rate, wrench, lambda x, v, p, u: K * (p - x) + B * (u - v), (25.0, 10.0))


def test_pull_is_forward_dynamics_under_the_spring_and_damper():
    # the spring is taken at the middle of a step, and the damper at its end: equal up to the first order in the period
    errors = []
    for rate in (2000.0, 8000.0):
        one, (q, v, p, _, forces) = pulled(rate)
        found = one._core.state
        errors.append(max(np.abs(found.q[:3] - q).max(), np.abs(one.pose[:3] - p).max()))
        assert -found.wrench[:3] == pytest.approx(forces[-1], abs=60.0 / rate)
        assert found.v[:3] == pytest.approx(v, abs=30.0 / rate)
    assert errors[0] < 5e-4
    assert errors[1] < 0.35 * errors[0]


@pytest.mark.parametrize(("stiffness", "damping"), [(1e5, 0.0), (1e5, 1e3), (10.0, 5e3)])
def test_pull_is_stable_however_stiff(stiffness, damping):
    pulls = {"grip": {"body": "link2", "grabs": [[0.0, 9.0]], "stiffness": stiffness, "damping": damping,
                      "turn_stiffness": 100.0, "turn_damping": 1.0}}  # fmt: skip
    one = world(chain(), line(0.0, 0.2, 0.4), tip=tip([1.0, 0.1, 0.0]), pulls=pulls, ignore=[["link2", "tip"]])
    for _ in range(500):
        one.step([1.0, 1.0, -1.0, 0, 0, 0.1])
    assert np.abs(one.twist).max() < 1.0


def test_balance_of_energy_counts_what_drives_and_pulls_do():
    one, _ = pulled(1000.0)
    energy = one.energy
    assert energy["injected"] > 0.1
    assert abs(energy["numerical"]) < 2e-3 * energy["injected"]


def test_a_motion_returns_after_a_touch_or_keeps_its_acceleration():
    ends = {}
    for after in ("return", "keep"):
        motion = line(0.0, 0.2, 0.4, duration=0.1, after_touch=after)
        pulls = {"grip": {"body": "link2", "grabs": [[0.1, 0.2]], "stiffness": 100, "damping": 1}}
        one = world(chain(), motion, tip=tip([0.9, 0.3, -0.2]), pulls=pulls)
        speeds = []
        for k in range(1500):
            one.step([0, 3.0, 0, 0, 0, 0] if k < 200 else None)
            speeds.append(one._core.state.v[0])
        ends[after] = one.coordinates["link0"], speeds
    place, _ = ends["return"]
    assert abs(place) < 1e-6
    place, speeds = ends["keep"]
    bends = 1000.0 * np.diff(speeds[200:])
    assert abs(place) > 0.05
    assert bends == pytest.approx(np.full(bends.size, bends[0]), abs=1e-6)  # that of the last step of the pull
    assert bends[0] == pytest.approx(1000.0 * (speeds[199] - speeds[198]), abs=1e-6)


def test_spring_and_damper_at_the_joints_lag_as_they_must():
    tracking = {"type": "pd", "stiffness": [50.0], "damping": [8.0], "gravity": True}
    one = world(chain(), line(0.3, 0.2, 0.4, duration=0.5, tracking=tracking), gravity=[0, 0, -9.81])
    for _ in range(4000):
        one.step([0, 0, 0.2 * 9.81, 0, 0, 0])
    assert [one.coordinates[f"link{i}"] for i in range(3)] == pytest.approx([0.3, 0.2, 0.4], abs=1e-3)
    tracking["gravity"] = False
    one = world(chain(), line(0.3, 0.2, 0.4, duration=0.5, tracking=tracking), gravity=[0, 0, -9.81])
    for _ in range(6000):
        one.step([0, 0, 0.2 * 9.81, 0, 0, 0])
    q = one._core.state.q.copy()
    weight = pin.computeGeneralizedGravity(one.start.model, one.start.model.createData(), q)[:3]
    assert 50.0 * (np.array([0.3, 0.2, 0.4]) - q[:3]) == pytest.approx(weight, abs=1e-2)


def test_computed_torque_takes_damping_and_friction_of_the_joints_and_springs_and_dampers_do_not():
    bodies = chain()
    for body in bodies.values():
        body |= {"friction": 5.0, "damping": 2.0}
    assert error_after(world(bodies, line(0.1, 0.3, 0.5, duration=0.2)), 250) < 1e-5
    weak = {"type": "pd", "stiffness": [20.0], "damping": [1.0]}
    held = world(bodies, line(0.1, 0.3, 0.5, duration=0.2, tracking=weak))
    for _ in range(500):
        held.step()
    assert held.coordinates["link0"] == pytest.approx(0.0, abs=1e-9)  # 20 N m/rad 0.1 rad are less than 5 N m


# Bad input


def test_drive_gives_no_more_than_its_effort() -> None:
    """A link that is to turn faster than its drive can: a = effort / (I + m r^2), and it arrives late, but does."""
    tracking = {"type": "pd", "stiffness": [200.0], "damping": [20.0], "gravity": False}
    motion = line(1.0, duration=0.01, tracking=tracking, effort=[0.5])
    one = world(chain(1), motion)
    for _ in range(100):
        one.step()
    inertia = 0.01 + 1.0 * 0.15**2
    (found,) = one._core._tool.drives.motions
    assert found.driven.force[0] == 0.5
    # the trajectory has begun in the second tick
    assert one._core.state.v[0] == pytest.approx(0.5 / inertia * 0.099, rel=0.02)
    for _ in range(2000):
        one.step()
    assert one.coordinates["link0"] == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("limits, effort, most", [("all", None, 6.0), ("position", None, 1e9), ("all", [2.5], 2.5)])
def test_drives_of_a_file_have_its_efforts_or_those_of_the_motion(tmp_path, limits, effort, most):
    """URDF: 6 N m of the first hinge; 0 of the second stands for none given."""
    hinge = '<joint name="{0}" type="revolute"><parent link="{1}"/><child link="{2}"/><axis xyz="0 1 0"/>' \
            '<limit lower="-3" upper="3" effort="{3}" velocity="9"/></joint>'  # fmt: skip
    link = '<link name="{0}"><inertial><origin xyz="0.5 0 0"/><mass value="2"/>' \
           '<inertia ixx="1e-2" iyy="1e-2" izz="1e-2" ixy="0" ixz="0" iyz="0"/></inertial></link>'  # fmt: skip
    parts = [*map(link.format, "bcd"), hinge.format("one", "b", "c", 6), hinge.format("two", "c", "d", 0)]
    (tmp_path / "m.urdf").write_text(f'<robot name="m">{"".join(parts)}</robot>')
    motion = line(0.0, 0.0, of="m", duration=0.5, **({} if effort is None else {"effort": effort}))
    files = {"m": {"path": str(tmp_path / "m.urdf"), "limits": limits}}
    one = world({}, motion, files=files, gravity=[0, 0, -9.81])
    forces = []
    for _ in range(300):
        one.step()
        forces.append(one._core._tool.drives.force[:2].copy())
    first, second = np.abs(forces).max(axis=0)
    held = 9.81 * (2 * 0.5 + 2 * 0.5)  # N m that holds both links
    assert first == pytest.approx(min(most, held), rel=1e-6 if most < held else 0.05)
    assert (second > 2.5) == (effort is None)
    assert (abs(one._core.state.q[0]) < 1e-3) == (most > held)


@pytest.mark.parametrize("limited, most", [("", 7.0), ('actuatorfrclimited="false"', np.inf)])
def test_drives_of_an_mjcf_file_have_its_ranges_where_they_count(tmp_path, limited, most):
    joint = f'<joint name="one" type="hinge" axis="0 1 0" actuatorfrcrange="-5 7" {limited}/>'
    body = f'<body name="a">{joint}<geom type="sphere" size=".1" pos=".3 0 0"/></body>'
    (tmp_path / "m.xml").write_text(f"<mujoco><worldbody>{body}</worldbody></mujoco>")
    files = {"m": {"path": str(tmp_path / "m.xml")}}
    one = world({}, line(0.0, of="m"), files=files)
    (motion,) = one.start.motions
    assert motion.effort[:, 0].tolist() == [-5.0 if most < np.inf else -np.inf, most]


def refused(motion: dict[str, Any], **more: Any) -> str:
    with pytest.raises(ParameterError) as error:
        world(chain(), motion, **more)
    (problem,) = error.value.problems
    return problem


def test_bad_input_is_one_sentence(tmp_path):
    limited = chain()
    limited["link1"]["range"] = [-0.5, 0.5]
    with pytest.raises(ParameterError) as error:
        world(limited, line(0.0, 0.9, 0.4))
    assert error.value.problems == [
        "scene.motions.way.trajectory: leaves the limits of joint link1: 0.9 at 0.5 s, must be from -0.5 to 0.5"
    ]
    late = [{"time_from_start": 0.5, "positions": [0.0] * 3}, {"time_from_start": 0.4, "positions": [0.0] * 3}]
    assert refused({"of": "link0", "trajectory": {"type": "spline", "points": late}}) == (
        "scene.motions.way.trajectory.points[1].time_from_start = 0.4 s: must be later than the point before, 0.5 s"
    )
    far = {"type": "cartesian_line", "body": "link2", "to": [3.0, 0, 0], "duration": 1.0, "rotation": "free"}
    found = refused({"of": "link0", "trajectory": far})
    assert found.startswith("scene.motions.way.trajectory: the straight line cannot be followed: after ")
    assert "the joints bring link2 no nearer than" in found
    assert refused(line(0.0, 0.0)) == (
        "scene.motions.way.trajectory.to: has 2 values: must have 3, of link0, link1, link2"
    )
    assert "of = nobody: unknown body (known: " in refused(line(0.0, of="nobody"))
    assert "is held by the hand" in refused(line(*[0.0] * 7, of="tip"))
    assert "stiffness and damping are too large for the rate of 1000 Hz" in refused(
        line(0, 0, 0, tracking={"type": "computed_torque", "stiffness": 1.0, "damping": 3000.0})
    )
    assert "sampled feedback is unstable" in refused(
        line(0, 0, 0, tracking={"type": "pd", "stiffness": [1.0], "damping": [100.0]})
    )
    assert refused(line(0, 0, 0, effort=[1.0, 2.0])) == (
        "scene.motions.way.effort: has 2 values: must have 1, or 3, one for each velocity"
    )
    missing = {"type": "file", "path": str(tmp_path / "none.yaml")}
    assert refused({"of": "link0", "trajectory": missing}).startswith("scene.motions.way.trajectory.path = ")
    (tmp_path / "x.yaml").write_text("joint_names: [a, b, c]\npoints: [{positions: [0, 0, 0], time_from_start: 1}]\n")
    other = {"type": "file", "path": str(tmp_path / "x.yaml")}
    assert "its joint_names are a, b, c: must be link0, link1, link2" in refused({"of": "link0", "trajectory": other})
    fixed = {"grip": {"body": "tip", "grabs": [[0.0, 1.0]], "stiffness": 1.0}}
    assert (
        refused(line(0, 0, 0), pulls=fixed)
        == "scene.pulls.grip.body = tip: is connected with the tool; must be another body"
    )


def test_model_without_inertia_is_refused(tmp_path):
    (tmp_path / "m.urdf").write_text(
        '<robot name="r"><link name="a"/><link name="b"/><joint name="j" type="continuous"><parent link="a"/>'
        '<child link="b"/><axis xyz="0 0 1"/></joint></robot>'
    )
    with pytest.raises(ParameterError, match=r"link b: mass = 0 kg: must be > 0, the link moves"):
        world({}, line(0.0, of="r"), files={"r": {"path": str(tmp_path / "m.urdf")}})
