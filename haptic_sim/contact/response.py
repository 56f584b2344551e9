"""What contacts do to the bodies during a step: the frame that all contact methods share.

A method turns the rows of a step into impulses p along (normal, tangent 1, tangent 2) of each contact. This module
sets up the contacts in scaled coordinates, adds up what the impulses do to the bodies and to the hand, and says who
dissipated what. The methods are in `compliant` (penalties, with or without collision impulses) and `rigid`
(complementarity); `methods` chooses.

Contact state (THESIS 4.2): FREE without contacts, COLLIDING in a step with collision impulses, RESTING otherwise.
An impulse p in a step of length T is the wrench J^T p / T of that step (THESIS 4.45).
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numba
import numpy as np

from haptic_sim.contact.friction import FrictionParameters
from haptic_sim.contact.rows import ContactRows, RowArrays
from haptic_sim.contact.scaled import ScaledContacts, apply_impulse, assemble, contact_velocity
from haptic_sim.energy import DAMPING, FRICTION, IMPACT, INJECTED, EnergyBalance
from haptic_sim.messages import FREE
from haptic_sim.multibody import BodyArrays, Multibody
from haptic_sim.packed import Packed
from haptic_sim.parameters import Gains, Parameters, quantity, six

Method = Literal["penalty", "impulse_augmented", "frictional_impulses", "constraint", "hybrid"]
RIGID: tuple[Method, ...] = ("constraint", "hybrid")
"""Methods in which contacts do not overlap."""
ImpulseRendering = Literal["full", "saturated", "scaled", "spread"]


class ContactParameters(Parameters):
    """Material of all contacts that have none of their own, and how contacts are resolved."""

    stiffness: float = quantity(4000.0, unit="N/m", description="Penalty stiffness", live=True, gt=0.0, le=1e7)
    damping: float = quantity(30.0, unit="N s/m", description="Penalty damping", live=True, ge=0.0, le=1e5)
    per: Literal["point", "wall"] = quantity(
        "point",
        description="Whether stiffness and damping are those of a contact point or shared by a wall's points",
    )
    restitution: float = quantity(0.0, description="Coefficient of restitution", live=True, ge=0.0, le=1.0)
    friction: FrictionParameters = quantity(
        FrictionParameters(), description="Friction; of the methods constraint and hybrid the coefficients"
    )
    margin: float = quantity(
        0.005, unit="m", description="Contacts nearer than this count in constraint and hybrid", gt=0.0, le=1.0
    )
    bounce: float = quantity(
        0.02,
        unit="m/s",
        description="A contact that approaches faster than this bounces, in constraint and hybrid",
        ge=0.0,
        le=10.0,
    )
    facets: int = quantity(
        8,
        description="Facets of the friction cone of the Lemke solver, an even number; 2 in planar worlds",
        ge=4,
        le=32,
    )
    solver: Literal["automatic", "lemke", "gauss_seidel"] = quantity(
        "automatic", description="Of the complementarity problem; automatic takes Lemke's up to lemke_contacts"
    )
    lemke_contacts: int = quantity(8, description="Most contacts that go to the Lemke solver", ge=1, le=64)
    tolerance: float = quantity(
        1e-9, unit="m/s", description="Of the Gauss-Seidel solver, in velocities of the contacts", gt=0.0, le=1e-3
    )
    cluster: float = quantity(
        0.0, unit="m", description="Contacts of two bodies nearer to each other than this are one", ge=0.0, le=1.0
    )


class DeviceLimits(Parameters):
    """What a device can render, and what is done about impulses that exceed it (THESIS 4.5.2)."""

    impulse_rendering: ImpulseRendering = quantity(
        "full",
        description="full: the device renders any wrench; saturated: it clips to its limit; scaled, spread: impulses "
        "are scaled to its limit where they arise",
    )
    wrench_limit: Gains = quantity(
        (15.0, 15.0, 1.0), unit="N, N m", description="What the device can render, in each direction"
    )

    def limit(self) -> np.ndarray:
        """The limit in all six directions (6,) [N, N m]; infinite where the device renders everything."""
        if self.impulse_rendering == "full":
            return np.full(6, np.inf)
        return np.array(six(self.wrench_limit))


class Impulses(NamedTuple):
    """What a method gives for each contact in use (C: capacity).

    Attributes:
        p: on B along normal, tangent 1, tangent 2 [N s], (C, 3).
        spring: the part of the normal one that a penalty spring gives [N s], (C,).
        impact: whether the normal one is of a collision or of a rigid contact, (C,) bool.
    """

    p: np.ndarray
    spring: np.ndarray
    impact: np.ndarray

    @classmethod
    def allocate(cls, capacity: int) -> Impulses:
        return cls(np.zeros((capacity, 3)), np.zeros(capacity), np.zeros(capacity, np.bool_))


class ResponseArrays(NamedTuple):
    """What a step works on, for kernels.

    Attributes:
        rows, body: contacts, and the bodies that they are of.
        scaled, tangent: contacts in scaled coordinates, and their first tangents, (C, 3).
        impulses, du, wrench: see `ContactResponse`.
        u: scaled velocity, (nv,): at first what it would become without contacts, in the end after the step.
        method: memory of the method.
    """

    rows: RowArrays
    body: BodyArrays
    scaled: ScaledContacts
    tangent: np.ndarray
    impulses: Impulses
    du: np.ndarray
    wrench: np.ndarray
    u: np.ndarray
    method: Any


class ContactResponse:
    """Contacts on the bodies of a model; derived classes are the methods.

    Args:
        body: whose contacts they are.
        parameters: material; may be replaced between two steps.
        capacity: rows at most.

    Attributes:
        du: what the contacts of the last step do to the scaled velocity, (nv,); u: that after the step, (nv,).
        wrench: the same at the hand, in world axes [N, N m] (6,).
        contacts: number of contacts; sliding: how many of them slide; state: FREE, COLLIDING or RESTING.
        unresolved: steps whose impulses did not converge and were damped.
        stored: energy of springs and bonds before the step [J].
    """

    def __init__(self, body: Multibody, parameters: ContactParameters, capacity: int):
        self.parameters = parameters
        self.capacity = capacity
        self.scaled = ScaledContacts.allocate(capacity, body.trees.start, body.trees.size)
        self.impulses = Impulses.allocate(capacity)
        self.tangent = np.zeros((capacity, 3))
        self.du, self.wrench = np.zeros(body.nv), np.zeros(6)
        self.contacts, self.sliding, self.state, self.unresolved = 0, 0, FREE, 0
        self.stored, self.bonded = 0.0, 0.0
        self.u = np.zeros(body.nv)
        self._packed: Packed | None = None
        self._packed_rows: ContactRows | None = None
        self._packed_body: Multibody | None = None
        self._rigid = int(np.count_nonzero(body.trees.of_joint == body.trees.of_joint[body.hand_joint])) == 1

    @property
    def margin(self) -> float:
        """Up to which separation contacts matter [m]."""
        return 0.0

    def respond(self, rows: ContactRows, body: Multibody, external: np.ndarray, period: float) -> None:
        """Find du, u, wrench, contacts and state for a step.

        Args:
            rows: contacts of `body` as it is.
            external: what forces other than contacts do to u during the step, (nv,).
            period: [s].
        """
        packed = self._packed
        if packed is None or rows is not self._packed_rows or body is not self._packed_body:
            self._packed_rows, self._packed_body = rows, body
            packed = self._packed = Packed(
                ResponseArrays(
                    rows.arrays,
                    body.arrays,
                    self.scaled,
                    self.tangent,
                    self.impulses,
                    self.du,
                    self.wrench,
                    self.u,
                    self._memory(),
                )
            )
        self._resolve(packed, rows.count, external, period)
        if not self._rigid:
            body.at_hand(self.du, period, self.wrench)

    def _memory(self) -> Any:
        """Memory of the method, for kernels."""
        raise NotImplementedError

    def _resolve(self, packed: Packed, count: int, external: np.ndarray, period: float) -> None:
        """Find all of it; `packed`: of `ResponseArrays`.

        Begins with `set_up` and ends with `add_up`; also says `stored` before the step, and `bonded`, by how much the
        energy of bonds grew.
        """
        raise NotImplementedError

    def book(self, rows: ContactRows, wrench: np.ndarray, balance: EnergyBalance) -> None:
        """Enter what was done during the step, in which `wrench` acted at the hand, into `balance`."""
        _book(self._packed, rows.count, self.bonded, wrench, balance.period, balance.values)


@numba.njit(cache=True, nogil=True)
def set_up(packed, count, external):
    """Put the contacts of `ResponseArrays` into scaled coordinates."""
    a = packed.arrays
    body = a.body
    for j in range(a.u.shape[0]):
        a.u[j] = body.u[j] + external[j]
    assemble(count, a.rows, body.J_W, body.support, body.tree_of, body.L, a.u, a.scaled, a.tangent)


@numba.njit(cache=True, nogil=True)
def add_up(packed, count, period):
    """Find what the impulses of `ResponseArrays` do to u and at the hand."""
    a = packed.arrays
    _collect(count, a.rows, a.scaled, a.tangent, a.impulses.p, a.body.hand, a.body.p_WH, period, a.du, a.wrench)
    for j in range(a.u.shape[0]):
        a.u[j] += a.du[j]


@numba.njit(cache=True, nogil=True)
def _collect(count, rows, contacts, tangent, p, hand, p_WH, period, du, wrench):
    """Sum up what the impulses do to u and, where they act on the hand's body itself, at the hand."""
    for j in range(du.shape[0]):
        du[j] = 0.0
    for i in range(6):
        wrench[i] = 0.0
    for i in range(count):
        if p[i, 0] == 0.0 and p[i, 1] == 0.0 and p[i, 2] == 0.0:
            continue
        for d in range(3):
            apply_impulse(contacts, i, d, p[i, d], du)
        sign = 0.0
        if rows.body[i, 1] == hand:
            sign += 1.0
        if rows.body[i, 0] == hand:
            sign -= 1.0
        if sign == 0.0:
            continue
        nx, ny, nz = rows.normal[i, 0], rows.normal[i, 1], rows.normal[i, 2]
        tx, ty, tz = tangent[i, 0], tangent[i, 1], tangent[i, 2]
        bx, by, bz = ny * tz - nz * ty, nz * tx - nx * tz, nx * ty - ny * tx
        s = sign / period
        fx = s * (p[i, 0] * nx + p[i, 1] * tx + p[i, 2] * bx)
        fy = s * (p[i, 0] * ny + p[i, 1] * ty + p[i, 2] * by)
        fz = s * (p[i, 0] * nz + p[i, 1] * tz + p[i, 2] * bz)
        rx, ry, rz = rows.point[i, 0] - p_WH[0], rows.point[i, 1] - p_WH[1], rows.point[i, 2] - p_WH[2]
        wrench[0] += fx
        wrench[1] += fy
        wrench[2] += fz
        wrench[3] += ry * fz - rz * fy
        wrench[4] += rz * fx - rx * fz
        wrench[5] += rx * fy - ry * fx


