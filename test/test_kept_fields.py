"""Meshes that collide by fields: chosen by `as`, with one key for the error, and read from disk the second time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import trimesh
from field_scenes import torus

from haptic_bench.experiment.conversion import convert_file
from haptic_sim.geometry import meshes
from haptic_sim.geometry.fields.field import arrays_of
from haptic_sim.geometry.mesh_files import merged
from haptic_sim.kept import digest_of
from haptic_sim.worlds.building import build
from haptic_sim.worlds.file_trees import Meshes, ModelFileError
from haptic_sim.worlds.model_files import load_trees
from haptic_sim.worlds.parameters import WorldParameters

URDF = """<robot name="ring"><link name="ring"><collision><geometry><mesh filename="ring.stl"/></geometry></collision>
<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link></robot>"""

HINGE = """<link name="tip"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>
</inertial></link><joint name="j" type="continuous"><parent link="ring"/><child link="tip"/></joint></robot>"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder; what is kept meanwhile is of this test alone, but beside the compiled kernels, which are used."""
    monkeypatch.setattr(meshes, "digest_of", lambda *parts: digest_of(str(tmp_path), *parts))
    return tmp_path


@pytest.mark.exhaustive
def test_the_second_field_is_the_first_one(cache: Path) -> None:
    mesh = merged(*torus(0.03, 0.012, (24, 12)))
    first, second = (meshes.take(mesh, "field", 1e-3) for _ in range(2))
    assert not first.kept and second.kept
    assert first.field is not None and second.field is not None
    for name, array in arrays_of(first.field).items():
        np.testing.assert_array_equal(array, arrays_of(second.field)[name])
    assert not meshes.take(mesh, "field", 1.1e-3).kept
    assert "kept from before" in second.summary and "signed distance field" in second.summary


