"""A device that is a node of one's own: the example as a graph, and what the driver makes of bad readings."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import DEADLINE, ROOT, Haptics, wait_until

from haptic_bench import experiment
from haptic_bench.trials.recorded import load_trial
from haptic_sim.messages import FAULT, NOTHING
from haptic_sim.parameters import ParameterError

EXAMPLE = ROOT / "examples" / "external_device"
HANDLE = str(EXAMPLE / "external_handle.yaml")
PUSH, STIFFNESS = 2.0, 300.0  # [N] of the example's hand, [N/m] of its coupling


def test_a_graph_waits_for_the_device_by_its_name() -> None:
    graph = pytest.importorskip("haptic_bench.running.graph")
    pytest.importorskip("haptic_ros.ros_parameters", reason="needs ROS 2")
    (trial,) = experiment.load(HANDLE)
    assert trial.experiment.external == ("device",)
    assert "device.type = external: the trial begins when a node device of yours is ready" in "".join(trial.notes)
    specs = graph.node_specs(trial, Path())
    assert [spec.name for spec in specs] == ["driver", "controller", "environment", "recorder"]
    assert "device" in specs[0].nodes["driver"]["nodes"]
    with pytest.raises(ParameterError, match=r"--composed: device is a node of its own"):
        graph.node_specs(trial, Path(), composed=True)
    with pytest.raises(
        ParameterError, match=r"device.type = external: is a node of your own, which only the ROS graph"
    ):
        trial.in_mode("offline")
    assert trial.in_mode("lockstep").experiment.external == ("device",)


def test_it_needs_a_bound_as_hardware_does() -> None:
    with pytest.raises(ParameterError, match=r"device.bound.velocity = null: hardware needs one"):
        experiment.load(HANDLE, ["device.bound.velocity=null"])


def _run(haptics: Callable[..., Haptics], folder: Path, script: Path, *arguments: str, mode: str) -> tuple[int, str]:
    """The exit status and errors of a trial of the example with the device of a script."""
    pytest.importorskip("rclpy", reason="needs ROS 2")
    namespace = f"device_{folder.name}".replace("-", "_")
    run = haptics("run", HANDLE, "--mode", mode, "--namespace", namespace, "--out", str(folder / "trial"))
    command = [sys.executable, str(script), "--ros-args", "-r", f"__ns:=/{namespace}", *arguments]
    with subprocess.Popen(command) as node:
        try:
            status = run.wait()
            node.wait(DEADLINE)
        finally:
            node.kill()
    return status, run.err


@pytest.mark.exhaustive
@pytest.mark.long
def test_the_example_holds_against_the_push_and_is_verified(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    """At rest the display renders the push, and the coupling is stretched by it over its stiffness."""
    status, said = _run(haptics, tmp_path, EXAMPLE / "device.py", mode="lockstep")
    assert status == 0, said
    samples = load_trial(str(tmp_path / "trial")).samples
    assert samples["rendered_fx"][-1] == pytest.approx(-PUSH, abs=1e-4)
    assert samples["hand_px"][-1] - samples["tool_px"][-1] == pytest.approx(PUSH / STIFFNESS, abs=1e-6)
    verified = haptics("replay", str(tmp_path / "trial"), "--verify")
    assert verified.wait() == 0 and "identical, bit by bit" in verified.out


@pytest.mark.exhaustive
@pytest.mark.long
def test_the_example_runs_at_its_own_rate_in_realtime(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    _run(haptics, tmp_path, EXAMPLE / "device.py", "-p", "realtime:=true", mode="realtime")
    trial = load_trial(str(tmp_path / "trial"))
    assert trial.summary["ticks"] > 0 and np.isfinite(trial.samples["hand_px"]).all()
    verified = haptics("replay", str(tmp_path / "trial"), "--verify")
    assert verified.wait() == 0 and "identical, bit by bit" in verified.out


BROKEN = """
import runpy, sys
example = runpy.run_path({path!r}, run_name="example")
Device = example["Device"]
move = Device.move

def broken(self):
    move(self)
    if self.reading.tick in (300, 301):
        self.reading.pose.position.x = float("nan")
    elif self.reading.tick >= 500:
        self.reading.pose.position.x = 1.0

