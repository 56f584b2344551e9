"""The board of a Haply 2diy at the other end of a pseudo-terminal, which takes nothing that its firmware would not."""

from __future__ import annotations

import contextlib
import math
import os
import select
import struct
import threading
import time
import tty
from collections.abc import Iterator

import numpy as np

NUMBER = 5
SILENCE = 1.0  # [s] that a driver may be silent before the fake calls it misuse: a test may share its core with others


class Board(threading.Thread):
    """Answers as the firmware does; what it is told wrongly is in `misuse`.

    Attributes:
        angles: of the encoders at ports 1 and 2 [deg]; torques: of the motors at ports 1 and 2 [N m], as told last.
        late: time before an answer [s]; twice: each answer comes twice; other: number that it answers with.
        gone: the port is closed.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True, name="fake board")
        self._ours, theirs = os.openpty()
        tty.setraw(self._ours)
        self.port = os.ttyname(theirs)
        self._theirs = theirs
        self.angles, self.torques = [12.0, 168.0], (0.0, 0.0)
        self.late, self.twice, self.silent, self.other = 0.0, False, False, NUMBER
        self.told: list[str] = []
        self.misuse: list[str] = []
        self.answers = 0
        self._done = threading.Event()
        self.start()

    def run(self) -> None:
        heard, last, ready = b"", time.monotonic(), False
        while not self._done.is_set():
            if not select.select([self._ours], [], [], 0.01)[0]:
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
        if kind == "reset" and message != b"\0\0":
            self.misuse.append(f"reset {message!r}")
        if kind == "setup":
            head, values = message[:10], struct.unpack_from("<4f", message, 10)
            if head != bytes((1, NUMBER, 3, 1, 1, 3, 1, 1, 0, 0)) or values != (12.0, 4880.0, 168.0, 4880.0):
                self.misuse.append(f"setup {list(head)} {values}")
        if kind != "torques":
            return
        if self.told[:2] != ["reset", "setup"]:
            self.misuse.append("torques before the setup")
        self.torques = struct.unpack_from("<2f", message, 2)
        if not all(map(math.isfinite, self.torques)) or message[1] != NUMBER:
            self.misuse.append(f"torques {self.torques} of device {message[1]}")
        if self.silent:
            return
        if self.late:
            time.sleep(self.late)
        answer = struct.pack("<B2f", self.other, *self.angles)
        with contextlib.suppress(OSError):
            os.write(self._ours, answer * (1 + self.twice))
        self.answers += 1

    def vanish(self) -> None:
        """As if its plug were pulled: the motors have no force."""
        self._done.set()
        self.join(1.0)
        self.torques = (0.0, 0.0)
        for file in (self._ours, self._theirs):
            with contextlib.suppress(OSError):
                os.close(file)

    def settle(self, answers: int = 3) -> None:
        """Wait until it has answered so many times more."""
        wanted, deadline = self.answers + answers, time.monotonic() + 10.0
        while self.answers < wanted and time.monotonic() < deadline:
            time.sleep(1e-3)
        assert self.answers >= wanted


@contextlib.contextmanager
def board() -> Iterator[Board]:
    one = Board()
    try:
        yield one
    finally:
        one.vanish()
        assert not one.misuse


def force_of(torques: tuple[float, float], jacobian: np.ndarray) -> np.ndarray:
    """Force on the hand in the axes of the board (2,) [N] by torques at ports 1 and 2 [N m]."""
    found: np.ndarray = np.linalg.solve(jacobian.T, [torques[1], torques[0]])
    return found
