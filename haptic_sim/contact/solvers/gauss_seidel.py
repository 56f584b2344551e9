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

import numpy as np

from haptic_sim.contact.solvers.outcomes import NOT_CONVERGED, SOLVED
from haptic_sim.dynamics.scaled import coupling
from haptic_sim.kernels import kernel
from haptic_sim.records import array, numbers, record

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


BLOCK = numbers(
    *("A_nn", "inverse_nn"),  # normal mobility, and 1 / A_nn, 0 where there is none
    *("a_1", "a_2"),  # coupling of the normal with the turned tangents
    *("s_1", "s_2", "inverse_1", "inverse_2"),  # mobilities of the tangents with c_n held, and their inverses
    *("mu", "rate"),  # coefficient of friction, and inverse of the mobility of the tangents
    *("cos", "sin"),  # turn of the tangents
    *("c_n", "c_1", "c_2"),  # velocity that is not due to u, bias included
)
"""Values that `_prepare` finds of a contact."""


@record
class GaussSeidelMemory(NamedTuple):
    """Memory of `gauss_seidel`."""

    V: np.ndarray = array("rows of W with turned tangents: a visit reads what lies together", "contacts", 2, "width", 3)
    block: np.ndarray = array("mobility, friction and velocity of each contact", "contacts", dtype=BLOCK)
    p: np.ndarray = array("impulses along normal and turned tangents", "contacts", 3, unit="N s")
    u_free: np.ndarray = array("scaled velocity without the impulses", "nv", unit="kg^1/2 m/s")
    before: np.ndarray = array("impulses before a step for all contacts", "contacts", 3, unit="N s")
    target: np.ndarray = array("impulses after the whole step", "contacts", 3, unit="N s")
    winner: np.ndarray = array("impulses after the best part of the step", "contacts", 3, unit="N s")
    best: np.ndarray = array("impulses with the least residual so far", "contacts", 3, unit="N s")
    place: np.ndarray = array("first row of each tree in the system, -1 without contacts", "trees", dtype=np.int64)
    degree: np.ndarray = array("number of contacts of each tree", "trees", dtype=np.int64)
    queue: np.ndarray = array("trees in the order of their places", "trees", dtype=np.int64)
    envelope: np.ndarray = array("first column of each row of the system", "nv", dtype=np.int64)
    L: np.ndarray = array("lower part of the system 1 + V^T H V, and its factor", "nv", "nv")
    U: np.ndarray = array("upper part of the system, transposed, and its factor", "nv", "nv")
    x: np.ndarray = array("change of velocity by the step", "nv")
    H: np.ndarray = array("symmetric compliance nn, n1, n2, 11, 12, 22 in dp = e - H dc", "contacts", 6)
    e: np.ndarray = array("constant part of dp", "contacts", 3, unit="N s")


