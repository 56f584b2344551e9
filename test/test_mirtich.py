"""Collisions with friction one at a time: closed forms, and SciPy's integration of the sliding equations.

A contact is its mobility A (3, 3) in (normal, tangent 1, tangent 2) and the relative velocity c before: impulses p
take c to c + A p and change the energy by p . c + 1/2 p . A p.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.registry import CPUDispatcher
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from haptic_sim.contact.solvers import mirtich
from haptic_sim.contact.solvers.mirtich import (
    COLLIDED,
    LIMIT_REACHED,
    SETTLED,
    MirtichMemory,
    collide,
    resolve_one_at_a_time,
)
from haptic_sim.dynamics.scaled import ScaledContacts
from haptic_sim.packed import Packed
from haptic_sim.records import allocate

MASS, RADIUS = 0.3, 0.02  # [kg], [m]
SPHERE = np.diag([1.0, 3.5, 3.5]) / MASS  # 1/m + r^2 / (2/5 m r^2) = 7/2 1/m along the tangents


def impulses(A: np.ndarray, c: np.ndarray, e: float, mu: float) -> np.ndarray:
    p = np.full(3, np.nan)
    assert collide(A, np.asarray(c, float), e, mu, allocate(MirtichMemory).series, p) == COLLIDED
    return p


def gain(A: np.ndarray, c: np.ndarray, p: np.ndarray) -> float:
    return float(p @ c + 0.5 * p @ A @ p)


def random_contact(rng: np.random.Generator, coupled: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    G = rng.normal(size=(3, 3))
    A = np.diag(rng.uniform(0.5, 4.0, 3)) + coupled * G @ G.T
    c = rng.normal(size=3)
    c[0] = -abs(c[0]) - 0.1
    return A, c


def direction_after_stop(A: np.ndarray, mu: float) -> np.ndarray:
    """p_t per p_n at zero slip: held, or along the ray on which slip grows, by trying all directions."""
    held = -np.linalg.solve(A[1:, 1:], A[1:, 0])
    if np.linalg.norm(held) <= mu:
        return held

    def growth(angle: float) -> tuple[float, float]:
        d = np.array([math.cos(angle), math.sin(angle)])
        rate = A[1:, 0] - mu * A[1:, 1:] @ d
        return rate[0] * d[1] - rate[1] * d[0], rate @ d

    angles = np.linspace(0.1, 0.1 + 2 * math.pi, 721)
    values = [growth(angle) for angle in angles]
    rays = []
    for i in range(len(angles) - 1):
        if values[i][0] * values[i + 1][0] <= 0.0:
            root = brentq(lambda angle: growth(angle)[0], angles[i], angles[i + 1], xtol=1e-14)
            if growth(root)[1] > 0.0:
                rays.append(root)
    assert len(rays) == 1
    return -mu * np.array([math.cos(rays[0]), math.sin(rays[0])])


def integrated(A: np.ndarray, c: np.ndarray, e: float, mu: float) -> tuple[np.ndarray, str]:
    """Impulses by the equations in p_n, with events for the stop, the end of compression and Stronge's work."""
    state = np.concatenate([c, np.zeros(4)])  # velocity, impulses, work
    scale = float(np.linalg.norm(c))
    held: np.ndarray | None = None
    goal = math.nan
    story = ""
    for _ in range(10):
        direction = held

        def rate(_: float, y: np.ndarray, direction: np.ndarray | None = direction) -> np.ndarray:
            t = -mu * y[1:3] / np.linalg.norm(y[1:3]) if direction is None else direction
            d = np.array([1.0, t[0], t[1]])
            return np.concatenate([A @ d, d, y[:1]])

        def turn(_: float, y: np.ndarray) -> float:
            return float(y[0])

        def finish(_: float, y: np.ndarray, goal: float = goal) -> float:
            return float(y[6]) - goal

        def stop(_: float, y: np.ndarray) -> float:
            return float(np.linalg.norm(y[1:3])) - 1e-12 * scale

        if rate(0.0, state)[0] < 0.0:
            story += "jam "
        ending = turn if math.isnan(goal) else finish
        events = [ending, stop] if held is None else [ending]
        for event in events:
            event.terminal = True  # type: ignore[attr-defined]
            event.direction = -1.0 if event is stop else 1.0  # type: ignore[attr-defined]
        done = solve_ivp(rate, (0.0, 1e3), state, events=events, method="DOP853", rtol=1e-13, atol=1e-15 * scale)
        assert done.status == 1
        state = done.y[:, -1]
        if held is None and len(done.t_events[1]):
            held = direction_after_stop(A, mu)
            story += "held " if np.linalg.norm(held) < mu * (1 - 1e-9) else "reversed "
        elif math.isnan(goal):
            goal = (1 - e * e) * state[6]
            story += "turned "
            if e == 0.0:
                return state[3:6], story
        else:
            return state[3:6], story
    raise AssertionError("the impact did not end")


