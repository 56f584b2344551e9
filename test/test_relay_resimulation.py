"""A recorded relay in realtime is simulated again to the same bits, with messages that were late or lost."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field

import numpy as np
import pytest
from conftest import sampled

from haptic_bench import experiment
from haptic_bench.experiment import Trial
from haptic_bench.replay.resimulation import Verdict, resimulate
from haptic_control.relay.ends import DeviceEnd, WorldEnd
from haptic_control.soft_return import SoftReturn
from haptic_sim.messages import (
    NOTHING,
    TOPICS,
    BackwardPacket,
    DeviceCommand,
    DeviceState,
    ForwardPacket,
    Message,
    ToolCommand,
    columns,
    tick_time,
)

RELAYED = ("relay_forward", "relayed_device_state", "relay_backward", "relayed_device_command")
TICKS = 300
Bag = dict[str, list[bytes]]


@dataclass
class Graph:
    """A realtime graph with a relay, in which it is decided here who is late and what does not come.

    Args:
        trial: with a relay.
        rng: decides it.
        stall: ticks in which the world's side does nothing.
        drops: part of the messages between the ends that do not come, beside those that the channel loses.
    """

    trial: Trial
    rng: np.random.Generator
    stall: range = range(0)
    drops: float = 0.0
    bag: Bag = field(default_factory=dict)

    def run(self) -> Bag:
        """The messages of a trial, by topic."""
        experiment = self.trial.experiment
        rate, device = experiment.rate, experiment.device
        relay = experiment.relay, experiment.relay_guard, rate
        self.device_end = DeviceEnd(*relay, self.trial.coupled_inertias, realtime=True, watchdog=device.watchdog)
        self.world_end = WorldEnd(*relay, self.trial.hand.pose, realtime=True)
        self.controller = SoftReturn(experiment.controller.build(rate), experiment.limits.wrench_limit, rate)
        self.tool_side = self.trial.tool_side()
        self.tool_state = self.tool_side.tool_state()
        driver = self.trial.driver()
        state, packet, command = DeviceState(), ForwardPacket(), DeviceCommand()
        self.record("tool_state", self.tool_state)
        forth: deque[bytes] = deque(maxlen=64)
        back: deque[bytes] = deque()
        for tick in range(TICKS):
            driver.sense(tick, state, tick_time(tick, rate) + int(self.rng.integers(200_000)))
            self.record("device_state", state)
            while back and self.rng.random() < 0.7:
                self.receive(back.popleft())
            self.device_end.answer(state, packet, command)
            self.record("relay_forward", packet)
            self.record("relayed_device_command", command)
            if self.rng.random() >= self.drops:
                forth.append(packet.to_bytes())
            if self.rng.random() < 0.7 and tick not in self.stall:
                self.work(forth, back)
            driver.follow(command)
        driver.sense(TICKS, state, tick_time(TICKS, rate))
        self.record("device_state", state)
        return self.bag

    def record(self, topic: str, message: Message) -> None:
        self.bag.setdefault(topic, []).append(message.to_bytes())

    def receive(self, data: bytes) -> None:
        packet = BackwardPacket()
        packet.load(data)
        if self.rng.random() >= self.drops:
            self.device_end.take_packet(packet)

    def work(self, forth: deque[bytes], back: deque[bytes]) -> None:
        """The world's side takes what has come; the controller takes the newest state alone."""
        packet, state = ForwardPacket(), DeviceState()
        command, answer, reply = ToolCommand(), DeviceCommand(), BackwardPacket()
        while forth:
            packet.load(forth.popleft())
            self.world_end.state(packet, state)
            self.record("relayed_device_state", state)
            if forth and self.rng.random() < 0.8:
                continue
            self.controller.coordinate(state, self.tool_state, command)
            command.set_hand(state)
            self.record("tool_command", command)
            for tick in range(self.tool_state.tick + 1, command.tick + 1):
                self.tool_side.step(command, self.tool_state)
                self.record("tool_state", self.tool_state)
                self.controller.command(self.tool_state, answer)
                self.record("device_command", answer)
                if self.rng.random() >= self.drops:
                    self.world_end.backward(answer, reply)
                    self.record("relay_backward", reply)
                    back.append(reply.to_bytes())
                assert self.tool_state.tick == tick


