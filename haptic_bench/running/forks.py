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
import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from functools import update_wrapper
from typing import Any, Generic, TypeVar, cast

from haptic_ros.middleware import process
from haptic_sim.forks import ENDED, MOST, Numbers, Work, begun

Item = TypeVar("Item")
Result = TypeVar("Result")

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
    with begun(_work(function, items), len(items), others) as (numbers, receivers):
        _do_first()
        found = {number: function(items[number]) for number in numbers}
        for receiver in receivers:
            found |= _received(receiver)
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
        self._receiver: Any = None
        self._begun: tuple[Any, ...] = ()

    @contextlib.contextmanager
    def begun(self, *arguments: Any) -> Iterator[None]:
        """Let a fork compute the result for some arguments, where there is a core for it; at the end it is ended."""
        if self._receiver is not None or _cores() < 2:
            yield
            return
        with begun(_work(lambda given: self.function(*given), [arguments]), 1, 1) as (_, (receiver,)):
            self._receiver, self._begun = receiver, arguments
            try:
                yield
            finally:
                self._receiver, self._begun = None, ()

    def __call__(self, *arguments: Any) -> Result:
        """The result: the fork's where it was begun for these very arguments, and asked for the first time."""
        if self._receiver is not None and _are_same(arguments, self._begun):
            self._begun = ()
            for result in _received(self._receiver).values():
                return cast(Result, result)
        return self.function(*arguments)


def _are_same(some: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))


def _cores() -> int:
    """Number of processes to use: one in a process of multiprocessing, such as a fork, and beside other threads."""
    if multiprocessing.parent_process() is not None or not _is_single_threaded():
        return 1
    return len(os.sched_getaffinity(0))


def _is_single_threaded() -> bool:
    """Whether this thread is the only one of the process, those of libraries included."""
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return threading.active_count() == 1


def _work(function: Callable[[Item], object], items: Sequence[Item]) -> Work:
    """Work of a fork: items until one fails; it sends all results at the end, since nothing receives them earlier."""
    parent = os.getpid()

    def work(numbers: Numbers, send: Callable[[Any], None]) -> None:
        os.environ["HAPTICS_PARENT"] = str(parent)
        process.die_with_parent()  # items take long, and may start processes
        found = {}
        with contextlib.suppress(Exception):  # the parent does the item again, and raises its error
            for number in numbers:
                found[number] = function(items[number])
        with contextlib.suppress(Exception):  # what cannot be sent, the parent does itself
            send(found)

    return work


def _received(receiver: Any) -> dict[int, Any]:
    """Results of a fork, once it has finished; if it is killed before, they are lost."""
    try:
        found: dict[int, Any] = receiver.recv()
        return found
    except ENDED:
        return {}
