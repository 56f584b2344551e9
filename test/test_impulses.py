"""Simultaneous collisions: THESIS 4.4 and appendix A, passive and without pulling, over random problems.

A problem is an inertia D, a Jacobian J of normal velocities, a velocity v before and restitutions e; impulses
p give v' = v + D^-1 J^T p. With A = J D^-1 J^T, b = J v and c = (1 + e) b the non-pulling ones are those of
    0 <= p  complementary to  A p + c >= 0.
Contacts whose rows differ by less than 1e-5 of their length count as dependent (RANK_TOLERANCE, of squares),
so that velocities of nearly dependent contacts are right to about that part, energies to its square.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.registry import CPUDispatcher
from scipy.optimize import nnls

from haptic_sim.contact.solvers import impulses
from haptic_sim.contact.solvers.impulses import (
    ImpulseMemory,
    cholesky,
    cholesky_solve,
    resolve_collisions,
)
from haptic_sim.contact.solvers.outcomes import NON_PULLING, NOT_CONVERGED, SOLVED
from haptic_sim.packed import Packed
from haptic_sim.records import allocate


@dataclass
class Problem:
    D: np.ndarray
    J: np.ndarray
    v: np.ndarray
    e: np.ndarray

    @property
    def b(self) -> np.ndarray:
        return self.J @ self.v

    @property
    def c(self) -> np.ndarray:
        return (1 + self.e) * self.b

    @property
    def A(self) -> np.ndarray:
        return self.J @ np.linalg.solve(self.D, self.J.T)

    def after(self, p: np.ndarray) -> np.ndarray:
        """Velocity after the impulses."""
        return self.v + np.linalg.solve(self.D, self.J.T @ p)

    def energy(self, v: np.ndarray) -> float:
        return float(0.5 * v @ self.D @ v)

    def gain(self, p: np.ndarray) -> float:
        """Change of kinetic energy, as a part of the energy before."""
        return (self.energy(self.after(p)) - self.energy(self.v)) / self.energy(self.v)


def resolve(
    problem: Problem, kernel: Callable[..., int] = resolve_collisions, capacity: int = 0
) -> tuple[int, np.ndarray]:
    n, nv = problem.J.shape
    room = max(capacity, n + 1)
    b, e, p = np.full(room, np.nan), np.full(room, np.nan), np.full(room, 77.0)
    b[:n], e[:n] = problem.b, problem.e
    memory = Packed(allocate(ImpulseMemory, {"contacts": room, "nv": nv})).arrays
    W = np.full((room, nv), np.nan)
    W[:n] = np.linalg.solve(np.linalg.cholesky(problem.D), problem.J.T).T
    code = kernel(n, W, b, e, memory, p)
    assert (p[n:] == 77.0).all()  # behind the contacts in use
    return int(code), p[:n].copy()


def random_inertia(rng: np.random.Generator, nv: int, decades: float = 2.0) -> np.ndarray:
    """Principal values over so many decades, in random axes."""
    Q = np.linalg.qr(rng.normal(size=(nv, nv)))[0]
    D = Q * 10.0 ** rng.uniform(-decades / 2, decades / 2, nv) @ Q.T
    return 0.5 * (D + D.T)


def approaching(rng: np.random.Generator, D: np.ndarray, J: np.ndarray, e: str) -> Problem:
    """The rows turned so that all points approach."""
    v = rng.normal(size=D.shape[0])
    b = J @ v
    J = J[np.abs(b) > 1e-9 * np.abs(J) @ np.abs(v)]
    J = -J * np.sign(J @ v)[:, None]
    n = len(J)
    each = {
        "zero": np.zeros(n),
        "one": np.ones(n),
        "same": np.full(n, rng.uniform()),
        "each": rng.uniform(size=n),
        "extreme": rng.integers(0, 2, n).astype(float),
    }[e]
    return Problem(D, J, v, each)


RESTITUTIONS = ["zero", "one", "same", "each", "extreme"]


def full_rank(rng: np.random.Generator, n: int, nv: int) -> np.ndarray:
    return rng.normal(size=(n, nv))


def low_rank(rng: np.random.Generator, n: int, nv: int) -> np.ndarray:
    rank = rng.integers(1, nv + 1)
    return rng.normal(size=(n, rank)) @ rng.normal(size=(rank, nv))


def duplicates(rng: np.random.Generator, n: int, nv: int) -> np.ndarray:
    return rng.normal(size=(n, nv))[rng.integers(0, (n + 1) // 2, n)]


def nearly_dependent(rng: np.random.Generator, n: int, nv: int) -> np.ndarray:
    return duplicates(rng, n, nv) + 10.0 ** rng.uniform(-12, -2) * rng.normal(size=(n, nv))


def points_on_a_body(rng: np.random.Generator, n: int, nv: int) -> np.ndarray:
    """Unit normals with lever arms of 0.1 m, in the plane: what contacts of a rigid body give."""
    angle, lever = rng.uniform(-np.pi, np.pi, n), rng.uniform(-0.1, 0.1, n)
    return np.column_stack([np.cos(angle), np.sin(angle), lever])


JACOBIANS = [full_rank, low_rank, duplicates, nearly_dependent, points_on_a_body]


def problems(
    seed: int, count: int, make: Callable[..., np.ndarray], e: str, contacts: int = 12, decades: float = 2.0
) -> Iterator[Problem]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        nv = 3 if make is points_on_a_body else int(rng.integers(1, 7))
        J = make(rng, int(rng.integers(1, contacts + 1)), nv)
        problem = approaching(rng, random_inertia(rng, nv, decades), J, e)
        if len(problem.J):
            yield problem


def independent_problem(rng: np.random.Generator, e: float) -> Problem:
    """Independent contacts that approach, and whose impulses by Newton's law push (p is chosen, then v)."""
    while True:
        nv = int(rng.integers(2, 7))
        n = int(rng.integers(1, nv + 1))
        D, J = random_inertia(rng, nv), rng.normal(size=(n, nv))
        p = rng.uniform(0.1, 1.0, n)
        b = -J @ np.linalg.solve(D, J.T @ p) / (1 + e)
        if (b < -1e-2 * np.abs(b).max()).all():
            v = np.linalg.lstsq(J, b, rcond=None)[0]
            v += (np.eye(nv) - np.linalg.pinv(J) @ J) @ rng.normal(size=nv)  # and any motion along the contacts
            return Problem(D, J, v, np.full(n, e))


