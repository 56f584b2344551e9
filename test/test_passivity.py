"""Passivity analysis against closed forms, BROWN's statements, simulated loops and adversarial hands."""

from __future__ import annotations

import math

import numpy as np
import pytest
from conftest import sampled
from hypothesis import given, settings
from hypothesis import strategies as st

from haptic_control.passivity.conditions import required_damping, required_damping_of_coupling
from haptic_control.passivity.coupling import (
    CouplingParameters,
    analyse,
    equation_16,
    minimum_mass,
    minimum_mass_equation_17,
    point_mass,
    ratio_map,
    spring_damper,
    unity_curve,
)
from haptic_control.passivity.transfer import TransferFunction, feedback, from_delays, is_stable, poles
from haptic_sim.parameters import ParameterError

T = 1e-3  # [s]
NONE = TransferFunction(np.zeros(1), np.ones(1))  # the environment that nothing moves
SIZES = st.floats(-3.0, 5.0).map(lambda power: 10.0**power)


def rendered_force(h: np.ndarray, K: float, B: float, m: float | None, integrator: int, delay: int = 0) -> np.ndarray:
    """Force of the coupling at each tick, from the difference equations of BROWN Table 1 and figure 3."""
    f = np.zeros(h.size)
    x = v = x_before = h_before = f_before = 0.0
    for k in range(h.size):
        if m is not None and k:
            new_v = v + T / m * f_before
            x += T * {1: v, 2: new_v, 3: 0.5 * (v + new_v)}[integrator]
            v = new_v
        f[k] = K * (h[k] - x) + B / T * ((h[k] - x) - (h_before - x_before))
        x_before, h_before, f_before = x, h[k], f[k]
    return np.concatenate([np.zeros(delay), f[: h.size - delay]]) if delay else f


def optimal_hand(K: float, B: float, b: float, m: float | None, integrator: int, n: int) -> float:
    """The least energy that a hand of n ticks puts into a device that begins and ends at rest, per its own size.

    The hand that extracts most moves with constant velocity in each tick (the inertia of the device stores nothing
    from rest to rest). The energy is a quadratic form of its steps: sum of f dh + b dh^2/T.
    """
    step = rendered_force(np.ones(n), K, B, m, integrator)  # force after a unit step of the hand
    to_force = np.tril(step[np.subtract.outer(np.arange(n), np.arange(n)) % n])
    # the force of tick k is held while the hand makes step k + 1
    form = np.eye(n) * b / T
    form[1:, :-1] += to_force[: n - 1, : n - 1]
    return float(np.linalg.eigvalsh(0.5 * (form + form.T))[0])


@given(K=SIZES, B=SIZES, period=st.floats(-5.0, -1.0).map(lambda power: 10.0**power))
def test_the_wall_requires_its_closed_form(K: float, B: float, period: float) -> None:
    damping, theta = required_damping(feedback(spring_damper(K, B, period), NONE), period)
    assert damping == pytest.approx(0.5 * K * period + B, rel=1e-12)  # BROWN (10), (13)
    assert theta == pytest.approx(math.pi)
    # (1), for every passive environment, is the same here
    assert required_damping_of_coupling(spring_damper(K, B, period), period) == pytest.approx(damping, rel=1e-9)


def test_a_coupling_that_supplies_energy_is_passive_with_no_device() -> None:
    negative = TransferFunction(np.array([100.0, -0.4 / T]), np.ones(1))  # a negative damper
    assert required_damping_of_coupling(negative, T) == np.inf


@given(K=SIZES, n=st.integers(0, 20))
def test_a_delayed_spring_requires_the_dirichlet_kernel(K: float, n: int) -> None:
    """Re{(1 - w) w^n}/(1 - cos) = sin((2n + 1) theta/2)/sin(theta/2), at most 2n + 1, at theta = 0."""
    loop = feedback(spring_damper(K, 0.0, T), NONE, n)
    damping, theta = required_damping(loop, T)
    assert damping == pytest.approx(0.5 * K * T * (2 * n + 1), rel=1e-6)
    assert n == 0 or theta == 0.0


