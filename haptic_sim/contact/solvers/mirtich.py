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
Of a link with one joint A has rank one: where friction holds it, no impulse moves it, so that the impact ends there.

Sliding is integrated in s with dp_n = |c_t| ds, where its equation dp / ds = (|c_t|, -mu c_t) is analytic up to the
stop, which slip approaches exponentially and is taken as reached at _STOPPED of the velocity. (Mirtich takes c_n,
then W, as the clock; c_n fails as one in a jam.) Its solution is expanded in powers of s (Taylor's method, Jorba and
Zou 2005): with x_k the coefficient of s^k of a quantity x, and sigma = |c_t|,
    (k + 1) p_(k+1) = (sigma_k, -mu c_t,k),    c_(k+1) = A p_(k+1),    (k + 1) W_(k+1) = (c_n sigma)_k,
    sigma_k = ((c_t . c_t)_k - sum over 0 < j < k of sigma_j sigma_(k-j)) / (2 sigma_0),
each product by Cauchy's formula. A step is as long as the last two terms permit, so that each step errs by less than
1e-10 of the velocity; compression and impact end at roots of the polynomials. Where slip keeps its
direction, as in the plane, at a sphere, and after a stop, c is linear in p_n and the end is found in closed form. The
work of the tangential impulse is never positive, and that of the normal one is (1 - e^2) W_c <= 0: the energy, as seen
from the wall if that moves, never grows. What the integration errs is corrected: p is brought back to the friction
cone, and the energy changes by E(p) = p . c + 1/2 p . A p, convex and 0 at p = 0, so that it is enough to shrink a p
with E(p) > 0 by a little.

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

_ORDER = 16  # of the series: fewer instructions for an impact than with 12 or 20
_ACCURACY = 1e-10  # of the velocity before, of a step
_MAX_STEPS = 4000  # of an impact; most take less than 20
_STOPPED = 1e-10  # of the velocity before: slower slip is none
_STRAIGHT = 1e-12  # turning slower than this part of the rate of change is none
_ROUNDING = 1e-15  # of velocities that an impulse of a stiff mobility changes
_LEAST_MOBILITY = 1e-12  # of the trace: tangents that cannot move stick by themselves

COLLIDED, UNFINISHED = 0, 1
SETTLED, LIMIT_REACHED = 0, 1

_COMPRESSION, _RESTITUTION = 0, 1
_P, _V, _SLIP, _WORK = 0, 3, 6, 7  # rows of a series: impulses, velocities, slip, normal work


@record
class MirtichMemory(NamedTuple):
    """Memory of `resolve_one_at_a_time`."""

    A: np.ndarray = array("mobility of the contact that collides", 3, 3, unit="1/kg")
    c: np.ndarray = array("velocity of that contact before", 3, unit="m/s")
    q: np.ndarray = array("impulse of that contact", 3, unit="N s")
    series: np.ndarray = array("coefficients of its p, c, slip and work in powers of s", 8, _ORDER + 1)