@pytest.mark.parametrize("e", [0.0, 0.3, 1.0])
def test_one_contact_is_newtons_law(e: float) -> None:
    """A peg that hits with a point at lever arm r: p = -(1 + e) v_n / (1/m + r^2/I)."""
    m, inertia, r, v = 2.0, 0.005, 0.013, np.array([0.4, -0.3, 2.0])
    J = np.array([[-0.6, 0.8, r]])
    v_n = -0.6 * 0.4 - 0.8 * 0.3 + r * 2.0
    code, p = resolve(Problem(np.diag([m, m, inertia]), J, v, np.array([e])))
    assert code == SOLVED
    assert p[0] == pytest.approx(-(1 + e) * v_n / (1 / m + r**2 / inertia), rel=1e-14)


@pytest.mark.parametrize("e", [0.0, 0.4, 1.0])
def test_a_face_shares_the_impulse_between_its_ends(e: float) -> None:
    """Two points at r = +-0.01 m, pure approach: half of (1 + e) m v each, and no spin."""
    J = np.array([[-1.0, 0.0, 0.01], [-1.0, 0.0, -0.01]])
    problem = Problem(np.diag([2.0, 2.0, 0.005]), J, np.array([0.1, -0.2, 0.0]), np.full(2, e))
    code, p = resolve(problem)
    assert code == SOLVED
    np.testing.assert_allclose(p, 0.5 * (1 + e) * 2.0 * 0.1, rtol=1e-13)
    np.testing.assert_allclose(problem.after(p), [-e * 0.1, -0.2, 0.0], rtol=0, atol=1e-14)


@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
def test_independent_contacts_obey_newtons_law_together(e: float) -> None:
    rng = np.random.default_rng(20260)
    for _ in range(200):
        problem = independent_problem(rng, e)
        code, p = resolve(problem)
        assert code == SOLVED
        np.testing.assert_allclose(p, -np.linalg.solve(problem.A, problem.c), rtol=1e-8)
        after = problem.J @ problem.after(p)
        np.testing.assert_allclose(after, -e * problem.b, rtol=0, atol=1e-10 * np.abs(problem.b).max())


