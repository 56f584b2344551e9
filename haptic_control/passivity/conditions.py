"""The damping that a device needs to render a sampled system passively, at the worst frequency.

BROWN (8): a device with the viscous damping b renders H(z), from its position to its force, passively exactly if

    b > T/2 / (1 - cos theta) Re{(1 - z^-1) H(z)},   z = exp(j theta),   for all theta = omega T in (0, pi],

provided that H is stable. With d = 1 - z^-1 = 2j sin(theta/2) exp(-j theta/2) this is

    b > T/2 (Re H - cot(theta/2) Im H),

which has no cancellation at low frequencies.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from haptic_control.passivity.transfer import TransferFunction, poles

_UNIFORM, _SLOW, _BESIDE = 96, 24, 33  # frequencies: in (0, pi], towards 0, beside each pole
_PER_ORDER = 8  # uniform frequencies for each delay and coefficient, where that is more
_LOWEST = 1e-5  # [rad] stands for the limit at zero: the error is of the order of its square
_PEAKS = 3  # highest of the grid, each of which is refined
_STEPS = 36  # of the golden section: 0.618^36 = 3e-8 of the grid's spacing
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)


def required_damping(rendered: TransferFunction, period: float, y: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
    """The least damping of a device that renders H passively, and the frequency that needs it (BROWN 8).

    It means nothing if H is not stable.

    Args:
        rendered: H, from position [m] to force [N], one or many.
        period: T [s].
        y: poles of H, if they are known.

    Returns:
        b [N s/m] and theta = omega T [rad] in [0, pi], of each system.
    """
    where = poles(rendered.denominator) if y is None else y
    most, theta = supremum(lambda theta: damping_at(rendered, theta), where, _order(rendered))
    return 0.5 * period * most, theta


def required_damping_of_coupling(coupling: TransferFunction, period: float) -> np.ndarray:
    """The least damping that suffices for a coupling C to any discrete-time passive environment (BROWN 1).

    b > T/2 (1 - cos theta) / Re{(1 - z^-1) / C}; infinite where the real part is not positive at every frequency.

    Args:
        coupling: C, from displacement [m] to force [N], one or many.
        period: T [s].
    """
    inverse = TransferFunction(coupling.denominator, coupling.numerator)
    most, _ = supremum(lambda theta: -damping_at(inverse, theta), poles(coupling.numerator), _order(inverse))
    return np.where(most < 0.0, 0.5 * period / np.where(most < 0.0, -most, 1.0), np.inf)


def _order(rendered: TransferFunction) -> int:
    """Number of oscillations that a transfer function may have over the frequencies."""
    return rendered.delay + rendered.numerator.shape[-1] + rendered.denominator.shape[-1]


def damping_at(rendered: TransferFunction, theta: np.ndarray) -> np.ndarray:
    """Re{(1 - z^-1) H} / (1 - cos theta) at the frequencies theta (..., n)."""
    H = rendered.at(theta)
    return H.real - H.imag / np.tan(0.5 * theta)


def supremum(
    function: Callable[[np.ndarray], np.ndarray], y: np.ndarray, order: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """The largest value of functions of the frequency, by a grid that resolves their poles, then bounded search.

    Args:
        function: values (..., n) at theta (..., n) [rad].
        y: poles of the functions, as 1/(1 - z^-1) (..., m).
        order: how many times the functions may oscillate.

    Returns:
        The suprema (...,), and the frequencies theta (...,) [rad] in [0, pi] at which they are.
    """
    theta = _grid(y, max(_UNIFORM, _PER_ORDER * order))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        values = np.nan_to_num(function(theta), nan=np.inf, posinf=np.inf, neginf=-np.inf)
        low, high = _brackets(theta, values)
        inner, outer = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        at_inner, at_outer = function(inner), function(outer)
        for _ in range(_STEPS):
            left = at_inner > at_outer  # the maximum is in [low, outer]
            low, high = np.where(left, low, inner), np.where(left, outer, high)
            new = np.where(left, high - _GOLDEN * (high - low), low + _GOLDEN * (high - low))
            at_new = function(new)
            inner, outer = np.where(left, new, outer), np.where(left, inner, new)
            at_inner, at_outer = np.where(left, at_new, at_outer), np.where(left, at_inner, at_new)
    (value, worst), (refined, beside) = _highest(values, theta), _highest(np.nan_to_num(at_inner, nan=-np.inf), inner)
    better = refined > value + 1e-13 * np.abs(value)  # else the grid's own, as pi, is as good
    worst = np.where(better, beside, worst)
    return np.where(better, refined, value), np.where(worst <= _LOWEST, 0.0, worst)


def _highest(values: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest value (...,) and where it is."""
    best = np.argmax(values, axis=-1)[..., None]
    return np.take_along_axis(values, best, -1)[..., 0], np.take_along_axis(theta, best, -1)[..., 0]


def _grid(y: np.ndarray, uniform: int) -> np.ndarray:
    """Frequencies (..., n) in ascending order: uniform, towards zero, and beside each pole at multiples of its width.

    In t = cot(theta/2)/2 a pole y is a resonance at |Im y| of the width |1/2 - Re y|.
    """
    shape = y.shape[:-1]
    common = np.concatenate([np.linspace(0.0, np.pi, uniform + 1)[1:], np.geomspace(_LOWEST, 0.03, _SLOW)])
    parts = [np.broadcast_to(common, (*shape, common.size))]
    for i in range(y.shape[-1]):
        pole = np.where(np.isfinite(y[..., i]), y[..., i], 0.0)[..., None]
        width = np.abs(0.5 - pole.real) + 1e-12 * np.abs(pole)
        # conjugate poles have points of their own: none twice
        offsets = np.sinh(np.linspace(-8.0, 8.0, _BESIDE) + 0.5 * i / y.shape[-1])
        parts.append(2.0 * np.arctan2(0.5, np.abs(np.abs(pole.imag) + width * offsets)))
    return np.sort(np.concatenate(parts, axis=-1), axis=-1)


def _brackets(theta: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The neighbours of the highest local maxima of a grid (..., _PEAKS)."""
    n = theta.shape[-1]
    side = np.full((*values.shape[:-1], 1), -np.inf)
    padded = np.concatenate([side, values, side], axis=-1)
    is_peak = (values >= padded[..., :-2]) & (values >= padded[..., 2:])
    at = np.argsort(np.where(is_peak, values, -np.inf), axis=-1)[..., -_PEAKS:]
    return (
        np.take_along_axis(theta, np.maximum(at - 1, 0), -1),
        np.take_along_axis(theta, np.minimum(at + 1, n - 1), -1),
    )
