"""Compliance of an arm at its tool: impedance and admittance control (Hogan 1985), by torques of the joints.

Impedance: the tool is tied to a target by the spring and damper of `haptic_control.virtual_coupling`, whose wrenches
follow from a potential, so that it is passive for rotations of any size:

    tau = h + J^T (W(target, tool) + F) + tau_0,       tau_0 = -d N N^T v,   N = 1 - J^T L J M^-1

h balances gravity and Coriolis forces, F is a commanded wrench of the tool on its surroundings. tau_0 damps the
motion that the tool does not show, of arms with more than six joints: J M^-1 N = 0, so it is not felt at the tool
(Khatib 1987), and v^T tau_0 <= 0. L is the inverse of the tool's mobility J M^-1 J^T, bounded where that is singular.

Admittance: a stiffer impedance follows a pose x that yields to the measured wrench F_m by

    M_a dv/dt = F_m + F - D v - K (x - target)

with K constant in the axes of the base or of the target. Semi-implicit Euler, with the damper implicit.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator
from scipy.linalg import eigh

from haptic_control.matrices import MatrixGains, matrix_of
from haptic_control.virtual_coupling import couple
from haptic_robot.arm import Arm
from haptic_robot.dynamics import SINGULAR, torques_at_tool
from haptic_sim.dynamics.loose import rotation_of
from haptic_sim.kernels import bind, kernel
from haptic_sim.linalg import cholesky, cholesky_solve
from haptic_sim.parameters import Parameters, quantity
from haptic_sim.spatial import advance_pose

Axes = Literal["base", "target"]


def _six_or_all(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(values) == 3:
        raise ValueError("has 3 values: must have 6, or the 36 of a matrix")
    return values


SpatialGains = Annotated[MatrixGains, AfterValidator(_six_or_all)]


class ImpedanceParameters(Parameters):
    """Stiffness and damping of an arm at its tool."""

    stiffness: SpatialGains = quantity(
        (3000.0, 3000.0, 3000.0, 100.0, 100.0, 100.0),
        unit="N/m, N m/rad",
        description="Stiffness between target and tool: six gains, or the 36 values of a symmetric matrix, row by row",
    )
    damping: SpatialGains | None = quantity(
        None,
        unit="N s/m, N m s/rad",
        description="Damping there; null: `damping_ratio` of each mode of the tool's inertia at the start",
    )
    damping_ratio: float = quantity(1.0, description="Damping over critical damping of each mode", ge=0.0, le=10.0)
    axes: Axes = quantity("base", description="Axes in which stiffness and damping are constant: base, or target")
    joint_damping: float = quantity(
        5.0,
        unit="N m s/rad",
        description="Damping of motions of the joints that do not move the tool",
        ge=0.0,
    )


class AdmittanceParameters(Parameters):
    """Compliance of the target of a stiff arm under the measured wrench."""

    mass: float = quantity(5.0, unit="kg", description="Mass that the tool shows", gt=0.0)
    inertia: float = quantity(0.1, unit="kg m^2", description="Inertia that the tool shows, about every axis", gt=0.0)
    stiffness: SpatialGains = quantity(
        (3000.0, 3000.0, 3000.0, 100.0, 100.0, 100.0),
        unit="N/m, N m/rad",
        description="Stiffness that the tool shows between target and tool",
    )
    damping: SpatialGains = quantity(
        (250.0, 250.0, 250.0, 7.0, 7.0, 7.0),
        unit="N s/m, N m s/rad",
        description="Damping that the tool shows",
    )
    axes: Axes = quantity("base", description="Axes in which stiffness and damping are constant: base, or target")


def critical_damping(inertia: np.ndarray, stiffness: np.ndarray, ratio: float) -> np.ndarray:
    """Damping matrix with which each mode of inertia and stiffness (6, 6) has a damping ratio.

    By the generalised eigenvectors Q of K and L, Q^T L Q = 1 and Q^T K Q = diag(w^2), the damping is
    L Q diag(2 ratio w) Q^T L (Albu-Schaeffer et al. 2003, "double diagonalisation").
    """
    squares, Q = eigh(stiffness, inertia)
    rates = 2.0 * ratio * np.sqrt(np.maximum(squares, 0.0))
    return np.asarray(inertia @ (Q * rates) @ Q.T @ inertia)


def inertia_at_tool(mobility: np.ndarray) -> np.ndarray:
    """Inverse of the tool's mobility (6, 6), bounded where that is singular (SINGULAR)."""
    values, vectors = np.linalg.eigh(mobility)
    return np.asarray((vectors / np.maximum(values, SINGULAR * max(values[-1], 1e-300))) @ vectors.T)


@kernel
def turn_gains(gains, pose, R, out):
    """Fill `out` (6, 6) with gains (6, 6) in the axes of the base, from those in the axes of a pose (7,).

    Each 3 x 3 part G of the gains becomes R G R^T, with R (3, 3), for the kernel, the rotation of the pose.
    """
    rotation_of(pose, 3, R)
    for i in range(6):
        for j in range(6):
            s = 0.0
            for m in range(3):
                for n in range(3):
                    s += R[i % 3, m] * gains[i - i % 3 + m, j - j % 3 + n] * R[j % 3, n]
            out[i, j] = s


