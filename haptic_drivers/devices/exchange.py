"""Exchange of the newest reading and the newest command between the thread of a device and the servo thread.

A device that answers each message, blocks, or calls back has a thread of its own. Neither thread waits for the other:
each side is a block of numbers with a sequence number that is odd while the block is written, and a reader starts
again if it changed meanwhile. A command that is not renewed within `patience` counts as zero force, so that no force
remains when the servo thread hangs. Only the thread that ends the force waits, for a command that is being sent: when
`disable` has returned, no earlier command is in transit to the device.

The block is plain memory, so that code which a vendor's library calls can be compiled and needs no interpreter.
"""

from __future__ import annotations

import ctypes
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from numba.core import types
from numba.extending import intrinsic, register_jitable

from haptic_drivers.devices.interface import LATE_THREAD, MOST_BUTTONS, DeviceError, Reading
from haptic_sim.kernels import IN_PYTHON, kernel

NOTHING = np.zeros(6)
SENDING = 1.0  # [s] for a command to be sent; a call of a vendor's library that takes longer is not waited for
LOOK = 5e-5  # [s] between two looks whether it has been sent

_FIELDS = np.dtype(
    [
        ("sequence", np.int64),  # of the reading; odd while it is written
        ("time", np.int64),  # of the reading, monotonic [ns]; 0: there is none yet
        ("pose", np.float64, (7,)),  # [m, quat_xyzw]
        ("twist", np.float64, (6,)),  # [m/s, rad/s]
        ("buttons", np.int64),  # a bit each
        ("present", np.int64),  # 1 a user is there, 0 not, -1 not known
        ("homed", np.int64),
        ("fault", np.int64),  # what the device reported; 0: nothing
        ("answered", np.int64),  # time of the last exchange without a fault, monotonic [ns]
        ("command_sequence", np.int64),  # odd while the command is written
        ("command_time", np.int64),  # monotonic [ns]
        ("command", np.float64, (6,)),  # [N, N m]
        ("patience", np.int64),  # age beyond which a command counts as zero [ns]
        ("enabled", np.int64),  # whether the command is followed
        ("sending", np.int64),  # odd from the check whether the command is followed until it has been sent
        ("wrench", np.float64, (6,)),  # followed in the last exchange [N, N m]
        ("followed", np.float64, (6,)),  # work array of `follow`
        ("wrench_time", np.int64),  # when that was commanded, monotonic [ns]
        ("before", np.float64, (4,)),  # orientation in the last exchange, quat_xyzw
        ("before_time", np.int64),  # of that [ns]; 0: there is none yet
        ("smoothing", np.float64),  # time constant of an angular velocity from orientations [s]
        ("clock", np.int64, (2,)),  # work array of `monotonic`
    ],
    align=True,
)
BLOCK = np.dtype((np.record, _FIELDS))  # so that Python reads fields as kernels do


def _barrier(context):
    """Neither the compiler nor the processor moves an access to memory across this."""

    def generate(context, builder, signature, arguments):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


_fence: Any = (lambda: None) if IN_PYTHON else intrinsic(_barrier)

_clock = ctypes.CDLL(None).clock_gettime
_clock.argtypes, _clock.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_int


@register_jitable  # a kernel that calls a library's function cannot be kept: this is a part of those that do
def monotonic(block):
    """The time of `time.monotonic_ns` [ns]."""
    _clock(1, block.clock.ctypes)  # CLOCK_MONOTONIC
    return block.clock[0] * 1_000_000_000 + block.clock[1]


@kernel(inline="always")
def begin_reading(block):
    """Call before a reading is written."""
    block.sequence += 1
    _fence()


@kernel(inline="always")
def end_reading(block, now):
    """Call after a reading has been written at `now` [ns]."""
    block.time = now
    _fence()
    block.sequence += 1


@kernel(inline="always")
def begin_sending(block):
    """Call before the look whether the device is enabled, and before `follow`."""
    block.sending += 1
    _fence()


@kernel(inline="always")
def end_sending(block):
    """Call after the command has been sent."""
    _fence()
    block.sending += 1


@kernel(inline="always")
def follow(block, now):
    """Fill `block.wrench` with the command, zero if the device is not enabled or the command is too old.

    A command that is just being written is of the next turn: the last one holds, as long as it is not too old.
    """
    sequence = block.command_sequence
    _fence()
    if sequence % 2 == 0:
        commanded = block.command_time
        for i in range(6):
            block.followed[i] = block.command[i]
        _fence()
        if block.command_sequence == sequence:
            block.wrench_time = commanded
            for i in range(6):
                block.wrench[i] = block.followed[i]
    if not (block.enabled and now - block.wrench_time <= block.patience):
        for i in range(6):
            block.wrench[i] = 0.0


