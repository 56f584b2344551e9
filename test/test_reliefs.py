"""Textures as they are drawn: shades of heights, pictures of triangles, what is too fine, the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import load, port_of_own
from test_height_maps import GRAY
from uv_meshes import globe, write_obj

from haptic_bench.experiment.shown import build_scene
from haptic_sim.geometry.collision.textured import heights_of
from haptic_sim.geometry.textures import GratingParameters
from haptic_view.reliefs import MOST_PIXELS, SHADES, drawn, is_drawable, pixel_of, shades
from haptic_view.shapes import Relief, Shape, ball, box, cylinder, moved

COLOUR = (120, 160, 200)
SHAPES = {
    "box": box(0, np.array([0.05, 0.02, 0.01])),
    "ball": ball(0, (0.02,) * 3),
    "thin cylinder": cylinder(0, 0.002, 0.1),
}


def textured(shape: Shape, wavelength: float = 0.01, **keys: Any) -> Shape:
    """The shape, turned and moved in its body, with a grating in its own axes."""
    X, angle = np.eye(4), 0.7
    X[:2, :2], X[:3, 3] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]], [0.1, -0.2, 0.3]
    texture = GratingParameters(wavelength=wavelength, amplitude=1e-4, direction=(1, 2, 3), **keys)
    return replace(moved(shape, X), relief=Relief(texture, X))


@pytest.mark.parametrize("name", SHAPES)
def test_a_point_of_a_triangle_has_the_shade_of_its_height(name: str) -> None:
    shape, rng = textured(SHAPES[name]), np.random.default_rng(1)
    mesh: Any = drawn(shape, COLOUR)
    assert shape.relief is not None
    picture = np.asarray(mesh.visual.material.baseColorTexture, float)
    triangles = rng.integers(len(mesh.faces), size=300)
    parts = rng.dirichlet([1.0, 1.0, 1.0], size=300)
    points = np.einsum("nk,nki->ni", parts, mesh.vertices[mesh.faces[triangles]])
    uv = np.einsum("nk,nki->ni", parts, np.asarray(mesh.visual.uv)[mesh.faces[triangles]])
    X = shape.relief.X_BS
    heights = heights_of(shape.relief.texture, (points - X[:3, 3]) @ X[:3, :3], np.zeros((300, 3)))
    rows, columns = picture.shape[:2]
    at = np.stack([(1.0 - uv[:, 1]) * rows, uv[:, 0] * columns], -1).astype(int)
    found = picture[at[:, 0], at[:, 1], 0]
    expected = np.interp(1.0 + heights / 2e-4, np.linspace(0.0, 1.0, SHADES), shades(COLOUR)[:, 0])
    steepest = np.pi * pixel_of(shape) / 0.01 / np.sqrt(2.0)  # of half a diagonal of a pixel, of the depth
    assert np.abs(found - expected).max() <= 1.5 + 2.0 * steepest * np.ptp(shades(COLOUR)[:, 0])
    assert picture.shape[0] * picture.shape[1] < 1.5 * MOST_PIXELS


@pytest.mark.parametrize("name", SHAPES)
def test_the_triangles_drawn_are_those_of_the_shape_and_their_rectangles_are_apart(name: str) -> None:
    shape = textured(SHAPES[name])
    mesh: Any = drawn(shape, COLOUR)
    corners = shape.vertices[shape.faces]
    np.testing.assert_allclose(mesh.vertices[mesh.faces].mean(axis=1), corners.mean(axis=1), atol=1e-12)
    outward = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals = np.asarray(mesh.vertex_normals)[mesh.faces]
    assert np.einsum("ni,nki->nk", outward, normals).min() > 0.0
    if shape.smooth:
        centre = shape.vertices.mean(axis=0)
        from_centre = (mesh.vertices - centre) / np.linalg.norm(mesh.vertices - centre, axis=1, keepdims=True)
        assert np.einsum("ni,ni->n", from_centre, mesh.vertex_normals).min() > 0.99
    uv = np.asarray(mesh.visual.uv)[mesh.faces]
    low, high = uv.min(axis=1), uv.max(axis=1)
    assert low.min() > 0.0 and high.max() < 1.0
    apart = (low[:, None] > high[None]) | (low[None] > high[:, None])
    np.fill_diagonal(apart[..., 0], True)
    assert apart.any(axis=2).all()


def test_a_texture_that_is_too_fine_is_not_drawn() -> None:
    assert is_drawable(textured(SHAPES["box"], 1e-3))
    assert not is_drawable(textured(SHAPES["box"], 1e-4))


PLATE = "scene.bodies.plate.shapes[0]"


def test_a_page_shows_the_texture_of_a_mesh_and_of_what_is_held(tmp_path: Path) -> None:
    """As a picture on triangles that can be dragged as any other; the transparent device has none."""
    pytest.importorskip("viser")
    from haptic_view.page import Page

    np.save(tmp_path / "relief.npy", GRAY)
    path = write_obj(tmp_path / "globe.obj", *globe(columns=16, rows=8))
    texture = f"{{type: uv, path: {tmp_path / 'relief.npy'}, amplitude: 1e-4, spacing: 0.004}}"
    mesh = f"{PLATE}={{type: mesh, path: {path}, as: hull, position: [0, 0, -0.03], texture: {texture}}}"
    ball = "scene.bodies.ball.shapes[0].texture={type: grating, wavelength: 2e-3, amplitude: 1e-5}"
    scene = build_scene(load("grating", "analysis=trial", mesh, ball))
    assert not scene.notes
    page = Page(scene, port=port_of_own())
    try:
        kinds = {name: type(handle).__name__ for name, handle in page.meshes.items()}
        assert kinds["/bodies/plate/0"] == kinds["/bodies/ball/1"] == "GlbHandle"
        assert kinds["/hands/hand/device/1"] == "MeshHandle"
        assert all(callable(handle.on_drag) for handle in page.meshes.values())
    finally:
        page.stop()


def test_a_texture_that_is_not_shown_is_said() -> None:
    fine = f"{PLATE}.texture={{type: grating, wavelength: 1e-5, amplitude: 1e-8}}"
    scene = build_scene(load("grating", "analysis=trial", fine))
    assert scene.notes == ("bodies.plate: its texture is not shown: it is too fine for its surface",)
    assert not build_scene(load("grating")).notes
