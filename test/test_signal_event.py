"""An event that handlers of signals set: no signal is missed, none stops the program, forks have their own."""

from __future__ import annotations

import os
import select
import threading
from pathlib import Path

import pytest
from conftest import python

from haptic_ros.signal_event import SignalEvent, wait_for_any

# a signal every millisecond or so, at any instant of the waits and of the handler's return
STORM = """
import os, signal, threading, time
from haptic_ros.signal_event import SignalEvent
event, count = SignalEvent(), 0

def note(*_):
    global count
    count += 1
    event.set()

signal.signal(signal.SIGUSR1, note)
main = os.getpid()
if not os.fork():
    for _ in range(3000):
        os.kill(main, signal.SIGUSR1)
        time.sleep(2e-4)
    os._exit(0)
while True:
    event.wait(1e-5)
    event.clear()
    if os.waitpid(-1, os.WNOHANG)[0]:
        break
assert count > 100, count
print("went on")
"""


def test_signals_at_any_instant_of_a_wait_do_not_stop_it(tmp_path: Path) -> None:
    done = python("-c", STORM, cwd=tmp_path)
    assert (done.status, done.out) == (0, "went on\n"), done.err


def test_a_wait_ends_when_another_thread_sets_it() -> None:
    event = SignalEvent()
    assert not event.is_set() and not event.wait(0.01)
    threading.Timer(0.05, event.set).start()
    assert event.wait(60.0) and event.is_set() and event.wait()
    event.clear()
    assert not event.is_set() and not event.wait(0.0)
    event.clear()  # once more changes nothing
    event.set()
    event.set()
    assert event.wait(0.0)


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_event_that_is_set_while_it_is_reset_stays_set(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """By a signal before or after the counter is read: waits returned at once, and said that it was not set."""
    event, read = SignalEvent(), os.eventfd_read
    event.set()

    def read_at_a_signal(file: int) -> int:
        if when == "before":
            event.set()
        value = read(file)
        if when == "after":
            event.set()
        return value

    monkeypatch.setattr(os, "eventfd_read", read_at_a_signal)
    event.clear()
    monkeypatch.undo()
    assert event.is_set() and event.wait(0.0) and select.select([event], [], [], 0.0)[0]
    event.clear()
    assert not event.is_set() and not select.select([event], [], [], 0.0)[0]


def test_several_events_are_waited_for_together() -> None:
    first, second = SignalEvent(), SignalEvent()
    assert not wait_for_any(first, second, timeout=0.01)
    threading.Timer(0.05, second.set).start()
    assert wait_for_any(first, second, timeout=60.0)
    assert second.is_set() and not first.is_set()


def test_a_fork_has_an_event_of_its_own() -> None:
    event = SignalEvent()
    child = os.fork()
    if child == 0:
        event.set()
        os._exit(0 if event.wait(60.0) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not event.is_set() and not event.wait(0.01)


def test_it_leaves_no_descriptor_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    events = [SignalEvent() for _ in range(10)]
    assert len(os.listdir("/proc/self/fd")) == before + len(events)
    del events
    assert len(os.listdir("/proc/self/fd")) == before
