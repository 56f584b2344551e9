"""The tool's dynamics: closed forms for a free peg; positions and differences of them for a general arm."""

from __future__ import annotations

import math
import platform

import numpy as np
import pinocchio as pin
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from haptic_sim.dynamics.multibody import Multibody, SurveyedMultibody, free_joint, planar_body, planar_joint

T = 1.0 / 512.0  # [s]
MASS, INERTIA = 2.0, 0.005  # [kg], [kg m^2]


def peg(q: object = (0, 0, 0), v: object = (0, 0, 0)) -> Multibody:
    model, hand = planar_body(MASS, INERTIA)
    return Multibody(model, hand, np.array(q, float), np.array(v, float))


def advance(body: Multibody, force: np.ndarray, wrench: np.ndarray, period: float) -> None:
    """A step under a generalized force and a wrench at the hand."""
    du = np.zeros(body.nv)
    body.push(wrench, period, du)
    body.move(body.u + du + np.linalg.solve(body.by_coordinates(body.L), force) * period, period)


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


# free bodies


def free_body(
    inertia: object, v: object, mass: float = 2.0, turn: object = (0.3, -0.5, 0.7), gravity: float = 0.0
) -> Multibody:
    """A free body at an orientation in general position; `inertia`: principal moments or a matrix [kg m^2]."""
    model = pin.Model()
    joint = model.addJoint(0, free_joint(), pin.SE3.Identity(), "body")
    tensor = np.array(inertia, float)
    tensor = np.diag(tensor) if tensor.ndim == 1 else tensor
    model.appendBodyToJoint(joint, pin.Inertia(mass, np.zeros(3), tensor), pin.SE3.Identity())
    model.gravity.linear[:] = 0.0, 0.0, -gravity
    hand = model.addFrame(pin.Frame("hand", joint, pin.SE3.Identity(), pin.FrameType.OP_FRAME))
    q = np.concatenate([[0.1, -0.2, 0.3], Rotation.from_rotvec(turn).as_quat()])
    return Multibody(model, hand, q, np.array(v, float))


def angular_momentum(body: Multibody) -> np.ndarray:
    """About the centre of mass, in world axes."""
    return Rotation.from_quat(body.q[3:7]).as_matrix() @ (body.model.inertias[1].inertia @ body.v[3:6])


TUMBLING = (0.3, -0.1, 0.2, 0.05, 7.0, 0.08)  # spins about its middle axis, which is unstable


@pytest.mark.parametrize("period", [T, 0.02])
def test_a_tumbling_body_conserves_momentum_and_energy(period: float) -> None:
    """Implicit midpoint keeps both to rounding, whatever the step: 0.14 rad a step at 0.02 s."""
    rng = np.random.default_rng(20300)
    turn = Rotation.random(rng=rng).as_matrix()
    body = free_body(turn @ np.diag([0.01, 0.02, 0.025]) @ turn.T, [*TUMBLING[:3], *(turn @ TUMBLING[3:])])
    momentum, energy = angular_momentum(body), body.kinetic_energy[0]
    fastest = np.zeros(3)
    for _ in range(5000):
        body.move(body.u, period)
        fastest = np.maximum(fastest, np.abs(turn.T @ body.v[3:6]))
    assert (fastest > 2.0).all()  # it did tumble: no axis kept the spin
    np.testing.assert_allclose(angular_momentum(body), momentum, rtol=0, atol=1e-11 * np.linalg.norm(momentum))
    assert body.kinetic_energy[0] == pytest.approx(energy, rel=1e-12)
    np.testing.assert_allclose(body.v[:3], TUMBLING[:3], rtol=1e-12)
    np.testing.assert_allclose(body.q[:3], [0.1, -0.2, 0.3] + 5000 * period * body.v[:3], rtol=1e-10)
    assert np.linalg.norm(body.q[3:]) == pytest.approx(1.0, abs=1e-12)


