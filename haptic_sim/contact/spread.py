"""Impulses that a device cannot render (THESIS 4.5.2): scaled, and spread over the steps that follow.

All impulses of the hand's group are scaled by one part c in [0, 1], and with `spread` the group collides again in the
next step, until c = 1.

*Printed*: in these steps impulses replace the penalties (4.45), as they do in any step with impulses. Overlaps grow
meanwhile by h v' in each step without a spring that resists, and store h k v' (s + h v' / 2) each, energy that no work
supplied. A push as strong as the limit makes a body enter without bound, and with a weaker push the body hops on the
energy of the springs. With a restitution e the impulses are solved again in each step from the remaining velocity of
approach, so that the rebound is that of the last step, some e F h / (m (1 + e)) (errata 14).

*Consistent* (device.spread, the default): the impulses act first, then all other forces, then the springs of all
contacts of the group. Dampers do not act, because the impulses dissipate in their place. A spring pushes with its force
in the middle of the step's motion, so that it never returns more energy than it has stored:
    u1 = u + c W^T p,   u' = u1 + external + W^T q,   0 <= q = max(0, -h k (s + h v' / 2)),   v' = W u'.
c is the largest part for which impulses and springs together are within the limit, so that the device can render their
sum; 0 where the springs leave nothing.
  - Energy. With E(c) = -(c p.v + 1/2 c^2 |W^T p|^2) >= 0 the energy that the impulses take (4.40, with 1/2: errata 1),
    x the path of the step and f the other forces, held over it (W u and s on straight paths),
        change of (1/2 |u|^2 + sum 1/2 k s^2) - f.x = -E(c) - 1/2 |external + W^T q|^2 <= 0:
    for q.v' + h k s v' + 1/2 h^2 k v'^2 = 0 for each contact that pushes, and those that do not push stretch nothing
    (their terms are not positive, as then s + h v' / 2 >= 0 and s < 0). So for any masses, stiffness, period and part c
    such a step adds no energy, except 1/2 k (h v')^2 for a contact that begins within the step.
  - Restitution. A contact that begins to collide has to reach the velocity e |v|, and takes part in the spread as long
    as it is slower: it collides without restitution with a wall that recedes at this velocity. Impulses that accelerate
    bodies give energy, E < 0: at most the energy that earlier impulses of the spread have dissipated in excess of the
    whole impulses (4.40). So the sum of E over a spread is never negative. Where nothing else acts it becomes that of
    the whole impulses while the springs still store a part of the rebound, which they return without dampers: the body
    leaves with e |v|.
"""

from __future__ import annotations

import math

from haptic_sim.contact.groups import find_root
from haptic_sim.contact.response import PENDING
from haptic_sim.dynamics.scaled import apply_impulse, contact_velocity
from haptic_sim.hand.held import find_wrench
from haptic_sim.kernels import kernel


@kernel
def limit_impulses(packed, count, period):
    """Scale the impulses of the hand's group to what the device can render; whether something is left of them."""
    a = packed.arrays
    m, counts = a.method, a.counts
    if m.consistent:
        _foresee_springs(packed, count, period)
    within = _find_part(packed, count, period)
    part = within
    if m.consistent:
        part = _bound_restitution(packed, count, within)
        _remember_restitution(packed, count)
    elif part == 0.0:
        return False
    counts[PENDING] = 1 if m.spread and within < 1.0 else 0
    _scale(packed, count, part)
    return True


@kernel
def _foresee_springs(packed, count, period):
    """Fill `Impulses.spring` with what springs beside impulses give at most [N s], for the limits."""
    a = packed.arrays
    m = a.method
    for j in range(m.u.shape[0]):
        m.u[j] = a.u_before[j] + a.external[j]
    for i in range(count):
        if m.spring_sharers[i] > 0.0:
            middle = -m.springs.strain[i] + 0.5 * period * contact_velocity(a.scaled, i, 0, m.u)
            a.impulses.spring[i] = max(0.0, -period * a.material.stiffness / m.spring_sharers[i] * middle)


@kernel
def owed_energy(account):
    """Energy that the impulses of a spread have taken beyond what the whole ones take [J]."""
    return max(0.0, account[0] - account[1])


@kernel
def _bound_restitution(packed, count, part):
    """Part of the impulses of the hand's group, at most `part`, of which a spread as a whole is passive; books it."""
    a = packed.arrays
    m, p, account = a.method, a.impulses.p, a.method.account
    for j in range(m.u.shape[0]):
        m.u[j] = 0.0
    work = square = 0.0
    begins = False
    for i in range(count):
        if a.impulses.impact[i] and m.root[i] == find_root(m.group, a.body.hand_tree):
            begins = begins or m.owed[i] < 0.0
            for d in range(3):
                work += p[i, d] * contact_velocity(a.scaled, i, d, a.u_before)
                apply_impulse(a.scaled, i, d, p[i, d], m.u)
    for j in range(m.u.shape[0]):
        square += m.u[j] * m.u[j]
    if begins:
        account[1] = max(account[1], account[0] - work - 0.5 * square)
    spare = owed_energy(account)
    if part * (work + 0.5 * part * square) > spare:
        part = min(part, (math.sqrt(work * work + 2.0 * square * spare) - work) / square)
    account[0] -= part * (work + 0.5 * part * square)
    return part


@kernel
def _remember_restitution(packed, count):
    """Note what the contacts of the hand's group owe, in the order of `old_id`."""
    a = packed.arrays
    m = a.method
    n = 0
    for i in range(count):
        if a.rows.separation[i] < 0.0:
            owed = m.owed[i]
            collides = m.collides[i] and m.root[i] == find_root(m.group, a.body.hand_tree)
            if owed < 0.0 and collides:
                owed = a.rows.restitution[i] * max(-m.v_n[i], 0.0)
            m.old_owed[n] = owed
            n += 1


