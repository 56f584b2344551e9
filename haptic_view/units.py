"""Readable units of numbers: the prefix of a unit by the largest value, and the number of digits."""

from __future__ import annotations

import math
import re

_PREFIXES = {"M": 1e6, "k": 1e3, "": 1.0, "m": 1e-3, "µ": 1e-6, "n": 1e-9}
_PREFIXED = re.compile(r"(m|N|J|s|W|Hz|rad|Pa)(?![A-Za-z²³^])")  # units that take a prefix, alone or before others
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_POWER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)e([+-]?\d+)(?!\w)")  # 3.2e-05
_MINUS = re.compile(r"(?<![\w.])-(?=\d)")
SHORT = 1e-2, 1e4  # numbers in between read well


def fitting(largest: float, unit: str, scale: float) -> tuple[str, float]:
    """A unit for numbers up to `largest` in SI units, and the number of these units in the SI unit.

    Args:
        largest: absolute value.
        unit: the usual one, kept where the numbers read well in it.
        scale: of the usual one.
    """
    shown = largest * scale
    if not unit or shown == 0.0 or not math.isfinite(shown) or SHORT[0] <= shown < SHORT[1]:
        return unit, scale
    if unit in ("%", "ppm") and shown < SHORT[0]:
        return "", 1.0  # a part of one is as good
    for prefix, factor in _PREFIXES.items():
        base = unit.removeprefix(prefix)
        if unit.startswith(prefix) and math.isclose(scale * factor, 1.0) and _PREFIXED.match(base):
            for other, size in _PREFIXES.items():
                if largest >= size:
                    return f"{other}{base}", 1.0 / size
            return base, 1.0  # a rounding error, say
    return unit, scale


def base(unit: str) -> str:
    """A unit without the prefix of its first part: m of mm, m/s of mm/s; empty of one that takes none."""
    for prefix in _PREFIXES:
        rest = unit.removeprefix(prefix)
        if prefix and unit.startswith(prefix) and _PREFIXED.match(rest):
            return rest
    return unit if _PREFIXED.match(unit) else ""


def text(value: float, digits: int) -> str:
    """A number with so many digits, and a power of ten where it is very small or large."""
    if not math.isfinite(value) or value == 0.0:
        return f"{value:g}"
    exponent = math.floor(math.log10(abs(value)))
    if -4 <= exponent < 7:
        shown = f"{value:#.{digits}g}".removesuffix(".") if exponent < digits else f"{value:.0f}"
        return typeset(shown)
    mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
    return typeset(f"{mantissa}·{_power(power)}")


def typeset(text: str) -> str:
    """A text in which numbers are as in print: 3.2e-05 is 3.2·10⁻⁵, 1e-5 is 10⁻⁵, and a minus is a minus sign."""
    powers = _POWER.sub(lambda found: f"{'' if found[1] == '1' else found[1] + '·'}{_power(found[2])}", text)
    return _MINUS.sub("\N{MINUS SIGN}", powers)


def _power(exponent: str) -> str:
    """A power of ten."""
    return f"10{str(int(exponent)).translate(_SUPERSCRIPT)}"
