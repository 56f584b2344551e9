"""Restitution at the limits of joints, beside contacts: the last part of a step, with energy that the step has taken.

Without restitution the velocity 0 is within the bounds of all laws of joints, so that they take energy (`joints`), and
springs that act implicitly beside them do, too (`penalties`). A limit that returns a joint with the velocity e |v|
gives energy at the velocity after the step. Alone it gives no more than it took. Beside springs, which know nothing of
it, or beside other limits with other restitutions (Newton's law for several at once), it may give more: in random
worlds of balls that slide to their stops, up to 16 times the energy that there was, in one step.

So a step is first found without restitution, with the scaled velocity u_f. Then, with the impulses of contacts as they
are, the laws of joints are solved again with it (`joints.bounce`), which leads to u_f + du. Of this each group of trees
that contacts connect has the largest part s <= 1 with which its step gains no energy. With u' = u_f + s du,
    X(s) = 1/2 |u'|^2 - 1/2 |u|^2 + V(u') - V(u) - e.u'
is what the whole step gains, where e is what other forces do to u. They do their work on the path h u'. V is the energy
of the springs, 1/2 k d^2 with d' = max(0, d - h v') <= |d_f - s h dv| and d_f = max(0, d - h v_f), and that of bonds of
friction, see below. Of contacts v, v_f and dv are the velocities with u, u_f and du. So
    -X(s) >= L + a s - b s^2,    L = -X(0),
    a = -(u_f - e).du + sum h k d_f dv,    b = 1/2 |du|^2 + 1/2 sum h^2 k dv^2.
The part s is the largest with max(0, L) + a s - b s^2 >= 0: **X(s) <= max(0, X(0))**, whatever masses, stiffness,
restitutions and rate. A joint that meets its limit alone, without other forces, has L + a - b >= 0, and s = 1. Between
u_f and u_f + du all bounds hold, as those without restitution are convex and hold for both, and impulses of dry
friction stay within theirs.

**Bonds** that end the step with the strain z have then the energy 1/2 K z^2, which du does not change, and the storage
1/2 K z.(z + h v') (`passivity`), which has -1/2 h K z.dv in a. Neither may grow: L has the smaller of what both lose,
a the smaller of 0 and what the storage has.

**Joints.** Damping b and springs k of joints are in the metric of u and in e (`joints`), which X has to undo. With the
impulse -T b v of damping in e, it is X - 1/2 T b (w'^2 - w^2) - T b v w' for the velocities w and w' of the joint
before and after the step; where damping acted before the impacts of the step (`joints`), at most X - 1/2 T b w'^2 with
the u that these met. A spring of the deflection x counts as 1/2 k (x - T w / 2)^2, which its step conserves:
X + 1/2 T k x (w - w'). One that is taken at the end of the step counts as 1/2 k x^2, and 1/2 T^2 k w'^2 is added.

Walls that move do work -p.v_wall on the bodies, which L contains; what impulses of a spread still owe is stored energy.
"""

from __future__ import annotations

from haptic_sim.contact.groups import find_root
from haptic_sim.contact.moments import driven_work, open_budgets, part_within
from haptic_sim.contact.response import FORESEEN, KEPT, LOST, fill_scaled, find_velocities, foresee
from haptic_sim.dynamics.joints import bounce, speed_of
from haptic_sim.dynamics.scaled import contact_velocities, contact_velocity
from haptic_sim.kernels import kernel


@kernel
def open_rebounds(packed, count, period, sprung):
    """Let joints return with their whole restitution, and find the budgets of their groups; whether some return.

    Args:
        sprung: whether the springs of contacts are known (`Moments.stiffness`); else what contacts do is work of given
            forces, on the path of the step.
    """
    a = packed.arrays
    joints, body = a.body.joints, a.body
    if not joints.bounces:
        return False
    if not a.counts[FORESEEN]:
        foresee(packed, count, period)
    if not bounce(joints, body, period, a.u):
        return False
    fill_scaled(packed)
    open_budgets(count, a.scaled, a.moments)
    budget, group, free = a.moments.budget, a.moments.group, joints.stopped
    start, size = a.scaled.start, a.scaled.size
    for t in range(start.shape[0]):
        g = find_root(group, t)
        for j in range(start[t], start[t] + size[t]):
            u, f, du, e = a.u_before[j], free[j], a.u[j] - free[j], a.external[j]
            if not sprung:
                e += a.du[j]
            budget[g, 0] -= (f - e) * du
            budget[g, 1] += 0.5 * du * du
            budget[g, 2] += 0.5 * (u * u - f * f) + e * f
    if sprung:
        _count_contacts(a, count, period, free)
        if body.hand_tree >= 0:
            budget[find_root(group, body.hand_tree), 2] -= a.amounts[KEPT]
    _count_joints(a, period, free)
    return True


