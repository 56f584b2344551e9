"""Whole environments, collision detection included, against closed forms and what holds in all worlds."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from conftest import sampled
from scipy.spatial.transform import Rotation
from world_builder import IMPULSIVE, METHODS, RIGID, Body, G, Simulation, ball, box, plane, turned

from haptic_sim.dynamics.energy import IMPACT, NUMERICAL
from haptic_sim.messages import COLLIDING, FREE, RESTING
from haptic_sim.parameters import ParameterError

T = 1e-3  # [s]
DOWN = [0.0, 0.0, -G]
FIRM = {"stiffness": 1e-6, "damping": 0.0}  # penalties that do nothing, so that impulses are alone
ROUGH = {"friction": {"model": "coulomb", "static": 0.3, "kinetic": 0.3}}
SOLVERS = ("lemke", "gauss_seidel")


def slope(angle: float) -> tuple[float, float, float]:
    return (math.sin(angle), 0.0, math.cos(angle))


def block_on(angle: float, size: Any = (0.1, 0.1, 0.05), speed: float = 0.0, depth: float = 0.0) -> dict[str, Body]:
    """A block on a slope that falls towards +x, with a speed along it."""
    n = slope(angle)
    down = np.array([n[2], 0.0, -n[0]])
    block = box((0.5 * size[2] - depth) * np.array(n), size, speed * down, rotation=[0, angle, 0])
    return {"slope": plane(n), "block": block}


# sliding and sticking


@pytest.mark.parametrize("method", RIGID)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("excess", [-0.02, -1e-4, 1e-4, 0.02])
def test_a_block_slides_beyond_the_friction_angle_and_not_before(method: str, solver: str, excess: float) -> None:
    """v_k = a T k with a = g (sin - mu cos): rigid contacts have it exactly, to 1e-4 of the friction angle."""
    mu = 0.3
    angle = math.atan(mu) + excess
    sim = Simulation(block_on(angle), method, contact={**ROUGH, "solver": solver}, gravity=DOWN)
    a = G * (math.sin(angle) - mu * math.cos(angle))
    down = np.array([math.cos(angle), 0.0, -math.sin(angle)])
    start = sim.q("block")[:3]
    # Lemke's contacts yield by 1e-6 of what they stop: by 4e-9 m/s or 4e-7 m/s, as rounding decides between solutions
    close = 1e-6 if solver == "lemke" else 1e-7
    for k in range(1, 201):
        sim.step()
        moved = sim.v("block")[:3] @ down
        assert moved == pytest.approx(max(a, 0.0) * T * k, abs=close)
    assert sim.state.sliding == (4 if a > 0.0 else 0)
    assert (sim.q("block")[:3] - start) @ down == pytest.approx(max(a, 0.0) * T**2 * 200 * 201 / 2, abs=1e-7)
    assert abs((sim.q("block")[:3] - start) @ slope(angle)) < 1e-7


@pytest.mark.parametrize("method", RIGID)
def test_static_friction_holds_until_the_block_is_pushed(method: str) -> None:
    """A slope between the friction angles of sliding and of rest: what rests stays, what slides goes on."""
    friction = {"friction": {"model": "coulomb", "static": 0.4, "kinetic": 0.2}}
    angle = math.atan(0.3)
    rests = Simulation(block_on(angle), method, contact=friction, gravity=DOWN).step(100)
    assert np.abs(rests.v("block")).max() < 1e-7  # Lemke's contacts yield by 1e-6 of the velocity they stop
    slides = Simulation(block_on(angle, speed=0.1), method, contact=friction, gravity=DOWN).step(100)
    down = np.array([math.cos(angle), 0.0, -math.sin(angle)])
    # the first step has the static coefficient: a contact slides only once it has been seen to
    first = G * (math.sin(angle) - 0.4 * math.cos(angle)) * T
    expected = 0.1 + first + 99 * T * G * (math.sin(angle) - 0.2 * math.cos(angle))
    assert slides.v("block")[:3] @ down == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("method", RIGID)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("direction", [0.0, 0.7])
def test_a_block_stops_after_v_squared_over_two_mu_g(method: str, solver: str, direction: float) -> None:
    """v_k = v - mu g T k for N = floor(v / (mu g T)) steps: short of v^2 / (2 mu g) by about v T / 2."""
    v, mu = 1.0, 0.3
    along = np.array([math.cos(direction), math.sin(direction), 0.0])
    bodies = {"floor": plane(), "block": box((0, 0, 0.025), (0.2, 0.2, 0.05), v * along)}
    sim = Simulation(bodies, method, contact={**ROUGH, "solver": solver}, gravity=DOWN).step(400)
    steps = math.floor(v / (mu * G * T))
    distance = T * (steps * v - mu * G * T * steps * (steps + 1) / 2)
    assert distance == pytest.approx(v**2 / (2 * mu * G) - v * T / 2, abs=2e-6)
    np.testing.assert_allclose(sim.q("block")[:3] - [0, 0, 0.025], distance * along, rtol=0, atol=1e-6)
    assert np.abs(sim.v("block")).max() < 1e-7
    assert sim.state.contact_state == RESTING


@pytest.mark.parametrize("model", ["reset_integrator", "karnopp", "dahl", "coulomb"])
@pytest.mark.parametrize("method", ["penalty", "impulse_augmented", "frictional_impulses"])
def test_a_block_on_penalties_stops_there_too(method: str, model: str) -> None:
    """With all models of friction, to 1 %: the first step's bond and the block's pitching.

    Bonds without damping then swing, from the breakaway distance z0, with w^2 = mu g / z0.
    """
    v, mu, K, z0 = 0.5, 0.3, 4000.0, 1e-4
    friction = {"model": model, "static": mu, "kinetic": mu, "damping": 50.0, "breakaway": z0}
    bodies = {"floor": plane(), "block": box((0, 0, 0.01 - G / (4 * K)), (0.2, 0.2, 0.02), (v, 0, 0))}
    contact = {"friction": friction, "stiffness": K}
    sim = Simulation(bodies, method, contact=contact, gravity=DOWN).step(400)
    assert sim.q("block")[0] == pytest.approx(v**2 / (2 * mu * G), rel=0.01)
    swing = math.sqrt(mu * G * z0) if model in ("karnopp", "dahl") else 1e-3
    assert abs(sim.v("block")[0]) < swing


@pytest.mark.parametrize("method", RIGID)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("spin", [-100.0, -40.0, 30.0])
def test_a_ball_with_back_spin_comes_back(method: str, solver: str, spin: float) -> None:
    """The angular momentum about the point of contact is kept: it ends rolling at (5 v + 2 r w) / 7."""
    v, r = 1.0, 0.05
    bodies = {"floor": plane(), "ball": ball((0, 0, r), (v, 0, 0, 0, spin, 0), r)}
    sim = Simulation(bodies, method, contact={**ROUGH, "solver": solver}, gravity=DOWN)
    end = (5 * v + 2 * r * spin) / 7
    until = abs(v - spin * r) / (3.5 * 0.3 * G)  # slip falls by 7/2 mu g
    sim.step(int(until / T) - 2)
    assert sim.state.sliding == 1
    sim.step(10)
    assert sim.state.sliding == 0
    assert sim.v("ball")[0] == pytest.approx(end, abs=1e-8)
    assert sim.spin("ball")[1] == pytest.approx(end / r, abs=1e-6)
    assert (end < 0) == (spin == -100.0)
    sim.step(200)
    assert sim.v("ball")[0] == pytest.approx(end, abs=1e-7)  # it rolls on


@pytest.mark.parametrize("method", ["penalty", "impulse_augmented", "frictional_impulses"])
def test_a_ball_with_back_spin_comes_back_on_penalties(method: str) -> None:
    """The lever is shorter than the radius by the depth: 1 %."""
    v, r, spin, K = 1.0, 0.05, -100.0, 1e4
    friction = {"model": "reset_integrator", "static": 0.3, "kinetic": 0.3, "damping": 50.0, "breakaway": 1e-4}
    bodies = {"floor": plane(), "ball": ball((0, 0, r - G / K), (v, 0, 0, 0, spin, 0), r)}
    sim = Simulation(bodies, method, contact={"friction": friction, "stiffness": K, "damping": 60.0}, gravity=DOWN)
    sim.step(1000)
    assert sim.v("ball")[0] == pytest.approx((5 * v + 2 * r * spin) / 7, rel=0.02)


@pytest.mark.parametrize("method", RIGID)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("angle", "mu"), [(60.0, 2.5), (70.0, 3.0), (45.0, 1.0), (80.0, 5.0)])
def test_painleves_rod_does_not_blow_up(method: str, solver: str, angle: float, mu: float) -> None:
    """A rod slides on its end, leaning so that friction presses it down: forces have no solution, impulses do.

    Rigid dynamics fail where 1 + 3 cos^2 < 3 mu sin cos (in A_nn - mu A_nt), and the rod jams and tips over.
    """
    a, half, thick = math.radians(angle), 0.15, 0.002
    paradox = 1.0 + 3.0 * math.cos(a) ** 2 < 3.0 * mu * math.sin(a) * math.cos(a)
    assert paradox == (angle != 45.0)
    moment = half**2 / 3.0
    # its upper end leans away from where the lower one goes
    shapes = [{"type": "sphere", "radius": thick, "position": [0, 0, -half]}]
    height = half * math.sin(a) + thick
    rod = {
        "joint": "free",
        "position": [0, 0, height],
        "rotation": [0, -(0.5 * math.pi - a), 0],
        "velocity": [1.0, 0, 0, 0, 0, 0],
        "mass": 1.0,
        "inertia": [moment, moment, 1e-3 * moment],
        "centre_of_mass": [0, 0, 0],
        "shapes": shapes,
    }
    contact = {"friction": {"model": "coulomb", "static": mu, "kinetic": mu}, "solver": solver}
    for lean in (1.0, -1.0):
        rod["rotation"] = [0, -lean * (0.5 * math.pi - a), 0]
        sim = Simulation({"floor": plane(), "rod": rod}, method, contact=contact, gravity=DOWN)
        energy = sim.energy()
        jammed = 0.0
        for _ in range(300):
            sim.step()
            after = sim.energy()
            assert after <= energy + 1e-12
            energy = after
            jammed = max(jammed, np.abs(sim.impulses).max(initial=0.0))
            end = sim.q("rod")[:3] + Rotation.from_quat(sim.q("rod")[3:]).apply([0, 0, -half])
            assert end[2] > thick - 2e-4  # what turning by 0.1 rad a step bends
            if sim.q("rod")[2] < 0.05:  # it tips over, and only its end has a shape
                break
        assert np.isfinite(sim.state.q).all()
        assert jammed < 2.0  # a blow of the size of m v, not of m v / T
        assert sim.tool.contact.unresolved == 0


# bouncing


@pytest.mark.parametrize("method", IMPULSIVE)
@pytest.mark.parametrize("e", [0.3, 0.6, 0.9, 1.0])
def test_a_ball_rebounds_to_e_squared_of_its_height(method: str, e: float) -> None:
    """Bounds by what a step is.

    Semi-implicit Euler keeps v^2 / 2 + g z - g T v / 2 in free fall. An impact from -w to e w at a gap z1, between
    0 and w T (rigid contacts) or -w T and 0, changes the next apex h' (of z, above the floor) to
    h' - e^2 h = (1 - e^2) z1 - e (1 + e) T w / 2 + (0 to g T^2 / 8), if h has v = 0.
    """
    radius, h = 0.05, 0.3
    bodies = {"floor": plane(), "ball": ball((0, 0, radius + h), radius=radius)}
    sim = Simulation(bodies, method, contact={"restitution": e, **FIRM}, gravity=DOWN)
    heights = [h]
    rising, z = False, h
    while len(heights) < 5:
        sim.step()
        before, z = z, sim.q("ball")[2] - radius
        if rising and z <= before:
            heights.append(before)
            if before < 5e-3:
                break
        rising = z > before
        assert sim.state.tick < 3000
    for h, after in itertools.pairwise(heights):
        w = math.sqrt(2 * G * h) + G * T  # fastest it can be
        gaps = (0.0, w * T) if method in RIGID else (-w * T, 0.0)
        slack = G * T**2  # of apexes with a velocity, g T^2 / 8 each, and of w
        low = (1 - e**2) * gaps[0] - e * (1 + e) * T * w / 2 - slack
        high = (1 - e**2) * gaps[1] - e * (1 + e) * T * (w - 3 * G * T) / 2 + slack
        assert low <= after - e**2 * h <= high


@pytest.mark.parametrize("method", IMPULSIVE)
@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
def test_two_balls_exchange_momentum(method: str, e: float) -> None:
    """A central blow: v1' = (m1 v1 + m2 v2 - e m2 (v1 - v2)) / (m1 + m2); across it nothing changes."""
    m1, m2, r = 0.5, 2.0, 0.05
    across = np.array([0.0, 0.3, -0.2])
    one, two = np.array([1.0, 0, 0]) + across, np.array([-0.5, 0, 0]) + across
    bodies = {
        "one": ball((0, 0, 0), one, r, m1),
        "two": ball((2 * r + 0.0305, 0, 0), two, r, m2),
    }
    sim = Simulation(bodies, method, contact={"restitution": e, **FIRM}).step(60)
    middle = (m1 * 1.0 - m2 * 0.5) / (m1 + m2)
    expected = np.array([middle - e * m2 * 1.5 / (m1 + m2), middle + e * m1 * 1.5 / (m1 + m2)])
    # `hybrid` leaves contacts that are slower than `bounce` to the complementarity problem, which may close the gap
    found = [sim.v("one")[0], sim.v("two")[0]]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 if e else 0.011)
    np.testing.assert_allclose(m1 * found[0] + m2 * found[1], m1 - 0.5 * m2, rtol=0, atol=1e-14)
    for name in ("one", "two"):
        np.testing.assert_allclose(sim.v(name)[1:3], across[1:], rtol=0, atol=1e-14)
        np.testing.assert_array_equal(sim.v(name)[3:], np.zeros(3))


