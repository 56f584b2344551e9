"""Inverse kinematics of a frame, by Pinocchio: damped least squares within the limits of the joints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pinocchio as pin

CLOSE = 1e-10  # [m, rad] what is left of the error when it is solved
_ROUNDS = 200
_LEAST_DAMPING = 1e-12  # added to J J^T, and what is in proportion to the squared error
_SHARE = 0.1


@dataclass(frozen=True)
class Reach:
    """Where a frame got.

    Attributes:
        q: configuration (nq,).
        error: distance that is left [m]; angle: rotation that is left [rad], 0 where it is free.
    """

    q: np.ndarray
    error: float
    angle: float


def reach(
    model: pin.Model,
    frame: int,
    goal: pin.SE3,
    q: np.ndarray,
    columns: np.ndarray,
    *,
    lower: np.ndarray,
    upper: np.ndarray,
    rotation: bool = True,
) -> Reach:
    """Bring a frame to a goal, from q on.

    Levenberg's damping in proportion to the squared error (Sugihara, IEEE T-RO 27(5), 2011) makes the steps small where
    the goal cannot be reached. A coordinate at its limit is left out of a step that would take it further.

    Args:
        model: and `frame` of it.
        goal: pose of the frame in the world.
        q: where to begin, (nq,).
        columns: velocity coordinates that may move, (m,).
        lower, upper: limits of the coordinates of those, infinite where there are none, (m,).
        rotation: whether the orientation counts.
    """
    data, q = model.createData(), np.array(q, float)
    rows = slice(0, 6 if rotation else 3)
    place = np.array([_place(model, int(j)) for j in columns])
    best = Reach(q.copy(), np.inf, np.inf)
    for _ in range(_ROUNDS):
        J = pin.computeFrameJacobian(model, data, q, frame, pin.LOCAL_WORLD_ALIGNED)
        pin.updateFramePlacement(model, data, frame)
        now = data.oMf[frame]
        turn = pin.log3(goal.rotation @ now.rotation.T) if rotation else np.zeros(3)
        error = np.concatenate([goal.translation - now.translation, turn])
        found = Reach(q.copy(), float(np.linalg.norm(error[:3])), float(np.linalg.norm(turn)))
        if found.error + found.angle < best.error + best.angle:
            best = found
        if best.error + best.angle < CLOSE:
            break
        e, J = error[rows], J.reshape(6, -1)[rows, columns]
        free = np.ones(columns.size, bool)
        for _ in range(columns.size + 1):
            A = J[:, free]
            damping = _LEAST_DAMPING + _SHARE * float(e @ e)
            step = np.zeros(columns.size)
            step[free] = A.T @ np.linalg.solve(A @ A.T + damping * np.eye(e.size), e)
            at = np.where(place >= 0, q[place], 0.0)
            blocked = free & (((at >= upper) & (step > 0.0)) | ((at <= lower) & (step < 0.0)))
            if not blocked.any():
                break
            free &= ~blocked
        v = np.zeros(model.nv)
        v[columns] = step
        q = pin.integrate(model, q, v)
        numbers = place >= 0
        q[place[numbers]] = np.clip(q[place[numbers]], lower[numbers], upper[numbers])
    return best


def _place(model: pin.Model, column: int) -> int:
    """The place in q of a velocity coordinate that is a single number, -1 of another."""
    for joint in range(1, model.njoints):
        first, count = model.idx_vs[joint], model.nvs[joint]
        if first <= column < first + count:
            return int(model.idx_qs[joint]) + column - first if model.nqs[joint] == count else -1
    return -1
