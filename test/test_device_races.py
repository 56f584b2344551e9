"""Threads of devices that are stopped at the worst instant: nothing old is sent, and none serves two connections."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from ctypes import CFUNCTYPE, c_byte, c_double, c_int, c_uint, c_void_p
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import driver_checks
import numpy as np
import pytest
import test_force_dimension
import test_haply
import test_open_haptics
from fake_haply_2diy import board
from fake_hardware import Fake
from fake_hardware import data as fake_data
from test_haply_2diy import data
from test_link_races import PATIENCE, Stopped

from haptic_bench.commands import bring_up
from haptic_bench.commands.bring_up import Contact
from haptic_bench.experiment.devices import read_device
from haptic_drivers.bring_up.session import Session
from haptic_drivers.devices import exchange, force_dimension, haply_2diy, open_haptics, teleoperator
from haptic_drivers.devices.exchange import Exchange
from haptic_drivers.devices.haply_2diy import Haply2diy
from haptic_drivers.devices.interface import LATE_THREAD, DeviceError
from haptic_drivers.devices.link import Link
from haptic_drivers.devices.parameters import HardwareParameters, build_hardware
from haptic_drivers.devices.teleoperator import HapticTeleoperator
from haptic_drivers.hardware import HardwareDeviceParameters
from stand_ins.haply import Service
from stand_ins.libraries import Library


class Stalling:
    """A clock whose caller is stopped for long at its second look, while something happens."""

    def __init__(self, happens: Callable[[], object]):
        self._happens, self._looks = happens, 0

    def monotonic(self) -> float:
        self._looks += 1
        if self._looks == 2:
            self._happens()
        return 0.0 if self._looks < 2 else 100.0

    def sleep(self, seconds: float) -> None:
        """Sleep."""


def test_a_reading_that_came_while_who_waits_for_it_was_stopped_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Exchange(0.1, 0.005)
    pose = np.array([0.0, 0, 0, 0, 0, 0, 1])
    clock = Stalling(lambda: one.give(pose, np.zeros(3), (0, -1, 1), 7))
    monkeypatch.setattr(exchange, "time", clock)
    assert one.wait("a device", 1.0) == ""
    monkeypatch.setattr(exchange, "time", Stalling(int))
    assert Exchange(0.1, 0.005).wait("a device", 1.0) == "a device: no reading within 1 s"


def test_an_answer_that_came_while_who_waits_for_it_was_stopped_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice in a row, and the board counted as gone."""
    hardware = build_hardware(data("/dev/nothing"))
    assert isinstance(hardware, Haply2diy)
    reading, writing = os.pipe()
    try:
        hardware._file = reading
        os.write(writing, b"123456789")
        monkeypatch.setattr(haply_2diy, "time", Stalling(int))
        assert hardware._receive(9, 0.01) == b"123456789"
        assert hardware._receive(9, 0.01) == b""
    finally:
        os.close(reading)
        os.close(writing)


def test_no_torques_are_sent_after_a_device_was_disabled_whatever_its_thread_had_in_hand() -> None:
    """It had computed them, and was stopped before it sent them."""
    with board() as fake:
        hardware = build_hardware(data(fake.port))
        assert isinstance(hardware, Haply2diy)
        hardware.open()
        try:
            hardware.enable()
            hardware.write(np.array([1.0, 0, 0, 0, 0, 0]))
            fake.settle()
            assert any(fake.torques)
            go_on = stopped_in_its_turn(hardware, "_drain")
            hardware.disable()
            sent, send = [], hardware._send_torques
            hardware._send_torques = lambda torques: (sent.append(torques.any()), send(torques))  # type: ignore[method-assign]
            go_on.set()
            fake.settle()
            assert sent and not any(sent)
        finally:
            hardware.close()


class Sends:
    """A function that sends a force, which is held at the next one that is not zero, until `may`.

    Attributes:
        real: the function; reached: it is held; disabled: to be set when the device is.
        forces: of each call since, whether its force is not zero.
    """

    def __init__(self, pushes: Callable[..., bool]):
        self.real: Callable[..., Any] = print
        self._pushes, self._holds = pushes, True
        self.reached, self.may, self.disabled = threading.Event(), threading.Event(), threading.Event()
        self.forces: list[bool] = []

    def __call__(self, *arguments: Any) -> Any:
        pushes = self._pushes(*arguments)
        if pushes and self._holds:
            self._holds = False
            self.reached.set()
            assert self.may.wait(PATIENCE)
        if self.disabled.is_set():
            self.forces.append(pushes)
        return self.real(*arguments)


