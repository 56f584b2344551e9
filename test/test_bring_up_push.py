"""No force comes before presence is confirmed, none above a tenth of the limit, none after anything unexpected."""

from __future__ import annotations

import math

import numpy as np
import pytest
from bring_up_person import PERMUTATIONS, ROTATIONS
from conftest import sampled

from haptic_drivers.bring_up.push import PART, PAUSE, RAMP, Push
from haptic_drivers.bring_up.steps import SPACE

LIMIT = (6.0, 4.0, 2.0)
WATCHDOG = 0.02  # [s]
PERIOD = 5e-3  # [s]


def pushed(R_force: np.ndarray, R_WB: np.ndarray, gain: float, answer: str = "none") -> Push:
    """A device whose hand yields by `gain` to the force that `R_force` makes of what is written."""
    push, position = Push(LIMIT, R_WB, WATCHDOG, WATCHDOG), np.zeros(3)
    push.update(0.0, 0.0, position, -1)
    push.answer("held")
    for tick in range(1, 4000):
        position = position + gain * R_force @ push.update(PERIOD * tick, 0.0, position, -1)
        if push.done:
            break
        if push.request:
            push.answer(answer)
    return push


@pytest.mark.parametrize("case", sampled(range(len(PERMUTATIONS)), *range(0, 48, 5)))
def test_a_force_along_a_wrong_axis_stops(case: int) -> None:
    R_force, R_WB = PERMUTATIONS[case], ROTATIONS[case % 24]
    push = pushed(R_force, R_WB, 5e-4)
    assert push.done
    assert not push.force.any()
    first = R_WB.T @ np.array(SPACE[0].direction)
    if np.array_equal(R_force, np.eye(3)):
        assert [step.passed for step in push.steps] == [True] * 3
        assert push.stopped == ""
    else:
        assert not push.steps[-1].passed
        assert all(step.passed for step in push.steps[:-1])
        if np.array_equal(R_force @ first, -first):
            assert push.steps[0].remedy == "change the sign of the force in the driver"


def test_what_the_person_feels_decides_where_no_motion_is_seen() -> None:
    assert "motors are on" in pushed(np.eye(3), np.eye(3), 0.0).steps[0].remedy
    assert "sign of the force" in pushed(np.eye(3), np.eye(3), 0.0, "left").steps[0].remedy
    assert "same axes" in pushed(np.eye(3), np.eye(3), 0.0, "up").steps[0].remedy
    assert pushed(np.eye(3), np.eye(3), 0.0, "right").steps[0].passed
    assert pushed(np.eye(3), np.eye(3), 0.0, "strong").stopped.startswith("push: strong answered, which way")
    assert [step.name for step in pushed(np.eye(3), np.eye(3), 5e-4).steps] == [f"push {one.name}" for one in SPACE]


@pytest.mark.parametrize("seed", sampled(range(100), *range(12)))
def test_no_force_before_presence_nor_above_a_tenth(seed: int) -> None:
    generator = np.random.default_rng(seed)
    R_WB = ROTATIONS[seed % 24]
    push, time, confirmed, ended, any_force = Push(LIMIT, R_WB, WATCHDOG, WATCHDOG), 0.0, False, False, False
    words = ("held", "right", "left", "away", "up", "down", "none", "", "yes")
    for _ in range(1200):
        time += generator.choice((2e-3, 5e-3, -1e-3, 0.1, math.nan), p=(0.5, 0.498, 5e-4, 1e-3, 5e-4))
        position = generator.normal(0.0, 1e-4, 3)
        if generator.random() < 1e-3:
            position[:] = generator.choice((math.nan, 1.0))
        present = int(generator.choice((1, -1, 0), p=(0.9, 0.098, 0.002) if confirmed else (0.5, 0.2, 0.3)))
        age, through = generator.choice((0.0, 0.01, 1.0), p=(0.9, 0.0995, 5e-4)), generator.random() > 5e-4
        force = push.update(time, age, position, present, lets_through=through)
        assert (np.abs(force) <= PART * np.array(LIMIT) * (1.0 + 1e-12)).all()
        assert confirmed or not force.any()
        wrong = ended or present == 0 or age > WATCHDOG or not through or not np.isfinite(position).all()
        assert not (wrong and force.any())
        any_force |= bool(force.any())
        if push.request and generator.random() < 0.3:
            word = "held" if not confirmed and generator.random() < 0.9 else str(generator.choice(words))
            before = push.confirmed
            push.answer(word)
            assert push.confirmed == (before or (word == "held" and present != 0))
            confirmed = push.confirmed
        ended |= push.done
    assert any_force or not confirmed or push.stopped


UNEXPECTED = [
    ({"time": 0.1}, "commands stopped for longer than 0.02 s"),
    ({"age": 0.03}, "reading 0.03 s old: at most 0.02 s"),
    ({"present": 0}, "nobody holds the device"),
    ({"position": np.full(3, math.inf)}, "a reading that is not finite"),
    ({"fault": "amplifier too hot"}, "fault: amplifier too hot"),
    ({"lets_through": False}, "the driver lets no force through any more"),
]


@pytest.mark.parametrize(("changed", "reason"), UNEXPECTED, ids=[reason for _, reason in UNEXPECTED])
def test_anything_unexpected_ends_the_force_for_ever(changed: dict, reason: str) -> None:
    push, tick = Push(LIMIT, np.eye(3), WATCHDOG, WATCHDOG), 0
    push.update(0.0, 0.0, np.zeros(3), 1)
    push.answer("held")
    while PERIOD * tick < PAUSE + 2.0 * RAMP:
        tick += 1
        push.update(PERIOD * tick, 0.0, np.zeros(3), 1)
    assert push.force == pytest.approx((0.0, -PART * LIMIT[1], 0.0), abs=1e-15)
    given = {"time": PERIOD, "age": 0.0, "position": np.zeros(3), "present": 1} | changed
    given["time"] += PERIOD * tick
    push.update(**given)
    assert push.stopped == reason
    push.answer("held")
    for more in range(1, 500):
        assert not push.update(given["time"] + PERIOD * more, 0.0, np.zeros(3), 1).any()


def test_a_driver_that_lets_nothing_through_is_not_waited_for_for_ever() -> None:
    push, tick = Push(LIMIT, np.eye(3), WATCHDOG, WATCHDOG), 0
    push.update(0.0, 0.0, np.zeros(3), 1)
    push.answer("held")
    while not push.done and tick < 1000:
        tick += 1
        assert not push.update(PERIOD * tick, 0.0, np.zeros(3), 1, lets_through=False).any()
    assert push.stopped == "the driver has let no force through for 2 s"


def test_a_stop_from_outside_ends_the_force_and_limits_are_checked() -> None:
    push = Push(LIMIT, np.eye(3), WATCHDOG, WATCHDOG)
    push.stop("interrupted")
    assert push.done
    assert push.request == ""
    assert Push((0.0, 0.0, 0.0), np.eye(3), WATCHDOG, WATCHDOG).done
    with pytest.raises(ValueError, match=r"reading_watchdog = nan s: must be finite and > 0"):
        Push(LIMIT, np.eye(3), WATCHDOG, math.nan)
    with pytest.raises(ValueError, match=r"N: must be finite and >= 0"):
        Push((1.0, -1.0, 1.0), np.eye(3), WATCHDOG, WATCHDOG)
    for wrong in (10.0 * np.eye(3), np.full((3, 3), math.nan), np.ones((3, 3))):
        with pytest.raises(ValueError, match=r"must be a signed permutation"):
            Push(LIMIT, wrong, WATCHDOG, WATCHDOG)
