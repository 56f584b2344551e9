"""Time-stepping by Stewart and Trinkle's complementarity problem: laws of contact, closed forms and random worlds.

A contact sees p_n >= 0, c_n + b_n >= 0 and friction in a pyramid of `facets` edges inside Coulomb's cone; energy is
1/2 |u|^2 in scaled velocities, so that |u'| <= |u| says that none was added.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haptic_sim.contact.solvers.lemke import LcpError, lemke
from haptic_sim.contact.solvers.outcomes import INACCURATE, RAY, SOLVED, TOO_MANY
from haptic_sim.contact.solvers.stewart_trinkle import (
    COMPLIANCE,
    ContactProblem,
    build_problem,
    solve,
    stewart_trinkle,
)
from haptic_sim.dynamics.scaled import ScaledContacts, contact_velocity
from haptic_sim.packed import Packed

GRAVITY = 9.81  # [m/s^2]
UP = np.array([0.0, 0.0, 1.0])
Vector = Sequence[float] | np.ndarray


@dataclass
class World:
    """Free bodies with mass m, inertia I about their centres x and velocities [v, w] in world axes; contacts."""

    m: list[float]
    I: list[np.ndarray]  # noqa: E741 (its name in every book)
    x: list[np.ndarray]
    v: np.ndarray
    contacts: list[tuple[int, int, np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)

    def touch(self, A: int, B: int, point: Vector, normal: np.ndarray, tangent: Vector) -> None:
        """Add a contact of bodies A and B, -1 if fixed; the normal from A to B."""
        self.contacts.append((A, B, np.array(point), normal, np.array(tangent)))

    @property
    def L(self) -> np.ndarray:
        L = np.zeros((6 * len(self.m), 6 * len(self.m)))
        for k, (m, inertia) in enumerate(zip(self.m, self.I, strict=True)):
            L[6 * k : 6 * k + 3, 6 * k : 6 * k + 3] = math.sqrt(m) * np.eye(3)
            L[6 * k + 3 : 6 * k + 6, 6 * k + 3 : 6 * k + 6] = np.linalg.cholesky(inertia)
        return L

    def scaled(self) -> ScaledContacts:
        """W = J L^-T by trees; what is not in use is NaN."""
        bodies = len(self.m)
        scaled = ScaledContacts.allocate(len(self.contacts) + 1, 6 * np.arange(bodies), np.full(bodies, 6))
        scaled.W[:] = np.nan
        for i, (A, B, point, normal, tangent) in enumerate(self.contacts):
            for side, (body, sign) in enumerate(((A, -1.0), (B, 1.0))):
                scaled.tree[i, side] = body
                if body >= 0:
                    L = self.L[6 * body : 6 * body + 6, 6 * body : 6 * body + 6]
                    for d, n in enumerate((normal, tangent, np.cross(normal, tangent))):
                        row = sign * np.concatenate([n, np.cross(point - self.x[body], n)])
                        scaled.W[i, d, side] = np.linalg.solve(L, row)
        return scaled


@dataclass
class Step:
    """A step that was resolved: code, impulses, scaled velocities before and after, velocities of the contacts."""

    code: int
    p: np.ndarray
    before: np.ndarray
    u: np.ndarray
    c: np.ndarray
    rows: int

    @property
    def gain(self) -> float:
        """Kinetic energy that was added, as a part of that before."""
        return float(self.u @ self.u - self.before @ self.before) / max(float(self.before @ self.before), 1e-300)


def resolve(
    contacts: ScaledContacts,
    n: int,
    u: np.ndarray,
    b: object,
    mu: object,
    facets: int,
    room: int = 2,
    compliance: float = 0.0,
) -> Step:
    problem = ContactProblem.allocate(n + room, facets, compliance)
    for array in (problem.M, problem.q, problem.z, problem.A, problem.lemke.T):
        array[:] = np.nan
    p, after = np.full((n + 1, 3), 77.0), u.copy()
    bias, friction = np.full(n + 1, np.nan), np.full(n + 1, np.nan)
    bias[:n], friction[:n] = b, mu
    code = stewart_trinkle(Packed(problem).arrays, Packed(contacts).arrays, n, after, bias, friction, p)
    assert (p[n:] == 77.0).all()  # behind the contacts in use
    if code != SOLVED:
        np.testing.assert_array_equal(after, u)
        assert (p == 77.0).all()
    c = np.array([[contact_velocity(contacts, i, d, after) for d in range(3)] for i in range(n)]).reshape(n, 3)
    rows = int(problem.used[0] + problem.used[1] * (1 + facets))
    return Step(int(code), p[:n], u, after, c, rows)


def step(
    world: World, b: object = 0.0, mu: object = 0.5, facets: int = 4, compliance: float = 0.0
) -> tuple[Step, np.ndarray]:
    """Resolve the contacts of a world; its velocities after."""
    L = world.L
    done = resolve(world.scaled(), len(world.contacts), L.T @ world.v, b, mu, facets, compliance=compliance)
    return done, np.linalg.solve(L.T, done.u)


def check_laws(done: Step, b: np.ndarray, mu: np.ndarray, facets: int, tolerance: float = 1e-8) -> None:
    """The laws of the contacts in physical terms, without the complementarity problem."""
    p_n, p_t, slack, slip = done.p[:, 0], done.p[:, 1:], done.c[:, 0] + b, done.c[:, 1:]
    size = 1.0 + np.abs(done.c).max(initial=0.0) + np.abs(b).max(initial=0.0)
    push = 1e-300 + np.abs(done.p).max(initial=0.0)
    assert (p_n >= 0.0).all()
    assert slack.min(initial=0.0) >= -tolerance * size
    assert np.abs(p_n * slack).max(initial=0.0) <= tolerance * size * push
    k = 2 * math.pi / facets * np.arange(facets)
    edges = np.array([np.cos(k), np.sin(k)])
    faces = np.array([np.cos(k + math.pi / facets), np.sin(k + math.pi / facets)])
    if facets == 2:
        assert (np.abs(p_t[:, 0]) <= mu * p_n * (1 + 1e-12)).all()
        np.testing.assert_allclose(p_t[:, 1], 0.0, atol=1e-15 * push)
    else:
        limit = (mu * p_n * math.cos(math.pi / facets))[:, None]
        assert (p_t @ faces <= limit + 1e-12 * push).all()
    strongest = mu * p_n * (slip @ edges).max(axis=1, initial=0.0)
    power = -(p_t * slip).sum(axis=1)
    np.testing.assert_allclose(power, strongest, rtol=0, atol=tolerance * size * push * (1 + mu.max(initial=0.0)))


def cube(mass: float, side: float, centre: Sequence[float]) -> tuple[float, np.ndarray, np.ndarray]:
    return mass, mass * side**2 / 6 * np.eye(3), np.array(centre)


def stack(count: int, h: float, side: float = 0.1, mass: float = 1.0) -> World:
    """Cubes on a floor after a step of gravity, four contacts between two of them."""
    parts = [cube(mass, side, (0.0, 0.0, side * (k + 0.5))) for k in range(count)]
    world = World([a for a, _, _ in parts], [a for _, a, _ in parts], [a for _, _, a in parts], np.zeros(6 * count))
    world.v[2::6] = -GRAVITY * h
    for k in range(count):
        for x, y in itertools.product((-side / 2, side / 2), repeat=2):
            world.touch(k - 1, k, (x, y, side * k), UP, (1.0, 0.0, 0.0))
    return world


def random_contacts(rng: np.random.Generator, kind: str, n: int) -> tuple[ScaledContacts, int]:
    """Contacts between trees of 1 to 6 coordinates; of real or whole numbers, some the same or opposite."""
    trees = int(rng.integers(1, 5))
    size = rng.integers(1, 7, trees)
    start = np.concatenate([[0], np.cumsum(size)[:-1]])
    contacts = ScaledContacts.allocate(n + 1, start, size)
    contacts.W[:] = np.nan
    for i in range(n):
        if kind == "redundant" and i and rng.random() < 0.5:
            j = int(rng.integers(i))
            contacts.tree[i], contacts.W[i] = contacts.tree[j], contacts.W[j] * rng.choice([-1.0, 1.0])
            continue
        contacts.tree[i] = rng.choice(np.arange(-1, trees), 2, replace=False)
        for side, tree in enumerate(contacts.tree[i]):
            if tree >= 0:
                shape = (3, size[tree])
                rows = rng.normal(size=shape) if kind == "real" else rng.integers(-2, 3, shape)
                contacts.W[i, :, side, : size[tree]] = rows
    return contacts, int(size.sum())


def dense(contacts: ScaledContacts, n: int) -> np.ndarray:
    """W (n, 3, nv) from its trees."""
    W = np.zeros((n, 3, int(contacts.size.sum())))
    for i, side in itertools.product(range(n), range(2)):
        tree = contacts.tree[i, side]
        if tree >= 0:
            first, size = contacts.start[tree], contacts.size[tree]
            W[i, :, first : first + size] += contacts.W[i, :, side, :size]
    return W


def test_the_problem_is_that_of_stewart_and_trinkle() -> None:
    """M = [A_nn, A_nd, 0; A_dn, A_dd, E; mu, -E^T, 0] and q, from dense W; rows and columns scaled by contact."""
    rng = np.random.default_rng(20260)
    for case in range(60):
        facets = (2, 4, 6, 8)[case % 4]
        n = int(rng.integers(1, 8))
        contacts, nv = random_contacts(rng, "real", n)
        contacts.offset[:] = rng.normal(size=contacts.offset.shape)
        u, b, mu = rng.normal(size=nv), rng.normal(size=n), rng.choice([0.0, 0.3, 0.8], n)
        compliance = (0.0, 0.01)[case % 2]
        problem = ContactProblem.allocate(n, facets, compliance)
        rows = build_problem(Packed(problem).arrays, Packed(contacts).arrays, n, u, b, mu)
        W = dense(contacts, n)
        scale = np.sqrt((W**2).sum(axis=2).max(axis=1))
        np.testing.assert_allclose(problem.scale[:n], scale, rtol=1e-14)
        rubbing = np.flatnonzero(mu > 0.0)
        angle = 2 * math.pi / facets * np.arange(facets)
        D = np.cos(angle)[:, None] * W[:, None, 1] + np.sin(angle)[:, None] * W[:, None, 2]  # (n, facets, nv)
        slip = np.cos(angle) * contacts.offset[:n, 1, None] + np.sin(angle) * contacts.offset[:n, 2, None]
        G = np.vstack([W[:, 0], D[rubbing].reshape(-1, nv)])
        f = len(rubbing)
        E = np.kron(np.eye(f), np.ones((facets, 1)))
        M = np.zeros((rows, rows))
        M[: n + f * facets, : n + f * facets] = G @ G.T
        M[n : n + f * facets, n + f * facets :] = E
        M[n + f * facets :, n : n + f * facets] = -E.T
        M[n + f * facets + np.arange(f), rubbing] = mu[rubbing]
        q = np.concatenate([G @ u, np.zeros(f)])
        q[:n] += contacts.offset[:n, 0] + b
        q[n : n + f * facets] += slip[rubbing].ravel()
        of = np.concatenate([np.arange(n), np.repeat(rubbing, facets), rubbing])  # contact of each row
        left = np.concatenate([1 / scale[of[: n + f * facets]], scale[rubbing]])
        right = np.concatenate([1 / scale[of[: n + f * facets]], scale[rubbing]])
        soft = np.diag(np.where(np.arange(rows) < n, compliance, 0.0))
        assert rows == n + f * (facets + 1)
        np.testing.assert_allclose(problem.M[:rows, :rows], left[:, None] * M * right + soft, rtol=0, atol=1e-13)
        np.testing.assert_allclose(problem.q[:rows], left * q, rtol=0, atol=1e-13)


def test_contacts_without_friction_have_one_row() -> None:
    world = stack(1, 1e-3)
    for mu, rows in ((0.0, 4), ([0.0, 0.5, 0.0, 0.5], 4 + 2 * 5), (0.5, 4 * 6)):
        assert step(world, mu=mu)[0].rows == rows


def test_no_contacts() -> None:
    contacts = ScaledContacts.allocate(1, np.array([0]), np.array([3]))
    done = resolve(contacts, 0, np.array([1.0, 2.0, 3.0]), 0.0, 0.0, 4, room=0)
    assert done.code == SOLVED
    np.testing.assert_array_equal(done.u, [1.0, 2.0, 3.0])


def test_contacts_that_nothing_can_move_have_no_impulse_and_disturb_none() -> None:
    """Between fixed bodies; with rows of zeros; and one whose normal cannot move but whose plane can."""
    world = stack(1, 1e-3)
    world.touch(-1, -1, (0.0, 0.0, 0.0), UP, (1.0, 0.0, 0.0))
    world.touch(-1, 0, (0.0, 0.0, 0.0), UP, (1.0, 0.0, 0.0))
    world.touch(-1, 0, (0.0, 0.0, 0.0), UP, (1.0, 0.0, 0.0))
    contacts = world.scaled()
    contacts.W[5] = 0.0
    contacts.W[6, 0] = 1e-17
    u = world.L.T @ world.v
    done = resolve(contacts, 7, u, np.array([0.0] * 4 + [-1.0] * 3), 0.5, 4)
    assert done.code == SOLVED
    assert (done.p[4:] == 0.0).all()
    assert done.p[:4, 0].sum() == pytest.approx(GRAVITY * 1e-3, rel=1e-12)
    np.testing.assert_allclose(done.u, 0.0, atol=1e-15)


@pytest.mark.parametrize("facets", [2, 4, 6, 8])
@pytest.mark.parametrize("slope", [0.1, 0.5, 1.2])
def test_a_block_on_an_incline(slope: float, facets: int) -> None:
    """Tangent 1 down the slope: it sticks for mu >= tan(slope), else v' = v + g h (sin - mu cos), to rounding.

    The block is low, so that it does not tip: its corners hold the moment of friction.
    """
    h, mass = 1e-3, 3.0
    down = np.array([math.cos(slope), 0.0, -math.sin(slope)])
    normal = np.array([math.sin(slope), 0.0, math.cos(slope)])
    across = np.cross(normal, down)
    height = 0.02
    inertia = mass * np.diag([0.01, 0.01, 0.02])
    for mu, start in (
        (math.tan(slope) * (1 + 1e-9), 0.0),
        (math.tan(slope) * (1 - 1e-6), 0.0),
        (0.5 * math.tan(slope), 0.0),
        (0.5 * math.tan(slope), 2.0),
        (1.5 * math.tan(slope), 2.0),
    ):
        world = World([mass], [inertia], [height / 2 * normal], np.zeros(6))
        world.v[:3] = start * down - GRAVITY * h * UP
        for x, y in itertools.product((-0.1, 0.1), repeat=2):
            world.touch(-1, 0, x * down + y * across, normal, down)
        done, v = step(world, mu=mu, facets=facets)
        assert done.code == SOLVED
        expected = max(start + GRAVITY * h * (math.sin(slope) - mu * math.cos(slope)), 0.0)
        np.testing.assert_allclose(v[:3], expected * down, rtol=0, atol=1e-13)
        np.testing.assert_allclose(v[3:], 0.0, atol=1e-12)
        assert done.p[:, 0].sum() == pytest.approx(mass * GRAVITY * h * math.cos(slope), rel=1e-12)


@pytest.mark.parametrize("facets", [4, 6, 8, 16])
def test_friction_errs_by_the_facets(facets: int) -> None:
    """A point mass that slides at any angle to tangent 1, against Coulomb's cone in closed form.

    Along the motion the friction is between cos(pi / facets) and 1 times mu p_n, and exactly 1 along an edge. At
    rest, a push at angle a from the nearest edge is held up to mu p_n cos(pi/facets) / cos(pi/facets - a).
    """
    mass, mu, weight, least = 2.0, 0.4, 0.5, math.cos(math.pi / facets)
    worst = 1.0
    for angle in np.linspace(0.0, 2 * math.pi, 97):
        contacts = ScaledContacts.allocate(1, np.array([0]), np.array([3]))
        contacts.tree[0] = -1, 0
        contacts.W[0, :, 1] = np.eye(3) / math.sqrt(mass)
        way = np.array([math.cos(angle), math.sin(angle)])
        root = math.sqrt(mass)
        done = resolve(contacts, 1, root * np.concatenate([[-weight / mass], 3.0 * way]), 0.0, mu, facets)
        assert done.p[0, 0] == pytest.approx(weight, rel=1e-13)
        friction = -done.p[0, 1:] @ way / (mu * weight)
        worst = min(worst, friction)
        assert least - 1e-12 <= friction <= 1 + 1e-12
        assert np.linalg.norm(done.p[0, 1:]) <= mu * weight * (1 + 1e-12)
        a = angle % (2 * math.pi / facets)
        if min(a, 2 * math.pi / facets - a) < 1e-9:
            assert friction == pytest.approx(1.0, rel=1e-12)
        limit = mu * weight * least / math.cos(math.pi / facets - a)
        for part, sticks in ((1 - 1e-9, True), (1 + 1e-6, False)):
            push = root * np.concatenate([[-weight / mass], part * limit / mass * way])
            done = resolve(contacts, 1, push, 0.0, mu, facets)
            assert (np.linalg.norm(done.c[0, 1:]) < 1e-12) == sticks
    if facets in (4, 16):
        assert worst == pytest.approx(least, rel=1e-3)  # the bound is reached


def test_a_sliding_block_stops_and_stays() -> None:
    """v falls by mu g h a step and never turns: 2 m/s last 2 / (mu g h) = 408 steps of 1 ms with mu = 0.5."""
    world = stack(1, 1e-3)
    world.x[0][2] = 0.002  # low: it does not tip
    world.v[0] = 2.0
    for k in range(420):
        done, v = step(world)
        assert done.code == SOLVED
        assert v[0] == pytest.approx(max(2.0 - (k + 1) * 0.5 * GRAVITY * 1e-3, 0.0), abs=1e-12)
        world.v = v + np.array([0, 0, -GRAVITY * 1e-3, 0, 0, 0])


@pytest.mark.parametrize("angle", [0.0, 0.7])
def test_a_ball_with_back_spin_comes_back(angle: float) -> None:
    """v = 1 m/s, spin so that r w = -4 v: the momentum about the contact gives (5 v - 2 * 4 v) / 7 = -3/7 m/s.

    While it slides, v falls by mu g h a step; tangent 1 is the way it goes, at a generic angle in the world.
    """
    r, mass, mu, h = 0.03, 0.17, 0.2, 1e-3
    way = np.array([math.cos(angle), math.sin(angle), 0.0])
    world = World([mass], [0.4 * mass * r**2 * np.eye(3)], [r * UP], np.zeros(6))
    world.v[:3] = way
    world.v[3:] = -4.0 / r * np.cross(UP, way)  # rolling forwards has w = v/r z x way
    world.touch(-1, 0, (0.0, 0.0, 0.0), UP, way)
    speeds = []
    for _ in range(1000):
        world.v[2] -= GRAVITY * h
        done, world.v = step(world, mu=mu)
        assert done.code == SOLVED
        assert done.gain <= 0.0
        speeds.append(world.v[:3] @ way)
    np.testing.assert_allclose(speeds[:700], 1.0 - mu * GRAVITY * h * np.arange(1, 701), atol=1e-11)
    assert speeds[-1] == pytest.approx(-3 / 7, rel=1e-10)
    np.testing.assert_allclose(world.v[3:], speeds[-1] / r * np.cross(UP, way), atol=1e-10)  # it rolls


def rod(angle: float) -> tuple[np.ndarray, ScaledContacts]:
    """A uniform rod of 2 kg and 1 m in the plane, its lower end ahead; A (2, 2) [1/kg] and its contact.

    With r from the centre to the end, W_n = (0, 1/sqrt(m), r_x/sqrt(I)) and W_t = (1/sqrt(m), 0, -r_y/sqrt(I)).
    """
    m, half = 2.0, 0.5
    inertia = m * half**2 / 3
    x, y = half * math.cos(angle), -half * math.sin(angle)
    contacts = ScaledContacts.allocate(1, np.array([0]), np.array([3]))
    contacts.tree[0] = -1, 0
    contacts.W[0, 0, 1] = 0.0, m**-0.5, x * inertia**-0.5
    contacts.W[0, 1, 1] = m**-0.5, 0.0, -y * inertia**-0.5
    W = contacts.W[0, :2, 1]
    return W @ W.T, contacts


@pytest.mark.parametrize("facets", [2, 4])
def test_painleves_rod_has_a_finite_impulse_where_there_is_no_force(facets: int) -> None:
    """mu > A_nn / A_nt: a sliding rod has no contact force, a = (A_nn - mu A_nt) f_n - g >= 0 with f_n >= 0.

    A step has an impulse all the same, which stops the end at once (a shock without collision), p = -A^-1 c, and
    which hardly depends on the length of the step.
    """
    A, contacts = rod(0.9)
    mu, speed, limit = 2.0, 3.0, -np.linalg.solve(A, [0.0, 3.0])
    assert mu > A[0, 0] / A[0, 1] > 1.3
    with pytest.raises(LcpError) as caught:
        lemke(A[:1, :1] - mu * A[0, 1], np.array([-GRAVITY]))
    assert caught.value.code == RAY
    for h in (1e-2, 1e-3, 1e-4, 1e-6):
        u = math.sqrt(2.0) * np.array([speed, -GRAVITY * h, 0.0])
        done = resolve(contacts, 1, u, 0.0, mu, facets)
        assert done.code == SOLVED
        assert done.gain < -0.1
        np.testing.assert_allclose(done.p[0, :2], -np.linalg.solve(A, [-GRAVITY * h, speed]), rtol=1e-12)
        np.testing.assert_allclose(done.p[0, :2], limit, rtol=100 * h)
        np.testing.assert_allclose(done.c[0], 0.0, atol=1e-14)


def test_a_rod_with_less_friction_slides_with_the_force_it_should_have() -> None:
    """mu < A_nn / A_nt: f_n = g / (A_nn - mu A_nt), and the impulse is h f_n."""
    A, contacts = rod(0.9)
    mu, h = 1.0, 1e-3
    done = resolve(contacts, 1, math.sqrt(2.0) * np.array([3.0, -GRAVITY * h, 0.0]), 0.0, mu, 2)
    force = GRAVITY / (A[0, 0] - mu * A[0, 1])
    np.testing.assert_allclose(done.p[0], [h * force, -h * mu * force, 0.0], rtol=1e-12)


def test_painleves_rod_falls_without_gaining_energy() -> None:
    """From the paradox on, 0.4 s long: energy and impulses stay finite, no step adds energy, it does not sink."""
    m, half, h, mu = 2.0, 0.5, 1e-3, 2.0
    inertia = m * half**2 / 3
    scale = np.sqrt([m, m, inertia])
    angle, x = 0.9, np.array([0.0, half * math.sin(0.9)])
    v = np.array([3.0, 0.0, 0.0])
    pushed = 0.0
    for _ in range(400):
        v[1] -= GRAVITY * h
        _, contacts = rod(angle)
        separation = x[1] - half * math.sin(angle)
        done = resolve(contacts, 1, scale * v, max(separation, 0.0) / h, mu, 2)
        assert done.code == SOLVED
        assert done.gain <= 0.0
        pushed += done.p[0, 0]
        v = done.u / scale
        x, angle = x + h * v[:2], angle - h * v[2]  # ahead of its centre, the end turns downwards with positive spin
        assert separation > -0.02
    assert np.abs(v).max() < 20.0
    assert pushed < 2 * m * (GRAVITY * 0.4 + 3.0)


@pytest.mark.parametrize("facets", [4, 8])
@pytest.mark.parametrize("mu", [0.0, 0.5, 3.0])
def test_two_stacked_boxes_carry_their_weight(mu: float, facets: int) -> None:
    """Eight contacts, 24 equations for 12 velocities: impulses are not unique, their sums are."""
    h = 1e-3
    done, v = step(stack(2, h), mu=mu, facets=facets)
    assert done.code == SOLVED
    np.testing.assert_allclose(v, 0.0, atol=1e-15)
    assert done.p[:4, 0].sum() == pytest.approx(2 * GRAVITY * h, rel=1e-12)
    assert done.p[4:, 0].sum() == pytest.approx(GRAVITY * h, rel=1e-12)
    np.testing.assert_allclose(done.p[:4, 1:].sum(axis=0), 0.0, atol=1e-14)


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_stacks_that_are_thrown_obey_the_laws(count: int) -> None:
    """Up to 32 contacts, of which many touch at equal velocities: ties everywhere."""
    rng = np.random.default_rng(20270 + count)
    for size in (1e-3, 0.1, 1.0):
        for facets in (4, 8) if count < 8 else (4,):
            world = stack(count, 1e-3)
            world.v += size * rng.normal(size=6 * count)
            done, _ = step(world, mu=0.5, facets=facets)
            assert done.code == SOLVED
            assert done.gain <= 0.0
            check_laws(done, np.zeros(4 * count), np.full(4 * count, 0.5), facets)


@pytest.mark.parametrize("facets", [2, 4, 6])
@pytest.mark.parametrize("kind", ["real", "whole", "redundant"])
def test_every_world_is_solved_and_obeys_the_laws(kind: str, facets: int) -> None:
    """With b_n >= 0 there is a solution whatever the friction (0 to 5), and it never adds energy."""
    rng = np.random.default_rng(20280)
    for case in range(150):
        n = int(rng.integers(1, 13))
        contacts, nv = random_contacts(rng, kind, n)
        if facets == 2:
            contacts.W[:, 2] = 0.0
        u = rng.normal(size=nv) if case % 2 else rng.integers(-2, 3, nv).astype(float)
        b, mu = rng.choice([0.0, 0.0, 1.0], n), rng.choice([0.0, 0.3, 1.0, 5.0], n)
        done = resolve(contacts, n, u, b, mu, facets)
        assert done.code == SOLVED
        assert done.gain <= 1e-13
        moved = np.array([(contacts.W[i, 0][contacts.tree[i] >= 0] != 0.0).any() for i in range(n)], bool)
        rubs = np.array([np.nansum(np.abs(contacts.W[i, 1:])) > 0.0 for i in range(n)], bool)
        which = np.flatnonzero(moved & rubs)
        part = Step(done.code, done.p[which], u, done.u, done.c[which], done.rows)
        check_laws(part, b[which], mu[which], facets)


@pytest.mark.parametrize("kind", ["real", "whole", "redundant"])
def test_compliant_worlds_are_solved_and_gain_no_energy_but_by_the_bias(kind: str) -> None:
    """|u'|^2 - |u|^2 <= -2 sum of b_n p_n. With b_n < 0 all that jam must open: solved but for rounding."""
    rng = np.random.default_rng(20285)
    opening = []
    for case in range(200):
        n = int(rng.integers(1, 13))
        contacts, nv = random_contacts(rng, kind, n)
        u = rng.normal(size=nv) if case % 2 else rng.integers(-2, 3, nv).astype(float)
        b, mu = rng.choice([0.0, 0.0, 1.0, -0.1] if case % 3 == 0 else [0.0, 1.0], n), rng.choice([0.0, 0.3, 2.0], n)
        done = resolve(contacts, n, u, b, mu, 4, compliance=COMPLIANCE)
        if b.min() < 0.0:
            opening.append(done.code)
        else:
            assert done.code == SOLVED
        if done.code == SOLVED:
            size = 1 + u @ u + np.abs(done.p).max()
            assert done.u @ done.u - u @ u <= -2 * (b * done.p[:, 0]).sum() + 1e-12 * size
    assert opening.count(SOLVED) > 0.9 * len(opening) > 20


