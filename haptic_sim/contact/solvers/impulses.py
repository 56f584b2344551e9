"""Simultaneous resolution of frictionless collisions (THESIS 4.4), passive and without pulling.

With A = J D^-1 J^T the impulses that satisfy Newton's restitution at all colliding points at once are
p = -A^+ (1 + e) b, where b = J v are the approach velocities (THESIS 4.36, with a restitution for each point).
The pseudo-inverse serves independent and overdetermined contacts alike (THESIS appendix A).

Where that p has a negative entry, a contact would pull (errata 4). Then the impulses are those of
    minimise 1/2 p^T A p + ((1 + e) b)^T p  subject to p >= 0,
that is 0 <= p, A p + (1 + e) b >= 0, complementary: a point may leave faster than Newton's law says but is
never held back. Both are passive for any restitutions in [0, 1]: the energy changes by
    p^T b + 1/2 p^T A p = 1/2 sum_i p_i (1 - e_i) b_i <= 0,
as p^T A p = -p^T (1 + e) b holds for both and all b_i < 0. (For the first, p lies in the range of A.) Without the
factor 1/2, THESIS (4.27, 4.33, 4.40, 4.43) are misprinted (errata 1). Scaling p by a factor in [0, 1] keeps the
change negative, because it is convex in the factor and zero at 0.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from haptic_sim.contact.solvers.outcomes import NON_PULLING, NOT_CONVERGED, SOLVED
from haptic_sim.kernels import kernel
from haptic_sim.linalg import cholesky, cholesky_solve
from haptic_sim.records import array, record

RANK_TOLERANCE = 1e-10  # a pivot below this part of the largest one is a dependent contact
_SLACK = 1e-12  # relative to the largest entry: what rounding may leave of a zero


@record
class ImpulseMemory(NamedTuple):
    """Memory of `resolve_collisions`."""

    c: np.ndarray = array("(1 + e) v_n of each contact", "contacts", unit="m/s")
    G: np.ndarray = array("factor of A, or orthonormal rows of the contacts that push", "contacts", "nv")
    H: np.ndarray = array("G^T G and its factor, or the triangular factor of these rows", "nv", "nv")
    u: np.ndarray = array("W^T p", "nv", unit="kg^1/2 m/s")
    r: np.ndarray = array("row of the contact that begins to push, less its part along the others", "nv")
    y: np.ndarray = array("coordinates in the basis of G", "nv")
    state: np.ndarray = array(
        "1: the contact pushes, -1: was tried in vain since p changed", "contacts", dtype=np.int64
    )
    subset: np.ndarray = array("contacts that push", "contacts", dtype=np.int64)
    trial: np.ndarray = array("impulses that solve the law of the subset", "contacts", unit="N s")
    length: np.ndarray = array("norm of each row of W", "contacts", unit="kg^-1/2")


@kernel
def _pseudo_solve(W, m, memory, x):
    """Fill x[:m] with -(A_SS)^+ c_S for the first m rows S of memory.subset, of A = W W^T; returns the rank.

    Full-rank factorisation A_SS = G G^T by Cholesky with diagonal pivoting, then A_SS^+ = G H^-1 H^-1 G^T with
    H = G^T G (Courrieu 2005). The rank is that of the contacts, at most the degrees of freedom.
    """
    c, G, H, y, subset = memory.c, memory.G, memory.H, memory.y, memory.subset
    nv = W.shape[1]
    residual = x  # the diagonal of what is not factored yet
    largest = 0.0
    for a in range(m):
        s = 0.0
        for k in range(nv):
            s += W[subset[a], k] * W[subset[a], k]
        residual[a] = s
        largest = max(largest, s)
    rank = 0
    while rank < nv:
        pivot = 0
        for a in range(m):
            if residual[a] > residual[pivot]:
                pivot = a
        if not residual[pivot] > RANK_TOLERANCE * largest:
            break
        root = math.sqrt(residual[pivot])
        for a in range(m):
            s = 0.0
            for k in range(nv):
                s += W[subset[a], k] * W[subset[pivot], k]
            for k in range(rank):
                s -= G[a, k] * G[pivot, k]
            G[a, rank] = s / root
        for a in range(m):
            residual[a] -= G[a, rank] * G[a, rank]
        residual[pivot] = 0.0
        rank += 1
    L = H
    for i in range(rank):
        for j in range(i + 1):
            s = 0.0
            for a in range(m):
                s += G[a, i] * G[a, j]
            L[i, j] = s
    cholesky(L, rank, L)  # in place: entry (i, j) is read before it is written
    for i in range(rank):
        y[i] = 0.0
        for a in range(m):
            y[i] -= G[a, i] * c[subset[a]]
    cholesky_solve(L, rank, y)
    cholesky_solve(L, rank, y)
    for a in range(m):
        s = 0.0
        for i in range(rank):
            s += G[a, i] * y[i]
        x[a] = s
    return rank


@kernel
def _orthonormalize(W, subset, m, Q, R):
    """Fill Q (m, nv) and R (m, m), upper, with W[subset]^T = Q^T R by Gram-Schmidt, each row done twice."""
    nv = W.shape[1]
    for a in range(m):
        for k in range(nv):
            Q[a, k] = W[subset[a], k]
        for b in range(a):
            R[b, a] = 0.0
        for _ in range(2):
            for b in range(a):
                s = 0.0
                for k in range(nv):
                    s += Q[b, k] * Q[a, k]
                R[b, a] += s
                for k in range(nv):
                    Q[a, k] -= s * Q[b, k]
        s = 0.0
        for k in range(nv):
            s += Q[a, k] * Q[a, k]
        R[a, a] = math.sqrt(s)
        for k in range(nv):
            Q[a, k] /= R[a, a]


@kernel
def _non_negative(W, n, memory, p):
    """Minimise 1/2 p^T A p + c^T p over p >= 0, A = W W^T with unit rows; returns whether it ended.

    Active set: the contacts that push are kept independent. One that would be held back either is independent of
    them and joins (Lawson and Hanson), or depends on them and takes the place of one: along the direction that
    leaves W^T p as it is the objective falls until one of them no longer pushes.
    """
    nv = W.shape[1]
    c, Q, R, state, subset = memory.c, memory.G, memory.H, memory.state, memory.subset
    u, r, y, trial = memory.u, memory.r, memory.y, memory.trial
    largest = 0.0
    for i in range(n):
        p[i] = 0.0
        state[i] = 0
        largest = max(largest, abs(c[i]))
    m = 0
    for _ in range(10 * n + 10):
        square = 0.0
        for k in range(nv):
            u[k] = 0.0
            for a in range(m):
                u[k] += p[subset[a]] * W[subset[a], k]
            square += u[k] * u[k]
        entering = -1
        most = -_SLACK * (largest + math.sqrt(square))
        for i in range(n):
            if state[i] == 0:
                s = c[i]
                for k in range(nv):
                    s += W[i, k] * u[k]
                if s < most:
                    most = s
                    entering = i
        if entering < 0:
            return True
        _orthonormalize(W, subset, m, Q, R)
        square = 0.0
        for k in range(nv):
            r[k] = W[entering, k]
        for a in range(m):
            y[a] = 0.0
        for _ in range(2):
            for a in range(m):
                s = 0.0
                for k in range(nv):
                    s += Q[a, k] * r[k]
                y[a] += s
                for k in range(nv):
                    r[k] -= s * Q[a, k]
        for k in range(nv):
            square += r[k] * r[k]
        if m == nv or not square > RANK_TOLERANCE:
            for a in range(m - 1, -1, -1):  # W[entering] = sum of y W[subset]
                for b in range(a + 1, m):
                    y[a] -= R[a, b] * y[b]
                y[a] /= R[a, a]
            leaving = -1
            step = 0.0
            for a in range(m):
                if y[a] > 1e-9 and (leaving < 0 or p[subset[a]] < step * y[a]):
                    step = p[subset[a]] / y[a]
                    leaving = a
            if leaving < 0:
                return False
            for a in range(m):
                p[subset[a]] = max(p[subset[a]] - step * y[a], 0.0)
            p[subset[leaving]] = 0.0
            state[subset[leaving]] = 0
            subset[leaving] = entering
            p[entering] = step
        else:
            subset[m] = entering
            m += 1
        state[entering] = 1
        while m > 0:
            _orthonormalize(W, subset, m, Q, R)
            for a in range(m):
                trial[a] = -c[subset[a]]
                for b in range(a):
                    trial[a] -= R[b, a] * trial[b]
                trial[a] /= R[a, a]
            for a in range(m - 1, -1, -1):
                for b in range(a + 1, m):
                    trial[a] -= R[a, b] * trial[b]
                trial[a] /= R[a, a]
            leaving = -1
            step = 1.0
            for a in range(m):
                if trial[a] <= 0.0:
                    part = p[subset[a]] / (p[subset[a]] - trial[a]) if p[subset[a]] > 0.0 else 0.0
                    if leaving < 0 or part < step:
                        step = part
                        leaving = a
            for a in range(m):
                i = subset[a]
                p[i] = max(p[i] + step * (trial[a] - p[i]), 0.0)
            if step > 0.0:
                for i in range(n):
                    if state[i] < 0:
                        state[i] = 0
            if leaving < 0:
                break
            p[subset[leaving]] = 0.0
            state[subset[leaving]] = -1 if subset[leaving] == entering and step == 0.0 else 0
            m -= 1
            for a in range(leaving, m):
                subset[a] = subset[a + 1]
    return False


@kernel
def resolve_freely(n, W, v_n, restitution, memory, p):
    """Fill p[:n] with the impulses [N s] of THESIS (4.36); returns whether none of them pulls.

    Arguments are those of `resolve_collisions`.
    """
    for i in range(n):
        memory.c[i] = (1.0 + restitution[i]) * v_n[i]
        memory.subset[i] = i
    _pseudo_solve(W, n, memory, p)
    largest = 0.0
    for i in range(n):
        largest = max(largest, abs(p[i]))
    for i in range(n):
        if p[i] < -_SLACK * largest:
            return False
    for i in range(n):
        p[i] = max(p[i], 0.0)
    return True


@kernel
def resolve_non_pulling(n, W, v_n, memory, p):
    """Fill p[:n] with impulses that do not pull, by the active set, after `resolve_freely` found some that do.

    Its time grows with the square of the contacts. Arguments and codes are those of `resolve_collisions`.
    """
    nv = W.shape[1]
    c, length = memory.c, memory.length
    for i in range(n):
        length[i] = 0.0
        for j in range(nv):
            length[i] += W[i, j] * W[i, j]
        length[i] = math.sqrt(length[i]) if length[i] > 0.0 else 1.0
        for j in range(nv):
            W[i, j] /= length[i]
        c[i] /= length[i]
    solved = _non_negative(W, n, memory, p)
    for i in range(n):
        p[i] /= length[i]
        for j in range(nv):
            W[i, j] *= length[i]
    if solved:
        return NON_PULLING
    _damp(W, n, v_n, memory.u, p)
    return NOT_CONVERGED


@kernel
def resolve_collisions(n, W, v_n, restitution, memory, p):
    """Fill p[:n] with the impulses [N s] of n colliding contacts; returns how they were found.

    Args:
        n: number of contacts, all approaching.
        W: normal rows J L^-T with the inertia D = L L^T, of the contacts first, (C, nv).
        v_n: normal velocities, negative, (C,) [m/s].
        restitution: coefficients in [0, 1], (C,).
        memory: ImpulseMemory.

    Returns:
        SOLVED: THESIS (4.36); NON_PULLING: resolved again with p >= 0; NOT_CONVERGED: the impulses are
        those of the last iterate scaled so that no energy is added.
    """
    if resolve_freely(n, W, v_n, restitution, memory, p):
        return SOLVED
    return resolve_non_pulling(n, W, v_n, memory, p)


@kernel
def _energy(W, n, v_n, u, p):
    """p^T v_n and |W^T p|^2; fills u with W^T p."""
    work = 0.0
    square = 0.0
    for k in range(W.shape[1]):
        s = 0.0
        for i in range(n):
            s += W[i, k] * p[i]
        u[k] = s
        square += s * s
    for i in range(n):
        work += p[i] * v_n[i]
    return work, square


@kernel
def _damp(W, n, v_n, u, p):
    """Scale p so that its energy p^T v_n + 1/2 |W^T p|^2 is least along the ray, hence not positive."""
    work, square = _energy(W, n, v_n, u, p)
    scale = min(1.0, -work / square) if square > 0.0 and work < 0.0 else 0.0
    for i in range(n):
        p[i] *= scale