@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
def test_overdetermined_contacts_equal_their_independent_subset(e: float) -> None:
    """THESIS (A.1): J_c^T (J_c D^-1 J_c^T)^+ J_c = J_n^T (J_n D^-1 J_n^T)^-1 J_n, J_n independent rows."""
    rng = np.random.default_rng(20261)
    codes = []
    for _ in range(300):
        subset = independent_problem(rng, e)
        dependent = rng.uniform(0.0, 1.0, (int(rng.integers(1, 9)), len(subset.J)))  # sums of rows approach, too
        J = np.vstack([subset.J, dependent @ subset.J])
        J = J[rng.permutation(len(J))]
        problem = Problem(subset.D, J, subset.v, np.full(len(J), e))
        code, p = resolve(problem)
        p_n = -(1 + e) * np.linalg.solve(subset.A, subset.b)
        momentum = subset.J.T @ p_n
        scale = np.abs(momentum).max()
        np.testing.assert_allclose(J.T @ p, momentum, rtol=0, atol=1e-9 * scale)
        np.testing.assert_allclose(problem.after(p), subset.after(p_n), rtol=0, atol=1e-9 * np.abs(subset.v).max())
        if code == SOLVED:  # of all impulses with that momentum, the smallest: the pseudo-inverse
            expected = -np.linalg.pinv(problem.A, rcond=1e-10) @ problem.c
            np.testing.assert_allclose(p, expected, rtol=0, atol=1e-7 * np.abs(p).max())
        codes.append(code)
    assert codes.count(SOLVED) > 50
    assert codes.count(NON_PULLING) > 10  # where the pseudo-inverse pulls, the sum is the same all the same


@pytest.mark.parametrize("e", RESTITUTIONS)
@pytest.mark.parametrize("make", JACOBIANS)
def test_energy_never_increases(make: Callable[..., np.ndarray], e: str) -> None:
    """Neither by the impulses nor by any part of them (THESIS 4.5.2: scaled to what a device can render)."""
    for problem in problems(20262, 120, make, e):
        _, p = resolve(problem)
        assert np.isfinite(p).all()
        assert (p >= 0.0).all()
        for part in (1.0, 0.9, 0.5, 0.1):
            assert problem.gain(part * p) <= 1e-8


def round_numbers(least: int, most: int) -> st.SearchStrategy[float]:
    return st.integers(least, most).map(lambda i: i / 10)


@pytest.mark.long
@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    st.integers(1, 4).flatmap(
        lambda nv: st.tuples(
            st.lists(round_numbers(1, 100), min_size=nv, max_size=nv),
            st.lists(round_numbers(-20, 20), min_size=nv, max_size=nv),
            st.lists(st.lists(round_numbers(-10, 10), min_size=nv, max_size=nv), min_size=1, max_size=7),
            st.floats(0.0, 1.0),
        )
    )
)
def test_energy_never_increases_whatever_the_numbers(
    drawn: tuple[list[float], list[float], list[list[float]], float],
) -> None:
    """Zeros, repeated, opposite and exactly dependent rows, which random reals do not meet."""
    masses, v, rows, e = (np.array(x) for x in drawn)
    J = rows[rows @ v < 0.0]
    if not len(J):
        return
    problem = Problem(np.diag(masses), J, v, np.full(len(J), float(e)))
    code, p = resolve(problem)
    assert code != NOT_CONVERGED
    assert (p >= 0.0).all()
    for part in (1.0, 0.5):
        assert problem.energy(problem.after(part * p)) <= problem.energy(v) * (1 + 1e-10)


@pytest.mark.parametrize("e", [0.0, 0.3, 0.8, 1.0])
def test_energy_lost_is_that_of_the_theorem_with_its_half(e: float) -> None:
    """KE0 - KE = 1/2 (1 - e^2) v^T J^T (J D^-1 J^T)^-1 J v, THESIS (4.27, 4.33) with the factor restored."""
    rng = np.random.default_rng(20263)
    for _ in range(100):
        problem = independent_problem(rng, e)
        code, p = resolve(problem)
        assert code == SOLVED
        lost = 0.5 * (1 - e**2) * problem.b @ np.linalg.solve(problem.A, problem.b)
        energy = problem.energy(problem.v)
        assert energy - problem.energy(problem.after(p)) == pytest.approx(lost, rel=1e-8, abs=1e-10 * energy)