@kernel
def _scale(packed, count, part):
    """Scale all impulses of the hand's group."""
    a = packed.arrays
    if part < 1.0:
        for i in range(count):
            if a.impulses.impact[i] and a.method.root[i] == find_root(a.method.group, a.body.hand_tree):
                for d in range(3):
                    a.impulses.p[i, d] *= part


@kernel
def _find_part(packed, count, period):
    """Part of the impulses of the hand's group that the device can render, beside the springs (THESIS 4.5.2).

    Scaling keeps them passive: the change of energy is convex in the factor and zero at 0.
    """
    a = packed.arrays
    m = a.method
    wrench, gross, pushed = m.wrench, m.gross, m.pushed
    for j in range(6):
        wrench[j] = gross[j] = pushed[j] = 0.0
    if m.single_body:
        _add_wrenches_of_body(packed, count, period)
    else:
        _add_wrenches_of_linkage(packed, count, period)
    part = 1.0
    for j in range(6):
        # what rounding leaves of a sum of zero needs no rendering
        margin = max(0.0, m.wrench_limit[j] - math.copysign(pushed[j], pushed[j] * wrench[j]))
        if abs(wrench[j]) > 1e-12 * gross[j] and abs(wrench[j]) * part > margin:
            part = margin / abs(wrench[j])
    return part


@kernel
def _add_wrenches_of_linkage(packed, count, period):
    """Fill in the wrenches that impulses and springs on any link are at the hand: THESIS (5.12), linear in each."""
    a = packed.arrays
    m, impulses = a.method, a.impulses
    for i in range(count):
        if m.consistent and impulses.spring[i] > 0.0:
            for j in range(m.u.shape[0]):
                m.u[j] = 0.0
            apply_impulse(a.scaled, i, 0, impulses.spring[i], m.u)
            find_wrench(m.hand, m.u, period, m.one)
            for j in range(6):
                m.pushed[j] += m.one[j]
        if impulses.impact[i]:
            for j in range(m.u.shape[0]):
                m.u[j] = 0.0
            for d in range(3):
                apply_impulse(a.scaled, i, d, impulses.p[i, d], m.u)
            find_wrench(m.hand, m.u, period, m.one)
            for j in range(6):
                m.wrench[j] += m.one[j]
                m.gross[j] += abs(m.one[j])


@kernel
def _add_wrenches_of_body(packed, count, period):
    """Add the wrenches of the impulses on a tool of one body, on which they act themselves."""
    a = packed.arrays
    rows, contacts, impulses, body, m = a.rows, a.scaled, a.impulses, a.body, a.method
    p, hand, J_W, p_WH = impulses.p, body.hand, body.J_W, body.p_WH
    wrench, gross, f, pushed = m.wrench, m.gross, m.force, m.pushed
    for i in range(count):
        if m.consistent and impulses.spring[i] > 0.0:
            _add_push(rows, i, hand, impulses.spring[i] / period, p_WH, pushed)
        if not impulses.impact[i]:
            continue
        if rows.coordinate[i] >= 0:
            if contacts.tree[i, 1] == body.hand_tree:
                # a couple about the axis of a hinge, a force along that of a slide
                j, s = rows.coordinate[i], p[i, 0] * rows.direction[i] / period
                first = 3 if J_W[j, 3] != 0.0 or J_W[j, 4] != 0.0 or J_W[j, 5] != 0.0 else 0
                for d in range(first, first + 3):
                    wrench[d] += s * J_W[j, d]
                    gross[d] += abs(s * J_W[j, d])
            continue
        sign = 0.0
        if rows.body[i, 1] == hand:
            sign += 1.0
        if rows.body[i, 0] == hand:
            sign -= 1.0
        n, t = rows.normal[i], a.tangent[i]
        f[0] = p[i, 0] * n[0] + p[i, 1] * t[0] + p[i, 2] * (n[1] * t[2] - n[2] * t[1])
        f[1] = p[i, 0] * n[1] + p[i, 1] * t[1] + p[i, 2] * (n[2] * t[0] - n[0] * t[2])
        f[2] = p[i, 0] * n[2] + p[i, 1] * t[2] + p[i, 2] * (n[0] * t[1] - n[1] * t[0])
        for j in range(3):
            f[j] *= sign / period
            b, c = (j + 1) % 3, (j + 2) % 3
            wrench[j] += f[j]
            gross[j] += abs(f[j])
            # f_j at r turns about b by r_c f_j and about c by -r_b f_j
            wrench[3 + b] += (rows.point[i, c] - p_WH[c]) * f[j]
            wrench[3 + c] -= (rows.point[i, b] - p_WH[b]) * f[j]
            gross[3 + b] += abs((rows.point[i, c] - p_WH[c]) * f[j])
            gross[3 + c] += abs((rows.point[i, b] - p_WH[b]) * f[j])


@kernel
def _add_push(rows, i, hand, force, p_WH, wrench):
    """Add to `wrench` at the hand what a force along the normal of contact i does to the hand's body."""
    sign = 0.0
    if rows.body[i, 1] == hand:
        sign += 1.0
    if rows.body[i, 0] == hand:
        sign -= 1.0
    for j in range(3):
        a, b = (j + 1) % 3, (j + 2) % 3
        f = sign * force * rows.normal[i, j]
        wrench[j] += f
        wrench[3 + a] += (rows.point[i, b] - p_WH[b]) * f
        wrench[3 + b] -= (rows.point[i, a] - p_WH[a]) * f
