"""Impulses on a linkage spread over steps (THESIS 4.5.2, 6.3): the device renders their wrench at the hand (5.12)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_spread import Spread
from world_builder import box, plane

from haptic_sim.contact.response import PENDING
from haptic_sim.hand import Hand
from haptic_sim.messages import COLLIDING

UPPER, LOWER, R, ANGLE = 0.3, 0.2, 0.04, 0.8  # [m], [m], [m], [rad]
WALL = 0.3 + 0.2 * np.cos(ANGLE) + R  # [m] where the tip, at rest, touches
LIMIT = [5.0, 5.0, 5.0, 0.5, 0.5, 0.5]  # [N, N m]


def arm(hold: str = "lower", e: float = 0.0, **more: Any) -> Spread:
    """Two links in the plane whose tip, a ball, moves towards a wall; held by one of them."""
    bodies = {
        "wall": plane((-1, 0, 0), -WALL - 1e-5),
        "upper": {
            "joint": "revolute",
            "axis": [0, 0, 1],
            "mass": 1.0,
            "inertia": [0.001, 0.01, 0.01],
            "centre_of_mass": [0.15, 0, 0],
        },
        "lower": {
            "joint": "revolute",
            "parent": "upper",
            "position": [UPPER, 0, 0],
            "axis": [0, 0, 1],
            "angle": ANGLE,
            "mass": 0.5,
            "inertia": [0.0005, 0.002, 0.002],
            "centre_of_mass": [0.1, 0, 0],
            "shapes": [{"type": "sphere", "radius": R, "position": [LOWER, 0, 0]}],
        },
    }
    contact = {"stiffness": 500.0, "damping": 0.0, "restitution": e}
    sim = Spread(bodies, contact=contact, gravity=[0, 0, 0], tool=hold, **more)
    sim.tool.body.v[:] = 0.0, -3.0  # rad/s: the lower link turns towards the wall
    sim.tool.body.refresh()
    sim.tool.hand.refresh()
    return sim


def kinetic_energy(sim: Spread) -> float:
    return float(0.5 * sim.tool.body.u @ sim.tool.body.u)


@pytest.mark.parametrize("method", ["impulse_augmented", "frictional_impulses"])
@pytest.mark.parametrize("hold", ["lower", "upper"])
@pytest.mark.parametrize("e", [0.0, 0.5])
def test_the_wrench_at_the_hand_stays_in_the_limit_and_energy_does_not_grow(method: str, hold: str, e: float) -> None:
    """Kinetic and elastic energy, in every step without restitution; over the spread with it, as it is given back."""
    sim = arm(hold, e, method=method, limit=LIMIT)
    first, stiffness = kinetic_energy(sim), sim.material.stiffness
    energies, forces, saturated = [], [], []
    for _ in range(150):
        kinetic = kinetic_energy(sim)
        sim.step()
        assert kinetic_energy(sim) <= first * (1 + 1e-9)
        if sim.state.contact_state == COLLIDING:
            energies.append(kinetic + 0.5 * stiffness * sim.tool.rows.separation[0] ** 2)
            forces.append(np.abs(sim.state.wrench) / LIMIT)
            if sim.tool.contact.counts[PENDING]:
                saturated.append(forces[-1].max())
            last = kinetic_energy(sim)
    assert len(saturated) > 10
    assert np.max(forces) <= 1 + 1e-9
    assert saturated[0] > 0.99
    assert max(energies) <= first + 0.5 * stiffness * 5e-4**2  # of what was entered in the first step
    if e == 0.0:
        assert np.median(saturated) > 0.99
        assert (np.diff(energies) <= 1e-5 * first).all()
        full = arm(hold, e, method=method, rendering="full").step(2)
        assert last == pytest.approx(kinetic_energy(full), rel=0.02)


def test_full_impulses_are_those_of_the_closed_form() -> None:
    """v' = v - D^-1 n (n . D^-1 n)^-1 (n . v) for the row n of the tip along x."""
    sim = arm(rendering="full")
    body = sim.tool.body
    sim.step()
    D, v = body.D.copy(), body.v.copy()
    q = body.q
    tip = np.array([np.sin(q[0]) * UPPER + np.sin(q[0] + q[1]) * LOWER, np.sin(q[0] + q[1]) * LOWER])
    sim.step()
    assert sim.state.contact_state == COLLIDING
    step = np.linalg.solve(D, tip)
    np.testing.assert_allclose(
        body.v, v - step * (tip @ v) / (tip @ step), rtol=0, atol=0.01
    )  # Coriolis terms of the step


@pytest.mark.parametrize("rendering", ["spread", "scaled"])
@pytest.mark.parametrize("hold", ["lower", "upper"])
def test_an_impact_within_the_limits_is_that_of_full_impulses(rendering: str, hold: str) -> None:
    limited, full = (arm(hold, 0.5, rendering=r, limit=[1e6] * 6) for r in (rendering, "full"))
    for _ in range(5):
        limited.step()
        full.step()
        np.testing.assert_allclose(limited.state.v, full.state.v, rtol=5e-3 if rendering == "spread" else 0, atol=1e-12)


def test_the_wrench_of_one_body_does_not_depend_on_the_way_to_find_it() -> None:
    """The map of linkages gives for one free body what acts on it, so that both ways spread alike."""
    found = []
    for alone in (True, False):
        bodies = {"floor": plane(), "box": box((0, 0, 0.0501), (0.1,) * 3, (0.1, 0, -0.3))}
        sim = Spread(bodies)
        if not alone:
            response = sim.tool.contact
            response._method = response._method._replace(single_body=False, hand=Hand(sim.tool.body).packed)
            response._packed = None
        found.append(np.array([sim.step(wrench=[0, 0, -3.0, 0, 0, 0]).state.wrench.copy() for _ in range(60)]))
    np.testing.assert_allclose(found[1], found[0], rtol=0, atol=1e-6)
