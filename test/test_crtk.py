"""The convention CRTK: which commands a state allows, how long a wrench is held, when the state is published."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haptic_control.crtk import ALLOWED, STATES, HeldWrench, StateOfDevice, StateReport, check_command
from haptic_sim.messages import MessageError, Reason

FRAME = "arm/device_base"
WRENCH = (1.0, -2.0, 3.0, 0.1, 0.2, -0.3)
# The table of transitions in the convention's page on operating state: what a command leads to, by state; None: it is
# invalid. In FAULT, enable and disable are retries. A device that is enabled or paused is homed.
TABLE = {
    "DISABLED": {"enable": "ENABLED", "disable": "DISABLED", "pause": None, "resume": None, "home": "homed"},
    "ENABLED": {"enable": "ENABLED", "disable": "DISABLED", "pause": "PAUSED", "resume": None, "home": None},
    "PAUSED": {"enable": None, "disable": "DISABLED", "pause": "PAUSED", "resume": "ENABLED", "home": None},
    "FAULT": {"enable": "ENABLED", "disable": "DISABLED", "pause": None, "resume": None, "home": None},
}


def test_states_are_those_of_the_convention() -> None:
    assert tuple(TABLE) == STATES


@pytest.mark.parametrize("command", ALLOWED)
@pytest.mark.parametrize("state", TABLE)
def test_commands_are_allowed_as_in_the_convention(state: str, command: str) -> None:
    leads_to = TABLE[state][command]
    if leads_to is None:
        with pytest.raises(MessageError, match=f"state_command {command} in state {state}: is allowed in "):
            check_command(command, state)
    else:
        assert check_command(command, state) is (leads_to != state)


@pytest.mark.parametrize("command", ["", "unhome", "Enable", "fault", "reset " * 100])
def test_another_command_is_refused_by_name(command: str) -> None:
    """There is none that leads to FAULT."""
    with pytest.raises(MessageError, match="is not known; known are enable, disable, pause, resume, home") as error:
        check_command(command, "ENABLED")
    assert len(str(error.value)) < 150


COMMANDS = st.lists(st.sampled_from([*ALLOWED, "unhome"]), max_size=30)


# What a driver of hardware says: its state, the reason for zero force; and whether it is homed then, None: as before.
SAID = (
    ("DISABLED", Reason.NOT_ENABLED, True),
    ("DISABLED", Reason.NOT_HOMED, False),
    ("DISABLED", Reason.STOPPED, None),
    ("ENABLED", Reason.NO_PRESENCE, True),
    ("PAUSED", Reason.ON_PAUSE, True),
    ("FAULT", Reason.FAILED, False),
    ("FAULT", Reason.NOT_HOMED, False),
)


def follow(device: StateOfDevice, command: str, state: str) -> tuple[str, bool]:
    """What a command asks of the driver, whose state is given, and whether it is refused."""
    try:
        return device.ask(command, device.of(state, Reason.STOPPED)[0]), False
    except MessageError:
        return "", True


@settings(max_examples=50, deadline=None)
@given(COMMANDS)
def test_a_simulated_device_goes_through_the_table(commands: list[str]) -> None:
    """It is always enabled to its driver, and is homed."""
    device, state = StateOfDevice(hardware=False), "ENABLED"
    for command in commands:
        leads_to = "homed" if command == "home" else TABLE[state].get(command)
        assert follow(device, command, "ENABLED") == ("", leads_to is None)
        state = leads_to if leads_to in STATES else state
        assert device.of("ENABLED", Reason.NONE) == (state, True)
        assert device.of("FAULT", Reason.FAILED) == ("FAULT", True)


@settings(max_examples=50, deadline=None)
@given(COMMANDS, st.lists(st.sampled_from(SAID), min_size=30, max_size=30))
def test_a_hardware_device_is_asked_and_says_itself_what_came_of_it(
    commands: list[str], said: list[tuple[str, Reason, bool | None]]
) -> None:
    device = StateOfDevice(hardware=True)
    homed = False
    for command, (state, reason, known) in zip(commands, said, strict=False):
        homed = homed if known is None else known
        assert device.of(state, reason) == (state, homed)
        request, refused = follow(device, command, state)
        leads_to = TABLE[state].get(command)
        if command == "home" and homed:
            assert (request, refused) == ("", False)
        else:
            assert refused is (leads_to is None)
            assert request == (command if leads_to not in (None, state) else "")
        assert device.of(state, Reason.STOPPED) == (state, homed)


@pytest.mark.parametrize("frame", ["", FRAME])
def test_a_wrench_is_held_until_the_watchdog(frame: str) -> None:
    held = HeldWrench(FRAME, 0.05)
    assert held.at(100.0) is None
    held.take(frame, WRENCH, 100.0)
    for age in (0.0, 0.01, 0.049):
        np.testing.assert_array_equal(held.at(100.0 + age), WRENCH)
    assert held.at(100.0501) is None
    held.take(frame, (0.0,) * 6, 101.0)  # zero force is a command, too
    np.testing.assert_array_equal(held.at(101.0), np.zeros(6))
    held.forget()
    assert held.at(101.0) is None


@pytest.mark.parametrize("frame", ["world", "device_base", "other/device_base", FRAME + "/", "x" * 500])
def test_a_wrench_of_another_frame_is_refused_and_the_last_one_held_on(frame: str) -> None:
    held = HeldWrench(FRAME, 0.05)
    held.take("", WRENCH, 0.0)
    with pytest.raises(MessageError, match=f"must be '{FRAME}' or empty"):
        held.take(frame, (9.0,) * 6, 0.04)
    np.testing.assert_array_equal(held.at(0.05), WRENCH)
    assert held.at(0.06) is None  # what was refused keeps nothing alive


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("i", range(6))
def test_a_wrench_that_is_not_finite_is_refused(i: int, value: float) -> None:
    held = HeldWrench(FRAME, 0.05)
    with pytest.raises(MessageError, match="servo_cf: not finite"):
        held.take("", [value if j == i else 0.0 for j in range(6)], 0.0)
    assert held.at(0.0) is None


def test_a_wrench_is_copied() -> None:
    held, given = HeldWrench(FRAME, 0.05), np.ones(6)
    held.take("", given, 0.0)
    given[:] = 5.0
    np.testing.assert_array_equal(held.at(0.0), np.ones(6))


def test_the_state_is_reported_at_once_when_it_changes_and_else_at_its_rate() -> None:
    """At 8 Hz, asked 128 times a second; after a change the period begins again."""
    report = StateReport(8.0)
    states = ["PAUSED" if 67 <= i < 100 else "ENABLED" for i in range(150)]
    due = [i for i, state in enumerate(states) if report.due((state, True, False), i / 128)]
    assert due == [0, 16, 32, 48, 64, 67, 83, 99, 100, 116, 132, 148]


def test_the_rate_is_kept_when_it_is_asked_seldom() -> None:
    """Asked 100 times a second for 10 s, in which the period of 8 Hz does not fit."""
    report = StateReport(8.0)
    assert sum(report.due("ENABLED", 0.01 * i) for i in range(1000)) == 80


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=20))
def test_stamps_increase_strictly_whatever_the_clock_does(clock: list[int]) -> None:
    report = StateReport(10.0)
    stamps = [report.stamp(time) for time in clock]
    assert all(earlier < later for earlier, later in itertools.pairwise(stamps))
    assert all(stamp >= time for stamp, time in zip(stamps, clock, strict=True))
