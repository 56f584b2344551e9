"""A driver in a process of its own, on hardware: whichever of its threads ends, its force ends, and it says why.

Its emergency stop is answered whatever its other callbacks do.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Python, wait_until
from fake_haply_2diy import Board, board
from test_hardware_trial import EXPERIMENT

pytest.importorskip("rclpy", reason="needs ROS 2")
messages = pytest.importorskip("haptics.msg", reason="needs the built messages")

import graph_checks as graph  # noqa: E402
import rclpy  # noqa: E402
from lifecycle_msgs.msg import Transition  # noqa: E402
from lifecycle_msgs.srv import ChangeState  # noqa: E402
from rcl_interfaces.msg import Parameter  # noqa: E402
from rcl_interfaces.srv import SetParameters  # noqa: E402
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy  # noqa: E402
from std_msgs.msg import Bool  # noqa: E402

from haptic_bench import experiment  # noqa: E402
from haptic_bench.running.graph import node_specs, write_parameters  # noqa: E402
from haptic_drivers.devices import link  # noqa: E402
from haptic_drivers.devices.haply_2diy import Haply2diy  # noqa: E402
from haptic_ros.live_parameters import LiveParameters  # noqa: E402
from haptic_sim.messages import DeviceCommand, DeviceState, Reason  # noqa: E402

SPACE = "/dead"
SERVO = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
RELIABLE, EFFORT = ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT
KEPT, VOLATILE = DurabilityPolicy.TRANSIENT_LOCAL, DurabilityPolicy.VOLATILE
LATCHED = QoSProfile(depth=1, reliability=RELIABLE, durability=KEPT)


def raise_in_threads(folder: Path) -> None:
    """In a process: raise in the thread whose name is in the file `victim`, as soon as that is there."""
    victim = folder / "victim"

    def work() -> None:
        while not (name := victim.read_text() if victim.exists() else ""):
            time.sleep(0.01)
        (ident,) = [one.ident for one in threading.enumerate() if one.name == name]
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(SystemExit))

    threading.Thread(target=work, daemon=True).start()


def hang_in_parameters() -> None:
    """In a process: no change of parameters is ever answered."""
    LiveParameters.change = lambda *_: threading.Event().wait()  # type: ignore[assignment]


class Driven:
    """A driver whose device is a stand-in, and a controller that pulls."""

    def __init__(self, node: rclpy.node.Node, process: Python, device: Board):
        self.node, self.process, self.device, self.state = node, process, device, DeviceState()
        self._command = DeviceCommand()
        self._commands = node.create_publisher(messages.DeviceCommand, f"{SPACE}/device_command", SERVO)
        node.create_subscription(messages.DeviceState, f"{SPACE}/device_state", self._pull, SERVO, raw=True)
        self._events = node.create_publisher(messages.TrialEvent, f"{SPACE}/trial_events", LATCHED)
        self._events.publish(messages.TrialEvent(tick=-1, node="controller", name="ready"))
        wait_until(lambda: any(device.torques) or self.is_stopped() or not process.process.is_alive(), "force")

    def _pull(self, data: bytes) -> None:
        self.state.load(data)
        self._command.stamp(self.state.tick, 0)
        self._command.wrench[0] = 1.0
        self._commands.publish(self._command.to_bytes())

    def is_stopped(self) -> bool:
        return self.state.reason == Reason.STOPPED and not any(self.device.torques)


@contextmanager
def driven(folder: Path, before: Callable[[], object]) -> Iterator[Driven]:
    """A driver that renders a force; `before` is called in its process."""
    with board() as device:
        file = folder / "plane.yaml"
        (folder / "o").mkdir()
        keys = {"type": "hardware", "name": "haply_2diy", "soft_start": 0.0, "connection": {"port": device.port}}
        keys |= {"watchdog": 1.0, "reading_watchdog": 0.2}  # a stalled machine is not what is tested here
        file.write_text(yaml.safe_dump(EXPERIMENT | {"device": keys}), encoding="utf-8")
        (trial,) = experiment.load(str(file), ())
        experiment.write_resolved(trial, folder / "o")
        specs = node_specs(trial, folder / "o", mode="realtime", record=False, endless=True)
        (spec,) = [spec for spec in specs if spec.name == "driver"]
        spec.nodes["driver"]["nodes"] = ["driver", "controller"]
        write_parameters([spec], folder / "parameters.yaml")
        names = ["-r", f"__ns:={SPACE}", "-r", "__node:=driver", "--params-file", str(folder / "parameters.yaml")]
        process = Python("-m", spec.module, "--ros-args", *names, cwd=folder, before=before)
        try:
            with graph.observer("controller", SPACE) as node:
                yield Driven(node, process, device)
        finally:
            if process.process.is_alive():
                process.process.kill()
            process.wait()


@pytest.mark.parametrize("name", ["MainThread", "executor", "servo", "requests", "device watchdog"])
def test_whichever_thread_ends_the_force_ends_and_the_process_says_why(tmp_path: Path, name: str) -> None:
    with driven(tmp_path, partial(raise_in_threads, tmp_path)) as one:
        (tmp_path / "victim").write_text(name)
        assert one.process.wait() == 1
        assert not any(one.device.torques)
    thread = "main" if name == "MainThread" else name
    assert f"the thread '{thread}' has failed" in one.process.err
    assert "SystemExit" in one.process.err


def hang_in_library(folder: Path) -> None:
    """In a process: a call of the device's library does not return any more, as soon as the file `hang` is there."""
    read = Haply2diy.read
    may = threading.Event()

    def hang(self: Any, reading: Any) -> bool:
        return may.wait() if (folder / "hang").exists() else read(self, reading)

    Haply2diy.read, link.HUNG = hang, 0.2  # type: ignore[method-assign]


