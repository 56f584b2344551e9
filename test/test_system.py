"""A system that runs until it is stopped: nodes go and come back, standard topics, input that is wrong."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pinocchio as pin
import pytest
import yaml
from conftest import ROOT, Haptics, answer, processes_of, wait_until

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")
pytest.register_assert_rewrite("graph_checks")

import graph_checks as graph  # noqa: E402
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped  # noqa: E402
from haptics import msg  # noqa: E402
from lifecycle_msgs.msg import Transition  # noqa: E402
from lifecycle_msgs.srv import ChangeState  # noqa: E402
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402
from std_msgs.msg import String  # noqa: E402
from visualization_msgs.msg import MarkerArray  # noqa: E402

from haptic_bench import experiment  # noqa: E402
from haptic_bench.experiment import system  # noqa: E402
from haptic_bench.running.runner import comings_and_goings  # noqa: E402
from haptic_bench.running.views import write_views  # noqa: E402
from haptic_ros import standard_topics  # noqa: E402
from haptic_ros.middleware import fast_dds  # noqa: E402
from haptic_sim.messages import DeviceState, WorldState, columns  # noqa: E402
from haptic_sim.nodes.tool import world_topics  # noqa: E402
from haptic_sim.parameters import ParameterError  # noqa: E402
from haptic_sim.worlds.description import describe  # noqa: E402

# A hand that always moves, between the walls and against them, and surroundings that change.
NODES = ("controller", "local_model", "environment", "driver")
TRIES = 5  # of what is seen in one message, which a busy machine may lose: the topics of the servo are best effort
ANSWERING = ("controller", "local_model")  # without which there is no command
MOVING = ("operator.type=sine", "operator.amplitude=[0.3,0.3,0,0,0,0]", "operator.frequency=1")
# The watchdog is for a machine that stalls: the driver's own is tested elsewhere.
ASYNCHRONOUS = (*MOVING, "device.watchdog=0.1", "device.impulse_rendering=saturated", *graph.ASYNCHRONOUS)


def settings(*pairs: str) -> list[str]:
    return [part for pair in pairs for part in ("--set", pair)]


class States:
    """What a driver publishes, in the order of arrival; bytes, as the test's thread has no time for more."""

    def __init__(self, node: Any, topic: str):
        self.data: list[bytes] = []
        qos = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)
        self._subscription = node.create_subscription(msg.DeviceState, topic, self.data.append, qos, raw=True)

    def __len__(self) -> int:
        return len(self.data)

    def since(self, first: int) -> np.ndarray:
        """Those from a number on, as `columns` gives them."""
        return columns(DeviceState(), self.data[first:])

    def last(self) -> Any:
        return self.since(len(self.data) - 1)[0]

    def wait_for_motion(self, first: int, followed: bool = True) -> None:
        """Until commands are followed, and the hand moves by 3 mm; `followed`: while they are."""

        def moves() -> bool:
            states = self.since(first)
            follows = states["command_tick"] >= 0
            path = states["pose"][follows if followed else slice(None), :2]
            return np.count_nonzero(follows) > 100 and bool(np.ptp(path, axis=0).max() > 3e-3)

        wait_until(moves, "motion")


@contextlib.contextmanager
def running(haptics: Callable[..., Haptics], out: Path, *arguments: str) -> Iterator[tuple[Haptics, Any, States]]:
    """A system of corner_peg that moves, a node that looks on, and the states of its device."""
    run = haptics("start", "corner_peg", *arguments, "--out", str(out), "--namespace", "lab")
    with graph.observer() as node:
        states = States(node, "/lab/device_state")
        wait_until(lambda: len(states), "the first tick")
        try:
            states.wait_for_motion(0, followed=False)  # on a busy machine a hand is in its corner before commands come
            yield run, node, states
        finally:
            run.interrupt()
            status = run.wait()
    assert status == 0, run.err
    assert not processes_of(str(out))


