"""The numerical floor against NumPy: random matrices, dependent rows, vanished rows."""

from __future__ import annotations

import numpy as np
import pytest

from haptic_sim.linalg import (
    backward,
    cholesky,
    cholesky_solve,
    find_span,
    forward,
    symmetric_eigen,
    to_scaled,
    to_velocity,
)

rng = np.random.default_rng(7)


def positive(n: int) -> np.ndarray:
    B = rng.normal(size=(n, n))
    return B @ B.T + 0.1 * np.eye(n)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 12])
def test_cholesky_and_triangular_solves_agree_with_numpy(n: int) -> None:
    A, L, x = positive(n), np.zeros((n, n)), rng.normal(size=n)
    assert cholesky(A, n, L)
    np.testing.assert_allclose(L @ L.T, A, rtol=1e-12, atol=1e-13)
    for solve, matrix in ((forward, L), (backward, L.T), (cholesky_solve, A)):
        y = x.copy()
        solve(L, n, y)
        np.testing.assert_allclose(matrix @ y, x, rtol=1e-9, atol=1e-10)


def test_cholesky_refuses_what_is_not_positive_definite_or_no_number() -> None:
    for A in (np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([[np.nan]]), np.zeros((1, 1))):
        assert not cholesky(A, len(A), np.zeros_like(A))


def test_blocks_are_solved_one_by_one() -> None:
    start, size, n = np.array([0, 3, 4]), np.array([3, 1, 2]), 6
    L, by_trees = np.zeros((n, n)), np.zeros((n, max(size)))
    for first, wide in zip(start, size, strict=True):
        block = slice(first, first + wide)
        L[block, block] = by_trees[block, :wide] = np.linalg.cholesky(positive(wide))
    x, y = rng.normal(size=n), np.zeros(n)
    to_velocity(by_trees, start, size, x, y)
    np.testing.assert_allclose(L.T @ y, x, atol=1e-12)
    y[:] = x
    to_scaled(by_trees, start, size, y)
    np.testing.assert_allclose(L @ y, x, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 6])
def test_symmetric_eigen_agrees_with_numpy(n: int) -> None:
    A = positive(n)
    values, vectors = np.zeros(n), np.zeros((n, n))
    symmetric_eigen(A.copy(), n, values, vectors)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(A), rtol=1e-12)
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(n), atol=1e-14)
    np.testing.assert_allclose(vectors @ A @ vectors.T, np.diag(values), atol=1e-12 * values[-1])


@pytest.mark.parametrize("n", [2, 5, 9])
@pytest.mark.parametrize("m", [1, 4, 8])
def test_span_is_orthonormal_and_spans_the_rows_that_have_not_vanished(m: int, n: int) -> None:
    independent = min(m, n, 3)
    rows = rng.normal(size=(m, independent)) @ rng.normal(size=(independent, n))
    if m > 1:
        rows[-1] = 1e-13 * rows[0]
    lengths = np.linalg.norm(rows, axis=1)
    W, scale, T, Q = rows.copy(), np.zeros(m), np.zeros((m, m)), np.zeros((m, n))
    pivot, dependent, rest = np.zeros(m, int), np.zeros(m, bool), np.zeros(m)
    rank = find_span(m, 1e-12, W, scale, T, Q, pivot, dependent, rest)
    assert rank == np.linalg.matrix_rank(rows, tol=1e-9) == m - np.count_nonzero(dependent)
    np.testing.assert_allclose(Q[:rank] @ Q[:rank].T, np.eye(rank), atol=1e-14)
    kept = slice(0, m - 1) if m > 1 else slice(0, 1)
    np.testing.assert_allclose(scale[kept], lengths[kept], rtol=1e-14)
    if m > 1:
        assert scale[-1] == 0.0 and not W[-1].any() and dependent[-1]
    np.testing.assert_allclose(T[kept, :rank] @ Q[:rank], W[kept], atol=1e-8)
    assert sorted(pivot[:rank]) == sorted(np.flatnonzero(~dependent))


def test_of_rows_that_are_equal_the_first_is_taken() -> None:
    row = rng.normal(size=3)
    rows = np.array([row * (1 + 1e-15), row, np.cross(row, [1.0, 0.0, 0.0]) * 2.0, row])
    pivot, dependent = np.zeros(4, int), np.zeros(4, bool)
    rank = find_span(4, 1e-12, rows, np.zeros(4), np.zeros((4, 4)), np.zeros((4, 3)), pivot, dependent, np.zeros(4))
    assert rank == 2 and list(pivot[:2]) == [0, 2] and list(dependent) == [False, True, False, True]
