"""Directions in which the hand can move, its inertia in them, and directions that the linkage blocks (THESIS 5.2-5.4).

J (6, nv) maps velocities of the configuration to twists of the hand, D = L L^T is the inertia, W = J L^-T, and
W W^T = J D^-1 J^T the inverse inertia at the hand (5.16), which exists at any rank of J.

**Rank.** Metres and radians are made comparable before singular values are taken:
  - `jacobian`: those of S J, S = diag(1, 1, 1, l, l, l) with a characteristic length l [m]. They are the hand's largest
    to smallest displacement [m] by a unit of the joints' coordinates; with l = 1 m those of J itself.
  - `kinetic`: those of G^T W, where M = G G^T is the inertia of the held link at the hand. Their squares are the parts
    of the tool's kinetic energy that are the held link's own: numbers from 0 to 1, which do not depend on the
    coordinates of the joints, of the hand, or on units.
A direction is one of topological constraint where the singular value is at most
max(tolerance, relative_tolerance * largest one). The values are roots of eigenvalues of a Gram matrix, right to 1e-8 of
the largest.

**Weighted generalized inverse.** J is cut to its rank r: J_r = B C, with the twists B (6, r) in which the hand can move
and C = Y J (r, nv), Y B = 1. With the metrics D and M of kinetic energy (5.7; appendix B, its B.17 corrected, errata 5)
    J^# = D^-1 C^T (C D^-1 C^T)^-1 (B^T M B)^-1 B^T M = D^-1 J^T H^T,
    H = M B (B^T M B)^-1 (Y W W^T Y^T)^-1 Y.
It does not depend on units or on the coordinates of the joints or the hand, as long as the rank does not. The change du
of the scaled velocity by contacts is at the hand (5.12) the wrench
    F = J^#T tau = H W du / T,
since tau = L du / T. J_r D^-1 J_r^T F = J_r D^-1 tau: F accelerates the hand as the contacts do, up to the tolerance.
F = M B (...), so it has no component (in the metric M^-1 of wrenches) along the directions of topological constraint.
H ~ 1 / s^2 where a singular value s becomes small: wrenches grow without bound towards a singularity, and end where the
rank drops.

Where all directions are free nothing needs to be decomposed: H is then (J D^-1 J^T)^-1 in the hand's space, whatever M
is. All singular values are above a threshold t exactly if A - t^2, with the Gram matrix A, has a Cholesky factor. The
decomposition is done only when singular values or H are requested.

**Directions of topological constraint**: a basis n_i of the wrenches that move nothing, J^T n_i = 0 (and so
J D^-1 J^T n_i = 0: x^T J D^-1 J^T x = |L^-1 J^T x|^2, which corrects the argument of appendix C, errata 5),
orthonormal with torques divided by l. Their number is the dimension of the hand's space, 6 or 3 in the plane, less the
rank (errata 8). From step to step a basis follows the one before it:
  - As many directions as before: the basis nearest to the one before (orthogonal Procrustes problem, by a polar
    decomposition); a direction without a component in the new space is replaced by a new one.
  - More: the directions before are followed in this way; new ones are appended.
  - Fewer: the directions with the least component in the new space are dropped, and the others are followed in order.
  - New directions, and all at the first step, are projections of coordinate axes on the space: each time of the axis
    with the largest component orthogonal to the directions already chosen.

**Fading.** The rank jumps, and with it H and the directions. With fade > 0 there is no jump: for singular values
between the threshold t and (1 + fade) t, H is a convex combination of the inverses of both ranks, and the direction has
a strength f that decreases from 1 to 0 and is listed as f^(1/2) n_i. The control laws use the sum of n_i n_i^T, which
is then continuous. With fade = 0 (the default, as in the source) all have the length 1.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from haptic_sim.kernels import kernel
from haptic_sim.linalg import cholesky, cholesky_solve, symmetric_eigen
from haptic_sim.records import array, part, record, shared, value

SPATIAL, PLANAR = (0, 1, 2, 3, 4, 5), (0, 1, 5)
RESOLVED = 1e-7  # least relative tolerance: roots of eigenvalues are right to 1e-8 of the largest
_ROUNDING = 1e-14  # what a Cholesky factorisation may be off, as a part of the trace
_LOST = 1e-6  # squared part of a direction in the new space below which it cannot be followed


@record
class RankRule(NamedTuple):
    """Rule for the rank: when a direction counts as one in which the hand cannot move; see the module."""

    axes: np.ndarray = shared("rows of twists that span the hand's space, SPATIAL or PLANAR", "n", dtype=np.int64)
    length: float = value("characteristic length", "m")
    kinetic: bool = value("whether the singular values are those of G^T W, not of S J")
    tolerance: float = value("absolute tolerance, without unit if `kinetic`", "m")
    relative_tolerance: float = value("tolerance as a part of the largest singular value")
    fade: float = value("part of the threshold above it in which the rank changes gradually")

    @classmethod
    def checked(
        cls,
        planar: bool = False,
        measure: Literal["jacobian", "kinetic"] = "jacobian",
        tolerance: float = 1e-3,
        relative_tolerance: float = RESOLVED,
        length: float = 1.0,
        fade: float = 0.0,
    ) -> RankRule:
        """A rule.

        Raises:
            ValueError: a value is out of its bounds.
        """
        if measure not in ("jacobian", "kinetic"):
            raise ValueError(f"measure = {measure!r}: must be 'jacobian' or 'kinetic'")
        if not 0.0 <= tolerance < math.inf:
            raise ValueError(f"tolerance = {tolerance}: must be finite and >= 0")
        if not RESOLVED <= relative_tolerance < 1.0:
            raise ValueError(f"relative_tolerance = {relative_tolerance}: must be from {RESOLVED} to below 1")
        if not 0.0 < length < math.inf:
            raise ValueError(f"length = {length} m: must be finite and > 0")
        if not 0.0 <= fade < math.inf:
            raise ValueError(f"fade = {fade}: must be finite and >= 0")
        axes = np.array(PLANAR if planar else SPATIAL, np.int64)
        return cls(axes, float(length), measure == "kinetic", float(tolerance), float(relative_tolerance), float(fade))


@record
class FollowMemory(NamedTuple):
    """Memory of `follow`."""

    overlap: np.ndarray = array("rows of the last call in the new space", 6, 6)
    part: np.ndarray = array("squared part of each of them in the new space", 6)
    kept: np.ndarray = array("rows of the last call that are followed", 6, dtype=np.int64)
    gram: np.ndarray = array("Gram matrix of the kept rows of `overlap`", 6, 6)
    values: np.ndarray = array("eigenvalues of `gram`", 6)
    vectors: np.ndarray = array("eigenvectors of `gram`, one a row", 6, 6)
    frame: np.ndarray = array("orthonormal rows of which the new basis is made", 6, 6)
    turned: np.ndarray = array("new basis in the new space", 6, 6)
    row: np.ndarray = array("one row of the new basis", 6)


@record
class Workspace(NamedTuple):
    """Memory of the kernels; of `factor` alone later calls make use."""

    follow: FollowMemory = part(FollowMemory, "memory of `follow`")
    strength: np.ndarray = array("strengths of the directions that are listed", 6)
    x: np.ndarray = array("a twist or a wrench", 6)
    gram: np.ndarray = array("Gram matrix whose eigenvalues are the squares of the singular values", 6, 6)
    factor: np.ndarray = array("Cholesky factor of J D^-1 J^T where all directions are free", 6, 6)
    inertia: np.ndarray = array("inertia M of the held link in the hand's space", 6, 6)
    root: np.ndarray = array("Cholesky factor of this inertia, G", 6, 6)
    vectors: np.ndarray = array("eigenvectors of `gram`, one a row", 6, 6)
    mobilities: np.ndarray = array("inverse inertia W W^T in the hand's space", 6, 6)
    product: np.ndarray = array("product of matrices", 6, 6)
    space: np.ndarray = array("orthonormal directions of topological constraint in this call", 6, 6)
    Y: np.ndarray = array("rows that give the coordinates of a twist along B", 6, 6)
    B: np.ndarray = array("twists in which the hand can move, one a row", 6, 6)
    MB: np.ndarray = array("their momenta M B, one a row", 6, 6)
    YA: np.ndarray = array("Y W W^T", 6, 6)
    YAY: np.ndarray = array("Y W W^T Y^T, then its Cholesky factor", 6, 6)
    BMB: np.ndarray = array("B^T M B, then its Cholesky factor", 6, 6)


@record
class Mobility(NamedTuple):
    """Result of `find_mobility`; n is the dimension of the hand's space."""

    singular_values: np.ndarray = array("singular values, ascending, of which the first n count", 6)
    counts: np.ndarray = array(
        "rank; number of directions listed (n - rank, and more while directions fade); 1 where singular values and H "
        "are those of an earlier call until `complete_mobility`, else 0",
        3,
        dtype=np.int64,
    )
    H: np.ndarray = array(
        "generalized inverse of the inverse inertia, zero outside the hand's space", 6, 6, unit="kg, kg m, kg m^2"
    )
    directions: np.ndarray = array(
        "directions of topological constraint, a wrench [force, torque] a row, of which the first counts[1] count", 6, 6
    )
    unit: np.ndarray = array("the same, orthonormal and without fading, in the hand's space", 6, 6)
    memory: Workspace = part(Workspace, "memory of the kernels")


