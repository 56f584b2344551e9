"""Timing in realtime: absolute deadlines, thread priorities, and measurements of both."""

from __future__ import annotations

import contextlib
import gc
import json
import math
import os
import threading
import time
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from haptic_ros.middleware import fast_dds
from haptic_ros.middleware.process import sharpen_timers

PRIORITY = 50  # of SCHED_FIFO, in the middle: above ordinary threads, below the kernel's
"""Priority of the servo thread farthest from the device; each rank nearer to it is two above, delivery one above."""
LOOK_EVERY = 8  # ticks
LEAVES, RETURNS = 0.4, 0.3  # of a core: driver, controller and recorder take half of theirs at 1 kHz


def prioritise(rank: int = 0, loop: int = 0) -> tuple[str, str]:
    """Give the calling thread real-time priority, or else precise timers; returns what it got and, if less, why.

    The second text is empty when the thread has real-time priority; else it says the reason and the remedy.

    With priority, all servo threads and deliveries of a servo loop share a core: they work one after the other, and
    waking a thread on another core costs more than what runs there (measured at 1 kHz: a fifth to a quarter of each
    node's CPU time, a tenth of the round trip). `loop` 0 has the last core that the trial's processes may use, 1 (that
    of the world behind a relay) the one before: they do not wait for each other. As the thread with the higher
    `rank` interrupts the others, a slow world does not delay the device. This process's other threads get a priority
    below, on any core: who waits for the interpreter's lock must not wait for what keeps its holder from running.
    """
    reason = "this system has no SCHED_FIFO"
    if hasattr(os, "sched_setscheduler"):
        try:
            priority = PRIORITY + 2 * rank
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
            core = servo_core(loop)
            cores = set() if core is None else {core}
            _move(0, cores)
            _prioritise_rest(PRIORITY - 2)
            prioritise_delivery(priority + 1, cores)
            return on_core(f"SCHED_FIFO {priority}", core), ""
        except PermissionError:
            reason = (
                "no permission for real-time priority; allow it with 'rtprio 99' for your user in "
                "/etc/security/limits.conf (or run with CAP_SYS_NICE)"
            )
    if sharpen_timers():
        return "SCHED_OTHER, timer slack 1 ns", reason
    return "SCHED_OTHER", reason


def on_core(scheduler: str, core: int | None) -> str:
    """Description of a thread's scheduling with its core, if any, in place of a core that it names already."""
    return scheduler if core is None else f"{scheduler.partition(' on core ')[0]} on core {core}"


class CoreShare:
    """Gives a servo thread a core of its own while it takes much of one, and else the core that its loop shares.

    A world with many contacts and the other nodes of its loop can take more than a core together; then each tick would
    be later than the one before. What a world takes shows only while it runs, so it begins with a core of its own.
    To be made by the thread before `prioritise`, which leaves it no choice of cores.

    Args:
        loop: the servo loop of the thread.
        loops: how many there are, each of which has a core.
    """

    def __init__(self, loop: int, loops: int):
        self._shared, self._own = servo_core(loop), servo_core(loops)
        self._threads: list[int] = []

    def begin(self) -> None:
        """Move to the own core, where there is one; called after `prioritise`."""
        self._threads = [0, *_delivery_threads()]
        self._taken = self._time = -1  # it has waited until its first tick
        self._heavy = self._own is not None
        _move_all(self._threads, self._own)

    @property
    def core(self) -> int | None:
        """Core of the thread now; None: there is no choice of cores."""
        return self._own if self._heavy else self._shared

    def look(self, tick: int) -> None:
        """Choose the core; called after each tick."""
        if self._own is None or tick % LOOK_EVERY:
            return
        before, since = self._taken, self._time
        self._taken, self._time = taken, now = time.thread_time_ns(), time.monotonic_ns()
        heavy = since < 0 or taken - before > (RETURNS if self._heavy else LEAVES) * (now - since)
        if heavy != self._heavy:
            self._heavy = heavy
            _move_all(self._threads, self._own if heavy else self._shared)


def _prioritise_rest(priority: int) -> None:
    """Give this process's threads of ordinary priority real-time priority."""
    for thread in threading.enumerate():
        with contextlib.suppress(ProcessLookupError):  # it has ended
            if thread.native_id is not None and os.sched_getscheduler(thread.native_id) == os.SCHED_OTHER:
                os.sched_setscheduler(thread.native_id, os.SCHED_FIFO, os.sched_param(priority))


def prioritise_delivery(priority: int, cores: Collection[int] = ()) -> None:
    """Give the middleware's delivery threads of this process real-time priority, and cores if any, where permitted.

    A message waits for them before any node sees it: with ordinary priority, up to a fifth of the ticks at 1 kHz had
    no answer in time on a busy machine, with it about one in a hundred.
    """
    for thread in _delivery_threads():
        with contextlib.suppress(OSError):  # not permitted, or the thread has ended
            os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(priority))
            _move(thread, cores)


