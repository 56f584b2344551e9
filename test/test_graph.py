"""The servo graph as real processes in lockstep: topics, bits, failures, interruptions."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Haptics, answer, processes_of, wait_until

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

import graph_checks as graph
from graph_checks import ASYNCHRONOUS, started, topics

from haptic_bench.recording import bag
from haptic_ros import process

SHORT = ("--duration", "0.05", "--set", "analysis=trial")
LONG = ("--duration", "3000", "--set", "analysis=trial")


def settings(*pairs: str) -> list[str]:
    return [part for pair in pairs for part in ("--set", pair)]


TURNING = (
    "operator.type=sine",
    "operator.amplitude=[1,2,0,0,0,0.01]",
    "operator.frequency=3",
    "device.impulse_rendering=spread",
)


@pytest.mark.parametrize(
    "changes",
    [(), *(pytest.param(changes, marks=pytest.mark.exhaustive) for changes in (TURNING, ASYNCHRONOUS))],
    ids=["synchronous", "turning", "asynchronous"],
)
def test_lockstep_and_offline_give_the_same_bits(
    haptics: Callable[..., Haptics], tmp_path: Path, changes: tuple[str, ...]
) -> None:
    graph.check_lockstep_is_offline(haptics, tmp_path, "corner_peg", "--duration", "1.5", *settings(*changes))
    summary = json.loads((tmp_path / "lockstep" / "summary.json").read_text())
    assert (summary["mode"], summary["ticks"]) == ("lockstep", 769)


@pytest.mark.exhaustive
def test_lockstep_and_offline_give_the_same_bits_in_a_world_of_mujoco(
    haptics: Callable[..., Haptics], tmp_path: Path
) -> None:
    pytest.importorskip("mujoco")
    graph.check_lockstep_is_offline(haptics, tmp_path, "mujoco_drawer", "--duration", "1.2")


def segments_of(out: Path) -> set[Path]:
    """The middleware's segments in shared memory that the processes of a trial use; its numbered ports last."""
    used = ""
    for pid in processes_of(str(out)):
        with contextlib.suppress(OSError):  # it has ended
            used += Path(f"/proc/{pid}/maps").read_text()
    return {Path(name) for name in re.findall("/dev/shm/fastrtps_[0-9a-f]+", used)}


needs_shared_memory = pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no shared memory to look at")


@needs_shared_memory
@pytest.mark.parametrize("flags", [[], ["--composed"]], ids=["graph", "composed"])
def test_a_trial_leaves_nothing_in_shared_memory(
    haptics: Callable[..., Haptics], tmp_path: Path, flags: list[str]
) -> None:
    out = tmp_path / "out"
    run = haptics("run", "corner_peg", "--mode", "lockstep", *LONG, *flags, "--out", str(out))
    wait_until(started(out), "the first chunk")
    segments = segments_of(out)
    assert segments
    run.interrupt()
    assert run.wait() == 130, run.err
    assert not {one for one in segments if one.exists()}


@pytest.fixture
def observer() -> Iterator[graph.rclpy.node.Node]:
    """A node of the test's own, spun in a thread."""
    with graph.observer() as node:
        yield node


def never_look() -> None:
    """In a process, and in its forks: a node ends because a signal wakes it, not because it looks now and then."""
    process.POLL_PERIOD = 3600.0


def test_the_graph_shows_topics_states_and_parameters(
    haptics: Callable[..., Haptics], tmp_path: Path, observer: graph.rclpy.node.Node
) -> None:
    out = tmp_path / "out"
    run = haptics("run", "corner_peg", *LONG, "--out", str(out), *settings(*ASYNCHRONOUS), before=never_look)
    wait_until(started(out), "the first chunk")
    namespace = graph.check_topics(observer)
    graph.check_states(observer, namespace)
    graph.check_parameters(observer, namespace)
    run.interrupt()
    assert run.wait() == 130, run.err
    graph.check_interrupted(out, changed=1)


@pytest.mark.parametrize(
    "node",
    [n if n == "driver" else pytest.param(n, marks=pytest.mark.exhaustive) for n in graph.NODES],
)
def test_a_node_that_dies_ends_the_run(haptics: Callable[..., Haptics], tmp_path: Path, node: str) -> None:
    out = tmp_path / "out"
    run = haptics("run", "corner_peg", "--mode", "lockstep", *LONG, "--out", str(out), *settings(*ASYNCHRONOUS))
    wait_until(started(out), "the first chunk")
    segments = segments_of(out)
    graph.kill(out, node)
    assert run.wait() == 1
    assert segments and not {one for one in segments if one.exists()}, "the runner removes them"
    assert f"{node} ended early (killed by SIGKILL); its last lines:" in run.err
    graph.check_failed(out, node)


