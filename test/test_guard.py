"""The guard of a port: what its controller changes, by closed forms and by the conditions of optimality."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import brentq
from scipy.spatial.transform import Rotation

from haptic_control.guard import (
    ROUNDING,
    GuardParameters,
    Port,
    count_wrench,
    guard_motion,
    guard_wrench,
    observe_port,
    passive_motion,
    passive_wrench,
    reset_port,
)
from haptic_sim.messages import FORCE, MOTION
from haptic_sim.packed import Packed

T = 1e-3  # [s]
FLOOR = 1e-4  # [m/s]
REST = np.array([0.0, 0, 0, 0, 0, 0, 1])

three = arrays(float, 3, elements=st.floats(-1.0, 1.0).map(lambda x: x if abs(x) > 1e-6 else 0.0))
sizes = st.floats(-3.0, 3.0).map(lambda x: 10.0**x)


def at(first: int, values: Any) -> np.ndarray:
    """Three components of six."""
    six = np.zeros(6)
    six[first : first + 3] = values
    return six


def work(f: np.ndarray, d: np.ndarray, c: float) -> float:
    return float(f @ (d + c * f))


@settings(deadline=None)
@given(f=three, d=three, force=sizes, mass=sizes, energy=st.floats(-1e-3, 1e-3), first=st.sampled_from([0, 3]))
def test_the_wrench_is_the_nearest_that_does_not_do_more_work(
    f: np.ndarray, d: np.ndarray, force: float, mass: float, energy: float, first: int
) -> None:
    f, d, c = force * f, 1e-4 * d, T**2 / mass
    wrench = at(first, f)
    largest = mass / (2.0 * T)
    kept = passive_wrench(wrench, first, at(first, d), np.full(6, c), energy, largest, FLOOR, T)
    moving = np.linalg.norm(d) > FLOOR * T
    level = max(energy, -(d @ d) / (4.0 * c) if moving else 0.0) if energy < 0.0 else energy
    if work(f, d, c) <= level:
        assert kept == 0.0
        assert np.array_equal(wrench, at(first, f))
        return
    assert np.array_equal(wrench[3 - first : 6 - first], np.zeros(3))

    def stationary(multiplier: float) -> np.ndarray:
        """Where the Lagrangian |g - f|^2/2 + multiplier (g . (d + c g) - level) is stationary."""
        return (f - multiplier * d) / (1.0 + 2.0 * c * multiplier)

    def excess(logarithm: float) -> float:
        return work(stationary(math.exp(logarithm)), d, c) - level

    scale = abs(work(f, d, c)) + d @ d / c
    if level > -(d @ d) / (4.0 * c) * (1.0 - 1e-6) and excess(60.0) < 0.0 < excess(-60.0):
        nearest = stationary(math.exp(brentq(excess, -60.0, 60.0, xtol=1e-14, rtol=1e-14)))
        assert wrench[first : first + 3] == pytest.approx(
            nearest, abs=1e-8 * (np.linalg.norm(f) + np.linalg.norm(d) / c)
        )
    assert work(wrench[first : first + 3], d, c) == pytest.approx(level, abs=1e-13 * scale)
    assert kept == pytest.approx(work(f, d, c) - level, abs=1e-13 * scale)


@settings(deadline=None)
@given(f=three, v=three, energy=st.floats(-1e-3, 1e-3))
def test_of_an_unknown_inertia_the_wrench_changes_along_the_velocity_only(
    f: np.ndarray, v: np.ndarray, energy: float
) -> None:
    f, b = 10.0 * f, 5.0
    wrench = at(0, f)
    kept = passive_wrench(wrench, 0, at(0, v * T), np.zeros(6), energy, b, FLOOR, T)
    speed = np.linalg.norm(v)
    level = max(energy, -b * speed**2 * T if speed > FLOOR else 0.0) if energy < 0.0 else energy
    if f @ v * T <= level:
        assert kept == 0.0
        assert np.array_equal(wrench[:3], f)
    else:
        assert np.cross(wrench[:3] - f, v) == pytest.approx(np.zeros(3), abs=1e-12)
        assert wrench[:3] @ v * T == pytest.approx(level, abs=1e-15)
        assert kept == pytest.approx(f @ v * T - level)


def test_missing_energy_is_recovered_by_at_most_the_largest_damping() -> None:
    b, v = 5.0, np.array([0.3, -0.4, 0.0])
    wrench = np.zeros(6)
    kept = passive_wrench(wrench, 0, at(0, v * T), np.zeros(6), -1.0, b, FLOOR, T)
    assert wrench[:3] == pytest.approx(-b * v)
    assert kept == pytest.approx(b * 0.25 * T)
    wrench[:] = 0.0
    c = T / (4.0 * b)  # of a mass for which b is half of the damper that takes most
    passive_wrench(wrench, 0, at(0, v * T), np.full(6, c), -1.0, b, FLOOR, T)
    assert work(wrench[:3], v * T, c) == pytest.approx(-b * 0.25 * T * (1.0 - b * c / T))


@settings(deadline=None)
@given(f=three, d=three, energy=st.floats(-1e-3, 1e-3), c=st.sampled_from([0.0, 1e-6]), tiny=st.integers(0, 320))
def test_nothing_grows_as_the_speed_goes_to_zero(
    f: np.ndarray, d: np.ndarray, energy: float, c: float, tiny: int
) -> None:
    """The energy divided by v^2 T is not finite at rest, and beyond any drive near it."""
    small = 10.0**-tiny * d
    wrench = at(0, f)
    b = 500.0
    passive_wrench(wrench, 0, at(0, small), np.full(6, c), energy, b, FLOOR, T)
    assert np.isfinite(wrench).all()
    assert np.linalg.norm(wrench) <= np.linalg.norm(f) + 2.0 * b * np.linalg.norm(small) / T + 1e-12
    motion = at(0, d)
    passive_motion(motion, 0, at(0, 10.0**-tiny * f), energy, 0.1, 1e-2, T)
    assert np.isfinite(motion).all()
    assert np.linalg.norm(motion) <= np.linalg.norm(d) + 0.1 * np.linalg.norm(10.0**-tiny * f) * T + 1e-12


@settings(deadline=None)
@given(dx=three, F=three, energy=st.floats(-1e-3, 1e-3), first=st.sampled_from([0, 3]))
def test_the_motion_changes_along_the_wrench_only(dx: np.ndarray, F: np.ndarray, energy: float, first: int) -> None:
    dx, F, mobility, floor = 1e-3 * dx, 10.0 * F, 0.02, 1e-2
    motion = at(first, dx)
    kept = passive_motion(motion, first, at(first, F), energy, mobility, floor, T)
    size = np.linalg.norm(F)
    level = max(energy, -mobility * size**2 * T if size > floor else 0.0) if energy < 0.0 else energy
    if -F @ dx <= level:
        assert kept == 0.0
        assert np.array_equal(motion, at(first, dx))
    else:
        changed = motion[first : first + 3]
        assert np.cross(changed - dx, F) == pytest.approx(np.zeros(3), abs=1e-15)
        assert -F @ changed == pytest.approx(level, abs=1e-15)
        assert kept == pytest.approx(-F @ dx - level)


def test_blocked_directions_count_for_nothing() -> None:
    """A planar device cannot move along z, and does no work there, whatever it renders."""
    c = np.array([1e-6, 1e-6, 0.0, 0.0, 0.0, 1e-4])
    wrench = np.array([1.0, 2.0, 50.0, 7.0, -8.0, 0.3])
    assert passive_wrench(wrench, 0, np.zeros(6), c, 1e-5, 1.0, FLOOR, T) == 0.0
    kept = passive_wrench(wrench, 0, np.zeros(6), c, 1e-6, 1.0, FLOOR, T)
    assert kept == pytest.approx(4e-6)
    assert wrench[:3] == pytest.approx([math.sqrt(0.2), 2.0 * math.sqrt(0.2), 50.0])
    kept = passive_wrench(wrench, 3, np.zeros(6), c, 1e-6, 1.0, FLOOR, T)
    assert kept == pytest.approx(8e-6)
    assert wrench[3:] == pytest.approx([7.0, -8.0, 0.1])


def port(mode: int = FORCE, inertia: tuple[float, float] | None = (2.0, 0.005), **keys: Any) -> Any:
    return Packed(Port.of(GuardParameters.model_validate(keys), mode, T, inertia, acts=True)).arrays


def test_translation_and_rotation_are_observed_apart() -> None:
    """Work of the held wrench over the measured displacement; a pure rotation is observed, too."""
    one, rng = port(), np.random.default_rng(14)
    x, q, expected = np.zeros(3), Rotation.identity(), np.zeros(2)
    held = np.zeros(6)
    for tick in range(50):
        observe_port(one, np.concatenate([x, q.as_quat()]), np.zeros(6), np.zeros(6), held)
        assert one.energy == pytest.approx(expected, rel=1e-12, abs=1e-15), tick
        held = rng.normal(size=6)
        move, turn = rng.normal(scale=1e-3, size=3) * (tick < 25), rng.normal(scale=1e-2, size=3)
        x, q = x + move, Rotation.from_rotvec(turn) * q
        expected -= held[:3] @ move, held[3:] @ turn


def test_an_admittance_port_has_the_wrench_of_the_hand() -> None:
    one = port(MOTION)
    F = np.array([1.0, 2.0, 3.0, 0.1, 0.2, 0.3])
    observe_port(one, REST, np.zeros(6), F, np.ones(6))
    turned = Rotation.from_rotvec([0.0, 0.02, 0.0]).as_quat()
    observe_port(one, np.array([0.01, 0.0, -0.02, *turned]), np.zeros(6), np.zeros(6), np.ones(6))
    assert one.energy == pytest.approx([0.01 - 0.06, 0.004])


def test_a_reset_forgets_energy_and_pose() -> None:
    """At a switch between force and motion, and at an activation."""
    one = port()
    away = np.array([1.0, 0, 0, 0, 0, 0, 1])
    observe_port(one, REST, np.zeros(6), np.zeros(6), np.zeros(6))
    observe_port(one, away, np.zeros(6), np.zeros(6), np.full(6, 2.0))
    assert one.energy[0] == -2.0
    one.free[:3] = 1e-3
    one.compliance[:] = 1e-6
    wrench = np.ones(6)
    assert guard_wrench(one, wrench, T)
    count_wrench(one, wrench)
    assert one.dissipated[0] > 0.0
    assert one.acted.tolist() == [1, 1]
    reset_port(one)
    observe_port(one, REST, np.zeros(6), np.zeros(6), np.full(6, 2.0))
    assert not one.energy.any()
    assert not one.dissipated.any()
    assert not one.acted.any()


def test_largest_damping_and_mobility_come_from_the_inertia() -> None:
    assert port().largest == pytest.approx([1000.0, 2.5])  # m/(2T)
    assert port(MOTION, (50.0, 0.5)).largest == pytest.approx([2e-5, 2e-3])  # T/M
    assert port(inertia=None).largest.tolist() == [0.0, 0.0]
    assert port(largest_damping=(3.0, 0.1)).largest.tolist() == [3.0, 0.1]
    assert port(MOTION, largest_mobility=(3.0, 0.1)).largest.tolist() == [3.0, 0.1]


def test_allowed_energy_may_be_given() -> None:
    one = port(allowed_energy=(1e-3, 0.0))
    one.free[:] = 1e-4
    wrench = np.array([3.0, 3.0, 3.0, 0.0, 0.0, 0.0])
    assert not guard_wrench(one, wrench, T)  # 0.9 mJ
    one.energy[0] = -5e-4
    assert guard_wrench(one, wrench, T)
    assert wrench[:3].sum() * 1e-4 == pytest.approx(5e-4 + ROUNDING)


def test_a_motion_against_the_hand_is_stopped() -> None:
    one = port(MOTION, exchange=False)
    one.operator[:] = 5.0, 0.0, 0.0, 0.0, 0.0, 0.2
    motion = np.array([-1e-3, 2e-3, 0.0, 0.0, 0.0, 1e-3])
    assert guard_motion(one, motion, T)
    assert motion == pytest.approx([-ROUNDING / 5.0, 2e-3, 0.0, 0.0, 0.0, 1e-3])
    assert one.dissipated == pytest.approx([5e-3 - ROUNDING, 0.0])


def test_what_translation_has_received_rotation_may_give_back() -> None:
    """A body that is pushed beside its centre turns the energy of one into that of the other."""
    wrench = np.array([-2.0, 0.0, 0.0, 0.0, 0.0, 0.3])
    before = wrench.copy()
    for exchange in (True, False):
        one = port(exchange=exchange)
        one.free[:] = 1e-3, 0.0, 0.0, 0.0, 0.0, 5e-3  # translation takes 2 mJ, rotation gives 1.5 mJ
        assert guard_wrench(one, wrench, T) is not exchange
        if exchange:
            assert np.array_equal(wrench, before)
    assert np.array_equal(wrench[:3], before[:3])
    assert wrench[5] * 5e-3 == pytest.approx(ROUNDING)


works = st.floats(-1e-3, 1e-3)


@settings(deadline=None)
@given(push=works, turn=works, energy=st.tuples(works, works), moving=st.booleans())
def test_both_parts_together_do_at_most_the_work_that_is_there(
    push: float, turn: float, energy: tuple[float, float], moving: bool
) -> None:
    """Parts that give are cut in proportion, parts that take are left; missing energy is recovered where it can be."""
    one = port(largest_damping=(4.0, 0.1))
    one.free[0], one.free[5] = (2e-4, 1e-3) if moving else (1e-8, 1e-8)
    one.energy[:] = energy
    wrench = np.array([push / one.free[0], 0.0, 0.0, 0.0, 0.0, turn / one.free[5]])
    before, available = wrench.copy(), sum(energy) + ROUNDING
    changed = guard_wrench(one, wrench, T)
    assert changed == (push + turn > available)
    given, taken = max(0.0, push) + max(0.0, turn), min(0.0, push) + min(0.0, turn)
    after = wrench[0] * one.free[0], wrench[5] * one.free[5]
    if not changed:
        assert np.array_equal(wrench, before)
    elif available - taken > 0.0:
        share = (available - taken) / given
        assert after == pytest.approx(
            [max(0.0, share * push) + min(0.0, push), max(0.0, share * turn) + min(0.0, turn)]
        )
    else:
        takes = (4.0 * 4e-8 / T, 0.1 * 1e-6 / T) if moving else (0.0, 0.0)  # the damper b v^2 T
        missing = taken - available
        for work, found, most in zip((push, turn), after, takes, strict=True):
            share = missing * most / sum(takes) if moving else 0.0
            assert found == pytest.approx(min(work, max(min(0.0, work) - share, -most)), abs=1e-12)
