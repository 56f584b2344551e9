"""Coupling by which the tool of a slow world follows that of a local model, which the hand feels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pinocchio as pin

from haptic_sim.dynamics.multibody import Multibody
from haptic_sim.messages import ToolState

LONGEST = 2.0  # periods from survey to survey that a world makes up for at once


class Follower:
    """Generalised forces under which a tool of its own dynamics follows the local model's.

    From survey to survey the tool goes along the line between the surveyed states. F is the mean wrench of the
    contacts on the local model's tool since the last survey, and a its mean acceleration, so that D a - J^T F is what
    the hand does; the spring in the coordinates of the tool, critically damped with the rate w, is for drift:

        D (a + w^2 dq + 2 w dv) - J^T F

    F acts where the contacts are, on the line that it has in the world: its torque is that about the hand of the tool
    that follows. About the hand of the other it would turn a tool that is beside, and roll it ever farther away.

    Without F the two tools would push with different forces wherever w^2 D and the stiffness of contacts differ. The
    spring adds D w^2 dq to what the tool pushes with, where the local model's is dq deeper, so that what yields is
    felt by less than it resists, the part m w^2 / K for a tool of mass m and contacts of stiffness K.

    A world that is too slow for the clock loses time, so that surveys go on to come: of a gap between two of them no
    more than LONGEST periods are simulated.

    Args:
        body: the tool alone, at its start; whoever simulates it keeps q and v up to date, and refreshes it.
        rate: of the servo [Hz].
        step: time step of the world [s].
        period: from one survey to the next [s].
        following: w [1/s]; at most half the rate of the steps.
    """

    def __init__(self, body: Multibody, *, rate: float, step: float, period: float, following: float):
        self._body, self._rate, self._step, self._following = body, rate, step, following
        self._most = max(1, round(LONGEST * period / step))
        self._q, self._v, self._impulse = body.q.copy(), body.v.copy(), np.zeros(6)  # as of the last survey
        self._place = body.p_WH.copy()
        self._last = -1  # tick of its state
        self._steps = 0  # of the world until then, with those left out

    @property
    def time(self) -> float:
        """Time of the world, if none was lost [s]."""
        return self._steps * self._step

    def force(
        self, q: np.ndarray, v: np.ndarray, a: np.ndarray, felt: np.ndarray, place: np.ndarray, period: float
    ) -> np.ndarray:
        """The forces (nv,) until the next ones, without those of gravity and velocity.

        Args:
            q, v, a: configuration, velocity and acceleration of the other tool.
            felt: F, at the hand of the other tool [N, N m] (6,).
            place: where that is [m] (3,).
            period: until the next forces [s].
        """
        body, w = self._body, min(self._following, 0.5 / period)
        lag = pin.difference(body.model, body.q, q)
        wrench = np.concatenate([felt[:3], felt[3:] + np.cross(place - body.p_WH, felt[:3])])
        found: np.ndarray = body.D @ (a + w * w * lag + 2.0 * w * (v - body.v)) - body.J_H.T @ wrench
        return found

    def follow(self, tool: ToolState) -> Iterator[np.ndarray]:
        """The forces (nv,) for each step of the world, up to the time of a state; it steps in between."""
        body, ticks = self._body, tool.tick - self._last
        if ticks < 1:
            return
        steps = int(np.floor((tool.tick + 1) / self._rate / self._step + 1e-6)) - self._steps
        begin, span = (self._last + 1) / self._rate, ticks / self._rate
        felt = (tool.impulse - self._impulse) / span
        if steps > self._most:
            self._steps += steps - self._most
            steps, begin, span = self._most, self.time, self._most * self._step
        place = 0.5 * (self._place + tool.pose[:3])
        displacement = pin.difference(body.model, self._q, tool.q)
        acceleration = (tool.v - self._v) / span
        for _ in range(steps):
            goal = pin.integrate(
                body.model, self._q, (self.time - begin) / span * displacement
            )  # at the beginning of the step
            self._steps += 1
            yield self.force(goal, displacement / span, acceleration, felt, place, self._step)
        self._q[:], self._v[:], self._impulse[:] = tool.q, tool.v, tool.impulse
        self._place[:] = tool.pose[:3]
        self._last = tool.tick
