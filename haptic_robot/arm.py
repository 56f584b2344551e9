"""Dynamics of a simulated arm: motors, dry and viscous friction, limits of joints, and a wrench on its tool.

    M(q) dv/dt + h(q, v) = tau + J^T F - B v - (dry friction, limits)

by semi-implicit Euler, v' = v + T dv/dt, q' = q + T v'. Viscous friction is implicit, so that it is passive for any B
and any period. Dry friction and the limits act on v' as impulses: v' is the minimum of

    1/2 (v' - u)^T A (v' - u) + T sum_i f_i |v'_i|,   (q_min - q)_i / T <= v'_i <= (q_max - q)_i / T,   |v'_i| <= s_i

with A = M + T B and u the velocity without them. The condition of the minimum is Coulomb's law for each joint: the
impulse is T f against the motion, or whatever up to it holds the joint. It is found by coordinate descent, which
lowers this convex function with each joint and cannot diverge (`step_joints`).

M, h and J are those of `haptic_robot.dynamics`; nothing allocates in a step.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
import pinocchio as pin

from haptic_robot.dynamics import chain_of, evaluate_chain
from haptic_robot.models import ArmModel
from haptic_sim.kernels import bind, kernel
from haptic_sim.linalg import cholesky, cholesky_solve
from haptic_sim.packed import Packed
from haptic_sim.parameters import Parameters, quantity
from haptic_sim.records import allocate, array, record, shared, value

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


@record
class Joints(NamedTuple):
    """Motors, friction and limits of the joints of an arm, and what a step of it works with."""

    effort: np.ndarray = shared("largest torque of each motor", "n", unit="N m, N")
    speed: np.ndarray = shared("largest speed of each joint", "n", unit="rad/s, m/s")
    lowest: np.ndarray = shared("least coordinate of each joint", "n", unit="rad, m")
    highest: np.ndarray = shared("largest coordinate of each joint", "n", unit="rad, m")
    dry: np.ndarray = shared("impulse of dry friction in a step", "n", unit="N m s, N s")
    viscous: float = value("period times viscous friction", unit="N m s^2/rad")
    period: float = value("duration of a step", unit="s")
    torque: np.ndarray = array("torque of the motors in the last step", "n", unit="N m, N")
    A: np.ndarray = array("M + T B", "n", "n")
    L: np.ndarray = array("Cholesky factor of the inertia", "n", "n")
    free: np.ndarray = array("velocities without dry friction and limits", "n")
    lower: np.ndarray = array("least velocities", "n")
    upper: np.ndarray = array("largest velocities", "n")


@kernel
def step_chain(packed_chain, packed_joints, torque, wrench):
    """Advance an arm by a period; the arguments as of `Arm.step`. False: its inertia is not positive definite."""
    a, b = packed_chain.arrays, packed_joints.arrays
    n, T = a.q.shape[0], b.period
    for i in range(n):
        b.torque[i] = min(max(torque[i], -b.effort[i]), b.effort[i])
        driving = b.torque[i] - a.h[i]
        for r in range(6):
            driving += a.J[r, i] * wrench[r]
        b.free[i] = T * driving
        for j in range(n):
            b.free[i] += a.M[i, j] * a.v[j]
            b.A[i, j] = a.M[i, j]
        b.A[i, i] += b.viscous
        b.lower[i] = min(max((b.lowest[i] - a.q[i]) / T, -b.speed[i]), 0.0)
        b.upper[i] = max(min((b.highest[i] - a.q[i]) / T, b.speed[i]), 0.0)
    if not cholesky(b.A, n, b.L):
        return False
    cholesky_solve(b.L, n, b.free)
    step_joints(b.A, b.free, b.lower, b.upper, b.dry, a.v)
    for i in range(n):
        a.q[i] += T * a.v[i]
    evaluate_chain(packed_chain)
    return True


class Arm:
    """An arm of which each joint has one coordinate, with its state and its dynamics.

    Args:
        arm: its model, and the frame of its tool.
        q: configuration at the start (nv,) [rad, m].
        rate: of the steps [Hz].
        friction: of its joints.

    Attributes (all in the axes of the arm's base, at the tool's origin; the arrays are filled anew in each step):
        q, v: configuration and velocity (nv,).
        M: inertia (nv, nv). h: M dv/dt + h = tau without friction (nv,). J: Jacobian of the tool's twist (6, nv).
        pose: of the tool (7,) [m, quat_xyzw]. twist: of the tool (6,) [m/s, rad/s].
        torque: of the motors in the last step (nv,) [N m].
        chain: the same, for kernels.
    """

    LIMITS: ClassVar[float] = 1e-9  # [rad, m] by which a start may be outside of the range

    def __init__(self, arm: ArmModel, q: np.ndarray, rate: float, friction: FrictionParameters | None = None):
        self.model, self.tool = arm
        model, chain = self.model, chain_of(arm)
        friction = FrictionParameters() if friction is None else friction
        joints = allocate(
            Joints,
            {"n": model.nv},
            effort=np.where(model.effortLimit > 0.0, model.effortLimit, np.inf),
            speed=np.where(model.velocityLimit > 0.0, model.velocityLimit, np.inf),
            lowest=np.array(model.lowerPositionLimit, float),
            highest=np.array(model.upperPositionLimit, float),
            dry=np.full(model.nv, friction.dry / rate),
            viscous=friction.viscous / rate,
            period=1.0 / rate,
        )
        self.q, self.v, self.M, self.h, self.J = chain.q, chain.v, chain.M, chain.h, chain.J
        self.pose, self.twist, self.torque = chain.pose, chain.twist, joints.torque
        self.chain, self._joints = Packed(chain), Packed(joints)
        self.q[:] = q
        self._step = bind(step_chain, self.chain, self._joints, self.torque, self.twist)
        self._evaluate()

    def _evaluate(self) -> None:
        """Compute everything that follows from q and v."""
        evaluate_chain(self.chain)

    @property
    def kinetic_energy(self) -> float:
        """1/2 v^T M v [J]."""
        return float(0.5 * self.v @ self.M @ self.v)

    @property
    def potential_energy(self) -> float:
        """Potential energy of gravity [J]."""
        return float(pin.computePotentialEnergy(self.model, self.model.createData(), self.q))

    def mobility(self) -> np.ndarray:
        """Inverse inertia of the tool, J M^-1 J^T (6, 6) [1/kg, 1/(kg m), 1/(kg m^2)]."""
        return np.asarray(self.J @ np.linalg.solve(self.M, self.J.T))

    def step(self, torque: np.ndarray, wrench: np.ndarray) -> None:
        """Advance by a period.

        Args:
            torque: of the motors (nv,) [N m]; what is beyond their limits is cut off.
            wrench: of the surroundings on the tool (6,) [N, N m], held over the step.
        """
        if not self._step(self.chain, self._joints, torque, wrench):
            raise ValueError("arm: the inertia is not positive definite; check the masses of its model")