def test_ctrl_c_closes_the_bag_and_writes_the_summary(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = haptics("run", "corner_peg", "--mode", "lockstep", *LONG, "--out", str(out))
    wait_until(started(out), "the first chunk")
    run.interrupt()
    assert run.wait() == 130, run.err
    graph.check_interrupted(out)


def test_ctrl_c_while_the_nodes_start(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = haptics("run", "corner_peg", "--mode", "lockstep", *LONG, "--out", str(out))
    wait_until(lambda: (out / "log" / "driver.log").exists(), "the driver's log")
    run.interrupt()
    assert run.wait() == 130, run.err
    assert json.loads((out / "summary.json").read_text())["status"] == "interrupted"


def test_ports_that_a_killed_process_has_left_do_not_block_a_start(
    haptics: Callable[..., Haptics], tmp_path: Path
) -> None:
    """Each process that opens a port which another one has begun to make, and not finished, would wait for ever."""
    first = 7400 + 250 * int(os.environ["ROS_DOMAIN_ID"])
    ports = [Path("/dev/shm") / f"fastrtps_port{first + i}" for i in range(10, 30)]
    left = [port for port in ports if not port.exists()]
    for port in left:
        port.write_bytes(bytes(52400))
        os.utime(port, (time.time() - 60.0, time.time() - 60.0))
    try:
        run = haptics("run", "corner_peg", "--mode", "lockstep", *SHORT, "--out", str(tmp_path / "out"))
        assert run.wait() == 0, run.err
    finally:
        for port in left:
            port.unlink(missing_ok=True)


def test_nodes_end_when_the_runner_is_killed(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = haptics("run", "corner_peg", "--mode", "lockstep", *LONG, "--out", str(out))
    wait_until(started(out), "the first chunk")
    run.process.kill()
    run.process.join()
    wait_until(lambda: not processes_of(str(out)), "the nodes to end")
    assert bag.repair(out / "bag") > 0


@pytest.mark.exhaustive
def test_two_trials_side_by_side_do_not_meet_and_the_second_has_a_number(
    haptics: Callable[..., Haptics], tmp_path: Path
) -> None:
    """A trial has the name of its experiment; one that comes while it runs has that name with a number."""
    runs = [
        haptics("run", "corner_peg", "--mode", "lockstep", *LONG, "--out", str(tmp_path / name), *settings(stiffness))
        for name, stiffness in (("one", "contact.stiffness=4000"), ("two", "contact.stiffness=2000"))
    ]
    for name in ("one", "two"):
        wait_until(started(tmp_path / name), "the first chunk")
    for run in runs:
        run.interrupt()
        assert run.wait() == 130, run.err
    found = {json.loads((tmp_path / name / "summary.json").read_text())["namespace"] for name in ("one", "two")}
    assert found == {"/corner_peg", "/corner_peg_2"}
    assert all(set(bag.read(tmp_path / name / "bag")) >= {"/corner_peg/tool_state"} for name in ("one", "two"))
    for name in ("one", "two"):
        verify = answer("replay", str(tmp_path / name), "--verify")
        assert verify.status == 0, verify.out + verify.err


def test_a_recorded_trial_is_played_back(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert answer("run", "corner_peg", "--mode", "offline", *SHORT, "--out", str(out)).status == 0
    play = haptics("replay", str(out))
    assert play.wait() == 0, play.err
    count = sum(len(topic.messages) for topic in topics(out).values())
    assert play.out == f"{count} messages\n"


def test_a_part_is_played_to_a_subscriber_in_the_namespace_of_the_trial(
    haptics: Callable[..., Haptics], tmp_path: Path
) -> None:
    out, name = tmp_path / "out", "lab/of_this_test"
    arguments = ("--mode", "lockstep", "--duration", "0.5", "--namespace", name, *settings("analysis=trial"))
    run = haptics("run", "corner_peg", *arguments, "--out", str(out))
    assert run.wait() == 0, run.err
    assert set(bag.read(out / "bag")) >= {f"/{name}/device_state", f"/{name}/tool_state"}
    assert json.loads((out / "summary.json").read_text())["namespace"] == f"/{name}"
    from haptics.msg import DeviceState

    ticks: list[int] = []
    with graph.observer() as observer:
        observer.create_subscription(
            DeviceState, f"/{name}/device_state", lambda message: ticks.append(message.tick), 1000
        )
        part = ("--wait", "1", "--rate", "2", "--from", "0.125", "--to", "0.25")
        play = haptics("replay", str(out), *part)
        assert play.wait() == 0, play.err
        wait_until(lambda: len(ticks) == 65, "all messages of the part")
        assert ticks == list(range(64, 129))  # at 512 Hz
        ticks.clear()
        again = haptics("replay", str(out), "--wait", "1", "--to", "0.1", "--loop", "--rate", "10")
        wait_until(lambda: ticks.count(0) > 2, "the third time")
        again.interrupt()
        assert again.wait() == 130, again.err
