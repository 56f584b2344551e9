"""A trial on hardware as real processes: requests, an emergency stop, a loss and the way back; its record verifies."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from conftest import Haptics, answer, wait_until
from fake_haply_2diy import board

from haptic_bench.recording.samples import Samples
from haptic_drivers.devices.life import Request
from haptic_sim.messages import DISABLED, ENABLED, FAULT, PAUSED, DeviceState, Reason

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
    pytest.importorskip("rclpy", reason="needs ROS 2")
    messages = pytest.importorskip("haptics.msg", reason="needs the built messages")
    import graph_checks as graph
    from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
    from std_msgs.msg import Bool

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

        wait_until(lambda: requests.get_subscription_count() > 0 and graph.started(out)(), "the trial")
        wait_until(lambda: state.state == ENABLED and pulls(), "force")
        ask(Request.PAUSE)
        wait_until(lambda: state.reason == Reason.ON_PAUSE and not pulls(), "the pause")
        ask(Request.RESUME)
        wait_until(pulls, "force after the pause")
        stop.publish(Bool(data=True))
        wait_until(lambda: state.reason == Reason.STOPPED and not pulls(), "the emergency stop")
        ask(Request.ENABLE)
        stop.publish(Bool(data=False))
        wait_until(lambda: "enable: the emergency stop is latched" in log_of(out), "the refusal")
        assert (state.state, state.reason) == (DISABLED, Reason.STOPPED) and not pulls()
        ask(Request.RESET)
        ask(Request.ENABLE)
        wait_until(pulls, "force after the stop")
        fake.silent = True
        wait_until(lambda: state.state == FAULT and state.reason == Reason.FAILED, "the fault")
        fake.silent = False
        ask(Request.ENABLE)
        wait_until(lambda: state.state == ENABLED and pulls(), "force after the fault")
        process.interrupt()
        process.wait()
        assert not any(fake.torques), "whatever ends the trial, the device is left without force"
    assert {(PAUSED, Reason.ON_PAUSE), (DISABLED, Reason.STOPPED), (FAULT, Reason.FAILED)} <= seen
    assert "has not answered" in log_of(out)
    verified = answer("replay", str(out), "--verify")
    assert verified.status == 0 and "identical" in verified.out, verified.err + verified.out
    samples = Samples.read_csv(out / "samples.csv")
    assert set(samples["device_state"].astype(int)) == {DISABLED, ENABLED, PAUSED, FAULT}
    idle = samples["device_state"] != ENABLED
    assert not samples.wrench("rendered")[idle].any() and samples.wrench("rendered")[~idle].any()
    assert np.isfinite(samples["device_reading_age"]).all()


def log_of(out: Path) -> str:
    return "".join(path.read_text(errors="replace") for path in (out / "log").rglob("*") if path.is_file())
