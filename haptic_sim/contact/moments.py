"""Rolling and torsional friction: moments at contacts, bounded by the normal force, that resist relative rotation.

A contact point carries no moment; the small patch that it stands for does. With the normal impulse p_n of a step, the
angular velocity w of B relative to A after the step, and the moment m on B, both split into a part along the normal n
and one in the tangent plane t,

    |m_n| <= sigma p_n,   |m_t| <= rho p_n,   m minimises m . w:

each part is opposite to its part of w with the magnitude of the bound, or smaller where w is then zero (maximum
dissipation). Sigma and rho [m] are the coefficients of torsional and rolling friction; MuJoCo's contacts of dimensions
4 and 6 have such coefficients, too, in one cone with sliding friction. Here the parts are bounded separately: spinning
does not weaken sliding friction, as it does by the Coulomb-Contensou law (Leine and van de Wouw, Stability and
Convergence of Mechanical Systems with Unilateral Constraints, 2008).

A rolling ball must be slowed by sliding friction as its rotation is slowed by the moment. Sliding friction of penalty
contacts is a force that is known before the moments. That of rigid contacts is found again with them: with p_n and the
coefficients mu of friction as they are, all moments m and the tangential impulses p_t of contacts with mu > 0 minimise

    E(m, p_t) = 1/2 |u|^2,   u = u_0 + W_m^T m + W_t^T (p_t - p_t0),
    |m_n| <= sigma p_n,   |m_t| <= rho p_n,   |p_t| <= mu p_n.

The gradient of E is the velocities W u, so its minimum is the law above together with Coulomb's. It is convex.
Sweeps of projected gradient steps, each of one part of one contact with the length 1 / largest eigenvalue of its block
of W W^T, reduce E in every step, from m = 0 and p_t0 on, or from the moments and tangential impulses with which the
contacts ended the step before, if E is not larger there. So **the kinetic energy never rises**, however many sweeps
there are and whatever the bounds: E is the kinetic energy.

A body that is not of the model, as what a local model touches, turns with a given angular velocity w_A: then
u.u / 2 - m . w_A is what does not rise, the kinetic energy less the work of that body.

Rho and sigma are of each contact: of the pair of bodies. Under exact constraints all rows are projected, as those of
contacts are (`haptic_sim.constraints.bodies`), and what the constraints bear of the moments is added to their reaction.

Normal impulses are not found again: where the normal does not go through the centre of mass, the moment changes the
normal velocity, which the next step corrects. Springs that are thereby pressed further would get energy from nowhere,
so with penalties the moments of a group are scaled where the step would gain energy by them (`keep_moments_passive`).

**Impacts beside springs.** Where springs act, the normal impulse J of an impact bounds moments of its own. They are
part of the collision (`resist_impacts`): u_0 is the velocity after the impulses of the impact and before anything else
acts, and the kinetic energy does not rise from the beginning of the collision to the end of its moments. Springs and
all other forces act after it, on bodies that move so. Springs that act implicitly add no energy whatever the velocity
that they find, so these moments need not be scaled. Where impulses replace the springs (`penalty: explicit`,
`printed`), nothing acts against overlaps that grow, and the moments are scaled to what the springs store by it.
Friction of the impact is found again with the moments at contacts where it is as the law says, sticking or opposite to
the slip, to which the solution tends as rho and sigma go to 0; where it followed slip that has reversed since, it stays
as it is.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from haptic_sim.contact.groups import find_place, find_root
from haptic_sim.dynamics.joints import speed_of
from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.dynamics.scaled import ScaledContacts, apply_impulse, contact_velocity
from haptic_sim.kernels import kernel
from haptic_sim.records import allocate, array, record, value
from haptic_sim.vectors import cross, dot, triple

_SWEEPS = 200  # for one ball that begins without moments the error falls by 5/7 a sweep: to 1e-13 in 90
_CLOSE = 1e-13  # change of u in a sweep, as a part of u
FOLLOWS = 1e-3  # of the velocity before an impact: the solver of impacts errs by so much


@record
class Moments(NamedTuple):
    """Rolling and torsional friction of a step, for kernels: parts along normal, tangent 1, tangent 2."""

    contacts: ScaledContacts = value("rows for the relative angular velocities")
    sprung: bool = value("whether there are springs, which moments may press")
    normal: np.ndarray = array("normal impulse that bounds the moment", "contacts", unit="N s")
    mu: np.ndarray = array("tangential impulse at most per normal impulse, 0: it is given", "contacts")
    moment: np.ndarray = array("impulse of moment on B", "contacts", 3, unit="N m s")
    given: np.ndarray = array("tangential impulses without moments", "contacts", 2, unit="N s")
    acts: np.ndarray = array("whether there are moments in this step, and of impacts", 2, dtype=np.int64)
    known: np.ndarray = array("number of contacts whose end is remembered", 1, dtype=np.int64)
    id: np.ndarray = array("their identities", "contacts", dtype=np.int64)
    ended: np.ndarray = array("their moments in world axes", "contacts", 3, unit="N m s")
    rubbed: np.ndarray = array("their tangential impulses in world axes", "contacts", 3, unit="N s")
    sweeps: np.ndarray = array("number of sweeps since the start", 1, dtype=np.int64)
    reaction: np.ndarray = array("what exact constraints take from the moment of each contact", "contacts", 3, "rows")
    before: np.ndarray = array("angular velocity before the step", "contacts", 3, unit="rad/s")
    after: np.ndarray = array("angular velocity after the step", "contacts", 3, unit="rad/s")
    mobility: np.ndarray = array(
        "largest eigenvalue of W W^T about the normal, in the tangent plane, and of the tangential velocity",
        "contacts",
        3,
    )
    u: np.ndarray = array("scaled velocity without moments", "nv", unit="kg^1/2 m/s")
    group: np.ndarray = array("union-find forest of the trees", "trees", dtype=np.int64)
    budget: np.ndarray = array("a, b and L of each group, see `keep_moments_passive`", "trees", 3, unit="J")
    stiffness: np.ndarray = array("stiffness of the spring of a contact, 0: it has none", "contacts", unit="N/m")
    strain: np.ndarray = array("compression of that spring", "contacts", unit="m")
    start: np.ndarray = array("scaled velocity before the step, after its impacts", "nv", unit="kg^1/2 m/s")
    struck: np.ndarray = array("normal impulse of an impact, 0: there is none", "contacts", unit="N s")
    of_impact: np.ndarray = array("impulse of moment of an impact on B", "contacts", 3, unit="N m s")
    kick: np.ndarray = array("change of the scaled velocity by moments of impacts", "nv", unit="kg^1/2 m/s")

    @classmethod
    def allocate(cls, capacity: int, body: Multibody, sprung: bool) -> Moments:
        """Memory for the contacts of a body."""
        contacts = ScaledContacts.allocate(capacity, *body.contact_trees)
        return allocate(
            cls,
            {
                "contacts": capacity,
                "nv": body.nu,
                "trees": max(len(contacts.start), 1),
                "rows": len(body.arrays.Q),
            },
            contacts=contacts,
            sprung=sprung,
        )


@kernel
def resists(count, resistance):
    """Whether any contact has rolling or torsional friction, by the coefficients (C, 2) [m]."""
    for i in range(count):  # noqa: SIM110 (no generators in kernels)
        if resistance[i, 0] > 0.0 or resistance[i, 1] > 0.0:
            return True
    return False


@kernel
def begin_impact_moments(count, contacts, rows, impact, rubs, before, p, moments):
    """Bound moments by the normal impulses of impacts, and choose whose friction is found again with them.

    That is of the contacts at which the impact took as much as its friction could, but for the part FOLLOWS.

    Args:
        impact: whether the impulses are of an impact, (C,).
        rubs: whether its friction obeys Coulomb's law.
        before: velocities of the contacts before it, (C, 3) [m/s].
        p: impulses, (C, 3) [N s].
        moments: `Moments`; u is the scaled velocity after the impulses.
    """
    for i in range(count):
        J = p[i, 0] if impact[i] else 0.0
        moments.normal[i], moments.struck[i], moments.mu[i] = J, J, 0.0
        bound = rows.friction[i, 1] * J
        if rubs and bound > 0.0:
            x, y = contact_velocity(contacts, i, 1, moments.u), contact_velocity(contacts, i, 2, moments.u)
            lack = p[i, 1] * x + p[i, 2] * y + bound * math.sqrt(x * x + y * y)
            speed = math.sqrt(before[i, 0] ** 2 + before[i, 1] ** 2 + before[i, 2] ** 2)
            moments.mu[i] = rows.friction[i, 1] if lack <= FOLLOWS * bound * speed else 0.0


@kernel
def settle_moments(count, contacts, rows, tangent, moments, p, u):
    """Find the moments, and the tangential impulses of contacts with mu > 0, and change u by them.

    Their bounds are in proportion to `Moments.normal`.

    Args:
        contacts: `ScaledContacts` of the velocities at the contacts.
        rows: `RowArrays` with the identities of the contacts and their coefficients rho and sigma [m].
        tangent: first tangents, (C, 3).
        moments: `Moments`, with the rows of rotations, and normal and mu.
        p: impulses, (C, 3) [N s]; tangential ones are changed where mu > 0.
        u: scaled velocity, (nv,).
    """
    turning, moment, mobility, mu = moments.contacts, moments.moment, moments.mobility, moments.mu
    normal, resistance = moments.normal, rows.resistance
    scale = 0.0
    for j in range(u.shape[0]):
        scale += u[j] * u[j]
    for i in range(count):
        moment[i, 0] = moment[i, 1] = moment[i, 2] = 0.0
        mobility[i, 0] = mobility[i, 1] = mobility[i, 2] = 0.0
        if normal[i] > 0.0:
            mobility[i, 0] = _product(turning, i, 0, 0) if resistance[i, 1] > 0.0 else 0.0
            mobility[i, 1] = _largest(turning, i) if resistance[i, 0] > 0.0 else 0.0
            mobility[i, 2] = _largest(contacts, i) if mu[i] > 0.0 else 0.0
    _start(count, contacts, rows, tangent, moments, scale, p, u)
    for _ in range(_SWEEPS):
        change = 0.0
        for i in range(count):
            if not normal[i] > 0.0:
                continue
            if mobility[i, 0] > 0.0:
                before, bound = moment[i, 0], resistance[i, 1] * normal[i]
                wanted = before - contact_velocity(turning, i, 0, u) / mobility[i, 0]
                moment[i, 0] = min(max(wanted, -bound), bound)
                step = moment[i, 0] - before
                apply_impulse(turning, i, 0, step, u)
                change += mobility[i, 0] * step * step
            if mobility[i, 1] > 0.0:
                change += _step(turning, i, mobility[i, 1], resistance[i, 0] * normal[i], moment, u)
            if mobility[i, 2] > 0.0:
                change += _step(contacts, i, mobility[i, 2], mu[i] * normal[i], p, u)
        moments.sweeps[0] += 1
        if change <= _CLOSE * _CLOSE * scale:
            break


@kernel
def _start(count, contacts, rows, tangent, moments, scale, p, u):
    """Begin with what the step before ended with, within the bounds, unless E is less without.

    Args:
        scale: |u|^2 without moments. The others are as of `settle_moments`.
    """
    turning, moment, mobility, mu = moments.contacts, moments.moment, moments.mobility, moments.mu
    normal, given, resistance = moments.normal, moments.given, rows.resistance
    found = False
    for i in range(count):
        given[i, 0], given[i, 1] = p[i, 1], p[i, 2]
        k = find_place(rows.id[i], moments.id, moments.known[0], i) if normal[i] > 0.0 else -1
        if k < 0:
            continue
        found = True
        n, t = triple(rows.normal, i), triple(tangent, i)
        b = cross(n, t)
        if mobility[i, 0] > 0.0:
            bound = resistance[i, 1] * normal[i]
            moment[i, 0] = min(max(dot(n, triple(moments.ended, k)), -bound), bound)
            apply_impulse(turning, i, 0, moment[i, 0], u)
        if mobility[i, 1] > 0.0:
            x, y = dot(t, triple(moments.ended, k)), dot(b, triple(moments.ended, k))
            _set(turning, i, resistance[i, 0] * normal[i], x, y, moment, u)
        if mobility[i, 2] > 0.0:
            x, y = dot(t, triple(moments.rubbed, k)), dot(b, triple(moments.rubbed, k))
            _set(contacts, i, mu[i] * normal[i], x, y, p, u)
    square = 0.0
    for j in range(u.shape[0]):
        square += u[j] * u[j]
    for i in range(count):
        for d in range(3):
            square += 2.0 * moment[i, d] * turning.offset[i, d]
    if found and not square <= scale:
        for i in range(count):
            for d in range(3):
                apply_impulse(turning, i, d, -moment[i, d], u)
                moment[i, d] = 0.0
            for d in range(2):
                apply_impulse(contacts, i, d + 1, given[i, d] - p[i, d + 1], u)
                p[i, d + 1] = given[i, d]


@kernel
def remember_moments(count, rows, tangent, moments, p):
    """Keep what the step ended with, in world axes, as the start of the next one; arguments as of `settle_moments`."""
    for i in range(count):
        n, t = triple(rows.normal, i), triple(tangent, i)
        b = cross(n, t)
        moments.id[i] = rows.id[i]
        for d in range(3):
            moments.ended[i, d] = (
                moments.moment[i, 0] * n[d] + moments.moment[i, 1] * t[d] + moments.moment[i, 2] * b[d]
            )
            moments.rubbed[i, d] = p[i, 1] * t[d] + p[i, 2] * b[d]
    moments.known[0] = count


@kernel
def _set(contacts, i, bound, x, y, p, u):
    """Change the two tangential impulses of contact i to (x, y), shortened to the bound."""
    length = math.sqrt(x * x + y * y)
    if length > bound:
        x, y = x * (bound / length), y * (bound / length)
    dx, dy = x - p[i, 1], y - p[i, 2]
    apply_impulse(contacts, i, 1, dx, u)
    apply_impulse(contacts, i, 2, dy, u)
    p[i, 1], p[i, 2] = x, y
    return dx * dx + dy * dy


@kernel
def _step(contacts, i, mobility, bound, p, u):
    """A projected gradient step of the two tangential impulses of contact i; the square of the change of u at most."""
    x = p[i, 1] - contact_velocity(contacts, i, 1, u) / mobility
    y = p[i, 2] - contact_velocity(contacts, i, 2, u) / mobility
    return mobility * _set(contacts, i, bound, x, y, p, u)


@kernel
def _product(contacts, i, d, e):
    """Element of W W^T for directions d and e of contact i."""
    W, tree, size = contacts.W, contacts.tree, contacts.size
    s = 0.0
    for side in range(2):
        if tree[i, side] >= 0:
            for k in range(size[tree[i, side]]):
                s += W[i, d, side, k] * W[i, e, side, k]
    return s


@kernel
def _largest(contacts, i):
    """Larger eigenvalue of W W^T over the two tangents of contact i."""
    a, b, c = _product(contacts, i, 1, 1), _product(contacts, i, 1, 2), _product(contacts, i, 2, 2)
    return 0.5 * (a + c) + math.sqrt(0.25 * (a - c) * (a - c) + b * b)


@kernel
def open_budgets(count, contacts, moments):
    """Find the groups of trees that contacts connect, and clear their budgets."""
    tree, group, budget = contacts.tree, moments.group, moments.budget
    for t in range(group.shape[0]):
        group[t], budget[t, 0], budget[t, 1], budget[t, 2] = t, 0.0, 0.0, 0.0
    for i in range(count):
        if tree[i, 0] >= 0 and tree[i, 1] >= 0:
            group[find_root(group, tree[i, 0])] = find_root(group, tree[i, 1])


@kernel
def keep_moments_passive(count, contacts, joints, period, replaced, moments, p, u):
    """Scale the moments of each group by the largest part s <= 1 with which the step gains no energy.

    With the scaled velocities u_m before the step and u_f after it without moments, v_f and v' at the contacts, and
    u' = u_f + s du after it, impulses p of springs and dampers, and strains d of the springs, d' = max(0, d - h v'),
    the step gains
        X(s) = 1/2 |u'|^2 - 1/2 |u_m|^2 + sum (1/2 k d'^2 - 1/2 k d^2) - (u_f - u_m - W^T p) . u',
    where all forces but springs, dampers and moments do their work on the path h u' of the step: gravity and sliding
    friction, so that what a bond of friction stores counts as stored. With dv = W du and d_f = max(0, d - h v_f),
        -X(s) >= L + a s - b s^2,   L = -X(0) = 1/2 |u_f - u_m|^2 + sum (1/2 k d^2 - 1/2 k d_f^2 - p v_f),
        a = -u_m . du + sum (h k d_f - p) dv,   b = 1/2 |du|^2 + 1/2 sum h^2 k dv^2.
    L is what the step takes without moments: springs that act implicitly, with the damping b_n, have p = h (k d_f - b_n
    v_f) and L = 1/2 |u_f - u_m|^2 + sum (1/2 h^2 k v_f^2 + h b_n v_f^2). So X(s) <= max(0, X(0)): moments may pay with
    what they take from the bodies, with what springs that they relieve have stored, and with what the step takes
    anyway. The last is what holds a body at rest on springs that yield: then X(1) = 0, while a < b.

    Impulses q of stops and of dry friction in joints store nothing: where q v' > 0 they do not pay, but count as gain,
    q v' <= (1 - s) max(0, q v_f) + s max(0, q (v_f + dv)).

    Args:
        replaced: whether impulses replace springs. Then p and L are 0, as u_m is the velocity after the impulses.
    """
    turning, moment, free, before, group, budget, given = (
        moments.contacts,
        moments.moment,
        moments.u,
        moments.start,
        moments.group,
        moments.budget,
        moments.given,
    )
    tree, start, size, stiffness, strain = (
        contacts.tree,
        contacts.start,
        contacts.size,
        moments.stiffness,
        moments.strain,
    )
    open_budgets(count, contacts, moments)
    for t in range(start.shape[0]):
        g = find_root(group, t)
        for j in range(start[t], start[t] + size[t]):
            du, y = u[j] - free[j], free[j] - before[j]
            budget[g, 0] -= before[j] * du
            budget[g, 1] += 0.5 * du * du
            budget[g, 2] += 0.5 * y * y
    for i in range(count):
        g = find_root(group, max(tree[i, 0], tree[i, 1]))
        for d in range(3):
            budget[g, 0] -= moment[i, d] * turning.offset[i, d]
        for d in range(2):
            budget[g, 0] -= (p[i, d + 1] - given[i, d]) * contacts.offset[i, d + 1]
        k, push = stiffness[i], 0.0 if replaced else moments.normal[i]
        if k > 0.0 or push != 0.0:
            v = contact_velocity(contacts, i, 0, free)
            dv, end = contact_velocity(contacts, i, 0, u) - v, strain[i] - period * v
            relieved = 0.5 * period * k * v * (strain[i] + end) if end > 0.0 else 0.5 * k * strain[i] * strain[i]
            budget[g, 0] += (period * k * max(end, 0.0) - push) * dv
            budget[g, 1] += 0.5 * period * period * k * dv * dv
            budget[g, 2] += relieved - push * v
    if replaced:
        for g in range(group.shape[0]):
            budget[g, 2] = 0.0
    elif joints.nonsmooth:
        for k in range(joints.p.shape[0]):
            if joints.p[k] != 0.0:
                g = find_root(group, joints.rows.tree[k, 1])
                gain = max(0.0, joints.p[k] * speed_of(joints, k, free))
                budget[g, 0] -= max(0.0, joints.p[k] * speed_of(joints, k, u)) - gain
                budget[g, 2] -= gain
    for i in range(count):
        s = part_within(budget, find_root(group, max(tree[i, 0], tree[i, 1])))
        for d in range(3):
            moment[i, d] *= s
        for d in range(2):
            p[i, d + 1] = given[i, d] + s * (p[i, d + 1] - given[i, d])
    for t in range(start.shape[0]):
        s = part_within(budget, find_root(group, t))
        for j in range(start[t], start[t] + size[t]):
            u[j] = free[j] + s * (u[j] - free[j])


@kernel
def part_within(budget, g):
    """The largest part s <= 1 of what a group is given with max(0, L) + a s - b s^2 >= 0."""
    a, b, left = budget[g, 0], budget[g, 1], max(budget[g, 2], 0.0)
    if a + left >= b:
        return 1.0
    if not b > 0.0:
        return 0.0
    root = math.sqrt(a * a + 4.0 * b * left)
    return (a + root) / (2.0 * b) if a > 0.0 else 2.0 * left / (root - a) if left > 0.0 else 0.0


@kernel
def collect_moments(count, rows, tangent, moment, hand, period, wrench):
    """Add the moments on the hand's body itself to `wrench` (6,), which is held for a period."""
    body, normal = rows.body, rows.normal
    for i in range(count):
        sign = 0.0
        if body[i, 1] == hand:
            sign += 1.0
        if body[i, 0] == hand:
            sign -= 1.0
        if sign == 0.0 or rows.coordinate[i] >= 0:
            continue
        nx, ny, nz = normal[i, 0], normal[i, 1], normal[i, 2]
        tx, ty, tz = tangent[i, 0], tangent[i, 1], tangent[i, 2]
        s, m0, m1, m2 = sign / period, moment[i, 0], moment[i, 1], moment[i, 2]
        wrench[3] += s * (m0 * nx + m1 * tx + m2 * (ny * tz - nz * ty))
        wrench[4] += s * (m0 * ny + m1 * ty + m2 * (nz * tx - nx * tz))
        wrench[5] += s * (m0 * nz + m1 * tz + m2 * (nx * ty - ny * tx))


@kernel
def work_of_moments(i, moments, moment):
    """Work of the moment (C, 3) of contact i at the mean velocity of the step [J]."""
    work = 0.0
    for d in range(3):
        work += moment[i, d] * 0.5 * (moments.before[i, d] + moments.after[i, d])
    return work


@kernel
def driven_work(i, moments, moment):
    """Work on B of a body A that is not of the model, by the moment (C, 3) of contact i [J]."""
    offset = moments.contacts.offset
    return -(moment[i, 0] * offset[i, 0] + moment[i, 1] * offset[i, 1] + moment[i, 2] * offset[i, 2])
