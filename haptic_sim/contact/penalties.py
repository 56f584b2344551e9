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

The impulses are the only minimum of the strictly convex, piecewise quadratic
    f(u') = 1/2 |u' - u_free|^2 + sum max(0, p0 - h c v')^2 / (2 h c),
which Newton's method with an exact line search finds in a few steps, however many contacts depend on each other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haptic_sim.dynamics.scaled import apply_impulse
from haptic_sim.kernels import kernel
from haptic_sim.linalg import cholesky, cholesky_solve
from haptic_sim.records import array, record

STABLE = 2.0  # limit of the ratio, up to which a step is explicit
_STEPS, _HALVINGS = 60, 50  # of Newton's method, of which some five are used, and of its line search
_SMALL = 1e-10  # part of the change of velocity by which a step of Newton's method may still change it


@record
class ImplicitPenalties(NamedTuple):
    """Problem and memory of `push_implicitly`."""

    v_free: np.ndarray = array("normal velocity without these impulses", "contacts", unit="m/s")
    p0: np.ndarray = array("impulse where v' is zero", "contacts", unit="N s")
    c: np.ndarray = array("period times implicit damping, positive", "contacts", unit="kg")
    p: np.ndarray = array("impulse", "contacts", unit="N s")
    v: np.ndarray = array("normal velocity v' with the impulses", "contacts", unit="m/s")
    w: np.ndarray = array("change of v' by a step of Newton's method", "contacts", unit="m/s")
    pushes: np.ndarray = array("whether the impulse is positive, -1: unknown", "contacts", dtype=np.int64)
    x: np.ndarray = array("change of the scaled velocity by the impulses", "nv", unit="kg^1/2 m/s")
    g: np.ndarray = array("gradient, and step of Newton's method", "nv", unit="kg^1/2 m/s")
    K: np.ndarray = array("Hessian and its factor", "nv", "nv")


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
    """As `find_ratios`, of contacts of one free body with what does not move.

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
def push_implicitly(n, W, problem):
    """Fill problem.p[:n] with max(0, p0 - c v'), where v' = v_free + W W^T p; returns whether Newton's method ended.

    Args:
        n: number of contacts.
        W: their normal rows, (n, columns).
        problem: `ImplicitPenalties`, with v_free, p0 and c.
    """
    v_free, p0, c, p, v, w = problem.v_free, problem.p0, problem.c, problem.p, problem.v, problem.w
    pushes, x, g, K = problem.pushes, problem.x, problem.g, problem.K
    columns = W.shape[1]
    for j in range(columns):
        x[j] = 0.0
    for i in range(n):
        v[i] = v_free[i]
        p[i] = max(0.0, p0[i] - c[i] * v[i])
        pushes[i] = -1
    for _ in range(_STEPS):
        same = True
        for j in range(columns):
            for k in range(j):
                K[j, k] = 0.0
            K[j, j] = 1.0
            g[j] = -x[j]
        for i in range(n):
            push = 1 if p[i] > 0.0 else 0
            same = same and push == pushes[i]
            pushes[i] = push
            if push == 1:
                for j in range(columns):
                    if W[i, j] != 0.0:
                        g[j] += W[i, j] * p[i]
                        for k in range(j + 1):
                            K[j, k] += c[i] * W[i, j] * W[i, k]
        if same:  # the step before led to the minimum of this piece
            return True
        if not cholesky(K, columns, K):  # in place: an entry is read before it is written
            return False
        cholesky_solve(K, columns, g)
        for i in range(n):
            w[i] = 0.0
            for j in range(columns):
                w[i] += W[i, j] * g[j]
        part = _line_search(n, columns, p0, c, x, g, v, w)
        square = change = 0.0
        for j in range(columns):
            x[j] += part * g[j]
            square += x[j] * x[j]
            change += g[j] * g[j]
        for i in range(n):
            v[i] = v_free[i]
            for j in range(columns):
                v[i] += W[i, j] * x[j]
            p[i] = max(0.0, p0[i] - c[i] * v[i])
            if part < 1.0:
                pushes[i] = -1
        if change <= _SMALL * _SMALL * square:
            return True
    return False


@kernel
def _slope(n, columns, p0, c, x, g, v, w, part):
    """Slope of f along g, a part of it away from x; w = W g."""
    slope = 0.0
    for j in range(columns):
        slope += g[j] * (x[j] + part * g[j])
    for i in range(n):
        push = p0[i] - c[i] * (v[i] + part * w[i])
        if push > 0.0:
            slope -= w[i] * push
    return slope


@kernel
def _line_search(n, columns, p0, c, x, g, v, w):
    """Part of g after which f is least; 1 if what its slope is there is rounding of none."""
    low, high = 0.0, 1.0
    if not _slope(n, columns, p0, c, x, g, v, w, 1.0) > -1e-9 * _slope(n, columns, p0, c, x, g, v, w, 0.0):
        return 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if _slope(n, columns, p0, c, x, g, v, w, middle) > 0.0:
            high = middle
        else:
            low = middle
    return high
