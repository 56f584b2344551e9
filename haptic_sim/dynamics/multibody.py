"""Articulated bodies as a Pinocchio model: configuration-space dynamics and the hand.

Notation: W world, H the hand frame with its axes turned to the world's. D is the inertia in configuration space. It is
block diagonal over the trees of the model (a tree is a set of bodies connected by joints, or one free body), and so is
its Cholesky factor L. Contacts and forces act on the scaled velocity u = L^T v, whose square is twice the kinetic
energy (`haptic_sim.dynamics.scaled`).

A free body has the velocity of its centre of mass in world axes as coordinates, so that semi-implicit Euler conserves
its linear momentum exactly: a planar joint is a composite of PX, PY, RZ (Pinocchio's JointModelPlanar has body axes,
in which each step would turn the momentum), a free joint one of a translation and a spherical joint at the centre of
mass. The rotation of a free body is stepped by the implicit midpoint rule, which keeps angular momentum and kinetic
energy (`free_rotation`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pinocchio as pin

from haptic_sim.contact_rows import CAPACITY
from haptic_sim.dynamics.gravity import BalancedWeights
from haptic_sim.dynamics.joints import JointArrays, JointLaw, add_springs, build_joints
from haptic_sim.dynamics.loose import FreePart, LooseBodies, build_loose, evaluate_loose, part_of, rotation_of
from haptic_sim.kernels import bind, kernel
from haptic_sim.linalg import cholesky, to_velocity
from haptic_sim.packed import Packed
from haptic_sim.records import allocate, array, record, shared, value
from haptic_sim.spatial import quat_from_matrix


def planar_joint() -> pin.JointModel:
    """A joint with coordinates (x, y, angle about z) in world axes [m, m, rad]."""
    joint = pin.JointModelComposite()
    for axis in (pin.JointModelPX(), pin.JointModelPY(), pin.JointModelRZ()):
        joint.addJoint(axis)
    return joint


def free_joint() -> pin.JointModel:
    """A joint with a position [m] and an orientation (quaternion x y z w).

    Its velocity is that of its origin in world axes [m/s] and the angular one in body axes [rad/s].
    """
    joint = pin.JointModelComposite(pin.JointModelTranslation())
    joint.addJoint(pin.JointModelSpherical())
    return joint


def planar_body(mass: float, inertia: float) -> tuple[pin.Model, int]:
    """A free planar body, its hand frame at the centre of mass; returns the model and the frame's index.

    Args:
        mass: [kg].
        inertia: about z at the centre of mass [kg m^2].
    """
    model = pin.Model()
    body = model.addJoint(0, planar_joint(), pin.SE3.Identity(), "tool")
    # The other two moments do not matter in the plane; equal ones are those of a possible body.
    model.appendBodyToJoint(body, pin.Inertia(mass, np.zeros(3), inertia * np.eye(3)), pin.SE3.Identity())
    model.gravity.linear[:] = 0.0
    hand = model.addFrame(pin.Frame("hand", body, pin.SE3.Identity(), pin.FrameType.OP_FRAME))
    return model, hand


_POSITION, _QUATERNION = ("x", "y", "z"), ("qx", "qy", "qz", "qw")
_LINEAR, _ANGULAR = ("vx", "vy", "vz"), ("wx", "wy", "wz")
_COORDINATES = {
    "JointModelFreeFlyer": (_POSITION + _QUATERNION, _LINEAR + _ANGULAR),
    "JointModelTranslation": (_POSITION, _LINEAR),
    "JointModelSpherical": (_QUATERNION, _ANGULAR),
    "JointModelPlanar": (("x", "y", "cos", "sin"), ("vx", "vy", "wz")),
}
"""Names of the coordinates and velocities of joints that have several, by Pinocchio's name of the joint."""


