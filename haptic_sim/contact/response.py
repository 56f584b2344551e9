"""Which contact force acts when: the states of THESIS 4.2 and the impulse renderings of THESIS 4.5.2.

FREE without contacts; COLLIDING when a contact is new and penetrating (its points approach), or when the last
step's impulses had to be scaled and shall be spread; RESTING otherwise. While colliding, impulses act at all contacts
whose points approach, and no penalties; while resting, penalties act. An impulse p in a step of length T is the
wrench J^T p / T of that step (THESIS 4.45).
"""

from __future__ import annotations

from typing import Literal

import numba
import numpy as np

from haptic_sim.contact.impulses import ImpulseWorkspace, resolve_collisions
from haptic_sim.contact.penalty import penalty_forces
from haptic_sim.contact.rows import ContactRows, add_wrench, normal_jacobian, normal_velocity
from haptic_sim.messages import COLLIDING, FREE, RESTING
from haptic_sim.multibody import Multibody
from haptic_sim.parameters import Gains, Parameters, quantity, six

Method = Literal["penalty", "impulse_augmented"]
ImpulseRendering = Literal["full", "saturated", "scaled", "spread"]


class ContactParameters(Parameters):
    """Material of all contacts."""

    stiffness: float = quantity(4000.0, unit="N/m", description="Penalty stiffness", live=True, gt=0.0, le=1e7)
    damping: float = quantity(30.0, unit="N s/m", description="Penalty damping", live=True, ge=0.0, le=1e5)
    per: Literal["point", "wall"] = quantity(
        "point",
        description="Whether stiffness and damping are those of a contact point or shared by a wall's points",
    )
    restitution: float = quantity(0.0, description="Coefficient of restitution", live=True, ge=0.0, le=1.0)


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


class ContactResponse:
    """Contact forces on a tool: remembers which contacts there were in the last step.

    Args:
        method: `penalty`, or `impulse_augmented` (THESIS 4.1).
        parameters: material; may be replaced between two steps.
        rendering: what is done about impulses that the device cannot render; `scaled` and `spread` are done here.
        wrench_limit: of the device, (6,) [N, N m].
        capacity: rows at most.
        nv: degrees of freedom of the tool.

    Attributes:
        force: generalized force of the contacts in the last step (nv,).
        wrench: the same at the hand, in world axes [N, N m] (6,).
        contacts: number of contacts; state: FREE, COLLIDING or RESTING.
        unresolved: steps whose impulses did not converge and were damped (never seen to happen).
    """

    def __init__(
        self,
        method: Method,
        parameters: ContactParameters,
        rendering: ImpulseRendering,
        wrench_limit: np.ndarray,
        capacity: int,
        nv: int,
    ):
        self.impulsive = method == "impulse_augmented"
        self.parameters = parameters
        self.limited = rendering in ("scaled", "spread")
        self.spread = rendering == "spread"
        self.wrench_limit = np.array(wrench_limit, float)
        self.force, self.wrench = np.zeros(nv), np.zeros(6)
        self.contacts, self.state, self.unresolved = 0, FREE, 0
        self._pending = False
        self._old = np.zeros(capacity, np.int64)
        self._old_count = 0
        self._J_n, self._J_c = np.zeros((capacity, nv)), np.zeros((capacity, nv))
        self._rows = np.zeros((7, capacity))
        self._index = np.zeros(capacity, np.int64)
        self._impulses = ImpulseWorkspace(capacity, nv)

    def respond(self, rows: ContactRows, tool: Multibody, period: float) -> None:
        """Compute force, wrench, contacts and state for a step of length `period` [s]."""
        w = self._impulses
        self.contacts, self.state, self._old_count, self._pending, result = _respond(
            rows.count,
            rows.id,
            rows.point,
            rows.normal,
            rows.separation,
            rows.velocity,
            rows.wall,
            tool.p_WH,
            tool.J_H,
            tool.L,
            tool.v,
            period,
            self.parameters.stiffness,
            self.parameters.damping,
            self.parameters.per == "wall",
            self.parameters.restitution,
            self.impulsive,
            self.limited,
            self.spread,
            self.wrench_limit,
            self._pending,
            self._old,
            self._old_count,
            self._J_n,
            self._J_c,
            self._rows,
            self._index,
            w.W,
            w.c,
            w.G,
            w.H,
            w.small,
            w.vectors,
            w.index,
            self.force,
            self.wrench,
        )
        self.unresolved += result == 2


