"""Dynamics of a simulated arm: motors, dry and viscous friction, limits of joints, and a wrench on its tool.

    M(q) dv/dt + h(q, v) = tau + J^T F - B v - (dry friction, limits)

by semi-implicit Euler, v' = v + T dv/dt, q' = q + T v'. Viscous friction is implicit, so that it is passive for any B
and any period. Dry friction and the limits act on v' as impulses: v' is the minimum of

    1/2 (v' - u)^T A (v' - u) + T sum_i f_i |v'_i|,   (q_min - q)_i / T <= v'_i <= (q_max - q)_i / T,   |v'_i| <= s_i

with A = M + T B and u the velocity without them. The condition of the minimum is Coulomb's law for each joint: the
impulse is T f against the motion, or whatever up to it holds the joint. It is found by coordinate descent, which
lowers this convex function with each joint and cannot diverge (`step_joints`).

Pinocchio computes M, h and J (Carpentier et al. 2019). Its calls from Python allocate: this is a stand-in for a
robot, and no part of what moves a real one.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pinocchio as pin

from haptic_robot.models import ArmModel
from haptic_sim.kernels import kernel
from haptic_sim.parameters import Parameters, quantity
from haptic_sim.spatial import quat_from_matrix

SWEEPS = 200  # of coordinate descent at most: 10 to 40 are needed with an arm of this package
EXACT = 1e-12  # [rad/s, m/s] change of a sweep after which it ends


class FrictionParameters(Parameters):
    """Friction of the joints of a simulated arm, the same in all."""

    dry: float = quantity(0.0, unit="N m", description="Dry friction of each joint of the simulated arm", ge=0.0)
    viscous: float = quantity(
        0.0, unit="N m s/rad", description="Viscous friction of each joint of the simulated arm", ge=0.0
    )


@kernel
def step_joints(A, free, lower, upper, dry, v):
    """Fill `v` (n,) with the velocities after a step, by coordinate descent; returns the number of sweeps.

    Args:
        A: M + T B (n, n), symmetric and positive definite.
        free: velocities without dry friction and limits (n,).
        lower, upper: least and largest velocities (n,).
        dry: impulse of dry friction (n,), at least 0.
    """
    n = free.shape[0]
    for i in range(n):
        v[i] = min(max(free[i], lower[i]), upper[i])
    for sweep in range(SWEEPS):
        change = 0.0
        for i in range(n):
            g = 0.0
            for j in range(n):
                g += A[i, j] * (v[j] - free[j])
            wanted, hold = v[i] - g / A[i, i], dry[i] / A[i, i]
            if wanted > hold:
                wanted -= hold
            elif wanted < -hold:
                wanted += hold
            else:
                wanted = 0.0
            wanted = min(max(wanted, lower[i]), upper[i])
            change = max(change, abs(wanted - v[i]))
            v[i] = wanted
        if change <= EXACT:
            return sweep + 1
    return SWEEPS


class Arm:
    """An arm of which each joint has one coordinate, with its state and what Pinocchio says of it.

    Args:
        arm: its model, and the frame of its tool.
        q: configuration at the start (nv,) [rad, m].
        rate: of the steps [Hz].
        friction: of its joints.

    Attributes (all in the axes of the arm's base, at the tool's origin):
        q, v: configuration and velocity (nv,).
        M: inertia (nv, nv). h: M dv/dt + h = tau without friction (nv,). J: Jacobian of the tool's twist (6, nv).
        pose: of the tool (7,) [m, quat_xyzw]. twist: of the tool (6,) [m/s, rad/s].
    """

    LIMITS: ClassVar[float] = 1e-9  # [rad, m] by which a start may be outside of the range

    def __init__(self, arm: ArmModel, q: np.ndarray, rate: float, friction: FrictionParameters | None = None):
        self.model, self.tool = arm
        self._data, self._T = self.model.createData(), 1.0 / rate
        friction = FrictionParameters() if friction is None else friction
        n = self.model.nv
        self._dry, self._viscous = np.full(n, friction.dry / rate), friction.viscous / rate * np.eye(n)
        self._speed = np.where(self.model.velocityLimit > 0.0, self.model.velocityLimit, np.inf)
        self._effort = np.where(self.model.effortLimit > 0.0, self.model.effortLimit, np.inf)
        self.q, self.v = np.array(q, float), np.zeros(n)
        self.torque = np.zeros(n)
        self.pose, self.twist = np.zeros(7), np.zeros(6)
        self._look()

    def _look(self) -> None:
        """Compute everything that follows from q and v."""
        data = self._data
        pin.computeAllTerms(self.model, data, self.q, self.v)
        placement = pin.updateFramePlacement(self.model, data, self.tool)
        upper = np.triu(data.M)
        self.M = upper + np.triu(upper, 1).T  # Pinocchio fills the upper triangle alone
        self.h = data.nle.copy()
        J = pin.getFrameJacobian(self.model, data, self.tool, pin.LOCAL_WORLD_ALIGNED)
        self.J = J.reshape(6, -1)  # of one joint it is (6,)
        self.pose[:3] = placement.translation
        quat_from_matrix(placement.rotation, self.pose[3:])
        self.twist[:] = self.J @ self.v

    @property
    def kinetic_energy(self) -> float:
        """1/2 v^T M v [J]."""
        return float(0.5 * self.v @ self.M @ self.v)

    @property
    def potential_energy(self) -> float:
        """Of gravity [J]."""
        return float(pin.computePotentialEnergy(self.model, self._data, self.q))

    def mobility(self) -> np.ndarray:
        """Inverse inertia of the tool, J M^-1 J^T (6, 6) [1/kg, 1/(kg m), 1/(kg m^2)]."""
        return np.asarray(self.J @ np.linalg.solve(self.M, self.J.T))

    def step(self, torque: np.ndarray, wrench: np.ndarray) -> None:
        """Advance by a period.

        Args:
            torque: of the motors (nv,) [N m]; what is beyond their limits is cut off.
            wrench: of the surroundings on the tool (6,) [N, N m], held over the step.
        """
        T = self._T
        self.torque = np.clip(torque, -self._effort, self._effort)
        A = self.M + self._viscous
        driving = self.M @ self.v + T * (self.torque + self.J.T @ wrench - self.h)
        free = np.linalg.solve(A, driving)
        lower = np.maximum((self.model.lowerPositionLimit - self.q) / T, -self._speed)
        upper = np.minimum((self.model.upperPositionLimit - self.q) / T, self._speed)
        step_joints(A, free, np.minimum(lower, 0.0), np.maximum(upper, 0.0), self._dry, self.v)
        self.q += T * self.v
        self._look()
