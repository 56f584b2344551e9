"""A person in the place of the terminal of `haptics bring-up`, at a device of this process or at a vendor's stand-in.

The device of this process has a clock of its own while it is moved, a millisecond a reading: a machine that stalls
neither makes it jump nor lets it seem slow.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import yaml
from bring_up_person import ALL, rotation
from fake_hardware import DATA, Connection, Fake

from haptic_bench.commands import bring_up, command_line
from haptic_drivers.bring_up import push, session
from haptic_drivers.bring_up.steps import SPACE, Motion
from haptic_drivers.devices.interface import Reading
from haptic_drivers.hardware import HardwareDeviceParameters
from haptic_sim.spatial import quat_from_matrix

__all__ = ["Connection", "build"]  # of a driver's module
IDENTITY = np.eye(3)
STEPS = 100  # of a motion, of a millisecond each
SLOW = 1.0  # [s] of a motion at a stand-in
MILLISECOND = 1_000_000  # [ns]


class State(NamedTuple):
    """Position (3,), rotation (3, 3) and twist (6,) of the hand in the base, and the button that is pressed."""

    p: np.ndarray
    R: np.ndarray
    twist: np.ndarray
    button: str = ""


class Clocked(Fake):
    """A device that is moved along `path`, a state a reading; `feel` gets each force that is written."""

    last: Clocked

    def __init__(self, device: HardwareDeviceParameters):
        super().__init__(device)
        self.path: deque[State] = deque()
        self.feel: Callable[[np.ndarray], object] = lambda force: None
        self.stamp = 0
        Clocked.last = self

    def read(self, reading: Reading) -> bool:
        now = time.monotonic_ns()
        moved = bool(self.path)
        if moved:
            state = self.path.popleft()
            self.pose[:3], self.twist[:] = state.p, state.twist
            quat_from_matrix(np.ascontiguousarray(state.R), self.pose[3:])
            self.pressed = [int(name == state.button) for name in DATA["buttons"]]
        self.stamp = self.now = min(now, self.stamp + MILLISECOND) if moved and self.stamp else now
        return super().read(reading)

    def write(self, wrench: np.ndarray) -> None:
        super().write(wrench)
        self.feel(wrench[:3])


def build(device: HardwareDeviceParameters, connection: Connection) -> Clocked:
    return Clocked(device)


def write_data(folder: Path, **keys: Any) -> Path:
    """The data of the device of this process; a machine with other work stalls for long."""
    data = {**DATA, "module": "bring_up_hands", "sensed": list(ALL), "aligned": "start"} | keys
    del data["name"]
    path = folder / "clocked.yaml"
    path.write_text("# what is known of it\n" + yaml.safe_dump({**data, "watchdog": 1.0, "reading_watchdog": 1.0}))
    return path


class Hands:
    """Does what is asked, and answers.

    Args:
        R_BW: how the base is turned.
        motions: in space or in the plane.

    Attributes:
        acts: what a force in the world is on the hand, (3, 3) times it.
        largest: of the force in each direction of the world [N]; early: whether there was one before presence.
        when_pushed: called when there is a force.
    """

    def __init__(self, R_BW: np.ndarray = IDENTITY, motions: tuple[Motion, ...] = SPACE):
        self.R_BW, self.motions, self.acts = R_BW, motions, IDENTITY
        self.p, self.R, self.felt, self.largest = np.zeros(3), np.eye(3), np.zeros(3), np.zeros(3)
        self.asked: list[str] = []
        self.start = self.p, self.R
        self.agrees, self.early = "", False
        self.when_pushed: Callable[[], object] = lambda: None

    def feel(self, force: np.ndarray) -> None:
        """A force in the base (3,) [N]."""
        felt = self.acts @ self.R_BW.T @ force
        self.largest = np.maximum(self.largest, np.abs(felt))
        self.early |= bool(felt.any()) and not any("answer: held" in one for one in self.asked)
        if np.abs(felt).max() > np.abs(self.felt).max():
            self.felt = felt
        if felt.any():
            self.when_pushed()

    def move(self, states: list[State]) -> None:
        """Move the device along these."""
        device = Clocked.last
        device.feel = self.feel
        device.path.extend(states)
        while device.path and device.is_open:
            time.sleep(1e-3)

    def states(self, question: str) -> Iterator[State]:
        """The motion that is asked for."""
        A = self.R_BW
        if asked := re.match(r"move (?:the handle|it back)(?: ([\d.]+) m)? (?:to the )?(\w+)", question):
            self.distance = float(asked[1] or self.distance)
        along = self.distance * self.names[asked[2]] if asked else np.zeros(3)
        axis = np.array((0, 0, 1.0) if "about the vertical" in question else (float("tip the" in question), 0, 0))
        if along.any() or axis.any():
            p, R, duration = self.p.copy(), self.R.copy(), 1e-3 * STEPS
            for s in np.arange(1, STEPS + 1) / STEPS:
                share, rate = s * s * (3.0 - 2.0 * s), 6.0 * s * (1.0 - s) / duration
                self.p, self.R = p + share * along, rotation(axis, 0.5 * np.pi * share) @ R
                yield State(A @ self.p, A @ self.R, np.concatenate((A @ along, 0.5 * np.pi * A @ axis)) * rate)
        if button := re.match(r"press the button (\w+)", question):
            for name in ("", button[1], ""):
                yield from [State(A @ self.p, A @ self.R, np.zeros(6), name)] * 5

    @property
    def names(self) -> dict[str, np.ndarray]:
        found = {one.name: np.array(one.direction) for one in self.motions}
        return found | {one.opposite: -np.array(one.direction) for one in self.motions}

    def ask(self, question: str, given_up: Callable[[], bool]) -> str | None:
        """In the place of `Answers.ask`."""
        self.asked.append(question)
        self.start = self.p, self.R
        self.move(list(self.states(question)))
        felt, self.felt = self.felt, np.zeros(3)
        if "which way" in question:
            return f"{max(self.names, key=lambda one: self.names[one] @ felt)}\n" if felt.any() else "none\n"
        return "held\n" if "answer: held" in question else f"{self.agrees}\n" if "Answer: yes" in question else "\n"

    @contextmanager
    def __call__(self, file: str | None) -> Iterator[Hands]:
        """In the place of `Answers`."""
        yield self


class HandsAtStand(Hands):
    """At a vendor's stand-in: `show` puts it somewhere, `force` is on the hand (3,) [N] in the base; in real time."""

    patience = 5  # repetitions of motions whose velocity a machine that stalls has spoiled

    def ask(self, question: str, given_up: Callable[[], bool]) -> str | None:
        if "velocity: " in question and self.patience:
            self.patience -= 1
            return "again\n"
        return super().ask(question, given_up)

    def __init__(self, show: Callable[[State], None], force: Callable[[], np.ndarray], *given: Any):
        super().__init__(*given)
        self.show, self.force = show, force
        show(State(self.R_BW @ self.p, self.R_BW @ self.R, np.zeros(6)))

    def move(self, states: list[State]) -> None:
        """At a steady speed, as far as that has led when the next state is shown: a machine that stalls moves it on."""
        if any(state.button for state in states):
            for state in states:
                self.show(state)
                time.sleep(5e-3)
        elif states:
            twist = sum(state.twist for state in states) / (1e3 * SLOW)  # whose integral over SLOW is the motion
            A, p, R, began, elapsed = self.R_BW, self.start[0], self.start[1], time.monotonic(), 0.0
            turn = np.linalg.norm(twist[3:])
            axis = A.T @ twist[3:] / turn if turn else np.zeros(3)
            while elapsed < SLOW:
                self.p, self.R = p + elapsed * A.T @ twist[:3], rotation(axis, elapsed * turn) @ R
                self.show(State(A @ self.p, A @ self.R, twist))
                time.sleep(1e-3)
                elapsed = time.monotonic() - began
            self.p, self.R = p + elapsed * A.T @ twist[:3], rotation(axis, elapsed * turn) @ R
            self.show(State(A @ self.p, A @ self.R, np.zeros(6)))
        time.sleep(0.05)

    @contextmanager
    def __call__(self, file: str | None) -> Iterator[Hands]:
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(2e-3):
                self.feel(self.force())

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield self
        finally:
            ended.set()
            thread.join()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run the command, answered by a person whose pauses are short; the exit status."""
    monkeypatch.setattr(session, "REST", 0.3)
    monkeypatch.setattr(push, "PAUSE", 0.1)
    monkeypatch.setattr(push, "DURATION", 0.3)

    def run(hands: Hands, *arguments: str) -> int:
        monkeypatch.setattr(bring_up, "Answers", hands)
        return command_line.main(["bring-up", *arguments])

    return run
