"""The linkage of the twin pantograph: loop closure, Jacobians, inertia and torque distribution (THESIS D.1)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import null_space
from scipy.optimize import fsolve, linprog

from haptic_sim.dynamics.pantograph import (
    PARALLEL,
    STRETCHED,
    UNREACHABLE,
    Linkage,
    LinkageParameters,
    Motors,
    close_loops,
    distribute,
    explain_problem,
    find_hand,
    find_inertia,
    motor_angles,
    pose_of_hand,
)
from haptic_sim.packed import Packed

P = LinkageParameters()
STEP = 1e-6  # of differences
hands = st.builds(
    lambda r, a, phi: np.array([r * math.cos(a), r * math.sin(a), phi]),
    st.floats(0.0, 0.085),
    st.floats(0.0, 2.0 * math.pi),
    st.floats(-7.0, 7.0),
)
velocities = st.builds(
    lambda *v: np.array(v), st.floats(-1.0, 1.0), st.floats(-1.0, 1.0), st.floats(-8.0, 8.0)
)  # [m/s, m/s, rad/s]


def closed(x: np.ndarray, parameters: LinkageParameters = P) -> Any:
    linkage = Packed(Linkage.of(parameters)).arrays
    assert close_loops(linkage, x) == 0
    return linkage


def angles_at(x: np.ndarray) -> np.ndarray:
    angles = np.zeros(4)
    motor_angles(closed(x), angles)
    return angles


def differences(function: object, x: np.ndarray) -> np.ndarray:
    """Derivatives by each component of x, in the last axis."""
    steps = STEP * np.eye(3)
    return np.stack([(function(x + d) - function(x - d)) / (2.0 * STEP) for d in steps], axis=-1)  # type: ignore[operator]


@given(hands, velocities)
@settings(max_examples=30, deadline=None)
def test_motors_follow_the_hand_of_a_device_that_stands_anywhere(x: np.ndarray, v: np.ndarray) -> None:
    """Their angles say where the hand is, and their rates are the derivatives of these along its motion."""
    mount, turned = np.array([0.3, -0.2, 0.7]), np.eye(3)
    turned[:2, :2] = [[math.cos(0.7), -math.sin(0.7)], [math.sin(0.7), math.cos(0.7)]]
    motors, pose, twist = Motors(P.numbers(tuple(mount))), np.zeros(7), np.zeros(6)

    def angles(at: np.ndarray) -> np.ndarray:
        pose_of_hand(mount, at, pose)
        twist[[0, 1, 5]] = turned @ v
        assert motors.follow(pose, twist)
        return motors.angles.copy()

    found, rates = x + 0.1, (angles(x + STEP * v) - angles(x - STEP * v)) / (2.0 * STEP)
    assert find_hand(closed(x), angles(x), found)
    np.testing.assert_allclose(found[:2], x[:2], rtol=0, atol=1e-12)
    assert math.cos(found[2] - x[2]) == pytest.approx(1.0, abs=1e-14)
    np.testing.assert_allclose(motors.rates, rates, rtol=1e-6, atol=1e-6)
    pose[0] += 1.0
    assert not motors.follow(pose, twist)


def masses_at(x: np.ndarray) -> list[tuple[float, np.ndarray]]:
    """Masses whose kinetic energy is that of the device: a uniform rod is 1/6 at each end and 4/6 in its middle.

    The speed squared is a quadratic along a rod, for which Simpson's rule is exact.
    """
    linkage, c, s = closed(x), math.cos(x[2]), math.sin(x[2])
    points = []
    for k, sign in enumerate((-1.0, 1.0)):
        end = x[:2] + sign * 0.5 * P.handle_length * np.array([c, s])
        points.append((P.end_mass, end))
        for a in (2 * k, 2 * k + 1):
            base = linkage.bases[a]
            elbow = base + P.proximal_length * linkage.u[a]
            np.testing.assert_allclose(elbow + P.distal_length * linkage.w[a], end, rtol=0, atol=1e-15)
            points.append((P.elbow_mass, elbow))
            for mass, p, q in ((P.proximal_mass, base, elbow), (P.distal_mass, elbow, end)):
                points += [(mass / 6.0, p), (4.0 * mass / 6.0, 0.5 * (p + q)), (mass / 6.0, q)]
    return points


def inertia_of_masses(x: np.ndarray) -> np.ndarray:
    """M_d from the motion of the masses, of the motors and of the handle, by differences (3, 3)."""
    masses = np.array([mass for mass, _ in masses_at(x)])
    J = differences(lambda y: np.array([p for _, p in masses_at(y)]), x)
    J_motors = differences(angles_at, x)
    handle = np.diag([P.handle_mass, P.handle_mass, P.handle_inertia])
    return handle + np.einsum("n,nid,nie->de", masses, J, J) + P.rotor_inertia * J_motors.T @ J_motors


@settings(max_examples=30, deadline=None)
@given(hands)
def test_the_links_are_those_of_an_independent_solution_of_the_loops(x: np.ndarray) -> None:
    """Of eight equations in the angles of all links, by Newton's method from near by."""
    linkage = closed(x)
    theta = np.arctan2(linkage.u[:, 1], linkage.u[:, 0])
    psi = np.arctan2(linkage.w[:, 1], linkage.w[:, 0])
    ends = [
        x[:2] + sign * 0.5 * P.handle_length * np.array([math.cos(x[2]), math.sin(x[2])]) for sign in (-1, -1, 1, 1)
    ]

    def gaps(q: np.ndarray) -> np.ndarray:
        reached = linkage.bases + P.proximal_length * np.stack([np.cos(q[:4]), np.sin(q[:4])], axis=1)
        reached = reached + P.distal_length * np.stack([np.cos(q[4:]), np.sin(q[4:])], axis=1)
        return (reached - np.array(ends)).ravel()

    found = fsolve(gaps, np.concatenate([theta, psi]) + 0.05, xtol=1e-13)
    np.testing.assert_allclose(found, np.concatenate([theta, psi]), rtol=0, atol=1e-9)
    for a in range(4):  # elbows outward: the left pantograph's first to the left of the way to its end
        way = ends[a] - linkage.bases[a]
        assert (way[0] * linkage.u[a, 1] - way[1] * linkage.u[a, 0]) * (1 if a % 2 == 0 else -1) > 0.0


