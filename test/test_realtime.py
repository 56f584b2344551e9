"""Realtime and composed: what is measured, what goes to zero force, what is refused. Nothing here depends on speed."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Haptics, answer, processes_of, wait_until

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

from diagnostic_msgs.msg import DiagnosticArray  # noqa: E402
from graph_checks import ask, check_simulated_again  # noqa: E402
from haptics.msg import DeviceCommand  # noqa: E402
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue  # noqa: E402
from rcl_interfaces.srv import SetParameters  # noqa: E402
from test_graph import ASYNCHRONOUS, LONG, observer, settings, started, topics  # noqa: E402, F401

from haptic_bench import experiment  # noqa: E402
from haptic_bench.recording.samples import MessageStore  # noqa: E402
from haptic_bench.recording.trial_bag import read_messages  # noqa: E402
from haptic_bench.replay.resimulation import resimulate  # noqa: E402
from haptic_ros import realtime  # noqa: E402
from haptic_ros.graph import EVENTS, ROLES, graph_of  # noqa: E402
from haptic_sim.messages import TOPICS, DeviceState, columns  # noqa: E402
from haptic_sim.nodes.environment import EnvironmentNode  # noqa: E402
from haptic_sim.nodes.tool import ToolNode  # noqa: E402

SECOND = 1_000_000_000  # [ns]


# Deadlines and figures


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A monotonic clock that shows what its one entry says [ns]."""
    now = [5 * SECOND]
    monkeypatch.setattr(realtime.time, "monotonic_ns", lambda: now[0])
    yield now


def test_deadlines_are_absolute(clock: list[int]) -> None:
    deadlines = realtime.Deadlines(1000.0)
    clock[0] += 700_000
    assert deadlines.until(1) == 300_000  # not a period from now
    clock[0] += 900_000
    assert deadlines.until(1) == -600_000
    assert deadlines.settle(1) == 0 and deadlines.until(2) == 400_000  # late, but no period was lost


def test_a_loop_that_is_periods_late_moves_its_deadlines_on(clock: list[int]) -> None:
    deadlines = realtime.Deadlines(1000.0)
    clock[0] += 4_300_000
    assert deadlines.settle(1) == 3
    assert deadlines.until(1) == -300_000
    assert deadlines.until(2) == 700_000
    assert deadlines.skipped == 3


def test_the_summary_of_known_figures() -> None:
    watch = realtime.Stopwatch(6, 4000.0)
    watch.begun[:5] = [0, 1_000_000, 2_000_000, 3_000_000, 6_000_000]
    watch.round_trip[:5] = [100_000, -1, 300_000, 200_000, -1]  # the third took longer than a period
    watch.skipped = 2
    assert watch.summary(5) == {
        "period_p50": pytest.approx(1e-3),
        "period_p99": pytest.approx(np.percentile([1e-3, 1e-3, 1e-3, 3e-3], 99)),
        "round_trip_p50": pytest.approx(2e-4),
        "round_trip_p99": pytest.approx(np.percentile([1e-4, 2e-4, 3e-4], 99)),
        "missed": 3,
        "skipped_periods": 2,
    }
    assert realtime.Stopwatch(3, 1000.0).summary(0)["period_p99"] is None


def test_without_permission_the_reason_and_the_remedy_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    got, reason = realtime.prioritise()
    assert got == "SCHED_OTHER, timer slack 1 ns"
    assert "no permission for real-time priority" in reason and "rtprio 99" in reason


@pytest.mark.parametrize(("cores", "where"), [({0, 2, 5}, " on core 5"), ({3}, "")])
def test_servo_threads_share_the_last_core_and_the_nearest_to_the_device_comes_first(
    monkeypatch: pytest.MonkeyPatch, cores: set[int], where: str
) -> None:
    priorities, deliveries, moved = [], [], []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: cores)
    monkeypatch.setattr(os, "sched_setscheduler", lambda _, policy, param: priorities.append(param.sched_priority))
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: os.SCHED_FIFO)  # nothing else is of ordinary priority
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, core: moved.append(core))
    monkeypatch.setattr(realtime, "prioritise_delivery", lambda *which: deliveries.append(which))
    ranks = [ROLES[name].rank for name in ("environment", "controller", "driver")]
    assert [realtime.prioritise(rank)[0] for rank in ranks] == [f"SCHED_FIFO {p}{where}" for p in (50, 52, 54)]
    assert priorities == [50, 52, 54]
    assert deliveries == [(priority, {5} if where else set()) for priority in (51, 53, 55)]
    assert moved == ([{5}] * 3 if where else [])


