"""Benchmark of the drivers of hardware: latency, readings that come late, time to zero force when a device is lost.

Each driver runs against the stand-in of its device. The hand of a stand-in is put where the force is, so that a reading
shows which force it answers: the latency is the time from a written force to the first reading with its effect. The
same is done without the driver, by as few calls of the vendor as there are; the difference is what the driver
adds. Servo ticks are counted in which there was no reading that is newer than that of the tick before, or which began a
period late. At last readings fail while forces are still taken, and the stand-in tells when its force was zero.

A step of the simulated twin pantograph, which slides and sticks under a force that turns round, is measured too.

All threads take real-time priority where they may, as those of a driver node do; else other work of the machine is
measured, too.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.turns import Contestant, take_turns
from haptic_bench.experiment.devices import read_device
from haptic_drivers.devices import haply
from haptic_drivers.devices.interface import Hardware, Reading
from haptic_drivers.devices.parameters import HardwareParameters, build_hardware
from haptic_drivers.pantograph import Pantograph, PantographParameters
from haptic_ros.realtime import PRIORITY
from stand_ins import Fault
from stand_ins.libraries import Library, NoCompiler, build

DEVICES = {"inverse3": "haply", "sigma7": "force_dimension", "touch": "open_haptics"}  # and their drivers
ECHOES = 1000  # writes of which the latency is measured
DURATION = 60.0  # [s] of the servo ticks that are counted
LOSSES = 40
GAIN = 1e-3  # [m/N] of the hand that is where the force is
NEAR = 1e-9  # [m]
SERVO = 1000.0  # [Hz]
ALLOWED = 5e-3  # [s] from the loss of a device to zero force
STEP = 15.0  # [us] of the twin pantograph, at most
Row = Callable[[str, float, str, str, bool | None], dict[str, Any]]


class Stand(Protocol):
    """A stand-in."""

    def echo(self, index: int, gain: float) -> None:
        """Put the hand where the force is."""

    def fault(self, index: int, kind: Fault, value: float = 1.0) -> float:
        """Make a device do what it should not; the time before that [s]."""

    def back(self, index: int) -> None:
        """End all faults."""

    def zero(self, index: int) -> float:
        """Time at which the force of a device became zero last [s]; infinite as long as it is not."""

    def echo_time(self, force: float) -> float:
        """Time from a force to its effect, without a driver [s]."""


class ServiceStand:
    """The Inverse service in a process of its own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "stand_ins.haply"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        port, events = self._answer()
        self.connection = {"url": f"ws://127.0.0.1:{port}", "events": f"ws://127.0.0.1:{events}"}
        self._channel: haply.Channel | None = None

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def _ask(self, *request: Any) -> Any:
        assert self._process.stdin is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return self._answer()

    def echo(self, index: int, gain: float) -> None:
        self._ask("echo", index, gain)

    def fault(self, index: int, kind: Fault, value: float = 1.0) -> float:
        return float(self._ask("fault", index, int(kind), value))

    def back(self, index: int) -> None:
        self._ask("back", index)

    def zero(self, index: int) -> float:
        received = self._ask("told", index)
        return float("inf") if any(received["force"]) else float(received["zero"])

    def echo_time(self, force: float) -> float:
        """See Stand: a message and its answer, by a bare client."""
        if self._channel is None:
            self._channel = haply.Channel(self.connection["url"])
            self._channel.wait_for_text()
        commands = {"set_cursor_force": {"vector": {"x": 0.0, "y": force, "z": 0.0}}}
        text = json.dumps({"inverse3": [{"device_id": "049D", "commands": commands}]})
        begun = time.perf_counter()
        self._channel.send(text)
        answer = json.loads(self._channel.wait_for_text())
        taken = time.perf_counter() - begun
        assert abs(answer["inverse3"][0]["state"]["cursor_position"]["y"] - GAIN * force) < NEAR
        return taken

    def close(self) -> None:
        """End it."""
        if self._channel is not None:
            self._channel.close()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10.0)