def process_of(out: Path, node: str) -> int | None:
    """The process of a node; None if there is none."""
    found = set(processes_of(str(out))) & set(processes_of(f"__node:={node} "))
    return found.pop() if found else None


def check_passive(states: np.ndarray, ticks: int) -> None:
    """The device had zero force for so many ticks at least, and never a force without a command; then a small one."""
    without = states["command_tick"] < 0
    assert np.count_nonzero(without) >= ticks
    assert not states["rendered_wrench"][without].any()
    if not without.any():
        return
    since = states["tick"] - states["tick"][np.flatnonzero(without)[-1]]
    begin = np.abs(states["rendered_wrench"][(since > 0) & (since <= 10), :2])
    assert begin.max(initial=0.0) <= 10 / 256 * 15.0 + 1e-9  # of a soft start of 256 ticks, from a device of 15 N


def check_device_topics(node: Any) -> None:
    """CRTK's topics arrive, of the device and best effort, which is what servo topics are."""
    qos = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    for name, kind in (("cp", PoseStamped), ("cv", TwistStamped), ("cf", WrenchStamped)):
        message = one_message(node, kind, f"/lab/measured_{name}", qos)
        assert message.header.frame_id == "lab/device_base" and message.header.stamp.sec > 0
        (info,) = node.get_publishers_info_by_topic(f"/lab/measured_{name}")
        assert (info.node_name, info.qos_profile.reliability) == ("driver", ReliabilityPolicy.BEST_EFFORT)


def check_world_topics(node: Any) -> None:
    """Those of the world are of the local model, and reliable; the description comes to whoever asks late."""
    assert one_message(node, JointState, "/lab/joint_states", QoSProfile(depth=10)).header.stamp.sec > 0
    markers = one_message(node, MarkerArray, "/lab/markers", QoSProfile(depth=10)).markers
    assert {(marker.ns, marker.header.frame_id) for marker in markers} == {
        ("contacts", "world"),
        ("normals", "world"),
        ("forces", "world"),
    }
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    text = one_message(node, String, "/lab/robot_description", latched).data
    assert {link.get("name") for link in ElementTree.fromstring(text).iter("link")} >= {"world", "tool", "right_wall"}


def one_message(node: Any, kind: type, topic: str, qos: QoSProfile) -> Any:
    """The first message of a topic that arrives from now on."""
    got: list[Any] = []
    node.create_subscription(kind, topic, got.append, qos)  # until the end of the node: its executor may wait on it
    wait_until(lambda: got, topic)
    return got[0]


