"""Simultaneous collisions with Coulomb friction and a restitution for each contact (what THESIS 7.2 asks for).

All contacts are brought together, in a fixed number of steps, from their velocities of approach to those of rebound:
in step k of K contact i must reach the normal velocity tau_i(k), which rises evenly from -a_i (its approach) over 0
(the end of its compression) to s_i (its rebound). The increments dp of the impulses of a step obey, at its end,
    0 <= dp_n  complementary to  v_n - tau >= 0,
    |dp_t| <= mu dp_n,  dp_t opposite to v_t wherever v_t is not zero,
so that slip may stop, stay stopped (stick), turn or reverse on the way. For one contact this is the implicit Euler
method for the equations of Routh and Keller (Mirtich's, see mirtich.py) and tends to their solution as K grows. A
step is solved by projected Gauss-Seidel over the contacts with the solution for a contact alone, from the increments of
the step before. Each step makes one sweep, and more where that changes much, from a common stock (`choose_effort`).

Cost: it is bounded by the sweeps, each a visit of every contact: 130 visits of up to 6 contacts, 20 of each of more. A
visit takes 45 to 70 ns. Few sweeps do not affect the guarantees below, only the accuracy (docs/contact.md).

Restitution is Stronge's, with the part of the mobility that is the contact's own: with alpha = dv_n / dp_n of the
contact alone, friction included, s_i follows from
    integral of v dv / alpha from 0 to s_i  =  -e_i^2 (the same from -a_i to 0).
Without friction alpha is constant, s_i = e_i a_i is Newton's law, and every step a part of the same complementarity
problem p >= 0, A p + (1 + e) b >= 0: the impulses are those of `impulses.resolve_collisions`, THESIS (4.36) where
that does not pull. With friction, Newton's law may add energy where normal and tangent are coupled (Kane and
Levinson 1985), Stronge's does not at one contact (Stronge 1990).

Energy. For relative velocities c = W u + offset before, the energy changes by
    E(p) = p . c + 1/2 |W^T p|^2 = 1/2 p . (c + c'),
to which moving walls (offset) add their work: E(p) is the change of the kinetic energy where offset = 0, and otherwise
of the kinetic energy in the frame of the walls. E is convex in p.
  1. E(p_0) <= 0 for the impulses p_0 that dissipate most: they are sought by descent of E within the cones, contact
     by contact, from p = 0, where E = 0, with steps that cannot raise E.
  2. If E(p) <= 0, p is taken. Otherwise p_0 + theta (p - p_0) with the largest theta in [0, 1] at which E <= 0:
     E <= 0 on a convex set that contains p_0.
The friction cones are convex, so that sums with weights stay within. Contacts still approach where the sweeps were too
few; their velocity is nearer to the converged one than after further impulses that dissipate.
Hence p_n >= 0, |p_t| <= mu p_n and E(p) <= 0 (to rounding) whatever the contacts and however few the sweeps.

Limits: where sliding presses a contact deeper (alpha < 0, a jam) the step that contains the jam skips it and counts
less compression than there is, so the rebound is lower than Stronge's. Impulses spread at once and evenly over all
contacts: in Newton's cradle with touching balls that all collide, the first ball rebounds at 1/3 of its velocity and
the others leave together at 2/3. Resolved one contact at a time, the last ball leaves alone (mirtich.py).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from haptic_sim.contact.solvers.outcomes import ENERGY_LIMITED, NOT_CONVERGED, SOLVED
from haptic_sim.dynamics.scaled import apply_impulses
from haptic_sim.kernels import kernel
from haptic_sim.records import array, numbers, record

STEPS = 16  # from approach to rebound; for random contacts errs by 0.1 % of the velocity, 3 % where slip turns sharply
_FEW, _STEPS_OF_MANY = 4, 12  # contacts up to which STEPS are made, and steps for more
_SWEEPS, _VISITS = 20, 130  # of an impact: sweeps, and visits of contacts; whichever is more
_TOLERANCE = 1e-8  # of the largest approach velocity: a sweep that changes less ends the last step
_CONVERGED = 1e-5  # likewise: a last sweep that changed less will do; impulses that share a load converge slowly
_EARLIER_STEPS = 1e3  # tolerance of the steps before in terms of the last one's
_SHARE = 4  # a step may make one in so many of the sweeps that are to spare: early errors are made up for by all others
_EXACT = 2  # sweeps a step, on the average, from which the law of each contact is solved exactly in each visit
# Of the mobility of the contact: a tangent that can hardly move beside the normal is dealt with as if it were this one,
# which changes how fast the sweeps converge, not to what, and bounds impulses that wedge the contact in itself.
_LEAST_MOBILITY = 1e-4
_LEAST_SLOPE = 1e-6  # alpha, of the normal mobility: with other contacts the increments of one may mean any slope
_ROUNDING = 1e-6  # part of the impulses by which they may be reduced without a word
_NO_SLIP = 1e-6  # of the velocities before: slower slip than that is none

# state of a contact after the impact: without an impulse of its own; slip zero; as before or new; against before
SEPARATED, STICKING, SLIDING, REVERSED = np.int8(0), np.int8(1), np.int8(2), np.int8(3)


MOBILITY = numbers(
    *("nn", "n1", "n2", "s_1", "s_2"),  # A_nn, A_n1, A_n2, and the principal ones of the tangents with v_n held [1/kg]
    *("inverse_nn", "inverse_1", "inverse_2"),  # of A_nn, s_1 and s_2 [kg]
    *("a_1", "a_2"),  # A_n1 / A_nn, A_n2 / A_nn
)
"""Mobility of a contact, along its normal and the principal axes of its tangents."""
PATH = numbers(
    *("target", "reached"),  # normal velocity to reach, and reached [m/s]
    "mass",  # 1 / alpha [kg]
    *("compression", "remaining"),  # integrals of v dv / alpha [J]
    "slide",  # slip per tangential impulse of a step [1/kg]
)
"""Phases of a contact between approach and rebound."""


@record
class FrictionalMemory(NamedTuple):
    """Memory of `resolve_frictional_impacts`."""

    W: np.ndarray = array("rows of W with tangents along the principal axes", "contacts", 2, "width", 3)
    offset: np.ndarray = array("contact velocity that is not due to u, in these axes", "contacts", 3, unit="m/s")
    turn: np.ndarray = array("cosine and sine of the turn of the tangents", "contacts", 2)
    mobility: np.ndarray = array("mobility of each contact", "contacts", dtype=MOBILITY)
    before: np.ndarray = array("contact velocity before the impact", "contacts", 3, unit="m/s")
    path: np.ndarray = array("state of each contact between approach and rebound", "contacts", dtype=PATH)
    increment: np.ndarray = array("impulses of a step", "contacts", 3, unit="N s")
    bouncing: np.ndarray = array("impulses of the impact", "contacts", 3, unit="N s")
    damped: np.ndarray = array("impulses that dissipate most", "contacts", 3, unit="N s")
    u: np.ndarray = array("scaled velocity during the impact", "nv", unit="kg^1/2 m/s")
    u_damped: np.ndarray = array("scaled velocity under the impulses that dissipate most", "nv", unit="kg^1/2 m/s")
    begin: np.ndarray = array("scaled velocity before a step", "nv", unit="kg^1/2 m/s")
    change: np.ndarray = array("W^T p of impulses, or of the increments of the last step", "nv", unit="kg^1/2 m/s")


# Inlined, with arrays that are read from the records before the loops: otherwise they are read again after each store.
# Of a single free body the compiler knows the number of coordinates, and where they begin.


@kernel(error_model="numpy", inline="always")
def _velocity(W, offset, tree, start, size, i, u):
    """Velocity of contact i in its three directions [m/s]."""
    v0, v1, v2 = offset[i, 0], offset[i, 1], offset[i, 2]
    if u.shape[0] == 6 and size[0] == 6:
        side = 1 if tree[i, 1] >= 0 else 0
        for k in range(6):
            v0 += W[i, side, k, 0] * u[k]
            v1 += W[i, side, k, 1] * u[k]
            v2 += W[i, side, k, 2] * u[k]
    else:
        for side in range(2):
            t = tree[i, side]
            if t >= 0:
                first = start[t]
                for k in range(size[t]):
                    x = u[first + k]
                    v0 += W[i, side, k, 0] * x
                    v1 += W[i, side, k, 1] * x
                    v2 += W[i, side, k, 2] * x
    return v0, v1, v2


@kernel(error_model="numpy", inline="always")
def _apply(W, tree, start, size, i, p0, p1, p2, u):
    """Change u by an impulse at contact i."""
    if u.shape[0] == 6 and size[0] == 6:
        side = 1 if tree[i, 1] >= 0 else 0
        for k in range(6):
            u[k] += W[i, side, k, 0] * p0 + W[i, side, k, 1] * p1 + W[i, side, k, 2] * p2
    else:
        for side in range(2):
            t = tree[i, side]
            if t >= 0:
                first = start[t]
                for k in range(size[t]):
                    u[first + k] += W[i, side, k, 0] * p0 + W[i, side, k, 1] * p1 + W[i, side, k, 2] * p2


@kernel(error_model="numpy")
def _principal_axes(n, contacts, work):
    """Turn the tangents of each contact so that its tangential mobility with v_n held is diagonal."""
    W, tree_of, size, offset = contacts.W, contacts.tree, contacts.size, contacts.offset
    turned, turned_offset, turn, mobility = work.W, work.offset, work.turn, work.mobility
    for i in range(n):
        a00 = a01 = a02 = a11 = a12 = a22 = 0.0
        for side in range(2):
            tree = tree_of[i, side]
            if tree >= 0:
                for k in range(size[tree]):
                    x, y, z = W[i, 0, side, k], W[i, 1, side, k], W[i, 2, side, k]
                    a00 += x * x
                    a01 += x * y
                    a02 += x * z
                    a11 += y * y
                    a12 += y * z
                    a22 += z * z
        b11, b12, b22 = a11, a12, a22
        if a00 > 0.0:
            b11 -= a01 * a01 / a00
            b12 -= a01 * a02 / a00
            b22 -= a02 * a02 / a00
        mean, half, cross = 0.5 * (b11 + b22), 0.5 * (b11 - b22), b12
        radius = math.sqrt(half * half + cross * cross)
        cos, sin = 1.0, 0.0
        if radius > 0.0:  # of half the angle of (half, cross)
            cos = math.sqrt(0.5 * (1.0 + abs(half) / radius))
            sin = 0.5 * cross / (radius * cos)
            if half < 0.0:
                cos, sin = abs(sin), math.copysign(cos, cross)
        least = _LEAST_MOBILITY * (a00 + a11 + a22)
        turn[i, 0], turn[i, 1] = cos, sin
        m = mobility[i]
        m.nn = a00
        m.n1 = cos * a01 + sin * a02
        m.n2 = cos * a02 - sin * a01
        m.s_1, m.s_2 = max(mean + radius, least), max(mean - radius, least)
        m.inverse_nn, m.inverse_1, m.inverse_2 = 1.0 / m.nn, 1.0 / m.s_1, 1.0 / m.s_2
        m.a_1, m.a_2 = m.n1 * m.inverse_nn, m.n2 * m.inverse_nn
        for side in range(2):
            tree = tree_of[i, side]
            if tree >= 0:
                for k in range(size[tree]):
                    y, z = W[i, 1, side, k], W[i, 2, side, k]
                    turned[i, side, k, 0] = W[i, 0, side, k]
                    turned[i, side, k, 1] = cos * y + sin * z
                    turned[i, side, k, 2] = cos * z - sin * y
        y, z = offset[i, 1], offset[i, 2]
        turned_offset[i, 0] = offset[i, 0]
        turned_offset[i, 1] = cos * y + sin * z
        turned_offset[i, 2] = cos * z - sin * y


@kernel(error_model="numpy", inline="always")
def _solve_single(m, mu, g1, g2, push, guess, roughly):
    """Impulse (p_n, p_1, p_2) of a contact by itself, and lambda, 0 if it sticks.

    Args:
        m: its mobility.
        mu: its coefficient of friction.
        g1, g2: slip that would be left at the target without tangential impulse.
        push: p_n that reaches the target without tangential impulse, > 0.
        guess: lambda, or 0.
        roughly: make one Newton step from a guess.

    With v_n at its target, v_t = g + B p_t, B = diag(s_1, s_2), and p_n = push - a . p_t. Where sticking would
    leave the cone, v_t = -lambda p_t with |p_t(lambda)| = mu p_n(lambda), which has a root: the left side is greater
    at lambda = 0 and less at the bound below. Newton's method on the reciprocals, which are nearly linear in lambda,
    kept within the bracket, from the guess or the upper end: of several roots the one at which sliding goes on.
    Roughly, the step is for the next visit and p_t is shortened to the cone: lambda converges with the sweeps.
    """
    if mu <= 0.0:
        return push, 0.0, 0.0, 0.0
    p1, p2 = -g1 * m.inverse_1, -g2 * m.inverse_2
    p_n = push - m.a_1 * p1 - m.a_2 * p2
    if p1 * p1 + p2 * p2 <= mu * mu * p_n * p_n and p_n > 0.0:
        return p_n, p1, p2, 0.0
    if roughly and guess > 0.0:
        p_n, p1, p2, length, newton = _slide(m, mu, g1, g2, push, guess)
        if p_n > 0.0:
            shrink = min(1.0, mu * p_n / length) if length > 0.0 else 0.0
            return p_n, shrink * p1, shrink * p2, newton if 0.0 < newton < math.inf else 0.0
    low = 0.0
    high = math.sqrt(g1 * g1 + g2 * g2) * (1.0 / mu + math.sqrt(m.a_1 * m.a_1 + m.a_2 * m.a_2)) / push
    x, length = guess if 0.0 < guess < high else high, 0.0
    for _ in range(60):
        p_n, p1, p2, length, newton = _slide(m, mu, g1, g2, push, x)
        excess = length - mu * p_n
        if excess > 0.0:
            low = x
        else:
            high = x
        if abs(excess) <= 1e-13 * length or high - low <= 1e-15 * high:
            break
        x = newton if low < newton < high else 0.5 * (low + high)
    if not p_n > 0.0:
        return push, 0.0, 0.0, 0.0
    shrink = min(1.0, mu * p_n / length) if length > 0.0 else 0.0
    return p_n, shrink * p1, shrink * p2, x


@kernel(error_model="numpy", inline="always")
def _slide(m, mu, g1, g2, push, x):
    """p_n, p_1, p_2, |p_t| at lambda = x, and lambda after a Newton step on 1 / |p_t| - 1 / (mu p_n), or -1."""
    e1, e2 = 1.0 / (m.s_1 + x), 1.0 / (m.s_2 + x)
    p1, p2 = -g1 * e1, -g2 * e2
    p_n = push - m.a_1 * p1 - m.a_2 * p2
    square = p1 * p1 + p2 * p2
    length = math.sqrt(square)
    newton = -1.0
    if p_n > 0.0:
        # the derivative times mu p_n^2 |p_t|^3
        slope = mu * p_n * p_n * (p1 * p1 * e1 + p2 * p2 * e2) + square * length * (m.a_1 * p1 * e1 + m.a_2 * p2 * e2)
        if slope > 0.0:
            newton = x + (length - mu * p_n) * p_n * square / slope
    return p_n, p1, p2, length, newton


@kernel(error_model="numpy")
def _solve_step(n, contacts, work, friction, sweeps, roughly, tolerance, u):
    """Find the increments that take the contacts to their targets; u is changed by them.

    Returns the change by the last sweep, and how many sweeps were made. `roughly`: see `_alone`.
    """
    W, offset, tree, start, size = work.W, work.offset, contacts.tree, contacts.start, contacts.size
    p, mobility, path, last, begin = work.increment, work.mobility, work.path, work.change, work.begin
    for k in range(u.shape[0]):
        begin[k] = u[k]
        u[k] += last[k]  # by those of the last step, the first guess: they repeat while no slip changes its state
    change, made = math.inf, 0
    while made < sweeps:
        made += 1
        change = 0.0
        for i in range(n):
            m = mobility[i]
            if not m.nn > 0.0:
                continue
            v0, v1, v2 = _velocity(W, offset, tree, start, size, i, u)
            lack = path[i].target - v0
            push = p[i, 0] + lack * m.inverse_nn + m.a_1 * p[i, 1] + m.a_2 * p[i, 2]
            new_n = new_1 = new_2 = 0.0
            if push > 0.0:
                g1 = v1 - m.s_1 * p[i, 1] + m.a_1 * lack
                g2 = v2 - m.s_2 * p[i, 2] + m.a_2 * lack
                new_n, new_1, new_2, path[i].slide = _solve_single(m, friction[i], g1, g2, push, path[i].slide, roughly)
            d0, d1, d2 = new_n - p[i, 0], new_1 - p[i, 1], new_2 - p[i, 2]
            if d0 != 0.0 or d1 != 0.0 or d2 != 0.0:
                _apply(W, tree, start, size, i, d0, d1, d2, u)
                p[i, 0], p[i, 1], p[i, 2] = new_n, new_1, new_2
                change = max(change, abs(d0) * m.nn, abs(d1) * m.s_1, abs(d2) * m.s_2)
        if not change > tolerance:
            break
    for k in range(u.shape[0]):
        last[k] = u[k] - begin[k]
    return change, made


@kernel(error_model="numpy")
def _next_target(path, approach, e, now, before):
    """Normal velocity to reach at the part `now` of the way from approach to rebound, after the part `before`."""
    turn = 1.0 / (1.0 + e)  # where compression ends
    if now <= turn:
        return approach * (now * (1.0 + e) - 1.0)
    reached, mass, remaining = path.reached, path.mass, path.remaining
    if reached < 0.0:  # compression ends within this step
        remaining = e * e * (path.compression + 0.5 * mass * reached * reached)
        reached = 0.0
    rebound = math.sqrt(reached * reached + 2.0 * max(remaining, 0.0) / mass)
    begin = max(before, turn)
    return reached + (rebound - reached) * (now - begin) / (1.0 - begin)


@kernel(error_model="numpy")
def _account(path, e):
    """Add the step from what was reached to the target to compression and restitution."""
    begin, end, mass = path.reached, path.target, path.mass
    if begin < 0.0:
        turn = min(end, 0.0)
        path.compression += 0.5 * mass * (begin * begin - turn * turn)
        path.remaining = e * e * path.compression
        begin = turn
    if end > begin:
        path.remaining -= 0.5 * mass * (end * end - begin * begin)
    path.reached = end


@kernel(error_model="numpy")
def _dissipate(n, contacts, work, friction, sweeps, tolerance, u, p):
    """Add to p increments within the cones that lower E, towards its least; u follows.

    For one contact, E changes by dp . v + 1/2 dp^T A dp, A its mobility: less than with the trace in place of A, of
    which the least over the cone is the projection of p - v / trace. So no step raises E.
    """
    W, offset, tree, start, size = work.W, work.offset, contacts.tree, contacts.start, contacts.size
    mobility = work.mobility
    for _ in range(sweeps):
        change = 0.0
        for i in range(n):
            m = mobility[i]
            if not m.nn > 0.0:
                continue
            a11 = m.s_1 + m.n1 * m.n1 / m.nn
            a22 = m.s_2 + m.n2 * m.n2 / m.nn
            trace = m.nn + a11 + a22
            v0, v1, v2 = _velocity(W, offset, tree, start, size, i, u)
            q0, q1, q2 = p[i, 0] - v0 / trace, p[i, 1] - v1 / trace, p[i, 2] - v2 / trace
            mu = friction[i]
            length = math.sqrt(q1 * q1 + q2 * q2)
            if length > mu * q0:
                along = max(0.0, (q0 + mu * length) / (1.0 + mu * mu))
                q0 = along
                q1 *= mu * along / length
                q2 *= mu * along / length
            d0, d1, d2 = q0 - p[i, 0], q1 - p[i, 1], q2 - p[i, 2]
            _apply(W, tree, start, size, i, d0, d1, d2, u)
            p[i, 0], p[i, 1], p[i, 2] = q0, q1, q2
            change = max(change, (abs(d0) + abs(d1) + abs(d2)) * trace)
        if not change > tolerance:
            break


@kernel(error_model="numpy")
def _impact(n, contacts, work, restitution, friction, steps, sweeps, tolerance, u, p):
    """Fill p with the impulses of the whole impact and take u to the velocity after; returns the last change."""
    before, increment, mobility, paths = work.before, work.increment, work.mobility, work.path
    for i in range(n):
        path = paths[i]
        for d in range(3):
            p[i, d] = 0.0
            increment[i, d] = 0.0
        path.reached = min(0.0, before[i, 0])
        path.mass = min(mobility[i].inverse_nn, 1e300)
        path.compression = path.remaining = path.slide = 0.0
    change = math.inf
    roughly = sweeps < _EXACT * steps
    for k in range(u.shape[0]):
        work.change[k] = 0.0
    for k in range(steps):
        for i in range(n):
            approach = max(0.0, -before[i, 0])
            paths[i].target = _next_target(paths[i], approach, restitution[i], (k + 1.0) / steps, float(k) / steps)
        # errors on the way are made up for by later steps, as targets are absolute
        if k < steps - 1:
            spare = sweeps - (steps - k)  # each step makes one sweep
            most = 1 + max(0, spare) // _SHARE
            _, made = _solve_step(n, contacts, work, friction, most, roughly, _EARLIER_STEPS * tolerance, u)
        else:
            change, made = _solve_step(n, contacts, work, friction, max(1, sweeps), roughly, tolerance, u)
        sweeps -= made
        for i in range(n):
            m, path = mobility[i], paths[i]
            q0, q1, q2 = increment[i, 0], increment[i, 1], increment[i, 2]
            p[i, 0], p[i, 1], p[i, 2] = p[i, 0] + q0, p[i, 1] + q1, p[i, 2] + q2
            path.mass = min(m.inverse_nn, 1e300)
            if q0 > 0.0:
                path.mass = q0 / max(m.nn * q0 + m.n1 * q1 + m.n2 * q2, _LEAST_SLOPE * m.nn * q0)
            _account(path, restitution[i])
    return change


@kernel(error_model="numpy")
def _gain(n, contacts, work, p, before, change):
    """Work p . c of impulses at the velocities before, and |W^T p|^2: the energy changes by work + square / 2."""
    W, tree, start, size = work.W, contacts.tree, contacts.start, contacts.size
    done = square = 0.0
    for k in range(change.shape[0]):
        change[k] = 0.0
    for i in range(n):
        done += p[i, 0] * before[i, 0] + p[i, 1] * before[i, 1] + p[i, 2] * before[i, 2]
        _apply(W, tree, start, size, i, p[i, 0], p[i, 1], p[i, 2], change)
    for k in range(change.shape[0]):
        square += change[k] * change[k]
    return done, square


@kernel(error_model="numpy")
def _limit_energy(n, contacts, work, u_damped):
    """Move work.bouncing towards work.damped until no energy is added."""
    W, offset, tree, start, size = work.W, work.offset, contacts.tree, contacts.start, contacts.size
    p, damped = work.bouncing, work.damped
    work_0, square_0 = _gain(n, contacts, work, damped, work.before, work.change)
    constant = min(0.0, work_0 + 0.5 * square_0)
    for i in range(n):
        for d in range(3):
            p[i, d] -= damped[i, d]
    _, square = _gain(n, contacts, work, p, work.before, work.change)
    linear = 0.0
    for i in range(n):
        v0, v1, v2 = _velocity(W, offset, tree, start, size, i, u_damped)
        linear += p[i, 0] * v0 + p[i, 1] * v1 + p[i, 2] * v2
    # the larger root of constant + linear theta + square theta^2 / 2, without cancellation
    root = math.sqrt(linear * linear - 2.0 * square * constant)
    theta = 0.0
    if linear > 0.0:
        theta = -2.0 * constant / (linear + root)
    elif square > 0.0:
        theta = (root - linear) / square
    theta = min(max(theta, 0.0), 1.0) * (1.0 - 1e-9)  # within, by more than rounding
    for i in range(n):
        for d in range(3):
            p[i, d] = damped[i, d] + theta * p[i, d]


@kernel(error_model="numpy")
def _slip_states(n, contacts, work, u, state):
    """Fill the states of the contacts after the impact."""
    W, offset, tree, start, size = work.W, work.offset, contacts.tree, contacts.start, contacts.size
    scale = 0.0
    for i in range(n):
        for d in range(3):
            scale = max(scale, abs(work.before[i, d]))
    for i in range(n):
        _, v1, v2 = _velocity(W, offset, tree, start, size, i, u)
        if not work.bouncing[i, 0] > 0.0:
            state[i] = SEPARATED
        elif not math.sqrt(v1 * v1 + v2 * v2) > _NO_SLIP * scale:
            state[i] = STICKING
        elif v1 * work.before[i, 1] + v2 * work.before[i, 2] < 0.0:
            state[i] = REVERSED
        else:
            state[i] = SLIDING


@kernel
def choose_effort(n):
    """Steps and sweeps for an impact of n contacts; with these the cost is linear in the contacts."""
    return (STEPS if n <= _FEW else _STEPS_OF_MANY), max(_SWEEPS, _VISITS // max(n, 1))


@kernel(error_model="numpy")
def resolve_frictional_impacts(n, contacts, u, restitution, friction, steps, sweeps, work, p, state):
    """Resolve n collisions at once; allocates and raises nothing.

    Args:
        n: number of contacts; those that do not approach take part too, and are not pressed into each other.
        contacts: ScaledContacts.
        u: scaled velocities, before; after on return, (nv,).
        restitution: Stronge's coefficients in [0, 1], (C,).
        friction: kinetic coefficients, >= 0, (C,).
        steps: from approach to rebound. Without friction one step is exact, and taken.
        sweeps: of all steps together; each makes at least one.
        work: FrictionalMemory.
        p: impulses [N s] in (normal, tangent 1, tangent 2) to fill, (C, 3).
        state: SEPARATED, STICKING, SLIDING or REVERSED to fill, (C,) int8.

    Returns:
        SOLVED; ENERGY_LIMITED: friction with restitution would have added energy, and the rebound was reduced; or
        NOT_CONVERGED: the sweeps did not do, contacts may still approach. All add no energy.
    """
    nv = u.shape[0]
    W, offset, tree, start, size = work.W, work.offset, contacts.tree, contacts.start, contacts.size
    _principal_axes(n, contacts, work)
    largest = mu = 0.0
    for i in range(n):
        v0, v1, v2 = _velocity(W, offset, tree, start, size, i, u)
        work.before[i, 0], work.before[i, 1], work.before[i, 2] = v0, v1, v2
        largest = max(largest, -v0)
        mu = max(mu, friction[i])
    tolerance = _TOLERANCE * largest
    if not mu > 0.0:
        steps = 1
    for k in range(nv):
        work.u[k] = u[k]
    code = SOLVED
    change = _impact(n, contacts, work, restitution, friction, steps, sweeps, tolerance, work.u, work.bouncing)
    if not change <= _CONVERGED * largest:
        code = NOT_CONVERGED
    done, square = _gain(n, contacts, work, work.bouncing, work.before, work.change)
    size = 0.0
    for i in range(n):
        for d in range(3):
            size += abs(work.bouncing[i, d] * work.before[i, d])
    done += 1e-15 * size  # so that rounding cannot hide a gain
    if not done + 0.5 * square <= 0.0:
        part = -2.0 * done / square
        if part > 1.0 - _ROUNDING:  # what was left by the last sweep: E is convex and 0 at p = 0
            for i in range(n):
                for d in range(3):
                    work.bouncing[i, d] *= part
        else:
            for k in range(nv):
                work.u_damped[k] = u[k]
            for i in range(n):
                for d in range(3):
                    work.damped[i, d] = 0.0
            _dissipate(n, contacts, work, friction, sweeps, tolerance, work.u_damped, work.damped)
            _limit_energy(n, contacts, work, work.u_damped)
            code = max(code, ENERGY_LIMITED)
    finite = True
    for i in range(n):
        q0, q1, q2 = work.bouncing[i, 0], work.bouncing[i, 1], work.bouncing[i, 2]
        cos, sin = work.turn[i, 0], work.turn[i, 1]
        p[i, 0] = q0
        p[i, 1] = cos * q1 - sin * q2
        p[i, 2] = sin * q1 + cos * q2
        finite = finite and math.isfinite(q0 + q1 + q2)
    if not finite:
        for i in range(n):
            p[i, 0] = p[i, 1] = p[i, 2] = 0.0
    apply_impulses(n, contacts, p, u)
    _slip_states(n, contacts, work, u, state)
    return code if finite else NOT_CONVERGED
