"""A process of its own that ends the force of a device when the process of its driver cannot.

A driver that is killed or stopped, or whose Python is held by a call that does not return, writes nothing any more, and
none of its threads does. A board without a watchdog keeps what it was told last. So the driver gives signs of life, by
a pipe; when none has come for too long, or when the pipe is closed because the driver has ended, the guardian writes
the message of zero force to the port, once until the next sign.

The guardian is this file, run with nothing but Python's own modules: it starts in some milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time

ENDING = 2.0  # [s] for the guardian to end, once its pipe is closed
SIGNS = 4  # of life within the silence that ends the force


class Guardian:
    """The driver's side.

    Args:
        port: file of the device's port, which the guardian shares.
        message: of zero force.
        silence: after which it is written [s].

    Raises:
        OSError: the process cannot be started.
    """

    def __init__(self, port: int, message: bytes, silence: float):
        self._period, self._signed = round(1e9 * silence / SIGNS), 0
        read, self._pipe = os.pipe()
        try:
            os.set_blocking(self._pipe, False)
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, str(port), str(read), message.hex(), repr(silence)],
                pass_fds=(port, read),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # what ends a terminal's programs ends the driver first
            )
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(read)

    def sign(self) -> bool:
        """Give a sign of life, if it is time for one; returns whether there is a guardian."""
        now = time.monotonic_ns()
        if now - self._signed >= self._period:
            self._signed = now
            try:
                os.write(self._pipe, b".")
            except OSError:  # it has ended, or is stopped and has enough to read
                return False
        return True

    def close(self) -> None:
        """Let it write the message, and wait for its end."""
        pipe, self._pipe = self._pipe, -1  # a thread that is late signs no other file
        os.close(pipe)
        try:
            self._process.wait(ENDING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def guard(port: int, pipe: int, message: bytes, silence: float) -> None:
    """The guardian's side: until the pipe is closed."""
    alive = True
    while True:
        ready = select.select([pipe], [], [], silence)[0]
        signs = os.read(pipe, 4096) if ready else b""
        if not signs and (alive or ready):
            with contextlib.suppress(OSError):  # the device is gone, and with it its force
                os.write(port, message)
        if ready and not signs:
            return
        alive = bool(signs)


if __name__ == "__main__":
    guard(int(sys.argv[1]), int(sys.argv[2]), bytes.fromhex(sys.argv[3]), float(sys.argv[4]))