def coordinate_names(model: pin.Model) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the coordinates q and of the velocities v of a model.

    Of a joint with one coordinate it is the joint's, of another the joint's and what it is: `ball.x`, `ball.qw`,
    `ball.wz`.
    """
    q_names: list[str] = []
    v_names: list[str] = []
    for i in range(1, model.njoints):
        joint, name = model.joints[i], model.names[i]
        q_parts, v_parts = _COORDINATES.get(joint.shortname(), ((), ()))
        if joint.shortname() == "JointModelComposite":
            kinds = [part.shortname() for part in joint.extract().joints]
            if kinds == ["JointModelTranslation", "JointModelSpherical"]:
                q_parts, v_parts = _COORDINATES["JointModelFreeFlyer"]
            elif kinds == ["JointModelPX", "JointModelPY", "JointModelRZ"]:
                q_parts, v_parts = ("x", "y", "angle"), ("vx", "vy", "wz")
        elif (joint.nq, joint.nv) == (2, 1):  # without bounds
            q_parts = ("cos", "sin")
        for names, parts, count in ((q_names, q_parts, joint.nq), (v_names, v_parts, joint.nv)):
            if len(parts) == count:
                names += [f"{name}.{part}" for part in parts]
            else:
                names += [name] if count == 1 else [f"{name}.{k}" for k in range(count)]
    return tuple(q_names), tuple(v_names)


class Trees:
    """The trees of a model: which coordinates of v belong together.

    Pairs of joints that are `coupled` otherwise make one tree of two.

    Attributes:
        start, size: first coordinate and number of coordinates of each tree, (trees,) int64.
        of_joint: tree of each joint, -1 for the universe, (joints,) int64.
        support: whether a coordinate moves a joint, (joints, nv) bool.
    """

    def __init__(self, model: pin.Model, coupled: Iterable[tuple[int, int]] = ()):
        self.of_joint = np.full(model.njoints, -1, np.int64)
        self.support = np.zeros((model.njoints, model.nv), np.bool_)
        starts: list[int] = []
        sizes: list[int] = []
        for joint in range(1, model.njoints):
            parent = model.parents[joint]
            first, count = model.joints[joint].idx_v, model.joints[joint].nv
            if parent == 0:
                self.of_joint[joint] = len(starts)
                starts.append(first)
                sizes.append(0)
            else:
                self.of_joint[joint] = self.of_joint[parent]
                self.support[joint] = self.support[parent]
            self.support[joint, first : first + count] = True
            tree = self.of_joint[joint]
            if first != starts[tree] + sizes[tree]:
                raise ValueError(
                    f"joint {model.names[joint]}: must follow the other joints of its tree; add the joints of one tree "
                    "after another"
                )
            sizes[tree] += count
        self.start, self.size = np.array(starts, np.int64), np.array(sizes, np.int64)
        for a, b in coupled:
            self._join(int(self.of_joint[a]), int(self.of_joint[b]))

    def _join(self, a: int, b: int) -> None:
        """Make one tree of two, and of those between them, so that its coordinates are consecutive."""
        a, b = min(a, b), max(a, b)
        if a < 0 or a == b:
            return
        self.size[a] = self.size[a : b + 1].sum()
        self.start, self.size = np.delete(self.start, slice(a + 1, b + 1)), np.delete(self.size, slice(a + 1, b + 1))
        self.of_joint[(self.of_joint > a) & (self.of_joint <= b)] = a
        self.of_joint[self.of_joint > b] -= b - a


def _first_of_trees(model: pin.Model, trees: Trees) -> list[int]:
    """First entry of each tree in q."""
    first = {model.idx_vs[joint]: model.idx_qs[joint] for joint in range(1, model.njoints)}
    return [first[int(start)] for start in trees.start]


def _free_bodies(model: pin.Model) -> tuple[np.ndarray, np.ndarray]:
    """First angular coordinate (n,) and inertia [kg m^2] (n, 3, 3) of the free bodies without children."""
    coordinates, inertias = [], []
    for joint in range(1, model.njoints):
        kind = model.joints[joint]
        if kind.shortname() != "JointModelComposite" or len(model.children[joint]):
            continue
        parts = [part.shortname() for part in kind.extract().joints]
        lever = np.abs(model.inertias[joint].lever).max()
        if parts == ["JointModelTranslation", "JointModelSpherical"] and not lever > 0.0:
            coordinates.append(kind.idx_v + 3)
            inertias.append(model.inertias[joint].inertia)
    return np.array(coordinates, np.int64), np.array(inertias).reshape(-1, 3, 3)


EPSILON = float(np.finfo(float).eps)
SMALL_TURN = EPSILON**0.25
"""Square of the angle up to which Pinocchio takes a series for a rotation [rad^2]."""


def _quaternions(model: pin.Model) -> np.ndarray | None:
    """First velocity of each quaternion in q; None where other coordinates are not numbers that velocities add to."""
    found = []
    for joint in range(1, model.njoints):
        kind = model.joints[joint]
        first = kind.idx_v
        for part in kind.extract().joints if kind.shortname() == "JointModelComposite" else (kind,):
            if part.shortname() == "JointModelSpherical":
                found.append(first)
            elif part.nq != part.nv:
                return None
            first += part.nv
    return np.array(found, np.int64)


def _single_kind(model: pin.Model) -> int:
    """FREE or PLANAR if joint 1 is such a joint at the centre of mass of its body, else SEVERAL."""
    kind = model.joints[1]
    if kind.shortname() != "JointModelComposite" or np.any(model.inertias[1].lever):
        return SEVERAL
    parts = [part.shortname() for part in kind.extract().joints]
    if parts == ["JointModelTranslation", "JointModelSpherical"]:
        return FREE
    return PLANAR if parts == ["JointModelPX", "JointModelPY", "JointModelRZ"] else SEVERAL


def _mobility(model: pin.Model, nv: int, q: np.ndarray, laws: Sequence[JointLaw]) -> np.ndarray:
    """Diagonal of the inverse inertia (nv,), of loose bodies zero: they have no springs; only where a joint has one."""
    mobility = np.zeros(nv)
    if not any(law.stiffness > 0.0 for law in laws):
        return mobility
    upper = np.triu(pin.crba(model, model.createData(), q).reshape(model.nv, model.nv))
    mobility[: model.nv] = np.diag(np.linalg.inv(upper + np.triu(upper, 1).T))
    return mobility


SEVERAL, FREE, PLANAR = range(3)
"""Kinds of `SingleBody`; SEVERAL: the model is none, and Pinocchio evaluates it."""


@record
class SingleBody(NamedTuple):
    """The only body of a model, free or planar, whose kinematics kernels evaluate; B is its joint.

    Its inertia is constant and its centre of mass is the origin of B, so that of Pinocchio's terms only those that
    `evaluate_single` fills in change.
    """

    kind: int = value("SEVERAL, FREE or PLANAR")
    gyroscopic: bool = value("whether nle has gyroscopic terms")
    factored: np.ndarray = shared("whether D and L are up to date: they are constant", 1, dtype=np.bool_)
    weight: np.ndarray = shared("mass times gravity, world axes", 3, unit="N")
    inertia: np.ndarray = shared("inertia, axes of B", 3, 3, unit="kg m^2")
    p_BH: np.ndarray = shared("position of the hand in B", 3, unit="m")
    R_BH: np.ndarray = shared("orientation of the hand in B", 3, 3)
    p_WB: np.ndarray = shared("position", 3, unit="m")
    R_WB: np.ndarray = shared("orientation", 3, 3)
    a_B: np.ndarray = shared("linear part of the spatial acceleration at constant v, own axes", 3, unit="m/s^2")


@record
class BodyArrays(NamedTuple):
    """The arrays of a `Multibody` and its `Trees`, for kernels."""

    M: np.ndarray = shared("Pinocchio's inertia, by rows: the lower triangle is filled", "part", "part")
    nle: np.ndarray = shared("Coriolis, centrifugal and gravity terms, Pinocchio's where no body is loose", "nv")
    J_W: np.ndarray = shared(
        "transposed Jacobian of all joints, world axes, at the world's origin: row j is the [linear, angular] velocity "
        "of what coordinate j moves",
        "nv",
        6,
    )
    start: np.ndarray = shared("first coordinate of each tree", "trees", dtype=np.int64)
    size: np.ndarray = shared("number of coordinates of each tree", "trees", dtype=np.int64)
    moving: np.ndarray = shared("the same, but 0 of a tree that sleeps", "trees", dtype=np.int64)
    awake: np.ndarray = array("trees that do not sleep: of those that Pinocchio evaluates, of all", 2, dtype=np.int64)
    q_start: np.ndarray = shared("first entry of each tree in q; the last: nq", "trees + 1", dtype=np.int64)
    first: np.ndarray = shared("first coordinate of the tree of each coordinate", "nv", dtype=np.int64)
    support: np.ndarray = shared("whether a coordinate moves a joint", "joints", "nv", dtype=np.bool_)
    tree_of: np.ndarray = shared("tree of each joint, -1 of the universe", "joints", dtype=np.int64)
    falling: float = value("g^2 times the mass of all bodies, but of what is balanced", unit="N^2/kg")
    hand: int = value("joint of the hand")
    hand_tree: int = value("tree of the hand")
    planes: int = value("number of planes that move as masses along their normals")
    free: np.ndarray = shared("first angular coordinate of each free body", "free bodies", dtype=np.int64)
    free_tree: np.ndarray = shared("tree of each free body", "free bodies", dtype=np.int64)
    free_inertia: np.ndarray = shared("inertia of each free body, its axes", "free bodies", 3, 3, unit="kg m^2")
    p_WH: np.ndarray = shared("position of the hand", 3, unit="m")
    R_WH: np.ndarray = shared("orientation of the hand", 3, 3)
    q: np.ndarray = shared("configuration", "nq", unit="m, rad")
    v: np.ndarray = shared("velocity of the configuration", "nv", unit="m/s, rad/s")
    single: SingleBody = value("the body, if it is the only one")
    loose: LooseBodies = value("bodies that Pinocchio does not evaluate")
    potential_energy: np.ndarray = array("potential energy of gravity", 1, unit="J")
    D: np.ndarray = array(
        "inertia, with what damping and springs of joints add over a step, by trees: row j has the columns of its tree",
        "nv",
        "width",
    )
    L: np.ndarray = array("Cholesky factor of D, lower triangle, in the same way", "nv", "width")
    u: np.ndarray = array("scaled velocity L^T v, and of each plane velocity / sqrt(mobility)", "nv + planes")
    bias: np.ndarray = array(
        "Coriolis, centrifugal and gravity terms, damping and springs of joints; without the gyroscopic terms of free "
        "bodies",
        "nv",
    )
    J_H: np.ndarray = array("Jacobian of the hand's [linear, angular] velocity, world axes", 6, "nv")
    W_H: np.ndarray = array("J_H L^-T; planes do not move the hand", 6, "nv + planes")
    pose: np.ndarray = array("pose of the hand: position, quaternion x y z w", 7, unit="m")
    twist: np.ndarray = array("twist of the hand, world axes", 6, unit="m/s, rad/s")
    inverse_inertia: np.ndarray = array("J_H D^-1 J_H^T, row major", 36)
    kinetic_energy: np.ndarray = array("kinetic energy of all bodies", 1, unit="J")
    hand_energy: np.ndarray = array("kinetic energy of the hand's tree", 1, unit="J")
    step: np.ndarray = array("tangent vector by which q moves", "nv", unit="m, rad")
    Q: np.ndarray = array(
        "rows that exact constraints take from u: the first rank[0] are taken whole, and those up to rank[1], of "
        "constraints that switch, in `part`; see `haptic_sim.constraints.bodies`",
        "rows",
        "nv",
    )
    part: np.ndarray = array("part of a row of Q that is taken", "rows", fill=1)
    rank: np.ndarray = array("number of rigid rows of Q, and of all", 2, dtype=np.int64)
    reaction: np.ndarray = array("what exact constraints take from each contact", "contacts", 3, "rows")
    turned: np.ndarray = array("what they take from the moments of rolling and torsional friction", "rows")
    ahead: np.ndarray = array("u without contacts, while constraints switch; `u` has other coordinates then", "nv")
    joints: JointArrays = value("laws of the joints")


class Multibody:
    """State and dynamics of articulated bodies, refreshed once a step.

    Attributes:
        q, v: configuration (nq,) and its velocity (nv,), SI units.
        part, data: what of the model Pinocchio evaluates, and its data; is_loose: whether there are other bodies, see
            `haptic_sim.dynamics.loose`.
        trees: which coordinates belong together.
        D, L, u, bias, J_W, J_H, W_H, p_WH, R_WH, pose, twist, inverse_inertia, kinetic_energy, hand_energy: see
            `BodyArrays`.
        held_alone: whether the held body hangs on the world, and nothing on it; nv_hand: coordinates of its tree;
            has_laws: whether a joint of that tree has laws.
        arrays, packed: the arrays, for kernels.

    `laws` of joints (`haptic_sim.dynamics.joints`) are for steps of `period` [s]. `rows` of exact constraints, between
    bodies of joints that are `coupled`, are for `haptic_sim.constraints.bodies`. `planes` are what contacts touch that
    is no body of the model, and moves as a mass along the normal (`RowArrays.plane`); `u` has their coordinates, too.
    Gravity does not pull at weights that are `balanced` (`haptic_sim.dynamics.gravity`).
    """

    DERIVED = ("_free_part", "_follow_free", "_weights")
    _gyroscopic = True  # whether Coriolis terms are among the forces

    def __init__(
        self,
        model: pin.Model,
        hand: int,
        q: np.ndarray,
        v: np.ndarray,
        *,
        laws: Sequence[JointLaw] = (),
        period: float = 0.0,
        rows: int = 0,
        coupled: Sequence[tuple[int, int]] = (),
        planes: int = 0,
        balanced: Sequence[pin.Inertia] = (),
    ):
        self.model, self.hand = model, hand
        self.part = part = part_of(model)
        self.data = part.createData()
        self._balanced = BalancedWeights(part, balanced[: part.njoints]) if balanced else None
        nv = model.nv
        self.trees = Trees(model, coupled)
        self._trees = self.trees.start.size
        self.hand_joint = int(model.frames[hand].parentJoint)
        tree = int(self.trees.of_joint[self.hand_joint])
        self._laws = laws
        self._bind_tree(tree)
        self.q, self.v = np.array(q, float), np.array(v, float)
        # Pinocchio's Python arrays are views: they follow its data without being asked for again. Its matrices are by
        # columns, which are also rows where there is one coordinate: as they are, kernels would be compiled for both.
        self.J_W, nle = self.data.J.T.reshape(part.nv, 6), self.data.nle
        self._of_part = self.q[: part.nq], self.v[: part.nv], self.J_W, nle
        self.is_loose = part.nv < nv
        if self.is_loose:
            self.J_W, nle = np.zeros((nv, 6)), np.zeros(nv)
        placement = self.data.oMf[hand]
        self.p_WH, self.R_WH = placement.translation, placement.rotation
        start, size = self.trees.start, self.trees.size
        free, free_inertia = _free_bodies(model)
        weighed = sum(body.mass for body in list(model.inertias)[1:]) - sum(body.mass for body in balanced)
        falling = float(weighed * (model.gravity.linear @ model.gravity.linear))
        self.arrays = a = allocate(
            BodyArrays,
            {
                "nv": nv,
                "width": int(size.max(initial=1)),
                "planes": planes,
                "rows": rows,
                "contacts": CAPACITY + 2 * len(laws) if rows else 0,
            },
            planes=planes,
            M=self.data.M.T.reshape(part.nv, part.nv),
            nle=nle,
            J_W=self.J_W,
            start=start,
            size=size,
            moving=size.copy(),
            q_start=np.append(_first_of_trees(model, self.trees), model.nq),
            first=np.repeat(start, size),
            support=self.trees.support,
            tree_of=self.trees.of_joint,
            falling=falling,
            hand=self.hand_joint,
            hand_tree=tree,
            free=free,
            free_tree=np.searchsorted(start, free, side="right") - 1,
            free_inertia=free_inertia,
            p_WH=self.p_WH,
            R_WH=self.R_WH,
            q=self.q,
            v=self.v,
            loose=build_loose(model, balanced, self.trees.of_joint, range(part.njoints, model.njoints)),
            single=self._find_single(rows > 0, sum(inertia.mass for inertia in balanced)),
            joints=build_joints(laws, self.q, nv, start, size, period, rows, _mobility(part, nv, self.q, laws)),
        )
        self.D, self.L, self.u, self.bias, self.kinetic_energy = a.D, a.L, a.u, a.bias, a.kinetic_energy
        self._step = a.step
        a.awake[:] = np.count_nonzero(start < part.nv), start.size
        # as memoryviews, whose elements take less to read and write than those of an array
        self._awake = a.awake.data
        self._energy: Any = a.potential_energy.data  # typed as a memoryview of integers
        self._potential = 0.0  # of what Pinocchio evaluates, once that is done
        self._free_part: FreePart | None = None  # once bodies sleep
        self._weights = balanced
        self._bind_hand(a)
        self.single = a.single.kind != SEVERAL
        self._no_acceleration = np.zeros(nv)
        self._turns = _quaternions(model)
        # Pinocchio's own function and NumPy's copy of what it returns take 7,200 instructions (docs/performance.md)
        self._integrate = None if self._turns is None else bind(_integrate, self.packed, self._turns)
        self._find_terms()  # what of a single body is constant
        for n, first in enumerate(a.loose.v):
            block = slice(first, first + 6)
            np.fill_diagonal(a.D[block, :6], model.inertias[part.njoints + n].mass)
            a.D[block, :6][3:, 3:] = a.loose.inertia[n]
            a.D[block, :6] += np.diag(a.joints.added[block])
            a.L[block, :6] = np.linalg.cholesky(a.D[block, :6])
        if a.single.kind == FREE:  # `_refresh_free` leaves out what would only be rounding of zero
            a.M[:3] = a.M[:, :3] = 0.0
            a.M[[0, 1, 2], [0, 1, 2]], a.M[3:, 3:] = model.inertias[self.hand_joint].mass, a.single.inertia
        self.refresh()

    def _bind_tree(self, tree: int) -> None:
        """Note what is known of the hand's tree."""
        self._placed_by_pinocchio = self.hand_joint < self.part.njoints  # the attribute of a model takes long to read
        self.held_single = tree >= 0 and int(np.count_nonzero(self.trees.of_joint == tree)) == 1
        self.nv_hand = int(self.trees.size[tree]) if tree >= 0 else 0
        first = int(self.trees.start[tree]) if tree >= 0 else 0
        self.has_laws = any(first <= law.velocity < first + self.nv_hand and not law.idle for law in self._laws)

    def _bind_hand(self, a: BodyArrays) -> None:
        """Take the arrays of the hand."""
        self.J_H, self.W_H, self.pose, self.twist = a.J_H, a.W_H, a.pose, a.twist
        self.inverse_inertia, self.hand_energy = a.inverse_inertia, a.hand_energy
        self.p_WH, self.R_WH = a.p_WH, a.R_WH
        self.packed = Packed(a)

    def held_at(self, frame: int) -> Multibody:
        """The same bodies, with the hand at another frame: only what belongs to the hand is not shared.

        Whoever advances this body calls `refresh_at_hand` of that one.
        """
        other = copy.copy(self)
        other.hand, other.hand_joint = frame, int(self.model.frames[frame].parentJoint)
        tree = int(self.trees.of_joint[other.hand_joint])
        other._bind_tree(tree)
        placement = self.data.oMf[frame]
        names = ("J_H", "W_H", "pose", "twist", "inverse_inertia", "hand_energy")
        own = {name: np.zeros_like(getattr(self.arrays, name)) for name in names}
        places = {"p_WH": placement.translation, "R_WH": placement.rotation}
        if other.hand_joint >= self.part.njoints:
            places = {"p_WH": np.zeros(3), "R_WH": np.zeros((3, 3), order="F")}
        other.arrays = self.arrays._replace(hand=other.hand_joint, hand_tree=tree, **places, **own)
        other._bind_hand(other.arrays)
        other.refresh_at_hand()
        return other

    def refresh_at_hand(self) -> None:
        """Bring what belongs to the hand up to date, after all else."""
        self._place_hand()
        refresh_at_hand(self.packed)

    def _place_hand(self) -> None:
        """Bring the pose of the hand up to date with that of its joint."""
        if self._placed_by_pinocchio:
            pin.updateFramePlacement(self.part, self.data, self.hand)
            return
        loose, X_BH = self.arrays.loose, self.model.frames[self.hand].placement
        n = self.hand_joint - self.part.njoints
        self.R_WH[:] = loose.R_WB[n] @ X_BH.rotation
        self.p_WH[:] = loose.p_WB[n] + loose.R_WB[n] @ X_BH.translation

    def _find_single(self, constrained: bool, balanced: float) -> SingleBody:
        """Constants of the body for kernels, if it is the only one; a mass is `balanced` [kg]."""
        model, hand = self.model, self.model.frames[self.hand]
        kind, joint = SEVERAL, self.hand_joint
        if model.njoints == 2 and joint == 1 and not constrained and model.jointPlacements[1].isIdentity(0.0):
            kind = _single_kind(model)
        link = model.inertias[joint]
        placement = self.data.oMi[joint]
        return SingleBody(
            kind=kind,
            gyroscopic=self._gyroscopic,
            factored=np.zeros(1, np.bool_),
            weight=(link.mass - balanced) * model.gravity.linear,
            inertia=link.inertia.copy(),
            p_BH=hand.placement.translation.copy(),
            R_BH=hand.placement.rotation.copy(),
            p_WB=placement.translation,
            R_WB=placement.rotation,
            a_B=self.data.a[joint].linear,
        )

    @property
    def nv(self) -> int:
        """Degrees of freedom."""
        return int(self.model.nv)

    @property
    def nu(self) -> int:
        """Scaled coordinates: the degrees of freedom, and one for each plane."""
        return int(self.arrays.u.size)

    @property
    def contact_trees(self) -> tuple[np.ndarray, np.ndarray]:
        """First coordinate and number of coordinates of each tree that contacts know: of the bodies, then planes."""
        planes = np.arange(self.nv, self.nu)
        start, size = self.trees.start, self.trees.size
        return np.concatenate([start, planes]), np.concatenate([size, np.ones(planes.size, np.int64)])

    @property
    def potential_energy(self) -> float:
        """Potential energy of gravity at the last `refresh` [J]."""
        return float(self.arrays.potential_energy[0])

    def refresh(self) -> None:
        """Bring everything that depends on q and v up to date."""
        self.evaluate()
        refresh_bodies(self.packed)

    def evaluate(self) -> None:
        """Find Pinocchio's terms of q and v; all is up to date once `refresh_bodies` has been called, too."""
        if self.single:
            evaluate_single(self.packed)
            return
        self._find_terms()
        self._place_hand()

    def _find_terms(self) -> None:
        """Evaluate inertia, bias and Jacobians by Pinocchio, and the potential energy, without the balanced terms."""
        data = self.data
        q, v, J_W, nle = self._of_part
        pin.computeAllTerms(self.part, data, q, v)
        self._potential = data.potential_energy
        if self._balanced is not None:
            self._potential -= self._balanced.take_from(data, q)
        self._energy[0] = self._potential
        if self.is_loose:
            self.J_W[: v.size], self.arrays.nle[: v.size] = J_W, nle
            _evaluate_loose(self.packed)

    def by_coordinates(self, blocks: np.ndarray) -> np.ndarray:
        """Full matrix (nv, nv) of `D` or `L`, which are stored by trees."""
        matrix = np.zeros((self.nv, self.nv))
        for first, n in zip(self.trees.start, self.trees.size, strict=True):
            matrix[first : first + n, first : first + n] = blocks[first : first + n, :n]
        return matrix

    def push(self, wrench: np.ndarray, period: float, du: np.ndarray) -> None:
        """Fill `du` (nv,) with the change of u over `period` [s] under gravity, bias and a wrench at the hand.

        `wrench` [N, N m] (6,) in world axes; THESIS (4.13) in scaled coordinates: du = T L^-1 (J_H^T F - bias).
        """
        a = self.arrays
        push_scaled(a.L, a.start, a.moving, a.J_H, a.bias, wrench, period, du)

    def move(self, u: np.ndarray, period: float) -> None:
        """Go on with the scaled velocity `u` for `period` [s] (semi-implicit Euler: the new velocity moves q)."""
        move_scaled(self.packed, u, period)
        self.follow()
        refresh_bodies(self.packed)

    def follow(self) -> None:
        """Move q by `arrays.step`, and `evaluate`."""
        if self.single:
            follow_single(self.packed)
            return
        if self._awake[1] < self._trees:
            if self._awake[1]:
                self._follow_awake()
            return
        if self._integrate is not None:
            self._integrate(self.packed, self._turns)
        else:
            self.q[:] = pin.integrate(self.model, self.q, self._step)
        self.evaluate()

    def _follow_awake(self) -> None:
        """Follow, as `follow`, where only bodies that do not sleep have moved."""
        if self._free_part is None:
            self._free_part = FreePart.of(self.part, self.data, self._weights, self.trees.of_joint)
            if self._free_part is not None:
                self._follow_free = bind(_follow_free, self.packed, self._free_part.bodies)
        free = self._free_part
        if free is not None:
            self._follow_free(self.packed, free.bodies)
            free.place(self.arrays.moving)
            self._place_hand()
        elif self._awake[0]:
            _take_awake(self.packed, pin.integrate(self.model, self.q, self._step))
            self.evaluate()
        else:  # only loose bodies move
            _follow_loose(self.packed, self._potential)


