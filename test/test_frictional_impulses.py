"""Simultaneous collisions with friction: closed forms, one contact against Mirtich's, properties of random worlds.

A world is a set of contacts given by W (n, 3, nv) in mass-scaled coordinates, in which kinetic energy is 1/2 |u|^2,
the velocities at the contacts are c = W u and impulses p give u' = u + W^T p.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from conftest import sampled
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.registry import CPUDispatcher
from scipy.spatial.transform import Rotation

from haptic_sim.contact.solvers import frictional_impulses
from haptic_sim.contact.solvers.frictional_impulses import (
    REVERSED,
    SEPARATED,
    SLIDING,
    STEPS,
    STICKING,
    FrictionalMemory,
    choose_effort,
    resolve_frictional_impacts,
)
from haptic_sim.contact.solvers.mirtich import MirtichMemory, collide
from haptic_sim.contact.solvers.outcomes import ENERGY_LIMITED, NOT_CONVERGED, SOLVED
from haptic_sim.dynamics.scaled import ScaledContacts
from haptic_sim.packed import Packed
from haptic_sim.records import allocate

TURN = Rotation.from_rotvec(0.7 * np.array([0.3, -0.5, 0.8]) / np.linalg.norm([0.3, -0.5, 0.8])).as_matrix()


@dataclass
class World:
    """Contacts of trees of `size` coordinates each; sides[i] are their trees, -1 the ground."""

    size: list[int]
    sides: list[tuple[int, int]]
    W: np.ndarray
    u: np.ndarray
    e: np.ndarray
    mu: np.ndarray
    offset: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))

    @property
    def contacts(self) -> ScaledContacts:
        n = len(self.W)
        start = np.concatenate([[0], np.cumsum(self.size)[:-1]])
        contacts = ScaledContacts.allocate(n + 1, start, np.array(self.size))
        for i, sides in enumerate(self.sides):
            for s, tree in enumerate(sides):
                contacts.tree[i, s] = tree
                if tree >= 0:
                    first, size = start[tree], self.size[tree]
                    contacts.W[i, :, s, :size] = self.W[i, :, first : first + size]
        contacts.offset[:n] = self.offset if len(self.offset) else 0.0
        return contacts

    @property
    def before(self) -> np.ndarray:
        """Velocities at the contacts, (n, 3)."""
        return self.W @ self.u + (self.offset if len(self.offset) else 0.0)

    def gain(self, p: np.ndarray) -> float:
        """Change of the energy, as seen from the walls."""
        return float(np.sum(p * self.before) + 0.5 * np.sum(np.einsum("idk,id->k", self.W, p) ** 2))


@dataclass
class Impact:
    code: int
    p: np.ndarray
    u: np.ndarray
    state: list[int]


def resolve(world: World, steps: int = STEPS, sweeps: int | None = None) -> Impact:
    n = len(world.W)
    contacts, u = world.contacts, world.u.copy()
    memory = Packed(allocate(FrictionalMemory, contacts.sizes)).arrays
    p, state = np.full((n + 1, 3), 7.0), np.full(n + 1, 77, np.int8)
    e, mu = np.append(world.e, np.nan), np.append(world.mu, np.nan)
    sweeps = sweeps or 25 * steps
    code = resolve_frictional_impacts(n, Packed(contacts).arrays, u, e, mu, steps, sweeps, memory, p, state)
    assert (p[n] == 7.0).all()  # behind the contacts in use
    assert state[n] == 77
    return Impact(int(code), p[:n], u, state[:n].tolist())


def on_the_ground(W: np.ndarray, u: np.ndarray, e: float | np.ndarray, mu: float | np.ndarray) -> World:
    """One tree that meets the ground."""
    n = len(W)
    return World(
        [len(u)], [(-1, 0)] * n, W, u, np.broadcast_to(e, n).astype(float), np.broadcast_to(mu, n).astype(float)
    )


MASS, RADIUS = 0.3, 0.02  # [kg], [m]
GYRATION = RADIUS * math.sqrt(0.4)  # of a homogeneous sphere [m]


def contact_rows(axes: np.ndarray, lever: np.ndarray, mass: float, gyration: float) -> np.ndarray:
    """Rows (3, 6) of a free body [velocity, angular velocity]: directions are the columns of `axes`."""
    rows = np.zeros((3, 6))
    for d in range(3):
        rows[d, :3] = axes[:, d] / math.sqrt(mass)
        rows[d, 3:] = np.cross(lever, axes[:, d]) / (gyration * math.sqrt(mass))
    return rows


def sphere_on_floor(v: np.ndarray, omega: np.ndarray, e: float, mu: float) -> World:
    """Floor z = 0 below a sphere; world turned by `TURN`, tangents by 0.7 rad."""
    axes = TURN @ np.array([[0, math.cos(0.7), -math.sin(0.7)], [0, math.sin(0.7), math.cos(0.7)], [1, 0, 0]])
    rows = contact_rows(axes, TURN @ np.array([0, 0, -RADIUS]), MASS, GYRATION)
    u = math.sqrt(MASS) * np.concatenate([TURN @ v, GYRATION * (TURN @ omega)])
    return on_the_ground(rows[None], u, e, mu)


def sphere_after(impact: Impact) -> tuple[np.ndarray, np.ndarray]:
    return TURN.T @ impact.u[:3] / math.sqrt(MASS), TURN.T @ impact.u[3:] / (math.sqrt(MASS) * GYRATION)


@pytest.mark.parametrize("e", [0.0, 0.6, 1.0])
def test_a_sphere_sticks_or_slides_by_the_closed_form(e: float) -> None:
    """Slip v_x - r w_y stops by 2/7 m times itself, if mu (1 + e) m |v_z| is as much; the rebound is e |v_z|."""
    for spin in (0.0, 40.0, 300.0):
        for mu in (0.0, 0.1, 0.4, 1.5):
            v, omega = np.array([0.8, 0.0, -1.2]), np.array([0.0, -spin, 3.0])
            slip = 0.8 + RADIUS * spin
            impact = resolve(sphere_on_floor(v, omega, e, mu))
            tangential = min(2 / 7 * MASS * slip, mu * (1 + e) * MASS * 1.2)
            after, turning = sphere_after(impact)
            np.testing.assert_allclose(after, [0.8 - tangential / MASS, 0.0, e * 1.2], rtol=0, atol=1e-9)
            expected = [0.0, -spin + tangential * RADIUS / (0.4 * MASS * RADIUS**2), 3.0]
            np.testing.assert_allclose(turning, expected, rtol=0, atol=1e-6)
            sticks = tangential == 2 / 7 * MASS * slip
            assert impact.code == SOLVED
            assert impact.state == [STICKING if sticks else SLIDING]


def test_a_ball_with_back_spin_rebounds_backwards() -> None:
    """v_x' = v_x - 2/7 (v_x + r w) < 0 for w > 5/2 v_x / r, and then it rolls: v_x' = r w_y'."""
    v, spin = np.array([0.5, 0.0, -2.0]), 200.0
    impact = resolve(sphere_on_floor(v, np.array([0.0, -spin, 0.0]), 0.7, 0.8))
    after, turning = sphere_after(impact)
    assert after[0] == pytest.approx(0.5 - 2 / 7 * (0.5 + RADIUS * spin), abs=1e-9)
    assert after[0] < -0.5
    assert after[0] == pytest.approx(RADIUS * turning[1], abs=1e-9)
    assert impact.state == [STICKING]