@kernel
def _prepare(n, contacts, friction, bias, p_in, memory):
    """Turn the tangents of each contact to its principal axes and fill V, block and p with what visits need.

    With S = A_tt - A_tn A_nt / A_nn = R diag(s) R^T the block is A_nn, a = R^T A_tn and s. A proximal term is added
    to s: the law of a contact is solved with (S + eps) and q - eps p_old, which leaves every solution what it is
    and keeps tangents without mobility (planar worlds) from being divided by zero: they keep their impulse.
    """
    V, block, p = memory.V, memory.block, memory.p
    largest = 0.0
    for i in range(n):
        block[i].A_nn = coupling(contacts, i, 0, i, 0)
        largest = max(largest, block[i].A_nn)
    for i in range(n):
        A_nn = block[i].A_nn
        A_n1, A_n2, A_11, A_12, A_22 = _own_couplings(contacts, i)
        trace = A_nn + A_11 + A_22
        p[i, 0] = p[i, 1] = p[i, 2] = 0.0
        b = block[i]
        b.inverse_nn = 0.0
        if not (A_nn > _IMMOBILE * largest and trace < math.inf):
            continue
        g = 1.0 / A_nn
        S_11, S_22, S_12 = A_11 - g * A_n1 * A_n1, A_22 - g * A_n2 * A_n2, A_12 - g * A_n1 * A_n2
        mean = 0.5 * (S_11 + S_22)
        half, angle, cos, sin = 0.5 * abs(S_11 - S_22), 0.0, 1.0, 0.0
        if S_12 != 0.0:
            half = math.hypot(half, S_12)
            angle = 0.5 * math.atan2(2.0 * S_12, S_11 - S_22)
            cos, sin = math.cos(angle), math.sin(angle)
        if angle == 0.0 and S_11 < S_22:
            half = -half
        eps = _PROXIMAL * trace
        s_1, s_2 = max(mean + half, 0.0) + eps, max(mean - half, 0.0) + eps
        b.inverse_nn = g
        b.a_1, b.a_2 = cos * A_n1 + sin * A_n2, cos * A_n2 - sin * A_n1
        b.s_1, b.s_2, b.inverse_1, b.inverse_2 = s_1, s_2, 1.0 / s_1, 1.0 / s_2
        b.mu = min(friction[i], _LARGEST_FRICTION) if friction[i] > 0.0 else 0.0
        b.rate = 1.0 / (A_11 + A_22) if eps < A_11 + A_22 else g
        b.cos, b.sin = cos, sin
        o = contacts.offset
        b.c_n = o[i, 0] + bias[i]
        b.c_1, b.c_2 = cos * o[i, 1] + sin * o[i, 2], cos * o[i, 2] - sin * o[i, 1]
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
            _into_cone(b.mu, p, i)


@kernel
def _own_couplings(contacts, i):
    """Entries n1, n2, 11, 12, 22 of W_i W_i^T: the bits of `coupling`, in one pass."""
    W, tree, size = contacts.W, contacts.tree, contacts.size
    A_n1 = A_n2 = A_11 = A_12 = A_22 = 0.0
    for a in range(2):
        t = tree[i, a]
        if t >= 0:
            for b in range(2):
                if tree[i, b] == t:
                    for k in range(size[t]):
                        w_n, w_1, w_2 = W[i, 0, a, k], W[i, 1, a, k], W[i, 2, a, k]
                        y_1, y_2 = W[i, 1, b, k], W[i, 2, b, k]
                        A_n1 += w_n * y_1
                        A_n2 += w_n * y_2
                        A_11 += w_1 * y_1
                        A_12 += w_1 * y_2
                        A_22 += w_2 * y_2
    return A_n1, A_n2, A_11, A_12, A_22


@kernel
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


@kernel
def _slide(b, q_n, r_1, r_2):
    """Impulse (n, 1, 2) of a contact that slides: the root alpha of h = mu p_n / |p_t| - 1.

    With the block b of the contact, p_t = -r / (s + alpha) and p_n = -(q_n + a . p_t) / A_nn. For s_1 = s_2, h is
    linear in alpha and the first step of Newton's method is exact, with normal and tangent coupled or not; otherwise it
    starts there, between brackets.
    """
    g, mu = b.inverse_nn, b.mu
    a_1, a_2, s_1, s_2 = b.a_1, b.a_2, b.s_1, b.s_2
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


