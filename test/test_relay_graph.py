"""A relay in the graph: the same bits in all modes without a clock, and a realtime trial that simulates again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import Haptics, answer

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

import graph_checks as graph

from haptic_bench import experiment
from haptic_bench.running.graph import node_specs
from haptic_control.nodes import relay
from haptic_ros.trial import ServoError
from haptic_sim.messages import DeviceCommand, DeviceState, columns

APART = ("relay.delay=0.01", "relay.jitter=0.006", "relay.loss=0.1", "relay.seed=5", "analysis=trial")


def settings(*pairs: str) -> list[str]:
    return [part for pair in pairs for part in ("--set", pair)]


@pytest.mark.parametrize(
    "flags", [[], pytest.param(["--composed"], marks=pytest.mark.exhaustive)], ids=["graph", "composed"]
)
def test_lockstep_and_offline_give_the_same_bits(
    haptics: Callable[..., Haptics], tmp_path: Path, flags: list[str]
) -> None:
    lockstep, offline = tmp_path / "lockstep", tmp_path / "offline"
    unguarded = settings(*APART, "health.active=expected")  # the delay makes it active
    arguments = ["run", "corner_peg", "--duration", "0.8", *unguarded]
    run = haptics(*arguments, "--mode", "lockstep", *flags, "--out", str(lockstep))
    done = answer(*arguments, "--mode", "offline", "--out", str(offline))
    assert done.status == 0, done.err
    assert run.wait() == 0, run.err
    graph.check_same_bits(lockstep, offline)
    assert {"relay_forward", "relay_backward"} <= set(graph.topics(lockstep))
    verified = answer("replay", "--verify", str(lockstep))
    assert verified.status == 0 and "identical, bit by bit" in verified.out


@pytest.mark.exhaustive
def test_a_realtime_trial_simulates_again_to_the_same_bits(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    run = haptics(
        "run",
        "corner_peg",
        "--mode",
        "realtime",
        "--duration",
        "1.0",
        *settings(*APART, "health.missed_share=1"),  # on a machine that may stall
        "--out",
        str(tmp_path / "out"),
    )
    assert run.wait() == 0, run.err
    verified = answer("replay", "--verify", str(tmp_path / "out"))
    assert verified.status == 0 and "identical, bit by bit" in verified.out
    commands = columns(DeviceCommand(), graph.topics(tmp_path / "out")["relayed_device_command"].messages)
    assert np.all(commands["device_tick"] < commands["tick"]), "the device waits for the world"


@pytest.mark.exhaustive
@pytest.mark.parametrize("guard", ["passivity", "wave", "tank"])
def test_a_guarded_relay_gives_the_same_bits_in_lockstep_and_offline(
    haptics: Callable[..., Haptics], tmp_path: Path, guard: str
) -> None:
    pairs = (f"guard.type={guard}", "relay.jitter=0.005", "relay.loss=0.1", "analysis=trial")
    graph.check_lockstep_is_offline(haptics, tmp_path, "delayed_wall", "--duration", "0.8", *settings(*pairs))


@pytest.mark.exhaustive
def test_a_guarded_realtime_trial_simulates_again_to_the_same_bits(
    haptics: Callable[..., Haptics], tmp_path: Path
) -> None:
    pairs = settings("analysis=trial", "health.missed_share=1")
    run = haptics(
        "run", "delayed_wall", "--mode", "realtime", "--duration", "1.0", *pairs, "--out", str(tmp_path / "out")
    )
    assert run.wait() == 0, run.err
    verified = answer("replay", "--verify", str(tmp_path / "out"))
    assert verified.status == 0 and "identical, bit by bit" in verified.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["corner_peg", "--side", "world"], "--side world: without a relay there are no sides"),
        (["delayed_wall", "--side", "device", "--mode", "offline"], "--side device: --mode offline has no nodes"),
        (["delayed_wall", "--side", "world", "--set", "seed=[1,2]"], "--side world: is for one trial"),
    ],
)
def test_what_has_no_two_sides_is_refused(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = answer("run", *arguments, "--out", str(tmp_path / "out"))
    assert done.status == 2 and said in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("composed", [False, True])
def test_each_node_is_on_one_side(tmp_path: Path, composed: bool) -> None:
    (trial,) = experiment.load("delayed_wall", ())
    names = {
        side: [name for spec in node_specs(trial, tmp_path, composed=composed, side=side) for name in spec.nodes]
        for side in ("", "device", "world")
    }
    assert names["device"] == ["driver", "device_relay", "recorder"]
    assert names["world"] == ["world_relay", "controller", "environment"]
    assert sorted(names[""]) == sorted(names["device"] + names["world"])


def test_the_world_ends_when_the_device_s_host_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(relay.time, "monotonic", lambda: now[0])
    node = object.__new__(relay.WorldRelayNode)
    node.config = SimpleNamespace(leads_side=True, patience=10.0, recorded=True, leader="driver")
    node._begun, node._last_received = -1, 0.0
    assert node.idle() is False, "the device may start later"
    monkeypatch.setattr(relay.RelayNode, "receive", lambda *_: setattr(node, "_begun", 7))
    node.receive("relay_forward", b"")
    now[0] += 9.9
    assert node.idle() is False
    node.receive("device_command", b"")  # of this side's own controller, which may be the user's
    from haptics.msg import TrialEvent
    from rclpy.serialization import serialize_message

    controller = TrialEvent(node="controller", name="closed")
    node.receive("trial_events", serialize_message(controller))
    now[0] += 0.2
    with pytest.raises(ServoError, match="the device's side was silent for 10 s, after tick 7"):
        node.idle()
    node.config.leads_side = False
    assert node.idle() is True, "a driver leads here"


def test_the_device_ends_when_the_world_s_host_has_gone() -> None:
    """The trial would go on without force to its end, while the world's side has given up: found by the campaign."""
    node = object.__new__(relay.DeviceRelayNode)
    node.config = SimpleNamespace(patience=10.0, rate=100.0, last_tick=10_000)
    node.realtime, node.endless, node._begun, node._ended = True, False, -1, -1
    state, command = DeviceState(), DeviceCommand()

    def answer_after_tick_7(state: DeviceState, command: DeviceCommand) -> None:
        command.device_tick = min(state.tick, 7)

    node._directions = (answer_after_tick_7, state, {"relayed_device_command": command}), (None, None, {})
    sent: list[str] = []
    node.send = lambda topic, message: sent.append(topic)

    def begin(tick: int) -> None:
        told = DeviceState()
        told.stamp(tick, 0)
        node._begin_tick("device_state", told.to_bytes())

    begin(7 + 1000)
    with pytest.raises(ServoError, match="the world's side was silent for 10 s, after tick 7"):
        begin(7 + 1001)
    node.endless = True
    begin(7 + 1002)
    assert len(sent) == 3
