"""Acceleration projection against reduced equations integrated by DOP853, closed forms and an independent KKT solve."""

from __future__ import annotations

import math

import numpy as np
import pytest
from conftest import sampled
from constrained_systems import DAMPED, LOPSIDED, POINT, TILTED, build, disk_of, rows
from scipy.integrate import solve_ivp

from haptic_sim.constraints import projection, sources
from haptic_sim.constraints.errors import ConstraintError
from haptic_sim.constraints.projection import ADVANCED, HELD, ProjectionSolver
from haptic_sim.constraints.stabilised import StabilisedSolver

r, rs, m, J = 0.03, 0.05, 0.25, 0.0025


def disk(*parts):
    q = np.array([0, 0, r, 0.3, 0, math.pi / 2])
    return disk_of(sources.ROLLING_DISK, q, *parts, radius=r), q


def on_sphere(*parts):
    axis = [math.sin(0.3) * math.sin(0.9), -math.cos(0.3) * math.sin(0.9), math.cos(0.9)]
    q = np.array([*(rs * x for x in axis), 0.3, 0.2, 0.9])
    return disk_of(sources.DISK_ON_SPHERE, q, *parts, radius=rs, c1=0.0, c2=0.0, c3=0.0), q


def links(q, bx=-0.21, c1=0.0, radius=rs, damping=0.0):
    values = {"length": 0.15, "mass": 2.0, "damping": damping, "bx": bx, "by": 0.0}
    return build(sources.TWO_LINK_CIRCLE, q, **values, c1=c1, c2=0.0, radius=radius, elbow=1.0)


def circle(damping=0.0, elbow=-1.0):
    bend = elbow * math.acos(0.26**2 / (2 * 0.15**2) - 1)
    q = np.array([-bend / 2, bend])
    return links(q, damping=damping), q


AT_A_TILT = (0, 0, r * math.sin(1.2), 0.3, 0, 1.2)


def tilted(*parts, turning=0.0, q=AT_A_TILT):
    return disk_of(TILTED, q, *parts, radius=r, turning=turning), np.array(q)


def allowed(C, q, wish, speed):
    """The velocity nearest to `wish` that the rows allow, its largest angular rate `speed`."""
    A = C.evaluate(q, np.zeros(C.n)).A
    v = wish - np.linalg.pinv(A) @ A @ wish
    return v * speed / np.abs(v[C.model.angular > 0]).max()


SYSTEMS = {
    "disk": (lambda: disk(LOPSIDED), [0, 0, 0, 5, 10, 0]),
    "on_sphere": (lambda: on_sphere(LOPSIDED), [0, 0, 0, 5, -3, 4]),
    "circle": (circle, [1, 2]),
    "tilted": (lambda: tilted(LOPSIDED), [0, 0, 0, 2, 10, 1]),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sampled(SYSTEMS, "tilted"))
def test_energy_and_constraints_are_kept_at_ten_radians_a_second(name):
    build, wish = SYSTEMS[name]
    C, q = build()
    solver = ProjectionSolver(C, q, allowed(C, q, np.array(wish, float), 10.0))
    energy = solver.energy
    for _ in range(10_000):
        assert solver.step() == ADVANCED
        if solver.residual > 1e-10:
            pytest.fail(f"residual {solver.residual}")
        assert abs(solver.multipliers @ (C.evaluate(solver.q, solver.v).A @ solver.v)) < 1e-9
    assert solver.energy == pytest.approx(energy, rel=1e-6)
    assert max(solver.residuals) < 1e-10