@pytest.mark.parametrize(("cores", "where"), [({0, 2, 5}, " on core 2"), ({0, 1}, " on core 0"), ({3}, "")])
def test_a_world_behind_a_relay_has_a_core_of_its_own(
    monkeypatch: pytest.MonkeyPatch, cores: set[int], where: str
) -> None:
    for name, returned in (("getaffinity", cores), ("setscheduler", None), ("setaffinity", None)):
        monkeypatch.setattr(os, f"sched_{name}", lambda *_, returned=returned: returned)
    monkeypatch.setattr(realtime, "_prioritise_rest", lambda _: None)
    monkeypatch.setattr(realtime, "prioritise_delivery", lambda *_: None)
    names = ("driver", "device_relay", "world_relay", "controller", "environment", "recorder")
    graph = graph_of(names)
    assert [graph.loop_of(graph.role(name)) for name in names[:5]] == [0, 0, 1, 1, 1]
    assert realtime.prioritise(1, 1)[0] == f"SCHED_FIFO 52{where}"
    together = graph_of(("driver", "controller", "environment", "recorder"))
    assert not any(together.loop_of(together.role(name)) for name in together.nodes)


@pytest.mark.parametrize(
    ("cores", "loop", "loops", "own", "shared"),
    [
        ({0, 2, 5}, 0, 1, 2, 5),
        ({0, 2, 5}, 1, 2, 0, 2),
        ({0, 2}, 0, 1, 0, 2),
        ({0, 2}, 1, 2, None, 0),
        ({2}, 0, 1, None, None),
    ],
)
def test_a_world_has_a_core_of_its_own_while_it_takes_much_of_one(
    monkeypatch: pytest.MonkeyPatch, cores: set[int], loop: int, loops: int, own: int | None, shared: int | None
) -> None:
    moved: list[tuple[int, set[int]]] = []
    now, taken = [0], [0]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: cores)
    monkeypatch.setattr(os, "sched_setaffinity", lambda thread, core: moved.append((thread, core)))
    monkeypatch.setattr(realtime, "_delivery_threads", lambda: [77])
    monkeypatch.setattr(realtime.time, "monotonic_ns", lambda: now[0])
    monkeypatch.setattr(realtime.time, "thread_time_ns", lambda: taken[0])
    share = realtime.CoreShare(loop, loops)
    share.begin()
    node = ToolNode.__new__(ToolNode)
    node.refused, node._core_share = 0, share
    node.scheduler = realtime.on_core("SCHED_FIFO 50", realtime.servo_core(loop))  # what `prioritise` has said

    def named() -> object:
        """The core that /diagnostics names."""
        return node.health()[1]["scheduler"]

    def core_after(part: float, ticks: int = 100) -> set[int] | None:
        """Where the thread is after it has taken this part of a core for some ticks; None: it was not moved."""
        moved.clear()
        for tick in range(ticks):
            now[0] += 1_000_000
            taken[0] += round(1_000_000 * part)
            share.look(tick)
        assert [thread for thread, _ in moved] in ([], [0, 77])
        return moved[0][1] if moved else None

    if own is None:
        assert not moved and core_after(0.9) is None
        assert named() == "SCHED_FIFO 50" + (f" on core {shared}" if shared is not None else "")
        return
    assert moved == [(0, {own}), (77, {own})] and named() == f"SCHED_FIFO 50 on core {own}"
    now[0] += 10_000_000_000  # it waits for the first tick
    assert core_after(0.9) is None
    assert core_after(0.1) == {shared} and named() == f"SCHED_FIFO 50 on core {shared}"
    assert core_after(0.35) is None  # neither much nor little: it stays
    assert core_after(0.5) == {own} and named() == f"SCHED_FIFO 50 on core {own}"
    assert core_after(0.35) is None


