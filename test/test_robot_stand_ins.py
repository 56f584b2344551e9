"""Adapters against stand-ins that were written from the controllers' sources alone: frames, signs and refusals.

The base is turned in the world by a generic angle, so is the tool in the base and the sensor in the tool. A constant
force F leads the arm onto a wall across it. At rest the leading body is in equilibrium, so the wall's force on the tool
is -F in the axes of the world, whatever the stiffness of the arm: a wrong frame or sign has another equilibrium,
or none.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
import rclpy
from conftest import Python
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from scipy.spatial.transform import Rotation
from std_msgs.msg import String
from test_robot_engine import side
from test_robot_files import urdf

from haptic_robot.following import Following
from haptic_robot.models import ARMS, READY, serial_arm
from haptic_robot.nodes.link import RobotLink
from stand_ins.robots.program import COUNTED

pytestmark = [pytest.mark.graph, pytest.mark.exhaustive]

ANGLES, SENSOR_ANGLES, SENSOR_PLACE = [0.4, -0.6, 1.1], [0.2, 0.1, -0.9], [0.01, 0.02, -0.05]
R_WB = Rotation.from_euler("xyz", ANGLES)
START, TURNED = np.array([0.4, 0.1, 0.3]), [0.3, -0.5, 0.7]
ALONG = np.array([0.6, -0.48, 0.64])  # unit vector of the force, in the world
DEADLINE = 120.0  # [s] for anything that is waited for
AWAY, STIFFNESS, FORCE = 0.01, 400.0, 4.0  # [m] of the wall, [N/m], [N]
SENSOR = {"sensor_orientation": SENSOR_ANGLES, "sensor_position": SENSOR_PLACE}
HOME = READY["six_axes"]
OF_JOINTS = {
    "type": "joint_trajectory",
    "observer": {"file": {"path": "arm.urdf", "tool": "tool0", "home": HOME}},
} | SENSOR
SENSOR_ROTATION = Rotation.from_euler("xyz", SENSOR_ANGLES).as_rotvec().tolist()


def arm_at_start() -> str:
    """URDF of an arm of six axes whose frame tool0 is at START, turned as TURNED, in the posture HOME."""
    arm = serial_arm(ARMS["six_axes"])
    data = arm.model.createData()
    pin.forwardKinematics(arm.model, data, np.array(HOME))
    flange = pin.updateFramePlacement(arm.model, data, arm.tool)
    behind = flange.actInv(pin.SE3(Rotation.from_rotvec(TURNED).as_matrix(), START))
    place = " ".join(map(repr, behind.translation.tolist()))
    angles = " ".join(map(repr, Rotation.from_matrix(behind.rotation).as_euler("xyz").tolist()))
    origin = f'<origin xyz="{place}" rpy="{angles}"/>'
    tool = f'<joint name="tip" type="fixed">{origin}<parent link="tool"/><child link="tool0"/></joint>'
    return urdf(ARMS["six_axes"], behind=f'<link name="tool0"/>{tool}')


class Robot:
    """A stand-in as a process; arguments are its ROS parameters."""

    def __init__(self, module: str, cwd: Path, **parameters: Any):
        normal = -R_WB.inv().apply(ALONG)
        given = {
            "robot.position": START.tolist(),
            "robot.rotation": TURNED,
            "robot.wall": [*normal.tolist(), float(normal @ START) - AWAY],
            "robot.wall_stiffness": STIFFNESS,
        } | parameters
        if module != "crtk":
            given |= {"sensor.rotation": SENSOR_ROTATION, "sensor.position": SENSOR_PLACE}
        if module == "joint_trajectory":
            given |= {"robot.description": "arm.urdf", "robot.home": list(HOME)}
        name = f"{module}.yaml"  # a relative name: that of the log is the command line
        (cwd / name).write_text(json.dumps({"/**": {"ros__parameters": given}}), encoding="utf-8")
        arguments = ("--ros-args", "--params-file", name)
        self._program = Python("-m", f"stand_ins.robots.{module}", *arguments, cwd=cwd)

    def check(self) -> None:
        """It has not ended by itself."""
        if not self._program.process.is_alive():
            self._program.wait()
            pytest.fail(self._program.err)

    def end(self) -> dict[str, Any]:
        """What it counted, where its body is, and the force of the wall, in the base."""
        if self._program.process.is_alive():
            self._program.interrupt()
        assert self._program.wait() == 0, self._program.err
        return json.loads(self._program.out.splitlines()[-1])

    def kill(self) -> None:
        """End it, whatever it does."""
        if self._program.process.is_alive():
            self._program.process.kill()
            self._program.process.join()


class Graph:
    """A context of its own with an executor, nodes and stand-ins."""

    def __init__(self, cwd: Path):
        self._cwd, self._robots, self._nodes = cwd, list[Robot](), list[Node]()
        self._context = rclpy.Context()
        rclpy.init(context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)

    def robot(self, module: str, **parameters: Any) -> Robot:
        self._robots.append(Robot(module, self._cwd, **parameters))
        return self._robots[-1]

    def node(self, name: str) -> Node:
        self._nodes.append(node := Node(name, context=self._context))
        node.realtime = True
        self._executor.add_node(node)
        return node

    def until(self, condition: Callable[[], Any], what: str) -> None:
        end = time.monotonic() + DEADLINE
        while not condition():
            self._executor.spin_once(timeout_sec=0.001)
            for robot in self._robots:
                robot.check()
            assert time.monotonic() < end, what

    def close(self) -> None:
        for robot in self._robots:
            robot.kill()
        self._executor.shutdown()
        for node in self._nodes:
            node.destroy_node()
        rclpy.try_shutdown(context=self._context)


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Graph]:
    monkeypatch.chdir(tmp_path)  # the file of an arm is named relatively
    (tmp_path / "arm.urdf").write_text(arm_at_start(), encoding="utf-8")
    made = Graph(tmp_path)
    yield made
    made.close()


def counted_by(node: Node) -> Callable[[str], bool]:
    """Whether the only stand-in has counted something."""
    names: list[str] = []
    kept = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    node.create_subscription(String, COUNTED, lambda message: names.extend(json.loads(message.data)), kept)
    return names.__contains__


class Lead:
    """The engine with its link, ticked in this process; a machine that stalls makes it slow, and nothing else."""

    def __init__(self, graph: Graph, **engine: Any):
        following = {"feedback_watchdog": 1.0, "hand_watchdog": 1.0}
        given = {"type": "ros_robot", "orientation": ANGLES, "damping": [100.0, 0.1], "following": following} | engine
        self.side, self.state, self._command = side(**given)
        self.link, self._graph = RobotLink(graph.node("environment"), self.side), graph
        self.wrench = self._command.wrench
        self._next = time.monotonic()

    def tick(self) -> None:
        """One tick of a millisecond, or later."""
        now = time.monotonic()
        if now >= self._next:
            self._next = max(self._next + 1e-3, now - 0.01)
            self._command.stamp(self.state.tick + 1, 0)
            self.side.step(self._command, self.state)

    def until(self, condition: Callable[[], Any], what: str) -> None:
        """Tick until something is so."""

        def done() -> bool:
            self.tick()
            return bool(condition())

        self._graph.until(done, what)

    def ticks(self, count: int) -> None:
        """Tick so many times."""
        end = self.state.tick + count
        self.until(lambda: self.state.tick >= end, "ticks")

    def settle(self) -> None:
        """Tick until the leading body is at rest, in contact, for a while."""
        since = [self.state.tick]

        def rests() -> bool:
            moves = np.linalg.norm(self.state.twist[:3]) > 1e-4 or np.linalg.norm(self.state.twist[3:]) > 1e-3
            if moves or not self.state.contacts:
                since[0] = self.state.tick
            return self.state.tick > since[0] + 500

        self.until(rests, f"it does not come to rest: {self.state.pose}, felt {self.state.wrench}, {self.side.problem}")


PSM = {"namespace": "PSM1", "base_frame": "PSM1_base"}
FZI = {"solver.publish_state_feedback": True}
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], float]] = {
    # adapter and its stand-in, the stiffness of the arm [N/m]; inf: it follows exactly
    "fzi": ("fzi", {"type": "fzi"} | SENSOR, FZI, 500.0),
    "fzi in the base": (
        "fzi",
        {"type": "fzi", "hand_frame_control": False} | SENSOR,
        FZI | {"hand_frame_control": False},
        500.0,
    ),
    "crisp": ("crisp", {"type": "crisp", "base_frame": "base"} | SENSOR, {}, 500.0),
    "crisp in the tool": (
        "crisp",
        {"type": "crisp", "base_frame": "base", "use_local_jacobian": True} | SENSOR,
        {"use_local_jacobian": True},
        500.0,
    ),
    "moveit_servo by poses": ("moveit_servo", {"type": "moveit_servo"} | SENSOR, {"command_type": 2}, math.inf),
    "moveit_servo by twists": (
        "moveit_servo",
        {"type": "moveit_servo", "follows": "twist"} | SENSOR,
        {"command_type": 1, "command_in_type": "speed_units"},
        math.inf,
    ),
    "joint_trajectory": ("joint_trajectory", OF_JOINTS, {}, math.inf),
    "joint_trajectory from what was desired": (
        "joint_trajectory",
        OF_JOINTS,
        {"interpolate_from_desired_state": True},
        math.inf,
    ),
    "dVRK, body": ("crtk", {"type": "crtk", "wrenches": "body"} | PSM, {}, 4000.0),
    "dVRK, spatial": ("crtk", {"type": "crtk", "wrenches": "spatial"} | PSM, {}, 4000.0),
    "UR by CRTK": ("crtk", {"type": "crtk"} | PSM, {"plain_measured_cf": "environment"}, 4000.0),
}


@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.parametrize("case", CASES)
def test_an_arm_follows_and_is_felt_in_the_axes_of_the_world(graph: Graph, case: str, share: float) -> None:
    """With `share` of the hand's wrench beside the pose, the spring of the arm has the rest: (1 - share) F = K e."""
    module, adapter, parameters, stiffness = CASES[case]
    if share and module not in ("fzi", "crisp"):
        pytest.skip("it follows no wrench")
    robot = graph.robot(module, **parameters)
    # the efforts of motors have what turns the arm, too, as a spring of 80 N m/rad with the delay of the messages
    drag = 5.0 if module == "crtk" else 0.1
    lead = Lead(graph, adapter=adapter, wrench_scale=[share, share], damping=[100.0, drag])
    lead.until(lambda: lead.side.following is Following.FOLLOWING, f"it does not follow: {lead.side.problem}")
    lead.ticks(300)  # after the fade
    begun, turn_begun = lead.state.pose[:3].copy(), Rotation.from_quat(lead.state.pose[3:])
    lead.wrench[3:] = 0.3 * drag * np.array([0.48, 0.8, 0.36])  # free, a turn: 0.3 rad/s
    lead.ticks(500)
    lead.wrench[:] = 0.0
    lead.wrench[:3] = FORCE * ALONG
    lead.settle()
    felt = lead.state.wrench.copy()
    found = robot.end()
    assert found["finite"] and set(found["counts"]) <= {
        "target_frame",
        "target_wrench",
        "target_pose",
        "pose_target_cmds",
        "joint_trajectory",
        "delta_twist_cmds",
        "servo_cp",
        "mode position",
        "stale",
    }, found
    np.testing.assert_allclose(felt[:3], -FORCE * ALONG, atol=0.02 * FORCE)
    np.testing.assert_allclose(felt[3:], 0.0, atol=0.02)  # the wall pushes at the tool's origin
    np.testing.assert_allclose(R_WB.apply(found["force"]), -FORCE * ALONG, atol=0.03 * FORCE)
    moved, led = R_WB.apply(np.array(found["position"]) - START), lead.state.pose[:3] - begun
    np.testing.assert_allclose(moved, (AWAY + FORCE / STIFFNESS) * ALONG, atol=3e-4)
    np.testing.assert_allclose(led - moved, (1.0 - share) * FORCE / stiffness * ALONG, atol=4e-4)
    # the arm turned as the leading body did; CRISP's spring of positions acts at the base's origin, so that its moment
    # about the tool turns the tool against the spring of rotations, 30 N m/rad
    turned = Rotation.from_quat(lead.state.pose[3:]) * turn_begun.inv()
    wanted = R_WB.inv() * turned * R_WB * Rotation.from_rotvec(TURNED)
    tilt = np.zeros(3)
    if case == "crisp":
        tilt = np.cross(found["position"], (1.0 - share) * FORCE * R_WB.inv().apply(ALONG)) / 30.0
    difference = (wanted * Rotation.from_quat(found["quaternion"]).inv()).as_rotvec()
    assert turned.magnitude() > 0.05
    np.testing.assert_allclose(difference, tilt, atol=3e-3)


