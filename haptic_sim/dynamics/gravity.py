"""Gravity compensation: weights of links that are balanced.

With the mass m_i and the centre of mass c_i of what is balanced of link i, the generalised force of gravity on it is
J_c^T m g, with m = sum m_i, the common centre of mass c and its Jacobian J_c, and its potential energy is -m g . c.
Both are taken from the dynamics, so that the balance of energy stays exact: gravity does no work on what is balanced.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pinocchio as pin


class BalancedWeights:
    """The weights in a model at which gravity does not pull.

    Args:
        model: the bodies.
        balanced: mass and centre of mass of what is balanced of each joint's link, in the joint's axes.
    """

    def __init__(self, model: pin.Model, balanced: Sequence[pin.Inertia]):
        self._model = model.copy()
        for joint, inertia in enumerate(balanced):
            self._model.inertias[joint] = pin.Inertia(inertia.mass, inertia.lever, np.zeros((3, 3)))
        self._data = self._model.createData()
        self._weight = sum(inertia.mass for inertia in balanced) * np.array(model.gravity.linear)

    def take_from(self, data: pin.Data, q: np.ndarray) -> float:
        """Take these weights from the bias and the weight in Pinocchio's `data`; returns their potential energy [J]."""
        force = pin.jacobianCenterOfMass(self._model, self._data, q, False).T @ self._weight
        for bias in (data.nle, data.g):  # in which the weight is -J_c^T m g
            bias += force
        return -float(self._weight @ self._data.com[0])


def balance(model: pin.Model, balanced: Sequence[pin.Inertia]) -> tuple[pin.Inertia, ...]:
    """Inertias whose weight the dynamics have to balance; none if all are balanced: gravity is then set to zero."""
    masses = [inertia.mass for inertia in balanced]
    if not any(masses):
        return ()
    if all(one.mass == all_of_it.mass for one, all_of_it in zip(balanced, model.inertias, strict=True)):
        model.gravity.linear[:] = 0.0
        return ()
    return tuple(balanced)
