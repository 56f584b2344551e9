"""Checks of a graph that runs or has ended, whether the built-in runner or ROS 2's launch started it.

test_graph.py starts the graph with the runner, launch/ with launch_testing.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import rclpy
from conftest import Haptics, answer, processes_of, wait_until
from lifecycle_msgs.srv import GetState
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import DescribeParameters, GetParameterTypes, SetParameters

from haptic_bench.recording import bag
from haptic_bench.replay.resimulation import Verdict
from haptic_ros.callbacks import CallbackThread
from haptic_sim.messages import TOPICS as MESSAGES
from haptic_sim.messages import columns, tick_place

ASYNCHRONOUS = ("local_model.type=full", "environment.rate=60")
NODES = ("driver", "controller", "local_model", "environment", "recorder")  # of an asynchronous experiment
TOPICS = {
    "device_state": "DeviceState",
    "tool_command": "ToolCommand",
    "tool_state": "ToolState",
    "device_command": "DeviceCommand",
    "local_geometry": "LocalGeometry",
    "trial_events": "TrialEvent",
}


def started(out: Path) -> Callable[[], bool]:
    """Whether the recorder has written a first chunk."""
    file = out / "bag" / "bag_0.mcap"
    return lambda: file.is_file() and file.stat().st_size > 100_000


def topics(out: Path) -> dict[str, bag.BagTopic]:
    """The topics of a trial's bag, by the last part of their names."""
    return {name.rpartition("/")[2]: topic for name, topic in bag.read(out / "bag").items()}


def ticks_of(recorded: dict[str, bag.BagTopic], topic: str) -> set[int]:
    """The ticks of which a message was recorded."""
    return set(columns(MESSAGES[topic](), recorded[topic].messages)["tick"].tolist())


def destroy(nodes: list[rclpy.node.Node]) -> None:
    """Destroy the nodes of a list, which nobody else may hold, and what the middleware has for them.

    Circles of references keep that, and many in one process may wait for each other's locks for ever.
    """
    while nodes:
        nodes.pop().destroy_node()
    rclpy.try_shutdown()
    gc.collect()


@contextlib.contextmanager
def observer(name: str = "observer", namespace: str = "") -> Iterator[rclpy.node.Node]:
    """A node of the test's own, spun in a thread.

    It shares no memory with the processes of the trial: one that is killed may leave a lock for which it would wait.
    """
    context = rclpy.Context()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "SUBNET")  # see data/fastdds_udp.xml
        context.init()
    node = rclpy.create_node(name, namespace=namespace, context=context)
    executor = rclpy.executors.SingleThreadedExecutor(context=context)
    executor.add_node(node)
    callbacks = CallbackThread(executor, name)
    callbacks.thread.start()
    try:
        yield node
    finally:
        callbacks.close()
        node.destroy_node()
        context.try_shutdown()


def ask(node: rclpy.node.Node, kind: type, name: str, request: object) -> object:
    """Call a service of the graph, once.

    A server drops its answer if it has not found the client 100 ms after the request. It finds the clients of a node in
    the order in which they were created: it has found this one when a later one is answered, which may ask again.
    """
    client = node.create_client(kind, name)
    later = node.create_client(GetParameterTypes, name.rpartition("/")[0] + "/get_parameter_types")
    wait_until(lambda: client.service_is_ready() and later.service_is_ready(), name)
    asked: list[rclpy.task.Future] = []

    def is_found() -> bool:
        if not asked or time.monotonic() - begun > len(asked):
            asked.append(later.call_async(GetParameterTypes.Request()))
        return any(future.done() for future in asked)

    begun = time.monotonic()
    wait_until(is_found, f"a first answer of {name}")
    future = client.call_async(request)
    wait_until(future.done, f"an answer of {name}")
    return future.result()


def check_simulated_again(recorded: Mapping[str, Sequence[bytes]], verdict: Verdict) -> None:
    """Every message of the servo loop was compared, up to the first that was not recorded, and agrees.

    What was left out is said, and for a message that is indeed not there.
    """
    assert verdict.difference == ""
    loop = ("device_state", "tool_command", "tool_state", "device_command")
    ticks = {topic: _ticks(recorded.get(topic, ())) for topic in (*loop, "local_geometry")}
    last = min(max(ticks[topic]) for topic in loop)
    # the first tick of which something is missing, or the end
    first = next((tick for tick in range(last) if any(tick not in ticks[topic] for topic in loop)), last)
    compared = sum(tick < first for topic in loop for tick in ticks[topic])
    assert compared > 0 and verdict.compared >= compared
    assert first == last or verdict.unverified
    for line in verdict.unverified:
        lost = re.search(r"(\w+) (-?\d+) is lost", line) or re.search(r"^(\w+) from tick (-?\d+) on: it was not", line)
        if lost is not None:
            assert int(lost[2]) not in ticks[lost[1]], line
        else:
            assert first < last, line


def _ticks(messages: Sequence[bytes]) -> set[int]:
    """Of serialised messages."""
    place = tick_place()
    return {int.from_bytes(data[place : place + 8], "little", signed=True) for data in messages}