@numba.njit(cache=True, nogil=True)
def _respond(
    count,
    ids,
    point,
    normal,
    separation,
    velocity,
    wall,
    p_WH,
    J_H,
    L,
    v,
    period,
    stiffness,
    damping,
    per_wall,
    restitution,
    impulsive,
    limited,
    spread,
    wrench_limit,
    pending,
    old,
    old_count,
    J_n,
    J_c,
    buffers,
    index,
    W,
    c,
    G,
    H,
    small,
    vectors,
    impulse_index,
    force,
    wrench,
):
    nv = v.shape[0]
    v_n, magnitude, k, b, e, p = buffers[0], buffers[1], buffers[2], buffers[3], buffers[4], buffers[5]
    gross = buffers[6]  # sums of magnitudes of the components of the wrench
    for j in range(nv):
        force[j] = 0.0
    for i in range(6):
        wrench[i] = 0.0
    normal_jacobian(count, point, normal, p_WH, J_H, J_n)
    normal_velocity(count, J_n, v, velocity, v_n)

    contacts = 0
    colliding = pending
    for i in range(count):
        magnitude[i] = 0.0
        if not separation[i] < 0.0:
            continue
        contacts += 1
        if v_n[i] < 0.0 and not colliding:
            new = True
            for m in range(old_count):
                if old[m] == ids[i]:
                    new = False
                    break
            colliding = new
    old_count = 0
    for i in range(count):
        if separation[i] < 0.0:
            old[old_count] = ids[i]
            old_count += 1

    n = 0
    result = 0
    scaled = False
    if impulsive and colliding:
        for i in range(count):
            if separation[i] < 0.0 and v_n[i] < 0.0:
                index[n] = i
                for j in range(nv):
                    J_c[n, j] = J_n[i, j]
                k[n] = v_n[i]
                e[n] = restitution
                n += 1
    if n > 0:
        result = resolve_collisions(n, J_c, L, k, e, W, c, G, H, small, vectors, impulse_index, p)
        for m in range(n):
            magnitude[index[m]] = p[m] / period
        add_wrench(count, point, normal, magnitude, p_WH, wrench)
        if limited:
            for i in range(6):
                gross[i] = 0.0
            for m in range(n):
                i = index[m]
                for j in range(3):
                    f = abs(magnitude[i] * normal[i, j])
                    gross[j] += f
                    gross[3 + (j + 1) % 3] += abs(point[i, (j + 2) % 3] - p_WH[(j + 2) % 3]) * f
                    gross[3 + (j + 2) % 3] += abs(point[i, (j + 1) % 3] - p_WH[(j + 1) % 3]) * f
            scale = 1.0
            for i in range(6):
                # what rounding leaves of a sum of zero needs no rendering
                if abs(wrench[i]) > 1e-12 * gross[i] and abs(wrench[i]) * scale > wrench_limit[i]:
                    scale = wrench_limit[i] / abs(wrench[i])
            if scale == 0.0:
                n = 0
                for i in range(6):
                    wrench[i] = 0.0
            elif scale < 1.0:
                scaled = True
                for i in range(6):
                    wrench[i] *= scale
                for i in range(count):
                    magnitude[i] *= scale
    if n == 0 and contacts > 0:
        for i in range(count):
            share = 0
            if per_wall:
                for m in range(count):
                    share += separation[m] < 0.0 and wall[m] == wall[i]
            k[i] = stiffness / max(share, 1)
            b[i] = damping / max(share, 1)
        penalty_forces(count, separation, v_n, k, b, magnitude)
        add_wrench(count, point, normal, magnitude, p_WH, wrench)
    for i in range(count):
        for j in range(nv):
            force[j] += J_n[i, j] * magnitude[i]

    state = FREE
    if contacts > 0:
        state = COLLIDING if n > 0 else RESTING
    return contacts, state, old_count, spread and scaled, result
