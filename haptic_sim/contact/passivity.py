"""Steps of contacts that add no energy: what springs, dampers and friction do in a step, foreseen before it is done.

With all impulses p of a group of contacts, their velocities v before and v' after the step (with all other forces), and
the energy V of springs and bonds of friction, the contacts *gain*
    X = p.(v + v')/2 + V' - V
in a step, of which the first term is exactly their share of the change of kinetic energy.

**Springs** have V = 1/2 k d^2 at the poses before and after the step, d' = max(0, d - h v').

**Bonds.** A bond with the strain z is stretched by the slip v, z' = z + h v, and gives p = -h K z'. The sum of kinetic
energy and 1/2 K z^2 then oscillates by up to 1/2 K h z.v even where nothing dissipates. What the step conserves is the
sum of kinetic energy and the *storage*, the product of the strain and of the strain that the bond will have,
    V* = 1/2 K z.(z + h v):    p.(v + v')/2 + V*(z', v') - V*(z, v) = -h K z'.(v + v')/2 + 1/2 K z'.(z' + h v' - z) = 0,
as z' - z = h v: for any number of bonds that stick with constant K, whatever else acts on the bodies. With the mobility
a of the bonds, kinetic energy and storage are positive definite together while h^2 K a < 4 (`friction` keeps it below
2), and at rest V* = 1/2 K z^2. So X counts V* for bonds, and friction that sticks elastically gains nothing. What a
change of K with the normal force, sliding and viscous friction gain is counted.

**Points that move.** Steps follow each other with no gain only if a step begins with the storage that the one before
has left, 1/2 K z.(z + h v') with its velocity v' after it. The velocity v with which the next step begins is that of
another point of the bodies where the contact has moved meanwhile: by dx along a body that turns with w, it differs by
w x dx, and the storage of the bond by
    1/2 K h z.(w x dx).
That is of third order in the motion while a contact moves with the bodies. But the points of a cylinder's rim follow
the direction in which the rim is lowest, which goes once around while the body tilts by a small angle to one side, then
to the other. So they move by up to a diameter in a step, and light cylinders between heavy bodies, which wobble by
1e-4 rad, have been driven by it. A step counts the rise of the storage of the bonds of a group as gain, and the storage
from which it starts is the lower one. Of a bond that ends nothing is counted: its energy 1/2 K z^2 is lost. Where its
storage was negative, that of the group rises, by no more than the difference that SHARE allows, see below.

**Other forces.** Gravity does its work on the path h v' of the step, not at the mean velocity. So the impulses e of the
forces other than contacts gain -e.(u' - u)/2 in scaled coordinates, which belongs to X: without it a spring that
carries a constant load would gain and lose in turns, to first order of the velocity. In a step with impulses, too: an
impulse and a spring that push the same way can gain 1/2 m g h times the velocity that the impulse takes, which friction
that acts beside them must not leave undissipated. For penalties friction f is such a
force, too: -f.(v' - v)/2 belongs to X, as far as it is below the part LATE of the elastic energy of the group. It is
no gain of penalties and bonds together, of which the friction itself is a part.

**Laws of joints** (stops, dry friction) act in the foreseen step, too: a link at its stop has the inertia of what is
behind it. They take energy at the velocity after the step; what their impulses q gain at the mean velocity, q.(v +
v')/2, belongs to X where it is positive, and what they take is not there for contacts to gain. In an implicit step
they are rows beside the penalties (`penalties`), so that the inequality below holds with them. Restitution of
stops comes when all else is known (`rebounds`).

**Penalties.** A group takes the explicit step p = max(0, h (k d - b v)) where its penalties gain nothing, even if half
of what the dampers take in continuous time counts as gain,
    X + 1/2 h sum b v^2 <= 0,
which for a damper alone and a mobility a is h b a <= 1. Else springs and dampers act with the velocity after the step,
    p = max(0, h (k (d - h v') - b v')),
beside the bonds, as if all of them stuck. For any k, b, h and mobilities p.v' + V' - V <= 0, as 1/2 k d'^2 - 1/2 k d^2
<= -k d' (d - d'). The work of all forces at the mean velocity is less than that at v' by 1/2 |u' - u|^2, so that the
whole step gains nothing, but for the work of the hand, which is booked at the mean velocity.

**Friction** acts after the penalties, and changes the normal velocities too. If the group gains energy by it, bonds and
friction are scaled by a part c. X is convex in c: of bonds its second derivative is sum K z'^2. So with X(c0) < 0
    c = c0 - (1 - c0) X(c0) / (X(1) - X(c0))
is enough. MOST is tried as c0, so that c is close to 1 where X(1) is small. If X(MOST) > 0, the penalties of the group
act implicitly without friction, and c0 = 0, where X is that of these penalties less the storage. Other groups, whose
penalties have been found beside their friction, keep their c0.

**Energy and storage.** Bonds that oscillate have by turns more and less energy than storage. As far as the difference
exceeds the part SHARE of the elastic energy of the group, it is counted as gain, so that the sum of kinetic and elastic
energy rises by no more than this part, and a light body between bonds that are stiff for it keeps its velocity.
"""

