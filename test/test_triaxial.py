"""Height maps along three axes: gradient, bounds, zero work on closed paths over curved shapes, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import coal
import numpy as np
import pinocchio as pin
import pytest
from collision_scenes import Scene
from conftest import sampled
from test_height_maps import AMPLITUDE, GRAY, PIXEL
from test_textured_worlds import KINETIC, RADIUS, run
from test_textures import energy_of, wrench_of
from world_builder import ball

from haptic_sim.geometry.shapes import (
    AnyShapeParameters,
    BoxParameters,
    CapsuleParameters,
    CylinderParameters,
    PlaneParameters,
    SphereParameters,
    coordinates_of,
    solid,
    surface_of,
)
from haptic_sim.geometry.textures import Surface, TextureAnswer, TextureError, TexturePlace, contradiction
from haptic_sim.geometry.triaxial import TriaxialParameters, blended
from haptic_sim.records import allocate

SHAPES: dict[str, Any] = {
    "sphere": SphereParameters(radius=0.03),
    "box": BoxParameters(size=(0.04, 0.05, 0.02)),
    "cylinder": CylinderParameters(radius=0.02, length=0.05),
    "capsule": CapsuleParameters(radius=0.02, length=0.03),
    "plane": PlaneParameters(normal=(0.3, 0.2, 1.0), offset=0.01),
}


def texture(folder: Path, shape: AnyShapeParameters, **keys: Any) -> TriaxialParameters:
    np.save(folder / "relief.npy", GRAY)
    given = {"path": "relief.npy", "pixel": PIXEL, "amplitude": AMPLITUDE, **keys}
    one = TriaxialParameters.model_validate(given).loaded(lambda path: folder / path)
    return one.fitted(Surface(lambda: surface_of(solid(shape, folder)), lambda: coordinates_of(shape, folder)))


def law(one: TriaxialParameters, numbers: np.ndarray, x: np.ndarray) -> tuple[float, np.ndarray]:
    place, answer = allocate(TexturePlace), allocate(TextureAnswer)
    place.position[:] = x
    blended(place, numbers, answer)
    return float(answer.height[0]), answer.gradient.copy()


@pytest.mark.parametrize("name", SHAPES)
def test_points_of_a_surface_are_on_it_with_its_normals(name: str, tmp_path: Path) -> None:
    """By the distances of coal: a step along the normal is that far away from the surface."""
    one = solid(SHAPES[name], tmp_path)
    points, normals = surface_of(one)
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1.0, atol=1e-12)
    probe, step = coal.Sphere(1e-4), 5e-3
    for i in range(0, len(points), max(1, len(points) // 50)):
        found = coal.DistanceResult()
        at = coal.Transform3s(np.eye(3), points[i] + step * normals[i])
        coal.distance(one.geometry[0], coal.Transform3s(), probe, at, coal.DistanceRequest(), found)
        assert found.min_distance + 1e-4 == pytest.approx(step, abs=1e-4)


@pytest.mark.parametrize("name", SHAPES)
def test_gradient_depth_and_bounds_are_those_of_the_height(name: str, tmp_path: Path) -> None:
    one = texture(tmp_path, SHAPES[name], repeats=False)
    assert contradiction(one) == ""
    rng, numbers, near = np.random.default_rng(7), one.numbers(), 1e-6
    for x in rng.uniform(-0.04, 0.04, (50, 3)):
        _, g = law(one, numbers, x)
        d = rng.normal(size=3)
        d /= np.linalg.norm(d)
        bent = law(one, numbers, x + near * d)[1] - law(one, numbers, x - near * d)[1]
        assert np.linalg.norm(g) <= one.largest_slope
        assert np.linalg.norm(bent) <= 2.0 * near * one.largest_curvature * (1.0 + 1e-6)


def test_on_a_face_it_is_the_projection_along_its_axis(tmp_path: Path) -> None:
    """In the middle of a face of a box, where no other face is near, the other weights are 0."""
    one = texture(tmp_path, BoxParameters(size=(0.1, 0.1, 0.1)), blend=0.004)
    numbers = one.numbers()
    _, at_top = law(one, numbers, np.array([0.01, 0.013, 0.05]))
    _, at_side = law(one, numbers, np.array([0.05, 0.01, 0.013]))
    assert at_top[2] == 0.0 and np.abs(at_top[:2]).min() > 1e-3
    np.testing.assert_allclose(at_side, [0.0, *at_top[:2]], atol=1e-12)


NEAREST: dict[str, Any] = {
    "sphere": lambda y: np.zeros_like(y),
    "capsule": lambda y: np.clip(y, [0, 0, -0.015], [0, 0, 0.015]),
    "box": lambda y: np.clip(y, [-0.02, -0.025, -0.01], [0.02, 0.025, 0.01]),
}
"""The point of a shape, without its radius, that is nearest to points."""


CROSSINGS = 16  # of borders between faces, edges and corners on a path at most; the slope of the row jumps there


def led_around(scene: Scene, name: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Work on a ball that is led around a shape, and change of the energy of its spring, of each step, (count,)."""
    shape, r = SHAPES[name], 0.01
    axes = np.linalg.qr(np.random.default_rng(11).normal(size=(3, 3)))[0]
    t = np.linspace(0.0, 2.0 * np.pi, count, endpoint=False)
    ring = 0.06 * np.stack([np.cos(t), np.sin(t), 0.3 * np.sin(2 * t)], -1) @ axes.T
    near = NEAREST[name](ring)
    outward = (ring - near) / np.linalg.norm(ring - near, axis=1, keepdims=True)
    depth = 6e-4 - 1e-4 * np.sin(3 * t)
    centres = near + (getattr(shape, "radius", 0.0) + r - depth)[:, None] * outward
    forces, energies = [], []
    for x in centres:
        scene.contacts(pin.SE3.Identity(), pin.SE3(np.eye(3), x))
        forces.append(wrench_of(scene, x)[:3])
        energies.append(energy_of(scene))
    f, e = np.array(forces), np.array(energies)
    work = np.sum(0.5 * (np.roll(f, -1, 0) + f) * (np.roll(centres, -1, 0) - centres), axis=1)
    return work, np.roll(e, -1) - e


