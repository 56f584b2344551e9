"""Sender of a pointer's events, and the answers of a trial.

A sender numbers the events, and repeats the last as long as somebody is there to hold. The trial publishes each event
that took effect.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

import numpy as np

from haptic_sim.messages import GRAB, HAND, MOVE, RELEASE, OperatorEvent

REPEATED = 0.1  # [s] between two signs of a pointer that rests
AT_REST = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


class Sender:
    """Sends the events of one person; may be called from any thread.

    Args:
        publish: takes a serialised OperatorEvent, for the topic operator_events_in.

    Attributes:
        source: its number, which its events have.
        holds: whether it has taken hold; whether the trial lets it is in `Answers`.
    """

    def __init__(self, publish: Callable[[bytes], object]):
        self._publish, self._lock = publish, threading.Lock()
        self._event = OperatorEvent()
        self._event.tick = -1
        self.source = self._event.source = int.from_bytes(os.urandom(4), "little")
        self.holds = False

    def grab(self, point: Sequence[float] = (0.0, 0.0, 0.0), *, oriented: bool = True, body: int = HAND) -> None:
        """Take hold of a point in the axes of a body [m]; `oriented`: of the body's orientation, too."""
        with self._lock:
            event = self._event
            event.point[:], event.oriented, event.body = point, oriented, body
            self.holds = True
            self._send(GRAB, AT_REST)

    def move(self, pose: Sequence[float] | np.ndarray) -> None:
        """The pointer has moved by this since it took hold: displacement [m] and quaternion x y z w (7,)."""
        with self._lock:
            if self.holds:
                self._send(MOVE, pose)

    def repeat(self) -> None:
        """A sign that the pointer is still there; to be called every REPEATED seconds."""
        with self._lock:
            if self.holds:
                self._send(MOVE, self._event.pose)

    def release(self) -> None:
        """Let go."""
        with self._lock:
            if self.holds:
                self.holds = False
                self._send(RELEASE, AT_REST)

    def _send(self, phase: int, pose: Sequence[float] | np.ndarray) -> None:
        event = self._event
        event.phase, event.pose[:] = phase, pose
        event.sequence = (event.sequence + 1) % 2**32
        self._publish(event.to_bytes())


class Answers:
    """Answers of a trial to a sender: whether its events are received, and whether it holds."""

    def __init__(self, sender: Sender):
        self._sender, self._event = sender, OperatorEvent()
        self._event.phase = RELEASE

    def take(self, data: bytes) -> None:
        """An event that took effect, of any sender, serialised: on the topic operator_events."""
        self._event.load(data)

    def text(self, listeners: Sequence[str]) -> str:
        """State of the pointer in words, where some nodes subscribe to the events."""
        if not listeners:
            return "the events are not received: the trial has ended"
        received, held = f"received by {', '.join(listeners)}", self._event.phase != RELEASE
        if held and self._event.source == self._sender.source:
            return f"{received}: holds"
        if held:
            return f"{received}: another pointer holds the hand"
        if self._sender.holds:
            return f"{received}: does not hold; the trial is paused, or has let go: let go, too, and move again"
        return f"{received}: holds nothing"
