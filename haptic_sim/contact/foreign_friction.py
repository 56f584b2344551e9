"""Friction by a law of another package: it is called for each contact, and its answer is kept within the cone.

The guarantees of `friction.friction_forces` hold: |f| <= mu_s N, f . n = 0, a row without a normal force has no force
and no bond. A force that is not finite is none. What such a law gives the bodies beyond what its bond had stored is
booked as numerical energy; with `contact.penalty: consistent` friction is scaled in a step in which its group gains
energy (`passivity`), whatever its law.
"""

from __future__ import annotations

import math

from haptic_sim.contact.friction import release
from haptic_sim.contact.friction_models import SLIDES, STICKS, Touch
from haptic_sim.kernels import call_at, kernel

ROUNDING = 1e-9  # part of a force or strain by which an elastic bond may differ from its law


@kernel
def foreign_forces(law, count, normal, mu, period, bonds, rubbing):
    """Move `bonds` on by a step and fill force, viscosity and viscous_limit of `rubbing`; as `friction_forces`."""
    force, viscosity, viscous_limit = rubbing.force, rubbing.viscosity, rubbing.viscous_limit
    slip, normal_force, mobility = rubbing.slip, rubbing.normal_force, rubbing.mobility
    for i in range(count):
        force[i, 0] = force[i, 1] = force[i, 2] = viscosity[i] = viscous_limit[i] = 0.0
        if bonds.held[i]:
            continue
        n, N = normal[i], normal_force[i]
        v_n = slip[i, 0] * n[0] + slip[i, 1] * n[1] + slip[i, 2] * n[2]
        vx, vy, vz = slip[i, 0] - v_n * n[0], slip[i, 1] - v_n * n[1], slip[i, 2] - v_n * n[2]
        speed = math.sqrt(vx * vx + vy * vy + vz * vz)
        static, kinetic = mu[i, 0] * N, min(mu[i, 1], mu[i, 0]) * N
        if not (0.0 < static < math.inf and speed < math.inf):  # no number counts as no contact
            release(bonds, i)
            continue
        for d in range(3):
            law.bond[d] = bonds.strain[i, d]
        law.bond[3], law.bond[4] = bonds.stiffness[i], 0.0 if bonds.sliding[i] == STICKS else 1.0
        law.friction[:] = 0.0
        touch = Touch(
            vx, vy, vz, speed, N, static, kinetic, law.breakaway, law.deadband, law.damping, mobility[i], period
        )
        call_at(law.address, touch, law.keys, law.bond, law.friction)
        _take(law.bond, law.friction, i, n, touch, bonds, rubbing)


@kernel
def _take(bond, friction, i, n, touch, bonds, rubbing):
    """Take what a law has answered for row i, as far as friction can be that."""
    fx, fy, fz, viscosity = friction[0], friction[1], friction[2], friction[3]
    total = fx + fy + fz + bond[0] + bond[1] + bond[2]
    if not (math.isfinite(total) and 0.0 <= bond[3] < math.inf and viscosity >= 0.0):
        release(bonds, i)
        return
    f_n = fx * n[0] + fy * n[1] + fz * n[2]
    fx, fy, fz = fx - f_n * n[0], fy - f_n * n[1], fz - f_n * n[2]
    size = math.sqrt(fx * fx + fy * fy + fz * fz)
    part = touch.static / size if size > touch.static else 1.0
    fx, fy, fz = part * fx, part * fy, part * fz
    rubbing.force[i, 0], rubbing.force[i, 1], rubbing.force[i, 2] = fx, fy, fz
    rubbing.viscosity[i], rubbing.viscous_limit[i] = viscosity, touch.static
    K, h, strain = bond[3], touch.period, bonds.strain[i]
    dx, dy, dz = (
        bond[0] - strain[0] - h * touch.vx,
        bond[1] - strain[1] - h * touch.vy,
        bond[2] - strain[2] - h * touch.vz,
    )
    missed = K * (abs(dx) + abs(dy) + abs(dz)) + abs(fx + K * bond[0]) + abs(fy + K * bond[1]) + abs(fz + K * bond[2])
    elastic = bond[4] == 0.0 and K > 0.0 and missed <= ROUNDING * touch.static
    strain[0], strain[1], strain[2] = bond[0], bond[1], bond[2]
    bonds.stiffness[i] = K
    bonds.sliding[i] = STICKS if elastic else SLIDES