def cradle(balls: int, gap: float, radius: float = 0.05) -> dict[str, Body]:
    """Balls in a row, the first of which moves at 1 m/s towards the others from a gap of 10.5 mm."""
    bodies = {}
    for i in range(balls):
        x = i * (2 * radius + gap) - (0.0105 if i == 0 else 0.0)
        bodies[f"ball{i}"] = ball((x, 0, 0), (1.0 if i == 0 else 0.0, 0, 0), radius)
    return bodies


def speeds(sim: Simulation, balls: int) -> list[float]:
    return [sim.v(f"ball{i}")[0] for i in range(balls)]


@pytest.mark.parametrize("method", IMPULSIVE)
@pytest.mark.parametrize("balls", [3, 5])
@pytest.mark.parametrize("gap", [1e-4, 3e-3])
def test_a_cradle_with_gaps_passes_the_blow_on(method: str, balls: int, gap: float) -> None:
    """With e = 1 the last ball leaves alone, also where all the impacts fall into one step."""
    sim = Simulation(cradle(balls, gap), method, contact={"restitution": 1.0, **FIRM}).step(40)
    np.testing.assert_allclose(speeds(sim, balls), [0.0] * (balls - 1) + [1.0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("method", ["impulse_augmented", "frictional_impulses", "constraint"])
def test_a_cradle_of_touching_balls_resolved_at_once(method: str) -> None:
    """THESIS (4.36): all contacts obey Newton's law at once. Of three, the first rebounds at 1/3, the others at 2/3."""
    overlap = 0.0 if method in RIGID else 1e-6
    sim = Simulation(cradle(3, -overlap), method, contact={"restitution": 1.0, **FIRM}).step(40)
    np.testing.assert_allclose(speeds(sim, 3), [-1 / 3, 2 / 3, 2 / 3], rtol=0, atol=1e-7)


@pytest.mark.parametrize("balls", [3, 5])
def test_a_cradle_of_touching_balls_resolved_one_at_a_time(balls: int) -> None:
    """Mirtich: the last ball leaves alone, though the contacts between resting balls did not approach at first."""
    sim = Simulation(cradle(balls, 0.0), "hybrid", contact={"restitution": 1.0}).step(40)
    np.testing.assert_allclose(speeds(sim, balls), [0.0] * (balls - 1) + [1.0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("method", IMPULSIVE)
def test_each_contact_has_its_own_restitution(method: str) -> None:
    """Three balls hit a wall at once: each with the restitution of its own, the greater of ball's and wall's."""
    own = {"soft": 0.0, "middle": 0.4, "hard": 1.0}
    bodies: dict[str, Body] = {"wall": plane((-1, 0, 0), -0.0605, restitution=0.2)}
    for i, (name, e) in enumerate(own.items()):
        bodies[name] = ball((0, 0.2 * i, 0), (1.0, 0, 0), restitution=e)
    bodies["plain"] = ball((0, -0.2, 0), (1.0, 0, 0))
    sim = Simulation(bodies, method, contact={"restitution": 0.9, **FIRM}).step(20)
    for name, e in {**own, "soft": 0.2, "plain": 0.2}.items():
        assert sim.v(name)[0] == pytest.approx(-e, abs=1e-9)


# linkages


def carriage(method: str, e: float, base: float, two: float = -0.4, **contact: Any) -> Simulation:
    """Two sliders on a carriage that itself slides freely along the same line."""

    def slider(x: float, mass: float, speed: float) -> Body:
        return {
            "joint": "prismatic",
            "parent": "carriage",
            "axis": [1, 0, 0],
            "travel": x,
            "velocity": speed,
            "mass": mass,
            "shapes": [{"type": "sphere", "radius": 0.05}],
        }

    bodies = {
        "carriage": {
            "joint": "prismatic",
            "axis": [1, 0, 0],
            "velocity": 0.3,
            "mass": base,
            "inertia": [1.0, 1.0, 1.0],
        },
        "one": slider(0.0, 0.5, 0.8),
        "two": slider(0.1105, 2.0, two),
    }
    return Simulation(bodies, method, contact={"restitution": e, **FIRM, **contact}, tool="one")


@pytest.mark.parametrize("method", IMPULSIVE)
@pytest.mark.parametrize("e", [0.5, 1.0])
@pytest.mark.parametrize("base", [0.1, 10.0])
def test_a_self_collision_obeys_the_relative_velocity_and_keeps_momentum(method: str, e: float, base: float) -> None:
    """Errata THESIS 3: each body obeying the law alone, as (4.22) has it, would change the momentum of the linkage.

    The bodies are free of each other along the line, so they part as two balls do, and the carriage does not notice.
    """
    sim = carriage(method, e, base)
    v = sim.state.v.copy()
    before = np.array([v[0], v[0] + v[1], v[0] + v[2]])  # of the three bodies in the world
    masses = np.array([base, 0.5, 2.0])
    sim.step(40)
    v = sim.state.v
    after = np.array([v[0], v[0] + v[1], v[0] + v[2]])
    assert masses @ after == pytest.approx(masses @ before, abs=1e-12)
    assert after[2] - after[1] == pytest.approx(-e * (before[2] - before[1]), abs=1e-9)
    middle = masses[1:] @ before[1:] / 2.5
    np.testing.assert_allclose(after, [0.3, middle - e * 0.8 * 1.2, middle + e * 0.2 * 1.2], rtol=0, atol=1e-9)


@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("relative", "before"), [(-0.4, -0.1), (-0.1, 0.2)])
def test_bodies_of_a_self_collision_obey_the_law_alone_where_it_is_printed(
    e: float, relative: float, before: float
) -> None:
    """THESIS (4.22, 4.23): v' = -e v for either; a body that moves away is not pulled back. No momentum is kept."""
    sim = carriage("impulse_augmented", e, 1.0, relative, self_collision="printed")
    kinetic = 0.5 * (0.5 * 1.1**2 + 2.0 * before**2 + 0.3**2)
    while sim.state.contact_state != COLLIDING:
        sim.step()
    v = sim.state.v
    after = [v[0], v[0] + v[1], v[0] + v[2]]
    expected = [0.3, -e * 1.1, -e * before if before < 0.0 else before]
    np.testing.assert_allclose(after, expected, rtol=0, atol=1e-9)
    lost = kinetic - 0.5 * (0.5 * after[1] ** 2 + 2.0 * after[2] ** 2 + 0.3**2)
    assert lost >= -1e-12
    assert sim.state.contacts == 1  # halves are no contacts
    sim.step()  # the state has the energies of the beginning of a step
    assert sim.state.energy[IMPACT] == pytest.approx(lost, abs=1e-9)
    assert abs(sim.state.energy[NUMERICAL]) < 1e-9


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"impulse_augmented"}))
def test_methods_with_one_law_of_restitution_refuse_the_printed_one(method: str) -> None:
    with pytest.raises(ParameterError, match=r"self_collision = printed: supports only environment\.method = imp"):
        carriage(method, 0.5, 1.0, self_collision="printed")


