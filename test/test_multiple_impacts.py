"""Impacts that begin together, `contact.multiple_impacts`: closed forms of chains and blocks, energy, momentum."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np
import pytest
from world_builder import Response, Simulation, ball, box, plane, some_bodies, some_rows

from haptic_sim.contact_rows import ContactRows
from haptic_sim.parameters import ParameterError

METHODS = ("impulse_augmented", "frictional_impulses", "constraint")
COULOMB = {"model": "coulomb"}
OVERLAP = 1e-7  # [m] of balls that touch: all contacts are there when the first one collides


def chain(masses: Any, velocities: Any, method: str, e: float, law: str = "sequential") -> np.ndarray:
    """Velocities of balls that touch in a row, a few steps after the first of them begin to collide."""
    bodies = {
        f"b{i}": ball([(0.1 - OVERLAP) * i, 0.0, 0.0], [v, 0.0, 0.0], mass=m)
        for i, (m, v) in enumerate(zip(masses, velocities, strict=True))
    }
    contact = {"restitution": e, "multiple_impacts": law, "penalty": "consistent"}
    simulation = Simulation(bodies, method, contact=contact).step(10)
    return np.array([simulation.v(f"b{i}")[0] for i in range(len(masses))])


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("balls", [1, 2])
def test_as_many_balls_leave_a_cradle_as_arrive(method: str, balls: int) -> None:
    before = [1.0] * balls + [0.0] * (5 - balls)
    np.testing.assert_allclose(chain([1.0] * 5, before, method, 1.0), before[::-1], atol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_at_once_all_other_balls_leave_together(method: str) -> None:
    """THESIS (4.36), the law by default: v_i relative are reversed, where momentum leaves a free common velocity."""
    found = chain([1.0] * 5, [1.0, 0, 0, 0, 0], method, 1.0, "simultaneous")
    np.testing.assert_allclose(found, [-0.6, 0.4, 0.4, 0.4, 0.4], atol=1e-3)


def test_a_cradle_of_springs_is_that_of_penalties_without_damping() -> None:
    """Springs between unit masses, by another integration: -0.13, -0.08, -0.03, 0.30, 0.94."""
    x, v = np.zeros(5), np.array([1.0, 0, 0, 0, 0])
    for _ in range(4000):
        force = np.maximum(0.0, -np.diff(x))
        v = v + 5e-3 * (np.append(0.0, force) - np.append(force, 0.0))
        x = x + 5e-3 * v
    bodies = {f"b{i}": ball([0.1 * i, 0, 0], [1.0 if i == 0 else 0.0, 0, 0]) for i in range(5)}
    simulation = Simulation(bodies, "penalty", 8000.0, {"stiffness": 1e5, "damping": 0.0}).step(500)
    np.testing.assert_allclose([simulation.v(f"b{i}")[0] for i in range(5)], v, atol=5e-3)
    np.testing.assert_allclose(v, [-0.132, -0.075, -0.031, 0.296, 0.942], atol=2e-3)


@functools.cache
def spring_chain(masses: tuple[float, ...], velocities: tuple[float, ...], e: float) -> np.ndarray:
    """Velocities of balls between springs that are released with e^2 of their force, by small steps of time."""
    mass, v = np.array(masses), np.array(velocities, float)
    x, longest, h = np.zeros(len(mass)), np.zeros(len(mass) - 1), 1e-3
    for _ in range(20000):
        strain = -np.diff(x)
        force = np.maximum(0.0, strain) * np.where(strain >= longest, 1.0, e * e)
        longest = np.maximum(longest, strain)
        v = v + h * (np.append(0.0, force) - np.append(force, 0.0)) / mass
        x = x + h * v
    return v


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("e", [1.0, 0.6])
def test_as_springs_impacts_share_out_as_between_penalties(method: str, e: float) -> None:
    masses, before = (1.0, 1.0, 0.5, 1.0, 2.0), (1.0, 0.0, 0.0, 0.0, -0.5)
    found = chain(masses, before, method, e, "springs")
    np.testing.assert_allclose(found, spring_chain(masses, before, e), atol=4e-3)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("e", [0.0, 0.1, 0.5, 1.0])
def test_one_contact_obeys_its_restitution_as_a_spring(method: str, e: float) -> None:
    expected = [(1.0 - 2.0 * e) / 3.0, (1.0 + e) / 3.0]
    np.testing.assert_allclose(chain([1.0, 2.0], [1.0, 0.0], method, e, "springs"), expected, atol=1e-3)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("e", [1.0, 0.8])
def test_a_chain_of_growing_masses_hands_an_impulse_on(method: str, e: float) -> None:
    """Masses m, n, the first with v: they leave with (m - e n) v / (m + n) and (1 + e) m v / (m + n)."""
    masses, v, expected = [1.0, 2.0, 4.0, 8.0], 1.0, []
    for m, n in itertools.pairwise(masses):
        expected.append((m - e * n) / (m + n) * v)
        v *= (1.0 + e) * m / (m + n)
    np.testing.assert_allclose(chain(masses, [1.0, 0, 0, 0], method, e), [*expected, v], atol=2e-4)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("mass", [1.0 / 3.0, 0.05])
def test_a_small_ball_on_a_large_one_is_thrown_up(method: str, mass: float) -> None:
    """Both fall with v; the floor returns the large one, which gives the small one (3 M - m) v / (M + m)."""
    bodies = {
        "floor": plane(),
        "large": ball([0, 0, 0.05 - OVERLAP], [0, 0, -1.0], mass=1.0),
        "small": ball([0, 0, 0.15 - 2 * OVERLAP], [0, 0, -1.0], mass=mass),
    }
    contact = {"restitution": 1.0, "multiple_impacts": "sequential", "penalty": "consistent"}
    simulation = Simulation(bodies, method, contact=contact).step(5)
    assert simulation.v("small")[2] == pytest.approx((3.0 - mass) / (1.0 + mass), abs=1e-3)
    assert simulation.v("large")[2] == pytest.approx((1.0 - 3.0 * mass) / (1.0 + mass), abs=1e-3)


@pytest.mark.parametrize("law", ["simultaneous", "sequential", "springs"])
@pytest.mark.parametrize("method", ["frictional_impulses", "constraint"])
def test_a_block_rocks_on_as_housner_says(method: str, law: str) -> None:
    """Housner 1963: from one edge to the other, w' / w = 1 - 3/2 sin^2 a with tan a = width / height."""
    half, height, w = 0.05, 0.15, 0.1
    depth = 1e-6
    bodies = {
        "floor": plane(),
        "block": box([0, 0, height - depth], [2 * half, 0.1, 2 * height], [w * height, 0, -w * half, 0, w, 0]),
    }
    contact = {"friction": COULOMB | {"static": 10.0, "kinetic": 10.0}, "multiple_impacts": law}
    contact |= {"penalty": "consistent", "restitution": 0.0}
    found = Simulation(bodies, method, contact=contact).step(1).spin("block")[1]
    sine = half / math.hypot(half, height)
    assert found / w == pytest.approx(1.0 - 1.5 * sine**2, abs=0.01)