@pytest.mark.long
@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    st.integers(1, 3).flatmap(
        lambda nv: st.tuples(
            st.lists(st.lists(st.integers(-2, 2), min_size=3 * nv, max_size=3 * nv), min_size=1, max_size=6),
            st.lists(st.integers(-3, 3), min_size=nv, max_size=nv),
            st.lists(st.integers(0, 8), min_size=6, max_size=6),
            st.lists(st.sampled_from([0.0, 0.0, 0.5, 2.0]), min_size=6, max_size=6),
        )
    )
)
def test_energy_never_increases_whatever_the_numbers(
    drawn: tuple[list[list[int]], list[int], list[int], list[float]],
) -> None:
    """|u'|^2 - |u|^2 = -2 sum of (b_n p_n + mu lambda p_n) - |W^T p|^2, as derived in the module."""
    rows, u = np.array(drawn[0], float), np.array(drawn[1], float)
    n, nv = len(rows), len(u)
    mu, b = np.array(drawn[2][:n]) / 4, np.array(drawn[3][:n])
    contacts = ScaledContacts.allocate(n, np.array([0]), np.array([nv]))
    contacts.tree[:, 1] = 0
    contacts.W[:, :, 1] = rows.reshape(n, 3, nv)
    done = resolve(contacts, n, u, b, mu, 4)
    assert done.code == SOLVED
    assert done.u @ done.u <= u @ u + 1e-12
    slip = np.abs(done.c[:, 1:]).max(axis=1)  # lambda, with four facets
    lost = -2 * (b * done.p[:, 0] + mu * slip * done.p[:, 0]).sum() - np.sum((done.u - u) ** 2)
    assert done.u @ done.u - u @ u == pytest.approx(lost, abs=1e-10 * (1 + np.abs(done.p).max() * (1 + u @ u)))


