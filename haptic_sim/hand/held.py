"""The hand of a `Multibody`: its quantities (`mobility`), computed in every step."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import pinocchio as pin

from haptic_sim.dynamics.multibody import BodyArrays, Multibody, SurveyedMultibody
from haptic_sim.hand.mobility import (
    Mobility,
    RankRule,
    complete_mobility,
    find_mobility,
    link_inertia,
    weighted_inverse,
    wrench_at_hand,
)
from haptic_sim.kernels import kernel
from haptic_sim.packed import Packed
from haptic_sim.records import allocate, array, part, record, shared, value

_SLENDER = 1e-9  # a link whose moments of inertia differ by more counts as one with none about an axis


def unholdable(link: pin.Inertia, planar: bool = False) -> str:
    """Reason why a link's inertia is not a metric of the hand's twists, in the plane or in space; empty if it is."""
    if not link.mass > 0.0:
        return f"has the mass {link.mass:g} kg: must be > 0"
    moments = np.array([link.inertia[2, 2]]) if planar else np.linalg.eigvalsh(link.inertia)
    if not (moments[0] > 0.0 and moments[0] > _SLENDER * moments[-1]):
        listed = ", ".join(f"{moment:.3g}" for moment in moments)
        return f"has the moments of inertia {listed} kg m^2: all must be more than {_SLENDER:g} of the largest"
    return ""


@record
class HandArrays(NamedTuple):
    """Arrays that the kernels of a `Hand` read and write; J is the joint that carries the held link."""

    body: BodyArrays = value("arrays of the bodies")
    first: int = value("first coordinate of the hand's tree")
    end: int = value("coordinate after its last one")
    p_WJ: np.ndarray = shared("position of the joint", 3, unit="m")
    R_WJ: np.ndarray = shared("orientation of the joint", 3, 3)
    a_J: np.ndarray = shared("linear part of its spatial acceleration at constant v, own axes", 3, unit="m/s^2")
    alpha_J: np.ndarray = shared("angular part of it", 3, unit="rad/s^2")
    mass: float = value("mass of the held link", "kg")
    lever: np.ndarray = shared("centre of mass of the held link in the joint", 3, unit="m")
    inertia: np.ndarray = shared("inertia of the held link about it, axes of the joint", 3, 3, unit="kg m^2")
    link_metric: bool = value("whether M is that of the held link; otherwise it is not changed")
    free: bool = value("whether the hand can move in every direction, see `Hand`")
    surveyed: np.ndarray = array("whether directions and H stay as they are", 1, dtype=np.bool_)
    W_S: np.ndarray = shared("J_H L^-T by which impulses act at the hand: W_H, or that of a survey", 6, "nv")
    rule: RankRule = value("when a direction is one of topological constraint")
    mobility: Mobility = part(Mobility, "directions in which the hand can move")
    M: np.ndarray = shared("metric of twists", 6, 6)
    convective: np.ndarray = array("acceleration of the hand at constant v", 6, unit="m/s^2, rad/s^2")
    drift: np.ndarray = array("acceleration of the hand without any wrench", 6, unit="m/s^2, rad/s^2")
    lever_W: np.ndarray = array("from the hand to the centre of mass of the held link, world axes", 3, unit="m")
    row: np.ndarray = array("a row of a product of matrices", 3)
    inertia_W: np.ndarray = array("inertia of the held link, world axes", 3, 3, unit="kg m^2")
    forces: np.ndarray = array("L^-1 nle", "nv")


class Hand:
    """Quantities at the hand of a `Multibody`, which `refresh` brings up to date after the body's own `refresh`.

    Args:
        body: held at its hand frame.
        planar, tolerance, length, measure, relative_tolerance, fade: when a direction is one of topological
            constraint; see `haptic_sim.hand.mobility`.
        metric: `link`: kinetic energy of the held link, all that is fixed to the hand's joint (THESIS 5.7). `length`:
            diag(1, 1, 1, l^2, l^2, l^2) for the length l, which changes with the frame; for a held link without
            inertia, and what is compared with it.
        free: the hand can move in every direction in every configuration, so that nothing is decomposed in a step: rank
            and directions are known, and H, which a step would otherwise bring up to date, is not asked for.

    Attributes:
        directions: of topological constraint, wrenches [force, torque] in world axes, one a row, (6, 6); the first
            `listed` count.
        M: metric of twists (6, 6).
        convective: dJ_H/dt v, the hand's acceleration [m/s^2, rad/s^2] with constant v (6,).
        drift: dJ_H/dt v - J_H D^-1 B, the hand's acceleration without any wrench (6,); B has Coriolis terms and
            gravity.

    Raises:
        ValueError: the held link has no inertia, or a parameter is out of bounds.
    """

    def __init__(
        self,
        body: Multibody,
        *,
        planar: bool = False,
        tolerance: float = 1e-3,
        length: float = 1.0,
        measure: Literal["jacobian", "kinetic"] = "jacobian",
        relative_tolerance: float = 1e-7,
        fade: float = 0.0,
        metric: Literal["link", "length"] = "link",
        free: bool = False,
    ):
        if metric not in ("link", "length"):
            raise ValueError(f"metric = {metric!r}: must be 'link' or 'length'")
        rule = RankRule.checked(planar, measure, tolerance, relative_tolerance, length, fade)
        model, data, joint, a = body.model, body.data, body.hand_joint, body.arrays
        link = model.inertias[joint]
        fixed = joint == 0  # a hold on the world: it moves nowhere, and its metric does not matter
        if metric == "link" and not fixed and (problem := unholdable(link, planar)):
            name = f"hold {model.frames[body.hand].name} on joint {model.names[joint]}"
            raise ValueError(f"{name}: the held link {problem}")
        first = 0 if fixed else int(a.start[a.hand_tree])
        # Pinocchio's Python arrays are views: they follow its data without being asked for again.
        placement, acceleration = data.oMi[joint], data.a[joint]
        arrays = allocate(
            HandArrays,
            {"nv": body.nv},
            body=a,
            first=first,
            end=0 if fixed else first + int(a.size[a.hand_tree]),
            p_WJ=placement.translation,
            R_WJ=placement.rotation,
            a_J=acceleration.linear,
            alpha_J=acceleration.angular,
            mass=float(link.mass),
            lever=link.lever.copy(),
            inertia=link.inertia.copy(),
            link_metric=metric == "link" and not fixed,
            free=free,
            rule=rule,
            M=np.diag([1.0, 1.0, 1.0, *(3 * [length**2])]),
            W_S=a.W_H.copy() if isinstance(body, SurveyedMultibody) else a.W_H,
        )
        self._arrays = arrays
        self.mobility, self.M, self.convective, self.drift = arrays.mobility, arrays.M, arrays.convective, arrays.drift
        self.packed = Packed(arrays)
        self.dimension = len(rule.axes)
        self.directions = self.mobility.directions
        self._shape = (body.nv, 6)
        if free:
            self.mobility.counts[:] = self.dimension, 0, 0
        self.refresh()

    @property
    def rank(self) -> int:
        """Rank of the hand Jacobian."""
        return int(self.mobility.counts[0])

    @property
    def constraints(self) -> int:
        """Number of directions of topological constraint, dimension of the hand's space less the rank."""
        return self.dimension - self.rank

    @property
    def listed(self) -> int:
        """Number of rows of `directions` that count: `constraints`, and more while directions fade."""
        return int(self.mobility.counts[1])

    @property
    def singular_values(self) -> np.ndarray:
        """Singular values of the hand Jacobian or its kinetic measure, ascending, (6,).

        As many of them are used as the hand's space has dimensions.
        """
        _complete(self.packed)
        return self.mobility.singular_values

    @property
    def H(self) -> np.ndarray:
        """F = H J_H D^-1 tau = J^#T tau, (6, 6)."""
        _complete(self.packed)
        return self.mobility.H

    def refresh(self) -> None:
        """Bring everything up to date with the body."""
        refresh_hand(self.packed)

    def survey(self) -> None:
        """Keep directions, H and what impulses do at the hand as they are now, THESIS (6.18 to 6.22)."""
        a = self._arrays
        a.surveyed[0] = False
        self.refresh()
        _complete(self.packed)
        a.W_S[:] = a.body.W_H
        a.surveyed[0] = True

    def wrench(self, du: np.ndarray, period: float, wrench: np.ndarray) -> None:
        """Fill `wrench` (6,) with what acts at the hand as `du` does to u in `period` [s] (THESIS 5.12, errata 8).

        It does to the hand what `du` does, up to the tolerance of the rank, and has no part along the directions of
        topological constraint, in the metric M^-1.
        """
        find_wrench(self.packed, du, period, wrench)

    def weighted_inverse(self) -> np.ndarray:
        """The weighted generalized inverse J^# of the hand Jacobian (nv, 6), THESIS (5.7)."""
        inverse = np.zeros(self._shape)
        _inverse(self.packed, inverse)
        return inverse