@kernel
def find_mobility(rule, J, inverse_inertia, first, end, M, mobility):
    """Fill `mobility` from J and J D^-1 J^T; finite for finite input, in every configuration.

    Where the hand can move in every direction, singular values and H wait until `complete_mobility`.

    Args:
        rule: `RankRule`.
        J: hand Jacobian (6, nv), [linear, angular]; the coordinates first to end - 1 count.
        inverse_inertia: J D^-1 J^T, row major (36,).
        M: inertia of the held link for twists of the hand, positive definite in the hand's space, (6, 6).
        mobility: `Mobility`; directions follow those of the last call with it.
    """
    _fill_gram(rule, J, inverse_inertia, first, end, M, mobility)
    if end - first < rule.axes.shape[0] or not _is_free(rule, inverse_inertia, mobility):
        _decompose(rule, inverse_inertia, M, mobility)


@kernel
def _fill_gram(rule, J, inverse_inertia, first, end, M, mobility):
    """Fill the Gram matrix whose eigenvalues are the squares of the singular values."""
    axes, length = rule.axes, rule.length
    n, A = axes.shape[0], mobility.memory.gram
    if rule.kinetic:
        _fill_kinetic_gram(axes, inverse_inertia, M, mobility)
        return
    for i in range(n):
        a = axes[i]
        for k in range(i + 1):
            b = axes[k]
            s = 0.0
            for j in range(first, end):
                s += J[a, j] * J[b, j]
            if a > 2:
                s *= length
            if b > 2:
                s *= length
            A[i, k] = A[k, i] = s