def test_rotation_of_a_free_body_is_of_second_order() -> None:
    """Against SciPy's DOP853 for Euler's equations and the quaternion: a quarter of the error with half the step."""
    inertia = np.array([0.01, 0.02, 0.025])
    end = 0.6  # [s]

    def rates(_: float, y: np.ndarray) -> np.ndarray:
        q, w = y[:4], y[4:]
        x, y_, z, s = q
        turning = 0.5 * np.array([[s, -z, y_], [z, s, -x], [-y_, x, s], [-x, -y_, -z]]) @ w
        return np.concatenate([turning, -np.cross(w, inertia * w) / inertia])

    start = free_body(inertia, TUMBLING)
    exact = solve_ivp(rates, (0, end), np.concatenate([start.q[3:], start.v[3:]]), "DOP853", rtol=1e-12, atol=1e-14)
    R = Rotation.from_quat(exact.y[:4, -1])
    errors = []
    for steps in (150, 300, 600):
        body = free_body(inertia, TUMBLING)
        for _ in range(steps):
            body.move(body.u, end / steps)
        turned = (Rotation.from_quat(body.q[3:]) * R.inv()).magnitude()
        errors.append([turned, np.linalg.norm(body.v[3:] - exact.y[4:, -1])])
    ratios = np.array(errors)[:-1] / np.array(errors)[1:]
    np.testing.assert_allclose(ratios, 4.0, rtol=0.05)
    assert errors[-1][0] < 2e-4


def test_a_symmetric_top_precesses_at_the_closed_form_rate() -> None:
    """Free precession: the axis turns about the momentum P at |P| / I_1; midpoint's is slower by (h rate)^2 / 12."""
    I1, I3, spin, wobble, h = 0.01, 0.018, 20.0, 3.0, 1e-3
    body = free_body([I1, I1, I3], [0, 0, 0, wobble, 0, spin], turn=(0, 0, 0))
    P = angular_momentum(body)
    rate, steps = float(np.linalg.norm(P)) / I1, 500
    along = P / np.linalg.norm(P)
    before = np.array([0.0, 0.0, 1.0])
    angle = 0.0
    for _ in range(steps):
        body.move(body.u, h)
        after = Rotation.from_quat(body.q[3:]).apply([0, 0, 1.0])
        assert after @ along == pytest.approx([0, 0, 1.0] @ along, abs=1e-12)  # at a constant tilt
        a, b = before - (before @ along) * along, after - (after @ along) * along
        angle += np.arctan2(along @ np.cross(a, b), a @ b)
        before = after
    assert angle == pytest.approx(rate * h * steps, rel=2e-3)


def test_a_torque_at_the_hand_changes_the_angular_momentum_by_its_impulse() -> None:
    """Whatever the orientation, and with a force beside the centre: dP = T (torque + r x force)."""
    rng = np.random.default_rng(20301)
    for _ in range(20):
        body = free_body([0.01, 0.02, 0.025], rng.normal(size=6), turn=rng.normal(size=3))
        wrench = rng.normal(size=6)
        before, v = angular_momentum(body), body.v[:3].copy()
        advance(body, np.zeros(6), wrench, T)
        np.testing.assert_allclose(angular_momentum(body), before + T * wrench[3:], rtol=0, atol=1e-14)
        np.testing.assert_allclose(body.v[:3], v + T * wrench[:3] / 2.0, rtol=0, atol=1e-15)


@pytest.mark.parametrize("seed", range(3))
def test_free_bodies_beside_a_linkage_change_nothing_in_it(seed: int) -> None:
    """Trees are independent: the arm moves bit for bit as it does alone, the bodies as they do."""
    rng = np.random.default_rng(20310 + seed)
    alone = arm(rng)
    model = alone.model.copy()
    for i in range(2):
        joint = model.addJoint(0, free_joint(), pin.SE3.Identity(), f"free{i}")
        moments = rng.uniform(0.01, 0.011, 3)
        model.appendBodyToJoint(joint, pin.Inertia(1.0 + i, np.zeros(3), np.diag(moments)), pin.SE3.Identity())
    q = np.concatenate([alone.q, *([*rng.normal(size=3), *Rotation.random(rng=rng).as_quat()] for _ in range(2))])
    both = Multibody(model, alone.hand, q, np.concatenate([alone.v, rng.normal(size=12)]))
    wrench = rng.normal(size=6)
    for _ in range(200):
        advance(alone, np.zeros(4), wrench, T)
        advance(both, np.zeros(16), wrench, T)
    np.testing.assert_array_equal(both.q[:4], alone.q)
    np.testing.assert_array_equal(both.v[:4], alone.v)
    assert both.D.shape == (16, 6)  # by trees
    inertia = pin.crba(model, model.createData(), both.q)
    inertia = np.triu(inertia) + np.triu(inertia, 1).T
    np.testing.assert_allclose(both.by_coordinates(both.D), inertia, rtol=0, atol=1e-12)
    L = both.by_coordinates(both.L)
    np.testing.assert_allclose(np.tril(L) @ np.tril(L).T, inertia, rtol=0, atol=1e-12)
    np.testing.assert_allclose(both.twist, alone.twist, rtol=1e-14)
    fall = T * 200 * np.array([0, 0, -9.81])
    for i in range(2):
        np.testing.assert_allclose(both.v[4 + 6 * i : 7 + 6 * i] - fall, q_velocity(q, both, i), rtol=0, atol=1e-11)


