"""Methods of others between the updates of a slow environment: baselines to compare the local model with.

- `HeldWrench` applies the wrench that the environment's contacts made, until the next one comes (zero-order hold).
- `ExtrapolatedWrench` continues the last two such wrenches in a straight line (first-order hold).
- `ResolvedContacts` solves the environment's last contact problem again in each tick, as SOFA's LCPForceFeedback does:
  the violations of the constraints are those of the update, shifted by J dx for the displacement dx of the tool since,
  and A = h^2 J M^-1 J^T over a step h of the environment says what forces undo,

      A f + d + J dx >= 0, f >= 0, complementary; friction within mu f_n,

  and moments of rolling and torsional friction, against the rotation since the update, within rho f_n and sigma f_n.

  The force is J^T f times `force_coefficient`. Constraints are not interpolated between updates.

The tool moves freely otherwise: impulses, and contacts at the servo rate, it does not know.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
import pinocchio as pin

from haptic_sim.contact.response import ContactParameters
from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.kernels import kernel
from haptic_sim.messages import LocalGeometry, ToolCommand, ToolState
from haptic_sim.parameters import ParameterError, quantity
from haptic_sim.tool.local_model.applied import AppliedWrench
from haptic_sim.tool.local_model.parameters import LocalModelContext, LocalModelParameters
from haptic_sim.worlds.isolated import isolate_tool
from haptic_sim.worlds.world_setup import WorldSetup

SWEEPS = 50  # of projected Gauss-Seidel; each begins with the forces of the tick before
ONE_BODY = "local_model.type = resolve: supports only tools of one body; a linkage needs full"
REGULAR = 1e-9  # of the largest diagonal entry, added to it: rows that depend on each other share their force


class HeldParameters(LocalModelParameters):
    """The wrench of the environment's contacts in the last update."""

    WRENCH: ClassVar[bool] = True

    type: Literal["held"] = "held"

    def build(self, context: LocalModelContext) -> HeldWrench:
        """The local model."""
        return HeldWrench(context.world, context.contact, context.rate, self, context.period)


class HeldWrench(AppliedWrench):
    """The type `held`; arguments as of an `AppliedWrench`."""

    def take(self, geometry: LocalGeometry, tick: int) -> None:
        """Take an update that is sound, from the step of `tick` on."""
        self.contacts = int(np.count_nonzero(geometry.constraints["separation"][: len(geometry)] < 0.0))
        self.wrench[:] = geometry.wrench


class ExtrapolatedParameters(LocalModelParameters):
    """A straight line through the wrenches of the last two updates."""

    WRENCH: ClassVar[bool] = True

    type: Literal["extrapolated"] = "extrapolated"

    def build(self, context: LocalModelContext) -> ExtrapolatedWrench:
        """The local model."""
        return ExtrapolatedWrench(context.world, context.contact, context.rate, self, context.period)


class ExtrapolatedWrench(HeldWrench):
    """The type `extrapolated`.

    With the wrenches F_0 and F_1 of the last two surveys, of the states at t_0 and t_1, the wrench at t is
    F_1 + (F_1 - F_0) (t - t_1) / (t_1 - t_0). The line ends LONGEST after the survey.
    """

    LONGEST = 0.2  # [s]

    def __init__(
        self,
        world: WorldSetup,
        contact: ContactParameters,
        rate: float,
        parameters: LocalModelParameters,
        period: float,
    ):
        super().__init__(world, contact, rate, parameters, period)
        self._last, self._slope, self._surveyed_at = np.zeros(6), np.zeros(6), -1
        self._ahead = round(self.LONGEST * rate)

    def take(self, geometry: LocalGeometry, tick: int) -> None:
        """Take an update that is sound, from the step of `tick` on."""
        super().take(geometry, tick)
        ticks = geometry.tick - self._surveyed_at
        if self._surveyed_at >= 0 and ticks > 0:
            self._slope[:] = (geometry.wrench - self._last) / ticks
        self._last[:], self._surveyed_at = geometry.wrench, geometry.tick

    def answer(self, command: ToolCommand, state: ToolState) -> None:
        """Turn the state before a tick into the state after it, under a command; as `step`, without transients."""
        ahead = min(max(state.tick + 1 - self._surveyed_at, 0), self._ahead)
        self.wrench[:] = self._last + ahead * self._slope
        super().answer(command, state)


class ResolveParameters(LocalModelParameters):
    """The environment's last contact problem, solved again for the displaced tool."""

    type: Literal["resolve"] = "resolve"
    force_coefficient: float = quantity(
        0.03, description="Share of the force that resolve renders (SOFA's forceCoef)", gt=0.0, le=1.0
    )

    def build(self, context: LocalModelContext) -> ResolvedContacts:
        """The local model."""
        return ResolvedContacts(context.world, context.contact, context.rate, self, context.period)

    def problems(self, context: LocalModelContext) -> list[str]:
        """Reasons why it cannot take part in this trial; lines that begin with a key of the experiment."""
        return [ONE_BODY] if isolate_tool(context.world).model.njoints > 2 else []


