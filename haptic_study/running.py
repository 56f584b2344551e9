"""A session with a person, from the recording to the pages: what `haptics study run` and `resume` do."""

from __future__ import annotations

import contextlib
import queue
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from haptic_bench.experiment import Trial
from haptic_bench.running.runner import Interruption
from haptic_sim.parameters import ParameterError
from haptic_study.conducting import CONTROLS, Conductor, Subscriber
from haptic_study.dataset import Recording
from haptic_study.file import Study
from haptic_study.intervals import Begun, Ended, Frame, Intervals, Report
from haptic_study.pages import ExperimenterPage, ParticipantPage, Stage
from haptic_view.page import HOST, free_port, require_viser

TURN = 1.0 / 60.0  # [s] between two looks at what has come
POINTER = "pointer"
HELP = f"type {', '.join(CONTROLS)}, with a reason behind it; close, when the session has ended"


def device_settings(study: Study, device: str | None) -> dict[str, Any]:
    """Settings of the experiment by which a person uses a device.

    Args:
        study: a valid study.
        device: `pointer`; name or file of a hardware device; None: that of the experiment.

    Raises:
        ParameterError: the study cannot be presented to a person with it.
    """
    settings: dict[str, Any] = {}
    if device == POINTER:
        settings = {"operator": {"type": "pointer"}}
    elif device is not None:
        settings = {"device": {"type": "hardware", "name": device}}
    experiment = study.trial({**study.parameters.person.settings, **settings}).experiment
    is_hardware = bool(experiment.hardware_hands)
    if not is_hardware and not experiment.operator.EVENTS:
        kind = experiment.operator.type
        raise ParameterError([f"operator.type = {kind}: is not a person; add --device pointer, or a device's name"])
    if not is_hardware and not study.parameters.person.view:
        raise ParameterError(["person.view = false: a pointer moves the hand in the view; add --device NAME"])
    return settings


class _Front:
    """The thread of a session: takes what was done on the pages and what the intervals report, one after the other."""

    def __init__(self, recording: Recording, device: Mapping[str, Any], interruption: Interruption):
        self._recording, self._device, self._interruption = recording, device, interruption
        self._study = recording.session.study
        self._inbox: queue.SimpleQueue[Report | Callable[[Conductor], object]] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._trials: dict[str, Trial] = {}

    def run(self, ports: Sequence[int | None], expected: int, subscribers: Sequence[Subscriber]) -> str:
        """Conduct the session to its end; returns why it cannot go on, empty if it has ended or was interrupted."""
        person = self._study.parameters.person
        first = {**person.settings, **self._device}
        with contextlib.ExitStack() as stack:
            # Forked first: this process has no other threads yet.
            intervals = stack.enter_context(Intervals(self._study, first, self._inbox.put))
            trial = self._study.trial(first)
            title = self._study.parameters.title or self._study.name
            has_pointer = trial.experiment.operator.EVENTS and not trial.experiment.hardware_hands
            port = free_port(HOST, ports[0])
            self._stage = Stage(trial, port, intervals.offer if has_pointer else None) if person.view else None
            participant = ParticipantPage(title, port, self._inbox.put, self._stage)
            stack.callback(participant.stop)
            experimenter = ExperimenterPage(title, free_port(HOST, ports[1]), self._inbox.put, self._closing.set)
            stack.callback(experimenter.stop)
            print(f"participant:   {participant.address}")
            print(f"experimenter:  {experimenter.address}", flush=True)
            stack.enter_context(_typed(self._type))
            conductor = Conductor(
                self._recording, intervals, device=self._device, expected=expected, subscribers=subscribers
            )
            while not self._interruption and not self._closing.is_set():
                participant.show(conductor.screen, conductor.serial)
                experimenter.show(conductor)
                self._take(conductor)
                if conductor.problem and not conductor.ended:
                    return conductor.problem
                if conductor.ended and not conductor.present and not sys.stdin.isatty():
                    break  # nobody looks, and nobody can type `close`
        return ""

    def _take(self, conductor: Conductor) -> None:
        """Take what has come, or wait for a turn."""
        with contextlib.suppress(queue.Empty):
            what = self._inbox.get(timeout=TURN)
            while True:
                if callable(what):
                    what(conductor)
                elif isinstance(what, Frame):
                    if self._stage is not None and what.number == conductor.number:
                        self._stage.show(what.messages)
                else:
                    conductor.receive(what)
                    self._follow(conductor, what)
                what = self._inbox.get_nowait()
        conductor.wait()
        if self._stage is not None:
            self._stage.attend()

    def _follow(self, conductor: Conductor, report: Report) -> None:
        """Let the scene follow the intervals."""
        if self._stage is None or getattr(report, "number", None) != conductor.number:
            return
        if isinstance(report, Begun) and (settings := conductor.settings):
            self._stage.begin(self._trial(settings[report.interval]))
        elif isinstance(report, Ended):
            self._stage.release()

    def _trial(self, settings: Mapping[str, Any]) -> Trial:
        key = repr(sorted(settings.items()))
        if key not in self._trials:
            self._trials = {key: self._study.trial(settings)}
        return self._trials[key]

    def _type(self, line: str) -> None:
        """Do what was typed in the terminal."""
        word, _, reason = line.strip().partition(" ")
        if word == "close":
            self._closing.set()
        elif word:
            self._inbox.put(lambda conductor: _notify(conductor.control(word, reason)))


def _notify(problem: str) -> None:
    if problem:
        print(f"haptics: {problem}; {HELP}", file=sys.stderr)


@contextlib.contextmanager
def _typed(take: Callable[[str], object]) -> Iterator[None]:
    """Take the lines that are typed in the terminal, as long as the context is open."""
    ends = threading.Event()

    def read() -> None:
        with contextlib.suppress(OSError, ValueError):  # it is closed
            while not ends.is_set():
                if select.select([sys.stdin], [], [], 0.2)[0]:
                    if not (line := sys.stdin.readline()):
                        return
                    take(line)

    thread = threading.Thread(target=read, name="terminal", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join(1.0)


def conduct(
    recording: Recording,
    device: str | None,
    interruption: Interruption,
    *,
    ports: Sequence[int | None] = (None, None),
    expected: int = 0,
    subscribers: Sequence[Subscriber] = (),
) -> str:
    """Conduct a session with a person; returns why it cannot go on, empty if it has ended or was interrupted.

    Args:
        recording: of the session, new or resumed.
        device: see `device_settings`.
        interruption: ends it; it can be resumed.
        ports: of the participant's page and of the experimenter's; None: the first that is free.
        expected: number of trials that is expected.
        subscribers: called with each event, see `conducting.Subscriber`.

    Raises:
        ParameterError: a page or the device cannot be had.
        JournalError: an event cannot be recorded; the session can be resumed when it can.
    """
    require_viser()
    settings = device_settings(recording.session.study, device)
    return _Front(recording, settings, interruption).run(ports, expected, subscribers)


def began() -> str:
    """Date and time, for the journal."""
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