@pytest.mark.parametrize(
    ("method", "law"), [*((method, "sequential") for method in METHODS), ("impulse_augmented", "springs")]
)
def test_a_face_that_lands_flat_rebounds_flat(method: str, law: str) -> None:
    """Contacts of one pair of bodies collide at once, so that what is symmetric stays so."""
    bodies = {"floor": plane(), "box": box([0, 0, 0.05 - OVERLAP], [0.1, 0.2, 0.1], [0.3, 0, -1.0])}
    contact = {"restitution": 0.5, "multiple_impacts": law, "friction": COULOMB, "penalty": "consistent"}
    simulation = Simulation(bodies, method, contact=contact).step(1)
    assert simulation.v("box")[2] == pytest.approx(0.5, abs=1e-3)
    if method == "impulse_augmented":
        np.testing.assert_allclose(simulation.spin("box"), 0.0, atol=1e-9)


def struck(seed: int, count: int, method: str, law: str) -> tuple[Response, ContactRows, np.ndarray]:
    """Random contacts of random bodies that collide, and what that does to u."""
    rng = np.random.default_rng(seed)
    body = some_bodies(rng, 5)
    rows = some_rows(rng, 5, count, separation=-1e-9)
    response = Response(body, method, multiple_impacts=law, friction=COULOMB)
    return response, rows, response.respond(rows)


