"""Stops of joints with restitution beside contacts: no step adds energy, in any contact method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from world_builder import DEFAULT, METHODS, RIGID, Body, G, Simulation, ball

from haptic_sim.dynamics.energy import ELASTIC, POTENTIAL

PENALTIES = tuple(method for method in METHODS if method not in RIGID)
RADIUS = 0.05  # [m]


def slide(x: float, velocity: float, mass: float, low: float, e: float, parent: str = "world") -> Body:
    """A ball that slides along x, whose lower stop is at `low`."""
    return {
        "joint": "prismatic",
        "axis": [1, 0, 0],
        "parent": parent,
        "position": [x, 0, 0],
        "mass": mass,
        "inertia": [0.01 * mass] * 3,
        "velocity": velocity,
        "range": [low, 1.0],
        "limit_restitution": e,
        "shapes": [{"type": "sphere", "radius": RADIUS}],
    }


def random_stops(rng: np.random.Generator) -> tuple[dict[str, Any], float, dict[str, Any]]:
    """A world, its rate [Hz] and its material: balls that slide to their stops, and free balls that follow them.

    The inertia is constant, so that a step without contacts and stops conserves the kinetic energy exactly.
    """
    bodies: dict[str, Body] = {}
    count = int(rng.integers(1, 4))
    rate = 10.0 ** rng.uniform(2.3, 3.3)
    speed = 10.0 ** rng.uniform(-1, 0.5)
    for i in range(count):
        nested = i > 0 and rng.random() < 0.5
        own = 0.0 if nested and rng.random() < 0.7 else speed * (-1 + 0.3 * rng.normal())
        gap = float(rng.choice([0.0, rng.uniform(0, 6)])) * speed / rate
        bodies[f"slide{i}"] = slide(
            2 * RADIUS if nested else 2 * RADIUS * i,
            own,
            10.0 ** rng.uniform(-3, 1),
            -gap,
            float(rng.choice([rng.uniform(), 1.0])),
            f"slide{i - 1}" if nested else "world",
        ) | {
            "range": [-gap, float(rng.choice([1.0, gap + 0.001]))],
            "friction": float(rng.choice([0.0, 10.0 ** rng.uniform(-3, 1)])),
            "damping": float(rng.choice([0.0, 0.0, 10.0 ** rng.uniform(-3, 2)])),
        }
    for i in range(int(rng.integers(0, 3))):
        position = np.array([(2 * RADIUS + 5e-4) * i + 2 * RADIUS * count + float(rng.uniform(-1e-4, 1e-3)), 0, 0])
        position[1:] = 0.3 * RADIUS * rng.normal(size=2) * rng.integers(0, 2)
        motion = [speed * (-1 + 0.3 * rng.normal()), 0, 0, *(10 * speed * rng.normal(size=3) * rng.integers(0, 2))]
        bodies[f"ball{i}"] = ball(position, motion, RADIUS, 10.0 ** rng.uniform(-2, 2))
    contact = DEFAULT | {
        "stiffness": 10.0 ** rng.uniform(2, 6),
        "damping": float(rng.choice([0.0, 10.0 ** rng.uniform(-1, 3)])),
        "restitution": float(rng.uniform()),
        "friction": {"model": str(rng.choice(["none", "coulomb", "reset_integrator"]))},
    }
    gravity = [-G, 0, 0] if rng.random() < 0.5 else [0, 0, 0]
    return {"bodies": bodies, "gravity": gravity}, rate, contact


def gains(sim: Simulation, steps: int) -> tuple[float, float]:
    """Largest gain of energy of a step and of the trial, as parts of the energy that there was or that gravity gave.

    Overlaps that springs give back cost some of what was dissipated (`springs`); that is no gain.
    """
    total, potential, returned = np.zeros(steps), np.zeros(steps), np.zeros(steps)
    springs = getattr(sim.tool.contact._method, "springs", None)
    start = 0.0
    for k in range(steps):
        sim.step()
        energy = sim.state.energy
        total[k], potential[k] = sum(energy[: ELASTIC + 1]), energy[POTENTIAL]
        returned[k] = springs.returned[0] if springs else 0.0
        start = start or total[k] - potential[k]
    given = np.maximum(0.0, np.diff(returned, prepend=0.0))
    change = np.diff(total) - given[1:]
    path = np.concatenate([[0.0], np.cumsum(change)])
    scale = start + np.ptp(potential)
    return float(change.max() / scale), float((path - np.minimum.accumulate(path)).max() / scale)
