"""Friction of sustained contact: bonds between touching points that stretch, break and form again (THESIS 4.3.1).

Four models share one kernel over contact rows, `friction_forces`. It sees the sliding velocity v (of B relative to A,
in the tangent plane), the normal force N and the coefficients, and gives the force on B; A gets the opposite. All
vectors are in world axes and projected on the tangent plane of their row, so that no tangent basis is needed. A viscous
part is only returned as a coefficient for each row: `damp` then applies it to all contacts together. Each model has two
forms, consistent (the default) and printed.

A *bond* is a spring from A to B with the strain z, stretched by v. It breaks at the breakaway distance z0, where it
carries the static friction, so its stiffness is K = mu_s N / z0. Sliding, it carries the kinetic friction mu_k N,
that is the strain z_k = z0 mu_k / mu_s. THESIS (4.6) writes the same as (1 + a) K_r for sticking and K_r for sliding,
with K_r = mu_k N / z0 and a = mu_s / mu_k - 1, but keeps z when a contact begins to stick, so that the force jumps. In
the *consistent* form the force is continuous:

- `reset_integrator` (Haessig and Friedland; THESIS 4.6-4.8). Sticking: dz/dt = v, f = -(K z + beta v). Sliding: z
  follows the motion with the length z_k, f = -K z. Slides when |z| passes z0; sticks again when the speed falls below
  the dead band or v turns against z. So the dead band makes a contact stick earlier; in (4.8) it makes it stick later:
  the bond pushes a point back until it is as fast as v_min, without becoming shorter.
- `karnopp` (Nahvi's finger pad; 4.9-4.10). Sticking: f = -K z. Sliding: f = -mu_k N v/|v|, and the centre of the
  bond follows so that sticking begins with that force: (4.10) with mu_d |n| / k_f for its radius, k_f = K. Sticks when
  the speed falls below the dead band or, so that a step across the dead band does not miss it, v turns against z.
  Undamped; along a line it moves as `reset_integrator` without damping does.
- `dahl` (driftless, Hayward and Armstrong; 4.11-4.12). f = -K z throughout, z_k is z_max, and only displacements
  matter, not their speed. Sticking: dz = ds, so no drift. Sliding: dz = ds - |ds| z / z_max, integrated exactly
  instead of by Euler; the friction falls from static to kinetic over some z_max. Sticks when ds turns against z.
- `coulomb` (classical; figure 4.8). f = -mu_k N v/|v| outside the dead band, viscous inside it, where it rises to the
  static friction: f = -mu_s N v / v_min. Has no memory and creeps under any load F below mu_s N, at v_min F / (mu_s N).

**Printed** (`form`): the laws of THESIS themselves, at the velocity before the step, without caps, and with only those
corrections without which they cannot be simulated (errata 6): the force opposes the motion; (4.8) has v < v_min and
z <= -z0 as its second condition; (4.10) has mu_d |n| / k_f; z of (4.11) is signed, or a vector.

- `reset_integrator`: f = -((1 + a) K_r z + beta v) while it sticks and -K_r z while it slips, of z before the step, and
  then z += h v while it sticks (4.6); slips by (4.8). Where it sticks again the force jumps from mu_k N to mu_s N,
  which adds the energy 1/2 a K_r z0^2. Undamped, the oscillation of stiction grows by (1 + h^2 w^2)^(1/2) in each step
  until the bond breaks; beta is stable up to about m / h for the two contacts of figure 4.6: 1024 N s/m, not 1180.
- `karnopp`: k_f = mu_s N / z0, so that the spring's rupture limit mu_s |n| is reached at z0 (the text also has it slip
  at mu_d / k_f, which is where it begins to stick). Each step: a contact that sticks slips once |z| > z0;
  one that slips sticks where the speed is below v_min, with the centre of (4.10). A speed that passes the dead band
  within a step is missed, and friction makes the point oscillate: with 2 kg at 512 Hz, from forces of 0.2 N on.
- `dahl`: (4.11) with z of before the step, z_max = z0, so that the force is mu_k N at most, and bonds are softer by
  mu_k / mu_s; (4.12) by forward Euler, and never beyond z_max, "the maximum value of this distance": without that it
  oscillates at h |v| > 2 z_max, 10 mm/s here.
- `coulomb`: as above, explicit.

(4.6) to (4.12) have one direction; in the plane of a contact, z of a slipping `reset_integrator` follows the motion
with constant length. Energy that such a law adds is numerical in the balance of a trial, like energy that sampling
adds.

**Guarantees** of the consistent form, for coefficients 0 <= mu_k <= mu_s: |f| <= mu_s N, f . n = 0; a row with N = 0
has no force and no bond; sliding steadily, |f| = mu_k N against v. A velocity or normal force that is not finite
counts as N = 0.
The viscous force is at most mu_s N by itself and acts only while a contact sticks; it is not counted towards breakaway
(4.6 limits the strain). Were the sum limited, a load put on at once would break bonds well below the static friction,
as nothing could catch the mass before the bond is at its end.

**Energy.** A bond stores 1/2 K |z|^2 (`bond_energy`); the rest of the work of friction is dissipated. A bond gains
energy only by being stretched: as its normal force grows, the bond keeps its force and gets shorter (new asperities
touch unstrained); as it falls, the bond keeps its strain. Thus friction under a changing load is passive too, but
creeps by a part of z0 in each cycle of the normal force.

**Sampling.** The caller steps by semi-implicit Euler: the velocity given is the one that moved the bodies in the step
before, so z follows their displacement exactly (forward Euler for z, as in 4.12, amplifies the stiction oscillation).
The force is then held for a step; doing so, a sticking bond returns up to 1/2 K |dz|^2 too much, which for an isolated
bond evens out over an oscillation. Explicit damping is unstable where 2 h beta w + h^2 K w > 4, with w [1/kg] the
velocity that unit impulses at all contacts cause: for two contacts on 2 kg at 1/512 s (w = 1/kg), beta = 1180 N s/m
is, the limit being 1024 less a little. So damping is implicit, and stable at any size. Bonds are stable where
h^2 K w <= 4; the kernel takes a bound of w for each row, its *mobility*, and keeps h^2 K w <= 2 (by a larger z0) and
the dead band of `coulomb` so wide that friction alone cannot carry a point through it in a step. Mobility 0: no caps.

Limits: bonds are kept in world axes and do not turn with bodies that turn together about the normal. In a step in
which N grows faster than the bond is stretched, `reset_integrator` and `dahl` slide with less than mu_k N.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from pydantic import model_validator

from haptic_sim.contact.friction_models import (
    BREAKS_AWAY,
    COULOMB,
    DAHL,
    FOREIGN,
    KARNOPP,
    NONE,
    RESET_INTEGRATOR,
    SLIDES,
    STICKS,
    AnyFrictionModelParameters,
    ResetIntegratorParameters,
)
from haptic_sim.dynamics.scaled import apply_impulse, contact_velocity
from haptic_sim.kernels import kernel
from haptic_sim.parameters import Parameters, quantity
from haptic_sim.records import array, record, value

DAMPING_SWEEPS, DAMPING_TOLERANCE = 50, 1e-8  # of the largest impulse


class FrictionParameters(Parameters):
    """Friction of all contacts."""

    model: AnyFrictionModelParameters = quantity(
        ResetIntegratorParameters(),
        description="Friction model of sustained contact; its type alone, or a mapping with its keys",
    )
    form: Literal["consistent", "printed"] = quantity(
        "consistent",
        description="Law of the model: consistent: bonds follow the displacement, keep their force where they begin to "
        "stick, break at the static and slide at the kinetic coefficient, and are damped implicitly; printed: THESIS "
        "(4.6) to (4.12), explicit at the servo period, with nothing but signs and a missing normal force corrected",
    )
    static: float = quantity(0.25, description="Coefficient of static friction", live=True, ge=0.0, le=100.0)
    kinetic: float = quantity(0.2, description="Coefficient of kinetic friction", live=True, ge=0.0, le=100.0)
    breakaway: float = quantity(
        1e-5, unit="m", description="Strain at which a bond breaks and sliding begins", live=True, gt=0.0, le=0.1
    )
    deadband: float = quantity(
        1e-4, unit="m/s", description="Sliding speed below which a contact counts as at rest", live=True, ge=0.0, le=1.0
    )
    damping: float = quantity(
        0.0,
        unit="N s/m",
        description="Damping of the bond of each sticking contact, with model reset_integrator",
        live=True,
        ge=0.0,
        le=1e6,
    )
    rolling: float = quantity(
        0.0,
        unit="m",
        description="Coefficient of rolling friction: largest moment in the tangent plane per normal force, by which "
        "that may lie ahead of the contact point; with every model and method",
        ge=0.0,
        le=1.0,
    )
    torsional: float = quantity(
        0.0,
        unit="m",
        description="Coefficient of torsional friction: largest moment about the normal per normal force; for a "
        "patch of radius a under uniform pressure, 2/3 a times the coefficient of sliding; with every model and method",
        ge=0.0,
        le=1.0,
    )

    @model_validator(mode="after")
    def _no_foreign_law_is_printed(self) -> FrictionParameters:
        if self.form == "printed" and self.model.CODE == FOREIGN:
            raise ValueError(f".form = printed: model = {self.model.type} has one form only; leave it out")
        return self

    @model_validator(mode="after")
    def _kinetic_is_not_larger(self) -> FrictionParameters:
        if self.kinetic > self.static:
            if "kinetic" in self.model_fields_set:
                raise ValueError(
                    f".kinetic = {self.kinetic:g}: must be <= static = {self.static:g}; lower it or raise static"
                )
            raise ValueError(
                f".static = {self.static:g}: must be >= kinetic = {self.kinetic:g}; raise it or lower kinetic"
            )
        return self

    @property
    def code(self) -> int:
        """The model as kernels know it."""
        return self.model.CODE


@record
class FrictionLaw(NamedTuple):
    """`FrictionParameters` as kernels have them."""

    model: int = value("NONE, RESET_INTEGRATOR, KARNOPP, DAHL, COULOMB or FOREIGN")
    printed: bool = value("whether the form of the law is the printed one")
    breakaway: float = value("strain z0 at which a bond breaks", unit="m")
    deadband: float = value("sliding speed v_min of a contact at rest", unit="m/s")
    damping: float = value("damping beta of a bond", unit="N s/m")
    address: int = value("address of a law of another package, else 0")
    keys: np.ndarray = value("numbers for that law")
    bond: np.ndarray = value("memory of the bond during a call, (5,)")
    friction: np.ndarray = value("result of the law, (4,)")

    @classmethod
    def of(cls, parameters: FrictionParameters) -> FrictionLaw:
        return cls(
            model=parameters.code,
            printed=parameters.form == "printed",
            breakaway=parameters.breakaway,
            deadband=parameters.deadband,
            damping=parameters.damping,
            address=parameters.model.address(),
            keys=np.array(parameters.model.keys(), float),
            bond=np.zeros(5),
            friction=np.zeros(4),
        )


@record
class Bonds(NamedTuple):
    """Friction states of the contacts, for kernels."""

    id: np.ndarray = array("identity of the contact", "contacts", dtype=np.int64)
    strain: np.ndarray = array("z, from A to B in world axes", "contacts", 3, unit="m")
    stiffness: np.ndarray = array("K, 0 if there is no bond", "contacts", unit="N/m")
    sliding: np.ndarray = array("STICKS, BREAKS_AWAY or SLIDES", "contacts", dtype=np.int8)
    held: np.ndarray = array(
        "whether the bond stays as it is in this step, without a force", "contacts", dtype=np.bool_
    )
    final_storage: np.ndarray = array("storage after the step before, see `passivity`", "contacts", unit="J")


@record
class Rubbing(NamedTuple):
    """Inputs and results of the friction law at each contact; see `friction_forces`."""

    slip: np.ndarray = array(
        "velocity of B's point relative to A's after the step before, in world axes; a normal part is ignored",
        "contacts",
        3,
        unit="m/s",
    )
    normal_force: np.ndarray = array("normal force", "contacts", unit="N")
    mobility: np.ndarray = array(
        "bound of the tangential velocity per unit impulses at all contacts (`tangential_mobility`); 0: no caps",
        "contacts",
        unit="1/kg",
    )
    force: np.ndarray = array("friction on B but for its viscous part, in world axes", "contacts", 3, unit="N")
    viscosity: np.ndarray = array("viscous friction per velocity", "contacts", unit="N s/m")
    viscous_limit: np.ndarray = array("largest viscous friction, infinite if unlimited", "contacts", unit="N")


def table_size(capacity: int) -> int:
    """Length of the table that `carry_over` needs for bonds of so many contacts."""
    return 1 << (2 * max(capacity, 1) - 1).bit_length()


@kernel
def _slot(id, bits):
    """First place of an identity in a table of 2^bits, by Fibonacci hashing."""
    return np.int64((np.uint64(id) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - bits))


@kernel
def carry_over(count, id, count_before, before, now, table):
    """Fill the first `count` bonds of `now` for the contacts `id` with what the same contacts had in `before`.

    Takes time linear in the counts. A bond goes to one contact only, should an identity occur twice. `table`
    (T,) int64 is memory, T a power of two and at least twice the count before (`table_size`). Returns whether the
    contacts are the same, in the same order.
    """
    same = count == count_before
    for i in range(min(count, count_before)):
        same = same and before.id[i] == id[i]
    if same:
        strain, now_strain, stiffness, now_stiffness = before.strain, now.strain, before.stiffness, now.stiffness
        sliding, now_sliding, now_id = before.sliding, now.sliding, now.id
        final_storage, now_storage = before.final_storage, now.final_storage
        for i in range(count):
            now_id[i], now_stiffness[i], now_sliding[i] = id[i], stiffness[i], sliding[i]
            now_storage[i] = final_storage[i]
            now_strain[i, 0], now_strain[i, 1], now_strain[i, 2] = strain[i, 0], strain[i, 1], strain[i, 2]
        return True
    bits = 1
    while (1 << bits) < 2 * count_before:
        bits += 1
    mask = (1 << bits) - 1
    for k in range(mask + 1):
        table[k] = -1
    for j in range(count_before):
        k = _slot(before.id[j], bits)
        while table[k] >= 0:
            k = (k + 1) & mask
        table[k] = j
    for i in range(count):
        now.id[i] = id[i]
        now.strain[i, 0] = now.strain[i, 1] = now.strain[i, 2] = 0.0
        now.stiffness[i] = now.final_storage[i] = 0.0
        now.sliding[i] = STICKS
        k = _slot(id[i], bits)
        while table[k] != -1:
            j = table[k]
            if j >= 0 and before.id[j] == id[i]:
                for d in range(3):
                    now.strain[i, d] = before.strain[j, d]
                now.stiffness[i], now.final_storage[i] = before.stiffness[j], before.final_storage[j]
                now.sliding[i] = before.sliding[j]
                table[k] = -2  # taken
                break
            k = (k + 1) & mask
    return False


@kernel
def friction_forces(law, count, normal, mu, period, bonds, rubbing):
    """Move `bonds` on by a step and fill force, viscosity and viscous_limit of `rubbing`.

    The viscous part of friction is not in the force. It is for `damp`, and with a printed law acts at the velocity
    given.

    Args:
        law: `FrictionLaw`.
        count: number of rows in use.
        normal: unit normals, (C, 3).
        mu: static and kinetic coefficients, (C, 2).
        period: h [s].
        bonds: `Bonds` of these rows, changed in place.
        rubbing: `Rubbing`. Rows without a normal force are released, unless their bonds are held.
    """
    h, model, breakaway, deadband, damping = period, law.model, law.breakaway, law.deadband, law.damping
    slip, normal_force, mobility = rubbing.slip, rubbing.normal_force, rubbing.mobility
    strain, bond_stiffness, bond_sliding, held = bonds.strain, bonds.stiffness, bonds.sliding, bonds.held
    force, viscosity, viscous_limit = rubbing.force, rubbing.viscosity, rubbing.viscous_limit
    for i in range(count):
        force[i, 0] = force[i, 1] = force[i, 2] = viscosity[i] = viscous_limit[i] = 0.0
        if held[i]:
            continue
        nx, ny, nz = normal[i, 0], normal[i, 1], normal[i, 2]
        vx, vy, vz = slip[i, 0], slip[i, 1], slip[i, 2]
        v_n = vx * nx + vy * ny + vz * nz
        vx, vy, vz = vx - v_n * nx, vy - v_n * ny, vz - v_n * nz
        speed = math.sqrt(vx * vx + vy * vy + vz * vz)
        N, w = normal_force[i], mobility[i]
        static = mu[i, 0] * N  # largest friction at rest, and friction of sliding [N]
        kinetic = min(mu[i, 1], mu[i, 0]) * N
        if model == NONE or not (0.0 < static < math.inf and speed < math.inf):  # no number counts as no contact
            release(bonds, i)
            continue
        if law.printed:
            velocity, unit = (vx, vy, vz, speed), (nx, ny, nz)
            _apply_printed_law(law, i, unit, velocity, static, kinetic, h, bonds, rubbing)
            continue
        if model == COULOMB:
            release(bonds, i)
            band = max(deadband, h * w * kinetic)
            if speed > band:
                bond_sliding[i] = SLIDES
                scale = -kinetic / speed
                force[i, 0], force[i, 1], force[i, 2] = scale * vx, scale * vy, scale * vz
            else:
                viscosity[i] = static / band if band > 0.0 else math.inf
                viscous_limit[i] = static
            continue

        z0 = max(breakaway, 0.5 * h * h * w * static)
        K = static / z0
        z_k = z0 * (kinetic / static)

        # the bond in today's tangent plane, under today's normal force; neither can raise its energy
        zx, zy, zz = strain[i, 0], strain[i, 1], strain[i, 2]
        z_n = zx * nx + zy * ny + zz * nz
        keep = bond_stiffness[i] / K if bond_stiffness[i] < K else 1.0
        zx, zy, zz = keep * (zx - z_n * nx), keep * (zy - z_n * ny), keep * (zz - z_n * nz)
        dx, dy, dz = h * vx, h * vy, h * vz

        sliding = bond_sliding[i]
        if sliding != STICKS:
            if speed > deadband:
                sliding = SLIDES
            turned = zx * vx + zy * vy + zz * vz < 0.0 or speed == 0.0
            slowed = sliding == SLIDES and speed <= deadband and model != DAHL
            if turned or slowed:
                sliding = STICKS
        if sliding == STICKS:
            x, y, z = zx + dx, zy + dy, zz + dz
            if x * x + y * y + z * z <= z0 * z0:
                zx, zy, zz = x, y, z
            else:
                sliding = SLIDES if speed > deadband else BREAKS_AWAY
        if sliding != STICKS:
            if model == RESET_INTEGRATOR:
                zx, zy, zz = zx + dx, zy + dy, zz + dz
                length = math.sqrt(zx * zx + zy * zy + zz * zz)
                if length > z_k:
                    zx, zy, zz = zx * (z_k / length), zy * (z_k / length), zz * (z_k / length)
            elif model == KARNOPP:
                # THESIS (4.10); while N grows, no more energy goes into the bond than friction takes
                length = min(z_k, math.sqrt(zx * zx + zy * zy + zz * zz) + h * speed) / speed
                zx, zy, zz = length * vx, length * vy, length * vz
            else:
                # THESIS (4.12): dz/ds = t - z/z_k along the direction t, without sign(v) as z is a vector
                decay = math.exp(-h * speed / z_k) if z_k > 0.0 else 0.0
                part = (1.0 - decay) * z_k / speed
                zx, zy, zz = decay * zx + part * vx, decay * zy + part * vy, decay * zz + part * vz
                length = math.sqrt(zx * zx + zy * zy + zz * zz)
                if length > z0:  # where z0 is capped, it falls with N
                    zx, zy, zz = zx * (z0 / length), zy * (z0 / length), zz * (z0 / length)
        strain[i, 0], strain[i, 1], strain[i, 2] = zx, zy, zz
        bond_stiffness[i] = K
        bond_sliding[i] = sliding

        if model == KARNOPP and sliding != STICKS:
            fx, fy, fz = -kinetic * (vx / speed), -kinetic * (vy / speed), -kinetic * (vz / speed)
        else:
            fx, fy, fz = -K * zx, -K * zy, -K * zz
            if model == RESET_INTEGRATOR and sliding == STICKS:
                viscosity[i] = damping
                viscous_limit[i] = static
        force[i, 0], force[i, 1], force[i, 2] = fx, fy, fz


@kernel
def _apply_printed_law(law, i, normal, velocity, static, kinetic, h, bonds, rubbing):
    """Apply the printed friction law to row i, as `friction_forces` does for all rows.

    `velocity`: tangential velocity and its magnitude, four numbers; `static`, `kinetic`: friction [N].
    """
    force, viscosity, viscous_limit = rubbing.force, rubbing.viscosity, rubbing.viscous_limit
    vx, vy, vz, speed = velocity
    z0, deadband = law.breakaway, law.deadband
    if law.model == COULOMB:  # figure 4.8
        release(bonds, i)
        if speed > deadband:
            bonds.sliding[i] = SLIDES
            force[i, 0], force[i, 1], force[i, 2] = -kinetic * vx / speed, -kinetic * vy / speed, -kinetic * vz / speed
        elif deadband > 0.0:
            viscosity[i], viscous_limit[i] = static / deadband, math.inf
        return
    zx, zy, zz = bonds.strain[i, 0], bonds.strain[i, 1], bonds.strain[i, 2]
    z_n = zx * normal[0] + zy * normal[1] + zz * normal[2]
    zx, zy, zz = zx - z_n * normal[0], zy - z_n * normal[1], zz - z_n * normal[2]
    length = math.sqrt(zx * zx + zy * zy + zz * zz)
    dx, dy, dz = h * vx, h * vy, h * vz
    if law.model == KARNOPP:
        K = static / z0  # k_f of a spring that breaks at mu_s |n| when it is z0 long
        sliding = bonds.sliding[i]
        sticks = sliding == STICKS
        if sticks:  # z = a - c
            zx, zy, zz = zx + dx, zy + dy, zz + dz
            if zx * zx + zy * zy + zz * zz > z0 * z0:
                sliding = SLIDES
        elif speed < deadband or speed == 0.0:
            sliding = STICKS
        if (sliding == SLIDES or not sticks) and speed > 0.0:  # a - c of (4.10), with mu_d |n| / k_f
            scale = kinetic / K / speed
            zx, zy, zz = scale * vx, scale * vy, scale * vz
        force[i, 0], force[i, 1], force[i, 2] = -K * zx, -K * zy, -K * zz  # sliding: (4.9)
    elif law.model == RESET_INTEGRATOR:
        stretching = zx * vx + zy * vy + zz * vz  # |z| times the sliding velocity along the bond
        sliding = SLIDES if length >= z0 and stretching > -deadband * length else STICKS  # (4.8)
        K = (static if sliding == STICKS else kinetic) / z0  # (1 + a) K_r and K_r
        force[i, 0], force[i, 1], force[i, 2] = -K * zx, -K * zy, -K * zz  # (4.6)
        if sliding == STICKS:
            viscosity[i], viscous_limit[i] = law.damping, math.inf
            zx, zy, zz = zx + dx, zy + dy, zz + dz
        elif stretching > 0.0:  # dz/dt = 0 along the bond, which is dragged along in the plane
            zx, zy, zz = zx + dx, zy + dy, zz + dz
            part = length / math.sqrt(zx * zx + zy * zy + zz * zz)
            zx, zy, zz = part * zx, part * zy, part * zz
    else:
        K = kinetic / z0  # (4.11), z0 being z_max
        force[i, 0], force[i, 1], force[i, 2] = -K * zx, -K * zy, -K * zz
        sliding = SLIDES if length >= z0 * (1.0 - 1e-9) else STICKS  # sliding, it is z0 up to rounding
        # (4.12) by forward Euler, z being a vector; beyond 1, where z_max bounds it along a line anyway, it would swing
        # across the motion in the plane
        part = min(h * speed / z0, 1.0) if sliding == SLIDES else 0.0
        zx, zy, zz = zx + dx - part * zx, zy + dy - part * zy, zz + dz - part * zz
        length = math.sqrt(zx * zx + zy * zy + zz * zz)
        if length > z0:  # z_max "is the maximum value of this distance"
            zx, zy, zz = zx * (z0 / length), zy * (z0 / length), zz * (z0 / length)
    bonds.strain[i, 0], bonds.strain[i, 1], bonds.strain[i, 2] = zx, zy, zz
    bonds.stiffness[i] = K
    bonds.sliding[i] = sliding


@kernel
def _side_block(contacts, i, side):
    """Entries 11, 12 and 22 of W W^T for the two tangential rows of one side of contact i [1/kg]."""
    t = contacts.tree[i, side]
    return _block(contacts.W, i, side, contacts.size[t]) if t >= 0 else (0.0, 0.0, 0.0)


@kernel(inline="always")
def _block(W, i, side, size):
    """Part of the tangential inverse inertia from one side with `size` coordinates; see `_side_block`."""
    a = b = c = 0.0
    for k in range(size):
        x, y = W[i, 1, side, k], W[i, 2, side, k]
        a += x * x
        b += x * y
        c += y * y
    return a, b, c


@kernel
def _tangential_block(contacts, i):
    """Entries 11, 12 and 22 of the tangential block of contact i with itself [1/kg]."""
    a, b, c = _side_block(contacts, i, 0)
    d, e, f = _side_block(contacts, i, 1)
    return a + d, b + e, c + f


@kernel
def damp(contacts, count, viscosity, limit, period, u, force, blocks):
    """Let the viscous friction of all contacts act on the scaled velocity `u` of the end of the step, in place.

    Implicit: f_i = -viscosity_i v_i with the sliding velocities v after it, or |f_i| = limit_i against v_i where that
    is less. This is the minimum over the impulses p = h f, |p_i| <= h limit_i, of the strictly convex
        1/2 |u + W^T p|^2 + sum_i |p_i|^2 / (2 h viscosity_i),
    found by projected Gauss-Seidel from p = 0. Every sweep lowers it, so kinetic energy is only ever taken (where the
    contacts have no velocity of their own), no matter how many sweeps there are; the solution depends on no order.

    Args:
        contacts: `ScaledContacts` of the rows.
        count: number of rows.
        viscosity: [N s/m], (C,); infinite: sticks within the limit. 0: the row has none.
        limit: [N], (C,).
        period: h [s].
        u: scaled velocity with all other forces of the step in it, (nv,), changed.
        force: along tangent 1 and tangent 2 [N], (C, 2), filled.
        blocks: memory, (C, 3).

    Returns:
        The number of sweeps, at most DAMPING_SWEEPS.
    """
    for i in range(count):
        force[i, 0] = force[i, 1] = 0.0  # impulses, until the end
        if viscosity[i] > 0.0 and limit[i] > 0.0:
            blocks[i, 0], blocks[i, 1], blocks[i, 2] = _tangential_block(contacts, i)
    sweeps = 0
    while sweeps < DAMPING_SWEEPS:
        sweeps += 1
        change, largest = 0.0, 0.0
        for i in range(count):
            if not (viscosity[i] > 0.0 and limit[i] > 0.0):
                continue
            compliance = 1.0 / (period * viscosity[i])
            a, b, c = blocks[i, 0] + compliance, blocks[i, 1], blocks[i, 2] + compliance
            determinant = a * c - b * b
            p1, p2 = force[i, 0], force[i, 1]
            g1 = contact_velocity(contacts, i, 1, u) + compliance * p1
            g2 = contact_velocity(contacts, i, 2, u) + compliance * p2
            most = period * limit[i]
            inside = False
            q1, q2 = p1, p2
            if determinant > 1e-12 * a * c:
                q1, q2 = p1 - (c * g1 - b * g2) / determinant, p2 - (a * g2 - b * g1) / determinant
                inside = q1 * q1 + q2 * q2 <= most * most
            if not inside:  # down the gradient by what the largest curvature allows, and back onto the limit
                curvature = 0.5 * (a + c) + math.sqrt(0.25 * (a - c) * (a - c) + b * b)
                if curvature <= 0.0:
                    continue
                q1, q2 = p1 - g1 / curvature, p2 - g2 / curvature
                length = math.sqrt(q1 * q1 + q2 * q2)
                if length > most:
                    q1, q2 = q1 * (most / length), q2 * (most / length)
            apply_impulse(contacts, i, 1, q1 - p1, u)
            apply_impulse(contacts, i, 2, q2 - p2, u)
            force[i, 0], force[i, 1] = q1, q2
            change = max(change, abs(q1 - p1), abs(q2 - p2))
            largest = max(largest, abs(q1), abs(q2))
        if change <= DAMPING_TOLERANCE * largest:
            break
    for i in range(count):
        force[i, 0], force[i, 1] = force[i, 0] / period, force[i, 1] / period
    return sweeps


@kernel
def release(bonds, i):
    """Let a bond go."""
    bonds.strain[i, 0] = bonds.strain[i, 1] = bonds.strain[i, 2] = 0.0
    bonds.stiffness[i] = 0.0
    bonds.sliding[i] = STICKS


@kernel
def bond_energy(count, bonds, energy):
    """Fill `energy` (C,) with what each bond stores, 1/2 K |z|^2 [J], and return the sum.

    With the work W of the friction forces on the bodies over a step, friction has dissipated -W less the growth of
    this sum.
    """
    total = 0.0
    strain, stiffness = bonds.strain, bonds.stiffness
    for i in range(count):
        s = 0.0
        for d in range(3):
            s += strain[i, d] * strain[i, d]
        energy[i] = 0.5 * stiffness[i] * s
        total += energy[i]
    return total


@kernel
def tangential_norms(contacts, count, norms):
    """Fill `norms` (C, 2) with the largest singular value of the tangential rows of each side [kg^-1/2]."""
    W, tree, size = contacts.W, contacts.tree, contacts.size
    for i in range(count):
        for side in range(2):
            t = tree[i, side]
            if t >= 0:
                if size[t] == 6:  # the compiler unrolls the loop
                    a, b, c = _block(W, i, side, 6)
                else:
                    a, b, c = _block(W, i, side, size[t])
                norms[i, side] = math.sqrt(0.5 * (a + c) + math.sqrt(0.25 * (a - c) * (a - c) + b * b))


@kernel
def tangential_mobility(contacts, count, normal_force, norms, sums, mobility):
    """Fill `mobility` (C,) [1/kg] with bounds under which `friction_forces` keeps any system of contacts stable.

    For row i that is a bound of sum_j |W_i W_j^T| over the tangential blocks of the rows with a normal force, namely
    the sum over its sides of |W_i| sum_j |W_j| in the same tree, in time linear in the rows. If h^2 K_i times it is at
    most 2, so is the spectral radius of h^2 diag(K) W W^T (its block row sums are). Exact for contacts that push in the
    same way on one body.

    Args:
        contacts: `ScaledContacts` of the rows.
        norms: |W_i| of each side, see `tangential_norms`, (C, 2).
        sums: memory, (trees,).
    """
    tree = contacts.tree
    for t in range(contacts.size.shape[0]):
        sums[t] = 0.0
    for i in range(count):
        if normal_force[i] > 0.0:
            for side in range(2):
                if tree[i, side] >= 0:
                    sums[tree[i, side]] += norms[i, side]
    for i in range(count):
        mobility[i] = 0.0
        for side in range(2):
            if tree[i, side] >= 0:
                mobility[i] += norms[i, side] * sums[tree[i, side]]
