"""Contact rows: the only form in which contact forces see the world.

A row is one point at which two bodies touch or nearly touch. Kernels take rows, never bodies or worlds, so that the
environment and the local model run the very same ones. A body is known by the number of its Pinocchio joint, 0 is
what does not move.
"""

from __future__ import annotations

import numba
import numpy as np

CAPACITY = 256  # rows


class ContactRows:
    """Preallocated rows of contacts; the first `count` are in use.

    Attributes (C: capacity, axes of the world):
        id: identity that persists from step to step, (C,) int64.
        body: the two bodies A and B, (C, 2) int64; of tool and surroundings, the tool is B.
        point: contact point of B [m], (C, 3); that of A is point - separation normal.
        normal: unit normal from A to B, (C, 3).
        separation: along the normal, negative when they overlap [m], (C,).
        velocity: of A's point along the normal if A is not a body of the model [m/s], (C,).
        wall: number of the pair of shapes that touch, (C,) int64.
        restitution: coefficient, (C,).
        friction: static and kinetic coefficients, (C, 2).
    """

    def __init__(self, capacity: int = CAPACITY):
        self.capacity = capacity
        self.count = 0
        self.id = np.zeros(capacity, np.int64)
        self.body = np.zeros((capacity, 2), np.int64)
        self.point = np.zeros((capacity, 3))
        self.normal = np.zeros((capacity, 3))
        self.separation = np.zeros(capacity)
        self.velocity = np.zeros(capacity)
        self.wall = np.zeros(capacity, np.int64)
        self.restitution = np.zeros(capacity)
        self.friction = np.zeros((capacity, 2))


@numba.njit(cache=True, nogil=True)
def normal_jacobian(count, point, normal, p_WH, J_H, J_n):
    """Fill row i of `J_n` (C, nv) with the normal velocity of point i per configuration velocity.

    The points are fixed to the body of frame H; `J_H` (6, nv) is the Jacobian of H's [linear, angular] velocity in
    world axes, `p_WH` (3,) its origin [m]. Row: n . (v_H + w x r) = n . v_H + (r x n) . w with r = p - p_WH.
    """
    nv = J_H.shape[1]
    for i in range(count):
        rx = point[i, 0] - p_WH[0]
        ry = point[i, 1] - p_WH[1]
        rz = point[i, 2] - p_WH[2]
        nx, ny, nz = normal[i, 0], normal[i, 1], normal[i, 2]
        tx = ry * nz - rz * ny
        ty = rz * nx - rx * nz
        tz = rx * ny - ry * nx
        for j in range(nv):
            J_n[i, j] = (
                nx * J_H[0, j] + ny * J_H[1, j] + nz * J_H[2, j] + tx * J_H[3, j] + ty * J_H[4, j] + tz * J_H[5, j]
            )


@numba.njit(cache=True, nogil=True)
def normal_velocity(count, J_n, v, velocity, v_n):
    """Fill `v_n` (C,) [m/s] with the velocity of the tool's points relative to the environment's, along the normals."""
    for i in range(count):
        s = -velocity[i]
        for j in range(v.shape[0]):
            s += J_n[i, j] * v[j]
        v_n[i] = s


@numba.njit(cache=True, nogil=True)
def add_wrench(count, point, normal, magnitude, p_WH, wrench):
    """Add to `wrench` (6,) at H, in world axes, the forces `magnitude` (C,) along the normals [N]."""
    for i in range(count):
        f = magnitude[i]
        if f == 0.0:
            continue
        rx = point[i, 0] - p_WH[0]
        ry = point[i, 1] - p_WH[1]
        rz = point[i, 2] - p_WH[2]
        fx, fy, fz = f * normal[i, 0], f * normal[i, 1], f * normal[i, 2]
        wrench[0] += fx
        wrench[1] += fy
        wrench[2] += fz
        wrench[3] += ry * fz - rz * fy
        wrench[4] += rz * fx - rx * fz
        wrench[5] += rx * fy - ry * fx
