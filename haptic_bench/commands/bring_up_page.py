"""The page of `haptics bring-up --page`: steps, request and readings beside the terminal (docs/bring_up.md).

It shows what it is given, and gives each answer with the number of the request that it answers, so that an answer that
comes late or twice is not taken for the next request. It has no other effect on the session.
"""

from __future__ import annotations

import contextlib
import io
import math
import threading
import time
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple

from haptic_drivers.bring_up.session import Sample
from haptic_drivers.bring_up.steps import Step, named_answers
from haptic_view.page import HOST, free_port
from haptic_view.panel import WITHOUT_SETTINGS, address_of, panel_server

REDRAWN = 0.1  # [s] between two looks at the session
SETTLED = 0.7  # [s] after a request is shown, before which a click was meant for the one before, as of a double click
REACH = 0.15  # [m] from the middle of a bar to its end
MOST = 200  # characters of an answer
PRESENT = {1: "held", 0: "nobody holds it", -1: "not measured"}
ENTER = "Enter"


class Request(NamedTuple):
    """Request to the person, empty if there is none, and its number."""

    number: int
    text: str


class View(NamedTuple):
    """View of the page: the steps that are over, the present request, the newest reading."""

    steps: Sequence[Step]
    request: Request
    sample: Sample | None


def draw_steps(steps: Sequence[Step]) -> str:
    """HTML of the steps that are over, the last one first."""
    rows = []
    for step in reversed(steps):
        colour, word = ("#00725a", "ok") if step.passed else ("#b3261e", "WRONG")
        text = f"<b>{escape(step.name)}</b>: {escape(step.found)}"
        if not step.passed:
            text += f"<br>asked: {escape(step.asked)}<br>expected: {escape(step.expected)}"
        if step.remedy:
            text += f"<br>{'use' if step.passed else 'remedy'}: {escape(step.remedy)}"
        mark = f'<td style="color: {colour}; font-weight: bold; padding-right: 0.8em; vertical-align: top">{word}</td>'
        rows.append(f"<tr>{mark}<td>{text}</td></tr>")
    return f'<table style="padding: 0 1em; overflow-wrap: anywhere">{"".join(rows)}</table>'


def draw_request(text: str) -> str:
    """HTML of what is asked, in large letters."""
    shown = escape(text) or "&hellip;"
    return f'<p style="font-size: 1.6em; line-height: 1.3; padding: 0 0.6em; margin: 0.3em 0">{shown}</p>'


def draw_reading(sample: Sample | None, buttons: Sequence[str]) -> str:
    """HTML of the newest reading: position in the axes of the base, buttons, presence, and the force written."""
    if sample is None:
        return '<p style="padding: 0 1em">no reading</p>'
    rows = []
    for axis, p, f in zip("xyz", sample.pose[:3], sample.written, strict=True):
        share = min(1.0, max(-1.0, float(p) / REACH)) if math.isfinite(p) else 0.0
        bar = (
            '<div style="width: 14em; height: 0.9em; background: #8883; position: relative">'
            f'<div style="position: absolute; left: {50.0 + 48.0 * share:.1f}%; width: 2%; height: 100%; '
            'background: #0072b2"></div></div>'
        )
        number = 'style="font-family: monospace; padding-right: 1em; white-space: pre"'
        rows.append(
            f"<tr><td {number}>{axis}</td><td {number}>{p:+8.4f} m</td><td>{bar}</td>"
            f'<td {number} align="right">{f:+8.3f} N</td></tr>'
        )
    pressed = [name for name, state in zip(buttons, sample.buttons, strict=False) if state]
    known = f"buttons: {escape(', '.join(pressed)) or 'none'}; " if buttons else ""
    return (
        '<div style="padding: 0 1em"><table><tr><th></th><th colspan="2" align="left">position in the base</th>'
        f"<th>force written</th></tr>{''.join(rows)}</table>"
        f"<p>{known}presence: {PRESENT.get(sample.present, '?')}</p></div>"
    )


