"""The virtual coupling: wrenches that are the gradient of a potential at any rotation, and the check of its loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.spatial.transform import Rotation

from haptic_control.stability import CoupledInertias, diverges, spring_loop
from haptic_control.virtual_coupling import (
    VirtualCoupling,
    VirtualCouplingParameters,
    potential,
    virtual_coupling_problem,
)
from haptic_drivers.inertial import InertialDevice
from haptic_sim.messages import FORCE, DeviceCommand, DeviceState, ToolCommand, ToolSizes
from haptic_sim.parameters import explain
from haptic_sim.spatial import advance_pose

RATE = 1000.0  # [Hz]
T = 1.0 / RATE


def random_matrix(rng: np.random.Generator, rank: int = 6) -> np.ndarray:
    """A symmetric positive semidefinite matrix (6, 6) that couples translation and rotation."""
    units = np.diag([30.0, 30.0, 30.0, 1.0, 1.0, 1.0])
    Q = rng.normal(size=(6, rank))
    return units @ Q @ Q.T @ units


def random_pose(rng: np.random.Generator) -> np.ndarray:
    return np.concatenate([0.1 * rng.normal(size=3), Rotation.random(rng=rng).as_quat()])


def moved(pose: np.ndarray, motion: np.ndarray) -> np.ndarray:
    """A pose moved by (displacement, rotation vector in world axes)."""
    turned = Rotation.from_rotvec(motion[3:]) * Rotation.from_quat(pose[3:])
    return np.concatenate([pose[:3] + motion[:3], turned.as_quat()])


def energy(device: np.ndarray, tool: np.ndarray, K: np.ndarray) -> float:
    """The potential from the rotation matrix: 2 eta eps is the vector of its antisymmetric part; by SciPy."""
    turn = Rotation.from_quat(tool[3:]) * Rotation.from_quat(device[3:]).inv()
    R, angle = turn.as_matrix(), turn.magnitude()
    g = 0.5 * np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    eps = np.sin(0.5 * angle) * turn.as_rotvec() / angle
    p = tool[:3] - device[:3]
    return float(0.5 * p @ K[:3, :3] @ p + p @ K[:3, 3:] @ g + 0.5 * (2 * eps) @ K[3:, 3:] @ (2 * eps))


class Coupled:
    """The core and its messages."""

    def __init__(self, K: Any, B: Any = (0.0,) * 6):
        values = {"stiffness": np.ravel(K).tolist(), "damping": np.ravel(B).tolist()}
        self.core = VirtualCoupling(VirtualCouplingParameters.model_validate(values))
        self.device, self.tool = DeviceState(), ToolSizes(3, 3).tool_state()
        self.to_tool, self.to_device = ToolCommand(), DeviceCommand()

    def wrenches(self, device: np.ndarray, tool: np.ndarray, v: Any = 0.0, w: Any = 0.0) -> tuple[Any, Any]:
        """Wrenches on device and tool at poses, with twists `v` of the device and `w` of the tool."""
        self.device.pose[:], self.device.twist[:] = device, v
        self.tool.pose[:], self.tool.twist[:] = tool, w
        self.core.coordinate(self.device, self.tool, self.to_tool)
        self.core.command(self.tool, self.to_device)
        return self.to_device.wrench.copy(), self.to_tool.wrench.copy()


@pytest.mark.parametrize("seed", range(40))
def test_the_wrenches_are_the_gradient_of_the_potential(seed: int) -> None:
    """For full matrices, in central differences on the manifold, at rotations up to half a turn."""
    rng = np.random.default_rng(seed)
    K, device, tool = random_matrix(rng, rank=6 - seed % 3), random_pose(rng), random_pose(rng)
    on_device, on_tool = Coupled(K).wrenches(device, tool)
    h = 1e-6
    for wrench, energy_at in (
        (on_device, lambda motion: energy(moved(device, motion), tool, K)),
        (on_tool, lambda motion: energy(device, moved(tool, motion), K)),
    ):
        gradient = [(energy_at(h * e) - energy_at(-h * e)) / (2.0 * h) for e in np.eye(6)]
        np.testing.assert_allclose(wrench, -np.array(gradient), rtol=0, atol=2e-7 * np.abs(K).max())
    assert potential(device, tool, K) == pytest.approx(energy(device, tool, K), rel=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_the_potential_is_never_negative(seed: int) -> None:
    rng = np.random.default_rng(seed)
    K = random_matrix(rng, rank=1 + seed % 6)
    assert min(potential(random_pose(rng), random_pose(rng), K) for _ in range(200)) >= 0.0


def test_no_work_is_left_after_a_closed_motion_through_half_a_turn() -> None:
    """The tool goes round once about a generic axis and along a loop; work by the trapezoidal rule, of second order."""
    rng = np.random.default_rng(20260)
    K, device, start = random_matrix(rng), random_pose(rng), random_pose(rng)
    coupled, axis = Coupled(K), np.array([0.48, -0.6, 0.64])
    left, done = [], []
    for steps in (2000, 4000):
        motion = np.zeros((steps + 1, 6))
        t = np.linspace(0.0, 2.0 * np.pi, steps + 1)
        motion[:, :3] = 0.1 * np.stack([np.sin(t), 1.0 - np.cos(t), np.sin(2.0 * t)], axis=1)
        motion[:, 3:] = t[:, None] * axis
        poses = [moved(start, row) for row in motion]
        wrenches = np.array([coupled.wrenches(device, pose)[1] for pose in poses])
        work = np.sum(0.5 * (wrenches[1:] + wrenches[:-1]) * np.diff(motion, axis=0), axis=1)
        left.append(abs(work.sum()))
        done.append(np.abs(work).sum())
    assert left[0] < 1e-4 * done[0]
    assert left[1] < 0.3 * left[0] or left[1] < 1e-9 * done[1]


@pytest.mark.parametrize("seed", range(10))
def test_nothing_jumps_with_the_sign_of_a_quaternion_or_at_half_a_turn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    K, device = random_matrix(rng), random_pose(rng)
    axis = rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    coupled = Coupled(K)
    near = [moved(device, np.array([0.01, 0.02, -0.03, *(angle * axis)])) for angle in (np.pi - 1e-7, np.pi + 1e-7)]
    one, other = (np.concatenate(coupled.wrenches(device, pose)) for pose in near)
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-6 * np.abs(K).max())
    near[0][3:] *= -1.0
    np.testing.assert_array_equal(one, np.concatenate(coupled.wrenches(device, near[0])))


def test_an_isotropic_rotational_spring_has_the_torque_k_sin_angle() -> None:
    coupled, device = Coupled((0.0,) * 3 + (2.5,) * 3), np.array([0, 0, 0, 0, 0, 0, 1.0])
    for angle in (0.1, 1.0, np.pi / 2, 3.0):
        on_device, on_tool = coupled.wrenches(device, moved(device, np.array([0, 0, 0, 0, angle, 0])))
        np.testing.assert_allclose(on_device, [0, 0, 0, 0, 2.5 * np.sin(angle), 0], atol=1e-12)
        np.testing.assert_allclose(on_tool, -on_device, atol=1e-12)


def test_small_motions_have_the_matrices_as_they_are() -> None:
    """Wrench K x + B v of the differences on both sides; a diagonal is its matrix."""
    rng = np.random.default_rng(20260)
    K, B, device = random_matrix(rng), random_matrix(rng), random_pose(rng)
    x = 1e-6 * rng.normal(size=6)
    v, w = rng.normal(size=(2, 6))
    on_device, on_tool = Coupled(K, B).wrenches(device, moved(device, x), v, w)
    np.testing.assert_allclose(on_device, K @ x + B @ (w - v), rtol=1e-5)
    np.testing.assert_allclose(on_tool, -on_device, atol=1e-5)
    diagonal = rng.uniform(1.0, 100.0, 6)
    tool = random_pose(rng)
    for one, other in zip(
        Coupled(diagonal, diagonal).wrenches(device, tool, v, w),
        Coupled(np.diag(diagonal), np.diag(diagonal)).wrenches(device, tool, v, w),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("seed", range(20))
def test_the_damper_takes_power(seed: int) -> None:
    rng = np.random.default_rng(seed)
    B, pose = random_matrix(rng, rank=3), random_pose(rng)
    v, w = rng.normal(size=(2, 6))
    on_device, on_tool = Coupled(np.zeros(6), B).wrenches(pose, random_pose(rng), v, w)
    assert on_device @ v + on_tool @ w == pytest.approx(-(w - v) @ B @ (w - v), rel=1e-9)


def test_neither_the_operators_nor_the_environments_wrench_is_passed_on() -> None:
    rng = np.random.default_rng(20260)
    coupled, device, tool = Coupled(random_matrix(rng)), random_pose(rng), random_pose(rng)
    without = coupled.wrenches(device, tool)
    coupled.device.operator_wrench[:], coupled.tool.wrench[:] = rng.normal(size=(2, 6))
    np.testing.assert_array_equal(without, coupled.wrenches(device, tool))
    assert coupled.to_device.mode == FORCE


# Its sampled loop


def inertias(W: np.ndarray, device: tuple[float, float], **more: Any) -> CoupledInertias:
    return CoupledInertias(planar=False, tool=tuple(W.ravel().tolist()), device=device, **more)


def test_the_loop_of_full_matrices_is_refused_with_a_part_that_does() -> None:
    rng = np.random.default_rng(20260)
    refused = set()
    for _ in range(40):
        W = random_matrix(rng) * 1e-3
        device = (0.5, 0.01)
        A = W + np.diag([2.0] * 3 + [100.0] * 3)
        K, B = (10.0 ** rng.uniform(low, high) * random_matrix(rng) for low, high in ((0, 3), (-4, -1)))
        given = VirtualCouplingParameters(stiffness=tuple(K.ravel()), damping=tuple(B.ravel()))
        problem = virtual_coupling_problem(given, inertias(W, device), RATE)
        assert bool(problem) == diverges(spring_loop(A @ K, A @ B, T))
        refused.add(problem.split(":")[0])
        if not problem:
            continue
        part = float(problem.split("stable gains are ")[1].split(" times")[0])
        stiff = part if "stiffness" in problem.split(":")[0] else 1.0
        assert not diverges(spring_loop(A @ (stiff * K), A @ (part * B), T))
        assert diverges(spring_loop(A @ (1.05 * stiff * K), A @ (1.05 * part * B), T)) or stiff == 1.0
    assert refused == {"", "controller.damping", "controller.stiffness and controller.damping"}


def test_a_diagonal_is_refused_with_gains() -> None:
    given = VirtualCouplingParameters(stiffness=(1000.0,) * 3 + (2.5,) * 3, damping=(50.0,) * 3 + (0.5,) * 3)
    coupled = inertias(np.diag([2.0] * 3 + [2000.0] * 3), (0.5, 5e-4))
    problem = virtual_coupling_problem(given, coupled, RATE)
    assert problem.startswith(
        "controller.damping = [50, 50, 50, 0.5, 0.5, 0.5]: the sampled coupling at rate = 1000 Hz"
    )
    assert "controller.damping=[50,50,50,0.498,0.498,0.498]" in problem  # (4 / A - T^2 K) / (2 T), A = 4000


@pytest.mark.parametrize("factor", [0.98, 1.02])
def test_the_kernels_loop_is_bounded_up_to_the_limit(factor: float) -> None:
    """Damping alone, in one direction of a full matrix: A 2 T B = 4 is the limit."""
    rng = np.random.default_rng(20260)
    direction = np.array([1.0, 0.5, -0.3, 0.02, 0.01, -0.04])
    mass, inertia = 0.5, 5e-3
    A = np.diag([2.0 / mass] * 3 + [2.0 / inertia] * 3)
    B = factor * 2.0 / T / (direction @ A @ direction) * np.outer(direction, direction)
    coupled, hand = Coupled(np.zeros(6), B), InertialDevice(mass, inertia, planar=False)
    tool_pose, twist = hand.pose.copy(), 1e-7 * rng.normal(size=6)
    for _ in range(2000):
        on_device, on_tool = coupled.wrenches(hand.pose, tool_pose, hand.twist, twist)
        twist += T * on_tool / np.array([mass] * 3 + [inertia] * 3)
        advance_pose(twist, T, tool_pose)
        hand.step(np.zeros(6), on_device, T)
    assert (np.abs(twist).max() < 1e-5) == (factor < 1.0)
    W = np.diag([1.0 / mass] * 3 + [1.0 / inertia] * 3)
    given = VirtualCouplingParameters(stiffness=(0.0,) * 6, damping=tuple(B.ravel()))
    assert bool(virtual_coupling_problem(given, inertias(W, (mass, inertia)), RATE)) == (factor > 1.0)


# Bad input


def said(**values: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        VirtualCouplingParameters.model_validate(values)
    (problem,) = explain(caught.value, VirtualCouplingParameters, "controller.")
    return problem


def changed(i: int, j: int, value: float) -> list[float]:
    matrix = np.diag([100.0] * 3 + [0.5] * 3)
    matrix[i, j] = value
    return matrix.ravel().tolist()


def test_matrices_that_are_none_are_named() -> None:
    assert said(stiffness=[1.0] * 5).endswith(
        "has 5 values: must have 3 (x, y, rotation about z), 6, or 36, the rows of a matrix"
    )
    assert "has 3 in row 1, column 2, and 0 in row 2, column 1: must be symmetric" in said(stiffness=changed(0, 1, 3.0))
    assert said(stiffness=changed(4, 4, -0.1)) == "controller.stiffness[28] = -0.1: must be >= 0"
    assert said(damping=[1.0, -2.0, 3.0]) == "controller.damping[1] = -2: must be >= 0"
    assert "must be finite" in said(damping=changed(2, 2, float("nan")))
    indefinite = np.diag([100.0] * 3 + [0.5] * 3)
    indefinite[0, 3] = indefinite[3, 0] = 7.2  # 7.2^2 > 100 * 0.5
    assert "has a negative eigenvalue: must be positive semidefinite" in said(stiffness=indefinite.ravel().tolist())
    indefinite[0, 3] = indefinite[3, 0] = 7.0
    VirtualCouplingParameters.model_validate({"stiffness": indefinite.ravel().tolist()})
    without = np.diag([100.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    without[1, 2] = without[2, 1] = 1e-3
    assert "must be positive semidefinite" in said(stiffness=without.ravel().tolist())
