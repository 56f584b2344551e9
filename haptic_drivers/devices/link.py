"""The line between a driver and its hardware: its life, its watchdog, and who may call it when.

Requests come from other threads than ticks do, and a watchdog has one of its own; so every call of the hardware is
made here, one at a time. Whatever a call raises, the device has a fault, and zero force was written as far as that is
possible.

A thread may be stopped at any instruction, also while it has the lock. So what must not wait (the end of the force, and
of the connection) is left to it, and whoever has released the lock looks whether something was left.

A call of a vendor's library may hang. An emergency stop does not wait for it: the thread that made the call obeys as
soon as it returns, before anything else. If it does not return, the watchdog fails, and with it the process.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from haptic_drivers.devices.interface import DeviceError, Hardware, Homing, Reading
from haptic_drivers.devices.life import Life, Request
from haptic_drivers.devices.parameters import MeasuredDeviceParameters
from haptic_sim.messages import ENABLED, PAUSED, DeviceReading, Reason

HUNG = 2.0  # [s] without an end of a call, after which the process ends
TURN = 0.1  # [s] for a call of another thread to return; then the end of the force is left to that thread
NO_FORCE = np.zeros(6)
NO_FORCE.flags.writeable = False


class Source(Protocol):
    """Source of a hardware device's readings and receiver of its forces: the device itself, or a recording."""

    def take(self, tick: int, reading: DeviceReading) -> None:
        """Fill in the reading that the driver has of the device in a tick."""

    def write(self, wrench: np.ndarray) -> None:
        """Render a wrench on the hand, in the axes of the base (6,) [N, N m]."""

    def fail(self, fault: str) -> None:
        """Report a fault for which the driver cannot use the reading."""

    def enable(self) -> None:
        """Begin an activation of the driver."""

    def release(self) -> None:
        """Leave the device without force."""


class Still:
    """A device that is enabled and does not move: to warm up without a device."""

    def take(self, tick: int, reading: DeviceReading) -> None:
        """Fill in the reading that the driver has of the device in a tick."""
        reading.pose[:] = (0.0, 0, 0, 0, 0, 0, 1)
        reading.state, reading.motion_scale, reading.force_scale = ENABLED, 1.0, 1.0

    def write(self, wrench: np.ndarray) -> None:
        """Render a wrench on the hand, in the axes of the base (6,) [N, N m]."""

    def fail(self, fault: str) -> None:
        """Report a fault for which the driver cannot use the reading."""

    def enable(self) -> None:
        """Begin an activation of the driver."""

    def release(self) -> None:
        """Leave the device without force."""


class RecordedReadings(Still):
    """Recorded readings of a device by tick, as serialized DeviceReadings."""

    def __init__(self, readings: Mapping[int, bytes]):
        self._readings = readings

    def take(self, tick: int, reading: DeviceReading) -> None:
        """Fill in the reading that the driver has of the device in a tick."""
        reading.load(self._readings[tick])


