"""Rigid contacts: fixed-step time-stepping with complementarity, after collisions where contacts bounce.

A step of length T has two parts. First, where a contact that is closed, or closes within the step, approaches faster
than `contact.bounce`, impacts are resolved: all at once with friction (`constraint`, where there is restitution), or
one contact at a time after Mirtich (`hybrid`; IGMS figure 6: impulses while it bounces, the complementarity problem
once it is steady). Then all contacts obey, with the velocity c after the step,
    0 <= p_n  complementary to  c_n + s / T >= 0   (s: separation, so that a gap may close but not be crossed)
and Coulomb's law (Stewart and Trinkle 1996; `stewart_trinkle` on facets, `gauss_seidel` on the round cone). A contact
has the static coefficient of friction until it slides, then the kinetic one until it sticks.

**Passive.** With u after the impacts, du of the other forces and u' after the step, the complementarity gives
    1/2 |u'|^2 - du . u' - 1/2 |u|^2 = p . c - 1/2 |u' - u|^2 <= 0:
no step adds energy but by the work of these forces (at the new velocity, by which the step moves).

**Drift.** Linear in a step, s >= 0 is kept; where bodies turn, it is missed by what the turning bends in a step. What
overlaps then may separate with part of its depth a step, but only in steps in which the sum above stays negative: drift
is corrected out of what the step dissipates, never by adding energy. At rest nothing drifts.
"""

from __future__ import annotations

import numba
import numpy as np

from haptic_sim.contact.compliant import copy_contact
from haptic_sim.contact.friction import NONE
from haptic_sim.contact.frictional_impulses import STEPS, SWEEPS, FrictionalWorkspace, resolve_frictional_impacts
from haptic_sim.contact.gauss_seidel import MAX_SWEEPS, GaussSeidelMemory, gauss_seidel
from haptic_sim.contact.lemke import SOLVED
from haptic_sim.contact.mirtich import MirtichWorkspace, resolve_one_at_a_time
from haptic_sim.contact.response import ContactParameters, ContactResponse, Method
from haptic_sim.contact.rows import ContactRows
from haptic_sim.contact.scaled import ScaledContacts, contact_velocity
from haptic_sim.contact.stewart_trinkle import ContactProblem, stewart_trinkle
from haptic_sim.messages import COLLIDING, FREE, RESTING
from haptic_sim.multibody import Multibody

RECOVERY = 0.2  # part of an overlap to recover in a step
SLOP = 1e-5  # [m] overlap that is left alone
FASTEST_RECOVERY = 0.1  # [m/s]
_TOUCHING = 1e-6  # [m] separation of a contact through which an impact is handed on
_SLIDES = 1e-7  # [m/s] slip of a contact that slides


class RigidContact(ContactResponse):
    """The methods `constraint` and `hybrid`."""

    def __init__(self, body: Multibody, parameters: ContactParameters, capacity: int, method: Method):
        super().__init__(body, parameters, capacity)
        self.hybrid = method == "hybrid"
        planar = not np.any(body.J_W[2:5])  # nothing moves along z or turns about x or y
        self._problem = ContactProblem.allocate(parameters.lemke_contacts, 2 if planar else parameters.facets)
        self._gauss_seidel = GaussSeidelMemory.allocate(self.scaled)
        self._some = ScaledContacts.allocate(capacity, body.trees.start, body.trees.size)
        if self.hybrid:
            self._mirtich = MirtichWorkspace()
        else:
            self._impacts = FrictionalWorkspace.allocate(self._some, body.nv)
        self._index, self._slip_state = np.zeros(capacity, np.int64), np.zeros(capacity, np.int8)
        self._e, self._mu, self._bias = np.zeros(capacity), np.zeros(capacity), np.zeros(capacity)
        self._p, self._start = np.zeros((capacity, 3)), np.zeros((capacity, 3))
        self._u, self._after = np.zeros(body.nv), np.zeros(body.nv)
        self._id, self._count = np.zeros(capacity, np.int64), 0
        self._world, self._slides = np.zeros((capacity, 3)), np.zeros(capacity, np.bool_)
        self._before, self._world_before = np.zeros(capacity, np.int64), np.zeros((capacity, 3))
        self._slid = np.zeros(capacity, np.bool_)

    @property
    def margin(self) -> float:
        """See ContactResponse."""
        return self.parameters.margin

    def _resolve(self, rows: ContactRows, body: Multibody, external: np.ndarray, period: float) -> None:
        n, material, u = rows.count, self.parameters, self._u
        rubs = material.friction.code != NONE
        u[:] = body.u
        self.impulses.p[:n] = 0.0
        m = _bouncing(
            n,
            rows.arrays,
            self.scaled,
            u,
            period,
            material.bounce,
            self.hybrid,
            rubs,
            self._some,
            self._index,
            self._e,
            self._mu,
        )
        if m:
            self._collide(m)
        self._before, self._id = self._id, self._before
        self._world_before, self._world = self._world, self._world_before
        self._slid, self._slides = self._slides, self._slid
        overlapping = _prepare(
            n,
            rows.arrays,
            self.tangent,
            period,
            rubs,
            self._count,
            self._before,
            self._world_before,
            self._slid,
            self._bias,
            self._mu,
            self._start,
        )
        self._solve(n, external)
        if overlapping and _gains(u, external, self._after):
            np.maximum(self._bias[:n], 0.0, out=self._bias[:n])
            self._solve(n, external)
        self._count = n
        self.contacts, self.sliding = _remember(
            n,
            rows.arrays,
            self.scaled,
            self.tangent,
            self._after,
            self._p,
            self.impulses,
            self._id,
            self._world,
            self._slides,
        )
        self.state = (COLLIDING if m else RESTING) if self.contacts else FREE

    def _collide(self, m: int) -> None:
        """Resolve the impacts of the first m contacts of `_some`."""
        if self.hybrid:
            w = self._mirtich
            code, _ = resolve_one_at_a_time(
                m, self._some, self._u, self._e, self._mu, self.parameters.bounce, 20 * m, w.A, w.vectors, self._p
            )
        else:
            code = resolve_frictional_impacts(
                m, self._some, self._u, self._e, self._mu, STEPS, SWEEPS, self._impacts, self._p, self._slip_state
            )
            self.unresolved += code == 2
        for k in range(m):
            self.impulses.p[self._index[k]] = self._p[k]

    def _solve(self, n: int, external: np.ndarray) -> None:
        """Solve the complementarity problem: Lemke where it is asked for, else or if it fails Gauss-Seidel."""
        material = self.parameters
        np.add(self._u, external, out=self._after)
        few = n <= min(material.lemke_contacts, self._problem.scale.size)
        if material.solver == "lemke" or (material.solver == "automatic" and few):
            code = stewart_trinkle(self._problem, self.scaled, n, self._after, self._bias, self._mu, self._p)
            if code == SOLVED:
                return
        self._p[:n] = self._start[:n]
        code, _, _, _ = gauss_seidel(
            n,
            self.scaled,
            self._mu,
            self._bias,
            self._after,
            self._p,
            self._gauss_seidel,
            material.tolerance,
            MAX_SWEEPS,
        )
        self.unresolved += code != 0