@kernel(inline="always")
def _visit(i, tree, start, size, V, block, u, p, change):
    """Residual of contact i [m/s]; with `change`, solve its law as well and update p and u.

    The residual is the map of Alart and Curnier (1991) divided by the mobility: 0 exactly where the true law holds,
    without the dilation mu |c_t| of other maps, so that it means the same for large mu.
    """
    b = block[i]
    g = b.inverse_nn
    if g == 0.0:
        return 0.0
    c_n = b.c_n
    p_n, p_1, p_2 = p[i, 0], p[i, 1], p[i, 2]
    c_1, c_2 = b.c_1, b.c_2
    for side in range(2):
        t = tree[i, side]
        if t >= 0:
            if size[t] == 6:  # the compiler unrolls the loop
                c_n, c_1, c_2 = _add_velocity(V, i, side, 6, start[t], u, c_n, c_1, c_2)
            else:
                c_n, c_1, c_2 = _add_velocity(V, i, side, size[t], start[t], u, c_n, c_1, c_2)
    if p_n == 0.0 and c_n >= 0.0:
        return 0.0
    mu = b.mu
    residual = abs(c_n) if p_n > g * c_n else p_n / g
    rate = b.rate
    y_1, y_2 = p_1 - rate * c_1, p_2 - rate * c_2
    length = math.sqrt(y_1 * y_1 + y_2 * y_2)
    part = mu * p_n / length if length > mu * p_n else 1.0
    y_1, y_2 = p_1 - part * y_1, p_2 - part * y_2
    residual = max(residual, math.sqrt(y_1 * y_1 + y_2 * y_2) / rate)
    if not change:
        return residual
    a_1, a_2 = b.a_1, b.a_2
    q_n = c_n - b.A_nn * p_n - a_1 * p_1 - a_2 * p_2
    x_n, x_1, x_2 = 0.0, 0.0, 0.0
    if q_n < 0.0:
        if mu > 0.0:
            d_1, d_2 = c_1 - a_1 * g * c_n, c_2 - a_2 * g * c_n
            x_1, x_2 = p_1 - d_1 * b.inverse_1, p_2 - d_2 * b.inverse_2
        x_n = -g * (q_n + a_1 * x_1 + a_2 * x_2)
        if not math.sqrt(x_1 * x_1 + x_2 * x_2) <= mu * x_n:
            x_n, x_1, x_2 = _slide(b, q_n, -b.s_1 * x_1, -b.s_2 * x_2)
    p[i, 0], p[i, 1], p[i, 2] = x_n, x_1, x_2
    x_n, x_1, x_2 = x_n - p_n, x_1 - p_1, x_2 - p_2
    for side in range(2):
        t = tree[i, side]
        if t >= 0:
            if size[t] == 6:
                _add_impulse(V, i, side, 6, start[t], x_n, x_1, x_2, u)
            else:
                _add_impulse(V, i, side, size[t], start[t], x_n, x_1, x_2, u)
    return residual


@kernel(inline="always")
def _add_velocity(V, i, side, size, first, u, c_n, c_1, c_2):
    """Velocity of contact i with that of a side."""
    for k in range(size):
        x = u[first + k]
        c_n += V[i, side, k, 0] * x
        c_1 += V[i, side, k, 1] * x
        c_2 += V[i, side, k, 2] * x
    return c_n, c_1, c_2


@kernel(inline="always")
def _add_impulse(V, i, side, size, first, p_n, p_1, p_2, u):
    """Change u by an impulse at a side of contact i."""
    for k in range(size):
        u[first + k] += V[i, side, k, 0] * p_n + V[i, side, k, 1] * p_1 + V[i, side, k, 2] * p_2


@kernel
def _residual(n, contacts, memory, u):
    """Largest residual of the contacts [m/s]."""
    V, block, p = memory.V, memory.block, memory.p
    tree, start, size = contacts.tree, contacts.start, contacts.size
    worst = 0.0
    for i in range(n):
        r = _visit(i, tree, start, size, V, block, u, p, False)
        if r > worst or math.isnan(r):
            worst = r
    return worst


@kernel
def _merit(n, contacts, memory, u):
    """Sum of the squares of the residuals, each with the mass that the contact feels."""
    V, block, p = memory.V, memory.block, memory.p
    tree, start, size = contacts.tree, contacts.start, contacts.size
    total = 0.0
    for i in range(n):
        r = _visit(i, tree, start, size, V, block, u, p, False)
        total += r * r * block[i].inverse_nn
    return total