class Link:
    """Connection to a device.

    Args:
        hardware: its driver.
        device: its data.
        period: of the servo [s].
        clock: time as of `Reading.time_ns` [ns].
        watch: whether a thread of its own writes zero force when the servo thread has written nothing for too long.
        notify: is called with messages for the user: a fault, and its end.
    """

    def __init__(
        self,
        hardware: Hardware,
        device: MeasuredDeviceParameters,
        period: float,
        clock: Callable[[], int] = time.monotonic_ns,
        *,
        watch: bool = True,
        notify: Callable[[str], object] = lambda text: None,
    ):
        self._hardware, self._device, self._period, self._clock, self._notify = hardware, device, period, clock, notify
        self.title = device.title or device.name
        self.life = Life(device, homes=isinstance(hardware, Homing))
        self._reading = Reading()
        self._lock = threading.RLock()
        self._pending: deque[Request] = deque()  # stops, for the thread that has the lock
        self._closing = False  # whether that thread closes the device, too
        self._called = 0  # when the call began that has not returned [ns]; 0: there is none
        self._open = self._pushes = self._on = self._starved = False
        self._written = self._opened = self._took = clock()  # the last: when the last tick began
        self._patience = round(1e9 * device.watchdog)
        self._active = False  # as the driver is
        self._has_read = False  # since it was opened
        self._reported = ""  # of faults, the last
        self._ended = threading.Event()
        self._watched: threading.Thread | None = None
        self._opening: threading.Thread | None = None
        self._watches = watch

    # From any thread

    def open(self) -> None:
        """Open the device.

        Raises:
            DeviceError: it cannot be opened.
        """
        with self._lock:
            if self._closing:
                self._close()
            try:
                self._hardware.open()
            except BaseException:
                self._hardware.close()
                raise
            self._open, self._opened, self._has_read = True, self._clock(), False
        self._ended.clear()
        self._hand_over()
        if self._watches and self._watched is None:
            self._watched = threading.Thread(target=self._watch, name="device watchdog", daemon=True)
            self._watched.start()

    def close(self) -> None:
        """Zero force, and let go of the device; raises nothing.

        While a call has not returned, or a thread is stopped that has the lock, that is done as soon as it goes on.
        """
        self._ended.set()
        self.release()
        if self._opening is not None:
            self._opening.join()  # it closes the device, now that this has ended
        self._closing = True
        if self._lock.acquire(timeout=TURN):
            try:
                self._close()
            finally:
                self._lock.release()
        self._hand_over()
        if self._watched is not None and self._watched is not threading.current_thread():
            self._watched.join(timeout=1.0)
            self._watched = None

    def ask(self, request: Request, value: float = 0.0) -> str:
        """Do what is asked, at once; returns why not, empty if it is done."""
        if request == Request.STOP:
            self._stop(request)
            return ""
        with self._lock:
            self._run_requests()  # which were made before this one
            refused = self._ask(request, value)
        self._hand_over()
        return refused

    def _ask(self, request: Request, value: float) -> str:
        """With the lock: do what is asked; returns why not."""
        if not self._open and request in (Request.ENABLE, Request.HOME):
            why = "is just being opened: wait" if self.life.reopening else "is not open: configure the driver"
            return f"{request.name.lower()}: the device {why}"
        if not self._active and request in (Request.ENABLE, Request.RESUME):
            return f"{request.name.lower()}: the driver is not active: activate it"
        if request == Request.ENABLE and self._open:
            self._call(self._read)  # whether it is homed
        refused = self.life.ask(request, value)
        if not refused and request == Request.HOME:
            try:
                self._hardware.home()  # type: ignore[attr-defined]
            except DeviceError as error:
                refused = f"home: {error}"
        elif not refused and request == Request.DISABLE:
            self._stop_homing()
        self._follow()
        return refused

    def enable(self) -> None:
        """Begin an activation of the driver."""
        self._active = True
        if refused := self.ask(Request.ENABLE):
            self._notify(refused)

    def release(self) -> None:
        """Leave the device without force."""
        self._active = False
        self._stop(Request.DISABLE)

    def _stop(self, request: Request) -> None:
        """Zero force: here, or while a call has not returned, as soon as it has."""
        self._pending.append(request)
        if self._lock.acquire(timeout=TURN):
            try:
                self._run_requests()
            finally:
                self._lock.release()
        self._hand_over()

    def _hand_over(self) -> None:
        """Do what other threads have left to this one, which has released the lock; another that has it does it."""
        while (self._pending or self._closing) and self._lock.acquire(blocking=False):
            try:
                self._run_requests()
                if self._closing:
                    self._close()
            finally:
                self._lock.release()

    def _close(self) -> None:
        """With the lock: close the device, unless it is being opened again: the thread that does that closes it."""
        self._closing = False
        if self._open:
            self._open = False
            self._hardware.close()

    def _run_requests(self) -> None:
        """Do what other threads have left to this one, which has the lock."""
        while self._pending:
            request, life = self._pending.popleft(), self.life
            if request == Request.STOP or life.state in (ENABLED, PAUSED) or life.reopening:
                life.ask(request)
            self._stop_homing()
            self._follow()

    def fail(self, fault: str) -> None:
        """The driver cannot use what was read; while the device is opened again that was read before, and is over."""
        with self._lock:
            if not self.life.reopening:
                self._fail(fault)
        self._hand_over()

    # From the servo thread

    def take(self, tick: int, reading: DeviceReading) -> None:
        """Fill in the reading that the driver has of the device in a tick."""
        with self._lock:
            self._run_requests()
            life, found, now = self.life, self._reading, self._clock()
            self._took = now
            if self._open and not life.reopening:
                self._call(self._read)
            silent = max(1e-9 * (now - (found.time_ns if self._has_read else self._opened)), 0.0)
            pressed = tuple(found.buttons > 0)
            life.step(self._period, silent, self._has_read, found.present, homed=found.homed, pressed=pressed)
            self._follow()
            reading.pose[:], reading.twist[:] = found.pose, found.twist
            reading.age = max(1e-9 * (now - (found.time_ns or self._opened)), 0.0)
            reading.motion_scale, reading.force_scale = life.motion_scale, life.force_scale
            reading.state, reading.reason = life.state, life.reason
            if self._starved and life.reason == Reason.NONE:  # then it starts softly
                reading.reason = Reason.WATCHDOG
            self._starved = False
            reading.resize(len(self._device.buttons))
            reading.buttons[: len(reading)] = found.buttons[: len(reading)]
        self._hand_over()

    def write(self, wrench: np.ndarray) -> None:
        """Render a wrench on the hand, in the axes of the base (6,) [N, N m].

        One that comes after the watchdog has acted, or so late after `take`, is of a hand that has moved on: zero force
        until the next tick, in which the driver begins softly.
        """
        with self._lock:
            self._run_requests()
            if self._on:
                self._starved |= self._clock() - self._took > self._patience
                written = NO_FORCE if self._starved else wrench
                self._call(lambda: self._hardware.write(written))
                self._written, self._pushes = self._clock(), bool(written.any())
        self._hand_over()

    def _read(self) -> None:
        found = self._reading
        if self._hardware.read(found):
            self._has_read, self.life.homed = True, found.homed
            found.time_ns = min(found.time_ns, self._clock())  # one of the future would never become old
            if found.fault:
                self._fail(found.fault)

    def _call(self, what: Callable[[], object]) -> None:
        """Call the hardware; what goes wrong is a fault, whatever it is."""
        self._called = self._clock()
        try:
            what()
        except Exception as error:  # a vendor's module may raise anything, and the force has to end
            self._fail(str(error) or type(error).__name__)
        self._called = 0
        self._run_requests()

    def _stop_homing(self) -> None:
        """An enabled device is not being homed, and one that is being opened neither."""
        if self._open and not self._on and isinstance(self._hardware, Homing):
            self._call(self._hardware.disable)

    def _fail(self, fault: str) -> None:
        self.life.fail(fault)
        self._follow()

    def _follow(self) -> None:
        """Bring the motors to what the life says: on while it is enabled, else off after zero force."""
        life = self.life
        if life.state == ENABLED and not self._on and self._open:
            self._on = True
            self._written = self._clock()
            self._call(self._hardware.enable)
        elif self._on and life.state != ENABLED:
            self._on = self._pushes = False
            for end in (lambda: self._hardware.write(NO_FORCE), self._hardware.disable):
                self._call(end)
        if life.fault and life.fault != self._reported:
            self._notify(f"the device has a fault, its force is zero: {life.fault}; enable it again when that is gone")
        self._reported = life.fault
        if life.reopening and self._open and not self._ended.is_set():
            self._open = False
            self._opening = threading.Thread(target=self._reopen, name="device opening", daemon=True)
            self._opening.start()

    def _reopen(self) -> None:
        """Close the device and open it again: that may take long, so no tick waits for it."""
        fault = ""
        try:
            self._hardware.close()
            self._hardware.open()
        except Exception as error:  # see _call
            fault = str(error) or type(error).__name__
        with self._lock:
            # until there is a reading the hand is shown where it was, at rest, and nothing else is known
            self._reading = Reading(pose=self._reading.pose, time_ns=self._reading.time_ns)
            self._opened, self._open, self._has_read = self._clock(), True, False
            if self._ended.is_set():
                self._open = False
                self._hardware.close()
                return
            self.life.homed = True
            if not fault:
                self._call(self._read)  # whether it is homed, or has a fault again
                fault = "" if self.life.reopening else self.life.fault
            self.life.opened(fault)
            self._follow()
        self._hand_over()
        self._notify(f"the device cannot be opened: {fault}" if fault else "the device is open again")

    def _watch(self) -> None:
        turn, before, checks = 0.25 * self._device.watchdog, 0, 0
        while not self._ended.wait(turn):
            self.check()
            called = self._called
            checks = (
                checks + 1 if called and called == before else 0
            )  # counted: a process that is stopped does not hang
            before = called
            if checks * turn > HUNG:
                raise DeviceError(
                    f"{self._device.name}: a call of its library has not returned for {HUNG:g} s; the device may "
                    "keep its last force: switch it off"
                )

    def check(self) -> None:
        """Write zero force when the servo thread has written nothing for as long as the watchdog allows."""
        if not (self._pushes or self._pending) or not self._lock.acquire(timeout=TURN):
            return
        try:
            self._run_requests()
            if self._pushes and self._clock() - self._written > self._patience:
                self._pushes, self._starved = False, True
                self._call(lambda: self._hardware.write(NO_FORCE))
        finally:
            self._lock.release()
        self._hand_over()
