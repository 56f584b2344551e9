"""Requests to a device from several threads, one of which is stopped at the worst instant: none is lost, none early."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from fake_hardware import TICK, Bench

from haptic_drivers.devices.life import Request
from haptic_sim.messages import DISABLED, ENABLED, FAULT, DeviceReading, Reason

PUSH = (1.0, -2.0, 3.0, 0.0, 0.0, 0.0)
PATIENCE = 60.0  # [s] for what comes at once unless it hangs


class Stopped:
    """A thread that does something and is stopped at the first call of a method of an object, until `go_on`.

    Args:
        work: what it does.
        owner, name: the method.

    Attributes:
        thread: the thread; may: what is set to let it go on.
    """

    def __init__(self, work: Callable[[], object], owner: Any, name: str):
        self.may, there, real = threading.Event(), threading.Event(), getattr(owner, name)

        def method(*arguments: Any, **keys: Any) -> Any:
            setattr(owner, name, real)
            there.set()
            assert self.may.wait(PATIENCE)
            return real(*arguments, **keys)

        setattr(owner, name, method)
        self.thread = threading.Thread(target=work, daemon=True)
        self.thread.start()
        assert there.wait(PATIENCE)

    def go_on(self) -> None:
        """Let the thread go on, and wait for its end."""
        self.may.set()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


def in_a_tick(bench: Bench) -> Stopped:
    """A servo thread that is stopped in `take`, with the lock, where it calls nothing of the device any more."""
    return Stopped(lambda: bench.link.take(9, DeviceReading()), bench.link.life, "step")


def test_a_stop_is_obeyed_by_a_thread_that_was_stopped_with_the_lock_whatever_it_does_next() -> None:
    """It had nothing to call any more, and its tick was the last: the motors stayed on."""
    bench = Bench()
    bench.step(PUSH, 2)
    servo = in_a_tick(bench)
    assert bench.link.ask(Request.STOP) == ""
    assert bench.fake.on
    servo.go_on()
    assert not bench.fake.on and not bench.fake.force.any()
    assert bench.link.life.stopped and bench.link.life.state == DISABLED


def test_a_stop_is_obeyed_by_a_thread_whose_own_request_is_refused() -> None:
    bench = Bench()
    bench.driver.release()
    enables = Stopped(lambda: bench.link.ask(Request.ENABLE), bench.link, "_ask")
    assert bench.link.ask(Request.STOP) == "" and not bench.link.life.stopped
    enables.go_on()
    assert bench.link.life.stopped


def test_an_activation_is_not_ended_by_the_end_of_the_one_before() -> None:
    """What was asked first is done first."""
    bench = Bench()
    bench.step(PUSH, 2)
    servo = in_a_tick(bench)
    bench.driver.release()
    enables = threading.Thread(target=bench.driver.enable, daemon=True)
    enables.start()
    servo.go_on()
    enables.join(PATIENCE)
    assert bench.fake.calls == ["open", "enable", "disable", "enable"]
    bench.step(PUSH)
    assert bench.link.life.state == ENABLED
    np.testing.assert_array_equal(bench.fake.force, PUSH)


def test_a_reset_that_comes_after_a_stop_is_done_after_it() -> None:
    """The stop waited for the lock; the reset was granted, and then the stop was latched."""
    bench = Bench()
    bench.link.ask(Request.DISABLE)
    servo = in_a_tick(bench)
    assert bench.link.ask(Request.STOP) == ""
    said: list[str] = []
    resets = threading.Thread(target=lambda: said.append(bench.link.ask(Request.RESET)), daemon=True)
    resets.start()
    servo.go_on()
    resets.join(PATIENCE)
    assert said == [""]
    bench.step()
    assert not bench.link.life.stopped and bench.link.ask(Request.ENABLE) == ""


def test_a_device_is_closed_by_the_thread_that_was_stopped_with_the_lock() -> None:
    """It was left open with its motors on, and could not be opened by the next configuration."""
    bench = Bench()
    bench.step(PUSH, 2)
    servo = in_a_tick(bench)
    bench.link.close()
    assert bench.fake.is_open
    servo.go_on()
    assert bench.fake.calls[-2:] == ["disable", "close"] and not bench.fake.is_open and not bench.fake.force.any()
    bench.link.open()
    assert bench.fake.is_open


def test_a_device_that_is_being_closed_is_not_opened_again() -> None:
    """Two threads would open and close it at once."""
    bench = Bench()
    bench.step(PUSH, 2)
    bench.fake.fault = "too hot"
    bench.step(PUSH)
    assert bench.link.life.state == FAULT
    disables = Stopped(lambda: bench.link.ask(Request.DISABLE), bench.link.life, "ask")
    bench.link.close()
    disables.go_on()
    assert bench.link._opening is None
    assert bench.fake.calls[-1] == "close" and not bench.fake.is_open


def test_a_fault_of_what_was_read_before_does_not_end_the_opening_of_the_device() -> None:
    """The servo thread was stopped between a reading and its judgement; the request to enable was lost."""
    bench = Bench()
    bench.step(PUSH, 2)
    bench.fake.pose[1] = np.nan
    servo = Stopped(lambda: bench.step(PUSH, 10), bench.link, "fail")
    opens, may = bench.fake.open, threading.Event()
    bench.fake.open = lambda: (may.wait(PATIENCE), opens())  # type: ignore[method-assign, assignment]
    bench.fake.broken = True
    assert bench.link.ask(Request.ENABLE) == ""  # it finds the device broken, and opens it again
    bench.fake.broken, bench.fake.pose[1] = False, 0.0
    assert bench.link.life.reopening
    servo.go_on()
    may.set()
    bench.settle()
    fault = "the device has a fault, its force is zero: USB: no such device; enable it again when that is gone"
    assert bench.said == [fault, "the device is open again"]
    bench.step(PUSH, 2)
    assert bench.link.life.state == ENABLED and bench.fake.force.any()


def test_a_wrench_that_comes_after_the_watchdog_has_acted_is_not_rendered() -> None:
    """The servo thread was stopped between its computation and its rendering, while the hand moved on."""
    bench = Bench()
    bench.step(PUSH, 3)
    servo = Stopped(lambda: bench.step(PUSH), bench.link, "write")
    bench.fake.now += 25 * TICK
    bench.link.check()
    assert not bench.fake.force.any()
    servo.go_on()
    assert not bench.fake.force.any()
    assert bench.step(PUSH).reason == Reason.NONE and not bench.fake.force.any()
    bench.step(PUSH)
    assert bench.state.reason == Reason.WATCHDOG and bench.fake.force.any()


def test_a_wrench_that_comes_long_after_its_reading_is_not_rendered_at_all() -> None:
    """Also where no force was rendered before, which the watchdog could have ended."""
    bench = Bench()
    bench.step((0.0,) * 6, 3)
    servo = Stopped(lambda: bench.step(PUSH), bench.link, "write")
    bench.fake.now += 25 * TICK
    servo.go_on()
    assert not any(one.any() for one in bench.fake.written)
    bench.step(PUSH, 2)
    assert bench.state.reason == Reason.WATCHDOG and bench.fake.force.any()