def test_nodes_of_a_lockstep_trial_share_a_core_and_trials_are_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[tuple[int, set[int]]] = []
    cores = {1, 2, 5}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: cores)
    monkeypatch.setattr(os, "sched_setaffinity", lambda thread, core: moved.append((thread, core)))
    monkeypatch.setattr(realtime, "_delivery_threads", lambda: [77, 78])
    core = realtime.share_core("/door")
    assert core in cores and moved == [(thread, {core}) for thread in (0, 77, 78)]
    assert realtime.share_core("/door") == core  # as in each other process
    assert {realtime.share_core(f"/door_{i}") for i in range(50)} == cores
    moved.clear()
    cores = {3}
    assert realtime.share_core("/door") is None and not moved


def test_surveys_are_made_beside_the_servo_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[bool] = []
    monkeypatch.setattr(ToolNode, "raise_priority", lambda node: raised.append(node.asynchronous))
    node = EnvironmentNode.__new__(EnvironmentNode)
    for node.asynchronous in (True, False):
        node.raise_priority()
    assert raised == [False]


# Trials


@pytest.mark.parametrize(
    ("flags", "changes"),
    [
        pytest.param([], (), id="graph"),
        pytest.param(["--composed"], ASYNCHRONOUS, id="composed asynchronous"),
        pytest.param([], ASYNCHRONOUS, id="asynchronous", marks=pytest.mark.exhaustive),
        pytest.param(["--composed"], (), id="composed", marks=pytest.mark.exhaustive),
    ],
)
def test_a_realtime_trial_has_all_its_ticks_and_simulates_again(
    haptics: Callable[..., Haptics], tmp_path: Path, flags: list[str], changes: tuple[str, ...]
) -> None:
    out = tmp_path / "out"
    slow = settings("rate=200", "health.missed_share=1", "analysis=trial", *changes)  # on a machine that may stall
    before = time.time_ns()
    run = haptics("run", "corner_peg", "--mode", "realtime", "--duration", "1", *flags, *slow, "--out", str(out))
    assert run.wait() == 0, run.err
    check_stamps(out, before, time.time_ns())
    summary = json.loads((out / "summary.json").read_text())
    timing = summary["timing"]
    assert set(timing) >= {
        "period_p50",
        "period_p99",
        "round_trip_p50",
        "round_trip_p99",
        "missed",
        "lost_messages",
        "scheduler",
    }
    assert timing["period_p50"] == pytest.approx(0.005, rel=0.2)  # it cannot be faster, and is late together
    recorded = read_messages(out)
    assert len(recorded["device_state"]) + timing["lost_messages"] >= 201
    verdict = resimulate(experiment.read_resolved(out / "experiment.yaml"), recorded)
    check_simulated_again(recorded, verdict)
    verify = answer("replay", str(out), "--verify")
    assert verify.status == 0, verify.out


def check_stamps(out: Path, before: int, after: int) -> None:
    """All messages of a trial at 200 Hz are stamped and stored with the time of the system's clock [ns]."""
    period = 5_000_000  # [ns]
    of_device: dict[int, int] = {}
    for topic, stored in topics(out).items():
        assert before <= stored.log_times.min() and stored.log_times.max() <= after, topic
        if topic == EVENTS:
            continue
        messages = columns(TOPICS[topic].of_layout(stored.messages[0], 1000), stored.messages)
        messages = messages[np.argsort(messages["tick"])]
        stamps = messages["sec"].astype(np.int64) * SECOND + messages["nanosec"]
        assert before <= stamps.min() and stamps.max() <= after + period, topic  # a tool's is that of the tick's end
        if topic == "device_command":
            np.testing.assert_array_equal(stamps, [of_device[tick] for tick in messages["device_tick"].tolist()])
            continue
        assert np.all(np.diff(stamps) > 0), topic
        if topic == "device_state":
            of_device = dict(zip(messages["tick"].tolist(), stamps.tolist(), strict=True))
            assert stamps[-1] - stamps[0] >= (len(stamps) - 1) * period - period


