"""Steps of contacts that add no energy: what springs, dampers and friction do in a step, foreseen before it is done.

With all impulses p of a group of contacts, their velocities v before and v' after the step (with all other forces), and
the energy V of springs and bonds, which follows from v' on straight paths, the contacts *gain*
    X = p.(v + v')/2 + V(v') - V
of which the first term is exactly their share of the change of kinetic energy.

**Penalties.** A group takes the explicit step p = max(0, h (k d - b v)) where its penalties gain nothing, even if half
of what the dampers take in continuous time counts as gain,
    X + 1/2 h sum b v^2 <= 0,
which for a damper alone and a mobility a is h b a <= 1. Else springs and dampers act with the velocity after the step,
    p = max(0, h (k (d - h v') - b v')),
which for any k, b, h and mobilities gains nothing: p.v' + V(v') - V <= 0, as 1/2 k d'^2 - 1/2 k d^2 <= -k d' (d - d').
The work of all forces at the mean velocity is less by 1/2 |u' - u|^2, so that the whole step gains nothing, but for the
work of the hand, which is booked at the mean velocity.

**Friction** acts after the penalties, and changes the normal velocities too. If it lets the group gain energy, it is
scaled by the part c for which it does not: X is convex in c and not positive for c = 0, so that
    c = -X(0) / (X(1) - X(0))
is enough.
"""

from __future__ import annotations

from haptic_sim.contact.groups import find_root, group_of
from haptic_sim.contact.response import NOW, foresee
from haptic_sim.kernels import kernel

SHARE = 0.005  # of the energy of the springs: what is let pass for it comes back
MOST = 0.9  # part of friction that is left of it, beside the penalties with which it was found
TOLERANCE = 1e-8  # of the energy of the springs: rounding, at rest


@kernel
def find_storage(count, bonds, rows, tangent, velocity, period, storage):
    """Fill `storage` (C,) with 1/2 K z.(z + h v) of all bonds, for the velocities v of the contacts (C, 3) [J]."""
    z, K = bonds.strain, bonds.stiffness
    for i in range(count):
        storage[i] = 0.0
        if K[i] > 0.0:
            growth = _growth(i, z, rows.normal, tangent, velocity, period)
            storage[i] = 0.5 * K[i] * (z[i, 0] * z[i, 0] + z[i, 1] * z[i, 1] + z[i, 2] * z[i, 2] + growth)


@kernel
def _growth(i, z, normal, tangent, velocity, period):
    """z.h v of a bond [m^2]."""
    x, y, w = z[i, 0], z[i, 1], z[i, 2]
    nx, ny, nz = normal[i, 0], normal[i, 1], normal[i, 2]
    tx, ty, tz = tangent[i, 0], tangent[i, 1], tangent[i, 2]
    z_1 = x * tx + y * ty + w * tz
    z_2 = x * (ny * tz - nz * ty) + y * (nz * tx - nx * tz) + w * (nx * ty - ny * tx)
    return period * (z_1 * velocity[i, 1] + z_2 * velocity[i, 2])


