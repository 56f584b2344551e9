"""The bridge to clients of CRTK as a node, and in its graph with a simulated and a hardware device."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import Haptics, answer, wait_until

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")
pytest.register_assert_rewrite("graph_checks")

import crtk_as_text  # noqa: E402
import graph_checks as graph  # noqa: E402
from crtk_as_text import OperatingState, StringStamped  # noqa: E402
from fake_haply_2diy import board, force_of  # noqa: E402
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped  # noqa: E402
from haptics import msg  # noqa: E402
from rclpy.lifecycle import TransitionCallbackReturn  # noqa: E402
from rclpy.qos import QoSProfile, ReliabilityPolicy  # noqa: E402
from std_msgs.msg import String  # noqa: E402

from haptic_bench import experiment  # noqa: E402
from haptic_bench.experiment.system import load_system  # noqa: E402
from haptic_bench.running.graph import node_specs, write_parameters  # noqa: E402
from haptic_control.nodes import crtk  # noqa: E402
from haptic_drivers.devices.haply_2diy import Pantograph  # noqa: E402
from haptic_sim.messages import (  # noqa: E402
    DISABLED,
    ENABLED,
    FAULT,
    FORCE,
    NOTHING,
    PAUSED,
    DeviceCommand,
    DeviceState,
    Reason,
)
from haptic_sim.parameters import ParameterError  # noqa: E402
from stand_ins import Fault  # noqa: E402

FRAME = "arm/device_base"


class Bridge:
    """A configured bridge whose messages are handed over by the test; `now` is its monotonic time [s]."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, hardware: bool = False, device: str = ""):
        self.now, self.commands, self.reports = 100.0, [], []
        patch.setattr(crtk, "OperatingState", OperatingState)
        patch.setattr(crtk, "StringStamped", StringStamped)
        patch.setattr(crtk, "time", SimpleNamespace(monotonic=lambda: self.now))
        driver, bridge = node_specs(load_system("none", device), folder, mode="realtime", record=False, endless=True)
        assert (driver.executable, bridge.executable, bridge.name) == ("driver", "crtk", "controller")
        bridge.nodes["controller"]["hardware"] = hardware
        write_parameters([bridge], folder / "parameters.yaml")
        rclpy.init(args=["--ros-args", "-r", "__ns:=/arm", "--params-file", str(folder / "parameters.yaml")])
        self.node: Any = crtk.CrtkNode("controller")
        make = {"create_publisher": self.node.create_publisher, "create_subscription": self.node.create_subscription}

        def only_ours(name: str) -> Callable[..., Any]:
            """Make no topic of messages that middleware does not know."""
            return lambda kind, *rest, **more: (
                SimpleNamespace(publish=self.reports.append)
                if kind in (OperatingState, StringStamped)
                else make[name](kind, *rest, **more)
            )

        for name in make:
            patch.setattr(self.node, name, only_ours(name))
        self.requests: list[Any] = []
        self.node.send = lambda topic, command: self.commands.append(command.to_bytes())
        assert self.node.trigger_configure() == TransitionCallbackReturn.SUCCESS
        self.node._requests = SimpleNamespace(publish=lambda message: self.requests.append(message.request))

    def hear(self, tick: int, state: int = ENABLED, reason: Reason = Reason.NONE) -> DeviceCommand:
        """What answers a device's state."""
        device = DeviceState()
        device.stamp(tick, 7 * tick)
        device.pose[6], device.state, device.reason = 1.0, state, reason
        self.node.take("device_state", device.to_bytes())
        command = DeviceCommand()
        command.load(self.commands[-1])
        return command

    def command(self, *wrench: float, frame: str = "") -> None:
        """A client's `servo_cf`."""
        message = WrenchStamped()
        message.header.frame_id = frame
        force, torque = message.wrench.force, message.wrench.torque
        force.x, force.y, force.z, torque.x, torque.y, torque.z = wrench
        self.node._take_wrench(message)

    def ask(self, text: str) -> None:
        """A client's `state_command`."""
        self.node._take_state_command(StringStamped(string=text))

    def state(self) -> str:
        """What is reported now, if it is due, else what was reported last."""
        self.node._report_state()
        return self.reports[-1].state