from __future__ import annotations

from haptic_sim.contact.friction_models import STICKS
from haptic_sim.contact.groups import find_root
from haptic_sim.contact.moments import work_of_moments
from haptic_sim.contact.response import NOW, foresee
from haptic_sim.dynamics.joints import assemble_joints, speed_of, work_of_laws
from haptic_sim.dynamics.scaled import contact_velocity
from haptic_sim.kernels import kernel

SHARE = 0.005  # of the elastic energy: difference of energy and storage of the bonds
LATE = 0.0005  # of the elastic energy: work of friction on the path less that at the mean velocity, in a step
MOST = 0.9  # part of friction that is tried beside the penalties that were found with it
TOLERANCE = 1e-8  # of the energy of the springs: rounding, at rest


@kernel
def foresee_bonds(count, bonds, a, period, storage, held):
    """Fill the storage of all bonds (C,) [J] and the impulses that they will give if they stick (C, 2) [N s]."""
    z, K, sliding, v, normal, t = bonds.strain, bonds.stiffness, bonds.sliding, a.before, a.rows.normal, a.tangent
    for i in range(count):
        storage[i] = held[i, 0] = held[i, 1] = 0.0
        if not K[i] > 0.0:
            continue
        z_1, z_2 = _along_tangents(z, normal, t, i)
        d_1, d_2 = period * v[i, 1], period * v[i, 2]
        square = z[i, 0] * z[i, 0] + z[i, 1] * z[i, 1] + z[i, 2] * z[i, 2]
        storage[i] = 0.5 * K[i] * (square + z_1 * d_1 + z_2 * d_2)
        if sliding[i] == STICKS:
            z_1, z_2 = z_1 + d_1, z_2 + d_2
        held[i, 0], held[i, 1] = -period * K[i] * z_1, -period * K[i] * z_2


@kernel
def record_final_storage(count, bonds, a, period):
    """Remember the storage of all bonds at the end of the step, with the velocities that `foresee` has found [J]."""
    z, K, v, normal, t, final = bonds.strain, bonds.stiffness, a.after, a.rows.normal, a.tangent, bonds.final_storage
    for i in range(count):
        final[i] = 0.0
        if K[i] > 0.0:
            z_1, z_2 = _along_tangents(z, normal, t, i)
            square = z[i, 0] * z[i, 0] + z[i, 1] * z[i, 1] + z[i, 2] * z[i, 2]
            final[i] = 0.5 * K[i] * (square + period * (z_1 * v[i, 1] + z_2 * v[i, 2]))


@kernel
def energy_after(i, bonds, a, period, u):
    """Energy of bond i, and its storage less that, if the step ends with the scaled velocity u [J]."""
    z, K = bonds.strain, bonds.stiffness
    if not K[i] > 0.0:
        return 0.0, 0.0
    z_1, z_2 = _along_tangents(z, a.rows.normal, a.tangent, i)
    v_1, v_2 = contact_velocity(a.scaled, i, 1, u), contact_velocity(a.scaled, i, 2, u)
    energy = 0.5 * K[i] * (z[i, 0] * z[i, 0] + z[i, 1] * z[i, 1] + z[i, 2] * z[i, 2])
    return energy, 0.5 * K[i] * period * (z_1 * v_1 + z_2 * v_2)


