"""Inverse kinematics of arms: poses that are reached, and how near the tool comes to those that are not."""

from __future__ import annotations

import math

import numpy as np
import pinocchio as pin
import pytest
from scipy.optimize import least_squares

from haptic_robot.inverse import ITERATIONS, InverseKinematics
from haptic_robot.models import ARMS, READY, ArmModel, serial_arm

LENGTH, LEAST, SPEED, T = 0.3, 0.05, 1.0, 1e-3


class Tool:
    """Poses of an arm's tool by Pinocchio."""

    def __init__(self, name: str):
        self.arm: ArmModel = serial_arm(ARMS[name])
        self.data, self.home = self.arm.model.createData(), np.array(READY[name])

    def at(self, q: np.ndarray) -> pin.SE3:
        pin.forwardKinematics(self.arm.model, self.data, q)
        return pin.updateFramePlacement(self.arm.model, self.data, self.arm.tool).copy()

    def error(self, q: np.ndarray, wanted: pin.SE3) -> np.ndarray:
        """Of the pose (6,), lengths in LENGTH."""
        found = self.at(q)
        turn = pin.log3(wanted.rotation @ found.rotation.T)
        return np.concatenate([(wanted.translation - found.translation) / LENGTH, turn])

    def kinematics(self, speed: float = SPEED) -> InverseKinematics:
        made = InverseKinematics(self.arm, LENGTH, LEAST, speed, self.home)
        made.begin(self.home)
        return made


def pose_of(X: pin.SE3) -> np.ndarray:
    return np.array(pin.SE3ToXYZQUAT(X))


@pytest.mark.parametrize("name", ARMS)
def test_a_pose_that_moves_slowly_is_reached_in_each_step(name: str) -> None:
    """Along random paths from random postures, at speeds that a hand may command, beside Pinocchio."""
    rng, tool = np.random.default_rng(20260), Tool(name)
    for _ in range(5):
        q = tool.home + rng.uniform(-0.3, 0.3, tool.home.size)
        kinematics = tool.kinematics(speed=5.0)
        kinematics.begin(q)
        wanted, velocity, spin = tool.at(q), rng.normal(size=3), rng.normal(size=3)
        velocity, spin = 0.25 * velocity / np.linalg.norm(velocity), 0.5 * spin / np.linalg.norm(spin)
        for _ in range(100):
            wanted = pin.SE3(pin.exp3(T * spin) @ wanted.rotation, wanted.translation + T * velocity)
            before = kinematics.q.copy()
            kinematics.move(pose_of(wanted), T)
            assert np.linalg.norm(tool.error(kinematics.q, wanted)) < 1e-9 and kinematics.problem == ""
            assert np.abs(kinematics.q - before).max() < 5.0 * T


@pytest.mark.parametrize("name", ARMS)
def test_joints_keep_their_speeds_and_limits_whatever_is_commanded(name: str) -> None:
    """Poses far away, beyond reach and turned over, each for some steps; what is given stays finite."""
    rng, tool = np.random.default_rng(20261), Tool(name)
    low, high = tool.arm.model.lowerPositionLimit, tool.arm.model.upperPositionLimit
    kinematics = tool.kinematics()
    for _ in range(40):
        X = pin.SE3.Random()
        pose = pose_of(pin.SE3(X.rotation, rng.choice([0.1, 1.0, 100.0]) * rng.normal(size=3)))
        for _ in range(rng.integers(1, 30)):
            before = kinematics.q.copy()
            kinematics.move(pose, 0.05)
            assert np.abs(kinematics.q - before).max() <= SPEED * 0.05 * (1.0 + 1e-12)
            assert (low <= kinematics.q).all() and (kinematics.q <= high).all()
    assert np.isfinite(kinematics.q).all()


def test_a_pose_beyond_reach_is_approached_to_the_least_error_and_said() -> None:
    """A stretched arm: J^T e = 0, which is where the tool is as near as it can come; and it comes back from there."""
    tool = Tool("six_axes")
    kinematics, home = tool.kinematics(speed=100.0), tool.at(tool.home)
    far = pin.SE3(home.rotation, home.translation + np.array([2.0, 0.4, 0.1]))
    for _ in range(3000):
        kinematics.move(pose_of(far), T)
    J = pin.computeFrameJacobian(tool.arm.model, tool.data, kinematics.q, tool.arm.tool, pin.LOCAL_WORLD_ALIGNED)
    error = tool.error(kinematics.q, far)
    gradient = (J / np.repeat([LENGTH, 1.0], 3)[:, None]).T @ error
    assert np.linalg.norm(gradient) < 1e-3 * np.linalg.norm(error)
    assert "posture is nearly singular" in kinematics.problem and "from the commanded pose" in kinematics.problem
    for _ in range(3000):
        kinematics.move(pose_of(home), T)
    assert np.linalg.norm(tool.error(kinematics.q, home)) < 1e-9 and kinematics.problem == ""


