"""Inverse kinematics of a frame, by Pinocchio: damped least squares within the limits of the joints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pinocchio as pin

CLOSE = 1e-10  # [m, rad] what is left of the error when it is solved
_ROUNDS = 200
_FIRST_DAMPING, _MOST_DAMPING = 0.1, 1e6  # added to J J^T, by the squared error
_LEAST_DAMPING = 1e-12


@dataclass(frozen=True)
class Reach:
    """Result of inverse kinematics: the reached placement of a frame.

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

    The method of Levenberg and Marquardt, with a damping in proportion to the squared error (Sugihara, IEEE T-RO 27(5),
    2011), which is lessened after a step that brings the frame nearer. A coordinate at its limit is left out of a step
    that would take it further.

    Args:
        model: and `frame` of it.
        goal: pose of the frame in the world.
        q: where to begin, (nq,).
        columns: velocity coordinates that may move, (m,).
        lower, upper: limits of the coordinates of those, infinite where there are none, (m,).
        rotation: whether the orientation counts.
    """
    data, rows = model.createData(), slice(0, 6 if rotation else 3)
    place = np.array([_place(model, int(j)) for j in columns])
    numbers = place >= 0
    best, e, J = _evaluate(model, data, frame, goal, np.array(q, float), rotation)
    damping = _FIRST_DAMPING
    for _ in range(_ROUNDS):
        if best.error + best.angle < CLOSE or damping > _MOST_DAMPING:
            break
        at = np.where(numbers, best.q[place], 0.0)
        step = _step(J[rows, columns], e[rows], damping * float(e @ e) + _LEAST_DAMPING, at <= lower, at >= upper)
        v = np.zeros(model.nv)
        v[columns] = step
        trial = pin.integrate(model, best.q, v)
        trial[place[numbers]] = np.clip(trial[place[numbers]], lower[numbers], upper[numbers])
        found, e_found, J_found = _evaluate(model, data, frame, goal, trial, rotation)
        if e_found @ e_found < e @ e:
            best, e, J, damping = found, e_found, J_found, 0.2 * damping
        else:
            damping *= 5.0
    return best


def _evaluate(
    model: pin.Model, data: pin.Data, frame: int, goal: pin.SE3, q: np.ndarray, rotation: bool
) -> tuple[Reach, np.ndarray, np.ndarray]:
    """Placement of the frame at q, its error (6,), and its Jacobian (6, nv)."""
    J = pin.computeFrameJacobian(model, data, q, frame, pin.LOCAL_WORLD_ALIGNED)
    now = pin.updateFramePlacement(model, data, frame)
    turn = pin.log3(goal.rotation @ now.rotation.T) if rotation else np.zeros(3)
    off = goal.translation - now.translation
    reached = Reach(q, float(np.linalg.norm(off)), float(np.linalg.norm(turn)))
    return reached, np.concatenate([off, turn]), J.reshape(6, -1)


def _step(J: np.ndarray, e: np.ndarray, damping: float, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The damped step, without the coordinates at a limit that it would take further."""
    free = np.ones(J.shape[1], bool)
    while True:
        A, step = J[:, free], np.zeros(J.shape[1])
        step[free] = A.T @ np.linalg.solve(A @ A.T + damping * np.eye(e.size), e)
        blocked = free & ((high & (step > 0.0)) | (low & (step < 0.0)))
        if not blocked.any():
            return step
        free &= ~blocked


def _place(model: pin.Model, column: int) -> int:
    """The place in q of a velocity coordinate that is a single number, -1 of another."""
    for joint in range(1, model.njoints):
        first, count = model.idx_vs[joint], model.nvs[joint]
        if first <= column < first + count:
            return int(model.idx_qs[joint]) + column - first if model.nqs[joint] == count else -1
    return -1
