"""Transfer functions and matrices as users write them, and verdicts as they read them."""

from __future__ import annotations

from typing import Any

import numpy as np

from haptic_control.passivity.transfer import TransferFunction, from_delays
from haptic_sim import inputs
from haptic_sim.inputs import ParameterError, shown


def describe(stable: bool, required: float | None, margin: float | None) -> str:
    """Verdict on passivity, and if it is not passive, why."""
    if not stable:
        return "not passive: the sampled loop 1 + C E is not stable"
    if required is None or margin is None:
        return "not passive: no damping of the device is enough"
    return "passive" if margin > 0.0 else f"not passive: the device lacks {-margin:.4g} N s/m of damping"


def describe_quantisation(friction: float | None, power: float | None, is_quantised: bool) -> str:
    """Effect of the quantisation of the position on the verdict."""
    if not is_quantised or friction == 0.0:
        return ""
    if friction is None:
        return "; with quantisation there is no bound"
    if power == 0.0:
        return ", also with quantisation: there is enough dry friction"
    most = "any power" if power is None else f"at most {power:.3g} W"
    return f", but for quantisation, which supplies {most}: it requires {friction:.4g} N of dry friction"


def transfer_function_of(name: str, text: str) -> TransferFunction:
    """A transfer function in z from [NUM,DEN].

    Raises:
        ParameterError: it is none; `name` is of the option.
    """
    match _list(name, text):
        case [list(numerator), list(denominator)]:
            return from_delays(_numbers(name, numerator), _numbers(name, denominator), name)
    raise ParameterError([f"{name} {shown(text)}: must be [NUM,DEN], two lists of coefficients of z^0, z^-1, ..."])


def matrix_of(name: str, text: str) -> np.ndarray:
    """A matrix from its rows, or from its diagonal.

    Raises:
        ParameterError: it is none; `name` is of the option.
    """
    value = _list(name, text)
    if all(isinstance(row, list) for row in value) and len({len(row) for row in value}) == 1:
        return np.array([_numbers(name, row) for row in value])
    return np.diag(_numbers(name, value))


def _list(name: str, text: str) -> list[Any]:
    try:
        value = inputs.read_yaml(text)
    except inputs.InputError as error:
        raise ParameterError([f"{name} {shown(text)}: must be a list of numbers, or of lists of them"]) from error
    if not isinstance(value, list) or not value:
        raise ParameterError([f"{name} {shown(text)}: must be a list of numbers, or of lists of them"])
    return value


def _numbers(name: str, values: list[Any]) -> list[float]:
    for value in values:
        if type(value) not in (int, float) or not abs(value) <= inputs.LARGEST:  # a truth value is no number
            raise ParameterError([f"{name}: {shown(value)}: must be a finite number up to {inputs.LARGEST:g}"])
    return [float(value) for value in values]
