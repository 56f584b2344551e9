"""The driver of Force Dimension's devices, against a stand-in for the vendor's library: axes, units, faults, misuse."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_double, c_int, c_void_p
from pathlib import Path
from typing import Any, cast

import driver_checks
import numpy as np
import pytest
from driver_checks import (
    LOOK,
    YAW,
    check_enabling,
    check_loss,
    library,
    next_reading,
    opened,
    push,
    told_of_fault,
    unit,
    wait_until,
)

from haptic_drivers.devices.interface import DeviceError, Identifying
from haptic_drivers.devices.life import Request
from haptic_drivers.devices.link import Link
from haptic_drivers.devices.parameters import HardwareParameters, build_hardware
from haptic_sim.messages import FAULT, DeviceReading, Reason
from stand_ins import Fault
from stand_ins.libraries import Library

VENDOR = {"forward": (-1.0, 0.0, 0.0), "left": (0.0, -1.0, 0.0), "up": (0.0, 0.0, 1.0)}  # x to the user, y right, z up
NEVER = 1e6  # times the watchdog's time: a machine with other work is no misuse


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in's file."""
    return library("dhd", tmp_path_factory.getbasetemp())


@pytest.fixture
def vendor(path: Path) -> Iterator[Library]:
    """The stand-in with two devices, which was not misused in the end."""
    vendor = Library(path, devices=2, period=0.5e-3, trip=NEVER)
    yield vendor
    assert vendor.misuse == ""


def data(vendor: Library, name: str = "sigma7", **connection: object) -> HardwareParameters:
    """A device of the stand-in."""
    return driver_checks.parameters(name, {"library": str(vendor.path), **connection})


@pytest.mark.exhaustive
@pytest.mark.long
@pytest.mark.parametrize("direction", LOOK)
def test_a_push_and_a_turn_along_each_axis_are_felt_along_it(vendor: Library, direction: str) -> None:
    axis, along = LOOK[direction], np.array(VENDOR[direction])
    vendor.set_state(0, 0.02 * along, twist=np.array([*(0.3 * along), *(0.7 * along)]))
    with opened(data(vendor)) as hardware:
        wait_until(lambda: next_reading(hardware).twist.any(), "a velocity")  # needs two positions
        reading = next_reading(hardware)
        assert reading.pose == pytest.approx([*unit(axis, 0.02)[:3], 0.0, 0.0, 0.0, 1.0])
        assert reading.twist == pytest.approx(unit(axis, 0.3) + unit(3 + axis, 0.7))
        hardware.enable()
        wrench = unit(axis, 2.0) + unit(3 + axis, 0.1)
        push(hardware, wrench, lambda: vendor.told(0).wrench.any(), "a force")
        assert vendor.told(0).wrench == pytest.approx([*(2.0 * along), *(0.1 * along)])


def test_the_frame_is_row_major_and_turned_with_the_base(vendor: Library) -> None:
    vendor.set_state(0, np.zeros(3), frame=YAW)
    with opened(data(vendor)) as hardware:
        # a turn to the left seen from above is one, whatever the horizontal axes are called
        assert next_reading(hardware).pose[3:] == pytest.approx([0.0, 0.0, np.sqrt(0.1), np.sqrt(0.9)])


def test_without_a_wrist_there_are_no_angular_velocities_and_no_torques(vendor: Library) -> None:
    vendor.set_kind(0, wrist=False, torques=False)
    with opened(data(vendor, "omega3")) as hardware:
        next_reading(hardware)
        hardware.enable()
        push(hardware, np.full(6, 0.3), lambda: vendor.told(0).wrench.any(), "a force")
        assert vendor.told(0).wrench == pytest.approx([-0.3, -0.3, 0.3, 0.0, 0.0, 0.0])
        assert not next_reading(hardware).twist[3:].any()


@pytest.mark.parametrize("name", ["sigma7", "omega6", "omega3"])
def test_each_device_in_the_data_is_opened(vendor: Library, name: str) -> None:
    with opened(data(vendor, name)) as hardware:
        next_reading(hardware)
    assert vendor.told(0).watchdog == pytest.approx(0.02)


def test_a_device_says_what_it_is(vendor: Library) -> None:
    with opened(data(vendor)) as hardware:
        assert isinstance(hardware, Identifying)
        assert hardware.identity() == "stand-in for sigma.7, serial number 1234"


