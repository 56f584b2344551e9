"""Contacts in mass-scaled coordinates, in which every solver of impulses works.

With the inertia D = L L^T and the scaled velocity u = L^T v, the kinetic energy is 1/2 |u|^2, the velocity at a
contact is W u with W = J L^-T, and an impulse p there changes u by W^T p: no solver needs a mass matrix.

D is block diagonal over the trees of the model (a tree hangs together by joints; a free body is one of its own), so L
and W are kept by trees: a contact has two sides, each of which belongs to one tree or to none.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np


class ScaledContacts(NamedTuple):
    """Arrays of contacts for kernels; the first n contacts count (C: capacity, w: widest tree).

    Attributes:
        W: (C, 3, 2, w). W[i, d, s, :size] is the part of side s of contact i in direction d, with d = 0 along the
            normal from A to B, d = 1, 2 along two tangents; the sign of each side is included: velocities are those of
            B relative to A. Where both bodies are of one tree, side 0 has no tree and side 1 the relative row.
        tree: tree of each side, -1 if it has none, (C, 2) int64.
        start, size: first coordinate and number of coordinates of each tree, (trees,) int64.
        offset: contact velocity that is not due to u [m/s], (C, 3).
    """

    W: np.ndarray
    tree: np.ndarray
    start: np.ndarray
    size: np.ndarray
    offset: np.ndarray

    @classmethod
    def allocate(cls, capacity: int, start: np.ndarray, size: np.ndarray) -> ScaledContacts:
        """Memory for `capacity` contacts of trees that begin at `start` and have `size` coordinates each."""
        widest = int(size.max()) if size.size else 1
        return cls(
            np.zeros((capacity, 3, 2, widest)),
            np.full((capacity, 2), -1, np.int64),
            np.ascontiguousarray(start, np.int64),
            np.ascontiguousarray(size, np.int64),
            np.zeros((capacity, 3)),
        )


@numba.njit(cache=True, nogil=True)
def contact_velocity(contacts, i, d, u):
    """Velocity of contact i in direction d [m/s]."""
    s = contacts.offset[i, d]
    for side in range(2):
        tree = contacts.tree[i, side]
        if tree >= 0:
            first = contacts.start[tree]
            for k in range(contacts.size[tree]):
                s += contacts.W[i, d, side, k] * u[first + k]
    return s


@numba.njit(cache=True, nogil=True)
def apply_impulse(contacts, i, d, p, u):
    """Change u by an impulse p [N s] at contact i in direction d."""
    for side in range(2):
        tree = contacts.tree[i, side]
        if tree >= 0:
            first = contacts.start[tree]
            for k in range(contacts.size[tree]):
                u[first + k] += contacts.W[i, d, side, k] * p


@numba.njit(cache=True, nogil=True)
def coupling(contacts, i, d, j, e):
    """Entry W_id . W_je of the Delassus matrix [1/kg]: velocity at (i, d) for a unit impulse at (j, e)."""
    s = 0.0
    for a in range(2):
        tree = contacts.tree[i, a]
        if tree >= 0:
            for b in range(2):
                if contacts.tree[j, b] == tree:
                    for k in range(contacts.size[tree]):
                        s += contacts.W[i, d, a, k] * contacts.W[j, e, b, k]
    return s
