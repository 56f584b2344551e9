"""Arms that hold a device: the closed form of their stability, the map of a tick, and what diverges when simulated."""

from __future__ import annotations

import re

import numpy as np
import pytest

from haptic_control.held_loop import arm_problem, held_loop
from haptic_control.stability import CoupledInertias, diverges

RATE, DEVICE, TOOL = 1000.0, (0.1, 3e-5), (0.3, 2e-5)  # Hz, kg, kg m^2
NONE = np.zeros((6, 6)), np.zeros((6, 6))


def inertias(**keys: object) -> CoupledInertias:
    tool = np.diag(np.repeat([1.0 / TOOL[0], 1.0 / TOOL[1]], 3))
    return CoupledInertias(planar=False, tool=tuple(tool.ravel().tolist()), device=DEVICE, **keys)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("spring", [0.0, 0.5, 1.0])
def test_an_arm_alone_is_stable_up_to_four_times_the_inertia(kind: int, spring: float) -> None:
    """T^2 K + 2 T B <= 4 m, of which the spring has a part."""
    for factor in (0.999, 1.001):
        stiffness, damping = [0.0, 0.0], [0.0, 0.0]
        stiffness[kind] = factor * spring * 4.0 * DEVICE[kind] * RATE**2
        damping[kind] = factor * (1.0 - spring) * 2.0 * DEVICE[kind] * RATE
        found = arm_problem((stiffness[0], stiffness[1]), (damping[0], damping[1]), NONE, inertias(), RATE)
        assert bool(found) == (factor > 1.0)


def test_with_a_coupling_it_is_stable_up_to_the_largest_eigenvalue_of_both() -> None:
    """W (T^2 K_2 + 2 T B_2) of device and tool, by another way than the map: here about one axis of rotation."""
    K, B = np.diag([0.0] * 3 + [0.5] * 3), np.diag([0.0] * 3 + [0.006] * 3)
    T, both = 1.0 / RATE, np.array([[1.0, -1.0], [-1.0, 1.0]])
    only_device = np.diag([1.0, 0.0])
    inverse = np.diag([1.0 / DEVICE[1], 1.0 / TOOL[1]])
    for turn_damping in np.linspace(0.0, 0.06, 25):
        of_springs = T**2 * (0.5 * both + 2.0 * only_device)
        largest = np.linalg.eigvals(
            inverse @ (of_springs + 2.0 * T * (0.006 * both + turn_damping * only_device))
        ).real.max()
        found = arm_problem((0.0, 2.0), (0.0, turn_damping), (K, B), inertias(), RATE)
        assert bool(found) == (largest > 4.0)
    assert 0.0 < arm_limit(K, B) < 2.0 * DEVICE[1] * RATE  # less than without the coupling


def arm_limit(K: np.ndarray, B: np.ndarray) -> float:
    """The largest damping in rotation that is named [N m s/rad]."""
    text = arm_problem((0.0, 2.0), (0.0, 1.0), (K, B), inertias(), RATE)
    found = re.search(r"largest stable values: operator\.turn_damping=(\S+);", text)
    assert found is not None
    limit = float(found[1])
    assert not arm_problem((0.0, 2.0), (0.0, limit), (K, B), inertias(), RATE)
    assert arm_problem((0.0, 2.0), (0.0, 1.01 * limit), (K, B), inertias(), RATE)
    return limit


@pytest.mark.parametrize("keys", [{}, {"damping": (3.0, 1e-3)}, {"integrator": 1}, {"integrator": 3}])
def test_the_map_is_that_of_a_simulated_tick(keys: dict[str, object]) -> None:
    """Of a device by the exact solution under held wrenches, or semi-implicit Euler, with random states and gains."""
    rng, found = np.random.default_rng(5), inertias(**keys)
    K, B = (0.5 * (m + m.T) for m in rng.uniform(0.0, 1.0, (2, 6, 6)))
    k, b = rng.uniform(0.0, 1.0, (2, 6))
    x_d, v_d, x_t, v_t = state = rng.normal(size=(4, 6))
    T, m = 1.0 / RATE, np.repeat(DEVICE, 3)
    on_device = K @ (x_t - x_d) + B @ (v_t - v_d)
    F = on_device - k * x_d - b * v_d
    if found.damping is None:
        v = v_d + T * F / m
        x = x_d + T * v
    else:
        c = np.repeat(found.damping, 3)
        steady = F / c
        v = steady + (v_d - steady) * np.exp(-c * T / m)
        x = x_d + steady * T + (v_d - steady) * (1.0 - np.exp(-c * T / m)) * m / c
    moved = v_t - T * on_device / np.repeat(TOOL, 3)
    y = x_t + T * {1: v_t, 2: moved, 3: 0.5 * (v_t + moved)}[found.integrator]
    after = held_loop((k, b), (K, B), found, RATE) @ state.ravel()
    assert after == pytest.approx(np.concatenate([x, v, y, moved]), rel=1e-9, abs=1e-12)


def test_a_spring_that_diverges_by_itself_is_lowered_with_its_damper() -> None:
    text = arm_problem((5.0 * DEVICE[0] * RATE**2, 0.0), (1.0, 0.0), NONE, inertias(), RATE)
    assert text.startswith("operator.stiffness = 500000 N/m, operator.damping = 1 N s/m: the sampled arm diverges")
    assert "with a device of 0.1 kg" in text and "device.mass" in text


def test_what_is_not_known_is_not_judged() -> None:
    stiff = (1e9, 1e9), (0.0, 0.0)
    assert not arm_problem(*stiff, NONE, CoupledInertias(planar=False), RATE)
    assert not arm_problem(*stiff, NONE, inertias(difference=1.0), RATE)
    assert diverges(held_loop((np.full(6, 1e9), np.zeros(6)), NONE, inertias(), RATE))
