"""Input devices that move a pointer without a page: a terminal's keys, a gamepad, a SpaceMouse.

Each gives the motion since it was last read; the first motion takes hold of the hand, and a key or a button lets go.
Axes are those of the world: x to the right, y away, z up.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import termios
import tty
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from haptic_sim.errors import HapticsError

STEP, TURN = 0.004, 0.05  # [m], [rad] of a key
SPEED, RATE = 0.15, 1.5  # [m/s], [rad/s] of a stick that is at its end
DEAD = 0.12  # part of a stick's travel in which it is at rest


class SourceError(HapticsError, RuntimeError):
    """Error: there is no input device to read; the text names the reason and the remedy."""


class Motion(NamedTuple):
    """Motion of a person since the last call: displacement and rotation (6,) [m, rad]; whether they let go or leave."""

    displacement: np.ndarray
    releases: bool = False
    leaves: bool = False


class Source(Protocol):
    """Something that a person moves."""

    def read(self, elapsed: float) -> Motion:
        """The motion in the last `elapsed` [s]; never waits.

        Raises:
            SourceError: it is gone.
        """


def _axis(i: int, sign: float) -> np.ndarray:
    displacement = np.zeros(6)
    displacement[i] = sign * (STEP if i < 3 else TURN)
    return displacement


def _pairs(first: int, *pairs: tuple[str, str]) -> dict[str, np.ndarray]:
    """Two keys each of components from the first on: backward and forward."""
    return {
        key: _axis(first + i, sign) for i, pair in enumerate(pairs) for key, sign in zip(pair, (-1.0, 1.0), strict=True)
    }


KEYS = (
    _pairs(0, ("a", "d"), ("s", "w"), ("f", "r"))
    | _pairs(0, ("\x1b[D", "\x1b[C"), ("\x1b[B", "\x1b[A"), ("\x1b[6~", "\x1b[5~"))
    | _pairs(3, ("W", "S"), ("F", "R"), ("D", "A"))
)
KEYS_HELP = "a d, w s, r f (arrows, page up and down): move; A D, W S, R F: turn; space: let go; q: end"


class Keyboard:
    """The keys of a terminal, each of which is a step; a terminal does not say when a key is released.

    Args:
        descriptor: of the terminal, in which nothing is echoed (`raw_terminal`).
    """

    def __init__(self, descriptor: int):
        self._descriptor, self._rest = descriptor, ""

    def read(self, elapsed: float) -> Motion:
        """The motion in the last `elapsed` [s]; never waits."""
        try:
            data = os.read(self._descriptor, 1024)
        except BlockingIOError:
            return Motion(np.zeros(6))
        if not data:
            raise SourceError("the terminal is closed")
        text, displacement, releases, leaves = self._rest + data.decode(errors="ignore"), np.zeros(6), False, False
        self._rest = ""
        while text:
            key = next((key for key in KEYS if text.startswith(key)), text[0])
            if key in KEYS:
                displacement += KEYS[key]
            elif key == "\x1b" and len(text) < 4 and any(one.startswith(text) for one in KEYS):
                if len(text) > 1:
                    self._rest = text  # the rest of an arrow comes later
                    break
                releases = True
            elif key in " \x1b":
                releases = True
            leaves |= key in "q\x03\x04"
            text = text[len(key) :]
        return Motion(displacement, releases, leaves)


@contextlib.contextmanager
def raw_terminal(descriptor: int) -> Iterator[None]:
    """Keys come one by one, and are not echoed, while this is open.

    Raises:
        SourceError: it is no terminal.
    """
    if not os.isatty(descriptor):
        raise SourceError("keyboard: the standard input is not a terminal")
    before = termios.tcgetattr(descriptor)
    blocking = os.get_blocking(descriptor)
    try:
        tty.setcbreak(descriptor)
        os.set_blocking(descriptor, False)
        yield
    finally:
        os.set_blocking(descriptor, blocking)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


_EVENT = struct.Struct("@llHHi")  # struct input_event of <linux/input.h>: time, type, code, value
_KEY, _ABS = 1, 3
_STICKS = {0: (0, 1.0), 1: (1, -1.0), 3: (5, -1.0), 4: (3, 1.0)}  # ABS_X, ABS_Y, ABS_RX, ABS_RY: component, sign
_TRIGGERS = {2: -1.0, 5: 1.0}  # ABS_Z, ABS_RZ: down, up
_RELEASE_BUTTONS = (305, 304)  # BTN_EAST, BTN_SOUTH
GAMEPAD_HELP = "left stick: move; triggers: down and up; right stick: turn; button A or B: let go; Ctrl-C: end"


class Gamepad:
    """A gamepad of Linux' evdev: left stick along x and y, triggers along z, right stick about z and x.

    Args:
        descriptor: of /dev/input/event*, not blocking.
    """

    def __init__(self, descriptor: int):
        self._descriptor = descriptor
        self._ranges = {code: self._range(code) for code in (*_STICKS, *_TRIGGERS)}
        self._values = {code: 0.0 for code in self._ranges}
        self._rest = b""

    def _range(self, code: int) -> tuple[int, int]:
        """Least and largest value of an axis."""
        info = bytearray(24)  # struct input_absinfo: value, minimum, maximum, fuzz, flat, resolution
        try:
            fcntl.ioctl(self._descriptor, 2 << 30 | len(info) << 16 | ord("E") << 8 | 0x40 + code, info)  # EVIOCGABS
            _, least, largest = struct.unpack("@iii12x", info)
        except OSError:
            least = largest = 0
        return (least, largest) if largest > least else (0, 255) if code in _TRIGGERS else (-32768, 32767)

    def read(self, elapsed: float) -> Motion:
        """The motion in the last `elapsed` [s]; never waits."""
        releases = False
        while True:
            try:
                data = os.read(self._descriptor, 64 * _EVENT.size)
            except BlockingIOError:
                break
            except OSError as error:
                raise SourceError(f"the gamepad is gone: {error.strerror}") from error
            if not data:
                raise SourceError("the gamepad is gone")
            data = self._rest + data
            whole = len(data) // _EVENT.size * _EVENT.size
            self._rest = data[whole:]
            for _, _, kind, code, value in _EVENT.iter_unpack(data[:whole]):
                if kind == _ABS and code in self._ranges:
                    least, largest = self._ranges[code]
                    part = (value - least) / (largest - least)
                    self._values[code] = part if code in _TRIGGERS else 2.0 * part - 1.0
                releases |= kind == _KEY and code in _RELEASE_BUTTONS and value == 1
        displacement = np.zeros(6)
        for code, (i, sign) in _STICKS.items():
            displacement[i] += sign * bent(self._values[code])
        for code, sign in _TRIGGERS.items():
            displacement[2] += sign * bent(self._values[code])
        return Motion(scaled(displacement, elapsed), releases)


def find_gamepad(path: str = "") -> int:
    """The descriptor of a gamepad, the first that there is where no path is given.

    Raises:
        SourceError: there is none, or it may not be read.
    """
    found = [Path(path)] if path else sorted(Path("/dev/input/by-id").glob("*-event-joystick"))
    if not found:
        raise SourceError("gamepad: none in /dev/input/by-id; name its event file with --device")
    try:
        descriptor = os.open(found[0], os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        hint = "; its group is usually `input`" if isinstance(error, PermissionError) else ""
        raise SourceError(f"gamepad {found[0]}: {error.strerror}{hint}") from error
    if problem := _gamepad_problem(descriptor):
        os.close(descriptor)
        raise SourceError(f"gamepad {found[0]}: {problem}; name the event file of a gamepad, /dev/input/event*")
    return descriptor


def _gamepad_problem(descriptor: int) -> str:
    """Reason why an open file is not a gamepad, which has a left stick and a release button; empty if it is one."""
    try:
        axes, keys = (_codes(descriptor, kind) for kind in (_ABS, _KEY))
    except OSError:
        return "is not an input device"
    lacking = [] if {0, 1} <= axes else ["stick (ABS_X, ABS_Y)"]
    lacking += [] if keys & set(_RELEASE_BUTTONS) else ["button A or B (BTN_SOUTH, BTN_EAST)"]
    return f"is an input device without a {' and a '.join(lacking)}" if lacking else ""


def _codes(descriptor: int, kind: int) -> set[int]:
    """The codes that an input device has of a kind of events."""
    bits = bytearray(96)
    fcntl.ioctl(descriptor, 2 << 30 | len(bits) << 16 | ord("E") << 8 | 0x20 + kind, bits)  # EVIOCGBIT
    return {8 * i + k for i, byte in enumerate(bits) for k in range(8) if byte >> k & 1}


SPACEMOUSE_HELP = "push, pull and turn the cap; any button: let go; Ctrl-C: end"


class SpaceMouse:
    """A SpaceMouse, by the library pyspacemouse.

    Args:
        device: as `pyspacemouse.open()` gives it; None: it is opened.
    """

    def __init__(self, device: Any = None):
        if device is None:
            try:
                import pyspacemouse
            except ImportError as error:
                raise SourceError(
                    f"spacemouse: needs pyspacemouse and hidapi: python3 -m pip install 'haptics[spacemouse]' ({error})"
                ) from error
            try:
                device = pyspacemouse.open()
            except Exception as error:  # of a library below it, of any kind
                raise SourceError(f"spacemouse: none can be opened: {error}") from error
        self._device = device

    def read(self, elapsed: float) -> Motion:
        """The motion in the last `elapsed` [s]; never waits."""
        try:
            for _ in range(8):  # reports of 8 ms that have come since the last time
                state = self._device.read()
        except Exception as error:
            raise SourceError(f"the SpaceMouse is gone: {error}") from error
        values = (state.x, state.y, state.z, state.pitch, state.roll, -state.yaw)
        return Motion(scaled(np.array([bent(value) for value in values]), elapsed), any(state.buttons))


def bent(value: float) -> float:
    """Part of a stick's travel beyond DEAD, from -1 to 1; 0 for what is not a number."""
    if not abs(value) > DEAD:
        return 0.0
    size = min((abs(value) - DEAD) / (1.0 - DEAD), 1.0)
    return size if value > 0.0 else -size


def scaled(parts: np.ndarray, elapsed: float) -> np.ndarray:
    """The motion of sticks in a time [s], from parts of their travel (6,)."""
    return np.asarray(parts * elapsed * np.array([SPEED, SPEED, SPEED, RATE, RATE, RATE]))