class SurveyedMultibody(Multibody):
    """Bodies with the inertia and gravity of a survey, and without Coriolis forces, THESIS (6.15, 6.16).

    Kinematics are those of the present configuration. Inertia and gravity are those of the start until `survey`.
    """

    _gyroscopic = False
    _has_inertia = False

    def evaluate(self) -> None:
        """Find Pinocchio's terms of q and v; all is up to date once `refresh_bodies` has been called, too."""
        model, data = self.model, self.data
        if not self._has_inertia:
            super().evaluate()
            data.nle[:] = data.g
            self._has_inertia = True
        if self.single:
            evaluate_single(self.packed)
            return
        pin.forwardKinematics(model, data, self.q, self.v, self._no_acceleration)
        pin.computeJointJacobians(model, data)
        pin.updateFramePlacement(model, data, self.hand)

    def survey(self, inertia: np.ndarray, gravity: np.ndarray) -> None:
        """Take the inertia (nv, nv) and the gravity terms (nv,) of a survey."""
        self.arrays.M[:], self.arrays.nle[:] = inertia, gravity
        self.arrays.single.factored[0] = False
        refresh_bodies(self.packed)


@kernel
def inertia_between(body, i, j):
    """Entry (i, j) of the inertia of `BodyArrays`."""
    return body.D[i, j - body.first[j]] if body.first[i] == body.first[j] else 0.0


