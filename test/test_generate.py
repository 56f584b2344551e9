"""Generated shapes: closed, turned outwards, of the volume and the pitch that closed forms say."""

from __future__ import annotations

import math

import numpy as np
import pytest
import trimesh

from haptic_sim.geometry import generate


def surface(name: str, **numbers: float) -> trimesh.Trimesh:
    return trimesh.Trimesh(*generate.SHAPES[name](**numbers), process=False)


@pytest.mark.parametrize(
    ("name", "numbers", "handles"),
    [
        ("mug", {}, 1),
        ("mug", {"sides": 32, "span": 0.04}, 1),
        ("hook", {}, 0),
        ("gear", {"teeth": 13}, 1),
        ("bolt", {"length": 0.01}, 0),
        ("bolt", {"length": 0.01, "head": 0.0}, 0),
        ("nut", {}, 1),
        ("bone", {"cells": 40}, 0),
    ],
)
def test_surfaces_are_closed_and_turned_outwards(name: str, numbers: dict[str, float], handles: int) -> None:
    found = surface(name, **numbers)
    assert found.is_watertight and found.is_winding_consistent and found.volume > 0.0
    assert found.euler_number == 2 - 2 * handles
    assert found.area_faces.min() > 0.0
    assert len(np.unique(found.faces)) == len(found.vertices)  # none is left over
    again = generate.SHAPES[name](**numbers)
    np.testing.assert_array_equal(again[0], found.vertices)


def test_volume_of_a_mug_is_that_of_its_wall_bottom_and_handle() -> None:
    radius, height, wall, base, handle, reach, span = 0.04, 0.09, 0.004, 0.006, 0.003, 0.03, 0.05
    found = surface("mug", handle=handle, sides=200)
    body = math.pi * radius**2 * height - math.pi * (radius - wall) ** 2 * (height - base)
    a, b = reach, 0.5 * span
    ellipse = 0.5 * math.pi * (3 * (a + b) - math.sqrt((3 * a + b) * (a + 3 * b)))  # Ramanujan, half of it
    assert found.volume == pytest.approx(body + math.pi * handle**2 * ellipse, rel=0.01)


def test_area_of_a_gear_is_that_of_its_involutes() -> None:
    """Sectors below the involutes, rb^2 t^3 / 6 by the angle of roll t, below the top lands and of the roots."""
    teeth, module, pressure = 30, 0.004, math.radians(20.0)
    generate_outline = generate.gear_outline(teeth, module, pressure, 0.0)
    x, y = generate_outline.T
    found = 0.5 * float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y))
    pitch, tip, root = 0.5 * module * teeth, 0.5 * module * (teeth + 2), 0.5 * module * (teeth - 2.5)
    base = pitch * math.cos(pressure)
    roll = math.sqrt((tip / base) ** 2 - 1.0)
    half = 0.5 * math.pi / teeth + math.tan(pressure) - pressure
    land = half - (roll - math.atan(roll))
    tooth = 2.0 * base**2 * roll**3 / 6.0 + land * tip**2
    gap = (math.pi / teeth - half) * root**2
    assert found == pytest.approx(teeth * (tooth + gap), rel=2e-3)
    assert np.hypot(x, y).max() == pytest.approx(tip) and np.hypot(x, y).min() == pytest.approx(root)


def test_thread_has_its_pitch_and_the_area_of_its_profile() -> None:
    diameter, pitch, length = 0.02, 0.0025, 0.01
    z = np.linspace(0.0, length, 4000, endpoint=False)
    radius = generate.thread_radius(z, diameter, pitch)
    np.testing.assert_allclose(generate.thread_radius(z + pitch, diameter, pitch), radius, atol=1e-12)
    assert radius.max() == pytest.approx(0.5 * diameter)
    minor = diameter - 1.082532 * pitch  # ISO 724
    assert 2.0 * radius.min() == pytest.approx(minor, rel=1e-5)
    rod = surface("bolt", length=length, head=0.0, sides=200)
    assert rod.volume == pytest.approx(math.pi * float(np.mean(radius**2)) * length, rel=5e-3)
    # along a line of the surface the thread comes again after a pitch, and a quarter turn shifts it by a quarter of it
    points = rod.vertices[:-2].reshape(-1, 200, 3)
    r = np.hypot(points[..., 0], points[..., 1])
    layers = generate.THREAD_LAYERS
    np.testing.assert_allclose(r[layers:], r[:-layers], atol=1e-12)
    np.testing.assert_allclose(r[layers // 4 :, 50], r[: -(layers // 4), 0], atol=1e-12)


def test_nut_leaves_its_clearance_to_the_bolt() -> None:
    clearance = 0.00015
    nut, rod = generate.nut(clearance=clearance, sides=48)[0], generate.bolt(head=0.0, length=0.016, sides=48)[0]
    inside = nut.reshape(-1, 48, 3)[2:][::-1]  # from the bottom up
    outside = rod[:-2].reshape(-1, 48, 3)[: len(inside)]
    gap = np.hypot(*inside[..., :2].T) - np.hypot(*outside[..., :2].T)
    np.testing.assert_allclose(inside[..., 2], outside[..., 2], atol=1e-12)
    np.testing.assert_allclose(gap, clearance, atol=1e-12)


def test_an_implicit_surface_is_a_ball() -> None:
    low, high = np.full(3, -1.2), np.full(3, 1.2)
    ball = trimesh.Trimesh(*generate.implicit_surface(lambda p: np.linalg.norm(p, axis=-1) - 1.0, low, high, 40))
    assert ball.is_watertight and ball.is_winding_consistent and ball.euler_number == 2
    assert ball.volume == pytest.approx(4.0 / 3.0 * math.pi, rel=5e-3)


@pytest.mark.exhaustive
def test_bone_is_a_scan_of_200000_triangles() -> None:
    found = surface("bone")
    assert 190_000 <= len(found.faces) <= 210_000 and found.is_watertight
