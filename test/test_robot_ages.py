"""Ages go by the clock: a tick that comes late ends what has become too old, and ticks in a burst move nothing far."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_robot_engine import RATE, run, side
from test_robot_following import AT_ARM, AT_HAND, angle, follower, running, turned

from haptic_robot.adapters import CrispParameters
from haptic_robot.following import Following, Hand
from haptic_robot.simulated import SimulatedArm, SimulatedArmParameters

T = 1.0 / RATE
POSE = np.array([0.5, 0.1, 0.4, 0.0, 0.0, 0.0, 1.0])
FORCE = np.array([-4.0, 0.0, 0.0, 0.0, 0.0, 0.0])


def test_feedback_is_stale_in_the_tick_that_comes_too_late_for_it() -> None:
    one = running()
    for _ in range(4):
        assert one.step(Hand(AT_HAND), 0.0095) == Following.FOLLOWING  # 38 ms
    assert one.step(Hand(AT_HAND), 0.003) == Following.STALE
    one.feed(AT_ARM, 0.0401)  # taken now, but as old as that
    assert one.step(Hand(AT_HAND), T) == Following.STALE
    one.feed(AT_ARM, 0.039)
    assert one.step(Hand(AT_HAND), 0.06) == Following.FOLLOWING  # its age is of now
    assert one.step(Hand(AT_HAND), 0.0015) == Following.STALE


@given(st.lists(st.tuples(st.floats(0.0, 0.04), st.floats(-0.3, 0.3), st.floats(-2.0, 2.0)), max_size=60))
def test_in_no_tick_anything_changes_by_more_than_its_time_allows(ticks: list[tuple[float, float, float]]) -> None:
    """Nor by more than a period allows: command, commanded wrench, and gain of what is felt."""
    one = running(fade=0.1, deviation=(10.0, 4.0))
    hand = AT_HAND.copy()
    for elapsed, shift, turn in ticks:
        hand = turned(hand, (shift, -shift, shift, turn, 0.5 * turn, 0.0))
        command, wrench, gain = one.command.copy(), one.wrench.copy(), one.gain
        one.feed(one.command)
        assert one.step(Hand(hand), elapsed) == Following.FOLLOWING
        one.push(np.full(6, 100.0))
        allowed = min(elapsed, T)
        assert np.linalg.norm(one.command[:3] - command[:3]) <= 0.25 * allowed + 1e-12
        assert angle(one.command, command) <= 1.0 * allowed + 1e-9
        assert np.linalg.norm(one.wrench[:3] - wrench[:3]) <= 500.0 * allowed + 1e-9
        assert one.gain - gain <= allowed / 0.1 + 1e-12


def test_a_period_and_no_time_given_are_the_same() -> None:
    one, other = follower(), follower()
    hand = AT_HAND.copy()
    for tick in range(120):
        hand = turned(hand, (1e-3, -2e-3, 1e-3, 0.01, 0.0, -0.02))
        for each in (one, other):
            if tick < 40 or tick > 100:
                each.feed(AT_ARM if tick == 0 else each.command)
        assert one.step(Hand(hand)) == other.step(Hand(hand), T)
        assert one.gain == other.gain and (one.command == other.command).all()


class Clocked:
    """A side with a clock of the test, whose arm says where it is."""

    def __init__(self, **engine: Any):
        given = {"type": "ros_robot", "adapter": "crtk", "damping": [20.0, 0.1]} | engine
        self.side, self.state, self.command = side(**given)
        self.now, self.looked, self.says = 100.0, 100.0, True
        self.sent: list[np.ndarray] = []
        self.side.clock, self.side.listen, self.side.send = lambda: self.now, self._listen, self.take

    def _listen(self) -> None:
        if self.says:
            self.say()
        self.looked = self.now

    def say(self) -> None:
        """Send feedback, of the time `looked`."""
        self.side.receive("measured_cp", "", POSE, self.looked)
        self.side.receive("measured_cf", "", FORCE, self.looked)

    def take(self, sent: Any) -> None:
        """Take a command."""
        self.sent.append(sent.values.copy())

    def tick(self, elapsed: float = T, commanded: bool = True) -> Following:
        """A tick so much later than the last; with the next command of the controller, or with the last one."""
        self.now += elapsed
        if commanded:
            self.command.stamp(self.state.tick + 1, 0)
        self.side.step(self.command, self.state)
        return self.side.following


def test_what_came_during_a_stall_is_as_old_as_the_stall_until_more_comes() -> None:
    """A process that was stopped for longer than its watchdogs does not know how old that is which it finds then."""
    one = Clocked()
    for _ in range(300):
        one.tick()
    assert one.side.following == Following.FOLLOWING
    assert one.state.wrench[0] == pytest.approx(FORCE[0])
    assert one.tick(0.035) == Following.FOLLOWING
    assert one.tick(0.045) == Following.STALE and not one.state.wrench.any()
    assert one.tick() == Following.FOLLOWING
    assert abs(one.state.wrench[0]) <= abs(FORCE[0]) * T / 0.2 + 1e-12  # it begins from zero


def test_an_arm_that_falls_silent_is_held_in_the_first_tick_after_the_watchdog_however_few_ticks_come() -> None:
    one = Clocked(following={"hand_watchdog": 0.5})
    for _ in range(50):
        one.tick()
    one.says = False
    states = [one.tick(0.02) for _ in range(4)]
    assert states == [Following.FOLLOWING] + [Following.STALE] * 3  # 21, 41 and 61 ms after it was looked for


def test_a_hand_whose_command_acts_for_longer_than_the_watchdog_leads_no_arm() -> None:
    """One tick more of it each 20 ms, as where a driver's ticks come late: by periods it would be 3 ms old."""
    one = Clocked(following={"feedback_watchdog": 0.5})
    for _ in range(50):
        one.tick()
    states = [one.tick(0.02, commanded=False) for _ in range(4)]
    assert states == [Following.FOLLOWING] * 2 + [Following.ABSENT] * 2
    assert one.tick(0.001) == Following.FOLLOWING