@kernel
def _count_contacts(a, count, period, free):
    """Enter what springs take, and the work of walls that move."""
    moments, contacts, budget = a.moments, a.scaled, a.moments.budget
    for i in range(count):
        g = find_root(moments.group, max(contacts.tree[i, 0], contacts.tree[i, 1]))
        for d in range(3):
            budget[g, 2] -= a.impulses.p[i, d] * contacts.offset[i, d]
        if moments.acts[0]:
            budget[g, 2] += driven_work(i, moments, moments.moment)
            if moments.acts[1]:
                budget[g, 2] += driven_work(i, moments, moments.of_impact)
        k = moments.stiffness[i]
        if k > 0.0:
            v = contact_velocity(contacts, i, 0, free)
            dv, end = contact_velocity(contacts, i, 0, a.u) - v, max(0.0, moments.strain[i] - period * v)
            budget[g, 0] += period * k * end * dv
            budget[g, 1] += 0.5 * period * period * k * dv * dv
            budget[g, 2] += 0.5 * k * (moments.strain[i] * moments.strain[i] - end * end)


@kernel
def _count_joints(a, period, free):
    """Enter damping and springs of joints."""
    joints, body, moments = a.body.joints, a.body, a.moments
    for k in range(joints.velocity.shape[0]):
        damping, stiffness = period * joints.damping[k], period * joints.stiffness[k]
        if not (damping > 0.0 or stiffness > 0.0):
            continue
        budget = moments.budget[find_root(moments.group, joints.rows.tree[k, 1])]
        j = joints.velocity[k]
        w, f = body.v[j], speed_of(joints, k, free)
        dw = speed_of(joints, k, a.u) - f
        pull = stiffness * (joints.q[joints.position[k]] - joints.reference[k]) if stiffness > 0.0 else 0.0
        damped, start = (0.0, 0.0) if joints.early[k] else (-joints.force[j] - pull, w)
        budget[0] += (damping * f + damped) * dw
        budget[1] -= 0.5 * damping * dw * dw
        budget[2] += 0.5 * damping * (f * f - start * start) + damped * f
        if joints.stiff[k]:
            budget[0] -= period * stiffness * f * dw
            budget[1] += 0.5 * period * stiffness * dw * dw
            budget[2] -= 0.5 * period * stiffness * f * f
        elif stiffness > 0.0:
            budget[0] += 0.5 * pull * dw
            budget[2] -= 0.5 * pull * (w - f)


@kernel
def close_rebounds(packed, count, sprung):
    """Leave each group the part of the restitution that its budget allows; if `sprung`, enter what the step takes."""
    a = packed.arrays
    joints, moments = a.body.joints, a.moments
    budget, group, free = moments.budget, moments.group, joints.stopped
    start, size = a.scaled.start, a.scaled.size
    lost = 0.0
    for t in range(start.shape[0]):
        g = find_root(group, t)
        s = part_within(budget, g)
        if g == t:
            lost += budget[g, 2] + s * (budget[g, 0] - s * budget[g, 1])
        if s < 1.0:
            for j in range(start[t], start[t] + size[t]):
                a.u[j] = free[j] + s * (a.u[j] - free[j])
    for k in range(joints.p.shape[0]):
        s = part_within(budget, find_root(group, joints.rows.tree[k, 1]))
        if s < 1.0:
            joints.p[k] = joints.stopping[k] + s * (joints.p[k] - joints.stopping[k])
    if sprung:
        a.amounts[LOST] = lost
    find_velocities(a, count, a.u, a.after)
    if moments.acts[0]:
        contact_velocities(count, moments.contacts, a.u, moments.after)