def planar(A: np.ndarray, c: np.ndarray, e: float, mu: float) -> World:
    """A contact in the plane, of which (normal, tangent) mobility and velocity are given; tangent 2 cannot move."""
    W = np.zeros((1, 3, 2))
    W[0, :2] = np.linalg.cholesky(A)
    return on_the_ground(W, np.linalg.solve(W[0, :2], c), e, mu)


def rod(angle: float, length: float = 1.0, mass: float = 1.0) -> np.ndarray:
    """Mobility of the end of a uniform rod at an angle to the floor, in (normal, tangent)."""
    x, z = -0.5 * length * math.cos(angle), -0.5 * length * math.sin(angle)
    inertia = mass * length**2 / 12
    return np.array([[1 / mass + x * x / inertia, -x * z / inertia], [-x * z / inertia, 1 / mass + z * z / inertia]])


def routh(A: np.ndarray, c: np.ndarray, e: float, mu: float) -> np.ndarray:
    """Impulses of a planar impact from Routh's diagram: straight pieces, with Stronge's work at the end."""
    v, p, work, goal = np.array(c, float), np.zeros(2), 0.0, math.nan
    held = math.nan  # p_t per p_n once slip has stopped
    while True:
        slope = held
        if math.isnan(held):
            if v[1] == 0.0:
                hold = -A[1, 0] / A[1, 1]
                slope = held = hold if abs(hold) <= mu else math.copysign(mu, hold)
            else:
                slope = -math.copysign(mu, v[1])
        rate = A @ [1.0, slope]
        stop = -v[1] / rate[1] if v[1] * rate[1] < 0.0 and math.isnan(held) else math.inf
        if math.isnan(goal):
            end = -v[0] / rate[0] if rate[0] > 0.0 else math.inf
        else:
            end = (-v[0] + math.sqrt(v[0] ** 2 + 2 * rate[0] * (goal - work))) / rate[0]
        x = min(stop, end)
        work += v[0] * x + 0.5 * rate[0] * x * x
        p, v = p + x * np.array([1.0, slope]), v + x * rate
        if stop < end:
            v[1] = 0.0
        elif math.isnan(goal):
            goal, v[0] = (1 - e * e) * work, 0.0
        else:
            return p


