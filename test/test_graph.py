"""The servo graph as real processes in lockstep: topics, bits, failures, interruptions."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Haptics, processes_of, wait_until

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

from lifecycle_msgs.srv import GetState  # noqa: E402
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue  # noqa: E402
from rcl_interfaces.srv import DescribeParameters, SetParameters  # noqa: E402

from haptic_bench import bag  # noqa: E402

ASYNCHRONOUS = ("local_model.type=full", "environment.rate=60")
LONG = ("--duration", "3000")


def started(out: Path) -> Callable[[], bool]:
    """Whether the recorder has written a first chunk."""
    file = out / "bag" / "bag_0.mcap"
    return lambda: file.is_file() and file.stat().st_size > 100_000


def settings(*pairs: str) -> list[str]:
    return [part for pair in pairs for part in ("--set", pair)]


def topics(out: Path) -> dict[str, bag.BagTopic]:
    return {name.rpartition("/")[2]: topic for name, topic in bag.read(out / "bag").items()}


@pytest.mark.parametrize("changes", [(), ASYNCHRONOUS, ("operator.type=sine", "operator.amplitude=[1,2,0,0,0,0.01]",
                                     "operator.frequency=3", "device.impulse_rendering=spread")],
                         ids=["synchronous", "asynchronous", "turning"])  # fmt: skip
def test_lockstep_and_offline_give_the_same_bits(
    haptics: Callable[..., Haptics], tmp_path: Path, changes: tuple[str, ...]
) -> None:
    for mode in ("lockstep", "offline"):
        arguments = ["--mode", mode, "--duration", "1.5", "--out", str(tmp_path / mode), *settings(*changes)]
        run = haptics("run", "corner_peg", *arguments)
        assert run.wait() == 0, run.err
    for name in ("samples.csv", "bag/bag_0.mcap", "bag/metadata.yaml"):
        assert (tmp_path / "lockstep" / name).read_bytes() == (tmp_path / "offline" / name).read_bytes(), name
    summary = json.loads((tmp_path / "lockstep" / "summary.json").read_text())
    assert (summary["mode"], summary["ticks"]) == ("lockstep", 769)


@pytest.fixture
def observer() -> Iterator[rclpy.node.Node]:
    """A node of the test's own, spun in a thread."""
    context = rclpy.Context()
    context.init()
    node = rclpy.create_node("observer", context=context)
    executor = rclpy.executors.SingleThreadedExecutor(context=context)
    executor.add_node(node)
    thread = threading.Thread(target=executor.spin, daemon=True)
    thread.start()
    yield node
    executor.shutdown()
    thread.join()
    node.destroy_node()
    context.try_shutdown()


def ask(node: rclpy.node.Node, kind: type, name: str, request: object) -> object:
    """Call a service of the graph."""
    client = node.create_client(kind, name)
    wait_until(client.service_is_ready, name)
    future = client.call_async(request)
    wait_until(future.done, f"an answer of {name}")
    return future.result()


def test_the_graph_shows_topics_states_and_parameters(
    haptics: Callable[..., Haptics], tmp_path: Path, observer: rclpy.node.Node
) -> None:
    out = tmp_path / "out"
    run = haptics("run", "corner_peg", "--mode", "lockstep", *LONG, "--out", str(out), *settings(*ASYNCHRONOUS))
    wait_until(started(out), "the first chunk")

    def found() -> dict[str, str]:
        names = dict(observer.get_topic_names_and_types())
        return {name.rpartition("/")[2]: name for name in names if name.startswith("/corner_peg_")}

    servo = {
        "device_state": "DeviceState",
        "tool_command": "ToolCommand",
        "tool_state": "ToolState",
        "device_command": "DeviceCommand",
        "local_geometry": "LocalGeometry",
        "trial_events": "TrialEvent",
    }
    wait_until(lambda: set(servo) <= set(found()), "the topics")
    names = found()
    types = dict(observer.get_topic_names_and_types())
    for topic, kind in servo.items():
        assert types[names[topic]] == [f"haptics/msg/{kind}"]
    namespace = names["device_state"].rpartition("/")[0]
    for node in ("driver", "controller", "local_model", "environment", "recorder"):
        state = ask(observer, GetState, f"{namespace}/{node}/get_state", GetState.Request())
        assert state.current_state.label == "active", node

    described = ask(
        observer,
        DescribeParameters,
        f"{namespace}/local_model/describe_parameters",
        DescribeParameters.Request(names=["contact.stiffness", "tool.mass"]),
    )
    stiffness, mass = described.descriptors
    assert stiffness.description == "Penalty stiffness [N/m]" and not stiffness.read_only
    assert (stiffness.floating_point_range[0].from_value, stiffness.floating_point_range[0].to_value) == (
        0.0,
        1e7,
    )
    assert mass.read_only

    def set_parameter(node: str, name: str, **value: object) -> object:
        parameter = Parameter(name=name, value=ParameterValue(**value))
        request = SetParameters.Request(parameters=[parameter])
        return ask(observer, SetParameters, f"{namespace}/{node}/set_parameters", request).results[0]

    double, array = ParameterType.PARAMETER_DOUBLE, ParameterType.PARAMETER_DOUBLE_ARRAY
    assert set_parameter("local_model", "contact.stiffness", type=double, double_value=3000.0).successful
    refused = set_parameter("controller", "controller.stiffness", type=array, double_array_value=[1.0, -2.0, 3.0])
    assert not refused.successful
    assert refused.reason == "controller.stiffness[1] = -2: must be >= 0"
    assert not set_parameter("local_model", "tool.mass", type=double, double_value=3.0).successful

    run.interrupt()
    assert run.wait() == 130, run.err