@kernel
def _fill_kinetic_gram(axes, inverse_inertia, M, mobility):
    """Fill the Gram matrix of the kinetic measure: G^T (W W^T) G, and G."""
    A, G, product = mobility.memory.gram, mobility.memory.root, mobility.memory.product
    n = axes.shape[0]
    for i in range(n):
        for k in range(n):
            A[i, k] = M[axes[i], axes[k]]
    cholesky(A, n, G)
    for i in range(n):
        for k in range(n):
            s = 0.0
            for j in range(k, n):
                s += inverse_inertia[6 * axes[i] + axes[j]] * G[j, k]
            product[i, k] = s
    for i in range(n):
        for k in range(n):
            s = 0.0
            for j in range(i, n):
                s += G[j, i] * product[j, k]
            A[i, k] = s
    for i in range(n):
        for k in range(i):
            A[i, k] = A[k, i] = 0.5 * (A[i, k] + A[k, i])


@kernel
def _is_free(rule, inverse_inertia, mobility):
    """Whether all singular values are surely above the threshold and the fading range; notes it if they are.

    A - t^2 has a Cholesky factor if and only if all eigenvalues of A are above t^2. The largest singular value is at
    most the root of the trace, and t is larger by what rounding may do.
    """
    axes, A, factor = rule.axes, mobility.memory.gram, mobility.memory.factor
    n = axes.shape[0]
    trace = 0.0
    for i in range(n):
        trace += A[i, i]
    t = max(rule.tolerance, rule.relative_tolerance * math.sqrt(trace)) * (1.0 + rule.fade)
    shift = t * t + _ROUNDING * (t * t + trace)
    for i in range(n):
        for k in range(i):
            factor[i, k] = A[i, k]
        factor[i, i] = A[i, i] - shift
    # in place: entry (i, j) is read before it is written
    if not cholesky(factor, n, factor):
        return False
    for i in range(n):
        for k in range(i + 1):
            factor[i, k] = inverse_inertia[6 * axes[i] + axes[k]]
    if not cholesky(factor, n, factor):
        return False
    if mobility.counts[1] > 0:
        mobility.directions[:, :] = 0.0
    mobility.counts[0], mobility.counts[1], mobility.counts[2] = n, 0, 1
    return True


