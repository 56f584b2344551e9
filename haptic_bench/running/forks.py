"""Work shared out among the cores, by forks of this process: they have all that it has imported, built and compiled.

    samples = forks.on_cores(run_unrecorded, variants)

is `[run_unrecorded(one) for one in variants]`, with the same results, on all cores of this process.

    reference = forks.Ahead(reference)
    with reference.begun(trial):
        ...
        samples = reference(trial)

is `samples = reference(trial)`, which a fork computes meanwhile.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from functools import update_wrapper
from typing import Any, Generic, TypeVar, cast

from haptic_bench.set_up import failures
from haptic_ros.middleware import process

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST = 10_000  # numbers of items that the pipe of those that wait takes at once
_NUMBER = struct.Struct("=H")

_is_fork = False
_first: ContextVar[Callable[[], object] | None] = ContextVar("first", default=None)  # see `meanwhile`


def on_cores(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The results of a function of each item, which must not depend on each other, in their order.

    A fork that is killed, or whose result cannot be sent, does no harm: what it leaves is done by this process, and so
    is what has failed, so that its error is raised here. In a fork, and in a process with other threads, whose locks a
    fork would never see released, all is done one after the other.
    """
    others = min(_cores(), len(items)) - 1
    if others < 1 or len(items) > MOST:
        return [function(item) for item in items]
    waiting = _numbers(len(items))
    found: dict[int, Result] = {}
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, waiting)
        forks = [_Fork(function, items, waiting) for _ in range(others)]
        for fork in forks:
            stack.callback(fork.end)
        _do_first()
        _do(function, items, waiting, found)
        for fork in forks:
            found |= fork.results()
    return [found[number] if number in found else function(item) for number, item in enumerate(items)]


@contextlib.contextmanager
def meanwhile(function: Callable[[], object]) -> Iterator[None]:
    """Let this process call a function before its own share of what is shared out inside, whose forks have begun.

    It is for what only this process must do, and may do later: where nothing is shared out it is not called.
    """
    before = _first.set(function)
    try:
        yield
    finally:
        _first.reset(before)


def _do_first() -> None:
    """Call what is to be called meanwhile, once; what fails here fails again where it is needed."""
    if (function := _first.get()) is not None:
        _first.set(None)
        with contextlib.suppress(Exception):
            function()


class Ahead(Generic[Result]):
    """A function whose result may be begun before it is asked for.

    Attributes:
        function: the same, without that.
    """

    def __init__(self, function: Callable[..., Result]):
        self.function = function
        update_wrapper(self, function)
        self._fork: _Fork | None = None
        self._begun: tuple[Any, ...] = ()

    @contextlib.contextmanager
    def begun(self, *arguments: Any) -> Iterator[None]:
        """Let a fork compute the result for some arguments, where there is a core for it; at the end it is ended."""
        if self._fork is not None or _cores() < 2:
            yield
            return
        waiting = _numbers(1)
        self._fork, self._begun = _Fork(lambda given: self.function(*given), [arguments], waiting), arguments
        os.close(waiting)
        try:
            yield
        finally:
            self._fork.end()
            self._fork, self._begun = None, ()

    def __call__(self, *arguments: Any) -> Result:
        """The result: the fork's where it was begun for these very arguments, and asked for the first time."""
        if self._fork is not None and _are_same(arguments, self._begun):
            self._begun = ()
            for result in self._fork.results().values():
                return cast(Result, result)
        return self.function(*arguments)


def _are_same(some: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))


def _cores() -> int:
    """How many processes shall work: in a fork, and beside other threads, one."""
    return 1 if _is_fork or not _is_single_threaded() else len(os.sched_getaffinity(0))


def _numbers(count: int) -> int:
    """A pipe of the numbers of items, from which each process takes one after the other."""
    waiting, filled = os.pipe()
    os.write(filled, b"".join(_NUMBER.pack(number) for number in range(count)))
    os.close(filled)
    return waiting


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
