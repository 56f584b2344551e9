"""A pointer as a hand: a spring on SE(3) from the grabbed point to where the pointer is, critically damped.

Between events, which come at some 20 Hz, the pointer's displacement is filtered: a critically damped low-pass filter of
second order, integrated exactly from tick to tick. From the filtered pointer, e is the distance of the grabbed point
and the rotation of the body. The wrench at the grabbed point is

    s - part C v,   s = K e, force and torque each no larger than their bound,   0 <= part <= 1

with the twist v of the body at the grabbed point. `part` is the largest with which force and torque stay within their
bounds, one for each, or where these would not take energy out, the smaller for both. C damps each mode critically: with
the mobility W of the body at the grabbed point (6, 6), S = sqrt(K) and A = S W S, it is C = 2 S A^(-1/2) S, zero where
nothing moves. So C takes energy out, and s is the gradient of a potential: while the pointer rests, no more energy
comes out than is in the spring.

K is as given, but no larger than what gives the body the highest natural frequency. At last the rate of change of force
and of torque is bounded, also when the pointer lets go: the bound of the force over that of its rate is the time in
which the force is zero. It must be short beside the period of the spring, or the delay takes the damping away
(`SpringParameters` asks for that).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from pydantic import model_validator

from haptic_drivers.events import Events
from haptic_sim.kernels import kernel
from haptic_sim.linalg import symmetric_eigen
from haptic_sim.messages import GRAB, HAND, RELEASE, OperatorEvent
from haptic_sim.packed import Packed
from haptic_sim.parameters import Parameters, PositivePair, quantity
from haptic_sim.records import allocate, array, record, shared, value
from haptic_sim.spatial import advance_pose, rotation_difference

VANISHED = 1e-6  # eigenvalue of A beside the largest, of a direction in which nothing moves


class SpringParameters(Parameters):
    """The spring between a pointer and what it has grabbed."""

    stiffness: PositivePair = quantity(
        (300.0, 3.0),
        unit="N/m, N m/rad",
        description="Stiffness of the spring to the pointer, in translation and in rotation; less where the body is so "
        "light that its natural frequency would be higher than `frequency`",
    )
    frequency: float = quantity(
        3.0, unit="Hz", description="Highest natural frequency of a body on the spring", ge=0.1, le=20.0
    )
    filter_frequency: float = quantity(
        8.0, unit="Hz", description="Corner frequency of the filter of the pointer's motion", ge=0.5, le=100.0
    )
    bound: PositivePair = quantity(
        (10.0, 0.5), unit="N, N m", description="Largest force, and largest torque about the grabbed point"
    )
    bound_rate: PositivePair = quantity(
        (500.0, 25.0),
        unit="N/s, N m/s",
        description="Largest rate of change of force and torque, also when the pointer lets go",
    )
    patience: float = quantity(
        0.5, unit="s", description="Time without a sign of the pointer after which it has let go", ge=0.05, le=10.0
    )

    @model_validator(mode="after")
    def _bounds_are_left_sooner_than_the_spring_swings(self) -> SpringParameters:
        for i, unit in enumerate(("N/s", "N m/s")):
            # with half of that, bodies held far from their centre of mass were found to gain energy
            needed = 4.0 * math.pi * self.frequency * self.bound[i]
            if self.bound_rate[i] < needed:
                raise ValueError(
                    f".bound_rate[{i}] = {self.bound_rate[i]:g} {unit}: is so slow that the spring would not be "
                    f"damped; must be >= 4 pi frequency bound[{i}] = {needed:.4g} {unit}"
                )
        return self


@record
class PointerArrays(NamedTuple):
    """A pointer, what it holds, and its last call; in world axes."""

    stiffness: np.ndarray = shared("stiffness, of translation and of rotation", 2, unit="N/m, N m/rad")
    bound: np.ndarray = shared("largest force and torque", 2, unit="N, N m")
    rate: np.ndarray = shared("largest rate of change of force and torque", 2, unit="N/s, N m/s")
    frequency: float = value("highest natural frequency", unit="rad/s")
    filter_frequency: float = value("corner frequency of the filter", unit="rad/s")
    held: np.ndarray = array("whether the pointer holds", 1, dtype=np.int64)
    oriented: np.ndarray = array("whether it holds the orientation, too", 1, dtype=np.int64)
    point: np.ndarray = array("grabbed point in the axes of the body", 3, unit="m")
    start: np.ndarray = array("grabbed point, and orientation of the body, when the pointer took hold", 7, unit="m")
    target: np.ndarray = array("displacement of the pointer since then", 7, unit="m")
    filtered: np.ndarray = array("the same, filtered", 7, unit="m")
    velocity: np.ndarray = array("twist of that", 6, unit="m/s, rad/s")
    wrench: np.ndarray = array("force, and torque about the grabbed point, of the last call", 6, unit="N, N m")
    last: np.ndarray = array("wrench at the origin of the body's axes of the last call", 6, unit="N, N m")
    arm: np.ndarray = array("from there to the grabbed point", 3, unit="m")
    k: np.ndarray = array("stiffness that the body has", 6, unit="N/m, N m/rad")
    C: np.ndarray = array("damping", 6, 6, unit="N s/m, N s, N m s/rad")
    known: np.ndarray = array("mobility at the grabbed point of which k and C are", 6, 6, fill=np.nan)
    W: np.ndarray = array("mobility at the grabbed point", 6, 6, unit="1/kg, 1/(kg m), 1/(kg m^2)")
    A: np.ndarray = array("work array", 6, 6)
    values: np.ndarray = array("work array", 6)
    vectors: np.ndarray = array("work array", 6, 6)
    e: np.ndarray = array("displacement of the filtered pointer from the grabbed point", 6, unit="m, rad")
    v: np.ndarray = array("twist of the body at the grabbed point", 6, unit="m/s, rad/s")
    d: np.ndarray = array("damping wrench", 6, unit="N, N m")


Observer = Callable[[int], tuple[np.ndarray, np.ndarray, np.ndarray]]
"""Pose (7,), twist (6,) and mobility (6, 6) of a body at present, by its number, as of the hand."""


class Pointer:
    """A pointer as an `Operator`: its wrench acts on the body `Events.body`, at the origin of its axes.

    Args:
        parameters: of the spring.
        events: what the pointer does.
        mobility: inverse inertia of what the hand moves, at the hand in world axes (6, 6) [1/kg, 1/(kg m),
            1/(kg m^2)]; it is read in each call, so that it may change.
        release: from this time [s] on nothing is held.
        observe_body: at other bodies that events take hold of; None: there are none.
    """

    def __init__(
        self,
        parameters: SpringParameters,
        events: Events,
        mobility: np.ndarray,
        release: float | None = None,
        observe_body: Observer | None = None,
    ):
        p = parameters
        self._events, self._patience = events, p.patience
        self._mobility, self._observe_body = mobility, observe_body
        self._release = math.inf if release is None else release
        self._arrays = allocate(
            PointerArrays,
            stiffness=np.array(p.stiffness),
            bound=np.array(p.bound),
            rate=np.array(p.bound_rate),
            frequency=2.0 * math.pi * p.frequency,
            filter_frequency=2.0 * math.pi * p.filter_frequency,
        )
        self._packed = Packed(self._arrays)
        self._time = self._sign = math.nan  # times of the last call, and of the last sign of the pointer
        self._warm_up()

    def _warm_up(self) -> None:
        """Load the kernels before the first tick."""
        pose = np.array([0.0, 0, 0, 0, 0, 0, 1])
        _grab(self._packed, pose, np.zeros(3), pose, 1)
        _advance(self._packed, 1e-3, pose, np.zeros(6), self._mobility, np.zeros(6))
        self._arrays.held[0] = 0
        self._arrays.wrench[:] = 0.0

    @property
    def _holds(self) -> bool:
        return bool(self._arrays.held[0])

    def wrench(self, time: float, pose: np.ndarray, twist: np.ndarray, out: np.ndarray) -> None:
        """Fill `out` (6,) [N, N m] with the wrench at a `time` [s], by pose (7,) and twist (6,) of what is held.

        Calls are in the order of time; the second of two calls at the same time gives what the first gave.
        """
        if time == self._time:
            out[:] = self._arrays.last
            return
        events, mobility = self._events, self._mobility
        grabbed = events.grabs(time)
        if grabbed not in (None, events.body) and self._arrays.wrench.any():
            # the force on one body is zero before there is one on another
            event = events.release(time) if self._holds else None
        else:
            event = events.next(time)
            events.body = events.body if grabbed is None else grabbed
        if events.body != HAND:
            assert self._observe_body is not None
            pose, twist, mobility = self._observe_body(events.body)
        if time >= self._release:
            self._release_hold()
        elif event is not None:
            self._follow(event, time, pose)
        elif self._holds and not time - self._sign <= self._patience:
            self._release_hold()
        elapsed, self._time = time - self._time, time
        _advance(self._packed, elapsed, pose, twist, mobility, out)
        if not self._holds and not self._arrays.wrench.any():
            events.body = HAND

    def _follow(self, event: OperatorEvent, time: float, pose: np.ndarray) -> None:
        """Let an event act."""
        self._sign = time
        if event.phase == GRAB:
            _grab(self._packed, pose, event.point, event.pose, event.oriented)
        elif event.phase == RELEASE:
            self._arrays.held[0] = 0
        elif self._holds:
            self._arrays.target[:] = event.pose

    def _release_hold(self) -> None:
        self._arrays.held[0] = 0
        self._events.lose()


def mobility_of(mass: float, inertia: float, planar: bool) -> np.ndarray:
    """Inverse inertia (6, 6) of a body of the same inertia in all directions, which a plane may keep from moving.

    Args:
        mass: [kg]; inertia: about every axis [kg m^2]; planar: moves in x and y, and turns about z.
    """
    free = np.array([1, 1, not planar, not planar, not planar, 1], float)
    return np.diag(free / np.array([*(3 * [mass]), *(3 * [inertia])]))


@kernel
def _grab(packed, pose, point, displacement, oriented):
    """Take hold of a point of a body at a pose (7,); nothing is held if that is no pose."""
    a = packed.arrays
    a.held[0] = _is_pose(pose) and _is_pose(displacement)
    a.oriented[0] = oriented
    a.known[0, 0] = math.nan
    for i in range(3):
        a.held[0] &= math.isfinite(point[i])
        a.point[i] = point[i] if a.held[0] else 0.0
    if not a.held[0]:
        return
    _turn(pose, a.point, a.arm)
    for i in range(3):
        a.start[i] = pose[i] + a.arm[i]
        a.filtered[i] = a.velocity[i] = a.velocity[3 + i] = 0.0
    for i in range(4):
        a.start[3 + i] = pose[3 + i]
        a.filtered[3 + i] = 1.0 if i == 3 else 0.0
    a.target[:] = displacement


@kernel
def _advance(packed, elapsed, pose, twist, mobility, out):
    """Fill `out` (6,) with the wrench at the body's origin, `elapsed` [s] after the last call (NaN: it is the first).

    The body has a pose (7,), a twist (6,) and a mobility (6, 6).
    """
    a = packed.arrays
    good = _is_pose(pose)
    for i in range(6):
        good &= math.isfinite(twist[i])
    if not (elapsed > 0.0):
        elapsed = 0.0
    for i in range(6):
        out[i] = 0.0
    if a.held[0] and good and _is_pose(a.target):
        _filter(a, elapsed)
        _observe_body(a, pose, twist, mobility)
        _damp(a)
        _pull(a, out)
    if good:
        _turn(pose, a.point, a.arm)
    for part in range(2):
        _bound_change(out, a.wrench, 3 * part, a.rate[part] * elapsed)
    for i in range(6):
        a.wrench[i] = out[i]
    if good:
        r = a.arm
        out[3] += r[1] * out[2] - r[2] * out[1]
        out[4] += r[2] * out[0] - r[0] * out[2]
        out[5] += r[0] * out[1] - r[1] * out[0]
    a.last[:] = out


@kernel
def _is_pose(pose):
    """Whether seven numbers are finite, and four of them no zero quaternion."""
    length = 0.0
    for i in range(7):
        length += pose[i] * pose[i] if i > 2 else 0.0 * pose[i]
    return math.isfinite(length) and length > 1e-6


@kernel
def _turn(pose, point, out):
    """Fill `out` (3,) with a point of a body in world axes; the quaternion of its pose need not be of length one."""
    x, y, z, w = pose[3], pose[4], pose[5], pose[6]
    scale = 2.0 / (x * x + y * y + z * z + w * w)
    tx = y * point[2] - z * point[1] + w * point[0]
    ty = z * point[0] - x * point[2] + w * point[1]
    tz = x * point[1] - y * point[0] + w * point[2]
    out[0] = point[0] + scale * (y * tz - z * ty)
    out[1] = point[1] + scale * (z * tx - x * tz)
    out[2] = point[2] + scale * (x * ty - y * tx)


@kernel
def _filter(a, elapsed):
    """Let the filtered pointer follow the target: y'' = -w^2 y - 2 w y' of their difference y, solved exactly."""
    w, y = a.filter_frequency, a.e
    decay = math.exp(-w * elapsed)
    for i in range(3):
        y[i] = a.filtered[i] - a.target[i]
    rotation_difference(a.filtered[3:], a.target[3:], y[3:])
    for i in range(6):
        b = a.velocity[i] + w * y[i]
        y[i] = (y[i] + b * elapsed) * decay
        a.velocity[i] = b * decay - w * y[i]
    a.filtered[:] = a.target
    advance_pose(y, 1.0, a.filtered)