@kernel
def _sweep(n, contacts, memory, u, backwards):
    """Solve the law of each contact in turn; returns the largest residual, of each when it was visited [m/s]."""
    V, block, p = memory.V, memory.block, memory.p
    tree, start, size = contacts.tree, contacts.start, contacts.size
    worst = 0.0
    for k in range(n):
        i = n - 1 - k if backwards else k
        r = _visit(i, tree, start, size, V, block, u, p, True)
        if r > worst or math.isnan(r):
            worst = r
    return worst


@kernel
def _velocity(n, contacts, memory, u):
    """Fill u with u_free + W^T p."""
    V, p, u_free = memory.V, memory.p, memory.u_free
    tree, start, size = contacts.tree, contacts.start, contacts.size
    for k in range(u.shape[0]):
        u[k] = u_free[k]
    for i in range(n):
        p_n, p_1, p_2 = p[i, 0], p[i, 1], p[i, 2]
        if p_n != 0.0:
            for side in range(2):
                t = tree[i, side]
                if t >= 0:
                    if size[t] == 6:
                        _add_impulse(V, i, side, 6, start[t], p_n, p_1, p_2, u)
                    else:
                        _add_impulse(V, i, side, size[t], start[t], p_n, p_1, p_2, u)


@kernel
def _order(n, contacts, memory):
    """Place the trees so that those in contact are near each other: Cuthill and McKee (1969), breadth first.

    Fills place and envelope; returns the number of coordinates.
    """
    place, degree, queue, envelope = memory.place, memory.degree, memory.queue, memory.envelope
    tree, start, size = contacts.tree, contacts.start, contacts.size
    trees = start.shape[0]
    for t in range(trees):
        place[t] = -1
        degree[t] = 0
    for i in range(n):
        if memory.block[i].inverse_nn > 0.0:
            for side in range(2):
                if tree[i, side] >= 0:
                    degree[tree[i, side]] += 1
    total = 0
    head = tail = 0
    while True:
        if head == tail:
            fewest = -1
            for t in range(trees):
                if place[t] < 0 and degree[t] > 0 and (fewest < 0 or degree[t] < degree[fewest]):
                    fewest = t
            if fewest < 0:
                return total
            queue[tail] = fewest
            tail += 1
            place[fewest] = total
            for k in range(size[fewest]):
                envelope[total + k] = total
            total += size[fewest]
        t = queue[head]
        head += 1
        for i in range(n):
            if memory.block[i].inverse_nn > 0.0:
                for side in range(2):
                    other = tree[i, 1 - side]
                    if tree[i, side] == t and other >= 0 and place[other] < 0:
                        queue[tail] = other
                        tail += 1
                        place[other] = total
                        for k in range(size[other]):
                            envelope[total + k] = place[t]
                        total += size[other]


@kernel(fastmath={"reassoc", "contract"})
def _envelope_factor(L, U, envelope, n):
    """Factor the system, given by L and U, into L (1 + U), in place and without pivoting, inside its envelope.

    U[i, j] is entry (j, i) of the upper part. False where a pivot is not positive.
    """
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


