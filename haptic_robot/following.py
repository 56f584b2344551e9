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
    """What an arm does with a hand; see the module."""

    WAITING = 0
    STALE = 1
    DISPLACED = 2
    ABSENT = 3
    RELEASED = 4
    FOLLOWING = 5


class FollowingParameters(Parameters):
    """How an arm may follow a hand."""

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
        description="Where the tool has to be at first, in the arm's base, to `deviation`; null: anywhere",
    )
    feedback_watchdog: float = quantity(
        0.05, unit="s", description="Age beyond which nothing that the arm has sent counts", gt=0.0, le=1.0
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


class Follower:
    """What an arm is commanded, from a hand and from what the arm says of itself.

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
        self._lower, self._upper = np.array(parameters.lower), np.array(parameters.upper)
        self._farthest = np.array(parameters.speed) / rate
        self._largest, self._steps = np.array(parameters.wrench), np.array(parameters.wrench_rate) / rate
        self._age, self._displaced, self._let_go = math.inf, False, False
        self.problem = ""

    @property
    def follows(self) -> bool:
        """Whether the arm follows the hand."""
        return self.state == Following.FOLLOWING

    def feed(self, pose: np.ndarray, age: float = 0.0) -> None:
        """Take what the arm says of its tool's pose (7,) in the axes of its base, `age` [s] ago.

        One that is not finite, or no orientation, is none.
        """
        finite = bool(np.isfinite(pose).all()) and 0.0 <= age < math.inf
        if finite and abs(np.linalg.norm(pose[3:]) - 1.0) < 1e-3:
            if math.isinf(self._age):
                if self._starts_elsewhere(pose):
                    return
                self.command[:] = pose
            self._measured[:], self._age = pose, age

    def _starts_elsewhere(self, pose: np.ndarray) -> bool:
        """Whether the arm is not where it has to be at first."""
        of, self.problem = self.parameters, ""
        if of.start is not None and (distance := float(np.linalg.norm(pose[:3] - of.start))) > of.deviation[0]:
            self.problem = (
                f"the arm's tool is at {np.round(pose[:3], 4).tolist()} m, {distance:.3g} m from following.start = "
                f"{list(of.start)} m: must be within {of.deviation[0]:g} m; move the arm there, or correct the key"
            )
        return bool(self.problem)

    def step(self, hand: Hand) -> Following:
        """Advance by a tick; the state that holds for it."""
        of, command = self.parameters, self.command
        held = hand.present and hand.age <= of.hand_watchdog and bool(np.isfinite(hand.pose).all())
        fresh = self._age <= of.feedback_watchdog
        if fresh:
            self._watch(held and hand.closed)
        before, self.state = self.state, self._state(fresh, held, hand.closed)
        if self.follows:
            if before != Following.FOLLOWING:
                self._align(hand.pose)
            self._lead(hand.pose)
            self.gain = 1.0 if of.fade == 0.0 else min(1.0, self.gain + self._T / of.fade)
        else:
            self.gain, self.wrench[:] = 0.0, 0.0
            if self.state == Following.DISPLACED:
                arrived = approach(command, self._measured, self._farthest[0], self._farthest[1], self._work)
                self._displaced = not (arrived and self._let_go)
        self._age += self._T
        return self.state

    def push(self, wrench: np.ndarray) -> np.ndarray:
        """The wrench (6,) that may be commanded for one that is wanted; zero unless the arm follows."""
        if self.follows and np.isfinite(wrench).all():
            bound_rate(self.wrench, wrench, self._largest, self._steps)
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
        allowed, turn = self.parameters.deviation, self._work[3:]
        rotation_difference(self._measured[3:], self.command[3:], turn)
        distance, angle = np.linalg.norm(self._measured[:3] - self.command[:3]), np.linalg.norm(turn)
        if not self._displaced and (distance > allowed[0] or angle > allowed[1]):
            self._displaced, self._let_go = True, False
        self._let_go |= not asked

    def _align(self, hand: np.ndarray) -> None:
        """Let the hand's present pose stand for the present command."""
        self._origin[:], self._from[:] = hand[:3], self.command[:3]
        self._wanted[:], self._before[:] = self.command, hand

    def _lead(self, hand: np.ndarray) -> None:
        """Move the command to where the hand wants it, within all bounds."""
        scale, wanted, command = self.parameters.scale, self._wanted, self.command
        rotation_difference(hand[3:], self._before[3:], self._turn[3:])
        self._turn[3:] *= scale[1]
        advance_pose(self._turn, 1.0, wanted)
        self._before[:] = hand
        wanted[:3] = self._from + scale[0] * (hand[:3] - self._origin)
        # an arm that is outside of the box is not driven in, nor further out
        np.clip(wanted[:3], np.minimum(self._lower, command[:3]), np.maximum(self._upper, command[:3]), out=wanted[:3])
        approach(command, wanted, self._farthest[0], self._farthest[1], self._work)
