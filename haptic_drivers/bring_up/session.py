"""A first contact as a state machine: readings and answers come in, requests and forces go out.

The order is rate, position, return, velocity, zero, noise, orientation, buttons; then, after presence is confirmed, a
tenth of the force along each axis, and the watchdogs. The first step that is wrong ends it. Steps that depend on what
the person did may be repeated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from haptic_drivers.bring_up import readings as judging
from haptic_drivers.bring_up.push import HELD, PART, RAMP, Push, Safeguard
from haptic_drivers.bring_up.readings import Readings
from haptic_drivers.bring_up.steps import TURNS, Motion, Step, distance_of, motions_of
from haptic_drivers.devices.parameters import MeasuredDeviceParameters
from haptic_sim.parameters import six

REST = 2.0  # [s] in which the handle is held still
END = 0.05  # [s] before an answer, whose readings are where the handle is
SAME = 1e-6  # [s] by which the time of a reading, which is a difference of times, may be rounded
AGAIN = "again"
GRACE = 0.1  # [s] in which a watchdog may act late: a thread of the driver waits so long for another
PATIENCE = 1.0  # [s] in which a force has to begin, and by which a watchdog that does not act is late


class Sample(NamedTuple):
    """State of the device at an instant, in the axes of its base.

    Attributes:
        time: of this instant [s]; age: of the reading then [s].
        pose, twist: that were read (7,), (6,) [m, quat_xyzw; m/s, rad/s].
        buttons: 1 pressed, 0 released.
        present: whether somebody holds it: 1 yes, 0 no, -1 not known.
        homed: whether its position is absolute.
        fault: what the device reports as wrong; empty if nothing is.
        lets_through: whether the driver lets force through.
        written: last force that the device got (3,) [N]; written_at: when [s].
    """

    time: float
    age: float
    pose: np.ndarray
    twist: np.ndarray
    buttons: tuple[int, ...]
    present: int
    homed: bool
    fault: str
    lets_through: bool
    written: np.ndarray
    written_at: float


class Ended(Exception):
    """A step was wrong: nothing follows."""


Script = Generator["str | float | None", str, Any]
"""Script: yields a question, or a time to wait [s], or None: until the next sample; receives the answer."""
Attempt = Generator["str | float | None", str, tuple[list[Step], Any]]
"""A script that returns the steps that it has judged, and what was read."""


class Session:
    """The state machine of a first contact.

    Args:
        device: its data.

    Attributes:
        steps: those that are over.
        request: what is asked of the person now; empty if nothing is.
        wants_force: whether the motors are to be on; only after presence is confirmed.
        withholds_commands, withholds_readings: whether the driver is to get none, to see its watchdogs act.
        R_WB: what corrects the axes of the base (3, 3).
        done: whether it is over; stopped: why, if a step was wrong.
    """

    def __init__(self, device: MeasuredDeviceParameters) -> None:
        self._device = device
        self._motions = motions_of(device.sensed)
        if not self._motions:
            raise ValueError(f"sensed = {', '.join(device.sensed)}: must contain x, y, z, or x and y")
        assert device.bound.wrench is not None and device.bound.velocity is not None
        self._distance = distance_of(device.workspace, self._motions)
        self.steps: list[Step] = []
        self.request, self.stopped, self.done = "", "", False
        self.wants_force = self.withholds_commands = self.withholds_readings = False
        self.R_WB = np.eye(3)
        self._force, self._steady = np.zeros(3), np.zeros(3)
        self._push: Push | None = None
        self._taken: list[Sample] = []
        self._sample: Sample | None = None
        self._until = math.inf
        self._script = self._steps()
        self._begun = False

    # -- what comes in ------------------------------------------------------------------------------------------------

    def update(self, sample: Sample) -> np.ndarray:
        """Take a sample; the force to write now (3,) [N], in the axes of the base."""
        self._force[:] = 0.0
        self._sample = sample
        if self.done:
            return self._force
        if sample.fault and not self.withholds_readings:
            self.stop(f"fault: {sample.fault}")
            return self._force
        last = self._taken[-1] if self._taken else None
        if last is None or sample.time - sample.age > last.time - last.age + SAME:
            self._taken.append(sample)
        if not self._begun:
            self._begun = True
            self._advance(lambda: next(self._script))
        elif not self.request and sample.time >= self._until:
            self._advance(lambda: self._script.send(""))
        if self._push is not None and not self.done:
            push, arguments = self._push, (sample.time, sample.age, sample.pose[:3], sample.present)
            self._force[:] = push.update(*arguments, lets_through=sample.lets_through)
            self.request, self.wants_force = push.request, push.confirmed and not push.done
        elif self.wants_force:
            self._force[:] = self._steady
        return self._force

    def answer(self, text: str) -> None:
        """Take what the person answers to the request; ignored if nothing was asked."""
        if self.done or not self.request:
            return
        self.request = ""
        if self._push is not None:
            self._push.answer(text)
        else:
            self._advance(lambda: self._script.send(text.strip().lower()))

    def stop(self, reason: str) -> None:
        """Zero force from now on, for a reason."""
        if not self.done:
            self.stopped = reason
            self._end()

    def _end(self) -> None:
        self.done, self.request, self.wants_force = True, "", False
        self.withholds_commands = self.withholds_readings = False
        self._force[:] = self._steady[:] = 0.0
        if self._push is not None:
            self._push.stop(self.stopped or "over")

    def _advance(self, resume: Callable[[], str | float | None]) -> None:
        """Run the script up to its next question or wait."""
        try:
            wanted = resume()
        except (StopIteration, Ended):
            self._end()
            return
        self.request = wanted if isinstance(wanted, str) else ""
        now = self._sample.time if self._sample is not None else 0.0
        self._until = now + wanted if isinstance(wanted, float) else -math.inf if wanted is None else math.inf

    # -- the script ---------------------------------------------------------------------------------------------------

    def _steps(self) -> Script:
        still = yield from self._judged(self._hold_still)
        middle = still.pose[-1, :3].copy()
        moved = yield from self._judged(self._move)
        everything = [still, *moved]
        self._check(judging.judge_zero(middle, self._device.workspace, len(self._motions)))
        speed = self._device.bound.velocity[0]  # type: ignore[index]
        self._check(judging.judge_noise(still, everything, speed))
        for turn in self._turns():
            yield from self._judged(partial(self._turn, turn))
        for name in self._device.buttons:
            yield from self._judged(partial(self._press, name))
        yield from self._pushes()
        yield from self._watchdogs()

    def _check(self, step: Step) -> None:
        self.steps.append(step)
        if not step.passed:
            self.stopped = f"{step.name}: {step.found}; expected: {step.expected}"
            raise Ended

    def _judged(self, attempt: Callable[[], Attempt]) -> Script:
        """A step that depends on the person, until it passes or the person ends it; returns what was read."""
        while True:
            steps, found = yield from attempt()
            wrong = next((step for step in steps if not step.passed), None)
            if wrong is None:
                self.steps.extend(steps)
                return found
            question = f"{wrong.name}: {wrong.found}; expected: {wrong.expected}. Remedy: {wrong.remedy}"
            answer = yield f"{question}. To repeat it answer: {AGAIN}; Enter ends here"
            if answer != AGAIN:
                self._check(wrong)

    def _captured(self) -> Readings:
        """Readings that were taken since the last call, without the samples before."""
        taken, self._taken = self._taken, self._taken[-1:]
        time = np.array([one.time - one.age for one in taken])
        pose, twist = (np.array([getattr(one, name) for one in taken]) for name in ("pose", "twist"))
        buttons = np.array([one.buttons for one in taken]).reshape(len(taken), -1)
        return Readings(time, pose, twist, buttons)

    def _ask(self, text: str) -> Script:
        """Ask for something that ends with Enter; returns what was read meanwhile, at rest at its end."""
        self._captured()
        yield f"{text}, then press Enter"
        yield END
        return self._captured()

    def _hold_still(self) -> Attempt:
        assert self._sample is not None
        if not self._sample.homed:
            remedy = "home or calibrate it as its vendor says (docs/devices.md)"
            asked, expected = "read the device", "a device that knows its position"
            self._check(Step("homed", asked, expected, "it does not know its position", remedy, False))
        yield "hold the handle still in the middle of its workspace, then press Enter"
        self._captured()
        yield REST
        readings = self._captured()
        return [judging.judge_rate(readings, self._device.reading_watchdog)], readings

    def _move(self) -> Attempt:
        moved: list[Readings] = []
        there: list[np.ndarray] = []
        back: list[np.ndarray] = []
        for motion in self._motions:
            out = f"move the handle {self._distance:g} m {_to(motion.name)} without turning it, and hold it there"
            home = f"move it back {_to(motion.opposite)}, and hold it there"
            for text, found in ((out, there), (home, back)):
                readings = yield from self._ask(text)
                found.append(readings.pose[-1, :3] - readings.pose[0, :3])
                moved.append(readings)
        away, returned = np.array(there), np.array(back)
        axes = judging.judge_axes(0.5 * (away - returned), self._motions, self._distance)
        if axes.step.passed:
            self.R_WB = axes.R_WB
            steps = [axes.step, judging.judge_return(away, returned, self._motions), judging.judge_velocity(moved)]
            return steps, moved
        return [axes.step], moved

    def _turns(self) -> list[Motion]:
        """The turns whose axes the device measures, in the axes of its base."""
        measured = np.array([float(f"r{axis}" in self._device.sensed) for axis in "xyz"])
        return [turn for turn in TURNS if measured @ np.abs(self.R_WB.T @ np.array(turn.direction)) > 0.0]

    def _turn(self, turn: Motion) -> Attempt:
        readings = yield from self._ask(f"{turn.name} by a quarter turn, and hold it there")
        turned = judging.judge_turn(readings.pose[:, 3:], self.R_WB, turn)
        return [turned, judging.judge_velocity([readings], angular=True)], readings

    def _press(self, name: str) -> Attempt:
        readings = yield from self._ask(f"press the button {name} and release it")
        return [judging.judge_button(readings.buttons, self._device.buttons, name)], readings

    def _limit(self) -> np.ndarray:
        """Largest force in the axes of the base (3,) [N], zero where there is no motor."""
        device = self._device
        assert device.bound.wrench is not None
        limit: np.ndarray = np.minimum(device.limit(), six(device.bound.wrench)) * device.mask(device.actuated)
        return limit[:3]

    def _pushes(self) -> Script:
        device = self._device
        self._push = push = Push(self._limit(), self.R_WB, device.watchdog, device.reading_watchdog, self._motions)
        while not push.done:
            yield None
        self._push = None
        for step in push.steps:
            self._check(step)
        if push.stopped:
            self.stopped = f"push: {push.stopped}"
            raise Ended

    def _watchdogs(self) -> Script:
        """Render a steady tenth of the force, and see it end when commands, and then readings, stop."""
        limit, device = self._limit(), self._device
        forces = [limit * (self.R_WB.T @ np.array(motion.direction)) for motion in self._motions]
        force = PART * next(one for one in forces if one.any())
        for name, watchdog in (("command", device.watchdog), ("reading", device.reading_watchdog)):
            asked = f"stop the {name}s during a tenth of the force"
            longest = 1.25 * watchdog + GRACE  # a driver looks four times in that time
            expected = f"zero force within {longest:.3g} s"
            judged = partial(Step, f"{name} watchdog", asked, expected)
            answer = yield f"it pushes once more, until its {name}s stop: hold the handle firmly, and answer: {HELD}"
            if answer != HELD:
                self._check(judged(f"{answer or 'nothing'} answered", f"answer {HELD} while you hold it", False))
            yield from self._render_steadily(force, judged)
            assert self._sample is not None
            begun, sample = self._sample.time, self._sample
            self.withholds_commands, self.withholds_readings = name == "command", name == "reading"
            while sample.written.any() and sample.time - begun <= watchdog + PATIENCE:
                yield None
                sample = self._sample
            self.withholds_commands = self.withholds_readings = self.wants_force = False
            self._steady[:] = 0.0
            if sample.written.any():
                self._check(
                    judged(f"a force after {watchdog + PATIENCE:g} s", "report this: it is an error of haptics", False)
                )
            elapsed, remedy = max(0.0, sample.written_at - begun), "look for what delays this machine: haptics doctor"
            passed = elapsed <= longest
            self._check(judged(f"zero force after {elapsed:.3g} s", "" if passed else remedy, passed))

    def _render_steadily(self, force: np.ndarray, judged: Callable[[str, str, bool], Step]) -> Script:
        """Bring the force (3,) [N] of the base to the device, until it has got it."""
        safeguard = Safeguard(self._device.watchdog, self._device.reading_watchdog)
        self.wants_force, begun = True, math.nan
        while True:
            yield None
            sample = self._sample
            assert sample is not None
            arguments = (sample.time, sample.age, sample.pose[:3], sample.present, sample.lets_through)
            reason = safeguard.check(*arguments)
            if not reason and sample.lets_through:
                begun = sample.time if math.isnan(begun) else begun
                elapsed = sample.time - begun
                self._steady[:] = min(1.0, elapsed / RAMP) * force
                if elapsed >= 2.0 * RAMP and sample.written.any():
                    return
                if elapsed > PATIENCE:
                    reason = "no force was written"
            if reason:
                self._check(judged(reason, "repeat it; else look for what delays this machine: haptics doctor", False))


def _to(name: str) -> str:
    return f"to the {name}" if name in ("right", "left") else name
