"""Meshes that collide by fields: chosen by `as`, with one key for the error, and read from disk the second time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import trimesh
from field_scenes import torus

from haptic_sim.geometry import meshes
from haptic_sim.geometry.fields.field import arrays_of
from haptic_sim.geometry.mesh_files import merged
from haptic_sim.kept import digest_of
from haptic_sim.worlds.building import build
from haptic_sim.worlds.parameters import WorldParameters

URDF = """<robot name="ring"><link name="ring"><collision><geometry><mesh filename="ring.stl"/></geometry></collision>
<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link></robot>"""


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


def test_the_former_key_is_named() -> None:
    shape = {"type": "mesh", "path": "a.stl", "field": 1e-3}
    with pytest.raises(ValueError, match="is replaced by as and error"):
        WorldParameters.model_validate({"bodies": {"a": {"joint": "fixed", "shapes": [shape]}}, "tool": "a"})