@kernel
def _observe_body(a, pose, twist, M):
    """Fill displacement, twist and mobility at the grabbed point."""
    r, e, v, W = a.arm, a.e, a.v, a.W
    _turn(pose, a.point, r)
    for i in range(3):
        e[i] = a.start[i] + a.filtered[i] - (pose[i] + r[i])
        v[3 + i] = twist[3 + i]
    # pose of the pointer: its rotation since the start, after the orientation of the body at the start
    x, y, z, w = a.filtered[3], a.filtered[4], a.filtered[5], a.filtered[6]
    p, q, s, t = a.start[3], a.start[4], a.start[5], a.start[6]
    wanted = a.values
    wanted[0] = w * p + x * t + y * s - z * q
    wanted[1] = w * q - x * s + y * t + z * p
    wanted[2] = w * s + x * q - y * p + z * t
    wanted[3] = w * t - x * p - y * q - z * s
    rotation_difference(wanted[:4], pose[3:], e[3:])
    v[0] = twist[0] + twist[4] * r[2] - twist[5] * r[1]
    v[1] = twist[1] + twist[5] * r[0] - twist[3] * r[2]
    v[2] = twist[2] + twist[3] * r[1] - twist[4] * r[0]
    # W = J M J^T with J = [1, -[r]x; 0, 1]
    A = a.A
    for j in range(6):
        A[0, j] = M[0, j] + M[4, j] * r[2] - M[5, j] * r[1]
        A[1, j] = M[1, j] + M[5, j] * r[0] - M[3, j] * r[2]
        A[2, j] = M[2, j] + M[3, j] * r[1] - M[4, j] * r[0]
        for i in range(3, 6):
            A[i, j] = M[i, j]
    for i in range(6):
        W[i, 0] = A[i, 0] + A[i, 4] * r[2] - A[i, 5] * r[1]
        W[i, 1] = A[i, 1] + A[i, 5] * r[0] - A[i, 3] * r[2]
        W[i, 2] = A[i, 2] + A[i, 3] * r[1] - A[i, 4] * r[0]
        for j in range(3, 6):
            W[i, j] = A[i, j]


