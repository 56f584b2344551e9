"""What holds of each driver of a vendor's device behind the core of the node: a rotated mount, faults at any tick.

Each stand-in can do each fault of `stand_ins.Fault`, and send older messages: the service those of 3.4, the
libraries without functions and numbers that they have got since; the messages of the Haply 2diy have no versions.
"""

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
from driver_checks import library, next_reading, opened, push, wait_until
from fake_haply_2diy import APART, DISTAL, HOME, NUMBER, PROXIMAL, Board, angles_at, board, force_of
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from haptic_drivers.devices.haply_2diy import Pantograph
from haptic_drivers.devices.interface import DeviceError, Reading
from haptic_drivers.devices.life import Request
from haptic_drivers.devices.link import Link
from haptic_drivers.devices.parameters import HardwareParameters, build_hardware
from haptic_drivers.driver import build_driver
from haptic_drivers.operators import ConstantParameters
from haptic_sim.messages import ENABLED, FAULT, FORCE, DeviceCommand, DeviceState
from haptic_sim.worlds.scenes import PegParameters
from stand_ins import Fault
from stand_ins.haply import Service
from stand_ins.libraries import Library

RATE = 200.0  # [Hz] as the driver counts; ticks come as soon as they can
PUSH = np.array([1.0, -0.5, 0.7, 0.0, 0.0, 0.0])
FAULTS = st.lists(st.sampled_from(list(Fault)), min_size=1, max_size=3)


class Stand(ABC):
    """A stand-in in the axes of the base: `axes` are forward, left and up in the vendor's.

    Attributes:
        directions: how many of the axes of the base have a motor.
        home: where the hand is when it is put to zero (3,) [m].
        jump: of `Fault.JUMP`, further than the device moves; fastest: its speed [m/s].
    """

    axes: np.ndarray
    name: str
    connection: dict[str, Any]
    directions = 3
    home = np.zeros(3)
    jump, fastest = 500.0, 2.0

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


class BoardStand(Stand):
    """Of the Haply 2diy, whose x is right and y toward the user, in degrees and N m at the motors."""

    name, directions, jump, fastest = "haply_2diy", 2, 40.0, 0.3

    def __init__(self, board: Board):
        self._board, self._mechanism = board, Pantograph(PROXIMAL, DISTAL, APART)
        self.connection = {"port": board.port}
        self.fault, self.back = board.fault, board.back
        point, _ = self._locate()
        self.home = np.array([point[0] - 0.5 * APART, -point[1], 0.0])

    def _locate(self) -> tuple[np.ndarray, np.ndarray]:
        return self._mechanism.locate(np.radians(self._board.angles[::-1]))

    def put(self, position: np.ndarray) -> None:
        x, y, _ = self.home + position
        self._board.angles[:] = angles_at(np.array([x + 0.5 * APART, -y]))

    def force(self) -> np.ndarray:
        fx, fy = force_of(self._board.torques, self._locate()[1])
        return np.array([fx, -fy, 0.0])


