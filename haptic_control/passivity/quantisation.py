"""Effect of a quantised position on passivity.

A position h that is rounded to the nearest multiple of the resolution is h + q with |q| <= resolution/2. A linear
world that renders H therefore adds the force H q, of which nothing is known but its largest size,

    F = ||h||_1 resolution/2,   ||h||_1 the sum of the sizes of the impulse response of H

It may act in the direction of the motion in every tick, so that viscous damping alone never makes a quantised coupling
passive. Dry friction c of the device takes c |dh| of each displacement, and F |dh| is the most that the force gives:

    passive with quantisation if b is enough without it (BROWN 8), and c >= F

For a wall without a damper ||h||_1 = K, which is K resolution/2 <= c (Abbott and Okamura 2005); with one it is
K + 2 B/T. Without friction enough, what b leaves beyond the required damping bounds the power: in a tick of the
displacement dh the most of (F - c) |dh| - (b - required) dh^2 / T is (F - c)^2 T / (4 (b - required)), so that

    power <= (F - c)^2 / (4 (b - required))

A hand that moves to and fro across one step of a wall in every tick gets (K + 2 B/T)^2 resolution^2 / (16 b)
(`dither` in `zwidth`). This energy comes in steps of the resolution, at most: limit cycles, which are felt as a buzz
and do not grow (Diolaiti, Niemeyer, Barbagli and Salisbury, IEEE T-RO 22, 2006).

The condition is sufficient. It is also necessary for a wall without a damper, as its rounding error may have any sign
at any time; a rounding error that is driven through a resonance of a mass in every tick is not known to exist.
"""

from __future__ import annotations

import math

import numpy as np

from haptic_control.passivity.transfer import TransferFunction, exchange, is_stable, poles
from haptic_sim.kernels import kernel

_DECAYED = 1e-9  # part of an impulse response that may be left out
_LONGEST = 2_000_000  # [ticks] of an impulse response


def impulse_norm(rendered: TransferFunction) -> float | None:
    """||h||_1 of one H, the largest force for a displacement of at most 1 m [N/m].

    Returns:
        None: H is not stable, or its response decays too slowly to be summed.
    """
    y = poles(rendered.denominator)
    if not bool(is_stable(y)):
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.abs(np.where(np.isfinite(y), y / (y - 1.0), 1.0))
    slowest = float(z.max(initial=0.0))
    numerator, denominator = exchange(rendered.numerator), exchange(rendered.denominator)
    ticks = numerator.size + denominator.size
    if slowest > 0.0:
        ticks += math.ceil(min(math.log(_DECAYED * (1.0 - slowest)) / math.log(slowest), float(_LONGEST)))
    if ticks >= _LONGEST:
        return None
    size = max(numerator.size, denominator.size)
    b, a = np.zeros(size + 1), np.zeros(size + 1)
    b[: numerator.size], a[: denominator.size] = numerator / denominator[0], denominator / denominator[0]
    return float(_sum_of_response(b, a, ticks))


@kernel
def _sum_of_response(b, a, ticks):
    """Sum of |h| over ticks of the impulse response of (sum b_i z^-i) / (1 + sum a_i z^-i); both end with a zero."""
    state, total = np.zeros(b.size), 0.0
    for k in range(ticks):
        x = 1.0 if k == 0 else 0.0
        y = b[0] * x + state[0]
        for i in range(b.size - 1):
            state[i] = state[i + 1] + b[i + 1] * x - a[i + 1] * y
        total += abs(y)
    return total


def required_friction(norm: float, resolution: float) -> float:
    """Dry friction with which quantisation extracts no energy [N], of ||h||_1 [N/m] and a resolution [m]."""
    return 0.5 * norm * resolution


def quantisation_power(friction: float, device_friction: float, margin: float) -> float | None:
    """The most power that quantisation can supply [W].

    Args:
        friction: required [N]; device_friction: that of the device [N].
        margin: b less the required damping [N s/m].

    Returns:
        None: there is no bound, because no damping is left.
    """
    lacking = max(0.0, friction - device_friction)
    if lacking == 0.0:
        return 0.0
    return lacking**2 / (4.0 * margin) if margin > 0.0 else None