@pytest.mark.parametrize(("compliance", "most"), [(0.0, 0.0), (COMPLIANCE, 0.3)], ids=["frictionless", "compliant"])
def test_the_order_of_contacts_does_not_matter(compliance: float, most: float) -> None:
    """Boxes that are thrown on each other, rigid without and compliant with friction: one motion.

    Impulses may differ. The shares of redundant contacts are told apart by 1e-6, so to 1e-16 / 1e-6, with a margin.
    """
    rng = np.random.default_rng(20290)
    for case in range(60):
        world = stack(1 + case % 3, 1e-3)
        world.v += (1e-3, 1.0)[case % 2] * rng.normal(size=len(world.v))
        mu = rng.uniform(0.0, most, len(world.contacts))
        b = rng.choice([0.0, 0.01], len(world.contacts))
        done, v = step(world, b, mu, compliance=compliance)
        turn = rng.permutation(len(mu))
        world.contacts = [world.contacts[i] for i in turn]
        other, w = step(world, b[turn], mu[turn], compliance=compliance)
        assert done.code == other.code == SOLVED
        np.testing.assert_allclose(w, v, rtol=0, atol=1e-8 * np.abs(v).max())


def test_compliant_contacts_share_their_load_and_yield_by_their_compliance() -> None:
    """Four legs under one weight: a quarter each, and c_n = -epsilon p_n (in the contact's own 1/effective mass)."""
    h = 1e-3
    world = stack(1, h)
    A = np.einsum("idk,idk->id", dense(world.scaled(), 4), dense(world.scaled(), 4)).max(axis=1)
    for epsilon in (1e-6, 1e-3):
        done, v = step(world, compliance=epsilon)
        np.testing.assert_allclose(done.p[:, 0], done.p[0, 0], rtol=1e-8)
        assert done.p[:, 0].sum() == pytest.approx(GRAVITY * h, rel=10 * epsilon)
        np.testing.assert_allclose(done.c[:, 0], -epsilon * A * done.p[:, 0], rtol=0, atol=1e-16)
        np.testing.assert_allclose(v[[0, 1, 3, 4, 5]], 0.0, atol=1e-14)


