"""Cylinders on faces and caps: weights of the contacts of a rim, and wrenches that are continuous in the pose."""

from __future__ import annotations

import math
from typing import Any

import coal
import numpy as np
import pinocchio as pin
import pytest
from collision_scenes import Scene, at
from conftest import sampled
from scipy.spatial.transform import Rotation
from test_springs import check_energy, cylinder
from world_builder import DEFAULT, METHODS, RIGID, Body, G, Simulation, box, plane

from haptic_sim.contact.sleeping import _move_row
from haptic_sim.contact_rows import ContactRows
from haptic_sim.geometry.collision.edges import WITNESS
from haptic_sim.geometry.collision.features import FEATURE_BITS
from haptic_sim.geometry.collision.rims import FAINT, LONG

K = 4000.0  # [N/m]
R, HALF = 0.05, 0.03  # of the cylinder [m]
GROUNDS: dict[str, tuple[Any, tuple[float, float]]] = {  # with half extents of their upper faces, or inside these
    "box": (coal.Box(0.3, 0.2, 0.1), (0.15, 0.1)),
    "smaller box": (coal.Box(0.06, 0.05, 0.1), (0.03, 0.025)),
    "bar": (coal.Box(0.3, 0.02, 0.1), (0.15, 0.01)),
    "cylinder": (coal.Cylinder(0.06, 0.1), (0.042, 0.042)),
    "smaller cylinder": (coal.Cylinder(0.03, 0.1), (0.021, 0.021)),
}


def on(ground: str) -> Scene:
    return Scene(GROUNDS[ground][0], coal.Cylinder(R, 2 * HALF))


def weights_of(scene: Scene, pose: pin.SE3) -> dict[tuple[float, float], float]:
    """Weights by place in the plane of the ground, in 0.1 mm."""
    scene.contacts(at(), pose)
    rows = scene.rows
    places = [(round(float(x), 4) + 0.0, round(float(y), 4) + 0.0) for x, y, _ in rows.point[: rows.count]]
    return dict(zip(places, rows.arrays.weight[: rows.count].tolist(), strict=True))


def flat(x: float, y: float) -> pin.SE3:
    """Upright and 0.5 mm deep; its rim has points along the axes of the world."""
    return at(x, y, 0.05 + HALF - 5e-4)


# Weights


@pytest.mark.parametrize("ground", ["box", "cylinder"])
def test_a_rim_that_is_all_above_has_four_whole_points(ground: str) -> None:
    assert weights_of(on(ground), flat(0.0, 0.0)) == {(R, 0): 1.0, (-R, 0): 1.0, (0, R): 1.0, (0, -R): 1.0}


def test_a_face_within_the_rim_has_its_whole_corners_alone() -> None:
    corners = {(x, y): 1.0 for x in (0.03, -0.03) for y in (0.025, -0.025)}
    assert weights_of(on("smaller box"), flat(0.0, 0.0)) == corners


def test_a_smaller_cap_within_the_rim_has_four_whole_points() -> None:
    r = 0.03
    assert weights_of(on("smaller cylinder"), flat(0.005, 0.0)) == {(r, 0): 1, (-r, 0): 1, (0, r): 1, (0, -r): 1}


def test_half_a_rim() -> None:
    """The edge x = 0.15 m through the centre: of the segments of the rim one is above the face, of two a half each."""
    scene = on("box")
    scene.contacts(at(), flat(0.15, 0.0))
    rows = scene.rows
    found = sorted(zip(rows.point[: rows.count].round(6).tolist(), rows.arrays.weight[: rows.count], strict=True))
    assert [place[:2] for place, _ in found] == [[0.1, 0.0], *[[0.15, -R]] * 2, *[[0.15, R]] * 2]
    np.testing.assert_allclose([weight for _, weight in found], [1.0, *[0.5] * 4], atol=0.01)


def shown(weight: float) -> float:
    return min(max((weight - FAINT) / (1.0 - 2.0 * FAINT), 0.0), 1.0)


