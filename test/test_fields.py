"""Signed distance fields and point shells against closed forms and independent computations."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest
import trimesh
from conftest import ROOT
from field_scenes import pipe, torus, torus_distance

from haptic_sim.geometry.collision.field_contacts import smooth_minimum
from haptic_sim.geometry.fields.distances import LANES, ROWS, FieldError, distances_at, gather_grids
from haptic_sim.geometry.fields.field import (
    SPACING,
    arrays_of,
    build_field,
    field_of,
    round_field,
    sample,
)
from haptic_sim.geometry.fields.triangles import close_holes, squared_distance

ACCURACY = 5e-4


def values(field, points):
    """Distances (n,) and gradients (n, 3) of a field at points (n, 3)."""
    distances, gradients = np.empty(len(points)), np.empty((len(points), 3))
    sample(gather_grids([field.grid]), np.ascontiguousarray(points), distances, gradients)
    return distances, gradients


@pytest.fixture(scope="module")
def ring():
    return build_field(*torus(), ACCURACY)


def brute_force(points, vertices, triangles):
    """Distances by another formula than the kernel's: the plane's where the foot is inside, else that of the edges."""
    best = np.full(len(points), np.inf)
    for t in triangles:
        a, b, c = vertices[t]
        n = np.cross(b - a, c - a)
        n /= np.linalg.norm(n)
        inside = np.ones(len(points), bool)
        for u, v in ((a, b), (b, c), (c, a)):
            along = np.clip((points - u) @ (v - u) / ((v - u) @ (v - u)), 0.0, 1.0)
            best = np.minimum(best, np.linalg.norm(points - u - along[:, None] * (v - u), axis=1))
            inside &= (points - u) @ np.cross(n, v - u) >= 0.0
        best = np.where(inside, np.minimum(best, np.abs((points - a) @ n)), best)
    return best


def test_distance_of_a_triangle():
    rng = np.random.default_rng(1)
    for _ in range(20):
        triangle, points = rng.normal(size=(3, 3)), 2.0 * rng.normal(size=(40, 3))
        found = [np.sqrt(squared_distance(tuple(p), *map(tuple, triangle))) for p in points]
        np.testing.assert_allclose(found, brute_force(points, triangle, np.array([[0, 1, 2]])), atol=1e-12)


@pytest.mark.exhaustive
def test_distances_near_the_surface_are_those_of_the_triangles(ring):
    vertices, triangles = torus()
    rng = np.random.default_rng(2)
    points = vertices[rng.integers(len(vertices), size=300)] + rng.uniform(-1e-3, 1e-3, (300, 3))
    found, _ = values(ring, points)
    np.testing.assert_allclose(np.abs(found), brute_force(points, vertices, triangles), atol=0.2 * ACCURACY)
    # chords of 60 and 120 sections leave out up to 0.05 mm
    np.testing.assert_allclose(found, torus_distance(points), atol=0.2 * ACCURACY)


def test_distances_anywhere_have_the_right_sign_and_are_near(ring):
    points = np.random.default_rng(3).uniform(-0.1, 0.1, (5000, 3))
    found, gradients = values(ring, points)
    exact = torus_distance(points)
    coarse = 4.0 * SPACING * ACCURACY
    assert np.all(found < exact + coarse)
    inside = (np.abs(points) < [0.08, 0.08, 0.03]).all(axis=1)
    assert np.all(found[inside] > exact[inside] - coarse)
    clear = np.abs(exact) > 4.0 * SPACING * ACCURACY
    assert np.all((found > 0.0)[clear] == (exact > 0.0)[clear])
    assert np.linalg.norm(gradients, axis=1).max() < 1.25


def test_gradient_is_that_of_the_interpolation(ring):
    points = np.random.default_rng(4).uniform(-0.08, 0.08, (3000, 3))
    _, gradients = values(ring, points)
    for k in range(3):
        step = np.zeros(3)
        step[k] = 1e-6
        rate = (values(ring, points + step)[0] - values(ring, points - step)[0]) / 2e-6
        np.testing.assert_allclose(gradients[:, k], rate, atol=2e-3)


def test_gradient_is_continuous_across_cells(ring):
    """Its change over a tenth of a micrometre is that of a curvature: at most 1 / (2 h) near a surface of 20 mm."""
    rng = np.random.default_rng(5)
    points = np.asarray(torus()[0])[rng.integers(7200, size=4000)]
    step = 1e-7 * rng.normal(size=points.shape)
    change = values(ring, points + step)[1] - values(ring, points)[1]
    rate = np.linalg.norm(change, axis=1) / np.linalg.norm(step, axis=1)
    assert rate.max() < 0.5 / (SPACING * ACCURACY)


@pytest.mark.parametrize("count", [0, 1, LANES, 10 * LANES + 3])
def test_distances_of_many_points_are_those_of_one(ring, count):
    """In every bit: near the surface, where only the coarse grid has samples, and outside of the box."""
    rng = np.random.default_rng(7)
    points = rng.uniform(-0.09, 0.09, (count, 3)) * np.array([1.0, 1.0, 0.4])
    u, v, r = *rng.uniform(0.0, 2.0 * np.pi, (2, count)), 0.02 + rng.normal(0.0, 4.0 * ACCURACY, count)
    near = np.stack([(0.05 + r * np.cos(v)) * np.cos(u), (0.05 + r * np.cos(v)) * np.sin(u), r * np.sin(v)], axis=-1)
    points[::2] = near[::2]
    found, lanes = np.full((count + 1, 4), np.nan), rng.normal(size=ROWS * LANES)
    distances_at(gather_grids([ring.grid]), 0, points, count, found, lanes)
    distances, gradients = values(ring, points)
    assert np.array_equal(found[:count], np.column_stack([distances, gradients]))
    assert np.isnan(found[count]).all()  # and nothing else is written


def test_signs_of_a_mesh_with_holes():
    vertices, triangles = torus()
    rng = np.random.default_rng(6)
    centres = vertices[triangles].mean(axis=1)
    removed = np.zeros(len(triangles), bool)
    for centre in centres[rng.integers(len(centres), size=5)]:
        removed |= np.linalg.norm(centres - centre, axis=1) < 4e-3
    field = build_field(vertices, triangles[~removed], ACCURACY)
    points = rng.uniform(-0.08, 0.08, (3000, 3))
    exact = torus_distance(points)
    clear = np.abs(exact) > 3e-3
    assert np.all((values(field, points)[0] > 0.0)[clear] == (exact > 0.0)[clear])


def test_holes_are_closed_by_fans():
    vertices, triangles = torus(sections=(20, 12))
    with_hole = triangles[3:]
    _, closed, whole = close_holes(vertices, with_hole)
    assert whole
    assert len(closed) > len(with_hole)
    assert close_holes(vertices, triangles)[1] is triangles


def test_bits_do_not_depend_on_the_run(ring):
    again = arrays_of(build_field(*torus(), ACCURACY))
    for name, array in arrays_of(ring).items():
        np.testing.assert_array_equal(array, again[name], err_msg=name)
    kept = field_of(again)
    np.testing.assert_array_equal(kept.grid.blocks, ring.grid.blocks)
    assert kept.accuracy == ACCURACY


def test_points_are_spread_evenly(ring):
    points = ring.shell.points
    assert np.abs(torus_distance(points)).max() < 1e-4
    np.testing.assert_allclose(np.linalg.norm(ring.shell.normals, axis=1), 1.0)
    rng = np.random.default_rng(7)
    u, v = 2.0 * np.pi * rng.uniform(size=(2, 1000))
    r = 0.05 + 0.02 * np.cos(v)
    anywhere = np.stack([r * np.cos(u), r * np.sin(u), 0.02 * np.sin(v)], axis=-1)
    gaps = np.linalg.norm(anywhere[:, None] - points[None], axis=2).min(axis=1)
    assert gaps.max() < 1.1 * 8.0 * ACCURACY
    between = np.linalg.norm(points[:, None] - points[None], axis=2) + np.eye(len(points))
    assert between.min() > 0.7 * 8.0 * ACCURACY


def test_cells_hold_each_point_once(ring):
    shell = ring.shell
    assert len(shell.cell) - 1 == 64
    assert shell.leaf[shell.cell[-1]] == len(shell.points)
    assert np.diff(shell.leaf).max() <= 16
    for i, (begin, end) in enumerate(zip(shell.leaf[:-1], shell.leaf[1:], strict=True)):
        away = np.linalg.norm(shell.points[begin:end] - shell.leaf_ball[i, :3], axis=1)
        assert away.max() <= shell.leaf_ball[i, 3] + 1e-12


def test_sharp_edges_have_points_of_their_own():
    shell = build_field(*pipe(0.02, 0.03, 0.04), ACCURACY).shell
    for radius in (0.02, 0.03):
        angle = np.linspace(0.0, 2.0 * np.pi, 500)
        edge = np.stack([radius * np.cos(angle), radius * np.sin(angle), np.full(500, 0.02)], axis=-1)
        gaps = np.linalg.norm(edge[:, None] - shell.points[None], axis=2).min(axis=1)
        assert gaps.max() < 3.0 * ACCURACY


def test_shell_of_a_capsule():
    shell = round_field(0.02, 0.03, 1e-4).shell
    axis = np.clip(shell.points[:, 2], -0.03, 0.03)
    away = shell.points - np.stack([0.0 * axis, 0.0 * axis, axis], axis=-1)
    np.testing.assert_allclose(np.linalg.norm(away, axis=1), 0.02, rtol=1e-12)
    np.testing.assert_allclose(away / 0.02, shell.normals, atol=1e-12)


@pytest.mark.parametrize(
    ("error", "memory", "message"),
    [
        (1e-4, 10_000_000, "needs .* MB: must be at most 10 MB; allow an error of"),
        (2e-6, 400_000_000, "needs .* points: must be at most 500000; allow an error of"),
        (0.1, 400_000_000, "error = 0.1 m: must be > 0 and at most"),
    ],
)
def test_what_is_too_large_is_refused(error, memory, message):
    with pytest.raises(FieldError, match=message):
        build_field(*torus(), error, memory=memory)


def test_smooth_minimum_is_near_the_least_and_its_weights_are_its_derivative():
    rng = np.random.default_rng(8)
    for count in (1, 2, 7, 40):
        distance, weight, delta = rng.uniform(0.0, 3.0, count), np.empty(count), 1.0
        s = smooth_minimum(distance, weight, count, delta)
        assert abs(s - distance.min()) <= 0.5 * delta + 1e-12
        assert weight.sum() == pytest.approx(1.0)
        for i in range(count):
            more, less = distance.copy(), distance.copy()
            more[i] += 1e-6
            less[i] -= 1e-6
            other = np.empty(count)
            rate = (smooth_minimum(more, other, count, delta) - smooth_minimum(less, other, count, delta)) / 2e-6
            assert rate == pytest.approx(weight[i], abs=1e-5)


def test_winding_numbers_are_imported_only_where_a_field_is_built():
    program = (
        "import sys, haptic_sim.tool.environment, haptic_sim.geometry.fields.field; sys.exit('igl' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0


def boxes_apart():
    """Two cubes of 20 mm, 9 m apart: a field of few points and of much space."""
    cube = trimesh.creation.box((0.02, 0.02, 0.02))
    both = trimesh.util.concatenate([cube, cube.copy().apply_translation([5.0, 5.0, 5.0])])
    return np.array(both.vertices), np.array(both.faces)


@pytest.mark.parametrize(
    ("mesh", "error", "memory"),
    [
        (boxes_apart, 2e-5, 4_000_000),  # most of it for the coarse grid
        (torus, 2e-4, 4_000_000),  # most of it for blocks along the surface
        (torus, 1e-5, 40_000_000),  # too many points, and too much memory
    ],
)
def test_the_error_that_would_do_does_and_is_not_much_larger_than_needed(mesh, error, memory):
    with pytest.raises(FieldError) as caught:
        build_field(*mesh(), error, memory=memory)
    (text,) = re.findall(r"; allow an error of ([0-9.e-]+) m$", str(caught.value))
    field = build_field(*mesh(), float(text), memory=memory)
    assert field.accuracy == float(text) > error
    with pytest.raises(FieldError):
        build_field(*mesh(), 0.8 * float(text), memory=memory)