def test_the_motion_does_not_depend_on_the_frame() -> None:
    """The world turned by 0.7 rad about a generic axis, tangents with it: impulses stay, velocities turn."""
    from scipy.spatial.transform import Rotation

    R = Rotation.from_rotvec(0.7 * np.array([0.3, -0.5, 0.8]) / math.sqrt(0.98)).as_matrix()
    rng = np.random.default_rng(20300)
    for _ in range(20):
        world = stack(2, 1e-3)
        world.I = [np.diag([0.001, 0.002, 0.0025]), np.diag([0.003, 0.002, 0.0015])]
        world.v += 0.1 * rng.normal(size=12)
        turned = World(
            world.m, [R @ a @ R.T for a in world.I], [R @ x for x in world.x], (world.v.reshape(-1, 3) @ R.T).ravel()
        )
        turned.contacts = [(A, B, R @ x, R @ n, R @ t) for A, B, x, n, t in world.contacts]
        (done, v), (other, w) = step(world), step(turned)
        assert done.code == other.code == SOLVED
        np.testing.assert_allclose(w.reshape(-1, 3) @ R, v.reshape(-1, 3), rtol=0, atol=1e-10)


def test_bodies_that_collide_keep_their_momentum() -> None:
    rng = np.random.default_rng(20310)
    world = stack(3, 0.0)
    world.m, world.contacts = [1.0, 0.2, 5.0], world.contacts[4:]  # without the floor
    hit = 0
    for _ in range(20):
        world.v = rng.normal(size=18)
        done, v = step(world, mu=0.6)
        assert done.code == SOLVED
        hit += bool(done.p.any())
        linear = [sum(m * a[6 * k : 6 * k + 3] for k, m in enumerate(world.m)) for a in (world.v, v)]
        angular = [
            sum(
                m * np.cross(world.x[k], a[6 * k : 6 * k + 3]) + world.I[k] @ a[6 * k + 3 : 6 * k + 6]
                for k, m in enumerate(world.m)
            )
            for a in (world.v, v)
        ]
        np.testing.assert_allclose(linear[1], linear[0], atol=1e-13)
        np.testing.assert_allclose(angular[1], angular[0], atol=1e-13)
    assert hit > 10