def test_elastic_contacts_keep_the_energy_and_plastic_ones_lose_that_of_the_approach() -> None:
    J = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    v = np.array([-0.3, -0.4, 5.0])
    for e, energy in ((1.0, 0.25 + 0.0625), (0.0, 0.0625), (0.5, 0.25 / 4 + 0.0625)):
        problem = Problem(np.diag([2.0, 2.0, 0.005]), J, v, np.full(2, e))
        assert problem.energy(problem.after(resolve(problem)[1])) == pytest.approx(energy, rel=1e-14)


def non_pulling_velocity(problem: Problem) -> np.ndarray:
    """Velocity after the complementary impulses, by trying every independent subset of contacts."""
    A, c = problem.A, problem.c
    scale, best, least = np.abs(c).max(), None, np.inf
    for size in range(1, min(len(c), len(problem.v)) + 1):
        for subset in itertools.combinations(range(len(c)), size):
            S = list(subset)
            if np.linalg.cond(A[np.ix_(S, S)]) > 1e9:
                continue
            p = np.zeros(len(c))
            p[S] = -np.linalg.solve(A[np.ix_(S, S)], c[S])
            breach = max(-p.min() / max(p.max(), 1e-300), -(A @ p + c).min() / scale)
            if breach < least:
                best, least = p, breach
    assert best is not None
    assert least < 1e-7
    return problem.after(best)


@pytest.mark.parametrize("e", RESTITUTIONS)
def test_the_non_pulling_resolution_is_the_complementary_one(e: str) -> None:
    pulled = 0
    for problem in problems(20264, 250, full_rank, e, contacts=6):
        code, p = resolve(problem)
        pseudo = -np.linalg.pinv(problem.A, rcond=1e-10) @ problem.c
        if pseudo.min() > -1e-9 * np.abs(pseudo).max():
            assert code == SOLVED
            continue
        pulled += 1
        assert code == NON_PULLING
        expected = non_pulling_velocity(problem)
        np.testing.assert_allclose(problem.after(p), expected, rtol=0, atol=1e-7 * np.abs(problem.v).max())
    assert pulled > 50


@pytest.mark.parametrize("e", ["zero", "one", "same"])
@pytest.mark.parametrize("make", JACOBIANS)
def test_the_non_pulling_resolution_is_scipys(make: Callable[..., np.ndarray], e: str) -> None:
    """With one restitution, 1/2 p^T A p + c^T p = 1/2 |W^T p + (1 + e) L^T v|^2 - const, W = J L^-T: nnls."""
    compared = 0
    for problem in problems(20265, 200, make, e):
        code, p = resolve(problem)
        if code == SOLVED:
            continue
        assert code == NON_PULLING
        L = np.linalg.cholesky(problem.D)
        W = np.linalg.solve(L, problem.J.T)
        expected = problem.after(nnls(W, -(1 + problem.e[0]) * (L.T @ problem.v))[0])
        residual = L.T @ (problem.after(p) - expected)  # in the metric of the energy
        assert np.linalg.norm(residual) <= 1e-4 * np.linalg.norm(L.T @ problem.v)
        compared += 1
    assert compared > 20


@pytest.mark.parametrize("e", RESTITUTIONS)
@pytest.mark.parametrize("make", JACOBIANS)
def test_every_resolution_is_reached_and_no_point_is_held_back(make: Callable[..., np.ndarray], e: str) -> None:
    """p >= 0, A p + c >= 0 and their product zero, where a contact would pull."""
    for problem in problems(20266, 120, make, e):
        code, p = resolve(problem)
        assert code != NOT_CONVERGED
        assert (p >= 0.0).all()
        if code == NON_PULLING:
            slack, scale = problem.A @ p + problem.c, np.abs(problem.c).max()
            assert slack.min() >= -1e-4 * scale
            assert np.abs(slack * p).max() <= 1e-4 * scale * p.max()


