"""Whether an arm follows a hand: states, alignment, bounds, over random sequences of events."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haptic_robot.following import Follower, Following, FollowingParameters, Hand, speed_towards
from haptic_sim.rotations import from_roll_pitch_yaw
from haptic_sim.spatial import advance_pose, rotation_difference

RATE = 1000.0
T = 1.0 / RATE
AT_ARM = np.array([0.5, 0.1, 0.4, *from_roll_pitch_yaw(2.9, 0.3, -0.4)])
AT_HAND = np.array([-0.1, 0.02, 0.03, *from_roll_pitch_yaw(0.2, -0.5, 0.7)])


def angle(a: np.ndarray, b: np.ndarray) -> float:
    r = np.zeros(3)
    rotation_difference(a[3:], b[3:], r)
    return float(np.linalg.norm(r))


def turned(pose: np.ndarray, twist: tuple[float, ...]) -> np.ndarray:
    result = pose.copy()
    advance_pose(np.array(twist, float), 1.0, result)
    return result


def follower(**changes: object) -> Follower:
    return Follower(FollowingParameters.model_validate(changes), RATE)


def running(**changes: object) -> Follower:
    one = follower(**changes)
    one.feed(AT_ARM)
    assert one.step(Hand(AT_HAND)) == Following.FOLLOWING
    return one


def test_it_begins_without_a_jump_and_follows_at_its_scales() -> None:
    one = running(scale=(0.5, 2.0), speed=(10.0, 100.0), deviation=(1.0, 3.0))
    np.testing.assert_allclose(one.command, AT_ARM, atol=1e-15)
    hand = AT_HAND.copy()
    axis = np.array([2.0, -1.0, 2.0]) / 3.0
    for _ in range(100):
        advance_pose(np.array([0.001, -0.002, 0.0005, *(0.002 * axis)]), 1.0, hand)
        one.feed(one.command)
        one.step(Hand(hand))
    np.testing.assert_allclose(one.command[:3] - AT_ARM[:3], 0.5 * (hand[:3] - AT_HAND[:3]), atol=1e-12)
    expected = turned(AT_ARM, (0, 0, 0, *(0.4 * axis)))
    assert angle(one.command, expected) < 1e-9


def test_a_scaled_rotation_has_no_jump_at_half_a_turn() -> None:
    """A hand that turns on and on turns an arm at half its scale on and on."""
    one, hand, total = running(scale=(1.0, 0.5), speed=(10.0, 100.0), deviation=(1.0, 3.0)), AT_HAND.copy(), 0.0
    for _ in range(500):
        before = one.command.copy()
        advance_pose(np.array([0, 0, 0, 0, 0, 0.02]), 1.0, hand)
        one.feed(one.command)
        one.step(Hand(hand))
        assert angle(one.command, before) == pytest.approx(0.01, abs=1e-9)
        total += 0.01
    assert total > 1.5 * math.pi
    assert angle(one.command, turned(AT_ARM, (0, 0, 0, 0, 0, 5.0))) < 1e-6


def test_nothing_is_commanded_before_the_arm_has_said_where_it_is() -> None:
    one = follower()
    for _ in range(5):
        assert one.step(Hand(AT_HAND)) == Following.WAITING
        assert one.gain == 0.0 and not one.push(np.ones(6)).any()


@pytest.mark.parametrize(
    "broken",
    [np.full(7, np.nan), np.zeros(7), np.array([0, 0, np.inf, 0, 0, 0, 1.0]), np.array([0, 0, 0, 1, 1, 1, 1.0])],
)
def test_what_is_no_pose_is_no_feedback_and_no_hand(broken: np.ndarray) -> None:
    one = follower()
    one.feed(broken)
    assert one.step(Hand(AT_HAND)) == Following.WAITING
    one = running()
    if not np.isfinite(broken).all():
        one.feed(AT_ARM)
        assert one.step(Hand(broken)) == Following.ABSENT
    assert np.isfinite(one.command).all()


def test_stale_feedback_is_no_force_and_a_held_command() -> None:
    one = running(fade=0.0, feedback_watchdog=0.01)
    states = []
    for i in range(30):
        held = one.command.copy()
        states.append(one.step(Hand(turned(AT_HAND, (1e-4 * i, 0, 0, 0, 0, 0)))))
        if states[-1] == Following.STALE:
            assert one.gain == 0.0 and not one.push(np.ones(6)).any()
            np.testing.assert_array_equal(one.command, held)
    assert states.count(Following.FOLLOWING) == 9  # and the first, in which it came: 10 ms
    one.feed(one.command)
    held = one.command.copy()
    assert one.step(Hand(turned(AT_HAND, (0.2, 0, 0, 0, 0, 0)))) == Following.FOLLOWING
    np.testing.assert_allclose(one.command, held, atol=1e-12)  # aligned anew: it does not rush to where the hand is


def test_hand_clutch_and_watchdog_stop_the_arm() -> None:
    for hand, state in (
        (Hand(AT_HAND, present=False), Following.ABSENT),
        (Hand(AT_HAND, age=0.06), Following.ABSENT),
        (Hand(AT_HAND, closed=False), Following.RELEASED),
        (Hand(AT_HAND, age=math.nan), Following.ABSENT),
    ):
        one = running()
        one.feed(AT_ARM)
        assert one.step(hand) == state and one.gain == 0.0 and not one.push(np.ones(6)).any()


def test_an_arm_that_somebody_moves_is_given_way_and_has_to_be_asked_for_again() -> None:
    one = running(fade=0.0, deviation=(0.02, 0.2))
    away = turned(AT_ARM, (0.05, 0, 0, 0, 0, 0))
    for _ in range(3):
        before = one.command.copy()
        one.feed(away)
        assert one.step(Hand(AT_HAND)) == Following.DISPLACED and one.gain == 0.0
        assert np.linalg.norm(one.command[:3] - before[:3]) <= 0.25 * T + 1e-12
    for _ in range(400):
        one.feed(away)
        assert one.step(Hand(AT_HAND)) == Following.DISPLACED  # nobody has let go
    np.testing.assert_allclose(one.command[:3], away[:3], atol=1e-9)
    for closed in (False, False, True):
        one.feed(away)
        state = one.step(Hand(AT_HAND, closed=closed))
    assert state == Following.FOLLOWING
    np.testing.assert_allclose(one.command[:3], away[:3], atol=1e-9)


def test_the_box_bounds_what_is_commanded_and_drives_nothing_in() -> None:
    one = running(lower=(0.4, 0.0, 0.3), upper=(0.6, 0.2, 0.5), speed=(1000.0, 1000.0), deviation=(9.0, 3.0))
    for i in range(50):
        one.feed(one.command)
        one.step(Hand(turned(AT_HAND, (0.01 * i, -0.01 * i, 0.02 * i, 0, 0, 0))))
    np.testing.assert_allclose(one.command[:3], (0.6, 0.0, 0.5), atol=1e-12)
    outside = running(lower=(0.6, 0.0, 0.3), upper=(0.8, 0.2, 0.5), speed=(1000.0, 1000.0), deviation=(9.0, 3.0))
    for x, expected in ((0.0, 0.5), (-0.1, 0.5), (0.05, 0.55), (0.0, 0.55), (0.2, 0.7), (0.0, 0.6)):
        outside.feed(outside.command)
        outside.step(Hand(turned(AT_HAND, (x, 0, 0, 0, 0, 0))))
        assert outside.command[0] == pytest.approx(expected, abs=1e-12)


def test_a_speed_towards_a_pose_reaches_it_as_an_exponential_within_its_bounds() -> None:
    pose, twist = AT_ARM.copy(), np.zeros(6)
    wanted = turned(pose, (0.02, -0.01, 0.005, 0.1, 0.2, -0.1))
    for _ in range(100):  # 0.1 s at 10/s, by steps of a thousandth
        speed_towards(pose, wanted, 10.0, np.array([1e3, 1e3]), twist)
        advance_pose(twist, T, pose)
    left = (1.0 - 10.0 * T) ** 100
    np.testing.assert_allclose(wanted[:3] - pose[:3], left * (wanted[:3] - AT_ARM[:3]), atol=1e-12)
    assert angle(wanted, pose) == pytest.approx(left * angle(wanted, AT_ARM), rel=1e-9)
    speed_towards(AT_ARM, wanted, 1000.0, np.array([0.25, 1.0]), twist)
    assert np.linalg.norm(twist[:3]) == pytest.approx(0.25) and np.linalg.norm(twist[3:]) == pytest.approx(1.0)


def test_a_box_without_content_is_refused() -> None:
    with pytest.raises(ValueError, match=r"upper: 0\.1 m along y: must be above lower, 0\.2 m"):
        FollowingParameters(lower=(0.0, 0.2, 0.0), upper=(1.0, 0.1, 1.0))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["feed", "feed", "feed", "silent", "nan", "pushed"]),
        st.floats(-0.2, 0.2),
        st.floats(-2.0, 2.0),
        st.booleans(),
        st.booleans(),
        st.integers(1, 40),
    ),
    max_size=20,
)


@given(STEPS)
def test_no_sequence_of_events_makes_a_jump_or_a_force_without_feedback(events: list[tuple]) -> None:
    speed, rate = (0.25, 1.0), (500.0, 100.0)
    one = follower(speed=speed, feedback_watchdog=0.01, fade=0.02, wrench_rate=rate)
    since = math.inf
    hand, arm, begun = AT_HAND.copy(), AT_ARM.copy(), False
    for kind, shift, turn, present, closed, ticks in events:
        hand = turned(hand, (shift, -shift, 0.5 * shift, turn, -0.3 * turn, 0.2 * turn))
        if kind == "pushed":
            arm = turned(arm, (shift, shift, 0.0, 0.0, turn, 0.0))
        for _ in range(ticks):
            if kind in ("feed", "pushed"):
                one.feed(arm)
                since = 0.0
            elif kind == "nan":
                one.feed(np.full(7, np.nan))
            before, pushed = one.command.copy(), one.wrench.copy()
            state = one.step(Hand(hand, present=present, closed=closed))
            wrench = one.push(np.full(6, 100.0))
            if begun:
                assert np.linalg.norm(one.command[:3] - before[:3]) <= speed[0] * T * (1 + 1e-9) + 1e-15
                assert angle(one.command, before) <= speed[1] * T * (1 + 1e-6) + 1e-12
            if since > 0.01 + 1e-9 or not (present and closed):
                assert state != Following.FOLLOWING
            if state != Following.FOLLOWING:
                assert one.gain == 0.0 and not wrench.any()
            else:
                assert np.linalg.norm(wrench[:3] - pushed[:3]) <= rate[0] * T * (1 + 1e-9)
                assert np.linalg.norm(wrench[:3]) <= 50.0 * (1 + 1e-9)
                arm = one.command.copy()  # it does what it is told
            begun = begun or not math.isinf(since)
            since += T
