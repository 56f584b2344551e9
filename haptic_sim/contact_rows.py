"""Contact rows: the only description of the world that contact methods get.

A row is one point at which two bodies touch or nearly touch. Kernels take rows, never bodies or worlds, so that the
environment and the local model run the same kernels. A body is given by the number of its Pinocchio joint; 0 is a fixed
body.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

CAPACITY = 256  # rows


class RowArrays(NamedTuple):
    """The arrays of rows, for kernels (C: capacity, axes of the world).

    Attributes:
        id: identity that persists from step to step, (C,) int64.
        body: the two bodies A and B, (C, 2) int64; of tool and surroundings, the tool is B.
        point: contact point of B [m], (C, 3); that of A is point - separation normal.
        normal: unit normal from A to B, (C, 3).
        separation: along the normal, negative when they overlap [m], (C,).
        velocity: of A's point along the normal if A is not a body of the model [m/s], (C,).
        wall: number of the pair of shapes that touch, (C,) int64.
        restitution: coefficient, (C,).
        friction: static and kinetic coefficients, (C, 2).
        coordinate: of a limit of a joint, the coordinate that it limits, (C,) int64; -1 for a contact. A limit has no
            bodies, point and tangents, and its normal has no meaning.
        direction: +1 for a lower limit, -1 for an upper one: its normal velocity is so many times the coordinate's.
        half_of: of a row that stands for one of two colliding bodies alone, the contact of both, (C,) int64; else -1.
            See `haptic_sim.contact.halves`.
    """

    id: np.ndarray
    body: np.ndarray
    point: np.ndarray
    normal: np.ndarray
    separation: np.ndarray
    velocity: np.ndarray
    wall: np.ndarray
    restitution: np.ndarray
    friction: np.ndarray
    coordinate: np.ndarray
    direction: np.ndarray
    half_of: np.ndarray


class ContactRows:
    """Preallocated rows of contacts; the first `count` are in use. The arrays are those of `RowArrays`.

    Args:
        limits: rows beyond the capacity for contacts, for `haptic_sim.dynamics.joints.append_limits`.
        halves: whether there are two more for each contact, for `haptic_sim.contact.halves.append_halves`.
    """

    def __init__(self, capacity: int = CAPACITY, limits: int = 0, halves: bool = False):
        self.capacity, self.count = capacity, 0
        capacity += limits + (2 * capacity if halves else 0)
        self.arrays = RowArrays(
            id=np.zeros(capacity, np.int64),
            body=np.zeros((capacity, 2), np.int64),
            point=np.zeros((capacity, 3)),
            normal=np.zeros((capacity, 3)),
            separation=np.zeros(capacity),
            velocity=np.zeros(capacity),
            wall=np.zeros(capacity, np.int64),
            restitution=np.zeros(capacity),
            friction=np.zeros((capacity, 2)),
            coordinate=np.full(capacity, -1, np.int64),
            direction=np.zeros(capacity),
            half_of=np.full(capacity, -1, np.int64),
        )
        self.id, self.body, self.point, self.normal, self.separation = self.arrays[:5]
        self.velocity, self.wall, self.restitution, self.friction = self.arrays[5:9]
