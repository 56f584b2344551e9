"""Colliding bodies that obey the law of restitution each by itself, as THESIS (4.22, 4.23) print it.

The source demands that in a self-collision of bodies i and j both obey n^T J qd = -e n^T J qd0, each by itself. This
needs two impulses, which need not be opposite. It is passive, and the relative velocity obeys (4.21) too. But the
impulse on one body is not the opposite of that on the other, so that momentum is not conserved: a body at rest stays at
rest, whatever strikes it (errata 3). `contact.self_collision: printed` selects this law; the default is (4.21) for the
relative velocity alone.

Here each contact of two moving bodies gets two more rows, its halves: a half is a contact of one body with a fixed one.
Impulses act at the halves instead of the contact, penalties at the contact alone. A half never pulls: a body that moves
away from the other, which the law as printed would turn back, continues to move away.
"""

from __future__ import annotations

from haptic_sim.kernels import kernel


@kernel
def append_halves(packed, count):
    """Append the halves of the contacts of two moving bodies that overlap; returns how many rows there are.

    Args:
        packed: of `RowArrays`, with room for two rows more a contact.
        count: rows in use.
    """
    rows = packed.arrays
    rows.half_of[:] = -1
    n = count
    for i in range(count):
        alike = rows.coordinate[i] >= 0 or rows.body[i, 0] == 0 or rows.body[i, 1] == 0
        if alike or not rows.separation[i] < 0.0:
            continue
        for side in range(2):
            sign = 1.0 if side == 1 else -1.0
            gap = rows.separation[i] if side == 0 else 0.0
            rows.half_of[n] = i
            rows.id[n], rows.wall[n], rows.coordinate[n] = rows.id[i], rows.wall[i], -1
            rows.body[n, 0], rows.body[n, 1] = 0, rows.body[i, side]
            for d in range(3):
                rows.point[n, d] = rows.point[i, d] - gap * rows.normal[i, d]
                rows.normal[n, d] = sign * rows.normal[i, d]
            rows.separation[n] = rows.velocity[n] = 0.0  # no overlap of its own: neither penalty nor memory
            rows.restitution[n], rows.weight[n] = rows.restitution[i], rows.weight[i]
            for d in range(2):
                rows.friction[n, d], rows.resistance[n, d] = rows.friction[i, d], 0.0  # moments are of the whole
            n += 1
    return n
