"""Files of meshes: read in each format with its unit, and refused with the reason before anything starts."""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

from haptic_sim.geometry.fields.shells import spread_points
from haptic_sim.geometry.generate import SHAPES, numbers_of
from haptic_sim.geometry.mesh_files import MOST_TRIANGLES_READ, MeshError, merged, read_mesh


def said(path: Path) -> str:
    with pytest.raises(MeshError) as caught:
        read_mesh(path)
    return str(caught.value)


def cube() -> trimesh.Trimesh:
    return trimesh.creation.box(extents=[0.1, 0.2, 0.3])


@pytest.mark.parametrize("name", ["m.stl", "m.obj", "m.ply", "m.off", "m.glb", "m.gltf", "M.STL"])
def test_formats(tmp_path: Path, name: str) -> None:
    if name.endswith("gltf"):
        for file, content in trimesh.exchange.gltf.export_gltf(trimesh.Scene(cube())).items():
            (tmp_path / (name if file == "model.gltf" else file)).write_bytes(content)
    else:
        cube().export(tmp_path / name, file_type=name.lower().rpartition(".")[2])
    found = read_mesh(tmp_path / name, (1.0, 1.0, 2.0))
    np.testing.assert_allclose(np.ptp(found.vertices, axis=0), [0.1, 0.2, 0.6], rtol=1e-6)
    assert found.is_watertight and len(found.faces) == 12