@pytest.fixture
def bridge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Bridge]:
    """See Bridge; of a simulated device in space, if a test does not say `hardware` or the type of another one."""
    kind = getattr(request, "param", "")
    made = Bridge(tmp_path, monkeypatch, kind == "hardware", "" if kind == "hardware" else kind)
    yield made
    nodes = [made.node]
    del made.node
    graph.destroy(nodes)


WRENCH = (1.0, -2.0, 3.0, 0.1, 0.2, -0.3)


def test_a_wrench_answers_each_state_of_the_device_until_the_watchdog(bridge: Bridge) -> None:
    assert bridge.hear(0).mode == NOTHING
    bridge.command(*WRENCH)
    for tick in range(1, 51):
        bridge.now = 100.0 + 0.001 * tick
        answered = bridge.hear(tick)
        assert (answered.tick, answered.device_tick, answered.nanoseconds) == (tick, tick, 7 * tick)
        assert answered.mode == FORCE
        np.testing.assert_array_equal(answered.wrench, WRENCH)
    bridge.now = 100.051
    answered = bridge.hear(51)
    assert answered.mode == NOTHING and not answered.wrench.any()
    bridge.command(*WRENCH, frame=FRAME)
    assert bridge.hear(52).mode == FORCE


@pytest.mark.parametrize(
    ("wrench", "frame", "said"),
    [(WRENCH, "world", "frame_id is 'world': must be 'arm/device_base' or empty"), ((np.nan,) * 6, "", "not finite")],
)
def test_a_wrench_that_is_refused_is_said_and_counted(
    bridge: Bridge, capfd: pytest.CaptureFixture[str], wrench: tuple[float, ...], frame: str, said: str
) -> None:
    bridge.hear(0)
    bridge.command(*wrench, frame=frame)
    assert bridge.hear(1).mode == NOTHING
    assert bridge.node.refused == 1 and said in capfd.readouterr().err


@pytest.mark.parametrize("state", [DISABLED, PAUSED, FAULT])
def test_a_device_that_is_not_enabled_gets_no_force_and_no_earlier_one_afterwards(bridge: Bridge, state: int) -> None:
    bridge.hear(0)
    bridge.command(*WRENCH)
    assert bridge.hear(1).mode == FORCE
    assert bridge.hear(2, state).mode == NOTHING
    bridge.command(*WRENCH)
    assert bridge.node.refused == 1
    assert bridge.hear(3).mode == NOTHING
    bridge.command(*WRENCH)
    assert bridge.hear(4).mode == FORCE


def test_a_driver_that_is_new_learns_how_late_it_is(bridge: Bridge) -> None:
    bridge.hear(500)
    assert (bridge.hear(0).tick, bridge.hear(501).tick) == (500, 501)


def test_the_state_is_that_of_the_device_and_a_fault_when_it_is_silent(bridge: Bridge) -> None:
    assert bridge.state() == "DISABLED"
    for state, name in ((ENABLED, "ENABLED"), (PAUSED, "PAUSED"), (DISABLED, "DISABLED"), (FAULT, "FAULT")):
        bridge.hear(state, state)
        assert bridge.state() == name
    bridge.hear(10)
    bridge.now += 0.99
    assert bridge.state() == "ENABLED"
    bridge.now += 0.02
    assert bridge.state() == "FAULT"
    stamps = [report.header.stamp.sec * 10**9 + report.header.stamp.nanosec for report in bridge.reports]
    assert len(stamps) == 7 and (np.diff(stamps) > 0).all()