def test_a_library_that_hangs_ends_the_process_and_it_says_why(tmp_path: Path) -> None:
    with driven(tmp_path, partial(hang_in_library, tmp_path)) as one:
        (tmp_path / "hang").touch()
        assert one.process.wait() == 1
    assert "a call of its library has not returned for 0.2 s" in one.process.err


def set_parameter(node: rclpy.node.Node, name: str, value: float | str) -> Any:
    """Change a parameter of the driver, without waiting for the answer."""
    client = node.create_client(SetParameters, f"{SPACE}/driver/set_parameters")
    wait_until(client.service_is_ready, "the service")
    given = rclpy.Parameter(name, value=value).get_parameter_value()
    return client.call_async(SetParameters.Request(parameters=[Parameter(name=name, value=given)]))


def test_a_misspelt_parameter_is_refused_by_name_and_the_driver_goes_on(tmp_path: Path) -> None:
    with driven(tmp_path, int) as one:
        asked = set_parameter(one.node, "device.masss", 1.0)
        wait_until(asked.done, "an answer")
        (result,) = asked.result().results
        assert not result.successful
        assert result.reason == "device.masss: unknown parameter; did you mean device.mass?"
        stopped = one.node.create_client(ChangeState, f"{SPACE}/driver/change_state")
        request = ChangeState.Request(transition=Transition(id=Transition.TRANSITION_DEACTIVATE))
        answered = stopped.call_async(request)
        wait_until(answered.done, "the deactivation")
        assert answered.result().success
        wait_until(lambda: not any(one.device.torques), "zero force")


@pytest.mark.parametrize(
    ("reliability", "durability"),
    [
        (RELIABLE, VOLATILE),
        pytest.param(EFFORT, VOLATILE, marks=pytest.mark.exhaustive),
        pytest.param(RELIABLE, KEPT, marks=pytest.mark.exhaustive),
    ],
)
def test_the_emergency_stop_is_answered_beside_a_parameter_callback_that_hangs(
    tmp_path: Path, reliability: ReliabilityPolicy, durability: DurabilityPolicy, capfd: pytest.CaptureFixture[str]
) -> None:
    """From a publisher of each quality of service, and none is told that it does not reach us."""
    with driven(tmp_path, hang_in_parameters) as one:
        asked = set_parameter(one.node, "trial.mark", "")
        qos = QoSProfile(depth=1, reliability=reliability, durability=durability)
        stop = one.node.create_publisher(Bool, f"{SPACE}/emergency_stop", qos)
        wait_until(lambda: stop.get_subscription_count() == 1 + (reliability == RELIABLE), "the subscriptions")
        assert not one.is_stopped()
        stop.publish(Bool(data=True))
        wait_until(one.is_stopped, "the stop")
        assert not asked.done()
    assert "incompatible" not in one.process.err + capfd.readouterr().err


def test_a_stop_that_is_kept_stops_a_driver_that_comes_later(tmp_path: Path) -> None:
    with graph.observer("presser") as presser:
        stop = presser.create_publisher(Bool, f"{SPACE}/emergency_stop", LATCHED)
        stop.publish(Bool(data=True))
        with driven(tmp_path, int) as one:
            wait_until(one.is_stopped, "the stop")