# what holds in all worlds


SHAPES: tuple[dict[str, Any], ...] = (
    {"type": "sphere", "radius": 0.045},
    {"type": "box", "size": [0.04, 0.05, 0.06]},
    {"type": "capsule", "radius": 0.02, "length": 0.05},
    {"type": "cylinder", "radius": 0.03, "length": 0.05},
)


def random_bodies(rng: np.random.Generator, count: int, inwards: float = 0.0, shapes: int = 4) -> dict[str, Body]:
    """Free bodies of the first `shapes` that fly about, each with a material; `inwards`: speed to a middle."""
    bodies = {}
    cells = [np.array(c, float) for c in itertools.product((-1, 0, 1), (-1, 0, 1), (0, 1, 2))]
    for i, k in enumerate(rng.choice(len(cells), count, replace=False)):
        position = 0.12 * cells[k] + [0, 0, 0.09] + rng.uniform(-0.01, 0.01, 3)
        velocity = rng.normal(size=3) + inwards * (np.array([0, 0, 0.2]) - position) / 0.1
        kinetic = rng.uniform(0.0, 0.6)
        bodies[f"body{i}"] = {
            "joint": "free",
            "position": position.tolist(),
            "rotation": Rotation.random(rng=rng).as_euler("xyz").tolist(),
            "velocity": [*velocity.tolist(), *(8.0 * rng.normal(size=3)).tolist()],
            "mass": float(rng.uniform(0.2, 2.0)),
            "shapes": [SHAPES[int(rng.integers(shapes))]],
            "restitution": float(rng.choice([0.0, rng.uniform(), 1.0])),
            "friction_static": kinetic + float(rng.uniform(0.0, 0.2)),
            "friction_kinetic": float(kinetic),
        }
    return bodies


