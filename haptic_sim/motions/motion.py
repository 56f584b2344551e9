"""A motion: bodies of a world, their trajectory, and how they follow it; and a pull: where a body is grabbed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from haptic_sim.motions.trajectory import Trajectory

NUMBER, ANGLE, QUATERNION = range(3)
"""Kinds of `Places`: a coordinate that is a single number; an angle that is cosine and sine in q; a quaternion."""


@dataclass(frozen=True)
class Places:
    """Indices of a trajectory's coordinates in q and v of a model (g: groups of coordinates, m: velocities).

    Attributes:
        names: of the coordinates of the trajectory.
        kind: NUMBER, ANGLE or QUATERNION of each group, (g,).
        x, q, v: first place of each group in the trajectory, in q and in v, (g,).
    """

    names: tuple[str, ...]
    kind: np.ndarray
    x: np.ndarray
    q: np.ndarray
    v: np.ndarray

    @property
    def columns(self) -> np.ndarray:
        """Velocity coordinates, in the order of the trajectory, (m,)."""
        parts = [np.arange(v, v + (3 if kind == QUATERNION else 1)) for kind, v in zip(self.kind, self.v, strict=True)]
        return np.concatenate(parts)

    def of(self, q: np.ndarray) -> np.ndarray:
        """Coordinates of the trajectory in a configuration (..., nq): (..., n)."""
        parts = []
        for kind, i in zip(self.kind, self.q, strict=True):
            if kind == ANGLE:
                parts.append(np.arctan2(q[..., i + 1], q[..., i])[..., None])
            else:
                parts.append(q[..., i : i + (4 if kind == QUATERNION else 1)])
        return np.concatenate(parts, axis=-1)

    def rates(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Rates of these coordinates, (..., n): of a quaternion 1/2 p (omega, 0), with omega in the body's axes."""
        parts = []
        for kind, i, j in zip(self.kind, self.q, self.v, strict=True):
            if kind != QUATERNION:
                parts.append(v[..., j : j + 1])
                continue
            p, w, omega = q[..., i : i + 3], q[..., i + 3 : i + 4], v[..., j : j + 3]
            vector = 0.5 * (w * omega + np.cross(p, omega))
            parts.append(np.concatenate([vector, -0.5 * np.sum(p * omega, axis=-1, keepdims=True)], axis=-1))
        return np.concatenate(parts, axis=-1)

    def put(self, x: np.ndarray, q: np.ndarray) -> None:
        """Fill the configuration q (nq,) with coordinates x of the trajectory (n,)."""
        for kind, k, i in zip(self.kind, self.x, self.q, strict=True):
            if kind == ANGLE:
                q[i], q[i + 1] = np.cos(x[k]), np.sin(x[k])
            elif kind == QUATERNION:
                q[i : i + 4] = x[k : k + 4] / np.linalg.norm(x[k : k + 4])
            else:
                q[i] = x[k]

    def put_rates(self, x: np.ndarray, rates: np.ndarray, v: np.ndarray) -> None:
        """Fill the velocity v (nv,) with rates of the coordinates x (n,)."""
        for kind, k, j in zip(self.kind, self.x, self.v, strict=True):
            if kind == QUATERNION:
                p, w = x[k : k + 3], x[k + 3]
                d, dw = rates[k : k + 3], rates[k + 3]
                # omega in the body's axes is twice the vector part of p^-1 dp/dt
                v[j : j + 3] = 2.0 * (w * d - dw * p - np.cross(p, d)) / (p @ p + w * w)
            else:
                v[j] = rates[k]


def find_places(model: pin.Model, joints: Sequence[int], names: Sequence[str]) -> Places:
    """The places of the coordinates of some joints.

    Args:
        names: of the coordinates q of the model.

    Raises:
        ValueError: a joint of a kind that follows no trajectory.
    """
    found: list[str] = []
    groups: list[tuple[int, int, int, int]] = []
    for joint in joints:
        q, v = int(model.idx_qs[joint]), int(model.idx_vs[joint])
        for nq, nv in _parts(model.joints[joint]):
            if (nq, nv) == (1, 1):
                kind, own = NUMBER, [names[q]]
            elif (nq, nv) == (2, 1):
                kind, own = ANGLE, [model.names[joint]]
            elif (nq, nv) == (4, 3):
                kind, own = QUATERNION, list(names[q : q + 4])
            else:
                raise ValueError(f"joint {model.names[joint]}: has a kind that follows no trajectory")
            groups.append((kind, len(found), q, v))
            found += own
            q, v = q + nq, v + nv
    table = np.array(groups, np.int64).reshape(-1, 4)
    return Places(tuple(found), *(np.ascontiguousarray(table[:, i]) for i in range(4)))


def _parts(joint: pin.JointModel) -> list[tuple[int, int]]:
    """Numbers of coordinates and velocities of each part of a joint; a translation is three numbers."""
    parts = list(joint.extract().joints) if joint.shortname() == "JointModelComposite" else [joint]
    sizes: list[tuple[int, int]] = []
    for part in parts:
        sizes += [(1, 1)] * 3 if part.shortname() == "JointModelTranslation" else [(part.nq, part.nv)]
    return sizes


@dataclass(frozen=True)
class Motion:
    """A trajectory that bodies of a world follow.

    Attributes (m: velocities of the motion):
        name: in the world; title: what moves.
        trajectory: of the coordinates at `places`.
        torque: whether by computed torque; else by a spring and a damper at each coordinate, whose weight is balanced
            if `gravity`.
        stiffness: [1/s^2], or [N/m, N m/rad]; damping: [1/s], or [N s/m, N m s/rad]; (m,).
        effort: least and largest force of each drive [N, N m], (2, m).
        keeps: whether from the first touch on it has the acceleration that the last one left.
    """

    name: str
    title: str
    trajectory: Trajectory
    places: Places
    torque: bool
    gravity: bool
    stiffness: np.ndarray
    damping: np.ndarray
    effort: np.ndarray
    keeps: bool


@dataclass(frozen=True)
class Pull:
    """A spring and a damper between a body and the tool's hand (IGMS 4).

    Attributes:
        name: in the world; body: that is grabbed.
        joint: that carries it; pose: of the body in the joint's axes.
        point: that is grabbed, in the joint's axes [m], (3,); None: where the hand is.
        grabs: begin and end of each grab [s], (k, 2).
        stiffness, damping: of translation and rotation, [N/m, N m/rad] and [N s/m, N m s/rad].
    """

    name: str
    body: str
    joint: int
    point: np.ndarray | None
    grabs: np.ndarray
    stiffness: tuple[float, float]
    damping: tuple[float, float]