WRONG = {
    "fzi": ({"type": "fzi", "base_frame": "base"}, FZI, "current_pose: frame_id is 'base_link': must be 'base'"),
    "crisp": (
        {"type": "crisp", "base_frame": "base_link"},
        {},
        "current_pose: frame_id is 'base': must be 'base_link'",
    ),
    "moveit_servo": (
        {"type": "moveit_servo", "sensor_frame": "tool0"},
        {"command_type": 2},
        "wrench: frame_id is 'sensor_link': must be 'tool0'",
    ),
    "crtk": ({"type": "crtk", "wrenches": "body", "namespace": "PSM1"}, {}, "must be 'base_link'"),
    "joint_trajectory": (
        OF_JOINTS | {"sensor_frame": "tool0"},
        {},
        "wrench: frame_id is 'sensor_link': must be 'tool0'",
    ),
}


@pytest.mark.parametrize("module", WRONG)
def test_feedback_in_another_frame_is_named_and_nothing_is_commanded(graph: Graph, module: str) -> None:
    adapter, parameters, said = WRONG[module]
    robot = graph.robot(module, **parameters)
    lead = Lead(graph, adapter=adapter)
    lead.until(lambda: said in lead.side.problem, f"{said!r} is not said")
    lead.wrench[:3] = FORCE * ALONG
    lead.ticks(1500)  # past the second look at who is there
    assert lead.side.following is Following.WAITING and not lead.state.wrench.any()
    found = robot.end()
    assert not found["counts"]
    np.testing.assert_allclose(found["position"], START, atol=1e-12)