class BringUpPage:
    """The page while the context is open.

    Args:
        title: of the device.
        buttons: names of its buttons.
        look: gives what is to be shown.
        answer: takes an answer and the number of its request; whether it was in time.

    Attributes:
        address: what to open in a browser; whoever has it may answer.
    """

    def __init__(
        self, title: str, buttons: Sequence[str], look: Callable[[], View], answer: Callable[[str, int], bool]
    ):
        port = free_port(HOST, None)
        self.server = panel_server(port, f"First contact: {title}")
        self.address = address_of(self.server, port)
        self._buttons, self._look, self._answer = buttons, look, answer
        self._drawn: Request | None = None
        self._outcome = ""
        self._closed, self._ended = threading.Event(), threading.Event()
        self._handles: list[Any] = []
        self._live = 0.0  # from when on answers count [s]
        gui = self.server.gui
        gui.add_html(WITHOUT_SETTINGS)
        self._request = gui.add_html(draw_request(""), order=0.0)
        self._reading = gui.add_html(draw_reading(None, ()), order=100.0)
        self._steps = gui.add_html("", order=200.0)
        self._thread = threading.Thread(target=self._run, name="bring-up-page", daemon=True)

    def __enter__(self) -> BringUpPage:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        with contextlib.redirect_stdout(io.StringIO()):  # it says that it stops
            self.server.stop()

    @property
    def closed(self) -> bool:
        """Whether the person has closed the page, which can be done when the outcome is shown."""
        return self._closed.is_set()

    def finish(self, outcome: str) -> None:
        """Show how it ended in the place of a request."""
        self._outcome = outcome

    def _run(self) -> None:
        while not self._ended.wait(REDRAWN):
            self.draw(time.monotonic())

    def draw(self, now: float) -> None:
        """Show the present state at a time [s] of the monotonic clock."""
        view = self._look()
        request = Request(-1, self._outcome) if self._outcome else view.request
        with self.server.atomic():
            for handle, html in (
                (self._steps, draw_steps(view.steps)),
                (self._reading, draw_reading(view.sample, self._buttons)),
            ):
                if handle.content != html:
                    handle.content = html
            if request != self._drawn:
                self._show_request(request, now)
            elif now >= self._live:
                for handle in self._handles:
                    if getattr(handle, "disabled", False):
                        handle.disabled = False

    def _show_request(self, request: Request, now: float) -> None:
        """Show a request, and what it can be answered by."""
        for handle in self._handles:
            handle.remove()
        self._handles, self._drawn, self._live = [], request, now + SETTLED
        self._request.content = draw_request(request.text)
        gui = self.server.gui
        if self._outcome:
            self._add_button("Close the page", 1.0, self._closed.set)
        elif request.text:
            for word in named_answers(request.text):
                self._add_button(word or ENTER, self._order, self._giver(request, lambda word=word: word))  # type: ignore[misc]
            if "" in named_answers(request.text):
                key = gui.add_command(ENTER, hotkey="enter", disabled=True)
                key.on_trigger(self._handler(self._giver(request, str)))
                self._handles.append(key)
            field = gui.add_text("answer", "", order=self._order, disabled=True)
            self._handles.append(field)
            self._add_button("Give this answer", self._order, self._giver(request, lambda: str(field.value)[:MOST]))

    @property
    def _order(self) -> float:
        """Place of the next element below the request."""
        return 1.0 + len(self._handles)

    def _giver(self, request: Request, text: Callable[[], str]) -> Callable[[], object]:
        """Function that answers this request, and no later one."""

        def give() -> None:
            if time.monotonic() >= self._live:
                self._answer(text(), request.number)

        return give

    def _handler(self, act: Callable[[], object]) -> Callable[[Any], Any]:
        async def handle(_: Any) -> None:
            act()

        return handle

    def _add_button(self, label: str, order: float, act: Callable[[], object]) -> None:
        button = self.server.gui.add_button(label, order=order, disabled=True)
        button.on_click(self._handler(act))
        self._handles.append(button)