def room(half: float = 0.2) -> dict[str, Body]:
    """A floor and four walls."""
    sides = [(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0)]
    return {"floor": plane(), **{f"wall{i}": plane(side, -half) for i, side in enumerate(sides)}}


@pytest.mark.parametrize("method", METHODS)
def test_collisions_of_free_bodies_conserve_momentum(method: str) -> None:
    """Linear and angular, to rounding, in flight, in impacts and under penalties and friction."""
    touched = 0
    for seed in range(5):
        rng = np.random.default_rng(20260 + seed)
        sim = Simulation(random_bodies(rng, 6, inwards=0.8), method, contact={"friction": {"model": "coulomb"}})
        linear, angular = sim.momentum()
        touched += sim.step(150).touched
        after = sim.momentum()
        np.testing.assert_allclose(after[0], linear, rtol=0, atol=1e-13)
        np.testing.assert_allclose(after[1], angular, rtol=0, atol=1e-13)
    assert touched > 20


@pytest.mark.parametrize("method", RIGID)
@pytest.mark.parametrize("gravity", [0.0, G])
@pytest.mark.parametrize("solver", ["automatic", "gauss_seidel"])
def test_rigid_contacts_never_add_energy_over_a_step(method: str, gravity: float, solver: str) -> None:
    """Kinetic and potential energy after a step are at most those before: free bodies, friction, impacts.

    Linkages are left out: semi-implicit Euler itself does not keep the energy of Coriolis terms.
    """
    impacts = 0
    for seed in range(5):
        rng = np.random.default_rng(20270 + seed)
        contact = {"friction": {"model": "coulomb"}, "solver": solver}
        bodies = {**room(), **random_bodies(rng, 6)}
        sim = Simulation(bodies, method, contact=contact, gravity=[0, 0, -gravity])
        energy = sim.energy()
        for _ in range(250):
            sim.step()
            after = sim.energy()
            assert after <= energy + 1e-12 * (1.0 + abs(energy))
            energy = after
            impacts += sim.state.contact_state == COLLIDING
        assert sim.tool.contact.unresolved <= 5  # of 250
        assert np.isfinite(sim.state.q).all()
        heights = [sim.q(f"body{i}")[2] for i in range(6)]
        assert min(heights) > 0.015  # nothing went through the floor
    assert impacts > 50


