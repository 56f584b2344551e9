"""The two pages of a session in the browser: the participant's, and the experimenter's.

Each has a server, a port and a token of its own; what they show is data of `showing`, what is done on them goes to a
`Conductor`. Handlers run in the servers' threads: they note the time, and leave the rest to the thread of the session.
"""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable, Mapping
from typing import Any

from haptic_bench.experiment import Trial
from haptic_bench.experiment.shown import build_scene, sources_of
from haptic_drivers.pointing import Sender
from haptic_sim.messages import MessageError
from haptic_study import showing
from haptic_study.conducting import Conductor
from haptic_study.file import ItemParameters
from haptic_study.showing import Choice, Screen
from haptic_view.live import LiveFrames
from haptic_view.page import HOST, Page
from haptic_view.panel import WITHOUT_SETTINGS, address_of, panel_server
from haptic_view.pointer import Pointer

Later = Callable[[Callable[[Conductor], object]], object]
"""Leaves something to the thread of the session."""

WIDTH = 430  # of the panel beside a scene
NONE = "-"  # of a question that is not answered
FIRST = -1000.0  # order on the page of what comes first, above what a pointer adds
REDRAWN = 0.25  # [s] between two texts of the experimenter's page
BUTTONS = (
    ("pause", "Pause"),
    ("resume", "Resume"),
    ("repeat", "Repeat trial"),
    ("drop", "Drop trial"),
    ("stop", "End"),
)


class Stage:
    """The scene on the participant's page, and the pointer on it.

    Args:
        trial: like those to come.
        port: of the page.
        offer: takes the serialised events of the pointer; None: the device is another one.
    """

    def __init__(self, trial: Trial, port: int, offer: Callable[[bytes], object] | None):
        self.page = Page(build_scene(trial, visual=True), HOST, port, panels=False)
        self._key, self._frames = _shape_of(trial), self._frames_of(trial)
        self._pointer: Pointer | None = None
        if offer is not None:
            self._pointer = Pointer(self.page, Sender(offer), oriented=trial.moves_freely, bodies=trial.draggable)

    def _frames_of(self, trial: Trial) -> LiveFrames:
        return LiveFrames(self.page.scene, trial.tool_sizes, sources_of(trial.experiment))

    def begin(self, trial: Trial) -> None:
        """An interval begins; its scene is drawn anew where it is another one."""
        self.release()
        if (key := _shape_of(trial)) != self._key:
            self._key = key
            self.page.change(build_scene(trial, visual=True))
            if self._pointer is not None:
                self._pointer.attach(trial.draggable)
        self._frames = self._frames_of(trial)

    def show(self, messages: Mapping[str, bytes]) -> None:
        """Draw the last messages of an interval."""
        for topic in self._frames.topics:
            if topic in messages:
                with contextlib.suppress(MessageError):  # not drawn: it is not finite, and the interval ends
                    self._frames.take(topic, messages[topic])
        if (frame := self._frames.frame()) is not None:
            self.page.show(frame)

    def attend(self) -> None:
        """A sign of who holds the pointer; to be called often."""
        if self._pointer is not None:
            self._pointer.repeat()

    def release(self) -> None:
        """Let go of what the pointer holds."""
        if self._pointer is not None:
            self._pointer.release()


def _shape_of(trial: Trial) -> tuple[Any, ...]:
    """Key of everything that the drawing of a trial's scene depends on."""
    experiment = trial.experiment
    return experiment.scene, experiment.tool, experiment.hands, experiment.device.type