def test_a_dvrk_arm_that_is_not_homed_is_waited_for(graph: Graph) -> None:
    robot = graph.robot("crtk", homed=False)
    lead = Lead(graph, adapter={"type": "crtk", "wrenches": "body"} | PSM)
    lead.until(lambda: any("stamp is zero" in one for one in lead.link._topics.lacking()), "it is not said")
    lead.ticks(1500)
    assert lead.side.following is Following.WAITING and not lead.state.wrench.any()
    assert not robot.end()["counts"]


def test_crisp_ignores_two_masters_and_is_sent_nothing_then(graph: Graph) -> None:
    robot = graph.robot("crisp")
    lead, other = Lead(graph, adapter={"type": "crisp", "base_frame": "base"} | SENSOR), graph.node("other")
    publisher = other.create_publisher(PoseStamped, "/target_pose", 1)
    lead.until(lambda: lead.link._topics.contested() == ["target_pose"], "nobody sees the other master")

    def ignored() -> bool:
        publisher.publish(_pose("base", other))
        return lead.side.following is Following.WAITING and lead.state.tick > 3000

    lead.until(ignored, "it does not wait")
    found = robot.end()["counts"]
    assert found.pop("target_pose: several publishers") > 0
    assert "target_wrench" not in found


def _pose(frame: str, node: Node | None, **position: float) -> PoseStamped:
    """At START, turned as the arm is; without a node without a stamp."""
    message = PoseStamped()
    message.header.frame_id = frame
    if node is not None:
        message.header.stamp = node.get_clock().now().to_msg()
    p, q = message.pose.position, message.pose.orientation
    p.x, p.y, p.z = START.tolist()
    q.x, q.y, q.z, q.w = Rotation.from_rotvec(TURNED).as_quat().tolist()
    for name, value in position.items():
        setattr(p, name, value)
    return message