@kernel
def find_wrench(packed, du, period, wrench):
    """Kernel of `Hand.wrench`: fills `wrench`."""
    a = packed.arrays
    wrench_at_hand(a.rule, a.mobility, a.W_S, a.first, a.end, du, period, wrench)


@kernel
def _complete(packed):
    """Complete the mobility of packed arrays; see `complete_mobility`."""
    a = packed.arrays
    complete_mobility(a.rule, a.mobility)


@kernel
def _inverse(packed, inverse):
    a = packed.arrays
    complete_mobility(a.rule, a.mobility)
    weighted_inverse(a.mobility.H, a.body.W_H, a.body.L, a.first, a.end, inverse)


@kernel
def refresh_hand(packed):
    """Kernel of `Hand.refresh`."""
    a = packed.arrays
    body = a.body
    if not a.free and not a.surveyed[0]:
        if a.link_metric:
            _link_metric(a)
        find_mobility(a.rule, body.J_H, body.inverse_inertia, a.first, a.end, a.M, a.mobility)
    _convective(a)
    if a.first == 0 and a.end == 6:  # the compiler unrolls the loops
        _find_drift(body.nle, body.L, body.W_H, 0, 6, a.convective, a.forces, a.drift)
    else:
        _find_drift(body.nle, body.L, body.W_H, a.first, a.end, a.convective, a.forces, a.drift)