def test_a_simulated_device_is_paused_by_the_bridge(bridge: Bridge) -> None:
    bridge.hear(0)
    bridge.command(*WRENCH)
    bridge.ask("pause")
    assert (bridge.hear(1).mode, bridge.state()) == (NOTHING, "PAUSED")
    bridge.command(*WRENCH)
    bridge.ask("resume")
    assert (bridge.hear(2).mode, bridge.state()) == (NOTHING, "ENABLED")
    bridge.command(*WRENCH)
    assert bridge.hear(3).mode == FORCE and not bridge.requests
    assert bridge.reports[-1].is_homed and not bridge.reports[-1].is_busy


@pytest.mark.parametrize("bridge", ["hardware"], indirect=True)
def test_requests_go_to_the_driver_of_hardware(bridge: Bridge) -> None:
    request = msg.DeviceRequest
    for state, command in ((DISABLED, "home"), (DISABLED, "enable"), (ENABLED, "pause"), (PAUSED, "resume")):
        bridge.hear(state, state)
        bridge.ask(command)
    bridge.ask("disable")
    bridge.hear(9, FAULT)
    bridge.ask("enable")
    assert bridge.requests == [
        request.HOME,
        request.ENABLE,
        request.PAUSE,
        request.RESUME,
        request.DISABLE,
        request.ENABLE,
    ]
    assert bridge.node.refused == 0


@pytest.mark.parametrize("bridge", ["hardware"], indirect=True)
def test_a_client_learns_when_a_device_has_been_homed(bridge: Bridge) -> None:
    bridge.hear(0, DISABLED, Reason.NOT_HOMED)
    assert bridge.state() == "DISABLED" and not bridge.reports[-1].is_homed
    bridge.ask("home")
    bridge.hear(1, DISABLED, Reason.NOT_ENABLED)
    assert bridge.state() == "DISABLED" and bridge.reports[-1].is_homed
    bridge.ask("home")
    assert (bridge.requests, bridge.node.refused) == ([msg.DeviceRequest.HOME], 0)


def test_a_command_that_the_state_does_not_allow_is_refused(bridge: Bridge, capfd: pytest.CaptureFixture[str]) -> None:
    bridge.hear(0, PAUSED)
    bridge.ask("enable")
    assert "state_command enable in state PAUSED: is allowed in DISABLED and FAULT" in capfd.readouterr().err
    assert bridge.node.refused == 1


def test_buttons_come_when_one_changes_and_only_those_that_there_are(bridge: Bridge) -> None:
    topics, joys = bridge.node._standard, []
    topics.publish = lambda name, message: joys.append(list(message.buttons))
    device = DeviceState()
    device.pose[6] = 1.0
    topics.show(device.to_bytes())
    assert not joys, "of a device without buttons"
    for pressed in ([0, 0], [0, 1], [0, 1], [1, 1], [0, 0]):
        device.resize(2)
        device.buttons[:2] = pressed
        topics.show(device.to_bytes())
    assert joys == [[0, 0], [0, 1], [1, 1], [0, 0]]


@pytest.mark.parametrize("bridge", ["pantograph"], indirect=True)
def test_a_device_that_is_a_linkage_has_joints(bridge: Bridge) -> None:
    """In the middle of the device, which is the same turned by half a turn, and mirrored."""
    topics, found = bridge.node._standard, []
    topics.wanted = lambda name: name == "measured_js"
    topics.publish = lambda name, message: found.append((name, message))
    device = DeviceState()
    device.stamp(5, 7)
    device.pose[6], device.twist[0] = 1.0, 0.1
    topics.show(device.to_bytes())
    ((name, joints),) = found
    assert (name, joints.header.stamp.nanosec) == ("measured_js", 7)
    assert joints.name == ["left_upper", "left_lower", "right_lower", "right_upper"]
    # base at (0.24, 0.06), endpoint at (0.05, 0), links of 0.15 and 0.24 m: the law of cosines, outwards from the base
    far = np.hypot(0.19, 0.06)
    outward = np.arccos((0.15**2 + far**2 - 0.24**2) / (0.3 * far)) - np.arctan2(0.06, 0.19)
    np.testing.assert_allclose(joints.position, outward * np.array([1.0, -1.0, 1.0, -1.0]), rtol=0, atol=1e-12)
    assert abs(joints.velocity[0]) > 0.1
    np.testing.assert_allclose(joints.velocity, joints.velocity[0] * np.array([1.0, -1.0, -1.0, 1.0]), rtol=1e-12)


