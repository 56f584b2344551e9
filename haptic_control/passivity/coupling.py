"""BROWN's virtual coupling: a spring and damper between the device and a wall, or a point mass that is integrated.

    C(z) = K + B/T (1 - z^-1),   E(z) = T^2/m g(z),   H = C / (1 + C E),

with the integrators g of Table 1 (errata 1): explicit Euler for the velocity throughout, and for the position

    1  x_k = x_(k-1) + T v_(k-1)              g = z^-2 / (1 - z^-1)^2
    2  x_k = x_(k-1) + T v_k                  g = z^-1 / (1 - z^-1)^2
    3  x_k = x_(k-1) + T (v_(k-1) + v_k)/2    g = z^-1 (1 + z^-1) / (2 (1 - z^-1)^2)

BROWN's parameters are alpha = K T^2/m (15) and beta = B/(K T) (11). Here the coupling is divided by K + B/T instead, so
that there may be a damper without a spring: kappa = K T/(K T + B) = 1/(1 + beta) in [0, 1], and
a = (K T^2 + B T)/m = alpha (1 + beta).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import AfterValidator

from haptic_control.passivity import quantisation
from haptic_control.passivity.conditions import required_damping
from haptic_control.passivity.transfer import DELAY, TransferFunction, feedback, is_stable, multiply, poles
from haptic_sim.parameters import Parameters, quantity

INTEGRATORS = {
    1: multiply(DELAY, DELAY),
    2: DELAY,
    3: 0.5 * multiply(DELAY, np.array([2.0, -1.0])),
}
"""Numerators of g in powers of d = 1 - z^-1; the denominator is d^2."""

_AT_MOST = 1.0 + 1e-10  # a ratio that counts as 1: rounding errors are smaller
_UNBOUNDED = 1e12  # a ratio beyond is at a pole on the unit circle
SCAN = np.geomspace(1e-6, 64.0, 160)  # a, of which the smallest stands for all below
_PARTS, _ROUNDS = 24, 6  # of a search between two values of the scan: to 1e-10 of it
_CHUNK = 1000  # systems at a time: their frequencies fit into the cache


def _ascending(grid: tuple[float, float, int]) -> tuple[float, float, int]:
    low, high, n = grid
    if not 0.0 <= low < high:
        raise ValueError(f"from {low:g} to {high:g}: must ascend from 0 or more")
    if not 2 <= n <= 2000:
        raise ValueError(f"has {n} values: must have 2 to 2000")
    return grid


Grid = Annotated[tuple[float, float, int], AfterValidator(_ascending)]


class CouplingParameters(Parameters):
    """A coupling, the mass behind it, and the device that renders it."""

    stiffness: float = quantity(unit="N/m", description="Stiffness K of the virtual coupling", ge=0.0)
    damping: float = quantity(unit="N s/m", description="Damping B of the virtual coupling", ge=0.0)
    rate: float = quantity(unit="Hz", description="Servo rate, 1/T", gt=0.0)
    device_damping: float = quantity(unit="N s/m", description="Viscous damping b of the device itself", ge=0.0)
    mass: float | None = quantity(
        None, unit="kg", description="Mass m behind the coupling; without it a virtual wall", gt=0.0
    )
    integrator: int = quantity(3, description="Integrator of the mass, the method of BROWN Table 1", ge=1, le=3)
    delay: int = quantity(
        0, unit="ticks", description="Delay of the force, beyond the tick for which it is held", ge=0, le=1000
    )
    resolution: float = quantity(
        0.0, unit="m", description="Resolution of the measured position; 0: it is continuous", ge=0.0
    )
    device_friction: float = quantity(0.0, unit="N", description="Dry friction of the device itself", ge=0.0)


class MapParameters(Parameters):
    """A grid of alpha and beta: lowest and highest value, and their number."""

    alpha: Grid = quantity((0.004, 0.8, 200), description="Lowest and highest K T^2/m, and the number of values")
    beta: Grid = quantity((0.0, 4.0, 200), description="Lowest and highest B/(K T), and the number of values")
    integrator: int = quantity(3, description="Integrator of the mass, the method of BROWN Table 1", ge=1, le=3)
    delay: int = quantity(0, unit="ticks", description="Delay of the force", ge=0, le=1000)

    def grid(self) -> tuple[np.ndarray, np.ndarray]:
        """Values of alpha (n,) and beta (m,)."""
        return np.linspace(*self.alpha), np.linspace(*self.beta)


class Analysis(NamedTuple):
    """Result of `analyse`; None where a value does not exist or has no bound.

    Attributes:
        alpha: K T^2/m (BROWN 15), 0 for a wall; beta: B/(K T) (BROWN 11), None without a spring.
        required_damping: least b at all frequencies (BROWN 8) [N s/m].
        ratio: of that to the wall's, KT/2 + B (BROWN 10).
        worst_frequency: at which it is needed [Hz].
        stable: whether the poles of 1 + C E are inside the unit circle, without which (8) means nothing.
        passive: stable, b > required_damping and the dry friction at least required_friction; margin: b -
            required_damping [N s/m].
        minimum_mass: see `minimum_mass`; minimum_mass_equation_17: as of BROWN (17), for integrator 3,
            B > KT/2 and no delay [kg].
        required_friction: dry friction that quantisation requires [N]; quantisation_power: the most power that it can
            supply with the friction that there is [W]; see `quantisation`.
    """

    alpha: float
    beta: float | None
    required_damping: float | None
    ratio: float | None
    worst_frequency: float
    stable: bool
    passive: bool
    margin: float | None
    minimum_mass: float | None
    minimum_mass_equation_17: float | None
    required_friction: float | None
    quantisation_power: float | None

    def units(self) -> dict[str, str]:
        """Units of the fields that have one."""
        damping, mass = ("required_damping", "margin"), ("minimum_mass", "minimum_mass_equation_17")
        quantised = {"required_friction": "N", "quantisation_power": "W"}
        return {"worst_frequency": "Hz"} | dict.fromkeys(damping, "N s/m") | dict.fromkeys(mass, "kg") | quantised


def analyse(given: CouplingParameters) -> Analysis:
    """Whether a device renders a spring-damper coupling passively, with a wall or a point mass behind it."""
    K, B, T, b, m = given.stiffness, given.damping, 1.0 / given.rate, given.device_damping, given.mass
    wall = wall_damping(K, B, T)
    if wall == 0.0:  # nothing is rendered
        ratio, theta, stable = np.array(1.0), np.array(math.pi), np.array(True)
    else:
        a, kappa = (0.0 if m is None else (K * T + B) * T / m), K * T / (K * T + B)
        ratio, theta, stable = ratio_of(np.array(a), np.array(kappa), given.integrator, given.delay)
    required = float(ratio) * wall
    bounded = abs(float(ratio)) < _UNBOUNDED
    printed = given.integrator == 3 and given.delay == 0  # what BROWN (17) is for
    friction: float | None = 0.0
    power: float | None = 0.0
    if given.resolution > 0.0 and wall > 0.0:
        coupled = spring_damper(K, B, T)
        loop = coupled if m is None else feedback(coupled, point_mass(m, T, given.integrator))
        friction, power = quantised(loop, given.resolution, given.device_friction, b - required)
    return Analysis(
        alpha=0.0 if m is None else K * T**2 / m,
        beta=B / (K * T) if K > 0.0 else None,
        required_damping=required if bounded else None,
        ratio=float(ratio) if bounded else None,
        worst_frequency=float(theta) / (2.0 * math.pi) * given.rate,
        stable=bool(stable),
        passive=bool(stable) and b > required and friction is not None and given.device_friction >= friction,
        margin=b - required if bounded else None,
        minimum_mass=minimum_mass(K, B, T, given.integrator, given.delay),
        minimum_mass_equation_17=minimum_mass_equation_17(K, B, T) if printed else None,
        required_friction=friction,
        quantisation_power=power,
    )


def quantised(
    loop: TransferFunction, resolution: float, device_friction: float, margin: float
) -> tuple[float | None, float | None]:
    """Required friction [N] and largest power [W] of a quantised position (see `quantisation`); None: no bound."""
    norm = quantisation.impulse_norm(loop)
    if norm is None:
        return None, None
    friction = quantisation.required_friction(norm, resolution)
    return friction, quantisation.quantisation_power(friction, device_friction, margin)


def spring_damper(stiffness: float, damping: float, period: float) -> TransferFunction:
    """C = K + B/T (1 - z^-1) (BROWN 9)."""
    return TransferFunction(np.array([stiffness, damping / period]), np.array([1.0]))


def point_mass(mass: float, period: float, integrator: int) -> TransferFunction:
    """E, from force [N] to position [m], of an integrator of BROWN Table 1."""
    return TransferFunction(period**2 / mass * INTEGRATORS[integrator], np.array([0.0, 0.0, 1.0]))


def wall_damping(stiffness: float, damping: float, period: float) -> float:
    """The damping that a virtual wall requires, KT/2 + B (BROWN 10, 13)."""
    return 0.5 * stiffness * period + damping


def minimum_mass_equation_17(stiffness: float, damping: float, period: float) -> float | None:
    """BROWN (17), for integrator 3; None for B <= KT/2, where it does not hold. Too small near that (errata 3)."""
    if not damping > 0.5 * stiffness * period:
        return None
    return damping * period + 0.732 * stiffness * period**2 + (stiffness * period) ** 2 * period / (4.0 * damping)


def minimum_mass(stiffness: float, damping: float, period: float, integrator: int, delay: int = 0) -> float | None:
    """The least mass that requires no more damping than the wall, and is stable, as is every larger one; None: none.

    Args:
        stiffness, damping: of the coupling [N/m, N s/m]; period: T [s].
        integrator: method of BROWN Table 1; delay: of the force [ticks].
    """
    most = stiffness * period + damping
    if not most > 0.0:
        return None
    a = float(_largest(np.array([stiffness * period / most]), integrator, delay)[0])
    return None if math.isnan(a) else most * period / a


def unity_curve(beta: np.ndarray, integrator: int, delay: int = 0) -> np.ndarray:
    """The largest alpha up to which the ratio is at most 1 and the loop stable, at each beta (n,); NaN: none."""
    kappa = 1.0 / (1.0 + beta)
    return _largest(kappa, integrator, delay) * kappa


def stability_curve(beta: np.ndarray, integrator: int) -> np.ndarray:
    """The largest alpha up to which the loop is stable, at each beta (n,); NaN: none."""
    kappa = 1.0 / (1.0 + beta)
    return _largest_stable(kappa, integrator) * kappa


def equation_16(beta: np.ndarray) -> np.ndarray:
    """BROWN's approximation of the unity curve of integrator 3, as printed; NaN up to beta = 1/2 (errata 3)."""
    return np.where(beta > 0.5, beta / (beta**2 + 0.732 * beta + 0.25), np.nan)


