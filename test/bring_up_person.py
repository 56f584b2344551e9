"""A person with a device, in simulated time: does what a first contact asks, as far as the device lets it be seen."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from fake_hardware import data

from haptic_drivers.bring_up.session import Sample, Session
from haptic_drivers.bring_up.steps import PLANE, SPACE
from haptic_sim.spatial import quat_from_matrix

PERMUTATIONS = [
    np.diag(signs).astype(float)[list(order)]
    for order in itertools.permutations(range(3))
    for signs in itertools.product((-1, 1), repeat=3)
]
ROTATIONS = [one for one in PERMUTATIONS if np.linalg.det(one) > 0.0]
ALL = ("x", "y", "z", "rx", "ry", "rz")
WATCHDOG = 0.02  # [s]
STEP = 2e-3  # [s] of simulated time
MOTION = 0.6  # [s] of a motion of the hand
LAG = 0.1  # [s] before an answer


def rotation(axis: np.ndarray, angle: float) -> np.ndarray:
    """Rodrigues' formula."""
    x, y, z = axis
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * K + (1.0 - np.cos(angle)) * K @ K


class Person:
    """Holds a device whose base is turned by R_WB, and answers a session.

    Args:
        R_WB: of the base; what is read is turned by it.
        acts: what a written force is on the hand in the world (3, 3) times it; None: as it was meant.
        change: of a reading: takes and returns pose (7,) and twist (6,) in the base.
        keys: of the device's data.
    """

    def __init__(
        self,
        R_WB: np.ndarray,
        acts: np.ndarray | None = None,
        change: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]] = lambda pose, twist: (pose, twist),
        yields: float = 2e-2,
        **keys: Any,
    ):
        device = data(**{"sensed": ALL, "watchdog": WATCHDOG, "reading_watchdog": WATCHDOG} | keys)
        self.session = Session(device)
        self.device, self.R_WB, self.change, self.yields = device, R_WB, change, yields
        self.acts = R_WB if acts is None else acts
        self.time, self.p, self.R = 0.0, np.zeros(3), np.eye(3)
        self.v, self.w, self.buttons = np.zeros(3), np.zeros(3), [0] * len(device.buttons)
        self.force, self.written, self.written_at = np.zeros(3), np.zeros(3), 0.0
        self.largest, self.asked, self.confirmed = np.zeros(3), [], False
        self.forced_early = False
        self.motions = PLANE if "z" not in device.sensed else SPACE
        self.present, self.homed, self.fault = -1, True, ""
        self._given = self._commanded = 0.0

    def sample(self) -> Sample:
        R_BW, pose = self.R_WB.T, np.zeros(7)
        pose[:3] = R_BW @ self.p
        quat_from_matrix(np.ascontiguousarray(R_BW @ self.R), pose[3:])
        pose, twist = self.change(pose, np.concatenate((R_BW @ self.v, R_BW @ self.w)))
        age = self.time - self._given
        through, buttons = self.session.wants_force and age <= WATCHDOG, tuple(self.buttons)
        known = (self.present, self.homed, self.fault, through)
        return Sample(self.time, age, pose, twist, buttons, *known, self.written.copy(), self.written_at)

    def tick(self) -> None:
        """A period: the device yields to the force, and is read."""
        session, self.time = self.session, self.time + STEP
        if not session.withholds_readings:
            self._given = self.time
        force = session.update(self.sample())
        if session.withholds_commands:  # as a driver with watchdogs does
            force = self.written if self.time - self._commanded <= WATCHDOG else np.zeros(3)
        else:
            self._commanded = self.time
        if not session.wants_force or self.time - self._given > WATCHDOG:
            force = np.zeros(3)
        if not np.array_equal(force, self.written):
            self.written_at = self.time
        self.written = force.copy()
        self.largest = np.maximum(self.largest, np.abs(force))
        self.forced_early |= bool(force.any()) and not self.confirmed
        moved = self.yields * STEP * self.acts @ force  # a hand that is viscous, without inertia
        self.p, self.v = self.p + moved, moved / STEP

    def motion(self, request: str) -> Iterator[str]:
        """Do what is asked, a period at a time; the answer comes last."""
        names = {one.name: np.array(one.direction) for one in self.motions}
        names |= {one.opposite: -np.array(one.direction) for one in self.motions}
        p, R, count = self.p.copy(), self.R.copy(), round(MOTION / STEP)
        asked = re.match(r"move (?:the handle|it back)(?: ([\d.]+) m)? (?:to the )?(\w+)", request)
        if asked:
            self._distance = float(asked[1] or self._distance)
            along, axis = self._distance * names[asked[2]], np.zeros(3)
        else:
            axis = np.array(
                (0, 0, 1.0) if "about the vertical" in request else (1.0, 0, 0) if "tip" in request else 0.0
            )
            along = np.zeros(3)
        if asked or axis.any():
            axis = np.broadcast_to(axis, 3)
            for i in range(1, count + 1):
                s = i / count
                share, rate = s * s * (3.0 - 2.0 * s), 6.0 * s * (1.0 - s) / MOTION
                self.p, self.v = p + share * along, rate * along
                self.R = rotation(axis, 0.5 * np.pi * share) @ R if axis.any() else R
                self.w = 0.5 * np.pi * rate * axis
                yield ""
            self.v, self.w = np.zeros(3), np.zeros(3)
        if button := re.match(r"press the button (\w+)", request):
            index = self.device.buttons.index(button[1])
            for pressed in (0, 1, 0):
                self.buttons[index] = pressed
                for _ in range(10):
                    yield ""
        for _ in range(round(LAG / STEP)):
            yield ""

    def word(self, request: str) -> str:
        """What the person says once the motion is over."""
        return "held" if "answer: held" in request else "none" if request.startswith("which way") else ""

    def run(self, most: float = 120.0) -> Session:
        """Until the session is over."""
        while not self.session.done and self.time < most:
            self.tick()
            if request := self.session.request:
                self.asked.append(request)
                for _ in self.motion(request):
                    self.tick()
                if self.session.request == request:
                    word = self.word(request)
                    self.confirmed |= word == "held"
                    self.session.answer(word)
        assert self.session.done
        return self.session
