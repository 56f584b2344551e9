"""An event that the handler of a signal may set."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
import weakref


class SignalEvent(threading.Event):
    """An event for handlers of signals, and for other threads.

    `threading.Event` has a lock. A handler runs in the main thread, whatever that does: where a signal comes while it
    takes part in a wait it may hold this lock, and `set` would wait for it for ever. This one is a counter of the
    kernel instead (eventfd), which is waited for by `poll`. After a fork, parent and child each have their own.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_set = False
        self._open()

    def _open(self) -> None:
        self._process, self._counter = os.getpid(), os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        weakref.finalize(self, os.close, self._counter)

    def is_set(self) -> bool:
        """Whether the event is set."""
        return self._is_set

    def set(self) -> None:
        """Set it, and end all waits."""
        self._is_set = True
        if self._process == os.getpid():
            os.eventfd_write(self._counter, 1)

    def clear(self) -> None:
        """Reset it."""
        self._is_set = False
        if self._process == os.getpid():
            with contextlib.suppress(BlockingIOError):  # it was not set
                os.eventfd_read(self._counter)
            if self._is_set:  # again, meanwhile: waits have to end
                os.eventfd_write(self._counter, 1)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, or for `timeout` [s]; returns whether it is set."""
        return wait_for_any(self, timeout=timeout)

    def fileno(self) -> int:
        """Number of the file that can be read as long as it is set."""
        if self._process != os.getpid():
            self._open()
        return self._counter


def wait_for_any(*events: SignalEvent, timeout: float | None = None) -> bool:
    """Wait until one of several events is set, or for `timeout` [s]; returns whether one is."""
    end = None if timeout is None else time.monotonic() + timeout
    poll = select.poll()
    for one in events:
        poll.register(one, select.POLLIN)
    while not (found := any(one.is_set() for one in events)):
        left = None if end is None else end - time.monotonic()
        if left is not None and left <= 0.0:
            break
        poll.poll(None if left is None else 1e3 * left)
    return found
