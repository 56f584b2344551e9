"""Checks of the readings of a hardware device: what a device cannot have measured is rejected.

A reading is a pose and a twist of the hand point, in the axes of the device's base. It is rejected if

- it is not finite, or its orientation is no unit quaternion;
- its position, orientation or velocity needs more than JUMP times the limit of speed `bound.velocity`;
- its velocity is against the displacement of the last readings.

The last is judged by the displacement that velocities tell beyond that of the poses, which is forgotten over WINDOW:

    e(k) = exp(-T/WINDOW) e(k-1) + T (v(k-1) + v(k)) / 2 - (x(k) - x(k-1))

    |e| <= GRACE max(s, REST v_max) + SHARE p + T |v(k) - v(k-1)| / 2

T is the time between the readings themselves, so that late, repeated or missing ones change nothing, p the length of
the path and s <= v_max the largest speed of the poses, both forgotten likewise; at the start, when nothing is known of
what was before, s is v_max. The last term is what the trapezoid does not know of the velocity between readings.

A velocity that is smoothed over at most LAG lags: its integral is a mean of past positions, so |e| <= LAG v at a steady
speed v, of which SHARE p = SHARE WINDOW v allows five times as much. From rest a motion that has its speed v at once is
the worst: |e| - SHARE p <= 0.49 LAG v after 1.6 LAG, of which GRACE s = GRACE v allows 2.5 times as much, for times of
arrival and impacts between readings. What arrives late may have been taken just before, so s is that of a displacement
in SOON at most. Quantisation is in e once, since differences of positions cancel.

What a phantom velocity u does to a hand that has been at rest for WINDOW |ln REST|, 1.2 s, is bounded. There p is zero
and s below REST v_max, so it is found when its integral is
g = REST GRACE v_max, 3.75 mm at 1.5 m/s: after WINDOW |ln(1 - g / (u WINDOW))| <= (g / u) (1 + g / (u WINDOW)) for
u >= 2 g / WINDOW. The force is zero REJECTED ticks T later, in which the last velocity that was believed holds. So a
damping b, which renders b u, gives the hand at most the impulse

    J = b (g (1 + g / (u WINDOW)) + REJECTED T u),

and a mass m that nobody holds the energy J^2 / (2 m): 0.1 mJ for b = 1 N s/m, u = 1 m/s, T = 1 ms, m = 0.4 kg. Below
g / WINDOW, 7.5 mm/s, a wrong velocity is not found, and its force is at most b g / WINDOW: 7.5 mN.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from haptic_drivers.bound import JUMP, Bound
from haptic_sim.kernels import kernel
from haptic_sim.records import allocate, array, record, shared, value
from haptic_sim.spatial import rotation_difference
from haptic_sim.vectors import length

LAG = 0.02  # [s] by which the velocity of a driver may lag at most
WINDOW = 0.5  # [s] over which velocities and displacements are compared
SHARE = 0.2  # part of the path by which they may differ
GRACE = 0.025  # [s] at the largest speed of the last WINDOW, by which they may differ beside that
REST = 0.1  # part of the limit of speed that counts as the largest speed of a hand at rest
LONGEST_INTERVAL = 0.05  # [s] between readings, beyond which they are not compared
AGAIN = 1e-4  # [s] between two looks at the same reading, at most
SOON = 0.002  # [s] after the last reading: what arrives sooner may have been taken that much later
UNIT = 0.01  # by which the length of a quaternion may differ from 1

NOT_FINITE, JUMPED, NO_ORIENTATION, TOO_FAST, DISAGREES = range(1, 6)  # what is wrong with a reading


@record
class Readings(NamedTuple):
    """The last reading that was believed, and what the next one is compared with; pairs: translation, rotation."""

    fastest: np.ndarray = shared("largest speed that is believed", 2, unit="m/s, rad/s")
    limit: np.ndarray = shared("limit of speed", 2, unit="m/s, rad/s")
    period: float = value("period of the servo", unit="s")
    pose: np.ndarray = array("pose of the hand point", 7, unit="m")
    twist: np.ndarray = array("twist of the hand point", 6, unit="m/s, rad/s")
    stamp: np.ndarray = array("time of the tick in which it was read", 1, dtype=np.int64, unit="ns")
    age: np.ndarray = array("age of the last reading then", 1, unit="s")
    known: np.ndarray = array("number of readings since the start, at most 2", 1, dtype=np.int64)
    excess: np.ndarray = array("displacement by the velocities beyond that of the poses", 6, unit="m, rad")
    path: np.ndarray = array("length of the path", 2, unit="m, rad")
    speed: np.ndarray = array("largest speed of the poses", 2, unit="m/s, rad/s")
    ahead: np.ndarray = array("excess with the reading that is judged", 6, unit="m, rad")
    displacement: np.ndarray = array("displacement since the last reading", 6, unit="m, rad")
    found: np.ndarray = array("by the last comparison that failed: part, what was found, what is allowed", 3)

    @classmethod
    def of(cls, bound: Bound, period: float) -> Readings:
        """Readings of a device with limits of speed; none was accepted yet."""
        return allocate(
            cls,
            fastest=JUMP * bound.velocity,
            limit=bound.velocity,
            period=period,
            pose=np.array([0.0, 0, 0, 0, 0, 0, 1]),
        )

    def age_at(self, time: int) -> float:
        """Age at a time [ns] of the last reading that was believed [s]."""
        return 1e-9 * (time - int(self.stamp[0])) + float(self.age[0])

    def problem(self, wrong: int, pose: np.ndarray, twist: np.ndarray) -> str:
        """Fault of the last reading, which `judge` rejected, in words."""
        if wrong == NOT_FINITE:
            return "not finite"
        if wrong == NO_ORIENTATION:
            return f"no orientation: its quaternion has the length {math.hypot(*pose[3:]):.3g}, must be 1"
        if wrong == TOO_FAST:
            speeds = np.array([length(twist[:3]), length(twist[3:])])
            part = int(speeds[0] <= self.fastest[0])
            found, allowed = speeds[part], self.fastest[part]
        else:
            part, (found, allowed) = int(self.found[0]), self.found[1:]
        thing, speed, unit = (("position", "velocity", "m"), ("orientation", "angular velocity", "rad"))[part]
        if wrong == TOO_FAST:
            most = f"at most {allowed:.3g} {unit}/s, {JUMP:g} times device.bound.velocity"
            return f"too fast: {speed} {found:.3g} {unit}/s, {most}"
        if wrong == JUMPED:
            return f"further from the last one than the device moves: {thing} by {found:.3g} of {allowed:.3g} {unit}"
        return (
            f"against the displacement: {speed} and {thing} differ by {found:.3g} {unit} of the last {WINDOW:g} s, at "
            f"most {allowed:.3g} {unit}; check sign, unit and filter of the {speed}, which may lag by {LAG:g} s"
        )


def forget(readings: Readings) -> None:
    """Compare the next reading with none."""
    readings.known[0] = 0


@kernel
def judge(packed, pose, twist, stamp, age):
    """Believe a reading, and keep it, or reject it.

    Args:
        packed: Readings.
        pose, twist: that were read (7,), (6,) [m, quat_xyzw; m/s, rad/s].
        stamp: of the tick [ns]; age: of the reading then [s].

    Returns:
        What is wrong with it; 0: nothing.
    """
    r = packed.arrays
    wrong = judge_reading(pose, twist, r.fastest)
    if wrong:
        return wrong
    elapsed = 1e-9 * (stamp - r.stamp[0]) + r.age[0] - age
    if r.known[0]:
        wrong = _compare(r, pose, twist, elapsed)
        if wrong:
            return wrong
    if not r.known[0] or abs(elapsed) > LONGEST_INTERVAL:
        r.known[0] = 0
        r.ahead[:] = 0.0
        r.path[:] = 0.0
        r.speed[:] = r.limit  # what it did before is not known
    r.excess[:] = r.ahead
    if r.known[0] == 0 or elapsed > AGAIN:  # else it is the same one again
        r.known[0] = min(r.known[0] + 1, 2)
    r.pose[:] = pose
    r.twist[:] = twist
    r.stamp[0], r.age[0] = stamp, age
    return 0


@kernel
def judge_reading(pose, twist, fastest):
    """Fault of a reading by itself, as `judge`; `fastest` (2,) is the largest speed that is accepted."""
    finite = True
    for i in range(7):
        finite &= math.isfinite(pose[i])
    for i in range(6):
        finite &= math.isfinite(twist[i])
    if not finite:
        return NOT_FINITE
    norm = math.sqrt(pose[3] ** 2 + pose[4] ** 2 + pose[5] ** 2 + pose[6] ** 2)
    if not abs(norm - 1.0) <= UNIT:
        return NO_ORIENTATION
    for part in range(2):
        if not length(twist[3 * part : 3 * part + 3]) <= fastest[part]:
            return TOO_FAST
    return 0


@kernel
def _compare(r, pose, twist, elapsed):
    """Fault of a reading after the last one that was accepted, `elapsed` [s] before; else fill `r.ahead`."""
    for i in range(3):
        r.displacement[i] = pose[i] - r.pose[i]
    rotation_difference(pose[3:], r.pose[3:], r.displacement[3:])
    for part in range(2):
        farthest = r.fastest[part] * max(elapsed, r.period, SOON)
        distance = length(r.displacement[3 * part : 3 * part + 3])
        if not distance <= farthest:
            r.found[0], r.found[1], r.found[2] = part, distance, farthest
            if (
                r.known[0] == 1 and distance <= r.fastest[part] * LONGEST_INTERVAL
            ):  # the first may have been taken long before it arrived
                r.known[0] = 0
                return 0
            return JUMPED
    kept = math.exp(-max(elapsed, 0.0) / WINDOW)
    for i in range(6):
        r.ahead[i] = kept * r.excess[i] + 0.5 * elapsed * (r.twist[i] + twist[i]) - r.displacement[i]
    if abs(elapsed) > LONGEST_INTERVAL:
        return 0
    for part in range(2):
        distance = length(r.displacement[3 * part : 3 * part + 3])
        speed = max(kept * r.speed[part], distance / max(min(elapsed, SOON), AGAIN), REST * r.limit[part])
        unknown = 0.5 * abs(elapsed) * length(twist[3 * part : 3 * part + 3] - r.twist[3 * part : 3 * part + 3])
        allowed = GRACE * min(speed, r.limit[part]) + SHARE * (kept * r.path[part] + distance) + unknown
        excess = length(r.ahead[3 * part : 3 * part + 3])
        if not excess <= allowed:
            r.found[0], r.found[1], r.found[2] = part, excess, allowed
            return DISAGREES
    for part in range(2):
        distance = length(r.displacement[3 * part : 3 * part + 3])
        r.path[part] = kept * r.path[part] + distance
        r.speed[part] = max(kept * r.speed[part], distance / max(min(elapsed, SOON), AGAIN))
    return 0
