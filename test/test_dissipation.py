"""Energy dissipated by damping, friction and impacts never falls; a step adds numerical energy only; balances close."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import sampled
from test_worlds_in_motion import random_bodies, room
from world_builder import METHODS, RIGID, G, Simulation, box, plane

from haptic_sim.dynamics.energy import (
    DAMPING,
    ELASTIC,
    FRICTION,
    IMPACT,
    INJECTED,
    KINETIC,
    NUMERICAL,
    POTENTIAL,
    UnstableError,
)

TAKEN = [DAMPING, FRICTION, IMPACT]
FRICTIONS: tuple[dict[str, Any], ...] = (
    {"model": "none"},
    {"model": "coulomb", "static": 0.5, "kinetic": 0.4},
    {"model": "reset_integrator", "damping": 20.0, "static": 0.5, "kinetic": 0.3},
    {"model": "karnopp"},
    {"model": "dahl"},
)


def random_chain(rng: np.random.Generator) -> dict[str, Any]:
    """Links of very different masses over a floor, whose joints have limits, damping, friction and restitution."""
    bodies: dict[str, Any] = {"floor": plane(offset=-0.3)}
    count = int(rng.integers(1, 5))
    for i in range(count):
        mass = 10.0 ** rng.uniform(-2, 1)
        hinge = bool(rng.random() < 0.7)
        bodies[f"link{i}"] = {
            "joint": "revolute" if hinge else "prismatic",
            "parent": f"link{i - 1}" if i else "world",
            "position": [*rng.uniform(-0.2, 0.2, 2).tolist(), float(rng.uniform(-0.03, 0.03))],
            "axis": rng.normal(size=3).tolist(),
            "mass": mass,
            "inertia": [mass * 0.01] * 3,
            "centre_of_mass": rng.uniform(-0.1, 0.1, 3).tolist(),
            "velocity": float(rng.normal()),
            "range": [-0.02, 0.03] if rng.random() < 0.8 else None,
            "limit_restitution": float(rng.choice([0.0, rng.uniform()])),
            "damping": float(rng.choice([0.0, 10.0 ** rng.uniform(-3, 2)])),
            "friction": float(rng.choice([0.0, 10.0 ** rng.uniform(-3, 1)])),
            "shapes": [{"type": "sphere", "radius": 0.1}] if i == count - 1 else [],
        }
    return {name: {key: value for key, value in body.items() if value is not None} for name, body in bodies.items()}


def watch(sim: Simulation, steps: int, push: float, rng: np.random.Generator) -> np.ndarray:
    """Energies as of the beginning of each step, under a wrench at the hand that jumps now and then.

    The balance is checked against energies of q and v, and nothing that was dissipated comes back.
    """
    rows = []
    wrench = np.zeros(6)
    for k in range(steps):
        if k % 20 == 0:
            wrench = push * rng.normal(size=6) * [1, 1, 1, 0.05, 0.05, 0.05]
        kinetic, potential = sim.kinetic_energy(), sim.potential_energy()
        try:
            e = np.array(sim.step(wrench=wrench).state.energy)
        except UnstableError:  # of a random world whose rate is too low: its balance is right all the same
            assert k > 20
            break
        assert e[KINETIC] == pytest.approx(kinetic, rel=1e-9, abs=1e-15)
        assert e[POTENTIAL] == pytest.approx(potential, rel=1e-9, abs=1e-12)
        rows.append(e)
    table = np.array(rows)
    assert np.isfinite(table).all()
    assert np.diff(table[:, TAKEN], axis=0).min() >= 0.0
    there = table[:, : ELASTIC + 1].sum(axis=1)
    closes = there - there[0] - table[:, INJECTED] + table[:, TAKEN].sum(axis=1) - table[:, NUMERICAL]
    assert np.abs(closes).max() <= 1e-12 * np.abs(table).max()
    return table


@pytest.mark.long
@pytest.mark.parametrize("method", sampled(METHODS, "penalty", "impulse_augmented"))
def test_dissipation_never_falls_in_linkages_at_their_limits(method: str) -> None:
    dissipated = np.zeros(3)
    for seed in range(8):
        rng = np.random.default_rng(20290 + seed)
        contact = {"restitution": float(rng.uniform()), "friction": FRICTIONS[seed % 5]}
        gravity = [0, 0, -G] if seed % 2 else [0, 0, 0]
        sim = Simulation(random_chain(rng), method, 10.0 ** rng.uniform(2.5, 3.5), contact, gravity=gravity)
        dissipated += watch(sim, 250, 30.0, rng)[-1, TAKEN]
    assert np.all(dissipated > 1e-3)


@pytest.mark.long
@pytest.mark.parametrize("method", sampled(METHODS, "penalty", "impulse_augmented"))
def test_dissipation_never_falls_among_free_bodies(method: str) -> None:
    taken = np.zeros(3)
    for seed in range(6):
        rng = np.random.default_rng(20310 + seed)
        bodies = {**room(), **random_bodies(rng, 4)}
        for body in bodies.values():
            if body["joint"] == "free":
                body["mass"] = 10.0 ** rng.uniform(-1, 1.5)
        contact = {"restitution": float(rng.uniform()), "friction": FRICTIONS[seed % 5]}
        sim = Simulation(bodies, method, 10.0 ** rng.uniform(2.5, 3.5), contact, tool="body0")
        taken += watch(sim, 300, 5.0, rng)[-1, TAKEN]
    assert taken[[0, 1]].sum() > 1e-3 and (taken[2] > 1e-3 or method == "penalty")


@pytest.mark.parametrize("method", RIGID + ("frictional_impulses",))
def test_impacts_alone_leave_nothing_to_discrete_time(method: str) -> None:
    """Among impacts without other forces the shares of contacts differ in sign, their sum dissipates exactly."""
    for seed in range(5):
        rng = np.random.default_rng(20330 + seed)
        contact = {"restitution": 0.5, "stiffness": 1e-6, "damping": 0.0, "friction": {"model": "coulomb"}}
        sim = Simulation({**room(), **random_bodies(rng, 5)}, method, contact=contact)
        table = watch(sim, 300, 0.0, rng)
        assert sim.touched > 3
        assert np.abs(table[:, NUMERICAL]).max() < 1e-9
        assert table[-1, TAKEN].sum() == pytest.approx(table[0, KINETIC] - table[-1, KINETIC], rel=1e-6)


@pytest.mark.parametrize("method", ["penalty", "impulse_augmented", "frictional_impulses"])
def test_a_bond_that_only_stretches_dissipates_nothing(method: str) -> None:
    """A block that is shaken below breakaway: what sampling does to its bonds is numerical, and does not add up."""
    K, mass = 4000.0, 1.0
    friction = {"model": "reset_integrator", "static": 0.8, "kinetic": 0.8, "breakaway": 1e-3}
    depth = mass * G / (4 * K)
    bodies = {"floor": plane(), "block": box((0, 0, 0.001 - depth), (0.2, 0.2, 0.002), (0, 0, 0), mass)}
    sim = Simulation(bodies, method, 1000.0, {"stiffness": K, "friction": friction}, gravity=[0, 0, -G])
    sim.step(2000)
    settled = np.array(sim.state.energy)
    largest = 0.0
    for k in range(4000):
        sim.step(wrench=[2.0 * np.sin(2 * np.pi * 9.0 * k / 1000.0), 0, 0, 0, 0, 0])
        largest = max(largest, sim.state.energy[ELASTIC] - settled[ELASTIC])
    change = np.array(sim.state.energy) - settled
    assert largest > 1e-5
    assert 0.0 <= change[FRICTION] < 0.2 * largest  # as its normal force varies, a bond slips a little
    assert abs(change[NUMERICAL]) < 0.5 * largest
