"""Loose bodies: free bodies that kernels evaluate, in worlds with more coordinates than Pinocchio takes.

Pinocchio's data hold tables of the cube of the velocities. So of a large world only a part has such data: linkages, and
what a hand holds. The free bodies that come last in the model are loose: their inertia D = [[m, 0], [0, I]] is
constant, and pose, Jacobian and forces take a few operations each. Joints, coordinates and frames of the part have the
numbers that they have in the whole model; in it the frames of loose bodies are on joint 0 and of no use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pinocchio as pin

from haptic_sim.kernels import kernel
from haptic_sim.packed import Packed
from haptic_sim.records import allocate, array, record, shared

PINOCCHIO_COORDINATES = 240  # velocities: its data hold 8 tables of their cube, 0.9 GB for so many


def first_loose(model: pin.Model) -> int:
    """The first joint of the loose bodies, which are the last ones of a model; the number of joints if there are none.

    None is loose where Pinocchio takes the whole model, nor what hands hold (frames of operation).
    """
    first = int(model.njoints)
    if model.nv <= PINOCCHIO_COORDINATES:
        return first
    hands = [frame.parentJoint for frame in model.frames if frame.type == pin.FrameType.OP_FRAME]
    while first - 1 > max(hands, default=0) and _is_free(model, first - 1):
        first -= 1
    return first


def _is_free(model: pin.Model, joint: int) -> bool:
    """Whether a joint is that of a free body about its centre of mass, on which nothing hangs."""
    kind = model.joints[joint]
    if model.parents[joint] != 0 or len(model.children[joint]) or kind.shortname() != "JointModelComposite":
        return False
    parts = [part.shortname() for part in kind.extract().joints]
    centred = not np.abs(model.inertias[joint].lever).max() > 0.0 and model.jointPlacements[joint].isIdentity(0.0)
    return centred and parts == ["JointModelTranslation", "JointModelSpherical"]


def part_of(model: pin.Model) -> pin.Model:
    """The model without its loose bodies: itself where there are none."""
    first = first_loose(model)
    if first == model.njoints:
        return model
    part = pin.Model()
    part.name, part.gravity = model.name, model.gravity
    for joint in range(1, first):
        part.addJoint(model.parents[joint], model.joints[joint], model.jointPlacements[joint], model.names[joint])
        part.appendBodyToJoint(joint, model.inertias[joint], pin.SE3.Identity())
    part.armature = model.armature[: part.nv]
    for frame in list(model.frames)[1:]:
        joint = frame.parentJoint if frame.parentJoint < first else 0
        part.addFrame(pin.Frame(frame.name, joint, 0, frame.placement, frame.type), False)
    return part


def forward_kinematics(model: pin.Model) -> Callable[[np.ndarray], Sequence[pin.SE3]]:
    """Function that finds the placements of all joints in the world from a configuration, for models of any size."""
    if first_loose(model) < model.njoints:
        return lambda q: joint_placements(model, q)
    data = model.createData()

    def placements(q: np.ndarray) -> Sequence[pin.SE3]:
        pin.forwardKinematics(model, data, q)
        found: Sequence[pin.SE3] = data.oMi
        return found

    return placements


def joint_placements(model: pin.Model, q: np.ndarray) -> list[pin.SE3]:
    """Placements of all joints in the world, one joint after the other: as Pinocchio's forward kinematics, no data."""
    placements = [pin.SE3.Identity()]
    for joint in range(1, model.njoints):
        kind, parent = model.joints[joint], model.parents[joint]
        data = kind.createData()
        kind.calc(data, q)
        placement = model.jointPlacements[joint] * data.M
        placements.append(placements[parent] * placement if parent else placement)
    return placements


@record
class LooseBodies(NamedTuple):
    """The loose bodies of a model; B is the joint of one."""

    q: np.ndarray = shared("first coordinate", "loose", dtype=np.int64)
    v: np.ndarray = shared("first velocity", "loose", dtype=np.int64)
    tree: np.ndarray = shared("tree", "loose", dtype=np.int64)
    weight: np.ndarray = shared("mass times gravity, world axes", "loose", 3, unit="N")
    inertia: np.ndarray = shared("inertia, axes of B", "loose", 3, 3, unit="kg m^2")
    R_WB: np.ndarray = array("orientation", "loose", 3, 3)
    p_WB: np.ndarray = array("position", "loose", 3, unit="m")
    a_B: np.ndarray = array("linear part of the spatial acceleration at constant v, own axes", "loose", 3, unit="m/s^2")


def build_loose(
    model: pin.Model, balanced: Sequence[pin.Inertia], tree_of: np.ndarray, joints: Sequence[int]
) -> LooseBodies:
    """The free bodies of some joints, at whose `balanced` weights (of each joint) gravity does not pull.

    `tree_of` has the tree of each joint, (joints,).
    """
    masses = [model.inertias[j].mass - (balanced[j].mass if balanced else 0.0) for j in joints]
    return allocate(
        LooseBodies,
        {"loose": len(joints)},
        q=np.array([model.idx_qs[j] for j in joints], np.int64),
        v=np.array([model.idx_vs[j] for j in joints], np.int64),
        tree=np.array([tree_of[j] for j in joints], np.int64),
        weight=np.outer(masses, model.gravity.linear).reshape(-1, 3),
        inertia=np.array([model.inertias[j].inertia for j in joints]).reshape(-1, 3, 3),
    )


