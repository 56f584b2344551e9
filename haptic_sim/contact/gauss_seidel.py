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

If sweeps alone are slow, as in tall stacks, their iterates are extrapolated (Anderson 1965, safeguarded: an
extrapolation that does not bring the residual down is dropped).

Guarantees, converged or not: p lies in the cones, u = u_free + W^T p, both are finite if the input is, and contacts
add no energy: the work p . (offset + b n + W (u_free + u) / 2) <= 0. So with offset = 0 and b >= 0 the kinetic energy
1/2 |u|^2 does not rise. The cost of a sweep is linear in the contacts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np

from .impulses import cholesky, cholesky_solve
from .scaled import ScaledContacts, coupling

SOLVED, NOT_CONVERGED = 0, 1

TOLERANCE = 1e-9  # [m/s]
MAX_SWEEPS = 500

_IMMOBILE = 1e-20  # a contact whose A_nn is below this part of the largest has no mobility of its own
_PROXIMAL = 1e-10  # relative to the trace of A, see _prepare
_LARGEST_FRICTION = 1e9  # stands for all larger ones, infinity included
_FIRST_EXTRAPOLATION = 6  # sweeps; what converges by then needs none
_DEPTH = 6  # iterates that an extrapolation uses
_REGULAR = 1e-12
DEBUG = False
_DELTA = 1e-6
_LEAST_PIVOT = 1e-3
FIRST = 6
GAIN = 1.0
BURST = 10


class GaussSeidelMemory(NamedTuple):
    """Preallocated memory of `gauss_seidel` for C contacts, nv coordinates, and trees up to w wide.

    Attributes:
        V: rows of W with turned tangents, (C, 2, w, 3): what a visit reads lies together.
        block: what _prepare finds of each contact, (C, 15).
        p: impulses along the turned axes, (C, 3).
        u_free: (nv,).
        before: impulses before a pair of sweeps, (C, 3).
        history, step: the impulses after them and the difference, of the last pairs, (_DEPTH, C, 3).
        gram, weight: products of the steps and their Cholesky factor, (2, _DEPTH, _DEPTH); (_DEPTH,).
    """

    V: np.ndarray
    block: np.ndarray
    p: np.ndarray
    u_free: np.ndarray
    before: np.ndarray
    saved: np.ndarray
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
            np.zeros((3, len(contacts.size)), np.int64),
            np.zeros(nv, np.int64),
            np.zeros((2, nv, nv)),
            np.zeros(nv),
            np.zeros((capacity, 6)),
            np.zeros((capacity, 3)),
        )


# Columns of `block`
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
        block[i, _RATE] = 1.0 / (A_11 + A_22) if A_11 + A_22 > eps else g
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
        if not r <= worst:
            worst = r
    return worst


@numba.njit(cache=True, nogil=True)
def _sweep(n, tree, start, size, V, block, u, p, backwards):
    worst = 0.0
    for a in range(n):
        i = n - 1 - a if backwards else a
        r = _visit(i, tree, start, size, V, block, u, p, True)
        if not r <= worst:
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

    Fills place[t] with the first coordinate of tree t in that order, and envelope[k] with the first column of row k of
    a matrix that couples trees in contact; returns the number of coordinates.
    """
    trees = start.shape[0]
    for t in range(trees):
        place[0, t] = -1  # coordinates before it
        place[1, t] = 0  # contacts, then the queue
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
def _newton(n, tree, start, size, V, block, u, p, place, envelope, K, x, H, e, dimension):
    """One step of Newton's method on the laws of all pushing contacts at once, with the sets that stick and slide.

    Sticking: c + delta dp = -dc, sliding: c_n + delta dp_n = -dc_n and p_t = -mu p_n c_t / |c_t| to first order, so
        dp = e - H dc,    du = V^T dp,    (1 + V^T H V) du = V^T e.
    delta is a proximal term, with which contacts that depend on each other do no harm. The matrix is of the size of
    the coordinates and as sparse as the trees that touch. Returns False if it could not be factored.
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
        stiff = 1.0 / (_DELTA * block[i, _ANN])
        limit = block[i, _MU] * p[i, 0]
        H_1n = H_2n = H_12 = 0.0
        H_nn = H_11 = H_22 = stiff
        e[i, 0] = -stiff * c_n
        if math.sqrt(p[i, 1] * p[i, 1] + p[i, 2] * p[i, 2]) < limit * (1.0 - 1e-12):
            e[i, 1], e[i, 2] = -stiff * c_1, -stiff * c_2
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
def _distance(n, block, p, q):
    """Square of q - p in the measure of the energy."""
    s = 0.0
    for i in range(n):
        for d in range(3):
            s += block[i, _ANN] * (q[i, d] - p[i, d]) ** 2
    return s


