"""A hole with a chamfer, and the cylindrical peg at the tool of a simulated arm that goes into it.

The end of the peg is at the tool's origin, and the peg extends along -z of the tool. The hole goes through a plate with
a plane face. Two rings of points touch:

- points of the peg's end edge, against face, chamfer and bore;
- points of the bore's edge, where the chamfer ends, against the end and the side of the peg.

So a tilted peg has the two contacts of Whitney (1982): its end edge on one side of the bore, and the bore's edge
on the other side of the peg. Each point that overlaps by d has a spring and a damper along the normal n of what it
touches, and never pulls; the springs' energy, k d^2 / 2 each, is a function of the peg's pose alone. Friction is
Coulomb's, with a tangential spring xi that sticks (Cundall and Strack 1979):

    f = -(k xi + b v_t), scaled down to mu f_n, with xi = -f / k while it slides

The radius of the peg is nearly that of the bore, so that a point between two of a ring would be deeper than both by no
more than the radial clearance times 1 - cos(pi / N): 0.9 % of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from pydantic import model_validator

from haptic_robot.sensing import Direction, Touch
from haptic_sim.dynamics.loose import rotation_of
from haptic_sim.kernels import kernel
from haptic_sim.parameters import Parameters, quantity

POINTS = 24  # of each ring
ANGLES = 2.0 * math.pi * np.arange(POINTS) / POINTS
RING = np.ascontiguousarray(np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1))


class HoleParameters(Parameters):
    """A hole through a plate, and the peg at the tool of a simulated arm."""

    position: tuple[float, float, float] = quantity(
        (0.0, 0.0, 0.0),
        unit="m",
        description="Centre of the hole in the face of the plate, in the axes of the arm's base",
    )
    axis: Direction = quantity(
        (0.0, 0.0, 1.0), description="Axis of the hole, out of the plate; is scaled to a unit vector"
    )
    radius: float = quantity(0.01005, unit="m", description="Radius of the hole", gt=0.0, le=1.0)
    chamfer: float = quantity(
        0.001, unit="m", description="Width and depth of the chamfer of 45 degrees; 0: a sharp edge", ge=0.0, le=1.0
    )
    peg_radius: float = quantity(0.01, unit="m", description="Radius of the peg at the tool", gt=0.0, le=1.0)
    stiffness: float = quantity(
        0.0, unit="N/m", description="Contact stiffness of each point; 0: there is no hole", ge=0.0, le=1e7
    )
    damping: float = quantity(50.0, unit="N s/m", description="Contact damping of each point", ge=0.0, le=1e4)
    friction: float = quantity(0.0, description="Coefficient of friction of peg and hole", ge=0.0, le=2.0)

    @model_validator(mode="after")
    def _fits(self) -> HoleParameters:
        if self.stiffness and not self.peg_radius < self.radius:
            raise ValueError(
                f"peg_radius = {self.peg_radius:g} m: must be less than radius = {self.radius:g} m, "
                "or the peg cannot enter"
            )
        return self


@kernel
def add_contact(point, normal, depth, pose, twist, hole, T, touch, wrench):
    """Add to `wrench` (6,) [N, N m] what a point exerts on the peg, at the tool's origin.

    Args:
        point: in the axes of the base (3,) [m].
        normal: on the peg, out of what it touches, unit (3,).
        depth: of the overlap [m], > 0.
        pose, twist: of the tool (7,), (6,).
        hole: see `hole_array`.
        T: period [s].
        touch: tangential spring, place, force, normal and depth of the point (13,); filled.
    """
    k, b, mu = hole[15], hole[16], hole[17]
    ax, ay, az = point[0] - pose[0], point[1] - pose[1], point[2] - pose[2]
    vx = twist[0] + twist[4] * az - twist[5] * ay
    vy = twist[1] + twist[5] * ax - twist[3] * az
    vz = twist[2] + twist[3] * ay - twist[4] * ax
    rate = vx * normal[0] + vy * normal[1] + vz * normal[2]
    pressed = max(0.0, k * depth - b * rate)
    along = touch[0] * normal[0] + touch[1] * normal[1] + touch[2] * normal[2]
    size = 0.0
    for i in range(3):
        v = (vx, vy, vz)[i] - rate * normal[i]
        touch[i] += T * v - along * normal[i]  # what has left the tangential plane is given up
        touch[6 + i] = -(k * touch[i] + b * v)
        size += touch[6 + i] * touch[6 + i]
    size = math.sqrt(size)
    slides = size > mu * pressed
    for i in range(3):
        if slides:
            touch[6 + i] *= mu * pressed / size
            touch[i] = -touch[6 + i] / k
        touch[3 + i] = point[i]
        touch[6 + i] += pressed * normal[i]
        touch[9 + i] = normal[i]
        wrench[i] += touch[6 + i]
    touch[12] = depth
    wrench[3] += ay * touch[8] - az * touch[7]
    wrench[4] += az * touch[6] - ax * touch[8]
    wrench[5] += ax * touch[7] - ay * touch[6]


@kernel
def add_hole(pose, R, twist, hole, ring, T, touch, work, wrench):
    """Add to `wrench` (6,) [N, N m] what a hole exerts on the peg, at the tool's origin; returns the points that touch.

    Args:
        pose, twist: of the tool in the axes of the base (7,), (6,) [m, quat_xyzw; m/s, rad/s].
        R: the pose's rotation (3, 3).
        hole: see `hole_array`.
        ring: cosine and sine of each point (N, 2).
        T: period [s].
        touch: of each point tangential spring [m], place [m], force on the peg [N], normal and depth [m] (2 N, 13).
        work: scratch (2, 3).
    """
    point, normal = work[0], work[1]
    radius, chamfer, peg = hole[12], hole[13], hole[14]
    count = ring.shape[0]
    touching = 0
    for j in range(count):  # the end edge of the peg, in axes of the hole
        x = y = z = 0.0
        for i in range(3):
            point[i] = pose[i] + peg * (ring[j, 0] * R[i, 0] + ring[j, 1] * R[i, 1])
            x += hole[3 + 3 * i] * (point[i] - hole[i])
            y += hole[4 + 3 * i] * (point[i] - hole[i])
            z += hole[5 + 3 * i] * (point[i] - hole[i])
        out = math.sqrt(x * x + y * y)
        face, bore, slope = -z, out - radius, (out - z - radius - chamfer) * math.sqrt(0.5)
        depth = min(face, bore, slope)
        if not depth > 0.0:
            touch[j] = 0.0
            continue
        inward, upward = 0.0, 1.0
        if depth == bore:
            inward, upward = 1.0, 0.0
        elif depth == slope:
            inward, upward = math.sqrt(0.5), math.sqrt(0.5)
        for i in range(3):
            normal[i] = upward * hole[5 + 3 * i]
            if inward > 0.0:  # then out > radius > 0
                normal[i] -= inward * (x * hole[3 + 3 * i] + y * hole[4 + 3 * i]) / out
        add_contact(point, normal, depth, pose, twist, hole, T, touch[j], wrench)
        touching += 1
    for j in range(count):  # the edge of the bore, in axes of the peg
        x = y = z = 0.0
        for i in range(3):
            on_edge = ring[j, 0] * hole[3 + 3 * i] + ring[j, 1] * hole[4 + 3 * i]
            point[i] = hole[i] + radius * on_edge - chamfer * hole[5 + 3 * i]
            x += R[i, 0] * (point[i] - pose[i])
            y += R[i, 1] * (point[i] - pose[i])
            z += R[i, 2] * (point[i] - pose[i])
        out = math.sqrt(x * x + y * y)
        side, end = peg - out, -z
        depth = min(side, end)
        if not depth > 0.0:
            touch[count + j] = 0.0
            continue
        for i in range(3):
            if depth == side and out > 0.0:
                normal[i] = -(x * R[i, 0] + y * R[i, 1]) / out
            else:
                normal[i] = -R[i, 2]
        add_contact(point, normal, depth, pose, twist, hole, T, touch[count + j], wrench)
        touching += 1
    return touching


def hole_array(parameters: HoleParameters) -> np.ndarray:
    """A hole as `add_hole` takes it (18,): centre, axes row by row, radius, chamfer, radius of the peg, k, b, mu."""
    of = parameters
    z = np.array(of.axis)
    x = np.cross(np.eye(3)[np.argmin(np.abs(z))], z)
    x /= np.linalg.norm(x)
    axes = np.stack([x, np.cross(z, x), z], axis=1)
    sizes = (of.radius, of.chamfer, of.peg_radius, of.stiffness, of.damping, of.friction)
    return np.array([*of.position, *axes.ravel(), *sizes])


class Hole:
    """Wrench of a hole on the peg at a tool.

    Args:
        parameters: validated, with a stiffness > 0.
        rate: of the steps [Hz].
    """

    def __init__(self, parameters: HoleParameters, rate: float):
        self._hole, self._T = hole_array(parameters), 1.0 / rate
        self._touch, self._work, self._R = np.zeros((2 * POINTS, 13)), np.zeros((2, 3)), np.zeros((3, 3))
        self.touching = 0
        """Number of points that touch."""

    def add(self, pose: np.ndarray, twist: np.ndarray, wrench: np.ndarray) -> None:
        """Add its wrench (6,) at the tool's origin in the axes of the base; once in each period.

        Args:
            pose, twist: of the tool in the base (7,), (6,).
        """
        rotation_of(pose, 3, self._R)
        self.touching = add_hole(pose, self._R, twist, self._hole, RING, self._T, self._touch, self._work, wrench)

    def stored(self) -> float:
        """Energy in the springs of friction [J]."""
        return float(0.5 * self._hole[15] * (self._touch[:, :3] ** 2).sum())

    def contacts(self) -> Iterator[Touch]:
        """The points that touch."""
        for row in self._touch:
            if row[12] > 0.0:
                yield Touch(row[3:6], row[9:12], float(row[12]), row[6:9])