def check_energy_and_cones(seed: int, count: int, method: str, law: str) -> None:
    response, rows, du = struck(seed, count, method, law)
    u = np.array(response.body.arrays.u)
    p = response.impulses(rows)
    gained = 0.5 * (u + du) @ (u + du) - 0.5 * u @ u
    assert gained <= 1e-12 * (u @ u)
    assert (p[:, 0] >= 0.0).all()
    friction = np.hypot(p[:, 1], p[:, 2])
    assert (friction <= rows.friction[:count, 0] * p[:, 0] * (1 + 1e-9) + 1e-15).all()
    W = response.dense(rows)
    np.testing.assert_allclose(W.T @ p.ravel(), du, rtol=0, atol=1e-12 * max(1.0, np.abs(du).max()))
    normal = W[::3] @ np.stack([u, u + du], axis=1)
    approached = normal[:, 0] < 0.0  # of penalties, those that separated at first take no part
    assert normal[approached, 1].min(initial=0.0) > -1e-5 * np.abs(normal).max() or response.method.unresolved


@pytest.mark.parametrize("law", ["sequential", "springs"])
@pytest.mark.parametrize("method", METHODS)
def test_no_sequence_adds_energy_and_each_impulse_is_one_of_contact(method: str, law: str) -> None:
    """Impulses act on both sides of a contact alike (W^T p), which is what keeps momentum."""
    for seed in range(12):
        check_energy_and_cones(20310 + seed, 1 + seed, method, law)


@pytest.mark.exhaustive
@pytest.mark.parametrize("law", ["sequential", "springs"])
@pytest.mark.parametrize("method", METHODS)
def test_no_sequence_adds_energy_of_many(method: str, law: str) -> None:
    for seed in range(400):
        check_energy_and_cones(20400 + seed, 1 + seed % 24, method, law)


@pytest.mark.parametrize("method", METHODS)
def test_random_chains_keep_momentum_and_energy(method: str) -> None:
    rng = np.random.default_rng(20320)
    for _ in range(3):
        n = int(rng.integers(2, 8))
        masses, e = 10.0 ** rng.uniform(-1.0, 1.0, n), float(rng.uniform())
        before = np.sort(rng.uniform(-1.0, 1.0, n))[::-1]
        after = chain(masses, before, method, e)
        assert masses @ after == pytest.approx(masses @ before, abs=1e-9 * masses.sum())
        assert masses @ after**2 <= masses @ before**2 * (1 + 1e-4)


def test_what_restitution_leaves_of_a_collapse_is_stopped() -> None:
    """A ball between two walls that close in: e < 1, and no end of collisions."""
    body = some_bodies(np.random.default_rng(1), 1)
    rows = ContactRows()
    rows.count = 2
    rows.id[:2], rows.wall[:2], rows.body[:2] = [0, 1], [0, 1], [(0, 1), (0, 1)]
    rows.normal[:2], rows.point[:2] = [(1, 0, 0), (-1, 0, 0)], body.p_WH
    rows.separation[:2], rows.restitution[:2], rows.velocity[:2] = -1e-4, 0.9, [1.0, 1.0]
    response = Response(body, "frictional_impulses", multiple_impacts="sequential")
    response.respond(rows)
    assert np.isfinite(response.impulses(rows)).all()


def test_halves_of_contacts_are_no_pairs() -> None:
    body = some_bodies(np.random.default_rng(0), 2)
    with pytest.raises(ParameterError, match=r"multiple_impacts = sequential: is of pairs of bodies"):
        Response(body, "impulse_augmented", multiple_impacts="sequential", self_collision="printed")
