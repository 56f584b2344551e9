"""The sound of contacts: impacts knock as hard as they are, sliding scrapes, a force that lasts is silent."""

from __future__ import annotations

import base64
import contextlib
import io
import wave
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from haptic_sim.messages import CONTACT
from haptic_view import sound
from haptic_view.frame import Frame

PERIOD = 1.0 / 30.0  # [s] of frames


class Listener:
    """A page that plays what it is given; its clock is that of the frames."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.on, self.html, self.now = SimpleNamespace(value=True), SimpleNamespace(content=""), 0.0
        gui = SimpleNamespace(add_checkbox=lambda *_: self.on, add_html=lambda _: self.html)
        page: Any = SimpleNamespace(server=SimpleNamespace(gui=gui), view=contextlib.nullcontext())
        self._sound, self._impulse = sound.Sound(page), np.zeros(3)
        monkeypatch.setattr(sound, "time", SimpleNamespace(monotonic=lambda: 100.0 + self.now))

    def play(self, force: float, rubbed: float = 0.0) -> float:
        """A frame with a mean force along x [N]; loudness of what it plays, 0 if it is silent."""
        self.now += PERIOD
        self._impulse[0] += PERIOD * force
        contacts = np.zeros(1, CONTACT)
        contacts["normal"], contacts["force"] = (1, 0, 0), (force, rubbed, 0)
        slides = np.array([rubbed > 0.0])
        frame = Frame(round(1e3 * self.now), self.now, np.zeros((0, 7)), (), contacts, slides)
        self.html.content = ""
        self._sound.play(frame, self._impulse)
        if not self.html.content:
            return 0.0
        with wave.open(io.BytesIO(base64.b64decode(self.html.content.split("base64,")[1].split('"')[0]))) as file:
            samples = np.frombuffer(file.readframes(file.getnframes()), np.uint8)
        return float(np.abs(samples - 127.5).max() / 127.5)


def test_impacts_knock_and_a_force_that_lasts_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener(monkeypatch)
    assert listener.play(0.0) == listener.play(0.0) == 0.0
    hard = listener.play(3.0)  # 0.1 N s in a frame
    assert hard > 0.5
    assert [listener.play(3.0) for _ in range(20)] == 20 * [0.0]
    [listener.play(0.0) for _ in range(5)]
    soft = listener.play(0.3)
    assert 0.1 < soft < 0.6 * hard
    assert [listener.play(0.0) for _ in range(5)] == 5 * [0.0]
    listener.on.value = False
    assert listener.play(3.0) == 0.0


def test_sliding_scrapes_as_long_as_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener(monkeypatch)
    listener.play(0.0)
    [listener.play(1.0) for _ in range(10)]
    heard = [listener.play(1.0, rubbed=0.5) for _ in range(30)]
    played = [loudness for loudness in heard if loudness]
    assert 3 <= len(played) <= 6 and all(0.05 < loudness < 0.35 for loudness in played)
    assert not any(listener.play(1.0) for _ in range(10))