@kernel(fastmath={"reassoc", "contract"})
def _envelope_solve(L, U, envelope, n, x):
    """Solve in place with the factors."""
    for i in range(n):
        s = x[i]
        for k in range(envelope[i], i):
            s -= L[i, k] * x[k]
        x[i] = s * L[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(envelope[i], i):
            x[k] -= U[i, k] * x[i]


@kernel
def _solve_together(n, contacts, memory, u, dimension, secant, softness):
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
    V, block, p, place, envelope = memory.V, memory.block, memory.p, memory.place, memory.envelope
    L, U, x, H, e = memory.L, memory.U, memory.x, memory.H, memory.e
    tree, start, size = contacts.tree, contacts.start, contacts.size
    for k in range(dimension):
        for j in range(envelope[k], k):
            L[k, j] = U[k, j] = 0.0
        L[k, k] = 1.0
        x[k] = 0.0
    for i in range(n):
        if not p[i, 0] > 0.0:
            continue
        b = block[i]
        c_n, c_1, c_2 = b.c_n, b.c_1, b.c_2
        for side in range(2):
            t = tree[i, side]
            if t >= 0:
                first = start[t]
                for k in range(size[t]):
                    y = u[first + k]
                    c_n += V[i, side, k, 0] * y
                    c_1 += V[i, side, k, 1] * y
                    c_2 += V[i, side, k, 2] * y
        stiff = 1.0 / (softness * b.A_nn)
        limit = b.mu * p[i, 0]
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
            H_1n, H_2n = b.mu * d_1 * stiff, b.mu * d_2 * stiff
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
                row = place[a] + k
                x[row] += v_n * e[i, 0] + v_1 * e[i, 1] + v_2 * e[i, 2]
                h_n, h_1, h_2 = v_n * H_nn + v_1 * H_1n + v_2 * H_2n, v_1 * H_11 + v_2 * H_12, v_1 * H_12 + v_2 * H_22
                g_n, g_1, g_2 = v_n * H_nn, v_n * H_1n + h_1, v_n * H_2n + h_2
                for other in range(2):
                    t = tree[i, other]
                    if t < 0 or place[t] > place[a]:
                        continue
                    column = place[t]
                    for j in range(k + 1 if a == t else size[t]):
                        w_n, w_1, w_2 = V[i, other, j, 0], V[i, other, j, 1], V[i, other, j, 2]
                        L[row, column + j] += h_n * w_n + h_1 * w_1 + h_2 * w_2
                        if row > column + j:
                            U[row, column + j] += g_n * w_n + g_1 * w_1 + g_2 * w_2
    if not _envelope_factor(L, U, envelope, dimension):
        return False
    _envelope_solve(L, U, envelope, dimension, x)
    for i in range(n):
        if p[i, 0] > 0.0:
            c_n = c_1 = c_2 = 0.0
            for side in range(2):
                t = tree[i, side]
                if t >= 0:
                    first = place[t]
                    for k in range(size[t]):
                        y = x[first + k]
                        c_n += V[i, side, k, 0] * y
                        c_1 += V[i, side, k, 1] * y
                        c_2 += V[i, side, k, 2] * y
            p[i, 0] += e[i, 0] - H[i, 0] * c_n
            p[i, 1] += e[i, 1] - H[i, 1] * c_n - H[i, 3] * c_1 - H[i, 4] * c_2
            p[i, 2] += e[i, 2] - H[i, 2] * c_n - H[i, 4] * c_1 - H[i, 5] * c_2
            _into_cone(block[i].mu, p, i)
    return True


@kernel
def _copy(n, source, target):
    for i in range(n):
        for d in range(3):
            target[i, d] = source[i, d]


@kernel
def _jump(n, contacts, memory, u, dimension, softness):
    """Step for all contacts at once, of the kind and length that bring the residual down most; returns systems solved.

    It may leave the residual larger, for a while: cutting it shorter than a half would slow down finding the sets.
    """
    p, before, target, winner = memory.p, memory.before, memory.target, memory.winner
    _copy(n, p, before)
    _copy(n, p, winner)
    enough = 0.5 * _merit(n, contacts, memory, u)
    least = math.inf
    solves = 0
    for secant in (True, False):
        if solves > 0:
            _copy(n, before, p)
            _velocity(n, contacts, memory, u)
        solves += 1
        if not _solve_together(n, contacts, memory, u, dimension, secant, softness):
            continue
        _copy(n, p, target)
        for part in (1.0, 0.5):
            for i in range(n):
                for d in range(3):
                    p[i, d] = before[i, d] + part * (target[i, d] - before[i, d])
            _velocity(n, contacts, memory, u)
            merit = _merit(n, contacts, memory, u)
            if merit < least:
                least = merit
                _copy(n, p, winner)
            if least <= enough:
                break
        if least <= enough:
            break
    _copy(n, winner, p)
    _velocity(n, contacts, memory, u)
    return solves


@kernel
def _passive_part(n, memory, u):
    """Part of p, in [0, 1], with which the contacts add no energy: 1 unless p is not converged.

    The part s does the work s p . c + 1/2 s^2 |W^T p|^2 with c the velocity before, offset and bias included. At a
    solution p . (c + A p) <= 0, so s = 1 takes energy. Where it would add some, the s that takes most is
    -p . c / |W^T p|^2, or 0.
    """
    block, u_free, p = memory.block, memory.u_free, memory.p
    work = 0.0
    square = 0.0
    for k in range(u.shape[0]):
        d = u[k] - u_free[k]
        square += d * d
        work += d * u_free[k]
    for i in range(n):
        b = block[i]
        work += b.c_n * p[i, 0] + b.c_1 * p[i, 1] + b.c_2 * p[i, 2]
    if work + 0.5 * square <= 0.0:
        return 1.0
    return min(-work / square, 1.0) if work < 0.0 and square > 0.0 else 0.0


@kernel
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
    x, u_free, best = memory.p, memory.u_free, memory.best
    for k in range(u.shape[0]):
        u_free[k] = u[k]
    _prepare(n, contacts, friction, bias, p, memory)
    _velocity(n, contacts, memory, u)
    residual = _residual(n, contacts, memory, u)
    sweeps = solves = dimension = tries = rest = 0
    least = math.inf
    softness = _SOFTEST
    next_jump = _FIRST_JUMP
    while residual > tolerance and sweeps < max_sweeps:  # not for NaN
        _sweep(n, contacts, memory, u, False)
        residual = _sweep(n, contacts, memory, u, True)
        sweeps += 2
        if residual <= tolerance:  # of each contact when it was visited; now of all at once
            residual = _residual(n, contacts, memory, u)
            if residual <= tolerance:
                break
        if sweeps < next_jump:
            continue
        merit = _merit(n, contacts, memory, u)
        if merit < least:
            if least < math.inf:
                softness = max(0.1 * softness, _HARDEST)
            least = merit
            tries = 0
            _copy(n, x, best)
        elif tries >= _TRIES:
            _copy(n, best, x)
            _velocity(n, contacts, memory, u)
            rest = min(max(2 * rest, 8), _LONGEST_REST)
            next_jump = sweeps + rest
            least = math.inf
            softness = _SOFTEST
            continue
        else:
            softness = min(2.0 * softness, _SOFTEST)
        if solves == 0:
            dimension = _order(n, contacts, memory)
        tries += 1
        solves += _jump(n, contacts, memory, u, dimension, softness)
    if not residual <= tolerance and least < math.inf:
        _velocity(n, contacts, memory, u)
        if not _merit(n, contacts, memory, u) <= least:
            _copy(n, best, x)
    if sweeps > 0:
        _velocity(n, contacts, memory, u)
    part = _passive_part(n, memory, u)
    if part < 1.0:
        for i in range(n):
            for d in range(3):
                x[i, d] = part * x[i, d] if part > 0.0 else 0.0  # not finite, part is 0
        _velocity(n, contacts, memory, u)
    if sweeps > 0 or part < 1.0:  # else nothing has changed since it was computed
        residual = _residual(n, contacts, memory, u)
    for i in range(n):
        cos, sin = memory.block[i].cos, memory.block[i].sin
        p[i, 0] = x[i, 0]
        p[i, 1], p[i, 2] = cos * x[i, 1] - sin * x[i, 2], sin * x[i, 1] + cos * x[i, 2]
    return (SOLVED if residual <= tolerance else NOT_CONVERGED), sweeps, solves, residual