def test_buttons_are_bits(vendor: Library) -> None:
    vendor.set_state(0, np.zeros(3), buttons=5)
    with opened(data(vendor)) as hardware:
        assert next_reading(hardware).buttons[:4].tolist() == [1, 0, 1, 0]


def test_force_needs_enable_and_ends_with_disable_and_with_silence(vendor: Library) -> None:
    check_enabling(vendor, data(vendor))


def test_the_watchdog_of_the_device_is_set_and_what_it_does_is_a_fault(path: Path) -> None:
    vendor = Library(path, period=0.5e-3, trip=1.0)
    with opened(data(vendor, watchdog=0.02)) as hardware:
        wait_until(lambda: vendor.told(0).watchdog == pytest.approx(0.02), "the watchdog")
        hardware.enable()
        push(hardware, unit(0, 1.0), lambda: vendor.told(0).wrench.any() or vendor.told(0).tripped, "a force")
        vendor.fault(0, Fault.LATE, 0.1)  # a call that hangs: nobody but the device can do anything
        wait_until(lambda: vendor.told(0).tripped, "the watchdog")
        assert not vendor.told(0).wrench.any()
        assert "switched its force off" in told_of_fault(hardware)
        hardware.open()
        assert next_reading(hardware).fault == ""
    assert vendor.misuse == ""


@pytest.mark.parametrize("fault", [Fault.MUTE, Fault.GONE])
def test_a_device_that_is_lost_gets_no_force_and_can_be_opened_again(vendor: Library, fault: Fault) -> None:
    text = "Force Dimension SDK (libdhd): communication error"
    check_loss(vendor, data(vendor), fault, text, r"dhdOpenID\(0\): no device found")


def test_jumps_and_nan_are_passed_on_to_be_rejected_and_old_positions_are_no_readings(vendor: Library) -> None:
    with opened(data(vendor)) as hardware:
        reading = next_reading(hardware)
        vendor.fault(0, Fault.JUMP, 0.5)
        wait_until(lambda: hardware.read(reading) and reading.pose[0] < -0.4, "a jump")
        vendor.fault(0, Fault.NOT_FINITE, 1e9)
        wait_until(lambda: hardware.read(reading) and np.isnan(reading.pose[1]), "a NaN")
        vendor.back(0)
        vendor.fault(0, Fault.TWICE, 1e9)  # DHD_TIMEGUARD: the position of before
        hardware.read(reading)
        turns = vendor.told(0).count
        wait_until(lambda: vendor.told(0).count > turns + 5, "turns")
        hardware.read(reading)
        turns = vendor.told(0).count
        wait_until(lambda: vendor.told(0).count > turns + 5, "turns")
        assert not hardware.read(reading)
        vendor.back(0)
        assert next_reading(hardware).pose[:3] == pytest.approx([0.0, 0.0, 0.0])


def test_two_devices_at_once(vendor: Library) -> None:
    vendor.set_state(1, np.array([0.0, 0.0, 0.05]))
    with opened(data(vendor)) as first, opened(data(vendor, index=1)) as second:
        assert next_reading(first).pose[2] == 0.0
        assert next_reading(second).pose[2] == pytest.approx(0.05)
        first.enable()
        second.enable()

        def both() -> bool:
            first.write(unit(2, 1.0))
            second.write(unit(2, -2.0))
            return bool(vendor.told(0).wrench[2] == 1.0 and vendor.told(1).wrench[2] == -2.0)

        wait_until(both, "both forces")


def test_what_is_not_homed_says_so(vendor: Library) -> None:
    vendor.set_kind(0, homed=False)
    with opened(data(vendor)) as hardware:
        wait_until(lambda: not next_reading(hardware).homed, "it is not homed")


@contextmanager
def linked(vendor: Library, wrist: bool = True) -> Iterator[tuple[Link, Callable[[], DeviceReading]]]:
    """A line to a device that is not homed, and its reading in a tick; the driver is active."""
    vendor.set_kind(0, wrist=wrist, homed=False)
    device = data(vendor)
    link, told = Link(build_hardware(device), device, 1e-3, watch=False), DeviceReading()

    def tick() -> DeviceReading:
        link.take(0, told)
        return told

    link.open()
    link.enable()
    wait_until(lambda: tick().reason == Reason.NOT_HOMED, "a reading that is not homed")
    try:
        yield link, tick
    finally:
        link.close()


