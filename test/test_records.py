"""Records of arrays: what is declared is what is made, and what help() shows."""

from typing import NamedTuple

import numba
import numpy as np
import pytest

from haptic_sim.records import allocate, array, numbers, part, record, shared, value


@record
class Inner(NamedTuple):
    """Memory of a solver."""

    x: np.ndarray = array("unknowns", "coordinates")


@record
class Outer(NamedTuple):
    """Impulses at contacts."""

    p: np.ndarray = array("impulse", "contacts", 3, unit="N s")
    id: np.ndarray = array("identity", "contacts", dtype=np.int64, fill=-1)
    inner: Inner = part(Inner, "memory")
    u: np.ndarray = shared("scaled velocity", "nv", unit="m/s")
    period: float = value("time step", unit="s")


SIZES = {"contacts": 4, "coordinates": 2}
U = np.ones(3)


def test_a_record_has_the_arrays_that_it_declares():
    made = allocate(Outer, SIZES, u=U, period=0.5)
    assert made.p.shape == (4, 3) and made.p.dtype == np.float64 and not made.p.any()
    assert made.id.tolist() == [-1] * 4 and made.id.dtype == np.int64
    assert made.inner.x.shape == (2,) and made.period == 0.5


def test_a_dimension_may_be_an_expression_and_a_part_may_have_copies():
    @record
    class Tableau(NamedTuple):
        T: np.ndarray = array("tableau", "rows", "2 * rows + 1")
        steps: tuple[Inner, Inner] = part(Inner, "of this step and of the one before", copies=2)

    made = allocate(Tableau, {"rows": 3, "coordinates": 2})
    assert made.T.shape == (3, 7)
    assert [step.x.shape for step in made.steps] == [(2,), (2,)] and made.steps[0].x is not made.steps[1].x
    assert Tableau.T.__doc__ == "tableau, (rows, 2 * rows + 1)"


def test_a_field_that_is_given_is_taken_as_it_is():
    p, inner = np.ones((2, 3)), Inner(np.ones(7))
    made = allocate(Outer, SIZES, p=p, inner=inner, u=U, period=1.0)
    assert made.p is p and made.inner is inner and made.u is U


def test_a_field_may_have_the_name_of_an_argument():
    @record
    class Constraints(NamedTuple):
        kind: np.ndarray = shared("kind of each", "constraints", dtype=np.int64)
        sizes: np.ndarray = shared("size of each", "constraints", dtype=np.int64)

    kind, sizes = np.zeros(2, np.int64), np.ones(2, np.int64)
    made = allocate(Constraints, {}, kind=kind, sizes=sizes)
    assert made.kind is kind and made.sizes is sizes


@pytest.mark.long
def test_kernels_take_a_record():
    @numba.njit
    def total(outer):
        sum_of_p = 0.0
        for i in range(outer.p.shape[0]):
            for j in range(outer.p.shape[1]):
                outer.p[i, j] += outer.period
                sum_of_p += outer.p[i, j]
        return sum_of_p + outer.inner.x.size

    assert total(allocate(Outer, SIZES, u=U, period=0.5)) == 4 * 3 * 0.5 + 2


@pytest.mark.parametrize("compiled", [True, False])
def test_elements_may_be_numbers_with_names(compiled):
    @record
    class Blocks(NamedTuple):
        block: np.ndarray = array("mobility", "contacts", dtype=numbers("mu", "rate"))

    @numba.njit
    def double(blocks):
        for i in range(blocks.block.shape[0]):
            b = blocks.block[i]
            b.rate += 2.0 * b.mu

    made = allocate(Blocks, {"contacts": 2})
    made.block["mu"] = 3.0, 4.0
    (double if compiled else double.py_func)(made)
    assert made.block["rate"].tolist() == [6.0, 8.0]
    assert Blocks.block.__doc__ == "mobility, (contacts,) of mu, rate"


@pytest.mark.parametrize(
    ("sizes", "given", "message"),
    [
        (SIZES, {"u": U}, r"Outer.period: must be given"),
        (SIZES, {"period": 1.0}, r"Outer.u: must be given"),
        ({"contacts": 4}, {"u": U, "period": 1.0}, r"Inner.x: size coordinates is missing"),
        ({"rows": 4}, {"inner": None, "u": U, "id": U, "period": 1.0}, r"Outer.p: size contacts is missing"),
        (SIZES, {"perod": 1.0}, r"Outer: perod: must be of p, id, inner, u, period"),
    ],
)
def test_what_is_missing_is_named(sizes, given, message):
    with pytest.raises(TypeError, match=message):
        allocate(Outer, sizes, **given)


def test_help_shows_shape_unit_and_meaning():
    assert Outer.p.__doc__ == "impulse, (contacts, 3) [N s]"
    assert Outer.id.__doc__ == "identity, (contacts,) int64"
    assert Outer.u.__doc__ == "scaled velocity, (nv,) [m/s]"
    assert Outer.period.__doc__ == "time step, [s]"


def test_a_field_without_declaration_is_refused():
    class Bare(NamedTuple):
        x: np.ndarray

    with pytest.raises(TypeError, match=r"Bare.x: must be declared"):
        record(Bare)
