"""The driver of Haply's Inverse3, against a stand-in for the vendor's service: frames, units, faults, misuse."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

import driver_checks
import numpy as np
import pytest
from driver_checks import LOOK, next_reading, opened, push, told_of_fault, unit, wait_until

from haptic_drivers.devices import haply
from haptic_drivers.devices.interface import DeviceError, Identifying, Reading
from haptic_drivers.devices.parameters import HardwareParameters, build_hardware
from stand_ins import Fault
from stand_ins.haply import Service

VENDOR = {"forward": (0.0, 1.0, 0.0), "left": (-1.0, 0.0, 0.0), "up": (0.0, 0.0, 1.0)}  # x right, y forward, z up


@pytest.fixture
def service() -> Iterator[Service]:
    """A service with one device, which was not misused in the end."""
    service = Service(idle=10.0)
    yield service
    service.close()
    assert service.misuse == ""


def data(service: Service, **connection: object) -> HardwareParameters:
    """The device of a service."""
    return driver_checks.parameters("inverse3", {"url": service.url, "events": service.events_url, **connection})


@pytest.mark.parametrize("direction", LOOK)
def test_a_push_along_each_axis_is_felt_along_it(service: Service, direction: str) -> None:
    axis, vendor = LOOK[direction], np.array(VENDOR[direction])
    service.set_state(0, position=list(0.05 * vendor), velocity=list(0.3 * vendor))
    with opened(data(service)) as hardware:
        reading = next_reading(hardware)
        assert reading.pose[:3] == pytest.approx(unit(axis, 0.05)[:3])
        assert reading.twist[:3] == pytest.approx(unit(axis, 0.3)[:3])
        hardware.enable()
        push(hardware, unit(axis, 2.0), lambda: any(service.told(0)["force"]), "a force")
        assert service.told(0)["force"] == pytest.approx(2.0 * vendor)


@pytest.mark.parametrize("direction", LOOK)
def test_a_turn_of_the_grip_is_seen_about_its_axis(service: Service, direction: str) -> None:
    axis, vendor = LOOK[direction], np.array(VENDOR[direction])
    service.set_state(0, orientation=[*(0.6 * vendor), 0.8])
    with opened(data(service)) as hardware:
        assert next_reading(hardware).pose[3:] == pytest.approx([*unit(axis, 0.6)[:3], 0.8])


def test_a_device_says_what_it_is(service: Service) -> None:
    with opened(data(service)) as hardware:
        assert isinstance(hardware, Identifying)
        assert re.fullmatch(r"Inverse3 \w+, VerseGrip \w+", hardware.identity())


def test_buttons_have_the_order_of_the_data(service: Service) -> None:
    service.set_state(0, buttons={"a": False, "b": True, "c": False})
    with opened(data(service)) as hardware:
        assert next_reading(hardware).buttons[:3].tolist() == [0, 1, 0]


@pytest.mark.parametrize("spelling", ["vector", "values"])
def test_each_spelling_of_the_force_is_understood_by_the_service_that_has_it(spelling: str) -> None:
    service = Service(spellings=(spelling,), idle=10.0)
    with opened(data(service, spelling=spelling)) as hardware:
        hardware.enable()
        push(hardware, unit(0, 1.0), lambda: any(service.told(0)["force"]), "a force")
    service.close()
    assert service.misuse == ""


def test_a_spelling_that_is_ignored_is_noticed() -> None:
    service = Service(spellings=("values",), idle=10.0)
    with opened(data(service, spelling="vector")) as hardware:
        hardware.enable()
        reading = Reading()
        push(hardware, unit(0, 1.0), lambda: hardware.read(reading) and reading.fault, "a fault")
        assert "stays idle" in reading.fault and "connection.spelling" in reading.fault
    service.close()


def test_without_enable_there_is_no_force(service: Service) -> None:
    with opened(data(service)) as hardware:
        hardware.write(unit(0, 1.0))
        before = service.told(0)["messages"]
        push(hardware, unit(0, 1.0), lambda: service.told(0)["messages"] > before + 20, "messages")
        assert service.told(0)["changed"] == 0.0
        hardware.enable()
        push(hardware, unit(0, 1.0), lambda: any(service.told(0)["force"]), "a force")
        hardware.disable()
        wait_until(lambda: not any(service.told(0)["force"]), "zero force")


def test_a_command_that_is_not_renewed_ends(service: Service) -> None:
    with opened(data(service)) as hardware:
        hardware.enable()
        push(hardware, unit(0, 1.0), lambda: any(service.told(0)["force"]), "a force")
        wait_until(lambda: not any(service.told(0)["force"]), "zero force")
        assert service.told(0)["silences"] == 0


def test_closing_leaves_the_device_idle(service: Service) -> None:
    with opened(data(service)) as hardware:
        hardware.enable()
        push(hardware, unit(1, 1.0), lambda: any(service.told(0)["force"]), "a force")
    wait_until(lambda: not any(service.told(0)["force"]), "zero force")
    hardware.close()


def test_messages_of_an_older_service_are_understood() -> None:
    service = Service(old=True, idle=10.0)
    service.set_state(0, position=[0.1, 0.2, 0.3])
    with opened(data(service)) as hardware:
        assert next_reading(hardware).pose[:3] == pytest.approx([0.2, -0.1, 0.3])
    service.close()
    assert service.misuse == ""


def test_an_answer_that_is_late_means_no_force_and_then_goes_on(service: Service) -> None:
    with opened(data(service)) as hardware:
        hardware.enable()
        push(hardware, unit(0, 1.0), lambda: any(service.told(0)["force"]), "a force")
        service.fault(0, Fault.LATE, 3.0 * driver_checks.PATIENT)
        push(hardware, unit(0, 1.0), lambda: not any(service.told(0)["force"]), "zero force")
        push(hardware, unit(0, 1.0), lambda: any(service.told(0)["force"]), "the force again")
        assert next_reading(hardware).fault == ""


def test_a_service_that_falls_silent_gets_no_force(service: Service) -> None:
    with opened(data(service)) as hardware:
        hardware.enable()
        push(hardware, unit(0, 1.0), lambda: any(service.told(0)["force"]), "a force")
        service.fault(0, Fault.MUTE)
        push(hardware, unit(0, 1.0), lambda: not any(service.told(0)["force"]), "zero force")
        service.back(0)
        hardware.close()
        hardware.open()
        hardware.enable()
        push(hardware, unit(0, 1.0), lambda: any(service.told(0)["force"]), "the force again")


def test_jumps_and_nan_are_passed_on_to_be_rejected_and_answers_that_come_twice_do_no_harm(service: Service) -> None:
    with opened(data(service)) as hardware:
        rest = next_reading(hardware).pose[:3].copy()
        reading = Reading()
        service.fault(0, Fault.JUMP, 0.5)
        wait_until(lambda: hardware.read(reading) and abs(reading.pose[1] - rest[1]) > 0.4, "a jump")
        service.fault(0, Fault.NOT_FINITE, 1e9)
        wait_until(lambda: hardware.read(reading) and np.isnan(reading.pose[0]), "a NaN")
        service.back(0)
        service.fault(0, Fault.TWICE, 50)
        wait_until(lambda: service.devices[0].faults[Fault.TWICE] == 0, "answers")
        reading = next_reading(hardware)
        assert reading.pose[:3] == pytest.approx(rest)
        assert reading.fault == ""


@pytest.mark.parametrize("events", [True, False])
def test_a_device_that_is_unplugged_is_a_fault_and_can_be_opened_again(service: Service, events: bool) -> None:
    connection = {} if events else {"events": ""}
    with opened(data(service, **connection)) as hardware:
        hardware.enable()
        push(hardware, unit(0, 1.0), lambda: any(service.told(0)["force"]), "a force")
        service.fault(0, Fault.GONE)
        assert "049D" in told_of_fault(hardware) or events
        with pytest.raises(DeviceError, match=r"Inverse3 of any identifier: found none; plug it in"):
            hardware.open()
        service.back(0)
        hardware.open()
        assert next_reading(hardware).fault == ""
        assert not any(service.told(0)["force"])
        hardware.enable()
        push(hardware, unit(0, 1.0), lambda: any(service.told(0)["force"]), "the force again")


def test_an_event_that_is_a_fault_ends_the_force_though_the_service_goes_on(service: Service) -> None:
    with opened(data(service)) as hardware:
        hardware.enable()
        push(hardware, unit(0, 1.0), lambda: any(service.told(0)["force"]), "a force")
        service._event("device-overheated", "critical", service.devices[0])
        assert told_of_fault(hardware) == "Haply Inverse service: event device-overheated (critical)"
        wait_until(lambda: not any(service.told(0)["force"]), "zero force")  # a device is idle after 10 s of silence
        assert service.told(0)["silences"] == 0


def test_a_connection_that_breaks_is_a_fault_and_can_be_opened_again(service: Service) -> None:
    with opened(data(service)) as hardware:
        hardware.enable()
        push(hardware, unit(0, 1.0), lambda: any(service.told(0)["force"]), "a force")
        service.cut()
        assert "Haply Inverse service" in told_of_fault(hardware)
        with pytest.raises(DeviceError):
            hardware.open()
        service.cut(False)
        hardware.open()
        assert next_reading(hardware).fault == ""


def test_two_devices_at_once() -> None:
    service = Service(devices=2, idle=10.0)
    service.set_state(1, position=[0.0, 0.2, 0.0])
    with pytest.raises(DeviceError, match=r"found 049D, 049E; name one in connection.device"):
        build_hardware(data(service)).open()
    with (
        opened(data(service, device="049D", grip="61548")) as first,
        opened(data(service, device="049E", grip="61549")) as second,
    ):
        assert next_reading(second).pose[0] == pytest.approx(0.2)
        assert next_reading(first).pose[0] != pytest.approx(0.2)
        first.enable()
        second.enable()

        def both() -> bool:
            first.write(unit(2, 1.0))
            second.write(unit(2, -2.0))
            return service.told(0)["force"][2] == 1.0 and service.told(1)["force"][2] == -2.0

        wait_until(both, "both forces")
    service.close()
    assert service.misuse == ""


def test_a_device_that_is_not_calibrated_says_so(service: Service) -> None:
    service.set_state(0, ready=False)
    with opened(data(service)) as hardware:
        assert not next_reading(hardware).homed


INVERSE = '"inverse3":[{"device_id":"049D","state":%s}]'
STATE = '{"cursor_position":%s,"cursor_velocity":{"x":0,"y":0,"z":0}}'
GARBAGE = {
    "brackets": "[" * 100_000,
    "objects": '{"a":' * 100_000,
    "a number": "1",
    "nothing": " ",
    "half a message": '{"inverse3":[{"device',
    "an integer of 5000 digits": f'{{"a":{"1" * 5000}}}',
    "no list": '{"inverse3":7}',
    "a list of numbers": '{"inverse3":[1,2]}',
    "no state": "{" + INVERSE % "null" + "}",
    "a state of a list": "{" + INVERSE % "[]" + "}",
    "a position of a number": "{" + INVERSE % (STATE % "5") + "}",
    "no position": "{" + INVERSE % "{}" + "}",
}


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_message_of_any_shape_is_a_fault_with_its_name_and_the_device_is_usable_again(garbage: str) -> None:
    service = Service(idle=10.0)
    with opened(data(service)) as hardware:
        hardware.enable()
        push(hardware, unit(0, 1.0), lambda: any(service.told(0)["force"]), "a force")
        service.garble(GARBAGE[garbage])
        said = told_of_fault(hardware)
        assert said.startswith("Haply Inverse service: a message that is not understood") or "not connected" in said
        assert len(said) < 300
        wait_until(lambda: not any(service.told(0)["force"]), "zero force")
        service.garble("")
        hardware.open()
        assert next_reading(hardware).fault == ""
    service.close()


@pytest.mark.parametrize("number", ["1" * 400, '"five"', "true", "null", "[]", "1e999", "NaN"])
def test_what_is_no_number_in_a_message_is_a_reading_that_the_driver_rejects(number: str) -> None:
    service = Service(idle=10.0)
    with opened(data(service, grip="none")) as hardware:
        service.garble("{" + INVERSE % (STATE % f'{{"x":0,"y":{number},"z":0}}') + "}")
        reading = Reading()
        wait_until(lambda: hardware.read(reading) and not np.isfinite(reading.pose).all(), "a reading")
        assert reading.fault == "" and np.isfinite(reading.twist).all()
    service.close()


@pytest.mark.parametrize("event", ["[" * 100_000, "[]", "1", '{"data":[1]}', '{"data":{"device_id":[]},"level":{}}'])
def test_an_event_of_any_shape_leaves_no_dead_thread(service: Service, event: str) -> None:
    """It is a fault with a name, or is ignored."""
    with opened(data(service)) as hardware:
        service.send_event(event)
        reading, begun = Reading(), time.monotonic_ns()
        wait_until(lambda: hardware.read(reading) and (reading.fault or reading.time_ns > begun + 2e7), "its effect")
        assert not reading.fault or reading.fault.startswith("Haply Inverse service: a message that is not understood")


@pytest.mark.parametrize("inventory", ["[" * 100_000, "[]", '{"inverse3":[1]}', '{"inverse3":[{}]}', '{"inverse3":3}'])
def test_an_inventory_of_any_shape_is_said(inventory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(idle=10.0)
    monkeypatch.setattr(service, "_state", lambda full=False: inventory)
    with pytest.raises(DeviceError, match=r"Haply Inverse service: .*not understood"):
        build_hardware(data(service)).open()
    service.close()


def test_what_is_missing_is_named() -> None:
    with pytest.raises(DeviceError, match=r"Haply Inverse service: ws://127.0.0.1:9: .*refused.*Haply Hub"):
        build_hardware(driver_checks.parameters("inverse3", {"url": "ws://127.0.0.1:9"})).open()


@pytest.mark.parametrize(
    ("message", "misuse"),
    [
        ("1", "not an object"),
        ('{"inverse4": []}', "unknown keys: inverse4"),
        ('{"inverse3": [{"device_id": "FFFF", "commands": {}}]}', "no Inverse3 'FFFF'"),
        ('{"inverse3": [{"device_id": "049D", "commands": {}}]}', "commands none"),
        (
            '{"inverse3": [{"device_id": "049D", "commands": {"set_cursor_force": {"vector": {}, "values": {}}}}]}',
            "one of vector and values",
        ),
        (
            '{"inverse3": [{"device_id": "049D", "commands": {"set_cursor_force": {"vector": {"x": 1.0}}}}]}',
            "must have numbers x, y, z",
        ),
        (
            '{"inverse3": [{"device_id": "049D", "commands": '
            '{"set_cursor_force": {"vector": {"x": 1e3, "y": 0.0, "z": 0.0}}}}]}',
            "not in N",
        ),
        (
            '{"inverse3": [{"device_id": "049D", "commands": '
            '{"set_cursor_force": {"vector": {"x": NaN, "y": 0.0, "z": 0.0}}}}]}',
            "not in N",
        ),
    ],
)
def test_the_stand_in_catches_misuse(message: str, misuse: str) -> None:
    service = Service()
    channel = haply.Channel(service.url)
    assert "config" in json.loads(channel.wait_for_text())["inverse3"][0]
    channel.send(message)
    assert "config" not in json.dumps(json.loads(channel.wait_for_text()))
    channel.close()
    service.close()
    assert misuse in service.misuse


def test_the_stand_in_catches_silence_and_messages_on_the_channel_of_events() -> None:
    service = Service(idle=0.05)
    channel = haply.Channel(service.url)
    channel.wait_for_text()
    commands = {"set_cursor_force": {"vector": {"x": 1.0, "y": 0.0, "z": 0.0}}}
    channel.send(json.dumps({"inverse3": [{"device_id": "049D", "commands": commands}]}))
    channel.wait_for_text()
    assert service.told(0)["force"] == [1.0, 0.0, 0.0]
    wait_until(lambda: service.told(0)["silences"], "silence")
    assert service.told(0)["force"] == [0.0, 0.0, 0.0]
    events = haply.Channel(service.events_url)
    events.send("{}")
    wait_until(lambda: service.misuse, "misuse")
    assert "read-only" in service.misuse
    for one in (channel, events):
        one.close()
    service.close()


def test_a_servo_thread_waits_for_nothing(service: Service) -> None:
    """Reading and writing take no time of the service's: while an answer is late by far, they return."""
    with opened(data(service)) as hardware:
        hardware.enable()
        service.fault(0, Fault.LATE, 0.5)
        reading, begun = Reading(), time.thread_time()
        for _ in range(100):
            hardware.read(reading)
            hardware.write(unit(0, 1.0))
        assert time.thread_time() - begun < 0.5
