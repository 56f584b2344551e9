"""The life of a hardware device: in which state it is, whether force is let through, and what requests may change.

    DISABLED -enable-> ENABLED -pause-> PAUSED -resume-> ENABLED
    any      -disable, stop-> DISABLED
    any      -a fault-> FAULT -enable, disable: the device is opened again-> ENABLED, DISABLED

Force is let through only while the device is ENABLED, no emergency stop is latched, somebody holds it (where it can
tell), its readings are new and the clutch is closed. An emergency stop is latched until RESET, which takes effect while
the device is DISABLED only; so whoever stops it outvotes all others.

Nothing here knows a clock or a device: who has them says what was read and how much time has passed.
"""

from __future__ import annotations

from enum import IntEnum

from haptic_drivers.devices.parameters import FORCE_SCALES, MOTION_SCALES, MeasuredDeviceParameters
from haptic_sim.messages import DISABLED, ENABLED, FAULT, PAUSED, STATES, Reason

LOST = 0.25  # [s] without a reading, after which the device has a fault


class Request(IntEnum):
    """DeviceRequest.request."""

    ENABLE = 0
    DISABLE = 1
    PAUSE = 2
    RESUME = 3
    HOME = 4
    STOP = 5
    RESET = 6
    SCALE_MOTION = 7
    SCALE_FORCE = 8
    CLUTCH = 9


