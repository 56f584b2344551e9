"""Gains of a virtual coupling for a device (BROWN 4): the stiffest that the device renders passively.

BROWN: find stiffness and damping with virtual walls; find the least mass for the integrator; if lighter masses are
needed, lower both. Here the ratio beta = B/(K T) is chosen, and K is the largest with which the wall, the mass and
every heavier mass require no more than the given share of the device's damping. A mass in contact with others is a
heavier one. With integrators 1 and 3 the mass is at least the minimum mass; integrator 2 has none.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from haptic_control.passivity import quantisation
from haptic_control.passivity.coupling import (
    SCAN,
    end_of_interval,
    minimum_mass,
    point_mass,
    ratio_of,
    spring_damper,
    unity_curve,
    wall_damping,
)
from haptic_control.passivity.transfer import feedback
from haptic_sim.parameters import Parameters, quantity

BEST_BETA = {1: 1.9, 2: 1.0, 3: 1.0}
"""Best beta of each integrator; for 1 and 3 at the largest alpha of the unity curve: lightest mass at a stiffness."""
OTHERS = (0.6, 0.8, 1.0, 1.3, 1.6, 2.0, 3.0, 4.0)  # beta of the table of alternatives


class TuningParameters(Parameters):
    """A device, and what it is to render."""

    device_damping: float = quantity(unit="N s/m", description="Viscous damping b of the device itself", gt=0.0)
    rate: float = quantity(unit="Hz", description="Servo rate, 1/T", gt=0.0)
    mass: float | None = quantity(
        None, unit="kg", description="Lightest mass that is simulated; without it virtual walls only", gt=0.0
    )
    integrator: int = quantity(3, description="Integrator of the mass, the method of BROWN Table 1", ge=1, le=3)
    delay: int = quantity(0, unit="ticks", description="Delay of the force", ge=0, le=1000)
    beta: float | None = quantity(
        None, description="Damping relative to the stiffness, B/(K T); without it the one of the lightest mass", ge=0.0
    )
    resolution: float = quantity(
        0.0, unit="m", description="Resolution of the measured position; 0: it is continuous", ge=0.0
    )
    device_friction: float | None = quantity(
        None,
        unit="N",
        description="Dry friction of the device, of which quantisation may require the share; without it the damping "
        "alone decides",
        gt=0.0,
    )
    share: float = quantity(0.8, description="Part of the device's damping that the coupling may require", gt=0.0, le=1)


class Gains(NamedTuple):
    """A coupling that a device renders passively.

    Attributes:
        beta: B/(K T); stiffness: K [N/m]; damping: B [N s/m].
        required_damping: of the device, at the worst mass and frequency [N s/m].
        minimum_mass: least mass that requires no more damping than a wall [kg]; None: there is none.
        required_friction: dry friction that quantisation requires with a wall, and with the mass [N]; None: unknown.
    """

    beta: float
    stiffness: float
    damping: float
    required_damping: float
    minimum_mass: float | None
    required_friction: float | None


class Tuning(NamedTuple):
    """Gains for a device; None where none is passive.

    Attributes:
        gains: at the chosen beta; others: at other beta.
        largest_stiffness: of a wall without a damper, 2 b/T; largest_damping: of a wall without a spring, b; both with
            the whole damping of the device and without delay (BROWN 10) [N/m, N s/m].
    """

    gains: Gains | None
    others: list[Gains]
    largest_stiffness: float
    largest_damping: float


def tune(given: TuningParameters) -> Tuning:
    """The stiffest coupling that the device renders passively."""
    beta = BEST_BETA[given.integrator] if given.beta is None else given.beta
    others = [gains for one in OTHERS if (gains := _gains(one, given)) is not None]
    b = given.device_damping
    return Tuning(_gains(beta, given), others, largest_wall_stiffness(b, 0.0, given.rate), b)


def largest_wall_stiffness(device_damping: float, damping: float, rate: float) -> float:
    """Largest stiffness of a virtual wall of the given damping B, 2 (b - B)/T (BROWN 10) [N/m]; 0: none."""
    return max(0.0, 2.0 * (device_damping - damping) * rate)


def _gains(beta: float, given: TuningParameters) -> Gains | None:
    T = 1.0 / given.rate
    b = given.share * given.device_damping
    K, required = largest_stiffness(b, beta, T, given.mass, given.integrator, given.delay)
    unity = float(unity_curve(np.array([beta]), given.integrator, given.delay)[0])
    if given.mass is not None and unity * given.mass / T**2 < K:  # beyond it little more stiffness needs much damping
        K = unity * given.mass / T**2
        required = wall_damping(K, beta * K * T, T)
    if not K > 0.0:
        return None
    friction = _friction(K, beta, given)
    if given.device_friction is not None:
        allowed = given.share * given.device_friction
        if friction is None or friction > allowed:
            K, required = _softer(K, beta, allowed, given)
            friction = _friction(K, beta, given)
    B = beta * K * T
    return Gains(beta, K, B, required, minimum_mass(K, B, T, given.integrator, given.delay), friction)


def _friction(K: float, beta: float, given: TuningParameters) -> float | None:
    """Dry friction that quantisation requires of a device with a coupling [N]; None: it cannot be told."""
    if given.resolution == 0.0:
        return 0.0
    T = 1.0 / given.rate
    coupled = spring_damper(K, beta * K * T, T)
    norms = [quantisation.impulse_norm(coupled)]
    if given.mass is not None:
        norms.append(quantisation.impulse_norm(feedback(coupled, point_mass(given.mass, T, given.integrator))))
    found = [norm for norm in norms if norm is not None]
    return quantisation.required_friction(max(found), given.resolution) if len(found) == len(norms) else None


def _softer(K: float, beta: float, allowed: float, given: TuningParameters) -> tuple[float, float]:
    """The largest stiffness up to K [N/m] that requires the `allowed` friction [N], and its required damping."""
    low, high = 0.0, K
    for _ in range(30):
        middle = 0.5 * (low + high)
        friction = _friction(middle, beta, given)
        low, high = (middle, high) if friction is not None and friction <= allowed else (low, middle)
    T, kappa = 1.0 / given.rate, 1.0 / (1.0 + beta)
    a = 0.0 if given.mass is None else low * T**2 / (given.mass * kappa)
    ratio, _, _ = ratio_of(np.array([0.0, *SCAN[a > SCAN], a]), kappa, given.integrator, given.delay)
    return low, wall_damping(low, beta * low * T, T) * float(ratio.max())


def largest_stiffness(
    device_damping: float, beta: float, period: float, mass: float | None, integrator: int = 3, delay: int = 0
) -> tuple[float, float]:
    """Largest stiffness with B = beta K T, such that wall, mass and every heavier mass are passive.

    Args:
        device_damping: b [N s/m]; period: T [s].
        mass: the lightest [kg]; None: walls only.
        integrator: method of BROWN Table 1; delay: of the force [ticks].

    Returns:
        K [N/m], 0 if there is none, and the damping that the worst of these masses requires [N s/m].
    """
    kappa = 1.0 / (1.0 + beta)
    wall = wall_damping(1.0, beta * period, period)  # of a unit of stiffness

    def worst(a: np.ndarray) -> np.ndarray:
        """Ratio at each a; infinite where the loop is not stable."""
        ratio, _, stable = ratio_of(a, kappa, integrator, delay)
        return np.where(stable, ratio, np.inf)

    limit = float(worst(np.zeros(1))[0])  # of a wall
    if mass is None:
        return device_damping / (wall * limit), device_damping
    per_a = kappa * mass / period**2  # stiffness
    heavier = np.maximum.accumulate(np.append(limit, worst(SCAN)))  # the largest ratio up to each value of the scan

    def worst_up_to(a: np.ndarray) -> np.ndarray:
        """The largest ratio of the mass at each of the ascending a, and of all heavier ones."""
        return np.maximum.accumulate(np.maximum(worst(a), heavier[np.searchsorted(SCAN, a, side="right")]))

    a = float(end_of_interval(lambda a: wall * per_a * a * worst_up_to(a) <= device_damping))
    if math.isnan(a):  # a heavy mass, or one that is not passive at any stiffness
        most = float(heavier[1])
        return (device_damping / (wall * most), device_damping) if math.isfinite(most) else (0.0, 0.0)
    return per_a * a, wall * per_a * a * float(worst_up_to(np.array([a]))[0])
