"""The momentum observer: its first-order response, and the wrench near singularities."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from test_robot_arm import NONE, RATE, arm_of, slider
from test_robot_memory import MOST, largest

from haptic_robot.arm import Arm
from haptic_robot.compliance import ImpedanceController, ImpedanceParameters
from haptic_robot.dynamics import chain_at, evaluate_chain
from haptic_robot.models import ARMS, READY, SIX_AXES, serial_arm
from haptic_robot.observer import MomentumObserver, ObserverParameters, fill_momentum, tool_wrench
from haptic_sim.packed import Packed


def wrench_of(J: np.ndarray, torque: np.ndarray, length: float, least: float) -> np.ndarray:
    """The wrench (6,) of the kernel."""
    squares, vectors, values, shown, wrench = np.zeros((6, 6)), np.zeros((6, 6)), *np.zeros((3, 6))
    tool_wrench(J, torque, length, least, squares, values, vectors, shown, wrench)
    return wrench


def test_the_response_is_of_first_order() -> None:
    """Of one axis, where nothing else counts: r(k) = (1 - exp(-K k T)) F, to rounding."""
    arm, F, K = Arm(slider(2.0), np.zeros(1), RATE), 3.0, 80.0
    observer = MomentumObserver(ObserverParameters(bandwidth=K, length=1.0), slider(2.0), RATE)
    observer.update(arm.q, arm.v, arm.torque)
    found = []
    for i in range(100):
        arm.step(np.array([0.5 * np.sin(i)]), np.array([F, 0, 0, 0, 0, 0]))
        found.append(observer.update(arm.q, arm.v, arm.torque)[0])
    np.testing.assert_allclose(found, F * (1.0 - np.exp(-K * np.arange(1, 101) / RATE)), rtol=1e-9)


def test_a_moving_arm_is_told_the_wrench_on_its_tool() -> None:
    """Six axes under impedance control on a path, 1 % of a constant wrench once the filter has settled."""
    arm, F = arm_of("six_axes"), np.array([6.0, -4.0, 5.0, 0.3, -0.2, 0.4])
    control = ImpedanceController(ImpedanceParameters(), arm)
    observer = MomentumObserver(ObserverParameters(bandwidth=150.0), serial_arm(SIX_AXES), RATE)
    observer.update(arm.q, arm.v, arm.torque)
    start = arm.pose.copy()
    for i in range(400):
        target = start.copy()
        target[1] += 0.05 * np.sin(2 * np.pi * i / 400)
        arm.step(control.torque(target, NONE, NONE), F)
        found = observer.update(arm.q, arm.v, arm.torque)
    assert np.abs(arm.v).max() > 0.1
    np.testing.assert_allclose(found, F, atol=0.01 * np.abs(F).max())


def test_the_wrench_is_exact_away_from_singularities_and_bounded_at_them() -> None:
    rng = np.random.default_rng(3)
    length, least = 0.3, 0.05
    for _ in range(50):
        J, F = rng.normal(size=(6, 7)), rng.normal(size=6)
        np.testing.assert_allclose(wrench_of(J, J.T @ F, length, least), F, atol=1e-9)
    U, V = (np.linalg.qr(rng.normal(size=(6, 6)))[0] for _ in range(2))
    scale = np.repeat([1.0 / length, 1.0], 3)
    gains = []
    for smallest in (0.2, 0.05, 0.02, 1e-3, 0.0):
        J = (U * [2.0, 1.5, 1.0, 0.8, 0.5, smallest] @ V) / scale[:, None]
        gains.append(np.linalg.norm(wrench_of(J, V[5], length, least) / scale))
    assert gains == pytest.approx([5.0, 20.0, 8.0, 0.4, 0.0], abs=1e-9)  # s / max(s, s_min)^2, at most 1 / s_min


@pytest.mark.parametrize("name", ARMS)
def test_momentum_and_the_terms_of_the_observer_are_those_of_pinocchio(name: str) -> None:
    """M v and C^T v - g, in random states."""
    rng, arm = np.random.default_rng(20261), serial_arm(ARMS[name])
    model, data, n = arm.model, arm.model.createData(), arm.model.nv
    chain, H, momentum, driven = chain_at(arm, np.array(READY[name])), np.zeros((n + 1, 6)), np.zeros(n), np.zeros(n)
    packed = Packed(chain)
    for _ in range(20):
        chain.q[:], chain.v[:] = rng.uniform(-2.0, 2.0, (2, n))
        evaluate_chain(packed)
        fill_momentum(packed, H, momentum, driven)
        C = pin.computeCoriolisMatrix(model, data, chain.q, chain.v)
        upper = np.triu(pin.crba(model, data, chain.q))
        np.testing.assert_allclose(momentum, (upper + np.triu(upper, 1).T) @ chain.v, atol=1e-12)
        gravity = pin.computeGeneralizedGravity(model, data, chain.q)
        np.testing.assert_allclose(driven, C.T @ chain.v - gravity, atol=1e-11)


@pytest.mark.parametrize("smallest", [1.0, 0.04, 1e-5, 0.0])
def test_the_wrench_is_that_of_the_singular_values(smallest: float) -> None:
    """Of Jacobians of six and seven joints, also singular ones, by the singular value decomposition of NumPy."""
    rng, length, least = np.random.default_rng(5), 0.3, 0.05
    scale = np.repeat([1.0 / length, 1.0], 3)
    for n in (4, 6, 7):
        U, s, Vt = np.linalg.svd(rng.normal(size=(6, n)), full_matrices=False)
        s[-1] = smallest
        J, torque = (U * s @ Vt) / scale[:, None], rng.normal(size=n)
        expected = scale * (U @ (s / np.maximum(s, least) ** 2 * (Vt @ torque)))
        np.testing.assert_allclose(wrench_of(J, torque, length, least), expected, rtol=1e-9, atol=1e-9)


def test_a_sample_makes_no_arrays() -> None:
    arm, joints = serial_arm(SIX_AXES), np.random.default_rng(1).uniform(-1.0, 1.0, (3, 6))
    observer = MomentumObserver(ObserverParameters(), arm, RATE)
    observer.update(*joints)
    assert largest(lambda: observer.update(*joints)) < MOST