@kernel(inline="always")
def turn(block, now):
    """Fill the angular velocity from the orientation that was written and the one before, smoothed; `now` in ns.

    Two readings at nearly the same time (one was delivered twice) say nothing about a velocity.
    """
    elapsed = 1e-9 * (now - block.before_time)
    if block.before_time == 0 or elapsed > 0.1:
        for i in range(3):
            block.twist[3 + i] = 0.0
    elif elapsed < 1e-5:
        return
    else:
        ax, ay, az, aw = block.before[0], block.before[1], block.before[2], block.before[3]
        x, y, z, w = block.pose[3], block.pose[4], block.pose[5], block.pose[6]
        # the rotation from the one to the other, b a^-1, whose vector is half of the angle for small ones
        cos = w * aw + x * ax + y * ay + z * az
        sx = -w * ax + x * aw - y * az + z * ay
        sy = -w * ay + x * az + y * aw - z * ax
        sz = -w * az - x * ay + y * ax + z * aw
        sin = math.sqrt(sx * sx + sy * sy + sz * sz)
        scale = 2.0 * math.atan2(sin, abs(cos)) / (sin * elapsed) if sin > 1e-12 else 2.0 / elapsed
        if cos < 0.0:
            scale = -scale
        part = elapsed / (elapsed + block.smoothing)
        block.twist[3] += part * (scale * sx - block.twist[3])
        block.twist[4] += part * (scale * sy - block.twist[4])
        block.twist[5] += part * (scale * sz - block.twist[5])
        if not math.isfinite(block.twist[3] + block.twist[4] + block.twist[5]):  # else it would never be again
            for i in range(3):
                block.twist[3 + i] = 0.0
    for i in range(4):
        block.before[i] = block.pose[3 + i]
    block.before_time = now


@kernel(inline="always")
def orient(block, r):
    """Fill the orientation of the pose from a rotation matrix (3, 3); NaN if it is none."""
    q = block.pose
    trace = r[0, 0] + r[1, 1] + r[2, 2]
    if trace > 0.0:
        s = 2.0 * math.sqrt(1.0 + trace)
        q[3], q[4], q[5] = (r[2, 1] - r[1, 2]) / s, (r[0, 2] - r[2, 0]) / s, (r[1, 0] - r[0, 1]) / s
        q[6] = 0.25 * s
        return
    i = 0 if r[0, 0] >= r[1, 1] and r[0, 0] >= r[2, 2] else 1 if r[1, 1] >= r[2, 2] else 2
    j, k = (i + 1) % 3, (i + 2) % 3
    s = 2.0 * math.sqrt(max(0.0, 1.0 + r[i, i] - r[j, j] - r[k, k]))
    if not s > 0.0:
        q[3] = q[4] = q[5] = q[6] = math.nan
        return
    q[3 + i], q[3 + j], q[3 + k] = 0.25 * s, (r[i, j] + r[j, i]) / s, (r[i, k] + r[k, i]) / s
    q[6] = (r[k, j] - r[j, k]) / s


@kernel
def _take(blocks, last, pose, twist, status):
    block = blocks[0]
    while True:
        sequence = block.sequence
        if sequence == last or sequence % 2:
            return last
        _fence()
        for i in range(7):
            pose[i] = block.pose[i]
        for i in range(6):
            twist[i] = block.twist[i]
        status[0], status[1], status[2], status[3], status[4] = (
            block.time,
            block.buttons,
            block.present,
            block.homed,
            block.fault,
        )
        _fence()
        if block.sequence == sequence:
            return sequence


@kernel
def _offer(blocks, wrench, now):
    block = blocks[0]
    block.command_sequence += 1
    _fence()
    block.command_time = now
    for i in range(6):
        block.command[i] = wrench[i]
    _fence()
    block.command_sequence += 1


@kernel
def _give(blocks, pose, velocity, status, now):
    block = blocks[0]
    begin_reading(block)
    for i in range(7):
        block.pose[i] = pose[i]
    for i in range(3):
        block.twist[i] = velocity[i]
    turn(block, now)
    block.buttons, block.present, block.homed = status[0], status[1], status[2]
    block.answered = now
    end_reading(block, now)


@kernel
def _fail(blocks, fault):
    block = blocks[0]
    begin_reading(block)
    block.fault = fault
    end_reading(block, block.time)


@kernel
def _follow(blocks, now):
    follow(blocks[0], now)


@kernel
def _begin_sending(blocks):
    begin_sending(blocks[0])


@kernel
def _end_sending(blocks):
    end_sending(blocks[0])


@kernel
def _disable(blocks):
    """Follow no command from now on; returns the number of what is just being sent, even if nothing is."""
    block = blocks[0]
    block.enabled = 0
    _fence()
    return block.sending


@cache
def _warm_up() -> None:
    """Compile or load every kernel, so that none is while a device runs."""
    blocks, status = np.zeros(1, BLOCK), np.zeros(5, np.int64)
    _offer(blocks, NOTHING, 0)
    _follow(blocks, 0)
    _give(blocks, np.zeros(7), np.zeros(3), (0, 0, 0), 0)
    _take(blocks, 0, np.zeros(7), np.zeros(6), status)
    _fail(blocks, 0)
    _begin_sending(blocks)
    _end_sending(blocks)
    _disable(blocks)