@pytest.mark.parametrize("node", ["driver", "controller", "local_model", "environment", "recorder"])
def test_a_node_that_dies_ends_the_run(haptics: Callable[..., Haptics], tmp_path: Path, node: str) -> None:
    out = tmp_path / "out"
    run = haptics("run", "corner_peg", "--mode", "lockstep", *LONG, "--out", str(out), *settings(*ASYNCHRONOUS))
    wait_until(started(out), "the first chunk")
    (victim,) = [pid for pid in processes_of(str(out)) if pid in processes_of(f"__node:={node} ")]
    os.kill(victim, signal.SIGKILL)
    assert run.wait() == 1
    assert f"{node} ended early (killed by SIGKILL); its last lines:" in run.err
    recorded = topics(out)
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "failed" and node in summary["reason"]
    assert summary["ticks"] >= 50  # the first chunk holds more
    assert len(recorded["device_state"].messages) >= summary["ticks"]
    assert not processes_of(str(out))


def test_ctrl_c_closes_the_bag_and_writes_the_summary(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = haptics("run", "corner_peg", "--mode", "lockstep", *LONG, "--out", str(out))
    wait_until(started(out), "the first chunk")
    run.interrupt()
    assert run.wait() == 130, run.err
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "interrupted" and summary["ticks"] > 0
    recorded = topics(out)
    assert len(recorded["trial_events"].messages) == 1
    assert len(recorded["device_state"].messages) == summary["ticks"] + 1
    assert (out / "samples.csv").read_text().count("\n") == summary["ticks"] + 1
    assert not processes_of(str(out))


def test_ctrl_c_while_the_nodes_start(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = haptics("run", "corner_peg", "--mode", "lockstep", *LONG, "--out", str(out))
    wait_until(lambda: (out / "log" / "driver.log").exists(), "the driver's log")
    run.interrupt()
    assert run.wait() == 130, run.err
    assert json.loads((out / "summary.json").read_text())["status"] == "interrupted"


def test_nodes_end_when_the_runner_is_killed(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = haptics("run", "corner_peg", "--mode", "lockstep", *LONG, "--out", str(out))
    wait_until(started(out), "the first chunk")
    run.process.kill()
    run.process.wait()
    wait_until(lambda: not processes_of(str(out)), "the nodes to end")
    assert bag.repair(out / "bag") > 0


def test_two_trials_side_by_side_do_not_meet(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    runs = [
        haptics(
            "run",
            "corner_peg",
            "--duration",
            "1",
            "--out",
            str(tmp_path / name),
            *settings(f"contact.stiffness={k}"),
        )
        for name, k in (("one", 4000), ("two", 2000))
    ]
    for run in runs:
        assert run.wait() == 0, run.err
    for name in ("one", "two"):
        verify = haptics("replay", str(tmp_path / name), "--verify")
        assert verify.wait() == 0, verify.out + verify.err


def test_a_recorded_trial_is_played_back(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert haptics("run", "corner_peg", "--mode", "offline", "--duration", "0.2", "--out", str(out)).wait() == 0
    play = haptics("replay", str(out))
    assert play.wait() == 0, play.err
    count = sum(len(topic.messages) for topic in topics(out).values())
    assert play.out == f"{count} messages\n"
