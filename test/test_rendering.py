"""Drawing of shapes: the nearest triangle, sections by a plane, patches between sharp edges, and outlines."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from conftest import sampled

from haptic_view import rendering
from haptic_view.scene import AT_REST
from haptic_view.shapes import Shape, at, ball, box, cylinder, pose_of, ring

SIZE, SCALE = (120.0, 90.0), 40.0  # [px], [px/m]
LIGHT = np.array([0.0, 0.6, 0.8])
UNCUT = np.zeros(4)


def projection(R: np.ndarray) -> np.ndarray:
    """To the right, down and towards the eye along the axes of a rotation, the origin in the middle."""
    return np.concatenate([SCALE * np.diag([1.0, -1.0, 1.0]) @ R, [[60.0], [45.0], [0.0]]], axis=1)


def rotation(rng: np.random.Generator) -> np.ndarray:
    return np.asarray(pin.Quaternion(rng.normal(size=4)).normalized().matrix())


def drawn(shapes: list[Shape], poses: list[np.ndarray], R: np.ndarray, cut: np.ndarray = UNCUT) -> rendering.Image:
    surfaces = [rendering.surface_of(shape) for shape in shapes]
    first = np.concatenate([[0], np.cumsum([one.patches for one in surfaces])])
    image = rendering.empty(SIZE, 4)
    placed = list(zip(range(len(shapes)), first.tolist(), surfaces, poses, strict=False))
    rendering.draw(image, placed, projection(R), LIGHT, cut)
    return image


def torus() -> Shape:
    return ring(0, 0.7, 0.2)


def area(mask: np.ndarray) -> float:
    """Of a region [m^2]."""
    return float(mask.sum()) / (4.0 * SCALE) ** 2


@pytest.mark.parametrize("seed", sampled(range(4), 0))
def test_of_bodies_that_interlock_the_nearest_is_seen(seed: int) -> None:
    """Two rings in each other and a box; each pixel against all intersections of its line of sight with triangles."""
    rng = np.random.default_rng(seed)
    shapes = [torus(), torus(), box(0, np.array([0.2, 0.3, 0.9]))]
    poses = [pose_of(np.eye(4)) for _ in shapes]
    for pose, place in zip(poses, ([0, 0, 0], [0.7, 0, 0], [-0.3, 0.1, 0.2]), strict=True):
        X = np.eye(4)
        X[:3, :3], X[:3, 3] = rotation(rng), place
        pose[:] = pose_of(X)
    R = rotation(rng)
    image, project = drawn(shapes, poses, R), 4.0 * projection(R)
    first = np.cumsum([0, *(rendering.surface_of(shape).patches for shape in shapes)])
    differ = 0
    for i, k in rng.integers([0, 0], [360, 480], size=(400, 2)):
        found = []
        for number, (shape, pose) in enumerate(zip(shapes, poses, strict=True)):
            a, b, c = (at(pose, shape.vertices)[shape.faces] @ project[:, :3].T + project[:, 3]).swapaxes(0, 1)
            M = np.stack([b[:, :2] - a[:, :2], c[:, :2] - a[:, :2]], axis=-1)
            flat = np.abs(np.linalg.det(M)) < 1e-9
            u, v = np.linalg.solve(M[~flat], ([k + 0.5, i + 0.5] - a[~flat, :2])[..., None])[..., 0].T
            z = a[~flat, 2] + u * (b - a)[~flat, 2] + v * (c - a)[~flat, 2]
            inside = (u >= 0.0) & (v >= 0.0) & (u + v <= 1.0)
            found += [(depth, number) for depth in z[inside]]
        expected = max(found, default=(-np.inf, -1))
        seen = int(np.searchsorted(first, image.patch[i, k], side="right")) - 1
        differ += seen != expected[1]
        if found and seen == expected[1]:
            assert image.depth[i, k] == pytest.approx(expected[0], abs=1e-6)
    assert differ <= 2  # where one is nearer by less than half a pixel of the drawing
    assert len(np.unique(image.patch)) > 5


def test_a_plane_through_its_axis_cuts_a_ring_in_two_discs() -> None:
    shape, pose = torus(), pose_of(np.eye(4))
    R = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])  # along y, z up
    image = drawn([shape], [pose], R, np.array([0.0, -1.0, 0.0, 0.0]))
    section = image.patch == -2
    assert area(section) == pytest.approx(2.0 * 4.0 * 0.2**2 * np.sin(np.pi / 4.0), rel=0.01)  # of 8 corners
    right = section[:, 240:]
    assert (np.flatnonzero(right.any(axis=0)).mean() + 0.5) / (4.0 * SCALE) == pytest.approx(0.7, abs=0.01)
    assert (image.depth[section] == pytest.approx(0.0, abs=1e-9)) and (image.patch >= 0).any()  # its back is seen, too


def test_bodies_that_overlap_are_cut_each_as_far_as_it_is() -> None:
    """A bar that is thicker than the hole in a ring around it, by less than the depth of a contact: seen as a whole."""
    X = np.eye(4)
    bar = cylinder(0, 0.502, 0.8)
    R = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])
    image = drawn([bar, torus()], [pose_of(X), pose_of(X)], R, np.array([0.0, -1.0, 0.0, 0.0]))
    assert area(image.patch == -2) == pytest.approx(2.0 * 0.502 * 1.6, rel=0.01)


def test_what_is_before_a_plane_is_left_out() -> None:
    """Half of a ball, whose plane is seen at a generic angle: the section is the ellipse of its great circle."""
    R = rotation(np.random.default_rng(1))
    normal = R[2] * np.cos(0.7) + R[0] * np.sin(0.7)
    image = drawn([ball(0, (0.8,) * 3)], [np.array(AT_REST)], R, np.array([*normal, 0.0]))
    assert area(image.patch == -2) == pytest.approx(np.pi * 0.8**2 * np.cos(0.7), rel=0.02)
    expected = 0.5 * np.pi * 0.8**2 * (1.0 - np.cos(0.7))  # of the half that is behind, beside the ellipse
    assert area(image.patch >= 0) == pytest.approx(expected, rel=0.1)


def test_patches_end_at_sharp_edges_and_are_smooth_between_them() -> None:
    faces = rendering.surface_of(box(0, np.array([0.1, 0.2, 0.3])))
    assert faces.patches == 6
    for patch in range(6):
        normals = faces.normals[faces.patch == patch].reshape(-1, 3)
        assert normals == pytest.approx(np.tile(normals[0], (len(normals), 1)))
    round_one = rendering.surface_of(cylinder(0, 0.5, 0.4))
    assert round_one.patches == 3
    side = np.abs(round_one.normals[:, :, 2]).max(axis=1) < 0.5
    radial = round_one.corners[side] * [2.0, 2.0, 0.0]
    assert round_one.normals[side] == pytest.approx(
        radial, abs=0.04
    )  # of 32 sides, whose triangles weigh as much as they are large
    assert np.abs(round_one.normals[~side, :, 2]) == pytest.approx(1.0)


def test_a_mesh_without_common_vertices_is_shaded_as_one_with_them() -> None:
    one = ball(0, (0.3, 0.4, 0.5))
    apart = Shape(0, one.vertices[one.faces].reshape(-1, 3), np.arange(3 * len(one.faces)).reshape(-1, 3))
    found, expected = rendering.surface_of(apart), rendering.surface_of(one)
    assert found.patches == expected.patches == 1
    assert found.normals == pytest.approx(expected.normals)


def test_an_edge_within_a_patch_that_is_sharp_is_not_smoothed() -> None:
    """A roof whose ridge fades out at one end: its sides are one patch, and yet the ridge is sharp at the other end."""
    x = np.linspace(0.0, 1.0, 9)
    height = 0.5 * (1.0 - x)
    vertices = np.concatenate(
        [np.stack([x, y * np.ones(9), z], axis=1) for y, z in ((-0.3, 0 * x), (0, height), (0.3, 0 * x))]
    )
    faces = [
        face
        for side in (0, 9)
        for i in range(8)
        for face in ([side + i, side + i + 1, side + i + 10], [side + i, side + i + 10, side + i + 9])
    ]
    found = rendering.surface_of(Shape(0, vertices, np.array(faces), convex=False))
    assert found.patches == 1
    ridge = (found.corners[:, :, 1] == 0.0) & (found.corners[:, :, 0] == 0.0)
    assert np.abs(found.normals[ridge][:, 1]).min() > 0.5


def test_outlines_are_where_a_region_is() -> None:
    """A disc with a hole, moved by parts of a pixel."""
    y, x = np.mgrid[0:360, 0:480] + 0.5
    for shift in (0.0, 0.3, 1.7):
        distance = np.hypot(x / 4.0 - 60.0 - shift, y / 4.0 - 45.0)
        lines = rendering.outlines((distance < 30.0) & (distance > 12.0), 4, 2)
        assert len(lines) == 2
        for line in lines:
            away = np.hypot(*(line - [60.0 + shift, 45.0]).T)
            radius = 30.0 if away.mean() > 20.0 else 12.0
            assert away == pytest.approx(radius, abs=0.3)  # [px]
            assert 0.5 * (line.min(axis=0) + line.max(axis=0)) == pytest.approx([60.0 + shift, 45.0], abs=0.3)
        signed = [0.5 * float(a @ np.roll(b, -1) - b @ np.roll(a, -1)) for a, b in (line.T for line in lines)]
        assert signed[0] * signed[1] < 0.0
        assert abs(sum(signed)) == pytest.approx(np.pi * (30.0**2 - 12.0**2), rel=0.01)


def test_the_border_of_the_buffer_closes_an_outline() -> None:
    mask = np.zeros((360, 480), bool)
    mask[:, 400:] = True
    (line,) = rendering.outlines(mask, 4, 2)
    assert line.min(axis=0) == pytest.approx([100.0, 0.0], abs=0.3)
    assert line.max(axis=0) == pytest.approx([120.0, 90.0], abs=0.3)
    assert rendering.outlines(np.zeros((8, 8), bool), 4, 2) == []