@kernel
def push_scaled(L, start, size, J_H, bias, wrench, period, du):
    """Fill `du` (nv,) with the change of u over `period` [s] under a wrench (6,) at the hand, as `Multibody.push`."""
    for tree in range(start.shape[0]):
        if size[tree] == 6:  # the compiler unrolls the loops
            _push_tree(L, start[tree], 6, J_H, bias, wrench, period, du)
        else:
            _push_tree(L, start[tree], size[tree], J_H, bias, wrench, period, du)


@kernel(inline="always")
def _push_tree(L, first, size, J_H, bias, wrench, period, du):
    """Add the impulse of a wrench to the scaled velocities of one tree; see `push_scaled`."""
    f0, f1, f2, f3, f4, f5 = wrench[0], wrench[1], wrench[2], wrench[3], wrench[4], wrench[5]
    for i in range(size):
        j = first + i
        s = -bias[j] + J_H[0, j] * f0 + J_H[1, j] * f1 + J_H[2, j] * f2
        s = (s + J_H[3, j] * f3 + J_H[4, j] * f4 + J_H[5, j] * f5) * period
        for k in range(i):
            s -= L[j, k] * du[first + k]
        du[j] = s / L[j, i]


@kernel
def move_scaled(packed, u, period):
    """Find the velocity and displacement of scaled velocities u; see `find_velocity`."""
    find_velocity(packed.arrays, u, period)


