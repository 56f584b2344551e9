"""Shapes: inertias in closed form, poses, meshes as convex pieces, and what is said of bad ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import coal
import numpy as np
import pinocchio as pin
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from haptic_sim.geometry.convex import convex_shape
from haptic_sim.geometry.mesh_files import MeshError, read_mesh
from haptic_sim.geometry.meshes import CONVEX_TOLERANCE, hull_mass, take
from haptic_sim.geometry.shapes import AnyShapeParameters, Solid, impossible, placement, solid, uniform

HERE = Path(__file__).parent / "data"
SHAPE: TypeAdapter[Any] = TypeAdapter(AnyShapeParameters)
POSE = {"position": [0.3, -0.2, 0.5], "rotation": [0.7, -0.4, 1.1]}


def built(folder: Path = HERE, **shape: Any) -> Solid:
    return solid(SHAPE.validate_python(shape), folder)


def export(folder: Path, mesh: trimesh.Trimesh, name: str = "mesh.stl") -> str:
    mesh.export(folder / name)
    return name


def l_shape() -> trimesh.Trimesh:
    """A closed mesh in one piece that is not convex: an L of three unit squares, 1 m thick."""
    outline = np.array([[0, 0], [2, 0], [2, 1], [1, 1], [1, 2], [0, 2]], float)
    vertices = np.vstack([np.c_[outline, np.zeros(6)], np.c_[outline, np.ones(6)]])
    cap = [[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 4, 5]]
    faces = [triangle[::-1] for triangle in cap] + [[i + 6 for i in triangle] for triangle in cap]
    for i in range(6):
        k = (i + 1) % 6
        faces += [[i, k, k + 6], [i, k + 6, i + 6]]
    return trimesh.Trimesh(vertices, faces)


A, B, C, R, L = 0.2, 0.3, 0.5, 0.1, 0.4
BALL, ROD = 4.0 / 3.0 * np.pi * R**3, np.pi * R**2 * L


@pytest.mark.parametrize(
    ("shape", "volume", "moments"),
    [
        (
            {"type": "box", "size": [A, B, C]},
            A * B * C,
            A * B * C / 12 * np.array([B**2 + C**2, A**2 + C**2, A**2 + B**2]),
        ),
        ({"type": "sphere", "radius": R}, BALL, 0.4 * BALL * R**2 * np.ones(3)),
        (
            {"type": "cylinder", "radius": R, "length": L},
            ROD,
            ROD * np.array([(3 * R**2 + L**2) / 12, (3 * R**2 + L**2) / 12, R**2 / 2]),
        ),
        (
            {"type": "capsule", "radius": R, "length": L},
            ROD + BALL,
            # half balls: 3/8 R from their flat side to the centre of mass, L/2 from there to the middle
            ROD * np.array([(3 * R**2 + L**2) / 12, (3 * R**2 + L**2) / 12, R**2 / 2])
            + BALL * (0.4 * R**2 * np.ones(3) + (L**2 / 4 + 3 / 8 * R * L) * np.array([1, 1, 0])),
        ),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else "",
)
def test_inertia_in_closed_form_at_a_general_pose(shape: dict[str, Any], volume: float, moments: np.ndarray) -> None:
    total = uniform([built(**shape, **POSE)])
    turn = Rotation.from_euler("xyz", POSE["rotation"]).as_matrix()
    assert total is not None and total.mass == pytest.approx(volume, rel=1e-12)
    np.testing.assert_allclose(total.lever, POSE["position"], atol=1e-15)
    np.testing.assert_allclose(total.inertia, turn @ np.diag(moments) @ turn.T, rtol=1e-10, atol=1e-16)


def test_inertia_of_a_mesh_is_that_of_the_prism() -> None:
    piece = built(type="mesh", path="wedge.obj")
    a, b, h = 0.1, 0.06, 0.04  # legs of the right triangle, thickness
    m = a * b * h / 2
    np.testing.assert_allclose(piece.inertia.mass, m, rtol=1e-12)
    np.testing.assert_allclose(piece.inertia.lever, [a / 3, b / 3, h / 2], rtol=1e-12)
    # of a triangle about its centroid: int x^2 = m a^2 / 18, int xy = -m a b / 36
    x2, y2, z2, xy = m * a**2 / 18, m * b**2 / 18, m * h**2 / 12, -m * a * b / 36
    expected = [[y2 + z2, -xy, 0], [-xy, x2 + z2, 0], [0, 0, x2 + y2]]
    np.testing.assert_allclose(piece.inertia.inertia, expected, rtol=1e-10, atol=1e-18)


def test_a_box_of_two_halves_is_the_box() -> None:
    whole = uniform([built(type="box", size=[1.0, 0.4, 0.2], **POSE)])
    X = placement(tuple(POSE["position"]), tuple(POSE["rotation"]))
    halves = []
    for x in (-0.25, 0.25):
        p = X.act(np.array([x, 0.0, 0.0]))
        halves.append(built(type="box", size=[0.5, 0.4, 0.2], position=list(p), rotation=POSE["rotation"]))
    both = uniform(halves)
    assert whole is not None and both is not None and both.isApprox(whole, 1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_the_hull_of_random_points_weighs_what_its_tetrahedra_weigh(seed: int) -> None:
    """Second oracle: exact integrals over tetrahedra from the centroid of the points to the hull's triangles."""
    points = np.random.default_rng(seed).normal(size=(12, 3))
    volume, centre, inertia = hull_mass(points)
    hull = trimesh.convex.convex_hull(points)
    o = points.mean(axis=0)
    v, first, second = 0.0, np.zeros(3), np.zeros((3, 3))
    for a, b, c in hull.triangles:
        dv = abs(np.dot(a - o, np.cross(b - o, c - o))) / 6
        corners = np.array([o, a, b, c])
        s = corners.sum(axis=0)
        v += dv
        first += dv * s / 4
        second += dv / 20 * (corners.T @ corners + np.outer(s, s))
    second -= np.outer(first, first) / v
    assert volume == pytest.approx(v, rel=1e-9)
    np.testing.assert_allclose(centre, first / v, atol=1e-9)
    np.testing.assert_allclose(inertia, np.trace(second) * np.eye(3) - second, atol=1e-9 * np.trace(second))
    assert impossible(inertia) == ""


