"""The motion of a mass with friction under a held force that arrives late, against independent integrations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm

from haptic_control.identification.motion import Model, move

T = 1e-3  # [s]


def moved(model: Model, force: np.ndarray, velocity: float = 0.1, push: float = 0.0) -> np.ndarray:
    out = np.empty((1, force.size))
    move(np.array(model), force, T, np.array([0]), np.array([[0.0], [velocity], [push]]), out)
    return out[0]


def test_without_dry_friction_as_the_matrix_exponential() -> None:
    """In tenths of a tick, in which a force that is 2.3 ticks late is constant."""
    force = np.random.default_rng(1).normal(size=300)
    m = Model(mass=0.2, damping=1.5, friction=0.0, delay=2.3, stiffness=30.0)
    A = np.array([[0.0, 1.0, 0.0], [-m.stiffness / m.mass, -m.damping / m.mass, 1.0 / m.mass], [0.0, 0.0, 0.0]])
    step, state, expected = expm(A * T / 10), np.array([0.0, 0.1, 0.0]), []
    for i in range(10 * force.size):
        if i % 10 == 0:
            expected.append(state[0])
        k = (i - 23) // 10
        state[2] = 0.05 + (force[k] if k >= 0 else 0.0)
        state = step @ state
    np.testing.assert_allclose(moved(m, force, push=0.05), expected, atol=1e-14)


def test_with_dry_friction_as_small_steps() -> None:
    """Time-stepping of 1000 steps a tick, whose error is of the order of a step; it sticks and slips."""
    force = np.random.default_rng(2).normal(size=60)
    m = Model(mass=0.2, damping=0.5, friction=0.8, delay=0.6)
    h, x, v, expected = T / 1000, 0.0, 0.01, []
    for i in range(1000 * force.size):
        if i % 1000 == 0:
            expected.append(x)
        k = (i - 600) // 1000
        pushed = v + h / m.mass * ((force[k] if k >= 0 else 0.0) - m.damping * v)
        v = np.sign(pushed) * max(0.0, abs(pushed) - h * m.friction / m.mass)
        x += h * v
    found = moved(m, force, 0.01)
    assert (np.diff(found) == 0.0).any() and (np.diff(found) > 0.0).any() and (np.diff(found) < 0.0).any()
    np.testing.assert_allclose(found, expected, atol=2e-3 * np.ptp(found))


def test_at_rest_below_the_friction() -> None:
    m = Model(mass=0.2, damping=0.0, friction=1.0, delay=0.0)
    assert (moved(m, np.full(50, 0.99), 0.0) == 0.0).all()
    assert moved(m, np.full(50, 1.01), 0.0)[-1] > 0.0


@pytest.mark.parametrize("delay", [0.0, 1.0, 0.4])
def test_a_coasting_mass_stops_where_its_energy_is_spent(delay: float) -> None:
    m = Model(mass=0.2, damping=0.0, friction=1.0, delay=delay)
    assert moved(m, np.zeros(100), 0.1)[-1] == pytest.approx(0.5 * 0.2 * 0.1**2 / 1.0, rel=1e-12)