@kernel
def complete_mobility(rule, mobility):
    """Find singular values and H as of the last `find_mobility`, if they are not there yet."""
    if mobility.counts[2] == 0:
        return
    mobility.counts[2] = 0
    axes, A, factor = rule.axes, mobility.memory.gram, mobility.memory.factor
    n, x = axes.shape[0], mobility.memory.x
    _find_singular_values(n, A, mobility)
    mobility.H[:, :] = 0.0
    for k in range(n):
        for i in range(n):
            x[i] = 1.0 if i == k else 0.0
        cholesky_solve(factor, n, x)
        for i in range(n):
            mobility.H[axes[i], axes[k]] = x[i]


@kernel
def _find_singular_values(n, A, mobility):
    """Fill them, and their vectors; overwrites A."""
    sigma = mobility.singular_values
    symmetric_eigen(A, n, sigma, mobility.memory.vectors)
    for i in range(n):
        sigma[i] = math.sqrt(sigma[i]) if sigma[i] > 0.0 else 0.0


@kernel
def _decompose(rule, inverse_inertia, M, mobility):
    """Fill `mobility` from the Gram matrix, with and without directions of topological constraint."""
    axes = rule.axes
    n = axes.shape[0]
    w = mobility.memory
    inertia, mobilities, strength, sigma = w.inertia, w.mobilities, w.strength, mobility.singular_values
    _find_singular_values(n, w.gram, mobility)
    for i in range(n):
        for k in range(n):
            inertia[i, k] = M[axes[i], axes[k]]
            mobilities[i, k] = inverse_inertia[6 * axes[i] + axes[k]]
    threshold = max(rule.tolerance, rule.relative_tolerance * sigma[n - 1])
    deficient = 0
    while deficient < n and not sigma[deficient] > threshold:
        strength[deficient] = 1.0
        deficient += 1
    listed = deficient
    while listed < n and sigma[listed] < threshold * (1.0 + rule.fade):
        x = (sigma[listed] / threshold - 1.0) / rule.fade
        strength[listed] = 1.0 - x * x * (3.0 - 2.0 * x)
        listed += 1
    before = mobility.counts[1]
    mobility.counts[0], mobility.counts[1], mobility.counts[2] = n - deficient, listed, 0
    _invert(rule, deficient, listed, mobility)
    _find_directions(rule, deficient, listed, before, mobility)


@kernel
def _invert(rule, deficient, listed, mobility):
    """Fill H: with the directions 0 to k - 1 cut, blended over k while directions fade."""
    axes, length = rule.axes, rule.length
    n = axes.shape[0]
    w = mobility.memory
    inertia, mobilities, G, U, strength = w.inertia, w.mobilities, w.root, w.vectors, w.strength
    Y, B, MB, YA, YAY, BMB, x = w.Y, w.B, w.MB, w.YA, w.YAY, w.BMB, w.x
    H = mobility.H
    H[:, :] = 0.0
    for i in range(deficient, n):  # rows of Y = U_r^T S and columns of B = S^-1 U_r, one a row
        if rule.kinetic:  # S = G^T
            for a in range(n):
                s = 0.0
                for b in range(a + 1):
                    s += U[i, b] * G[a, b]
                Y[i, a] = s
            for a in range(n - 1, -1, -1):
                s = U[i, a]
                for b in range(a + 1, n):
                    s -= G[b, a] * B[i, b]
                B[i, a] = s / G[a, a]
        else:
            for a in range(n):
                scale = length if axes[a] > 2 else 1.0
                Y[i, a] = U[i, a] * scale
                B[i, a] = U[i, a] / scale
        for a in range(n):
            s = 0.0
            for b in range(n):
                s += inertia[a, b] * B[i, b]
            MB[i, a] = s
    carried = 0.0
    for k in range(deficient, n):
        weight = carried
        if k <= listed:
            weight += (strength[k - 1] if k > 0 else 1.0) - (strength[k] if k < listed else 0.0)
        carried = 0.0
        if not weight > 0.0:
            continue
        r = n - k
        for i in range(r):
            for a in range(n):
                s = 0.0
                for b in range(n):
                    s += Y[k + i, b] * mobilities[b, a]
                YA[i, a] = s
            for j in range(i + 1):
                q, m = 0.0, 0.0
                for a in range(n):
                    q += YA[i, a] * Y[k + j, a]
                    m += B[k + i, a] * MB[k + j, a]
                YAY[i, j] = q
                BMB[i, j] = m
        # in place: entry (i, j) is read before it is written
        if not (cholesky(YAY, r, YAY) and cholesky(BMB, r, BMB)):
            # Lost in rounding, where an inertia of many decades meets a tolerance near the least: one rank less.
            carried = weight
            continue
        for a in range(n):
            for i in range(r):
                x[i] = Y[k + i, a]
            cholesky_solve(YAY, r, x)
            cholesky_solve(BMB, r, x)
            for b in range(n):
                s = 0.0
                for i in range(r):
                    s += MB[k + i, b] * x[i]
                H[axes[b], axes[a]] += weight * s


