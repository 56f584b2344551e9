"""A session with a person: what is shown, presented and recorded next, of what participant and experimenter do.

    conductor = Conductor(recording, intervals)
    conductor.screen                                  # what the participant sees now
    conductor.press("2", time.monotonic_ns())         # what was done on a page, or by a button of the device
    conductor.control("pause", "the cable was caught")
    conductor.receive(report)                         # of `intervals`

It is called from one thread, and knows neither browser nor device: pages, terminal and tests are front ends of it. All
that happens is an event of the session's journal, on the disk before what follows from it.

Times are those of the clock by which the servo loop begins its ticks (CLOCK_MONOTONIC), from the beginning of the
session; the time between a kill and `resume` is left out.
"""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from haptic_sim.parameters import ParameterError
from haptic_study import showing
from haptic_study.dataset import Recording
from haptic_study.intervals import Begun, Ended, Failed, Gone, Noted, Pressed, Ready, Report, Stored
from haptic_study.outlets import OutletError
from haptic_study.session import End, Form, Page, Paused, Rest, Step, Trial
from haptic_study.showing import Screen, State
from haptic_study.tasks import FreeParameters

NOTES = 6  # that the experimenter's page keeps
CLOSED = "the participant's page was closed"
CONTROLS = ("pause", "resume", "repeat", "drop", "stop")
"""Commands of an experimenter; `repeat` and `drop` are of the trial that is presented."""

Subscriber = Callable[[Step, Mapping[str, Any]], object]
"""Called with the step at which an event of the session is applied, and the event, which has its time [s]; also with
`open` at the beginning, with `interval` and its `number` from 1 on as each interval begins, and with `end` at the end.
An answer is told when it is given, before it is recorded. After an OutletError the session is paused."""


class Presenter(Protocol):
    """Presenter of intervals: `Intervals`, or a stand-in of it."""

    @property
    def number(self) -> int: ...

    def prepare(
        self,
        settings: Sequence[Mapping[str, Any]],
        directories: Sequence[Path],
        *,
        between: float,
        metrics: bool,
        shown: bool,
    ) -> int: ...

    def start(self) -> None: ...

    def enough(self) -> None: ...

    def abort(self) -> None: ...


@dataclass
class _Course:
    """Progress of the trial that is presented."""

    directories: list[str] = field(default_factory=list)
    is_ready: bool = False
    begun: list[int] = field(default_factory=list)  # of each interval [ns]
    ended: list[Ended] = field(default_factory=list)
    answer: Any = None
    answered: int = 0  # when [ns]
    by: str = ""
    stored: Stored | None = None


