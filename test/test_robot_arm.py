"""The simulated arm: its dynamics, impedance and admittance at the tool, and its force sensor."""

from __future__ import annotations

import math

import numpy as np
import pinocchio as pin
import pytest

from haptic_control.virtual_coupling import potential
from haptic_robot.arm import Arm, FrictionParameters, step_joints
from haptic_robot.compliance import (
    Admittance,
    AdmittanceParameters,
    ImpedanceController,
    ImpedanceParameters,
    critical_damping,
    inertia_at_tool,
)
from haptic_robot.models import ARMS, READY, ArmModel, serial_arm
from haptic_robot.sensing import ForceSensor, SensorParameters, WallParameters, wall_array, wall_force
from haptic_sim.rotations import from_roll_pitch_yaw, matrix
from haptic_sim.spatial import advance_pose

RATE = 1000.0
NONE = np.zeros(6)


def arm_of(name: str, q: np.ndarray | None = None, **friction: float) -> Arm:
    start = np.array(READY[name]) if q is None else q
    return Arm(serial_arm(ARMS[name]), start, RATE, FrictionParameters(**friction))


def slider(mass: float) -> ArmModel:
    """One prismatic joint along x, without gravity."""
    model = pin.Model()
    model.gravity.linear[:] = 0.0
    joint = model.addJoint(0, pin.JointModelPX(), pin.SE3.Identity(), "slide")
    model.appendBodyToJoint(joint, pin.Inertia(mass, np.zeros(3), 0.1 * np.eye(3)), pin.SE3.Identity())
    model.lowerPositionLimit[:], model.upperPositionLimit[:] = -1.0, 1.0
    return ArmModel(model, model.addFrame(pin.Frame("tool", joint, pin.SE3.Identity(), pin.FrameType.OP_FRAME)))


def random_configuration(arm: Arm, rng: np.random.Generator) -> np.ndarray:
    """One whose Jacobian is far from singular."""
    while True:
        q = rng.uniform(-1.8, 1.8, arm.model.nv)
        pin.computeJointJacobians(arm.model, data := arm.model.createData(), q)
        J = pin.getFrameJacobian(arm.model, data, arm.tool, pin.LOCAL_WORLD_ALIGNED)
        if np.linalg.svd(J, compute_uv=False)[5] > 0.1:
            return q


def displaced(pose: np.ndarray, by: np.ndarray) -> np.ndarray:
    result = pose.copy()
    advance_pose(np.asarray(by), 1.0, result)
    return result


def test_one_axis_follows_the_oscillator() -> None:
    """m x'' + d x' + k x = F from rest: the closed form of a damped step, to the order of the period."""
    m, d, k, F = 2.0, 20.0, 800.0, 5.0
    gains = {"stiffness": (k, 1, 1, 1, 1, 1), "damping": (d, 0, 0, 0, 0, 0)}
    errors = []
    for rate in (1000.0, 2000.0):
        arm = Arm(slider(m), np.zeros(1), rate)
        control = ImpedanceController(ImpedanceParameters(**gains), arm)
        target, times, x = arm.pose.copy(), [], []
        for i in range(round(0.5 * rate)):
            arm.step(control.torque(target, NONE, NONE), np.array([F, 0, 0, 0, 0, 0]))
            times.append((i + 1) / rate)
            x.append(arm.pose[0])
        a, w = d / (2 * m), math.sqrt(k / m - (d / (2 * m)) ** 2)
        t = np.array(times)
        exact = F / k * (1 - np.exp(-a * t) * (np.cos(w * t) + a / w * np.sin(w * t)))
        errors.append(np.abs(np.array(x) - exact).max())
    assert errors[0] < 0.02 * F / k
    assert errors[1] / errors[0] == pytest.approx(0.5, abs=0.05)  # first order


@pytest.mark.parametrize("name", ARMS)
def test_the_stiffness_at_the_tool_is_that_of_the_parameters(name: str) -> None:
    """Under a wrench F the tool rests where the gradient of the potential is F, at any configuration."""
    rng = np.random.default_rng(32)
    K = np.diag([1500.0, 2500.0, 3500.0, 60.0, 80.0, 100.0])
    for _ in range(2):
        arm = arm_of(name, random_configuration(arm_of(name), rng))
        control = ImpedanceController(ImpedanceParameters(stiffness=tuple(np.diag(K))), arm)
        target, F = arm.pose.copy(), np.concatenate([rng.uniform(-8, 8, 3), rng.uniform(-1, 1, 3)])
        for _ in range(1500):
            arm.step(control.torque(target, NONE, NONE), F)
        slope = [
            (potential(target, displaced(arm.pose, h), K) - potential(target, displaced(arm.pose, -h), K)) / 2e-5
            for h in 1e-5 * np.eye(6)
        ]
        np.testing.assert_allclose(slope, F, rtol=1e-3, atol=1e-3)
        assert np.abs(arm.twist).max() < 1e-4