@pytest.mark.parametrize(
    "changes", [(), pytest.param(ASYNCHRONOUS, marks=pytest.mark.exhaustive)], ids=["synchronous", "asynchronous"]
)
def test_composed_and_offline_give_the_same_bits(
    haptics: Callable[..., Haptics], tmp_path: Path, changes: tuple[str, ...]
) -> None:
    arguments = ("run", "corner_peg", "--duration", "1", *settings("analysis=trial", *changes))
    run = haptics(*arguments, "--mode", "lockstep", "--composed", "--out", str(tmp_path / "composed"))
    done = answer(*arguments, "--mode", "offline", "--out", str(tmp_path / "offline"))
    assert (run.wait(), done.status) == (0, 0), run.err + done.err
    for name in ("samples.csv", "bag/bag_0.mcap"):
        assert (tmp_path / "composed" / name).read_bytes() == (tmp_path / "offline" / name).read_bytes()


def test_resimulation_finds_what_was_changed() -> None:
    (trial,) = experiment.load("corner_peg", ["guard.type=none"], duration=1.0)
    store = MessageStore()
    from haptic_bench.running.offline import simulate

    simulate(trial, store)
    whole = resimulate(trial, store.messages)
    assert whole.difference == "" and not whole.unverified
    assert whole.compared == 514 + 514 + 513 + 513 + 57  # a world state every 9 ticks
    forged = bytearray(store.messages["tool_state"][100])
    at = 4 + trial_tool_offset("pose")
    forged[at] ^= 1
    store.messages["tool_state"][100] = bytes(forged)
    assert resimulate(trial, store.messages).difference == "ToolState of tick 99: pose differs"
    del store.messages["tool_state"][100]
    lost = resimulate(trial, store.messages)
    assert lost.difference == "" and "tool_state from tick 99 on: it was not recorded" in lost.unverified


def trial_tool_offset(name: str) -> int:
    from haptic_sim.messages import ToolState

    return ToolState(q=3, v=3, constraint_directions=36).offsets[name][0]


@pytest.mark.exhaustive
@pytest.mark.parametrize("flags", [[], ["--composed"]], ids=["graph", "composed"])
def test_a_trial_whose_parameters_were_changed_simulates_again(
    haptics: Callable[..., Haptics],
    tmp_path: Path,
    observer: Any,  # noqa: F811
    flags: list[str],
) -> None:
    diagnostics = Diagnostics(observer)
    out = tmp_path / "out"
    slow = settings("rate=200")
    run = haptics("run", "corner_peg", "--mode", "realtime", *flags, *LONG, *slow, "--out", str(out))
    wait_until(started(out), "the first chunk")
    wait_until(lambda: diagnostics.name, "the driver's diagnostics")
    namespace = diagnostics.name.partition(":")[0].rpartition("/")[0]
    changes = {
        "environment": Parameter(
            name="contact.stiffness", value=ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=2500.1)
        ),
        "controller": Parameter(
            name="controller.damping",
            value=ParameterValue(type=ParameterType.PARAMETER_DOUBLE_ARRAY, double_array_value=[60.0, 65.0, 0.3]),
        ),
    }
    for node, parameter in changes.items():
        request = SetParameters.Request(parameters=[parameter])
        assert ask(observer, SetParameters, f"{namespace}/{node}/set_parameters", request).results[0].successful
    size = (out / "bag" / "bag_0.mcap").stat().st_size
    wait_until(lambda: (out / "bag" / "bag_0.mcap").stat().st_size > size + 100_000, "ticks after it")
    run.interrupt()
    assert run.wait() == 130, run.err
    recorded = read_messages(out)
    trial = experiment.read_resolved(out / "experiment.yaml")
    verdict = resimulate(trial, recorded)
    assert verdict.difference == "" and verdict.compared > 100
    del recorded["trial_events"][:2]
    assert resimulate(trial, recorded).difference, "the changes were seen"
    verify = answer("replay", str(out), "--verify")
    assert verify.status == 0, verify.out


