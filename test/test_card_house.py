"""Card houses stand where statics says so: two cards that lean against each other, and a pyramid of seven.

A card of length L, thickness t and weight m g leans at an angle a to the vertical, on its lower edge and against its
mirror image, edge on edge. By symmetry the force between the two is horizontal: F. The moments about the lower edge are
F L cos a = m g (L sin a - t cos a) / 2, so that the floor must have a friction coefficient of (tan a - t / L) / 2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from world_builder import METHODS, RIGID, Body, Simulation, box, plane

L, W, T, MASS = 0.1, 0.06, 0.002, 0.01  # length, width, thickness [m], mass of a card [kg]
ANGLE = math.radians(25.0)


def least_friction(angle: float) -> float:
    """Of two cards that lean against each other."""
    return (math.tan(angle) - T / L) / 2


def card(foot: tuple[float, float], angle: float) -> Body:
    """A card on its lower edge at `foot` (x, z), leaning to +x by `angle`."""
    s, c = math.sin(angle), math.cos(angle)
    side = math.copysign(T / 2, angle)  # the edge below is on the side to which the card leans
    x, z = foot[0] + L / 2 * s - side * c, foot[1] + L / 2 * c + side * s
    return box((x, 0.0, z), (T, W, L), mass=MASS, rotation=[0.0, angle, 0.0])


def frame(x: float, z: float, angle: float, name: str) -> dict[str, Body]:
    """Two cards whose upper edges meet above (x, z)."""
    reach = L * math.sin(angle)
    return {f"{name}_left": card((x - reach, z), angle), f"{name}_right": card((x + reach, z), -angle)}


def pyramid(angle: float) -> dict[str, Body]:
    """Two frames side by side, a card on top of them, and a frame on that."""
    s, c = math.sin(angle), math.cos(angle)
    apart = L * s + T * c + 1e-3  # of a frame from the middle
    top = L * c + T * s
    table = box((0.0, 0.0, top + T / 2), (2 * apart + 0.04, W, T), mass=MASS)
    return (
        frame(-apart, 0.0, angle, "one")
        | frame(apart, 0.0, angle, "two")
        | {"table": table}
        | frame(0.0, top + T, angle, "upper")
    )


def sinks(cards: dict[str, Body], friction: float, method: str) -> bool:
    """Whether the highest card comes down, by more than the settling of springs; it is watched for a second."""
    model = "coulomb" if method in RIGID else "reset_integrator"
    contact: dict[str, Any] = {"penalty": "consistent"}
    contact["friction"] = {"model": model, "static": friction, "kinetic": friction}
    sim = Simulation({"floor": plane(), **cards}, method, contact=contact, gravity=[0, 0, -9.81])
    highest = max(cards, key=lambda name: cards[name]["position"][2])
    before = sim.q(highest)[2]
    for _ in range(50):
        if sim.step(20).q(highest)[2] < 0.95 * before:
            return True
    assert sim.q(highest)[2] == pytest.approx(before, rel=0.01)
    return False


ANGLES = [pytest.param(15.0, marks=pytest.mark.exhaustive), 25.0, pytest.param(40.0, marks=pytest.mark.exhaustive)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("degrees", ANGLES)
def test_two_cards_stand_or_slide_as_statics_says(method: str, degrees: float) -> None:
    angle = math.radians(degrees)
    need = least_friction(angle)
    assert not sinks(frame(0.0, 0.0, angle, "cards"), 1.1 * need, method)
    assert sinks(frame(0.0, 0.0, angle, "cards"), 0.9 * need, method)


def equilibrium(angle: float, friction: float) -> bool:
    """Whether forces within friction cones balance all weights of the pyramid, by linear programming in the plane."""
    bodies = pyramid(angle)
    names = list(bodies)
    s, c = math.sin(angle), math.cos(angle)
    centres = {name: np.array(body["position"])[[0, 2]] for name, body in bodies.items()}
    # point, unit normal, body that the force acts on, body that the opposite force acts on
    touching: list[tuple[np.ndarray, tuple[float, float], str, str | None]] = []
    for name in ("one", "two", "upper"):
        on: str | None = "table" if name == "upper" else None
        for side, sign in (("left", 1.0), ("right", -1.0)):
            this = f"{name}_{side}"
            lower = centres[this] - L / 2 * np.array([sign * s, c]) + T / 2 * np.array([sign * c, -s])
            touching.append((lower, (0.0, 1.0), this, on))
            if name != "upper":
                outer = lower + L * np.array([sign * s, c]) - T * np.array([sign * c, -s])
                touching.append((outer, (0.0, 1.0), "table", this))
            else:
                assert lower[1] == pytest.approx(centres["table"][1] + T / 2)
        apex = centres[f"{name}_left"] + L / 2 * np.array([s, c]) + T / 2 * np.array([c, -s])
        touching.append((apex, (-1.0, 0.0), f"{name}_left", f"{name}_right"))
    balance = np.zeros((3 * len(names), 2 * len(touching)))
    for k, (point, (nx, nz), first, second) in enumerate(touching):
        for column, force in ((2 * k, np.array([nx, nz])), (2 * k + 1, np.array([-nz, nx]))):
            for body, sign in ((first, 1.0), (second, -1.0)):
                if body is not None:
                    row, arm = 3 * names.index(body), point - centres[body]
                    balance[row : row + 2, column] += sign * force
                    balance[row + 2, column] += sign * (arm[0] * force[1] - arm[1] * force[0])
    weight = np.tile([0.0, MASS * 9.81, 0.0], len(names))
    cone = np.kron(np.eye(len(touching)), [[-friction, 1.0], [-friction, -1.0]])
    found = linprog(np.zeros(cone.shape[1]), cone, np.zeros(len(cone)), balance, weight, bounds=(None, None))
    return bool(found.status == 0)


def least_friction_of_pyramid(angle: float) -> float:
    low, high = 0.0, 2.0
    while high - low > 1e-4:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if equilibrium(angle, middle) else (middle, high)
    return high


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", METHODS)
def test_a_pyramid_stands_or_falls_as_statics_says(method: str) -> None:
    need = least_friction_of_pyramid(ANGLE)
    assert not sinks(pyramid(ANGLE), 1.2 * need, method)
    assert sinks(pyramid(ANGLE), 0.8 * need, method)


def test_a_pyramid_stands() -> None:
    assert not sinks(pyramid(ANGLE), 1.2 * least_friction_of_pyramid(ANGLE), "constraint")
