"""The tool's dynamics: closed forms for a free peg; positions and differences of them for a general arm."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from scipy.spatial.transform import Rotation

from haptic_sim.multibody import Multibody, planar_body

T = 1.0 / 512.0  # [s]
MASS, INERTIA = 2.0, 0.005  # [kg], [kg m^2]


def peg(q: object = (0, 0, 0), v: object = (0, 0, 0)) -> Multibody:
    model, hand = planar_body(MASS, INERTIA)
    return Multibody(model, hand, np.array(q, float), np.array(v, float))


def advance(body: Multibody, force: np.ndarray, wrench: np.ndarray, period: float) -> None:
    """A step under a generalized force and a wrench at the hand."""
    du = np.zeros(body.nv)
    body.push(wrench, period, du)
    body.move(body.u + du + np.linalg.solve(body.L, force) * period, period)


def arm(rng: np.random.Generator) -> Multibody:
    """A chain of four links with random axes, frames and inertias, with gravity, held off every joint."""
    model = pin.Model()
    parent = 0
    for i in range(4):
        axis = rng.normal(size=3)
        placement = pin.SE3(Rotation.random(rng=rng).as_matrix(), rng.normal(size=3))
        joint = pin.JointModelRevoluteUnaligned(axis / np.linalg.norm(axis))
        parent = model.addJoint(parent, joint, placement, f"joint{i}")
        sides = rng.uniform(0.1, 1.0, 3)
        inertia = np.diag([sides[1] + sides[2], sides[0] + sides[2], sides[0] + sides[1]])  # of a possible body
        turn = Rotation.random(rng=rng).as_matrix()
        body = pin.Inertia(rng.uniform(0.5, 2.0), rng.normal(size=3), turn @ inertia @ turn.T)
        model.appendBodyToJoint(parent, body, pin.SE3.Identity())
    placement = pin.SE3(Rotation.random(rng=rng).as_matrix(), rng.normal(size=3))
    hand = model.addFrame(pin.Frame("hand", parent, placement, pin.FrameType.OP_FRAME))
    return Multibody(model, hand, rng.uniform(-np.pi, np.pi, 4), rng.normal(size=4))


def placements(body: Multibody, q: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray, np.ndarray]:
    """Centres of mass and orientations of the links, position and orientation of the hand: positions only."""
    model, data = body.model, body.model.createData()
    pin.framesForwardKinematics(model, data, q)
    links = range(1, model.njoints)
    centres = [data.oMi[i].act(model.inertias[i].lever) for i in links]
    turns = [data.oMi[i].rotation.copy() for i in links]
    hand = data.oMf[body.hand]
    return centres, turns, hand.translation.copy(), hand.rotation.copy()


def jacobians(body: Multibody, h: float = 1e-6) -> tuple[np.ndarray, list[np.ndarray]]:
    """Central differences on the manifold: of the hand (6, nv), and of each link's centre of mass."""
    hand, links = np.zeros((6, body.nv)), [np.zeros((6, body.nv)) for _ in range(body.model.njoints - 1)]
    for j in range(body.nv):
        step = np.zeros(body.nv)
        step[j] = h
        c1, R1, p1, H1 = placements(body, pin.integrate(body.model, body.q, step))
        c0, R0, p0, H0 = placements(body, pin.integrate(body.model, body.q, -step))
        hand[:3, j] = (p1 - p0) / (2 * h)
        hand[3:, j] = Rotation.from_matrix(H1 @ H0.T).as_rotvec() / (2 * h)
        for i, J in enumerate(links):
            J[:3, j] = (c1[i] - c0[i]) / (2 * h)
            J[3:, j] = Rotation.from_matrix(R1[i] @ R0[i].T).as_rotvec() / (2 * h)
    return hand, links


