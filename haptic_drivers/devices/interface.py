"""Interface of a hardware device to the driver: open, enable, read, write, disable, close.

A module of this folder has a class `Connection(Parameters)`, the keys of `connection` in the device's data, and

    def build(device: HardwareParameters, connection: Connection) -> Hardware

which touches nothing: libraries are loaded and ports opened by `open`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from haptic_sim.errors import HapticsError
from haptic_sim.messages import MOST_BUTTONS

LATE_THREAD = "the thread of the last connection has not ended yet: wait, and enable the device again"


class DeviceError(HapticsError, RuntimeError):
    """A device cannot be used, or not any more; the text says what is missing or was found, and what to do."""


@dataclass
class Reading:
    """Reading of a device at an instant, in SI units and the axes of its base B (REP 103, right-handed).

    A device fills in the quantities that it measures, and leaves the others unchanged.

    Attributes:
        pose: X_BH of the hand point, position [m] and quaternion x y z w (7,).
        twist: of the hand point [m/s, rad/s] (6,).
        buttons: 1 pressed, 0 released, in the order of the data's `buttons`.
        present: whether somebody holds it: 1 yes, 0 no, -1 not known.
        homed: whether its position is absolute; False: it has to be homed or calibrated before force.
        fault: what is wrong, in the vendor's words; empty if nothing is.
        time_ns: when it arrived, of `time.monotonic_ns`.
    """

    pose: np.ndarray = field(default_factory=lambda: np.array([0.0, 0, 0, 0, 0, 0, 1]))
    twist: np.ndarray = field(default_factory=lambda: np.zeros(6))
    buttons: np.ndarray = field(default_factory=lambda: np.zeros(MOST_BUTTONS, np.int32))
    present: int = -1
    homed: bool = True
    fault: str = ""
    time_ns: int = 0


class Hardware(Protocol):
    """A device as its driver sees it.

    `open` and `close` are called while nothing else is; the others by one thread at a time, and none of these blocks,
    but that `disable` waits for a command that is just being sent.
    What goes wrong is said by a DeviceError, or by `Reading.fault`: both end in zero force, and the device can be
    opened again after `close`.
    """

    def open(self) -> None:
        """Load the library or open the port, without force.

        Raises:
            DeviceError: there is none; names what is missing as its vendor does, and what to do.
        """

    def enable(self) -> None:
        """Switch the motors on, at zero force."""

    def disable(self) -> None:
        """Zero the force and, if possible, switch the motors off; no earlier force is sent after the return."""

    def read(self, reading: Reading) -> bool:
        """Fill in the newest reading, and return whether there is one that is newer than that of the last call.

        A device that replies to each message, that blocks or that calls back has a thread of its own, from which this
        takes the newest.
        """

    def write(self, wrench: np.ndarray) -> None:
        """Render a wrench on the hand at the hand point, in the axes of the base (6,) [N, N m], until the next one.

        Only while it is enabled.
        """

    def close(self) -> None:
        """Zero the force, and release library or port; also after an error, or if it is not open. Raises nothing."""


@runtime_checkable
class Homing(Protocol):
    """A device that finds its absolute position on request, as `Reading.homed` then shows.

    Its `disable` is also called while it is disabled: it may be moving.
    """

    def home(self) -> None:
        """Begin, while it is disabled; the device moves by itself until `disable`, or asks its user to.

        Raises:
            DeviceError: it cannot; says what its user has to do.
        """


@runtime_checkable
class Identifying(Protocol):
    """A device that can be identified."""

    def identity(self) -> str:
        """Model, serial number and firmware as far as the device reports them, in one line; only while it is open."""