def trial_of(guard: str, *more: str) -> Trial:
    apart = ("relay.delay=0.006", "relay.jitter=0.004", "relay.loss=0.1", "relay.seed=5")
    (trial,) = experiment.load("delayed_wall", [f"guard.type={guard}", "analysis=trial", *apart, *more])
    return trial.in_mode("realtime")


def check_same(verdict: Verdict) -> None:
    assert (verdict.difference, verdict.unverified) == ("", [])


@pytest.mark.long
@pytest.mark.parametrize("guard", sampled(["null", "none", "passivity", "wave", "tank"], "null", "wave"))
def test_whoever_is_late_the_same_bits_come_out(guard: str) -> None:
    trial = trial_of(guard)
    for seed in range(2):
        bag = Graph(trial, np.random.default_rng(seed), drops=0.05 * (seed % 2)).run()
        verdict = resimulate(trial, bag, whole=True)
        check_same(verdict)
        assert verdict.compared == sum(map(len, bag.values()))


def test_silence_of_the_world_ends_the_force_and_is_simulated_again() -> None:
    trial = trial_of("wave", "device.watchdog=0.02")
    bag = Graph(trial, np.random.default_rng(7), stall=range(100, 160)).run()
    commands = columns(DeviceCommand(), bag["relayed_device_command"])
    silent = commands["tick"] - commands["device_tick"] > 20
    assert silent[125:159].all() and not silent[:100].any() and not silent[240:].any()
    np.testing.assert_array_equal(commands["mode"] == NOTHING, silent)
    states = columns(DeviceState(), bag["device_state"])
    assert not states["rendered_wrench"][1:][silent].any()
    assert np.abs(states["rendered_wrench"][250:]).max() > 0.1, "it renders again"
    check_same(resimulate(trial, bag, whole=True))


@pytest.mark.long
def test_a_message_that_is_not_in_the_bag_is_no_difference() -> None:
    trial = trial_of("wave")
    bag = Graph(trial, np.random.default_rng(3), drops=0.05).run()
    rng = np.random.default_rng(4)
    said = 0
    for _ in range(20):
        lost = {topic: list(messages) for topic, messages in bag.items()}
        for topic in (*RELAYED, "device_command", "device_state"):
            del lost[topic][int(rng.integers(len(lost[topic])))]
        verdict = resimulate(trial, lost)
        assert verdict.difference == ""
        said += any("relay" in line for line in verdict.unverified)
        for line in verdict.unverified:
            found = re.search(r"(\w+) (\d+) is lost", line)
            assert found is None or int(found[2]) not in columns(TOPICS[found[1]](), lost[found[1]])["tick"], line
    assert said == 20


def test_a_tick_of_which_nothing_was_recorded_is_no_difference() -> None:
    trial = trial_of("passivity")
    bag = Graph(trial, np.random.default_rng(3)).run()
    for tick in (0, 100):
        lost = {
            topic: [
                data
                for data, at in zip(bag[topic], columns(TOPICS[topic](), bag[topic])["tick"], strict=True)
                if at != tick
            ]
            if topic in (*RELAYED, "device_command")
            else messages
            for topic, messages in bag.items()
        }
        verdict = resimulate(trial, lost)
        assert verdict.difference == "" and verdict.unverified


@pytest.mark.parametrize("topic", RELAYED)
def test_a_changed_message_is_a_difference(topic: str) -> None:
    trial = trial_of("wave")
    bag = Graph(trial, np.random.default_rng(3), drops=0.05).run()
    forged = bytearray(bag[topic][200])
    kind = TOPICS[topic]()
    name = "wrench" if "backward" in topic or "command" in topic else "pose"
    forged[4 + kind.offsets[name][0]] ^= 1
    bag[topic][200] = bytes(forged)
    assert resimulate(trial, bag, whole=True).difference