@numba.njit(cache=True, nogil=True)
def _book(packed, count, bonded, wrench, period, energy):
    """Work of each mechanism at the mean velocity of the step, which is exactly what changes the kinetic energy."""
    a = packed.arrays
    contacts, impulses, before, after, W_H = a.scaled, a.impulses, a.body.u, a.u, a.body.W_H
    p, spring = impulses.p, impulses.spring
    for i in range(6):
        s = 0.0
        for j in range(before.shape[0]):
            s += W_H[i, j] * 0.5 * (before[j] + after[j])
        energy[INJECTED] += period * wrench[i] * s
    friction = -bonded
    for i in range(count):
        n = 0.5 * (contact_velocity(contacts, i, 0, before) + contact_velocity(contacts, i, 0, after))
        energy[INJECTED] -= p[i, 0] * contacts.offset[i, 0]  # surroundings that move
        if impulses.impact[i]:
            energy[IMPACT] -= p[i, 0] * n
        else:
            energy[DAMPING] -= (p[i, 0] - spring[i]) * n
        if p[i, 1] != 0.0 or p[i, 2] != 0.0:
            for d in range(1, 3):
                t = 0.5 * (contact_velocity(contacts, i, d, before) + contact_velocity(contacts, i, d, after))
                friction -= p[i, d] * t
    energy[FRICTION] += friction
