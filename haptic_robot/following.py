"""Whether, where to and how fast an arm follows a hand, and whether the hand feels it.

The hand's pose h is that of the tool which it holds in the virtual world, p(k) is what the arm is commanded, in the
axes of its base, and x what the arm says of itself. The arm follows

    position     p_d = p_0 + s (h - h_0)
    orientation  R_d(k) = exp(s_r log(R_h(k) R_h(k-1)^T)) R_d(k-1)

from the alignment on: h_0 and p_0, R_d(0) are the poses of hand and command when it began, so it begins without a
jump whatever hand and arm were doing before. Turns are added up tick by tick, each the shorter way, so that a scaled
rotation has no jump at half a turn. p_d is clamped to a box, and p approaches the result by at most v_max T and
w_max T in a tick.

| state | when | the arm | the hand |
| --- | --- | --- | --- |
| WAITING | no feedback of the arm has come yet | nothing is commanded | no force |
| STALE | the last feedback is too old | holds the command | no force |
| DISPLACED | the arm is further from its command than allowed | the command comes to it, at bounded speed | no force |
| ABSENT | nobody holds the device, or the hand is too old | holds the command | no force |
| RELEASED | the clutch is open | holds the command | no force |
| FOLLOWING | none of these | follows | feels it, from zero on over `fade` |

The states are tested in this order. STALE and ABSENT pass by themselves, with a new alignment. DISPLACED is what
somebody else, a limit of the arm or an obstacle does to it; it ends when the command has come to the arm, and the
hand has let go or opened the clutch: until it asks again, nothing follows it.

The commanded wrench is bounded in size and rate, and is zero at once in every state but FOLLOWING.

Ages grow by the time since the last tick, whatever a period is: a tick that comes late ends what has become too old.
Command, wrench and gain change in a tick by no more than is allowed in that time, nor in a period: ticks that are made
up for in a burst do not let the arm jump.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from pydantic import model_validator

from haptic_sim.kernels import kernel
from haptic_sim.parameters import Parameters, PositivePair, quantity
from haptic_sim.spatial import advance_pose, rotation_difference


class Following(IntEnum):
    """Response of an arm to a hand; see the module."""

    WAITING = 0
    STALE = 1
    DISPLACED = 2
    ABSENT = 3
    RELEASED = 4
    FOLLOWING = 5


class FollowingParameters(Parameters):
    """Limits within which an arm may follow a hand."""

    scale: PositivePair = quantity(
        (1.0, 1.0), description="Displacement, and rotation, of the arm for that of the hand: translation, rotation"
    )
    speed: PositivePair = quantity(
        (0.25, 1.0), unit="m/s, rad/s", description="Largest speed of what the arm is commanded: linear, angular"
    )
    lower: tuple[float, float, float] = quantity(
        (-2.0, -2.0, -2.0), unit="m", description="Lower corner of where the tool is commanded, in the arm's base"
    )
    upper: tuple[float, float, float] = quantity(
        (2.0, 2.0, 2.0), unit="m", description="Upper corner of where the tool is commanded, in the arm's base"
    )
    deviation: PositivePair = quantity(
        (0.1, 0.5),
        unit="m, rad",
        description="Distance of the arm from its command beyond which it is not followed any more",
    )
    start: tuple[float, float, float] | None = quantity(
        None,
        unit="m",
        description="Position that the tool must have at first, in the arm's base, to `deviation`; null: anywhere",
    )
    feedback_watchdog: float = quantity(
        0.04, unit="s", description="Age beyond which nothing that the arm has sent counts", gt=0.0, le=1.0
    )
    hand_watchdog: float = quantity(
        0.05, unit="s", description="Age beyond which the arm does not follow a hand", gt=0.0, le=1.0
    )
    fade: float = quantity(0.2, unit="s", description="Time in which the force of the arm grows from zero", ge=0.0)
    wrench: PositivePair = quantity(
        (50.0, 10.0), unit="N, N m", description="Largest wrench that is commanded: force, torque"
    )
    wrench_rate: PositivePair = quantity(
        (500.0, 100.0), unit="N/s, N m/s", description="Largest rate of change of the commanded wrench"
    )

    @model_validator(mode="after")
    def _ordered(self) -> FollowingParameters:
        """Check the corners of the box."""
        for axis, low, high in zip("xyz", self.lower, self.upper, strict=True):
            if not low < high:
                raise ValueError(f"upper: {high:g} m along {axis}: must be above lower, {low:g} m")
        return self


class Hand(NamedTuple):
    """The hand at the beginning of a tick.

    Attributes:
        pose: (7,) [m, quat_xyzw], in the axes of the arm's base.
        age: of the pose [s].
        present: whether somebody holds the device.
        closed: whether the clutch is.
    """

    pose: np.ndarray
    age: float = 0.0
    present: bool = True
    closed: bool = True


@kernel
def approach(pose, wanted, farthest, turn, work):
    """Move `pose` (7,) towards `wanted` (7,) by at most `farthest` [m] and `turn` [rad], the shorter way round.

    Args:
        work: (6,), for the kernel.

    Returns:
        whether it has arrived.
    """
    square = 0.0
    for i in range(3):
        work[i] = wanted[i] - pose[i]
        square += work[i] * work[i]
    rotation_difference(wanted[3:], pose[3:], work[3:])
    distance = math.sqrt(square)
    angle = math.sqrt(work[3] * work[3] + work[4] * work[4] + work[5] * work[5])
    for i in range(3):
        work[i] *= 1.0 if distance <= farthest else farthest / distance
        work[3 + i] *= 1.0 if angle <= turn else turn / angle
    advance_pose(work, 1.0, pose)
    return distance <= farthest and angle <= turn


@kernel
def speed_towards(pose, wanted, rate, fastest, twist):
    """Fill `twist` (6,) [m/s, rad/s] with what moves `pose` (7,) towards `wanted` (7,) as exp(-rate t).

    Args:
        rate: [1/s].
        fastest: largest speeds, linear and angular (2,).
    """
    for i in range(3):
        twist[i] = rate * (wanted[i] - pose[i])
    rotation_difference(wanted[3:], pose[3:], twist[3:])
    for i in range(3, 6):
        twist[i] *= rate
    for part in range(2):
        first = 3 * part
        size = math.sqrt(
            twist[first] * twist[first] + twist[first + 1] * twist[first + 1] + twist[first + 2] * twist[first + 2]
        )
        if size > fastest[part]:
            for i in range(first, first + 3):
                twist[i] *= fastest[part] / size


@kernel
def bound_rate(wrench, wanted, largest, steps):
    """Move `wrench` (6,) towards `wanted` (6,) [N, N m], within bounds of force and torque, and of their changes.

    Args:
        largest: size of the force and of the torque (2,).
        steps: size of their changes (2,).
    """
    for part in range(2):
        first, size = 3 * part, 0.0
        for i in range(first, first + 3):
            size += wanted[i] * wanted[i]
        size = math.sqrt(size)
        shrink = largest[part] / size if size > largest[part] else 1.0
        change = 0.0
        for i in range(first, first + 3):
            change += (shrink * wanted[i] - wrench[i]) * (shrink * wanted[i] - wrench[i])
        change = math.sqrt(change)
        step = steps[part] / change if change > steps[part] else 1.0
        for i in range(first, first + 3):
            wrench[i] += step * (shrink * wanted[i] - wrench[i])


@kernel
def is_finite(values):
    """Whether all values are finite."""
    total = 0.0
    for value in values:
        total += value - value  # zero, or no number
    return total == 0.0


@kernel
def differ(pose, other, allowed, turn):
    """Whether two poses (7,) differ by more than is allowed, a distance [m] and an angle [rad] (2,).

    Args:
        turn: (3,), for the kernel.
    """
    square = 0.0
    for i in range(3):
        square += (pose[i] - other[i]) * (pose[i] - other[i])
    rotation_difference(pose[3:], other[3:], turn)
    angle = math.sqrt(turn[0] * turn[0] + turn[1] * turn[1] + turn[2] * turn[2])
    return math.sqrt(square) > allowed[0] or angle > allowed[1]


@kernel
def lead(hand, before, origin, start, scale, box, command, turn, wanted):
    """Move `wanted` (7,), where the arm is to go, with a hand; by the equations of the module.

    Args:
        hand, before: poses of the hand (7,) in this tick and the last; the second is made the first.
        origin, start: positions of hand and command at the alignment (3,) [m].
        scale: of translations and of rotations (2,).
        box: its lower and upper corner (2, 3) [m].
        command: pose (7,); an arm that is outside of the box is not driven in, nor further out.
        turn: (6,) of zeros, for the kernel.
    """
    rotation_difference(hand[3:], before[3:], turn[3:])
    for i in range(3):
        turn[3 + i] *= scale[1]
    advance_pose(turn, 1.0, wanted)
    for i in range(7):
        before[i] = hand[i]
    for i in range(3):
        place = start[i] + scale[0] * (hand[i] - origin[i])
        wanted[i] = min(max(place, min(box[0, i], command[i])), max(box[1, i], command[i]))


class Follower:
    """Command of an arm, from a hand and from the state that the arm reports.

    Args:
        parameters: validated.
        rate: of the ticks [Hz].

    Attributes (in the axes of the arm's base):
        state: of the last tick.
        command: pose (7,), of no meaning while WAITING.
        wrench: commanded (6,) [N, N m], of the tool on its surroundings.
        gain: part of the arm's wrench that the hand feels, from 0 to 1.
        problem: why it stays WAITING although the arm has said where it is; empty: it does not.
    """

    def __init__(self, parameters: FollowingParameters, rate: float):
        self.parameters, self._T = parameters, 1.0 / rate
        self.state, self.gain = Following.WAITING, 0.0
        self.command, self.wrench = np.array([0.0] * 6 + [1.0]), np.zeros(6)
        self._wanted, self._measured = self.command.copy(), self.command.copy()
        self._origin, self._from, self._before = np.zeros(3), np.zeros(3), self.command.copy()
        self._work, self._turn = np.zeros(6), np.zeros(6)
        self._scale, self._deviation = np.array(parameters.scale), np.array(parameters.deviation)
        self._box = np.array([parameters.lower, parameters.upper])
        self._farthest = np.array(parameters.speed) / rate
        self._largest, self._steps = np.array(parameters.wrench), np.array(parameters.wrench_rate) / rate
        self._share, self._step = 1.0, self._steps.copy()
        self._age, self._fed, self._displaced, self._let_go = math.inf, False, False, False
        self.problem = ""

    @property
    def follows(self) -> bool:
        """Whether the arm follows the hand."""
        return self.state == Following.FOLLOWING

    @property
    def share(self) -> float:
        """Part of a period that has passed since the last tick, at most 1."""
        return self._share

    def feed(self, pose: np.ndarray, age: float = 0.0) -> None:
        """Take what the arm says of its tool's pose (7,) in the axes of its base, `age` [s] ago.

        One that is not finite, or no orientation, is none.
        """
        finite = is_finite(pose) and 0.0 <= age < math.inf
        if finite and abs(math.sqrt(float(pose[3:] @ pose[3:])) - 1.0) < 1e-3:
            if math.isinf(self._age):
                if self._starts_elsewhere(pose):
                    return
                self.command[:] = pose
            self._measured[:], self._age, self._fed = pose, age, True

    def forget(self) -> None:
        """Be WAITING as at first: what the arm is commanded next begins where it says that it is then."""
        self.state, self.gain, self.wrench[:] = Following.WAITING, 0.0, 0.0
        self._age, self._displaced = math.inf, False

    def _starts_elsewhere(self, pose: np.ndarray) -> bool:
        """Whether the arm is not where it has to be at first."""
        of, self.problem = self.parameters, ""
        if of.start is not None and (distance := float(np.linalg.norm(pose[:3] - of.start))) > of.deviation[0]:
            self.problem = (
                f"the arm's tool is at {np.round(pose[:3], 4).tolist()} m, {distance:.3g} m from following.start = "
                f"{list(of.start)} m: must be within {of.deviation[0]:g} m; move the arm there, or correct the key"
            )
        return bool(self.problem)

    def step(self, hand: Hand, elapsed: float | None = None) -> Following:
        """Advance by a tick; the state that holds for it.

        Args:
            hand: at its beginning.
            elapsed: time since the last tick [s]; None: a period.
        """
        of = self.parameters
        if elapsed is None:
            elapsed = self._T
        if not self._fed:  # else its age is that of now
            self._age += elapsed
        self._fed, self._share = False, min(1.0, elapsed / self._T)
        held = hand.present and hand.age <= of.hand_watchdog and is_finite(hand.pose)
        fresh = self._age <= of.feedback_watchdog
        if fresh:
            self._watch(held and hand.closed)
        before, self.state = self.state, self._state(fresh, held, hand.closed)
        if self.follows:
            if before != Following.FOLLOWING:
                self._align(hand.pose)
            self._lead(hand.pose)
            self.gain = 1.0 if of.fade == 0.0 else min(1.0, self.gain + self._share * (self._T / of.fade))
        else:
            self.gain, self.wrench[:] = 0.0, 0.0
            if self.state == Following.DISPLACED:
                arrived = self._approach(self._measured)
                self._displaced = not (arrived and self._let_go)
        return self.state

    def push(self, wrench: np.ndarray) -> np.ndarray:
        """The wrench (6,) that may be commanded for one that is wanted; zero unless the arm follows."""
        if self.follows and is_finite(wrench):
            np.multiply(self._steps, self._share, out=self._step)
            bound_rate(self.wrench, wrench, self._largest, self._step)
        else:
            self.wrench[:] = 0.0
        return self.wrench

    def _state(self, fresh: bool, held: bool, closed: bool) -> Following:
        if math.isinf(self._age):
            return Following.WAITING
        if not fresh:
            return Following.STALE
        if self._displaced:
            return Following.DISPLACED
        if not held:
            return Following.ABSENT
        return Following.FOLLOWING if closed else Following.RELEASED

    def _watch(self, asked: bool) -> None:
        """Compare the arm with its command; `asked`: whether a hand wants it to follow."""
        deviates = differ(self._measured, self.command, self._deviation, self._work[3:])
        if deviates and not self._displaced:
            self._displaced, self._let_go = True, False
        self._let_go |= not asked

    def _align(self, hand: np.ndarray) -> None:
        """Let the hand's present pose stand for the present command."""
        self._origin[:], self._from[:] = hand[:3], self.command[:3]
        self._wanted[:], self._before[:] = self.command, hand

    def _lead(self, hand: np.ndarray) -> None:
        """Move the command to where the hand wants it, within all bounds."""
        lead(
            hand,
            self._before,
            self._origin,
            self._from,
            self._scale,
            self._box,
            self.command,
            self._turn,
            self._wanted,
        )
        self._approach(self._wanted)

    def _approach(self, wanted: np.ndarray) -> bool:
        """Move the command towards a pose (7,) at bounded speed; whether it has arrived."""
        distance, angle = self._share * self._farthest[0], self._share * self._farthest[1]
        return bool(approach(self.command, wanted, distance, angle, self._work))