def test_ticks_that_are_made_up_for_after_a_stall_do_not_move_the_arm() -> None:
    """200 ticks within 2 ms, with the command that came last, of a tool that moves by 0.2 m/s."""
    one = Clocked(damping=[0.0, 0.0])
    one.side._led.twist[0] = 0.2
    for _ in range(20):
        one.tick()
    before = one.sent[-1]
    last = one.state.tick + 200
    one.command.stamp(last, 0)
    one.tick(0.2, commanded=False)
    while one.state.tick < last:
        one.tick(1e-5, commanded=False)
    assert np.ptp([values[:3] for values in (before, *one.sent[-200:])], axis=0).max() < 0.25 * 2e-3


def test_a_wrench_does_not_act_for_longer_than_the_watchdog_in_ticks_that_are_made_up_for() -> None:
    """One command for 300 ticks within 3 ms: on a machine that is late by as much, it turned the leading body round."""
    one = Clocked()
    one.command.wrench[0] = 5.0
    for _ in range(50):
        one.tick()
    last = one.state.tick + 300
    one.command.stamp(last, 0)
    states = [one.tick(1e-5, commanded=False) for _ in range(300)]
    assert states[49] == Following.FOLLOWING and states[52:] == [Following.ABSENT] * 248
    assert np.abs(one.state.twist).max() < 5.0 / 20.0 * np.exp(-0.24 * 20.0 / 0.5) * 1.1  # it has coasted for 0.24 s
    assert one.tick() == Following.FOLLOWING


def test_a_simulated_arm_ends_a_wrench_by_the_clock() -> None:
    arm = SimulatedArm(SimulatedArmParameters(), CrispParameters(), RATE)
    arm.take("target_wrench", "base_link", np.full(6, 1.0))
    for _ in range(5):
        arm.step(0.019)
    assert arm._pushed.any()  # 95 ms after it
    for _ in range(2):
        arm.step(0.019)
    assert not arm._pushed.any()


def test_without_a_clock_ages_are_periods() -> None:
    built, state, command = side(damping=[20.0, 0.1])
    run(built, state, command, 10)
    built.receive = lambda *message: None  # type: ignore[method-assign]
    run(built, state, command, 39)
    assert built.following == Following.FOLLOWING
    run(built, state, command, 2)
    assert built.following == Following.STALE