@kernel
def admit(inertia, damping, T, measured, spring, pose, twist, A, L, work):
    """Advance a pose (7,) and its twist (6,) by a period, M (v+ - v) = T (F - D v+), the pose by v+.

    Args:
        inertia, damping: M and D (6, 6), symmetric. T: period [s].
        measured, spring: wrenches whose sum is F (6,).
        A, L: (6, 6), work: (6,), for the kernel.
    """
    for i in range(6):
        work[i] = T * (measured[i] + spring[i])
        for j in range(6):
            work[i] += inertia[i, j] * twist[j]
            A[i, j] = inertia[i, j] + T * damping[i, j]
    if cholesky(A, 6, L):  # always: an inertia is positive definite, and gains are checked to be no less than 0
        cholesky_solve(L, 6, work)
        for i in range(6):
            twist[i] = work[i]
    advance_pose(twist, T, pose)


def damping_of(parameters: ImpedanceParameters, arm: Arm) -> np.ndarray:
    """Damping matrix (6, 6) of an impedance, in its axes; that of a ratio follows from the arm as it is."""
    if parameters.damping is not None:
        return matrix_of(parameters.damping)
    shown = inertia_at_tool(arm.mobility())
    if parameters.axes == "target":  # the gains are in axes of the target, which is at the tool
        from_base, at_target = arm.pose.copy(), np.zeros((6, 6))
        from_base[3:6] *= -1.0
        turn_gains(shown, from_base, np.zeros((3, 3)), at_target)
        shown = at_target
    return critical_damping(shown, matrix_of(parameters.stiffness), parameters.damping_ratio)


class _Spring:
    """Spring and damper between a target and a tool, in axes of the base or of the target."""

    def __init__(self, stiffness: np.ndarray, damping: np.ndarray, axes: Axes):
        self.stiffness, self.damping, self._turns = stiffness, damping, axes == "target"
        self._parts, self._on_target, self._on_tool = np.zeros((3, 4)), np.zeros(6), np.zeros(6)
        self._turned, self._R = np.zeros((2, 6, 6)), np.zeros((3, 3))

    def gains(self, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Stiffness and damping in the axes of the base, in arrays that are used again."""
        if not self._turns:
            return self.stiffness, self.damping
        turn_gains(self.stiffness, target, self._R, self._turned[0])
        turn_gains(self.damping, target, self._R, self._turned[1])
        return self._turned[0], self._turned[1]

    def wrench(
        self,
        target: np.ndarray,
        speed: np.ndarray,
        pose: np.ndarray,
        twist: np.ndarray,
        K: np.ndarray,
        D: np.ndarray,
    ) -> np.ndarray:
        """Wrench of the spring on the tool (6,) [N, N m]; the array is used again."""
        couple(target, speed, pose, twist, K, D, self._parts, self._on_target, self._on_tool)
        return self._on_tool


class ImpedanceController:
    """Torques with which an arm is a spring and a damper at its tool.

    Args:
        parameters: validated.
        arm: at its start, which the damping of a ratio follows.
    """

    def __init__(self, parameters: ImpedanceParameters, arm: Arm):
        self._arm, self._joint_damping = arm, parameters.joint_damping if arm.model.nv > 6 else 0.0
        self._spring = _Spring(matrix_of(parameters.stiffness), damping_of(parameters, arm), parameters.axes)
        self._acting, self._torque = np.zeros(6), np.zeros(arm.model.nv)
        self._torques = bind(torques_at_tool, arm.chain, self._acting, self._joint_damping, self._torque)

    def torque(self, target: np.ndarray, speed: np.ndarray, wrench: np.ndarray) -> np.ndarray:
        """Torques of the motors (nv,) [N m]; the array is used again.

        Args:
            target: pose of the target (7,); speed: its twist (6,).
            wrench: of the tool on its surroundings (6,), beside spring and damper.
        """
        arm = self._arm
        K, D = self._spring.gains(target)
        np.add(self._spring.wrench(target, speed, arm.pose, arm.twist, K, D), wrench, out=self._acting)
        self._torques(arm.chain, self._acting, self._joint_damping, self._torque)
        return self._torque


class Admittance:
    """The pose that yields to a measured wrench.

    Args:
        parameters: validated.
        pose: at the start, at rest (7,).
        rate: of the steps [Hz].
    """

    def __init__(self, parameters: AdmittanceParameters, pose: np.ndarray, rate: float):
        self._T = 1.0 / rate
        self._inertia = np.diag([parameters.mass] * 3 + [parameters.inertia] * 3)
        K, D = matrix_of(parameters.stiffness), matrix_of(parameters.damping)
        self._spring, self._none, self._undamped = _Spring(K, D, parameters.axes), np.zeros(6), np.zeros((6, 6))
        self._A, self._L, self._work = np.zeros((6, 6)), np.zeros((6, 6)), np.zeros(6)
        self.pose, self.twist = np.array(pose, float), np.zeros(6)

    def step(self, target: np.ndarray, wrench: np.ndarray) -> None:
        """Advance by a period, under a wrench (6,) [N, N m] on the tool in the axes of the base."""
        none = self._none
        K, D = self._spring.gains(target)
        on_tool = self._spring.wrench(target, none, self.pose, none, K, self._undamped)
        admit(self._inertia, D, self._T, wrench, on_tool, self.pose, self.twist, self._A, self._L, self._work)