def test_gains_in_axes_of_the_target_turn_with_it() -> None:
    """At a target turned by 0.7 rad about a generic axis the tool gives way along turned axes, F = R K R^T x."""
    arm = arm_of("six_axes")
    gains = (1000.0, 2000.0, 4000.0, 50.0, 70.0, 90.0)
    control = ImpedanceController(ImpedanceParameters(stiffness=gains, damping=(0.0,) * 6, axes="target"), arm)
    target = displaced(arm.pose, np.array([0, 0, 0, *(0.7 * np.array([2.0, -1.0, 2.0]) / 3.0)]))
    arm.pose[3:] = target[3:]  # the tool is turned as the target is: no torque
    arm.pose[:3] = target[:3] + (x := np.array([1e-3, -2e-3, 5e-4]))
    torque = control.torque(target, NONE, NONE) - arm.h
    R = matrix(target[3:])
    expected = arm.J.T @ np.concatenate([-R @ np.diag(gains[:3]) @ R.T @ x, np.zeros(3)])
    np.testing.assert_allclose(torque, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ARMS)
def test_a_compliant_arm_at_a_wall_loses_energy(name: str) -> None:
    """Kinetic energy, potential of impedance and wall: passive, but for the ripple of the period."""
    arm = arm_of(name, dry=0.5, viscous=0.5)
    parameters = ImpedanceParameters(stiffness=(2000, 2000, 2000, 50, 50, 50), damping=(20, 20, 20, 0.5, 0.5, 0.5))
    control = ImpedanceController(parameters, arm)
    K = np.diag(parameters.stiffness)
    wall = wall_array(WallParameters(position=tuple(arm.pose[:3]), normal=(-1, 0.3, 0.2), stiffness=8000, damping=20))
    target = displaced(arm.pose, np.array([0.05, 0.02, -0.03, 0.2, -0.1, 0.3]))
    energies, pressed, acting = [], 0.0, np.zeros(6)
    for _ in range(700):
        depth = wall_force(arm.pose[:3], arm.twist[:3], wall, acting[:3])
        energies.append(arm.kinetic_energy + potential(target, arm.pose, K) + 0.5 * wall[6] * depth**2)
        pressed = max(pressed, depth)
        arm.step(control.torque(target, NONE, NONE), acting)
    assert pressed > 1e-3 and energies[-1] < 0.8 * energies[0]
    assert np.diff(energies).max() < 2e-3 * energies[0]


def test_hidden_motion_is_damped_and_not_felt_at_the_tool() -> None:
    arm, rng = arm_of("seven_axes"), np.random.default_rng(7)
    arm.v[:] = rng.normal(size=7)
    arm._evaluate()
    damped, free = (
        ImpedanceController(ImpedanceParameters(damping=(0,) * 6, joint_damping=d), arm).torque(arm.pose, NONE, NONE)
        for d in (4.0, 0.0)
    )
    torque = damped - free
    assert np.linalg.norm(torque) > 0.1 and arm.v @ torque < 0.0
    np.testing.assert_allclose(arm.J @ np.linalg.solve(arm.M, torque), 0.0, atol=1e-9)


def test_damping_of_a_ratio_is_that_of_each_mode() -> None:
    arm, ratio = arm_of("six_axes"), 0.7
    L, K = inertia_at_tool(arm.mobility()), np.diag([2000.0, 3000, 1000, 40, 80, 60])
    D = critical_damping(L, K, ratio)
    state = np.block([[np.zeros((6, 6)), np.eye(6)], [-np.linalg.solve(L, K), -np.linalg.solve(L, D)]])
    poles = np.linalg.eigvals(state)
    np.testing.assert_allclose(-poles.real / np.abs(poles), ratio, rtol=1e-6)


def test_admittance_shows_its_mass_damping_and_stiffness() -> None:
    """m x'' + d x' + k x = F from rest, critically damped: x = F/k (1 - (1 + w t) exp(-w t))."""
    m, k, F = 4.0, 1600.0, 8.0
    w = math.sqrt(k / m)
    gains = {"stiffness": (k,) * 3 + (10.0,) * 3, "damping": (2 * m * w,) * 3 + (1.0,) * 3}
    start = np.array([0.3, 0.1, 0.5, *from_roll_pitch_yaw(0.3, -0.7, 1.1)])
    yielding = Admittance(AdmittanceParameters(mass=m, **gains), start, RATE)
    n = np.array([2.0, -1.0, 2.0]) / 3.0
    x = []
    for _ in range(400):
        yielding.step(start, np.concatenate([F * n, np.zeros(3)]))
        x.append((yielding.pose[:3] - start[:3]) @ n)
    t = np.arange(1, 401) / RATE
    np.testing.assert_allclose(x, F / k * (1 - (1 + w * t) * np.exp(-w * t)), atol=0.01 * F / k)