@settings(max_examples=30, deadline=None)
@given(hands, st.floats(-3.0, 3.0))
def test_the_motors_tell_the_hand_whatever_it_has_turned(x: np.ndarray, off: float) -> None:
    linkage, found = closed(x), x + np.array([0.02, -0.01, off])
    assert find_hand(linkage, angles_at(x), found)
    np.testing.assert_allclose(found, x, rtol=0, atol=1e-12)


def test_angles_at_which_the_arms_do_not_meet_are_no_hand() -> None:
    wide = LinkageParameters(base_width=0.4, distal_length=0.15)
    assert not find_hand(Packed(Linkage.of(wide)).arrays, np.zeros(4), np.zeros(3))


@settings(max_examples=30, deadline=None)
@given(hands)
def test_the_jacobian_is_the_derivative_of_the_angles_of_the_motors(x: np.ndarray) -> None:
    expected = differences(angles_at, x)
    np.testing.assert_allclose(closed(x).jacobian, expected, rtol=0, atol=1e-7 * np.abs(expected).max())


@settings(max_examples=30, deadline=None)
@given(hands, velocities)
def test_inertia_and_its_derivatives_are_those_of_the_moving_masses(x: np.ndarray, v: np.ndarray) -> None:
    """Coriolis terms and gradient follow from M_d by Lagrange's equation."""
    linkage = closed(x)
    find_inertia(linkage, v)
    np.testing.assert_allclose(linkage.inertia, inertia_of_masses(x), rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(linkage.momentum, linkage.inertia @ v, rtol=1e-13)

    def inertia_at(y: np.ndarray) -> np.ndarray:
        other = closed(y)
        find_inertia(other, v)
        return other.inertia

    by_x = differences(inertia_at, x)
    gradient = 0.5 * np.einsum("i,j,ijk->k", v, v, by_x)
    np.testing.assert_allclose(linkage.gradient, gradient, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(linkage.coriolis, by_x @ v @ v - gradient, rtol=1e-5, atol=1e-7)
    lever = differences(lambda y: sum(m * p for m, p in masses_at(y)) + P.handle_mass * y[:2], x).T
    np.testing.assert_allclose(linkage.lever, lever, rtol=1e-6, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(hands, st.booleans())
def test_the_torques_of_the_motors_make_the_wrench(x: np.ndarray, least_torque: bool) -> None:
    linkage, torques = closed(x), np.zeros((4, 3))
    distribute(linkage, least_torque, torques)
    np.testing.assert_allclose(linkage.jacobian.T @ torques, np.eye(3), rtol=0, atol=1e-11)


@settings(max_examples=20, deadline=None)
@given(hands, st.integers(0, 2))
def test_each_distribution_is_least_in_what_it_minimises(x: np.ndarray, direction: int) -> None:
    """THESIS D.4: nothing along the handle; and the smallest torques of all that make the wrench."""
    linkage = closed(x)
    torques = {least: np.zeros((4, 3)) for least in (False, True)}
    for least, one in torques.items():
        distribute(linkage, least, one)
    free = null_space(linkage.jacobian.T)[:, 0]
    assert abs(free @ torques[True][:, direction]) < 1e-10 * np.abs(torques[True]).max()
    norm = {least: np.linalg.norm(one[:, direction]) for least, one in torques.items()}
    assert norm[True] <= norm[False] * (1.0 + 1e-12)
    # forces on the endpoints f = sum B0 T of each pantograph; the parts of both along the handle are the same
    forces = np.stack([linkage.B[2 * k : 2 * k + 2, 0].T @ torques[False][2 * k : 2 * k + 2] for k in (0, 1)])
    along = np.array([math.cos(x[2]), math.sin(x[2])])
    squeeze = (forces[0] - forces[1]).T @ along
    np.testing.assert_allclose(squeeze, 0.0, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("x", "problem", "text"),
    [
        ([0.3, 0.0, 0.0], UNREACHABLE, "the upper arm of the left pantograph does not reach the handle"),
        ([-0.116, 0.004, 0.0], STRETCHED + 0, "the upper arm of the left pantograph is nearly stretched or folded"),
        ([0.112, -0.008, 0.0], STRETCHED + 2, "the lower arm of the right pantograph is nearly stretched or folded"),
        ([0.0, 0.0, 0.0], PARALLEL + 0, "the distal links of the left pantograph are nearly parallel"),
    ],
)
def test_singularities_and_the_edge_of_the_workspace_are_named(x: list[float], problem: int, text: str) -> None:
    parameters = P
    if problem >= PARALLEL:  # a wide base and short links: the endpoint is nearly between its elbows
        parameters = LinkageParameters(base_width=0.36, distal_length=0.17, base_distance=0.19, proximal_length=0.14)
    assert close_loops(Packed(Linkage.of(parameters)).arrays, np.array(x)) == problem
    assert explain_problem(problem).startswith(text)


def test_the_workspace_is_larger_than_100_mm_by_100_mm_at_every_angle() -> None:
    """THESIS 3: larger than that, with unlimited rotation."""
    linkage, side = Packed(Linkage.of(P)).arrays, np.linspace(-0.05, 0.05, 5)
    for x in side:
        for y in side:
            for phi in np.linspace(0.0, 2.0 * math.pi, 25):
                assert close_loops(linkage, np.array([x, y, phi])) == 0


def test_no_wrench_needs_less_of_the_motors_than_a_linear_programme_finds() -> None:
    """In the middle, where both distributions reach the peak force and torque that any torques could make."""
    linkage, torques = closed(np.zeros(3)), np.zeros((4, 3))
    distribute(linkage, False, torques)
    for direction in np.eye(3):
        best = linprog(
            [0.0] * 4 + [-1.0],
            A_eq=np.hstack([linkage.jacobian.T, -direction[:, None]]),
            b_eq=np.zeros(3),
            bounds=[(-1.0, 1.0)] * 4 + [(0.0, None)],
        )
        assert 1.0 / np.abs(torques @ direction).max() == pytest.approx(-best.fun, rel=1e-9)


@settings(max_examples=20, deadline=None)
@given(hands)
def test_the_device_turned_by_half_a_turn_is_the_same(x: np.ndarray) -> None:
    """The pantographs are identical and change places, as do the ends of the handle, which so keeps its angle."""
    opposite = np.array([-x[0], -x[1], x[2]])
    inertias = []
    for y in (x, opposite):
        linkage = closed(y)
        find_inertia(linkage, np.zeros(3))
        inertias.append(linkage.inertia)
    axes = np.diag([-1.0, -1.0, 1.0])  # turned with the device
    np.testing.assert_allclose(axes @ inertias[1] @ axes, inertias[0], rtol=1e-10, atol=1e-14)
