"""Threads of devices that are stopped at the worst instant: nothing old is sent, and none serves two connections."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_haply_2diy import board
from fake_hardware import Fake
from fake_hardware import data as fake_data
from test_haply_2diy import data
from test_link_races import PATIENCE, Stopped

from haptic_bench.commands import bring_up
from haptic_bench.commands.bring_up import Contact
from haptic_bench.experiment.devices import read_device
from haptic_drivers.bring_up.session import Session
from haptic_drivers.devices import exchange, haply_2diy, open_haptics, teleoperator
from haptic_drivers.devices.exchange import Exchange
from haptic_drivers.devices.haply_2diy import Haply2diy
from haptic_drivers.devices.interface import LATE_THREAD, DeviceError
from haptic_drivers.devices.link import Link
from haptic_drivers.devices.parameters import HardwareParameters, build_hardware
from haptic_drivers.devices.teleoperator import HapticTeleoperator
from haptic_drivers.hardware import HardwareDeviceParameters


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
