"""The constraints of a local model: planes that points of the tool may not cross, from update to update.

A constraint is a plane in the world and a point of a link of the tool (THESIS 6.1). Between updates the plane may move
along its normal, and the separation is (6.3) at the link's present place, plus the `offset` by which the proxy is
deformed there:

    s = n . (x_L + R_L p - c) - v_n t + offset

The source deforms the proxy by moving p along the normal (6.4 to 6.7); `offset` is how far. With s the separation that
an update reports and s_p that of the proxy just before, both for the same place of the proxy, (6.7) corrected (errata
10; s counts from the tool itself) is

    s_p < s < 0 or 0 < s:  offset = 0        an update that lessens the penetration is taken
    s < s_p < 0:           offset = s_p - s  one that deepens it is not
    s < 0 < s_p:           offset = -s       nor is one that makes it

where s_p > 0 stands for a constraint that is new. As the proxy leaves, a deformation is given back (6.2.2). In the
first case the force falls in one tick, which dissipates what the contact has stored. With `release: gradual` the
penetration fades during one period of the updates instead, and the velocity of a plane in contact goes over to that of
the update; a constraint in contact that an update leaves out stays where it is, and its stiffness, damping and friction
fade. The intermediate representation interpolates constraints: each offset fades during one period.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from haptic_sim.kernels import kernel
from haptic_sim.records import array, record

FADED = 1e-9  # weight at which a constraint has gone
KEEP, RELEASE, INTERPOLATE = range(3)
"""Offsets that fade: none; those of penetrations that an update lessens; all."""


@record
class Planes(NamedTuple):
    """Constraints of an update, for kernels; C: capacity."""

    id: np.ndarray = array("identity in the environment", "C", dtype=np.int64)
    track: np.ndarray = array("identity from update to update", "C", dtype=np.int64)
    body: np.ndarray = array("body of the environment", "C", dtype=np.int64)
    link: np.ndarray = array("link of the tool", "C", dtype=np.int64)
    c: np.ndarray = array("point of the plane at the survey, world axes", "C", 3, unit="m")
    n: np.ndarray = array("unit normal, from the environment to the tool, world axes", "C", 3)
    p: np.ndarray = array("contact point in the axes of its link", "C", 3, unit="m")
    velocity: np.ndarray = array("velocity of the plane along its normal", "C", unit="m/s")
    correction: np.ndarray = array("correction of that velocity which is still to be made", "C", unit="m/s")
    change: np.ndarray = array("rate at which it is made", "C", unit="m/s^2")
    displacement: np.ndarray = array("displacement of the plane along its normal since the survey", "C", unit="m")
    offset: np.ndarray = array("deformation of the proxy", "C", unit="m")
    fade: np.ndarray = array("rate at which the offset goes to zero, 0: it does not", "C", unit="m/s")
    friction: np.ndarray = array("coefficients of static and kinetic friction", "C", 2)
    resistance: np.ndarray = array("coefficients of rolling and torsional friction", "C", 2, unit="m")
    rotation: np.ndarray = array("angular velocity of the environment's body, world axes", "C", 3, unit="rad/s")
    restitution: np.ndarray = array("coefficient of restitution", "C")
    mobility: np.ndarray = array("mobility of the environment's point along the normal", "C", unit="1/kg")
    plane: np.ndarray = array("number among those that move as masses, -1: none", "C", dtype=np.int64, fill=-1)
    weight: np.ndarray = array("part of its forces that acts: less than 1 if the last update left it out", "C", fill=1)
    leaving: np.ndarray = array("whether the last update left it out", "C", dtype=np.bool_)
    point: np.ndarray = array("contact point now, world axes", "C", 3, unit="m")
    separation: np.ndarray = array("now, with the offset", "C", unit="m")


class Rules(NamedTuple):
    """Rules for the transition from one update to the next.

    Attributes:
        law: KEEP, RELEASE or INTERPOLATE.
        deformed: whether there are offsets at all.
        identity: whether constraints with the same `id` are the same.
        near: contact points farther from each other than this are of different constraints [m], THESIS (6.13).
        aligned: so are normals with a smaller product, THESIS (6.14).
        period: of the updates [s].
    """

    law: int
    deformed: bool
    identity: bool
    near: float
    aligned: float
    period: float


def coherence(period: float, max_speed: float, max_rotation: float, max_facet_angle: float) -> tuple[float, float]:
    """Largest distance of points [m] and least product of normals of one constraint, THESIS (6.13, 6.14).

    Errata 10: the second threshold is max(cos(dt w_max), cos(theta_max)); as printed, an angle is one of the cosines.
    """
    return period * max_speed, max(math.cos(min(period * max_rotation, math.pi)), math.cos(max_facet_angle))


@kernel
def locate(count, planes, R_WL, p_WL):
    """Fill in point and separation of each constraint at the present places of the tool's links, THESIS (6.3)."""
    links, displacement, p, point, n, c = planes.link, planes.displacement, planes.p, planes.point, planes.n, planes.c
    separation, offset = planes.separation, planes.offset
    for m in range(count):
        link = links[m]
        s = offset[m] - displacement[m]
        for i in range(3):
            x = p_WL[link, i]
            for j in range(3):
                x += R_WL[link, i, j] * p[m, j]
            point[m, i] = x
            s += n[m, i] * (x - c[m, i])
        separation[m] = s