def ball(v: Sequence[float]) -> tuple[ScaledContacts, np.ndarray]:
    """A point mass of 4 kg above a floor, velocities (n, t1, t2)."""
    contacts = ScaledContacts.allocate(2, np.array([0]), np.array([3]))
    contacts.tree[:, 1] = 0
    contacts.W[:, :, 1] = np.eye(3) / 2.0
    return contacts, 2.0 * np.array(v)


def test_the_bias_is_separation_restitution_or_recovery() -> None:
    h = 1e-3
    contacts, u = ball((-2.0, 0.1, 0.0))
    near = resolve(contacts, 1, u, 0.0015 / h, 0.1, 4)  # 2 mm a step, 1.5 mm away: it ends at the floor
    np.testing.assert_allclose(near.u / 2.0, [-1.5, 0.05, 0.0], atol=1e-15)  # and mu p_n / m = 0.1 * 0.5 less slip
    far = resolve(contacts, 1, u, 0.0021 / h, 0.1, 4)
    np.testing.assert_array_equal(far.u, u)
    for e in (0.3, 1.0):
        bounced = resolve(contacts, 1, u, -e * 2.0, 0.0, 4)
        assert bounced.c[0, 0] == pytest.approx(e * 2.0, rel=1e-14)
        assert bounced.p[0, 0] == pytest.approx((1 + e) * 4.0 * 2.0, rel=1e-14)


