"""The wrench at the tool of an arm without a force sensor, from its motion and the torques of its motors.

The momentum p = M(q) v of an arm has dp/dt = tau + C^T v - g + tau_e, with dM/dt = C + C^T. The observer (De Luca and
Mattone 2005; Haddadin, De Luca and Albu-Schaeffer 2017, IV-E) needs no acceleration. Over a period T, in which
torques are held,

    r(k+1) = r(k) + (1 - exp(-K T)) ((p(k+1) - p(k)) / T - tau(k) - C^T v + g - r(k))

which is the first-order response of their observer with the gain K: under a constant tau_e, r(k) = (1 - exp(-K k T))
tau_e. C^T v and g are those at the beginning of the period; the error is of the order of T.

C^T v is the gradient of the kinetic energy by q. With the notation of `haptic_robot.dynamics` and the momentum H_i of
all bodies that joint i moves, [linear, angular about O], p_i = S_i . H_i. For a constant v the derivative of p_i is
(V_i x S_i) . H_i + S_i . dH_i/dt, of which the last term is what the recursive Newton-Euler algorithm finds for C v;
the first is therefore

    (C^T v)_i = (V_i x S_i) . H_i = v_S . (H_lin x w_V) + w_S . (H_lin x v_V + H_ang x w_V)

The wrench F has tau_e = J^T F. With lengths in multiples of `length`, and the eigenvalues s_i^2 and eigenvectors u_i of
J J^T,

    F = sum_i u_i (u_i . J r) / max(s_i, s_min)^2

which is exact where no singular value s_i of J is below s_min, is continuous, and never has a gain above 1 / s_min:
along a direction in which a singular arm can feel nothing the wrench fades to zero instead of growing without bound.

Nothing allocates in a sample.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from haptic_robot.dynamics import chain_of, evaluate_chain
from haptic_robot.models import ArmModel
from haptic_sim.kernels import bind, kernel
from haptic_sim.linalg import symmetric_eigen
from haptic_sim.packed import Packed
from haptic_sim.parameters import Parameters, quantity
from haptic_sim.records import allocate, array, record, value


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


@record
class Observation(NamedTuple):
    """State of an observer, its result, and its memory."""

    gain: float = value("K", unit="1/s")
    length: float = value("by which lengths are divided", unit="m")
    least: float = value("smallest singular value that is inverted")
    momentum: np.ndarray = array("p", "n", unit="kg m^2/s, kg m/s")
    driven: np.ndarray = array("C^T v - g", "n", unit="N m, N")
    residual: np.ndarray = array("r", "n", unit="N m, N")
    wrench: np.ndarray = array("F, on the tool at its origin", 6, unit="N, N m")
    H: np.ndarray = array("momentum of the bodies that a joint moves, at O", "bodies", 6)
    squares: np.ndarray = array("J J^T", 6, 6)
    values: np.ndarray = array("its eigenvalues", 6)
    vectors: np.ndarray = array("its eigenvectors, by rows", 6, 6)
    shown: np.ndarray = array("J r", 6)


@kernel
def tool_wrench(J, torque, length, least, squares, values, vectors, shown, wrench):
    """Fill `wrench` (6,) [N, N m] with the wrench at the tool that has torques of the joints, by the sum above.

    Args:
        J: Jacobian of the tool (6, nv), translation first.
        torque: (nv,) [N m].
        length: [m] by which lengths are divided.
        least: smallest singular value that is inverted.
        squares, vectors: (6, 6), values, shown: (6,), for the kernel.
    """
    for r in range(6):
        of_r = 1.0 / length if r < 3 else 1.0
        shown[r] = wrench[r] = 0.0
        for j in range(J.shape[1]):
            shown[r] += of_r * J[r, j] * torque[j]
        for s in range(r + 1):
            of_s = 1.0 / length if s < 3 else 1.0
            square = 0.0
            for j in range(J.shape[1]):
                square += J[r, j] * J[s, j]
            squares[r, s] = squares[s, r] = of_r * of_s * square
    symmetric_eigen(squares, 6, values, vectors)
    for m in range(6):
        part = 0.0
        for r in range(6):
            part += vectors[m, r] * shown[r]
        part /= max(values[m], least * least)
        for r in range(6):
            wrench[r] += (1.0 / length if r < 3 else 1.0) * part * vectors[m, r]


@kernel
def _add_momentum(a, i, H):
    """Add the momentum of body i at O to H (6,)."""
    m, R, V, c, turning = a.mass[i], a.R[i], a.V[i], a.work[:3], a.work[3:]
    for r in range(3):
        c[r] = a.p[i, r] + R[r, 0] * a.lever[i, 0] + R[r, 1] * a.lever[i, 1] + R[r, 2] * a.lever[i, 2]
    for r in range(3):  # I w in the axes of the body
        turning[r] = 0.0
        for s in range(3):
            turning[r] += a.inertia[i, r, s] * (R[0, s] * V[3] + R[1, s] * V[4] + R[2, s] * V[5])
    for r in range(3):
        d, e = (r + 1) % 3, (r + 2) % 3
        at_d = m * (V[d] + V[3 + e] * c[r] - V[3 + r] * c[e])  # of the centre of mass
        at_e = m * (V[e] + V[3 + r] * c[d] - V[3 + d] * c[r])
        H[r] += m * (V[r] + V[3 + d] * c[e] - V[3 + e] * c[d])
        H[3 + r] += R[r, 0] * turning[0] + R[r, 1] * turning[1] + R[r, 2] * turning[2] + c[d] * at_e - c[e] * at_d


@kernel
def fill_momentum(packed_chain, H, momentum, driven):
    """Fill p and C^T v - g (n,) of a chain that has been evaluated; H (bodies, 6), for the kernel."""
    a = packed_chain.arrays
    n = a.q.shape[0]
    H[:] = 0.0
    for i in range(n, 0, -1):
        k, S, V, moved = a.parent[i], a.S[i], a.V[i], a.moved[i]
        _add_momentum(a, i, H[i])
        for r in range(6):
            H[k, r] += H[i, r]
        found = weight = 0.0
        for r in range(3):
            d, e = (r + 1) % 3, (r + 2) % 3
            found += S[r] * (H[i, d] * V[3 + e] - H[i, e] * V[3 + d])
            found += S[3 + r] * (H[i, d] * V[e] - H[i, e] * V[d] + H[i, 3 + d] * V[3 + e] - H[i, 3 + e] * V[3 + d])
            weight += S[r] * moved[0] * a.gravity[r]
            weight += S[3 + r] * (moved[1 + d] * a.gravity[e] - moved[1 + e] * a.gravity[d])
        driven[i - 1] = found + weight
    for i in range(n):
        momentum[i] = 0.0
        for j in range(n):
            momentum[i] += a.M[i, j] * a.v[j]


@kernel
def observe(packed_chain, packed, torque, period, first):
    """Take a sample of the joints, which the chain has: fill the residual and the wrench of an Observation.

    Args:
        packed_chain: a Chain; packed: an Observation.
        torque: of the motors during the period (n,), less known friction.
        period: since the last sample [s].
        first: whether there is no last sample.
    """
    evaluate_chain(packed_chain)
    a, b = packed_chain.arrays, packed.arrays
    n, part = torque.shape[0], -math.expm1(-b.gain * period)
    for i in range(n):
        b.residual[i] -= part * (b.momentum[i] / period + torque[i] + b.driven[i] + b.residual[i])
    fill_momentum(packed_chain, b.H, b.momentum, b.driven)
    for i in range(n):
        b.residual[i] = 0.0 if first else b.residual[i] + part * b.momentum[i] / period
    tool_wrench(a.J, b.residual, b.length, b.least, b.squares, b.values, b.vectors, b.shown, b.wrench)


class MomentumObserver:
    """The external torques of an arm, and its wrench at the tool in the axes of the base.

    Args:
        parameters: validated.
        arm: its model.
        rate: of the samples [Hz].

    Attributes:
        torque: external torques r (nv,) [N m]; wrench: on the tool (6,) [N, N m]; both are filled anew in each sample.
    """

    def __init__(self, parameters: ObserverParameters, arm: ArmModel, rate: float):
        chain, self._T, self._first = chain_of(arm), 1.0 / rate, True
        kept = allocate(
            Observation,
            {"n": arm.model.nv, "bodies": arm.model.nv + 1},
            gain=parameters.bandwidth,
            length=parameters.length,
            least=parameters.least,
        )
        self._q, self._v, self.torque, self.wrench = chain.q, chain.v, kept.residual, kept.wrench
        self._chain, self._kept, self._driving = Packed(chain), Packed(kept), np.zeros(arm.model.nv)
        self._observe = bind(observe, self._chain, self._kept, self._driving, self._T, True)

    def reset(self) -> None:
        """Forget what was observed: the next sample is the first."""
        self._first = True
        self.torque[:] = self.wrench[:] = 0.0

    def update(self, q: np.ndarray, v: np.ndarray, torque: np.ndarray, period: float | None = None) -> np.ndarray:
        """The wrench (6,) [N, N m] of the surroundings on the tool, at its origin; the array is used again.

        Args:
            q, v: configuration and velocity at the end of a period (nv,).
            torque: of the motors during it (nv,), less known friction.
            period: its duration [s]; None: that of the rate.
        """
        self._q[:], self._v[:], self._driving[:] = q, v, torque
        self._observe(self._chain, self._kept, self._driving, self._T if period is None else period, self._first)
        self._first = False
        return self.wrench