ROD_ANGLE = 1.1  # [rad] from the floor


@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    ("mu", "slip", "state"),
    [(0.05, 0.5, REVERSED), (0.1, 0.3, REVERSED), (0.9, 0.5, STICKING), (0.3, -2.0, SLIDING), (0.9, -0.2, STICKING)],
)
def test_a_rod_slides_on_sticks_or_slides_back(e: float, mu: float, slip: float, state: int) -> None:
    """A rod at an angle is driven forward by its rebound: slip against that stops and reverses if friction is weak."""
    A, c = rod(ROD_ANGLE), np.array([-1.0, slip])
    expected = routh(A, c, e, mu)
    errors = []
    for steps in (STEPS, 1024):
        impact = resolve(planar(A, c, e, mu), steps)
        assert impact.code == SOLVED
        assert impact.state == [state]
        assert impact.p[0, 2] == 0.0
        errors.append(float(np.abs(A @ (impact.p[0, :2] - expected)).max()))
    assert errors[0] < 0.03
    assert errors[1] < 1e-3


def test_after_a_jam_the_rebound_is_a_little_lower_than_stronges() -> None:
    """Sliding that presses deeper (alpha < 0): the step that contains it does not see how deep."""
    rng = np.random.default_rng(20323)
    parts = []
    while len(parts) < 100:
        G = rng.normal(size=(2, 2))
        A, mu, c = G @ G.T + 0.02 * np.eye(2), float(rng.uniform(0.1, 2.0)), np.array([-1.0, rng.normal()])
        if A[0, 0] - mu * A[0, 1] * np.sign(c[1]) < -0.05:
            expected = (c + A @ routh(A, c, 0.6, mu))[0]
            parts.append((c + A @ resolve(planar(A, c, 0.6, mu)).p[0, :2])[0] / expected)
    assert min(parts) > 0.5
    assert np.median(parts) > 0.9
    assert max(parts) < 1.0


def test_newtons_law_with_friction_would_add_energy_and_this_does_not() -> None:
    """Kane and Levinson: slip that stops and would be driven back. Newton's law, sticking at the end, gains energy."""
    A, c, mu = rod(1.2), np.array([-1.0, 0.4]), 0.6
    newton = -np.linalg.solve(A, [c[0] - 1.0, c[1]])  # c_n' = -c_n, c_t' = 0
    assert 0.0 < newton[1] < mu * newton[0]
    world = planar(A, c, 1.0, mu)
    assert world.gain(np.array([[*newton, 0.0]])) > 0.05 * 0.5 * world.u @ world.u
    impact = resolve(world)
    assert world.gain(impact.p) <= 1e-15