@pytest.mark.exhaustive
@pytest.mark.long
@pytest.mark.parametrize("name", sampled(SYSTEMS, "disk"))
def test_residuals_stay_small_for_a_minute_under_force(name):
    build, _ = SYSTEMS[name]
    C, q = build()
    solver = ProjectionSolver(C, q, np.zeros(C.n))
    worst = 0.0
    for i in range(60_000):
        t = i * 1e-3
        f = 0.5 * math.sin(7 * t)
        solver.step(np.array([f, 0.3 * math.cos(3 * t), f, 0.001 * f, 0.002 * math.sin(t), 0.0]))
        worst = max(worst, solver.residual)
        if i % 1000 == 0:
            worst = max(worst, *solver.residuals)
    assert worst < 1e-10


def run(C, q, v, wrench, seconds=2.0, **options):
    solver = ProjectionSolver(C, q, v, **options)
    for _ in range(round(seconds / solver.period)):
        solver.step(wrench)
    return solver


def test_rolling_disk_follows_its_reduced_equations():
    """J x4'' = n_z - b_r x4',  (J + m r^2) x5'' = n . axis - r f . heading - (b_r + b_t r^2) x5'."""
    C, q = disk(DAMPED)
    v = allowed(C, q, np.array([0, 0, 0, 3.0, -8.0, 0]), 8.0)
    wrench = np.array([0.4, -0.3, 2.0, 0.01, 0.02, 0.015])

    def rates(_, y):
        _, _, x4, _, w4, w5 = y
        c, s = math.cos(x4), math.sin(x4)
        torque = wrench[3] * s - wrench[4] * c - r * (wrench[0] * c + wrench[1] * s)
        a4 = (wrench[5] - 0.1 * w4) / J
        a5 = (torque - (0.1 + r * r) * w5) / (J + m * r * r)
        return [-r * c * w5, -r * s * w5, w4, w5, a4, a5]

    exact = solve_ivp(rates, (0, 2), [0, 0, 0.3, 0, v[3], v[4]], "DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
    solver = run(C, q, v, wrench)
    assert solver.q[[0, 1, 3, 4]] == pytest.approx(exact[:4], abs=1e-8)
    assert solver.v[[3, 4]] == pytest.approx(exact[4:], abs=1e-8)


def test_disk_on_sphere_follows_its_reduced_equations():
    """Momenta of x4 and x5 and the equation of x6, T = m rs^2 (x6'^2 + s6^2 x4'^2) / 2 + J |omega|^2 / 2."""
    C, q = on_sphere(DAMPED)
    v = allowed(C, q, np.array([0, 0, 0, 3.0, 2.0, -4.0]), 6.0)
    mr, bt, br = m * rs**2, rs**2, 0.1

    def rates(_, y):
        x6, p4, p5, w6 = y[2:]
        s, c = math.sin(x6), math.cos(x6)
        inertia = np.array([[mr * s * s + J, J * c], [J * c, J]])
        w4, w5 = np.linalg.solve(inertia, [p4, p5])
        a6 = (mr * s * c * w4 * w4 - J * s * w4 * w5 - (bt + br) * w6) / (mr + J)
        return [w4, w5, w6, -bt * s * s * w4 - br * (w4 + c * w5), -br * (w5 + c * w4), a6]

    s, c = math.sin(0.9), math.cos(0.9)
    start = [0.3, 0.2, 0.9, (mr * s * s + J) * v[3] + J * c * v[4], J * (v[4] + c * v[3]), v[5]]
    exact = solve_ivp(rates, (0, 2), start, "DOP853", rtol=1e-12, atol=1e-14).y[:, -1]
    solver = run(C, q, v, np.array(q[:3].tolist() + [0.0] * 3) * 0.0)
    assert solver.q[3:] == pytest.approx(exact[:3], abs=1e-8)


@pytest.mark.parametrize("elbow", [-1.0, 1.0])
def test_links_on_the_circle_follow_the_energy_of_one_angle(elbow):
    """z' = sqrt(2 E / m(z)), E' = -b (q1'^2 + q2'^2), with the inertia m(z) seen by the angle z on the circle."""
    C, q = circle(0.01, elbow)
    A = C.evaluate(q, np.zeros(2)).A
    v = np.array([A[0, 1], -A[0, 0]])
    v *= 6.0 / np.abs(v).max()
    up = C.evaluate(q, v).J[1] @ v
    v *= np.sign(up)

    def joints(z):
        x, y = 0.21 + rs * math.cos(z), rs * math.sin(z)
        bend = elbow * math.acos((x * x + y * y) / (2 * 0.15**2) - 1)
        first = math.atan2(y, x) - bend / 2
        a, b = first, first + bend
        jacobian = 0.15 * np.array(
            [[-math.sin(a) - math.sin(b), -math.sin(b)], [math.cos(a) + math.cos(b), math.cos(b)]]
        )
        slope = np.linalg.solve(jacobian, rs * np.array([-math.sin(z), math.cos(z)]))
        i0, c = 2.0 * 0.15**2, math.cos(bend)
        inertia = i0 / 6 * np.array([[2 * (5 + 3 * c), 2 + 3 * c], [2 + 3 * c, 2]])
        return np.array([first, bend]), slope, slope @ inertia @ slope

    def rates(_, y):
        _, slope, mass = joints(y[0])
        zd = math.sqrt(2 * y[1] / mass)
        return [zd, -0.01 * zd * zd * slope @ slope]

    exact = solve_ivp(rates, (0, 1), [0.0, C.energy(q, v)], "DOP853", rtol=1e-12, atol=1e-14).y[:, -1]
    solver = run(C, q, v, np.zeros(6), 1.0)
    assert exact[0] > 3.0  # it has gone round
    assert solver.q == pytest.approx(joints(exact[0])[0], abs=1e-6)
    assert solver.energy == pytest.approx(exact[1], rel=1e-7)


def kkt(C, wrench):
    """The accelerations with multipliers, by a dense least-squares solve."""

    def rates(_, y):
        q, v = y[: C.n], y[C.n :]
        w = C.evaluate(q, v)
        force = w.passive - w.bias + w.E.T @ wrench[3:]
        force[:3] += wrench[:3]
        K = np.block([[w.M, -w.A.T], [w.A, np.zeros((C.m, C.m))]])
        return np.concatenate([v, np.linalg.lstsq(K, np.concatenate([force, w.bdot - w.Adot @ v]), rcond=None)[0][:6]])

    return rates


@pytest.mark.parametrize("name", ["disk", "on_sphere", "tilted"])
def test_bodies_follow_the_equations_with_multipliers(name):
    build, wish = SYSTEMS[name]
    C, q = build()
    v = allowed(C, q, np.array(wish, float), 4.0)
    wrench = np.array([0.05, -0.03, 0.1, 0.001, 0.002, -0.001])
    solution = solve_ivp(kkt(C, wrench), (0, 1), np.concatenate([q, v]), "DOP853", rtol=1e-12, atol=1e-13)
    solver = run(C, q, v, wrench, 1.0)
    assert solver.q == pytest.approx(solution.y[:6, -1], abs=1e-7)


def test_multipliers_are_the_forces_that_close_the_equations():
    C, q = on_sphere(LOPSIDED)
    v = allowed(C, q, np.array([0, 0, 0, 5, -3, 4.0]), 5.0)
    solver = ProjectionSolver(C, q, v)
    wrench = np.array([0.4, -0.3, 2.0, 0.01, 0.02, 0.015])
    solver.step(wrench)
    w = C.evaluate(q, v)
    applied = np.concatenate([wrench[:3], np.zeros(3)]) + w.E.T @ wrench[3:]
    assert w.M @ solver.a + w.bias - w.passive - applied == pytest.approx(w.A.T @ solver.multipliers, abs=1e-11)
    assert w.A @ solver.a == pytest.approx(-w.Adot @ v, abs=1e-11)


def test_ten_newtons_along_the_radius_do_not_move_the_disk():
    C, q = on_sphere(DAMPED)
    solver = run(C, q, np.zeros(6), np.array([*(10 * q[:3] / rs), 0, 0, 0]))
    assert solver.q == pytest.approx(q, abs=1e-12)
    assert np.linalg.norm(solver.multipliers) == pytest.approx(10.0, rel=1e-9)


@pytest.mark.parametrize("name", ["disk", "on_sphere", "circle"])
def test_explicit_integration_keeps_the_manifold_and_errs_in_first_order(name):
    build, wish = SYSTEMS[name]
    C, q = build()
    v = allowed(C, q, np.array(wish, float), 4.0)
    reference = run(C, q, v, np.zeros(6), 0.5)
    errors = []
    for period in (1e-3, 5e-4):
        solver = run(C, q, v, np.zeros(6), 0.5, period=period, integrator="explicit")
        assert max(solver.residuals) < 1e-10
        errors.append(np.abs(solver.q - reference.q).max())
    assert errors[1] > 1e-6 and errors[0] / errors[1] == pytest.approx(2.0, abs=0.3)


@pytest.mark.exhaustive
def test_redundant_rows_change_nothing_and_are_named():
    one = build(rows(POINT, ["z - 0.1*x*y"], ["x_dot - y*z_dot"]), [0.1, 0.2, 0.002], m=0.3)
    two = build(rows(POINT, ["z - 0.1*x*y", "z - 0.1*x*y"], ["x_dot - y*z_dot"]), [0.1, 0.2, 0.002], m=0.3)
    q, wrench = one.q, np.array([0.4, -0.3, 2.0, 0, 0, 0])
    one, two = run(one, q, np.zeros(3), wrench, 0.3), run(two, q, np.zeros(3), wrench, 0.3)
    assert two.rank == 2 and two.dependent in (("positions[0]",), ("positions[1]",)) and one.dependent == ()
    assert two.q == pytest.approx(one.q, abs=1e-12)
    assert two.multipliers[:2] == pytest.approx([one.multipliers[0] / 2] * 2, rel=1e-9)


def test_rank_changes_on_the_way_without_a_jump():
    """Two spheres that touch from outside leave one point in common, where their rows are parallel."""
    spheres = [f"((x {sign} 0.1)**2 + y**2 + z**2 - 0.01)/0.2" for sign in "+-"]
    C = build(rows(POINT, spheres), np.zeros(3), m=0.25)
    solver = ProjectionSolver(C, np.zeros(3), np.zeros(3))
    assert solver.rank == 1
    for _ in range(200):
        solver.step(np.array([0.5, 0.1, 0.2, 0, 0, 0]))
        assert np.all(np.isfinite(solver.q)) and np.all(np.isfinite(solver.v))
        assert np.all(np.isfinite(solver.multipliers))
    assert solver.residual < 1e-10


def test_pole_of_the_angles_is_passed_with_its_energy():
    """The disk goes over the sphere's pole, where x4 and x5 turn about one axis: nearly and exactly."""
    for aside in (0.3, 0.03, 1e-3, 1e-5, 0.0):
        C, q = on_sphere()
        A = C.evaluate(q, np.zeros(6)).A
        wish = np.array([0, 0, 0, aside, -aside * math.cos(0.9), -5.0])
        v = wish - np.linalg.pinv(A) @ A @ wish
        solver = ProjectionSolver(C, q, v)
        energy = solver.energy
        for _ in range(500):
            solver.step()
            assert np.all(np.isfinite(solver.q)) and np.all(np.isfinite(solver.v))
            assert max(solver.residuals) < 1e-10
        assert solver.energy == pytest.approx(energy, rel=1e-3), aside


def test_a_stretched_arm_turns_back_through_its_singular_configuration():
    """The circle reaches beyond the links: there the elbow changes sides, without a NaN or energy from nowhere."""
    bend = math.acos(0.24**2 / (2 * 0.15**2) - 1)
    q = np.array([-bend / 2, bend])
    solver = ProjectionSolver(links(q, bx=0.0, c1=0.28, radius=0.04), q, np.zeros(2))
    for _ in range(3000):
        solver.step(np.array([3.0, 1.0, 0, 0, 0, 0]))
        assert np.all(np.isfinite(solver.q)) and np.all(np.isfinite(solver.v)) and math.isfinite(solver.energy)
        assert solver.residual < 1e-10
    assert solver.energy <= 3.0 * 0.08 + 1.0 * 0.08  # the work of the force over the circle


def test_where_the_constraints_cannot_be_met_the_tool_is_held():
    """A row that vanishes with its residual left: no step is possible, so configuration and velocity stay."""
    C = build(rows(POINT, ["(1 - lost)*(z - 0.05) + lost"]), [0, 0, 0.05], m=0.25, lost=0.0)
    lost = C.description.parameters.index("lost")
    solver = ProjectionSolver(C, C.q, np.array([0.2, 0, 0]))
    assert solver.step() == ADVANCED and solver.residual < 1e-12
    before, speed = solver.q.copy(), solver.v.copy()
    C.model.parameters[lost] = 1.0
    assert solver.step() == HELD and solver.residual == 1.0 and solver.dependent == ("positions[0]",)
    assert np.array_equal(solver.q, before) and np.array_equal(solver.v, speed)
    C.model.parameters[lost] = 0.0
    assert solver.step() == ADVANCED and solver.residual < 1e-12


def test_a_driven_row_turns_the_disk_at_its_rate():
    """With a term of the time alone: x4' = 2 + sin t rad/s."""
    driven = rows(sources.DISK, ["x3 - radius", "x6 - pi/2"], ["x4_dot - 2 - sin(t)"])
    q = np.array([0, 0, r, 0.3, 0, math.pi / 2])
    C = disk_of(driven, q, DAMPED, radius=r)
    solver = run(C, q, np.array([0, 0, 0, 2.0, 0, 0]), np.zeros(6), 1.0)
    assert solver.q[3] == pytest.approx(0.3 + 2.0 + 1.0 - math.cos(1.0), abs=1e-11)
    # against the rotational damping, and for the acceleration, at the beginning of the last tick
    assert solver.multipliers[-1] == pytest.approx(0.1 * (2.0 + math.sin(0.999)) + J * math.cos(0.999), rel=1e-9)


def test_a_position_that_depends_on_time_is_followed():
    """A bead on a plane that rises: z = 0.1 sin(3 t), with its velocity at the start."""
    C = build(rows(POINT, ["z - 0.1*sin(3*t)"]), np.zeros(3), m=0.25)
    for solver in (ProjectionSolver(C, C.q, np.array([0, 0, 0.3])), StabilisedSolver(C, C.q, np.zeros(3), 10.0)):
        for _ in range(500):
            assert solver.step() == ADVANCED
        assert solver.q[2] == pytest.approx(0.1 * math.sin(1.5), abs=1e-11)
        assert solver.v[2] == pytest.approx(0.3 * math.cos(1.5), abs=1e-9)


def test_bad_starts_are_named_with_their_residual():
    C, q = disk()
    with pytest.raises(ConstraintError, match=r"positions\[0\] \(x3 - radius\) is not met by the initial .* 0.01"):
        ProjectionSolver(C, q + np.array([0, 0, 0.01, 0, 0, 0]), np.zeros(6))
    with pytest.raises(ConstraintError, match=r"velocities\[1\] .* is not met by the initial velocity .* 0.1"):
        ProjectionSolver(C, q, np.array([0, 0.1, 0, 0, 0, 0]))
    with pytest.raises(ConstraintError, match=r"integrator 'euler'"):
        ProjectionSolver(C, q, np.zeros(6), integrator="euler")
    with pytest.raises(ConstraintError, match=r"wrench has the shape \(3,\)"):
        ProjectionSolver(C, q, np.zeros(6)).step(np.zeros(3))
    contradictory = build(rows(POINT, ["z", "z - level"]), np.zeros(3), m=0.25, level=5e-9)
    with pytest.raises(ConstraintError, match=r"positions\[[01]\] .* contradicts the others: residual"):
        ProjectionSolver(contradictory, np.zeros(3), np.zeros(3))


def test_a_disk_on_a_turntable_moves_as_the_multiplier_form_says():
    """A(q) qd = b(q): the plane under the disk turns, and drives it."""
    turning = 2.0
    C, q = tilted(LOPSIDED, turning=turning, q=(0.2, -0.1, r * math.sin(1.2), 0.3, 0.0, 1.2))
    w = C.evaluate(q, np.zeros(6))
    v = np.linalg.pinv(w.A) @ w.b + allowed(C, q, np.array([0, 0, 0, 2.0, 10.0, 1.0]), 10.0)
    solver = ProjectionSolver(C, q, v)
    rates = kkt(C, np.zeros(6))
    exact = solve_ivp(rates, (0, 1), np.concatenate([solver.q, solver.v]), "DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
    for _ in range(1000):
        assert solver.step() == ADVANCED
        assert max(solver.residuals) < 1e-11
    assert solver.q == pytest.approx(exact[:6], abs=1e-7)
    assert solver.v == pytest.approx(exact[6:], abs=1e-6)
    # the lowest point has the velocity of the turntable there
    c4, s4, c6 = math.cos(solver.q[3]), math.sin(solver.q[3]), math.cos(solver.q[5])
    x, y = solver.q[0] + r * s4 * c6, solver.q[1] - r * c4 * c6
    assert C.A(solver.q)[1:] @ solver.v == pytest.approx([-turning * y, turning * x], abs=1e-12)


def test_a_point_on_the_curve_where_two_cylinders_meet_keeps_its_energy():
    """A bead on a saddle-shaped curve: its speed along it is constant, as no force acts."""
    cylinders = ["(x**2 + y**2 - 0.04**2)/0.08", "(x**2 + z**2 - 0.05**2)/0.1"]
    C = build(rows(POINT, cylinders), [0.04, 0.0, 0.03], m=0.25)
    solver = ProjectionSolver(C, C.q, np.array([0.0, 0.3, 0]))
    turns, last = 0.0, 0.0
    for _ in range(3000):
        assert solver.step() == ADVANCED
        x, y, z = solver.q[:3]
        assert max(abs(math.hypot(x, y) - 0.04), abs(math.hypot(x, z) - 0.05)) < 1e-12
        angle = math.atan2(y, x)
        turns += abs(math.remainder(angle - last, 2 * math.pi)) / (2 * math.pi)
        last = angle
    assert turns > 2.0
    assert np.linalg.norm(solver.v[:3]) == pytest.approx(0.3, rel=1e-7)


def test_a_wrench_that_is_not_finite_holds_the_tool():
    C, q = disk(DAMPED)
    solver = ProjectionSolver(C, q, np.zeros(6))
    solver.step(np.array([0.5, 0, 0, 0, 0, 0.1]))
    before = solver.q.copy()
    solver.wrench[0] = math.nan
    assert solver.advance() == HELD
    assert solver.q.tolist() == before.tolist()
    assert np.isfinite(solver.v).all()
    solver.wrench[0] = 0.5
    assert solver.advance() == ADVANCED
    with pytest.raises(ConstraintError, match=r"wrench = \[nan"):
        solver.step(np.full(6, math.nan))


def test_nothing_is_compiled_after_the_first_step():
    C, q = disk()
    ProjectionSolver(C, q, np.zeros(6)).step()
    count = len(projection.step_rk4.signatures)
    C, q = circle()
    ProjectionSolver(C, q, np.zeros(2)).step()
    assert len(projection.step_rk4.signatures) == count