class Life:
    """State of a device, and what is asked of it.

    Args:
        device: its data.
        homes: whether it can find its absolute position by itself.

    Attributes:
        state: DISABLED, ENABLED, PAUSED or FAULT.
        reason: why no force is let through; NONE: it is.
        fault: what is wrong, in words; empty if nothing is.
        homed: whether the device knows its position, as it reported last.
        reopening: whether the device has to be opened again, after which `opened` says what came of it.
        motion_scale, force_scale: as they are now, on the way to what was asked.
    """

    def __init__(self, device: MeasuredDeviceParameters, *, homes: bool = False):
        self._device, self._homes = device, homes
        self._presence = device.buttons.index(device.presence) if device.presence in device.buttons else -1
        self._clutch = device.buttons.index(device.clutch) if device.clutch in device.buttons else -1
        self.state, self.reason, self.fault = DISABLED, Reason.NOT_ENABLED, ""
        self.stopped = self.reopening = self._wanted = self._clutched = False
        self.motion_scale = self._motion_scale = device.motion_scale
        self.force_scale = self._force_scale = device.force_scale
        self.homed, self._age, self._held, self._pressed, self._has_reading = True, 0.0, True, False, False

    def ask(self, request: Request, value: float = 0.0) -> str:
        """Do what is asked; returns why not, empty if it is done."""
        refused = self._ask(request, value)
        self._judge()
        return f"{request.name.lower()}: {refused}" if refused else ""

    def _ask(self, request: Request, value: float) -> str:
        state = self.state
        match request:
            case Request.STOP:
                self.stopped, self._wanted = True, False
                if state != FAULT:
                    self.state = DISABLED
            case Request.RESET:
                if state != DISABLED:
                    return f"the device is {STATES[state]}: an emergency stop ends while it is disabled"
                self.stopped = False
            case Request.DISABLE:
                self._wanted = False
                if state == FAULT:
                    self.reopening = True
                else:
                    self.state = DISABLED
            case Request.ENABLE:
                return self._enable()
            case Request.PAUSE:
                if state != ENABLED:
                    return f"the device is {STATES[state]}: only an enabled one is paused"
                self.state = PAUSED
            case Request.RESUME:
                if state != PAUSED:
                    return f"the device is {STATES[state]}: only a paused one is resumed"
                self.state = ENABLED
            case Request.HOME:
                if state != DISABLED:
                    return f"the device is {STATES[state]}: it is homed while it is disabled"
                if self.stopped:
                    return "the emergency stop is latched: reset it"
                if not self._homes:
                    return "the device cannot home by itself: move it as its vendor says"
            case Request.SCALE_MOTION:
                if not MOTION_SCALES[0] <= value <= MOTION_SCALES[1]:
                    return f"{value:g}: must be between {MOTION_SCALES[0]:g} and {MOTION_SCALES[1]:g}"
                self._motion_scale = value
            case Request.SCALE_FORCE:
                if not FORCE_SCALES[0] <= value <= FORCE_SCALES[1]:
                    return f"{value:g}: must be between {FORCE_SCALES[0]:g} and {FORCE_SCALES[1]:g}"
                self._force_scale = value
            case Request.CLUTCH:
                if value not in (0.0, 1.0):
                    return f"{value:g}: must be 1, apart, or 0"
                self._clutched = bool(value)
        return ""

    def _enable(self) -> str:
        state = self.state
        if self.stopped:
            return "the emergency stop is latched: disable the device and reset it"
        if state == PAUSED:
            return "the device is paused: resume it"
        if state == FAULT:
            self.reopening = self._wanted = True
        elif not self.homed:
            return "the device does not know its position: home it"
        else:
            self.state = ENABLED
        return ""

    def fail(self, fault: str) -> None:
        """The device has a fault: no force, whatever state it was in."""
        self.state, self.fault, self.reopening = FAULT, fault, False
        self._wanted = False
        self._judge()

    def opened(self, fault: str = "") -> None:
        """The device was opened again, or could not be: `fault` says why."""
        wanted, self.reopening, self._has_reading = self._wanted, False, False
        if fault:
            self.fail(fault)
            return
        self.state, self.fault, self._wanted = DISABLED, "", False
        if wanted and not self.stopped and self.homed:
            self.state = ENABLED
        self._judge()

    def step(
        self, period: float, age: float, has_reading: bool, present: int, *, homed: bool, pressed: tuple[bool, ...]
    ) -> None:
        """A tick: what was read last, `age` [s] ago.

        Args:
            period: [s], over which scales that are changed go on.
            age: of the newest reading, or since the device was opened [s]; beyond LOST and the
                reading watchdog the device has a fault.
            has_reading: whether there was a reading since it was opened.
            present: as in a Reading.
            homed: as in a Reading.
            pressed: the buttons.
        """
        step = period / self._device.ramp
        self.motion_scale += min(max(self._motion_scale - self.motion_scale, -step), step)
        self.force_scale += min(max(self._force_scale - self.force_scale, -step), step)
        self.homed, self._age, self._has_reading = homed, age, has_reading
        self._held = self._is_held(present, pressed)
        self._pressed = self._clutch >= 0 and pressed[self._clutch]
        if self.state in (ENABLED, PAUSED) and not homed:
            self.fail("the device does not know its position any more: home it")
        elif self.state in (ENABLED, PAUSED) and not age <= max(LOST, self._device.reading_watchdog):
            self.fail(f"the device is lost: timeout, no reading for {age:.3g} s")
        self._judge()

    def _is_held(self, present: int, pressed: tuple[bool, ...]) -> bool:
        if self._presence >= 0:
            return pressed[self._presence]
        return self._device.presence == "none" or present == 1

    def _judge(self) -> None:
        """Set the reason why no force is let through: the first that holds."""
        reasons = (
            (self.stopped, Reason.STOPPED),
            (self._has_reading and not self.homed, Reason.NOT_HOMED),  # disabled, or a fault for that
            (self.state == FAULT, Reason.FAILED),
            (self.state == DISABLED, Reason.NOT_ENABLED),
            (self.state == PAUSED, Reason.ON_PAUSE),
            (not (self._has_reading and self._age <= self._device.reading_watchdog), Reason.OLD_READING),
            (not self._held, Reason.NO_PRESENCE),
            (self._clutched or self._pressed, Reason.CLUTCHED),
        )
        self.reason = next((reason for holds, reason in reasons if holds), Reason.NONE)
