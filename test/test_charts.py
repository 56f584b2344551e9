"""Strip charts of the view: rounding errors look like nothing, numbers can be read, hidden curves are named."""

from __future__ import annotations

import numpy as np
import pytest

from haptic_view import charts
from haptic_view.frame import CHARTS

FORCE, _, ENERGY, _ = CHARTS


def test_a_rounding_error_is_a_line_at_zero() -> None:
    noise = 1e-17 * np.sin(np.arange(100.0))
    assert charts.span_of([noise], 0.1) == (0.0, 0.1)
    assert charts.span_of([noise - 1e-16, noise], 0.1) == (0.0, 0.1)
    assert charts.span_of([np.full(3, np.nan)], 0.1) == charts.span_of([], 0.1) == (0.0, 0.1)


def test_all_values_are_within_a_range_of_at_least_the_least_span() -> None:
    rng = np.random.default_rng(20260)
    for _ in range(300):
        least = 10.0 ** rng.uniform(-3.0, 1.0)
        values = rng.normal(size=rng.integers(1, 9)) * 10.0 ** rng.uniform(-9.0, 6.0)
        low, high = charts.span_of([values], least)
        assert low - charts.NEGLIGIBLE * least <= values.min() and values.max() <= high
        assert low <= 0.0 <= high and high - low >= least * (1.0 - 1e-9)


def test_small_energies_have_a_unit_in_which_ticks_differ() -> None:
    assert charts.scale_of(ENERGY, 0.02) == ("mJ", 1e3)
    assert charts.scale_of(ENERGY, 0.2) == ("J", 1.0)
    assert charts.scale_of(FORCE, 1e-9) == ("N", 1.0)


def test_numbers_are_those_of_now_and_name_the_curve_that_lies_on_another() -> None:
    curve = np.linspace(0.0, 1.9876, 50)
    said = charts.numbers(FORCE, [curve, -curve, curve + 1e-4], (-2.0, 2.0), "N")
    assert said == [
        "on the hand 1.99 N",
        "of the operator \u22121.99 N",
        "on the tool 1.99 N (drawn over on the hand)",
    ]
    assert charts.numbers(FORCE, [curve[:0]] * 3, (0.0, 0.1), "N") == [
        "on the hand \u2013",
        "of the operator \u2013",
        "on the tool \u2013",
    ]
    assert charts.numbers(FORCE, [np.array([-1e-17])] * 3, (0.0, 0.1), "N")[0] == "on the hand 0.0000 N"


@pytest.mark.parametrize("apart", [0.02, -0.5])
def test_curves_that_can_be_told_apart_have_no_note(apart: float) -> None:
    curve = np.sin(np.arange(20.0))
    assert charts.covered([curve, curve + apart], (-1.0, 1.0)) == [None, None]
    assert charts.covered([curve, np.where(np.arange(20) < 3, np.nan, curve)], (-1.0, 1.0)) == [None, None]