def test_dry_friction_and_limits_are_the_minimum_of_the_function() -> None:
    """Against the conditions of the minimum (Coulomb's law in each joint), over random inertias."""
    rng = np.random.default_rng(5)
    for _ in range(300):
        n = 6
        B = rng.normal(size=(n, n))
        A, free = B @ B.T + 0.1 * np.eye(n), rng.normal(size=n)
        dry, lower, upper, v = rng.uniform(0, 2, n), -rng.uniform(0, 1, n), rng.uniform(0, 1, n), np.zeros(n)
        step_joints(A, free, lower, upper, dry, v)
        impulse = A @ (v - free)  # of friction and limits together
        assert np.all(v >= lower) and np.all(v <= upper)
        for i in range(n):
            low, high = (-dry[i], dry[i]) if v[i] == 0.0 else (-math.copysign(dry[i], v[i]),) * 2
            if v[i] >= upper[i]:
                low = -math.inf
            if v[i] <= lower[i]:
                high = math.inf
            assert low - 1e-6 <= impulse[i] <= high + 1e-6
        assert v @ A @ v <= free @ A @ free + 1e-9  # nothing is gained


def test_an_arm_without_torque_stops_at_the_limits_of_its_joints_and_sticks_by_friction() -> None:
    arm = arm_of("six_axes")
    for _ in range(1500):
        arm.step(np.zeros(6), NONE)
    assert np.all(arm.q >= arm.model.lowerPositionLimit - 1e-9) and np.all(arm.q <= arm.model.upperPositionLimit + 1e-9)
    held = arm_of("six_axes", dry=100.0)
    start = held.q.copy()
    for _ in range(50):
        held.step(np.zeros(6), NONE)
    np.testing.assert_array_equal(held.q, start)


def test_a_sensor_measures_in_its_own_axes_at_its_own_place() -> None:
    """A force at the tool has about the sensor the moment of its arm; in generic axes."""
    place, angles, bias = (0.02, -0.03, 0.05), (0.4, -0.7, 1.2), (1.0, 2.0, 3.0, 0.1, 0.2, 0.3)
    sensor = ForceSensor(SensorParameters(position=place, orientation=angles, bias=bias), RATE, seed=1)
    pose = np.array([0.3, 0.2, 0.4, *from_roll_pitch_yaw(0.7, 0.3, -0.9)])
    wrench = np.array([3.0, -2.0, 5.0, 0.3, 0.2, -0.4])
    measured = sensor.measure(pose, wrench) - bias
    R_BS = matrix(pose[3:]) @ matrix(from_roll_pitch_yaw(*angles))
    p_TS_B = matrix(pose[3:]) @ np.array(place)
    force = R_BS @ measured[:3]
    back = np.concatenate([force, R_BS @ measured[3:] + np.cross(p_TS_B, force)])
    np.testing.assert_allclose(back, wrench, atol=1e-12)
    expected = pin.SE3(R_BS, p_TS_B).actInv(pin.Force(wrench)).vector  # by Pinocchio
    np.testing.assert_allclose(measured, expected, atol=1e-12)


def test_a_sensor_is_late_and_noisy_by_what_it_says() -> None:
    late = ForceSensor(SensorParameters(delay=0.005), RATE, seed=1)
    pose = np.array([0, 0, 0, 0, 0, 0, 1.0])
    samples = [late.measure(pose, np.full(6, float(i)))[0] for i in range(20)]
    assert samples[5:] == [float(i) for i in range(15)] and samples[:5] == [0.0] * 5
    noisy = ForceSensor(SensorParameters(noise=(0.5, 0.02)), RATE, seed=2)
    drawn = np.array([noisy.measure(pose, NONE).copy() for _ in range(4000)])
    np.testing.assert_allclose(drawn.std(axis=0), [0.5] * 3 + [0.02] * 3, rtol=0.05)


def test_a_wall_never_pulls() -> None:
    rng, force = np.random.default_rng(9), np.zeros(3)
    for _ in range(500):
        normal = rng.normal(size=3)
        wall = wall_array(
            WallParameters(position=tuple(rng.normal(size=3)), normal=tuple(normal), stiffness=1e4, damping=100.0)
        )
        point = rng.normal(size=3)
        depth = wall_force(point, 10.0 * rng.normal(size=3), wall, force)
        assert force @ wall[3:6] >= 0.0 and (depth > 0.0 or not force.any())