def grid() -> tuple[np.ndarray, np.ndarray]:
    x, y = np.meshgrid(np.linspace(-R, R, 1001), np.linspace(-R, R, 1001))
    inside = x * x + y * y < R * R
    return x[inside], y[inside]


def test_weights_over_a_face_are_those_of_areas_on_a_grid() -> None:
    """Part of each segment of the rim that is above the face, and squares of the lengths of edges within the rim."""
    rng = np.random.default_rng(20540)
    scene, (x, y), whole = on("box"), grid(), 0.0
    for _ in range(20):
        centre = np.array([0.15, 0.1]) + rng.uniform(-0.9, 0.9, 2) * R * math.sqrt(0.5)
        scene.contacts(at(), flat(*centre))
        above = (np.abs(x + centre[0]) < 0.15) & (np.abs(y + centre[1]) < 0.1)
        expected = []
        for d in ((1, 0), (0, 1), (-1, 0), (0, -1)):
            segment = d[0] * x + d[1] * y > R * math.sqrt(0.5)
            expected.append(shown(np.count_nonzero(above & segment) / np.count_nonzero(segment)))
        u = np.array([0.15, 0.1]) - centre  # the corner, from the centre
        inside = float(np.hypot(*u)) < R
        for k in range(2):
            low, high = -math.sqrt(R * R - u[k] ** 2), math.sqrt(R * R - u[k] ** 2)
            length = min(high, u[1 - k]) - low
            size = min(1.0, (max(length, 0.0) / (LONG * R)) ** 2)
            expected += [shown(0.5 * size)] * (0 if not size > 0.0 else 1 if inside else 2)
            whole += size
        if inside:
            expected.append(shown(0.5 * whole))
        whole = 0.0
        found = scene.rows.arrays.weight[: scene.rows.count]
        np.testing.assert_allclose(sorted(found), sorted(w for w in expected if w > 0.0), atol=5e-3)


def test_weights_of_two_caps_are_those_of_integrals_on_a_grid() -> None:
    """With K, what both have in common: int_K (1 + d.x / r)^2 dA / (5/4 pi r^2)."""
    rng = np.random.default_rng(20541)
    scene, (x, y) = on("cylinder"), grid()
    for _ in range(20):
        distance, angle = rng.uniform(0.0, 0.1), rng.uniform(0, 2 * math.pi)
        centre = distance * np.array([math.cos(angle), math.sin(angle)])
        scene.contacts(at(), flat(*centre))
        common = (x + centre[0]) ** 2 + (y + centre[1]) ** 2 < 0.06**2
        expected = []
        for d in ((1, 0), (0, 1), (-1, 0), (0, -1)):
            density = (1.0 + (d[0] * x + d[1] * y) / R) ** 2
            expected.append(shown(float(density[common].sum() / density.sum())))
        rows = scene.rows
        of_rim = rows.id[: rows.count] % (1 << FEATURE_BITS) != WITNESS  # all but the nearest points
        found = rows.arrays.weight[: rows.count][of_rim]
        np.testing.assert_allclose(sorted(found), sorted(w for w in expected if w > 0.0), atol=5e-3)


# Continuity


def pose_of(u: np.ndarray) -> pin.SE3:
    """Of place of the centre of the lower cap, angles about z, x and z [deg], and depth."""
    rotation = Rotation.from_euler("ZXZ", u[2:5], degrees=True).as_matrix()
    axis = rotation[:, 2]
    z = 0.05 + R * math.sqrt(max(0.0, 1.0 - axis[2] ** 2)) + HALF * axis[2] - u[5]
    return pin.SE3(rotation, np.array([u[0] + HALF * axis[0], u[1] + HALF * axis[1], z]))


def wrench(scene: Scene, pose: pin.SE3) -> np.ndarray:
    """Of springs: force, and torque about the centre divided by the radius [N] (6,)."""
    scene.place(at(), pose)
    scene.detector.detect(scene.data, scene.margin, scene.rows)
    rows, total = scene.rows, np.zeros(6)
    for i in range(rows.count):
        force = K * rows.arrays.weight[i] * max(0.0, -rows.separation[i]) * rows.normal[i]
        total += np.concatenate([force, np.cross(rows.point[i] - pose.translation, force) / R])
    return total


