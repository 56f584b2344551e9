"""Stops and dry friction of joints beside contacts: light links at their stops carry what is behind them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from world_builder import DEFAULT, Body, G, Simulation, ball, plane

from haptic_sim.dynamics.energy import INJECTED, SUPPLIED

DOWN = [0.0, 0.0, -G]
T = 1e-3  # [s]
PENALTIES = ("penalty", "impulse_augmented", "frictional_impulses")


def chain(rng: np.random.Generator, name: str, parent: str, at: Any, links: int) -> dict[str, Body]:
    """Links of 0.3 to 30 g that hang down from a parent, with stops, dry friction and damping at random."""
    bodies: dict[str, Body] = {}
    for i in range(links):
        length, mass = float(rng.uniform(0.02, 0.06)), float(10 ** rng.uniform(-3.5, -1.5))
        reach, axis = 0.5, [0.0, 1.0, 0.0]
        kind = "prismatic" if rng.random() < 0.2 else "revolute"
        if kind == "prismatic":
            reach, axis = 0.025, [0.0, 0.0, 1.0]
        elif rng.random() < 0.5:
            axis = rng.normal(size=3).tolist()
        bodies[f"{name}{i}"] = {
            "joint": kind,
            "parent": parent,
            "position": [float(x) for x in at],
            "axis": axis,
            "range": [-reach * float(rng.random()), reach * float(rng.random())],
            "mass": mass,
            "friction": float(rng.choice([0.0, 0.01])),
            "damping": float(rng.choice([0.0, 0.001])),
            "shapes": [{"type": "capsule", "radius": 0.006, "length": length, "position": [0, 0, -length / 2]}],
        }
        parent, at = f"{name}{i}", (0.0, 0.0, -length)
    return bodies


def hand(rng: np.random.Generator) -> tuple[dict[str, Body], str]:
    """A body of 1 to 20 kg that falls on one to three fingers."""
    palm: Body = {
        "joint": "free",
        "mass": float(10 ** rng.uniform(0, 1.3)),
        "position": [0.0, 0.0, 0.3],
        "velocity": [*(0.3 * rng.normal(size=2)).tolist(), -1.5 * float(rng.random()), *rng.normal(size=3).tolist()],
        "shapes": [{"type": "box", "size": [0.2, 0.2, 0.1]}],
    }
    bodies = {"floor": plane(), "palm": palm}
    links = int(rng.integers(1, 4))
    for finger in range(int(rng.integers(1, 4))):
        bodies |= chain(rng, f"finger{finger}", "palm", (*rng.uniform(-0.08, 0.08, 2), -0.05), links)
    return bodies, "palm"


def target(rng: np.random.Generator) -> tuple[dict[str, Body], str]:
    """A chain that hangs from what is fixed, struck by a ball of 0.1 to 20 kg."""
    bodies: dict[str, Body] = {"ceiling": {"joint": "fixed", "position": [0, 0, 1]}}
    bodies |= chain(rng, "link", "ceiling", (0.0, 0.0, 0.0), int(rng.integers(1, 5)))
    mass, speed = float(10 ** rng.uniform(-1, 1.3)), float(rng.uniform(0.2, 3.0))
    bodies["ball"] = ball((-0.08, 0.0, 0.97), (speed, 0.0, 0.0), radius=0.03, mass=mass)
    return bodies, "ball"


def check(seed: int, method: str, seconds: float) -> tuple[int, int]:
    """Nothing ends as unstable, and the energy rises by no more than 1 % of what was supplied.

    Returns:
        Steps with contacts, and those in which a stop pushed meanwhile.
    """
    rng = np.random.default_rng(seed)
    bodies, held = hand(rng) if seed % 2 else target(rng)
    rate = float(rng.choice([500.0, 1000.0, 2000.0, 4000.0]))
    links = [name for name, body in bodies.items() if body["joint"] != "fixed" and name != "ball"]
    ignore = [[a, b] for i, a in enumerate(links) for b in links[:i]]
    sim = Simulation(bodies, method, rate, DEFAULT, gravity=DOWN, tool=held, ignore=ignore)
    joints, balance = sim.tool.body.arrays.joints, sim.tool.energy
    least, stopped = math.inf, 0
    for k in range(int(seconds * rate)):
        sim.step()
        stopped += bool(sim.state.contacts and np.any(np.abs(joints.p) > joints.friction_impulse + 1e-9))
        total = balance.values[:3].sum() - balance.values[INJECTED]
        least = min(least, total)
        assert total - least <= 0.01 * balance.watch[SUPPLIED] + 1e-6, (seed, method, rate, k)
    return sim.touched, stopped


@pytest.mark.parametrize("method", PENALTIES)
def test_light_links_at_their_stops_gain_no_energy(method: str) -> None:
    found = np.array([check(seed, method, 0.4) for seed in range(8)])
    assert np.all(found[1::2, 0] > 50)
    assert found[:, 1].sum() > 200


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", PENALTIES)
def test_of_many_light_links_at_their_stops_none_gains_energy(method: str) -> None:
    for seed in range(200):
        check(seed, method, 1.0)


@pytest.mark.parametrize("method", ["penalty", "impulse_augmented"])
@pytest.mark.parametrize("mass", [1e-1, 1e-3, 1e-6])
def test_a_finger_at_its_stop_is_part_of_what_it_carries(method: str, mass: float) -> None:
    """10 kg that fall on a finger move as one body does, however light the finger is."""
    shape = {"type": "sphere", "radius": 0.01}
    rail: Body = {"joint": "prismatic", "axis": [0, 0, 1], "position": [0, 0, 0.02], "inertia": [1.0] * 3}
    finger: Body = rail | {"parent": "arm", "position": [0, 0, 0], "mass": mass, "range": [-0.05, 0.0]}
    contact = {**DEFAULT, "stiffness": 20000.0, "damping": 150.0}
    two = {"floor": plane(), "arm": rail | {"mass": 10.0}, "finger": finger | {"shapes": [shape]}}
    one = {"floor": plane(), "arm": rail | {"mass": 10.0 + mass, "shapes": [shape]}}
    jointed, whole = (Simulation(bodies, method, contact=contact, gravity=DOWN, tool="arm") for bodies in (two, one))
    for _ in range(600):
        jointed.step()
        whole.step()
        assert jointed.q("arm") == pytest.approx(whole.q("arm"), abs=1e-9)
        assert jointed.q("finger") == pytest.approx(0.0, abs=1e-12)
    assert whole.touched > 400
    assert whole.q("arm")[0] == pytest.approx(-0.01 - (10.0 + mass) * G / 20000.0, abs=5e-4)


@pytest.mark.parametrize("seed", range(6))
def test_penalties_obey_their_law_at_the_velocities_that_stops_leave(seed: int) -> None:
    """Explicit, or p = max(0, h (k (d - h v') - b v')) with v' after the step, with stops and dry friction."""
    rng = np.random.default_rng(seed)
    bodies, held = hand(rng)
    contact = {**DEFAULT, "friction": {"model": "none"}, "stiffness": 1e5, "damping": 3e3}
    links = [name for name, body in bodies.items() if body["joint"] != "fixed"]
    ignore = [[a, b] for i, a in enumerate(links) for b in links[:i]]
    sim = Simulation(bodies, "penalty", contact=contact, gravity=DOWN, tool=held, ignore=ignore)
    response, material = sim.tool.contact, sim.material
    k, b, implicit = material.stiffness, material.damping, 0
    for _ in range(400):
        sim.step()
        n = sim.tool.rows.count
        d = np.array(response._method.springs.strain[:n])
        touching = sim.tool.rows.separation[:n] < 0.0
        p, before, after = sim.impulses[:, 0], response._arrays.before[:n, 0], response._arrays.after[:n, 0]
        explicit = np.maximum(0.0, T * (k * d - b * before))
        end = np.maximum(0.0, T * (k * (d - T * after) - b * after))
        near = np.isclose(p, end, rtol=1e-6, atol=1e-9 + 1e-6 * p.max(initial=0.0))
        assert np.all(near | np.isclose(p, explicit, rtol=1e-9) | ~touching)
        implicit += bool(np.any(touching & near & (p > 0.0) & ~np.isclose(p, explicit, rtol=1e-6)))
    assert implicit > 5