class Instead:
    """A vendor's library with some functions instead of its own."""

    def __init__(self, library: Any, **functions: Any):
        self._library = library
        vars(self).update(functions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)


@contextlib.contextmanager
def haply_device(_: Path, patch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Sends]]:
    """A device whose messages are held."""
    service = Service(idle=10.0)
    try:
        with driver_checks.opened(test_haply.data(service)) as hardware:
            channel: Any = cast(Any, hardware)._channel

            def pushes(text: str) -> bool:
                force = json.loads(text)["inverse3"][0]["commands"].get("set_cursor_force", {"vector": {}})["vector"]
                return any(force.values())

            sends = Sends(pushes)
            sends.real = channel.send
            patch.setattr(channel, "send", sends)
            yield hardware, sends
    finally:
        service.close()


@contextlib.contextmanager
def force_dimension_device(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Sends]]:
    """A device whose loop calls Python to send a force."""
    vendor = Library(driver_checks.library("dhd", folder), period=0.5e-3, trip=test_force_dimension.NEVER)
    sends, compiles = Sends(lambda *arguments: any(arguments[:6])), force_dimension._compile
    function = CFUNCTYPE(c_int, *(7 * (c_double,)), c_byte)(sends)

    def compile_instead(handle: int, library: Any) -> Any:
        sends.real = library.dhdSetForceAndTorqueAndGripperForce
        return compiles(handle, Instead(library, dhdSetForceAndTorqueAndGripperForce=function))

    patch.setattr(force_dimension, "_compiled", {})
    patch.setattr(force_dimension, "_compile", compile_instead)
    with driver_checks.opened(test_force_dimension.data(vendor)) as hardware:
        yield hardware, sends


@contextlib.contextmanager
def open_haptics_device(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Sends]]:
    """A device whose callback calls Python to set a force."""
    vendor, compiles = Library(driver_checks.library("hd", folder)), open_haptics._compile
    sends = Sends(lambda what, values: any((c_double * 3).from_address(values)))
    function = CFUNCTYPE(None, c_uint, c_void_p)(sends)

    def compile_instead(library: Any) -> Any:
        sends.real = library.hdSetDoublev
        return compiles(Instead(library, hdSetDoublev=function))

    patch.setattr(open_haptics, "_apis", {})
    patch.setattr(open_haptics, "_compile", compile_instead)
    with driver_checks.opened(test_open_haptics.data(vendor)) as hardware:
        yield hardware, sends
    vendor.reset()


@pytest.mark.parametrize(
    "device",
    [
        haply_device,
        pytest.param(force_dimension_device, marks=pytest.mark.exhaustive),
        pytest.param(open_haptics_device, marks=pytest.mark.exhaustive),
    ],
)
def test_no_force_is_sent_after_a_device_was_disabled_whatever_its_thread_had_in_hand(
    device: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It had the command, and was stopped before it sent it: that came after the end of `disable`."""
    monkeypatch.setattr(exchange, "SENDING", PATIENCE)
    with device(tmp_path, monkeypatch) as (hardware, sends):
        hardware.enable()
        driver_checks.push(hardware, driver_checks.unit(0, 1.0), sends.reached.is_set, "a force")
        disables = threading.Thread(target=lambda: (hardware.disable(), sends.disabled.set()), daemon=True)
        disables.start()
        disables.join(0.2)  # as far as it gets
        sends.may.set()
        disables.join(PATIENCE)
        assert sends.disabled.is_set()
        for _ in range(3):
            hardware.write(driver_checks.unit(0, 1.0))
            driver_checks.next_reading(hardware)
        assert not any(sends.forces)
        hardware.enable()
        driver_checks.push(hardware, driver_checks.unit(0, 1.0), lambda: any(sends.forces), "the force again")


def test_a_call_that_does_not_return_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vendor's library hangs: the servo thread goes on."""
    slept: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: sum(slept), monotonic_ns=lambda: 0, sleep=slept.append)
    monkeypatch.setattr(exchange, "time", clock)
    one = Exchange(0.1, 0.005)
    with one.sending():
        one.enabled = True
        one.enabled = False
        assert not one.enabled and sum(slept) == pytest.approx(exchange.SENDING, abs=2 * exchange.LOOK)
        one.enabled = False
    with one.sending():
        one.enabled = False
    assert sum(slept) == pytest.approx(2 * exchange.SENDING, abs=4 * exchange.LOOK)


