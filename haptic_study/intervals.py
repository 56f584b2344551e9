"""The process that presents intervals to a person: it stays from trial to trial, with its kernels and its device.

    with Intervals(study, receive=queue.put) as intervals:        # before any thread is started: it is a fork
        number = intervals.prepare(settings, directories)
        ...                                                      # a `Ready` is received
        intervals.start()                                        # then `Begun`, `Frame`, `Ended` of each interval
        ...                                                      # and `Stored`, when the directories are on the disk

It has the servo loop, and nothing else: pages and journal are of the process that started it, so that no page holds
the interpreter's lock while a tick is due. If that process ends, however it does, the device is left without force.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import multiprocessing
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from haptic_bench.analysis.base import analyse
from haptic_bench.experiment import Trial
from haptic_bench.trials.paced import PacedTrial, warm_up
from haptic_drivers.devices.link import Link
from haptic_sim.errors import HapticsError
from haptic_sim.messages import DeviceReading
from haptic_study.file import Study
from haptic_study.journal import sync_folder

FRAMES = 30.0  # [Hz] of what a view is shown
IDLE = 0.005  # [s] between two looks at the buttons of a device while no interval is presented
LARGEST = 1 << 20  # bytes of a message
CLOSING = 2.0  # [s] for the process to end
KEPT = 32  # trials that were built, of settings that may come again


@dataclass(frozen=True)
class Ready:
    """The intervals of a trial are prepared: the first begins when it is told to."""

    number: int
    took: float  # [s]


@dataclass(frozen=True)
class Begun:
    """An interval begins, of number `interval` from 0 on; `time` of the monotonic clock [ns]."""

    number: int
    interval: int
    time: int


@dataclass(frozen=True)
class Frame:
    """The last messages of an interval by their topics, serialised."""

    number: int
    interval: int
    messages: Mapping[str, bytes]


@dataclass(frozen=True)
class Ended:
    """An interval has ended; `time` of the end of its last tick on the monotonic clock [ns]."""

    number: int
    interval: int
    time: int
    ticks: int
    missed: int


@dataclass(frozen=True)
class Stored:
    """All intervals of a trial are on the disk; `metrics` of the last one, where they were asked for."""

    number: int
    metrics: Mapping[str, Any]


@dataclass(frozen=True)
class Failed:
    """A trial cannot be presented, or went wrong; the device is without force."""

    number: int
    problem: str


@dataclass(frozen=True)
class Pressed:
    """A button of the device, of number `button` from 0 on, was pressed at a time of the monotonic clock [ns]."""

    button: int
    time: int


@dataclass(frozen=True)
class Noted:
    """Notes for people about the device."""

    text: str


@dataclass(frozen=True)
class Gone:
    """The process has ended."""


Report = Ready | Begun | Frame | Ended | Stored | Failed | Pressed | Noted | Gone


@dataclass(frozen=True)
class _Prepare:
    number: int
    settings: Sequence[Mapping[str, Any]]
    directories: Sequence[Path]
    between: float  # [s] between two intervals
    metrics: bool  # whether those of the analysis are needed
    shown: bool  # whether a view needs frames


class Intervals:
    """Presents intervals in a process of its own.

    Args:
        study: whose experiment is run.
        first: settings of an interval like those to come, by which kernels are loaded, and hardware is opened.
        receive: called with each report, by another thread.

    Raises:
        ParameterError: the settings are refused, or hardware cannot be opened.
    """

    def __init__(self, study: Study, first: Mapping[str, Any], receive: Callable[[Report], object]):
        trial = study.trial(first)
        warm_up(trial)
        self._receive, self._number = receive, 0
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._socket, other):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LARGEST)
        self._process = multiprocessing.get_context("fork").Process(
            target=_present_intervals, args=(study, trial, other, self._socket), name="intervals", daemon=True
        )
        gc.freeze()  # what the child inherits is nothing that its collector need look at
        try:
            self._process.start()
        finally:
            gc.unfreeze()
        other.close()
        self._reader = threading.Thread(target=self._read, name="intervals", daemon=True)

    def __enter__(self) -> Intervals:
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # it ends what it presents, and itself
        self._process.join(CLOSING)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._reader.join(CLOSING)
        self._socket.close()

    def _read(self) -> None:
        while data := _received(self._socket):
            self._receive(pickle.loads(data))
        self._receive(Gone())

    def _send(self, message: Any) -> None:
        with contextlib.suppress(OSError):  # it has ended, which `Gone` says
            self._socket.send(pickle.dumps(message))

    def prepare(
        self,
        settings: Sequence[Mapping[str, Any]],
        directories: Sequence[Path],
        *,
        between: float = 1.0,
        metrics: bool = False,
        shown: bool = True,
    ) -> int:
        """Prepare the intervals of a trial; returns its number, which the reports about it have.

        Args:
            settings: of the experiment in each interval.
            directories: of the intervals, empty ones.
            between: time between two intervals [s].
            metrics: whether those of the last interval's analysis are needed.
            shown: whether frames are reported.
        """
        self._number += 1
        self._send(_Prepare(self._number, list(settings), list(directories), between, metrics, shown))
        return self._number

    def start(self) -> None:
        """Begin the first interval of the trial that is prepared."""
        self._send("start")

    def enough(self) -> None:
        """End the interval that is presented; it counts."""
        self._send("enough")

    def abort(self) -> None:
        """End the trial with zero force; nothing more is reported of it."""
        self._number += 1
        self._send("abort")

    def offer(self, event: bytes) -> None:
        """An event of the pointer, serialised."""
        self._send(event)

    @property
    def number(self) -> int:
        """Number of the trial whose reports count; others are of one that was aborted."""
        return self._number


def _received(end: socket.socket) -> bytes:
    """The next message; empty when there are no more."""
    try:
        return end.recv(LARGEST)
    except OSError:
        return b""


def _present_intervals(study: Study, first: Trial, end: socket.socket, others: socket.socket) -> None:
    """Present intervals in the fork, until the other end is closed."""
    others.close()
    os.environ["HAPTICS_PARENT"] = str(multiprocessing.process.parent_process().pid)  # type: ignore[union-attr]
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # it ends with the process that started it
    _Presenter(study, end).serve(first)


class _Aborted(Exception):
    """The trial is to end."""


class _Presenter:
    """The work of the process."""

    def __init__(self, study: Study, end: socket.socket):
        self._study, self._socket = study, end
        self._link: Link | None = None
        self._reading, self._pressed = DeviceReading(), 0
        self._trials: dict[str, Trial] = {}
        self._next: _Prepare | None = None
        self._closed = False

    def serve(self, first: Trial) -> None:
        """Present what is asked for."""
        device = first.experiment.device
        try:
            if first.experiment.hardware_hands:
                self._link = device.connect(first.experiment.rate, lambda text: self._report(Noted(text)))
            self._serve()
        except HapticsError as error:
            self._report(Failed(0, str(error)))
        finally:
            if self._link is not None:
                self._link.close()

    def _serve(self) -> None:
        while not self._closed:
            if (order := self._next) is None:
                self._idle(IDLE if self._link is not None else 1.0)
                continue
            self._next = None
            try:
                self._present(order)
            except _Aborted:
                pass
            except (HapticsError, OSError) as error:
                self._report(Failed(order.number, str(error)))

    def _report(self, report: Report, *, flags: int = 0) -> None:
        try:
            self._socket.send(pickle.dumps(report), flags)
        except OSError as error:
            # A view that does not keep up, or whose frames are too large, has fewer.
            if error.errno not in (errno.EAGAIN, errno.EMSGSIZE):
                self._closed = True

    def _messages(self, timeout: float | None) -> list[Any]:
        """Messages that have come, or come within a time [s]; None: those that have come, without waiting."""
        found: list[Any] = []
        while not self._closed:
            try:
                if timeout is not None and not found:
                    self._socket.settimeout(timeout)
                    data = self._socket.recv(LARGEST)
                    self._socket.settimeout(None)
                else:
                    data = self._socket.recv(LARGEST, socket.MSG_DONTWAIT)
            except (BlockingIOError, TimeoutError):
                break
            except OSError:
                data = b""
            if not data:
                self._closed = True
                break
            found.append(pickle.loads(data))
        self._socket.settimeout(None)
        return found

    def _idle(self, timeout: float) -> list[str]:
        """Wait for at most a time [s]; orders of the trial that is present, in words."""
        words = []
        for message in self._messages(timeout):
            if isinstance(message, _Prepare):
                self._next = message
            elif isinstance(message, str):
                words.append(message)
        if self._link is not None:
            self._link.take(-1, self._reading)
            self._note_buttons(self._reading)
        return words

    def _note_buttons(self, reading: DeviceReading) -> None:
        """Report the buttons that are pressed now and were not before."""
        pressed = sum(1 << i for i, state in enumerate(reading.buttons[: len(reading)]) if state > 0)
        for button in range((pressed & ~self._pressed).bit_length()):
            if (pressed & ~self._pressed) >> button & 1:
                self._report(Pressed(button, time.monotonic_ns()))
        self._pressed = pressed

    def _wait(self, duration: float | None, word: str = "") -> None:
        """Wait for a word, or a time [s].

        Raises:
            _Aborted: the trial is to end.
        """
        until = None if duration is None else time.monotonic() + duration
        while until is None or time.monotonic() < until:
            left = 1.0 if until is None else max(1e-3, until - time.monotonic())
            words = self._idle(min(left, IDLE) if self._link is not None else left)
            if "abort" in words or self._closed or self._next is not None:
                raise _Aborted
            if word and word in words:
                return

    def _present(self, order: _Prepare) -> None:
        begun = time.monotonic()
        paced = [PacedTrial(self._trial(settings), self._link) for settings in order.settings]
        self._report(Ready(order.number, time.monotonic() - begun))
        self._wait(None, "start")
        for i, one in enumerate(paced):
            if i:
                self._wait(order.between)
            one.run(_Attention(self, one, order, i))
            if self._closed or self._next is not None:
                raise _Aborted
            if one.problem:
                raise HapticsError(one.problem)
            self._report(Ended(order.number, i, one.ended, one.ticks, one.missed))
        for one, directory in zip(paced, order.directories, strict=True):
            one.write(directory)
            sync_folder(directory)
        metrics: Mapping[str, Any] = {}
        if order.metrics:
            metrics = analyse(paced[-1].trial, paced[-1].samples().finite(), compare=False).metrics
        self._report(Stored(order.number, dict(metrics)))

    def _trial(self, settings: Mapping[str, Any]) -> Trial:
        """The trial of some settings, which is built once."""
        key = repr(sorted(settings.items()))
        if key not in self._trials:
            if len(self._trials) >= KEPT:
                self._trials.clear()
            self._trials[key] = self._study.trial(settings)
        return self._trials[key]


class _Attention:
    """Work after each tick of an interval, in the rest of its period."""

    def __init__(self, presenter: _Presenter, paced: PacedTrial, order: _Prepare, interval: int):
        self._presenter, self._paced, self._order, self._interval = presenter, paced, order, interval
        self._every = max(1, round(paced.trial.experiment.rate / FRAMES))

    def __call__(self, tick: int) -> bool:
        """Whether the interval ends.

        Raises:
            _Aborted: the trial is to end.
        """
        presenter, paced, order = self._presenter, self._paced, self._order
        if tick == 1:
            presenter._report(Begun(order.number, self._interval, paced.begun))
        ends = aborted = False
        for message in presenter._messages(None):
            match message:
                case bytes():
                    paced.offer(message)
                case _Prepare():
                    presenter._next, aborted = message, True
                case "abort":
                    aborted = True
                case "enough":
                    ends = True
        if aborted or presenter._closed:
            raise _Aborted
        if presenter._link is not None:
            presenter._note_buttons(paced.reading)
        if order.shown and not tick % self._every:
            presenter._report(Frame(order.number, self._interval, dict(paced.latest)), flags=socket.MSG_DONTWAIT)
        return ends