def test_a_lever_that_would_be_held_back_leaves_faster() -> None:
    """A rod meets two points on the same side of its centre: the nearer would pull, so it has no impulse.

    m = I = 1, points at r1 = 1 and r2 = 3, v = -1, e = 0. Newton's law at both stops the rod: p1 + p2 = 1
    and p1 + 3 p2 = -w. With w = -2, p = (1/2, 1/2). With w = -5, p = (-1, 2) pulls at the nearer one: alone,
    the farther has p2 = 16 / (1 + 9), and then v' = 0.6, w' = -0.2: the nearer leaves at 0.4.
    """
    J = np.array([[1.0, 1.0], [1.0, 3.0]])
    for w, code, expected in (
        (-2.0, SOLVED, (0.5, 0.5)),
        (-5.0, NON_PULLING, (0.0, 1.6)),
    ):
        problem = Problem(np.eye(2), J, np.array([-1.0, w]), np.zeros(2))
        found, p = resolve(problem)
        assert found == code
        np.testing.assert_allclose(p, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(J @ problem.after(p), [0.4, 0.0], rtol=0, atol=1e-14)


@pytest.mark.parametrize("e", ["same", "each"])
@pytest.mark.parametrize("make", JACOBIANS)
def test_the_order_of_contacts_does_not_matter(make: Callable[..., np.ndarray], e: str) -> None:
    rng = np.random.default_rng(20267)
    for problem in problems(20267, 100, make, e, contacts=8):
        code, p = resolve(problem)
        turn = rng.permutation(len(p))
        other_code, q = resolve(Problem(problem.D, problem.J[turn], problem.v, problem.e[turn]))
        assert other_code == code
        L = np.linalg.cholesky(problem.D)
        difference = L.T @ (problem.after(p) - problem.after(problem_order(q, turn)))
        assert np.linalg.norm(difference) <= 1e-4 * np.linalg.norm(L.T @ problem.v)


def problem_order(q: np.ndarray, turn: np.ndarray) -> np.ndarray:
    p = np.empty_like(q)
    p[turn] = q
    return p


def test_impulses_do_not_depend_on_the_frame() -> None:
    """Turned by 0.7 rad about a generic axis: D' = R D R^T, J' = J R^T, v' = R v give the same impulses."""
    from scipy.spatial.transform import Rotation

    axis = np.array([0.3, -0.5, 0.8])
    R = Rotation.from_rotvec(0.7 * axis / np.linalg.norm(axis)).as_matrix()
    rng = np.random.default_rng(20268)
    for _ in range(200):
        problem = approaching(rng, random_inertia(rng, 3), rng.normal(size=(int(rng.integers(1, 4)), 3)), "same")
        turned = Problem(R @ problem.D @ R.T, problem.J @ R.T, R @ problem.v, problem.e)
        (code, p), (other, q) = resolve(problem), resolve(turned)
        assert code == other
        np.testing.assert_allclose(q, p, rtol=0, atol=1e-8 * np.abs(p).max())


def test_impulses_scale_with_inertia_and_velocity() -> None:
    for problem in problems(20269, 100, full_rank, "same", contacts=4):
        code, p = resolve(problem)
        bigger = Problem(1000 * problem.D, problem.J, 0.01 * problem.v, problem.e)
        other, q = resolve(bigger)
        assert code == other
        np.testing.assert_allclose(q, 10 * p, rtol=0, atol=1e-8 * np.abs(q).max())


def check_sound(problem: Problem, tolerance: float) -> None:
    code, p = resolve(problem)
    assert code != NOT_CONVERGED
    assert np.isfinite(p).all()
    assert (p >= 0.0).all()
    assert problem.gain(p) <= 1e-9
    slack, scale = problem.A @ p + problem.c, np.abs(problem.c).max()
    if code == NON_PULLING:
        assert slack.min() >= -tolerance * scale


@pytest.mark.parametrize("e", ["zero", "one", "same"])
@pytest.mark.parametrize("make", JACOBIANS)
def test_mass_ratios_of_a_million(make: Callable[..., np.ndarray], e: str) -> None:
    for problem in problems(20270, 60, make, e, decades=6.0):
        check_sound(problem, 1e-2)  # a row's length varies by 1e3 here, and so does what 1e-5 of the longest is


@pytest.mark.parametrize("e", ["zero", "one", "same"])
def test_sixty_contacts_on_three_degrees_of_freedom(e: str) -> None:
    rng = np.random.default_rng(20271)
    for _ in range(60):
        D = np.diag([2.0, 2.0, 10.0 ** rng.uniform(-6, 0)])
        check_sound(approaching(rng, D, points_on_a_body(rng, 60, 3), e), 1e-4)


@pytest.mark.parametrize("e", [0.0, 1.0])
@pytest.mark.parametrize("copies", [2, 7, 60])
def test_copies_of_a_contact_act_as_one(copies: int, e: float) -> None:
    one = Problem(np.diag([2.0, 2.0, 0.005]), np.array([[-1.0, 0, 0.013]]), np.array([0.2, 0.1, -1.0]), np.array([e]))
    many = Problem(one.D, np.repeat(one.J, copies, axis=0), one.v, np.full(copies, e))
    code, p = resolve(many)
    assert code == SOLVED
    np.testing.assert_allclose(p, resolve(one)[1][0] / copies, rtol=1e-12)


@pytest.mark.parametrize("gap", [1e-3, 1e-5, 1e-7, 1e-9, 1e-12])
def test_nearly_equal_contacts(gap: float) -> None:
    """Two points of a face a hair apart: together they take the momentum of one."""
    J = np.array([[-1.0, 0.0, 0.01], [-1.0, 0.0, 0.01 + gap]])
    problem = Problem(np.diag([2.0, 2.0, 0.005]), J, np.array([0.1, 0.0, 0.0]), np.zeros(2))
    code, p = resolve(problem)
    assert code in (SOLVED, NON_PULLING)
    assert (p >= 0).all()
    assert p.sum() == pytest.approx(0.1 / (1 / 2.0 + 0.01**2 / 0.005), rel=max(1e-6, 10 * gap))
    assert problem.gain(p) <= 1e-12


def test_rows_that_cannot_move_get_no_impulse() -> None:
    """A zero row has no velocity: it neither divides by zero nor takes part."""
    J = np.array([[0.0, 0.0], [-1.0, 0.0]])
    problem = Problem(np.eye(2), J, np.array([1.0, 0.0]), np.zeros(2))
    code, p = resolve(problem)
    assert code == SOLVED
    np.testing.assert_allclose(p, [0.0, 1.0], rtol=1e-15)
    code, p = resolve(Problem(np.eye(2), J[:1], np.array([1.0, 0.0]), np.zeros(1)))
    assert (code, p.tolist()) == (SOLVED, [0.0])


@pytest.mark.parametrize("where", ["J", "v"])
def test_not_a_number_ends(where: str) -> None:
    """Nothing sensible can come out, but it must come out."""
    problem = Problem(np.eye(3), np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.2]]), np.array([-1.0, -2.0, 0.3]), np.ones(2))
    getattr(problem, where).flat[1] = np.nan
    assert resolve(problem)[0] in (SOLVED, NON_PULLING, NOT_CONVERGED)