def q_velocity(q: np.ndarray, body: Multibody, i: int) -> np.ndarray:
    """Mean velocity of free body i since `q`, without what gravity adds: x = v t - g T^2 k (k + 1) / 2."""
    first = 4 + 7 * i
    steps = 200
    fallen = np.array([0, 0, -9.81]) * T**2 * steps * (steps + 1) / 2
    return (body.q[first : first + 3] - q[first : first + 3] - fallen) / (T * steps)


def test_free_fall_loses_half_m_g_squared_T_squared_a_step() -> None:
    """Semi-implicit Euler: the new velocity falls, so potential energy is ahead by 1/2 m g^2 T^2 a step."""
    body = free_body([0.01, 0.02, 0.025], TUMBLING, mass=1.5, gravity=9.81)
    start = body.kinetic_energy[0] + body.potential_energy
    for _ in range(100):
        advance(body, np.zeros(6), np.zeros(6), T)
    lost = start - body.kinetic_energy[0] - body.potential_energy
    assert lost == pytest.approx(100 * 0.5 * 1.5 * 9.81**2 * T**2, rel=1e-9)


@pytest.mark.parametrize("moments", [(1e-7, 1e-7, 1e-7), (1e-3, 1.0, 1.0005), (5.0, 3.0, 4.0)])
def test_fast_spins_of_any_body_stay_finite(moments: tuple[float, ...]) -> None:
    """Up to several turns a step, where the midpoint rule has nothing to do with the motion any more."""
    rng = np.random.default_rng(20302)
    for rate in (1.0, 1e2, 1e4):
        body = free_body(moments, [0, 0, 0, *(rate * rng.normal(size=3))])
        momentum, energy = angular_momentum(body), body.kinetic_energy[0]
        for _ in range(50):
            body.move(body.u, T)
        assert np.isfinite(body.q).all()
        np.testing.assert_allclose(angular_momentum(body), momentum, rtol=0, atol=1e-9 * np.linalg.norm(momentum))
        if rate * T < 0.5:
            assert body.kinetic_energy[0] == pytest.approx(energy, rel=1e-10)


@pytest.mark.parametrize("size", [1e-9, 1e-5, 1e-3, 0.011, 0.3, 2.0])
def test_a_configuration_is_integrated_in_the_bits_of_pinocchio(size: float) -> None:
    """Turns up to about 0.011 rad are a series there. On other processors its library may add in another order."""
    rng = np.random.default_rng(20265)
    model = pin.Model()
    kinds = (free_joint(), pin.JointModelRZ(), pin.JointModelSpherical(), planar_joint(), free_joint())
    for n, kind in enumerate(kinds):
        joint = model.addJoint(0, kind, pin.SE3.Identity(), f"body_{n}")
        model.appendBodyToJoint(joint, pin.Inertia.Random(), pin.SE3.Identity())
    hand = model.addFrame(pin.Frame("hand", 1, pin.SE3.Identity(), pin.FrameType.OP_FRAME))
    body = Multibody(model, hand, pin.neutral(model), np.zeros(model.nv))
    for _ in range(100):
        before = body.q.copy()
        body.arrays.step[:] = size * rng.normal(size=model.nv)
        body.follow()
        expected = pin.integrate(model, before, body.arrays.step)
        if platform.machine() == "x86_64":
            np.testing.assert_array_equal(body.q, expected)
        else:
            np.testing.assert_allclose(body.q, expected, rtol=0.0, atol=1e-14)
        assert np.array_equal(body.data.oMi[1].translation, body.q[:3])