@pytest.mark.parametrize("name", sampled(NEAREST, "capsule"))
def test_a_closed_path_over_a_curved_surface_does_no_work(name: str, tmp_path: Path) -> None:
    """In each step the work is what the spring loses, but for the error of the trapezoidal rule, of second order.

    On the smooth path over a sphere its sum is 0 to 1e-6 of the work to and fro.
    """
    one = texture(tmp_path, SHAPES[name], amplitude=2e-4)
    geometry = solid(SHAPES[name], tmp_path).geometry[0]
    scene = Scene(geometry, coal.Sphere(0.01), margin=0.01, textures={"shape 0": one})
    rest = []
    for count in (1000, 4000):
        work, stored = led_around(scene, name, count)
        moved = float(np.abs(work).sum())
        assert moved > 1e-4
        rest.append(float(np.sort(np.abs(work + stored))[: count - CROSSINGS].sum()) / moved)
    assert rest[1] < 3e-4 and rest[1] < 0.12 * rest[0]
    assert abs(float(work.sum())) < (1e-6 if name == "sphere" else 1e-3) * moved


def test_a_ball_that_rolls_around_a_textured_ball_keeps_its_energy(tmp_path: Path) -> None:
    """It slides without friction in the valley between two of them."""
    np.save(tmp_path / "relief.npy", GRAY)
    keys = {"type": "triaxial", "path": str(tmp_path / "relief.npy"), "pixel": 6e-3, "amplitude": 3e-4}
    dish = {
        "joint": "fixed",
        "shapes": [{"type": "sphere", "radius": 0.1, "position": [0, y, -0.1], "texture": keys} for y in (-0.05, 0.05)],
    }
    height = np.sqrt((0.1 + RADIUS) ** 2 - 0.05**2) - 0.1 - 6e-4
    scene = {
        "bodies": {"dish": dish, "ball": ball([0.003, 0, height], [0.3, 0, 0], radius=RADIUS, mass=0.1)},
        "tool": "ball",
        "allowed_overlap": 0.01,
    }
    errors = []
    for rate in (2000.0, 8000.0):
        _, totals, _ = run(scene, rate, 0.05)
        errors.append(float(np.abs(totals - totals[0]).max()))
    assert errors[0] < 0.02 * KINETIC and errors[1] < 0.4 * errors[0]


def test_a_blend_that_is_too_short_names_one_that_would_do(tmp_path: Path) -> None:
    with pytest.raises(TextureError, match=r"\.blend = 1e-05 m: needs .* set it to (.*) m") as error:
        texture(tmp_path, SHAPES["sphere"], blend=1e-5)
    texture(tmp_path, SHAPES["sphere"], blend=float(str(error.value).split()[-2]))
