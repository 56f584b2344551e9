"""Numbers that options of commands give."""

from __future__ import annotations

from haptic_sim import inputs
from haptic_sim.parameters import ParameterError


def number(option: str, text: str | None) -> float | None:
    """A number >= 0 that an option gives, None if it gives nothing."""
    if text is None:
        return None
    try:
        value = inputs.number(text)
    except inputs.InputError as error:
        raise ParameterError([f"{option} {inputs.shown(text)}: {error}"]) from error
    if value < 0.0:
        raise ParameterError([f"{option} {inputs.shown(text)}: must be at least 0"])
    return value


def whole(option: str, text: str | None) -> int | None:
    """A whole number >= 0 that an option gives, None if it gives nothing."""
    value = number(option, text)
    if value is not None and not (value.is_integer() and value <= 999_999):
        raise ParameterError([f"{option} {text}: must be a whole number from 0 to 999999"])
    return None if value is None else int(value)
