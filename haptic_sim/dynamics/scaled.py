"""Contacts in mass-scaled coordinates, in which every solver of impulses works.

With the inertia D = L L^T and the scaled velocity u = L^T v, the kinetic energy is 1/2 |u|^2, the velocity at a
contact is W u with W = J L^-T, and an impulse p there changes u by W^T p: no solver needs a mass matrix.

D is block diagonal over the trees of the model (a tree is a set of bodies connected by joints, or one free body), so L
and W are stored by trees: a contact has two sides, each of which belongs to one tree or to none.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from haptic_sim.kernels import kernel
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
    spatial: np.ndarray = array("memory: rows of a joint's velocity at the world's origin, by side", 2, 6, "width")
    twist: np.ndarray = array("memory: that velocity [linear, angular], by side", 2, 6, unit="m/s, rad/s")

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


@kernel
def contact_velocity(contacts, i, d, u):
    """Velocity of contact i in direction d [m/s]."""
    W, tree, start, size = contacts.W, contacts.tree, contacts.start, contacts.size
    s = contacts.offset[i, d]
    for side in range(2):
        t = tree[i, side]
        if t >= 0:
            # of a free body the compiler knows the number of coordinates, and unrolls the loop
            s = (
                _row_times(W, i, d, side, 6, start[t], u, s)
                if size[t] == 6
                else (_row_times(W, i, d, side, size[t], start[t], u, s))
            )
    return s


@kernel(inline="always")
def _row_times(W, i, d, side, size, first, u, s):
    """s plus one row of a side times u."""
    for k in range(size):
        s += W[i, d, side, k] * u[first + k]
    return s


@kernel
def apply_impulse(contacts, i, d, p, u):
    """Change u by an impulse p [N s] at contact i in direction d."""
    W, tree, start, size = contacts.W, contacts.tree, contacts.start, contacts.size
    for side in range(2):
        t = tree[i, side]
        if t >= 0:
            if size[t] == 6:
                _add_row(W, i, d, side, 6, start[t], p, u)
            else:
                _add_row(W, i, d, side, size[t], start[t], p, u)


@kernel(inline="always")
def _add_row(W, i, d, side, size, first, p, u):
    """Add one row of a side, times p, to u."""
    for k in range(size):
        u[first + k] += W[i, d, side, k] * p


@kernel
def contact_velocities(count, contacts, u, velocity):
    """Fill velocity (C, 3) with those of the contacts in all directions [m/s].

    Arrays are read from the record before the loop: within it, the compiler must assume that a store changes them.
    """
    W, tree, start, size, offset = contacts.W, contacts.tree, contacts.start, contacts.size, contacts.offset
    for i in range(count):
        v0, v1, v2 = offset[i, 0], offset[i, 1], offset[i, 2]
        for side in range(2):
            t = tree[i, side]
            if t >= 0:
                if size[t] == 6:
                    a, b, c = _times(W, i, side, 6, start[t], u)
                else:
                    a, b, c = _times(W, i, side, size[t], start[t], u)
                v0, v1, v2 = v0 + a, v1 + b, v2 + c
        velocity[i, 0], velocity[i, 1], velocity[i, 2] = v0, v1, v2


@kernel(inline="always")
def _times(W, i, side, n, first, u):
    """The three rows of one side of contact i times u."""
    v0 = v1 = v2 = 0.0
    for k in range(n):
        x = u[first + k]
        v0 += W[i, 0, side, k] * x
        v1 += W[i, 1, side, k] * x
        v2 += W[i, 2, side, k] * x
    return v0, v1, v2


@kernel
def apply_impulses(count, contacts, p, u):
    """Change u by the impulses p (C, 3) [N s] of the contacts."""
    W, tree, start, size = contacts.W, contacts.tree, contacts.start, contacts.size
    for i in range(count):
        p0, p1, p2 = p[i, 0], p[i, 1], p[i, 2]
        if p0 == 0.0 and p1 == 0.0 and p2 == 0.0:
            continue
        for side in range(2):
            t = tree[i, side]
            if t >= 0:
                if size[t] == 6:
                    _add_rows(W, i, side, 6, start[t], p0, p1, p2, u)
                else:
                    _add_rows(W, i, side, size[t], start[t], p0, p1, p2, u)


@kernel(inline="always")
def _add_rows(W, i, side, n, first, p0, p1, p2, u):
    """Add the three rows of one side of contact i, times p, to u."""
    for k in range(n):
        u[first + k] += W[i, 0, side, k] * p0 + W[i, 1, side, k] * p1 + W[i, 2, side, k] * p2


@kernel
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


@kernel
def assemble(count, rows, J_W, support, tree_of, L, u, contacts, tangent):
    """Fill `contacts` and the first tangents (C, 3) from `rows` (`RowArrays`).

    The first tangent is the direction in which B slides on A with the scaled velocity `u`, so that the facets of a
    friction cone follow the motion, or a level direction where it does not slide; the second completes a right-handed
    frame (normal, tangent 1, tangent 2).

    Args:
        J_W, support, tree_of, L: of a `Multibody` and its `Trees`; L by trees.
        u: scaled velocity (nv,), usually what it would become without contacts.
    """
    W, tree, size, offset = contacts.W, contacts.tree, contacts.size, contacts.offset
    S, V = contacts.spatial, contacts.twist
    coordinate, body, points, normal = rows.coordinate, rows.body, rows.point, rows.normal
    known_a = known_b = known_minus = -1  # joints that the sides' memory is of
    for i in range(count):
        if coordinate[i] >= 0:
            _assemble_limit(i, coordinate[i], rows.direction[i], L, contacts, tangent)
            continue
        a, b = body[i, 0], body[i, 1]
        one, other = tree_of[a], tree_of[b]
        minus = -1
        if one == other:
            one, minus = -1, a
        tree[i, 0], tree[i, 1] = one, other
        if one >= 0 and a != known_a:
            _find_spatial_rows(contacts, 0, one, -1, a, J_W, support, L, u)
            known_a = a
        if other >= 0 and (b != known_b or minus != known_minus):
            _find_spatial_rows(contacts, 1, other, b, minus, J_W, support, L, u)
            known_b, known_minus = b, minus
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        cx = cy = cz = 0.0
        for side in range(2):
            if tree[i, side] >= 0:
                cx += V[side, 0] + V[side, 4] * z - V[side, 5] * y
                cy += V[side, 1] + V[side, 5] * x - V[side, 3] * z
                cz += V[side, 2] + V[side, 3] * y - V[side, 4] * x
        nx, ny, nz = normal[i, 0], normal[i, 1], normal[i, 2]
        tx, ty, tz = _find_tangent(nx, ny, nz, cx, cy, cz)
        tangent[i, 0], tangent[i, 1], tangent[i, 2] = tx, ty, tz
        bx, by, bz = ny * tz - nz * ty, nz * tx - nx * tz, nx * ty - ny * tx
        for side in range(2):
            t = tree[i, side]
            if t >= 0:
                if size[t] == 6:  # the compiler unrolls the loop
                    _fill_side(S, W, i, side, 6, (x, y, z), (nx, ny, nz), (tx, ty, tz), (bx, by, bz))
                else:
                    _fill_side(S, W, i, side, size[t], (x, y, z), (nx, ny, nz), (tx, ty, tz), (bx, by, bz))
        offset[i, 0] = -rows.velocity[i]
        offset[i, 1] = offset[i, 2] = 0.0


@kernel(inline="always")
def _fill_side(S, W, i, side, size, point, normal, tangent, other):
    """Fill the three rows of a side of contact i, at this point and in these directions."""
    x, y, z = point
    nx, ny, nz = normal
    tx, ty, tz = tangent
    bx, by, bz = other
    for k in range(size):
        wx, wy, wz = S[side, 3, k], S[side, 4, k], S[side, 5, k]
        gx = S[side, 0, k] + wy * z - wz * y
        gy = S[side, 1, k] + wz * x - wx * z
        gz = S[side, 2, k] + wx * y - wy * x
        W[i, 0, side, k] = nx * gx + ny * gy + nz * gz
        W[i, 1, side, k] = tx * gx + ty * gy + tz * gz
        W[i, 2, side, k] = bx * gx + by * gy + bz * gz


@kernel
def assemble_rotations(count, rows, J_W, support, tree_of, L, u, contacts, tangent):
    """Fill `contacts` with rows for the angular velocity of B relative to A, in the frames of the contacts [rad/s].

    An impulse there is an impulse of moment on B [N m s]. Limits of joints do not turn, and planes in place of bodies
    as the rows say. Arguments as of `assemble`, which has found the tangents.
    """
    W, tree, size, S, offset = contacts.W, contacts.tree, contacts.size, contacts.spatial, contacts.offset
    for i in range(count):
        tree[i, 0] = tree[i, 1] = -1
        offset[i, 0] = offset[i, 1] = offset[i, 2] = 0.0
        if rows.coordinate[i] >= 0:
            continue
        a, b = rows.body[i, 0], rows.body[i, 1]
        one, other = tree_of[a], tree_of[b]
        minus = -1
        if one == other:
            one, minus = -1, a
        tree[i, 0], tree[i, 1] = one, other
        nx, ny, nz = rows.normal[i, 0], rows.normal[i, 1], rows.normal[i, 2]
        tx, ty, tz = tangent[i, 0], tangent[i, 1], tangent[i, 2]
        bx, by, bz = ny * tz - nz * ty, nz * tx - nx * tz, nx * ty - ny * tx
        x, y, z = rows.rotation[i, 0], rows.rotation[i, 1], rows.rotation[i, 2]
        offset[i, 0] = -(nx * x + ny * y + nz * z)
        offset[i, 1] = -(tx * x + ty * y + tz * z)
        offset[i, 2] = -(bx * x + by * y + bz * z)
        if one >= 0:
            _find_spatial_rows(contacts, 0, one, -1, a, J_W, support, L, u)
        if other >= 0:
            _find_spatial_rows(contacts, 1, other, b, minus, J_W, support, L, u)
        for side in range(2):
            if tree[i, side] >= 0:
                for k in range(size[tree[i, side]]):
                    wx, wy, wz = S[side, 3, k], S[side, 4, k], S[side, 5, k]
                    W[i, 0, side, k] = nx * wx + ny * wy + nz * wz
                    W[i, 1, side, k] = tx * wx + ty * wy + tz * wz
                    W[i, 2, side, k] = bx * wx + by * wy + bz * wz


@kernel(inline="always")
def _find_tangent(nx, ny, nz, cx, cy, cz):
    """The first tangent of a contact with this normal and velocity."""
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
    inverse = 1.0 / length
    return cx * inverse, cy * inverse, cz * inverse


@kernel(inline="always")
def _six(W, r):
    """A row as numbers, which no store changes: so the compiler computes several at once."""
    return W[r, 0], W[r, 1], W[r, 2], W[r, 3], W[r, 4], W[r, 5]


# Contacts of one free body with what does not move. All that a step needs of them follows from the hand's twist, its
# inverse inertia and the wrench of the contacts there; W, which takes more than that, only solvers of impulses need.


@kernel
def find_frames(count, rows, W_H, p_WH, u, contacts, tangent):
    """Find contact frames, as `assemble` without W, for contacts of one free body with fixed surroundings.

    Args:
        W_H, p_WH: of a `Multibody`.

    Returns:
        Whether they are such contacts; if not, nothing is filled in that `assemble` does not.
    """
    tree, offset = contacts.tree, contacts.offset
    body, coordinate = rows.body, rows.coordinate
    points, normal, velocity = rows.point, rows.normal, rows.velocity
    ax, ay, az, bx, by, bz = twist_of(W_H, u)
    hx, hy, hz = p_WH[0], p_WH[1], p_WH[2]
    for i in range(count):
        if body[i, 0] != 0 or body[i, 1] != 1 or coordinate[i] >= 0:
            return False
        x, y, z = points[i, 0] - hx, points[i, 1] - hy, points[i, 2] - hz
        nx, ny, nz = normal[i, 0], normal[i, 1], normal[i, 2]
        cx, cy, cz = ax + by * z - bz * y, ay + bz * x - bx * z, az + bx * y - by * x
        tangent[i, 0], tangent[i, 1], tangent[i, 2] = _find_tangent(nx, ny, nz, cx, cy, cz)
        tree[i, 0], tree[i, 1] = -1, 0
        offset[i, 0] = -velocity[i]
        offset[i, 1] = offset[i, 2] = 0.0
    return True


@kernel(inline="always")
def twist_of(W_H, u):
    """The twist of the hand with the scaled velocity u (6,), six numbers [m/s, rad/s]."""
    ax = ay = az = bx = by = bz = 0.0
    for k in range(6):
        s = u[k]
        ax, ay, az = ax + W_H[0, k] * s, ay + W_H[1, k] * s, az + W_H[2, k] * s
        bx, by, bz = bx + W_H[3, k] * s, by + W_H[4, k] * s, bz + W_H[5, k] * s
    return ax, ay, az, bx, by, bz


@kernel
def velocities_of(twist, count, rows, p_WH, tangent, offset, velocity):
    """Contact velocities, as `contact_velocities`, of one free body; `twist`: of its hand point (six numbers)."""
    ax, ay, az, bx, by, bz = twist
    points, normal = rows.point, rows.normal
    hx, hy, hz = p_WH[0], p_WH[1], p_WH[2]
    for i in range(count):
        x, y, z = points[i, 0] - hx, points[i, 1] - hy, points[i, 2] - hz
        nx, ny, nz = normal[i, 0], normal[i, 1], normal[i, 2]
        tx, ty, tz = tangent[i, 0], tangent[i, 1], tangent[i, 2]
        cx, cy, cz = ax + by * z - bz * y, ay + bz * x - bx * z, az + bx * y - by * x
        velocity[i, 0] = offset[i, 0] + (nx * cx + ny * cy + nz * cz)
        velocity[i, 1] = tx * cx + ty * cy + tz * cz
        velocity[i, 2] = cx * (ny * tz - nz * ty) + cy * (nz * tx - nx * tz) + cz * (nx * ty - ny * tx)


@kernel
def fill_rows(count, rows, W_H, p_WH, contacts, tangent):
    """Fill the rows of W after `find_frames`: they follow from those of the hand."""
    if count == 0:  # a hand of less than six coordinates has none to fill
        return
    W, points, normal = contacts.W, rows.point, rows.normal
    vx, vy, vz, wx, wy, wz = _six(W_H, 0), _six(W_H, 1), _six(W_H, 2), _six(W_H, 3), _six(W_H, 4), _six(W_H, 5)
    hx, hy, hz = p_WH[0], p_WH[1], p_WH[2]
    for i in range(count):
        x, y, z = points[i, 0] - hx, points[i, 1] - hy, points[i, 2] - hz
        nx, ny, nz = normal[i, 0], normal[i, 1], normal[i, 2]
        tx, ty, tz = tangent[i, 0], tangent[i, 1], tangent[i, 2]
        sx, sy, sz = ny * tz - nz * ty, nz * tx - nx * tz, nx * ty - ny * tx
        for k in range(6):
            gx = vx[k] + wy[k] * z - wz[k] * y
            gy = vy[k] + wz[k] * x - wx[k] * z
            gz = vz[k] + wx[k] * y - wy[k] * x
            W[i, 0, 1, k] = nx * gx + ny * gy + nz * gz
            W[i, 1, 1, k] = tx * gx + ty * gy + tz * gz
            W[i, 2, 1, k] = sx * gx + sy * gy + sz * gz


@kernel
def tangential_norms_of(count, rows, p_WH, tangent, inverse_inertia, norms):
    """Fill norms[:, 1] (C, 2) with the largest singular value of the tangential rows of each contact [kg^-1/2].

    Args:
        inverse_inertia: at the hand, row major (36,): [[A, B], [B^T, C]] for force and torque. The mobility of the
            point at r is A + B [r]x - [r]x B^T - [r]x C [r]x.
    """
    points, normal, m = rows.point, rows.normal, inverse_inertia
    hx, hy, hz = p_WH[0], p_WH[1], p_WH[2]
    a00, a01, a02, a11, a12, a22 = m[0], m[1], m[2], m[7], m[8], m[14]
    b00, b01, b02, b10, b11, b12, b20, b21, b22 = m[3], m[4], m[5], m[9], m[10], m[11], m[15], m[16], m[17]
    c00, c01, c02, c11, c12, c22 = m[21], m[22], m[23], m[28], m[29], m[35]
    for i in range(count):
        x, y, z = points[i, 0] - hx, points[i, 1] - hy, points[i, 2] - hz
        # H = B^T + C [r]x: the angular velocity by unit forces at the point
        h10, h20 = b01 + c11 * z - c12 * y, b02 + c12 * z - c22 * y
        h01, h11, h21 = b10 + c02 * x - c00 * z, b11 + c12 * x - c01 * z, b12 + c22 * x - c02 * z
        h02, h12, h22 = b20 + c00 * y - c01 * x, b21 + c01 * y - c11 * x, b22 + c02 * y - c12 * x
        # A + B [r]x - [r]x H, which is symmetric
        k00 = a00 + (b01 * z - b02 * y) + (z * h10 - y * h20)
        k01 = a01 + (b02 * x - b00 * z) + (z * h11 - y * h21)
        k02 = a02 + (b00 * y - b01 * x) + (z * h12 - y * h22)
        k11 = a11 + (b12 * x - b10 * z) + (x * h21 - z * h01)
        k12 = a12 + (b10 * y - b11 * x) + (x * h22 - z * h02)
        k22 = a22 + (b20 * y - b21 * x) + (y * h02 - x * h12)
        nx, ny, nz = normal[i, 0], normal[i, 1], normal[i, 2]
        tx, ty, tz = tangent[i, 0], tangent[i, 1], tangent[i, 2]
        sx, sy, sz = ny * tz - nz * ty, nz * tx - nx * tz, nx * ty - ny * tx
        px, py, pz = k00 * tx + k01 * ty + k02 * tz, k01 * tx + k11 * ty + k12 * tz, k02 * tx + k12 * ty + k22 * tz
        qx, qy, qz = k00 * sx + k01 * sy + k02 * sz, k01 * sx + k11 * sy + k12 * sz, k02 * sx + k12 * sy + k22 * sz
        a, b, c = tx * px + ty * py + tz * pz, sx * px + sy * py + sz * pz, sx * qx + sy * qy + sz * qz
        norms[i, 1] = math.sqrt(max(0.5 * (a + c) + math.sqrt(0.25 * (a - c) * (a - c) + b * b), 0.0))


@kernel
def _find_spatial_rows(contacts, side, tree, plus, minus, J_W, support, L, u):
    """Fill the memory of a side with J L^-T for the velocity at the world's origin of joint plus less joint minus.

    A joint of -1 has none; both are of the same tree. The velocity at another point follows without L: so the
    triangular system is solved once for each joint, not for each contact.
    """
    S, V = contacts.spatial, contacts.twist
    first, size = contacts.start[tree], contacts.size[tree]
    if size == 6:  # the compiler unrolls the loops
        _solve_spatial_rows(S, V, side, first, 6, plus, minus, J_W, support, L, u)
    else:
        _solve_spatial_rows(S, V, side, first, size, plus, minus, J_W, support, L, u)


@kernel(inline="always")
def _solve_spatial_rows(S, V, side, first, size, plus, minus, J_W, support, L, u):
    """Solve for the spatial rows of the tree with these coordinates; see `_find_spatial_rows`."""
    for r in range(6):
        V[side, r] = 0.0
    for k in range(size):
        j = first + k
        moves = 0.0
        if plus >= 0 and support[plus, j]:
            moves += 1.0
        if minus >= 0 and support[minus, j]:
            moves -= 1.0
        s = 1.0 / L[j, k]
        for r in range(6):
            g = moves * J_W[j, r]
            for m in range(k):
                g -= L[j, m] * S[side, r, m]
            S[side, r, k] = g * s
            V[side, r] += g * s * u[j]


@kernel
def append_planes(count, rows, trees, contacts):
    """Give the rows of planes that move as masses their side: tree number `trees` + plane, of one coordinate."""
    for i in range(count):
        if rows.coordinate[i] < 0 and rows.plane[i] >= 0:
            contacts.tree[i, 0] = trees + rows.plane[i]
            contacts.W[i, 0, 0, 0] = -math.sqrt(rows.mobility[i])
            contacts.W[i, 1, 0, 0] = contacts.W[i, 2, 0, 0] = 0.0
            contacts.offset[i, 0] = 0.0  # their velocity is in u


@kernel
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
            s -= L[first + k, m] * W[i, 0, 1, m]
        W[i, 0, 1, k] = s / L[first + k, k] if k >= own else 0.0
        W[i, 1, 1, k] = W[i, 2, 1, k] = 0.0
    for d in range(3):
        tangent[i, d] = 1.0 if d == 1 else 0.0
        contacts.offset[i, d] = 0.0


@kernel
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
