"""Contacts in mass-scaled coordinates, in which every solver of impulses works.

With the inertia D = L L^T and the scaled velocity u = L^T v, the kinetic energy is 1/2 |u|^2, the velocity at a
contact is W u with W = J L^-T, and an impulse p there changes u by W^T p: no solver needs a mass matrix.

D is block diagonal over the trees of the model (a tree is a set of bodies connected by joints, or one free body), so L
and W are stored by trees: a contact has two sides, each of which belongs to one tree or to none.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np

from haptic_sim.records import allocate, array, record, shared

_LOST = 1e-8  # of a row that exact constraints take: what is left of it is rounding
SLIDES = 1e-9  # a tangential velocity below this part of the whole has no direction of its own


@record
class ScaledContacts(NamedTuple):
    """Contacts in scaled coordinates, for kernels; the first n count.

    W[i, d, s, :size] is the part of side s of contact i in direction d, with d = 0 along the normal from A to B,
    d = 1, 2 along two tangents; the sign of each side is included: velocities are those of B relative to A. Where both
    bodies are of one tree, side 0 has no tree and side 1 the relative row.
    """

    W: np.ndarray = array("rows of J L^-T by direction and side", "contacts", 3, 2, "width", unit="kg^-1/2")
    tree: np.ndarray = array("tree of each side, -1 if it has none", "contacts", 2, dtype=np.int64, fill=-1)
    start: np.ndarray = shared("first coordinate of each tree", "trees", dtype=np.int64)
    size: np.ndarray = shared("number of coordinates of each tree", "trees", dtype=np.int64)
    offset: np.ndarray = array("contact velocity that is not due to u", "contacts", 3, unit="m/s")

    @classmethod
    def allocate(cls, capacity: int, start: np.ndarray, size: np.ndarray) -> ScaledContacts:
        """Memory for `capacity` contacts of trees that begin at `start` and have `size` coordinates each."""
        start, size = np.ascontiguousarray(start, np.int64), np.ascontiguousarray(size, np.int64)
        return allocate(cls, {"contacts": capacity, "width": int(size.max(initial=1))}, start=start, size=size)

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of records for as many contacts of the same trees."""
        capacity, _, _, width = self.W.shape
        return {"contacts": capacity, "width": width, "trees": len(self.size), "nv": int(self.size.sum())}


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


@numba.njit(cache=True, nogil=True)
def assemble(count, rows, J_W, support, tree_of, L, u, contacts, tangent):
    """Fill `contacts` and the first tangents (C, 3) from `rows` (`RowArrays`).

    The first tangent is the direction in which B slides on A with the scaled velocity `u`, so that the facets of a
    friction cone follow the motion, or a level direction where it does not slide; the second completes a right-handed
    frame (normal, tangent 1, tangent 2).

    Args:
        J_W, support, tree_of, L: of a `Multibody` and its `Trees`.
        u: scaled velocity (nv,), usually what it would become without contacts.
    """
    W, tree, start, size = contacts.W, contacts.tree, contacts.start, contacts.size
    for i in range(count):
        if rows.coordinate[i] >= 0:
            _assemble_limit(i, rows.coordinate[i], rows.direction[i], L, contacts, tangent)
            continue
        a, b = rows.body[i, 0], rows.body[i, 1]
        tree[i, 0] = tree_of[a]
        tree[i, 1] = tree_of[b]
        x, y, z = rows.point[i, 0], rows.point[i, 1], rows.point[i, 2]
        same = tree[i, 0] == tree[i, 1]
        if same:
            tree[i, 0] = -1
        cx = cy = cz = 0.0
        for side in range(2):
            t = tree[i, side]
            if t < 0:
                continue
            first = start[t]
            for k in range(size[t]):
                j = first + k
                # +1 where the coordinate moves B, -1 where it moves A, of a tree with both their difference
                moves = 0.0
                if (side == 1 and support[b, j]) or (side == 0 and support[a, j]):
                    moves = 1.0 if side == 1 else -1.0
                if same and support[a, j]:
                    moves -= 1.0
                wx, wy, wz = J_W[3, j], J_W[4, j], J_W[5, j]
                gx = moves * (J_W[0, j] + wy * z - wz * y)
                gy = moves * (J_W[1, j] + wz * x - wx * z)
                gz = moves * (J_W[2, j] + wx * y - wy * x)
                for m in range(k):
                    s = L[j, first + m]
                    gx -= s * W[i, 0, side, m]
                    gy -= s * W[i, 1, side, m]
                    gz -= s * W[i, 2, side, m]
                s = 1.0 / L[j, j]
                gx, gy, gz = gx * s, gy * s, gz * s
                W[i, 0, side, k], W[i, 1, side, k], W[i, 2, side, k] = gx, gy, gz
                cx += gx * u[j]
                cy += gy * u[j]
                cz += gz * u[j]
        nx, ny, nz = rows.normal[i, 0], rows.normal[i, 1], rows.normal[i, 2]
        s = nx * cx + ny * cy + nz * cz
        cx, cy, cz = cx - s * nx, cy - s * ny, cz - s * nz
        length = math.sqrt(cx * cx + cy * cy + cz * cz)
        if not length > SLIDES * (abs(s) + length):
            # horizontal where z is up, in the plane where the world is planar
            if abs(nz) < 0.9:
                cx, cy, cz = -ny, nx, 0.0
            else:
                cx, cy, cz = 0.0, -nz, ny
            length = math.sqrt(cx * cx + cy * cy + cz * cz)
        tx, ty, tz = cx / length, cy / length, cz / length
        tangent[i, 0], tangent[i, 1], tangent[i, 2] = tx, ty, tz
        bx, by, bz = ny * tz - nz * ty, nz * tx - nx * tz, nx * ty - ny * tx
        for side in range(2):
            t = tree[i, side]
            if t >= 0:
                for k in range(size[t]):
                    gx, gy, gz = W[i, 0, side, k], W[i, 1, side, k], W[i, 2, side, k]
                    W[i, 0, side, k] = nx * gx + ny * gy + nz * gz
                    W[i, 1, side, k] = tx * gx + ty * gy + tz * gz
                    W[i, 2, side, k] = bx * gx + by * gy + bz * gz
        contacts.offset[i, 0] = -rows.velocity[i]
        contacts.offset[i, 1] = 0.0
        contacts.offset[i, 2] = 0.0