class LibraryStand:
    """A vendor's library; without a driver its own calls are made here."""

    def __init__(self, kind: str, folder: Path, period: float, trip: float = 1.0):
        self._kind, self._period = kind, period
        self._library = Library(build(kind, folder), period=period, trip=trip)
        self.connection = {"library": str(self._library.path)}
        self._open = False

    def echo(self, index: int, gain: float) -> None:
        self._library.echo(index, gain if self._kind == "dhd" else 1e3 * gain)  # m or mm

    def fault(self, index: int, kind: Fault, value: float = 1.0) -> float:
        return self._library.fault(index, kind, value)

    def back(self, index: int) -> None:
        self._library.back(index)

    def zero(self, index: int) -> float:
        received = self._library.told(index)
        return float("inf") if received.wrench.any() else float(received.zero)

    def echo_time(self, force: float) -> float:
        """See Stand: a force and the next position; of a scheduler that is its period."""
        if self._kind == "hd":
            return self._period
        call = self._library.library
        if not self._open:
            call.dhdOpenID(0)
            call.dhdSetWatchdog(255, 0)
            call.dhdEnableForce(1, 0)
            self._open = True
            self._numbers = (ctypes.c_double * 12)()
            self._places = [ctypes.byref(self._numbers, 8 * i) for i in range(4)]
            call.dhdGetPositionAndOrientationFrame(*self._places, 0)
        nothing = [ctypes.c_double(0.0) for _ in range(6)]
        begun = time.perf_counter()
        call.dhdSetForceAndTorqueAndGripperForce(ctypes.c_double(force), *nothing, 0)
        call.dhdGetPositionAndOrientationFrame(*self._places, 0)
        return time.perf_counter() - begun

    def close(self) -> None:
        """Close what was opened here."""
        if self._open:
            self._library.library.dhdStop(0)
            self._library.library.dhdClose(0)
            self._open = False
        self._library.reset()


def measure(row: Row) -> list[dict[str, Any]]:
    """Run all of it; `row` makes a line of the table from name, value, unit, target and whether that is met."""
    with _priority():
        return _measure_all(row)


