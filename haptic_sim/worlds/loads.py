"""Loads that bodies have to carry, and the stiffness of contacts that carry them.

**Column.** On a free body lie the bodies above it whose bounding boxes overlap it, or each other, when seen along
gravity, as if all of them had fallen onto it. Of the column that they form, M is the mass, H the height without gaps, n
the number of layers and l = H / n their mean height; of the lowest body, a is the smallest extent, and w the smallest
one across gravity.

**Compression.** On four corners of stiffness k the weight enters the lowest interface by M g / (4 k), which is 1 % of a
for k = 25 M g / a.

**Buckling.** n equal boxes of height l, width w and mass m = M / n, each on four corners, are links whose joints have
the rotational stiffness kappa = 4 k (w / 2)^2 = k w^2. With small tilts t_i (t_0 = 0) the potential is
    1/2 kappa sum (t_i - t_(i-1))^2 - 1/2 m g l sum (n - i + 1/2) t_i^2,
which is positive definite for kappa > f(n) M g l. For many layers that is Greenhill's column under its own weight,
q H^3 < 7.837 E I with q = M g / H and E I = kappa l, so that f = n^2 / 7.837. The fit
    f(n) = ((n + 3/4)^2 + 5/6) / 7.837
is within 1 % of the eigenvalue for n from 1 to 50. A rigid tower that tilts on its lowest joint alone gives n / 2,
which is less from two layers on: it is necessary, and not sufficient.

**Rate.** With the period T a column on four corners of k = M / (4 T^2) oscillates with 2 pi T: softer contacts are
sampled well.
"""

from __future__ import annotations

from typing import NamedTuple

import coal
import numpy as np
import pinocchio as pin

from haptic_sim.contact.response import ContactParameters
from haptic_sim.dynamics.loose import joint_placements
from haptic_sim.worlds.world_setup import WorldSetup

SUNK = 0.1  # of the size of a body: deeper is said
COMPRESSION = 0.01  # of its smallest extent, by which a body on four corners yields under its load
MARGIN = 2.0  # over the stiffness below which a column buckles
LARGEST = 1e7  # of contact.stiffness [N/m]
TOUCHING = 1e-6  # [m] of overlap that is none
GREENHILL = 7.837  # 9/4 j^2 with the first zero j of the Bessel function J_(-1/3)


class Load(NamedTuple):
    """Load on a body, itself included.

    Attributes:
        body: name of the lowest body.
        mass: of the column [kg].
        gravity: acceleration of free fall [m/s^2].
        height: of the column without gaps [m].
        layers: bodies that lie on top of each other.
        size: smallest extent of the lowest body [m].
        width: its smallest extent across gravity [m].
    """

    body: str
    mass: float
    gravity: float
    height: float
    layers: int
    size: float
    width: float

    @property
    def of_corner(self) -> float:
        """Weight on each of four corners [N]."""
        return self.mass * self.gravity / 4.0

    @property
    def buckling_stiffness(self) -> float:
        """Stiffness of a corner below which the column buckles [N/m]."""
        moment = self.mass * self.gravity * self.height / self.layers
        return buckling_factor(self.layers) * moment / (self.width * self.width)

    def stiffness(self, period: float) -> float:
        """Stiffness of a corner that carries the column in steps of a period [s], in [N/m]."""
        compression = self.of_corner / (COMPRESSION * self.size)
        return min(max(compression, MARGIN * self.buckling_stiffness), self.mass / (4.0 * period * period))


def buckling_factor(layers: float) -> float:
    """Least rotational stiffness of the joints of a column, in units of its weight by the height of a layer."""
    return ((layers + 0.75) ** 2 + 5.0 / 6.0) / GREENHILL


def find_loads(world: WorldSetup) -> list[Load]:
    """The loads of all bodies that move freely and are heavy; none without gravity."""
    gravity = world.model.gravity.linear
    g = float(np.linalg.norm(gravity))
    if not g > 0.0:
        return []
    boxes = _bounding_boxes(world, -gravity / g)
    return [_load_of(root, boxes, world, g) for root in boxes if boxes[root].mass > 0.0]


def carry(contact: ContactParameters, world: WorldSetup, rate: float, *, rigid: bool) -> ContactParameters:
    """Contacts whose stiffness and damping, where they were left out, carry the bodies of a world.

    The stiffness is never less than its default, and the ratio of damping to stiffness is that of the defaults.

    Args:
        contact: as given. Those of another law than `consistent`, for which stiffness is bounded by the rate, and
            those with a stiffness of their own are returned as they are.
        world: at its start.
        rate: steps a second [Hz].
        rigid: whether the contact method has rigid contacts, which have no stiffness.
    """
    if "stiffness" in contact.model_fields_set or contact.penalty != "consistent" or rigid:
        return contact
    most = max((load.stiffness(1.0 / rate) for load in find_loads(world)), default=0.0)
    if not most > contact.stiffness:
        return contact
    stiffness = min(float(f"{most:.3g}"), LARGEST)
    update = {"stiffness": stiffness}
    if "damping" not in contact.model_fields_set:
        update["damping"] = float(f"{contact.damping * stiffness / contact.stiffness:.3g}")
    return contact.model_copy(update=update)