def test_cholesky_against_numpy() -> None:
    rng = np.random.default_rng(20272)
    for n in range(1, 8):
        A, x = random_inertia(rng, n), rng.normal(size=n)
        L = np.zeros((n, n))
        assert cholesky(A, n, L)
        np.testing.assert_allclose(L, np.linalg.cholesky(A), rtol=1e-12, atol=1e-14)
        y = x.copy()
        cholesky_solve(L, n, y)
        np.testing.assert_allclose(y, np.linalg.solve(A, x), rtol=1e-9)
        inside = A.copy()
        assert cholesky(inside, n, inside)
        np.testing.assert_array_equal(np.tril(inside), L)


@pytest.mark.parametrize("A", [[[0.0]], [[-1.0]], [[1.0, 2.0], [2.0, 1.0]], [[np.nan]]])
def test_cholesky_refuses_what_is_not_positive(A: list[list[float]]) -> None:
    assert not cholesky(np.array(A), len(A), np.zeros((len(A), len(A))))


def test_kernels_are_their_python_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled and interpreted, all the way down, to the rounding of fused operations."""
    compiled = [
        (problem, resolve(problem))
        for make in JACOBIANS
        for e in ("same", "each")
        for problem in problems(20273, 8, make, e, contacts=6)
    ]
    for name, kernel in vars(impulses).items():
        if isinstance(kernel, CPUDispatcher):
            monkeypatch.setattr(impulses, name, kernel.py_func)
    for problem, (code, p) in compiled:
        other, q = resolve(problem, impulses.resolve_collisions)
        assert other == code
        np.testing.assert_allclose(problem.after(q), problem.after(p), rtol=0, atol=1e-7 * np.abs(problem.v).max())


def test_nothing_is_compiled_again() -> None:
    rng = np.random.default_rng(20274)
    resolve(approaching(rng, np.eye(3), rng.normal(size=(4, 3)), "same"))
    kernels = [kernel for kernel in vars(impulses).values() if isinstance(kernel, CPUDispatcher)]
    before = [len(kernel.signatures) for kernel in kernels]
    for nv in range(1, 7):
        for n in (1, 5, 40):
            resolve(approaching(rng, np.eye(nv), rng.normal(size=(n, nv)), "each"), capacity=64)
    assert [len(kernel.signatures) for kernel in kernels] == before
    assert kernels