@contextlib.contextmanager
def _priority() -> Iterator[None]:
    """Real-time priority, which threads and processes that are started inherit."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    except PermissionError:
        print("    no permission for real-time priority: other work of the machine is measured, too", flush=True)
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def _measure_all(row: Row) -> list[dict[str, Any]]:
    results = [_simulated(row)]
    for name, title in DEVICES.items():
        for rate in dict.fromkeys((SERVO, read_device(name).highest_rate)):
            try:
                results += _measure(row, name, title, rate)
            except NoCompiler as error:
                print(f"    {title}: {error}", flush=True)
    return results


class Shaken:
    """A twin pantograph whose motors push it to and fro, a little more than its friction holds."""

    def __init__(self) -> None:
        self.body = Pantograph(PantographParameters(shaped=False), (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0))
        self._nothing, self._wrench, self._tick = np.zeros(6), np.zeros(6), 0

    def prepare(self) -> None:
        """The next wrench of the motors."""
        self._tick += 1
        self._wrench[1] = 0.06 * np.sin(2.0 * np.pi * 5.0 * self._tick / SERVO)

    def step(self) -> None:
        """A step of the simulation."""
        self.body.step(self._nothing, self._wrench, 1.0 / SERVO)


def _simulated(row: Row) -> dict[str, Any]:
    shaken = Shaken()
    (times,) = take_turns({"step": Contestant(shaken.step, shaken.prepare)}, 20, 200, 1.0 / SERVO).values()
    figures = times.figures()
    value = figures["tight_p50"]
    return {**row("twin pantograph: step", value, "us", f"<= {STEP:g}", value <= STEP), "figures": figures}


def _measure(row: Row, name: str, title: str, rate: float) -> list[dict[str, Any]]:
    with _stand(name, rate) as stand:
        stand.echo(0, GAIN)
        own = np.array([stand.echo_time(1.0 + 0.001 * (i % 1000)) for i in range(ECHOES)])
    at = f"{title} at {rate / 1000:g} kHz"
    with _stand(name, rate) as stand, _opened(name, stand, rate) as hardware:
        stand.echo(0, GAIN)
        whole = _echoes(hardware, rate)
        late, without = _ticks(hardware, rate)
        results = [
            row(f"{at}: latency of the stand-in", 1e3 * float(np.median(own)), "ms", "", None),
            row(f"{at}: added, median", 1e3 * float(np.median(whole) - np.median(own)), "ms", "", None),
            row(
                f"{at}: added, 99 of 100",
                1e3 * float(np.percentile(whole, 99) - np.percentile(own, 99)),
                "ms",
                "",
                None,
            ),
            row(f"{at}: ticks that began late", 100.0 * late, "%", "", None),
            row(f"{at}: ticks without a new reading", 100.0 * without, "%", "", None),
        ]
        if rate == SERVO:
            lost = 1e3 * max(_losses(hardware, stand))
            results.append(
                row(f"{title}: from its loss to zero force, most", lost, "ms", "<= 5", lost <= 1e3 * ALLOWED)
            )
    return results


@contextlib.contextmanager
def _stand(name: str, rate: float) -> Iterator[Any]:
    """The stand-in of a device."""
    with tempfile.TemporaryDirectory() as folder:
        if name == "inverse3":
            stand: Any = ServiceStand()
        else:
            kind = "dhd" if name == "sigma7" else "hd"
            stand = LibraryStand(kind, Path(folder), min(1.0 / rate, 1e-3) if kind == "hd" else 0.25e-3)
        try:
            yield stand
        finally:
            stand.close()


@contextlib.contextmanager
def _opened(name: str, stand: Any, rate: float) -> Iterator[Hardware]:
    """A driver that is open and enabled."""
    data = read_device(name)
    connection = {**data.connection, **stand.connection}
    if "rate" in connection:
        connection["rate"] = rate
    # an echo that a busy machine delays is to be seen, not to end in zero force
    device: HardwareParameters = data.model_copy(update={"connection": connection, "watchdog": 0.5})
    hardware = build_hardware(device)
    hardware.open()
    try:
        hardware.enable()
        reading = Reading()
        while not hardware.read(reading):
            time.sleep(1e-3)
        yield hardware
    finally:
        hardware.close()


def _force(size: float) -> np.ndarray:
    wrench = np.zeros(6)
    wrench[0] = size
    return wrench


def _echoes(hardware: Hardware, rate: float) -> np.ndarray:
    """Times from a written force to the first reading with its effect [s]; `rate` of the servo [Hz]."""
    reading, times, phases = Reading(), [], np.random.default_rng(1)
    sizes = 1.0 + 0.001 * (np.arange(ECHOES) % 1000)
    for size in sizes:
        wrench, expected = _force(size), GAIN * size
        begun = time.monotonic()
        hardware.write(wrench)
        while not (hardware.read(reading) and abs(reading.pose[0] - expected) < NEAR):
            time.sleep(2e-5)  # for threads that need the interpreter
            if time.monotonic() > begun + 0.5:
                _open_again(hardware)
                break
        else:
            times.append(1e-9 * reading.time_ns - begun)
        time.sleep(phases.random() / rate)  # not in step with the device's own period
    return np.array(times)


def _ticks(hardware: Hardware, rate: float) -> tuple[float, float]:
    """Parts of the servo ticks that began a period late, and that had no reading newer than that of the tick before."""
    reading, wrench, period = Reading(), _force(1.0), 1.0 / rate
    late = without = 0
    count = round(DURATION * rate)
    deadline = time.perf_counter()
    for _ in range(count):
        deadline += period
        time.sleep(max(0.0, deadline - time.perf_counter()))
        if time.perf_counter() - deadline > period:
            late += 1
            deadline = time.perf_counter()
        without += not hardware.read(reading)
        hardware.write(wrench)
        if reading.fault:
            reading.fault = ""
            _open_again(hardware)
    return late / count, without / count


def _open_again(hardware: Hardware) -> None:
    """After a fault: a machine that stalls for long lets the device's own watchdog switch it off."""
    print("    the device was lost, and is opened again", flush=True)
    hardware.close()
    hardware.open()
    hardware.enable()


def _losses(hardware: Hardware, stand: Any) -> list[float]:
    """Times from the failure of readings to zero force [s]; the servo goes on writing."""
    found = []
    for i in range(LOSSES):
        _write(hardware, 0.02 + 0.0003 * i)
        lost = stand.fault(0, Fault.MUTE)
        _write(hardware, 0.02)
        found.append(max(0.0, stand.zero(0) - lost))
        stand.back(0)
        hardware.close()
        hardware.open()
        hardware.enable()
        hardware.read(Reading())
    return found


def _write(hardware: Hardware, duration: float) -> None:
    """Write a force, a time a period."""
    end = time.perf_counter() + duration
    while time.perf_counter() < end:
        hardware.write(_force(1.0))
        time.sleep(1.0 / SERVO)
