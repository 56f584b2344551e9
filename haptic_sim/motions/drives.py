"""The forces by which bodies follow their trajectories, and those of pulls, within a servo step.

With the inertia D and the bias B (Coriolis, centrifugal and gravity terms, damping and springs of joints), forward
dynamics under the drives tau, contacts and pulls F are IGMS (1-3) with their misprints corrected (errata, IGMS 4):

    D dV/dt = tau - B + J^T F

Computed torque is tau = D a + B with a = a_d + K_v (v_d - v) + K_p (q_d - q), so that without forces from outside the
error obeys e'' + K_v e' + K_p e = 0. Semi-implicit Euler has at t_k the mean velocity of the step before; therefore v_d
is that of the middle of that step, which makes the tracking error of second order in the period.

No drive gives more than its effort: beyond it tau is cut, joint by joint.

While the tool touches bodies that `keep` (IGMS III-F-1, IV-A), and afterwards, they are driven by inverse dynamics
alone, without feedback: a is that of the trajectory during the first touch, and from its end on the acceleration that
they had in the last step of the last touch.

A pull (IGMS 4, with the sign of its damping corrected: errata, IGMS 5) acts on the body as F = k x + b x', where x goes
from the grabbed point to the hand, and on the tool with the opposite. In a step its spring is taken at the middle and
its damper at the end (as those of joints, `haptic_sim.dynamics.joints`), so that it is stable for any k and b:

    (1 + T c A) F = k x + c v_free - T k / 4 v,   c = b + T k / 4,

with the mobility A of the two points against each other, their velocity v, and v_free after the step without F.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pinocchio as pin

from haptic_sim.contact_rows import RowArrays
from haptic_sim.dynamics.energy import INJECTED
from haptic_sim.dynamics.multibody import BodyArrays, Multibody, inertia_between, push_scaled
from haptic_sim.kernels import bind, kernel
from haptic_sim.linalg import cholesky, cholesky_solve
from haptic_sim.motions.motion import ANGLE, QUATERNION, Motion, Pull
from haptic_sim.motions.trajectory import evaluate
from haptic_sim.packed import Packed
from haptic_sim.parameters import ParameterError
from haptic_sim.records import allocate, array, record, shared, value
from haptic_sim.spatial import quat_from_matrix, rotation_difference

FOLLOWS, TOUCHED, KEEPS = range(3)
"""Phases of a motion: it follows its trajectory; it is touched for the first time; it keeps an acceleration."""


@record
class DrivenArrays(NamedTuple):
    """Arrays that all motions and pulls of a world share, for kernels."""

    body: BodyArrays = value("the bodies")
    rows: RowArrays = value("contacts of the step")
    impulses: np.ndarray = shared("impulses of the contacts along normal and tangents", "contacts", 3, unit="N s")
    energies: np.ndarray = shared("values of the `EnergyBalance`", 8, unit="J")
    force: np.ndarray = array("generalised force of drives and pulls in the step", "nv", unit="N, N m")
    before: np.ndarray = array("velocity before the step", "nv", unit="m/s, rad/s")
    touched: np.ndarray = array(
        "whether the tool touched or pulled each tree in the last step", "trees", dtype=np.bool_
    )


@record
class MotionArrays(NamedTuple):
    """A `Motion` for kernels."""

    driven: DrivenArrays = value("arrays that all motions share")
    times: np.ndarray = shared("times of the trajectory's points", "points", unit="s")
    coefficients: np.ndarray = shared("coefficients of the trajectory", "segments", 6, "n")
    kind: np.ndarray = shared("kind of each group of coordinates", "groups", dtype=np.int64)
    x: np.ndarray = shared("place of each group in the trajectory", "groups", dtype=np.int64)
    q: np.ndarray = shared("place in q", "groups", dtype=np.int64)
    v: np.ndarray = shared("place in v", "groups", dtype=np.int64)
    columns: np.ndarray = shared("velocity coordinates", "m", dtype=np.int64)
    trees: np.ndarray = shared("trees that it moves", "moved", dtype=np.int64)
    loose: np.ndarray = shared("velocity coordinates of these that have no drives", "loose", dtype=np.int64)
    stiffness: np.ndarray = shared("gain of position", "m")
    damping: np.ndarray = shared("gain of velocity", "m")
    effort: np.ndarray = shared("least and largest force of each drive", 2, "m", unit="N, N m")
    gravity: np.ndarray = shared("weight of the bodies", "nv", unit="N, N m")
    torque: bool = value("whether by computed torque")
    balanced: bool = value("whether the weight is balanced")
    keeps: bool = value("whether the motion keeps accelerations after touches")
    state: np.ndarray = array("FOLLOWS, TOUCHED or KEEPS; whether a touch lasts", 2, dtype=np.int64)
    place: np.ndarray = array("coordinates of the trajectory", "n")
    rate: np.ndarray = array("rates of the coordinates", "n")
    bend: np.ndarray = array("second derivatives of the coordinates", "n")
    error: np.ndarray = array("error of position", "m", unit="m, rad")
    lag: np.ndarray = array("error of velocity", "m", unit="m/s, rad/s")
    wanted: np.ndarray = array("acceleration of the trajectory", "m")
    kept: np.ndarray = array("acceleration that is kept", "nv")
    last: np.ndarray = array("acceleration of the last step with a touch", "nv")
    acceleration: np.ndarray = array("acceleration that is commanded", "nv")
    free: np.ndarray = array("accelerations of the coordinates without drives", "loose")
    inertia: np.ndarray = array("their inertia, then its Cholesky factor", "loose", "loose", unit="kg, kg m^2")
    goal: np.ndarray = array("orientation of the trajectory, quaternion x y z w", 4)
    turn: np.ndarray = array("rotation to it, world axes", 3, unit="rad")


@record
class PullArrays(NamedTuple):
    """A `Pull` for kernels; rows: translation, rotation."""

    driven: DrivenArrays = value("arrays that all motions share")
    grabs: np.ndarray = shared("begin and end of each grab", "grabs", 2, unit="s")
    joint: int = value("joint of the grabbed body")
    tree: int = value("tree of the grabbed body")
    given: bool = value("whether the point is given")
    stiffness: np.ndarray = shared("stiffness of each row", 6, unit="N/m, N m/rad")
    damping: np.ndarray = shared("damping of each row", 6, unit="N s/m, N m s/rad")
    p_WJ: np.ndarray = shared("position of the joint", 3, unit="m")
    R_WJ: np.ndarray = shared("orientation of the joint", 3, 3)
    point: np.ndarray = shared("grabbed point, axes of the joint", 3, unit="m")
    held: np.ndarray = array("whether the hand holds on", 1, dtype=np.bool_)
    R_JH: np.ndarray = array("orientation of the hand in the joint when it grabbed", 3, 3)
    wrench: np.ndarray = array("wrench on the tool at the hand, world axes", 6, unit="N, N m")
    J: np.ndarray = array("Jacobian of the grabbed point", 6, "nv")
    W: np.ndarray = array("J L^-T", 6, "nv")
    A: np.ndarray = array("matrix that is solved for the wrench", 6, 6)
    x: np.ndarray = array("from the grabbed point to the hand, then the wrench", 6, unit="m, rad")
    root: np.ndarray = array("square root of c of each row", 6)
    turned: np.ndarray = array("rotation of the hand since it grabbed, world axes", 3, 3)
    quaternion: np.ndarray = array("the same as a quaternion x y z w", 4)
    neutral: np.ndarray = shared("quaternion of no rotation", 4)
    du: np.ndarray = array("change of u in the step without the pull", "nu")


class Drives:
    """The motions and pulls of a world, within the steps of its `Multibody`.

    `begin` before a step lets drives and pulls act, through the forces of the bodies (`bias`); `end` after it books
    their work and notes what was touched.

    Args:
        body: the bodies, with the tool's hand.
        rows: contacts of a step; impulses: of these (C, 3).
        energies: values of the `EnergyBalance`.
        motions, pulls: of their world.
        period: of a step [s].

    Raises:
        ParameterError: a gain for which the sampled feedback is unstable.
    """

    def __init__(
        self,
        body: Multibody,
        rows: RowArrays,
        impulses: np.ndarray,
        energies: np.ndarray,
        motions: tuple[Motion, ...],
        pulls: tuple[Pull, ...],
        period: float,
    ):
        self.period = period
        if problems := list(unstable(body, motions, period)):
            raise ParameterError(problems)
        sizes = {"nv": body.nv, "nu": body.nu, "trees": body.trees.start.size}
        self._shared = driven = allocate(
            DrivenArrays, sizes, body=body.arrays, rows=rows, impulses=impulses, energies=energies
        )
        self._driven = Packed(driven)
        self.motions = tuple(_arrays_of(one, body, driven, sizes) for one in motions)
        self.pulls = tuple(_arrays_of_pull(one, body, driven, sizes) for one in pulls)
        nothing = np.zeros(6)
        self._open, self._close = bind(open_step, self._driven), bind(close_step, self._driven, 0, period)
        self._drive = [
            (bind(drive, one, 0.0, period), bind(note, one, period), one) for one in map(Packed, self.motions)
        ]
        self._hold = [(bind(hold, one, 0.0, period, nothing), one) for one in map(Packed, self.pulls)]

    @property
    def force(self) -> np.ndarray:
        """Generalised force of drives and pulls in the last step [N, N m], (nv,)."""
        return self._shared.force

    def begin(self, tick: int, wrench: np.ndarray) -> None:
        """Let the drives and the pulls act in a step.

        Args:
            tick: of the step.
            wrench: that acts on the tool at its hand besides [N, N m], (6,).
        """
        time = max(tick, 0) * self.period
        self._open(self._driven)
        for act, _, motion in self._drive:
            act(motion, time, self.period)
        for act, pull in self._hold:
            act(pull, time, self.period, wrench)

    def end(self, count: int, felt: np.ndarray, dragged: Iterable[int] = ()) -> None:
        """After the step.

        Args:
            count: contacts in it.
            felt: filled with the wrench of the pulls on the tool at its hand, (6,).
            dragged: trees that a pointer dragged in it, which is a touch.
        """
        self._close(self._driven, count, self.period)
        felt[:] = 0.0
        for pull in self.pulls:
            felt += pull.wrench
            if pull.held[0]:
                self._shared.touched[pull.tree] = True
        for tree in dragged:
            self._shared.touched[tree] = True
        for _, after, motion in self._drive:
            after(motion, self.period)


def _arrays_of(motion: Motion, body: Multibody, driven: DrivenArrays, sizes: dict[str, int]) -> MotionArrays:
    places, trajectory = motion.places, motion.trajectory
    columns = places.columns
    trees = np.unique(np.searchsorted(body.trees.start, columns, side="right") - 1)
    start, size = body.trees.start, body.trees.size
    loose = np.setdiff1d(np.concatenate([np.arange(start[t], start[t] + size[t]) for t in trees]), columns)
    return allocate(
        MotionArrays,
        {**sizes, "n": len(places.names), "m": columns.size, "loose": loose.size},
        driven=driven,
        times=trajectory.times,
        coefficients=trajectory.coefficients,
        kind=places.kind,
        x=places.x,
        q=places.q,
        v=places.v,
        columns=columns,
        trees=trees,
        loose=loose,
        stiffness=motion.stiffness,
        damping=motion.damping,
        effort=motion.effort,
        gravity=body.data.g,
        torque=motion.torque,
        balanced=motion.gravity,
        keeps=motion.keeps,
    )


def _arrays_of_pull(pull: Pull, body: Multibody, driven: DrivenArrays, sizes: dict[str, int]) -> PullArrays:
    placement = body.data.oMi[pull.joint]
    return allocate(
        PullArrays,
        sizes,
        driven=driven,
        grabs=pull.grabs,
        joint=pull.joint,
        tree=int(body.trees.of_joint[pull.joint]),
        given=pull.point is not None,
        stiffness=np.repeat(pull.stiffness, 3).astype(float),
        damping=np.repeat(pull.damping, 3).astype(float),
        p_WJ=placement.translation,
        R_WJ=placement.rotation,
        point=np.zeros(3) if pull.point is None else np.array(pull.point, float),
        neutral=np.array([0.0, 0.0, 0.0, 1.0]),
    )


def unstable(body: Multibody, motions: tuple[Motion, ...], period: float) -> Iterator[str]:
    """A sentence for each motion whose feedback, held over a step, is unstable at the start.

    Semi-implicit Euler with e'' = -a e - b e' is stable where T b + T^2 a / 2 < 2; of springs and dampers at the joints
    a and b are at most the largest eigenvalues of D^-1 K, or their sum that of both.
    """
    for motion in motions:
        stiffness, damping = motion.stiffness, motion.damping
        sampled = period * damping + 0.5 * period**2 * stiffness
        if motion.torque:
            most = float(sampled.max(initial=0.0))
        else:
            columns = motion.places.columns
            inverse = np.linalg.inv(_inertia(body))[np.ix_(columns, columns)]
            root = np.sqrt(sampled)
            most = float(np.linalg.eigvalsh(root[:, None] * inverse * root).max(initial=0.0))
        if not most < 2.0:
            yield (
                f"scene.motions.{motion.name}.tracking: stiffness and damping are too large for the rate of "
                f"{1.0 / period:g} Hz: the sampled feedback is unstable; choose at most {1.9 / most:.3g} times these"
            )


def _inertia(body: Multibody) -> np.ndarray:
    M = np.triu(pin.crba(body.model, body.model.createData(), body.q).reshape(body.nv, body.nv))
    return M + np.triu(M, 1).T


@kernel
def open_step(packed):
    """Begin a step: no force acts yet."""
    a = packed.arrays
    for j in range(a.force.shape[0]):
        a.force[j] = 0.0
        a.before[j] = a.body.v[j]


@kernel
def drive(packed, time, period):
    """Let a motion act in the step at a time [s]."""
    a = packed.arrays
    _update_state(a)
    evaluate(a.times, a.coefficients, time, 0, a.place)
    evaluate(a.times, a.coefficients, max(time - 0.5 * period, 0.0), 1, a.rate)
    evaluate(a.times, a.coefficients, time, 2, a.bend)
    _find_errors(a)
    body, acceleration, force = a.driven.body, a.acceleration, a.driven.force
    follows = a.state[0] == FOLLOWS
    for i in range(a.columns.shape[0]):
        j = a.columns[i]
        acceleration[j] = a.wanted[i]
        if a.state[0] == KEEPS:
            acceleration[j] = a.kept[j]
        elif follows and a.torque:
            acceleration[j] += a.stiffness[i] * a.error[i] + a.damping[i] * a.lag[i]
    if a.loose.shape[0] > 0 and (a.torque or not follows):
        _accelerate_undriven(a)
    for t in range(a.trees.shape[0]):
        first = body.start[a.trees[t]]
        end = first + body.size[a.trees[t]]
        for i in range(a.columns.shape[0]):
            j = a.columns[i]
            if j < first or j >= end:
                continue
            if follows and not a.torque:
                s = a.stiffness[i] * a.error[i] + a.damping[i] * a.lag[i]
                if a.balanced:
                    s += a.gravity[j]
            else:
                s = body.bias[j]
                for k in range(first, end):
                    s += body.D[j, k - first] * acceleration[k]
            force[j] = s
    if not follows or a.torque:
        _add_gyroscopic(a)
    for i in range(a.columns.shape[0]):
        j = a.columns[i]
        force[j] = min(max(force[j], a.effort[0, i]), a.effort[1, i])
        body.bias[j] -= force[j]


@kernel
def _accelerate_undriven(a):
    """Fill the accelerations of coordinates without drives, the others having theirs: D_ll a_l = -B_l - D_ld a_d.

    So that the drives give the accelerations that are asked of them (collocated linearisation: Spong, IROS 1994).
    """
    body, loose, x, n = a.driven.body, a.loose, a.free, a.loose.shape[0]
    for i in range(n):
        s = -body.bias[loose[i]]
        for k in range(a.columns.shape[0]):
            s -= inertia_between(body, loose[i], a.columns[k]) * a.acceleration[a.columns[k]]
        x[i] = s
        for k in range(n):
            a.inertia[i, k] = inertia_between(body, loose[i], loose[k])
    cholesky(a.inertia, n, a.inertia)  # in place: entry (i, j) is read before it is written
    cholesky_solve(a.inertia, n, x)
    for i in range(n):
        a.acceleration[loose[i]] = x[i]


@kernel
def _add_gyroscopic(a):
    """Add the gyroscopic terms of free bodies, which `bias` leaves out."""
    body, force = a.driven.body, a.driven.force
    for i in range(a.columns.shape[0]):
        for k in range(body.free.shape[0]):
            if 0 <= a.columns[i] - body.free[k] < 3:
                force[a.columns[i]] += body.nle[a.columns[i]]


@kernel
def _update_state(a):
    """Go on to the next state by what was touched in the last step."""
    if not a.keeps:
        return
    if _is_touched(a):
        a.state[1] = 1
        if a.state[0] == FOLLOWS:
            a.state[0] = TOUCHED
    elif a.state[1]:
        a.state[0], a.state[1] = KEEPS, 0
        for j in range(a.kept.shape[0]):
            a.kept[j] = a.last[j]


@kernel
def _is_touched(a):
    """Whether the tool touched or pulled the bodies of a motion in the last step."""
    touched = False
    for t in range(a.trees.shape[0]):
        touched = touched or a.driven.touched[a.trees[t]]
    return touched


@kernel
def _find_errors(a):
    """Fill errors of position and velocity, and the acceleration of the trajectory, in the coordinates of v."""
    body, m = a.driven.body, 0
    for g in range(a.kind.shape[0]):
        k, i, j = a.x[g], a.q[g], a.v[g]
        if a.kind[g] == QUATERNION:
            _find_turn(a, k, i, j, m)
            m += 3
            continue
        if a.kind[g] == ANGLE:
            sine, cosine = math.sin(a.place[k]), math.cos(a.place[k])
            c, s = body.q[i], body.q[i + 1]
            a.error[m] = math.atan2(sine * c - cosine * s, cosine * c + sine * s)
        else:
            a.error[m] = a.place[k] - body.q[i]
        a.lag[m] = a.rate[k] - body.v[j]
        a.wanted[m] = a.bend[k]
        m += 1


@kernel
def _find_turn(a, k, i, j, m):
    """Fill errors and acceleration, as `_find_errors`, of a quaternion; its velocity is angular in the body's axes.

    A quaternion p of any length turns with omega = 2 Im(p' p^-1) in world axes, and d(omega)/dt = 2 Im(p'' p^-1 - (p'
    p^-1)^2): what its length does is in the real part alone.
    """
    x, y, z, w = a.place[k], a.place[k + 1], a.place[k + 2], a.place[k + 3]
    n = 1.0 / (x * x + y * y + z * z + w * w)
    r0, r1, r2, r3 = _times_inverse(a.rate, k, x, y, z, w, n)
    s0, s1, s2, _ = _times_inverse(a.bend, k, x, y, z, w, n)
    # the vector part of the square of (r, r3) is 2 r3 r
    o0, o1, o2 = 2.0 * r0, 2.0 * r1, 2.0 * r2
    e0, e1, e2 = 2.0 * (s0 - 2.0 * r3 * r0), 2.0 * (s1 - 2.0 * r3 * r1), 2.0 * (s2 - 2.0 * r3 * r2)
    q, v = a.driven.body.q, a.driven.body.v
    scale = math.sqrt(n)
    goal, turn = a.goal, a.turn
    goal[0], goal[1], goal[2], goal[3] = scale * x, scale * y, scale * z, scale * w
    rotation_difference(goal, q[i : i + 4], turn)
    b0, b1, b2, b3 = q[i], q[i + 1], q[i + 2], q[i + 3]
    t0, t1, t2 = _into(b0, b1, b2, b3, turn[0], turn[1], turn[2])
    o0, o1, o2 = _into(b0, b1, b2, b3, o0, o1, o2)
    e0, e1, e2 = _into(b0, b1, b2, b3, e0, e1, e2)
    a.error[m], a.error[m + 1], a.error[m + 2] = t0, t1, t2
    v0, v1, v2 = v[j], v[j + 1], v[j + 2]
    a.lag[m], a.lag[m + 1], a.lag[m + 2] = o0 - v0, o1 - v1, o2 - v2
    # the rate of R^T omega is R^T omega' - v x R^T omega
    a.wanted[m] = e0 - (v1 * o2 - v2 * o1)
    a.wanted[m + 1] = e1 - (v2 * o0 - v0 * o2)
    a.wanted[m + 2] = e2 - (v0 * o1 - v1 * o0)


@kernel
def _times_inverse(d, k, x, y, z, w, n):
    """The quaternion d[k:] times the inverse of (x, y, z, w), where n = 1 / |.|^2."""
    a, b, c, e = d[k], d[k + 1], d[k + 2], d[k + 3]
    return (
        n * (a * w - e * x - (b * z - c * y)),
        n * (b * w - e * y - (c * x - a * z)),
        n * (c * w - e * z - (a * y - b * x)),
        n * (e * w + a * x + b * y + c * z),
    )


@kernel
def _into(x, y, z, w, a, b, c):
    """A vector in the axes of a body with the orientation (x, y, z, w)."""
    # R^T u = u - 2 w p x u + 2 p x (p x u)
    f, g, h = y * c - z * b, z * a - x * c, x * b - y * a
    return (
        a + 2.0 * (y * h - z * g - w * f),
        b + 2.0 * (z * f - x * h - w * g),
        c + 2.0 * (x * g - y * f - w * h),
    )


@kernel
def hold(packed, time, period, wrench):
    """Let a pull act in the step at a time [s], beside a wrench on the tool at the hand."""
    a = packed.arrays
    body = a.driven.body
    held = False
    for i in range(a.grabs.shape[0]):
        if a.grabs[i, 0] <= time < a.grabs[i, 1]:
            held = True
    for i in range(6):
        a.wrench[i] = 0.0
    if not held:
        a.held[0] = False
        return
    R, p_WJ, p_WH, R_WH = a.R_WJ, a.p_WJ, body.p_WH, body.R_WH
    if not a.held[0]:
        a.held[0] = True
        for i in range(3):
            if not a.given:
                s = 0.0
                for k in range(3):
                    s += R[k, i] * (p_WH[k] - p_WJ[k])
                a.point[i] = s
            for j in range(3):
                s = 0.0
                for k in range(3):
                    s += R[k, i] * R_WH[k, j]
                a.R_JH[i, j] = s
    _find_stretch(a)
    px, py, pz = p_WH[0] - a.x[0], p_WH[1] - a.x[1], p_WH[2] - a.x[2]  # the grabbed point
    first = body.start[a.tree]
    end = first + body.size[a.tree]
    J, W, L, J_W = a.J, a.W, body.L, body.J_W
    for j in range(first, end):
        if body.support[a.joint, j]:
            wx, wy, wz = J_W[j, 3], J_W[j, 4], J_W[j, 5]
            J[0, j] = J_W[j, 0] + wy * pz - wz * py
            J[1, j] = J_W[j, 1] + wz * px - wx * pz
            J[2, j] = J_W[j, 2] + wx * py - wy * px
            J[3, j], J[4, j], J[5, j] = wx, wy, wz
    for j in range(first, end):
        for i in range(6):
            s = J[i, j]
            for k in range(first, j):
                s -= L[j, k - first] * W[i, k]
            W[i, j] = s / L[j, j - first]
    push_scaled(L, body.start, body.size, body.J_H, body.bias, wrench, period, a.du)
    h_first = body.start[body.hand_tree]
    h_end = h_first + body.size[body.hand_tree]
    for i in range(6):
        free, now = 0.0, 0.0
        for j in range(h_first, h_end):
            free += body.W_H[i, j] * a.du[j]
        now = body.twist[i]
        for j in range(first, end):
            free -= W[i, j] * a.du[j]
            now -= W[i, j] * body.u[j]
        gain = a.damping[i] + 0.25 * period * a.stiffness[i]
        root = math.sqrt(gain)
        a.root[i] = root
        right = a.stiffness[i] * a.x[i] + gain * (now + free) - 0.25 * period * a.stiffness[i] * now
        a.x[i] = right / root if root > 0.0 else 0.0
    for i in range(6):
        for k in range(i + 1):
            s = body.inverse_inertia[6 * i + k]
            for j in range(first, end):
                s += W[i, j] * W[k, j]
            a.A[i, k] = period * a.root[i] * a.root[k] * s + (1.0 if i == k else 0.0)
    cholesky(a.A, 6, a.A)  # in place: entry (i, j) is read before it is written
    cholesky_solve(a.A, 6, a.x)
    for i in range(6):
        a.wrench[i] = -a.root[i] * a.x[i]
    force, bias, J_H = a.driven.force, body.bias, body.J_H
    for j in range(first, end):
        s = 0.0
        for i in range(6):
            s -= J[i, j] * a.wrench[i]
        force[j] += s
        bias[j] -= s
    for j in range(h_first, h_end):
        s = 0.0
        for i in range(6):
            s += J_H[i, j] * a.wrench[i]
        force[j] += s
        bias[j] -= s


@kernel
def _find_stretch(a):
    """Fill x with the way from the grabbed point to the hand, and the rotation from the grabbed orientation to it."""
    body = a.driven.body
    for i in range(3):
        s = a.p_WJ[i]
        for k in range(3):
            s += a.R_WJ[i, k] * a.point[k]
        a.x[i] = body.p_WH[i] - s
    # R_WH (R_WJ R_JH)^T, whose logarithm is taken by its quaternion
    E = a.turned
    for i in range(3):
        for j in range(3):
            s = 0.0
            for k in range(3):
                for m in range(3):
                    s += body.R_WH[i, m] * a.R_JH[k, m] * a.R_WJ[j, k]
            E[i, j] = s
    quat_from_matrix(E, a.quaternion)
    rotation_difference(a.quaternion, a.neutral, a.x[3:])


@kernel
def close_step(packed, count, period):
    """Book the work of drives and pulls, at the mean velocity of the step, and note what the tool touched."""
    a = packed.arrays
    body, rows = a.body, a.rows
    work = 0.0
    for j in range(a.force.shape[0]):
        work += a.force[j] * 0.5 * (a.before[j] + body.v[j])
    a.energies[INJECTED] += period * work
    touched = a.touched
    for t in range(touched.shape[0]):
        touched[t] = False
    for i in range(count):
        if rows.coordinate[i] >= 0 or not a.impulses[i, 0] > 0.0:
            continue
        first, second = body.tree_of[rows.body[i, 0]], body.tree_of[rows.body[i, 1]]
        if first == body.hand_tree and second >= 0:
            touched[second] = True
        if second == body.hand_tree and first >= 0:
            touched[first] = True


@kernel
def note(packed, period):
    """Note the acceleration of a step with a touch."""
    a = packed.arrays
    if not _is_touched(a):
        return
    for j in range(a.last.shape[0]):
        a.last[j] = (a.driven.body.v[j] - a.driven.before[j]) / period