def test_a_joint_at_its_limit_stays_there_and_the_others_come_as_near_as_they_can() -> None:
    """Beside a bounded least-squares solution of SciPy that begins at the same posture."""
    tool = Tool("six_axes")
    model = tool.arm.model
    wanted = tool.at(tool.home + np.array([0.0, 0.1, 0.0, 0.05, 0.4, 0.1]))
    model.upperPositionLimit[4] = tool.home[4] + 0.2
    kinematics = tool.kinematics(speed=100.0)
    for _ in range(5000):
        kinematics.move(pose_of(wanted), T)
    solved = least_squares(
        lambda q: tool.error(q, wanted),
        tool.home,
        bounds=(model.lowerPositionLimit, model.upperPositionLimit),
        xtol=1e-15,
        ftol=1e-15,
        gtol=1e-12,
    )
    assert kinematics.q[4] == model.upperPositionLimit[4]
    assert np.linalg.norm(tool.error(kinematics.q, wanted)) == pytest.approx(math.sqrt(2.0 * solved.cost), rel=1e-4)
    assert f"joint_5 is at its limit, {model.upperPositionLimit[4]:.4g} rad" in kinematics.problem


def test_a_joint_beyond_its_limit_is_not_driven_further_and_may_come_back() -> None:
    tool = Tool("six_axes")
    model, start = tool.arm.model, tool.home.copy()
    model.upperPositionLimit[1] = start[1] - 0.05
    kinematics = tool.kinematics()
    for shift, expected in ((0.02, start[1]), (-0.02, start[1] - 0.02)):
        kinematics.begin(start)
        for _ in range(200):
            kinematics.move(pose_of(tool.at(start + np.array([0.0, shift, 0.0, 0.0, 0.0, 0.0]))), T)
        assert kinematics.q[1] <= start[1] + 1e-12
        if shift < 0.0:
            assert kinematics.q[1] == pytest.approx(expected, abs=1e-6)


def test_through_a_singularity_the_joints_stay_bounded_and_the_tool_is_led_on() -> None:
    """The wrist is stretched along a path and bent the other way: dq is at most that of the damped inverse."""
    tool = Tool("six_axes")
    kinematics = tool.kinematics(speed=1e3)
    begun = tool.home + np.array([0.0, 0.0, 0.0, 0.3, 0.0, 0.0])
    kinematics.begin(begun)
    largest = 0.0
    for angle in np.linspace(begun[4], -begun[4], 2000):
        q = begun.copy()
        q[4] = angle
        wanted = tool.at(q)
        before, asked = kinematics.q.copy(), np.linalg.norm(tool.error(kinematics.q, wanted))
        kinematics.move(pose_of(wanted), T)
        assert np.linalg.norm(kinematics.q - before) <= ITERATIONS * asked / LEAST
        largest = max(largest, float(np.linalg.norm(tool.error(kinematics.q, wanted))))
    assert largest < 0.1
    for _ in range(2000):
        kinematics.move(pose_of(wanted), T)
    assert np.linalg.norm(tool.error(kinematics.q, wanted)) < 1e-6 and kinematics.problem == ""


def test_a_command_that_is_too_fast_is_followed_in_the_same_direction_and_said() -> None:
    tool = Tool("six_axes")
    kinematics = tool.kinematics()
    goal = tool.home + np.array([0.02, -0.01, 0.015, 0.0, 0.005, -0.02])
    kinematics.move(pose_of(tool.at(goal)), T)
    np.testing.assert_allclose(kinematics.q - tool.home, (goal - tool.home) * SPEED * T / 0.02, atol=1e-9)
    assert "a joint would be faster" in kinematics.problem
    for _ in range(30):
        kinematics.move(pose_of(tool.at(goal)), T)
    np.testing.assert_allclose(kinematics.q, goal, atol=1e-9)
    assert kinematics.problem == ""


def test_a_stretched_arm_bends_for_what_is_nearer_and_as_it_is_bent_at_home() -> None:
    """Along the direction that it has lost, by 10 mm to both sides: J^T e = 0 there, to first order nothing helps."""
    tool = Tool("six_axes")
    stretched = tool.home.copy()
    stretched[2] = 0.0
    start = tool.at(stretched)
    pin.computeJointJacobians(tool.arm.model, tool.data, stretched)
    J = pin.getFrameJacobian(tool.arm.model, tool.data, tool.arm.tool, pin.LOCAL_WORLD_ALIGNED)
    U, s, _ = np.linalg.svd(J / np.repeat([LENGTH, 1.0], 3)[:, None])
    assert s[-1] < 1e-12
    elbows = []
    for sign in (1.0, -1.0):
        lost = sign * 0.01 / LENGTH * U[:, -1]
        wanted = pin.SE3(pin.exp3(lost[3:]) @ start.rotation, start.translation + LENGTH * lost[:3])
        kinematics = tool.kinematics()
        kinematics.begin(stretched)
        for _ in range(3000):
            kinematics.move(pose_of(wanted), T)
        reached = np.linalg.norm(tool.error(kinematics.q, wanted)) < 1e-9
        assert reached == (kinematics.problem == "")
        elbows.append((reached, kinematics.q[2]))
    (_, straight), (_, bent) = sorted(elbows)
    assert {reached for reached, _ in elbows} == {False, True}
    assert bent > 0.05 and abs(straight) < 2e-3
