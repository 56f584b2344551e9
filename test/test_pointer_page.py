"""The hand on a page: what a person does with mouse and keys in a real browser arrives as the events of a pointer."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import browser
import numpy as np
import pytest
from conftest import wait_until
from offline_runs import run_unrecorded
from pages import port_of_own

from haptic_bench import experiment
from haptic_bench.experiment.shown import build_scene
from haptic_drivers.events import recorded_events, write_events
from haptic_drivers.pointing import Sender
from haptic_sim.messages import GRAB, MOVE, RELEASE, OperatorEvent

pytest.importorskip("viser", reason="viser is not installed (pip install 'haptics[view]')")

BROWSER = browser.require()


class Screen:
    """The middle of the page's canvas, and a mouse on it."""

    def __init__(self, page: browser.Browser):
        self._page = page
        page.wait("!!document.querySelector('canvas')")
        box = page.evaluate("(({x, y, width, height}) => [x, y, width, height])"
                            "(document.querySelector('canvas').getBoundingClientRect())")  # fmt: skip
        self.middle = np.array([box[0] + 0.5 * box[2], box[1] + 0.5 * box[3]])
        self._held = 0

    def mouse(self, kind: str, way: tuple[float, float], modifiers: int = 0) -> None:
        x, y = self.middle + way
        self._held = 1 if kind == "mousePressed" else 0 if kind == "mouseReleased" else self._held
        button = "left" if self._held or kind == "mouseReleased" else "none"
        self._page.call(
            "Input.dispatchMouseEvent",
            type=kind,
            x=float(x),
            y=float(y),
            button=button,
            buttons=self._held,
            clickCount=1,
            modifiers=modifiers,
        )

    def drag(self, way: tuple[float, float], modifiers: int = 0, steps: int = 4) -> None:
        """Press in the middle and move; the button stays down."""
        self.mouse("mouseMoved", (0.0, 0.0), modifiers)
        time.sleep(0.3)
        self.mouse("mousePressed", (0.0, 0.0), modifiers)
        for i in range(1, steps + 1):
            self.mouse("mouseMoved", (way[0] * i / steps, way[1] * i / steps), modifiers)
            time.sleep(0.1)

    def press(self, key: tuple[str, int], done: Callable[[], bool]) -> None:
        """Press a key until it is seen: the page has no keys until it has received its controls."""
        until = time.monotonic() + 60.0
        while not done():
            assert time.monotonic() < until, f"{key[0]} does not arrive"
            for kind in ("rawKeyDown", "keyUp"):
                self._page.call(
                    "Input.dispatchKeyEvent", type=kind, key=key[0], code=key[0], windowsVirtualKeyCode=key[1]
                )
            pause = time.monotonic() + 2.0
            while time.monotonic() < pause and not done():
                time.sleep(0.05)


@pytest.mark.exhaustive
@pytest.mark.long
def test_drags_and_keys_are_events_of_the_hand(tmp_path: Path) -> None:
    """A drag to the right, one that turns, and a key; who closes the browser lets go."""
    from haptic_view.page import HOST, Page
    from haptic_view.pointer import Pointer

    [trial] = experiment.load("corner_peg", ["operator={type: pointer}"])
    scene = build_scene(trial)
    page = Page(scene, HOST, port_of_own())
    sent: list[bytes] = []
    pointer = Pointer(page, Sender(sent.append), oriented=trial.moves_freely)
    assert trial.moves_freely
    place = np.array(trial.hand.pose)
    for handle in (page.tools[""], page.devices[""]):
        handle.position, handle.wxyz = place[:3], np.roll(place[3:], 1)
    page.devices[""].visible = True
    for handle, pose in zip(page.bodies.values(), scene.poses, strict=True):
        handle.position, handle.wxyz = pose[:3], np.roll(pose[3:], 1)
    camera = page.server.initial_camera
    camera.look_at, camera.position = tuple(place[:3]), tuple(place[:3] + [0.0, 0.0, 3.0 * scene.size])
    camera.up = (0.0, 1.0, 0.0)  # a view along z does not tell what is up by z

    def events() -> list[OperatorEvent]:
        found = []
        for data in list(sent):
            event = OperatorEvent()
            event.load(data)
            found.append(event)
        return found

    def phase() -> int:
        return events()[-1].phase if sent else -1

    def moved() -> bool:
        return phase() == MOVE and bool(np.abs(events()[-1].pose[:6]).max() > 1e-4)

    try:
        with browser.Browser(page.address, tmp_path / "profile") as shown:
            shown.wait("document.body?.innerText.includes('hold the orientation')")
            shown.wait("window.__scenes.length > 0")
            time.sleep(1.0)  # for the first frames of a software renderer
            screen = Screen(shown)
            screen.drag((80.0, 0.0))
            wait_until(moved, "a drag")
            screen.mouse("mouseReleased", (80.0, 0.0))
            wait_until(lambda: phase() == RELEASE, "its end")
            first = events()
            assert first[0].phase == GRAB and first[0].oriented and first[0].body == -1
            assert [event.phase for event in first[1:-1]] == (len(first) - 2) * [MOVE]
            way = first[-2].pose
            assert way[0] > 0.1 * scene.size and abs(way[1]) < 0.1 * way[0]  # y is up on the screen
            np.testing.assert_array_equal(way[3:], [0.0, 0.0, 0.0, 1.0])
            assert all(event.sequence == i + 1 for i, event in enumerate(first))

            sent.clear()
            screen.drag((60.0, 0.0), modifiers=2)  # Ctrl
            wait_until(moved, "a drag that turns")
            turned = events()[-1].pose
            screen.mouse("mouseReleased", (60.0, 0.0))
            wait_until(lambda: phase() == RELEASE, "its end")
            assert not turned[:3].any() and turned[5] > 0.01 and np.abs(turned[3:5]).max() < 1e-9

            up, escape = ("ArrowUp", 38), ("Escape", 27)
            sent.clear()
            screen.press(up, moved)
            way = events()[1].pose
            assert phase() == MOVE and events()[0].phase == GRAB
            assert np.linalg.norm(way[:3]) == pytest.approx(0.04 * scene.size) and way[1] > 0.9 * 0.04 * scene.size
            screen.press(escape, lambda: phase() == RELEASE)

            (before,) = page.server.get_clients()
            page.server._websock_server.disconnect_all_clients()  # the page connects again by itself
            wait_until(lambda: set(page.server.get_clients()) not in (set(), {before}), "the page again")
            sent.clear()
            screen.press(up, moved)  # what is up depends on where viser puts the camera of a page that came back
            assert events()[0].phase == GRAB
            assert np.linalg.norm(events()[1].pose[:3]) == pytest.approx(0.04 * scene.size)
            pointer.repeat()
            assert phase() == MOVE
        wait_until(lambda: phase() == RELEASE, "the release of a browser that is closed")
    finally:
        page.stop()

    # what was done moves the hand of a trial, and no force is left
    for i, event in enumerate(first):
        event.tick = 20 + 15 * i
    table = recorded_events([event.to_bytes() for event in first], trial.experiment.rate)
    (tmp_path / "events.csv").write_text(write_events(table))
    settings = [f"operator={{type: pointer, events: {tmp_path / 'events.csv'}}}"]
    [again] = experiment.load("corner_peg", settings, duration=float(table[-1, 0]) + 0.1)
    samples = run_unrecorded(again)
    assert samples["hand_px"].max() - samples["hand_px"][0] > 0.01 * scene.size
    force = np.abs(samples.wrench("operator")).max(axis=1)
    assert force.max() > 0.05 and not force[samples["time"] > table[-1, 0] + 0.025].any()