def _twist(frame: str, node: Node, speed: float) -> TwistStamped:
    message = TwistStamped()
    message.header.frame_id, message.header.stamp = frame, node.get_clock().now().to_msg()
    message.twist.linear.x = speed
    return message


def _wrench(frame: str, force: float) -> WrenchStamped:
    message = WrenchStamped()
    message.header.frame_id = frame
    message.wrench.force.x = force
    return message


Made = Callable[[Node], Any]
STRICT: dict[str, tuple[str, str, dict[str, Any], Made, str]] = {
    # what a stand-in has to refuse or ignore: its module, topic, parameters, message, and as what it counts that
    "FZI, frame": (
        "fzi",
        "/cartesian_compliance_controller/target_frame",
        {},
        lambda node: _pose("base", node),
        "target_frame: in 'base'",
    ),
    "FZI, NaN": (
        "fzi",
        "/cartesian_compliance_controller/target_frame",
        {},
        lambda node: _pose("base_link", node, z=math.nan),
        "target_frame: NaN",
    ),
    "FZI, NaN in a wrench": (
        "fzi",
        "/cartesian_compliance_controller/target_wrench",
        {},
        lambda _: _wrench("tool0", math.nan),
        "target_wrench: NaN",
    ),
    "FZI, inactive": (
        "fzi",
        "/cartesian_compliance_controller/target_frame",
        {"robot.active": False},
        lambda node: _pose("base_link", node),
        "target_frame: inactive",
    ),
    "MoveIt, no kind of command": (
        "moveit_servo",
        "/servo_node/pose_target_cmds",
        {},
        lambda node: _pose("base_link", node),
        "command type has not been set",
    ),
    "MoveIt, no stamp": (
        "moveit_servo",
        "/servo_node/pose_target_cmds",
        {"command_type": 2},
        lambda _: _pose("base_link", None),
        "stale",
    ),
    "MoveIt, frame": (
        "moveit_servo",
        "/servo_node/delta_twist_cmds",
        {"command_type": 1},
        lambda node: _twist("elsewhere", node, 0.1),
        "delta_twist_cmds: invalid, in 'elsewhere'",
    ),
    "dVRK, not ready": (
        "crtk",
        "/PSM1/servo_cp",
        {"enabled": False},
        lambda node: _pose("", node),
        "servo_cp: arm not ready",
    ),
    "dVRK, a jump": (
        "crtk",
        "/PSM1/servo_cp",
        {},
        lambda node: _pose("", node, x=0.6),
        "servo_cp: FAULT, too far from where it is",
    ),
    "admittance, frame": (
        "admittance",
        "/admittance_controller/wrench_reference",
        {},
        lambda _: _wrench("base_link", 1.0),
        "wrench_reference: in 'base_link'",
    ),
}