class FreePart:
    """The bodies that Pinocchio evaluates, all of them free, by the same kernels: for steps in which most sleep.

    Args:
        part, data: of these bodies.
        balanced, tree_of: as of `build_loose`.
    """

    def __init__(self, part: pin.Model, data: pin.Data, balanced: Sequence[pin.Inertia], tree_of: np.ndarray):
        joints = range(1, part.njoints)
        self.bodies = Packed(build_loose(part, balanced, tree_of, joints))
        # Pinocchio's Python arrays are views: what is written there its data have
        self._places = [(data.oMi[j].rotation, data.oMi[j].translation, data.a[j].linear) for j in joints]

    @classmethod
    def of(
        cls, part: pin.Model, data: pin.Data, balanced: Sequence[pin.Inertia], tree_of: np.ndarray
    ) -> FreePart | None:
        """None, if not all of its bodies are free."""
        if all(_is_free(part, joint) for joint in range(1, part.njoints)):
            return cls(part, data, balanced, tree_of)
        return None

    def place(self, moving: np.ndarray) -> None:
        """Give Pinocchio's data the places of the bodies whose trees have `moving` coordinates, (trees,)."""
        bodies = self.bodies.lent
        for n in np.flatnonzero(moving[bodies.tree]):
            R, p, a = self._places[n]
            R[:], p[:], a[:] = bodies.R_WB[n], bodies.p_WB[n], bodies.a_B[n]


@kernel
def evaluate_loose(a, loose):
    """Fill in pose, Jacobian and forces of some free bodies of `BodyArrays`, and add their potential energy."""
    q, v, J_W, nle = a.q, a.v, a.J_W, a.nle
    potential = 0.0
    for n in range(loose.q.shape[0]):
        i, k = loose.q[n], loose.v[n]
        R, inertia, weight = loose.R_WB[n], loose.inertia[n], loose.weight[n]
        p0, p1, p2 = q[i], q[i + 1], q[i + 2]
        if a.moving[loose.tree[n]] == 0:
            potential -= weight[0] * p0 + weight[1] * p1 + weight[2] * p2
            continue
        loose.p_WB[n, 0], loose.p_WB[n, 1], loose.p_WB[n, 2] = p0, p1, p2
        rotation_of(q, i + 3, R)
        for j in range(3):
            # about the world's origin: a translation moves all points alike, a turn does so about p
            J_W[k + j, 0], J_W[k + j, 1], J_W[k + j, 2] = 0.0, 0.0, 0.0
            J_W[k + j, j] = 1.0
            x, y, z = R[0, j], R[1, j], R[2, j]
            J_W[k + 3 + j, 3], J_W[k + 3 + j, 4], J_W[k + 3 + j, 5] = x, y, z
            J_W[k + 3 + j, 0], J_W[k + 3 + j, 1], J_W[k + 3 + j, 2] = p1 * z - p2 * y, p2 * x - p0 * z, p0 * y - p1 * x
            nle[k + j] = -weight[j]
        vx = R[0, 0] * v[k] + R[1, 0] * v[k + 1] + R[2, 0] * v[k + 2]
        vy = R[0, 1] * v[k] + R[1, 1] * v[k + 1] + R[2, 1] * v[k + 2]
        vz = R[0, 2] * v[k] + R[1, 2] * v[k + 1] + R[2, 2] * v[k + 2]
        x, y, z = v[k + 3], v[k + 4], v[k + 5]
        loose.a_B[n, 0], loose.a_B[n, 1], loose.a_B[n, 2] = vy * z - vz * y, vz * x - vx * z, vx * y - vy * x
        hx = inertia[0, 0] * x + inertia[0, 1] * y + inertia[0, 2] * z
        hy = inertia[1, 0] * x + inertia[1, 1] * y + inertia[1, 2] * z
        hz = inertia[2, 0] * x + inertia[2, 1] * y + inertia[2, 2] * z
        nle[k + 3], nle[k + 4], nle[k + 5] = y * hz - z * hy, z * hx - x * hz, x * hy - y * hx
        potential -= weight[0] * p0 + weight[1] * p1 + weight[2] * p2
    a.potential_energy[0] += potential


@kernel
def rotation_of(q, i, R):
    """Fill R (3, 3) with the rotation of the unit quaternion x y z w that begins at q[i]."""
    x, y, z, w = q[i], q[i + 1], q[i + 2], q[i + 3]
    R[0, 0], R[0, 1], R[0, 2] = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)
    R[1, 0], R[1, 1], R[1, 2] = 2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)
    R[2, 0], R[2, 1], R[2, 2] = 2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)