def check_topics(node: rclpy.node.Node) -> str:
    """All topics come up, each with its type; returns the namespace of the graph."""

    def found() -> dict[str, str]:
        names = dict(node.get_topic_names_and_types())
        return {name.rpartition("/")[2]: name for name in names if name.startswith("/corner_peg")}

    wait_until(lambda: set(TOPICS) <= set(found()), "the topics")
    names = found()
    types = dict(node.get_topic_names_and_types())
    for topic, kind in TOPICS.items():
        assert types[names[topic]] == [f"haptics/msg/{kind}"]
    return names["device_state"].rpartition("/")[0]


def check_states(node: rclpy.node.Node, namespace: str) -> None:
    """All nodes are active."""
    for name in NODES:
        state = ask(node, GetState, f"{namespace}/{name}/get_state", GetState.Request())
        assert state.current_state.label == "active", name


def check_parameters(node: rclpy.node.Node, namespace: str) -> None:
    """Parameters have ranges and descriptions, can be changed or not, and a refusal says why."""
    described = ask(
        node,
        DescribeParameters,
        f"{namespace}/local_model/describe_parameters",
        DescribeParameters.Request(names=["contact.stiffness", "tool.mass"]),
    )
    stiffness, mass = described.descriptors
    assert stiffness.description.startswith("Stiffness of a penalty contact; left out in a world")
    assert stiffness.description.endswith(" [N/m]") and not stiffness.read_only
    assert (stiffness.floating_point_range[0].from_value, stiffness.floating_point_range[0].to_value) == (
        0.0,
        1e7,
    )
    assert mass.read_only

    def set_parameter(of: str, name: str, **value: object) -> object:
        parameter = Parameter(name=name, value=ParameterValue(**value))
        request = SetParameters.Request(parameters=[parameter])
        return ask(node, SetParameters, f"{namespace}/{of}/set_parameters", request).results[0]

    double, array = ParameterType.PARAMETER_DOUBLE, ParameterType.PARAMETER_DOUBLE_ARRAY
    assert set_parameter("local_model", "contact.stiffness", type=double, double_value=3000.0).successful
    refused = set_parameter("controller", "controller.stiffness", type=array, double_array_value=[1.0, -2.0, 3.0])
    assert not refused.successful
    assert refused.reason == "controller.stiffness[1] = -2: must be >= 0"
    assert not set_parameter("local_model", "tool.mass", type=double, double_value=3.0).successful


def kill(out: Path, node: str) -> None:
    """Kill a node of the trial in `out`."""
    (victim,) = [pid for pid in processes_of(str(out)) if pid in processes_of(f"__node:={node} ")]
    os.kill(victim, signal.SIGKILL)


def check_lockstep_is_offline(
    haptics: Callable[..., Haptics], folder: Path, *arguments: str, flags: tuple[str, ...] = ()
) -> None:
    """A run in lockstep, in `folder`/lockstep and with these flags, leaves what the same run does offline.

    Without the references of an analysis, which are simulated offline in either case.
    """
    lockstep, offline = folder / "lockstep", folder / "offline"
    arguments = ("run", *arguments, "--set", "analysis=trial")
    run = haptics(*arguments, "--mode", "lockstep", *flags, "--out", str(lockstep))
    done = answer(*arguments, "--mode", "offline", "--out", str(offline))
    assert done.status == 0, done.err
    assert run.wait() == 0, run.err
    check_same_bits(lockstep, offline)


def check_same_bits(out: Path, offline: Path) -> None:
    """A trial of the graph in lockstep left what the same trial offline did."""
    for name in ("samples.csv", "bag/bag_0.mcap", "bag/metadata.yaml"):
        assert (out / name).read_bytes() == (offline / name).read_bytes(), name


def check_failed(out: Path, node: str) -> None:
    """What a node's death left: the reason, what was recorded until then, no process."""
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "failed" and node in summary["reason"]
    assert summary["ticks"] >= 50  # the first chunk holds more
    assert len(topics(out)["device_state"].messages) >= summary["ticks"]
    assert not processes_of(str(out))


def check_interrupted(out: Path, changed: int = 0) -> None:
    """What an interruption left: a closed bag, samples of all of it, no process; so many parameters were changed."""
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "interrupted" and summary["ticks"] > 0
    recorded = topics(out)
    *changes, end = recorded["trial_events"].messages
    assert len(changes) == changed and all(b"changed" in event for event in changes) and b"interrupted" in end
    topics_of_rows = ("device_state", "device_command", "tool_state")
    states, commands, results = (ticks_of(recorded, topic) for topic in topics_of_rows)
    rows = {tick for tick in commands if {tick, tick + 1} <= states and {tick - 1, tick} <= results}
    assert summary["ticks"] == len(rows)
    if summary["mode"] == "lockstep":  # in realtime a tick may go unanswered
        assert rows == set(range(len(states) - 1))
    assert (out / "samples.csv").read_text().count("\n") == summary["ticks"] + 1
    assert not processes_of(str(out))
