"""Contacts by the method of another package: its kernel is called in each step, with the contacts as arrays.

What it gives is taken where it is finite; a contact whose answer has a NaN or an infinite number has no impulse in that
step. It may give any impulse, also one that pulls or drives. The energy balance counts the work: what the method gives
beyond what its contacts had stored is numerical energy, and a trial that lives on it is unstable.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.core import types

from haptic_sim import kernels
from haptic_sim.contact.friction_models import NONE
from haptic_sim.contact.groups import find_place
from haptic_sim.contact.rebounds import close_rebounds, open_rebounds
from haptic_sim.contact.response import (
    CONTACTS,
    RELEASED,
    REMEMBERED,
    SLIDING,
    STATE,
    STORED,
    UNRESOLVED,
    ContactParameters,
    ContactResponse,
    Impulses,
    add_up,
    build_step,
    fill_scaled,
    foresee,
    set_up,
)
from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.dynamics.scaled import ScaledContacts, contact_velocities
from haptic_sim.kernels import call_at, kernel
from haptic_sim.messages import COLLIDING, FREE, RESTING
from haptic_sim.packed import Packed
from haptic_sim.records import allocate, array, record, shared, value

COLLIDES, FAILED = range(2)
"""Places in `MethodContacts.outcome`."""
MEMORY = 8  # numbers that a contact remembers
_SLIDES = 1e-7  # [m/s] slip of a contact that slides


@record
class MethodContacts(NamedTuple):
    """The contacts of a step as the kernel of another package has them.

    Directions of a contact are its normal and two tangents, of which the second is normal x tangent; impulses are on
    body B, velocities those of B relative to A. `impulses`, `stored` and `outcome` are to be filled in.
    `haptic_sim.dynamics.scaled` has what contacts do to each other: `contact_velocity(contacts.scaled, i, d, u)` is
    the velocity of contact i in direction d, and `apply_impulse(contacts.scaled, i, d, p, u)` changes u by an impulse.
    """

    id: np.ndarray = array("identity that persists from step to step", "contacts", dtype=np.int64)
    separation: np.ndarray = array("distance along the normal, negative where they overlap", "contacts", unit="m")
    normal: np.ndarray = array("unit normal from A to B in world axes", "contacts", 3)
    tangent: np.ndarray = shared("first tangent in world axes", "contacts", 3)
    limit: np.ndarray = array(
        "whether it is the limit of a joint, which has no tangents; of an IMPULSIVE method alone",
        "contacts",
        dtype=np.bool_,
    )
    restitution: np.ndarray = array("coefficient of restitution", "contacts")
    friction: np.ndarray = array("static and kinetic coefficients of friction; 0 with the model none", "contacts", 2)
    stiffness: np.ndarray = array("contact.stiffness, as its wall shares it", "contacts", unit="N/m")
    damping: np.ndarray = array("contact.damping, as its wall shares it", "contacts", unit="N s/m")
    before: np.ndarray = shared("velocity before the step by direction", "contacts", 3, unit="m/s")
    free: np.ndarray = array("the same after the step, if no contact acts", "contacts", 3, unit="m/s")
    mobility: np.ndarray = array(
        "change of velocity in a direction by a unit impulse in it", "contacts", 3, unit="1/kg"
    )
    scaled: ScaledContacts = value("coupling of the contacts")
    u: np.ndarray = array("scaled velocity after the step, if no contact acts; free to change", "nv")
    keys: np.ndarray = shared("numbers among the keys of the part", "keys")
    memory: np.ndarray = array("numbers that a contact keeps for its next step; 0 when it begins", "contacts", MEMORY)
    impulses: Impulses = value("impulses of the contacts, and what they are of")
    stored: np.ndarray = array("elastic energy of the contact before the step", "contacts", unit="J")
    outcome: np.ndarray = array(
        "whether contacts collide in the step (0 or 1), and how often something did not converge", 2, dtype=np.int64
    )


@record
class ForeignArrays(NamedTuple):
    """Memory of a method of another package."""

    address: int = value("address of the compiled kernel")
    contacts: Packed = value("arguments of the kernel, `MethodContacts`")
    old_id: np.ndarray = array("contacts of the step before", "contacts", dtype=np.int64)
    old_memory: np.ndarray = array("memory of these contacts", "contacts", MEMORY)
    invalid: np.ndarray = array("steps in which an answer was not finite", 1, dtype=np.int64)


class ForeignContact(ContactResponse):
    """A method of another package.

    Args:
        method: its kernel.
        keys: numbers that it gets, (K,).
        ahead: whether contacts matter from the material's `margin` on.
        name: of the method, for errors.
    """

    def __init__(
        self,
        body: Multibody,
        parameters: ContactParameters,
        capacity: int,
        method: Any,
        keys: np.ndarray,
        *,
        ahead: bool = False,
        name: str = "",
    ):
        super().__init__(body, parameters, capacity)
        self._respond, self.step_kernel = _respond, _step
        self._ahead, self._kernel, self.foreign = ahead, method, name
        sizes = {"contacts": capacity, "nv": body.nu}
        arrays = allocate(
            MethodContacts,
            sizes,
            tangent=self.tangent,
            before=self._arrays.before,
            scaled=self._scaled,
            keys=keys,
            impulses=self.impulses,
        )
        contacts = Packed(arrays)
        address = kernels.address_of(method, (numba.typeof(contacts.arrays), types.int64, types.float64))
        self._method = allocate(ForeignArrays, sizes, address=address, contacts=contacts)

    @property
    def invalid_steps(self) -> int:
        """Steps in which a contact had no impulse, because the method's answer was not finite."""
        return int(self._method.invalid[0])

    @property
    def margin(self) -> float:
        """Up to which separation contacts matter [m]."""
        return self.parameters.margin if self._ahead else 0.0