def test_one_contact_is_mirtichs_as_steps_grow() -> None:
    rng = np.random.default_rng(20310)
    errors: dict[int, list[float]] = {8: [], 64: [], 512: []}
    for _ in range(100):
        W = rng.normal(size=(1, 3, 6))
        u = rng.normal(size=6)
        W[0, 0] *= -np.sign(W[0, 0] @ u)
        world = on_the_ground(W, u, float(rng.uniform()), float(rng.uniform()))
        q = np.zeros(3)
        collide(W[0] @ W[0].T, W[0] @ u, world.e[0], world.mu[0], allocate(MirtichMemory).series, q)
        for steps, found in errors.items():
            difference = W[0].T @ (resolve(world, steps).p[0] - q)
            found.append(float(np.linalg.norm(difference) / np.linalg.norm(u)))
    assert np.median(errors[8]) < 3e-3
    assert np.max(errors[8]) < 0.1
    assert np.median(errors[64]) < 0.25 * np.median(errors[8])
    assert np.median(errors[512]) < 0.25 * np.median(errors[64])
    assert np.max(errors[512]) < 1e-2


def independent(rng: np.random.Generator, mixed: bool) -> World:
    """Independent contacts whose impulses by Newton's law push."""
    while True:
        nv = int(rng.integers(2, 9))
        n = int(rng.integers(1, min(nv, 5) + 1))
        W = rng.normal(size=(n, 3, nv))
        e = rng.uniform(size=n) if mixed else np.full(n, rng.uniform())
        N = W[:, 0]
        b = -(N @ N.T @ rng.uniform(0.1, 1.0, n)) / (1 + e)
        if (b < -1e-2 * np.abs(b).max()).all() and np.linalg.cond(N @ N.T) < 50:
            u = np.linalg.lstsq(N, b, rcond=None)[0] + (np.eye(nv) - np.linalg.pinv(N) @ N) @ rng.normal(size=nv)
            return on_the_ground(W, u, e, 0.0)


@pytest.mark.parametrize("mixed", [False, True])
def test_without_friction_independent_contacts_obey_newtons_law(mixed: bool) -> None:
    """THESIS (4.36) with a restitution for each contact: p = -A^-1 (1 + e) c_n, c_n' = -e c_n."""
    rng = np.random.default_rng(20311)
    for _ in range(150):
        world = independent(rng, mixed)
        impact = resolve(world, sweeps=2000)
        N = world.W[:, 0]
        expected = -np.linalg.solve(N @ N.T, (1 + world.e) * (N @ world.u))
        assert impact.code == SOLVED
        np.testing.assert_allclose(impact.p[:, 0], expected, rtol=0, atol=1e-6 * expected.max())
        np.testing.assert_array_equal(impact.p[:, 1:], 0.0)
        scale = np.abs(N @ world.u).max()
        np.testing.assert_allclose(N @ impact.u, -world.e * (N @ world.u), rtol=0, atol=1e-7 * scale)


def test_without_friction_no_contact_pulls() -> None:
    """0 <= p complementary to A p + (1 + e) c_n >= 0, for dependent contacts, too."""
    rng = np.random.default_rng(20312)
    idle = slow = 0
    for _ in range(150):
        n, nv = int(rng.integers(2, 9)), int(rng.integers(2, 6))
        W, u = rng.normal(size=(n, 3, nv)), rng.normal(size=nv)
        W[:, 0] *= -np.sign(W[:, 0] @ u)[:, None]
        world = on_the_ground(W, u, float(rng.uniform()), 0.0)
        impact = resolve(world, sweeps=5000)
        if impact.code != SOLVED:  # eight rows that are nearly dependent
            slow += 1
            continue
        p, slack = impact.p[:, 0], W[:, 0] @ impact.u + world.e * (W[:, 0] @ u)
        assert (p >= 0.0).all()
        assert slack.min() > -1e-5
        assert np.abs(slack * p).max() < 1e-4 * p.max()
        assert [state == SEPARATED for state in impact.state] == (p == 0.0).tolist()
        idle += int((p == 0.0).any())
    assert idle > 30
    assert slow < 8