@pytest.mark.parametrize(
    ("variables", "profile", "reach"),
    [
        ({"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}, "fastdds_loopback.xml", "SUBNET"),
        ({"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", "ROS_STATIC_PEERS": "10.0.0.2"}, "fastdds.xml", None),
        ({"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}, "fastdds.xml", None),
        (
            {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", "RMW_IMPLEMENTATION": "rmw_cyclonedds_cpp"},
            "fastdds.xml",
            None,
        ),
        ({}, "fastdds.xml", None),
        ({"FASTRTPS_DEFAULT_PROFILES_FILE": "own.xml"}, None, None),
    ],
)
def test_the_middleware_reaches_no_farther_than_the_user_says(
    variables: dict[str, str], profile: str | None, reach: str | None
) -> None:
    found = comings_and_goings(variables)
    assert found.get("ROS_AUTOMATIC_DISCOVERY_RANGE") == reach
    path = found.get("FASTRTPS_DEFAULT_PROFILES_FILE")
    assert (Path(path).name if path else None) == profile
    if reach is not None:  # then the profile keeps them on this machine
        addresses = [one.text for one in ElementTree.parse(str(path)).iter() if one.tag.endswith("}address")]
        assert addresses == ["127.0.0.1", "127.0.0.1"]


def change(node: Any, name: str, transition: int) -> None:
    """Of the lifecycle of a node."""
    request = ChangeState.Request(transition=Transition(id=transition))
    assert graph.ask(node, ChangeState, f"/lab/{name}/change_state", request).success


@pytest.mark.exhaustive
def test_nodes_go_and_come_back(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    """Deactivated and activated, then killed; meanwhile standard topics are there."""
    out = tmp_path / "out"
    with running(haptics, out, *settings(*ASYNCHRONOUS)) as (run, node, states):
        for name in NODES:  # what a killed one shares with others it may leave locked
            assert not fast_dds.segments(str(process_of(out, name)))
        check_device_topics(node)
        check_world_topics(node)
        for name in NODES:
            for _ in range(TRIES):
                first, tick = len(states), states.last()["tick"]
                change(node, name, Transition.TRANSITION_DEACTIVATE)
                if name in ANSWERING:
                    wait_until(lambda at=first: (states.since(at)["command_tick"] < 0).sum() > 100, "zero force")
                change(node, name, Transition.TRANSITION_ACTIVATE)
                if name != "driver":
                    break
                states.wait_for_motion(len(states))
                if (states.since(first)["command_tick"] < 0).any():
                    break
            check_return(states, name, first, tick, {"environment": None, "driver": 1}.get(name, 100))
        for name in NODES:
            first, tick, process = len(states), states.last()["tick"], process_of(out, name)
            graph.kill(out, name)
            wait_until(lambda old=process, it=name: process_of(out, it) not in (None, old), "its successor")
            if name in ANSWERING:
                wait_until(lambda at=first: (states.since(at)["command_tick"] < 0).any(), "zero force")
            elif name == "driver":
                wait_until(lambda at=tick: states.last()["tick"] > at, "the ticks to go on")
            # what a new driver publishes first comes before anybody can have found it
            check_return(states, name, first, tick, {"environment": None, "driver": 0}.get(name, 100))
    assert run.err.count("is started again") == len(NODES)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "operator",
    [
        pytest.param((), id="constant"),  # it presses the peg into the corner
        pytest.param(MOVING, id="moving"),
    ],
)
def test_after_a_new_environment_the_force_is_within_the_limit_where_impulses_are_rendered_in_full(
    haptics: Callable[..., Haptics], tmp_path: Path, operator: tuple[str, ...]
) -> None:
    """It begins with its tool at the start, and the hand is in the corner; the limit holds beyond the soft start."""
    out = tmp_path / "out"
    (trial,) = experiment.load("corner_peg", operator)
    assert trial.experiment.device.impulse_rendering == "full"
    rate, limit = trial.experiment.rate, 15.0  # [N]
    with running(haptics, out, *settings("device.watchdog=0.1", *operator)) as (_, _, states):
        for _ in range(2):  # the third end within seconds would end the system
            first, process = len(states), process_of(out, "environment")
            graph.kill(out, "environment")
            wait_until(lambda old=process: process_of(out, "environment") not in (None, old), "its successor")
            # a busy machine may lose commands again, after which the force begins softly once more; and a hand that
            # moves may be between the walls
            wait_until(lambda at=first: is_felt(states.since(at), 0.5 * rate), "a soft start to its end, and a force")
            found = states.since(first)
            again = since_gap(found)
            ramp = (again > 0) & (again <= 0.5 * rate)
            rendered = np.abs(found["rendered_wrench"][:, :2])
            # what is rendered in a state was so since the state before, by the twist of which the guard may brake
            drives = found["rendered_wrench"][1:, :2] * found["twist"][:-1, :2] > 0.0
            part = np.minimum(again / (0.5 * rate), 1.0)[1:, None]
            assert (rendered[1:] <= part * limit + 1e-9)[ramp[1:, None] & drives].all()
            assert rendered[ramp].max() <= limit + 1e-9


def is_felt(states: np.ndarray, ticks: float) -> bool:
    """Whether there was a force after ticks without a command, and more than so many ticks with one."""
    again = since_gap(states)
    return again.max() > ticks and bool(np.abs(states["rendered_wrench"][again > 0, :2]).max() > 0.1)


def since_gap(states: np.ndarray) -> np.ndarray:
    """Ticks since the last state without a command, of each state; 0 before the first such state."""
    ticks = states["tick"]
    last = np.maximum.accumulate(np.where(states["command_tick"] < 0, ticks, -1))
    return np.where(last < 0, 0, ticks - last)


def check_return(states: States, name: str, first: int, tick: int, passive: int | None) -> None:
    """What a node's absence did from state number `first` and `tick` on: so many ticks without force; None: none."""
    if name in ANSWERING:
        wait_until(lambda: states.last()["command_tick"] >= 0, "commands")
    states.wait_for_motion(len(states))
    found = states.since(first)
    assert np.isfinite(found["rendered_wrench"]).all()
    if passive is None:  # the local model goes on alone, but for ticks that a busy machine loses
        assert np.count_nonzero(found["command_tick"] < 0) < 0.5 * len(found)
    else:
        check_passive(found, passive)
    assert found["tick"][-1] > tick


def test_ctrl_c_in_the_first_second_leaves_nothing(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    """Ctrl-C in the first second leaves no process, at whatever moment it comes."""
    for delay in (0.0, 0.3, 0.7):
        out = tmp_path / f"out{delay}"
        run = haptics("start", "corner_peg", "--out", str(out))
        wait_until(out.exists, "its directory")
        time.sleep(delay)
        run.interrupt()
        assert run.wait() in (0, 130), run.err
        assert not processes_of(str(out))
        assert "Traceback" not in run.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["corner"],
            "world corner: must be an experiment, or a file .urdf, .xml, .xacro, .sdf, .world or .yaml; "
            "did you mean corner_peg?",
        ),
        (["nothing.urdf"], "world nothing.urdf: there is no such file"),
        (["nothing.yaml"], "experiment nothing.yaml: cannot be read: No such file or directory"),
        (["corner_peg", "--device", "hand"], "device hand: must be a simulated device (inertial, admittance, "),
        (["corner_peg", "--device", "hand.yaml"], "hand.yaml: cannot be read: No such file or directory"),
        (["corner_peg", "--set", "contact.stiffness=[1,2]"], "--set: a list of values sweeps"),
        (["linkage_impact"], "world linkage_impact: has no ticks"),
        ([], "start: 0 worlds are given"),
        (["corner_peg", "--world", "door"], "start: 2 worlds are given"),
        (["mujoco_peg.xml"], "world mujoco_peg.xml: there is no such file"),
        (
            [str(ROOT / "config/worlds/mujoco_peg.xml"), "--set", "scene.tool=pag"],
            "scene.tool = pag: unknown body; did you mean peg? (known: world, block, peg)",
        ),
    ],
)
def test_wrong_input_is_one_line(arguments: list[str], said: str) -> None:
    done = answer("start", *arguments)
    assert done.status == 2
    assert done.err.startswith(f"haptics: {said}") and done.err.count("\n") == 1


@pytest.mark.parametrize("file", ["arm.urdf", "arm.xml"])
def test_a_world_file_is_held_at_its_last_link_that_moves_and_its_weight_is_balanced(tmp_path: Path, file: str) -> None:
    (tmp_path / "arm.xml").write_text(
        """<mujoco><worldbody><body name="upper"><joint axis="0 1 0"/><geom size=".1" pos=".3 0 0"/>
        <body name="lower" pos=".6 0 0"><joint axis="0 1 0"/><geom size=".1" pos=".3 0 0"/></body></body>
        <body name="table" pos="9 9 9"><geom size="1"/></body></worldbody></mujoco>"""
    )
    world = tmp_path / file if file.endswith("xml") else ROOT / "examples" / file
    scene = system.load_system(str(world)).experiment.scene
    assert scene.tool.removeprefix("model/") == "lower"
    assert scene.gravity_compensation
    chosen = system.load_system(str(world), settings=[f"scene.tool={scene.tool.replace('lower', 'upper')}"])
    assert chosen.experiment.scene.tool.removeprefix("model/") == "upper"


def test_which_link_is_held_is_said_unless_it_was_chosen() -> None:
    refused = ("--side", "haptics", "--record")  # after what is said at the start
    said = "haptics: the device holds model/lower; --set scene.tool=BODY holds another\n"
    arm = str(ROOT / "examples" / "arm.urdf")
    assert said in answer("start", arm, *refused).err
    assert "the device holds" not in answer("start", arm, *refused, "--set", "scene.tool=model/upper").err


def test_a_world_file_gets_a_coupling_that_is_stable_with_its_tool() -> None:
    world = str(ROOT / "config/worlds/mujoco_clutter.xml")
    stiffness = [
        system.load_system(world, settings=["scene.tool=rod", f"device.mass={mass}"]).experiment.controller.stiffness[0]
        for mass in (0.5, 0.002)
    ]
    assert stiffness[0] > stiffness[1] > 0.0


def test_a_device_replaces_that_of_the_world(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("device: {type: inertial, mass: 0.7, inertia: 0.001}\n")
    assert system.load_system("corner_peg", str(file)).experiment.device.mass == 0.7
    file.write_text("type: inertial\nmass: 0.8\ninertia: 0.001\n")  # as `haptics identify` takes it
    assert system.load_system("corner_peg", str(file)).experiment.device.mass == 0.8
    admittance = system.load_system("corner_peg", "admittance").experiment
    assert (admittance.device.type, admittance.controller.type) == ("admittance", "admittance")
    for world, controller in (("corner_peg", "four_channel"), ("coupling_wall", "virtual_coupling")):
        replaced = system.load_system(world, "haply_2diy").experiment
        assert (replaced.device.type, replaced.controller.type, replaced.analysis) == ("hardware", controller, "trial")
    file.write_text("scene: {type: empty}\n")
    with pytest.raises(ParameterError, match="scene: must have the sections device, controller, operator"):
        system.load_system("corner_peg", str(file))


@pytest.mark.parametrize("name", ["arm_singularity", "door", "laparoscopic", "linkage_controlled", "two_hands"])
def test_the_description_has_the_kinematics_of_the_world(name: str) -> None:
    """Pinocchio's reader of URDF puts every body where it is, also with the joints turned."""
    world = experiment.load(name)[0].world
    described = describe(world, name)
    model = pin.buildModelFromXML(described.text)
    turned, rng = np.zeros(model.nv), np.random.default_rng(2026)
    own = world.q.copy()
    for joint in described.joints:
        value = rng.normal()
        turned[model.idx_vs[model.getJointId(joint)]] = value
        own[world.model.idx_qs[world.model.getJointId(joint)]] = value
    data, expected = model.createData(), world.model.createData()
    pin.framesForwardKinematics(model, data, pin.integrate(model, pin.neutral(model), turned))
    pin.framesForwardKinematics(world.model, expected, own)
    on_joints = [frame for frame in world.model.frames if frame.type == pin.FrameType.BODY and frame.name != "world"]
    for frame in on_joints:
        if "floating" in described.text and frame.parentJoint and not described.joints:
            continue  # its place comes from /tf
        found = data.oMf[model.getFrameId(frame.name, pin.FrameType.BODY)]
        placed = expected.oMf[world.model.getFrameId(frame.name, pin.FrameType.BODY)]
        assert found.isApprox(placed, 1e-9), frame.name


def test_configurations_of_viewers_name_topics_that_there_are(tmp_path: Path) -> None:
    for folder, namespace in ((ROOT / "config", "corner_peg"), (tmp_path, "lab/arm")):
        if folder == tmp_path:
            said = write_views(tmp_path, f"/{namespace}")
            assert all(str(tmp_path / name) in said for name in ("system.rviz", "foxglove.json"))
        rviz = yaml.safe_load((folder / "system.rviz").read_text())
        displays = rviz["Visualization Manager"]["Displays"]
        named = {one[key]["Value"] for one in displays for key in ("Topic", "Description Topic") if key in one}
        assert named == {f"/{namespace}/{name}" for name in ("robot_description", "markers", "measured_cp")}
        assert [one["TF Prefix"] for one in displays if "TF Prefix" in one] == [namespace]
        layout = json.loads((folder / "foxglove.json").read_text())["configById"]
        assert set(layout["3D!world"]["topics"]) == {f"/{namespace}/markers", f"/{namespace}/measured_cp"}
        assert layout["3D!world"]["layers"]["world"]["framePrefix"] == f"{namespace}/"


class Frames:
    """Stands for the message type of `/tf`, which the wheels lack."""

    def __init__(self, transforms: list[Any]):
        self.transforms = transforms


class Publishing:
    """What `WorldTopics` uses of a node, with a subscriber of each topic; keeps the frames of what is published."""

    root = "/lab"

    def __init__(self) -> None:
        self.last_sent: dict[str, bytes] = {}
        self.frames: dict[str, list[tuple[str, Any]]] = {"/tf": [], "/tf_static": []}

    def create_timer(self, period: float, callback: Callable[[], None], autostart: bool) -> Callable[[], None]:
        self.show = callback
        return callback

    def create_publisher(self, kind: type, name: str, qos: QoSProfile, event_callbacks: object) -> Any:
        def publish(message: Any) -> None:
            if kind is Frames:
                assert (qos.durability == DurabilityPolicy.TRANSIENT_LOCAL) is (name == "/tf_static")
                self.frames[name] += [(one.child_frame_id, one.transform) for one in message.transforms]

        return SimpleNamespace(publish=publish, get_subscription_count=lambda: 1)


@pytest.mark.parametrize("name", ["corner_peg", "door", "mujoco_clutter"])
def test_fixed_bodies_are_on_tf_static_once_and_the_others_on_tf(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fixed is what Pinocchio leaves where it is, however the joints are turned, and no surroundings move."""
    monkeypatch.setattr(standard_topics, "TFMessage", Frames)
    trial = experiment.load(name)[0]
    model, data = trial.world.model, trial.world.model.createData()
    rng = np.random.default_rng(2026)
    bodies = [i for i, frame in enumerate(model.frames) if frame.type == pin.FrameType.BODY]
    places = []
    for _ in range(2):
        pin.framesForwardKinematics(model, data, pin.integrate(model, trial.world.q, rng.normal(size=model.nv)))
        places.append({model.frames[i].name: pin.SE3(data.oMf[i]) for i in bodies})
    first, second = places
    fixed = {body for body in first if first[body].isApprox(second[body]) and body not in trial.world.elsewhere}
    node = Publishing()
    world_topics(node, trial.world, 60.0)
    state = WorldState(bodies=tuple(first), poses=len(first), twists=0, q_names=(), q=0, v_names=(), v=0, contacts=0)
    for tick in range(3):
        state.stamp(tick, tick)
        state.poses[:] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
        node.last_sent["world_state"] = state.to_bytes()
        node.show()
    static = dict(node.frames["/tf_static"])
    assert set(static) == {f"lab/{body}" for body in fixed} and len(static) == len(node.frames["/tf_static"])
    for body in fixed:
        found = static[f"lab/{body}"].translation
        assert np.allclose([found.x, found.y, found.z], first[body].translation, atol=1e-12)
    assert sorted(child for child, _ in node.frames["/tf"]) == sorted(3 * [f"lab/{one}" for one in set(first) - fixed])
    assert fixed < set(first) or trial.world.elsewhere


@pytest.mark.parametrize(("world", "device"), [("robot_wall", "keyboard"), ("corner_peg", "pointer")])
def test_who_has_no_device_starts_a_world_with_a_pointer(world: str, device: str) -> None:
    """The device and the controller of the world stay; its operator is who has the page."""
    found, own = system.load_system(world, device).experiment, system.load_system(world).experiment
    assert found.operator.type == "pointer" and found.device.type == own.device.type
    assert found.controller == own.controller and found.analysis == "trial"