def test_a_plane_is_solid_below_and_has_no_mass() -> None:
    piece = built(type="plane", normal=[0, 0, 2], offset=0.3)
    assert uniform([piece]) is None
    ball, result = coal.Sphere(0.1), coal.DistanceResult()
    at = coal.Transform3s(np.eye(3), np.array([0.0, 0.0, 1.0]))
    assert coal.distance(
        piece.geometry[0], coal.Transform3s(), ball, at, coal.DistanceRequest(), result
    ) == pytest.approx(1.0 - 0.3 - 0.1)


def test_shapes_for_collisions_have_the_extents_of_the_parameters() -> None:
    """Distance to a half-space from every side: the support of the shape."""
    for shape, extent in [
        ({"type": "box", "size": [A, B, C]}, (A / 2, B / 2, C / 2)),
        ({"type": "sphere", "radius": R}, (R, R, R)),
        ({"type": "cylinder", "radius": R, "length": L}, (R, R, L / 2)),
        ({"type": "capsule", "radius": R, "length": L}, (R, R, L / 2 + R)),
        ({"type": "mesh", "path": "wedge.obj", "scale": [10, 10, -10]}, (1.0, 0.6, 0.0)),
    ]:
        piece = built(**shape)  # type: ignore[arg-type]
        for axis, reach in enumerate(extent):
            normal = np.zeros(3)
            normal[axis] = -1.0  # solid beyond 3 m along the axis
            wall, result = coal.Halfspace(normal, -3.0), coal.DistanceResult()
            distance = coal.distance(
                wall, coal.Transform3s(), piece.geometry[0], coal.Transform3s(), coal.DistanceRequest(), result
            )
            assert distance == pytest.approx(3.0 - reach, abs=1e-9)


# Meshes


@pytest.mark.parametrize("name", ["mesh.stl", "mesh.obj", "mesh.ply", "mesh.off"])
def test_meshes_are_read_in_several_formats(tmp_path: Path, name: str) -> None:
    export(tmp_path, trimesh.creation.icosphere(subdivisions=1, radius=0.2), name)
    piece = built(tmp_path, type="mesh", path=name)
    assert piece.geometry[0].num_points == 42