@pytest.mark.parametrize("seed", range(5))
def test_arm_against_differences_of_its_positions(seed: int) -> None:
    body = arm(np.random.default_rng(20260 + seed))
    J_H, links = jacobians(body)
    np.testing.assert_allclose(body.J_H, J_H, rtol=0, atol=2e-8)

    # D = sum of m Jv^T Jv + Jw^T (R I R^T) Jw over the links
    _, turns, p_WH, R_WH = placements(body, body.q)
    D = np.zeros((4, 4))
    for i, J in enumerate(links):
        inertia = body.model.inertias[i + 1]
        I_W = turns[i] @ inertia.inertia @ turns[i].T
        D += inertia.mass * J[:3].T @ J[:3] + J[3:].T @ I_W @ J[3:]
    np.testing.assert_allclose(body.D, D, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(body.D, body.D.T)
    np.testing.assert_allclose(np.tril(body.L) @ np.tril(body.L).T, body.D, rtol=0, atol=1e-13)

    assert body.kinetic_energy[0] == pytest.approx(0.5 * body.v @ D @ body.v, rel=1e-6)
    assert body.kinetic_energy[0] == pytest.approx(0.5 * body.v @ body.D @ body.v, rel=1e-14)
    np.testing.assert_allclose(body.twist, J_H @ body.v, rtol=0, atol=1e-7)
    expected = body.J_H @ np.linalg.solve(body.D, body.J_H.T)
    np.testing.assert_allclose(body.inverse_inertia.reshape(6, 6), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(body.pose[:3], p_WH, rtol=0, atol=1e-15)
    np.testing.assert_allclose(Rotation.from_quat(body.pose[3:]).as_matrix(), R_WH, rtol=0, atol=1e-15)


@pytest.mark.parametrize("seed", range(5))
def test_arm_step_is_semi_implicit_euler_of_its_equation_of_motion(seed: int) -> None:
    """D vdot = force + J^T wrench - rnea(q, v, 0), velocity before position."""
    rng = np.random.default_rng(20270 + seed)
    body = arm(rng)
    q, v, D, J = body.q.copy(), body.v.copy(), body.D.copy(), body.J_H.copy()
    force, wrench = rng.normal(size=4), rng.normal(size=6)
    bias = pin.rnea(body.model, body.model.createData(), q, v, np.zeros(4))
    v_after = v + T * np.linalg.solve(D, force + J.T @ wrench - bias)
    advance(body, force.copy(), wrench, T)
    np.testing.assert_allclose(body.v, v_after, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(body.q, q + T * body.v, rtol=0, atol=1e-14)
    np.testing.assert_allclose(body.twist, jacobians(body)[0] @ body.v, rtol=0, atol=1e-7)  # refreshed


@pytest.mark.parametrize("angle", [0.0, 0.7, -2.5, 40.0])
def test_peg_at_any_angle_has_constant_inertia_in_world_axes(angle: float) -> None:
    body = peg((0.3, -0.2, angle), (0.5, -1.5, 8.0))
    np.testing.assert_array_equal(body.D, np.diag([MASS, MASS, INERTIA]))
    np.testing.assert_allclose(body.bias, np.zeros(3), rtol=0, atol=1e-15)
    energy = 0.5 * MASS * (0.5**2 + 1.5**2) + 0.5 * INERTIA * 8.0**2
    assert body.kinetic_energy[0] == pytest.approx(energy, rel=1e-15)
    np.testing.assert_allclose(body.twist, [0.5, -1.5, 0, 0, 0, 8.0], rtol=0, atol=1e-15)
    inverse = np.diag([1 / MASS, 1 / MASS, 0, 0, 0, 1 / INERTIA])
    np.testing.assert_allclose(body.inverse_inertia.reshape(6, 6), inverse, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(body.pose[:3], [0.3, -0.2, 0.0])
    turn = Rotation.from_rotvec([0, 0, angle])
    np.testing.assert_allclose(Rotation.from_quat(body.pose[3:]).as_matrix(), turn.as_matrix(), rtol=0, atol=1e-15)


def test_free_peg_under_a_constant_wrench_follows_the_closed_form() -> None:
    """v_k = a T k and x_k = a T^2 k (k + 1) / 2: ahead of the parabola a t^2 / 2 by a T t / 2."""
    wrench = np.array([0.32, -0.4, 0.0, 0.0, 0.0, 0.003])
    a = wrench[[0, 1, 5]] / [MASS, MASS, INERTIA]
    body = peg()
    for k in range(1, 1793):
        advance(body, np.zeros(3), wrench, T)
        np.testing.assert_allclose(body.v, a * T * k, rtol=1e-12)
        np.testing.assert_allclose(body.q, a * T**2 * (k * (k + 1) / 2), rtol=1e-12)
    ahead = body.q - 0.5 * a * (k * T) ** 2
    np.testing.assert_allclose(ahead, 0.5 * a * T * (k * T), rtol=1e-8)
    assert body.kinetic_energy[0] == pytest.approx(
        0.5 * (k * T) ** 2 * (wrench[:2] @ wrench[:2] / MASS + wrench[5] ** 2 / INERTIA), rel=1e-12
    )


def test_wrench_out_of_the_plane_moves_nothing() -> None:
    body = peg((0.1, 0.2, 0.7))
    for _ in range(10):
        advance(body, np.zeros(3), np.array([0, 0, 5.0, 3.0, -2.0, 0]), T)
    np.testing.assert_array_equal(body.v, np.zeros(3))
    np.testing.assert_array_equal(body.q, [0.1, 0.2, 0.7])


def test_generalized_force_and_wrench_are_the_same_in_world_axes() -> None:
    """Also when the peg is turned: the coordinates have world axes."""
    one, other = peg((0, 0, 0.7)), peg((0, 0, 0.7))
    advance(one, np.array([0.3, -0.2, 0.01]), np.zeros(6), T)
    advance(other, np.zeros(3), np.array([0.3, -0.2, 0, 0, 0, 0.01]), T)
    np.testing.assert_allclose(one.v, other.v, rtol=1e-15)
    np.testing.assert_allclose(one.v, T * np.array([0.3 / MASS, -0.2 / MASS, 0.01 / INERTIA]), rtol=1e-15)


def test_free_flight_with_spin_conserves_momentum_and_energy() -> None:
    v = np.array([0.31, -0.47, 11.0])
    body = peg((0.0, 0.0, 0.3), v)
    energy = body.kinetic_energy[0]
    for _ in range(10_000):
        advance(body, np.zeros(3), np.zeros(6), T)
    np.testing.assert_allclose(body.v, v, rtol=1e-13)
    assert body.kinetic_energy[0] == pytest.approx(energy, rel=1e-13)
    np.testing.assert_allclose(body.q, [0, 0, 0.3] + v * (10_000 * T), rtol=1e-11)
    assert np.linalg.norm(body.pose[3:]) == pytest.approx(1.0, abs=1e-14)