@pytest.mark.parametrize("method", ["impulse_augmented", "frictional_impulses"])
def test_impulses_add_no_energy_in_any_world(method: str) -> None:
    """Also with linkages, which have no other forces here: a colliding step of impulses alone. No gravity."""
    impacts = 0
    for seed in range(5):
        rng = np.random.default_rng(20280 + seed)
        bodies = {**room(), **random_bodies(rng, 6)}
        sim = Simulation(bodies, method, contact={**FIRM, "friction": {"model": "coulomb"}})
        energy = sim.kinetic_energy()
        for _ in range(250):
            sim.step()
            after = sim.kinetic_energy()
            if sim.state.contact_state == COLLIDING:
                impacts += 1
                assert after <= energy + 1e-9  # FIRM: penalties of 1e-6 N/m of other groups
            energy = after
    assert impacts > 50


GENERIC = pin.SE3(pin.exp3(np.array([0.7, -0.4, 1.1])), np.array([0.3, -1.2, 0.5]))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("method", sampled(METHODS, "impulse_augmented"))
def test_the_world_may_be_written_in_any_axes(method: str, solver: str) -> None:
    """Everything turned and moved, gravity too: the same trajectories, turned and moved.

    Also with facets, which follow the sliding. Without cylinders, of which coal's normals are right to 1e-6 only.
    Impacts make small differences larger. Seeds without an instant at which rounding decides which of two facets touch.
    """
    for seed in (20290, 20294):
        rng = np.random.default_rng(seed)
        bodies = {**room(), **random_bodies(rng, 6, inwards=1.5, shapes=3)}
        contact = {"friction": {"model": "coulomb"}, "solver": solver, "tolerance": 1e-12}
        here = Simulation(bodies, method, contact=contact, gravity=DOWN)
        gravity = (GENERIC.rotation @ DOWN).tolist()
        there = Simulation(turned(bodies, GENERIC), method, contact=contact, gravity=gravity)
        for _ in range(12):
            here.step(10)
            there.step(10)
            for i in range(6):
                a, b = here.q(f"body{i}"), there.q(f"body{i}")
                np.testing.assert_allclose(b[:3], GENERIC.act(a[:3]), rtol=0, atol=1e-7)
                A, B = Rotation.from_quat(a[3:]).as_matrix(), Rotation.from_quat(b[3:]).as_matrix()
                np.testing.assert_allclose(B, GENERIC.rotation @ A, rtol=0, atol=1e-6)
        assert here.touched == there.touched > 2


