"""The bridge to clients of CRTK as a node, and in its graph with a simulated device."""

from __future__ import annotations

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

import graph_checks as graph  # noqa: E402
from geometry_msgs.msg import PoseStamped, WrenchStamped  # noqa: E402
from haptics import msg  # noqa: E402
from rclpy.lifecycle import TransitionCallbackReturn  # noqa: E402
from rclpy.qos import QoSProfile, ReliabilityPolicy  # noqa: E402

from haptic_bench import experiment  # noqa: E402
from haptic_bench.experiment.system import load_system  # noqa: E402
from haptic_bench.running.graph import node_specs, write_parameters  # noqa: E402
from haptic_control.nodes import crtk  # noqa: E402
from haptic_sim.messages import DISABLED, ENABLED, FAULT, FORCE, NOTHING, PAUSED, DeviceCommand, DeviceState  # noqa: E402
from haptic_sim.parameters import ParameterError  # noqa: E402

FRAME = "arm/device_base"


class OperatingState(SimpleNamespace):
    """Takes the place of the message of crtk_msgs, which is in no registry of packages."""

    def __init__(self, **values: Any):
        super().__init__(header=SimpleNamespace(stamp=SimpleNamespace()), **values)


class StringStamped(SimpleNamespace):
    """Likewise."""


class Bridge:
    """A configured bridge whose messages are handed over by the test; `now` is its monotonic time [s]."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, hardware: bool = False):
        self.now, self.commands, self.reports = 100.0, [], []
        patch.setattr(crtk, "OperatingState", OperatingState)
        patch.setattr(crtk, "StringStamped", StringStamped)
        patch.setattr(crtk, "time", SimpleNamespace(monotonic=lambda: self.now))
        driver, bridge = node_specs(load_system("none"), folder, record=False, lasting=True)
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

    def hear(self, tick: int, state: int = ENABLED) -> DeviceCommand:
        """What answers a device's state."""
        device = DeviceState()
        device.stamp(tick, 7 * tick)
        device.pose[6], device.state = 1.0, state
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
    """See Bridge; of a simulated device, if a test does not say `hardware`."""
    made = Bridge(tmp_path, monkeypatch, getattr(request, "param", "") == "hardware")
    yield made
    made.node.destroy_node()
    rclpy.try_shutdown()


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


def test_every_simulated_device_that_takes_forces_can_be_bridged() -> None:
    for device, planar in (("inertial", False), ("pantograph", True)):
        trial = load_system("none", device)
        assert (trial.experiment.device.type, trial.hand.planar) == (device, planar)


def test_the_bridge_is_for_a_system_alone(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="which has no trials"):
        experiment.load("corner_peg", ["controller.type=crtk"])
    for how in ({"record": True}, {"composed": True}, {"lasting": False}):
        with pytest.raises(ParameterError, match="is for a system"):
            node_specs(load_system("none"), tmp_path, **{"record": False, "lasting": True} | how)
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
        node.destroy_timer(timer)
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
