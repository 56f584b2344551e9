"""The wrench at the tool of an arm without a force sensor, from its motion and the torques of its motors.

The momentum p = M(q) v of an arm has dp/dt = tau + C^T v - g + tau_e, with dM/dt = C + C^T. The observer (De Luca and
Mattone 2005; Haddadin, De Luca and Albu-Schaeffer 2017, IV-E) needs no acceleration. Over a period T, in which
torques are held,

    r(k+1) = r(k) + (1 - exp(-K T)) ((p(k+1) - p(k)) / T - tau(k) - C^T v + g - r(k))

which is the first-order response of their observer with the gain K: under a constant tau_e, r(k) = (1 - exp(-K k T))
tau_e. C^T v and g are those at the beginning of the period; the error is of the order of T.

The wrench F has tau_e = J^T F. By the singular values s_i of J, with lengths in multiples of `length`,

    F = sum_i u_i (v_i . r) s_i / max(s_i, s_min)^2

which is exact where no singular value is below s_min, is continuous, and never has a gain above 1 / s_min: along a
direction in which a singular arm can feel nothing the wrench fades to zero instead of growing without bound.
"""

from __future__ import annotations

import math

import numpy as np
import pinocchio as pin

from haptic_robot.models import ArmModel
from haptic_sim.parameters import Parameters, quantity


class ObserverParameters(Parameters):
    """A momentum observer of the wrench at the tool."""

    bandwidth: float = quantity(100.0, unit="1/s", description="Gain K of the observer", gt=0.0, le=1e4)
    length: float = quantity(
        0.3, unit="m", description="Length by which rotations and translations of the tool are compared", gt=0.0
    )
    least: float = quantity(
        0.05,
        description="Singular value of the tool's Jacobian, lengths in `length`, below which a wrench is reduced",
        gt=0.0,
        le=10.0,
    )


def tool_wrench(J: np.ndarray, torque: np.ndarray, length: float, least: float) -> np.ndarray:
    """The wrench (6,) [N, N m] at the tool that has torques of the joints (nv,) [N m], by the sum above.

    Args:
        J: Jacobian of the tool (6, nv), translation first.
        length: [m] by which lengths are divided.
        least: smallest singular value that is inverted.
    """
    scale = np.repeat([1.0 / length, 1.0], 3)
    U, s, Vt = np.linalg.svd(J * scale[:, None], full_matrices=False)
    return np.asarray(scale * (U @ (s / np.maximum(s, least) ** 2 * (Vt @ torque))))


class MomentumObserver:
    """The external torques of an arm, and its wrench at the tool in the axes of the base.

    Args:
        parameters: validated.
        arm: its model.
        rate: of the samples [Hz].
    """

    def __init__(self, parameters: ObserverParameters, arm: ArmModel, rate: float):
        self._of, (self._model, self._tool) = parameters, arm
        self._data, self._T = self._model.createData(), 1.0 / rate
        self._part = -math.expm1(-parameters.bandwidth / rate)
        self.torque, self.wrench = np.zeros(self._model.nv), np.zeros(6)
        self._momentum: np.ndarray | None = None
        self._driven = np.zeros(self._model.nv)  # C^T v - g at the beginning of the period

    def reset(self) -> None:
        """Forget what was observed: the next sample is the first."""
        self._momentum = None
        self.torque[:] = self.wrench[:] = 0.0

    def update(self, q: np.ndarray, v: np.ndarray, torque: np.ndarray) -> np.ndarray:
        """The wrench (6,) [N, N m] of the surroundings on the tool, at its origin.

        Args:
            q, v: configuration and velocity at the end of a period (nv,).
            torque: of the motors during it (nv,), less known friction.
        """
        model, data = self._model, self._data
        C = pin.computeCoriolisMatrix(model, data, q, v)
        gravity = pin.computeGeneralizedGravity(model, data, q)
        upper = np.triu(pin.crba(model, data, q))
        momentum = upper @ v + np.triu(upper, 1).T @ v
        if self._momentum is not None:
            found = (momentum - self._momentum) / self._T - torque - self._driven
            self.torque += self._part * (found - self.torque)
        self._momentum, self._driven = momentum, C.T @ v - gravity
        J = pin.computeFrameJacobian(model, data, q, self._tool, pin.LOCAL_WORLD_ALIGNED).reshape(6, -1)
        self.wrench[:] = tool_wrench(J, self.torque, self._of.length, self._of.least)
        return self.wrench