@pytest.mark.parametrize("method", METHODS)
def test_the_order_of_bodies_does_not_matter(method: str) -> None:
    """Without friction: its lever ends at the second body's point, so that it differs by the depth of the overlap."""
    for seed in range(2):
        rng = np.random.default_rng(20300 + seed)
        bodies = {**room(), **random_bodies(rng, 6, inwards=1.5, shapes=3)}
        contact = {"tolerance": 1e-12}
        one = Simulation(bodies, method, contact=contact, gravity=DOWN, tool="body0")
        shuffled = {name: bodies[name] for name in rng.permutation(list(bodies))}
        other = Simulation(shuffled, method, contact=contact, gravity=DOWN, tool="body0")
        for _ in range(12):
            one.step(10)
            other.step(10)
            for i in range(6):
                np.testing.assert_allclose(other.q(f"body{i}"), one.q(f"body{i}"), rtol=0, atol=1e-6)
        assert one.touched == other.touched > 2


def test_the_order_of_bodies_changes_friction_by_the_separation_at_an_impact() -> None:
    """The lever of friction ends at the second body's point: spins differ by about the separation over the radius.

    The separation is at most T v, so that the mean difference over gaps vanishes with the step. Until the bodies meet,
    all is the same bit by bit.
    """
    contact = {"friction": {"model": "coulomb", "static": 0.3, "kinetic": 0.3}}
    means = []
    for rate in (1000.0, 8000.0):
        differences = []
        for gap in np.linspace(0.0101, 0.0109, 8):
            bodies = {
                "one": ball((0, 0, 0), (0.3, 0.1, 0.5, 5, -3, 1), radius=0.05, mass=0.4),
                "two": ball((0.03, 0.0, 0.0953 + gap), (0, 0, -0.5, 0, 2, -4), radius=0.05, mass=1.0),
                "hand": ball((5.0, 0.0, 0.0)),
            }
            orders = [bodies, dict(reversed(bodies.items()))]
            here, there = (Simulation(b, "frictional_impulses", rate, contact, tool="hand") for b in orders)
            while not here.tool.contact.contacts:
                before = here.spin("one")
                for name in bodies:
                    np.testing.assert_array_equal(there.q(name), here.q(name))
                here.step()
                there.step()
            assert there.tool.contact.contacts == 1
            change = np.linalg.norm(here.spin("one") - before)
            assert change > 1.0
            differences.append(np.linalg.norm(there.spin("one") - here.spin("one")) / change)
        assert max(differences) < 2.5 / rate / 0.05
        means.append(np.mean(differences))
    assert 0.0 < means[1] < 0.25 * means[0]