def test_each_connected_piece_is_convex_by_itself(tmp_path: Path) -> None:
    cubes = [
        trimesh.creation.box(extents=[1, 1, 1], transform=trimesh.transformations.translation_matrix([x, 0, 0]))
        for x in (0, 3)
    ]
    name = export(tmp_path, trimesh.util.concatenate(cubes))
    found = built(tmp_path, type="mesh", path=name)
    assert found.taken is not None and found.taken.summary == "2 convex pieces"
    assert sorted(float(np.mean(piece.points(), axis=0)[0]) for piece in found.geometry) == pytest.approx([0.0, 3.0])
    total = uniform([found])
    assert total is not None and total.mass == pytest.approx(2.0)
    assert total.inertia[2, 2] == pytest.approx(2 * (1 / 6 + 1.5**2))


def test_the_hull_is_taken_where_asked() -> None:
    (hull,) = take(l_shape(), "hull").corners
    assert hull_mass(hull)[0] == pytest.approx(3.5)  # four unit cubes less half of one
    assert convex_shape(hull).num_points == 10
    whole = l_shape()
    (again,) = take(trimesh.Trimesh(whole.vertices, whole.faces[:-3]), "hull").corners  # it need not be closed
    np.testing.assert_array_equal(again, hull)
    with pytest.raises(MeshError, match=r"^is flat, without volume"):
        take(trimesh.Trimesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), "hull")


@pytest.mark.parametrize("factor", [0.5, 20.0])
def test_a_dent_counts_from_the_tolerance_on(factor: float) -> None:
    """A cube one side of which, cut into four triangles, is pressed in at its middle."""
    depth = factor * CONVEX_TOLERANCE * np.sqrt(3.0)
    cube = trimesh.creation.box(extents=[1, 1, 1])
    top = np.flatnonzero(np.all(np.isclose(cube.triangles[:, :, 2], 0.5), axis=1))
    corners = [i for i in range(8) if cube.vertices[i, 2] > 0]
    corners.sort(key=lambda i: np.arctan2(cube.vertices[i, 1], cube.vertices[i, 0]))
    faces = [face for i, face in enumerate(cube.faces) if i not in top]
    faces += [[corners[i], corners[(i + 1) % 4], 8] for i in range(4)]
    dented = trimesh.Trimesh(np.vstack([cube.vertices, [0, 0, 0.5 - depth]]), faces)
    if factor < 1:
        assert take(dented, "connected").chosen == "itself"
    else:
        # the surface above the dented triangles is one third in at their centroids, which bounds three times that
        with pytest.raises(MeshError, match=re.escape(f"its surface lies up to {depth:.3g} m inside its hull")):
            take(dented, "connected")


def test_a_mesh_with_more_neighbours_than_coal_can_count_gets_fewer_corners(tmp_path: Path) -> None:
    """A cone of 300 sides: its tip stays, and its rim is cut by less than 1 - cos(360 deg / 200)."""
    name = export(tmp_path, trimesh.creation.cone(radius=1.0, height=1.0, sections=300))
    cone = built(tmp_path, type="mesh", path=name)
    points = np.array(cone.geometry[0].points())
    assert 50 <= len(points) <= 200
    assert points[:, 2].max() == pytest.approx(1.0)
    assert cone.inertia is not None and cone.inertia.mass == pytest.approx(np.pi / 3, rel=1e-3)  # of the whole mesh
    hull = built(tmp_path, type="mesh", path=name, **{"as": "hull"})  # a cone of MuJoCo's tests: its error failed
    assert hull.taken is not None and hull.taken.error is not None
    assert 0.2 * (1.0 - np.cos(np.pi / 200)) < hull.taken.error < 1.0 - np.cos(2.0 * np.pi / 200)


@pytest.mark.parametrize("scale", [(1.0, 1.0, 1.0), (1.0, 0.1, 0.02)])
def test_a_fine_mesh_has_few_corners_near_its_surface(scale: tuple[float, float, float]) -> None:
    """A ball of 20,000 triangles, round and flattened: every corner lies within 1.5 % of the extent of the hull."""
    fine = trimesh.creation.icosphere(subdivisions=5)
    shape = convex_shape(fine.vertices * scale)
    assert shape.num_points <= 500
    points = np.array(shape.points()) / scale
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0, atol=1e-9)
    planes = ConvexHull(points).equations
    assert np.max(fine.vertices @ planes[:, :3].T + planes[:, 3]) < 0.015