@numba.njit(cache=True, nogil=True)
def append_planes(count, rows, trees, contacts):
    """Give the rows of planes that move as masses their side: tree number `trees` + plane, of one coordinate."""
    for i in range(count):
        if rows.coordinate[i] < 0 and rows.plane[i] >= 0:
            contacts.tree[i, 0] = trees + rows.plane[i]
            contacts.W[i, 0, 0, 0] = -math.sqrt(rows.mobility[i])
            contacts.W[i, 1, 0, 0] = contacts.W[i, 2, 0, 0] = 0.0
            contacts.offset[i, 0] = 0.0  # their velocity is in u


@numba.njit(cache=True, nogil=True)
def _assemble_limit(i, coordinate, direction, L, contacts, tangent):
    """Make row i that of a limit: direction times L^-1 e_j along the normal, and no tangents."""
    W, tree, start, size = contacts.W, contacts.tree, contacts.start, contacts.size
    t = 0
    while t + 1 < start.shape[0] and start[t + 1] <= coordinate:
        t += 1
    first, own = start[t], coordinate - start[t]
    tree[i, 0], tree[i, 1] = -1, t
    for k in range(size[t]):
        s = direction if k == own else 0.0
        for m in range(own, k):
            s -= L[first + k, first + m] * W[i, 0, 1, m]
        W[i, 0, 1, k] = s / L[first + k, first + k] if k >= own else 0.0
        W[i, 1, 1, k] = W[i, 2, 1, k] = 0.0
    for d in range(3):
        tangent[i, d] = 1.0 if d == 1 else 0.0
        contacts.offset[i, d] = 0.0


@numba.njit(cache=True, nogil=True)
def constrain_contacts(count, contacts, Q, part, ranks, reaction):
    """Take what is along the rows of Q out of W, and fill `reaction` (C, 3, rows) with how much it was.

    Of the first ranks[0] rows all, of those up to ranks[1], one after the other, the `part`.

    The trees of a contact hold all coordinates that Q couples with theirs (`Trees`). Of a row that lies in the span of
    Q rounding would leave a direction: it becomes 0.
    """
    W, tree, start, size = contacts.W, contacts.tree, contacts.start, contacts.size
    for i in range(count):
        for d in range(3):
            before = after = 0.0
            for side in range(2):
                t = tree[i, side]
                if t >= 0:
                    for k in range(size[t]):
                        before += W[i, d, side, k] ** 2
            for r in range(ranks[1]):
                reaction[i, d, r] = 0.0
            for turn in range(2):
                for r in range(ranks[1] if turn == 1 else ranks[0]):
                    s = 0.0
                    for side in range(2):
                        t = tree[i, side]
                        if t >= 0:
                            for k in range(size[t]):
                                s += W[i, d, side, k] * Q[r, start[t] + k]
                    reaction[i, d, r] += s
                    for side in range(2):
                        t = tree[i, side]
                        if t >= 0:
                            for k in range(size[t]):
                                W[i, d, side, k] -= part[r] * s * Q[r, start[t] + k]
            for side in range(2):
                t = tree[i, side]
                if t >= 0:
                    for k in range(size[t]):
                        after += W[i, d, side, k] ** 2
            if not after > _LOST * _LOST * before:
                for side in range(2):
                    t = tree[i, side]
                    if t >= 0:
                        for k in range(size[t]):
                            W[i, d, side, k] = 0.0
