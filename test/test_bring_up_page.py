"""The page of `haptics bring-up --page`: who may open it, what it shows, and to which request an answer counts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from bring_up_hands import Clocked, Hands, run, write_data
from conftest import wait_until
from pages import client, port_of_own
from test_view_page import status

from haptic_bench.commands import bring_up, bring_up_page
from haptic_bench.commands.bring_up import Answers, Contact
from haptic_bench.commands.bring_up_page import BringUpPage, Request, View, draw_reading, draw_request, draw_steps
from haptic_drivers.bring_up.push import Push
from haptic_drivers.bring_up.session import Sample, Session
from haptic_drivers.bring_up.steps import PLANE, SPACE, Step, named_answers
from haptic_drivers.hardware import HardwareDeviceParameters

pytest.importorskip("viser", reason="viser is not installed (pip install 'haptics[view]')")
__all__ = ["run"]
HOSTILE = "<img src=x onerror=alert(1)>"


def sample(time: float = 0.0) -> Sample:
    pose = np.array([0.075, -0.15, np.nan, 0.0, 0.0, 0.0, 1.0])
    written = np.array([0.5, 0.0, 0.0])
    return Sample(time, 0.0, pose, np.zeros(6), (0, 1), 0, True, "", True, written, 0.0)


@pytest.fixture(autouse=True)
def own_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """A free port that no other test run takes at the same time."""
    monkeypatch.setattr(bring_up_page, "free_port", lambda *_: port_of_own())


@contextmanager
def visit(page: BringUpPage) -> Iterator[Any]:
    """A browser that has opened the page; it counts as one from its first camera on."""
    import msgspec

    camera: dict[str, Any] = {"wxyz": (1.0, 0, 0, 0), "position": (0.0, 0, 0), "look_at": (0.0, 0, 1)}
    camera |= {"up_direction": (0.0, 1, 0), "fov": 1.0, "near": 0.1, "far": 1.0, "image_height": 10, "image_width": 10}
    with client(page.address) as one:
        one.send(msgspec.msgpack.encode({"type": "ViewerCameraMessage", **camera}))
        wait_until(lambda: bool(page.server.get_clients()), "the browser")
        yield one


def buttons(page: BringUpPage, label: str) -> list[Any]:
    """Handles of the buttons with this label that the page shows now."""
    return [handle for handle in page._handles if hasattr(handle, "on_click") and handle.label == label]


def press(page: BringUpPage, one: Any, label: str) -> None:
    """Press a button that the page shows now."""
    [handle] = buttons(page, label)
    press_again(one, handle)


def press_again(one: Any, handle: Any, value: Any = True) -> None:
    import msgspec

    update = {"type": "GuiUpdateMessage", "uuid": handle._impl.uuid, "updates": {"value": value}}
    one.send(msgspec.msgpack.encode(update))


class Desk:
    """Requests and answers in the place of a session."""

    def __init__(self) -> None:
        self.request = Request(1, "hold it, then press Enter")
        self.taken: list[tuple[str, int]] = []
        self.steps: list[Step] = []

    def look(self) -> View:
        return View(tuple(self.steps), self.request, sample())

    def answer(self, text: str, number: int) -> bool:
        self.taken.append((text, number))
        return True


@pytest.fixture
def shown(own_port: None) -> Iterator[tuple[Desk, BringUpPage, Any]]:
    """A page that is drawn by the test alone, and a client of it."""
    desk = Desk()
    page = BringUpPage("device", ("top", "side"), desk.look, desk.answer)
    try:
        page.draw(time.monotonic() - 10.0)
        with visit(page) as one:
            yield desk, page, one
    finally:
        page.server.stop()


def test_the_answers_that_a_request_names_are_found() -> None:
    for motions in SPACE, PLANE:
        push = Push([1.0, 1.0, 1.0], np.eye(3), 1.0, 1.0, motions)
        assert named_answers(push.request) == ("held",)
        push._present, push._asking = 1, True
        push.answer("held")
        words = named_answers(push.request)
        assert words == (*(one.name for one in motions), *(one.opposite for one in motions), "none")
        push.answer(words[0])
        assert push.steps[0].passed
    assert named_answers("move it back, then press Enter") == ("",)
    assert named_answers("x: answer: 3. To repeat it answer: again; Enter ends here") == ("again", "")
    assert named_answers("it pushes once more: hold the handle firmly, and answer: held") == ("held",)
    assert named_answers("a text") == named_answers("") == ()


def test_texts_are_escaped_and_a_wrong_step_has_its_remedy() -> None:
    wrong = Step("push", HOSTILE, HOSTILE, HOSTILE, HOSTILE, False)
    for html in draw_steps([wrong]), draw_request(HOSTILE), draw_reading(sample(), ("a", HOSTILE)):
        assert "<img" not in html and "&lt;img src=x onerror=alert(1)&gt;" in html
    for name in "WRONG", "asked", "expected", "remedy":
        assert name in draw_steps([wrong])
    text = draw_reading(sample(), ("top", "side"))
    for part in (" +0.0750 m", " -0.1500 m", "nan m", "+0.500 N", "buttons: side", "nobody holds it", "left: 74.0%"):
        assert part in text
    assert "left: 2.0%" in text and "left: 50.0%" in text  # at the end of its bar; not a number
    assert "no reading" in draw_reading(None, ())


def test_the_page_is_open_to_its_own_address_alone(shown: tuple[Desk, BringUpPage, Any]) -> None:
    _, page, _ = shown
    token = urlsplit(page.address).path
    assert len(token) > 20 and status(page.address) == 101
    assert status(page.address, "/") == status(page.address, token[:-1], upgrade=False) == 403
    assert status(page.address, Origin="http://example.com") == status(page.address, Host="example.com") == 403


def test_an_answer_has_the_number_of_the_request_that_was_shown(shown: tuple[Desk, BringUpPage, Any]) -> None:
    """A click of a button of the last request, and one right after the next is shown, is not an answer to the next."""
    desk, page, one = shown
    [old] = buttons(page, "Enter")
    press_again(one, old)
    press_again(one, old)
    wait_until(lambda: len(desk.taken) == 2, "two clicks")
    assert desk.taken == [("", 1), ("", 1)]
    desk.request = Request(2, "hold the handle, and answer: held")
    page.draw(time.monotonic())
    press_again(one, old)
    press(page, one, "held")  # as the second of a double click
    [field] = [handle for handle in page._handles if handle.label == "answer"]
    press_again(one, field, "Held ")
    wait_until(lambda: field.value == "Held ", "the text, before which all clicks have arrived")
    assert len(desk.taken) == 2
    page._live = 0.0
    press(page, one, "held")
    wait_until(lambda: len(desk.taken) == 3, "the answer")
    press(page, one, "Give this answer")
    wait_until(lambda: len(desk.taken) == 4, "the answer in the field")
    assert desk.taken[2:] == [("held", 2), ("Held ", 2)]
    assert [handle.label for handle in page._handles] == ["held", "answer", "Give this answer"]
    desk.request = Request(3, "")
    page.draw(time.monotonic())
    assert page._handles == []
    page.finish("stopped: " + HOSTILE)
    page.draw(time.monotonic())
    assert not page.closed and "<img" not in page._request.content
    press(page, one, "Close the page")
    wait_until(lambda: page.closed, "the end")


def test_buttons_are_dead_until_the_request_has_been_seen(shown: tuple[Desk, BringUpPage, Any]) -> None:
    desk, page, _ = shown
    desk.request = Request(2, "hold the handle, and answer: held")
    now = time.monotonic()
    page.draw(now)
    page.draw(now + 0.9 * bring_up_page.SETTLED)
    assert all(handle.disabled for handle in page._handles)
    page.draw(now + bring_up_page.SETTLED)
    assert not any(handle.disabled for handle in page._handles)


def test_a_request_is_answered_once(tmp_path: Path) -> None:
    """The first answer counts, from wherever it comes; one for another request changes nothing."""
    data = bring_up.read_device(str(write_data(tmp_path)))
    session = Session(HardwareDeviceParameters.model_validate(data.model_dump()))
    contact = Contact(HardwareDeviceParameters.model_validate(data.model_dump()), session)
    assert not contact.answer("", contact.request.number)  # nothing is asked
    session.update(sample()._replace(pose=np.array([0.0, 0, 0, 0, 0, 0, 1.0])))
    first = contact.request
    assert first.text.startswith("hold the handle still") and contact.view().request == first
    assert not contact.answer("", first.number - 1) and not contact.answer("", first.number + 1)
    assert contact.request == first
    assert contact.answer("", first.number) and not contact.answer("", first.number)
    session.request = first.text  # it is asked for once more
    second = contact.request
    assert second.text == first.text and second.number > first.number
    assert not contact.answer("", first.number) and session.request


def test_what_was_typed_for_an_earlier_question_answers_no_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.openpty()
    typed: list[bytes] = []

    def type_later() -> bool:
        """Called while the question is shown."""
        if not typed:
            typed.append(b"right\n")
            os.write(ours, typed[0])
        return False

    with os.fdopen(theirs) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        with Answers(None) as answers:
            assert answers.ask("?", lambda: True) == ""  # answered on the page
            os.write(ours, b"held\nheld\n")
            assert answers.ask("?", type_later) == "right\n"
    os.close(ours)


class AtThePage(Hands):
    """Answers on the page, each twice."""

    pages: list[BringUpPage]

    def ask(self, question: str, given_up: Callable[[], bool]) -> str | None:
        line = super().ask(question, given_up)
        if "answer: yes" in question.lower():
            return line
        [page] = self.pages
        label = "Close the page" if "close the page" in question else (line or "").strip() or "Enter"

        def handles() -> list[Any]:
            drawn = page._drawn is not None and (page._drawn.text == question or label == "Close the page")
            return buttons(page, label) if drawn else []

        wait_until(lambda: bool(handles()) or given_up(), label)
        with visit(page) as one:
            for handle in 2 * handles():
                press_again(one, handle)
            wait_until(given_up, question)
        return ""


def test_a_device_is_brought_up_on_the_page(
    run: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hands, out = AtThePage(motions=PLANE), tmp_path / "mine.yaml"
    hands.pages = []

    def opened(*given: Any) -> BringUpPage:
        hands.pages.append(BringUpPage(*given))
        return hands.pages[-1]

    monkeypatch.setattr(bring_up, "BringUpPage", opened)
    monkeypatch.setattr(bring_up_page, "SETTLED", 0.0)
    monkeypatch.setattr(bring_up_page, "REDRAWN", 0.02)
    file = write_data(tmp_path, sensed=["x", "y"], actuated=["x", "y"], buttons=[])
    status = run(hands, str(file), "--out", str(out), "--log", str(tmp_path / "log"), "--page")
    told = capsys.readouterr()
    assert status == 0, told.out + told.err
    assert told.out.startswith(hands.pages[0].address) and out.exists()
    assert "ok    push right" in told.out and "ok    reading watchdog" in told.out
    assert not hands.early and hands.largest.any()
    assert not Clocked.last.is_open and not Clocked.last.force.any()
