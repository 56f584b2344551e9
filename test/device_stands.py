"""The stand-ins for devices behind one interface: put the hand somewhere, see the force, let it fail."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from fake_haply_2diy import APART, DISTAL, NUMBER, PROXIMAL, Board, angles_at, force_of

from haptic_drivers.devices.haply_2diy import Pantograph
from stand_ins.haply import Service
from stand_ins.libraries import Library

PACE = 2.0 * np.pi  # [rad/s] of a hand that swings
HALF_A_TURN = 0.5  # [s], after which it is on the other side
ALONG = np.array([0.6, 0.0, 0.8])  # the direction, in the base
VALUES = (np.nan, np.inf, 1e30, 1e300)
FIRMWARE = 0.02  # [s] of the watchdog of dhd's devices, as their data have it


class Stand(ABC):
    """A stand-in in the axes of the base: `axes` are forward, left and up in the vendor's.

    Attributes:
        directions: how many of the axes of the base have a motor.
        home: where the hand is when it is put to zero (3,) [m].
        jump: of `Fault.JUMP`, further than the device moves; fastest: its speed [m/s].
        sway: amplitude of the hand that swings [m]; middle: about which (3,) [m].
        load: what a process does first in which a driver uses the stand-in; it can be pickled.
    """

    axes: np.ndarray
    name: str
    connection: dict[str, Any]
    directions = 3
    home = middle = np.zeros(3)
    jump, fastest, sway = 500.0, 2.0, 0.2

    @abstractmethod
    def swing(self, pace: float) -> None:
        """Let the hand swing as sin(pace t), and turn where the device measures that; 0: it is where it was put."""

    @abstractmethod
    def mistakes(self) -> dict[str, Callable[[], None]]:
        """What may be told wrongly of a hand that swings while all else is right, by name; it ends by `back`."""

    @abstractmethod
    def messages(self) -> tuple[int, int]:
        """How many messages the device has had, and how many when its motors last got zero force."""

    @abstractmethod
    def put(self, position: np.ndarray) -> None:
        """Put the hand somewhere (3,) [m]."""

    @abstractmethod
    def force(self) -> np.ndarray:
        """On the hand (3,) [N]."""

    def end_after(self, silence: float) -> None:  # noqa: B027 - most devices cannot
        """Let the device itself end the force of a driver that has said nothing for so long [s], if it does that."""

    fault: Callable[..., object]
    back: Callable[[int], None]
    load: Callable[[], object] = int


class HaplyStand(Stand):
    """Of Haply: x right, y forward, z up."""

    axes, name = np.array([(0, 1, 0), (-1, 0, 0), (0, 0, 1)]).T, "inverse3"

    def __init__(self) -> None:
        self._service = service = Service(idle=10.0)
        self.connection = {"url": service.url, "events": service.events_url}
        self.fault = service.fault

    def do(self, what: Callable[[], None]) -> None:
        """Do something in the service's thread."""
        self._service.do(what)

    def back(self, index: int) -> None:
        """See Stand."""
        self._service.back(index)
        self._service.garble("")

    def put(self, position: np.ndarray) -> None:
        self._service.set_state(0, position=(self.axes @ position).tolist())

    def force(self) -> np.ndarray:
        return self.axes.T @ self._service.told(0)["force"]

    def swing(self, pace: float) -> None:
        """See Stand."""
        self._service.swing(0, self.axes @ (self.sway * ALONG), 1.5, pace)

    def messages(self) -> tuple[int, int]:
        """See Stand."""
        told = self._service.told(0)
        return told["messages"], told["messages_at_zero"]

    def mistakes(self) -> dict[str, Callable[[], None]]:
        """See Stand."""

        def says(field: str, change: Callable[[Any], Any] = lambda told: told, late: float = 0.0) -> Callable[[], None]:
            return lambda: self._service.mistake(0, field, change, late)

        def one(index: int, value: Any) -> Callable[[list[float]], list[Any]]:
            return lambda told: [value if i == index else x for i, x in enumerate(told)]

        def times(gain: float) -> Callable[[list[float]], list[float]]:
            return lambda told: [gain * x for x in told]

        found: dict[str, Callable[[], None]] = {}
        for field, size in (("cursor_position", 3), ("cursor_velocity", 3), ("orientation", 4)):
            for value in (*VALUES, 10**400, "far", None, True):
                for i in range(size):
                    found[f"{field} {'xyzw'[i]} {value!s:.9}"] = says(field, one(i, value))
        for field in ("cursor_position", "cursor_velocity"):
            found[f"{field} of the wrong sign"] = says(field, times(-1.0))
            found[f"{field} in mm"] = says(field, times(1e3))
            found[f"{field} that is none"] = says(field, times(0.0))
            found[f"{field} with exchanged axes"] = says(field, lambda told: [told[2], told[0], told[1]])
        found["cursor_position that is late"] = says("cursor_position", late=HALF_A_TURN)
        found["cursor_velocity that is late"] = says("cursor_velocity", late=0.5 * HALF_A_TURN)
        found["orientation that is late"] = says("orientation", late=HALF_A_TURN)
        found["orientation of zeros"] = says("orientation", times(0.0))
        found["orientation twice as long"] = says("orientation", times(2.0))
        found["orientation that is conjugate"] = says("orientation", lambda told: [-x for x in told[:3]] + told[3:])
        found["orientation w first"] = says("orientation", lambda told: [told[3], *told[:3]])
        found["orientation that is none"] = says("orientation", lambda told: [0.0, 0.0, 0.0, 1.0])
        found["status not calibrated"] = says("status", lambda told: told | {"calibrated": False})
        found["status a text"] = says("status", lambda told: "ready")
        found["buttons a text"] = says("buttons", lambda told: "a")
        found["buttons a number"] = says("buttons", lambda told: 7)
        found["a message of brackets"] = lambda: self._service.garble("[" * 100_000)
        return found

    def end_after(self, silence: float) -> None:
        """See Stand."""
        self._service.idle = silence

    def close(self) -> None:
        self._service.close()
        assert self._service.misuse == ""