@pytest.mark.parametrize("e", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("angle", [0.0, 0.7])
def test_a_sphere_slides_or_sticks_by_the_closed_form(e: float, angle: float) -> None:
    """Uncoupled: p_n = (1 + e) m |c_n|; slip stops by p_t = 2/7 m |c_t| if friction can give as much."""
    for slip in (0.1, 1.0, 5.0):
        for mu in (0.0, 0.05, 0.3, 2.0):
            c = np.array([-1.0, slip * math.cos(angle), slip * math.sin(angle)])
            p = impulses(SPHERE, c, e, mu)
            tangential = min(mu * (1 + e) * MASS, 2 / 7 * MASS * slip)
            expected = [(1 + e) * MASS, -tangential * math.cos(angle), -tangential * math.sin(angle)]
            np.testing.assert_allclose(p, expected, rtol=0, atol=1e-9 * MASS)


@pytest.mark.parametrize("e", [0.0, 0.4, 1.0])
def test_without_friction_it_is_newtons_law(e: float) -> None:
    rng = np.random.default_rng(20300)
    for _ in range(50):
        A, c = random_contact(rng)
        p = impulses(A, c, e, 0.0)
        np.testing.assert_allclose(p, [-(1 + e) * c[0] / A[0, 0], 0.0, 0.0], rtol=1e-13, atol=0)


@pytest.mark.long
def test_random_contacts_agree_with_scipys_integration() -> None:
    rng = np.random.default_rng(20301)
    stories = []
    for k in range(150):
        A, c = random_contact(rng, coupled=(0.3, 3.0, 3.0)[k // 3 % 3])
        if k % 3 == 0:  # in the plane, where slip can stop and start again
            A[2, :2] = A[:2, 2] = c[2] = 0.0
        e, mu = float(rng.choice([0.0, 0.5, 1.0])), float(rng.uniform(0.05, 1.5 if k % 3 else 0.4))
        expected, story = integrated(A, c, e, mu)
        np.testing.assert_allclose(impulses(A, c, e, mu), expected, rtol=0, atol=1e-9 * np.abs(expected).max())
        stories.append(story)
    for kind in ("held", "reversed", "jam"):  # each way of sliding was met
        assert sum(kind in story for story in stories) > 2, kind


def test_slip_that_turns_much_faster_than_it_slows_down_takes_few_steps() -> None:
    """A mobility that is nearly singular: slip keeps its direction while it falls by 3 % in the time of a step."""
    A = np.array([[4.6015, -1.2084, -2.5761], [-1.2084, 4.9567, 2.1614], [-2.5761, 2.1614, 1.9990]])
    c, e, mu = np.array([-8.3, 0.14, -0.29]), 0.0, 2.083
    assert np.linalg.eigvalsh(A)[0] < 0.01 * np.trace(A)
    expected, _ = integrated(A, c, e, mu)
    np.testing.assert_allclose(impulses(A, c, e, mu), expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_slip_starts_from_rest_along_the_ray_on_which_it_grows() -> None:
    """Nothing slides before; too weak a friction to hold it: c_t' = lambda d with p_t = -mu p_n d."""
    rng = np.random.default_rng(20302)
    left = 0
    for _ in range(60):
        A, c = random_contact(rng, 3.0)
        c[1:] = 0.0
        mu = float(rng.uniform(0.05, 0.6))
        p = impulses(A, c, 0.5, mu)
        np.testing.assert_allclose(p[1:] / p[0], direction_after_stop(A, mu), rtol=0, atol=1e-10)
        slip = (c + A @ p)[1:]
        if np.linalg.norm(p[1:]) < 0.999 * mu * p[0]:
            np.testing.assert_allclose(slip, 0.0, rtol=0, atol=1e-9)
        else:
            np.testing.assert_allclose(slip / np.linalg.norm(slip), -p[1:] / (mu * p[0]), rtol=0, atol=1e-8)
            left += 1
    assert left > 10


def test_a_jam_presses_deeper_before_it_rebounds() -> None:
    """Planar, A = [[1, 2], [2, 5]], mu = 1, c = (-1, 1): sliding gives c_n' = 1 - 2 < 0 and c_t' = 2 - 5.

    Slip stops at p_n = 1/3 with c_n = -4/3, W = -7/18. Held: p_t' = -2/5, c_n' = 1/5: W_c = -7/18 - (4/3)^2 / (2/5),
    compression ends at p_n = 7; with e = 1/2 the work rises by |W_c| / 4 = c_n^2 / (2/5).
    """
    A = np.array([[1.0, 2.0, 0.0], [2.0, 5.0, 0.0], [0.0, 0.0, 1.0]])
    compression = 7 / 18 + (16 / 9) / (2 / 5)
    rebound = math.sqrt(compression / 4 * (2 / 5))
    p_n = 7 + 5 * rebound
    p_t = -1 / 3 - 2 / 5 * (p_n - 1 / 3)
    p = impulses(A, np.array([-1.0, 1.0, 0.0]), 0.5, 1.0)
    np.testing.assert_allclose(p, [p_n, p_t, 0.0], rtol=1e-10, atol=1e-12)


def check_sound(A: np.ndarray, c: np.ndarray, e: float, mu: float) -> None:
    p = impulses(A, c, e, mu)
    assert p[0] >= 0.0
    assert math.hypot(p[1], p[2]) <= mu * p[0] * (1 + 1e-14)
    assert gain(A, c, p) <= 1e-14 * abs(p @ c)
    assert (c + A @ p)[0] >= -1e-9 * np.abs(c).max()


@pytest.mark.long
@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    st.lists(st.integers(-10, 10), min_size=18, max_size=18),
    st.lists(st.integers(-20, 20), min_size=3, max_size=3),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from([0.0, 0.1, 1.0, 5.0]),
)
def test_energy_cone_and_no_pulling_whatever_the_numbers(
    rows: list[int], velocity: list[int], e: float, mu: float
) -> None:
    """Zeros and dependent rows, which random reals do not meet."""
    W = np.array(rows, float).reshape(3, 6)
    c = np.array(velocity, float)
    if c[0] < 0.0 and W[0].any():
        # a velocity that the mobility can stop, as that of a contact with a wall at rest is
        check_sound(W @ W.T, W @ np.linalg.pinv(W) @ c if np.linalg.matrix_rank(W) < 3 else c, e, mu)


def test_energy_cone_and_no_pulling_over_random_contacts() -> None:
    rng = np.random.default_rng(20303)
    for k in range(2000):
        A, c = random_contact(rng, 10.0 ** rng.uniform(-2, 2))
        check_sound(A, c, (0.0, 1.0, float(rng.uniform()))[k % 3], 10.0 ** rng.uniform(-3, 1))


def test_turned_tangents_turn_the_impulse() -> None:
    rng = np.random.default_rng(20304)
    cos, sin = math.cos(0.7), math.sin(0.7)
    R = np.array([[1.0, 0.0, 0.0], [0.0, cos, sin], [0.0, -sin, cos]])
    for _ in range(100):
        A, c = random_contact(rng)
        p, q = impulses(A, c, 0.6, 0.4), impulses(R @ A @ R.T, R @ c, 0.6, 0.4)
        np.testing.assert_allclose(q, R @ p, rtol=0, atol=1e-9 * p[0])


@pytest.mark.parametrize("e", [0.0, 0.3, 1.0])
def test_a_link_with_one_joint_stops_where_friction_holds_it(e: float) -> None:
    """A = g g^T, c = g x: x' = |g_n| + mu |g_t| while it slides in, then held if |g_n| <= mu |g_t|, else x' is less.

    In: p_n = |x| / (|g_n| + mu |g_t|), W_c = -|g_n x| p_n / 2. Out: (|g_n| - mu |g_t|) |g_n| p_n^2 / 2 = e^2 |W_c|.
    """
    rng = np.random.default_rng(20308)
    held = 0
    for k in range(200):
        g = rng.normal(size=3) * 10.0 ** rng.uniform(-2, 2, 3)
        g[2] *= k % 2  # in the plane, too
        x = 10.0 ** rng.uniform(-3, 1)
        g[0] = -abs(g[0])
        mu, along = float(rng.uniform(0.1, 2.0)), float(np.linalg.norm(g[1:]))
        inwards = x / (-g[0] + mu * along)
        t = -mu * g[1:] / along
        expected = inwards * np.array([1.0, *t])
        rate = -g[0] - mu * along
        if rate > 0.0:
            outwards = e * math.sqrt(x * inwards / rate)
            expected += outwards * np.array([1.0, *-t])
        held += rate <= 0.0
        p = impulses(np.outer(g, g), g * x, e, mu)
        np.testing.assert_allclose(p, expected, rtol=0, atol=1e-8 * expected[0])
    assert 50 < held < 150


@pytest.mark.parametrize("c_n", [0.0, 0.3])
def test_what_does_not_approach_is_left_alone(c_n: float) -> None:
    np.testing.assert_array_equal(impulses(SPHERE, np.array([c_n, 1.0, 0.0]), 0.5, 0.5), 0.0)


def test_what_cannot_move_gets_no_impulse() -> None:
    np.testing.assert_array_equal(impulses(np.zeros((3, 3)), np.array([-1.0, 1.0, 0.0]), 0.5, 0.5), 0.0)


def test_not_a_number_ends() -> None:
    p = np.zeros(3)
    for where in range(3):
        c = np.array([-1.0, 0.5, 0.2])
        c[where] = math.nan
        collide(SPHERE, c, 0.5, 0.5, allocate(MirtichMemory).series, p)
        assert np.isfinite(p).all()


def row_of_balls(masses: list[float]) -> ScaledContacts:
    """Balls along a line, each a tree of one coordinate that moves along it; contact i is between i and i + 1."""
    n = len(masses)
    contacts = ScaledContacts.allocate(n, np.arange(n), np.ones(n, np.int64))
    for i in range(n - 1):
        contacts.tree[i] = i, i + 1
        contacts.W[i, 0, 0, 0] = -1 / math.sqrt(masses[i])
        contacts.W[i, 0, 1, 0] = 1 / math.sqrt(masses[i + 1])
    return contacts


def settle(
    contacts: ScaledContacts, n: int, u: np.ndarray, e: float, mu: float, tolerance: float = 1e-9, limit: int = 1000
) -> tuple[int, int, np.ndarray, np.ndarray]:
    room = contacts.W.shape[0]
    memory, p, after = Packed(allocate(MirtichMemory)).arrays, np.full((room, 3), 7.0), np.array(u, float)
    code, collisions = resolve_one_at_a_time(
        n, Packed(contacts).arrays, after, np.full(room, e), np.full(room, mu), tolerance, limit, memory, p
    )
    assert (p[n:] == 7.0).all()
    return code, collisions, after, p[:n]


@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
def test_two_balls(e: float) -> None:
    """m1 v1' = m1 v1 - p, p = (1 + e) v / (1/m1 + 1/m2)."""
    m1, m2, v = 0.2, 0.5, 1.5
    code, collisions, u, p = settle(row_of_balls([m1, m2]), 1, np.array([math.sqrt(m1) * v, 0.0]), e, 0.3)
    impulse = (1 + e) * v / (1 / m1 + 1 / m2)
    assert (code, collisions) == (SETTLED, 1)
    np.testing.assert_allclose(p[0], [impulse, 0.0, 0.0], rtol=1e-13)
    np.testing.assert_allclose(u / np.sqrt([m1, m2]), [v - impulse / m1, impulse / m2], rtol=1e-13)


@pytest.mark.parametrize("balls", [3, 5])
def test_the_last_ball_of_newtons_cradle_leaves_alone(balls: int) -> None:
    u = np.zeros(balls)
    u[0] = 2.0
    code, collisions, after, _ = settle(row_of_balls([1.0] * balls), balls - 1, u, 1.0, 0.0)
    assert (code, collisions) == (SETTLED, balls - 1)
    np.testing.assert_allclose(after, [0.0] * (balls - 1) + [2.0], rtol=0, atol=1e-14)


def test_a_cradle_without_restitution_moves_on_together() -> None:
    """Collisions without end, each halving a difference of velocities: down to the tolerance, or to the limit."""
    contacts, u = row_of_balls([1.0, 1.0, 1.0]), np.array([3.0, 0.0, 0.0])
    code, collisions, after, _ = settle(contacts, 2, u, 0.0, 0.0, tolerance=1e-6)
    assert code == SETTLED
    assert 10 < collisions < 50
    np.testing.assert_allclose(after, 1.0, rtol=0, atol=1e-6)
    code, collisions, after, p = settle(contacts, 2, u, 0.0, 0.0, tolerance=1e-6, limit=3)
    assert (code, collisions) == (LIMIT_REACHED, 3)
    np.testing.assert_allclose(after, [1.125, 1.125, 0.75], rtol=1e-13)
    np.testing.assert_allclose(p[:, 0], [1.875, 0.75], rtol=1e-13)


def test_of_two_contacts_the_faster_is_treated_first() -> None:
    """The middle ball of three is met from both sides at once."""
    contacts = row_of_balls([1.0, 1.0, 1.0])
    for u, expected in (([2.0, 0.0, -1.0], [-1.0, 0.0, 2.0]), ([1.0, 0.0, -2.0], [-2.0, 0.0, 1.0])):
        code, collisions, after, _ = settle(contacts, 2, np.array(u), 1.0, 0.0)
        assert (code, collisions) == (SETTLED, 3)
        np.testing.assert_allclose(after, expected, rtol=0, atol=1e-13)


def random_body(rng: np.random.Generator, n: int) -> tuple[ScaledContacts, np.ndarray, np.ndarray]:
    """Points on a body of 1 kg and 0.05 m radius of gyration that meet a floor at generic tangents."""
    contacts = ScaledContacts.allocate(n + 1, np.array([0]), np.array([6]))
    for i in range(n):
        axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        axes[:, 0] *= 1.0 if axes[2, 0] > 0.0 else -1.0
        lever = rng.uniform(-0.1, 0.1, 3)
        for d in range(3):
            contacts.W[i, d, 1] = np.concatenate([axes[:, d], np.cross(lever, axes[:, d]) / 0.05])
        contacts.tree[i, 1] = 0
    return contacts, contacts.W[:n, :, 1].copy(), rng.normal(size=6)


def test_many_contacts_end_without_approach_and_never_add_energy() -> None:
    rng = np.random.default_rng(20305)
    settled = 0
    for _ in range(150):
        n = int(rng.integers(1, 6))
        contacts, W, u = random_body(rng, n)
        e, mu = float(rng.choice([0.0, 0.5, 1.0])), float(rng.uniform(0.0, 1.0))
        code, _, after, p = settle(contacts, n, u, e, mu, 1e-4, 200)
        assert after @ after <= u @ u * (1 + 1e-13)
        assert (p[:, 0] >= 0.0).all()
        assert (np.hypot(p[:, 1], p[:, 2]) <= mu * p[:, 0] * (1 + 1e-12)).all()
        np.testing.assert_allclose(after, u + np.einsum("idk,id->k", W, p), rtol=0, atol=1e-10 * np.abs(p).sum())
        if code == SETTLED:
            assert (W[:, 0] @ after).min() >= -1e-4
            settled += 1
    assert settled > 120


def test_a_moving_wall_strikes_as_a_moving_body_would() -> None:
    """Seen from the wall, nothing differs; the kinetic energy of the body grows by the work of the wall."""
    rng = np.random.default_rng(20306)
    for _ in range(30):
        contacts, W, u = random_body(rng, 1)
        W[0, 0] *= -np.sign(W[0, 0] @ u)
        contacts.W[0, :, 1] = W[0]
        _, _, after, p = settle(contacts, 1, u, 0.5, 0.4)
        contacts.offset[0] = W[0] @ u
        _, _, still, q = settle(contacts, 1, np.zeros(6), 0.5, 0.4)
        np.testing.assert_allclose(q, p, rtol=0, atol=1e-12)
        np.testing.assert_allclose(still, after - u, rtol=0, atol=1e-12)
        assert 0.5 * still @ still + q[0] @ contacts.offset[0] <= 1e-14


def test_no_contacts_and_rows_that_cannot_move() -> None:
    contacts = row_of_balls([1.0, 1.0])
    code, collisions, after, _ = settle(contacts, 0, np.array([1.0, 0.0]), 0.5, 0.5)
    assert (code, collisions, after.tolist()) == (SETTLED, 0, [1.0, 0.0])
    contacts.W[:] = 0.0
    contacts.offset[0, 0] = -1.0
    code, collisions, after, p = settle(contacts, 1, np.array([1.0, 0.0]), 0.5, 0.5)
    assert (code, collisions, after.tolist(), p.tolist()) == (SETTLED, 0, [1.0, 0.0], [[0.0, 0.0, 0.0]])


def test_kernels_are_their_python_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(20307)
    compiled = []
    for _ in range(5):
        A, c = random_contact(rng)
        compiled.append((A, c, impulses(A, c, 0.5, 0.4)))
    for name, kernel in vars(mirtich).items():
        if isinstance(kernel, CPUDispatcher):
            monkeypatch.setattr(mirtich, name, kernel.py_func)
    for A, c, p in compiled:
        q = np.zeros(3)
        assert mirtich.collide(A, c, 0.5, 0.4, allocate(MirtichMemory).series, q) == COLLIDED
        np.testing.assert_allclose(q, p, rtol=0, atol=1e-9)


def test_nothing_is_compiled_again() -> None:
    rng = np.random.default_rng(20308)
    contacts, _, u = random_body(rng, 1)
    settle(contacts, 1, u, 0.5, 0.5)
    impulses(SPHERE, np.array([-1.0, 1.0, 0.0]), 0.5, 0.5)
    kernels = [kernel for kernel in vars(mirtich).values() if isinstance(kernel, CPUDispatcher)]
    before = [len(kernel.signatures) for kernel in kernels]
    for n in (1, 3, 7):
        contacts, _, u = random_body(rng, n)
        settle(contacts, n, u, 0.5, 0.5)
    settle(row_of_balls([1.0, 2.0]), 1, np.array([1.0, 0.0]), 0.5, 0.5)
    assert [len(kernel.signatures) for kernel in kernels] == before
    assert kernels
