"""Springs and dampers of penalties over a step: explicit where that is stable, else partly implicit.

With the scaled velocity u (kinetic energy 1/2 |u|^2), normal rows W, normal velocities v = W u before the step and
v' after it, separations s < 0, and for each contact a spring k, a damper b and the period h:

**Explicit** (THESIS 4.5): p = max(0, -h (k s + b v)). The part of the dampers d = -h b v alone changes the kinetic
energy by d.v + 1/2 |W^T d|^2, which is negative where the Rayleigh quotient of h b W W^T in the present velocities is
at most 2. The springs have their own limit, and springs and dampers together a common one. Centred in time the step is
a leapfrog,
    (1 - h/2 W^T b W) (u' - u) = -h W^T (k s + b W (u + u') / 2),
which conserves, up to what the dampers take, an energy that is positive definite while
    1 - h/2 W^T b W - h^2/4 W^T k W > 0:
for one mode with x = h b a and y = h^2 k a, that is 2 x + y < 4, which is the stability limit of the map too. So the
quotient of a group, with g = h (b + h k / 2) v over its contacts,
    ratio = |W^T g|^2 / g.v,
is at most 2 where the step is stable for any velocities. It is computed from the group's present velocities. So no
overestimated bound of an eigenvalue makes a stable step implicit, and the cost is that of applying impulses.

**Limit.** Up to STABLE = 2 the step is explicit. Which step springs that begin without a force take is decided by the
energy that it adds, see `haptic_sim.contact.passivity`.

**Beyond** the part 1 - theta = STABLE / ratio of the damping stays explicit and the rest is implicit,
with the springs' force at the end of the step in the same proportion:
    p = max(0, p0 - h c v'),   p0 = -h k s - (1 - theta) h b v,   c = theta (b + h k).
At the limit this is the explicit step, so that the law is continuous. One mode is multiplied by
-1 / (x - 1), which tends to 0 as the damping grows: a contact too stiff for the rate stops a body without a rebound.
For a contact that the explicit law releases (p = 0, where its damper would pull) the damper is reduced until it cancels
the spring: p0 = -theta h k s.

**Energy.** The explicit part (1 - theta) d takes energy from u by itself, because (1 - theta) ratio <= 2. After it and
all other forces, springs and implicit part change 1/2 |u|^2 + sum 1/2 k s^2, on straight paths, by at most
    (1/2 - theta) h^2 sum k v'^2,
as a contact that pushes does p.v' - 1/2 p.A.p of work and its spring takes h k s v' + 1/2 h^2 k v'^2, and one that
does not push stretches no spring. A contact that begins between two steps brings up to 1/2 k (h v')^2. So a step adds
no more than **1/2 h^2 sum k v'^2**, the energy of springs as long as the step's motion; from theta = 1/2 on contacts
that last add nothing at all. With h^2 k a <= 1 (a the largest eigenvalue of W W^T) that is at most the present kinetic
energy.

**Laws of joints** (limits of position and speed, dry friction, `haptic_sim.dynamics.joints`) take part in the implicit
problem. A link of grams that rests at its stop would otherwise resist a contact with its own inertia alone, while the
springs store what the bodies behind it bring. The law of a joint with velocity v_j and row W_j is
    p_j in -d(F |v_j|) - N(v_j; low, high),
three rows of the same kind as a contact, p = min(max(least, p0 - c v'), most) with c -> infinity:

    stop at low     p0 = c low     least 0       most infinity
    stop at high    p0 = c high    least -inf    most 0
    friction        p0 = 0         least -F      most F

As 0 lies between low and high, p_j v_j' <= 0: these rows take energy as implicit penalties do, and the bound above
holds with them. What resists the row are its inertia 1 / |W_j|^2 and the penalties i that move with it, by
W_i.W_j / |W_j|^2 each: with
    c = RIGID (1 / |W_j|^2 + sum c_i (W_i.W_j)^2 / |W_j|^4)
the velocity differs from its bound by about the part 1 / RIGID of what the impulse changes. The method of multipliers
(Hestenes 1969) removes this: with the impulses p that were found, p0 + p in place of p0 leads to the bound but for
1 / RIGID of the error before.

The impulses are the only minimum of the strictly convex, piecewise quadratic
    f(u') = 1/2 |u' - u_free|^2 + sum phi(v'),   phi' = -min(max(least, p0 - c v'), most)
which Newton's method with an exact line search finds in a few steps, however many contacts depend on each other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haptic_sim.dynamics.scaled import apply_impulse
from haptic_sim.kernels import kernel
from haptic_sim.linalg import cholesky_within, solve_within
from haptic_sim.records import array, record

STABLE = 2.0  # limit of the ratio, up to which a step is explicit
RIGID = 1e7  # c of the law of a joint in terms of what resists it
_STEPS, _HALVINGS = 60, 50  # of Newton's method, of which some five are used, and of its line search
_SMALL = 1e-10  # part of the change of velocity by which a step of Newton's method may still change it


@record
class ImplicitPenalties(NamedTuple):
    """Problem and memory of `push_implicitly`."""

    v_free: np.ndarray = array("velocity along the row without these impulses", "rows", unit="m/s")
    p0: np.ndarray = array("impulse where v' is zero", "rows", unit="N s")
    c: np.ndarray = array("period times implicit damping, positive", "rows", unit="kg")
    least: np.ndarray = array("least impulse", "rows", unit="N s")
    most: np.ndarray = array("largest impulse", "rows", unit="N s", fill=np.inf)
    p: np.ndarray = array("impulse", "rows", unit="N s")
    v: np.ndarray = array("velocity v' with the impulses", "rows", unit="m/s")
    w: np.ndarray = array("change of v' by a step of Newton's method", "rows", unit="m/s")
    piece: np.ndarray = array(
        "0: the least impulse, 1: one between, 2: the largest, -1: unknown", "rows", dtype=np.int64
    )
    x: np.ndarray = array("change of the scaled velocity by the impulses", "nv", unit="kg^1/2 m/s")
    g: np.ndarray = array("gradient, and step of Newton's method", "nv", unit="kg^1/2 m/s")
    K: np.ndarray = array("Hessian and its factor", "nv", "nv")
    envelope: np.ndarray = array("first column of each row of K that is not zero", "nv", dtype=np.int64)
    begin: np.ndarray = array("first column of each row of W that is not zero", "rows", dtype=np.int64)
    end: np.ndarray = array("column after the last such one", "rows", dtype=np.int64)


@kernel
def find_ratios(count, contacts, gain, group_of, velocity, du, sums, limit):
    """Whether the ratio of some group is beyond `limit`; fills sums[0] with |W^T g|^2 and sums[1] with g.v of each.

    Args:
        contacts: `ScaledContacts` of the rows.
        gain: h (b + h k / 2) of contacts with a penalty [kg], else 0, (C,); of one that the explicit law lets go with b
            as large as just cancels its spring.
        group_of: group of each tree, (trees,) int64.
        velocity: of the contacts before the step, the normal one first, (C, 3).
        du: memory, (nv,).
        sums: (2, trees), filled at the groups.
    """
    for j in range(du.shape[0]):
        du[j] = 0.0
    for t in range(sums.shape[1]):
        sums[0, t] = sums[1, t] = 0.0
    for i in range(count):
        if gain[i] > 0.0:
            v = velocity[i, 0]
            side = 1 if contacts.tree[i, 1] >= 0 else 0
            if contacts.tree[i, side] >= 0:
                sums[1, group_of[contacts.tree[i, side]]] += gain[i] * v * v
                apply_impulse(contacts, i, 0, gain[i] * v, du)
    for t in range(contacts.size.shape[0]):
        s = 0.0
        for j in range(contacts.start[t], contacts.start[t] + contacts.size[t]):
            s += du[j] * du[j]
        sums[0, group_of[t]] += s
    beyond = False
    for t in range(sums.shape[1]):
        if sums[0, t] > limit * sums[1, t]:
            beyond = True
    return beyond


@kernel
def find_ratio_of(count, rows, p_WH, inverse_inertia, gain, velocity, sums, limit):
    """Check the ratio, as `find_ratios`, of contacts of one free body with fixed surroundings.

    With the wrench F of the impulses g at the hand, |W^T g|^2 = F . D^-1 F.

    Args:
        rows: `RowArrays`.
        p_WH: position of the hand (3,) [m].
        inverse_inertia: there, row major (36,).
    """
    points, normal = rows.point, rows.normal
    hx, hy, hz = p_WH[0], p_WH[1], p_WH[2]
    fx = fy = fz = tx = ty = tz = along = 0.0
    for i in range(count):
        g = gain[i] * velocity[i, 0]
        along += g * velocity[i, 0]
        x, y, z = points[i, 0] - hx, points[i, 1] - hy, points[i, 2] - hz
        gx, gy, gz = g * normal[i, 0], g * normal[i, 1], g * normal[i, 2]
        fx, fy, fz = fx + gx, fy + gy, fz + gz
        tx, ty, tz = tx + (y * gz - z * gy), ty + (z * gx - x * gz), tz + (x * gy - y * gx)
    F = (fx, fy, fz, tx, ty, tz)
    square = 0.0
    for i in range(6):
        s = 0.0
        for j in range(6):
            s += inverse_inertia[6 * i + j] * F[j]
        square += s * F[i]
    sums[0, 0], sums[1, 0] = square, along
    return square > limit * along


@kernel
def push_implicitly(n, laws, W, problem):
    """Fill problem.p[:n] with min(max(least, p0 - c v'), most), where v' = v_free + W W^T p.

    Args:
        n: number of rows; laws: how many of these, the last ones, are of laws of joints, which are rigid.
        W: the rows, (n, columns).
        problem: `ImplicitPenalties`, with v_free, p0, c, least and most.

    Returns:
        Whether Newton's method ended.
    """
    x, p0, p = problem.x, problem.p0, problem.p
    for j in range(W.shape[1]):
        x[j] = 0.0
    _find_envelope(n, W, problem.envelope, problem.begin, problem.end)
    ended = _minimise(n, W, problem)
    if laws > 0:
        for i in range(n - laws, n):
            p0[i] += p[i]
        ended = _minimise(n, W, problem) and ended
    return ended


@kernel
def _find_envelope(n, W, envelope, begin, end):
    """Fill `begin` and `end` with what of each row of W is not zero, and `envelope` with what of K can be."""
    columns = W.shape[1]
    for j in range(columns):
        envelope[j] = j
    for i in range(n):
        begin[i] = end[i] = 0
        for j in range(columns):
            if W[i, j] != 0.0:
                begin[i] = j if end[i] == 0 else begin[i]
                end[i] = j + 1
                envelope[j] = min(envelope[j], begin[i])


@kernel(inline="always")
def _law(raw, least, most):
    """The impulse of a row."""
    return min(max(least, raw), most)


@kernel
def _minimise(n, W, problem):
    """Minimise f by Newton's method from problem.x on; returns as `push_implicitly`."""
    v_free, p0, c, p, v, w = problem.v_free, problem.p0, problem.c, problem.p, problem.v, problem.w
    least, most, piece, x, g, K = problem.least, problem.most, problem.piece, problem.x, problem.g, problem.K
    envelope, begin, end = problem.envelope, problem.begin, problem.end
    columns = W.shape[1]
    for i in range(n):
        v[i] = v_free[i]
        for j in range(begin[i], end[i]):
            v[i] += W[i, j] * x[j]
        p[i] = _law(p0[i] - c[i] * v[i], least[i], most[i])
        piece[i] = -1
    for _ in range(_STEPS):
        same = True
        for j in range(columns):
            for k in range(envelope[j], j):
                K[j, k] = 0.0
            K[j, j] = 1.0
            g[j] = -x[j]
        for i in range(n):
            now = 0 if p[i] <= least[i] else 2 if p[i] >= most[i] else 1
            same = same and now == piece[i]
            piece[i] = now
            if p[i] != 0.0:
                for j in range(begin[i], end[i]):
                    if W[i, j] != 0.0:
                        g[j] += W[i, j] * p[i]
            if now == 1:
                for j in range(begin[i], end[i]):
                    if W[i, j] != 0.0:
                        row = c[i] * W[i, j]
                        for k in range(begin[i], j + 1):
                            K[j, k] += row * W[i, k]
        if same:  # the step before led to the minimum of this piece
            return True
        if not cholesky_within(K, envelope, columns):
            return False
        solve_within(K, envelope, columns, g)
        for i in range(n):
            s = 0.0
            for j in range(begin[i], end[i]):
                s += W[i, j] * g[j]
            w[i] = s
        part = _line_search(n, columns, problem)
        square = change = 0.0
        for j in range(columns):
            x[j] += part * g[j]
            square += x[j] * x[j]
            change += g[j] * g[j]
        for i in range(n):
            s = v_free[i]
            for j in range(begin[i], end[i]):
                s += W[i, j] * x[j]
            v[i] = s
            p[i] = _law(p0[i] - c[i] * s, least[i], most[i])
            if part < 1.0:
                piece[i] = -1
        if change <= _SMALL * _SMALL * square:
            return True
    return False


@kernel
def _slope(n, columns, problem, part):
    """Slope of f along g, a part of it away from x; w = W g."""
    p0, c, x, g, v, w = problem.p0, problem.c, problem.x, problem.g, problem.v, problem.w
    least, most = problem.least, problem.most
    slope = 0.0
    for j in range(columns):
        slope += g[j] * (x[j] + part * g[j])
    for i in range(n):
        push = _law(p0[i] - c[i] * (v[i] + part * w[i]), least[i], most[i])
        if push != 0.0:
            slope -= w[i] * push
    return slope


@kernel
def _line_search(n, columns, problem):
    """Part of g after which f is least; 1 if what its slope is there is rounding of none."""
    low, high = 0.0, 1.0
    if not _slope(n, columns, problem, 1.0) > -1e-9 * _slope(n, columns, problem, 0.0):
        return 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if _slope(n, columns, problem, middle) > 0.0:
            high = middle
        else:
            low = middle
    return high