def test_a_moving_wall_pushes_with_its_offset() -> None:
    """offset -0.5 m/s: the wall comes at the resting mass, which leaves with it."""
    contacts, u = ball((0.0, 0.0, 0.0))
    contacts.offset[0] = -0.5, 0.2, 0.0
    done = resolve(contacts, 1, u, 0.0, 0.1, 4)
    np.testing.assert_allclose(done.p[0], [2.0, -0.2, 0.0], atol=1e-14)
    np.testing.assert_allclose(done.u / 2.0, [0.5, -0.05, 0.0], atol=1e-15)


def test_a_jam_that_must_open_has_no_solution_and_changes_nothing() -> None:
    """A mass between two walls that both shall recede from it (b_n < 0): RAY; u and p stay (checked by resolve)."""
    contacts, u = ball((0.3, 0.0, 0.0))
    contacts.W[1] *= -1.0
    assert resolve(contacts, 2, u, -0.1, 0.5, 4).code == RAY
    assert resolve(contacts, 2, u, 0.0, 0.5, 4).code == SOLVED  # squeezed without having to open
    yielding = resolve(contacts, 2, u, -0.1, 0.0, 4, compliance=1e-3)  # each needs 0.1 = epsilon p_n / m
    assert yielding.code == SOLVED
    np.testing.assert_allclose(yielding.p[:, 0].mean(), 0.1 * 4.0 / 1e-3, rtol=1e-12)


