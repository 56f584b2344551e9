"""The wall as it is printed (THESIS 4.5), without a clamp, beside the one that never pulls (contact.penalty)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from world_builder import Simulation, ball, plane

from haptic_sim.dynamics.energy import DAMPING, KINETIC, NUMERICAL

K, MASS, SPEED = 4000.0, 2.0, 0.5  # [N/m], [kg], [m/s]


def thrown(form: str, ratio: float, rate: float, method: str = "penalty") -> tuple[float, np.ndarray, np.ndarray]:
    """A ball without weight against a wall: its velocity in the end by that before, normal forces, energies."""
    damping = 2.0 * ratio * math.sqrt(K * MASS)
    bodies = {"floor": plane(), "ball": ball((0, 0, 0.0501), (0, 0, -SPEED), mass=MASS)}
    sim = Simulation(bodies, method, rate, {"stiffness": K, "damping": damping, "penalty": form, "restitution": 0.3})
    forces, energies = [], []
    while sim.q("ball")[2] < 0.0502:
        sim.step()
        forces.append(float(sim.impulses[:, 0].sum()) * rate)
        energies.append(list(sim.state.energy))
    return float(sim.v("ball")[2]) / SPEED, np.array(forces), np.array(energies)


@pytest.mark.parametrize("ratio", [0.05, 0.3, 0.7])
def test_restitution_of_both_walls(ratio: float) -> None:
    """m s'' = -(k s + b s') from s = 0: s = sin(wd t) exp(-ratio w t) v / wd.

    As printed the wall acts until s = 0 again, at wd t = pi; clamped until the force is zero, at tan(wd t) =
    -2 ratio root / (1 - 2 ratio^2) with root = (1 - ratio^2)^(1/2); s' of then is what the ball leaves with.
    """
    root = math.sqrt(1.0 - ratio * ratio)
    angle = math.atan2(2.0 * ratio * root, 2.0 * ratio * ratio - 1.0)  # in (0, pi)
    clamped = -math.exp(-ratio / root * angle) * (math.cos(angle) - ratio / root * math.sin(angle))
    printed = math.exp(-math.pi * ratio / root)
    assert clamped > printed
    t, w = np.linspace(0.0, math.pi / root, 10001), math.sqrt(K / MASS)  # t in radians of w
    speed = -SPEED * np.exp(-ratio * t) * (np.cos(root * t) - ratio / root * np.sin(root * t))
    separation = -SPEED / w * np.exp(-ratio * t) * np.sin(root * t) / root
    pull = float(np.max(K * separation + 2.0 * ratio * math.sqrt(K * MASS) * speed))  # where the damper wins
    rate = 1e5
    error = 3.0 * math.sqrt(K / MASS) / rate  # a step is that part of a radian
    for form, expected in (("explicit", clamped), ("printed", printed)):
        found, forces, energies = thrown(form, ratio, rate)
        assert found == pytest.approx(expected, abs=error)
        assert -forces.min() == pytest.approx(pull if form == "printed" else 0.0, rel=0.02, abs=1e-12)
        lost = energies[0, KINETIC] - energies[-1, KINETIC]
        assert energies[-1, DAMPING] == pytest.approx(lost, abs=1e-6)
        assert abs(energies[-1, NUMERICAL]) < 1e-6
        assert np.diff(energies[:, DAMPING]).min() >= 0.0


@pytest.mark.parametrize("method", ["impulse_augmented", "frictional_impulses"])
def test_impulses_are_the_same_beside_both_walls(method: str) -> None:
    """The first contact is an impact with e = 0.3; the overlap that is left is what the wall acts on."""
    for form in ("explicit", "printed"):
        found, _, _ = thrown(form, 0.3, 1e5, method)
        assert found == pytest.approx(0.3, rel=0.01)


def test_the_printed_wall_is_explicit_where_it_is_too_stiff_for_the_rate() -> None:
    """x = h b / m = 1.5, y = h^2 k / m = 1.6: 2 x + y > 4."""
    rate, damping = 1000.0, 1.5 * 2.0 * 1000.0
    contact = {"stiffness": 3.2e6, "damping": damping}
    bodies = {"floor": plane(), "ball": ball((0, 0, 0.0499), (0, 0, -0.01), mass=MASS)}
    consistent = Simulation(bodies, "penalty", rate, {**contact, "penalty": "consistent"}).step(200)
    assert abs(consistent.v("ball")[2]) < 2 * math.sqrt(3.2e6 / MASS) * 1e-4  # what the overlap of the start stores
    printed = Simulation(bodies, "penalty", rate, {**contact, "penalty": "printed"})
    s, v = -1e-4, -0.01
    for _ in range(6):  # the map itself, until it leaves the wall
        if s >= 0.0:
            break
        v -= (3.2e6 * s + damping * v) / MASS / rate
        s += v / rate
        assert float(printed.step().v("ball")[2]) == pytest.approx(v, rel=1e-9)
