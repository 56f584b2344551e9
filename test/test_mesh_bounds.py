"""Files of meshes that stand for more than they hold: few bytes with many triangles, deep nodes, circles."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path

import pytest

from haptic_bench import catalogue
from haptic_sim.geometry import mesh_files
from haptic_sim.geometry.mesh_files import MeshError, check_file, read_mesh
from haptic_sim.worlds.model_files import ModelFileError, load_trees

TRIANGLE = "<instance_geometry url='#g'/>"


def dae(scene: str, library: str = "") -> str:
    """A scene of one triangle, from its corner to the unit points of x and y."""
    return (
        '<?xml version="1.0"?><COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1"><asset/>'
        '<library_geometries><geometry id="g"><mesh><source id="p"><float_array id="pa" count="9">0 0 0 1 0 0 0 1 0'
        '</float_array><technique_common><accessor source="#pa" count="3" stride="3"><param name="X" type="float"/>'
        '<param name="Y" type="float"/><param name="Z" type="float"/></accessor></technique_common></source>'
        '<vertices id="v"><input semantic="POSITION" source="#p"/></vertices><triangles count="1">'
        '<input semantic="VERTEX" source="#v" offset="0"/><p>0 1 2</p></triangles></mesh></geometry>'
        f'</library_geometries><library_nodes>{library}</library_nodes><library_visual_scenes><visual_scene id="s">'
        f'{scene}</visual_scene></library_visual_scenes><scene><instance_visual_scene url="#s"/></scene></COLLADA>'
    )


def named(name: str, content: str, times: int = 1) -> str:
    return f'<node id="{name}">{content * times}</node>'


def instance(name: str) -> str:
    return f'<instance_node url="#{name}"/>'


GROWTH = named("n0", TRIANGLE, 10) + "".join(named(f"n{i}", instance(f"n{i - 1}"), 10) for i in range(1, 8))


def gltf(nodes: list[dict[str, object]]) -> str:
    data = base64.b64encode(struct.pack("<9f", 0, 0, 0, 1, 0, 0, 0, 1, 0)).decode()
    return json.dumps(
        {
            "asset": {"version": "2.0"},
            "scenes": [{"nodes": [0]}],
            "nodes": nodes,
            "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
            "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}],
            "bufferViews": [{"buffer": 0, "byteLength": 36}],
            "buffers": [{"byteLength": 36, "uri": f"data:application/octet-stream;base64,{data}"}],
        }
    )


BOMBS = {
    "deep.dae": (dae("<node>" * 200 + TRIANGLE + "</node>" * 200), "has more than 100 nested elements"),
    "grown.dae": (dae(named("s", instance("n7")), GROWTH), "has 100000000 triangles: must have at most 2000000"),
    "loop.dae": (dae(named("s", instance("a")), named("a", instance("a"))), "node a: is an instance of itself"),
    "deep.gltf": (gltf([*({"children": [i + 1]} for i in range(150)), {"mesh": 0}]), "in more than 100 others"),
    "grown.gltf": (
        gltf([*({"children": [i + 1, i + 1]} for i in range(30)), {"mesh": 0}]),
        "node 1: is the child of two nodes: must be that of one",
    ),
    "loop.gltf": (gltf([{"children": [0], "mesh": 0}]), "node 0: is below itself"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_file_that_grows_is_refused_before_it_is_parsed(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By our reader, and before assimp, which ends by a signal or never (coal 3.0), is given it by a robot's file."""
    import coal
    import trimesh

    def parse(*_: object, **__: object) -> None:
        raise AssertionError("was parsed")

    monkeypatch.setattr(trimesh, "load_scene", parse)
    monkeypatch.setattr(coal.MeshLoader, "load", parse)
    text, said = BOMBS[name]
    (tmp_path / name).write_text(text)
    for read in (read_mesh, check_file):
        with pytest.raises(MeshError, match=said):
            read(tmp_path / name)
    shape = '<collision name="c"><geometry><mesh {0}</geometry></collision>'
    urdf = f'<robot name="r"><link name="a">{shape.format(f"filename={chr(34)}{name}{chr(34)}/>")}</link></robot>'
    placed = shape.format(f"><uri>{name}</uri></mesh>")
    sdf = f'<sdf version="1.9"><model name="r"><link name="a">{placed}</link></model></sdf>'
    for ending, content in ((".urdf", urdf), (".sdf", sdf)):
        path = tmp_path / f"r{ending}"
        path.write_text(content)
        with pytest.raises(ModelFileError, match=said):
            load_trees(path, "hull")


def test_instances_are_counted_as_they_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """3 by 4 instances, those of a library that no scene names not among them; trimesh draws as many."""
    library = named("row", TRIANGLE, 4) + named("unused", TRIANGLE, 50)
    path = tmp_path / "a.dae"
    path.write_text(dae(named("s", instance("row"), 3), library))
    assert len(read_mesh(path).faces) == 12
    monkeypatch.setattr(mesh_files, "MOST_PARTS_READ", 12)
    check_file(path)
    monkeypatch.setattr(mesh_files, "MOST_PARTS_READ", 11)
    with pytest.raises(MeshError, match="has 12 instances of meshes: must have at most 11; join them"):
        check_file(path)
    path = tmp_path / "a.gltf"
    path.write_text(gltf([{"children": [1, 2]}, {"mesh": 0}, {"mesh": 0, "translation": [2, 0, 0]}]))
    assert len(read_mesh(path).faces) == 2
    monkeypatch.setattr(mesh_files, "MOST_PARTS_READ", 1)
    with pytest.raises(MeshError, match="has 2 instances of meshes"):
        check_file(path)


FACES = {
    "a.stl": b"solid x\n"
    + b"facet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendfacet\n" * 7
    + b"endsolid x\n",
    "a.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 0\n" + b"f 1 2 3\n" * 7,
    "a.off": b"OFF\n# written by hand\n3 7 0\n0 0 0\n1 0 0\n0 1 0\n" + b"3 0 1 2\n" * 7,
    "a.ply": b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n"
    b"element face 7\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n1 0 0\n0 1 0\n" + b"3 0 1 2\n" * 7,
}  # fmt: skip


@pytest.mark.parametrize("name", FACES)
def test_faces_are_counted_before_they_are_parsed(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / name
    path.write_bytes(FACES[name])
    assert len(read_mesh(path).faces) == 7
    monkeypatch.setattr(mesh_files, "MOST_TRIANGLES_READ", 6)
    with pytest.raises(MeshError, match="has 7 triangles: must have at most 6 triangles; simplify it"):
        check_file(path)


def test_a_mesh_that_is_given_for_a_world_is_answered_with_what_to_write(tmp_path: Path) -> None:
    (tmp_path / "mug.stl").write_bytes(FACES["a.stl"])
    assert set(catalogue.MESHES) == set(mesh_files.KINDS)
    with pytest.raises(catalogue.NotThere, match="is a mesh, the shape of a body; write it into a world, as docs/"):
        catalogue.find(str(tmp_path / "mug.stl"))


def test_a_mesh_in_the_working_folder_is_no_experiment_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named without a folder, it was taken for the name of an experiment."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flat.STL").write_text("")
    with pytest.raises(catalogue.NotThere, match=r"experiment flat\.STL: is a mesh, the shape of a body"):
        catalogue.find("flat.STL")
    with pytest.raises(catalogue.NotThere, match=r"experiment gone\.stl: cannot be read"):
        catalogue.find("gone.stl")
