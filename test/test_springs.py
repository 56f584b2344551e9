"""Contacts that begin without energy: springs with offsets, worlds that never gain energy, rims, and towers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import sampled
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation
from world_builder import (
    DEFAULT,
    METHODS,
    RIGID,
    Body,
    G,
    Response,
    Simulation,
    ball,
    box,
    plane,
    some_bodies,
    some_rows,
)

from haptic_sim.contact.springs import SHARE
from haptic_sim.dynamics.energy import INJECTED
from haptic_sim.geometry.collision.rims import LEVEL

DOWN = [0.0, 0.0, -G]
PENALTIES = tuple(method for method in METHODS if method not in RIGID)
FREE = {"penalty": "consistent"}
K, T = 4000.0, 1e-3  # of `ContactParameters` [N/m], [s]


def cylinder(radius: float, length: float, **more: Any) -> Body:
    return {"joint": "free", "shapes": [{"type": "cylinder", "radius": radius, "length": length}], **more}


# The law


@pytest.mark.parametrize("method", PENALTIES)
def test_a_contact_begins_without_force_whatever_its_overlap(method: str) -> None:
    """A ball without damper meets the floor with v: it has overlapped by s0, and its spring is compressed by s - s0."""
    v = 1.0
    bodies = {"floor": plane(), "ball": ball((0, 0, 0.05 + 0.3 * v * T), (0, 0, -v), mass=0.002)}
    sim = Simulation(bodies, method, contact={**FREE, "damping": 0.0, "restitution": 1.0})
    energy = sim.energy()
    sim.step(2)
    springs = sim.tool.contact._method.springs
    assert sim.state.contacts == 1
    assert springs.strain[0] == 0.0
    assert springs.offset[0] == pytest.approx(0.7 * v * T, rel=1e-9)
    sim.step(10)
    assert sim.energy() <= energy * (1 + 1e-9)


def test_a_point_takes_over_the_load_of_one_that_ends_and_no_more() -> None:
    """Of two contacts on one body one is replaced by two: these get its energy, in proportion to what they would have.

    With depths d of the ended and 2 d and d of the new ones, k d^2 / 2 is 1/5 of theirs: strains of 2 d / sqrt(5) and
    d / sqrt(5). A contact that begins beside others that last has no force.
    """
    rng = np.random.default_rng(20500)
    body = some_bodies(rng, 1, speed=0.0)
    rows = some_rows(rng, 1, 2)
    d = 1e-4
    response = Response(body, "penalty", penalty="consistent")
    springs = response.method._method.springs
    response.respond(rows)
    np.testing.assert_allclose(springs.strain[:2], [d, d])
    rows.count, rows.id[1], rows.id[2] = 3, 7, 8
    for array in rows.arrays[1:]:
        array[2] = array[1]
    rows.separation[1:3] = -2.0 * d, -d
    response.method._arrays.after[:] = 0.0
    response.respond(rows)
    np.testing.assert_allclose(springs.strain[:3], [d, 2.0 * d / math.sqrt(5.0), d / math.sqrt(5.0)])
    rows.count, rows.id[3] = 4, 9
    for array in rows.arrays[1:]:
        array[3] = array[1]
    response.respond(rows)
    assert springs.strain[3] == 0.0
    assert springs.offset[3] == pytest.approx(2.0 * d)


def test_an_overlap_is_given_back_with_dissipated_energy() -> None:
    """A fall onto a floor that dissipates: what is given back is at most SHARE of it, and the body rises a little."""
    bodies = {"floor": plane(), "box": box((0, 0, 0.35), (0.1, 0.1, 0.1))}
    sim = Simulation(bodies, "impulse_augmented", contact=FREE, gravity=DOWN).step(400)
    springs = sim.tool.contact._method.springs
    begun = springs.offset[:4].max()
    sim.step(600)
    flows = sim.state.energy
    assert 0.0 < springs.returned[0] <= SHARE * flows[4:7].sum() * (1 + 1e-9)
    assert springs.offset[:4].max() < begun


def test_the_explicit_law_is_the_whole_overlap_from_the_first_step() -> None:
    bodies = {"floor": plane(), "ball": ball((0, 0, 0.05 + 3e-4), (0, 0, -1.0))}
    sim = Simulation(bodies, "penalty", contact={"damping": 0.0}).step(2)
    assert sim.impulses[0, 0] == pytest.approx(T * K * 7e-4, rel=1e-9)


# Rims of cylinders


@pytest.mark.parametrize("load", [-1e-3, -2e-3])
def test_the_wrench_of_a_rim_is_continuous_in_the_pose_and_that_of_a_potential(load: float) -> None:
    """Forces at four points that move along the rim are the gradient of their elastic energy, at any small tilt.

    Differences of the energy over 2e-7 m and rad are its derivatives to 1e-3 of them.
    """
    radius, length = 0.05, 0.1
    rng = np.random.default_rng(20510)

    def rows_at(position: np.ndarray, turn: Rotation) -> Any:
        rotation = turn.as_euler("xyz").tolist()
        body = cylinder(radius, length, position=position.tolist(), rotation=rotation, mass=1.0)
        sim = Simulation({"floor": plane(), "body": body}, "penalty", allowed_overlap=0.1)
        sim.environment.prepare()
        return sim.tool.rows

    def energy(position: np.ndarray, turn: Rotation) -> float:
        rows = rows_at(position, turn)
        return float(sum(0.5 * K * rows.separation[i] ** 2 for i in range(rows.count)))

    for tilt in (0.0, 5e-3, 0.03):
        turn = Rotation.from_euler("zxz", [rng.uniform(0, 6), tilt, rng.uniform(0, 6)])
        position = np.array([0.0, 0.0, 0.5 * length * math.cos(tilt) + load])
        rows = rows_at(position, turn)
        force, torque = np.zeros(3), np.zeros(3)
        for i in range(rows.count):
            f = -K * rows.separation[i] * rows.normal[i]
            force += f
            torque += np.cross(rows.point[i] - position, f)
        h = 2e-7
        rise = (energy(position + [0, 0, h], turn) - energy(position - [0, 0, h], turn)) / (2 * h)
        assert force[2] == pytest.approx(-rise, rel=1e-3)
        for axis in np.eye(3)[:2]:
            more, less = (energy(position, Rotation.from_rotvec(s * h * axis) * turn) for s in (1, -1))
            assert torque @ axis == pytest.approx(-(more - less) / (2 * h), abs=1e-3 * K * radius * abs(load))


@pytest.mark.parametrize("ground", sampled(["plane", "box"], "plane"))
def test_the_wrench_of_a_rim_is_continuous_on_random_paths(ground: str) -> None:
    """A cylinder that turns in any way, with its lowest point below a plane, or the inner part of a face of a box.

    Between the two of 40 poses where the wrench changes most, the change is bisected: what is left of it after a motion
    of 1e-3 of a step is less than 1 % of the force of a point, besides what a rim that is level within LEVEL may have,
    whose four points are fixed to it.
    """
    radius, half, steps = 0.05, 0.03, 40
    rng = np.random.default_rng(20511)
    floor = plane() if ground == "plane" else {"joint": "fixed", "position": [0, 0, -0.1], "shapes": [FACE]}
    for _ in range(3):
        angles, depths = rng.uniform([-180, -20, -180], [180, 110, 180], (2, 3)), rng.uniform(1e-4, 1e-3, 2)

        def wrench(part: float, angles: np.ndarray = angles, depths: np.ndarray = depths) -> np.ndarray:
            """Force, and torque about the centre divided by the radius [N] (6,)."""
            rotation = Rotation.from_euler("ZXZ", angles[0] + part * (angles[1] - angles[0]), degrees=True)
            axis = rotation.as_matrix()[2, 2]
            depth = depths[0] + part * (depths[1] - depths[0])
            centre = np.array([0.0, 0.0, radius * math.sqrt(1.0 - axis * axis) + half * abs(axis) - depth])
            body = cylinder(radius, 2 * half, position=centre.tolist(), mass=1.0)
            body["rotation"] = rotation.as_euler("xyz").tolist()
            sim = Simulation({"floor": floor, "body": body}, "penalty", allowed_overlap=0.1)
            sim.environment.prepare()
            rows, total = sim.tool.rows, np.zeros(6)
            for i in range(rows.count):
                force = K * max(0.0, -rows.separation[i]) * rows.normal[i]
                total += np.concatenate([force, np.cross(rows.point[i] - centre, force) / radius])
            return total

        parts = np.linspace(0.0, 1.0, steps + 1)
        found = [wrench(part) for part in parts]
        k = int(np.argmax([np.abs(found[k + 1] - found[k]).max() for k in range(steps)]))
        low, high, below, beyond = parts[k], parts[k + 1], found[k], found[k + 1]
        for _ in range(10):
            middle = 0.5 * (low + high)
            between = wrench(middle)
            if np.abs(between - below).max() > np.abs(beyond - between).max():
                high, beyond = middle, between
            else:
                low, below = middle, between
        assert np.abs(beyond - below).max() < K * (0.01 * depths.min() + 4 * radius * LEVEL), (low, angles)


FACE = {"type": "box", "size": [0.4, 0.4, 0.2]}


# Worlds


def convex_mesh(rng: np.random.Generator, reach: float, path: Path) -> dict[str, Any]:
    """The hull of 8 to 29 points within a sphere, as a file."""
    points = rng.normal(size=(int(rng.integers(8, 30)), 3))
    points *= reach * rng.uniform(0.7, 1.0, 3) / np.linalg.norm(points, axis=1)[:, None]
    hull = ConvexHull(points)
    lines = [f"v {x!r} {y!r} {z!r}" for x, y, z in points.tolist()]
    for corners, plane_of in zip(hull.simplices, hull.equations, strict=True):
        a, b, c = points[corners]
        outwards = np.cross(b - a, c - a) @ plane_of[:3] > 0.0
        lines.append("f " + " ".join(str(i + 1) for i in (corners if outwards else corners[::-1])))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {"type": "mesh", "path": str(path)}


def trial(seed: int, folder: Path) -> tuple[dict[str, Body], str, float, float]:
    """Bodies of a random drop, push or stack, the method, the rate [Hz] and a push [N] on the last body.

    Drops and pushes of 1 to 5 bodies of any shape, stacks of 2 to 10 boxes and cylinders; each body has 1 g to 100 kg.
    """
    rng = np.random.default_rng([20521, seed])
    method = str(rng.choice(METHODS))
    rate = float(rng.choice([250, 500, 1000, 2000, 4000, 8000]))
    sort = ("drop", "push", "stack")[int(rng.integers(3))]
    count = int(rng.integers(2, 11)) if sort == "stack" else int(rng.integers(1, 6))
    size = float(np.exp(rng.uniform(math.log(0.03), math.log(0.2))))
    half = 0.3 * size
    shapes: dict[str, tuple[dict[str, Any], float]] = {
        "box": ({"type": "box", "size": [size, size, 2 * half]}, 0.77 * size),
        "cylinder": ({"type": "cylinder", "radius": 0.5 * size, "length": 2 * half}, 0.6 * size),
        "capsule": ({"type": "capsule", "radius": 0.4 * size, "length": 0.6 * size}, 0.7 * size),
        "sphere": ({"type": "sphere", "radius": 0.5 * size}, 0.5 * size),
        "mesh": ({}, 0.6 * size),
    }
    bodies: dict[str, Body] = {"floor": plane()}
    z = push = 0.0
    for i in range(count):
        mass = float(np.exp(rng.uniform(math.log(1e-3), math.log(100.0))))
        kind = str(rng.choice(["box", "cylinder"] if sort == "stack" else list(shapes)))
        shape, reach = shapes[kind]
        if kind == "mesh":
            shape = convex_mesh(rng, reach, folder / f"{seed}_{i}.obj")
        body: Body = {"joint": "free", "mass": mass, "shapes": [shape]}
        if sort == "stack":
            body["position"] = [0.0, 0.0, z + half]
            z += 2 * half
        else:
            z += reach + (float(rng.uniform(0.02, 0.5)) if sort == "drop" else 1e-3)
            body["position"] = [*(0.2 * size * rng.random(2)).tolist(), z]
            body["rotation"] = rng.uniform(-3, 3, 3).tolist()
            if sort == "drop":
                body["velocity"] = [*rng.uniform(-1, 1, 3).tolist(), *rng.uniform(-5, 5, 3).tolist()]
            z += reach
        bodies[f"body{i}"] = body
        push = float(rng.uniform(0.1, 2.0)) * mass * G if sort == "push" else 0.0
    return bodies, method, rate, push


def mechanical_energy(sim: Simulation, names: list[str]) -> float:
    """Kinetic and potential energy of free bodies, from their poses, twists, masses and inertias alone [J]."""
    total = 0.0
    for name in names:
        q, v, inertia = sim.q(name), sim.v(name), sim.model.inertias[sim.joint(name)]
        total += 0.5 * inertia.mass * v[:3] @ v[:3] + 0.5 * v[3:] @ inertia.inertia @ v[3:] + inertia.mass * G * q[2]
    return float(total)


def check_energy(sim: Simulation, steps: int, push: float = 0.0, of: Any = None) -> None:
    """Nothing ends as unstable, and the energy does not rise by more than 1 % of what was supplied (and 1 uJ).

    Supplied are the energy at the start, of which the potential one counts as far as it has been released, and positive
    work of the hand.
    """
    names = [name for name, moves in sim.world.moving.items() if moves]
    least, supplied, lowest, injected = math.inf, 0.0, math.inf, 0.0
    for k in range(steps):
        t = k * sim.period
        mechanical = mechanical_energy(sim, names)
        sim.step(wrench=[push * math.sin(3 * t), 0.3 * push * math.cos(5 * t), -0.5 * push, 0, 0, 0])
        kinetic, potential, elastic, work = sim.state.energy[[0, 1, 2, INJECTED]]
        if k == 0:
            supplied, lowest = kinetic + elastic, potential
        supplied += max(0.0, lowest - potential) + max(0.0, work - injected)
        lowest, injected = min(lowest, potential), work
        assert kinetic + potential == pytest.approx(mechanical, rel=1e-9, abs=1e-12)
        total = mechanical + elastic - work
        least = min(least, total)
        assert total - least <= 0.01 * supplied + 1e-6, (of, t)


def check_trial(seed: int, duration: float, folder: Path) -> None:
    """A random world with default keys."""
    bodies, method, rate, push = trial(seed, folder)
    sim = Simulation(bodies, method, rate, DEFAULT, carried=True, gravity=DOWN)
    check_energy(sim, int(duration * rate), push, of=(seed, method, rate))


# 341: a stack with bodies of 36 kg on bodies of 4 g and 34 g, in which impulses and springs push the same way
# 326: a cylinder of 23 g between boxes of 144 g and 39 kg, whose points go around its rims
@pytest.mark.parametrize(("seed", "duration"), [*((seed, 0.25) for seed in (*range(9), 341)), (326, 0.05)])
def test_random_worlds_gain_no_energy(seed: int, duration: float, tmp_path: Path) -> None:
    check_trial(seed, duration, tmp_path)


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(0, 1000, 50))
def test_of_a_thousand_random_worlds_none_is_unstable_or_gains_energy(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 50):
        check_trial(seed, 1.0, tmp_path)


@pytest.mark.parametrize("rate", [1000.0, 4000.0, 16000.0])
@pytest.mark.parametrize("ground", ["plane", "box"])
def test_a_coin_that_rolls_and_wobbles_gains_nothing(rate: float, ground: str) -> None:
    """A coin of 10 g that spins down on its rim, tilted by 0.4 rad, and falls flat, with default keys."""
    floor = plane() if ground == "plane" else {"joint": "fixed", "position": [0, 0, -0.1], "shapes": [FACE]}
    tilt, radius, half = 0.4, 0.02, 0.001
    height = radius * math.sin(tilt) + half * math.cos(tilt)
    coin = cylinder(radius, 2 * half, position=[0, 0, height], rotation=[tilt, 0, 0], mass=0.01)
    coin["velocity"] = [0.1, 0.0, 0.0, 3.0, 0.0, 25.0]
    sim = Simulation({"floor": floor, "coin": coin}, "penalty", rate, DEFAULT, carried=True, gravity=DOWN)
    check_energy(sim, int(0.25 * rate), of=(ground, rate))
    assert sim.touched > 0.1 * rate


@pytest.mark.parametrize("method", PENALTIES)
@pytest.mark.parametrize("tilt", [15.1, 14.9])
def test_a_tilted_cylinder_that_falls_gains_nothing(method: str, tilt: float) -> None:
    body = cylinder(0.05, 0.1, position=[0, 0, 0.1], rotation=[math.radians(tilt), 0, 0], mass=1.0)
    sim = Simulation({"floor": plane(), "body": body}, method, contact=FREE, gravity=DOWN)
    start = least = G * 0.1
    for _ in range(300):
        sim.step()
        energy = sim.state.energy[:3].sum()
        least = min(least, energy)
        assert energy - least < 0.01 * start
