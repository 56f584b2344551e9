"""Coordinates of an image in files of meshes: each kind of file, seams, and files that have none that can be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from uv_meshes import crate, globe, write_obj

from haptic_sim.geometry.mesh_files import MeshError, read_coordinates, read_mesh

SIZE = (0.4, 0.3, 0.2)


def exported(path: Path) -> Path:
    """The crate, by trimesh's own writers."""
    vertices, uv, triangles = crate(SIZE)
    visual = trimesh.visual.TextureVisuals(uv=uv)
    mesh = trimesh.Trimesh(vertices, triangles, process=False, visual=visual)
    if path.suffix == ".gltf":
        files: Any = mesh.export(file_type="gltf")
        for name, content in files.items():
            (path.parent / name).write_bytes(content)
        (path.parent / "model.gltf").rename(path)
    else:
        mesh.export(path)
    return path


@pytest.mark.parametrize("ending", ["obj", "ply", "glb", "gltf", "dae"])
def test_each_kind_of_file_gives_the_coordinates_of_its_corners(tmp_path: Path, ending: str) -> None:
    """In the order of the file, with another value on either side of a seam, and the factors of the shape."""
    vertices, uv, triangles = crate(SIZE)
    corners, found = read_coordinates(exported(tmp_path / f"crate.{ending}"), (1.0, -2.0, 1.0))
    np.testing.assert_allclose(corners, vertices[triangles] * (1.0, -2.0, 1.0), atol=1e-7)
    np.testing.assert_allclose(found, uv[triangles], atol=1e-6)
    assert len(read_mesh(tmp_path / f"crate.{ending}").vertices) == 8


def test_a_seam_of_an_obj_file_is_where_corners_name_other_coordinates(tmp_path: Path) -> None:
    """Vertices that are shared, and coordinates that are not; what is a third coordinate has no effect."""
    (tmp_path / "two.obj").write_text(
        "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nvt 0 0\nvt 1 0\nvt 1 1\nvt 0.5 0.25 0\nvt 0.25 1\nvt 0 1\n"
        "f 1/1 2/2 3/3\nf 1/4 3/5 4/6\n"
    )
    corners, uv = read_coordinates(tmp_path / "two.obj")
    np.testing.assert_allclose(corners[:, 1:, :2], [[[1, 0], [1, 1]], [[1, 1], [0, 1]]])
    np.testing.assert_allclose(uv, np.array([[[0, 0], [1, 0], [1, 1]], [[0.5, 0.25], [0.25, 1], [0, 1]]]))


def test_the_parts_of_a_gltf_scene_are_placed(tmp_path: Path) -> None:
    vertices, uv, triangles = globe(columns=8, rows=4)
    visual = trimesh.visual.TextureVisuals(uv=uv)
    ball, scene = trimesh.Trimesh(vertices, triangles, process=False, visual=visual), trimesh.Scene()
    for x in (0.1, -0.1):
        scene.add_geometry(ball, transform=trimesh.transformations.translation_matrix([x, 0.0, 0.0]))
    scene.export(tmp_path / "two.glb")
    corners, found = read_coordinates(tmp_path / "two.glb")
    assert found.shape == (2 * len(triangles), 3, 2)
    one = np.abs(corners[..., 0] - 0.1).max(axis=1) < 0.031
    assert one.sum() == len(triangles)
    np.testing.assert_allclose(corners[one] - [0.1, 0.0, 0.0], vertices[triangles], atol=1e-7)


def gltf_without_coordinates_of_a_part(path: Path) -> None:
    exported(path)
    tree = json.loads(path.read_text())
    (mesh,) = tree["meshes"]
    (primitive,) = mesh["primitives"]
    bare = {**primitive, "attributes": {"POSITION": primitive["attributes"]["POSITION"]}}
    mesh["primitives"].append(bare)
    path.write_text(json.dumps(tree))


V = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\n"
PLY = (
    "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n"
    "property float s\nproperty float t\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n"
    "0 0 0 0 0\n1 0 0 1 0\n0 1 0 {} 1\n3 0 1 2\n"
)
NONE = "lacks coordinates of an image .UV. in parts with {} of its {} triangles: unwrap it"
NOT_FINITE = "has coordinates of an image that are not finite at 1 corners; unwrap it again"
HOSTILE = {
    "bare.obj": (V + "f 1 2 3\nf 1 3 4\n", NONE.format(2, 2)),
    "gone.obj": (V + "vt 0 0\nvt 1 0\nvt 1 1\nf 1/7 2/8 3/9\n", NONE.format(1, 1)),
    "half.obj": (V + "vt 0 0\nvt 1 0\nvt 1 1\no a\nf 1/1 2/2 3/3\no b\nf 1 3 4\n", NONE.format(2, 2)),
    "mixed.obj": (V + "vt 0 0\nvt 1 0\nvt 1 1\nf 1/1 2/2 3/3\nf 1 3 4\n", NONE.format(2, 2)),
    "nan.obj": (V + "vt 0 0\nvt nan 0\nvt 1 1\nf 1/1 2/2 3/3\n", NOT_FINITE),
    "pixels.obj": (V + "vt 0 0\nvt 2048 0\nvt 1 1\nf 1/1 2/2 3/3\n", "image up to 2048: must be .* in pixels"),
    "nan.ply": (PLY.format("nan"), NOT_FINITE),
    "large.ply": (PLY.format("1e30"), r"has coordinates of an image up to 1e\+30"),
    "cube.stl": ("solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\n"
                 "endfacet\nendsolid a\n", NONE.format(1, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_files_without_coordinates_that_can_be_used_are_refused(tmp_path: Path, name: str) -> None:
    content, text = HOSTILE[name]
    (tmp_path / name).write_text(content)
    with pytest.raises(MeshError, match=text) as caught:
        read_coordinates(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_a_gltf_file_with_a_part_without_coordinates_says_how_many_triangles(tmp_path: Path) -> None:
    gltf_without_coordinates_of_a_part(tmp_path / "part.gltf")
    with pytest.raises(MeshError, match=NONE.format(12, 24)):
        read_coordinates(tmp_path / "part.gltf")


def test_coordinates_of_a_ply_file_are_s_and_t(tmp_path: Path) -> None:
    (tmp_path / "one.ply").write_text(PLY.format("0.5"))
    _, uv = read_coordinates(write_obj(tmp_path / "crate.obj", *crate(SIZE)))
    assert uv.shape == (12, 3, 2)
    _, uv = read_coordinates(tmp_path / "one.ply")
    np.testing.assert_allclose(uv, np.array([[[0, 0], [1, 0], [0.5, 1]]]))