def explain_carrying(contact: ContactParameters, world: WorldSetup, *, rigid: bool) -> list[str]:
    """Lines of the report at the start: bodies and columns that contacts are too soft for; a line of each or none."""
    if rigid:
        return []
    single = {world.body_names[joint] for joint in world.free_joints}  # of a robot, the box says little about its feet
    loads = [load for load in find_loads(world) if load.body in single]
    return [*_sunk(contact, loads), *_buckled(contact, loads)]


def _sunk(contact: ContactParameters, loads: list[Load]) -> list[str]:
    """The body that sinks deepest into what it lies on, if that is a good part of its size."""
    worst = max(loads, key=lambda load: load.of_corner / load.size, default=None)
    if worst is None or not (sunk := worst.of_corner / contact.stiffness) > SUNK * worst.size:
        return []
    return [
        f"contact.stiffness = {contact.stiffness:g} N/m: {worst.mass:.3g} kg on four contacts of {worst.body} sink "
        f"by {sunk:.2g} m; check mass and density, or choose environment.method = constraint"
    ]


def _buckled(contact: ContactParameters, loads: list[Load]) -> list[str]:
    """The column that buckles first, if one does."""
    columns = [load for load in loads if load.layers > 1]
    worst = max(columns, key=lambda load: load.buckling_stiffness, default=None)
    if worst is None or not contact.stiffness < worst.buckling_stiffness:
        return []
    return [
        f"contact.stiffness = {contact.stiffness:g} N/m: the {worst.layers} layers of {worst.mass:.3g} kg on "
        f"{worst.body} buckle below {worst.buckling_stiffness:.3g} N/m, if they lie on it; leave it out, or choose "
        "environment.method = constraint"
    ]


class _Box(NamedTuple):
    """Bounding box of all shapes of a tree, along its lowest joint's axes and seen along gravity."""

    low: np.ndarray  # seen with gravity along -z (3,) [m]
    high: np.ndarray
    size: float  # smallest extent along the joint's axes [m]
    mass: float  # at which gravity pulls [kg]


def _bounding_boxes(world: WorldSetup, up: np.ndarray) -> dict[int, _Box]:
    """Boxes of the trees that move freely, by their lowest joint."""
    model, geometry = world.model, world.geometry
    placements = joint_placements(model, world.q)
    R = pin.Quaternion.FromTwoVectors(up, np.array([0.0, 0.0, 1.0])).toRotationMatrix()
    points: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
    for shape in geometry.geometryObjects:
        joint = shape.parentJoint
        root = int(model.supports[joint].tolist()[1]) if joint > 0 else 0
        if root == 0 or not _moves_freely(model.joints[root]) or isinstance(shape.geometry, coal.Halfspace):
            continue
        shape.geometry.computeLocalAABB()
        local = shape.geometry.aabb_local
        corners = np.array(np.meshgrid(*zip(local.min_, local.max_, strict=True))).reshape(3, -1)
        X_WS = placements[joint] * shape.placement
        in_world = X_WS.rotation @ corners + X_WS.translation[:, None]
        X_WR = placements[root]
        points.setdefault(root, []).append((R @ in_world, X_WR.rotation.T @ in_world))
    boxes = {}
    for root, parts in points.items():
        seen, own = (np.concatenate([part[k] for part in parts], axis=1) for k in range(2))
        joints = [j for j in range(root, model.njoints) if root in model.supports[j]]
        mass = sum(model.inertias[j].mass for j in joints)
        if world.balanced:
            mass -= sum(world.balanced[j].mass for j in joints)
        boxes[root] = _Box(seen.min(axis=1), seen.max(axis=1), float(np.ptp(own, axis=1).min()), float(mass))
    return boxes


def _moves_freely(joint: pin.JointModel) -> bool:
    return joint.nv == 6 or (joint.nv == 3 and joint.nq == 3)


def _load_of(root: int, boxes: dict[int, _Box], world: WorldSetup, g: float) -> Load:
    """The column on a body: all bodies above, in the order of their heights, as they would fall onto it."""
    first = boxes[root]
    middle = first.low[2] + first.high[2]
    tops, layers = {root: float(first.high[2] - first.low[2])}, {root: 1}
    mass = first.mass
    above = (k for k, box in boxes.items() if k != root and box.low[2] + box.high[2] > middle + TOUCHING)
    for k in sorted(above, key=lambda k: float(boxes[k].low[2])):
        box = boxes[k]
        under = [j for j in tops if _overlap(box, boxes[j])]
        if under:
            tops[k] = max(tops[j] for j in under) + float(box.high[2] - box.low[2])
            layers[k] = max(layers[j] for j in under) + 1
            mass += box.mass
    width = float((first.high - first.low)[:2].min())
    return Load(world.body_names[root], mass, g, max(tops.values()), max(layers.values()), first.size, width)


def _overlap(one: _Box, other: _Box) -> bool:
    """Whether two boxes overlap, seen along gravity."""
    return all(min(one.high[i], other.high[i]) > max(one.low[i], other.low[i]) + TOUCHING for i in range(2))