def share_core(trial: str) -> int | None:
    """Put the calling thread and the middleware's delivery threads of this process on the core of a lockstep trial.

    All of a trial's nodes find the same core by its name and the domain of ROS, and trials that differ in these are
    spread over the cores. They keep their ordinary priority. A tick is a chain of wakes, each of which else moves the
    work to another core, which sleeps and whose caches have none of it: 493 us a tick of corner_peg instead of 298
    (docs/performance.md). Returns the core; None where there is no choice.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) < 2:
        return None
    name = f"{os.environ.get('ROS_DOMAIN_ID', '')} {trial}"
    core = cores[zlib.crc32(name.encode()) % len(cores)]
    _move_all((0, *_delivery_threads()), core)
    return core


def _delivery_threads() -> list[int]:
    """Threads of this process in which the middleware delivers messages."""
    found = []
    for task in Path("/proc/self/task").glob("*"):
        with contextlib.suppress(OSError):  # it has ended
            if fast_dds.DELIVERS.match((task / "comm").read_text()):
                found.append(int(task.name))
    return found


def servo_core(loop: int) -> int | None:
    """The core that the servo threads of a loop share; None where there is no choice."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return cores[-1 - loop] if len(cores) > max(loop, 1) else None


def _move(thread: int, cores: Collection[int]) -> None:
    if cores:
        os.sched_setaffinity(thread, cores)


def _move_all(threads: Iterable[int], core: int | None) -> None:
    """Move threads to a core; None: they stay."""
    for thread in threads:
        with contextlib.suppress(OSError):  # it has ended, or the core was taken from this process
            _move(thread, () if core is None else {core})


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Keep Python's garbage collector out of a loop: with a large heap it stops everything for tens of ms."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


class Deadlines:
    """Absolute deadlines t_0 + k T on the monotonic clock; `first` is the tick that begins now.

    A loop that is a whole period late or more is not asked to catch up: the deadlines move on by whole periods, which
    are counted. So ticks are late together rather than rushed.
    """

    def __init__(self, rate: float, first: int = 0):
        self._period = 1e9 / rate  # [ns]
        self._start = time.monotonic_ns() - round(first * self._period)
        self.skipped = 0

    def until(self, tick: int) -> int:
        """Remaining time until a tick begins [ns]; negative when it is late."""
        return self.at(tick) - time.monotonic_ns()

    def at(self, tick: int) -> int:
        """Time at which a tick begins [ns, monotonic]; valid until `settle` moves it."""
        return self._start + round((tick + self.skipped) * self._period)

    def settle(self, tick: int) -> int:
        """Move the deadlines on if `tick` begins a period late or more; how many periods were skipped."""
        late = time.monotonic_ns() - self.at(tick)
        if late < self._period:
            return 0
        periods = math.floor(late / self._period)
        self.skipped += periods
        return periods


class Stopwatch:
    """Times of each tick measured by the driver, in memory allocated before the loop starts.

    Attributes (n ticks; -1 where there is no value):
        begun: time at which the tick began, since the start of the trial [ns], (n,).
        round_trip: time from the state's publication to its command [ns], (n,).
        command_age: age of the command that was rendered, in ticks, (n,).
    """

    def __init__(self, ticks: int, rate: float):
        self._period = 1.0 / rate
        self.begun = np.full(ticks, -1, np.int64)
        self.round_trip = np.full(ticks, -1, np.int64)
        self.command_age = np.full(ticks, -1, np.int32)
        self.skipped = 0

    def summary(self, done: int) -> dict[str, float | int | None]:
        """Percentiles [s] and counts over the ticks done, as in summary.json."""
        periods = self.periods(0, done)
        round_trips = _percentiles(self.round_trip[:done][self.round_trip[:done] >= 0] * 1e-9)
        return {
            "period_p50": periods[0],
            "period_p99": periods[1],
            "round_trip_p50": round_trips[0],
            "round_trip_p99": round_trips[1],
            "missed": self.missed(0, done),
            "skipped_periods": self.skipped,
        }

    def save(self, folder: Path, done: int, more: Mapping[str, Any]) -> None:
        """Write what was measured of the ticks done as `timing.npz`, and its summary with `more` as `timing.json`.

        Raises:
            OSError: the disk is full, say.
        """
        ticks = {name: getattr(self, name)[:done] for name in ("begun", "round_trip", "command_age")}
        np.savez(folder / "timing.npz", **ticks)  # compressed, an hour's would take longer than an interruption may
        figures = self.summary(done) | {"executed": done, **more}
        (folder / "timing.json").write_text(json.dumps(figures, allow_nan=False), encoding="utf-8")

    def periods(self, first: int, end: int) -> tuple[float | None, float | None]:
        """50th and 99th percentile of the periods of ticks from `first` to before `end` [s]; None if there are none."""
        return _percentiles(np.diff(self.begun[first:end]) * 1e-9)

    def missed(self, first: int, end: int) -> int:
        """Number of ticks from `first` to before `end` that had no answer within their period."""
        round_trip = self.round_trip[first:end]
        return int(np.count_nonzero((round_trip < 0) | (round_trip * 1e-9 > self._period)))


def _percentiles(values: np.ndarray) -> tuple[float | None, float | None]:
    """50th and 99th percentile of values; None if there are none."""
    if not values.size:
        return None, None
    p50, p99 = np.percentile(values, (50, 99)).tolist()
    return p50, p99