@kernel
def _damp(a):
    """Fill stiffness and damping for the mobility at the grabbed point."""
    W, A, C, k = a.W, a.A, a.C, a.k
    same = True
    for i in range(6):
        for j in range(6):
            same &= W[i, j] == a.known[i, j]
    if same:
        return
    a.known[:] = W
    for part in range(2):
        first = 3 * part
        for i in range(3):
            for j in range(3):
                A[i, j] = 0.5 * (W[first + i, first + j] + W[first + j, first + i])
        symmetric_eigen(A, 3, a.values, a.vectors)
        largest = a.values[2]  # the same however the body is turned, and so is the potential of the spring
        given = a.stiffness[part] if part == 0 or a.oriented[0] else 0.0
        if largest > 0.0:
            given = min(given, a.frequency**2 / largest)
        for i in range(first, first + 3):
            k[i] = given if W[i, i] > 1e-12 * largest else 0.0  # none where the body cannot move
    for i in range(6):
        for j in range(6):
            A[i, j] = math.sqrt(k[i] * k[j]) * 0.5 * (W[i, j] + W[j, i])
            C[i, j] = 0.0
    symmetric_eigen(A, 6, a.values, a.vectors)
    for mode in range(6):
        if not (a.values[mode] > VANISHED * a.values[5] and math.isfinite(a.values[mode])):
            continue
        scale, u = 2.0 / math.sqrt(a.values[mode]), a.vectors[mode]
        for i in range(6):
            for j in range(6):
                C[i, j] += scale * math.sqrt(k[i] * k[j]) * u[i] * u[j]


