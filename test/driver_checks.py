"""Shared by the tests of drivers of hardware devices: their data, and what holds for each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from conftest import ROOT

from haptic_drivers.devices.interface import DeviceError, Hardware, Reading
from haptic_drivers.devices.parameters import build_hardware
from haptic_drivers.hardware import HardwareDeviceParameters
from stand_ins import Fault
from stand_ins.libraries import Library, NoCompiler, build

PATIENT = 0.2  # [s] watchdogs of tests: a machine with other work stalls for tens of milliseconds
LOOK = {"forward": 0, "left": 1, "up": 2}  # axes of the base, REP 103: x forward, y left, z up
YAW = np.array([[0.8, -0.6, 0.0], [0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])  # about the vertical, to the left


def parameters(name: str, connection: dict[str, Any], **keys: Any) -> HardwareDeviceParameters:
    """The data of a device in config/devices, with other keys."""
    data = yaml.safe_load((ROOT / "config" / "devices" / f"{name}.yaml").read_text(encoding="utf-8"))
    data["connection"] |= connection
    watchdogs = {"watchdog": PATIENT, "reading_watchdog": PATIENT}
    return HardwareDeviceParameters.model_validate({"name": name, **data, **watchdogs, **keys})


@contextmanager
def opened(device: HardwareDeviceParameters) -> Iterator[Hardware]:
    """A driver that is open, and closed in the end."""
    hardware = build_hardware(device)
    hardware.open()
    try:
        yield hardware
    finally:
        hardware.close()


def library(name: str, folder: Path, *defined: str) -> Path:
    """A stand-in for a vendor's library; the test is skipped where it cannot be compiled.

    Its driver compiles a loop for each file that it loads: in the folder of the session all tests load the same one.
    """
    try:
        return build(name, folder, *defined)
    except NoCompiler as error:
        pytest.skip(str(error))


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait for something that must happen soon; asks often, since what a device tells is gone with the next reading."""
    deadline = time.monotonic() + 30.0
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"waited in vain for {what}")
        time.sleep(0.001)


def next_reading(hardware: Hardware, after: int | None = None) -> Reading:
    """A reading that arrived after a time [ns]; None: after this call."""
    reading = Reading()
    after = time.monotonic_ns() if after is None else after
    wait_until(lambda: hardware.read(reading) and reading.time_ns > after, "a reading")
    return reading


def told_of_fault(hardware: Hardware) -> str:
    """What a device says is wrong; waits until it does."""
    reading = Reading()
    wait_until(lambda: hardware.read(reading) and reading.fault, "a fault")
    return reading.fault


def push(hardware: Hardware, wrench: np.ndarray, until: Callable[[], object], what: str) -> None:
    """Command a wrench, as a servo thread does, until something is so."""

    def write() -> object:
        hardware.write(wrench)
        return until()

    wait_until(write, what)


def unit(direction: int, size: float) -> np.ndarray:
    """A wrench (6,) in one direction."""
    wrench = np.zeros(6)
    wrench[direction] = size
    return wrench


def check_enabling(vendor: Library, device: HardwareDeviceParameters) -> None:
    """No force before a device is enabled, none after it is disabled or when commands end; it is closed in the end."""
    with opened(device) as hardware:
        before = vendor.told(0).count
        push(hardware, unit(0, 1.0), lambda: vendor.told(0).count > before + 20, "turns")
        assert vendor.told(0).changed == 0.0 and not vendor.told(0).enabled
        hardware.enable()
        push(hardware, unit(0, 1.0), lambda: vendor.told(0).wrench.any(), "a force")
        hardware.disable()
        wait_until(lambda: not vendor.told(0).wrench.any() and not vendor.told(0).enabled, "zero force")
        hardware.enable()
        push(hardware, unit(0, 1.0), lambda: vendor.told(0).wrench.any(), "a force")
        wait_until(lambda: not vendor.told(0).wrench.any(), "zero force without commands")
    assert not vendor.told(0).open


def check_loss(vendor: Library, device: HardwareDeviceParameters, fault: Fault, text: str, refusal: str) -> None:
    """A device that is lost gets no force, says `text`, cannot be opened while it is gone, and comes back."""
    with opened(device) as hardware:
        hardware.enable()
        push(hardware, unit(0, 1.0), lambda: vendor.told(0).wrench.any(), "a force")
        vendor.fault(0, fault)
        push(hardware, unit(0, 1.0), lambda: not vendor.told(0).wrench.any(), "zero force")
        assert told_of_fault(hardware) == text
        if fault == Fault.GONE:
            with pytest.raises(DeviceError, match=refusal):
                hardware.open()
        vendor.back(0)
        hardware.open()
        assert next_reading(hardware).fault == ""
        assert not vendor.told(0).wrench.any()
        hardware.enable()
        push(hardware, unit(0, 1.0), lambda: vendor.told(0).wrench.any(), "the force again")