class Diagnostics:
    """The latest values that the driver gives on /diagnostics."""

    def __init__(self, node: Any):
        self.values: dict[str, str] = {}
        self.name = ""
        node.create_subscription(DiagnosticArray, "/diagnostics", self._take, 50)

    def _take(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.hardware_id == "driver":
                self.name = status.name
                self.values = {pair.key: pair.value for pair in status.values}

    def count(self, key: str) -> int:
        """A counter; 0 before the first message."""
        return int(self.values.get(key, "0"))


@pytest.mark.exhaustive
def test_a_driver_without_commands_goes_to_zero_force_and_back(
    haptics: Callable[..., Haptics],
    tmp_path: Path,
    observer: Any,  # noqa: F811
) -> None:
    diagnostics = Diagnostics(observer)
    out = tmp_path / "out"
    run = haptics("run", "corner_peg", "--mode", "realtime", *LONG, "--out", str(out), *settings("rate=200"))
    wait_until(started(out), "the first chunk")
    before = diagnostics.count("ticks without force")
    (controller,) = [pid for pid in processes_of(str(out)) if pid in processes_of("__node:=controller ")]
    os.kill(controller, signal.SIGSTOP)
    try:
        wait_until(lambda: diagnostics.count("ticks without force") > before + 10, "ticks without force")
    finally:
        os.kill(controller, signal.SIGCONT)
    size = (out / "bag" / "bag_0.mcap").stat().st_size
    wait_until(lambda: (out / "bag" / "bag_0.mcap").stat().st_size > size + 200_000, "ticks after it")
    run.interrupt()
    assert run.wait() == 130, run.err
    states = columns(DeviceState(), topics(out)["device_state"].messages)
    states = states[np.argsort(states["tick"])]
    without = states["command_tick"] < 0
    without[0] = False  # before the first tick
    assert without.sum() > 10
    assert not states["rendered_wrench"][without].any()
    assert not without[-20:].any(), "it renders again"


def test_a_foreign_publisher_is_noticed_and_refused(
    haptics: Callable[..., Haptics],
    tmp_path: Path,
    observer: Any,  # noqa: F811
) -> None:
    diagnostics = Diagnostics(observer)
    out = tmp_path / "out"
    run = haptics("run", "corner_peg", "--mode", "realtime", *LONG, "--out", str(out), *settings("rate=200"))
    wait_until(started(out), "the first chunk")
    wait_until(lambda: diagnostics.name, "the driver's diagnostics")
    namespace = diagnostics.name.partition(":")[0].rpartition("/")[0]
    qos = rclpy.qos.QoSProfile(depth=1, reliability=rclpy.qos.ReliabilityPolicy.BEST_EFFORT)
    foreign = observer.create_publisher(DeviceCommand, f"{namespace}/device_command", qos)
    message = DeviceCommand()
    message.header.frame_id = "world"
    message.wrench.force.x = 1e6

    def noticed() -> bool:
        foreign.publish(message)
        return diagnostics.count("refused messages") > 0 and diagnostics.count("ticks without force") > 10

    wait_until(noticed, "the refusal")
    run.interrupt()
    assert run.wait() == 130, run.err
    states = columns(DeviceState(), topics(out)["device_state"].messages)
    assert np.abs(states["rendered_wrench"]).max() < 1e3
    assert "device_command has a foreign publisher" in (out / "log" / "driver.log").read_text()


@pytest.mark.parametrize(
    "flags", [[], pytest.param(["--composed"], marks=pytest.mark.exhaustive)], ids=["graph", "composed"]
)
def test_a_death_or_ctrl_c_ends_a_realtime_trial(
    haptics: Callable[..., Haptics], tmp_path: Path, flags: list[str]
) -> None:
    for end, status in (("kill", 1), ("interrupt", 130)):
        out = tmp_path / end
        run = haptics("run", "corner_peg", "--mode", "realtime", *LONG, *flags, "--out", str(out))
        wait_until(started(out), "the first chunk")
        if end == "kill":
            victim = "driver:__node:=driver " if flags else "__node:=driver "
            (pid,) = [pid for pid in processes_of(str(out)) if pid in processes_of(victim)]
            os.kill(pid, signal.SIGKILL)
        else:
            run.interrupt()
        assert run.wait() == status, run.err
        assert not processes_of(str(out))
        assert json.loads((out / "summary.json").read_text())["ticks"] > 0
        assert topics(out)["device_state"].messages