def test_a_device_without_joints_has_no_topic_of_them(bridge: Bridge) -> None:
    assert "measured_js" not in bridge.node._standard._publishers


def test_every_simulated_device_that_takes_forces_can_be_bridged() -> None:
    for device, planar in (("inertial", False), ("pantograph", True)):
        trial = load_system("none", device)
        assert (trial.experiment.device.type, trial.hand.planar) == (device, planar)


def test_a_hardware_device_is_shown_where_it_is() -> None:
    """There is no tool that its hand would be shown at."""
    trial = load_system("none", "haply_2diy")
    assert trial.experiment.device.aligned == "mount" and not any("operator" in note for note in trial.notes)
    assert load_system("none", "haply_2diy", ["device.aligned=start"]).experiment.device.aligned == "start"


def test_the_bridge_is_for_a_system_alone(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="which has no trials"):
        experiment.load("corner_peg", ["controller.type=crtk"])
    for how in ({"record": True}, {"composed": True}, {"endless": False}, {"mode": "lockstep"}):
        with pytest.raises(ParameterError, match="is for a system"):
            node_specs(load_system("none"), tmp_path, **{"mode": "realtime", "record": False, "endless": True} | how)
    for device, said in (("admittance", "takes motion"), ("none", "without a device there is none")):
        assert said in answer("start", "none", "--device", device).err
    assert "leave these out" in answer("start", "two_hands", "--set", "controller.type=crtk").err


def test_a_client_pushes_the_simulated_device(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    """m a = f in all directions; what was measured is reliable; zero force after the last command."""
    out = tmp_path / "out"
    settings = ["--set", "guard.type=none", "--set", "rate=250", "--set", "device.watchdog=0.2"]
    run = haptics("start", "none", "--namespace", "arm", "--out", str(out), *settings)
    with graph.observer() as node:
        states: list[Any] = []
        poses: list[Any] = []
        deep = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)
        node.create_subscription(msg.DeviceState, "/arm/device_state", states.append, deep)
        node.create_subscription(PoseStamped, "/arm/measured_cp", poses.append, QoSProfile(depth=10))
        publisher = node.create_publisher(WrenchStamped, "/arm/servo_cf", QoSProfile(depth=10))
        message = WrenchStamped()
        message.wrench.force.x, message.wrench.force.y, message.wrench.force.z = 0.03, -0.02, 0.01
        timer = node.create_timer(0.01, lambda: publisher.publish(message))
        wait_until(
            lambda: states and abs(states[-1].rendered_wrench.force.x - 0.03) < 1e-12,
            "the whole force, after the soft start",
        )
        wait_until(lambda: len(poses) > 20, "poses that are reliable")
        timer.cancel()
        wait_until(lambda: states[-1].command_tick < 0, "zero force after the last command")
        run.interrupt()
        assert run.wait() == 0, run.err
    assert states[-1].rendered_wrench.force.x == 0.0
    assert poses[-1].header.frame_id == FRAME
    pushed = [state for state in states if state.command_tick >= 0]
    ticks = np.array([state.tick for state in states])
    twists = np.array([[state.twist.linear.x, state.twist.linear.y, state.twist.linear.z] for state in states])
    forces = [state.rendered_wrench.force for state in states]
    impulse = np.cumsum([[force.x, force.y, force.z] for force in forces], axis=0) / 250
    assert len(pushed) > 0.5 * 250
    whole = ticks == np.arange(len(ticks)) + ticks[0]  # up to the first that was not received
    np.testing.assert_allclose(twists[whole], (impulse[whole] - impulse[0]) / 0.5 + twists[0], rtol=0, atol=1e-9)