@kernel
def _find_directions(rule, deficient, listed, before, mobility):
    """Fill directions and unit: the null space of J^T, which follows that of the last call."""
    axes, length = rule.axes, rule.length
    n = axes.shape[0]
    w, unit, directions = mobility.memory, mobility.unit, mobility.directions
    space, G, U, strength = w.space, w.root, w.vectors, w.strength
    for i in range(listed):
        if not rule.kinetic:  # S U with torques divided by the length
            for a in range(n):
                space[i, a] = U[i, a]
            continue
        for a in range(n):  # G U, made orthonormal in the metric of the length
            s = 0.0
            for b in range(a + 1):
                s += G[a, b] * U[i, b]
            space[i, a] = s / length if axes[a] > 2 else s
        for _ in range(2):
            for j in range(i):
                s = 0.0
                for a in range(n):
                    s += space[i, a] * space[j, a]
                for a in range(n):
                    space[i, a] -= s * space[j, a]
        s = 0.0
        for a in range(n):
            s += space[i, a] * space[i, a]
        s = math.sqrt(s)
        for a in range(n):
            space[i, a] /= s
    if listed > 0:
        follow(n, unit, before, space, listed, w.follow)
    directions[:, :] = 0.0
    for i in range(listed):
        for a in range(n):
            s = unit[i, a]
            if listed > deficient:
                s = 0.0
                for j in range(listed):
                    part = 0.0
                    for b in range(n):
                        part += space[j, b] * unit[i, b]
                    s += math.sqrt(strength[j]) * part * space[j, a]
            directions[i, axes[a]] = length * s if axes[a] > 2 else s


@kernel
def follow(n, basis, before, space, count, memory):
    """Replace the rows basis[:before, :n] by an orthonormal basis of space[:count, :n] that follows them.

    The rule is that of the module.

    Args:
        basis: rows of the last call in, count rows out, (6, 6).
        space: orthonormal rows.
        memory: `FollowMemory`.
    """
    C, X, E, V, Y = memory.overlap, memory.frame, memory.gram, memory.vectors, memory.turned
    values, part, kept, r = memory.values, memory.part, memory.kept, memory.row
    for i in range(before):
        part[i] = 0.0
        for a in range(count):
            s = 0.0
            for b in range(n):
                s += basis[i, b] * space[a, b]
            C[i, a] = s
            part[i] += s * s
    m = before
    for i in range(before):
        kept[i] = i
    while m > count:
        least = 0
        for i in range(1, m):
            if part[kept[i]] <= part[kept[least]]:
                least = i
        m -= 1
        for i in range(least, m):
            kept[i] = kept[i + 1]
    for i in range(m):
        for j in range(i + 1):
            s = 0.0
            for a in range(count):
                s += C[kept[i], a] * C[kept[j], a]
            E[i, j] = E[j, i] = s
    symmetric_eigen(E, m, values, V)
    # The polar factor of C is X V, X = V C with rows of length 1. Those of greatest length come first.
    found = 0
    for j in range(m - 1, -1, -1):
        if not values[j] > _LOST:
            break
        for a in range(count):
            s = 0.0
            for i in range(m):
                s += V[j, i] * C[kept[i], a]
            X[found, a] = s
        _normalise_against(X, found, count)
        found += 1
    while found < count:
        axis, most = 0, -1.0
        for b in range(n):
            s = 0.0
            for a in range(count):
                s += space[a, b] * space[a, b]
            for j in range(found):
                t = 0.0
                for a in range(count):
                    t += X[j, a] * space[a, b]
                s -= t * t
            if s > most + 1e-9:  # of equal ones the first, whatever rounding says
                axis, most = b, s
        for a in range(count):
            X[found, a] = space[a, axis]
        _normalise_against(X, found, count)
        found += 1
    for i in range(count):
        for a in range(count):
            if i < m:
                s = 0.0
                for j in range(m):
                    s += V[m - 1 - j, i] * X[j, a]
            else:
                s = X[i, a]
            Y[i, a] = s
    for i in range(count):
        for b in range(n):
            s = 0.0
            for a in range(count):
                s += Y[i, a] * space[a, b]
            r[b] = s
        for b in range(n):
            basis[i, b] = r[b]


