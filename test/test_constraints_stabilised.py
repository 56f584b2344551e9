"""Velocity-level stabilisation against the multiplier form of the same equations, integrated by DOP853."""

from __future__ import annotations

import math

import numpy as np
import pytest
from constrained_systems import POINT, build, rows
from scipy.integrate import solve_ivp

from haptic_sim.constraints import sources, stabilised
from haptic_sim.constraints.errors import ConstraintError
from haptic_sim.constraints.projection import ADVANCED, HELD, ProjectionSolver
from haptic_sim.constraints.stabilised import StabilisedSolver

START = np.array([0.3, 2.0, 1.2, 1.3])
_LOOP = {"L1": 2.0, "Lc1": 1.0, "L2": 1.0, "Lc2": 0.5, "l3": 2.5, "m1": 10.0, "m2": 6.0, "I1": 3.0, "I2": 2.0}
LOOPED = build(sources.TWO_LINK_CLOSED_LOOP, START, **_LOOP, gravity=9.81)
Q_SPHERES = np.array([0.7, 0.3, 0.2, 0.5, 0.8, 0.1])
V_SPHERES = np.array([0.0, 0.1, -0.2, 1.0, 2.0, -1.5])


def spheres(printed=False):
    formulas = sources.ROLLING_SPHERES_PRINTED if printed else sources.ROLLING_SPHERES
    return build(formulas, Q_SPHERES, mass=0.5, small=0.05, large=0.55)


def kkt(C, gamma):
    """M qdd + bias = passive + A^T lambda, A qdd = adot - Adot qd: no basis, no projection."""

    def rates(_, y):
        q, v = y[: C.n], y[C.n :]
        w = C.evaluate(q, v)
        adot = w.bdot - w.Adot @ v
        adot[: C.k] -= gamma * (w.A @ v)[: C.k]
        K = np.block([[w.M, -w.A.T], [w.A, np.zeros((C.m, C.m))]])
        return np.concatenate([v, np.linalg.solve(K, np.concatenate([w.passive - w.bias, adot]))[: C.n]])

    return rates


CASES = {
    "true": (spheres(), Q_SPHERES, V_SPHERES, 10.0),
    "printed": (spheres(True), Q_SPHERES, V_SPHERES, 10.0),
    "loop": (LOOPED, START, np.zeros(4), 5.0),
}


