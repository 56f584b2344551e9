"""The energy balance of whole worlds, step by step, against energies and works computed beside it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from conftest import sampled
from test_worlds_in_motion import random_bodies, room
from world_builder import DEFAULT, METHODS, RIGID, G, Simulation, ball, box, plane, random_drop

from haptic_sim.dynamics.energy import (
    DAMPING,
    ELASTIC,
    FRICTION,
    HELD,
    IMPACT,
    INJECTED,
    KINETIC,
    NUMERICAL,
    POTENTIAL,
    SUPPLIED,
    TERMS,
    EnergyBalance,
)
from haptic_sim.messages import COLLIDING

PENALTIES = sorted(set(METHODS) - set(RIGID))
T = 1e-3  # [s]
DOWN = [0.0, 0.0, -G]


def test_names_are_in_the_order_of_the_values() -> None:
    names = dict(zip(TERMS, range(8), strict=True))
    assert names["kinetic"] == KINETIC
    assert names["numerical"] == NUMERICAL
    assert [TERMS[i] for i in (POTENTIAL, ELASTIC, INJECTED, DAMPING, FRICTION, IMPACT)] == [
        "potential",
        "elastic",
        "injected",
        "damping",
        "friction",
        "impact",
    ]


def test_the_balance_closes_by_what_discrete_time_adds() -> None:
    balance = EnergyBalance()
    balance.open(3.0, -1.0, 0.5)
    assert balance.values[NUMERICAL] == 0.0
    balance.values[[INJECTED, DAMPING, FRICTION, IMPACT]] = 0.4, 0.1, 0.2, 0.3
    balance.open(2.0, 0.0, 0.25)
    np.testing.assert_allclose(balance.values, [2.0, 0.0, 0.25, 0.4, 0.1, 0.2, 0.3, 2.25 - 2.5 - 0.4 + 0.6], rtol=1e-14)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("friction", ["none", "coulomb", "reset_integrator"])
def test_every_step_is_booked(method: str, friction: str) -> None:
    """Kinetic and potential energy are those of q and v; without gravity the works of contacts and hand explain them.

    What a body gains in a step under any forces is their work at the mean velocity, exactly. So with rigid contacts
    nothing is left to discrete time but what they add themselves: they are passive with the hand's work at the velocity
    after the step, u', so that in a step from u they add at most du . (u' - u) / 2 to its work du . (u + u') / 2.
    With penalties it is just what their springs store otherwise.
    """
    for seed in range(3):
        rng = np.random.default_rng(20260 + seed)
        contact = {"friction": {"model": friction, "damping": 20.0 if friction == "reset_integrator" else 0.0}}
        sim = Simulation({**room(), **random_bodies(rng, 5)}, method, contact=contact, tool="body0")
        numerical = most = 0.0
        for k in range(250):
            kinetic, potential = sim.kinetic_energy(), sim.potential_energy()
            wrench = np.array([3.0, 3.0, 3.0, 3e-3, 3e-3, 3e-3]) * np.sin(np.arange(6) + 0.01 * k)
            twist = sim.state.twist.copy()
            sim.step(wrench=wrench)
            energy = sim.state.energy
            assert energy[KINETIC] == pytest.approx(kinetic, rel=1e-10)
            assert energy[POTENTIAL] == pytest.approx(potential, abs=1e-12)
            if method in RIGID:
                assert energy[ELASTIC] == energy[DAMPING] == 0.0
                assert -1e-12 < energy[NUMERICAL] - numerical < max(0.0, most) + 1e-12
                numerical, most = energy[NUMERICAL], 0.5 * T * wrench @ (sim.state.twist - twist)
            elif not sim.touched:
                assert abs(energy[NUMERICAL]) < 1e-11
            if friction == "none":
                assert energy[FRICTION] == 0.0
        assert sim.touched > 5
        assert sim.state.energy[INJECTED] != 0.0


@pytest.mark.parametrize("method", RIGID)
def test_with_gravity_discrete_time_takes_what_the_integrator_says(method: str) -> None:
    """Gravity works at the mean velocity of a step, but its potential falls by the new one.

    So m g . (v - v') T / 2 is numerical in each step, whatever the contacts do: 1/2 m g^2 T^2 less in free fall,
    nothing at rest.
    """
    rng = np.random.default_rng(20270)
    sim = Simulation(
        {**room(), **random_bodies(rng, 5)}, method, contact={"friction": {"model": "coulomb"}}, gravity=DOWN
    )
    masses = [float(sim.model.inertias[sim.joint(f"body{i}")].mass) for i in range(5)]

    def lift() -> float:
        return sum(m * sim.v(f"body{i}")[2] for i, m in enumerate(masses))

    numerical, before = 0.0, lift()
    for _ in range(300):
        sim.step()  # the balance of the state before it
        assert sim.state.energy[NUMERICAL] == pytest.approx(numerical, abs=1e-9)
        after = lift()
        numerical += -G * (before - after) * T / 2
        before = after
    assert sim.touched > 50


@pytest.mark.parametrize("method", RIGID)
def test_with_passive_contacts_the_numerical_energy_is_what_held_wrenches_and_gravity_are_booked_less(
    method: str,
) -> None:
    """At most their sums of T F . (v' - v) / 2 and of -T W . (v' - v) / 2, under a hand that jerks at random."""
    rng = np.random.default_rng(20290)
    sim = Simulation(
        {**room(), **random_bodies(rng, 5)},
        method,
        contact={"friction": {"model": "coulomb"}},
        gravity=DOWN,
        tool="body0",
    )
    masses = [float(sim.model.inertias[sim.joint(f"body{i}")].mass) for i in range(5)]

    def power() -> float:
        return -G * sum(m * sim.v(f"body{i}")[2] for i, m in enumerate(masses))

    start, balance, held = power(), sim.tool.energy, 0.0
    for _ in range(300):
        wrench = rng.normal(size=6) * [5.0, 5.0, 5.0, 0.1, 0.1, 0.1]
        twist, before = sim.state.twist.copy(), power()
        sim.step(wrench=wrench)
        assert balance.values[NUMERICAL] <= held + T * (start - before) / 2 + 1e-10
        held += T * wrench @ (sim.state.twist - twist) / 2
        assert balance.watch[HELD] == pytest.approx(held, rel=1e-9, abs=1e-12)
        assert not balance.exceeded
    assert sim.touched > 50
    assert held > 1e-4


@pytest.mark.parametrize(
    ("method", "seed"),
    sampled([(m, s) for m in PENALTIES for s in range(12)], ("penalty", 0), ("frictional_impulses", 5)),
)
def test_numerical_energy_of_penalties_is_half_a_step_of_stored_power_and_what_overlaps_are_given(
    method: str, seed: int
) -> None:
    """T/2 (V'(T) - V'(0)) of the energy V of gravity, springs and bonds, and the energy spent on overlaps.

    Where springs are not too stiff for the rate. A step from x, v to x' = x + T v' with a spring k and any other forces
    has the numerical energy k x'^2 / 2 - k x^2 / 2 - T k x (v + v') / 2 = T/2 (k x' v' - k x v), which is summed up in
    closed form; weight and bonds are the same. The rest is of contacts and bonds that begin and end, and vanishes with
    the step.
    """
    bodies = random_drop(np.random.default_rng([20830, seed]), 1, (1.0, 10.0))
    rests = []
    for rate in (1000.0, 8000.0):
        sim = Simulation(bodies, method, rate, {**DEFAULT, "stiffness": 4000.0, "damping": 30.0}, gravity=DOWN)
        stored = []
        for _ in range(int(0.8 * rate)):
            returned = sim.tool.contact._method.springs.returned[0]
            sim.step()
            stored.append(sim.state.energy[[POTENTIAL, ELASTIC]].sum())
        energy = sim.state.energy
        released = energy[KINETIC] + energy[[DAMPING, FRICTION, IMPACT]].sum()
        power = np.gradient(stored) / 2  # T/2 V'
        rests.append(abs(energy[NUMERICAL] - (power[-1] - power[0]) - returned) / released)
        assert sim.touched > 0.1 * rate
        assert 0.0 <= returned <= 0.005 * released
    assert rests[0] < 6e-3
    assert rests[1] < 1.2e-3


def test_friction_of_a_collision_is_booked_as_dissipated() -> None:
    """A corner that strikes with friction where a bond begins, as the springs of other corners have energy for it.

    In a step with a collision the numerical energy changes by T/2 m g (v' - v) and by less than the elastic energy.
    """
    bodies = random_drop(np.random.default_rng([20830, 4]), 1, (1.0, 10.0))
    contact = {**DEFAULT, "stiffness": 4000.0, "damping": 30.0}
    sim = Simulation(bodies, "frictional_impulses", 16000.0, contact, gravity=DOWN)
    mass, collisions, bonded, speed = float(sim.model.inertias[1].mass), 0, False, 0.0
    for _ in range(3800):
        before, v, collided = sim.state.energy.copy(), sim.v("body0")[2], sim.state.contact_state == COLLIDING
        sim.step()  # the balance of the state before it
        if collided:
            collisions += 1
            change = sim.state.energy[NUMERICAL] - before[NUMERICAL] - 0.5 * sim.period * mass * G * (v - speed)
            assert abs(change) < before[ELASTIC] + sim.state.energy[ELASTIC] + 1e-6
        speed = v
        bonded = bonded or (sim.state.contact_state == COLLIDING and bool(np.any(sim.tool.contact.impulses.bond[:2])))
    assert collisions >= 3
    assert bonded


@pytest.mark.parametrize("rate", sampled([250.0, 500.0, 1000.0], 500.0))
@pytest.mark.parametrize("e", [0.0, 0.5, math.sqrt(0.5), 0.9])
def test_bodies_as_slow_as_gravity_makes_them_in_a_few_steps_are_not_unstable(e: float, rate: float) -> None:
    """Their numerical energy, 1/2 m g T v, is more than half of what is supplied, 1/2 m v^2."""
    worst = 0.0
    for steps in np.linspace(0.25, 4.0, 16):
        bodies = {"floor": plane(), "ball": ball((0, 0, 0.05), (0, 0, -steps * G / rate), mass=1.0)}
        sim = Simulation(bodies, "constraint", rate, contact={"restitution": e}, gravity=DOWN)
        for _ in range(20):
            sim.step()
            assert not sim.tool.energy.exceeded
            worst = max(worst, sim.state.energy[NUMERICAL] - 0.5 * max(sim.tool.energy.watch[SUPPLIED], 0.0))
    assert worst < 0.73 * (G / rate) ** 2 + 1e-9
    assert worst > 0.2 * (G / rate) ** 2, "or nothing is to be allowed"


@pytest.mark.parametrize("rate", [500.0, 1000.0])
def test_a_box_that_is_shaken_on_a_floor_is_not_unstable(rate: float) -> None:
    """What a wrench does in a step friction undoes in the next, against another wrench that is held over it."""
    bodies = {"floor": plane(), "box": box((0, 0, 0.05), (0.1,) * 3, mass=1.0)}
    contact = {"friction": {"model": "coulomb", "static": 0.5, "kinetic": 0.4}}
    sim = Simulation(bodies, "constraint", rate, contact, gravity=DOWN)
    for _ in range(500):
        for wrench in ((3.0, 0, 5.0, 0, 0, 0), (-4.0, 0, -3.0, 0, 0, 0)):
            sim.step(wrench=wrench)
            assert not sim.tool.energy.exceeded
    sim.step()
    assert sim.state.energy[NUMERICAL] > 0.5 * sim.tool.energy.watch[SUPPLIED] + 2e-4, "or nothing was to be allowed"


@pytest.mark.parametrize("method", METHODS)
def test_the_hands_work_is_injected(method: str) -> None:
    """Force times way at the hand, against a wall at first and then along it."""
    sim = Simulation({"wall": plane((-1, 0, 0), -0.06), "ball": ball((0, 0, 0), (0.5, 0, 0))}, method)
    force = np.array([2.0, 1.0, -0.5])
    work = 0.0
    for _ in range(300):
        assert sim.tool.energy.values[INJECTED] == pytest.approx(work, abs=1e-12)
        before = sim.v("ball")[:3]
        sim.step(wrench=[*force, 0, 0, 0])
        work += T * force @ (before + sim.v("ball")[:3]) / 2
    assert work > 0.05


@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("method", ["impulse_augmented", "frictional_impulses", "constraint", "hybrid"])
def test_impacts_take_one_minus_e_squared(method: str, e: float) -> None:
    """Of the energy of the approach: 1/2 m v^2 (1 - e^2), and nothing else takes or gives anything."""
    contact = {"restitution": e, "stiffness": 1e-6, "damping": 0.0}
    bodies = {"wall": plane((-1, 0, 0), -0.0605), "ball": ball((0, 0, 0), (0.8, 0, 0), mass=1.5)}
    sim = Simulation(bodies, method, contact=contact).step(30)
    energy = sim.state.energy
    assert energy[IMPACT] == pytest.approx(0.5 * 1.5 * 0.64 * (1 - e**2), abs=1e-9)
    np.testing.assert_allclose(energy[[INJECTED, DAMPING, FRICTION, NUMERICAL]], np.zeros(4), rtol=0, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_friction_takes_the_energy_of_a_sliding_block(method: str) -> None:
    """All of 1/2 m v^2 once it stands, whoever stops it; with penalties what bonds still store is elastic."""
    v, K = 0.5, 4000.0
    depth = 0.0 if method in RIGID else G / (4 * K)
    friction = {"model": "reset_integrator", "static": 0.3, "kinetic": 0.3, "damping": 50.0, "breakaway": 1e-4}
    bodies = {"floor": plane(), "block": box((0, 0, 0.01 - depth), (0.2, 0.2, 0.02), (v, 0, 0))}
    sim = Simulation(bodies, method, contact={"friction": friction, "stiffness": K}, gravity=DOWN).step(500)
    assert sim.kinetic_energy() < 1e-6
    start = 0.5 * v**2
    # at rigid contacts all is booked as the impulse's: friction is of the tangents
    assert sim.state.energy[FRICTION] == pytest.approx(start, rel=0.01)
    assert abs(sim.state.energy[NUMERICAL]) < 0.01 * start


@pytest.mark.parametrize("K", [2e3, 2e4, 2e5])
def test_an_undamped_penalty_wall_returns_what_sampling_predicts(K: float) -> None:
    """The force of a step's beginning moves the mass with the new velocity.

    While it lasts, that keeps H = v^2 / 2 + w^2 z^2 / 2 - w^2 T z v / 2 with w^2 = K / m; free, v. A ball that enters
    a w T v deep, 0 < a <= 1, and leaves b T v' above, 0 <= b < 1, so returns with
        v'^2 / v^2 = (1 - (w T)^2 a (1 - a)) / (1 - (w T)^2 b (1 - b)),
    between 1 - (w T)^2 / 4 and its inverse: sampling adds or takes, depending on where in a step the wall is met. (A
    mass that is moved exactly, as a device is, under a force held for a step always gains: exp(pi zeta) each bounce.)
    """
    m, r, v = 1.0, 0.05, 0.5
    gained = []
    for start in np.linspace(0.01, 0.01 + 0.95 * v * T, 7):
        bodies = {"wall": plane((-1, 0, 0), -(r + start)), "ball": ball((0, 0, 0), (v, 0, 0), r, m)}
        sim = Simulation(bodies, "penalty", contact={"stiffness": K, "damping": 0.0})
        z = start
        while z >= 0.0:
            sim.step()
            z = start - sim.q("ball")[0]
        a = -z / (T * v)
        while z < 0.0:
            sim.step()
            z = start - sim.q("ball")[0]
        after = -sim.v("ball")[0]
        b = z / (T * after)
        square = K / m * T**2
        expected = (1 - square * a * (1 - a)) / (1 - square * b * (1 - b))
        assert (after / v) ** 2 == pytest.approx(expected, rel=1e-9)
        sim.step()
        gain = 0.5 * m * v**2 * (expected - 1)
        assert sim.state.energy[NUMERICAL] == pytest.approx(gain, abs=1e-9)
        assert sim.state.energy[ELASTIC] == 0.0
        gained.append(expected - 1)
    bound = 1 / (1 - K / m * T**2 / 4) - 1
    assert max(np.abs(gained)) <= bound * (1 + 1e-9)
    assert max(gained) > 0.0 > min(gained)


def test_the_device_that_is_moved_exactly_gains_as_the_rule_says() -> None:
    """House rule for a sampled wall, by an exact mass under held forces of the penalty kernel's law.

    x' = x + T v + T^2 f / (2 m): a force half a period late, exp(pi zeta / sqrt(1 - zeta^2)) with zeta = K T / 2 over
    2 sqrt(K m). The environment's own step of the same wall, semi-implicit Euler, does not do that.
    """
    for T_, K, m in ((1e-3, 1000.0, 0.1), (5e-4, 1000.0, 0.1)):
        zeta = K * T_ / 2 / (2 * math.sqrt(K * m))
        x, v = -1e-9, -1.0
        while x < 0.0 or v < 0.0:
            f = max(0.0, -K * x)
            x, v = x + T_ * v + T_**2 * f / (2 * m), v + T_ * f / m
        assert v == pytest.approx(math.exp(math.pi * zeta / math.sqrt(1 - zeta**2)), rel=5e-3)
        r = 0.05
        bodies = {"wall": plane((-1, 0, 0), -(r + 0.3 * T_)), "ball": ball((0, 0, 0), (1.0, 0, 0), r, m)}
        sim = Simulation(bodies, "penalty", 1 / T_, contact={"stiffness": K, "damping": 0.0}).step(200)
        assert -sim.v("ball")[0] == pytest.approx(1.0, abs=K / m * T_**2 / 8)


@pytest.mark.parametrize("method", METHODS)
def test_contacts_only_take(method: str) -> None:
    """Dampers, friction and impacts, each over each step."""
    for model in ("coulomb", "reset_integrator"):
        rng = np.random.default_rng(20280)
        contact: dict[str, Any] = {"friction": {"model": model, "damping": 20.0}}
        sim = Simulation({**room(), **random_bodies(rng, 5)}, method, contact=contact)
        taken = np.zeros(3)
        for _ in range(400):
            now = sim.step().state.energy[[DAMPING, FRICTION, IMPACT]]
            assert np.all(now >= taken)
            taken = now
        assert taken.sum() > 0.1
        assert sim.state.energy[FRICTION] > 0.0