def test_more_contacts_than_memory_are_refused() -> None:
    contacts, u = ball((-1.0, 0.0, 0.0))
    assert resolve(contacts, 2, u, 0.0, 0.5, 4, room=-1).code == TOO_MANY


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_give_no_impulses(bad: float) -> None:
    for where in range(3):
        contacts, u = ball((-1.0, 0.2, 0.0))
        b, mu = np.zeros(2), np.full(2, 0.5)
        (u, b, contacts.W[0, 0, 1])[where][0] = bad
        assert resolve(contacts, 2, u, b, mu, 4).code == INACCURATE


def test_a_compliance_is_not_negative() -> None:
    for bad in (-1e-6, math.nan, math.inf):
        with pytest.raises(ValueError, match=f"compliance = {bad}: must be finite and >= 0"):
            ContactProblem.allocate(4, 4, bad)


@pytest.mark.parametrize("facets", [0, 1, 3, 5, -4])
def test_a_pyramid_has_opposite_edges(facets: int) -> None:
    with pytest.raises(ValueError, match=f"facets = {facets}: must be even and >= 2"):
        ContactProblem.allocate(4, facets)


def test_building_is_apart_from_solving_and_compiles_once() -> None:
    world = stack(1, 1e-3)
    contacts, u = world.scaled(), world.L.T @ world.v
    problem = ContactProblem.allocate(6, 4, compliance=0.0)
    b, mu, p = np.zeros(4), np.full(4, 0.5), np.full((4, 3), 77.0)
    known, touching = Packed(problem).arrays, Packed(contacts).arrays
    rows = build_problem(known, touching, 4, u, b, mu)
    assert rows == 24
    assert solve(known, rows, mu, p) == SOLVED
    assert p[:, 0].sum() == pytest.approx(GRAVITY * 1e-3, rel=1e-12)
    expected = lemke(problem.M[:rows, :rows], problem.q[:rows])
    np.testing.assert_array_equal(problem.z[:rows], expected)
    step(world)
    kernels = (build_problem, solve, stewart_trinkle)
    compiled = [len(kernel.signatures) for kernel in kernels]
    build_problem(known, touching, 4, u, b, mu)
    solve(known, rows, mu, p)
    step(world)
    assert [len(kernel.signatures) for kernel in kernels] == compiled