@pytest.fixture(scope="module", params=["haply", "dhd", "hd", "2diy"])
def stand(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """Each stand-in in turn, not misused in the end."""
    kind = request.param
    if kind == "2diy":
        with board() as one:
            yield BoardStand(one)
        return
    stand: Any = HaplyStand() if kind == "haply" else LibraryStand(kind, library(kind, tmp_path_factory.getbasetemp()))
    yield stand
    stand.close()


class Bench:
    """The core of a driver node over a device: a command is answered in its tick."""

    def __init__(self, stand: Stand, **keys: Any):
        free: dict[str, Any] = {"soft_start": 0.0, "presence": "none", "aligned": "mount", "wall": (0.0, 0.0)}
        free["bound"] = {"wrench": [3.0] * 3 + [0.0] * 3, "rate": [1e5] * 3 + [0.0] * 3}
        free["bound"]["velocity"] = [stand.fastest, 20.0]
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
        self.driver.sense(self.tick, self.state, time.monotonic_ns())
        command = DeviceCommand()
        command.stamp(self.tick, 0)
        command.mode = FORCE
        command.wrench[:] = wrench
        self.driver.actuate(command)
        time.sleep(5e-4)
        return self.state

    def until(self, wrench: np.ndarray, condition: Callable[[DeviceState], object], what: str) -> None:
        """Ticks with a wrench until something is so; else the device is closed, for the tests to come."""
        try:
            wait_until(lambda: condition(self.step(wrench)), what)
        except pytest.fail.Exception as error:
            self.close()
            pytest.fail(f"{error}: {self.link.life.fault or self.state.reason}")

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
    if axis >= stand.directions:
        pytest.skip("the device has no motor there")
    rotation = Rotation.from_rotvec([0.3, -0.5, 0.7])
    unit = np.eye(3)[axis]
    stand.put(np.zeros(3))
    bound = {
        "wrench": [3.0] * 3 + [0.0] * 3,
        "rate": [1e5] * 3 + [0.0] * 3,
        "velocity": [10.0, 200.0],
    }  # a step is no fault
    bench = Bench(stand, mount=[0.1, 0.2, 0.3, *rotation.as_quat()], bound=bound)
    x = 0.1 + rotation.apply(stand.home)[0]
    bench.until(
        np.zeros(6), lambda state: state.reading_age < 0.1 and state.pose[0] == pytest.approx(x, rel=1e-6), "a reading"
    )
    before = bench.state.pose[:3].copy()
    stand.put(0.01 * unit)
    bench.until(np.zeros(6), lambda state: np.linalg.norm(state.pose[:3] - before) > 5e-3, "a motion")
    bench.until(np.zeros(6), lambda state: np.abs(state.twist).max() < 1e-6, "its end")  # of a filtered difference
    np.testing.assert_allclose(bench.state.pose[:3] - before, rotation.apply(0.01 * unit), atol=1e-7)
    if bench.state.state == FAULT:  # a core that stood still for long
        bench.enable_again()
    bench.until(np.array([*unit, 0.0, 0.0, 0.0]), lambda _: stand.force().any(), "a force")
    motors = np.arange(3) < stand.directions
    np.testing.assert_allclose(stand.force(), motors * rotation.inv().apply(unit), atol=1e-6)
    bench.close()
    wait_until(lambda: not stand.force().any(), "zero force")


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name)
def test_each_stand_in_can_do_each_fault(stand: Stand, fault: Fault) -> None:
    """As a driver sees it, without the core; in the end the device is usable again."""
    stand.put(np.zeros(3))
    late = 2.0 * driver_checks.PATIENT
    with opened(driver_checks.parameters(stand.name, stand.connection)) as hardware:
        hardware.enable()
        push(hardware, PUSH, lambda: stand.force().any(), "a force")
        before = next_reading(hardware)
        stand.fault(0, fault, {Fault.LATE: late, Fault.JUMP: stand.jump, Fault.NOT_FINITE: 1e9}.get(fault, 5.0))
        after = Reading()

        def seen() -> bool:
            """Whether a device that goes on being driven does what it should not."""
            hardware.write(PUSH)
            try:
                new = hardware.read(after)
            except DeviceError as error:
                after.fault = str(error)
            if fault in (Fault.MUTE, Fault.GONE):
                return bool(after.fault) or time.monotonic_ns() - before.time_ns > 1e9 * late
            assert not after.fault or fault in (Fault.LATE, Fault.JUMP)
            if fault == Fault.LATE:  # a call that hangs for so long is one that the device's own watchdog may end
                return bool(after.fault) or after.time_ns - before.time_ns > 0.7e9 * late
            if fault == Fault.JUMP:
                return bool(after.fault) or float(np.linalg.norm(after.pose[:3] - before.pose[:3])) > 0.03
            if fault == Fault.NOT_FINITE:
                return not np.isfinite(after.pose).all()
            if new:  # what is answered twice is what it was
                np.testing.assert_allclose(after.pose, before.pose, atol=1e-7)
            return after.time_ns > before.time_ns + 2e7

        wait_until(seen, fault.name)
        if fault in (Fault.LATE, Fault.MUTE, Fault.GONE):
            wait_until(lambda: not stand.force().any(), "zero force")
        stand.back(0)
        hardware.close()
        hardware.open()
        hardware.enable()
        push(hardware, PUSH, lambda: stand.force().any(), "the force again")


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
        value = {Fault.LATE: 2.0 * driver_checks.PATIENT, Fault.JUMP: stand.jump, Fault.NOT_FINITE: 1e9}.get(fault, 5.0)
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


# Each field of what a vendor's software tells, wrong alone: no force in time, with the reason

BRACKETS = "[" * 100_000


def haply_fields(stand: HaplyStand) -> dict[str, Callable[[], None]]:
    """What a state of the service may say wrongly."""
    service = stand._service

    def says(**values: Any) -> Callable[[], None]:
        return lambda: service.set_state(0, **values)

    found: dict[str, Callable[[], None]] = {}
    for value in (np.nan, np.inf, 1e30, 1e300, 10**400, "far", None, True):
        found[f"velocity {value!s:.9}"] = says(velocity=[0.0, value, 0.0])
        found[f"position {value!s:.9}"] = says(position=[value, 0.0, 0.0])
        found[f"orientation {value!s:.9}"] = says(orientation=[0.0, 0.0, value, 1.0])
    found["a velocity without motion"] = says(velocity=[0.0, 1.0, 0.0])
    found["position in mm"] = says(position=[0.0, -120.0, 150.0])
    found["an orientation of zeros"] = says(orientation=[0.0] * 4)
    found["an orientation twice as long"] = says(orientation=[0.0, 0.0, 0.0, 2.0])
    found["not calibrated"] = says(ready=False)
    found["brackets"] = lambda: service.garble(BRACKETS)
    return found


