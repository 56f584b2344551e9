"""Penalty forces against their closed form."""

from __future__ import annotations

import numpy as np

from haptic_sim.contact.penalty import penalty_forces

STIFFNESS, DAMPING = 4000.0, 30.0  # [N/m], [N s/m]


def forces(separation: object, v_n: object, stiffness: object = STIFFNESS, damping: object = DAMPING) -> np.ndarray:
    s = np.array(separation, float)
    force = np.full(s.size + 1, 77.0)
    k, b = (np.broadcast_to(np.array(x, float), s.shape).copy() for x in (stiffness, damping))
    penalty_forces(s.size, s, np.array(v_n, float), k, b, force)
    assert force[-1] == 77.0  # behind the rows in use
    return force[:-1]


def test_spring_and_damper_where_they_overlap() -> None:
    """f = -K s - B v: 4 N at 1 mm, 3 N more at an approach of 0.1 m/s, 3 N less when leaving at 0.1 m/s."""
    np.testing.assert_allclose(forces([-1e-3] * 3, [0.0, -0.1, 0.1]), [4.0, 7.0, 1.0], rtol=1e-15)


def test_never_pulls() -> None:
    """At the leaving speed K d / B the force is zero; beyond it stays there."""
    limit = STIFFNESS * 1e-3 / DAMPING
    found = forces([-1e-3] * 4, [limit * 0.99, limit * 1.01, 2 * limit, 1e9])
    np.testing.assert_allclose(found, [0.04, 0.0, 0.0, 0.0], rtol=1e-12, atol=0)


def test_nothing_acts_from_afar() -> None:
    np.testing.assert_array_equal(forces([0.0, 1e-9, 1.0], [-5.0, -5.0, -5.0]), np.zeros(3))


def test_each_row_has_its_own_material() -> None:
    np.testing.assert_allclose(
        forces([-1e-3, -1e-3], [-1.0, -1.0], [4000.0, 100.0], [30.0, 0.0]), [34.0, 0.1], rtol=1e-15
    )


def test_random_rows_follow_the_clamped_law() -> None:
    rng = np.random.default_rng(20260)
    s, v = rng.normal(size=1000) * 1e-3, rng.normal(size=1000)
    k, b = rng.uniform(0, 1e4, 1000), rng.uniform(0, 100, 1000)
    expected = np.where(s < 0, np.maximum(-k * s - b * v, 0.0), 0.0)
    np.testing.assert_allclose(forces(s, v, k, b), expected, rtol=1e-15, atol=1e-15)
    assert (expected > 0).sum() > 200
    assert ((s < 0) & (expected == 0)).sum() > 100


def test_a_damper_alone_only_dissipates() -> None:
    """Power f v = -B v^2 while approaching, never positive."""
    v = np.array([-2.0, -0.5, 0.5, 2.0])
    f = forces([-1e-12] * 4, v, 0.0, DAMPING)
    np.testing.assert_allclose(f * v, [-120.0, -7.5, 0.0, 0.0], rtol=1e-15)


def test_kernel_is_its_python_function() -> None:
    rng = np.random.default_rng(20261)
    rows = [rng.normal(size=50), rng.normal(size=50), rng.uniform(0, 9, 50), rng.uniform(0, 9, 50)]
    compiled, interpreted = np.zeros(50), np.zeros(50)
    penalty_forces(50, *rows, compiled)
    penalty_forces.py_func(50, *rows, interpreted)
    np.testing.assert_allclose(compiled, interpreted, rtol=1e-15, atol=1e-15)


def test_nan_is_no_contact() -> None:
    """Not a number never reaches the tool as a force."""
    np.testing.assert_array_equal(forces([np.nan, -1e-3], [0.0, np.nan]), np.zeros(2))