@pytest.mark.parametrize("method", METHODS)
def test_groups_far_apart_do_not_feel_each_other(method: str) -> None:
    """One falls and strikes, the other rests and slides, as they do alone; to the compliance of Lemke's contacts."""
    contact = {"friction": {"model": "coulomb"}, "restitution": 0.5, "solver": "lemke"}
    depth = 0.0 if method in RIGID else G / (4 * 4000.0)
    strikes = {"ball": ball((0, 0, 0.08), (0.2, 0, -1.0, 0, 30.0, 0))}
    rests = {"block": box((1.0, 0, 0.025 - depth), (0.1, 0.1, 0.05), (0.3, 0.1, 0))}
    together = Simulation({"floor": plane(), **strikes, **rests}, method, contact=contact, gravity=DOWN)
    alone = [Simulation({"floor": plane(), **b}, method, contact=contact, gravity=DOWN) for b in (strikes, rests)]
    states = set()
    for _ in range(100):
        together.step()
        for sim, name in zip(alone, ("ball", "block"), strict=True):
            sim.step()
            np.testing.assert_allclose(together.q(name), sim.q(name), rtol=0, atol=1e-8 if method in RIGID else 1e-14)
        states.add((together.state.contact_state, alone[0].state.contact_state, alone[1].state.contact_state))
    if method != "penalty":
        assert (COLLIDING, COLLIDING, RESTING) in states
    assert (RESTING, FREE, RESTING) in states


