"""Forks of this process, each of which takes one number after the other from a pipe and works on what that stands for.

    def work(numbers: Numbers, send: Callable[[Any], None]) -> None:
        send([function(items[number]) for number in numbers])

    with begun(work, len(items), processes=3) as (_, receivers):
        found = [receiver.recv() for receiver in receivers]

A fork has all that this process has imported, built and compiled. It has none of its other threads, but the locks that
these hold: who begins forks decides whether it may. So it does about errors in a fork, and about one that was killed.
Processes share no lock, which one that is killed would hold for ever. Signals that end a program are the parent's
affair, but for SIGTERM. Forks end with the block, whatever they are at; one whose parent was killed ends when it sends.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

MOST = 10_000
"""Numbers that a pipe takes at once."""
ENDED = EOFError, OSError
"""Errors of receiving from a fork that has ended: after a message, and in the middle of one."""
_NUMBER = struct.Struct("=H")
_SIGNALS = {signal.SIGINT: signal.SIG_IGN, signal.SIGHUP: signal.SIG_IGN, signal.SIGTERM: signal.SIG_DFL}
_starting = threading.Lock()
"""Held while a pipe is open that forks of another thread must not have: they would wait for each other's ends."""


def _release() -> None:
    """Release the lock in a fork, which lacks the thread that holds it."""
    if _starting.locked():
        _starting.release()


os.register_at_fork(after_in_child=_release)


class Numbers:
    """The numbers that are left, in their order; each is taken by one process."""

    def __init__(self, waiting: int):
        self._waiting = waiting

    def __iter__(self) -> Iterator[int]:
        while taken := os.read(self._waiting, _NUMBER.size):
            yield _NUMBER.unpack(taken)[0]

    def drop(self) -> None:
        """Leave none to any process."""
        while os.read(self._waiting, MOST * _NUMBER.size):
            pass


Work = Callable[[Numbers, Callable[[Any], None]], None]
"""Work of a fork, which takes numbers and sends messages."""


@contextlib.contextmanager
def begun(work: Work, count: int, processes: int) -> Iterator[tuple[Numbers, Mapping[Any, Any]]]:
    """Let forks work on the numbers below `count`, at most MOST.

    Yields:
        the numbers, which this process may take, too, and the forks by the ends of the pipes that receive from them.
    """
    context = multiprocessing.get_context("fork")
    forks = dict[Any, Any]()
    with contextlib.ExitStack() as stack:
        # None begins before all are known. An interrupt while one is started leaves it unknown, which then finds an
        # empty pipe that is closed. The mask does not prevent that: threads of libraries take it.
        starting = stack.enter_context(contextlib.ExitStack())
        starting.enter_context(_starting)
        waiting, filled = os.pipe()
        stack.callback(os.close, waiting)
        starting.callback(os.close, filled)
        for _ in range(processes):
            receiver, sender = context.Pipe(duplex=False)
            fork = context.Process(target=_become, args=(work, waiting, filled, sender, [*forks, receiver]))
            before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # until the fork has its own handlers
            try:
                fork.start()
                stack.callback(_end, fork, receiver)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            sender.close()
            forks[receiver] = fork
        os.write(filled, b"".join(map(_NUMBER.pack, range(count))))
        starting.close()
        yield Numbers(waiting), forks


def _end(fork: Any, receiver: Any) -> None:
    """End a fork, whatever it is at."""
    fork.kill()
    fork.join()
    receiver.close()


def _become(work: Work, waiting: int, filled: int, sender: Any, receivers: Sequence[Any]) -> None:
    """In the fork: work, until no number is left or nobody receives: only the parent may have those ends of pipes."""
    for number, handler in _SIGNALS.items():
        signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    os.close(filled)
    for receiver in receivers:
        receiver.close()
    with contextlib.suppress(BrokenPipeError):
        work(Numbers(waiting), sender.send)
