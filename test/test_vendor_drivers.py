"""What holds of each driver of a vendor's device behind the core of the node: a rotated mount, faults at any tick."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import driver_checks
import numpy as np
import pytest
from driver_checks import library, wait_until
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from haptic_drivers.devices.life import Request
from haptic_drivers.devices.link import Link
from haptic_drivers.devices.parameters import HardwareParameters, build_hardware
from haptic_drivers.driver import build_driver
from haptic_drivers.fakes import Fault
from haptic_drivers.fakes.haply import Service
from haptic_drivers.fakes.libraries import Library
from haptic_drivers.operators import ConstantParameters
from haptic_sim.messages import ENABLED, FAULT, FORCE, DeviceCommand, DeviceState
from haptic_sim.worlds.scenes import PegParameters

RATE = 200.0  # [Hz] as the driver counts; ticks come as soon as they can
PUSH = np.array([1.0, -0.5, 0.7, 0.0, 0.0, 0.0])
FAULTS = st.lists(st.sampled_from(list(Fault)), min_size=1, max_size=3)


class Stand(ABC):
    """A stand-in in the axes of the base: `axes` are forward, left and up in the vendor's."""

    axes: np.ndarray
    name: str
    connection: dict[str, Any]

    @abstractmethod
    def put(self, position: np.ndarray) -> None:
        """Put the hand somewhere (3,) [m]."""

    @abstractmethod
    def force(self) -> np.ndarray:
        """On the hand (3,) [N]."""

    fault: Callable[..., object]
    back: Callable[[int], None]


class HaplyStand(Stand):
    """Of Haply: x right, y forward, z up."""

    axes, name = np.array([(0, 1, 0), (-1, 0, 0), (0, 0, 1)]).T, "inverse3"

    def __init__(self) -> None:
        self._service = service = Service(idle=10.0)
        self.connection = {"url": service.url, "events": service.events_url}
        self.fault, self.back = service.fault, service.back

    def put(self, position: np.ndarray) -> None:
        self._service.set_state(0, position=(self.axes @ position).tolist())

    def force(self) -> np.ndarray:
        return self.axes.T @ self._service.told(0)["force"]

    def close(self) -> None:
        self._service.close()
        assert self._service.misuse == ""


class LibraryStand(Stand):
    """Of Force Dimension (x to the user, y right, z up; m) or OpenHaptics (x right, y up, z to the user; mm)."""

    def __init__(self, kind: str, path: Path):
        self._library = Library(path, period=0.5e-3, trip=1e6)
        self.connection = {"library": str(path)}
        self.fault, self.back = self._library.fault, self._library.back
        of_dhd = kind == "dhd"
        self.name, self._unit = ("sigma7", 1.0) if of_dhd else ("touch", 1e3)
        self.axes = np.array([(-1, 0, 0), (0, -1, 0), (0, 0, 1)] if of_dhd else [(0, 0, -1), (-1, 0, 0), (0, 1, 0)]).T

    def put(self, position: np.ndarray) -> None:
        self._library.set_state(0, self._unit * (self.axes @ position))

    def force(self) -> np.ndarray:
        return self.axes.T @ self._library.told(0).wrench[:3]

    def close(self) -> None:
        assert self._library.misuse == ""


