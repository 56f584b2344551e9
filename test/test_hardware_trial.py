"""A trial on hardware as real processes: requests, an emergency stop, a loss and the way back; its record verifies."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from conftest import Haptics, answer, wait_until
from fake_haply_2diy import board
from fake_hardware import DATA, Connection, Fake

from haptic_bench.recording.samples import Samples
from haptic_drivers.devices.interface import Reading
from haptic_drivers.devices.life import Request
from haptic_drivers.devices.parameters import HardwareParameters
from haptic_sim.messages import DISABLED, ENABLED, FAULT, PAUSED, DeviceCommand, DeviceState, Reason
from stand_ins import Fault

pytest.importorskip("rclpy", reason="needs ROS 2")
messages = pytest.importorskip("haptics.msg", reason="needs the built messages")

import graph_checks as graph  # noqa: E402
from rclpy.lifecycle import TransitionCallbackReturn  # noqa: E402
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy  # noqa: E402
from std_msgs.msg import Bool  # noqa: E402
from test_nodes import bench  # noqa: E402, F401

EXPERIMENT = {
    "duration": 60.0,  # [s]; it is interrupted when all has been seen
    "rate": 200.0,
    "operator": {"type": "constant", "wrench": [0.0] * 6},
    "controller": {"type": "virtual_coupling", "stiffness": [200, 200, 1], "damping": [2, 2, 0.01]},
    "tool": {"type": "peg"},
    "scene": {"type": "slotted_enclosure", "start": [-0.04, 0.15]},
    "environment": {"method": "penalty"},
    "health": {"missed_share": 1, "undecided_share": 1},
    "guard": {"type": "none"},
}


def test_a_trial_on_hardware_goes_on_through_all_that_happens_and_verifies(
    haptics: Callable[..., Haptics], tmp_path: Path
) -> None:
    out, file = tmp_path / "o", tmp_path / "plane.yaml"
    reliable = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
    latched = QoSProfile(depth=1, reliability=reliable.reliability, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    effort = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    with board() as fake, graph.observer() as node:
        # a stalled machine may keep a thread from its device for long: that is not what is tested here
        device = {"type": "hardware", "name": "haply_2diy", "soft_start": 0.0, "watchdog": 1.0, "reading_watchdog": 0.2}
        device |= {"connection": {"port": fake.port}, "wall": [0.0, 0.0]}
        file.write_text(yaml.safe_dump(EXPERIMENT | {"device": device}), encoding="utf-8")
        process = haptics("run", str(file), "--mode", "realtime", "--out", str(out))
        requests = node.create_publisher(messages.DeviceRequest, "/plane/device_request", reliable)
        stop = node.create_publisher(Bool, "/plane/emergency_stop", latched)
        state, seen = DeviceState(), set()

        def take(data: bytes) -> None:
            state.load(data)
            seen.add((state.state, Reason(state.reason)))

        node.create_subscription(messages.DeviceState, "/plane/device_state", take, effort, raw=True)

        def ask(request: Request, value: float = 0.0) -> None:
            requests.publish(messages.DeviceRequest(request=request, value=value))

        def pulls() -> bool:
            """The hand moves to and fro, which the coupling to the tool resists."""
            fake.angles[1] = 168.0 - 4.0 * (time.monotonic() % 0.5)
            return any(fake.torques)

        def reach(condition: Callable[[], object], what: str, *asked: Request, again: Request = Request.ENABLE) -> None:
            """Ask, and wait; the device is opened `again` where a machine that stalls has lost it, and asked again."""
            lost = False
            for request in asked:
                ask(request)

            def is_reached() -> bool:
                nonlocal lost
                if state.state == FAULT:
                    lost = True
                    ask(again)
                elif lost:
                    lost = False
                    for request in asked:
                        ask(request)
                return bool(condition())

            wait_until(is_reached, what)

        wait_until(lambda: requests.get_subscription_count() > 0 and graph.started(out)(), "the trial")
        reach(lambda: state.state == ENABLED and pulls(), "force")
        reach(lambda: state.reason == Reason.ON_PAUSE and not pulls(), "the pause", Request.PAUSE)
        reach(pulls, "force after the pause", Request.RESUME)
        stop.publish(Bool(data=True))
        wait_until(lambda: state.reason == Reason.STOPPED and not pulls(), "the emergency stop")
        ask(Request.ENABLE)
        stop.publish(Bool(data=False))
        wait_until(lambda: "enable: the emergency stop is latched" in log_of(out), "the refusal")
        assert state.state in (DISABLED, FAULT) and state.reason == Reason.STOPPED and not pulls()
        reach(lambda: state.state == DISABLED, "the end of the force", again=Request.DISABLE)
        reach(pulls, "force after the stop", Request.RESET, Request.ENABLE)
        fake.fault(0, Fault.MUTE)
        wait_until(lambda: state.state == FAULT and state.reason == Reason.FAILED, "the fault")
        fake.back()
        reach(lambda: state.state == ENABLED and pulls(), "force after the fault", Request.ENABLE)
        process.interrupt()
        process.wait()
        assert not any(fake.torques), "whatever ends the trial, the device is left without force"
    assert {(PAUSED, Reason.ON_PAUSE), (DISABLED, Reason.STOPPED), (FAULT, Reason.FAILED)} <= seen
    assert re.search("has not answered|is lost: timeout", log_of(out)), log_of(out)  # whichever is noticed first
    verified = answer("replay", str(out), "--verify")
    assert verified.status == 0 and "identical" in verified.out, verified.err + verified.out
    samples = Samples.read_csv(out / "samples.csv")
    assert set(samples["device_state"].astype(int)) == {DISABLED, ENABLED, PAUSED, FAULT}
    idle = samples["device_state"] != ENABLED
    assert not samples.wrench("rendered")[idle].any() and samples.wrench("rendered")[~idle].any()
    assert np.isfinite(samples["device_reading_age"]).all()


def log_of(out: Path) -> str:
    return "".join(path.read_text(errors="replace") for path in (out / "log").rglob("*") if path.is_file())


class Present(Fake):
    """A fake whose readings are of now."""

    def read(self, reading: Reading) -> bool:
        self.now = time.monotonic_ns()
        return super().read(reading)


def test_the_lifecycle_opens_enables_disables_and_closes(
    bench: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    made: list[Fake] = []

    def build(device: HardwareParameters, connection: Connection) -> Fake:
        made.append(Present(device))
        return made[-1]

    monkeypatch.setitem(sys.modules, "outside.fake", SimpleNamespace(Connection=Connection, build=build))
    data = tmp_path / "fake.yaml"
    data.write_text(yaml.safe_dump({**DATA, "module": "outside.fake", "reading_watchdog": 1.0}), encoding="utf-8")
    file = tmp_path / "plane.yaml"
    file.write_text(yaml.safe_dump(EXPERIMENT | {"device": {"type": "hardware", "name": str(data)}}), encoding="utf-8")
    node = bench.node("driver", change={"mode": "realtime"}, of=str(file))

    def force(tick: int) -> float:
        node.begin(tick)
        command = DeviceCommand()
        command.tick, command.wrench[0] = tick, 2.0
        node.take("device_command", command.to_bytes())
        node.complete()
        return float(made[-1].force[0])

    assert node.trigger_configure() == TransitionCallbackReturn.SUCCESS
    assert made[-1].calls == ["open"] and force(0) == 0.0, "there is no force before it is active"
    node.resume(1)
    assert force(1) == 2.0 and made[-1].calls == ["open", "enable"]
    node._core.release()  # as at the end of the servo thread
    assert made[-1].force[0] == 0.0 and made[-1].calls[-1] == "disable" and force(2) == 0.0
    node.resume(3)
    assert force(3) == 2.0
    made[-1].broken = True
    assert force(4) == 0.0
    trouble, values = node.health()
    assert "no such device" in trouble and values["state"] == "fault"
    assert node.trigger_cleanup() == TransitionCallbackReturn.SUCCESS
    assert made[-1].calls[-1] == "close"
    assert node.trigger_configure() == TransitionCallbackReturn.SUCCESS and len(made) == 2
    node.destroy_node()
    assert made[-1].calls[-1] == "close"
    bench.nodes.remove(node)


def test_hardware_in_lockstep_stays_unconfigured(
    bench: Any,  # noqa: F811
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "plane.yaml"
    file.write_text(
        yaml.safe_dump(EXPERIMENT | {"device": {"type": "hardware", "name": "haply_2diy"}}), encoding="utf-8"
    )
    node = bench.node("driver", of=str(file))
    assert node.trigger_configure() == TransitionCallbackReturn.FAILURE
    assert "haply_2diy is hardware, which runs in real time only" in capfd.readouterr().err