class Conductor:
    """Conducts a session.

    Args:
        recording: of the session, new or resumed.
        presenter: of its intervals.
        device: settings of the experiment by the device that is used.
        expected: number of trials that is expected.
        subscribers: called with each event.
        clock: by which the servo loop begins its ticks [ns].

    Attributes:
        screen: what the participant sees; `serial`: how often it has changed.
        present: browsers that show the participant's page.
        problem: why the session cannot go on in this process; empty: it can.
    """

    def __init__(
        self,
        recording: Recording,
        presenter: Presenter,
        *,
        device: Mapping[str, Any] | None = None,
        expected: int = 0,
        subscribers: Sequence[Subscriber] = (),
        clock: Callable[[], int] = time.monotonic_ns,
    ):
        self._recording, self._presenter, self._clock = recording, presenter, clock
        self._session, self._person = recording.session, recording.session.study.parameters.person
        self._device, self._expected, self._subscribers = dict(device or {}), expected, tuple(subscribers)
        self._begun_at, self._before = clock(), recording.time
        self._course = _Course()
        self._feedback, self._notes = "", deque[str](maxlen=NOTES)
        self._repeats = sum(one.get("event") == "repeat" for one in recording.entries)
        self._gap: float | None = None
        self._freed: int | None = None  # when the last trial was answered [ns]
        self._last: Ended | None = None
        self._rest_until, self._paused = 0, "interrupted"  # why the trial was cut that is presented again
        self._unsent = ""  # what subscribers could not send
        self.screen, self.serial, self.present, self.problem = Screen(""), 0, 0, ""
        if recording.cut is not None:
            self._note(f"trial {recording.cut.number} was cut and is presented again")
        self._publish(self.step, {"event": "open", "time": recording.time})
        self._enter()

    # The state

    @property
    def step(self) -> Step:
        """The step of the session."""
        return self._session.step

    @property
    def number(self) -> int:
        """Number of the trial whose reports count."""
        return self._presenter.number

    @property
    def ended(self) -> bool:
        """Whether the session has ended."""
        return isinstance(self.step, End)

    @property
    def settings(self) -> list[dict[str, Any]]:
        """Settings of the experiment in each interval of the trial that is the step; empty at other steps."""
        if not isinstance(self.step, Trial):
            return []
        return [{**self._person.settings, **one, **self._device} for one in self._session.settings(self.step)]

    @property
    def text(self) -> str:
        """Text of the experimenter's page, in Markdown."""
        last = self._last
        state = State(
            doing=self.problem or self._doing(),
            notes=tuple(self._notes),
            repeats=self._repeats,
            gap=self._gap,
            missed=0 if last is None else last.missed,
            ticks=0 if last is None else last.ticks,
            expected=self._expected,
            present=self.present,
        )
        return showing.experimenter_text(self._session, self.step, state, blind=self._person.double_blind)

    def _doing(self) -> str:
        course = self._course
        match self.step:
            case Trial(begun=False):
                return "ready: the participant starts" if course.is_ready else "preparing the next trial"
            case Trial() as trial:
                if course.answer is not None:
                    return "writing the trial"
                if len(course.ended) == trial.intervals:
                    return "asking the participant"
                return f"presenting interval {len(course.ended) + 1} of {trial.intervals}"
            case Page() | Form():
                return "the participant reads" if isinstance(self.step, Page) else "the participant answers questions"
            case Rest():
                return "a rest"
            case Paused(reason=reason):
                return f"paused: {reason}" if reason else "paused"
        return "ended"

    def _note(self, text: str) -> None:
        self._notes.append(text)

    def _time(self, clock: int | None = None) -> float:
        """Time of the session [s] at a time of the clock [ns]; now without one."""
        return round(self._before + 1e-9 * ((self._clock() if clock is None else clock) - self._begun_at), 6)

    def _show(self, screen: Screen) -> None:
        """Let the participant see something."""
        rows = [row for row in self._session.rows if row.status == "answered"]
        progress = screen.progress or min(1.0, len(rows) / max(1, self._expected))
        screen = Screen(**{**vars(screen), "progress": progress})
        if screen != self.screen:
            self.screen, self.serial = screen, self.serial + 1

    def _apply(self, event: Mapping[str, Any], clock: int | None = None) -> None:
        """Apply and record an event.

        Raises:
            SessionError: it does not fit; nothing has changed.
            JournalError: it cannot be recorded, and the session cannot go on.
        """
        step, timed = self.step, {**event, "time": self._time(clock)}
        self._recording.apply(timed)
        if event["event"] != "answer":  # it was told when it was given
            self._publish(step, timed)
        if self.ended and event["event"] != "exclude":
            self._publish(self.step, {"event": "end", "time": timed["time"]})

    def _publish(self, step: Step, event: Mapping[str, Any]) -> None:
        for subscriber in self._subscribers:
            try:
                subscriber(step, event)
            except OutletError as error:
                self._unsent = str(error)
                self._note(self._unsent)

    # Steps

    def _enter(self) -> None:
        """Begin what the present step asks for."""
        self._course = _Course()
        match self.step:
            case Page() as page:
                self._show(showing.of_page(page))
            case Form() as form:
                self._show(showing.of_form(form))
            case Rest(duration=duration):
                self._rest_until = self._clock() + round(1e9 * duration)
                self._show(showing.of_rest(duration))
            case Paused(reason=reason):
                self._show(showing.of_pause(here=reason == CLOSED))
            case End(reason=reason):
                self._show(showing.of_end(reason))
            case Trial(begun=True, number=number):  # it was cut, or the session was paused in it
                self._repeat(number, self._paused)
            case Trial() as trial:
                self._prepare(trial)

    def _repeat(self, number: int, reason: str) -> None:
        self._apply({"event": "repeat", "trial": number, "reason": reason})
        self._repeats += 1
        self._enter()

    def _prepare(self, trial: Trial) -> None:
        folder = self._recording.folder / "trials"
        directories = []
        for i in range(trial.intervals):
            directories.append(folder / f"{trial.number:04d}-{trial.attempt}-{trial.presentation}-{i + 1}")
            shutil.rmtree(directories[-1], ignore_errors=True)
            directories[-1].mkdir(parents=True)
        root = self._recording.root
        self._course.directories = [str(one.relative_to(root)) for one in directories]
        task = self._session.study.parameters.tasks[trial.task]
        self._presenter.prepare(
            self.settings,
            directories,
            between=self._person.between,
            metrics=isinstance(task, FreeParameters),
            shown=self._person.view,
        )
        self._show(showing.before(trial, is_ready=False, feedback=self._feedback))

    def _begin_if_due(self) -> None:
        """Begin a trial that is ready and waits for nobody's start, if there is a participant."""
        trial, waits = self.step, self._person.start == "press"
        if not isinstance(trial, Trial) or trial.begun or not self._course.is_ready or not self.present:
            return
        if trial.presentation > 1 or not waits:
            self._begin(trial)

    def _begin(self, trial: Trial) -> None:
        more = {} if self._gap is None else {"gap": round(self._gap, 6)}
        self._apply({**trial.beginning, **more})
        self._feedback = ""
        self._presenter.start()
        self._show(showing.during(trial, 0, may_end=self._person.early))

    def _conclude(self) -> None:
        """The trial is stored and answered."""
        trial, course = self.step, self._course
        if not isinstance(trial, Trial) or course.stored is None or course.answer is None:
            return
        first, last = course.begun[0], course.ended[-1].time
        event: dict[str, Any] = {"event": "answer", "trial": trial.number, "answer": course.answer}
        if course.by:
            event |= {"response_time": round(1e-9 * (course.answered - last), 6), "by": course.by}
        event |= {
            "presented": round(1e-9 * (last - first), 6),
            "begun": [self._time(one) for one in course.begun],
            "ended": [self._time(one.time) for one in course.ended],
            "ticks": [one.ticks for one in course.ended],
            "missed": [one.missed for one in course.ended],
            "directories": course.directories,
        }
        if course.stored.metrics:
            event["metrics"] = dict(course.stored.metrics)
        rows = len(self._session.rows)
        self._apply(event, course.answered)
        self._freed = course.answered
        if len(self._session.rows) > rows and trial.practice and self._person.feedback:
            self._feedback = showing.feedback_of(self._session.study, self._session.rows[-1])
        self._enter()

    # What the participant does

    def press(self, value: str, clock: int, *, by: str = "page", serial: int | None = None) -> None:
        """A choice of the screen was made at a time of the clock [ns].

        What is no choice of the screen, or of another one (`serial`), has no effect: it came late, or twice.

        Raises:
            JournalError: it cannot be recorded.
        """
        if serial not in (None, self.serial) or value not in [one.value for one in self.screen.choices]:
            return
        match self.step:
            case Page() if value == showing.DECLINE:
                self._apply({"event": "stop", "reason": "no consent"}, clock)
                self._enter()
            case Page() | Rest() if value in (showing.CONTINUE, showing.AGREE):
                self._apply({"event": "continue"} | ({"agreed": True} if value == showing.AGREE else {}), clock)
                self._enter()
            case Paused() if value == showing.CONTINUE:
                self._apply({"event": "resume"}, clock)
                self._enter()
            case Trial(begun=False) as trial if value == showing.START:
                self._begin(trial)
            case Trial() if value == showing.ENOUGH:
                self._presenter.enough()
            case Trial() as trial if value in trial.answers:
                self._answer(value, clock, by)

    def enter_number(self, text: str, clock: int, *, serial: int | None = None) -> None:
        """A number was entered as the answer; one that is none is asked for again.

        Raises:
            JournalError: it cannot be recorded.
        """
        if serial in (None, self.serial) and self.screen.asks_number and isinstance(self.step, Trial):
            try:
                answer = self._session.study.parameters.tasks[self.step.task].checked(text)
            except ValueError as error:
                self._show(Screen(**{**vars(self.screen), "problems": (str(error),)}))
                return
            self._answer(answer, clock, "page")

    def fill(self, answers: Mapping[str, Any], clock: int, *, serial: int | None = None) -> None:
        """A questionnaire was filled in; what is wrong is asked for again.

        Raises:
            JournalError: it cannot be recorded.
        """
        if serial not in (None, self.serial) or not isinstance(self.step, Form):
            return
        try:
            self._apply({"event": "form", "answers": dict(answers)}, clock)
        except ParameterError as error:
            problems = tuple(one.removeprefix(f"{self.step.name}.") for one in error.problems)
            self._show(Screen(**{**vars(self.screen), "problems": problems}))
            return
        self._enter()

    def _answer(self, answer: Any, clock: int, by: str) -> None:
        course = self._course
        if isinstance(self.step, Trial) and len(course.ended) == self.step.intervals and course.answer is None:
            course.answer, course.answered, course.by = answer, clock, by
            self._publish_answer(self.step)
            self._show(showing.storing(self.step))
            self._conclude()

    def join(self) -> None:
        """A browser shows the participant's page.

        Raises:
            JournalError: it cannot be recorded.
        """
        self.present += 1
        self._begin_if_due()

    def leave(self) -> None:
        """A browser does so no more; without any a trial ends, and the session is paused.

        Raises:
            JournalError: it cannot be recorded.
        """
        self.present = max(0, self.present - 1)
        presented = isinstance(self.step, Trial) and self.step.begun and self._course.answer is None
        if not self.present and presented:
            self._pause(CLOSED)

    def wait(self) -> None:
        """Time has passed."""
        unsent, self._unsent = self._unsent, ""
        if unsent and not isinstance(self.step, Paused | End):
            self._pause(unsent)
        if isinstance(self.step, Rest):
            self._show(showing.of_rest(max(0.0, 1e-9 * (self._rest_until - self._clock()))))

    # What the experimenter does

    def control(self, word: str, reason: str = "") -> str:
        """Do one of CONTROLS; returns why not, empty if it is done.

        Raises:
            JournalError: it cannot be recorded.
        """
        reason = reason.strip()
        if word not in CONTROLS:
            return f"{word}: must be one of {', '.join(CONTROLS)}"
        if word in ("repeat", "drop", "stop") and not reason:
            return f"{word}: needs a reason, which the journal keeps"
        event: dict[str, Any] = {"event": word, "reason": reason}
        if word in ("repeat", "drop"):
            event["trial"] = self.step.number if isinstance(self.step, Trial) else 0
        elif word == "resume":
            del event["reason"]
        try:
            self._apply(event)
        except ParameterError as error:
            return "; ".join(error.problems)
        self._presenter.abort()
        self._freed = None
        self._repeats += word == "repeat"
        self._paused = reason or "paused" if word == "pause" else self._paused
        self._note(f"{word} at {self._time():.0f} s" + (f": {reason}" if reason else ""))
        self._enter()
        return ""

    def _pause(self, reason: str) -> None:
        """Pause, if it does not pause already or has ended; the trial that is presented ends with zero force."""
        if not isinstance(self.step, Paused | End):
            self.control("pause", reason)

    # What the presenter reports

    def receive(self, report: Report) -> None:
        """Take a report; one of a trial that was aborted has no effect.

        Raises:
            JournalError: it cannot be recorded.
        """
        number = getattr(report, "number", None)
        of_all = isinstance(report, Failed) and number == 0
        if number is not None and number != self.number and not of_all:
            return
        step, course = self.step, self._course
        match report, step:
            case Pressed(button=button, time=clock), _:
                self._press_button(button, clock)
            case Noted(text=text), _:
                self._note(text)
            case Gone(), _ if not self.ended:
                self.problem = self.problem or "the process that presents intervals has ended; resume the session"
                self._pause(self.problem)
            case Failed(problem=problem), _:
                self._pause(problem)
                if of_all:
                    self.problem = problem
            case Ready(), Trial(begun=False) as trial:
                self._gap = None if self._freed is None else 1e-9 * (self._clock() - self._freed)
                course.is_ready = True
                self._show(showing.before(trial, is_ready=True, feedback=self._feedback))
                self._begin_if_due()
            case Begun(interval=interval, time=clock), Trial(begun=True) as trial:
                course.begun.append(clock)
                self._publish(trial, {"event": "interval", "number": interval + 1, "time": self._time(clock)})
                self._show(showing.during(trial, interval, may_end=self._person.early))
            case Ended(interval=interval) as ended, Trial(begun=True) as trial:
                course.ended.append(ended)
                self._last = ended
                self._after(trial, interval)
            case Stored() as stored, Trial(begun=True) as trial:
                course.stored = stored
                self._measure(trial)
                self._conclude()

    def _after(self, trial: Trial, interval: int) -> None:
        """An interval has ended."""
        if interval + 1 < trial.intervals:
            self._show(showing.between(trial, interval + 1))
        elif isinstance(self._session.study.parameters.tasks[trial.task], FreeParameters):
            self._show(showing.storing(trial))
        else:
            self._show(showing.question(trial))

    def _measure(self, trial: Trial) -> None:
        """The answer of a free manipulation, which is measured."""
        task, course = self._session.study.parameters.tasks[trial.task], self._course
        if isinstance(task, FreeParameters) and course.stored is not None:
            course.answer = task.answer_to(course.stored.metrics)
            course.answered = course.ended[-1].time
            self._publish_answer(trial)

    def _publish_answer(self, trial: Trial) -> None:
        given = {"trial": trial.number, "answer": self._course.answer, "time": self._time(self._course.answered)}
        self._publish(trial, {"event": "answer"} | given)

    def _press_button(self, button: int, clock: int) -> None:
        """A button of the device: an answer, or what goes on."""
        if button < len(self._person.buttons):
            value = self._person.buttons[button]
            offered = [one.value for one in self.screen.choices]
            if value == showing.CONTINUE and showing.START in offered:
                value = showing.START
            self.press(value, clock, by="device")