@kernel
def find_velocity(body, u, period):
    """Fill v with L^-T u after the step, and `step` with the tangent vector by which q moves; v and u sleep at zero.

    Args:
        body: `BodyArrays`.
        u: scaled velocity after the step, (nv,).
        period: [s].
    """
    v, step, free, free_inertia = body.v, body.step, body.free, body.free_inertia
    to_velocity(body.L, body.start, body.moving, u, v)
    for j in range(v.shape[0]):
        step[j] = period * v[j]
    for i in range(free.shape[0]):
        if body.moving[body.free_tree[i]] > 0:
            j = free[i]
            free_rotation(free_inertia[i], period, v[j : j + 3], step[j : j + 3])


@kernel
def free_rotation(inertia, period, omega, turn):
    """Turn a free body over `period` [s]: angular velocity in body axes in and out, rotation vector out [rad].

    Implicit midpoint rule for Euler's equations, dP/dt = P x I^-1 P with the angular momentum P in body axes: it keeps
    the quadratic invariants |P|^2 and P . I^-1 P, the latter twice the kinetic energy. As P' - P = T P_m x w_m with
    P_m = (P + P') / 2 and w_m = I^-1 P_m is P' + T/2 w_m x P' = P - T/2 w_m x P, the body's momentum in world axes is
    kept when the body turns by the Cayley transform of T w_m, that is by 2 atan(T |w_m| / 2) about w_m (Austin,
    Krishnaprasad and Wang, J. Comput. Phys. 107, 1993). Solved by Newton's method.
    """
    a, b, c = inertia[0, 0], inertia[1, 1], inertia[2, 2]
    d, e, f = inertia[0, 1], inertia[0, 2], inertia[1, 2]
    # inverse of the symmetric inertia
    A, B, C = b * c - f * f, a * c - e * e, a * b - d * d
    D, E, F = e * f - d * c, d * f - e * b, d * e - a * f
    scale = 1.0 / (a * A + d * D + e * E)
    A, B, C, D, E, F = scale * A, scale * B, scale * C, scale * D, scale * E, scale * F
    p0 = a * omega[0] + d * omega[1] + e * omega[2]
    p1 = d * omega[0] + b * omega[1] + f * omega[2]
    p2 = e * omega[0] + f * omega[1] + c * omega[2]
    m0, m1, m2 = p0, p1, p2
    half = 0.5 * period
    size = math.sqrt(p0 * p0 + p1 * p1 + p2 * p2)
    w0, w1, w2 = omega[0], omega[1], omega[2]
    for _ in range(20):
        w0 = A * m0 + D * m1 + E * m2
        w1 = D * m0 + B * m1 + F * m2
        w2 = E * m0 + F * m1 + C * m2
        r0 = m0 - p0 - half * (m1 * w2 - m2 * w1)
        r1 = m1 - p1 - half * (m2 * w0 - m0 * w2)
        r2 = m2 - p2 - half * (m0 * w1 - m1 * w0)
        if abs(r0) + abs(r1) + abs(r2) <= 1e-16 * size:
            break
        # derivative of r by m: 1 - T/2 ([m]x I^-1 - [w]x)
        j00 = 1.0 - half * (m1 * E - m2 * D)
        j01 = -half * ((m1 * F - m2 * B) + w2)
        j02 = -half * ((m1 * C - m2 * F) - w1)
        j10 = -half * ((m2 * A - m0 * E) - w2)
        j11 = 1.0 - half * (m2 * D - m0 * F)
        j12 = -half * ((m2 * E - m0 * C) + w0)
        j20 = -half * ((m0 * D - m1 * A) + w1)
        j21 = -half * ((m0 * B - m1 * D) - w0)
        j22 = 1.0 - half * (m0 * F - m1 * E)
        c00, c01, c02 = j11 * j22 - j12 * j21, j12 * j20 - j10 * j22, j10 * j21 - j11 * j20
        determinant = j00 * c00 + j01 * c01 + j02 * c02
        if not abs(determinant) > 1e-6:
            break
        m0 -= (c00 * r0 + (j02 * j21 - j01 * j22) * r1 + (j01 * j12 - j02 * j11) * r2) / determinant
        m1 -= (c01 * r0 + (j00 * j22 - j02 * j20) * r1 + (j02 * j10 - j00 * j12) * r2) / determinant
        m2 -= (c02 * r0 + (j01 * j20 - j00 * j21) * r1 + (j00 * j11 - j01 * j10) * r2) / determinant
    rate = math.sqrt(w0 * w0 + w1 * w1 + w2 * w2)
    scale = 2.0 * math.atan(half * rate) / rate if rate > 0.0 else 0.0
    turn[0], turn[1], turn[2] = scale * w0, scale * w1, scale * w2
    # P' = (1 + [h]x)^-1 (1 - [h]x) P with h = T/2 w_m: the momentum in world axes is kept whatever w_m is
    x, y, z = half * w0, half * w1, half * w2
    n = 2.0 / (1.0 + x * x + y * y + z * z)
    k0, k1, k2 = p1 * z - p2 * y, p2 * x - p0 * z, p0 * y - p1 * x  # P x h
    p0 += n * (k0 + k1 * z - k2 * y)
    p1 += n * (k1 + k2 * x - k0 * z)
    p2 += n * (k2 + k0 * y - k1 * x)
    omega[0] = A * p0 + D * p1 + E * p2
    omega[1] = D * p0 + B * p1 + F * p2
    omega[2] = E * p0 + F * p1 + C * p2