def test_a_device_that_is_not_homed_is_homed_when_that_is_asked_for(vendor: Library) -> None:
    with linked(vendor) as (link, tick):
        assert "does not know its position: home it" in link.ask(Request.ENABLE)
        assert link.ask(Request.HOME) == ""
        wait_until(lambda: vendor.moves(0), "a motion")
        assert tick().reason == Reason.NOT_HOMED and not link.life.fault
        wait_until(lambda: tick().reason == Reason.NOT_ENABLED, "its end")
        assert link.ask(Request.ENABLE) == ""

        def pushes() -> bool:
            tick()
            link.write(unit(0, 1.0))
            return bool(vendor.told(0).wrench.any())

        wait_until(pushes, "a force")


@pytest.mark.parametrize("request_", [Request.STOP, Request.DISABLE])
def test_homing_ends_when_that_is_asked_for(vendor: Library, request_: Request) -> None:
    vendor.home_for(60.0)
    with linked(vendor) as (link, tick):
        link.ask(Request.HOME)
        wait_until(lambda: vendor.moves(0), "a motion")
        assert link.ask(request_) == ""
        wait_until(lambda: not vendor.moves(0), "its end")
        vendor.home_for(0.02)
        wait_until(lambda: tick().age < driver_checks.PATIENT, "a reading")
        assert tick().reason == (Reason.STOPPED if request_ == Request.STOP else Reason.NOT_HOMED)
        assert link.ask(Request.RESET) == link.ask(Request.HOME) == ""
        wait_until(lambda: tick().reason == Reason.NOT_ENABLED, "that it is homed")
        vendor.home_for(60.0)
        assert link.ask(Request.HOME) == ""  # once more
        wait_until(lambda: (tick(), vendor.moves(0))[1], "a motion")
        link.ask(request_)
        wait_until(lambda: not vendor.moves(0), "its end")


class HeldBack:
    """A vendor's library whose drdAutoInit waits for `go`, before it begins or after it has ended."""

    def __init__(self, library: Any, begins: bool):
        self._library, self._begins, self.reached, self.go = library, begins, threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    def drdAutoInit(self, id: int) -> int:
        result: int = 0 if self._begins else self._library.drdAutoInit(id)
        self.reached.set()
        assert self.go.wait(30.0)
        return self._library.drdAutoInit(id) if self._begins else result


@contextmanager
def held_back(vendor: Library, begins: bool) -> Iterator[tuple[Link, HeldBack]]:
    """A line to a device that is asked to home, and what holds it back."""
    with linked(vendor) as (link, _):
        hardware = cast(Any, link)._hardware
        hardware._library = held = HeldBack(hardware._library, begins)
        assert link.ask(Request.HOME) == ""
        yield link, held


@pytest.mark.parametrize("finishes", [False, True])
def test_homing_is_not_lost_while_the_one_before_is_being_concluded(vendor: Library, finishes: bool) -> None:
    vendor.home_for(0.0 if finishes else 60.0)
    with held_back(vendor, begins=False) as (link, held):
        wait_until(held.reached.is_set if finishes else lambda: vendor.moves(0), "a motion")
        assert link.ask(Request.STOP) == ""
        assert held.reached.wait(30.0)
        vendor.home_for(60.0)
        assert link.ask(Request.RESET) == link.ask(Request.HOME) == ""
        held.go.set()
        wait_until(lambda: vendor.moves(0), "the next motion")
        assert not link.life.fault


def test_homing_that_is_just_about_to_begin_is_ended(vendor: Library) -> None:
    vendor.home_for(60.0)
    with held_back(vendor, begins=True) as (link, held):
        assert held.reached.wait(30.0)
        assert link.ask(Request.STOP) == ""
        held.go.set()
        hardware = cast(Any, link)._hardware
        wait_until(lambda: not hardware._moving, "its end")
        assert not vendor.moves(0) and not link.life.fault


def test_closing_ends_homing(vendor: Library) -> None:
    vendor.home_for(60.0)
    with linked(vendor) as (link, _):
        link.ask(Request.HOME)
        wait_until(lambda: vendor.moves(0), "a motion")
    assert not vendor.moves(0) and not vendor.told(0).open


def test_homing_that_fails_is_a_fault(vendor: Library) -> None:
    vendor.home_for(60.0)
    with linked(vendor) as (link, tick):
        link.ask(Request.HOME)
        wait_until(lambda: vendor.moves(0), "a motion")
        vendor.fault(0, Fault.GONE)
        wait_until(lambda: tick().state == FAULT, "a fault")
        assert link.life.fault == "Force Dimension SDK (libdhd): drdAutoInit: communication error"
        vendor.back(0)