@pytest.mark.long
@settings(deadline=None, max_examples=40)
@given(alpha=st.floats(1e-3, 3.0), beta=st.floats(0.01, 8.0), integrator=st.integers(1, 3), delay=st.integers(0, 3))
def test_the_worst_frequency_is_that_of_a_dense_grid(alpha: float, beta: float, integrator: int, delay: int) -> None:
    """BROWN (A3) as printed with z^-1, and (A5), (A6) likewise with the corrections of errata 1 and 2."""
    ratio, stable = ratio_map(np.array([alpha]), np.array([beta]), integrator, delay)
    theta = np.linspace(0.0, np.pi, 200_001)[1:]
    w = np.exp(-1j * theta)
    part = {1: w**2, 2: w, 3: 0.5 * (1.0 + w) * w}[integrator]
    C = 1.0 + beta - beta * w
    values = (C * (1.0 - w) ** 3 * w**delay / ((1.0 - w) ** 2 + alpha * C * part)).real / (1.0 - np.cos(theta))
    largest = float(values.max() / (1.0 + 2.0 * beta))
    assert ratio[0] >= largest - 1e-6 * abs(largest)
    if stable[0]:
        roots = roots_of(alpha, beta, integrator)
        if (1.0 - np.abs(roots) > 1e-3).all():  # a grid of 200 000 may miss a narrower resonance
            assert ratio[0] == pytest.approx(largest, rel=1e-3)


def roots_of(alpha: float, beta: float, integrator: int) -> np.ndarray:
    """Poles z of the loop, from its polynomial in z^-1."""
    one = np.polynomial.Polynomial
    part = {1: one([0.0, 0.0, 1.0]), 2: one([0.0, 1.0]), 3: one([0.0, 0.5, 0.5])}[integrator]
    loop = one([1.0, -2.0, 1.0]) + alpha * one([1.0 + beta, -beta]) * part
    return np.roots(loop.coef)  # highest power of z first


@settings(deadline=None)
@given(alpha=st.floats(1e-4, 5.0), beta=st.floats(0.0, 8.0), integrator=st.integers(1, 3))
def test_poles_are_the_roots_in_z(alpha: float, beta: float, integrator: int) -> None:
    K, B, m = alpha * 1.0, beta * alpha * T, T**2  # K T^2/m = alpha, B/(K T) = beta
    loop = feedback(spring_damper(K, B, T), point_mass(m, T, integrator))
    y = poles(loop.denominator)
    z = y / (y - 1.0)
    for root in roots_of(alpha, beta, integrator):
        assert np.abs(z - root).min() < 1e-6
    growth = np.abs(roots_of(alpha, beta, integrator)).max(initial=0.0)
    assert bool(is_stable(y)) == bool(growth < 1.0) or abs(growth - 1.0) < 1e-9


@pytest.mark.parametrize("integrator", [1, 2, 3])
def test_stable_loops_decay_and_others_grow_when_they_are_simulated(integrator: int) -> None:
    rng = np.random.default_rng(20260 + integrator)
    seen = set()
    for _ in range(30):
        alpha, beta = rng.uniform(0.01, 2.0), rng.uniform(0.0, 4.0)
        growth = np.abs(roots_of(alpha, beta, integrator)).max()
        if abs(growth - 1.0) < 3e-3:
            continue
        _, stable = ratio_map(np.array([alpha]), np.array([beta]), integrator)
        h = np.zeros(6000)
        h[0] = 1.0
        with np.errstate(over="ignore", invalid="ignore"):
            f = rendered_force(h, 1.0, beta * T, T**2 / alpha, integrator)
        grows = not np.abs(f[-50:]).max() < 1.0
        assert bool(stable[0]) != grows
        seen.add(grows)
    assert seen == {True, False}


def test_a_slow_loop_keeps_its_poles() -> None:
    """Poles within 1e-12 of z = 1, which rounding errors of a polynomial in z^-1 would displace by 1e-8."""
    alpha = 1e-11
    for beta, expected in ((0.6, True), (0.4, False)):
        loop = feedback(spring_damper(alpha, beta * alpha * T, T), point_mass(T**2, T, 3))
        assert bool(is_stable(poles(loop.denominator))) == expected


# -- BROWN's figures ---------------------------------------------------------------------------------------------------


def test_integrator_1_needs_beta_above_one() -> None:
    beta = np.array([0.3, 0.7, 0.99, 1.0, 1.02, 1.04])  # beyond one is necessary, not sufficient
    assert np.isnan(unity_curve(beta, 1)).all()
    assert (unity_curve(np.array([1.1, 1.5, 2.0, 3.0]), 1) > 0.05).all()
    assert unity_curve(np.array([1.042]), 1) > 0.0


def test_integrator_2_always_requires_more_than_the_wall() -> None:
    """Errata 4: only alpha = 0 meets it, also as beta goes to infinity.

    At theta = pi the ratio is 4/(4 - alpha (1 + 2 beta)).
    """
    beta = np.array([0.1, 1.0, 10.0, 1e3, 1e6])
    assert np.isnan(unity_curve(beta, 2)).all()
    for one in beta:
        alpha = np.array([1e-5, 1e-2, 0.5]) / (1.0 + one)
        ratio, stable = ratio_map(alpha, np.full(3, one), 2)
        assert stable.all() and (ratio >= 4.0 / (4.0 - alpha * (1.0 + 2.0 * one)) * (1.0 - 1e-12)).all()
        assert (ratio > 1.0).all()
    assert ratio_map(np.zeros(1), np.ones(1), 2) == (1.0, True)


