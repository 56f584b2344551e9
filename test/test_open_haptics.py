"""The driver of OpenHaptics' devices, against a stand-in for the vendor's library: frames, units, faults, misuse."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator
from ctypes import CFUNCTYPE, c_double, c_uint, c_void_p
from pathlib import Path

import driver_checks
import numpy as np
import pytest
from driver_checks import LOOK, YAW, check_enabling, check_loss, library, next_reading, opened, push, unit, wait_until

from haptic_drivers.devices.interface import DeviceError, Identifying
from haptic_drivers.devices.parameters import HardwareParameters, build_hardware
from stand_ins import Fault
from stand_ins.libraries import Library

VENDOR = {"forward": (0.0, 0.0, -1.0), "left": (-1.0, 0.0, 0.0), "up": (0.0, 1.0, 0.0)}  # x right, y up, z to the user
SIX = {"actuated": ("x", "y", "z", "rx", "ry", "rz")}
INWELL = 0x100


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in's file."""
    return library("hd", tmp_path_factory.getbasetemp())


@pytest.fixture
def vendor(path: Path) -> Iterator[Library]:
    """The stand-in with two devices, which was not misused in the end."""
    vendor = Library(path, devices=2)
    yield vendor
    assert vendor.misuse == ""
    vendor.reset()


def data(vendor: Library, device: str = "Default Device", **keys: object) -> HardwareParameters:
    """A device of the stand-in."""
    return driver_checks.parameters("touch", {"library": str(vendor.path), "device": device}, **keys)


def turned(about: np.ndarray, angle: float) -> np.ndarray:
    """The matrix (3, 3) of a rotation about an axis of length 1."""
    cross = np.array([[0, -about[2], about[1]], [about[2], 0, -about[0]], [-about[1], about[0], 0]])
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


@pytest.mark.long
@pytest.mark.parametrize("direction", LOOK)
def test_a_push_along_each_axis_is_felt_along_it_in_si_units(vendor: Library, direction: str) -> None:
    axis, along = LOOK[direction], np.array(VENDOR[direction])
    vendor.set_state(0, 20.0 * along, twist=np.array([*(300.0 * along), 0, 0, 0]))  # mm, mm/s
    with opened(data(vendor, **SIX)) as hardware:
        reading = next_reading(hardware)
        assert reading.pose == pytest.approx([*unit(axis, 0.02)[:3], 0.0, 0.0, 0.0, 1.0])
        assert reading.twist == pytest.approx(unit(axis, 0.3))
        hardware.enable()
        wrench = unit(axis, 2.0) + unit(3 + axis, 0.1)
        push(hardware, wrench, lambda: vendor.told(0).wrench.any(), "a force")
        assert vendor.told(0).wrench == pytest.approx([*(2.0 * along), *(100.0 * along)])  # N, mN m


@pytest.mark.parametrize("direction", LOOK)
def test_a_turn_is_seen_about_its_axis_and_its_speed_is_that_of_the_transforms(vendor: Library, direction: str) -> None:
    axis, along = LOOK[direction], np.array(VENDOR[direction])
    with opened(data(vendor)) as hardware:
        begun, largest = time.monotonic(), np.zeros(3)
        while (since := time.monotonic() - begun) < 0.3:
            vendor.set_state(0, np.zeros(3), frame=turned(along, 2.0 * since))  # rad/s
            largest = np.maximum(largest, next_reading(hardware).twist[3:])
        pose = next_reading(hardware).pose
        half = np.arcsin(pose[3 + axis])
        assert pose[3:] == pytest.approx([*unit(axis, np.sin(half))[:3], np.cos(half)], abs=1e-9)
        assert 0.0 < half <= 0.5 * 2.0 * (time.monotonic() - begun)
        assert largest[axis] > 0.0
        assert np.delete(largest, axis) == pytest.approx(0.0, abs=1e-9)


def test_the_transform_is_column_major(vendor: Library) -> None:
    about_vertical = turned(np.array(VENDOR["up"]), np.arctan2(0.6, 0.8))
    vendor.set_state(0, np.array([1.0, 2.0, 3.0]), frame=about_vertical)
    with opened(data(vendor)) as hardware:
        pose = next_reading(hardware).pose
        assert pose[:3] == pytest.approx([-0.003, -0.001, 0.002])
        assert pose[3:] == pytest.approx([0.0, 0.0, np.sqrt(0.1), np.sqrt(0.9)])
    assert YAW[1, 0] == pytest.approx(2 * np.sqrt(0.1 * 0.9))  # the same turn to the left as of other devices


def test_a_device_says_what_it_is(vendor: Library) -> None:
    with opened(data(vendor)) as hardware:
        assert isinstance(hardware, Identifying)
        assert hardware.identity() == "model stand-in for Touch"


def test_a_device_of_three_forces_gets_no_torque(vendor: Library) -> None:
    vendor.set_kind(0, torques=False)
    with opened(data(vendor, **SIX)) as hardware:
        hardware.enable()
        push(hardware, np.full(6, 0.1), lambda: vendor.told(0).wrench.any(), "a force")
        assert not vendor.told(0).wrench[3:].any()


def test_force_needs_enable_and_ends_with_disable_and_with_silence(vendor: Library) -> None:
    check_enabling(vendor, data(vendor))


def test_the_stylus_in_its_well_is_held_by_nobody(vendor: Library) -> None:
    vendor.set_state(0, np.zeros(3), buttons=2 | INWELL)
    with opened(data(vendor)) as hardware:
        reading = next_reading(hardware)
        assert reading.present == 0
        assert reading.buttons[:2].tolist() == [0, 1]
        vendor.set_state(0, np.zeros(3))
        assert next_reading(hardware).present == 1