@pytest.mark.parametrize("name", CASES)
def test_motion_is_that_of_the_multiplier_form(name):
    """Without -S^T xidot in etadot it would be off by 0.02 to 0.16 rad (errata 3)."""
    C, q, v, gamma = CASES[name]
    solver = StabilisedSolver(C, q, v, gamma)
    exact = solve_ivp(kkt(C, gamma), (0, 6), np.concatenate([q, solver.v]), "DOP853", rtol=1e-12, atol=1e-13)
    for _ in range(6000):
        solver.step()
    assert solver.q == pytest.approx(exact.y[: C.n, -1], abs=1e-6)
    assert solver.v == pytest.approx(exact.y[C.n :, -1], abs=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_constraints_decay_at_the_rate_and_velocities_hold(name):
    C, q, v, gamma = CASES[name]
    solver = StabilisedSolver(C, q, v, gamma)
    first = C.evaluate(q, v).c.copy()
    for i in range(1, 2001):
        solver.step()
        w = C.evaluate(solver.q, solver.v)
        assert w.c == pytest.approx(first * math.exp(-gamma * i * 1e-3), abs=1e-9)
        assert w.A[C.k :] @ solver.v == pytest.approx(0.0, abs=1e-12)
        A = w.A.copy()
        assert np.abs(A @ solver.S).max() < 1e-12
        assert np.abs(solver.S.T @ solver.S - np.eye(C.n - C.m)).max() < 1e-13


def test_first_velocity_is_the_orthogonal_projection():
    """YUN's step 3: the nearest velocity with A qd = a, in the plain metric."""
    C = LOOPED
    given = np.array([0.3, -0.2, 0.5, 1.0])
    solver = StabilisedSolver(C, START, given, 5.0)
    w = C.evaluate(START, given)
    nearest = given + np.linalg.pinv(w.A) @ (-5.0 * w.c - w.A @ given)
    assert solver.v == pytest.approx(nearest, abs=1e-12)


def test_basis_moves_continuously():
    """As far as the transported one from step to step; a bare decomposition would flip signs."""
    solver = StabilisedSolver(spheres(), Q_SPHERES, V_SPHERES, 10.0)
    for _ in range(3000):
        before = solver.S.copy()
        solver.step()
        assert np.abs(solver.S - before).max() < 0.02


def test_contact_is_regained_with_a_rate_and_not_without():
    errors = {}
    for gamma in (10.0, 0.0):
        q = Q_SPHERES.copy()
        q[0] = 0.6
        solver = StabilisedSolver(spheres(), q, V_SPHERES, gamma)
        for i in range(1500):
            if i == 500:
                solver.restart(solver.q + np.array([0.05, 0, 0, 0, 0, 0]), solver.v)
            solver.step()
        errors[gamma] = solver.q[0] - 0.6
    assert errors[10.0] == pytest.approx(0.05 * math.exp(-10.0), abs=1e-9)
    assert errors[0.0] == pytest.approx(0.05, abs=1e-9)


def test_after_convergence_the_loop_is_a_rigid_pendulum():
    solver = StabilisedSolver(LOOPED, START, np.zeros(4), 5.0)
    for _ in range(6000):
        solver.step()
    angle, energy = solver.q[3] - solver.q[0], solver.energy
    for _ in range(2000):
        solver.step()
    assert solver.q[3] - solver.q[0] == pytest.approx(angle, abs=1e-7)
    assert solver.v[3] == pytest.approx(solver.v[0], abs=1e-7)
    assert solver.energy == pytest.approx(energy, rel=1e-6)


def test_on_the_manifold_both_solvers_agree():
    q = Q_SPHERES.copy()
    q[0] = 0.6
    C = spheres()
    stabilised = StabilisedSolver(C, q, V_SPHERES, 10.0)
    projected = ProjectionSolver(C, q, stabilised.v)
    for _ in range(2000):
        stabilised.step()
        projected.step()
    assert stabilised.q == pytest.approx(projected.q, abs=1e-8)
    assert stabilised.multipliers == pytest.approx(projected.multipliers, abs=1e-7)
    assert stabilised.energy == pytest.approx(projected.energy, rel=1e-9)


def test_redundant_rows_change_nothing():
    one = build(rows(POINT, ["z - 0.1*x*y"], ["x_dot - y*z_dot"]), [0.1, 0.2, 0.03], m=0.3)
    two = build(rows(POINT, ["z - 0.1*x*y", "z - 0.1*x*y"], ["x_dot - y*z_dot"]), [0.1, 0.2, 0.03], m=0.3)
    one, two = (StabilisedSolver(C, C.q, np.zeros(3), 10.0) for C in (one, two))
    for _ in range(300):
        one.step(np.array([0.4, -0.3, 2.0, 0, 0, 0]))
        two.step(np.array([0.4, -0.3, 2.0, 0, 0, 0]))
    assert (one.rank, two.rank) == (2, 2)
    assert two.q == pytest.approx(one.q, abs=1e-11)


def test_a_step_that_is_not_finite_holds_the_tool():
    solver = StabilisedSolver(spheres(), Q_SPHERES, V_SPHERES, 10.0)
    solver.step()
    q, v = solver.q.copy(), solver.v.copy()
    solver.wrench[1] = math.inf
    assert solver.advance() == HELD
    assert solver.q.tolist() == q.tolist()
    assert solver.v == pytest.approx(v, abs=1e-14)
    solver.wrench[1] = 0.0
    assert solver.advance() == ADVANCED
    with pytest.raises(ConstraintError, match=r"wrench has the shape \(3,\)"):
        solver.step(np.zeros(3))


def test_a_restart_keeps_the_basis_as_near_as_it_can():
    """After a displacement too there is no jump of signs or order; after a far one it is a basis all the same."""
    solver = StabilisedSolver(spheres(), Q_SPHERES, V_SPHERES, 10.0)
    for _ in range(100):
        solver.step()
    before = solver.S.copy()
    solver.restart(solver.q + np.array([0.05, 0, 0, 0, 0, 0]), solver.v)
    assert np.abs(solver.S - before).max() < 1e-12  # the rows do not depend on the distance
    solver.restart(solver.q + np.array([0, 0.02, 0, 0.03, 0.02, 0]), solver.v)
    assert np.abs(solver.S - before).max() < 0.1
    solver.restart(np.array([0.7, -1.0, 2.0, -2.0, 2.0, 3.0]), solver.v)
    A = solver.system.A(solver.q)
    assert np.abs(A @ solver.S).max() < 1e-12
    assert np.abs(solver.S.T @ solver.S - np.eye(3)).max() < 1e-13


def test_a_step_reports_its_residual():
    solver = StabilisedSolver(LOOPED, START, np.zeros(4), 5.0)
    solver.step()
    assert solver.residual == pytest.approx(np.abs(LOOPED.evaluate(solver.q, solver.v).c).max(), rel=1e-12)


def test_nothing_is_compiled_after_the_first_step():
    StabilisedSolver(spheres(), Q_SPHERES, V_SPHERES, 10.0).step()
    count = len(stabilised.step_stabilised.signatures)
    StabilisedSolver(LOOPED, START, np.zeros(4), 5.0).step()
    assert len(stabilised.step_stabilised.signatures) == count


def test_bad_input_is_named():
    contradictory = build(rows(POINT, ["z", "z - level"]), np.zeros(3), m=0.25, level=0.1)
    with pytest.raises(ConstraintError, match=r"positions\[[01]\] .* contradicts the others: its rate is off by"):
        StabilisedSolver(contradictory, np.zeros(3), np.zeros(3), 10.0)
    with pytest.raises(ConstraintError, match=r"gamma = -1.0 1/s"):
        StabilisedSolver(LOOPED, START, np.zeros(4), -1.0)
    with pytest.raises(ConstraintError, match=r"qd has the shape \(3,\)"):
        StabilisedSolver(LOOPED, START, np.zeros(3), 5.0)
