"""The life of a hardware device: every transition that is allowed, and every one that is refused, with its sentence."""

from __future__ import annotations

import pytest
from fake_hardware import data

from haptic_drivers.devices.life import LOST, Life, Request
from haptic_sim.messages import DISABLED, ENABLED, FAULT, PAUSED, Reason

NEW = {"has_reading": True, "present": 1, "homed": True, "pressed": (False, False)}
WAYS = {  # requests that lead to a state
    DISABLED: [],
    ENABLED: [Request.ENABLE],
    PAUSED: [Request.ENABLE, Request.PAUSE],
}
ALLOWED = {
    (DISABLED, Request.ENABLE): ENABLED,
    (DISABLED, Request.DISABLE): DISABLED,
    (DISABLED, Request.RESET): DISABLED,
    (DISABLED, Request.HOME): DISABLED,
    (ENABLED, Request.ENABLE): ENABLED,
    (ENABLED, Request.DISABLE): DISABLED,
    (ENABLED, Request.PAUSE): PAUSED,
    (PAUSED, Request.DISABLE): DISABLED,
    (PAUSED, Request.RESUME): ENABLED,
    **{(state, Request.STOP): DISABLED for state in WAYS},
    (FAULT, Request.STOP): FAULT,
    (FAULT, Request.ENABLE): FAULT,  # until it is open again
    (FAULT, Request.DISABLE): FAULT,
}
ASKED = (*list(Request)[:7],)


def life_in(state: int, **keys: object) -> Life:
    life = Life(data(**keys), homes=True)
    for request in WAYS.get(state, ()):
        assert life.ask(request) == ""
    if state == FAULT:
        life.fail("too hot")
    assert life.state == state
    return life


@pytest.mark.parametrize("request_", ASKED, ids=lambda request: request.name)
@pytest.mark.parametrize("state", [DISABLED, ENABLED, PAUSED, FAULT])
def test_each_transition_is_allowed_or_refused_with_a_sentence(state: int, request_: Request) -> None:
    life = life_in(state)
    refused = life.ask(request_)
    assert life.state == ALLOWED.get((state, request_), state)
    assert (refused == "") == ((state, request_) in ALLOWED)
    if refused:
        assert refused.startswith(f"{request_.name.lower()}: the device ")


@pytest.mark.parametrize(("request_", "after"), [(Request.ENABLE, ENABLED), (Request.DISABLE, DISABLED)])
def test_a_fault_ends_when_the_device_was_opened_again(request_: Request, after: int) -> None:
    life = life_in(FAULT)
    assert life.ask(request_) == "" and life.reopening and life.state == FAULT
    life.opened("USB: no such device")
    assert (life.state, life.fault, life.reopening) == (FAULT, "USB: no such device", False)
    life.ask(request_)
    life.opened()
    assert (life.state, life.fault) == (after, "")


def test_a_stop_while_the_device_is_opened_again_leaves_it_disabled() -> None:
    life = life_in(FAULT)
    life.ask(Request.ENABLE)
    life.ask(Request.STOP)
    life.opened()
    life.step(1e-3, 0.0, **NEW)  # type: ignore[arg-type]
    assert life.state == DISABLED and life.reason == Reason.STOPPED
    assert "latched" in life.ask(Request.HOME)
    assert life.ask(Request.RESET) == life.ask(Request.ENABLE) == ""
    assert life.reason == Reason.NONE


@pytest.mark.parametrize(
    ("keys", "has_reading", "reason"),
    [
        ({}, {}, Reason.NONE),
        ({}, {"age": 0.01}, Reason.OLD_READING),
        ({}, {"has_reading": False}, Reason.OLD_READING),
        ({"presence": "sensor"}, {"present": 0}, Reason.NO_PRESENCE),
        ({"presence": "sensor"}, {"present": -1}, Reason.NO_PRESENCE),
        ({"presence": "top"}, {"pressed": (False, True)}, Reason.NO_PRESENCE),
        ({"presence": "top"}, {"pressed": (True, False)}, Reason.NONE),
        ({"clutch": "side"}, {"pressed": (False, True)}, Reason.CLUTCHED),
        ({}, {"age": 2 * LOST}, Reason.FAILED),
        ({}, {"age": float("nan")}, Reason.FAILED),
        ({}, {"homed": False}, Reason.NOT_HOMED),
        ({}, {"homed": False, "has_reading": False}, Reason.FAILED),
    ],
)
def test_each_reason_for_no_force(keys: dict[str, object], has_reading: dict[str, object], reason: Reason) -> None:
    life = life_in(ENABLED, **keys)
    has_reading = {"age": 0.0, **NEW, **has_reading}
    life.step(1e-3, **has_reading)  # type: ignore[arg-type]
    assert life.reason == reason


def test_a_device_that_is_not_homed_is_not_enabled() -> None:
    life = life_in(DISABLED)
    life.step(1e-3, 0.0, True, 1, homed=False, pressed=(False, False))
    assert life.reason == Reason.NOT_HOMED
    assert "home it" in life.ask(Request.ENABLE)
    assert "cannot home by itself" in Life(data()).ask(Request.HOME)
