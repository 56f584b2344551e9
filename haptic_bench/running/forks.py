"""Work shared out among the cores, by forks of this process: they have all that it has imported, built and compiled.

    samples = forks.on_cores(run_unrecorded, variants)

is `[run_unrecorded(one) for one in variants]`, with the same results, on all cores of this process.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from haptic_bench.set_up import failures
from haptic_ros.middleware import process

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST = 10_000  # numbers of items that the pipe of those that wait takes at once
_NUMBER = struct.Struct("=H")

_is_fork = False


def on_cores(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The results of a function of each item, which must not depend on each other, in their order.

    A fork that is killed, or whose result cannot be sent, does no harm: what it leaves is done by this process, and so
    is what has failed, so that its error is raised here. In a fork, and in a process with other threads, whose locks a
    fork would never see released, all is done one after the other.
    """
    others = min(len(os.sched_getaffinity(0)), len(items)) - 1
    if others < 1 or len(items) > MOST or _is_fork or not _is_single_threaded():
        return [function(item) for item in items]
    waiting, filled = os.pipe()
    os.write(filled, b"".join(_NUMBER.pack(number) for number in range(len(items))))
    os.close(filled)
    found: dict[int, Result] = {}
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, waiting)
        forks = [_Fork(function, items, waiting) for _ in range(others)]
        for fork in forks:
            stack.callback(fork.end)
        _do(function, items, waiting, found)
        for fork in forks:
            found |= fork.results()
    return [found[number] if number in found else function(item) for number, item in enumerate(items)]


def _is_single_threaded() -> bool:
    """Whether this thread is the only one of the process, those of libraries included."""
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return threading.active_count() == 1


def _do(function: Callable[[Item], Result], items: Sequence[Item], waiting: int, found: dict[int, Result]) -> None:
    """Do what waits, each item taken from the pipe by one process, until nothing does."""
    while taken := os.read(waiting, _NUMBER.size):
        (number,) = _NUMBER.unpack(taken)
        found[number] = function(items[number])


class _Fork:
    """A fork of this process that does what waits."""

    def __init__(self, function: Callable[[Any], Any], items: Sequence[Any], waiting: int):
        context = multiprocessing.get_context("fork")
        self._receiver, sender = context.Pipe(duplex=False)
        self._process = context.Process(target=_become, args=(function, items, waiting, sender, os.getpid()))
        before = signal.pthread_sigmask(signal.SIG_BLOCK, failures.ENDING)  # until the fork has its own handlers
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        sender.close()

    def results(self) -> dict[int, Any]:
        """Its results, when it has no more to do; those that it has are lost with it if it is killed."""
        try:
            found: dict[int, Any] = self._receiver.recv()
            return found
        except EOFError:
            return {}

    def end(self) -> None:
        """End it, whatever it is at."""
        self._process.kill()
        self._process.join()
        self._receiver.close()


def _become(function: Callable[[Any], Any], items: Sequence[Any], waiting: int, sender: Any, parent: int) -> None:
    """In the fork: do what waits until an item fails, and send the results. Signals are the parent's affair."""
    global _is_fork
    _is_fork = True
    for number in failures.ENDING:
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, failures.ENDING)
    os.environ["HAPTICS_PARENT"] = str(parent)
    process.die_with_parent()
    found: dict[int, Any] = {}
    with contextlib.suppress(Exception):  # the parent does the item again, and raises its error
        _do(function, items, waiting, found)
    with contextlib.suppress(Exception):  # what cannot be sent, the parent does itself
        sender.send(found)
