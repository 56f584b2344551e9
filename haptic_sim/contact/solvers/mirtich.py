"""Collisions with friction one contact at a time (Mirtich and Canny 1995, Mirtich 1996), for IGMS III-E.

While an impulse develops at one contact, its relative velocity c = (c_n, c_t) obeys, with A the mobility (3, 3) and
the normal impulse p_n as the clock (Routh, Keller 1986),
    dc / dp_n = A (1, -mu c_t / |c_t|)           sliding;
    dc_t = 0, dp_t = -A_tt^-1 A_tn dp_n          sticking, if that lies within the cone of mu dp_n: then it is stable;
    dp_t = -mu d dp_n                            leaving a stick that is not, along the only ray d on which slip grows:
                                                 A_tn - mu A_tt d = lambda d, lambda > 0.
Compression ends where c_n = 0, the impact where the normal work W = integral of c_n dp_n has risen from its least
value W_c to (1 - e^2) W_c (Stronge 1990). Sliding may press deeper first (dc_n / dp_n < 0, a jam); once slip has
stopped c_n rises, as 1 / (A^-1)_nn > 0 and, on the ray, (1, -mu d) A (1, -mu d) + mu lambda > 0: the impact ends.

Sliding is integrated in s with dp_n = |c_t| ds, where its equation dp / ds = (|c_t|, -mu c_t) is smooth up to the
stop, which slip approaches exponentially and is taken as reached at _STOPPED of the velocity. (Mirtich takes c_n,
then W, as the clock; c_n fails as one in a jam.) The classical fourth-order method serves, with steps in which slip
turns or changes by _STEP at most; where slip keeps its direction, as in the plane, at a sphere, and after a stop,
c is linear in p_n and the end is found in closed form. All increments lie in the friction cone. The work of the
tangential impulse is never positive, and that of the normal one is (1 - e^2) W_c <= 0: the energy, as seen from the
wall if that moves, never grows. The integration error is corrected: the energy changes by
E(p) = p . c + 1/2 p . A p, convex and 0 at p = 0, so that it is enough to shrink a p with E(p) > 0 by a little.

`resolve_one_at_a_time` treats the contact that approaches fastest until none does: Newton's cradle passes the
impulse on, and its last ball leaves alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from haptic_sim.dynamics.scaled import apply_impulse, contact_velocity, coupling
from haptic_sim.kernels import kernel
from haptic_sim.records import array, record

_STEP = 0.1  # largest relative change of the slip in a step: errors below 1e-5 of the impulse, of fourth order
_MAX_STEPS = 4000  # of an impact; most take less than 200
_STOPPED = 1e-8  # of the velocity before: slower slip is none
_STRAIGHT = 1e-12  # turning slower than this part of the rate of change is none
_LEAST_MOBILITY = 1e-12  # of the trace: tangents that cannot move stick by themselves

COLLIDED, UNFINISHED = 0, 1
SETTLED, LIMIT_REACHED = 0, 1

_COMPRESSION, _RESTITUTION = 0, 1


@record
class MirtichMemory(NamedTuple):
    """Memory of `resolve_one_at_a_time`."""

    A: np.ndarray = array("mobility of the contact that collides", 3, 3, unit="1/kg")
    c: np.ndarray = array("velocity of that contact before", 3, unit="m/s")
    q: np.ndarray = array("impulse of that contact", 3, unit="N s")


@kernel(error_model="numpy")
def _rates(A, c, mu, p0, p1, p2):
    """dp_n, dp_1, dp_2 and dW by ds while sliding."""
    v0 = c[0] + A[0, 0] * p0 + A[0, 1] * p1 + A[0, 2] * p2
    v1 = c[1] + A[1, 0] * p0 + A[1, 1] * p1 + A[1, 2] * p2
    v2 = c[2] + A[2, 0] * p0 + A[2, 1] * p1 + A[2, 2] * p2
    slip = math.sqrt(v1 * v1 + v2 * v2)
    return slip, -mu * v1, -mu * v2, v0 * slip


@kernel(error_model="numpy")
def _runge_kutta(A, c, mu, p, rates, h):
    """Increments of p_n, p_1, p_2 and W over h of s: a mean, with positive weights, of points of the cone.

    `rates` are those at p, which the caller knows.
    """
    p0, p1, p2 = p[0], p[1], p[2]
    a0, a1, a2, a3 = rates
    g = 0.5 * h
    b0, b1, b2, b3 = _rates(A, c, mu, p0 + g * a0, p1 + g * a1, p2 + g * a2)
    d0, d1, d2, d3 = _rates(A, c, mu, p0 + g * b0, p1 + g * b1, p2 + g * b2)
    e0, e1, e2, e3 = _rates(A, c, mu, p0 + h * d0, p1 + h * d1, p2 + h * d2)
    w = h / 6.0
    return (
        w * (a0 + 2.0 * (b0 + d0) + e0),
        w * (a1 + 2.0 * (b1 + d1) + e1),
        w * (a2 + 2.0 * (b2 + d2) + e2),
        w * (a3 + 2.0 * (b3 + d3) + e3),
    )


@kernel(error_model="numpy")
def _direction_after_stop(A, mu):
    """Tangential impulse per normal impulse once slip has stopped, and whether slip stays zero."""
    least = _LEAST_MOBILITY * (A[0, 0] + A[1, 1] + A[2, 2])
    b1, b2 = A[1, 0], A[2, 0]
    a, b, d = A[1, 1] + least, A[1, 2], A[2, 2] + least
    determinant = a * d - b * b
    t1, t2 = -(d * b1 - b * b2) / determinant, -(a * b2 - b * b1) / determinant
    if math.sqrt(t1 * t1 + t2 * t2) <= mu:
        return t1, t2, True
    # the ray: |(mu A_tt + x)^-1 A_tn| = 1 has one root x > 0; its left side falls from above 1
    if mu <= 0.0:
        return 0.0, 0.0, False
    low, high = 0.0, math.sqrt(b1 * b1 + b2 * b2)
    x = high
    for _ in range(200):
        e, f, g = mu * a + x, mu * b, mu * d + x
        determinant = e * g - f * f
        d1, d2 = (g * b1 - f * b2) / determinant, (e * b2 - f * b1) / determinant
        length = math.sqrt(d1 * d1 + d2 * d2)
        if length > 1.0:
            low = x
        else:
            high = x
        # Newton's method on 1 / length, kept within the bracket
        c1, c2 = (g * d1 - f * d2) / determinant, (e * d2 - f * d1) / determinant
        following = x + (length - 1.0) * length * length / max(d1 * c1 + d2 * c2, 1e-300)
        if not low < following < high:
            following = 0.5 * (low + high)
        if abs(length - 1.0) <= 1e-15 or abs(following - x) <= 1e-16 * high:
            break
        x = following
    return -mu * d1 / length, -mu * d2 / length, False


@kernel(error_model="numpy")
def _normal_length(v_n, slope, work, goal, phase):
    """Normal impulse to the end of the phase where c_n changes by `slope`, inf if it is not reached so."""
    if phase == _COMPRESSION:
        return max(0.0, -v_n / slope) if slope > 0.0 else math.inf
    # v_n x + slope x^2 / 2 = goal - work > 0
    lack = goal - work
    root = v_n * v_n + 2.0 * slope * lack
    if root < 0.0:
        return math.inf
    root = math.sqrt(root)
    return 2.0 * lack / (v_n + root) if v_n + root > 0.0 else math.inf


@kernel(error_model="numpy")
def _shrink(A, c, mu, p):
    """Take back what rounding and integration leave outside the cone and of energy."""
    length = math.sqrt(p[1] * p[1] + p[2] * p[2])
    if length > mu * p[0]:
        p[1] *= mu * p[0] / length
        p[2] *= mu * p[0] / length
    work = square = 0.0
    for i in range(3):
        work += p[i] * c[i]
        for j in range(3):
            square += p[i] * A[i, j] * p[j]
    if not work + 0.5 * square <= 0.0:
        part = max(0.0, -2.0 * work / square)
        for i in range(3):
            p[i] = part * p[i] if math.isfinite(part * p[i]) else 0.0


@kernel(error_model="numpy")
def collide(A, c, e, mu, p):
    """Fill p with the impulses [N s] in (normal, tangent 1, tangent 2) of a collision at one contact.

    Args:
        A: mobility W W^T of the contact (normal, tangent 1, tangent 2), (3, 3) [1/kg].
        c: relative velocity before, (3,) [m/s]; nothing happens unless c[0] < 0.
        e: Stronge's coefficient of restitution in [0, 1].
        mu: kinetic coefficient of friction, >= 0.
        p: impulses to fill, (3,).

    Returns:
        COLLIDED, or UNFINISHED: the impulses are those so far and add no energy either.
    """
    p[0] = p[1] = p[2] = 0.0
    if not (c[0] < 0.0 and A[0, 0] > 0.0):
        return COLLIDED
    scale = math.sqrt(c[0] * c[0] + c[1] * c[1] + c[2] * c[2])
    stopped = _STOPPED * scale
    work = least = goal = 0.0
    phase = _COMPRESSION
    stuck = False  # slip has stopped, and p_t goes along t1, t2 ever after
    t1 = t2 = 0.0
    tiny = 1e-14 * scale
    code = UNFINISHED
    b1, b2 = A[1, 0], A[2, 0]
    fastest = math.sqrt(b1 * b1 + b2 * b2) + mu * (A[1, 1] + A[2, 2])
    for _ in range(_MAX_STEPS):
        v0 = c[0] + A[0, 0] * p[0] + A[0, 1] * p[1] + A[0, 2] * p[2]
        v1 = c[1] + A[1, 0] * p[0] + A[1, 1] * p[1] + A[1, 2] * p[2]
        v2 = c[2] + A[2, 0] * p[0] + A[2, 1] * p[1] + A[2, 2] * p[2]
        slip = math.sqrt(v1 * v1 + v2 * v2)
        if phase == _COMPRESSION and v0 >= -tiny:
            least = min(least, work)
            goal = (1.0 - e * e) * least
            phase = _RESTITUTION
        elif phase == _RESTITUTION and v0 < -tiny:
            phase = _COMPRESSION  # pressed on again: W has not reached its goal, and may yet fall below W_c
        if phase == _RESTITUTION and work >= goal:
            code = COLLIDED
            break
        straight = stuck
        stop = math.inf
        if not stuck:
            if slip <= stopped:
                t1, t2, _ = _direction_after_stop(A, mu)
                stuck = straight = True
            else:
                t1, t2 = -mu * v1 / slip, -mu * v2 / slip
                r1 = b1 + A[1, 1] * t1 + A[1, 2] * t2
                r2 = b2 + A[2, 1] * t1 + A[2, 2] * t2
                along = (v1 * r1 + v2 * r2) / slip
                turning = abs(v1 * r2 - v2 * r1) / slip
                straight = mu <= 0.0 or turning <= _STRAIGHT * fastest or turning * slip <= -stopped * along
                if along < 0.0 and mu > 0.0:
                    stop = -slip / along
        if straight:
            slope = A[0, 0] + A[0, 1] * t1 + A[0, 2] * t2
            x = _normal_length(v0, slope, work, goal, phase)
            ends = x <= stop
            x = min(x, stop)
            if not math.isfinite(x):
                break
            work += v0 * x + 0.5 * slope * x * x
            p[0] += x
            p[1] += t1 * x
            p[2] += t2 * x
            if ends and phase == _RESTITUTION:
                code = COLLIDED
                break
            continue
        h = _STEP / fastest
        rates = slip, -mu * v1, -mu * v2, v0 * slip
        d0, d1, d2, dw = _runge_kutta(A, c, mu, p, rates, h)
        end = v0 + A[0, 0] * d0 + A[0, 1] * d1 + A[0, 2] * d2
        begins = v0 if phase == _COMPRESSION else work - goal
        ends = end if phase == _COMPRESSION else work + dw - goal
        if ends > 0.0:  # the phase ends within the step: where, by the Illinois method
            low, high, f_low, f_high = 0.0, 1.0, begins, ends
            last = 0
            for _ in range(60):
                part = (low * f_high - high * f_low) / (f_high - f_low)
                d0, d1, d2, dw = _runge_kutta(A, c, mu, p, rates, part * h)
                f = v0 + A[0, 0] * d0 + A[0, 1] * d1 + A[0, 2] * d2
                accuracy = 0.1 * tiny
                if phase == _RESTITUTION:
                    f = work + dw - goal
                    accuracy = 1e-15 * abs(goal)
                if abs(f) <= accuracy or high - low <= 1e-15:
                    break
                if f > 0.0:
                    high, f_high = part, f
                    if last == 1:
                        f_low *= 0.5
                    last = 1
                else:
                    low, f_low = part, f
                    if last == -1:
                        f_high *= 0.5
                    last = -1
            if phase == _RESTITUTION:
                p[0] += d0
                p[1] += d1
                p[2] += d2
                code = COLLIDED
                break
        work += dw
        p[0] += d0
        p[1] += d1
        p[2] += d2
    _shrink(A, c, mu, p)
    return code


@kernel(error_model="numpy")
def resolve_one_at_a_time(n, contacts, u, restitution, friction, approach_tolerance, max_collisions, memory, p):
    """Treat the contact that approaches fastest until none does; allocates and raises nothing.

    Args:
        n: number of contacts.
        contacts: ScaledContacts.
        u: scaled velocities before; after on return, (nv,).
        restitution: Stronge's coefficients in [0, 1], (C,).
        friction: kinetic coefficients, >= 0, (C,).
        approach_tolerance: velocity below which a contact does not count as approaching, >= 0 [m/s].
        max_collisions: number of collisions after which it ends anyway.
        memory: MirtichMemory.
        p: impulses [N s] in (normal, tangent 1, tangent 2) to fill, sums over the collisions, (C, 3).

    Returns:
        code: SETTLED, or LIMIT_REACHED: contacts still approach, and are the caller's.
        collisions: their number.
    """
    for i in range(n):
        p[i, 0] = p[i, 1] = p[i, 2] = 0.0
    collisions = 0
    A, c, q = memory.A, memory.c, memory.q
    while True:
        fastest = -approach_tolerance
        chosen = -1
        for i in range(n):
            v = contact_velocity(contacts, i, 0, u)
            if v < fastest and coupling(contacts, i, 0, i, 0) > 0.0:
                fastest = v
                chosen = i
        if chosen < 0:
            return SETTLED, collisions
        if collisions >= max_collisions:
            return LIMIT_REACHED, collisions
        for d in range(3):
            c[d] = contact_velocity(contacts, chosen, d, u)
            for k in range(d + 1):
                A[d, k] = coupling(contacts, chosen, d, chosen, k)
                A[k, d] = A[d, k]
        collide(A, c, restitution[chosen], friction[chosen], q)
        for d in range(3):
            apply_impulse(contacts, chosen, d, q[d], u)
            p[chosen, d] += q[d]
        collisions += 1