@pytest.mark.parametrize("fault", [Fault.MUTE, Fault.GONE])
def test_a_device_that_is_lost_gets_no_force_and_can_be_opened_again(vendor: Library, fault: Fault) -> None:
    text = "Device fault (0x300)" if fault == Fault.MUTE else "Communication error (0x302)"
    refusal = r"hdInitDevice\('Default Device'\): Device fault \(0x300\); check"
    check_loss(vendor, data(vendor), fault, f"3D Systems OpenHaptics (libHD): {text}", refusal)


def test_jumps_and_nan_are_passed_on_to_be_rejected_and_frames_that_come_twice_do_no_harm(vendor: Library) -> None:
    with opened(data(vendor)) as hardware:
        reading = next_reading(hardware)
        vendor.fault(0, Fault.JUMP, 500.0)
        wait_until(lambda: hardware.read(reading) and reading.pose[1] < -0.4, "a jump")
        vendor.fault(0, Fault.NOT_FINITE, 1e9)
        wait_until(lambda: hardware.read(reading) and np.isnan(reading.pose[2]), "a NaN")
        vendor.back(0)
        vendor.set_state(0, np.zeros(3), frame=YAW)
        vendor.fault(0, Fault.TWICE, 1e9)
        for _ in range(20):
            assert np.isfinite(next_reading(hardware).twist).all()
        vendor.back(0)
        vendor.fault(0, Fault.LATE, 0.05)
        assert next_reading(hardware).fault == ""


def test_two_devices_at_once_share_the_scheduler(vendor: Library) -> None:
    vendor.set_state(1, np.array([0.0, 50.0, 0.0]))
    with opened(data(vendor)) as first:
        next_reading(first)
        first.enable()
        with opened(data(vendor, device="Left Device")) as second:
            assert next_reading(first).pose[2] == 0.0
            assert next_reading(second).pose[2] == pytest.approx(0.05)
            second.enable()

            def both() -> bool:
                first.write(unit(2, 1.0))
                second.write(unit(2, -2.0))
                return bool(vendor.told(0).wrench[1] == 1.0 and vendor.told(1).wrench[1] == -2.0)

            wait_until(both, "both forces")
        push(first, unit(2, 1.0), lambda: vendor.told(0).wrench[1] == 1.0, "the force of the first")
        assert not vendor.told(1).open


def test_what_is_not_calibrated_says_so(vendor: Library) -> None:
    vendor.set_kind(0, homed=False)
    with opened(data(vendor)) as hardware:
        assert not next_reading(hardware).homed


def test_a_library_that_does_not_know_how_many_directions_it_renders(vendor: Library) -> None:
    vendor.set_kind(0, wrist=False)
    with opened(data(vendor)) as hardware:
        hardware.enable()
        push(hardware, unit(0, 1.0), lambda: vendor.told(0).wrench.any(), "a force")


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, vendor: Library) -> None:
    with pytest.raises(DeviceError, match=r"hdInitDevice\('Elsewhere'\): Device fault \(0x300\); check cable"):
        build_hardware(data(vendor, device="Elsewhere")).open()
    monkeypatch.setenv("OH_SDK_BASE", str(tmp_path))
    with pytest.raises(DeviceError, match=r"touch: 3D Systems OpenHaptics \(libHD\): not found: .*set OH_SDK_BASE"):
        build_hardware(driver_checks.parameters("touch", {})).open()


@pytest.mark.parametrize(("system", "machine"), [("Windows", "AMD64"), ("Linux", "i686"), ("Darwin", "arm64")])
def test_a_machine_on_which_it_cannot_run_is_named(system: str, machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    with pytest.raises(DeviceError, match=rf"touch: 3D Systems OpenHaptics .*ARM, and this is {system} on {machine}: "):
        build_hardware(driver_checks.parameters("touch", {})).open()


def test_the_stand_in_catches_misuse(path: Path) -> None:
    vendor = Library(path)
    call = vendor.library
    values = (c_double * 16)(1.0)

    def caught(expected: str) -> None:
        call.hdStopScheduler()
        assert expected in vendor.misuse
        vendor.reset()

    def called(body: object, enabled: bool = True) -> None:
        """Call from the scheduler once."""
        handle = call.hdInitDevice(None)
        if enabled:
            call.hdEnable(0x4000)

        def callback(_: object) -> int:
            body(handle)  # type: ignore[operator]
            return 0

        kept = CFUNCTYPE(c_uint, c_void_p)(callback)
        call.hdScheduleAsynchronous(kept, None, 65535)
        call.hdStartScheduler()
        wait_until(lambda: vendor.misuse, "misuse")

    call.hdInitDevice(None)
    call.hdGetDoublev(0x2050, values)
    caught("outside a frame")
    call.hdStartScheduler()
    caught("before hdInitDevice")
    call.hdBeginFrame(c_uint(0xFFFFFFFF))
    caught("no such handle")
    handle = call.hdInitDevice(None)
    call.hdBeginFrame(handle)
    caught("not in the servo thread")
    called(lambda handle: time.sleep(0.001))
    caught("blocked")
    called(lambda handle: call.hdBeginFrame(handle))
    caught("returned within a frame")

    def force(size: float) -> object:
        def body(handle: int) -> None:
            call.hdBeginFrame(handle)
            call.hdSetDoublev(0x2700, (c_double * 3)(size))
            call.hdEndFrame(handle)

        return body

    called(force(1.0), enabled=False)
    caught("before hdEnable")
    called(force(1000.0))
    caught("is not in N")
    handle = call.hdInitDevice(None)
    call.hdStartScheduler()
    call.hdDisableDevice(handle)
    caught("while the scheduler runs")