@kernel
def _respond(packed, count, period):
    set_up(packed, count, period)
    fill_scaled(packed)
    _describe(packed, count, period)
    m = packed.arrays.method
    call_at(m.address, m.contacts.arrays, count, period)
    _take(packed, count, period)


@kernel
def _describe(packed, count, period):
    """Fill in what the method is called with."""
    a = packed.arrays
    m, rows, contacts, material = a.method, a.rows, a.method.contacts.arrays, a.material
    rubs = material.friction.model != NONE
    for j in range(contacts.u.shape[0]):
        contacts.u[j] = a.body.u[j] + a.external[j]
    contact_velocities(count, a.scaled, contacts.u, contacts.free)
    old_count = a.counts[REMEMBERED]
    impulses, W, tree = a.impulses, a.scaled.W, a.scaled.tree
    for i in range(count):
        contacts.id[i], contacts.separation[i] = rows.id[i], rows.separation[i]
        contacts.limit[i] = rows.coordinate[i] >= 0
        contacts.restitution[i] = rows.restitution[i]
        for d in range(3):
            contacts.normal[i, d] = rows.normal[i, d]
            s = 0.0
            for side in range(2):
                if tree[i, side] >= 0:
                    for k in range(a.scaled.size[tree[i, side]]):
                        s += W[i, d, side, k] * W[i, d, side, k]
            contacts.mobility[i, d] = s
        for d in range(2):
            contacts.friction[i, d] = rows.friction[i, d] if rubs else 0.0
        share = 1.0
        if material.shared:
            share = 0.0
            for k in range(count):
                if rows.wall[k] == rows.wall[i] and rows.coordinate[k] < 0:
                    share += rows.weight[k]
        part = rows.weight[i] / share if share > 0.0 else 1.0
        contacts.stiffness[i], contacts.damping[i] = part * material.stiffness, part * material.damping
        place = find_place(rows.id[i], m.old_id, old_count, i)
        for k in range(MEMORY):
            contacts.memory[i, k] = m.old_memory[place, k] if place >= 0 else 0.0
        _clear(impulses, contacts.stored, i)
    contacts.outcome[COLLIDES] = contacts.outcome[FAILED] = 0


@kernel
def _clear(impulses, stored, i):
    """Let contact i have no impulse."""
    p, bond = impulses.p, impulses.bond
    p[i, 0] = p[i, 1] = p[i, 2] = bond[i, 0] = bond[i, 1] = 0.0
    impulses.spring[i] = impulses.loosened[i] = stored[i] = 0.0
    impulses.impact[i] = False


@kernel
def _take(packed, count, period):
    """Take what the method has answered, as far as it is finite, and all that follows from it."""
    a = packed.arrays
    m, contacts, impulses, counts = a.method, a.method.contacts.arrays, a.impulses, a.counts
    p, bond, memory = impulses.p, impulses.bond, contacts.memory
    stored = 0.0
    closed = 0
    invalid = 0
    for i in range(count):
        total = p[i, 0] + p[i, 1] + p[i, 2] + bond[i, 0] + bond[i, 1]
        total += impulses.spring[i] + impulses.loosened[i] + contacts.stored[i]
        for k in range(MEMORY):
            total += memory[i, k]
        if not math.isfinite(total):
            invalid = 1
            _clear(impulses, contacts.stored, i)
            memory[i, :] = 0.0
        if contacts.limit[i]:  # it has no tangents
            p[i, 1] = p[i, 2] = bond[i, 0] = bond[i, 1] = 0.0
        contacts.stored[i] = max(0.0, contacts.stored[i])  # energy that is owed would hide what is added
        if impulses.impact[i]:
            impulses.loosened[i] = max(0.0, impulses.loosened[i])
        stored += contacts.stored[i]
        if p[i, 0] != 0.0 or contacts.separation[i] < 0.0:
            closed += 1
        m.old_id[i] = contacts.id[i]
        for k in range(MEMORY):
            m.old_memory[i, k] = memory[i, k]
    m.invalid[0] += invalid
    counts[REMEMBERED], counts[CONTACTS] = count, closed
    counts[UNRESOLVED] += max(0, contacts.outcome[FAILED])
    counts[STATE] = FREE if closed == 0 else COLLIDING if contacts.outcome[COLLIDES] != 0 else RESTING
    a.amounts[STORED], a.amounts[RELEASED] = stored, 0.0
    foresee(packed, count, period)
    if open_rebounds(packed, count, period, False):
        close_rebounds(packed, count, False)
    counts[SLIDING] = 0
    for i in range(count):
        x, y = a.after[i, 1], a.after[i, 2]
        if p[i, 0] > 0.0 and x * x + y * y > _SLIDES * _SLIDES:
            counts[SLIDING] += 1
    add_up(packed, count, period)


_step = build_step(_respond)
