"""The momentum observer: its first-order response, and the wrench near singularities."""

from __future__ import annotations

import numpy as np
import pytest
from test_robot_arm import NONE, RATE, arm_of, slider

from haptic_robot.arm import Arm
from haptic_robot.compliance import ImpedanceController, ImpedanceParameters
from haptic_robot.models import SIX_AXES, serial_arm
from haptic_robot.observer import MomentumObserver, ObserverParameters, tool_wrench


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
        np.testing.assert_allclose(tool_wrench(J, J.T @ F, length, least), F, atol=1e-9)
    U, V = (np.linalg.qr(rng.normal(size=(6, 6)))[0] for _ in range(2))
    scale = np.repeat([1.0 / length, 1.0], 3)
    gains = []
    for smallest in (0.2, 0.05, 0.02, 1e-3, 0.0):
        J = (U * [2.0, 1.5, 1.0, 0.8, 0.5, smallest] @ V) / scale[:, None]
        gains.append(np.linalg.norm(tool_wrench(J, V[5], length, least) / scale))
    assert gains == pytest.approx([5.0, 20.0, 8.0, 0.4, 0.0], abs=1e-9)  # s / max(s, s_min)^2, at most 1 / s_min
