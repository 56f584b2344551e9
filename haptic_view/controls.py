"""Controls of a page: the play head of a recorded trial, or the course and the gains of a running one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from enum import Enum
from html import escape
from typing import Any, Protocol

import numpy as np

from haptic_view.frame import Frame, Mark
from haptic_view.gain_controls import Change, GainControls
from haptic_view.gains import Gain
from haptic_view.page import Page

FRAMES = 30.0  # [Hz] that a page draws
SPEEDS = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0)


class Recording(Protocol):
    """The frames of a trial that has ended: their times [s], (S,), and what happened in it."""

    times: np.ndarray
    marks: tuple[Mark, ...]

    def frame(self, index: int, since: int | None = None) -> Frame: ...

    def index_at(self, time: float) -> int: ...

    def first_contact(self) -> int | None: ...


class Player:
    """Plays a recorded trial on a page: play head, speed, step, jumps to what happened."""

    def __init__(self, page: Page, frames: Recording):
        self._page, self._frames = page, frames
        self._playing, self._speed = True, 1.0
        self._time, self._index = float(frames.times[0]), 0
        self._moved: float | None = None  # where somebody has put the play head
        self._add_controls()

    def _add_controls(self) -> None:
        gui, frames = self._page.server.gui, self._frames
        first, last = float(frames.times[0]), float(frames.times[-1])
        with self._page.trial:
            self._head = gui.add_slider("time [s]", first, max(last, first + 1e-3), 1e-3, first)
            self._buttons = gui.add_button_group("play head", ("|<", "<", "play", ">", ">|"))
            speed = gui.add_dropdown("speed", tuple(f"{one:g}" for one in SPEEDS), initial_value="1")
            self._loop = gui.add_checkbox("again from the start", True)
            jumps = {"start": first, "end": last}
            contact = frames.first_contact()
            if contact is not None:
                jumps["first contact"] = float(frames.times[contact])
            for mark in frames.marks:
                jumps[f"{mark.time:.3f} s: {mark.text}"[:80]] = mark.time
            jump = gui.add_dropdown("go to", tuple(sorted(jumps, key=lambda text: jumps[text])))
            self._text = gui.add_markdown("")

        @self._head.on_update
        async def _(event: Any) -> None:
            if event.client_id is not None:  # a person, not this program
                self._moved = float(self._head.value)

        @self._buttons.on_click
        async def _(_: Any) -> None:
            self._press(str(self._buttons.value))

        @speed.on_update
        async def _(_: Any) -> None:
            self._speed = float(speed.value)

        @jump.on_update
        async def _(_: Any) -> None:
            self._moved = jumps[str(jump.value)]

    def _press(self, button: str) -> None:
        times = self._frames.times
        if button == "play":
            self._playing = not self._playing
        elif button in ("|<", ">|"):
            self._moved = float(times[0 if button == "|<" else -1])
        else:
            self._playing = False
            step = 1 if button == ">" else -1
            self._moved = float(times[min(max(self._index + step, 0), len(times) - 1)])

    def run(self, stop: threading.Event) -> None:
        """Play until told to stop."""
        times = self._frames.times
        first, last = float(times[0]), float(times[-1])
        drawn, before = -1, time.monotonic()
        while not stop.wait(max(0.0, before + 1.0 / FRAMES - time.monotonic())):
            now = time.monotonic()
            if self._moved is not None:
                self._time, self._moved = self._moved, None
            elif self._playing:
                self._time += self._speed * (now - before)
                if self._time > last:
                    self._time = first if self._loop.value else last
            before = now
            self._index = self._frames.index_at(self._time)
            if self._index != drawn:
                drawn, before_it = self._index, drawn
                frame = self._frames.frame(drawn, before_it)
                self._page.show(frame)
                self._head.value = min(max(frame.time, first), last)
                self._page.show_state(describe(frame))


class State(Enum):
    """State of a running trial; the text on the button that starts and pauses it."""

    LOADING = "Loading …"
    READY = "Start"
    STARTING = "Starting …"
    RUNNING = "Pause"
    PAUSING = "Pausing …"
    PAUSED = "Continue"
    RESETTING = "Resetting …"
    ENDED = "Ended"


class Course:
    """Controls of a running trial: start and pause, reset, record, marks, and the gains.

    Args:
        page: where they are put.
        gains: that can be changed.
        pause: is called with whether the trial shall pause.
        mark: with the text of an event; None: there is no recording.
        change: with a gain and its new value.
        reset: begins the trial anew; None: it cannot be begun anew from here.
        record: with whether the trial is to be kept; None: that is not to be decided here.

    Attributes:
        state: which controls can do something.
        gains: the controls of the gains.
    """

    def __init__(
        self,
        page: Page,
        gains: Sequence[Gain],
        *,
        pause: Callable[[bool], None],
        change: Change,
        mark: Callable[[str], None] | None = None,
        reset: Callable[[], None] | None = None,
        record: Callable[[bool], None] | None = None,
    ):
        self.state = State.LOADING
        gui = self._gui = page.server.gui
        self._useful: list[tuple[Any, tuple[State, ...]]] = []  # controls, and the states in which they do something
        with page.trial:
            self._start = gui.add_button(self.state.value)
            self._useful.append((self._start, (State.READY, State.RUNNING, State.PAUSED)))
            if reset is not None:
                self._add_reset(reset)
            if record is not None:
                self._add_record(record)
            if mark is not None:
                self._add_mark(mark)
            self._text = gui.add_markdown("")
            self.gains = GainControls(page, gains, change)
        self.show(State.LOADING)

        @self._start.on_click
        async def _(_: Any) -> None:
            running = self.state is State.RUNNING
            if running or self.state in (State.READY, State.PAUSED):
                self.show(State.PAUSING if running else State.STARTING)
                pause(running)

    def _add_reset(self, reset: Callable[[], None]) -> None:
        button = self._gui.add_button("Reset")
        self._useful.append((button, (State.READY, State.RUNNING, State.PAUSED, State.ENDED)))

        @button.on_click
        async def _(_: Any) -> None:
            if self.state is not State.RESETTING:
                self.show(State.RESETTING)
                reset()

    def _add_record(self, record: Callable[[bool], None]) -> None:
        keep = self._gui.add_checkbox("record: keep this trial, with its report", False)
        self._useful.append((keep, tuple(state for state in State if state not in (State.RESETTING, State.ENDED))))

        @keep.on_update
        async def _(_: Any) -> None:
            record(bool(keep.value))

    def _add_mark(self, mark: Callable[[str], None]) -> None:
        text = self._gui.add_text("event", "", hint="what is to be noted in the recording")
        note = self._gui.add_button("Mark event")
        self._useful += [(control, (State.RUNNING, State.PAUSED)) for control in (text, note)]

        @note.on_click
        async def _(_: Any) -> None:
            mark(str(text.value)[:200] or "mark")

    def show(self, state: State) -> None:
        """Say what the trial does, and let those controls act that can do something."""
        self.state = state
        self._start.label = state.value
        for control, states in self._useful:
            control.disabled = state not in states
        self.gains.enable(state not in (State.LOADING, State.RESETTING, State.ENDED))

    def show_text(self, text: str) -> None:
        """Say something about the trial."""
        self._text.content = escape(text)


def describe(frame: Frame) -> str:
    """A frame in a line."""
    if frame.tick < 0:
        return "**at the start**"
    words = [f"**{frame.time:.3f} s**", f"tick {frame.tick}"]
    if len(frame.contacts):
        sliding = int(frame.slides.sum())
        count = f"{len(frame.contacts)} contact{'s' if len(frame.contacts) > 1 else ''}"
        words.append(count + (f", {sliding} slide" if sliding else ", all stick"))
    else:
        words.append("no contact")
    felt = frame.hands[0].rendered if frame.hands[0].rendered is not None else frame.hands[0].on_tool
    words.append(f"{float((felt[:3] ** 2).sum()) ** 0.5:.2f} N")
    words += [f"no force: {hand.reason}" for hand in frame.hands if hand.reason]
    return " · ".join(words)