@kernel(inline="always")
def _along_tangents(z, normal, t, i):
    """Components of row i of z along both tangents."""
    z_x, z_y, z_z = z[i, 0], z[i, 1], z[i, 2]
    n_x, n_y, n_z = normal[i, 0], normal[i, 1], normal[i, 2]
    t_x, t_y, t_z = t[i, 0], t[i, 1], t[i, 2]
    u_x, u_y, u_z = n_y * t_z - n_z * t_y, n_z * t_x - n_x * t_z, n_x * t_y - n_y * t_x
    return z_x * t_x + z_y * t_y + z_z * t_z, z_x * u_x + z_y * u_y + z_z * u_z


@kernel
def find_gains(packed, count, period, rubs):
    """Fill `gains` with what the contacts of each group gain, after `foresee` [J].

    gains[0] is of penalties alone, with half of what their dampers take: it decides whether they are explicit, and is
    not positive where the group collides. gains[1] is of all contacts, with their bonds of friction if it `rubs`, of
    which only the part `acting` is among the impulses.
    """
    a = packed.arrays
    m = a.method
    gains, elastic, late, ahead, behind, laws = m.gains, m.elastic, m.late, m.ahead, m.behind, m.laws
    moved = m.moved
    for g in range(elastic.shape[0]):
        gains[0, g] = gains[1, g] = elastic[g] = late[g] = ahead[g] = behind[g] = laws[g] = moved[g] = 0.0
    _count_penalties(a, count, period)
    _count_friction(a, count, period, rubs)
    for g in range(elastic.shape[0]):
        late[g] = min(late[g], LATE * elastic[g])
        gains[1, g] += min(late[g], 0.0)
    start, size, nonsmooth = a.scaled.start, a.scaled.size, a.body.joints.nonsmooth
    for tree in range(start.shape[0]):
        g = find_root(m.group, tree)
        for j in range(start[tree], start[tree] + size[tree]):
            change = a.u[j] - a.u_before[j] if nonsmooth else a.external[j] + a.du[j]
            late[g] += 0.5 * a.external[j] * change
    if nonsmooth:
        _count_laws(a)
    if a.body.joints.damped:
        _count_damping(a, period)
    for g in range(elastic.shape[0]):
        gains[0, g] = 0.0 if m.colliding[g] else gains[0, g] + max(0.0, laws[g]) - late[g]
        gains[1, g] += max(0.0, laws[g]) - late[g]
        most, unpaid = SHARE * elastic[g], max(0.0, moved[g])
        gains[1, g] += unpaid + max(0.0, ahead[g] - most) + max(0.0, behind[g] - unpaid - most)


@kernel
def _count_penalties(a, count, period):
    """Count what normal impulses and springs gain, and the energy of the springs."""
    m, p, before, after = a.method, a.impulses.p, a.before, a.after
    strain, share, root, gains, elastic = m.springs.strain, m.share, m.root, m.gains, m.elastic
    stiffness, damping = a.material.stiffness, a.material.damping
    for i in range(count):
        g = root[i]
        if g < 0:
            continue
        push, v = p[i, 0], before[i, 0]
        gain, taken = 0.5 * push * (v + after[i, 0]), 0.0
        if share[i] > 0.0:
            k = 0.5 * stiffness / share[i]
            energy = k * strain[i] * strain[i]
            moved = max(0.0, strain[i] - period * after[i, 0])
            gain += k * moved * moved - (1.0 + TOLERANCE) * energy
            elastic[g] += energy
            if push > 0.0:
                taken = 0.5 * period * damping / share[i] * v * v
        gains[0, g] += gain + taken
        gains[1, g] += gain


@kernel
def _count_laws(a):
    """Count the work of the laws of joints in groups with contacts."""
    joints, m = a.body.joints, a.method
    for k in range(joints.p.shape[0]):
        if joints.p[k] != 0.0:
            g = find_root(m.group, joints.rows.tree[k, 1])
            if m.elastic[g] > 0.0:
                m.laws[g] += work_of_laws(joints, a.body, k, a.u)