@pytest.mark.parametrize("case", STRICT)
def test_a_stand_in_refuses_what_its_source_refuses(graph: Graph, case: str) -> None:
    module, topic, parameters, make, counted = STRICT[case]
    robot, node = graph.robot(module, **parameters), graph.node("client")
    publisher = node.create_publisher(type(make(node)), topic, 1)
    graph.until(lambda: publisher.get_subscription_count() > 0, "nobody subscribes")
    has_counted = counted_by(node)

    def refused() -> bool:
        publisher.publish(make(node))
        return has_counted(counted)

    graph.until(refused, counted)
    found = robot.end()
    assert found["counts"].get(counted, 0) > 0, found
    np.testing.assert_allclose(found["position"], START, atol=1e-12)


def test_a_unitless_twist_is_scaled_and_one_in_the_tool_is_turned(graph: Graph) -> None:
    """A twist of 0.1 along x of the tool, with `scale.linear` 0.4: 40 mm/s, for no longer than the stamps are new."""
    robot, node = graph.robot("moveit_servo", command_type=1), graph.node("client")
    publisher = node.create_publisher(TwistStamped, "/servo_node/delta_twist_cmds", 1)
    graph.until(lambda: publisher.get_subscription_count() > 0, "nobody subscribes")
    has_counted, begun = counted_by(node), time.monotonic()

    def accepted() -> bool:
        publisher.publish(_twist("tool0", node, 0.1))
        return has_counted("delta_twist_cmds")

    graph.until(accepted, "no twist is accepted")
    graph.until(lambda: has_counted("stale"), "the last twist holds for ever")
    lasted = time.monotonic() - begun
    found = robot.end()
    moved = Rotation.from_rotvec(TURNED).inv().apply(np.array(found["position"]) - START)
    np.testing.assert_allclose(moved[1:], 0.0, atol=1e-12)
    assert 0.0 < moved[0] <= 0.04 * lasted and found["counts"]["stale"] > 0


def test_an_admittance_yields_to_its_reference_in_the_axes_of_the_sensor(graph: Graph) -> None:
    """At rest the sum of reference and measured force is that of the spring, 200 N/m."""
    robot, node = graph.robot("admittance"), graph.node("client")
    publisher = node.create_publisher(WrenchStamped, "/admittance_controller/wrench_reference", 1)
    poses: list[PoseStamped] = []
    node.create_subscription(PoseStamped, "/pose_broadcaster/pose", poses.append, 1)
    R = Rotation.from_rotvec(TURNED) * Rotation.from_euler("xyz", SENSOR_ANGLES)
    expected = START + R.apply([1.0, 0.0, 0.0]) / 200.0  # 5 mm: short of the wall

    def there() -> bool:
        publisher.publish(_wrench("ft_frame", 1.0))  # the first may come before the other side knows of this writer
        p = poses[-1].pose.position if poses else None
        return p is not None and bool(np.allclose([p.x, p.y, p.z], expected, atol=1e-5))

    graph.until(there, "it does not come to rest there")
    assert set(robot.end()["counts"]) == {"wrench_reference"}