@kernel
def _evaluate_loose(packed):
    """Fill in what is known of loose bodies, as `evaluate_loose`."""
    a = packed.arrays
    evaluate_loose(a, a.loose)


@kernel
def _follow_free(packed, bodies):
    """Move the bodies of a `FreePart` and the loose ones by `step`, and find their terms, but of those that sleep."""
    a = packed.arrays
    _move_free(a)
    a.potential_energy[0] = 0.0
    evaluate_loose(a, bodies.arrays)
    evaluate_loose(a, a.loose)


@kernel
def _follow_loose(packed, potential):
    """Move loose bodies only, and find their terms; `potential`: energy of the others [J]."""
    a = packed.arrays
    _move_free(a)
    a.potential_energy[0] = potential
    evaluate_loose(a, a.loose)


@kernel
def _move_free(a):
    """Move q of the free bodies that do not sleep by `step`."""
    for i in range(a.free.shape[0]):
        tree = a.free_tree[i]
        if a.moving[tree] > 0:
            first, j = a.q_start[tree], a.start[tree]
            for k in range(3):
                a.q[first + k] += a.step[j + k]
            turn_quaternion(a.q, first + 3, a.step, j + 3)


@kernel
def _take_awake(packed, q):
    """Take the configuration q of the trees that do not sleep."""
    a = packed.arrays
    for tree in range(a.moving.shape[0]):
        if a.moving[tree] > 0:
            for i in range(a.q_start[tree], a.q_start[tree + 1]):
                a.q[i] = q[i]


@kernel
def _integrate(packed, turns):
    """Move q by `step` in the arithmetic of `pin.integrate`; `turns` of `_quaternions`."""
    a = packed.arrays
    q, step = a.q, a.step
    i = j = 0
    for n in range(turns.shape[0]):
        while j < turns[n]:
            q[i] += step[j]
            i, j = i + 1, j + 1
        _turn_as_pinocchio(q, i, step, j)
        i, j = i + 4, j + 3
    while j < step.shape[0]:
        q[i] += step[j]
        i, j = i + 1, j + 1