@kernel(error_model="numpy")
def _expand(A, mu, unit, x):
    """Fill in the coefficients of a series whose first ones are given; `unit` is that of s."""
    v0, v1, v2, slip = x[_V], x[_V + 1], x[_V + 2], x[_SLIP]
    inverse = 1.0 / slip[0]
    for k in range(_ORDER):
        work = v0[0] * slip[0]
        if k > 0:
            # products are sums of pairs j, k - j, and of the middle
            square = v1[0] * v1[k] + v2[0] * v2[k]
            work = v0[k] * slip[0]
            for j in range(1, (k + 1) // 2):
                i = k - j
                square += v1[j] * v1[i] + v2[j] * v2[i] - slip[j] * slip[i]
                work += v0[j] * slip[i] + v0[i] * slip[j]
            if k % 2 == 0:
                i = k // 2
                square += 0.5 * (v1[i] * v1[i] + v2[i] * v2[i] - slip[i] * slip[i])
                work += v0[i] * slip[i]
            slip[k] = square * inverse
            work += v0[0] * slip[k]
        g = unit / (k + 1.0)
        p0, p1, p2 = g * slip[k], -mu * g * v1[k], -mu * g * v2[k]
        x[_P, k + 1], x[_P + 1, k + 1], x[_P + 2, k + 1], x[_WORK, k + 1] = p0, p1, p2, g * work
        v0[k + 1] = A[0, 0] * p0 + A[0, 1] * p1 + A[0, 2] * p2
        v1[k + 1] = A[1, 0] * p0 + A[1, 1] * p1 + A[1, 2] * p2
        v2[k + 1] = A[2, 0] * p0 + A[2, 1] * p1 + A[2, 2] * p2


@kernel(error_model="numpy")
def _at(x, row, s):
    """Value of a quantity of a series."""
    value = x[row, _ORDER]
    for k in range(_ORDER - 1, -1, -1):
        value = value * s + x[row, k]
    return value


@kernel(error_model="numpy")
def _root(x, row, goal, low, high):
    """Root where a quantity, below `goal` at `low` and above it at `high`, reaches it: Newton's method, bracketed."""
    s = high
    for _ in range(100):
        value, rate = x[row, _ORDER], 0.0
        for k in range(_ORDER - 1, -1, -1):
            rate = rate * s + value
            value = value * s + x[row, k]
        if value > goal:
            high = s
        else:
            low = s
        following = s - (value - goal) / rate
        if not low <= following <= high:
            following = 0.5 * (low + high)
        if abs(following - s) <= 1e-15 * high:
            break
        s = following
    return s


@kernel(error_model="numpy")
def _longest(x, unit, scale, e):
    """Length of a step at whose end each of the last two terms is less than _ACCURACY.

    An error of the work counts 1 / e times, as it is one of the velocity at the end, which is e times that before.
    """
    length = math.inf
    for k in range(_ORDER - 1, _ORDER + 1):
        term = max(abs(x[_P, k]), abs(x[_P + 1, k]), abs(x[_P + 2, k])) / (unit * scale)
        if e > 0.0:
            term = max(term, abs(x[_WORK, k]) / (e * scale * scale))
        if term > 0.0:
            length = min(length, (_ACCURACY / term) ** (1.0 / k))
    return length


@kernel(error_model="numpy")
def _direction_after_stop(A, mu):
    """Tangential impulse per normal impulse once slip has stopped, and whether these two move nothing (a wedge)."""
    least = _LEAST_MOBILITY * (A[0, 0] + A[1, 1] + A[2, 2])
    b1, b2 = A[1, 0], A[2, 0]
    a, b, d = A[1, 1] + least, A[1, 2], A[2, 2] + least
    # by Cholesky's method from the larger diagonal entry: what rounding adds of a singular A_tt then moves nothing
    i, j = (1, 2) if a >= d else (2, 1)
    first = A[i, i] + least
    left = A[j, j] + least - b * b / first
    rest = A[j, 0] - b / first * A[i, 0]
    t_j = -rest / left
    t_i = -(A[i, 0] + b * t_j) / first
    square = t_i * t_i + t_j * t_j
    if math.sqrt(square) <= mu:
        # `least` raises dc_n / dp_n = 1 / (A^-1)_nn by up to least t^2: no more than that is none
        slope = A[0, 0] - A[i, 0] * A[i, 0] / first - rest * rest / left
        wedged = slope <= 4.0 * least * square
        return (t_i, t_j, wedged) if i == 1 else (t_j, t_i, wedged)
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
def collide(A, c, e, mu, x, p):
    """Fill p with the impulses [N s] in (normal, tangent 1, tangent 2) of a collision at one contact.

    Args:
        A: mobility W W^T of the contact (normal, tangent 1, tangent 2), (3, 3) [1/kg].
        c: relative velocity before, (3,) [m/s]; nothing happens unless c[0] < 0.
        e: Stronge's coefficient of restitution in [0, 1].
        mu: kinetic coefficient of friction, >= 0.
        x: memory for a series, (8, _ORDER + 1).
        p: impulses to fill, (3,).

    Returns:
        COLLIDED, or UNFINISHED: the impulses are those so far and add no energy either.
    """
    p[0] = p[1] = p[2] = 0.0
    if not (c[0] < 0.0 and A[0, 0] > 0.0):
        return COLLIDED
    scale = math.sqrt(c[0] * c[0] + c[1] * c[1] + c[2] * c[2])
    trace = A[0, 0] + A[1, 1] + A[2, 2]
    work = least = goal = 0.0
    phase = _COMPRESSION
    stuck = False  # slip has stopped, and p_t goes along t1, t2 ever after
    t1 = t2 = 0.0
    code = UNFINISHED
    b1, b2 = A[1, 0], A[2, 0]
    fastest = math.sqrt(b1 * b1 + b2 * b2) + mu * (A[1, 1] + A[2, 2])
    unit = 1.0 / fastest  # of s: then the coefficients neither grow nor vanish
    for _ in range(_MAX_STEPS):
        v0 = c[0] + A[0, 0] * p[0] + A[0, 1] * p[1] + A[0, 2] * p[2]
        v1 = c[1] + A[1, 0] * p[0] + A[1, 1] * p[1] + A[1, 2] * p[2]
        v2 = c[2] + A[2, 0] * p[0] + A[2, 1] * p[1] + A[2, 2] * p[2]
        slip = math.sqrt(v1 * v1 + v2 * v2)
        noise = _ROUNDING * trace * (p[0] + abs(p[1]) + abs(p[2]))
        stopped, tiny = max(_STOPPED * scale, noise), max(1e-14 * scale, noise)
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
                t1, t2, wedged = _direction_after_stop(A, mu)
                if wedged:
                    code = COLLIDED if v0 >= -stopped else UNFINISHED
                    break
                stuck = straight = True
            else:
                t1, t2 = -mu * v1 / slip, -mu * v2 / slip
                r1 = b1 + A[1, 1] * t1 + A[1, 2] * t2
                r2 = b2 + A[2, 1] * t1 + A[2, 2] * t2
                along = (v1 * r1 + v2 * r2) / slip
                turning = (v1 * r2 - v2 * r1) / slip
                aside = abs(turning) * slip
                straight = mu <= 0.0 or abs(turning) <= _STRAIGHT * fastest or aside <= -stopped * along
                if not straight:
                    # d turning / d angle = -pull: on a stable direction slip keeps it, as soon as aside / pull is none
                    pull = along + (A[1, 1] * t2 * t2 - 2.0 * A[1, 2] * t1 * t2 + A[2, 2] * t1 * t1) / mu
                    if pull > 0.0 and aside * fastest <= stopped * pull * pull:
                        straight = True
                        t1, t2 = t1 - turning / pull * t2, t2 + turning / pull * t1
                        length = math.sqrt(t1 * t1 + t2 * t2) / mu
                        t1, t2 = t1 / length, t2 / length
                        r1 = b1 + A[1, 1] * t1 + A[1, 2] * t2
                        r2 = b2 + A[2, 1] * t1 + A[2, 2] * t2
                        along = -(t1 * r1 + t2 * r2) / mu
                if along < 0.0 and mu > 0.0:
                    stop = -slip / along
        if straight:
            slope = A[0, 0] + A[0, 1] * t1 + A[0, 2] * t2
            length = _normal_length(v0, slope, work, goal, phase)
            ends = length <= stop
            length = min(length, stop)
            if not math.isfinite(length):
                break
            work += v0 * length + 0.5 * slope * length * length
            p[0] += length
            p[1] += t1 * length
            p[2] += t2 * length
            if ends and phase == _RESTITUTION:
                code = COLLIDED
                break
            continue
        for d in range(3):
            x[_P + d, 0] = p[d]
        x[_V, 0], x[_V + 1, 0], x[_V + 2, 0], x[_SLIP, 0], x[_WORK, 0] = v0, v1, v2, slip, work
        _expand(A, mu, unit, x)
        begin, end = 0.0, _longest(x, unit, scale, e)
        if not math.isfinite(end):
            break
        v_end = _at(x, _V, end)
        if phase == _COMPRESSION and v_end > 0.0:
            begin = _root(x, _V, 0.0, 0.0, end)
            least = min(least, _at(x, _WORK, begin))
            goal = (1.0 - e * e) * least
            phase = _RESTITUTION
        if phase == _RESTITUTION and _at(x, _WORK, end) >= goal:
            end = _root(x, _WORK, goal, begin, end) if goal > least else begin
            code = COLLIDED
        for d in range(3):
            p[d] = _at(x, _P + d, end)
        work = _at(x, _WORK, end)
        if code == COLLIDED:
            break
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
        collide(A, c, restitution[chosen], friction[chosen], memory.series, q)
        for d in range(3):
            apply_impulse(contacts, chosen, d, q[d], u)
            p[chosen, d] += q[d]
        collisions += 1
