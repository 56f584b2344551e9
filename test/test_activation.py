"""Nodes that are deactivated in the course of a trial: it ends, with the reason, and no force of before comes back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Haptics, processes_of, wait_until

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

from graph_checks import started, topics  # noqa: E402
from lifecycle_msgs.msg import Transition  # noqa: E402
from lifecycle_msgs.srv import ChangeState  # noqa: E402
from test_graph import LONG, observer, settings  # noqa: E402, F401
from test_nodes import Bench, bench, configured  # noqa: E402, F401

from haptic_sim.messages import DeviceCommand, DeviceState, columns  # noqa: E402


def change(node: Any, name: str, transition: int) -> None:
    """Ask for a transition of a node of the graph, and do not wait: the node may end of it."""
    client = node.create_client(ChangeState, name)
    wait_until(client.service_is_ready, name)
    client.call_async(ChangeState.Request(transition=Transition(id=transition)))


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        pytest.param("driver", ["realtime"], marks=pytest.mark.exhaustive),
        pytest.param("controller", ["realtime", "--composed"], marks=pytest.mark.exhaustive),
        ("environment", ["lockstep"]),
    ],
    ids=["driver", "composed", "lockstep"],
)
def test_a_node_that_is_deactivated_ends_the_trial(
    haptics: Callable[..., Haptics],
    tmp_path: Path,
    observer: Any,  # noqa: F811
    name: str,
    flags: list[str],
) -> None:
    out = tmp_path / "out"
    run = haptics("run", "corner_peg", "--mode", *flags, *LONG, "--out", str(out), *settings("rate=200"))
    wait_until(started(out), "the first chunk")

    def found() -> list[str]:
        names = [service for service, _ in observer.get_service_names_and_types()]
        return [one for one in names if one.startswith("/corner_peg") and one.endswith(f"/{name}/change_state")]

    wait_until(found, "the service")
    change(observer, found()[0], Transition.TRANSITION_DEACTIVATE)
    assert run.wait() == 1
    assert f"{name} was deactivated" in run.err
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "failed" and f"{name} was deactivated" in summary["reason"]
    recorded = topics(out)
    assert summary["ticks"] >= 50
    assert f"{name} was deactivated".encode() in recorded["trial_events"].messages[-1]
    assert not processes_of(str(out))


def test_a_driver_that_is_activated_again_does_not_follow_the_commands_of_before(
    bench: Bench,  # noqa: F811
) -> None:
    """Its ticks go on, its force starts from zero and grows; a command of the activation before is refused."""
    settings = ("duration=3", "device.impulse_rendering=full", "guard.type=none")  # what is commanded here is active
    node = configured(bench.node("driver", *settings, change={"mode": "realtime"}))

    def command(tick: int) -> bytes:
        message = DeviceCommand()
        message.tick = tick
        message.wrench[0] = 9.0
        return message.to_bytes()

    def rendered(tick: int, *commands: int) -> float:
        """Of a tick in which commands of some ticks arrive."""
        node.begin(tick)
        for one in commands:
            node.take("device_command", command(one))
        node.complete()
        node.begin(tick + 1)
        state = columns(DeviceState(), [bench.sent[-1][1]])
        return float(state["rendered_wrench"][0, 0])

    node.resume(0)
    assert rendered(0, 0) == 9.0
    assert rendered(500, 500) == 9.0
    node.begin(501)  # the state with which the activation ended, which may be answered late
    node.resume(502)
    assert rendered(502) == 0.0 and node.health()[1]["ticks without force"] == 1
    assert rendered(503, 501) == 0.0 and node.refused == 1
    assert rendered(504, 504) == pytest.approx(9.0 * 2 / 256)
    assert rendered(502 + 256, 502 + 256) == 9.0
    assert np.isfinite(node.counts()["expired"])


class NoReading:
    """Sensors that tell nothing finite from a tick on."""

    def __init__(self, first: int):
        self.first = first

    def add(self, tick: int, state: DeviceState) -> None:
        """As of SensorNoise."""
        if tick >= self.first:
            state.pose[0] = np.nan


def test_a_device_that_cannot_be_read_ends_the_trial_passively(
    bench: Bench,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Five readings in a row: the reason is said, the exit status is 1, and nothing is rendered any more."""
    node = configured(bench.node("driver", "device.impulse_rendering=full", change={"nodes": ["driver"]}))
    node._core._noise = NoReading(20)
    monkeypatch.setattr(node, "_gather", lambda: True)

    def answer(timeout: float | None) -> bool:
        message = DeviceCommand()
        message.tick = columns(DeviceState(), [bench.sent[-1][1]])["tick"][0]
        message.wrench[0] = 2.0
        node.take("device_command", message.to_bytes())
        return True

    monkeypatch.setattr(node, "listen", answer)
    node.serve()
    reason = "device: readings rejected from tick 20 to 24, the last was not finite"
    assert node._broken.startswith(reason) and node.exit_code == 1 and node.finished.is_set()
    assert node.counts()["rejected_readings"] >= 5
    assert "rejected" in node.health()[0]
    states = columns(DeviceState(), [data for _, data in bench.sent])
    assert np.isfinite(states["pose"]).all()
    assert states["tick"][-1] == 24 and states["reading_tick"][-1] == 19
    assert states["rendered_wrench"][20, 0] == 2.0
    assert not node._core._device.rendered.any()


def test_whatever_ends_the_servo_thread_the_device_is_released(
    bench: Bench,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = configured(bench.node("driver", change={"nodes": ["driver"]}))
    monkeypatch.setattr(node, "_gather", lambda: True)

    def fail(tick: int) -> bool:
        node._core._device.rendered[:] = 3.0
        raise RuntimeError("broken")

    monkeypatch.setattr(node, "_tick", fail)
    with pytest.raises(RuntimeError, match="broken"):
        node.serve()
    assert not node._core._device.rendered.any()