def library_fields(stand: LibraryStand) -> dict[str, Callable[[], None]]:
    """What a vendor's library may say wrongly."""
    vendor = stand._library

    def says(position: Any = (0.0,) * 3, twist: Any = (0.0,) * 6, frame: Any = None) -> Callable[[], None]:
        matrix = np.eye(3) if frame is None else np.asarray(frame, float)
        return lambda: vendor.set_state(0, np.array(position, float), matrix, np.array(twist, float))

    found: dict[str, Callable[[], None]] = {}
    for value in (np.nan, np.inf, 1e30, 1e300):
        found[f"velocity {value}"] = says(twist=(0.0, value, 0.0, 0.0, 0.0, 0.0))
        found[f"position {value}"] = says(position=(value, 0.0, 0.0))
        found[f"a rotation of {value}"] = says(frame=np.where(np.eye(3), value, 0.0))
        if stand.name == "sigma7":  # the other's angular velocity is that of its transforms
            found[f"angular velocity {value}"] = says(twist=(0.0, 0.0, 0.0, 0.0, value, 0.0))
    found["a velocity without motion"] = says(twist=(0.0, stand._unit, 0.0, 0.0, 0.0, 0.0))
    found["position in another unit"] = says(position=(0.0, 300.0 * stand._unit, 0.0))
    found["a rotation of zeros"] = says(frame=np.zeros((3, 3)))
    if stand.name == "sigma7":
        found["angular velocity in degrees"] = says(twist=(0.0, 0.0, 0.0, 0.0, 57.3, 0.0))
    return found


def board_fields(stand: BoardStand) -> dict[str, Callable[[], None]]:
    """What a board may say wrongly: the rest of a reading is the driver's."""
    board = stand._board

    def says(*angles: float) -> Callable[[], None]:
        return lambda: board.angles.__setitem__(slice(None), angles)

    found = {f"angle {value}": says(value, board.angles[1]) for value in (np.nan, np.inf, 1e30, -1e30, 3e38)}
    found["angles in radians"] = says(*np.radians(board.angles))
    found["angles of the wrong sign"] = says(*(-angle for angle in board.angles))
    found["the number of another device"] = lambda: setattr(board, "number", 77)
    return found


def repair(stand: Any) -> None:
    """All is right again."""
    if isinstance(stand, HaplyStand):
        stand._service.set_state(
            0, position=[0.0] * 3, velocity=[0.0] * 3, orientation=[0.0, 0.0, 0.0, 1.0], ready=True
        )
        stand._service.garble("")
    elif isinstance(stand, LibraryStand):
        stand._library.set_state(0, np.zeros(3))
    else:
        stand._board.number = NUMBER
        stand._board.angles[:] = HOME


def pushed(stand: Any) -> bool:
    """Whether the motors have a force: what the angles of a board are is no matter here."""
    return any(stand._board.torques) if isinstance(stand, BoardStand) else bool(stand.force().any())


def check_fields(stand: Any, names: Callable[[list[str]], list[str]]) -> None:
    """Each of some wrong fields ends the force with a reason, and the device is usable again."""
    kinds = {HaplyStand: haply_fields, LibraryStand: library_fields, BoardStand: board_fields}
    fields: dict[str, Callable[[], None]] = kinds[type(stand)](stand)  # type: ignore[operator]
    repair(stand)
    # so slow a board that it is no motion in a pause of readings either
    speed = [0.1, 1.0] if isinstance(stand, BoardStand) else [1.0, 10.0]
    bench = Bench(stand, bound={"wrench": [3.0] * 3 + [0.0] * 3, "rate": [1e5] * 6, "velocity": speed})
    for name in names(list(fields)):
        bench.until(PUSH, lambda _: pushed(stand), f"a force before {name}")
        fields[name]()
        bench.until(PUSH, lambda state: state.state == FAULT, f"a fault by {name}")
        fault = bench.link.life.fault
        assert fault and len(fault) < 400, name
        assert np.isfinite(bench.state.pose).all() and np.isfinite(bench.state.twist).all()
        wait_until(lambda: not pushed(stand), f"zero force after {name}")
        repair(stand)
        bench.enable_again()
    bench.close()


def test_a_field_of_each_driver_that_is_wrong_alone_ends_the_force(stand: Stand) -> None:
    check_fields(stand, lambda names: [one for one in names if "1e+30" in one][:1] + names[-1:])


@pytest.mark.exhaustive
def test_each_field_of_each_driver_that_is_wrong_alone_ends_the_force(stand: Stand) -> None:
    check_fields(stand, lambda names: names)