def test_an_end_that_would_be_held_back_gets_no_impulse() -> None:
    """As in test_impulses: a rod with points at r = 1 and 3, v = -1, w = -5, e = 0: p = (0, 1.6)."""
    W = np.zeros((2, 3, 2))
    W[:, 0] = [[1.0, 1.0], [1.0, 3.0]]
    impact = resolve(on_the_ground(W, np.array([-1.0, -5.0]), 0.0, 0.3))
    np.testing.assert_allclose(impact.p[:, 0], [0.0, 1.6], rtol=0, atol=1e-8)
    assert impact.state[0] == SEPARATED


def row_of_balls(masses: list[float], v: list[float], e: float, mu: float = 0.3) -> World:
    """Balls along a line that move along it: contact i is between i and i + 1."""
    n = len(masses)
    W = np.zeros((n - 1, 3, n))
    for i in range(n - 1):
        W[i, 0, i], W[i, 0, i + 1] = -1 / math.sqrt(masses[i]), 1 / math.sqrt(masses[i + 1])
    sides = [(i, i + 1) for i in range(n - 1)]
    return World([1] * n, sides, W, np.sqrt(masses) * v, np.full(n - 1, e), np.full(n - 1, mu))


@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
def test_two_balls(e: float) -> None:
    m1, m2, v = 0.2, 0.5, 1.5
    impact = resolve(row_of_balls([m1, m2], [v, 0.0], e))
    p = (1 + e) * v / (1 / m1 + 1 / m2)
    np.testing.assert_allclose(impact.p[0], [p, 0.0, 0.0], rtol=1e-9)
    np.testing.assert_allclose(impact.u / np.sqrt([m1, m2]), [v - p / m1, p / m2], rtol=1e-9)