class LibraryStand(Stand):
    """Of Force Dimension (x to the user, y right, z up; m) or OpenHaptics (x right, y up, z to the user; mm).

    Args:
        kind, path: of the library.
        memory: file of what it is told, if the driver is in another process.
    """

    def __init__(self, kind: str, path: Path, memory: Path | None = None):
        self.load = partial(Library, path, period=0.5e-3, trip=1e6, memory=memory)
        self._library = self.load()
        self.connection = {"library": str(path)}
        self.fault, self.back = self._library.fault, self._library.back
        of_dhd = kind == "dhd"
        self.name, self._unit = ("sigma7", 1.0) if of_dhd else ("touch", 1e3)
        self.axes = np.array([(-1, 0, 0), (0, -1, 0), (0, 0, 1)] if of_dhd else [(0, 0, -1), (-1, 0, 0), (0, 1, 0)]).T

    def put(self, position: np.ndarray) -> None:
        self._library.set_state(0, self._unit * (self.axes @ position))

    def force(self) -> np.ndarray:
        return self.axes.T @ self._library.told(0).wrench[:3]

    def swing(self, pace: float) -> None:
        """See Stand."""
        self._library.swing(0, self._unit * (self.axes @ (self.sway * ALONG)), 1.5, pace)

    def end_after(self, silence: float) -> None:
        """See Stand. What ends it is this process, which is not the driver's."""
        self._library.reset(trip=silence / FIRMWARE)

    def messages(self) -> tuple[int, int]:
        """See Stand."""
        told = self._library.told(0)
        return told.count, told.count_at_zero

    def mistakes(self) -> dict[str, Callable[[], None]]:
        """See Stand."""

        def says(field: str, **how: Any) -> Callable[[], None]:
            return lambda: self._library.mistake(0, field, **how)

        # the angular velocity of the other is that of its transforms
        velocities = ("velocity", "angular velocity") if self.name == "sigma7" else ("velocity",)
        found: dict[str, Callable[[], None]] = {}
        for field, size in (("position", 3), ("frame", 9), *((one, 3) for one in velocities)):
            for value in VALUES:
                for i in range(size):
                    found[f"{field} {i} {value}"] = says(field, value=(1 << i, value))
            found[f"{field} of the wrong sign"] = says(field, gain=-1.0)
            found[f"{field} that is none"] = says(field, gain=0.0)
        for field in ("position", "velocity"):
            found[f"{field} in a smaller unit"] = says(field, gain=1e3)
            found[f"{field} in a larger unit"] = says(field, gain=1e-3)
        found["position that is late"] = says("position", late=HALF_A_TURN)
        found["frame that is late"] = says("frame", late=HALF_A_TURN)
        found["frame twice as large"] = says("frame", gain=2.0)
        for field in velocities:
            found[f"{field} that is late"] = says(field, late=0.5 * HALF_A_TURN)
        if self.name == "sigma7":
            found["angular velocity in degrees"] = says("angular velocity", gain=np.degrees(1.0))
            found["angular velocity of degrees"] = says("angular velocity", gain=np.radians(1.0))
        return found

    def close(self) -> None:
        assert self._library.misuse == ""


