"""Ticks with numbers beyond 32 bits: a loop that has run for weeks does what it does in its first seconds."""

from __future__ import annotations

import numpy as np
import pytest

from haptic_bench.experiment import load
from haptic_bench.running.offline import LoopOfHands, build_loop
from haptic_sim.messages import Message

RELAY = {"operator.type": "constant", "operator.wrench": [6.0, 0, 0, 0, 0, 0]}


def record(name: str, first: int, settings: dict[str, object], ticks: int = 60) -> list[bytes]:
    """Motion and wrenches of `ticks` ticks from an activation in the tick `first` on, with the ticks from there."""
    (trial,) = load(name, {"analysis": "trial", "duration": 1.0, **settings})
    loop = build_loop(trial.in_mode("offline"), lambda tick, messages: None)
    assert isinstance(loop, LoopOfHands)
    loop.ticks = first
    (hand,) = loop.hands
    hand.tool_state.tick = first - 1  # by which a tool counts its steps
    hand.driver.activate(first)
    found = []
    for tick in range(first, first + ticks):
        loop.step()
        state, command = hand.device_state, hand.device_command
        numbers: list[Message] = [state, command, hand.tool_command, hand.tool_state]
        assert [message.tick for message in numbers] == [tick] * 4
        assert state.nanoseconds == round(tick * 10**9 / trial.experiment.rate)
        values = (state.pose, state.twist, state.rendered_wrench, state.port_energy, command.wrench)
        ages = np.array([tick - one if one >= 0 else -1 for one in (state.reading_tick, state.command_tick)])
        found.append(b"".join(value.tobytes() for value in (*values, ages, np.array(state.reading_age))))
    return found


@pytest.mark.parametrize("first", [2**31 - 30, 2**32 - 30, 10**12])
@pytest.mark.parametrize("name, settings", [("corner_peg", {"guard.type": "passivity"}), ("delayed_wall", RELAY)])
def test_the_number_of_a_tick_changes_nothing(name: str, settings: dict[str, object], first: int) -> None:
    early = record(name, 1000, settings)
    late = record(name, first, settings)
    assert [k for k, (one, other) in enumerate(zip(early, late, strict=True)) if one != other] == []
    assert len(set(early)) > 40
