"""CRTK, the convention of surgical and medical robots: the states and commands of a device, and its commanded wrench.

Source: "Collaborative Robotics Toolkit", API of operating state and of robot motion (crtk-robotics.readthedocs.io).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from haptic_control.parameters import ControllerParameters
from haptic_sim import messages
from haptic_sim.messages import MessageError, Reason
from haptic_sim.parameters import quantity

STATES = tuple(name.upper() for name in messages.STATES)
"""Names of a DeviceState's states, as the convention has them."""

ALLOWED: dict[str, tuple[str, ...]] = {
    "enable": ("DISABLED", "FAULT"),
    "disable": ("ENABLED", "PAUSED", "FAULT"),
    "pause": ("ENABLED",),
    "resume": ("PAUSED",),
    "home": ("DISABLED",),
}
"""The states in which a command asks something of the driver. In FAULT that is a retry: while the fault lasts, so does
the state. No command leads to FAULT."""

TARGETS = {"enable": "ENABLED", "disable": "DISABLED", "pause": "PAUSED", "resume": "ENABLED"}
"""The state that a command leads to. In that state it is allowed, and nothing is left to do; but for resume."""


class CrtkParameters(ControllerParameters):
    """No controller of ours: clients of CRTK command the device, and no world is simulated."""

    BRIDGES: ClassVar[bool] = True
    OFFLINE: ClassVar[bool] = False

    type: Literal["crtk"] = "crtk"
    watchdog: float = quantity(
        0.05, unit="s", description="Age beyond which servo_cf is not followed and the force is zero", gt=0.0, le=1.0
    )
    state_rate: float = quantity(
        10.0, unit="Hz", description="Rate of operating_state, which is published at each change, too", gt=0.0, le=1e3
    )
    silence: float = quantity(
        1.0, unit="s", description="Time without a state of the device after which operating_state is FAULT", gt=0.0
    )

    def check(self, experiment: Any) -> list[str]:
        """Conflicts with the other sections of an experiment."""
        if experiment.relayed or experiment.hands:
            return ["controller.type = crtk: is of one device, without relay and further hands; leave these out"]
        return []


def check_command(command: str, state: str) -> bool:
    """Whether there is something to ask of the driver.

    Args:
        command: as `state_command` has it; state: one of STATES.

    Raises:
        MessageError: the command is not known, or not allowed in this state.
    """
    if command not in ALLOWED:
        raise MessageError(f"state_command {command[:40]!r}: is not known; known are {', '.join(ALLOWED)}")
    if TARGETS.get(command) == state and command != "resume":
        return False
    if state not in ALLOWED[command]:
        raise MessageError(f"state_command {command} in state {state}: is allowed in {' and '.join(ALLOWED[command])}")
    return True


class StateOfDevice:
    """The state that is published to clients, and what their commands ask of the driver.

    The driver of a hardware device has the states itself. A simulated one is always enabled: its states are kept here,
    and nothing is rendered but in ENABLED.

    Args:
        hardware: whether the driver takes requests.
    """

    def __init__(self, hardware: bool):
        self._hardware, self._own, self._homed = hardware, "ENABLED", not hardware

    def of(self, state: str, reason: int) -> tuple[str, bool]:
        """The state, and whether the device is homed.

        What is enabled knows its position; after a fault that is not known until the driver says it. A reason that says
        nothing of it, as that of an emergency stop, leaves it as it was.

        Args:
            state: of the driver, one of STATES; reason: why the device renders no force.
        """
        homed = self._homed
        if not self._hardware or state in ("ENABLED", "PAUSED"):
            homed = True
        elif state == "FAULT" or reason in (Reason.NOT_HOMED, Reason.NOT_ENABLED):
            homed = state == "DISABLED" and reason == Reason.NOT_ENABLED
        self._homed = homed  # another thread may ask of another state meanwhile
        return (self._own if state == "ENABLED" else state), homed

    def ask(self, command: str, state: str) -> str:
        """The request to the driver that a `state_command` makes, empty if there is none; arguments as `check_command`.

        Raises:
            MessageError: see there.
        """
        if (command == "home" and self._homed) or not check_command(command, state):
            return ""
        if self._hardware:
            return command
        self._own = TARGETS[command]
        return ""


class HeldWrench:
    """The wrench that a client commands with `servo_cf`, as long as it is not too old.

    Args:
        frame: in whose axes it has to be; a message without a frame is taken to be in it.
        watchdog: age beyond which it is not followed [s].
    """

    def __init__(self, frame: str, watchdog: float):
        self._frame, self._watchdog = frame, watchdog
        self._held: tuple[float, np.ndarray] | None = None  # one object: another thread reads it

    def take(self, frame: str, wrench: Sequence[float], now: float) -> None:
        """Take a wrench (6,) of the device on the hand [N, N m] that arrived at the time `now` [s].

        Raises:
            MessageError: it is in another frame, or not finite; the one before is held on.
        """
        if frame not in ("", self._frame):
            raise MessageError(f"servo_cf: frame_id is {frame[:80]!r}: must be {self._frame!r} or empty")
        if not all(map(math.isfinite, wrench)):
            raise MessageError("servo_cf: not finite")
        self._held = now, np.array(wrench, float)

    def forget(self) -> None:
        """Follow no earlier command any more."""
        self._held = None

    def at(self, now: float) -> np.ndarray | None:
        """The wrench (6,) that is to be rendered at a time [s]; None: there is none, or it is too old."""
        held = self._held
        return None if held is None or now - held[0] > self._watchdog else held[1]


class StateReport:
    """Report of `operating_state`: when it is published, and with which stamp.

    Args:
        rate: at which an unchanged state is published [Hz].
    """

    def __init__(self, rate: float):
        self._period = 1.0 / rate
        self._due, self._stamp = -math.inf, 0
        self._before: object = None

    def due(self, report: object, now: float) -> bool:
        """Whether what is to be reported has changed, or the last report is a period old; `now` [s] is monotonic."""
        if report == self._before and now < self._due:
            return False
        # on a grid: else each period would be longer by the time until somebody asks
        self._due = now + self._period if report != self._before else max(self._due + self._period, now)
        self._before = report
        return True

    def stamp(self, clock: int) -> int:
        """The time of the clock [ns], but later than the last stamp, as clients ignore a report that is not newer."""
        self._stamp = max(clock, self._stamp + 1)
        return self._stamp
