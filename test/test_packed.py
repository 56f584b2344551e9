"""Tuples of arrays as one argument of a kernel: what is read is what was packed, whatever it is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

from haptic_sim.packed import Packed, _pack


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


def test_how_to_pack_plain_tuples_is_kept_for_other_processes() -> None:
    """Else every process compiles it again, for seconds, before its first step."""
    arrays = (np.zeros(2), (1, 2.0), (np.zeros(1), np.zeros(1)))
    Packed(arrays)
    kind = numba.typeof(arrays)
    pack: Any = _pack
    path = pack._cache._path((kind,), pack.overloads[(kind,)].library.codegen)
    assert path is not None and path.is_file()


def test_memory_is_shared_and_kept_alive() -> None:
    values = np.zeros(3)
    one = packed(C.copy(), 0.0, values)  # the matrix has no other owner
    before = summed(one)
    values[1] = 4.0
    assert summed(one) == before + 4.0