class BoardStand(Stand):
    """Of the Haply 2diy, whose x is right and y toward the user, in degrees and N m at the motors."""

    name, directions, jump, fastest, sway = "haply_2diy", 2, 40.0, 0.3, 0.03

    def __init__(self, board: Board):
        self._board, self._mechanism = board, Pantograph(PROXIMAL, DISTAL, APART)
        self.connection = {"port": board.port}
        self.fault = board.fault
        point, _ = self._locate()
        self.home = np.array([point[0] - 0.5 * APART, -point[1], 0.0])
        self.middle = self.home - (0.0, 0.04, 0.0)  # its home is at the edge of where it can move

    def back(self, index: int) -> None:
        """See Stand."""
        self._board.back(index)
        self._board.number = NUMBER

    def _locate(self) -> tuple[np.ndarray, np.ndarray]:
        return self._mechanism.locate(np.radians(self._board.angles[::-1]))

    def put(self, position: np.ndarray) -> None:
        self._board.angles[:] = self._angles(position)

    def _angles(self, position: np.ndarray) -> list[float]:
        x, y, _ = self.home + position
        return angles_at(np.array([x + 0.5 * APART, -y]))

    def swing(self, pace: float) -> None:
        """See Stand."""
        along, inside = self.sway * np.array([0.8, -0.6, 0.0]), self.middle - self.home
        self._board.path = (lambda t: self._angles(inside + math.sin(pace * t) * along)) if pace else None

    def messages(self) -> tuple[int, int]:
        """See Stand."""
        return self._board.answers, self._board.answers_at_zero

    def mistakes(self) -> dict[str, Callable[[], None]]:
        """See Stand. An encoder that stands still is a hand at rest, and cannot be told from that."""

        def says(change: Callable[[list[float]], list[float]], late: float = 0.0) -> Callable[[], None]:
            def begin() -> None:
                self._board.change, self._board.late = change, late

            return begin

        found: dict[str, Callable[[], None]] = {}
        for value in (*VALUES, -1e30, 3e38):
            if abs(value) < 3.5e38 or not np.isfinite(value):  # else it is no float32
                found[f"the first angle {value}"] = says(lambda told, v=value: [v, told[1]])  # type: ignore[misc]
                found[f"the second angle {value}"] = says(lambda told, v=value: [told[0], v])  # type: ignore[misc]
        found["angles in radians"] = says(lambda told: [float(x) for x in np.radians(told)])
        found["angles of the wrong sign"] = says(lambda told: [-x for x in told])
        found["the first angle of the wrong sign"] = says(lambda told: [-told[0], told[1]])
        found["angles that are exchanged"] = says(lambda told: told[::-1])
        found["angles that are late"] = says(list, HALF_A_TURN)
        found["the number of another device"] = lambda: setattr(self._board, "number", NUMBER + 72)
        return found

    def force(self) -> np.ndarray:
        fx, fy = force_of(self._board.torques, self._locate()[1])
        return np.array([fx, -fy, 0.0])