@pytest.mark.exhaustive
def test_automatic_takes_a_field_where_there_are_too_many_triangles(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh = merged(*torus(0.03, 0.012, (24, 12)))
    monkeypatch.setattr(meshes, "MOST_TRIANGLES", len(mesh.faces) - 1)
    assert meshes.take(mesh, "automatic", 1e-3).chosen == "field"
    with pytest.raises(meshes.MeshError, match="must have at most"):
        meshes.take(mesh, "pieces")


@pytest.mark.exhaustive
def test_a_mesh_of_a_file_is_a_field_and_said(cache: Path) -> None:
    trimesh.Trimesh(*torus(0.03, 0.012, (24, 12))).export(cache / "ring.stl")
    (cache / "ring.urdf").write_text(URDF)
    files = {"f": {"path": str(cache / "ring.urdf"), "base": "free", "meshes": "field"}}
    ball = {"joint": "fixed", "shapes": [{"type": "sphere", "radius": 0.01}]}
    scene = {"type": "world", "files": files, "bodies": {"ball": ball}, "tool": "f/ring"}
    found = build(WorldParameters.model_validate(scene), cache)
    (mesh,) = found.meshes
    assert mesh.body == "f/ring" and mesh.taken.chosen == "field" and mesh.count == 1
    assert len(found.solid_fields) == 2
    assert "mesh ring.stl of ring: signed distance field" in found.notes[0]


FILES = {
    "ring.urdf": URDF,
    "ring.sdf": """<sdf version="1.9"><model name="ring"><link name="ring"><collision name="c"><geometry>
<mesh><uri>ring.stl</uri></mesh></geometry></collision></link></model></sdf>""",
    "ring.xml": """<mujoco><asset><mesh name="ring" file="ring.stl"/></asset><worldbody><body name="ring"><freejoint/>
<geom type="mesh" mesh="ring"/></body></worldbody></mujoco>""",
}


@pytest.mark.parametrize("name", list(FILES))
def test_meshes_of_a_file_have_the_error_that_is_wanted_of_them(cache: Path, name: str) -> None:
    """Of fields, which stay finer than the mesh is small; of hulls, which are refused beyond it; and of pieces."""
    vertices, triangles = torus(0.03, 0.012, (24, 12))
    trimesh.Trimesh(vertices, triangles).export(cache / "ring.stl")
    (cache / name).write_text(FILES[name])

    def taken(how: Meshes, error: float | None) -> meshes.Taken:
        (tree,) = load_trees(cache / name, how, error)[0]
        assert tree.shapes[0].taken is not None
        return tree.shapes[0].taken

    diagonal = float(np.linalg.norm(np.ptp(vertices, axis=0)))
    for wanted, accuracy in ((1.5e-3, 1.5e-3), (1.0, diagonal / 20.0)):
        for how in ("field", "automatic"):
            field = taken(how, wanted).field
            assert field is not None and field.accuracy == pytest.approx(accuracy, rel=1e-6)
    for how in ("hull", "either"):
        assert taken(how, 0.03).chosen == taken(how, None).chosen == "hull"
        with pytest.raises(ModelFileError, match=r"mesh \S+ its hull is up to 0\.0\d+ m away from it: must be at most "
                           r"error = 0\.001 m; ask for more, or set meshes: pieces or meshes: field"):  # fmt: skip
            taken(how, 1e-3)


@pytest.mark.exhaustive
def test_the_error_of_a_file_is_a_key_of_the_scene_and_survives_convert(cache: Path) -> None:
    trimesh.Trimesh(*torus(0.03, 0.012, (24, 12))).export(cache / "ring.stl")
    (cache / "ring.urdf").write_text(URDF.replace("</robot>", "").replace('name="ring">', 'name="rings">', 1) + HINGE)
    files = {"f": {"path": "ring.urdf", "meshes": "pieces", "error": 1.5e-3}}
    (mesh,) = build(WorldParameters.model_validate({"files": files, "tool": "f/tip"}), cache).meshes
    assert mesh.taken.chosen == "pieces" and mesh.taken.error is not None and mesh.taken.error <= 1.5e-3
    converted = convert_file(str(cache / "ring.urdf"), cache / "made.yaml", meshes="field", error=1.5e-3)
    shapes = [one for body in converted.document["scene"]["bodies"].values() for one in body.get("shapes", ())]
    assert [(one["as"], one["error"]) for one in shapes] == [("field", 1.5e-3)]
    with pytest.raises(ValueError, match="error"):
        WorldParameters.model_validate({"files": {"f": {"path": "ring.urdf", "error": 0.0}}, "tool": "f/ring"})


def test_the_former_key_is_named() -> None:
    shape = {"type": "mesh", "path": "a.stl", "field": 1e-3}
    with pytest.raises(ValueError, match="is replaced by as and error"):
        WorldParameters.model_validate({"bodies": {"a": {"joint": "fixed", "shapes": [shape]}}, "tool": "a"})


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("turned", "said"), [(slice(None), "it was inside out"), (slice(0, 40), "turned the wrong way")]
)
def test_triangles_that_face_the_wrong_way_are_turned_and_said(cache: Path, turned: slice, said: str) -> None:
    """Field and mass are those of the mesh before."""
    vertices, triangles = torus(0.03, 0.012, (24, 12))
    wrong = triangles.copy()
    wrong[turned] = wrong[turned, ::-1]
    right, found = (meshes.take(merged(vertices, faces), "field", 2e-3) for faces in (triangles, wrong))
    assert said in found.summary and "turned" not in right.summary
    for one, other in zip(found.mass, right.mass, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-18)
    assert right.field is not None and found.field is not None
    np.testing.assert_array_equal(found.field.grid.number, right.field.grid.number)
    np.testing.assert_allclose(found.field.grid.blocks, right.field.grid.blocks, atol=1e-9)


def test_a_mesh_whose_inertia_is_not_positive_is_refused() -> None:
    """A cube with a long rod that is inside out: of positive volume, and a negative inertia across the rod."""
    cube, rod = trimesh.creation.box((1.0, 1.0, 1.0)), trimesh.creation.cylinder(0.05, 60.0, sections=16)
    rod.invert()
    with pytest.raises(meshes.MeshError, match="its inertia is not positive"):
        meshes.mesh_mass(trimesh.util.concatenate([cube, rod]))


def test_a_rod_whose_ends_face_inwards_has_the_mass_of_a_rod() -> None:
    """Its winding numbers are those of a rod but near its ends; integrals had a negative inertia."""
    rod = trimesh.creation.cylinder(0.5, 60.0, sections=16)
    ends = np.abs(rod.face_normals[:, 2]) > 0.5
    faces = np.where(ends[:, None], rod.faces[:, ::-1], rod.faces)
    volume, centre, inertia = meshes.mesh_mass(trimesh.Trimesh(rod.vertices, faces, process=False))
    assert volume == pytest.approx(rod.volume, rel=0.03)
    assert centre == pytest.approx(np.zeros(3), abs=0.1)
    assert inertia[2, 2] == pytest.approx(rod.moment_inertia[2, 2], rel=0.03)


@pytest.mark.parametrize("triangles", [[[0, 1, 2]], [[0, 1, 2], [0, 2, 1]]], ids=["one triangle", "flat"])
def test_what_has_no_inside_has_no_field(triangles: list[list[int]]) -> None:
    flat = trimesh.Trimesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], triangles, process=False)
    with pytest.raises(meshes.MeshError, match=r"^is flat, without volume"):
        meshes.take(flat, "field")