class ParticipantPage:
    """Page of the participant.

    Args:
        title: of the page.
        port: where it is.
        later: leaves what was done to the thread of the session.
        stage: with the scene; None: there is none.
    """

    def __init__(self, title: str, port: int, later: Later, stage: Stage | None = None):
        self._later = later
        self.server = panel_server(port, title) if stage is None else stage.page.server
        self._stop = self.server.stop if stage is None else stage.page.stop
        self.address = address_of(self.server, port)
        gui = self.server.gui
        if stage is not None:
            gui.set_panel_label(title[:60])
            gui.main_panel.dock_right()
            gui.main_panel.set_width(WIDTH)
        gui.add_html(WITHOUT_SETTINGS, order=FIRST)
        self._progress = gui.add_progress_bar(0.0, order=FIRST)
        self._handles: list[Any] = []
        self._fields: dict[str, Any] = {}
        self._serial = -1
        self.server.on_client_connect(self._joined)
        self.server.on_client_disconnect(self._left)

    async def _joined(self, client: Any) -> None:
        self._later(Conductor.join)

    async def _left(self, client: Any) -> None:
        self._later(Conductor.leave)

    def show(self, screen: Screen, serial: int) -> None:
        """Show another screen; fields keep what was entered where their form is shown again."""
        if serial == self._serial:
            return
        gui, entered = self.server.gui, {name: field.value for name, field in self._fields.items()}
        with self.server.atomic():
            for handle in self._handles:
                handle.remove()
            self._handles, self._fields, self._serial = [], {}, serial
            self._progress.value = 100.0 * screen.progress
            self._keep(gui.add_markdown(screen.text, order=self._order))
            for name, item in screen.items:
                self._add_item(name, item, entered.get(name))
            if screen.asks_number:
                self._fields["number"] = self._keep(
                    gui.add_text("number", entered.get("number", ""), order=self._order)
                )
            for problem in screen.problems:
                self._keep(gui.add_markdown(f"**{problem}**", order=self._order))
            for choice in screen.choices:
                self._add_choice(choice, screen)

    @property
    def _order(self) -> float:
        """Place of the next element on the page."""
        return FIRST + 1.0 + len(self._handles)

    def _keep(self, handle: Any) -> Any:
        self._handles.append(handle)
        return handle

    def _add_item(self, name: str, item: ItemParameters, before: Any) -> None:
        gui = self.server.gui
        ends = (
            f" (1: {item.choices[0]}, {item.points}: {item.choices[-1]})"
            if item.type == "scale" and item.choices
            else ""
        )
        self._keep(gui.add_markdown(item.question + ends, order=self._order))
        if item.type in ("choice", "scale"):
            options = item.choices if item.type == "choice" else tuple(str(i + 1) for i in range(item.points))
            field = gui.add_dropdown(name, (NONE, *options), initial_value=before or NONE, order=self._order)
        else:
            field = gui.add_text(f"{name} [{item.unit}]" if item.unit else name, before or "", order=self._order)
        self._fields[name] = self._keep(field)

    def _add_choice(self, choice: Choice, screen: Screen) -> None:
        gui, serial = self.server.gui, self._serial
        shown = {"space": "space bar", "enter": "Enter"}.get(choice.key, choice.key)
        label = f"{choice.label}  ({shown})" if choice.key and choice.key != choice.label else choice.label
        button = self._keep(gui.add_button(label, order=self._order))

        async def press(_: Any) -> None:
            clock = time.monotonic_ns()
            if screen.items:
                answers = {
                    name: None if field.value in (NONE, "") else field.value for name, field in self._fields.items()
                }
                self._later(lambda conductor: conductor.fill(answers, clock, serial=serial))
            elif screen.asks_number and choice.value == showing.NUMBER:
                text = str(self._fields["number"].value)
                self._later(lambda conductor: conductor.enter_number(text, clock, serial=serial))
            else:
                self._later(lambda conductor: conductor.press(choice.value, clock, serial=serial))

        async def press_key(event: Any) -> None:
            clock = time.monotonic_ns()
            self._later(lambda conductor: conductor.press(choice.value, clock, by="key", serial=serial))

        button.on_click(press)
        if choice.key:
            command = self._keep(
                gui.add_command(choice.label, hotkey=choice.key.upper() if len(choice.key) == 1 else choice.key)
            )
            command.on_trigger(press_key)

    def stop(self) -> None:
        """End the page."""
        with contextlib.redirect_stdout(io.StringIO()):  # it says that, too
            self._stop()


class ExperimenterPage:
    """Page of the experimenter.

    Args:
        title: of the page.
        port: where it is.
        later: leaves what was done to the thread of the session.
        close: ends the pages of a session that has ended.
    """

    def __init__(self, title: str, port: int, later: Later, close: Callable[[], object]):
        self.server = panel_server(port, f"Experimenter: {title}")
        self.address = address_of(self.server, port)
        gui = self.server.gui
        self._text = gui.add_markdown("")
        self._reason = gui.add_text(
            "reason", "", hint="why a trial is repeated or dropped, or the session paused or ended"
        )
        for word, label in BUTTONS:
            gui.add_button(label).on_click(self._handler(word, later))
        self._close = gui.add_button("Close the pages", visible=False)

        @self._close.on_click
        async def _(_: Any) -> None:
            close()

        self._problem = gui.add_markdown("")
        self._drawn = 0.0

    def _handler(self, word: str, later: Later) -> Callable[[Any], Any]:
        async def handle(_: Any) -> None:
            reason = str(self._reason.value)
            later(lambda conductor: self._answer(conductor.control(word, reason)))

        return handle

    def _answer(self, problem: str) -> None:
        """Say why something was not done."""
        self._problem.content = f"**{problem}**" if problem else ""
        if not problem:
            self._reason.value = ""

    def show(self, conductor: Conductor) -> None:
        """Show the state of the session, a few times a second."""
        now = time.monotonic()
        if now < self._drawn + REDRAWN:
            return
        self._drawn = now
        if self._text.content != (text := conductor.text):
            self._text.content = text
        if self._close.visible != conductor.ended:
            self._close.visible = conductor.ended

    def stop(self) -> None:
        """End the page."""
        with contextlib.redirect_stdout(io.StringIO()):  # it says that, too
            self.server.stop()