@kernel
def _turn_as_pinocchio(q, i, step, j):
    """Rotate a quaternion, as `turn_quaternion`, in the order of operations of Pinocchio's `exp3` and of Eigen."""
    x, y, z = step[j], step[j + 1], step[j + 2]
    square = x * x + y * y + z * z
    if square > SMALL_TURN:
        angle = math.sqrt(square + EPSILON * EPSILON)
        w, scale = math.cos(0.5 * angle), math.sin(0.5 * angle)
        x, y, z = scale * (x / angle), scale * (y / angle), scale * (z / angle)
    else:
        s = square / 4.0
        w, scale = 1.0 - s / 2.0 + s * s / 24.0, 0.5 * (1.0 - s / 6.0 + s * s / 120.0)
        x, y, z = scale * x, scale * y, scale * z
    b, c, d, e = q[i], q[i + 1], q[i + 2], q[i + 3]
    q3 = (e * x + c * z) - (d * y - b * w)
    q4 = (e * y + c * w) + (d * x - b * z)
    q5 = (e * z - c * x) + (d * w + b * y)
    q6 = (e * w - c * y) - (d * z + b * x)
    scale = (3.0 - ((q3 * q3 + q5 * q5) + (q4 * q4 + q6 * q6))) / 2.0
    q[i], q[i + 1], q[i + 2], q[i + 3] = q3 * scale, q4 * scale, q5 * scale, q6 * scale


@kernel
def follow_single(packed):
    """Kernel of `Multibody.follow` for a single body."""
    a = packed.arrays
    q, step = a.q, a.step
    if a.single.kind == PLANAR:
        for i in range(3):
            q[i] += step[i]
    else:
        for i in range(3):
            q[i] += step[i]
        turn_quaternion(q, 3, step, 3)
    evaluate_single(packed)


@kernel
def turn_quaternion(q, i, step, j):
    """Turn the unit quaternion x y z w that begins at q[i] by the rotation vector at step[j], in its own axes.

    That is q (w + x i + y j + z k) with half the vector; the error of the length is of second order in rounding.
    """
    x, y, z = 0.5 * step[j], 0.5 * step[j + 1], 0.5 * step[j + 2]
    half = math.sqrt(x * x + y * y + z * z)
    w = math.cos(half)
    scale = math.sin(half) / half if half > 0.0 else 1.0
    x, y, z = scale * x, scale * y, scale * z
    b, c, d, e = q[i], q[i + 1], q[i + 2], q[i + 3]
    q3 = w * b + x * e + c * z - d * y
    q4 = w * c + y * e + d * x - b * z
    q5 = w * d + z * e + b * y - c * x
    q6 = w * e - b * x - c * y - d * z
    scale = 0.5 * (3.0 - (q3 * q3 + q4 * q4 + q5 * q5 + q6 * q6))
    q[i], q[i + 1], q[i + 2], q[i + 3] = scale * q3, scale * q4, scale * q5, scale * q6


@kernel
def evaluate_single(packed):
    """Kernel of `Multibody.evaluate` for a single body."""
    a = packed.arrays
    one, q, v, J_W, nle = a.single, a.q, a.v, a.J_W, a.nle
    R, p, p_WH, R_WH = one.R_WB, one.p_WB, a.p_WH, a.R_WH
    if one.kind == PLANAR:
        c, s, w = math.cos(q[2]), math.sin(q[2]), v[2]
        R[0, 0], R[0, 1], R[1, 0], R[1, 1] = c, -s, s, c
        p[0], p[1] = q[0], q[1]
        J_W[2, 0], J_W[2, 1] = q[1], -q[0]
        one.a_B[0], one.a_B[1] = (c * v[1] - s * v[0]) * w, -(c * v[0] + s * v[1]) * w
    else:
        rotation_of(q, 3, R)
        p0, p1, p2 = q[0], q[1], q[2]
        p[0], p[1], p[2] = p0, p1, p2
        for j in range(3):
            x, y, z = R[0, j], R[1, j], R[2, j]
            J_W[3 + j, 3], J_W[3 + j, 4], J_W[3 + j, 5] = x, y, z
            J_W[3 + j, 0], J_W[3 + j, 1], J_W[3 + j, 2] = p1 * z - p2 * y, p2 * x - p0 * z, p0 * y - p1 * x
        vx = R[0, 0] * v[0] + R[1, 0] * v[1] + R[2, 0] * v[2]
        vy = R[0, 1] * v[0] + R[1, 1] * v[1] + R[2, 1] * v[2]
        vz = R[0, 2] * v[0] + R[1, 2] * v[1] + R[2, 2] * v[2]
        x, y, z = v[3], v[4], v[5]
        one.a_B[0], one.a_B[1], one.a_B[2] = vy * z - vz * y, vz * x - vx * z, vx * y - vy * x
        if one.gyroscopic:
            inertia = one.inertia
            hx = inertia[0, 0] * x + inertia[0, 1] * y + inertia[0, 2] * z
            hy = inertia[1, 0] * x + inertia[1, 1] * y + inertia[1, 2] * z
            hz = inertia[2, 0] * x + inertia[2, 1] * y + inertia[2, 2] * z
            nle[3], nle[4], nle[5] = y * hz - z * hy, z * hx - x * hz, x * hy - y * hx
    potential = 0.0
    for i in range(3):
        p_WH[i] = p[i] + (R[i, 0] * one.p_BH[0] + R[i, 1] * one.p_BH[1] + R[i, 2] * one.p_BH[2])
        for j in range(3):
            R_WH[i, j] = R[i, 0] * one.R_BH[0, j] + R[i, 1] * one.R_BH[1, j] + R[i, 2] * one.R_BH[2, j]
        potential -= one.weight[i] * p[i]
    a.potential_energy[0] = potential


@kernel
def refresh_bodies(packed):
    """Bring everything up to date with q and v after `Multibody.evaluate`."""
    a = packed.arrays
    for i in range(3):
        a.pose[i] = a.p_WH[i]
    quat_from_matrix(a.R_WH, a.pose[3:])
    if a.single.kind == FREE and a.single.gyroscopic and a.single.factored[0] and not a.joints.damped:
        _refresh_free(a)
        return
    _refresh_dynamics(a)
    if a.hand_tree >= 0:
        _refresh_hand(a)


@kernel
def refresh_at_hand(packed):
    """Bring what belongs to the hand up to date after its placement, see `Multibody.held_at`."""
    a = packed.arrays
    for i in range(3):
        a.pose[i] = a.p_WH[i]
    quat_from_matrix(a.R_WH, a.pose[3:])
    _refresh_hand(a)
    first = a.start[a.hand_tree]
    energy = 0.0
    for i in range(first, first + a.size[a.hand_tree]):
        energy += 0.5 * a.u[i] * a.u[i]
        if a.joints.damped:
            energy -= 0.5 * a.joints.added[i] * a.v[i] * a.v[i]
    a.hand_energy[0] = energy


