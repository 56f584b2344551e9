"""A tenth of the force along each axis, after presence is confirmed; zero for ever after anything unexpected.

A push is judged by the motion that is read, where there is one, else by what the person felt.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from haptic_drivers.bring_up.steps import SPACE, Motion, Step

PART = 0.1  # of the limit of force, which is never exceeded
VISIBLE = 0.005  # [m] of motion by which a push is seen without an answer
OBLIQUE = 0.5  # motion along another axis, as a part of that along the largest, beyond which the person is asked
DURATION = 1.0  # [s] of a push
RAMP = 0.2  # [s] at its start, in which the force rises from zero
PAUSE = 1.0  # [s] before it, in which the hand comes to rest
ENABLING = 2.0  # [s] in which force has to be let through after presence is confirmed
HELD = "held"


class Safeguard:
    """Conditions that must hold while a force is rendered; the first that does not is the reason to end it.

    Args:
        watchdog: longest time between two updates [s].
        reading_watchdog: largest age of a reading [s].

    Raises:
        ValueError: a time is not finite and positive.
    """

    def __init__(self, watchdog: float, reading_watchdog: float) -> None:
        for name, value in (("watchdog", watchdog), ("reading_watchdog", reading_watchdog)):
            if not 0.0 < value < math.inf:
                raise ValueError(f"{name} = {value:g} s: must be finite and > 0")
        self._watchdog, self._reading_watchdog = watchdog, reading_watchdog
        self._was_let_through = False
        self._begun = self._last = math.nan

    def check(self, time: float, age: float, position: np.ndarray, present: int, lets_through: bool) -> str:
        """Reason why no force is allowed now; empty if one is. The arguments are those of `Push.update`."""
        if math.isnan(self._begun):
            self._begun = self._last = time
        elapsed, self._last = time - self._last, time
        self._was_let_through |= lets_through
        reasons = (
            (not 0.0 <= age <= self._reading_watchdog, f"reading {age:g} s old: at most {self._reading_watchdog:g} s"),
            (not 0.0 <= elapsed <= self._watchdog, f"commands stopped for longer than {self._watchdog:g} s"),
            (not (math.isfinite(time) and np.isfinite(position).all()), "a reading that is not finite"),
            (present == 0, "nobody holds the device"),
            (not lets_through and self._was_let_through, "the driver lets no force through any more"),
            (
                not lets_through and time - self._begun > ENABLING,
                f"the driver has let no force through for {ENABLING:g} s",
            ),
        )
        return next((reason for wrong, reason in reasons if wrong), "")


class Push:
    """Force and questions during the pushes; `update` is called with each reading, `answer` with each answer.

    Args:
        limit: of the force that the device renders, in the axes of its base (3,) [N].
        R_WB: rotation of its base in the world (3, 3), a signed permutation.
        watchdog: longest time between two updates [s].
        reading_watchdog: largest age of a reading [s].
        motions: along which the device is pushed, those without a motor excepted.

    Attributes:
        steps: of the pushes that were judged.
        stopped: why there is no force any more; empty as long as there may be one.
        confirmed: whether the person has confirmed that the device is held.
        force: to write now, in the axes of the base (3,) [N].
    """

    def __init__(
        self,
        limit: Sequence[float] | np.ndarray,
        R_WB: np.ndarray,
        watchdog: float,
        reading_watchdog: float,
        motions: Sequence[Motion] = SPACE,
    ) -> None:
        self.limit, self.R_WB = np.array(limit, dtype=float), np.array(R_WB, dtype=float)
        self._safeguard = Safeguard(watchdog, reading_watchdog)
        if not (np.isfinite(self.limit).all() and (self.limit >= 0.0).all()):
            raise ValueError(f"limit = {limit} N: must be finite and >= 0")
        if not (np.isin(self.R_WB, (-1.0, 0.0, 1.0)).all() and np.array_equal(self.R_WB @ self.R_WB.T, np.eye(3))):
            raise ValueError(f"R_WB = {self.R_WB.tolist()}: must be a signed permutation, as judge_axes returns")
        self._known = {one.name: np.array(one.direction) for one in motions}
        self._known |= {one.opposite: -np.array(one.direction) for one in motions}
        self._waiting = [one for one in motions if self.limit @ np.abs(self._in_base(one)) > 0.0]
        self.steps: list[Step] = []
        self.stopped = "" if self._waiting else "the device has no limit of force above zero along any axis"
        self.confirmed = self._asking = False
        self.force = np.zeros(3)
        self._present = 0
        self._begun = math.nan
        self._start = np.zeros(3)

    def _in_base(self, motion: Motion) -> np.ndarray:
        direction: np.ndarray = self.R_WB.T @ np.array(motion.direction)
        return direction

    @property
    def done(self) -> bool:
        """Whether nothing is left to ask, and no force will come."""
        return bool(self.stopped) or not self._waiting

    @property
    def request(self) -> str:
        """Request to the person; empty if there is none."""
        if self.done:
            return ""
        if not self.confirmed:
            return (
                f"the device will push with at most a tenth of its force ({PART * self.limit.max():.2g} N): hold the "
                f"handle loosely, and answer: {HELD}"
            )
        return f"which way did it push: {', '.join(self._known)}, or none" if self._asking else ""

    def stop(self, reason: str) -> None:
        """Zero force from now on."""
        self.force[:] = 0.0
        self.stopped = self.stopped or reason

    def answer(self, text: str) -> None:
        """Take what the person says: `held`, or the direction of the push that was felt. Other words stop."""
        word = text.strip().lower()
        if self.done:
            return
        if not self.confirmed:
            if word != HELD:
                self.stop(f"presence: {word or 'nothing'} answered, {HELD} expected")
            elif self._present == 0:
                self.stop(f"presence: {HELD} answered, but the device reads that nobody holds it, or reads nothing")
            else:
                self.confirmed = True
        elif not self._asking or word not in (*self._known, "none"):
            self.stop(f"push: {word or 'nothing'} answered, {self.request or 'no answer'} expected")
        else:
            self._judge(None if word == "none" else self._known[word], f"{word} felt")

    def update(
        self,
        time: float,
        age: float,
        position: np.ndarray,
        present: int,
        fault: str = "",
        *,
        lets_through: bool = True,
    ) -> np.ndarray:
        """The force to write now (3,) [N], in the axes of the base.

        Args:
            time: of this update [s].
            age: of the reading [s].
            position: of the hand point in the axes of the base (3,) [m].
            present: whether somebody holds the device: 1 yes, 0 no, -1 not known.
            fault: what the device reports as wrong.
            lets_through: whether the driver lets force through; a push begins when it does, and must not lose it.
        """
        self.force[:] = 0.0
        self._present = present
        if fault:
            self.stop(f"fault: {fault}")
        if self.done or not self.confirmed:
            return self.force
        if reason := self._safeguard.check(time, age, position, present, lets_through):
            self.stop(reason)
        if self.stopped or not lets_through:
            return self.force
        if self._asking:
            return self.force
        if math.isnan(self._begun):
            self._begun = time + PAUSE
        elapsed = time - self._begun
        if elapsed < 0.0:
            self._start[:] = position
            return self.force
        moved = self.R_WB @ (position - self._start)
        size = np.sort(np.abs(moved))
        if size[2] >= VISIBLE:
            if size[1] <= OBLIQUE * size[2]:
                axis = int(np.abs(moved).argmax())
                direction = np.zeros(3)
                direction[axis] = np.sign(moved[axis])
                self._judge(direction, f"moved {moved[axis]:+.3g} m along {'xyz'[axis]}")
            else:
                self._asking = True
        elif elapsed >= DURATION:
            self._asking = True
        else:
            self.force[:] = PART * min(1.0, elapsed / RAMP) * self.limit * self._in_base(self._waiting[0])
        return self.force

    def _judge(self, felt: np.ndarray | None, found: str) -> None:
        """Compare the direction that was felt or seen with that which was asked for; go on to the next if it agrees."""
        motion = self._waiting.pop(0)
        expected = np.array(motion.direction)
        self._asking, self._begun = False, math.nan
        if felt is None:
            remedy = "check that the motors are on and the amplifier is enabled"
        elif np.array_equal(felt, expected):
            remedy = ""
        elif np.array_equal(felt, -expected):
            remedy = "change the sign of the force in the driver"
        else:
            remedy = "give the force in the same axes as the position in the driver"
        asked = f"a tenth of the force: {motion.name}"
        self.steps.append(Step(f"push {motion.name}", asked, motion.name, found, remedy, not remedy))
        if remedy:
            self.stop(f"push {motion.name}: {found}, {motion.name} expected")
