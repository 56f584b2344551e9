"""Dynamics of an arm in kernels, beside Pinocchio's, for trees of random joints."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pinocchio as pin
import pytest

from haptic_robot.adapters import FziParameters
from haptic_robot.arm import Arm, FrictionParameters
from haptic_robot.compliance import ImpedanceController, ImpedanceParameters, inertia_at_tool
from haptic_robot.dynamics import chain_of, evaluate_chain
from haptic_robot.models import ARMS, READY, SPEED, ArmModel, serial_arm
from haptic_robot.simulated import SimulatedArm, SimulatedArmParameters
from haptic_sim.packed import Packed


def random_tree(rng: np.random.Generator, count: int) -> ArmModel:
    """Joints that turn and slide along generic axes, also beside the way to the tool, under a tilted gravity."""
    model = pin.Model()
    model.gravity.linear[:] = rng.normal(size=3) * 5.0
    path = [0]  # to the last joint: one of these is before the next, as Pinocchio numbers a tree depth first
    for i in range(count):
        axis = rng.normal(size=3)
        axis /= np.linalg.norm(axis)
        kinds = (pin.JointModelRevoluteUnaligned(axis), pin.JointModelPrismaticUnaligned(axis), pin.JointModelRY())
        kind = kinds[rng.integers(3)]
        del path[max(1, len(path) - int(rng.integers(3))) :]
        joint = model.addJoint(path[-1], kind, pin.SE3.Random(), f"joint_{i}")
        path.append(joint)
        model.appendBodyToJoint(joint, pin.Inertia.Random(), pin.SE3.Random())
    model.armature = rng.uniform(0.0, 0.2, count)
    frame = pin.Frame("tool", int(rng.integers(1, count + 1)), pin.SE3.Random(), pin.FrameType.OP_FRAME)
    return ArmModel(model, model.addFrame(frame))


def test_dynamics_are_those_of_pinocchio() -> None:
    rng = np.random.default_rng(20261)
    pin.seed(20261)
    for _ in range(40):
        arm = random_tree(rng, int(rng.integers(1, 9)))
        (model, tool), chain = arm, chain_of(arm)
        packed, data = Packed(chain), arm.model.createData()
        for _ in range(3):
            chain.q[:], chain.v[:] = rng.uniform(-3, 3, model.nv), rng.uniform(-3, 3, model.nv)
            evaluate_chain(packed)
            pin.computeAllTerms(model, data, chain.q, chain.v)
            pin.updateFramePlacement(model, data, tool)
            M = np.triu(data.M.reshape(model.nv, -1))
            scale = np.abs(M).max()
            np.testing.assert_allclose(chain.M, M + np.triu(M, 1).T, atol=1e-12 * scale)
            np.testing.assert_allclose(chain.h, data.nle, atol=1e-12 * max(1.0, np.abs(data.nle).max()))
            J = pin.getFrameJacobian(model, data, tool, pin.LOCAL_WORLD_ALIGNED).reshape(6, -1)
            np.testing.assert_allclose(chain.J, J, atol=1e-11)
            np.testing.assert_allclose(chain.twist, J @ chain.v, atol=1e-10)
            found = pin.XYZQUATToSE3(chain.pose)
            np.testing.assert_allclose(found.homogeneous, data.oMf[tool].homogeneous, atol=1e-12)


def test_torques_at_the_tool_are_those_of_the_formula() -> None:
    """tau = h + J^T F - d N N^T v, N = 1 - J^T L J M^-1, of the arm of seven axes, also where it is singular."""
    rng = np.random.default_rng(20262)
    for q in (np.array(READY["seven_axes"]), np.zeros(7), rng.uniform(-2, 2, 7)):
        arm = Arm(serial_arm(ARMS["seven_axes"]), q, 1000.0)
        control = ImpedanceController(ImpedanceParameters(joint_damping=3.0), arm)
        arm.v[:] = rng.normal(size=7)
        arm._evaluate()
        target, wrench = arm.pose.copy(), rng.normal(size=6)
        found = control.torque(target, arm.twist.copy(), wrench)  # the damper is at rest
        across = np.linalg.solve(arm.M, arm.J.T)
        N = np.eye(7) - arm.J.T @ inertia_at_tool(arm.J @ across) @ across.T
        expected = arm.h + arm.J.T @ wrench - 3.0 * N @ N.T @ arm.v
        np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize("name", ["six_axes", "seven_axes"])
def test_a_step_allocates_nothing_that_stays(name: str) -> None:
    """Of the arm and its controller: what is allocated in a thousand steps is less than a byte in each."""
    arm = Arm(serial_arm(ARMS[name]), np.array(READY[name]), 1000.0, FrictionParameters(dry=0.1, viscous=0.2))
    control, target, none = ImpedanceController(ImpedanceParameters(), arm), arm.pose.copy(), np.zeros(6)
    target[0] += 0.01

    def step(count: int) -> None:
        for _ in range(count):
            arm.step(control.torque(target, none, none), none)

    step(3)
    tracemalloc.start()
    try:
        step(10)
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        step(1000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < 1000  # bytes at once: no array is made, which takes 112 and more in each step


def test_an_arm_in_free_fall_keeps_its_energy() -> None:
    """Independent of all terms: kinetic and potential energy of the motion without torques, to first order of T."""
    drift = []
    for rate in (2000.0, 4000.0):
        model = serial_arm(ARMS["six_axes"])
        model.model.velocityLimit[:] = 100.0 * SPEED
        arm = Arm(model, np.array(READY["six_axes"]), rate)
        begun = arm.kinetic_energy + arm.potential_energy
        for _ in range(round(0.2 * rate)):
            arm.step(np.zeros(6), np.zeros(6))
        drift.append(abs(arm.kinetic_energy + arm.potential_energy - begun))
        assert arm.kinetic_energy > 5.0
    assert drift[1] == pytest.approx(0.5 * drift[0], rel=0.1) and drift[1] < 0.05


def test_an_arm_of_an_adapter_follows_with_either_control() -> None:
    for control in ("impedance", "admittance"):
        arm = SimulatedArm(SimulatedArmParameters(model="seven_axes", control=control), FziParameters(), 1000.0)
        arm.target[0] += 0.01
        for _ in range(1000):
            arm.step()
        np.testing.assert_allclose(arm.arm.pose[:3], arm.target[:3], atol=2e-3)
