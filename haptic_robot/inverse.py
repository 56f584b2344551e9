"""Inverse kinematics: positions of the joints with which the tool of an arm has a pose, as far as it can.

In each iteration the joints q move towards the pose by damped least squares (Wampler 1986; Nakamura and Hanafusa 1986).
With the singular values s_i of the tool's Jacobian J, lengths in multiples of `length`, and the error e of the pose,

    dq = J^T sum_i u_i (u_i . e) / (max(s_i, s_min)^2 + |e|^2 / 2)

The first term damps those directions alone in which the arm is nearly singular (Maciejewski and Klein 1988), by the
rule of `haptic_robot.observer`; the second one is the damping of Sugihara (2011, "Solvability-unconcerned inverse
kinematics by the Levenberg-Marquardt method"), which vanishes as the pose is reached and bounds what a pose out of
reach asks for:

    |dq| <= |e| / s_min   and   |dq| <= 1 / sqrt(2)

Where no singular value is below s_min it converges as Newton's method. dq is a direction of descent of |e|^2, since
J J^T and what it is divided by have the same eigenvectors; one that does not lower |e| is halved, so the error does
not grow. At rest J^T e = 0: the pose is reached, or the tool is as near as it comes from there.

A stretched arm has J^T e = 0 for a pose along itself on either side. So where an arm that has not reached its pose is
singular, it tries a small motion that does not move the tool, to first order, towards the joints `home`, and keeps it
if the error has become less: it bends for what is nearer, the way in which it is bent at home, and not for what is out
of reach.

A joint that would pass its limit is put there for the rest of the step, and the others go on without it. No joint is
faster than allowed: all slow down alike, so that the joints go the same way. A step begins where the last one ended,
so a redundant joint moves no more than the tool needs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from haptic_robot.dynamics import apply_bounded_inverse, chain_of, evaluate_chain
from haptic_robot.models import ArmModel
from haptic_sim.kernels import bind, kernel
from haptic_sim.linalg import symmetric_eigen
from haptic_sim.packed import Packed
from haptic_sim.records import allocate, array, record, shared, value
from haptic_sim.spatial import rotation_difference

ITERATIONS = 8  # at most; a command that moves by at most 0.25 mm in a tick needs 1 or 2
EXACT = 1e-10  # error at which they end, lengths in `length`
BEND = 1e-3  # [rad, m] motion of the joints that a singular arm tries
HALVINGS = 8  # of a step that does not lower the error, after which it is not taken
CLOSE = 1e-6, 1e-5  # [m, rad] from the pose within which it counts as reached
LIMIT, SINGULAR, SPEED = 1, 2, 4  # why it is not: what `reach` returns the sum of


@record
class Reach(NamedTuple):
    """Limits of the joints of an arm, and what a step towards a pose works with."""

    lowest: np.ndarray = shared("least position of each joint", "n", unit="rad, m")
    highest: np.ndarray = shared("largest position of each joint", "n", unit="rad, m")
    speed: np.ndarray = shared("largest speed of each joint", "n", unit="rad/s, m/s")
    home: np.ndarray = shared("joints towards which a stretched arm bends", "n", unit="rad, m")
    length: float = value("by which lengths are divided", unit="m")
    least: float = value("singular value below which a direction is damped")
    begun: np.ndarray = array("joints at the beginning of the step", "n", unit="rad, m")
    tried: np.ndarray = array("joints at the beginning of an iteration", "n", unit="rad, m")
    goal: np.ndarray = array("goal of the joints", "n", unit="rad, m")
    held: np.ndarray = array("whether a joint has come to its limit in this step", "n", dtype=np.bool_)
    left: np.ndarray = array("distance and angle to the pose after the step", 2, unit="m, rad")
    error: np.ndarray = array("error of the pose, lengths in `length`", 6)
    solved: np.ndarray = array("work", 6)
    gram: np.ndarray = array("J J^T of the joints that are not held", 6, 6)
    smallest: np.ndarray = array("smallest of its eigenvalues, the square of a singular value", 1)
    values: np.ndarray = array("its eigenvalues, and the damping", 6)
    vectors: np.ndarray = array("its eigenvectors, by rows", 6, 6)


@kernel
def _find_error(a, b, wanted):
    """Fill the error of the pose, and how far it is; returns its size, lengths in `length`."""
    rotation_difference(wanted[3:], a.pose[3:], b.error[3:])
    square = turn = 0.0
    for i in range(3):
        b.error[i] = wanted[i] - a.pose[i]
        square += b.error[i] * b.error[i]
        turn += b.error[3 + i] * b.error[3 + i]
        b.error[i] /= b.length
    b.left[0], b.left[1] = math.sqrt(square), math.sqrt(turn)
    return math.sqrt(square / (b.length * b.length) + turn)


@kernel
def _improve(a, b, size):
    """One iteration from an error of this size: move the joints that are not held.

    Those that would pass their limits are put there and held, and nothing else moves; returns whether there are any.
    """
    n = a.q.shape[0]
    _find_directions(a, b)
    damping = 0.5 * size * size
    for r in range(6):
        b.values[r] += damping
    apply_bounded_inverse(b.values, b.vectors, b.least * b.least + damping, b.error, b.solved)
    stopped = False
    for i in range(n):
        b.tried[i] = a.q[i]
        b.goal[i] = a.q[i]
        if b.held[i]:
            continue
        for r in range(6):
            b.goal[i] += a.J[r, i] * b.solved[r] / (b.length if r < 3 else 1.0)
        low, high = min(b.lowest[i], b.begun[i]), max(b.highest[i], b.begun[i])  # one that is beyond may come back
        q = min(max(b.goal[i], low), high)
        if q != b.goal[i]:
            a.q[i], b.held[i], stopped = q, True, True
    if not stopped:
        for i in range(n):
            a.q[i] = b.goal[i]
    return stopped


@kernel
def _bend(a, b):
    """Move the joints by BEND towards home in what does not move the tool; gram and its eigenvectors are those here."""
    n = a.q.shape[0]
    for r in range(6):  # J (home - q)
        b.error[r] = 0.0
        for i in range(n):
            b.error[r] += a.J[r, i] * (b.home[i] - a.q[i]) / (b.length if r < 3 else 1.0)
    for r in range(6):
        b.solved[r] = 0.0
    for m in range(6):
        if b.values[m] > b.least * b.least:
            part = 0.0
            for r in range(6):
                part += b.vectors[m, r] * b.error[r] / b.values[m]
            for r in range(6):
                b.solved[r] += part * b.vectors[m, r]
    square = 0.0
    for i in range(n):
        b.goal[i] = b.home[i] - a.q[i]
        for r in range(6):
            b.goal[i] -= a.J[r, i] * b.solved[r] / (b.length if r < 3 else 1.0)
        square += b.goal[i] * b.goal[i]
    for i in range(n):
        b.tried[i] = a.q[i]
        if square > 0.0:
            q = a.q[i] + BEND * b.goal[i] / math.sqrt(square)
            a.q[i] = min(max(q, min(b.lowest[i], a.q[i])), max(b.highest[i], a.q[i]))


@kernel
def _find_directions(a, b):
    """Fill eigenvalues and eigenvectors of J J^T, lengths in `length`, of the joints that are not held."""
    n = a.q.shape[0]
    for r in range(6):
        for s in range(6):
            total = 0.0
            for i in range(n):
                if not b.held[i]:
                    total += a.J[r, i] * a.J[s, i]
            b.gram[r, s] = total / ((b.length if r < 3 else 1.0) * (b.length if s < 3 else 1.0))
    symmetric_eigen(b.gram, 6, b.values, b.vectors)
    b.smallest[0] = b.values[0]


@kernel
def reach(packed_chain, packed, wanted, duration):
    """Move the joints of a chain towards a pose of its tool; returns why it is not reached, a sum of LIMIT and others.

    Args:
        packed_chain: a Chain, whose q is moved.
        packed: a Reach.
        wanted: pose of the tool in the axes of the base (7,) [m, quat_xyzw].
        duration: of the step [s].
    """
    a, b = packed_chain.arrays, packed.arrays
    n = a.q.shape[0]
    for i in range(n):
        b.begun[i], b.held[i] = a.q[i], False
    evaluate_chain(packed_chain)
    size = _find_error(a, b, wanted)
    b.smallest[0] = math.inf
    for _ in range(ITERATIONS):
        if size <= EXACT:
            break
        before, stopped = size, _improve(a, b, size)
        evaluate_chain(packed_chain)
        size = _find_error(a, b, wanted)
        if stopped:
            continue
        for k in range(HALVINGS + 1):
            if size < before:
                break
            for i in range(n):
                a.q[i] = b.tried[i] + (0.5 * (a.q[i] - b.tried[i]) if k < HALVINGS else 0.0)
            evaluate_chain(packed_chain)
            size = _find_error(a, b, wanted)
        if size >= before:
            break  # as near as it comes
    unheld = True
    for i in range(n):
        unheld &= not b.held[i]
    if size > EXACT and unheld and b.smallest[0] < 1e-4 * b.least * b.least:
        _find_directions(a, b)
        _bend(a, b)
        evaluate_chain(packed_chain)
        if _find_error(a, b, wanted) >= size:
            for i in range(n):
                a.q[i] = b.tried[i]
            evaluate_chain(packed_chain)
            _find_error(a, b, wanted)
    share = 1.0
    for i in range(n):
        way = abs(a.q[i] - b.begun[i])
        if way > b.speed[i] * duration:
            share = min(share, b.speed[i] * duration / way)
    if share < 1.0:
        for i in range(n):
            a.q[i] = b.begun[i] + share * (a.q[i] - b.begun[i])
        evaluate_chain(packed_chain)
        _find_error(a, b, wanted)
    if b.left[0] <= CLOSE[0] and b.left[1] <= CLOSE[1]:
        return 0
    reason = SPEED if share < 1.0 else 0
    for i in range(n):
        if b.held[i]:
            reason |= LIMIT
    if not reason & LIMIT and b.smallest[0] < b.least * b.least:
        reason |= SINGULAR
    return reason


class InverseKinematics:
    """Joints that follow poses of an arm's tool.

    Args:
        arm: its model.
        length: by which lengths are divided [m].
        least: singular value, lengths in `length`, below which a direction is damped.
        speed: largest speed of a joint [rad/s, m/s]; a smaller one of the model holds.
        home: joints towards which a stretched arm bends (nv,) [rad, m].

    Attributes:
        q: positions of the joints (nv,) [rad, m], filled anew in each step.
        pose: that the tool has with them (7,) [m, quat_xyzw], likewise.
    """

    def __init__(self, arm: ArmModel, length: float, least: float, speed: float, home: np.ndarray):
        model, chain = arm.model, chain_of(arm)
        given = np.where(model.velocityLimit > 0.0, model.velocityLimit, np.inf)
        self._names = tuple(model.names)[1:]
        self._reach = allocate(
            Reach,
            {"n": model.nv},
            lowest=np.array(model.lowerPositionLimit, float),
            highest=np.array(model.upperPositionLimit, float),
            speed=np.minimum(given, speed),
            home=np.array(home, float),
            length=length,
            least=least,
        )
        self.q, self.pose, self._reason = chain.q, chain.pose, 0
        self._chain, self._packed = Packed(chain), Packed(self._reach)
        self._move = bind(reach, self._chain, self._packed, chain.pose, 0.0)

    def begin(self, q: np.ndarray) -> None:
        """Start from these positions of the joints (nv,)."""
        self.q[:], self._reason = q, 0

    def move(self, pose: np.ndarray, duration: float) -> None:
        """Move the joints towards a pose of the tool (7,), for a time [s]."""
        self._reason = self._move(self._chain, self._packed, pose, duration)

    @property
    def problem(self) -> str:
        """Reason why the last pose was not reached; empty if it was."""
        of, found = self._reach, []
        if self._reason == 0:
            return ""
        if self._reason & LIMIT:
            for name, held, q in zip(self._names, of.held, self.q, strict=True):
                if held:
                    found.append(f"{name} is at its limit, {q:.4g} rad or m")
        if self._reason & SINGULAR:
            found.append("its posture is nearly singular")
        if self._reason & SPEED:
            found.append("a joint would be faster than joint_speed or its own limit")
        why = ", ".join(found) or "it is out of reach"
        return f"the joints end {of.left[0]:.3g} m and {of.left[1]:.3g} rad from the commanded pose: {why}"
