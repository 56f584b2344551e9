"""State of the hand at the arm's side: presence, clutch and age, through controller and relay, in whole loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_robot_engine import RATE, run, side

from haptic_bench.experiment import load
from haptic_bench.running.offline import LoopOfHands
from haptic_robot.engine import RobotSide
from haptic_robot.following import Following
from haptic_sim.messages import (
    ABSENT,
    DISABLED,
    ENABLED,
    FAULT,
    HELD,
    PAUSED,
    RELEASED,
    DeviceState,
    Reason,
    ToolCommand,
)
from haptic_sim.parameters import ParameterError
from haptic_sim.spatial import rotation_difference

T = 1e-3
SPEED = (0.25, 1.0)
GAINS = "stiffness: [500, 500, 500, 1, 1, 1], damping: [10, 10, 10, 0.02, 0.02, 0.02]"
SERIES = (f"controller={{type: virtual_coupling, {GAINS}}}",)


class Loop:
    """robot_wall offline; `device` (state, reason, age) is what the device says from the next tick on.

    Attributes:
        side: of the arm; silent: whether nothing of it comes.
    """

    def __init__(self, *given: str):
        (trial,) = load("robot_wall", ["analysis=trial", "environment.engine.following.fade=0.01", *given])
        self._loop = LoopOfHands(trial.in_mode("offline"), lambda *_: None)
        (self.hand,) = self._loop.hands
        side = self._loop._tool_side
        assert isinstance(side, RobotSide)
        self.side, self.silent = side, False
        self.device: tuple[int, int, float] | None = None
        sense, receive = self.hand.driver.sense, side.receive

        def said(tick: int, state: DeviceState, *rest: Any) -> None:
            sense(tick, state, *rest)
            if self.device is not None:
                state.state, state.reason, state.reading_age = self.device

        self.hand.driver.sense = said  # type: ignore[method-assign]
        side.receive = lambda *message: None if self.silent else receive(*message)  # type: ignore[method-assign]

    @property
    def command(self) -> np.ndarray:
        """What the arm is commanded (7,)."""
        return self.side._follower.command

    def displace(self, angle: float) -> None:
        """Somebody turns the second joint of the arm."""
        arm = self.side._arm.arm
        arm.q[1] += angle
        arm.v[:] = 0.0
        arm._evaluate()

    def step(self, ticks: int = 1) -> Following:
        """Advance, and make sure that no command jumps and that only what follows is felt."""
        for _ in range(ticks):
            before = self.command.copy()
            self._loop.step()
            turn = np.zeros(3)
            rotation_difference(self.command[3:], before[3:], turn)
            state = self.side.following
            if self._loop.ticks > 1:  # in the first tick it takes the pose of the arm
                assert np.linalg.norm(self.command[:3] - before[:3]) <= SPEED[0] * T * (1 + 1e-9)
                assert np.linalg.norm(turn) <= SPEED[1] * T * (1 + 1e-6) + 1e-12
            if state != Following.FOLLOWING:
                assert not self._loop.tool_state.wrench.any()
            if state not in (Following.FOLLOWING, Following.DISPLACED, Following.WAITING) and self._loop.ticks > 1:
                np.testing.assert_array_equal(self.command, before)  # held
                np.testing.assert_array_equal(self.side._arm.target[:3], before[:3])
        return state


@pytest.mark.parametrize("state", [DISABLED, ENABLED, PAUSED, FAULT, 200])
@pytest.mark.parametrize("reason", [*Reason, 200])
def test_a_device_that_gives_no_force_has_no_hand(state: int, reason: int) -> None:
    device, command = DeviceState(), ToolCommand()
    assert command.hand == ABSENT  # of a message that says nothing
    device.state, device.reason, device.reading_age = state, reason, 0.25
    command.set_hand(device)
    felt = (Reason.NONE, Reason.NO_CONTACT, Reason.SCALED_TO_ZERO, Reason.PASSIVE, Reason.SATURATED)
    expected = HELD if reason in felt else RELEASED if reason == Reason.CLUTCHED else ABSENT
    assert command.hand == (expected if state == ENABLED else ABSENT) and command.hand_age == 0.25


def test_a_trial_reaches_every_state_and_comes_back_without_a_jump() -> None:
    loop = Loop()
    assert loop.step(20) == Following.FOLLOWING
    held = ENABLED, Reason.NO_CONTACT, 0.0
    for said, expected in (
        ((ENABLED, Reason.CLUTCHED, 0.0), Following.RELEASED),
        ((ENABLED, Reason.NO_PRESENCE, 0.0), Following.ABSENT),
        ((PAUSED, Reason.ON_PAUSE, 0.0), Following.ABSENT),
        ((ENABLED, Reason.NONE, 0.06), Following.ABSENT),
        ((ENABLED, Reason.NONE, np.inf), Following.ABSENT),
    ):
        loop.device = said
        assert loop.step() == expected == loop.step(4)
        loop.device = held
        assert loop.step() == Following.FOLLOWING == loop.step(4)
    loop.displace(0.2)
    assert loop.step(2) == Following.DISPLACED
    assert loop.step(1200) == Following.DISPLACED  # the command has come to the arm, but the hand still holds on
    loop.device = ENABLED, Reason.CLUTCHED, 0.0
    assert loop.step(2) == Following.RELEASED
    loop.device = held
    assert loop.step(5) == Following.FOLLOWING


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["held", "held", "clutch", "left", "old", "paused", "silent", "displaced"]),
        st.floats(0.02, 0.3),
        st.integers(1, 70),
    ),
    min_size=3,
    max_size=8,
)
SAID = {
    "held": (ENABLED, Reason.NONE, 0.0),
    "clutch": (ENABLED, Reason.CLUTCHED, 0.0),
    "left": (ENABLED, Reason.NO_PRESENCE, 0.0),
    "old": (ENABLED, Reason.NONE, 0.0501),
    "paused": (PAUSED, Reason.ON_PAUSE, 0.0),
}
STATES = {"clutch": Following.RELEASED}


def follows_events(events: list[tuple[str, float, int]]) -> None:
    loop = Loop()
    loop.step(5)
    for kind, size, ticks in events:
        loop.silent = kind == "silent"
        if kind == "displaced":
            loop.displace(size)
        loop.device = SAID.get(kind, SAID["held"])
        for tick in range(ticks):
            state = loop.step()
            if kind not in ("held", "silent", "displaced"):
                assert state in (STATES.get(kind, Following.ABSENT), Following.DISPLACED, Following.STALE)
            if loop.silent and tick > 50:  # feedback_watchdog
                assert state == Following.STALE


@given(EVENTS)
@settings(max_examples=4, deadline=None)
def test_no_sequence_of_events_in_a_whole_loop_makes_a_jump(events: list[tuple[str, float, int]]) -> None:
    follows_events(events)


@pytest.mark.exhaustive
@given(EVENTS)
@settings(max_examples=200, deadline=None)
def test_no_sequence_of_events_of_many_makes_a_jump(events: list[tuple[str, float, int]]) -> None:
    follows_events(events)


def test_what_a_hand_does_crosses_a_relay_with_its_delay() -> None:
    """8 ms each way: that the hand lets go is known at the world's end 8 ticks later, and its age is 8 ms."""
    loop = Loop(*SERIES, "relay.delay=0.008", "guard.type=passivity")
    assert loop.step(4) == Following.ABSENT  # nothing has arrived yet
    assert loop.step(26) == Following.FOLLOWING
    assert loop.hand.tool_command.hand_age == pytest.approx(0.008)
    loop.device = ENABLED, Reason.NO_PRESENCE, 0.0
    assert loop.step(8) == Following.FOLLOWING
    assert loop.step() == Following.ABSENT


def test_a_hand_that_is_further_away_than_its_watchdog_allows_is_refused() -> None:
    given = (*SERIES, "relay.delay=0.05", "guard.type=passivity", "analysis=trial")
    with pytest.raises(ParameterError, match=r"hand_watchdog = 0\.05 s: the arm would never .* relay\.delay = 0\.05 s"):
        load("robot_wall", given)
    assert load("robot_wall", [*given, "environment.engine.following.hand_watchdog=0.06"])


def test_a_command_of_an_earlier_tick_makes_the_hand_older() -> None:
    built, state, command = side()
    run(built, state, command, 3)
    assert built.following == Following.FOLLOWING
    for late in range(60):  # the same command acts on
        built.step(command, state)
        assert built.following == (Following.FOLLOWING if (late + 1) / RATE <= 0.05 + 1e-9 else Following.ABSENT)
