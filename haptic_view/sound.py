"""The sound of contacts on a page: a knock for an impact, a scrape while contacts slide; a substitute for touch.

Browsers play nothing before the first click on a page.
"""

from __future__ import annotations

import base64
import io
import math
import time
import wave
from typing import Any

import numpy as np

from haptic_view.frame import Frame
from haptic_view.page import Page

SAMPLES = 8000  # [Hz]
KNOCK, SCRAPE = 0.12, 0.25  # [s]
TONE = 420.0  # [Hz] of a knock
AGAIN = 0.1  # [s] between two sounds
QUIET = 1e-4  # [N s] of an impact, below which there is no knock
LEAST = 0.02  # [N] of friction, below which there is no scrape


class Sound:
    """Sound of the first hand's tool.

    Args:
        page: whose tab of what is shown gets a box to switch it on.
    """

    def __init__(self, page: Page):
        gui = page.server.gui
        with page.view:
            self._on = gui.add_checkbox("sound of impacts and friction", False)
            self._html = gui.add_html("")
        self._last: tuple[float, np.ndarray] | None = None
        self._force = self._played = 0.0  # mean force of contacts in the last frame [N]; time of the last sound
        self._hardest, self._roughest = 1e-2, 1.0  # [N s], [N]: these are the loudest
        self._count = 0

    def play(self, frame: Frame, impulse: np.ndarray) -> None:
        """Sound as a frame does.

        Args:
            frame: that is drawn.
            impulse: of the contacts on the tool since the start of the trial [N s], (3,).
        """
        last, self._last = self._last, (frame.time, np.array(impulse))
        if last is None or not frame.time > last[0]:
            self._force = 0.0
            return
        elapsed, given = frame.time - last[0], float(np.linalg.norm(impulse - last[1]))
        blow = given - self._force * elapsed  # beyond what pushed all the time
        self._force = given / elapsed
        now = time.monotonic()
        if not self._on.value or now < self._played + AGAIN:
            return
        rubbed = friction(frame)
        if blow > max(QUIET, 0.3 * given):
            self._hardest = max(self._hardest, blow)
            self._play(knock(math.sqrt(blow / self._hardest)))
        elif rubbed > LEAST and now > self._played + 0.8 * SCRAPE:
            self._roughest = max(self._roughest, rubbed)
            self._play(scrape(0.3 * math.sqrt(rubbed / self._roughest)))
        else:
            return
        self._played = now

    def _play(self, samples: np.ndarray) -> None:
        """An element that plays by itself: a page shows it anew each time."""
        self._count += 1
        self._html.content = f'<audio autoplay data-number="{self._count}" src="{encoded(samples)}"></audio>'


def friction(frame: Frame) -> float:
    """Sum of the friction at the contacts that slide [N]."""
    sliding: Any = frame.contacts[frame.slides]
    force, normal = sliding["force"], sliding["normal"]
    along = np.einsum("ij,ij->i", force, normal)[:, None] * normal
    return float(np.linalg.norm(force - along, axis=1).sum())


def knock(loudness: float) -> np.ndarray:
    """A tone that dies away, from -1 to 1."""
    t = np.arange(round(KNOCK * SAMPLES)) / SAMPLES
    return np.asarray(loudness * np.sin(2.0 * math.pi * TONE * t) * np.exp(-t / (0.2 * KNOCK)))


def scrape(loudness: float) -> np.ndarray:
    """Noise that comes and goes, from -1 to 1."""
    noise = np.random.default_rng(20262).uniform(-1.0, 1.0, round(SCRAPE * SAMPLES))
    return np.asarray(loudness * noise * np.sin(np.linspace(0.0, math.pi, noise.size)))


def encoded(samples: np.ndarray) -> str:
    """A sound as the address of a WAV file, of samples from -1 to 1."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(1)
        out.setframerate(SAMPLES)
        out.writeframes((127.5 + 127.0 * np.clip(samples, -1.0, 1.0)).astype(np.uint8).tobytes())
    return f"data:audio/wav;base64,{base64.b64encode(file.getvalue()).decode()}"