@kernel
def _refresh_free(a):
    """Refresh the dynamics and the hand of a single free body: D = [[m, 0], [0, I]].

    The terms of the general case that are zero are left out; L is up to date.
    """
    L, v, u, R, J_H, W_H, bias, nle = a.L, a.v, a.u, a.single.R_WB, a.J_H, a.W_H, a.bias, a.nle
    l0, l1, l2, l3, l4, l5 = L[0, 0], L[1, 1], L[2, 2], L[3, 3], L[4, 4], L[5, 5]
    l43, l53, l54 = L[4, 3], L[5, 3], L[5, 4]
    x, y, z = v[3], v[4], v[5]
    u[0], u[1], u[2] = l0 * v[0], l1 * v[1], l2 * v[2]
    u[3], u[4], u[5] = l3 * x + l43 * y + l53 * z, l4 * y + l54 * z, l5 * z
    energy = 0.0
    for i in range(6):
        energy += 0.5 * u[i] * u[i]
    a.kinetic_energy[0] = a.hand_energy[0] = energy
    bias[0], bias[1], bias[2] = nle[0], nle[1], nle[2]
    bias[3] = bias[4] = bias[5] = 0.0  # `free_rotation` does it
    # from the body's origin, where the hand turns about, to the hand
    p, p_WH, twist = a.single.p_WB, a.p_WH, a.twist
    r0, r1, r2 = p_WH[0] - p[0], p_WH[1] - p[1], p_WH[2] - p[2]
    i3, i4, i5 = 1.0 / l3, 1.0 / l4, 1.0 / l5
    W_H[0, 0], W_H[1, 1], W_H[2, 2] = 1.0 / l0, 1.0 / l1, 1.0 / l2
    for i in range(3):
        J_H[i, i] = 1.0
        twist[i], twist[3 + i] = v[i], R[i, 0] * x + R[i, 1] * y + R[i, 2] * z
    for j in range(3):
        wx, wy, wz = R[0, j], R[1, j], R[2, j]
        J_H[0, 3 + j], J_H[1, 3 + j], J_H[2, 3 + j] = wy * r2 - wz * r1, wz * r0 - wx * r2, wx * r1 - wy * r0
        J_H[3, 3 + j], J_H[4, 3 + j], J_H[5, 3 + j] = wx, wy, wz
    wx, wy, wz = twist[3], twist[4], twist[5]
    twist[0] += wy * r2 - wz * r1
    twist[1] += wz * r0 - wx * r2
    twist[2] += wx * r1 - wy * r0
    for i in range(6):
        s = J_H[i, 3] * i3
        t = (J_H[i, 4] - l43 * s) * i4
        W_H[i, 3], W_H[i, 4], W_H[i, 5] = s, t, (J_H[i, 5] - l53 * s - l54 * t) * i5
    inverse_inertia = a.inverse_inertia
    for i in range(6):
        for k in range(i + 1):
            s = W_H[i, 3] * W_H[k, 3] + W_H[i, 4] * W_H[k, 4] + W_H[i, 5] * W_H[k, 5]
            if i == k and i < 3:
                s += W_H[i, i] * W_H[i, i]
            inverse_inertia[6 * i + k] = inverse_inertia[6 * k + i] = s


@kernel
def _refresh_dynamics(a):
    """Refresh the inertia, its Cholesky factor, the scaled velocity, the bias and the kinetic energy."""
    M, nle, start, size, free, v, D, L, u, bias = a.M, a.nle, a.start, a.moving, a.free, a.v, a.D, a.L, a.u, a.bias
    damped, added = a.joints.damped, a.joints.added
    factored = a.single.factored[0]
    a.single.factored[0] = a.single.kind != SEVERAL
    total = 0.0
    for tree in range(start.shape[0]):
        first, n = start[tree], size[tree]
        end = first + n
        for i in range(first, end):
            bias[i] = nle[i]
        if not factored and first < M.shape[0]:  # of loose bodies they are constant
            for i in range(first, end):
                for j in range(first, end):
                    D[i, j - first] = M[i, j] if i >= j else M[j, i]  # only the lower triangle is filled
                if damped:
                    D[i, i - first] += added[i]
            cholesky(D[first:end], n, L[first:end])
        energy = 0.0
        for i in range(first, end):
            s = 0.0
            for j in range(i, end):
                s += L[j, i - first] * v[j]
            u[i] = s
            energy += 0.5 * s * s
            if damped:
                energy -= 0.5 * added[i] * v[i] * v[i]
        total += energy
        if tree == a.hand_tree:
            a.hand_energy[0] = energy
    a.kinetic_energy[0] = total
    for i in range(free.shape[0]):
        for j in range(free[i], free[i] + 3):
            bias[j] = 0.0  # `free_rotation` does it
    if damped:
        add_springs(a.joints, v, bias)


@kernel
def _refresh_hand(a):
    """Jacobian, twist and mobility of the hand."""
    first = a.start[a.hand_tree]
    end = first + a.size[a.hand_tree]
    hand_support, J_W, p, J_H, W_H, L = a.support[a.hand], a.J_W, a.p_WH, a.J_H, a.W_H, a.L
    v, twist, inverse_inertia = a.v, a.twist, a.inverse_inertia
    for j in range(first, end):
        if hand_support[j]:
            wx, wy, wz = J_W[j, 3], J_W[j, 4], J_W[j, 5]
            J_H[0, j] = J_W[j, 0] + wy * p[2] - wz * p[1]
            J_H[1, j] = J_W[j, 1] + wz * p[0] - wx * p[2]
            J_H[2, j] = J_W[j, 2] + wx * p[1] - wy * p[0]
            J_H[3, j], J_H[4, j], J_H[5, j] = wx, wy, wz
    if end - first == 6:  # the compiler unrolls the loops
        _find_rows(J_H, L, v, first, 6, twist, W_H, inverse_inertia)
    else:
        _find_rows(J_H, L, v, first, end - first, twist, W_H, inverse_inertia)


@kernel(inline="always")
def _find_rows(J_H, L, v, first, size, twist, W_H, inverse_inertia):
    """Fill the twist J_H v, W_H = J_H L^-T, and W_H W_H^T."""
    for i in range(6):
        s = 0.0
        for j in range(size):
            s += J_H[i, first + j] * v[first + j]
        twist[i] = s
    for j in range(size):
        inverse = 1.0 / L[first + j, j]
        for i in range(6):
            s = J_H[i, first + j]
            for k in range(j):
                s -= L[first + j, k] * W_H[i, first + k]
            W_H[i, first + j] = s * inverse
    for i in range(6):
        for k in range(i + 1):
            s = 0.0
            for j in range(size):
                s += W_H[i, first + j] * W_H[k, first + j]
            inverse_inertia[6 * i + k] = s
            inverse_inertia[6 * k + i] = s
