"""A trial on the clock in this process: the cores of an offline run, each tick at its time.

No process starts and no message crosses the middleware, so that a program which presents many trials one after the
other keeps its kernels and its device, and begins the next within a fraction of a second. What a tick of the trial
gets is of the same tick, as offline. The messages are kept in memory, and written when the trial has ended: no tick
waits for a disk.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from haptic_bench.analysis.base import analysis_of
from haptic_bench.experiment import Trial, write_resolved
from haptic_bench.recording.samples import MessageStore, Samples
from haptic_bench.running.offline import HandLoop, build_loop
from haptic_bench.running.runner import Outcome
from haptic_bench.trials.trial import close, open_bag
from haptic_drivers.devices.interface import DeviceError
from haptic_drivers.devices.link import Source
from haptic_ros.realtime import Deadlines, Stopwatch, prioritise, without_collector
from haptic_sim.dynamics.energy import UnstableError
from haptic_sim.messages import DeviceReading, OperatorEvent
from haptic_sim.parameters import ParameterError
from haptic_sim.tool.omissions import write_omissions

WARM = 3  # ticks in which every kernel of a tick is called


class PacedTrial:
    """A trial that is run on the clock.

    Args:
        trial: what to run.
        source: of the readings of hardware, which is open; None: the device is simulated.

    Attributes:
        trial: in the mode realtime.
        latest: the last message of each topic, serialised.
        begun, ended: when the first tick began and the last one ended, of the monotonic clock [ns]; 0: not yet.
        problem: why it could not go on; empty: it could.

    Raises:
        ParameterError: it has more than one hand with hardware, or parts that are nodes of the user's own.
    """

    def __init__(self, trial: Trial, source: Source | None = None):
        self.trial = trial.in_mode("realtime")
        experiment = self.trial.experiment
        if analysis_of(experiment).OFFLINE_ONLY or experiment.external or experiment.bridged:
            raise ParameterError([f"{experiment.name}: has parts that do not run in this process"])
        if len(experiment.hardware_hands) > (source is not None):
            raise ParameterError([f"{experiment.name}: has hardware that is not open, or at more than one hand"])
        self._messages: list[tuple[int, Mapping[str, bytes]]] = []
        self.latest: dict[str, bytes] = {}
        self._loop = build_loop(self.trial, self._keep, source)
        self._watch = Stopwatch(experiment.last_tick + 1, experiment.rate)
        self._scheduler, self._refused, self._event = "", 0, OperatorEvent()
        self.begun = self.ended = 0
        self.problem = ""

    def _keep(self, tick: int, messages: Mapping[str, bytes]) -> None:
        self._messages.append((tick, messages))
        self.latest.update(messages)

    @property
    def ticks(self) -> int:
        """Number of ticks done."""
        return self._loop.ticks

    @property
    def missed(self) -> int:
        """Ticks that were not over within their period, and periods without a tick."""
        return self._watch.missed(0, self.ticks) + self._watch.skipped

    @property
    def reading(self) -> DeviceReading:
        """Reading of the hardware of the first hand in this tick."""
        return self._loop.hands[0].driver.reading

    def offer(self, data: bytes) -> None:
        """Take a serialised event of a pointer, which acts in one of the next ticks; one that is none lets go."""
        if self._loop.events is not None:
            try:
                self._event.load(data)
                self._loop.events.offer(self._event)
            except ValueError:  # it has let go
                self._refused += 1

    def run(self, attend: Callable[[int], bool] = lambda tick: False) -> None:
        """Execute the ticks at their times; whatever ends them, the device is left without force.

        Args:
            attend: called after each tick with its number, in what is left of its period; True ends the trial.
        """
        rate, last, watch = self.trial.experiment.rate, self.trial.experiment.last_tick, self._watch
        drivers = [hand.driver for hand in self._loop.hands]
        self._scheduler, _ = prioritise()
        try:
            for driver in drivers:
                driver.enable()
            with without_collector():
                # Kernels are bound to their arrays in the first tick, which takes several periods, and the system may
                # let a thread whose priority has just changed sleep for 20 ms: the clock starts after both, at one
                # period from the beginning of the trial.
                self._loop.step()
                time.sleep(1.0 / rate)
                watch.begun[0] = watch.round_trip[0] = watch.command_age[0] = 0
                deadlines, period = Deadlines(rate, 1), round(1e9 / rate)
                self.begun = time.monotonic_ns() - period
                for tick in range(1, last + 1):
                    if (left := deadlines.until(tick)) > 0:
                        time.sleep(left * 1e-9)
                    watch.skipped += deadlines.settle(tick)
                    began = time.monotonic_ns()
                    self._loop.step()
                    self.ended = time.monotonic_ns()
                    watch.begun[tick] = began - self.begun
                    watch.round_trip[tick], watch.command_age[tick] = self.ended - began, 0
                    if attend(tick):
                        break
            self._loop.conclude()
        except (UnstableError, DeviceError) as error:
            self.problem = str(error)
        finally:
            for driver in drivers:
                driver.release()
            _end_priority()

    def write(self, directory: Path) -> None:
        """Write the trial into an empty directory: experiment, bag, timing, and the summary without samples and page.

        `haptics report DIRECTORY` makes these. A trial that was ended early is one of as many ticks.

        Raises:
            OSError: the disk is full, say.
        """
        trial, done, status = self.trial, self.ticks, "failed" if self.problem else "done"
        if not self.problem and done <= trial.experiment.last_tick:
            trial = trial.with_ticks(done)
        trial = write_resolved(trial, directory)
        namespace = trial.experiment.namespace
        book = open_bag(trial.experiment, directory, namespace)
        try:
            for tick, made in self._messages:
                book.add_tick(tick, made)
        finally:
            book.close("interrupted" if self.problem else "finished", book.complete)
        lost = {"lost_messages": 0, "unsent_messages": 0, "foreign_messages": 0}
        counts = {"scheduler": self._scheduler, "refused": self._refused}
        for hand in self._loop.hands[:1]:
            counts |= _counts(hand)
        self._watch.save(directory, done, lost | counts)
        write_omissions(directory, self._loop.omissions, self._loop.invalid_steps)
        wall_time = 1e-9 * (self.ended - self.begun)
        close(trial, "realtime", directory, Outcome(status, self.problem, 0.0, wall_time, f"/{namespace}"))

    def samples(self) -> Samples:
        """Samples of the trial, with the columns of its analysis."""
        store = MessageStore()
        for tick, made in self._messages:
            store(tick, made)
        return analysis_of(self.trial.experiment).samples(self.trial, store.messages)


def warm_up(trial: Trial) -> None:
    """Load all kernels that a trial needs, in this process; hardware stands still meanwhile."""
    loop = build_loop(trial.in_mode("realtime"), lambda tick, messages: None)
    for _ in range(WARM):
        loop.step()


def _counts(hand: HandLoop) -> dict[str, int]:
    """Counts of the driver of a hand."""
    driver = hand.driver
    names = ("saturations", "bounded", "expired", "refused")
    return {name: getattr(driver, name) for name in names} | {"rejected_readings": driver.rejected}


def _end_priority() -> None:
    """End the real-time priority of this thread: what follows has time."""
    if hasattr(os, "sched_setscheduler") and os.sched_getscheduler(0) != os.SCHED_OTHER:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