def test_a_device_that_cannot_home_says_so(vendor: Library) -> None:
    with linked(vendor, wrist=False) as (link, tick):  # others are what the stand-in supports
        link.ask(Request.HOME)
        wait_until(lambda: tick().state == FAULT, "a fault")
        assert "drdIsSupported: the device cannot home by itself: calibrate it by hand" in link.life.fault


@pytest.mark.exhaustive
def test_a_library_without_homing_says_what_to_use(vendor: Library, tmp_path: Path) -> None:
    alone = Library(library("dhd", tmp_path, "ALONE"), period=0.5e-3, trip=NEVER)
    with linked(alone) as (link, tick):
        refused = link.ask(Request.HOME)
        assert (
            refused.startswith("home: Force Dimension SDK (libdhd): ") and "has no drdAutoInit: use libdrd" in refused
        )
        assert tick().reason == Reason.NOT_HOMED and not link.life.fault
    assert alone.misuse == ""


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FORCEDIM_SDK", str(tmp_path))
    with pytest.raises(DeviceError, match=r"sigma7: Force Dimension SDK \(libdhd\): not found: .*set FORCEDIM_SDK"):
        build_hardware(driver_checks.parameters("sigma7", {})).open()
    old = library("dhd", tmp_path, "OLD")
    with pytest.raises(DeviceError, match=r"has no dhdSetWatchdog: it is too old"):
        build_hardware(driver_checks.parameters("sigma7", {"library": str(old)})).open()


def test_the_library_is_found_in_the_sdk(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "libdhd.so.3").symlink_to(tmp_path / "not_this_one")
    (folder / "libdrd.so.3").symlink_to(path)
    monkeypatch.setenv("FORCEDIM_SDK", str(tmp_path))
    Library(path)
    with opened(driver_checks.parameters("sigma7", {})) as hardware:
        next_reading(hardware)


def test_the_stand_in_catches_misuse(path: Path) -> None:
    vendor = Library(path, trip=0.0)
    call = vendor.library
    force = [c_double(one) for one in (1.0, 0, 0, 0, 0, 0, 0)]

    def caught(expected: str) -> None:
        assert expected in vendor.misuse
        vendor.reset(trip=NEVER)

    call.dhdSetForceAndTorqueAndGripperForce(*force, 0)
    caught("is not open")
    call.dhdOpenID(0)
    call.dhdSetForceAndTorqueAndGripperForce(*force, 0)
    caught("before dhdEnableForce")
    call.dhdOpenID(0)
    call.dhdGetLinearVelocity(None, None, None, 0)
    caught("the estimator needs 2")
    call.dhdOpenID(0)
    call.dhdEnableForce(1, 0)
    caught("without dhdSetWatchdog")
    call.dhdOpenID(0)
    call.dhdSetWatchdog(c_int(10), 0)
    call.dhdEnableForce(1, 0)
    call.dhdSetForceAndTorqueAndGripperForce(c_double(1000.0), *force[1:], 0)
    caught("is not in N")
    call.dhdOpenID(0)
    call.dhdSetWatchdog(c_int(10), 0)
    call.dhdEnableForce(1, 0)
    call.dhdClose(0)
    caught("dhdStop comes first")
    call.dhdStop(c_int(-1))
    caught("name the device")
    call.dhdOpenID(0)
    call.drdAutoInit(0)
    caught("drdOpenID comes first")
    call.drdOpenID(0)
    call.dhdSetWatchdog(c_int(10), 0)
    call.dhdEnableForce(1, 0)
    call.drdAutoInit(0)
    caught("dhdStop comes first")
    call.drdOpenID(0)
    call.drdAutoInit(0)
    call.dhdSetForceAndTorqueAndGripperForce(*force, 0)
    caught("while it regulates: drdStop comes first")
    call.drdOpenID(0)
    call.drdStop(True, 0)
    caught("leaves forces on")
    hardware = build_hardware(data(vendor))
    hardware.open()
    next_reading(hardware)
    call.dhdGetPositionAndOrientationFrame(*(4 * [np.zeros((3, 3)).ctypes.data_as(c_void_p)]), 0)
    hardware.close()
    assert "thread" in vendor.misuse
    vendor.reset()
