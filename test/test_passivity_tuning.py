"""Gains for a device, and couplings with matrices: against the analysis of one direction and simulated hands."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haptic_control.passivity.coupling import CouplingParameters, analyse, minimum_mass, ratio_map
from haptic_control.passivity.directions import analyse_directions
from haptic_control.passivity.tuning import Tuning, TuningParameters, largest_stiffness, largest_wall_stiffness, tune
from haptic_sim.parameters import ParameterError

RATE = 1000.0  # [Hz]
T = 1.0 / RATE


def one(K: float, B: float, b: float, mass: float | None, integrator: int = 3, delay: int = 0) -> bool:
    found = analyse(
        CouplingParameters(
            stiffness=K, damping=B, rate=RATE, device_damping=b, mass=mass, integrator=integrator, delay=delay
        )
    )
    return found.passive


# -- tuning ------------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=10)
@given(
    mass=st.floats(-3.5, 1.0).map(lambda power: 10.0**power),
    beta=st.floats(0.1, 4.0),
    case=st.sampled_from([(1, 0), (2, 0), (3, 0), (2, 2), (3, 1)]),
)
def test_the_largest_stiffness_is_passive_and_no_larger_one_is(mass: float, beta: float, case: tuple[int, int]) -> None:
    integrator, delay = case

    def passive(K: float, mass: np.ndarray) -> np.ndarray:
        """Whether a wall and masses are passive; that `analyse` agrees is another test."""
        ratio, stable = ratio_map(K * T**2 / np.append(mass, np.inf), np.array(beta), integrator, delay)
        return stable & (ratio * K * T * (0.5 + beta) < 3.0)

    K, required = largest_stiffness(3.0, beta, T, mass, integrator, delay)
    if K > 0.0:
        assert all(passive(0.995 * K, mass * np.geomspace(1.0, 1e5, 40)))
        assert required <= 3.0 * (1.0 + 1e-7)
    more = max(1.02 * K, 1e-3)
    assert not all(passive(more, mass * np.concatenate([np.linspace(1.0, 3.0, 80), np.geomspace(3.0, 1e5, 40)])))


def test_walls_have_the_closed_form() -> None:
    for B in (0.0, 1.0, 2.5):
        K = largest_wall_stiffness(3.0, B, RATE)
        assert one(K * 0.999, B, 3.0, None) and not one(K * 1.001, B, 3.0, None)
    assert largest_wall_stiffness(3.0, 3.5, RATE) == 0.0
    assert largest_stiffness(3.0, 1.0, T, None)[0] == pytest.approx(2.0 * 3.0 / (T * 3.0))


@cache
def tuned(mass: float, integrator: int) -> Tuning:
    return tune(TuningParameters(device_damping=3.0, rate=RATE, mass=mass, integrator=integrator))


@pytest.mark.exhaustive
@pytest.mark.long
@pytest.mark.parametrize("integrator", [1, 3])
def test_tuned_gains_keep_the_mass_above_its_minimum(integrator: int) -> None:
    for mass in (0.001, 1.0):
        found = tuned(mass, integrator)
        assert found.gains is not None
        for gains in (found.gains, *found.others):
            least = minimum_mass(gains.stiffness, gains.damping, T, integrator)
            assert least is not None and least <= mass * (1.0 + 1e-6) and gains.minimum_mass == least
            assert gains.required_damping <= 0.8 * 3.0 * (1.0 + 1e-9)
            assert one(gains.stiffness, gains.damping, 3.0, mass * 1.0001, integrator)


@pytest.mark.long
def test_lighter_masses_only_have_lower_gains_both_in_proportion() -> None:
    """BROWN 4."""
    light = [tuned(mass, 3).gains for mass in (1e-3, 2e-3)]
    assert light[0] is not None and light[1] is not None
    assert light[1].stiffness == pytest.approx(2.0 * light[0].stiffness, rel=1e-6)
    assert light[1].damping == pytest.approx(2.0 * light[0].damping, rel=1e-6)


def test_no_gain_is_passive_where_integrator_1_has_too_little_damping() -> None:
    assert tune(TuningParameters(device_damping=3.0, rate=RATE, mass=1.0, integrator=1, beta=0.9)).gains is None


# -- matrices ----------------------------------------------------------------------------------------------------------


def spd(rng: np.random.Generator, n: int, least: float, most: float) -> np.ndarray:
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    return (Q * rng.uniform(least, most, n)) @ Q.T


@pytest.mark.parametrize("integrator", [1, 2, 3])
def test_directions_that_do_not_couple_are_those_of_one_direction(integrator: int) -> None:
    """In coordinates that mix them: the scale does not depend on coordinates."""
    rng = np.random.default_rng(7 + integrator)
    for trial in range(6):
        n = 3
        K, B = rng.uniform(200.0, 2000.0, n), rng.uniform(0.5, 3.0, n)
        b, m = rng.uniform(2.0, 5.0, n), rng.uniform(0.003, 0.05, n)
        mass = None if trial == 0 else m
        found = [
            analyse(
                CouplingParameters(
                    stiffness=K[i],
                    damping=B[i],
                    rate=RATE,
                    device_damping=b[i],
                    mass=None if mass is None else mass[i],
                    integrator=integrator,
                    delay=trial % 3,
                )
            )
            for i in range(n)
        ]
        scales = [(one.required_damping or np.inf) / b[i] for i, one in enumerate(found)]
        P = rng.normal(size=(n, n))
        matrices = [P.T @ np.diag(values) @ P for values in (K, B, b, m)]
        together = analyse_directions(
            matrices[0], matrices[1], RATE, matrices[2], None if mass is None else matrices[3], integrator, trial % 3
        )
        assert together.scale == pytest.approx(max(scales), rel=1e-6)
        assert together.stable == all(one.stable for one in found)
        assert together.passive == all(one.passive for one in found)
        assert together.wall_scale == pytest.approx(max((0.5 * K * T + B) / b))
        worst = found[int(np.argmax(scales))]
        assert together.worst_frequency == pytest.approx(worst.worst_frequency, rel=1e-4)
        motion = P @ together.worst_direction
        assert np.abs(motion[int(np.argmax(scales))]) == pytest.approx(np.linalg.norm(motion), rel=1e-5)


@pytest.mark.parametrize("integrator", [1, 2, 3])
def test_an_optimal_hand_in_the_plane_extracts_energy_beyond_the_scale_only(integrator: int) -> None:
    """Matrices that share no directions: the least energy of all hands, as a quadratic form of their steps."""
    rng = np.random.default_rng(40 + integrator)
    n, ticks = 2, 300
    for _ in range(3):
        K, B, M, D = (spd(rng, n, *s) for s in ((300.0, 1000.0), (1.4, 2.5), (0.03, 0.1), (1.0, 4.0)))
        found = analyse_directions(K, B, RATE, D, M, integrator)
        assert found.stable
        form = np.kron(np.eye(ticks), np.zeros((n, n)))
        for axis in range(n):
            force = simulated(np.eye(n)[axis], K, B, M, integrator, ticks)
            for k in range(ticks):  # a step in tick k, whose force is held while the hand makes step i + 1
                for i in range(k, ticks - 1):
                    form[(i + 1) * n : (i + 2) * n, k * n + axis] += force[i - k]
        form = 0.5 * (form + form.T)
        for factor, extracts in ((1.001, False), (0.95, True)):
            damped = form + np.kron(np.eye(ticks), factor * found.scale * D / T)
            assert (np.linalg.eigvalsh(damped)[0] < 0.0) == extracts


def simulated(step: np.ndarray, K: np.ndarray, B: np.ndarray, M: np.ndarray, integrator: int, ticks: int) -> np.ndarray:
    """Force (ticks, n) after a step of the hand, from the difference equations of BROWN Table 1."""
    x = v = gap = f = np.zeros(len(step))
    forces = []
    for k in range(ticks):
        if k:
            new_v = v + T * np.linalg.solve(M, f)
            x = x + T * {1: v, 2: new_v, 3: 0.5 * (v + new_v)}[integrator]
            v = new_v
        f = K @ (step - x) + B @ (step - x - gap) / T
        gap = step - x
        forces.append(f)
    return np.array(forces)


def test_directions_without_a_spring_or_a_coupling_do_not_count() -> None:
    K, B, M = np.diag([1000.0, 0.0, 0.0]), np.diag([2.0, 1.0, 0.0]), spd(np.random.default_rng(2), 3, 0.01, 0.02)
    found = analyse_directions(K, B, RATE, 3.0 * np.eye(3), M, 3)
    assert found.stable and found.passive
    assert abs(found.worst_direction[2]) < 1e-9
    assert analyse_directions(0.0 * K, 0.0 * B, RATE, np.eye(3)).passive


@pytest.mark.parametrize(
    "change, said",
    [
        ({"stiffness": np.array([[1.0, 2.0], [0.0, 1.0]])}, r"stiffness: \[0\]\[1\] = 2 and \[1\]\[0\] = 0"),
        ({"damping": np.diag([1.0, -1.0])}, "damping: has the eigenvalue -1: must be positive semidefinite"),
        ({"mass": np.diag([1.0, 0.0])}, "mass: has the eigenvalue 0: must be positive definite"),
        ({"device_damping": np.zeros((2, 2))}, "device_damping: has the eigenvalue 0: must be positive definite"),
        ({"mass": np.eye(3)}, "mass: has 3 rows, stiffness has 2"),
        ({"damping": np.full((2, 2), np.nan)}, "damping: .* must be a square matrix of finite numbers"),
    ],
)
def test_matrices_are_checked(change: dict[str, np.ndarray], said: str) -> None:
    arguments = {name: np.eye(2) for name in ("stiffness", "damping", "device_damping", "mass")} | change
    with pytest.raises(ParameterError, match=said):
        analyse_directions(rate=RATE, **arguments)
