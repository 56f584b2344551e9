"""The ideal rigid world against closed forms and conservation laws."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from conftest import ROOT, sampled
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from haptic_experiments.references import ideal
from haptic_experiments.references.ideal import IdealMotion, PlanarBody, Wall, Wrench, simulate

MASS, INERTIA = 2.0, 0.005  # [kg], [kg m^2]
HALF = np.array([0.021, 0.0105])  # [m]
D = np.array([MASS, MASS, INERTIA])
CORNERS = HALF * np.array([[1, -1], [1, 1], [-1, 1], [-1, -1]])
PEG = PlanarBody(MASS, INERTIA, CORNERS)
RIGHT, LOWER = Wall((-1.0, 0.0), -(HALF[0] + 0.03)), Wall((0.0, 1.0), -(HALF[1] + 0.06))
FLOOR = Wall((0.0, 1.0), 0.0)
DOWN = (0.0, -4.0, 0.0)  # [N]


def constant(*wrench: float) -> Wrench:
    return lambda t: wrench


NOTHING = constant(0.0, 0.0, 0.0)


def gaps(body: PlanarBody, walls: list[Wall], q: np.ndarray) -> np.ndarray:
    """Separation of each vertex from each wall [m], (n, vertices, walls)."""
    c, s = np.cos(q[:, 2]), np.sin(q[:, 2])
    turned = np.einsum("ijn,vj->nvi", np.array([[c, -s], [s, c]]), body.vertices)
    points = q[:, None, :2] + turned
    return points @ np.array([w.normal for w in walls]).T - [w.offset for w in walls]


def kinetic(inertia: np.ndarray, v: np.ndarray) -> float:
    return 0.5 * float(v @ (inertia * v))


def turned(x: np.ndarray, angle: float) -> np.ndarray:
    """Planar vectors (2,), or (n, 3) whose first two columns are such, turned by an angle [rad]."""
    R = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    return np.concatenate([x[..., :2] @ R.T, x[..., 2:]], axis=-1)


def test_free_flight() -> None:
    def wrench(t: float) -> tuple[float, float, float]:
        return math.sin(3 * t), 0.5, 0.01 * math.cos(2 * t)

    motion = simulate(PEG, [], wrench, 2.0, 0.0, q0=(0.1, 0.2, 0.3), v0=(0.4, -0.5, 6.0))
    t = np.linspace(0.0, 2.0, 41)
    q, v = motion.sample(t)
    x = 0.1 + 0.4 * t + (t - np.sin(3 * t) / 3) / (3 * MASS)
    y = 0.2 - 0.5 * t + 0.25 * t**2 / MASS
    theta = 0.3 + 6.0 * t + 0.01 * (1 - np.cos(2 * t)) / (4 * INERTIA)
    assert q == pytest.approx(np.column_stack([x, y, theta]), abs=1e-11)
    assert v[:, 2] == pytest.approx(6.0 + 0.01 * np.sin(2 * t) / (2 * INERTIA), abs=1e-11)
    assert not motion.impacts and not motion.contact_wrench(t).any()


def test_peg_in_the_corner() -> None:
    motion = simulate(PEG, [RIGHT, LOWER], constant(0.32, -0.4, 0.0), 3.5, 0.0)
    first, second = motion.impacts
    t1, t2 = math.sqrt(2 * MASS * 0.03 / 0.32), math.sqrt(2 * MASS * 0.06 / 0.4)
    assert (round(t1, 5), round(t2, 5)) == (0.61237, 0.77460)
    assert first.time == pytest.approx(t1, abs=1e-12) and second.time == pytest.approx(t2, abs=1e-12)
    assert set(first.contacts) == {(0, 0), (1, 0)} and set(second.contacts) == {(0, 1), (3, 1)}
    assert first.impulses == pytest.approx([0.16 * t1] * 2)  # the face takes it evenly
    assert first.impulse == pytest.approx([-0.32 * t1, 0.0, 0.0], abs=1e-15)
    lost = first.kinetic_energy_before - first.kinetic_energy_after
    assert lost == pytest.approx((0.32 * t1) ** 2 / (2 * MASS))

    times = np.array([0.3, t1 + 1e-9, 0.7, t2 + 1e-9, 3.5])
    q, v = motion.sample(times)
    assert q[2] == pytest.approx([0.03, -0.1 * 0.7**2, 0.0], abs=1e-12)
    assert v[2] == pytest.approx([0.0, -0.2 * 0.7, 0.0], abs=1e-12)
    assert q[-1] == pytest.approx([0.03, -0.06, 0.0], abs=1e-12) and v[-1] == pytest.approx(0.0, abs=1e-12)
    walls = [[0, 0, 0], [-0.32, 0, 0], [-0.32, 0, 0], [-0.32, 0.4, 0], [-0.32, 0.4, 0]]
    assert motion.contact_wrench(times) == pytest.approx(np.array(walls), abs=1e-12)


def test_velocity_at_an_impact_is_the_one_after_it() -> None:
    motion = simulate(PEG, [RIGHT], constant(0.32, 0.0, 0.0), 1.0, 0.5)
    time = motion.impacts[0].time
    _, v = motion.sample([time - 1e-9, time])
    assert v[:, 0] == pytest.approx([0.16 * time, -0.08 * time], abs=1e-9)


@pytest.mark.parametrize("e", [0.5, 1.0])
def test_bounces(e: float) -> None:
    """Flights of t1, 2 e t1, 2 e^2 t1, ...; each impact leaves e^2 of the kinetic energy."""
    height, a = 0.08, 2.0
    t1 = math.sqrt(2 * height / a)
    motion = simulate(PEG, [FLOOR], constant(*DOWN), 2.0, e, q0=(0.0, HALF[1] + height, 0.0))
    count = 12 if e < 1.0 else 4
    times = t1 * (1 + 2 * np.cumsum([0.0] + [e**k for k in range(1, count)]))
    assert [i.time for i in motion.impacts[:count]] == pytest.approx(times, abs=1e-9)
    energies = MASS * a * height * e ** (2 * np.arange(1, count + 1))
    assert [i.kinetic_energy_after for i in motion.impacts[:count]] == pytest.approx(energies, rel=1e-9)
    tops = times[:-1] + t1 * e ** np.arange(1, count)
    q, _ = motion.sample(tops)
    assert q[:, 1] - HALF[1] == pytest.approx(height * e ** (2 * np.arange(1, count)), abs=1e-12)
    if e < 1.0:
        limit = t1 * (1 + e) / (1 - e)  # of infinitely many bounces: THESIS 4.19 with a threshold, REST_SPEED
        assert len(motion.impacts) == math.ceil(math.log(1e-6 / (a * t1)) / math.log(e))
        times = np.array([limit, 2.0])
        assert motion.sample(times)[0] == pytest.approx(np.array([[0, HALF[1], 0]] * 2), abs=1e-12)
        assert motion.contact_wrench(times) == pytest.approx(np.array([[0, 4, 0]] * 2), abs=1e-12)


@pytest.mark.parametrize("e", [0.0, 0.6, 1.0])
def test_impact_of_one_vertex(e: float) -> None:
    tilt, speed = 0.3, 0.5
    arm = np.array([math.cos(tilt), -math.sin(tilt)]) @ CORNERS.T  # horizontal, of each corner
    low = np.array([math.sin(tilt), math.cos(tilt)]) @ CORNERS.T
    lowest = int(low.argmin())
    height = 0.01 - low[lowest]
    motion = simulate(PEG, [FLOOR], NOTHING, 0.03, e, q0=(0, height, tilt), v0=(0.2, -speed, 0))
    (impact,) = motion.impacts
    assert impact.time == pytest.approx(0.01 / speed, abs=1e-12)
    assert impact.contacts == ((lowest, 0),)
    A = 1 / MASS + arm[lowest] ** 2 / INERTIA
    p = (1 + e) * speed / A
    assert impact.impulses == pytest.approx([p])
    assert impact.impulse == pytest.approx([0.0, p, arm[lowest] * p])
    # THESIS 4.27 with the factor 1/2 restored
    lost = impact.kinetic_energy_before - impact.kinetic_energy_after
    assert lost == pytest.approx((1 - e**2) / 2 * speed**2 / A, abs=1e-15)
    _, v = motion.sample([impact.time])
    assert v[0] == pytest.approx([0.2, -speed + p / MASS, arm[lowest] * p / INERTIA])


def test_rocking() -> None:
    """A tilted peg lands on a vertex, tips and rocks to rest; each rock keeps A12 / A22 of the speed."""
    q0 = (0.0, 0.03, 0.2)
    motion = simulate(PEG, [FLOOR], constant(*DOWN), 3.0, 0.0, q0=q0)
    rocks = motion.impacts[1:]
    assert len(motion.impacts) > 10
    assert [i.contacts for i in rocks[:4]] == [((0, 0),), ((3, 0),)] * 2  # vertex 3 was hit first
    A22, A12 = 1 / MASS + HALF[0] ** 2 / INERTIA, 1 / MASS - HALF[0] ** 2 / INERTIA
    for rock in rocks[:-2]:  # of the last ones the speed is that of the threshold
        kept = rock.kinetic_energy_after / rock.kinetic_energy_before
        assert kept == pytest.approx((A12 / A22) ** 2, rel=1e-6)
    q, _ = motion.sample(np.linspace(motion.impacts[0].time, 3.0, 500))
    assert np.abs(gaps(PEG, [FLOOR], q).min(axis=(1, 2))).max() < 1e-15  # one vertex is always on the floor
    q, v = motion.sample([3.0])
    assert q[0, 1:] == pytest.approx([HALF[1], 0.0], abs=1e-12) and v[0] == pytest.approx(0.0, abs=1e-9)
    assert motion.contact_wrench([3.0])[0] == pytest.approx([0.0, 4.0, 0.0], abs=1e-9)


def test_torque_tips_the_peg_about_its_vertex() -> None:
    """A growing torque moves the load to one vertex; from 4 N x 21 mm on, the peg turns about that."""
    rate = 0.1  # [N m / s]
    motion = simulate(PEG, [FLOOR], lambda t: (0.0, -4.0, rate * t), 0.9, 0.0, q0=(0.0, HALF[1], 0.0))
    tips = 4.0 * HALF[0] / rate
    later = 0.005  # [s]
    times = np.array([0.5 * tips, tips - 1e-6, tips + later])
    q, _ = motion.sample(times)
    assert q[:2] == pytest.approx(np.array([[0, HALF[1], 0]] * 2), abs=1e-12)
    assert motion.contact_wrench(times[:2]) == pytest.approx(np.array([[0, 4, -rate * t] for t in times[:2]]), abs=1e-9)
    pivot = INERTIA + MASS * HALF[0] ** 2  # the peg is free to slide: only the vertical arm counts
    assert q[2, 2] == pytest.approx(rate * later**3 / (6 * pivot), rel=1e-4)
    assert gaps(PEG, [FLOOR], q)[2, 3, 0] == pytest.approx(0.0, abs=1e-12)  # the left vertex, which it turns about


def test_torque_in_the_corner() -> None:
    motion = simulate(PEG, [RIGHT, LOWER], constant(0.32, -0.4, 0.002), 3.5, 0.0)
    assert len(motion.impacts[0].contacts) == 1
    q, _ = motion.sample([0.5, 3.5])
    assert q[0, 2] == pytest.approx(0.5 * 0.002 / INERTIA * 0.5**2, abs=1e-12)
    assert q[1] == pytest.approx([0.03, -0.06, 0.0], abs=1e-12)  # it is pressed flat again
    assert motion.contact_wrench([3.5])[0] == pytest.approx([-0.32, 0.4, -0.002], abs=1e-12)


def test_sliding_keeps_the_tangential_motion() -> None:
    motion = simulate(PEG, [FLOOR], lambda t: (math.sin(t), -4.0, 0.0), 3.0, 0.0, (0, 0.02, 0), (0.7, 0, 0))
    t = np.linspace(0.0, 3.0, 31)
    q, v = motion.sample(t)
    assert v[:, 0] == pytest.approx(0.7 + (1 - np.cos(t)) / MASS, abs=1e-11)
    assert q[:, 0] == pytest.approx(0.7 * t + (t - np.sin(t)) / MASS, abs=1e-11)
    assert q[-1, 1] == pytest.approx(HALF[1], abs=1e-12)


def test_release_when_the_force_reverses() -> None:
    """Pressed on the floor by F sin(w t) until pi / w, then lifted."""
    F, w = 3.0, 4.0
    motion = simulate(PEG, [FLOOR], lambda t: (0.0, -F * math.sin(w * t), 0.0), 1.5, 0.0, (0, HALF[1], 0))
    assert not motion.impacts
    t = np.linspace(0.0, 1.5, 61)
    after = np.maximum(t - math.pi / w, 0.0)
    lift = F / (MASS * w) * (after - np.sin(w * after) / w)
    q, _ = motion.sample(t)
    assert q[:, 1] == pytest.approx(HALF[1] + lift, abs=1e-11)
    pressed = np.where(t < math.pi / w, F * np.sin(w * t), 0.0)
    assert motion.contact_wrench(t)[:, 1] == pytest.approx(pressed, abs=1e-9)


def test_a_pull_of_two_milliseconds_opens_a_contact() -> None:
    """Shorter than the steps that the motion alone, which is none, would allow."""

    def wrench(t: float) -> tuple[float, float, float]:
        return 0.0, -4.0 + 6.0 * math.exp(-(((t - 0.485) / 0.002) ** 2)), 0.0

    motion = simulate(PEG, [FLOOR], wrench, 1.0, 0.0, q0=(0.0, HALF[1], 0.0))
    (impact,) = motion.impacts
    half = 0.002 * math.sqrt(math.log(1.5))  # the pull exceeds the load so long before and after 0.485 s
    t = np.linspace(0.475, 0.495, 401)
    q, _ = motion.sample(t)
    assert 0.485 + half < impact.time < 0.495
    assert (q[:, 1] > HALF[1] + 1e-12).tolist() == ((t > 0.485 - half + 1e-5) & (t < impact.time)).tolist()
    assert motion.contact_wrench(t)[:, 1].min() > -1e-9


def test_a_dip_of_a_micrometre_is_an_impact() -> None:
    """A parabola that would be inside the wall for 2 ms, at its vertex; it is met on the way down."""
    a, depth, fall = 2.0, 1e-6, 0.503  # [m/s^2], [m], [s] to the lowest point
    q0, v0 = (0.0, HALF[1] + 0.5 * a * fall**2 - depth, 0.0), (0.0, -a * fall, 0.0)
    motion = simulate(PEG, [FLOOR], constant(0.0, MASS * a, 0.0), 1.0, 0.5, q0, v0)
    (impact,) = motion.impacts
    assert impact.time == pytest.approx(fall - math.sqrt(2 * depth / a), abs=1e-11)


@pytest.mark.parametrize("after", [lambda t: t >= 0.4, lambda t: t > 0.4], ids=["from", "after"])
def test_a_jump_at_a_breakpoint_is_exact_however_it_is_written(after: Callable[[float], bool]) -> None:
    motion = simulate(PEG, [], lambda t: (0.0 if after(t) else 5.0, 0.0, 0.0), 1.0, 0.0, breakpoints=[0.4, 7.0])
    q, v = motion.sample([0.4, 1.0])
    assert v[:, 0] == pytest.approx([1.0, 1.0], abs=1e-14)
    assert q[:, 0] == pytest.approx([0.2, 0.8], abs=1e-14)


def test_a_wrench_of_samples() -> None:
    """Piecewise linear, as from a file: pressed, then pulled off by the third sample."""
    times, fy = np.arange(0.0, 1.01, 0.1), np.array([-1, -2, -1, 1, 1, 1, 1, 1, 1, 1, 1.0])
    motion = simulate(
        PEG,
        [FLOOR],
        lambda t: (0.0, np.interp(t, times, fy), 0.0),
        1.0,
        0.0,
        (0, HALF[1], 0),
        breakpoints=times,
    )
    rise = 0.5 * 1.0 / MASS * 0.05  # speed at 0.3 s, from the force's zero at 0.25 s
    height = (0.05**2 / 6 + 0.7 * 0.05 / 2 + 0.7**2 / 2) / MASS
    q, v = motion.sample([0.25, 0.3, 1.0])
    assert v[:, 1] == pytest.approx([0.0, rise, rise + 0.7 / MASS], abs=1e-10)
    assert q[:, 1] - HALF[1] == pytest.approx([0.0, 0.05**2 / 6 / MASS, height], abs=1e-10)


def test_frictionless_walls_leave_the_other_direction_alone() -> None:
    wall = Wall(turned(np.array([0.0, 1.0]), 0.7), 0.0)
    along = turned(np.array([1.0, 0.0]), 0.7)
    q0 = (*turned(np.array([0.0, 0.05]), 0.7), 1.1)
    motion = simulate(PEG, [wall], constant(*(-8.0 * wall.normal), 0.0), 1.5, 0.7, q0, (0.3, -0.2, 5.0))
    assert len(motion.impacts) > 10
    _, v = motion.sample(np.linspace(0.0, 1.5, 200))
    assert v[:, :2] @ along == pytest.approx(along @ (0.3, -0.2), abs=1e-11)
    assert all(abs(i.impulse[:2] @ along) < 1e-12 for i in motion.impacts)


def test_frame_covariance() -> None:
    """The same scene turned by 0.7 rad moves in the same way; short of chaos, so to rounding."""
    wrench = np.array([0.32, -0.4, 0.003])
    one = simulate(PEG, [RIGHT, LOWER], constant(*wrench), 1.2, 0.3, v0=(0.02, 0.03, 0.4))
    other = simulate(
        PEG,
        [Wall(turned(w.normal, 0.7), w.offset) for w in (RIGHT, LOWER)],
        constant(*turned(wrench, 0.7)),
        1.2,
        0.3,
        q0=(0.0, 0.0, 0.7),
        v0=(*turned(np.array([0.02, 0.03]), 0.7), 0.4),
    )
    times = np.linspace(0.0, 1.2, 50)
    (q, v), (q_turned, v_turned) = one.sample(times), other.sample(times)
    assert [i.contacts for i in one.impacts] == [i.contacts for i in other.impacts]
    assert len(one.impacts) > 4
    assert q_turned == pytest.approx(turned(q, 0.7) + [0.0, 0.0, 0.7], abs=1e-9)
    assert v_turned == pytest.approx(turned(v, 0.7), abs=1e-7)
    assert other.contact_wrench(times) == pytest.approx(turned(one.contact_wrench(times), 0.7), abs=1e-7)


def quadrature(start: float, end: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights, accurate for what is smooth on a scale of 20 ms."""
    x, w = np.polynomial.legendre.leggauss(8)
    edges = np.linspace(start, end, 2 + int((end - start) / 0.02))
    half = 0.5 * np.diff(edges)[:, None]
    return (edges[:-1, None] + half * (1 + x)).ravel(), (half * w).ravel()


