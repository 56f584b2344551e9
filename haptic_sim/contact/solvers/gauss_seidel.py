"""Coulomb friction in the velocity-impulse form by projected block Gauss-Seidel, on the cone itself.

Contact i has the velocity c_i = W_i u + offset_i with u = u_free + sum_j W_j^T p_j, and its impulse p_i obeys
    0 <= p_n,  c_n + b_n >= 0,  p_n (c_n + b_n) = 0                                    (Signorini)
    |p_t| <= mu p_n,  and where it slides  p_t = -mu p_n c_t / |c_t|                   (Coulomb)
(Stewart and Trinkle 1996, Moreau 1999). The cone is the round one and friction opposes sliding exactly; the law is
not associated, so that sliding does not lift off, and a solution need not exist nor be the only one when mu is large.

Method: sweeps over the contacts, forwards and backwards in turn; each solves the law of one contact exactly while the
others are held. For one contact, with q its velocity without its impulse and A = W_i W_i^T:
  - open, p = 0, if q_n >= 0;
  - sticking, p = -A^-1 q, if that lies in the cone;
  - sliding otherwise: p_t = -c_t / alpha for some alpha > 0, so p(alpha) = -(A + alpha diag(0, 1, 1))^-1 q, and
    alpha is the root of |p_t| = mu p_n. |p_t| - mu p_n is positive at 0, where p is outside of the cone, and tends to
    mu q_n / A_nn < 0: there always is a root, whatever A and mu (compare Bonnefon and Daviet 2011, a quartic).
Tangents are first turned to the principal axes of A_tt - A_tn A_nt / A_nn, in which all this is diagonal.

Sweeps alone converge slowly where contacts are strongly coupled, as in a stack. So after a few pairs of sweeps each
pair is followed by a step for all pushing contacts at once, with the sets of sticking and sliding contacts of the last
sweep: a linear system in the coordinates, with the sparsity of the touching trees (see _solve_together). The step is
shortened where that reduces the residual further, the following sweeps correct the sets, and steps without progress
after some tries are undone. Near the solution this is Newton's method, and converges as fast.

Guarantees, converged or not: p lies in the cones, u = u_free + W^T p, both are finite if the input is, and contacts
add no energy: the work p . (offset + b n + W (u_free + u) / 2) <= 0. So with offset = 0 and b >= 0 the kinetic energy
1/2 |u|^2 does not rise. The cost of a sweep is linear in the contacts, that of a step for all is linear in them too at
a fixed number of coordinates.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np

from haptic_sim.contact.solvers.outcomes import NOT_CONVERGED, SOLVED
from haptic_sim.dynamics.scaled import ScaledContacts, coupling

TOLERANCE = 1e-9  # [m/s]
MAX_SWEEPS = 300

_IMMOBILE = 1e-20  # a contact whose A_nn is below this part of the largest has no mobility of its own
_PROXIMAL = 1e-10  # relative to the trace of A, see _prepare
_LARGEST_FRICTION = 1e9  # stands for all larger ones, infinity included
_FIRST_JUMP = 6  # sweeps before the first step for all contacts; what is all but solved needs none
_TRIES = 20  # steps for all without a new best before they are undone
_LONGEST_REST = 64  # sweeps between being undone and trying again
_SOFTEST, _HARDEST = 1e-3, 1e-6  # see _solve_together; soft steps are safer, hard ones converge faster
_LEAST_PIVOT = 1e-3  # of a matrix that is 1 plus, but for friction, something positive


class GaussSeidelMemory(NamedTuple):
    """Preallocated memory of `gauss_seidel` for C contacts, nv coordinates, and trees up to w wide.

    Attributes:
        V: rows of W with turned tangents, (C, 2, w, 3): what a visit reads lies together.
        block: what _prepare finds of each contact, (C, 15).
        p, u_free: impulses along the turned axes, (C, 3), and free velocity, (nv,).
        before, target, winner, best: impulses where a step for all begins, where it leads to, as far as it is best
            taken, and with the least residual so far, (C, 3).
        place, envelope: order of the coordinates in K, (3, trees) and (nv,) int64.
        K, x, H, e: the system of a step for all, (2, nv, nv), (nv,), (C, 6), (C, 3).
    """

    V: np.ndarray
    block: np.ndarray
    p: np.ndarray
    u_free: np.ndarray
    before: np.ndarray
    target: np.ndarray
    winner: np.ndarray
    best: np.ndarray
    place: np.ndarray
    envelope: np.ndarray
    K: np.ndarray
    x: np.ndarray
    H: np.ndarray
    e: np.ndarray

    @classmethod
    def allocate(cls, contacts: ScaledContacts) -> GaussSeidelMemory:
        """Memory for as many contacts as `contacts` has room for."""
        capacity, width = contacts.W.shape[0], contacts.W.shape[3]
        nv = int(contacts.size.sum())
        return cls(
            np.zeros((capacity, 2, width, 3)),
            np.zeros((capacity, 15)),
            np.zeros((capacity, 3)),
            np.zeros(nv),
            np.zeros((capacity, 3)),
            np.zeros((capacity, 3)),
            np.zeros((capacity, 3)),
            np.zeros((capacity, 3)),
            np.zeros((3, len(contacts.size)), np.int64),
            np.zeros(nv, np.int64),
            np.zeros((2, nv, nv)),
            np.zeros(nv),
            np.zeros((capacity, 6)),
            np.zeros((capacity, 3)),
        )


# Columns of `block`: 1 / A_nn (0: no mobility), A_nn, a, s, mu, mobility of the tangents inverted, turn of the
# tangents, velocity that is not due to u, 1 / s.
_G, _ANN, _A1, _A2, _S1, _S2, _MU, _RATE, _COS, _SIN, _C0, _C1, _C2, _I1, _I2 = range(15)


@numba.njit(cache=True, nogil=True)
def _prepare(n, contacts, friction, bias, p_in, V, block, p):
    """Turn the tangents of each contact to its principal axes and fill V, block and p with what visits need.

    With S = A_tt - A_tn A_nt / A_nn = R diag(s) R^T the block is A_nn, a = R^T A_tn and s. A proximal term is added
    to s: the law of a contact is solved with (S + eps) and q - eps p_old, which leaves every solution what it is
    and keeps tangents without mobility (planar worlds) from being divided by zero: they keep their impulse.
    """
    largest = 0.0
    for i in range(n):
        largest = max(largest, coupling(contacts, i, 0, i, 0))
    for i in range(n):
        A_nn = coupling(contacts, i, 0, i, 0)
        A_n1, A_n2 = coupling(contacts, i, 0, i, 1), coupling(contacts, i, 0, i, 2)
        A_11, A_22 = coupling(contacts, i, 1, i, 1), coupling(contacts, i, 2, i, 2)
        A_12 = coupling(contacts, i, 1, i, 2)
        trace = A_nn + A_11 + A_22
        p[i, 0] = p[i, 1] = p[i, 2] = 0.0
        block[i, _G] = 0.0
        if not (A_nn > _IMMOBILE * largest and trace < math.inf):
            continue
        g = 1.0 / A_nn
        S_11, S_22, S_12 = A_11 - g * A_n1 * A_n1, A_22 - g * A_n2 * A_n2, A_12 - g * A_n1 * A_n2
        angle = 0.5 * math.atan2(2.0 * S_12, S_11 - S_22) if S_12 != 0.0 else 0.0
        cos, sin = math.cos(angle), math.sin(angle)
        mean = 0.5 * (S_11 + S_22)
        half = math.hypot(0.5 * (S_11 - S_22), S_12)
        if angle == 0.0 and S_11 < S_22:
            half = -half
        eps = _PROXIMAL * trace
        s_1, s_2 = max(mean + half, 0.0) + eps, max(mean - half, 0.0) + eps
        block[i, _G], block[i, _ANN] = g, A_nn
        block[i, _A1], block[i, _A2] = cos * A_n1 + sin * A_n2, cos * A_n2 - sin * A_n1
        block[i, _S1], block[i, _S2], block[i, _I1], block[i, _I2] = s_1, s_2, 1.0 / s_1, 1.0 / s_2
        block[i, _MU] = min(friction[i], _LARGEST_FRICTION) if friction[i] > 0.0 else 0.0
        block[i, _RATE] = 1.0 / (A_11 + A_22) if eps < A_11 + A_22 else g
        block[i, _COS], block[i, _SIN] = cos, sin
        o = contacts.offset
        block[i, _C0] = o[i, 0] + bias[i]
        block[i, _C1], block[i, _C2] = cos * o[i, 1] + sin * o[i, 2], cos * o[i, 2] - sin * o[i, 1]
        for side in range(2):
            tree = contacts.tree[i, side]
            if tree >= 0:
                W = contacts.W
                for k in range(contacts.size[tree]):
                    V[i, side, k, 0] = W[i, 0, side, k]
                    V[i, side, k, 1] = cos * W[i, 1, side, k] + sin * W[i, 2, side, k]
                    V[i, side, k, 2] = cos * W[i, 2, side, k] - sin * W[i, 1, side, k]
        p_n = p_in[i, 0]
        p_1, p_2 = cos * p_in[i, 1] + sin * p_in[i, 2], cos * p_in[i, 2] - sin * p_in[i, 1]
        if 0.0 < p_n < math.inf and math.isfinite(p_1) and math.isfinite(p_2):
            p[i, 0], p[i, 1], p[i, 2] = p_n, p_1, p_2
            _into_cone(block[i, _MU], p, i)


@numba.njit(cache=True, nogil=True)
def _into_cone(mu, p, i):
    """Shorten p_t to mu p_n where it is longer; without p_n >= 0, no impulse."""
    if not p[i, 0] > 0.0:
        p[i, 0] = p[i, 1] = p[i, 2] = 0.0
        return
    length = math.sqrt(p[i, 1] * p[i, 1] + p[i, 2] * p[i, 2])
    if length > mu * p[i, 0]:
        part = mu * p[i, 0] / length
        p[i, 1] *= part
        p[i, 2] *= part


@numba.njit(cache=True, nogil=True)
def _slide(block, i, q_n, r_1, r_2):
    """Impulse (n, 1, 2) of a contact that slides: the root alpha of h = mu p_n / |p_t| - 1.

    p_t = -r / (s + alpha) and p_n = -(q_n + a . p_t) / A_nn. For s_1 = s_2, h is linear in alpha and the first step of
    Newton's method is exact, with normal and tangent coupled or not; otherwise it starts there, between brackets.
    """
    g, mu = block[i, _G], block[i, _MU]
    a_1, a_2, s_1, s_2 = block[i, _A1], block[i, _A2], block[i, _S1], block[i, _S2]
    alpha, low, high = 0.0, 0.0, math.inf
    p_n, p_1, p_2, length = 0.0, 0.0, 0.0, 1.0
    for _ in range(60):
        e_1, e_2 = 1.0 / (s_1 + alpha), 1.0 / (s_2 + alpha)
        p_1, p_2 = -r_1 * e_1, -r_2 * e_2
        length = math.sqrt(p_1 * p_1 + p_2 * p_2)
        p_n = -g * (q_n + a_1 * p_1 + a_2 * p_2)
        if not length > 0.0:
            break
        h = mu * p_n - length
        if h < 0.0:
            low = alpha
        else:
            high = alpha
        if abs(h) <= 1e-15 * length:
            break
        # d p_t / d alpha = -p_t / (s + alpha)
        dp_n = g * (a_1 * p_1 * e_1 + a_2 * p_2 * e_2)
        dlength = -(p_1 * p_1 * e_1 + p_2 * p_2 * e_2) / length
        slope = mu * (dp_n - p_n * dlength / length)
        following = alpha - h / slope if slope > 0.0 else -1.0
        if not low < following < high:
            following = 0.5 * (low + high) if high < math.inf else 2.0 * alpha + s_1 + s_2
        if abs(following - alpha) <= 1e-15 * following:
            break
        alpha = following
    if not p_n > 0.0:
        return 0.0, 0.0, 0.0
    part = mu * p_n / length if length > 0.0 else 0.0
    return p_n, part * p_1, part * p_2


@numba.njit(cache=True, nogil=True)
def _visit(i, tree, start, size, V, block, u, p, change):
    """Residual of contact i [m/s]; with `change`, solve its law as well and update p and u.

    The residual is the map of Alart and Curnier (1991) divided by the mobility: 0 exactly where the true law holds,
    without the dilation mu |c_t| of other maps, so that it means the same for large mu.
    """
    g = block[i, _G]
    if g == 0.0:
        return 0.0
    c_n = block[i, _C0]
    p_n, p_1, p_2 = p[i, 0], p[i, 1], p[i, 2]
    c_1, c_2 = block[i, _C1], block[i, _C2]
    for side in range(2):
        t = tree[i, side]
        if t >= 0:
            first = start[t]
            for k in range(size[t]):
                x = u[first + k]
                c_n += V[i, side, k, 0] * x
                c_1 += V[i, side, k, 1] * x
                c_2 += V[i, side, k, 2] * x
    if p_n == 0.0 and c_n >= 0.0:
        return 0.0
    mu = block[i, _MU]
    residual = abs(c_n) if p_n > g * c_n else p_n / g
    rate = block[i, _RATE]
    y_1, y_2 = p_1 - rate * c_1, p_2 - rate * c_2
    length = math.sqrt(y_1 * y_1 + y_2 * y_2)
    part = mu * p_n / length if length > mu * p_n else 1.0
    y_1, y_2 = p_1 - part * y_1, p_2 - part * y_2
    residual = max(residual, math.sqrt(y_1 * y_1 + y_2 * y_2) / rate)
    if not change:
        return residual
    a_1, a_2 = block[i, _A1], block[i, _A2]
    q_n = c_n - block[i, _ANN] * p_n - a_1 * p_1 - a_2 * p_2
    x_n, x_1, x_2 = 0.0, 0.0, 0.0
    if q_n < 0.0:
        if mu > 0.0:
            d_1, d_2 = c_1 - a_1 * g * c_n, c_2 - a_2 * g * c_n
            x_1, x_2 = p_1 - d_1 * block[i, _I1], p_2 - d_2 * block[i, _I2]
        x_n = -g * (q_n + a_1 * x_1 + a_2 * x_2)
        if not math.sqrt(x_1 * x_1 + x_2 * x_2) <= mu * x_n:
            x_n, x_1, x_2 = _slide(block, i, q_n, -block[i, _S1] * x_1, -block[i, _S2] * x_2)
    p[i, 0], p[i, 1], p[i, 2] = x_n, x_1, x_2
    x_n, x_1, x_2 = x_n - p_n, x_1 - p_1, x_2 - p_2
    for side in range(2):
        t = tree[i, side]
        if t >= 0:
            first = start[t]
            for k in range(size[t]):
                u[first + k] += V[i, side, k, 0] * x_n + V[i, side, k, 1] * x_1 + V[i, side, k, 2] * x_2
    return residual


@numba.njit(cache=True, nogil=True)
def _residual(n, tree, start, size, V, block, u, p):
    worst = 0.0
    for i in range(n):
        r = _visit(i, tree, start, size, V, block, u, p, False)
        if r > worst or math.isnan(r):
            worst = r
    return worst


@numba.njit(cache=True, nogil=True)
def _merit(n, tree, start, size, V, block, u, p):
    """Sum of the squares of the residuals, each with the mass that the contact feels."""
    total = 0.0
    for i in range(n):
        r = _visit(i, tree, start, size, V, block, u, p, False)
        total += r * r * block[i, _G]
    return total


@numba.njit(cache=True, nogil=True)
def _sweep(n, tree, start, size, V, block, u, p, backwards):
    worst = 0.0
    for a in range(n):
        i = n - 1 - a if backwards else a
        r = _visit(i, tree, start, size, V, block, u, p, True)
        if r > worst or math.isnan(r):
            worst = r
    return worst


@numba.njit(cache=True, nogil=True)
def _velocity(n, tree, start, size, V, block, u_free, p, u):
    """u = u_free + W^T p."""
    for k in range(u.shape[0]):
        u[k] = u_free[k]
    for i in range(n):
        if p[i, 0] != 0.0:
            for side in range(2):
                t = tree[i, side]
                if t >= 0:
                    first = start[t]
                    for k in range(size[t]):
                        u[first + k] += (
                            V[i, side, k, 0] * p[i, 0] + V[i, side, k, 1] * p[i, 1] + V[i, side, k, 2] * p[i, 2]
                        )


@numba.njit(cache=True, nogil=True)
def _order(n, tree, start, size, block, place, envelope):
    """Place the trees so that those in contact are near each other: Cuthill and McKee (1969), breadth first.

    Fills place[0, t] with the first coordinate of tree t in that order, -1 without contacts, and envelope[k] with the
    first column of row k of a matrix that couples trees in contact; returns the number of coordinates.
    """
    trees = start.shape[0]
    for t in range(trees):
        place[0, t] = -1
        place[1, t] = 0  # number of contacts; place[2] is the queue
    for i in range(n):
        if block[i, _G] > 0.0:
            for side in range(2):
                if tree[i, side] >= 0:
                    place[1, tree[i, side]] += 1
    total = 0
    head = tail = 0
    while True:
        if head == tail:
            fewest = -1
            for t in range(trees):
                if place[0, t] < 0 and place[1, t] > 0 and (fewest < 0 or place[1, t] < place[1, fewest]):
                    fewest = t
            if fewest < 0:
                return total
            place[2, tail] = fewest
            tail += 1
            place[0, fewest] = total
            for k in range(size[fewest]):
                envelope[total + k] = total
            total += size[fewest]
        t = place[2, head]
        head += 1
        for i in range(n):
            if block[i, _G] > 0.0:
                for side in range(2):
                    other = tree[i, 1 - side]
                    if tree[i, side] == t and other >= 0 and place[0, other] < 0:
                        place[2, tail] = other
                        tail += 1
                        place[0, other] = total
                        for k in range(size[other]):
                            envelope[total + k] = place[0, t]
                        total += size[other]


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _envelope_factor(K, envelope, n):
    """K = L (1 + U) in place, without pivoting, inside a symmetric envelope: lower rows in K[0], columns of U in K[1].

    K[1, i, j] is entry (j, i) of the upper part. False where a pivot is not positive.
    """
    L, U = K[0], K[1]
    for i in range(n):
        first = envelope[i]
        for j in range(first, i):
            s, r = L[i, j], U[i, j]
            for k in range(max(first, envelope[j]), j):
                s -= L[i, k] * U[j, k]
                r -= U[i, k] * L[j, k]
            L[i, j] = s
            U[i, j] = r * L[j, j]
        s = L[i, i]
        for k in range(first, i):
            s -= L[i, k] * U[i, k]
        if not _LEAST_PIVOT < s < math.inf:
            return False
        L[i, i] = 1.0 / s  # as it only divides
    return True


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _envelope_solve(K, envelope, n, x):
    """Solve in place with the factors."""
    L, U = K[0], K[1]
    for i in range(n):
        s = x[i]
        for k in range(envelope[i], i):
            s -= L[i, k] * x[k]
        x[i] = s * L[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(envelope[i], i):
            x[k] -= U[i, k] * x[i]


@numba.njit(cache=True, nogil=True)
def _solve_together(n, tree, start, size, V, block, u, p, place, envelope, K, x, H, e, dimension, secant, softness):
    """Step p by a linearisation of the laws of all pushing contacts at once, with the sets that stick and slide now.

    With delta = softness A_nn, a proximal term with which contacts that depend on each other do no harm,
        normal:    c_n + dc_n + delta dp_n = 0,
        sticking:  c_t + dc_t + delta dp_t = 0,
        sliding:   p_t + dp_t = mu (p_n + dp_n) d - mu p_n (1 - d d^T) dc_t / |c_t|,  d = -c_t / |c_t|   (Newton)
        or with `secant`, alpha = |c_t| / mu p_n as it is,  c_t + dc_t + alpha (p_t + dp_t) + delta dp_t = 0,
    which lets those that slide come to rest and is better far from the solution. All have the form dp = e - H dc with
    dc = V du, du = V^T dp, hence (1 + V^T H V) du = V^T e, as large as the coordinates. Returns whether
    it could be solved.
    """
    for k in range(dimension):
        for j in range(envelope[k], k):
            K[0, k, j] = K[1, k, j] = 0.0
        K[0, k, k] = 1.0
        x[k] = 0.0
    for i in range(n):
        if not p[i, 0] > 0.0:
            continue
        c_n, c_1, c_2 = block[i, _C0], block[i, _C1], block[i, _C2]
        for side in range(2):
            t = tree[i, side]
            if t >= 0:
                first = start[t]
                for k in range(size[t]):
                    y = u[first + k]
                    c_n += V[i, side, k, 0] * y
                    c_1 += V[i, side, k, 1] * y
                    c_2 += V[i, side, k, 2] * y
        stiff = 1.0 / (softness * block[i, _ANN])
        limit = block[i, _MU] * p[i, 0]
        H_1n = H_2n = H_12 = 0.0
        H_nn = H_11 = H_22 = stiff
        e[i, 0] = -stiff * c_n
        if math.sqrt(p[i, 1] * p[i, 1] + p[i, 2] * p[i, 2]) < limit * (1.0 - 1e-12):
            e[i, 1], e[i, 2] = -stiff * c_1, -stiff * c_2
        elif secant and limit > 0.0:
            alpha = math.sqrt(c_1 * c_1 + c_2 * c_2) / limit
            H_11 = H_22 = 1.0 / (alpha + 1.0 / stiff)
            e[i, 1], e[i, 2] = -H_11 * (c_1 + alpha * p[i, 1]), -H_11 * (c_2 + alpha * p[i, 2])
        else:
            slip = math.sqrt(c_1 * c_1 + c_2 * c_2)
            d_1, d_2 = (-c_1 / slip, -c_2 / slip) if slip > 0.0 else (0.0, 0.0)
            across = min(limit / slip, stiff) if slip > 0.0 else 0.0
            H_1n, H_2n = block[i, _MU] * d_1 * stiff, block[i, _MU] * d_2 * stiff
            H_11, H_22, H_12 = across * d_2 * d_2, across * d_1 * d_1, -across * d_1 * d_2
            e[i, 1] = limit * d_1 - p[i, 1] - H_1n * c_n
            e[i, 2] = limit * d_2 - p[i, 2] - H_2n * c_n
        H[i, 0], H[i, 1], H[i, 2], H[i, 3], H[i, 4], H[i, 5] = H_nn, H_1n, H_2n, H_11, H_12, H_22
        for side in range(2):
            a = tree[i, side]
            if a < 0:
                continue
            for k in range(size[a]):
                v_n, v_1, v_2 = V[i, side, k, 0], V[i, side, k, 1], V[i, side, k, 2]
                row = place[0, a] + k
                x[row] += v_n * e[i, 0] + v_1 * e[i, 1] + v_2 * e[i, 2]
                h_n, h_1, h_2 = v_n * H_nn + v_1 * H_1n + v_2 * H_2n, v_1 * H_11 + v_2 * H_12, v_1 * H_12 + v_2 * H_22
                g_n, g_1, g_2 = v_n * H_nn, v_n * H_1n + h_1, v_n * H_2n + h_2
                for other in range(2):
                    b = tree[i, other]
                    if b < 0 or place[0, b] > place[0, a]:
                        continue
                    column = place[0, b]
                    for j in range(k + 1 if a == b else size[b]):
                        w_n, w_1, w_2 = V[i, other, j, 0], V[i, other, j, 1], V[i, other, j, 2]
                        K[0, row, column + j] += h_n * w_n + h_1 * w_1 + h_2 * w_2
                        if row > column + j:
                            K[1, row, column + j] += g_n * w_n + g_1 * w_1 + g_2 * w_2
    if not _envelope_factor(K, envelope, dimension):
        return False
    _envelope_solve(K, envelope, dimension, x)
    for i in range(n):
        if p[i, 0] > 0.0:
            c_n = c_1 = c_2 = 0.0
            for side in range(2):
                t = tree[i, side]
                if t >= 0:
                    first = place[0, t]
                    for k in range(size[t]):
                        y = x[first + k]
                        c_n += V[i, side, k, 0] * y
                        c_1 += V[i, side, k, 1] * y
                        c_2 += V[i, side, k, 2] * y
            p[i, 0] += e[i, 0] - H[i, 0] * c_n
            p[i, 1] += e[i, 1] - H[i, 1] * c_n - H[i, 3] * c_1 - H[i, 4] * c_2
            p[i, 2] += e[i, 2] - H[i, 2] * c_n - H[i, 4] * c_1 - H[i, 5] * c_2
            _into_cone(block[i, _MU], p, i)
    return True


@numba.njit(cache=True, nogil=True)
def _copy(n, source, target):
    for i in range(n):
        for d in range(3):
            target[i, d] = source[i, d]


@numba.njit(cache=True, nogil=True)
def _jump(n, tree, start, size, V, block, u, memory, dimension, softness):
    """Step for all contacts at once, of the kind and length that bring the residual down most; returns systems solved.

    It may leave the residual larger, for a while: cutting it shorter than a half would slow down finding the sets.
    """
    p, before, target, winner = memory.p, memory.before, memory.target, memory.winner
    _copy(n, p, before)
    _copy(n, p, winner)
    enough = 0.5 * _merit(n, tree, start, size, V, block, u, p)
    least = math.inf
    solves = 0
    for secant in (True, False):
        if solves > 0:
            _copy(n, before, p)
            _velocity(n, tree, start, size, V, block, memory.u_free, p, u)
        solves += 1
        place, envelope = memory.place, memory.envelope
        if not _solve_together(
            n,
            tree,
            start,
            size,
            V,
            block,
            u,
            p,
            place,
            envelope,
            memory.K,
            memory.x,
            memory.H,
            memory.e,
            dimension,
            secant,
            softness,
        ):
            continue
        _copy(n, p, target)
        for part in (1.0, 0.5):
            for i in range(n):
                for d in range(3):
                    p[i, d] = before[i, d] + part * (target[i, d] - before[i, d])
            _velocity(n, tree, start, size, V, block, memory.u_free, p, u)
            merit = _merit(n, tree, start, size, V, block, u, p)
            if merit < least:
                least = merit
                _copy(n, p, winner)
            if least <= enough:
                break
        if least <= enough:
            break
    _copy(n, winner, p)
    _velocity(n, tree, start, size, V, block, memory.u_free, p, u)
    return solves


@numba.njit(cache=True, nogil=True)
def _passive_part(n, block, u_free, u, p):
    """Part of p, in [0, 1], with which the contacts add no energy: 1 unless p is not converged.

    The part s does the work s p . c + 1/2 s^2 |W^T p|^2 with c the velocity before, offset and bias included. At a
    solution p . (c + A p) <= 0, so s = 1 takes energy. Where it would add some, the s that takes most is
    -p . c / |W^T p|^2, or 0.
    """
    work = 0.0
    square = 0.0
    for k in range(u.shape[0]):
        d = u[k] - u_free[k]
        square += d * d
        work += d * u_free[k]
    for i in range(n):
        work += block[i, _C0] * p[i, 0] + block[i, _C1] * p[i, 1] + block[i, _C2] * p[i, 2]
    if work + 0.5 * square <= 0.0:
        return 1.0
    return min(-work / square, 1.0) if work < 0.0 and square > 0.0 else 0.0


@numba.njit(cache=True, nogil=True)
def gauss_seidel(n, contacts, friction, bias, u, p, memory, tolerance, max_sweeps):
    """Find the impulses p[:n] of n contacts and add what they do to u; returns (code, sweeps, solves, residual).

    Args:
        contacts: ScaledContacts.
        friction: coefficients mu, (C,); infinity sticks, what is not positive slides freely.
        bias: b, added to the normal velocity [m/s], (C,): separation over period to let a gap close, 0 to stop.
        u: in, the free scaled velocity, external forces included; out, u + W^T p, (nv,).
        p: in, where to start; out, impulses (normal, tangents) [N s], (C, 3). Zeros will do; impulses of the last
            step save sweeps, and a solution is given back as it is.
        memory: GaussSeidelMemory.
        tolerance: largest residual to accept [m/s], see _visit.
        max_sweeps: sweeps after which to give up.

    Returns:
        code: SOLVED, or NOT_CONVERGED with the best found, reduced to where it adds no energy.
        sweeps: number of sweeps done, 0 if p was a solution.
        solves: number of systems solved for all contacts at once.
        residual: largest of the result [m/s].
    """
    V, block, x, u_free, best = memory.V, memory.block, memory.p, memory.u_free, memory.best
    tree, start, size = contacts.tree, contacts.start, contacts.size
    for k in range(u.shape[0]):
        u_free[k] = u[k]
    _prepare(n, contacts, friction, bias, p, V, block, x)
    _velocity(n, tree, start, size, V, block, u_free, x, u)
    residual = _residual(n, tree, start, size, V, block, u, x)
    sweeps = solves = dimension = tries = rest = 0
    least = math.inf
    softness = _SOFTEST
    next_jump = _FIRST_JUMP
    while residual > tolerance and sweeps < max_sweeps:  # not for NaN
        _sweep(n, tree, start, size, V, block, u, x, False)
        residual = _sweep(n, tree, start, size, V, block, u, x, True)
        sweeps += 2
        if residual <= tolerance:  # of each contact when it was visited; now of all at once
            residual = _residual(n, tree, start, size, V, block, u, x)
            if residual <= tolerance:
                break
        if sweeps < next_jump:
            continue
        merit = _merit(n, tree, start, size, V, block, u, x)
        if merit < least:
            if least < math.inf:
                softness = max(0.1 * softness, _HARDEST)
            least = merit
            tries = 0
            _copy(n, x, best)
        elif tries >= _TRIES:
            _copy(n, best, x)
            _velocity(n, tree, start, size, V, block, u_free, x, u)
            rest = min(max(2 * rest, 8), _LONGEST_REST)
            next_jump = sweeps + rest
            least = math.inf
            softness = _SOFTEST
            continue
        else:
            softness = min(2.0 * softness, _SOFTEST)
        if solves == 0:
            dimension = _order(n, tree, start, size, block, memory.place, memory.envelope)
        tries += 1
        solves += _jump(n, tree, start, size, V, block, u, memory, dimension, softness)
    if not residual <= tolerance and least < math.inf:
        _velocity(n, tree, start, size, V, block, u_free, x, u)
        if not _merit(n, tree, start, size, V, block, u, x) <= least:
            _copy(n, best, x)
    _velocity(n, tree, start, size, V, block, u_free, x, u)
    part = _passive_part(n, block, u_free, u, x)
    if part < 1.0:
        for i in range(n):
            for d in range(3):
                x[i, d] = part * x[i, d] if part > 0.0 else 0.0  # not finite, part is 0
        _velocity(n, tree, start, size, V, block, u_free, x, u)
    residual = _residual(n, tree, start, size, V, block, u, x)
    for i in range(n):
        cos, sin = block[i, _COS], block[i, _SIN]
        p[i, 0] = x[i, 0]
        p[i, 1], p[i, 2] = cos * x[i, 1] - sin * x[i, 2], sin * x[i, 1] + cos * x[i, 2]
    return (SOLVED if residual <= tolerance else NOT_CONVERGED), sweeps, solves, residual