@pytest.mark.long
def test_integrator_3_follows_equation_16_beside_its_misprint() -> None:
    beta = np.linspace(0.51, 4.5, 30)  # the range of the fit; as beta goes to infinity it is 15 % off
    unity = unity_curve(beta, 3)
    x = beta - 0.5
    np.testing.assert_allclose(unity, x / (x**2 + 0.732 * x + 0.25), rtol=0.07)
    assert np.isnan(unity_curve(np.array([0.3, 0.5]), 3)).all()
    assert unity_curve(np.array([0.5001]), 3) < 1e-3  # where (16) as printed allows 0.58
    unsafe = equation_16(beta) > unity
    assert unsafe[beta < 0.81].all() and not unsafe[beta > 0.82].any()


def test_the_curve_of_a6_has_half_of_alpha() -> None:
    """A6 as printed, on a dense grid: the ratio is 1 up to half of the alpha of Table 1 (errata 2)."""
    theta = np.linspace(0.0, np.pi, 20_001)[1:-1]
    w = np.exp(-1j * theta)
    for beta in (0.8, 1.0, 2.0):
        C = 1.0 + beta - beta * w
        edge = float(unity_curve(np.array([beta]), 3)[0])

        def printed(alpha: float, C: np.ndarray = C, beta: float = beta) -> bool:
            loop = C * (1.0 - w) ** 3 / ((1.0 - w) ** 2 + alpha * C * (1.0 + w) * w)
            return bool((loop.real / (1.0 - np.cos(theta)) <= 1.0 + 2.0 * beta + 1e-9).all())

        assert printed(0.5 * edge * 0.999) and not printed(0.5 * edge * 1.01)


@pytest.mark.long
def test_the_ratio_is_flat_under_the_unity_curve_of_integrator_3() -> None:
    beta = np.linspace(0.6, 4.0, 15)
    ratio, stable = ratio_map(unity_curve(beta, 3) * np.array([[0.01], [0.3], [0.99]]), beta, 3)
    assert stable.all()
    np.testing.assert_allclose(ratio, 1.0, rtol=1e-9)
    above, _ = ratio_map(unity_curve(beta, 3) * 1.05, beta, 3)
    assert (above > 1.0 + 1e-5).all()


def test_a_damper_alone_has_a_minimum_mass_in_closed_form() -> None:
    """At theta near pi the ratio of integrator 3 without a spring turns at m/(B T) = (2 + sqrt 2)/4."""
    assert minimum_mass(0.0, 2.0, T, 3) == pytest.approx(2.0 * T * (2.0 + math.sqrt(2.0)) / 4.0, rel=1e-4)


def test_minimum_mass_scales_with_the_curve() -> None:
    K, B = 1000.0, 1.5
    for integrator in (1, 3):
        mass = minimum_mass(K, B, T, integrator)
        assert mass == pytest.approx(K * T**2 / float(unity_curve(np.array([1.5]), integrator)[0]), rel=1e-9)
        assert minimum_mass(3.0 * K, 3.0 * B, T, integrator) == pytest.approx(3.0 * mass)
    assert minimum_mass(K, B, T, 2) is None
    assert minimum_mass_equation_17(K, B, T) == pytest.approx(B * T + 0.732 * K * T**2 + K**2 * T**3 / (4 * B))
    assert minimum_mass_equation_17(K, 0.5, T) is None
    assert minimum_mass(0.0, 0.0, T, 3) is None


# -- simulated hands ---------------------------------------------------------------------------------------------------

SETTINGS = [(None, 1, 1000.0, 0.5), (None, 1, 1000.0, 3.0), (0.01, 1, 1000.0, 2.0), (0.0075, 1, 1000.0, 1.2)]
SETTINGS += [(0.01, 2, 1000.0, 1.0), (0.004, 2, 1000.0, 0.3), (0.01, 3, 1000.0, 1.0), (0.0017, 3, 1000.0, 1.3)]


@pytest.mark.parametrize("m, integrator, K, B", sampled(SETTINGS, SETTINGS[2], SETTINGS[4], SETTINGS[6]))
def test_an_optimal_hand_extracts_energy_outside_the_boundary_only(
    m: float | None, integrator: int, K: float, B: float
) -> None:
    found = analyse(
        CouplingParameters(stiffness=K, damping=B, rate=1.0 / T, device_damping=0.0, mass=m, integrator=integrator)
    )
    assert found.stable and found.required_damping is not None
    b = found.required_damping
    assert optimal_hand(K, B, 1.001 * b, m, integrator, 1000) > 0.0
    assert optimal_hand(K, B, 0.9 * b, m, integrator, 1000) < 0.0


