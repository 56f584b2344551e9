"""Work shared out among forks: the same results in the same order, whatever becomes of a fork."""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import FORKS

from haptic_bench.running import forks
from haptic_bench.trials.trial import progress_bar

ITEMS = list(range(40))


@pytest.fixture(autouse=True)
def three_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with three cores, in a process without other threads: that of the tests may have some."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2})
    monkeypatch.setattr(forks, "_is_single_threaded", lambda: threading.current_thread() is threading.main_thread())


def meeting(processes: int) -> Callable[[int], int]:
    """A function of an item that returns the process it was in, when so many processes have begun with one."""
    barrier, met = multiprocessing.get_context("fork").Barrier(processes), set[int]()

    def process_of(item: int) -> int:
        if os.getpid() not in met:
            met.add(os.getpid())
            barrier.wait(60.0)
        return os.getpid()

    return process_of


def test_results_are_in_the_order_of_the_items() -> None:
    assert forks.on_cores(lambda item: item * item, ITEMS) == [item * item for item in ITEMS]
    assert forks.on_cores(str, []) == []


def test_all_cores_work() -> None:
    found = forks.on_cores(meeting(3), ITEMS)
    assert len(set(found)) == 3
    assert os.getpid() in found


def test_an_error_is_raised_here() -> None:
    def fail(item: int) -> int:
        if item == 23:
            raise ArithmeticError(f"item {item}")
        return item

    with pytest.raises(ArithmeticError, match="item 23"):
        forks.on_cores(fail, ITEMS)


def test_what_a_killed_fork_leaves_is_done_here() -> None:
    here = os.getpid()

    def work(item: int) -> int:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return item

    assert forks.on_cores(work, ITEMS) == ITEMS


def test_what_cannot_be_sent_is_done_here() -> None:
    found = forks.on_cores(lambda item: lambda: item, ITEMS)
    assert [one() for one in found] == ITEMS


def test_forks_and_other_threads_do_all_themselves() -> None:
    def inner(item: int) -> set[int]:
        return {os.getpid(), *forks.on_cores(lambda _: os.getpid(), ITEMS)}

    here = os.getpid()
    assert all(len(found) == 1 for found in forks.on_cores(inner, ITEMS) if here not in found)
    alone: list[int] = []
    thread = threading.Thread(target=lambda: alone.extend(forks.on_cores(lambda _: os.getpid(), ITEMS)))
    thread.start()
    thread.join()
    assert set(alone) == {here}


def test_a_daemonic_process_which_may_have_no_forks_does_all_itself() -> None:
    with FORKS.Pool(1) as pool:  # a fork of this process may have a lock of one of its threads, and never end
        assert pool.apply(forks.on_cores, (abs, ITEMS)) == ITEMS


def children() -> set[str]:
    """Processes that this one has started and not waited for; those of other tests are among them."""
    return set(Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split())


def test_no_fork_is_left() -> None:
    before = children()
    forks.on_cores(lambda item: item, ITEMS)
    assert children() <= before


BESIDE = """
import os, threading
from haptic_bench.running import forks
os.sched_getaffinity = lambda process: {0, 1, 2}
assert forks._is_single_threaded()
end = threading.Event()
threading.Thread(target=end.wait).start()
assert set(forks.on_cores(lambda item: os.getpid(), list(range(40)))) == {os.getpid()}
end.set()
"""


def test_a_process_with_other_threads_does_not_fork() -> None:
    done = subprocess.run([sys.executable, "-c", BESIDE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_is_done_meanwhile_is_done_here_and_once() -> None:
    begun, calls = multiprocessing.get_context("fork").Semaphore(0), list[int]()

    def first() -> None:
        assert begun.acquire(timeout=60.0)  # by a fork
        calls.append(os.getpid())
        raise ArithmeticError

    def work(item: int) -> int:
        begun.release()
        return item

    with forks.meanwhile(first):
        for _ in range(2):
            assert forks.on_cores(work, ITEMS) == ITEMS
            assert calls == [os.getpid()]
    with forks.meanwhile(first):
        forks.on_cores(work, ITEMS[:1])  # which is not shared out
    forks.on_cores(work, ITEMS)
    assert calls == [os.getpid()]


def test_what_is_done_meanwhile_inside_does_not_end_what_is_outside() -> None:
    calls: list[str] = []
    with forks.meanwhile(lambda: calls.append("outside")):
        with forks.meanwhile(lambda: calls.append("inside")):
            forks.on_cores(lambda item: item, ITEMS)
        forks.on_cores(lambda item: item, ITEMS)
    assert calls == ["inside", "outside"]


@pytest.fixture
def process_of() -> forks.Ahead[int]:
    """A function of anything that returns the process it was in."""
    return forks.Ahead(lambda *given: os.getpid())


def test_what_was_begun_is_computed_by_a_fork(process_of: forks.Ahead[int]) -> None:
    before, given = children(), object()
    with process_of.begun(given, 1.0):
        assert process_of(object(), 1.0) == os.getpid()  # nobody has begun that
        assert process_of(given) == os.getpid()
        assert process_of(given, 1.0) != os.getpid()
        assert process_of(given, 1.0) == os.getpid()  # has been given away
    assert process_of(given, 1.0) == os.getpid()
    assert children() <= before


def test_what_was_begun_may_be_asked_for_where_work_is_shared_out(process_of: forks.Ahead[int]) -> None:
    given = object()
    with process_of.begun(given):
        first, *others = forks.on_cores(lambda item: process_of(*item), [(given,), (1,), (2,)])
    assert first not in others


def test_what_nobody_asks_for_is_ended() -> None:
    before, asleep = children(), forks.Ahead(lambda: signal.pause())
    with asleep.begun():
        assert not children() <= before
    assert children() <= before


def test_what_a_fork_that_began_fails_to_do_is_done_here() -> None:
    here = os.getpid()

    @forks.Ahead
    def work(fault: str) -> int:
        """Fails in a fork."""
        if os.getpid() != here and fault == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if os.getpid() != here or fault == "error":
            raise ArithmeticError(fault)
        return os.getpid()

    assert work.__doc__ == "Fails in a fork."
    for fault in ("killed", "raised"):
        with work.begun(fault):
            assert work(fault) == here
    with work.begun("error"), pytest.raises(ArithmeticError, match="error"):
        work("error")


def test_nothing_is_begun_without_a_core_for_it(process_of: forks.Ahead[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})
    before = children()
    with process_of.begun(1):
        assert children() <= before
        assert process_of(1) == os.getpid()


def test_a_progress_bar_leaves_the_process_to_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    before = threading.active_count()
    with progress_bar(10, "title", quiet=False) as show:
        assert show is not None
        show(10)
        assert threading.active_count() == before
    assert "10" in terminal.getvalue()
