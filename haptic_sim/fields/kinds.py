"""The fields of this package: media (viscous, flow), attraction (spring, magnetic), fixtures (guide, forbidden).

**Springs and fixtures** pull by F(d) towards what is at a distance d: with the stiffness k up to the largest force F_m,
then with F_m, and with a `reach` r falls in a straight line from F_m at r - e to 0 at r. The energy is the integral of
F, so that it is conserved whatever the path is. Where the nearest point is not unique (the medial axis), the energy is
continuous and the force jumps by at most 2 F(d).

**A magnet** pulls with the energy U = (8/3) F_m d_m x^2 / (1 + x^2), x = d / (sqrt(3) d_m): by F_m at the distance d_m,
by less elsewhere, and with the stiffness 16/9 F_m / d_m at the target. (8/3) F_m d_m takes the body away from it.

**A fixture is one-sided** where it is a surface with a side, as virtual fixtures are (Rosenberg 1993; Bowyer, Davies
and Rodriguez y Baena, IEEE Trans. Robotics 30, 2014): there is no force on the other side. Its damper acts across the
curve, or along the normal, with a force of at most F_m at the velocity before the step; it never pulls a body in, and
grows with the depth over `soft`, so that the force begins at 0.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import model_validator

from haptic_sim.fields.distances import shape_numbers
from haptic_sim.fields.law import Drawn, FieldParameters
from haptic_sim.fields.targets import (
    CURVE,
    SURFACE,
    AnyPathParameters,
    AnyTargetParameters,
    PointTargetParameters,
    SurfaceTargetParameters,
    find_distance,
)
from haptic_sim.geometry.shapes import ORIGIN, AnyShapeParameters, Vector
from haptic_sim.kernels import kernel
from haptic_sim.parameters import quantity

BOTH, OUTSIDE, INSIDE = range(3)
_NAMES = ("both", "outside", "inside")
_PULL = 10  # numbers of `pull` before those of its target
_MAGNET = 3


@kernel
def drag(place, keys, answer):
    """Law of a medium: damping, rotational damping, velocity at the centre (3), angular velocity (3), centre (3)."""
    for i in range(3):
        answer.damping[i, i] = keys[0]
        answer.spin[i] = keys[5 + i]
    answer.turn_damping[0] = keys[1]
    x, y, z = place.position[0] - keys[8], place.position[1] - keys[9], place.position[2] - keys[10]
    wx, wy, wz = keys[5], keys[6], keys[7]
    answer.medium[0] = keys[2] + wy * z - wz * y
    answer.medium[1] = keys[3] + wz * x - wx * z
    answer.medium[2] = keys[4] + wx * y - wy * x


@kernel
def pull(place, keys, answer):
    """Law of springs and fixtures; for the numbers see `_pull_numbers`."""
    k, most, d1, d2, d3 = keys[0], keys[1], keys[2], keys[3], keys[4]
    b, bound, side, soft = keys[5], keys[6], keys[7], keys[8]
    d, nx, ny, nz, tx, ty, tz = find_distance(keys, _PULL, place.position)
    answer.far[0] = keys[9]
    if (side == OUTSIDE and d <= 0.0) or (side == INSIDE and d >= 0.0):
        return
    if d < 0.0:
        d, nx, ny, nz = -d, -nx, -ny, -nz
    part = 1.0  # of the damping
    if d <= d1:
        force, stored = k * d, 0.5 * k * d * d
    elif d <= d2:
        force, stored = most, 0.5 * k * d1 * d1 + most * (d - d1)
    else:
        end = min(d, d3)
        part = (d3 - end) / (d3 - d2)
        force = most * part
        stored = 0.5 * k * d1 * d1 + most * (d2 - d1) + most * (end - d2) * (1.0 - 0.5 * (end - d2) / (d3 - d2))
    answer.stored[0], answer.stiffness[0] = stored, k
    answer.force[0], answer.force[1], answer.force[2] = -force * nx, -force * ny, -force * nz
    v = place.velocity
    kind = keys[_PULL]
    if kind == SURFACE:
        along = v[0] * nx + v[1] * ny + v[2] * nz
        speed = abs(along)
        if side != BOTH:
            part *= min(d / soft, 1.0)
            if along < 0.0:  # it leaves, and is not held back
                bound = min(bound, force)
    else:
        along = v[0] * tx + v[1] * ty + v[2] * tz
        speed = math.sqrt(max(v[0] * v[0] + v[1] * v[1] + v[2] * v[2] - along * along, 0.0))
    b *= part
    if b * speed > bound:
        b = bound / speed
    for i in range(3):
        for j in range(3):
            n = (nx, ny, nz)[i] * (nx, ny, nz)[j]
            t = (tx, ty, tz)[i] * (tx, ty, tz)[j]
            one = 1.0 if i == j else 0.0
            answer.damping[i, j] = b * n if kind == SURFACE else b * (one - t) if kind == CURVE else b * one


@kernel
def attract(place, keys, answer):
    """Law of a magnet: largest force, its distance, damping, target."""
    most, at, b = keys[0], keys[1], keys[2]
    d, nx, ny, nz, _, _, _ = find_distance(keys, _MAGNET, place.position)
    if d < 0.0:
        d, nx, ny, nz = -d, -nx, -ny, -nz
    energy = 8.0 / 3.0 * most * at
    x = d / (math.sqrt(3.0) * at)
    inverse = 1.0 / (1.0 + x * x)
    answer.stored[0], answer.far[0] = energy * x * x * inverse, energy
    answer.stiffness[0] = 16.0 / 9.0 * most / at
    force = energy * 2.0 * x * inverse * inverse / (math.sqrt(3.0) * at)
    answer.force[0], answer.force[1], answer.force[2] = -force * nx, -force * ny, -force * nz
    for i in range(3):
        answer.damping[i, i] = b * inverse * inverse


class ViscousParameters(FieldParameters):
    """A medium at rest, which damps all motion."""

    LAW: ClassVar[Any] = drag
    type: Literal["viscous"] = "viscous"
    damping: float = quantity(unit="N s/m", description="Damping of the point", ge=0.0, le=1e5)
    turn_damping: float = quantity(0.0, unit="N m s/rad", description="Damping of the rotation", ge=0.0, le=1e4)

    def numbers(self, folder: Path) -> np.ndarray:
        """Numbers that the law gets."""
        return np.array([self.damping, self.turn_damping, *(9 * [0.0])])


class FlowParameters(FieldParameters):
    """A medium that moves, and takes with it what is in it."""

    LAW: ClassVar[Any] = drag
    type: Literal["flow"] = "flow"
    velocity: Vector = quantity(ORIGIN, unit="m/s", description="Velocity of the medium, at the centre")
    spin: Vector = quantity(ORIGIN, unit="rad/s", description="Angular velocity with which the medium turns")
    centre: Vector = quantity(ORIGIN, unit="m", description="A point of the axis about which the medium turns")
    damping: float = quantity(unit="N s/m", description="Damping of the point against the medium", ge=0.0, le=1e5)
    turn_damping: float = quantity(
        0.0, unit="N m s/rad", description="Damping of the rotation against that of the medium", ge=0.0, le=1e4
    )

    def numbers(self, folder: Path) -> np.ndarray:
        """Numbers that the law gets."""
        return np.array([self.damping, self.turn_damping, *self.velocity, *self.spin, *self.centre])


def _pull_numbers(
    stiffness: float,
    most: float | None,
    damping: float,
    target: np.ndarray,
    *,
    reach: float | None = None,
    edge: float = 0.0,
    side: int = BOTH,
    soft: float = 1.0,
) -> np.ndarray:
    """k, F_m, distances at which F_m begins and ends and at which nothing is left, b, its bound, side, depth, U far."""
    d2, d3 = (math.inf, math.inf) if reach is None else (reach - edge, reach)
    d1 = d2 if most is None else min(d2, most / stiffness) if stiffness > 0.0 else 0.0
    force = stiffness * d1 if stiffness > 0.0 else 0.0
    far = 0.0 if reach is None else force * (d2 - 0.5 * d1 + 0.5 * edge)
    bound = math.inf if most is None else most
    return np.concatenate([[stiffness, force, d1, d2, d3, damping, bound, side, soft, far], target])


class SpringParameters(FieldParameters):
    """A spring and a damper to a point."""

    LAW: ClassVar[Any] = pull
    type: Literal["spring"] = "spring"
    point: Vector = quantity(unit="m", description="Point to which the spring pulls")
    stiffness: float = quantity(unit="N/m", description="Stiffness of the spring", ge=0.0, le=1e6)
    damping: float = quantity(
        0.0, unit="N s/m", description="Damping of the point, with `largest_force` at most", ge=0.0, le=1e5
    )
    largest_force: float | None = quantity(
        None, unit="N", description="Largest force of the spring; left out: no bound", gt=0.0, le=1e6
    )

    def numbers(self, folder: Path) -> np.ndarray:
        """Numbers that the law gets."""
        target = PointTargetParameters(point=self.point).numbers(folder, "point")
        return _pull_numbers(self.stiffness, self.largest_force, self.damping, target)

    @property
    def largest_stiffness(self) -> float:
        """Largest stiffness of the field [N/m]."""
        return self.stiffness

    def drawn(self) -> Drawn:
        """Shapes that a view draws of the field beside its region."""
        return Drawn(points=np.array([self.point]))


class MagneticParameters(FieldParameters):
    """A point, a curve or a surface that attracts."""

    LAW: ClassVar[Any] = attract
    type: Literal["magnetic"] = "magnetic"
    to: AnyTargetParameters = quantity(description="Target that attracts")
    largest_force: float = quantity(unit="N", description="Largest force", gt=0.0, le=1e4)
    distance: float = quantity(
        0.01, unit="m", description="Distance at which the force is the largest", ge=1e-5, le=10.0
    )
    damping: float = quantity(
        0.0, unit="N s/m", description="Damping of the point at the target; it fades with the distance", ge=0.0, le=1e5
    )

    def numbers(self, folder: Path) -> np.ndarray:
        """Numbers that the law gets."""
        own = [self.largest_force, self.distance, self.damping]
        return np.concatenate([own, self.to.numbers(folder, ".to")])

    @property
    def largest_stiffness(self) -> float:
        """Largest stiffness of the field [N/m]."""
        return 16.0 / 9.0 * self.largest_force / self.distance

    def drawn(self) -> Drawn:
        """Shapes that a view draws of the field beside its region."""
        return self.to.drawn()


class GuideParameters(FieldParameters):
    """A virtual fixture that guides along a curve or a surface."""

    LAW: ClassVar[Any] = pull
    type: Literal["guide"] = "guide"
    along: AnyPathParameters = quantity(description="Curve or surface along which it guides")
    side: Literal["both", "outside", "inside"] = quantity(
        "both", description="On which side of a surface it acts, towards the surface"
    )
    stiffness: float = quantity(500.0, unit="N/m", description="Stiffness across curve or surface", gt=0.0, le=1e6)
    damping: float = quantity(2.0, unit="N s/m", description="Damping across curve or surface", ge=0.0, le=1e5)
    largest_force: float = quantity(5.0, unit="N", description="Largest force of spring and of damper", gt=0.0, le=1e4)
    reach: float | None = quantity(
        None, unit="m", description="Distance from which on it does not act; left out: it acts everywhere", gt=0.0
    )
    soft: float = quantity(
        0.001, unit="m", description="Distance over which the damping of a side grows", ge=1e-6, le=1.0
    )

    @model_validator(mode="after")
    def _fits(self) -> GuideParameters:
        if self.reach is not None and not self.reach > self.edge:
            raise ValueError(f".reach = {self.reach:g} m: must be larger than edge = {self.edge:g} m, where it fades")
        if self.side != "both" and not isinstance(self.along, SurfaceTargetParameters):
            raise ValueError(f".side = {self.side}: is for along.type = surface; leave it out")
        return self

    def numbers(self, folder: Path) -> np.ndarray:
        """Numbers that the law gets."""
        return _pull_numbers(
            self.stiffness,
            self.largest_force,
            self.damping,
            self.along.numbers(folder, ".along"),
            reach=self.reach,
            edge=self.edge,
            side=_NAMES.index(self.side),
            soft=self.soft,
        )

    @property
    def largest_stiffness(self) -> float:
        """Largest stiffness of the field [N/m]."""
        return self.stiffness

    def drawn(self) -> Drawn:
        """Shapes that a view draws of the field beside its region."""
        return self.along.drawn()


class ForbiddenParameters(FieldParameters):
    """A virtual fixture that keeps a point out of a shape, or within it."""

    LAW: ClassVar[Any] = pull
    type: Literal["forbidden"] = "forbidden"
    shape: AnyShapeParameters = quantity(description="The shape, placed in the world")
    keep: Literal["outside", "inside"] = quantity(
        "outside", description="Side of the surface on which the point is kept"
    )
    stiffness: float = quantity(1000.0, unit="N/m", description="Stiffness of the region", gt=0.0, le=1e6)
    damping: float = quantity(5.0, unit="N s/m", description="Damping along the normal", ge=0.0, le=1e5)
    largest_force: float | None = quantity(
        None, unit="N", description="Largest force of spring and of damper; left out: no bound", gt=0.0, le=1e6
    )
    soft: float = quantity(0.001, unit="m", description="Depth over which the damping grows", ge=1e-6, le=1.0)

    def numbers(self, folder: Path) -> np.ndarray:
        """Numbers that the law gets."""
        return _pull_numbers(
            self.stiffness,
            self.largest_force,
            self.damping,
            np.concatenate([[SURFACE], shape_numbers(self.shape, folder, ".shape", outside=self.keep == "inside")]),
            side=INSIDE if self.keep == "outside" else OUTSIDE,
            soft=self.soft,
        )

    @property
    def largest_stiffness(self) -> float:
        """Largest stiffness of the field [N/m]."""
        return self.stiffness

    def drawn(self) -> Drawn:
        """Shapes that a view draws of the field beside its region."""
        return Drawn(shapes=(self.shape,))