class Exchange:
    """The block of one device, and what Python does with it.

    Args:
        patience: age beyond which a command counts as zero [s].
        smoothing: time constant of an angular velocity from orientations [s].
        blocks: the block, an array of one; None: it is made.
        explain: what the number of a fault means; None: the numbers are those of `fail`.

    Attributes:
        blocks: see there.
    """

    def __init__(
        self,
        patience: float,
        smoothing: float,
        blocks: np.ndarray | None = None,
        explain: Callable[[int], str] | None = None,
    ):
        _warm_up()
        self.blocks = np.zeros(1, BLOCK) if blocks is None else blocks
        self._texts: list[str] = [""]
        self._explain = explain or self._texts.__getitem__
        self._block = self.blocks[0]
        self._block["patience"], self._block["smoothing"] = round(1e9 * patience), smoothing
        self._block["present"], self._block["pose"][6] = -1, 1.0
        self._last, self._status = 0, np.zeros(5, np.int64)
        self._hung = 0  # number of a sending that was waited for in vain

    @property
    def enabled(self) -> bool:
        """Whether the command is followed; set to False, it returns when none of before is being sent any more."""
        return bool(self._block["enabled"])

    @enabled.setter
    def enabled(self, enabled: bool) -> None:
        if enabled:
            self.offer(NOTHING)
            self._block["enabled"] = 1
            return
        sending, deadline = _disable(self.blocks), time.monotonic() + SENDING
        while sending % 2 and self._block["sending"] == sending != self._hung:
            if time.monotonic() > deadline:
                self._hung = sending
            time.sleep(LOOK)

    @contextmanager
    def sending(self) -> Iterator[None]:
        """While a command is followed and sent, in the device's thread."""
        _begin_sending(self.blocks)
        try:
            yield
        finally:
            _end_sending(self.blocks)

    def wait(self, title: str, seconds: float) -> str:
        """Wait for the first reading of what is called `title`; returns why there is none, empty if there is one."""
        deadline = time.monotonic() + seconds
        while True:
            late = time.monotonic() > deadline  # asked first: a reading that came while this thread was stopped counts
            if self._block["time"]:
                return ""
            if fault := self._block["fault"]:
                return self._explain(fault)
            if late:
                return f"{title}: no reading within {seconds:g} s"
            time.sleep(1e-3)

    def offer(self, wrench: np.ndarray) -> None:
        """Hand over a command (6,) [N, N m]."""
        _offer(self.blocks, wrench, time.monotonic_ns())

    def take(self, reading: Reading) -> bool:
        """Fill in the newest reading; whether it is newer than that of the last call."""
        last = _take(self.blocks, self._last, reading.pose, reading.twist, self._status)
        if last == self._last:
            return False
        self._last = last
        time_ns, buttons, present, homed, fault = self._status.tolist()
        for i in range(MOST_BUTTONS):
            reading.buttons[i] = buttons >> i & 1
        reading.time_ns, reading.present, reading.homed, reading.fault = (
            time_ns,
            present,
            bool(homed),
            self._explain(fault) if fault else "",
        )
        return True

    def give(self, pose: np.ndarray, velocity: np.ndarray, status: tuple[int, int, int], now: int) -> None:
        """Hand over pose (7,), velocity (3,), (buttons, present, homed), in the device's thread, at `now` [ns]."""
        _give(self.blocks, pose, velocity, status, now)

    def follow(self) -> np.ndarray:
        """Command to send now (6,), in the device's thread; it is zero if there is none to follow."""
        _follow(self.blocks, time.monotonic_ns())
        wrench: np.ndarray = self._block["wrench"]
        return wrench

    def fail(self, text: str) -> None:
        """End the force until the device has been opened again, in the device's thread."""
        self._block["enabled"] = 0
        self._texts.append(text)
        _fail(self.blocks, len(self._texts) - 1)


class Exchanging:
    """Methods of a Hardware that use its exchange alone; its own thread does the rest in its next cycle."""

    _exchange: Exchange
    _thread: threading.Thread | None = None  # of the device, from `open` until it has ended

    def _end_thread(self, seconds: float) -> None:
        """Wait for the device's thread, which was asked to end; one that has not ended is kept."""
        if self._thread is not None:
            self._thread.join(seconds)
            if not self._thread.is_alive():
                self._thread = None

    def _check_thread(self, name: str) -> None:
        """Make sure that no thread of the last connection would serve the next one, too.

        Raises:
            DeviceError: it has not ended.
        """
        if self._thread is not None:
            raise DeviceError(f"{name}: {LATE_THREAD}")

    def enable(self) -> None:
        """Switch the motors on, at zero force."""
        self._exchange.enabled = True

    def disable(self) -> None:
        """Zero force, and switch the motors off, where that can be done."""
        self._exchange.enabled = False

    def read(self, reading: Reading) -> bool:
        """Fill in the newest reading, and return whether there is one that is newer than that of the last call."""
        return self._exchange.take(reading)

    def write(self, wrench: np.ndarray) -> None:
        """Render a wrench on the hand at the hand point, in the axes of the base (6,) [N, N m], until the next one."""
        self._exchange.offer(wrench)