def balances(motion: IdealMotion, wrench: Wrench, v0: np.ndarray, inertia: np.ndarray) -> tuple[float, np.ndarray]:
    """What is missing in the balances of energy [J] and momentum (3,): walls do no work but in impacts."""
    starts = [phase.start for phase in motion._phases] + [motion.duration]
    nodes, weights = np.hstack([quadrature(a, b) for a, b in pairwise(starts)])
    given = np.array([wrench(t) for t in nodes])
    work = weights @ (given * motion.sample(nodes)[1]).sum(axis=1)
    momentum = weights @ (given + motion.contact_wrench(nodes))
    for impact in motion.impacts:
        work += impact.kinetic_energy_after - impact.kinetic_energy_before
        momentum += impact.impulse
    v = motion.sample([motion.duration])[1][0]
    return kinetic(inertia, v) - kinetic(inertia, v0) - work, inertia * (v - v0) - momentum


@pytest.mark.parametrize("part", sampled(range(3), 0))
@settings(
    max_examples=20,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    seed=st.integers(0, 2**32 - 1),
    vertices=st.integers(1, 7),
    walls=st.integers(1, 3),
    e=st.sampled_from([0.0, 0.0, 0.3, 0.7, 1.0]),
    square=st.booleans(),
)
def test_laws(part: int, seed: int, vertices: int, walls: int, e: float, square: bool) -> None:
    """No energy from impacts, no penetration, balanced energy and momentum, on anything."""
    rng = np.random.default_rng([part, seed])
    radius = rng.uniform(0.02, 0.08)
    angles = rng.uniform(0.0, 2 * math.pi, vertices)
    points = radius * rng.uniform(0.5, 1.0, 2) * np.column_stack([np.cos(angles), np.sin(angles)])
    mass = 10 ** rng.uniform(-1, 1)
    body = PlanarBody(mass, mass * radius**2 * 10 ** rng.uniform(-1, 1), points - points.mean(axis=0))
    inertia = np.array([mass, mass, body.inertia])
    angles = rng.uniform(0, 2 * math.pi) + (np.arange(walls) * math.pi / 2 if square else rng.uniform(0, 6.3, walls))
    normals = np.column_stack([np.cos(angles), np.sin(angles)])
    # some walls touch the body at the start
    scene = [Wall(n, (body.vertices @ n).min() - rng.choice([0.0, 0.01, 0.05])) for n in normals]
    F = mass * rng.normal(size=(3, 3)) * [[2.0], [2.0], [2.0 * radius]]
    v0 = rng.normal(size=3) * [0.3, 0.3, 3.0] * rng.integers(0, 2)

    def wrench(t: float) -> np.ndarray:
        return F @ [1.0, math.sin(5 * t), math.cos(11 * t)]

    motion = simulate(body, scene, wrench, 0.6, e, v0=v0)
    for impact in motion.impacts:
        before, after = impact.kinetic_energy_before, impact.kinetic_energy_after
        assert after <= before * (1 + 1e-13)
        assert e < 1.0 or after == pytest.approx(before, rel=1e-12)
        assert min(impact.impulses) > 0.0
    q, _ = motion.sample(np.linspace(0.0, 0.6, 2000))
    assert gaps(body, scene, q).min() > -1e-11
    # What comes to rest at REST_SPEED is not in the list of impacts: so much may be missing each time.
    energy, momentum = balances(motion, wrench, v0, inertia)
    rests = 1 + len(motion._phases)
    assert abs(energy) < 1e-9 * mass + rests * mass * 1e-12
    assert np.abs(momentum / inertia * [1, 1, radius]).max() < 1e-9 + rests * 1e-5