@pytest.fixture(scope="module", params=["haply", "dhd", "hd"])
def stand(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """Each stand-in in turn, not misused in the end."""
    kind = request.param
    stand: Any = HaplyStand() if kind == "haply" else LibraryStand(kind, library(kind, tmp_path_factory.getbasetemp()))
    yield stand
    stand.close()


class Bench:
    """The core of a driver node over a device: a command is answered in its tick."""

    def __init__(self, stand: Stand, **keys: Any):
        free = {"soft_start": 0.0, "presence": "none", "aligned": "mount"}
        free["bound"] = {"wrench": [3.0] * 3 + [0.0] * 3, "rate": [1e5] * 3 + [0.0] * 3, "velocity": [2.0, 20.0]}
        device: HardwareParameters = driver_checks.parameters(stand.name, stand.connection, **{**free, **keys})
        self.link = Link(build_hardware(device), device, 1 / RATE, watch=False)
        none = ConstantParameters(wrench=(0.0,) * 6)
        self.driver = build_driver(device, none, PegParameters(), RATE, None, None, 0, None, self.link)
        self.tick, self.state = -1, DeviceState()
        self.link.open()
        self.driver.activate(0)
        self.driver.enable()

    def step(self, wrench: np.ndarray) -> DeviceState:
        """A tick in which a wrench is commanded (6,), in the world."""
        self.tick += 1
        self.driver.sense(self.tick, self.state)
        command = DeviceCommand()
        command.stamp(self.tick, 0)
        command.mode = FORCE
        command.wrench[:] = wrench
        self.driver.actuate(command)
        time.sleep(5e-4)
        return self.state

    def until(self, wrench: np.ndarray, condition: Callable[[DeviceState], object], what: str) -> None:
        """Ticks with a wrench until something is so."""
        wait_until(lambda: condition(self.step(wrench)), what)

    def enable_again(self) -> None:
        """As a person does who has seen the fault; waits until the device is open."""
        assert self.link.ask(Request.ENABLE) == ""
        for thread in threading.enumerate():
            if thread.name == "device opening":
                thread.join(10.0)

    def close(self) -> None:
        """End it."""
        self.driver.release()
        self.link.close()


@pytest.mark.parametrize("axis", range(3))
def test_a_push_along_each_axis_with_a_rotated_mount(stand: Stand, axis: int) -> None:
    rotation = Rotation.from_rotvec([0.3, -0.5, 0.7])
    unit = np.eye(3)[axis]
    stand.put(np.zeros(3))
    bench = Bench(stand, mount=[0.1, 0.2, 0.3, *rotation.as_quat()])
    bench.until(np.zeros(6), lambda state: state.reading_age < 0.1 and state.pose[0] == pytest.approx(0.1), "a reading")
    before = bench.state.pose[:3].copy()
    stand.put(0.01 * unit)
    bench.until(np.zeros(6), lambda state: np.linalg.norm(state.pose[:3] - before) > 5e-3, "a motion")
    np.testing.assert_allclose(bench.state.pose[:3] - before, rotation.apply(0.01 * unit), atol=1e-9)
    bench.until(np.array([*unit, 0.0, 0.0, 0.0]), lambda _: stand.force().any(), "a force")
    np.testing.assert_allclose(stand.force(), rotation.inv().apply(unit), atol=1e-9)
    bench.close()
    wait_until(lambda: not stand.force().any(), "zero force")


@settings(max_examples=8, deadline=None, phases=(Phase.explicit, Phase.generate))  # shrinking waits for what fails
@given(faults=FAULTS, ticks=st.lists(st.integers(1, 20), min_size=3, max_size=3))
def test_whatever_happens_at_any_tick_ends_in_zero_force_and_the_device_is_usable_again(
    stand: Stand, faults: list[Fault], ticks: list[int]
) -> None:
    stand.put(np.zeros(3))
    bench = Bench(stand)
    bench.until(PUSH, lambda _: stand.force().any(), "a force")
    for fault, wait in zip(faults, ticks, strict=False):
        for _ in range(wait):
            state = bench.step(PUSH)
            assert np.isfinite(state.pose).all() and np.isfinite(state.twist).all()
        value = {Fault.LATE: 2.0 * driver_checks.PATIENT, Fault.JUMP: 500.0, Fault.NOT_FINITE: 1e9}.get(fault, 5.0)
        stand.fault(0, fault, value)
        if fault == Fault.TWICE:
            continue  # does no harm
        bench.until(PUSH, lambda _: not stand.force().any(), f"zero force after {fault.name}")
    stand.back(0)
    if bench.step(PUSH).state == ENABLED:
        bench.until(PUSH, lambda state: state.state == FAULT or stand.force().any(), "a fault, or the force")
    if bench.state.state == FAULT:
        bench.enable_again()
    bench.until(PUSH, lambda _: stand.force().any(), "the force again")
    bench.close()
    wait_until(lambda: not stand.force().any(), "zero force")