@pytest.mark.parametrize("shape", ["gear", "mug"])
def test_a_mesh_has_the_same_order_and_points_in_all_formats(tmp_path: Path, shape: str) -> None:
    """Single-precision coordinates that all formats keep; vertices and triangles are numbered at random.

    STL numbers vertices as its triangles come; the points of a shell depend on their order, on edges above all.
    """
    mesh = merged(*SHAPES[shape](**numbers_of(shape)))
    rng = np.random.default_rng(20860)
    found = []
    for name in ("m.stl", "m.obj", "m.ply"):
        order = rng.permutation(len(mesh.vertices))
        vertices = mesh.vertices[order].astype(np.float32).astype(float)
        faces = rng.permutation(np.argsort(order)[mesh.faces])
        faces = np.stack([np.roll(face, int(rng.integers(3))) for face in faces])
        if name == "m.obj":  # trimesh's writer rounds to 8 decimals
            lines = [f"v {x!r} {y!r} {z!r}" for x, y, z in vertices.tolist()]
            lines += [f"f {a} {b} {c}" for a, b, c in (faces + 1).tolist()]
            (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        else:
            trimesh.Trimesh(vertices, faces, process=False).export(tmp_path / name)
        read = read_mesh(tmp_path / name)
        accuracy = float(np.linalg.norm(read.extents)) / 200
        points, normals, sharp = spread_points(read.vertices, read.faces, 8 * accuracy, 3 * accuracy)
        found.append((read.vertices, read.faces, points, normals, sharp))
        assert read.volume == pytest.approx(mesh.volume, rel=1e-5)
        assert len(points) > sharp > 100
    for one in found[1:]:
        for this, that in zip(one, found[0], strict=True):
            np.testing.assert_array_equal(this, that)


def test_dae_has_its_unit(tmp_path: Path) -> None:
    pytest.importorskip("collada")
    text = trimesh.exchange.dae.export_collada(cube()).decode()
    assert "<unit" not in text or 'meter="1' in text
    unit = '<asset><unit name="inch" meter="0.0254"/></asset>'
    start, _, rest = text.partition("<asset>")
    (tmp_path / "m.dae").write_text(start + unit + rest.partition("</asset>")[2])
    found = read_mesh(tmp_path / "m.dae")
    np.testing.assert_allclose(np.ptp(found.vertices, axis=0), 0.0254 * np.array([0.1, 0.2, 0.3]), rtol=1e-6)


def test_a_mirrored_mesh_is_still_turned_outwards(tmp_path: Path) -> None:
    cube().export(tmp_path / "m.stl")
    assert read_mesh(tmp_path / "m.stl", (1.0, 1.0, -1.0)).volume == pytest.approx(0.006)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("m.stl", b"\x89PNG\r\n\x1a\n" + bytes(100), "its name ends in .stl, but it is a PNG picture"),
        ("m.obj", b"PK\x03\x04" + bytes(100), "its name ends in .obj, but it is a ZIP archive"),
        ("m.stl", b"glTF" + bytes(100), "its name ends in .stl, but it is a binary glTF file (.glb)"),
        ("m.ply", b"OFF\n0 0 0\n", "its name ends in .ply, but it is an OFF file (.off)"),
        ("m.stl", b"ISO-10303-21;", "it is a STEP file; export it as a mesh"),
        ("m.stl", b"version https://git-lfs.github.com/spec/v1\n", "run git lfs pull"),
        ("m.step", b"ISO-10303-21;", "its name must end in one of .stl, .obj, .ply, .off, .gltf, .glb, .dae"),
        ("m.stl", b"", "is empty; export it again"),
        ("m.obj", b"", "is empty; export it again"),
        (
            "m.stl",
            b"solid a\nendsolid a\n",
            "cannot be read as a mesh: it is text STL without a facet; export it again",
        ),
        ("m.stl", b"solid a\n" + b" " * 90 + b"endsolid a\n", "it is text STL without a facet; export it again"),
        ("m.stl", b"abc", "neither text nor binary STL"),
        (
            "m.stl",
            bytes(80) + struct.pack("<I", 9) + bytes(100),
            "its header gives 9 triangles, it has 2: it is cut off",
        ),
        ("m.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9\n", ""),
        ("m.glb", b"glTF" + struct.pack("<II", 2, 900) + bytes(20), "it is cut off"),
        ("m.gltf", b"{}", "cannot be read as a mesh"),
        ("m.gltf", b'{"buffers": 3', "not JSON"),
        ("m.dae", b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><COLLADA/>', "defines entities of XML"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("m.") else "",
)
def test_what_is_no_mesh(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert reason in said(tmp_path / name)


def test_files_that_are_cut_off(tmp_path: Path) -> None:
    for name in ("m.stl", "m.ply", "m.off", "m.glb"):
        trimesh.creation.icosphere(subdivisions=2).export(tmp_path / name)
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content[: len(content) // 2])
        assert "cannot be read as a mesh" in said(tmp_path / name)


def test_five_million_triangles_are_refused_by_their_number(tmp_path: Path) -> None:
    count = 5_000_000
    with (tmp_path / "m.stl").open("wb") as file:
        file.write(bytes(80) + struct.pack("<I", count))
        file.truncate(84 + 50 * count)  # sparse
    assert said(tmp_path / "m.stl").startswith(
        f"has {count} triangles: must have at most {MOST_TRIANGLES_READ} triangles; simplify it"
    )


def gltf(**changed: Any) -> dict[str, Any]:
    """A triangle, with its buffer within."""
    data = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], "<f4").tobytes()
    accessor = {"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3", "min": [0, 0, 0], "max": [1, 1, 0]}
    return {
        "asset": {"version": "2.0"},
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
        "accessors": [accessor],
        "bufferViews": [{"buffer": 0, "byteLength": 36}],
        "buffers": [
            {"byteLength": 36, "uri": "data:application/octet-stream;base64," + base64.b64encode(data).decode()}
        ],
    } | changed


def test_gltf_reads_no_file_elsewhere_and_nothing_that_grows(tmp_path: Path) -> None:
    folder = tmp_path / "meshes"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(36))
    path = folder / "m.gltf"

    def written(**changed: Any) -> str:
        path.write_text(json.dumps(gltf(**changed)))
        return said(path)

    path.write_text(json.dumps(gltf(images=[{"uri": "../secret"}], materials=[{"name": "m"}])))
    assert len(read_mesh(path).faces) == 1  # pictures are not looked at
    for uri in ("../secret", str(tmp_path / "secret"), "http://example.org/b", "file:///etc/passwd"):
        found = written(buffers=[{"byteLength": 36, "uri": uri}])
        assert found.endswith("must be a file in the folder of the mesh"), found
    (folder / "link").symlink_to(tmp_path / "secret")
    assert "must be a file in the folder" in written(buffers=[{"byteLength": 36, "uri": "link"}])
    assert "its buffer gone: cannot be read" in written(buffers=[{"byteLength": 36, "uri": "gone"}])
    assert "has buffers of 3000000000 bytes" in written(buffers=[{"byteLength": 3_000_000_000, "uri": "gone"}])
    many = [{"componentType": 5126, "count": 3_000_000_000, "type": "VEC3"}]
    assert written(accessors=many).startswith("has 1000000000 triangles: must have at most")
    drawn = gltf(nodes=[{"mesh": 0}] * 300)
    drawn["accessors"][0]["count"] = 30_000
    assert written(**drawn).startswith("has 3000000 triangles")
    required = ["KHR_draco_mesh_compression"]
    assert "is compressed by KHR_draco_mesh_compression" in written(extensionsRequired=required)