@kernel
def find_gains(packed, count, period, rubs, part):
    """Fill `gains` with what the contacts of each group gain, after `foresee` [J].

    gains[0] is of penalties alone, with half of what their dampers take: it decides whether they are explicit, and is
    not positive where the group collides. gains[1] is of all contacts, with their bonds of friction if it `rubs`, of
    which only a `part` is among the impulses.
    """
    a = packed.arrays
    m, p, before, after, strain = a.method, a.impulses.p, a.before, a.after, a.method.springs.strain
    share, gains, now, rubbed = m.share, m.gains, m.bonds[a.counts[NOW]], m.rubbed
    z, bond, stored, rows = now.strain, now.stiffness, m.stored, a.rows
    stiffness, damping = a.material.stiffness, a.material.damping
    elastic, lag, ahead, behind = m.elastic, m.lag, m.ahead, m.behind
    for g in range(gains.shape[1]):
        gains[0, g] = gains[1, g] = elastic[g] = lag[g] = ahead[g] = behind[g] = 0.0
    for i in range(count):
        g = group_of(a.scaled, i, m.group)
        if g < 0:
            continue
        normal = 0.5 * p[i, 0] * (before[i, 0] + after[i, 0])
        tangential = 0.5 * (p[i, 1] * (before[i, 1] + after[i, 1]) + p[i, 2] * (before[i, 2] + after[i, 2]))
        if rubs:
            tangential -= stored[i]
            behind[g] += stored[i] - m.energy[i]
            elastic[g] += m.energy[i]
            if bond[i] > 0.0:
                growth = part * _growth(i, z, rows.normal, a.tangent, after, period)
                energy = 0.5 * bond[i] * part * part * (z[i, 0] * z[i, 0] + z[i, 1] * z[i, 1] + z[i, 2] * z[i, 2])
                tangential += energy + 0.5 * bond[i] * growth
                ahead[g] -= 0.5 * bond[i] * growth
        lag[g] += 0.5 * (rubbed[i, 0] * (after[i, 1] - before[i, 1]) + rubbed[i, 1] * (after[i, 2] - before[i, 2]))
        if share[i] > 0.0:
            k = stiffness / share[i]
            moved = max(0.0, strain[i] - period * after[i, 0])
            normal += 0.5 * k * (moved * moved - (1.0 + TOLERANCE) * strain[i] * strain[i])
            elastic[g] += 0.5 * k * strain[i] * strain[i]
            if p[i, 0] > 0.0:
                gains[0, g] += 0.5 * period * damping / share[i] * before[i, 0] * before[i, 0]
        gains[0, g] += normal
        gains[1, g] += normal + tangential
    for tree in range(a.scaled.start.shape[0]):
        g = find_root(m.group, tree)
        if not m.colliding[g]:
            for j in range(a.scaled.start[tree], a.scaled.start[tree] + a.scaled.size[tree]):
                late = 0.5 * a.external[j] * (a.external[j] + a.du[j])
                gains[0, g] -= late
                gains[1, g] -= late
    for g in range(gains.shape[1]):
        if m.colliding[g]:
            gains[0, g] = 0.0
            continue
        late = min(lag[g], SHARE * elastic[g])
        gains[0, g] -= late
        gains[1, g] -= late
    for g in range(gains.shape[1]):
        most = SHARE * elastic[g]
        gains[1, g] += max(0.0, ahead[g] - most) + max(0.0, behind[g] - most)


@kernel
def keep_friction_passive(packed, count, period, least):
    """Scale the friction of groups that gain energy by it, and their bonds, to at least a part of it.

    Call it after `find_gains`. Returns whether that is enough; otherwise nothing is scaled, and `again` says which
    groups gain even with the least part.
    """
    a = packed.arrays
    m, p, rubbed, strain = a.method, a.impulses.p, a.method.rubbed, a.method.bonds[a.counts[NOW]].strain
    gains, acting, again, enough = m.gains, m.acting, m.again, True
    for g in range(acting.shape[0]):
        acting[g] = gains[1, g]
    for i in range(count):
        g = group_of(a.scaled, i, m.group)
        if g >= 0 and acting[g] > 0.0:
            p[i, 1], p[i, 2] = p[i, 1] - (1.0 - least) * rubbed[i, 0], p[i, 2] - (1.0 - least) * rubbed[i, 1]
    foresee(packed, count, period)
    find_gains(packed, count, period, True, least)
    for g in range(acting.shape[0]):
        again[g] = acting[g] > 0.0 and gains[1, g] > 0.0
        enough = enough and (not again[g] or least == 0.0)
        if acting[g] > 0.0:
            acting[g] = least if again[g] else least + (1.0 - least) * gains[1, g] / (gains[1, g] - acting[g])
        else:
            acting[g] = -1.0  # it is whole
    for i in range(count):
        g = group_of(a.scaled, i, m.group)
        if g >= 0 and acting[g] >= 0.0:
            part = acting[g] if enough else 1.0
            p[i, 1], p[i, 2] = p[i, 1] + (part - least) * rubbed[i, 0], p[i, 2] + (part - least) * rubbed[i, 1]
            for d in range(3):
                strain[i, d] *= part
    foresee(packed, count, period)
    return enough