class Client:
    """A client of CRTK in a namespace: it keeps what it is told, and sends `force` (2,) [N] as long as that is set."""

    def __init__(self, node: Any, namespace: str):
        self.reports: list[dict[str, Any]] = []
        self.measured: dict[str, Any] = {}
        self.fastest = np.zeros(2)  # velocity that was told [m/s]
        self.force: tuple[float, float] | None = None
        reliable = QoSProfile(depth=10)
        for name, kind in (("cp", PoseStamped), ("cv", TwistStamped), ("cf", WrenchStamped)):
            node.create_subscription(
                kind, f"{namespace}/measured_{name}", lambda message, name=name: self._take(name, message), reliable
            )
        node.create_subscription(
            String, f"{namespace}/operating_state", lambda text: self.reports.append(json.loads(text.data)), reliable
        )
        self._commands = node.create_publisher(String, f"{namespace}/state_command", reliable)
        self._servo = node.create_publisher(WrenchStamped, f"{namespace}/servo_cf", reliable)
        node.create_timer(0.01, self._push)

    def _take(self, name: str, message: Any) -> None:
        self.measured[name] = message
        if name == "cv":
            velocity = np.array([message.twist.linear.x, message.twist.linear.y])
            self.fastest = max(self.fastest, velocity, key=np.linalg.norm)

    def _push(self) -> None:
        if (force := self.force) is not None:
            message = WrenchStamped()
            message.wrench.force.x, message.wrench.force.y = force
            self._servo.publish(message)

    @property
    def position(self) -> np.ndarray:
        """In the plane, as it was told last (2,) [m]."""
        point = self.measured["cp"].pose.position
        return np.array([point.x, point.y])

    def states(self, first: int) -> list[str]:
        """Those that were reported, from a report on."""
        return [report["state"] for report in self.reports[first:]]

    def ask(self, command: str, state: str, again: float = math.inf) -> None:
        """Send a `state_command`, `again` after so many seconds, and wait for what it leads to."""
        sent = -math.inf

        def done() -> bool:
            nonlocal sent
            if sent == -math.inf or time.monotonic() > sent + again:
                sent = time.monotonic()
                self._commands.publish(String(data=command))
            return bool(self.reports) and self.reports[-1]["state"] == state

        wait_until(done, state)

    def wait_for(self, state: str) -> None:
        wait_until(lambda: self.reports and self.reports[-1]["state"] == state, f"{state}")


MECHANISM = Pantograph(0.07, 0.09, 0.038)


