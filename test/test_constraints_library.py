"""Systems and constraints against finite differences, geometry, closed forms and their own definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from haptic_sim.constraints import library as lib
from haptic_sim.constraints import systems as sys_
from haptic_sim.constraints.errors import ConstraintError

R_GENERIC = np.linalg.qr(np.random.default_rng(7).normal(size=(3, 3)))[0]
R_GENERIC *= np.sign(np.linalg.det(R_GENERIC))

BODY = sys_.rigid_body(0.25, (0.0025, 0.0030, 0.0041))
SPRUNG = sys_.rigid_body(
    0.25, (0.002, 0.003, 0.004), 0.0, 0.0, 90.0, 0.7, (0.1, 0.2, 0.3), (0.5, 0.5, -0.5, 0.5), (0.3, 0.0, -9.81)
)
LINKS = sys_.two_link(0.15, 2.0, 0.0, (-0.21, 0.03))
SPHERE = sys_.rolling_sphere(0.4, 0.05)
LOOP = sys_.link_and_body()

CASES = {
    "coordinate": (BODY, lib.coordinate(BODY, "x6", 1.2)),
    "plane": (BODY, lib.point_on_plane((1.0, 2.0, 0.5), 0.1, (0.1, 0.2, -0.1))),
    "sphere": (BODY, lib.point_on_sphere((0.2, 0.1, 0.3), 0.4, (0.1, 0.2, -0.1))),
    "circle": (BODY, lib.point_on_circle((0.2, 0.1, 0.3), (1.0, 0.3, 0.2), 0.4, (0.1, 0.0, -0.1))),
    "fixed": (BODY, lib.point_fixed((0.2, 0.1, 0.3), (0.1, 0.2, -0.1))),
    "tangent": (BODY, lib.tangent_to_sphere((0.1, 0.2, 0.3), 0.05)),
    "axis": (BODY, lib.axis_angle((1.0, 0.2, 0.1), (0.3, 0.2, 1.0), 0.6)),
    "upright": (BODY, lib.upright((0.2, 0.3, 1.0), (0.0, 0.1, 1.0))),
    "frame": (BODY, lib.frame_on_frame((0.1, 0.2, 0.3), R_GENERIC)),
    "disc": (BODY, [lib.disc_on_plane(0.03), lib.rolling_disc(0.03)]),
    "rolling_upright": (BODY, lib.rolling_upright(0.03)),
    "end_on_circle": (LINKS, lib.point_on_sphere((0.0, 0.0, 0.0), 0.05)),
    "point_on_link": (LINKS, lib.point_on_plane((0.4, 0.2, 0.0), 0.1, (-0.02, 0.01, 0.0))),
    "true": (SPHERE, [lib.coordinate(SPHERE, "distance", 0.6), lib.rolling_on_sphere(0.55, 0.05)]),
    "printed": (SPHERE, lib.rolling_on_sphere(0.55, 0.05, printed=True)),
    "point_of_sphere": (SPHERE, lib.point_fixed((0.2, 0.1, 0.3), (0.01, 0.02, -0.03))),
    "loop": (LOOP, lib.closed_loop(2.0, 0.5, 1.0, 2.5)),
    "point_of_body": (LOOP, lib.point_on_sphere((0.2, 0.1, 0.0), 0.4, (0.5, 0.1, 0.0))),
    "row": (BODY, lib.velocity_row([1.0, 2.0, 0.0, 0.5], 0.3)),
    "cylinder": (BODY, lib.point_on_cylinder((0.2, 0.1, 0.3), (1.0, 0.3, 0.2), 0.4, (0.1, 0.0, -0.1))),
    "ellipsoid": (BODY, lib.point_on_ellipsoid((0.2, 0.1, 0.3), R_GENERIC, (0.3, 0.4, 0.2), (0.1, 0.0, -0.1))),
    "line": (BODY, lib.point_on_line((0.2, 0.1, 0.3), (1.0, 0.3, 0.2), (0.1, 0.0, -0.1))),
    "two_cylinders": (
        BODY,
        [
            lib.point_on_cylinder((0, 0, 0), (0, 0, 1), 0.4, label="first"),
            lib.point_on_cylinder((0, 0, 0), (0, 1, 0), 0.5, label="second"),
        ],
    ),
    "saddle": (BODY, lib.point_on_quadric(np.diag([1.0, -1.0, 0.0]), (0.1, 0.0, 0.2), 0.1, 0.5)),
    "turntable": (BODY, [lib.disc_on_plane(0.03), lib.rolling_disc(0.03, turning=0.7)]),
    "turntable_upright": (BODY, lib.rolling_upright(0.03, turning=0.7)),
    "sloping_row": (BODY, lib.velocity_row([1.0, 2.0, 0.0, 0.5], 0.3, slope=[0.1, 0.0, -0.4, 0.0, 0.0, 0.6])),
}


def states(n: int, count: int = 4):
    rng = np.random.default_rng(20260)
    for _ in range(count):
        yield rng.uniform(0.3, 1.1, n), rng.normal(size=n)


@pytest.mark.parametrize("case", CASES)
def test_derivatives_are_those_of_the_residual_and_the_rows(case):
    system, parts = CASES[case]
    C = lib.constrain(system, parts)
    step = 1e-5
    for q, v in states(C.n):
        w = C.evaluate(q, v)
        A, Adot = w.A.copy(), w.Adot.copy()
        for j in range(C.n):
            e = step * np.eye(C.n)[j]
            difference = (C.evaluate(q + e, v).c.copy() - C.evaluate(q - e, v).c) / (2 * step)
            assert A[: C.k, j] == pytest.approx(difference, abs=1e-8)
        along = (C.evaluate(q + step * v, v).A.copy() - C.evaluate(q - step * v, v).A) / (2 * step)
        assert Adot == pytest.approx(along, abs=1e-7)
        bdot = C.evaluate(q, v).bdot.copy()
        change = (C.evaluate(q + step * v, v).b.copy() - C.evaluate(q - step * v, v).b) / (2 * step)
        assert bdot == pytest.approx(change, abs=1e-8)


@pytest.mark.parametrize("system", [BODY, SPRUNG, LINKS, SPHERE, LOOP], ids=lambda s: s.name)
def test_dynamics_are_those_of_the_lagrangian(system):
    """d/dt (M qd) - dT/dq + dV/dq, all by differences of the energy alone."""
    C = lib.constrain(system)
    n, step = C.n, 1e-4
    zero = np.zeros(n)
    for q, v in states(n):
        w = C.evaluate(q, v)
        M, bias, passive = w.M.copy(), w.bias.copy(), w.passive.copy()
        assert np.linalg.eigvalsh(M).min() > 0.0
        assert C.energy(q, v) - C.energy(q, zero) == pytest.approx(0.5 * v @ M @ v, rel=1e-12)
        rate = (C.evaluate(q + step * v, v).M @ v - C.evaluate(q - step * v, v).M @ v) / (2 * step)
        for j in range(n):
            e = step * np.eye(n)[j]
            kinetic = [C.energy(x, v) - C.energy(x, zero) for x in (q + e, q - e)]
            slope = (kinetic[0] - kinetic[1]) / (2 * step)
            assert bias[j] == pytest.approx(rate[j] - slope, abs=1e-6 * (1 + np.abs(bias).max()))
            potential = (C.energy(q + e, zero) - C.energy(q - e, zero)) / (2 * step)
            assert passive[j] == pytest.approx(-potential, abs=1e-6 * (1 + abs(potential)))


def test_inertia_of_the_body_is_the_printed_one():
    """FAULRING (20)."""
    q, v = next(states(6))
    M = lib.constrain(BODY).evaluate(q, v).M
    Jx, Jy, Jz = 0.0025, 0.0030, 0.0041
    s5, c5, s6, c6 = math.sin(q[4]), math.cos(q[4]), math.sin(q[5]), math.cos(q[5])
    assert M[3, 3] == pytest.approx((Jx * s5**2 + Jy * c5**2) * s6**2 + Jz * c6**2, rel=1e-12)
    assert M[3, 4] == pytest.approx(c6 * Jz, rel=1e-12)
    assert M[3, 5] == pytest.approx(c5 * (Jx - Jy) * s5 * s6, rel=1e-12)
    assert M[4, 4] == Jz and M[4, 5] == 0.0
    assert M[5, 5] == pytest.approx(c5**2 * Jx + s5**2 * Jy, rel=1e-12)


def test_kinetic_energy_of_the_links_adds_up():
    q, v = next(states(2))
    assert sum(sys_.link_energies(LINKS, q, v)) == pytest.approx(lib.constrain(LINKS).energy(q, v), rel=1e-13)


def test_residuals_of_surfaces_are_distances_to_first_order():
    """And vanish on the surfaces, at generic places and orientations."""
    axis, centre = np.array([1.0, 0.3, 0.2]) / np.linalg.norm([1.0, 0.3, 0.2]), np.array([0.2, 0.1, 0.3])
    out = np.cross(axis, [0.3, -0.2, 0.9])
    out /= np.linalg.norm(out)
    q = np.array([0.0, 0.0, 0.0, 0.4, 0.5, 0.6])
    cylinder = lib.constrain(BODY, lib.point_on_cylinder(centre, axis, 0.4))
    line = lib.constrain(BODY, lib.point_on_line(centre, axis))
    for off in (0.0, 1e-6):
        q[:3] = centre + 0.7 * axis + (0.4 + off) * out
        assert cylinder.evaluate(q, np.zeros(6)).c[0] == pytest.approx(off, abs=1e-11)
        q[:3] = centre - 0.7 * axis + off * out
        assert np.linalg.norm(line.evaluate(q, np.zeros(6)).c) == pytest.approx(off, abs=1e-15)
    semi_axes = np.array([0.3, 0.4, 0.2])
    ellipsoid = lib.constrain(BODY, lib.point_on_ellipsoid(centre, R_GENERIC, semi_axes))
    direction = np.array([0.6, -0.64, 0.48])
    q[:3] = centre + R_GENERIC @ (semi_axes * direction)
    assert ellipsoid.evaluate(q, np.zeros(6)).c[0] == pytest.approx(0.0, abs=1e-15)
    # at the end of the longest semi-axis the residual is the distance
    q[:3] = centre + R_GENERIC @ np.array([0.0, 0.4 + 1e-6, 0.0])
    assert ellipsoid.evaluate(q, np.zeros(6)).c[0] == pytest.approx(1e-6, rel=1e-4)


def rotation(q4: float, q5: float, q6: float) -> np.ndarray:
    def z(a):
        return np.array([[math.cos(a), -math.sin(a), 0], [math.sin(a), math.cos(a), 0], [0, 0, 1]])

    x = np.array([[1, 0, 0], [0, math.cos(q6), -math.sin(q6)], [0, math.sin(q6), math.cos(q6)]])
    return z(q4) @ x @ z(q5)


def spatial_rate(angles, rates, step=1e-6):
    a, r = np.asarray(angles), np.asarray(rates)
    Rdot = (rotation(*(a + step * r)) - rotation(*(a - step * r))) / (2 * step)
    S = Rdot @ rotation(*a).T
    return np.array([S[2, 1], S[0, 2], S[1, 0]])


def test_rolling_disc_rows_are_the_velocity_of_the_lowest_point():
    C = lib.constrain(BODY, lib.rolling_disc(0.03))
    for q, v in states(6):
        omega = spatial_rate(q[3:], v[3:])
        normal = rotation(*q[3:])[:, 2]
        up = np.array([0, 0, 1]) - normal[2] * normal
        contact = v[:3] + np.cross(omega, -0.03 * up / np.linalg.norm(up))
        assert C.evaluate(q, v).A @ v == pytest.approx(contact[:2], abs=1e-9)


def test_upright_the_rolling_rows_agree_on_all_motions_that_stay_upright():
    q, v = next(states(6))
    q[5], v[5] = math.pi / 2, 0.0
    both = [lib.constrain(BODY, c).evaluate(q, v).A @ v for c in (lib.rolling_disc(0.03), lib.rolling_upright(0.03))]
    assert both[0] == pytest.approx(both[1], abs=1e-15)


def test_true_rolling_does_not_slip_and_printed_rolling_does():
    """v = r omega x n at the contact, with the spatial rate of the sphere."""
    slips = {}
    for printed in (False, True):
        C = lib.constrain(SPHERE, lib.coordinate(SPHERE, "distance", 0.6), lib.rolling_on_sphere(0.55, 0.05, printed))
        slip = 0.0
        for q, v in states(6):
            q[0] = 0.6
            A = C.evaluate(q, v).A.copy()
            v = v - np.linalg.pinv(A) @ A @ v
            step = 1e-6
            centres = []
            for x in (q + step * v, q - step * v):
                ca = math.cos(x[1])
                centres.append(x[0] * np.array([ca * math.cos(x[2]), ca * math.sin(x[2]), -math.sin(x[1])]))
            centre = 0.5 * (centres[0] + centres[1])
            omega = spatial_rate((q[3], q[5], q[4]), (v[3], v[5], v[4]))
            velocity = (centres[0] - centres[1]) / (2 * step)
            slip = max(slip, np.linalg.norm(velocity - 0.05 * np.cross(omega, centre / np.linalg.norm(centre))))
        slips[printed] = slip
    assert slips[False] < 1e-9 and slips[True] > 1e-3


def test_tangency_keeps_the_disc_normal_along_the_radius():
    """Errata 3: the position is the centre plus r_s times the axis (s4 s6, -c4 s6, c6)."""
    C = lib.constrain(BODY, lib.tangent_to_sphere((0.1, 0.2, 0.3), 0.05))
    q, v = next(states(6))
    q[:3] = np.array([0.1, 0.2, 0.3]) + 0.05 * rotation(q[3], q[4], q[5])[:, 2]
    assert C.evaluate(q, v).c == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-7, 0.7, math.pi - 1e-9, math.pi])
def test_spring_moment_is_regular_at_zero_and_at_pi(angle):
    """k_r angle about the axis, restoring: FAULRING (44) with a logarithm that is not singular."""
    axis = np.array([0.0, 0.6, 0.8])
    quat = np.append(math.sin(angle / 2) * axis, math.cos(angle / 2))
    body = sys_.rigid_body(1.0, (1.0, 1.0, 1.0), rotational_stiffness=0.7, spring_quat_xyzw=quat.tolist())
    C = lib.constrain(body)
    q = np.array([0, 0, 0, 0.4, -0.4, 1e-9])  # R = identity to 1e-9, away from the pole itself
    w = C.evaluate(q, np.zeros(6))
    expected = w.E.T @ (0.7 * angle * axis)
    if angle > 3.0:  # one of the two shortest ways
        assert np.abs(w.passive) == pytest.approx(np.abs(expected), abs=1e-6)
    else:
        assert w.passive == pytest.approx(expected, abs=2e-9)
    assert C.energy(q, np.zeros(6)) == pytest.approx(0.35 * angle**2, abs=1e-8)


def test_damping_takes_the_power_of_the_body_rates():
    body = sys_.rigid_body(0.25, (0.002, 0.003, 0.004), damping=1.5, rotational_damping=0.2)
    for q, v in states(6):
        w = lib.constrain(body).evaluate(q, v)
        omega = spatial_rate(q[3:], v[3:])
        assert v @ w.passive == pytest.approx(-1.5 * v[:3] @ v[:3] - 0.2 * omega @ omega, rel=1e-8)


def test_users_constraints_join_those_of_the_library():
    plane = lib.UserConstraint(
        "mine", 1, True, lambda q: [[0, 1, 0, 0, 0, 0]], lambda q, v: np.zeros((1, 6)), lambda q: [q[1] - 0.2]
    )
    driven = lib.UserConstraint(
        "drive", 1, False, lambda q: [[0, 0, 0, q[0], 0, 0]], lambda q, v: [[0, 0, 0, v[0], 0, 0]], None,
        lambda q, v: ([q[2]], [v[2]]),
    )  # fmt: skip
    C = lib.constrain(BODY, driven, lib.velocity_row([1.0]), plane, lib.coordinate(BODY, "x3", 0.1))
    assert C.row_names == ("x3", "mine", "velocity_row", "drive")
    q, v = next(states(6))
    w = C.evaluate(q, v)
    assert w.c == pytest.approx([q[2] - 0.1, q[1] - 0.2])
    assert w.A @ v == pytest.approx([v[2], v[1], v[0], q[0] * v[3]])
    assert w.Adot[3, 3] == v[0] and w.b[3] == q[2] and w.bdot[3] == v[2]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: sys_.rigid_body(0.0, (1, 1, 1)), r"rigid_body.mass = 0.0 kg: must be finite and > 0"),
        (lambda: sys_.two_link(0.15, math.nan), r"two_link.mass = nan kg"),
        (lambda: sys_.rigid_body(1.0, (1, 1, 3)), r"none above the sum of the others"),
        (lambda: lib.coordinate(SPHERE, "latitud", 0.0), r"coordinate 'latitud' \(did you mean latitude\?\)"),
        (lambda: lib.point_on_plane((0, 0, 0), label="floor"), r"floor.normal .* length > 0"),
        (lambda: lib.point_on_sphere((0, 0), 0.1), r"point_on_sphere.centre has the shape \(2,\): must be \(3,\)"),
        (lambda: lib.rolling_upright(-1.0), r"rolling.radius = -1.0 m"),
        (lambda: lib.constrain(LINKS, lib.rolling_upright(0.1)), r"constraint rolling: not for the system two_link"),
        (lambda: lib.constrain(LINKS, lib.velocity_row([1, 0, 2.0])), r"velocity_row: more coefficients than the 2"),
        (
            lambda: lib.constrain(LINKS, lib.velocity_row([1.0], slope=[0, 0, 1.0])),
            r"velocity_row: more coefficients than the 2",
        ),
        (lambda: lib.velocity_row([1.0] * 8), r"velocity_row has 8 coefficients: at most 7"),
        (lambda: lib.rolling_disc(0.1, turning=math.nan), r"rolling = \[0.1, nan\]: must be finite"),
        (lambda: lib.point_on_cylinder((0, 0, 0), (0, 0, 0), 0.1), r"point_on_cylinder.axis = \[0.0, 0.0, 0.0\]"),
        (lambda: lib.point_on_cylinder((0, 0, 0), (0, 0, 1), 0.0), r"point_on_cylinder.radius = 0.0 m"),
        (lambda: lib.point_on_quadric(np.ones((3, 2)), (0, 0, 0), 1.0, 1.0), r"matrix has the shape \(3, 2\)"),
        (lambda: lib.point_on_quadric(np.zeros((3, 3)), (0, 0, 0), 1.0, 1.0), r"matrix is zero: there is no surface"),
        (
            lambda: lib.point_on_quadric([[1, 1, 0], [0, 1, 0], [0, 0, 1]], (0, 0, 0), 1.0, 1.0),
            r"must be \(3, 3\), symmetric",
        ),
        (lambda: lib.point_on_ellipsoid((0, 0, 0), np.eye(3), (0.1, -0.2, 0.3)), r"semi_axes = -0.2 m: must be finite"),
        (
            lambda: lib.constrain(
                LINKS, lib.UserConstraint("bad", 1, False, lambda q: [1.0, 2.0], lambda q, v: [[0, 0]])
            ).evaluate([0, 0], [0, 0]),
            r"constraint bad: jacobian has the shape \(2,\), must be \(1, 2\)",
        ),
        (lambda: lib.constrain(LINKS).evaluate([0, math.inf], [0, 0]), r"q = \[0.0, inf\]: must be finite"),
    ],
)
def test_bad_input_is_named(build, message):
    with pytest.raises(ConstraintError, match=message):
        build()