@kernel
def _normalise_against(X, i, n):
    """Make row i of X (n columns) orthogonal to the rows before it, and of length 1."""
    for _ in range(2):
        for j in range(i):
            s = 0.0
            for a in range(n):
                s += X[i, a] * X[j, a]
            for a in range(n):
                X[i, a] -= s * X[j, a]
        s = 0.0
        for a in range(n):
            s += X[i, a] * X[i, a]
        s = math.sqrt(s)
        for a in range(n):
            X[i, a] /= s


@kernel
def wrench_at_hand(rule, mobility, W, first, end, du, period, wrench):
    """Fill `wrench` (6,) with what acts at the hand as `du` does to u = L^T v in `period` [s] (THESIS 5.12).

    F = J^#T tau = H W du / T: with forces tau for T, or impulses, which are divided by the step (errata 8). With
    period 1 and du = L^-1 tau it is the wrench of forces tau.
    """
    x = mobility.memory.x
    for a in range(6):
        s = 0.0
        for j in range(first, end):
            s += W[a, j] * du[j]
        x[a] = s / period
        wrench[a] = 0.0
    if mobility.counts[2] == 0:
        for i in range(6):
            for a in range(6):
                wrench[i] += mobility.H[i, a] * x[a]
        return
    axes = rule.axes
    for i in range(axes.shape[0]):
        x[i] = x[axes[i]]  # axes ascend
    cholesky_solve(mobility.memory.factor, axes.shape[0], x)
    for i in range(axes.shape[0]):
        wrench[axes[i]] = x[i]


@kernel
def weighted_inverse(H, W, L, first, end, inverse):
    """Fill J^# (nv, 6), rows first to end - 1: the velocity of least energy with the twist nearest to a given one."""
    for c in range(6):
        for j in range(end - 1, first - 1, -1):  # D^-1 J^T H^T = L^-T W^T H^T
            s = 0.0
            for a in range(6):
                s += W[a, j] * H[c, a]
            for k in range(j + 1, end):
                s -= L[k, j - first] * inverse[k, c]
            inverse[j, c] = s / L[j, j - first]


@kernel
def link_inertia(mass, lever, inertia, M):
    """Fill M (6, 6): kinetic energy 1/2 t^T M t of a body for the twist t of a point.

    Args:
        mass: [kg].
        lever: from the point to the centre of mass [m], (3,).
        inertia: about the centre of mass, in the same axes [kg m^2], (3, 3).
    """
    x, y, z = lever[0], lever[1], lever[2]
    square = x * x + y * y + z * z
    for i in range(3):
        for j in range(3):
            M[i, j] = mass if i == j else 0.0
            M[3 + i, 3 + j] = inertia[i, j] - mass * (lever[i] * lever[j]) + (mass * square if i == j else 0.0)
            M[i, 3 + j] = 0.0
    # v_C = v + w x r: the momentum is m (v - r x w)
    M[0, 4], M[0, 5] = mass * z, -mass * y
    M[1, 3], M[1, 5] = -mass * z, mass * x
    M[2, 3], M[2, 4] = mass * y, -mass * x
    for i in range(3):
        for j in range(3):
            M[3 + j, i] = M[i, 3 + j]
