"""Fixed-step time-stepping with contact and Coulomb friction: Stewart and Trinkle (1996), Anitescu and Potra (1997).

All contacts of a step are resolved at once on the level of velocities and impulses, in which the problem has a
solution even where accelerations and forces have none (Painleve). Friction lies in a pyramid inside Coulomb's cone,
with `facets` edges d_k in the plane of contact. With the velocity c = W (u + W^T p) + offset after the step, each
contact with impulse (p_n, sum of beta_k d_k) obeys
    0 <= p_n      complementary to  c_n + b_n >= 0                         it pushes or it separates
    0 <= beta_k   complementary to  d_k . c_t + lambda >= 0                friction opposes sliding the most it can
    0 <= lambda   complementary to  mu p_n - sum of beta_k >= 0            lambda > 0 is the speed of sliding,
a linear complementarity problem in z = (p_n, beta, lambda), with A = W W^T:
    M = [A_nn, A_nd, 0; A_dn, A_dd, E; mu, -E^T, 0],   q = (c_n + b_n, d . c_t, 0) of the free velocity u.
The caller chooses b_n [m/s]: separation/h (no penetration at the end of a step h), restitution times the velocity of
approach (negative: the contact leaves at -b_n), or a rate of recovery. Lemke's method solves the problem.

Rigid contacts share their load in any way where they are redundant (a table on four legs), and with it friction: the
motion is then not unique. A compliance epsilon, with c_n + b_n + epsilon p_n >= 0 in place of c_n + b_n >= 0, makes
the shares unique: contacts yield by the part COMPLIANCE of the velocity that their impulses stop. Should Lemke's method
fail, a hundred times that is tried. With compliance = 0 contacts are rigid, and nothing is tried again.

Guarantees, for offset = 0:
 - A solution exists and is found if b_n >= 0. For z >= 0, z^T M z = |W^T p|^2 + sum of lambda mu p_n >= 0, so M is
   copositive; where it is zero, W^T p = 0, so that q^T z = u . W^T p + sum of b_n p_n >= 0: the conditions of Lemke's
   method. With b_n < 0 the same holds unless contacts jam: push against each other without any effect (W^T p = 0)
   while they must separate; that ends with RAY. With epsilon > 0 there is a solution for any b_n, since
   z^T M z = 0 takes p_n = 0 and then, with M z >= 0, beta = 0. All this in exact
   numbers; the codes say if it failed in floating-point ones.
 - Kinetic energy 1/2 |u|^2 changes by p . c - 1/2 |W^T p|^2, and p . c = -sum of (b_n + epsilon p_n + mu lambda) p_n
   by the complementarities: with b_n >= 0 it never increases, whatever mu and the number of contacts. With b_n < 0
   at most -sum of b_n p_n is added, the work of pushing the contacts apart: much, if they jam, since compliant
   contacts then have impulses of the order of -b_n / epsilon.
 - The motion does not depend on the order of the contacts where it is unique: always without friction; with epsilon
   > 0 also for mu <= 0.3 in all worlds tried. (With large mu Coulomb's law itself can allow several motions.)
 - While sliding, the power of friction is between cos(pi / facets) and 1 times that of Coulomb's cone, and so is the
   force that moves a stuck contact. Along an edge (edge 0 is tangent 1) both are exact.

With 4 facets on cubes in stacks, at rest or thrown, a step took 2 us for 1 contact, 5-9 for 4, 17-40 for 8,
0.07-0.35 ms for 16 and 0.5-2.5 ms for 32 (8 facets: 4 times that). The cost grows with the cube: beyond 8 to 12
contacts in a loop of 1 kHz Gauss-Seidel is the method, beyond 16 in any.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from haptic_sim.contact.solvers.lemke import PIVOTS_PER_ROW, LemkeMemory, solve_lcp
from haptic_sim.contact.solvers.outcomes import INACCURATE, SOLVED, TOO_MANY
from haptic_sim.dynamics.scaled import apply_impulse, contact_velocity
from haptic_sim.kernels import kernel
from haptic_sim.records import allocate, array, part, record, shared, value

COMPLIANCE = 1e-6  # of 1/effective mass: rounding does not reach it (1e-9 would be lost), and nothing is felt of it

_SECOND_TRY = 100.0  # times the compliance, where Lemke's method failed with it
_TOO_MANY_ROWS, _NOT_FINITE = -1, -2

_IMMOVABLE = 1e-14  # of the largest 1/effective mass: below, a direction is what rounding leaves of none


@record
class ContactProblem(NamedTuple):
    """The linear complementarity problem of a step, and the memory to solve it.

    Rows are first p_n of all contacts that count, then beta of those with friction, contact by contact, then lambda.
    They are scaled by contact: row and column of contact i are in units in which its largest 1/effective mass is 1.
    """

    M: np.ndarray = array("matrix of the problem", "rows", "rows")
    q: np.ndarray = array("constant part of the problem", "rows")
    z: np.ndarray = array("solution", "rows")
    A: np.ndarray = array("Delassus matrix of normals and tangents", "3 * contacts", "3 * contacts", unit="1/kg")
    edge: np.ndarray = shared("cosine and sine of the edges of the pyramid from tangent 1", 2, "facets")
    row: np.ndarray = array("contact of each row p_n, then of each row lambda", 2, "contacts", dtype=np.int64)
    used: np.ndarray = array("numbers of rows p_n and of rows lambda", 2, dtype=np.int64)
    scale: np.ndarray = array(
        "root of the largest 1/effective mass of each contact", "contacts", unit="kg^-1/2", fill=1.0
    )
    lemke: LemkeMemory = part(LemkeMemory, "memory of the solver")
    compliance: float = value("epsilon as a part of the largest 1/effective mass of a contact; 0: rigid contacts")

    @classmethod
    def allocate(cls, capacity: int, facets: int, compliance: float = COMPLIANCE) -> ContactProblem:
        """Memory for that many contacts with a pyramid of that many edges: even, >= 4, or 2 in planar worlds."""
        if facets < 2 or facets % 2:
            raise ValueError(f"facets = {facets}: must be even and >= 2")
        if not 0.0 <= compliance < math.inf:
            raise ValueError(f"compliance = {compliance}: must be finite and >= 0")
        angle = 2.0 * math.pi / facets * np.arange(facets // 2)
        half = np.array([np.cos(angle), np.sin(angle)])
        half[np.abs(half) < 1e-15] = 0.0
        edge = np.ascontiguousarray(np.hstack([half, -half]))  # opposite edges to the last digit
        sizes = {"contacts": capacity, "rows": capacity * (2 + facets)}
        return allocate(cls, sizes, edge=edge, compliance=float(compliance))


@kernel
def _block(contacts, i, j, scale, A, k, m):
    """Fill the 3 x 3 block of contacts i and j at rows 3 k and columns 3 m of A, and its mirror image."""
    for d in range(3):
        for e in range(3):
            A[3 * k + d, 3 * m + e] = 0.0
    for a in range(2):
        tree = contacts.tree[i, a]
        if tree >= 0:
            for b in range(2):
                if contacts.tree[j, b] == tree:
                    for d in range(3):
                        for e in range(3):
                            s = 0.0
                            for x in range(contacts.size[tree]):
                                s += contacts.W[i, d, a, x] * contacts.W[j, e, b, x]
                            A[3 * k + d, 3 * m + e] += s
    for d in range(3):
        for e in range(3):
            A[3 * k + d, 3 * m + e] *= scale
    for d in range(3):
        for e in range(3):
            A[3 * m + e, 3 * k + d] = A[3 * k + d, 3 * m + e]


@kernel
def _choose_rows(problem, contacts, n, mu):
    """Find which contacts get rows, and their scale; returns how many have a normal impulse and how many friction.

    A contact that no impulse along its normal moves has none; one without friction, or in whose plane nothing can
    move, has no beta and lambda. Returns (-1, -1) if W is not finite.
    """
    A, row, scale = problem.A, problem.row, problem.scale
    largest = 0.0
    for i in range(n):
        _block(contacts, i, i, 1.0, A, i, i)
        for d in range(3 * i, 3 * i + 3):
            if not A[d, d] < np.inf:
                return -1, -1
            largest = max(largest, A[d, d])
    normals = 0
    rubbing = 0
    for i in range(n):
        along = A[3 * i, 3 * i]
        across = max(A[3 * i + 1, 3 * i + 1], A[3 * i + 2, 3 * i + 2])
        if along > _IMMOVABLE * largest:
            scale[i] = math.sqrt(max(along, across))
            row[0, normals] = i
            normals += 1
            if mu[i] > 0.0 and across > _IMMOVABLE * largest:
                row[1, rubbing] = i
                rubbing += 1
    return normals, rubbing


@kernel
def build_problem(problem, contacts, n, u, b_n, mu):
    """Write the complementarity problem of a step into `problem`; returns its number of rows.

    The number is negative if there is no problem: -1 for too many contacts, -2 for W that is not finite.

    Args:
        problem: a `ContactProblem`.
        contacts: `ScaledContacts`; the first n count.
        n: number of contacts.
        u: free scaled velocity: after a step with all forces but those of the contacts (nv,).
        b_n: what is added to the normal velocities that must not be negative [m/s], (C,).
        mu: coefficients of friction, (C,).
    """
    M, q, A, edge, row, scale = problem.M, problem.q, problem.A, problem.edge, problem.row, problem.scale
    facets = edge.shape[1]
    problem.used[0] = 0
    problem.used[1] = 0
    if n > scale.shape[0]:
        return _TOO_MANY_ROWS
    normals, rubbing = _choose_rows(problem, contacts, n, mu)
    if normals < 0:
        return _NOT_FINITE
    problem.used[0] = normals
    problem.used[1] = rubbing
    for k in range(normals):
        i = row[0, k]
        for m in range(k + 1):
            j = row[0, m]
            _block(contacts, i, j, 1.0 / (scale[i] * scale[j]), A, k, m)
    speed = normals + rubbing * facets  # first row of lambda
    rows = speed + rubbing
    for r in range(rows):
        for s in range(rows):
            M[r, s] = 0.0
    for k in range(normals):
        i = row[0, k]
        q[k] = (contact_velocity(contacts, i, 0, u) + b_n[i]) / scale[i]
        for m in range(normals):
            M[k, m] = A[3 * k, 3 * m]
        M[k, k] += problem.compliance
    k = 0
    for g in range(rubbing):
        i = row[1, g]
        while row[0, k] != i:
            k += 1
        first = normals + g * facets
        velocity_1 = contact_velocity(contacts, i, 1, u) / scale[i]
        velocity_2 = contact_velocity(contacts, i, 2, u) / scale[i]
        q[speed + g] = 0.0
        M[speed + g, k] = mu[i]
        for f in range(facets):
            q[first + f] = edge[0, f] * velocity_1 + edge[1, f] * velocity_2
            M[first + f, speed + g] = 1.0
            M[speed + g, first + f] = -1.0
            for m in range(normals):
                a = edge[0, f] * A[3 * k + 1, 3 * m] + edge[1, f] * A[3 * k + 2, 3 * m]
                M[first + f, m] = a
                M[m, first + f] = a
        m = 0
        for h in range(g + 1):
            while row[0, m] != row[1, h]:
                m += 1
            other = normals + h * facets
            for f in range(facets):
                to_1 = edge[0, f] * A[3 * k + 1, 3 * m + 1] + edge[1, f] * A[3 * k + 2, 3 * m + 1]
                to_2 = edge[0, f] * A[3 * k + 1, 3 * m + 2] + edge[1, f] * A[3 * k + 2, 3 * m + 2]
                for e in range(facets):
                    a = to_1 * edge[0, e] + to_2 * edge[1, e]
                    M[first + f, other + e] = a
                    M[other + e, first + f] = a
    return rows


@kernel
def solve(problem, rows, mu, p):
    """Solve the problem that was built and fill the impulses `p` [N s] of its contacts, (C, 3); returns a code.

    Contacts without rows keep what p holds. If the code is not SOLVED, p is not touched.
    """
    row, z, edge, scale = problem.row, problem.z, problem.edge, problem.scale
    facets = edge.shape[1]
    code = solve_lcp(rows, problem.M, problem.q, problem.lemke, PIVOTS_PER_ROW * rows + 10, z)
    if code != SOLVED:
        return code
    normals = problem.used[0]
    for k in range(normals):
        i = row[0, k]
        p[i, 0] = z[k] / scale[i]
        p[i, 1] = 0.0
        p[i, 2] = 0.0
    for g in range(problem.used[1]):
        i = row[1, g]
        total = 0.0
        for f in range(facets):
            beta = z[normals + g * facets + f] / scale[i]
            total += beta
            p[i, 1] += edge[0, f] * beta
            p[i, 2] += edge[1, f] * beta
        if total > mu[i] * p[i, 0]:  # by rounding
            p[i, 1] *= mu[i] * p[i, 0] / total
            p[i, 2] *= mu[i] * p[i, 0] / total
    return SOLVED


@kernel
def stewart_trinkle(problem, contacts, n, u, b_n, mu, p):
    """Resolve the contacts of one step: fill `p` [N s], (C, 3) in normal, tangent 1, tangent 2, and change `u` by it.

    Arguments are those of `build_problem`.

    Returns:
        SOLVED; or, with u and p untouched, TOO_MANY contacts for the memory, or RAY, ITERATIONS or INACCURATE as
        Lemke's method ends (INACCURATE also if numbers are not finite). Then the caller resolves the step by
        Gauss-Seidel, which always ends with impulses.
    """
    rows = build_problem(problem, contacts, n, u, b_n, mu)
    if rows < 0:
        return TOO_MANY if rows == _TOO_MANY_ROWS else INACCURATE
    code = solve(problem, rows, mu, p)
    if code != SOLVED and problem.compliance > 0.0:  # there is a solution that rounding hid: one random world in 1000
        for k in range(problem.used[0]):
            problem.M[k, k] += (_SECOND_TRY - 1.0) * problem.compliance
        code = solve(problem, rows, mu, p)
    if code != SOLVED:
        return code
    k = 0
    for i in range(n):
        if k < problem.used[0] and problem.row[0, k] == i:
            k += 1
            for d in range(3):
                apply_impulse(contacts, i, d, p[i, d], u)
        else:
            for d in range(3):
                p[i, d] = 0.0
    return SOLVED
