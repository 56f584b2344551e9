"""Linear complementarity problems w = M z + q by Lemke's method: known, degenerate and unsolvable ones, and oracles."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from haptic_sim.contact.solvers.lemke import (
    PIVOTS_PER_ROW,
    LcpError,
    LemkeMemory,
    lemke,
    solve_lcp,
)
from haptic_sim.contact.solvers.outcomes import INACCURATE, ITERATIONS, RAY, SOLVED
from haptic_sim.packed import Packed
from haptic_sim.records import allocate


def solve(M: np.ndarray, q: np.ndarray, most: int | None = None) -> tuple[int, np.ndarray, int]:
    """Code, z and pivots, in memory that is larger than the problem and full of rubbish."""
    n = len(q)
    room = n + 3
    memory = Packed(allocate(LemkeMemory, {"rows": room})).arrays
    memory.T[:] = np.nan
    memory.label[:] = memory.place[:] = -999
    big, side, z = np.full((room, room), np.nan), np.full(room, np.nan), np.full(room, 77.0)
    big[:n, :n], side[:n] = M, q
    code = solve_lcp(n, big, side, memory, PIVOTS_PER_ROW * n + 10 if most is None else most, z)
    assert (z[n:] == 77.0).all()  # behind the rows in use
    return int(code), z[:n], int(memory.pivots[0])


def check(M: np.ndarray, q: np.ndarray, z: np.ndarray, tolerance: float = 1e-9) -> None:
    """z >= 0, w >= 0 and one of each pair zero, relative to the largest |q|."""
    w = M @ z + q
    scale = np.abs(q).max()
    assert (z >= 0.0).all()
    assert w.min() >= -tolerance * scale
    assert w[z > 0.0].max(initial=0.0) <= tolerance * scale


def solutions(M: np.ndarray, q: np.ndarray) -> list[np.ndarray]:
    """All solutions at nonsingular complementary bases, by trying each: an oracle for n <= 6."""
    found = []
    n = len(q)
    for basis in itertools.product((False, True), repeat=n):
        S = np.flatnonzero(basis)
        z = np.zeros(n)
        if len(S):
            block = M[np.ix_(S, S)]
            if np.linalg.cond(block) > 1e10:
                continue
            z[S] = -np.linalg.solve(block, q[S])
        scale = max(np.abs(q).max(), 1e-300)
        if z.min(initial=0.0) >= -1e-9 * max(np.abs(z).max(initial=0.0), 1.0) and (M @ z + q).min() >= -1e-9 * scale:
            found.append(z)
    return found


def complementary(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """z and w of which one is positive and the other zero, by chance."""
    active = rng.random(n) < 0.5
    return np.where(active, rng.uniform(0.1, 2.0, n), 0.0), np.where(active, 0.0, rng.uniform(0.1, 2.0, n))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13, 30, 80])
def test_a_positive_definite_problem_has_the_solution_it_was_made_from(n: int) -> None:
    rng = np.random.default_rng(20260 + n)
    for _ in range(40):
        F = rng.normal(size=(n, n))
        M = F @ F.T + 0.1 * np.eye(n)
        z, w = complementary(rng, n)
        np.testing.assert_allclose(lemke(M, w - M @ z), z, rtol=0, atol=1e-10)


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_a_p_matrix_has_one_solution_and_it_is_found(n: int) -> None:
    """Unsymmetric, with a dominant positive diagonal: all principal minors positive."""
    rng = np.random.default_rng(20270 + n)
    for _ in range(60):
        M = rng.normal(size=(n, n))
        np.fill_diagonal(M, 0.1 + np.abs(M).sum(axis=1))
        z, w = complementary(rng, n)
        np.testing.assert_allclose(lemke(M, w - M @ z), z, rtol=0, atol=1e-11)


def test_murtys_problem_takes_many_pivots_and_is_solved() -> None:
    """Murty (1978): M upper triangular with 1 on the diagonal and 2 above, q = -1: z = (0, .., 0, 1)."""
    for n in (1, 2, 5, 10):
        M = np.eye(n) + 2 * np.triu(np.ones((n, n)), 1)
        np.testing.assert_allclose(lemke(M, -np.ones(n)), np.eye(n)[-1], atol=1e-13)


@pytest.mark.parametrize(
    ("M", "q", "z"),
    [
        ([[2.0]], [-3.0], [1.5]),
        ([[2.0, 1.0], [1.0, 2.0]], [-5.0, -6.0], [4 / 3, 7 / 3]),
        ([[2.0, 1.0], [1.0, 2.0]], [-5.0, -1.0], [2.5, 0.0]),  # w2 = 1.5
        ([[0.0, -1.0], [1.0, 0.0]], [1.0, -1.0], [1.0, 1.0]),  # skew: the optimality of a linear programme
        ([[0.0, 0.0], [0.0, 1.0]], [0.0, -2.0], [0.0, 2.0]),  # a row of zeros that q satisfies with equality
        # Kostreva (1979): cycles for ever if ties are broken by the first row
        ([[1.0, 2.0, 0.0], [0.0, 1.0, 2.0], [2.0, 0.0, 1.0]], [-1.0, -1.0, -1.0], [1 / 3, 1 / 3, 1 / 3]),
    ],
)
def test_problems_solved_by_hand(M: list[list[float]], q: list[float], z: list[float]) -> None:
    np.testing.assert_allclose(lemke(np.array(M), np.array(q)), z, atol=1e-14)


@pytest.mark.parametrize("M", [np.eye(3), -np.eye(3), np.zeros((3, 3))], ids=["positive", "negative", "zero"])
def test_where_q_is_not_negative_zero_is_the_answer_without_a_pivot(M: np.ndarray) -> None:
    for q in (np.zeros(3), np.array([0.0, 1.0, 2.0])):
        code, z, pivots = solve(M, q)
        assert (code, pivots) == (SOLVED, 0)
        assert (z == 0.0).all()


def test_no_rows() -> None:
    assert lemke(np.zeros((0, 0)), np.zeros(0)).shape == (0,)


@pytest.mark.parametrize(
    ("M", "q"),
    [
        (-np.eye(1), [-1.0]),
        (-np.eye(4), [-1.0, 2.0, -0.5, -1.0]),
        (np.zeros((1, 1)), [-1.0]),
        (np.zeros((2, 2)), [1.0, -1.0]),
        (np.array([[1.0, -1.0], [-1.0, 1.0]]), [-1.0, 0.5]),  # positive semidefinite: z1 - z2 >= 1 and <= 1/2
        (np.array([[0.0, 1.0], [-1.0, 0.0]]), [-1.0, -1.0]),  # a linear programme without feasible points
    ],
)
def test_problems_without_solutions_end_on_a_ray(M: np.ndarray, q: list[float]) -> None:
    assert solutions(M, np.array(q)) == []
    code, z, _ = solve(M, np.array(q))
    assert code == RAY
    assert (z == 0.0).all()
    with pytest.raises(LcpError, match=f"on {len(q)} rows ends on a secondary ray: no solution was found") as caught:
        lemke(M, np.array(q))
    assert caught.value.code == RAY


def test_the_cap_on_pivots_ends_it() -> None:
    M, q = np.diag([1.0, 2.0, 3.0]), np.array([-1.0, -2.0, -4.0])
    code, _, pivots = solve(M, q)
    assert code == SOLVED
    assert pivots > 2
    for most in range(1, pivots):
        assert solve(M, q, most)[0] == ITERATIONS
        assert (solve(M, q, most)[1] == 0.0).all()
    assert solve(M, q, pivots)[0] == SOLVED


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_dependent_rows_of_semidefinite_problems(rank: int) -> None:
    """M = F F^T of low rank, q in its range (a solution exists): F^T z is unique, z is not; against SciPy's nnls.

    With q = F y the solution minimises 1/2 |F^T z + y|^2 over z >= 0.
    """
    rng = np.random.default_rng(20280 + rank)
    for _ in range(150):
        n = int(rng.integers(rank, 14))
        F = rng.normal(size=(n, rank))
        F = F[rng.integers(0, (n + 1) // 2, n)]  # and equal rows
        y = rng.normal(size=rank)
        z = lemke(F @ F.T, F @ y)
        check(F @ F.T, F @ y, z)
        expected = nnls(F.T, -y)[0]
        np.testing.assert_allclose(F.T @ z, F.T @ expected, rtol=0, atol=1e-9)


def test_convex_programmes_agree_with_scipys() -> None:
    """M positive definite, any q: with M = L L^T, 1/2 z^T M z + q^T z = 1/2 |L^T z + L^-1 q|^2 + const."""
    rng = np.random.default_rng(20290)
    for _ in range(100):
        n = int(rng.integers(1, 25))
        F = rng.normal(size=(n, n))
        M, q = F @ F.T + 0.01 * np.eye(n), rng.normal(size=n)
        L = np.linalg.cholesky(M)
        expected = nnls(L.T, -np.linalg.solve(L, q))[0]
        np.testing.assert_allclose(lemke(M, q), expected, rtol=0, atol=1e-7 * (1 + np.abs(expected).max()))


def copositive(rng: np.random.Generator, n: int) -> np.ndarray:
    """Semidefinite, with a non-negative and a skew part: z^T M z >= 0 for z >= 0; of whole numbers."""
    F = rng.integers(-2, 3, (n, int(rng.integers(1, n + 1))))
    N, K = rng.integers(0, 3, (n, n)) * (rng.random((n, n)) < 0.3), rng.integers(-2, 3, (n, n))
    return (F @ F.T + N + K - K.T).astype(float)


def test_against_all_complementary_bases() -> None:
    """Of whole numbers, which makes ties: what is called solved is a solution, and one of those that are if unique.

    For M with positive diagonal blocks (copositive plus) a ray must mean that there is none.
    """
    rng = np.random.default_rng(20300)
    solved = rays = unique = 0
    for case in range(500):
        n = int(rng.integers(1, 7))
        kind = case % 3
        if kind == 0:
            M = copositive(rng, n)
        elif kind == 1:
            F = rng.integers(-2, 3, (n, n))
            K = rng.integers(-2, 3, (n, n))
            M = (F @ F.T + K - K.T).astype(float)  # positive semidefinite, not symmetric
        else:
            M = rng.integers(-2, 3, (n, n)).astype(float)
        q = rng.integers(-3, 3, n).astype(float)
        code, z, _ = solve(M, q)
        found = solutions(M, q)
        assert code in (SOLVED, RAY)
        if code == SOLVED:
            solved += 1
            check(M, q, z)
            if len(found) and np.ptp(found, axis=0).max() < 1e-9 and np.linalg.matrix_rank(M) == n:
                unique += 1
                assert min(np.abs(z - one).max() for one in found) < 1e-9
        else:
            rays += 1
            if kind == 1:
                assert found == []
    assert min(solved, rays, unique) > 40


def whole_numbers(rows: int, columns: int) -> st.SearchStrategy[list[list[int]]]:
    return st.lists(st.lists(st.integers(-2, 2), min_size=columns, max_size=columns), min_size=rows, max_size=rows)


@pytest.mark.long
@settings(derandomize=True, deadline=None, max_examples=250)
@given(
    st.integers(1, 9).flatmap(
        lambda n: st.tuples(
            st.integers(1, n).flatmap(lambda m: whole_numbers(n, m)),
            whole_numbers(n, n),
            st.lists(st.integers(0, 3), min_size=n, max_size=n),
            st.integers(-200, 200),
        )
    )
)
def test_feasible_monotone_problems_are_solved(drawn: tuple[list[list[int]], list[list[int]], list[int], int]) -> None:
    """M semidefinite and q = w - M z with some z, w >= 0: solvable, whatever the ties, and at any scale of numbers."""
    F, K = np.array(drawn[0], float), np.array(drawn[1], float)
    M = F @ F.T + K - K.T
    z = np.array(drawn[2], float)
    w = z[::-1] % 2
    q = w - M @ z
    big = 2.0 ** drawn[3]
    code, found, _ = solve(big * M, q)
    assert code == SOLVED
    if q.any():
        check(big * M, q, found, 1e-9)


def test_scaled_problems_have_scaled_solutions_to_the_last_digit() -> None:
    """Powers of two do not round: M z + q with M * 2^40, q * 2^-30 gives z * 2^-70."""
    rng = np.random.default_rng(20310)
    for _ in range(50):
        F = rng.normal(size=(6, 6))
        M, q = F @ F.T, rng.normal(size=6)
        np.testing.assert_array_equal(lemke(2.0**40 * M, 2.0**-30 * q), 2.0**-70 * lemke(M, q))


def test_the_order_of_rows_does_not_matter() -> None:
    rng = np.random.default_rng(20320)
    for _ in range(50):
        n = int(rng.integers(2, 12))
        F, K = rng.normal(size=(n, n)), rng.normal(size=(n, n))
        M, q = F @ F.T + K - K.T, rng.normal(size=n)
        turn = rng.permutation(n)
        np.testing.assert_allclose(lemke(M[np.ix_(turn, turn)], q[turn]), lemke(M, q)[turn], rtol=0, atol=1e-10)


def test_ties_do_not_make_it_cycle() -> None:
    """Identity and twos at random, q = -1: strictly copositive, so solvable, and full of ties.

    Where the first of the tied rows leaves, one in ten of these cycles. In the first, the order of rows is decided by
    numbers that are zero but for rounding.
    """
    hard = np.array(
        [
            [3.0, 2.0, 0.0, 2.0, 0.0, 0.0],
            [0.0, 1.0, 2.0, 0.0, 2.0, 2.0],
            [2.0, 0.0, 1.0, 2.0, 2.0, 0.0],
            [2.0, 2.0, 2.0, 3.0, 0.0, 0.0],
            [0.0, 2.0, 2.0, 2.0, 1.0, 0.0],
            [0.0, 2.0, 2.0, 2.0, 2.0, 1.0],
        ]
    )
    check(hard, -np.ones(6), lemke(hard, -np.ones(6)))
    assert solve(hard, -np.ones(6))[2] == 18  # as with fractions
    rng = np.random.default_rng(20340)
    for _ in range(1000):
        n = int(rng.integers(2, 9))
        M = np.eye(n) + 2.0 * rng.integers(0, 2, (n, n))
        check(M, -np.ones(n), lemke(M, -np.ones(n)))


def test_the_solution_does_not_carry_the_rounding_of_the_pivots() -> None:
    """With conditions up to 1e6, residuals are at most two last digits of the largest sum of terms."""
    rng = np.random.default_rng(20350)
    for _ in range(40):
        n = int(rng.integers(10, 60))
        Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
        M = Q * 10.0 ** rng.uniform(-6, 0, n) @ Q.T
        z, w = complementary(rng, n)
        q = w - M @ z
        found = lemke(M, q)
        residual = np.abs(M @ found + q)[found > 0.0].max()
        assert residual <= 2 * 2.2e-16 * (np.abs(M) @ found + np.abs(q)).max()


def test_what_rounding_spoils_is_not_called_solved() -> None:
    """Rows that push against each other at a small angle: z = 1/(1 - cos), so M's own last digits move w by 1e-16 z."""
    for angle, expected in ((1e-2, SOLVED), (1e-4, INACCURATE)):
        M = np.array([[1.0, -math.cos(angle)], [-math.cos(angle), 1.0]])
        code, z, _ = solve(M, -np.ones(2))
        assert code == expected
        np.testing.assert_allclose(z, 0.5 / math.sin(angle / 2) ** 2 if code == SOLVED else 0.0, rtol=1e-11)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_are_refused_and_never_given_back(bad: float) -> None:
    M, q = np.eye(3), -np.ones(3)
    for where in ("M", "q"):
        N, r = M.copy(), q.copy()
        (N if where == "M" else r).flat[-1] = bad
        with pytest.raises(ValueError, match=f"{where} has {bad}: must be finite"):
            lemke(N, r)
        code, z, _ = solve(N, r)
        assert code == INACCURATE
        assert (z == 0.0).all()


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match=r"shapes \(2, 3\) and \(2,\): must be \(n, n\) and \(n,\)"):
        lemke(np.zeros((2, 3)), np.zeros(2))


def test_the_kernel_is_its_python_and_compiles_once() -> None:
    rng = np.random.default_rng(20330)
    lemke(np.eye(5), np.ones(5))
    count = len(solve_lcp.signatures)
    for _ in range(5):
        F = rng.normal(size=(5, 5))
        M, q = F @ F.T, rng.normal(size=5)
        memory, z = Packed(allocate(LemkeMemory, {"rows": 5})).arrays, np.zeros(5)
        assert solve_lcp.py_func(5, M, q, memory, 100, z) == SOLVED
        np.testing.assert_allclose(z, lemke(M, q), rtol=1e-12)
    assert len(solve_lcp.signatures) == count