def test_the_hull_of_a_mesh_can_be_taken(tmp_path: Path) -> None:
    name = export(tmp_path, l_shape())
    hull = built(tmp_path, type="mesh", path=name, **{"as": "hull"})
    assert hull.geometry[0].num_points == 10
    assert hull.taken is not None and hull.taken.error == pytest.approx(0.5, rel=0.01)  # over the notch
    assert hull.taken.summary.startswith("its hull, largest error 0.5 m, ")
    with pytest.raises(MeshError, match=r"its hull is up to 0\.5 m away from it: must be at most error = 0\.1 m"):
        built(tmp_path, type="mesh", path=name, error=0.1, **{"as": "hull"})
    convex = built(tmp_path, type="mesh", path=export(tmp_path, trimesh.creation.box((1, 1, 1))), **{"as": "hull"})
    assert convex.taken is not None and convex.taken.summary == "its hull"


@pytest.mark.parametrize("key", ["hull", "convex"])
def test_keys_that_were_replaced_name_the_new_one(key: str) -> None:
    with pytest.raises(ValueError, match=rf"\.{key}: is replaced by as; "):
        built(type="mesh", path="wedge.obj", **{key: True})


def said(folder: Path, path: str, **more: Any) -> str:
    with pytest.raises(MeshError) as caught:
        built(folder, type="mesh", path=path, **more)
    return str(caught.value)


def test_bad_meshes_are_named_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "mesh.stl"
    start = f".path = {file}: "
    assert said(tmp_path, "mesh.stl") == start + "cannot be read: No such file or directory"

    file.write_text("this is no mesh")
    assert said(tmp_path, "mesh.stl").startswith(start + "cannot be read as a mesh: ")

    box = trimesh.creation.box(extents=[1, 1, 1])
    export(tmp_path, trimesh.Trimesh(box.vertices, box.faces[:-1]))
    assert said(tmp_path, "mesh.stl") == (
        start + "has a hole of 0.5 m^2: must be at most 0.024 m^2, as a circle of a tenth of its diagonal is, to be "
        "closed; close it, set largest_hole: 0.5 to have it closed by a flat fan, or set as: hull to take its convex "
        "hull"
    )

    flat = trimesh.Trimesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2], [0, 2, 1]], process=False)
    export(tmp_path, flat)
    assert (
        said(tmp_path, "mesh.stl")
        == start + "is flat, without volume: give it a thickness, or take a shape of type box in its place"
    )

    (tmp_path / "nan.obj").write_text((HERE / "wedge.obj").read_text().replace("v 0.1 0 0\n", "v nan 0 0\n"))
    start = f".path = {tmp_path / 'nan.obj'}: has 1 vertex that is not finite, the first in line "
    assert said(tmp_path, "nan.obj").startswith(start)

    (tmp_path / "points.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\n")
    assert said(tmp_path, "points.obj").startswith(f".path = {tmp_path / 'points.obj'}: cannot be read as a mesh: ")


def test_a_mesh_that_was_read_has_shared_vertices(tmp_path: Path) -> None:
    """STL repeats the corners of every triangle; unmerged, no edge would have two triangles."""
    name = export(tmp_path, trimesh.creation.box(extents=[1, 1, 1]))
    assert len(read_mesh(tmp_path / name).vertices) == 8


# Inertias


@pytest.mark.parametrize(
    ("moments", "reason"),
    [
        ([1, 2, 2.5], ""),
        ([1, 2, 3], ""),  # flat
        (
            [1, 2, 3.1],
            "the greatest of its principal moments (1, 2, 3.1 kg m^2) must be at most the sum of the other two",
        ),
        ([0, 1, 1], "its principal moments (0, 1, 1 kg m^2) must be > 0"),
        ([-1, 1, 1], "its principal moments (-1, 1, 1 kg m^2) must be > 0"),
        ([np.nan, 1, 1], "it is not finite"),
    ],
)
def test_impossible_inertias(moments: list[float], reason: str) -> None:
    tensor = np.diag(np.array(moments, float))
    assert impossible(tensor) == reason
    if np.isfinite(moments[0]) and moments[0] != 0:
        turn = Rotation.from_euler("xyz", [0.7, 0.3, -0.5]).as_matrix()
        assert impossible(turn @ tensor @ turn.T) == reason


def test_rotations_are_about_fixed_axes() -> None:
    X = placement((1.0, 2.0, 3.0), (0.3, -0.5, 1.2))
    np.testing.assert_allclose(X.rotation, Rotation.from_euler("xyz", [0.3, -0.5, 1.2]).as_matrix(), atol=1e-15)
    assert isinstance(X, pin.SE3) and list(X.translation) == [1.0, 2.0, 3.0]