Device.move = broken
example["main"]()
"""


@pytest.mark.long
def test_impossible_readings_are_rejected_and_end_the_force(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    """Two that are not finite: the last good one stands for them. A jump of 1 m that stays: no force any more."""
    script = tmp_path / "broken.py"
    script.write_text(BROKEN.format(path=str(EXAMPLE / "device.py")), encoding="utf-8")
    _run(haptics, tmp_path, script, mode="lockstep")
    samples = load_trial(str(tmp_path / "trial")).samples
    assert samples["hand_px"][301] == samples["hand_px"][299] != samples["hand_px"][302]
    force = np.abs(samples["rendered_fx"])
    assert force[300:500].min() > 0.1 and not force[506:].any()
    assert samples["hand_px"][500:504].max() == samples["hand_px"][499] and np.isfinite(samples["hand_px"]).all()


class Line:
    """A driver's end of the topics, and the other end in the same process."""

    def __init__(self, context: Any, *, realtime: bool):
        import rclpy
        from haptics.msg import DeviceCommand, DeviceReading
        from rclpy.qos import QoSProfile, ReliabilityPolicy

        from haptic_drivers.nodes.external import ExternalDevice

        self.node, self.other = (rclpy.create_node(name, context=context) for name in ("driver", "device"))
        self.refused: list[str] = []
        self.node.config = SimpleNamespace(rate=1000.0, patience=0.2)
        self.node.realtime, self.node.stopping = realtime, False
        self.node.refuse = lambda error: self.refused.append(str(error))
        self.device = ExternalDevice(self.node)
        qos = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
        self.written: list[Any] = []
        self.publisher = self.other.create_publisher(DeviceReading, "device_measured", qos)
        self.other.create_subscription(DeviceCommand, "device_written", self.written.append, qos)
        wait_until(self.device.is_found, "the other end")

    def second(self) -> Any:
        """Another publisher of readings."""
        from haptics.msg import DeviceReading

        return self.other.create_publisher(DeviceReading, "device_measured", 10)

    def close(self) -> None:
        self.device.destroy()
        for node in (self.node, self.other):
            node.destroy_node()

    def publish(self, tick: int, *, frame: str = "base", **values: Any) -> None:
        from haptics.msg import DeviceReading

        reading = DeviceReading(tick=tick, **values)
        reading.header.frame_id, reading.pose.orientation.w = frame, 1.0
        reading.pose.position.x = 0.1 * tick
        self.publisher.publish(reading)

    def next_command(self) -> Any:
        """What the driver has written last, within the deadline."""
        from rclpy.executors import SingleThreadedExecutor

        executor = SingleThreadedExecutor(context=self.other.context)
        executor.add_node(self.other)
        wait_until(lambda: executor.spin_once(timeout_sec=0.01) or self.written, "a command")
        executor.shutdown()
        return self.written.pop()

    def read(self) -> Any:
        """The next reading that the driver gets, within the deadline."""
        from haptic_drivers.devices.interface import Reading

        found = Reading()
        wait_until(lambda: self.device.read(found), "a reading")
        return found


@pytest.fixture
def line() -> Iterator[Callable[..., Line]]:
    rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")
    context = rclpy.Context()
    context.init()
    made: list[Line] = []

    def make(*, realtime: bool) -> Line:
        made.append(Line(context, realtime=realtime))
        return made[-1]

    yield make
    for one in made:
        one.close()
    context.try_shutdown()


def test_readings_of_another_frame_or_without_an_age_are_refused(line: Callable[..., Line]) -> None:
    one = line(realtime=True)
    one.publish(3, age=0.001)
    assert one.read().pose[0] == pytest.approx(0.3)
    for wrong, said in (
        ({"frame": "world"}, "frame_id = 'world': must be 'base'"),
        ({"age": math.nan}, "age = nan s: must be finite, at least 0"),
        ({"age": -0.001}, "age = -0.001 s: must be finite"),
    ):
        one.publish(4, **wrong)
        wait_until(lambda wrong=wrong: not one.device.read(SimpleNamespace()) and one.refused, f"a refusal of {wrong}")
        assert said in one.refused.pop()
    one.publish(5, buttons=[0, 1])
    found = one.read()
    assert found.pose[0] == pytest.approx(0.5) and found.buttons[:3].tolist() == [0, 1, 0] and not found.fault
    one.publish(6, state=FAULT)
    assert one.read().fault == "reported by the node device"


def test_a_disabled_device_is_commanded_nothing(line: Callable[..., Line]) -> None:
    one = line(realtime=True)
    one.device.enable()
    one.device.write(np.arange(6.0))
    assert one.next_command().wrench.force.y == 1.0
    one.device.disable()
    last = one.next_command()
    assert last.mode == NOTHING and last.wrench.force.y == 0.0


def test_in_lockstep_a_device_that_does_not_answer_ends_the_trial(line: Callable[..., Line]) -> None:
    from haptic_ros.trial import ServoError

    one = line(realtime=False)
    one.publish(0)
    wait_until(lambda: _begins(one, 0), "tick 0")
    text = r"^tick 1: no device_measured 1 of the node device within 0\.2 s: "
    with pytest.raises(ServoError, match=text + r"the newest is of tick 0$"):
        one.device.begin(1)
    second = one.second()
    wait_until(lambda: one.device._subscription.get_publisher_count() == 2, "a second device")
    with pytest.raises(ServoError, match=text + r"the topic has 2 publishers, so that its messages are refused"):
        one.device.begin(1)
    one.other.destroy_publisher(second)


def _begins(one: Line, tick: int) -> bool:
    from haptic_ros.trial import ServoError

    one.publish(tick)
    try:
        one.device.begin(tick)
    except ServoError:
        return False
    return True