@kernel
def _count_damping(a, period):
    """Count what the damping of joints leaves to others, in groups with contacts.

    With T b in the metric of u and -T b w in `external`, a step takes T b (w'^2 + 2 w w' - w^2) / 2 less from the
    energy than it seems, see `rebounds`; negative where the velocity w of a joint is turned back within the step.
    """
    joints, m = a.body.joints, a.method
    assemble_joints(joints, a.body)
    for k in range(joints.velocity.shape[0]):
        if joints.damping[k] > 0.0 and not joints.early[k]:
            g = find_root(m.group, joints.rows.tree[k, 1])
            if m.elastic[g] > 0.0:
                w, end = a.body.v[joints.velocity[k]], speed_of(joints, k, a.u)
                left = max(0.0, 0.5 * period * joints.damping[k] * (w * w - end * (end + 2.0 * w)))
                m.gains[0, g] += left
                m.gains[1, g] += left


@kernel
def _count_friction(a, count, period, rubs):
    """Count what tangential impulses and bonds gain, and how far energy and storage of the bonds differ."""
    m, p, before, after, rubbed = a.method, a.impulses.p, a.before, a.after, a.method.rubbed
    bonds = m.bonds[a.counts[NOW]]
    z, K, normal, tangent = bonds.strain, bonds.stiffness, a.rows.normal, a.tangent
    root, gains, elastic, late, ahead, behind = m.root, m.gains, m.elastic, m.late, m.ahead, m.behind
    stored, energy, moved, final_storage, acting = m.stored, m.energy, m.moved, bonds.final_storage, m.acting
    for i in range(count):
        g = root[i]
        if g < 0:
            continue
        v_1, v_2, w_1, w_2 = before[i, 1], before[i, 2], after[i, 1], after[i, 2]
        gain = 0.5 * (p[i, 1] * (v_1 + w_1) + p[i, 2] * (v_2 + w_2))
        if a.moments.acts[1]:
            gain += work_of_moments(i, a.moments, a.moments.of_impact)
        late[g] += 0.5 * (rubbed[i, 0] * (w_1 - v_1) + rubbed[i, 1] * (w_2 - v_2))
        if rubs:
            gain -= stored[i]
            behind[g] += stored[i] - energy[i]
            moved[g] += stored[i] - final_storage[i]
            elastic[g] += energy[i]
            if K[i] > 0.0:
                z_1, z_2 = _along_tangents(z, normal, tangent, i)
                part = acting[g]
                growth = 0.5 * K[i] * part * period * (z_1 * w_1 + z_2 * w_2)
                gain += 0.5 * K[i] * part * part * (z_1 * z_1 + z_2 * z_2) + growth
                ahead[g] -= growth
        gains[1, g] += gain


@kernel
def keep_friction_passive(packed, count, period):
    """Scale the friction of groups that gain energy by it, and their bonds.

    Call it after `find_gains`. To a group is left at least the part MOST, or any part where its penalties act
    implicitly without friction (`again`). Returns whether that is enough; otherwise nothing is scaled, and `again` says
    which groups have to act so, too.
    """
    a = packed.arrays
    m, p, rubbed, strain = a.method, a.impulses.p, a.method.rubbed, a.method.bonds[a.counts[NOW]].strain
    gains, whole, acting, left, again, enough = m.gains, m.whole, m.acting, m.left, m.again, True
    for g in range(acting.shape[0]):
        whole[g] = gains[1, g]
        acting[g] = 1.0 if not whole[g] > 0.0 else 0.0 if again[g] else MOST
    for i in range(count):
        g = m.root[i]
        if g >= 0 and acting[g] < 1.0:
            least = acting[g]
            p[i, 1], p[i, 2] = p[i, 1] - (1.0 - least) * rubbed[i, 0], p[i, 2] - (1.0 - least) * rubbed[i, 1]
    foresee(packed, count, period)
    find_gains(packed, count, period, True)
    for g in range(acting.shape[0]):
        least = left[g] = acting[g]
        if least < 1.0 and not gains[1, g] > 0.0:
            left[g] = least + (1.0 - least) * gains[1, g] / (gains[1, g] - whole[g])
        elif 0.0 < least < 1.0:
            again[g], enough = True, False
    for i in range(count):
        g = m.root[i]
        if g >= 0 and acting[g] < 1.0:
            least, part = acting[g], left[g] if enough else 1.0
            p[i, 1], p[i, 2] = p[i, 1] + (part - least) * rubbed[i, 0], p[i, 2] + (part - least) * rubbed[i, 1]
            for d in range(3):
                strain[i, d] *= part
    foresee(packed, count, period)
    return enough