@pytest.mark.exhaustive
def test_a_client_of_a_hardware_device_sees_it_pushes_it_loses_it_and_gets_it_back(
    haptics: Callable[..., Haptics], tmp_path: Path
) -> None:
    out, push = tmp_path / "out", (0.6, -0.3)
    with board() as fake, graph.observer() as node:
        # a stalled machine may keep a thread from its device for long: that is not what is tested here
        keys = {"device.connection.port": fake.port, "device.watchdog": 1.0, "device.reading_watchdog": 1.0}
        keys |= {"device.soft_start": 0, "device.wall": [0, 0], "guard.type": "none", "rate": 250}
        settings = [part for key, value in keys.items() for part in ("--set", f"{key}={value}")]
        arguments = ("--device", "haply_2diy", "--namespace", "arm", "--out", str(out), *settings)
        run = haptics("start", "none", *arguments, before=crtk_as_text.install)
        client = Client(node, "/arm")

        def seen() -> np.ndarray:
            """Position of the hand in the base (2,) [m], by the angles of the board, whose y is towards the user."""
            x, y = MECHANISM.locate(np.radians([fake.angles[1], fake.angles[0]]))[0]
            return np.array([x - 0.019, -y])

        def pushes() -> bool:
            """Whether the motors make the force that the client has sent."""
            _, jacobian = MECHANISM.locate(np.radians([fake.angles[1], fake.angles[0]]))
            return bool(np.allclose(force_of(fake.torques, jacobian) * (1.0, -1.0), push, atol=1e-6))

        client.wait_for("ENABLED")
        wait_until(lambda: len(client.measured) == 3, "what is measured")
        begin = seen()
        wait_until(lambda: np.allclose(client.position, begin, atol=1e-6), "where the hand is")
        for _ in range(20):
            fake.angles[0] += 0.25
            time.sleep(0.01)
        wait_until(lambda: np.allclose(client.position, seen(), atol=1e-6), "where the hand has gone")
        way = seen() - begin
        along = client.fastest @ way / (np.linalg.norm(client.fastest) * np.linalg.norm(way))
        assert along > 0.95 and client.measured["cf"].wrench == WrenchStamped().wrench
        assert {message.header.frame_id for message in client.measured.values()} == {FRAME}

        client.force = push
        wait_until(pushes, "the force")
        client.force = None
        wait_until(lambda: not any(fake.torques), "zero force after the last servo_cf")
        client.force = push
        wait_until(pushes, "the force of a client that goes on")
        for command, state in (
            ("pause", "PAUSED"),
            ("resume", "ENABLED"),
            ("disable", "DISABLED"),
            ("enable", "ENABLED"),
        ):
            client.ask(command, state)
            wait_until(pushes if state == "ENABLED" else lambda: not any(fake.torques), f"the force in {state}")

        fake.fault(0, Fault.MUTE)
        client.wait_for("FAULT")
        assert not client.reports[-1]["is_homed"]
        # the bridge and the driver may have noticed the silence before the thread that waits for the board
        wait_until(lambda: not any(fake.torques), "zero force of a device that was lost")
        fake.back()
        client.ask("enable", "ENABLED", again=1.0)
        wait_until(pushes, "the force of a device that was lost")
        client.force = None
        wait_until(lambda: not any(fake.torques), "zero force")
        before = len(client.reports)
        graph.kill(out, "driver")
        wait_until(lambda: "FAULT" in client.states(before), "FAULT without a driver")
        client.wait_for("ENABLED")
        client.force = push
        wait_until(pushes, "the force by another driver")
        run.interrupt()
        assert run.wait() == 0, run.err
        assert not any(fake.torques)
    assert (np.diff([report["stamp"] for report in client.reports]) > 0).all()
    homed = {(report["state"], report["is_homed"]) for report in client.reports}
    assert {state for state, known in homed if known} >= {"ENABLED", "PAUSED"} and ("FAULT", True) not in homed


@pytest.mark.exhaustive
def test_two_devices_have_a_client_each(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    keys = ("guard.type=none", "rate=250", "device.watchdog=0.5", "device.soft_start=0")
    settings = [part for key in keys for part in ("--set", key)]
    with graph.observer() as node:
        runs, clients = [], []
        for name in ("left", "right"):
            arguments = ("--namespace", name, "--out", str(tmp_path / name), *settings)
            runs.append(haptics("start", "none", *arguments, before=crtk_as_text.install))
            clients.append(Client(node, f"/{name}"))
        left, right = clients
        for client in clients:
            client.wait_for("ENABLED")
            wait_until(lambda told=client.measured: len(told) == 3, "what is measured")
        left.force = (0.03, -0.02)
        wait_until(lambda: left.position[0] > 1e-4, "motion of the left device")
        left.ask("pause", "PAUSED")
        assert right.reports[-1]["state"] == "ENABLED" and not right.position.any()
        right.force = (-0.03, 0.0)
        wait_until(lambda: right.position[0] < -1e-4, "motion of the right device")
        assert left.position[0] > 1e-4 and left.reports[-1]["state"] == "PAUSED"
        for run in runs:
            run.interrupt()
        assert [run.wait() for run in runs] == [0, 0]
    assert right.measured["cp"].header.frame_id == "right/device_base"