def test_vertices_that_are_not_finite(tmp_path: Path) -> None:
    mesh = cube()
    mesh.vertices[3, 1] = np.nan
    faces = sum(3 in face for face in mesh.faces.tolist())  # in STL each triangle has its own corners
    for kind, count, where in (
        ("stl", faces, r"triangle \d+"),
        ("stl_ascii", faces, r"line \d+"),
        ("obj", 1, r"line \d+"),
        ("off", 1, "vertex 3"),
    ):
        path = tmp_path / f"m.{kind.partition('_')[0]}"
        mesh.export(path, file_type=kind)
        plural = "vertices that are" if count > 1 else "vertex that is"
        text = rf"has {count} {plural} not finite, the first in {where}: export it again, or repair it, with MeshLab .*"
        assert re.fullmatch(text, said(path)), said(path)
        if where.startswith("line"):
            (number,) = re.findall(r"line (\d+)", said(path))
            assert "nan" in path.read_text().splitlines()[int(number) - 1]


def test_normals_of_a_text_file_may_be_nan(tmp_path: Path) -> None:
    text = trimesh.exchange.stl.export_stl_ascii(cube()).replace("facet normal 0", "facet normal nan")
    assert "normal nan" in text
    (tmp_path / "m.stl").write_text(text)
    assert read_mesh(tmp_path / "m.stl").is_watertight


def test_blank_lines_before_what_is_not_finite_take_no_time_to_speak_of(tmp_path: Path) -> None:
    """A pattern that looked over them from each would take hours."""
    (tmp_path / "m.obj").write_text(1_000_000 * "\n" + "v nan 0 0\n")
    assert "has 1 vertex that is not finite, the first in line 1000001:" in said(tmp_path / "m.obj")


def test_a_folder_is_no_mesh(tmp_path: Path) -> None:
    assert (
        said(tmp_path)
        == "is a folder: must be a file, whose name ends in one of .stl, .obj, .ply, .off, .gltf, .glb, .dae"
    )


def test_what_files_of_meshes_say_of_images_is_not_written(tmp_path: Path, haptics: Callable[..., Any]) -> None:
    """A PLY file that names the file of an image: trimesh logs a traceback."""
    (tmp_path / "tetrahedron.ply").write_text(
        "ply\nformat ascii 1.0\ncomment TextureFile image.png\nelement vertex 4\n"
        "property float x\nproperty float y\nproperty float z\n"
        "element face 4\nproperty list uchar int vertex_indices\nend_header\n"
        "0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 2 1\n3 0 1 3\n3 0 3 2\n3 1 2 3\n"
    )
    (tmp_path / "felt.yaml").write_text(
        "{name: felt, scene: {type: world, tool: one, bodies: {one: {joint: free, mass: 1, shapes: "
        "[{type: mesh, path: tetrahedron.ply}]}}}, operator: {type: constant, wrench: [0, 0, 0, 0, 0, 0]}, "
        "device: {type: inertial}, controller: {type: virtual_coupling}, duration: 1, rate: 1000}"
    )
    program = haptics("validate", "felt.yaml")
    assert (program.wait(), program.err) == (0, "")
    assert program.out.startswith("felt: valid")