@kernel
def _pull(a, out):
    """Fill `out` (6,) with the wrench at the grabbed point, before the bound of its rate."""
    e, v, d, k, C = a.e, a.v, a.d, a.k, a.C
    for i in range(6):
        out[i], d[i] = k[i] * e[i], 0.0
        for j in range(6):
            d[i] += C[i, j] * v[j]
    force, torque = _shorten(out, d, 0, a.bound[0]), _shorten(out, d, 3, a.bound[1])
    if force * _product(d, v, 0) + torque * _product(d, v, 3) < 0.0:
        force = torque = min(force, torque)  # v^T C v is not negative
    finite = True
    for i in range(6):
        out[i] -= (force if i < 3 else torque) * d[i]
        finite &= math.isfinite(out[i])
    if not finite:
        out[:] = 0.0


@kernel
def _product(a, b, first):
    """Scalar product of three components from the first on."""
    return a[first] * b[first] + a[first + 1] * b[first + 1] + a[first + 2] * b[first + 2]


@kernel
def _shorten(s, d, first, bound):
    """Shorten three components of s to a bound, in place; returns the largest part <= 1 with |s - part d| within it."""
    size = math.sqrt(_product(s, s, first))
    if size > bound:
        for i in range(first, first + 3):
            s[i] *= bound / size
    along, square = _product(s, d, first), _product(d, d, first)
    if not square > 0.0:
        return 1.0
    left = bound * bound - min(size, bound) ** 2
    return min(1.0, max(0.0, (along + math.sqrt(along * along + square * left)) / square))


@kernel
def _bound_change(wrench, last, first, step):
    """Let three components of a wrench be no further than `step` from those of the last."""
    x, y, z = wrench[first] - last[first], wrench[first + 1] - last[first + 1], wrench[first + 2] - last[first + 2]
    size = math.sqrt(x * x + y * y + z * z)
    if size > step:
        part = step / size
        wrench[first] = last[first] + part * x
        wrench[first + 1] = last[first + 1] + part * y
        wrench[first + 2] = last[first + 2] + part * z