@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("tilt", [(0.0, 3.0), (8.0, 25.0), (0.0, 40.0)])
def test_the_wrench_is_continuous_over_edges_and_tilts(ground: str, tilt: tuple[float, float]) -> None:
    """A cylinder on random paths, whose lower cap is over a border, at 0.1 to 1 mm.

    Where the wrench changes most between two of 100 poses, the change is bisected: what is left of it is less than
    0.06 N, of forces of 2 to 16 N. Nearest points of coal are right to 1e-6 m, which is 0.004 N at each contact.
    Centres of caps are no more than 0.6 radii beyond the border: where shapes overlap sideways by less than their
    depth, the shortest way out is sideways.
    """
    rng = np.random.default_rng(20542)
    scene, extents = on(ground), np.array(GROUNDS[ground][1])
    beyond = 0.6 * min(R, 0.03 if ground == "smaller cylinder" else R)
    for _ in range(3):
        ends = []
        for _ in range(2):
            angle = rng.uniform(0.0, 2.0 * math.pi)
            place = rng.uniform(-1, 1, 2) * extents + beyond * np.array([math.cos(angle), math.sin(angle)])
            turn = [rng.uniform(-180, 180), rng.uniform(*tilt), rng.uniform(-180, 180)]
            ends.append(np.concatenate([place, turn, [rng.uniform(1e-4, 1e-3)]]))

        def at_part(part: float, ends: list[np.ndarray] = ends) -> np.ndarray:
            return wrench(scene, pose_of(ends[0] + part * (ends[1] - ends[0])))

        parts = np.linspace(0.0, 1.0, 101)
        found = [at_part(part) for part in parts]
        changes = [np.abs(found[k + 1] - found[k]).max() for k in range(100)]
        for k in np.argsort(changes)[-3:].tolist():
            low, high, below, after = parts[k], parts[k + 1], found[k], found[k + 1]
            for _ in range(20):
                middle = 0.5 * (low + high)
                between = at_part(middle)
                if np.abs(between - below).max() > np.abs(after - between).max():
                    high, after = middle, between
                else:
                    low, below = middle, between
            assert np.abs(after - below).max() < 0.06, (low, ends)


# Energy


def edge_trial(seed: int) -> tuple[dict[str, Body], str, float, float]:
    """A cylinder that falls onto the border of a box or cylinder, 0.3 to 4 times its size; as `test_springs.trial`."""
    rng = np.random.default_rng([20543, seed])
    method, rate = str(rng.choice(METHODS)), float(rng.choice([250, 500, 1000, 2000, 4000, 8000]))
    radius, mass, ratio = np.exp(rng.uniform(np.log([0.01, 1e-3, 0.3]), np.log([0.1, 100.0, 4.0]))).tolist()
    length, side = radius * float(rng.uniform(0.1, 3.0)), radius * ratio
    floor: Body = {"joint": "fixed", "position": [0, 0, -0.05]}
    if rng.random() < 0.5:
        floor["shapes"] = [{"type": "box", "size": [side, 2 * side, 0.1]}]
    else:
        floor["shapes"] = [{"type": "cylinder", "radius": side, "length": 0.1}]
    tilt, angle = float(rng.uniform(0.0, 0.4 if rng.random() < 0.6 else 3.0)), float(rng.uniform(0.0, 2.0 * math.pi))
    place = side * rng.uniform(-0.7, 0.7, 2) + 0.5 * radius * np.array([math.cos(angle), math.sin(angle)])
    reach = radius * abs(math.sin(tilt)) + 0.5 * length * abs(math.cos(tilt))
    body = cylinder(radius, length, mass=mass, rotation=[tilt, 0.0, float(rng.uniform(-3, 3))])
    body["position"] = [*place.tolist(), reach + float(rng.uniform(1e-4, 0.1))]
    body["velocity"] = [*rng.uniform(-0.5, 0.5, 2).tolist(), 0.0, *rng.uniform(-3, 3, 3).tolist()]
    push = float(rng.uniform(0.0, 1.0)) * mass * G if rng.random() < 0.5 else 0.0
    return {"floor": floor, "body": body}, method, rate, push