def test_an_angle_that_is_cosine_and_sine_is_integrated_by_pinocchio() -> None:
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelRUBZ(), pin.SE3.Identity(), "wheel")
    model.appendBodyToJoint(joint, pin.Inertia.Random(), pin.SE3.Identity())
    hand = model.addFrame(pin.Frame("hand", joint, pin.SE3.Identity(), pin.FrameType.OP_FRAME))
    body = Multibody(model, hand, pin.neutral(model), np.zeros(1))
    body.arrays.step[:] = 0.7
    body.follow()
    np.testing.assert_allclose(body.q, [math.cos(0.7), math.sin(0.7)], rtol=0.0, atol=1e-15)


@pytest.mark.parametrize("kind", ["free", "planar"])
@pytest.mark.parametrize("surveyed", [False, True])
def test_a_single_body_is_evaluated_as_by_pinocchio(kind: str, surveyed: bool) -> None:
    """Also with the hand off the centre of mass, gravity in any direction, and axes that are not the principal ones."""
    rng = np.random.default_rng(48)
    model = pin.Model()
    joint = model.addJoint(0, planar_joint() if kind == "planar" else free_joint(), pin.SE3.Identity(), "body")
    half = rng.normal(size=(3, 3))
    model.appendBodyToJoint(joint, pin.Inertia(1.7, np.zeros(3), half @ half.T + 3.0 * np.eye(3)), pin.SE3.Identity())
    model.gravity.linear[:] = (0.3, -2.0, -9.0)
    hand = model.addFrame(pin.Frame("hand", joint, pin.SE3.Random(), pin.FrameType.OP_FRAME))
    q, v = pin.neutral(model), rng.normal(size=model.nv)
    body = (SurveyedMultibody if surveyed else Multibody)(model, hand, q, v)
    assert body.single
    data = model.createData()
    pin.computeAllTerms(model, data, q, v)
    gravity = data.g.copy()
    for _ in range(20):
        before = body.q.copy()
        body.v[:] = rng.normal(size=model.nv)
        body.arrays.step[:] = 0.3 * rng.normal(size=model.nv)
        body.follow()
        expected = pin.integrate(model, before, body.arrays.step)
        np.testing.assert_allclose(body.q, expected, rtol=0.0, atol=1e-15)
        pin.computeAllTerms(model, data, body.q, body.v)
        pin.updateFramePlacements(model, data)
        close = dict(rtol=0.0, atol=1e-14)
        np.testing.assert_allclose(body.data.oMi[1].homogeneous, data.oMi[1].homogeneous, **close)
        np.testing.assert_allclose(body.data.oMf[hand].homogeneous, data.oMf[hand].homogeneous, **close)
        np.testing.assert_allclose(body.J_W.T, data.J, **close)
        np.testing.assert_allclose(np.triu(body.arrays.M.T), np.triu(data.M), **close)
        np.testing.assert_allclose(body.data.a[1].vector, data.a[1].vector, **close)
        np.testing.assert_allclose(body.arrays.nle, gravity if surveyed else data.nle, rtol=0.0, atol=1e-13)
        assert body.potential_energy == pytest.approx(data.potential_energy, abs=1e-13)


@pytest.mark.parametrize("change", ["lever", "placement", "second body"])
def test_other_bodies_are_left_to_pinocchio(change: str) -> None:
    model = pin.Model()
    placement = pin.SE3(np.eye(3), np.array([0.1 * (change == "placement"), 0.0, 0.0]))
    joint = model.addJoint(0, free_joint(), placement, "body")
    lever = np.array([0.1 * (change == "lever"), 0.0, 0.0])
    model.appendBodyToJoint(joint, pin.Inertia(1.0, lever, np.eye(3)), pin.SE3.Identity())
    hand = model.addFrame(pin.Frame("hand", joint, pin.SE3.Identity(), pin.FrameType.OP_FRAME))
    if change == "second body":
        other = model.addJoint(0, free_joint(), pin.SE3.Identity(), "other")
        model.appendBodyToJoint(other, pin.Inertia(1.0, np.zeros(3), np.eye(3)), pin.SE3.Identity())
    assert not Multibody(model, hand, pin.neutral(model), np.zeros(model.nv)).single
