"""Tuples of arrays as one argument of a kernel: what is read is what was packed, whatever it is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

from haptic_sim.packed import Packed


class Inner(NamedTuple):
    matrix: Any
    number: Any


class Outer(NamedTuple):
    inner: Inner
    values: Any
    other: Any


@numba.njit
def summed(packed):
    a = packed.arrays
    total = a.inner.number + 0.0
    for i in range(a.inner.matrix.shape[0]):
        for j in range(a.inner.matrix.shape[1]):
            total += (1 + i + 10 * j) * a.inner.matrix[i, j]
    return total + a.values.sum() + a.other.arrays.matrix[0, 0]


def packed(matrix: np.ndarray, number: Any, values: np.ndarray) -> Packed:
    return Packed(Outer(Inner(matrix, number), values, Packed(Inner(np.full((1, 1), 0.5), 0))))


def expected(matrix: np.ndarray, number: Any, values: np.ndarray) -> float:
    i, j = np.indices(matrix.shape)
    return float(number + ((1 + i + 10 * j) * matrix).sum() + values.sum() + 0.5)


C = np.arange(6.0).reshape(2, 3)
READ_ONLY = np.arange(4.0)
READ_ONLY.flags.writeable = False
CASES = [
    (C, 1.5, np.arange(3.0)),
    (np.asfortranarray(C), 1.5, np.arange(3.0)),
    (C[:, ::2], 1.5, np.arange(3.0)),
    (C.astype(np.float32), 2, np.arange(5)),
    (C, True, np.arange(8.0)[::2]),
    (C, np.float64(0.25), READ_ONLY),
    (np.zeros((0, 3)), 7, np.zeros(0)),
    (C + 1.0, 1.5, np.arange(4.0)),  # the kind of the first again, other values
]


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("before", CASES[:3])
def test_kernels_read_what_was_packed_whatever_was_packed_before(case: Any, before: Any) -> None:
    assert summed(packed(*before)) == pytest.approx(expected(*before), abs=1e-12)
    assert summed(packed(*case)) == pytest.approx(expected(*case), abs=1e-12)


class Narrow(NamedTuple):
    flag: Any
    number: Any
    last: Any


class Pairs(NamedTuple):
    first: bool
    several: tuple[Narrow, ...]
    end: float


@numba.njit
def weighted(packed):
    a = packed.arrays
    total = 100.0 * a.end + (1000.0 if a.first else 0.0)
    for i in range(2):
        total += (i + 1) * (a.several[i].number + (0.5 if a.several[i].flag else 0.0) + 0.25 * a.several[i].last)
    return total


@pytest.mark.parametrize("number", [2.0, np.float32(2.0), np.int8(2)])
def test_members_of_several_widths_are_where_compiled_code_expects_them(number: Any) -> None:
    several = (Narrow(True, number, False), Narrow(False, number, True))
    assert weighted(Packed(Pairs(True, several, 7.0))) == 1700.0 + 2.5 + 2.0 * 2.25
    assert weighted(Packed(Pairs(False, several[::-1], 7.0))) == 700.0 + 2.25 + 2.0 * 2.5


@numba.njit
def scaled(inner, factor):
    return factor * inner.matrix[0, 0]


@numba.njit
def doubled(packed):
    return scaled(packed.arrays, 2.0)


def test_python_calls_the_version_that_kernels_call() -> None:
    one = Packed(Inner(np.full((1, 1), 1.5), 0))
    assert doubled(one) == scaled(one.arrays, 2.0) == 3.0
    assert len(scaled.signatures) == 1
    reference = Packed(Inner(np.full((1, 1), 2.5), 0)).arrays  # which keeps the Packed
    assert scaled(reference, 2.0) == scaled.py_func(reference, 2.0) == 5.0


def test_memory_is_shared_and_kept_alive() -> None:
    values = np.zeros(3)
    one = packed(C.copy(), 0.0, values)  # the matrix has no other owner
    before = summed(one)
    values[1] = 4.0
    assert summed(one) == before + 4.0
