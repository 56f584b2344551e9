"""The virtual tool as a Pinocchio model: configuration-space dynamics and the hand.

Notation: W world, H the hand frame with its axes turned to the world's. A free body has the velocity of its centre
of mass in world axes as coordinates, so that semi-implicit Euler conserves its linear momentum exactly: a planar
joint is a composite of PX, PY, RZ (Pinocchio's JointModelPlanar has body axes, in which each step would turn the
momentum).
"""

from __future__ import annotations

import numba
import numpy as np
import pinocchio as pin

from haptic_sim.contact.impulses import cholesky, cholesky_solve
from haptic_sim.spatial import quat_from_matrix


def planar_joint() -> pin.JointModel:
    """A joint with coordinates (x, y, angle about z) in world axes [m, m, rad]."""
    joint = pin.JointModelComposite()
    for axis in (pin.JointModelPX(), pin.JointModelPY(), pin.JointModelRZ()):
        joint.addJoint(axis)
    return joint


def planar_body(mass: float, inertia: float) -> tuple[pin.Model, int]:
    """A free planar body, its hand frame at the centre of mass; returns the model and the frame's index.

    Args:
        mass: [kg].
        inertia: about z at the centre of mass [kg m^2].
    """
    model = pin.Model()
    body = model.addJoint(0, planar_joint(), pin.SE3.Identity(), "tool")
    # The other two moments do not matter in the plane; equal ones are those of a possible body.
    model.appendBodyToJoint(body, pin.Inertia(mass, np.zeros(3), inertia * np.eye(3)), pin.SE3.Identity())
    model.gravity.linear[:] = 0.0
    hand = model.addFrame(pin.Frame("hand", body, pin.SE3.Identity(), pin.FrameType.OP_FRAME))
    return model, hand


class Multibody:
    """State and dynamics of an articulated tool, refreshed once a step.

    Attributes:
        q, v: configuration (nq,) and its velocity (nv,), SI units.
        D: configuration-space inertia (nv, nv); L: its Cholesky factor, lower triangle.
        bias: Coriolis, centrifugal and gravity terms (nv,).
        J_H: Jacobian of the hand's [linear, angular] velocity in world axes (6, nv).
        p_WH: hand point [m] (3,); R_WH: its orientation (3, 3); pose: both as position and quaternion x y z w (7,).
        twist: of the hand [m/s, rad/s] (6,).
        inverse_inertia: J D^-1 J^T at the hand, row major (36,).
        kinetic_energy: [J] (1,).
    """

    def __init__(self, model: pin.Model, hand: int, q: np.ndarray, v: np.ndarray):
        self.model, self.hand = model, hand
        self.data = model.createData()
        nv = model.nv
        self.q, self.v = np.array(q, float), np.array(v, float)
        self.D, self.L = np.zeros((nv, nv)), np.zeros((nv, nv))
        self.J_H = np.zeros((6, nv))
        self.pose, self.twist = np.zeros(7), np.zeros(6)
        self.inverse_inertia = np.zeros(36)
        self.kinetic_energy = np.zeros(1)
        self._column = np.zeros(nv)
        # Pinocchio's Python arrays are views: they follow its data without being asked for again.
        self._M, self.bias = self.data.M, self.data.nle
        placement = self.data.oMf[hand]
        self.p_WH, self.R_WH = placement.translation, placement.rotation
        self.refresh()

    @property
    def nv(self) -> int:
        """Degrees of freedom."""
        return int(self.model.nv)

    def refresh(self) -> None:
        """Bring everything that depends on q and v up to date."""
        pin.computeAllTerms(self.model, self.data, self.q, self.v)
        pin.updateFramePlacement(self.model, self.data, self.hand)
        # Only LOCAL_WORLD_ALIGNED gives the velocity of the hand point itself in its linear rows.
        J = pin.getFrameJacobian(self.model, self.data, self.hand, pin.LOCAL_WORLD_ALIGNED)
        _refresh(
            self._M,
            J,
            self.p_WH,
            self.R_WH,
            self.v,
            self.D,
            self.L,
            self.J_H,
            self.pose,
            self.twist,
            self.inverse_inertia,
            self.kinetic_energy,
            self._column,
        )

    def advance(self, generalized_force: np.ndarray, wrench: np.ndarray, period: float) -> None:
        """Integrate over a step by semi-implicit Euler (velocity, then position).

        Args:
            generalized_force: of the contacts (nv,); changed in place.
            wrench: on the hand, in world axes [N, N m] (6,).
            period: [s].
        """
        _accelerate(self.L, self.J_H, self.bias, wrench, period, generalized_force, self.v)
        self.q[:] = pin.integrate(self.model, self.q, self.v * period)
        self.refresh()


@numba.njit(cache=True, nogil=True)
def _accelerate(L, J_H, bias, wrench, period, force, v):
    """v += T D^-1 (force + J_H^T wrench - bias), THESIS (4.13)."""
    nv = v.shape[0]
    for j in range(nv):
        s = force[j] - bias[j]
        for i in range(6):
            s += J_H[i, j] * wrench[i]
        force[j] = s
    cholesky_solve(L, nv, force)
    for j in range(nv):
        v[j] += period * force[j]


@numba.njit(cache=True, nogil=True)
def _refresh(M, J, p, R, v, D, L, J_H, pose, twist, inverse_inertia, kinetic_energy, column):
    nv = v.shape[0]
    energy = 0.0
    for i in range(nv):
        for j in range(nv):
            D[i, j] = M[i, j] if i <= j else M[j, i]  # only the upper triangle is filled
        for j in range(6):
            J_H[j, i] = J[j, i]
    for i in range(nv):
        for j in range(nv):
            energy += v[i] * D[i, j] * v[j]
    kinetic_energy[0] = 0.5 * energy
    cholesky(D, nv, L)
    for i in range(3):
        pose[i] = p[i]
    quat_from_matrix(R, pose[3:])
    for i in range(6):
        s = 0.0
        for j in range(nv):
            s += J_H[i, j] * v[j]
        twist[i] = s
        for j in range(nv):
            column[j] = J_H[i, j]
        cholesky_solve(L, nv, column)
        for k in range(6):
            s = 0.0
            for j in range(nv):
                s += J_H[k, j] * column[j]
            inverse_inertia[6 * k + i] = s