def ratio_map(alpha: np.ndarray, beta: np.ndarray, integrator: int, delay: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Required damping over that of the wall, as BROWN figures 6 to 8, and whether the loop is stable.

    Args:
        alpha, beta: at least 0, of shapes that broadcast.

    Returns:
        The ratio, not finite where it has no bound, and the stability, both of the common shape.
    """
    shape = np.broadcast_shapes(alpha.shape, beta.shape)
    kappa = np.broadcast_to(1.0 / (1.0 + beta), shape)
    ratio, _, stable = ratio_of(alpha / kappa, kappa, integrator, delay)
    return ratio, stable


def ratio_of(
    a: np.ndarray, kappa: np.ndarray | float, integrator: int, delay: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ratio, worst theta [rad] and stability of loops; a = 0: a wall."""
    ratio, theta, stable = (np.empty(a.size, kind) for kind in (float, float, bool))
    all_a, all_kappa = a.ravel(), np.broadcast_to(kappa, a.shape).ravel()
    at_once = max(1, _CHUNK // (1 + delay // 10))
    for i in range(0, a.size, at_once):
        part = slice(i, i + at_once)
        loop = _loop(all_a[part], all_kappa[part], integrator, delay)
        y = poles(loop.denominator)
        damping, theta[part] = required_damping(loop, 2.0, y)
        ratio[part], stable[part] = damping / (2.0 - all_kappa[part]), is_stable(y)
    return ratio.reshape(a.shape), theta.reshape(a.shape), stable.reshape(a.shape)


def _loop(a: np.ndarray, kappa: np.ndarray, integrator: int, delay: int) -> TransferFunction:
    """H of the coupling divided by K + B/T."""
    coupling = TransferFunction(np.stack([kappa, 1.0 - kappa], axis=-1), np.array([1.0]))
    square = np.where((a == 0.0)[..., None], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0])  # a wall has no d^2 to cancel
    return feedback(coupling, TransferFunction(a[..., None] * INTEGRATORS[integrator], square), delay)


def _largest(kappa: np.ndarray, integrator: int, delay: int) -> np.ndarray:
    """The largest a up to which the ratio is at most 1 and the loop stable, at each kappa (n,); NaN: none."""

    def holds(a: np.ndarray) -> np.ndarray:
        ratio, _, stable = ratio_of(a, kappa, integrator, delay)
        return stable & (ratio <= _AT_MOST)

    return end_of_interval(holds, kappa.shape)


def _largest_stable(kappa: np.ndarray, integrator: int) -> np.ndarray:
    """The largest a up to which the loop is stable, at each kappa (n,); NaN: none."""

    def holds(a: np.ndarray) -> np.ndarray:
        return is_stable(poles(_loop(a, np.broadcast_to(kappa, a.shape), integrator, 0).denominator))

    return end_of_interval(holds, kappa.shape)


def end_of_interval(holds: Callable[[np.ndarray], np.ndarray], shape: tuple[int, ...] = ()) -> np.ndarray:
    """The end of the interval from zero on in which a condition of a holds; NaN where there is none.

    Args:
        holds: the condition at a (k, *shape), of the same shape.
        shape: of the conditions that are searched together.
    """
    column = (-1, *(1 for _ in shape))
    found, low, high = _narrow(holds, np.broadcast_to(SCAN.reshape(column), (SCAN.size, *shape)))
    part = np.linspace(0.0, 1.0, _PARTS).reshape(column)
    for _ in range(_ROUNDS if found.any() else 0):
        _, low, high = _narrow(holds, low * (high / low) ** part)
    return np.where(found, low, np.nan)


def _narrow(holds: Callable[[np.ndarray], np.ndarray], a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whether a condition holds at the first of the values a (k, ...), the last up to which it does, and the next."""
    count = np.sum(np.logical_and.accumulate(holds(a), axis=0), axis=0, keepdims=True)
    low = np.take_along_axis(a, np.maximum(count - 1, 0), 0)
    high = np.take_along_axis(a, np.minimum(count, len(a) - 1), 0)
    return count[0] > 0, low[0], high[0]