@pytest.mark.parametrize("method", METHODS)
def test_a_long_run_settles_and_compiles_nothing_after_its_first_steps(method: str) -> None:
    """Kernels are compiled for one set of types: those of the environment."""
    from haptic_sim.contact import compliant, impacts, response, rigid, spread
    from haptic_sim.contact.solvers import gauss_seidel
    from haptic_sim.dynamics import scaled

    kernels = [
        value
        for module in (compliant, gauss_seidel, impacts, response, rigid, scaled, spread)
        for value in vars(module).values()
        if hasattr(value, "signatures")
    ]
    rng = np.random.default_rng(20310)
    bodies = {**room(), **random_bodies(rng, 4)}
    for body in bodies.values():
        body.pop("restitution", None)
    sim = Simulation(bodies, method, contact=ROUGH, gravity=DOWN).step(20)
    before = [len(kernel.signatures) for kernel in kernels]
    sim.step(1200)
    assert [len(kernel.signatures) for kernel in kernels] == before
    assert sim.kinetic_energy() < 0.1


@pytest.mark.parametrize("method", METHODS)
def test_a_world_in_which_nothing_can_touch(method: str) -> None:
    sim = Simulation({"ball": ball((0, 0, 0), (0.1, 0, 0))}, method, gravity=DOWN).step(10)
    assert (sim.state.contact_state, sim.state.contacts) == (FREE, 0)
    np.testing.assert_allclose(sim.v("ball")[:3], [0.1, 0, -10 * T * G], rtol=1e-14)