def check_edges(seeds: range, duration: float) -> int:
    """How many of these cylinders were in contact."""
    touched = 0
    for seed in seeds:
        bodies, method, rate, push = edge_trial(seed)
        sim = Simulation(bodies, method, rate, DEFAULT, carried=True, gravity=[0.0, 0.0, -G])
        check_energy(sim, int(duration * rate), push, of=(seed, method, rate))
        touched += sim.touched > 3
    return touched


def test_cylinders_that_fall_on_edges_gain_no_energy() -> None:
    assert check_edges(range(20), 0.3) >= 8


@pytest.mark.exhaustive
def test_of_many_cylinders_that_fall_on_edges_none_gains_energy() -> None:
    assert check_edges(range(400), 1.0) >= 200


def test_a_cylinder_that_is_pushed_over_an_edge_gains_no_energy() -> None:
    """Slowly and with friction; its contacts come, go and get softer under its weight."""
    floor: Body = {"joint": "fixed", "position": [0, 0, -0.05], "shapes": [{"type": "box", "size": [0.2, 0.2, 0.1]}]}
    for method in ("penalty", "impulse_augmented", "constraint"):
        body = cylinder(R, 0.04, mass=1.0, position=[0.03, 0.02, 0.02], velocity=[0.9, 0.1, 0.0, 0.0, 0.0, 2.0])
        sim = Simulation({"floor": floor, "body": body}, method, contact=DEFAULT, gravity=[0.0, 0.0, -G])
        check_energy(sim, 500, of=method)
        assert sim.q("body")[0] > 0.08


def test_a_row_that_is_moved_keeps_its_weight() -> None:
    """Where bodies sleep, the rows of those that are awake move up."""
    rows = ContactRows()
    rows.arrays.weight[:2] = 1.0, 0.25
    _move_row(rows.arrays, 1, 0)
    assert rows.arrays.weight[0] == 0.25


@pytest.mark.parametrize("method", sampled(METHODS, "penalty", "constraint"))
def test_cylinders_at_rest_stay_and_gain_no_energy(method: str) -> None:
    """Two that stand on each other on a box, beside one that lies on the floor, with rolling friction.

    From 0.5 s on none moves by 10 um in 1 s, and the energy does not rise by 1 uJ. Bonds of friction swing.
    """
    standing = {"joint": "free", "shapes": [{"type": "cylinder", "radius": 0.03, "length": 0.05}]}
    lying = {"joint": "free", "shapes": [{"type": "cylinder", "radius": 0.02, "length": 0.05}]}
    bodies = {
        "floor": plane(),
        "base": box((0, 0, 0.02501), (0.06, 0.06, 0.05), mass=1.0),
        "low": {**standing, "mass": 0.7, "position": [0.002, -0.001, 0.07502], "rotation": [0, 0, 0.7]},
        "high": {**standing, "mass": 0.5, "position": [-0.001, 0.002, 0.12503], "rotation": [0, 0, 2.0]},
        "log": {**lying, "mass": 0.3, "position": [0.2, 0, 0.02001], "rotation": [0, 0.5 * np.pi, 0]},
    }
    names = list(bodies)[1:]
    contact = {**DEFAULT, "friction": {"rolling": 1e-3}}
    sim = Simulation(bodies, method, 1000.0, contact, carried=True, gravity=[0, 0, -G]).step(500)
    start = {name: sim.q(name)[:3] for name in names}
    least = np.inf
    for _ in range(1000):
        sim.step()
        energy = sim.state.energy[:3].sum()
        least = min(least, energy)
        assert energy - least < 1e-6
    for name in names:
        assert np.linalg.norm(sim.q(name)[:3] - start[name]) < 1e-5
        assert np.abs(sim.v(name)[:3]).max() < (1e-4 if method in RIGID else 1e-3)