@given(seed=st.integers(0, 2**32 - 1), contacts=st.integers(1, 8))
@settings(max_examples=200, derandomize=True, database=None, deadline=None)
def test_non_pulling_impulses_are_optimal(seed: int, contacts: int) -> None:
    rng = np.random.default_rng(seed)
    g = rng.normal(size=(contacts, 3)) @ np.diag([1.0, 1.0, rng.integers(0, 2)])  # also of rank 2
    g[contacts // 2 :] = -g[: contacts - contacts // 2]  # and opposite
    motion = rng.normal(size=3)
    p = ideal._non_pulling(g, motion)
    after = g @ (g.T @ p + motion)
    assert p.min() >= 0.0 and after.min() > -1e-11 and np.abs(p * after).max() < 1e-10


def test_motion_along_opposite_walls_meets_no_impulse() -> None:
    row, other = np.array([2.883017, 0.70448817, 1.01050392]), np.array([-2.883017, -0.70448817, 0.89123321])
    g = np.array([other, row, -row])
    for scale in np.linspace(-1.0, 1.0, 21):
        assert np.linalg.norm(ideal._non_pulling(g, scale * np.cross(row, other))) < 1e-12


def test_elastic_impact_of_many_contacts_keeps_energy_and_separates_all() -> None:
    """A peg in a corner, thrown into it at random: rounds, until no vertex approaches."""
    rng = np.random.default_rng(20260)
    walls = [Wall((-1.0, 0.0), -HALF[0]), Wall((0.0, 1.0), -HALF[1])]
    rounds = []
    for _ in range(50):
        v0 = rng.normal(size=3) * [0.3, 0.3, 10.0]
        motion = simulate(PEG, walls, NOTHING, 1e-6, 1.0, v0=v0)
        q, v = motion.sample([0.0])
        assert kinetic(D, v[0]) == pytest.approx(kinetic(D, v0), rel=1e-12)
        later = q + 1e-6 * v
        assert gaps(PEG, walls, later).min() > -1e-11
        rounds.append(sum(i.time == 0.0 for i in motion.impacts))
    assert max(rounds) > 1


def test_numbers_that_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^body\.mass = 0\.0 kg: must be finite and > 0$"):
        PlanarBody(0.0, 1.0, CORNERS)
    with pytest.raises(ValueError, match=r"^body\.inertia = nan kg m\^2: must be finite and > 0$"):
        PlanarBody(1.0, math.nan, CORNERS)
    with pytest.raises(ValueError, match=r"^body\.vertices: shape = \(3,\): must be \(n, 2\) with n >= 1$"):
        PlanarBody(1.0, 1.0, np.zeros(3))
    with pytest.raises(ValueError, match=r"^body\.vertices\[1\] = \[0\.0, inf\] m: must be finite$"):
        PlanarBody(1.0, 1.0, [[0.0, 0.0], [0.0, math.inf]])
    with pytest.raises(ValueError, match=r"^wall\.normal: length = 1\.41421356237: must be 1$"):
        Wall((1.0, 1.0), 0.0)
    with pytest.raises(ValueError, match=r"^wall\.normal = \[nan, 1\.0\]: must be finite$"):
        Wall((math.nan, 1.0), 0.0)
    with pytest.raises(ValueError, match=r"^wall\.offset = nan m: must be finite$"):
        Wall((1.0, 0.0), math.nan)

    def run(wrench: Wrench = NOTHING, duration: float = 1.0, e: float = 0.0, **more: ArrayLike) -> IdealMotion:
        return simulate(PEG, [RIGHT, LOWER], wrench, duration, e, **more)

    with pytest.raises(ValueError, match=r"^duration = nan s: must be finite and > 0$"):
        run(duration=math.nan)
    with pytest.raises(ValueError, match=r"^restitution = 1\.1: must be from 0 to 1$"):
        run(e=1.1)
    with pytest.raises(ValueError, match=r"^restitution = nan: must be from 0 to 1$"):
        run(e=math.nan)
    with pytest.raises(ValueError, match=r"^q0: shape = \(2,\): must be \(3,\)$"):
        run(q0=(0.0, 0.0))
    with pytest.raises(ValueError, match=r"^v0 = \[0\.0, nan, 0\.0\] m/s, m/s, rad/s: must be finite$"):
        run(v0=(0.0, math.nan, 0.0))
    with pytest.raises(ValueError, match=r"^breakpoints = \[nan\] s: must be finite$"):
        run(breakpoints=[math.nan])
    with pytest.raises(ValueError, match=r"^wrench\(.* s\) = \[0\.0, nan, 0\.0\] N, N, N m: must be finite$"):
        run(constant(0, math.nan, 0))
    with pytest.raises(ValueError, match=r"^q0: depth of vertex 0 in wall 0 = 0\.005 m: must be 0$"):
        run(q0=(0.035, 0.0, 0.0))
    with pytest.raises(ValueError, match=r"^time = 1\.5 s: must be from 0 to 1\.0 s$"):
        run().sample([0.5, 1.5])


def test_endless_bouncing_ends_with_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ideal, "MAX_EVENTS", 20)
    with pytest.raises(RuntimeError, match=r"^events = 21 at t = 4\.\d+ s: must be <= MAX_EVENTS = 20$"):
        simulate(PEG, [FLOOR], constant(*DOWN), 100.0, 1.0, q0=(0.0, HALF[1] + 0.01, 0.0))


def test_it_is_independent_of_the_servo_code() -> None:
    code = "import sys, haptic_experiments.references.ideal"
    code += "; print([m for m in sys.modules if m.startswith('haptic_sim.')])"
    code += "; assert not {'pinocchio', 'coal', 'pydantic', 'rclpy'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