@pytest.mark.parametrize("m, integrator, K, B", SETTINGS)
def test_a_hand_at_the_worst_frequency_extracts_what_the_analysis_says(
    m: float | None, integrator: int, K: float, B: float
) -> None:
    found = analyse(
        CouplingParameters(stiffness=K, damping=B, rate=1.0 / T, device_damping=0.0, mass=m, integrator=integrator)
    )
    assert found.required_damping is not None
    h = np.cos(2.0 * math.pi * found.worst_frequency * T * np.arange(60_001))
    steps = np.diff(h)
    f = rendered_force(h, K, B, m, integrator)[:-1]
    late = slice(20_000, None)  # after the transient
    extracted = -(f * steps)[late].sum() / (steps[late] ** 2).sum() * T
    assert extracted == pytest.approx(found.required_damping, rel=2e-3)


# -- any transfer function ---------------------------------------------------------------------------------------------


def test_delays_are_differences() -> None:
    rng = np.random.default_rng(4)
    theta = rng.uniform(0.1, np.pi, 20)
    numerator, denominator = rng.normal(size=4), rng.normal(size=3)
    found = from_delays(numerator, denominator, "E").at(theta)
    w = np.exp(-1j * theta)
    expected = np.polynomial.Polynomial(numerator)(w) / np.polynomial.Polynomial(denominator)(w)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_point_mass_by_its_delays_is_that_of_the_table() -> None:
    m = 0.01
    for integrator, numerator in ((1, [0, 0, 1]), (2, [0, 1]), (3, [0, 0.5, 0.5])):
        E = from_delays([T**2 / m * one for one in numerator], [1, -2, 1], "E")
        damping, _ = required_damping(feedback(spring_damper(1000.0, 2.0, T), E), T)
        same, _ = required_damping(feedback(spring_damper(1000.0, 2.0, T), point_mass(m, T, integrator)), T)
        assert damping == pytest.approx(float(same), rel=1e-6)


def test_a_long_delay_is_resolved() -> None:
    """A spring with a delayed damper of its own sign: the worst frequency is one of hundreds of local maxima."""
    n, c = 300, 0.05
    # H = K + c K w: with a delay of n ticks the ratio is the Dirichlet kernel of n, and c times that of n + 1
    loop = feedback(from_delays([1.0, c], [1.0], "C"), NONE, n)
    damping, _ = required_damping(loop, T)
    assert damping == pytest.approx(0.5 * T * (2 * n + 1 + c * (2 * n + 3)), rel=1e-5)
    theta = np.linspace(0.0, np.pi, 400_001)[1:]
    damper = feedback(spring_damper(0.0, 1.0, T), NONE, n)
    w = np.exp(-1j * theta)
    dense = 0.5 * T * ((1 - w) ** 2 / T * w**n).real / (1 - np.cos(theta))
    assert required_damping(damper, T)[0] == pytest.approx(dense.max(), rel=1e-6)


@pytest.mark.long
@settings(deadline=None, max_examples=60)
@given(
    K=st.floats(0.0, 1e12),
    B=st.floats(0.0, 1e12),
    rate=st.floats(1e-3, 1e6),
    mass=st.none() | st.floats(1e-9, 1e9),
    integrator=st.integers(1, 3),
    delay=st.integers(0, 40),
)
def test_any_valid_setting_has_an_answer(
    K: float, B: float, rate: float, mass: float | None, integrator: int, delay: int
) -> None:
    values = {"stiffness": K if K > 1e-12 else 0.0, "damping": B if B > 1e-12 else 0.0, "rate": rate, "mass": mass}
    found = analyse(CouplingParameters(**values, device_damping=1.0, integrator=integrator, delay=delay))
    assert all(value is None or math.isfinite(value) for value in found)
    assert not found.passive or (found.stable and (found.margin or 0.0) > 0.0)


@pytest.mark.parametrize(
    "numerator, denominator, said",
    [
        ([1.0], [0.0, 1.0], r"E: denominator \[0.0, 1.0\]: is not proper"),
        ([1.0], [0.0], r"must not be zero"),
        ([math.nan], [1.0], r"E: numerator \[nan\]: must be one or more finite numbers"),
        ([1.0] * 30, [1.0], r"E: numerator: has 30 coefficients: must have at most 24"),
        ([], [1.0], r"must be one or more finite numbers"),
    ],
)
def test_transfer_functions_are_checked(numerator: list[float], denominator: list[float], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        from_delays(numerator, denominator, "E")


def test_common_delays_cancel() -> None:
    assert from_delays([0.0, 1.0], [0.0, 2.0], "E").at(np.array([1.0])) == pytest.approx(0.5)