class ResolvedContacts(AppliedWrench):
    """The type `resolve`.

    Raises:
        ParameterError: the tool is a linkage, whose contacts do not act on the hand alone.
    """

    def __init__(
        self, world: WorldSetup, contact: ContactParameters, rate: float, parameters: ResolveParameters, period: float
    ):
        super().__init__(world, contact, rate, parameters, period)
        self._share = parameters.force_coefficient
        if not self.tool.body.held_single:
            raise ParameterError([ONE_BODY])
        body = self.tool.body
        self._surveyed = Multibody(body.model, body.hand, body.q, body.v)
        self._rotation = np.zeros((3, 3))
        self._rows = np.zeros((0, 6))  # a normal and two tangents of each constraint, then rotations about these
        self._turning = np.zeros(0, np.int64)  # constraints with rotations
        self._resistance = np.zeros((0, 2))
        self._A, self._violation = np.zeros((0, 0)), np.zeros(0)
        self._friction, self._force = np.zeros(0), np.zeros(0)

    def take(self, geometry: LocalGeometry, tick: int) -> None:
        """Take an update that is sound, from the step of `tick` on."""
        n, constraints, body = len(geometry), geometry.constraints[: len(geometry)], self._surveyed
        body.q[:] = geometry.q
        body.refresh()
        self._rotation[:] = body.R_WH
        normals = constraints["normal"]
        corners = constraints["position"] + constraints["separation"][:, None] * normals
        arms = corners - body.p_WH
        axes = np.stack([normals, *_tangents(normals)], axis=1)  # (n, 3, 3)
        rows = np.concatenate([axes, np.cross(arms[:, None, :], axes)], axis=2).reshape(3 * n, 6)
        h = self._period.mean
        self._resistance = np.stack([constraints["friction_rolling"], constraints["friction_torsional"]], axis=1)
        (self._turning,) = np.nonzero(self._resistance.any(axis=1))
        turns = axes[self._turning].reshape(-1, 3)
        rows = np.concatenate([rows, np.concatenate([np.zeros_like(turns), turns], axis=1)])
        self._rows, self._violation = rows, np.zeros(len(rows))
        self._violation[: 3 * n : 3] = constraints["separation"]
        self._A = h * h * rows @ body.inverse_inertia.reshape(6, 6) @ rows.T
        diagonal = np.einsum("ii->i", self._A)
        for part in (slice(0, 3 * n), slice(3 * n, None)):
            diagonal[part] += REGULAR * max(float(diagonal[part].max(initial=0.0)), 1e-12)
        self._friction = constraints["friction_kinetic"].copy()
        self._force = np.zeros(len(rows))

    def answer(self, command: ToolCommand, state: ToolState) -> None:
        """Turn the state before a tick into the state after it, under a command; as `step`, without transients."""
        body, moved = self.tool.body, np.zeros(6)
        moved[:3] = body.p_WH - self._surveyed.p_WH
        moved[3:] = pin.log3(body.R_WH @ self._rotation.T)
        violation = self._violation + self._rows @ moved
        solve_again(self._A, violation, self._friction, self._turning, self._resistance, self._force)
        self.wrench[:] = self._share * (self._force @ self._rows)
        self.contacts = int(np.count_nonzero(self._force[: 3 * self._friction.size : 3] > 0.0))
        super().answer(command, state)


def _tangents(normals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two unit vectors (n, 3) that complete each normal to a right-handed frame."""
    level = np.where(np.abs(normals[:, 2:]) < 0.9, [0.0, 0.0, 1.0], [1.0, 0.0, 0.0])
    first = np.cross(level, normals)
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    return first, np.cross(normals, first)


@kernel
def solve_again(A, violation, friction, turning, resistance, force):
    """Projected Gauss-Seidel for A f + d >= 0, f >= 0 along the normals, |f_t| <= mu f_n along the tangents.

    Moments m of m contacts are within |m_n| <= sigma f_n and |m_t| <= rho f_n.

    Args:
        A: (3n + 3m, 3n + 3m), of each contact a normal and two tangents, then of m contacts rotations about these
            [m/N, rad/(N m)].
        violation: d (3n + 3m,) [m, rad].
        friction: mu (n,).
        turning: the m contacts, (m,) int64.
        resistance: rho and sigma (n, 2) [m].
        force: f and m (3n + 3m,) [N, N m], where the sweeps begin and what they end with.
    """
    for _ in range(SWEEPS):
        for i in range(friction.shape[0]):
            for d in range(3):
                k = 3 * i + d
                s = violation[k]
                for j in range(force.shape[0]):
                    s += A[k, j] * force[j]
                force[k] -= s / A[k, k]
                if d == 0:
                    force[k] = max(force[k], 0.0)
            _shorten(force, 3 * i, friction[i] * force[3 * i])
        first = 3 * friction.shape[0]
        for c in range(turning.shape[0]):
            i = turning[c]
            for d in range(3):
                k = first + 3 * c + d
                s = violation[k]
                for j in range(force.shape[0]):
                    s += A[k, j] * force[j]
                force[k] -= s / A[k, k]
                if d == 0:
                    bound = resistance[i, 1] * force[3 * i]
                    force[k] = min(max(force[k], -bound), bound)
            _shorten(force, first + 3 * c, resistance[i, 0] * force[3 * i])


@kernel
def _shorten(force, k, bound):
    """Shorten the tangential part of the three entries from k on to at most a length."""
    size = np.hypot(force[k + 1], force[k + 2])
    if size > bound:
        part = bound / size
        force[k + 1] *= part
        force[k + 2] *= part