@numba.njit(cache=True, nogil=True)
def _copy(n, source, target):
    for i in range(n):
        for d in range(3):
            target[i, d] = source[i, d]


@numba.njit(cache=True, nogil=True)
def _passive_part(n, tree, start, size, V, block, u_free, u, p):
    """Part of p, in [0, 1], with which the contacts add no energy: 1 unless p is not converged.

    The part s does the work s p . c + 1/2 s^2 |W^T p|^2 with c the velocity before, offset and bias included. It is
    convex in s; where s = 1 adds energy, the s that takes most is -p . c / |W^T p|^2, or 0.
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
    """Find the impulses p[:n] of n contacts and add what they do to u; returns (code, sweeps, residual).

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
        code: SOLVED, or NOT_CONVERGED with the last iterate, reduced to where it adds no energy.
        sweeps: number of sweeps done, 0 if p was a solution.
        residual: of the result [m/s].
    """
    V, block, x, u_free = memory.V, memory.block, memory.p, memory.u_free
    before = memory.before
    tree, start, size = contacts.tree, contacts.start, contacts.size
    for k in range(u.shape[0]):
        u_free[k] = u[k]
    _prepare(n, contacts, friction, bias, p, V, block, x)
    _velocity(n, tree, start, size, V, block, u_free, x, u)
    residual = _residual(n, tree, start, size, V, block, u, x)
    sweeps = 0
    solves = dimension = 0
    wait, patience, least, tries, saved = FIRST, FIRST, math.inf, 0, memory.saved
    while not residual <= tolerance and sweeps < max_sweeps:
        _copy(n, x, before)
        _sweep(n, tree, start, size, V, block, u, x, False)
        residual = _sweep(n, tree, start, size, V, block, u, x, True)
        sweeps += 2
        if residual <= tolerance:
            residual = _residual(n, tree, start, size, V, block, u, x)
            if residual <= tolerance:
                break
        if sweeps < wait:
            continue
        square = residual
        if square < GAIN * least:
            least = square
            tries = 0
            _copy(n, x, saved)
        elif tries >= BURST:
            if DEBUG: print(sweeps, solves, residual, square, least, "REVERT")
            _copy(n, saved, x)
            _velocity(n, tree, start, size, V, block, u_free, x, u)
            patience = min(2 * patience, 64)
            wait = sweeps + patience
            least = math.inf
            continue
        if solves == 0:
            dimension = _order(n, tree, start, size, block, memory.place, memory.envelope)
        tries += 1
        solves += 1
        if _newton(n, tree, start, size, V, block, u, x, memory.place, memory.envelope, memory.K, memory.x, memory.H, memory.e, dimension):
            _velocity(n, tree, start, size, V, block, u_free, x, u)
        else:
            if DEBUG: print("FAILED")
            tries = BURST
        if DEBUG: print(sweeps, solves, tries, residual, _distance(n, block, before, x), _residual(n, tree, start, size, V, block, u, x))
    _velocity(n, tree, start, size, V, block, u_free, x, u)
    part = _passive_part(n, tree, start, size, V, block, u_free, u, x)
    if part < 1.0:
        for i in range(n):
            for d in range(3):
                x[i, d] *= part
        _velocity(n, tree, start, size, V, block, u_free, x, u)
        residual = _residual(n, tree, start, size, V, block, u, x)
    elif not residual <= tolerance:
        residual = _residual(n, tree, start, size, V, block, u, x)
    for i in range(n):
        cos, sin = block[i, _COS], block[i, _SIN]
        p[i, 0] = x[i, 0]
        p[i, 1], p[i, 2] = cos * x[i, 1] - sin * x[i, 2], sin * x[i, 1] + cos * x[i, 2]
    return (SOLVED if residual <= tolerance else NOT_CONVERGED), sweeps, solves, residual
