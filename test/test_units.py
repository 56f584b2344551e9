"""Numbers are shown in units in which they can be read."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haptic_view import units


@pytest.mark.parametrize(
    ("largest", "unit", "scale", "shown"),
    [
        (5.5511e-17, "nm", 1e9, ("m", 1.0)),
        (5.5511e-08, "mm", 1e3, ("nm", 1e9)),
        (0.00123, "mm", 1e3, ("mm", 1e3)),
        (1234.0, "mm", 1e3, ("km", 1e-3)),
        (3e-6, "N m", 1.0, ("µN m", 1e6)),
        (3e-6, "m/s", 1.0, ("µm/s", 1e6)),
        (3e-6, "m²", 1.0, ("m²", 1.0)),
        (3e-6, "%", 100.0, ("", 1.0)),
        (8.5e-14, "ppm", 1e6, ("", 1.0)),
        (3e-6, "ppm", 1e6, ("ppm", 1e6)),
        (4e4, "N/m", 1.0, ("kN/m", 1e-3)),
        (0.0, "mm", 1e3, ("mm", 1e3)),
        (3e-6, "", 1.0, ("", 1.0)),
        (math.inf, "N", 1.0, ("N", 1.0)),
    ],
)
def test_the_unit_fits_the_largest_number(largest: float, unit: str, scale: float, shown: tuple[str, float]) -> None:
    found = units.fitting(largest, unit, scale)
    assert found[0] == shown[0] and found[1] == pytest.approx(shown[1])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (5.5511e-17, "5.551·10⁻¹⁷"),
        (-0.5, "\N{MINUS SIGN}0.5000"),
        (12345.6, "12346"),
        (1e9, "1.000·10⁹"),
        (0.0, "0"),
        (math.nan, "nan"),
        (999.96, "1000"),
        (5242.0, "5242"),
    ],
)
def test_numbers_have_their_digits(value: float, shown: str) -> None:
    assert units.text(value, 4) == shown


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("to 1e-05 of the energy", "to 10⁻⁵ of the energy"),
        ("1, -1.15e-11°", "1, \N{MINUS SIGN}1.15·10⁻¹¹°"),
        ("3.25e+07", "3.25·10⁷"),
        ("THESIS 4-1, b2e-3, x.1e-3, 0xe5", "THESIS 4-1, b2e-3, x.1e-3, 0xe5"),
    ],
)
def test_numbers_in_a_text_are_as_in_print(written: str, shown: str) -> None:
    assert units.typeset(written) == shown


@given(st.floats(1e-9, 1e6), st.sampled_from([("mm", 1e3), ("m", 1.0), ("ms", 1e3), ("µJ", 1e6), ("N s", 1.0)]))
def test_what_is_shown_is_what_was_measured(value: float, usual: tuple[str, float]) -> None:
    unit, scale = units.fitting(value, *usual)
    assert 1e-2 <= value * scale < 1e4
    prefix = unit.removesuffix(usual[0].lstrip("mµ") or "m")
    assert scale == pytest.approx({"n": 1e9, "µ": 1e6, "m": 1e3, "": 1.0, "k": 1e-3, "M": 1e-6}[prefix])