def test_newtons_cradle_with_touching_balls() -> None:
    """Both contacts given at once: Newton's law at both, v2' - v1' = 1 and v3' = v2', so (-1, 2, 2) / 3.

    The last ball leaves alone where the contacts are treated one at a time (test_mirtich), or only the first one,
    which alone approaches, is given here: then the second is the next step's.
    """
    world = row_of_balls([1.0, 1.0, 1.0], [1.0, 0.0, 0.0], 1.0)
    impact = resolve(world)
    assert impact.code == SOLVED
    np.testing.assert_allclose(impact.u, [-1 / 3, 2 / 3, 2 / 3], rtol=0, atol=1e-7)
    first = World(world.size, world.sides[:1], world.W[:1], world.u, world.e[:1], world.mu[:1])
    np.testing.assert_allclose(resolve(first).u, [0.0, 1.0, 0.0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
def test_a_box_that_lands_flat_and_slides(e: float) -> None:
    """Low enough not to tip: p_n = (1 + e) m |v_z|; slip ends at v_x - mu (1 + e) |v_z| or at zero."""
    half = 0.05
    for v_x, mu in ((2.0, 0.2), (0.1, 0.5)):
        W = np.array(
            [
                contact_rows(np.eye(3)[:, [2, 0, 1]], np.array([x, y, 0.0]), MASS, 0.04)
                for x in (-half, half)
                for y in (-half, half)
            ]
        )
        u = math.sqrt(MASS) * np.array([v_x, 0.0, -1.0, 0.0, 0.0, 0.0])
        impact = resolve(on_the_ground(W, u, e, mu), sweeps=2000)
        expected = math.sqrt(MASS) * np.array([max(0.0, v_x - mu * (1 + e)), 0.0, e, 0.0, 0.0, 0.0])
        np.testing.assert_allclose(impact.u, expected, rtol=0, atol=1e-6)
        assert impact.p[:, 0].sum() == pytest.approx((1 + e) * MASS, rel=1e-6)
        assert impact.state == [SLIDING if v_x == 2.0 else STICKING] * 4


def approaching(
    rng: np.random.Generator, size: list[int], sides: list[tuple[int, int]], W: np.ndarray, e: str, mu: str
) -> World:
    u, n = rng.normal(size=sum(size)), len(W)
    W = W.copy()
    W[:, 0] *= np.where(W[:, 0] @ u > 0.0, -1.0, 1.0)[:, None]
    restitution = {
        "zero": np.zeros(n),
        "one": np.ones(n),
        "each": rng.uniform(size=n),
        "extreme": rng.integers(0, 2, n),
    }
    friction = {"weak": np.full(n, 0.2), "each": 10.0 ** rng.uniform(-2, 1, n), "some": rng.integers(0, 2, n)}
    return World(size, sides, W, u, restitution[e].astype(float), friction[mu].astype(float))


def one_body(rng: np.random.Generator, e: str, mu: str) -> World:
    n = int(rng.integers(1, 9))
    W = np.zeros((n, 3, 6))
    for i in range(n):
        W[i] = contact_rows(np.linalg.qr(rng.normal(size=(3, 3)))[0], rng.uniform(-0.1, 0.1, 3), 1.0, 0.05)
    return approaching(rng, [6], [(-1, 0)] * n, W, e, mu)


def bodies(rng: np.random.Generator, e: str, mu: str, most: int = 9) -> World:
    """Three bodies of masses over two decades that meet each other and the ground."""
    n = int(rng.integers(1, most))
    masses = 10.0 ** rng.uniform(-1, 1, 3)
    W, sides = np.zeros((n, 3, 18)), []
    for i in range(n):
        b = int(rng.integers(0, 3))
        a = int(rng.choice([k for k in range(-1, 3) if k != b]))
        axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        for sign, k in ((-1, a), (1, b)):
            if k >= 0:
                W[i, :, 6 * k : 6 * k + 6] = sign * contact_rows(axes, rng.uniform(-0.1, 0.1, 3), masses[k], 0.05)
        sides.append((a, b))
    return approaching(rng, [6, 6, 6], sides, W, e, mu)


def mechanism(rng: np.random.Generator, e: str, mu: str) -> World:
    """A linkage that meets the ground, and itself: rows of two of its links' differences, in one tree."""
    nv, n = int(rng.integers(1, 5)), int(rng.integers(1, 7))
    return approaching(rng, [nv], [(-1, 0)] * n, rng.normal(size=(n, 3, nv)), e, mu)


def redundant(rng: np.random.Generator, e: str, mu: str) -> World:
    world = one_body(rng, e, mu)
    again = rng.integers(0, len(world.W), 2 * len(world.W))
    sides = [(-1, 0)] * len(again)
    return World(world.size, sides, world.W[again], world.u, world.e[again], world.mu[again])


WORLDS = [one_body, bodies, mechanism, redundant]


def check_passive(world: World, impact: Impact) -> None:
    p, energy = impact.p, world.u @ world.u
    assert np.isfinite(p).all()
    assert (p[:, 0] >= 0.0).all()
    assert (np.hypot(p[:, 1], p[:, 2]) <= world.mu * p[:, 0] * (1 + 1e-9)).all()
    np.testing.assert_allclose(
        impact.u, world.u + np.einsum("idk,id->k", world.W, p), rtol=0, atol=1e-12 * (np.abs(p).sum() + 1)
    )
    assert impact.u @ impact.u <= energy * (1 + 1e-12)


@pytest.mark.parametrize("e", sampled(["zero", "one", "each", "extreme"], "each", "extreme"))
@pytest.mark.parametrize("mu", ["weak", "each", "some"])
@pytest.mark.parametrize("make", WORLDS)
def test_energy_never_increases(make: Callable[..., World], e: str, mu: str) -> None:
    """However few the steps and sweeps; and contacts do not approach any more where the sweeps did."""
    rng = np.random.default_rng(20313)
    for _ in range(20):
        world = make(rng, e, mu)
        check_passive(world, resolve(world, steps=int(rng.integers(1, 6)), sweeps=int(rng.integers(1, 4))))
        impact = resolve(world)
        check_passive(world, impact)
        if impact.code != NOT_CONVERGED:
            assert (world.W[:, 0] @ impact.u).min() >= -1e-4 * np.abs(world.before).max()


@pytest.mark.parametrize(("e", "most", "nine_in_ten"), [("zero", 0.005, 0.02), ("each", 0.015, 0.05)])
def test_bounded_effort_is_near_to_convergence_and_passive(e: str, most: float, nine_in_ten: float) -> None:
    """With the steps and sweeps of the methods: the median of the errors, and which 90 % of the worlds keep."""
    for make in WORLDS:
        rng = np.random.default_rng(20323)
        errors = []
        for _ in range(60):
            world = make(rng, e, "weak")
            steps, sweeps = choose_effort(len(world.W))
            impact = resolve(world, steps, sweeps)
            check_passive(world, impact)
            errors.append(np.linalg.norm(impact.u - resolve(world, sweeps=2000).u) / np.linalg.norm(world.u))
        assert np.median(errors) < most
        assert np.quantile(errors, 0.9) < nine_in_ten


def test_every_code_occurs_and_most_worlds_of_weak_friction_are_resolved() -> None:
    rng = np.random.default_rng(20314)
    codes = [resolve(bodies(rng, "each", "weak")).code for _ in range(150)]
    assert codes.count(SOLVED) > 140
    limited = [resolve(one_body(rng, "one", "each")) for _ in range(150)]
    assert sum(impact.code == ENERGY_LIMITED for impact in limited) > 2
    assert any(impact.code == NOT_CONVERGED for impact in limited)


@pytest.mark.long
@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    st.integers(1, 4).flatmap(
        lambda nv: st.tuples(
            st.lists(st.lists(st.integers(-10, 10), min_size=3 * nv, max_size=3 * nv), min_size=1, max_size=5),
            st.lists(st.integers(-20, 20), min_size=nv, max_size=nv),
            st.lists(st.floats(0.0, 1.0), min_size=5, max_size=5),
            st.lists(st.sampled_from([0.0, 0.1, 1.0, 7.0]), min_size=5, max_size=5),
        )
    )
)
def test_energy_never_increases_whatever_the_numbers(
    drawn: tuple[list[list[int]], list[int], list[float], list[float]],
) -> None:
    """Zeros, repeated, opposite and exactly dependent rows, and contacts that leave already."""
    rows, u, e, mu = (np.array(x, float) for x in drawn)
    n = len(rows)
    world = on_the_ground(rows.reshape(n, 3, len(u)), u, e[:n], mu[:n])
    check_passive(world, resolve(world))


def test_the_order_of_contacts_does_not_matter() -> None:
    """Where the contacts are independent and friction weak, so that there is one solution."""
    rng = np.random.default_rng(20315)
    differences = []
    for _ in range(100):
        world = bodies(rng, "each", "weak", most=5)
        turn = rng.permutation(len(world.W))
        again = World(world.size, [world.sides[i] for i in turn], world.W[turn], world.u, world.e[turn], world.mu[turn])
        first, second = resolve(world, sweeps=500), resolve(again, sweeps=500)
        if first.code == second.code == SOLVED:
            differences.append(np.linalg.norm(first.u - second.u) / np.linalg.norm(world.u))
    assert len(differences) > 90
    assert np.quantile(differences, 0.9) < 1e-6
    assert max(differences) < 2e-3  # of what the sweeps on the way leave


def test_impulses_do_not_depend_on_the_frame() -> None:
    """World turned by 0.7 rad: scaled velocities and rows of bodies turn, contact axes with them."""
    rng = np.random.default_rng(20316)
    Q = np.kron(np.eye(6), TURN)
    for _ in range(60):
        world = bodies(rng, "each", "weak", most=5)
        turned = World(world.size, world.sides, world.W @ Q.T, Q @ world.u, world.e, world.mu)
        first, second = resolve(world), resolve(turned)
        assert first.code == second.code
        np.testing.assert_allclose(second.u, Q @ first.u, rtol=0, atol=1e-6 * np.linalg.norm(world.u))
        np.testing.assert_allclose(second.p, first.p, rtol=0, atol=1e-5 * np.abs(first.p).max())


def test_turned_tangents_turn_the_impulses() -> None:
    rng = np.random.default_rng(20317)
    cos, sin = math.cos(0.7), math.sin(0.7)
    R = np.array([[1.0, 0.0, 0.0], [0.0, cos, sin], [0.0, -sin, cos]])
    for _ in range(60):
        world = bodies(rng, "each", "weak", most=5)
        turned = World(world.size, world.sides, np.einsum("de,iek->idk", R, world.W), world.u, world.e, world.mu)
        first, second = resolve(world), resolve(turned)
        np.testing.assert_allclose(second.u, first.u, rtol=0, atol=1e-6 * np.linalg.norm(world.u))
        np.testing.assert_allclose(second.p, first.p @ R.T, rtol=0, atol=1e-5 * np.abs(first.p).max())


def test_impulses_scale_with_inertia_and_velocity() -> None:
    rng = np.random.default_rng(20318)
    for _ in range(30):
        world = bodies(rng, "each", "weak", most=5)
        scaled = World(
            world.size, world.sides, world.W / 100.0, 0.1 * world.u, world.e, world.mu
        )  # inertia 1e4, velocities at the contacts 1e-3
        first, second = resolve(world), resolve(scaled)
        assert first.code == second.code
        np.testing.assert_allclose(second.u, 0.1 * first.u, rtol=0, atol=1e-7 * np.linalg.norm(world.u))


@pytest.mark.parametrize("mu", [0.0, 0.4])
def test_a_moving_wall_strikes_as_a_moving_body_would(mu: float) -> None:
    """Seen from the wall nothing differs; what energy the body gains is at most the work of the wall."""
    rng = np.random.default_rng(20319)
    for _ in range(30):
        world = one_body(rng, "each", "weak")
        world.mu[:] = mu
        first = resolve(world)
        at_rest = World(world.size, world.sides, world.W, np.zeros(6), world.e, world.mu, world.before)
        second = resolve(at_rest)
        scale = np.linalg.norm(world.u)
        np.testing.assert_allclose(second.u, first.u - world.u, rtol=0, atol=1e-6 * scale)
        work = -float(np.sum(second.p * at_rest.offset))
        assert 0.5 * second.u @ second.u <= work * (1 + 1e-9) + 1e-14
        assert at_rest.gain(second.p) <= 1e-12 * scale**2


def test_no_contacts_contacts_that_leave_and_rows_that_cannot_move() -> None:
    u = np.array([1.0, -2.0, 0.5])
    nothing = resolve(on_the_ground(np.zeros((0, 3, 3)), u, 0.5, 0.5))
    assert nothing.code == SOLVED
    np.testing.assert_array_equal(nothing.u, u)
    W = np.eye(3)[None].repeat(2, axis=0)
    W[1] = 0.0
    impact = resolve(on_the_ground(W, u, 0.5, 0.5))
    assert (impact.code, impact.state) == (SOLVED, [SEPARATED, SEPARATED])
    np.testing.assert_array_equal(impact.u, u)
    blocked = on_the_ground(np.zeros((1, 3, 3)), u, 0.5, 0.5)
    blocked.offset = np.array([[-1.0, 0.3, 0.0]])
    assert resolve(blocked).p.tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("where", ["W", "u"])
def test_not_a_number_ends_without_impulse(where: str) -> None:
    rng = np.random.default_rng(20320)
    world = one_body(rng, "each", "weak")
    getattr(world, where).flat[1] = np.nan
    assert np.isfinite(resolve(world).p).all()


def test_kernels_are_their_python_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(20321)
    worlds = [bodies(rng, "each", "weak", most=4) for _ in range(3)] + [one_body(rng, "one", "each")]
    compiled = [resolve(world) for world in worlds]
    original = frictional_impulses.resolve_frictional_impacts.py_func
    for name, kernel in vars(frictional_impulses).items():
        if isinstance(kernel, CPUDispatcher):
            monkeypatch.setattr(frictional_impulses, name, kernel.py_func)
    monkeypatch.setitem(globals(), "resolve_frictional_impacts", original)
    for world, impact in zip(worlds, compiled, strict=True):
        again = resolve(world)
        assert (again.code, again.state) == (impact.code, impact.state)
        np.testing.assert_allclose(again.u, impact.u, rtol=0, atol=1e-7 * np.linalg.norm(world.u))


def test_nothing_is_compiled_again() -> None:
    rng = np.random.default_rng(20322)
    resolve(one_body(rng, "each", "weak"))
    kernels = [kernel for kernel in vars(frictional_impulses).values() if isinstance(kernel, CPUDispatcher)]
    before = [len(kernel.signatures) for kernel in kernels]
    for make in WORLDS:
        resolve(make(rng, "each", "each"))
    assert [len(kernel.signatures) for kernel in kernels] == before
    assert kernels