def stopped_in_its_turn(owner: Any, name: str) -> threading.Event:
    """Stop the thread of a device at its next call of a method; what is set to let it go on."""
    there, may, real = threading.Event(), threading.Event(), getattr(owner, name)

    def method(*arguments: Any) -> Any:
        setattr(owner, name, real)
        there.set()
        assert may.wait(PATIENCE)
        return real(*arguments)

    setattr(owner, name, method)
    assert there.wait(PATIENCE)
    return may


@pytest.mark.parametrize("name", ["inverse3", "sigma7"])
def test_a_thread_of_a_device_that_is_late_does_not_serve_the_next_connection(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was forgotten; its end was a fault of the new connection, or it went on beside the new thread."""
    hardware: Any = build_hardware(HardwareParameters.model_validate(read_device(name).model_dump()))
    monkeypatch.setattr(f"{type(hardware).__module__}.TIMEOUT", 0.01)
    leave = threading.Event()
    hardware._thread = late = threading.Thread(target=leave.wait, args=(PATIENCE,), daemon=True)
    late.start()
    hardware.close()
    with pytest.raises(DeviceError, match=LATE_THREAD):
        hardware.open()
    leave.set()
    late.join(PATIENCE)
    hardware.close()
    assert hardware._thread is None


def test_a_thread_of_a_teleoperator_that_is_late_does_not_serve_the_next_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It went on beside the new one; and when it ended, it closed the device of the new one."""
    monkeypatch.setattr(teleoperator, "CLOSING", 0.01)
    device = fake_data(watchdog=1.0, reading_watchdog=1.0)
    fakes: list[Fake] = []

    def connect(device: HardwareDeviceParameters, rate: float, notify: Callable[[str], None]) -> Link:
        fakes.append(Fake(device))
        fakes[-1].now = time.monotonic_ns()
        link = Link(fakes[-1], device, 1.0 / rate, watch=False, notify=notify)
        link.open()
        return link

    monkeypatch.setattr(HardwareDeviceParameters, "connect", connect)
    teleop = HapticTeleoperator(device, 500.0)
    teleop.connect()
    late = teleop._thread
    assert late is not None
    go_on = stopped_in_its_turn(fakes[0], "read")
    teleop.disconnect()
    assert late.is_alive()
    teleop.connect()
    go_on.set()
    late.join(PATIENCE)
    assert not late.is_alive() and not fakes[0].is_open
    assert teleop.is_connected and fakes[1].is_open
    teleop.get_action()
    teleop.disconnect()
    assert not fakes[1].is_open


def test_a_program_that_was_stopped_and_goes_on_does_not_take_its_driver_for_one_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after Ctrl-Z in `haptics bring-up`: the main thread may go on before the servo thread does."""
    clock, leave = [100.0], threading.Event()
    monkeypatch.setattr(bring_up, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    device = fake_data()
    session = Session(device)
    contact = Contact(device, session)
    contact._thread = threading.Thread(target=leave.wait, args=(PATIENCE,), daemon=True)
    contact._thread.start()
    contact._beat = clock[0]
    assert not contact.ended
    clock[0] += 100.0
    assert not contact.ended
    contact._beat = clock[0]
    assert not contact.ended
    for _ in range(100):
        clock[0] += bring_up.POLL_PERIOD
        if contact.ended:
            break
    leave.set()
    assert clock[0] - contact._beat == pytest.approx(bring_up.HUNG, abs=3.0 * bring_up.POLL_PERIOD)
    assert session.stopped == f"a call of the driver has not returned for {bring_up.HUNG:g} s"


def test_two_threads_that_open_devices_of_a_library_share_its_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each had made one, and opened its device while that of the other ran."""
    library, made = SimpleNamespace(_handle=-7), []

    class Api:
        def __init__(self, _: Any):
            made.append(self)

    monkeypatch.setattr(open_haptics, "_apis", {})
    monkeypatch.setattr(open_haptics, "_Api", Api)
    found: list[Any] = []
    first = Stopped(lambda: found.append(open_haptics._api(library)), open_haptics, "_Api")  # type: ignore[arg-type]
    second = threading.Thread(target=lambda: found.append(open_haptics._api(library)), daemon=True)  # type: ignore[arg-type]
    second.start()
    second.join(0.2)  # as far as it gets
    first.go_on()
    second.join(PATIENCE)
    assert len(made) == 1 and found == made * 2