@numba.njit(cache=True, nogil=True)
def _bouncing(count, rows, contacts, u, period, bounce, always, rubs, some, index, restitution, friction):
    """Copy the contacts that take part in an impact to `some`; returns how many, 0 if nothing bounces.

    Something bounces if a contact that is closed by the end of the step approaches faster than `bounce` and, unless
    `always`, has restitution.
    """
    bounces = False
    for i in range(count):
        v = contact_velocity(contacts, i, 0, u)
        if v < -bounce and rows.separation[i] + period * v < 0.0 and (always or rows.restitution[i] > 0.0):
            bounces = True
    m = 0
    if bounces:
        for i in range(count):
            v = contact_velocity(contacts, i, 0, u)
            if rows.separation[i] < _TOUCHING or rows.separation[i] + period * v < 0.0:
                index[m] = i
                restitution[m] = rows.restitution[i] if v < -bounce else 0.0
                friction[m] = rows.friction[i, 1] if rubs else 0.0
                copy_contact(contacts, i, some, m)
                m += 1
    return m


@numba.njit(cache=True, nogil=True)
def _prepare(count, rows, tangent, period, rubs, old_count, old, world, slid, bias, mu, start):
    """Fill bias, friction and where to start from; whether an overlap wants to be recovered."""
    overlapping = False
    for i in range(count):
        s = rows.separation[i]
        if s >= 0.0:
            bias[i] = s / period
        else:
            deep = -s - SLOP
            bias[i] = 0.0
            if deep > 0.0:
                bias[i] = -min(RECOVERY * deep / period, FASTEST_RECOVERY)
                overlapping = True
        mu[i] = rows.friction[i, 0] if rubs else 0.0
        start[i, 0] = start[i, 1] = start[i, 2] = 0.0
        for m in range(old_count):
            k = (m + i) % old_count
            if old[k] == rows.id[i]:
                if slid[k] and rubs:
                    mu[i] = rows.friction[i, 1]
                n, t, f = rows.normal[i], tangent[i], world[k]
                start[i, 0] = f[0] * n[0] + f[1] * n[1] + f[2] * n[2]
                start[i, 1] = f[0] * t[0] + f[1] * t[1] + f[2] * t[2]
                start[i, 2] = (
                    f[0] * (n[1] * t[2] - n[2] * t[1])
                    + f[1] * (n[2] * t[0] - n[0] * t[2])
                    + f[2] * (n[0] * t[1] - n[1] * t[0])
                )
                break
    return overlapping


@numba.njit(cache=True, nogil=True)
def _gains(u, external, after):
    """Whether a step from u to `after` adds energy beyond the work of the external forces."""
    energy = scale = 0.0
    for j in range(u.shape[0]):
        energy += 0.5 * (after[j] * after[j] - u[j] * u[j]) - external[j] * after[j]
        scale += u[j] * u[j] + external[j] * external[j]
    return energy > 1e-13 * scale


@numba.njit(cache=True, nogil=True)
def _remember(count, rows, contacts, tangent, u, p, impulses, id, world, slides):
    """Add the impulses to those of impacts, keep what the next step needs; numbers of contacts and of sliding ones."""
    closed = sliding = 0
    for i in range(count):
        id[i] = rows.id[i]
        n, t = rows.normal[i], tangent[i]
        for d in range(3):
            a, b = (d + 1) % 3, (d + 2) % 3
            world[i, d] = p[i, 0] * n[d] + p[i, 1] * t[d] + p[i, 2] * (n[a] * t[b] - n[b] * t[a])
        slides[i] = False
        if p[i, 0] > 0.0:
            x, y = contact_velocity(contacts, i, 1, u), contact_velocity(contacts, i, 2, u)
            slides[i] = x * x + y * y > _SLIDES * _SLIDES
        if slides[i]:
            sliding += 1
        for d in range(3):
            impulses.p[i, d] += p[i, d]
        impulses.spring[i] = 0.0
        impulses.impact[i] = True
        if impulses.p[i, 0] > 0.0:
            closed += 1
    return closed, sliding