@kernel(inline="always")
def _find_drift(nle, L, W_H, first, end, convective, y, drift):
    """Fill `drift` with the convective acceleration less J D^-1 B = W L^-1 B; y: memory (nv,)."""
    for j in range(first, end):
        s = nle[j]  # with the gyroscopic terms of free bodies, which `bias` leaves out
        for k in range(first, j):
            s -= L[j, k - first] * y[k]
        y[j] = s / L[j, j - first]
    for i in range(6):
        s = convective[i]
        for j in range(first, end):
            s -= W_H[i, j] * y[j]
        drift[i] = s


@kernel
def _link_metric(a):
    """Fill M with the inertia of the held link at the hand, in world axes (as J_H is: errata 8)."""
    R, p_WH, inertia = a.R_WJ, a.body.p_WH, a.inertia
    lever_W, row, inertia_W = a.lever_W, a.row, a.inertia_W
    for i in range(3):
        lever_W[i] = a.p_WJ[i] - p_WH[i]
        for j in range(3):
            lever_W[i] += R[i, j] * a.lever[j]
    for i in range(3):
        for j in range(3):
            row[j] = R[i, 0] * inertia[0, j] + R[i, 1] * inertia[1, j] + R[i, 2] * inertia[2, j]
        for j in range(3):
            inertia_W[i, j] = row[0] * R[j, 0] + row[1] * R[j, 1] + row[2] * R[j, 2]
    link_inertia(a.mass, lever_W, inertia_W, a.M)


@kernel
def _convective(a):
    """Fill dJ_H/dt v from the spatial acceleration of the hand's joint with constant v, in the joint's axes.

    The acceleration of a point p of the body is R a + (R alpha) x (p - p_J) + w x v_p: the spatial acceleration is that
    of the velocity of the body at a point fixed in space, and w x v_p what it leaves out.
    """
    R, p_WJ, p_WH, twist, convective = a.R_WJ, a.p_WJ, a.body.p_WH, a.body.twist, a.convective
    for i in range(3):
        s, t = 0.0, 0.0
        for j in range(3):
            s += R[i, j] * a.a_J[j]
            t += R[i, j] * a.alpha_J[j]
        convective[i], convective[3 + i] = s, t
    x, y, z = p_WH[0] - p_WJ[0], p_WH[1] - p_WJ[1], p_WH[2] - p_WJ[2]
    b0, b1, b2 = convective[3], convective[4], convective[5]
    w0, w1, w2 = twist[3], twist[4], twist[5]
    convective[0] += b1 * z - b2 * y + w1 * twist[2] - w2 * twist[1]
    convective[1] += b2 * x - b0 * z + w2 * twist[0] - w0 * twist[2]
    convective[2] += b0 * y - b1 * x + w0 * twist[1] - w1 * twist[0]
