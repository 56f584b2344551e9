"""What a page is controlled by: the play head of a recorded trial, or the course and the gains of a running one."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from haptic_bench.view.frame import Frame
from haptic_bench.view.gains import Gain
from haptic_bench.view.page import Page
from haptic_bench.view.recorded import RecordedFrames

FRAMES = 30.0  # [Hz] that a page draws
SPEEDS = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0)


class Player:
    """Plays a recorded trial on a page: play head, speed, step, jumps to what happened."""

    def __init__(self, page: Page, frames: RecordedFrames):
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
                drawn = self._index
                frame = self._frames.frame(drawn)
                self._page.show(frame)
                self._head.value = min(max(frame.time, first), last)
                self._page.show_state(describe(frame))


Change = Callable[[Gain, Any], None]
"""Ask for another value of a gain."""


class Course:
    """Controls of a running trial: start and pause, reset, record, marks, and the gains.

    Args:
        page: where they are put.
        gains: that can be changed.
        pause: is called with whether the trial shall pause.
        mark: with the text of an event.
        change: with a gain and its new value.
        reset: begins the trial anew; None: it cannot be begun anew from here.
        record: with whether the trial is to be kept; None: that is not to be decided here.
        paused: whether the trial waits for the start.
    """

    def __init__(
        self,
        page: Page,
        gains: Sequence[Gain],
        *,
        pause: Callable[[bool], None],
        mark: Callable[[str], None],
        change: Change,
        reset: Callable[[], None] | None = None,
        record: Callable[[bool], None] | None = None,
        paused: bool = False,
    ):
        self._page, self._change, self._paused = page, change, paused
        gui = page.server.gui
        self._values: dict[tuple[tuple[str, ...], str], Any] = {}  # that the nodes have
        self._controls: dict[tuple[tuple[str, ...], str], list[Any]] = {}
        with page.trial:
            self._start = gui.add_button("Start" if paused else "Pause", color=None)
            if reset is not None:
                begin = gui.add_button("Reset")

                @begin.on_click
                async def _(_: Any) -> None:
                    assert reset is not None
                    reset()

            if record is not None:
                keep = gui.add_checkbox("record: keep this trial, with its report", False)

                @keep.on_update
                async def _(_: Any) -> None:
                    assert record is not None
                    record(bool(keep.value))

            text = gui.add_text("event", "", hint="what is to be noted in the recording")
            note = gui.add_button("Mark event")
            self._text = gui.add_markdown("")
            self._refusal = gui.add_markdown("")
            with gui.add_folder("Gains"):
                for gain in gains:
                    self._add_gain(gain)

        @self._start.on_click
        async def _(_: Any) -> None:
            pause(not self._paused)

        @note.on_click
        async def _(_: Any) -> None:
            mark(str(text.value)[:200] or "mark")

    def show_paused(self, paused: bool, begun: bool) -> None:
        """Say on the button what it does."""
        self._paused = paused
        self._start.label = "Pause" if not paused else "Continue" if begun else "Start"

    def say(self, text: str) -> None:
        """Say something about the trial."""
        self._text.content = escape(text)

    def accepted(self, gain: Gain, value: Any) -> None:
        """A change has been taken over."""
        self._values[gain.nodes, gain.key] = value
        self._refusal.content = ""

    def refused(self, gain: Gain, reason: str) -> None:
        """A change has been refused: say why, and show the value that holds."""
        self._refusal.content = f"**refused** `{gain.key}`: {escape(reason)}"
        value = self._values[gain.nodes, gain.key]
        for i, control in enumerate(self._controls[gain.nodes, gain.key]):
            control.value = value[i] if isinstance(value, tuple) else value

    def _add_gain(self, gain: Gain) -> None:
        key = gain.nodes, gain.key
        gui, value = self._page.server.gui, gain.value
        self._values[key] = value
        hand, _, _ = gain.nodes[0].rpartition("/")
        label = f"{hand} {gain.key}".strip()
        hint = f"{gain.description}{f' [{gain.unit}]' if gain.unit else ''}"
        hint += f"; allowed: {gain.declared}" if gain.declared else ""
        controls = self._controls[key] = []
        for i, part in enumerate(gain.parts):
            name = f"{label} {part}".strip()
            if isinstance(value, bool):
                control = gui.add_checkbox(name, value, hint=hint)
            elif isinstance(value, str):
                control = gui.add_dropdown(name, gain.choices, initial_value=value, hint=hint)
            else:
                number = float(value[i] if isinstance(value, tuple) else value)
                high = gain.high if not part else min(gain.high, max(10.0 * number, gain.low) or 1.0)
                step = 10.0 ** round(math.log10(max(high - gain.low, 1e-9)) - 3.0)
                control = gui.add_slider(name, gain.low, max(high, gain.low + step), step, number, hint=hint)
            controls.append(control)
            control.on_update(self._asks(gain, i, control))

    def _asks(self, gain: Gain, i: int, control: Any) -> Any:
        async def ask(event: Any) -> None:
            if event.client_id is None:
                return
            value = control.value
            if isinstance(gain.value, tuple):
                whole = list(self._values[gain.nodes, gain.key])
                whole[i] = float(value)
                value = tuple(whole)
            elif not isinstance(gain.value, (bool, str)):
                value = float(value)
            self._change(gain, value)

        return ask


def describe(frame: Frame) -> str:
    """A frame in a line."""
    if frame.tick < 0:
        return "**at the start**"
    words = [f"**{frame.time:.3f} s**", f"tick {frame.tick}"]
    if len(frame.contacts):
        sliding = int(frame.slides.sum())
        words.append(f"{len(frame.contacts)} contacts" + (f", {sliding} slide" if sliding else ", all stick"))
    else:
        words.append("no contact")
    felt = frame.hands[0].rendered if frame.hands[0].rendered is not None else frame.hands[0].on_tool
    words.append(f"{float((felt[:3] ** 2).sum()) ** 0.5:.2f} N")
    words += [f"no force: {hand.reason}" for hand in frame.hands if hand.reason]
    return " · ".join(words)