@kernel
def continue_planes(old, old_count, new, count, rules, tracks):
    """Let the constraints of an update continue those before; returns how many there are with those that fade.

    Args:
        old, old_count: `Planes` in use, located where the proxy is.
        new, count: those of the update, located there without offsets; offsets and tracks are filled in, and those that
            fade are appended.
        rules: `Rules`.
        tracks: number of the next constraint that is new (1,) int64.
    """
    same = np.full(count, -1, np.int64)  # number in the old ones
    follows = np.full(old_count, -1, np.int64)  # and back
    for by_identity in (True, False):  # identities first, so that none is taken by a neighbour
        if by_identity and not rules.identity:
            continue
        for i in range(count):
            if same[i] < 0:
                k = _find_same(old, old_count, new, i, rules, follows, by_identity)
                if k >= 0:
                    same[i], follows[k] = k, i
    for i in range(count):
        new.leaving[i] = False
        new.offset[i] = new.fade[i] = 0.0
        if same[i] >= 0:
            new.track[i] = old.track[same[i]]
            before = min(old.separation[same[i]], 0.0)
        else:
            new.track[i] = tracks[0]
            tracks[0] += 1
            before = 0.0  # it may begin to act, but not with a penetration
        new.correction[i] = new.change[i] = 0.0
        if rules.deformed:
            _deform(new, i, before, rules)
            if before < 0.0 and new.separation[i] < 0.0 and rules.law != KEEP:
                new.correction[i] = new.velocity[i] - old.velocity[same[i]]
                new.velocity[i] = old.velocity[same[i]]
                new.change[i] = abs(new.correction[i]) / rules.period
    end = count
    if rules.deformed and rules.law != KEEP:
        for k in range(old_count):
            touches = follows[k] >= 0 and new.separation[follows[k]] < 0.0
            if old.separation[k] < 0.0 and not touches and end < new.id.shape[0]:
                _copy(old, k, new, end)
                new.leaving[end] = True
                new.plane[end] = -1
                new.track[end] = tracks[0]
                tracks[0] += 1
                end += 1
    return end


@kernel
def _find_same(old, old_count, new, i, rules, follows, by_identity):
    """The old constraint that constraint i of an update continues, by identity or by geometry; -1: none."""
    found, best = -1, rules.near
    for k in range(old_count):
        if follows[k] >= 0 or old.leaving[k] or old.link[k] != new.link[i] or old.body[k] != new.body[i]:
            continue
        if by_identity:
            if old.id[k] == new.id[i]:
                return k
            continue
        square = aligned = 0.0
        for j in range(3):
            square += (old.point[k, j] - new.point[i, j]) ** 2
            aligned += old.n[k, j] * new.n[i, j]
        if math.sqrt(square) <= best and aligned >= rules.aligned:
            found, best = k, math.sqrt(square)
    return found


@kernel
def _deform(new, i, before, rules):
    """Choose the offset of constraint i, whose penetration was `before` (at most 0) [m]: (6.7) as above."""
    s = new.separation[i]
    if s < before:
        new.offset[i] = before - s
        if rules.law == INTERPOLATE:
            new.fade[i] = new.offset[i] / rules.period
    elif before < s < 0.0 and rules.law != KEEP:
        new.offset[i] = before - s
        new.fade[i] = -new.offset[i] / rules.period
    new.separation[i] = s + new.offset[i]


@kernel
def _copy(source, k, target, i):
    """Make constraint i of `target` constraint k of `source`."""
    target.id[i], target.track[i] = source.id[k], source.track[k]
    target.body[i], target.link[i] = source.body[k], source.link[k]
    for j in range(3):
        target.c[i, j], target.n[i, j], target.p[i, j] = source.c[k, j], source.n[k, j], source.p[k, j]
        target.point[i, j], target.rotation[i, j] = source.point[k, j], source.rotation[k, j]
    target.velocity[i], target.displacement[i], target.separation[i] = (
        source.velocity[k],
        source.displacement[k],
        source.separation[k],
    )
    target.correction[i], target.change[i] = source.correction[k], source.change[k]
    target.offset[i], target.fade[i] = source.offset[k], source.fade[k]
    target.weight[i], target.leaving[i] = source.weight[k], source.leaving[k]
    target.friction[i, 0], target.friction[i, 1] = source.friction[k, 0], source.friction[k, 1]
    target.resistance[i, 0], target.resistance[i, 1] = source.resistance[k, 0], source.resistance[k, 1]
    target.restitution[i], target.mobility[i] = source.restitution[k], source.mobility[k]
    target.plane[i] = source.plane[k]


@kernel
def recover(count, planes, period, update_period):
    """Let fade for a tick what does, and give back the offset of what does not touch; returns how many are left."""
    leaving, weight, separation, fade = planes.leaving, planes.weight, planes.separation, planes.fade
    correction, offsets, velocity = planes.correction, planes.offset, planes.velocity
    left = 0
    for m in range(count):
        if leaving[m]:
            weight[m] -= period / update_period
            if not weight[m] > FADED or separation[m] >= 0.0:
                continue
        if left != m:
            _copy(planes, m, planes, left)
        left += 1
    for m in range(left):
        lack = correction[m]
        if lack != 0.0:
            step = planes.change[m] * period
            step = min(step, lack) if lack > 0.0 else max(-step, lack)
            velocity[m] += step
            correction[m] -= step
        offset = offsets[m]
        if offset == 0.0:
            continue
        if fade[m] > 0.0:
            step = min(abs(offset), fade[m] * period)
            change = -step if offset > 0.0 else step
        elif separation[m] > 0.0 and offset > 0.0:
            change = -min(separation[m], offset)
        else:
            continue
        offsets[m] += change
        separation[m] += change
    return left
