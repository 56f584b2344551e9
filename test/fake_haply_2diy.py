"""The board of a Haply 2diy at the other end of a pseudo-terminal, which takes nothing that its firmware would not.

Its messages have no version, so there are no older ones; boards are wired in several ways, which are keys of the
driver's connection.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import struct
import tempfile
import threading
import time
import tty
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from stand_ins import Fault

NUMBER = 5
SILENCE = 3.0  # [s] that a driver may be silent: beyond the reading watchdog of tests, for which it awaits an answer
HOME = (12.0, 168.0)  # [deg] of the encoders at ports 1 and 2
PROXIMAL, DISTAL, APART = 0.07, 0.09, 0.038  # [m]


class Board:
    """Answers as the firmware does; what it is told wrongly is in `misuse`.

    Attributes:
        port: that the driver opens; it stays the same when the board is unplugged and comes back.
        angles: of the encoders at ports 1 and 2 [deg]; torques: of the motors at ports 1 and 2 [N m], as told last.
        number: that it answers with.
        faults: LATE [s], JUMP [deg] of the first encoder; NOT_FINITE, TWICE: answers that are left; MUTE: no answers.
    """

    def __init__(self, folder: Path) -> None:
        self._link = folder / "board"
        self.port = str(self._link)
        self.angles, self.torques, self.number = list(HOME), (0.0, 0.0), NUMBER
        self.faults = dict.fromkeys(Fault, 0.0)
        self.path: Callable[[float], list[float]] | None = None  # angles at a time [s]; None: they are `angles`
        self.change: Callable[[list[float]], list[float]] = list  # what is told instead of the angles
        self.late = 0.0  # [s] by which they are those of an earlier instant
        self.answers_at_zero = 0  # when the torques became zero
        self.told: list[str] = []
        self.misuse: list[str] = []
        self.answers = 0
        self._thread: threading.Thread | None = None
        self._plug_in()

    def _plug_in(self) -> None:
        self._ours, self._theirs = os.openpty()
        tty.setraw(self._ours)
        self._link.unlink(missing_ok=True)
        self._link.symlink_to(os.ttyname(self._theirs))
        self._answers: deque[tuple[float, bytes]] = deque()  # when each is due [s]
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="fake board")
        self._thread.start()

    def vanish(self) -> None:
        """As if its plug were pulled: the motors have no force."""
        if self._thread is None:
            return
        self._done.set()
        self._thread.join(10.0)
        self._thread, self.torques = None, (0.0, 0.0)
        for file in (self._ours, self._theirs):
            os.close(file)
        self._link.unlink()

    def fault(self, index: int, kind: Fault, value: float = 1.0) -> float:
        """Make the board do what it should not; returns the time before that [s]. `index` is 0."""
        now = time.monotonic()
        if kind == Fault.GONE:
            self.vanish()
        else:
            self.faults[kind] = value
        return now

    def back(self, index: int = 0) -> None:
        """End all faults; a board that was gone is there again."""
        self.faults = dict.fromkeys(Fault, 0.0)
        self.change, self.late = list, 0.0
        if self._thread is None:
            self._plug_in()

    def _run(self) -> None:
        heard, last, ready = b"", time.monotonic(), False
        while not self._done.is_set():
            now = time.monotonic()
            while self._answers and self._answers[0][0] <= now:
                with contextlib.suppress(OSError):
                    os.write(self._ours, self._answers.popleft()[1])
                self.answers += 1
            wait = min(0.01, self._answers[0][0] - now) if self._answers else 0.01
            if not select.select([self._ours], [], [], max(wait, 0.0))[0]:
                if ready and any(self.torques) and time.monotonic() - last > SILENCE:
                    self.misuse.append("silence with torques on")
                    last = time.monotonic()
                continue
            try:
                heard += os.read(self._ours, 256)
            except OSError:
                return
            last = time.monotonic()
            while heard:
                size = {0: 2, 1: 26, 2: 10}.get(heard[0])
                if size is None:
                    self.misuse.append(f"a message of type {heard[0]}")
                    heard = b""
                    break
                if len(heard) < size:
                    break
                message, heard = heard[:size], heard[size:]
                self._take(message)
                ready = True

    def _take(self, message: bytes) -> None:
        kind = ("reset", "setup", "torques")[message[0]]
        if kind != "torques" or self.told[-1:] != ["torques"]:
            self.told.append(kind)
        if kind == "reset":
            self._answers.clear()
            if message != b"\0\0":
                self.misuse.append(f"reset {message!r}")
        if kind == "setup":
            head, values = message[:10], struct.unpack_from("<4f", message, 10)
            if head != bytes((1, NUMBER, 3, 1, 1, 3, 1, 1, 0, 0)) or values != (12.0, 4880.0, 168.0, 4880.0):
                self.misuse.append(f"setup {list(head)} {values}")
        if kind != "torques":
            return
        if self.told[:2] != ["reset", "setup"]:
            self.misuse.append("torques before the setup")
        before, self.torques = self.torques, struct.unpack_from("<2f", message, 2)
        if any(before) and not any(self.torques):
            self.answers_at_zero = self.answers
        if not all(map(math.isfinite, self.torques)) or message[1] != NUMBER:
            self.misuse.append(f"torques {self.torques} of device {message[1]}")
        self._answer()

    def _answer(self) -> None:
        """Answer a message; commands are taken while an answer is late."""
        faults = self.faults
        if faults[Fault.MUTE]:
            return
        told = self.path(time.monotonic() - self.late) if self.path else self.angles
        first, second = self.change(list(told))
        first += faults[Fault.JUMP]
        if faults[Fault.NOT_FINITE] > 0:
            faults[Fault.NOT_FINITE] -= 1
            first = math.nan
        times = 1 + (faults[Fault.TWICE] > 0)
        faults[Fault.TWICE] -= times - 1
        late, faults[Fault.LATE] = faults[Fault.LATE], 0.0
        due = max(time.monotonic() + late, self._answers[-1][0] if self._answers else 0.0)  # in their order
        self._answers.append((due, struct.pack("<B2f", self.number, first, second) * times))

    def settle(self, answers: int = 3) -> None:
        """Wait until it has answered so many times more."""
        wanted, deadline = self.answers + answers, time.monotonic() + 10.0
        while self.answers < wanted and time.monotonic() < deadline:
            time.sleep(1e-3)
        assert self.answers >= wanted


@contextlib.contextmanager
def board() -> Iterator[Board]:
    with tempfile.TemporaryDirectory() as folder:
        one = Board(Path(folder))
        try:
            yield one
        finally:
            one.vanish()
            assert not one.misuse, one.misuse


def force_of(torques: tuple[float, float], jacobian: np.ndarray) -> np.ndarray:
    """Force on the hand in the axes of the board (2,) [N] by torques at ports 1 and 2 [N m]."""
    found: np.ndarray = np.linalg.solve(jacobian.T, [torques[1], torques[0]])
    return found


def angles_at(point: np.ndarray) -> list[float]:
    """Angles of the encoders at ports 1 and 2 [deg] with the hand at a point in the axes of the board (2,) [m]."""
    found = []
    for base, side in ((APART, -1.0), (0.0, 1.0)):  # of the motor at port 1, which is on the right, and at port 2
        away = point - (base, 0.0)
        distance = math.hypot(*away)
        inner = math.acos((PROXIMAL**2 + distance**2 - DISTAL**2) / (2.0 * PROXIMAL * distance))
        found.append(math.degrees(math.atan2(away[1], away[0]) + side * inner))
    return found
